package alloc

import (
	"context"

	"gantry/planner"
)

// Pinned places the tasks of a queue, in its order, on the nodes that a solution has for them, each as early as
// possible: if the order is that of their starts there, none starts later than there. Where the solution has no
// nodes, it is EarliestFinish.
type Pinned struct {
	// On returns the node of a task; planner.None if it may be any.
	On  func(planner.TaskID) planner.NodeID
	any EarliestFinish
}

// Allocate implements planner.Allocator.
func (p *Pinned) Allocate(ctx context.Context, c *planner.Cycle, q planner.Queue) error {
	for {
		t, ok := q.Next(c)
		if !ok {
			return nil
		}
		n := p.On(t)
		if n == planner.None {
			return p.any.Allocate(ctx, c, q)
		}
		site, ok := c.Site(t, n)
		if !ok {
			q.Take(c, t) // a parent has no place: it comes back when it is eligible
			continue
		}
		start, ok := c.Draft.Earliest(n, site.More, site.Dur, site.From)
		if !ok {
			q.Defer(c, t)
			continue
		}
		if err := c.Draft.Keep(segment(t, site, start)); err != nil {
			return err
		}
		q.Take(c, t)
	}
}
