package sqlite

import (
	"encoding/binary"
	"reflect"
	"runtime"
	"testing"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/generate"
)

// An admission comes back from its definition as it was.
func TestDefinitionsOfDrawnWorkflowsAreWholeAgain(t *testing.T) {
	node := planner.Node{Capacity: unit.Vector{unit.CPU: 64000, unit.Memory: 64 << 30, unit.Disk: unit.Unlimited},
		Speed: 1}
	for _, kind := range generate.Kinds() {
		for seed := range uint64(6) {
			n := max(kind.Least, 20+int(seed))
			w, err := generate.New(kind.Name, n, seed, generate.Options{Bare: seed%2 == 0})
			if err != nil {
				t.Fatal(err)
			}
			trace.Impute(w, trace.Defaults{})
			adm := executor.Admitter{Platform: &planner.Platform{Nodes: []planner.Node{node}}, TimeScale: 0.5,
				SizeScale: 1}
			if seed > 2 {
				adm.TimeScale = 1
				adm.Actual = func(id planner.TaskID, run time.Duration) time.Duration {
					return run + time.Duration(id)
				}
			}
			var a *executor.Admission
			for i := range 2 { // the second one's tasks are not numbered from 0
				sub := executor.Submission{Name: string(rune('a' + i)), Workflow: w, Due: 5}
				if a, err = adm.Admit(&sub, 7); err != nil {
					t.Fatal(err)
				}
			}
			blob, err := encodeAdmission(a)
			if err != nil {
				t.Fatal(err)
			}
			got, err := decodeAdmission(blob)
			if err != nil {
				t.Fatalf("%s of %d tasks: %v", kind.Name, n, err)
			}
			if !reflect.DeepEqual(got, a) {
				t.Errorf("%s of %d tasks, seed %d: what is read is not what was written", kind.Name, n, seed)
			}
			for i := range min(len(blob), 50*int(2-seed%3)) { // cut short
				if _, err := decodeAdmission(blob[:i]); err == nil {
					t.Fatalf("%s of %d tasks: %d of %d bytes are read", kind.Name, n, i, len(blob))
				}
			}
		}
	}
}

// A log may come from anybody: a definition gets no memory before there is data for it.
func TestADefinitionThatClaimsToBeLargeTakesNoMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, claimed := range []uint64{1 << 20, largestDefinition, 1 << 32} {
		blob := append(binary.AppendUvarint([]byte{s2Magic}, claimed), 0, 0, 0)
		if _, err := decodeAdmission(blob); err == nil {
			t.Errorf("%d bytes that claim to be %d are read", len(blob), claimed)
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("it took %d bytes", took)
	}
}
