package executor

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gantry/planner/unit"
)

// Part is a part of a task's specification that affects its outputs.
type Part struct{ Name, Value string }

// Members of TaskSpec that decide nothing of it, those of emulated tasks only, and those that other words name better.
// Every member that is not here is a part.
var (
	noParts = []string{"Workflow", "Name", "Kind", "TimeLimit", "DiskLimit", "Declares", "Reads", "Declared",
		"Overhead", "Unknown", "Image", "Inputs", "Outputs"}
	emulatedOnly = []string{"Cores", "AvgCPU", "Memory", "Run", "RunOn"}
	partNames    = map[string]string{"Env": "environment", "Shell": "use of a shell",
		"Expand": "way to parse its arguments", "Stdin": "standard input", "Stdout": "standard output",
		"Stderr": "standard error", "AvgCPU": "average CPU", "Run": "runtime", "RunOn": "runtime on nodes"}
)

// Parts lists the parts that affect the outputs of a task, but for its image and the contents of its inputs. Limits are
// none of them. Two tasks of the same parts write the same names.
func (t *TaskSpec) Parts() []Part {
	parts := []Part{{"inputs", fileNames(t.Inputs)}, {"outputs", fileNames(t.Outputs)}}
	v := reflect.ValueOf(t).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if slices.Contains(noParts, name) || len(t.Command) > 0 && slices.Contains(emulatedOnly, name) {
			continue
		}
		label := cmp.Or(partNames[name], strings.ToLower(name))
		value := v.Field(i).Interface()
		if name == "Command" && t.Shell && len(t.Command) > 0 {
			parts, value = append(parts, Part{"shell", cmp.Or(plain(t.Command[1:]), "sh")}), t.Command[:1]
		}
		parts = append(parts, Part{label, plain(value)})
	}
	if len(t.Command) == 0 {
		var sizes []unit.Bytes
		for _, f := range slices.Concat(t.Inputs, t.Outputs) {
			sizes = append(sizes, f.Size)
		}
		parts = append(parts, Part{"file sizes", fmt.Sprint(sizes)})
	}
	return parts
}

func fileNames(files []*FileSpec) string {
	var names []string
	for _, f := range files {
		name := f.Name
		if f.Program != "" {
			name += " as program " + f.Program
		}
		if len(names) == 0 || names[len(names)-1] != name { // blocks of one file have one name
			names = append(names, name)
		}
	}
	return plain(names)
}

// plain writes a value as JSON, and a text, or a list of one text, as it is.
func plain(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []string:
		switch len(v) {
		case 0:
			return ""
		case 1:
			return v[0]
		}
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(b.String())
}

// Identity is a hash of the parts of a task.
func (t *TaskSpec) Identity() [sha256.Size]byte {
	parts := slices.DeleteFunc(t.Parts(), func(p Part) bool { return p == Part{"shell", "sh"} }) // as earlier logs
	text, _ := json.Marshal(parts)
	return sha256.Sum256(text)
}

// Differs names the parts in which two tasks differ, with both values if they are short; "" if they are alike.
func (t *TaskSpec) Differs(was *TaskSpec) string {
	a, b := was.Parts(), t.Parts()
	if was.Image != t.Image {
		a, b = append(a, Part{"image", was.Image}), append(b, Part{"image", t.Image})
	}
	values := map[string]string{}
	for _, p := range a {
		values[p.Name] += p.Value
	}
	var out []string
	for _, p := range b {
		old, ok := values[p.Name]
		switch {
		case ok && old == p.Value || slices.Contains(out, "its "+p.Name+" changed"):
		case len(old)+len(p.Value) < 160 && ok:
			out = append(out, fmt.Sprintf("its %s changed from %q to %q", p.Name, old, p.Value))
		default:
			out = append(out, "its "+p.Name+" changed")
		}
	}
	return strings.Join(out, ", ")
}
