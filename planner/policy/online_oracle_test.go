package policy_test

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"strconv"
	"testing"
	"time"

	"gantry/planner/unit"
)

// These oracles schedule streams of workflows as Ilyushkin and Epema, CCGrid 2018, sections III-B to III-I, say, and
// HEFT as Topcuoglu, Hariri and Wu 2002 do. They share no code with the planner: ranks are fractions, and every
// decision looks at all tasks again.

// flowTask is a task of a stream.
type flowTask struct {
	wf, i             int
	need              [2]int64      // millicores, bytes
	run, est          time.Duration // at speed 1
	parents, children []*flowTask
	rank              *big.Rat
	state             int // 0 waits, 1 eligible, 2 runs, 3 done, 4 failed, or never runs
	lost              int // attempts that are still to be lost
	node              int
	start, end, till  unit.Time     // of its stay; till: when it is estimated to end, or planned to
	size, copied      time.Duration // what a copy of its output to another rack takes, and copies of its input did
	planned           bool
	group             int
	promised          bool      // it waits on its node for copies that overlap other work
	number            int       // of its promise
	believed          unit.Time // when it is expected to end, as often as it overruns
}

// flowSystem is the state of a simulation.
type flowSystem struct {
	in      Instance
	now     unit.Time
	flows   [][]*flowTask
	free    [][2]int64
	active  []*flowTask // in the order in which they started
	done    []*flowTask // that take time, in the order in which they ended, then of their numbers
	stays   []Stay
	arrived []bool
	wake    unit.Time           // something is planned to start then; 0: nobody asked
	holds   map[*flowTask][]int // nodes with the output of a task
	coming  map[flowCopy]unit.Time
	made    int // promises
}

// flowCopy is a copy of the output of a task to a node that overlaps other work.
type flowCopy struct {
	of *flowTask
	to int
}

// newFlowSystem knows the ranks of all tasks: the run at the mean speed, or the mean of the runs, and the largest
// rank of the children, with the mean copy.
func newFlowSystem(in Instance, averageSpeed bool) *flowSystem {
	s := &flowSystem{in: in, arrived: make([]bool, len(in.Workflows)), holds: map[*flowTask][]int{},
		coming: map[flowCopy]unit.Time{}}
	for _, n := range in.Nodes {
		s.free = append(s.free, capacityOf(n))
	}
	factor := func(cores int64) *big.Rat {
		sum, nodes := new(big.Rat), int64(0)
		for _, n := range in.Nodes {
			if n.Cores < cores {
				continue
			}
			speed := decimal(n.Speed)
			if !averageSpeed {
				speed.Inv(speed)
			}
			sum.Add(sum, speed)
			nodes++
		}
		if sum.Quo(sum, big.NewRat(nodes, 1)); averageSpeed {
			sum.Inv(sum)
		}
		return sum
	}
	for w := range in.Workflows {
		var flow []*flowTask
		for i, t := range in.Workflows[w].Tasks {
			j := &flowTask{wf: w, i: i, need: [2]int64{t.Cores, t.Memory}, run: t.Run, est: t.Estimate(), node: -1,
				lost: t.Lost, size: t.Copy}
			for _, p := range t.Parents {
				j.parents = append(j.parents, flow[p])
				flow[p].children = append(flow[p].children, j)
			}
			flow = append(flow, j)
		}
		for _, j := range slices.Backward(flow) {
			j.rank = new(big.Rat)
			for _, c := range j.children {
				if r := new(big.Rat).Add(c.rank, s.meanCopy(j, c)); r.Cmp(j.rank) > 0 {
					j.rank = r
				}
			}
			j.rank = new(big.Rat).Add(j.rank, new(big.Rat).Mul(factor(j.need[0]), big.NewRat(int64(j.est), 1)))
		}
		s.flows = append(s.flows, flow)
	}
	return s
}

// capacityOf is what a node has: millicores, bytes.
func capacityOf(n Node) [2]int64 {
	return [2]int64{n.Cores, cmp.Or(n.Memory, math.MaxInt64/4)}
}

