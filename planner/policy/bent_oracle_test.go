package policy_test

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"gantry/planner/unit"
)

// bentPlan is RM-DCWF, and its FIFO: jobs are mapped as in the paper. With wrong estimates, as planner/remap says,
// what overruns or starts late pushes its descendants, and what is planned in its room; a job that is so made late is
// remapped; what ends early lets ready tasks of jobs mapped by TSP1 move up, and jobs that could not be helped be tried
// again. Where tasks of several sizes are packed on several nodes, each planned one has its node.
type bentPlan struct {
	*world
	groups [][]int // nodes of each pool
	jobs   []*bentJob

	even, trueLaxity, tsp2, fifo bool // x, y and z of the configuration

	adrift   bool
	eased    bool      // something ended before it was expected to
	reach    unit.Time // the latest end that was pushed in this round
	danger   []*bentJob
	latest   bool
	byLaxity bool
	attempts [][]int

	packed  map[int]bool // pools of which each planned task has its node
	scarce  map[int]bool // pools of which a task needs a larger part of the memory than of the cores
	samples []*bentTask  // of the sample schedule that is being made
	idle    bool         // it is made on the empty system
}

type bentJob struct {
	f        int
	s, d     unit.Time
	e        []time.Duration // by task: the shortest of its runs
	sub      []unit.Time
	set      time.Duration
	tasks    []*bentTask
	mapped   bool
	eager    bool // mapped by TSP1
	expected unit.Time
	lost     bool // it could not be helped
	again    unit.Time
	begun    unit.Time // of attempts that ended badly; Never: there are none
}

