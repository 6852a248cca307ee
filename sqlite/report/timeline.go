package report

import (
	"cmp"
	"context"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"gantry/sqlite"
	"gantry/sqlite/report/history"
	"gantry/trace/shown"
)

// Timeline is when the attempts of a run were where.
type Timeline struct {
	*history.Run
	first []int // by node: its first row
	bars  []bar
}

// bar is an attempt on a node, or several that are too narrow for a picture.
type bar struct {
	*history.Attempt
	row    int
	to     int64      // when it ended, or so far
	away   [][2]int64 // when it was frozen
	merged bool
}

// ReadTimeline reads the timeline of a run of the log.
func ReadTimeline(ctx context.Context, db *sqlite.DB, run string) (*Timeline, error) {
	h, err := history.Read(ctx, db, run, nil)
	if err != nil {
		return nil, err
	}
	return newTimeline(h), nil
}

func newTimeline(h *history.Run) *Timeline {
	shown.Names(&h.Nodes)
	shown.Names(&h.Workflows)
	shown.Names(&h.Kinds.Texts)
	t, row, away := &Timeline{Run: h}, 0, map[int][][2]int64{}
	for _, n := range h.Nodes {
		t.first, row = append(t.first, row), row+max(1, n.Lanes)
	}
	for _, x := range h.Away {
		if x.How == "freeze" {
			away[x.Attempt] = append(away[x.Attempt], [2]int64{x.Since, x.Until})
		}
	}
	for i := range h.Attempts {
		if a := &h.Attempts[i]; a.Node >= 0 {
			b := bar{a, t.first[a.Node] + a.Lane, max(a.End(h.Clock), a.Queued), away[i], false}
			for k := range b.away {
				b.away[k][1] = min(b.away[k][1], b.to)
			}
			t.bars = append(t.bars, b)
		}
	}
	return t
}

func (t *Timeline) kind(b *bar) string { return t.Kinds.Texts[t.Tasks[b.Task].Kind] }

func (t *Timeline) flow(b *bar) string { return t.Workflows[t.Tasks[b.Task].Workflow].Name }

func (t *Timeline) failed(b *bar) bool {
	return !slices.Contains([]string{"", "ok", "preempted"}, t.Outcomes.Texts[b.Outcome])
}

// change is a step of the load of the nodes.
type change struct{ at, by int64 } // at: nanoseconds since the run began

// load is the cores and the memory that attempts held, and used: of CPU time the mean, of memory the peak. A frozen
// task holds no core.
func (t *Timeline) load() (held, used [2][]change) {
	step := func(of *[]change, from, to, by int64, ends bool) {
		if by != 0 && to > from {
			*of = append(*of, change{from, by})
			if ends {
				*of = append(*of, change{to, -by})
			}
		}
	}
	for i := range t.bars {
		b := &t.bars[i]
		step(&held[0], b.Queued, b.to, b.Millicores, b.Ended >= 0)
		step(&held[1], b.Queued, b.to, b.Memory, b.Ended >= 0)
		for _, x := range b.away {
			step(&held[0], x[0], x[1], -b.Millicores, b.Ended >= 0 || x[1] < t.Clock)
		}
		if ran := b.Ended - b.Started; b.Started >= 0 && ran > 0 {
			step(&used[0], b.Started, b.Ended, int64(1000*float64(max(0, b.CPU))/float64(ran)), true)
			step(&used[1], b.Started, b.Ended, max(0, b.Peak), true)
		}
	}
	for _, all := range [...][]change{held[0], held[1], used[0], used[1]} {
		slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	}
	return held, used
}

func (t *Timeline) rows() int {
	if n := len(t.first); n > 0 {
		return t.first[n-1] + max(1, t.Nodes[n-1].Lanes)
	}
	return 1
}

