package load_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/experiment/load"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace/scenario"
)

func parse(t *testing.T, text string) *scenario.Workload {
	t.Helper()
	w, err := scenario.ReadWorkload(strings.NewReader(text), "w.yaml")
	must(t, err)
	return w
}

func submissions(t *testing.T, w *scenario.Workload, p *planner.Platform, repetition int) []executor.Submission {
	t.Helper()
	subs, err := load.Submissions(w, p, repetition)
	must(t, err)
	return subs
}

// montage is the example's trace: 25 tasks.
const montage = "../../../examples/montage/montage-25.dax"

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// Equal seeds place alike; workflows and repetitions differ, and a workflow may say otherwise than its workload.
func TestPlacementOfDataIsDrawnBySeed(t *testing.T) {
	path, err := filepath.Abs(montage)
	must(t, err)
	w := parse(t, "data: {block: 1MB}\nworkflows:\n  - {trace: "+path+"}\n  - {trace: "+path+", data: {placement: "+
		"everywhere}}\n"+
		"  - {trace: "+path+", data: {placement: random, replicas: 1}}\nseed: 7\ncount: 2\nmix: [{generator: "+
		"montage}]\ntasks: 25\nrepetitions: 2\n")
	data := func(repetition int) (out []*executor.Placement) {
		for _, s := range submissions(t, w, processors(3), repetition) {
			out = append(out, s.Data)
		}
		return out
	}
	first := data(0)
	if !reflect.DeepEqual(first, data(0)) || reflect.DeepEqual(first, data(1)) {
		t.Error("placement is not a function of seed and repetition")
	}
	if len(first) != 5 || first[1] != nil || first[0].Rule != executor.HDFS || first[0].Block != 1e6 ||
		first[0].Replicas != 3 ||
		first[2].Rule != executor.Random || first[2].Replicas != 1 || first[4].Rule != executor.HDFS ||
		first[4].Block != 1e6 {
		t.Errorf("%+v", first)
	}
	seeds := map[uint64]bool{}
	for _, p := range first {
		if p != nil {
			seeds[p.Seed] = true
		}
	}
	if len(seeds) != 4 {
		t.Errorf("%d different seeds of four workflows", len(seeds))
	}
}

func TestUtilisationIsImposedByTheMeanWorkAndTheSpeedsOfTheNodes(t *testing.T) {
	heterogeneous := processors(4)
	for i := range heterogeneous.Nodes {
		heterogeneous.Nodes[i].Speed = []float64{1.5, 0.5}[i%2]
		heterogeneous.Nodes[i].Capacity[unit.CPU] = 2000
	}
	if got := load.Speeds(heterogeneous); got != 8 { // 2 cores x (1.5 + 0.5) x 2
		t.Fatalf("speeds sum to %v, want 8", got)
	}
	// Two cores for 100 s and one for 50 s: 250 core-seconds in 150 s of runtime.
	wide := file(t, "wide.json", `{"name": "wide", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": [
		{"name": "a", "id": "a", "parents": [], "children": []}, {"name": "b", "id": "b", "parents": [], "children": []}]},
		"execution": {"makespanInSeconds": 100, "executedAt": "2024-01-01T00:00:00Z", "tasks": [
		{"id": "a", "runtimeInSeconds": 100, "coreCount": 2}, {"id": "b", "runtimeInSeconds": 50, "coreCount": 1}]}}}`)
	for _, c := range []struct {
		name, text string
		platform   *planner.Platform
		perHour    float64
	}{
		{"a constant total", "mix: [{generator: montage, tasks: 20}]\ntotal_runtime: {distribution: constant, mean: " +
			"1h}", processors(100), 98},
		{"nodes of different speeds", "mix: [{generator: montage, tasks: 20}]\ntotal_runtime: {distribution: " +
			"constant, mean: 30m}", heterogeneous, 0.98 * 8 / 0.5},
		{"a distribution's mean, not the sample's", "mix: [{generator: montage, tasks: 20}]\ntotal_runtime: " +
			"{distribution: hyper-gamma, mean: 2h}", processors(100), 49},
		{"as generated, brought to a mean", "mix: [{generator: random, tasks: 20}]\ntotal_runtime: {distribution: " +
			"as-generated, mean: 2h}", processors(100), 49},
		{"as the trace has it, in core-seconds", "mix: [{trace: " + wide + "}]", processors(100),
			0.98 * 100 / (250.0 / 3600)},
		{"scaled, in core-seconds", "mix: [{trace: " + wide + "}]\ntotal_runtime: {distribution: constant, mean: 1h}",
			processors(100), 0.98 * 100 * 150 / 250},
	} {
		t.Run(c.name, func(t *testing.T) {
			imposed := submissions(t, parse(t, c.text+"\ncount: 200\nseed: 3\narrivals: {process: poisson, "+
				"utilisation: 0.98}"), c.platform, 0)
			rated := submissions(t, parse(t, c.text+fmt.Sprintf("\ncount: 200\nseed: 3\narrivals: {process: "+
				"poisson, rate: %v/h}", c.perHour)), c.platform, 0)
			for i := range imposed {
				if d := math.Abs(float64(imposed[i].At - rated[i].At)); d > 1e-8*float64(rated[i].At)+2 {
					t.Fatalf("workflow %d arrives at %v; at %v an hour it would at %v", i, imposed[i].At, c.perHour,
						rated[i].At)
				}
			}
		})
	}
}

