// Package order has the queues of tasks that want a place.
package order

import (
	"cmp"

	"gantry/planner"
	"gantry/planner/exact"
	"gantry/planner/unit"
)

// Key orders tasks: by Major ascending, then by Rank descending, then by Minor ascending, then by id.
type Key struct {
	Major int64
	Rank  exact.Number
	Minor int64
}

func (k *Key) compare(l *Key) int {
	if k.Major != l.Major {
		return cmp.Compare(k.Major, l.Major)
	}
	if c := l.Rank.Compare(k.Rank); c != 0 {
		return c
	}
	return cmp.Compare(k.Minor, l.Minor)
}

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

	classes []class
	byNeed  map[unit.Vector]int32
	heap    heap          // classes that have tasks and are not passed over, by their best task
	misfits []unit.Vector // what fits nowhere in this round
	passed  []int32       // classes passed over
	queued  []bool        // by task
}

type class struct {
	need unit.Vector
	heap []entry
}

type entry struct {
	key  Key
	task planner.TaskID
}

func (e *entry) less(f *entry) bool {
	if c := e.key.compare(&f.key); c != 0 {
		return c < 0
	}
	return e.task < f.task
}

// Update implements planner.Queue.
func (q *Keyed) Update(c *planner.Cycle) {
	if q.byNeed == nil {
		q.byNeed = map[unit.Vector]int32{}
	}
	q.misfits = q.misfits[:0]
	for _, i := range q.passed {
		q.fix(i)
	}
	q.passed = q.passed[:0]
	if q.Prepare != nil {
		q.Prepare(c)
	}
	if n := c.View.Tasks() - len(q.queued); n > 0 {
		q.queued = append(q.queued, make([]bool, n)...)
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
		i = int32(len(q.classes))
		q.byNeed[need] = i
		q.classes = append(q.classes, class{need: need})
		q.heap.grow(len(q.classes))
	}
	q.classes[i].push(entry{q.Key(c, t), t})
	q.fix(i)
}

// Next implements planner.Queue.
func (q *Keyed) Next(c *planner.Cycle) (planner.TaskID, bool) {
	for len(q.heap.at) > 0 {
		i := q.heap.at[0]
		cl := &q.classes[i]
		switch t := cl.heap[0].task; {
		case q.misfit(cl.need):
			q.remove(i)
			q.passed = append(q.passed, i)
		case c.Unplaced(t):
			return t, true
		default: // it ended, or found a place by another way
			q.Take(c, t)
		}
	}
	return planner.None, false
}

func (q *Keyed) misfit(need unit.Vector) bool {
	for _, m := range q.misfits {
		if atLeast(need, m) {
			return true
		}
	}
	return false
}

// Take implements planner.Queue.
func (q *Keyed) Take(*planner.Cycle, planner.TaskID) {
	i := q.heap.at[0]
	q.queued[q.classes[i].pop().task] = false
	q.fix(i)
}

// Defer implements planner.Queue.
func (q *Keyed) Defer(*planner.Cycle, planner.TaskID) {
	q.misfits = append(q.misfits, q.classes[q.heap.at[0]].need)
}

func (q *Keyed) less(i, j int32) bool { return q.classes[i].heap[0].less(&q.classes[j].heap[0]) }

// fix puts a class where its best task belongs.
func (q *Keyed) fix(c int32) {
	if len(q.classes[c].heap) == 0 {
		q.remove(c)
		return
	}
	q.heap.add(c)
	q.heap.fix(c, q.less)
}

func (q *Keyed) remove(c int32) {
	if moved := q.heap.remove(c); moved >= 0 {
		q.heap.fix(moved, q.less)
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
		if !e.less(&cl.heap[p]) {
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
		if k+1 < last && cl.heap[k+1].less(&cl.heap[k]) {
			k++
		}
		if !cl.heap[k].less(&e) {
			break
		}
		cl.heap[i] = cl.heap[k]
		i = k
	}
	cl.heap[i] = e
	return top
}
