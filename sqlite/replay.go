package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace/shown"
)

// Replay gives the events of the run in the order in which they were appended, to rebuild its state. With the arrival
// of a workflow, and of tasks that were added to one, comes the admission, the same as was appended: the event's body
// is that of admission.Event. For other events admission is nil. An error of each ends it.
func (r *Run) Replay(ctx context.Context, each func(e planner.Event, admission *executor.Admission) error) error {
	if r.bulk != nil {
		if err := r.bulk.flush(); err != nil {
			return fmt.Errorf("log run %s: %w", r.info.Name, err)
		}
	}
	if r.bulk != nil || r.seq > 0 {
		return r.db.replay(ctx, r.id, r.info.Name, each)
	}
	// The rows to come continue from here.
	p := newProjection(nil, false)
	err := r.db.replay(ctx, r.id, r.info.Name, func(e planner.Event, a *executor.Admission) error {
		if err := p.apply(&e, a, nil); err != nil {
			return err
		}
		return each(e, a)
	})
	if err == nil {
		p.out, r.projection = r.rows, p
	}
	return err
}

// Events is Run.Replay of a run that is not to be continued. The run is given as in Find.
func (db *DB) Events(ctx context.Context, run string, each func(e planner.Event,
	admission *executor.Admission) error) error {
	id, info, err := db.runInfo(ctx, run)
	if err != nil {
		return err
	}
	return db.replay(ctx, id, info.Name, each)
}

func (db *DB) replay(ctx context.Context, id int64, run string, each func(planner.Event,
	*executor.Admission) error) error {
	last := uint64(0)
	return db.Each(ctx, func(scan Scan) error {
		var at, kind int64
		var subject sql.NullInt64
		var e planner.Event
		var body sql.RawBytes // until the next row
		if err := scan(&e.Seq, &at, &kind, &subject, &body); err != nil {
			return err
		}
		bad := func(format string, args ...any) error {
			return fmt.Errorf("read log %s: run %s, event %d: %w", db.path, run, e.Seq, fmt.Errorf(format, args...))
		}
		if e.Seq != last+1 {
			return bad("it follows event %d: some are missing, so the log was changed by hand or damaged", last)
		}
		if kind < 0 || kind > 255 {
			return bad("kind %d is not known", kind)
		}
		last, e.At = e.Seq, planner.Time(at)
		var err error
		if e.Body, err = decodeBody(planner.EventKind(kind), e.At, subject.Int64, body); err != nil {
			return bad("%w", err)
		}
		var admission *executor.Admission
		switch b := e.Body.(type) {
		case *planner.WorkflowArrived:
			if admission, err = db.arrival(ctx, id, int64(b.Workflow.ID)); err != nil {
				return bad("workflow %d: %w", b.Workflow.ID, err)
			}
		case *planner.WorkflowGrown:
			if admission, err = db.growth(ctx, id, b.Workflow, b.Task.ID); err != nil {
				return bad("task %d of workflow %d: %w", b.Task.ID, b.Workflow, err)
			}
		}
		if admission != nil {
			e.Body = admission.Event()
		}
		return each(e, admission)
	}, "SELECT seq, at_ns, kind, subject, body FROM events WHERE run = ? ORDER BY seq", id)
}

// admission reads a workflow as it was admitted, with all tasks that were added to it.
func (db *DB) admission(ctx context.Context, run, workflow int64) (whole *executor.Admission, err error) {
	var m *merger // of one to which tasks were added
	err = EachRow(ctx, db, func(blob *[]byte) error {
		a, err := decodeAdmission(*blob)
		switch {
		case err != nil:
			return fmt.Errorf("read log %s: run %d, workflow %d: %w", db.path, run, workflow, err)
		case whole == nil:
			whole = a
			return nil
		case m == nil:
			m = newMerger(whole)
		}
		m.merge(a)
		return nil
	}, "SELECT definition FROM workflows WHERE run = ?1 AND workflow = ?2 UNION ALL SELECT definition FROM (SELECT "+
		"definition FROM growths WHERE run = ?1 AND workflow = ?2 ORDER BY first_task)", run, workflow)
	if err == nil && whole == nil {
		err = db.wrap("read", sql.ErrNoRows) // it was removed meanwhile
	}
	if err == nil && m != nil {
		err = link(whole)
	}
	return whole, err
}

func (db *DB) arrival(ctx context.Context, run, workflow int64) (*executor.Admission, error) {
	return db.defined(ctx, "SELECT definition FROM workflows WHERE run = ? AND workflow = ?", run, workflow)
}

func (db *DB) defined(ctx context.Context, query string, args ...any) (*executor.Admission, error) {
	var blob []byte
	if err := db.one(ctx, query, args, &blob); err != nil {
		return nil, err
	}
	return decodeAdmission(blob)
}

