package policy_test

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"gantry/planner/unit"
)

// This oracle allocates tasks over several processors of one cluster as Wang, MOWS, chapter 3, says, phase by phase. It
// shares no code with the planner: it sorts the whole queue again and finds what is in use from all tasks whenever it
// asks.

// rigidTask is a task of several processors.
type rigidTask struct {
	wf, i             int
	need              [2]int64        // millicores, bytes
	run, est          []time.Duration // by cluster
	copies            time.Duration
	parents, children []*rigidTask // tasks without time left out
	links             []*rigidTask // parents as the workflow has them
	none              bool         // takes no time
	task              *Task
	bad               int // attempts that ended so
	rank              *big.Rat
	state             rigidState
	became            unit.Time // eligible: when its last parent ended, or its workflow was released
	after             bool      // it was a parent that ended
	entered           bool
	node              int
	start, till       unit.Time // estimated or planned stay
	given             int       // order of allocation
	ordered           unit.Time // of the present attempt
	at, began         unit.Time // when its program began, and would have if it had not been frozen in between
	end               unit.Time // of its program
	number            int       // of the attempt
	done              time.Duration
	doneOn            int           // cluster of which done is, and where the checkpoint lies; -1: none
	ran               time.Duration // of a frozen task: before it was frozen
	frozen            bool
	times             int       // preempted
	finish            unit.Time // estimated, when remaining times were found
	on                int
}

type rigidState int

const (
	isWaiting   rigidState = iota
	isQueued               // eligible, or preempted: wants a place
	isAllocated            // has a place ahead
	isRunning
	isDone
	isFailed // or never runs
)

// rigidSim is online workflow management in one combination of phases.
type rigidSim struct {
	in                                               Instance
	prioritize, order, rearrange, allocate, preempts string

	now       unit.Time
	flows     [][]*rigidTask
	arrived   []bool
	remaining []time.Duration
	stays     []Stay
	attempts  int
	allocated int
	offPlan   []bool
	fresh     []*rigidTask // entered at this instant
	news      bool         // a task ended or left, or a workflow arrived
	sketch    []rigidUse   // what the queue reserves
}

type rigidUse struct {
	node       int
	start, end unit.Time
	need       [2]int64
}

type rigidPlace struct {
	node       int
	start, end unit.Time
}

var noPlace = rigidPlace{node: -1}

func newRigidSim(in Instance, phases []string) *rigidSim {
	s := &rigidSim{in: in, prioritize: phases[0], order: phases[1], rearrange: phases[2], allocate: phases[3],
		preempts: phases[4], arrived: make([]bool, len(in.Workflows)), remaining: make([]time.Duration,
			len(in.Workflows)),
		offPlan: make([]bool, len(in.Nodes))}
	for w := range in.Workflows {
		var flow []*rigidTask
		for i := range in.Workflows[w].Tasks {
			flow = append(flow, newRigidTask(in, w, i, flow))
		}
		for _, t := range slices.Backward(flow) {
			s.rank(t)
		}
		s.flows = append(s.flows, flow)
	}
	return s
}

func newRigidTask(in Instance, w, i int, flow []*rigidTask) *rigidTask {
	x := &in.Workflows[w].Tasks[i]
	t := &rigidTask{wf: w, i: i, need: [2]int64{x.Cores, x.Memory}, copies: x.Copy, none: x.Run == 0, task: x,
		node: -1, doneOn: -1}
	for n := range in.Nodes {
		if x.On != nil {
			t.run, t.est = append(t.run, x.On[n]), append(t.est, x.EstimatesOn()[n])
			continue
		}
		t.run = append(t.run, time.Duration(float64(x.Run)/in.Nodes[n].Speed))
		t.est = append(t.est, time.Duration(float64(x.Estimate())/in.Nodes[n].Speed))
	}
	for _, p := range x.Parents {
		t.links = append(t.links, flow[p])
	}
	t.parents = beyond(t.links)
	for _, p := range t.parents {
		if !t.none {
			p.children = append(p.children, t)
		}
	}
	return t
}