func (s *flowSystem) on(d time.Duration, n int) time.Duration {
	q := decimal(s.in.Nodes[n].Speed)
	q.Quo(big.NewRat(int64(d), 1), q)
	return time.Duration(new(big.Int).Quo(q.Num(), q.Denom()).Int64())
}

// decimal is a speed as people write it.
func decimal(speed float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(speed, 'f', -1, 64))
	return r
}

// meanCopy is how long the copy of what a task reads of a parent takes on average over all pairs of nodes.
func (s *flowSystem) meanCopy(parent, child *flowTask) *big.Rat {
	sum, nodes := int64(0), len(s.in.Nodes)
	if child.run == 0 || nodes < 2 {
		return new(big.Rat)
	}
	for n := range nodes {
		for m := range nodes {
			sum += int64(s.in.between(parent.size, n, m))
		}
	}
	return big.NewRat(sum, int64(nodes*(nodes-1)))
}

// copying is how long it takes to bring what a task reads to a node, one file after the other: from the nearest node
// that holds it or, of a task that is not done, from where that is.
func (s *flowSystem) copying(j *flowTask, n int) (sum time.Duration) {
	for _, p := range j.parents {
		best, from := p.size, s.holds[p]
		if p.size == 0 {
			continue
		}
		if p.state != 3 {
			from = []int{p.node}
		}
		for _, m := range from {
			best = min(best, s.in.between(p.size, m, n))
		}
		sum += best
	}
	return sum
}

func (s *flowSystem) begin(j *flowTask, n int) {
	if j.copied = 0; !s.in.Overlapped {
		j.copied = s.copying(j, n)
	}
	at, planned := s.now.Add(j.copied), j.till.Sub(j.start)
	if j.till = at.Add(s.on(j.est, n)); j.planned { // copies may take less than they were planned to
		j.till = s.now.Add(planned)
	}
	j.state, j.node, j.start, j.end = 2, n, s.now, at.Add(s.on(j.run, n))
	j.promised, j.believed = false, j.till
	if j.lost > 0 || s.in.Workflows[j.wf].Tasks[j.i].Fail {
		j.end = at.Add(s.on(j.run, n) / 2)
	}
	s.free[n] = [2]int64{s.free[n][0] - j.need[0], s.free[n][1] - j.need[1]}
	s.active = append(s.active, j)
}

// fail ends a task and all below it, which never become eligible.
func (j *flowTask) fail() {
	j.state = 4
	for _, c := range j.children {
		c.fail()
	}
}

func takesTime(j *flowTask) bool { return j.run > 0 }

// simulate asks the policy at every instant at which something happens, after all that does.
func (s *flowSystem) simulate(policy func(arrived bool)) []Stay {
	for {
		next := unit.Never
		for w := range s.flows {
			if at := s.in.Workflows[w].Arrive; !s.arrived[w] {
				next = min(next, at)
			} else if at := s.in.Workflows[w].Release; at > s.now && slices.ContainsFunc(s.flows[w], takesTime) {
				next = min(next, at)
			}
		}
		for _, j := range s.active {
			next = min(next, j.end)
		}
		for _, at := range s.coming {
			next = min(next, at)
		}
		if s.wake > s.now {
			next = min(next, s.wake)
		}
		if next == unit.Never {
			return s.stays
		}
		s.now = next
		again := false
		for f, at := range s.coming {
			if at == s.now {
				s.holds[f.of] = append(s.holds[f.of], f.to)
				delete(s.coming, f)
			}
		}
		var still []*flowTask
		for _, j := range s.active {
			if j.start.Add(j.copied) <= s.now { // files are on a node once a program reads them
				for _, p := range j.parents {
					s.holds[p] = append(s.holds[p], j.node)
				}
			}
			if j.end > s.now {
				still = append(still, j)
				continue
			}
			s.free[j.node] = [2]int64{s.free[j.node][0] + j.need[0], s.free[j.node][1] + j.need[1]}
			switch {
			case j.lost > 0: // it is made again
				j.state, j.planned = 1, false
				j.lost--
				again = true
			case s.in.Workflows[j.wf].Tasks[j.i].Fail:
				j.fail()
			default:
				j.state = 3
				s.done = append(s.done, j)
				s.holds[j] = append(s.holds[j], j.node)
			}
			s.stays = append(s.stays, Stay{Workflow: j.wf, Task: j.i, Node: j.node,
				Start: j.start.Add(j.copied), End: j.end})
		}
		s.active = still
		slices.SortStableFunc(s.done, func(a, b *flowTask) int { // at one instant by their numbers
			return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.wf, b.wf), cmp.Compare(a.i, b.i))
		})
		arrived := again
		for w, flow := range s.flows {
			if s.in.Workflows[w].Arrive > s.now {
				continue
			}
			arrived = arrived || !s.arrived[w]
			s.arrived[w] = true
			if s.in.Workflows[w].Release > s.now {
				continue
			}
			for _, j := range flow { // parents come first
				if j.state == 0 && !slices.ContainsFunc(j.parents, func(p *flowTask) bool { return p.state != 3 }) {
					if j.state = 1; j.run == 0 {
						j.state = 3
					}
				}
			}
		}
		policy(arrived)
	}
}

