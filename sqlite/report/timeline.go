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
	Run, Policy string
	end         int64 // of the run, or so far
	makespan    int64 // -1: the run is under way
	nodes       []timelineNode
	flows       []timelineFlow
	bars        []bar
	held, used  [2][]change // of cores and memory
}

type timelineNode struct {
	Name              string
	Millicores, Bytes int64 // 0: unlimited
	rows              int   // attempts that were there at once
	first             int   // row
}

type timelineFlow struct {
	Name string
	Due  int64 // -1: none
}

// change is a step of the load of the nodes.
type change struct {
	At int64 // nanoseconds since the run began
	By int64
}

// bar is an attempt. Instants are nanoseconds since the run began; -1 is not known.
type bar struct {
	task, kind                   string
	flow, row, node              int
	from, started, to, plannedTo int64
	outcome                      string
	open                         bool // it is under way
	away                         [][2]int64
	merged                       bool // with narrow ones after it, for a picture
}

func (b *bar) failed() bool { return b.outcome != "" && b.outcome != "ok" && b.outcome != "preempted" }

// ReadTimeline reads the timeline of a run of the log.
func ReadTimeline(ctx context.Context, db *sqlite.DB, run string) (*Timeline, error) {
	h, err := history.Read(ctx, db, run, nil)
	if err != nil {
		return nil, err
	}
	t := &Timeline{Run: h.Name, Policy: h.Policy, end: h.Clock, makespan: -1}
	if h.Makespan != nil {
		t.makespan = *h.Makespan
	}
	row := 0
	for _, n := range h.Nodes {
		x := timelineNode{Name: shown.Line(n.Name), Millicores: n.Millicores, rows: max(1, n.Lanes), first: row}
		if n.Memory != nil {
			x.Bytes = *n.Memory
		}
		t.nodes, row = append(t.nodes, x), row+x.rows
	}
	for _, w := range h.Workflows {
		x := timelineFlow{shown.Line(w.Name), -1}
		if w.Due != nil {
			x.Due = *w.Due
		}
		t.flows = append(t.flows, x)
	}
	frozen := map[int][][2]int64{}
	for _, x := range h.Away {
		if x.How == "freeze" {
			frozen[x.Attempt] = append(frozen[x.Attempt], [2]int64{x.Since, x.Until})
		}
	}
	for i := range h.Attempts {
		if h.Attempts[i].Node >= 0 {
			t.add(h, &h.Attempts[i], frozen[i])
		}
	}
	for _, of := range [...]*[2][]change{&t.held, &t.used} {
		for _, changes := range of {
			slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.At, b.At) })
		}
	}
	return t, nil
}

// add adds an attempt: its bar, and the cores and memory that it held and used. A frozen task holds no core. Programs
// use the mean of their CPU time, and their peak of memory.
func (t *Timeline) add(h *history.Run, a *history.Attempt, frozen [][2]int64) {
	task := &h.Tasks[a.Task]
	b := bar{task: shown.Line(task.Name), kind: shown.Line(h.Kinds.Texts[task.Kind]), flow: task.Workflow, node: a.Node,
		row: t.nodes[a.Node].first + a.Lane, from: a.Queued, started: a.Started, to: max(a.End(t.end), a.Queued),
		plannedTo: a.Planned, outcome: h.Outcomes.Texts[a.Outcome], open: a.Ended < 0}
	step := func(of *[]change, from, to, by int64, ends bool) {
		if by != 0 && to > from {
			*of = append(*of, change{from, by})
			if ends {
				*of = append(*of, change{to, -by})
			}
		}
	}
	step(&t.held[0], a.Queued, b.to, a.Millicores, !b.open)
	step(&t.held[1], a.Queued, b.to, a.Memory, !b.open)
	for _, x := range frozen {
		x[1] = min(x[1], b.to)
		b.away = append(b.away, x)
		step(&t.held[0], x[0], x[1], -a.Millicores, !b.open || x[1] < t.end)
	}
	if ran := a.Ended - a.Started; a.Started >= 0 && ran > 0 {
		step(&t.used[0], a.Started, a.Ended, int64(1000*float64(max(0, a.CPU))/float64(ran)), true)
		step(&t.used[1], a.Started, a.Ended, max(0, a.Peak), true)
	}
	t.bars = append(t.bars, b)
}

func (t *Timeline) rows() int {
	if n := len(t.nodes); n > 0 {
		return t.nodes[n-1].first + t.nodes[n-1].rows
	}
	return 1
}

