package policy_test

import (
	"cmp"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/planner/unit"
)

// dcwf is RM-DCWF (Lim, Majumdar and Ashwood-Smith 2017) with exact estimates, as its algorithms are written. Its
// plan says when tasks run and in which pool of alike nodes, which never has more at once than cores: each takes one.
// On which of its pool a task starts is left open by that: the oracle takes it from the course it checks.
type dcwf struct {
	*world
	pools  [][]int // nodes of each pool
	jobs   []*dcwfJob
	onNode func(f, i int) int

	even, trueLaxity, tsp2, fifo bool // x, y and z of the configuration
	latest, byLaxity             bool
	attempts                     [][]int

	sample func(j *dcwfJob) []dcwfPlace // the sample schedule of DBW
}

// dcwfJob is a job as it is planned.
type dcwfJob struct {
	f      int
	s, d   unit.Time
	e      []time.Duration // by task: the shortest of its runs
	sub    []unit.Time
	set    time.Duration
	mapped bool
	at     []dcwfPlace
}

// dcwfPlace is the place of a task in a plan; pool -1: none, and no time.
type dcwfPlace struct {
	is         bool
	pool       int
	start, end unit.Time
}

func newDCWF(in Instance, spec string, onNode func(f, i int) int) *dcwf {
	o := &dcwf{world: newWorld(in), onNode: onNode, fifo: spec == "fifo", even: strings.Contains(spec, "ed-"),
		trueLaxity: strings.Contains(spec, "-tl-"),
		tsp2:       strings.Contains(spec, "tsp2")}
	for n, x := range in.Nodes {
		k := slices.IndexFunc(o.pools, func(p []int) bool { return in.Nodes[p[0]] == x })
		if k < 0 {
			k, o.pools = len(o.pools), append(o.pools, nil)
		}
		o.pools[k] = append(o.pools[k], n)
	}
	o.jobs = make([]*dcwfJob, len(in.Workflows))
	o.sample = o.sampled
	return o
}

// interval is a task in a pool.
type interval struct {
	start, end unit.Time
	cores      int64
}

// inPool lists what runs in a pool, and what is planned there.
func (o *dcwf) inPool(k int) (out []interval) {
	for _, s := range o.stays {
		if slices.Contains(o.pools[k], s.Node) && s.End > o.now {
			t := o.task(s.Workflow, s.Task)
			out = append(out, interval{s.Start, s.End, t.Cores})
		}
	}
	for _, j := range o.jobs {
		if j == nil {
			continue
		}
		for i, at := range j.at {
			if at.is && at.pool == k && !o.started(j.f, i) {
				out = append(out, interval{at.start, at.end, o.task(j.f, i).Cores})
			}
		}
	}
	return out
}

// fit reports whether the nodes of a pool have room for intervals.
func (o *dcwf) fit(k int, all []interval) bool {
	return !slices.ContainsFunc(all, func(a interval) bool {
		cores := int64(0)
		for _, b := range all {
			if b.start <= a.start && b.end > a.start {
				cores += b.cores
			}
		}
		return cores > o.Nodes[o.pools[k][0]].Cores*int64(len(o.pools[k]))
	})
}

// earliest1 is the first instant from which a task has room in pool k beside others.
func (o *dcwf) earliest1(k, f, i int, run time.Duration, from unit.Time, others []interval) unit.Time {
	starts := []unit.Time{from}
	for _, x := range others {
		if x.end > from {
			starts = append(starts, x.end)
		}
	}
	slices.Sort(starts)
	for _, s := range starts {
		if o.fit(k, append(slices.Clone(others), interval{s, s.Add(run), o.task(f, i).Cores})) {
			return s
		}
	}
	return unit.Never
}

