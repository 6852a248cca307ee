package sqlite

import (
	"context"
	"time"

	"gantry/planner"
)

// Metric is one number of a run as a whole. NaN: it has none.
type Metric struct {
	Name  string
	Value float64
}

// WorkflowMetrics are the metrics of one workflow. Wait, Makespan and Response are -1 for one that has not ended well.
type WorkflowMetrics struct {
	Workflow                 planner.WorkflowID
	Counts                   bool // within the window that the metrics of the run are of
	Wait, Makespan, Response time.Duration
	Work                     time.Duration // sum of the runtimes at speed 1
	CriticalPath             time.Duration // of the runtimes at speed 1
	Lowest                   time.Duration // length of the path that no schedule is shorter than
}

// Measure keeps the metrics of a run that is over, in the order given, in place of earlier ones.
func (r *Run) Measure(run []Metric, workflows []WorkflowMetrics) error {
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
		for _, m := range workflows {
			if err := r.db.exec("INSERT INTO workflow_metrics VALUES (?,?,?,?,?,?,?,?,?)", r.id, m.Workflow, m.Counts,
				known(int64(m.Wait), m.Wait >= 0), known(int64(m.Makespan), m.Makespan >= 0),
				known(int64(m.Response), m.Response >= 0), m.Work, m.CriticalPath, m.Lowest); err != nil {
				return err
			}
		}
		return nil
	})
}

// Metrics returns the metrics that Measure kept of a run, given as in Find; none if the run has not ended.
func (db *DB) Metrics(ctx context.Context, run string) ([]Metric, error) {
	return rowsOfRun[Metric](ctx, db, run, "SELECT name, coalesce(value, 'NaN') FROM run_metrics WHERE run = ? "+
		"ORDER BY position")
}

// Scopes of predictions.
const (
	ScopeRun      = "run"
	ScopeWorkflow = "workflow"
	ScopeKind     = "kind"
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