// rank is the mean run over the clusters that are wide enough, and the largest of what the children have and the mean
// copy between two clusters (chapter 3; Topcuoglu, Hariri and Wu 2002, equation 8).
func (s *rigidSim) rank(t *rigidTask) {
	sum, n := new(big.Rat), int64(0)
	for k := range s.in.Nodes {
		if fits(t.need, capacityOf(s.in.Nodes[k])) {
			sum.Add(sum, big.NewRat(int64(t.est[k]), 1))
			n++
		}
	}
	best := new(big.Rat)
	for _, c := range t.children {
		r := c.rank
		if slices.Contains(c.links, t) && len(s.in.Nodes) > 1 {
			r = new(big.Rat).Add(r, big.NewRat(int64(t.copies), 1))
		}
		if r.Cmp(best) > 0 {
			best = r
		}
	}
	t.rank = sum.Add(sum.Quo(sum, big.NewRat(n, 1)), best)
}

// beyond returns tasks, and instead of those without time what comes before them.
func beyond(tasks []*rigidTask) (out []*rigidTask) {
	for _, t := range tasks {
		if t.none {
			out = append(out, beyond(t.links)...)
		} else {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *rigidTask) int { return a.i - b.i })
	return slices.Compact(out)
}

// tasks returns all that take time and are in one of the states.
func (s *rigidSim) tasks(is ...rigidState) (out []*rigidTask) {
	for _, flow := range s.flows {
		for _, t := range flow {
			if !t.none && slices.Contains(is, t.state) {
				out = append(out, t)
			}
		}
	}
	return out
}

func (s *rigidSim) fits(t *rigidTask, n int) bool {
	return fits(t.need, capacityOf(s.in.Nodes[n])) && !(t.frozen && n != t.node)
}

// part is what the checkpoint of t has of a run.
func (s *rigidSim) part(run time.Duration, t *rigidTask) time.Duration {
	if t.doneOn < 0 {
		return 0
	}
	q := new(big.Rat).Mul(big.NewRat(int64(t.done), int64(t.run[t.doneOn])), big.NewRat(int64(run), 1))
	q.Add(q, big.NewRat(1, 2))
	return time.Duration(new(big.Int).Quo(q.Num(), q.Denom()).Int64())
}

// move is how long the checkpoint of t is on its way to a cluster.
func (s *rigidSim) move(t *rigidTask, n int) time.Duration {
	if t.doneOn >= 0 && t.doneOn != n && !t.frozen {
		return s.in.Checkpoint
	}
	return 0
}

// stay is how long t is estimated to be on a cluster, its checkpoint brought along.
func (s *rigidSim) stay(t *rigidTask, n int) time.Duration {
	if t.frozen {
		ran := t.ran + s.part(t.est[n], t)
		return max(t.est[n]-ran, ran/8, time.Millisecond)
	}
	return s.move(t, n) + t.est[n] - s.part(t.est[n], t)
}

// data is when the inputs of an eligible task are on a cluster: outputs are copied to all as soon as they are written.
func (s *rigidSim) data(t *rigidTask, n int) unit.Time {
	at := s.now
	for _, p := range t.parents {
		if slices.Contains(t.links, p) && p.copies > 0 && p.node != n && !t.frozen {
			at = max(at, p.end.Add(p.copies))
		}
	}
	return at
}

// uses are all stays on a cluster.
func (s *rigidSim) uses(n int) (out []rigidUse) {
	for _, t := range s.tasks(isRunning, isAllocated) {
		if t.node == n {
			out = append(out, rigidUse{n, t.start, t.till, t.need})
		}
	}
	for _, u := range s.sketch {
		if u.node == n {
			out = append(out, u)
		}
	}
	return out
}

