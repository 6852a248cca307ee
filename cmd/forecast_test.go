package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/sqlite"
)

// A dry run says what would happen, and leaves nothing behind.
func TestADryRunStartsNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	out := expect(t, exitOK, []string{"start 10 tasks on 3 nodes", "Nothing is started", "expected makespan",
		"tasks end at once"}, "run", "--dir="+dir, "--dry-run", "--runtime", "null", "--cluster",
		"../examples/heft/cluster.yaml", "--policy", "heft", "../examples/heft/workload.yaml")
	if n := strings.Count(out, "emulated"); n != 10 {
		t.Errorf("%d lines of tasks:\n%s", n, out)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory of runs was made")
	}
}

// Inputs that are made up take room on the disk: a run that cannot have it begins with nothing, wet or dry.
func TestARunWithoutRoomForItsInputsIsRefused(t *testing.T) {
	needsDocker(t)
	home := t.TempDir()
	trace := filepath.Join(home, "big.json")
	err := os.WriteFile(trace, []byte(`{"name": "big", "schemaVersion": "1.5", "workflow": {"specification": {
		"tasks": [{"name": "a", "id": "a", "children": [], "parents": [], "inputFiles": ["in"]}],
		"files": [{"id": "in", "sizeInBytes": 1000000000000000}]},
		"execution": {"makespanInSeconds": 1, "executedAt": "2026-01-01T00:00:00Z",
		"tasks": [{"id": "a", "runtimeInSeconds": 1}]}}}`), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, "runs")
	for _, dry := range []string{"--dry-run", "--dry-run=false"} {
		expect(t, exitHost, []string{"1 PB of them are made up", "--size-scale", "nothing was started"},
			"run", "--dir="+dir, "--name", "x", dry, trace)
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
		t.Error("the run left a directory")
	}
	expect(t, exitOK, []string{"expected makespan"}, "run", "--dir="+dir, "--dry-run", "--size-scale", "1e-9", trace)
}

// A prediction is kept with what became of it.
func TestPredictionsAreKeptWithTheirErrors(t *testing.T) {
	beside(t)
	needsOCI(t)
	needsTask(t)
	home := t.TempDir()
	dir := "--dir=" + home
	trace := filepath.Join(home, "two.json")
	err := os.WriteFile(trace, []byte(`{"name": "two", "schemaVersion": "1.5", "workflow": {"specification": {
		"tasks": [{"name": "a", "id": "a", "children": ["b"], "parents": []},
			{"name": "b", "id": "b", "children": [], "parents": ["a"]}], "files": []},
		"execution": {"makespanInSeconds": 2, "executedAt": "2026-01-01T00:00:00Z", "machines": [],
			"tasks": [{"id": "a", "runtimeInSeconds": 0.2, "avgCPU": 50},
				{"id": "b", "runtimeInSeconds": 0.2, "avgCPU": 50}]}}}`),
		0o644)
	if err != nil {
		t.Fatal(err)
	}
	out := expect(t, exitOK, []string{"predicted"}, "run", dir, "--runtime", "oci", "--name", "p", "--startup",
		"100ms", trace)
	// The container of b is started ahead, while a runs: only a waits for its own.
	if !strings.Contains(out, "500 ms") {
		t.Errorf("the summary does not have the prediction:\n%s", out)
	}
	expect(t, exitOK, []string{"500 ms"}, "show", dir, "p")
	expect(t, exitOK, nil, "run", dir, "--runtime", "oci", "--quiet", "--name", "none", "--no-prediction", trace)
	db := logIn(t, home)
	all, err := db.Predictions(t.Context(), "p")
	if err != nil || len(all) != 4 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, want := range []struct {
		scope, name string
		tasks       int
		span        time.Duration
	}{{sqlite.ScopeRun, "", 2, 500 * time.Millisecond}, {sqlite.ScopeWorkflow, "two", 2, 500 * time.Millisecond},
		{sqlite.ScopeKind, "a", 1, 300 * time.Millisecond}, {sqlite.ScopeKind, "b", 1, 200 * time.Millisecond}} {
		p := all[i]
		if p.Scope != want.scope || p.Name != want.name || p.Tasks != want.tasks ||
			p.Expected != sqlite.Span(want.span) {
			t.Errorf("%+v, not %+v", p, want)
		}
		if p.Actual == nil || *p.Actual < sqlite.Span(200*time.Millisecond) || p.Error == nil ||
			(float64(p.Expected)/float64(*p.Actual)-1)*100-*p.Error > 1e-6 {
			t.Errorf("actual %v, error %v", p.Actual, p.Error)
		}
	}
	if none, err := db.Predictions(t.Context(), "none"); err != nil || len(none) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
}
