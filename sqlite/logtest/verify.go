package logtest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
)

// mostProblems bounds the problems that Verify returns.
const mostProblems = 20

// Verify checks a log whose runs are all over: PRAGMA integrity_check, foreign keys, and that the rows of every run
// agree with its events. It returns the first problems found, none for a sound log. The error is that of reading the
// file.
func Verify(ctx context.Context, path string) (problems []string, err error) {
	raw, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro&_query_only=1"}).String())
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	for query, sound := range map[string]string{"PRAGMA integrity_check": "ok", "PRAGMA foreign_key_check": ""} {
		if err := scan(ctx, raw, query, func(rows *sql.Rows) error {
			columns, err := rows.Columns()
			if err != nil || len(problems) >= mostProblems {
				return err
			}
			values, places := make([]sql.NullString, len(columns)), make([]any, len(columns))
			for i := range values {
				places[i] = &values[i]
			}
			err = rows.Scan(places...)
			if err == nil && values[0].String != sound {
				problems = append(problems, fmt.Sprintf("%s: %v", query, values))
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	db, err := sqlite.Open(path, sqlite.ReadOnly)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	runs, err := db.Runs(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		found, err := compare(ctx, db, raw, r.Run)
		if err != nil {
			return nil, err
		}
		if problems = append(problems, found...); len(problems) >= mostProblems {
			return problems[:mostProblems], nil
		}
	}
	return problems, nil
}

// attemptRow has the fields that the events and the rows of an attempt share.
type attemptRow struct {
	task             planner.TaskID
	try              int32
	node             planner.NodeID
	started, ended   planner.Time
	outcome, message string
	exit             int
}

// taskRow is the same of a task.
type taskRow struct {
	attempts int
	last     planner.AttemptID
}

// compare replays the events of a run beside its rows.
func compare(ctx context.Context, db *sqlite.DB, raw *sql.DB, run string) (problems []string, err error) {
	var attempts []attemptRow
	var tasks []taskRow
	var workflows, files, plans, notes int
	err = db.Events(ctx, run, func(e planner.Event, admission *executor.Admission) error {
		switch b := e.Body.(type) {
		case *planner.WorkflowArrived:
			workflows, files = workflows+1, files+len(b.Files)
			for range b.Tasks {
				tasks = append(tasks, taskRow{last: planner.None})
			}
		case *planner.WorkflowGrown:
			files += len(b.Files)
			for range b.Tasks {
				tasks = append(tasks, taskRow{last: planner.None})
			}
		case *planner.PlanCommitted:
			plans, notes = plans+1, notes+len(b.Notes)
			for i := range b.Orders {
				if o := &b.Orders[i]; o.Kind == planner.OrderStart {
					attempts = append(attempts, attemptRow{task: o.Task, try: o.Try, node: o.Node, started: unit.Never,
						ended: unit.Never})
					tasks[o.Task].attempts++
					tasks[o.Task].last = o.Attempt
				}
			}
		case planner.AttemptStarted:
			attempts[b.Attempt].started = e.At
		case *planner.AttemptExited:
			a := &attempts[b.Attempt]
			a.ended, a.outcome, a.exit, a.message = b.Usage.Ended, b.Outcome.String(), b.ExitCode, b.Message
			a.started = b.Usage.Started
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	bad := func(format string, args ...any) {
		if len(problems) < mostProblems {
			problems = append(problems, "run "+run+": "+fmt.Sprintf(format, args...))
		}
	}
	var id, real int64
	if err := raw.QueryRowContext(ctx, "SELECT id, runtime <> 'sim' FROM runs WHERE name = ?", run).Scan(&id,
		&real); err != nil {
		return nil, err
	}
	counts := []struct {
		table string
		want  int
	}{{"workflows", workflows}, {"tasks", len(tasks)}, {"files", files}, {"attempts", len(attempts)}, {"notes", notes},
		{"plans", plans}}
	if real == 0 {
		counts = counts[:len(counts)-1] // simulations keep no rows of rounds
	}
	for _, c := range counts {
		var have int
		if err := raw.QueryRowContext(ctx, "SELECT count(*) FROM "+c.table+" WHERE run = ?",
			id).Scan(&have); err != nil {
			return nil, err
		}
		if have != c.want {
			bad("%d rows in %s, the events say %d", have, c.table, c.want)
		}
	}
	err = scan(ctx, raw, "SELECT attempt, task, try, node, started_ns, ended_ns, coalesce(outcome, ''), "+
		"coalesce(exit_code, -1), coalesce(message, '') "+
		"FROM attempts WHERE run = ? ORDER BY attempt", func(rows *sql.Rows) error {
		var n int
		var a attemptRow
		var started, ended sql.NullInt64
		if err := rows.Scan(&n, &a.task, &a.try, &a.node, &started, &ended, &a.outcome, &a.exit,
			&a.message); err != nil {
			return err
		}
		a.started, a.ended = reached(started), reached(ended)
		if n >= len(attempts) {
			bad("attempt %d was never ordered", n)
		} else if attempts[n] != a {
			bad("attempt %d has the row %+v, the events say %+v", n, a, attempts[n])
		}
		return nil
	}, id)
	if err != nil {
		return nil, err
	}
	err = scan(ctx, raw, "SELECT task, state, attempts, coalesce(attempt, -1) FROM tasks WHERE run = ? ORDER BY task",
		func(rows *sql.Rows) error {
			var n int
			var state string
			var t taskRow
			if err := rows.Scan(&n, &state, &t.attempts, &t.last); err != nil {
				return err
			}
			if n >= len(tasks) || tasks[n] != t {
				bad("task %d has the row %+v, the events say otherwise", n, t)
				return nil
			}
			ok := t.attempts > 0 && attempts[t.last].outcome == planner.OK.String()
			if ok != (state == "done") {
				bad("task %d is %s, and its last attempt ended with %q", n, state, attempts[max(t.last, 0)].outcome)
			}
			return nil
		}, id)
	return problems, err
}

func reached(ns sql.NullInt64) planner.Time {
	if !ns.Valid {
		return unit.Never
	}
	return planner.Time(ns.Int64)
}

func scan(ctx context.Context, raw *sql.DB, query string, each func(*sql.Rows) error, args ...any) error {
	rows, err := raw.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
