package session

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"gantry/planner/predict"
	"gantry/planner/queueing"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/trace"
)

// wholeRun is how long the program of an attempt a that ended well takes from its beginning, though it may have
// continued from a checkpoint.
const wholeRun = `CAST(round(a.ran_ns / (1 - iif(a.done < 1, a.done, 0))) AS INTEGER)`

// earlierRuns are those that a run can learn from: those before it on the same kind of runtime and at the same time and
// size scale. A simulation teaches nothing about containers, and an emulated second is no other scale's second. The
// same run always gets the same, unless an earlier one was still continuing when it asked first.
type earlierRuns struct {
	db                   *sqlite.DB
	Before               int64 // number of a run
	Runtime              string
	TimeScale, SizeScale float64
}

// earlierThan are those before the run of that name.
func earlierThan(ctx context.Context, db *sqlite.DB, run string) (*earlierRuns, error) {
	e, err := sqlite.RowOf[earlierRuns](ctx, db, "SELECT id, runtime, time_scale, size_scale FROM runs WHERE name = ?",
		run)
	e.db = db
	return &e, err
}

// runsBefore are those before a run which is still to be made.
func runsBefore(db *sqlite.DB, runtime string, set *Settings) *earlierRuns {
	return &earlierRuns{db, math.MaxInt64, runtime, set.TimeScale, set.SizeScale}
}

// alike are the attempts a that ended well in earlier runs, the latest first, with their tasks t and nodes n. SQLite
// sorts run by run, so that it may stop early.
const alike = ` FROM runs r CROSS JOIN attempts a ON a.run = r.id JOIN tasks t ON t.run = a.run AND t.task = a.task
	JOIN nodes n ON n.run = a.run AND n.node = a.node WHERE r.id < ? AND r.runtime = ? AND r.time_scale = ? AND
	r.size_scale = ? AND a.outcome = 'ok' AND %s ORDER BY r.id DESC, a.ended_ns DESC, a.attempt DESC`

// measured returns the measurements of attempts that ended well, at most a given number of each kind of task, the
// latest ones, oldest first. An attempt that read inputs of another size than was known beforehand tells nothing of
// that size, unless most of its kind and run did: sizes in a workflow may be made up.
func (e *earlierRuns) measured(ctx context.Context, latest int) ([]predict.Sample, error) {
	type group struct {
		kind    string
		resized bool
	}
	type measurement struct {
		predict.Sample
		Run     int64
		Resized bool
	}
	var out []predict.Sample
	var of []measurement // of one run
	have, in := map[string]int{}, map[group]int{}
	take := func() {
		for i := range of {
			kind := of[i].Kind
			if of[i].Resized && in[group{kind, true}] <= in[group{kind, false}] {
				continue
			}
			if have[kind]++; have[kind] <= latest {
				out = append(out, of[i].Sample)
			}
		}
		of = of[:0]
		clear(in)
	}
	err := sqlite.EachRow(ctx, e.db, func(m *measurement) error {
		if len(of) > 0 && of[0].Run != m.Run {
			take()
		}
		if g := (group{m.Kind, m.Resized}); in[g] < latest {
			of = append(of, *m)
		}
		in[group{m.Kind, m.Resized}]++
		return nil
	}, `SELECT t.kind, coalesce(t.input_bytes, 0), a.hold_millicores, a.hold_memory_bytes, n.speed, 0,
		iif(t.imputed_bits & 1, 0, coalesce(CAST(round(t.trace_runtime_ns / n.speed) AS INTEGER), 0)), `+wholeRun+`,
		0, r.id,
		coalesce(t.parents IS NULL AND a.input_bytes <> coalesce(t.input_bytes, 0), 0)`+
		fmt.Sprintf(alike, "a.ran_ns > 0"), e.Before, e.Runtime, e.TimeScale, e.SizeScale)
	take()
	slices.Reverse(out)
	return out, err
}

// declaredRun is how long a program ran that ended well, and how long its trace declares that on its node.
type declaredRun struct{ Ran, Declared time.Duration }

// Estimates tells how a run estimates runtimes; nil if it does so as its trace tells, with a model of the log, or as a
// simulation that knows runtimes.
func Estimates(ctx context.Context, db *sqlite.DB, info *sqlite.RunInfo) (*trace.Estimates, error) {
	if len(info.Settings) == 0 {
		return nil, nil // of a log that other programs wrote
	}
	set, err := SettingsOf(info)
	if err != nil {
		return nil, err
	}
	spec, err := predict.ParseSpec(set.Estimator)
	e := &trace.Estimates{Learn: spec.Kind == predict.KindLearned, Start: set.Startup}
	if set.Host != nil && !set.StartupGiven {
		e.Start = set.Host.Overhead(1, 1) // tasks differ in it by little
	}
	switch {
	case err != nil || set.EstimateAsTrace,
		!e.Learn && (spec.Kind != predict.KindDeclared || Capabilities(info.Runtime).Virtual):
		return nil, err
	case !e.Learn:
		return e, nil
	}
	past, err := earlierThan(ctx, db, info.Name)
	if err != nil {
		return nil, err
	}
	if set.Measured != "" {
		past.Runtime = UsualRuntime.Name
	}
	known, err := past.measured(ctx, spec.Window)
	for _, s := range known {
		e.From = append(e.From, trace.Measurement{Kind: s.Kind, InputBytes: int64(s.Features.Input),
			Millicores: s.Features.CPU, MemoryBytes: int64(s.Features.Memory), Speed: s.Features.Speed,
			Declared: s.Declared, Runtime: s.Ran})
	}
	return e, err
}

