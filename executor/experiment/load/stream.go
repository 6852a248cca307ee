package load

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/seed"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/generate"
	"gantry/trace/scenario"
)

// Random choices beyond those of package generate have streams of their own, so that changing one leaves the others as
// they were.
const (
	tenantStream = 101 + iota
	classStream
	deadlineStream
	releaseStream
)

// part is a source of the mix, ready to be drawn from.
type part struct {
	*scenario.StreamSource
	source generate.Source
	inputs string
	cores  float64 // work over total runtime, of one of its workflows: 1 where every task has one core
}

// stream draws the arrivals and the recipes of the workflows of a stream, but the workflows only where a deadline
// depends on them.
func (l *Loader) stream(w *scenario.Workload, repetition int) ([]executor.Submission, error) {
	s := w.Stream
	fail := func(err error) ([]executor.Submission, error) {
		return nil, at(w, s.Line, err)
	}
	parts, err := l.parts(w)
	if err != nil {
		return nil, err
	}
	seed := streamSeed(w, repetition)
	mix := generate.Mix{Sizes: s.Sizes}
	for i := range parts {
		mix.Sources = append(mix.Sources, parts[i].source)
	}
	recipes, err := mix.Draw(s.Count, seed)
	if err != nil {
		return fail(err)
	}
	totals, mean, err := totals(s, parts, recipes, seed)
	if err != nil {
		return fail(err)
	}
	arrive, err := arrivals(&s.Arrivals, l.Platform)(s.Count, seed, mean)
	if err != nil {
		return fail(err)
	}
	count := s.Count
	if l.Count > 0 { // no later one can be among the first
		count, l.More = min(count, l.Count), l.More || l.Count < count
	}
	tenant, class, due := chooser(s.Tenants, seed, tenantStream), chooser(s.Classes, seed, classStream),
		rand.New(rand.NewPCG(seed, deadlineStream))
	held := rand.New(rand.NewPCG(seed, releaseStream))
	d := &drawn{l, w, parts, recipes, totals}
	means, err := d.criticalPaths()
	if err != nil {
		return fail(err)
	}
	digits := len(fmt.Sprint(s.Count))
	subs, listed := make([]executor.Submission, count), w.Listed()
	for i := range subs {
		p := &parts[recipes[i].Source]
		subs[i] = executor.Submission{At: planner.Time(arrive[i]),
			Draw: func(sub *executor.Submission) error { return d.make(sub, i) }, Tenant: tenant(),
			Inputs: p.inputs, Data: placement(p.Data, w, repetition, listed+i), Population: s.Arrivals.Population,
			Name: fmt.Sprintf("%s-%0*d", strings.ToLower(recipes[i].Label()), digits, i+1)}
		subs[i].Release = release(s.Release, subs[i].At, held.Float64(), held.Float64())
		u := due.Float64()
		subs[i].Class = planner.Regular
		c := cmp.Or(p.Class, class()) // which is drawn in any case
		switch {
		case c == "low":
			subs[i].Class = planner.Low
		case s.Deadline != nil && (c == "deadline" || c == ""):
			subs[i].Class = planner.Deadline
			start := max(subs[i].At, subs[i].Release)
			var sample executor.Submission
			if err := d.make(&sample, i); err != nil {
				return nil, err
			}
			subs[i].Due, err = l.deadline(s.Deadline, sample.Workflow, start, means[recipes[i].Source], u)
			if err != nil {
				return nil, at(w, p.Line, err)
			}
		}
	}
	return subs, nil
}

// drawn is a stream whose workflows can be made one by one.
type drawn struct {
	*Loader
	*scenario.Workload
	parts   []part
	recipes []generate.Recipe
	totals  []time.Duration // total runtimes; nil: as generated
}

func (d *drawn) make(sub *executor.Submission, i int) error {
	p := &d.parts[d.recipes[i].Source]
	wf, err := d.workflow(i, !d.Stream.Files)
	if err != nil {
		return at(d.Workload, p.Line, err)
	}
	if p.Generator != "" {
		trace.Impute(wf, trace.Defaults{})
	}
	if m, ok := d.recipes[i].Params.(*generate.Mixed); ok {
		sub.Costs = d.mixedCosts(m, wf, d.recipes[i].Seed)
	}
	sub.Workflow = wf
	return nil
}

// workflow makes workflow i, which has its total runtime, with files unless it is bare.
func (d *drawn) workflow(i int, bare bool) (*trace.Workflow, error) {
	wf, err := d.recipes[i].Make(bare)
	if err == nil && d.totals != nil && d.totals[i] > 0 {
		err = generate.Rescale(wf, d.totals[i])
	}
	return wf, err
}

