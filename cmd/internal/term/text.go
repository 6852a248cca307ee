package term

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"gantry/planner"
	"gantry/sqlite"
	"gantry/sqlite/report/columns"
	"gantry/trace/shown"
)

// ImageName writes the name of an image with its digest.
func ImageName(ref, digest string) string {
	switch at := strings.LastIndexByte(digest, '@'); {
	case digest == "" || digest == ref:
		return ref
	case at >= 0 && (digest[:at] == ref || strings.HasPrefix(ref, digest[:at]+":")):
		return ref + digest[at:]
	default:
		return ref + " (" + digest + ")"
	}
}

// Rows bounds the rows of each table of a summary, and the predictions printed as workflows arrive. With the lines of
// progress, a run of 1,000 tasks that succeed prints at most 50 lines. gantry show --json and the log have the rest.
type Rows struct{ Workflows, Deadlines, Types, Nodes, predictions int }

// RowsFor bounds the tables of a run of a number of tasks.
func RowsFor(tasks int, deadlines bool) Rows {
	if deadlines && tasks >= 500 {
		return Rows{Workflows: 2, Deadlines: 3, Types: 4, Nodes: 3, predictions: 3}
	}
	return Rows{Workflows: 5, Deadlines: 12, Types: 12, Nodes: 5, predictions: 20}
}

// ShortPath is a path as seen from the working directory, if it is below that.
func ShortPath(path string) string {
	if dir, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return path
}

// Meant writes a number of seconds for people.
func Meant(seconds float64) string { return Span(new(sqlite.Span(seconds * 1e9))) }

// Table is a table with headings. Columns whose title begins with "-" are aligned to the right, those with "?" are left
// out if no cell has a value.
type Table struct {
	to     io.Writer
	titles []string
	rows   [][]string
}

// NewTable makes a table that fits the width of its writer. Titles have "|" between them.
func NewTable(to io.Writer, titles string) *Table {
	return &Table{to: to, titles: strings.Split(titles, "|")}
}

// List prints a table with a row for each thing, of many the first most; 0 is all.
func List[T any](to io.Writer, things []T, most int, titles string, row func(T) []any) {
	t := NewTable(to, titles)
	for i, x := range things {
		if n := len(things); most > 0 && i == most && n > most+1 {
			t.Row(fmt.Sprintf("... %d more", n-i))
			break
		}
		t.Row(row(x)...)
	}
	t.End()
}

// Sheet is a text for a writer of some width.
type Sheet struct {
	strings.Builder
	width int // 0: any
}

// NewSheet makes a text for a writer.
func NewSheet(to io.Writer) *Sheet { return &Sheet{width: columns.Of(to)} }

// Columns implements columns.Limited.
func (s *Sheet) Columns() int { return s.width }

// Row adds a row. Spans and amounts of bytes are written for people.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		text := fmt.Sprint(cell)
		switch x := cell.(type) {
		case *sqlite.Span:
			text = Span(x)
		case *int64:
			text = Size(x)
		}
		row[i] = shown.Short(shown.Line(text), mostShown)
	}
	t.rows = append(t.rows, row)
}

// mostShown is how many characters a cell may have.
const mostShown = 120

// End prints the table and a blank line; without rows it prints nothing.
func (t *Table) End() {
	if len(t.rows) == 0 {
		return
	}
	rows, right := make([][]string, len(t.rows)+1), []bool{}
	for i, title := range t.titles {
		title, spare := strings.CutPrefix(title, "?")
		if spare && !slices.ContainsFunc(t.rows, func(r []string) bool {
			return i < len(r) && r[i] != "" && r[i] != "-"
		}) {
			continue
		}
		title, toRight := strings.CutPrefix(title, "-")
		right, rows[0] = append(right, toRight), append(rows[0], title)
		for k, row := range t.rows {
			rows[k+1] = append(rows[k+1], row[min(i, len(row)):min(i+1, len(row))]...)
		}
	}
	_ = columns.Print(t.to, columns.Of(t.to), "  ", rows, right)
	fmt.Fprintln(t.to)
}

// Span writes a duration for people, with about four digits; "-" if it is not known.
func Span(s *sqlite.Span) string {
	if s == nil {
		return "-"
	}
	d := time.Duration(*s)
	switch {
	case d < 0:
		return "-" + Span(new(-*s))
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < 1000*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// Size writes an amount of data for people; "-" if it is not known.
func Size(b *int64) string {
	if b == nil {
		return "-"
	}
	return shown.Size(*b)
}

// Percent writes a share in percent; "-" if it is not known.
func Percent(p *float64) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", *p)
}

// Ratio writes a ratio; "-" if it is not known.
func Ratio(p *float64) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%.3g", *p)
}

// PrintJSON prints a value for programs: on a line of its own, but on a terminal so that people can read it.
func PrintJSON(w io.Writer, v any) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	if Terminal(os.Stdout) {
		enc.SetIndent("", "  ")
	}
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	_, _ = Unfolded(w).Write(shown.JSON(text.Bytes()))
}

// Cores writes an amount of processors.
func Cores(millicores int64) string {
	if millicores == 1000 {
		return "1 core"
	}
	return fmt.Sprintf("%g cores", float64(millicores)/1000)
}

// Terminal reports whether f is one that lines can be redrawn on.
func Terminal(f *os.File) bool { return isatty.IsTerminal(f.Fd()) && os.Getenv("TERM") != "dumb" }

// Describe writes the size of a platform.
func Describe(p *planner.Platform) string {
	var millicores int64
	for i := range p.Nodes {
		millicores += p.Nodes[i].Capacity[0]
	}
	return Plural(len(p.Nodes), "node") + " with " + Cores(millicores)
}

// Plural writes a number of things.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Named lists the first names of n.
func Named(n int, names []string) string {
	text := strings.Join(names, ", ")
	if more := n - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// NamesOf lists the first names.
func NamesOf(names []string, most int) string {
	return Named(len(names), names[:min(most, len(names))])
}

// InstantOf writes an instant of a run.
func InstantOf(t planner.Time) string { return Span(new(sqlite.Span(t))) }
