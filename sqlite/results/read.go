package results

import (
	"context"
	"database/sql"
	"encoding/json"

	"gantry/executor/experiment"
	"gantry/executor/experiment/metrics"
)

// About says whose results the file has.
func (db *DB) About(ctx context.Context) (info Info, err error) {
	var settings string
	err = db.sql.QueryRowContext(ctx, "SELECT name, title, source, version, settings FROM experiment").
		Scan(&info.Name, &info.Title, &info.Source, &info.Version, &settings)
	info.Settings = json.RawMessage(settings)
	return info, wrap("read", err)
}

// Cell is a combination of parameters with its runs.
type Cell struct {
	ID     int64
	Params map[string]string
	Inputs string // digest of the files it is made from; "": unknown
	Runs   []Run  // by repetition
}

// Run is one repetition.
type Run struct {
	Repetition int
	State      experiment.State
	Message    string
	Build      string // that simulated it; "": unknown
	Values     map[string]float64
}

// Sample returns a metric of all runs that were not cut off and have it.
func (c *Cell) Sample(metric string) []float64 {
	var out []float64
	for i := range c.Runs {
		if v, ok := c.Runs[i].Values[metric]; ok && c.Runs[i].State == experiment.Done {
			out = append(out, v)
		}
	}
	return out
}

// Count returns how many runs ended so.
func (c *Cell) Count(s experiment.State) int {
	n := 0
	for i := range c.Runs {
		if c.Runs[i].State == s {
			n++
		}
	}
	return n
}

// Verdicts returns the verdicts of a test of stability on the runs, those that diverged included.
func (c *Cell) Verdicts(test string) []bool {
	var out []bool
	for i := range c.Runs {
		if v, ok := c.Runs[i].Values[test]; ok {
			out = append(out, v == 1)
		}
	}
	return out
}

// Cells returns the wanted combinations, in the order of the experiment.
func (db *DB) Cells(ctx context.Context) ([]*Cell, error) {
	var cells []*Cell
	byID := map[int64]*Cell{}
	const wanted = "SELECT cell, params, coalesce(key ->> '$.inputs', '') FROM cells WHERE wanted ORDER BY cell"
	err := db.each(ctx, wanted, nil, func(rows *sql.Rows) error {
		c := &Cell{}
		var params []byte
		if err := rows.Scan(&c.ID, &params, &c.Inputs); err != nil {
			return err
		}
		cells, byID[c.ID] = append(cells, c), c
		return json.Unmarshal(params, &c.Params)
	})
	if err != nil {
		return nil, err
	}
	err = db.each(ctx, "SELECT cell, repetition, state, message FROM runs ORDER BY cell, repetition", nil,
		func(rows *sql.Rows) error {
			var id int64
			r := Run{Values: map[string]float64{}}
			if err := rows.Scan(&id, &r.Repetition, &r.State, &r.Message); err != nil {
				return err
			}
			if c := byID[id]; c != nil {
				c.Runs = append(c.Runs, r)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	err = db.each(ctx, "SELECT cell, repetition, metric, value FROM metrics WHERE value IS NOT NULL", nil,
		func(rows *sql.Rows) error {
			var id int64
			var rep int
			var name string
			var value float64
			if err := rows.Scan(&id, &rep, &name, &value); err != nil {
				return err
			}
			if c := byID[id]; c != nil {
				for i := range c.Runs {
					if c.Runs[i].Repetition == rep {
						c.Runs[i].Values[name] = value
					}
				}
			}
			return nil
		})
	return cells, err
}

// Point is the size of a workflow, in tasks, its slowdown, and its parallelism: its work over the length of its
// critical path.
type Point struct{ Tasks, Slowdown, Parallelism float64 }

// Slowdowns returns the points of the workflows of a cell, of all repetitions; none if they were not kept.
func (db *DB) Slowdowns(ctx context.Context, cell int64) (out []Point, err error) {
	err = db.each(ctx, `SELECT tasks, 1.0 * (ended_ns - arrived_ns) / critical_path_ns,
		1.0 * work_ns / critical_path_ns FROM workflows WHERE cell = ? AND critical_path_ns > 0
		ORDER BY repetition, workflow`, []any{cell}, func(rows *sql.Rows) error {
		var p Point
		err := rows.Scan(&p.Tasks, &p.Slowdown, &p.Parallelism)
		out = append(out, p)
		return err
	})
	return out, err
}

// Series returns the number of workflows in the system over time in one repetition; none if it was not kept.
func (db *DB) Series(ctx context.Context, cell int64, repetition int) (out metrics.Steps, err error) {
	err = db.each(ctx, "SELECT at_ns, in_system FROM series WHERE cell = ? AND repetition = ? ORDER BY at_ns",
		[]any{cell, repetition}, func(rows *sql.Rows) error {
			var s metrics.Step
			err := rows.Scan(&s.At, &s.N)
			out = append(out, s)
			return err
		})
	return out, err
}

// Search is the outcome of a search for the largest value of a parameter at which the system is stable.
type Search struct {
	Params    map[string]string `json:"params"`
	Parameter string            `json:"parameter"`
	Value     *string           `json:"value"` // nil: it is stable at none
}

// Searches returns the searches that have ended.
func (db *DB) Searches(ctx context.Context) (out []Search, err error) {
	err = db.each(ctx, "SELECT params, parameter, value FROM searches ORDER BY params", nil,
		func(rows *sql.Rows) error {
			var s Search
			var params []byte
			if err := rows.Scan(&params, &s.Parameter, &s.Value); err != nil {
				return err
			}
			out = append(out, s)
			return json.Unmarshal(params, &out[len(out)-1].Params)
		})
	return out, err
}

func (db *DB) values(ctx context.Context, cell int64, repetition int) (out []metrics.Value, err error) {
	err = db.each(ctx, "SELECT metric, value FROM metrics WHERE cell = ? AND repetition = ? AND value IS NOT NULL",
		[]any{cell, repetition}, func(rows *sql.Rows) error {
			var v metrics.Value
			err := rows.Scan(&v.Name, &v.Value)
			out = append(out, v)
			return err
		})
	return out, err
}

func (db *DB) each(ctx context.Context, query string, args []any, f func(*sql.Rows) error) error {
	rows, err := db.sql.QueryContext(ctx, query, args...)
	if err != nil {
		return wrap("read", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return wrap("read", err)
		}
	}
	return wrap("read", rows.Err())
}
