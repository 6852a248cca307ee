package study

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"

	"gantry/executor/experiment"
	"gantry/executor/experiment/metrics"
	"gantry/sqlite/report"
	"gantry/sqlite/report/results"
)

//go:embed page.css
var style string

// Page is made of studies and their results.
type Page struct {
	Studies []*Study
	Sets    []*results.Set
	Figures string // directory that figures are drawn into, and linked from; "": no figures
	Command string // that makes the page; "": not said
}

func (p *Page) data() data {
	d := data{}
	for _, s := range p.Sets {
		d[s.Name] = s
	}
	return d
}

// Markdown returns the page: that of the template of a single study, else the relations of each study, or the tables
// and figures of the results if there is no study.
func (p *Page) Markdown() ([]byte, error) {
	if p.Figures != "" {
		if err := os.MkdirAll(p.Figures, 0o755); err != nil {
			return nil, &OutputError{err}
		}
	}
	if len(p.Studies) == 1 && p.Studies[0].Page != "" {
		return p.templated(p.Studies[0])
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# What papers say, and what was measured\n\n%s\n", legend)
	if p.Command != "" {
		fmt.Fprintf(&b, "\nMade by `%s`.\n", p.Command)
	}
	for _, s := range p.Studies {
		w := writer{p, s, p.data()}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n%s\n%s\n%s", s.Short, s.Paper, w.Summary(), w.Relations(), w.Sources())
	}
	return b.Bytes(), nil
}

const legend = `Numbers are means over repetitions with 95 % confidence intervals by Student's t; differences
are paired, repetition by repetition on the same load. A verdict is computed: *agrees*, *agrees in sign* (the
difference lies on the paper's side of zero, but neither within a quarter of the paper's figure, or the part
that a reading says, nor with it in its interval), *not decided* (beside it the number of repetitions that would
decide, if mean and deviation stay), *disagrees* (the other sign, the same digits in all repetitions, or neither
the paper's sign nor its figure within a quarter of the interval). What the paper calls the same is tested for
equivalence, by two one-sided tests at 5 %. A statement agrees if all of its comparisons do: a conjunction needs
no correction. It disagrees if a comparison contradicts it by Holm's correction for as many as it has. One that
says typically or in most cases agrees if more than half of its comparisons do and none contradicts it. A system
counts as stable by the rule of Ilyushkin and Epema: each of two tests holds in two thirds of the runs or more;
Wilson's 95 % interval of the share that passes both stands beside it. Statements that cannot fail, or not by
our data, are marked and never counted as agreeing: *fitted* (parameters were chosen for it), *identity* (true
by construction), *bound* (so far away that nothing is tested), *contradictory* (the paper says the contrary,
too). In tables, [5] are the repetitions there are, if some are missing. Of builds, "b repeated 4 of a" says
that build b simulated four runs of build a again and got the same digits, those of the clock excepted.`

func (p *Page) templated(s *Study) ([]byte, error) {
	path := filepath.Join(s.dir, s.Page)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	w := writer{p, s, p.data()}
	t, err := template.New(filepath.Base(path)).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("template %s: %w", path, err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, w); err != nil {
		return nil, fmt.Errorf("template %s: %w", path, err)
	}
	return b.Bytes(), nil
}

// writer has the methods that templates call.
type writer struct {
	page *Page
	s    *Study
	d    data
}

// Legend says how numbers and verdicts are made.
func (w writer) Legend() string { return legend }

// Command is the command that made the page.
func (w writer) Command() string { return w.page.Command }

// Sources is a table of the experiments: files, builds, repetitions, time.
func (w writer) Sources() string {
	rows := [][]string{{"experiment", "shows", "repetitions", "build", "run (UTC)", "simulated in"}}
	for _, x := range w.experiments() {
		set := w.d[x.Name]
		if set == nil {
			rows = append(rows, []string{"`" + x.File + "`", cell(x.Shows), "none yet", "", "", ""})
			continue
		}
		scale := ""
		if set.Quick {
			scale = ", **quick scale**"
		}
		rows = append(rows, []string{"`" + x.File + "`", cell(x.Shows), repetitions(set) + scale, builds(set),
			strings.NewReplacer("T", " ", "Z", "").Replace(span(set.From, set.To)),
			set.Took.Round(time.Second).String()})
	}
	return grid(rows...)
}

// experiments are those of the study, each followed by its readings.
func (w writer) experiments() (out []Experiment) {
	for _, x := range w.s.Experiments {
		out = append(out, x)
		for _, r := range x.Readings {
			out = append(out, Experiment{Name: x.Name + "@" + r, File: "--reading " + r + " " + x.File, Shows: x.Shows})
		}
	}
	return out
}

// builds names the builds that simulated the runs. Where there are several, the last stands for all if it repeated runs
// of the others and got the same.
func builds(set *results.Set) string {
	text := strings.Join(set.Builds, ", ")
	for _, c := range set.Checks {
		text += fmt.Sprintf("; %s repeated %d of %s", c.Build, c.Runs, strings.Join(c.Earlier, ", "))
	}
	return text
}

func span(from, to string) string {
	if from == to || from == "" {
		return to
	}
	if len(from) > 10 && len(to) > 10 && from[:10] == to[:10] {
		to = to[11:]
	}
	return from + " to " + to
}

// repetitions says how many there are of how many, of the combinations that have least and most.
func repetitions(set *results.Set) string {
	least, most := math.MaxInt, 0
	for _, c := range set.Cells {
		n := c.Count(experiment.Done) + c.Count(experiment.Diverged)
		least, most = min(least, n), max(most, n)
	}
	if len(set.Cells) == 0 {
		return "none"
	}
	have := fmt.Sprint(least)
	if most > least {
		have = fmt.Sprintf("%d to %d", least, most)
	}
	switch {
	case set.Repetitions == 0:
		return have
	case least < set.Repetitions:
		return fmt.Sprintf("**%s of %d**", have, set.Repetitions)
	}
	return fmt.Sprintf("%d", set.Repetitions)
}

// Complete says whether no repetition of any experiment is missing, in a sentence.
func (w writer) Complete() string {
	var missing, quick []string
	for _, x := range w.experiments() {
		set := w.d[x.Name]
		if set != nil && set.Quick {
			quick = append(quick, "`"+x.File+"`")
		}
		if set == nil || strings.HasPrefix(repetitions(set), "**") || len(set.Cells) == 0 {
			missing = append(missing, "`"+x.File+"`")
		}
	}
	out := "All experiments have all of their repetitions."
	if len(missing) > 0 {
		out = "**Not complete**: repetitions are missing of " + strings.Join(missing, ", ") + "."
	}
	if len(quick) > 0 {
		out += fmt.Sprintf(" **At quick scale**, with shorter streams and fewer repetitions than the paper's: %s.",
			strings.Join(quick, ", "))
	}
	return out
}

// readings are that of the text, nil, and the others.
func (w writer) readings() []*Reading {
	out := []*Reading{nil}
	for i := range w.s.Readings {
		out = append(out, &w.s.Readings[i])
	}
	return out
}

func (w writer) title(r *Reading) string {
	if r == nil {
		return cmp.Or(w.s.Column, "the paper's text")
	}
	return r.Name
}

// Summary counts verdicts under each reading, those of marked statements apart.
func (w writer) Summary() string {
	head := []string{"reading"}
	for v := Agrees; v <= Disagrees; v++ {
		head = append(head, v.String())
	}
	rows := [][]string{append(head, "counted apart")}
	for _, reading := range w.readings() {
		count, apart := make([]int, Disagrees+1), map[string]int{}
		for i := range w.s.Relations {
			if o := w.s.judge(w.d, &w.s.Relations[i], reading); o.Mark != "" {
				apart[o.Mark]++
			} else {
				count[o.Verdict]++
			}
		}
		row := []string{w.title(reading)}
		for _, n := range count {
			row = append(row, strconv.Itoa(n))
		}
		var parts []string
		for _, mark := range marks {
			if apart[mark] > 0 {
				parts = append(parts, fmt.Sprintf("%s: %d", mark, apart[mark]))
			}
		}
		rows = append(rows, append(row, strings.Join(parts, ", ")))
	}
	return fmt.Sprintf("%d statements of the paper. %s\n\n", len(w.s.Relations), w.Complete()) + grid(rows...)
}

// Readings says what each reading is, how it was chosen, and which sentences of the paper it gives up.
func (w writer) Readings() string {
	var b strings.Builder
	for _, r := range w.s.Readings {
		fmt.Fprintf(&b, "**%s**: %s %s\n\n", r.Name, r.Says, r.Chosen)
		if len(r.GivesUp) == 0 {
			continue
		}
		rows := [][]string{{"sentence that it gives up", "for the reading", "against it"}}
		for _, g := range r.GivesUp {
			rows = append(rows, []string{cell(g.Says), cell(g.For), cell(g.Against)})
		}
		b.WriteString(grid(rows...) + "\n")
	}
	return b.String()
}

// Negatives lists what no reading satisfies. A reading that was fitted to a statement satisfies nothing of it.
func (w writer) Negatives() string {
	var b strings.Builder
	rank := func(v Verdict) Verdict { // those that say something first
		if v == TooFew || v == Unmeasured {
			v += Disagrees
		}
		return v
	}
	for i := range w.s.Relations {
		r := &w.s.Relations[i]
		best := Unmeasured
		for _, reading := range w.readings() {
			if o := w.s.judge(w.d, r, reading); o.Mark == "" && rank(o.Verdict) < rank(best) {
				best = o.Verdict
			}
		}
		if r.Mark == "" && best > Agrees {
			fmt.Fprintf(&b, "- %s *(%s)*: **%s**. %s\n", cell(r.Says), cell(r.Where), best, cell(r.Note))
		}
	}
	return b.String()
}

// Relations is the table of all relations, or of those of which the place in the paper contains one of some texts.
func (w writer) Relations(places ...string) string {
	head, by := []string{"the paper says", "the paper's figure"}, "ours, by "
	if w.s.Column != "" {
		by = ""
	}
	for _, reading := range w.readings() {
		head = append(head, by+w.title(reading), "verdict")
	}
	rows := [][]string{head}
	for i := range w.s.Relations {
		r := &w.s.Relations[i]
		in := func(place string) bool { return strings.Contains(r.Where, place) }
		if len(places) > 0 && !slices.ContainsFunc(places, in) {
			continue
		}
		says := cell(r.Says) + " *(" + cell(r.Where) + ")*"
		if r.Reading != "" {
			says += "<br>Reading: " + cell(r.Reading)
		}
		if r.Note != "" {
			says += "<br>Note: " + cell(r.Note)
		}
		row := []string{says, cell(r.Paper)}
		for _, reading := range w.readings() {
			o := w.s.judge(w.d, r, reading)
			if reading != nil && o.Same {
				row = append(row, "as by the text", "")
			} else {
				row = append(row, o.ours(), o.verdict())
			}
		}
		rows = append(rows, row)
	}
	return grid(rows...)
}

func (o *Outcome) ours() string {
	var ours []string
	for _, f := range o.Findings {
		text := f.Ours
		if f.What != "" {
			text = f.What + ": " + text
		}
		if len(o.Findings) > 1 && f.Verdict != o.Verdict {
			text += " (" + f.Verdict.String() + ")"
		}
		ours = append(ours, cell(text))
	}
	return strings.Join(ours, "<br>")
}

func (o *Outcome) verdict() string {
	text := "**" + o.Verdict.String() + "**"
	if o.Mark != "" {
		text = "*" + o.Mark + "*: " + o.Verdict.String()
	}
	if n := len(o.Findings); n > 1 && o.Holding < n {
		text += fmt.Sprintf("; %d of %d comparisons agree", o.Holding, n)
	}
	switch {
	case o.Verdict != Undecided:
	case o.Needed > maxNeeded:
		text += fmt.Sprintf("; more than %d repetitions would decide", maxNeeded)
	default:
		text += fmt.Sprintf("; %.0f repetitions would decide", max(math.Ceil(o.Needed), float64(o.N+1)))
	}
	if o.Missing > 0 && o.Verdict != Unmeasured {
		text += fmt.Sprintf("; %d repetitions so far", o.N)
	}
	if o.Quick && o.Verdict != Unmeasured {
		text += "; at quick scale"
	}
	return text
}

// maxNeeded bounds the repetitions that a page asks for: beyond, there is no difference worth the name.
const maxNeeded = 1000

// tag matches the beginning of a text that a browser might take for a tag of HTML.
var tag = regexp.MustCompile(`<([a-zA-Z/!?])`)

// cell makes text fit into a table, and keeps it text.
func cell(s string) string {
	s = tag.ReplaceAllString(strings.Join(strings.Fields(s), " "), "&lt;$1")
	return strings.ReplaceAll(s, "|", "\\|")
}

// Value is a number of the study's values, with its interval.
func (w writer) Value(name string) (string, error) {
	c, ok := w.s.Values[name]
	if !ok {
		return "", fmt.Errorf("no value %q", name)
	}
	return w.s.find(w.d, &c).Ours, nil
}

// Table is a table of the study.
func (w writer) Table(id string) (string, error) {
	i := slices.IndexFunc(w.s.Tables, func(t Table) bool { return t.ID == id })
	if i < 0 {
		return "", fmt.Errorf("no table %q", id)
	}
	t := &w.s.Tables[i]
	set := w.d[t.Of]
	if set == nil {
		return fmt.Sprintf("*%s: no results of experiment %s.*\n", t.Title, t.Of), nil
	}
	title, head := "", []string(nil)
	for _, p := range t.Rows {
		head = append(head, cmp.Or(w.s.Params[p].Label, p))
	}
	columns := Values{""}
	if t.Columns != "" {
		columns = nil
		for _, row := range w.rows(set, t.At, []string{t.Columns}) {
			v := row[t.Columns][0]
			columns, head = append(columns, v), append(head, w.s.words(t.Columns, v))
		}
	} else {
		for _, m := range t.Metrics {
			head = append(head, w.metric(m))
		}
	}
	if t.Title != "" {
		title = t.Title
		if set.Quick {
			title += ", at quick scale"
		}
		if t.Columns != "" {
			title += ": " + w.metric(t.Metrics[0])
		}
		if t.Versus != nil {
			title += fmt.Sprintf(", difference to %s in %%", w.s.describe(t.Versus))
		}
		title += ".\n\n"
	}
	rows := [][]string{head}
	for _, row := range w.rows(set, t.At, t.Rows) {
		var cells []string
		for _, p := range t.Rows {
			cells = append(cells, cell(w.s.unlabelled(p, row[p][0])))
		}
		for _, v := range columns {
			at := t.At.with(row)
			if t.Columns != "" {
				at = at.with(Selector{t.Columns: {v}})
			}
			for _, m := range t.Metrics {
				cells = append(cells, w.tableCell(t, at, m))
			}
		}
		rows = append(rows, cells)
	}
	return title + grid(rows...), nil
}

func (w writer) tableCell(t *Table, at Selector, metric string) string {
	scale := cmp.Or(w.s.Metrics[metric].Scale, 1)
	if metric == found {
		return w.found(t.Of, at, scale)
	}
	a := w.d.sample(t.Of, at, metric)
	if len(a.values) == 0 {
		if a.cut > 0 {
			return fmt.Sprintf("%d of %d cut off", a.cut, a.runs)
		}
		return "–"
	}
	text := a.interval(scale).String()
	if t.Versus != nil {
		b := w.d.sample(t.Of, at.with(t.Versus), metric)
		x, y := pair(&a, &b)
		if r := ratio(x, y); r.N > 0 && !math.IsNaN(r.Mean) {
			text = signed(report.Interval{N: r.N, Mean: (r.Mean - 1) * 100, Half: r.Half * 100})
		}
	}
	if a.cut > 0 {
		text += fmt.Sprintf(" (%d of %d cut off)", a.cut, a.runs)
	}
	if a.wanted > 0 && len(a.values)+a.cut < a.wanted {
		text += fmt.Sprintf(" [%d]", len(a.values))
	}
	return text
}

// found is the metric of tables that has the ends of searches.
const found = "largest_stable"

// found returns the largest value at which the system is stable, as a search among these parameters found it.
func (w writer) found(of string, at Selector, scale float64) string {
	for _, s := range w.d[of].Searches {
		if !at.matches(&results.Cell{Params: s.Params}) {
			continue
		}
		if s.Value == nil {
			return "none"
		}
		if v, err := strconv.ParseFloat(*s.Value, 64); err == nil {
			return strconv.FormatFloat(v*scale, 'g', 4, 64)
		}
	}
	return "–"
}

func (w writer) metric(name string) string {
	m := w.s.Metrics[name]
	if m.Unit != "" {
		return cmp.Or(m.Label, name) + ", " + m.Unit
	}
	return cmp.Or(m.Label, name)
}

// rows returns the combinations of parameters that cells have, as they appear.
func (w writer) rows(set *results.Set, at Selector, params []string) (out []Selector) {
	seen := map[string]bool{}
	for _, c := range set.Cells {
		if !at.matches(c) {
			continue
		}
		sel, key := Selector{}, ""
		for _, p := range params {
			if v, has := c.Params[p]; has {
				sel[p] = Values{v}
				key += v + "\x00"
			}
		}
		if len(sel) == len(params) && !seen[key] {
			seen[key] = true
			out = append(out, sel)
		}
	}
	return out
}

// Figure draws a figure of the study and links it, with its data.
func (w writer) Figure(id string) (string, error) {
	i := slices.IndexFunc(w.s.Figures, func(f Figure) bool { return f.ID == id })
	if i < 0 {
		return "", fmt.Errorf("no figure %q", id)
	}
	f := &w.s.Figures[i]
	c := w.chart(f)
	if c.Empty() {
		return fmt.Sprintf("*%s: no results yet.*\n", f.Title), nil
	}
	if w.page.Figures == "" {
		return fmt.Sprintf("*%s*\n", f.Title), nil
	}
	if err := c.Write(w.page.Figures, f.ID); err != nil {
		return "", &OutputError{err}
	}
	at := filepath.ToSlash(filepath.Join(w.page.Figures, f.ID))
	note := strings.TrimRight(" "+f.Note, " ")
	if slices.ContainsFunc(f.panels(), func(p Panel) bool { return w.d[p.Of] != nil && w.d[p.Of].Quick }) {
		note += " **At quick scale.**"
	}
	return fmt.Sprintf("![%s](%s.svg)\n\n*%s.*%s [Data](%s.csv)\n", f.Title, at, f.Title, note, at), nil
}

func (w writer) chart(f *Figure) *report.Chart {
	c := &report.Chart{Title: f.Title, Kind: f.Kind, Dots: 250}
	for _, p := range f.panels() {
		set := w.d[p.Of]
		if set == nil {
			continue
		}
		out := report.Panel{Title: p.Subtitle, XLabel: p.XLabel, YLabel: cmp.Or(p.YLabel, w.metric(p.Metric)),
			Log: p.Log}
		series := p.Series
		if len(series) == 0 {
			series = Values{"policy"}
		}
		all := slices.DeleteFunc(w.rows(set, p.At, series), func(row Selector) bool {
			return len(p.Only) > 0 && !slices.Contains(p.Only, row[series[0]][0])
		})
		if f.Kind == "scatter" || f.Kind == "histogram" {
			w.panels(c, &out, set, &p, f.Kind, all)
			continue
		}
		xs := w.categories(set, &p, &out)
		for _, row := range all {
			s := report.Series{Name: w.s.describe(row)}
			for i, x := range xs {
				at := p.At.with(row, x.at)
				if point, ok := w.point(f.Kind, p.Of, at, x.metric, i); ok {
					s.Points = append(s.Points, point)
				}
			}
			if len(s.Points) > 0 {
				out.Series = append(out.Series, s)
			}
		}
		c.Panels = append(c.Panels, out)
	}
	return c
}

// category is a place on a horizontal axis.
type category struct {
	at     Selector
	metric string
}

func (w writer) categories(set *results.Set, p *Panel, out *report.Panel) (xs []category) {
	if len(p.X) == 1 && p.X[0] == "metric" {
		for _, m := range p.Metrics {
			xs = append(xs, category{nil, m})
			out.Categories = append(out.Categories, cmp.Or(w.s.Metrics[m].Label, m))
		}
		return xs
	}
	for _, r := range w.rows(set, p.At, p.X) {
		var parts []string
		for _, param := range p.X {
			parts = append(parts, w.s.unlabelled(param, r[param][0]))
		}
		join := "\n"
		if len(parts) > 2 {
			join = "/"
		}
		xs = append(xs, category{r, p.Metric})
		out.Categories = append(out.Categories, strings.Join(parts, join))
	}
	return xs
}

func (w writer) point(kind, of string, at Selector, metric string, i int) (report.ChartPoint, bool) {
	scale := cmp.Or(w.s.Metrics[metric].Scale, 1)
	if kind != "boxes" {
		s := w.d.sample(of, at, metric)
		v := s.interval(scale)
		return report.ChartPoint{Category: i, Value: v}, v.N > 0
	}
	var of6 [6]float64
	for k, m := range boxMetrics(metric) {
		s := w.d.sample(of, at, m)
		if len(s.values) == 0 {
			return report.ChartPoint{}, false
		}
		of6[k] = metrics.Confidence(s.list()).Mean * scale
	}
	return report.ChartPoint{Category: i, Box: &report.Box{Low: of6[0], Q1: of6[1], Median: of6[2], Q3: of6[3],
		High: of6[4], Mean: of6[5]}}, true
}

// panels makes a panel of each series, as scatter plots and histograms have.
func (w writer) panels(c *report.Chart, like *report.Panel, set *results.Set, p *Panel, kind string, all []Selector) {
	for _, row := range all {
		out := *like
		out.Title = strings.TrimPrefix(like.Title+", "+w.s.describe(row), ", ")
		s := report.Series{Name: ""}
		if kind == "scatter" {
			for _, cell := range set.Cells {
				if p.At.with(row).matches(cell) {
					s.Dots = append(s.Dots, set.Dots[cell.ID]...)
				}
			}
		} else {
			for i := 0; ; i++ {
				from := float64(i) * p.BinWidth
				n := w.d.sample(p.Of, p.At.with(row), fmt.Sprintf("%s_from_%g", p.Metric, from))
				if len(n.values) == 0 {
					break
				}
				s.Points = append(s.Points, report.ChartPoint{X: from, Width: p.BinWidth, Value: n.interval(1)})
			}
		}
		out.Series = []report.Series{s}
		c.Panels = append(c.Panels, out)
	}
}

var (
	image = regexp.MustCompile(`<img src="([^"]+\.svg)" alt="([^"]*)"\s*/?>`)
	link  = regexp.MustCompile(`<a href="([^"]+\.csv)">`)
)

// HTML makes one self-contained file of Markdown: its figures are in it, and the data of each can be saved.
func HTML(title string, markdown []byte) ([]byte, error) {
	var body bytes.Buffer
	md := goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	if err := md.Convert(bytes.ReplaceAll(markdown, []byte("<br>"), []byte(" \x01 ")), &body); err != nil {
		return nil, err
	}
	var failed error
	read := func(at string) []byte {
		text, err := os.ReadFile(filepath.FromSlash(html.UnescapeString(at)))
		if err != nil {
			failed = err
		}
		return text
	}
	text := image.ReplaceAllFunc(body.Bytes(), func(m []byte) []byte {
		part := image.FindSubmatch(m)
		return fmt.Appendf(nil, `<img src="data:image/svg+xml;base64,%s" alt="%s">`,
			base64.StdEncoding.EncodeToString(read(string(part[1]))), part[2])
	})
	text = link.ReplaceAllFunc(text, func(m []byte) []byte {
		at := string(link.FindSubmatch(m)[1])
		return fmt.Appendf(nil, `<a download="%s" href="data:text/csv;base64,%s">`, filepath.Base(at),
			base64.StdEncoding.EncodeToString(read(at)))
	})
	if failed != nil {
		return nil, failed
	}
	text = bytes.ReplaceAll(text, []byte(" \x01 "), []byte("<br>"))
	return fmt.Appendf(nil, `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>%s</style>
</head>
<body>
%s</body>
</html>
`, html.EscapeString(title), style, text), nil
}
