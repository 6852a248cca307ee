package report

import (
	"bytes"
	"cmp"
	"image/color"
	"math"
	"os"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"
)

// palette has the hues of Okabe and Ito, for colour-blind readers, each as light as no other: print
// in grey distinguishes them, too.
var palette = []color.RGBA{{0, 90, 170, 255}, {213, 92, 10, 255}, {90, 205, 140, 255}, {90, 15, 105, 255},
	{240, 190, 50, 255}, {70, 165, 225, 255}, {0, 0, 0, 255}, {115, 98, 15, 255}, {70, 5, 0, 255}}

func colourOf(i int) color.RGBA { return palette[i%len(palette)] }

// lightness is the grey of a colour in print, from 0 to 255.
func lightness(c color.RGBA) int { return (299*int(c.R) + 587*int(c.G) + 114*int(c.B)) / 1000 }

// upon is the colour of marks on another colour.
func upon(c color.RGBA) color.RGBA {
	if lightness(c) > 140 {
		return color.RGBA{A: 255}
	}
	return color.RGBA{255, 255, 255, 255}
}

// dashes and glyphs tell curves apart where colours do not. Their numbers have no factor in common: curves that share
// one of the three differ in the others.
var dashes = [][]vg.Length{nil, {6, 2}, {1.5, 2}, {8, 2, 1.5, 2}, {12, 3}, {8, 2, 1.5, 2, 1.5, 2}, {3, 3}}

func lineOf(i int) draw.LineStyle {
	return draw.LineStyle{Color: colourOf(i), Width: vg.Points(1), Dashes: dashes[i%len(dashes)]}
}

var glyphs = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.RingGlyph{},
	draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{},
	draw.PlusGlyph{}}

func markOf(i int) draw.GlyphStyle {
	return draw.GlyphStyle{Color: colourOf(i), Radius: vg.Points(3), Shape: glyphs[i%len(glyphs)]}
}

const (
	plotWidth  = 18 * vg.Centimeter // without the legend
	plotHeight = 11 * vg.Centimeter
	panelWidth = 8 * vg.Centimeter
	panelTall  = 6.5 * vg.Centimeter
	margin     = 3 * vg.Millimeter
	gap        = 4 * vg.Millimeter
	// resolution of PNG is that of print, in dots per inch.
	resolution = 200
)

// figure is rows of plots with the same axes, mostly one, below a title. Its legend stands beside them, where it hides
// nothing.
type figure struct {
	title  string
	rows   [][]*plot.Plot // nil where there is none; all rows are as long as the first
	legend plot.Legend
	named  bool // the legend has entries
	width  vg.Length
	height vg.Length // of the plots
	inset  vg.Length // to the left of them, where labels reach further than the axis
}

func newPlot(x, y string) *plot.Plot {
	pl := plot.New()
	pl.X.Label.Text, pl.Y.Label.Text = x, y
	pl.X.Tick.Marker, pl.Y.Tick.Marker = evenTicks{}, evenTicks{}
	pl.Title.Padding = vg.Millimeter
	pl.BackgroundColor = color.White
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color = color.Gray{225}
	pl.Add(grid)
	return pl
}

func (f *figure) name(text string, thumbs ...plot.Thumbnailer) {
	f.legend.Add(text, thumbs...)
	f.named = true
}

