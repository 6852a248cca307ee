package policy_test

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// This oracle serves the jobs of several tenants as 3DSF, section 7 (PDSonQueue, Algorithm 5) and section 5 (DRF,
// Algorithm 1) say, one decision at a time, from lists that are sorted again for each. It shares no code with the
// planner. Where input data counts see serveBatch.

// pool is a rule set of the family.
type pool struct {
	urgent bool // tasks of deadline jobs first, by the latest start at which the job can still end in time
	edf    bool // or by deadline
	ahead  bool // jobs that cannot end in time keep their place
	split  bool // queues by dominant resource: a task without room holds back those of its queue only
	room   bool // regular tasks are suspended for urgent ones
	leave  bool // or leave their node with a checkpoint, and continue on any
	shares int  // tenants by least share: 0 none, 1 dominant, 2 the next one, -1 memory
	stop   bool // a regular task without room holds back all
	turns  bool // nodes take turns

	classes bool    // queues are of classes and not of tenants
	capped  bool    // no queue gets more than its part
	parts   []int64 // of the queues; the last is that of those beyond, nil: 1

	data  *dataRules // where tasks are put whose data is large; nil: like others
	looks bool       // with turns: of the tasks of a job a node takes one whose data it has
}

// rulesOf are the rules of a policy.
func rulesOf(spec string) pool {
	name, params, _ := strings.Cut(spec, ":")
	p := map[string]pool{"pds": {urgent: true, split: true, room: true}, "dla": {split: true}, "drf": {shares: 1},
		"3dsf":     {urgent: true, split: true, room: true, shares: 1},
		"capacity": {shares: -1, turns: true, looks: true}}[name]
	var data dataRules
	for _, param := range strings.Split(params, ",") {
		key, word, _ := strings.Cut(param, "=")
		n, _ := strconv.Atoi(word)
		switch key {
		case "order":
			p.edf = word == "edf"
		case "late":
			p.ahead = word == "ahead"
		case "misfit":
			p.stop = word == "stop"
		case "room":
			p.room, p.leave = word != "never", word == "leave"
		case "level":
			p.shares = n
		case "queues":
			p.classes = word == "class"
		case "by":
			p.shares = 1
		case "shares":
			for _, part := range strings.Split(word, "/") {
				n, _ := strconv.ParseInt(part, 10, 64)
				p.parts = append(p.parts, n)
			}
		case "elastic":
			p.capped = word == "no"
		case "data":
			p.looks = word != "ignored"
		case "large":
			data.large, p.data = time.Duration(n)*time.Second, &data
		case "batch":
			data.batch = n
		case "hops":
			data.hops = n
		}
	}
	return p
}

type poolTask struct {
	wf, i            int
	need             [2]int64 // millicores, bytes
	run, est, bound  time.Duration
	children         []*poolTask
	waits            int // for this many parents
	class            planner.Class
	due              unit.Time
	node             int
	start, ran       time.Duration // last begin, and time run before
	begun            unit.Time
	running, stopped bool     // stopped: suspended
	fresh            bool     // it makes room in this round: it has from the next one on
	done             *big.Rat // the part of it that a checkpoint has; nil: there is none
	kept             int      // where the checkpoint is
	eligible         bool     // it has become so
	task             *Task
	bad              int // attempts that ended so
	parents          []*poolTask
	size             time.Duration // what the copy of its output to another rack takes
	copied           time.Duration // what copies of its input took at its last begin
	promised         bool          // it waits on its node for copies that overlap other work,
	from, till       unit.Time     // and is planned to run then
	believed         unit.Time     // where they do: when it is expected to end, as often as it overruns
}

type poolNode struct {
	total, free [2]int64
	speed       float64
	rack        planner.GroupID
	closed      bool
}

