package policy_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// dataRules put tasks that read much where their data is (3DSF, section 6, DLAforBT, Algorithms 2 to 4): the next
// tasks, as many as have room, are matched to nodes that hold what they read, the idlest nodes first; one whose nodes
// are full waits for the one that is released first, if that is sooner than its data could be moved, and its deadline
// lets it; else it goes to the idlest open node, of a rack with its data before others.
type dataRules struct {
	large time.Duration // copying time on a slow link from which on the place of a task matters
	hops  int           // 0: data on the node counts, 1: in its rack, 2: anywhere
	batch int           // tasks looked at together; 0: four for each node
}

// inputs are the parents of a task that write something.
func (t *poolTask) inputs() (out []*poolTask) {
	for _, q := range t.parents {
		if q.size > 0 {
			out = append(out, q)
		}
	}
	return out
}

// copying is how long it takes to bring what a task reads to a node, one file after the other: half as long within a
// rack.
func (s *poolSim) copying(t *poolTask, to int) (sum time.Duration) {
	for _, f := range t.inputs() {
		best := f.size
		for _, from := range s.holds[f] {
			best = min(best, s.in.between(f.size, from, to))
		}
		sum += best
	}
	return sum
}

// isLarge reports whether the place of a task matters.
func (s *poolSim) isLarge(t *poolTask) bool {
	sum := time.Duration(0)
	for _, f := range t.inputs() {
		sum += f.size
	}
	return len(s.nodes) > 1 && sum > 0 && sum >= s.rules.data.large
}

// near is how much of what a task reads lies on a node, or as near to it as counts.
func (s *poolSim) near(t *poolTask, n int) (sum time.Duration) {
	for _, f := range t.inputs() {
		if slices.ContainsFunc(s.holds[f], func(m int) bool {
			return m == n || s.rules.data.hops > 1 || s.rules.data.hops == 1 && s.nodes[m].rack == s.nodes[n].rack
		}) {
			sum += f.size
		}
	}
	return sum
}

// homes are the nodes that a task fits and that hold most of what it reads.
func (s *poolSim) homes(t *poolTask) (out []int) {
	most := time.Duration(1)
	for n := range s.nodes {
		if fits(t.need, s.nodes[n].total) {
			most = max(most, s.near(t, n))
		}
	}
	for n := range s.nodes {
		if fits(t.need, s.nodes[n].total) && s.near(t, n) >= most {
			out = append(out, n)
		}
	}
	return out
}

func (s *poolSim) open(t *poolTask, n int) bool {
	return !s.nodes[n].closed && s.isIdle(t, n)
}

func (s *poolSim) idle(n int) int64 {
	return s.nodes[n].free[0] * 1_000_000 / max(1, s.nodes[n].total[0])
}

// released is when a full node is estimated to have room for a task.
func (s *poolSim) released(t *poolTask, n int) unit.Time {
	free := s.beside(n)
	if fits(t.need, free) {
		return s.now
	}
	for _, r := range s.endsOn(n) {
		if free[0], free[1] = free[0]+r.need[0], free[1]+r.need[1]; fits(t.need, free) {
			return s.end(r)
		}
	}
	return unit.Never
}

// serveBatch places the next tasks by their data. One that waits for a node holds nobody back (Algorithm 4, line 6).
func (s *poolSim) serveBatch(held map[*poolTask]bool) {
	var batch []*poolTask
	var free, needs [2]int64
	for _, n := range s.nodes {
		if !n.closed {
			free[0], free[1] = free[0]+n.free[0], free[1]+n.free[1]
		}
	}
	urgent := false
	behind := maps.Clone(held)
	for len(batch) < cmp.Or(s.rules.data.batch, 4*len(s.nodes)) {
		t, why := s.upcoming(behind)
		if t == nil {
			break
		}
		with := [2]int64{needs[0] + t.need[0], needs[1] + t.need[1]}
		if len(batch) > 0 && (why == parkedTurn || urgent != (why == urgentTurn) || s.place(t) < 0 ||
			!fits(with, free)) {
			break // none from behind one without room
		}
		batch, behind[t], needs, urgent = append(batch, t), true, with, why == urgentTurn
		s.count(t, +1) // for the next turn
		if why == parkedTurn {
			break
		}
	}
	for _, t := range batch {
		s.count(t, -1)
	}
	// Tasks of a batch may take each other's room. Then it is cut before the first that has none.
	for {
		before := s.saved(batch)
		waits, cut := s.placeBatch(batch, urgent)
		if cut < 0 {
			for t, until := range waits {
				held[t] = true
				s.wake = min(s.wake, until)
			}
			return
		}
		before()
		batch = batch[:max(1, cut)]
	}
}

// saved returns what takes back that tasks begin.
func (s *poolSim) saved(batch []*poolTask) func() {
	old := *s
	old.nodes, old.ready, old.parked = slices.Clone(s.nodes), slices.Clone(s.ready), slices.Clone(s.parked)
	old.running, old.used = slices.Clone(s.running), slices.Clone(s.used)
	old.promises, old.coming = slices.Clone(s.promises), maps.Clone(s.coming)
	var tasks []poolTask
	for _, t := range batch {
		tasks = append(tasks, *t)
	}
	return func() {
		*s = old
		for i, t := range batch {
			*t = tasks[i]
		}
	}
}