// fastest returns the fastest node that is idle for a job, the first of equals; -1 if there is none.
func (s *flowSystem) fastest(j *flowTask) int {
	best := -1
	for n := range s.free {
		if s.idle(j, n) && (best < 0 || s.in.Nodes[n].Speed > s.in.Nodes[best].Speed) {
			best = n
		}
	}
	return best
}

// idle reports whether a node has room for a job now and, where it is promised to others that wait for their copies,
// the job would take nothing from them. One of them that is late claims its room.
func (s *flowSystem) idle(j *flowTask, n int) bool {
	free := s.free[n]
	for _, p := range s.promised(n) {
		if p.start <= s.now {
			free = [2]int64{free[0] - p.need[0], free[1] - p.need[1]}
		}
	}
	return fits(j.need, free) && (len(s.promised(n)) == 0 || s.fitsFrom(j, n, s.there(j, n)))
}

// promised lists to whom a node is promised, by planned start, then in the order in which they were chosen.
func (s *flowSystem) promised(n int) (out []*flowTask) {
	for _, flow := range s.flows {
		for _, j := range flow {
			if j.promised && j.node == n {
				out = append(out, j)
			}
		}
	}
	slices.SortFunc(out, func(a, b *flowTask) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.number, b.number))
	})
	return out
}

// fitsFrom reports whether a node is estimated to have room for a job from an instant on, beside what runs and others
// that it is promised to.
func (s *flowSystem) fitsFrom(j *flowTask, n int, from unit.Time) bool {
	type stay struct {
		*flowTask
		until unit.Time
	}
	var stays []stay
	points, until := []unit.Time{from}, from.Add(s.on(j.est, n))
	for _, a := range s.active {
		if a.node == n {
			stays = append(stays, stay{a, a.believed})
		}
	}
	for _, p := range s.promised(n) {
		if p != j {
			if stays = append(stays, stay{p, p.till}); p.start > from && p.start < until {
				points = append(points, p.start)
			}
		}
	}
	for _, at := range points {
		used := j.need
		for _, o := range stays {
			if o.start <= at && at < o.until {
				used = [2]int64{used[0] + o.need[0], used[1] + o.need[1]}
			}
		}
		if !fits(used, capacityOf(s.in.Nodes[n])) {
			return false
		}
	}
	return true
}

// there is when what a job reads can be on a node.
func (s *flowSystem) there(j *flowTask, n int) unit.Time {
	at := s.now
	for _, p := range j.parents {
		if p.size > 0 && !slices.Contains(s.holds[p], n) {
			at = max(at, s.arrival(p, n))
		}
	}
	return at
}

// arrival is when the output of a task that is done comes to a node, if its copy begins now at the latest.
func (s *flowSystem) arrival(p *flowTask, n int) unit.Time {
	if at, ok := s.coming[flowCopy{p, n}]; ok {
		return at
	}
	best := p.size
	for _, m := range s.holds[p] {
		best = min(best, s.in.between(p.size, m, n))
	}
	return s.now.Add(best)
}

