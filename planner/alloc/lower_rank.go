package alloc

import (
	"fmt"
	"slices"

	"gantry/planner"
	"gantry/planner/exact"
	"gantry/planner/rank"
	"gantry/planner/unit"
)

// Preemption is preemptive task execution (Wang, MOWS, section 3-3, figure 3-10): a task takes the place of a running
// one of its own workflow that has a lower rank if that lets it finish earlier than anywhere else. The first such task
// leaves, in the order in which they started, and no other. One that leaves a checkpoint continues anywhere; any other
// is frozen and continues where it is or, where that does not help for the memory that it holds and the user allows it,
// starts again.
//
// Only a task that was ordered to start before the other was ready can be preempted for it. The figure does not say so,
// but the text does: tasks of lower rank may run while those above them "are not yet ready". Without that an order of
// the queue that lets low ranks go first has them preempted as soon as they run.
//
// The thesis sets no bound to how often a task is preempted. Here Limit does, and no task is that is almost done.
type Preemption struct {
	Ranks *rank.Upward
	Limit int     // how often a task may be preempted
	Floor float64 // share of its stay that a preempted task must have before it
	// Claims hears of tasks that are to start where others leave for them.
	Claims interface{ Claim(t planner.TaskID) }

	running [][]planner.AttemptID // by workflow, in the order in which they started
	victims []planner.AttemptID
	began   []planner.Time // by task: when it started or continued last
	ready   []planner.Time // by task: when its parents had ended
}

// Observe records the running attempts and when they began.
func (p *Preemption) Observe(v planner.View, e planner.Event) {
	switch b := e.Body.(type) {
	case planner.AttemptStarted:
		p.begins(v, b.Attempt, e.At)
	case planner.AttemptSuspended:
		p.ends(v, b.Attempt)
	case planner.AttemptResumed:
		p.begins(v, b.Attempt, e.At)
	case *planner.AttemptExited:
		p.ends(v, b.Attempt)
		if b.Outcome != planner.OK {
			break
		}
		p.grow(v)
		for _, child := range v.Task(v.Attempt(b.Attempt).Task).Children {
			p.ready[child] = e.At // of the parent that ends last
		}
	}
}

func (p *Preemption) begins(v planner.View, a planner.AttemptID, at planner.Time) {
	p.running = planner.Extend(p.running, v.Workflows())
	p.grow(v)
	t := v.Attempt(a).Task
	list := &p.running[v.Task(t).Workflow]
	i, _ := slices.BinarySearch(*list, a)
	*list = slices.Insert(*list, i, a)
	p.began[t] = at
}

func (p *Preemption) ends(v planner.View, a planner.AttemptID) {
	w := v.Task(v.Attempt(a).Task).Workflow
	if int(w) >= len(p.running) {
		return
	}
	if i, ok := slices.BinarySearch(p.running[w], a); ok {
		p.running[w] = slices.Delete(p.running[w], i, i+1)
	}
}

func (p *Preemption) grow(v planner.View) {
	p.began = planner.Extend(p.began, v.Tasks())
	p.ready = planner.Extend(p.ready, v.Tasks())
}

// concerns reports whether tasks of the workflow of t run.
func (p *Preemption) concerns(c *planner.Cycle, t planner.TaskID) bool {
	w := c.Task(t).Workflow
	return int(w) < len(p.running) && len(p.running[w]) > 0
}

// below reports whether an attempt of the workflow of t has a task of lower rank, and was ordered before t was ready.
func (p *Preemption) below(c *planner.Cycle, a planner.AttemptID, t planner.TaskID) bool {
	att := c.Attempt(a)
	return p.Ranks.Unscaled(att.Task).Compare(p.Ranks.Unscaled(t)) < 0 && int(t) < len(p.ready) &&
		att.Ordered < p.ready[t]
}

// regains reports whether a task that began, or continued, since then may be one to preempt for t.
func (p *Preemption) regains(c *planner.Cycle, t planner.TaskID, since planner.Time) bool {
	return p.concerns(c, t) && slices.ContainsFunc(p.running[c.Task(t).Workflow], func(a planner.AttemptID) bool {
		return p.began[c.Attempt(a).Task] >= since && p.below(c, a, t)
	})
}

// place preempts a task for t, the one looked at, and returns where that lets t stay; nowhere if none is preempted.
func (p *Preemption) place(c *planner.Cycle, r *Rigid, t planner.TaskID) place {
	if !p.concerns(c, t) {
		return nowhere
	}
	w := c.Task(t).Workflow
	p.victims = p.victims[:0]
	for _, a := range p.running[w] {
		if p.below(c, a, t) && c.Phase(c.Attempt(a).Task) == planner.Running {
			p.victims = append(p.victims, a)
		}
	}
	if len(p.victims) == 0 {
		return nowhere
	}
	least := r.best(false)
	for _, a := range p.victims {
		victim := c.Attempt(a).Task
		if seg, ok := c.Draft.Of(victim); ok && p.may(c, seg) {
			if found := p.instead(c, r, seg, least); found.node != planner.None {
				if found.start == c.Now() {
					p.Claims.Claim(t)
				}
				c.Note(planner.Note{Topic: "preempted", Workflow: w, Task: victim, At: c.Now(), Text: fmt.Sprintf(
					"leaves %s (%s) so that task %d, which ranks higher, ends at %v instead of %v",
					c.Nodes()[seg.Node].Name, c.Vacates(victim), t, found.end, least.end)})
				return found
			}
		}
	}
	return nowhere
}

// may is the rule against thrashing.
func (p *Preemption) may(c *planner.Cycle, seg planner.Segment) bool {
	left, stay := seg.End.Sub(c.Now()), seg.End.Sub(seg.Start)
	num, den := unit.Decimal(p.Floor)
	return seg.Kind == planner.Active && c.Preemptions(seg.Task) < p.Limit && left > 0 &&
		exact.Int(uint64(left)).Times(den).Compare(exact.Int(uint64(stay)).Times(num)) > 0
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
		if found := r.on(int(seg.Node)); found.node != planner.None && found.end < least.end &&
			c.Draft.Preempt(seg.Task, how) == nil {
			r.free[seg.Node], r.stale, r.best0 = c.Draft.Free(seg.Node), true, nowhere
			r.waits.Expect(c, seg.Task)
			return found
		}
		sketch.Add(c.Now(), seg.End, seg.Hold.Sub(kept))
		sketch.Add(seg.End, unit.Never, unit.Vector{}.Sub(kept))
	}
	return nowhere
}
