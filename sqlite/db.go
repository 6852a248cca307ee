// Package sqlite keeps the log of gantry's runs: one SQLite file in WAL mode, many runs. The log of events is the
// truth; the tables and views beside it, written in the same transactions, are for questions. FORMAT.md describes the
// file.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gantry/sqlite/sqlite3"
)

// FileName is the base name of the log in gantry's directory.
const FileName = "gantry.sqlite"

// schemaVersion is PRAGMA user_version of the files this package writes; schema/N.sql leads from version N-1 to N.
const schemaVersion = 12

//go:embed schema/*.sql
var schema embed.FS

// Mode is how a log is opened.
type Mode uint8

const (
	ReadOnly Mode = iota
	Durable       // for runs: a batch survives the loss of power once Append returned
	// for simulations: written late and for little, so that the end of gantry's process may lose what has not ended
	Bulk
)

// ErrNoLog means that there is no log at the path.
var ErrNoLog = errors.New("no log")

// UnknownRunError is returned for a run that is not in the log.
type UnknownRunError struct {
	Name  string // "" when the latest was asked for
	Known []string
}

func (e *UnknownRunError) Error() string {
	switch {
	case len(e.Known) == 0:
		return "the log has no runs yet: gantry run and gantry simulate make them"
	case e.Name == "":
		return "which run? known: " + list(e.Known, 10)
	}
	return fmt.Sprintf("no run %q in the log; known: %s", e.Name, list(e.Known, 10))
}

// Taken is the error of a name that a run of the log has.
func Taken(name string) error {
	return fmt.Errorf("there is a run %q already: give another name, continue it with gantry resume, or remove it "+
		"with gantry rm", name)
}

// DB is an open log. Its methods may be called from several goroutines; there is one writer connection, and a pool of
// readers that never block it.
type DB struct {
	path    string
	mode    Mode
	readers *sql.DB
	general *sql.DB // readers that see the views of the log as they are; nil in handles of one run
	packed  bool    // the handle of a simulation whose tasks and attempts are in chunks
	query   string  // of the data source name of readers
	opened  *opened // simulations that were asked for; shared by all handles of the log

	mu   sync.Mutex // guards the writer connection
	conn *sqlite3.SQLiteConn
	open *pending // while there is a writer connection
	runs map[*Run]struct{}

	remove  string            // a directory that goes with Close; "": none
	aliases map[string]string // further names of runs
}

// Open opens the log at path. One of an older format is migrated, whatever the mode; ReadOnly creates none.
func Open(path string, mode Mode) (*DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", path, err)
	}
	db := &DB{path: abs, mode: mode, opened: new(opened), runs: map[*Run]struct{}{}}
	if mode == ReadOnly {
		if _, err := os.Stat(abs); err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return nil, fmt.Errorf("%w at %s: nothing was run there yet, or --dir names another directory",
					ErrNoLog, abs)
			}
			return nil, fmt.Errorf("open log: %w", err)
		}
	} else if err := db.openWriter(); err != nil {
		return nil, err
	}
	err = db.openReaders()
	if old := new(olderFormatError); errors.As(err, old) {
		if err = db.openWriter(); err != nil { // it migrates
			return nil, fmt.Errorf("%w, and cannot bring it there: %w", *old, err)
		}
		if err = db.closeWriter(); err == nil {
			err = db.openReaders()
		}
	}
	if err != nil {
		db.closeWriter()
		return nil, err
	}
	return db, nil
}

// olderFormatError is of a log that a reader has to have migrated first.
type olderFormatError struct {
	path string
	have int64
}

func (e olderFormatError) Error() string {
	if e.have == schemaVersion {
		return fmt.Sprintf("open log %s: it lacks what this gantry has added", e.path)
	}
	return fmt.Sprintf("open log %s: it has format %d, this gantry reads %d", e.path, e.have, schemaVersion)
}

func dsn(path, query string) string {
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query}).String()
}