func (f *figure) draw(path, format string) error {
	style := f.rows[0][0].Title.TextStyle
	style.XAlign, style.YAlign = text.XCenter, text.YTop
	f.legend.Top, f.legend.Left, f.legend.Padding = true, true, vg.Millimeter
	f.legend.ThumbnailWidth = vg.Points(36) // for a dash and its gap
	beside := vg.Length(0)
	if f.named {
		beside = f.legend.Rectangle(draw.Canvas{}).Size().X + gap + margin
	}
	beside += f.inset
	title := wrap(f.title, f.width+beside, style)
	above := style.Rectangle(title).Size().Y + 2*vg.Millimeter
	w, h := f.width+beside+2*margin, f.height+above+2*margin
	var c vg.CanvasWriterTo = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(resolution))}
	switch format {
	case "svg":
		c = vgsvg.New(w, h)
	case "pdf":
		c = vgpdf.New(w, h)
	}
	whole := draw.NewCanvas(c, w, h)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	inner := draw.Crop(whole, margin, -margin, margin, -margin)
	inner.FillText(style, vg.Point{X: inner.Center().X, Y: inner.Max.Y}, title)
	below := draw.Crop(inner, 0, 0, 0, -above)
	if f.named {
		f.legend.Draw(draw.Crop(below, f.inset+f.width+gap, 0, 0, 0))
	}
	area := draw.Crop(below, f.inset, f.inset-beside, 0, 0)
	if len(f.rows) == 1 && len(f.rows[0]) == 1 {
		f.rows[0][0].Draw(area)
	} else {
		tiles := draw.Tiles{Rows: len(f.rows), Cols: len(f.rows[0]), PadX: gap, PadY: gap}
		for r, row := range plot.Align(f.rows, tiles, area) {
			for k, at := range row {
				if pl := f.rows[r][k]; pl != nil {
					pl.Draw(at)
				}
			}
		}
	}
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// wrap breaks lines at spaces where they are wider than a width.
func wrap(s string, width vg.Length, style text.Style) string {
	var lines []string
	for _, whole := range strings.Split(s, "\n") {
		line := ""
		for _, word := range strings.Fields(whole) {
			switch longer := line + " " + word; {
			case line == "":
				line = word
			case style.Width(longer) > width:
				lines, line = append(lines, line), word
			default:
				line = longer
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// slant turns the labels of an axis where they are too wide to stand side by side.
func (f *figure) slant(pl *plot.Plot, ticks []plot.Tick) {
	widest := vg.Length(0)
	for _, t := range ticks {
		widest = max(widest, pl.X.Tick.Label.Width(t.Label))
	}
	if vg.Length(len(ticks))*(widest+2*vg.Millimeter) > f.width {
		const angle = math.Pi / 6
		pl.X.Tick.Label.Rotation, pl.X.Tick.Label.XAlign, pl.X.Tick.Label.YAlign = angle, text.XRight, text.YTop
		// the first label has at least 1.5 cm beside the axis
		f.inset = max(0, vg.Length(math.Cos(angle))*widest-1.5*vg.Centimeter)
	}
}

// vertical makes a linear axis show values between two bounds, and zero, which is a line where some are below it.
func vertical(pl *plot.Plot, low, high float64) {
	if low >= 0 {
		pl.Y.Min, pl.Y.Max = 0, cmp.Or(high*1.04, 1) // some room at its end
		return
	}
	zero := plotter.NewFunction(func(float64) float64 { return 0 })
	zero.Width = vg.Points(0.5)
	pl.Add(zero)
	pl.Y.Min, pl.Y.Max = low*1.1, max(0, high*1.1)
}

// evenTicks stand at multiples of 1, 2 or 5 times a power of ten.
type evenTicks struct{}

func (evenTicks) Ticks(low, high float64) []plot.Tick {
	const about = 6
	if !(high > low) || math.IsInf(high-low, 0) {
		return []plot.Tick{{Value: low, Label: strconv.FormatFloat(low, 'g', 4, 64)}}
	}
	power := math.Floor(math.Log10((high - low) / about))
	step := math.Pow(10, power)
	for _, by := range []float64{1, 2, 5, 10} {
		if step = by * math.Pow(10, power); (high-low)/step <= about {
			if by == 10 {
				power++
			}
			break
		}
	}
	digits := max(0, int(-power))
	var out []plot.Tick
	for k := math.Ceil(low/step - 1e-9); k*step <= high+1e-9*step; k++ {
		at := k*step + 0 // never -0
		out = append(out, plot.Tick{Value: at, Label: strconv.FormatFloat(at, 'f', digits, 64)})
	}
	return out
}

// logTicks stand at 1 to 9 times each power of ten; those at 1, and at 2 and 5 where there are few powers, have labels.
type logTicks struct{}

func (logTicks) Ticks(low, high float64) []plot.Tick {
	few := high/low < 2000
	var out []plot.Tick
	for p := math.Floor(math.Log10(low)); p <= math.Log10(high); p++ {
		for k := 1.0; k < 10; k++ {
			x := k * math.Pow(10, p)
			if x < low*(1-1e-9) || x > high*(1+1e-9) {
				continue
			}
			label := ""
			if k == 1 || few && (k == 2 || k == 5) {
				label = strconv.FormatFloat(x, 'g', 4, 64)
			}
			out = append(out, plot.Tick{Value: x, Label: label})
		}
	}
	return out
}
