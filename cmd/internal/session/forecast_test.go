package session_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/executor/sim/hostmodel"
	"gantry/sqlite"
)

// Inputs that are made up take room on the disk: a run that cannot have it begins with nothing, wet or dry.
func TestARunWithoutRoomForItsInputsIsRefused(t *testing.T) {
	needsContainers(t)
	l := newLab(t, "oci", "{name: n, cores: 1, memory: 500MB}", map[string]string{"big.json": `{"name": "big",
		"schemaVersion": "1.5", "workflow": {"specification": {
		"tasks": [{"name": "a", "id": "a", "children": [], "parents": [], "inputFiles": ["in"]}],
		"files": [{"id": "in", "sizeInBytes": 1000000000000000}]},
		"execution": {"makespanInSeconds": 1, "executedAt": "2026-01-01T00:00:00Z",
		"tasks": [{"id": "a", "runtimeInSeconds": 1}]}}}`})
	for _, l.with.Dry = range []bool{false, true} {
		_, err := l.begin("x", "big.json", nil)
		for _, words := range []string{"1 PB of them are made up", "--size-scale", "nothing was started"} {
			l.says(err, exit.Host, words)
		}
	}
	if _, err := os.Stat(filepath.Join(l.with.Home, "x")); err == nil {
		t.Error("the run left a directory")
	}
	d, err := l.begin("x", "big.json", func(s *session.Settings) { s.SizeScale = 1e-9 })
	if l.must(err); d.Makespan == nil {
		t.Errorf("%+v", d)
	}
}

// A prediction is kept with what became of it.
func TestPredictionsAreKeptWithTheirErrors(t *testing.T) {
	needsContainers(t)
	l := newLab(t, "oci", "{name: n, cores: 2, memory: 1GB}", map[string]string{"two.json": `{"name": "two",
		"schemaVersion": "1.5", "workflow": {"specification": {
		"tasks": [{"name": "a", "id": "a", "children": ["b"], "parents": []},
			{"name": "b", "id": "b", "children": [], "parents": ["a"]}], "files": []},
		"execution": {"makespanInSeconds": 2, "executedAt": "2026-01-01T00:00:00Z", "machines": [],
			"tasks": [{"id": "a", "runtimeInSeconds": 0.2, "avgCPU": 50},
				{"id": "b", "runtimeInSeconds": 0.2, "avgCPU": 50}]}}}`})
	l.set.Startup, l.set.StartupGiven, l.set.Starts = 100*time.Millisecond, true, 3
	all := l.run("p", "two.json", nil).Predictions
	if len(all) != 4 {
		t.Fatalf("%+v", all)
	}
	l.with.Predict = false
	if none := l.run("none", "two.json", nil).Predictions; len(none) != 0 {
		t.Errorf("%+v", none)
	}
	for i, want := range []struct {
		scope, name string
		tasks       int
		span        time.Duration
	}{{sqlite.ScopeRun, "", 2, 600 * time.Millisecond}, {sqlite.ScopeWorkflow, "two", 2, 600 * time.Millisecond},
		{sqlite.ScopeKind, "a", 1, 300 * time.Millisecond}, {sqlite.ScopeKind, "b", 1, 300 * time.Millisecond}} {
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
}

// What starts cost a program in the run in which it was measured is in the simulation of a run like that once, not
// twice: the program lasts as long as it did.
func TestDisturbedProgramsAreSimulatedAsMeasured(t *testing.T) {
	tasks, runs := `{"id": "long", "name": "long"}`, `{"id": "long", "runtimeInSeconds": 0.8, "command": "x"}`
	for i := range 4 {
		tasks += fmt.Sprintf(`, {"id": "short%d", "name": "short"}`, i)
		runs += fmt.Sprintf(`, {"id": "short%d", "runtimeInSeconds": 0.1, "command": "x"}`, i)
	}
	l := newLab(t, "null", "{name: a, cores: 1}, {name: b, cores: 1}", map[string]string{"p.json": `{"name": "p",
		"schemaVersion": "1.5", "workflow": {"specification": {"tasks": [` + tasks + `]}, "execution": {"tasks": [` +
		runs + `]}}}`})
	l.set.Image = "i"
	l.run("first", "p.json", nil)
	raw, err := sql.Open("sqlite3", "file:"+filepath.Join(l.with.Home, sqlite.FileName))
	if err == nil {
		defer raw.Close()
		_, err = raw.Exec(`UPDATE runs SET runtime = 'docker'; UPDATE attempts SET ran_ns = 1e9 * (SELECT
			iif(t.name = 'long', 0.8, 0.1) FROM tasks t WHERE t.run = attempts.run AND t.task = attempts.task)`)
	}
	l.must(err)
	model := hostmodel.Example(4)
	model.Interference = hostmodel.Surface{Together: []float64{1}, BusyCores: []float64{0, 1},
		Factor: [][]float64{{1, 8}}}
	again := l.run("again", "p.json", func(s *session.Settings) {
		s.Runtime, s.Measured, s.Estimator, s.Host = "sim", "first", "learned", model
	})
	if _, took := kind(again, "long"); took < 0.92*0.8 || took > 1.08*0.8 {
		t.Errorf("it took 0.8 s, and is simulated with %.2f s", took)
	}
}
