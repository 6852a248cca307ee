package alloc

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/rank"
	"gantry/planner/unit"
)

// Preemption is preemptive task execution (Wang, MOWS, section 3-3, figure 3-10): a task takes the place of a running one of its own workflow
// that has a lower rank if that lets it finish earlier than anywhere else. The first such task leaves, in the order in which they started, and
// no other. One that leaves a checkpoint goes on anywhere; any other is frozen and goes on where it is or, where that does not help for the
// memory that it holds and the user allows it, begins anew.
//
// The thesis sets no bound to how often a task is preempted. Here Limit does, and no task is that is almost done.
type Preemption struct {
	Ranks *rank.Upward
	Limit int     // how often a task may be preempted
	Floor float64 // share of its stay that a preempted task must have before it

	running []int32 // by workflow: attempts that run
	victims []planner.AttemptID
}

// Observe counts what runs.
func (p *Preemption) Observe(v planner.View, e planner.Event) {
	switch b := e.Body.(type) {
	case planner.AttemptStarted:
		p.count(v, b.Attempt, +1)
	case planner.AttemptSuspended:
		p.count(v, b.Attempt, -1)
	case planner.AttemptResumed:
		p.count(v, b.Attempt, +1)
	case *planner.AttemptExited:
		if att := v.Attempt(b.Attempt); att.Started != unit.Never && att.Suspended == unit.Never {
			p.count(v, b.Attempt, -1)
		}
	}
}

func (p *Preemption) count(v planner.View, a planner.AttemptID, by int32) {
	if n := v.Workflows() - len(p.running); n > 0 {
		p.running = append(p.running, make([]int32, n)...)
	}
	p.running[v.Task(v.Attempt(a).Task).Workflow] += by
}

// concerns reports whether tasks of the workflow of t run.
func (p *Preemption) concerns(c *planner.Cycle, t planner.TaskID) bool {
	w := c.Task(t).Workflow
	return int(w) < len(p.running) && p.running[w] > 0
}

// place preempts a task for t, the one looked at, and returns where that lets t stay; nowhere if none is preempted.
func (p *Preemption) place(c *planner.Cycle, r *Rigid, t planner.TaskID) place {
	if !p.concerns(c, t) {
		return nowhere
	}
	w := c.Task(t).Workflow
	p.victims = p.victims[:0]
	tasks := p.Ranks.Sorted(c.Workflow(w))
	for i := len(tasks) - 1; i >= 0 && p.Ranks.Unscaled(tasks[i]) < p.Ranks.Unscaled(t); i-- {
		if c.Phase(tasks[i]) == planner.Running {
			p.victims = append(p.victims, c.Current(tasks[i]))
		}
	}
	if len(p.victims) == 0 {
		return nowhere
	}
	slices.SortFunc(p.victims, cmp.Compare)
	least := r.best(false)
	for _, a := range p.victims {
		victim := c.Attempt(a).Task
		if seg, ok := c.Draft.Of(victim); ok && p.may(c, seg) {
			if found := p.instead(c, r, seg, least); found.node != planner.None {
				c.Note(planner.Note{Topic: "preempted", Workflow: w, Task: victim, At: c.Now(), Text: fmt.Sprintf(
					"leaves %s (%s) so that task %d, which ranks higher, ends at %v instead of %v", c.Nodes()[seg.Node].Name, c.Vacates(victim), t, found.end, least.end)})
				return found
			}
		}
	}
	return nowhere
}

// may is the rule against thrashing.
func (p *Preemption) may(c *planner.Cycle, seg planner.Segment) bool {
	left, stay := seg.End.Sub(c.Now()), seg.End.Sub(seg.Start)
	return seg.Kind == planner.Active && c.Preemptions(seg.Task) < p.Limit && left > time.Duration(p.Floor*float64(stay))
}

// instead preempts the task of seg if the one looked at then ends before least.
func (p *Preemption) instead(c *planner.Cycle, r *Rigid, seg planner.Segment, least place) place {
	s := &r.sites[seg.Node]
	if !s.fits || r.ready(s).Add(s.dur) >= least.end {
		return nowhere
	}
	how := c.Vacates(seg.Task)
	ways := []planner.Vacate{how}
	if how == planner.Requeue {
		ways = []planner.Vacate{planner.Suspend, planner.Requeue}
	}
	for _, how := range ways {
		kept := unit.Vector{}
		if how == planner.Suspend {
			kept = seg.Hold.Keep(c.Nodes()[seg.Node].Keeps)
		}
		sketch := &r.sketch[seg.Node]
		sketch.Add(c.Now(), seg.End, kept.Sub(seg.Hold))
		sketch.Add(seg.End, unit.Never, kept)
		if found := r.on(int(seg.Node)); found.node != planner.None && found.end < least.end && c.Draft.Preempt(seg.Task, how) == nil {
			r.free[seg.Node], r.stale, r.best0 = c.Draft.Free(seg.Node), true, nowhere
			return found
		}
		sketch.Add(c.Now(), seg.End, seg.Hold.Sub(kept))
		sketch.Add(seg.End, unit.Never, unit.Vector{}.Sub(kept))
	}
	return nowhere
}
