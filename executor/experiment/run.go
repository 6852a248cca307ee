package experiment

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"gantry/executor"
	"gantry/executor/estimate"
	"gantry/executor/experiment/load"
	"gantry/executor/experiment/metrics"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/seed"
	"gantry/trace/scenario"
)

// State is how a run ended.
type State string

const (
	Done     State = "done"
	Diverged State = "diverged" // cut off: too many workflows in the system, or too many events
	Failed   State = "failed"   // it could not be run; the message says why
)

// Outcome is the result of a run. Values, Workflows and Series depend on the cell and the repetition alone, where
// planning is neither timed nor charged.
type Outcome struct {
	Cell       *Cell
	Repetition int // from 0
	State      State
	Message    string // why it did not get through
	Values     []metrics.Value
	Workflows  []metrics.Workflow // those that count
	Series     metrics.Steps      // workflows in the system, thinned
	Took       time.Duration      // by the wall clock
}

// SeriesPoints bounds the series that is kept of a run.
const SeriesPoints = 1000

// seedOf is that of everything random in a repetition beside the load: the same for all cells, so that they meet the
// same draws.
func seedOf(x *scenario.Experiment, w *scenario.Workload, repetition int) uint64 {
	return seed.Repetition(max(1, x.Seed, w.Seed), repetition)
}

// simulate runs one repetition of a cell.
func simulate(ctx context.Context, x *scenario.Experiment, c *Cell, repetition int,
	subs []executor.Submission) (*Outcome, error) {
	begun := time.Now()
	out := &Outcome{Cell: c, Repetition: repetition, State: Done}
	s := seedOf(x, c.load.file, repetition)
	window := metrics.Window{Total: len(subs)}
	p, err := c.load.platform(repetition)
	if err != nil {
		return nil, err
	}
	if window.WarmUp, window.CoolDown, err = load.Window(c.load.file, subs, 1); err != nil {
		out.State, out.Message = Failed, err.Error()
		return out, nil
	}
	pol, err := policy.Parse(c.policy)
	if err != nil {
		return nil, err
	}
	if counter, ok := pol.(planner.SearchCounter); ok && x.KeepSearches {
		counter.CountSearches()
	}
	model := c.errors
	model.Seed = s
	admit := &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Preempt: scenario.DefaultPreempt(),
		Tokens: c.load.cluster.Resources}
	est := estimate.Make(c.estimator, c.startup, model, nil, admit).Estimator
	collector := metrics.NewCollector(p)
	if x.KeepLoad {
		collector.DescribeLoad()
	}
	rt := sim.New(sim.Config{Platform: executor.SlowNodes(c.faults, s, p), Startup: c.startup})
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	limit := x.InSystem + atOnce(subs)
	pl := planner.New(p, planner.DefaultRetryRules(), pol, est, s)
	if len(admit.Tokens) > 0 {
		pl.LimitTokens(executor.TokensThere(admit.Tokens))
	}
	e := &executor.Engine{Planner: pl, Runtime: rt, Admit: admit,
		Arrivals: slices.Clone(subs), Faults: executor.NewFaults(c.faults, 1, s, p)}
	collector.Faulty = c.faults != nil
	if x.KeepTiming || c.charge > 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		e.Wall, e.Charge = executor.ThreadTime, c.charge
	}
	e.Watch = func(v planner.View, events []planner.Event, admitted []*executor.Admission) {
		collector.Watch(v, events, admitted)
		switch {
		case collector.Present() > limit:
			out.State, out.Message = Diverged, fmt.Sprintf("more than %d workflows in the system at %v", x.InSystem,
				v.Now())
			cut()
		case collector.Events() > uint64(x.Events):
			out.State, out.Message = Diverged, fmt.Sprintf("more than %d events at %v", x.Events, v.Now())
			cut()
		}
	}
	res, err := e.Run(ctx)
	switch {
	case out.State == Diverged:
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		out.State, out.Message = Failed, err.Error()
	case len(res.Refused) > 0:
		out.State, out.Message = Failed, errors.Join(res.Refused...).Error()
	}
	out.Took = time.Since(begun)
	switch out.State {
	case Failed:
		return out, nil
	case Diverged:
		// Metrics of a run that was cut off say nothing of one that ends, but that it is not stable.
		for _, v := range collector.Run(window) {
			if v.Name == "in_system_max" || v.Name == "events" {
				out.Values = append(out.Values, v)
			}
		}
		out.Values = append(out.Values, metrics.Value{Name: "wieland_stable"}, metrics.Value{Name: "drift_stable"})
	default:
		out.Values = collector.Run(window)
		if x.KeepWorkflows {
			for _, w := range collector.Counted(window) {
				out.Workflows = append(out.Workflows, *w)
			}
		}
	}
	if x.KeepSeries {
		out.Series = collector.InSystem().Thin(SeriesPoints)
	}
	return out, nil
}

// atOnce returns how many workflows arrive together with the first: a batch is large without diverging.
func atOnce(subs []executor.Submission) int {
	n := 0
	for n < len(subs) && subs[n].At == subs[0].At {
		n++
	}
	return n
}

// submissions draws the load of a repetition.
func (w *workload) submissions(repetition int) ([]executor.Submission, error) {
	p, err := w.platform(repetition)
	if err != nil {
		return nil, err
	}
	return load.Submissions(w.file, p, repetition)
}

// platform makes the platform of a repetition.
func (w *workload) platform(repetition int) (*planner.Platform, error) {
	return executor.PlatformOf(w.drawn(repetition))
}

// drawn is the cluster of a repetition.
func (w *workload) drawn(repetition int) *scenario.Cluster {
	return w.cluster.Draw(seedOf(&scenario.Experiment{}, w.file, repetition))
}

// check draws a little of the load, enough to show its faults.
func (w *workload) check() error {
	p, err := w.platform(0)
	if err != nil {
		return err
	}
	l := &load.Loader{Platform: p, Count: 1}
	subs, err := l.Workload(w.file, 0)
	for i := 0; i < len(subs) && err == nil; i++ {
		err = subs[i].Make()
	}
	return err
}
