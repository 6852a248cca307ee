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
		r := runtime(sim.Config{Platform: p, Ahead: 3,
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
		if err != nil {
			t.Fatal(err)
		}
		return append([]planner.Body(nil), b...)
	}
	if err := r.Start(t.Context(), executor.Launch{Spec: &executor.TaskSpec{Run: 10 * time.Second}}); err != nil {
		t.Fatal(err)
	}
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
