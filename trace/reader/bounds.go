package reader

import "fmt"

// Bounds of the content of a file. Bounds lists these for people.
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

// Bounds are the bounds as docs/files.md lists them: pairs of a thing and its bound.
func Bounds() [][2]string {
	return [][2]string{
		{"elements, objects, lists and mappings inside each other", fmt.Sprint(MaxDepth)},
		{"attributes of an element", fmt.Sprint(MaxAttrs)},
		{"profiles of a task, of a transformation or of a workflow", fmt.Sprint(MaxAttrs)},
		{"keys of an object or mapping", fmt.Sprint(MaxKeys)},
		{"a text, a tag or a cell", fmt.Sprintf("%d bytes", MaxText)},
		{"an id, a key, or the name of a file, element or attribute", fmt.Sprintf("%d bytes", MaxName)},
		{"a number of JSON", fmt.Sprintf("%d characters", MaxDigits)},
		{"locations of a file in catalogs", fmt.Sprint(MaxLocations)},
		{"properties in a file of Pegasus", fmt.Sprint(MaxKeys)},
		{"a file of YAML", fmt.Sprintf("%d bytes", MaxYAML)},
		{"values of YAML", fmt.Sprintf("%d, and one for each 8 bytes of the file", MaxValues)},
		{"cores; CPUs of a node", fmt.Sprint(MaxCores)},
		{"bytes, of memory or of a file; bytes per second", fmt.Sprint(MaxBytes)},
		{"runtimes, times and time limits", fmt.Sprintf("%.0f s (100 years)", MaxTime.Seconds())},
		{"text in a compressed file", fmt.Sprintf("%d bytes or %d times its size, whichever is more", MaxInput,
			MaxRatio)},
		{"errors that are shown", fmt.Sprint(MaxErrors)},
		{"a message", fmt.Sprintf("%d bytes", MaxMessage)},
	}
}

var (
	tooDeep      = fmt.Sprintf("nested deeper than %d", MaxDepth)
	TooLong      = fmt.Sprintf("a text of more than %d bytes", MaxText)
	TooLongName  = fmt.Sprintf("a name of more than %d bytes", MaxName)
	tooManyAttrs = fmt.Sprintf("more than %d attributes", MaxAttrs)
	tooManyKeys  = fmt.Sprintf("more than %d keys", MaxKeys)
)