func (t *Timeline) title() string {
	s := t.Name
	if t.Policy != s {
		s += " (" + t.Policy + ")"
	}
	switch {
	case t.Makespan == nil:
		return s + ": under way for " + span(t.Clock)
	case *t.Makespan < 1000e9:
		return fmt.Sprintf("%s: makespan %.4g s", s, float64(*t.Makespan)/1e9)
	}
	return s + ": makespan " + span(*t.Makespan)
}

// grey is the colour of bars without a colour of their own.
var grey = color.RGBA{215, 215, 215, 255}

// mostShades bounds the colours that a legend explains.
const mostShades = 7

// colouring colours bars: by workflow if there are a few, else by task type, the types with the most work first.
type colouring struct {
	names  []string // that have a colour
	byFlow bool
}

func colouringOf(all []*Timeline) *colouring {
	s := &colouring{}
	for _, t := range all {
		for _, f := range t.Workflows {
			if !slices.Contains(s.names, f.Name) && len(s.names) <= mostShades {
				s.names = append(s.names, f.Name)
			}
		}
	}
	if s.byFlow = len(s.names) > 1 && len(s.names) <= mostShades; s.byFlow {
		return s
	}
	s.names = nil
	work := map[string]int64{}
	for _, t := range all {
		for i := range t.bars {
			b := &t.bars[i]
			kind := t.kind(b)
			if _, known := work[kind]; !known {
				s.names = append(s.names, kind)
			}
			work[kind] += b.to - b.Queued
		}
	}
	slices.SortStableFunc(s.names, func(x, y string) int { return cmp.Compare(work[y], work[x]) })
	s.names = s.names[:min(len(s.names), mostShades)]
	return s
}

func (s *colouring) of(t *Timeline, b *bar) color.RGBA {
	name := t.kind(b)
	if s.byFlow {
		name = t.flow(b)
	}
	if i := slices.Index(s.names, name); i >= 0 {
		return colourOf(i)
	}
	return grey
}

// lanes draws the bars of a timeline: the time before the program ran is pale, suspensions are white, the thin line
// below a bar ends where the plan had its end. Attempts that failed have a red cross.
type lanes struct {
	*Timeline
	colours *colouring
	unit    float64
	label   text.Style
}

var red = color.RGBA{190, 20, 20, 255}

// Plot implements plot.Plotter.
func (l *lanes) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	at := func(ns int64) vg.Length { return x(float64(ns) / l.unit) }
	for _, row := range l.first[min(1, len(l.first)):] {
		edge := y(float64(-row))
		c.StrokeLine2(draw.LineStyle{Color: color.Gray{200}, Width: vg.Points(0.5)}, c.Min.X, edge, c.Max.X, edge)
	}
	tall := (y(0) - y(-1)).Points()
	room := vg.Points(min(3, tall*0.22)) // below a bar, for the plan
	edged := tall >= 5
	fill := func(from, to vg.Length, row int, colour color.RGBA) {
		top, bottom := y(float64(-row))-vg.Points(min(1, tall*0.1)), y(float64(-row-1))+room
		c.FillPolygon(colour, []vg.Point{{X: from, Y: bottom}, {X: to, Y: bottom}, {X: to, Y: top}, {X: from, Y: top}})
	}
	for _, b := range l.apart(at) {
		from, to, colour := at(b.Queued), at(b.to), l.colours.of(l.Timeline, &b)
		if b.merged {
			fill(from, max(to, from+thin), b.row, colour)
			continue
		}
		began := to
		if b.Started >= 0 {
			began = min(max(at(b.Started), from), to)
		}
		if edged && (to-from).Points() > 2 {
			to -= vg.Points(0.5) // a gap between a task and the next
			began = min(began, to)
		}
		fill(from, began, b.row, pale(colour))
		fill(began, to, b.row, colour)
		for _, s := range b.away {
			fill(min(at(s[0]), to), min(at(s[1]), to), b.row, color.RGBA{255, 255, 255, 255})
		}
		top, bottom := y(float64(-b.row)), y(float64(-b.row-1))
		failed := l.failed(&b)
		if failed {
			style := draw.LineStyle{Color: red, Width: vg.Points(min(1.5, max(0.4, tall*0.1)))}
			c.StrokeLine2(style, from, bottom+room, max(to, from+2), top)
			c.StrokeLine2(style, from, top, max(to, from+2), bottom+room)
		}
		if b.Planned >= 0 && tall >= 3 && (to-from).Points() > 1 {
			style := draw.LineStyle{Color: color.Black, Width: vg.Points(min(1, tall*0.1))}
			c.StrokeLine2(style, from, bottom+room/2, min(at(b.Planned), c.Max.X), bottom+room/2)
		}
		if name := l.fitting(l.Tasks[b.Task].Name, to-from, tall); name != "" && !failed {
			style := l.label
			style.Color = upon(colour)
			if began-from > (to-from)/2 {
				style.Color = color.Black
			}
			c.FillText(style, vg.Point{X: from + (to-from)/2, Y: bottom + room + (top-bottom-room)/2}, name)
		}
	}
	if l.colours.byFlow {
		for i, f := range l.Workflows {
			if f.Due != nil && at(*f.Due) <= c.Max.X {
				style := dueLine
				style.Color, style.DashOffs = colourOf(slices.Index(l.colours.names, f.Name)), vg.Points(float64(2*i))
				c.StrokeLine2(style, at(*f.Due), c.Min.Y, at(*f.Due), c.Max.Y)
			}
		}
	}
}

