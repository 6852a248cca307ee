package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gantry/sqlite/report/results"
)

var trialFiles = map[string]string{
	"w.yaml": "count: 2\nseed: 4\nmix: [{generator: montage}]\ntasks: 15\nfiles: false\n" +
		"arrivals: {process: fixed, interval: 1s}\n",
	"c.yaml": "nodes: [{name: n, cores: 1, memory: 200MB}]\n",
	"x.yaml": "workload: w.yaml\ncluster: c.yaml\nrepetitions: 2\ntime_scale: 0.002\nlimit: {busy: 1000}\n" +
		"factors: {policy: [cpp, heft]}\n",
	"key.yaml": "name: a reading/two\nworkload: w.yaml\ncluster: c.yaml\nruntime: oci\ntime_scale: 0.002\n" +
		"limit: {busy: 1000}\nfactors: {policy: cpp}\nreadings: {other: {factors: {policy: heft}}}\n",
	"keep.yaml": "workload: w.yaml\ncluster: c.yaml\nkeep: [searches]\nfactors: {policy: cpp, runtime: \"null\"}\n",
	"busy.yaml": "workload: w.yaml\ncluster: c.yaml\ntime_scale: 0.002\nlimit: {busy: 0}\nfactors: {policy: cpp}\n",
	"one.dax":   `<adag version="2.1" name="one"><job id="a" name="a" runtime="3"/></adag>`,
	"one.yaml":  "workflows: [{trace: one.dax}]\n",
	"last.yaml": "name: last\nworkload: one.yaml\ncluster: c.yaml\nruntime: oci\nrepetitions: 3\n" +
		"limit: {busy: 1000}\nfactors: {policy: cpp}\n",
	"faulty.yaml": "workload: w.yaml\ncluster: c.yaml\nruntime: oci\ntime_scale: 0.01\nlimit: {busy: 1000}\n" +
		"faults: {node_loss: {every: 100s, for: 10s}, task_failure: 0.3}\nfactors: {policy: cpp}\n",
	"large.yaml": "nodes: [{name: n, cores: 10000, memory: 200MB}]\n",
	"big.yaml":   "workload: w.yaml\ncluster: large.yaml\nfactors: {policy: cpp}\n",
	"sim.yaml": "workload: w.yaml\ncluster: c.yaml\nlimit: {busy: 1000}\n" +
		"factors: {policy: cpp, runtime: [sim, \"null\"]}\n",
	"search.yaml": "workload: w.yaml\ncluster: c.yaml\nruntime: \"null\"\nfactors: {policy: cpp}\n" +
		"search: {parameter: workload.seed, from: 1, to: 2}\n",
}

// cellsOf reads the results of an experiment, by the values of a factor.
func cellsOf(t *testing.T, path, factor string) map[string][]*results.Cell {
	t.Helper()
	set, err := results.Load(t.Context(), path)
	must(t, err)
	out := map[string][]*results.Cell{}
	for _, c := range set.Cells {
		out[c.Params[factor]] = append(out[c.Params[factor]], c)
	}
	return out
}

