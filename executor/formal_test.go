package executor_test

import (
	"fmt"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/unit"
	"gantry/trace"
)

// withEnds is a fork of three tasks of two seconds between an entry and an exit that take no time.
func withEnds() *trace.Workflow {
	w := &trace.Workflow{Name: "ends", Label: "ends"}
	for i, run := range []time.Duration{0, 2, 2, 2, 0} {
		w.Tasks = append(w.Tasks, trace.Task{ID: fmt.Sprint("t", i), Kind: "k", Cores: 1, Retries: -1,
			Runtime: run * time.Second, Known: trace.Runtime})
	}
	for i := int32(1); i < 4; i++ {
		w.Tasks[0].Children, w.Tasks[4].Parents = append(w.Tasks[0].Children, i), append(w.Tasks[4].Parents, i)
		w.Tasks[i].Parents, w.Tasks[i].Children = []int32{0}, []int32{4}
	}
	return w
}

// Two workflows meet one processor, which is busy all the time: what takes no time waits for nobody.
func TestTasksWithoutRuntimeTakeNoPlace(t *testing.T) {
	for _, row := range policy.Table() {
		t.Run(row.Name, func(t *testing.T) {
			p := single(1)
			asked := 0
			e := enginetest.New(t, p, enginetest.Policy(t, row.Name),
				executor.Submission{Name: "a", Workflow: withEnds(), Due: unit.Never},
				executor.Submission{Name: "b", Workflow: withEnds(), At: 1e9, Release: 1e9, Due: unit.Never})
			e.Runtime = sim.New(sim.Config{Platform: p, Fault: func(l *executor.Launch) (planner.Outcome, float64) {
				asked++
				return planner.OK, 1
			}})
			begun, done := map[planner.TaskID]planner.Time{}, map[planner.TaskID]planner.Time{}
			e.Watch = func(v planner.View, events []planner.Event, _ []*executor.Admission) {
				for _, ev := range events {
					switch b := ev.Body.(type) {
					case planner.AttemptStarted:
						begun[v.Attempt(b.Attempt).Task] = ev.At
					case *planner.AttemptExited:
						done[v.Attempt(b.Attempt).Task] = ev.At
					}
				}
			}
			enginetest.Run(t, e)
			if asked != 6 {
				t.Errorf("the runtime ran %d tasks, 6 take time", asked)
			}
			for flow, arrived := range []planner.Time{0, 1e9} {
				entry, exit := planner.TaskID(5*flow), planner.TaskID(5*flow+4)
				if begun[entry] != arrived || done[entry] != arrived {
					t.Errorf("the entry of workflow %d ran from %v to %v, it arrived at %v", flow, begun[entry],
						done[entry], arrived)
				}
				last := max(done[entry+1], done[entry+2], done[entry+3])
				if done[exit] != last || last == 0 {
					t.Errorf("the exit of workflow %d ended at %v, the last task at %v", flow, done[exit], last)
				}
				first := min(begun[entry+1], begun[entry+2], begun[entry+3])
				if started, _ := e.Planner.View().Times(planner.WorkflowID(flow)); started != first {
					t.Errorf("workflow %d began at %v, its first task that takes time at %v", flow, started, first)
				}
			}
			if now := e.Planner.View().Now(); now != 12e9 {
				t.Errorf("six tasks of 2 s on one processor took %v", now)
			}
		})
	}
}
