package report

import (
	"cmp"
	"context"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"gantry/executor/experiment"
	"gantry/executor/experiment/metrics"
	"gantry/sqlite/results"
)

// maxPoints bounds the dots of a scatter plot, so that files stay small and open quickly.
const maxPoints = 5000

// Source has the results of an experiment.
type Source interface {
	About(ctx context.Context) (results.Info, error)
	Cells(ctx context.Context) ([]*results.Cell, error)
	Slowdowns(ctx context.Context, cell int64) ([]results.Point, error)
	Series(ctx context.Context, cell int64, repetition int) (metrics.Steps, error)
}

// painter draws the figures of an experiment.
type painter struct {
	ctx   context.Context
	db    Source
	dir   string
	name  string
	files []string
	taken map[string]bool
}

// Figures draws all that the results allow into dir, each as SVG, PNG and PDF with its data as CSV, and returns the
// files: box plots of slowdown and its standard deviation against the factor of each error model, the time that batches
// take, slowdown against utilisation and against size, the number in system over time, and the metrics that depend
// on other parameters.
func Figures(ctx context.Context, db Source, dir string) ([]string, error) {
	cells, err := db.Cells(ctx)
	if err != nil {
		return nil, err
	}
	about, err := db.About(ctx)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	p := &painter{ctx: ctx, db: db, dir: dir, name: about.Name, taken: map[string]bool{}}
	for _, g := range groups(cells, func(k string) bool { return isPolicy(k) || k == "errors" }) {
		if err := p.boxes(g); err != nil {
			return p.files, err
		}
		if err := p.byFactor(g, measure{kind: "deviation", metric: "slowdown_sd",
			title: "Standard deviation of slowdown", axis: "standard deviation of slowdown"}); err != nil {
			return p.files, err
		}
		if err := p.spans(g); err != nil {
			return p.files, err
		}
		if err := p.scatter(g); err != nil {
			return p.files, err
		}
	}
	for _, g := range groups(cells, isPolicy) {
		if err := p.inSystem(g); err != nil {
			return p.files, err
		}
	}
	if err := p.sweep(cells, []string{"utilisation"}, measure{metric: "slowdown_mean",
		title: "Mean slowdown", axis: "mean slowdown"}); err != nil {
		return p.files, err
	}
	if slices.ContainsFunc(cells, func(c *results.Cell) bool { return len(c.Sample("late_share")) > 0 }) {
		return p.files, p.deadlines(cells)
	}
	return p.files, p.sweeps(cells)
}

// formats are those of a figure: for pages, for slides and for print.
var formats = []string{"svg", "png", "pdf"}

// save writes a figure in all formats, and its data.
func (p *painter) save(f *figure, kind, title string) error {
	base := slug(p.name + " " + kind + " " + title)
	for n := 2; p.taken[base]; n++ {
		base = fmt.Sprintf("%s-%d", slug(p.name+" "+kind+" "+title), n)
	}
	p.taken[base] = true
	for _, format := range formats {
		path := filepath.Join(p.dir, base+"."+format)
		if err := f.draw(path, format); err != nil {
			return fmt.Errorf("figure %s: %w", path, err)
		}
		p.files = append(p.files, path)
	}
	path := filepath.Join(p.dir, base+".csv")
	if err := os.WriteFile(path, f.csv(), 0o644); err != nil {
		return fmt.Errorf("figure %s: %w", path, err)
	}
	p.files = append(p.files, path)
	return nil
}

// slug makes a file name of a title.
func slug(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '-'
	}, s)
	for strings.Contains(s, "--") {
		s = strings.ReplaceAll(s, "--", "-")
	}
	s = strings.Trim(s, "-.")
	return s[:min(len(s), 150)]
}

func titled(what, of string) string {
	if of == "" {
		return what
	}
	return what + "\n" + of
}

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

// errorOf splits the error model of a cell.
func errorOf(c *results.Cell) (kind string, factor float64) {
	kind, text, has := strings.Cut(c.Params["errors"], ":")
	if kind == "" || !has {
		return "none", math.NaN()
	}
	factor, err := strconv.ParseFloat(text, 64)
	if err != nil {
		factor = math.NaN()
	}
	return kind, factor
}

