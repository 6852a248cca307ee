package report

import (
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/plot"

	"gantry/sqlite/results"
)

// swept are the parameters against which loads with deadlines are drawn, one figure for each that takes several values.
// Others that follow a swept one, such as how many workflows are drawn, do not divide figures.
var (
	swept = []string{"workload.arrivals.rate", "workload.releases.after", "workload.deadlines.multiplier", "cluster",
		"errors"}
	follows = []string{"workload.count", "workload.warm_up", "workload.cool_down"}
)

// measure is a metric to be drawn against parameters.
type measure struct{ kind, metric, title, axis string }

// deadlines draws the proportion of late workflows, their turnaround and the time that mapping one takes (P, T and O of
// Lim et al. 2017) against each parameter that is swept.
func (p *painter) deadlines(cells []*results.Cell) error {
	return p.sweep(cells, swept, measure{"late", "late_share", "Proportion of late workflows", "proportion late P"},
		measure{"turnaround", "turnaround_mean", "Mean turnaround from the earliest start", "mean turnaround T (s)"},
		measure{"mapping", "mapping_mean", "Mean time to map a workflow", "mean mapping time O (s)"})
}

// sweeps draws, of loads without deadlines, mean slowdown and response against each parameter of the workload that
// takes several values.
func (p *painter) sweeps(cells []*results.Cell) error {
	var params []string
	for _, c := range cells {
		for _, param := range slices.Sorted(maps.Keys(c.Params)) {
			if strings.HasPrefix(param, "workload.") && !slices.Contains(follows, param) && !slices.Contains(params,
				param) {
				params = append(params, param)
			}
		}
	}
	return p.sweep(cells, params, measure{"mean-slowdown", "slowdown_mean", "Mean slowdown", "mean slowdown"},
		measure{"mean-response", "response_mean", "Mean response", "mean response (s)"})
}

// sweep draws measures against each of some parameters, a figure for each combination of the others.
func (p *painter) sweep(cells []*results.Cell, params []string, measures ...measure) error {
	for _, param := range params {
		leftOut := func(k string) bool { return isPolicy(k) || k == param || slices.Contains(follows, k) }
		for _, g := range groups(cells, leftOut) {
			for _, m := range measures {
				if err := p.against(g, param, m.kind, m.metric, titled(m.title+" (bars: 95 % intervals)", g.title),
					m.axis); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// against draws a metric of a group against the values of a parameter, in order of appearance.
func (p *painter) against(g group, param, kind, metric, title, label string) error {
	var ticks []plot.Tick
	at := map[string]float64{}
	for _, c := range g.cells {
		v, has := c.Params[param]
		if _, seen := at[v]; has && !seen && len(c.Sample(metric)) > 0 {
			at[v] = float64(len(ticks))
			ticks = append(ticks, plot.Tick{Value: at[v], Label: v})
		}
	}
	if len(ticks) < 2 {
		return nil
	}
	f, pl := single(title, param, label)
	pl.X.Tick.Marker = plot.ConstantTicks(ticks)
	f.slant(pl, ticks)
	names := policies(g.cells)
	for i, name := range names {
		var points withIntervals
		beside := 0.05 * (float64(i) - float64(len(names)-1)/2) // bars do not hide each other
		for _, c := range g.cells {
			if x, ok := at[c.Params[param]]; ok && policyOf(c) == name {
				points.put(x+beside, interval(c, nil, metric))
			}
		}
		if len(points.XYs) == 0 {
			continue
		}
		if err := f.curve(i, name, points); err != nil {
			return err
		}
	}
	pl.X.Min, pl.X.Max = -0.4, float64(len(ticks))-0.6
	fromZero(&pl.Y)
	return p.save(f, kind, strings.TrimPrefix(param, "workload.")+" "+g.title)
}