// earliest is the first instant at which need is free for d.
func (s *rigidSim) earliest(n int, need [2]int64, d time.Duration, from unit.Time) unit.Time {
	uses := s.uses(n)
	starts := []unit.Time{from}
	for _, u := range uses {
		if u.end > from {
			starts = append(starts, u.end)
		}
	}
	slices.Sort(starts)
	for _, at := range starts {
		if s.room(n, uses, need, at, at.Add(d)) {
			return at
		}
	}
	panic("it never fits")
}

func (s *rigidSim) room(n int, uses []rigidUse, need [2]int64, from, to unit.Time) bool {
	points := []unit.Time{from}
	for _, u := range uses {
		if u.start > from && u.start < to {
			points = append(points, u.start)
		}
	}
	for _, at := range points {
		used := need
		for _, u := range uses {
			if u.start <= at && at < u.end {
				used[0], used[1] = used[0]+u.need[0], used[1]+u.need[1]
			}
		}
		if !fits(used, capacityOf(s.in.Nodes[n])) {
			return false
		}
	}
	return true
}

// free is what is really free on a cluster.
func (s *rigidSim) free(n int) [2]int64 {
	free := capacityOf(s.in.Nodes[n])
	for _, t := range s.tasks(isRunning) {
		if t.node == n {
			free[0], free[1] = free[0]-t.need[0], free[1]-t.need[1]
		}
	}
	return free
}

func (s *rigidSim) has(t *rigidTask, n int) bool { return s.fits(t, n) && fits(t.need, s.free(n)) }

// bestOf is the place where t is estimated to finish first: then the earlier start, then the lower cluster.
func (s *rigidSim) bestOf(t *rigidTask, rooms bool) rigidPlace {
	best := noPlace
	for n := range s.in.Nodes {
		if !s.fits(t, n) || rooms && !s.has(t, n) {
			continue
		}
		p := s.placeOn(t, n)
		if best.node < 0 || p.end < best.end || p.end == best.end && p.start < best.start {
			best = p
		}
	}
	return best
}

func (s *rigidSim) placeOn(t *rigidTask, n int) rigidPlace {
	d := s.stay(t, n)
	at := s.earliest(n, t.need, d, s.data(t, n))
	return rigidPlace{n, at, at.Add(d)}
}

// soonest is where t has processors first, then where it ends first.
func (s *rigidSim) soonest(t *rigidTask) rigidPlace {
	best := noPlace
	for n := range s.in.Nodes {
		if !s.fits(t, n) {
			continue
		}
		d := s.stay(t, n)
		at := s.earliest(n, t.need, d, s.now)
		if best.node < 0 || at < best.start || at == best.start && at.Add(d) < best.end {
			best = rigidPlace{n, at, at.Add(d)}
		}
	}
	return best
}

// choose is Adaptive Allocation or All-EFT, while some cluster has room now.
func (s *rigidSim) choose(t *rigidTask) rigidPlace {
	rooms := 0
	for n := range s.in.Nodes {
		if s.has(t, n) {
			rooms++
		}
	}
	if rooms == 0 {
		return noPlace
	}
	return s.bestOf(t, s.allocate == "aa" && rooms > 1)
}

// give allocates t.
func (s *rigidSim) give(t *rigidTask, p rigidPlace) {
	s.allocated++
	room := fits(t.need, s.free(p.node))
	t.state, t.node, t.start, t.till, t.given = isAllocated, p.node, p.start, p.end, s.allocated
	if p.start == s.now && room {
		s.begin(t)
	}
}

// begin starts t where it is allocated.
func (s *rigidSim) begin(t *rigidTask) {
	n := t.node
	t.till, t.start, t.state = s.now.Add(t.till.Sub(t.start)), s.now, isRunning
	if t.frozen {
		t.frozen = false
		t.began = s.now.Add(-t.ran)
	} else {
		t.ordered, t.number = s.now, s.attempts
		s.attempts++
		t.began = s.now.Add(s.move(t, n))
		t.at = t.began
	}
	run := t.run[n] - s.part(t.run[n], t)
	if t.task.Bad(t.bad) {
		run /= 2
	}
	t.end = t.began.Add(run)
}

