// Package alloc has the ways to give tasks their places.
package alloc

import (
	"context"
	"errors"
	"fmt"

	"gantry/planner"
	"gantry/planner/unit"
)

// List starts tasks now, in the order of the queue, each on the fastest node that has enough free (lowest id among
// equals), and passes over tasks that fit nowhere: greedy list scheduling with backfilling. Only tasks that wait for
// their copies have reservations.
type List struct{}

// Postponing is a List that lets tasks wait for a busy node until the next round.
type Postponing struct{ Rule BusyFinishesFirst }

// Skipper is a queue that can pass over one task alone: other tasks with the same need may still start on the node that
// this one cannot have.
type Skipper interface {
	planner.Queue
	// Skip passes over the task that Next returned last for the rest of the round.
	Skip(c *planner.Cycle, t planner.TaskID)
}

// Postponer is a queue that can let tasks wait for the next round.
type Postponer interface {
	Skipper
	// Postpone lets the task that Next returned last, with its workflow, wait for the next round.
	Postpone(c *planner.Cycle, t planner.TaskID)
	// Alike reports whether all tasks have the same need.
	Alike() bool
}

// Allocate implements planner.Allocator.
func (*List) Allocate(_ context.Context, c *planner.Cycle, q Skipper) error {
	return list(c, q, func(planner.TaskID, planner.NodeID) bool { return false })
}

// Allocate implements planner.Allocator.
func (p *Postponing) Allocate(_ context.Context, c *planner.Cycle, q Postponer) error {
	return list(c, q, func(t planner.TaskID, n planner.NodeID) bool {
		if !p.Rule.waits(c, c.Task(t), n) {
			return false
		}
		if !q.Alike() || c.Platform().Overlapped || p.Rule.Waiters > 0 { // else all that wait have one reason
			c.Explain(t, planner.Reason{Code: planner.Unplaced, Node: n})
		}
		q.Postpone(c, t)
		p.Rule.wait()
		return true
	})
}

// list starts tasks that have room, but for those that are postponed.
func list(c *planner.Cycle, q Skipper, postponed func(planner.TaskID, planner.NodeID) bool) error {
	for c.Draft.AnyFree() {
		t, ok := unlimited(c, q)
		if !ok {
			return nil
		}
		task := c.Task(t)
		n := fastest(c, task)
		if n == planner.None {
			if n = c.Draft.Fastest(task.Need); n != planner.None { // it is promised
				c.Explain(t, planner.Reason{Code: planner.Outranked, Node: n})
				q.Skip(c, t)
			} else {
				noNodeFree(c, t)
				q.Defer(c, t)
			}
			continue
		}
		if postponed(t, n) {
			continue
		}
		ok, err := begin(c, t, n)
		if err != nil {
			return err
		}
		if ok {
			q.Take(c, t)
		} else {
			q.Defer(c, t)
		}
	}
	return nil
}

// noNodeFree says that t waits for a node with room.
func noNodeFree(c *planner.Cycle, t planner.TaskID) {
	c.Explain(t, planner.Reason{Code: planner.NoNodeFree, Dim: c.Draft.Short(c.Task(t).Need), Node: planner.None})
}

// begin starts an eligible task on n, which is idle for it. Where copies overlap other work and its inputs are
// elsewhere it is planned to start when they are there: the node is promised to it, and works on others until then. It
// returns false if the free room is kept for a task for which others leave.
func begin(c *planner.Cycle, t planner.TaskID, n planner.NodeID) (bool, error) {
	site, ok := c.Site(t, n)
	if !ok || site.From > c.Now() {
		err := ahead(c, t, site, ok)
		return err == nil, err
	}
	err := c.Draft.Reserve(segment(t, site, c.Now()))
	if errors.Is(err, planner.ErrFull) {
		c.Explain(t, planner.Reason{Code: planner.Outranked, Node: n})
		return false, nil
	}
	return err == nil, err
}

// ahead plans t where its inputs are earliest together.
func ahead(c *planner.Cycle, t planner.TaskID, site planner.Site, ok bool) error {
	if !ok {
		return fmt.Errorf("task %d is eligible but cannot be placed on node %d", t, site.Node)
	}
	start, fits := c.Draft.Earliest(site.Node, site.Need, site.Dur, site.From)
	if !fits {
		return fmt.Errorf("task %d never fits node %d", t, site.Node)
	}
	return c.Draft.Reserve(segment(t, site, start))
}

// unlimited returns the next task that the limit of its tenant lets start; those before it wait for that.
func unlimited(c *planner.Cycle, q planner.Queue) (planner.TaskID, bool) {
	for {
		t, ok := q.Next(c)
		if !ok || !c.Draft.Limited(t) {
			return t, ok
		}
		c.Explain(t, planner.OthersHoldTokens)
		q.Defer(c, t)
	}
}

func segment(t planner.TaskID, s planner.Site, start unit.Time) planner.Segment {
	return planner.Segment{Task: t, Node: s.Node, Hold: s.Need, Start: start, End: start.Add(s.Dur)}
}
