package trace

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// fileError is the first fault of a file that is read whole or not at all.
func fileError(source, what string, f Fault) error {
	if f.Line > 0 {
		return fmt.Errorf("%s %s: line %d: %s", what, source, f.Line, f.Message)
	}
	return fmt.Errorf("%s %s: %s", what, source, f.Message)
}

// keyed reads a mapping by a table of its keys; an unknown key is a fault that names the nearest known one, and so is a key given
// twice.
func (y *yamlDoc) keyed(n ast.Node, what string, table []yamlKey) bool {
	seen := map[string]bool{}
	return y.mapping(n, what, func(key string, v ast.Node) {
		if seen[key] {
			y.faults.fail("duplicate-key", y.line(v), "", "%s: %s is given twice", what, key)
			return
		}
		seen[key] = true
		for _, k := range table {
			if k.name == key {
				k.read(v)
				return
			}
		}
		near, most := "", 3
		var all []string
		for _, k := range table {
			all = append(all, k.name)
			if d := distance(key, k.name); d < most {
				near, most = k.name, d
			}
		}
		hint := "known are " + strings.Join(all, ", ")
		if near != "" {
			hint = "did you mean " + near + "?"
		}
		y.faults.fail("unknown-key", y.line(v), "", "%s: unknown key %q; %s", what, key, hint)
	})
}

type yamlKey struct {
	name string
	read func(v ast.Node)
}

// number reads a number into to and checks it; the message says what it has to be.
func (y *yamlDoc) number(to *float64, what string, ok func(float64) bool, must string) func(ast.Node) {
	return func(v ast.Node) {
		text := y.text(v)
		x, err := parseNumber(text)
		if err != nil || !ok(x) {
			y.faults.fail("bad-number", y.line(v), "", "%s is %q, but has to be %s", what, text, must)
			return
		}
		*to = x
	}
}

func (y *yamlDoc) string(to *string) func(ast.Node) {
	return func(v ast.Node) { *to = y.text(v) }
}

// distance is the number of single-letter edits between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