// ended takes in how the attempt of a task ended.
func (s *rigidSim) ended(t *rigidTask) {
	s.offPlan[t.node] = s.offPlan[t.node] || t.till != s.now
	s.stays = append(s.stays, Stay{Workflow: t.wf, Task: t.i, Node: t.node, Start: t.at, End: t.end})
	switch {
	case t.bad < t.task.Lost: // it is made again, from its checkpoint unless it was to blame
		t.bad++
		t.state = isQueued
		if t.task.Exits {
			t.done, t.doneOn = 0, -1
		}
		s.fresh = append(s.fresh, t)
	case t.task.Fail:
		t.fail()
	default:
		t.state = isDone
	}
}

// fail ends a task and all below it, which never run.
func (t *rigidTask) fail() {
	t.state = isFailed
	for _, c := range t.children {
		c.fail()
	}
}

// queue is the waiting queue in its order.
func (s *rigidSim) queue(single bool) []*rigidTask {
	q := slices.DeleteFunc(s.tasks(isQueued), func(t *rigidTask) bool { return !t.entered })
	slices.SortFunc(q, func(a, b *rigidTask) int {
		switch s.order {
		case "fcfs":
			if a.became != b.became {
				return cmp.Compare(a.became, b.became)
			}
		case "swf":
			if x, y := s.remaining[a.wf], s.remaining[b.wf]; x != y {
				return cmp.Compare(x, y)
			}
		case "rank-hybd":
			if c := a.rank.Cmp(b.rank); c != 0 && single {
				return -c
			} else if c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(a.wf, b.wf), b.rank.Cmp(a.rank), cmp.Compare(a.i, b.i))
	})
	return q
}

// single reports whether all tasks of the queue are of one workflow.
func (s *rigidSim) single() bool {
	flows := map[int]bool{}
	for _, t := range s.queue(false) {
		flows[t.wf] = true
	}
	return len(flows) == 1
}

// byRank are the tasks of a workflow that take time by rank, the highest first.
func (s *rigidSim) byRank(w int) []*rigidTask {
	sorted := slices.DeleteFunc(slices.Clone(s.flows[w]), func(t *rigidTask) bool { return t.none })
	slices.SortStableFunc(sorted, func(a, b *rigidTask) int { return b.rank.Cmp(a.rank) })
	return sorted
}

// enter lets tasks into the queue: all that are eligible, or those of a workflow by rank, each once all above it have
// entered.
func (s *rigidSim) enter() {
	for w := range s.flows {
		for _, t := range s.byRank(w) {
			if s.prioritize == "cpws" && t.state == isWaiting {
				break
			}
			if t.state == isQueued && !t.entered {
				t.entered = true
				s.fresh = append(s.fresh, t)
			}
		}
	}
}

// eret is the remaining execution time of a workflow that has the system to itself, beside what runs or is allocated
// (section 3-1, figure 3-2).
func (s *rigidSim) eret(w int) time.Duration {
	defer func() { s.sketch = nil }()
	last := s.now
	for _, t := range s.byRank(w) {
		switch t.state {
		case isDone, isFailed:
			t.finish, t.on = t.end, t.node
			continue
		case isRunning, isAllocated:
			t.finish, t.on = max(s.now, t.till), t.node
		default:
			best := noPlace
			for n := range s.in.Nodes {
				if !s.fits(t, n) {
					continue
				}
				from := max(s.now, s.in.Workflows[w].Release)
				for _, p := range t.parents {
					at := p.finish
					if slices.Contains(t.links, p) && p.copies > 0 && p.on != n && !t.frozen {
						at = at.Add(p.copies)
					}
					from = max(from, at)
				}
				d := s.stay(t, n)
				at := s.earliest(n, t.need, d, from)
				if end := at.Add(d); best.node < 0 || end < best.end || end == best.end && at < best.start {
					best = rigidPlace{n, at, end}
				}
			}
			s.sketch = append(s.sketch, rigidUse{best.node, best.start, best.end, t.need})
			t.finish, t.on = best.end, best.node
		}
		last = max(last, t.finish)
	}
	return last.Sub(s.now)
}