type bentTask struct {
	f, i       int
	job        *bentJob
	pool       int
	children   []*bentTask
	parents    []*bentTask
	start, end unit.Time // as it is planned by now
	claim      unit.Time // its start as it was mapped
	begun      unit.Time // when its inputs were on the node that it runs on
	due, runs  bool
	over       bool
	node       int // where it runs or, in a packed pool, is planned; -1: none
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

// there lists what else runs in a pool, or is planned there: more than there is room for, perhaps.
func (p *bentPlan) there(k int, but *bentTask) (out []*bentTask) {
	list := p.samples
	if !p.idle {
		list = slices.Concat(p.all(func(o *bentTask) bool { return !o.over && o.start < unit.Never }), p.samples)
	}
	for _, o := range list {
		if o != but && o.pool == k {
			out = append(out, o)
		}
	}
	return out
}

// allNodes stands for all nodes of a pool.
const allNodes = -1

// room reports whether a node of a pool, or all together, has room for a task at an instant, beside others.
func (p *bentPlan) room(k, n int, t *bentTask, at unit.Time) bool {
	x, nodes := p.task(t.f, t.i), p.groups[k]
	cores, memory, alike := x.Cores, x.Memory, int64(1)
	for _, o := range p.there(k, t) {
		if o.start > at || o.end <= at || n != allNodes && o.node != n {
			continue
		}
		y := p.task(o.f, o.i)
		cores, memory = cores+y.Cores, memory+y.Memory
		if p.kind(k, o) == p.kind(k, t) {
			alike++
		}
	}
	c, m := capacityOf(p.Nodes[nodes[0]])[0], capacityOf(p.Nodes[nodes[0]])[1]
	if !p.packed[k] {
		return alike <= p.slots(k, p.kind(k, t))*int64(len(nodes))
	}
	if n == allNodes {
		c, m = c*int64(len(nodes)), min(m, math.MaxInt64/16)*int64(len(nodes))
	}
	return cores <= c && memory <= m
}

// met lists the tasks that a pool can hold, of all jobs that have arrived.
func (p *bentPlan) met(k int) []*bentTask {
	return p.all(func(t *bentTask) bool { return p.fitsPool(k, t.f, t.i) })
}

// kind is what tasks of one kind need alike: cores, and memory if a task needs a larger part of it than of the cores.
func (p *bentPlan) kind(k int, t *bentTask) [2]int64 {
	x := p.task(t.f, t.i)
	if !p.scarce[k] {
		return [2]int64{x.Cores, 0}
	}
	return [2]int64{x.Cores, x.Memory}
}

// slots is how many tasks of a kind a node holds.
func (p *bentPlan) slots(k int, kind [2]int64) int64 {
	c := capacityOf(p.Nodes[p.groups[k][0]])
	return min(c[0]/kind[0], c[1]/max(1, kind[1]))
}

// pack finds the pools in which the tasks met do not fill nodes side by side, and gives each task planned there a node:
// the first that has room, else the one that has it soonest.
func (p *bentPlan) pack() {
	for k := range p.groups {
		c, kinds := capacityOf(p.Nodes[p.groups[k][0]]), map[[2]int64]bool{}
		p.scarce[k] = slices.ContainsFunc(p.met(k), func(t *bentTask) bool {
			x := p.task(t.f, t.i)
			return big.NewRat(x.Memory, c[1]).Cmp(big.NewRat(x.Cores, c[0])) > 0
		})
		for _, t := range p.met(k) {
			kinds[p.kind(k, t)] = true
		}
		var cores, memory int64
		for kind := range kinds {
			n := p.slots(k, kind)
			cores, memory = cores+n*kind[0], memory+n*kind[1]
		}
		if p.packed[k] || len(kinds) <= 1 || len(kinds) <= 3 && cores <= c[0] && memory <= c[1] {
			continue
		}
		p.packed[k] = true
		var planned []*bentTask
		for _, due := range []bool{true, false} {
			planned = append(planned, byStart(slices.DeleteFunc(p.there(k, nil), func(t *bentTask) bool {
				return t.runs || t.due != due
			}), plannedStart)...)
		}
		for _, t := range planned {
			t.node = -1
		}
		for _, t := range planned {
			_, t.node = p.alone(k, t, t.start, t.end.Sub(t.start))
		}
	}
}

func (p *bentPlan) fits(k, n int, t *bentTask, s, e unit.Time) bool {
	return p.room(k, n, t, s) && !slices.ContainsFunc(p.there(k, t), func(o *bentTask) bool {
		return o.start > s && o.start < e && !p.room(k, n, t, o.start)
	})
}

// fitsNow returns the first node of a packed pool that has room for a task during [s, e); -1 if none has.
func (p *bentPlan) fitsNow(k int, t *bentTask, s, e unit.Time) int {
	for _, n := range p.groups[k] {
		if p.fits(k, n, t, s, e) {
			return n
		}
	}
	return -1
}

// ends lists an instant, and after it those at which something there ends.
func (p *bentPlan) ends(k int, t *bentTask, from unit.Time) []unit.Time {
	points := []unit.Time{from}
	for _, o := range p.there(k, t) {
		if o.end > from {
			points = append(points, o.end)
		}
	}
	slices.Sort(points)
	return points
}

// alone is the first instant from which one node of a packed pool has room for a task for so long, and that node.
func (p *bentPlan) alone(k int, t *bentTask, from unit.Time, lasts time.Duration) (unit.Time, int) {
	for _, s := range p.ends(k, t, from) {
		if n := p.fitsNow(k, t, s, s.Add(lasts)); n >= 0 {
			return s, n
		}
	}
	return unit.Never, -1
}

// free is the first instant from which a pool has room for a task for so long, and the node.
func (p *bentPlan) free(k int, t *bentTask, from unit.Time, lasts time.Duration) (unit.Time, int) {
	enough := false // all nodes together have room, at this instant or one before
	for _, s := range p.ends(k, t, from) {
		if enough = enough || p.fits(k, allNodes, t, s, s.Add(lasts)); !enough {
			continue
		}
		if !p.packed[k] {
			return s, -1
		}
		if n := p.fitsNow(k, t, s, s.Add(lasts)); n >= 0 {
			return s, n
		}
	}
	return unit.Never, -1
}

// sometime is when a task that has lost its place has the first claim on room, if only for an instant, and where: at
// once on a node that has room for all of it.
func (p *bentPlan) sometime(k int, t *bentTask, from unit.Time, lasts time.Duration) (unit.Time, int) {
	if !p.packed[k] {
		return p.free(k, t, from, 1)
	}
	if n := p.fitsNow(k, t, from, from.Add(lasts)); n >= 0 {
		return from, n
	}
	return p.alone(k, t, from, 1)
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
		if j.expected = t.end; t.end > j.d && (fresh || !j.lost) && !p.fifo && !slices.Contains(p.danger, j) {
			p.danger = append(p.danger, j)
		}
	}
}

