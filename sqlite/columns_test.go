package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

// A log of an earlier build gets the columns that it lacks, and takes runs.
func TestALogOfAnEarlierBuildGetsNewColumns(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	logtest.Diamond(t, open(t, path, sqlite.Durable), "before")
	raw, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	var views []string // they go and come back, as they name the column
	for _, text := range rowsOf(t, path, "SELECT sql FROM sqlite_schema WHERE type = 'view'") {
		views = append(views, strings.Trim(text, "[]"))
	}
	for _, text := range views {
		if _, err := raw.Exec("DROP VIEW " + strings.Fields(text)[2]); err != nil {
			t.Fatal(err)
		}
	}
	for _, change := range append([]string{"ALTER TABLE attempts DROP COLUMN gpus"}, views...) {
		if _, err := raw.Exec(strings.Replace(change, " a.gpus,", "", 1)); err != nil {
			t.Fatal(change, err)
		}
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	logtest.Diamond(t, open(t, path, sqlite.Durable), "after")
	if got := rowsOf(t, path, "SELECT count(*) FROM attempts WHERE gpus IS NULL"); len(got) != 1 {
		t.Errorf("%v", got)
	}
}
