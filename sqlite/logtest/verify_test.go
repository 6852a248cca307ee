package logtest_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"gantry/planner"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

// sound writes a log of one run that is over.
func sound(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db, err := sqlite.Open(path, sqlite.Durable)
	if err != nil {
		t.Fatal(err)
	}
	l := logtest.New(t, db, logtest.Info("calm"))
	first := l.Arrive(0, "w", []string{"a", "b"}, [][]int32{nil, {0}})
	l.Exit(2*logtest.Second, l.Start(logtest.Second, first, 1, 0, 1e9), planner.OK, 0, "")
	l.Exit(4*logtest.Second, l.Start(3*logtest.Second, first+1, 1, 0, 1e9), planner.ExitCode, 1, "it failed")
	if err := l.Finish(context.Background(), sqlite.Failed, 1); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVerify(t *testing.T) {
	for change, want := range map[string]string{
		"":                             "",
		"DELETE FROM files":            "0 rows in files",
		"UPDATE attempts SET node = 1": "attempt 0 has the row",
		"UPDATE attempts SET exit_code = 3 WHERE attempt = 1": "attempt 1 has the row",
		"DELETE FROM attempts WHERE attempt = 1":              "1 rows in attempts",
		"UPDATE tasks SET state = 'done'":                     "task 1 is done",
		"UPDATE tasks SET attempts = 2 WHERE task = 0":        "task 0 has the row",
		"INSERT INTO warnings VALUES (77, 'r', 'm', 1)":       "foreign_key_check",
		"DELETE FROM plans":                                   "0 rows in plans",
	} {
		t.Run(change, func(t *testing.T) {
			path := sound(t)
			if change != "" {
				raw, err := sql.Open("sqlite3", "file:"+path)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := raw.Exec(change); err != nil {
					t.Fatal(err)
				}
				raw.Close()
			}
			problems, err := logtest.Verify(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(problems, "\n"); (want == "") != (all == "") || !strings.Contains(all, want) {
				t.Errorf("found %q, want %q", all, want)
			}
		})
	}
}
