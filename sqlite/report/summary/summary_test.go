package summary_test

import (
	"database/sql"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
	"gantry/sqlite/report/summary"
)

func open(t *testing.T) (db *sqlite.DB, path string) {
	path = filepath.Join(t.TempDir(), sqlite.FileName)
	db, err := sqlite.Open(path, sqlite.Durable)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, path
}

func TestASummaryHasWhatARunDid(t *testing.T) {
	db, path := open(t)
	logtest.Diamond(t, db, "calm")
	s, err := summary.Of(t.Context(), db, "")
	if err != nil {
		t.Fatal(err)
	}
	if s.Run != "calm" || s.Log != path || s.Attempts != 5 || s.Rounds != 8 || len(s.WorkflowRow) != 1 ||
		s.WorkflowRow[0].Done != 4 || len(s.Warnings) != 1 || s.Memory == nil || s.Memory.OutOfMemory != 1 ||
		len(s.Estimates) != 1 || s.Estimates[0].Attempts != 4 || len(s.Failures) != 0 {
		t.Errorf("%+v", s)
	}
	// Two of work's three attempts were ok: staged 0.25 s after the order, ended 3 s and 4 s after it. n1 was held for
	// 2 + 3 + 5 core seconds of 2 cores times 14 s.
	if k := s.Kinds[0]; k.Kind != "work" || k.Tasks != 2 || k.Attempts != 3 || *k.Estimated != 3e9 ||
		*k.Measured != 3.25e9 || *k.PeakMemory != 50e6 || *k.Read != 6e6 || math.Abs(*s.Nodes[0].Held-35.75) > 0.05 {
		t.Errorf("%+v, %v %% of %s were held", k, *s.Nodes[0].Held, s.Nodes[0].Node)
	}
	for most, brief := range map[int]bool{3: true, 4: false} {
		s, err := summary.Within(t.Context(), db, "calm", most)
		if err != nil || s.Brief != brief || s.Tasks != 4 || (len(s.WorkflowRow) == 0) != brief {
			t.Errorf("within %d of 4 tasks: %+v (%v)", most, s, err)
		}
	}
}

func TestASummaryReadsNothingOfOtherRuns(t *testing.T) {
	db, path := open(t)
	logtest.Diamond(t, db, "calm")
	logtest.Diamond(t, db, "endless")
	raw, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Exec("UPDATE attempts SET cpu_user_ns = 9000000000000000000 WHERE run = 2"); err != nil {
		t.Fatal(err)
	}
	if _, err := summary.Of(t.Context(), db, "endless"); err == nil || !strings.Contains(err.Error(), "overflow") {
		t.Errorf("a sum that is too large: %v", err)
	}
	if _, err := summary.Of(t.Context(), db, "calm"); err != nil {
		t.Errorf("another run: %v", err)
	}
}

// The second attempt was taken over by another gantry, which does not know when it was staged and its container made.
func TestStartsCountForAttemptsTakenOver(t *testing.T) {
	const s = logtest.Second
	db, _ := open(t)
	l := logtest.New(t, db, logtest.Info("r"))
	first := l.Arrive(0, "w", []string{"a", "b"}, [][]int32{nil, nil})
	for i, u := range []planner.Usage{{Staged: s, Created: 2 * s, Started: 3 * s, Ended: 10 * s},
		{Staged: unit.Never, Created: unit.Never, Started: 2 * s, Ended: 12 * s}} {
		a := l.Start(0, first+planner.TaskID(i), 1, 0, 10*time.Second)
		l.Event(u.Ended, &planner.AttemptExited{Attempt: a, Outcome: planner.OK, Ran: u.Ended.Sub(u.Started),
			Usage: u})
	}
	sum, err := summary.Of(t.Context(), db, "r")
	if err != nil || sum.Starting == nil || math.Abs(*sum.Starting-100*4/22.0) > 1e-9 {
		t.Errorf("starts took %v of the time, want 4 of 22 s: %v", sum.Starting, err)
	}
}
