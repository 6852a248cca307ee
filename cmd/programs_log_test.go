package cmd

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/cmd/internal/session"
	"gantry/executor/sim/hostmodel"
	"gantry/sqlite"
)

// programTask is a task of a workflow of real programs.
type programTask struct {
	name, kind, script string
	seconds            float64 // in the trace
	input              int     // bytes; 0: it has none
}

// writePrograms writes a workflow of independent programs and their inputs, and returns its path.
func writePrograms(t *testing.T, tasks ...programTask) string {
	t.Helper()
	dir := t.TempDir()
	type object = map[string]any
	var specs, runs, files []object
	for _, x := range tasks {
		spec := object{"id": x.name, "name": x.kind, "parents": []string{}, "children": []string{}}
		if x.input > 0 {
			in := x.name + ".in"
			must(t, os.WriteFile(filepath.Join(dir, in), make([]byte, x.input), 0o644))
			files = append(files, object{"id": in, "sizeInBytes": x.input})
			spec["inputFiles"] = []string{in}
		}
		specs = append(specs, spec)
		runs = append(runs, object{"id": x.name, "runtimeInSeconds": x.seconds, "coreCount": 1, "avgCPU": 100,
			"image":   "gantry/busybox:latest",
			"command": object{"program": "sh", "arguments": []string{"-ec", x.script}}})
	}
	text, err := json.Marshal(object{"name": "programs", "schemaVersion": "1.5", "workflow": object{
		"specification": object{"tasks": specs, "files": files},
		"execution":     object{"makespanInSeconds": 1, "executedAt": "2026-01-01T00:00:00Z", "tasks": runs}}})
	must(t, err)
	path := filepath.Join(dir, "programs.json")
	must(t, os.WriteFile(path, text, 0o644))
	return path
}

// After runs on inputs of several sizes, a trained model predicts a program on another size.
func TestProgramsOnInputsOfAnotherSizeArePredicted(t *testing.T) {
	c := cliTest{t, t.TempDir()}
	sized := func(name string, input int) programTask { return programTask{name, "sized", "true", 0.1, input} }
	for k := range 3 {
		var tasks []programTask
		for i := range 4 {
			tasks = append(tasks, sized(fmt.Sprintf("s%d", i), 1000+4000*i+1500*k))
		}
		c.gantry(exitOK, "run", "--quiet", "--runtime", "null", writePrograms(t, tasks...))
	}
	// As if each had taken a tenth of a millisecond for each byte of its input.
	c.sql(`UPDATE runs SET runtime = 'docker'; UPDATE attempts SET ran_ns = 1e5 * (SELECT t.input_bytes FROM tasks t
		WHERE t.run = attempts.run AND t.task = attempts.task)`)
	other := writePrograms(t, sized("other", 20_000))
	took := func(run string, more ...string) float64 {
		c.gantry(exitOK, append([]string{"simulate", "--quiet", "--name", run, other}, more...)...)
		return one[float64](t, filepath.Join(c.dir, "runs"), "SELECT estimate_s FROM v_tasks WHERE run = ?", run)
	}
	c.gantry(exitOK, "predict", "--runtime", "docker")
	if got := took("trained", "--estimator", "trained"); got < 1.8 || got > 2.6 {
		t.Errorf("it is to take %.2f s: it would take 2 s", got)
	}
}

// What was measured without a daemon counts, too.
func TestProgramsOfRunsWithoutADaemonArePredicted(t *testing.T) {
	beside(t)
	needsBusybox(t)
	needsOCI(t)
	home := "--dir=" + t.TempDir()
	flow := writePrograms(t, programTask{"one", "nap", "sleep 0.7", 0.1, 0})
	predicts := func(runtime string, measured bool) {
		t.Helper()
		out := expect(t, exitOK, nil, "run", home, "--dry-run", "--runtime", runtime, flow)
		unknown, interval := strings.Contains(out, "nothing was measured"), strings.Contains(out, "probability")
		if unknown == measured || interval != measured {
			t.Errorf("on %s:\n%s", runtime, out)
		}
	}
	predicts("oci", false) // no interval is known of what the trace says
	expect(t, exitOK, nil, "run", home, "--quiet", "--runtime", "oci", "--name", "first", flow)
	predicts("oci", true)
	predicts("docker", true)
	expect(t, exitOK, nil, "simulate", home, "--measured", "first", flow)
}

// pretend makes the run of a log one in containers, in which the program long took 0.8 s and others took 0.1 s.
func pretend(t *testing.T, home, runtime string) {
	t.Helper()
	raw, err := sql.Open("sqlite3", "file:"+filepath.Join(home, sqlite.FileName))
	if err == nil {
		defer raw.Close()
		_, err = raw.Exec(`UPDATE runs SET runtime = ?; UPDATE attempts SET ran_ns = 1e9 * (SELECT
			CASE t.name WHEN 'long' THEN 0.8 ELSE 0.1 END FROM tasks t WHERE t.run = attempts.run
			AND t.task = attempts.task)`, runtime)
	}
	must(t, err)
}

// keepModel keeps a model of this host with a runtime, whose containers take that much longer than 80 ms to start.
func keepModel(t *testing.T, home, runtime string, longer time.Duration) {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(home, sqlite.FileName), sqlite.Durable)
	must(t, err)
	defer db.Close()
	m := hostmodel.Example(4)
	m.Measured.At = time.Now()
	m.Host, _ = session.Here(t.Context(), runtime, home)
	m.Phases.Start.Wall.BaseNanos += float64(longer)
	if _, err := session.KeepHostModel(t.Context(), db, m); err != nil {
		t.Fatal(err)
	}
}

// A simulation of a run takes what was measured of this host with the runtime of that run.
func TestASimulationTakesTheHostModelOfItsRun(t *testing.T) {
	for runtime, want := range map[string]string{"docker": "makespan 945ms", "oci": "makespan 3.945s"} {
		home := t.TempDir()
		flow := writePrograms(t, programTask{"long", "long", "true", 0.8, 0})
		expect(t, exitOK, nil, "run", "--dir="+home, "--quiet", "--runtime", "null", "--name", "first", flow)
		pretend(t, home, runtime)
		keepModel(t, home, "docker", 0)
		keepModel(t, home, "oci", 3*time.Second)
		expect(t, exitOK, []string{want}, "simulate", "--dir="+home, "--no-log", "--measured", "first", flow)
	}
}

// Where only containers without a daemon were measured, simulations of this host are of those.
func TestASimulationTakesTheHostModelThatThereIs(t *testing.T) {
	home := t.TempDir()
	flow := writePrograms(t, programTask{"long", "long", "true", 0.8, 0})
	keepModel(t, home, "oci", 3*time.Second)
	expect(t, exitOK, []string{"makespan 3.945s"}, "simulate", "--dir="+home, "--no-log", flow)
	keepModel(t, home, "docker", 0)
	expect(t, exitOK, []string{"makespan 945ms"}, "simulate", "--dir="+home, "--no-log", flow)
}