// criticalPaths returns the mean critical path of each part of the mix, of its first workflows, where the rule for
// deadlines asks for it.
func (d *drawn) criticalPaths() ([]time.Duration, error) {
	const first = 200
	means, drawn := make([]time.Duration, len(d.parts)), make([]time.Duration, len(d.parts))
	if rule := d.Stream.Deadline; rule == nil || rule.Normal == 0 {
		return means, nil
	}
	for i := range d.recipes {
		p := d.recipes[i].Source
		if drawn[p] == first {
			continue
		}
		w, err := d.workflow(i, true)
		if err != nil {
			return nil, err
		}
		drawn[p]++
		means[p] += time.Duration(w.Stats().CriticalPathSeconds * 1e9)
	}
	for p := range means {
		means[p] /= max(1, drawn[p])
	}
	return means, nil
}

// mixedCosts draws the costs of mixed-parallel tasks on each node, as they are at the speed of the node.
func (l *Loader) mixedCosts(m *generate.Mixed, w *trace.Workflow, seed uint64) [][]int64 {
	if l.Platform == nil {
		return nil
	}
	costs := m.MixedCosts(w, len(l.Platform.Nodes), seed)
	for i := range costs {
		for n := range costs[i] {
			if costs[i][n] > 0 {
				costs[i][n] = max(1, int64(unit.AtSpeed(time.Duration(costs[i][n]), l.Platform.Nodes[n].Speed)))
			}
		}
	}
	return costs
}

// streamSeed is the seed of one repetition.
func streamSeed(w *scenario.Workload, repetition int) uint64 {
	return seed.Repetition(max(1, w.Seed), repetition)
}

