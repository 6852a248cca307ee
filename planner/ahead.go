package planner

import (
	"cmp"
	"slices"
	"time"

	"gantry/planner/unit"
)

// Upcoming is a start that can be foreseen.
type Upcoming struct {
	Task TaskID
	Node NodeID
	Hold unit.Vector
	At   Time // estimated
	// Guessed: the policy plans no place for it. Node is where it would start if the policy took the fastest node that
	// has room by then.
	Guessed bool
}

// Foresight has the bounds of Foresee.
type Foresight struct {
	Lead   time.Duration // how long before it starts a task is of interest
	Most   int           // as many tasks as that
	Memory int64         // bytes that each of them takes on its node until it starts
	Guess  bool          // also tasks for which the policy plans no place
}

// Look is the result of Foresee.
type Look struct {
	Starts []Upcoming // by time, then task
	Next   Time       // when to look again if nothing happens before; unit.Never if there is no need
}

// scanned is how many children of a task Foresee looks at: a task may have very many, and few are of interest.
const scanned = 256

// Foresee returns starts that are due soon: of tasks whose parents have ended or are under way. It is empty while ready
// tasks wait and no core is idle, as every preparation then takes from those. It changes nothing that a policy sees.
func (p *Planner) Foresee(now Time, f Foresight) Look {
	look := Look{Next: unit.Never}
	if f.Most <= 0 || !p.idleCore() && p.wanting() {
		return look
	}
	l := foreseer{p: p, d: p.draft, s: p.state, now: now, horizon: now.Add(f.Lead), Foresight: f, look: &look}
	for n := range l.s.active {
		for seg := range l.d.Planned(NodeID(n)) {
			if seg.Start > l.horizon {
				look.Next = min(look.Next, seg.Start.Add(-f.Lead))
				break
			}
			l.consider(seg.Task)
		}
		for _, a := range l.s.active[n] {
			att := l.s.attempts.at(a)
			end, ok := l.ends(att.Task)
			if !ok {
				continue
			}
			if end > l.horizon {
				look.Next = min(look.Next, end.Add(-f.Lead))
				continue
			}
			children := l.s.tasks.of(att.Task).Children
			for _, c := range children[:min(len(children), scanned)] {
				l.consider(c)
			}
		}
	}
	slices.SortFunc(look.Starts, func(a, b Upcoming) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Task, b.Task))
	})
	look.Starts = slices.CompactFunc(look.Starts, func(a, b Upcoming) bool { return a.Task == b.Task })
	look.Starts = l.housed(look.Starts)
	return look
}

// idleCore reports whether a node has a core that nothing holds.
func (p *Planner) idleCore() bool {
	for n := range p.state.capacity {
		core := min(1000, p.state.capacity[n][unit.CPU])
		if core > 0 && p.draft.Free(NodeID(n))[unit.CPU] >= core {
			return true
		}
	}
	return false
}

// wanting reports whether a ready task does not start now.
func (p *Planner) wanting() bool {
	for _, t := range p.state.ready {
		if seg, ok := p.draft.Of(t); !ok || !seg.due {
			return true
		}
	}
	return false
}

type foreseer struct {
	Foresight
	p            *Planner
	d            *Draft
	s            *State
	now, horizon Time
	look         *Look
}

// ends returns when a task that is under way is estimated to end: now, if nothing is known of its runtime.
func (l *foreseer) ends(t TaskID) (Time, bool) {
	live := l.s.lives.at(t)
	if live.phase != Starting && live.phase != Running || l.s.attempts.at(live.attempt).Leaving != 0 {
		return 0, false
	}
	seg, ok := l.d.Of(t)
	if !ok || seg.Kind != Active {
		return 0, false
	}
	if seg.End <= l.now || l.p.est.Run(l.s.tasks.of(t), &l.s.platform.Nodes[seg.Node]).Source == SourceDefault {
		return l.now, true
	}
	return seg.End, true
}

// consider adds a task that is due within the horizon.
func (l *foreseer) consider(t TaskID) {
	if phase := l.s.lives.at(t).phase; phase != Waiting && phase != Ready {
		return
	}
	task := l.s.tasks.of(t)
	at := max(l.now, l.s.workflows.at(task.Workflow).Release)
	if at > l.horizon {
		return
	}
	var freed map[NodeID]unit.Vector
	for _, p := range task.Parents {
		if l.s.lives.at(p).phase == Done {
			continue
		}
		end, ok := l.ends(p)
		if !ok || end > l.horizon {
			return
		}
		at = max(at, end)
		if freed == nil {
			freed = map[NodeID]unit.Vector{}
		}
		a := l.s.attempts.at(l.s.lives.at(p).attempt)
		freed[a.Node] = freed[a.Node].Add(a.Hold)
	}
	u := Upcoming{Task: t, At: at}
	if seg, ok := l.d.Of(t); ok && seg.Kind == Planned {
		if seg.due || seg.Start > l.horizon {
			return
		}
		u.Node, u.Hold, u.At = seg.Node, seg.Hold, max(at, seg.Start)
	} else if u.Hold = task.Need; !l.Guess || ok || l.s.lives.at(t).phase == Ready {
		return
	} else if u.Guessed, u.Node = len(l.s.capacity) > 1, l.roomiest(task.Need, freed); u.Node == None {
		return
	}
	l.look.Starts = append(l.look.Starts, u)
}

// roomiest returns the fastest node, the lowest id among equals, that has room once the freed resources are free.
func (l *foreseer) roomiest(need unit.Vector, freed map[NodeID]unit.Vector) NodeID {
	best := l.d.Fastest(need)
	speed := func(n NodeID) float64 { return l.s.platform.Nodes[n].Speed }
	for n := range l.s.capacity { // in order, as the map is not
		n := NodeID(n)
		v, ok := freed[n]
		if ok && need.Fits(l.d.Free(n).Add(v)) &&
			(best == None || speed(n) > speed(best) || speed(n) == speed(best) && n < best) {
			best = n
		}
	}
	return best
}

// housed returns the first tasks, as many as are wanted, for whose waiting their nodes have memory.
func (l *foreseer) housed(starts []Upcoming) []Upcoming {
	taken := map[NodeID]int64{}
	kept := starts[:0]
	for _, u := range starts {
		free := l.d.Free(u.Node)[unit.Memory]
		if free != unit.Unlimited && taken[u.Node]+l.Memory > free {
			continue
		}
		taken[u.Node] += l.Memory
		if kept = append(kept, u); len(kept) == l.Most {
			break
		}
	}
	return kept
}
