package remap

import (
	"cmp"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/budget"
	"gantry/planner/unit"
)

// job is a workflow as it is planned. Its tasks are numbered from 0, in the order of their ids.
type job struct {
	id       planner.WorkflowID
	position int // in present

	tasks   []*planner.Task
	parents [][]int32
	copies  bool         // tasks have inputs that may lie on other nodes
	fetches bool         // these are copied ahead of their starts
	start   planner.Time // s_j
	due     planner.Time // d_j
	sample  time.Duration
	runs    []time.Duration // by task and pool; negative where the task does not fit
	needs   []unit.Vector   // by task
	longer  []time.Duration // by task: the shortest of its runs, which it is ordered by (e_t)
	sub     []planner.Time  // sub-deadlines
	byRun   []int32         // tasks by runtime descending, sub-deadline, id
	rank    []int32         // by task: position in byRun
	queue   []int32         // open tasks in the order in which they are mapped
	fixed   int             // tasks that had a place for good when queue was made; -1: it was not

	at     []placement
	open   int // tasks that have not started
	left   int // tasks that have not ended
	begin  planner.Time
	end    planner.Time
	placed bool         // among mappedJobs
	begun  bool         // a task has started
	kept   int          // the attempt at remapping that there is a snapshot for; see plan.saving
	eager  bool         // mapped by TSP1: it starts earlier than planned if it can
	lost   bool         // in follow.lost
	again  planner.Time // when remapping it may be tried again
	listed bool         // in follow.endangered
	stale  bool         // end may be too late: tasks ended before they should have
	sought bool         // in plan.mappedNow

	nextAt  planner.Time // its first planned start
	touched bool         // in plan.touched
}

// stage is where a task is in the plan.
type stage uint8

const (
	unplaced stage = iota
	planned        // its start is to come
	due            // its planned start has come, and it has not started
	active
	over // ended, in any way
)

// nowhere is the pool of tasks that no node can hold.
const nowhere = -1

// placement is the place of a task in the plan.
type placement struct {
	stage      stage
	pool       int16
	node       int32        // in a packed pool: the number of its node there
	start, end planner.Time // as they are estimated now
	claim      planner.Time // start as it was mapped: those with the earlier one go first
}

// occupies reports whether a task has a place that takes something of its pool.
func (j *job) occupies(i int32) bool {
	at := &j.at[i]
	return at.stage != unplaced && at.stage != over && at.pool != nowhere && at.start < at.end && !j.dummy(i)
}

// nextStart is the first planned start of its tasks; unit.Never if none is planned.
func (j *job) nextStart() planner.Time {
	next := unit.Never
	for i := range j.at {
		if j.at[i].stage == planned {
			next = min(next, j.at[i].start)
		}
	}
	return next
}

func (j *job) task(i int32) planner.TaskID { return j.tasks[i].ID }

// index returns the position of a task of the job. Ids are dense but for tasks that no policy sees.
func (j *job) index(t planner.TaskID) int32 {
	first, n := j.tasks[0].ID, len(j.tasks)
	if int(j.tasks[n-1].ID-first) < n {
		return int32(t - first)
	}
	i, _ := slices.BinarySearchFunc(j.tasks, t, func(x *planner.Task, t planner.TaskID) int {
		return cmp.Compare(x.ID, t)
	})
	return int32(i)
}

// laxity is L_j.
func (j *job) laxity() time.Duration { return budget.Laxity(j.start, j.due, j.sample) }

// dummy reports whether a task runs for no time: it takes no slot.
func (j *job) dummy(i int32) bool { return j.longer[i] == 0 }

// sort orders the tasks as they are mapped: by runtime descending, ties by sub-deadline, then id.
func (j *job) sort() {
	for i := range j.byRun {
		j.byRun[i] = int32(i)
	}
	slices.SortFunc(j.byRun, func(a, b int32) int {
		return cmp.Or(cmp.Compare(j.longer[b], j.longer[a]), cmp.Compare(j.sub[a], j.sub[b]), cmp.Compare(a, b))
	})
	for k, i := range j.byRun {
		j.rank[i] = int32(k)
	}
	j.fixed = -1
}
