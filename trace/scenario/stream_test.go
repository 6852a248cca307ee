package scenario_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"gantry/trace/generate"
	"gantry/trace/reader/readertest"
	"gantry/trace/scenario"
)

const day = `seed: 7
repetitions: 3
warm_up: 10
cool_down: 20
count: 300
mix:
  - {generator: montage, fraction: 0.4}
  - generator: random
    fat: [0.2, 0.8]
    density: 0.1
    jump: [1, 2]
    ccr: 0
    tasks: [5, 9]
  - {trace: m.dax, fraction: 0.2, inputs: data, image: busybox}
sizes:
  - {fraction: 0.75, tasks: 30..38, even: true}
  - {tasks: 40}
files: false
total_runtime: {distribution: hyper-gamma, mean: 1h, stages: [{weight: 0.7, shape: 5, scale: 501.266}, {shape: 45, scale: 136.709}]}
arrivals: {process: poisson, rate: 98/h}
tenants: [{name: a, fraction: 2}, {name: b}]
classes: {deadline: 0.3, low: 0.7}
deadlines: {factor: 1.5..4}
scale_times: false
`

// choices are those of a kind with parameters given as key=value,value…
func choices(t *testing.T, kind string, given ...string) *generate.Choices {
	t.Helper()
	k, err := generate.Find(kind)
	must(t, err)
	c := k.Choices()
	for _, g := range given {
		key, values, _ := strings.Cut(g, "=")
		must(t, c.Set(key, strings.Split(values, ",")...))
	}
	return c
}

func TestStreamIsRead(t *testing.T) {
	w, err := scenario.ReadWorkload(strings.NewReader(day), "some/dir/w.yaml")
	must(t, err)
	want := &scenario.Workload{Source: "some/dir/w.yaml", Seed: 7, Repetitions: 3, WarmUp: 10, CoolDown: 20,
		Stream: &scenario.Stream{Count: 300,
			Mix: []scenario.StreamSource{{Fraction: 0.4, Generator: "montage", Line: 7},
				{Fraction: 1, Generator: "random", Sizes: []generate.SizeClass{{Fraction: 1, Min: 5, Max: 9}}, Line: 8,
					Choices: choices(t, "random", "fat=0.2,0.8", "density=0.1", "jump=1,2", "ccr=0")},
				{Fraction: 0.2, Trace: "some/dir/m.dax", Inputs: "some/dir/data", Image: "busybox", Line: 14}},
			Sizes: []generate.SizeClass{{Fraction: 0.75, Min: 30, Max: 38, Even: true}, {Fraction: 1, Min: 40,
				Max: 40}},
			Total: scenario.TotalRuntime{Distribution: "hyper-gamma", Mean: time.Hour,
				Stages: []generate.Gamma{{Weight: 0.7, Shape: 5, Scale: 501.266}, {Weight: 1, Shape: 45,
					Scale: 136.709}}},
			Arrivals: scenario.ArrivalProcess{Process: "poisson", PerHour: 98, Line: 20},
			Tenants:  []scenario.Share{{Name: "a", Fraction: 2}, {Name: "b", Fraction: 1}},
			Classes: []scenario.Share{{Name: "deadline", Fraction: 0.3}, {Name: "regular"},
				{Name: "low", Fraction: 0.7}},
			Deadline: &scenario.DeadlineRule{Factor: [2]float64{1.5, 4}}, Line: 7}}
	if !reflect.DeepEqual(w, want) {
		t.Errorf("%+v\nwant %+v\n%+v\nwant %+v", w, want, w.Stream, want.Stream)
	}
	if !scenario.IsWorkload([]byte(day)) || !scenario.IsWorkload([]byte(`{"count": 1, "mix": []}`)) ||
		scenario.IsWorkload([]byte("nodes: []")) {
		t.Error("a workload is not told from other files")
	}
	for text, want := range map[string]bool{"workflow: [{trace: x}]": true, "count: 3\nmicks: []": true,
		`{"mx": [], "tasks": 3}`: true, "x-pegasus: {}\njobs: []\nmix: 1": false,
		`{"workflow": {"tasks": []}}`: false, `{"schemaVersion": "1.5", "workflows": 1}`: true,
		"workload: w.yaml\ncluster: c.yaml\nfactors: {}": false, "": false} {
		if scenario.IsWorkload([]byte(text)) != want {
			t.Errorf("IsWorkload(%q) is %v", text, !want)
		}
	}
}