type poolSim struct {
	in         Instance
	rules      pool
	nodes      []poolNode
	total      [2]int64
	now        unit.Time
	ready      []*poolTask // want a first place
	parked     []*poolTask // suspended, in that order
	running    []*poolTask
	tenant     []int // queue by workflow
	seen       int   // queues whose first job has come
	used       [][2]int64
	turn       int
	left       bool  // tasks were suspended in this round
	emptied    []int // nodes that tasks leave in this round
	stays      []Stay
	holds      map[*poolTask][]int // nodes with the output of a task
	wake       unit.Time           // when a task that waits for a node wants to be looked at
	overlapped bool                // copies overlap other work
	promises   []*poolTask         // in the order in which they were made
	coming     map[poolCopy]unit.Time
}

// poolCopy is a copy of the output of a task to a node.
type poolCopy struct {
	of *poolTask
	to int
}

func fits(need, room [2]int64) bool { return need[0] <= room[0] && need[1] <= room[1] }

func (s *poolSim) on(t *poolTask, n int, d time.Duration) time.Duration {
	return time.Duration(math.Round(float64(d) / s.nodes[n].speed))
}

// dominant returns which resource a task needs the largest part of, CPU among equals.
func (s *poolSim) dominant(t *poolTask) int {
	cpu, memory := big.NewRat(t.need[0], s.total[0]), new(big.Rat)
	if s.total[1] > 0 {
		memory = big.NewRat(t.need[1], s.total[1])
	}
	if memory.Cmp(cpu) > 0 {
		return 1
	}
	return 0
}

// share returns the part of the pool that is counted for somebody.
func (s *poolSim) share(v [2]int64) *big.Rat {
	var all []*big.Rat
	for d := range v {
		if s.total[d] > 0 && (s.rules.shares > 0 || d == 1) {
			all = append(all, big.NewRat(v[d], s.total[d]))
		}
	}
	if len(all) == 0 {
		return new(big.Rat)
	}
	slices.SortFunc(all, func(a, b *big.Rat) int { return b.Cmp(a) })
	return all[min(max(1, s.rules.shares), len(all))-1]
}

// end is when a running task is estimated to end; one that overruns continues for an eighth of what it has run.
func (s *poolSim) end(t *poolTask) unit.Time {
	switch {
	case t.promised:
		return max(t.from, s.now).Add(t.till.Sub(t.from))
	case s.overlapped && t.believed > s.now:
		return t.believed
	}
	begun, ran := t.begun.Add(t.copied), s.before(t, t.est)
	if end := begun.Add(s.on(t, t.node, t.est) - ran); end > s.now {
		return end
	}
	return s.now.Add(max(time.Millisecond, (ran+s.now.Sub(begun))/8))
}

// before is what an attempt does not do of a run, as it was done before.
func (s *poolSim) before(t *poolTask, d time.Duration) time.Duration {
	if t.done == nil {
		return t.ran
	}
	x := new(big.Rat).Mul(t.done, big.NewRat(int64(s.on(t, t.node, d)), 1))
	x.Add(x, big.NewRat(1, 2))
	return time.Duration(new(big.Int).Quo(x.Num(), x.Denom()).Int64())
}

// latest is the latest start at which a job can still end in time, if every node were free.
func latest(t *poolTask) unit.Time { return t.due - unit.Time(t.bound) }

func (s *poolSim) isUrgent(t *poolTask) bool {
	return s.rules.urgent && t.class == planner.Deadline && t.due > 0 && (s.rules.ahead || latest(t) >= s.now)
}

func (s *poolSim) begin(t *poolTask, n int) {
	if t.copied = 0; !t.stopped || s.rules.leave {
		if !s.overlapped {
			t.copied = s.copying(t, n)
		}
		t.copied += s.bringing(t, n)
		t.start = time.Duration(s.now) + t.copied
	}
	t.node, t.begun, t.running = n, s.now, true
	t.stopped = false
	for d := range t.need {
		s.nodes[n].free[d] -= t.need[d]
	}
	if !t.promised {
		s.count(t, +1)
	}
	t.promised = false
	for _, list := range []*[]*poolTask{&s.ready, &s.parked, &s.promises} {
		*list = slices.DeleteFunc(*list, func(o *poolTask) bool { return o == t })
	}
	s.running = append(s.running, t)
	t.believed = 0
	t.believed = s.end(t)
}

