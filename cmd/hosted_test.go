package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gantry/cmd/internal/session"
	"gantry/executor/sim/hostmodel"
)

// hostFile writes a model of a host with four cores.
func hostFile(t *testing.T, change func(m *hostmodel.Model)) string {
	t.Helper()
	m := hostmodel.Example(4)
	if change != nil {
		change(m)
	}
	text, err := m.Encode()
	must(t, err)
	path := filepath.Join(t.TempDir(), "host.json")
	must(t, os.WriteFile(path, text, 0o644))
	return path
}

// The example adds 145 ms to the 10 s of a task without files: staging 10, create 20, start 80, end 30, publishing 5.
func TestSimulateOnAHost(t *testing.T) {
	dir := writeFiles(t, map[string]string{"one.json": wfOf(`{"name": "a", "runtime": 10}`)})
	trace, home := filepath.Join(dir, "one.json"), filepath.Join(dir, "runs")
	makespan := func(args ...string) string {
		return expect(t, exitOK, nil, append(append([]string{"simulate", "--no-log", "--dir", home}, args...),
			trace)...)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "makespan 10s,"}, // nothing was measured here
		{[]string{"--host-model", hostFile(t, nil)}, "makespan 10.145s,"},
		{[]string{"--host-model", "none", "--startup", "1s"}, "makespan 11s,"},
		{[]string{"--host-model", hostFile(t, nil), "--startup", "1s"}, "makespan 10.145s,"}, // of estimates only
	} {
		if out := makespan(c.args...); !strings.Contains(out, c.says) {
			t.Errorf("simulate %s says %q, not %q", strings.Join(c.args, " "), out, c.says)
		}
	}
	noisy := hostFile(t, func(m *hostmodel.Model) { m.Phases.Start.Spread = hostmodel.Spread{0.5, 1, 5} })
	one, same, other := makespan("--host-model", noisy, "--noise"), makespan("--host-model", noisy, "--noise"),
		makespan("--host-model", noisy, "--noise", "--seed", "2")
	if one != same || one == other {
		t.Errorf("noise: %q, %q; with another seed %q", one, same, other)
	}

	// what the log has of this host counts by itself
	must(t, os.MkdirAll(home, 0o755))
	keepModel(t, home, session.UsualRuntime.Name, nil)
	huge := cliTest{t, dir}.write("huge.yaml", "nodes:\n  - {name: n, cores: 5000, memory: 1GB}\n")
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "makespan 10.145s,"},
		{[]string{"--host-model", "this"}, "makespan 10.145s,"},
		{[]string{"--host-model", "none"}, "makespan 10s,"},
		{[]string{"--startup", "2s"}, "makespan 12s,"},
		{[]string{"--cluster", huge}, "makespan 10s,"}, // this host cannot be that
	} {
		if out := makespan(c.args...); !strings.Contains(out, c.says) {
			t.Errorf("simulate %s says %q, not %q", strings.Join(c.args, " "), out, c.says)
		}
	}
	home = filepath.Join(dir, "foreign")
	must(t, os.MkdirAll(home, 0o755))
	keepModel(t, home, session.UsualRuntime.Name, func(m *hostmodel.Model) { m.Host.Name = "elsewhere" })
	_, out, errs := invoke(t, "simulate", "--no-log", "--dir", home, trace)
	if !strings.Contains(out, "makespan 10s,") || !strings.Contains(errs, "elsewhere") {
		t.Errorf("a foreign model: %s%s", out, errs)
	}
	expect(t, exitInput, []string{"--host-model this", "elsewhere"}, "simulate", "--no-log", "--dir", home,
		"--host-model", "this", trace)
}

// Ending and publishing take 35 ms in the example. What follows waits for that, and not from the end of the program on.
func TestComparedRunsHaveWhatEndingTakes(t *testing.T) {
	dir := writeFiles(t, map[string]string{"two.json": wfOf(`{"name": "a", "runtime": 10},
		{"name": "b", "parents": ["a"], "runtime": 10}`)})
	home := "--dir=" + filepath.Join(dir, "runs")
	for _, name := range []string{"x", "y"} {
		expect(t, exitOK, nil, "simulate", home, "--quiet", "--name", name, "--host-model", hostFile(t, nil),
			filepath.Join(dir, "two.json"))
	}
	var c struct {
		Phases []struct {
			Waiting int64 `json:"waiting_ns"`
			Ending  int64 `json:"ending_ns"`
		} `json:"mean_phases"`
	}
	out := expect(t, exitOK, nil, "compare", home, "--json", "x", "y")
	if err := json.Unmarshal([]byte(out), &c); err != nil || len(c.Phases) != 2 || c.Phases[1].Ending != 35e6 ||
		c.Phases[1].Waiting != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestHostModelsThatAreNone(t *testing.T) {
	dir := writeFiles(t, map[string]string{"one.dax": oneTask, "bad.json": "{}"})
	trace := filepath.Join(dir, "one.dax")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--host-model", filepath.Join(dir, "nowhere.json")}, "nowhere.json"},
		{[]string{"--host-model", filepath.Join(dir, "bad.json")}, "damaged host model"},
		{[]string{"--host-model", "this"}, "gantry calibrate"},
	} {
		expect(t, exitInput, []string{c.says}, append(append([]string{"simulate", "--no-log", "--dir",
			filepath.Join(dir, "runs")}, c.args...), trace)...)
	}
	expect(t, exitUsage, []string{"--noise"}, "simulate", "--no-log", "--noise", "--dir",
		filepath.Join(dir, "runs"), trace)
}
