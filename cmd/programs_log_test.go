package cmd

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/cmd/internal/session"
	"gantry/executor/sim/hostmodel"
	"gantry/sqlite"
)

// What was measured without a daemon counts, too.
func TestProgramsOfRunsWithoutADaemonArePredicted(t *testing.T) {
	beside(t)
	needsBusybox(t)
	needsOCI(t)
	home := "--dir=" + t.TempDir()
	flow := written(t, "nap.json", wfOf(`{"name": "nap", "runtime": 0.1, "command": "sleep 0.7", `+
		`"image": "gantry/busybox"}`))
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

// keepModel keeps a model of this host with a runtime, whose containers take 80 ms to start, with a change of it.
func keepModel(t *testing.T, home, runtime string, change func(m *hostmodel.Model)) {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(home, sqlite.FileName), sqlite.Durable)
	must(t, err)
	defer db.Close()
	m := hostmodel.Example(4)
	m.Measured.At = time.Now()
	m.Host, _ = session.Here(t.Context(), runtime, home) // without a Docker Engine all but that
	if change != nil {
		change(m)
	}
	_, err = session.KeepHostModel(t.Context(), db, m)
	must(t, err)
}

// A simulation of a run takes the model of this host with the runtime of that run, another one that of the usual
// runtime, or any there is.
func TestASimulationTakesTheHostModelOfItsRun(t *testing.T) {
	c := cliTest{t, t.TempDir()}
	home := filepath.Join(c.dir, "runs")
	flow := c.write("long.json", wfOf(`{"name": "long", "runtime": 0.8, "command": "true", "image": "any"}`))
	takes := func(makespan string, more ...string) {
		t.Helper()
		expect(t, exitOK, []string{"makespan " + makespan}, append([]string{"simulate", "--dir=" + home, "--no-log",
			flow}, more...)...)
	}
	c.gantry(exitOK, "run", "--quiet", "--runtime", "null", "--name", "first", flow)
	keepModel(t, home, "oci", func(m *hostmodel.Model) { m.Phases.Start.Wall.BaseNanos += 3e9 })
	takes("3.945s")
	keepModel(t, home, "docker", nil)
	takes("945ms")
	for runtime, makespan := range map[string]string{"docker": "945ms", "oci": "3.945s"} {
		c.sql("UPDATE runs SET runtime = '" + runtime + "'; UPDATE attempts SET ran_ns = 8e8")
		takes(makespan, "--measured", "first")
	}
}
