package generate_test

import (
	"errors"
	"fmt"
	"math"
	"time"

	"gantry/trace"
	"gantry/trace/generate"
)

// load is a stream of workflows to be drawn.
type load struct {
	Workflows int
	Mix       generate.Mix
	Totals    *generate.Distribution // of the total runtimes; nil: as generated
	// MeanTotal scales all workflows by one factor to this mean, where Totals is nil; 0: not.
	MeanTotal time.Duration
	Arrivals  generate.Arrivals // nil: generate.AtOnce
	Bare      bool              // without files
}

// drawn is a load as drawn, its workflows still to be made: a plan of 100,000 workflows takes some megabytes.
type drawn struct {
	Recipes []generate.Recipe
	Totals  []time.Duration // runtimes are scaled to these; nil: as generated
	Arrive  []time.Duration // after the start, ascending
	bare    bool
}

// Plan draws a load. Kinds, sizes, structures, totals and arrivals are drawn independently: another distribution of
// totals, for instance, leaves the rest as it was.
func (l *load) Plan(seed uint64) (*drawn, error) {
	if l.Workflows < 1 {
		return nil, fmt.Errorf("a load of %d workflows; it needs at least one", l.Workflows)
	}
	if l.MeanTotal < 0 || l.MeanTotal > 0 && l.Totals != nil {
		return nil, fmt.Errorf("a mean total runtime of %v: it has to be above 0 and excludes a distribution, which "+
			"has its own", l.MeanTotal)
	}
	recipes, err := l.Mix.Draw(l.Workflows, seed)
	if err != nil {
		return nil, err
	}
	p := &drawn{Recipes: recipes, bare: l.Bare}
	if l.Totals != nil {
		p.Totals = l.Totals.Draw(l.Workflows, seed)
	}
	if l.MeanTotal > 0 {
		generated, mean, err := p.measure()
		if err != nil {
			return nil, err
		}
		if mean <= 0 {
			return nil, errors.New("the workflows have no runtimes that could be scaled to a mean total")
		}
		for i := range generated {
			generated[i] = inSeconds(generated[i].Seconds() * (l.MeanTotal.Seconds() / mean.Seconds()))
		}
		p.Totals = generated
	}
	arrivals := l.Arrivals
	if arrivals == nil {
		arrivals = generate.AtOnce()
	}
	p.Arrive, err = arrivals(l.Workflows, seed, func() (time.Duration, error) {
		switch {
		case l.Totals != nil:
			return l.Totals.Mean, nil
		case l.MeanTotal > 0:
			return l.MeanTotal, nil
		}
		_, mean, err := p.measure()
		return mean, err
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// measure makes every workflow to see the totals that it has as generated.
func (p *drawn) measure() (totals []time.Duration, mean time.Duration, err error) {
	totals = make([]time.Duration, len(p.Recipes))
	sum := 0.0
	for i := range p.Recipes {
		w := p.Recipes[i].Workflow
		if w == nil {
			if w, err = p.Recipes[i].Make(true); err != nil {
				return nil, 0, err
			}
		}
		totals[i] = generate.Total(w)
		sum += totals[i].Seconds()
	}
	return totals, inSeconds(sum / float64(len(totals))), nil
}

// Workflow makes workflow i, which is the caller's to change. It may be called from several goroutines.
func (p *drawn) Workflow(i int) (*trace.Workflow, error) {
	w, err := p.Recipes[i].Make(p.bare)
	if err != nil || p.Totals == nil {
		return w, err
	}
	if p.Totals[i] <= 0 && p.Recipes[i].Workflow != nil { // a file's workflow without runtimes stays so
		return w, nil
	}
	return w, generate.Rescale(w, p.Totals[i])
}

func inSeconds(x float64) time.Duration { return time.Duration(math.Round(x * 1e9)) }
