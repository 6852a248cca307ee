package scenario_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gantry/trace/reader/readertest"
	"gantry/trace/scenario"
)

const experimentText = `name: slowdown
title: Slowdown under wrong estimates
workload: w.yaml
cluster: c.yaml
repetitions: 10
seed: 4
keep: [series]
limit: {in_system: 500, events: 1000000}
factors:
  - policy: [cpp, "fwp:xi=off"]
    errors: [none, "random1:2"]
    utilisation: 0.98
    workload.mix.0.tasks: [30, [30, 40], {low: 1}]
  - policy: wheft
    workload: v.yaml
search: {parameter: startup, from: 0.5, to: 0.7, step: 0.1}
quick:
  repetitions: 2
  factors: {policy: gbf, workload.count: 300}
readings:
  empty: {seed: 101, repetitions: 30, keep: [searches], factors: {utilisation: 0.5, workload.count: 3000}}
`

func asJSON(t *testing.T, text string) []byte {
	t.Helper()
	var v any
	must(t, yaml.Unmarshal([]byte(text), &v))
	out, err := json.Marshal(v)
	must(t, err)
	return out
}

func readExperiment(t *testing.T, text string, quick bool) (*scenario.Experiment, error) {
	t.Helper()
	return scenario.ReadExperiment(strings.NewReader(text), "dir/x.yaml", quick, "")
}

func TestExperimentFile(t *testing.T) {
	readertest.Validate(t, readertest.Schema(t, "schema/experiment.schema.json"), asJSON(t, experimentText))
	x, err := readExperiment(t, experimentText, false)
	must(t, err)
	if x.Name != "slowdown" || x.Repetitions != 10 || x.Seed != 4 || x.KeepWorkflows || !x.KeepSeries ||
		x.KeepSearches || x.InSystem != 500 || x.Events != 1_000_000 {
		t.Errorf("read as %+v", x)
	}
	values := func(block int) map[string][]string {
		out := map[string][]string{}
		for _, f := range x.Blocks[block] {
			out[f.Name] = f.Values
		}
		return out
	}
	if got, want := values(0), (map[string][]string{"policy": {"cpp", "fwp:xi=off"}, "errors": {"none", "random1:2"},
		"utilisation":          {"0.98"},
		"workload.mix.0.tasks": {"30", "[30, 40]", "{low: 1}"}, "workload": {"w.yaml"},
		"cluster": {"c.yaml"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("first block:\n%v, want\n%v", got, want)
	}
	if got := values(1); !reflect.DeepEqual(got["workload"], []string{"v.yaml"}) {
		t.Errorf("the workload of the second block is %v", got["workload"])
	}
	if got := x.Search.Values(); !reflect.DeepEqual(got, []string{"0.5", "0.6", "0.7"}) {
		t.Errorf("searched are %v", got)
	}
	if x, err = readExperiment(t, experimentText, true); err != nil {
		t.Fatal(err)
	}
	if got := values(1); x.Repetitions != 2 || !reflect.DeepEqual(got["policy"], []string{"gbf"}) ||
		!reflect.DeepEqual(got["workload.count"], []string{"300"}) {
		t.Errorf("quick: %d repetitions of %v", x.Repetitions, got)
	}
}

func TestFaultyExperimentFiles(t *testing.T) {
	const head = "workload: w.yaml\ncluster: c.yaml\n"
	for _, x := range []struct{ name, text, want string }{
		{"unknown key", head + "factors: {policy: cpp}\nrepetition: 3\n",
			`line 4: the experiment: unknown key "repetition"; did you mean repetitions?`},
		{"unknown factor", head + "factors:\n  policy: cpp\n  utilization: 0.9\n",
			`line 5: unknown factor "utilization"; did you mean utilisation?`},
		{"a factor like none", head + "factors: {policy: cpp, colour: red}\n", "known are policy, errors"},
		{"no policy", head, "needs a policy"},
		{"no workload", "cluster: c.yaml\nfactors: {policy: cpp}\n", "needs a workload"},
		{"no cluster", "workload: w.yaml\nfactors: {policy: cpp}\n", "needs a cluster"},
		{"no values", head + "factors: {policy: []}\n", "factor policy has no values"},
		{"a value twice", head + "factors: {policy: [cpp, cpp]}\n", "factor policy has cpp twice"},
		{"half a repetition", head + "factors: {policy: cpp}\nrepetitions: 0.5\n", "line 4: repetitions is"},
		{"an unknown thing to keep", head + "factors: {policy: cpp}\nkeep: [tasks]\n", `keep is "tasks"`},
		{"a search without an end", head + "factors: {policy: cpp}\nsearch: {from: 0.5}\n",
			"line 4: a search needs from and to"},
		{"a search of a factor", head + "factors: {policy: cpp, utilisation: 0.5}\nsearch: {from: 0.5, to: 0.9}\n",
			"searched and a factor at once"},
		{"a negative seed", head + "factors: {policy: cpp}\nseed: -1\n", "line 4: seed is"},
		{"no YAML", "{", "experiment dir/x.yaml"},
		{"nothing", "", "experiment dir/x.yaml"},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, err := readExperiment(t, x.text, false)
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %v, want it to say %q", err, x.want)
			}
		})
	}
	if _, err := readExperiment(t, head+"factors: {policy: cpp}\n", true); err == nil ||
		!strings.Contains(err.Error(), "no key quick") {
		t.Errorf("quick without the key: %v", err)
	}
}

// A reading replaces values, the short variant in turn those of the reading.
func TestAReadingReplacesValues(t *testing.T) {
	read := func(quick bool, name string) (*scenario.Experiment, error) {
		return scenario.ReadExperiment(strings.NewReader(experimentText), "dir/x.yaml", quick, name)
	}
	value := func(x *scenario.Experiment, name string) string {
		for _, f := range x.Blocks[0] {
			if f.Name == name {
				return strings.Join(f.Values, " ")
			}
		}
		return ""
	}
	x, err := read(false, "empty")
	if err != nil || x.Name != "slowdown@empty" || x.Seed != 101 || x.Repetitions != 30 ||
		!x.KeepSearches || x.KeepSeries || value(x, "utilisation") != "0.5" || value(x, "workload.count") != "3000" ||
		value(x, "policy") != "cpp fwp:xi=off" {
		t.Errorf("read as %+v, %v", x, err)
	}
	x, err = read(true, "empty")
	if err != nil || x.Seed != 101 || x.Repetitions != 2 || value(x, "workload.count") != "300" {
		t.Errorf("the short variant is read as %+v, %v", x, err)
	}
	if _, err := read(false, "full"); err == nil || !strings.Contains(err.Error(), `no "full"; it has empty`) {
		t.Errorf("a reading that is not there gives %v", err)
	}
}

func TestTheExamplesAreExperiments(t *testing.T) {
	paths, err := filepath.Glob("../../examples/experiments/*.yaml")
	more, err2 := filepath.Glob("../../examples/experiments/rm-dcwf/*.yaml")
	if paths = append(paths, more...); err != nil || err2 != nil || len(paths) < 20 {
		t.Fatalf("%d examples, %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		must(t, err)
		if !strings.Contains(string(text), "\nfactors:") {
			continue // a workload or a cluster
		}
		readertest.Validate(t, readertest.Schema(t, "schema/experiment.schema.json"), asJSON(t, string(text)))
		for _, quick := range []bool{false, true} {
			if _, err := scenario.ReadExperiment(strings.NewReader(string(text)), path, quick, ""); err != nil {
				t.Error(err)
			}
		}
	}
}