// bringing is how long it takes to bring the checkpoint of a task to a node.
func (s *poolSim) bringing(t *poolTask, n int) time.Duration {
	if t.done == nil {
		return 0
	}
	return s.in.between(s.in.Checkpoint, t.kept, n)
}

// count counts what a task holds for its tenant, or takes that back.
func (s *poolSim) count(t *poolTask, sign int64) {
	for d := range t.need {
		s.used[s.tenant[t.wf]][d] += sign * t.need[d]
	}
}

func (s *poolSim) leave(t *poolTask) {
	for d := range t.need {
		s.nodes[t.node].free[d] += t.need[d]
	}
	s.count(t, -1)
	t.running = false
	s.running = slices.DeleteFunc(s.running, func(o *poolTask) bool { return o == t })
}

// place returns the node for a task: the fastest with room that is kept for nobody, or the next in turn; -1 if there is
// none.
func (s *poolSim) place(t *poolTask) int {
	best := -1
	for k := range s.nodes {
		n := k
		if s.rules.turns {
			n = (s.turn + k) % len(s.nodes)
		}
		if s.open(t, n) && (best < 0 || !s.rules.turns && s.nodes[n].speed > s.nodes[best].speed) {
			best = n
		}
	}
	if best >= 0 {
		s.turn = best + 1
	}
	return best
}

// first is the first of the tasks that are not held back, in an order.
func first(tasks []*poolTask, held map[*poolTask]bool, order func(a, b *poolTask) int) *poolTask {
	var best *poolTask
	for _, t := range tasks {
		if !held[t] && (best == nil || order(t, best) < 0) {
			best = t
		}
	}
	return best
}

func byID(a, b *poolTask) int { return cmp.Or(cmp.Compare(a.wf, b.wf), cmp.Compare(a.i, b.i)) }

// turn is why a task is served next.
type turn uint8

const (
	urgentTurn turn = iota
	parkedTurn
	regularTurn
)

// upcoming is the next task to serve; nil if there is none.
func (s *poolSim) upcoming(held map[*poolTask]bool) (*poolTask, turn) {
	var urgent, regular []*poolTask
	for _, t := range s.ready {
		if s.isUrgent(t) {
			urgent = append(urgent, t)
		} else {
			regular = append(regular, t)
		}
	}
	if t := first(urgent, held, func(a, b *poolTask) int {
		if s.rules.edf {
			return cmp.Or(cmp.Compare(a.due, b.due), byID(a, b))
		}
		return cmp.Or(cmp.Compare(latest(a), latest(b)), byID(a, b))
	}); t != nil {
		return t, urgentTurn
	}
	if i := slices.IndexFunc(s.parked, func(t *poolTask) bool { return !held[t] && !t.fresh }); i >= 0 {
		return s.parked[i], parkedTurn
	}
	return s.regular(regular, held), regularTurn
}

// hold passes over a task without room, and those behind it.
func (s *poolSim) hold(t *poolTask, urgent bool, held map[*poolTask]bool) {
	for _, o := range s.ready {
		same := !s.rules.split || s.dominant(o) == s.dominant(t)
		switch {
		case urgent != s.isUrgent(o):
		case urgent && same, !urgent && s.rules.stop, !urgent && same && (s.rules.shares == 0 ||
			s.tenant[o.wf] == s.tenant[t.wf]):
			held[o] = true
		}
	}
	held[t] = true
}

