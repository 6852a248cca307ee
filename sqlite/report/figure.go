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
	"gantry/executor/metrics"
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

// Figures draws all that the results allow into dir, each as SVG and PNG with its data as CSV, and returns the files:
// box plots of slowdown
// and its standard deviation against the factor of each error model, the time that batches take, slowdown against
// utilisation and against size, the number in system over time, and what depends on other parameters.
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
		if err := p.byFactor(g, "deviation", "slowdown_sd", "Standard deviation of slowdown",
			"standard deviation of slowdown", 1); err != nil {
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
	for _, g := range groups(cells, func(k string) bool { return isPolicy(k) || k == "utilisation" }) {
		if err := p.utilisations(g); err != nil {
			return p.files, err
		}
	}
	if slices.ContainsFunc(cells, func(c *results.Cell) bool { return len(c.Sample("late_share")) > 0 }) {
		return p.files, p.deadlines(cells)
	}
	return p.files, p.sweeps(cells)
}

// save writes a figure in both formats.
func (p *painter) save(f *figure, kind, title string) error {
	base := slug(p.name + " " + kind + " " + title)
	for n := 2; p.taken[base]; n++ {
		base = fmt.Sprintf("%s-%d", slug(p.name+" "+kind+" "+title), n)
	}
	p.taken[base] = true
	for _, format := range []string{"svg", "png"} {
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

func mean(c *results.Cell, metric string) float64 { return metrics.Confidence(c.Sample(metric)).Mean }

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
				b, err := addBox(pl, at, colourOf(i), func(metric string) float64 {
					return mean(c, "slowdown_"+metric)
				})
				if err != nil {
					return err
				}
				low, high = min(low, b.AdjLow), max(high, b.AdjHigh, mean(c, "slowdown_mean"))
				_, factor := errorOf(c)
				f.record(strings.TrimSuffix(name+" "+factorLabel(factor), " none"), at, b.AdjLow, b.Quartile1, b.Median,
					b.Quartile3, b.AdjHigh, mean(c, "slowdown_mean"))
				tick := plot.Tick{Value: at}
				if kind != "none" {
					_, factor := errorOf(c)
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
	pl.X.Tick.Marker = plot.ConstantTicks(ticks)
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

// addBox draws a box with its dot; of gives its numbers by the name of the statistic.
func addBox(pl *plot.Plot, at float64, colour color.RGBA, of func(statistic string) float64) (*plotter.BoxPlot, error) {
	median := of("median")
	b, err := plotter.NewBoxPlot(vg.Points(13), at, plotter.Values{median})
	if err != nil {
		return nil, err
	}
	b.Median, b.Quartile1, b.Quartile3 = median, of("p25"), of("p75")
	b.AdjLow, b.AdjHigh = of("p5"), of("p95")
	b.Min, b.Max = b.AdjLow, b.AdjHigh
	pale := colour
	pale.R, pale.G, pale.B = 150+pale.R/5*2, 150+pale.G/5*2, 150+pale.B/5*2
	b.FillColor = pale
	b.BoxStyle.Color, b.WhiskerStyle.Color = colour, colour
	b.WhiskerStyle.Dashes = nil
	dot, err := plotter.NewScatter(plotter.XYs{{X: at, Y: of("mean")}})
	if err != nil {
		return nil, err
	}
	dot.GlyphStyle = draw.GlyphStyle{Color: color.Black, Radius: vg.Points(2), Shape: draw.CircleGlyph{}}
	pl.Add(b, dot)
	return b, nil
}

// withIntervals is a line through means with their confidence intervals.
type withIntervals struct {
	plotter.XYs
	plotter.YErrors
}

// curve adds the curve of a policy to the plot of a figure.
func (f *figure) curve(i int, name string, points withIntervals) error {
	line, dots, err := plotter.NewLinePoints(points.XYs)
	if err != nil {
		return err
	}
	bars, err := plotter.NewYErrorBars(points)
	if err != nil {
		return err
	}
	line.Color, dots.Color, bars.Color = colourOf(i), colourOf(i), colourOf(i)
	dots.Shape, dots.Radius = glyphOf(i), vg.Points(2.5)
	f.rows[0][0].Add(line, dots, bars)
	f.name(name, line, dots)
	for k, at := range points.XYs {
		f.record(name, at.X, at.Y, at.Y-points.YErrors[k].Low, at.Y+points.YErrors[k].High)
	}
	return nil
}

func (w *withIntervals) add(x float64, sample []float64) {
	w.put(x, Interval(metrics.Confidence(sample)))
}

func (w *withIntervals) put(x float64, i Interval) {
	if i.N == 0 {
		return
	}
	half := i.Half
	if math.IsNaN(half) {
		half = 0
	}
	w.XYs = append(w.XYs, plotter.XY{X: x, Y: i.Mean})
	w.YErrors = append(w.YErrors, struct{ Low, High float64 }{half, half})
}

// byFactor draws a metric against the factor of each error model, or without errors by policy alone. Results without
// errors stand at the left.
func (p *painter) byFactor(g group, kind, metric, title, label string, scale float64) error {
	models, of := byErrors(g.cells)
	for _, model := range models {
		var ticks []plot.Tick
		at := map[float64]float64{}
		for _, c := range of[model] {
			_, factor := errorOf(c)
			if math.IsNaN(factor) {
				factor = 0
			}
			if _, ok := at[factor]; !ok {
				at[factor] = float64(len(ticks))
				label := factor
				if factor == 0 {
					label = math.NaN()
				}
				ticks = append(ticks, plot.Tick{Value: at[factor], Label: factorLabel(label)})
			}
		}
		names := policies(of[model])
		f, pl := single(titled(title+", "+errorsAs(model)+" (bars: 95 % intervals)", g.title), "error factor", label)
		byPolicy := len(ticks) < 2
		if byPolicy {
			pl.X.Label.Text, ticks = "policy", nil
			for i, name := range names {
				ticks = append(ticks, plot.Tick{Value: float64(i), Label: name})
			}
		}
		drawn := false
		for i, name := range names {
			var points withIntervals
			for _, c := range of[model] {
				if policyOf(c) != name {
					continue
				}
				sample := c.Sample(metric)
				for k := range sample {
					sample[k] *= scale
				}
				_, factor := errorOf(c)
				if math.IsNaN(factor) {
					factor = 0
				}
				x := at[factor] + 0.05*(float64(i)-float64(len(names)-1)/2) // bars do not hide each other
				if byPolicy {
					x = float64(i)
				}
				points.add(x, sample)
			}
			if len(points.XYs) == 0 {
				continue
			}
			drawn = true
			if err := f.curve(i, name, points); err != nil {
				return err
			}
		}
		if !drawn {
			continue
		}
		f.named = !byPolicy
		pl.X.Tick.Marker = plot.ConstantTicks(ticks)
		f.slant(pl, ticks)
		pl.X.Min, pl.X.Max = -0.4, float64(len(ticks))-0.6
		fromZero(&pl.Y)
		if err := p.save(f, kind, model+" "+g.title); err != nil {
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
	return p.byFactor(g, "span", "span", "Time that the whole batch takes",
		"time from the arrival to the last end ("+unit+")", 1/seconds)
}

// utilisations draws mean slowdown against the imposed utilisation, where that was varied.
func (p *painter) utilisations(g group) error {
	f, pl := single(titled("Mean slowdown (bars: 95 % intervals)", g.title), "imposed utilisation", "mean slowdown")
	most := 0
	imposed := func(c *results.Cell) float64 {
		rho, err := strconv.ParseFloat(c.Params["utilisation"], 64)
		if err != nil {
			return math.NaN()
		}
		return rho
	}
	ascending := slices.Clone(g.cells)
	slices.SortStableFunc(ascending, func(a, b *results.Cell) int { return cmp.Compare(imposed(a), imposed(b)) })
	for i, name := range policies(g.cells) {
		var points withIntervals
		for _, c := range ascending {
			if rho := imposed(c); !math.IsNaN(rho) && policyOf(c) == name {
				points.add(rho, c.Sample("slowdown_mean"))
			}
		}
		if len(points.XYs) < 2 {
			continue
		}
		most = max(most, len(points.XYs))
		if err := f.curve(i, name, points); err != nil {
			return err
		}
	}
	if most < 2 {
		return nil
	}
	fromZero(&pl.Y)
	return p.save(f, "utilisation", g.title)
}

// shades are for classes of parallelism, from 1 to 2 on, each twice the one before; the last has all above.
var shades = []color.NRGBA{{253, 201, 38, 255}, {251, 159, 58, 255}, {237, 121, 83, 255}, {216, 87, 107, 255},
	{168, 34, 150, 255}, {92, 1, 166, 255},
	{13, 8, 135, 255}}

// shadeOf is the class of a parallelism.
func shadeOf(parallelism float64) int {
	return max(0, min(len(shades)-1, int(math.Log2(max(1, parallelism)))))
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
		c := cells[slices.IndexFunc(cells, func(c *results.Cell) bool { return policyOf(c) == name })]
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
	shown := make([]plot.Thumbnailer, len(shades))
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
		for s, xys := range xys {
			if len(xys) == 0 {
				continue
			}
			dots, err := plotter.NewScatter(xys)
			if err != nil {
				return nil, err
			}
			dots.GlyphStyle = draw.GlyphStyle{Color: shades[s], Radius: radius, Shape: draw.CircleGlyph{}}
			pl.Add(dots)
			shown[s] = legendDot{shades[s]}
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
	for s, dot := range shown {
		switch {
		case dot == nil:
		case s == len(shades)-1:
			f.name(fmt.Sprintf("parallelism over %d", 1<<s), dot)
		default:
			f.name(fmt.Sprintf("parallelism %d to %d", 1<<s, 2<<s), dot)
		}
	}
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

// overTime is a number of workflows over time, of one policy or run.
type overTime struct {
	name  string
	steps metrics.Steps
}

// inSystem draws the number of workflows in the system over time in the first repetition, a line per policy.
func (p *painter) inSystem(g group) error {
	var all []overTime
	for _, name := range policies(g.cells) {
		c := g.cells[slices.IndexFunc(g.cells, func(c *results.Cell) bool { return policyOf(c) == name })]
		series, err := p.db.Series(p.ctx, c.ID, 0)
		if err != nil {
			return err
		}
		if len(c.Runs) > 0 && c.Runs[0].Repetition == 0 && c.Runs[0].State == experiment.Diverged {
			name += " (cut off)"
		}
		all = append(all, overTime{name, series})
	}
	f, err := numbers(titled("Workflows in the system over time, first repetition", g.title), all)
	if f == nil || err != nil {
		return err
	}
	return p.save(f, "in-system", g.title)
}

// numbers draws numbers of workflows over time; nil if there are none.
func numbers(title string, all []overTime) (*figure, error) {
	longest := 0.0
	for _, o := range all {
		if n := len(o.steps); n > 1 {
			longest = max(longest, o.steps[n-1].At.Seconds())
		}
	}
	if longest == 0 {
		return nil, nil
	}
	unit, seconds := timeUnit(longest)
	f, pl := single(title, "time since the beginning ("+unit+")", "workflows in the system")
	for i, o := range all {
		if len(o.steps) < 2 {
			continue
		}
		xys := make(plotter.XYs, len(o.steps))
		for k, s := range o.steps {
			xys[k] = plotter.XY{X: s.At.Seconds() / seconds, Y: float64(s.N)}
		}
		line, err := steps(xys, i)
		if err != nil {
			return nil, err
		}
		pl.Add(line)
		f.name(o.name, line)
		for _, at := range xys {
			f.record(o.name, at.X, at.Y)
		}
	}
	pl.X.Min = 0
	fromZero(&pl.Y)
	return f, nil
}

// steps is the i-th line of a number that jumps.
func steps(xys plotter.XYs, i int) (*plotter.Line, error) {
	line, err := plotter.NewLine(xys)
	if err != nil {
		return nil, err
	}
	line.StepStyle, line.Color, line.Width = plotter.PostStep, colourOf(i), vg.Points(0.8)
	return line, nil
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

// RunFigures draws runs into dir, each figure as SVG and PNG, and returns the files: the timelines of all runs, the
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
		over = append(over, overTime{name, r.InSystem})
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
	f, err := numbers("Workflows in the system over time", over)
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
		of := map[string]float64{"mean": s.Mean, "median": s.Median, "p5": s.P5, "p25": s.P25, "p75": s.P75,
			"p95": s.P95}
		if _, err := addBox(pl, float64(i), colourOf(i),
			func(statistic string) float64 { return of[statistic] }); err != nil {
			return err
		}
		low, high = min(low, s.P5), max(high, s.P95, s.Mean)
		f.record(d.name, float64(i), s.P5, s.P25, s.Median, s.P75, s.P95, s.Mean)
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: d.name})
	}
	f.boxAxes(pl, ticks, low, high)
	f.slant(pl, ticks)
	return p.save(f, "slowdown", "")
}

// shares draws the dominant share of each tenant of a run over time.
func (p *painter) shares(r Figure) error {
	longest := 0.0
	for _, s := range r.Shares {
		if n := len(s.Points); n > 1 {
			longest = max(longest, s.Points[n-1].At.Seconds())
		}
	}
	if longest == 0 {
		return nil
	}
	unit, seconds := timeUnit(longest)
	f, pl := single("Dominant shares of tenants, "+r.Run, "time since the beginning ("+unit+")", "dominant share")
	for i, s := range r.Shares {
		xys := make(plotter.XYs, len(s.Points))
		for k, x := range s.Points {
			xys[k] = plotter.XY{X: x.At.Seconds() / seconds, Y: x.Share}
		}
		if len(xys) < 2 {
			continue
		}
		line, err := steps(xys, i)
		if err != nil {
			return err
		}
		pl.Add(line)
		f.name(s.Tenant, line)
		for _, at := range xys {
			f.record(s.Tenant, at.X, at.Y)
		}
	}
	pl.X.Min = 0
	fromZero(&pl.Y)
	return p.save(f, "shares", "")
}
