package executor_test

import (
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
)

// Each round takes 2 s by a clock of the test. Charged once, a starts at 2; charged twice, at 4. What arrives or ends
// meanwhile is seen after the round and counts from when it happened: b, which arrives at 1, is planned when the first
// round is over, and a takes its 10 s whatever is charged.
func TestPlanningIsChargedToVirtualTime(t *testing.T) {
	for _, x := range []struct {
		charge                    float64
		startA, endA, seenB, endB planner.Time
	}{
		{0, 0, 10e9, 1e9, 6e9},
		{1, 2e9, 12e9, 2e9, 9e9},
		{2, 4e9, 14e9, 4e9, 13e9},
	} {
		p := single(1, 1)
		var clock time.Duration
		reads := 0
		e := enginetest.New(t, p, enginetest.Policy(t, "gbf"),
			executor.Submission{Name: "A", Workflow: dag("A", "a=10")},
			executor.Submission{Name: "B", At: 1e9, Workflow: dag("B", "b=5")})
		e.Charge = x.charge
		e.Wall = func() time.Duration {
			if reads++; reads%2 == 0 {
				clock += 2 * time.Second
			}
			return clock
		}
		usage, seen, n := map[planner.TaskID]planner.Usage{}, map[planner.WorkflowID]planner.Time{},
			planner.WorkflowID(0)
		e.Watch = func(v planner.View, events []planner.Event, _ []*executor.Admission) {
			for _, ev := range events {
				switch b := ev.Body.(type) {
				case *planner.WorkflowArrived:
					seen[n] = ev.At
					n++
				case *planner.AttemptExited:
					usage[v.Attempt(b.Attempt).Task] = b.Usage
				}
			}
		}
		enginetest.Run(t, e)
		if got := usage[0]; got.Started != x.startA || got.Ended != x.endA {
			t.Errorf("charged %g times: a runs from %v to %v, want %v to %v", x.charge, got.Started, got.Ended,
				x.startA, x.endA)
		}
		if seen[1] != x.seenB || usage[1].Ended != x.endB {
			t.Errorf("charged %g times: B is seen at %v and ends at %v, want %v and %v", x.charge, seen[1],
				usage[1].Ended, x.seenB, x.endB)
		}
	}
}