// begin starts a task on the idle node of its pool on which its inputs are soonest, its own or else the first of
// equals; false if there is none. In a packed pool it starts on its own node, if that is not kept for others, or on
// another that has room for as long as it runs.
func (p *bentPlan) begin(t *bentTask, kept []int) bool {
	nodes := p.groups[t.pool]
	if p.packed[t.pool] {
		nodes = slices.Concat([]int{t.node}, nodes)
	}
	best, soonest := -1, unit.Never
	for at, n := range nodes {
		if !p.world.free(t.f, t.i, n) {
			continue
		}
		if p.packed[t.pool] {
			until := p.now.Add(t.end.Sub(t.start))
			switch {
			case at > 0 && n == t.node, at == 0 && t.due && slices.Contains(kept, n):
				continue
			case at == 0 && !t.due:
				until = min(until, t.start)
			}
			if !(at == 0 && t.due) && !p.fits(t.pool, n, t, p.now, until) {
				continue
			}
		}
		if begun := p.now.Add(p.copied(t.f, t.i, n)); begun < soonest {
			best, soonest = n, begun
		}
	}
	if best < 0 {
		return false
	}
	p.world.start(t.f, t.i, best)
	t.runs, t.node, t.start, t.begun, t.end = true, best, p.now, soonest, soonest.Add(p.estimate(t, t.pool))
	p.push(t)
	return true
}

// after is when the parents of a task end, as it is planned.
func (p *bentPlan) after(t *bentTask) unit.Time {
	from := max(p.now, p.release(t.f))
	for _, q := range t.parents {
		from = max(from, q.end)
	}
	return from
}

// latestFree is the last instant, not before from, from which a pool has room for a task that ends by until, and the
// node; false if there is none.
func (p *bentPlan) latestFree(k int, t *bentTask, from, until unit.Time) (at unit.Time, node int, ok bool) {
	est := p.stay(t, k)
	points := []unit.Time{until - unit.Time(est)}
	for _, o := range p.there(k, t) {
		points = append(points, o.start-unit.Time(est))
	}
	slices.Sort(points)
	enough := false
	for _, s := range slices.Backward(points) {
		if s < from || s.Add(est) > until {
			continue
		}
		if enough = enough || p.fits(k, allNodes, t, s, s.Add(est)); !enough {
			continue
		}
		if !p.packed[k] {
			return s, -1, true
		}
		if n := p.fitsNow(k, t, s, s.Add(est)); n >= 0 {
			return s, n, true
		}
	}
	return 0, -1, false
}

// pools lists the pools of which a node can hold a task.
func (p *bentPlan) pools(t *bentTask) (out []int) {
	for k := range p.groups {
		if p.fitsPool(k, t.f, t.i) {
			out = append(out, k)
		}
	}
	return out
}

// estimate is how long a task is estimated to run in a pool.
func (p *bentPlan) estimate(t *bentTask, k int) time.Duration {
	return p.run(p.task(t.f, t.i).Estimate(), p.groups[k][0])
}

// stay is how long a task stays in a pool, with the copies that it waits for. On which of several nodes it will be is
// not known: what a parent has yet to write, or has written, there comes from another of them, unless the first and the
// last of them have it.
func (p *bentPlan) stay(t *bentTask, k int) time.Duration {
	d, pools := p.estimate(t, k), p.groups
	for _, q := range p.inputs(t.f, t.i) {
		first, last, from := pools[k][0], pools[k][len(pools[k])-1], -1
		if p.ended[[2]int{t.f, q}] {
			if p.holds(t.f, q, first) && p.holds(t.f, q, last) {
				continue
			}
			near := p.nearest(t.f, q, first)
			from = slices.IndexFunc(pools, func(nodes []int) bool { return slices.Contains(nodes, near) })
		} else {
			for _, o := range slices.Concat(p.samples, t.parents) {
				if from < 0 && o.f == t.f && o.i == q {
					from = o.pool
				}
			}
		}
		if from == k {
			d += p.between(p.task(t.f, q).Copy, first, last)
		} else {
			d += p.between(p.task(t.f, q).Copy, pools[from][0], first)
		}
	}
	return d
}

// place returns the pool, the node and the start of a task that can start at est: where it ends first or, if it is to
// be late, begins last and still meets its sub-deadline.
func (p *bentPlan) place(t *bentTask, est unit.Time) (pool, node int, start unit.Time) {
	sub := t.job.sub[t.i]
	if p.latest {
		pool, start = -1, -1
		for _, k := range p.pools(t) {
			if s, n, ok := p.latestFree(k, t, est, sub); ok && s > start {
				pool, node, start = k, n, s
			}
		}
		if pool >= 0 {
			return pool, node, start
		}
	}
	end := unit.Never
	for _, k := range p.pools(t) {
		from, run := est, p.stay(t, k)
		if from.Add(run) >= end { // another pool has it end as soon as it can here
			continue
		}
		if p.latest {
			from = max(from, sub-unit.Time(run))
		}
		if s, n := p.free(k, t, from, run); s.Add(run) < end {
			pool, node, start, end = k, n, s, s.Add(run)
		}
	}
	return pool, node, start
}

