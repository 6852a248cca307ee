package sqlite_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gantry/sqlite"
)

// Twenty people with the sqlite3 program, which waits for nobody and could write, are never told that the log of a run is locked; and when gantry
// has closed it, it is one file.
func TestManyProgramsReadARunningLog(t *testing.T) {
	program, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("needs the sqlite3 program")
	}
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path, sqlite.Durable)
	var wg sync.WaitGroup
	end := time.Now().Add(2 * time.Second)
	for range 20 {
		wg.Go(func() {
			for time.Now().Before(end) && !t.Failed() {
				if out, err := exec.Command(program, path, "SELECT count(*) FROM v_tasks").CombinedOutput(); err != nil || string(out) != "0\n" {
					t.Errorf("%v: %s", err, out)
				}
			}
		})
	}
	wg.Wait()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); err == nil {
		t.Error("the log is not one file")
	}
}
