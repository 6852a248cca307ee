package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// At a load of 0.2 nodes are busy for less than two fifths of the time, at 0.9 for more, and by no reading both. The
// same command continues, and another seed reports. A sample of two has every value once.
func TestReadingsAreExplored(t *testing.T) {
	const bounds = `study: s.yaml
experiments: [few.yaml]
bounds: {utilisation: ["0.2", "0.9"]}
instead: [{}, {fdws: gbf}]
choose: {seed: 1, repetitions: 5}
report: {seed: 101, repetitions: 3}
`
	files := map[string]string{"w.yaml": experimentFiles["w.yaml"], "c.yaml": experimentFiles["c.yaml"],
		"few.yaml": experimentFiles["few.yaml"], "e.yaml": bounds, "sampled.yaml": bounds + "sample: 2\n",
		"same.yaml": strings.Replace(bounds, "101", "1", 1), "s.yaml": `short: S
experiments: [{name: few, file: few.yaml}]
relations:
  - {says: idle, checks: [{of: few, at: {policy: fdws}, metric: utilisation, claim: at-most, bound: 0.4}]}
  - {says: busy, checks: [{of: few, at: {policy: fdws}, metric: utilisation, claim: at-least, bound: 0.4}]}
`}
	dir := writeFiles(t, files)
	for range 2 {
		expect(t, exitOK, []string{"| idle | x | x |  |  |\n| busy |  |  | x | x |\n",
			"2. utilisation=0.2, gbf for fdws: 1 of 2", "Most statements: reading 1, 1 of 2.",
			"Pareto front: 1 2 3 4.", "never together;", "do:\n\n- idle | busy\n", "with seed 101, 3 repetitions"},
			"explore", "--dir", filepath.Join(dir, "out"), filepath.Join(dir, "e.yaml"))
	}
	expect(t, exitOK, []string{"utilisation=0.2", "utilisation=0.9", "| statement | 1 | 2 |\n",
		"A Latin hypercube of 2 of the 4 combinations: others may hold more, and together."}, "explore", "--dir",
		filepath.Join(dir, "some"), filepath.Join(dir, "sampled.yaml"))
	one := filepath.Join(dir, "one.yaml")
	must(t, os.WriteFile(one, []byte(strings.Replace(bounds, `, "0.9"`, "", 1)), 0o644))
	expect(t, exitOK, []string{"All readings have utilisation=0.2.\n",
		"1. policies as they are: 1 of 2\n2. gbf for fdws", "Pareto front: 1 2.\n\nAll statements"}, "explore",
		"--dir", filepath.Join(dir, "out"), one)
	failing := filepath.Join(dir, "failing.yaml") // the report too, as the first of equal readings is taken
	small := strings.Replace(bounds, "[{}, {fdws: gbf}]", "[{fdws: 'mrcp-rm:tasks=1'}]", 1)
	must(t, os.WriteFile(failing, []byte(small), 0o644))
	for range 2 {
		expect(t, exitTasksFailed, []string{"reading 2 of 2\n", "5 runs could not be done, which"}, "explore", "--dir",
			filepath.Join(dir, "failed"), failing)
	}
	expect(t, exitInput, []string{"two seeds"}, "explore", filepath.Join(dir, "same.yaml"))
	for _, c := range [][3]string{{"utilisation:", "utilization:", "did you mean utilisation?"},
		{`["0.2", "0.9"]`, "[]", "utilisation has no values"}, {"fdws: gbf", "fdwz: gbf", "did you mean fdws?"},
		{"instead", "sample: -2\ninstead", "sample is -2"}, {"bounds:", "bound:", `line 3: unknown key "bound"`},
		{`"0.9"`, `"full"`, `few.yaml: cluster=c.yaml`}, {"study: s.yaml", "", "needs a study"}} {
		dir := writeFiles(t, files)
		path := filepath.Join(dir, "e.yaml")
		must(t, os.WriteFile(path, []byte(strings.Replace(bounds, c[0], c[1], 1)), 0o644))
		expect(t, exitInput, []string{c[2]}, "explore", "--dir", filepath.Join(dir, "out"), path)
	}
}

// The explorations behind the pages can be run.
func TestExplorationsOfThePagesAreRead(t *testing.T) {
	var files []string
	for _, pattern := range []string{"explore.yaml", "*/explore*.yaml", "*/explored/*.yaml"} {
		some, err := filepath.Glob("../examples/experiments/" + pattern)
		must(t, err)
		if len(some) == 0 {
			t.Errorf("no exploration is named %s", pattern)
		}
		files = append(files, some...)
	}
	for _, path := range files {
		if _, err := readExploration(path); err != nil {
			t.Error(err)
		}
	}
}