func TestAnExperimentInContainers(t *testing.T) {
	needsOCI(t)
	dir := writeFiles(t, trialFiles)
	at := func(name string) string { return filepath.Join(dir, name) }
	runs := "--dir=" + at("runs")
	experiment := []string{"experiment", "--runtime", "oci", runs, "-o", at("r.sqlite"), at("x.yaml")}
	// A signal interrupts it, a kill ends it, and the same command continues it.
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGKILL} {
		cmd := gantryProcess(t, experiment...)
		must(t, cmd.Start())
		eventually(t, func() (bool, any) {
			_, out, _ := invoke(t, "ls", runs)
			return strings.Contains(out, "running"), out
		})
		_ = cmd.Process.Signal(signal)
		if err := cmd.Wait(); signal == os.Interrupt && cmd.ProcessState.ExitCode() != exitInterrupted {
			t.Fatalf("after a signal: %v", err)
		}
	}
	expect(t, exitOK, nil, experiment...)
	expect(t, exitOK, nil, experiment...)
	cells := cellsOf(t, at("r.sqlite"), "runtime")
	if len(cells["oci"]) != 2 || len(cells) != 1 {
		t.Fatalf("cells: %v", cells)
	}
	for _, c := range cells["oci"] {
		busy, slowdown := c.Sample("busy_cores"), c.Sample("slowdown_mean")
		if len(busy) != 2 || len(slowdown) != 2 || slowdown[0] < 1 || slowdown[0] == slowdown[1] {
			t.Errorf("%v: busy %v, slowdown %v", c.Params, busy, slowdown)
		}
	}
	// Another experiment has no use of the model, which is not there.
	out := expect(t, exitOK, []string{"cpp", "heft"}, "compare", at("r.sqlite"))
	if strings.Contains(out, "predicted") {
		t.Errorf("predictions without a model:\n%s", out)
	}
	// Each repetition is a run of the log that went well, and its files are gone.
	out = expect(t, exitOK, nil, "ls", runs)
	if strings.Count(out, "finished") != 4 || strings.Count(out, "30/30") != 4 {
		t.Errorf("runs of the log:\n%s", out)
	}
	if work, _ := filepath.Glob(at("runs/*/work")); len(work) > 0 {
		t.Errorf("files are left: %v", work)
	}
}

// A signal ends the experiment, too, when the tasks that may end are the last ones of their run.
func TestASignalAtTheEndOfARunEndsTheExperiment(t *testing.T) {
	needsOCI(t)
	dir := writeFiles(t, trialFiles)
	at := func(name string) string { return filepath.Join(dir, name) }
	runs := "--dir=" + at("runs")
	cmd := gantryProcess(t, "experiment", runs, "-o", at("l.sqlite"), at("last.yaml"))
	must(t, cmd.Start())
	eventually(t, func() (bool, any) {
		_, out, _ := invoke(t, "ls", runs)
		return strings.Contains(out, "running"), out
	})
	eventually(t, func() (bool, any) {
		n := one[int](t, at("runs"), "SELECT count(*) FROM attempts WHERE started_ns IS NOT NULL")
		return n == 1, n
	})
	_ = cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitInterrupted {
		t.Errorf("after a signal: %v", err)
	}
	if out := expect(t, exitOK, nil, "ls", runs); strings.Count(out, "last-") != 1 {
		t.Errorf("after a signal there are the runs\n%s", out)
	}
}

// Other programs take cores: the repetition does not count.
func TestABusyHostFailsARepetition(t *testing.T) {
	needsOCI(t)
	dir := writeFiles(t, trialFiles)
	other := exec.Command("sh", "-c", "while :; do :; done")
	must(t, other.Start())
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	out := filepath.Join(dir, "b.sqlite")
	_, _, errs := invoke(t, "experiment", "--runtime", "oci", "--dir="+filepath.Join(dir, "runs"), "-o", out,
		filepath.Join(dir, "busy.yaml"))
	if !strings.Contains(errs, "cores beside each of 3 runs, more than 0.00 (limit, busy)") {
		t.Errorf("it says\n%s", errs)
	}
	c := cellsOf(t, out, "runtime")["oci"]
	if len(c) != 1 || c[0].Count("failed") != 1 || len(c[0].Runs[0].Values) > 0 {
		t.Errorf("results: %v", c)
	}
}

// With a model of the host each combination is predicted, too. Names of experiments and readings are any.
func TestExperimentsArePredicted(t *testing.T) {
	needsOCI(t)
	dir := writeFiles(t, trialFiles)
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Mkdir(at("runs"), 0o755))
	keepModel(t, at("runs"), "oci", nil)
	for name, more := range map[string][]string{"plain": nil, "other": {"--reading", "other"}} {
		args := append([]string{"experiment", "--dir=" + at("runs"), "-o", at(name)}, more...)
		expect(t, exitOK, nil, append(args, at("key.yaml"))...)
		cells := cellsOf(t, at(name), "runtime")
		if len(cells["predicted"]) != 1 || len(cells["oci"]) != 1 {
			t.Fatalf("%s: %v", name, cells)
		}
		if v := cells["predicted"][0].Sample("makespan_mean"); len(v) != 1 || !(v[0] > 0) {
			t.Errorf("%s: predicted %v", name, v)
		}
	}
	for _, file := range []string{"x.yaml", "key.yaml", "sim.yaml"} {
		code := map[bool]int{true: exitInput, false: exitOK}[file == "x.yaml"] // it needs --runtime
		expect(t, code, nil, "check", at(file))
	}
}

