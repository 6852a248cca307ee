// Package results keeps the results of experiments in a SQLite file of its own: one transaction per run, so that an
// interruption loses no run that has ended. schema.sql describes the file.
package results

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver
	"golang.org/x/sys/unix"

	"gantry/executor/experiment"
	"gantry/executor/experiment/metrics"
	"gantry/sqlite"
)

//go:embed schema.sql
var schema string

const schemaVersion = 2

// applicationID marks the files of this package: "gexp".
const applicationID = 0x67657870

var (
	// ErrHeld means that another process writes the file.
	ErrHeld = errors.New("another gantry writes it: wait until it has ended, or choose another file")
	// ErrOther means that the file has other results, or is no file of results.
	ErrOther = errors.New("choose another file, or remove it")
)

// Info says whose results a file has.
type Info struct {
	Name, Title, Source, Version string
	// Settings are shared by all results of one file; a file with others is refused.
	Settings any
	// Repetitions is how many the experiment asks for; 0 if the file does not have it.
	Repetitions int
}

// DB is a file of results. The methods of a writer are called from one goroutine at a time.
type DB struct {
	sql     *sql.DB
	lock    *os.File
	cells   map[string]int64 // by key
	version string           // of the build that writes
	earlier *Earlier         // runs of which are taken over; nil: none
}

var _ experiment.Store = (*DB)(nil)

// Create opens a file of results for writing, and makes it if there is none. Only one process may at a time.
func Create(path string, info Info) (*DB, error) {
	fail := func(err error) (*DB, error) { return nil, fmt.Errorf("results %s: %w", path, err) }
	text, err := json.Marshal(info.Settings)
	if err != nil {
		return fail(err)
	}
	// The lock is on the file itself, and ends with the process. It is another kind than SQLite's own.
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return fail(err)
	}
	db := &DB{lock: lock, cells: map[string]int64{}, version: info.Version}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return fail(ErrHeld)
		}
		return fail(err)
	}
	if db.sql, err = open(path,
		"mode=rwc&_journal_mode=WAL&_synchronous=NORMAL&_foreign_keys=1&_busy_timeout=30000&_txlock="+
			"immediate"); err != nil {
		lock.Close()
		return fail(err)
	}
	db.sql.SetMaxOpenConns(1)
	if err := db.prepare(info, string(text)); err != nil {
		db.Close()
		return fail(err)
	}
	return db, nil
}

// Open opens a file of results for reading, also while it is written.
func Open(path string) (*DB, error) {
	fail := func(err error) (*DB, error) { return nil, fmt.Errorf("results %s: %w", path, err) }
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fail(errors.New("there is no such file: gantry experiment makes one"))
		}
		return fail(err)
	}
	d, err := open(path, "mode=ro&_query_only=1&_busy_timeout=30000")
	if err != nil {
		return fail(err)
	}
	if err := known(d); err != nil {
		d.Close()
		return fail(err)
	}
	return &DB{sql: d}, nil
}

func open(path, query string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: abs, RawQuery: query}).String())
}

// IsResults reports whether a file has results of an experiment.
func IsResults(path string) bool {
	d, err := open(path, "mode=ro&_query_only=1")
	if err != nil {
		return false
	}
	defer d.Close()
	return known(d) == nil
}

func known(d *sql.DB) error {
	var id, version int
	if err := d.QueryRow("PRAGMA application_id").Scan(&id); err != nil {
		return fmt.Errorf("it is no file of results; the short form of --save works with --markdown and --html: %w",
			err)
	}
	if id != applicationID {
		return errors.New("it is no file of results of gantry experiment")
	}
	if err := d.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version != schemaVersion {
		return fmt.Errorf("it has format %d, this gantry knows %d", version, schemaVersion)
	}
	return nil
}

func (db *DB) prepare(info Info, settings string) error {
	var tables int
	if err := db.sql.QueryRow("SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return fmt.Errorf("it is no file of results: %w; %w", err, ErrOther)
	}
	if tables == 0 {
		return db.transact(func(tx *sql.Tx) error {
			if _, err := tx.Exec(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID,
				schemaVersion) + schema); err != nil {
				return err
			}
			_, err := tx.Exec("INSERT INTO asked VALUES (?); INSERT INTO experiment VALUES (?,?,?,?,?,?)",
				info.Repetitions, info.Name, info.Title, info.Source, settings, info.Version, now())
			return err
		})
	}
	if err := known(db.sql); err != nil {
		return fmt.Errorf("%w; %w", err, ErrOther)
	}
	var name, have string
	if err := db.sql.QueryRow("SELECT name, settings FROM experiment").Scan(&name, &have); err != nil {
		return err
	}
	if name != info.Name || have != settings {
		return fmt.Errorf("it has results of experiment %s with %s, not of %s with %s: %w", name, have, info.Name,
			settings, ErrOther)
	}
	return db.transact(func(tx *sql.Tx) error {
		_, err := tx.Exec("UPDATE cells SET wanted = 0; DELETE FROM searches; UPDATE asked SET repetitions = ?; "+
			"UPDATE experiment SET title = ?, source = ?, version = ?", info.Repetitions, info.Title, info.Source,
			info.Version)
		return err
	})
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// Close ends the use of the file.
func (db *DB) Close() error {
	err := db.sql.Close()
	if db.lock != nil {
		err = errors.Join(err, db.lock.Close())
	}
	return err
}

