package cmd

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/sqlite/report/results"
)

var experimentFiles = map[string]string{
	"w.yaml": "count: 30\nmix: [{generator: montage}]\ntasks: 30\nfiles: false\narrivals: {process: poisson, " +
		"utilisation: 0.8}\n",
	"c.yaml": "nodes: [{name: n, count: 10}]\n",
	"x.yaml": "workload: w.yaml\ncluster: c.yaml\nrepetitions: 2\nfactors: {policy: [cpp, fdws], errors: [none, " +
		"\"random2:2\"]}\nquick: {repetitions: 1, factors: {errors: none}}\n",
	"few.yaml": "workload: w.yaml\ncluster: c.yaml\nrepetitions: 2\nkeep: []\nfactors: {policy: [cpp, fdws]}\n" +
		"quick: {repetitions: 1}\n",
	"bad.yaml": "workload: w.yaml\ncluster: c.yaml\nfactors: {polcy: cpp}\n",
	"odd.yaml": "workload: w.yaml\ncluster: c.yaml\nfactors: {policy: best}\n",
}

func TestAnExperimentFromFileToFigures(t *testing.T) {
	dir := writeFiles(t, experimentFiles)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range [][]string{{"8 runs (0 kept from before", "-o", at("r.sqlite")},
		{"(8 kept from before", "-o", at("r.sqlite"), "--jobs=1"},
		{"2 runs (0 ", "--quick", "-o", at("q.sqlite")}} {
		args := append(append([]string{"experiment"}, c[1:]...), at("x.yaml"))
		if _, says := expectBoth(t, exitOK, args...); !strings.Contains(says, c[0]) {
			t.Errorf("%v says %q, not %q", args, says, c[0])
		}
	}
	expect(t, exitInput, []string{"choose another file"}, "experiment", "--quick", "-o", at("r.sqlite"), at("x.yaml"))
	out := expect(t, exitOK, nil, "compare", at("r.sqlite"), "--against", "cpp", "--json")
	var got struct {
		Experiment string
		Tables     []struct {
			Rows []struct {
				Policy string
				Values map[string]struct{ Mean *float64 }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err, out)
	}
	if got.Experiment != "x" || len(got.Tables) != 2 || len(got.Tables[0].Rows) != 2 ||
		*got.Tables[0].Rows[0].Values["slowdown_mean"].Mean != 0 {
		t.Errorf("compared: %s", out)
	}
	expect(t, exitOK, []string{"POLICY", "x-slowdown.svg"}, "report", at("r.sqlite"), "--out", at("figures"))
	if files, err := os.ReadDir(at("figures")); err != nil || len(files) != 20 {
		t.Errorf("%d figures, %v: %v", len(files), err, files)
	}
	expect(t, exitOK, []string{"RESPONSE_MAX", "x-response_max-by-errors.pdf"}, "report", at("r.sqlite"), "--out",
		at("chosen"), "--metric", "response_max", "--x", "errors", "--title", "The longest")
	expect(t, exitOK, []string{"Slowdown is response over the critical path at speed 1", "as differences to fdws",
		"x-slowdown_mean-less-fdws-by-policy-errors-none.svg"}, "report", at("r.sqlite"), "--out", at("chosen"),
		"--against", "fdws", "--metric", "slowdown_mean", "--x", "policy")
	expect(t, exitUsage, []string{`no parameter "nix"`, "errors, policy"}, "report", at("r.sqlite"), "--out",
		at("chosen"), "--x", "nix")
	expect(t, exitUsage, []string{`no run has metric "nix"`}, "report", at("r.sqlite"), "--metric", "nix")
	expect(t, exitUsage, []string{"--out DIR draws"}, "report", at("r.sqlite"), "--title", "The longest")
	expect(t, exitUsage, []string{"pages and short files have all metrics"}, "report", at("r.sqlite"),
		"--html", at("x.html"), "--x", "errors")
	expect(t, exitUsage, []string{"one file of results", "--markdown"}, "report", at("r.sqlite"), at("q.sqlite"))
	// A file of results needs no ending, wherever it is.
	plain, err := os.ReadFile(at("q.sqlite"))
	must(t, errors.Join(err, os.WriteFile(at("plain"), plain, 0o644)))
	t.Chdir(dir)
	expect(t, exitOK, []string{"RESPONSE_MAX"}, "report", "plain", "--metrics", "response_max")
	expect(t, exitOK, []string{"RESPONSE_MAX", "differences to cpp"}, "compare", "plain", "--metric", "response_max",
		"--against", "cpp")
	expect(t, exitUsage, []string{"no log"}, "compare", "plain", "--dir", "d")
	csv, err := os.ReadFile(at("figures/x-slowdown.csv"))
	if err != nil || !strings.HasPrefix(string(csv), "panel,series,x,low_whisker,") ||
		strings.Count(string(csv), "\n") != 5 {
		t.Errorf("data of a figure: %v, %s", err, csv)
	}
	expect(t, exitOK, nil, "report", at("r.sqlite"), "--html", at("page.html"))
	page, err := os.ReadFile(at("page.html"))
	if err != nil || strings.Count(string(page), "<img src=\"data:image/svg+xml") != 5 ||
		strings.Count(string(page), "<a download=") != 5 || !strings.Contains(string(page), " ±") {
		t.Errorf("page: %v, %.300s", err, page)
	}
	expect(t, exitOK, nil, "report", at("r.sqlite"), "--save", at("r.jsonl"))
	whole := expect(t, exitOK, nil, "report", at("r.sqlite"), "--markdown")
	short := expect(t, exitOK, []string{"| 2 | "}, "report", at("r.jsonl"), "--markdown")
	if cut := func(s string) string { return s[strings.Index(s, "\n## "):] }; cut(whole) != cut(short) {
		t.Errorf("the short form has\n%s\nthe results\n%s", short, whole)
	}
}

func TestExperimentsThatCannotBe(t *testing.T) {
	dir := writeFiles(t, experimentFiles)
	at := func(name string) string { return filepath.Join(dir, name) }
	held, err := results.Create(at("held.sqlite"), results.Info{})
	must(t, err)
	defer held.Close()
	for _, x := range []saying{
		{exitUsage, "name one experiment file", []string{"experiment"}},
		{exitUsage, "--jobs 0", []string{"experiment", "--jobs=0", at("x.yaml")}},
		{exitInput, "missing.yaml", []string{"experiment", at("missing.yaml")}},
		{exitInput, "did you mean policy?", []string{"experiment", at("bad.yaml")}},
		{exitInput, `policy "best" is not known`, []string{"experiment", "-o", at("n.sqlite"), at("odd.yaml")}},
		{exitInput, "no file of results", []string{"experiment", "-o", at("c.yaml"), at("x.yaml")}},
		{exitHost, "no such file or directory", []string{"experiment", "-o", at("none/r.sqlite"), at("x.yaml")}},
		{exitHeld, "another gantry", []string{"experiment", "-o", at("held.sqlite"), at("x.yaml")}},
		{exitUsage, "name one file of results", []string{"report"}},
		{exitInput, "no such file", []string{"report", at("none.sqlite")}},
		{exitInput, "no file of results", []string{"report", at("c.yaml")}},
		{exitUsage, "name files of results, or two runs", []string{"compare"}},
		{exitUsage, "name two runs", []string{"compare", "a", "b", "c"}},
		{exitInput, "no such file", []string{"compare", at("none.sqlite")}},
	} {
		if out := expect(t, x.code, []string{x.says}, x.args...); out != "" {
			t.Errorf("%v prints %q", x.args, out)
		}
	}
	if _, err := os.Stat(at("n.sqlite")); err == nil {
		t.Error("an experiment that cannot be made a file")
	}
}

// A simulation that is replayed with what was measured in it is the same simulation.
func TestAReplayRepeatsARun(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"w.yaml": "count: 4\nmix: [{generator: montage}]\ntasks: 30\narrivals: {process: poisson, utilisation: 2}\n",
		"c.yaml": "nodes: [{name: fast, count: 2, speed: 1.5, group: a}, {name: slow, count: 2, speed: 0.5, group: " +
			"b}]\nlinks: [{from: a, to: b, bandwidth: 10MB/s}]\n"})
	home := "--dir=" + filepath.Join(dir, "runs")
	do := func(args ...string) string {
		t.Helper()
		return expect(t, exitOK, nil, append(args, home)...)
	}
	do("simulate", "--name=first", "--policy=fdws", "--errors=uniform:1", "--startup=2s", "--cluster",
		filepath.Join(dir, "c.yaml"), filepath.Join(dir, "w.yaml"))
	do("simulate", "--name=again", "--replay=first")
	do("simulate", "--name=other", "--replay=first", "--policy=gbf")
	took := time.Duration(makespan(t, home, "first") * 1e9).Round(time.Millisecond) // since the first arrival
	if out := do("simulate", "--replay=first", "--no-log"); !strings.Contains(out, "makespan "+took.String()+",") ||
		strings.Count(do("ls"), "finished") != 3 {
		t.Errorf("a replay without a log prints\n%s\nthe run took %v, and the log has\n%s", out, took, do("ls"))
	}
	const alike = `SELECT count(*) FROM v_attempts a JOIN v_attempts b USING (workflow, task, try)
		WHERE a.run = 'first' AND b.run = ? AND (a.node, a.started_ns, a.ended_ns) = (b.node, b.started_ns, b.ended_ns)`
	runs := filepath.Join(dir, "runs")
	all, again, other := one[int](t, runs, alike, "first"), one[int](t, runs, alike, "again"), one[int](t, runs, alike,
		"other")
	if all == 0 || again != all || other == all {
		t.Errorf("of %d attempts the replay has %d, and that by another policy %d", all, again, other)
	}
	var got struct {
		OrderTau float64 `json:"order_tau"`
		Swapped  int     `json:"swapped_pairs"`
		Phases   []struct {
			Starting float64 `json:"starting_ns"`
		} `json:"mean_phases"`
	}
	must(t, json.Unmarshal([]byte(do("compare", "first", "other", "--json")), &got))
	if got.Swapped == 0 || got.OrderTau >= 1 || len(got.Phases) != 2 || math.Abs(got.Phases[1].Starting-2e9) > 1 {
		t.Errorf("another policy starts in another order, and starts take 2 s: %+v", got)
	}
	text := do("compare", "first", "again")
	for _, want := range []string{"container start", "tau 1.000", "Where the time of their tasks went"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q: %s", want, text)
		}
	}
	for _, x := range []saying{
		{exitInput, `no run "none"`, []string{"simulate", "--replay=none"}},
		{exitUsage, "--cluster has no effect here", []string{"simulate", "--replay=first", "--cluster=c.yaml"}},
		{exitUsage, "cannot go with --no-log", []string{"simulate", "--replay=first", "--no-log", "--json"}},
		{exitUsage, "--predict-memory needs a model", []string{"simulate", "--replay=first", "--predict-memory=lean"}},
		{exitUsage, "name no others", []string{"simulate", "--replay=first", "w.yaml"}},
		{exitInput, `no run "none"`, []string{"compare", "first", "none"}},
		{exitUsage, "goes with files of results", []string{"compare", "first", "again", "--against=cpp"}},
	} {
		expect(t, x.code, []string{x.says}, append(x.args, home)...)
	}
}

