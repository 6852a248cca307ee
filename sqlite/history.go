package sqlite

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"gantry/planner/predict"
	"gantry/planner/queueing"
	"gantry/planner/unit"
)

// wholeRun is how long the program of an attempt a that ended well takes from its beginning, though it may have
// continued from a checkpoint.
const wholeRun = `CAST(round(a.ran_ns / (1 - iif(a.done < 1, a.done, 0))) AS INTEGER)`

// Past has the runs that a run can learn from: those before it on the same kind of runtime and at the same time and
// size scale. A simulation teaches nothing about containers, and an emulated second is no other scale's second. The
// same run always gets the same, unless an earlier one was still continuing when it asked first.
type Past struct {
	db                   *DB
	before               int64 // number of a run
	runtime              string
	timeScale, sizeScale float64
}

// Past is that of a run.
func (r *Run) Past() *Past {
	return &Past{r.db, r.id, r.info.Runtime, r.info.TimeScale, r.info.SizeScale}
}

// PastOf is that of the run of that name.
func (db *DB) PastOf(ctx context.Context, run string) (*Past, error) {
	id, info, err := db.runInfo(ctx, run)
	return &Past{db, id, info.Runtime, info.TimeScale, info.SizeScale}, err
}

// On is the same of the runs on another runtime, so that a simulation can learn from containers.
func (p *Past) On(runtime string) *Past {
	return &Past{p.db, p.before, runtime, p.timeScale, p.sizeScale}
}

// Before is that of a run which is still to be made.
func (db *DB) Before(runtime string, timeScale, sizeScale float64) *Past {
	return &Past{db, math.MaxInt64, runtime, timeScale, sizeScale}
}

// measured are the attempts a that ended well in the past, the latest first, with their tasks t and nodes n. SQLite
// sorts one run after the other, so that it may stop early.
const measured = ` FROM runs r CROSS JOIN attempts a ON a.run = r.id JOIN tasks t ON t.run = a.run AND t.task = a.task
	JOIN nodes n ON n.run = a.run AND n.node = a.node WHERE r.id < ? AND r.runtime = ? AND r.time_scale = ? AND
	r.size_scale = ? AND a.outcome = 'ok' AND %s ORDER BY r.id DESC, a.ended_ns DESC, a.attempt DESC`

// History returns what was measured of attempts that ended well, at most a given number of each kind of task, the
// latest ones, oldest first.
func (p *Past) History(ctx context.Context, latest int) ([]predict.Sample, error) {
	var out []predict.Sample
	have := map[string]int{}
	err := EachRow(ctx, p.db, func(s *predict.Sample) error {
		if have[s.Kind]++; have[s.Kind] <= latest {
			out = append(out, *s)
		}
		return nil
	}, `SELECT t.kind, coalesce(t.input_bytes, 0), a.hold_millicores, a.hold_memory_bytes, n.speed, 0,
		coalesce(CAST(round(t.trace_runtime_ns / n.speed) AS INTEGER), 0), `+wholeRun+
		fmt.Sprintf(measured, "a.ran_ns > 0"), p.before, p.runtime, p.timeScale, p.sizeScale)
	slices.Reverse(out)
	return out, err
}

// Correction is how long a program ran that ended well, and how long its trace declares that on its node.
type Correction struct{ Ran, Declared time.Duration }

// Corrections returns measured runtimes with the declared ones, at most a given number, the latest ones, oldest first.
// Tasks whose trace has no runtime are left out.
func (p *Past) Corrections(ctx context.Context, latest int) ([]Correction, error) {
	out, err := RowsOf[Correction](ctx, p.db, "SELECT "+wholeRun+
		", CAST(round(t.trace_runtime_ns / n.speed) AS INTEGER)"+
		fmt.Sprintf(measured, "a.ran_ns IS NOT NULL AND t.trace_runtime_ns > 0 AND n.speed > 0")+" LIMIT ?",
		p.before, p.runtime, p.timeScale, p.sizeScale, latest)
	slices.Reverse(out)
	return out, err
}

// Jobs returns the latest workflows, at most a given number, the oldest first. Their service is the time that all
// attempts of their tasks ran.
func (p *Past) Jobs(ctx context.Context, latest int) ([]queueing.Job, error) {
	runs, err := RowsOf[int64](ctx, p.db, `SELECT id FROM runs WHERE id < ? AND runtime = ? AND time_scale = ?
		AND size_scale = ? ORDER BY id DESC`, p.before, p.runtime, p.timeScale, p.sizeScale)
	var out []queueing.Job // the latest first
	for i := 0; i < len(runs) && err == nil && len(out) < latest; i++ {
		var jobs []queueing.Job
		jobs, err = RowsOf[queueing.Job](ctx, p.db, `WITH ran AS (SELECT t.workflow, sum(a.ran_ns) AS ran_ns FROM
			attempts a JOIN tasks t ON t.run = a.run
				AND t.task = a.task WHERE a.run = ?1 GROUP BY t.workflow)
			SELECT coalesce(w.arrived_ns - lag(w.arrived_ns) OVER (ORDER BY w.arrived_ns, w.workflow), -1),
			iif(w.state = 'done', coalesce(x.ran_ns, 0), 0)
			FROM workflows w LEFT JOIN ran x ON x.workflow = w.workflow WHERE w.run = ?1
			ORDER BY w.arrived_ns DESC, w.workflow DESC LIMIT ?2`, runs[i], latest-len(out))
		out = append(out, jobs...)
	}
	slices.Reverse(out)
	return out, err
}

// ProgramRun has the time of a real program that ended well, and the conditions under which it ran.
type ProgramRun struct {
	Run, Workflow, Task, Kind string
	Identity                  string        // hash of all that decides its results; "" if it is not known
	Input                     unit.Bytes    // sum of the sizes of its inputs, as far as they were known beforehand
	Ran                       time.Duration // the program alone, suspensions not counted
	CPU                       time.Duration // that it used; -1: not measured
	Millicores                int64         // that it could use, speed of the node included; 0: no limit
	Speed                     float64       // of its node
	Startup                   time.Duration // of its container, from inputs in place to the running program
}

// ProgramRuns returns the latest attempts of programs that ended well, the latest first, at most a given number: those
// of one run, or of all runs if run is "", on the runtimes of that name. Emulated tasks are left out.
func (db *DB) ProgramRuns(ctx context.Context, runtimes []string, run string, latest int) ([]ProgramRun, error) {
	return RowsOf[ProgramRun](ctx, db, `SELECT r.name, w.name, t.name, t.kind, coalesce(CAST(t.identity AS TEXT), ''),
		coalesce(t.input_bytes, 0),
			`+wholeRun+`,
			coalesce(a.cpu_user_ns + a.cpu_system_ns, -1), coalesce(a.applied_cpu_millicores, 0), n.speed,
			max(0, a.started_ns - coalesce(a.staged_ns, a.queued_ns))
		FROM runs r JOIN attempts a ON a.run = r.id JOIN tasks t ON t.run = a.run AND t.task = a.task
		JOIN workflows w ON w.run = t.run AND w.workflow = t.workflow JOIN nodes n ON n.run = a.run AND n.node = a.node
		WHERE r.runtime IN (SELECT value FROM json_each(?1)) AND (?2 = '' OR r.name = ?2)
			AND t.image IS NOT NULL AND a.outcome = 'ok' AND a.ran_ns IS NOT NULL
		ORDER BY a.run DESC, a.attempt DESC LIMIT ?3`, asJSON{runtimes}, run, latest)
}
