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
	"gantry/executor/reuse"
	"gantry/planner"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

// smallDisk mounts a disk of 2 MB and opens a log on it.
func smallDisk(t *testing.T, mode sqlite.Mode) (dir, path string, db *sqlite.DB) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("needs to mount a small file system, as root: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	path = filepath.Join(dir, sqlite.FileName)
	db, err := sqlite.Open(path, mode)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return dir, path, db
}

func TestAFullDiskLosesNothingLoggedBefore(t *testing.T) {
	dir, path, db := smallDisk(t, sqlite.Durable)
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
	must(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=32m"))
	must(t, l.Append(context.Background(), batch()))
	if s := query[string](t, path, "PRAGMA integrity_check"); s != "ok" {
		t.Error(s)
	}
	if n := query[int](t, path, "SELECT count(*) FROM attempts"); n != int(seq/2)+1 {
		t.Errorf("%d attempts", n)
	}
}

// A simulation goes on while its log is written. After a batch that failed no other is written.
func TestNothingIsWrittenAfterAFailedWrite(t *testing.T) {
	dir, path, db := smallDisk(t, sqlite.Bulk)
	l := logtest.New(t, db, logtest.Info("calm"))
	first := l.Arrive(0, "w", []string{"a"}, [][]int32{nil})
	room := func(size string) {
		t.Helper()
		must(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size="+size))
	}
	seq := uint64(1)
	batch := func(message string) executor.Batch { // as many events as are written at once
		var b executor.Batch
		for range 5000 {
			id := planner.AttemptID(seq / 2)
			b.Events = append(b.Events, planner.Event{Seq: seq + 1, At: planner.Time(seq),
				Body: &planner.PlanCommitted{Orders: []planner.Order{{Kind: planner.OrderStart, Task: first,
					Attempt: id}}}}, planner.Event{Seq: seq + 2, At: planner.Time(seq),
				Body: &planner.AttemptExited{Attempt: id, Outcome: planner.ExitCode, Message: message}})
			seq += 2
		}
		return b
	}
	room("16m")
	must(t, l.Append(t.Context(), batch("")))
	written := seq
	_ = l.Append(t.Context(), batch(strings.Repeat("much ", 1000)))
	if err := l.Append(t.Context(), batch("")); !sqlite.IsDisk(err) {
		t.Fatalf("25 MB fit on a disk of 16: %v", err)
	}
	room("64m")
	for range 2 {
		if err := l.Append(t.Context(), batch("")); !sqlite.IsDisk(err) {
			t.Errorf("with room again, another batch is taken: %v", err)
		}
	}
	if err := l.Finish(t.Context(), sqlite.Failed, 4); !sqlite.IsDisk(err) {
		t.Errorf("the end of the run says %v", err)
	}
	if last, n := query[uint64](t, path, "SELECT max(seq) FROM events"), query[uint64](t, path,
		"SELECT count(*) FROM events"); last != written || n != written {
		t.Errorf("%d events up to %d are in the log, %d were written before the failure", n, last, written)
	}
}

// changer changes a log behind gantry's back.
func changer(t *testing.T, path string) func(text string) {
	raw := rawDB(t, path)
	return func(text string) {
		t.Helper()
		if _, err := raw.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
}

// A statement that fails may undo the whole transaction: a later one would be written by itself.
func TestNoStatementFollowsOneThatFailed(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	l := logtest.New(t, open(t, path, sqlite.Durable), logtest.Info("calm"))
	first := l.Arrive(0, "w", []string{"a"}, [][]int32{nil})
	change := changer(t, path)
	change("CREATE TRIGGER broken BEFORE INSERT ON contents BEGIN SELECT RAISE(ROLLBACK, 'broken'); END")
	l.Contents(reuse.Content{File: 3})
	l.Sample(sqlite.Sample{At: 1})
	l.OnDisk(7)
	b := executor.Batch{Events: []planner.Event{{Seq: 2, At: 1, Body: &planner.PlanCommitted{
		Orders: []planner.Order{{Kind: planner.OrderStart, Task: first}}}}}}
	holds := func(want string) {
		t.Helper()
		if got := query[string](t, path, "SELECT (SELECT count(*) FROM events) || ' ' || (SELECT count(*) FROM "+
			"contents) || ' ' || (SELECT count(*) FROM samples) || ' ' || coalesce(peak_disk_bytes, 0) FROM "+
			"runs"); got != want {
			t.Errorf("events, contents, samples and bytes on disk are %s, want %s", got, want)
		}
	}
	if err := l.Append(t.Context(), b); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("the batch is taken: %v", err)
	}
	holds("1 0 0 0")
	change("DROP TRIGGER broken")
	must(t, l.Append(t.Context(), b))
	holds("2 1 1 7")
}

// Readings that the log could not take for long are counted in a warning.
func TestDroppedReadingsAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path, sqlite.Durable)
	l := logtest.New(t, db, logtest.Info("calm"))
	change := changer(t, path)
	change("CREATE TRIGGER broken BEFORE INSERT ON samples BEGIN SELECT RAISE(ROLLBACK, 'broken'); END")
	const n = 150_000
	for i := range n {
		l.Sample(sqlite.Sample{At: planner.Time(i)})
	}
	change("DROP TRIGGER broken")
	must(t, l.Finish(t.Context(), sqlite.Finished, 0))
	kept := query[int](t, path, "SELECT count(*) FROM samples")
	if dropped := query[int](t, path, "SELECT count FROM warnings"); dropped+kept != n || kept == n {
		t.Errorf("of %d readings %d are kept, and the warning tells of %d others", n, kept, dropped)
	}
}

// However full the disk is, the end of a run is logged: it is known as stopped by its host, not as crashed.
func TestTheEndOfARunIsLoggedOnAFullDisk(t *testing.T) {
	for _, state := range []sqlite.State{sqlite.Interrupted, sqlite.Failed} {
		t.Run(string(state), func(t *testing.T) {
			dir, path, db := smallDisk(t, sqlite.Durable)
			l := logtest.New(t, db, logtest.Info("calm"))
			first := l.Arrive(0, "w", []string{"a", "a"}, [][]int32{nil, nil})
			l.Exit(2*logtest.Second, l.Start(0, first, 1, 0, time.Second), planner.OK, 0, "")
			fill, err := os.Create(filepath.Join(dir, "other"))
			must(t, err)
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