// The work that was drawn, over what the nodes do until the last arrival, is the utilisation that is named.
func TestExactArrivalsImposeTheUtilisationOnEachSet(t *testing.T) {
	for _, total := range []string{"", "\ntotal_runtime: {distribution: lognormal, mean: 1h, variation: 2}"} {
		w := parse(t, "mix: [{generator: montage}]\nsizes: [{fraction: 1, tasks: 30..60}]\nfiles: false\ncount: 50\n"+
			"seed: 3\narrivals: {process: poisson, utilisation: 0.9, exact: true}"+total)
		for repetition := range 3 {
			work := time.Duration(0)
			subs := submissions(t, w, processors(100), repetition)
			for i := range subs {
				work += load.Work(subs[i].Workflow)
			}
			if u := work.Seconds() / subs[49].At.Seconds() / 100; u < 0.89999 || u > 0.90001 {
				t.Errorf("repetition %d imposes %v, want 0.9", repetition, u)
			}
		}
	}
}

func TestThePapersWorkloadsAreAsItSays(t *testing.T) {
	for name, kinds := range map[string][]string{"workload-1": {"montage", "inspiral", "sipht"},
		"workload-2": {"random"}} {
		t.Run(name, func(t *testing.T) {
			w := open(t, "../../../examples/experiments/"+name+".yaml")
			subs := submissions(t, w, processors(100), 0)
			if len(subs) != 3000 || w.WarmUp != 1000 || w.CoolDown != 1000 {
				t.Fatalf("%d workflows, %d and %d left out", len(subs), w.WarmUp, w.CoolDown)
			}
			of, tasks, classes := map[string]int{}, 0, [3]int{}
			var work, last time.Duration
			for i := range subs {
				s := &subs[i]
				kind, _, _ := strings.Cut(s.Name, "_")
				of[kind]++
				n := len(s.Workflow.Tasks)
				tasks += n
				switch { // SIPHT has slightly fewer tasks than asked for
				case n <= 38:
					classes[0]++
				case n <= 198:
					classes[1]++
				default:
					classes[2]++
				}
				work += load.Work(s.Workflow)
				last = time.Duration(s.At)
				if len(s.Workflow.Files) > 0 {
					t.Fatalf("%s has files", s.Name)
				}
			}
			for _, k := range kinds {
				if of[k] != 3000/len(kinds) {
					t.Errorf("%d of %s", of[k], k)
				}
			}
			// Classes overlap by what SIPHT leaves out, so they are counted with a margin.
			for i, want := range [3]int{2250, 600, 150} {
				if d := classes[i] - want; d < -30 || d > 30 {
					t.Errorf("%d workflows of size class %d, want about %d", classes[i], i, want)
				}
			}
			if mean := float64(tasks) / 3000; mean < 66 || mean > 72 {
				t.Errorf("%v tasks a workflow, want about 69", mean)
			}
			if mean := (work / 3000).Hours(); mean < 0.96 || mean > 1.04 {
				t.Errorf("%v h a workflow, want about 1", mean)
			}
			if rate := 3000 / last.Hours(); rate < 92 || rate > 104 {
				t.Errorf("%v workflows an hour, want about 98", rate)
			}
		})
	}
}

const mixed = `seed: 5
repetitions: 2
count: 60
mix: [{generator: montage, fraction: 2}, {generator: sipht, tasks: 40}, {trace: ` + montage + `}]
sizes: [{fraction: 3, tasks: 20..30}, {tasks: 50}]
arrivals: {process: poisson, rate: 60/h}
tenants: [{name: a, fraction: 3}, {name: b}]
classes: {deadline: 1, regular: 2, low: 1}
deadlines: {factor: 2..3}
`

func TestStreamIsAFunctionOfItsFileAndRepetition(t *testing.T) {
	a, b := submissions(t, parse(t, mixed), processors(4), 0), submissions(t, parse(t, mixed), processors(4), 0)
	if !reflect.DeepEqual(a, b) {
		t.Error("two draws of one stream differ")
	}
	c := submissions(t, parse(t, mixed), processors(4), 1)
	same := 0
	for i := range a {
		if a[i].At == c[i].At {
			same++
		}
	}
	if same > 0 {
		t.Errorf("%d of %d arrivals are those of another repetition", same, len(a))
	}
	if d := submissions(t, parse(t, strings.Replace(mixed, "seed: 5", "seed: 6", 1)), processors(4),
		0); reflect.DeepEqual(a, d) {
		t.Error("another seed draws the same")
	}
}

