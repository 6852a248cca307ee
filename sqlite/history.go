package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"gantry/planner/queueing"
)

// Measurement is how long a program ran that ended well.
type Measurement struct {
	Kind  string
	Ran   time.Duration // the program alone, suspensions not counted
	Speed float64       // of the node it ran on
}

// What queries of the past share: the runs r that are earlier than the run own, as History says, and how long the
// program of an attempt a that ended well takes from its beginning, though it may have continued from a checkpoint.
const (
	earlierRuns = `runs own JOIN runs r ON r.id < own.id AND r.runtime = own.runtime AND r.time_scale = own.time_scale AND r.size_scale = own.size_scale`
	wholeRun    = `CAST(round(a.ran_ns / (1 - iif(a.done < 1, a.done, 0))) AS INTEGER)`
)

// History returns what earlier runs of the log measured, at most a given number of each kind of task, the latest ones,
// oldest first. Earlier runs are those that began before this one on the same kind of runtime and at the same time and
// size scale: a simulation teaches nothing about containers, and an emulated second is no other scale's second. The
// same run always gets the same, unless an earlier one was still continuing when it asked first.
func (r *Run) History(ctx context.Context, latest int) ([]Measurement, error) {
	return r.db.history(ctx, r.id, latest)
}

// HistoryOf returns what Run.History gives the run of that name.
func (db *DB) HistoryOf(ctx context.Context, run string, latest int) ([]Measurement, error) {
	id, _, err := db.find(ctx, run)
	if err != nil {
		return nil, err
	}
	return db.history(ctx, id, latest)
}

func (db *DB) history(ctx context.Context, id int64, latest int) ([]Measurement, error) {
	out, err := collect(ctx, db, func(rows *sql.Rows) (m Measurement, err error) {
		return m, rows.Scan(&m.Kind, &m.Ran, &m.Speed)
	}, `SELECT kind, ran_ns, speed FROM (
			SELECT t.kind, `+wholeRun+` AS ran_ns, n.speed, a.run, a.ended_ns, a.attempt,
				row_number() OVER (PARTITION BY t.kind ORDER BY a.run DESC, a.ended_ns DESC, a.attempt DESC) AS recency
			FROM `+earlierRuns+`
			JOIN attempts a ON a.run = r.id AND a.outcome = 'ok' AND a.ran_ns IS NOT NULL
			JOIN tasks t ON t.run = a.run AND t.task = a.task
			JOIN nodes n ON n.run = a.run AND n.node = a.node
			WHERE own.id = ?)
		WHERE recency <= ? ORDER BY run DESC, ended_ns DESC, attempt DESC`, id, latest)
	slices.Reverse(out)
	return out, err
}

// Correction is how long a program ran that ended well, and how long its trace declares that on its node.
type Correction struct{ Ran, Declared time.Duration }

// Corrections returns what earlier runs of the log measured and their declared runtimes, at most a given number, the
// latest ones, oldest first. Earlier runs are those of History. Tasks whose trace has no runtime are left out.
func (r *Run) Corrections(ctx context.Context, latest int) ([]Correction, error) {
	return r.db.corrections(ctx, r.id, latest)
}

// CorrectionsOf returns what Run.Corrections gives the run of that name.
func (db *DB) CorrectionsOf(ctx context.Context, run string, latest int) ([]Correction, error) {
	id, _, err := db.find(ctx, run)
	if err != nil {
		return nil, err
	}
	return db.corrections(ctx, id, latest)
}

func (db *DB) corrections(ctx context.Context, id int64, latest int) ([]Correction, error) {
	out, err := collect(ctx, db, func(rows *sql.Rows) (c Correction, err error) {
		return c,
			rows.Scan(&c.Ran, &c.Declared)
	},
		`SELECT `+wholeRun+`, CAST(round(t.trace_runtime_ns / n.speed) AS INTEGER)
			FROM `+earlierRuns+`
			JOIN attempts a ON a.run = r.id AND a.outcome = 'ok' AND a.ran_ns IS NOT NULL
			JOIN tasks t ON t.run = a.run AND t.task = a.task AND t.trace_runtime_ns > 0
			JOIN nodes n ON n.run = a.run AND n.node = a.node AND n.speed > 0
			WHERE own.id = ? ORDER BY a.run DESC, a.ended_ns DESC, a.attempt DESC LIMIT ?`, id, latest)
	slices.Reverse(out)
	return out, err
}

// Jobs returns the latest workflows of earlier runs, at most a given number, the oldest first; earlier runs are those
// of History. Their service is what all attempts of their tasks ran.
func (r *Run) Jobs(ctx context.Context, latest int) ([]queueing.Job, error) {
	runs, err := collect(ctx, r.db, func(rows *sql.Rows) (id int64, err error) { return id, rows.Scan(&id) },
		`SELECT r.id FROM `+earlierRuns+`
			WHERE own.id = ? ORDER BY r.id DESC`, r.id)
	if err != nil {
		return nil, err
	}
	var out []queueing.Job // the latest first
	for i := 0; i < len(runs) && len(out) < latest; i++ {
		jobs, err := collect(ctx, r.db, func(rows *sql.Rows) (j queueing.Job, err error) {
			return j,
				rows.Scan(&j.After, &j.Service)
		},
			`WITH ran AS (SELECT t.workflow, sum(a.ran_ns) AS ran_ns FROM attempts a JOIN tasks t ON t.run = a.run AND t.task = a.task WHERE a.run = ?1 GROUP BY t.workflow)
			SELECT coalesce(w.arrived_ns - lag(w.arrived_ns) OVER (ORDER BY w.arrived_ns, w.workflow), -1), iif(w.state = 'done', coalesce(x.ran_ns, 0), 0)
			FROM workflows w LEFT JOIN ran x ON x.workflow = w.workflow WHERE w.run = ?1 ORDER BY w.arrived_ns DESC, w.workflow DESC LIMIT ?2`, runs[i], latest-len(out))
		if err != nil {
			return nil, err
		}
		out = append(out, jobs...)
	}
	slices.Reverse(out)
	return out, nil
}