// instead finds the running task of t's workflow with a lower rank whose place t takes, and that place (section 3-3,
// figure 3-10). Only what was ordered to start before t was eligible may be preempted for it.
func (s *rigidSim) instead(t *rigidTask) (rigidPlace, *rigidTask) {
	if s.preempts == "never" {
		return noPlace, nil
	}
	victims := slices.DeleteFunc(s.tasks(isRunning), func(v *rigidTask) bool {
		return v.wf != t.wf || v.rank.Cmp(t.rank) >= 0 || !t.after || v.ordered >= t.became || v.at > s.now ||
			v.start == s.now // it continues in this very round
	})
	slices.SortFunc(victims, func(a, b *rigidTask) int { return a.number - b.number })
	least := s.bestOf(t, false)
	for _, v := range victims {
		if v.times >= 3 || (v.till-s.now)*20 <= v.till-v.start || !s.fits(t, v.node) {
			continue
		}
		v.state = isDone // as if it were not there
		p := s.placeOn(t, v.node)
		v.state = isRunning
		if p.end < least.end {
			return p, v
		}
	}
	return noPlace, nil
}

// vacate takes the place of v away: it stands in the queue at once.
func (s *rigidSim) vacate(v *rigidTask) {
	v.times++
	s.offPlan[v.node] = true
	v.state = isQueued
	s.fresh = append(s.fresh, v)
	if s.in.Checkpoint == 0 {
		v.frozen, v.ran = true, s.now.Sub(v.began)
		return
	}
	s.stays = append(s.stays, Stay{Workflow: v.wf, Task: v.i, Node: v.node, Start: v.at, End: s.now})
	if v.began < s.now {
		v.done, v.doneOn = s.part(v.run[v.node], v)+s.now.Sub(v.began), v.node
	}
}

// spare reports whether some cluster has processors for one of the queue.
func (s *rigidSim) spare(q []*rigidTask) bool {
	for _, t := range q {
		for n := range s.in.Nodes {
			if fits(t.need, s.free(n)) {
				return true
			}
		}
	}
	return false
}

// starts has allocated tasks start: when it is their time and, where a task of the cluster ended or left otherwise than
// estimated, before, if that takes nothing from others that are allocated.
func (s *rigidSim) starts() {
	for n := range s.in.Nodes {
		there := slices.DeleteFunc(s.tasks(isAllocated), func(t *rigidTask) bool { return t.node != n })
		slices.SortFunc(there, func(a, b *rigidTask) int {
			return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.given, b.given))
		})
		for _, t := range there {
			if !fits(t.need, s.free(n)) || s.data(t, n) > s.now {
				continue
			}
			if t.start > s.now {
				t.state = isQueued
				early := s.offPlan[n] && s.room(n, s.uses(n), t.need, s.now, s.now.Add(t.till.Sub(t.start)))
				t.state = isAllocated
				if !early {
					continue
				}
			}
			s.begin(t)
		}
	}
}

