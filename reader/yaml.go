package reader

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// safeParse parses YAML. The parser is a library that must not bring gantry down, whatever it is given.
func safeParse(data []byte) (file *ast.File, err error) {
	defer func() {
		if recover() != nil {
			file, err = nil, errYAML
		}
	}()
	return parser.ParseBytes(data, 0)
}

// YAMLPart is some elements of a list, as text.
type YAMLPart struct {
	Text   []byte
	Before int // lines before it
}

const (
	yamlWhole  = 256 << 10 // a document up to here is parsed in one piece
	yamlPiece  = 64 << 10  // and a larger one in pieces of about this
	yamlMarker = "\n---"
)

// alias is what looks like an anchor or an alias, which would join the pieces.
var alias = regexp.MustCompile(`(?:^|[\s\[{,])[&*][\w.-]`)

// SplitYAML takes the lists below the given keys of the outermost mapping out of a large document, so that they can be parsed in pieces:
// a syntax tree takes a hundred times the memory of its text. Elements of a block list begin with a dash on one column, and all within
// them is further right. rest is the document with empty lines in their place; of what is written in another way lists is nil.
func SplitYAML(data []byte, keys ...string) (rest []byte, lists map[string][]YAMLPart) {
	if len(data) < yamlWhole || bytes.Contains(data, []byte(yamlMarker)) || alias.Match(data) {
		return data, nil
	}
	lists = map[string][]YAMLPart{}
	key, column, begin, before := "", -1, 0, 0 // of the list that is being read, and of its current part
	number := 0
	flush := func(end int) {
		if key != "" && end > begin {
			lists[key] = append(lists[key], YAMLPart{data[begin:end], before})
		}
		begin, before = end, number
	}
	for at := 0; at < len(data); number++ {
		end := len(data)
		if n := bytes.IndexByte(data[at:], '\n'); n >= 0 {
			end = at + n + 1
		}
		line := bytes.TrimRight(data[at:end], " \t\r\n")
		text := bytes.TrimLeft(line, " ")
		left := len(line) - len(text)
		dash := len(text) > 0 && text[0] == '-' && (len(text) == 1 || text[1] == ' ')
		inside := key != ""
		switch {
		case inside && (len(text) == 0 || text[0] == '#'):
		case inside && column < 0:
			if !dash {
				return data, nil // in flow style, or empty
			}
			column = left
		case inside && left == column && dash:
			if at-begin >= yamlPiece {
				flush(at)
			}
		case inside && left > column:
		case inside && left > 0:
			return data, nil // for the parser to tell
		default:
			flush(at)
			key, column, inside = "", -1, false
			for _, k := range keys {
				if string(line) == k+":" {
					if lists[k] != nil {
						return data, nil // given twice
					}
					key, lists[k] = k, []YAMLPart{}
					begin, before = end, number+1
				}
			}
		}
		if inside {
			rest = append(rest, '\n')
		} else {
			rest = append(rest, data[at:end]...)
		}
		at = end
	}
	flush(len(data))
	return rest, lists
}

// YAML walks a YAML document by its syntax tree, which has the lines. Aliases are followed, a bounded number of times, so that a
// small file cannot unfold into a giant one.
type YAML struct {
	Faults  *Faults
	anchors map[string]ast.Node
	aliases int
	before  int // lines of the file before the text
}

const maxAliases = 10_000

// ParseYAML returns the root of the only document of a text, or nil after a fault.
func ParseYAML(data []byte, faults *Faults) (y *YAML, root ast.Node) {
	return ParseYAMLAfter(0, data, faults)
}