func TestStreamKeysHaveTheUsualDefaults(t *testing.T) {
	w, err := scenario.ReadWorkload(strings.NewReader("mix: [{generator: sipht}]\ncount: 1\ntasks: 30"), "w.yaml")
	must(t, err)
	if s := w.Stream; !s.Files || s.Arrivals.Process != "batch" || s.Total.Distribution != "as-generated" ||
		!w.ScaleTimes || w.Seed != 0 || w.Repetitions != 0 {
		t.Errorf("%+v %+v", w, s)
	}
}

func TestReleasesDeadlinesAndMarginsAreRead(t *testing.T) {
	w, err := scenario.ReadWorkload(strings.NewReader("mix: [{generator: mapreduce, tasks: 1..100, map_time: 10s, "+
		"slots: true}]\ncount: 9\nwarm_up: 50000s\n"+
		"cool_down: 2h\nreleases: {probability: 0.5, after: 1s..50000s}\ndeadlines: {multiplier: 1..5}"), "w.yaml")
	must(t, err)
	s := w.Stream
	if w.WarmUp != 0 || w.WarmUpTime != 50000*time.Second || w.CoolDownTime != 2*time.Hour ||
		*s.Release != (scenario.ReleaseRule{Probability: 0.5, After: [2]time.Duration{time.Second,
			50000 * time.Second}}) ||
		*s.Deadline != (scenario.DeadlineRule{Multiplier: [2]float64{1, 5}}) ||
		!reflect.DeepEqual(s.Mix[0].Choices, choices(t, "mapreduce", "map_time=10s", "slots=true")) {
		t.Errorf("%+v, %+v, %+v, %+v", w, s.Release, s.Deadline, s.Mix[0])
	}
}

func TestClosedSystemsClassesOfPartsAndNormalDeadlinesAreRead(t *testing.T) {
	const text = `{"mix": [{"generator": "pi", "tasks": 3, "class": "deadline"}, {"trace": "x.dax", "disk": "20MB/s", "class": "low"}], "count": 9,
		"arrivals": {"process": "closed", "population": 40}, "deadlines": {"normal": 2.5}}`
	readertest.Validate(t, readertest.Schema(t, "schema/workload.schema.json"), []byte(text))
	w, err := scenario.ReadWorkload(strings.NewReader(text), "w.yaml")
	must(t, err)
	s := w.Stream
	if s.Arrivals.Process != "closed" || s.Arrivals.Population != 40 || s.Mix[0].Class != "deadline" ||
		s.Mix[1].Class != "low" || s.Mix[1].Disk != 20e6 ||
		*s.Deadline != (scenario.DeadlineRule{Normal: 2.5}) {
		t.Errorf("%+v, %+v", s, s.Deadline)
	}
}

func TestRatesAreArrivalsOverTime(t *testing.T) {
	for text, perHour := range map[string]float64{"98/h": 98, "0.5/s": 1800, "1/22s": 3600.0 / 22, "3 / min": 180,
		"2/1h30m": 4.0 / 3} {
		w, err := scenario.ReadWorkload(strings.NewReader("mix: [{trace: x}]\ncount: 1\narrivals: {process: "+
			"poisson, rate: "+text+"}"), "w.yaml")
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := w.Stream.Arrivals.PerHour; math.Abs(got-perHour) > 1e-9*perHour {
			t.Errorf("%s is %v an hour, want %v", text, got, perHour)
		}
	}
}

