package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"gantry/planner"
)

// notArrived is of a submission that no run has any rows of: it waits, or was settled before it arrived.
func notArrived(s *Submitted) error {
	said := ""
	switch {
	case s.State == Accepted:
		return unknownf("submission %d has not arrived, so there is nothing of it yet: gantry queue says why", s.ID)
	case s.Message != "":
		said = ": " + s.Message
	}
	return unknownf("submission %d was %s before it arrived, so there is nothing of it%s", s.ID, s.State, said)
}

// Extract returns a log with one submission alone, as a run of its own: the rows of its workflow, or of its one task.
// It is found by the number of the submission as well as by the name of its run, which it keeps, as files lie below
// that. It is a copy in a directory for temporary files, which goes with Close.
func (db *DB) Extract(ctx context.Context, id int64) (_ *DB, err error) {
	s, err := db.Submitted(ctx, id)
	if err == nil && s.Workflow == planner.None {
		err = notArrived(s)
	}
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "gantry-submission-")
	if err != nil {
		return nil, fmt.Errorf("submission %d: %w", id, err)
	}
	// A directory that this process alone sees needs no care for crashes.
	out, err := Open(filepath.Join(dir, FileName), Bulk)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	out.remove, out.aliases[strconv.FormatInt(id, 10)] = dir, s.Run
	if err := out.fill(db.path, s); err != nil {
		return nil, errors.Join(fmt.Errorf("submission %d: %w", id, err), out.Close())
	}
	out.path = db.path
	return out, nil
}

// OfOne reports whether this is the log of one submission alone, as Extract returns it.
func (db *DB) OfOne() bool { return db.remove != "" }

// Submission is the number of the submission of which this is the log alone; "" of others.
func (db *DB) Submission() string {
	if db.OfOne() {
		for id := range db.aliases {
			return id
		}
	}
	return ""
}

// Save writes the log to a new file.
func (db *DB) Save(path string) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.wrap("copy", db.exec("VACUUM INTO ?", path))
}

// OpenExtract opens a copy of a log of Extract. The copy lies in a directory of its own, which Close removes.
func OpenExtract(path string, id int64) (*DB, error) {
	db, err := Open(path, ReadOnly)
	if err != nil {
		return nil, err
	}
	db.remove = filepath.Dir(path)
	run, err := RowOf[string](context.Background(), db, "SELECT name FROM runs")
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	db.aliases[strconv.FormatInt(id, 10)] = run
	return db, nil
}

// Name lets the run of a submission be found by the number of that, too. It comes before the log is asked from several
// goroutines.
func (db *DB) Name(ctx context.Context, id int64) error {
	s, err := db.Submitted(ctx, id)
	if err == nil {
		db.aliases[strconv.FormatInt(id, 10)] = s.Run
	}
	return err
}

// shownSettings are the settings of a run that its submissions may see: those that plan them. The others are the
// operator's, such as variables, directories and commands of the host.
const shownSettings = `'policy', 'seed', 'time_scale', 'size_scale', 'image', 'tokens', 'needs', 'gpus',
	'emulate', 'fit', 'strict', 'fail_fast', 'reject_late', 'startup_ns', 'startup_given', 'host_model',
	'noise', 'enforce_walltime', 'grace_ns', 'starts', 'max_output_bytes',
	'disk_bytes', 'tmp_bytes', 'reuse', 'scratch', 'retries', 'errors', 'estimator', 'predict_memory',
	'count', 'cluster', 'runtime', 'serve'`

