// Package retain has the ways to treat the last plan when a round begins.
package retain

import (
	"errors"
	"slices"

	"gantry/planner"
)

// Drop forgets the plan: the rest of the pipeline makes a new one. Where copies overlap other work it keeps the places
// that eligible tasks were given while their inputs are on the way, and starts them once these are there: on each node
// in the order of their planned starts, each at its own or, where that takes nothing from others, before. One that is
// late has the first claim on the free room of its node.
type Drop struct {
	// Promised keeps the places of tasks that preempted others, until these have left: nobody else takes them in
	// between.
	Promised bool
	// Requeue is given the tasks that lose a place, as where their node is lost; nil: they have ended.
	Requeue Requeuer
}

// Requeuer is a queue that takes back tasks which lost their place.
type Requeuer interface {
	Add(c *planner.Cycle, t planner.TaskID)
}

// Retain implements planner.Retainer.
func (d Drop) Retain(c *planner.Cycle) error {
	overlapped := c.Platform().Overlapped
	if overlapped { // an overrunning task is expected to end, again and again, from its first planned end on
		for n := range c.NodeCount() {
			c.Draft.LookAhead(n)
		}
	}
	if c.Draft.Plans() == 0 {
		return nil
	}
	var lost, waiting []planner.TaskID
	for n := range c.NodeCount() {
		for seg := range c.Draft.Planned(n) {
			promised := d.Promised && !c.News.Changed && seg.Start <= c.Now()
			gone := c.News.Changed && !seg.Hold.Fits(c.Capacity(n))
			if (overlapped && !gone || promised) && c.Phase(seg.Task) == planner.Ready {
				waiting = append(waiting, seg.Task)
			} else {
				lost = append(lost, seg.Task)
			}
		}
	}
	for _, t := range lost {
		c.Draft.Release(t)
		if d.Requeue != nil {
			d.Requeue.Add(c, t)
		}
	}
	if overlapped {
		for n := range c.NodeCount() {
			if err := follow(c, n); err != nil {
				return err
			}
		}
		return nil
	}
	for _, t := range waiting {
		if err := c.Draft.StartNow(t); err != nil && !refused(err) {
			return err
		}
	}
	return nil
}

// follow starts the tasks that n is promised to.
func follow(c *planner.Cycle, n planner.NodeID) error {
	if c.Draft.Promises(n) == 0 {
		return nil
	}
	free := c.Draft.Free(n)
	for _, seg := range slices.Collect(c.Draft.Planned(n)) {
		var err error
		switch {
		case c.Draft.Limited(seg.Task): // it claims nothing as long as others hold its tokens
			c.Explain(seg.Task, planner.OthersHoldTokens)
			continue
		case seg.Start <= c.Now():
			if seg.Hold.Fits(free) {
				err = c.Draft.StartNow(seg.Task)
			}
		case !seg.Hold.Fits(free) || !there(c, seg):
			continue
		default:
			if err = c.Draft.Move(seg.Task, c.Now()); err != nil && refused(err) {
				c.WakeAt(seg.Start)
				continue
			}
		}
		if err != nil && !refused(err) {
			return err
		}
		free = free.Sub(seg.Hold)
	}
	return nil
}

// refused reports whether a draft did not let a task start now, but may later.
func refused(err error) bool {
	return errors.Is(err, planner.ErrMissing) || errors.Is(err, planner.ErrFull) || errors.Is(err, planner.ErrLimit)
}

// Float keeps the plan until a workflow arrives or grows, a node changes or a task lost its place, and then forgets it.
// A kept plan is followed in its order: on each node the tasks planned first have the first claim on the free room,
// start as soon as they can, before their planned start too, and their claims are not given to later ones (Ilyushkin
// and Epema 2018, section on plan-based policies: a processor looks only at its next planned task).
type Float struct {
	Requeue Requeuer
	// Strict keeps tasks from starting before their planned start.
	Strict bool
	// Outdated, if set, says instead when the plan is forgotten.
	Outdated func(c *planner.Cycle) bool
}

// Retain implements planner.Retainer.
func (f Float) Retain(c *planner.Cycle) error {
	if f.outdated(c) {
		f.drop(c)
		return nil
	}
	if c.Draft.Plans() == 0 {
		return nil
	}
	for node := range c.NodeCount() {
		free := c.Draft.Free(node)
		if free[0] <= 0 {
			continue
		}
		var start []planner.TaskID
		for seg := range c.Draft.Planned(node) {
			if c.Draft.Limited(seg.Task) { // it claims nothing as long as others hold its tokens
				if c.Phase(seg.Task) == planner.Ready && seg.Hold.Fits(free) && !(f.Strict && seg.Start > c.Now()) {
					c.Explain(seg.Task, planner.OthersHoldTokens)
				}
				continue
			}
			if !seg.Hold.Fits(free) || f.Strict && seg.Start > c.Now() {
				break
			}
			free = free.Sub(seg.Hold)
			if c.Phase(seg.Task) == planner.Ready {
				start = append(start, seg.Task)
			}
			if free[0] <= 0 {
				break
			}
		}
		for _, t := range start {
			if err := c.Draft.StartNow(t); err != nil && !errors.Is(err, planner.ErrMissing) &&
				!errors.Is(err, planner.ErrLimit) {
				return err
			}
		}
	}
	return nil
}

func (f Float) outdated(c *planner.Cycle) bool {
	if f.Outdated != nil {
		return f.Outdated(c)
	}
	return len(c.News.Arrived)+len(c.News.Grown) > 0 || Broken(c)
}

// Broken reports whether a node has changed or a task wants a place that no plan gives it: it has to be repeated, or
// has come to be eligible.
func Broken(c *planner.Cycle) bool {
	return c.News.Changed || slices.ContainsFunc(c.News.Ready, c.Unplaced)
}

func (f Float) drop(c *planner.Cycle) {
	var lost []planner.TaskID
	for n := range c.NodeCount() {
		for seg := range c.Draft.Planned(n) {
			lost = append(lost, seg.Task)
		}
	}
	c.Draft.Drop()
	for _, t := range lost {
		f.Requeue.Add(c, t)
	}
}
