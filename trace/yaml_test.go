package trace_test

import (
	"fmt"
	"strings"
	"testing"

	"gantry/trace"
)

// A tree takes many times the memory of its text: one that is too large is refused before it is parsed.
func TestHugeYAMLIsRefused(t *testing.T) {
	text := yml("- {id: a, name: x}\n") + strings.Repeat("# a comment that is long\n", 2_000_000)
	_, faults := read(t, text, trace.ReadOptions{})
	if said := fmt.Sprint(faults); !trace.HasErrors(faults) || !strings.Contains(said, "above the bound of 33554432") ||
		!strings.Contains(said, "DAX") {
		t.Errorf("%d bytes: %.300s", len(text), said)
	}
	_, faults = read(t, text[:20<<20], trace.ReadOptions{})
	if trace.HasErrors(faults) {
		t.Errorf("20 MB: %.300v", faults)
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
		must(t, err)
		said := fmt.Sprint(faults)
		if trace.HasErrors(faults) != (want != "") || !strings.Contains(said, want) {
			t.Errorf("%s: %s, want %q", text, said, want)
		}
		if want == "" && (w.Format != trace.PegasusYAML || len(w.Tasks) != 1) {
			t.Errorf("%s: %s of %d tasks", text, w.Format, len(w.Tasks))
		}
	}
}
