package sqlite_test

import (
	"context"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"gantry/planner"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

func TestHistoryIsOfEarlierRunsThatAreAlike(t *testing.T) {
	db, err := sqlite.Open(filepath.Join(t.TempDir(), sqlite.FileName), sqlite.Durable)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// run logs one with a task of each kind, which take as many seconds as said, on n1 and n2 in turn; below 0 it fails.
	run := func(name string, edit func(*sqlite.RunInfo), kinds []string, seconds ...float64) *logtest.Log {
		info := logtest.Info(name)
		if edit != nil {
			edit(&info)
		}
		l := logtest.New(t, db, info)
		first := l.Arrive(0, "w", kinds, make([][]int32, len(kinds)))
		for i, s := range seconds {
			outcome := planner.OK
			if s < 0 {
				outcome, s = planner.ExitCode, -s
			}
			at := planner.Time(i) * 100 * logtest.Second
			a := l.Start(at, first+planner.TaskID(i), 1, planner.NodeID(i%2), time.Second)
			l.Event(at, planner.AttemptStarted{Attempt: a})
			l.Event(at+50*logtest.Second, &planner.AttemptExited{Attempt: a, Outcome: outcome, Ran: time.Duration(s * 1e9)})
		}
		return l
	}
	run("first", nil, []string{"x", "y", "x"}, 1, 2, 3)
	run("simulated", func(i *sqlite.RunInfo) { i.Runtime = "sim" }, []string{"x"}, 100)
	run("scaled", func(i *sqlite.RunInfo) { i.TimeScale = 0.1 }, []string{"x"}, 100)
	run("small", func(i *sqlite.RunInfo) { i.SizeScale = 0.1 }, []string{"x"}, 100)
	run("second", nil, []string{"x", "y"}, 4, -100)
	own := run("own", nil, []string{"x"}, 100)
	run("later", nil, []string{"x"}, 100)
	x := func(s float64, speed float64) sqlite.Measurement {
		return sqlite.Measurement{Kind: "x", Ran: time.Duration(s * 1e9), Speed: speed}
	}
	y := sqlite.Measurement{Kind: "y", Ran: 2 * time.Second, Speed: 0.5}
	for latest, want := range map[int][]sqlite.Measurement{1000: {x(1, 1), y, x(3, 1), x(4, 1)}, 2: {y, x(3, 1), x(4, 1)}, 1: {y, x(4, 1)}} {
		got, err := own.History(context.Background(), latest)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the latest %d: %v, %v; want %v", latest, got, err, want)
		}
	}
}