// thin is the least width of a bar, in points.
const thin = 0.25

// apart are the bars, of which those that are too narrow to be distinguished are one.
func (l *lanes) apart(at func(ns int64) vg.Length) (out []bar) {
	last := map[int]int{} // of each row, in out
	for _, b := range l.bars {
		b.merged = at(b.to)-at(b.Queued) < 4*thin && !l.failed(&b)
		if i, ok := last[b.row]; ok && b.merged && out[i].merged && at(b.Queued)-at(out[i].to) < thin &&
			l.colours.of(l.Timeline, &out[i]) == l.colours.of(l.Timeline, &b) {
			out[i].to = max(out[i].to, b.to)
			continue
		}
		last[b.row] = len(out)
		out = append(out, b)
	}
	return out
}

// fitting is a name that has room in a bar, or nothing.
func (l *lanes) fitting(name string, width vg.Length, tall float64) string {
	if name = shown.Line(name); tall < 10 || len(name) > 100 || l.label.Width(name)+2 > width {
		return ""
	}
	return name
}

// timelineHeight is the height of a panel with n rows, in points.
func timelineHeight(rows int) float64 {
	return min(1200, max(60, float64(rows)*min(18, max(1.2, 420/float64(rows)))))
}

// timelines draws the timelines of runs one below the other, on one axis.
func (p *painter) timelines(all []*Timeline) {
	end, rows := int64(1), 1
	for _, t := range all {
		end, rows = max(end, t.Clock), max(rows, t.rows())
	}
	unit, seconds := timeUnit(float64(end) / 1e9)
	ns := seconds * 1e9
	s := colouringOf(all)
	f := &figure{title: "Timelines", legend: plot.NewLegend(), width: 24 * vg.Centimeter}
	if len(all) == 1 {
		f.title = "Timeline of " + all[0].title()
	}
	for i, t := range all {
		pl := plot.New()
		pl.BackgroundColor = color.White
		pl.X.Label.Text = "time since the run began, " + unit
		if len(all) > 1 {
			pl.Title.Text, pl.Title.Padding = t.title(), vg.Millimeter
			if i < len(all)-1 {
				pl.X.Label.Text = ""
			}
		}
		pl.X.Tick.Marker, pl.X.Min, pl.X.Max = evenTicks{}, 0, float64(end)/ns*1.01
		pl.Y.Min, pl.Y.Max, pl.Y.Padding = -float64(t.rows()), 0, vg.Points(2)
		pl.Y.Tick.Marker, pl.Y.Tick.Length = plot.ConstantTicks(t.nodeTicks()), 0
		style := pl.X.Tick.Label
		style.Font.Size, style.XAlign, style.YAlign = vg.Points(7.5), text.XCenter, text.YCenter
		pl.Add(&lanes{t, s, ns, style})
		f.rows = append(f.rows, []*plot.Plot{pl})
		f.height += vg.Points(timelineHeight(rows) + 45)
	}
	for i, name := range s.names {
		f.name(shown.Short(name, mostNamed), solid{colourOf(i)})
	}
	f.marks(all, s)
	f.height = max(f.height, f.legend.Rectangle(draw.Canvas{}).Size().Y)
	data := [][]string{{"series", "node", "workflow", "task", "type", "ordered_s", "started_s", "ended_s",
		"planned_end_s", "outcome"}}
	for _, t := range all {
		for i := range t.bars {
			data = append(data, t.data(&t.bars[i]))
		}
	}
	p.save(f, csvOf(data), "timeline", "")
}