// latest is the last instant, not before from, from which a task has room in pool k and is over by until; false if
// there is none.
func (o *dcwf) latest1(k, f, i int, run time.Duration, from, until unit.Time, others []interval) (unit.Time, bool) {
	starts := []unit.Time{until - unit.Time(run)}
	for _, x := range others {
		starts = append(starts, x.start-unit.Time(run))
	}
	slices.Sort(starts)
	slices.Reverse(starts)
	for _, s := range starts {
		if s >= from && s.Add(run) <= until && o.fit(k, append(slices.Clone(others), interval{s, s.Add(run),
			o.task(f, i).Cores})) {
			return s, true
		}
	}
	return 0, false
}

// fitsPool reports whether a task fits the nodes of a pool at all.
func (o *dcwf) fitsPool(k, f, i int) bool {
	n := o.Nodes[o.pools[k][0]]
	return o.task(f, i).Cores <= n.Cores && (n.Memory == 0 || o.task(f, i).Memory <= n.Memory)
}

// place is where a task goes that can start at est.
func (o *dcwf) place(j *dcwfJob, i int, est unit.Time, latest bool, others func(k int) []interval) dcwfPlace {
	if j.e[i] == 0 {
		return dcwfPlace{true, -1, est, est}
	}
	best := dcwfPlace{end: unit.Never, start: -1}
	if latest {
		for k := range o.pools {
			run := o.run(o.task(j.f, i).Run, o.pools[k][0])
			if !o.fitsPool(k, j.f, i) {
				continue
			}
			if s, ok := o.latest1(k, j.f, i, run, est, j.sub[i], others(k)); ok && s > best.start {
				best = dcwfPlace{true, k, s, s.Add(run)}
			}
		}
		if best.is {
			return best
		}
	}
	for k := range o.pools {
		run, from := o.run(o.task(j.f, i).Run, o.pools[k][0]), est
		if !o.fitsPool(k, j.f, i) {
			continue
		}
		if latest {
			from = max(from, j.sub[i]-unit.Time(run))
		}
		if s := o.earliest1(k, j.f, i, run, from, others(k)); s.Add(run) < best.end {
			best = dcwfPlace{true, k, s, s.Add(run)}
		}
	}
	return best
}

// sweeps lists the tasks for which open holds as lines 3 to 26 of Algorithm 5 come by them: over all in order of
// runtime, sub-deadline and number, again and again, passing over those that have a parent without a place.
func (o *dcwf) sweeps(j *dcwfJob, open func(i int) bool) (out []int) {
	order := make([]int, len(j.e))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(j.e[b], j.e[a]),
			cmp.Compare(j.sub[a], j.sub[b]))
	})
	for again := true; again; {
		again = false
		for _, i := range order {
			if !open(i) || slices.Contains(out, i) {
				continue
			}
			if !slices.ContainsFunc(o.task(j.f, i).Parents, func(q int) bool {
				return open(q) &&
					!slices.Contains(out, q)
			}) {
				out, again = append(out, i), true
			}
		}
	}
	return out
}

// sampled is the sample schedule of a job, on the empty system or beside all that is planned.
func (o *dcwf) sampled(j *dcwfJob) []dcwfPlace {
	tasks := o.Workflows[j.f].Tasks
	sample, from := make([]dcwfPlace, len(tasks)), j.s
	if o.trueLaxity {
		from = max(from, o.now)
	}
	for _, i := range o.sweeps(j, func(int) bool { return true }) {
		est := from
		for _, q := range tasks[i].Parents {
			est = max(est, sample[q].end)
		}
		sample[i] = o.place(j, i, est, false, func(k int) (others []interval) {
			if o.trueLaxity {
				others = o.inPool(k)
			}
			for q, at := range sample {
				if at.is && at.pool == k {
					others = append(others, interval{at.start, at.end, tasks[q].Cores})
				}
			}
			return others
		})
	}
	return sample
}