// placeBatch begins the tasks of a batch or lets them wait for a node; it returns until when these wait, and which task
// is the first without room, -1 if there is none.
func (s *poolSim) placeBatch(batch []*poolTask, urgent bool) (waits map[*poolTask]unit.Time, cut int) {
	waits = map[*poolTask]unit.Time{}
	for { // a node serves one task of a matching: what is left is matched again, by what is idle then
		weights, edges, some := make([]int64, len(s.nodes)), make([][]int, len(batch)), false
		for n := range weights {
			weights[n] = s.idle(n)
		}
		for i, t := range batch {
			if t.running || t.promised || !s.isLarge(t) {
				continue
			}
			for _, n := range s.homes(t) {
				if s.open(t, n) {
					edges[i], some = append(edges[i], n), true
				}
			}
		}
		if !some {
			break
		}
		for i, n := range matching(weights, edges) {
			if n >= 0 {
				s.give(batch[i], n)
			}
		}
	}
	for _, t := range batch {
		if !t.running && !t.promised && s.isLarge(t) {
			s.judge(t, urgent, waits)
		}
	}
	for _, t := range batch {
		if n := s.place(t); n >= 0 && !t.running && !t.promised && !s.isLarge(t) {
			s.give(t, n)
		}
	}
	return waits, slices.IndexFunc(batch, func(t *poolTask) bool { return !t.running && !t.promised && waits[t] == 0 })
}

// judge lets a task wait for a node that holds its data, or move.
func (s *poolSim) judge(t *poolTask, urgent bool, waits map[*poolTask]unit.Time) {
	home, when, racks := -1, unit.Never, map[planner.GroupID]bool{}
	for _, n := range s.homes(t) {
		racks[s.nodes[n].rack] = true
		if at := s.released(t, n); !s.nodes[n].closed && at < when {
			home, when = n, at
		}
	}
	to := -1
	for n := range s.nodes {
		if !s.open(t, n) {
			continue
		}
		if to < 0 || racks[s.nodes[n].rack] && !racks[s.nodes[to].rack] ||
			racks[s.nodes[n].rack] == racks[s.nodes[to].rack] && s.idle(n) > s.idle(to) {
			to = n
		}
	}
	switch {
	case to < 0: // others of the batch took the room
	case home >= 0 && when.Sub(s.now) < s.copying(t, to) && !(urgent && when > latest(t)):
		waits[t] = when
	default:
		s.give(t, to)
	}
}

// matching matches tasks to nodes one to one: nodes enter by weight, the lowest of equals first, as long as all that
// are in can be served; then tasks in their order as long as the nodes that are in can serve them. In that order each
// takes the heaviest node, the lowest of equals, that leaves one for every other.
func matching(weights []int64, edges [][]int) []int {
	order, all := make([]int, len(weights)), make([]int, len(edges))
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	out := make([]int, len(edges))
	for t := range all {
		all[t], out[t] = t, -1
	}
	var nodes, tasks []int
	for _, n := range order {
		if with := append(slices.Clone(nodes), n); pairs(all, with, edges) == len(with) {
			nodes = with
		}
	}
	for _, t := range all {
		if with := append(slices.Clone(tasks), t); pairs(with, nodes, edges) == len(with) {
			tasks = with
		}
	}
	for len(tasks) > 0 {
		t, others := tasks[0], tasks[1:]
		i := slices.IndexFunc(nodes, func(n int) bool {
			left := slices.DeleteFunc(slices.Clone(nodes), func(m int) bool { return m == n })
			return slices.Contains(edges[t], n) && pairs(others, left, edges) == len(others)
		})
		out[t] = nodes[i]
		tasks, nodes = others, slices.Delete(nodes, i, i+1)
	}
	return out
}

// pairs is how many of some tasks some nodes can serve, one each (Kuhn's augmenting paths).
func pairs(tasks, nodes []int, edges [][]int) (count int) {
	taskOf := map[int]int{}
	var place func(t int, seen map[int]bool) bool
	place = func(t int, seen map[int]bool) bool {
		for _, n := range nodes {
			if seen[n] || !slices.Contains(edges[t], n) {
				continue
			}
			seen[n] = true
			if u, taken := taskOf[n]; !taken || place(u, seen) {
				taskOf[n] = t
				return true
			}
		}
		return false
	}
	for _, t := range tasks {
		if place(t, map[int]bool{}) {
			count++
		}
	}
	return count
}

var localityShapes = []sampled{
	{80, Shape{Held: true, Sizes: true, Dummies: true, Released: true}},
	{80, Shape{Held: true, Groups: 2, Speeds: speeds}},
	{80, Shape{Held: true, Groups: 2, Sizes: true, Wrong: true}},
	{40, faulty(Shape{Held: true, Groups: 2, Sizes: true, Memory: true, Wrong: true, Speeds: speeds})},
}

var tenantsWithData = []sampled{
	{80, Shape{Held: true, Groups: 2, Sizes: true, Memory: true, Tenants: 3, Dummies: true, Released: true}},
	{80, Shape{Held: true, Groups: 2, Sizes: true, Tenants: 3, Speeds: speeds}},
	{40, Shape{Held: true, Groups: 2, Sizes: true, Memory: true, Tenants: 4, Wrong: true}},
	{40, faulty(Shape{Held: true, Groups: 2, Sizes: true, Memory: true, Tenants: 4, Wrong: true})},
}
