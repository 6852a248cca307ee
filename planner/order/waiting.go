package order

import (
	"cmp"
	"slices"

	"gantry/planner"
	"gantry/planner/exact"
	"gantry/planner/rank"
	"gantry/planner/unit"
)

// Discipline is the order of a waiting queue.
type Discipline uint8

const (
	// FirstCome: as they became ready, then by workflow, then by rank descending.
	FirstCome Discipline = iota
	// RankHybrid: by rank ascending, and descending if all tasks in the queue are of one workflow (RANK_HYBD, Yu and
	// Shi 2008).
	RankHybrid
	// ShortestWorkflow: by the estimated remaining execution time of the workflow, then by rank descending (SWF; Wang,
	// MOWS, figure 3-3).
	ShortestWorkflow
)

// Waiting is the waiting queue of online workflow management (Wang, MOWS, sections 3 and 3-1): tasks that have entered
// and have no place, preempted ones among them. Unlike other queues it passes over one task at a time.
type Waiting struct {
	Entry     *rank.Entry
	Order     Discipline
	Remaining *RemainingTimes // of ShortestWorkflow

	tasks  []waiting // in order
	next   int       // tasks before it were passed over in this round
	passed int
	fresh  []planner.TaskID // entered in this round
	single bool             // all tasks are of one workflow, and ordered so
	queued []bool           // by task
	ready  []planner.Time   // by task: when it became ready; 0 if that is the release of its workflow
	frozen []planner.TaskID // tasks that were suspended; those that continued since are still there
	leaves []planner.TaskID // tasks that are expected to leave their places
	behind bool             // all that Next would return stands behind one of them
}

type waiting struct {
	key      int64 // nanoseconds, smaller first; not used by RankHybrid
	workflow planner.WorkflowID
	rank     exact.Number
	task     planner.TaskID
}

func (q *Waiting) compare(a, b waiting) int {
	if a.key != b.key {
		return cmp.Compare(a.key, b.key)
	}
	byRank := b.rank.Compare(a.rank)
	if q.Order == RankHybrid && byRank != 0 {
		if q.single {
			return byRank
		}
		return -byRank
	}
	return cmp.Or(cmp.Compare(a.workflow, b.workflow), byRank, cmp.Compare(a.task, b.task))
}

// Observe keeps when tasks became ready.
func (q *Waiting) Observe(v planner.View, e planner.Event) {
	if q.Order != FirstCome {
		return
	}
	q.ready = planner.Extend(q.ready, v.Tasks())
	switch b := e.Body.(type) {
	case *planner.WorkflowGrown:
		q.ready[b.Task.ID] = e.At // at the earliest
	case *planner.AttemptExited:
		if b.Outcome != planner.OK {
			return
		}
		for _, child := range v.Task(v.Attempt(b.Attempt).Task).Children {
			q.ready[child] = e.At // of the parent that ends last
		}
	}
}

// Update implements planner.Queue.
func (q *Waiting) Update(c *planner.Cycle) {
	ranks := q.Entry.Ranks
	ranks.Update(c)
	q.queued = planner.Extend(q.queued, c.Tasks())
	if q.Order == FirstCome {
		q.ready = planner.Extend(q.ready, c.Tasks())
	}
	q.next, q.passed, q.behind, q.fresh = 0, 0, false, q.fresh[:0]
	if len(c.News.Ended) > 0 {
		q.purge(c)
	}
	remaining := q.Order == ShortestWorkflow && (len(c.News.Arrived)+len(c.News.Grown) > 0 || c.News.Changed)
	if remaining {
		q.Remaining.Update(c, ranks)
	}
	if remaining || slices.ContainsFunc(ranks.Changed(), func(t planner.TaskID) bool { return q.queued[t] }) {
		for i := range q.tasks {
			q.tasks[i] = q.entry(c, q.tasks[i].task)
		}
		slices.SortFunc(q.tasks, q.compare)
	}
	for _, t := range c.News.Suspended {
		q.Add(c, t)
		q.frozen = append(q.frozen, t)
	}
	q.Entry.Update(c, func(t planner.TaskID) { q.Add(c, t) })
	q.direct()
}

// purge drops tasks that ended without a place.
func (q *Waiting) purge(c *planner.Cycle) {
	for i := len(q.tasks) - 1; i >= 0; i-- {
		if !c.Unplaced(q.tasks[i].task) {
			q.drop(i)
		}
	}
}