// round serves tasks until nothing can begin.
func (s *poolSim) round() {
	for n := range s.nodes {
		s.nodes[n].closed = false
	}
	for _, t := range s.parked {
		if t.fresh {
			s.count(t, -1)
		}
		t.fresh = false
	}
	s.keepPromises()
	s.emptied, s.wake = s.emptied[:0], unit.Never
	held := map[*poolTask]bool{} // looked at without success in this round, or behind one that was
	for s.serve(held) {
	}
}

// has reports whether a node holds all that a task reads.
func (s *poolSim) has(t *poolTask, n int) bool {
	return !slices.ContainsFunc(t.inputs(), func(f *poolTask) bool { return !slices.Contains(s.holds[f], n) })
}

// instead is the first of the tasks like one that a node has the data of; if there is none, that task.
func (s *poolSim) instead(t *poolTask, n int, held map[*poolTask]bool) *poolTask {
	var like []*poolTask
	for _, o := range s.ready {
		if s.rules.looks && o.wf == t.wf && o.need == t.need && s.has(o, n) && s.open(o, n) {
			like = append(like, o)
		}
	}
	if s.has(t, n) || len(like) == 0 {
		return t
	}
	return first(like, held, byID)
}

// serve serves the next task; false if there is none.
func (s *poolSim) serve(held map[*poolTask]bool) bool {
	t, why := s.upcoming(held)
	if t == nil {
		return false
	}
	if why != urgentTurn {
		for _, n := range s.emptied { // who leaves continues before others get what is free there
			s.nodes[n].closed = true
		}
	}
	if why == parkedTurn && !s.rules.leave {
		if node := &s.nodes[t.node]; !node.closed && fits(t.need, node.free) && s.fitsFrom(t, t.node, s.now) {
			s.begin(t, t.node)
		} else {
			node.closed, held[t] = true, true
		}
		return true
	}
	n := s.place(t)
	switch {
	case n >= 0 && s.rules.data != nil:
		s.serveBatch(held)
	case n >= 0:
		s.give(s.instead(t, n, held), n)
	case why == parkedTurn:
		held[t] = true
		s.keep(t)
	case why == regularTurn || !s.rules.room || !s.makeRoom(t, held):
		s.hold(t, why == urgentTurn, held)
	}
	return true
}

// keep closes the node that is estimated to have room first for a task that left another.
func (s *poolSim) keep(t *poolTask) {
	best, when := -1, unit.Never
	for n := range s.nodes {
		node := &s.nodes[n]
		if node.closed || !fits(t.need, node.total) {
			continue
		}
		free := s.beside(n)
		for _, r := range s.endsOn(n) {
			if free[0], free[1] = free[0]+r.need[0], free[1]+r.need[1]; fits(t.need, free) {
				if at := s.end(r); at < when {
					best, when = n, at
				}
				break
			}
		}
	}
	if best >= 0 {
		s.nodes[best].closed = true
	}
}

// endsOn lists what runs on a node, and what it is promised to, by the time at which it is estimated to end.
func (s *poolSim) endsOn(n int) (ends []*poolTask) {
	for _, r := range s.running {
		if r.node == n {
			ends = append(ends, r)
		}
	}
	ends = append(ends, s.promisedOn(n)...)
	slices.SortStableFunc(ends, func(a, b *poolTask) int { return cmp.Compare(s.end(a), s.end(b)) })
	return ends
}

// regular is the next task of the tenant with the least share, or of the first job.
func (s *poolSim) regular(tasks []*poolTask, held map[*poolTask]bool) *poolTask {
	if s.rules.shares == 0 {
		return first(tasks, held, byID)
	}
	var best *poolTask
	for m := range s.used {
		var own []*poolTask
		for _, t := range tasks {
			if s.tenant[t.wf] == m {
				own = append(own, t)
			}
		}
		t := first(own, held, byID)
		if t == nil || s.full(m, t) {
			continue
		}
		if best == nil {
			best = t
			continue
		}
		other := s.tenant[best.wf]
		if cmp.Or(s.perPart(s.used[m], m).Cmp(s.perPart(s.used[other], other)),
			s.perPart(t.need, m).Cmp(s.perPart(best.need, other))) < 0 {
			best = t
		}
	}
	return best
}

