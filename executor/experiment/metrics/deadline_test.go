package metrics_test

import (
	"math"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/experiment/metrics"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
)

// One processor, first come, first served: a runs 0 to 4, b, which may only start at 10, from 10 to 12, c from 4 to 9.
func deadlines() []executor.Submission {
	return []executor.Submission{
		{Name: "a", Workflow: workflow("a", "a=4"), Due: 4e9},
		{Name: "b", Workflow: workflow("b", "b=2"), Release: 10e9, Due: 11e9},
		{Name: "c", At: 1e9, Workflow: workflow("c", "c=5"), Due: 10e9},
	}
}

func TestProportionLateAndTurnaroundCountFromTheEarliestStart(t *testing.T) {
	c := simulate(t, "cpp", platform(1), sim.Config{}, deadlines()...)
	for i, want := range []struct {
		late       bool
		turnaround float64
	}{{false, 4}, {true, 2}, {false, 8}} { // a ends at its very deadline, which is on time
		w := &c.Workflows()[i]
		if w.Late() != want.late {
			t.Errorf("%s late: %v", w.Name, w.Late())
		}
		near(t, w.Name+" turnaround", w.Turnaround().Seconds(), want.turnaround)
	}
	v := values(c, metrics.Window{})
	near(t, "proportion late", v["late_share"], 1.0/3)
	near(t, "mean turnaround", v["turnaround_mean"], 14.0/3)
	for _, name := range []string{"mapping_mean", "planning_mean"} {
		if _, ok := v[name]; ok {
			t.Errorf("%s is put although no round was timed", name)
		}
	}
}

func TestMappingTimeIsThatOfTheRoundsAtTheArrival(t *testing.T) {
	p := platform(1)
	clock := time.Duration(0)
	c := metrics.NewCollector(p)
	e := enginetest.New(t, p, enginetest.Policy(t, "cpp"), deadlines()...)
	e.Watch = c.Watch
	e.Wall = func() time.Duration { clock += 3 * time.Second; return clock } // every round takes 3 s
	enginetest.Run(t, e)
	// a and b share the round at 0; that at 1 can do nothing for c, and is kept all the same.
	for i, want := range []float64{1.5, 1.5, 3} {
		near(t, "mapping of "+c.Workflows()[i].Name, c.Workflows()[i].Mapping.Seconds(), want)
	}
	v := values(c, metrics.Window{})
	near(t, "mean mapping time", v["mapping_mean"], 2)
	near(t, "longest mapping time", v["mapping_max"], 3)
	near(t, "share of the turnaround", v["mapping_share"], 2/(14.0/3))
	// With the rounds that start c at 4 and b at 10, 12 s for three workflows.
	near(t, "planning time", v["planning_mean"], 4)
	if v := values(c, metrics.Window{WarmUp: 1}); math.Abs(v["mapping_mean"]-2.25) > 1e-9 {
		t.Errorf("without the first workflow the mean is %v, want 2.25", v["mapping_mean"])
	}
}

func TestIntervalsOfOneRunRestOnBatchMeans(t *testing.T) {
	// The 20 batches of 100 are alternately 0 and 1.
	var x []float64
	for i := range 2000 {
		x = append(x, float64(i/100%2))
	}
	got := metrics.BatchConfidence(x)
	near(t, "mean", got.Mean, 0.5)
	near(t, "half width", got.Half, 2.093024054*math.Sqrt(20.0/19*0.25/20))
	if got := metrics.BatchConfidence(x[:199]); !math.IsNaN(got.Half) {
		t.Errorf("199 values have the interval %v", got.Half)
	}
}

// The second workflow is refused: it is neither late nor on time, and has not failed.
func TestRefusedWorkflowsAreCountedApart(t *testing.T) {
	pol, err := policy.Parse("fifo")
	if err != nil {
		t.Fatal(err)
	}
	pol.(planner.Refuser).RejectLate()
	c := simulateBy(t, pol, platform(1), sim.Config{},
		executor.Submission{Name: "a", Workflow: workflow("a", "a=4"), Due: 4e9},
		executor.Submission{Name: "b", At: 1e9, Workflow: workflow("b", "b=4"), Due: 6e9},
		executor.Submission{Name: "c", At: 2e9, Workflow: workflow("c", "c=4"), Due: 8e9})
	v := values(c, metrics.Window{})
	near(t, "refused", v["refused"], 1)
	near(t, "proportion late", v["late_share"], 0)
	near(t, "failed", v["failed"], 0)
}
