package logtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"gantry/executor"
	"gantry/planner"
	"gantry/sqlite"
)

// follows has the tables whose rows follow from the events, with the condition of those that do.
var follows = map[string]string{"workflows": "TRUE", "growths": "TRUE", "tasks": "TRUE", "attempts": "TRUE",
	"files": "TRUE", "replicas": "TRUE", "waits": "TRUE", "suspensions": "TRUE", "notes": "TRUE",
	"policies": "TRUE", "reuses": "from_attempt IS NOT NULL"}

// facts are queries of bodies of events, and of the rows that say the same, in a database called log.
var facts = [][3]string{
	{"attempts by orders", `SELECT json_array(e.run, coalesce(o.value ->> 1, 0), coalesce(o.value ->> 2, 0),
			coalesce(o.value ->> 3, 0), coalesce(o.value ->> 4, 0), coalesce(o.value ->> 5, 0)) AS row
		FROM log.events e, json_each(e.body, '$.orders') o WHERE e.kind = 9 AND o.value ->> 0 = 1`,
		`SELECT json_array(run, attempt, task, node, try, hold_millicores) AS row FROM log.attempts`},
	{"attempts by ends", `SELECT json_array(run, subject, coalesce(body ->> 'outcome', 1) = 1,
			nullif(coalesce(body ->> 'exit_code', 0), -1)) AS row FROM log.events WHERE kind = 5`,
		`SELECT json_array(run, attempt, outcome = 'ok', exit_code) AS row FROM log.attempts
			WHERE outcome IS NOT NULL`},
	{"tasks by ends", `SELECT json_array(a.run, a.task) AS row FROM log.events e
			JOIN log.attempts a ON a.run = e.run AND a.attempt = e.subject
			WHERE e.kind = 5 AND coalesce(e.body ->> 'outcome', 1) = 1
		UNION SELECT json_array(run, subject) FROM log.events WHERE kind = 12
		EXCEPT SELECT json_array(run, task) FROM log.tasks WHERE state = 'continued'`,
		`SELECT json_array(run, task) AS row FROM log.tasks WHERE state = 'done'`},
}

// mostWrong is how many rows of a table are reported.
const mostWrong = 5