// sample is the sample schedule of a job, on the empty system or beside all that is planned.
func (p *bentPlan) sample(j *bentJob) []unit.Time {
	ends := make([]unit.Time, len(j.e))
	from := j.s
	if p.idle = !p.trueLaxity; !p.idle {
		from = max(from, p.now)
	}
	p.latest = false
	for _, i := range p.sweeps(j, func(int) bool { return true }) {
		est := from
		for _, q := range p.task(j.f, i).Parents {
			est = max(est, ends[q])
		}
		t := &bentTask{f: j.f, i: i, job: j, node: -1}
		t.pool, t.node, t.start = p.place(t, est)
		t.end = t.start.Add(p.stay(t, t.pool))
		p.samples = append(p.samples, t)
		ends[i] = t.end
	}
	p.samples, p.idle = nil, false
	return ends
}

// admit maps a job that arrives.
func (p *bentPlan) admit(f int) *bentJob {
	n := len(p.Workflows[f].Tasks)
	j := &bentJob{f: f, s: p.release(f), d: p.due(f), e: make([]time.Duration, n), sub: make([]unit.Time, n),
		begun: unit.Never}
	for i, x := range p.Workflows[f].Tasks {
		t := &bentTask{f: f, i: i, job: j, start: unit.Never, end: unit.Never, node: -1}
		for _, q := range x.Parents {
			t.parents = append(t.parents, j.tasks[q])
			j.tasks[q].children = append(j.tasks[q].children, t)
		}
		j.tasks, j.e[i] = append(j.tasks, t), math.MaxInt64
		for _, k := range p.pools(t) {
			j.e[i] = min(j.e[i], p.estimate(t, k))
		}
	}
	return j
}

