package trace_test

import (
	"strings"
	"testing"
	"time"

	"gantry/trace"
)

// A specification of WfBench has no runtimes: its tasks take what their arguments say. A task that was measured keeps
// its own.
func TestSpecificationsOfWfBench(t *testing.T) {
	const spec = `{"name":"b","schemaVersion":"1.4","workflow":{"tasks":[
		{"name":"one","id":"1","runtimeInSeconds":0,"parents":[],"children":[],"command":{"program":"wfbench",
			"arguments":["--name 1","--percent-cpu 0.5","--cpu-work 40","--mem 200","--output-files {\"a\": 7}"]}},
		{"name":"two","id":"2","parents":[],"children":[],"command":{"program":"wfbench.py",
			"arguments":["2","--percent-cpu","0.9","--cpu-work","80"]}},
		{"name":"three","id":"3","runtimeInSeconds":5,"parents":[],"children":[],"command":{"program":"wfbench",
			"arguments":["--percent-cpu 0.5","--cpu-work 40"]}},
		{"name":"four","id":"4","runtimeInSeconds":0,"parents":[],"children":[],"command":{"program":"wfbench",
			"arguments":["--percent-cpu 7","--cpu-work -4"]}}]}}`
	w, _, err := trace.Read(strings.NewReader(spec), "b.json", trace.ReadOptions{})
	must(t, err)
	var rules []string
	for _, i := range trace.Impute(w, trace.Defaults{}) {
		rules = append(rules, i.String())
	}
	for i, want := range []struct {
		runtime time.Duration
		cpu     float64
		memory  int64
	}{{time.Second, 50, 200e6}, {2 * time.Second, 90, 0}, {5 * time.Second, 100, 0}, {0, 100, 0}} {
		if x := &w.Tasks[i]; x.Runtime != want.runtime || x.AvgCPU != want.cpu || x.MemoryBytes != want.memory {
			t.Errorf("task %s runs %v at %g %% with %d B; want %v", x.ID, x.Runtime, x.AvgCPU, x.MemoryBytes, want)
		}
	}
	const work = "runtime of 2: 25 ms for each unit of WfBench's --cpu-work"
	if all := strings.Join(rules, "\n"); !strings.Contains(all, work) {
		t.Errorf("the rules are\n%s", all)
	}
}