// ParseYAMLAfter is ParseYAML of a text that so many lines of its file precede.
func ParseYAMLAfter(before int, data []byte, faults *Faults) (y *YAML, root ast.Node) {
	y = &YAML{Faults: faults, anchors: map[string]ast.Node{}, before: before}
	if !utf8.Valid(data) {
		n := 0
		for n < len(data) {
			r, size := utf8.DecodeRune(data[n:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			n += size
		}
		faults.Fail("syntax", before+1+bytes.Count(data[:n], []byte{'\n'}), "", "not YAML: the text is not UTF-8; convert the file to UTF-8")
		return y, nil
	}
	if bytes.Contains(data, []byte("\r\n")) { // the parser takes block scalars amiss with them
		data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	}
	file, err := safeParse(data)
	if err != nil {
		line, message := 0, err.Error()
		if e, ok := err.(yaml.Error); ok {
			if tok := e.GetToken(); tok != nil && tok.Position != nil {
				line = before + tok.Position.Line
			}
			message = e.GetMessage()
		}
		faults.Fail("syntax", line, "", "not YAML: %s", message)
		return y, nil
	}
	for _, d := range file.Docs {
		if d.Body == nil {
			continue
		}
		if root != nil {
			faults.Warn("documents", y.Line(d.Body), "", "more than one YAML document: the first counts")
			break
		}
		root = d.Body
	}
	if root == nil {
		faults.Fail("empty", before+1, "", "there is nothing in it")
		return y, nil
	}
	ast.Walk(visitor(func(n ast.Node) {
		if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil {
			y.anchors[a.Name.String()] = a.Value
		}
	}), root)
	return y, root
}

type visitor func(ast.Node)

func (v visitor) Visit(n ast.Node) ast.Visitor { v(n); return v }

// value looks through anchors, aliases and tags; nil is null.
func (y *YAML) Value(n ast.Node) ast.Node {
	for range 100 {
		switch v := n.(type) {
		case *ast.AnchorNode:
			n = v.Value
		case *ast.AliasNode:
			if y.aliases++; y.aliases > maxAliases || v.Value == nil {
				y.Faults.Fail("aliases", y.Line(n), "", "more than %d uses of aliases", maxAliases)
				return nil
			}
			to, ok := y.anchors[v.Value.String()]
			if !ok {
				y.Faults.Fail("syntax", y.Line(n), "", "alias *%s has no anchor", v.Value.String())
				return nil
			}
			n = to
		case *ast.TagNode:
			n = v.Value
		case *ast.NullNode:
			return nil
		default:
			return n
		}
	}
	return nil
}

func (y *YAML) Line(n ast.Node) int {
	if n == nil {
		return 0
	}
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 { // its own token is a colon or a brace
		if t := m.Values[0].Key.GetToken(); t != nil && t.Position != nil {
			return y.before + t.Position.Line
		}
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return y.before + t.Position.Line
	}
	return 0
}

// mapping calls f with each key and value in order and reports whether n is a mapping; null is an empty one.
func (y *YAML) Mapping(n ast.Node, what string, f func(key string, v ast.Node)) bool {
	v := y.Value(n)
	if v == nil {
		return true
	}
	m, ok := v.(ast.MapNode)
	if !ok {
		y.Faults.Fail("wrong-type", y.Line(v), "", "%s should be a mapping of keys to values", what)
		return false
	}
	for it := m.MapRange(); it.Next(); {
		if k := it.Key(); k.IsMergeKey() {
			y.Mapping(it.Value(), "what << merges", f)
		} else {
			f(y.Text(k), it.Value())
		}
	}
	return true
}

// sequence calls f with each element; null is an empty sequence.
func (y *YAML) Sequence(n ast.Node, what string, f func(v ast.Node)) {
	v := y.Value(n)
	if v == nil {
		return
	}
	s, ok := v.(*ast.SequenceNode)
	if !ok {
		y.Faults.Fail("wrong-type", y.Line(v), "", "%s should be a list", what)
		return
	}
	for _, e := range s.Values {
		f(e)
	}
}

// Text is a scalar as it is written, so that 5.0 stays "5.0"; null is "".
func (y *YAML) Text(n ast.Node) string {
	switch v := y.Value(n).(type) {
	case nil:
		return ""
	case *ast.StringNode:
		return v.Value
	case *ast.LiteralNode:
		return v.Value.Value
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
		y.Faults.Fail("wrong-type", y.Line(v), "", "a text or number should be here")
		return ""
	default:
		return strings.TrimSpace(v.GetToken().Value)
	}
}

var errYAML = errors.New("its structure makes no sense")