func (db *DB) openWriter() error {
	// The connection is guarded by db.mu; runs refer to no other table's rows that could be missing.
	query := "mode=rwc&_busy_timeout=30000&_mutex=no"
	if db.mode == Bulk {
		query += "&_foreign_keys=0&_synchronous=NORMAL"
	} else {
		query += "&_foreign_keys=1&_synchronous=FULL"
	}
	c, err := (&sqlite3.SQLiteDriver{}).Open(dsn(db.path, query))
	if err != nil {
		return db.wrap("open", err)
	}
	db.conn = c.(*sqlite3.SQLiteConn)
	if err = db.setUp(); err == nil {
		err = db.migrate()
	}
	if err == nil {
		db.open, err = stayOpen(db.path)
	}
	if err != nil {
		db.closeWriter()
	}
	return err
}

// setUp prepares the writer connection.
func (db *DB) setUp() error {
	setup := "PRAGMA journal_mode = WAL"
	if db.mode == Bulk {
		// A new log gets larger pages, which take fewer system calls. A real run changes a few of them at a time, and
		// would write more.
		setup = fmt.Sprint("PRAGMA page_size = ", bulkPage, "; ", setup)
	}
	_, err := db.conn.Exec(setup, nil)
	if err == nil && db.mode == Bulk {
		// A WAL that begins again from its start is written to pages that the file system has in memory already. Each
		// time, both files are synced, beside the simulation.
		var page int64
		if page, err = db.queryInt("PRAGMA page_size"); err == nil {
			_, err = db.conn.Exec(fmt.Sprint("PRAGMA wal_autocheckpoint = ", mostWAL/page), nil)
		}
	}
	if err != nil {
		return db.wrap("open", err)
	}
	return nil
}

const (
	bulkPage = 16 << 10
	mostWAL  = 16 << 20 // bytes of the WAL of simulations, exceeded by one transaction
)

// migrate brings an older log to the current format. Before it changes anything it refuses a log that it cannot
// migrate, and keeps a copy beside it that an older gantry opens.
func (db *DB) migrate() error {
	have, err := db.queryInt("PRAGMA user_version")
	switch {
	case err != nil:
		return db.wrap("open", err)
	case have > schemaVersion:
		return fmt.Errorf("open log %s: it has format %d, this gantry knows formats up to %d: use the newer gantry "+
			"that wrote it", db.path, have, schemaVersion)
	case have > 0 && have < schemaVersion:
		if err := db.keepCopy(have); err != nil {
			return fmt.Errorf("open log %s: it has format %d and stays unchanged, as no copy of it can be kept "+
				"before the migration to format %d: %w",
				db.path, have, schemaVersion, err)
		}
	}
	return db.transact(func() error {
		have, err := db.queryInt("PRAGMA user_version") // another gantry may have migrated it meanwhile
		if err != nil {
			return err
		}
		missing, err := db.missing()
		if err != nil || have >= schemaVersion && len(missing) == 0 {
			return err
		}
		old, err := db.strings("SELECT name FROM sqlite_schema WHERE type = 'view'")
		if err != nil {
			return err
		}
		for _, name := range old {
			if _, err := db.conn.Exec("DROP VIEW "+name, nil); err != nil {
				return err
			}
		}
		for v := have + 1; v <= schemaVersion; v++ {
			if err := db.script(fmt.Sprintf("%d.sql", v)); err != nil {
				return fmt.Errorf("bring it to format %d: %w", v, err)
			}
		}
		if missing, err = db.missing(); err != nil {
			return err
		}
		for _, statement := range missing {
			if _, err := db.conn.Exec(statement, nil); err != nil {
				return err
			}
		}
		views, err := db.rowViews()
		if err == nil {
			_, err = db.conn.Exec(views, nil)
		}
		if err == nil {
			views, err = scriptText("views.sql")
		}
		if err == nil {
			views, err = inParts(views)
		}
		if err == nil {
			_, err = db.conn.Exec(views, nil)
		}
		return err
	})
}

