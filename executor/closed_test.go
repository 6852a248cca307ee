package executor_test

import (
	"slices"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
)

// A closed system of two jobs on one CPU: the next arrives as one ends, and its deadline counts from there.
func TestAClosedSystemAdmitsTheNextWorkflowAsOneEnds(t *testing.T) {
	e := enginetest.New(t, single(1), enginetest.Policy(t, "cpp"))
	for _, name := range []string{"a", "b", "c", "d"} {
		e.Arrivals = append(e.Arrivals, executor.Submission{Name: name, Workflow: dag(name, "t=10"), Population: 2,
			Class: planner.Deadline, Due: 15e9})
	}
	var arrived, due []time.Duration
	most := 0
	e.Watch = func(v planner.View, _ []planner.Event, admitted []*executor.Admission) {
		for _, a := range admitted {
			arrived = append(arrived, time.Duration(a.Arrived.Workflow.Arrived)/time.Second)
			due = append(due, time.Duration(a.Arrived.Workflow.Due)/time.Second)
		}
		most = max(most, len(v.Present()))
	}
	enginetest.Run(t, e)
	if !slices.Equal(arrived, []time.Duration{0, 0, 10, 20}) || !slices.Equal(due, []time.Duration{15, 15, 25, 35}) ||
		most != 2 {
		t.Errorf("arrivals at %v s, deadlines at %v s, at most %d in the system", arrived, due, most)
	}
}
