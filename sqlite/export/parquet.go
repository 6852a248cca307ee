package export

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"gantry/sqlite"
)

// rowGroup is how many rows are kept until they are written.
const rowGroup = 5000

// writeParquet writes the rows of a query, in groups: columns have the names and the order of the CSV file, and are
// 64-bit integers, doubles or strings; what is not known is null. The metadata of the file has the beginning of the
// run, which instants count from.
func writeParquet(ctx context.Context, w io.Writer, db *sqlite.DB, query, run string) error {
	info, err := db.Info(ctx, run)
	if err != nil {
		return err
	}
	rows, err := db.Query(ctx, query, info.Name)
	if err != nil {
		return err
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return fmt.Errorf("read log %s: %w", db.Path(), err)
	}
	var fields []reflect.StructField
	var places []int // of the columns of the query; -1: it only sorts
	for _, c := range types {
		place := -1
		if c.Name() != "by_task" {
			place = len(fields)
			fields = append(fields, reflect.StructField{Name: "F" + strconv.Itoa(place),
				Type: reflect.PointerTo(columnType(c.Name(), c.DatabaseTypeName())),
				Tag:  reflect.StructTag(fmt.Sprintf(`parquet:"%s,optional"`, c.Name()))})
		}
		places = append(places, place)
	}
	record := reflect.New(reflect.StructOf(fields))
	dest := make([]any, len(places))
	for i, place := range places {
		dest[i] = new(any)
		if place >= 0 {
			dest[i] = record.Elem().Field(place).Addr().Interface()
		}
	}
	out := parquet.NewWriter(w, parquet.SchemaOf(record.Interface()), parquet.Compression(&zstd.Codec{}),
		parquet.CreatedBy("gantry", info.Version, ""), parquet.KeyValueMetadata("gantry.run", info.Name),
		parquet.KeyValueMetadata("gantry.started_unix_ns", strconv.FormatInt(info.Started.UnixNano(), 10)))
	count := 0
	if err := db.EachOf(rows, func(scan sqlite.Scan) error {
		if err := scan(dest...); err != nil {
			return err
		}
		if count++; count%rowGroup == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		return out.Write(record.Interface())
	}); err != nil {
		return err
	}
	return out.Close()
}

// columnType is the type of a column: as declared, or for what a view computes, by the unit in its name.
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
