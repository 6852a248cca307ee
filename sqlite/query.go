package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"reflect"

	"gantry/sqlite/sqlite3"
)

// Scan reads the columns of a row.
type Scan func(columns ...any) error

// Query asks the log something of one's own. It cannot write.
func (db *DB) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	rows, err := db.readers.QueryContext(ctx, query, args...)
	return rows, db.wrap("read", err)
}

// Each calls f for each row of a query of one's own (Query).
func (db *DB) Each(ctx context.Context, f func(Scan) error, query string, args ...any) error {
	rows, err := db.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	return db.EachOf(rows, f)
}

// EachOf calls f for each of the rows, and closes them.
func (db *DB) EachOf(rows *sql.Rows, f func(Scan) error) error {
	scan := func(columns ...any) error { return db.wrap("read", rows.Scan(columns...)) }
	return db.through(rows, func() error { return f(scan) })
}

func (db *DB) through(rows *sql.Rows, f func() error) error {
	defer rows.Close()
	for rows.Next() {
		if err := f(); err != nil {
			return err
		}
	}
	return db.wrap("read", rows.Err())
}

// rows calls f for each row of a query.
func (db *DB) rows(ctx context.Context, f func(Scan) error, query string, args ...any) error {
	rows, err := db.readers.QueryContext(ctx, query, args...)
	if err != nil {
		return db.wrap("read", err)
	}
	return db.EachOf(rows, f)
}

// collect reads the rows of a query.
func collect[T any](ctx context.Context, db *DB, read func(Scan) (T, error), query string, args ...any) ([]T, error) {
	rows, err := db.readers.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, db.wrap("read", err)
	}
	all := []T{}
	if err := db.through(rows, func() error {
		v, err := read(rows.Scan)
		all = append(all, v)
		return db.wrap("read", err)
	}); err != nil {
		return nil, err
	}
	return all, nil
}

// columnOf reads the rows of a query that has one column.
func columnOf[T any](ctx context.Context, db *DB, query string, args ...any) ([]T, error) {
	return collect(ctx, db, func(scan Scan) (v T, err error) {
		err = scan(&v)
		return v, err
	}, query, args...)
}

// written calls f for each row of a query on the connection of the writer, so that it sees its own transaction.
func written(c *sqlite3.SQLiteConn, f func([]driver.Value) error, query string, args ...driver.Value) error {
	rows, err := c.Query(query, args)
	if err != nil {
		return err
	}
	defer rows.Close()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		if err = rows.Next(row); err == nil {
			err = f(row)
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// scanned is the Scan of a row of numbers and texts as the driver has it. NULL leaves a variable as it is.
func scanned(row []driver.Value) Scan {
	return func(columns ...any) error {
		for i, to := range columns {
			switch v := row[i].(type) {
			case int64:
				reflect.ValueOf(to).Elem().SetInt(v)
			case string:
				reflect.ValueOf(to).Elem().SetString(v)
			}
		}
		return nil
	}
}
