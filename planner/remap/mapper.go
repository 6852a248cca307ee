package remap

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/budget"
	"gantry/planner/heap"
	"gantry/planner/unit"
)

// mapper maps jobs and remaps them: Algorithms 4 to 7. Fields are those that the paper underlines, of the job that is
// being mapped.
type mapper struct {
	Config
	plan
	latest   bool     // taskSchedulingPolicy is TSP2
	byLaxity bool     // jobComparator is that of laxity
	attempts []uint64 // prevRemapAttempts, by hash
	looked   int64    // reservations that searches of the plan have to look at
}

// mapJob is Algorithm 4. It reports whether the job meets its deadline.
func (p *mapper) mapJob(j *job) bool {
	p.begin()
	p.budget(j)
	p.latest = p.Latest && j.due < unit.Never
	return p.mapJobHelper(j, true, !p.FIFO) && j.end <= j.due
}

// begin prepares the fields that remapping uses for a new root job.
func (p *mapper) begin() {
	p.attempts = p.attempts[:0]
	p.byLaxity, p.latest = false, false
}

// mapJobHelper is Algorithm 5. Nested failures need not map the job late, as line 31 says: the attempt they belong to
// is undone as a whole.
func (p *mapper) mapJobHelper(j *job, root, check bool) bool {
	for _, i := range p.order(j) {
		at := p.place(j, i, p.earliestStart(j, i))
		if check && at.end > j.due && at.pool != nowhere {
			p.unplace(j) // removePartiallyMappedJob
			if p.remapJob(j, root) {
				return true
			}
			if root {
				p.mapJobHelper(j, root, false)
			}
			return false
		}
		j.at[i] = at
		p.occupy(j, i)
	}
	p.mapped(j)
	return true
}

// remapJob is Algorithm 6.
func (p *mapper) remapJob(j *job, root bool) bool {
	p.latest = false
	if p.remapJobHelper(j, root) {
		return true
	}
	if !root {
		return false
	}
	p.byLaxity = true
	return p.remapJobHelper(j, root)
}

// remapJobHelper is Algorithm 7.
func (p *mapper) remapJobHelper(j *job, root bool) bool {
	jobs := append(p.inTheWay(j), j)
	slices.SortFunc(jobs, p.comparator())
	if p.MaxJobs > 0 && len(jobs) > p.MaxJobs {
		p.noteLimit(j, fmt.Sprintf("%d of %d jobs are remapped", p.MaxJobs, len(jobs)))
		jobs = leastUrgent(jobs, p.MaxJobs, j)
	}
	h := hashOf(jobs)
	if slices.Contains(p.attempts, h) {
		return false
	}
	if p.MaxAttempts > 0 && len(p.attempts) >= p.MaxAttempts {
		p.noteLimit(j, fmt.Sprintf("no more than %d attempts", p.MaxAttempts))
		return false
	}
	p.attempts = append(p.attempts, h)
	if root {
		p.save()
	}
	var late []*job
	hopeful := jobs[:0]
	for _, k := range jobs {
		if k != j && p.isLate(k) {
			late = append(late, k)
		} else {
			hopeful = append(hopeful, k)
		}
		p.keep(k)
		p.remove(k)
	}
	for _, k := range hopeful {
		if !p.mapJobHelper(k, false, true) {
			if root {
				p.restore()
				p.noteRemap(TopicRemapFailed, j, len(hopeful)+len(late))
			}
			return false
		}
	}
	for _, k := range late {
		p.mapJobHelper(k, false, false)
	}
	if root {
		p.forget()
		p.noteRemap(TopicRemapped, j, len(hopeful)+len(late))
	}
	return true
}

// isLate reports whether a job that is to be remapped has missed its deadline already.
func (p *mapper) isLate(k *job) bool {
	return k.due < p.c.Now() || !p.PastOnly && k.end > k.due
}

func (p *mapper) noteRemap(topic string, j *job, jobs int) {
	order := "deadlines"
	if p.byLaxity {
		order = "laxities"
	}
	text := fmt.Sprintf("jobs in order of %s: %d, attempts: %d", order, jobs, len(p.attempts))
	p.c.Note(planner.Note{Topic: topic, Workflow: j.id, Task: planner.None, At: p.c.Now(), Text: text})
}

func (p *mapper) noteLimit(j *job, text string) {
	p.c.Note(planner.Note{Topic: TopicRemapLimit, Workflow: j.id, Task: planner.None, At: p.c.Now(), Text: text})
}