// keepCopy copies a log of an older format to a file beside it.
func (db *DB) keepCopy(format int64) error {
	path := fmt.Sprintf("%s.format-%d", db.path, format)
	for n := 2; ; n++ {
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			break
		}
		path = fmt.Sprintf("%s.format-%d-%d", db.path, format, n)
	}
	_, err := db.conn.Exec("VACUUM INTO ?", []driver.Value{path})
	if err != nil {
		os.Remove(path)
	}
	return err
}

// script runs a file of the schema.
func (db *DB) script(name string) error {
	text, err := scriptText(name)
	if err == nil {
		_, err = db.conn.Exec(text, nil)
	}
	return err
}

// scriptText is a file of the schema. {counters} stands for the counters that the file does not name.
func scriptText(name string) (string, error) {
	text, err := schema.ReadFile("schema/" + name)
	if err != nil {
		return "", err
	}
	more := ""
	for _, c := range slices.Concat(ownCounters, sharedCounters) {
		if !strings.Contains(string(text), c.column) {
			more += ", a." + c.column
		}
	}
	return strings.ReplaceAll(string(text), "{counters}", more), nil
}

// missing are the statements that add what is not there: columns that planner.Usage needs in table attempts, and what
// came to this format after logs had been made with it.
func (db *DB) missing() (statements []string, err error) {
	have, err := db.strings(laterThere)
	if err != nil {
		return nil, err
	}
	for _, x := range later() {
		if !slices.Contains(have, x.name) {
			statements = append(statements, x.statement)
		}
	}
	return statements, nil
}

// addition is a column or an index in which logs of this format differ.
type addition struct{ name, statement string }

func later() []addition {
	all := []addition{
		{"archived", "ALTER TABLE runs ADD COLUMN archived TEXT"},
		{"submitted_by_user", "CREATE INDEX submitted_by_user ON submitted(uid)"},
		{"workflows_by_name", "CREATE INDEX workflows_by_name ON workflows(run, name)"},
		{"notes_by_workflow", "CREATE INDEX notes_by_workflow ON notes(run, workflow)"},
		// By it the attempts of a task are found that are not its last one: they did not end well.
		{"attempts_not_ok", "CREATE INDEX attempts_not_ok ON attempt_rows(run, task) WHERE outcome <> 'ok'"},
		{viewsOf, "SELECT 1"}, // all views are made again, whatever is missing
	}
	for _, c := range counterColumns() {
		all = append(all, addition{c, "ALTER TABLE attempt_rows ADD COLUMN " + c + " INTEGER"})
	}
	return all
}

// viewsOf stands for views that read chunks of events of version 7, and the rows of tasks and waits of that time.
const viewsOf = "views of version 7"

// laterThere are the names of additions that are there, among others.
const laterThere = "SELECT name FROM pragma_table_info('attempt_rows') UNION ALL " +
	"SELECT '" + viewsOf + "' FROM sqlite_schema WHERE name = 'chunk_events' AND sql LIKE '% AS alone,%' UNION ALL " +
	"SELECT name FROM pragma_table_info('runs') WHERE name = 'archived' UNION ALL " +
	"SELECT name FROM sqlite_schema WHERE type = 'index'"

// counterColumns are the columns of table attempts that hold members of planner.Usage.
func counterColumns() (names []string) {
	for _, c := range slices.Concat(ownCounters, sharedCounters) {
		names = append(names, c.column)
	}
	return names
}

// strings reads a column of texts on the writer connection.
func (db *DB) strings(query string) ([]string, error) { return stringsOf(db.conn, query) }

func stringsOf(c *sqlite3.SQLiteConn, query string) (out []string, err error) {
	err = written(c, func(row []driver.Value) error {
		text, _ := row[0].(string)
		out = append(out, text)
		return nil
	}, query)
	return out, err
}