// mapJob is Algorithm 5: sweep after sweep over the tasks, the longest first.
func (p *bentPlan) mapJob(j *bentJob, root, check bool) bool {
	open := func(i int) bool { return !j.tasks[i].runs && !j.tasks[i].over }
	for _, i := range p.sweeps(j, open) {
		t := j.tasks[i]
		pool, node, at := p.place(t, p.after(t))
		est := p.stay(t, pool)
		if check && at.Add(est) > j.d {
			p.unplace(j)
			ok := p.remap(j, root)
			if !ok && root {
				p.mapJob(j, root, false)
			}
			return ok
		}
		t.pool, t.node = pool, node
		t.start, t.end, t.claim, t.due = at, at.Add(est), at, false
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

// begin is when a job executes first, in attempts that ended badly, too.
func (j *bentJob) begin() unit.Time {
	at := j.begun
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
			t.start, t.end, t.due, t.node = unit.Never, unit.Never, false, -1
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
		est := p.stay(t, k)
		if s, n := p.sometime(k, t, from, est); s.Add(est) < best.end {
			best.pool, best.node, best.start, best.end = k, n, s, s.Add(est)
		}
	}
	*t = best
}

// repeat gives a task whose attempt ended badly another place, as soon as it can be.
func (p *bentPlan) repeat(t *bentTask) {
	p.adrift, p.latest = true, false
	t.job.begun = min(t.job.begun, t.start)
	t.runs, t.start, t.end, t.due, t.node = false, unit.Never, unit.Never, false, -1
	t.pool, t.node, t.start = p.place(t, p.after(t))
	t.end, t.claim = t.start.Add(p.stay(t, t.pool)), t.start
	p.push(t)
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
	for _, t := range p.all(func(t *bentTask) bool { return !t.over && p.never[[2]int{t.f, t.i}] }) {
		p.eased = p.eased || t.end > p.now
		p.adrift = p.adrift || t.runs && t.end != p.now
		late := t.end < p.now
		t.runs, t.over, t.start, t.end = true, true, min(t.start, p.now), p.now // it wants nothing any more
		if late {
			p.push(t)
		}
	}
	for _, t := range p.all(func(t *bentTask) bool { return t.runs && !t.over && !p.started(t.f, t.i) }) {
		p.repeat(t)
	}
	for _, t := range p.all(func(t *bentTask) bool { return t.runs && !t.over && t.end < p.now }) {
		p.adrift = true
		ran := p.now.Sub(t.begun)
		t.end = p.now.Add(max(p.estimate(t, t.pool)-ran, ran/8, time.Millisecond))
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
			n := allNodes
			if p.packed[t.pool] {
				n = t.node
			}
			if !p.room(t.pool, n, t, t.start) {
				lasts := t.end.Sub(t.start)
				t.start, t.node = p.sometime(t.pool, t, t.start, lasts)
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
	if !p.fifo {
		slices.SortStableFunc(fresh, func(a, b *bentJob) int { return cmp.Compare(a.d, b.d) })
	}
	p.pack()
	for _, j := range fresh {
		p.budget(j)
		p.attempts, p.byLaxity = nil, false
		p.latest = p.tsp2 && j.d < unit.Never
		met := p.mapJob(j, true, !p.fifo)
		j.lost = !p.fifo && (!met || j.expected > j.d)
	}
	p.rescue()
	for _, t := range p.all(func(t *bentTask) bool { return !t.runs && t.start <= p.now }) {
		t.due = true
	}
	ready := func(t *bentTask) bool { return !t.runs && p.ready(t.f, t.i) }
	full := map[int]bool{} // pools in which somebody waits
	for k := range p.groups {
		waits := byStart(p.all(func(t *bentTask) bool { return t.pool == k && t.due && ready(t) }),
			func(t *bentTask) unit.Time { return t.claim })
		var kept []int // nodes on which what is free is for one that waits
		for _, t := range waits {
			if p.begin(t, kept) {
				continue
			}
			full[k], kept = true, append(kept, t.node)
			if !p.packed[k] {
				break
			}
		}
	}
	if !p.adrift {
		return
	}
	early := p.all(func(t *bentTask) bool { return !t.due && t.job.eager && ready(t) && !full[t.pool] })
	for _, t := range byStart(early, plannedStart) {
		if p.packed[t.pool] || p.fits(t.pool, allNodes, t, p.now, min(t.start, p.now.Add(t.end.Sub(t.start)))) {
			p.begin(t, nil)
		}
	}
}

func bentOracle(was Instance, spec string) []Stay {
	in, number := joined(was)
	p := &bentPlan{world: newWorld(in), jobs: make([]*bentJob, len(in.Workflows)), fifo: spec == "fifo",
		even: strings.Contains(spec, "ed-"), trueLaxity: strings.Contains(spec, "-tl-"),
		tsp2: strings.Contains(spec, "tsp2"), packed: map[int]bool{}, scarce: map[int]bool{}}
	p.reads = readers(was, number)
	for n, x := range in.Nodes {
		k := slices.IndexFunc(p.groups, func(g []int) bool { return in.Nodes[g[0]] == x })
		if k < 0 {
			k, p.groups = len(p.groups), append(p.groups, nil)
		}
		p.groups[k] = append(p.groups[k], n)
	}
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
			return renumbered(p.stays, number)
		}
	}
}

// bentShapes are the instances of RM-DCWF, FIFO and their oracle where estimates are wrong, or needs differ.
var bentShapes = []sampled{
	{60, Shape{Released: true, Dummies: true, Sizes: true, Memory: true, Tasks: 12, Nodes: 3}},
	{100, Shape{Released: true, Wrong: true, Dummies: true}},
	{50, Shape{Released: true, Wrong: true, Dummies: true, Groups: 2, Speeds: speeds}},
	{50, faulty(Shape{Released: true, Wrong: true, Dummies: true, Groups: 2, Speeds: speeds})},
	{100, Shape{Released: true, Wrong: true, Dummies: true, Speeds: speeds, Sizes: true, Memory: true}},
	{100, Shape{Released: true, Wrong: true, Dummies: true, Sizes: true, Nodes: 3}},
	{50, Shape{Released: true, Wrong: true, Dummies: true, Sizes: true, Memory: true, Nodes: 3}},
	{50, faulty(Shape{Released: true, Wrong: true, Dummies: true, Sizes: true, Memory: true, Nodes: 3})},
}

// copyingShapes are what RM-DCWF and FIFO are compared with their oracle on where inputs are copied between nodes.
var copyingShapes = []sampled{
	{60, Shape{Released: true, Dummies: true, Held: true, Groups: 2}},
	{60, Shape{Released: true, Dummies: true, Held: true, Groups: 2, Speeds: speeds}},
	{15, Shape{Released: true, Dummies: true, Held: true, Groups: 2, Speeds: speeds, Wrong: true}},
	{45, faulty(Shape{Released: true, Dummies: true, Held: true, Groups: 2, Speeds: speeds, Wrong: true})},
	{60, Shape{Released: true, Dummies: true, Held: true, Groups: 2, Sizes: true, Memory: true, Nodes: 3}},
	{60, Shape{Released: true, Dummies: true, Held: true, Groups: 2, Sizes: true, Memory: true, Nodes: 3,
		Wrong: true}},
}
