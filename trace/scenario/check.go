package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gantry/trace"
	"gantry/trace/generate"
	"gantry/trace/reader"
	"gantry/trace/spelling"
)

// kinds are the keys that distinguish the kinds of files; keys that two kinds share count for neither.
var kinds = []struct {
	kind string
	keys []string
}{
	{"workload", []string{"workflows", "mix", "count", "arrivals", "total_runtime", "tenants", "deadlines", "releases",
		"classes", "warm_up", "cool_down",
		"scale_times", "sizes", "preempt"}},
	{"cluster", []string{"nodes", "links", "transfer"}},
	{"experiment", []string{"factors", "workload", "cluster", "search", "quick", "keep", "limit", "title"}},
}

// Kind recognises by a text, or its beginning, whether it is a workload, cluster or experiment file; "" is none of
// them.
func Kind(text []byte) string {
	text = bytes.TrimLeft(text, "\xef\xbb\xbf \t\r\n")
	if len(text) == 0 || text[0] == '<' {
		return ""
	}
	keys := reader.Keys(text, true)
	if keys["pegasus"] || keys["x-pegasus"] || keys["workflow"] && text[0] == '{' ||
		keys["schemaVersion"] && !keys["workflows"] || trace.ForeignKeys(keys) {
		return ""
	}
	for _, exact := range []bool{true, false} { // else a slip in a key will do
		best, most := "", 0
		for _, k := range kinds {
			n := 0
			for key := range keys {
				if slices.Contains(k.keys, key) || !exact && len(key) < 100 && spelling.Nearest(key, k.keys) != "" {
					n++
				}
			}
			if n > most {
				best, most = k.kind, n
			}
		}
		if best != "" {
			return best
		}
	}
	return ""
}

// About is the description of a file by Check.
type About struct {
	Name  string
	Lines []string
}

// Check reads a file of a kind that Kind knows, reads the traces that it names, and looks whether its other files
// exist. An error is a *FileError, or one of reading r. policy returns the fault of a policy, nil if it has none.
func Check(kind string, r io.Reader, source string, read trace.ReadOptions, policy func(string) error) (about About,
	err error) {
	tell := func(format string, args ...any) { about.Lines = append(about.Lines, fmt.Sprintf(format, args...)) }
	var named []path
	type listed struct {
		line int
		text string
	}
	var policies []listed
	var faults reader.Faults
	sound := func(path string) error { return soundTrace(path, read) }
	switch kind {
	case "workload":
		w, err := ReadWorkload(r, source)
		if err != nil {
			return about, err
		}
		about.Name = w.Name
		if n := w.Listed(); n > 0 {
			tell("workflows      %d listed", n)
		}
		for i := range w.Arrivals {
			a := &w.Arrivals[i]
			look := sound
			if a.Archive {
				look = func(path string) error {
					_, faults, err := trace.OpenArchive(path, nil, read)
					return first(path, faults, err)
				}
			}
			named = append(named, path{a.Line, "trace", a.Trace, look},
				path{a.Line, "inputs", a.Inputs, exists})
		}
		if s := w.Stream; s != nil {
			tell("stream         %d drawn, arrivals %s", s.Count, s.Arrivals.Process)
			for i := range s.Mix {
				m := &s.Mix[i]
				named = append(named, path{m.Line, "trace", m.Trace, soundTraces(sound)},
					path{m.Line, "inputs", m.Inputs, exists})
				generated(m, s.Sizes, &faults)
			}
		}
	case "cluster":
		c, err := ReadCluster(r, source)
		if err != nil {
			return about, err
		}
		about.Name = c.Name
		cores := 0.0
		for i := range c.Nodes {
			cores += c.Nodes[i].Cores
		}
		tell("nodes          %d", len(c.Nodes))
		tell("cores          %g in all", cores)
	case "experiment":
		x, err := ReadExperiment(r, source, false, "")
		if err != nil {
			return about, err
		}
		about.Name = x.Name
		tell("runs           %.0f in all", x.runs())
		for _, block := range x.Blocks {
			for _, f := range block {
				for i, v := range f.Values {
					switch f.Name {
					case "policy":
						policies = append(policies, listed{f.Lines[i], v})
					case "workload", "cluster":
						named = append(named, path{f.Lines[i], f.Name, below(filepath.Dir(source), v), exists})
					}
				}
			}
		}
	}
	unusable(named, &faults)
	for _, p := range policies {
		if faults.Full() { // faults of policies are long
			break
		}
		if err := policy(p.text); err != nil {
			faults.Fail("policy", p.line, "", "%v", err)
		}
	}
	if all := faults.Sorted(); reader.HasErrors(all) {
		return about, &FileError{kind, source, all[0], all}
	}
	return about, nil
}

// generated finds a generator that there is not, and sizes that it does not make.
func generated(m *StreamSource, sizes []generate.SizeClass, faults *reader.Faults) {
	if m.Generator == "" {
		return
	}
	k, err := generate.Find(m.Generator)
	if err != nil {
		faults.Fail("generator", m.Line, "", "%v", err)
		return
	}
	if m.Sizes != nil {
		sizes = m.Sizes
	}
	for _, s := range sizes {
		if err := k.Check(s.Min); err != nil {
			faults.Fail("generator", m.Line, "", "%v", err)
			return
		}
	}
}

// path is a file that another one names, with a check of it.
type path struct {
	line       int
	what, path string
	look       func(string) error
}

func exists(path string) error {
	_, err := os.Stat(path)
	return err
}

// soundTrace reads a trace, and returns its first fault.
func soundTrace(path string, read trace.ReadOptions) error {
	_, faults, err := trace.Open(path, read)
	return first(path, faults, err)
}

func first(path string, faults []trace.Fault, err error) error {
	switch {
	case err != nil:
		return err
	case reader.HasErrors(faults):
		line := ""
		if faults[0].Line > 0 {
			line = fmt.Sprintf(":%d", faults[0].Line)
		}
		return fmt.Errorf("%s%s: %s; gantry check %s shows all", path, line, faults[0].Message, path)
	}
	return nil
}

// soundTraces looks for a trace, or a directory with some.
func soundTraces(sound func(string) error) func(string) error {
	return func(path string) error {
		files, _, err := trace.Find([]string{path})
		for _, f := range files {
			if err == nil {
				err = sound(f)
			}
		}
		return err
	}
}

// unusable reports files that are missing or fail their check.
func unusable(named []path, faults *reader.Faults) {
	seen := map[string]bool{}
	for _, p := range named {
		if p.path == "" || p.path == "-" || seen[p.path] {
			continue
		}
		seen[p.path] = true
		err := p.look(p.path)
		switch wrong := new(fs.PathError); {
		case errors.As(err, &wrong):
			faults.Fail("missing-file", p.line, "", "%s %s: %s", p.what, p.path, absent(p.path, err))
		case err != nil:
			faults.Fail(p.what, p.line, "", "%v", err)
		}
	}
}

// absent is why a file cannot be opened, without its path.
func absent(path string, err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file"
	}
	_, why, _ := strings.Cut(err.Error(), path+": ")
	return why
}
