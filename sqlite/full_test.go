package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gantry/executor"
	"gantry/planner"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

// smallDisk mounts a disk of 2 MB and opens a log on it.
func smallDisk(t *testing.T) (dir, path string, db *sqlite.DB) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("needs to mount a small file system, as root: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	path = filepath.Join(dir, sqlite.FileName)
	db, err := sqlite.Open(path, sqlite.Durable)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return dir, path, db
}

func TestAFullDiskLosesNothingLoggedBefore(t *testing.T) {
	dir, path, db := smallDisk(t)
	l := logtest.New(t, db, logtest.Info("calm"))
	first := l.Arrive(0, "w", []string{"a"}, [][]int32{nil})
	message := strings.Repeat("the program said much ", 1000)
	var seq uint64 = 1
	batch := func() executor.Batch {
		b := executor.Batch{}
		for _, body := range []planner.Body{&planner.PlanCommitted{Orders: []planner.Order{{Kind: planner.OrderStart,
			Task: first, Attempt: planner.AttemptID(seq)}}},
			&planner.AttemptExited{Attempt: planner.AttemptID(seq), Outcome: planner.ExitCode, Message: message}} {
			b.Events = append(b.Events, planner.Event{Seq: seq + uint64(len(b.Events)) + 1, At: planner.Time(seq),
				Body: body})
		}
		return b
	}
	var err error
	for err == nil {
		if err = l.Append(context.Background(), batch()); err == nil {
			seq += 2
		}
		if seq > 10_000 {
			t.Fatal("the disk does not fill")
		}
	}
	if !sqlite.IsDisk(err) {
		t.Errorf("not known as the disk's fault: %v", err)
	}
	for _, w := range []string{path, "free space", "gantry resume", "calm"} {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if n := query[uint64](t, path, "SELECT max(seq) FROM events"); n != seq {
		t.Errorf("%d events are there, %d were acknowledged", n, seq)
	}
	// With space again the same run continues, with the very batch that did not fit.
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=32m"); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(context.Background(), batch()); err != nil {
		t.Fatal(err)
	}
	if s := query[string](t, path, "PRAGMA integrity_check"); s != "ok" {
		t.Error(s)
	}
	if n := query[int](t, path, "SELECT count(*) FROM attempts"); n != int(seq/2)+1 {
		t.Errorf("%d attempts", n)
	}
}

// However full the disk is, the end of a run is logged: it is known as stopped by its host, not as crashed.
func TestTheEndOfARunIsLoggedOnAFullDisk(t *testing.T) {
	for _, state := range []sqlite.State{sqlite.Interrupted, sqlite.Failed} {
		t.Run(string(state), func(t *testing.T) {
			dir, path, db := smallDisk(t)
			l := logtest.New(t, db, logtest.Info("calm"))
			first := l.Arrive(0, "w", []string{"a", "a"}, [][]int32{nil, nil})
			l.Exit(2*logtest.Second, l.Start(0, first, 1, 0, time.Second), planner.OK, 0, "")
			fill, err := os.Create(filepath.Join(dir, "other"))
			if err != nil {
				t.Fatal(err)
			}
			defer fill.Close()
			for n := 64 << 10; n > 0; n /= 2 { // to the last byte
				for err = nil; err == nil; {
					_, err = fill.Write(make([]byte, n))
				}
			}
			b := executor.Batch{Events: []planner.Event{{Seq: 5, At: 3e9,
				Body: &planner.PlanCommitted{Orders: []planner.Order{{Kind: planner.OrderStart, Task: first + 1,
					Attempt: 1}}, Notes: []planner.Note{{Text: strings.Repeat("long", 10_000)}}}}}}
			if err := l.Append(t.Context(), b); !sqlite.IsDisk(err) {
				t.Fatalf("the disk is not full: %v", err)
			}
			if err := l.Finish(t.Context(), state, 4); err != nil {
				t.Error(err)
			}
			if got := query[string](t, path, "SELECT state || ' ' || exit_code || ' ' || (SELECT max(seq) FROM "+
				"events) FROM runs"); got != string(state)+" 4 4" {
				t.Error(got)
			}
			if err := logtest.Check(t.Context(), path); err != nil {
				t.Error(err)
			}
		})
	}
}
