// Package columns prints tables that fit the terminal.
package columns

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
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

// Print writes rows of cells, the first of which may be a heading, as aligned columns. right says which columns are
// aligned to the right; those beyond it are as the last. Columns that do not fit width (0: any) go into further tables
// below, each with the first column again; a cell wider than half of it is cut.
func Print(w io.Writer, width int, indent string, rows [][]string, right []bool) error {
	if width > 0 {
		rows = cut(rows, width/2)
	}
	var widths []int
	for _, cells := range rows {
		for i, c := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
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

// cut shortens cells of more than most runes.
func cut(rows [][]string, most int) [][]string {
	out := make([][]string, len(rows))
	for i, cells := range rows {
		out[i] = make([]string, len(cells))
		for j, c := range cells {
			if r := []rune(c); len(r) > most {
				c = string(r[:most-1]) + "…"
			}
			out[i][j] = c
		}
	}
	return out
}

// Table takes text with tabs between cells, and prints it as a table when it is flushed.
type Table struct {
	to    io.Writer
	right bool
	text  bytes.Buffer
}

// New makes a table that goes to w, and fits it if it is Limited. right aligns the cells that a tab follows to the
// right.
func New(w io.Writer, right bool) *Table { return &Table{to: w, right: right} }

func (t *Table) Write(b []byte) (int, error) { return t.text.Write(b) }

// Flush prints the text written since the last time. A line without a tab divides tables.
func (t *Table) Flush() error {
	indent := ""
	if t.right {
		indent = gap
	}
	text := t.text.String()
	t.text.Reset()
	var rows [][]string
	flush := func() error {
		if len(rows) == 0 {
			return nil
		}
		err := Print(t.to, Of(t.to), indent, rows, []bool{t.right})
		rows = nil
		return err
	}
	for line := range strings.Lines(text) {
		if cells := strings.TrimSuffix(strings.TrimRight(line, "\n"), "\t"); strings.Contains(line, "\t") {
			rows = append(rows, strings.Split(cells, "\t"))
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		if _, err := io.WriteString(t.to, line); err != nil {
			return err
		}
	}
	return flush()
}
