// Package enginetest makes engines for tests: a simulation under a policy whose estimates are the runtimes that traces
// declare. After every batch the invariants of the planner are checked.
package enginetest

import (
	"context"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/plannertest"
	"gantry/planner/policy"
	"gantry/planner/predict"
)

// Policy is the policy that spec names.
func Policy(t testing.TB, spec string) planner.Policy {
	t.Helper()
	pol, err := policy.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return pol
}

// New returns an engine that simulates submissions, by arrival, on a platform. A test may change its fields before Run.
func New(t testing.TB, p *planner.Platform, pol planner.Policy, subs ...executor.Submission) *executor.Engine {
	return With(t, p, pol, &predict.Declared{}, subs...)
}

// Estimator is an estimator that gets the declared runtimes of traces.
type Estimator interface {
	planner.Estimator
	Declare(t planner.TaskID, run time.Duration, on []time.Duration, source planner.Source)
}

// With is New with another estimator.
func With(t testing.TB, p *planner.Platform, pol planner.Policy, est Estimator,
	subs ...executor.Submission) *executor.Engine {
	e := &executor.Engine{
		Planner:  planner.New(p, planner.DefaultRetryRules(), pol, est, 1),
		Runtime:  sim.New(sim.Config{Platform: p}),
		Admit:    &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Declare: est.Declare},
		Arrivals: subs,
	}
	if _, bench := t.(*testing.B); !bench {
		e.Store = &checked{t, e}
	}
	return e
}

// Run runs the engine to its end.
func Run(t testing.TB, e *executor.Engine) executor.Result {
	t.Helper()
	res, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// checked is a store that keeps nothing and checks the planner whose batches it gets.
type checked struct {
	t testing.TB
	e *executor.Engine
}

func (c *checked) Append(_ context.Context, b executor.Batch) error {
	if err := plannertest.Check(c.e.Planner, false); err != nil {
		c.t.Errorf("at %v: %v", c.e.Planner.View().Now(), err)
	}
	return nil
}