func TestMixTenantsClassesAndSizesAreAsAsked(t *testing.T) {
	subs := submissions(t, parse(t, mixed), processors(4), 0)
	kinds, tenants, classes, names := map[string]int{}, map[string]int{}, map[planner.Class]int{}, map[string]bool{}
	for i := range subs {
		s := &subs[i]
		kind, _, _ := strings.Cut(strings.ToLower(s.Workflow.Name), "_")
		kinds[kind]++
		tenants[s.Tenant]++
		classes[s.Class]++
		names[s.Name] = true
		if n := len(s.Workflow.Tasks); kind == "sipht" && n != 39 && n != 38 && n != 40 ||
			strings.HasPrefix(s.Name, "montage_") && (n < 20 || n > 30 && n != 50) {
			t.Errorf("%s has %d tasks", s.Name, n)
		}
		path := s.Workflow.Stats().CriticalPathSeconds
		factor := (s.Due - s.At).Seconds() / path
		if (s.Class == planner.Deadline) != (s.Due != 0) || s.Due != 0 && (factor < 2-1e-6 || factor > 3+1e-6) {
			t.Errorf("%s of class %v is due %v after its arrival, %v times its critical path", s.Name, s.Class,
				s.Due-s.At, factor)
		}
		if i > 0 && s.At < subs[i-1].At {
			t.Errorf("%s arrives before the one before it", s.Name)
		}
	}
	if kinds["sipht"] != 15 || len(names) != 60 {
		t.Errorf("%v, %d names", kinds, len(names))
	}
	if tenants["a"] < 35 || tenants["a"]+tenants["b"] != 60 || tenants["b"] == 0 {
		t.Errorf("tenants %v", tenants)
	}
	for _, c := range []planner.Class{planner.Deadline, planner.Regular, planner.Low} {
		if classes[c] < 5 {
			t.Errorf("classes %v", classes)
		}
	}
}

// Common random numbers: what is changed leaves the draws of everything else as they were.
func TestChangingOneChoiceLeavesTheOthers(t *testing.T) {
	base := submissions(t, parse(t, mixed), processors(4), 0)
	for name, edit := range map[string][2]string{
		"rate":      {"rate: 60/h", "rate: 30/h"},
		"total":     {"seed: 5", "seed: 5\ntotal_runtime: {distribution: lognormal, mean: 1h, variation: 1}"},
		"tenants":   {"tenants: [{name: a, fraction: 3}, {name: b}]\n", ""},
		"deadlines": {"factor: 2..3", "after: 1h"},
		"files":     {"seed: 5", "seed: 5\nfiles: false"},
	} {
		other := submissions(t, parse(t, strings.Replace(mixed, edit[0], edit[1], 1)), processors(4), 0)
		changed := false
		for i := range base {
			a, b := &base[i], &other[i]
			changed = changed || !reflect.DeepEqual(a, b)
			if a.Name != b.Name || a.Class != b.Class || len(a.Workflow.Tasks) != len(b.Workflow.Tasks) ||
				a.Workflow.Tasks[0].ID != b.Workflow.Tasks[0].ID ||
				name != "rate" && a.At != b.At || name != "tenants" && a.Tenant != b.Tenant ||
				name != "total" && a.Workflow.Tasks[0].Runtime != b.Workflow.Tasks[0].Runtime {
				t.Fatalf("%s: workflow %d is %s, was %s, or differs in what was not changed", name, i, b.Name, a.Name)
			}
			if name == "rate" && b.At != 2*a.At && max(b.At-2*a.At, 2*a.At-b.At) > 2 {
				t.Fatalf("half the rate: workflow %d arrives at %v, was %v", i, b.At, a.At)
			}
		}
		if !changed {
			t.Errorf("%s: nothing changed", name)
		}
	}
}

func TestCountTakesTheFirstToArrive(t *testing.T) {
	text := mixed + "workflows: [{trace: " + montage + ", name: listed, arrive: 1ns}, {trace: " + montage +
		", arrive: 1000h}]\n"
	all := submissions(t, parse(t, text), processors(4), 0)
	l := &load.Loader{Platform: processors(4), Count: 7}
	subs, err := l.Workload(parse(t, text), 0)
	must(t, err)
	first := l.Order(subs)
	for i := range first {
		must(t, first[i].Make())
	}
	if len(all) != 62 || !reflect.DeepEqual(first, all[:7]) || first[0].Name != "listed" {
		t.Errorf("%d of %d; the first is %s", len(first), len(all), first[0].Name)
	}
}

