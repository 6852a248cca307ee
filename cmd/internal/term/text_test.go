package term

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
)

func TestAmountsForPeople(t *testing.T) {
	span := func(ns int64) *sqlite.Span { return new(sqlite.Span(ns)) }
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{Span(nil), "-"}, {Span(span(-5e6)), "-5 ms"}, {Span(span(1_234_567)), "1.23 ms"},
		{Span(span(123e6)), "123 ms"},
		{Span(span(12_345e6)), "12.35 s"}, {Span(span(123_456e6)), "123.5 s"}, {Span(span(3_661e9)), "1h1m1s"},
		{Meant(1.5), "1.50 s"}, {InstantOf(planner.Time(2e9)), "2.00 s"},
		{Size(nil), "-"}, {Size(new(int64(2_500_000))), "2.5 MB"},
		{Percent(nil), "-"}, {Percent(new(12.6)), "13 %"}, {Ratio(nil), "-"}, {Ratio(new(1.2345)), "1.23"},
		{Cores(1000), "1 core"}, {Cores(1500), "1.5 cores"}, {Plural(1, "node"), "1 node"},
		{Plural(0, "node"), "0 nodes"},
		{Describe(&planner.Platform{Nodes: []planner.Node{{Capacity: unit.Cores(1)}, {Capacity: unit.Cores(2)}}}),
			"2 nodes with 3 cores"},
		{NamesOf([]string{"a", "b", "c"}, 2), "a, b and 1 more"}, {NamesOf([]string{"a"}, 2), "a"},
		{ImageName("x", ""), "x"}, {ImageName("x:1", "x@sha256:5"), "x:1@sha256:5"}, {ImageName("x", "sha256:5"),
			"x (sha256:5)"},
		{ShortPath(filepath.Join(wd, "a", "b")), "a/b"}, {ShortPath("/etc"), "/etc"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q, want %q", c[0], c[1])
		}
	}
	if r := RowsFor(500, true); r.Deadlines != 3 || RowsFor(500, false).Deadlines != 12 {
		t.Errorf("%+v", r)
	}
}

// Lines are broken between words to the width of $COLUMNS, and data is not. Neither moves a cursor.
func TestTextFitsItsReader(t *testing.T) {
	t.Setenv("COLUMNS", "10") // 40 is the least
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var b bytes.Buffer
	said := func(want string) {
		t.Helper()
		if b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
		b.Reset()
	}
	w := Fitted(&b, file)
	long := "  one two three four five six seven eight nine\n"
	w.Write([]byte("short\n" + long))
	said("short\n  one two three four five six seven\n      eight nine\n")
	Unfolded(w).Write([]byte(long + "\x1b[2J"))
	said(long + "^[[2J")
	Raw(w).Write([]byte("\x1b[2J"))
	said("\x1b[2J")
	Screened(w, file).Write([]byte("\x1b[2J"))
	said("\x1b[2J")
	PrintJSON(w, map[string]string{"a": "<" + strings.Repeat("x ", 30)})
	said(`{"a":"<` + strings.Repeat("x ", 30) + "\"}\n")
	fitted{&b, 0, true}.Write([]byte("warning: odd\nRun r: finished\n"))
	said("\x1b[33mwarning:\x1b[0m odd\n\x1b[32;1mRun r: finished\x1b[0m\n")

	v := &Visible{Writer: &b}
	for _, part := range []string{"a\x1b\xc3", "\xa9\xe2"} {
		v.Write([]byte(part))
	}
	v.Flush()
	said(`a^[é\xe2`)

	c := &Checked{Writer: file}
	file.Close()
	c.Write(nil)
	if _, err := c.Write([]byte("x")); err == nil || !errors.Is(c.Err, os.ErrClosed) {
		t.Errorf("%v, and %v is kept", err, c.Err)
	}
}