// data is an attempt in the data of a timeline; an unknown value is empty.
func (t *Timeline) data(b *bar) []string {
	to := b.to
	if b.Ended < 0 {
		to = -1
	}
	row := []string{t.Name, t.Nodes[b.Node].Name, t.flow(b), shown.Line(t.Tasks[b.Task].Name), t.kind(b)}
	for _, ns := range []int64{b.Queued, b.Started, to, b.Planned} {
		text := ""
		if ns >= 0 {
			text = strconv.FormatFloat(float64(ns)/1e9, 'f', -1, 64)
		}
		row = append(row, text)
	}
	return append(row, t.Outcomes.Texts[b.Outcome])
}

// marks explains the marks that are in use.
func (f *figure) marks(all []*Timeline, s *colouring) {
	due := func(x history.Workflow) bool { return x.Due != nil }
	for _, mark := range []struct {
		name string
		is   plot.Thumbnailer
		on   func(t *Timeline, b bar) bool
	}{
		{"other types", solid{grey}, func(t *Timeline, b bar) bool { return s.of(t, &b) == grey }},
		{"until its program runs", solid{pale(colourOf(0))}, func(_ *Timeline, b bar) bool {
			return b.Started > b.Queued
		}},
		{"suspended", frame{}, func(_ *Timeline, b bar) bool { return len(b.away) > 0 }},
		{"failed", cross{}, func(t *Timeline, b bar) bool { return t.failed(&b) }},
		{"as planned", stroke{plannedLine}, func(_ *Timeline, b bar) bool { return b.Planned >= 0 }},
		{"deadline", stroke{dueLine}, func(t *Timeline, _ bar) bool {
			return s.byFlow && slices.ContainsFunc(t.Workflows, due)
		}},
	} {
		if slices.ContainsFunc(all, func(t *Timeline) bool {
			return slices.ContainsFunc(t.bars, func(b bar) bool { return mark.on(t, b) })
		}) {
			f.name(mark.name, mark.is)
		}
	}
}

var (
	plannedLine = draw.LineStyle{Color: color.Black, Width: vg.Points(1)}
	dueLine     = draw.LineStyle{Color: color.Black, Width: vg.Points(1.2), Dashes: []vg.Length{4, 2}}
)

// mostNamed is how many characters a name beside a timeline has.
const mostNamed = 30

// nodeTicks are the names of nodes at the middle of their rows, as far as there is room for them.
func (t *Timeline) nodeTicks() []plot.Tick {
	var out []plot.Tick
	last := math.Inf(1)
	apart := 9 / (timelineHeight(t.rows()) / float64(t.rows())) // rows that a line of text needs
	for i, n := range t.Nodes {
		at := -float64(t.first[i]) - float64(max(1, n.Lanes))/2
		if last-at >= apart {
			out = append(out, plot.Tick{Value: at, Label: shown.Short(n.Name, mostNamed)})
			last = at
		}
	}
	return out
}

