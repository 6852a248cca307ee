package scenario

import (
	"fmt"
	"slices"
	"strings"

	"gantry/trace/spelling"

	"gantry/reader"
)

// doc reads the values of a YAML document.
type doc struct{ *reader.YAML }

// parse returns a document and its root, or nil after a fault.
func parse(data []byte, faults *reader.Faults, lists ...string) (*doc, *reader.Node) {
	y, root := reader.ParseYAML(data, faults, lists...)
	return &doc{y}, root
}

// FileError is the first fault of a file that is read whole or not at all.
type FileError struct {
	What, Source string // workload, cluster or experiment, and its path
	reader.Fault
}

func (e *FileError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s %s: line %d: %s", e.What, e.Source, e.Line, e.Message)
	}
	return fmt.Sprintf("%s %s: %s", e.What, e.Source, e.Message)
}

// keyed reads a mapping by a table of its keys; an unknown key is a fault that names the nearest known one.
func (y *doc) keyed(n *reader.Node, what string, table []yamlKey) bool {
	return y.Mapping(n, what, func(key string, v *reader.Node) {
		for _, k := range table {
			if k.name == key {
				k.read(v)
				return
			}
		}
		known := make([]string, len(table))
		for i, k := range table {
			known[i] = k.name
		}
		y.Faults.Fail("unknown-key", y.Line(v), "", "%s: unknown key %q; %s", what, key, spelling.Hint(key, known))
	})
}

type yamlKey struct {
	name string
	read func(v *reader.Node)
}

// number reads a number into to and checks it; the message says what it has to be.
func (y *doc) number(to *float64, what string, ok func(float64) bool, must string) func(*reader.Node) {
	return func(v *reader.Node) {
		text := y.Text(v)
		x, err := reader.Number(text)
		if err != nil || !ok(x) {
			y.Faults.Fail("bad-number", y.Line(v), "", "%s is %q, but has to be %s", what, text, must)
			return
		}
		*to = x
	}
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

// unknownWord says what a word has to be, and which of them it may have meant.
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
