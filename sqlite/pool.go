package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gantry/sqlite/sqlite3"
)

// The views tasks, attempts and waits of the log are of two parts: rows, and chunks of simulations. SQLite joins such a
// view with other tables by going through all of it. So readers see tables in their place, by views of the connection:
// of a real run its rows, of a simulation all of its tasks and attempts, unpacked into a database in memory.

// rowsOnly are views of a connection that show rows and no chunks.
const rowsOnly = "CREATE TEMP VIEW tasks AS SELECT * FROM main.task_rows;\nCREATE TEMP VIEW attempts AS SELECT * " +
	"FROM main.attempt_rows;\nCREATE TEMP VIEW waits AS SELECT * FROM main.wait_rows;\n"

// pool makes connections that have views of their own.
type pool struct {
	driver sqlite3.SQLiteDriver
	dsn    string
	begin  func() error // before the first one
}

func (p *pool) Connect(context.Context) (driver.Conn, error) {
	if err := p.begin(); err != nil {
		return nil, err
	}
	return p.driver.Open(p.dsn)
}

func (p *pool) Driver() driver.Driver { return &p.driver }

// newPool makes connections for reading on which setup is run first; begin is called before the first one.
func newPool(dsn, setup string, begin func() error) *sql.DB {
	p := &pool{dsn: dsn, begin: sync.OnceValue(begin)}
	p.driver.ConnectHook = func(c *sqlite3.SQLiteConn) error {
		views, err := scriptText("views.sql")
		if err == nil {
			_, err = c.Exec(setup+strings.ReplaceAll(ofRows(views), "CREATE VIEW ", "CREATE TEMP VIEW ")+
				"PRAGMA query_only = 1;", nil)
		}
		return err
	}
	return sql.OpenDB(p)
}

// opened are the simulations that were asked for.
type opened struct {
	mu    sync.Mutex
	runs  map[int64]*unpacked
	order []*unpacked // as they were opened, also what simulations were before they continued
}

// unpacked is a simulation whose chunks are unpacked when rows are first asked for.
type unpacked struct {
	db     *DB
	id     int64
	chunks int64 // that it had then
	mu     sync.Mutex
	keeper *sqlite3.SQLiteConn // keeps the memory
}

func (u *unpacked) close() error {
	err := u.db.readers.Close()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.keeper != nil {
		err = errors.Join(err, u.keeper.Close())
		u.keeper = nil
	}
	return err
}

func (o *opened) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for _, u := range o.order {
		errs = append(errs, u.close())
	}
	o.runs, o.order = nil, nil
	return errors.Join(errs...)
}

// memories numbers the databases in memory of this process.
var memories atomic.Int64

// Of returns a handle on the log for questions about a run: if that is a simulation, its tasks and attempts are rows
// there. It ends with db.
func (db *DB) Of(ctx context.Context, run string) (*DB, error) {
	of, _, _, err := db.find(ctx, run)
	if err == nil && of == db {
		of = &DB{path: db.path, mode: ReadOnly, query: db.query, opened: db.opened, runs: map[*Run]struct{}{},
			readers: db.readers}
	}
	return of, err
}

func (db *DB) of(ctx context.Context, id int64) (*DB, error) {
	var chunks int64
	if err := db.readers.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM task_chunks WHERE run = ?1) + "+
		"(SELECT count(*) FROM wait_chunks WHERE run = ?1)", id).Scan(&chunks); err != nil {
		return nil, db.wrap("read", err)
	}
	if chunks == 0 {
		return db, nil
	}
	o := db.opened
	o.mu.Lock()
	defer o.mu.Unlock()
	if u := o.runs[id]; u != nil && u.chunks == chunks {
		return u.db, nil
	}
	if o.runs == nil {
		o.runs = map[int64]*unpacked{}
	}
	if len(o.order) == mostUnpacked {
		_ = o.order[0].close() // it was only read
		if o.runs[o.order[0].id] == o.order[0] {
			delete(o.runs, o.order[0].id)
		}
		o.order = slices.Delete(o.order, 0, 1)
	}
	u := &unpacked{id: id, chunks: chunks}
	// A cache that connections share is the database itself: nobody copies its pages.
	attach := fmt.Sprintf("ATTACH 'file:gantry-%d-%d?mode=memory&cache=shared' AS unpacked;\n", os.Getpid(),
		memories.Add(1))
	setup := attach
	for _, name := range chunked {
		setup += fmt.Sprintf("CREATE TEMP VIEW %ss AS SELECT * FROM unpacked.%ss;\n", name, name)
	}
	setup += "CREATE TEMP VIEW waits AS SELECT * FROM main.waits;\n"
	u.db = &DB{path: db.path, mode: ReadOnly, query: db.query, opened: o, runs: map[*Run]struct{}{}, packed: true,
		readers: newPool(dsn(db.path, db.query), setup, func() error { return u.fill(id, attach) })}
	o.runs[id], o.order = u, append(o.order, u)
	return u.db, nil
}

// mostUnpacked bounds the memory of unpacked simulations: the first ones go when more are asked for.
const mostUnpacked = 8

// chunked are the tables NAME_rows whose rows are unpacked from chunks. Waits are not: few ask for them.
var chunked = []string{"task", "attempt"}