// Check returns an error for each thing that is wrong with a log: SQLite's integrity_check, foreign keys, and, in every
// run, rows that are not as its events say. It writes the events to a second log, as those of one batch, and compares
// the rows of both. The writer itself may be wrong: some rows are compared with the bodies of events, too. The log may
// be one that a gantry is writing to, if that is a real run.
func Check(ctx context.Context, path string) error {
	dir, err := os.MkdirTemp("", "gantry-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	now, second := filepath.Join(dir, "now.sqlite"), filepath.Join(dir, "second.sqlite")
	log, err := raw(path)
	if err != nil {
		return err
	}
	defer log.Close()
	// Nobody writes to a copy.
	if _, err := log.ExecContext(ctx, "VACUUM INTO ?", now); err != nil {
		return fmt.Errorf("copy log %s: %w", path, err)
	}
	wrong := []error{said(ctx, log, "SELECT 'integrity_check: ' || integrity_check FROM pragma_integrity_check "+
		"WHERE integrity_check <> 'ok'"),
		said(ctx, log, "SELECT 'foreign_key_check: ' || \"table\" || ', row ' || coalesce(rowid, '?') || ', ' || "+
			"parent FROM pragma_foreign_key_check"),
		said(ctx, log, "SELECT 'run_counts: ' || name || ': ' || counted || ' tasks done, ' || there || ' in rows' "+
			"FROM (SELECT r.name, coalesce(n.counts ->> '$.done', 0) AS counted, (SELECT count(*) FROM tasks t "+
			"WHERE t.run = r.id AND t.state = 'done') AS there FROM runs r JOIN run_counts n ON n.run = r.id) "+
			"WHERE counted <> there")}
	wrong = append(wrong, rewrite(ctx, now, second))
	again, err := raw(second)
	if err != nil {
		return errors.Join(append(wrong, err)...)
	}
	defer again.Close()
	if _, err := again.ExecContext(ctx, "ATTACH DATABASE ? AS log", now); err != nil {
		return errors.Join(append(wrong, err)...)
	}
	differ := func(what, events, rows string) {
		for _, c := range [][3]string{{rows, events, "is not as the events say"}, {events, rows, "is missing"}} {
			wrong = append(wrong, said(ctx, again, fmt.Sprintf(`SELECT '%s: ' || row || ' %s'
				FROM (SELECT * FROM (%s) EXCEPT SELECT * FROM (%s)) WHERE row ->> 0 NOT IN
					(SELECT id FROM log.runs WHERE runtime = 'sim' AND state = 'running') LIMIT %d`,
				what, c[2], c[0], c[1], mostWrong)))
		}
	}
	for _, f := range facts {
		differ(f[0], f[1], f[2])
	}
	for table, which := range follows {
		var row string
		if err := again.QueryRowContext(ctx, "SELECT group_concat('t.' || name) FROM pragma_table_info(?) WHERE name "+
			"NOT IN ('run', 'definition', 'identity', 'command')", table).Scan(&row); err != nil {
			return err
		}
		rows := func(log string) string {
			return fmt.Sprintf("SELECT json_array(r.name, %s) AS row FROM %s.runs r JOIN %[2]s.%s t ON t.run = r.id "+
				"WHERE %s AND r.name IN (SELECT name FROM main.runs)", row, log, table, which)
		}
		differ(table, rows("main"), rows("log"))
	}
	return errors.Join(wrong...)
}

func raw(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro"}).String())
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// said is an error for each text that a query finds.
func said(ctx context.Context, db *sql.DB, query string) error {
	reader := &sqlite.Reader{From: db, Failed: func(err error) error { return err }}
	texts, err := sqlite.RowsOf[string](ctx, reader, query)
	errs := []error{err}
	for _, s := range texts {
		errs = append(errs, errors.New(s))
	}
	return errors.Join(errs...)
}

// rewrite writes the runs of a log to a second one, by their events, but for a simulation under way: its last rows are
// missing, as FORMAT.md says.
func rewrite(ctx context.Context, from, to string) error {
	log, err := sqlite.Open(from, sqlite.ReadOnly)
	if err != nil {
		return err
	}
	defer log.Close()
	second, err := sqlite.Open(to, sqlite.Bulk)
	if err != nil {
		return err
	}
	defer second.Close()
	runs, err := sqlite.RowsOf[string](ctx, log, "SELECT name FROM runs WHERE runtime <> 'sim' OR state <> 'running'")
	errs := []error{err}
	for _, run := range runs {
		if err := rewriteRun(ctx, log, second, run); err != nil {
			errs = append(errs, fmt.Errorf("run %s: %w", run, err))
		}
	}
	return errors.Join(errs...)
}

func rewriteRun(ctx context.Context, from, to *sqlite.DB, run string) error {
	info, err := from.Info(ctx, run)
	if err != nil {
		return err
	}
	state, err := from.State(ctx, run)
	if err != nil {
		return err
	}
	ended, err := sqlite.RowsOf[planner.WorkflowID](ctx, from, "SELECT w.workflow FROM runs r JOIN workflows w ON "+
		"w.run = r.id AND w.state IN ('failed', 'cancelled', 'refused') WHERE r.name = ?", run) // no event says that
	if err != nil {
		return err
	}
	again, err := to.CreateRun(ctx, info)
	if err != nil {
		return err
	}
	err = from.Events(ctx, run, func(e planner.Event, a *executor.Admission) error {
		b := executor.Batch{Events: []planner.Event{e}}
		if a != nil {
			b.Admissions = []*executor.Admission{a}
		}
		return again.Append(ctx, b)
	})
	if err == nil {
		err = again.Append(ctx, executor.Batch{Failed: ended})
	}
	return errors.Join(err, again.Finish(ctx, state, 0))
}
