package sqlite_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/sqlite/export"
	"gantry/sqlite/logtest"
)

// columnsOfUsage gives each counter of u a value of its own and returns the columns of the log that are to have it,
// those of Limits with their prefix.
func columnsOfUsage(v reflect.Value, prefix string, next *int64, columns map[string]int64) {
	for i := range v.NumField() {
		name := prefix + v.Type().Field(i).Tag.Get("json")
		switch {
		case v.Field(i).Type() == reflect.TypeFor[planner.Counters]():
		case v.Field(i).Kind() == reflect.Struct:
			columnsOfUsage(v.Field(i), "applied_", next, columns)
		case v.Field(i).Kind() == reflect.Pointer:
			*next++
			v.Field(i).Set(reflect.New(v.Field(i).Type().Elem()))
			v.Field(i).Elem().SetInt(*next)
			columns[name] = *next
		default:
			*next++
			v.Field(i).SetInt(*next)
			columns[name] = *next
		}
	}
}

// What CONTRIBUTING.md promises of a new counter: a member of planner.Usage is a column of the log, of its view and of
// the exports, of real runs and of simulations, and is NULL where it was not measured.
func TestEveryCounterOfUsageIsAColumn(t *testing.T) {
	for _, mode := range []sqlite.Mode{sqlite.Durable, sqlite.Bulk} {
		path := filepath.Join(t.TempDir(), sqlite.FileName)
		db := open(t, path, mode)
		l := logtest.New(t, db, logtest.Info("calm"))
		first := l.Arrive(0, "w", []string{"a", "a"}, [][]int32{nil, nil})
		var all, none planner.Usage
		columns, next := map[string]int64{}, int64(1000)
		columnsOfUsage(reflect.ValueOf(&all).Elem(), "", &next, columns)
		none = planner.Usage{Queued: unit.Never, Staged: unit.Never, Created: unit.Never, Started: unit.Never,
			Ended: unit.Never, Missing: planner.CountersAll}
		for i, u := range []planner.Usage{all, none} {
			a := l.Start(0, first+planner.TaskID(i), 1, 0, time.Second)
			l.Event(2*logtest.Second, &planner.AttemptExited{Attempt: a, Outcome: planner.OK, Usage: u})
		}
		must(t, l.Finish(context.Background(), sqlite.Finished, 0))
		var csv bytes.Buffer
		must(t, export.CSV.Both(t.Context(), &csv, db, "calm"))
		head, _, _ := strings.Cut(csv.String(), "\n")
		for name, want := range columns {
			for _, table := range []string{"attempts", "v_attempts"} {
				if got := query[int64](t, path, fmt.Sprintf("SELECT %s FROM %s WHERE attempt = 0", name,
					table)); got != want {
					t.Errorf("%s.%s is %d, not %d", table, name, got, want)
				}
			}
			if got := query[string](t, path, fmt.Sprintf("SELECT coalesce(%s, 'NULL') FROM attempts WHERE attempt = 1",
				name)); got != "NULL" && got != "0" {
				t.Errorf("%s, which was not measured, is %s", name, got)
			}
			if !strings.Contains(","+head+",", ","+name+",") {
				t.Errorf("the CSV has no %s", name)
			}
		}
		if null := query[int](t, path, "SELECT count(*) FROM attempts WHERE attempt = 1 AND cpu_user_ns IS NULL AND "+
			"gpu_ns IS NULL AND peak_gpu_memory_bytes IS NULL AND "+
			"read_ops IS NULL AND applied_pids IS NULL AND staged_ns IS NULL"); null != 1 {
			t.Error("what was not measured is not NULL")
		}
	}
}
