//go:build cgo

package sqlite

/*
#include <stdint.h>
#include <stddef.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;

// The driver brings these; weak, as cgo links each package by itself before all are linked together.
#define BROUGHT __attribute__((weak))
extern int sqlite3_bind_null(sqlite3_stmt *, int) BROUGHT;
extern int sqlite3_bind_int64(sqlite3_stmt *, int, long long) BROUGHT;
extern int sqlite3_bind_double(sqlite3_stmt *, int, double) BROUGHT;
extern int sqlite3_bind_text(sqlite3_stmt *, int, const char *, int, void (*)(void *)) BROUGHT;
extern int sqlite3_bind_blob(sqlite3_stmt *, int, const void *, int, void (*)(void *)) BROUGHT;
extern int sqlite3_step(sqlite3_stmt *) BROUGHT;
extern int sqlite3_reset(sqlite3_stmt *) BROUGHT;
extern int sqlite3_clear_bindings(sqlite3_stmt *) BROUGHT;
extern sqlite3 *sqlite3_db_handle(sqlite3_stmt *) BROUGHT;
extern int sqlite3_system_errno(sqlite3 *) BROUGHT;
extern const char *sqlite3_errmsg(sqlite3 *) BROUGHT;

enum { NONE, INTEGER, REAL, TEXT, BLOB };

typedef struct {
	int64_t value;  // REAL: its bits; TEXT and BLOB: where it begins in memory
	int32_t kind;
	int32_t length; // bytes of TEXT and BLOB
} cell;

static int bind(sqlite3_stmt *s, int n, const cell *c, const char *memory) {
	double d;
	switch (c->kind) {
	case INTEGER:
		return sqlite3_bind_int64(s, n, c->value);
	case REAL:
		__builtin_memcpy(&d, &c->value, sizeof d);
		return sqlite3_bind_double(s, n, d);
	case TEXT: // it is used before the call returns
		return sqlite3_bind_text(s, n, memory + c->value, c->length, NULL);
	case BLOB:
		return sqlite3_bind_blob(s, n, memory + c->value, c->length, NULL);
	}
	return sqlite3_bind_null(s, n);
}

// insert runs a statement once for each row: the shared values, then its own.
static int insert(sqlite3_stmt *s, const cell *cells, int shared, int width, int rows, const char *memory, int *errno) {
	int rc = 0;
	for (int i = 0; i < shared && !rc; i++)
		rc = bind(s, i + 1, &cells[i], memory);
	const cell *row = cells + shared;
	for (int r = 0; r < rows && !rc; r++, row += width) {
		for (int i = 0; i < width && !rc; i++)
			rc = bind(s, shared + i + 1, &row[i], memory);
		if (!rc)
			rc = sqlite3_step(s) == 101 ? 0 : -1; // SQLITE_DONE
		if (rc < 0)
			*errno = sqlite3_system_errno(sqlite3_db_handle(s));
		int ended = sqlite3_reset(s); // returns the error of the step
		if (rc < 0)
			rc = ended;
	}
	sqlite3_clear_bindings(s);
	return rc;
}
*/
import "C"

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"gantry/sqlite/sqlite3"
)

// chunk is how many rows are inserted together. Beyond 16 the gain is lost in the noise.
const chunk = 16

// inserter gathers rows for one table and inserts many in one go. The driver takes a call from Go to C for each value,
// which costs more than SQLite's own work on the value; inserter takes one call for all of them. Values that many rows
// share are handed over once.
//
// docs/decisions/0013-rows-go-to-sqlite-in-chunks.md has the savings in whole runs. All C, and all knowledge of the
// driver's inside, is in this file; add and flush are all that the rest of the package sees.
type inserter struct {
	shared, width int
	most          int            // rows
	values        []driver.Value // that are shared
	stmt          *sqlite3.SQLiteStmt
	handle        *C.sqlite3_stmt // of stmt
	cells         []C.cell        // the shared values, then rows
	memory        []byte          // texts and blobs
	apart         int             // how much of it belongs to the shared values
	flushes       int             // so far: a row of before waits no more
}

// rowPlace is where a row waits to be inserted: after how many flushes, and at which cell.
type rowPlace struct{ flushes, cell int }

// statement prepares a query on the writer connection.
func statement(c *sqlite3.SQLiteConn, query string) (*sqlite3.SQLiteStmt, error) {
	s, err := c.Prepare(query)
	if err != nil {
		return nil, err
	}
	return s.(*sqlite3.SQLiteStmt), nil
}

// newInserter makes an inserter of INSERT or, where the last row of a key counts, INSERT OR REPLACE.
func newInserter(c *sqlite3.SQLiteConn, verb, table, shared, columns string) (*inserter, error) {
	of, own := strings.Count(shared, ",")+1, strings.Count(columns, ",")+1
	return newBatch(c, verb+" INTO "+table+"("+shared+", "+columns+") VALUES (?"+strings.Repeat(",?", of+own-1)+")", of,
		own)
}

