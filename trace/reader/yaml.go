package reader

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Node is a node of a YAML document.
type Node = yaml.Node

// YAML walks a YAML document by its nodes, which have the lines. Aliases are followed, a bounded number of times, so
// that a small file cannot unfold into a giant one.
type YAML struct {
	Faults *Faults
	size   int  // bytes of the document
	values int  // how many were looked at below aliases
	over   bool // a bound was exceeded: nothing more is read
	// KeyLine is the line of the key that Mapping has just yielded.
	KeyLine int
}

// ParseYAML returns the root of the only document of a text, or nil after a fault.
func ParseYAML(data []byte, faults *Faults) (*YAML, *Node) {
	y := &YAML{Faults: faults, size: len(data)}
	line := 0
	for text := range bytes.Lines(data) {
		if line++; !utf8.Valid(text) {
			faults.Fail("syntax", line, "", "not YAML: the text is not UTF-8; convert the file to UTF-8")
			return y, nil
		}
	}
	if line, bound := yamlBounds(data); bound != "" {
		y.bound(line, bound)
		return y, nil
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next Node
	err := decodeYAML(d, &doc)
	switch {
	case err == io.EOF || err == nil && len(doc.Content) == 0:
		faults.Fail("empty", 1, "", "there is nothing in it")
		return y, nil
	case err != nil:
		y.syntax(err)
		return y, nil
	}
	switch err := decodeYAML(d, &next); {
	case err == nil:
		faults.Fail("documents", next.Line, "", "a second YAML document begins here: write each into a file of its "+
			"own, or remove the line ---")
	case err != io.EOF:
		y.syntax(err)
		return y, nil
	}
	if line, bound := nodeBounds(&doc, 0); bound != "" {
		y.bound(line, bound)
		return y, nil
	}
	return y, doc.Content[0]
}

// syntax adds the fault of an error of the library.
func (y *YAML) syntax(err error) {
	line, message := 0, strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1])
		if message = m[2]; yamlGrammar.MatchString(message) {
			line++ // the library counts these from 0
		}
	}
	y.Faults.Fail("syntax", max(line, 1), "", "not YAML: %s", message+hint(message))
}

// hints name the remedies for the library's messages.
var hints = []struct{ in, hint string }{
	{"tab character", "indent with spaces"},
	{"cannot start any token", "indent with spaces, not tabs, and quote texts that begin with a special character"},
	{"mapping values are not allowed", "indent keys of one mapping alike, and quote texts that contain a colon"},
	{"expected ',' or", "close what a bracket or brace opened, and separate entries by commas"},
	{"expected node content", "close what a bracket or brace opened, or write a value"},
	{"unexpected end of stream", "close the quotes"},
	{"did not find expected key", "indent keys of one mapping alike"},
	{"unknown anchor", "write &NAME where the value is first given, or quote a text that begins with *"},
}

func hint(message string) string {
	for _, h := range hints {
		if strings.Contains(message, h.in) {
			return "; " + h.hint
		}
	}
	return ""
}

var (
	yamlLine    = regexp.MustCompile(`^line (\d+): (.*)`)
	yamlGrammar = regexp.MustCompile(`^did not find expected (node content|key|',' or|'-' indicator|<)`)
)

// decodeYAML decodes the next document. No document may bring gantry down by a panic of the library.
func decodeYAML(d *yaml.Decoder, n *Node) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("its structure makes no sense")
		}
	}()
	return d.Decode(n)
}

// yamlBounds looks for a text that would take too much memory to parse, and returns its line. Each node of a document
// takes a separator, and up to 400 bytes.
func yamlBounds(data []byte) (line int, bound string) {
	if len(data) > MaxYAML {
		return 1, fmt.Sprintf("a YAML document of %d bytes is above the bound of %d; write it in several files, "+
			"or a workflow as DAX or WfFormat", len(data), MaxYAML)
	}
	values, run, most := 0, 0, MaxValues+len(data)/8
	line = 1
	for i, c := range data {
		switch c {
		case '\n':
			line++
			continue
		case ' ':
			continue
		case '[', '{', '-', '?':
			if (c == '-' || c == '?') && i+1 < len(data) && data[i+1] > ' ' {
				break
			}
			if run++; run > MaxDepth {
				return line, tooDeep
			}
			values++
			continue
		case ',', ':':
			values++
		}
		run = 0
		if values > most {
			return line, fmt.Sprintf("more than %d values", most)
		}
	}
	return 0, ""
}

// nodeBounds looks for nodes nested too deeply and for texts too long.
func nodeBounds(n *Node, depth int) (line int, bound string) {
	switch {
	case depth > MaxDepth:
		return n.Line, tooDeep
	case len(n.Value) > MaxText:
		return n.Line, TooLong
	}
	for _, c := range n.Content {
		if line, bound := nodeBounds(c, depth+1); bound != "" {
			return line, bound
		}
	}
	return 0, ""
}

// Stop ends the reading: all further values are null.
func (y *YAML) Stop() { y.over = true }

