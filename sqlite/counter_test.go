package sqlite_test

import (
	"bytes"
	"context"
	encoding "encoding/csv"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
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
		if err := l.Finish(context.Background(), sqlite.Finished, 0); err != nil {
			t.Fatal(err)
		}
		var csv bytes.Buffer
		if err := export.CSV(t.Context(), &csv, db, "calm"); err != nil {
			t.Fatal(err)
		}
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
			"read_ops IS NULL AND applied_pids IS NULL AND staged_ns IS NULL"); null != 1 {
			t.Error("what was not measured is not NULL")
		}
	}
}

// A log that a gantry wrote which did not have a counter yet gets its column when it is opened.
func TestALogWithoutACounterGetsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db, err := sqlite.Open(path, sqlite.Durable)
	if err != nil {
		t.Fatal(err)
	}
	logtest.Diamond(t, db, "calm")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	raw := rawDB(t, path)
	for name := range columnsOf(t, path, "view") {
		if _, err := raw.Exec("DROP VIEW " + name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := raw.Exec("ALTER TABLE attempt_rows DROP COLUMN read_ops"); err != nil {
		t.Fatal(err)
	}
	open(t, path, sqlite.ReadOnly)
	if n := query[int](t, path, "SELECT count(*) FROM v_attempts WHERE read_ops IS NULL"); n != 5 {
		t.Errorf("%d attempts", n)
	}
}

// A log whose views are those of an earlier gantry gets its own when it is opened, by a reader too.
func TestALogWithEarlierViewsGetsThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db, err := sqlite.Open(path, sqlite.Bulk)
	if err != nil {
		t.Fatal(err)
	}
	logtest.Diamond(t, db, "calm")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	events := query[int](t, path, "SELECT count(*) FROM v_events")
	raw := rawDB(t, path)
	for _, statement := range []string{"DROP VIEW chunk_events", "CREATE VIEW chunk_events AS " +
		"SELECT 1 AS id, '' AS run, 1 AS v, 1 AS seq, 1 AS at_ns, 1 AS kind, '{}' AS body WHERE false"} {
		if _, err := raw.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if n := query[int](t, path, "SELECT count(*) FROM v_events"); n == events {
		t.Fatal("the view shows all")
	}
	open(t, path, sqlite.ReadOnly)
	if n := query[int](t, path, "SELECT count(*) FROM v_events"); n != events {
		t.Errorf("%d events of %d", n, events)
	}
}

// So does that of a simulation, whose attempts are in chunks: these end before the counter.
func TestASimulationWithoutACounterIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db, err := sqlite.Open(path, sqlite.Bulk)
	if err != nil {
		t.Fatal(err)
	}
	l := logtest.New(t, db, logtest.Info("calm"))
	first := l.Arrive(0, "w", []string{"a", "a"}, [][]int32{nil, nil})
	for i := range 2 {
		a := l.Start(0, first+planner.TaskID(i), 1, 0, time.Second)
		l.Event(2*logtest.Second, &planner.AttemptExited{Attempt: a, Outcome: planner.OK,
			Usage: planner.Usage{OOMKills: 321, DroppedBytes: 987654, Missing: planner.CountersAll}})
	}
	if err := errors.Join(l.Finish(context.Background(), sqlite.Finished, 0), db.Close()); err != nil {
		t.Fatal(err)
	}
	raw := rawDB(t, path)
	for name := range columnsOf(t, path, "view") {
		if _, err := raw.Exec("DROP VIEW " + name); err != nil {
			t.Fatal(err)
		}
	}
	later := regexp.MustCompile(`,987654(,0)*\]`) // with later counters
	text := later.ReplaceAllString(query[string](t, path, "SELECT rows FROM task_chunks"), "]")
	if _, err := raw.Exec("UPDATE task_chunks SET rows = CAST(? AS TEXT)", text); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Exec("ALTER TABLE attempt_rows DROP COLUMN dropped_bytes"); err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, path, "SELECT count(*) FROM task_chunks WHERE rows LIKE '%321]%'"); n != 1 {
		t.Fatalf("%d chunks end before the counter", n)
	}
	var csv bytes.Buffer
	if err := export.Attempts(t.Context(), &csv, open(t, path, sqlite.ReadOnly), "calm"); err != nil {
		t.Fatal(err)
	}
	rows, err := encoding.NewReader(&csv).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%v %v", rows, err)
	}
	for _, row := range rows[1:] {
		if row[slices.Index(rows[0], "oom_kills")] != "321" || row[slices.Index(rows[0], "dropped_bytes")] != "" {
			t.Errorf("%v\n%v", rows[0], row)
		}
	}
}
