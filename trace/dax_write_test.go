package trace_test

import (
	"bytes"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/trace"
)

func rewritten(t *testing.T, w *trace.Workflow) *trace.Workflow {
	t.Helper()
	var b bytes.Buffer
	must(t, trace.WriteDAX(&b, w))
	text := b.String()
	r, faults, err := trace.Read(&b, "-", trace.ReadOptions{})
	if err != nil || trace.HasErrors(faults) {
		t.Fatalf("%v %v\n%s", err, faults, text)
	}
	return r
}

func TestDAXKeepsWhatATaskNeeds(t *testing.T) {
	w := &trace.Workflow{Name: "a <b> & 'c'", Label: "w", Files: []trace.File{
		{Name: "in & out.txt", Size: 1 << 40, Sized: true, Producer: -1}, {Name: "größe\t\"1\"", Sized: true,
			Producer: 0}, {Name: "unsized", Producer: 1},
		{Name: "errors", Producer: 1}}}
	w.Tasks = []trace.Task{
		{ID: "a<1>", Name: "split", Kind: "split", Retries: 3, Children: []int32{1}, Inputs: []int32{0},
			Outputs: []int32{1}, Stdin: "in & out.txt",
			Runtime: 1_000_000_001, Cores: 2, MemoryBytes: 123, TimeLimit: 90 * time.Minute, Image: "busybox:1",
			GPUs:    250,
			Env:     []string{"A=1 & 2", "B="},
			Command: []string{"split", "-n", "two words", "", "it's", `a\b"c"`, "<&>", "$HOME", "*"},
			Known:   trace.Runtime | trace.Cores | trace.Memory | trace.Command | trace.Image},
		{ID: "b", Name: "merge", Kind: "merge", Retries: -1, Parents: []int32{0}, Inputs: []int32{1},
			Outputs: []int32{2, 3}, Stdout: "unsized", Stderr: "errors"},
	}
	r := rewritten(t, w)
	for i := range r.Tasks {
		r.Tasks[i].Line = 0
		if !reflect.DeepEqual(r.Tasks[i], w.Tasks[i]) {
			t.Errorf("task\n%+v was read as\n%+v", w.Tasks[i], r.Tasks[i])
		}
	}
	if !reflect.DeepEqual(r.Files, w.Files) || r.Name != w.Name {
		t.Errorf("%q, files %+v", r.Name, r.Files)
	}
}

func TestDAXRefusesWhatItCannotTell(t *testing.T) {
	for name, task := range map[string]trace.Task{
		"sub-workflow":       {SubWorkflow: true},
		"script":             {Shell: true, Command: []string{"ls | wc"}, Known: trace.Command},
		"other program":      {Command: []string{"/bin/ls", "-l"}, Known: trace.Command},
		"no arguments":       {Command: []string{"ls"}, Known: trace.Command},
		"line break":         {Command: []string{"ls", "a\nb"}, Known: trace.Command},
		"several blanks":     {Command: []string{"ls", "a  b"}, Known: trace.Command},
		"control character":  {Stdin: "a\x01"},
		"not UTF-8":          {Stdin: "a\xff"},
		"character not XML ": {Image: "\uFFFE"},
	} {
		task.ID, task.Kind, task.Name, task.Retries = "t1", "ls", "ls", -1
		err := trace.WriteDAX(&bytes.Buffer{}, &trace.Workflow{Label: "flow", Tasks: []trace.Task{task}})
		if err == nil || !strings.Contains(err.Error(), "workflow flow, task t1: ") ||
			!strings.Contains(err.Error(), "write WfFormat instead") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestDAXLeavesOutWhatWasImputed(t *testing.T) {
	w := &trace.Workflow{Label: "w", Tasks: []trace.Task{{ID: "t", Name: "x", Kind: "x", Retries: -1,
		Outputs: []int32{0}}}, Files: []trace.File{{Name: "f"}}}
	trace.Impute(w, trace.Defaults{FileSize: 7})
	if r := rewritten(t, w); r.Tasks[0].Known != 0 || r.Files[0].Sized {
		t.Errorf("known after writing: %v, file %+v", r.Tasks[0].Known, r.Files[0])
	}
}

func TestDAXOfTheCollectionIsReadBackAsItWas(t *testing.T) {
	dir, written := dataDir(t), 0
	for _, r := range index(t, dir) {
		if r["fmt"] != "DAX" || r.num(t, "tasks") > 2000 {
			continue
		}
		w, faults, err := trace.Open(filepath.Join(dir, r["file"]), trace.ReadOptions{Repair: true})
		if err != nil || trace.HasErrors(faults) || r.notes("several") ||
			r["file"] == "pegasus-dax/3.4/schema-sample.xml" {
			continue
		}
		var b bytes.Buffer
		if err := trace.WriteDAX(&b, w); err != nil { // commands are mostly paths; they are refused
			if !strings.Contains(err.Error(), "write WfFormat instead") {
				t.Errorf("%s: %v", r["file"], err)
			}
			continue
		}
		written++
		again := rewritten(t, w)
		for i := range w.Tasks {
			a, b := w.Tasks[i], again.Tasks[i]
			// files are numbered in order of use
			for _, list := range []*[]int32{&a.Inputs, &b.Inputs, &a.Outputs, &b.Outputs} {
				files := w.Files
				if list == &b.Inputs || list == &b.Outputs {
					files = again.Files
				}
				slices.SortFunc(*list, func(x, y int32) int { return strings.Compare(files[x].Name, files[y].Name) })
			}
			if a.ID != b.ID || a.Kind != b.Kind || a.Runtime != b.Runtime || a.Known != b.Known || a.Cores != b.Cores ||
				!slices.Equal(a.Parents, b.Parents) ||
				len(a.Inputs) != len(b.Inputs) || len(a.Outputs) != len(b.Outputs) {
				t.Fatalf("%s: task\n%+v was read as\n%+v", r["file"], a, b)
			}
			for j := range a.Inputs {
				if x, y := w.Files[a.Inputs[j]], again.Files[b.Inputs[j]]; x.Name != y.Name || x.Size != y.Size ||
					x.Sized != y.Sized {
					t.Fatalf("%s, task %s: input %+v was read as %+v", r["file"], a.ID, x, y)
				}
			}
		}
	}
	if written < 15 {
		t.Errorf("only %d workflows of the collection could be written", written)
	}
}
