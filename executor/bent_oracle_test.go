package executor_test

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"gantry/executor/oracletest"
	"gantry/planner"
	"gantry/planner/unit"
)

// bentPlan is RM-DCWF, and its FIFO, with wrong estimates, on pools of alike nodes and tasks of one core, or pools of
// one node and tasks of any size: jobs are mapped as in the paper; as ARCHITECTURE.md says, what overruns or starts
// late pushes its descendants, and what is planned in its room; a job that is so made late is remapped; what ends early
// lets ready tasks of jobs mapped by TSP1 move up, and jobs that could not be helped be tried again.
type bentPlan struct {
	*world
	budgets  *dcwf // for sub-deadlines, by estimates
	jobs     []*bentJob
	adrift   bool
	eased    bool      // something ended before it was expected to
	reach    unit.Time // the latest end that was pushed in this round
	danger   []*bentJob
	latest   bool
	byLaxity bool
	attempts [][]int
}

type bentJob struct {
	*dcwfJob // its deadline, sub-deadlines and lengths; not its places
	tasks    []*bentTask
	mapped   bool
	eager    bool // mapped by TSP1
	expected unit.Time
	lost     bool // it could not be helped
	again    unit.Time
}

type bentTask struct {
	f, i       int
	job        *bentJob
	est        time.Duration // in the pool it is planned in
	pool       int
	children   []*bentTask
	parents    []*bentTask
	start, end unit.Time // as it is planned by now
	claim      unit.Time // its start as it was mapped
	due, runs  bool
	over       bool
	node       int
}

func (p *bentPlan) all(of func(t *bentTask) bool) (out []*bentTask) {
	for _, j := range p.jobs {
		if j == nil {
			continue
		}
		for _, t := range j.tasks {
			if of(t) {
				out = append(out, t)
			}
		}
	}
	return out
}

// byStart sorts by an instant, then job and task.
func byStart(list []*bentTask, at func(t *bentTask) unit.Time) []*bentTask {
	slices.SortStableFunc(list, func(a, b *bentTask) int { return cmp.Compare(at(a), at(b)) })
	return list
}

func plannedStart(t *bentTask) unit.Time { return t.start }

// room reports whether a pool has room for a task at an instant, beside others.
func (p *bentPlan) room(k int, at unit.Time, t *bentTask) bool {
	cores, memory := p.task(t.f, t.i).Cores, p.task(t.f, t.i).Memory
	for _, o := range p.all(func(o *bentTask) bool {
		return o != t && !o.over && o.pool == k && o.start <= at && o.end > at
	}) {
		cores, memory = cores+p.task(o.f, o.i).Cores, memory+p.task(o.f, o.i).Memory
	}
	return p.holds(k, cores, memory)
}

// free is the first instant from which a pool has room for a task for so long.
func (p *bentPlan) free(k int, t *bentTask, from unit.Time, lasts time.Duration) unit.Time {
	points := []unit.Time{from}
	for _, o := range p.all(func(o *bentTask) bool { return o != t && !o.over && o.pool == k && o.end > from }) {
		points = append(points, o.end)
	}
	slices.Sort(points)
	for _, s := range points {
		if p.fits(k, t, s, s.Add(lasts)) {
			return s
		}
	}
	return unit.Never
}

func (p *bentPlan) fits(k int, t *bentTask, s, e unit.Time) bool {
	return p.room(k, s, t) && !slices.ContainsFunc(p.all(func(o *bentTask) bool {
		return !o.over && o.pool == k && o.start > s && o.start < e
	}), func(o *bentTask) bool { return !p.room(k, o.start, t) })
}

// inPool lists what runs in a pool, and what is planned there: more than there is room for, perhaps.
func (p *bentPlan) inPool(k int) (out []interval) {
	for _, t := range p.all(func(t *bentTask) bool { return !t.over && t.pool == k && t.start < unit.Never }) {
		out = append(out, interval{t.start, t.end, p.task(t.f, t.i).Cores, p.task(t.f, t.i).Memory, -1})
	}
	return out
}

