package alloc

import (
	"cmp"
	"fmt"
	"slices"

	"gantry/planner"
	"gantry/planner/share"
	"gantry/planner/unit"
)

// victim is a running task that may have to make room.
type victim struct {
	task  planner.TaskID
	rank  int // low priority and alike first
	since planner.Time
	how   planner.Vacate
	frees unit.Vector
}

// makeRoom is the preemption phase of PDSonQueue (3DSF, section 7.3, Algorithm 5, lines 16 to 27) for an urgent task
// that fits nowhere. If the tasks that end next on some node make room for it in time, it waits for them; else regular
// tasks are preempted on the node that loses the least, the newest first. The free room of the node where it waits is
// kept for it.
func (a *Tenants) makeRoom(c *planner.Cycle, q Tenancy, t planner.TaskID) error {
	task := c.Task(t)
	slack, _ := q.Slack(c, t)
	total := c.Total()
	like := share.Dominant(task.Need, total)
	waitFor, soon, first := planner.NodeID(planner.None), unit.Never, planner.NodeID(planner.None)
	fits := unit.Never
	for n := range c.NodeCount() {
		if a.closed[n] || !task.Need.Fits(c.Capacity(n)) {
			continue
		}
		ends, free := a.room.on(c, n), beside(c, n) // tasks that end together make room together
		if len(ends) > 0 && ends[0].at < soon && ends[0].at.Sub(c.Now()) <= slack &&
			a.room.freed(free, task.Need) == ends[0].at {
			waitFor, soon = n, ends[0].at
		}
		if a.rests[n] && idle(c, task, n) {
			if beat := a.beat(c, n); beat < soon && beat.Sub(c.Now()) <= slack {
				waitFor, soon = n, beat
			}
		}
		if from := a.release(c, n, task); from < fits || first == planner.None {
			first, fits = n, from
		}
	}
	if waitFor == planner.None && slack >= 0 {
		for _, way := range a.ways() {
			if n, least := a.least(c, task.Need, like, total, way); n != planner.None {
				return a.preempt(c, q, t, n, least)
			}
		}
	}
	if waitFor == planner.None && fits < unit.Never {
		waitFor = first // too late or nothing to preempt: it waits where it fits first
	}
	a.misfit(c, t)
	// Every node that could hold it is kept for others, or full of the holds of frozen tasks: these continue first.
	if waitFor == planner.None {
		q.Defer(c, t)
		return nil
	}
	a.close(waitFor)
	q.Take(c, t)
	q.Return(c, t)
	return nil
}

// ways returns how tasks may be asked to make room, the gentlest first.
func (a *Tenants) ways() []Room {
	if a.Room == Suspend {
		return []Room{Freeze, Leave}
	}
	return []Room{a.Room}
}

// least returns the node with the cheapest victims that make room for need, and these; None if it helps nowhere.
func (a *Tenants) least(c *planner.Cycle, need unit.Vector, like unit.Dim, total unit.Vector,
	way Room) (at planner.NodeID, best []victim) {
	at = planner.None
	for n := range c.NodeCount() {
		if a.closed[n] || a.rests[n] || !need.Fits(c.Capacity(n)) {
			continue
		}
		if v, ok := a.victims(c, n, need, like, total, way); ok && (best == nil || cheaper(v, best)) {
			at, best = n, v
		}
	}
	return at, best
}

// preempt makes room for t on n.
func (a *Tenants) preempt(c *planner.Cycle, q Tenancy, t planner.TaskID, n planner.NodeID, victims []victim) error {
	for _, v := range victims {
		if err := c.Draft.Preempt(v.task, v.how); err != nil {
			return err
		}
		c.Note(planner.Note{Topic: "preemption", Workflow: c.Task(v.task).Workflow, Task: v.task, At: c.Now(),
			Text: fmt.Sprintf("makes room on %s (%s) for task %d of workflow %d, which has a deadline",
				c.Nodes()[n].Name, v.how, t, c.Task(t).Workflow)})
	}
	a.emptied = append(a.emptied, n)
	q.Take(c, t)
	ok, err := begin(c, t, n)
	if err == nil && !ok {
		q.Return(c, t)
	}
	return err
}

// victims returns the running regular tasks on n that make room for need, in the order of the paper: low priority with
// the same dominant resource, other low priority, high priority with the same one, other high priority; the newest
// first in each. Tasks of deadline jobs are never among them.
func (a *Tenants) victims(c *planner.Cycle, n planner.NodeID, need unit.Vector, like unit.Dim, total unit.Vector,
	way Room) ([]victim, bool) {
	var all []victim
	for _, id := range c.Active(n) {
		att := c.Attempt(id)
		job := c.Workflow(c.Task(att.Task).Workflow)
		seg, ok := c.Draft.Of(att.Task)
		if !ok || seg.Kind != planner.Active || job.Class == planner.Deadline || c.Phase(att.Task) != planner.Running {
			continue
		}
		v := victim{task: att.Task, since: att.Started, how: planner.Suspend, frees: att.Hold}
		if way == Leave {
			v.how = c.Vacates(att.Task)
		}
		if v.how == planner.Suspend {
			v.frees = att.Hold.Sub(att.Hold.Keep(c.Nodes()[n].Keeps))
		}
		if job.Class != planner.Low {
			v.rank = 2
		}
		if share.Dominant(att.Hold, total) != like {
			v.rank++
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(x, y victim) int {
		return cmp.Or(cmp.Compare(x.rank, y.rank), -cmp.Compare(x.since, y.since), -cmp.Compare(x.task, y.task))
	})
	free := beside(c, n)
	for i := range all {
		if free = free.Add(all[i].frees); need.Fits(free) {
			return all[:i+1], true
		}
	}
	return nil, false
}

// cheaper reports whether it is better to preempt v than w: fewer of high priority, then fewer.
func cheaper(v, w []victim) bool {
	high := func(list []victim) (n int) {
		for _, x := range list {
			if x.rank >= 2 {
				n++
			}
		}
		return n
	}
	return cmp.Or(high(v)-high(w), len(v)-len(w)) < 0
}
