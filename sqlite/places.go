package sqlite

import (
	"database/sql/driver"

	"gantry/planner"
)

// places follows the preemptions of a run and its checkpoints, and forgets those of tasks that have ended.
type places struct {
	chains  map[planner.TaskID]chain             // of tasks that have a checkpoint
	leaving map[planner.AttemptID]planner.Vacate // ordered to leave their place, or frozen
	away    map[planner.TaskID]planner.AttemptID // tasks that left their place, and the attempt that did
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
		map[planner.TaskID]planner.AttemptID{}}
}

// step is a change of the rows of suspensions of an attempt.
type step int

const (
	ordered   step = iota // with the number of the event, the instant and the way
	leaves                // takes effect: with the instant and the work that was lost
	returns               // ends: with the instant and the work that was lost, NULL for what that was before
	overtaken             // does not take effect
)

var steps = [...]string{
	ordered: "INSERT OR REPLACE INTO suspensions(run, attempt, seq, ordered_ns, how) VALUES (?,?,?,?,?)",
	leaves:  "UPDATE suspensions SET since_ns = ?3, lost_ns = ?4 WHERE run = ?1 AND attempt = ?2 AND since_ns IS NULL",
	returns: "UPDATE suspensions SET until_ns = ?3, lost_ns = coalesce(?4, lost_ns) " +
		"WHERE run = ?1 AND attempt = ?2 AND since_ns IS NOT NULL AND until_ns IS NULL",
	overtaken: "DELETE FROM suspensions WHERE run = ?1 AND attempt = ?2 AND since_ns IS NULL",
}

// suspension changes the rows of an attempt.
func (t *tables) suspension(s step, a planner.AttemptID, values ...driver.Value) error {
	return t.exec(steps[s], append([]driver.Value{int64(a)}, values...)...)
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
		p.leaving[a] = how
		if err := out.suspension(ordered, a, int64(ev.Seq), int64(ev.At), how.String()); err != nil {
			return err
		}
	}
	return nil
}

// resumed takes in that a frozen attempt continues.
func (p *places) resumed(out *tables, ev *planner.Event, a planner.AttemptID) error {
	delete(p.leaving, a)
	return out.suspension(returns, a, int64(ev.At), int64(0))
}

// started takes in that an attempt of t runs, perhaps the next one of a task that had left its place.
func (p *places) started(out *tables, ev *planner.Event, t planner.TaskID) error {
	a, ok := p.away[t]
	if !ok {
		return nil
	}
	delete(p.away, t)
	return out.suspension(returns, a, int64(ev.At), nil)
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
		return l, out.suspension(leaves, b.Attempt, int64(ev.At), l.lost)
	}
	if err := out.suspension(overtaken, b.Attempt); err != nil || how != planner.Suspend {
		return l, err
	}
	return l, out.suspension(returns, b.Attempt, int64(ev.At), l.lost)
}
