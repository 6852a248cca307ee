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
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
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

// DB is a file of results that is open for writing. Its methods are called from one goroutine at a time.
type DB struct {
	sql     *sql.DB
	lock    *os.File
	cells   map[string]int64 // by key
	version string           // of the build that writes
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
		"mode=rwc&_synchronous=NORMAL&_foreign_keys=1&_busy_timeout=30000&_txlock=immediate"); err != nil {
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

// toRead are the options of a connection that only reads, also while the file is written.
const toRead = "mode=ro&_query_only=1&_busy_timeout=30000"

func open(path, query string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: abs, RawQuery: query}).String())
}

func readerOf(d *sql.DB) *sqlite.Reader {
	return &sqlite.Reader{From: d, Failed: func(err error) error { return wrap("read", err) }}
}

// IsResults reports whether a file has results of an experiment.
func IsResults(path string) bool {
	d, err := open(path, toRead)
	if err != nil {
		return false
	}
	defer d.Close()
	return known(d) == nil
}

func known(d *sql.DB) error {
	var id, version int
	err := d.QueryRow("SELECT a.application_id, v.user_version FROM pragma_application_id a, pragma_user_version v").
		Scan(&id, &version)
	switch {
	case err != nil:
		return fmt.Errorf("it is no file of results: %w", err)
	case id != applicationID:
		return errors.New("it is no file of results of gantry experiment")
	case version != schemaVersion:
		return fmt.Errorf("it has format %d, this gantry knows %d", version, schemaVersion)
	}
	return nil
}

func (db *DB) prepare(info Info, settings string) error {
	var tables int
	if err := db.sql.QueryRow("SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return fmt.Errorf("it is no file of results: %w; %w", err, ErrOther)
	}
	if tables > 0 {
		if err := known(db.sql); err != nil {
			return fmt.Errorf("%w; %w", err, ErrOther)
		}
	}
	// The mode stays in the file: that of another program keeps its own.
	if _, err := db.sql.Exec("PRAGMA journal_mode = WAL"); err != nil {
		return err
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
	return errors.Join(db.sql.Close(), db.lock.Close())
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
	return wrap("plan", db.transact(func(tx *sql.Tx) error {
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
	}))
}

// Kept implements experiment.Store. A run that failed counts as not run.
func (db *DB) Kept(ctx context.Context, c *experiment.Cell, repetition int) (*experiment.Outcome, error) {
	id := db.cells[c.Key()]
	o := &experiment.Outcome{Cell: c, Repetition: repetition}
	err := db.sql.QueryRowContext(ctx, "SELECT state, message FROM runs WHERE cell = ? AND repetition = ? AND state "+
		"<> ?", id, repetition,
		experiment.Failed).Scan(&o.State, &o.Message)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap("look up a run", err)
	}
	o.Values, err = sqlite.RowsOf[metrics.Value](ctx, readerOf(db.sql),
		"SELECT metric, value FROM metrics WHERE cell = ? AND repetition = ? AND value IS NOT NULL", id, repetition)
	return o, err
}

// Keep implements experiment.Store.
func (db *DB) Keep(ctx context.Context, o *experiment.Outcome) error {
	id, rep := db.cells[o.Cell.Key()], o.Repetition
	return wrap("keep a run", db.transact(func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM runs WHERE cell = ? AND repetition = ?; "+
			"INSERT INTO runs VALUES (?,?,?,?,?); INSERT INTO builds VALUES (?,?,?,?)", id, rep, id, rep, o.State,
			o.Message, int64(o.Took), id, rep, db.version, now())
		insert := func(table string, values ...any) {
			if err == nil {
				_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES (?"+strings.Repeat(",?", len(values)+1)+")",
					append([]any{id, rep}, values...)...)
			}
		}
		for _, v := range o.Values {
			insert("metrics", v.Name, Finite(v.Value))
		}
		for _, w := range o.Workflows {
			insert("workflows", w.ID, w.Label, w.Tenant, w.Tasks, w.Arrived, w.Started, w.Ended, w.Work, w.CriticalPath,
				w.Lowest)
		}
		for _, s := range o.Series {
			insert("series", s.At, s.N)
		}
		return err
	}))
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
		Cell   int64
		Metric string
	}
	values := map[sample][]float64{}
	if err := sqlite.EachRow(ctx, readerOf(db.sql), func(r *struct {
		Of    sample
		Value float64
	}) error {
		values[r.Of] = append(values[r.Of], r.Value)
		return nil
	}, `SELECT m.cell, m.metric, m.value FROM metrics m
		JOIN runs r ON r.cell = m.cell AND r.repetition = m.repetition
		WHERE r.state = ? AND m.value IS NOT NULL ORDER BY m.repetition`, experiment.Done); err != nil {
		return err
	}
	return wrap("summarise", db.transact(func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM intervals")
		for s, v := range values {
			i := metrics.Confidence(v)
			if err == nil {
				_, err = tx.ExecContext(ctx, "INSERT INTO intervals VALUES (?,?,?,?,?)", s.Cell, s.Metric, i.N, i.Mean,
					Finite(i.Half))
			}
		}
		return err
	}))
}

// Finite is nil for NaN and infinities.
func Finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("results: %s: %w", what, err)
}
