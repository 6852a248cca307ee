// Package forecast predicts runs: it simulates the rest of a run, several times with other noise.
package forecast

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gantry/executor"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/unit"
)

// Parts are the parts of one repetition: an engine without work and runtime, and the simulation that it drives. Each
// repetition needs its own, as planners and admissions keep state.
type Parts struct {
	*executor.Engine
	Sim sim.Config
}

// Maker makes the parts of a repetition. Repetition 0 is without noise.
type Maker func(repetition int) (*Parts, error)

// Past is the past of a run, and the submissions that are still to arrive.
type Past struct {
	Batches  []executor.Batch // none: the run has not begun
	Now      planner.Time     // at least the instant of the last event
	Arrivals []executor.Submission
	// Of a run of which only the present state is known: the numbers that tasks have in it, and the submissions that
	// single tasks to arrive come after, by their numbers there.
	Tasks map[*executor.TaskSpec]planner.TaskID
	Refs  map[int64]executor.Ref
}

// Attempt is an attempt of a simulated course.
type Attempt struct {
	Task    *executor.TaskSpec
	Node    planner.NodeID
	Hold    unit.Vector
	Queued  planner.Time // ordered
	Staged  planner.Time // inputs in place
	Started planner.Time // program runs
	Ended   planner.Time // program has ended
	Over    planner.Time // its end is known, and its place is free
	Outcome planner.Outcome
}

// Workflow is a workflow of a simulated course.
type Workflow struct {
	Name           string
	Due            planner.Time
	Started, Ended planner.Time // of its first attempt, of its last; unit.Never if there is none, or it never ends
}

// Course is one simulation of a run. Attempts are in the order in which they were ordered.
type Course struct {
	Begin, End planner.Time // of the first arrival, of the last attempt
	Workflows  []Workflow
	Attempts   []Attempt
}

// Makespan is from the first arrival to the end of the last attempt.
func (c *Course) Makespan() time.Duration { return c.End.Sub(c.Begin) }

// Range is the expectation of a quantity: the median of the repetitions, and the interval between their tenth and
// ninetieth percentile. With a single repetition all three are the same.
type Range struct{ Expected, Low, High time.Duration }

// Of is a range of a workflow or of a type of task.
type Of struct {
	Name  string
	Tasks int
	Range
}

// Forecast is the expected course of a run.
type Forecast struct {
	At          planner.Time // when it was made
	Repetitions int
	Makespan    Range
	Workflows   []Of // makespan of each, from its first attempt on; in order of arrival
	// Kinds are the types of task in order of appearance: the mean time of a task from its inputs in place to the end
	// of its program.
	Kinds []Of
	// Starting is the time of starts of containers, and Held that of tasks on their nodes, sums over all attempts.
	Starting, Held time.Duration
	Course         *Course // of the repetition without noise
}

// Bounds bound the cost of a forecast.
type Bounds struct {
	Repetitions int           // at most, the one without noise aside
	Least       int           // of these are made if the first takes less than Whole
	Time        time.Duration // no repetition begins after that
	Whole       time.Duration // everything ends after that: without a course there is an error
	// Share, if above 0, also bounds Time: this share of the expected makespan.
	Share float64
	// Vain, if set, says that repetitions of a course are worth nothing.
	Vain func(first *Course) bool
}

// Make forecasts a run. It makes as many repetitions as the bounds allow. A course that cannot be simulated to its end
// is an error.
func Make(ctx context.Context, make Maker, past *Past, b Bounds) (*Forecast, error) {
	began, whole := time.Now(), ctx
	ctx, cancel := context.WithTimeout(ctx, b.Whole)
	defer cancel()
	first, err := Simulate(ctx, make, past, 0)
	if err != nil {
		if ctx.Err() != nil && whole.Err() == nil {
			return nil, fmt.Errorf("to simulate it takes more than %v", b.Whole)
		}
		return nil, err
	}
	limit := b.Time
	if b.Share > 0 {
		limit = min(limit, time.Duration(b.Share*float64(first.End.Sub(past.Now))))
	}
	if b.Vain != nil && b.Vain(first) {
		b.Repetitions = 0
	}
	courses := []*Course{first}
	for k := 1; k <= b.Repetitions; k++ {
		if time.Since(began) > limit && (k > b.Least || time.Since(began) > b.Time) {
			break
		}
		c, err := Simulate(ctx, make, past, k)
		if err != nil {
			if ctx.Err() != nil {
				break // the courses so far have to do
			}
			return nil, err
		}
		courses = append(courses, c)
	}
	return summarise(courses, past.Now), nil
}

