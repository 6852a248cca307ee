package order

import (
	"cmp"
	"slices"

	"gantry/planner"
	"gantry/planner/exact"
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
	groupOf  []int32 // by task: the group it is in, counted over all sequences
	group    int32
}

// member is a task of a group.
type member struct {
	task     planner.TaskID
	workflow planner.WorkflowID
	rank     exact.Number
	turn     int // which it is of its workflow in the group
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
	var all []member
	for _, w := range c.Present() {
		for _, t := range q.Ranks.Sorted(c.Workflow(w)) {
			if c.Unplaced(t) {
				all = append(all, member{task: t, workflow: w, rank: q.Ranks.Of(c.Task(t))})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b member) int { return b.rank.Compare(a.rank) }) // ties: the earlier workflow
	first := 0
	q.group++
	for i := range all {
		t := all[i].task
		if slices.ContainsFunc(c.Task(t).Parents, func(p planner.TaskID) bool { return q.groupOf[p] == q.group }) {
			q.takeTurns(all[first:i])
			first = i
			q.group++
		}
		q.groupOf[t] = q.group
	}
	q.takeTurns(all[first:])
}

// takeTurns appends a group to the sequence.
func (q *Alternating) takeTurns(group []member) {
	turns := map[planner.WorkflowID]int{}
	for i := range group {
		m := &group[i]
		m.turn = turns[m.workflow]
		turns[m.workflow]++
	}
	slices.SortFunc(group, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.workflow, b.workflow))
	})
	for i := range group {
		q.sequence = append(q.sequence, group[i].task)
	}
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