func (db *DB) openReaders() error {
	const query = "mode=ro&_busy_timeout=30000"
	open := func(query string) (int64, error) {
		pool := newPool(dsn(db.path, query), rowsOnly, func() error { return nil })
		var have int64
		if err := pool.QueryRow("PRAGMA user_version").Scan(&have); err != nil {
			pool.Close()
			return 0, err
		}
		general, err := sql.Open("sqlite3", dsn(db.path, query+"&_query_only=1"))
		if err != nil {
			pool.Close()
			return 0, err
		}
		db.readers, db.general, db.query = pool, general, query
		return have, nil
	}
	have, err := open(query)
	if code := new(sqlite3.Error); errors.As(err, code) && (code.Code == sqlite3.ErrCantOpen ||
		code.Code == sqlite3.ErrReadonly) && db.mode == ReadOnly {
		// A closed log in a directory that this user may not write to: nobody can be writing without the -wal file
		// beside it.
		if _, walErr := os.Stat(db.path + "-wal"); errors.Is(walErr, os.ErrNotExist) {
			have, err = open(query + "&immutable=1")
		}
	}
	if err != nil {
		return db.wrap("open", err)
	}
	if have != schemaVersion {
		db.general.Close()
		db.readers.Close()
		if have == 0 {
			return fmt.Errorf("%w in %s: it is not a log of gantry's, or a first run is just making it", ErrNoLog,
				db.path)
		}
		if have < schemaVersion {
			return olderFormatError{db.path, have}
		}
		return fmt.Errorf("open log %s: it has format %d, this gantry reads %d: use the gantry that wrote it", db.path,
			have, schemaVersion)
	}
	var want []string
	for _, x := range later() {
		want = append(want, x.name)
	}
	there := 0
	err = db.readers.QueryRow("SELECT count(*) FROM (" + laterThere + ") WHERE name IN ('" +
		strings.Join(want, "', '") + "')").Scan(&there)
	if err == nil && there < len(want) {
		err = olderFormatError{db.path, have}
	}
	if err != nil {
		db.general.Close()
		db.readers.Close()
		if !errors.As(err, new(olderFormatError)) {
			err = db.wrap("open", err)
		}
	}
	return err
}

// Path is the absolute path of the log.
func (db *DB) Path() string { return db.path }

// Close writes what is buffered and closes the log.
func (db *DB) Close() error {
	db.mu.Lock()
	open := make([]*Run, 0, len(db.runs))
	for r := range db.runs {
		open = append(open, r)
	}
	db.mu.Unlock()
	var errs []error
	for _, r := range open {
		errs = append(errs, r.Close())
	}
	errs = append(errs, db.opened.close(), db.general.Close(), db.readers.Close(), db.closeWriter())
	if db.remove != "" {
		errs = append(errs, os.RemoveAll(db.remove))
	}
	return errors.Join(errs...)
}

func (db *DB) closeWriter() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.conn == nil {
		return nil
	}
	if db.open == nil {
		err := db.conn.Close()
		db.conn = nil
		return err
	}
	// What is left to be done once nobody can begin to read is little then.
	_, _ = db.conn.Exec("PRAGMA wal_checkpoint", nil)
	db.open.release()
	err := errors.Join(db.conn.Close(), db.open.close())
	db.conn, db.open = nil, nil
	return err
}

// transact runs f in a transaction of the writer. It cannot be cancelled: a batch is kept whole or not at all.
func (db *DB) transact(f func() error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.conn == nil {
		return fmt.Errorf("write log %s: it is closed or was opened for reading only", db.path)
	}
	if _, err := db.conn.Exec("BEGIN IMMEDIATE", nil); err != nil {
		return db.wrap("write", err)
	}
	err := f()
	if err == nil {
		_, err = db.conn.Exec("COMMIT", nil)
	}
	if err != nil {
		if !db.conn.AutoCommit() { // SQLite itself rolls back on some errors
			_, undo := db.conn.Exec("ROLLBACK", nil)
			err = errors.Join(err, undo)
		}
		return db.wrap("write", err)
	}
	return nil
}