func TestStreamsThatCannotBeAreRefused(t *testing.T) {
	const mix = "count: 5\nmix: [{trace: x}]\n"
	for text, says := range map[string]string{
		"count: 5\nmix:\n- {generater: montage}":         `line 3: a part of the mix: unknown key "generater"; did you mean generator?`,
		mix + "arivals: {process: batch}":                `line 3: the workload: unknown key "arivals"; did you mean arrivals?`,
		mix + "arrivals:\n  proces: batch":               `line 4: arrivals: unknown key "proces"; did you mean process?`,
		mix + "total_runtime: {distribution: normal}":    `line 3: total_runtime: distribution is "normal"`,
		mix + "total_runtime: {distribution: lognormal}": "needs a mean",
		mix + "total_runtime: {distribution: constant, mean: 1h, variation: 2}": "variation is for " +
			"lognormal",
		mix + "total_runtime: {distribution: as-generated, stages: [{shape: 1, scale: 1}]}": "stages are for " +
			"hyper-gamma",
		mix + "arrivals: {process: poisson}":                              "either a rate",
		mix + "arrivals: {process: poisson, rate: 1/h, utilisation: 0.5}": "either a rate",
		mix + "arrivals: {process: poisson, rate: 98}":                    "arrivals per time",
		mix + "arrivals: {process: poisson, rate: -1/h}":                  "arrivals per time",
		mix + "arrivals: {process: poisson, utilisation: 0}":              "above 0",
		mix + "arrivals: {process: fixed}":                                "needs an interval",
		mix + "arrivals: {process: batch, interval: 1s}": "interval is not for " +
			"process batch",
		mix + "arrivals: {process: weibull}": `process is "weibull"`,
		mix + "arrivals:\n  rate: 1/h\n  process: Poison": "line 5: arrivals: " +
			"process is \"Poison\", but has to be poisson, poisson-intervals, fixed, batch, closed or trace; did " +
			"you mean poisson?",
		mix + "arrivals:\n  process: fixed\n  interval: 1s\n  rate: 1/h": "line 6: arrivals: " +
			"rate is not for process fixed",
		mix + "arrivals: {rate: 1/h}": "say which process: " +
			"poisson",
		mix + "total_runtime:\n  mean: 1h\n  distribution: log-normal": "line 5: total_runtime: distribution is " +
			"\"log-normal\", but has to be hyper-gamma, lognormal, constant or as-generated; did you mean lognormal?",
		mix + "total_runtime: {mean: 1h}":                          "say which distribution",
		mix + "class: low":                                         `unknown key "class"; did you mean classes?`,
		"count: 5\nmix: [{trace: x, class: regulr}]":               `class is "regulr", but has to be deadline, regular or low; did you mean regular?`,
		"count: 5\nmixx: [{trace: x}]":                             `line 2: the workload: unknown key "mixx"; did you mean mix?`,
		"workflow: [{trace: x}]":                                   `line 1: the workload: unknown key "workflow"; did you mean workflows?`,
		"count: 5\nmix: [{generator: rndom, tasks: 30, fat: 0.5}]": `fat is for generator random, and this one is "rndom"`,
		mix + "arrivals: {process: trace, times: none.csv}": "line 3: arrivals: " +
			"times none.csv: there is no such file",
		"count: 5\nmix: [{generator: montage}]": "how large are the " +
			"workflows of generator montage",
		"count: 5\nmix: [{generator: montage, tasks: 30, sizes: [{tasks: 5}]}]": "exclude each other",
		"count: 5\nmix: [{generator: montage, tasks: 38..30}]":                  "a range such as 30..38",
		"count: 5\nmix: [{generator: montage, sizes: [{tasks: 31, even: true}]}]": "no even size from 31 " +
			"to 31",
		"count: 5\nmix: [{generator: montage, tasks: 30, fat: 0.5}]": "fat is for generator " +
			"random",
		"count: 5\nmix: [{generator: random, tasks: 30, fat: [0.5, 2]}]": "from 0 to 1",
		"count: 5\nmix: [{generator: montage, trace: x}]": "either a generator or " +
			"a trace",
		"count: 5\nmix: [{trace: x, tasks: 3}]":    "a trace has its own size",
		"count: 5\nmix: [{trace: x, fraction: 0}]": "sum to more than 0",
		"count: 5\nmix: []":                        "mix is empty",
		"mix: [{trace: x}]":                        "a mix without count",
		"workflows: [{trace: x}]\ncount: 5": "line 2: count is of a " +
			"stream",
		mix + "seed: 0":        "seed is",
		mix + "repetitions: 0": "repetitions is",
		mix + "warm_up: 3\ncool_down: 2": "leave nothing of 5 " +
			"workflows",
		mix + "tenants: [{fraction: 1}]":                  "a tenant without a name",
		mix + "classes: {deadline: 1}":                    "need a deadline",
		mix + "classes: {low: 0}":                         "a fraction above 0",
		mix + "classes: {low: 1}\ndeadlines: {factor: 2}": "gives it no fraction",
		mix + "deadlines: {factor: 2, after: 1h}":         "either factor",
		mix + "deadlines: {factor: 4..2}":                 "ends before it begins",
		mix + "deadlines: {after: 0s}": "after has to be a " +
			"duration",
		mix + "deadlines: {multiplier: 5..1}": "multiplier: the range " +
			"ends before it begins",
		mix + "deadlines: {multiplier: 5, factor: 2}": "either factor",
		mix + "releases: {probability: 0.5}": "how long after their " +
			"arrival",
		mix + "releases: {probability: 2, after: 1s}": "probability",
		mix + "releases: {after: 0s}": "after has to be a " +
			"duration",
		mix + "warm_up: soon": "a number of workflows " +
			"from 0",
		"workflows: [{trace: x}]\nreleases: {after: 1s}": "line 2: releases is " +
			"of a stream",
		"count: 5\nmix: [{generator: montage, tasks: 30, map_time: 5s}]": "map_time is for " +
			"generator mapreduce",
		mix + "arrivals: {process: closed}": "closed needs a " +
			"population",
		mix + "arrivals: {process: closed, population: 0}": "population is",
		mix + "arrivals: {process: batch, population: 5}": "population is not for " +
			"process batch",
		mix + "deadlines: {normal: 0}":                            "normal is",
		mix + "deadlines: {normal: 2, factor: 2}":                 "either factor",
		"count: 5\nmix: [{trace: x, class: urgent}]":              `class is "urgent"`,
		"count: 5\nmix: [{trace: x, class: deadline}]":            "need a deadline",
		"count: 5\nmix: [{trace: x, disk: 5MB}]\nfiles: maybe":    "true, false, yes or no",
		"count: 5\nmix: [{generator: pi, tasks: 3, disk: 5MB/s}]": "disk are for traces",
		mix + "files: perhaps":                                    "true, false, yes or no",
	} {
		_, err := scenario.ReadWorkload(strings.NewReader(text), "w.yaml")
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", text, err, says)
		}
	}
}

