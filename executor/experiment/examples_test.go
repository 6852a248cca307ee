package experiment_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gantry/executor/experiment"
	"gantry/planner/seed/seedtest"
	"gantry/trace/scenario"
)

// The policies, factors and files that the examples name are there.
func TestTheExperimentsOfTheExamplesCanBeRun(t *testing.T) {
	paths, err := filepath.Glob("../../examples/experiments/*.yaml")
	must(t, err)
	deeper, err := filepath.Glob("../../examples/experiments/*/*.yaml")
	must(t, err)
	paths = append(paths, deeper...)
	experiments := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		must(t, err)
		if !strings.Contains(string(text), "\nfactors:") {
			continue // a workload or a cluster
		}
		if experiments++; !seedtest.Takes(experiments) {
			continue
		}
		for _, quick := range []bool{true, false} {
			if !quick && testing.Short() {
				continue
			}
			x, err := scenario.ReadExperiment(strings.NewReader(string(text)), path, quick, "")
			if err == nil {
				err = (&experiment.Runner{File: x}).Check()
			}
			if err != nil {
				t.Errorf("%s, quick %v: %v", path, quick, err)
			}
		}
	}
	if experiments < 36 {
		t.Errorf("only %d experiments", experiments)
	}
}

// Each workflow of the worst case of RM-DCWF meets its deadline, and has all before it mapped again, one search each.
func TestInTheWorstCaseAllBeforeAreMappedAgain(t *testing.T) {
	const path = "../../examples/experiments/rm-dcwf/growth-jobs.yaml"
	text, err := os.ReadFile(path)
	must(t, err)
	x, err := scenario.ReadExperiment(strings.NewReader(string(text)), path, false, "")
	must(t, err)
	m := &memory{}
	must(t, (&experiment.Runner{File: x, Store: m, Jobs: 1}).Run(t.Context()))
	for key, values := range m.results() {
		if n := values["workflows"]; n < 32 || values["searched_mean"] != n-1 || values["late_share"] != 0 {
			t.Errorf("%s: %v", key, values)
		}
	}
}
