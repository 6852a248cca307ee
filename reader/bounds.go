package reader

import "fmt"

// What a file may hold. Bounds lists these for people, docs/limits.md has the list.
const (
	MaxDepth   = 100      // elements, objects, lists and mappings inside each other
	MaxAttrs   = 100      // attributes of an element; profiles of a task, of a transformation or of a workflow
	MaxKeys    = 10_000   // keys of an object or mapping
	MaxText    = 1 << 20  // bytes of a text
	MaxName    = 4096     // bytes of an id, a file name or a key
	MaxValues  = 64_000   // values that are parsed at once, in YAML; and one for each 20 bytes of the file
	MaxInput   = 64 << 20 // bytes that a compressed file may hold, or
	MaxRatio   = 50       // times its size, whichever is more; --max-input says otherwise
	MaxErrors  = 20       // errors that are shown one by one
	MaxMessage = 500      // characters of a message
)

// TooMuch says that a file describes more than its size lets expect.
const TooMuch = "what it describes takes more memory than 20 times the size of the file and 64 MB"

var (
	tooDeep      = fmt.Sprintf("nested deeper than %d", MaxDepth)
	TooLong      = fmt.Sprintf("a text of more than %d bytes", MaxText)
	TooLongName  = fmt.Sprintf("a name of more than %d bytes", MaxName)
	tooManyAttrs = fmt.Sprintf("more than %d attributes", MaxAttrs)
	tooManyKeys  = fmt.Sprintf("more than %d keys", MaxKeys)
)
