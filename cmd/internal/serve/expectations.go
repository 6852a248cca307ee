package serve

import (
	"context"
	"errors"
	"sync"
	"time"

	"gantry/cmd/internal/server"
	"gantry/cmd/internal/session"
	"gantry/executor"
	"gantry/executor/forecast"
	"gantry/planner"
	"gantry/planner/unit"
)

// Bounds of the predictions of a server. It simulates the rest of its run when somebody asks.
const (
	foretellTasks   = 5000                   // that have not ended; of more nothing is predicted
	foretellWhole   = 10 * time.Second       // for the first simulation
	foretellTime    = 500 * time.Millisecond // no further one begins after that
	foretellMost    = 20                     // simulations with noise
	foretellShare   = 0.1                    // of the time that passes goes into simulations
	programsStaleAt = 30 * time.Second       // measurements of programs are read again
)

// foreteller predicts when submissions start and end.
type foreteller struct {
	run     *session.Session
	inbox   *executor.Inbox
	by      *session.Prediction // simulates the run
	mu      sync.Mutex
	running chan struct{} // closed when the prediction that is being made is complete; nil: none is
	made    time.Time     // as of when the last one is
	due     time.Time     // no other one is made before
	read    time.Time     // measurements of programs
	all     server.Expectations
	note    string
	err     error
}

// expect returns the predictions for all that is present, as of an instant after since if that can be had before the
// end of ctx. The note says why there are none.
func (f *foreteller) expect(ctx context.Context, since time.Time) (server.Expectations, string, error) {
	for {
		f.mu.Lock()
		if f.made.After(since) || ctx.Err() != nil {
			defer f.mu.Unlock()
			return f.all, f.note, f.err
		}
		if f.running == nil {
			f.running = make(chan struct{})
			go f.refresh(f.running, f.due)
		}
		done := f.running
		f.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// refresh makes a prediction once it is due.
func (f *foreteller) refresh(done chan struct{}, due time.Time) {
	time.Sleep(time.Until(due))
	began := time.Now()
	all, err := f.make(context.Background())
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made, f.all, f.note, f.err = began, all, "", nil
	if errors.Is(err, executor.ErrClosed) {
		f.err = err
	} else if err != nil {
		f.note = "nothing is predicted: " + err.Error()
	}
	f.due = time.Now().Add(time.Duration(float64(time.Since(began)) / foretellShare))
	f.running = nil
	close(done)
}

func (f *foreteller) make(ctx context.Context) (all server.Expectations, err error) {
	if time.Since(f.read) > programsStaleAt && session.Capabilities(f.by.Set.Runtime).Programs {
		if err := f.by.Measure(ctx, f.run.DB); err != nil {
			return all, err
		}
		f.read = time.Now()
	}
	past, err := f.by.Rest(ctx, f.inbox, f.run.Name, foretellTasks)
	if err != nil {
		return all, err
	}
	return foretell(ctx, f.by, past)
}

// foretell makes the courses, and takes from them when each workflow and each single task starts and ends.
func foretell(ctx context.Context, by *session.Prediction, past *forecast.Past) (all server.Expectations, err error) {
	ctx, cancel := context.WithTimeout(ctx, foretellWhole)
	defer cancel()
	if len(past.Batches)+len(past.Arrivals) == 0 {
		return all, nil
	}
	names, tasks := map[string]*course{}, map[planner.TaskID]*course{}
	surely := &foreknown{map[string]doubt{}, map[*executor.TaskSpec]doubt{}}
	began := time.Now()
	for k := 0; k <= foretellMost && (k == 0 || time.Since(began) < foretellTime); k++ {
		c, err := by.Simulate(ctx, past, k)
		if err != nil && k > 0 {
			break
		} else if err != nil {
			return all, err
		}
		if k == 0 {
			all.Unknown = by.Unpredicted(c)
			surely.take(by, c)
		}
		for _, w := range c.Workflows {
			switch {
			case w.Ended == unit.Never: // it is stuck
				courseOf(names, w.Name).add(k, 0, 0)
			case w.Started != unit.Never: // it is not refused
				courseOf(names, w.Name).add(k, w.Started, w.Ended)
			}
		}
		spans := map[planner.TaskID][2]planner.Time{} // of all attempts
		for i := range c.Attempts {
			a := &c.Attempts[i]
			if t, ok := past.Tasks[a.Task]; ok {
				span, again := spans[t]
				if !again {
					span[0] = a.Queued
				}
				spans[t] = [2]planner.Time{span[0], max(span[1], a.Over)}
			}
		}
		for spec, t := range past.Tasks {
			if span, ok := spans[t]; ok || c.Workflows[spec.Workflow.ID].Ended == unit.Never {
				courseOf(tasks, t).add(k, span[0], span[1])
			}
		}
	}
	all.Workflows, all.Tasks = map[string]server.Expectation{}, map[planner.TaskID]server.Expectation{}
	for name, c := range names {
		all.Workflows[name] = surely.of(c.expectation(past.Now), surely.flows[name])
	}
	for spec, t := range past.Tasks {
		if c := tasks[t]; c != nil {
			all.Tasks[t] = surely.of(c.expectation(past.Now), surely.tasks[spec])
		}
	}
	return all, nil
}

// doubt says which instants of a task or workflow depend on programs of which nothing is known.
type doubt struct{ start, end bool }

// foreknown has the doubts about a course.
type foreknown struct {
	flows map[string]doubt
	tasks map[*executor.TaskSpec]doubt
}

func (f *foreknown) take(by *session.Prediction, c *forecast.Course) {
	starts, ends := by.Foreseen(c)
	for i := range c.Attempts {
		t := c.Attempts[i].Task
		d := doubt{!starts[i], !ends[i]}
		f.tasks[t] = d
		if was, ok := f.flows[t.Workflow.Name]; ok {
			d = doubt{was.start && d.start, was.end || d.end}
		}
		f.flows[t.Workflow.Name] = d
	}
}

// of leaves doubtful instants out of an expectation.
func (f *foreknown) of(e server.Expectation, d doubt) server.Expectation {
	if e == (server.Expectation{}) {
		return e
	}
	if d.start {
		e.Start = unit.Never
	}
	if d.end {
		e.End = unit.Never
	}
	return e
}

// course is when something starts and ends: without noise, and in the repetitions with noise.
type course struct {
	start, end   planner.Time
	starts, ends []planner.Time
}

func courseOf[K comparable](all map[K]*course, key K) *course {
	if all[key] == nil {
		all[key] = &course{}
	}
	return all[key]
}

func (c *course) add(repetition int, start, end planner.Time) {
	if repetition == 0 {
		c.start, c.end = start, end
		return
	}
	c.starts, c.ends = append(c.starts, start), append(c.ends, end)
}

func (c *course) expectation(now planner.Time) server.Expectation {
	e := server.Expectation{Start: c.start, StartLow: c.start, StartHigh: c.start, End: c.end, Low: c.end, High: c.end}
	if len(c.ends) < 2 || e == (server.Expectation{}) {
		return e
	}
	within := func(all []planner.Time) (expected, low, high planner.Time) {
		spans := make([]time.Duration, len(all))
		for i, t := range all {
			spans[i] = t.Sub(now)
		}
		r := forecast.RangeOf(spans)
		return now.Add(r.Expected), now.Add(r.Low), now.Add(r.High)
	}
	e.Start, e.StartLow, e.StartHigh = within(c.starts)
	e.End, e.Low, e.High = within(c.ends)
	return e
}
