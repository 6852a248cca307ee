package sim_test

import (
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/runtimetest"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/unit"
)

func TestContract(t *testing.T) {
	contract(t, func(cfg sim.Config) executor.Runtime {
		cfg.Startup = 100 * time.Millisecond
		return sim.New(cfg)
	})
}

// contract runs the contract of all runtimes on those that a function makes.
func contract(t *testing.T, runtime func(sim.Config) executor.Runtime) {
	runtimetest.Run(t, func(t *testing.T) runtimetest.Setup {
		p := &planner.Platform{Nodes: []planner.Node{{ID: 0, Capacity: unit.Cores(8), Speed: 1},
			{ID: 1, Capacity: unit.Cores(8), Speed: 1}},
			Groups: []string{""}, Bandwidth: [][]unit.BytesPerSecond{{1000}}, Latency: [][]int64{{0}}}
		failing := &executor.TaskSpec{Name: "failing", Run: time.Second}
		r := runtime(sim.Config{Platform: p,
			Fault: func(l *executor.Launch) (planner.Outcome, float64) {
				if l.Spec == failing {
					return planner.ExitCode, 0.5
				}
				return planner.OK, 0
			}})
		return runtimetest.Setup{Runtime: r, Capabilities: &sim.Capabilities, Nodes: 2, Hold: unit.Cores(1),
			Task: func(t *testing.T, w runtimetest.Work) *executor.TaskSpec {
				switch w {
				case runtimetest.Short:
					return &executor.TaskSpec{Name: "short", Run: time.Second}
				case runtimetest.Steady:
					return &executor.TaskSpec{Name: "steady", Run: time.Minute}
				case runtimetest.Held:
					return &executor.TaskSpec{Name: "held", Run: 3 * time.Second}
				case runtimetest.Long:
					return &executor.TaskSpec{Name: "long", Run: time.Hour}
				}
				return failing
			},
			File: func(t *testing.T) *executor.FileSpec {
				return &executor.FileSpec{ID: 3, Name: "f", Size: 5000, Sized: true}
			},
		}
	})
}

// A suspended attempt makes no progress: 10 s of work, suspended from 3 s to 7 s, end at 14 s.
func TestSuspensionDelaysTheEnd(t *testing.T) {
	p := &planner.Platform{Nodes: []planner.Node{{ID: 0, Capacity: unit.Cores(1), Speed: 1}}}
	r := sim.New(sim.Config{Platform: p})
	at := func(s float64) planner.Time { return planner.Time(s * 1e9) }
	step := func(until planner.Time) []planner.Body {
		b, err := r.Next(t.Context(), until)
		must(t, err)
		return append([]planner.Body(nil), b...)
	}
	must(t, r.Start(t.Context(), executor.Launch{Spec: &executor.TaskSpec{Run: 10 * time.Second}}))
	step(at(3)) // started
	step(at(3)) // the clock reads 3
	r.Suspend(t.Context(), 0)
	step(at(7)) // suspended
	step(at(7))
	if r.Now() != at(7) {
		t.Fatalf("now %v", r.Now())
	}
	r.Resume(t.Context(), 0)
	step(at(100)) // resumed
	x := step(at(100))
	exit, ok := x[0].(*planner.AttemptExited)
	if !ok || r.Now() != at(14) || exit.Ran != 10*time.Second || exit.Usage.Ended != at(14) {
		t.Fatalf("at %v: %+v", r.Now(), x[0])
	}
}

// An attempt that leaves as it begins leaves no checkpoint: the earlier one is as far, and lies where it did.
func TestNoCheckpointIsLeftWithoutProgress(t *testing.T) {
	p := &planner.Platform{Nodes: []planner.Node{{ID: 0, Capacity: unit.Cores(1), Speed: 1}}}
	for i := range 20 {
		r, done := sim.New(sim.Config{Platform: p}), float64(i+1)/31
		err := r.Start(t.Context(), executor.Launch{Spec: &executor.TaskSpec{Run: 7 * time.Second},
			From: &executor.Checkpoint{Done: done}})
		must(t, err)
		for _, leave := range []bool{false, true} {
			if leave {
				must(t, r.Checkpoint(t.Context(), 0, 0))
			}
			bodies, err := r.Next(t.Context(), 0)
			if err != nil || len(bodies) != 1 {
				t.Fatal(bodies, err)
			}
			if x, over := bodies[0].(*planner.AttemptExited); over != leave || over && x.Kept > 0 {
				t.Errorf("with %v done: %+v", done, bodies[0])
			}
		}
	}
}

