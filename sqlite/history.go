package sqlite

import (
	"context"
	"slices"
	"time"

	"gantry/planner/predict"
	"gantry/planner/queueing"
)

// Parts that queries of the past share: the runs r that are earlier than the run own, as Past says, and how long the
// program of an attempt a that ended well takes from its beginning, though it may have continued from a checkpoint.
const (
	earlierRuns = ` own JOIN runs r ON r.id < own.id AND r.runtime = own.runtime
		AND r.time_scale = own.time_scale AND r.size_scale = own.size_scale`
	wholeRun = `CAST(round(a.ran_ns / (1 - iif(a.done < 1, a.done, 0))) AS INTEGER)`
)

// Past has the runs that a run can learn from: those before it on the same kind of runtime and at the same time and
// size scale. A simulation teaches nothing about containers, and an emulated second is no other scale's second. The
// same run always gets the same, unless an earlier one was still continuing when it asked first.
type Past struct {
	db   *DB
	own  string // its row
	args []any
}

func (db *DB) pastOf(id int64) *Past {
	return &Past{db, "(SELECT id, runtime, time_scale, size_scale FROM runs WHERE id = ?)", []any{id}}
}

// Past is that of a run.
func (r *Run) Past() *Past { return r.db.pastOf(r.id) }

// PastOf is that of the run of that name.
func (db *DB) PastOf(ctx context.Context, run string) (*Past, error) {
	id, _, err := db.find(ctx, run)
	return db.pastOf(id), err
}

// On is the same of the runs on another runtime, so that a simulation can learn from containers.
func (p *Past) On(runtime string) *Past {
	return &Past{p.db, "(SELECT id, ? AS runtime, time_scale, size_scale FROM (SELECT * FROM " + p.own + "))",
		append([]any{runtime}, p.args...)}
}

// Before is that of a run which is still to be made.
func (db *DB) Before(runtime string, timeScale, sizeScale float64) *Past {
	return &Past{db, "(SELECT 9223372036854775807 AS id, ? AS runtime, ? AS time_scale, ? AS size_scale)",
		[]any{runtime, timeScale, sizeScale}}
}

// History returns what was measured of attempts that ended well, at most a given number of each kind of task, the
// latest ones, oldest first.
func (p *Past) History(ctx context.Context, latest int) ([]predict.Sample, error) {
	var out []predict.Sample
	have := map[string]int{}
	err := p.each(ctx, func(db *DB, run int64) (bool, error) {
		return true, db.Each(ctx, func(scan Scan) error {
			var s predict.Sample
			f := &s.Features
			if err := scan(&s.Kind, &s.Ran, &s.Declared, &f.Speed, &f.Input, &f.CPU, &f.Memory); err != nil {
				return err
			}
			if have[s.Kind]++; have[s.Kind] <= latest {
				out = append(out, s)
			}
			return nil
		}, `SELECT t.kind, `+wholeRun+`, coalesce(CAST(round(t.trace_runtime_ns / n.speed) AS INTEGER), 0), n.speed,
			coalesce(t.input_bytes, 0), a.hold_millicores, a.hold_memory_bytes FROM attempts a
			JOIN tasks t ON t.run = a.run AND t.task = a.task JOIN nodes n ON n.run = a.run AND n.node = a.node
			WHERE a.run = ? AND a.outcome = 'ok' AND a.ran_ns > 0 ORDER BY a.ended_ns DESC, a.attempt DESC`, run)
	})
	slices.Reverse(out)
	return out, err
}

// each calls f for the runs, the latest first, until it returns false.
func (p *Past) each(ctx context.Context, f func(db *DB, run int64) (more bool, err error)) error {
	runs, err := RowsOf[int64](ctx, p.db, `SELECT r.id FROM `+p.own+earlierRuns+` ORDER BY r.id DESC`, p.args...)
	for i := 0; i < len(runs) && err == nil; i++ {
		var more bool
		if more, err = f(p.db, runs[i]); !more {
			break
		}
	}
	return err
}

// Correction is how long a program ran that ended well, and how long its trace declares that on its node.
type Correction struct{ Ran, Declared time.Duration }

// Corrections returns measured runtimes with the declared ones, at most a given number, the latest ones, oldest first.
// Tasks whose trace has no runtime are left out.
func (p *Past) Corrections(ctx context.Context, latest int) ([]Correction, error) {
	var out []Correction
	err := p.each(ctx, func(db *DB, run int64) (bool, error) {
		all, err := RowsOf[Correction](ctx, db, `SELECT `+wholeRun+`, CAST(round(t.trace_runtime_ns / n.speed) AS
			INTEGER) FROM attempts a
			JOIN tasks t ON t.run = a.run AND t.task = a.task AND t.trace_runtime_ns > 0
			JOIN nodes n ON n.run = a.run AND n.node = a.node AND n.speed > 0
			WHERE a.run = ? AND a.outcome = 'ok' AND a.ran_ns IS NOT NULL
			ORDER BY a.ended_ns DESC, a.attempt DESC LIMIT ?`, run, latest-len(out))
		out = append(out, all...)
		return len(out) < latest, err
	})
	slices.Reverse(out)
	return out, err
}

// Jobs returns the latest workflows, at most a given number, the oldest first. Their service is the time that all
// attempts of their tasks ran.
func (p *Past) Jobs(ctx context.Context, latest int) ([]queueing.Job, error) {
	var out []queueing.Job // the latest first
	err := p.each(ctx, func(db *DB, run int64) (bool, error) {
		jobs, err := RowsOf[queueing.Job](ctx, db, `WITH ran AS (SELECT t.workflow, sum(a.ran_ns) AS ran_ns FROM
			attempts a JOIN tasks t ON t.run = a.run
				AND t.task = a.task WHERE a.run = ?1 GROUP BY t.workflow)
			SELECT coalesce(w.arrived_ns - lag(w.arrived_ns) OVER (ORDER BY w.arrived_ns, w.workflow), -1),
			iif(w.state = 'done', coalesce(x.ran_ns, 0), 0)
			FROM workflows w LEFT JOIN ran x ON x.workflow = w.workflow WHERE w.run = ?1
			ORDER BY w.arrived_ns DESC, w.workflow DESC LIMIT ?2`, run, latest-len(out))
		out = append(out, jobs...)
		return len(out) < latest, err
	})
	slices.Reverse(out)
	return out, err
}
