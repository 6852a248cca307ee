// Package alloc has the ways to give tasks their places.
package alloc

import (
	"context"
	"errors"
	"fmt"

	"gantry/planner"
	"gantry/planner/unit"
)

// List starts tasks now, in the order of the queue, each on the fastest node that has enough free (lowest id among equals), and
// passes over tasks that fit nowhere: greedy list scheduling with backfilling, without reservations.
type List struct {
	// Postpone lets tasks wait for a busy node until the next round; nil lets none. The queue has to be a Postponer.
	Postpone *BusyFinishesFirst
}

// Postponer is a queue that can let tasks wait for the next round.
type Postponer interface {
	// Postpone lets the task that Next returned last, and what it stands for, wait for the next round.
	Postpone(c *planner.Cycle, t planner.TaskID)
	// Sift returns the best task that has nothing to gain by waiting, as Next would; false if all that Next would return wait. Every task
	// has to have the same need: Alike says so.
	Sift(c *planner.Cycle, by Contest) (planner.TaskID, bool)
	Alike() bool
}

// Allocate implements planner.Allocator.
func (l *List) Allocate(ctx context.Context, c *planner.Cycle, q planner.Queue) error {
	if !c.Platform().Overlapped {
		c.Settle() // starts free nothing, and all that fits is started
	}
	for c.Draft.AnyFree() {
		t, ok := q.Next(c)
		if !ok {
			return nil
		}
		need := c.Task(t).Need
		n := c.Draft.Fastest(need)
		if n == planner.None {
			c.Explain(t, planner.Reason{Code: planner.NoNodeFree, Dim: c.Draft.Short(need), Node: planner.None})
			q.Defer(c, t)
			continue
		}
		if l.Postpone != nil {
			contest, held := l.Postpone.contest(c, c.Task(t), n)
			switch p := q.(Postponer); {
			case !held:
			case p.Alike():
				if t, ok = p.Sift(c, contest); !ok {
					return nil
				}
			case contest.waits(c, t):
				c.Explain(t, planner.Reason{Code: planner.Unplaced, Node: n})
				p.Postpone(c, t)
				continue
			}
		}
		site, ok := c.Site(t, n)
		if !ok || site.From > c.Now() {
			// A queue of eligible tasks meets this only where copies overlap other work: the place is kept until they are there.
			if err := l.ahead(c, t, site, ok); err != nil {
				return err
			}
			q.Take(c, t)
			continue
		}
		if err := c.Draft.Reserve(segment(t, site, c.Now())); errors.Is(err, planner.ErrFull) {
			// Free now, but promised to a task whose inputs are on the way.
			c.Explain(t, planner.Reason{Code: planner.Outranked, Node: n})
			q.Defer(c, t)
			continue
		} else if err != nil {
			return err
		}
		q.Take(c, t)
	}
	return nil
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

func segment(t planner.TaskID, s planner.Site, start unit.Time) planner.Segment {
	return planner.Segment{Task: t, Node: s.Node, Hold: s.Need, Start: start, End: start.Add(s.Dur)}
}
