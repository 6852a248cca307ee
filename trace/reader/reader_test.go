package reader_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"gantry/trace/reader"
)

func TestNumbersAreReadWithTheirUnits(t *testing.T) {
	for _, c := range []struct {
		read func(text string) (any, error)
		text string
		want any // a text: of the error
	}{
		{number, " 1.5e3 ", 1500.}, {number, "-2", -2.}, {number, "1e999", 1.7976931348623157e308},
		{number, "", "not a number"}, {number, "0x10", "not a number"}, {number, "NaN", "not a number"},
		{number, "1-2", "not a number"},
		{seconds, "0.0000000015", 2 * time.Nanosecond}, {seconds, "4e9", "above the bound of 3153600000 s, 100 years"},
		{duration, "1h30m", 90 * time.Minute}, {duration, "-1s", "not a duration with its unit"},
		{duration, "5", "not a duration with its unit"}, {duration, "876001h", "100 years"},
		{duration, "99999999999h", "100 years"},
		{count, "3", int64(3072)}, {count, "0.0001", int64(1)}, {count, "1e30", "above the bound of 8796093022208"},
		{binary, "2 GB", int64(2 << 30)}, {binary, "1.5k", int64(1536)}, {binary, "7", int64(7168)},
		{amount, "2GB", int64(2e9)}, {amount, "2 GiB", int64(2 << 30)}, {amount, "4096", int64(4096)},
		{amount, "10PB", "above the bound of 9007199254740992 bytes"}, {amount, "2 apples", "not an amount of bytes"},
		{field, "7", 7.}, {field, "-1", "negative"}, {field, "11", "above the bound of 10"}, {field, "2.5", 2.5},
	} {
		got, err := c.read(c.text)
		if says, wrong := c.want.(string); wrong {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%q: %v (%v), want %q", c.text, got, err, says)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%q: %v (%v), want %v", c.text, got, err, c.want)
		}
	}
}

func number(text string) (any, error)   { return reader.Number(text) }
func seconds(text string) (any, error)  { return reader.Seconds(text) }
func duration(text string) (any, error) { return reader.Duration(text) }
func count(text string) (any, error)    { return reader.Count(text, 1024) }
func binary(text string) (any, error)   { return reader.BinaryBytes(text, 1024) }
func amount(text string) (any, error)   { return reader.Bytes(text) }
func field(text string) (any, error)    { return reader.Float([]byte(text), 10) }

// said are faults as text.
func said(f *reader.Faults) string {
	var all []string
	for _, x := range f.Sorted() {
		all = append(all, x.String())
	}
	return strings.Join(all, "\n")
}

// Of errors 20 are kept and the others counted, warnings of one rule are merged, and errors come first.
func TestFaultsAreBounded(t *testing.T) {
	var f reader.Faults
	for i := range 3 {
		f.Warn("odd", 9-i, "", "it is odd")
	}
	f.Judge(true, "row", 1, "t", "it is left out", "a bad row")
	if f.HasErrors() || !reader.Repaired(f.Sorted()) {
		t.Error(said(&f))
	}
	f.Judge(false, "row", 2, "t\n", "it is left out", "a bad %s", strings.Repeat("é", 10_000))
	for i := range reader.MaxErrors + 1 {
		f.Fail("cycle", i+3, "", "a cycle")
	}
	if f.Ended() || !f.Full() {
		t.Error("it has ended")
	}
	f.Fail("syntax", 99, "", "no more")
	lines := strings.Split(said(&f), "\n")
	if n := len(lines); !f.Ended() || n != reader.MaxErrors+4 ||
		!strings.HasPrefix(lines[0], "line 2: error row: a bad éé") || !strings.HasSuffix(lines[0], "…") ||
		lines[n-4] != "line 99: error syntax: no more" || lines[n-3] != "error more: and 2 more errors" ||
		lines[n-2] != "line 1: warning row: a bad row: repaired, it is left out" ||
		lines[n-1] != "line 9: warning odd: it is odd (3 times)" {
		t.Error(said(&f))
	}
}