// budget is the DBW algorithm (Algorithm 1): SET_j, laxity and sub-deadlines.
func (p *mapper) budget(j *job) {
	j.sub = make([]planner.Time, len(j.at))
	j.sort()
	sample := p.sampleSchedule(j, false)
	if p.TrueLaxity {
		sample = p.sampleSchedule(j, true)
	}
	b := budget.Job{Start: j.start, Due: j.due, Tasks: make([]budget.Task, len(j.at))}
	end := j.start
	order := make([]int32, len(j.at))
	for k, t := range p.c.Order(j.id) {
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

// order returns the open tasks of a job in the order in which Algorithm 5 maps them: sweep after sweep over the tasks
// by runtime, those passed over whose parents have no place yet. The order does not depend on the places.
func (p *mapper) order(j *job) []int32 {
	if fixed := len(j.at) - j.open; j.fixed != fixed {
		j.fixed = fixed
		j.queue = p.sweep(j, j.queue[:0], func(i int32) bool { return j.at[i].stage <= due })
	}
	return j.queue
}

// sweep appends the tasks for which open holds in that order.
func (p *mapper) sweep(j *job, queue []int32, open func(int32) bool) []int32 {
	missing, now, later := make([]int32, len(j.at)), heap.Smallest[int32](), heap.Smallest[int32]() // ranks
	for _, i := range j.byRun {
		if !open(i) {
			continue
		}
		for _, parent := range j.parents[i] {
			if open(parent) {
				missing[i]++
			}
		}
		if missing[i] == 0 {
			now.Push(j.rank[i])
		}
	}
	for now.Len() > 0 {
		at := now.Pop()
		i := j.byRun[at]
		queue = append(queue, i)
		for _, child := range j.tasks[i].Children {
			k := j.index(child)
			if !open(k) {
				continue
			}
			if missing[k]--; missing[k] > 0 {
				continue
			}
			if j.rank[k] > at || p.Restart {
				now.Push(j.rank[k])
			} else {
				later.Push(j.rank[k])
			}
		}
		if now.Len() == 0 {
			now, later = later, now
		}
	}
	return queue
}

// mapped says that all tasks of a job have places, and adds it to mappedJobs.
func (p *mapper) mapped(j *job) {
	j.placed, j.stale, j.eager = true, true, !p.latest
	p.touch(j)
	p.seekAll(j)
	p.settle(j)
}

// remove takes the open tasks of a job out of the plan, and it from mappedJobs.
func (p *mapper) remove(j *job) {
	j.placed = false
	p.span(j)
	p.unplace(j)
}

// inTheWay returns the jobs that may have caused j to miss its deadline: those mapped that execute within [s_j, d_j]
// and have tasks that can still be moved.
func (p *mapper) inTheWay(j *job) []*job {
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
func (p *mapper) executes(other, j *job, from planner.Time) bool {
	if p.Contained && (other.begin < j.start || other.end > j.due) {
		return false
	}
	return other.begin < j.due && other.end > from
}

// comparator returns the order in which jobs are remapped.
func (p *mapper) comparator() func(a, b *job) int {
	if p.byLaxity {
		return byLaxity
	}
	return byDeadline
}

// move returns how long a file is on the way from a node of pool a to one of pool b; within a pool of several, to
// another node.
func (p *mapper) move(size unit.Bytes, a, b int) time.Duration {
	to := p.pools[b].nodes[0]
	if a == b {
		to = p.pools[b].nodes[len(p.pools[b].nodes)-1]
	}
	return p.c.MoveTime(size, p.pools[a].nodes[0], to)
}

// earliestStart is getEarliestStartTime: when the parents of a task will have ended, not before the start of its job,
// nor before now.
func (p *mapper) earliestStart(j *job, i int32) planner.Time {
	return p.after(j, i, j.at, max(j.start, p.c.Now()))
}

// after returns when the parents of a task will have ended, their places being as given.
func (p *mapper) after(j *job, i int32, at []placement, from planner.Time) planner.Time {
	for _, parent := range j.parents[i] {
		from = max(from, at[parent].end)
	}
	return from
}

// site returns from when on a task can be in pool k, if its parents have ended by est, and how long it stays. Inputs
// come from where they are, or will be; on which node of the pool it will start is not known yet, so they are taken to
// come from another.
func (p *mapper) site(j *job, i int32, k int, places []placement, est planner.Time) (from planner.Time,
	stay time.Duration) {
	c, run := p.c, j.runs[int(i)*len(p.pools)+k]
	if !j.copies {
		return est, run
	}
	from = est
	for _, f := range j.tasks[i].Inputs {
		copying, ready := time.Duration(0), est
		file := c.File(f)
		if near := c.Nearest(f, p.pools[k].nodes[0]); near != planner.None {
			if near != p.pools[k].nodes[0] || !p.everywhere(f, k) {
				copying, ready = p.move(file.Size, int(p.poolOf[near]), k), c.Now()
				if at, underWay := c.Draft.CopyEnd(f, p.pools[k].nodes[0]); underWay {
					copying, ready = 0, max(at, ready)
				}
			}
		} else if file.Producer != planner.None {
			if q := places[j.index(file.Producer)]; q.pool != nowhere && q.stage != unplaced {
				copying, ready = p.move(file.Size, int(q.pool), k), q.end
			}
		}
		if c.Platform().Overlapped {
			from = max(from, ready.Add(copying))
		} else {
			run += copying
		}
	}
	return from, run
}

// everywhere reports whether file f is on every node of pool k, as far as its first and last tell.
func (p *mapper) everywhere(f planner.FileID, k int) bool {
	nodes := p.pools[k].nodes
	return p.c.Has(nodes[0], f) && p.c.Has(nodes[len(nodes)-1], f)
}

// place finds the place of a task that can start at est: by TSP1 where it ends first; by TSP2 where it starts last of
// those where it meets its sub-deadline, and if there is none as soon as it can from the instant on at which it should
// start.
func (p *mapper) place(j *job, i int32, est planner.Time) placement {
	if p.latest && !j.dummy(i) && est < unit.Never {
		best := placement{pool: nowhere, start: -1}
		for k := range p.pools {
			from, stay, ok := p.room(j, i, k, j.at, est)
			if !ok {
				continue
			}
			start, node, fits := p.pools[k].usage.latest(&j.needs[i], stay, from, p.target(j, i))
			if fits && start > best.start {
				best = placement{planned, int16(k), node, start, start.Add(stay), start}
			}
		}
		if p.look(max(best.start, est), p.target(j, i)); best.pool != nowhere {
			return best
		}
	}
	return p.first(j, i, j.at, est, false)
}

// first finds where a task ends first, beside the plan or on the idle nodes of a sample schedule.
func (p *mapper) first(j *job, i int32, places []placement, est planner.Time, idle bool) placement {
	if j.dummy(i) || est == unit.Never {
		return p.anchored(j, i, places, est)
	}
	best := placement{pool: nowhere, stage: planned, start: unit.Never, end: unit.Never, claim: unit.Never}
	for k := range p.pools {
		from, stay, ok := p.room(j, i, k, places, est)
		if !ok || from.Add(stay) >= best.end {
			continue
		}
		if p.latest {
			from = max(from, p.target(j, i)-planner.Time(stay))
		}
		start, node, fits := p.usage(k, idle).earliest(&j.needs[i], stay, from)
		if end := start.Add(stay); fits && end < best.end {
			best = placement{planned, int16(k), node, start, end, start}
		}
	}
	if !idle && best.pool != nowhere {
		p.look(est, best.end)
	}
	return best
}

// look counts what a search in [from, until) looks at that goes from resource to resource, through the reservations of
// each, as the paper has it.
func (p *mapper) look(from, until planner.Time) {
	for k := range p.pools {
		if p.counts && from < until {
			p.looked += p.pools[k].usage.overlapping(from, until)
		}
	}
}

// target is when TSP2 would have a task end.
func (p *mapper) target(j *job, i int32) planner.Time {
	return j.sub[i] - planner.Time(p.Margin) // finite: jobs without a deadline are mapped by TSP1
}

func (p *mapper) usage(k int, idle bool) *usage {
	if idle {
		return p.pools[k].idle
	}
	return p.pools[k].usage
}

// room returns how a task could stay in pool k; false if it never can.
func (p *mapper) room(j *job, i int32, k int, places []placement, est planner.Time) (from planner.Time,
	stay time.Duration, ok bool) {
	if j.runs[int(i)*len(p.pools)+k] < 0 {
		return 0, 0, false
	}
	from, stay = p.site(j, i, k, places, est)
	return from, stay, true
}

// anchored is the place of a task that takes none: a dummy, or one whose parents fit nowhere.
func (p *mapper) anchored(j *job, i int32, places []placement, est planner.Time) placement {
	at := placement{stage: planned, start: est, end: est, claim: est, pool: nowhere}
	for k := range p.pools {
		switch {
		case est == unit.Never || j.runs[int(i)*len(p.pools)+k] < 0:
			continue
		case !j.fetches:
			at.pool = int16(k)
			return at
		}
		if from, _ := p.site(j, i, k, places, est); at.pool == nowhere || from < at.start {
			at = placement{stage: planned, start: from, end: from, claim: from, pool: int16(k)}
		}
	}
	return at
}

// sampleSchedule schedules a whole job on the empty system (SET_j^R) or, if loaded, beside all that is planned
// (SET_j^R_PL), the longest ready tasks first, each as early as possible.
func (p *mapper) sampleSchedule(j *job, loaded bool) []placement {
	from := j.start
	if loaded {
		from = max(from, p.c.Now())
	}
	places := make([]placement, len(j.at))
	for k := range p.pools {
		p.pools[k].idle.reset()
	}
	order := p.sweep(j, nil, func(int32) bool { return true })
	for _, i := range order {
		places[i] = p.first(j, i, places, p.after(j, i, places, from), !loaded)
		if at := &places[i]; at.pool != nowhere && at.start < at.end && !j.dummy(i) {
			at.node = p.usage(int(at.pool), !loaded).add(at.start, at.end, &j.needs[i], at.node)
		}
	}
	if loaded {
		for _, i := range order {
			if at := &places[i]; at.pool != nowhere && at.start < at.end && !j.dummy(i) {
				p.pools[at.pool].usage.remove(at.start, at.end, &j.needs[i], at.node)
			}
		}
	}
	return places
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