// byErrors divides cells by the kind of their error model; cells without errors are in each, first. Factors ascend.
func byErrors(cells []*results.Cell) (kinds []string, of map[string][]*results.Cell) {
	of = map[string][]*results.Cell{}
	var exact []*results.Cell
	for _, c := range cells {
		if k, _ := errorOf(c); k == "none" {
			exact = append(exact, c)
		} else {
			if of[k] == nil {
				kinds = append(kinds, k)
			}
			of[k] = append(of[k], c)
		}
	}
	if len(kinds) == 0 {
		return []string{"none"}, map[string][]*results.Cell{"none": exact}
	}
	for k, cells := range of {
		slices.SortStableFunc(cells, func(a, b *results.Cell) int {
			_, x := errorOf(a)
			_, y := errorOf(b)
			return cmp.Compare(x, y)
		})
		of[k] = append(slices.Clone(exact), cells...)
	}
	return kinds, of
}

// errorsAs names a kind of error model in titles.
func errorsAs(kind string) string {
	if kind == "none" {
		return "no errors"
	}
	return "errors " + kind
}

// boxes draws a box of slowdowns for each policy and error factor: quartiles and median, whiskers to the 5th and 95th
// percentile, a dot at the mean; each the mean over repetitions.
func (p *painter) boxes(g group) error {
	kinds, of := byErrors(g.cells)
	for _, kind := range kinds {
		label := "policy"
		if kind != "none" {
			label = "error factor and policy"
		}
		f, pl := single(titled("Slowdown, "+errorsAs(kind)+" (box: quartiles, whiskers: 5 % to 95 %, dot: mean)",
			g.title), label, "slowdown")
		f.columns = boxColumns
		var ticks []plot.Tick
		low, high, at := math.Inf(1), 0.0, 0.0
		for i, name := range policies(of[kind]) {
			from := at
			for _, c := range of[kind] {
				if policyOf(c) != name || len(c.Sample("slowdown_median")) == 0 {
					continue
				}
				of := func(statistic string) float64 {
					return metrics.Confidence(c.Sample("slowdown_" + statistic)).Mean
				}
				b := Box{of("p5"), of("p25"), of("median"), of("p75"), of("p95"), of("mean")}
				low, high = min(low, b.Low), max(high, b.High, b.Mean)
				_, factor := errorOf(c)
				label := strings.TrimSuffix(name+" "+factorLabel(factor), " none")
				if err := f.box(label, at, colourOf(i), b); err != nil {
					return err
				}
				tick := plot.Tick{Value: at}
				if kind != "none" {
					tick.Label = factorLabel(factor)
				}
				ticks = append(ticks, tick)
				at++
			}
			if at == from {
				continue
			}
			// The name of the policy stands below the middle of its boxes.
			middle := &ticks[len(ticks)-int(at-from)+int(at-from-1)/2]
			middle.Label = strings.TrimPrefix(middle.Label+"\n"+name, "\n")
			at++
		}
		if len(ticks) == 0 {
			continue
		}
		f.boxAxes(pl, ticks, low, high)
		if kind == "none" {
			f.slant(pl, ticks)
		}
		if err := p.save(f, "slowdown", kind+" "+g.title); err != nil {
			return err
		}
	}
	return nil
}

// factorLabel is the label of an error factor; NaN is that of results without errors.
func factorLabel(factor float64) string {
	if math.IsNaN(factor) {
		return "none"
	}
	return strconv.FormatFloat(factor, 'g', -1, 64)
}