func TestTheMetricsOfRuns(t *testing.T) {
	dir := writeFiles(t, map[string]string{"one.dax": oneTask, "c.yaml": "nodes: [{name: n, cores: 2}]\n"})
	home := "--dir=" + filepath.Join(dir, "runs")
	for name, startup := range map[string]string{"x": "1s", "y": "3s"} {
		expect(t, exitOK, nil, "simulate", home, "--name="+name, "--startup="+startup, "--cluster",
			filepath.Join(dir, "c.yaml"), filepath.Join(dir, "one.dax"))
	}
	var first struct {
		Metrics   map[string]*float64
		Workflows []struct {
			Wait     float64 `json:"wait_s"`
			Makespan float64 `json:"makespan_s"`
			Response float64 `json:"response_s"`
			Slowdown float64
		}
	}
	must(t, json.Unmarshal([]byte(expect(t, exitOK, nil, "report", home, "--json", "x")), &first))
	if w := first.Workflows; len(w) != 1 || w[0].Wait != 1 || w[0].Makespan != 2 || w[0].Response != 3 ||
		w[0].Slowdown != 1.5 || *first.Metrics["utilisation"] != 0.5 || *first.Metrics["span"] != 3 {
		t.Errorf("the first run: %+v", first)
	}
	out := expect(t, exitOK, nil, "report", home, "--json", "x", "y")
	var got struct {
		Tables []struct {
			Rows []struct {
				Policy string
				Runs   int
				Values map[string]struct {
					N    int
					Mean float64
					Half float64 `json:"half_width_95"`
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Tables) != 1 {
		t.Fatal(err, out)
	}
	// Means of 1 s and 3 s: Student's t of one degree of freedom is 12.706, times the standard error of 1 s.
	r := got.Tables[0].Rows[0]
	if w := r.Values["wait_mean"]; r.Policy != "cpp" || r.Runs != 2 || w.N != 2 || w.Mean != 2 ||
		math.Abs(w.Half-12.706) > 0.001 {
		t.Errorf("%+v", got)
	}
	expect(t, exitOK, []string{"Runs x, y\n", "WAIT_MEAN", "2 ±13"}, "report", home, "x", "y")
	expect(t, exitOK, []string{"RESPONSE_MAX"}, "report", home, "--metrics", "response_max", "x", "y")
	expect(t, exitUsage, []string{"named twice"}, "report", home, "x", "x")
	figures := t.TempDir()
	expect(t, exitOK, []string{"x-y-size.svg", "x-y-slowdown.png", "x-y-in-system.png"}, "report", home, "--out",
		figures, "x", "y")
	for _, kind := range []string{"csv", "pdf", "png", "svg"} {
		files, _ := filepath.Glob(filepath.Join(figures, "x-y-*."+kind))
		if len(files) != 4 { // in-system, size, slowdown and timeline
			t.Errorf("figures %v", files)
		}
	}
	expect(t, exitInput, []string{`no run "none"`}, "report", home, "x", "none")
	expect(t, exitOK, []string{"x-y-wait_mean-by-policy.pdf"}, "report", home, "--out", figures, "--metric",
		"wait_mean", "x", "y")
	if data, err := os.ReadFile(filepath.Join(figures, "x-y-wait_mean-by-policy.csv")); err != nil ||
		!strings.Contains(string(data), ",cpp,cpp,2,2,12.7") {
		t.Errorf("a metric of two runs: %s, %v", data, err)
	}
	expect(t, exitUsage, []string{`no run has metric "nix"`}, "report", home, "--out", figures, "--metric", "nix", "x")
	expect(t, exitUsage, []string{"--out DIR"}, "report", home, "--metric", "wait_mean", "x")
	expect(t, exitUsage, []string{"goes with files of results"}, "report", home, "--against", "cpp", "x", "y")
	// A name may have a dot, and a file may have the name of a run.
	expect(t, exitOK, nil, "simulate", home, "--name=z.1", "--cluster", filepath.Join(dir, "c.yaml"),
		filepath.Join(dir, "one.dax"))
	t.Chdir(dir)
	must(t, os.WriteFile("x", []byte("no results"), 0o644))
	for _, run := range []string{"z.1", "x"} {
		expect(t, exitOK, []string{run + ": cpp on sim"}, "report", home, run)
		expect(t, exitOK, []string{run + "-wait_mean-by-policy.csv"}, "report", home, run, "--out", figures,
			"--metrics", "wait_mean")
	}
	expect(t, exitOK, []string{"B  z.1: cpp"}, "compare", home, "x", "z.1")
}
