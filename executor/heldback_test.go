package executor_test

import (
	"slices"
	"testing"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
)

// A task of 10 s that reading holds back for 15 s wherever it is: estimates have the longer of the two on each node.
func TestEstimatesKnowWhatReadingHoldsBack(t *testing.T) {
	for _, c := range []struct {
		speeds []float64
		lasts  time.Duration
		run    time.Duration
		on     []time.Duration
	}{
		{[]float64{1, 1}, 0, 10 * time.Second, nil},
		{[]float64{1, 1}, 15 * time.Second, 15 * time.Second, nil},
		{[]float64{1, 0.5}, 15 * time.Second, 10 * time.Second, []time.Duration{15 * time.Second, 20 * time.Second}},
		{[]float64{1, 0.5}, 5 * time.Second, 10 * time.Second, nil},
	} {
		p := &planner.Platform{Groups: []string{""}}
		for i, speed := range c.speeds {
			p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(i), Speed: speed, Capacity: unit.Cores(1)})
		}
		var run time.Duration
		var on []time.Duration
		adm := &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1,
			Declare: func(_ planner.TaskID, r time.Duration, o []time.Duration, _ planner.Source) { run, on = r, o },
			Lasts:   func(*executor.Launch) time.Duration { return c.lasts }}
		w := &trace.Workflow{Label: "w", Tasks: []trace.Task{{ID: "a", Cores: 1, Runtime: 10 * time.Second,
			Known: trace.Runtime}}}
		if _, err := adm.Admit(&executor.Submission{Name: "w", Workflow: w}, 0); err != nil {
			t.Fatal(err)
		}
		if run != c.run || !slices.Equal(on, c.on) {
			t.Errorf("speeds %v, held back for %v: declared are %v and %v, not %v and %v", c.speeds, c.lasts, run, on,
				c.run, c.on)
		}
	}
}