// promise lets a job wait on a node for what it reads, which is on its way from now on.
func (s *flowSystem) promise(j *flowTask, n int) {
	s.made++
	j.promised, j.number, j.node, j.start = true, s.made, n, s.there(j, n)
	j.till = j.start.Add(s.on(j.est, n))
	for _, p := range j.parents {
		if p.size > 0 && !slices.Contains(s.holds[p], n) {
			s.coming[flowCopy{p, n}] = s.arrival(p, n)
		}
	}
}

// keepPromises begins jobs whose copies have come, on each node in the order of their planned starts, or before those
// if they take nothing from others. One that is late claims its room whether it can begin or not.
func (s *flowSystem) keepPromises() {
	for _, a := range s.active {
		if a.believed <= s.now {
			a.believed = s.now.Add(max(s.now.Sub(a.start)/8, time.Millisecond))
		}
	}
	for n := range s.free {
		free := s.free[n]
		for _, j := range s.promised(n) {
			late, ready := j.start <= s.now, s.there(j, n) == s.now && fits(j.need, free)
			if ready && (late || s.fitsFrom(j, n, s.now)) {
				s.begin(j, n)
			} else if !late {
				continue
			}
			free = [2]int64{free[0] - j.need[0], free[1] - j.need[1]}
		}
	}
}

// byRank returns the job with the highest rank, or the lowest; the first of equals.
func byRank(jobs []*flowTask, lowest bool) *flowTask {
	var best *flowTask
	for _, j := range jobs {
		if best == nil {
			best = j
			continue
		}
		if c := j.rank.Cmp(best.rank); c > 0 && !lowest || c < 0 && lowest {
			best = j
		}
	}
	return best
}

// greedy starts tasks now, one by one. choose picks from the eligible tasks of each workflow that has any, none of
// which needs as much as one that found no room in this round.
func (s *flowSystem) greedy(choose func(eligible [][]*flowTask) *flowTask, waits func(j *flowTask) bool) {
	var tooMuch [][2]int64
	held, passed := map[int]bool{}, map[*flowTask]bool{}
	s.keepPromises()
	for {
		var eligible [][]*flowTask
		for w, flow := range s.flows {
			var jobs []*flowTask
			for _, j := range flow {
				over := slices.ContainsFunc(tooMuch, func(need [2]int64) bool { return fits(need, j.need) })
				if j.state == 1 && !j.promised && !held[w] && !passed[j] && !over {
					jobs = append(jobs, j)
				}
			}
			if len(jobs) > 0 {
				eligible = append(eligible, jobs)
			}
		}
		if len(eligible) == 0 {
			return
		}
		j := choose(eligible)
		n := s.fastest(j)
		switch {
		case n < 0 && slices.ContainsFunc(s.free, func(free [2]int64) bool { return fits(j.need, free) }):
			passed[j] = true // which says nothing of others: they may be shorter, or have other copies
		case n < 0:
			tooMuch = append(tooMuch, j.need)
		case waits != nil && waits(j):
			held[j.wf] = true
		case s.in.Overlapped && s.there(j, n) > s.now:
			s.promise(j, n)
		default:
			s.begin(j, n)
		}
	}
}

// busyFinishesFirst is the rule of OWM: where all processors with room have one speed, is the one without that has room
// first, the fastest of equals, estimated to finish the task earlier?
func (s *flowSystem) busyFinishesFirst(j *flowTask) bool { return s.finishesFirst(j, false) }

// finishesFirst may leave out tasks that outlast their estimates: their nodes have no room.
func (s *flowSystem) finishesFirst(j *flowTask, ignored bool) bool {
	idle, busy, from := s.fastest(j), -1, unit.Never
	for n, free := range s.free {
		if fits(j.need, free) {
			if s.idle(j, n) && s.in.Nodes[n].Speed != s.in.Nodes[idle].Speed {
				return false
			}
			continue // one that is promised is neither
		}
		var ends []*flowTask
		for _, a := range s.active {
			if a.node == n {
				ends = append(ends, a)
			}
		}
		at := func(a *flowTask) unit.Time {
			if ignored && a.till < s.now {
				return unit.Never
			}
			return max(s.now, a.till)
		}
		slices.SortStableFunc(ends, func(a, b *flowTask) int { return cmp.Compare(at(a), at(b)) })
		for _, a := range ends { // a node that is too small has none left and no room
			if free[0], free[1] = free[0]+a.need[0], free[1]+a.need[1]; !fits(j.need, free) {
				continue
			}
			if at(a) < from || busy >= 0 && at(a) == from && s.in.Nodes[n].Speed > s.in.Nodes[busy].Speed {
				busy, from = n, at(a)
			}
			break
		}
	}
	finish := func(n int, from unit.Time) unit.Time {
		if s.in.Overlapped {
			return max(from, s.there(j, n)).Add(s.on(j.est, n))
		}
		return from.Add(s.copying(j, n) + s.on(j.est, n))
	}
	return busy >= 0 && finish(busy, from) < finish(idle, s.now)
}

