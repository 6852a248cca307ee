package calibrate_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"gantry/executor/sim/calibrate"
	"gantry/executor/sim/hostmodel"
)

// sampled is a run of five tasks one after the other and three at once, whose starts take so long alone, and beside
// others; its simulation says what the model says. A program takes a millisecond longer than it should.
func sampled(name string, alone, beside time.Duration) calibrate.SampleRun {
	const ms = time.Millisecond
	courses := func(alone, beside, staging, program time.Duration) map[string]calibrate.Course {
		out := map[string]calibrate.Course{}
		add := func(name string, at, start time.Duration) {
			c := calibrate.Course{Queued: at, Staged: at + staging, Started: at + staging + start, Node: "whole"}
			c.Ended = c.Started + program
			c.Over = c.Ended + 35*ms
			out[name] = c
		}
		for i := range 8 {
			if i < 5 {
				add(fmt.Sprint("alone", i), time.Duration(i)*5*time.Second, alone)
			} else {
				add(fmt.Sprint("beside", i), 30*time.Second, beside)
			}
		}
		return out
	}
	return calibrate.SampleRun{Name: name, Courses: courses(alone, beside, 12*ms, 101*ms),
		Simulate: func(m *hostmodel.Model) (map[string]calibrate.Course, error) {
			p := &m.Phases
			says := func(together float64) time.Duration {
				return time.Duration(p.Create.Wall.BaseNanos*p.Create.Slowdown.At(together, 0) +
					p.Start.Wall.BaseNanos*p.Start.Slowdown.At(together, 0))
			}
			return courses(says(1), says(3), time.Duration(p.Stage.Wall.BaseNanos),
				time.Duration(100*float64(ms)*m.Run.Mean()+float64(m.Emulator.EndNanos))), nil
		}}
}

func measuredModel() *hostmodel.Model {
	m := hostmodel.Example(4)
	m.Emulator.EndNanos = 0
	for _, p := range []*hostmodel.Phase{&m.Phases.Create, &m.Phases.Start} {
		p.Slowdown = hostmodel.Surface{Together: []float64{1, 3}, BusyCores: []float64{0},
			Factor: [][]float64{{1}, {1.2}}}
	}
	return m
}

// starts is what a model says of starts alone and of three.
func starts(m *hostmodel.Model) (alone, together float64) {
	p := &m.Phases
	return (p.Create.Wall.BaseNanos + p.Start.Wall.BaseNanos) / 1e6,
		(p.Create.Wall.BaseNanos*p.Create.Slowdown.At(3, 0) + p.Start.Wall.BaseNanos*p.Start.Slowdown.At(3, 0)) / 1e6
}

