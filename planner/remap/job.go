package remap

import (
	"cmp"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/budget"
	"gantry/planner/heap"
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
	kept   int          // the attempt at remapping that there is a snapshot for; see Policy.saving
	eager  bool         // mapped by TSP1: it starts earlier than planned if it can
	lost   bool         // in follow.lost
	again  planner.Time // when remapping it may be tried again
	listed bool         // in follow.endangered
	stale  bool         // end may be too late: tasks ended before they should have
	sought bool         // in follow.mappedNow

	starts  []instant    // planned tasks by start; those before next were dealt with
	next    int          // in starts
	sorted  bool         // starts is up to date
	nextAt  planner.Time // when the next task is due
	touched bool         // nextAt is not up to date: in follow.touched
	heap    int          // position in follow.calendar; -1: none
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
	slot       int32        // in a packed pool, see usage.add
	start, end planner.Time // as they are estimated now
	claim      planner.Time // start as it was mapped: those with the earlier one go first
}

// occupies reports whether a task has a place that takes something of its pool.
func (j *job) occupies(i int32) bool {
	at := &j.at[i]
	return at.stage != unplaced && at.stage != over && at.pool != nowhere && at.start < at.end && !j.dummy(i)
}

// snapshot is a job as it was before an attempt at remapping.
type snapshot struct {
	j      *job
	places int // its places, from there on in Policy.places
	begin  planner.Time
	end    planner.Time
	placed bool
	eager  bool
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

// newJob takes in a workflow, of which tasks may run or have ended already.
func (p *Policy) newJob(w planner.WorkflowID) *job {
	c, flow := p.c, p.c.Workflow(w)
	n := len(flow.Tasks)
	j := &job{id: w, start: max(flow.Release, flow.Arrived), due: flow.Due, fixed: -1, heap: -1,
		position: len(p.present),
		tasks:    make([]*planner.Task, n), begin: unit.Never, at: make([]placement, n), byRun: make([]int32, n),
		rank: make([]int32, n)}
	j.parents = make([][]int32, n)
	parents := make([]int32, 0, 2*n)
	for i, t := range slices.Sorted(slices.Values(flow.Tasks)) {
		j.tasks[i] = c.Task(t)
	}
	for i := range j.tasks {
		first := len(parents)
		for _, parent := range j.tasks[i].Parents {
			parents = append(parents, j.index(parent))
		}
		j.parents[i] = parents[first:len(parents):len(parents)]
		j.copies = j.copies || len(c.Nodes()) > 1 && len(j.tasks[i].Inputs) > 0
		j.fetches = j.fetches || p.fetches(j.tasks[i])
	}
	for int(w) >= len(p.jobs) {
		p.jobs = append(p.jobs, nil)
	}
	p.jobs[w] = j
	p.present = append(p.present, j)
	p.spans = append(p.spans, span{unit.Never, 0})
	p.estimate(j)
	if started, _ := c.Times(w); started != unit.Never {
		j.begun, j.begin = true, started
	}
	for i := range int32(n) {
		t := j.task(i)
		switch phase := c.Phase(t); {
		case phase.Ended():
			j.at[i] = placement{stage: over}
			continue
		case phase.Placed():
			seg, _ := c.Draft.Of(t)
			pool := p.poolOf[seg.Node]
			if j.runs[int(i)*len(p.pools)+int(pool)] < 0 { // it holds less than it needs, and its node is drained
				pool = nowhere
			}
			j.at[i] = placement{active, pool, onNode(p.indexOf[seg.Node]), seg.Start,
				c.Draft.ActiveEnd(t), seg.Start}
			p.occupy(j, i)
			p.ends.Push(item{j.at[i].end, j, i})
			j.end = max(j.end, j.at[i].end)
		default:
			j.open++
			if phase == planner.Ready {
				p.becameReady(j, i)
			}
		}
		j.left++
	}
	return j
}

// dismiss takes a job out of the plan, and forgets it.
func (p *Policy) dismiss(j *job) {
	p.remove(j)
	p.leave(j)
	last := len(p.present) - 1
	p.present[j.position], p.spans[j.position] = p.present[last], p.spans[last]
	p.present[j.position].position = j.position
	p.present[last] = nil
	p.present, p.spans = p.present[:last], p.spans[:last]
	p.jobs[j.id] = nil
}

// of returns the job of a task and its number there; nil if the job is not planned here.
func (p *Policy) of(t planner.TaskID) (*job, int32) {
	w := p.c.Task(t).Workflow
	if int(w) >= len(p.jobs) || p.jobs[w] == nil {
		return nil, 0
	}
	return p.jobs[w], p.jobs[w].index(t)
}

// dummy reports whether a task runs for no time: it takes no slot.
func (j *job) dummy(i int32) bool { return j.longer[i] == 0 }

// budget is the DBW algorithm (Algorithm 1): SET_j, laxity and sub-deadlines.
func (p *Policy) budget(j *job) {
	j.sub = make([]planner.Time, len(j.at))
	j.sort()
	sample := p.sampleSchedule(j, false)
	if p.TrueLaxity {
		sample = p.sampleSchedule(j, true)
	}
	b := budget.Job{Start: j.start, Due: j.due, Tasks: make([]budget.Task, len(j.at))}
	end := j.start
	order := make([]int32, len(j.at))
	for k, t := range p.c.Workflow(j.id).Tasks {
		order[k] = j.index(t)
	}
	for i := range b.Tasks {
		b.Tasks[i] = budget.Task{Stage: j.tasks[i].Stage, Dummy: j.dummy(int32(i)), End: sample[i].end,
			Parents: j.parents[i]}
		if sample[i].end < unit.Never {
			end = max(end, sample[i].end)
		}
	}
	b.Sample = end.Sub(j.start)
	j.sample = b.Sample
	if p.FIFO {
		return
	}
	j.sub = b.SubDeadlines(p.Distribution, order)
	j.sort()
}

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

// order returns the open tasks of a job in the order in which Algorithm 5 maps them: sweep after sweep over the tasks
// by runtime, those passed over whose parents have no place yet. The order does not depend on the places.
func (p *Policy) order(j *job) []int32 {
	if fixed := len(j.at) - j.open; j.fixed != fixed {
		j.fixed = fixed
		j.queue = p.sweep(j, j.queue[:0], func(i int32) bool { return j.at[i].stage <= due })
	}
	return j.queue
}

// sweep appends the tasks for which open holds in that order.
func (p *Policy) sweep(j *job, queue []int32, open func(int32) bool) []int32 {
	w := &p.work
	w.missing = append(w.missing[:0], make([]int32, len(j.at))...)
	if w.now.Before == nil {
		w.now, w.later = heap.Smallest[int32](), heap.Smallest[int32]()
	}
	for _, i := range j.byRun {
		if !open(i) {
			continue
		}
		for _, parent := range j.parents[i] {
			if open(parent) {
				w.missing[i]++
			}
		}
		if w.missing[i] == 0 {
			w.now.Push(j.rank[i])
		}
	}
	for w.now.Len() > 0 {
		at := w.now.Pop()
		i := j.byRun[at]
		queue = append(queue, i)
		for _, child := range j.tasks[i].Children {
			k := j.index(child)
			if !open(k) {
				continue
			}
			if w.missing[k]--; w.missing[k] > 0 {
				continue
			}
			if j.rank[k] > at || p.Restart {
				w.now.Push(j.rank[k])
			} else {
				w.later.Push(j.rank[k])
			}
		}
		if w.now.Len() == 0 {
			w.now, w.later = w.later, w.now
		}
	}
	return queue
}

// put gives a task its place.
func (p *Policy) put(j *job, i int32, at placement) {
	p.vacate(j, i)
	// a job that begins later or ends earlier than is known
	j.stale = j.stale || at.start > j.at[i].start || at.end < j.at[i].end
	j.at[i] = at
	p.occupy(j, i)
	p.touch(j)
}

// occupy adds the use of a task to its pool.
func (p *Policy) occupy(j *job, i int32) {
	if at := &j.at[i]; j.occupies(i) {
		at.slot = p.pools[at.pool].usage.add(at.start, at.end, &j.needs[i], at.slot, at.stage >= active)
	}
}

// vacate takes it away again.
func (p *Policy) vacate(j *job, i int32) {
	if at := &j.at[i]; j.occupies(i) {
		p.pools[at.pool].usage.remove(at.slot, at.start, at.end, &j.needs[i])
	}
}

// mapped says that all tasks of a job have places, and adds it to mappedJobs.
func (p *Policy) mapped(j *job) {
	j.placed, j.stale, j.eager = true, true, !p.latest
	p.touch(j)
	p.seekAll(j)
	p.settle(j)
}

// settle brings up to date when a job begins and ends. Dummies begin nothing: they do not execute.
func (p *Policy) settle(j *job) {
	if !j.stale {
		return
	}
	j.stale = false
	if !j.begun {
		j.begin = unit.Never
	}
	j.end = 0
	for i := range j.at {
		if at := &j.at[i]; at.stage != unplaced {
			j.end = max(j.end, at.end)
			if at.stage != over && !j.dummy(int32(i)) {
				j.begin = min(j.begin, at.start)
			}
		}
	}
	p.span(j)
}

func (p *Policy) span(j *job) {
	p.spans[j.position] = span{j.begin, j.end}
	if !j.placed {
		p.spans[j.position] = span{unit.Never, 0}
	}
}

// remove takes the open tasks of a job out of the plan, and it from mappedJobs.
func (p *Policy) remove(j *job) {
	j.placed = false
	p.span(j)
	p.unplace(j)
}

// unplace takes the open tasks of a job out of the plan.
func (p *Policy) unplace(j *job) {
	for i := range j.at {
		if s := j.at[i].stage; s == planned || s == due {
			p.vacate(j, int32(i))
			j.at[i] = placement{}
		}
	}
	p.touch(j)
}

// eachUsage applies do to the usage of each pool.
func (p *Policy) eachUsage(do func(*usage)) {
	for k := range p.pools {
		do(p.pools[k].usage)
	}
}

// save remembers the usage of all pools, for restore or forget: undoing thousands of edits one by one would take as
// long as they did.
func (p *Policy) save() {
	p.eachUsage((*usage).save)
	p.saving++
	p.saved, p.places = p.saved[:0], p.places[:0]
}

// keep remembers a job that is removed for the first time since save.
func (p *Policy) keep(j *job) {
	if j.kept == p.saving {
		return
	}
	j.kept = p.saving
	p.settle(j)
	p.saved = append(p.saved, snapshot{j, len(p.places), j.begin, j.end, j.placed, j.eager})
	p.places = append(p.places, j.at...)
}

func (p *Policy) forget() {
	p.eachUsage((*usage).forget)
}

// restore undoes all edits since save.
func (p *Policy) restore() {
	p.eachUsage((*usage).restore)
	for _, s := range p.saved {
		copy(s.j.at, p.places[s.places:])
		s.j.begin, s.j.end, s.j.placed, s.j.eager = s.begin, s.end, s.placed, s.eager
		p.span(s.j)
		p.touch(s.j)
	}
}

// inTheWay returns the jobs that may have caused j to miss its deadline: those mapped that execute within [s_j, d_j]
// and have tasks that can still be moved.
func (p *Policy) inTheWay(j *job) []*job {
	var out []*job
	from, until := max(j.start, p.c.Now()), j.due
	for k, s := range p.spans {
		if s.begin >= until || s.end <= from || p.Contained && (s.begin < j.start || s.end > until) {
			continue
		}
		other := p.present[k]
		p.settle(other)
		if other == j || other.open == 0 || !p.executes(other, j, from) {
			continue
		}
		out = append(out, other)
	}
	return out
}

// executes reports whether a job executes within [s_j, d_j], of which the part before from is past.
func (p *Policy) executes(other, j *job, from planner.Time) bool {
	if p.Contained && (other.begin < j.start || other.end > j.due) {
		return false
	}
	return other.begin < j.due && other.end > from
}

// comparator returns the order in which jobs are remapped.
func (p *Policy) comparator() func(a, b *job) int {
	if p.byLaxity {
		return byLaxity
	}
	return byDeadline
}

// byDeadline is the Job Deadline Comparator: ties go to the smaller laxity.
func byDeadline(a, b *job) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.laxity(), b.laxity()), cmp.Compare(a.id, b.id))
}

