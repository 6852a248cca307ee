package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gantry/executor"
	"gantry/executor/forecast"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/server"
)

// Bounds of the predictions of a server. It simulates what is left of its run when somebody asks.
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
	mu      sync.Mutex
	s       *session      // as it is to be simulated
	running chan struct{} // closed when the prediction that is being made is complete; nil: none is
	made    time.Time     // as of when the last one is
	due     time.Time     // no other one is made before
	read    time.Time     // measurements of programs
	names   map[string]server.Expectation
	note    string
	err     error
}

// expect returns what is expected of all that is present, by the name of the workflow, as of an instant after since if
// that can be had before the end of ctx. The note says why there is nothing, or what was left out.
func (f *foreteller) expect(ctx context.Context, since time.Time) (map[string]server.Expectation, string, error) {
	for {
		f.mu.Lock()
		if f.made.After(since) || ctx.Err() != nil {
			defer f.mu.Unlock()
			return f.names, f.note, f.err
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
	f.mu.Lock()
	with := *f.s
	f.mu.Unlock()
	names, note, err := f.make(context.Background(), &with)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.s.programs = with.programs
	f.made, f.names, f.note, f.err = began, names, note, nil
	if errors.Is(err, executor.ErrClosed) {
		f.err = err
	} else if err != nil {
		f.note = "nothing is predicted: " + err.Error()
	}
	f.due = time.Now().Add(time.Duration(float64(time.Since(began)) / foretellShare))
	f.running = nil
	close(done)
}

// plansBy has another policy plan from now on.
func (f *foreteller) plansBy(policy string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set := *f.s.set
	set.Policy = policy
	f.s.set, f.made = &set, time.Time{}
}

// errTooMany is of runs that are not predicted.
var errTooMany = errors.New("too many tasks wait")

func (f *foreteller) make(ctx context.Context, s *session) (names map[string]server.Expectation, note string,
	err error) {
	var snap *executor.Snapshot
	if err := s.serving.inbox.Ask(ctx, func(in *executor.Intake) error {
		snap = in.Snapshot(foretellTasks)
		return nil
	}); err != nil {
		return nil, "", err
	}
	if snap == nil {
		return nil, "", errTooMany
	}
	if snap.Growing > 0 {
		note = fmt.Sprintf("without %s of workflows that may grow", plural(snap.Growing, "task"))
	}
	if time.Since(f.read) > programsStaleAt && runtimeOf(s.set.Runtime).Programs {
		programs, err := programsOf(ctx, s.db, s.set, "", nil)
		if err != nil {
			return nil, "", err
		}
		s.programs, f.read = programs, time.Now()
	}
	parts, err := s.parts(0)
	if err != nil {
		return nil, "", err
	}
	past, err := forecast.Live(parts, snap, func(w planner.WorkflowID) (*executor.Submission, error) {
		adm, err := s.db.Admission(ctx, s.name, w)
		if err != nil {
			return nil, err
		}
		return &adm.Submission, nil
	})
	if err != nil {
		return nil, "", err
	}
	for i := range past.Arrivals {
		past.Arrivals[i].At = max(past.Arrivals[i].At, past.Now)
	}
	names, err = foretell(ctx, s, past)
	return names, note, err
}

// foretell makes the courses, and takes from them when each workflow starts and ends.
func foretell(ctx context.Context, s *session, past *forecast.Past) (map[string]server.Expectation, error) {
	ctx, cancel := context.WithTimeout(ctx, foretellWhole)
	defer cancel()
	names := map[string]server.Expectation{}
	starts, ends := map[string][]time.Duration{}, map[string][]time.Duration{}
	if len(past.Batches)+len(past.Arrivals) == 0 {
		return names, nil
	}
	began := time.Now()
	for k := 0; k <= foretellMost && (k == 0 || time.Since(began) < foretellTime); k++ {
		course, err := forecast.Simulate(ctx, s.parts, past, k)
		if err != nil && k > 0 {
			break
		} else if err != nil {
			return nil, err
		}
		for _, w := range course.Workflows {
			if w.Started == unit.Never {
				continue
			}
			if k == 0 {
				names[w.Name] = server.Expectation{Start: w.Started, StartLow: w.Started, StartHigh: w.Started,
					End: w.Ended, Low: w.Ended, High: w.Ended}
			} else {
				starts[w.Name] = append(starts[w.Name], w.Started.Sub(past.Now))
				ends[w.Name] = append(ends[w.Name], w.Ended.Sub(past.Now))
			}
		}
	}
	for name, e := range names {
		if len(ends[name]) < 2 {
			continue
		}
		r := forecast.RangeOf(starts[name])
		e.Start, e.StartLow, e.StartHigh = past.Now.Add(r.Expected), past.Now.Add(r.Low), past.Now.Add(r.High)
		r = forecast.RangeOf(ends[name])
		e.End, e.Low, e.High = past.Now.Add(r.Expected), past.Now.Add(r.Low), past.Now.Add(r.High)
		names[name] = e
	}
	return names, nil
}