// beside is the first instant from which a pool has room for a task for so long beside others.
func (p *bentPlan) beside(k, f, i int, run time.Duration, from unit.Time, others []interval) unit.Time {
	starts := []unit.Time{from}
	for _, x := range others {
		if x.end > from {
			starts = append(starts, x.end)
		}
	}
	slices.Sort(starts)
	at := slices.IndexFunc(starts, func(s unit.Time) bool {
		return !slices.ContainsFunc(append(others, interval{start: s, end: s + 1}), func(x interval) bool {
			if x.start < s || x.start >= s.Add(run) {
				return false
			}
			cores, memory := p.task(f, i).Cores, p.task(f, i).Memory
			for _, o := range others {
				if o.start <= x.start && o.end > x.start {
					cores, memory = cores+o.cores, memory+o.memory
				}
			}
			return !p.holds(k, cores, memory)
		})
	})
	return starts[at]
}

// holds reports whether the nodes of a pool have so much together.
func (p *bentPlan) holds(k int, cores, memory int64) bool {
	for _, n := range p.budgets.pools[k] {
		cores, memory = cores-p.Nodes[n].Cores, memory-cmp.Or(p.Nodes[n].Memory, math.MaxInt64/8)
	}
	return cores <= 0 && memory <= 0
}

// push makes what depends on a task start no earlier than it ends.
func (p *bentPlan) push(t *bentTask) {
	p.reach = max(p.reach, t.end)
	for _, c := range t.children {
		if !c.runs && !c.over && c.start < t.end {
			c.start, c.end = t.end, t.end.Add(c.end.Sub(c.start))
			p.push(c)
		}
	}
	if j := t.job; t.end > j.expected {
		fresh := j.expected <= j.d
		if j.expected = t.end; t.end > j.d && (fresh || !j.lost) && !p.budgets.fifo && !slices.Contains(p.danger, j) {
			p.danger = append(p.danger, j)
		}
	}
}

// begin starts a task on the first idle node of its pool; false if there is none.
func (p *bentPlan) begin(t *bentTask) bool {
	for _, n := range p.budgets.pools[t.pool] {
		if p.world.free(t.f, t.i, n) {
			p.world.start(t.f, t.i, n)
			t.runs, t.node, t.start, t.end = true, n, p.now, p.now.Add(t.est)
			p.push(t)
			return true
		}
	}
	return false
}

// after is when the parents of a task end, as it is planned.
func (p *bentPlan) after(t *bentTask) unit.Time {
	from := max(p.now, p.release(t.f))
	for _, q := range t.parents {
		from = max(from, q.end)
	}
	return from
}

// latestFree is the last instant, not before from, from which a pool has room for a task that ends by until; false if
// there is none.
func (p *bentPlan) latestFree(k int, t *bentTask, from, until unit.Time) (unit.Time, bool) {
	est := p.estimate(t, k)
	points := []unit.Time{until - unit.Time(est)}
	for _, o := range p.all(func(o *bentTask) bool { return !o.over && o.pool == k && o.start < unit.Never }) {
		points = append(points, o.start-unit.Time(est))
	}
	slices.Sort(points)
	for _, s := range slices.Backward(points) {
		if s >= from && s.Add(est) <= until && p.fits(k, t, s, s.Add(est)) {
			return s, true
		}
	}
	return 0, false
}

// pools lists the pools of which a node can hold a task.
func (p *bentPlan) pools(t *bentTask) (out []int) {
	for k := range p.budgets.pools {
		if p.budgets.fitsPool(k, t.f, t.i) {
			out = append(out, k)
		}
	}
	return out
}

// estimate is how long a task is estimated to run in a pool.
func (p *bentPlan) estimate(t *bentTask, k int) time.Duration {
	return p.run(p.task(t.f, t.i).Estimate(), p.budgets.pools[k][0])
}

// place returns the pool and the start of a task that can start at est: where it ends first or, if it is to be late,
// begins last and still meets its sub-deadline.
func (p *bentPlan) place(t *bentTask, est unit.Time) (pool int, start unit.Time) {
	sub := t.job.sub[t.i]
	if p.latest {
		pool, start = -1, -1
		for _, k := range p.pools(t) {
			if s, ok := p.latestFree(k, t, est, sub); ok && s > start {
				pool, start = k, s
			}
		}
		if pool >= 0 {
			return pool, start
		}
	}
	end := unit.Never
	for _, k := range p.pools(t) {
		from, run := est, p.estimate(t, k)
		if p.latest {
			from = max(from, sub-unit.Time(run))
		}
		if s := p.free(k, t, from, run); s.Add(run) < end {
			pool, start, end = k, s, s.Add(run)
		}
	}
	return pool, start
}

