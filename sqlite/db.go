// Package sqlite keeps the log of gantry's runs: one SQLite file in WAL mode, many runs. The log of events is the
// truth; the tables and views beside it, written in the same transactions, are for questions. FORMAT.md describes the
// file.
//
// It has four parts: the schema and opening (schema, db, fault); writing, by one projection (project) and one sink
// (rows, writer), with run, aside, event and definition; reading (query, replay, growth, extract); and questions in the
// other files, each asked by several packages. A question of one package alone stands there.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gantry/trace/shown"
)

// FileName is the base name of the log in gantry's directory.
const FileName = "gantry.sqlite"

// PRAGMA application_id and user_version of the files that this package writes, as schema/tables.sql sets them.
const (
	application = 0x67616e74 // "gant"
	format      = 1
)

//go:embed schema/*.sql
var schema embed.FS

var schemas = [...]string{"schema/tables.sql", "schema/views.sql"}

// Mode is how a log is opened.
type Mode uint8

const (
	ReadOnly Mode = iota
	Durable       // for runs: a batch survives the loss of power once Append returned
	// for simulations: written late and cheaply, so that the end of gantry's process may lose unfinished workflows
	Bulk
)

// ErrNoLog means that there is no log at the path.
var ErrNoLog = errors.New("no log")

// Unknown is the error of a name or a number of which the log has nothing.
type Unknown struct{ said string }

func (e *Unknown) Error() string { return e.said }

func unknownf(format string, args ...any) error { return &Unknown{fmt.Sprintf(format, args...)} }

// NoRuns says that a log is empty.
const NoRuns = "the log has no runs yet: gantry run and gantry simulate make them"

// unknownRun is the error of a run that is not in the log.
func (db *DB) unknownRun(ctx context.Context, name string) error {
	known, err := RowsOf[string](ctx, db, "SELECT name FROM runs ORDER BY id DESC")
	switch {
	case err != nil:
		return err
	case len(known) == 0:
		return unknownf(NoRuns)
	}
	return unknownf("no run %q in the log; known: %s", name, list(known, 10))
}

// Taken is the error of a name that a run of the log has.
func Taken(name string) error {
	return fmt.Errorf("there is a run %q already: give another name, continue it with gantry resume, or remove it "+
		"with gantry rm", name)
}

// DB is an open log. Its methods may be called from several goroutines; there is one writer connection, and a pool of
// readers that never block it.
type DB struct {
	Reader
	path    string
	mode    Mode
	readers *sql.DB

	mu     sync.Mutex // guards the writer connection
	writer *sql.DB    // of conn alone
	conn   *sql.Conn
	own    Reader   // asks conn
	open   *os.File // by stayOpen, while there is a writer connection
	runs   map[*Run]struct{}

	hashing sync.Mutex         // guards hashes; last of all
	hashes  map[[2]uint64]hash // by device and inode: those that no transaction has written

	remove  string            // a directory that goes with Close; "": none
	aliases map[string]string // further names of runs
}

// Open opens the log at path. ReadOnly creates none.
func Open(path string, mode Mode) (*DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", path, err)
	}
	db := &DB{path: abs, mode: mode, runs: map[*Run]struct{}{}, aliases: map[string]string{}}
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
	if err := db.openReaders(); err != nil {
		db.closeWriter()
		return nil, err
	}
	if err := db.sameTables(); err != nil {
		return nil, errors.Join(err, db.readers.Close(), db.closeWriter())
	}
	return db, nil
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
	var err error
	if db.writer, err = sql.Open("sqlite3", dsn(db.path, query)); err != nil {
		return db.wrap("open", err)
	}
	if db.conn, err = db.writer.Conn(context.Background()); err != nil {
		return db.wrap("open", errors.Join(err, db.writer.Close()))
	}
	db.own = Reader{db.conn, func(err error) error { return err }}
	if err = db.setUp(); err == nil {
		db.open, err = stayOpen(db.path)
	}
	if err != nil {
		db.closeWriter()
	}
	return err
}