// summarise joins the repetitions; the first is without noise.
func summarise(courses []*Course, at planner.Time) *Forecast {
	first := courses[0]
	noisy := courses[min(1, len(courses)-1):]
	f := &Forecast{At: at, Repetitions: len(noisy), Course: first}
	spans := func(of func(c *Course) time.Duration) Range {
		values := make([]time.Duration, len(noisy))
		for i, c := range noisy {
			values[i] = of(c)
		}
		return RangeOf(values)
	}
	f.Makespan = spans((*Course).Makespan)
	for w := range first.Workflows {
		f.Workflows = append(f.Workflows, Of{Name: first.Workflows[w].Name, Range: spans(func(c *Course) time.Duration {
			if w >= len(c.Workflows) || c.Workflows[w].Started == unit.Never {
				return 0
			}
			return c.Workflows[w].Ended.Sub(c.Workflows[w].Started)
		})})
	}
	means := make([]map[string]mean, len(noisy))
	for i, c := range noisy {
		means[i] = c.kinds()
	}
	seen := map[string]int{}
	for i := range first.Attempts {
		a := &first.Attempts[i]
		f.Starting += max(0, a.Started.Sub(a.Staged))
		f.Held += max(0, a.Over.Sub(a.Queued))
		if a.Outcome != planner.OK {
			continue
		}
		k, ok := seen[a.Task.Kind]
		if !ok {
			k = len(f.Kinds)
			seen[a.Task.Kind] = k
			values := make([]time.Duration, len(noisy))
			for j := range noisy {
				values[j] = means[j][a.Task.Kind].of()
			}
			f.Kinds = append(f.Kinds, Of{Name: a.Task.Kind, Range: RangeOf(values)})
		}
		f.Kinds[k].Tasks++
	}
	return f
}

type mean struct {
	sum time.Duration
	n   int64
}

func (m mean) of() time.Duration { return m.sum / time.Duration(max(1, m.n)) }

// kinds has the mean time from inputs in place to the end, by type of task.
func (c *Course) kinds() map[string]mean {
	out := map[string]mean{}
	for i := range c.Attempts {
		if a := &c.Attempts[i]; a.Outcome == planner.OK {
			m := out[a.Task.Kind]
			out[a.Task.Kind] = mean{m.sum + a.Ended.Sub(a.Staged), m.n + 1}
		}
	}
	return out
}

// RangeOf is the median and the interval of 80 % of values, by linear interpolation between order statistics: the k-th
// of n values is the quantile k/(n+1), so that another value falls into the interval of few values as often as into
// that of many.
func RangeOf(values []time.Duration) Range {
	if len(values) == 0 {
		return Range{}
	}
	v := slices.Sorted(slices.Values(values))
	at := func(q float64) time.Duration {
		x := min(max(0, q*float64(len(v)+1)-1), float64(len(v)-1))
		low := int(math.Floor(x))
		high := min(low+1, len(v)-1)
		return v[low] + time.Duration(math.Round((x-float64(low))*float64(v[high]-v[low])))
	}
	return Range{Expected: at(0.5), Low: at(0.1), High: at(0.9)}
}

// adopting is a simulation that continues attempts which are under way.
type adopting struct {
	sim.Simulation
	adopt func(ctx context.Context, l executor.Launch) error
}

// Recover implements executor.Recoverer.
func (a adopting) Recover(ctx context.Context, live []executor.Launch) error {
	for i := range live {
		if err := a.adopt(ctx, live[i]); err != nil {
			return err
		}
	}
	return nil
}

// Simulate makes one repetition: it takes in the past and simulates the rest.
func Simulate(ctx context.Context, make Maker, past *Past, repetition int) (*Course, error) {
	parts, err := make(repetition)
	if err != nil {
		return nil, err
	}
	parts.Sim.Start = past.Now
	w, e := &watcher{}, parts.Engine
	e.Arrivals, e.Watch = slices.Clone(past.Arrivals), w.watch
	v := e.Planner.View()
	under := map[planner.AttemptID]progress{}
	if len(past.Batches) > 0 {
		parts.Sim.Measured = continued(parts, v, under)
	}
	rt := adopting{Simulation: sim.For(parts.Sim)}
	rt.adopt = func(ctx context.Context, l executor.Launch) error {
		att := v.Attempt(l.Attempt)
		p := progress{started: l.Started, lasted: past.Now.Sub(att.Ordered)}
		if l.Started {
			until := past.Now
			if l.Suspended {
				until = l.Since
			}
			p.lasted = max(0, until.Sub(att.Started)-att.Paused)
		}
		under[l.Attempt] = p
		return rt.Adopt(ctx, l)
	}
	e.Runtime = rt
	defer rt.Close()
	for id, r := range past.Refs {
		e.Refer(id, r)
	}
	if len(past.Batches) > 0 {
		for _, b := range past.Batches {
			if err := e.Replay(b); err != nil {
				return nil, err
			}
			w.watch(v, b.Events, b.Admissions)
		}
		if err := e.Recover(ctx); err != nil {
			return nil, err
		}
	}
	res, err := e.Run(ctx)
	if past.Tasks != nil && errors.Is(err, executor.ErrStuck) { // on nodes that are away: the rest is known
		for _, id := range v.Present() {
			w.course.Workflows[id].Ended = unit.Never
		}
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("simulate the run: %w", err)
	}
	if len(res.Refused) > 0 {
		return nil, fmt.Errorf("simulate the run: %w", res.Refused[0])
	}
	return w.finish(), nil
}