// newBatch makes an inserter of any statement that returns no rows: its first arguments are shared, the others those of
// a row.
func newBatch(c *sqlite3.SQLiteConn, query string, shared, width int) (*inserter, error) {
	in := &inserter{shared: shared, width: width, most: chunk}
	in.values = make([]driver.Value, in.shared)
	in.cells = make([]C.cell, in.shared, in.shared+in.most*in.width)
	var err error
	if in.stmt, err = statement(c, query); err != nil {
		return nil, err
	}
	s := reflect.ValueOf(in.stmt).Elem().FieldByName("s") // the driver does not give it away
	if !s.IsValid() || s.Kind() != reflect.Pointer {
		in.close()
		return nil, errors.New("unsupported go-sqlite3 version: SQLiteStmt has no field s")
	}
	in.handle = (*C.sqlite3_stmt)(s.UnsafePointer())
	return in, nil
}

// share sets the values that the rows to come share; rows taken with other values are inserted first.
func (in *inserter) share(values ...driver.Value) error {
	if slices.Equal(in.values, values) {
		return nil
	}
	if err := in.flush(); err != nil {
		return err
	}
	copy(in.values, values)
	in.cells, in.memory = in.cells[:0], in.memory[:0]
	for _, v := range values {
		in.take(v)
	}
	in.apart = len(in.memory)
	return nil
}

// add takes a row; it is inserted at the latest by flush.
func (in *inserter) add(values ...driver.Value) error {
	for _, v := range values {
		in.take(v)
	}
	return in.end()
}

// end says that a row is complete.
func (in *inserter) end() error {
	if len(in.cells) == in.shared+in.most*in.width {
		return in.flush()
	}
	return nil
}

// takeInt adds a value of a row that end completes.
func (in *inserter) takeInt(n int64) {
	in.cells = append(in.cells, C.cell{kind: C.INTEGER, value: C.int64_t(n)})
}

// takeKnown adds a value of a row that end completes, NULL if it is not known.
func (in *inserter) takeKnown(n int64, ok bool) {
	if ok {
		in.takeInt(n)
	} else {
		in.cells = append(in.cells, C.cell{kind: C.NONE})
	}
}

// takeText adds a value of a row that end completes.
func (in *inserter) takeText(s string) {
	in.cells = append(in.cells, C.cell{kind: C.TEXT, value: C.int64_t(len(in.memory)), length: C.int32_t(len(s))})
	in.memory = append(in.memory, s...)
}

// takeBytes adds a value of a row that end completes: JSON as text, anything else as a blob.
func (in *inserter) takeBytes(b []byte, json bool) {
	c := C.cell{kind: C.BLOB, value: C.int64_t(len(in.memory)), length: C.int32_t(len(b))}
	if json {
		c.kind = C.TEXT
	}
	in.cells, in.memory = append(in.cells, c), append(in.memory, b...)
}

// place returns where the row to come will wait.
func (in *inserter) place() rowPlace { return rowPlace{in.flushes, len(in.cells)} }

// revise has the values from a column of a row on taken again, if the row still waits.
func (in *inserter) revise(at rowPlace, column int, take func()) bool {
	if at.flushes != in.flushes || at.cell == 0 {
		return false
	}
	all := in.cells
	in.cells = all[:at.cell+column]
	take()
	in.cells = all
	return true
}

// take adds a value.
func (in *inserter) take(v driver.Value) {
	switch v := v.(type) {
	case int64:
		in.takeInt(v)
	case float64:
		in.cells = append(in.cells, C.cell{kind: C.REAL, value: C.int64_t(math.Float64bits(v))})
	case string:
		in.takeText(v)
	case text:
		in.takeBytes(v, true)
	case []byte:
		in.takeBytes(v, false)
	case bool:
		n := int64(0)
		if v {
			n = 1
		}
		in.takeInt(n)
	case nil:
		in.takeKnown(0, false)
	default:
		panic(fmt.Sprintf("a value of type %T in a row", v))
	}
}

// flush inserts the rows taken.
func (in *inserter) flush() error {
	rows := (len(in.cells) - in.shared) / in.width
	if rows == 0 {
		return nil
	}
	defer in.reset()
	memory := append(in.memory, 0) // not empty
	var errno C.int
	rc := C.insert(in.handle, &in.cells[0], C.int(in.shared), C.int(in.width), C.int(rows),
		(*C.char)(unsafe.Pointer(&memory[0])), &errno)
	if rc == 0 {
		return nil
	}
	err := sqlite3.Error{Code: sqlite3.ErrNo(rc & 0xff), ExtendedCode: sqlite3.ErrNoExtended(rc),
		SystemErrno: syscall.Errno(errno)}
	return fmt.Errorf("%w: %s", err, C.GoString(C.sqlite3_errmsg(C.sqlite3_db_handle(in.handle))))
}

// reset forgets rows, after a failure too: the transaction they belong to is undone.
func (in *inserter) reset() {
	in.flushes++
	in.cells, in.memory = in.cells[:in.shared], in.memory[:in.apart]
}

func (in *inserter) close() { in.stmt.Close() }

// update is a prepared statement with a row of arguments that is used again.
type update struct {
	stmt *sqlite3.SQLiteStmt
	args []driver.NamedValue
}

func newUpdate(c *sqlite3.SQLiteConn, query string) (*update, error) {
	s, err := statement(c, query)
	if err != nil {
		return nil, err
	}
	u := &update{stmt: s, args: make([]driver.NamedValue, s.NumInput())}
	for i := range u.args {
		u.args[i].Ordinal = i + 1
	}
	return u, nil
}

func (u *update) exec(values ...driver.Value) error {
	for i, v := range values {
		u.args[i].Value = v
	}
	_, err := u.stmt.ExecContext(context.Background(), u.args)
	return err
}