// Workflows of a stream are drawn when they are needed, and each time the same.
func TestWorkflowsAreDrawnLate(t *testing.T) {
	w := parse(t, mixed+"workflows: [{trace: "+montage+", name: listed}]\n")
	ahead := map[string]executor.Submission{}
	for _, s := range submissions(t, w, processors(4), 0) {
		ahead[s.Name] = s
	}
	l := &load.Loader{Platform: processors(4)}
	subs, err := l.Workload(w, 0)
	must(t, err)
	late := 0
	for _, s := range l.Order(subs) {
		for range 2 {
			drawn := s
			if drawn.Workflow == nil {
				late++
			}
			must(t, drawn.Make())
			if !reflect.DeepEqual(drawn, ahead[s.Name]) {
				t.Errorf("%s is not what it was ahead", s.Name)
			}
		}
	}
	if late != 2*60 || len(ahead) != 61 {
		t.Errorf("%d of %d are drawn late", late/2, len(ahead))
	}
}

func TestTimesOfAStreamAreScaledWithItsRuntimes(t *testing.T) {
	const listed = "workflows: [{trace: " + montage + ", arrive: 100s, release: 200s, deadline: 300s}]\n"
	for text, want := range map[string][3]planner.Time{
		listed:                         {100e9, 200e9, 300e9},
		listed + "scale_times: true\n": {10e9, 20e9, 30e9},
		"count: 2\nmix: [{trace: " + montage + "}]\narrivals: {process: fixed, interval: 100s}\ndeadlines: {after: " +
			"1000s}\n": {10e9, 0, 110e9},
		"count: 2\nmix: [{trace: " + montage + "}]\narrivals: {process: fixed, interval: 100s}\ndeadlines: {after: " +
			"1000s}\nscale_times: false\n": {100e9, 0, 1100e9},
	} {
		l := &load.Loader{Platform: processors(4), TimeScale: 0.1}
		subs, err := l.Workload(parse(t, text), 0)
		must(t, err)
		s := subs[len(subs)-1]
		if got := [3]planner.Time{s.At, s.Release, s.Due}; got != want {
			t.Errorf("%s: arrives, is released and due at %v, want %v", text, got, want)
		}
	}
}

func TestStreamsFromFilesOfArrivalsAndDirectoriesOfTraces(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.dax", "b.dax"} {
		text, err := os.ReadFile(montage)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	times := file(t, "times.csv", "30\n10\n20\n0.5\n")
	w := parse(t, "count: 4\nmix: [{trace: "+dir+"}]\ntotal_runtime: {distribution: constant, mean: "+
		"100s}\narrivals: {process: trace, times: "+times+"}")
	of := map[string]int{}
	for i, s := range submissions(t, w, processors(1), 0) {
		of[s.Workflow.Label]++
		if want := []planner.Time{5e8, 10e9, 20e9, 30e9}[i]; s.At != want {
			t.Errorf("workflow %d arrives at %v, want %v", i, s.At, want)
		}
		if got := load.Work(s.Workflow); got != 100*time.Second {
			t.Errorf("workflow %d works %v, want 100 s", i, got)
		}
	}
	if of["a"] != 2 || of["b"] != 2 {
		t.Errorf("%v", of)
	}
}

func TestLoadsThatCannotBeAreRefusedWithTheirLine(t *testing.T) {
	for text, says := range map[string]string{
		"count: 1\nmix:\n- {generator: montag, tasks: 30}":               `w.yaml:3: there is no generator "montag"; did you mean montage?`,
		"count: 1\nmix:\n- fraction: 2\n  generator: Ligoo\n  tasks: 30": `w.yaml:4: there is no generator "Ligoo"; did you mean ligo?`,
		"count: 1\nmix: [{generator: weibull, tasks: 30}]":               `there is no generator "weibull"; there are montage, cybershake`,
		"count: 1\nmix:\n- {generator: montage, tasks: 3}": "w.yaml:3: montage workflows of 3 " +
			"tasks cannot be made; they have at least 13",
		"count: 1\nmix:\n- {generator: inspiral, tasks: 8..80}": "w.yaml:3: tasks 8..80: inspiral " +
			"workflows of 8 tasks cannot be made; they have at least 10",
		"count: 1\nmix:\n- {trace: none.dax}":                               "w.yaml:3: ",
		"workflows:\n- {trace: none.dax}":                                   "w.yaml:2: ",
		"workflows:\n- {trace: " + montage + ", costs: {ID00000: {p: 1s}}}": "has no cost on node",
	} {
		_, err := load.Submissions(parse(t, text), processors(1), 0)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", text, err, says)
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
