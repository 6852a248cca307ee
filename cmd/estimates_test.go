package cmd

import (
	"path/filepath"
	"testing"
)

func TestEstimatorsThatCannotBeAreRefused(t *testing.T) {
	dir := writeFiles(t, map[string]string{"f.dax": oneTask,
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
