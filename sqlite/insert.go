package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"
	"strconv"
	"strings"

	"github.com/mattn/go-sqlite3"
)

// chunk is how many rows one statement of an inserter takes: beyond 16 the gain is lost in the noise.
const chunk = 16

// inserter gathers rows for one table and inserts them, many to a statement. Values that many rows share are handed over once a statement:
// what a row costs is mostly what handing over its values costs.
type inserter struct {
	shared, width int
	one, many     *sqlite3.SQLiteStmt
	args          []driver.NamedValue // the shared values, then rows
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
func newInserter(c *sqlite3.SQLiteConn, verb, table, shared, columns string) (*inserter, error) {
	in := &inserter{shared: strings.Count(shared, ",") + 1, width: strings.Count(columns, ",") + 1}
	query := func(rows int) string {
		values := make([]string, rows)
		for r := range values {
			row := make([]string, in.shared+in.width)
			for i := range row {
				n := i + 1
				if i >= in.shared {
					n += r * in.width
				}
				row[i] = "?" + strconv.Itoa(n)
			}
			values[r] = "(" + strings.Join(row, ",") + ")"
		}
		return verb + " INTO " + table + "(" + shared + ", " + columns + ") VALUES " + strings.Join(values, ",")
	}
	var err error
	if in.one, err = statement(c, query(1)); err != nil {
		return nil, err
	}
	if in.many, err = statement(c, query(chunk)); err != nil {
		in.one.Close()
		return nil, err
	}
	in.args = make([]driver.NamedValue, in.shared, in.shared+chunk*in.width)
	for i := range in.args {
		in.args[i].Ordinal = i + 1
	}
	return in, nil
}

// share sets the values that the rows to come share; what was taken with others is inserted.
func (in *inserter) share(values ...driver.Value) error {
	same := func(a driver.NamedValue, v driver.Value) bool { return a.Value == v }
	if slices.EqualFunc(in.args[:in.shared], values, same) {
		return nil
	}
	if err := in.flush(); err != nil {
		return err
	}
	for i, v := range values {
		in.args[i].Value = v
	}
	return nil
}

// add takes a row; it is inserted at the latest by flush.
func (in *inserter) add(values ...driver.Value) error {
	for _, v := range values {
		in.args = append(in.args, driver.NamedValue{Ordinal: len(in.args) + 1, Value: v})
	}
	if len(in.args) == in.shared+chunk*in.width {
		_, err := in.many.ExecContext(context.Background(), in.args)
		in.reset()
		return err
	}
	return nil
}

// flush inserts what was taken.
func (in *inserter) flush() error {
	rows := in.args[in.shared:]
	defer in.reset()
	for ; len(rows) > 0; rows = rows[in.width:] {
		// The first row's place is right behind the shared values.
		row := in.args[:in.shared+in.width]
		for i := range in.width {
			row[in.shared+i].Value = rows[i].Value
		}
		if _, err := in.one.ExecContext(context.Background(), row); err != nil {
			return err
		}
	}
	return nil
}

// reset forgets rows, after a failure too: the transaction they belong to is undone.
func (in *inserter) reset() {
	clear(in.args[in.shared:])
	in.args = in.args[:in.shared]
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
