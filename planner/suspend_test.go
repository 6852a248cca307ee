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

// What a frozen task holds is taken until it continues, by a plan that has it continue later, too: b and a need more
// memory together than there is.
func TestAFrozenTaskHoldsItsMemoryUntilItContinues(t *testing.T) {
	continued := false
	b := plannertest.New(t, suspends(func(c *planner.Cycle) error {
		switch {
		case c.Phase(0) == planner.Ready:
			return c.Draft.Reserve(planner.Segment{Task: 0, Hold: c.Task(0).Need, Start: c.Now(), End: c.Now() + 9e9})
		case c.Phase(0) == planner.Running && c.Now() < 2e9:
			return c.Draft.Preempt(0, planner.Suspend)
		case c.Phase(0) != planner.Suspended || c.Now() < 2e9 || continued:
			return nil
		}
		continued = true
		for range 2 {
			err := c.Draft.Reserve(planner.Segment{Task: 0, Hold: c.Task(0).Need, Start: 6e9, End: 14e9})
			if err != nil {
				return err
			}
			if at, ok := c.Draft.Earliest(0, c.Task(1).Need, 3e9, c.Now()); !ok || at != 14e9 {
				t.Errorf("b has room from %v (%v)", at, ok)
			}
			c.Draft.Release(0)
			if at, ok := c.Draft.Earliest(0, c.Task(1).Need, 3e9, c.Now()); ok {
				t.Errorf("b has room from %v while a may stay frozen for ever", at)
			}
		}
		return c.Draft.Reserve(planner.Segment{Task: 0, Hold: c.Task(0).Need, Start: c.Now(), End: c.Now() + 8e9})
	}), "nodes 2/4\nkeep memory\nA a=9x1/3\nB @1 b=3/2\nC @2 c=1/1")
	for !continued {
		if !b.Step() {
			t.Fatal("nothing was frozen")
		}
	}
}

type suspends func(c *planner.Cycle) error

func (suspends) Suspends() {}

func (f suspends) Plan(_ context.Context, c *planner.Cycle) error { return f(c) }
