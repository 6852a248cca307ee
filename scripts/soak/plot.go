package main

import (
	"bytes"
	"image/color"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// draw plots each quantity over the attempts, a panel each.
func (m *meter) draw(path, title string) error {
	const width, height, columns = 24 * vg.Centimeter, 26 * vg.Centimeter, 2
	rows := (quantities + columns - 1) / columns
	panels := make([][]*plot.Plot, rows)
	for i, q := range sampled {
		p := plot.New()
		p.Title.Text = q.label
		if q.unit != "" {
			p.Title.Text += " (" + q.unit + ")"
		}
		p.X.Label.Text, p.Y.Min = "attempts", 0
		points := make(plotter.XYs, len(m.samples))
		for k, s := range m.samples {
			points[k].X, points[k].Y = float64(s.attempts), s.values[i]
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.Color = color.RGBA{R: 31, G: 119, B: 180, A: 255}
		p.Add(plotter.NewGrid(), line)
		p.Y.Min = 0
		panels[i/columns] = append(panels[i/columns], p)
	}
	for len(panels[rows-1]) < columns {
		panels[rows-1] = append(panels[rows-1], nil)
	}
	canvas := vgsvg.New(width, height)
	whole := draw.NewCanvas(canvas, width, height)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	style := panels[0][0].Title.TextStyle
	style.XAlign, style.YAlign = draw.XCenter, draw.YTop
	inner := draw.Crop(whole, 5*vg.Millimeter, -8*vg.Millimeter, 4*vg.Millimeter, -4*vg.Millimeter)
	inner.FillText(style, vg.Point{X: inner.Center().X, Y: inner.Max.Y}, title)
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: 8 * vg.Millimeter, PadY: 6 * vg.Millimeter}
	for r, row := range plot.Align(panels, tiles, draw.Crop(inner, 0, 0, 0, -8*vg.Millimeter)) {
		for c, at := range row {
			if panels[r][c] != nil {
				panels[r][c].Draw(at)
			}
		}
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
