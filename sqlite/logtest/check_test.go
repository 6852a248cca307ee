package logtest_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

func TestCheckNoticesRowsThatAreNotAsTheEventsSay(t *testing.T) {
	for _, change := range []string{
		"UPDATE tasks SET state = 'skipped' WHERE task = 1",
		"UPDATE tasks SET attempts = 7 WHERE task = 2",
		"DELETE FROM tasks WHERE task = 3",
		"INSERT INTO attempts(run, attempt, task, try, node, hold_millicores, hold_memory_bytes, hold_disk_bps) " +
			"VALUES (1, 99, 0, 2, 0, 0, 0, 0)",
		"UPDATE attempts SET outcome = 'killed' WHERE attempt = 0",
		"UPDATE attempts SET node = 1 WHERE attempt = 0",
		"DELETE FROM attempts WHERE attempt = 1",
		"UPDATE workflows SET state = 'cancelled'",
		"UPDATE workflows SET tasks = 5",
		"UPDATE tasks SET run = 2", // of no run
		"DELETE FROM events WHERE seq = 4",
		"DELETE FROM files WHERE file = 1",
		"UPDATE attempts SET exit_code = 3 WHERE attempt = 1",
		"INSERT INTO warnings VALUES (77, 'r', 'm', 1)", // of no run
		"",
	} {
		path := filepath.Join(t.TempDir(), sqlite.FileName)
		db, err := sqlite.Open(path, sqlite.Durable)
		if err != nil {
			t.Fatal(err)
		}
		logtest.Diamond(t, db, "whole")
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		raw, err := sql.Open("sqlite3", "file:"+path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := raw.Exec(change); err != nil {
			t.Fatal(err)
		}
		raw.Close()
		if err := logtest.Check(t.Context(), path); (err == nil) != (change == "") {
			t.Errorf("%q: %v", change, err)
		} else if strings.HasPrefix(change, "UPDATE attempts") && !strings.Contains(err.Error(), "attempts by ") {
			t.Errorf("%q: the bodies of events do not tell: %v", change, err)
		}
	}
}
