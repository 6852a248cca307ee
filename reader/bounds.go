package reader

import "fmt"

// What a file may hold. Bounds lists these for people, docs/limits.md has the list.
const (
	MaxDepth  = 100     // elements, objects, lists and mappings inside each other
	MaxAttrs  = 100     // attributes of an element; profiles of a task, of a transformation or of a workflow
	MaxKeys   = 10_000  // keys of an object or mapping
	MaxText   = 1 << 20 // bytes of a text
	MaxName   = 4096    // bytes of an id, a file name or a key
	MaxValues = 64_000  // values that are parsed at once, in YAML; and one for each 20 bytes of the file
	MaxErrors = 20      // errors that are shown one by one
	MaxLetter = 500     // characters of a message
)

var (
	tooDeep     = fmt.Sprintf("nested deeper than %d", MaxDepth)
	tooLong     = fmt.Sprintf("a text of more than %d bytes", MaxText)
	tooManyKeys = fmt.Sprintf("more than %d keys", MaxKeys)
)