// corrections returns measured runtimes with the declared ones, at most a given number, the latest ones, oldest first.
// Tasks whose trace has no runtime are left out.
func (e *earlierRuns) corrections(ctx context.Context, latest int) ([]declaredRun, error) {
	out, err := sqlite.RowsOf[declaredRun](ctx, e.db, "SELECT "+wholeRun+
		", CAST(round(t.trace_runtime_ns / n.speed) AS INTEGER)"+
		fmt.Sprintf(alike, "a.ran_ns IS NOT NULL AND t.trace_runtime_ns > 0 AND n.speed > 0")+" LIMIT ?",
		e.Before, e.Runtime, e.TimeScale, e.SizeScale, latest)
	slices.Reverse(out)
	return out, err
}

// jobs returns the latest workflows, at most a given number, the oldest first. Their service is the time that all
// attempts of their tasks ran.
func (e *earlierRuns) jobs(ctx context.Context, latest int) ([]queueing.Job, error) {
	runs, err := sqlite.RowsOf[int64](ctx, e.db, `SELECT id FROM runs WHERE id < ? AND runtime = ? AND time_scale = ?
		AND size_scale = ? ORDER BY id DESC`, e.Before, e.Runtime, e.TimeScale, e.SizeScale)
	var out []queueing.Job // the latest first
	for i := 0; i < len(runs) && err == nil && len(out) < latest; i++ {
		var jobs []queueing.Job
		jobs, err = sqlite.RowsOf[queueing.Job](ctx, e.db, `WITH ran AS (SELECT t.workflow, sum(a.ran_ns) AS ran_ns
				FROM attempts a JOIN tasks t ON t.run = a.run AND t.task = a.task WHERE a.run = ?1 GROUP BY t.workflow)
			SELECT coalesce(w.arrived_ns - lag(w.arrived_ns) OVER (ORDER BY w.arrived_ns, w.workflow), -1),
			iif(w.state = 'done', coalesce(x.ran_ns, 0), 0)
			FROM workflows w LEFT JOIN ran x ON x.workflow = w.workflow WHERE w.run = ?1
			ORDER BY w.arrived_ns DESC, w.workflow DESC LIMIT ?2`, runs[i], latest-len(out))
		out = append(out, jobs...)
	}
	slices.Reverse(out)
	return out, err
}

// programRun has the time of a real program that ended well, and the conditions under which it ran.
type programRun struct {
	Run, Workflow, Task, Kind string
	Identity                  string        // hash of all that decides its results; "" if it is not known
	Input                     unit.Bytes    // sum of the sizes of its inputs, as far as they were known beforehand
	Ran                       time.Duration // the program alone, suspensions not counted
	CPU                       time.Duration // that it used; -1: not measured
	Millicores                int64         // that it could use, speed of the node included; 0: no limit
	Speed                     float64       // of its node
	Startup                   time.Duration // of its container, from inputs in place to the running program
}

// programRuns returns the latest attempts of programs that ended well, the latest first, at most a given number: those
// of one run, or of all runs if run is "", on the runtimes of that name. Emulated tasks are left out.
func programRuns(ctx context.Context, db *sqlite.DB, runtimes []string, run string, latest int) ([]programRun, error) {
	on, err := json.Marshal(runtimes)
	if err != nil {
		return nil, err
	}
	return sqlite.RowsOf[programRun](ctx, db, `SELECT r.name, w.name, t.name, t.kind,
			coalesce(CAST(t.identity AS TEXT), ''), coalesce(t.input_bytes, 0), `+wholeRun+`,
			coalesce(a.cpu_user_ns + a.cpu_system_ns, -1), coalesce(a.applied_cpu_millicores, 0), n.speed,
			max(0, a.started_ns - coalesce(a.staged_ns, a.queued_ns))
		FROM runs r JOIN attempts a ON a.run = r.id JOIN tasks t ON t.run = a.run AND t.task = a.task
		JOIN workflows w ON w.run = t.run AND w.workflow = t.workflow JOIN nodes n ON n.run = a.run AND n.node = a.node
		WHERE r.runtime IN (SELECT value FROM json_each(?1)) AND (?2 = '' OR r.name = ?2)
			AND t.image IS NOT NULL AND a.outcome = 'ok' AND a.ran_ns IS NOT NULL
		ORDER BY a.run DESC, a.attempt DESC LIMIT ?3`, string(on), run, latest)
}