// budget is the DBW algorithm.
func (o *dcwf) budget(j *dcwfJob) {
	tasks, sample := o.Workflows[j.f].Tasks, o.sample(j)
	end := j.s
	for _, at := range sample {
		end = max(end, at.end)
	}
	j.set = end.Sub(j.s)
	if o.fifo {
		return
	}
	if j.d == unit.Never {
		for i := range j.sub {
			j.sub[i] = unit.Never
		}
		return
	}
	// Topological order: tasks without parents by number, then what becomes free, in that order.
	var order []int
	free := func(i int) bool {
		return !slices.Contains(order, i) && !slices.ContainsFunc(tasks[i].Parents,
			func(q int) bool { return !slices.Contains(order, q) })
	}
	for i := range tasks {
		if len(tasks[i].Parents) == 0 {
			order = append(order, i)
		}
	}
	for k := 0; k < len(order); k++ {
		for i := range tasks {
			if slices.Contains(tasks[i].Parents, order[k]) {
				// It becomes free with the last of its parents in the order.
				last := 0
				for _, q := range tasks[i].Parents {
					last = max(last, slices.Index(order, q))
					if !slices.Contains(order, q) {
						last = len(tasks)
					}
				}
				if last == k && free(i) {
					order = append(order, i)
				}
			}
		}
	}
	var stages []int32
	for i := range tasks {
		if j.e[i] > 0 {
			stages = append(stages, tasks[i].Stage)
		}
	}
	slices.Sort(stages)
	stages = slices.Compact(stages)
	phase := make([]int, len(tasks))
	laxity := int64(j.d.Sub(j.s) - j.set)
	for _, i := range order {
		phase[i] = slices.Index(stages, tasks[i].Stage) + 1
		if j.e[i] == 0 {
			phase[i] = 1
			for _, q := range tasks[i].Parents {
				phase[i] = max(phase[i], phase[q])
			}
		}
		part, whole := int64(sample[i].end-j.s), int64(j.set)
		if o.even {
			part, whole = int64(phase[i]), int64(max(1, len(stages)))
		}
		share := laxity
		if whole > 0 {
			x := new(big.Int).Mul(big.NewInt(laxity), big.NewInt(part))
			share = x.Quo(x, big.NewInt(whole)).Int64() // towards zero
		}
		j.sub[i] = sample[i].end + unit.Time(share)
		if len(tasks[i].Parents) > 1 {
			most := j.sub[tasks[i].Parents[0]]
			for _, q := range tasks[i].Parents {
				most = max(most, j.sub[q])
			}
			for _, q := range tasks[i].Parents {
				j.sub[q] = most
			}
		}
	}
}

// mapJob is Algorithm 4.
func (o *dcwf) mapJob(j *dcwfJob) {
	o.budget(j)
	o.attempts, o.byLaxity = nil, false
	o.latest = o.tsp2 && j.d < unit.Never
	o.helper(j, true, !o.fifo)
}

// helper is Algorithm 5.
func (o *dcwf) helper(j *dcwfJob, root, check bool) bool {
	tasks := o.Workflows[j.f].Tasks
	open := func(i int) bool { return !o.fixed(j, i) }
	for _, i := range o.sweeps(j, open) {
		est := max(j.s, o.now)
		for _, q := range tasks[i].Parents {
			est = max(est, j.at[q].end)
		}
		at := o.place(j, i, est, o.latest, o.inPool)
		if check && at.end > j.d {
			o.unplace(j)
			ok := o.remap(j, root)
			if !ok {
				o.helper(j, root, false)
			}
			return ok
		}
		j.at[i] = at
	}
	j.mapped = true
	return true
}

// fixed reports whether a task has started or ended: it is not moved any more.
func (o *dcwf) fixed(j *dcwfJob, i int) bool { return o.ended[[2]int{j.f, i}] || o.started(j.f, i) }

func (o *dcwf) unplace(j *dcwfJob) {
	j.mapped = false
	for i := range j.at {
		if !o.fixed(j, i) {
			j.at[i] = dcwfPlace{}
		}
	}
}