// round is what happens at an instant, once all events of it are known. It reports whether a task was preempted: then
// there is another round, in which that task stands in the queue.
func (s *rigidSim) round() bool {
	s.starts()
	s.enter()
	if len(s.fresh) == 0 && !s.news { // the queue is as it was, and nothing has become free
		return false
	}
	s.news = false
	urgent := map[*rigidTask]bool{} // they may find room by preemption
	for _, t := range s.fresh {
		urgent[t] = s.preempts != "never" && slices.ContainsFunc(s.tasks(isRunning), func(r *rigidTask) bool {
			return r.wf == t.wf && r.at <= s.now && r.start < s.now
		})
	}
	s.fresh = nil
	single := s.single()
	passed := map[*rigidTask]bool{}
	vain := func() bool {
		for _, is := range urgent {
			if is {
				return false
			}
		}
		return !s.spare(s.queue(single))
	}
	next := func() *rigidTask {
		if len(passed) == 0 {
			single = s.single()
		}
		if vain() {
			return nil
		}
		for _, t := range s.queue(single) {
			if !passed[t] {
				return t
			}
		}
		return nil
	}
	defer func() { s.sketch = nil }()
	// try allocates t, by preemption if that helps.
	try := func(t *rigidTask) (allocated, preempted bool) {
		delete(urgent, t)
		if p, v := s.instead(t); v != nil {
			s.vacate(v)
			s.give(t, p)
			return true, true
		}
		if p := s.choose(t); p.node >= 0 {
			s.give(t, p)
			return true, false
		}
		return false, false
	}
	switch s.rearrange {
	case "none":
		for t := next(); t != nil; t = next() {
			if ok, preempted := try(t); !ok || preempted {
				return s.halt(preempted)
			}
		}
	case "easy":
		for t := next(); t != nil; t = next() {
			if len(passed) == 0 {
				ok, preempted := try(t)
				if preempted {
					return true
				}
				if !ok { // it is the one that nothing may delay
					p := s.soonest(t)
					s.sketch = append(s.sketch, rigidUse{p.node, p.start, p.end, t.need})
					passed[t] = true
				}
				continue
			}
			delete(urgent, t)
			if p := s.choose(t); p.node >= 0 && s.has(t, p.node) && p.start == s.data(t, p.node) {
				s.give(t, p)
				continue
			}
			passed[t] = true
		}
	case "conservative":
		q := s.queue(single)
		if vain() {
			return false
		}
		earliest := map[*rigidTask]unit.Time{}
		for _, t := range q {
			earliest[t] = unit.Never
			var tried []rigidUse
			for n := range s.in.Nodes {
				if s.fits(t, n) {
					p := s.placeOn(t, n)
					tried = append(tried, rigidUse{n, p.start, p.end, t.need})
					earliest[t] = min(earliest[t], p.start)
				}
			}
			s.sketch = append(s.sketch, tried...)
		}
		s.sketch = nil
		slices.SortStableFunc(q, func(a, b *rigidTask) int { return cmp.Compare(earliest[a], earliest[b]) })
		for _, t := range q {
			if vain() {
				return false
			}
			if ok, preempted := try(t); !ok || preempted {
				return s.halt(preempted)
			}
		}
	case "priority":
		for t := next(); t != nil; t = next() {
			delete(urgent, t)
			if p, v := s.instead(t); v != nil {
				s.vacate(v)
				s.give(t, p)
				return true
			}
			p, from := s.soonest(t), s.now
			if s.allocate == "all-eft" {
				p = s.bestOf(t, false)
				from = s.data(t, p.node)
			}
			if p.start > from || !s.has(t, p.node) {
				s.sketch = append(s.sketch, rigidUse{p.node, p.start, p.end, t.need})
				passed[t] = true
				continue
			}
			s.give(t, s.choose(t))
		}
	}
	return false
}

// halt ends a round in which a task has to wait: frozen ones behind it go on where they can. After a preemption they
// wait for the next round.
func (s *rigidSim) halt(preempted bool) bool {
	if preempted {
		return true
	}
	for _, t := range s.tasks(isQueued) {
		if t.frozen {
			if p := s.bestOf(t, false); s.has(t, p.node) && p.start == s.now {
				s.give(t, p)
			}
		}
	}
	return false
}

