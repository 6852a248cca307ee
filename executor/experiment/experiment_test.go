package experiment_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"gantry/executor/experiment"
	"gantry/trace/scenario"
)

const workload = `name: w
count: 30
seed: 3
mix: [{generator: montage}, {generator: sipht}]
tasks: 30..60
files: false
total_runtime: {distribution: constant, mean: 1h}
arrivals: {process: poisson, utilisation: 0.9}
warm_up: 5
cool_down: 5
`

// read writes the files of an experiment into a new directory and reads it.
func read(t *testing.T, text string) *scenario.Experiment {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"w.yaml": workload, "c.yaml": "nodes: [{name: n, count: 10}]\n",
		"needs.yaml": "nodes: [{name: n, cores: 4}]\nresources: {licence: 1}\n",
		"list.yaml":  "name: l\nworkflows: [{trace: t.json, arrive: 0s}]\n", "t.json": needy,
		"fast.yaml": "nodes: [{name: n, count: 5, speed: 1.5}, {name: m, count: 5, speed: 0.5}]\n", "x.yaml": text} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	x, err := scenario.ReadExperiment(strings.NewReader(text), filepath.Join(dir, "x.yaml"), false, "")
	must(t, err)
	return x
}

// memory is a store that forgets with the test.
type memory struct {
	planned []string
	kept    map[string]*experiment.Outcome
	found   map[string]string
	after   int // cancel after this many outcomes; 0: never
	cancel  context.CancelFunc
}

func (m *memory) Plan(_ context.Context, cells []*experiment.Cell) error {
	for _, c := range cells {
		m.planned = append(m.planned, c.Key())
	}
	return nil
}

func (m *memory) Kept(_ context.Context, c *experiment.Cell, rep int) (*experiment.Outcome, error) {
	return m.kept[fmt.Sprint(c.Key(), rep)], nil
}

func (m *memory) Keep(_ context.Context, o *experiment.Outcome) error {
	if m.kept == nil {
		m.kept = map[string]*experiment.Outcome{}
	}
	m.kept[fmt.Sprint(o.Cell.Key(), o.Repetition)] = o
	if m.after > 0 && len(m.kept) == m.after {
		m.cancel()
	}
	return nil
}

func (m *memory) Found(_ context.Context, group []experiment.Param, parameter, value string) error {
	if m.found == nil {
		m.found = map[string]string{}
	}
	m.found[fmt.Sprint(group)] = value
	return nil
}

func run(t *testing.T, text string, jobs int) *memory {
	t.Helper()
	m := &memory{}
	r := experiment.Runner{File: read(t, text), Store: m, Jobs: jobs}
	must(t, r.Run(t.Context()))
	return m
}

// results are the values of all runs, by their parameters.
func (m *memory) results() map[string]map[string]float64 {
	out := map[string]map[string]float64{}
	for _, o := range m.kept {
		values := map[string]float64{}
		for _, v := range o.Values {
			if !math.IsNaN(v.Value) {
				values[v.Name] = v.Value
			}
		}
		out[fmt.Sprint(o.Cell, " ", o.Repetition)] = values
	}
	return out
}

const small = `workload: w.yaml
cluster: c.yaml
repetitions: 2
factors:
  policy: [cpp, fdws]
  errors: [none, "random2:2"]
  utilisation: [0.7, 0.9]
`

// smallRun is what others are compared with, and the reports of its progress.
func smallRun(t *testing.T) (*memory, []experiment.Progress) {
	t.Helper()
	once.Do(func() {
		file, store := read(t, small), &memory{}
		r := experiment.Runner{File: file, Store: store, Jobs: 7,
			Report: func(p experiment.Progress) { once.reports = append(once.reports, p) }}
		must(t, r.Run(t.Context()))
		once.memory = store
	})
	if once.memory == nil {
		t.Fatal("the small experiment failed")
	}
	return once.memory, once.reports
}

