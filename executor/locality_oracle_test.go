package executor_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"gantry/executor/oracletest"
	"gantry/planner"
	"gantry/planner/unit"
)

// This oracle puts tasks where their data is as 3DSF, section 6, says (DLAforBT, Algorithms 2 to 4): the next tasks
// together, as many as have room, are matched to nodes that hold what they read, the idlest nodes first; one whose
// nodes are full waits for the one that is released first, if that is sooner than its data could be moved, else it goes
// to the idlest open node, of a rack with its data before others. It looks at everything anew for each decision.
type dlaSim struct {
	*world
	large time.Duration // copying time on a slow link from which on the place of a task matters
	hops  int
	batch int                  // tasks looked at together
	holds map[[2]int][]int     // by task: the nodes that hold its output
	until map[[2]int]unit.Time // when its stay is estimated to end
	took  map[[2]int]unit.Time // when it took its place
	wake  unit.Time
}

type dlaPlace struct {
	task  [2]int
	node  int
	waits bool // for node, until it is released
	at    unit.Time
	given bool
}

// inputs are the parents of a task that write something.
func (s *dlaSim) inputs(x [2]int) (out [][2]int) {
	for _, q := range s.task(x[0], x[1]).Parents {
		if s.task(x[0], q).Copy > 0 {
			out = append(out, [2]int{x[0], q})
		}
	}
	return out
}

func (s *dlaSim) size(f [2]int) time.Duration { return s.task(f[0], f[1]).Copy }

// move is how long the copy of a file takes: half as long within a rack.
func (s *dlaSim) move(f [2]int, from, to int) time.Duration {
	switch {
	case from == to:
		return 0
	case s.Nodes[from].Group == s.Nodes[to].Group:
		return s.size(f) / 2
	}
	return s.size(f)
}

// copying is how long it takes to bring what a task reads to a node, one file after the other.
func (s *dlaSim) copying(x [2]int, to int) (sum time.Duration) {
	for _, f := range s.inputs(x) {
		best := time.Duration(1 << 62)
		for _, from := range s.holds[f] {
			best = min(best, s.move(f, from, to))
		}
		sum += best
	}
	return sum
}

// reads is how much a task reads, and near how much of that lies on a node or as near to it as counts.
func (s *dlaSim) reads(x [2]int) (sum time.Duration) {
	for _, f := range s.inputs(x) {
		sum += s.size(f)
	}
	return sum
}

func (s *dlaSim) near(x [2]int, n int) (sum time.Duration) {
	for _, f := range s.inputs(x) {
		if slices.ContainsFunc(s.holds[f], func(m int) bool {
			return m == n || s.hops > 1 || s.hops == 1 && s.Nodes[m].Group == s.Nodes[n].Group
		}) {
			sum += s.size(f)
		}
	}
	return sum
}

// homes are the nodes that a task fits and that hold most of what it reads.
func (s *dlaSim) homes(x [2]int) (out []int) {
	most := time.Duration(1)
	for n := range s.Nodes {
		if s.task(x[0], x[1]).Cores <= s.Nodes[n].Cores {
			most = max(most, s.near(x, n))
		}
	}
	for n := range s.Nodes {
		if s.task(x[0], x[1]).Cores <= s.Nodes[n].Cores && s.near(x, n) >= most {
			out = append(out, n)
		}
	}
	return out
}

// freeCores is what is free on a node now, beside what is placed in this round.
func (s *dlaSim) freeCores(n int, placed []dlaPlace) int64 {
	free := s.Nodes[n].Cores
	for x := range s.took {
		if !s.ended[x] && s.nodeOf(x) == n {
			free -= s.task(x[0], x[1]).Cores
		}
	}
	for _, p := range placed {
		if p.given && !p.waits && p.node == n {
			free -= s.task(p.task[0], p.task[1]).Cores
		}
	}
	return free
}

func (s *dlaSim) nodeOf(x [2]int) int {
	i := slices.IndexFunc(s.stays, func(o oracletest.Stay) bool { return [2]int{o.Workflow, o.Task} == x })
	return s.stays[i].Node
}

func (s *dlaSim) open(x [2]int, n int, placed []dlaPlace) bool {
	return s.task(x[0], x[1]).Cores <= s.freeCores(n, placed)
}

func (s *dlaSim) idle(n int, placed []dlaPlace) int64 {
	return s.freeCores(n, placed) * 1_000_000 / max(1, s.Nodes[n].Cores)
}

// released is when a node is estimated to have room for a task.
func (s *dlaSim) released(x [2]int, n int, placed []dlaPlace) unit.Time {
	type end struct {
		at    unit.Time
		cores int64
	}
	var ends []end
	for o, until := range s.until {
		if s.ended[o] || s.nodeOf(o) != n {
			continue
		}
		if until <= s.now { // an overrun: an eighth of what it has run
			until = s.now.Add(max(s.now.Sub(s.startOf(o))/8, time.Millisecond))
		}
		ends = append(ends, end{until, s.task(o[0], o[1]).Cores})
	}
	for _, p := range placed {
		if p.given && !p.waits && p.node == n {
			ends = append(ends, end{s.estimatedEnd(p.task, n), s.task(p.task[0], p.task[1]).Cores})
		}
	}
	slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(a.at, b.at) })
	free := s.freeCores(n, placed)
	for _, e := range ends {
		if free += e.cores; free >= s.task(x[0], x[1]).Cores {
			return e.at
		}
	}
	return unit.Never
}