func TestSampleRunsCorrectAModel(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name             string
		runs             []calibrate.SampleRun
		alone, together  float64 // milliseconds afterwards
		staging, program float64 // milliseconds; of 100 ms
		least, most      float64 // what the drift's ninth decile is between
	}{
		{"alike and slower than measured", []calibrate.SampleRun{sampled("a", 130*ms, 260*ms),
			sampled("b", 130*ms, 260*ms)}, 130, 260, 12, 101, 1, 1.001},
		{"faster", []calibrate.SampleRun{sampled("a", 80*ms, 90*ms), sampled("b", 80*ms, 90*ms)}, 80, 90, 12, 101, 1,
			1.001},
		{"one slow, one fast", []calibrate.SampleRun{sampled("a", 120*ms, 240*ms), sampled("b", 80*ms, 160*ms)}, 100,
			200, 12, 101, 1.2, 3},
		{"absurd", []calibrate.SampleRun{sampled("a", time.Minute, time.Hour)}, 100, 120, 10, 101, 1, 1.001},
		{"none", nil, 100, 120, 10, 100, 1, 1.001},
	} {
		m := measuredModel()
		if err := calibrate.Correct(m, nil, c.runs); err != nil {
			t.Fatal(err)
		}
		alone, together := starts(m)
		near := func(got, want float64) bool { return math.Abs(got-want) <= want/100 }
		if !near(alone, c.alone) || !near(together, c.together) {
			t.Errorf("%s: starts take %.1f ms, three at once %.1f ms, not %v and %v", c.name, alone, together, c.alone,
				c.together)
		}
		if got := m.Phases.Stage.Wall.BaseNanos / 1e6; !near(got, c.staging) {
			t.Errorf("%s: staging takes %.1f ms, not %v", c.name, got, c.staging)
		}
		if got := 100*m.Run.Mean() + float64(m.Emulator.EndNanos)/1e6; math.Abs(got-c.program) > 0.1 {
			t.Errorf("%s: programs of 100 ms take %.1f ms, not %v", c.name, got, c.program)
		}
		if got := m.Phases.Start.Drift.At(0.9); got < c.least || got > c.most {
			t.Errorf("%s: the drift is up to %.3f", c.name, got)
		}
		if err := m.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestSampleRunsWidenWithEarlierCalibrationsAndOthersWork(t *testing.T) {
	runs := []calibrate.SampleRun{sampled("a", 120*time.Millisecond, 240*time.Millisecond),
		sampled("b", 110*time.Millisecond, 220*time.Millisecond),
		sampled("c", 100*time.Millisecond, 200*time.Millisecond)}
	width := func(busy float64, before ...*hostmodel.Model) float64 {
		m := measuredModel()
		m.Measured.BusyCores = busy
		if err := calibrate.Correct(m, before, runs); err != nil {
			t.Fatal(err)
		}
		return m.Phases.Start.Drift.At(0.9) - m.Phases.Start.Drift.At(0.1)
	}
	usual := width(0)
	if usual <= 0 {
		t.Fatal("runs that differ leave no drift")
	}
	other := measuredModel()
	other.Phases.Create.Wall.BaseNanos *= 2
	other.Phases.Start.Wall.BaseNanos *= 2
	if got := width(0, other, measuredModel(), other); got <= usual {
		t.Errorf("calibrations that said twice as much leave a drift of %.3f, without them %.3f", got, usual)
	}
	if got := width(2); got <= usual {
		t.Errorf("a busy host leaves a drift of %.3f, one at rest %.3f", got, usual)
	}
}

// Starts beside a program take longer than those on a host at rest, also where no other container starts.
func TestSampleRunsTellABusyHostFromOneAtRest(t *testing.T) {
	const ms = time.Millisecond
	courses := func(rest, busy time.Duration) map[string]calibrate.Course {
		out := map[string]calibrate.Course{}
		for i := range 4 {
			at := time.Duration(i) * 10 * time.Second
			for k, start := range []time.Duration{rest, busy} {
				c := calibrate.Course{Queued: at, Staged: at + 10*ms, Started: at + 10*ms + start, Node: "whole"}
				c.Ended = c.Started + 3*time.Second
				c.Over = c.Ended + 35*ms
				out[fmt.Sprint(i, k)] = c
				at += time.Second
			}
		}
		return out
	}
	m := hostmodel.Example(4)
	for _, p := range []*hostmodel.Phase{&m.Phases.Create, &m.Phases.Start} {
		p.Slowdown = hostmodel.Surface{Together: []float64{1, 3}, BusyCores: []float64{0, 1},
			Factor: [][]float64{{1, 1.1}, {1.2, 1.3}}}
	}
	says := func(m *hostmodel.Model, busy float64) time.Duration {
		p := &m.Phases
		return time.Duration(p.Create.Wall.BaseNanos*p.Create.Slowdown.At(1, busy) +
			p.Start.Wall.BaseNanos*p.Start.Slowdown.At(1, busy))
	}
	err := calibrate.Correct(m, nil, []calibrate.SampleRun{{Name: "a", Courses: courses(90*ms, 150*ms),
		Simulate: func(m *hostmodel.Model) (map[string]calibrate.Course, error) {
			return courses(says(m, 0), says(m, 1)), nil
		}}})
	if err != nil {
		t.Fatal(err)
	}
	if rest, busy := says(m, 0), says(m, 1); (rest-90*ms).Abs() > ms || (busy-150*ms).Abs() > ms {
		t.Errorf("starts take %v, beside a program %v, not 90 and 150 ms", rest, busy)
	}
}

// What single starts differ by is no drift: runs would have it twice.
func TestStartsThatScatterAreNoDrift(t *testing.T) {
	width := func(scatter float64) float64 {
		var runs []calibrate.SampleRun
		for i, factor := range []float64{1, 1.2, 1, 1.2} {
			r := sampled(fmt.Sprint(i), time.Duration(factor*100)*time.Millisecond, 120*time.Millisecond)
			for k := range 4 {
				name := fmt.Sprint("alone", k)
				c := r.Courses[name]
				longer := time.Duration(scatter * (1 - 2*float64(k%2)) * float64(c.Started-c.Staged))
				c.Started, c.Ended, c.Over = c.Started+longer, c.Ended+longer, c.Over+longer
				r.Courses[name] = c
			}
			runs = append(runs, r)
		}
		m := measuredModel()
		if err := calibrate.Correct(m, nil, runs); err != nil {
			t.Fatal(err)
		}
		return m.Phases.Start.Drift.At(0.9) / m.Phases.Start.Drift.At(0.1)
	}
	if alike, scattered := width(0), width(0.3); alike < 1.05 || scattered >= alike || scattered < 1.01 {
		t.Errorf("the drift is %.3f wide where the starts of a run are alike, %.3f where they are not", alike,
			scattered)
	}
}

// One calibration may fall into a slow minute of the host.
func TestACalibrationIsHeldAgainstThoseBefore(t *testing.T) {
	now := time.Now()
	model := func(age time.Duration, factor float64) *hostmodel.Model {
		m := measuredModel()
		m.Measured.At = now.Add(-age)
		m.Phases.Create.Wall.BaseNanos *= factor
		m.Phases.Start.Wall.BaseNanos *= factor
		return m
	}
	moved := model(time.Hour, 1.2) // it measured 1
	moved.Measured.Steadied = 1.2
	for _, c := range []struct {
		name   string
		before []*hostmodel.Model
		want   float64 // milliseconds that a start takes; the runs say 120
	}{
		{"none", nil, 120},
		{"one", []*hostmodel.Model{model(time.Hour, 1)}, 110},
		{"two alike", []*hostmodel.Model{model(time.Hour, 1), model(2*time.Hour, 1)}, 100},
		{"one of another day", []*hostmodel.Model{model(25*time.Hour, 1)}, 120},
		{"a host that has changed", []*hostmodel.Model{model(time.Hour, 2), model(time.Hour, 2)}, 120},
		{"one that was moved itself", []*hostmodel.Model{moved}, 110},
	} {
		m := model(0, 1)
		runs := []calibrate.SampleRun{sampled("a", 120*time.Millisecond, 144*time.Millisecond)}
		if err := calibrate.Correct(m, c.before, runs); err != nil {
			t.Fatal(err)
		}
		if got, _ := starts(m); math.Abs(got-c.want) > 1 {
			t.Errorf("%s: starts take %.1f ms, not %v", c.name, got, c.want)
		}
	}
}

func TestASimulationThatFailsCorrectsNothing(t *testing.T) {
	broken := errors.New("broken")
	r := sampled("a", time.Second, time.Second)
	r.Simulate = func(*hostmodel.Model) (map[string]calibrate.Course, error) { return nil, broken }
	m := measuredModel()
	if err := calibrate.Correct(m, nil, []calibrate.SampleRun{r}); !errors.Is(err, broken) {
		t.Errorf("it says %v", err)
	}
	if alone, _ := starts(m); alone != 100 {
		t.Errorf("starts take %v ms", alone)
	}
}

func TestSampleWorkflowsAreWhole(t *testing.T) {
	for _, quick := range []bool{true, false} {
		names := map[string]bool{}
		for _, w := range calibrate.SampleWorkflows(quick) {
			if names[w.Name] || len(w.Tasks) == 0 {
				t.Errorf("%s: twice, or without tasks", w.Name)
			}
			names[w.Name] = true
			for i, task := range w.Tasks {
				for _, p := range task.After {
					if p < 0 || p >= i {
						t.Errorf("%s: task %d follows %d", w.Name, i, p)
					}
				}
			}
		}
	}
}
