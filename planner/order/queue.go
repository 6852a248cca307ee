// Package order has the queues of tasks that want a place.
package order

import (
	"cmp"

	"gantry/planner"
	"gantry/planner/unit"
)

// Key orders tasks: smaller first by Major, then Minor, then id.
type Key struct{ Major, Minor float64 }

// Members says which tasks enter a queue, and when.
type Members uint8

const (
	Eligible Members = iota // tasks whose parents are done, when that is so
	Unplaced                // all tasks, when their workflow arrives or they lose their place
)

// Keyed is a queue by keys that stay as they are once a task has entered. It holds one heap per distinct need, so that a task that
// does not fit defers all that need as much, without touching them.
type Keyed struct {
	Members Members
	// Prepare is called with each round's news before keys are asked for; it may be nil.
	Prepare func(c *planner.Cycle)
	// Key is asked once for each entry of a task.
	Key func(c *planner.Cycle, t planner.TaskID) Key

	classes  []class
	byNeed   map[unit.Vector]int
	queued   []bool // by task
	current  int    // class of the task that Next returned last
	deferred int    // classes out of play in this round
}

type class struct {
	need     unit.Vector
	heap     []entry
	deferred bool
}

type entry struct {
	key  Key
	task planner.TaskID
}

func (e entry) less(f entry) bool {
	if c := cmp.Compare(e.key.Major, f.key.Major); c != 0 {
		return c < 0
	}
	if c := cmp.Compare(e.key.Minor, f.key.Minor); c != 0 {
		return c < 0
	}
	return e.task < f.task
}

// Update implements planner.Queue.
func (q *Keyed) Update(c *planner.Cycle) {
	if q.byNeed == nil {
		q.byNeed = map[unit.Vector]int{}
	}
	for i := range q.classes {
		q.classes[i].deferred = false
	}
	q.deferred = 0
	if q.Prepare != nil {
		q.Prepare(c)
	}
	for len(q.queued) < c.View.Tasks() {
		q.queued = append(q.queued, false)
	}
	if q.Members == Unplaced {
		for _, w := range c.News.Arrived {
			for _, t := range c.Workflow(w).Tasks {
				q.Add(c, t)
			}
		}
	}
	for _, t := range c.News.Ready {
		q.Add(c, t)
	}
}

// Add lets a task enter that lost its place; one that is in the queue stays as it is.
func (q *Keyed) Add(c *planner.Cycle, t planner.TaskID) {
	if q.queued[t] || !c.Unplaced(t) {
		return
	}
	q.queued[t] = true
	need := c.Task(t).Need
	i, ok := q.byNeed[need]
	if !ok {
		i = len(q.classes)
		q.byNeed[need] = i
		q.classes = append(q.classes, class{need: need})
	}
	q.classes[i].push(entry{q.Key(c, t), t})
}

// Next implements planner.Queue.
func (q *Keyed) Next(c *planner.Cycle) (planner.TaskID, bool) {
	best := -1
	for i := range q.classes {
		cl := &q.classes[i]
		if cl.deferred {
			continue
		}
		// Tasks that ended or found a place by another way are dropped when they come to the top.
		for len(cl.heap) > 0 && !c.Unplaced(cl.heap[0].task) {
			q.queued[cl.pop().task] = false
		}
		if len(cl.heap) > 0 && (best < 0 || cl.heap[0].less(q.classes[best].heap[0])) {
			best = i
		}
	}
	if best < 0 {
		return planner.None, false
	}
	q.current = best
	return q.classes[best].heap[0].task, true
}

// Take implements planner.Queue.
func (q *Keyed) Take(t planner.TaskID) {
	q.queued[q.classes[q.current].pop().task] = false
}

// Defer implements planner.Queue.
func (q *Keyed) Defer(planner.TaskID) {
	need := q.classes[q.current].need
	for i := range q.classes {
		if cl := &q.classes[i]; !cl.deferred && atLeast(cl.need, need) {
			cl.deferred = true
			q.deferred++
		}
	}
}

// atLeast reports whether v needs as much as w in every dimension.
func atLeast(v, w unit.Vector) bool {
	for i := range v {
		if v[i] < w[i] {
			return false
		}
	}
	return true
}

func (cl *class) push(e entry) {
	cl.heap = append(cl.heap, e)
	i := len(cl.heap) - 1
	for i > 0 {
		p := (i - 1) / 2
		if !e.less(cl.heap[p]) {
			break
		}
		cl.heap[i] = cl.heap[p]
		i = p
	}
	cl.heap[i] = e
}

func (cl *class) pop() entry {
	top := cl.heap[0]
	last := len(cl.heap) - 1
	e := cl.heap[last]
	cl.heap = cl.heap[:last]
	if last == 0 {
		return top
	}
	i := 0
	for {
		k := 2*i + 1
		if k >= last {
			break
		}
		if k+1 < last && cl.heap[k+1].less(cl.heap[k]) {
			k++
		}
		if !cl.heap[k].less(e) {
			break
		}
		cl.heap[i] = cl.heap[k]
		i = k
	}
	cl.heap[i] = e
	return top
}
