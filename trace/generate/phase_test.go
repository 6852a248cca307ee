package generate_test

import (
	"bytes"
	"io"
	"testing"

	"gantry/trace"
)

func TestPhasesSurviveWritingAndReading(t *testing.T) {
	want := made(t, "cybershake", 30, 1)
	for name, write := range map[string]func(io.Writer, *trace.Workflow) error{"DAX": trace.WriteDAX,
		"WfFormat": trace.WriteWfFormat} {
		var b bytes.Buffer
		must(t, write(&b, want))
		got, faults, err := trace.Read(&b, "w", trace.ReadOptions{})
		if err != nil || trace.HasErrors(faults) {
			t.Fatalf("%s: %v %v", name, err, faults)
		}
		for i := range got.Tasks {
			if x := &got.Tasks[i]; x.Phase == 0 || x.Phase != want.Tasks[i].Phase {
				t.Errorf("%s: %s is in phase %d, was in %d", name, x.Kind, x.Phase, want.Tasks[i].Phase)
			}
		}
	}
}