// admit maps a job that arrives.
func (p *bentPlan) admit(f int) *bentJob {
	n := len(p.Workflows[f].Tasks)
	j := &bentJob{dcwfJob: &dcwfJob{f: f, s: p.release(f), d: p.due(f), e: make([]time.Duration, n),
		sub: make([]unit.Time, n), at: make([]dcwfPlace, n)}}
	for i, x := range p.Workflows[f].Tasks {
		t := &bentTask{f: f, i: i, job: j, est: x.Estimate(), start: unit.Never, end: unit.Never}
		for _, q := range x.Parents {
			t.parents = append(t.parents, j.tasks[q])
			j.tasks[q].children = append(j.tasks[q].children, t)
		}
		j.tasks, j.e[i] = append(j.tasks, t), t.est
		j.e[i] = math.MaxInt64
		for _, k := range p.pools(t) {
			j.e[i] = min(j.e[i], p.estimate(t, k))
		}
	}
	return j
}

// mapJob is Algorithm 5: sweep after sweep over the tasks, the longest first.
func (p *bentPlan) mapJob(j *bentJob, root, check bool) bool {
	var order []*bentTask
	open := map[*bentTask]bool{}
	for _, t := range j.tasks {
		if !t.runs && !t.over {
			order, open[t] = append(order, t), true
		}
	}
	slices.SortStableFunc(order, func(a, b *bentTask) int {
		return cmp.Or(cmp.Compare(j.e[b.i], j.e[a.i]), cmp.Compare(j.sub[a.i], j.sub[b.i]))
	})
	for len(order) > 0 {
		for _, t := range slices.Clone(order) {
			if slices.ContainsFunc(t.parents, func(q *bentTask) bool { return open[q] }) {
				continue
			}
			pool, at := p.place(t, p.after(t))
			est := p.estimate(t, pool)
			if check && at.Add(est) > j.d {
				p.unplace(j)
				ok := p.remap(j, root)
				if !ok && root {
					p.mapJob(j, root, false)
				}
				return ok
			}
			t.pool, t.est = pool, est
			t.start, t.end, t.claim, t.due = at, at.Add(est), at, false
			delete(open, t)
			order = slices.DeleteFunc(order, func(o *bentTask) bool { return o == t })
		}
	}
	j.mapped, j.eager = true, !p.latest
	j.settle()
	return true
}

// settle finds when a job is expected to end.
func (j *bentJob) settle() {
	j.expected = 0
	for _, t := range j.tasks {
		if t.end < unit.Never {
			j.expected = max(j.expected, t.end)
		}
	}
}

// begin is when a job executes first.
func (j *bentJob) begin() unit.Time {
	at := unit.Never
	for _, t := range j.tasks {
		at = min(at, t.start)
	}
	return at
}

func (j *bentJob) open() bool {
	return slices.ContainsFunc(j.tasks, func(t *bentTask) bool { return !t.runs && !t.over })
}

func (p *bentPlan) unplace(j *bentJob) {
	j.mapped = false
	for _, t := range j.tasks {
		if !t.runs && !t.over {
			t.start, t.end, t.due = unit.Never, unit.Never, false
		}
	}
}

// remap is Algorithm 6.
func (p *bentPlan) remap(j *bentJob, root bool) bool {
	p.latest = false
	if p.remapHelper(j, root) {
		return true
	}
	if !root {
		return false
	}
	p.byLaxity = true
	return p.remapHelper(j, root)
}

// remapHelper is Algorithm 7. No more than four attempts are made for one job.
func (p *bentPlan) remapHelper(j *bentJob, root bool) bool {
	var all []*bentJob
	for _, k := range p.jobs {
		if k == nil {
			continue
		}
		if k != j && k.mapped {
			k.settle()
		}
		if k == j || k.mapped && k.open() && k.begin() < j.d && k.expected > max(j.s, p.now) {
			all = append(all, k)
		}
	}
	slices.SortStableFunc(all, func(a, b *bentJob) int {
		la, lb := a.laxity(), b.laxity()
		if p.byLaxity {
			return cmp.Or(compareNormalized(la, a.set, lb, b.set), cmp.Compare(a.d, b.d))
		}
		return cmp.Or(cmp.Compare(a.d, b.d), la.Cmp(lb))
	})
	var list []int
	for _, k := range all {
		list = append(list, k.f)
	}
	if slices.ContainsFunc(p.attempts, func(a []int) bool { return slices.Equal(a, list) }) || len(p.attempts) == 4 {
		return false
	}
	p.attempts = append(p.attempts, list)
	undo := p.save()
	var hopeful, late []*bentJob
	for _, k := range all {
		if k != j && (k.d < p.now || k.expected > k.d) {
			late = append(late, k)
		} else {
			hopeful = append(hopeful, k)
		}
	}
	for _, k := range all {
		p.unplace(k)
	}
	for _, k := range hopeful {
		if !p.mapJob(k, false, true) {
			if root {
				undo()
			}
			return false
		}
	}
	for _, k := range late {
		p.mapJob(k, false, false)
	}
	return true
}

