package sqlite_test

import (
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gantry/executor"
	"gantry/executor/null"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

// oldLog unpacks the log of a run that an older gantry began in containers and that was killed when one of its four
// tasks was done and two ran. The names of the files begin with the format.
func oldLog(t *testing.T, packed string) (path string, format int) {
	t.Helper()
	if _, err := fmt.Sscanf(filepath.Base(packed), "%d", &format); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(packed)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	zip, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), sqlite.FileName)
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, zip); err != nil {
		t.Fatal(err)
	}
	return path, format
}

// losing is a null runtime that knows nothing of earlier attempts.
type losing struct {
	*null.Runtime
	lost []planner.Body
}

func (r *losing) Recover(_ context.Context, live []executor.Launch) error {
	for _, l := range live {
		r.lost = append(r.lost, &planner.AttemptExited{Attempt: l.Attempt, Outcome: planner.Lost, ExitCode: -1,
			Usage: planner.Usage{Queued: l.Queued, Staged: r.Now(), Created: r.Now(), Started: r.Now(), Ended: r.Now(),
				Missing: planner.CountersAll}})
	}
	return nil
}

func (r *losing) Next(ctx context.Context, until planner.Time) ([]planner.Body, error) {
	if len(r.lost) > 0 {
		lost := r.lost
		r.lost = nil
		return lost, nil
	}
	return r.Runtime.Next(ctx, until)
}

func TestRunsOfEveryFormatAreFinished(t *testing.T) {
	logs, err := filepath.Glob("testdata/formats/*.gz")
	if err != nil {
		t.Fatal(err)
	}
	// All formats that are released: the current one may still change.
	for format := 1; format < currentFormat(t); format++ {
		if !slices.Contains(logs, fmt.Sprintf("testdata/formats/%d.sqlite.gz", format)) {
			t.Errorf("there is no killed run of format %d", format)
		}
	}
	for _, packed := range logs {
		t.Run(filepath.Base(packed), func(t *testing.T) {
			path, format := oldLog(t, packed)
			db := open(t, path, sqlite.Durable)
			runs, err := db.Runs(t.Context())
			if err != nil || len(runs) != 1 || runs[0].State != sqlite.Running || runs[0].Done != 1 ||
				runs[0].Running != 2 {
				t.Fatalf("%+v, %v", runs, err)
			}
			if err := logtest.Check(t.Context(), path); err != nil {
				t.Fatal(err)
			}
			events := query[int](t, path, "SELECT count(*) FROM events")
			if query[int](t, path, "PRAGMA user_version") != format {
				copied := fmt.Sprintf("%s.format-%d", path, format)
				if have := query[int](t, copied, "PRAGMA user_version"); have != format {
					t.Errorf("the copy has format %d", have)
				}
				if have := query[int](t, copied, "SELECT count(*) FROM events"); have != events {
					t.Errorf("the copy has %d events of %d", have, events)
				}
			}
			run, err := db.OpenRun(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			info := run.Info()
			var settings struct{ Policy string }
			if err := json.Unmarshal(info.Settings, &settings); err != nil {
				t.Fatal(err)
			}
			pol, err := policy.Parse(settings.Policy)
			if err != nil {
				t.Fatal(err)
			}
			declared := &predict.Declared{}
			engine := &executor.Engine{Planner: planner.New(&info.Platform, planner.DefaultRetryRules(), pol, declared,
				1), Store: run,
				Admit: &executor.Admitter{Platform: &info.Platform, TimeScale: info.TimeScale,
					SizeScale: info.SizeScale, Declare: declared.Declare}}
			if err := run.Replay(t.Context(), func(e planner.Event, a *executor.Admission) error {
				b := executor.Batch{Events: []planner.Event{e}}
				if a != nil {
					b.Admissions = []*executor.Admission{a}
				}
				return engine.Replay(b)
			}); err != nil {
				t.Fatal(err)
			}
			if engine.Arrivals, err = run.Submissions(t.Context(), engine.Planner.View().Workflows()); err != nil {
				t.Fatal(err)
			}
			now := time.Duration(engine.Planner.View().Now())
			engine.Runtime = &losing{Runtime: null.New(time.Now().Add(-now - time.Second))}
			if err := engine.Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := engine.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := run.Finish(t.Context(), sqlite.Finished, 0); err != nil {
				t.Fatal(err)
			}
			if got := query[string](t, path, "SELECT group_concat(task || ' ' || attempts || ' ' || state, ', ') "+
				"FROM (SELECT * FROM v_tasks ORDER BY task)"); got != "a 1 done, b 2 done, c 2 done, d 1 done" {
				t.Error(got)
			}
			if err := logtest.Check(t.Context(), path); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestALogThatCannotBeCopiedStaysAsItIs(t *testing.T) {
	path, format := oldLog(t, "testdata/formats/3.sqlite.gz")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	full := t.TempDir() // with space for the log, but not for a copy of it
	if err := unix.Mount("tmpfs", full, "tmpfs", 0, fmt.Sprint("size=", len(text)+64<<10)); err != nil {
		t.Skipf("needs to mount a small file system, as root: %v", err)
	}
	defer unix.Unmount(full, unix.MNT_DETACH)
	path = filepath.Join(full, sqlite.FileName)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []sqlite.Mode{sqlite.ReadOnly, sqlite.Durable} {
		if db, err := sqlite.Open(path, mode); err == nil {
			db.Close()
			t.Fatal("it was opened")
		} else if !strings.Contains(err.Error(), "stays unchanged") || !strings.Contains(err.Error(), "full") {
			t.Error(err)
		}
	}
	if have := query[int](t, path, "PRAGMA user_version"); have != format {
		t.Errorf("it has format %d now", have)
	}
	if left, _ := filepath.Glob(path + ".format*"); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestALogOfANewerGantryStaysAsItIs(t *testing.T) {
	path, _ := oldLog(t, "testdata/formats/8.sqlite.gz")
	raw := rawDB(t, path)
	if _, err := raw.Exec("PRAGMA user_version = 1000"); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []sqlite.Mode{sqlite.ReadOnly, sqlite.Durable} {
		if db, err := sqlite.Open(path, mode); err == nil {
			db.Close()
			t.Error("it was opened")
		} else if !strings.Contains(err.Error(), "format 1000") {
			t.Error(err)
		}
	}
	if have := query[int](t, path, "PRAGMA user_version"); have != 1000 {
		t.Errorf("it has format %d now", have)
	}
}

// currentFormat is that of a new log.
func currentFormat(t *testing.T) int {
	t.Helper()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	open(t, path, sqlite.Durable)
	return query[int](t, path, "PRAGMA user_version")
}

func rawDB(t *testing.T, path string) *sql.DB {
	t.Helper()
	raw, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	return raw
}