// An attempt of 2 s that a run measured, with the usage that it reported. The clock wakes late, as it did in that run.
func TestMeasuredAttemptsAndTurnsAreRepeated(t *testing.T) {
	p := &planner.Platform{Nodes: []planner.Node{{ID: 0, Capacity: unit.Cores(1), Speed: 1}}}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, killed := range []bool{false, true} {
		r := sim.New(sim.Config{Platform: p, Turns: []planner.Time{2e9, 5e9},
			Measured: func(*executor.Launch) (sim.Measured, bool) {
				return sim.Measured{Startup: ms(500), Run: ms(2000), Outcome: planner.OK,
					Reported: &sim.Reported{Created: ms(40), Started: ms(30), Ended: ms(20), Ran: ms(1900)}}, true
			}})
		must(t, r.Start(t.Context(), executor.Launch{Spec: &executor.TaskSpec{Run: time.Second}}))
		var exit *planner.AttemptExited
		for exit == nil {
			bodies, err := r.Next(t.Context(), 10e9)
			must(t, err)
			if killed {
				_ = r.Kill(t.Context(), 0, planner.Killed, 0)
			}
			if x, ok := bodies[0].(*planner.AttemptExited); ok {
				exit = x
			}
		}
		u, want := exit.Usage, [4]planner.Time{460e6, 470e6, 2480e6, 1900e6}
		if killed {
			want = [4]planner.Time{500e6, 500e6, 500e6, 0}
		}
		if got := [4]planner.Time{u.Created, u.Started, u.Ended, planner.Time(exit.Ran)}; got != want {
			t.Errorf("killed %v: created, started and ended at, and ran %v, want %v", killed, got, want)
		}
		for _, c := range [][2]planner.Time{{3e9, 5e9}, {5e9, 5e9}, {6e9, 6e9}} {
			if _, err := r.Next(t.Context(), c[0]); err != nil || r.Now() != c[1] {
				t.Errorf("asked to wake at %v, it wakes at %v, want %v: %v", c[0], r.Now(), c[1], err)
			}
		}
	}
}

// Two copies of 1000 bytes over a link of 1000 bytes a second, from 0 s and from 0.5 s on, share it from then until
// 1.5 s: the first has its other half by then, and the second its whole at 2 s. A third, which is cancelled at 0.75 s,
// has taken a twelfth of a second from each.
func TestCopiesShareALink(t *testing.T) {
	for _, c := range []struct {
		cancelled     bool
		first, second float64
	}{{false, 1.5, 2}, {true, 1.5 + 1./12, 2 + 1./12}} {
		p := &planner.Platform{Nodes: []planner.Node{{ID: 0, Capacity: unit.Cores(8), Speed: 1},
			{ID: 1, Capacity: unit.Cores(8), Speed: 1}}, Groups: []string{""}}
		p.Join(0, 0, 1000, 0)
		p.Share(0, 0)
		r := sim.New(sim.Config{Platform: p})
		at := func(s float64) planner.Time { return planner.Time(s * 1e9) }
		start := func(id planner.AttemptID) {
			must(t, r.Start(t.Context(), executor.Launch{Attempt: id, Node: 1,
				Spec:  &executor.TaskSpec{Run: time.Hour},
				Fetch: []executor.Fetch{{Spec: &executor.FileSpec{Size: 1000}, From: 0}}}))
		}
		began := map[planner.AttemptID]float64{}
		until := func(s float64) {
			for r.Now() < at(s) {
				bodies, err := r.Next(t.Context(), at(s))
				must(t, err)
				for _, b := range bodies {
					if b, ok := b.(planner.AttemptStarted); ok {
						began[b.Attempt] = r.Now().Seconds()
					}
				}
			}
		}
		start(0)
		until(0.5)
		start(1)
		if c.cancelled {
			start(2)
			until(0.75)
			must(t, r.Kill(t.Context(), 2, planner.Killed, 0))
		}
		until(3)
		for id, want := range map[planner.AttemptID]float64{0: c.first, 1: c.second} {
			if got := began[id]; got < want || got > want+1e-8 {
				t.Errorf("attempt %d begins at %v s, want %v", id, got, want)
			}
		}
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
