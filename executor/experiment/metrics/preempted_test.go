package metrics_test

import (
	"context"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/experiment/metrics"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/scenario"
)

// inTurn preempts task 0 at 2 s in the way given, and lets it continue at 5 s.
type inTurn struct{ how planner.Vacate }

func (inTurn) Suspends() {}

func (p inTurn) Plan(_ context.Context, c *planner.Cycle) error {
	for _, at := range []planner.Time{2e9, 5e9} {
		if c.Now() < at {
			c.WakeAt(at)
		}
	}
	switch phase, placed := c.Phase(0), !c.Unplaced(0); {
	case phase == planner.Running && placed && c.Preemptions(0) == 0 && c.Now() >= 2e9:
		return c.Draft.Preempt(0, p.how)
	case !placed && (phase == planner.Ready || phase == planner.Suspended) && (c.Preemptions(0) == 0 || c.Now() >= 5e9):
		site, _ := c.Site(0, 0)
		return c.Draft.Reserve(planner.Segment{Task: 0, Hold: site.Need, Start: c.Now(), End: c.Now().Add(site.Dur)})
	}
	return nil
}

func TestPreemptionsAndWhatTheyLost(t *testing.T) {
	for how, want := range map[planner.Vacate]struct {
		end, lost, utilisation float64
	}{planner.Suspend: {13, 0, 10.0 / 13}, planner.Checkpoint: {13, 0, 10.0 / 13}, planner.Requeue: {15, 2,
		12.0 / 15}} {
		p := &planner.Platform{Nodes: []planner.Node{{Name: "n", Speed: 1, Capacity: unit.Vector{1000, 1 << 30,
			unit.Unlimited}, Keeps: unit.Of(unit.Memory)}}}
		c := metrics.NewCollector(p)
		e := enginetest.New(t, p, inTurn{how}, executor.Submission{Name: "w", Workflow: &trace.Workflow{Name: "w",
			Tasks: []trace.Task{{ID: "t", Kind: "k", Cores: 1, Runtime: 10 * time.Second, Retries: -1}}}})
		e.Watch, e.Admit.Preempt = c.Watch, scenario.Preempt{Restart: true}
		enginetest.Run(t, e)
		got := map[string]float64{}
		for _, v := range c.Run(metrics.Window{}) {
			got[v.Name] = v.Value
		}
		if got["response_mean"] != want.end || got["work_lost"] != want.lost || got["preemptions"] != 1 ||
			got["preemptions_"+how.String()] != 1 ||
			got["utilisation"] < want.utilisation-1e-9 || got["utilisation"] > want.utilisation+1e-9 {
			t.Errorf("%s: %v", how, got)
		}
	}
}
