package export

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/snappy"

	"gantry/sqlite"
)

// rowGroup is how many rows are kept until they are written.
const rowGroup = 5000

// writeParquet writes the rows of a query, in groups: columns have the names and the order of the CSV file, and are
// 64-bit integers, doubles or strings; an unknown value is null. The metadata of the file has the runs and when they
// began, which instants count from.
func writeParquet(ctx context.Context, w io.Writer, db *sqlite.DB, query string, runs []string) error {
	var out *parquet.GenericWriter[any]
	var record reflect.Value
	count := 0
	if err := eachRow(ctx, db, query, runs, func(types []*sql.ColumnType) (dest []any, err error) {
		record = reflect.New(recordType(types))
		for i := range types {
			dest = append(dest, record.Elem().Field(i).Addr().Interface())
		}
		options, err := described(ctx, db, runs)
		if err == nil {
			out = parquet.NewGenericWriter[any](w, append(options, parquet.SchemaOf(record.Interface()))...)
		}
		return dest, err
	}, func() error {
		if count++; count%rowGroup == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		_, err := out.Write([]any{record.Interface()})
		return err
	}); err != nil {
		return err
	}
	return out.Close()
}

// described returns the metadata and the compression of a file. Every reader knows Snappy.
func described(ctx context.Context, db *sqlite.DB, runs []string) ([]parquet.WriterOption, error) {
	var names, began []string
	var version string
	for _, run := range runs {
		info, err := db.Info(ctx, run)
		if err != nil {
			return nil, err
		}
		names, began = append(names, info.Name), append(began, strconv.FormatInt(info.Started.UnixNano(), 10))
		version = info.Version
	}
	version, build, _ := strings.Cut(version, " ") // readers look for "version V(build B)"
	return []parquet.WriterOption{parquet.Compression(&snappy.Codec{}),
		parquet.CreatedBy("gantry", version, strings.Trim(build, "()")),
		parquet.KeyValueMetadata("gantry.run", strings.Join(names, ",")),
		parquet.KeyValueMetadata("gantry.started_unix_ns", strings.Join(began, ","))}, nil
}

// recordType is a struct with a field for each column.
func recordType(columns []*sql.ColumnType) reflect.Type {
	fields := make([]reflect.StructField, len(columns))
	for i, c := range columns {
		fields[i] = reflect.StructField{Name: "F" + strconv.Itoa(i),
			Type: reflect.PointerTo(columnType(c.Name(), c.DatabaseTypeName())),
			Tag:  reflect.StructTag(fmt.Sprintf(`parquet:"%s,optional"`, c.Name()))}
	}
	return reflect.StructOf(fields)
}

// columnType is the type of a column: as declared, or, if a view computes it, by the unit in its name.
func columnType(name, declared string) reflect.Type {
	switch declared {
	case "INTEGER":
		return reflect.TypeFor[int64]()
	case "REAL":
		return reflect.TypeFor[float64]()
	case "TEXT":
		return reflect.TypeFor[string]()
	}
	for _, unit := range []string{"_ns", "_bytes", "_bps", "_millicores"} {
		if strings.HasSuffix(name, unit) {
			return reflect.TypeFor[int64]()
		}
	}
	return reflect.TypeFor[string]()
}
