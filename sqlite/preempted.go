package sqlite

import (
	"database/sql/driver"
	"errors"
	"time"

	"github.com/mattn/go-sqlite3"

	"gantry/planner"
)

// preempted keeps the rows of suspensions, and what checkpoints keep of tasks. It remembers what is not over.
type preempted struct {
	run     int64
	chains  map[planner.TaskID]chain             // of tasks that have a checkpoint
	leaving map[planner.AttemptID]planner.Vacate // ordered to leave their place, or frozen
	away    map[planner.TaskID]planner.AttemptID // tasks that left their place, and the attempt that did

	ordered, since, until, overtaken *update
}

// chain is what the checkpoint of a task has: the fraction done, and how long that ran.
type chain struct {
	done float64
	ran  int64
}

// tally is what an attempt did with its task's checkpoint.
type tally struct {
	before chain
	kept   float64
	lost   int64
	moved  int64
}

// tallyColumns are the columns of a tally.
const tallyColumns = "done, before_ns, kept, lost_ns, moved_bytes"

func (l *tally) values(v []driver.Value) []driver.Value {
	fraction := func(f float64) driver.Value {
		if f == 0 {
			return nil
		}
		return f
	}
	return append(v, fraction(l.before.done), known(l.before.ran, l.before.done > 0), fraction(l.kept), l.lost, l.moved)
}

func (p *preempted) prepare(conn *sqlite3.SQLiteConn, run int64) error {
	p.run = run
	p.forget()
	for _, q := range []struct {
		up    **update
		query string
	}{
		{&p.ordered, "INSERT OR REPLACE INTO suspensions(run, attempt, seq, ordered_ns, how) VALUES (?, ?, ?, ?, ?)"},
		{&p.since, "UPDATE suspensions SET since_ns = ?, lost_ns = ? WHERE run = ? AND attempt = ? AND since_ns IS NULL"},
		{&p.until, "UPDATE suspensions SET until_ns = ?, lost_ns = coalesce(?, lost_ns) WHERE run = ? AND attempt = ? AND since_ns IS NOT NULL AND until_ns IS NULL"},
		{&p.overtaken, "DELETE FROM suspensions WHERE run = ? AND attempt = ? AND since_ns IS NULL"},
	} {
		var err error
		if *q.up, err = newUpdate(conn, q.query); err != nil {
			return err
		}
	}
	return nil
}

func (p *preempted) updates() []*update {
	return []*update{p.ordered, p.since, p.until, p.overtaken}
}

func (p *preempted) forget() {
	p.chains, p.leaving, p.away = map[planner.TaskID]chain{}, map[planner.AttemptID]planner.Vacate{}, map[planner.TaskID]planner.AttemptID{}
}

// load reads what is remembered from the log; taskOf has the task of every attempt.
func (p *preempted) load(each func(query string, row func([]driver.Value)) error, taskOf []planner.TaskID) error {
	p.forget()
	outcomes := map[string]planner.Outcome{}
	for _, o := range planner.Outcomes() {
		outcomes[o.String()] = o
	}
	ways := map[string]planner.Vacate{}
	for _, v := range []planner.Vacate{planner.Suspend, planner.Requeue, planner.Checkpoint} {
		ways[v.String()] = v
	}
	return errors.Join(
		each("SELECT task, outcome, kept, ran_ns FROM attempts WHERE run = ? AND outcome <> 'ok' ORDER BY attempt", func(v []driver.Value) {
			kept, _ := v[2].(float64)
			p.tally(planner.TaskID(integer(v[0])), &planner.AttemptExited{Outcome: outcomes[text(v[1])], Kept: kept, Ran: time.Duration(integer(v[3]))})
		}),
		each("SELECT attempt, how, since_ns IS NOT NULL FROM suspensions WHERE run = ? AND until_ns IS NULL", func(v []driver.Value) {
			a, how := planner.AttemptID(integer(v[0])), ways[text(v[1])]
			if integer(v[2]) != 0 && how != planner.Suspend {
				p.away[taskOf[a]] = a
			} else {
				p.leaving[a] = how
			}
		}),
	)
}

// tally folds the end of an attempt into the chain of its task, by the rules of planner.State.
func (p *preempted) tally(t planner.TaskID, b *planner.AttemptExited) tally {
	was, ran := p.chains[t], int64(b.Ran)
	l := tally{before: was, kept: b.Kept, moved: int64(b.Usage.MovedBytes)}
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
func (p *preempted) planned(ev *planner.Event, orders []planner.Order) error {
	for i := range orders {
		how := orders[i].Kind.Vacates()
		if how == 0 {
			continue
		}
		p.leaving[orders[i].Attempt] = how
		if err := p.ordered.exec(p.run, int64(orders[i].Attempt), int64(ev.Seq), int64(ev.At), how.String()); err != nil {
			return err
		}
	}
	return nil
}

// frozen takes in that an attempt was suspended.
func (p *preempted) frozen(ev *planner.Event, a planner.AttemptID) error {
	return p.since.exec(int64(ev.At), int64(0), p.run, int64(a))
}

// thawed takes in that an attempt goes on.
func (p *preempted) thawed(ev *planner.Event, a planner.AttemptID) error {
	delete(p.leaving, a)
	return p.until.exec(int64(ev.At), int64(0), p.run, int64(a))
}

// started takes in that an attempt of t runs, perhaps the next one of a task that had left its place.
func (p *preempted) started(ev *planner.Event, t planner.TaskID) error {
	a, ok := p.away[t]
	if !ok {
		return nil
	}
	delete(p.away, t)
	return p.until.exec(int64(ev.At), nil, p.run, int64(a))
}

// exited takes in the end of an attempt of t, which may have been ordered to leave its place, or was frozen.
func (p *preempted) exited(ev *planner.Event, t planner.TaskID, b *planner.AttemptExited) (tally, error) {
	l := p.tally(t, b)
	how, ok := p.leaving[b.Attempt]
	if !ok {
		return l, nil
	}
	delete(p.leaving, b.Attempt)
	switch {
	case how != planner.Suspend && b.Outcome == planner.Preempted:
		p.away[t] = b.Attempt
		return l, p.since.exec(int64(ev.At), l.lost, p.run, int64(b.Attempt))
	case how != planner.Suspend:
		return l, p.overtaken.exec(p.run, int64(b.Attempt))
	}
	return l, errors.Join(p.overtaken.exec(p.run, int64(b.Attempt)), p.until.exec(int64(ev.At), l.lost, p.run, int64(b.Attempt)))
}

func text(v driver.Value) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}
