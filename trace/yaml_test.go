package trace_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gantry/trace"
)

// largeYAML is a workflow of many jobs, written in the ways that lists may be.
func largeYAML(indent string, odd map[int]string) string {
	var s strings.Builder
	s.WriteString("# by hand\npegasus: '5.0'\ntransformationCatalog:\n  transformations:\n  - {name: keg, sites: " +
		"[{name: local, pfn: /bin/keg}]}\njobs:\n\n# jobs: in a comment\n")
	for i := range 4000 {
		fmt.Fprintf(&s, "%s- id: j%d\n%s  name: keg\n%s  arguments:\n%s  - -i\n%s  - |\n%s      some\n\n%s       - "+
			"text\n%s  uses:\n%s  - {lfn: f%d, type: output,\n%s    size: %d}\n", indent, i, indent, indent, indent,
			indent,
			indent, indent, indent, indent, i, indent, i)
		s.WriteString(odd[i])
	}
	s.WriteString("jobDependencies:\n")
	for i := range 3999 {
		fmt.Fprintf(&s, "%s- id: j%d\n%s  children:\n%s  - j%d\n", indent, i, indent, indent, i+1)
	}
	return s.String() + "name: large\n"
}

// A large document is parsed in pieces, unless an anchor might join them: both have to tell the same, on the same
// lines.
func TestLargeYAMLIsReadInPiecesAsInOne(t *testing.T) {
	for name, text := range map[string]string{
		"lists at the margin": largeYAML("", nil),
		"indented lists":      largeYAML("  ", nil),
		"faults": largeYAML("  ", map[int]string{
			1000: "    profiles: {pegasus: {runtime: -3}}\n", 1001: "    profiles: {pegasus: {runtime: .inf}}\n",
			3998: "  - {id: j7, name: keg}\n"}),
		"carriage returns": strings.ReplaceAll(largeYAML("", nil), "\n", "\r\n"),
		"given twice":      largeYAML("", nil) + "jobs:\n- {id: a, name: x}\n",
		"flow style":       strings.Replace(largeYAML("", nil), "jobs:\n", "jobs: [{id: q, name: keg}]\nother:\n", 1),
		"no syntax":        largeYAML("", map[int]string{2000: "- [}\n"}),
	} {
		t.Run(name, func(t *testing.T) {
			was, whole := read(t, text+"x-anchor: &here 1\n", trace.ReadOptions{})
			is, pieces := read(t, text, trace.ReadOptions{})
			if name == "no syntax" || name == "given twice" { // how much was understood differs
				if !trace.HasErrors(whole) || len(pieces) == 0 || pieces[0].Rule != whole[0].Rule ||
					pieces[0].Line != whole[0].Line {
					t.Fatalf("%v, want %v", pieces, whole)
				}
				return
			}
			if wrong := name == "faults" || name == "flow style"; trace.HasErrors(whole) != wrong ||
				len(was.Tasks) < 4000 && !wrong {
				t.Fatalf("%d tasks, %.600v", len(was.Tasks), whole)
			}
			if !reflect.DeepEqual(pieces, whole) {
				t.Fatalf("faults %.600v, want %.600v", pieces, whole)
			}
			if !reflect.DeepEqual(is.Stats(), was.Stats()) {
				t.Fatalf("%+v, want %+v", is.Stats(), was.Stats())
			}
			for i := range was.Tasks {
				if !reflect.DeepEqual(is.Tasks[i], was.Tasks[i]) {
					t.Fatalf("%+v, want %+v", is.Tasks[i], was.Tasks[i])
				}
			}
		})
	}
}

// A mapping in flow style, whose keys need no quotes, is YAML in a file that is YAML by its name.
func TestFlowMappingsAreYAML(t *testing.T) {
	for text, want := range map[string]string{
		"{pegasus: '5.0', name: w, jobs: [{type: job, id: a, name: x}]}": "",
		"{pegasus: '5.0', name: w, jobs: [{type: job, id: a}":            "not YAML",
		"{a: b}": "neither a workflow nor, by its keys",
	} {
		w, faults, err := trace.Read(strings.NewReader(text), "w.yaml", trace.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		said := fmt.Sprint(faults)
		if trace.HasErrors(faults) != (want != "") || !strings.Contains(said, want) {
			t.Errorf("%s: %s, want %q", text, said, want)
		}
		if want == "" && (w.Format != trace.PegasusYAML || len(w.Tasks) != 1) {
			t.Errorf("%s: %s of %d tasks", text, w.Format, len(w.Tasks))
		}
	}
}