// setUp prepares the writer connection, and makes the tables and views of a new log.
func (db *DB) setUp() error {
	// Settings stay in a file: that of another program keeps its own.
	n, err := db.queryInt(made)
	if err == nil && n > 0 {
		var have [2]int64
		if err = db.conn.QueryRowContext(context.Background(), pragmas).Scan(&have[0], &have[1]); err == nil {
			if err := db.understood(have); err != nil {
				return err
			}
		}
	}
	setup := "PRAGMA journal_mode = WAL"
	if db.mode == Bulk {
		// A new log gets larger pages, which take fewer system calls. A real run changes a few of them at a time, and
		// would write more.
		setup = "PRAGMA page_size = 16384; " + setup
	}
	if err == nil {
		err = db.exec(setup)
	}
	if err != nil || n > 0 {
		return db.wrap("open", err)
	}
	return db.transact(func() error {
		n, err := db.queryInt(made)
		for i := 0; i < len(schemas) && err == nil && n == 0; i++ { // else another gantry has made them meanwhile
			var text []byte
			if text, err = schema.ReadFile(schemas[i]); err == nil {
				err = db.exec(string(text))
			}
		}
		return err
	})
}

const made = "SELECT count(*) FROM sqlite_schema"

const pragmas = "SELECT a.application_id, v.user_version FROM pragma_application_id a, pragma_user_version v"

// understood refuses a log by its application_id and user_version, unless this package writes the same.
func (db *DB) understood(have [2]int64) error {
	switch {
	case have == [2]int64{application, format}:
		return nil
	case have[0] == application:
		return fmt.Errorf("open log %s: it has format %d, this gantry reads %d: use the gantry that wrote it", db.path,
			have[1], format)
	case have[1] == 0:
		return fmt.Errorf("%w in %s: it is not a log of gantry's, or a first run is just making it", ErrNoLog, db.path)
	}
	return fmt.Errorf("open log %s: a gantry before release 0.1.0 wrote it, which this one cannot read: move it away",
		db.path)
}

// creates matches a statement of the schema, as SQLite keeps it, and the name of the thing.
var creates = regexp.MustCompile(`(?ms)^(CREATE \w+ (\w+).*?);$`)

// sameTables refuses a log without a table or view of this build: formats between two releases have no numbers.
func (db *DB) sameTables() error {
	has, err := RowsOf[string](context.Background(), db, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
	for _, name := range schemas {
		text, _ := schema.ReadFile(name) // it is embedded
		for _, s := range creates.FindAllSubmatch(text, -1) {
			if err == nil && !slices.Contains(has, string(s[1])) {
				err = fmt.Errorf("open log %s: its %s is of another build of gantry: use that build, or another "+
					"directory with --dir", db.path, s[2])
			}
		}
	}
	return err
}

func (db *DB) openReaders() error {
	open := func(more string) (have [2]int64, err error) {
		pool, err := sql.Open("sqlite3", dsn(db.path, "mode=ro&_busy_timeout=30000&_query_only=1"+more))
		if err != nil {
			return have, err
		}
		if err := pool.QueryRow(pragmas).Scan(&have[0], &have[1]); err != nil {
			return have, errors.Join(err, pool.Close())
		}
		db.readers, db.Reader = pool, Reader{pool, func(err error) error { return db.wrap("read", err) }}
		return have, nil
	}
	have, err := open("")
	if code, _ := fault(err); (code == errCantOpen || code == errReadOnly) && db.mode == ReadOnly {
		// A closed log in a directory that this user may not write to: nobody can be writing without the -wal file
		// beside it.
		if _, walErr := os.Stat(db.path + "-wal"); errors.Is(walErr, os.ErrNotExist) {
			have, err = open("&immutable=1")
		}
	}
	if err != nil {
		return db.wrap("open", err)
	}
	if err := db.understood(have); err != nil {
		return errors.Join(err, db.readers.Close())
	}
	return nil
}

// Path is the absolute path of the log.
func (db *DB) Path() string { return db.path }

// Close writes buffered rows and closes the log.
func (db *DB) Close() error {
	db.mu.Lock()
	open := slices.Collect(maps.Keys(db.runs))
	db.mu.Unlock()
	var errs []error
	for _, r := range open {
		errs = append(errs, r.Close())
	}
	errs = append(errs, db.readers.Close(), db.closeWriter())
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
	if db.open != nil {
		// This leaves little work for the moment at which nobody can begin to read.
		_ = db.exec("PRAGMA wal_checkpoint")
		_ = lockPending(db.open, unix.F_UNLCK) // so that SQLite can put the log into one file
	}
	err := errors.Join(db.conn.Close(), db.writer.Close())
	if db.open != nil {
		// Now: the kernel takes all of the process's locks on a file when any descriptor of it is closed.
		err = errors.Join(err, db.open.Close())
	}
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
	if err := db.exec("BEGIN IMMEDIATE"); err != nil {
		return db.wrap("write", err)
	}
	err := f()
	db.hashing.Lock()
	defer db.hashing.Unlock()
	if err == nil {
		err = db.insertHashes()
	}
	if err == nil {
		err = db.exec("COMMIT")
	}
	if err != nil {
		_ = db.exec("ROLLBACK") // it fails where SQLite itself has rolled back
	}
	db.hashes = nil // also after a failure: the last words of a run have little room on a full disk
	return db.wrap("write", err)
}

// wrap adds the file and the remedy to an error.
func (db *DB) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	code, _ := fault(err)
	return fmt.Errorf("%s log %s: %w%s%s", doing, db.path, err, faults[code].advice, db.malformed(err))
}

