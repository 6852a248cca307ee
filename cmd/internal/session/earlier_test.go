package session

import (
	"database/sql"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"gantry/planner"
	"gantry/planner/queueing"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

func TestHistoryIsOfEarlierRunsThatAreAlike(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db, err := sqlite.Open(path, sqlite.Durable)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// run logs one with a task of each kind, which take as many seconds as said, on n1 and n2 in turn; below 0 it
	// fails.
	run := func(name string, edit func(*sqlite.RunInfo), kinds []string, seconds ...float64) {
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
			l.Event(at+50*logtest.Second, &planner.AttemptExited{Attempt: a, Outcome: outcome,
				Ran: time.Duration(s * 1e9)})
		}
	}
	run("first", nil, []string{"x", "y", "x"}, 1, 2, 3)
	run("simulated", func(i *sqlite.RunInfo) { i.Runtime = "sim" }, []string{"x"}, 100)
	run("scaled", func(i *sqlite.RunInfo) { i.TimeScale = 0.1 }, []string{"x"}, 100)
	run("small", func(i *sqlite.RunInfo) { i.SizeScale = 0.1 }, []string{"x"}, 100)
	run("second", nil, []string{"x", "y"}, 4, -100)
	run("own", nil, []string{"x"}, 100)
	run("later", nil, []string{"x"}, 100)
	type measured struct {
		kind           string
		seconds, speed float64
	}
	x := func(s float64, speed float64) measured { return measured{"x", s, speed} }
	y := measured{"y", 2, 0.5}
	for latest, want := range map[int][]measured{1000: {x(1, 1), y, x(3, 1), x(4, 1)},
		2: {y, x(3, 1), x(4, 1)}, 1: {y, x(4, 1)}} {
		all, err := past(t, db).measured(t.Context(), latest)
		var got []measured
		for _, s := range all {
			got = append(got, measured{s.Kind, s.Ran.Seconds(), s.Features.Speed})
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the latest %d: %v, %v; want %v", latest, got, err, want)
		}
	}
	// Of three tasks of kind z one reads a file that grew; all of kind w read other sizes than their trace made up.
	run("grown", nil, []string{"z", "z", "z", "w"}, 1, 2, 3, 4)
	run("own2", nil, []string{"z"}, 100)
	raw, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Exec(`UPDATE attempts SET input_bytes = (SELECT t.input_bytes + iif(t.kind = 'w' OR t.task % 3 = 1,
		5000, 0) FROM tasks t WHERE t.run = attempts.run AND t.task = attempts.task)
		WHERE run = (SELECT id FROM runs WHERE name = 'grown')`); err != nil {
		t.Fatal(err)
	}
	e, err := earlierThan(t.Context(), db, "own2")
	if err != nil {
		t.Fatal(err)
	}
	all, err := e.measured(t.Context(), 1000)
	var seconds []float64
	for _, s := range all {
		if s.Kind == "z" || s.Kind == "w" {
			seconds = append(seconds, s.Ran.Seconds())
		}
	}
	if err != nil || !reflect.DeepEqual(seconds, []float64{1, 3, 4}) {
		t.Errorf("with an input that grew: %v, %v", seconds, err)
	}
	// Task i is declared to run i+1 seconds at speed 1.
	const s = time.Second
	declared := []declaredRun{{Ran: s, Declared: s}, {Ran: 2 * s, Declared: 4 * s}, {Ran: 3 * s, Declared: 3 * s},
		{Ran: 4 * s, Declared: s}}
	for _, latest := range []int{1000, 3, 1} {
		want := declared[max(0, len(declared)-latest):]
		if got, err := past(t, db).corrections(t.Context(), latest); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the latest %d corrections: %v, %v; want %v", latest, got, err, want)
		}
	}
}

// past has what run "own" can learn from.
func past(t *testing.T, db *sqlite.DB) *earlierRuns {
	e, err := earlierThan(t.Context(), db, "own")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestJobsAreThoseOfEarlierRunsThatAreAlike(t *testing.T) {
	db, err := sqlite.Open(filepath.Join(t.TempDir(), sqlite.FileName), sqlite.Durable)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// run logs one with a workflow of two tasks at each of the times in seconds; the first tasks run 1 s, the others 2
	// s or fail.
	run := func(name string, edit func(*sqlite.RunInfo), fails bool, arrivals ...int) {
		info := logtest.Info(name)
		if edit != nil {
			edit(&info)
		}
		l := logtest.New(t, db, info)
		for _, at := range arrivals {
			first := l.Arrive(planner.Time(at)*logtest.Second, "w", []string{"x", "y"}, make([][]int32, 2))
			for i := range planner.TaskID(2) {
				outcome := planner.OK
				if fails && i == 1 {
					outcome = planner.ExitCode
				}
				a := l.Start(planner.Time(at)*logtest.Second, first+i, 1, 0, time.Second)
				l.Event(planner.Time(at)*logtest.Second, planner.AttemptStarted{Attempt: a})
				l.Event(planner.Time(at+1)*logtest.Second, &planner.AttemptExited{Attempt: a, Outcome: outcome,
					Ran: time.Duration(i+1) * time.Second})
			}
		}
	}
	run("first", nil, false, 0, 5, 7)
	run("simulated", func(i *sqlite.RunInfo) { i.Runtime = "sim" }, false, 0, 1)
	run("second", nil, true, 3, 13)
	run("own", nil, false, 0)
	const s = time.Second
	all := []queueing.Job{{After: -1, Service: 3 * s}, {After: 5 * s, Service: 3 * s}, {After: 2 * s, Service: 3 * s},
		{After: -1}, {After: 10 * s}}
	for _, latest := range []int{500, 3, 1} {
		got, err := past(t, db).jobs(t.Context(), latest)
		if want := all[max(0, len(all)-latest):]; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the latest %d: %v, %v; want %v", latest, got, err, want)
		}
	}
}