// length is that of the critical path of a workflow.
func (s *flowSystem) length(w int) *big.Rat {
	best := new(big.Rat)
	for _, j := range s.flows[w] {
		if j.rank.Cmp(best) > 0 {
			best = j.rank
		}
	}
	return best
}

// leftOf is the inverse of r_a of FDWS: the fraction of the tasks that are still to be completed, times the length of
// the critical path. What failed, or never runs, is not.
func (s *flowSystem) leftOf(w int) *big.Rat {
	left, all := int64(0), int64(0)
	for _, j := range s.flows[w] {
		if j.run > 0 {
			if all++; j.state < 3 {
				left++
			}
		}
	}
	return new(big.Rat).Mul(s.length(w), big.NewRat(left, all))
}

// parallelism is the approximated level of parallelism of a workflow: the total run time of its tasks over the length
// of its critical path.
func (s *flowSystem) parallelism(w int) *big.Rat {
	sum := new(big.Rat)
	for _, j := range s.flows[w] {
		below := new(big.Rat)
		for _, c := range j.children {
			if r := new(big.Rat).Add(c.rank, s.meanCopy(j, c)); r.Cmp(below) > 0 {
				below = r
			}
		}
		sum.Add(sum, below.Sub(j.rank, below)) // its mean run
	}
	return sum.Quo(sum, s.length(w))
}

// slowdown is ŝ of FWP, with estimates corrected by the last m completed tasks.
func (s *flowSystem) slowdown(w, m int) *big.Rat {
	measured, estimated := int64(0), int64(0)
	for _, j := range s.done[max(0, len(s.done)-m):] {
		measured, estimated = measured+int64(s.on(j.run, j.node)), estimated+int64(s.on(j.est, j.node))
	}
	xi := big.NewRat(1, 1)
	if measured > 0 && estimated > 0 {
		xi = big.NewRat(measured, estimated)
	}
	remaining := new(big.Rat)
	for _, j := range s.flows[w] {
		if j.state < 2 && j.run > 0 && j.rank.Cmp(remaining) > 0 {
			remaining = j.rank
		}
	}
	sum := new(big.Rat).Mul(remaining, xi)
	sum.Add(sum, big.NewRat(int64(s.now-s.in.Workflows[w].Arrive), 1))
	return sum.Quo(sum, new(big.Rat).Mul(s.length(w), xi))
}

// firstOf returns the representative of the workflow whose value is the smallest, or the largest; the first of equals.
func firstOf(eligible [][]*flowTask, largest bool, value func(representative *flowTask) *big.Rat) *flowTask {
	var best *flowTask
	var least *big.Rat
	for _, jobs := range eligible {
		j := byRank(jobs, false)
		v := value(j)
		if best == nil || v.Cmp(least) < 0 && !largest || v.Cmp(least) > 0 && largest {
			best, least = j, v
		}
	}
	return best
}

// now is the oracle of a policy that decides for this instant only.
func now(choose func(s *flowSystem, eligible [][]*flowTask) *flowTask,
	waits func(s *flowSystem, j *flowTask) bool) func(Instance) []Stay {
	return func(in Instance) []Stay {
		s := newFlowSystem(in, true)
		return s.simulate(func(bool) {
			s.greedy(func(e [][]*flowTask) *flowTask { return choose(s, e) },
				func(j *flowTask) bool { return waits != nil && waits(s, j) })
		})
	}
}

