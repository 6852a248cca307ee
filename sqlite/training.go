package sqlite

import (
	"context"
	"database/sql"
	"time"

	"gantry/planner/heap"
	"gantry/planner/predict"
	"gantry/planner/unit"
)

// TrainingRun has the samples of one run of the log.
type TrainingRun struct {
	Name      string
	Started   time.Time
	Runtime   string // such as docker or sim
	TimeScale float64
	SizeScale float64
	Samples   []predict.Sample // by order of their attempts
	LeftOut   map[string]int   // attempts that tell nothing, by the reason
}

// Reasons to leave an attempt out.
const (
	Unwell   = "did not end well"
	Partly   = "were preempted, or are of tasks that were"
	Timeless = "have no runtime"
	Unsized  = "have no size of their inputs"
	AtLimit  = "reached their memory limit, so that their peak counts without a margin" // these are not left out
)

// Training returns the measurements of attempts that ended well, in the runs on a kind of runtime ("": on all), in
// order of time. Of a task that was preempted nothing is taken: its last attempt may be a part of it.
func (db *DB) Training(ctx context.Context, runtime string) ([]TrainingRun, error) {
	type row struct {
		id  int64
		run TrainingRun
	}
	rows, err := collect(ctx, db, func(scan Scan) (r row, err error) {
		var started int64
		err = scan(&r.id, &r.run.Name, &started, &r.run.Runtime, &r.run.TimeScale, &r.run.SizeScale)
		r.run.Started = time.Unix(0, started).UTC()
		return r, err
	}, "SELECT id, name, started_unix_ns, runtime, time_scale, size_scale FROM runs WHERE ? IN ('', runtime) ORDER "+
		"BY started_unix_ns, id", runtime)
	if err != nil {
		return nil, err
	}
	var out []TrainingRun
	for _, r := range rows {
		if err := db.samples(ctx, r.id, &r.run); err != nil {
			return nil, err
		}
		if len(r.run.Samples)+len(r.run.LeftOut) > 0 {
			out = append(out, r.run)
		}
	}
	return out, nil
}

// samples reads the attempts of a run in the order of their orders, and counts how many were under way at each.
func (db *DB) samples(ctx context.Context, run int64, to *TrainingRun) error {
	type attempt struct {
		Kind                                      string
		Queued, Ended, Ran, Declared, Input, Peak sql.NullInt64
		CPU, Memory                               int64
		Speed                                     float64
		Well, Whole                               bool
	}
	// A runtime that a rule filled in is nobody's declaration.
	all, err := RowsOf[attempt](ctx, db, `SELECT t.kind, a.queued_ns, a.ended_ns, a.ran_ns,
		iif(instr(','||t.imputed||',', ',runtime,'), NULL, t.trace_runtime_ns), t.input_bytes,
		a.peak_memory_bytes, a.hold_millicores, a.hold_memory_bytes, n.speed, coalesce(a.outcome = 'ok', 0),
		NOT EXISTS (SELECT 1 FROM attempts b
			WHERE b.run = a.run AND t.attempts > 1 AND b.task = a.task AND b.outcome = 'preempted')
		FROM attempts a JOIN tasks t ON t.run = a.run AND t.task = a.task JOIN nodes n ON n.run = a.run
		AND n.node = a.node
		WHERE a.run = ? AND a.queued_ns IS NOT NULL ORDER BY a.queued_ns, a.attempt`, run)
	if err != nil {
		return err
	}
	underWay := heap.Smallest[int64]()
	to.LeftOut = map[string]int{}
	for i := 0; i < len(all); {
		now := all[i].Queued.Int64
		for underWay.Len() > 0 && underWay.Items[0] <= now {
			underWay.Pop()
		}
		load, first := underWay.Len(), i
		for ; i < len(all) && all[i].Queued.Int64 == now; i++ {
			a := &all[i]
			switch {
			case !a.Whole:
				to.LeftOut[Partly]++
			case !a.Well:
				to.LeftOut[Unwell]++
			case a.Ran.Int64 <= 0:
				to.LeftOut[Timeless]++
			case !a.Input.Valid || a.Input.Int64 < 0:
				to.LeftOut[Unsized]++
			default:
				if a.Peak.Int64 >= a.Memory-a.Memory/100 && a.Memory > 0 {
					to.LeftOut[AtLimit]++
				}
				s := predict.Sample{Kind: a.Kind, Ran: time.Duration(a.Ran.Int64), Peak: unit.Bytes(a.Peak.Int64),
					Features: predict.Features{Input: unit.Bytes(a.Input.Int64),
						CPU: a.CPU, Memory: unit.Bytes(a.Memory), Speed: a.Speed, Load: load}}
				if a.Declared.Valid {
					s.Declared = time.Duration(float64(a.Declared.Int64) / max(a.Speed, 1e-9))
				}
				to.Samples = append(to.Samples, s)
			}
		}
		for _, a := range all[first:i] {
			if a.Ended.Valid {
				underWay.Push(a.Ended.Int64)
			}
		}
	}
	return nil
}
