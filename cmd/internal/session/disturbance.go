package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gantry/executor"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/sqlite"
)

// Bounds of the simulation of earlier runs before a prediction.
const (
	undisturbedRuns  = 5                      // the latest
	undisturbedTasks = 2000                   // of a run
	undisturbedTime  = 500 * time.Millisecond // of all
	mostDisturbed    = 2                      // times that a program was slower than alone
)

// undisturbed returns a function that takes from measured times of programs, the latest run first, the cost of
// containers started beside them: a prediction simulates that cost anyhow. Each run is simulated with its own
// measurements. If a program is slower there than measured, it was slower in the run than alone, by the same factor. It
// returns nil where no model of the host has the cost of starts.
func (p *Planning) undisturbed(ctx context.Context, db *sqlite.DB) func(all []sqlite.ProgramRun) {
	if p.Set.Host == nil {
		return nil
	}
	return func(all []sqlite.ProgramRun) {
		ctx, cancel := context.WithTimeout(ctx, undisturbedTime)
		defer cancel()
		for range undisturbedRuns {
			if len(all) == 0 || ctx.Err() != nil {
				return
			}
			n := slices.IndexFunc(all, func(r sqlite.ProgramRun) bool { return r.Run != all[0].Run })
			if n < 0 {
				n = len(all)
			}
			slower, err := p.disturbed(ctx, db, all[0].Run)
			for i := range all[:n] {
				// One that cannot be simulated any more stays as it was measured.
				if f := slower[taskName{all[i].Workflow, all[i].Task}]; err == nil && f > 1 {
					all[i].Ran = time.Duration(float64(all[i].Ran) / min(f, mostDisturbed))
				}
			}
			all = all[n:]
		}
	}
}

type taskName struct{ workflow, task string }

// disturbed simulates a run of the log on this host, its programs as they were measured, and returns how many times as
// long as that they take there.
func (p *Planning) disturbed(ctx context.Context, db *sqlite.DB, run string) (map[taskName]float64, error) {
	over, err := db.Overview(ctx, run)
	if err != nil {
		return nil, err
	}
	if row := RuntimeNamed(over.Runtime); row == nil || row.Engine == nil || over.State == sqlite.Running ||
		over.Tasks > undisturbedTasks {
		return nil, fmt.Errorf("run %s is not simulated", run)
	}
	info, err := db.Info(ctx, run)
	if err != nil {
		return nil, err
	}
	r, err := planningOf(ctx, db, &info, "")
	if err != nil {
		return nil, err
	}
	w, err := r.repeat(ctx, db, &info)
	if err != nil {
		return nil, err
	}
	r.ideal, r.Set.Host = false, p.Set.Host
	again := Prediction{Planning: r}
	if again.programs, err = programsOf(ctx, db, r.Set, run, nil); err != nil {
		return nil, err
	}
	alone := map[taskName]time.Duration{}
	cfg := again.simulated(0)
	measured := cfg.Measured
	cfg.Measured = func(l *executor.Launch) (sim.Measured, bool) {
		m, ok := measured(l)
		if ok {
			alone[taskName{l.Spec.Workflow.Name, l.Spec.Name}] = m.Run
		}
		return m, ok
	}
	course, err := w.course(ctx, cfg)
	if err != nil {
		return nil, err
	}
	out := map[taskName]float64{}
	for i := range course.Attempts {
		a := &course.Attempts[i]
		name := taskName{a.Task.Workflow.Name, a.Task.Name}
		if d := alone[name]; d > 0 && a.Outcome == planner.OK {
			out[name] = float64(a.Ended.Sub(a.Started)) / float64(d)
		}
	}
	return out, nil
}
