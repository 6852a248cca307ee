package forecast_test

import (
	"fmt"
	"testing"
	"time"

	"gantry/executor/forecast"
)

const ms = time.Millisecond

// chain simulates tasks one after the other on a node of that speed.
func chain(n int, speed float64) func(func(forecast.Key, float64) (forecast.Phases, bool)) (time.Duration, error) {
	return func(of func(forecast.Key, float64) (forecast.Phases, bool)) (sum time.Duration, err error) {
		for i := range n {
			p, ok := of(forecast.Key{Workflow: "w", Task: fmt.Sprint(i)}, speed)
			if !ok {
				return 0, fmt.Errorf("nothing of task %d", i)
			}
			sum += p.Staging + p.Start + p.Run + p.End
		}
		return sum, nil
	}
}

func expectCauses(t *testing.T, got []forecast.Cause, want map[string]time.Duration, all time.Duration) {
	t.Helper()
	var sum time.Duration
	for _, c := range got {
		if c.Took != want[c.Name] {
			t.Errorf("%s: %v, not %v", c.Name, c.Took, want[c.Name])
		}
		sum += c.Took
	}
	if sum != all || len(got) != 6 {
		t.Errorf("%d causes, %v in all, not %v", len(got), sum, all)
	}
}

// Two tasks in a chain. Each is staged 10 ms longer than simulated, starts 50 ms longer, runs 200 ms longer and ends
// 30 ms longer; between the two, gantry takes 15 ms.
func TestTheDifferenceIsSplitByCause(t *testing.T) {
	d := forecast.Difference{Run: map[forecast.Key]forecast.Happened{}, Sim: map[forecast.Key]forecast.Happened{},
		RunMakespan: 2795 * ms, SimMakespan: 2200 * ms, Simulate: chain(2, 1)}
	for i := range 2 {
		k := forecast.Key{Workflow: "w", Task: fmt.Sprint(i)}
		at := time.Duration(i)
		d.Sim[k] = forecast.Happened{Queued: at * 1100 * ms, Speed: 1,
			Phases: forecast.Phases{Start: 100 * ms, Run: 1000 * ms}}
		d.Run[k] = forecast.Happened{Queued: at * 1405 * ms, Speed: 1,
			Phases: forecast.Phases{Staging: 10 * ms, Start: 150 * ms, Run: 1200 * ms, End: 30 * ms}}
	}
	got, err := forecast.Split(d)
	must(t, err)
	expectCauses(t, got, map[string]time.Duration{forecast.CauseDurations: 400 * ms, forecast.CauseStaging: 20 * ms,
		forecast.CauseStart: 100 * ms, forecast.CauseEnd: 60 * ms, forecast.CauseDecisions: 15 * ms}, 595*ms)
}

// A program that ran on a fast node and is simulated on a slow one takes twice as long there: that it went elsewhere is
// a decision.
func TestAnotherNodeIsADecision(t *testing.T) {
	k := forecast.Key{Workflow: "w", Task: "0"}
	d := forecast.Difference{RunMakespan: 1000 * ms, SimMakespan: 2000 * ms, Simulate: chain(1, 0.5),
		Run: map[forecast.Key]forecast.Happened{k: {Speed: 1, Phases: forecast.Phases{Run: 1000 * ms}}},
		Sim: map[forecast.Key]forecast.Happened{k: {Speed: 0.5, Phases: forecast.Phases{Run: 2000 * ms}}}}
	got, err := forecast.Split(d)
	must(t, err)
	expectCauses(t, got, map[string]time.Duration{forecast.CauseDecisions: -1000 * ms}, -1000*ms)
}

// Six tasks: three start alone in 100 ms, three while another starts, in 160 ms. The simulation has 100 ms for all. So
// starts are as simulated, and contention adds 60 ms to each of three.
func TestContentionIsWhatPhasesTakeLongerBesideOthers(t *testing.T) {
	d := forecast.Difference{Run: map[forecast.Key]forecast.Happened{}, Sim: map[forecast.Key]forecast.Happened{},
		Simulate: chain(6, 1)}
	for i := range 6 {
		k := forecast.Key{Workflow: "w", Task: fmt.Sprint(i)}
		at := time.Duration(i) * time.Minute
		start := 100 * ms
		if i >= 3 { // all three at once
			at, start = 3*time.Minute, 160*ms
		}
		d.Sim[k] = forecast.Happened{Queued: time.Duration(i) * time.Minute, Speed: 1,
			Phases: forecast.Phases{Start: 100 * ms, Run: time.Second}}
		d.Run[k] = forecast.Happened{Queued: at, Speed: 1, Phases: forecast.Phases{Start: start, Run: time.Second}}
	}
	d.SimMakespan, d.RunMakespan = 6600*ms, 6780*ms
	got, err := forecast.Split(d)
	must(t, err)
	expectCauses(t, got, map[string]time.Duration{forecast.CauseContention: 180 * ms}, 180*ms)
}