// simulate runs the instance.
func (s *rigidSim) simulate() []Stay {
	for s.advance() {
		for _, t := range s.tasks(isRunning) {
			if t.end <= s.now {
				s.news = true
				s.ended(t)
			}
		}
		for _, t := range s.tasks(isRunning) { // what should have ended continues for an eighth of what it has run
			if t.till <= s.now {
				ran := s.part(t.est[t.node], t) + max(0, s.now.Sub(t.began))
				t.till = s.now.Add(max(t.est[t.node]-ran, ran/8, time.Millisecond))
			}
		}
		arrived := false
		for w, flow := range s.flows {
			if s.in.Workflows[w].Arrive > s.now {
				continue
			}
			arrived = arrived || !s.arrived[w]
			s.arrived[w], s.news = true, s.news || arrived
			if s.in.Workflows[w].Release > s.now {
				continue
			}
			for _, t := range flow {
				if !t.none && t.state == isWaiting &&
					!slices.ContainsFunc(t.parents, func(p *rigidTask) bool { return p.state != isDone }) {
					t.state, t.became, t.after = isQueued, s.now, len(t.parents) > 0
				}
			}
		}
		if arrived {
			s.starts() // what is allocated has its place first
			for w := range s.flows {
				if s.arrived[w] {
					s.remaining[w] = s.eret(w)
				}
			}
		}
		for s.round() {
		}
	}
	return s.stays
}

// advance goes to the next instant at which something happens; false if there is none.
func (s *rigidSim) advance() bool {
	next := unit.Never
	see := func(at unit.Time) {
		if at > s.now {
			next = min(next, at)
		}
	}
	for w := range s.flows {
		if !s.arrived[w] {
			next = min(next, s.in.Workflows[w].Arrive)
		} else {
			see(s.in.Workflows[w].Release)
		}
	}
	for _, t := range s.tasks(isRunning) {
		see(t.end)
		see(t.at)
	}
	for _, t := range s.tasks(isAllocated) {
		see(t.start)
		see(s.data(t, t.node))
	}
	for _, t := range s.tasks(isDone) { // copies arrive
		for _, c := range t.children {
			for n := range s.in.Nodes {
				if t.copies > 0 && slices.Contains(c.links, t) && n != t.node && s.fits(c, n) {
					see(t.end.Add(t.copies))
				}
			}
		}
	}
	s.now = next
	return next < unit.Never
}

// The policies of the thesis, by their phases.
var rigidPhases = map[string]string{
	"owm-mp":             "cpws,rank-hybd,none,aa,never",
	"owm-mp+swf":         "cpws,swf,none,aa,never",
	"owm-mp+backfilling": "cpws,rank-hybd,priority,aa,never",
	"owm-mp+preemptive":  "sws,rank-hybd,none,aa,lower-rank",
	"owm-mp+all-eft":     "cpws,rank-hybd,none,all-eft,never",
	"mows":               "sws,swf,priority,all-eft,lower-rank",
}

// rigidSpecs are these, and combinations of phases.
func rigidSpecs() string {
	specs := slices.Sorted(maps.Keys(rigidPhases))
	for _, order := range []string{"fcfs", "rank-hybd", "swf"} {
		for _, arrange := range []string{"none", "easy", "conservative", "priority"} {
			for _, rest := range []string{"cpws % aa,never", "sws % all-eft,never", "sws % aa,lower-rank",
				"cpws % all-eft,lower-rank"} {
				specs = append(specs, "pipeline:"+strings.Replace(rest, " % ", ","+order+","+arrange+",", 1))
			}
		}
	}
	return strings.Join(specs, " ")
}

// rigidShapes are what the mixed-parallel policies are compared with their oracle on; combinations on a third.
var rigidShapes = []sampled{
	{18, Shape{NoDue: true, Nodes: 3, Sizes: true, Dummies: true, Released: true, Clusters: true,
		Speeds: speeds}},
	{9, Shape{NoDue: true, Nodes: 3, Sizes: true, Dummies: true, Released: true, Clusters: true,
		Speeds: speeds, Wrong: true}},
	{9, faulty(Shape{NoDue: true, Nodes: 3, Sizes: true, Dummies: true, Released: true, Clusters: true,
		Speeds: speeds, Wrong: true})},
	{9, Shape{NoDue: true, Nodes: 1, Sizes: true, Dummies: true, Released: true, Clusters: true,
		Speeds: speeds, Wrong: true}},
	{9, Shape{NoDue: true, Nodes: 3, Sizes: true, Memory: true, Dummies: true, Released: true,
		Clusters: true, Speeds: speeds, Wrong: true}},
}
