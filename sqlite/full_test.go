package sqlite_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gantry/executor"
	"gantry/planner"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

func TestAFullDiskLosesNothingLoggedBefore(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("needs to mount a small file system, as root: %v", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	path := filepath.Join(dir, sqlite.FileName)
	db, err := sqlite.Open(path, sqlite.Durable)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l := logtest.New(t, db, logtest.Info("calm"))
	first := l.Arrive(0, "w", []string{"a"}, [][]int32{nil})
	message := strings.Repeat("the program said much ", 1000)
	var seq uint64 = 1
	batch := func() executor.Batch {
		b := executor.Batch{}
		for _, body := range []planner.Body{&planner.PlanCommitted{Orders: []planner.Order{{Kind: planner.OrderStart, Task: first, Attempt: planner.AttemptID(seq)}}},
			&planner.AttemptExited{Attempt: planner.AttemptID(seq), Outcome: planner.ExitCode, Message: message}} {
			b.Events = append(b.Events, planner.Event{Seq: seq + uint64(len(b.Events)) + 1, At: planner.Time(seq), Body: body})
		}
		return b
	}
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
	// With space again the same run goes on, with the very batch that did not fit.
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
