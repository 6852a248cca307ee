package report

import (
	"bytes"
	"cmp"
	"encoding/csv"
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

	"gantry/executor/experiment/metrics"
	"gantry/sqlite/report/results"
)

// Chart is a figure that a page asks for: panels of one kind, with words and units on their axes.
type Chart struct {
	Title  string
	Kind   string // one of Kinds, or steps: a number over time
	Panels []Panel
	Dots   int // drawn in a panel of a scatter plot at most; 0: 5,000
}

// Panel is a plot of a chart. Categories stand on its horizontal axis, but in histograms and scatter plots.
type Panel struct {
	Title, XLabel, YLabel string
	Categories            []string
	Numbers               bool // categories are numbers, which stand at their places
	Series                []Series
	Log                   bool
}

// Series are the values of one policy or the like.
type Series struct {
	Name   string
	Points []ChartPoint
	Dots   []results.Point // of scatter plots
}

// ChartPoint is a value of a series with its interval at a category, or at X of a histogram's bin.
type ChartPoint struct {
	Category int
	X, Width float64 // histogram: where the bin begins, and how wide it is; steps: the time
	Value    Interval
	Box      *Box
}

// Box has the numbers of a box plot, each the mean over repetitions.
type Box struct{ Low, Q1, Median, Q3, High, Mean float64 }

// Kinds are the kinds of charts.
var Kinds = []string{"bars", "lines", "boxes", "histogram", "scatter"}

// Empty says that no panel has a value.
func (c *Chart) Empty() bool {
	for _, p := range c.Panels {
		for _, s := range p.Series {
			if len(s.Points)+len(s.Dots) > 0 {
				return false
			}
		}
	}
	return true
}

// CSV returns the data of a chart: a row for each point.
func (c *Chart) CSV() []byte {
	head := map[string]string{"boxes": "x low_whisker quartile_1 median quartile_3 high_whisker mean",
		"histogram": "from to repetitions count half_width_95", "scatter": "tasks slowdown parallelism",
		"steps": "time value"}[c.Kind]
	rows := [][]string{strings.Fields("panel series " + cmp.Or(head, "x repetitions mean half_width_95"))}
	for _, p := range c.Panels {
		title := strings.TrimPrefix(flat(p.Title+": "+p.YLabel), ": ")
		for _, s := range p.Series {
			put := func(at string, numbers ...float64) {
				row := []string{title, s.Name, at}
				for _, x := range numbers {
					row = append(row, short(x))
				}
				rows = append(rows, row)
			}
			for _, d := range s.Dots {
				put(short(d.Tasks), d.Slowdown, d.Parallelism)
			}
			for _, x := range s.Points {
				at, v, b := "", x.Value, x.Box
				if x.Category < len(p.Categories) {
					at = flat(p.Categories[x.Category])
				}
				switch {
				case b != nil:
					put(at, b.Low, b.Q1, b.Median, b.Q3, b.High, b.Mean)
				case c.Kind == "histogram":
					put(short(x.X), x.X+x.Width, float64(v.N), v.Mean, v.Half)
				case c.Kind == "steps":
					put(short(x.X), v.Mean)
				default:
					put(at, float64(v.N), v.Mean, v.Half)
				}
			}
		}
	}
	return csvOf(rows)
}

func flat(s string) string { return strings.ReplaceAll(s, "\n", " ") }

// short is a number with six digits; one that is not finite is empty.
func short(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

func csvOf(rows [][]string) []byte {
	var b bytes.Buffer
	_ = csv.NewWriter(&b).WriteAll(rows) // to memory: it cannot fail
	return b.Bytes()
}

// Write draws a chart as NAME.svg into dir, beside its data as NAME.csv.
func (c *Chart) Write(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".csv"), c.CSV(), 0o644); err != nil {
		return err
	}
	f, err := c.figure()
	if err != nil {
		return fmt.Errorf("figure %s: %w", name, err)
	}
	return f.draw(filepath.Join(dir, name+".svg"), "svg")
}

// finite is the error of a number that has no place on an axis.
func (c *Chart) finite() (err error) {
	for _, p := range c.Panels {
		for _, s := range p.Series {
			for _, x := range s.Points {
				b := cmp.Or(x.Box, &Box{})
				err = cmp.Or(err, plotter.CheckFloats(x.X, x.Value.Mean, b.Median, b.Mean))
			}
			for _, x := range s.Dots {
				if x.Slowdown > 0 {
					err = cmp.Or(err, plotter.CheckFloats(x.Tasks, x.Slowdown))
				}
			}
		}
	}
	return err
}

