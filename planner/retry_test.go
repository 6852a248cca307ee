package planner_test

import (
	"testing"

	"gantry/planner"
	"gantry/planner/plannertest"
	"gantry/planner/unit"
)

// startAtOnce starts each ready task on the only node.
var startAtOnce = plannertest.PolicyFunc(func(c *planner.Cycle) error {
	for _, task := range c.News.Ready {
		site, _ := c.Site(task, 0)
		if err := c.Draft.Reserve(planner.Segment{Task: task, Hold: site.Need, Start: c.Now(),
			End: c.Now().Add(site.Dur)}); err != nil {
			return err
		}
	}
	return nil
})

// A task that was limited to less memory than declared gets at least what is declared after it ran out of it, and never
// fails for good below that.
func TestTheNextTryGetsAtLeastTheDeclaredMemory(t *testing.T) {
	for _, c := range []struct{ limit, declared, want int64 }{
		{19e6, 193.6e6, 193.6e6},
		{19e6, 30e6, 38e6}, // twice is more
		{19e6, 0, 38e6},
		{19e6, 99e9, 8e9}, // no node has more
	} {
		b := plannertest.New(t, startAtOnce, "nodes 1/8\nA a=3")
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

// However many retries a task has, it fails for good after them.
func TestRetriesEnd(t *testing.T) {
	for _, retries := range []int32{0, 254, 255, 256, 1000} {
		b := plannertest.New(t, startAtOnce, "nodes 1/8\nA a=3")
		b.Flows[0].Tasks[0].Retries = retries
		b.Arrive()
		tries := int32(0)
		for orders := b.Round(); len(orders) > 0 && tries <= retries+1; orders = b.Round() {
			tries++
			b.Apply(planner.AttemptStarted{Attempt: orders[0].Attempt})
			b.Apply(&planner.AttemptExited{Attempt: orders[0].Attempt, Outcome: planner.ExitCode, ExitCode: 1})
		}
		if tries != retries+1 {
			t.Errorf("%d retries: %d attempts, want %d", retries, tries, retries+1)
		}
	}
}
