package executor_test

import (
	"reflect"
	"testing"

	"gantry/executor"
	"gantry/trace"
)

func TestStagesAreThePhasesOfTheTraceOrLevels(t *testing.T) {
	const dummy = -1
	chain := func(phases ...int32) *trace.Workflow {
		w := &trace.Workflow{Label: "chain"}
		for i, p := range phases {
			t := trace.Task{ID: string(rune('a' + i)), Cores: 1, Phase: max(0, p)}
			if p == dummy {
				t.Known = trace.Runtime
			}
			w.Tasks = append(w.Tasks, t)
			if i > 0 {
				w.Tasks[i-1].Children, w.Tasks[i].Parents = []int32{int32(i)}, []int32{int32(i - 1)}
			}
		}
		return w
	}
	for _, c := range []struct{ phases, want []int32 }{
		{[]int32{0, 0, 0}, []int32{0, 1, 2}}, // levels
		{[]int32{2, 2, 5}, []int32{1, 1, 4}},
		{[]int32{1, 0, 2}, []int32{0, 0, 1}}, // a dummy task is in its parent's
		{[]int32{0, 3, 0}, []int32{0, 2, 2}},
		{[]int32{dummy, 0, dummy, dummy, 0, dummy}, []int32{0, 0, 0, 0, 1, 1}}, // nor does it make a level
	} {
		p := single(1)
		adm, err := (&executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1}).Admit(&executor.Submission{Name: "w",
			Workflow: chain(c.phases...)}, 0)
		must(t, err)
		var got []int32
		for _, x := range adm.Arrived.Tasks {
			got = append(got, x.Stage)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("phases %v: stages %v, want %v", c.phases, got, c.want)
		}
	}
}
