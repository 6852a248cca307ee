package trace

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gantry/trace/shown"
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

// mostNamed is how many files an error names.
const mostNamed = 10

// KeepResults makes all files results that a task writes and whose names a pattern matches. It is an error if there is
// none.
func (w *Workflow) KeepResults(pattern string) error {
	any := false
	var written []string
	for i := range w.Files {
		f := &w.Files[i]
		if f.Producer < 0 {
			continue
		}
		if Matches(pattern, f.Name) {
			f.Keep, any = KeepAlways, true
		}
		written = append(written, f.Name)
	}
	if any {
		return nil
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("%q is no pattern: a [ is not closed", pattern)
	}
	slices.Sort(written)
	for _, name := range written {
		if Matches(name, pattern) || strings.HasPrefix(path.Clean(pattern), name+"/") {
			return fmt.Errorf("%q is a part of %s, which a task declares as one output: patterns are compared with "+
				"the names that tasks declare; name that", pattern, shown.Quote(name))
		}
	}
	if near := spelling.Nearest(pattern, written); near == "" && len(written) > mostNamed {
		written = append(written[:mostNamed], "...")
	}
	return fmt.Errorf("%q matches no file that a task writes: %s", pattern, spelling.Hint(pattern, written))
}
