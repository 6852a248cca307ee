// Package order has the queues of tasks that want a place.
package order

import (
	"slices"

	"gantry/planner"
	"gantry/planner/exact"
	"gantry/planner/heap"
	"gantry/planner/unit"
)

// Key orders tasks: by Major ascending, then by Rank descending, then by Minor ascending, then by id.
type Key struct {
	Major int64
	Rank  exact.Number
	Minor int64
}

// Members says which tasks enter a queue, and when.
type Members uint8

const (
	Eligible Members = iota // tasks whose parents are done, when that is so
	Unplaced                // all tasks, when their workflow arrives or they lose their place
)

// Keyed is a queue by keys that stay as they are once a task has entered. It holds one heap per distinct need, so that
// a task that does not fit defers all that need as much, without touching them.
type Keyed struct {
	Members Members
	// Prepare is called with each round's news before keys are asked for; it may be nil.
	Prepare func(c *planner.Cycle)
	// Key is asked once for each entry of a task, and again for those that Changed has after Prepare.
	// Changed may be nil.
	Key     func(c *planner.Cycle, t planner.TaskID) Key
	Changed func() []planner.TaskID

	classes []class
	byKind  map[kind]int32
	last    int32         // the class of the last task that entered
	heap    *numbered     // classes that have tasks and are not passed over, by their best task
	misfits []unit.Vector // needs that fit nowhere in this round
	passed  []int32       // classes passed over
	skipped []skipped     // tasks that are passed over alone in this round
	queued  []bool        // by task
}

// kind is common to the tasks of a class: their needs.
type kind struct {
	need   unit.Vector
	tokens planner.Tokens
}

func kindOf(c *planner.Cycle, t planner.TaskID) kind {
	task := c.Task(t)
	return kind{need: task.Need, tokens: task.Tokens}
}

type class struct {
	kind
	heap heap.Heap[entry]
}

type entry struct {
	key  Key
	task planner.TaskID
}

type skipped struct {
	entry
	class int32
}

func (e *entry) less(f *entry) bool {
	if e.key.Major != f.key.Major {
		return e.key.Major < f.key.Major
	}
	if c := f.key.Rank.Compare(e.key.Rank); c != 0 {
		return c < 0
	}
	if e.key.Minor != f.key.Minor {
		return e.key.Minor < f.key.Minor
	}
	return e.task < f.task
}

// Update implements planner.Queue.
func (q *Keyed) Update(c *planner.Cycle) {
	if q.byKind == nil {
		q.byKind = map[kind]int32{}
		q.heap = newNumbered(q.less)
	}
	q.misfits = q.misfits[:0]
	for _, i := range q.passed {
		q.fix(i)
	}
	q.passed = q.passed[:0]
	for _, s := range q.skipped {
		q.classes[s.class].heap.Push(s.entry)
		q.fix(s.class)
	}
	q.skipped = q.skipped[:0]
	if q.Prepare != nil {
		q.Prepare(c)
	}
	q.queued = planner.Extend(q.queued, c.Tasks())
	if q.Changed != nil {
		q.rekey(c, q.Changed())
	}
	if q.Members == Unplaced {
		for _, list := range [...][]planner.WorkflowID{c.News.Arrived, c.News.Grown} {
			for _, w := range list {
				for _, t := range c.Workflow(w).Tasks {
					q.Add(c, t)
				}
			}
		}
	}
	for _, t := range c.News.Ready {
		q.Add(c, t)
		if q.Members == Unplaced && c.Unplaced(t) {
			q.below(c, t)
		}
	}
}

// below lets the descendants of t enter: they lost their places with t, whose last attempt did not end well.
func (q *Keyed) below(c *planner.Cycle, t planner.TaskID) {
	for _, child := range c.Task(t).Children {
		if !q.queued[child] && c.Unplaced(child) {
			q.Add(c, child)
			q.below(c, child)
		}
	}
}

// Add lets a task enter that lost its place; one that is in the queue stays as it is.
func (q *Keyed) Add(c *planner.Cycle, t planner.TaskID) {
	if q.queued[t] || !c.Unplaced(t) {
		return
	}
	q.queued[t] = true
	i := q.class(kindOf(c, t))
	q.classes[i].heap.Push(entry{q.Key(c, t), t})
	q.fix(i)
}

// class returns the class of a kind of tasks. Most tasks are of the kind of the last one.
func (q *Keyed) class(k kind) int32 {
	if int(q.last) < len(q.classes) && q.classes[q.last].kind == k {
		return q.last
	}
	i, ok := q.byKind[k]
	if !ok {
		i = int32(len(q.classes))
		q.byKind[k] = i
		q.classes = append(q.classes, class{kind: k, heap: heap.Heap[entry]{Before: (*entry).less}})
		q.heap.grow(len(q.classes))
	}
	q.last = i
	return i
}

// rekey gives tasks of the queue the keys that they have by now.
func (q *Keyed) rekey(c *planner.Cycle, tasks []planner.TaskID) {
	var of []int32 // their classes
	for _, t := range tasks {
		if i, ok := q.byKind[kindOf(c, t)]; ok && q.queued[t] && !slices.Contains(of, i) {
			of = append(of, i)
		}
	}
	for _, i := range of {
		h := &q.classes[i].heap
		old := h.Items
		h.Items = make([]entry, 0, len(old))
		for _, e := range old {
			if slices.Contains(tasks, e.task) {
				e.key = q.Key(c, e.task)
			}
			h.Push(e)
		}
		q.fix(i)
	}
}

// Next implements planner.Queue.
func (q *Keyed) Next(c *planner.Cycle) (planner.TaskID, bool) {
	for len(q.heap.Items) > 0 {
		i := q.heap.Items[0]
		cl := &q.classes[i]
		switch t := cl.heap.Items[0].task; {
		case misfit(q.misfits, cl.need):
			q.heap.remove(i)
			q.passed = append(q.passed, i)
		case c.Unplaced(t):
			return t, true
		default: // it ended, or found a place by another way
			q.Take(c, t)
		}
	}
	return planner.None, false
}

// misfit reports whether a need is at least one that did not fit.
func misfit(misfits []unit.Vector, need unit.Vector) bool {
	for _, m := range misfits {
		if atLeast(need, m) {
			return true
		}
	}
	return false
}

// Take implements planner.Queue.
func (q *Keyed) Take(*planner.Cycle, planner.TaskID) {
	i := q.heap.Items[0]
	q.queued[q.classes[i].heap.Pop().task] = false
	q.fix(i)
}

// Defer implements planner.Queue.
func (q *Keyed) Defer(c *planner.Cycle, t planner.TaskID) {
	if c.Draft.Limited(t) { // others may fit
		i := q.heap.Items[0]
		q.heap.remove(i)
		q.passed = append(q.passed, i)
		return
	}
	q.misfits = append(q.misfits, q.classes[q.heap.Items[0]].need)
}

// Skip implements alloc.Skipper.
func (q *Keyed) Skip(*planner.Cycle, planner.TaskID) {
	i := q.heap.Items[0]
	q.skipped = append(q.skipped, skipped{q.classes[i].heap.Pop(), i})
	q.fix(i)
}

func (q *Keyed) less(i, j int32) bool {
	return q.classes[i].heap.Items[0].less(&q.classes[j].heap.Items[0])
}

// fix puts a class where its best task belongs.
func (q *Keyed) fix(c int32) {
	if q.classes[c].heap.Len() == 0 {
		q.heap.remove(c)
	} else {
		q.heap.fix(c)
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
