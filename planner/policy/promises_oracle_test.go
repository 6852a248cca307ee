package policy_test

import (
	"cmp"
	"slices"
	"time"

	"gantry/planner/unit"
)

// Where copies overlap other work, nodes are promised to tasks that wait for what they read. This is what the oracle of
// policies for tenants knows of that.

// give begins a task on a node or, where its inputs are elsewhere, promises it the node from when they are there.
func (s *poolSim) give(t *poolTask, n int) {
	at := s.there(t, n)
	if at == s.now {
		s.begin(t, n)
		return
	}
	t.promised, t.node, t.from = true, n, at
	t.till = at.Add(s.expected(t, n))
	s.count(t, +1)
	s.ready = slices.DeleteFunc(s.ready, func(o *poolTask) bool { return o == t })
	s.parked = slices.DeleteFunc(s.parked, func(o *poolTask) bool { return o == t })
	s.promises = append(s.promises, t)
	for _, f := range t.inputs() {
		if !slices.Contains(s.holds[f], n) {
			s.coming[poolCopy{f, n}] = s.arrival(f, n)
		}
	}
}

// expected is how long a task is estimated to stay on a node that has its inputs.
func (s *poolSim) expected(t *poolTask, n int) time.Duration {
	was := t.node
	t.node = n
	ran := s.before(t, t.est)
	t.node = was
	if left := s.on(t, n, t.est) - ran; left > 0 {
		return s.bringing(t, n) + left
	}
	return s.bringing(t, n) + max(time.Millisecond, ran/8)
}

// there is when what a task reads can be on a node.
func (s *poolSim) there(t *poolTask, n int) unit.Time {
	at := s.now
	if s.overlapped {
		for _, f := range t.inputs() {
			if !slices.Contains(s.holds[f], n) {
				at = max(at, s.arrival(f, n))
			}
		}
	}
	return at
}

// arrival is when the output of a task that is done comes to a node, if its copy begins now at the latest.
func (s *poolSim) arrival(f *poolTask, n int) unit.Time {
	if at, ok := s.coming[poolCopy{f, n}]; ok {
		return at
	}
	best := f.size
	for _, m := range s.holds[f] {
		best = min(best, s.in.between(f.size, m, n))
	}
	return s.now.Add(best)
}

// promisedOn lists to whom a node is promised, by planned start, then in the order in which they were promised it.
func (s *poolSim) promisedOn(n int) (out []*poolTask) {
	for _, t := range s.promises {
		if t.node == n {
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(a, b *poolTask) int { return cmp.Compare(a.from, b.from) })
	return out
}

// beside is what is free on a node beside all that it is promised to.
func (s *poolSim) beside(n int) [2]int64 {
	free := s.nodes[n].free
	for _, t := range s.promisedOn(n) {
		free = [2]int64{free[0] - t.need[0], free[1] - t.need[1]}
	}
	return free
}

// isIdle reports whether a node has room for a task now, and the task takes nothing from those that the node is
// promised to. One of them that is late claims its room.
func (s *poolSim) isIdle(t *poolTask, n int) bool {
	free, promised := s.nodes[n].free, s.promisedOn(n)
	for _, p := range promised {
		if p.from <= s.now {
			free = [2]int64{free[0] - p.need[0], free[1] - p.need[1]}
		}
	}
	return fits(t.need, free) && (len(promised) == 0 || s.fitsFrom(t, n, s.there(t, n)))
}

// fitsFrom reports whether a node is estimated to have room for a task from an instant on.
func (s *poolSim) fitsFrom(t *poolTask, n int, from unit.Time) bool {
	if len(s.promisedOn(n)) == 0 {
		return fits(t.need, s.nodes[n].free)
	}
	until := from.Add(s.expected(t, n))
	room := func(at unit.Time) bool {
		used := t.need
		for _, r := range s.running {
			if r.node == n && at < s.end(r) {
				used = [2]int64{used[0] + r.need[0], used[1] + r.need[1]}
			}
		}
		for _, p := range s.promisedOn(n) {
			if p != t && p.from <= at && at < p.till {
				used = [2]int64{used[0] + p.need[0], used[1] + p.need[1]}
			}
		}
		return fits(used, s.nodes[n].total)
	}
	return room(from) && !slices.ContainsFunc(s.promisedOn(n), func(p *poolTask) bool {
		return p != t && p.from > from && p.from < until && !room(p.from)
	})
}

// keepPromises begins tasks whose inputs have come, on each node in the order of their planned starts, or before those
// if they take nothing from others.
func (s *poolSim) keepPromises() {
	if !s.overlapped {
		return
	}
	for _, r := range s.running {
		r.believed = s.end(r)
	}
	for n := range s.nodes {
		free := s.nodes[n].free
		for _, t := range s.promisedOn(n) {
			late, ready := t.from <= s.now, s.there(t, n) == s.now && fits(t.need, free)
			if ready && (late || s.fitsFrom(t, n, s.now)) {
				s.begin(t, n)
			} else if !late {
				continue
			}
			free = [2]int64{free[0] - t.need[0], free[1] - t.need[1]}
		}
	}
}

// overlappedTenants are what policies for tenants are compared with their oracle on where copies overlap other work.
var overlappedTenants = []sampled{
	{80, Shape{Overlapped: true, Groups: 2, Sizes: true, Memory: true, Tenants: 3, Dummies: true,
		Released: true}},
	{80, Shape{Overlapped: true, Groups: 2, Sizes: true, Tenants: 3, Speeds: speeds}},
	{40, Shape{Overlapped: true, Groups: 2, Sizes: true, Memory: true, Tenants: 4, Wrong: true}},
	{40, faulty(Shape{Overlapped: true, Groups: 2, Sizes: true, Memory: true, Tenants: 4, Wrong: true})},
}
