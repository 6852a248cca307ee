package sqlite

import (
	"gantry/planner"
	"gantry/planner/unit"
)

// places follows the preemptions of a run and its checkpoints, and forgets those of tasks that have ended.
type places struct {
	chains  map[planner.TaskID]chain             // of tasks that have a checkpoint
	leaving map[planner.AttemptID]planner.Vacate // ordered to leave their place, or frozen
	away    map[planner.TaskID]planner.AttemptID // tasks that left their place, and the attempt that did
	open    map[planner.AttemptID][]*suspension
}

// suspension is a row of table suspensions that will change.
type suspension struct {
	attempt        planner.AttemptID
	seq            uint64
	how            planner.Vacate
	ordered, since planner.Time // since is unit.Never: it has not taken effect
	until          planner.Time // unit.Never: not yet
	lost           int64
}

// chain is the content of the checkpoint of a task: the fraction done, and how long that ran.
type chain struct {
	done float64
	ran  int64
}

// tally is the effect of an attempt on its task's checkpoint.
type tally struct {
	before chain
	kept   float64
	lost   int64
}

func newPlaces() places {
	return places{map[planner.TaskID]chain{}, map[planner.AttemptID]planner.Vacate{},
		map[planner.TaskID]planner.AttemptID{}, map[planner.AttemptID][]*suspension{}}
}

// tally folds the end of an attempt into the chain of its task, by the rules of planner.State.
func (p *places) tally(t planner.TaskID, b *planner.AttemptExited) tally {
	was, ran := p.chains[t], int64(b.Ran)
	l := tally{before: was, kept: b.Kept}
	switch {
	case b.Outcome == planner.OK:
		delete(p.chains, t)
	case b.Outcome.OfProgram():
		l.lost = was.ran + ran
		delete(p.chains, t)
	case b.Kept > was.done:
		p.chains[t] = chain{b.Kept, was.ran + ran}
	default:
		l.lost = ran
	}
	return l
}

// planned takes in the orders of a round that take places away.
func (p *places) planned(out *tables, ev *planner.Event, orders []planner.Order) error {
	for i := range orders {
		how := orders[i].Kind.Vacates()
		if how == 0 {
			continue
		}
		a := orders[i].Attempt
		s := &suspension{attempt: a, seq: ev.Seq, how: how, ordered: ev.At, since: unit.Never, until: unit.Never}
		p.leaving[a], p.open[a] = how, append(p.open[a], s)
		if err := out.putSuspension(s); err != nil {
			return err
		}
	}
	return nil
}

// left records that an attempt has left its place, and the work that was lost.
func (p *places) left(out *tables, a planner.AttemptID, at planner.Time, lost int64) error {
	for _, s := range p.open[a] {
		if s.since != unit.Never {
			continue
		}
		s.since, s.lost = at, lost
		if err := out.putSuspension(s); err != nil {
			return err
		}
	}
	return nil
}

// back ends the suspensions of an attempt that took effect.
func (p *places) back(out *tables, a planner.AttemptID, at planner.Time, lost func(*suspension)) error {
	var kept []*suspension
	for _, s := range p.open[a] {
		if s.since == unit.Never {
			kept = append(kept, s)
			continue
		}
		s.until = at
		lost(s)
		if err := out.putSuspension(s); err != nil {
			return err
		}
	}
	p.keep(a, kept)
	return nil
}

// overtaken forgets the suspensions of an attempt that never took effect.
func (p *places) overtaken(out *tables, a planner.AttemptID) error {
	var kept []*suspension
	for _, s := range p.open[a] {
		if s.since != unit.Never {
			kept = append(kept, s)
		} else if err := out.dropSuspension(s); err != nil {
			return err
		}
	}
	p.keep(a, kept)
	return nil
}

func (p *places) keep(a planner.AttemptID, open []*suspension) {
	if p.open[a] = open; len(open) == 0 {
		delete(p.open, a)
	}
}

func asItWas(*suspension) {}

// resumed takes in that a frozen attempt continues.
func (p *places) resumed(out *tables, ev *planner.Event, a planner.AttemptID) error {
	delete(p.leaving, a)
	return p.back(out, a, ev.At, func(s *suspension) { s.lost = 0 })
}

// started takes in that an attempt of t runs, perhaps the next one of a task that had left its place.
func (p *places) started(out *tables, ev *planner.Event, t planner.TaskID) error {
	a, ok := p.away[t]
	if !ok {
		return nil
	}
	delete(p.away, t)
	return p.back(out, a, ev.At, asItWas)
}

// exited takes in the end of an attempt of t, which may have been ordered to leave its place, or was frozen.
func (p *places) exited(out *tables, ev *planner.Event, t planner.TaskID, b *planner.AttemptExited) (tally, error) {
	l := p.tally(t, b)
	how, ok := p.leaving[b.Attempt]
	if !ok {
		return l, nil
	}
	delete(p.leaving, b.Attempt)
	if how != planner.Suspend && b.Outcome == planner.Preempted {
		p.away[t] = b.Attempt
		return l, p.left(out, b.Attempt, ev.At, l.lost)
	}
	if err := p.overtaken(out, b.Attempt); err != nil || how != planner.Suspend {
		return l, err
	}
	return l, p.back(out, b.Attempt, ev.At, func(s *suspension) { s.lost = l.lost })
}
