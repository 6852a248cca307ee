package trace_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gantry/trace"
)

// Runtimes of machines with a relative speed become those at speed 1, exactly; a small memory of such a machine is
// meant as it is written.
func TestRuntimesCountAtTheSpeedOfTheirMachine(t *testing.T) {
	const file = `{"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": [
		{"name": "a", "id": "a", "parents": [], "children": []}]}, "execution": {"makespanInSeconds": 1,
		"executedAt": "unknown", "tasks": [{"id": "a", "runtimeInSeconds": %s, "memoryInBytes": 1000,
		"memoryNeededInBytes": 5000, "overheadInSeconds": 8.529001173, "machines": ["other", "m"]}],
		"machines": [{"nodeName": "m", "memoryInBytes": 500000000, "cpu": {"coreCount": 8, "speedInMHz": 2400%s}}]}}}`
	for _, c := range []struct {
		runtime, speed string
		want           time.Duration
	}{
		{"10", `, "relativeSpeed": 0.3`, 3 * time.Second},
		{"3.333333333", `, "relativeSpeed": 0.3`, time.Second},
		{"0.588235294", `, "relativeSpeed": 1.7`, time.Second},
		{"2", `, "relativeSpeed": 1`, 2 * time.Second},
		{"1e9", `, "relativeSpeed": 1e6`, -1},
		{"10", `, "relativeSpeed": 0`, -1},
		{"10", `, "relativeSpeed": "fast"`, -1},
	} {
		flow, faults, err := trace.Read(strings.NewReader(fmt.Sprintf(file, c.runtime, c.speed)), "w.json",
			trace.ReadOptions{})
		must(t, err)
		if c.want < 0 {
			if !trace.HasErrors(faults) || !strings.Contains(fmt.Sprint(faults), "relativeSpeed") {
				t.Errorf("%s s at %s: %v", c.runtime, c.speed, faults)
			}
			continue
		}
		if trace.HasErrors(faults) {
			t.Fatalf("%s s at %s: %v", c.runtime, c.speed, faults)
		}
		a := flow.Tasks[0]
		if c.want > 0 && a.Runtime != c.want || a.Runtime <= 0 || a.MemoryBytes != 5000 ||
			a.Overhead != 8_529_001_173 {
			t.Errorf("%s s at %s: %v, %v around it, %d bytes", c.runtime, c.speed, a.Runtime, a.Overhead, a.MemoryBytes)
		}
	}
}

// Work that a simulation rounded down to nanoseconds of a machine is found again.
func TestWorkComesBackToTheNanosecond(t *testing.T) {
	const work = 1370 * time.Millisecond
	for speed, want := range map[float64]string{1.3: `"runtimeInSeconds":1.053846153846153846`,
		1: `"runtimeInSeconds":1.37}`, 1.0 / 3: `"runtimeInSeconds":4.11000000000000041`, 7e5: ""} {
		flow := &trace.Workflow{Name: "w", Tasks: []trace.Task{{ID: "a", Retries: -1}}}
		var text strings.Builder
		must(t, trace.WriteExecution(&text, flow, &trace.Execution{Machines: []trace.Machine{{Name: "m", Speed: speed}},
			Tasks: []trace.TaskExecution{{Ran: true, Runtime: time.Duration(float64(work) / speed), Work: work,
				Speed: speed, Machine: "m"}}}))
		again, faults, err := trace.Read(strings.NewReader(text.String()), "w.json", trace.ReadOptions{})
		must(t, err)
		if trace.HasErrors(faults) || again.Tasks[0].Runtime != work || !strings.Contains(text.String(), want) {
			t.Errorf("at speed %g: %v, want %v; %v\n%s", speed, again.Tasks[0].Runtime, work, faults, text.String())
		}
	}
}