// Add lets a task in that entered, or lost its place.
func (q *Waiting) Add(c *planner.Cycle, t planner.TaskID) {
	if i := slices.Index(q.leaves, t); i >= 0 {
		q.leaves = slices.Delete(q.leaves, i, i+1)
		q.fresh = append(q.fresh, t)
	}
	if !q.queued[t] && c.Unplaced(t) {
		q.fresh = append(q.fresh, t)
		q.insert(c, t)
	}
}

// Expect lets a task stand in the queue that was preempted in this round (figure 3-10: Q = Q + {t_r}). The tasks behind
// it wait until it is reported to have left its place.
func (q *Waiting) Expect(c *planner.Cycle, t planner.TaskID) {
	if q.queued[t] || !c.Unplaced(t) {
		return
	}
	q.leaves = append(q.leaves, t)
	if q.insert(c, t) <= q.next {
		q.next++
		q.behind = true
	}
}

// Expecting reports whether tasks are expected to leave their places.
func (q *Waiting) Expecting() bool { return len(q.leaves) > 0 }

// insert puts t in its place, and returns that.
func (q *Waiting) insert(c *planner.Cycle, t planner.TaskID) int {
	q.queued[t] = true
	e := q.entry(c, t)
	i, _ := slices.BinarySearchFunc(q.tasks, e, q.compare)
	q.tasks = slices.Insert(q.tasks, i, e)
	return i
}

// entry returns the entry of t in the queue.
func (q *Waiting) entry(c *planner.Cycle, t planner.TaskID) waiting {
	task := c.Task(t)
	e := waiting{workflow: task.Workflow, rank: q.Entry.Ranks.Of(task), task: t}
	switch q.Order {
	case FirstCome:
		e.key = int64(max(q.ready[t], c.Workflow(task.Workflow).Arrived, c.Workflow(task.Workflow).Release))
	case ShortestWorkflow:
		e.key = int64(q.Remaining.Of(task.Workflow))
	}
	return e
}

// direct turns the order of RankHybrid round where the queue came to be of one workflow, or of several. Once a task was
// passed over the order of the round stays.
func (q *Waiting) direct() {
	if q.Order != RankHybrid || q.passed > 0 {
		return
	}
	single := len(q.tasks) > 0 && !slices.ContainsFunc(q.tasks, func(e waiting) bool {
		return e.workflow != q.tasks[0].workflow
	})
	if single != q.single {
		q.single, q.next, q.behind = single, 0, false
		slices.SortFunc(q.tasks, q.compare)
	}
}

// Next implements planner.Queue.
func (q *Waiting) Next(c *planner.Cycle) (planner.TaskID, bool) {
	for q.next < len(q.tasks) && !q.behind {
		switch t := q.tasks[q.next].task; {
		case !c.Unplaced(t):
			q.drop(q.next)
		case slices.Contains(q.leaves, t):
			q.behind = true
		default:
			return t, true
		}
	}
	return planner.None, false
}

func (q *Waiting) drop(i int) {
	t := q.tasks[i].task
	q.queued[t] = false
	q.leaves = slices.DeleteFunc(q.leaves, func(x planner.TaskID) bool { return x == t })
	q.tasks = slices.Delete(q.tasks, i, i+1)
}

// Take implements planner.Queue; it takes tasks that were passed over, too.
func (q *Waiting) Take(c *planner.Cycle, t planner.TaskID) {
	if q.next < len(q.tasks) && q.tasks[q.next].task == t {
		q.drop(q.next)
		q.direct()
		return
	}
	if i, ok := slices.BinarySearchFunc(q.tasks, q.entry(c, t), q.compare); ok {
		q.drop(i)
		q.passed--
		if i < q.next {
			q.next--
		}
	}
}

// Defer passes over the task that Next returned last for the rest of the round.
func (q *Waiting) Defer(*planner.Cycle, planner.TaskID) {
	q.next++
	q.passed++
}

// Passed returns how many tasks were passed over in this round.
func (q *Waiting) Passed() int { return q.passed }

// Fresh returns the tasks that entered in this round.
func (q *Waiting) Fresh() []planner.TaskID { return q.fresh }

// Frozen returns the tasks of the queue that are suspended, and continue where they are.
func (q *Waiting) Frozen(c *planner.Cycle) []planner.TaskID {
	q.frozen = slices.DeleteFunc(q.frozen, func(t planner.TaskID) bool {
		return c.Phase(t) != planner.Suspended ||
			!q.queued[t]
	})
	return q.frozen
}

// LeastCPU returns the smallest need of CPU in the queue, in millicores; [unit.Unlimited] if it is empty.
func (q *Waiting) LeastCPU(c *planner.Cycle) int64 {
	least := unit.Unlimited
	for i := range q.tasks {
		least = min(least, c.Task(q.tasks[i].task).Need[unit.CPU])
	}
	return least
}