// startOf is when the program of a task began.
func (s *dlaSim) startOf(x [2]int) unit.Time {
	i := slices.IndexFunc(s.stays, func(o oracletest.Stay) bool { return [2]int{o.Workflow, o.Task} == x })
	return s.stays[i].Start
}

func (s *dlaSim) estimatedEnd(x [2]int, n int) unit.Time {
	return s.now.Add(s.copying(x, n) + s.run(s.task(x[0], x[1]).Estimate(), n))
}

// matching matches tasks to nodes one to one: nodes enter by weight, the lowest of equals first, as long as all that
// are in can be served; then tasks in their order as long as the nodes that are in can serve them (Kuhn's augmenting
// paths), each by the heaviest that is left.
func matching(weights []int64, edges [][]int) []int {
	order := make([]int, len(weights))
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	taskOf, in := map[int]int{}, map[int]bool{}
	var serve func(n int, seen map[int]bool) bool
	serve = func(n int, seen map[int]bool) bool {
		for t := range edges {
			if !slices.Contains(edges[t], n) || seen[t] {
				continue
			}
			seen[t] = true
			if m, ok := taskOf[t]; !ok || serve(m, seen) {
				taskOf[t] = n
				return true
			}
		}
		return false
	}
	for _, n := range order {
		in[n] = serve(n, map[int]bool{})
	}
	nodeOf := map[int]int{} // task by node
	var place func(t int, seen map[int]bool) bool
	place = func(t int, seen map[int]bool) bool {
		var can []int
		for _, n := range order {
			if in[n] && slices.Contains(edges[t], n) {
				can = append(can, n)
			}
		}
		for _, n := range can { // one that is left
			if _, ok := nodeOf[n]; !ok {
				nodeOf[n] = t
				return true
			}
		}
		for _, n := range can { // or one that another task can leave
			if seen[n] {
				continue
			}
			seen[n] = true
			if place(nodeOf[n], seen) {
				nodeOf[n] = t
				return true
			}
		}
		return false
	}
	out := make([]int, len(edges))
	for t := range edges {
		out[t] = -1
		place(t, map[int]bool{})
	}
	for n, t := range nodeOf {
		out[t] = n
	}
	return out
}

// place gives all tasks of a batch a place or a reason to wait; false for those without.
func (s *dlaSim) place(batch [][2]int) []dlaPlace {
	placed := make([]dlaPlace, len(batch))
	for i := range placed {
		placed[i].task = batch[i]
	}
	large := func(i int) bool {
		return len(s.Nodes) > 1 && len(s.inputs(batch[i])) > 0 && s.reads(batch[i]) >= s.large
	}
	for { // a node serves one task of a matching: what is left is matched again, by what is idle then
		weights, edges, some := make([]int64, len(s.Nodes)), make([][]int, len(batch)), false
		for n := range weights {
			weights[n] = s.idle(n, placed)
		}
		for i := range placed {
			if !placed[i].given && large(i) {
				for _, n := range s.homes(batch[i]) {
					if s.open(batch[i], n, placed) {
						edges[i], some = append(edges[i], n), true
					}
				}
			}
		}
		if !some {
			break
		}
		for i, n := range matching(weights, edges) {
			if n >= 0 {
				placed[i] = dlaPlace{task: batch[i], node: n, given: true}
			}
		}
	}
	for i := range placed {
		if !placed[i].given && large(i) {
			s.judge(&placed[i], placed)
		}
	}
	for i := range placed {
		if placed[i].given || large(i) {
			continue
		}
		best := -1
		for n := range s.Nodes {
			if s.open(batch[i], n, placed) && (best < 0 || s.Nodes[n].Speed > s.Nodes[best].Speed) {
				best = n
			}
		}
		if best >= 0 {
			placed[i].node, placed[i].given = best, true
		}
	}
	return placed
}

// judge lets a task wait for a node that holds its data, or move.
func (s *dlaSim) judge(p *dlaPlace, placed []dlaPlace) {
	home, when, racks := -1, unit.Never, map[planner.GroupID]bool{}
	for _, n := range s.homes(p.task) {
		racks[s.Nodes[n].Group] = true
		if at := s.released(p.task, n, placed); at < when {
			home, when = n, at
		}
	}
	to := -1
	for n := range s.Nodes {
		if !s.open(p.task, n, placed) {
			continue
		}
		if to < 0 || racks[s.Nodes[n].Group] && !racks[s.Nodes[to].Group] ||
			racks[s.Nodes[n].Group] == racks[s.Nodes[to].Group] && s.idle(n, placed) > s.idle(to, placed) {
			to = n
		}
	}
	switch {
	case to < 0: // others of the batch took the room
	case home >= 0 && when.Sub(s.now) < s.copying(p.task, to):
		*p = dlaPlace{task: p.task, node: home, waits: true, at: when, given: true}
	default:
		*p = dlaPlace{task: p.task, node: to, given: true}
	}
}

