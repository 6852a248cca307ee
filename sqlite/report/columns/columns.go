// Package columns prints tables that fit the terminal.
package columns

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gantry/sqlite"
	"gantry/trace/shown"
)

// gap is between two columns.
const gap = "  "

// Limited is a writer whose lines should have at most Columns runes; 0 is any number.
type Limited interface{ Columns() int }

// Of returns how many columns w may have; 0 is any number.
func Of(w io.Writer) int {
	if l, ok := w.(Limited); ok {
		return l.Columns()
	}
	return 0
}

// Print writes rows of cells, the first of which may be a heading, as aligned columns. Right says which columns are
// aligned to the right; those beyond it are as the last. Columns that do not fit width (0: any) go into further tables
// below, each with the first column again; a cell wider than half of it is cut.
func Print(w io.Writer, width int, indent string, rows [][]string, right []bool) error {
	most := math.MaxInt
	if width > 0 {
		most = width / 2
	}
	var widths []int
	for _, cells := range rows {
		for i, c := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], min(most, utf8.RuneCountInString(c)))
		}
	}
	var b strings.Builder
	for from := 1; from == 1 || from < len(widths); {
		to, at := from, len(indent)
		if len(widths) > 0 {
			at += widths[0]
		}
		for to < len(widths) && (to == from || width == 0 || at+len(gap)+widths[to] <= width) {
			at += len(gap) + widths[to]
			to++
		}
		if from > 1 {
			b.WriteString("\n")
		}
		for _, cells := range rows {
			line := indent
			for i, c := range cells {
				if i > 0 && (i < from || i >= to) {
					continue
				}
				if i > 0 {
					line += gap
				}
				c = shown.Short(c, most)
				pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
				if len(right) > 0 && right[min(i, len(right)-1)] {
					line += pad + c
				} else {
					line += c + pad
				}
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		from = max(to, from+1)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Table is a table with headings. Columns whose title begins with "-" are aligned to the right, those with "?" are left
// out if no cell has a value.
type Table struct {
	to     io.Writer
	titles []string
	rows   [][]string
}

// New makes a table that fits the width of its writer. Titles have "|" between them.
func New(to io.Writer, titles string) *Table {
	return &Table{to: to, titles: strings.Split(titles, "|")}
}

// List prints a table with a row for each thing, of many the first most; 0 is all.
func List[T any](to io.Writer, things []T, most int, titles string, row func(T) []any) {
	t := New(to, titles)
	for i, x := range things {
		if n := len(things); most > 0 && i == most && n > most+1 {
			t.Row(fmt.Sprintf("... %d more", n-i))
			break
		}
		t.Row(row(x)...)
	}
	t.End()
}

// Row adds a row. Spans and amounts of bytes are written for people.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		text := fmt.Sprint(cell)
		switch x := cell.(type) {
		case *sqlite.Span:
			text = Span(x)
		case *int64:
			if text = "-"; x != nil {
				text = shown.Size(*x)
			}
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
	_ = Print(t.to, Of(t.to), "  ", rows, right)
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