// A text is read through gzip and zip, and in every encoding of Unicode that has a mark or begins with ASCII.
func TestFilesAreReadThroughTheirWrapping(t *testing.T) {
	var zipped, gzipped bytes.Buffer
	z := zip.NewWriter(&zipped)
	w, err := z.Create("in")
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, "grün")
	z.Close()
	g := gzip.NewWriter(&gzipped)
	io.WriteString(g, "grün")
	g.Close()
	for name, text := range map[string]string{
		"plain": "grün", "mark": "\xef\xbb\xbfgrün", "little": "\xff\xfeg\x00r\x00\xfc\x00n\x00",
		"big": "\xfe\xff\x00g\x00r\x00\xfc\x00n", "no mark": "g\x00r\x00\xfc\x00n\x00",
		"no mark, big": "\x00g\x00r\x00\xfc\x00n",
		"zip":          zipped.String(), "gzip": gzipped.String(),
	} {
		if got, err := reader.Open(strings.NewReader(text), 0).All(); err != nil || string(got) != "grün" {
			t.Errorf("%s: %q (%v)", name, got, err)
		}
	}
	var f reader.Faults
	_, err = reader.Open(strings.NewReader(gzipped.String()[:gzipped.Len()-9]), 0).All()
	f.Damage(err, 3)
	changed := bytes.Clone(gzipped.Bytes())
	changed[len(changed)-8] ^= 1 // of its checksum
	_, err = reader.Open(bytes.NewReader(changed), 0).All()
	f.Damage(err, 6)
	_, err = reader.Open(strings.NewReader("\x1f\x8bno gzip behind its magic"), 0).All()
	f.Damage(err, 7)
	_, err = reader.Open(&gzipped, 2).All()
	f.Damage(err, 4)
	_, err = reader.Open(strings.NewReader("PK\x03\x04nothing"), 0).All()
	f.Damage(err, 5)
	if s := said(&f); !strings.Contains(s, "line 3: error truncated: the file ends too early") ||
		!strings.Contains(s, "line 4: error bound: its decompressed text is larger than 2 bytes; --max-input SIZE") ||
		!strings.Contains(s, "line 5: error bad-archive: ") || !strings.Contains(s, "line 6: error bad-archive: ") ||
		!strings.Contains(s, "line 7: error bad-archive: ") {
		t.Error(s)
	}
}

func TestTablesHaveTheirColumnsByName(t *testing.T) {
	read := func(text string, sep byte, needed ...string) (cells, faults string) {
		var f reader.Faults
		table := reader.NewTable(reader.Open(strings.NewReader(text), 0), sep, &f)
		if !table.Next() || !table.Header(needed...) {
			return "", said(&f)
		}
		for columns := len(table.Fields); table.Next(); {
			if table.Whole(columns, true) {
				cells += fmt.Sprintf("%d:%s ", table.Line, table.Field("b|c"))
			}
		}
		return cells, said(&f)
	}
	for _, c := range []struct {
		text          string
		sep           byte
		cells, faults string
	}{
		{"a,B\n\n1, 2\r\n3,4,5\n6,7", ',', "3:2 5:7 ", "line 4: warning bad-row: a line of 3 fields, where there " +
			"have to be 2: repaired, the line is left out"},
		{" c  a\n x\ty\n", 0, "2:x ", ""},
		{"a,a\n", ',', "", `line 1: error duplicate-key: two columns are called "a"`},
		{"x,y\n", ',', "", "line 1: error missing-column: there is no column A"},
		{strings.Repeat(",", reader.MaxKeys+1), ',', "", "line 1: error bound: "},
		{"a\n" + strings.Repeat("x", reader.MaxText), ',', "2: ", ""},
		{"a\n" + strings.Repeat("x", reader.MaxText) + "\n1\n", ',', "2: 3: ", ""},
		{"a\n" + strings.Repeat("x", reader.MaxText+1) + "\n", ',', "", "line 2: error bound: a line of more than"},
	} {
		cells, faults := read(c.text, c.sep, "A")
		if cells != c.cells || !strings.Contains(faults, c.faults) || (faults == "") != (c.faults == "") {
			t.Errorf("%.20q: %q, %s, want %q, %s", c.text, cells, faults, c.cells, c.faults)
		}
	}
}

// The part of a line before an error is not read.
func TestATableEndsAtAnError(t *testing.T) {
	var f reader.Faults
	table := reader.NewTable(reader.Open(io.MultiReader(strings.NewReader("1\n2"), iotest.ErrReader(
		io.ErrUnexpectedEOF)), 0), ',', &f)
	if !table.Next() || table.Next() || !strings.Contains(said(&f), "line 2: error truncated: ") {
		t.Error(table.Line, said(&f))
	}
}

