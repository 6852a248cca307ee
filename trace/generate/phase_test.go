package generate_test

import (
	"bytes"
	"testing"

	"gantry/trace"
	"gantry/trace/reader"
)

func TestPhasesSurviveWritingAndReading(t *testing.T) {
	want := made(t, "cybershake", 30, 1)
	var b bytes.Buffer
	must(t, trace.WriteWfFormat(&b, want))
	got, faults, err := trace.Read(&b, "w", trace.ReadOptions{})
	if err != nil || reader.HasErrors(faults) {
		t.Fatal(err, faults)
	}
	for i := range got.Tasks {
		if x := &got.Tasks[i]; x.Phase == 0 || x.Phase != want.Tasks[i].Phase {
			t.Errorf("%s is in phase %d, was in %d", x.Kind, x.Phase, want.Tasks[i].Phase)
		}
	}
}