// fill copies the rows of a submission from another log. No statement looks at more of that than the submission has:
// all is found by number, and by indexes.
func (db *DB) fill(from string, s *Submitted) error {
	if err := db.exec("ATTACH DATABASE ? AS whole", dsn(from, "mode=ro")); err != nil {
		return db.wrap("read", err)
	}
	defer db.exec("DETACH DATABASE whole")
	return db.transact(func() error {
		run, err := db.queryInt("SELECT id FROM whole.runs WHERE name = ?", s.Run)
		if err != nil {
			return err
		}
		// Without statistics SQLite takes the primary key for as good as an index: that is named where it matters.
		copyRows := func(where string, tables ...string) {
			for _, table := range tables {
				var columns string // without those that are computed
				if err == nil {
					columns, err = RowOf[string](context.Background(), db,
						"SELECT group_concat(name) FROM pragma_table_info(?)", table)
				}
				if err == nil { // both logs have the same format
					err = db.exec(fmt.Sprintf("INSERT OR IGNORE INTO main.%s(%s) SELECT %[2]s FROM whole.%[1]s %[3]s",
						table, columns, where), run)
				}
			}
		}
		workflow := fmt.Sprintf("WHERE run = ?1 AND workflow = %d", s.Workflow)
		notes := "INDEXED BY notes_by_workflow " + workflow
		copyRows("WHERE id = ?1", "runs")
		copyRows("WHERE run = ?1", "nodes", "policies")
		copyRows(workflow, "workflows", "workflow_metrics")
		if task := fmt.Sprint(s.Task); s.Task != planner.None {
			copyRows(workflow+" AND task = "+task, "submitted")
			copyRows(workflow+" AND first_task = "+task, "growths")
			copyRows(notes+" AND coalesce(task, "+task+") = "+task, "notes")
			if err == nil {
				err = db.alone(s)
			}
		} else {
			copyRows(workflow, "submitted", "growths")
			copyRows(notes, "notes")
		}
		copyRows(workflow+" AND task >= (SELECT first_task FROM main.workflows) AND task < (SELECT max(first_task + "+
			"tasks) FROM (SELECT first_task, tasks FROM main.workflows UNION ALL SELECT first_task, tasks FROM "+
			"main.growths))", "tasks")
		copyRows("WHERE run = ?1 AND image IN (SELECT image FROM main.tasks)", "images")
		// An attempt that is not the last one of its task did not end well.
		copyRows("WHERE run = ?1 AND attempt IN (SELECT attempt FROM main.tasks UNION ALL SELECT a.attempt FROM "+
			"main.tasks t CROSS JOIN whole.attempts a INDEXED BY attempts_not_ok ON a.run = ?1 AND "+
			"a.task = t.task AND a.outcome <> 'ok')",
			"attempts")
		copyRows("WHERE run = ?1 AND file IN (SELECT x.value FROM main.tasks t, json_each(t.inputs) x UNION "+
			"SELECT x.value FROM main.tasks t, json_each(t.outputs) x)", "files")
		copyRows("WHERE run = ?1 AND task IN (SELECT task FROM main.tasks)", "waits", "reuses")
		copyRows("WHERE run = ?1 AND attempt IN (SELECT attempt FROM main.attempts)", "samples", "suspensions")
		copyRows("WHERE run = ?1 AND file IN (SELECT file FROM main.files)", "replicas", "contents")
		// The last event is the clock of the run. It may be of another submission: its time alone is taken.
		copyRows("WHERE run = ?1 AND seq = (SELECT max(seq) FROM whole.events WHERE run = ?1)", "events")
		if err == nil {
			err = db.exec("UPDATE main.events SET kind = ?, subject = 0, body = '{}'", planner.KindPlanCommitted)
		}
		if err != nil {
			return err
		}
		return db.exec(`UPDATE main.runs SET exit_code = NULL, peak_disk_bytes = NULL, command = '[]',
			settings = iif(settings IS NULL, NULL, (SELECT json_group_object(s.key, json(runs.settings -> s.fullkey))
				FROM json_each(runs.settings) s WHERE s.key IN (` + shownSettings + `))),
			counts = (SELECT json_group_object(x.state, x.n) FROM (
				SELECT t.state, count(*) AS n FROM main.tasks t GROUP BY t.state
				UNION ALL SELECT 'workflows', 1) x),
			(state, ended_ns, makespan_ns) = (SELECT
				CASE WHEN w.state = 'done' THEN 'finished'
					WHEN w.state IN ('failed', 'cancelled', 'refused') THEN 'failed'
					ELSE runs.state END,
				w.ended_ns, w.ended_ns - w.arrived_ns FROM main.workflows w)`)
	})
}

// alone makes of the workflow of a single task one with that task only: the others are submissions of their own.
func (db *DB) alone(s *Submitted) error {
	grown, err := RowsOf[[]byte](context.Background(), &db.own, "SELECT definition FROM main.growths")
	if err != nil {
		return err
	}
	for _, blob := range grown { // it came after others
		a, err := decodeAdmission(blob)
		if err != nil {
			return err
		}
		a.Submission.Grows = nil
		for i := range a.Arrived.Tasks {
			a.Arrived.Tasks[i].Parents = nil
		}
		if blob, err = encodeAdmission(a); err != nil {
			return err
		}
		if err := db.exec("UPDATE main.workflows SET definition = ?", blob); err != nil {
			return err
		}
	}
	if err := db.exec("DELETE FROM main.growths"); err != nil {
		return err
	}
	return db.exec(`UPDATE main.workflows SET first_task = ?1, tasks = 1, arrived_ns = ?2,
		(state, started_ns, ended_ns) = (SELECT
			CASE t.state WHEN 'skipped' THEN 'cancelled' WHEN 'ready' THEN 'waiting' WHEN 'starting' THEN 'running'
				WHEN 'suspended' THEN 'running' ELSE t.state END, t.queued_ns, t.ended_ns
			FROM whole.tasks t WHERE t.run = workflows.run AND t.task = ?1)`, s.Task, s.Arrival)
}
