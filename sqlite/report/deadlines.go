package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gantry/sqlite/results"
)

// swept are the parameters against which loads with deadlines are drawn, one figure for each that takes several values.
// Others that follow a swept one, such as how many workflows are drawn, do not divide figures.
var (
	swept = []string{"workload.arrivals.rate", "workload.releases.after", "workload.deadlines.multiplier", "cluster",
		"errors"}
	follows = []string{"workload.count", "workload.warm_up", "workload.cool_down"}
)

// deadlines draws the proportion of late workflows, their turnaround and the time that mapping one takes (P, T and O of
// Lim et al. 2017) against each parameter that is swept.
func (p *painter) deadlines(cells []*results.Cell) {
	p.sweep(cells, swept, measure{kind: "late", metric: "late_share", title: "Proportion of late workflows",
		axis: "proportion late P"},
		measure{kind: "turnaround", metric: "turnaround_mean", title: "Mean turnaround from the earliest start",
			axis: "mean turnaround T (s)"},
		measure{kind: "mapping", metric: "mapping_mean", title: "Mean time to map a workflow",
			axis: "mean mapping time O (s)"})
}

// sweeps draws, of loads without deadlines, mean slowdown and response against each parameter of the workload that
// takes several values.
func (p *painter) sweeps(cells []*results.Cell) {
	var params []string
	for _, c := range cells {
		for _, param := range slices.Sorted(maps.Keys(c.Params)) {
			if strings.HasPrefix(param, "workload.") && !slices.Contains(follows, param) && !slices.Contains(params,
				param) {
				params = append(params, param)
			}
		}
	}
	p.sweep(cells, params, measure{kind: "mean-slowdown", metric: "slowdown_mean", title: "Mean slowdown",
		axis: "mean slowdown"},
		measure{kind: "mean-response", metric: "response_mean", title: "Mean response",
			axis: "mean response (s)"})
}

// valueOf returns the value of a parameter in a cell; "" where it is not set.
func valueOf(param string) func(*results.Cell) string {
	return func(c *results.Cell) string { return c.Params[param] }
}

// sweep draws measures against each of some parameters, a figure for each combination of the others.
func (p *painter) sweep(cells []*results.Cell, params []string, measures ...measure) {
	for _, param := range params {
		leftOut := func(k string) bool { return isPolicy(k) || k == param || slices.Contains(follows, k) }
		for _, g := range groups(cells, leftOut) {
			for _, m := range measures {
				file := strings.TrimPrefix(param, "workload.") + " " + g.title
				p.draw(g.cells, across{param: param, of: valueOf(param)}, m, g.title, file)
			}
		}
	}
}

// Choice selects the figures that are drawn, in place of all that the results allow.
type Choice struct {
	Metrics []string // nil: the usual ones
	X       string   // parameter on the horizontal axis; "": the first that takes several values, or else the policy
	Against string   // policy that the figures show differences to, repetition by repetition; "": none
	Title   string   // of the figures; "": the metric
}

// UnknownParameterError says that cells have no parameter of a name.
type UnknownParameterError struct {
	Name string
	Have []string
}

func (e *UnknownParameterError) Error() string {
	return fmt.Sprintf("no parameter %q to draw against: there are %s", e.Name, strings.Join(e.Have, ", "))
}

// Chosen draws the selected figures of cells into dir, a figure for each metric and combination of the other
// parameters, and returns the files, whose names begin with name.
func Chosen(name string, cells []*results.Cell, of Choice, dir string) ([]string, error) {
	values := map[string][]string{}
	for _, c := range cells {
		for param, v := range c.Params {
			if !slices.Contains(values[param], v) {
				values[param] = append(values[param], v)
			}
		}
	}
	params, x := slices.Sorted(maps.Keys(values)), of.X
	if x != "" && values[x] == nil {
		return nil, &UnknownParameterError{x, params}
	}
	if x == "" {
		x = "policy"
		if i := slices.IndexFunc(params, func(k string) bool {
			return len(values[k]) > 1 && !isPolicy(k) && !slices.Contains(follows, k)
		}); i >= 0 {
			x = params[i]
		}
	}
	names := of.Metrics
	if names == nil {
		names = usual(knownMetrics(cells))
	}
	p := newPainter(dir, name)
	leftOut := func(k string) bool { return isPolicy(k) || k == x || slices.Contains(follows, k) }
	for _, g := range groups(cells, leftOut) {
		for _, metric := range names {
			m := measure{kind: metric, metric: metric, title: cmp.Or(of.Title, metric), axis: metric,
				against: of.Against}
			if of.Against != "" {
				m.axis += " less that of " + of.Against
				m.title = cmp.Or(of.Title, m.axis+", on the same load")
				m.kind += " less " + of.Against
			}
			p.draw(g.cells, across{param: x, of: valueOf(x), alone: true}, m, g.title, "by "+x+" "+g.title)
		}
	}
	return p.files, p.err
}
