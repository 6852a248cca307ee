package results

import (
	"context"
	"database/sql"
	"encoding/json"

	"gantry/executor/experiment"
	"gantry/executor/experiment/metrics"
	"gantry/sqlite"
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
func (db *DB) Cells(ctx context.Context) (cells []*Cell, err error) {
	rows, err := sqlite.RowsOf[struct {
		ID     int64
		Params sqlite.JSON[map[string]string]
		Inputs string
	}](ctx, db, "SELECT cell, params, coalesce(key ->> '$.inputs', '') FROM cells WHERE wanted ORDER BY cell")
	if err != nil {
		return nil, err
	}
	runs, err := sqlite.RowsOf[struct {
		Cell int64
		Run  Run
	}](ctx, db, "SELECT r.cell, r.repetition, state, message, coalesce(version, '') FROM runs r "+
		"LEFT JOIN builds b ON b.cell = r.cell AND b.repetition = r.repetition ORDER BY r.cell, r.repetition")
	if err != nil {
		return nil, err
	}
	values, err := sqlite.RowsOf[struct {
		Cell       int64
		Repetition int
		metrics.Value
	}](ctx, db, "SELECT cell, repetition, metric, value FROM metrics WHERE value IS NOT NULL")
	if err != nil {
		return nil, err
	}
	byID := map[int64]*Cell{}
	for _, r := range rows {
		c := &Cell{ID: r.ID, Params: r.Params.V, Inputs: r.Inputs}
		cells, byID[c.ID] = append(cells, c), c
	}
	for _, r := range runs {
		if c := byID[r.Cell]; c != nil {
			r.Run.Values = map[string]float64{}
			c.Runs = append(c.Runs, r.Run)
		}
	}
	for _, v := range values {
		if c := byID[v.Cell]; c != nil {
			for i := range c.Runs {
				if c.Runs[i].Repetition == v.Repetition {
					c.Runs[i].Values[v.Name] = v.Value.Value
				}
			}
		}
	}
	return cells, nil
}

// Point is the size of a workflow, in tasks, its slowdown, and its parallelism: its work over the length of its
// critical path.
type Point struct{ Tasks, Slowdown, Parallelism float64 }

// Slowdowns returns the points of the workflows of a cell, of all repetitions; none if they were not kept.
func (db *DB) Slowdowns(ctx context.Context, cell int64) ([]Point, error) {
	return sqlite.RowsOf[Point](ctx, db, `SELECT tasks, 1.0 * (ended_ns - arrived_ns) / critical_path_ns,
		1.0 * work_ns / critical_path_ns FROM workflows WHERE cell = ? AND critical_path_ns > 0
		ORDER BY repetition, workflow`, cell)
}

// Series returns the number of workflows in the system over time in one repetition; none if it was not kept.
func (db *DB) Series(ctx context.Context, cell int64, repetition int) (metrics.Steps, error) {
	return sqlite.RowsOf[metrics.Step](ctx, db,
		"SELECT at_ns, in_system FROM series WHERE cell = ? AND repetition = ? ORDER BY at_ns", cell, repetition)
}

// Search is the outcome of a search for the largest value of a parameter at which the system is stable.
type Search struct {
	Params    map[string]string `json:"params"`
	Parameter string            `json:"parameter"`
	Value     *string           `json:"value"` // nil: it is stable at none
}

// Searches returns the searches that have ended.
func (db *DB) Searches(ctx context.Context) (out []Search, err error) {
	rows, err := sqlite.RowsOf[struct {
		Params    sqlite.JSON[map[string]string]
		Parameter string
		Value     *string
	}](ctx, db, "SELECT params, parameter, value FROM searches ORDER BY params")
	for _, r := range rows {
		out = append(out, Search{r.Params.V, r.Parameter, r.Value})
	}
	return out, err
}

func (db *DB) values(ctx context.Context, cell int64, repetition int) ([]metrics.Value, error) {
	return sqlite.RowsOf[metrics.Value](ctx, db,
		"SELECT metric, value FROM metrics WHERE cell = ? AND repetition = ? AND value IS NOT NULL", cell, repetition)
}

// Query implements sqlite.Asked.
func (db *DB) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	rows, err := db.sql.QueryContext(ctx, query, args...)
	return rows, wrap("read", err)
}

// EachOf implements sqlite.Asked.
func (db *DB) EachOf(rows *sql.Rows, f func(sqlite.Scan) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return wrap("read", err)
		}
	}
	return wrap("read", rows.Err())
}
