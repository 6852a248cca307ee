package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"gantry/planner"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
	"gantry/sqlite/report/summary"
)

// preempt orders an attempt to leave its place.
func preempt(l *logtest.Log, at planner.Time, kind planner.OrderKind, a planner.AttemptID, t planner.TaskID) {
	l.Event(at, &planner.PlanCommitted{Round: 99, Orders: []planner.Order{{Kind: kind, Attempt: a, Task: t}}})
}

func exitKept(l *logtest.Log, at planner.Time, a planner.AttemptID, o planner.Outcome, ran time.Duration,
	kept float64) {
	l.Event(at, &planner.AttemptExited{Attempt: a, Outcome: o, Ran: ran, Kept: kept,
		Usage: planner.Usage{Started: at.Add(-ran), Ended: at}})
}

// Task 0 is frozen for 3 s; task 1 leaves a checkpoint twice, fails, and starts again; task 2 is restarted; task 3 ends
// before it is frozen.
func TestTheLogTellsSuspensionsAndWhatTheyLost(t *testing.T) {
	const s = logtest.Second
	for _, reopen := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), sqlite.FileName)
		db := open(t, path, sqlite.Durable)
		l := logtest.New(t, db, logtest.Info("r"))
		first := l.Arrive(0, "w", []string{"a", "b", "c", "d"}, [][]int32{nil, nil, nil, nil})
		again := func() { // what the writer remembers it must read from the log, too
			if !reopen {
				return
			}
			err := l.Close()
			if err == nil {
				l.Run, err = db.OpenRun(t.Context(), "r")
			}
			must(t, err)
		}
		a := l.Start(0, first, 1, 0, 10*time.Second)
		b := l.Start(0, first+1, 1, 0, 10*time.Second)
		c := l.Start(0, first+2, 1, 0, 10*time.Second)
		d := l.Start(0, first+3, 1, 0, 10*time.Second)
		preempt(l, 2*s, planner.OrderSuspend, a, first)
		preempt(l, 2*s, planner.OrderCheckpoint, b, first+1)
		preempt(l, 2*s, planner.OrderKill, c, first+2)
		preempt(l, 2*s, planner.OrderSuspend, d, first+3)
		again()
		l.Event(2*s, planner.AttemptSuspended{Attempt: a})
		exitKept(l, 2*s, b, planner.Preempted, 1500*time.Millisecond, 0.25)
		exitKept(l, 2*s, c, planner.Preempted, 1500*time.Millisecond, 0)
		exitKept(l, 2*s, d, planner.OK, 1500*time.Millisecond, 0)
		again()
		l.Event(5*s, planner.AttemptResumed{Attempt: a})
		b = l.Start(3*s, first+1, 2, 1, 10*time.Second)
		c = l.Start(4*s, first+2, 2, 1, 10*time.Second)
		again()
		preempt(l, 6*s, planner.OrderCheckpoint, b, first+1)
		exitKept(l, 6*s, b, planner.Preempted, 2500*time.Millisecond, 0.75)
		again()
		b = l.Start(7*s, first+1, 3, 0, 10*time.Second)
		again()
		exitKept(l, 8*s, b, planner.ExitCode, 500*time.Millisecond, 0)
		b = l.Start(8*s, first+1, 4, 0, 10*time.Second)
		again()
		exitKept(l, 18*s, b, planner.OK, 9500*time.Millisecond, 0)
		exitKept(l, 18*s, a, planner.OK, 9*time.Second, 0)
		exitKept(l, 18*s, c, planner.OK, 9*time.Second, 0)

		var got []string
		must(t, sqlite.EachRow(t.Context(), db, func(r *struct {
			Task, How                               string
			Ordered, Since, Until, Away, Kept, Lost float64
		}) error {
			got = append(got, fmt.Sprint(r.Task, " ", r.How, " ", r.Ordered, r.Since, r.Until, r.Away, r.Kept, r.Lost))
			return nil
		}, "SELECT task, how, ordered_s, since_s, until_s, away_s, coalesce(kept, -1), lost_s FROM v_suspensions "+
			"ORDER BY ordered_s, attempt"))
		want := []string{"a_0 freeze 2 2 5 3 -1 0", "b_1 checkpoint 2 2 3.5 1.5 0.25 0",
			"c_2 restart 2 2 4.5 2.5 -1 1.5", "b_1 checkpoint 6 6 7.5 1.5 0.75 0"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("reopened %v: got  %q\nwant %q", reopen, got, want)
		}
		got = nil
		must(t, sqlite.EachRow(t.Context(), db, func(r *struct {
			Task                     string
			Try                      int
			Done, Before, Kept, Lost float64
		}) error {
			got = append(got, fmt.Sprint(r.Task, " ", r.Try, " ", r.Done, r.Before, r.Kept, r.Lost))
			return nil
		}, "SELECT task, try, coalesce(done, 0), coalesce(before_ns, 0) / 1e9, coalesce(kept, 0), lost_ns / 1e9 "+
			"FROM v_attempts ORDER BY task, try"))
		want = []string{"a_0 1 0 0 0 0", "b_1 1 0 0 0.25 0", "b_1 2 0.25 1.5 0.75 0", "b_1 3 0.75 4 0 4.5",
			"b_1 4 0 0 0 0", "c_2 1 0 0 0 1.5", "c_2 2 0 0 0 0", "d_3 1 0 0 0 0"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("reopened %v: got  %q\nwant %q", reopen, got, want)
		}
		sum, err := summary.Of(t.Context(), db, "r")
		must(t, err)
		if sum.Lost != sqlite.Span(6*time.Second) ||
			fmt.Sprint(sum.Preemptions) != fmt.Sprint([]summary.Preemptions{{How: "checkpoint", Count: 2, Tasks: 1,
				Away: 3e9},
				{How: "freeze", Count: 1, Tasks: 1, Away: 3e9}, {How: "restart", Count: 1, Tasks: 1, Away: 25e8,
					Lost: 15e8}}) {
			t.Errorf("lost %v, preemptions %+v", time.Duration(sum.Lost), sum.Preemptions)
		}
		life, err := db.Task(t.Context(), "r", "b_1")
		must(t, err)
		if len(life.Suspensions) != 2 || life.Suspensions[1].Try != 2 || *life.Suspensions[1].Kept != 0.75 ||
			life.Suspensions[1].Node != "n2" {
			t.Errorf("suspensions %+v", life.Suspensions)
		}
	}
}
