package sqlite

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gantry/planner/predict"
)

// TrainedModel is a model and where it comes from.
type TrainedModel struct {
	Name      string          `json:"name"`
	Version   int             `json:"version"` // 1 is the first of its name
	Method    predict.Method  `json:"method"`
	Created   time.Time       `json:"created"`
	Gantry    string          `json:"gantry"`  // version
	Runtime   string          `json:"runtime"` // of the runs
	TimeScale float64         `json:"time_scale"`
	SizeScale float64         `json:"size_scale"`
	Runs      []string        `json:"runs"`               // that it was trained on
	Samples   int             `json:"samples"`            // attempts
	LeftOut   map[string]int  `json:"left_out,omitempty"` // other attempts, by the reason; not kept
	HeldOut   []string        `json:"held_out"`           // runs that the scores are of: then trained on the others
	Scores    []predict.Score `json:"scores"`
	Model     *predict.Model  `json:"model,omitempty"`
}

// Reference names the model for --estimator: NAME@VERSION.
func (m *TrainedModel) Reference() string { return fmt.Sprintf("%s@%d", m.Name, m.Version) }

// KeepModel stores a model as the next version of its name, which it sets.
func (db *DB) KeepModel(ctx context.Context, m *TrainedModel) error {
	return db.transact(func() error {
		last, err := db.queryInt("SELECT coalesce(max(version), 0) FROM models WHERE name = ?", m.Name)
		if err != nil {
			return err
		}
		m.Version = int(last) + 1
		return db.exec(`INSERT INTO models(name, version, method, created_wall, gantry, runtime, time_scale,
			size_scale, runs, samples, features, held_out, scores, model) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
			m.Name, m.Version, m.Method, wall(m.Created), m.Gantry, m.Runtime, m.TimeScale, m.SizeScale, asJSON{m.Runs},
			m.Samples, asJSON{m.Model.Features}, asJSON{m.HeldOut}, asJSON{m.Scores}, asJSON{m.Model})
	})
}

// Models lists the models of the log, the latest first, each with a nil Model.
func (db *DB) Models(ctx context.Context) ([]TrainedModel, error) {
	return db.models(ctx, "NULL", "ORDER BY id DESC")
}

// FindModel returns a model: NAME@VERSION, the latest version of NAME, or the latest model if name is "".
func (db *DB) FindModel(ctx context.Context, name string) (*TrainedModel, error) {
	base, version, has := strings.Cut(name, "@")
	where, args := "", []any{}
	if name != "" {
		where, args = "WHERE name = ?", append(args, base)
	}
	if has {
		n, err := strconv.Atoi(version)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("model %q: a version is a number from 1 on, as in %s@1", name, base)
		}
		where, args = where+" AND version = ?", append(args, n)
	}
	found, err := db.models(ctx, "model", where+" ORDER BY id DESC LIMIT 1", args...)
	if err != nil {
		return nil, err
	}
	if len(found) > 0 {
		if !found[0].Model.Current() {
			return nil, fmt.Errorf("model %s was trained by gantry %s, whose models this one does not know: train "+
				"a new one with gantry predict", found[0].Reference(), found[0].Gantry)
		}
		return &found[0], nil
	}
	all, err := db.Models(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, unknownf("the log has no models: gantry predict trains one on its runs")
	}
	known := make([]string, len(all))
	for i := range all {
		known[i] = all[i].Reference()
	}
	return nil, unknownf("no model %q in the log; known: %s", name, list(known, 10))
}

func (db *DB) models(ctx context.Context, model, where string, args ...any) ([]TrainedModel, error) {
	return RowsOf[TrainedModel](ctx, db, `SELECT name, version, method, created_wall, gantry, runtime, time_scale,
		size_scale, runs, samples, NULL, held_out, scores, `+model+` FROM models `+where, args...)
}
