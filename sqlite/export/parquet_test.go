package export_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"gantry/planner"
	"gantry/sqlite/export"
	"gantry/sqlite/logtest"
)

// Every cell of the Parquet files is that of the CSV files; empty there is null here. Numbers are numbers.
func TestParquetHasTheColumnsAndValuesOfCSV(t *testing.T) {
	db := diamond(t)
	info := logtest.Info("sim")
	info.Runtime, info.Policy, info.Host = "sim", "cpp", nil
	l := logtest.New(t, db, info)
	first := l.Arrive(0, "w", []string{"a", "b"}, [][]int32{nil, {0}})
	l.Exit(2*logtest.Second, l.Start(0, first, 1, 1, time.Second), planner.OK, 0, "")
	for name, pair := range map[string][2]export.Writer{"both": {export.CSV.Both, export.Parquet.Both},
		"tasks": {export.CSV.Tasks, export.Parquet.Tasks}, "attempts": {export.CSV.Attempts, export.Parquet.Attempts}} {
		var text, packed bytes.Buffer
		must(t, pair[0](context.Background(), &text, db, "calm", "sim"))
		must(t, pair[1](context.Background(), &packed, db, "calm", "sim"))
		table, err := csv.NewReader(&text).ReadAll()
		must(t, err)
		file, err := parquet.OpenFile(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
		must(t, err)
		if run, ok := file.Lookup("gantry.run"); !ok || run != "calm,sim" {
			t.Errorf("%s: the run is %q", name, run)
		}
		kinds := map[string]parquet.Kind{"run": parquet.ByteArray, "attempts": parquet.Int64,
			"queued_ns": parquet.Int64, "measured_ns": parquet.Int64, "peak_memory_bytes": parquet.Int64,
			"done": parquet.Double, "kept": parquet.Double, "exit_code": parquet.Int64, "image": parquet.ByteArray}
		fields := file.Schema().Fields()
		if len(fields) != len(table[0]) {
			t.Fatalf("%s: %d columns, CSV has %d", name, len(fields), len(table[0]))
		}
		for i, f := range fields {
			if f.Name() != table[0][i] || !f.Optional() {
				t.Errorf("%s: column %d is %s, in CSV %s", name, i, f.Name(), table[0][i])
			}
			if want, ok := kinds[f.Name()]; ok && f.Type().Kind() != want {
				t.Errorf("%s: %s is %v", name, f.Name(), f.Type())
			}
		}
		rows := make([]parquet.Row, len(table))
		reader := parquet.NewReader(file)
		n, err := reader.ReadRows(rows)
		if err != nil && err != io.EOF || n != len(table)-1 {
			t.Fatalf("%s: %d rows, CSV has %d: %v", name, n, len(table)-1, err)
		}
		for r, row := range rows[:n] {
			for i, v := range row {
				got := v.String()
				if v.IsNull() {
					got = ""
				}
				if v.Kind() == parquet.Double && !v.IsNull() && !strings.Contains(got, ".") {
					got += ".0"
				}
				if got != table[r+1][i] {
					t.Errorf("%s, row %d: %s is %q, in CSV %q", name, r, fields[i].Name(), got, table[r+1][i])
				}
			}
		}
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	}
}