func (db *DB) transact(f func(tx *sql.Tx) error) error {
	tx, err := db.sql.Begin()
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func object(params []experiment.Param) string {
	m := map[string]string{}
	for _, p := range params {
		m[p.Name] = p.Value
	}
	text, _ := json.Marshal(m) // of a map of strings: it cannot fail
	return string(text)
}

// Plan implements experiment.Store. In a new file the number of a cell is its position, whenever a search came to it.
func (db *DB) Plan(ctx context.Context, cells []*experiment.Cell) error {
	err := db.transact(func(tx *sql.Tx) error {
		for _, c := range cells {
			var id int64
			err := tx.QueryRowContext(ctx, `INSERT INTO cells (cell, key, params, wanted) VALUES
				((SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM cells WHERE cell = ?1)),?2,?3,1)
				ON CONFLICT (key) DO UPDATE SET wanted = 1 RETURNING cell`,
				c.Position, c.Key(), object(c.Params)).Scan(&id)
			if err != nil {
				return err
			}
			db.cells[c.Key()] = id
		}
		return nil
	})
	return wrap("plan", err)
}

// Kept implements experiment.Store. A run that failed counts as not run.
func (db *DB) Kept(ctx context.Context, c *experiment.Cell, repetition int) (*experiment.Outcome, error) {
	id := db.cells[c.Key()]
	o := &experiment.Outcome{Cell: c, Repetition: repetition}
	err := db.sql.QueryRowContext(ctx, "SELECT state, message FROM runs WHERE cell = ? AND repetition = ? AND state "+
		"<> ?", id, repetition,
		experiment.Failed).Scan(&o.State, &o.Message)
	if errors.Is(err, sql.ErrNoRows) {
		return db.takeOver(ctx, c, repetition)
	}
	if err != nil {
		return nil, wrap("look up a run", err)
	}
	if o.Values, err = db.values(ctx, id, repetition); err != nil {
		return nil, wrap("look up a run", err)
	}
	return o, nil
}

// Keep implements experiment.Store.
func (db *DB) Keep(ctx context.Context, o *experiment.Outcome) error {
	return db.keep(ctx, o, db.version, now())
}

// keep keeps an outcome of a build that was there at an instant of the wall clock.
func (db *DB) keep(ctx context.Context, o *experiment.Outcome, version, ended string) error {
	id, rep := db.cells[o.Cell.Key()], o.Repetition
	err := db.transact(func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM runs WHERE cell = ? AND repetition = ?; "+
			"INSERT INTO runs VALUES (?,?,?,?,?); INSERT INTO builds VALUES (?,?,?,?)", id, rep, id, rep, o.State,
			o.Message, int64(o.Took), id, rep, version, ended); err != nil {
			return err
		}
		insert := func(text string, n int, row func(i int) []any) error {
			if n == 0 {
				return nil
			}
			stmt, err := tx.PrepareContext(ctx, text)
			if err != nil {
				return err
			}
			defer stmt.Close()
			for i := range n {
				if _, err := stmt.ExecContext(ctx, row(i)...); err != nil {
					return err
				}
			}
			return nil
		}
		return errors.Join(
			insert("INSERT INTO metrics VALUES (?,?,?,?)", len(o.Values), func(i int) []any {
				v := &o.Values[i]
				return []any{id, rep, v.Name, sql.NullFloat64{Float64: v.Value, Valid: !math.IsNaN(v.Value) &&
					!math.IsInf(v.Value, 0)}}
			}),
			insert("INSERT INTO workflows VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", len(o.Workflows), func(i int) []any {
				w := &o.Workflows[i]
				return []any{id, rep, w.ID, w.Label, w.Tenant, w.Tasks, int64(w.Arrived), int64(w.Started),
					int64(w.Ended), int64(w.Work), int64(w.CriticalPath), int64(w.Lowest)}
			}),
			insert("INSERT INTO series VALUES (?,?,?,?)", len(o.Series), func(i int) []any {
				return []any{id, rep, int64(o.Series[i].At), o.Series[i].N}
			}))
	})
	return wrap("keep a run", err)
}

// Found implements experiment.Store.
func (db *DB) Found(ctx context.Context, group []experiment.Param, parameter, value string) error {
	_, err := db.sql.ExecContext(ctx, "INSERT OR REPLACE INTO searches VALUES (?,?,?)", object(group), parameter,
		sql.NullString{String: value, Valid: value != ""})
	return wrap("keep a search", err)
}

// Summarise keeps means and 95 % confidence intervals over the repetitions that were kept until now.
func (db *DB) Summarise(ctx context.Context) error {
	type sample struct {
		cell   int64
		metric string
	}
	rows, err := sqlite.RowsOf[struct {
		Cell   int64
		Metric string
		Value  float64
	}](ctx, db, `SELECT m.cell, m.metric, m.value FROM metrics m
		JOIN runs r ON r.cell = m.cell AND r.repetition = m.repetition
		WHERE r.state = ? AND m.value IS NOT NULL ORDER BY m.repetition`, experiment.Done)
	if err != nil {
		return err
	}
	values := map[sample][]float64{}
	for _, r := range rows {
		values[sample{r.Cell, r.Metric}] = append(values[sample{r.Cell, r.Metric}], r.Value)
	}
	return wrap("summarise", db.transact(func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM intervals")
		for s, v := range values {
			i := metrics.Confidence(v)
			if err == nil {
				_, err = tx.ExecContext(ctx, "INSERT INTO intervals VALUES (?,?,?,?,?)", s.cell, s.metric, i.N, i.Mean,
					sql.NullFloat64{Float64: i.Half, Valid: !math.IsNaN(i.Half)})
			}
		}
		return err
	}))
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("results: %s: %w", what, err)
}