func (c *Chart) figure() (*figure, error) {
	if err := c.finite(); err != nil {
		return nil, err
	}
	columns := 1
	if len(c.Panels) > 3 || c.Kind == "scatter" && len(c.Panels) > 1 {
		columns = min(3, len(c.Panels))
		if len(c.Panels) == 4 {
			columns = 2
		}
	}
	f := &figure{title: c.Title, legend: plot.NewLegend()}
	f.width, f.height = plotWidth, plotHeight
	if rows := (len(c.Panels) + columns - 1) / columns; rows > 1 || columns > 1 {
		f.height = vg.Length(rows) * panelTall
		f.width = max(plotWidth, vg.Length(columns)*panelWidth)
	}
	var names []string // of series, so that each has one colour
	for _, p := range c.Panels {
		for _, s := range p.Series {
			if !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	thumbs := make([][]plot.Thumbnailer, len(names))
	shown := make([]bool, len(shades))
	slowest, fastest, largest, step := 0.0, math.Inf(1), 0.0, 1 // of scatter plots, whose panels have the same axes
	most := cmp.Or(c.Dots, maxDots)
	for _, p := range c.Panels {
		for _, s := range p.Series {
			step = max(step, (len(s.Dots)+most-1)/most)
			for _, d := range s.Dots {
				slowest, largest = max(slowest, d.Slowdown), max(largest, d.Tasks)
				if d.Slowdown > 0 {
					fastest = min(fastest, d.Slowdown)
				}
			}
		}
	}
	if step > 1 {
		f.title += fmt.Sprintf("\n(one workflow of %d drawn; mean and median of all)", step)
	}
	for i := range c.Panels {
		if i%columns == 0 {
			f.rows = append(f.rows, make([]*plot.Plot, columns))
		}
		p := &c.Panels[i]
		pl := newPlot(p.XLabel, p.YLabel)
		pl.Title.Text = wrap(p.Title, f.width/vg.Length(columns), pl.Title.TextStyle)
		f.rows[i/columns][i%columns] = pl
		d := &drawing{f: f, plot: pl, p: p, step: step, shown: shown, low: math.Inf(1), high: math.Inf(-1)}
		d.panel(c, names, thumbs)
		if slowest > 0 {
			pl.X.Min, pl.X.Max = 0, 1.04*largest
			pl.Y.Min, pl.Y.Max = fastest/1.3, slowest*1.3
		}
	}
	for k, name := range names {
		if len(names) > 1 && thumbs[k] != nil && !c.Panels[0].alone() {
			f.name(name, thumbs[k]...)
		}
	}
	f.shades(shown)
	if slowest > 0 {
		f.name("mean", stroke{solidLine})
		f.name("median", stroke{dashedLine})
	}
	return f, nil
}

// alone says that each series has one point, at a category of its own: the axis names it, and no legend has to.
func (p *Panel) alone() bool {
	taken := map[int]bool{}
	for _, s := range p.Series {
		if len(s.Points) != 1 || taken[s.Points[0].Category] {
			return false
		}
		taken[s.Points[0].Category] = true
	}
	return len(p.Categories) > 0
}

// panel draws a panel, and gives the symbols of its series.
func (d *drawing) panel(c *Chart, names []string, thumbs [][]plot.Thumbnailer) {
	p, pl := d.p, d.plot
	kinds := map[string]func(i, k int) []plot.Thumbnailer{"lines": d.lines, "bars": d.bars, "histogram": d.histogram,
		"boxes": d.boxes, "scatter": d.scatter, "steps": d.steps}
	for i, s := range p.Series {
		k := slices.Index(names, s.Name)
		if t := kinds[c.Kind](i, k); t != nil {
			thumbs[k] = t
		}
	}
	if c.Kind == "steps" {
		pl.X.Min = 0
	}
	if len(p.Categories) > 0 && !p.Numbers {
		var ticks []plot.Tick
		for i, name := range p.Categories {
			ticks = append(ticks, plot.Tick{Value: float64(i), Label: name})
		}
		pl.X.Tick.Marker = plot.ConstantTicks(ticks)
		if len(c.Panels) == 1 {
			d.f.slant(pl, ticks)
		}
		pl.X.Min, pl.X.Max = -0.6, float64(len(ticks))-0.4
	}
	switch {
	case math.IsInf(d.high, 0):
	case p.Log || (c.Kind == "boxes" || c.Kind == "scatter") && d.low > 0 && d.high > 10*d.low:
		pl.Y.Scale, pl.Y.Tick.Marker = plot.LogScale{}, logTicks{}
		pl.Y.Min, pl.Y.Max = d.low/1.3, d.high*1.3
		if c.Kind == "histogram" {
			pl.Y.Min = 0.05
		}
	default:
		vertical(pl, d.low, d.high)
	}
}

// drawing is a panel while it is drawn. Each kind of chart is a method: it draws series i of the panel, in the colour
// of series k of the chart, and returns its symbols in the legend.
type drawing struct {
	f         *figure
	plot      *plot.Plot
	p         *Panel
	step      int     // of so many dots of a scatter plot one is drawn
	shown     []bool  // shades of its legend
	low, high float64 // of the values drawn
}

// span widens the vertical axis for values.
func (d *drawing) span(values ...float64) {
	for _, v := range values {
		if !math.IsNaN(v) && (v > 0 || !d.p.Log) {
			d.low, d.high = min(d.low, v), max(d.high, v)
		}
	}
}

// beside is where the i-th series stands at a category, of which all series together take a width.
func (d *drawing) beside(i int, x ChartPoint, width float64) float64 {
	switch n := float64(len(d.p.Series)); {
	case d.p.Numbers:
		return number(d.p.Categories[x.Category])
	case d.p.alone():
		return float64(x.Category)
	default:
		return float64(x.Category) + width/n*(float64(i)-(n-1)/2)
	}
}

func number(category string) float64 {
	x, _ := strconv.ParseFloat(category, 64)
	return x
}

func (d *drawing) lines(i, k int) []plot.Thumbnailer {
	var points withIntervals
	for _, x := range d.p.Series[i].Points {
		points.put(d.beside(i, x, min(0.6, 0.1*float64(len(d.p.Series)))), x.Value)
		d.span(x.Value.Mean, x.Value.Mean-x.Value.Half, x.Value.Mean+x.Value.Half)
	}
	if len(points.XYs) == 0 {
		return nil
	}
	line := &plotter.Line{XYs: points.XYs, LineStyle: lineOf(k)}
	dots := &plotter.Scatter{XYs: points.XYs, GlyphStyle: markOf(k)}
	d.plot.Add(line, dots, points.whiskers(colourOf(k)))
	return []plot.Thumbnailer{line, dots}
}

func (d *drawing) bars(i, k int) (thumbs []plot.Thumbnailer) {
	wide := 0.8 / float64(len(d.p.Series))
	for _, x := range d.p.Series[i].Points {
		left := float64(x.Category) - 0.4 + wide*float64(i)
		rect := rectangle(left+0.03*wide, left+0.97*wide, 0, x.Value.Mean, colourOf(k))
		var whisker withIntervals
		whisker.put(left+wide/2, x.Value)
		d.plot.Add(rect, whisker.whiskers(color.Black))
		thumbs = []plot.Thumbnailer{rect}
		d.span(x.Value.Mean, x.Value.Mean+x.Value.Half, x.Value.Mean-x.Value.Half)
	}
	return thumbs
}

func (d *drawing) histogram(i, k int) (thumbs []plot.Thumbnailer) {
	for _, x := range d.p.Series[i].Points {
		if x.Value.Mean <= 0 {
			continue
		}
		floor := 0.0
		if d.p.Log {
			floor = 0.05
		}
		rect := rectangle(x.X, x.X+x.Width, floor, x.Value.Mean, colourOf(k))
		d.plot.Add(rect)
		thumbs = []plot.Thumbnailer{rect}
		d.span(x.Value.Mean)
	}
	return thumbs
}

func (d *drawing) boxes(i, k int) (thumbs []plot.Thumbnailer) {
	wide := 0.84 / float64(len(d.p.Series))
	if d.p.alone() {
		wide = 0.84
	}
	for _, x := range d.p.Series[i].Points {
		b := x.Box
		b.add(d.plot, d.beside(i, x, 0.84), min(
			d.f.width/vg.Length(max(1, len(d.p.Categories)))*vg.Length(wide)*0.75, vg.Centimeter), colourOf(k))
		thumbs = []plot.Thumbnailer{solid{colourOf(k)}}
		d.span(b.Low, b.High, b.Mean)
	}
	return thumbs
}

// maxDots bounds the dots of a panel, so that files stay small and open quickly.
const maxDots = 5000

// The lines of the mean and the median of a scatter plot.
var (
	solidLine  = draw.LineStyle{Color: color.Black, Width: vg.Points(1)}
	dashedLine = draw.LineStyle{Color: color.Black, Width: vg.Points(1), Dashes: []vg.Length{4, 3}}
)

func (d *drawing) scatter(i, _ int) []plot.Thumbnailer {
	dots := d.p.Series[i].Dots
	xys := make([]plotter.XYs, len(shades))
	for k, dot := range dots {
		if k%d.step == 0 && dot.Slowdown > 0 {
			at := shadeOf(dot.Parallelism)
			xys[at] = append(xys[at], plotter.XY{X: dot.Tasks, Y: dot.Slowdown})
			d.span(dot.Slowdown)
		}
	}
	radius := vg.Points(1.3)
	if len(dots) <= 100 {
		radius = vg.Points(2.5)
	}
	for at, dots := range xys {
		if len(dots) > 0 {
			d.plot.Add(&plotter.Scatter{XYs: dots, GlyphStyle: draw.GlyphStyle{Color: shades[at], Radius: radius,
				Shape: draw.CircleGlyph{}}})
			d.shown[at] = true
		}
	}
	s := metrics.Summarise(slowdowns(dots))
	for _, l := range []struct {
		y     float64
		style draw.LineStyle
	}{{s.Mean, solidLine}, {s.Median, dashedLine}} {
		line := plotter.NewFunction(func(float64) float64 { return l.y })
		line.LineStyle = l.style
		d.plot.Add(line)
	}
	return nil
}

func slowdowns(dots []results.Point) []float64 {
	out := make([]float64, len(dots))
	for i, d := range dots {
		out[i] = d.Slowdown
	}
	return out
}

// markers is about how many of its points a line over time marks.
const markers = 10

func (d *drawing) steps(i, k int) []plot.Thumbnailer {
	points := d.p.Series[i].Points
	xys := make(plotter.XYs, len(points))
	for n, x := range points {
		xys[n] = plotter.XY{X: x.X, Y: x.Value.Mean}
		d.span(x.Value.Mean)
	}
	var some plotter.XYs // that have a marker, other ones of each line
	for n := i * len(xys) / (markers * len(d.p.Series)); n < len(xys); n += max(1, len(xys)/markers) {
		some = append(some, xys[n])
	}
	line := &plotter.Line{XYs: xys, StepStyle: plotter.PostStep, LineStyle: lineOf(k)}
	dots := &plotter.Scatter{XYs: some, GlyphStyle: markOf(k)}
	d.plot.Add(line, dots)
	return []plot.Thumbnailer{line, dots}
}

func (b *Box) add(pl *plot.Plot, at float64, width vg.Length, colour color.RGBA) {
	box, _ := plotter.NewBoxPlot(vg.Points(13), at, plotter.Values{b.Median}) // which is finite
	box.Median, box.Quartile1, box.Quartile3 = b.Median, b.Q1, b.Q3
	box.AdjLow, box.AdjHigh, box.Min, box.Max = b.Low, b.High, b.Low, b.High
	box.FillColor, box.MedianStyle.Color, box.MedianStyle.Width = colour, upon(colour), vg.Points(1.5)
	box.BoxStyle.Color, box.WhiskerStyle.Color = colour, colour
	box.WhiskerStyle.Dashes = nil
	box.Width = width
	pl.Add(box)
	for _, g := range []draw.GlyphStyle{{Color: color.White, Shape: draw.CircleGlyph{}}, {Color: color.Black,
		Shape: draw.RingGlyph{}}} {
		g.Radius = vg.Points(2)
		pl.Add(&plotter.Scatter{XYs: plotter.XYs{{X: at, Y: b.Mean}}, GlyphStyle: g})
	}
}

// withIntervals are means with their confidence intervals.
type withIntervals struct {
	plotter.XYs
	plotter.YErrors
}

func (w *withIntervals) put(x float64, i Interval) {
	half := i.Half
	if math.IsNaN(half) {
		half = 0
	}
	w.XYs = append(w.XYs, plotter.XY{X: x, Y: i.Mean})
	w.YErrors = append(w.YErrors, struct{ Low, High float64 }{half, half})
}

func (w *withIntervals) whiskers(colour color.Color) *plotter.YErrorBars {
	return &plotter.YErrorBars{XYs: w.XYs, YErrors: w.YErrors, LineStyle: draw.LineStyle{Color: colour,
		Width: plotter.DefaultLineStyle.Width}, CapWidth: plotter.DefaultCapWidth}
}

// shades are for classes of parallelism, from 1 to 2 on, each twice the one before; the last has all above.
var shades = []color.NRGBA{{253, 201, 38, 255}, {251, 159, 58, 255}, {237, 121, 83, 255}, {216, 87, 107, 255},
	{168, 34, 150, 255}, {92, 1, 166, 255},
	{13, 8, 135, 255}}

func shadeOf(parallelism float64) int {
	return max(0, min(len(shades)-1, int(math.Log2(max(1, parallelism)))))
}

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

// legendDot is a dot in a legend, larger than those in the plot.
type legendDot struct{ colour color.Color }

// Thumbnail implements plot.Thumbnailer.
func (d legendDot) Thumbnail(c *draw.Canvas) {
	c.DrawGlyph(draw.GlyphStyle{Color: d.colour, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}, c.Center())
}

func pale(c color.RGBA) color.RGBA {
	return color.RGBA{150 + c.R/5*2, 150 + c.G/5*2, 150 + c.B/5*2, 255}
}

func rectangle(left, right, low, high float64, colour color.RGBA) *plotter.Polygon {
	return &plotter.Polygon{XYs: []plotter.XYs{{{X: left, Y: low}, {X: left, Y: high}, {X: right, Y: high},
		{X: right, Y: low}}}, Color: colour, LineStyle: draw.LineStyle{Color: colour, Width: vg.Points(0.5)}}
}
