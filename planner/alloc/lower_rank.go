package alloc

import (
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

	running  [][]planner.AttemptID // by workflow, in the order in which they started
	victims  []planner.AttemptID
	clock    int64   // counts places found
	began    []int64 // by task: clock at its last start
	allotted []int64 // by task: clock when the place was found in which it was allocated last
}

// Observe keeps what runs.
func (p *Preemption) Observe(v planner.View, e planner.Event) {
	switch b := e.Body.(type) {
	case planner.AttemptStarted:
		p.begins(v, b.Attempt)
	case planner.AttemptSuspended:
		p.ends(v, b.Attempt)
	case planner.AttemptResumed:
		p.begins(v, b.Attempt)
	case *planner.AttemptExited:
		p.ends(v, b.Attempt)
	}
}

func (p *Preemption) begins(v planner.View, a planner.AttemptID) {
	if n := v.Workflows() - len(p.running); n > 0 {
		p.running = append(p.running, make([][]planner.AttemptID, n)...)
	}
	p.grow(v)
	t := v.Attempt(a).Task
	list := &p.running[v.Task(t).Workflow]
	i, _ := slices.BinarySearch(*list, a)
	*list = slices.Insert(*list, i, a)
	p.began[t] = p.clock
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
	if n := v.Tasks() - len(p.began); n > 0 {
		p.began = append(p.began, make([]int64, n)...)
		p.allotted = append(p.allotted, make([]int64, n)...)
	}
}

// concerns reports whether tasks of the workflow of t run.
func (p *Preemption) concerns(c *planner.Cycle, t planner.TaskID) bool {
	w := c.Task(t).Workflow
	return int(w) < len(p.running) && len(p.running[w]) > 0
}

// tick returns the present instant of the order in which places are found.
func (p *Preemption) tick() int64 {
	p.clock++
	return p.clock
}

// allots notes that t is allocated in a place that was found then; 0 is now.
func (p *Preemption) allots(c *planner.Cycle, t planner.TaskID, found int64) {
	p.grow(c.View)
	if found == 0 {
		found = p.tick()
	}
	p.allotted[t] = found
}

// regains reports whether a task that has begun since the place of t was found may be one to preempt for it. One whose own place was found after
// that is not: that of t was the best one without it.
func (p *Preemption) regains(c *planner.Cycle, t planner.TaskID, found int64) bool {
	if !p.concerns(c, t) {
		return false
	}
	for _, a := range p.running[c.Task(t).Workflow] {
		if v := c.Attempt(a).Task; p.began[v] >= found && p.allotted[v] < found && p.Ranks.Unscaled(v) < p.Ranks.Unscaled(t) {
			return true
		}
	}
	return false
}

// place preempts a task for t, the one looked at, and returns where that lets t stay; nowhere if none is preempted.
func (p *Preemption) place(c *planner.Cycle, r *Rigid, t planner.TaskID) place {
	if !p.concerns(c, t) {
		return nowhere
	}
	w := c.Task(t).Workflow
	p.victims = p.victims[:0]
	for _, a := range p.running[w] {
		if v := c.Attempt(a).Task; p.Ranks.Unscaled(v) < p.Ranks.Unscaled(t) && c.Phase(v) == planner.Running {
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
