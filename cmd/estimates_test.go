package cmd

import (
	"encoding/json"
	"path/filepath"
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
	}
	Estimates []struct {
		Source   string
		Attempts int
	}
}

// attempt runs gantry and shows the run.
func attempt(t *testing.T, home string, args ...string) (s told) {
	t.Helper()
	expect(t, exitOK, nil, append(args[:len(args):len(args)], "--quiet", "--dir", home)...)
	must(t, json.Unmarshal([]byte(expect(t, exitOK, nil, "show", "--json", "--dir", home)), &s))
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

func TestEstimatorsThatCannotBeAreRefused(t *testing.T) {
	dir := writeFiles(t, map[string]string{"f.dax": forked,
		"w.yaml":   "repetitions: 2\ncount: 1\nmix: [{generator: montage, tasks: 20}]\n",
		"bad.yaml": "count: 1\nmix:\n  - {generator: montage, taks: 20}\n"})
	for _, c := range []struct {
		want int
		says string
		args []string
	}{
		{exitUsage, "known are declared, learned, corrected, trained, oracle", []string{"simulate",
			"--estimator", "guess", "f.dax"}},
		{exitUsage, "whole number from 1", []string{"simulate", "--estimator", "learned:0", "f.dax"}},
		{exitUsage, "takes no parameter", []string{"simulate", "--estimator", "declared:3", "f.dax"}},
		{exitUsage, "only a simulation knows the true runtimes", []string{"run", "--estimator", "oracle", "--runtime",
			"null", "f.dax"}},
		{exitUsage, "--errors", []string{"simulate", "--errors", "static", "f.dax"}},
		{exitUsage, "--errors", []string{"simulate", "--errors", "normal:3", "f.dax"}},
		{exitUsage, "--count 0", []string{"simulate", "--count", "0", "f.dax"}},
		{exitUsage, "--repetition 3", []string{"simulate", "--repetition", "3", "w.yaml"}},
		{exitUsage, "--repetition 0: give a number from 1", []string{"simulate", "--repetition", "0", "w.yaml"}},
		{exitInput, `line 3: a part of the mix: unknown key "taks"; did you mean tasks?`,
			[]string{"simulate", "bad.yaml"}},
	} {
		args := append(c.args[:len(c.args)-1:len(c.args)-1], "--dir", filepath.Join(dir, "runs"),
			filepath.Join(dir, c.args[len(c.args)-1]))
		expect(t, c.want, []string{c.says}, args...)
	}
}