// remap is Algorithm 6.
func (o *dcwf) remap(j *dcwfJob, root bool) bool {
	o.latest = false
	if o.remapHelper(j, root) {
		return true
	}
	if !root {
		return false
	}
	o.byLaxity = true
	return o.remapHelper(j, root)
}

// remapHelper is Algorithm 7. No more than four attempts are made for one job.
func (o *dcwf) remapHelper(j *dcwfJob, root bool) bool {
	var all []*dcwfJob
	for _, k := range o.jobs {
		if k == nil {
			continue
		}
		begin, end := o.span(k)
		if k == j || k.mapped && o.anyOpen(k) && begin < j.d && end > max(j.s, o.now) {
			all = append(all, k)
		}
	}
	slices.SortStableFunc(all, func(a, b *dcwfJob) int {
		la, lb := a.laxity(), b.laxity()
		if o.byLaxity {
			return cmp.Or(compareNormalized(la, a.set, lb, b.set), cmp.Compare(a.d, b.d))
		}
		return cmp.Or(cmp.Compare(a.d, b.d), la.Cmp(lb))
	})
	var list []int
	for _, k := range all {
		list = append(list, k.f)
	}
	if slices.ContainsFunc(o.attempts, func(a []int) bool { return reflect.DeepEqual(a, list) }) ||
		len(o.attempts) == 4 {
		return false
	}
	o.attempts = append(o.attempts, list)
	type state struct {
		mapped bool
		at     []dcwfPlace
	}
	var saved []state
	for _, k := range o.jobs {
		if k != nil {
			saved = append(saved, state{k.mapped, slices.Clone(k.at)})
		} else {
			saved = append(saved, state{})
		}
	}
	var hopeful, late []*dcwfJob
	for _, k := range all {
		if _, end := o.span(k); k != j && (k.d < o.now || end > k.d) {
			late = append(late, k)
		} else {
			hopeful = append(hopeful, k)
		}
	}
	for _, k := range all {
		o.unplace(k)
	}
	for _, k := range hopeful {
		if !o.helper(k, false, true) {
			if root {
				for f, k := range o.jobs {
					if k != nil {
						k.mapped, k.at = saved[f].mapped, saved[f].at
					}
				}
			}
			return false
		}
	}
	for _, k := range late {
		o.helper(k, false, false)
	}
	return true
}

func (o *dcwf) anyOpen(j *dcwfJob) bool {
	for i := range j.at {
		if !o.fixed(j, i) {
			return true
		}
	}
	return false
}

// span is when a job executes: from the first start of a task that takes time to its last end.
func (o *dcwf) span(j *dcwfJob) (begin, end unit.Time) {
	begin = unit.Never
	for i, at := range j.at {
		if at.is {
			if end = max(end, at.end); j.e[i] > 0 {
				begin = min(begin, at.start)
			}
		}
	}
	return begin, end
}

// laxity is d - s - SET, infinite without a deadline.
func (j *dcwfJob) laxity() *big.Float {
	if j.d == unit.Never {
		return new(big.Float).SetInf(false)
	}
	return new(big.Float).SetInt64(int64(j.d.Sub(j.s) - j.set))
}

// compareNormalized compares laxities over lengths.
func compareNormalized(a *big.Float, setA time.Duration, b *big.Float, setB time.Duration) int {
	norm := func(l *big.Float, set time.Duration) *big.Rat {
		if set == 0 || l.IsInf() {
			return nil
		}
		x, _ := l.Int(nil)
		return new(big.Rat).SetFrac(x, big.NewInt(int64(set)))
	}
	inf := func(l *big.Float, set time.Duration) int {
		if norm(l, set) != nil {
			return 0
		}
		return l.Sign()
	}
	if c := cmp.Compare(inf(a, setA), inf(b, setB)); c != 0 || inf(a, setA) != 0 || setA == 0 || setB == 0 {
		return c
	}
	return norm(a, setA).Cmp(norm(b, setB))
}

