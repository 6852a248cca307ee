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
	of := courses{}
	began := time.Now()
	for k := 0; k <= foretellMost && (k == 0 || time.Since(began) < foretellTime); k++ {
		c, err := by.Simulate(ctx, past, k)
		if err != nil && k > 0 {
			break
		} else if err != nil {
			return all, err
		}
		of.take(c, past)
		if k == 0 {
			all.Unknown = by.Unpredicted(c)
			of.doubt(by, c, past)
		}
	}
	all.Of = map[server.Expected]server.Expectation{}
	for key, c := range of {
		all.Of[key] = c.expectation(past.Now)
	}
	return all, nil
}

// course is when something starts and ends: without noise first, then in the repetitions with noise.
type course struct {
	starts, ends []planner.Time
	begins, over bool // when it begins, or is over, depends on programs of which nothing is known
}

type courses map[server.Expected]*course

func (all courses) of(key server.Expected) *course {
	if all[key] == nil {
		all[key] = &course{}
	}
	return all[key]
}

func (all courses) add(key server.Expected, start, end planner.Time) {
	c := all.of(key)
	c.starts, c.ends = append(c.starts, start), append(c.ends, end)
}

func (all courses) take(c *forecast.Course, past *forecast.Past) {
	for _, w := range c.Workflows {
		key := server.Expected{Workflow: w.Name, Task: planner.None}
		switch {
		case w.Ended == unit.Never: // it is stuck
			all.add(key, 0, 0)
		case w.Started != unit.Never: // it is not refused
			all.add(key, w.Started, w.Ended)
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
			all.add(server.Expected{Task: t}, span[0], span[1])
		}
	}
}

// doubt notes which instants depend on programs of which nothing is known.
func (all courses) doubt(by *session.Prediction, c *forecast.Course, past *forecast.Past) {
	starts, ends := by.Foreseen(c)
	met := map[string]bool{}
	for i := range c.Attempts {
		spec := c.Attempts[i].Task
		flow := all.of(server.Expected{Workflow: spec.Workflow.Name, Task: planner.None})
		flow.begins = !starts[i] && (flow.begins || !met[spec.Workflow.Name])
		flow.over = flow.over || !ends[i]
		met[spec.Workflow.Name] = true
		if t, ok := past.Tasks[spec]; ok {
			task := all.of(server.Expected{Task: t})
			task.begins, task.over = !starts[i], !ends[i]
		}
	}
}

// expectation sums a course up; unit.Never is an instant in doubt.
func (c *course) expectation(now planner.Time) (e server.Expectation) {
	within := func(all []planner.Time, doubt bool) (expected, low, high planner.Time) {
		expected, low, high = all[0], all[0], all[0]
		if len(all) > 2 {
			spans := make([]time.Duration, len(all)-1)
			for i, t := range all[1:] {
				spans[i] = t.Sub(now)
			}
			r := forecast.RangeOf(spans)
			expected, low, high = now.Add(r.Expected), now.Add(r.Low), now.Add(r.High)
		}
		if doubt {
			expected = unit.Never
		}
		return expected, low, high
	}
	if len(c.ends) == 0 || c.ends[0] == 0 { // it cannot start
		return e
	}
	e.Start, e.StartLow, e.StartHigh = within(c.starts, c.begins)
	e.End, e.Low, e.High = within(c.ends, c.over)
	return e
}