func (s *dlaSim) round() {
	s.wake = unit.Never
	waits := map[[2]int]bool{}
	for {
		var batch [][2]int
		free, full := int64(0), false
		for n := range s.Nodes {
			free += s.freeCores(n, nil)
		}
		s.each(func(f, i int) {
			x := [2]int{f, i}
			if _, has := s.took[x]; full || has || waits[x] || s.task(f, i).Run == 0 || !s.ready(f, i) ||
				len(batch) == s.batch {
				return
			}
			// None from behind one without room.
			full = free < s.task(f, i).Cores || !s.openAnywhere(x)
			if !full {
				free -= s.task(f, i).Cores
				batch = append(batch, x)
			}
		})
		if len(batch) == 0 {
			return
		}
		// Tasks of a batch may take each other's room. Then it is cut before the first that has none.
		placed := s.place(batch)
		for {
			cut := slices.IndexFunc(placed, func(p dlaPlace) bool { return !p.given })
			if cut < 0 {
				break
			}
			placed = s.place(batch[:max(cut, 1)])
		}
		began := false
		for _, p := range placed {
			if p.waits {
				waits[p.task] = true
				s.wake = min(s.wake, p.at)
				continue
			}
			began = true
			copied, t := s.copying(p.task, p.node), s.task(p.task[0], p.task[1])
			s.until[p.task], s.took[p.task] = s.estimatedEnd(p.task, p.node), s.now
			start := s.now.Add(copied)
			s.stays = append(s.stays, oracletest.Stay{Workflow: p.task[0], Task: p.task[1], Node: p.node, Start: start,
				End: start.Add(s.run(t.Run, p.node))})
		}
		if !began {
			return // all of them wait: a round looks no further
		}
	}
}

func (s *dlaSim) openAnywhere(x [2]int) bool {
	for n := range s.Nodes {
		if s.open(x, n, nil) {
			return true
		}
	}
	return false
}

func dlaOracle(in oracletest.Instance, s dlaSim) []oracletest.Stay {
	s.world, s.holds = newWorld(in), map[[2]int][]int{}
	s.until, s.took = map[[2]int]unit.Time{}, map[[2]int]unit.Time{}
	s.batch = cmp.Or(s.batch, 4*len(in.Nodes))
	for {
		for _, o := range s.stays { // files are on a node once they are written, or the program that reads them runs
			x := [2]int{o.Workflow, o.Task}
			if o.Start <= s.now {
				for _, f := range s.inputs(x) {
					s.holds[f] = append(s.holds[f], o.Node)
				}
			}
			if o.End <= s.now && s.task(x[0], x[1]).Copy > 0 {
				s.holds[x] = append(s.holds[x], o.Node)
			}
		}
		s.settle()
		s.round()
		if !s.next(s.wake) {
			return s.stays
		}
	}
}

// Tasks go where their data is, wait for it, or have it moved, as their oracle says.
func TestLocalityAgainstTheOracle(t *testing.T) {
	for _, c := range []struct {
		spec string
		sim  dlaSim
	}{
		{"dla:large=0", dlaSim{}},
		{"dla:large=7", dlaSim{large: 7 * time.Second}},
		{"dla:large=0,batch=1", dlaSim{batch: 1}},
		{"dla:large=0,batch=3", dlaSim{batch: 3}},
		{"dla:large=0,hops=1", dlaSim{hops: 1}},
		{"dla:large=0,hops=2", dlaSim{hops: 2}},
	} {
		t.Run(c.spec, func(t *testing.T) {
			t.Parallel()
			waited, moved := 0, 0
			for _, shape := range []oracletest.Shape{
				{Held: true, Sizes: true, Dummies: true, Released: true},
				{Held: true, Groups: 2, Speeds: []float64{0.5, 1, 1.5}},
				{Held: true, Groups: 2, Sizes: true, Wrong: true},
			} {
				oracletest.Compare(t, 80, shape, func(in oracletest.Instance) (string, error) {
					course, err := oracletest.Simulate(in, c.spec)
					if err != nil {
						return "", err
					}
					for _, n := range course.Notes {
						var to string
						if k, _ := fmt.Sscanf(n.Text, "waits for %s", &to); k == 1 {
							waited++
						} else if k, _ := fmt.Sscanf(n.Text, "moves its data to %s", &to); k == 1 {
							moved++
						}
					}
					return oracletest.Difference(course.Stays, dlaOracle(in, c.sim), true), nil
				})
			}
			if c.sim.hops < 2 && (waited < int(oracletest.Seeds(18)) || moved < int(oracletest.Seeds(18))) {
				t.Errorf("tasks wait for data %d times, and have it moved %d times", waited, moved)
			}
		})
	}
}