// wrap names the file and what to do.
func (db *DB) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	advice := ""
	if code := new(sqlite3.Error); errors.As(err, code) {
		switch code.Code {
		case sqlite3.ErrFull:
			advice = ": the disk or the quota is full; what was logged before is kept: free space there, then " +
				"continue with gantry resume, or with gantry serve if it was a server"
		case sqlite3.ErrIoErr:
			advice = fmt.Sprintf(" (%v): the disk does not take or give the data; what was logged before is kept: "+
				"look at its space and health, then continue it with gantry resume",
				code.SystemErrno)
		case sqlite3.ErrBusy, sqlite3.ErrLocked:
			advice = ": another process has written to it for 30 s without a pause: end that, or use another --dir"
		case sqlite3.ErrNotADB, sqlite3.ErrCorrupt:
			advice = ": the file is damaged or not a log of gantry's: move it away, or recover what is in it with " +
				"sqlite3's .recover"
		case sqlite3.ErrCantOpen, sqlite3.ErrReadonly, sqlite3.ErrPerm:
			advice = ": see that the directory exists and that you may write to it, or use another --dir"
		}
	}
	return fmt.Errorf("%s log %s: %w%s", doing, db.path, err, advice)
}

// find returns the id and name of a run: by name, by a prefix that only one has, or the latest if name is "". of is to
// be asked about it.
func (db *DB) find(ctx context.Context, name string) (of *DB, id int64, found string, err error) {
	if of, ok := db.aliases[name]; ok {
		name = of
	}
	rows, err := db.readers.QueryContext(ctx, "SELECT id, name FROM runs ORDER BY id DESC")
	if err != nil {
		return nil, 0, "", db.wrap("read", err)
	}
	defer rows.Close()
	unknown := &UnknownRunError{Name: name}
	matches := 0
	for rows.Next() {
		var i int64
		var n string
		if err := rows.Scan(&i, &n); err != nil {
			return nil, 0, "", db.wrap("read", err)
		}
		if len(n) >= len(name) && n[:len(name)] == name {
			if matches++; matches == 1 || n == name {
				id, found = i, n
			}
			if n == name {
				matches = 1
				break
			}
		}
		unknown.Known = append(unknown.Known, n)
	}
	if err := rows.Err(); err != nil {
		return nil, 0, "", db.wrap("read", err)
	}
	rows.Close()
	if matches == 1 || name == "" && matches > 0 {
		of, err = db.of(ctx, id)
		return of, id, found, err
	}
	return nil, 0, "", unknown
}

// list joins the first n names.
func list(names []string, n int) string {
	text := ""
	for i, name := range names {
		if i == n {
			return fmt.Sprintf("%s and %d more", text, len(names)-n)
		}
		if i > 0 {
			text += ", "
		}
		text += name
	}
	return text
}

// queryInt reads one number on the writer connection.
func (db *DB) queryInt(query string, args ...driver.Value) (int64, error) {
	rows, err := db.conn.Query(query, args)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	dest := make([]driver.Value, len(rows.Columns()))
	if err := rows.Next(dest); err != nil {
		return 0, err
	}
	n, _ := dest[0].(int64)
	return n, nil
}

// DiskFault is what SQLite says of the place where the log lies, "" if err does not come from there (see IsDisk).
func DiskFault(err error) string {
	code := new(sqlite3.Error)
	if !IsDisk(err) || !errors.As(err, code) {
		return ""
	}
	return code.Error()
}

// IsDisk reports whether err comes from the place where the log lies rather than from what was to be written: no space,
// no permission, a fault of the device, a damaged file.
func IsDisk(err error) bool {
	code := new(sqlite3.Error)
	if !errors.As(err, code) {
		return false
	}
	switch code.Code {
	case sqlite3.ErrFull, sqlite3.ErrIoErr, sqlite3.ErrReadonly, sqlite3.ErrCantOpen, sqlite3.ErrPerm,
		sqlite3.ErrCorrupt, sqlite3.ErrNotADB:
		return true
	}
	return false
}
