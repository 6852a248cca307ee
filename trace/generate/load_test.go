package generate_test

import (
	"testing"
	"time"

	"gantry/trace"
	"gantry/trace/generate"
)

// load is a stream of workflows to be drawn.
type load struct {
	Workflows int
	Mix       generate.Mix
	Totals    *generate.Distribution // of the total runtimes
	Arrivals  generate.Arrivals
}

// drawn is a load as drawn, its workflows still to be made.
type drawn struct {
	Recipes []generate.Recipe
	Totals  []time.Duration
	Arrive  []time.Duration // after the start, ascending
}

func plan(tb testing.TB, l load, seed uint64) (p drawn) {
	tb.Helper()
	var err error
	p.Recipes, err = l.Mix.Draw(l.Workflows, seed)
	must(tb, err)
	p.Totals = l.Totals.Draw(l.Workflows, seed)
	p.Arrive, err = l.Arrivals(l.Workflows, seed, l.Totals.Mean)
	must(tb, err)
	return p
}

// Workflow makes workflow i.
func (p *drawn) Workflow(tb testing.TB, i int) *trace.Workflow {
	tb.Helper()
	w, err := p.Recipes[i].Make(true)
	must(tb, err)
	must(tb, generate.Rescale(w, p.Totals[i]))
	return w
}