// Faults are brought about by real kills, and beside it in the simulation as this host runs containers.
func TestFaultsInBothWorlds(t *testing.T) {
	needsOCI(t)
	dir := writeFiles(t, trialFiles)
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Mkdir(at("runs"), 0o755))
	keepModel(t, at("runs"), "oci", nil)
	expect(t, exitOK, nil, "experiment", "--dir="+at("runs"), "-o", at("f.sqlite"), at("faulty.yaml"))
	for runtime, cells := range cellsOf(t, at("f.sqlite"), "runtime") {
		c := cells[0]
		if n := c.Sample("retries"); len(cells) != 1 || len(n) != 1 || n[0] < 1 || c.Sample("work_lost")[0] <= 0 ||
			c.Sample("failed")[0] != 0 || c.Sample("workflows")[0] != 2 {
			t.Errorf("%s: retries %v, work lost %v, failed %v", runtime, n, c.Sample("work_lost"), c.Sample("failed"))
		}
	}
}

func TestExperimentsThatNoHostCanDo(t *testing.T) {
	dir := writeFiles(t, trialFiles)
	at := func(name string) string { return filepath.Join(dir, name) }
	runs := "--dir=" + at("runs")
	for _, c := range []struct {
		code int
		says []string
		args []string
	}{
		{exitInput, []string{"10000 cores", "--oversubscribe"}, []string{"--runtime=null", at("big.yaml")}},
		{exitUsage, []string{`runtime "nul": choose one of`, "predicted"}, []string{"--runtime=nul", at("x.yaml")}},
		{exitInput, []string{"time_scale 0.002: simulations of ideal machines are not scaled"},
			[]string{"--runtime=sim", at("x.yaml")}},
		{exitInput, []string{"keep: timing, load and searches are of simulations"}, []string{at("keep.yaml")}},
		{exitUsage, []string{"--oversubscribe has no effect"}, []string{"--runtime=sim", "--oversubscribe",
			at("sim.yaml")}},
		{exitUsage, []string{"runtime slurm: gantry does not run in an allocation of Slurm"},
			[]string{"--runtime=slurm", at("x.yaml")}},
		{exitInput, []string{"a search simulates ideal machines"}, []string{at("search.yaml")}},
	} {
		args := append([]string{"experiment", runs, "-o", at("none.sqlite")}, c.args...)
		expect(t, c.code, c.says, args...)
		if _, err := os.Stat(at("none.sqlite")); err == nil {
			t.Fatalf("%v leaves results", args)
		}
	}
}

// A factor names ideal machines beside a runtime.
func TestRuntimesAreAFactor(t *testing.T) {
	dir := writeFiles(t, trialFiles)
	out := filepath.Join(dir, "s.sqlite")
	expect(t, exitOK, nil, "experiment", "--dir="+filepath.Join(dir, "runs"), "-o", out, filepath.Join(dir, "sim.yaml"))
	cells := cellsOf(t, out, "runtime")
	if len(cells["sim"]) != 1 || len(cells["null"]) != 1 {
		t.Fatalf("%v", cells)
	}
	plain := filepath.Join(dir, "p.sqlite")
	expect(t, exitOK, nil, "experiment", "--runtime=sim", "-o", plain, filepath.Join(dir, "sim.yaml"))
	ideal := cellsOf(t, plain, "runtime")[""]
	if a, b := ideal[0].Sample("response_mean"), cells["sim"][0].Sample("response_mean"); a[0] != b[0] {
		t.Errorf("ideal machines: a mean response of %v s as a simulation, %v s as a run", a, b)
	}
}