func (y *YAML) bound(line int, what string) {
	y.over = true
	y.Faults.Fail("bound", line, "", "%s", what)
}

// Value looks through aliases; nil is null.
func (y *YAML) Value(n *Node) *Node {
	for n != nil && n.Kind == yaml.AliasNode {
		if !y.visit(n) {
			return nil
		}
		n = n.Alias
	}
	if y.over || n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil
	}
	return n
}

// visit counts a value that is looked at, and reports whether there may be that many: aliases can make a few many.
func (y *YAML) visit(n *Node) bool {
	if y.values++; y.values > 10_000+4*y.size && !y.over {
		y.bound(y.Line(n), "its aliases unfold to too many values")
	}
	return !y.over
}

// Line is the line of the file on which a value begins.
func (y *YAML) Line(n *Node) int {
	if n == nil {
		return 0
	}
	return n.Line
}

// IsList reports whether a value is a list.
func (y *YAML) IsList(n *Node) bool {
	v := y.Value(n)
	return v != nil && v.Kind == yaml.SequenceNode
}

// IsMapping reports whether a value is a mapping.
func (y *YAML) IsMapping(n *Node) bool {
	v := y.Value(n)
	return v != nil && v.Kind == yaml.MappingNode
}

// Mapping calls f with each key and value, those that << merges last, and reports whether n is a mapping; null is an
// empty one. A key given twice is a fault.
func (y *YAML) Mapping(n *Node, what string, f func(key string, v *Node)) bool {
	return y.mapping(n, what, map[string]bool{}, f)
}

// Fields have the readers of the keys of a mapping; nil: the key has no effect.
type Fields map[string]func(*Node)

// Fields reads a mapping by a table of its keys. Others are told to unknown, unless that is nil.
func (y *YAML) Fields(n *Node, what string, table Fields, unknown func(key string)) bool {
	return y.Mapping(n, what, func(key string, v *Node) {
		if read, ok := table[key]; !ok && unknown != nil {
			unknown(key)
		} else if read != nil {
			read(v)
		}
	})
}

func (y *YAML) mapping(n *Node, what string, outer map[string]bool, f func(key string, v *Node)) bool {
	v := y.Value(n)
	if v == nil {
		return true
	}
	if v.Kind != yaml.MappingNode {
		y.Faults.Fail("wrong-type", y.Line(v), "", "%s should be a mapping of keys to values", what)
		return false
	}
	if len(v.Content) > 2*MaxKeys {
		y.bound(y.Line(v.Content[2*MaxKeys]), tooManyKeys)
		return false
	}
	var merges []*Node
	seen := make(map[string]bool, len(v.Content)/2)
	for i := 0; i+1 < len(v.Content) && y.visit(v.Content[i]); i += 2 {
		k, value := v.Content[i], v.Content[i+1]
		if k.ShortTag() == "!!merge" {
			merges = append(merges, value)
			continue
		}
		name := y.Value(k)
		if y.over {
			return false
		}
		if name == nil || name.Kind != yaml.ScalarNode {
			y.Faults.Fail("wrong-type", y.Line(k), "", "%s: %s is no key: a key is a text, in quotes if it is null or "+
				"has braces or brackets", what, kindOf(name))
			continue
		}
		key := name.Value
		if len(key) > MaxName {
			y.bound(y.Line(k), TooLongName)
			return false
		}
		if seen[key] {
			y.Faults.Fail("duplicate-key", y.Line(k), "", "%s: %s is given twice", what, key)
		} else if seen[key] = true; !outer[key] {
			y.KeyLine = y.Line(k)
			f(key, value)
		}
	}
	maps.Copy(seen, outer)
	for _, m := range merges {
		if y.IsList(m) {
			y.Sequence(m, "what << merges", func(m *Node) { y.mapping(m, "what << merges", seen, f) })
		} else {
			y.mapping(m, "what << merges", seen, f)
		}
	}
	maps.Copy(outer, seen) // of several mappings that << merges the first counts
	return true
}

func kindOf(n *Node) string {
	switch {
	case n == nil:
		return "null"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	}
	return "a list"
}

// Sequence calls f with each element; null is an empty sequence.
func (y *YAML) Sequence(n *Node, what string, f func(v *Node)) {
	v := y.Value(n)
	if v == nil {
		return
	}
	if v.Kind != yaml.SequenceNode {
		y.Faults.Fail("wrong-type", y.Line(v), "", "%s should be a list", what)
		return
	}
	for _, e := range v.Content {
		if !y.visit(e) {
			return
		}
		f(e)
	}
}

// Text is a scalar as it is written, so that 5.0 stays "5.0"; null is "".
func (y *YAML) Text(n *Node) string {
	v := y.Value(n)
	if v == nil {
		return ""
	}
	if v.Kind != yaml.ScalarNode {
		y.Faults.Fail("wrong-type", y.Line(v), "", "a text or number should be here")
		return ""
	}
	return v.Value
}
