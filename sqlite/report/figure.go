package report

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gantry/executor/experiment"
	"gantry/executor/experiment/metrics"
	"gantry/sqlite/report/results"
)

// painter draws figures until one has failed.
type painter struct {
	dir, name string
	files     []string
	taken     map[string]bool
	err       error
}

func newPainter(dir, name string) *painter {
	return &painter{dir: dir, name: name, taken: map[string]bool{}, err: os.MkdirAll(dir, 0o755)}
}

// Figures draws all that the results of an experiment allow into dir, each as SVG, PNG and PDF with its data as CSV,
// and returns the files: box plots of slowdown, its standard deviation and the time that batches take against the
// error model, slowdown against utilisation and against size, the number in system over time, and the
// metrics that depend on other parameters.
func Figures(set *results.Set, dir string) ([]string, error) {
	p, cells := newPainter(dir, set.Name), set.Cells
	for _, g := range groups(cells, func(k string) bool { return isPolicy(k) || k == "errors" }) {
		p.draw(g, byErrors, g.title, measure{kind: "slowdown", boxes: true, axis: "slowdown",
			title: "Slowdown" + boxWords}, measure{kind: "deviation", metric: "slowdown_sd",
			title: "Standard deviation of slowdown", axis: "standard deviation of slowdown"})
		p.spans(g)
		p.scatter(g, set)
	}
	for _, g := range groups(cells, isPolicy) {
		p.inSystem(g, set)
	}
	p.sweep(cells, []string{"utilisation"}, measure{metric: "slowdown_mean", title: "Mean slowdown",
		axis: "mean slowdown"})
	if slices.ContainsFunc(cells, func(c *results.Cell) bool { return len(c.Sample("late_share")) > 0 }) {
		// P, T and O of Lim et al. 2017
		p.sweep(cells, swept, measure{kind: "late", metric: "late_share", title: "Proportion of late workflows",
			axis: "proportion late P"},
			measure{kind: "turnaround", metric: "turnaround_mean", title: "Mean turnaround from the earliest start",
				axis: "mean turnaround T (s)"},
			measure{kind: "mapping", metric: "mapping_mean", title: "Mean time to map a workflow",
				axis: "mean mapping time O (s)"})
	} else {
		p.sweep(cells, ofWorkload(cells), measure{kind: "mean-slowdown", metric: "slowdown_mean",
			title: "Mean slowdown", axis: "mean slowdown"},
			measure{kind: "mean-response", metric: "response_mean", title: "Mean response",
				axis: "mean response (s)"})
	}
	return p.files, p.err
}

// boxWords explains a box in a title. Each number is the mean over repetitions.
const boxWords = " (box: quartiles, whiskers: 5 % to 95 %, dot: mean)"

// formats are those of a figure: for pages, for slides and for print.
var formats = []string{"svg", "png", "pdf"}

// chart draws a chart that has values.
func (p *painter) chart(c *Chart, kind, title string) {
	if c.Empty() || p.err != nil {
		return
	}
	f, err := c.figure()
	if err != nil {
		p.err = fmt.Errorf("figure %s: %w", kind, err)
		return
	}
	p.save(f, c.CSV(), kind, title)
}