func TestArrivalTimesAreReadFromAFile(t *testing.T) {
	dir := t.TempDir()
	read := func(times, options string) (*scenario.Workload, error) {
		must(t, os.WriteFile(filepath.Join(dir, "times"), []byte(times), 0o644))
		return scenario.ReadWorkload(strings.NewReader("mix: [{trace: x}]\ncount: 2\narrivals: {process: trace, "+
			"times: times"+options+"}"), filepath.Join(dir, "w.yaml"))
	}
	want := []time.Duration{0, 1500 * time.Millisecond, time.Minute}
	for _, c := range [][2]string{{"0\n1.5\n1m\n", ""}, {"arrive\n0\n# later\n1.5\n\n60", ""},
		{"; SWF\n 1 0 7\n 2 1.5 7\n 3 60 7\n", ", column: 2"},
		{"job,submit\n1,0\n2,1.5s\n3,60\n", ", column: 2"}} {
		w, err := read(c[0], c[1])
		if err != nil {
			t.Errorf("%q: %v", c[0], err)
		} else if !reflect.DeepEqual(w.Stream.Arrivals.Times, want) {
			t.Errorf("%q: %v", c[0], w.Stream.Arrivals.Times)
		}
	}
	for _, c := range [][3]string{{"0\n", "", "too few recorded arrival times: 1, and count is 2"},
		{"1,2\n", "", "line 1 has 2 fields"}, {"0\n-1\n", "", "line 2"},
		{"a\nb\n", "", "line 2"}, {"0\n1\n", ", column: 2", "line 1 has no column 2"}} {
		if _, err := read(c[0], c[1]); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%q: %v; want %q", c[0], err, c[2])
		}
	}
}

// Every example is what its schema says, and is read.
func TestExamplesFitTheirSchemas(t *testing.T) {
	read := map[string]func(text []byte, path string) error{
		"workload": func(text []byte, path string) error {
			_, err := scenario.ReadWorkload(bytes.NewReader(text), path)
			return err
		},
		"cluster": func(text []byte, path string) error {
			_, err := scenario.ReadCluster(bytes.NewReader(text), path)
			return err
		},
		"experiment": func(text []byte, path string) error {
			_, err := scenario.ReadExperiment(bytes.NewReader(text), path, false, "")
			return err
		},
	}
	seen := map[string]int{}
	for _, dir := range []string{"../../examples/*/*.yaml", "../../examples/*/*/*.yaml"} {
		paths, err := filepath.Glob(dir)
		must(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			must(t, err)
			var doc map[string]any
			must(t, yaml.Unmarshal(text, &doc))
			kind := "workload"
			if doc["paper"] != nil || doc["papers"] != nil {
				t.Skip("a study of a paper, or a list of them: package study tests it")
			}
			if doc["nodes"] != nil {
				kind = "cluster"
			} else if doc["factors"] != nil {
				kind = "experiment"
			}
			seen[kind]++
			if err := read[kind](text, path); err != nil {
				t.Error(err)
			}
			b, err := json.Marshal(doc)
			must(t, err)
			t.Run(strings.TrimPrefix(path, "../../examples/"),
				func(t *testing.T) { readertest.Validate(t, readertest.Schema(t, "schema/"+kind+".schema.json"), b) })
		}
	}
	if seen["workload"] < 15 || seen["cluster"] < 15 || seen["experiment"] < 30 {
		t.Errorf("only %v", seen)
	}
}

