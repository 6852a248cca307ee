package cmd

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

const forked = `<adag version="2.1" name="forked"><job id="a" name="x" runtime="20"/><job id="b" name="y" runtime="5"/><job id="c" name="y" runtime="5"/>` +
	`<child ref="b"><parent ref="a"/></child><child ref="c"><parent ref="a"/></child></adag>`

// told is what gantry show prints of a run.
type told struct {
	Kinds []struct {
		Kind      string
		Estimated float64 `json:"estimated_s"`
		Runtime   float64 `json:"runtime_s"`
		Measured  float64 `json:"measured_s"`
	}
	Estimates []struct {
		Source   string
		Attempts int
		Ratio    *float64 `json:"mean_ratio"`
		Error    *float64 `json:"mean_error_percent"`
	}
}

// attempt runs gantry and shows the run.
func attempt(t *testing.T, home string, args ...string) (s told) {
	t.Helper()
	expect(t, exitOK, nil, append(args[:len(args):len(args)], "--quiet", "--dir", home)...)
	if err := json.Unmarshal([]byte(expect(t, exitOK, nil, "show", "--json", "--dir", home)), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// sources lists the sources of estimates and how many attempts each had.
func (s told) sources() map[string]int {
	out := map[string]int{}
	for _, e := range s.Estimates {
		out[e.Source] = e.Attempts
	}
	return out
}

func (s told) kind(t *testing.T, name string) (estimated, runtime float64) {
	t.Helper()
	for _, k := range s.Kinds {
		if k.Kind == name {
			return k.Estimated, k.Runtime
		}
	}
	t.Fatalf("no tasks of type %s", name)
	return 0, 0
}

func TestSecondRunIsPlannedWithWhatTheFirstMeasured(t *testing.T) {
	dir := writeFiles(t, map[string]string{"f.dax": forked, "nodes.yaml": "nodes: [{name: n, cores: 2, speed: 0.5}]"})
	home := filepath.Join(dir, "runs")
	args := []string{"simulate", "--cluster", filepath.Join(dir, "nodes.yaml"), filepath.Join(dir, "f.dax")}
	first := attempt(t, home, append(args[:3:3], "--errors", "uniform:2", args[3])...)
	if s := first.sources(); s["declared"] != 3 || len(s) != 1 {
		t.Fatalf("the first run was planned by %v", s)
	}
	estimated, measured := first.kind(t, "x")
	if estimated != 40 || measured == 40 { // 20 s at half the speed
		t.Fatalf("estimated %v s, took %v s", estimated, measured)
	}
	second := attempt(t, home, append(args[:3:3], "--estimator", "history", args[3])...)
	if s := second.sources(); s["history"] != 3 || len(s) != 1 {
		t.Errorf("the second run was planned by %v", s)
	}
	for _, kind := range []string{"x", "y"} {
		_, was := first.kind(t, kind)
		if now, _ := second.kind(t, kind); math.Abs(now-was) > 1e-6 {
			t.Errorf("type %s: estimated %v s, the first run measured %v s", kind, now, was)
		}
	}
	if s := attempt(t, home, args...).sources(); s["declared"] != 3 || len(s) != 1 {
		t.Errorf("without --estimator a simulation was planned by %v", s)
	}
}

func TestWhatPoliciesBelieveIsApartFromWhatHappens(t *testing.T) {
	dir := writeFiles(t, map[string]string{"f.dax": forked})
	for _, c := range []struct {
		args    []string
		sources map[string]int
		ratio   func(float64) bool // of the first source
		makes   func(float64) bool // seconds that x takes
	}{
		{nil, map[string]int{"declared": 3}, is(1), is(20)},
		{[]string{"--errors", "none"}, map[string]int{"declared": 3}, is(1), is(20)},
		{[]string{"--errors", "static:3"}, map[string]int{"erroneous": 3}, is(3), is(20)},
		{[]string{"--errors", "random1:3"}, map[string]int{"erroneous": 3}, not(1), is(20)},
		{[]string{"--errors", "random2:3"}, map[string]int{"erroneous": 3}, not(1), is(20)},
		{[]string{"--errors", "uniform:3"}, map[string]int{"declared": 3}, not(1), not(20)},
		{[]string{"--errors", "uniform:3", "--estimator", "oracle"}, map[string]int{"oracle": 3}, is(1), not(20)},
		{[]string{"--errors", "static:3", "--estimator", "oracle"}, map[string]int{"oracle": 3}, is(1), is(20)},
		{[]string{"--errors", "static:3", "--estimator", "corrected"}, map[string]int{"corrected": 2, "erroneous": 1},
			is(1), is(20)},
	} {
		s := attempt(t, t.TempDir(), append(append([]string{"simulate"}, c.args...), filepath.Join(dir, "f.dax"))...)
		got := s.sources()
		if len(got) != len(c.sources) {
			t.Errorf("%v: planned by %v, want %v", c.args, got, c.sources)
			continue
		}
		for name, n := range c.sources {
			if got[name] != n {
				t.Errorf("%v: planned by %v, want %v", c.args, got, c.sources)
			}
		}
		if r := *s.Estimates[0].Ratio; !c.ratio(r) {
			t.Errorf("%v: estimates are %v times what happened", c.args, r)
		}
		if _, ran := s.kind(t, "x"); !c.makes(ran) {
			t.Errorf("%v: x takes %v s", c.args, ran)
		}
	}
}

func is(want float64) func(float64) bool {
	return func(x float64) bool { return math.Abs(x-want) < 1e-6 }
}

func not(want float64) func(float64) bool {
	return func(x float64) bool { return x > 0 && math.Abs(x-want) > 1e-3 }
}

func TestEstimatorsThatCannotBeAreRefused(t *testing.T) {
	dir := writeFiles(t, map[string]string{"f.dax": forked,
		"w.yaml":   "repetitions: 2\ncount: 1\nmix: [{generator: montage, tasks: 20}]\n",
		"bad.yaml": "count: 1\nmix:\n  - {generator: montage, taks: 20}\n"})
	for _, c := range []struct {
		want int
		says string
		args []string
	}{
		{exitUsage, "known are declared, history, learned, corrected, trained, oracle", []string{"simulate",
			"--estimator", "guess", "f.dax"}},
		{exitUsage, "whole number from 1", []string{"simulate", "--estimator", "history:0", "f.dax"}},
		{exitUsage, "takes no parameter", []string{"simulate", "--estimator", "declared:3", "f.dax"}},
		{exitUsage, "only a simulation knows the true runtimes", []string{"run", "--estimator", "oracle", "--runtime",
			"null", "f.dax"}},
		{exitUsage, "--errors", []string{"simulate", "--errors", "static", "f.dax"}},
		{exitUsage, "--errors", []string{"simulate", "--errors", "normal:3", "f.dax"}},
		{exitUsage, "--count 0", []string{"simulate", "--count", "0", "f.dax"}},
		{exitUsage, "--repetition 3", []string{"simulate", "--repetition", "3", "w.yaml"}},
		{exitUsage, "--repetition 3", []string{"simulate", "--repetition", "2..3", "--quiet", "w.yaml"}},
		{exitUsage, "a range such as 1..3, or all", []string{"simulate", "--repetition", "3..2", "w.yaml"}},
		{exitUsage, "a range such as 1..3, or all", []string{"simulate", "--repetition", "some", "w.yaml"}},
		{exitInput, `line 3: a part of the mix: unknown key "taks"; did you mean tasks?`,
			[]string{"simulate", "bad.yaml"}},
	} {
		args := append(c.args[:len(c.args)-1:len(c.args)-1], "--dir", filepath.Join(dir, "runs"),
			filepath.Join(dir, c.args[len(c.args)-1]))
		code, out, errs := invoke(t, args...)
		if code != c.want || !strings.Contains(errs, c.says) {
			t.Errorf("gantry %s: exit %d, want %d and %q\n%s%s", strings.Join(args, " "), code, c.want, c.says, out,
				errs)
		}
	}
}

func TestStreamRunsAsASimulationAndOnTheNullRuntime(t *testing.T) {
	dir := writeFiles(t, map[string]string{"w.yaml": "seed: 3\nrepetitions: 2\ncount: 12\nmix: [{generator: " +
		"montage, fraction: 3}, {generator: random}]\ntasks: 20..24\n" +
		"arrivals: {process: fixed, interval: 1h}\ntotal_runtime: {distribution: constant, mean: 10s}\n"})
	work := filepath.Join(dir, "w.yaml")
	type run struct {
		Workflows []struct {
			Name  string
			State string
		} `json:"workflow_summaries"`
		Makespan float64 `json:"makespan_s"`
	}
	read := func(args ...string) (r run) {
		t.Helper()
		home := t.TempDir()
		expect(t, exitOK, nil, append(args, "--quiet", "--dir", home, work)...)
		if err := json.Unmarshal([]byte(expect(t, exitOK, nil, "show", "--json", "--dir", home)), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	first, again, other := read("simulate"), read("simulate"), read("simulate", "--repetition", "2")
	if len(first.Workflows) != 12 || first.Makespan < 11*3600 || first.Makespan != again.Makespan ||
		first.Makespan == other.Makespan {
		t.Errorf("%d workflows in %v s, %v s again, %v s in repetition 2", len(first.Workflows), first.Makespan,
			again.Makespan, other.Makespan)
	}
	few := read("simulate", "--count", "3", "--time-scale", "0.1")
	if len(few.Workflows) != 3 || few.Workflows[2].Name != first.Workflows[2].Name || few.Makespan < 720 ||
		few.Makespan > 721 {
		t.Errorf("%+v, want the first three in a tenth of the time", few)
	}
	home := t.TempDir()
	all := expect(t, exitOK, []string{"cpp on sim, 2 runs"}, "simulate", "--repetition", "all", "--name", "r", "--dir",
		home, work)
	for name, want := range map[string]float64{"r-1": first.Makespan, "r-2": other.Makespan} {
		var r run
		if err := json.Unmarshal([]byte(expect(t, exitOK, nil, "show", "--json", "--dir", home, name)),
			&r); err != nil || r.Makespan != want {
			t.Errorf("%s takes %v s, and alone %v s: %v\n%s", name, r.Makespan, want, err, all)
		}
	}
	if null := read("run", "--runtime", "null", "--time-scale", "0"); len(null.Workflows) != 12 {
		t.Errorf("%+v", null)
	}
}

func TestSecondRunInContainersIsPlannedWithWhatTheFirstMeasured(t *testing.T) {
	long(t)
	needsDocker(t)
	dir := writeFiles(t, map[string]string{"f.dax": forked})
	home := filepath.Join(dir, "runs")
	args := []string{"run", "--time-scale", "0.02", filepath.Join(dir, "f.dax")}
	first := attempt(t, home, args...)
	// y runs twice: the second may be planned with what the first took.
	if s := first.sources(); s["declared"] < 2 || s["declared"]+s["learned"] != 3 {
		t.Errorf("the first run was planned by %v", s)
	}
	_, measured := first.kind(t, "x")
	second := attempt(t, home, args...)
	if s := second.sources(); s["learned"] != 3 || len(s) != 1 {
		t.Errorf("the second run was planned by %v", s)
	}
	estimated, _ := second.kind(t, "x")
	if want := measured + dockerStartup.Seconds(); math.Abs(estimated-want) > 1e-3 {
		t.Errorf("x is estimated at %v s, want the %v s that the first run measured and the start of a container",
			estimated, measured)
	}
	corrected := attempt(t, home, append(args[:3:3], "--estimator", "corrected:1", args[3])...)
	if s := corrected.sources(); s["corrected"] != 3 || len(s) != 1 {
		t.Errorf("with --estimator corrected the run was planned by %v", s)
	}
	if s := attempt(t, home, append(args[:3:3], "--estimator", "corrected", "--errors", "static:2",
		args[3])...).sources(); s["erroneous"] != 1 || s["corrected"] != 2 {
		t.Errorf("with errors earlier runs correct nothing, but it was planned by %v", s)
	}
	if s := attempt(t, home, append(args[:3:3], "--estimator", "declared", args[3])...).sources(); s["declared"] != 3 ||
		len(s) != 1 {
		t.Errorf("with --estimator declared the run was planned by %v", s)
	}
}