func (p *painter) save(f *figure, data []byte, kind, title string) {
	base := slug(p.name + " " + kind + " " + title)
	for n := 2; p.taken[base]; n++ {
		base = fmt.Sprintf("%s-%d", slug(p.name+" "+kind+" "+title), n)
	}
	p.taken[base] = true
	for _, format := range append(formats, "csv") {
		path := filepath.Join(p.dir, base+"."+format)
		switch {
		case p.err != nil:
			return
		case format == "csv":
			p.err = os.WriteFile(path, data, 0o644)
		default:
			p.err = f.draw(path, format)
		}
		if p.err != nil {
			p.err = fmt.Errorf("figure %s: %w", path, p.err)
		}
		p.files = append(p.files, path)
	}
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9._]+`)

func slug(s string) string {
	s = strings.Trim(notInNames.ReplaceAllString(s, "-"), "-.")
	return s[:min(len(s), 150)]
}

func titled(title, of string) string { return strings.TrimSuffix(title+"\n"+of, "\n") }

// policies returns the names of the policies of cells, in order of appearance.
func policies(cells []*results.Cell) []string {
	var out []string
	for _, c := range cells {
		if n := policyOf(c); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// measure is a metric to be drawn, with the words for it.
type measure struct {
	kind, metric, title, axis string  // kind: in names of files
	boxes                     bool    // of its percentiles
	against                   string  // values are differences to this policy on the same load; "": to none
	unit                      float64 // of values; 0 is 1
}

// points is the measure of each cell; of a policy that the others are compared with there is none.
func (m *measure) points(cells []*results.Cell) map[*results.Cell]ChartPoint {
	points, unit := map[*results.Cell]ChartPoint{}, cmp.Or(m.unit, 1)
	for _, g := range groups(cells, isPolicy) {
		var base *results.Cell
		if m.against != "" {
			if base = ofPolicy(g.cells, m.against); base == nil {
				continue
			}
		}
		for _, c := range g.cells {
			of := func(metric string) float64 { return metrics.Confidence(c.Sample(metric)).Mean }
			i := interval(c, base, m.metric)
			i.Mean, i.Half = i.Mean/unit, i.Half/unit
			switch {
			case m.boxes && len(c.Sample("slowdown_median")) > 0:
				points[c] = ChartPoint{Box: &Box{of("slowdown_p5"), of("slowdown_p25"), of("slowdown_median"),
					of("slowdown_p75"), of("slowdown_p95"), of("slowdown_mean")}}
			case !m.boxes && c != base && i.N > 0:
				points[c] = ChartPoint{Value: i}
			}
		}
	}
	return points
}

// across is a parameter that figures are drawn against.
type across struct {
	param string
	of    func(*results.Cell) string // its value in a cell; "": none
	alone bool                       // a measure that has one value of the parameter only is drawn by policy
}

// byErrors draws against the error model, or by policy alone if there is one model.
var byErrors = across{"errors", errorsOf, true}

// draw draws measures of cells against a parameter, a series for each policy.
func (p *painter) draw(g group, by across, file string, measures ...measure) {
	for _, m := range measures {
		p.measure(g.cells, by, m, g.title, file)
	}
}

// measure draws a measure. Where all values of the parameter are numbers, these stand at their places; names stand side
// by side, in order of appearance.
func (p *painter) measure(cells []*results.Cell, by across, m measure, title, file string) {
	points := m.points(cells)
	panel := Panel{XLabel: by.param, YLabel: m.axis, Numbers: true}
	for _, c := range cells {
		_, has := points[c]
		if v := by.of(c); v != "" && has && !slices.Contains(panel.Categories, v) {
			_, err := strconv.ParseFloat(v, 64)
			panel.Categories, panel.Numbers = append(panel.Categories, v), panel.Numbers && err == nil
		}
	}
	names := policies(cells)
	switch {
	case by.param == "policy" || by.alone && len(panel.Categories) == 1:
		panel.XLabel, by.of, panel.Categories, panel.Numbers = "policy", policyOf, names, false
	case len(panel.Categories) < 2:
		return
	case panel.Numbers:
		slices.SortFunc(panel.Categories, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	}
	for _, name := range names {
		s := Series{Name: name}
		for at, place := range panel.Categories {
			for _, c := range cells {
				if x, has := points[c]; has && policyOf(c) == name && by.of(c) == place {
					x.Category = at
					s.Points = append(s.Points, x)
				}
			}
		}
		if len(s.Points) > 0 {
			panel.Series = append(panel.Series, s)
		}
	}
	chart := &Chart{Title: titled(m.title+" (bars: 95 % intervals)", title), Kind: "lines", Panels: []Panel{panel}}
	if m.boxes {
		chart.Title, chart.Kind = titled(m.title, title), "boxes"
	}
	p.chart(chart, m.kind, file)
}

func errorsOf(c *results.Cell) string { return cmp.Or(c.Params["errors"], "none") }

func (p *painter) spans(g group) {
	longest := 0.0
	for _, c := range g.cells {
		all := c.Sample("workflows")
		for i, most := range c.Sample("in_system_max") {
			if i >= len(all) || most < 2 || most != all[i] {
				return // not all arrive at once, or not all count
			}
		}
		for _, s := range c.Sample("span") {
			longest = max(longest, s)
		}
	}
	unit, seconds := timeUnit(longest)
	p.draw(g, byErrors, g.title, measure{kind: "span", metric: "span", title: "Time that the whole batch takes",
		axis: "time from the arrival to the last end (" + unit + ")", unit: seconds})
}

// scatter draws slowdown against size, a panel per policy, under the first error model.
func (p *painter) scatter(g group, set *results.Set) {
	chart := &Chart{Kind: "scatter"}
	for _, name := range policies(g.cells) {
		c := ofPolicy(g.cells, name)
		if points := set.Dots[c.ID]; len(points) > 0 {
			chart.Title = titled("Slowdown against size, errors: "+errorsOf(c), g.title)
			chart.Panels = append(chart.Panels, sizes(name, points))
		}
	}
	p.chart(chart, "size", g.title)
}

// sizes is a panel of slowdown against size, of one policy or run.
func sizes(name string, points []results.Point) Panel {
	return Panel{Title: name, XLabel: "tasks", YLabel: "slowdown", Series: []Series{{Dots: points}}}
}

// overTime is a chart of numbers that change over time, as seconds and values by name.
func overTime(title, axis string, series ...Series) *Chart {
	longest := 0.0
	for _, s := range series {
		if n := len(s.Points); n > 1 {
			longest = max(longest, s.Points[n-1].X)
		}
	}
	series = slices.DeleteFunc(series, func(s Series) bool { return len(s.Points) < 2 || longest == 0 })
	unit, seconds := timeUnit(longest)
	for _, s := range series {
		for k := range s.Points {
			s.Points[k].X /= seconds
		}
	}
	return &Chart{Title: title, Kind: "steps", Panels: []Panel{{XLabel: "time since the beginning (" + unit + ")",
		YLabel: axis, Series: series}}}
}

// system is the number of workflows in the system.
func system(name string, steps metrics.Steps) Series {
	s := Series{Name: name}
	for _, x := range steps {
		s.Points = append(s.Points, ChartPoint{X: x.At.Seconds(), Value: Interval{Mean: float64(x.N)}})
	}
	return s
}

// inSystem draws the number of workflows in the system over time in the first repetition, a line per policy.
func (p *painter) inSystem(g group, set *results.Set) {
	var all []Series
	for _, name := range policies(g.cells) {
		c := ofPolicy(g.cells, name)
		if len(c.Runs) > 0 && c.Runs[0].Repetition == 0 && c.Runs[0].State == experiment.Diverged {
			name += " (cut off)"
		}
		all = append(all, system(name, set.Series[c.ID]))
	}
	p.chart(overTime(titled("Workflows in the system over time, first repetition", g.title),
		"workflows in the system", all...), "in-system", g.title)
}

// timeUnit is a unit for an axis of that many seconds.
func timeUnit(longest float64) (name string, seconds float64) {
	switch {
	case longest >= 3*3600:
		return "hours", 3600
	case longest >= 5*60:
		return "minutes", 60
	}
	return "seconds", 1
}

// Figure is a run of the log to be drawn.
type Figure struct {
	Run, Policy string
	Workflows   []results.Point // those that count
	InSystem    metrics.Steps
	Shares      []metrics.Shares // of several tenants
	Timeline    *Timeline
}

// RunFigures draws runs into dir, each figure as Figures does, and returns the files: the timelines of all runs, the
// utilisation of each, a box of slowdowns for each, slowdown against size, the number of workflows in the system over
// time, and the dominant share of each tenant.
func RunFigures(runs []Figure, dir string) ([]string, error) {
	var names []string
	var over []Series
	var timelines []*Timeline
	scatter := &Chart{Title: "Slowdown against size", Kind: "scatter"}
	boxes := Panel{XLabel: "run", YLabel: "slowdown"}
	for _, r := range runs {
		names = append(names, r.Run)
		name := fmt.Sprintf("%s (%s)", r.Run, r.Policy)
		if len(r.Workflows) > 0 {
			scatter.Panels = append(scatter.Panels, sizes(name, r.Workflows))
			s := metrics.Summarise(slowdowns(r.Workflows))
			point := ChartPoint{Category: len(boxes.Categories), Box: &Box{s.P5, s.P25, s.Median, s.P75, s.P95, s.Mean}}
			boxes.Series = append(boxes.Series, Series{Name: name, Points: []ChartPoint{point}})
			boxes.Categories = append(boxes.Categories, name)
		}
		over = append(over, system(name, r.InSystem))
		timelines = append(timelines, r.Timeline)
	}
	p := newPainter(dir, strings.Join(names[:min(len(names), 4)], " "))
	p.timelines(timelines)
	p.chart(scatter, "size", "")
	p.chart(&Chart{Title: "Slowdown" + boxWords, Kind: "boxes", Panels: []Panel{boxes}}, "slowdown", "")
	p.chart(overTime("Workflows in the system over time", "workflows in the system", over...), "in-system", "")
	for _, r := range runs {
		p.name = r.Run
		p.utilisation(r.Timeline)
		p.shares(r)
	}
	return p.files, p.err
}

// shares draws the dominant share of each tenant of a run over time.
func (p *painter) shares(r Figure) {
	var all []Series
	for _, of := range r.Shares {
		s := Series{Name: of.Tenant}
		for _, x := range of.Points {
			s.Points = append(s.Points, ChartPoint{X: x.At.Seconds(), Value: Interval{Mean: x.Share}})
		}
		all = append(all, s)
	}
	p.chart(overTime("Dominant shares of tenants, "+r.Run, "dominant share", all...), "shares", "")
}

// swept are the parameters against which loads with deadlines are drawn, one figure for each that takes several values.
// Others that follow a swept one, such as how many workflows are drawn, do not divide figures.
var (
	swept = []string{"workload.arrivals.rate", "workload.releases.after", "workload.deadlines.multiplier", "cluster",
		"errors"}
	follows = []string{"workload.count", "workload.warm_up", "workload.cool_down"}
)

// ofWorkload are the parameters of the workload that loads without deadlines are drawn against.
func ofWorkload(cells []*results.Cell) (params []string) {
	for _, c := range cells {
		for _, param := range slices.Sorted(maps.Keys(c.Params)) {
			if strings.HasPrefix(param, "workload.") && !slices.Contains(follows, param) && !slices.Contains(params,
				param) {
				params = append(params, param)
			}
		}
	}
	return params
}

// valueOf returns the value of a parameter in a cell; "" where it is not set.
func valueOf(param string) func(*results.Cell) string {
	return func(c *results.Cell) string { return c.Params[param] }
}

// sweep draws measures against each of some parameters.
func (p *painter) sweep(cells []*results.Cell, params []string, measures ...measure) {
	for _, param := range params {
		p.against(cells, across{param: param, of: valueOf(param)}, strings.TrimPrefix(param, "workload."), measures)
	}
}

// against draws measures against a parameter, a figure for each combination of the others.
func (p *painter) against(cells []*results.Cell, by across, file string, measures []measure) {
	leftOut := func(k string) bool { return isPolicy(k) || k == by.param || slices.Contains(follows, k) }
	for _, g := range groups(cells, leftOut) {
		p.draw(g, by, file+" "+g.title, measures...)
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
		names = usual(KnownMetrics(cells))
	}
	var measures []measure
	for _, metric := range names {
		m := measure{kind: metric, metric: metric, title: cmp.Or(of.Title, metric), axis: metric, against: of.Against}
		if of.Against != "" {
			m.axis += " less that of " + of.Against
			m.title = cmp.Or(of.Title, m.axis+", on the same load")
			m.kind += " less " + of.Against
		}
		measures = append(measures, m)
	}
	p := newPainter(dir, name)
	p.against(cells, across{param: x, of: valueOf(x), alone: true}, "by "+x, measures)
	return p.files, p.err
}
