package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"time"
)

// Measurement is how long a program ran that ended well.
type Measurement struct {
	Kind  string
	Ran   time.Duration // the program alone, suspensions not counted
	Speed float64       // of the node it ran on
}

// History returns what earlier runs of the log measured, at most so many of each kind of task, the latest ones, oldest first. Earlier
// runs are those that began before this one on the same kind of runtime and at the same time and size scale: a simulation teaches
// nothing about containers, and an emulated second is no other scale's second. The same run always gets the same, unless an earlier one
// was still going on when it asked first.
func (r *Run) History(ctx context.Context, latest int) ([]Measurement, error) {
	return r.db.history(ctx, r.id, latest)
}

// HistoryOf returns what Run.History gives the run of that name.
func (db *DB) HistoryOf(ctx context.Context, run string, latest int) ([]Measurement, error) {
	id, _, err := db.find(ctx, run)
	if err != nil {
		return nil, err
	}
	return db.history(ctx, id, latest)
}

func (db *DB) history(ctx context.Context, id int64, latest int) ([]Measurement, error) {
	out, err := collect(ctx, db, func(rows *sql.Rows) (m Measurement, err error) {
		return m, rows.Scan(&m.Kind, &m.Ran, &m.Speed)
	}, `SELECT kind, ran_ns, speed FROM (
			SELECT t.kind, CAST(round(a.ran_ns / (1 - iif(a.done < 1, a.done, 0))) AS INTEGER) AS ran_ns, n.speed, a.run, a.ended_ns, a.attempt,
				row_number() OVER (PARTITION BY t.kind ORDER BY a.run DESC, a.ended_ns DESC, a.attempt DESC) AS recency
			FROM runs own
			JOIN runs r ON r.id < own.id AND r.runtime = own.runtime AND r.time_scale = own.time_scale AND r.size_scale = own.size_scale
			JOIN attempts a ON a.run = r.id AND a.outcome = 'ok' AND a.ran_ns IS NOT NULL
			JOIN tasks t ON t.run = a.run AND t.task = a.task
			JOIN nodes n ON n.run = a.run AND n.node = a.node
			WHERE own.id = ?)
		WHERE recency <= ? ORDER BY run DESC, ended_ns DESC, attempt DESC`, id, latest)
	slices.Reverse(out)
	return out, err
}