// course runs the oracle.
func (o *dcwf) course() ([]Stay, error) {
	for {
		o.settle()
		var fresh []*dcwfJob
		for f := range o.Workflows {
			flow := &o.Workflows[f]
			if flow.Arrive != o.now || o.jobs[f] != nil {
				continue
			}
			n := len(flow.Tasks)
			j := &dcwfJob{f: f, s: o.release(f), d: o.due(f), e: make([]time.Duration, n), sub: make([]unit.Time,
				n), at: make([]dcwfPlace, n)}
			for i := range flow.Tasks {
				j.e[i] = 1 << 62
				for k := range o.pools {
					if o.fitsPool(k, f, i) {
						j.e[i] = min(j.e[i], o.run(flow.Tasks[i].Run, o.pools[k][0]))
					}
				}
				if o.ended[[2]int{f, i}] { // a task without time that was ready on arrival
					j.at[i] = dcwfPlace{true, -1, o.now, o.now}
				}
			}
			o.jobs[f] = j
			fresh = append(fresh, j)
		}
		if !o.fifo {
			slices.SortStableFunc(fresh, func(a, b *dcwfJob) int { return cmp.Compare(a.d, b.d) })
		}
		for _, j := range fresh {
			o.mapJob(j)
		}
		next := unit.Never
		for _, j := range o.jobs {
			if j == nil {
				continue
			}
			for i, at := range j.at {
				switch {
				case at.pool < 0 || o.fixed(j, i):
				case at.start > o.now:
					next = min(next, at.start)
				case !o.ready(j.f, i):
					return nil, fmt.Errorf("task %d.%d is planned for %v and not ready", j.f, i, at.start)
				default:
					n := o.onNode(j.f, i)
					if !slices.Contains(o.pools[at.pool], n) {
						return nil, fmt.Errorf("task %d.%d is planned for pool %v at %v, and starts on node %d",
							j.f, i, o.pools[at.pool], o.now, n)
					}
					if !o.free(j.f, i, n) {
						return nil, fmt.Errorf("task %d.%d starts on node %d at %v, which has no room", j.f, i, n,
							o.now)
					}
					o.start(j.f, i, n)
				}
			}
		}
		if !o.next(next) {
			return o.stays, nil
		}
	}
}

// dcwfDiffers compares a configuration with the oracle.
func dcwfDiffers(in Instance, spec string) (string, error) {
	got, err := Simulate(in, spec)
	if err != nil {
		return "", err
	}
	nodes := map[[2]int]int{}
	for _, s := range got.Stays {
		nodes[[2]int{s.Workflow, s.Task}] = s.Node
	}
	timed, number := joined(in)
	want, err := newDCWF(timed, spec, func(f, i int) int { return nodes[[2]int{f, number[f][i]}] }).course()
	if err != nil {
		return err.Error(), nil
	}
	for k := range want {
		want[k].Task = number[want[k].Workflow][want[k].Task]
	}
	return Difference(got.Stays, want, true), nil
}

var configurations = []string{"fifo", "rm-dcwf:pd-sl-tsp1", "rm-dcwf:pd-sl-tsp2", "rm-dcwf:pd-tl-tsp1",
	"rm-dcwf:pd-tl-tsp2", "rm-dcwf:ed-sl-tsp1",
	"rm-dcwf:ed-sl-tsp2", "rm-dcwf:ed-tl-tsp1", "rm-dcwf:ed-tl-tsp2"}

// exactShapes are the instances of RM-DCWF, FIFO and their oracle with exact estimates. Tasks need a core each.
var exactShapes = []sampled{
	{120, Shape{Dummies: true, Released: true}},
	{120, Shape{Dummies: true, Released: true, Speeds: speeds, Groups: 2}},
}

func TestRMDCWFAndFIFOAreWhatTheirOracleIs(t *testing.T) {
	for _, spec := range configurations {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			for _, s := range exactShapes {
				Compare(t, s.n, s.Shape, func(in Instance) (string, error) {
					return dcwfDiffers(in, spec)
				})
			}
		})
	}
}
