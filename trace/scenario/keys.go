package scenario

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gantry/trace/spelling"

	"gantry/trace/reader"
)

// doc reads the values of a YAML document.
type doc struct {
	*reader.YAML
	in  *reader.Input
	dir string // of the file, from which paths count
}

// read reads a file and lets fill describe it.
func read(r io.Reader, what, source string, fill func(y *doc, root *reader.Node)) error {
	in := reader.Open(r, 0)
	var faults reader.Faults
	data, err := in.All()
	switch {
	case in.Err != nil:
		return fmt.Errorf("%s %s: %w", what, source, in.Err)
	case err != nil:
		faults.Damage(err, 1)
	default:
		if y, root := reader.ParseYAML(data, &faults); root != nil {
			fill(&doc{y, in, filepath.Dir(source)}, root)
		}
	}
	if faults := faults.Sorted(); reader.HasErrors(faults) {
		return &FileError{what, source, faults[0], faults}
	}
	return nil
}

// keep counts bytes that are kept of the file, and ends its reading where they are too many.
func (y *doc) keep(bytes int, v *reader.Node) {
	if !y.in.Keep(bytes) && !y.Faults.Ended() {
		y.Faults.Fail("bound", y.Line(v), "", "%s", y.in.TooMuch())
		y.Stop()
	}
}

// copied is a name, which with copies above 1 stands for name-1, name-2 and so on.
type copied struct {
	name         string
	copies, line int
}

func (c copied) nth(i int) string {
	if c.name == "" || c.copies == 1 {
		return c.name
	}
	return fmt.Sprintf("%s-%d", c.name, i+1)
}

// unique refuses names that are given twice, those of copies among them.
func (y *doc) unique(what string, names []copied) {
	single, several := map[string]copied{}, map[string]copied{}
	taken := func(name string, lines ...int) {
		y.Faults.Fail("duplicate-name", slices.Max(lines), "", "%s name %s is taken by the %s on line %d", what, name,
			what, slices.Min(lines))
	}
	for _, n := range names {
		known := single
		if n.copies > 1 {
			known = several
		}
		if old, ok := known[n.name]; ok && n.name != "" {
			taken(n.nth(0), n.line, old.line)
		}
		known[n.name] = n
	}
	for _, n := range names {
		at := strings.LastIndexByte(n.name, '-')
		if n.copies > 1 || at <= 0 {
			continue
		}
		i, err := strconv.Atoi(n.name[at+1:])
		if all, ok := several[n.name[:at]]; ok && err == nil && i >= 1 && i <= all.copies && n.name == all.nth(i-1) {
			taken(n.name, n.line, all.line)
		}
	}
}

// FileError is the first fault of a file that is read whole or not at all.
type FileError struct {
	What, Source string // workload, cluster or experiment, and its path
	reader.Fault
	Faults []reader.Fault // all of them, errors first
}

func (e *FileError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s %s: line %d: %s", e.What, e.Source, e.Line, e.Message)
	}
	return fmt.Sprintf("%s %s: %s", e.What, e.Source, e.Message)
}

// given are the lines of the keys that a mapping has; nil if there is no mapping.
type given map[string]int

// keyed reads a mapping by a table of its keys; an unknown key is a fault that names the nearest known one.
func (y *doc) keyed(n *reader.Node, what string, table []yamlKey) given {
	has := given{}
	if !y.Mapping(n, what, func(key string, v *reader.Node) {
		if i := slices.IndexFunc(table, func(k yamlKey) bool { return k.name == key }); i >= 0 {
			has[key] = y.Line(v)
			table[i].read(v)
			return
		}
		known := make([]string, len(table))
		for i, k := range table {
			known[i] = k.name
		}
		hint := ""
		if !y.Faults.Full() && len(key) < 100 {
			hint = "; " + spelling.Hint(key, known)
		}
		y.Faults.Fail("unknown-key", y.KeyLine, "", "%s: unknown key %q%s", what, key, hint)
	}) {
		return nil
	}
	return has
}

type yamlKey struct {
	name string
	read func(v *reader.Node)
}

// within reads a number between two bounds into to; the message says must.
func (y *doc) within(to *float64, what string, least, most float64, must string) func(*reader.Node) {
	return y.number(to, what, func(x float64) bool { return x >= least && x <= most }, must)
}

// positive reads a number above 0 and up to most into to.
func (y *doc) positive(to *float64, what string, most float64, must string) func(*reader.Node) {
	return y.within(to, what, math.SmallestNonzeroFloat64, most, must)
}

// number reads a number into to and checks it; the message says must.
func (y *doc) number(to *float64, what string, ok func(float64) bool, must string) func(*reader.Node) {
	return numeric(y, to, what, reader.Number, ok, must)
}

// numeric reads a number by read into to; a fault names the key if that fails or ok refuses the number.
func numeric[T any](y *doc, to *T, key string, read func(string) (T, error), ok func(T) bool, must string,
) func(*reader.Node) {
	return func(v *reader.Node) {
		text := y.Text(v)
		x, err := read(text)
		if err != nil || !ok(x) {
			y.Faults.Fail("bad-number", y.Line(v), "", "%s is %q, but has to be %s", key, text, must)
			return
		}
		*to = x
	}
}

func (y *doc) seed(to *uint64) func(*reader.Node) {
	return numeric(y, to, "seed", func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) },
		func(n uint64) bool { return n > 0 }, fmt.Sprintf("a whole number from 1 to %d", uint64(math.MaxUint64)))
}

func (y *doc) string(to *string) func(*reader.Node) {
	return func(v *reader.Node) { *to = y.Text(v) }
}

// word reads one of the known words into to; of any other the fault names the nearest of them.
func (y *doc) word(to *string, what string, known ...string) func(*reader.Node) {
	return func(v *reader.Node) {
		text := y.Text(v)
		if !slices.Contains(known, text) {
			y.Faults.Fail("bad-value", y.Line(v), "", "%s", unknownWord(what, text, known))
		}
		*to = text
	}
}

// unknownWord returns the message for a word that is not known: the known words, and the nearest of them.
func unknownWord(what, text string, known []string) string {
	must, hint := known[len(known)-1], ""
	if len(known) > 1 {
		must = strings.Join(known[:len(known)-1], ", ") + " or " + must
	}
	if near := spelling.Nearest(text, known); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return fmt.Sprintf("%s is %q, but has to be %s%s", what, text, must, hint)
}