// What the reader takes, the schema takes; of what it refuses, the schema refuses what a schema can tell.
func TestSchemaOfWorkloadsAgreesWithTheReader(t *testing.T) {
	s := readertest.Schema(t, "schema/workload.schema.json")
	text := func(doc string) []byte {
		var v any
		must(t, yaml.Unmarshal([]byte(doc), &v))
		b, err := json.Marshal(v)
		must(t, err)
		return b
	}
	const mixed = "count: 5\nmix: [{trace: x}]\n"
	good := []string{day, "results: ['*.vcf', d/x]\nworkflows: [{trace: x, results: ['**/*.bam']}]",
		mixed + "results: []", mixed + "deadlines: {factor: 2}", mixed + "deadlines: {after: 1h .. 2h30m}", mixed +
			"releases: {after: 10s}", mixed + "deadlines: {multiplier: 1.5 ..2}",
		mixed + "data: {block: 64MiB}", mixed + "data: {block: 4096}", mixed + "preempt: {checkpoint: 1.5 GB}", mixed +
			"preempt: {checkpoint: none}",
		"count: 5\nmix: [{trace: x, disk: 20 MB/s}]", "mix: [{trace: x}]\ncount: 2\narrivals: {process: fixed, " +
			"interval: 10s}\nworkflows: [{trace: y}]"}
	for _, doc := range good {
		readertest.Validate(t, s, text(doc))
		if _, err := scenario.ReadWorkload(strings.NewReader(doc), "w.yaml"); err != nil {
			t.Error(err)
		}
	}
	for _, doc := range []string{mixed + "results: ['']", mixed + "results: x",
		"workflows: [{trace: x, results: {a: b}}]",
		mixed + "deadlines: {factor: soon}", mixed + "releases: {after: 5}", mixed +
			"data: {block: large}", mixed + "preempt: {checkpoint: 5 apples}",
		"count: 5\nmix: [{trace: x, disk: 20 MB an hour}]", "mix: [{trace: x}]", "count: 5",
		"mix: [{trace: x, tasks: 3}]\ncount: 5", "mix: [{trace: x}]\ncount: 5\narivals: {process: batch}",
		"mix: [{trace: x}]\ncount: 5\narrivals: {process: batch, rate: 1/h}",
		"mix: [{trace: x}]\ncount: 5\ntotal_runtime: {distribution: lognormal, mean: 1h}",
		"mix: [{generator: montage, tasks: 3, sizes: [{tasks: 3}]}]\ncount: 5"} {
		var v any
		must(t, json.Unmarshal(text(doc), &v))
		if s.Validate(v) == nil {
			t.Errorf("the schema takes %q", doc)
		}
		if _, err := scenario.ReadWorkload(strings.NewReader(doc), "w.yaml"); err == nil {
			t.Errorf("the reader takes %q", doc)
		}
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// yes and no mean true and false, as in YAML 1.1.
func TestYesIsTrue(t *testing.T) {
	for text, want := range map[string]bool{"yes": true, "true": true, "no": false, "false": false} {
		w, err := scenario.ReadWorkload(strings.NewReader("count: 5\nmix: [{generator: montage}]\n"+
			"sizes: [{fraction: 1, tasks: 20}]\nfiles: "+text+
			"\narrivals: {process: poisson, interval: 1s, exact: "+text+"}"), "w.yaml")
		if err != nil || w.Stream.Arrivals.Exact != want {
			t.Errorf("exact: %s: %v", text, err)
		}
		c, err := scenario.ReadCluster(strings.NewReader("nodes: [{name: n}]\nlinks: [{shared: "+text+"}]"), "c.yaml")
		if err != nil || c.Links[0].Shared != want {
			t.Errorf("shared: %s: %v", text, err)
		}
	}
}
