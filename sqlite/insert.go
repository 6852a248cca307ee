package sqlite

import (
	"context"
	"database/sql/driver"
	"strings"

	"gantry/sqlite/sqlite3"
)

// chunk is how many rows are inserted together.
const chunk = 32

// statement inserts rows of a run, or changes them. Of the driver's two ways to run it, Exec takes a call from Go to C
// for each value, and Query one for all values: docs/decisions/0013-rows-go-to-sqlite-in-chunks.md has what that saves.
type statement struct {
	one, many driver.Stmt         // for a row; for a chunk of rows, nil unless it inserts
	args      []driver.NamedValue // of a chunk; each row begins with the run
	width     int                 // of a row
	rows      int                 // that wait for the others of their chunk
}

// query is a statement to be made, which returns no rows. Its first argument is the run.
type query struct {
	to   **statement
	text string
}

// insertInto is INSERT or, where the last row of a key counts, INSERT OR REPLACE.
func insertInto(verb, table, columns string) string {
	return verb + " INTO " + table + "(" + columns + ") VALUES (?" + strings.Repeat(",?", strings.Count(columns, ",")) +
		")"
}

// statements write in this order.
type statements []*statement

func prepare(c *sqlite3.SQLiteConn, run int64, queries ...query) (all statements, err error) {
	for _, q := range queries {
		s, err := newStatement(c, run, q.text)
		if err != nil {
			all.close()
			return nil, err
		}
		*q.to, all = s, append(all, s)
	}
	return all, nil
}

func newStatement(c *sqlite3.SQLiteConn, run int64, text string) (*statement, error) {
	one, err := c.Prepare(text)
	if err != nil {
		return nil, err
	}
	s := &statement{one: one, width: one.NumInput()}
	s.args = make([]driver.NamedValue, chunk*s.width)
	for i := range s.args {
		if s.args[i].Ordinal = i + 1; i%s.width == 0 {
			s.args[i].Value = run
		}
	}
	_, row, inserts := strings.Cut(text, " VALUES ")
	if !inserts {
		return s, nil
	}
	if s.many, err = c.Prepare(text + strings.Repeat(", "+row, chunk-1)); err != nil {
		s.one.Close()
		return nil, err
	}
	return s, nil
}

func (s *statement) close() {
	s.one.Close()
	if s.many != nil {
		s.many.Close()
	}
}

func (all statements) close() {
	for _, s := range all {
		s.close()
	}
}

func (all statements) flush() error {
	for _, s := range all {
		if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}

// reset forgets rows, after a failure too: the transaction they belong to is undone.
func (all statements) reset() {
	for _, s := range all {
		s.rows = 0
	}
}

// add takes a row; it is inserted at the latest by flush.
func (s *statement) add(values ...driver.Value) error {
	s.put(values)
	if s.rows++; s.rows < chunk {
		return nil
	}
	s.rows = 0
	return run(s.many, s.args)
}

// exec runs the statement for a row at once. No row waits.
func (s *statement) exec(values ...driver.Value) error {
	s.put(values)
	return run(s.one, s.args[:s.width])
}

func (s *statement) put(values []driver.Value) {
	row := s.args[s.rows*s.width:]
	for i, v := range values {
		row[i+1].Value = v
	}
}

// flush inserts the rows taken.
func (s *statement) flush() error {
	for i := range s.rows {
		for k := range s.width { // in the place of the first, which is inserted
			s.args[k].Value = s.args[i*s.width+k].Value
		}
		if err := run(s.one, s.args[:s.width]); err != nil {
			return err
		}
	}
	s.rows = 0
	return nil
}

func run(stmt driver.Stmt, args []driver.NamedValue) error {
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(context.Background(), args)
	if err != nil {
		return err
	}
	return rows.Close()
}