// save returns what brings the present plan back.
func (p *bentPlan) save() func() {
	var jobs []bentJob
	var tasks [][]bentTask
	for _, j := range p.jobs {
		if j == nil {
			jobs, tasks = append(jobs, bentJob{}), append(tasks, nil)
			continue
		}
		var own []bentTask
		for _, t := range j.tasks {
			own = append(own, *t)
		}
		jobs, tasks = append(jobs, *j), append(tasks, own)
	}
	return func() {
		for f, j := range p.jobs {
			if j == nil {
				continue
			}
			j.mapped, j.eager, j.expected = jobs[f].mapped, jobs[f].eager, jobs[f].expected
			for i, t := range j.tasks {
				*t = tasks[f][i]
			}
		}
	}
}

// rescue remaps jobs that became late.
func (p *bentPlan) rescue() {
	if p.eased {
		for _, j := range p.jobs {
			if j != nil && j.lost {
				if j.lost = j.open() && j.d >= p.now; j.lost && p.now >= j.again && !slices.Contains(p.danger, j) {
					p.danger = append(p.danger, j)
				}
			}
		}
	}
	p.eased = false
	danger := p.danger
	slices.SortStableFunc(danger, func(a, b *bentJob) int {
		return cmp.Or(cmp.Compare(a.d, b.d), a.laxity().Cmp(b.laxity()), cmp.Compare(a.f, b.f))
	})
	p.danger = nil
	for _, j := range danger {
		if j.settle(); !j.open() || j.expected <= j.d || j.d < p.now {
			continue
		}
		p.attempts, p.byLaxity, p.latest = nil, false, false
		if p.remap(j, true) {
			continue
		}
		if j.lost {
			j.again = p.now.Add(j.d.Sub(p.now) / 4)
		}
		j.lost = true
	}
}

// slip moves a task that should have started to the pool where it ends first, from when there will be room for it
// there, if only for an instant.
func (p *bentPlan) slip(t *bentTask) {
	from, best := max(p.after(t), p.now.Add(time.Millisecond)), *t
	best.end = unit.Never
	for _, k := range p.pools(t) {
		est := p.estimate(t, k)
		if s := p.free(k, t, from, 1); s.Add(est) < best.end {
			best.pool, best.est, best.start, best.end = k, est, s, s.Add(est)
		}
	}
	*t = best
}

