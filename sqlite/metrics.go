package sqlite

import (
	"context"
	"database/sql/driver"
	"math"
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
			var value driver.Value = m.Value
			if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
				value = nil
			}
			if err := r.db.exec("INSERT INTO run_metrics VALUES (?,?,?,?)", r.id, i, m.Name, value); err != nil {
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

// Metrics returns the metrics that Measure kept of a run, given as in Summary; none if the run has not ended.
func (db *DB) Metrics(ctx context.Context, run string) ([]Metric, error) {
	id, _, err := db.find(ctx, run)
	if err != nil {
		return nil, err
	}
	rows, err := RowsOf[struct {
		Name  string
		Value *float64
	}](ctx, db, "SELECT name, value FROM run_metrics WHERE run = ? ORDER BY position", id)
	all := make([]Metric, len(rows))
	for i, r := range rows {
		if all[i] = (Metric{r.Name, math.NaN()}); r.Value != nil {
			all[i].Value = *r.Value
		}
	}
	return all, err
}

// MeasuredWorkflow is a workflow with its metrics. Nil is not reached or not defined.
type MeasuredWorkflow struct {
	Workflow string   `json:"workflow"`
	Tasks    int      `json:"tasks"`
	Counts   bool     `json:"counts"`
	Arrived  float64  `json:"arrived_s"`
	Due      *float64 `json:"due_s"`
	Wait     *float64 `json:"wait_s"`
	Makespan *float64 `json:"makespan_s"`
	Response *float64 `json:"response_s"`
	Work     float64  `json:"work_s"`
	Critical float64  `json:"critical_path_s"`
	Slowdown *float64 `json:"slowdown"`
	SLR      *float64 `json:"slr"`
}

// WorkflowMetrics returns the metrics that Measure kept of the workflows of a run, by arrival.
func (db *DB) WorkflowMetrics(ctx context.Context, run string) ([]MeasuredWorkflow, error) {
	_, name, err := db.find(ctx, run)
	if err != nil {
		return nil, err
	}
	return RowsOf[MeasuredWorkflow](ctx, db, `SELECT workflow, tasks, counts, arrived_s, due_s, wait_s, makespan_s,
		response_s, work_s, critical_path_s,
		slowdown, slr FROM v_slowdowns
		WHERE run = ? ORDER BY arrived_s, position`, name)
}
