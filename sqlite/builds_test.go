package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

// A log whose tables are those of another build is refused in one sentence; tables and views of its user are welcome.
func TestALogOfAnotherBuildIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	logtest.Diamond(t, open(t, path, sqlite.Durable), "before")
	change := func(statement string) {
		t.Helper()
		raw, err := sql.Open("sqlite3", path)
		must(t, err)
		defer raw.Close()
		if _, err := raw.Exec(statement); err != nil {
			t.Fatal(statement, err)
		}
	}
	change("CREATE VIEW mine AS SELECT count(*) FROM v_tasks")
	logtest.Diamond(t, open(t, path, sqlite.Durable), "after")
	change("ALTER TABLE reuses ADD COLUMN more TEXT")
	for _, mode := range []sqlite.Mode{sqlite.ReadOnly, sqlite.Durable, sqlite.Bulk} {
		_, err := sqlite.Open(path, mode)
		if err == nil || !strings.Contains(err.Error(), "its reuses is of another build") {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
}
