package retain

import (
	"errors"
	"slices"

	"gantry/planner"
)

// Allocated keeps the places of ready tasks that were allocated ahead of their start, as they wait for their inputs or
// for processors (Wang, MOWS, sections 3-3 and 3-4). On each node they start in the order of their planned starts: at
// the planned start or, when a task there ended otherwise than estimated, as soon as that takes nothing from those
// allocated before. A change of nodes gives all places up. A task for which another leaves its node is before all
// others: "the system will suspend the lowerly ranked task to release resources for the higherly ranked task's
// immediate execution" (section 3-3).
type Allocated struct {
	Requeue Requeuer

	offPlan []bool // by node: a task ended or left otherwise than estimated
	tasks   []planner.TaskID
	claims  []planner.TaskID // planned, and wait until others have left for them
}

// Claim says that another task leaves its node for t, which is planned there for now.
func (a *Allocated) Claim(t planner.TaskID) { a.claims = append(a.claims, t) }

// Observe notes where the plan was not kept.
func (a *Allocated) Observe(v planner.View, e planner.Event) {
	if a.offPlan == nil {
		a.offPlan = make([]bool, len(v.Nodes()))
	}
	switch b := e.Body.(type) {
	case *planner.AttemptExited:
		att := v.Attempt(b.Attempt)
		if att.Until != e.At {
			a.offPlan[att.Node] = true
		}
	case planner.AttemptSuspended:
		a.offPlan[v.Attempt(b.Attempt).Node] = true
	}
}

// Retain implements planner.Retainer.
func (a *Allocated) Retain(c *planner.Cycle) error {
	a.claims = slices.DeleteFunc(a.claims, func(t planner.TaskID) bool {
		seg, ok := c.Draft.Of(t)
		return !ok || seg.Kind != planner.Planned
	})
	if c.Draft.Plans() == 0 {
		return nil
	}
	for _, t := range a.claims {
		if err := a.start(c, t); err != nil {
			return err
		}
	}
	for node := range c.NodeCount() {
		early := a.offPlan != nil && a.offPlan[node]
		free := c.Draft.Free(node) // nothing changes while tasks are gathered
		a.tasks = a.tasks[:0]
		for seg := range c.Draft.Planned(node) {
			switch p := c.Phase(seg.Task); {
			case c.News.Changed || p != planner.Ready && p != planner.Suspended && p != planner.Running:
				a.tasks = append(a.tasks, seg.Task)
			case seg.Start <= c.Now() || early && seg.Hold.Fits(free) && there(c, seg):
				a.tasks = append(a.tasks, seg.Task)
			}
		}
		for _, t := range a.tasks {
			if err := a.start(c, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// start starts t if it can, or gives its place up if that is no longer wanted.
func (a *Allocated) start(c *planner.Cycle, t planner.TaskID) error {
	seg, _ := c.Draft.Of(t)
	p := c.Phase(t)
	switch {
	case p == planner.Running && !c.News.Changed: // it has not left its old place yet
		return nil
	case c.News.Changed || p != planner.Ready && p != planner.Suspended:
		c.Draft.Release(t)
		a.Requeue.Add(c, t)
		return nil
	}
	var err error
	if seg.Start > c.Now() {
		err = c.Draft.Move(t, c.Now())
	} else {
		err = c.Draft.StartNow(t)
	}
	if errors.Is(err, planner.ErrFull) || errors.Is(err, planner.ErrMissing) {
		return nil
	}
	return err
}

// there reports whether nothing is missing on the node of seg that its task needs to start.
func there(c *planner.Cycle, seg planner.Segment) bool {
	return !c.Platform().Overlapped || c.HasAll(seg.Node, c.Task(seg.Task).Inputs)
}
