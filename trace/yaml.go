package trace

import (
	"bytes"
	"regexp"

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

// yamlPart is some elements of a list, as text.
type yamlPart struct {
	text   []byte
	before int // lines before it
}

const (
	yamlWhole  = 256 << 10 // a document up to here is parsed in one piece
	yamlPiece  = 64 << 10  // and a larger one in pieces of about this
	yamlMarker = "\n---"
)

// alias is what looks like an anchor or an alias, which would join the pieces.
var alias = regexp.MustCompile(`(?:^|[\s\[{,])[&*][\w.-]`)

// splitYAML takes the lists below the given keys of the outermost mapping out of a large document, so that they can be parsed in pieces:
// a syntax tree takes a hundred times the memory of its text. Elements of a block list begin with a dash on one column, and all within
// them is further right. rest is the document with empty lines in their place; of what is written in another way lists is nil.
func splitYAML(data []byte, keys ...string) (rest []byte, lists map[string][]yamlPart) {
	if len(data) < yamlWhole || bytes.Contains(data, []byte(yamlMarker)) || alias.Match(data) {
		return data, nil
	}
	lists = map[string][]yamlPart{}
	key, column, begin, before := "", -1, 0, 0 // of the list that is being read, and of its current part
	number := 0
	flush := func(end int) {
		if key != "" && end > begin {
			lists[key] = append(lists[key], yamlPart{data[begin:end], before})
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
					key, lists[k] = k, []yamlPart{}
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