// ahead is the oracle of a policy that plans ahead, see follow.
func ahead(averageSpeed bool, overrun time.Duration, strict bool, sequence func([]*flowTask) []*flowTask,
) func(Instance) []Stay {
	return func(in Instance) []Stay {
		s := newFlowSystem(in, averageSpeed)
		return s.simulate(func(arrived bool) { s.follow(arrived, overrun, strict, sequence) })
	}
}

func firstTask(_ *flowSystem, e [][]*flowTask) *flowTask { return e[0][0] }

func lowestRank(_ *flowSystem, e [][]*flowTask) *flowTask {
	return firstOf(e, false, func(j *flowTask) *big.Rat { return j.rank })
}

// onlineOracles are the oracles by policy.
var onlineOracles = map[string]func(in Instance) []Stay{
	"gbf:pick=first":      now(firstTask, nil),
	"cpp":                 now(func(_ *flowSystem, e [][]*flowTask) *flowTask { return byRank(e[0], false) }, nil),
	"owm":                 now(lowestRank, (*flowSystem).busyFinishesFirst),
	"owm:overrun=ignored": now(lowestRank, func(s *flowSystem, j *flowTask) bool { return s.finishesFirst(j, true) }),
	"owm:order=highest": now(func(_ *flowSystem, e [][]*flowTask) *flowTask {
		return firstOf(e, true, func(j *flowTask) *big.Rat { return j.rank })
	}, (*flowSystem).busyFinishesFirst),
	"fdws": now(func(s *flowSystem, e [][]*flowTask) *flowTask {
		return firstOf(e, false, func(j *flowTask) *big.Rat { return s.leftOf(j.wf) })
	}, nil),
	"hr": now(func(_ *flowSystem, e [][]*flowTask) *flowTask { return byRank(slices.Concat(e...), len(e) > 1) }, nil),
	"fwp:m=4": now(func(s *flowSystem, e [][]*flowTask) *flowTask {
		return firstOf(e, true, func(j *flowTask) *big.Rat { return s.slowdown(j.wf, 4) })
	}, nil),
	"fwp:m=4,postpone=busy": now(func(s *flowSystem, e [][]*flowTask) *flowTask {
		return firstOf(e, true, func(j *flowTask) *big.Rat { return s.slowdown(j.wf, 4) })
	}, (*flowSystem).busyFinishesFirst),
	"fwp:m=4,parallelism=factor": now(func(s *flowSystem, e [][]*flowTask) *flowTask {
		return firstOf(e, true, func(j *flowTask) *big.Rat {
			return new(big.Rat).Mul(s.slowdown(j.wf, 4), s.parallelism(j.wf))
		})
	}, nil),
	"edf": now(func(s *flowSystem, e [][]*flowTask) *flowTask {
		due := func(jobs []*flowTask) unit.Time { return cmp.Or(s.in.Workflows[jobs[0].wf].Due, unit.Never) }
		return slices.MinFunc(e, func(a, b []*flowTask) int { return cmp.Compare(due(a), due(b)) })[0]
	}, nil),
	"heft": ahead(false, longer, false, func(jobs []*flowTask) []*flowTask {
		slices.SortStableFunc(jobs, func(a, b *flowTask) int { return b.rank.Cmp(a.rank) })
		return jobs
	}),
	"wheft":                            ahead(true, 0, false, alternate),
	"wheft:overrun=soon":               ahead(true, time.Millisecond, false, alternate),
	"wheft:start=planned":              ahead(true, 0, true, alternate),
	"wheft:start=planned,overrun=soon": ahead(true, time.Millisecond, true, alternate),
}

// longer is for tasks that overrun: they are expected to run for another eighth of what they have run.
const longer = time.Duration(-1)