// boxAxes makes the axes of a plot of boxes: wide enough for their labels, and logarithmic where values lie far apart.
func (f *figure) boxAxes(pl *plot.Plot, ticks []plot.Tick, low, high float64) {
	pl.X.Tick.Marker = plot.ConstantTicks(level(ticks))
	last := ticks[len(ticks)-1].Value
	pl.X.Min, pl.X.Max = -0.8, last+0.8
	f.width = max(f.width, min(60*vg.Centimeter, vg.Length(last+1)*0.85*vg.Centimeter))
	if high > 10*low && low > 0 {
		pl.Y.Scale, pl.Y.Tick.Marker = plot.LogScale{}, logTicks{}
		pl.Y.Min, pl.Y.Max = low/1.1, high*1.1
		return
	}
	fromZero(&pl.Y)
}

// add draws a box with its dot.
func (b Box) add(pl *plot.Plot, at float64, colour color.RGBA) (*plotter.BoxPlot, error) {
	box, err := plotter.NewBoxPlot(vg.Points(13), at, plotter.Values{b.Median})
	if err != nil {
		return nil, err
	}
	box.Median, box.Quartile1, box.Quartile3 = b.Median, b.Q1, b.Q3
	box.AdjLow, box.AdjHigh, box.Min, box.Max = b.Low, b.High, b.Low, b.High
	box.FillColor, box.MedianStyle.Color, box.MedianStyle.Width = colour, upon(colour), vg.Points(1.5)
	box.BoxStyle.Color, box.WhiskerStyle.Color = colour, colour
	box.WhiskerStyle.Dashes = nil
	pl.Add(box)
	for _, g := range []draw.GlyphStyle{{Color: color.White, Shape: draw.CircleGlyph{}}, {Color: color.Black,
		Shape: draw.RingGlyph{}}} {
		dot, err := plotter.NewScatter(plotter.XYs{{X: at, Y: b.Mean}})
		if err != nil {
			return nil, err
		}
		dot.GlyphStyle, dot.Radius = g, vg.Points(2)
		pl.Add(dot)
	}
	return box, nil
}

// box adds a box to the plot of a figure.
func (f *figure) box(name string, at float64, colour color.RGBA, b Box) error {
	f.record(name, at, b.Low, b.Q1, b.Median, b.Q3, b.High, b.Mean)
	_, err := b.add(f.rows[0][0], at, colour)
	return err
}

// withIntervals is a line through means with their confidence intervals.
type withIntervals struct {
	plotter.XYs
	plotter.YErrors
}

// add draws the line in the i-th colour, and returns its symbols in a legend.
func (w withIntervals) add(pl *plot.Plot, i int) ([]plot.Thumbnailer, error) {
	line, dots, err := plotter.NewLinePoints(w.XYs)
	if err != nil {
		return nil, err
	}
	bars, err := plotter.NewYErrorBars(w)
	if err != nil {
		return nil, err
	}
	line.LineStyle, dots.Color, bars.Color = lineOf(i), colourOf(i), colourOf(i)
	dots.Shape, dots.Radius = glyphOf(i), vg.Points(3)
	pl.Add(line, dots, bars)
	return []plot.Thumbnailer{line, dots}, nil
}

// curve adds the curve of a policy to the plot of a figure.
func (f *figure) curve(i int, name string, points withIntervals) error {
	thumbs, err := points.add(f.rows[0][0], i)
	if err != nil {
		return err
	}
	f.name(name, thumbs...)
	for k, at := range points.XYs {
		f.record(name, at.X, at.Y, at.Y-points.YErrors[k].Low, at.Y+points.YErrors[k].High)
	}
	return nil
}

func (w *withIntervals) put(x float64, i Interval) {
	half := nonNaN(i.Half)
	w.XYs = append(w.XYs, plotter.XY{X: x, Y: i.Mean})
	w.YErrors = append(w.YErrors, struct{ Low, High float64 }{half, half})
}

// measure is a metric to be drawn, with the words for it.
type measure struct {
	kind, metric, title, axis string  // kind: in names of files
	against                   string  // values are differences to this policy on the same load; "": to none
	unit                      float64 // of values; 0 is 1
}