// flat writes a value of YAML without blanks.
func flat(y *reader.YAML, n *reader.Node) string {
	var all []string
	switch {
	case y.Value(n) == nil:
		return "~"
	case y.IsMapping(n):
		y.Mapping(n, "it", func(key string, v *reader.Node) {
			line := y.KeyLine
			all = append(all, fmt.Sprintf("%d %s:%s", line, key, flat(y, v)))
		})
		return "{" + strings.Join(all, ",") + "}"
	case y.IsList(n):
		y.Sequence(n, "it", func(v *reader.Node) { all = append(all, flat(y, v)) })
		return "[" + strings.Join(all, ",") + "]"
	}
	return y.Text(n)
}

func TestYAMLIsReadByItsNodes(t *testing.T) {
	for text, want := range map[string]string{
		"a: 5.0\nb: [1, ~, 'x']\n":                      "{1 a:5.0,2 b:[1,~,x]}",
		"x: &x {a: 1, b: 2}\ny:\n  <<: *x\n  b: 3\n":    "{1 x:{1 a:1,1 b:2},2 y:{4 b:3,1 a:1}}",
		"- &x {a: 1}\n- <<: [*x, {a: 2, c: 3}]\n- *x\n": "[{1 a:1},{1 a:1,2 c:3},{1 a:1}]",
		"":                                    "error empty: there is nothing in it",
		"a: 1\n---\nb: 2\n":                   "line 2: error documents: a second YAML document begins here",
		"a: \xff":                             "line 1: error syntax: not YAML: the text is not UTF-8",
		"a: 1\n\tb: 2\n":                      "; indent",
		"a: [1, 2\nb: 3\n":                    "; close what a bracket or brace opened",
		"a: *x\n":                             "unknown anchor 'x' referenced; write &NAME",
		"a: 1\na: 2\n":                        "line 2: error duplicate-key: it: a is given twice",
		"{[1]: 2}":                            "error wrong-type: it: a list is no key",
		"{~: 2}":                              "error wrong-type: it: null is no key",
		strings.Repeat("[", 2000):             "error bound: ",
		strings.Repeat("x", reader.MaxText+1): "error bound: ",
		"? " + strings.Repeat("x", 70_000) + "\n": "error bound: ",
	} {
		var f reader.Faults
		y, root := reader.ParseYAML([]byte(text), &f)
		got := ""
		if root != nil {
			got = flat(y, root)
		}
		if s := said(&f); s == "" && got != want || s != "" && !strings.Contains(s, want) {
			t.Errorf("%.30q: %s %s, want %s", text, got, s, want)
		}
	}
	var f reader.Faults
	y, root := reader.ParseYAML([]byte("a: [1]"), &f)
	y.Sequence(root, "it", nil)
	y.Mapping(root, "it", func(_ string, v *reader.Node) {
		y.Mapping(v, "a", nil)
		y.Text(v)
	})
	if s := said(&f); !strings.Contains(s, "it should be a list") || !strings.Contains(s, "a should be a mapping") ||
		!strings.Contains(s, "a text or number should be here") {
		t.Error(s)
	}
	if y.Stop(); y.Value(root) != nil {
		t.Error("there are values after a stop")
	}
}

// A few aliases that unfold to many values are stopped.
func TestAliasesDoNotUnfoldWithoutBound(t *testing.T) {
	text := "a0: &a0 [x, x]\n"
	for i := range 30 {
		text += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	var f reader.Faults
	y, root := reader.ParseYAML([]byte(text), &f)
	flat(y, root)
	if s := said(&f); !strings.Contains(s, "its aliases unfold to too many values") {
		t.Error(s)
	}
}

func TestKeysOfAText(t *testing.T) {
	for text, want := range map[string]string{
		"pegasus: '5.0'\n# c: d\n jobs: x\n\"q\": 1\n":             "map[pegasus:true q:true]",
		`{"a": {"b": 1}, 'c': "x, d: ", e: [f: 1], # g: h` + "\n}": "map[a:true c:true e:true]",
	} {
		if got := fmt.Sprint(reader.Keys([]byte(text), true)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
