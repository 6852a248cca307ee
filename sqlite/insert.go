package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"gantry/sqlite/sqlite3"
)

// chunk is how many rows are inserted together. Beyond 16 the gain is lost in the noise.
const chunk = 16

// inserter gathers rows for one table and inserts many in one go. The driver takes a call from Go to C for each value,
// which costs more than SQLite's own work on the value; inserter takes one call for all of them. Values that many rows
// share are handed over once.
//
// docs/decisions/0013-rows-go-to-sqlite-in-chunks.md has the savings in whole runs. All C is in insert_cgo.go.
type inserter struct {
	shared, width int
	values        []driver.Value // that are shared
	stmt          driver.Stmt
	handle        unsafe.Pointer // of stmt
	cells         []cell         // the shared values, then rows
	memory        []byte         // texts and blobs
	apart         int            // how much of it belongs to the shared values
	flushes       int            // so far: a row of before waits no more
}

// cell is a value as C has it.
type cell struct {
	value  int64 // of a real: its bits; of a text or blob: where it begins in memory
	kind   cellKind
	length int32 // bytes of a text or blob
}

type cellKind int32

const (
	null cellKind = iota
	integer
	real64
	utf8Text
	blob
)

// rowPlace is where a row waits to be inserted: after how many flushes, and at which cell.
type rowPlace struct{ flushes, cell int }

// table is an inserter to be made, of a statement that returns no rows: its first arguments are shared, the others are
// those of a row.
type table struct {
	in     **inserter
	shared int
	query  string
}

// insertInto is INSERT or, where the last row of a key counts, INSERT OR REPLACE.
func insertInto(verb, table, columns string) string {
	return verb + " INTO " + table + "(" + columns + ") VALUES (?" + strings.Repeat(",?", strings.Count(columns, ",")) +
		")"
}

// inserters write in this order.
type inserters []*inserter

// prepare makes inserters. Those whose only shared argument is the run have its value.
func prepare(c *sqlite3.SQLiteConn, run int64, tables ...table) (all inserters, err error) {
	for _, t := range tables {
		in, err := newInserter(c, t.shared, t.query)
		if err != nil {
			all.close()
			return nil, err
		}
		if *t.in, all = in, append(all, in); t.shared == 1 {
			_ = in.share(run) // there are no rows yet
		}
	}
	return all, nil
}

func newInserter(c *sqlite3.SQLiteConn, shared int, query string) (*inserter, error) {
	stmt, err := c.Prepare(query)
	if err != nil {
		return nil, err
	}
	in := &inserter{shared: shared, width: stmt.NumInput() - shared, stmt: stmt, values: make([]driver.Value, shared)}
	in.cells = make([]cell, shared, shared+chunk*in.width)
	s := reflect.ValueOf(stmt).Elem().FieldByName("s") // the driver does not give it away
	if !s.IsValid() || s.Kind() != reflect.Pointer {
		stmt.Close()
		return nil, errors.New("unsupported go-sqlite3 version: SQLiteStmt has no field s")
	}
	in.handle = s.UnsafePointer()
	return in, nil
}

func (all inserters) flush() error {
	for _, in := range all {
		if err := in.flush(); err != nil {
			return err
		}
	}
	return nil
}

// reset forgets rows, after a failure too: the transaction they belong to is undone.
func (all inserters) reset() {
	for _, in := range all {
		in.reset()
	}
}

func (all inserters) close() {
	for _, in := range all {
		in.stmt.Close()
	}
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
	in.take(values)
	in.apart = len(in.memory)
	return nil
}

// add takes a row; it is inserted at the latest by flush.
func (in *inserter) add(values ...driver.Value) error {
	in.take(values)
	if len(in.cells) == in.shared+chunk*in.width {
		return in.flush()
	}
	return nil
}

// exec runs the statement for a row at once.
func (in *inserter) exec(values ...driver.Value) error {
	in.take(values)
	return in.flush()
}

// place returns where the row to come will wait.
func (in *inserter) place() rowPlace { return rowPlace{in.flushes, len(in.cells)} }

// revise gives a row other values from a column on, if the row still waits.
func (in *inserter) revise(at rowPlace, column int, values ...driver.Value) bool {
	if at.flushes != in.flushes || at.cell == 0 {
		return false
	}
	all := in.cells
	in.cells = all[:at.cell+column]
	in.take(values)
	in.cells = all
	return true
}

func (in *inserter) take(values []driver.Value) {
	for _, v := range values {
		c := cell{value: int64(len(in.memory))}
		switch v := v.(type) {
		case int64:
			c = cell{kind: integer, value: v}
		case float64:
			c = cell{kind: real64, value: int64(math.Float64bits(v))}
		case string:
			c.kind, c.length, in.memory = utf8Text, int32(len(v)), append(in.memory, v...)
		case text:
			c.kind, c.length, in.memory = utf8Text, int32(len(v)), append(in.memory, v...)
		case []byte:
			c.kind, c.length, in.memory = blob, int32(len(v)), append(in.memory, v...)
		case bool:
			if c = (cell{kind: integer}); v {
				c.value = 1
			}
		case nil:
		default:
			panic(fmt.Sprintf("a value of type %T in a row", v))
		}
		in.cells = append(in.cells, c)
	}
}

// flush inserts the rows taken.
func (in *inserter) flush() error {
	rows := (len(in.cells) - in.shared) / in.width
	if rows == 0 {
		return nil
	}
	defer in.reset()
	return in.insertRows(rows)
}

func (in *inserter) reset() {
	in.flushes++
	in.cells, in.memory = in.cells[:in.shared], in.memory[:in.apart]
}
