package trace

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gantry/trace/spelling"
)

// Matches reports whether a pattern matches the name of a file, or is that name. As in a shell, * and ? match no slash
// and no dot that a name begins with; ** matches any directories.
func Matches(pattern, name string) bool {
	return matches(strings.Split(path.Clean(pattern), "/"), strings.Split(path.Clean(name), "/"))
}

func matches(pattern, name []string) bool {
	stars, from := -1, 0 // the last ** and where the pattern after it is tried
	i, j := 0, 0
	for j < len(name) {
		switch {
		case i < len(pattern) && pattern[i] == "**":
			stars, from = i, j
			i++
		case i < len(pattern) && matchesPart(pattern[i], name[j]):
			i++
			j++
		case stars >= 0 && !strings.HasPrefix(name[from], "."):
			from++
			i, j = stars+1, from
		default:
			return false
		}
	}
	for i < len(pattern) && pattern[i] == "**" {
		i++
	}
	return i == len(pattern)
}

func matchesPart(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return pattern == name || err == nil && ok && (pattern[0] == '.' || name[0] != '.')
}

// MayHold reports whether a pattern may match a part of an output: a file in a directory of that name, or one of the
// files that the output matches, if it is a pattern.
func MayHold(pattern, output string) bool {
	return mayHold(strings.Split(path.Clean(pattern), "/"), strings.Split(path.Clean(output), "/"))
}

func mayHold(pattern, output []string) bool {
	switch {
	case len(output) == 0:
		return true
	case len(pattern) == 0:
		return false
	case output[0] == "**":
		return mayMeet(pattern[len(pattern)-1], output[len(output)-1])
	case pattern[0] == "**":
		return true
	}
	return mayMeet(pattern[0], output[0]) && mayHold(pattern[1:], output[1:])
}

// mayMeet reports whether two patterns may match one name.
func mayMeet(a, b string) bool {
	const special = "*?[]"
	i, j := strings.IndexAny(a, special), strings.IndexAny(b, special)
	if i < 0 || j < 0 {
		return matchesPart(a, b) || matchesPart(b, a)
	}
	begins := strings.HasPrefix(a[:i], b[:j]) || strings.HasPrefix(b[:j], a[:i])
	x, y := a[strings.LastIndexAny(a, special)+1:], b[strings.LastIndexAny(b, special)+1:]
	return begins && (strings.HasSuffix(x, y) || strings.HasSuffix(y, x))
}

// mostNamed is how many files an error names.
const mostNamed = 10

// KeepResults makes all files results that a task writes and whose names a pattern matches, also parts of outputs. It
// is an error if there can be none. Any output may be a directory, but with ** in front a pattern that matches no
// output takes one without an ending.
func (w *Workflow) KeepResults(pattern string) error {
	any, parts := false, false
	var written []string
	for i := range w.Files {
		f := &w.Files[i]
		if f.Producer < 0 {
			continue
		}
		if Matches(pattern, f.Name) {
			f.Keep, any = KeepAlways, true
		} else if MayHold(pattern, f.Name) {
			parts = true
			any = any || !strings.HasPrefix(path.Clean(pattern), "**") || path.Ext(f.Name) == ""
		}
		written = append(written, f.Name)
	}
	if parts && !slices.Contains(w.Results, pattern) {
		w.Results = append(w.Results, pattern)
	}
	if any {
		return nil
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("%q is no pattern: a [ is not closed", pattern)
	}
	slices.Sort(written)
	if near := spelling.Nearest(pattern, written); near == "" && len(written) > mostNamed {
		written = append(written[:mostNamed], "...")
	}
	return fmt.Errorf("%q matches no file that a task writes: %s", pattern, spelling.Hint(pattern, written))
}
