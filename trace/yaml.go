package trace

import (
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