// parts resolves the sources of the mix: traces are read, and a directory of them shares the fraction.
func (l *Loader) parts(w *scenario.Workload) (parts []part, err error) {
	s := w.Stream
	for i := range s.Mix {
		src := &s.Mix[i]
		fail := func(err error) ([]part, error) { return nil, at(w, src.Line, err) }
		if src.Generator != "" {
			p := part{StreamSource: src, cores: 1, source: generate.Source{Fraction: src.Fraction,
				Kind: src.Generator, Choices: src.Choices, Sizes: src.Sizes}}
			// A source that makes no workflow is reported with its line.
			alone := generate.Mix{Sizes: s.Sizes, Sources: []generate.Source{p.source}}
			alone.Sources[0].Fraction = 1
			sample, err := alone.Draw(1, 1)
			if err != nil {
				return fail(err)
			}
			if wf, err := sample[0].Make(true); err == nil && generate.Total(wf) > 0 {
				p.cores = Work(wf).Seconds() / generate.Total(wf).Seconds()
			}
			parts = append(parts, p)
			continue
		}
		files, _, err := trace.Find([]string{src.Trace})
		if err != nil {
			return fail(err)
		}
		inputs, err := l.inputs(src.Inputs)
		if err != nil {
			return fail(err)
		}
		for _, f := range files {
			wf, err := l.trace(origin{f, src.Image, src.Disk, ""})
			if err != nil {
				return fail(err)
			}
			p := part{StreamSource: src, inputs: inputs, cores: 1,
				source: generate.Source{Fraction: src.Fraction / float64(len(files)), Workflow: wf}}
			if total := generate.Total(wf); total > 0 {
				p.cores = Work(wf).Seconds() / total.Seconds()
			}
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// totals draws the total runtimes, nil if they are as generated, and returns the mean work of a workflow, by which a
// utilisation is imposed. The mean is that of the distribution where there is one, and else, or where the load is to be
// exact, that of this very stream.
func totals(s *scenario.Stream, parts []part, recipes []generate.Recipe, seed uint64) (all []time.Duration,
	mean time.Duration, err error) {
	if s.Total.Distribution != "as-generated" {
		d := distribution(&s.Total)
		all, share, sum := d.Draw(len(recipes), seed), 0.0, 0.0
		if s.Arrivals.Exact {
			for i, total := range all {
				sum += total.Seconds() * parts[recipes[i].Source].cores
			}
			return all, time.Duration(sum / float64(len(all)) * 1e9), nil
		}
		for i := range parts {
			share += parts[i].cores * parts[i].source.Fraction
			sum += parts[i].source.Fraction
		}
		return all, time.Duration(float64(d.Mean) * share / sum), nil
	}
	scaled := s.Total.Mean > 0
	if !scaled && s.Arrivals.Utilisation == 0 {
		return nil, 0, nil
	}
	all = make([]time.Duration, len(recipes))
	total, work := 0.0, 0.0
	for i := range recipes {
		wf := recipes[i].Workflow
		if wf == nil {
			if wf, err = recipes[i].Make(true); err != nil {
				return nil, 0, err
			}
		}
		all[i] = generate.Total(wf)
		total += all[i].Seconds()
		work += all[i].Seconds() * parts[recipes[i].Source].cores
	}
	n := float64(len(recipes))
	if !scaled {
		return nil, time.Duration(work / n * 1e9), nil
	}
	if total == 0 {
		return nil, 0, errors.New("total_runtime: the workflows have no runtimes that could be scaled to a mean")
	}
	factor := s.Total.Mean.Seconds() / (total / n)
	for i := range all {
		all[i] = time.Duration(float64(all[i])*factor + 0.5)
	}
	return all, time.Duration(work / n * factor * 1e9), nil
}

func distribution(t *scenario.TotalRuntime) *generate.Distribution {
	switch t.Distribution {
	case "lognormal":
		return generate.Lognormal(t.Mean, t.Variation)
	case "constant":
		return generate.Constant(t.Mean)
	}
	stages := []generate.Gamma{{Weight: 0.7, Shape: 5, Scale: 501.266}, {Weight: 0.3, Shape: 45, Scale: 136.709}}
	if len(t.Stages) > 0 {
		stages = slices.Clone(t.Stages)
	}
	d := generate.HyperGamma(stages...)
	if t.Mean == 0 {
		return d
	}
	// The shape of the distribution stays; its scale brings the mean.
	for i := range stages {
		stages[i].Scale *= t.Mean.Seconds() / d.Mean.Seconds()
	}
	d = generate.HyperGamma(stages...)
	d.Mean = t.Mean
	return d
}

func arrivals(a *scenario.ArrivalProcess, p *planner.Platform) generate.Arrivals {
	switch a.Process {
	case "poisson":
		if a.Utilisation > 0 {
			return generate.Utilised(a.Utilisation, Speeds(p), a.Exact)
		}
		if a.Interval > 0 {
			return generate.Poisson(1/a.Interval.Hours(), a.Exact)
		}
		return generate.Poisson(a.PerHour, a.Exact)
	case "poisson-intervals":
		return generate.PoissonIntervals(a.Interval)
	case "fixed":
		return generate.Every(a.Interval)
	case "trace":
		return generate.Recorded(a.Times)
	}
	return generate.AtOnce()
}

// chooser draws names by their shares; "" where there are none.
func chooser(shares []scenario.Share, seed, stream uint64) func() string {
	r, total := rand.New(rand.NewPCG(seed, stream)), 0.0
	for _, s := range shares {
		total += s.Fraction
	}
	return func() string {
		u, last := r.Float64()*total, ""
		for _, s := range shares {
			if s.Fraction == 0 {
				continue
			}
			if last = s.Name; u < s.Fraction {
				break
			}
			u -= s.Fraction
		}
		return last
	}
}

// release is the earliest start of a workflow that arrives at the given instant; 0 if that is its arrival.
func release(r *scenario.ReleaseRule, at planner.Time, chance, u float64) planner.Time {
	if r == nil || chance >= r.Probability {
		return 0
	}
	step := time.Duration(1)
	if (r.After[0]|r.After[1]) != 0 && r.After[0]%time.Second == 0 && r.After[1]%time.Second == 0 {
		step = time.Second
	}
	steps := float64((r.After[1]-r.After[0])/step + 1)
	return at.Add(r.After[0] + step*time.Duration(u*steps))
}

// deadline is that of a workflow that may start at the given instant, u of the way from the low to the high end of the
// rule.
func (l *Loader) deadline(d *scenario.DeadlineRule, w *trace.Workflow, start planner.Time, mean time.Duration,
	u float64) (planner.Time, error) {
	between := func(ends [2]float64) float64 { return ends[0] + u*(ends[1]-ends[0]) }
	switch {
	case d.After[1] > 0:
		return start.Add(d.After[0] + time.Duration(u*float64(d.After[1]-d.After[0]))), nil
	case d.Normal > 0:
		low, high := distuv.UnitNormal.CDF(-3), distuv.UnitNormal.CDF(3)
		x := d.Normal + distuv.UnitNormal.Quantile(low+u*(high-low))/3
		return start.Add(max(1, time.Duration(x*float64(mean)))), nil
	case d.Factor[1] > 0:
		return start.Add(max(1, time.Duration(between(d.Factor)*w.Stats().CriticalPathSeconds*1e9))), nil
	}
	alone, err := Alone(w, l.Platform)
	if err != nil {
		return 0, err
	}
	due := start.Add(max(1, time.Duration(between(d.Multiplier)*float64(alone))))
	if part := due % planner.Time(time.Second); part > 0 {
		due = due.Add(time.Second - time.Duration(part))
	}
	return due, nil
}