var once struct {
	sync.Once
	memory  *memory
	reports []experiment.Progress
}

func TestResultsDoNotDependOnTheNumberOfJobs(t *testing.T) {
	one := run(t, small, 1)
	many, _ := smallRun(t)
	if len(one.kept) != 16 {
		t.Fatalf("%d runs, want 16", len(one.kept))
	}
	if !reflect.DeepEqual(one.results(), many.results()) {
		t.Error("one job and seven give different results")
	}
	if !reflect.DeepEqual(one.planned, many.planned) {
		t.Error("cells are planned in another order")
	}
}

func TestAnInterruptedExperimentGoesOn(t *testing.T) {
	x := read(t, small)
	ctx, cancel := context.WithCancel(t.Context())
	m := &memory{after: 5, cancel: cancel}
	err := (&experiment.Runner{File: x, Store: m, Jobs: 2}).Run(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	had := len(m.kept)
	if had < 5 || had > 7 {
		t.Fatalf("%d runs were kept", had)
	}
	m.after = 0
	var last experiment.Progress
	must(t, (&experiment.Runner{File: x, Store: m, Jobs: 2,
		Report: func(p experiment.Progress) { last = p }}).Run(t.Context()))
	if last.Done != 16 || last.Kept != had || last.Runs != 16 {
		t.Errorf("went on: %+v", last)
	}
	if whole, _ := smallRun(t); !reflect.DeepEqual(m.results(), whole.results()) {
		t.Error("the interruption shows in the results")
	}
}

// With common draws a factor that all estimates share cannot change an order, and these policies decide by order alone:
// see TestErrorFactorsChangeNothingOnAHomogeneousPlatform of the engine for the others.
func TestErrorFactorsDoNotMatterToPoliciesThatDecideByOrder(t *testing.T) {
	got := run(t, `workload: w.yaml
cluster: c.yaml
factors:
  policy: [gbf, fdws]
  errors: [none, "static:10", "random1:0.1", "random1:10", "random2:0.1", "random2:10"]
`, 2).results()
	same := func(policy, a, b string) {
		t.Helper()
		key := func(e string) string {
			return "cluster=c.yaml errors=" + e + " policy=" + policy + " workload=w.yaml 0"
		}
		if got[key(a)] == nil || !reflect.DeepEqual(got[key(a)], got[key(b)]) {
			t.Errorf("%s: errors %s and %s give different results:\n%v\n%v", policy, a, b, got[key(a)], got[key(b)])
		}
	}
	for _, policy := range []string{"gbf", "fdws"} {
		same(policy, "none", "static:10")
		same(policy, "random1:0.1", "random1:10")
		same(policy, "random2:0.1", "random2:10")
	}
	same("gbf", "none", "random2:10")
	differ := "cluster=c.yaml errors=random2:10 policy=fdws workload=w.yaml 0"
	if reflect.DeepEqual(got[differ], got["cluster=c.yaml errors=none policy=fdws workload=w.yaml 0"]) {
		t.Error("fdws does not notice random errors")
	}
}

// All cells of a repetition meet the same workflows; repetitions differ.
func TestCellsMeetTheSameLoad(t *testing.T) {
	m, _ := smallRun(t)
	got := m.results()
	const key = "cluster=c.yaml errors=none policy=%s utilisation=%v workload=w.yaml %d"
	work := func(policy string, rho float64, rep int) float64 {
		return got[fmt.Sprintf(key, policy, rho, rep)]["critical_path_mean"]
	}
	if a, b := work("cpp", 0.7, 0), work("fdws", 0.9, 0); a == 0 || a != b {
		t.Errorf("mean critical paths %v and %v: not the same workflows", a, b)
	}
	if work("cpp", 0.7, 0) == work("cpp", 0.7, 1) {
		t.Error("two repetitions have the same workflows")
	}
}

func TestASystemThatDivergesIsCutOff(t *testing.T) {
	m := run(t, `workload: w.yaml
cluster: c.yaml
limit: {in_system: 12}
factors: {policy: cpp, utilisation: [0.3, 9]}
`, 2)
	for _, o := range m.kept {
		want := map[string]experiment.State{"0.3": experiment.Done, "9": experiment.Diverged}[o.Cell.Get("utilisation")]
		if o.State != want {
			t.Errorf("%s is %s (%s), want %s", o.Cell, o.State, o.Message, want)
		}
		for _, v := range o.Values {
			if o.State == experiment.Diverged && (strings.HasPrefix(v.Name, "slowdown") ||
				strings.HasSuffix(v.Name, "_stable") && v.Value != 0) {
				t.Errorf("a run that was cut off has %s = %v", v.Name, v.Value)
			}
		}
	}
	for _, o := range run(t, "workload: w.yaml\ncluster: c.yaml\nlimit: {events: 100}\nfactors: {policy: cpp}\n",
		1).kept {
		if o.State != experiment.Diverged || !strings.Contains(o.Message, "100 events") {
			t.Errorf("more than 100 events: %s, %s", o.State, o.Message)
		}
	}
}

func TestABatchLargerThanTheLimitDoesNotDiverge(t *testing.T) {
	for _, o := range run(t, `workload: w.yaml
cluster: c.yaml
limit: {in_system: 12}
factors: {policy: cpp, "workload.arrivals": {process: batch}, workload.warm_up: 0, workload.cool_down: 0}
`, 1).kept {
		if o.State != experiment.Done {
			t.Errorf("a batch: %s, %s", o.State, o.Message)
		}
	}
}

// Searches are counted where a file asks, and decisions are the same.
const needy = `{"schemaVersion": "1.5", "workflow": {"tasks": [
	{"id": "a", "name": "a", "runtime": 5, "tokens": "licence"}, {"id": "b", "name": "b", "runtime": 5, "tokens": "licence"}]}}`

// A cluster file declares resources of which tasks hold some, in experiments too.
func TestExperimentsHaveTheResourcesOfTheirCluster(t *testing.T) {
	m := run(t, "workload: list.yaml\ncluster: needs.yaml\nfactors: {policy: fifo}\n", 1)
	for cell, values := range m.results() {
		if values["span"] != 10 {
			t.Errorf("%s: %v", cell, values)
		}
	}
	if len(m.kept) != 1 {
		t.Error(m.kept)
	}
}

func TestSearchesAreCountedWhereAFileAsks(t *testing.T) {
	const text = "workload: w.yaml\ncluster: c.yaml\nfactors: {policy: [fifo, cpp]}\n"
	plain, counted := run(t, text, 2).results(), run(t, text+"keep: [searches]\n", 2).results()
	for key, values := range counted {
		n, has := values["searched_mean"]
		if fifo := strings.Contains(key, "fifo"); has != fifo || fifo && n <= 0 {
			t.Errorf("%s: searched_mean is %v", key, n)
		}
		delete(values, "searched_mean")
	}
	if !reflect.DeepEqual(plain, counted) {
		t.Errorf("without counting\n%v, with\n%v", plain, counted)
	}
}

func TestAnyParameterCanBeAFactor(t *testing.T) {
	m := run(t, `workload: w.yaml
factors:
  cluster: [c.yaml, fast.yaml]
  policy: gbf
  policy.pick: random
  workload.count: [15, 25]
  workload.mix.0.generator: inspiral
  startup: [0s, 30s]
  estimator: [declared, "corrected:50", learned, oracle]
`, 2)
	if len(m.kept) != 32 {
		t.Fatalf("%d runs, want 32", len(m.kept))
	}
	for key, v := range m.results() {
		want := 15.0
		if strings.Contains(key, "workload.count=15 ") {
			want = 5
		}
		if v["workflows"] != want {
			t.Errorf("%s: %v workflows count, want %v", key, v["workflows"], want)
		}
	}
	got := m.results()
	key := func(startup string) string {
		return "cluster=c.yaml estimator=declared policy=gbf policy.pick=random startup=" + startup +
			" workload=w.yaml workload.count=25 workload.mix.0.generator=inspiral 0"
	}
	if got[key("30s")]["response_mean"] <= got[key("0s")]["response_mean"] {
		t.Error("starting a container takes no time")
	}
}

func TestUniformUncertaintyChangesWhatHappens(t *testing.T) {
	got := run(t, "workload: w.yaml\ncluster: c.yaml\nfactors: {policy: fdws, utilisation: 0.3, errors: [none, "+
		"\"uniform:1\"]}\n", 1).results()
	exact, wrong := got["cluster=c.yaml errors=none policy=fdws utilisation=0.3 workload=w.yaml 0"],
		got["cluster=c.yaml errors=uniform:1 policy=fdws utilisation=0.3 workload=w.yaml 0"]
	// Runtimes are uniform on about 0 to 3 times what was estimated.
	if f := wrong["work_mean"] / exact["work_mean"]; f < 1.4 || f > 1.6 {
		t.Errorf("the work is %v times that without errors, want about 1.5", f)
	}
	if wrong["slowdown_min"] < 1 {
		t.Errorf("a slowdown of %v is below what is possible", wrong["slowdown_min"])
	}
}

func TestProgressTellsWhatIsDoneAndTheTimeLeft(t *testing.T) {
	_, seen := smallRun(t)
	const runs = 16
	if len(seen) != runs+1 || seen[0].Left != 0 || seen[runs].Left != 0 {
		t.Fatalf("%d reports, from %+v to %+v", len(seen), seen[0], seen[len(seen)-1])
	}
	for i, p := range seen {
		if p.Done != i || p.Runs != runs || i > 0 && i < runs && p.Left <= 0 {
			t.Errorf("report %d: %d of %d done, %v left", i, p.Done, p.Runs, p.Left)
		}
	}
}

func TestTheLargestStableUtilisationIsFound(t *testing.T) {
	m := run(t, `workload: w.yaml
cluster: c.yaml
limit: {in_system: 25}
repetitions: 2
factors: {policy: [cpp, fdws], workload.count: 100}
search: {from: 0.3, to: 9.9, step: 1.2}
`, 2)
	if len(m.found) != 2 {
		t.Fatalf("found %v", m.found)
	}
	for group, value := range m.found {
		if value != "0.3" && value != "1.5" {
			t.Errorf("%s is stable up to %q", group, value)
		}
	}
	if n := len(m.kept); n == 0 || n > 2*4*2 {
		t.Errorf("%d runs for two searches among 9 values", n)
	}
}

func TestFaultsAreFoundBeforeAnythingRuns(t *testing.T) {
	for _, x := range []struct{ name, text, want string }{
		{"an unknown policy", "workload: w.yaml\ncluster: c.yaml\nfactors: {policy: [cpp, cpq]}\n",
			`policy "cpq" is not known`},
		{"an unknown parameter of a policy", "workload: w.yaml\ncluster: c.yaml\nfactors: {policy: fwp, policy.nix: " +
			"1}\n", `has no parameter "nix"`},
		{"a misspelt policy", "workload: w.yaml\ncluster: c.yaml\nfactors:\n  policy:\n  - cpp\n  - fdsw\n",
			`line 6: cluster=c.yaml policy=fdsw workload=w.yaml: policy "fdsw" is not known; did you mean fdws?`},
		{"a misspelt value of a parameter", "workload: w.yaml\ncluster: c.yaml\nfactors:\n  policy: owm\n  " +
			"policy.order: [lowest,\n    higest]\n",
			`line 6: cluster=c.yaml policy=owm policy.order=higest workload=w.yaml: policy owm: order="higest" is not known; did you mean highest?`},
		{"a misspelt error model", "workload: w.yaml\ncluster: c.yaml\nfactors:\n  policy: cpp\n  errors: sttic:2\n",
			`line 5: cluster=c.yaml errors=sttic:2 policy=cpp workload=w.yaml: error model "sttic:2" is not known; did you mean static?`},
		{"a misspelt estimator", "workload: w.yaml\ncluster: c.yaml\nfactors:\n  policy: cpp\n  estimator: lerned\n",
			`did you mean learned?`},
		{"a misspelt generator", "workload: w.yaml\ncluster: c.yaml\nfactors:\n  policy: cpp\n  errors: none\n  " +
			"workload.mix.1.generator: monatge\n", `line 6: `},
		{"a misspelt process", "workload: w.yaml\ncluster: c.yaml\nfactors:\n  policy: cpp\n  " +
			"workload.arrivals.process: [poisson, poison]\n", `w.yaml: arrivals: process is "poison"`},
		{"an unknown error model", "workload: w.yaml\ncluster: c.yaml\nfactors: {policy: cpp, errors: weibull:1}\n",
			`error model "weibull:1" is not known: choose`},
		{"a trained estimator", "workload: w.yaml\ncluster: c.yaml\nfactors: {policy: cpp, estimator: trained}\n",
			`estimator "trained": an experiment has no log`},
		{"an unknown estimator", "workload: w.yaml\ncluster: c.yaml\nfactors: {policy: cpp, estimator: guess}\n",
			`estimator "guess" is not known`},
		{"an unknown key of the workload", "workload: w.yaml\ncluster: c.yaml\nfactors: {policy: cpp, " +
			"workload.cuont: 3}\n", "did you mean count?"},
		{"a searched value", "workload: w.yaml\ncluster: c.yaml\nfactors: {policy: cpp}\nsearch: {from: -1, to: 1}\n",
			"line 4: search: "},
		{"no such workload", "workload: v.yaml\ncluster: c.yaml\nfactors: {policy: cpp}\n", "v.yaml"},
		{"no such cluster", "workload: w.yaml\ncluster: d.yaml\nfactors: {policy: cpp}\n", "d.yaml"},
		{"a negative charge", "workload: w.yaml\ncluster: c.yaml\nfactors: {policy: cpp, charge_planning: -1}\n",
			"charge_planning"},
		{"a negative start", "workload: w.yaml\ncluster: c.yaml\nfactors: {policy: cpp, startup: -1s}\n", "startup"},
		{"a place that is not there", "workload: w.yaml\ncluster: c.yaml\nfactors: {policy: cpp, " +
			"workload.mix.7.generator: sipht}\n", "7 is no position in a list of 2"},
		{"sizes that cannot be", "workload: w.yaml\ncluster: c.yaml\nfactors: {policy: cpp, workload.tasks: 3}\n",
			"w.yaml"},
	} {
		t.Run(x.name, func(t *testing.T) {
			err := (&experiment.Runner{File: read(t, x.text)}).Check()
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %v, want it to say %q", err, x.want)
			}
		})
	}
}

// A cell of a changed trace is another cell.
func TestACellHangsOnTheTracesItsWorkloadNames(t *testing.T) {
	x := read(t, "workload: t.yaml\ncluster: c.yaml\nfactors: {policy: hr}\n")
	dir := filepath.Dir(x.Source)
	write := func(name, text string) {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("t.yaml", "workflows: [{trace: a.dax}]\n")
	key := func(runtime string) string {
		write("a.dax",
			`<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1"><job id="a" name="a" runtime="`+runtime+`"/></adag>`)
		store := &memory{}
		must(t, (&experiment.Runner{File: x, Jobs: 1, Store: store}).Run(t.Context()))
		return store.planned[0]
	}
	if first, again, other := key("1"), key("1"), key("2"); first != again || first == other {
		t.Errorf("keys %s, %s of the same trace, %s of another", first, again, other)
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
