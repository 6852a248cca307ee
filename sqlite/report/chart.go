package report

import (
	"bytes"
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

	"gantry/sqlite/results"
)

// Chart is a figure that a page asks for: panels of one kind, with words and units on their axes.
type Chart struct {
	Title  string
	Kind   string // bars, lines, boxes, histogram or scatter
	Panels []Panel
}

// Panel is a plot of a chart. Categories stand on its horizontal axis, but in histograms and scatter plots.
type Panel struct {
	Title, XLabel, YLabel string
	Categories            []string
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
	X, Width float64 // histogram: where the bin begins, and how wide it is
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
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	g := func(x float64) string {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return ""
		}
		return strconv.FormatFloat(x, 'g', 6, 64)
	}
	put := func(cells ...string) { _ = w.Write(cells) } // to memory: it cannot fail
	switch c.Kind {
	case "boxes":
		put("panel", "series", "x", "low_whisker", "quartile_1", "median", "quartile_3", "high_whisker", "mean")
	case "histogram":
		put("panel", "series", "from", "to", "repetitions", "count", "half_width_95")
	case "scatter":
		put("panel", "series", "tasks", "slowdown", "parallelism")
	default:
		put("panel", "series", "x", "repetitions", "mean", "half_width_95")
	}
	for _, p := range c.Panels {
		title := strings.ReplaceAll(p.Title+": "+p.YLabel, "\n", " ")
		title = strings.TrimPrefix(title, ": ")
		for _, s := range p.Series {
			for _, d := range s.Dots {
				put(title, s.Name, g(d.Tasks), g(d.Slowdown), g(d.Parallelism))
			}
			for _, x := range s.Points {
				at := ""
				if x.Category < len(p.Categories) {
					at = strings.ReplaceAll(p.Categories[x.Category], "\n", " ")
				}
				switch {
				case x.Box != nil:
					put(title, s.Name, at, g(x.Box.Low), g(x.Box.Q1), g(x.Box.Median), g(x.Box.Q3), g(x.Box.High),
						g(x.Box.Mean))
				case c.Kind == "histogram":
					put(title, s.Name, g(x.X), g(x.X+x.Width), strconv.Itoa(x.Value.N), g(x.Value.Mean),
						g(x.Value.Half))
				default:
					put(title, s.Name, at, strconv.Itoa(x.Value.N), g(x.Value.Mean), g(x.Value.Half))
				}
			}
		}
	}
	w.Flush()
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

func (c *Chart) figure() (*figure, error) {
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
	slowest, fastest := 0.0, math.Inf(1) // of scatter plots, whose panels have the same axes
	for _, p := range c.Panels {
		for _, s := range p.Series {
			for _, d := range s.Dots {
				slowest, fastest = max(slowest, d.Slowdown), min(fastest, d.Slowdown)
			}
		}
	}
	for i := range c.Panels {
		if i%columns == 0 {
			f.rows = append(f.rows, make([]*plot.Plot, columns))
		}
		p := &c.Panels[i]
		pl := newPlot(p.XLabel, p.YLabel)
		pl.Title.Text = wrap(p.Title, f.width/vg.Length(columns), pl.Title.TextStyle)
		f.rows[i/columns][i%columns] = pl
		if err := c.panel(f, pl, p, names, thumbs, shown); err != nil {
			return nil, err
		}
		if slowest > 0 {
			pl.Y.Min, pl.Y.Max = fastest/1.3, slowest*1.3
		}
	}
	for k, name := range names {
		if len(names) > 1 && thumbs[k] != nil {
			f.name(name, thumbs[k]...)
		}
	}
	f.shades(shown)
	return f, nil
}

func (c *Chart) panel(f *figure, pl *plot.Plot, p *Panel, names []string, thumbs [][]plot.Thumbnailer,
	shown []bool) error {
	d := &drawing{f: f, plot: pl, p: p, shown: shown, low: math.Inf(1), high: math.Inf(-1)}
	kinds := map[string]func(i, k int) ([]plot.Thumbnailer, error){"lines": d.lines, "bars": d.bars,
		"histogram": d.histogram, "boxes": d.boxes, "scatter": d.scatter}
	for i, s := range p.Series {
		k := slices.Index(names, s.Name)
		t, err := kinds[c.Kind](i, k)
		if err != nil {
			return err
		}
		if t != nil {
			thumbs[k] = t
		}
	}
	if len(p.Categories) > 0 {
		var ticks []plot.Tick
		for i, name := range p.Categories {
			ticks = append(ticks, plot.Tick{Value: float64(i), Label: name})
		}
		pl.X.Tick.Marker = plot.ConstantTicks(ticks)
		if len(c.Panels) == 1 {
			f.slant(pl, ticks)
		}
		pl.X.Min, pl.X.Max = -0.6, float64(len(ticks))-0.4
	}
	switch {
	case math.IsInf(d.high, 0):
	case p.Log || c.Kind == "boxes" && d.low > 0 && d.high > 10*d.low:
		pl.Y.Scale, pl.Y.Tick.Marker = plot.LogScale{}, logTicks{}
		pl.Y.Min, pl.Y.Max = d.low/1.3, d.high*1.3
		if c.Kind == "histogram" {
			pl.Y.Min = 0.05
		}
	default:
		vertical(pl, d.low, d.high)
	}
	return nil
}

