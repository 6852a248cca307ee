package executor

import (
	"slices"
	"strings"

	"gantry/planner"
	"gantry/trace"
)

// Mount is a file or directory of the host in the containers of a task.
type Mount struct {
	From, To string // absolute paths: on the host, in the container
	// InPlace is of a directory of the host that a job names, at its own path. It is checked with the rights of the
	// user of programs when the attempt begins. No reader of workflow files makes one.
	InPlace  bool
	Writable bool // InPlace
}

// ParseMount reads HOST:CONTAINER, which is read-only, or the text of InPlace. The last colon before a slash parts
// them, as the name of a directory of the host may have others.
func ParseMount(text string) (m Mount) {
	rest, writable := strings.CutSuffix(text, ":rw")
	readable := false
	if !writable {
		rest, readable = strings.CutSuffix(rest, ":in-place")
	}
	if at := strings.LastIndex(rest, ":/"); at >= 0 {
		m.From, m.To = rest[:at], rest[at+1:]
	} else {
		m.From, m.To, _ = strings.Cut(rest, ":")
	}
	m.Writable, m.InPlace = writable, writable || readable
	// The name of a directory in place may have colons: it is there twice, and as long as half of the text.
	if half := len(rest) / 2; m.InPlace && len(rest)%2 == 1 && rest[:half] == rest[half+1:] {
		m.From, m.To = rest[:half], rest[:half]
	}
	return m
}

// InPlace is the text of the mount of a directory at its own path.
func InPlace(dir string, writable bool) string {
	if writable {
		return dir + ":" + dir + ":rw"
	}
	return dir + ":" + dir + ":in-place"
}

// Once reports whether a task that ended so is not to begin again: it may change directories of the host, and its user
// did not say that it may do so several times. It never gets more memory.
func (t *TaskSpec) Once(o planner.Outcome) bool {
	return (!t.Repeats || o == planner.OutOfMemory) &&
		slices.ContainsFunc(t.Mounts, func(m string) bool { return ParseMount(m).Writable })
}

// AddMounts gives all programs of a workflow more mounts, beside those of their containers; name is that of the
// container that programs without one get.
func AddMounts(w *trace.Workflow, name string, mounts []string) {
	w.Tasks, w.Containers = slices.Clone(w.Tasks), slices.Clone(w.Containers) // others may share them
	for i := range w.Containers {
		w.Containers[i].Mounts = slices.Concat(w.Containers[i].Mounts, mounts)
	}
	w.Containers = append(w.Containers, trace.Container{Name: name, Mounts: mounts})
	for i := range w.Tasks {
		if t := &w.Tasks[i]; len(t.Command) > 0 && t.Container == 0 {
			t.Container = int32(len(w.Containers))
		}
	}
}