// part is what a queue is entitled to, relative to others.
func (s *poolSim) part(m int) int64 {
	if len(s.rules.parts) == 0 {
		return 1
	}
	return s.rules.parts[min(m, len(s.rules.parts)-1)]
}

// perPart is the share of a queue over its part.
func (s *poolSim) perPart(v [2]int64, m int) *big.Rat {
	return new(big.Rat).Quo(s.share(v), big.NewRat(s.part(m), 1))
}

// full reports whether a queue that has something would get more than its part of all queues by a task.
func (s *poolSim) full(m int, t *poolTask) bool {
	if !s.rules.capped || s.used[m] == [2]int64{} {
		return false
	}
	queues := max(s.seen, len(s.rules.parts))
	if s.rules.classes {
		queues = 3
	}
	sum := int64(0)
	for k := range queues {
		sum += s.part(k)
	}
	with := [2]int64{s.used[m][0] + t.need[0], s.used[m][1] + t.need[1]}
	return s.share(with).Cmp(big.NewRat(s.part(m), sum)) > 0
}

// makeRoom lets an urgent task without room wait for what ends next, if that is in time and enough; else it
// suspends regular tasks.
func (s *poolSim) makeRoom(t *poolTask, held map[*poolTask]bool) bool {
	slack := latest(t).Sub(s.now)
	wait, soon, fit, when := -1, unit.Never, -1, unit.Never
	for n := range s.nodes {
		node := &s.nodes[n]
		if node.closed || !fits(t.need, node.total) {
			continue
		}
		ends := s.endsOn(n)
		free := s.beside(n)
		for _, r := range ends {
			free[0], free[1] = free[0]+r.need[0], free[1]+r.need[1]
			if at := s.end(r); fits(t.need, free) {
				if at == s.end(ends[0]) && at.Sub(s.now) <= slack && at < soon {
					wait, soon = n, at
				}
				if fit < 0 || at < when {
					fit, when = n, at
				}
				break
			}
		}
		if fit < 0 {
			fit = n
		}
	}
	if wait < 0 && slack >= 0 {
		if n, victims := s.victims(t); n >= 0 {
			s.left = true
			for _, v := range victims {
				ran := s.now.Sub(v.begun.Add(v.copied))
				if v.ran += ran; s.rules.leave && ran > 0 {
					if v.done == nil {
						v.done = new(big.Rat)
					}
					v.done.Add(v.done, big.NewRat(int64(ran), int64(s.on(v, v.node, v.run))))
					v.kept = v.node
				}
				v.stopped, v.fresh = true, true
				s.leave(v)
				s.count(v, +1) // until it has made room
				s.parked = append(s.parked, v)
				if s.rules.leave {
					s.stays = append(s.stays, Stay{Workflow: v.wf, Task: v.i, Node: v.node,
						Start: unit.Time(v.start), End: s.now})
				}
			}
			s.emptied = append(s.emptied, n)
			s.give(t, n)
			return true
		}
	}
	if wait < 0 {
		wait = fit
	}
	if wait < 0 {
		return false
	}
	s.nodes[wait].closed, held[t] = true, true
	return true
}