// Find returns the number and name of a run: by name, by a prefix that only one has, or the latest if name is "".
func (db *DB) Find(ctx context.Context, name string) (id int64, found string, _ error) {
	if of, ok := db.aliases[name]; ok {
		name = of
	}
	type run struct {
		ID   int64
		Name string
	}
	like, err := RowsOf[run](ctx, db, "SELECT id, name FROM runs WHERE substr(name, 1, length(?1)) = ?1 "+
		"ORDER BY name <> ?1, id DESC LIMIT 2", name)
	if err != nil {
		return 0, "", err
	}
	if len(like) == 1 || len(like) > 0 && (name == "" || like[0].Name == name) {
		return like[0].ID, like[0].Name, nil
	}
	return 0, "", db.unknownRun(ctx, name)
}

func list(names []string, n int) string {
	if more := len(names) - n; more > 0 {
		return fmt.Sprintf("%s and %d more", shown.Line(strings.Join(names[:n], ", ")), more)
	}
	return shown.Line(strings.Join(names, ", "))
}

// stayOpen opens a log and locks its pending byte for reading. A connection that may write, such as that of the sqlite3
// program, finds out when it closes whether it is the last one, and for that moment keeps new ones out: readers without
// patience then see "database is locked". It begins by locking SQLite's pending byte for writing. A lock for reading on
// that byte keeps everybody from finding out and nobody from reading; it is one of an open file description, which
// SQLite's own locks, being the process's, do not undo. A file system without such locks only lacks the benefit of the
// lock.
func stayOpen(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	for range 100 { // somebody may be closing just now
		if lockPending(f, unix.F_RDLCK) != unix.EAGAIN {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return f, nil
}

// lockPending locks the byte at which SQLite's file format has its pending byte.
func lockPending(f *os.File, kind int16) error {
	return lockOpen(f, &unix.Flock_t{Type: kind, Start: 0x40000000, Len: 1})
}

// reserved is how much space a run keeps for its last words: how a run ended fits into a few pages.
const reserved = 128 << 10

// newReserve takes space on the file system of the log that is given back when the disk is full, so that the end of the
// run can still be logged; nil if there is none to be had. It is a file without a name: it goes with the process,
// however that ends.
func newReserve(path string) *os.File {
	file, err := os.CreateTemp(filepath.Dir(path), ".gantry-reserve-")
	if err != nil {
		return nil
	}
	_ = os.Remove(file.Name())
	if _, err := file.Write(make([]byte, reserved)); err != nil {
		file.Close()
		return nil
	}
	return file
}