// values is the measure of each cell; of a policy that the others are compared with there is none.
func (m *measure) values(cells []*results.Cell) map[*results.Cell]Interval {
	values, unit := map[*results.Cell]Interval{}, cmp.Or(m.unit, 1)
	for _, g := range groups(cells, isPolicy) {
		var base *results.Cell
		if m.against != "" {
			if base = ofPolicy(g.cells, m.against); base == nil {
				continue
			}
		}
		for _, c := range g.cells {
			if c != base {
				i := interval(c, base, m.metric)
				i.Mean, i.Half = i.Mean/unit, i.Half/unit
				values[c] = i
			}
		}
	}
	return values
}

// across is a parameter that figures are drawn against.
type across struct {
	param string
	of    func(*results.Cell) string // its value in a cell; "": none
	names bool                       // numbers are names, too
	alone bool                       // a measure that has one value of the parameter only is drawn by policy
}

// lines draws a measure of cells against a parameter, a line with intervals for each policy. Where all values of the
// parameter are numbers, these stand at their places; names stand side by side, in order of appearance.
func (p *painter) lines(cells []*results.Cell, by across, m measure, title, file string) error {
	values := m.values(cells)
	var places []string
	number := func(place string) float64 { x, _ := strconv.ParseFloat(place, 64); return x }
	numbers := !by.names
	for _, c := range cells {
		if v := by.of(c); v != "" && !slices.Contains(places, v) && values[c].N > 0 {
			_, err := strconv.ParseFloat(v, 64)
			places, numbers = append(places, v), numbers && err == nil
		}
	}
	names := policies(cells)
	byPolicy := by.param == "policy" || by.alone && len(places) == 1
	switch {
	case byPolicy:
		by.param, by.of, places, numbers = "policy", policyOf, names, false
	case len(places) < 2:
		return nil
	case numbers:
		slices.SortFunc(places, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	}
	f, pl := single(titled(m.title+" (bars: 95 % intervals)", title), by.param, m.axis)
	low, high := 0.0, 0.0
	for i, name := range names {
		var points withIntervals
		// Bars at a name stand beside each other; those at a number stand at its place.
		beside := min(0.1, 0.6/float64(len(names))) * (float64(i) - float64(len(names)-1)/2)
		if byPolicy {
			beside = 0
		}
		for at, place := range places {
			x := float64(at) + beside
			if numbers {
				x = number(place)
			}
			for _, c := range cells {
				if v := values[c]; policyOf(c) == name && by.of(c) == place && v.N > 0 {
					points.put(x, v)
					low, high = min(low, v.Mean-nonNaN(v.Half)), max(high, v.Mean+nonNaN(v.Half))
				}
			}
		}
		if len(points.XYs) == 0 {
			continue
		}
		if err := f.curve(i, name, points); err != nil {
			return err
		}
	}
	if len(f.data) == 0 {
		return nil
	}
	f.named = !byPolicy
	if !numbers {
		var ticks []plot.Tick
		for i, name := range places {
			ticks = append(ticks, plot.Tick{Value: float64(i), Label: name})
		}
		pl.X.Tick.Marker = plot.ConstantTicks(ticks)
		f.slant(pl, ticks)
		pl.X.Min, pl.X.Max = -0.4, float64(len(ticks))-0.6
	}
	vertical(pl, low, high)
	return p.save(f, m.kind, file)
}

// byFactor draws a metric against the factor of each error model, or without errors by policy alone. Results without
// errors stand at the left; factors stand side by side, whether there are such results or not.
func (p *painter) byFactor(g group, m measure) error {
	factorOf := func(c *results.Cell) string {
		_, factor := errorOf(c)
		if factor == 0 {
			factor = math.NaN()
		}
		return factorLabel(factor)
	}
	models, cellsOf := byErrors(g.cells)
	for _, model := range models {
		m := m
		m.title += ", " + errorsAs(model)
		if err := p.lines(cellsOf[model], across{"error factor", factorOf, true, true}, m, g.title,
			model+" "+g.title); err != nil {
			return err
		}
	}
	return nil
}

// spans draws how long batches take, against the factor of each error model.
func (p *painter) spans(g group) error {
	longest := 0.0
	for _, c := range g.cells {
		all := c.Sample("workflows")
		for i, most := range c.Sample("in_system_max") {
			if i >= len(all) || most < 2 || most != all[i] {
				return nil // not all arrive at once, or not all count
			}
		}
		for _, s := range c.Sample("span") {
			longest = max(longest, s)
		}
	}
	unit, seconds := timeUnit(longest)
	return p.byFactor(g, measure{kind: "span", metric: "span", title: "Time that the whole batch takes",
		axis: "time from the arrival to the last end (" + unit + ")", unit: seconds})
}

// shades are for classes of parallelism, from 1 to 2 on, each twice the one before; the last has all above.
var shades = []color.NRGBA{{253, 201, 38, 255}, {251, 159, 58, 255}, {237, 121, 83, 255}, {216, 87, 107, 255},
	{168, 34, 150, 255}, {92, 1, 166, 255},
	{13, 8, 135, 255}}

// shadeOf is the class of a parallelism.
func shadeOf(parallelism float64) int {
	return max(0, min(len(shades)-1, int(math.Log2(max(1, parallelism)))))
}

// addDots draws dots, by their shades, and notes which shades there are.
func addDots(pl *plot.Plot, byShade []plotter.XYs, radius vg.Length, shown []bool) error {
	for s, xys := range byShade {
		if len(xys) == 0 {
			continue
		}
		dots, err := plotter.NewScatter(xys)
		if err != nil {
			return err
		}
		dots.GlyphStyle = draw.GlyphStyle{Color: shades[s], Radius: radius, Shape: draw.CircleGlyph{}}
		pl.Add(dots)
		shown[s] = true
	}
	return nil
}

// shades explains the shades that are shown.
func (f *figure) shades(shown []bool) {
	for s, is := range shown {
		switch {
		case !is:
		case s == len(shades)-1:
			f.name(fmt.Sprintf("parallelism over %d", 1<<s), legendDot{shades[s]})
		default:
			f.name(fmt.Sprintf("parallelism %d to %d", 1<<s, 2<<s), legendDot{shades[s]})
		}
	}
}

// dots are the workflows of one policy or run.
type dots struct {
	name   string
	points []results.Point
}

// scatter draws slowdown against size, a panel per policy, without errors if there are such cells.
func (p *painter) scatter(g group) error {
	kinds, of := byErrors(g.cells)
	cells := of[kinds[0]]
	var all []dots
	var with string
	for _, name := range policies(cells) {
		c := ofPolicy(cells, name)
		points, err := p.db.Slowdowns(p.ctx, c.ID)
		if err != nil {
			return err
		}
		if len(points) > 0 {
			all, with = append(all, dots{name, points}), cmp.Or(c.Params["errors"], "none")
		}
	}
	if len(all) == 0 {
		return nil
	}
	f, err := scattered(titled("Slowdown against size, "+errorsAs(with), g.title), all)
	if err != nil {
		return err
	}
	return p.save(f, "size", g.title)
}

// scattered draws slowdown against size in panels with the same axes. Colours tell how parallel workflows are.
func scattered(title string, all []dots) (*figure, error) {
	columns := min(3, len(all))
	f := &figure{legend: plot.NewLegend(), width: max(plotWidth, vg.Length(columns)*panelWidth), height: plotHeight,
		columns: []string{"tasks", "slowdown", "parallelism"}}
	if len(all) > 1 {
		f.height = vg.Length((len(all)+columns-1)/columns) * panelTall
	}
	step, low, high, size := 1, math.Inf(1), 0.0, 0.0
	for _, d := range all {
		step = max(step, (len(d.points)+maxPoints-1)/maxPoints)
		for _, x := range d.points {
			if x.Slowdown > 0 {
				low = min(low, x.Slowdown)
			}
			high, size = max(high, x.Slowdown), max(size, x.Tasks)
		}
	}
	if step > 1 {
		title += fmt.Sprintf("\n(one workflow of %d drawn; mean and median of all)", step)
	}
	f.title = title
	radius := vg.Points(1.3)
	if !slices.ContainsFunc(all, func(d dots) bool { return len(d.points) > 100 }) {
		radius = vg.Points(2.5)
	}
	shown := make([]bool, len(shades))
	lines := make([]plot.Thumbnailer, 2)
	for i, d := range all {
		pl := newPlot("", "")
		if i%columns == 0 {
			f.rows = append(f.rows, make([]*plot.Plot, columns))
			pl.Y.Label.Text = "slowdown"
		}
		if i+columns >= len(all) {
			pl.X.Label.Text = "tasks"
		}
		f.rows[i/columns][i%columns] = pl
		xys := make([]plotter.XYs, len(shades))
		sample := make([]float64, len(d.points))
		for k, x := range d.points {
			sample[k] = x.Slowdown
			if s := shadeOf(x.Parallelism); k%step == 0 && x.Slowdown > 0 {
				xys[s] = append(xys[s], plotter.XY{X: x.Tasks, Y: x.Slowdown})
				f.record(d.name, x.Tasks, x.Slowdown, x.Parallelism)
			}
		}
		if err := addDots(pl, xys, radius, shown); err != nil {
			return nil, err
		}
		s := metrics.Summarise(sample)
		for k, l := range []struct {
			y      float64
			dashes []vg.Length
		}{{s.Mean, nil}, {s.Median, []vg.Length{vg.Points(4), vg.Points(3)}}} {
			line := plotter.NewFunction(func(float64) float64 { return l.y })
			line.Dashes = l.dashes
			pl.Add(line)
			lines[k] = line
		}
		pl.Title.Text = wrap(fmt.Sprintf("%s (mean %.3g, median %.3g)", d.name, s.Mean, s.Median), panelWidth,
			pl.Title.TextStyle)
		pl.X.Min, pl.X.Max = 0, 1.04*size
		if high > 10*low {
			pl.Y.Scale, pl.Y.Tick.Marker = plot.LogScale{}, logTicks{}
			pl.Y.Min, pl.Y.Max = low/1.1, high*1.1
		} else {
			pl.Y.Max = high
			fromZero(&pl.Y)
		}
	}
	f.shades(shown)
	f.name("mean", lines[0])
	f.name("median", lines[1])
	return f, nil
}

// legendDot is a dot in a legend, larger than those in the plot.
type legendDot struct{ colour color.Color }

// Thumbnail implements plot.Thumbnailer.
func (d legendDot) Thumbnail(c *draw.Canvas) {
	c.DrawGlyph(draw.GlyphStyle{Color: d.colour, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}, c.Center())
}

// overTime is a number that changes over time, in seconds, of one policy, run or tenant.
type overTime struct {
	name string
	xys  plotter.XYs
}

// system is the number of workflows in the system.
func system(name string, steps metrics.Steps) overTime {
	o := overTime{name: name}
	for _, s := range steps {
		o.xys = append(o.xys, plotter.XY{X: s.At.Seconds(), Y: float64(s.N)})
	}
	return o
}

// inSystem draws the number of workflows in the system over time in the first repetition, a line per policy.
func (p *painter) inSystem(g group) error {
	var all []overTime
	for _, name := range policies(g.cells) {
		c := ofPolicy(g.cells, name)
		series, err := p.db.Series(p.ctx, c.ID, 0)
		if err != nil {
			return err
		}
		if len(c.Runs) > 0 && c.Runs[0].Repetition == 0 && c.Runs[0].State == experiment.Diverged {
			name += " (cut off)"
		}
		all = append(all, system(name, series))
	}
	f, err := jumps(titled("Workflows in the system over time, first repetition", g.title),
		"workflows in the system", all)
	if f == nil || err != nil {
		return err
	}
	return p.save(f, "in-system", g.title)
}

// markers is about how many of its points a line over time marks.
const markers = 10

// jumps draws numbers over time; nil if there are none.
func jumps(title, what string, all []overTime) (*figure, error) {
	longest := 0.0
	for _, o := range all {
		if n := len(o.xys); n > 1 {
			longest = max(longest, o.xys[n-1].X)
		}
	}
	if longest == 0 {
		return nil, nil
	}
	unit, seconds := timeUnit(longest)
	f, pl := single(title, "time since the beginning ("+unit+")", what)
	for i, o := range all {
		if len(o.xys) < 2 {
			continue
		}
		for k := range o.xys {
			o.xys[k].X /= seconds
		}
		line, err := plotter.NewLine(o.xys)
		if err != nil {
			return nil, err
		}
		line.StepStyle, line.LineStyle = plotter.PostStep, lineOf(i)
		// Some points have a marker, other ones of each line.
		var some plotter.XYs
		for k := i * len(o.xys) / (markers * len(all)); k < len(o.xys); k += max(1, len(o.xys)/markers) {
			some = append(some, o.xys[k])
		}
		dots, err := plotter.NewScatter(some)
		if err != nil {
			return nil, err
		}
		dots.GlyphStyle = draw.GlyphStyle{Color: colourOf(i), Radius: vg.Points(3), Shape: glyphOf(i)}
		pl.Add(line, dots)
		f.name(o.name, line, dots)
		for _, at := range o.xys {
			f.record(o.name, at.X, at.Y)
		}
	}
	pl.X.Min = 0
	fromZero(&pl.Y)
	return f, nil
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
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	p := &painter{dir: dir, taken: map[string]bool{}}
	var names []string
	var all []dots
	var over []overTime
	var timelines []*Timeline
	for _, r := range runs {
		names = append(names, r.Run)
		name := fmt.Sprintf("%s (%s)", r.Run, r.Policy)
		if len(r.Workflows) > 0 {
			all = append(all, dots{name, r.Workflows})
		}
		over = append(over, system(name, r.InSystem))
		timelines = append(timelines, r.Timeline)
	}
	p.name = strings.Join(names[:min(len(names), 4)], " ")
	if err := p.timelines(timelines); err != nil {
		return p.files, err
	}
	if len(all) > 0 {
		f, err := scattered("Slowdown against size", all)
		if err != nil {
			return p.files, err
		}
		if err := p.save(f, "size", ""); err != nil {
			return p.files, err
		}
		if err := p.runBoxes(all); err != nil {
			return p.files, err
		}
	}
	f, err := jumps("Workflows in the system over time", "workflows in the system", over)
	if f != nil && err == nil {
		err = p.save(f, "in-system", "")
	}
	if err != nil {
		return p.files, err
	}
	for _, r := range runs {
		p.name = r.Run
		if err := p.utilisation(r.Timeline); err != nil {
			return p.files, err
		}
		if err := p.shares(r); err != nil {
			return p.files, err
		}
	}
	return p.files, nil
}

// runBoxes draws a box of slowdowns for each run.
func (p *painter) runBoxes(all []dots) error {
	f, pl := single("Slowdown (box: quartiles, whiskers: 5 % to 95 %, dot: mean)", "run", "slowdown")
	f.columns = boxColumns
	var ticks []plot.Tick
	low, high := math.Inf(1), 0.0
	for i, d := range all {
		sample := make([]float64, len(d.points))
		for k, x := range d.points {
			sample[k] = x.Slowdown
		}
		s := metrics.Summarise(sample)
		low, high = min(low, s.P5), max(high, s.P95, s.Mean)
		b := Box{s.P5, s.P25, s.Median, s.P75, s.P95, s.Mean}
		if err := f.box(d.name, float64(i), colourOf(i), b); err != nil {
			return err
		}
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: d.name})
	}
	f.boxAxes(pl, ticks, low, high)
	f.slant(pl, ticks)
	return p.save(f, "slowdown", "")
}

// shares draws the dominant share of each tenant of a run over time.
func (p *painter) shares(r Figure) error {
	var all []overTime
	for _, s := range r.Shares {
		o := overTime{name: s.Tenant}
		for _, x := range s.Points {
			o.xys = append(o.xys, plotter.XY{X: x.At.Seconds(), Y: x.Share})
		}
		all = append(all, o)
	}
	f, err := jumps("Dominant shares of tenants, "+r.Run, "dominant share", all)
	if f == nil || err != nil {
		return err
	}
	return p.save(f, "shares", "")
}