// drawing is a panel while it is drawn. Each kind of chart is a method: it draws series i of the panel, in the colour
// of series k of the chart, and returns its symbols in the legend.
type drawing struct {
	f         *figure
	plot      *plot.Plot
	p         *Panel
	shown     []bool  // shades of the legend of a scatter plot
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

func (d *drawing) lines(i, k int) ([]plot.Thumbnailer, error) {
	var points withIntervals
	for _, x := range d.p.Series[i].Points {
		points.put(float64(x.Category)+0.05*(float64(i)-float64(len(d.p.Series)-1)/2), x.Value)
		d.span(x.Value.Mean, x.Value.Mean+nonNaN(x.Value.Half))
	}
	if len(points.XYs) == 0 {
		return nil, nil
	}
	return points.add(d.plot, k)
}

func (d *drawing) bars(i, k int) (thumbs []plot.Thumbnailer, _ error) {
	s := &d.p.Series[i]
	colour := colourOf(k)
	wide := 0.8 / float64(len(d.p.Series))
	for _, x := range s.Points {
		left := float64(x.Category) - 0.4 + wide*float64(i)
		rect, err := rectangle(left+0.03*wide, left+0.97*wide, 0, x.Value.Mean, colour)
		if err != nil {
			return nil, err
		}
		d.plot.Add(rect)
		thumbs = []plot.Thumbnailer{rect}
		var whisker withIntervals
		whisker.put(left+wide/2, x.Value)
		if bars, err := plotter.NewYErrorBars(whisker); err != nil {
			return nil, err
		} else if len(whisker.XYs) > 0 {
			d.plot.Add(bars)
		}
		d.span(x.Value.Mean, x.Value.Mean+nonNaN(x.Value.Half), x.Value.Mean-nonNaN(x.Value.Half))
	}
	return thumbs, nil
}

func (d *drawing) histogram(i, k int) (thumbs []plot.Thumbnailer, _ error) {
	for _, x := range d.p.Series[i].Points {
		if x.Value.Mean <= 0 {
			continue
		}
		floor := 0.0
		if d.p.Log {
			floor = 0.05
		}
		rect, err := rectangle(x.X, x.X+x.Width, floor, x.Value.Mean, colourOf(k))
		if err != nil {
			return nil, err
		}
		d.plot.Add(rect)
		thumbs = []plot.Thumbnailer{rect}
		d.span(x.Value.Mean)
	}
	return thumbs, nil
}

func (d *drawing) boxes(i, k int) (thumbs []plot.Thumbnailer, _ error) {
	s := &d.p.Series[i]
	colour := colourOf(k)
	wide := 0.84 / float64(len(d.p.Series))
	for _, x := range s.Points {
		b := x.Box
		box, err := b.add(d.plot, float64(x.Category)-0.42+wide*(float64(i)+0.5), colour)
		if err != nil {
			return nil, err
		}
		box.Width = d.f.width / vg.Length(max(1, len(d.p.Categories))) * vg.Length(wide) * 0.75
		thumbs = []plot.Thumbnailer{solid{colour}}
		d.span(b.Low, b.High, b.Mean)
	}
	return thumbs, nil
}

func (d *drawing) scatter(i, _ int) ([]plot.Thumbnailer, error) {
	s := &d.p.Series[i]
	xys := make([]plotter.XYs, len(shades))
	for _, dot := range s.Dots {
		if dot.Slowdown > 0 {
			at := shadeOf(dot.Parallelism)
			xys[at] = append(xys[at], plotter.XY{X: dot.Tasks, Y: dot.Slowdown})
			d.span(dot.Slowdown)
		}
	}
	return nil, addDots(d.plot, xys, vg.Points(1.3), d.shown)
}

func nonNaN(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

// pale is a light shade of a colour.
func pale(c color.RGBA) color.RGBA {
	return color.RGBA{150 + c.R/5*2, 150 + c.G/5*2, 150 + c.B/5*2, 255}
}

func rectangle(left, right, low, high float64, colour color.RGBA) (*plotter.Polygon, error) {
	p, err := plotter.NewPolygon(plotter.XYs{{X: left, Y: low}, {X: left, Y: high}, {X: right, Y: high},
		{X: right, Y: low}})
	if err != nil {
		return nil, err
	}
	p.Color, p.LineStyle.Color, p.LineStyle.Width = colour, colour, vg.Points(0.5)
	return p, nil
}
