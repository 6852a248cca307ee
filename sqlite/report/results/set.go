package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"gantry/executor/experiment"
	"gantry/executor/experiment/metrics"
	"gantry/sqlite"
)

// Set is the results of an experiment, in memory: of a file of results, or of its short form, whose first line has the
// members with names.
type Set struct {
	Name        string                  `json:"experiment"`
	Title       string                  `json:"title"`
	Source      string                  `json:"source"`
	Quick       bool                    `json:"quick,omitempty"`
	Repetitions int                     `json:"repetitions"`        // of each cell, as the experiment asks; 0: unknown
	Settings    json.RawMessage         `json:"settings,omitempty"` // that all runs share, limits among them
	Builds      []string                `json:"builds"`             // the builds that simulated the runs, by first use
	Checks      []Check                 `json:"checks,omitempty"`   // of runs by earlier builds; in short forms alone
	From        string                  `json:"from"`               // when the first run ended, UTC; "": unknown
	To          string                  `json:"to"`                 // when the last one did
	Took        time.Duration           `json:"-"`                  // sum of the wall time of the runs
	Searches    []Search                `json:"searches,omitempty"` // that have ended
	Version     string                  `json:"-"`                  // of the gantry that wrote last
	Cells       []*Cell                 `json:"-"`                  // the wanted ones, in the order of the experiment
	Dots        map[int64][]Point       `json:"-"`
	Series      map[int64]metrics.Steps `json:"-"` // workflows in the system in the first repetition, where it was kept
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
	Build      string // that simulated it; "": unknown
	Values     map[string]float64
}

// Point is the size of a workflow, in tasks, its slowdown, and its parallelism: its work over the length of its
// critical path.
type Point struct{ Tasks, Slowdown, Parallelism float64 }

// Search is the outcome of a search for the largest value of a parameter at which the system is stable.
type Search struct {
	Params    map[string]string `json:"params"`
	Parameter string            `json:"parameter"`
	Value     *string           `json:"value"` // nil: it is stable at none
}

// Check says that a build repeated a sample of the runs of earlier builds, and that these came out the same digit for
// digit.
type Check struct {
	Earlier []string `json:"earlier"`
	Build   string   `json:"build"`
	Runs    int      `json:"runs"`
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

// Load reads the results of an experiment: a file of gantry experiment, also while it is written, or its short form.
func Load(ctx context.Context, path string) (*Set, error) {
	s, err := load(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("results %s: %w", path, err)
	}
	return s, nil
}

func load(ctx context.Context, path string) (*Set, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("there is no such file: gantry experiment makes one")
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	first := make([]byte, 1)
	if n, _ := f.ReadAt(first, 0); n == 1 && first[0] == '{' {
		return readShort(f)
	}
	d, err := open(path, toRead)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := known(d); err != nil {
		return nil, err
	}
	return read(ctx, readerOf(d))
}

func read(ctx context.Context, db sqlite.Asked) (*Set, error) {
	s, err := sqlite.RowOf[Set](ctx, db, `WITH built AS (SELECT b.version, min(b.ended_wall) AS first,
			max(b.ended_wall) AS last FROM builds b JOIN cells c ON c.cell = b.cell WHERE c.wanted GROUP BY 1)
		SELECT name, title, source, coalesce(settings ->> '$.quick', 0),
			coalesce((SELECT repetitions FROM asked), 0), settings,
			(SELECT json_group_array(version) FROM (SELECT version FROM built ORDER BY first)), NULL,
			coalesce((SELECT min(first) FROM built), ''), coalesce((SELECT max(last) FROM built), ''),
			(SELECT coalesce(sum(r.took_ns), 0) FROM runs r JOIN cells c ON c.cell = r.cell WHERE c.wanted),
			(SELECT nullif(json_group_array(json_object('params', json(params), 'parameter', parameter,
				'value', value)), '[]') FROM (SELECT * FROM searches ORDER BY params)), version FROM experiment`)
	if err != nil {
		return nil, err
	}
	q, cells := sqlite.Ask(ctx, db), map[int64]*Cell{}
	var all []Cell
	sqlite.Into(q, &all, `SELECT cell, params, coalesce(key ->> '$.inputs', '') FROM cells WHERE wanted ORDER BY cell`)
	for i := range all {
		cells[all[i].ID] = &all[i]
		s.Cells = append(s.Cells, &all[i])
	}
	runs(q, cells)
	s.Dots, s.Series = map[int64][]Point{}, map[int64]metrics.Steps{}
	sqlite.For(q, func(r *struct {
		Cell int64
		Point
	}) error {
		s.Dots[r.Cell] = append(s.Dots[r.Cell], r.Point)
		return nil
	}, `SELECT cell, tasks, 1.0 * (ended_ns - arrived_ns) / critical_path_ns, 1.0 * work_ns / critical_path_ns
		FROM workflows WHERE critical_path_ns > 0 ORDER BY cell, repetition, workflow`)
	sqlite.For(q, func(r *struct {
		Cell int64
		metrics.Step
	}) error {
		s.Series[r.Cell] = append(s.Series[r.Cell], r.Step)
		return nil
	}, "SELECT cell, at_ns, in_system FROM series WHERE repetition = 0 ORDER BY cell, at_ns")
	return &s, q.Err
}

// runs reads the runs of cells, with the metrics that they have.
func runs(q *sqlite.Questions, cells map[int64]*Cell) {
	sqlite.For(q, func(r *struct {
		Cell int64
		Run
		Metric *string
		Value  float64
	}) error {
		c := cells[r.Cell]
		if c == nil {
			return nil
		}
		if n := len(c.Runs); n == 0 || c.Runs[n-1].Repetition != r.Repetition {
			r.Values = map[string]float64{}
			c.Runs = append(c.Runs, r.Run)
		}
		if r.Metric != nil {
			c.Runs[len(c.Runs)-1].Values[*r.Metric] = r.Value
		}
		return nil
	}, `SELECT r.cell, r.repetition, r.state, coalesce(b.version, ''), NULL, m.metric, coalesce(m.value, 0)
		FROM runs r LEFT JOIN builds b ON b.cell = r.cell AND b.repetition = r.repetition
		LEFT JOIN metrics m ON m.cell = r.cell AND m.repetition = r.repetition AND m.value IS NOT NULL
		ORDER BY r.cell, r.repetition`)
}
