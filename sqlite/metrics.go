package sqlite

import (
	"context"
	"time"

	"gantry/executor/experiment/metrics"
	"gantry/planner"
)

// Measure keeps the metrics of a run that is over, in the order given, in place of earlier ones. Counted are those of
// its workflows that are within the window of the metrics of the run.
func (r *Run) Measure(run []metrics.Value, workflows []metrics.Workflow, counted []*metrics.Workflow) error {
	counts := map[planner.WorkflowID]bool{}
	for _, w := range counted {
		counts[w.ID] = true
	}
	return r.db.transact(func() error {
		for _, table := range []string{"run_metrics", "workflow_metrics"} {
			if err := r.db.exec("DELETE FROM "+table+" WHERE run = ?", r.id); err != nil {
				return err
			}
		}
		for i, m := range run {
			// SQLite takes NaN as NULL.
			if err := r.db.exec("INSERT INTO run_metrics VALUES (?1, ?2, ?3, iif(abs(?4) < 9e999, ?4, NULL))", r.id, i,
				m.Name, m.Value); err != nil {
				return err
			}
		}
		for i := range workflows {
			w := &workflows[i]
			done := func(d time.Duration) any { return known(int64(d), w.Done()) }
			if err := r.db.exec("INSERT INTO workflow_metrics VALUES (?,?,?,?,?,?,?,?,?)", r.id, w.ID, counts[w.ID],
				done(w.Wait()), done(w.Makespan()), done(w.Response()), w.Work, w.CriticalPath, w.Lowest); err != nil {
				return err
			}
		}
		return nil
	})
}

// Metrics returns the metrics that Measure kept of a run, given as in Find; none if the run has not ended.
func (db *DB) Metrics(ctx context.Context, run string) ([]metrics.Value, error) {
	return rowsOfRun[metrics.Value](ctx, db, run, "SELECT name, coalesce(value, 'NaN') FROM run_metrics WHERE run = ? "+
		"ORDER BY position")
}

// Scopes of predictions.
const (
	ScopeRun      = "run"
	ScopeWorkflow = "workflow"
	ScopeKind     = "kind"
	ScopeRest     = "rest" // the end of a run under way, on its axis, as it was simulated last
)

// Prediction is the expected makespan of a run or of one of its workflows, or the expected mean time of a task of a
// type from its inputs in place to its end. Low and High bound the interval of 80 %. Actual, Error and Within are nil
// until Actual is known.
type Prediction struct {
	At          Span     `json:"made_s"` // 0: before the run began
	Scope       string   `json:"scope"`
	Name        string   `json:"name"`  // "" of the run
	Basis       string   `json:"basis"` // basis of the simulation
	Tasks       int      `json:"tasks"`
	Repetitions int      `json:"repetitions"`
	Expected    Span     `json:"predicted_s"`
	Low         Span     `json:"low_s"`
	High        Span     `json:"high_s"`
	Actual      *Span    `json:"actual_s"`
	Error       *float64 `json:"error_percent"` // of Expected against Actual
	Within      *bool    `json:"within"`        // Actual is in the interval
}

// Predict keeps predictions.
func (r *Run) Predict(all []Prediction) error {
	return r.db.transact(func() error {
		for i := range all {
			p := &all[i]
			if err := r.db.exec(`INSERT OR REPLACE INTO predictions(run, at_ns, scope, name, basis, tasks, repetitions,
				expected_ns, low_ns, high_ns) VALUES (?,?,?,?,?,?,?,?,?,?)`, r.id, p.At, p.Scope, p.Name, p.Basis,
				p.Tasks, p.Repetitions, p.Expected, p.Low, p.High); err != nil {
				return err
			}
		}
		return nil
	})
}
