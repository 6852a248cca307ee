package reader

import "fmt"

// Bounds of the content of a file. The test lists them for people.
const (
	MaxDepth     = 100
	MaxAttrs     = 100
	MaxKeys      = 10_000
	MaxText      = 1 << 20
	MaxName      = 4096
	MaxDigits    = 1000
	MaxLocations = 1000
	MaxValues    = 72_000
	MaxYAML      = 32 << 20
	MaxInput     = 64 << 20
	MaxRatio     = 50
	MaxErrors    = 20
	MaxMessage   = 500
)

var (
	tooDeep      = fmt.Sprintf("nested deeper than %d", MaxDepth)
	TooLong      = fmt.Sprintf("a text of more than %d bytes", MaxText)
	TooLongName  = fmt.Sprintf("a name of more than %d bytes", MaxName)
	tooManyAttrs = fmt.Sprintf("more than %d attributes", MaxAttrs)
	tooManyKeys  = fmt.Sprintf("more than %d keys", MaxKeys)
)