func (p *bentPlan) round() {
	p.reach = 0
	for _, t := range p.all(func(t *bentTask) bool { return t.runs && !t.over && p.ended[[2]int{t.f, t.i}] }) {
		late := t.end < p.now
		p.eased = p.eased || t.end > p.now
		p.adrift = p.adrift || t.end != p.now
		t.over, t.end = true, p.now
		if late {
			p.push(t)
		}
	}
	for _, t := range p.all(func(t *bentTask) bool { return t.runs && !t.over && t.end < p.now }) {
		p.adrift = true
		t.end = p.now.Add(max(t.est-p.now.Sub(t.start), p.now.Sub(t.start)/8, time.Millisecond))
		p.push(t)
	}
	for {
		late := byStart(p.all(func(t *bentTask) bool { return t.due && !t.runs && t.start < p.now }), plannedStart)
		if len(late) == 0 {
			break
		}
		t := late[0]
		p.adrift = true
		p.slip(t)
		p.push(t)
	}
	if p.reach > p.now {
		for _, t := range byStart(p.all(func(t *bentTask) bool { return !t.due && !t.runs && t.start < p.reach }),
			plannedStart) {
			if !p.room(t.pool, t.start, t) {
				lasts := t.end.Sub(t.start)
				t.start = p.free(t.pool, t, t.start, 1)
				t.end = t.start.Add(lasts)
				p.push(t)
			}
		}
	}
	var fresh []*bentJob
	for f := range p.Workflows {
		if p.Workflows[f].Arrive == p.now && p.jobs[f] == nil {
			p.jobs[f] = p.admit(f)
			fresh = append(fresh, p.jobs[f])
		}
	}
	if !p.budgets.fifo {
		slices.SortStableFunc(fresh, func(a, b *bentJob) int { return cmp.Compare(a.d, b.d) })
	}
	p.budgets.now = p.now
	for _, j := range fresh {
		p.budgets.budget(j.dcwfJob)
		p.attempts, p.byLaxity = nil, false
		p.latest = p.budgets.tsp2 && j.d < unit.Never
		met := p.mapJob(j, true, !p.budgets.fifo)
		j.lost = !p.budgets.fifo && (!met || j.expected > j.d)
	}
	p.rescue()
	for _, t := range p.all(func(t *bentTask) bool { return !t.runs && t.start <= p.now }) {
		t.due = true
	}
	ready := func(t *bentTask) bool { return !t.runs && p.ready(t.f, t.i) }
	full := map[int]bool{} // pools in which somebody waits
	for k := range p.budgets.pools {
		waits := byStart(p.all(func(t *bentTask) bool { return t.pool == k && t.due && ready(t) }),
			func(t *bentTask) unit.Time { return t.claim })
		for len(waits) > 0 && p.begin(waits[0]) {
			waits = waits[1:]
		}
		full[k] = len(waits) > 0
	}
	if !p.adrift {
		return
	}
	early := p.all(func(t *bentTask) bool { return !t.due && t.job.eager && ready(t) && !full[t.pool] })
	for _, t := range byStart(early, plannedStart) {
		if p.fits(t.pool, t, p.now, min(t.start, p.now.Add(t.end.Sub(t.start)))) {
			p.begin(t)
		}
	}
}

func bentOracle(in oracletest.Instance, spec string) []oracletest.Stay {
	expected := in
	expected.Workflows = slices.Clone(in.Workflows)
	for f := range expected.Workflows {
		tasks := slices.Clone(in.Workflows[f].Tasks)
		for i := range tasks {
			tasks[i].Run = tasks[i].Estimate()
		}
		expected.Workflows[f].Tasks = tasks
	}
	p := &bentPlan{world: newWorld(in), budgets: newDCWF(expected, spec, nil),
		jobs: make([]*bentJob, len(in.Workflows))}
	p.budgets.planned, p.budgets.earliest = p.inPool, p.beside
	for {
		p.settle()
		p.round()
		wake := unit.Never
		for _, t := range p.all(func(t *bentTask) bool { return !t.runs }) {
			at := t.start
			if t.due {
				at = at.Add(time.Millisecond)
			}
			wake = min(wake, max(at, p.now+1))
		}
		if !p.next(wake) {
			return p.stays
		}
	}
}

// RM-DCWF and FIFO with estimates wrong in both directions do what their oracle does.
func TestDeadlinesWithWrongEstimatesAgainstTheOracle(t *testing.T) {
	for _, spec := range configurations {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			differ := func(in oracletest.Instance) (string, error) {
				got, err := oracletest.Simulate(in, spec)
				if err != nil {
					return "", err
				}
				timed, number := joined(in)
				want := bentOracle(timed, spec)
				for k := range want {
					want[k].Task = number[want[k].Workflow][want[k].Task]
				}
				return oracletest.Difference(got.Stays, want, true), nil
			}
			for _, s := range bentShapes {
				oracletest.Compare(t, s.n, s.Shape, func(in oracletest.Instance) (string, error) {
					if s.Sizes {
						in = onePoolPerNode(in)
					}
					return differ(in)
				})
			}
		})
	}
}

// onePoolPerNode lets each node be a pool of its own, so that there is one way only to pack it.
func onePoolPerNode(in oracletest.Instance) oracletest.Instance {
	in.Nodes = slices.Clone(in.Nodes)
	for n := range in.Nodes {
		in.Nodes[n].Group = planner.GroupID(n)
	}
	return in
}

// bentShapes are what RM-DCWF and FIFO are compared with their oracle on where estimates are wrong.
var bentShapes = []sampled{
	{100, oracletest.Shape{Released: true, Wrong: true, Dummies: true}},
	{100, oracletest.Shape{Released: true, Wrong: true, Dummies: true, Groups: 2, Speeds: speeds}},
	{100, oracletest.Shape{Released: true, Wrong: true, Dummies: true, Speeds: speeds, Sizes: true, Memory: true}},
}
