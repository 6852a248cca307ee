package sqlite_test

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gantry/sqlite"
)

// logOfReader names the log to a process of the test that is to be one of its readers.
const logOfReader = "GANTRY_TEST_LOG"

// Twenty programs that wait for nobody and could write, as sqlite3 does, are never told that the log of a run is locked; and when gantry
// has closed it, it is one file.
func TestManyProgramsReadARunningLog(t *testing.T) {
	if path := os.Getenv(logOfReader); path != "" {
		read(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path, sqlite.Durable)
	var wg sync.WaitGroup
	end := time.Now().Add(2 * time.Second)
	for range 20 {
		wg.Go(func() {
			for time.Now().Before(end) && !t.Failed() {
				reader := exec.Command(os.Args[0], "-test.run=^TestManyProgramsReadARunningLog$")
				reader.Env = append(os.Environ(), logOfReader+"="+path)
				if out, err := reader.CombinedOutput(); err != nil {
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

// read asks the log once, without patience.
func read(t *testing.T, path string) {
	db, err := sql.Open("sqlite3", "file:"+path+"?_busy_timeout=0")
	if err != nil {
		t.Fatal(err)
	}
	tasks := -1
	if err := db.QueryRow("SELECT count(*) FROM v_tasks").Scan(&tasks); err != nil || tasks != 0 {
		t.Errorf("%d tasks, %v", tasks, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
