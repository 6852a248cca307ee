package sqlite

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"gantry/planner"
)

// Span is a duration that JSON has as seconds.
type Span time.Duration

// Scan reads a whole number of nanoseconds, or a real one of seconds.
func (s *Span) Scan(v any) error {
	switch v := v.(type) {
	case int64:
		*s = Span(v)
	case float64:
		*s = Span(math.Round(v * 1e9))
	default:
		return fmt.Errorf("%T where a time was expected", v)
	}
	return nil
}

// MarshalJSON writes seconds.
func (s Span) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', -1, 64), nil
}

// Overview is a run in a list of runs. Makespan is nil unless the run ended; Clock is how far the run got on its own
// axis.
type Overview struct {
	Run       string   `json:"run"`
	Runtime   string   `json:"runtime"`
	Policy    string   `json:"policy"`
	State     State    `json:"state"`
	Started   string   `json:"started"` // RFC 3339, UTC
	Workflows int      `json:"workflows"`
	Tasks     int      `json:"tasks"`
	Done      int      `json:"done"`
	Running   int      `json:"running"` // starting, running or suspended
	Failed    int      `json:"failed"`
	Skipped   int      `json:"skipped"`
	ExitCode  *int     `json:"exit_code"`
	Makespan  *Span    `json:"makespan_s"`
	Clock     Span     `json:"clock_s"`
	Names     []string `json:"workflow_names"` // of the first three
	// HostModel is that of the settings: simulations and estimates on containers take it. Nil: none.
	HostModel *ModelUsed `json:"host_model"`
	// Disk is the space that the files of the run take on disk; nil if nobody asked. The log does not have it.
	Disk *int64 `json:"disk_bytes,omitempty"`
}

// ModelUsed names a host model, as runs.settings have it.
type ModelUsed struct {
	Host     string    `json:"host"`
	Cores    int       `json:"cores"`
	Measured time.Time `json:"measured"`
	Warnings []string  `json:"warnings"` // why the host was too busy to be measured well; nil: it was at rest
}

// String names a model on one line; nil is none.
func (m *ModelUsed) String() string {
	if m == nil {
		return "none"
	}
	name := m.Host + " " + m.Measured.UTC().Format("2006-01-02 15:04")
	if len(m.Warnings) > 0 {
		name += " (busy)"
	}
	return name
}

const overviewQuery = `SELECT r.name, r.runtime, r.policy, r.state, r.started_wall, r.exit_code, r.makespan_ns,
	coalesce(r.ended_ns, (SELECT k.at_ns FROM clocks k WHERE k.run = r.id), 0),
	(SELECT json_group_array(name) FROM (SELECT w.name FROM workflows w WHERE w.run = r.id AND w.state <> 'continued'
		ORDER BY w.workflow LIMIT 3)),
	(SELECT n.counts FROM run_counts n WHERE n.run = r.id),
	iif(r.settings -> '$.host_model' IS NULL, 'null', json_object(
		'host', r.settings -> '$.host_model.host.name', 'cores', r.settings -> '$.host_model.host.cores',
		'measured', r.settings -> '$.host_model.measured.at',
		'warnings', r.settings -> '$.host_model.measured.warnings'))
	FROM runs r `

func (db *DB) overviews(ctx context.Context, which string, args ...any) (all []Overview, err error) {
	all = []Overview{}
	err = db.Each(ctx, func(scan Scan) error {
		var o Overview
		var n map[string]int
		err := scan(&o.Run, &o.Runtime, &o.Policy, &o.State, &o.Started, &o.ExitCode, &o.Makespan, &o.Clock,
			asJSON{&o.Names}, asJSON{&n}, asJSON{&o.HostModel})
		o.Workflows, o.Done, o.Failed, o.Skipped = n["workflows"], n["done"], n["failed"], n["skipped"]
		o.Running = n["starting"] + n["running"] + n["suspended"]
		o.Tasks = o.Done + o.Failed + o.Skipped + o.Running + n["waiting"]
		all = append(all, o)
		return err
	}, overviewQuery+which, args...)
	return all, err
}

// Runs lists all runs, the newest first.
func (db *DB) Runs(ctx context.Context) ([]Overview, error) {
	return db.overviews(ctx, "ORDER BY r.id DESC")
}

// State is how a run stands; it costs little.
func (db *DB) State(ctx context.Context, run string) (State, error) {
	state, err := RowOf[State](ctx, db, "SELECT state FROM runs WHERE name = ?", run)
	if err == nil && state == "" {
		err = db.unknownRun(ctx, run)
	}
	return state, err
}

// Overview is one run, given by its whole name.
func (db *DB) Overview(ctx context.Context, run string) (*Overview, error) {
	all, err := db.overviews(ctx, "WHERE r.name = ?", run)
	if err == nil && len(all) == 0 {
		err = db.unknownRun(ctx, run)
	}
	return &append(all, Overview{})[0], err
}

// PolicyChange says which policy planned from an instant on.
type PolicyChange struct {
	Seq    uint64       `json:"seq"` // of the event
	At     planner.Time `json:"at_ns"`
	Policy string       `json:"policy"`
}

// Policies returns those that planned a run, in turn; none if there was one alone. The run is given as in Find.
func (db *DB) Policies(ctx context.Context, run string) ([]PolicyChange, error) {
	return rowsOfRun[PolicyChange](ctx, db, run, `SELECT 0 AS seq, 0, settings ->> '$.policy' FROM runs
		WHERE id = ?1 AND EXISTS (SELECT 1 FROM policies WHERE run = ?1)
		UNION ALL SELECT seq, at_ns, policy FROM policies WHERE run = ?1 ORDER BY seq`)
}

// rowsOfRun reads the rows of a query about a run, given as in Find.
func rowsOfRun[T any](ctx context.Context, db *DB, run, query string) ([]T, error) {
	id, _, err := db.Find(ctx, run)
	if err != nil {
		return nil, err
	}
	return RowsOf[T](ctx, db, query, id)
}