// Admissions gives the workflows of a run as they were admitted, in order, with all tasks that were added. The
// run is given as in Find.
func (db *DB) Admissions(ctx context.Context, run string, each func(*executor.Admission) error) error {
	id, _, err := db.Find(ctx, run)
	if err != nil {
		return err
	}
	flows, err := RowsOf[int64](ctx, db, "SELECT workflow FROM workflows WHERE run = ? ORDER BY workflow", id)
	for i := 0; i < len(flows) && err == nil; i++ {
		var a *executor.Admission
		if a, err = db.admission(ctx, id, flows[i]); err == nil {
			err = each(a)
		}
	}
	return err
}

// Spec is how a task of a run runs; nil if the log has not kept it.
func (db *DB) Spec(ctx context.Context, l *Life) (*executor.TaskSpec, error) {
	at, err := RowOf[struct {
		Run, Workflow int64
		Position      int
	}](ctx, db, "SELECT r.id, w.workflow, "+positionOfTask+" FROM runs r JOIN tasks t ON t.run = r.id AND t.task = ? "+
		"JOIN workflows w ON w.run = t.run AND w.workflow = t.workflow WHERE r.name = ?", l.ID, l.Run)
	if err != nil {
		return nil, err
	}
	a, err := db.admission(ctx, at.Run, at.Workflow)
	i := at.Position
	if err != nil || i >= len(a.Tasks) || a.Tasks[i].Name != l.Task {
		return nil, err
	}
	info, err := db.Info(ctx, l.Run)
	l.GPUs, l.Besides = float64(a.Arrived.Tasks[i].Need[unit.GPU])/unit.WholeGPU, info.Besides(a)(i)
	return a.Tasks[i], err
}

// Besides returns a function that names needs and limits of a task of an admission, besides cores, memory, block I/O
// and time.
func (r *RunInfo) Besides(a *executor.Admission) func(i int) []string {
	var set struct{ Tokens []executor.Token } // that the run has
	_ = json.Unmarshal(r.Settings, &set)
	return func(i int) (names []string) {
		t := &a.Arrived.Tasks[i]
		if n := t.Need[unit.GPU]; n == unit.WholeGPU {
			names = append(names, "1 GPU")
		} else if n > 0 {
			names = append(names, fmt.Sprintf("%g GPUs", float64(n)/unit.WholeGPU))
		}
		for k, x := range set.Tokens[:min(len(set.Tokens), planner.MostTokens)] {
			if n := t.Tokens[k]; n > 0 {
				names = append(names, fmt.Sprintf("%d of %s", n, x.Name))
			}
		}
		if a.Tasks[i].Network {
			names = append(names, "a network")
		}
		if n := a.Tasks[i].DiskLimit; n > 0 {
			names = append(names, "at most "+shown.Size(n)+" on disk")
		}
		return names
	}
}

// Info reads the RunInfo that CreateRun was given. The run is given as in Find.
func (db *DB) Info(ctx context.Context, run string) (RunInfo, error) {
	_, info, err := db.runInfo(ctx, run)
	return info, err
}

// Snapshot is the log as it was at the first query of the snapshot: later writes do not show. It holds space in the
// log's files until it is closed.
type Snapshot struct {
	Reader
	tx *sql.Tx
}

// Snapshot opens a snapshot.
func (db *DB) Snapshot(ctx context.Context) (*Snapshot, error) {
	tx, err := db.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, db.wrap("read", err)
	}
	return &Snapshot{Reader{tx, db.Failed}, tx}, nil
}

// Close ends the snapshot.
func (s *Snapshot) Close() { _ = s.tx.Rollback() } // it wrote nothing

// Flow is a workflow of a run that no other continues.
type Flow struct {
	ID          planner.WorkflowID
	Name, Label string
	State       string
	Source      string       // the file that it was read from, "-" for standard input
	Ended       planner.Time // 0 if it has not
}

// Flows lists the workflows of a run that have arrived, in order. The run is given as in Find.
func (db *DB) Flows(ctx context.Context, run string) ([]Flow, error) {
	return rowsOfRun[Flow](ctx, db, run, "SELECT workflow, name, label, state, source, coalesce(ended_ns, 0) FROM "+
		"workflows WHERE run = ? AND state <> 'continued' ORDER BY workflow")
}

// Admission is a workflow of a run as it was admitted. The run is given as in Find.
func (db *DB) Admission(ctx context.Context, run string, w planner.WorkflowID) (*executor.Admission, error) {
	id, _, err := db.Find(ctx, run)
	if err != nil {
		return nil, err
	}
	return db.admission(ctx, id, int64(w))
}

// positionOfTask is the position of task t in the admission of its workflow w.
const positionOfTask = "iif(EXISTS (SELECT 1 FROM growths g WHERE g.run = w.run AND g.workflow = w.workflow), " +
	"(SELECT count(*) FROM tasks o WHERE o.run = t.run AND o.workflow = t.workflow AND o.task >= w.first_task AND " +
	"o.task < t.task), t.task - w.first_task)"
