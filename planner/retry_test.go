package planner_test

import (
	"testing"

	"gantry/planner"
	"gantry/planner/plannertest"
	"gantry/planner/unit"
)

// A task that was limited to less memory than declared gets at least what is declared after it ran out of it, and never
// fails for good below that.
func TestTheNextTryGetsAtLeastTheDeclaredMemory(t *testing.T) {
	for _, c := range []struct{ limit, declared, want int64 }{
		{19e6, 193.6e6, 193.6e6},
		{19e6, 30e6, 38e6}, // twice is more
		{19e6, 0, 38e6},
		{19e6, 99e9, 8e9}, // no node has more
	} {
		b := plannertest.New(t, plannertest.PolicyFunc(func(c *planner.Cycle) error {
			for _, task := range c.News.Ready {
				site, _ := c.Site(task, 0)
				if err := c.Draft.Reserve(planner.Segment{Task: task, Hold: site.Need, Start: c.Now(),
					End: c.Now().Add(site.Dur)}); err != nil {
					return err
				}
			}
			return nil
		}), "nodes 1/8\nA a=3")
		a := &b.Flows[0].Tasks[0]
		a.Need[unit.Memory], a.NextMemory = c.limit, unit.Bytes(c.declared)
		b.Arrive()
		o := b.Round()[0]
		b.Apply(planner.AttemptStarted{Attempt: o.Attempt})
		b.Apply(&planner.AttemptExited{Attempt: o.Attempt, Outcome: planner.OutOfMemory})
		if got := b.View().Task(0).Need[unit.Memory]; got != c.want {
			t.Errorf("limited to %d of %d: the next try gets %d, want %d", c.limit, c.declared, got, c.want)
		}
	}
}
