package planner_test

import (
	"context"
	"strings"
	"testing"

	"gantry/planner"
	"gantry/planner/plannertest"
)

// freezer starts what is ready, and freezes task 0 at the first chance.
type freezer struct{}

func (freezer) Plan(_ context.Context, c *planner.Cycle) error {
	for _, t := range c.News.Ready {
		site, _ := c.Site(t, 0)
		if err := c.Draft.Reserve(planner.Segment{Task: t, Hold: site.Need, Start: c.Now(),
			End: c.Now().Add(site.Dur)}); err != nil {
			return err
		}
	}
	if c.Phase(0) != planner.Running {
		return nil
	}
	return c.Draft.Preempt(0, planner.Suspend)
}

// announced is a freezer that says so.
type announced struct{ freezer }

func (announced) Suspends() {}

func TestAPolicyThatFreezesTasksHasToSaySo(t *testing.T) {
	for _, pol := range []planner.Policy{freezer{}, announced{}} {
		b := plannertest.New(t, pol, "nodes 1\nA a=3")
		b.Arrive()
		b.Apply(planner.AttemptStarted{Attempt: b.Round()[0].Attempt})
		pc, err := b.Planner.Plan(context.Background(), b.Now)
		if _, says := pol.(planner.Suspender); says {
			if err != nil || len(pc.Orders) != 1 || pc.Orders[0].Kind != planner.OrderSuspend {
				t.Errorf("a policy that says so: %+v, %v", pc, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "froze task 0") ||
			!strings.Contains(err.Error(), "method Suspends") {
			t.Errorf("a policy that does not say so: %v", err)
		}
	}
}
