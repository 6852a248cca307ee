package report

import (
	"bytes"
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
	_ "gonum.org/v1/plot/vg/vgimg" // PNG
	_ "gonum.org/v1/plot/vg/vgsvg" // SVG

	"gantry/executor/metrics"
	"gantry/sqlite/results"
)

// palette is that of Okabe and Ito, which people who do not tell all colours apart can read.
var palette = []color.RGBA{{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {230, 159, 0, 255}, {86, 180, 233, 255},
	{0, 0, 0, 255}, {150, 140, 20, 255}}

func colourOf(i int) color.RGBA { return palette[i%len(palette)] }

const (
	width  = 18 * vg.Centimeter
	height = 11 * vg.Centimeter
	// maxPoints bounds the dots of a scatter plot, so that files stay small and open quickly.
	maxPoints = 5000
)

// painter draws the figures of an experiment.
type painter struct {
	ctx   context.Context
	db    *results.DB
	dir   string
	name  string
	files []string
	taken map[string]bool
}

// Figures draws all that the results allow into dir, each as SVG and PNG, and returns the files: box plots of slowdown and its standard
// deviation against the factor of each error model, slowdown against utilisation and against size, and the number in system over time.
func Figures(ctx context.Context, db *results.DB, dir string) ([]string, error) {
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
		if err := p.deviations(g); err != nil {
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
	return p.files, p.deadlines(cells)
}

// save writes a figure in both formats.
func (p *painter) save(pl *plot.Plot, kind, title string) error {
	base := slug(p.name + " " + kind + " " + title)
	for n := 2; p.taken[base]; n++ {
		base = fmt.Sprintf("%s-%d", slug(p.name+" "+kind+" "+title), n)
	}
	p.taken[base] = true
	for _, ending := range []string{".svg", ".png"} {
		path := filepath.Join(p.dir, base+ending)
		if err := drawTo(pl, path, ending[1:]); err != nil {
			return fmt.Errorf("figure %s: %w", path, err)
		}
		p.files = append(p.files, path)
	}
	return nil
}

// drawTo draws a figure with a margin.
func drawTo(pl *plot.Plot, path, format string) error {
	c, err := draw.NewFormattedCanvas(width, height, format)
	if err != nil {
		return err
	}
	whole := draw.New(c)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	const margin = 3 * vg.Millimeter
	pl.Draw(draw.Crop(whole, margin, -margin, margin, -margin))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
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

func newPlot(title, x, y string) *plot.Plot {
	pl := plot.New()
	pl.Title.Text, pl.X.Label.Text, pl.Y.Label.Text = title, x, y
	pl.Title.Padding = vg.Millimeter
	pl.Legend.Top, pl.Legend.Left = true, false
	pl.Legend.XOffs, pl.Legend.YOffs = -vg.Millimeter, -vg.Millimeter
	pl.BackgroundColor = color.White
	return pl
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

// boxes draws a box of slowdowns for each policy and error factor: quartiles and median, whiskers to the 5th and 95th percentile, a dot at
// the mean; each the mean over repetitions.
func (p *painter) boxes(g group) error {
	kinds, of := byErrors(g.cells)
	for _, kind := range kinds {
		pl := newPlot(titled("Slowdown, errors "+kind+" (box: quartiles, whiskers: 5 % to 95 %, dot: mean)", g.title), "", "slowdown")
		names := policies(of[kind])
		var ticks []plot.Tick
		low, high, at := math.Inf(1), 0.0, 0.0
		for i, name := range names {
			from := at
			for _, c := range of[kind] {
				if policyOf(c) != name || len(c.Sample("slowdown_median")) == 0 {
					continue
				}
				b, err := box(c, at, colourOf(i))
				if err != nil {
					return err
				}
				dot, err := plotter.NewScatter(plotter.XYs{{X: at, Y: mean(c, "slowdown_mean")}})
				if err != nil {
					return err
				}
				dot.GlyphStyle = draw.GlyphStyle{Color: color.Black, Radius: vg.Points(2), Shape: draw.CircleGlyph{}}
				pl.Add(b, dot)
				low, high = min(low, b.AdjLow), max(high, b.AdjHigh, mean(c, "slowdown_mean"))
				_, f := errorOf(c)
				label := "none"
				if !math.IsNaN(f) {
					label = strconv.FormatFloat(f, 'g', -1, 64)
				}
				ticks = append(ticks, plot.Tick{Value: at, Label: label})
				at++
			}
			if at == from {
				continue
			}
			// The name of the policy stands below the middle of its boxes.
			ticks[len(ticks)-int(at-from)+int(at-from-1)/2].Label += "\n" + name
			at++
		}
		if len(ticks) == 0 {
			continue
		}
		pl.X.Tick.Marker = plot.ConstantTicks(ticks)
		if high > 10*low && low > 0 {
			pl.Y.Scale, pl.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		}
		pl.Add(horizontal())
		if err := p.save(pl, "slowdown", kind+" "+g.title); err != nil {
			return err
		}
	}
	return nil
}

func box(c *results.Cell, at float64, colour color.RGBA) (*plotter.BoxPlot, error) {
	median := mean(c, "slowdown_median")
	b, err := plotter.NewBoxPlot(vg.Points(11), at, plotter.Values{median})
	if err != nil {
		return nil, err
	}
	b.Median, b.Quartile1, b.Quartile3 = median, mean(c, "slowdown_p25"), mean(c, "slowdown_p75")
	b.AdjLow, b.AdjHigh = mean(c, "slowdown_p5"), mean(c, "slowdown_p95")
	b.Min, b.Max = b.AdjLow, b.AdjHigh
	pale := colour
	pale.R, pale.G, pale.B = 128+pale.R/2, 128+pale.G/2, 128+pale.B/2
	b.FillColor = pale
	b.BoxStyle.Color, b.WhiskerStyle.Color = colour, colour
	b.WhiskerStyle.Dashes = nil
	return b, nil
}

func horizontal() *plotter.Grid {
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color = color.Gray{220}
	return grid
}

// withIntervals is a line through means with their confidence intervals.
type withIntervals struct {
	plotter.XYs
	plotter.YErrors
}

func (p *painter) curve(pl *plot.Plot, i int, name string, points withIntervals) error {
	line, dots, err := plotter.NewLinePoints(points.XYs)
	if err != nil {
		return err
	}
	bars, err := plotter.NewYErrorBars(points)
	if err != nil {
		return err
	}
	line.Color, dots.Color, bars.Color = colourOf(i), colourOf(i), colourOf(i)
	dots.Shape, dots.Radius = draw.CircleGlyph{}, vg.Points(2.5)
	pl.Add(line, dots, bars)
	pl.Legend.Add(name, line, dots)
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

// deviations draws the standard deviation of slowdown against the factor of each error model. Results without errors stand at the left.
func (p *painter) deviations(g group) error {
	kinds, of := byErrors(g.cells)
	for _, kind := range kinds {
		var ticks []plot.Tick
		at := map[float64]float64{}
		for _, c := range of[kind] {
			_, f := errorOf(c)
			if math.IsNaN(f) {
				f = 0
			}
			if _, ok := at[f]; !ok {
				at[f] = float64(len(ticks))
				label := strconv.FormatFloat(f, 'g', -1, 64)
				if f == 0 {
					label = "none"
				}
				ticks = append(ticks, plot.Tick{Value: at[f], Label: label})
			}
		}
		if len(ticks) < 2 {
			continue
		}
		pl := newPlot(titled("Standard deviation of slowdown, errors "+kind, g.title), "error factor", "standard deviation (bars: 95 % intervals)")
		pl.X.Tick.Marker = plot.ConstantTicks(ticks)
		pl.X.Min, pl.X.Max = -0.4, float64(len(ticks))-0.3
		names := policies(of[kind])
		for i, name := range names {
			var points withIntervals
			beside := 0.05 * (float64(i) - float64(len(names)-1)/2) // bars do not hide each other
			for _, c := range of[kind] {
				if policyOf(c) == name {
					_, f := errorOf(c)
					if math.IsNaN(f) {
						f = 0
					}
					points.add(at[f]+beside, c.Sample("slowdown_sd"))
				}
			}
			if len(points.XYs) > 0 {
				if err := p.curve(pl, i, name, points); err != nil {
					return err
				}
			}
		}
		pl.Add(horizontal())
		if err := p.save(pl, "deviation", kind+" "+g.title); err != nil {
			return err
		}
	}
	return nil
}

// utilisations draws mean slowdown against the imposed utilisation, where that was varied.
func (p *painter) utilisations(g group) error {
	pl := newPlot(titled("Mean slowdown", g.title), "imposed utilisation", "mean slowdown (bars: 95 % intervals)")
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
		if err := p.curve(pl, i, name, points); err != nil {
			return err
		}
	}
	if most < 2 {
		return nil
	}
	pl.Legend.Left = true
	pl.Add(horizontal())
	return p.save(pl, "utilisation", g.title)
}

// shades are for classes of parallelism, from 1 to 2 on, each twice the one before; the last has all above.
var shades = []color.NRGBA{{253, 201, 38, 255}, {251, 159, 58, 255}, {237, 121, 83, 255}, {216, 87, 107, 255}, {168, 34, 150, 255}, {92, 1, 166, 255},
	{13, 8, 135, 255}}

// shadeOf is the class of a parallelism.
func shadeOf(parallelism float64) int {
	return max(0, min(len(shades)-1, int(math.Log2(max(1, parallelism)))))
}

// scatter draws slowdown against size, a figure per policy, without errors if there are such cells. Colours tell how parallel workflows are.
func (p *painter) scatter(g group) error {
	kinds, of := byErrors(g.cells)
	cells := of[kinds[0]]
	for _, name := range policies(cells) {
		c := cells[slices.IndexFunc(cells, func(c *results.Cell) bool { return policyOf(c) == name })]
		points, err := p.db.Slowdowns(p.ctx, c.ID)
		if err != nil {
			return err
		}
		if len(points) == 0 {
			continue
		}
		what := fmt.Sprintf("Slowdown against size, %s, %s", name, cmp.Or(c.Params["errors"], "none"))
		step := (len(points) + maxPoints - 1) / maxPoints
		xys := make([]plotter.XYs, len(shades))
		high := 0.0
		for k := 0; k < len(points); k += step {
			s := shadeOf(points[k].Parallelism)
			xys[s] = append(xys[s], plotter.XY{X: points[k].Tasks, Y: points[k].Slowdown})
			high = max(high, points[k].Slowdown)
		}
		if step > 1 {
			what += fmt.Sprintf(" (one workflow of %d)", step)
		}
		pl := newPlot(titled(what, g.title), "tasks", "slowdown")
		pl.Add(horizontal())
		for s, xys := range xys {
			if len(xys) == 0 {
				continue
			}
			dots, err := plotter.NewScatter(xys)
			if err != nil {
				return err
			}
			dots.GlyphStyle = draw.GlyphStyle{Color: shades[s], Radius: vg.Points(1.3), Shape: draw.CircleGlyph{}}
			pl.Add(dots)
			class := fmt.Sprintf("parallelism %d to %d", 1<<s, 2<<s)
			if s == len(shades)-1 {
				class = fmt.Sprintf("parallelism over %d", 1<<s)
			}
			pl.Legend.Add(class, dots)
		}
		sample := make([]float64, len(points))
		for k := range points {
			sample[k] = points[k].Slowdown
		}
		s := metrics.Summarise(sample)
		for _, l := range []struct {
			name   string
			y      float64
			dashes []vg.Length
		}{{"mean", s.Mean, nil}, {"median", s.Median, []vg.Length{vg.Points(4), vg.Points(3)}}} {
			line := plotter.NewFunction(func(float64) float64 { return l.y })
			line.Dashes = l.dashes
			pl.Add(line)
			pl.Legend.Add(fmt.Sprintf("%s %.3g", l.name, l.y), line)
		}
		if high > 10 {
			pl.Y.Scale, pl.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
			pl.Y.Min, pl.Y.Max = max(pl.Y.Min, 0.1), high*high/10 // the legend stands above the dots
		} else {
			pl.Y.Max = 1.6 * high
		}
		if err := p.save(pl, "size", name+" "+g.title); err != nil {
			return err
		}
	}
	return nil
}

// inSystem draws the number of workflows in the system over time in the first repetition, a line per policy.
func (p *painter) inSystem(g group) error {
	pl := newPlot(titled("Workflows in the system, first repetition", g.title), "time (h)", "workflows")
	drawn := false
	for i, name := range policies(g.cells) {
		c := g.cells[slices.IndexFunc(g.cells, func(c *results.Cell) bool { return policyOf(c) == name })]
		series, err := p.db.Series(p.ctx, c.ID, 0)
		if err != nil {
			return err
		}
		if len(series) < 2 {
			continue
		}
		xys := make(plotter.XYs, len(series))
		for k, s := range series {
			xys[k] = plotter.XY{X: s.At.Seconds() / 3600, Y: float64(s.N)}
		}
		line, err := plotter.NewLine(xys)
		if err != nil {
			return err
		}
		line.StepStyle, line.Color, line.Width = plotter.PostStep, colourOf(i), vg.Points(0.8)
		pl.Add(line)
		pl.Legend.Add(name, line)
		drawn = true
	}
	if !drawn {
		return nil
	}
	pl.Add(horizontal())
	return p.save(pl, "in-system", g.title)
}

// ShareFigure draws the dominant share of each tenant of a run over time into dir, as SVG and PNG, and returns the files.
func ShareFigure(run string, shares []metrics.Shares, dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	p := &painter{dir: dir, name: run, taken: map[string]bool{}}
	pl := newPlot("Dominant shares of tenants, "+run, "time (s)", "share")
	for i, s := range shares {
		xys := make(plotter.XYs, len(s.Points))
		for k, x := range s.Points {
			xys[k] = plotter.XY{X: x.At.Seconds(), Y: x.Share}
		}
		if len(xys) < 2 {
			continue
		}
		line, err := plotter.NewLine(xys)
		if err != nil {
			return nil, err
		}
		line.StepStyle, line.Color, line.Width = plotter.PostStep, colourOf(i), vg.Points(0.8)
		pl.Add(line)
		pl.Legend.Add(s.Tenant, line)
	}
	pl.Y.Min = 0
	pl.Add(horizontal())
	err := p.save(pl, "shares", "")
	return p.files, err
}