// victims are the regular tasks of one node that have to be suspended for t: low priority before high, of the same
// dominant resource before others, the newest first; on the node where the fewest of high priority are needed, then the
// fewest.
func (s *poolSim) victims(t *poolTask) (at int, best []*poolTask) {
	at = -1
	high := func(list []*poolTask) (n int) {
		for _, v := range list {
			if v.class != planner.Low {
				n++
			}
		}
		return n
	}
	for n := range s.nodes {
		node := &s.nodes[n]
		if node.closed || !fits(t.need, node.total) {
			continue
		}
		var all []*poolTask
		for _, r := range s.running {
			if r.node == n && r.class != planner.Deadline && r.begun < s.now &&
				r.begun.Add(r.copied) <= s.now {
				all = append(all, r)
			}
		}
		rank := func(v *poolTask) (k int) {
			if v.class != planner.Low {
				k = 2
			}
			if s.dominant(v) != s.dominant(t) {
				k++
			}
			return k
		}
		slices.SortFunc(all, func(a, b *poolTask) int {
			return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.start, a.start), byID(b, a))
		})
		free := s.beside(n)
		for i, v := range all {
			free[0], free[1] = free[0]+v.need[0], free[1]+v.need[1]
			if fits(t.need, free) {
				if list := all[:i+1]; at < 0 || high(list) < high(best) || high(list) == high(best) &&
					len(list) < len(best) {
					at, best = n, list
				}
				break
			}
		}
	}
	return at, best
}

