package executor

import "strings"

// Mount is a file or directory of the host in the containers of a task.
type Mount struct {
	From, To string // absolute paths: on the host, in the container
	// Writable is of a directory in which a task works (Workplace): no reader of workflow files makes one.
	Writable bool
}

// writable ends the text of a mount that a task may write to.
const writable = ":rw"

// ParseMount reads HOST:CONTAINER, which is read-only, or HOST:CONTAINER:rw.
func ParseMount(text string) (m Mount) {
	text, m.Writable = strings.CutSuffix(text, writable)
	m.From, m.To, _ = strings.Cut(text, ":")
	return m
}

// Workplace is the text of the mount of a directory in which a task works: at the same path, writable.
func Workplace(dir string) string { return dir + ":" + dir + writable }
