// Package alloc has the ways to give tasks their places.
package alloc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gantry/planner"
	"gantry/planner/unit"
)

// List starts tasks now, in the order of the queue, each on the fastest node that has enough free (lowest id among equals), and
// passes over tasks that fit nowhere: greedy list scheduling with backfilling, without reservations.
type List struct {
	nodes []planner.NodeID // by speed descending, then id
}

// Allocate implements planner.Allocator.
func (l *List) Allocate(ctx context.Context, c *planner.Cycle, q planner.Queue) error {
	if l.nodes == nil {
		l.nodes = bySpeed(c.Nodes())
	}
	for {
		t, ok := q.Next(c)
		if !ok {
			return nil
		}
		n, dim := l.fastestIdle(c, c.Task(t).Need)
		if n == planner.None {
			c.Explain(t, planner.Reason{Code: planner.NoNodeFree, Dim: dim, Node: planner.None})
			q.Defer(t)
			continue
		}
		site, ok := c.Site(t, n)
		if !ok || site.From > c.Now() {
			// A queue of eligible tasks meets this only where copies overlap other work: the place is kept until they are there.
			if err := l.ahead(c, t, site, ok); err != nil {
				return err
			}
			q.Take(t)
			continue
		}
		if err := c.Draft.Reserve(segment(t, site, c.Now())); errors.Is(err, planner.ErrFull) {
			// Free now, but promised to a task whose inputs are on the way.
			c.Explain(t, planner.Reason{Code: planner.Outranked, Node: n})
			q.Defer(t)
			continue
		} else if err != nil {
			return err
		}
		q.Take(t)
	}
}

// ahead plans t where its inputs are earliest together, so that they are copied there while the node works on.
func (l *List) ahead(c *planner.Cycle, t planner.TaskID, site planner.Site, ok bool) error {
	if !ok {
		return fmt.Errorf("task %d is eligible but cannot be placed on node %d", t, site.Node)
	}
	start, fits := c.Draft.Earliest(site.Node, site.Need, site.Dur, site.From)
	if !fits {
		return fmt.Errorf("task %d never fits node %d", t, site.Node)
	}
	return c.Draft.Reserve(segment(t, site, start))
}

func (l *List) fastestIdle(c *planner.Cycle, need unit.Vector) (planner.NodeID, unit.Dim) {
	var short unit.Dim
	for _, n := range l.nodes {
		dim, misfit := need.Misfit(c.Draft.Free(n))
		if !misfit {
			return n, 0
		}
		short = dim
	}
	return planner.None, short
}

func bySpeed(nodes []planner.Node) []planner.NodeID {
	out := make([]planner.NodeID, len(nodes))
	for i := range nodes {
		out[i] = nodes[i].ID
	}
	slices.SortStableFunc(out, func(a, b planner.NodeID) int {
		switch sa, sb := nodes[a].Speed, nodes[b].Speed; {
		case sa > sb:
			return -1
		case sa < sb:
			return 1
		}
		return 0
	})
	return out
}

func segment(t planner.TaskID, s planner.Site, start unit.Time) planner.Segment {
	return planner.Segment{Task: t, Node: s.Node, Hold: s.Need, Start: start, End: start.Add(s.Dur)}
}

// EarliestFinish places every task of the queue, in its order, where it finishes first, in the earliest gap that is long enough
// (insertion-based policy of HEFT, Topcuoglu et al. 2002, section 4.2; ties go to the lower node). A task whose parent has no place
// waits until it has.
type EarliestFinish struct{}

// Allocate implements planner.Allocator.
func (EarliestFinish) Allocate(ctx context.Context, c *planner.Cycle, q planner.Queue) error {
	for i := 0; ; i++ {
		if i&1023 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		t, ok := q.Next(c)
		if !ok {
			return nil
		}
		best, placed := planner.Segment{End: unit.Never}, false
		for n := range c.Nodes() {
			site, ok := c.Site(t, planner.NodeID(n))
			if !ok || (placed && site.From.Add(site.Dur) >= best.End) {
				continue
			}
			start, ok := c.Draft.Earliest(site.Node, site.Need, site.Dur, site.From)
			if !ok {
				continue
			}
			if seg := segment(t, site, start); !placed || seg.End < best.End {
				best, placed = seg, true
			}
		}
		if !placed {
			q.Defer(t)
			continue
		}
		if err := c.Draft.Reserve(best); err != nil {
			return err
		}
		q.Take(t)
	}
}