// follow starts what is planned, and plans all that has not started whenever a workflow arrives. Tasks that overrun are
// expected to end after so long. Strictly, nothing starts before it is planned to.
func (s *flowSystem) follow(arrived bool, overrun time.Duration, strict bool,
	sequence func([]*flowTask) []*flowTask) {
	for _, a := range s.active {
		switch { // what should have ended
		case a.till > s.now:
		case overrun >= 0:
			a.till = s.now.Add(overrun)
		default:
			a.till = s.now.Add(max(s.now.Sub(a.start.Add(a.copied))/8, time.Millisecond))
		}
	}
	if arrived {
		var jobs []*flowTask
		for w, flow := range s.flows {
			for _, j := range flow {
				if j.planned = false; s.arrived[w] && j.state < 2 && j.run > 0 {
					jobs = append(jobs, j)
				}
			}
		}
		for _, j := range sequence(jobs) {
			s.plan(j)
		}
	}
	for n := range s.free {
		// Each processor looks only at what is planned next: what is planned first has the first claim.
		var queue []*flowTask
		for _, flow := range s.flows {
			for _, j := range flow {
				if j.planned && j.state < 2 && j.node == n {
					queue = append(queue, j)
				}
			}
		}
		slices.SortStableFunc(queue, func(a, b *flowTask) int {
			return cmp.Or(cmp.Compare(a.start, b.start),
				cmp.Compare(a.group, b.group))
		})
		free := s.free[n]
		for _, j := range queue {
			if !fits(j.need, free) || strict && j.start > s.now {
				break
			}
			if free[0], free[1] = free[0]-j.need[0], free[1]-j.need[1]; j.state == 1 {
				s.begin(j, n)
			}
		}
	}
	if !strict {
		return
	}
	s.wake = unit.Never
	for _, flow := range s.flows {
		for _, j := range flow {
			if j.planned && j.state < 2 && j.start > s.now {
				s.wake = min(s.wake, j.start)
			}
		}
	}
}

// plan places a task where it is estimated to finish first, in gaps too.
func (s *flowSystem) plan(j *flowTask) {
	from := max(s.now, s.in.Workflows[j.wf].Release)
	var after func(ps []*flowTask)
	after = func(ps []*flowTask) {
		for _, p := range ps {
			switch {
			case p.run == 0:
				after(p.parents)
			case p.state < 3:
				from = max(from, p.till)
			}
		}
	}
	after(j.parents)
	best, at, end := -1, unit.Never, unit.Never
	order := 0
	for n := range s.free {
		total := capacityOf(s.in.Nodes[n])
		if !fits(j.need, total) {
			continue
		}
		var there []*flowTask
		for _, flow := range s.flows {
			for _, o := range flow {
				if o.planned {
					order = max(order, o.group+1)
				}
				if o.node == n && (o.state == 2 || o.planned && o.state < 2) {
					there = append(there, o)
				}
			}
		}
		d := s.copying(j, n) + s.on(j.est, n)
		free := func(start unit.Time) bool {
			for _, point := range append(there, &flowTask{start: start}) {
				if point.start != start && (point.start < start || point.start >= start.Add(d)) {
					continue
				}
				used := j.need
				for _, o := range there {
					if o.start <= max(point.start, start) && o.till > max(point.start, start) {
						used[0], used[1] = used[0]+o.need[0], used[1]+o.need[1]
					}
				}
				if !fits(used, total) {
					return false
				}
			}
			return true
		}
		starts := []unit.Time{from}
		for _, o := range there {
			if o.till > from {
				starts = append(starts, o.till)
			}
		}
		slices.Sort(starts)
		for _, start := range starts {
			if free(start) {
				if start.Add(d) < end {
					best, at, end = n, start, start.Add(d)
				}
				break
			}
		}
	}
	j.planned, j.node, j.start, j.till, j.group = true, best, at, end, order
}

// alternate is the sequence of WHEFT: by rank, cut where a task depends on one of the present group; in each group
// workflows take turns.
func alternate(jobs []*flowTask) (out []*flowTask) {
	slices.SortStableFunc(jobs, func(a, b *flowTask) int { return b.rank.Cmp(a.rank) })
	var group []*flowTask
	turns := func() {
		slices.SortStableFunc(group, func(a, b *flowTask) int { return a.wf - b.wf })
		for len(group) > 0 {
			var rest []*flowTask
			for i, j := range group {
				if i == 0 || group[i-1].wf != j.wf {
					out = append(out, j)
				} else {
					rest = append(rest, j)
				}
			}
			group = rest
		}
	}
	var depends func(j, on *flowTask) bool
	depends = func(j, on *flowTask) bool { // tasks without time in between do not count
		return slices.ContainsFunc(j.parents, func(p *flowTask) bool { return p == on || p.run == 0 && depends(p, on) })
	}
	for _, j := range jobs {
		if slices.ContainsFunc(group, func(o *flowTask) bool { return depends(j, o) }) {
			turns()
		}
		group = append(group, j)
	}
	turns()
	return out
}

