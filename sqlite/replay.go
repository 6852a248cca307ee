package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"gantry/executor"
	"gantry/planner"
)

// Replay gives the events of the run in the order in which they were appended, to rebuild its state. With the arrival of a workflow comes
// its admission, the same as was appended: the event's body is &admission.Arrived. For other events admission is nil. An error of each
// ends it.
func (r *Run) Replay(ctx context.Context, each func(e planner.Event, admission *executor.Admission) error) error {
	return r.db.replay(ctx, r.id, r.info.Name, each)
}

// Events gives what Run.Replay gives, of a run that is not to be gone on with. The run is given as in Summary.
func (db *DB) Events(ctx context.Context, run string, each func(e planner.Event, admission *executor.Admission) error) error {
	id, info, err := db.runInfo(ctx, run)
	if err != nil {
		return err
	}
	return db.replay(ctx, id, info.Name, each)
}

func (db *DB) replay(ctx context.Context, id int64, run string, each func(planner.Event, *executor.Admission) error) error {
	rows, err := db.readers.QueryContext(ctx, "SELECT seq, at_ns, kind, body, v FROM events WHERE run = ? ORDER BY seq", id)
	if err != nil {
		return db.wrap("read", err)
	}
	defer rows.Close()
	var last uint64
	for rows.Next() {
		var e planner.Event
		var kind, version int64
		var body []byte
		if err := rows.Scan(&e.Seq, (*int64)(&e.At), &kind, &body, &version); err != nil {
			return db.wrap("read", err)
		}
		bad := func(format string, args ...any) error {
			return fmt.Errorf("read log %s: run %s, event %d: %w", db.path, run, e.Seq, fmt.Errorf(format, args...))
		}
		if e.Seq != last+1 {
			return bad("it follows event %d: some are missing, so the log was changed by hand or damaged", last)
		}
		last = e.Seq
		if version < 1 || version > eventVersion {
			return bad("its body has version %d, this gantry reads up to %d: use the gantry that wrote it", version, eventVersion)
		}
		if kind < 0 || kind > 255 {
			return bad("kind %d is not known", kind)
		}
		if e.Body, err = decodeBody(planner.EventKind(kind), body); err != nil {
			return bad("%w", err)
		}
		var admission *executor.Admission
		if b, ok := e.Body.(*planner.WorkflowArrived); ok {
			if admission, err = db.admission(ctx, id, int64(b.Workflow.ID)); err != nil {
				return bad("workflow %d: %w", b.Workflow.ID, err)
			}
			e.Body = &admission.Arrived
		}
		if err := each(e, admission); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return db.wrap("read", err)
	}
	return nil
}

// admission reads a workflow as it was admitted.
func (db *DB) admission(ctx context.Context, run, workflow int64) (*executor.Admission, error) {
	var blob []byte
	err := db.readers.QueryRowContext(ctx, "SELECT definition FROM workflows WHERE run = ? AND workflow = ?", run, workflow).Scan(&blob)
	if err != nil {
		return nil, db.wrap("read", err)
	}
	a, err := decodeAdmission(blob)
	if err != nil {
		return nil, fmt.Errorf("its definition is damaged: %w", err)
	}
	return a, nil
}

// Admissions gives the workflows of a run as they were admitted, in order. The run is given as in Summary.
func (db *DB) Admissions(ctx context.Context, run string, each func(*executor.Admission) error) error {
	id, _, err := db.find(ctx, run)
	if err != nil {
		return err
	}
	flows, err := collect(ctx, db, func(rows *sql.Rows) (w int64, err error) { return w, rows.Scan(&w) },
		"SELECT workflow FROM workflows WHERE run = ? ORDER BY workflow", id)
	if err != nil {
		return err
	}
	for _, w := range flows {
		a, err := db.admission(ctx, id, w)
		if err != nil {
			return err
		}
		if err := each(a); err != nil {
			return err
		}
	}
	return nil
}

// Info reads what CreateRun was given of a run, given as in Summary.
func (db *DB) Info(ctx context.Context, run string) (RunInfo, error) {
	_, info, err := db.runInfo(ctx, run)
	return info, err
}

// Query asks the log something of one's own. It cannot write.
func (db *DB) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	rows, err := db.readers.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, db.wrap("read", err)
	}
	return rows, nil
}
