package sqlite

import (
	"context"
	"database/sql/driver"
	"strings"

	"github.com/mattn/go-sqlite3"
)

// chunk is how many rows one statement of an inserter takes: beyond 16 the gain is lost in the noise.
const chunk = 16

// inserter gathers rows for one table and inserts them, many to a statement.
type inserter struct {
	width     int
	one, many *sqlite3.SQLiteStmt
	args      []driver.NamedValue
}

// statement prepares a query on the writer connection.
func statement(c *sqlite3.SQLiteConn, query string) (*sqlite3.SQLiteStmt, error) {
	s, err := c.Prepare(query)
	if err != nil {
		return nil, err
	}
	return s.(*sqlite3.SQLiteStmt), nil
}

// newInserter makes an inserter of INSERT or, where the last row of a key counts, INSERT OR REPLACE.
func newInserter(c *sqlite3.SQLiteConn, verb, table, columns string) (*inserter, error) {
	width := strings.Count(columns, ",") + 1
	row := "(?" + strings.Repeat(",?", width-1) + ")"
	query := verb + " INTO " + table + "(" + columns + ") VALUES " + row
	one, err := statement(c, query)
	if err != nil {
		return nil, err
	}
	many, err := statement(c, query+strings.Repeat(","+row, chunk-1))
	if err != nil {
		one.Close()
		return nil, err
	}
	return &inserter{width: width, one: one, many: many}, nil
}

// add takes a row; it is inserted at the latest by flush.
func (in *inserter) add(values ...driver.Value) error {
	for _, v := range values {
		in.args = append(in.args, driver.NamedValue{Ordinal: len(in.args) + 1, Value: v})
	}
	if len(in.args) == chunk*in.width {
		return in.exec(in.many, in.args)
	}
	return nil
}

// flush inserts what was taken.
func (in *inserter) flush() error {
	if len(in.args) == 0 {
		return nil
	}
	for i := 0; i < len(in.args); i += in.width {
		row := in.args[i : i+in.width]
		for j := range row {
			row[j].Ordinal = j + 1
		}
		if _, err := in.one.ExecContext(context.Background(), row); err != nil {
			in.reset()
			return err
		}
	}
	in.reset()
	return nil
}

func (in *inserter) exec(s *sqlite3.SQLiteStmt, args []driver.NamedValue) error {
	_, err := s.ExecContext(context.Background(), args)
	in.reset()
	return err
}

// reset forgets rows, after a failure too: the transaction they belong to is undone.
func (in *inserter) reset() {
	clear(in.args)
	in.args = in.args[:0]
}

func (in *inserter) close() {
	in.one.Close()
	in.many.Close()
}

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