// onlineShapes are the shapes of online policies. OWM's papers speak of processors: of nodes
// with several cores and tasks of several sizes the oracle has the reading that a node without room for the task is
// busy.
var onlineShapes = []sampled{
	{90, online(Shape{Cores: 1, Speeds: speeds, Wrong: true})},
	{40, online(Shape{Cores: 1})},
	{60, online(faulty(Shape{Cores: 1, Speeds: speeds, Wrong: true}))},
	{70, online(Shape{Sizes: true, Speeds: speeds, Wrong: true})},
	{50, online(Shape{Sizes: true, Speeds: speeds, Wrong: true, Memory: true})},
	{30, online(Shape{Sizes: true, Speeds: speeds, Wrong: true, Memory: true, Held: true, Groups: 2})},
	{40, online(faulty(Shape{Sizes: true, Speeds: speeds, Wrong: true, Memory: true, Held: true,
		Groups: 2}))},
	// speeds whose common denominator is beyond 48 bits, at which runs are rounded
	{20, Shape{NoDue: true, Speeds: []float64{0.971, 1.031, 0.709, 1.213, 1.297, 0.857}, Wrong: true,
		Cores: 1, Nodes: 6}},
}

func online(s Shape) Shape {
	s.NoDue, s.Dummies, s.Released = true, true, true
	return s
}

// gbf takes a random one of the eligible tasks of the first workflow that has any, on the fastest idle node. Which one
// that is the oracle takes from the course that it checks: one that starts at this instant on that node.
func TestGreedyBackfillingTakesAnyTaskOfTheFirstWorkflow(t *testing.T) {
	differ := func(in Instance) (string, error) {
		course, err := Simulate(in, "gbf")
		if err != nil {
			return "", err
		}
		s := newFlowSystem(in, true)
		want := s.simulate(func(bool) {
			s.greedy(func(e [][]*flowTask) *flowTask {
				for _, j := range e[0] {
					n := s.fastest(j)
					if slices.ContainsFunc(course.Stays, func(x Stay) bool {
						return x.Workflow == j.wf && x.Task == j.i && x.Node == n &&
							x.Start == s.now.Add(s.copying(j, n))
					}) {
						return j
					}
				}
				return e[0][0]
			}, nil)
		})
		return Difference(course.Stays, want, true), nil
	}
	for _, s := range greedyShapes {
		Compare(t, s.n, s.Shape, differ)
	}
}

// greedyShapes are what gbf is compared with its oracle on.
var greedyShapes = []sampled{
	{100, online(Shape{Cores: 1})},
	{100, online(faulty(Shape{Cores: 1}))},
	{100, online(Shape{Cores: 3, Speeds: speeds, Wrong: true})},
	{100, online(faulty(Shape{Cores: 3, Speeds: speeds, Wrong: true}))},
	{100, online(Shape{Sizes: true, Memory: true, Wrong: true})},
	{100, online(faulty(Shape{Sizes: true, Memory: true, Wrong: true, Held: true, Groups: 2}))},
}

// overlappedShapes are what policies that decide for this instant only are compared with their oracles on where copies
// overlap other work: a node that is promised to a task which waits for them is idle for no task that would run into
// that; other idle nodes are tried, and no task overtakes one that was chosen before.
var overlappedShapes = []sampled{
	{80, online(Shape{Cores: 1, Overlapped: true, Groups: 2})},
	{80, online(Shape{Sizes: true, Overlapped: true, Groups: 3, Speeds: speeds})},
	{80, online(Shape{Cores: 2, Overlapped: true, Groups: 2, Wrong: true, Speeds: speeds})},
	{80, online(faulty(Shape{Sizes: true, Memory: true, Overlapped: true, Groups: 2, Wrong: true}))},
}
