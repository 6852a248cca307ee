package order

import (
	"slices"

	"gantry/planner"
	"gantry/planner/exact"
	"gantry/planner/heap"
	"gantry/planner/rank"
)

// Alternating is the order in which Workload HEFT plans (Ilyushkin and Epema, CCGrid 2018, section III-I): all tasks
// that want a place, by upward rank, are cut into groups of independent tasks (the hybrid heuristic of Sakellariou and
// Zhao 2004: a task that depends on one in the present group opens the next), and within a group the workflows take
// turns, the earliest first (alternating DAGs, Zhao and Sakellariou 2006). The sequence is made again whenever tasks
// want a place that had none.
type Alternating struct {
	Ranks *rank.Upward

	sequence []planner.TaskID
	next     int
	stale    bool

	lists   heap.Heap[rankedList] // merge of the workflows, by the rank of their next task
	groupOf []int32               // by task: the group it is in, counted over all sequences
	group   int32
	turns   [][]planner.TaskID // of the present group: by workflow, in order of arrival
	turnOf  []int32            // by workflow: index in turns and one
	order   []planner.WorkflowID
}

type rankedList struct {
	workflow planner.WorkflowID
	tasks    []planner.TaskID
	rank     exact.Number
}

func (a *rankedList) before(b *rankedList) bool {
	if c := a.rank.Compare(b.rank); c != 0 {
		return c > 0
	}
	return a.workflow < b.workflow
}

// Add says that a task lost its place.
func (q *Alternating) Add(*planner.Cycle, planner.TaskID) { q.stale = true }

// Update implements planner.Queue.
func (q *Alternating) Update(c *planner.Cycle) {
	q.Ranks.Update(c)
	q.stale = q.stale || len(c.News.Arrived)+len(c.News.Grown) > 0 || c.News.Changed
	for _, t := range c.News.Ready {
		q.stale = q.stale || c.Unplaced(t)
	}
	if q.stale {
		q.arrange(c)
		q.stale = false
	}
}

// arrange makes the sequence.
func (q *Alternating) arrange(c *planner.Cycle) {
	q.sequence, q.next = q.sequence[:0], 0
	q.groupOf = planner.Extend(q.groupOf, c.Tasks())
	q.turnOf = planner.Extend(q.turnOf, c.Workflows())
	q.lists = heap.Heap[rankedList]{Before: (*rankedList).before, Items: q.lists.Items[:0]}
	for _, w := range c.Present() {
		l := rankedList{workflow: w, tasks: q.Ranks.Sorted(c.Workflow(w))}
		if q.advance(c, &l) {
			q.lists.Items = append(q.lists.Items, l)
		}
	}
	q.lists.Init()
	q.group++
	for q.lists.Len() > 0 {
		l := &q.lists.Items[0]
		t := l.tasks[0]
		for _, p := range c.Task(t).Parents {
			if q.groupOf[p] == q.group {
				q.takeTurns()
				q.group++
				break
			}
		}
		q.groupOf[t] = q.group
		q.enter(l.workflow, t)
		l.tasks = l.tasks[1:]
		if q.advance(c, l) {
			q.lists.Fix(0)
		} else {
			q.lists.Pop()
		}
	}
	q.takeTurns()
}

// advance skips tasks that have a place or have ended; false if none is left.
func (q *Alternating) advance(c *planner.Cycle, l *rankedList) bool {
	for len(l.tasks) > 0 && !c.Unplaced(l.tasks[0]) {
		l.tasks = l.tasks[1:]
	}
	if len(l.tasks) == 0 {
		return false
	}
	l.rank = q.Ranks.Of(c.Task(l.tasks[0]))
	return true
}

// enter puts a task behind those of its workflow in the present group.
func (q *Alternating) enter(w planner.WorkflowID, t planner.TaskID) {
	i := q.turnOf[w] - 1
	if i < 0 {
		i = int32(len(q.order))
		q.turnOf[w] = i + 1
		q.order = append(q.order, w)
		if int(i) == len(q.turns) {
			q.turns = append(q.turns, nil)
		}
		q.turns[i] = q.turns[i][:0]
	}
	q.turns[i] = append(q.turns[i], t)
}

// takeTurns ends the present group.
func (q *Alternating) takeTurns() {
	slices.Sort(q.order)
	open := q.order
	for turn := 0; len(open) > 0; turn++ {
		left := open[:0]
		for _, w := range open {
			tasks := q.turns[q.turnOf[w]-1]
			q.sequence = append(q.sequence, tasks[turn])
			if turn+1 < len(tasks) {
				left = append(left, w)
			} else {
				q.turnOf[w] = 0
			}
		}
		open = left
	}
	q.order = q.order[:0]
}

// Next implements planner.Queue.
func (q *Alternating) Next(c *planner.Cycle) (planner.TaskID, bool) {
	for q.next < len(q.sequence) && !c.Unplaced(q.sequence[q.next]) {
		q.next++
	}
	if q.next == len(q.sequence) {
		return planner.None, false
	}
	return q.sequence[q.next], true
}

// Take implements planner.Queue.
func (q *Alternating) Take(*planner.Cycle, planner.TaskID) { q.next++ }

// Defer implements planner.Queue. A task that fits nowhere is asked for again when the sequence is made again.
func (q *Alternating) Defer(*planner.Cycle, planner.TaskID) { q.next++ }
