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

// Sheet is a text for a writer of some width.
type Sheet struct {
	strings.Builder
	width int // 0: any
}

// NewSheet makes a text for a writer.
func NewSheet(to io.Writer) *Sheet { return &Sheet{width: columns.Of(to)} }

// Columns implements columns.Limited.
func (s *Sheet) Columns() int { return s.width }

// Also adds a part of a sentence that is not always there.
func (s *Sheet) Also(there bool, format string, args ...any) {
	if there {
		fmt.Fprintf(s, format, args...)
	}
}

// Span writes a duration for people, with about four digits; "-" if it is not known.
func Span(s *sqlite.Span) string { return columns.Span(s) }

// Size writes an amount of data for people; "-" if it is not known.
func Size(b *int64) string {
	if b == nil {
		return "-"
	}
	return shown.Size(*b)
}

// Percent writes a share in percent; "-" if it is not known.
func Percent(p *float64) string { return known("%.0f %%", p) }

// Tenths writes a share in percent and its tenths; "-" if it is not known.
func Tenths(p *float64) string { return known("%.1f %%", p) }

// Ratio writes a ratio; "-" if it is not known.
func Ratio(p *float64) string { return known("%.3g", p) }

func known(format string, p *float64) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf(format, *p)
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
	first := slices.Clone(names[:min(most, len(names))])
	shown.Names(&first)
	return Named(len(names), first)
}

// InstantOf writes an instant of a run.
func InstantOf(t planner.Time) string { return Span(new(sqlite.Span(t))) }