// byLaxity is the Job Laxity Comparator: by normalized laxity, ties go to the earlier deadline, then to the earlier
// arrival.
func byLaxity(a, b *job) int {
	return cmp.Or(budget.CompareNormalized(a.laxity(), a.sample, b.laxity(), b.sample), cmp.Compare(a.due, b.due),
		cmp.Compare(a.id, b.id))
}

// leastUrgent keeps the last of the sorted jobs, and root.
func leastUrgent(jobs []*job, n int, root *job) []*job {
	kept := jobs[len(jobs)-n:]
	if !slices.Contains(kept, root) {
		kept[0] = root
	}
	return kept
}

// hashOf identifies an ordered list of jobs (FNV-1a, 64 bits).
func hashOf(jobs []*job) uint64 {
	h := uint64(14695981039346656037)
	for _, j := range jobs {
		for s := 0; s < 32; s += 8 {
			h = (h ^ uint64(uint8(j.id>>s))) * 1099511628211
		}
	}
	return h
}

// scratch is memory that is used again.
type scratch struct {
	missing    []int32
	now, later heap.Heap[int32] // ranks
	tasks      []planner.TaskID
	fresh      []*job
	flows      []planner.WorkflowID
	sample     []placement
	order      []int32
	waiting    []start
	waits      []item
	blocked    []int32
}