func (t *Timeline) title() string {
	s := t.Run
	if t.Policy != s {
		s += " (" + t.Policy + ")"
	}
	switch {
	case t.makespan < 0:
		return s + ": under way for " + span(t.end)
	case t.makespan < 1000e9:
		return fmt.Sprintf("%s: makespan %.4g s", s, float64(t.makespan)/1e9)
	}
	return s + ": makespan " + span(t.makespan)
}

// axis returns the label and the unit, in nanoseconds, of an axis of time up to an instant.
func axis(end int64) (label string, ns float64) {
	name, seconds := timeUnit(float64(end) / 1e9)
	return "time since the run began, " + name, seconds * 1e9
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
		for _, f := range t.flows {
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
			if _, known := work[b.kind]; !known {
				s.names = append(s.names, b.kind)
			}
			work[b.kind] += b.to - b.from
		}
	}
	slices.SortStableFunc(s.names, func(x, y string) int { return cmp.Compare(work[y], work[x]) })
	s.names = s.names[:min(len(s.names), mostShades)]
	return s
}

func (s *colouring) of(t *Timeline, b *bar) color.RGBA {
	name := b.kind
	if s.byFlow {
		name = t.flows[b.flow].Name
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
	for i := range l.nodes {
		if i > 0 {
			edge := y(float64(-l.nodes[i].first))
			c.StrokeLine2(draw.LineStyle{Color: color.Gray{200}, Width: vg.Points(0.5)}, c.Min.X, edge, c.Max.X, edge)
		}
	}
	tall := (y(0) - y(-1)).Points()
	room := vg.Points(min(3, tall*0.22)) // below a bar, for the plan
	edged := tall >= 5
	fill := func(from, to vg.Length, row int, colour color.RGBA) {
		top, bottom := y(float64(-row))-vg.Points(min(1, tall*0.1)), y(float64(-row-1))+room
		c.FillPolygon(colour, []vg.Point{{X: from, Y: bottom}, {X: to, Y: bottom}, {X: to, Y: top}, {X: from, Y: top}})
	}
	for _, b := range l.apart(at) {
		from, to, colour := at(b.from), at(b.to), l.colours.of(l.Timeline, &b)
		if b.merged {
			fill(from, max(to, from+thin), b.row, colour)
			continue
		}
		began := to
		if b.started >= 0 {
			began = min(max(at(b.started), from), to)
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
		if b.failed() {
			style := draw.LineStyle{Color: red, Width: vg.Points(min(1.5, max(0.4, tall*0.1)))}
			c.StrokeLine2(style, from, bottom+room, max(to, from+2), top)
			c.StrokeLine2(style, from, top, max(to, from+2), bottom+room)
		}
		if b.plannedTo >= 0 && tall >= 3 && (to-from).Points() > 1 {
			style := draw.LineStyle{Color: color.Black, Width: vg.Points(min(1, tall*0.1))}
			c.StrokeLine2(style, from, bottom+room/2, min(at(b.plannedTo), c.Max.X), bottom+room/2)
		}
		if name := l.fitting(b.task, to-from, tall); name != "" && !b.failed() {
			style := l.label
			style.Color = upon(colour)
			if began-from > (to-from)/2 {
				style.Color = color.Black
			}
			c.FillText(style, vg.Point{X: from + (to-from)/2, Y: bottom + room + (top-bottom-room)/2}, name)
		}
	}
	if l.colours.byFlow {
		for i, f := range l.flows {
			if f.Due >= 0 && at(f.Due) <= c.Max.X {
				style := dueLine
				style.Color, style.DashOffs = colourOf(slices.Index(l.colours.names, f.Name)), vg.Points(float64(2*i))
				c.StrokeLine2(style, at(f.Due), c.Min.Y, at(f.Due), c.Max.Y)
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
		b.merged = at(b.to)-at(b.from) < 4*thin && !b.failed()
		if i, ok := last[b.row]; ok && b.merged && out[i].merged && at(b.from)-at(out[i].to) < thin &&
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
	if tall < 10 || len(name) > 100 || l.label.Width(name)+2 > width {
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
		end, rows = max(end, t.end), max(rows, t.rows())
	}
	label, ns := axis(end)
	s := colouringOf(all)
	f := &figure{title: "Timelines", legend: plot.NewLegend(), width: 24 * vg.Centimeter}
	if len(all) == 1 {
		f.title = "Timeline of " + all[0].title()
	}
	for i, t := range all {
		pl := plot.New()
		pl.BackgroundColor = color.White
		pl.X.Label.Text = label
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
		f.name(shortened(name), solid{colourOf(i)})
	}
	f.marks(all, s)
	f.height = max(f.height, f.legend.Rectangle(draw.Canvas{}).Size().Y)
	data := [][]string{{"series", "node", "workflow", "task", "type", "ordered_s", "started_s", "ended_s",
		"planned_end_s", "outcome"}}
	for _, t := range all {
		for i := range t.bars {
			data = append(data, t.row(&t.bars[i]))
		}
	}
	p.save(f, csvOf(data), "timeline", "")
}

// row is an attempt in the data of a timeline; an unknown value is empty.
func (t *Timeline) row(b *bar) []string {
	to := b.to
	if b.open {
		to = -1
	}
	row := []string{t.Run, t.nodes[b.node].Name, t.flows[b.flow].Name, b.task, b.kind}
	for _, ns := range []int64{b.from, b.started, to, b.plannedTo} {
		text := ""
		if ns >= 0 {
			text = strconv.FormatFloat(float64(ns)/1e9, 'f', -1, 64)
		}
		row = append(row, text)
	}
	return append(row, b.outcome)
}

// marks explains the marks that are in use.
func (f *figure) marks(all []*Timeline, s *colouring) {
	due := func(x timelineFlow) bool { return x.Due >= 0 }
	for _, mark := range []struct {
		name string
		is   plot.Thumbnailer
		on   func(t *Timeline, b bar) bool
	}{
		{"other types", solid{grey}, func(t *Timeline, b bar) bool { return s.of(t, &b) == grey }},
		{"until its program runs", solid{pale(colourOf(0))}, func(_ *Timeline, b bar) bool {
			return b.started > b.from
		}},
		{"suspended", frame{}, func(_ *Timeline, b bar) bool { return len(b.away) > 0 }},
		{"failed", cross{}, func(_ *Timeline, b bar) bool { return b.failed() }},
		{"as planned", stroke{plannedLine}, func(_ *Timeline, b bar) bool { return b.plannedTo >= 0 }},
		{"deadline", stroke{dueLine}, func(t *Timeline, _ bar) bool {
			return s.byFlow && slices.ContainsFunc(t.flows, due)
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

// shortened bounds a name in a legend.
func shortened(name string) string {
	if r := []rune(name); len(r) > 30 {
		return string(r[:29]) + "…"
	}
	return name
}

// nodeTicks are the names of nodes at the middle of their rows, as far as there is room for them.
func (t *Timeline) nodeTicks() []plot.Tick {
	var out []plot.Tick
	last := math.Inf(1)
	apart := 9 / (timelineHeight(t.rows()) / float64(t.rows())) // rows that a line of text needs
	for _, n := range t.nodes {
		at := -float64(n.first) - float64(n.rows)/2
		if last-at >= apart {
			out = append(out, plot.Tick{Value: at, Label: shortened(n.Name)})
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
	for k, of := range []struct {
		name, used string
		unit       float64
		all        func(n timelineNode) int64
	}{{"cores", "used", 1e3, func(n timelineNode) int64 { return n.Millicores }},
		{"memory, GB", "peaks of tasks", 1e9, func(n timelineNode) int64 { return n.Bytes }}} {
		if k > 0 && len(t.held[k])+len(t.used[k]) == 0 {
			continue // the tasks asked for no memory
		}
		series := []Series{{Name: "held by tasks", Points: course(t.held[k], t.end, of.unit)},
			{Name: of.used, Points: course(t.used[k], t.end, of.unit)}}
		capacity := Interval{}
		for _, n := range t.nodes {
			capacity.Mean += float64(of.all(n)) / of.unit
			if of.all(n) == 0 {
				capacity.Mean = math.NaN() // unlimited
			}
		}
		if capacity.Mean > 0 {
			series = append(series, Series{Name: "capacity", Points: []ChartPoint{{Value: capacity},
				{X: float64(t.end) / 1e9, Value: capacity}}})
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
		if sum += c.By; i+1 == len(changes) || changes[i+1].At != c.At {
			points = append(points, ChartPoint{X: float64(c.At) / 1e9, Value: Interval{Mean: float64(sum) / unit}})
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
