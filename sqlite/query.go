package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"time"
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
	defer rows.Close()
	for rows.Next() {
		if err := f(func(columns ...any) error { return db.wrap("read", rows.Scan(columns...)) }); err != nil {
			return err
		}
	}
	return db.wrap("read", rows.Err())
}

// one reads the columns of a query that has one row: sql.ErrNoRows is the error if it has none.
func (db *DB) one(ctx context.Context, query string, args []any, columns ...any) error {
	return db.wrap("read", db.readers.QueryRowContext(ctx, query, args...).Scan(columns...))
}

// Asked is what queries are asked of: a DB or a Snapshot.
type Asked interface {
	Query(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	EachOf(rows *sql.Rows, f func(Scan) error) error
}

// EachRow calls f for each row of a query, in the same variable: its columns are the first exported fields of T, in
// order, with those of structs and arrays among them, or T itself.
func EachRow[T any](ctx context.Context, db Asked, f func(*T) error, query string, args ...any) error {
	rows, err := db.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	names, _ := rows.Columns() // they are open
	var row T
	columns := placesOf(reflect.ValueOf(&row).Elem())[:len(names)]
	return db.EachOf(rows, func(scan Scan) error {
		if err := scan(columns...); err != nil {
			return err
		}
		return f(&row)
	})
}

// RowsOf reads the rows of a query as EachRow does.
func RowsOf[T any](ctx context.Context, db Asked, query string, args ...any) ([]T, error) {
	all := []T{}
	err := EachRow(ctx, db, func(row *T) error {
		all = append(all, *row)
		return nil
	}, query, args...)
	return all, err
}

// MapOf reads the rows of a query whose first columns are the key of a map and whose others are its value.
func MapOf[K comparable, V any](ctx context.Context, db Asked, query string, args ...any) (map[K]V, error) {
	type row struct {
		Key   K
		Value V
	}
	all := map[K]V{}
	return all, EachRow(ctx, db, func(r *row) error {
		all[r.Key] = r.Value
		return nil
	}, query, args...)
}

// RowOf reads the row of a query; the zero value if there is none.
func RowOf[T any](ctx context.Context, db Asked, query string, args ...any) (row T, err error) {
	err = EachRow(ctx, db, func(r *T) error {
		row = *r
		return nil
	}, query, args...)
	return row, err
}

// JSON is a column with JSON; NULL is the zero value.
type JSON[T any] struct{ V T }

// Scan implements sql.Scanner.
func (j *JSON[T]) Scan(v any) error {
	*j = JSON[T]{} // rows share no map or slice
	return asJSON{&j.V}.Scan(v)
}

// asJSON is a column with JSON for a variable; NULL leaves that as it is.
type asJSON struct{ to any }

// Scan implements sql.Scanner.
func (j asJSON) Scan(v any) error {
	switch text := v.(type) {
	case string:
		return json.Unmarshal([]byte(text), j.to)
	case []byte:
		return json.Unmarshal(text, j.to)
	}
	return nil
}

// wall is a column with a time as RFC 3339; NULL is the zero time.
type wall time.Time

// Scan implements sql.Scanner.
func (w *wall) Scan(v any) (err error) {
	var t time.Time
	if text, ok := v.(string); ok {
		t, err = time.Parse(time.RFC3339Nano, text)
	}
	*w = wall(t)
	return err
}

func placesOf(v reflect.Value) (places []any) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		return []any{(*wall)(v.Addr().Interface().(*time.Time))}
	}
	scans := v.Addr().Type().Implements(reflect.TypeFor[sql.Scanner]())
	if scans || v.Kind() != reflect.Struct && v.Kind() != reflect.Array {
		return []any{v.Addr().Interface()}
	}
	if v.Kind() == reflect.Array {
		for i := range v.Len() {
			places = append(places, placesOf(v.Index(i))...)
		}
		return places
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
			places = append(places, placesOf(v.Field(i))...)
		}
	}
	return places
}

// exec runs a statement on the connection of the writer, within a transaction.
func (db *DB) exec(query string, args ...any) error {
	values, err := valuesOf(args)
	if err == nil {
		_, err = db.conn.Exec(query, values)
	}
	return err
}

// change is exec in a transaction of its own.
func (db *DB) change(query string, args ...any) error {
	return db.transact(func() error { return db.exec(query, args...) })
}

func valuesOf(args []any) (values []driver.Value, err error) {
	for _, a := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(a)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// written calls f for each row of a query on the connection of the writer, so that it sees its own transaction.
func (db *DB) written(f func([]driver.Value) error, query string, args ...any) error {
	values, err := valuesOf(args)
	if err != nil {
		return err
	}
	rows, err := db.conn.Query(query, values)
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

// queryInt reads one number on the connection of the writer.
func (db *DB) queryInt(query string, args ...any) (n int64, err error) {
	err = db.written(func(row []driver.Value) error {
		n, _ = row[0].(int64)
		return nil
	}, query, args...)
	return n, err
}

// scanned is the Scan of a row of numbers and texts as the driver has it. NULL leaves a variable as it is.
func scanned(row []driver.Value) Scan {
	return func(columns ...any) error {
		for i, to := range columns {
			if scanner, ok := to.(sql.Scanner); ok {
				if err := scanner.Scan(row[i]); err != nil {
					return err
				}
				continue
			}
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

// collect reads the rows of a query by hand.
func collect[T any](ctx context.Context, db *DB, read func(Scan) (T, error), query string, args ...any) ([]T, error) {
	all := []T{}
	err := db.Each(ctx, func(scan Scan) error {
		v, err := read(scan)
		all = append(all, v)
		return err
	}, query, args...)
	return all, err
}