// tenantsOracle returns the course of an instance.
func tenantsOracle(in Instance, rules pool) []Stay {
	s := &poolSim{in: in, rules: rules, holds: map[*poolTask][]int{}, overlapped: in.Overlapped,
		coming: map[poolCopy]unit.Time{}}
	for _, n := range in.Nodes {
		node := poolNode{total: capacityOf(n), speed: n.Speed, rack: n.Group}
		s.total[1] += n.Memory
		node.free = node.total
		s.nodes = append(s.nodes, node)
		s.total[0] += n.Cores
	}
	if slices.ContainsFunc(in.Nodes, func(n Node) bool { return n.Memory == 0 }) {
		s.total[1] = 0 // without a limit it counts for nobody
	}
	type arrival struct {
		at    unit.Time
		tasks []*poolTask
	}
	var arrivals []arrival
	numbers := map[int]int{} // tenants by their first jobs
	for w := range in.Workflows {
		flow := &in.Workflows[w]
		if _, ok := numbers[flow.Tenant]; !ok {
			numbers[flow.Tenant] = len(numbers)
		}
		if rules.classes {
			s.tenant = append(s.tenant, slices.Index([]planner.Class{planner.Deadline, planner.Regular, planner.Low},
				flow.Class))
		} else {
			s.tenant = append(s.tenant, numbers[flow.Tenant])
		}
		tasks := make([]*poolTask, len(flow.Tasks))
		for i := range flow.Tasks {
			x := &flow.Tasks[i]
			tasks[i] = &poolTask{wf: w, i: i, task: x, need: [2]int64{x.Cores, x.Memory}, run: x.Run, est: x.Estimate(),
				class: flow.Class, due: flow.Due, waits: len(x.Parents), size: x.Copy}
			for _, p := range x.Parents {
				tasks[p].children = append(tasks[p].children, tasks[i])
				tasks[i].parents = append(tasks[i].parents, tasks[p])
			}
		}
		for i := len(tasks) - 1; i >= 0; i-- {
			t, best := tasks[i], time.Duration(math.MaxInt64)
			for n := range s.nodes {
				if fits(t.need, s.nodes[n].total) {
					best = min(best, s.on(t, n, t.est))
				}
			}
			for _, c := range t.children {
				t.bound = max(t.bound, c.bound)
			}
			if t.run > 0 {
				t.bound += best
			}
		}
		at := max(flow.Arrive, flow.Release)
		if !slices.ContainsFunc(tasks, func(t *poolTask) bool { return t.run > 0 }) {
			at = flow.Arrive // nothing of it can start at its release, which is no reason to look
		}
		arrivals = append(arrivals, arrival{at, tasks})
	}
	s.used = make([][2]int64, max(3, len(numbers)))
	slices.SortStableFunc(arrivals, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	var enter func(t *poolTask)
	finish := func(t *poolTask) {
		for _, c := range t.children {
			if c.waits--; c.waits == 0 {
				enter(c)
			}
		}
	}
	enter = func(t *poolTask) {
		if t.eligible {
			return
		}
		if t.eligible = true; t.run == 0 {
			finish(t)
			return
		}
		s.ready = append(s.ready, t)
	}
	over := func(t *poolTask) unit.Time {
		whole := t.begun.Add(t.copied + s.on(t, t.node, t.run) - s.before(t, t.run))
		if !t.task.Bad(t.bad) {
			return whole
		}
		attempt := s.on(t, t.node, t.run) // what it would be if it ended well
		if t.done != nil {
			attempt -= s.before(t, t.run)
		}
		return whole - unit.Time((attempt+1)/2)
	}
	s.wake = unit.Never
	for len(arrivals)+len(s.running)+len(s.promises) > 0 || s.wake < unit.Never {
		was := s.now
		s.now = s.wake
		if len(arrivals) > 0 {
			s.now = min(s.now, arrivals[0].at)
		}
		for w := range in.Workflows { // that one arrives which may start later is a reason to look at all, too
			if at := in.Workflows[w].Arrive; at > was {
				s.now = min(s.now, at)
			}
		}
		for _, t := range s.running {
			s.now = min(s.now, over(t))
		}
		for _, at := range s.coming {
			s.now = min(s.now, at)
		}
		for f, at := range s.coming {
			if at == s.now {
				s.holds[f.of] = append(s.holds[f.of], f.to)
				delete(s.coming, f)
			}
		}
		for _, t := range slices.Clone(s.running) {
			if t.begun.Add(t.copied) <= s.now { // files are on a node once a program reads them, or has written them
				for _, f := range t.inputs() {
					s.holds[f] = append(s.holds[f], t.node)
				}
			}
			if over(t) == s.now {
				s.leave(t)
				s.stays = append(s.stays, Stay{Workflow: t.wf, Task: t.i, Node: t.node,
					Start: unit.Time(t.start), End: s.now})
				switch {
				case t.bad < t.task.Lost: // it is made again, from its checkpoint unless it was to blame
					t.bad++
					if t.ran = 0; t.task.Exits {
						t.done = nil
					}
					s.ready = append(s.ready, t)
				case !t.task.Fail:
					s.holds[t] = append(s.holds[t], t.node)
					finish(t)
				}
			}
		}
		for len(arrivals) > 0 && arrivals[0].at == s.now {
			for _, t := range arrivals[0].tasks {
				if t.run > 0 {
					s.seen = max(s.seen, s.tenant[t.wf]+1)
				}
				if t.waits == 0 {
					enter(t)
				}
			}
			arrivals = arrivals[1:]
		}
		for s.left = true; s.left; { // that tasks have left is news of its own: what waited is looked at again
			s.left = false
			s.round()
		}
	}
	Sort(s.stays)
	return s.stays
}

// tenantShapes are what policies for tenants are compared with their oracle on.
var tenantShapes = []sampled{
	{70, Shape{Sizes: true, Memory: true, Tenants: 3, Dummies: true, Released: true}},
	{70, Shape{Sizes: true, Memory: true, Tenants: 3, Speeds: speeds}},
	{30, Shape{Sizes: true, Tenants: 4, Nodes: 2, Wrong: true}},
	{40, faulty(Shape{Sizes: true, Tenants: 4, Nodes: 2, Wrong: true})},
	{40, Shape{Sizes: true, Memory: true, Tenants: 3, Speeds: speeds, Wrong: true, Dummies: true,
		Released: true, Groups: 2}},
}

// leavingShapes are those where tasks that make room leave, with a checkpoint, and continue on any node, before new
// regular tasks.
var leavingShapes = []sampled{
	{100, Shape{Sizes: true, Memory: true, Tenants: 3, Checkpoints: true}},
	{100, Shape{Sizes: true, Tenants: 3, Nodes: 2, Dummies: true, Released: true, Checkpoints: true}},
	{60, faulty(Shape{Sizes: true, Memory: true, Tenants: 3, Checkpoints: true, Wrong: true,
		Speeds: speeds, Groups: 2})},
}
