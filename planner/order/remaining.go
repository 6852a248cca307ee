package order

import (
	"time"

	"gantry/planner"
	"gantry/planner/rank"
	"gantry/planner/timeline"
	"gantry/planner/unit"
)

// RemainingTimes has the estimated remaining execution time of workflows (ERET; Wang, MOWS, section 3-1, figure 3-2):
// until the last estimated finish of their tasks, if each workflow had the system to itself beside tasks that run or
// have a place. Of its tasks the one with the highest rank is mapped first, to the node where it finishes earliest
// (then where it starts earlier, then the lowest id). Copies begin when the task that wrote the file has ended, those
// under way when they did; a task that continues from a checkpoint has that moved.
type RemainingTimes struct {
	of     []time.Duration // by workflow
	base   []timeline.Profile
	sketch []timeline.Profile
	ends   []end // by task; of the present workflow
}

// end is when and where a task of the present workflow is estimated to end.
type end struct {
	at   planner.Time
	node planner.NodeID
}

// Of returns the time of w that was computed when a workflow arrived last.
func (r *RemainingTimes) Of(w planner.WorkflowID) time.Duration { return r.of[w] }

// Update computes the times of all workflows present.
func (r *RemainingTimes) Update(c *planner.Cycle, ranks *rank.Upward) {
	r.of = planner.Extend(r.of, c.Workflows())
	if r.base == nil {
		r.base, r.sketch = make([]timeline.Profile, len(c.Nodes())), make([]timeline.Profile, len(c.Nodes()))
	}
	for n := range r.base {
		c.Draft.Sketch(planner.NodeID(n), &r.base[n])
	}
	for _, w := range c.Present() {
		r.of[w] = r.workflow(c, ranks, c.Workflow(w))
	}
}

func (r *RemainingTimes) workflow(c *planner.Cycle, ranks *rank.Upward, w *planner.Workflow) (longest time.Duration) {
	for n := range r.sketch {
		r.sketch[n].Copy(&r.base[n])
	}
	last := c.Now()
	r.ends = planner.Extend(r.ends, c.Tasks())
	for _, t := range ranks.Sorted(w) { // parents come before their children
		e := &r.ends[t]
		*e = end{c.Now(), planner.None}
		seg, placed := c.Draft.Of(t)
		switch {
		case c.Phase(t).Ended():
			continue
		case placed && seg.Kind != planner.Parked:
			*e = end{max(seg.End, c.Now()), seg.Node}
		default:
			r.place(c, c.Task(t), e)
		}
		last = max(last, e.at)
	}
	return last.Sub(c.Now())
}

// place maps a task.
func (r *RemainingTimes) place(c *planner.Cycle, t *planner.Task, best *end) {
	from := max(c.Now(), c.Workflow(t.Workflow).Release)
	for _, p := range t.Parents {
		from = max(from, r.ends[p].at)
	}
	var start planner.Time
	var more unit.Vector
	for n := range r.sketch {
		node := planner.NodeID(n)
		if !t.Need.Fits(c.Capacity(node)) {
			continue
		}
		need, ready, dur := t.Need, from, max(1, c.Est.Run(t, &c.Nodes()[n]).Run)
		if c.Phase(t.ID) == planner.Suspended {
			site, ok := c.Site(t.ID, node)
			if !ok {
				continue // it continues where it is
			}
			need, dur = site.More, site.Dur
		}
		if at, _ := c.Checkpoint(t.ID); at != planner.None {
			dur += c.MoveTime(t.CheckpointSize, at, node)
		}
		for _, f := range t.Inputs {
			arrival, copying := r.arrival(c, f, node)
			if c.Platform().Overlapped {
				ready = max(ready, arrival)
			} else {
				dur += copying
			}
		}
		if best.node != planner.None && ready.Add(dur) > best.at {
			continue
		}
		at, ok := r.sketch[n].Earliest(need, dur, ready)
		if end := at.Add(dur); ok && (best.node == planner.None || end < best.at || end == best.at && at < start) {
			best.at, best.node, start, more = end, node, at, need
		}
	}
	if best.node == planner.None { // nothing can be said: resources that a node lacks now may come back
		best.at = from
		return
	}
	r.sketch[best.node].Add(start, best.at, more)
}

// arrival returns when f can be on node n, and how long its copy takes.
func (r *RemainingTimes) arrival(c *planner.Cycle, f planner.FileID, n planner.NodeID) (planner.Time, time.Duration) {
	from, file := c.Nearest(f, n), c.File(f)
	begin, exists := c.Now(), from != planner.None
	if !exists {
		if file.Producer == planner.None {
			return begin, 0
		}
		e := r.ends[file.Producer]
		if from, begin = e.node, e.at; from == planner.None {
			return begin, 0
		}
	}
	d := c.MoveTime(file.Size, from, n)
	if exists && from != n {
		if at, underWay := c.Draft.CopyEnd(f, n); underWay {
			return max(at, c.Now()), d
		}
	}
	return begin.Add(d), d
}
