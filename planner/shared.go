package planner

import (
	"slices"
	"time"

	"gantry/planner/unit"
)

// wire names a link: its groups, the lower one first.
type wire [2]GroupID

func (p *Platform) wire(a, b NodeID) wire {
	g, h := p.Nodes[a].Group, p.Nodes[b].Group
	return wire{min(g, h), max(g, h)}
}

// Share has the copies on a link share its bandwidth, each an equal part of it.
func (p *Platform) Share(a, b GroupID) {
	if p.Shared == nil {
		p.Shared = make([][]bool, len(p.Groups))
	}
	for _, ends := range [...][2]GroupID{{a, b}, {b, a}} {
		if p.Shared[ends[0]] == nil {
			p.Shared[ends[0]] = make([]bool, len(p.Groups))
		}
		p.Shared[ends[0]][ends[1]] = true
	}
}

// SharedLink returns the number of the shared link between two nodes; false if theirs is not shared.
func (p *Platform) SharedLink(a, b NodeID) (link [2]GroupID, ok bool) {
	w := p.wire(a, b)
	return w, a != b && len(p.Shared) > 0 && p.Shared[w[0]] != nil && p.Shared[w[0]][w[1]]
}

// crowd has the copies that are under way on shared links: those of an attempt that is starting, one at a time, count
// once on each link that it uses.
type crowd struct {
	on       map[wire]int
	attempts map[AttemptID][]wire
	files    map[copyKey]wire
}

func newCrowd(p *Platform) *crowd {
	if p.Shared == nil {
		return nil
	}
	return &crowd{map[wire]int{}, map[AttemptID][]wire{}, map[copyKey]wire{}}
}

// stages counts the copies of an attempt that was ordered to start.
func (s *State) stages(a AttemptID) {
	if s.crowd == nil {
		return
	}
	att := s.attempts.at(a)
	for _, f := range s.tasks.of(att.Task).Inputs {
		from := s.View().Nearest(f, att.Node)
		if from == None {
			continue
		}
		if w, ok := s.platform.SharedLink(from, att.Node); ok && !slices.Contains(s.crowd.attempts[a], w) {
			s.crowd.attempts[a] = append(s.crowd.attempts[a], w)
			s.crowd.on[w]++
		}
	}
}

// staged counts the copies of an attempt that has its inputs, or ended, no longer.
func (s *State) staged(a AttemptID) {
	if s.crowd == nil {
		return
	}
	for _, w := range s.crowd.attempts[a] {
		s.crowd.on[w]--
	}
	delete(s.crowd.attempts, a)
}

// copies counts a copy that was ordered, until it has appeared.
func (s *State) copies(f FileID, from, to NodeID) {
	if s.crowd == nil {
		return
	}
	if w, ok := s.platform.SharedLink(from, to); ok {
		s.crowd.files[copyKey{f, to}] = w
		s.crowd.on[w]++
	}
}

func (s *State) copied(f FileID, to NodeID) {
	if s.crowd == nil {
		return
	}
	if w, ok := s.crowd.files[copyKey{f, to}]; ok {
		s.crowd.on[w]--
		delete(s.crowd.files, copyKey{f, to})
	}
}

// MoveTime estimates how long the copy of size bytes from one node to another takes that begins now: on a shared link
// beside those under way, which are taken to last as long (3DSF, equation 6).
func (v View) MoveTime(size unit.Bytes, from, to NodeID) time.Duration {
	d := v.s.platform.MoveTime(size, from, to)
	if v.s.crowd == nil {
		return d
	}
	w, ok := v.s.platform.SharedLink(from, to)
	if n := v.s.crowd.on[w]; ok && n > 0 {
		_, latency := v.s.platform.Link(v.s.platform.Nodes[from].Group, v.s.platform.Nodes[to].Group)
		d = latency + (d-latency)*time.Duration(n+1)
	}
	return d
}
