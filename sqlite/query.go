package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"time"

	"gantry/trace/shown"
)

// Scan reads the columns of a row.
type Scan func(columns ...any) error

// Reader asks a database: its pool of connections, one of these, or a transaction.
type Reader struct {
	From interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
	Failed func(error) error // says of an error what was being done; nil stays nil
}

// Query asks something of one's own. It cannot write.
func (r *Reader) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	rows, err := r.From.QueryContext(ctx, query, args...)
	return rows, r.Failed(err)
}

// Each calls f for each row of a query of one's own (Query).
func (r *Reader) Each(ctx context.Context, f func(Scan) error, query string, args ...any) error {
	rows, err := r.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	return r.EachOf(rows, f)
}

// EachOf calls f for each of the rows, and closes them.
func (r *Reader) EachOf(rows *sql.Rows, f func(Scan) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := f(func(columns ...any) error { return r.Failed(named(rows, rows.Scan(columns...))) }); err != nil {
			return err
		}
	}
	return r.Failed(rows.Err())
}

// named adds the row to an error of reading its columns. Both come from a file that may be damaged: they are cut.
func named(rows *sql.Rows, err error) error {
	if err == nil {
		return nil
	}
	names, _ := rows.Columns() // they are open
	values, places, row := make([]any, len(names)), make([]any, len(names)), ""
	for i := range values {
		places[i] = &values[i]
	}
	_ = rows.Scan(places...) // it was read before
	for i, name := range names {
		if plainName.MatchString(name) && values[i] != nil {
			row += fmt.Sprintf(", %s %.40q", name, fmt.Sprint(values[i]))
		}
	}
	if len(err.Error()) > 300 {
		err = errors.New(shown.Short(err.Error(), 300))
	}
	return fmt.Errorf("%w%.300s", err, row)
}

// plainName matches a column that a query does not compute.
var plainName = regexp.MustCompile(`^\w+$`)

// one reads the columns of a query that has one row: sql.ErrNoRows is the error if it has none.
func (r *Reader) one(ctx context.Context, query string, args []any, columns ...any) error {
	none := r.Failed(sql.ErrNoRows)
	if err := r.Each(ctx, func(scan Scan) error {
		none = nil
		return scan(columns...)
	}, query, args...); err != nil {
		return err
	}
	return none
}

// Asked is something with a Reader.
type Asked interface {
	Query(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	EachOf(rows *sql.Rows, f func(Scan) error) error
}

// EachRow calls f for each row of a query, in the same variable: its columns are the first exported fields of T, in
// order, with those of structs and arrays among them, or T itself. Maps, slices and pointers to structs are JSON.
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

// Questions are queries of which none is asked after one that has failed.
type Questions struct {
	Err error
	ctx context.Context
	db  Asked
}

// Ask begins to ask.
func Ask(ctx context.Context, db Asked) *Questions { return &Questions{ctx: ctx, db: db} }

// Into reads the rows of a query.
func Into[T any](q *Questions, to *[]T, query string, args ...any) {
	if q.Err == nil {
		*to, q.Err = RowsOf[T](q.ctx, q.db, query, args...)
	}
}

// Row reads the columns of a query that has one row, and one argument.
func (q *Questions) Row(arg any, query string, columns ...any) {
	if q.Err != nil {
		return
	}
	var rows *sql.Rows
	if rows, q.Err = q.db.Query(q.ctx, query, arg); q.Err == nil {
		q.Err = q.db.EachOf(rows, func(scan Scan) error { return scan(columns...) })
	}
}

// For is EachRow.
func For[T any](q *Questions, f func(*T) error, query string, args ...any) {
	if q.Err == nil {
		q.Err = EachRow(q.ctx, q.db, f, query, args...)
	}
}

// asJSON is a column with JSON for a variable; NULL is its zero value.
type asJSON struct{ to any }

// Scan implements sql.Scanner.
func (j asJSON) Scan(v any) error {
	reflect.ValueOf(j.to).Elem().SetZero() // rows share no map or slice
	switch text := v.(type) {
	case string:
		return json.Unmarshal([]byte(text), j.to)
	case []byte:
		return json.Unmarshal(text, j.to)
	}
	return nil
}

// Value implements driver.Valuer.
func (j asJSON) Value() (driver.Value, error) {
	text, err := json.Marshal(j.to)
	return string(text), err
}

// wall is a column with a time as RFC 3339, in UTC; NULL is the zero time.
type wall time.Time

// Value implements driver.Valuer.
func (w wall) Value() (driver.Value, error) { return time.Time(w).UTC().Format(time.RFC3339Nano), nil }

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
	switch t := v.Type(); {
	case t == reflect.TypeFor[time.Time]():
		return []any{(*wall)(v.Addr().Interface().(*time.Time))}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[sql.Scanner]()):
	case t.Kind() == reflect.Map, t == reflect.TypeFor[json.RawMessage](),
		t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8,
		t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
		return []any{asJSON{v.Addr().Interface()}}
	case t.Kind() == reflect.Array:
		for i := range v.Len() {
			places = append(places, placesOf(v.Index(i))...)
		}
		return places
	case t.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if f := t.Field(i); f.IsExported() || f.Anonymous {
				places = append(places, placesOf(v.Field(i))...)
			}
		}
		return places
	}
	return []any{v.Addr().Interface()}
}

// exec runs a statement on the connection of the writer, within a transaction.
func (db *DB) exec(query string, args ...any) error {
	_, err := db.conn.ExecContext(context.Background(), query, args...)
	return err
}

// change is exec in a transaction of its own.
func (db *DB) change(query string, args ...any) error {
	return db.transact(func() error { return db.exec(query, args...) })
}

// queryInt reads one number on the connection of the writer, so that it sees its own transaction.
func (db *DB) queryInt(query string, args ...any) (int64, error) {
	return RowOf[int64](context.Background(), &db.own, query, args...)
}
