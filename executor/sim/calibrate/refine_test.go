package calibrate_test

import (
	"math"
	"testing"
	"time"

	"gantry/executor/sim/calibrate"
	"gantry/executor/sim/hostmodel"
	"gantry/planner"
)

// attempts are n, one after the other, that start in the given time; everything else is as hostmodel.Example says.
func attempts(n int, start time.Duration) (all []calibrate.Ended) {
	const ms = planner.Time(time.Millisecond)
	for i := range n {
		at := planner.Time(i) * 2000 * ms
		u := planner.Usage{Queued: at, Staged: at + 10*ms, Created: at + 30*ms}
		u.Started = u.Created + planner.Time(start)
		u.Ended = u.Started + 500*ms
		all = append(all, calibrate.Ended{Usage: u, Reported: u.Ended + 35*ms, Outcome: planner.OK})
	}
	return all
}

func TestRunsRefineAModelWithinBounds(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name    string
		all     []calibrate.Ended
		busy    float64
		changes bool
		least   time.Duration // of the start, which the model takes for 80 ms
		most    time.Duration
	}{
		{"as the model says", attempts(20, 80*ms), 0, true, 80 * ms, 80 * ms},
		{"half as long again: a part of the way", attempts(20, 120*ms), 0.1, true, 82 * ms, 88 * ms},
		{"a third: a part of the way", attempts(500, 27*ms), 0, true, 72 * ms, 73 * ms},
		{"ten times: absurd", attempts(50, 800*ms), 0, true, 80 * ms, 80 * ms},
		{"nothing: absurd", attempts(50, 0), 0, true, 80 * ms, 80 * ms},
		{"too few", attempts(7, 120*ms), 0, false, 80 * ms, 80 * ms},
		{"a busy host", attempts(50, 120*ms), 1, false, 80 * ms, 80 * ms},
		{"nobody knows how busy", attempts(50, 120*ms), math.NaN(), false, 80 * ms, 80 * ms},
		{"no attempts", nil, 0, false, 80 * ms, 80 * ms},
	} {
		m := hostmodel.Example(4)
		changed := calibrate.Refine(m, c.all, c.busy, 3)
		got := time.Duration(math.Round(m.Phases.Start.Wall.BaseNanos))
		if changed != c.changes || got < c.least || got > c.most {
			t.Errorf("%s: changed %v, starting takes %v", c.name, changed, got)
		}
		if err := m.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestRefiningEndsWhereItWasMeasured(t *testing.T) {
	m := hostmodel.Example(4)
	for range 200 {
		calibrate.Refine(m, attempts(40, 120*time.Millisecond), 0, 3)
	}
	if got := time.Duration(m.Phases.Start.Wall.BaseNanos); got < 115*time.Millisecond || got > 121*time.Millisecond {
		t.Errorf("after 200 runs of 120 ms each, starting takes %v", got)
	}
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
}

func TestFailedAttemptsSayNothing(t *testing.T) {
	all := attempts(50, 120*time.Millisecond)
	for i := range all {
		all[i].Outcome = planner.ExitCode
	}
	if calibrate.Refine(hostmodel.Example(4), all, 0, 3) {
		t.Error("failed attempts refined the model")
	}
}