// Thumbnails of legends.
type (
	solid  struct{ color color.Color }
	frame  struct{}
	cross  struct{}
	stroke struct{ style draw.LineStyle }
)

func corners(c *draw.Canvas) []vg.Point {
	return []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}}
}

func (s solid) Thumbnail(c *draw.Canvas) { c.FillPolygon(s.color, corners(c)) }

func (frame) Thumbnail(c *draw.Canvas) {
	c.StrokeLines(draw.LineStyle{Color: color.Gray{120}, Width: vg.Points(0.5)}, append(corners(c), c.Min))
}

func (cross) Thumbnail(c *draw.Canvas) {
	style := draw.LineStyle{Color: red, Width: vg.Points(1.5)}
	c.StrokeLine2(style, c.Min.X, c.Min.Y, c.Max.X, c.Max.Y)
	c.StrokeLine2(style, c.Min.X, c.Max.Y, c.Max.X, c.Min.Y)
}

func (s stroke) Thumbnail(c *draw.Canvas) {
	c.StrokeLine2(s.style, c.Min.X, c.Center().Y, c.Max.X, c.Center().Y)
}

// utilisation draws the cores and the memory of all nodes over time: the capacity, and the amounts that tasks held and
// used.
func (p *painter) utilisation(t *Timeline) {
	chart := &Chart{Title: "Utilisation of " + t.title(), Kind: "steps"}
	held, used := t.load()
	for k, of := range []struct {
		name, used string
		unit       float64
		all        func(n history.Node) int64 // 0: unlimited
	}{{"cores", "used", 1e3, func(n history.Node) int64 { return n.Millicores }},
		{"memory, GB", "peaks of tasks", 1e9, func(n history.Node) int64 { return *cmp.Or(n.Memory, new(int64)) }}} {
		if k > 0 && len(held[k])+len(used[k]) == 0 {
			continue // the tasks asked for no memory
		}
		series := []Series{{Name: "held by tasks", Points: course(held[k], t.Clock, of.unit)},
			{Name: of.used, Points: course(used[k], t.Clock, of.unit)}}
		capacity := Interval{}
		for _, n := range t.Nodes {
			capacity.Mean += float64(of.all(n)) / of.unit
			if of.all(n) == 0 {
				capacity.Mean = math.NaN() // unlimited
			}
		}
		if capacity.Mean > 0 {
			series = append(series, Series{Name: "capacity", Points: []ChartPoint{{Value: capacity},
				{X: float64(t.Clock) / 1e9, Value: capacity}}})
		}
		chart.Panels = append(chart.Panels, overTime("", of.name, series...).Panels...)
	}
	p.chart(chart, "utilisation", "")
}

// bins bounds the points of a course; beyond it, they are means over as many spans of equal length.
const bins = 1000

// course sums changes up, to the number from each instant on.
func course(changes []change, end int64, unit float64) (points []ChartPoint) {
	sum, last := int64(0), float64(end)/1e9
	for i, c := range changes {
		if sum += c.by; i+1 == len(changes) || changes[i+1].at != c.at {
			points = append(points, ChartPoint{X: float64(c.at) / 1e9, Value: Interval{Mean: float64(sum) / unit}})
		}
	}
	if len(points) > 2*bins {
		points = means(points, last)
	}
	if n := len(points); n > 0 {
		points = append(points, ChartPoint{X: last, Value: points[n-1].Value})
	}
	return points
}

// means are the means of a course over spans of equal length.
func means(points []ChartPoint, end float64) []ChartPoint {
	wide, out := end/bins, make([]ChartPoint, bins)
	for k := range out {
		out[k].X = float64(k) * wide
	}
	for i, s := range points {
		until := end
		if i+1 < len(points) {
			until = points[i+1].X
		}
		for k := int(s.X / wide); k < bins && out[k].X < until; k++ {
			from, to := max(s.X, out[k].X), min(until, float64(k+1)*wide)
			out[k].Value.Mean += s.Value.Mean * max(0, to-from) / wide
		}
	}
	return out
}