// progress is how far an attempt has come that is under way.
type progress struct {
	started bool
	lasted  time.Duration // since the program began, suspensions left out; or since it was ordered
}

// continued has attempts that are under way take as much less as they have lasted already.
func continued(parts *Parts, v planner.View, under map[planner.AttemptID]progress) func(*executor.Launch) (sim.Measured,
	bool) {
	measured, startup, actual := parts.Sim.Measured, parts.Sim.Startup, parts.Sim.Actual
	return func(l *executor.Launch) (m sim.Measured, ok bool) {
		if measured != nil {
			m, ok = measured(l)
		}
		p, live := under[l.Attempt]
		if !live {
			return m, ok
		}
		if !ok {
			m = sim.Measured{Startup: startup, Run: l.Spec.TrueRun(l.Node, v.Nodes()[l.Node].Speed),
				Outcome: planner.OK}
			if actual != nil {
				m.Run = actual(l.Task, m.Run)
			}
			if l.Spec.AvgCPU > 0 {
				m.CPU = time.Duration(float64(m.Run) * l.Spec.AvgCPU / 100)
			}
		}
		if p.started {
			left := max(m.Run-p.lasted, least)
			m.Run, m.CPU = left, time.Duration(float64(m.CPU)*float64(left)/float64(max(m.Run, 1)))
		} else {
			m.Startup = max(m.Startup-p.lasted, least)
		}
		return m, true
	}
}

// least is the least time left of a phase that has lasted longer than expected.
const least = time.Millisecond

// watcher writes the course of a simulation down.
type watcher struct {
	course Course
	specs  []*executor.TaskSpec
	of     []int32                   // by task: its workflow
	index  map[planner.AttemptID]int // in Attempts
}

func (w *watcher) watch(v planner.View, events []planner.Event, admitted []*executor.Admission) {
	if w.index == nil {
		w.index = map[planner.AttemptID]int{}
		w.course.Begin = unit.Never
	}
	for _, a := range admitted {
		for range a.Tasks { // workflows are numbered as they arrive
			w.of = append(w.of, int32(a.Spec.ID))
		}
		w.specs = append(w.specs, a.Tasks...)
		if a.Grown() {
			continue
		}
		at := a.Arrived.Workflow.Arrived
		w.course.Begin = min(w.course.Begin, at)
		w.course.Workflows = append(w.course.Workflows, Workflow{a.Spec.Name, a.Arrived.Workflow.Due, unit.Never, at})
	}
	for i := range events {
		switch b := events[i].Body.(type) {
		case *planner.PlanCommitted:
			for k := range b.Orders {
				o := &b.Orders[k]
				if o.Kind != planner.OrderStart || o.Node == planner.None {
					continue
				}
				w.index[o.Attempt] = len(w.course.Attempts)
				w.course.Attempts = append(w.course.Attempts, Attempt{Task: w.specs[o.Task], Node: o.Node,
					Hold: o.Hold, Queued: events[i].At, Staged: events[i].At, Started: events[i].At,
					Ended: events[i].At, Over: events[i].At})
				flow := &w.course.Workflows[w.of[o.Task]]
				flow.Started = min(flow.Started, events[i].At)
			}
		case *planner.AttemptExited:
			w.exited(v, b, events[i].At)
		}
	}
}

func (w *watcher) exited(v planner.View, b *planner.AttemptExited, at planner.Time) {
	k, ok := w.index[b.Attempt]
	if !ok {
		return
	}
	a := &w.course.Attempts[k]
	for _, x := range []struct {
		to   *planner.Time
		from planner.Time
	}{{&a.Staged, b.Usage.Staged}, {&a.Started, b.Usage.Started}, {&a.Ended, b.Usage.Ended}} {
		if x.from != unit.Never {
			*x.to = x.from
		}
	}
	a.Outcome, a.Over = b.Outcome, at
	w.course.End = max(w.course.End, at)
	flow := &w.course.Workflows[w.of[v.Attempt(b.Attempt).Task]]
	flow.Ended = max(flow.Ended, at)
}

func (w *watcher) finish() *Course {
	w.course.End = max(w.course.End, w.course.Begin)
	return &w.course
}
