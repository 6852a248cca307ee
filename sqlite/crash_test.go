package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

// crashTasks is how many tasks the run of a test has, and crashEvents how many events that makes.
const crashTasks, crashEvents = 600, 1 + 3*600

func crashAdmission() *executor.Admission {
	kinds, parents := make([]string, crashTasks), make([][]int32, crashTasks)
	for i := range kinds {
		kinds[i] = "k"
	}
	return logtest.Admission("w", kinds, parents)
}

// crashEvent gives event seq of a run: the arrival, then three events per task. It depends on nothing else.
func crashEvent(seq uint64, a *executor.Admission) planner.Event {
	e := planner.Event{Seq: seq, At: planner.Time(seq)}
	i := int32((seq - 2) / 3)
	switch {
	case seq == 1:
		e.Body = &a.Arrived
	case (seq-2)%3 == 0:
		e.Body = &planner.PlanCommitted{Round: int64(i), Orders: []planner.Order{{Kind: planner.OrderStart,
			Attempt: planner.AttemptID(i), Task: planner.TaskID(i),
			Try: 1, Until: e.At + 10, Hold: unit.Cores(1)}}}
	case (seq-2)%3 == 1:
		e.Body = planner.AttemptStarted{Attempt: planner.AttemptID(i)}
	default:
		e.Body = &planner.AttemptExited{Attempt: planner.AttemptID(i), Outcome: planner.OK,
			Message: fmt.Sprint("message of event ", seq), Usage: planner.Usage{Ended: e.At}}
	}
	return e
}

// appendForEver is the child: it continues with the run in the log at path and says after each batch how far it got.
func appendForEver(path string) {
	db, err := sqlite.Open(path, sqlite.Durable)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	ctx := context.Background()
	run, err := db.OpenRun(ctx, "calm")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var seq uint64
	if err := run.Replay(ctx,
		func(e planner.Event, _ *executor.Admission) error { seq = e.Seq; return nil }); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	a := crashAdmission()
	for seq < crashEvents {
		var b executor.Batch
		for range 1 + rand.IntN(12) {
			if seq == crashEvents {
				break
			}
			seq++
			b.Events = append(b.Events, crashEvent(seq, a))
			if seq == 1 {
				b.Admissions = []*executor.Admission{a}
			}
		}
		if err := run.Append(ctx, b); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		run.Sample(sqlite.Sample{Attempt: 0, At: planner.Time(seq)})
		fmt.Println(seq)
	}
	os.Exit(0)
}

// checkPrefix opens the log and checks that it is sound and has the first events of the run, at least acknowledged of
// them.
func checkPrefix(t *testing.T, path string, acknowledged uint64) uint64 {
	t.Helper()
	db, err := sqlite.Open(path, sqlite.Durable)
	must(t, err)
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	must(t, logtest.Check(t.Context(), path))
	run, err := db.OpenRun(context.Background(), "calm")
	must(t, err)
	a := crashAdmission()
	var seq uint64
	must(t, run.Replay(context.Background(), func(e planner.Event, adm *executor.Admission) error {
		seq++
		want := crashEvent(seq, a)
		if e.Seq != seq || e.At != want.At || e.Body.Kind() != want.Body.Kind() {
			return fmt.Errorf("event %d is %+v", seq, e)
		}
		if b, ok := e.Body.(*planner.AttemptExited); ok && b.Message != want.Body.(*planner.AttemptExited).Message {
			return fmt.Errorf("event %d says %q", seq, b.Message)
		}
		return nil
	}))
	if seq < acknowledged {
		t.Fatalf("%d events were acknowledged, %d are there", acknowledged, seq)
	}
	if seq > 0 {
		// The tables are of the same transactions as the events.
		if done, want := query[int](t, path, "SELECT count(*) FROM tasks WHERE state = 'done'"),
			int(seq-1)/3; done != want {
			t.Fatalf("%d tasks are done after %d events, want %d", done, seq, want)
		}
	}
	return seq
}

func newCrashLog(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db, err := sqlite.Open(path, sqlite.Durable)
	must(t, err)
	logtest.New(t, db, logtest.Info("calm"))
	must(t, db.Close())
	return path
}

func TestAKilledWriterLosesNothingAcknowledged(t *testing.T) {
	t.Parallel() // it waits for the disk
	path := newCrashLog(t)
	var seq uint64
	for kill := range seedtest.Times(24) {
		child := exec.Command(os.Args[0], "-test.run=NONE")
		child.Env = append(os.Environ(), "GANTRY_TEST_APPENDER="+path)
		out, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		acknowledged := seq
		lines := bufio.NewScanner(out)
		// The child is killed a random moment after a random number of batches, so that both its start and its stride
		// are hit.
		after := rand.IntN(40)
		for i := 0; lines.Scan(); i++ {
			if _, err := fmt.Sscan(lines.Text(), &acknowledged); err != nil {
				t.Fatalf("the child says %q", lines.Text())
			}
			if i == after {
				go func() {
					time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
					child.Process.Kill()
				}()
			}
		}
		child.Wait()
		if seq = checkPrefix(t, path, acknowledged); seq == 0 {
			t.Fatalf("nothing was logged before kill %d", kill)
		}
	}
}

func TestALogCutAnywhereOpensWithAPrefix(t *testing.T) {
	t.Parallel() // it waits for the disk
	path := newCrashLog(t)
	db, err := sqlite.Open(path, sqlite.Durable)
	must(t, err)
	defer db.Close()
	run, err := db.OpenRun(context.Background(), "calm")
	must(t, err)
	a := crashAdmission()
	for seq := uint64(1); seq <= 61; seq++ {
		b := executor.Batch{Events: []planner.Event{crashEvent(seq, a)}}
		if seq == 1 {
			b.Admissions = []*executor.Admission{a}
		}
		must(t, run.Append(context.Background(), b))
	}
	// The files as a loss of power would find them: before any checkpoint all is in the -wal file.
	main, err := os.ReadFile(path)
	must(t, err)
	wal, err := os.ReadFile(path + "-wal")
	must(t, err)
	cuts := seedtest.Times(60)
	r := seedtest.Rand(t)
	dir, last := t.TempDir(), uint64(0)
	for i := range cuts + 1 {
		n := len(wal) * i / cuts
		if i > 0 && i < cuts {
			n += r.IntN(64) - 32 // on both sides of headers and pages
		}
		cut := filepath.Join(dir, fmt.Sprint(i), sqlite.FileName)
		must(t, os.Mkdir(filepath.Dir(cut), 0o755))
		must(t, os.WriteFile(cut, main, 0o644))
		must(t, os.WriteFile(cut+"-wal", wal[:n], 0o644))
		seq := checkPrefix(t, cut, last)
		if i == cuts && seq != 61 {
			t.Errorf("the whole log has %d events", seq)
		}
		if i < cuts {
			last = seq
		}
	}
}
