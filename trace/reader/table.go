package reader

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Table reads lines of fields that stand between separators. Quotes around a whole field of a table with commas or tabs
// are no part of it: other programs write them when they write such a table again.
type Table struct {
	Line   int      // of Fields, from 1 on
	Fields [][]byte // valid until the next line is read

	lines   *bufio.Scanner
	faults  *Faults
	sep     byte // 0: any blanks
	columns map[string]int
}

// NewTable reads the rest of a file. A separator of 0 is any blanks.
func NewTable(in *Input, separator byte, faults *Faults) *Table {
	t := &Table{lines: bufio.NewScanner(in), faults: faults, sep: separator}
	t.lines.Buffer(nil, MaxText+1) // and the end of the line
	return t
}

// Next reads the next line that is not blank. It returns false at the end, and after a fault.
func (t *Table) Next() bool {
	for !t.faults.Ended() && t.lines.Scan() && t.lines.Err() == nil {
		t.Line++
		if line := bytes.TrimRight(t.lines.Bytes(), "\r"); len(bytes.TrimSpace(line)) > 0 {
			t.split(line)
			return true
		}
	}
	switch err := t.lines.Err(); {
	case t.faults.Ended(), err == nil:
	case errors.Is(err, bufio.ErrTooLong):
		t.faults.Fail("bound", t.Line+1, "", "a line of more than %d bytes", MaxText)
	default:
		t.faults.Damage(err, t.Line+1)
	}
	return false
}

func (t *Table) split(line []byte) {
	if t.Fields = t.Fields[:0]; t.sep == 0 {
		t.Fields = slices.AppendSeq(t.Fields, bytes.FieldsSeq(line))
		return
	}
	for field := range bytes.SplitSeq(line, []byte{t.sep}) {
		t.Fields = append(t.Fields, Unquoted(field, t.sep))
	}
}

// Unquoted is a field of a table without blanks and quotes around it.
func Unquoted(field []byte, separator byte) []byte {
	field = bytes.TrimSpace(field)
	if n := len(field); (separator == ',' || separator == '\t') && n > 1 && field[0] == '"' && field[n-1] == '"' {
		return field[1 : n-1]
	}
	return field
}

// Header takes the line at hand as the names of columns, upper and lower case alike. It reports whether those that are
// needed are there; one of "a|b" will do.
func (t *Table) Header(needed ...string) bool {
	t.columns = map[string]int{}
	if len(t.Fields) > MaxKeys {
		t.faults.Fail("bound", t.Line, "", "%s", tooManyKeys)
		return false
	}
	for i, f := range t.Fields {
		name := strings.ToLower(string(f))
		if _, ok := t.columns[name]; ok && name != "" {
			t.faults.Fail("duplicate-key", t.Line, "", "two columns are called %q", name)
			t.faults.ended = true
			return false
		}
		t.columns[name] = i
	}
	for _, names := range needed {
		if t.has(names) < 0 {
			t.faults.Fail("missing-column", t.Line, "", "there is no column %s: write the table with it",
				strings.ReplaceAll(names, "|", " or "))
			t.faults.ended = true
			return false
		}
	}
	return true
}

// has is the column of the first of several names, "a|b", that there is; -1 if there is none.
func (t *Table) has(names string) int {
	for name := range strings.SplitSeq(strings.ToLower(names), "|") {
		if i, ok := t.columns[name]; ok {
			return i
		}
	}
	return -1
}

// Field is that of a named column, the first of "a|b" that there is, or "".
func (t *Table) Field(names string) []byte {
	if i := t.has(names); i >= 0 && i < len(t.Fields) {
		return t.Fields[i]
	}
	return nil
}

// Whole reports whether the line has as many fields as the first one, with a fault if not. The row then counts only if
// the caller asked for repair.
func (t *Table) Whole(columns int, repair bool) bool {
	if len(t.Fields) == columns {
		return true
	}
	t.faults.Judge(repair, "bad-row", t.Line, "", "the line is left out",
		"a line of %d fields, where there have to be %d", len(t.Fields), columns)
	return false
}

// Float reads a field from 0 to most.
func Float[T string | []byte](field T, most float64) (float64, error) {
	if n, ok := Digits(field); ok && float64(n) <= most {
		return float64(n), nil
	}
	x, err := Number(string(field))
	switch {
	case err == nil && x < 0:
		err = fmt.Errorf("negative")
	case err == nil && x > most:
		err = Above(most)
	}
	return x, err
}
