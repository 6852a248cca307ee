package session_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/sqlite"
	"gantry/sqlite/report/summary"
	"gantry/trace/scenario"
)

// lab is a directory with runs, and what they begin with.
type lab struct {
	*testing.T
	dir  string
	set  session.Settings
	with session.Options
}

// newLab makes one with files of workflows.
func newLab(t *testing.T, runtime, nodes string, files map[string]string) *lab {
	t.Helper()
	cluster, err := scenario.ReadCluster(strings.NewReader("nodes: ["+nodes+"]"), "nodes.yaml")
	must(t, err)
	executor.FillDisk(cluster)
	l := &lab{T: t, dir: t.TempDir(), set: session.Settings{Policy: "cpp", Seed: 1, TimeScale: 1, SizeScale: 1,
		Runtime: runtime, Cluster: cluster, Pull: "missing", Grace: time.Second}}
	l.with = session.Options{Home: filepath.Join(l.dir, "runs"), View: term.New(true), Predict: true,
		ReadAs: func(_ *session.Settings, in *session.Inputs) error {
			in.Preempt, in.Used = func([]executor.Submission) error { return nil }, map[string]bool{}
			return nil
		},
		Refuse: func(*session.Settings, *session.Facts) error { return nil }}
	for name, text := range files {
		l.must(os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o644))
	}
	return l
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// says wants an error with an exit code and a text.
func (l *lab) says(err error, code int, text string) {
	l.Helper()
	if err == nil || exit.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
		l.Errorf("exit code %d: %v; want %d: %q", exit.CodeOf(err), err, code, text)
	}
}

// begin begins a run of a file, with settings as edit has them.
func (l *lab) begin(name, file string, edit func(s *session.Settings)) (*session.DryRun, error) {
	set, with := l.set, l.with
	if with.Name = name; edit != nil {
		edit(&set)
	}
	s := session.New(&set, with)
	defer s.Close()
	if file != "-" {
		file = filepath.Join(l.dir, file)
	}
	return s.Begin(l.Context(), sqlite.Bulk, &session.Inputs{Paths: []string{file}})
}

// log opens the log.
func (l *lab) log() *sqlite.DB {
	l.Helper()
	db, err := sqlite.Open(filepath.Join(l.with.Home, sqlite.FileName), sqlite.ReadOnly)
	l.must(err)
	l.Cleanup(func() { db.Close() })
	return db
}

// summary is that of a run of the log.
func (l *lab) summary(name string) *summary.Run {
	l.Helper()
	s, err := summary.Of(l.Context(), l.log(), name)
	l.must(err)
	return s
}

// run is the summary of a run that ends well.
func (l *lab) run(name, file string, edit func(s *session.Settings)) *summary.Run {
	l.Helper()
	_, err := l.begin(name, file, edit)
	l.must(err)
	return l.summary(name)
}

// kind is what a run says of a type of task, in seconds.
func kind(s *summary.Run, name string) (estimated, runtime float64) {
	i := slices.IndexFunc(s.Kinds, func(k summary.Kind) bool { return k.Kind == name })
	return time.Duration(*s.Kinds[i].Estimated).Seconds(), time.Duration(*s.Kinds[i].Runtime).Seconds()
}

// forked has a task of 20 s, and two of 5 s after it.
const forked = `<adag version="2.1" name="forked"><job id="a" name="x" runtime="20"/><job id="b" name="y" ` +
	`runtime="5"/><job id="c" name="y" runtime="5"/><child ref="b"><parent ref="a"/></child><child ref="c">` +
	`<parent ref="a"/></child></adag>`

func TestWhatPoliciesBelieveIsApartFromWhatHappens(t *testing.T) {
	l := newLab(t, "sim", "{name: n, cores: 4}", map[string]string{"f.dax": forked})
	other := math.NaN() // than the trace has it
	for _, c := range []struct {
		errors, estimator string
		sources           string
		ratio, makes      float64 // of the first source; seconds that x takes
	}{
		{"", "", "declared", 1, 20},
		{"static:3", "", "erroneous", 3, 20},
		{"random1:3", "", "erroneous", other, 20},
		{"random2:3", "", "erroneous", other, 20},
		{"short:9", "", "erroneous", other, 20},
		{"uniform:3", "", "declared", other, other},
		{"uniform:3", "oracle", "oracle", 1, other},
		{"static:3", "oracle", "oracle", 1, 20},
		{"static:3", "corrected", "corrected erroneous", 1, 20},
	} {
		name := "run-" + strings.ReplaceAll(c.errors+c.estimator, ":", "-")
		s := l.run(name, "f.dax", func(s *session.Settings) { s.Errors, s.Estimator = c.errors, c.estimator })
		var sources []string
		for _, e := range s.Estimates {
			sources = append(sources, e.Source)
		}
		_, ran := kind(s, "x")
		right := func(x, want, usual float64) bool {
			return math.IsNaN(want) && x > 0 && math.Abs(x-usual) > 1e-3 || math.Abs(x-want) < 1e-6
		}
		if ratio := *s.Estimates[0].Ratio; strings.Join(sources, " ") != c.sources || !right(ratio, c.ratio, 1) ||
			!right(ran, c.makes, 20) {
			t.Errorf("%s: planned by %v, estimates are %v times what happened, x takes %v s", name, sources, ratio, ran)
		}
	}
}

func TestASecondRunIsPlannedWithWhatTheFirstMeasured(t *testing.T) {
	l := newLab(t, "sim", "{name: n, cores: 2, speed: 0.5}", map[string]string{"f.dax": forked})
	first := l.run("first", "f.dax", func(s *session.Settings) { s.Errors = "uniform:2" })
	if estimated, measured := kind(first, "x"); estimated != 40 || measured == 40 { // 20 s at half the speed
		t.Fatalf("estimated %v s, took %v s", estimated, measured)
	}
	second := l.run("second", "f.dax", func(s *session.Settings) { s.Estimator = "learned" })
	if _, was := kind(first, "x"); second.Estimates[1].Source != "learned" || second.Estimates[1].Attempts != 1 {
		t.Errorf("the second run was planned by %+v", second.Estimates)
	} else if now, _ := kind(second, "x"); math.Abs(now-was) > 1e-6 {
		t.Errorf("estimated %v s, the first run measured %v s", now, was)
	}
}

func TestAStreamRunsAsASimulationAndOnTheNullRuntime(t *testing.T) {
	l := newLab(t, "sim", "{name: n, cores: 4}", map[string]string{"w.yaml": "seed: 3\nrepetitions: 2\ncount: 12\n" +
		"mix: [{generator: montage, fraction: 3}, {generator: random}]\ntasks: 20..24\narrivals: {process: fixed, " +
		"interval: 1h}\ntotal_runtime: {distribution: constant, mean: 10s}\n"})
	seconds := func(s *summary.Run) float64 { return time.Duration(*s.Makespan).Seconds() }
	first, again := l.run("first", "w.yaml", nil), l.run("again", "w.yaml", nil)
	other := l.run("other", "w.yaml", func(s *session.Settings) { s.Repetition = 2 })
	if len(first.WorkflowRow) != 12 || seconds(first) < 11*3600 || seconds(first) != seconds(again) ||
		seconds(first) == seconds(other) {
		t.Errorf("%d workflows in %v s, %v s again, %v s in repetition 2", len(first.WorkflowRow), seconds(first),
			seconds(again), seconds(other))
	}
	few := l.run("few", "w.yaml", func(s *session.Settings) { s.Count, s.TimeScale = 3, 0.1 })
	if len(few.WorkflowRow) != 3 || few.WorkflowRow[2].Name != first.WorkflowRow[2].Name || seconds(few) < 720 ||
		seconds(few) > 721 {
		t.Errorf("%+v in %v s, want the first three in a tenth of the time", few.WorkflowRow, seconds(few))
	}
	null := l.run("null", "w.yaml", func(s *session.Settings) { s.Runtime, s.TimeScale = "null", 0 })
	if len(null.WorkflowRow) != 12 || null.State != sqlite.Finished {
		t.Errorf("%+v", null.Overview)
	}
}

// The example of the paper of HEFT takes 80 units, of a second.
func TestADryRunIsTheRun(t *testing.T) {
	l := newLab(t, "null", "{name: n, cores: 4}", nil)
	f, err := os.Open("../../../examples/heft/cluster.yaml")
	l.must(err)
	defer f.Close()
	l.set.Cluster, err = scenario.ReadCluster(f, f.Name())
	l.must(err)
	l.set.Policy, l.with.Dry, l.dir = "heft", true, "../../../examples/heft"
	d, err := l.begin("x", "workload.yaml", nil)
	l.must(err)
	if *d.Makespan != 80e9 || len(d.Steps) != 10 || d.Steps[0].Task != "n1" || len(d.Images)+len(d.Reused) > 0 {
		t.Errorf("%+v", d)
	}
	if _, err := os.Stat(l.with.Home); err == nil {
		t.Error("the directory of runs was made")
	}
	_, err = l.begin("a/b", "workload.yaml", nil)
	l.says(err, exit.Usage, "--name a/b")
	_, err = l.begin("x", "none.yaml", nil)
	l.says(err, exit.Input, "none.yaml")
	l.with.Dry = false
	if s := l.run("x", "workload.yaml", nil); s.Done != 10 {
		t.Errorf("%+v", s.Overview)
	}
	for _, dry := range []bool{true, false} {
		l.with.Dry = dry
		_, err = l.begin("x", "workload.yaml", nil)
		l.says(err, exit.Input, `there is a run "x" already`)
	}
}

// A run of the log is simulated again as it was measured: the same policy has the same makespan, and a page has other
// policies on it. Its metrics are those that were taken as it went.
func TestARunOfTheLogIsSimulatedAgain(t *testing.T) {
	l := newLab(t, "sim", "{name: a, cores: 2}, {name: b, cores: 1, speed: 0.5}", map[string]string{"f.dax": forked,
		"w.yaml": "count: 4\nmix: [{generator: montage}]\ntasks: 30\narrivals: {process: poisson, utilisation: 2}\n"})
	first := l.run("first", "w.yaml", func(s *session.Settings) { s.Errors, s.Startup = "uniform:1", 2*time.Second })
	l.run("null", "f.dax", func(s *session.Settings) { s.Runtime, s.TimeScale = "null", 0 })
	log := l.log()
	again := func(of, name, policy string) *summary.Run {
		t.Helper()
		info, err := log.Info(t.Context(), of)
		set, with := &session.Settings{}, l.with
		if with.Name = name; err == nil {
			err = json.Unmarshal(info.Settings, set)
		}
		l.must(err)
		set.Runtime, set.Policy = "sim", policy
		s := session.New(set, with)
		defer s.Close()
		l.must(s.Replay(t.Context(), log, &info, policy == info.Policy, false))
		return l.summary(name)
	}
	same, other := again("first", "same", "cpp"), again("first", "other", "gbf")
	if *same.Makespan != *first.Makespan || *other.Makespan == *first.Makespan {
		t.Errorf("%v s, again %v s, by another policy %v s", *first.Makespan, *same.Makespan, *other.Makespan)
	}
	x, err := (&session.Rehearsal{Log: log}).Others(t.Context(), "first")
	l.must(err)
	if all := x.Policies; len(all) != 4 || !all[0].Own || all[0].Makespan != time.Duration(*first.Makespan) ||
		len(all[0].Bars) == 0 {
		t.Errorf("%d other policies (%s)", len(all), x.Note)
	}
	again("null", "null-again", "cpp")
	if causes, why, err := session.CausesOf(t.Context(), log, "null", "null-again"); err != nil || why != "" ||
		len(causes) == 0 {
		t.Errorf("%v, %s, %v", causes, why, err)
	}
	if _, why, err := session.CausesOf(t.Context(), log, "null", "same"); err != nil || why == "" {
		t.Errorf("two runs of other workflows: %s, %v", why, err)
	}
	info, err := log.Info(t.Context(), "first")
	l.must(err)
	collector, window, err := session.MeasureLog(t.Context(), log, info)
	l.must(err)
	kept, err := log.Metrics(t.Context(), "first")
	if got, want := fmt.Sprint(collector.Run(window)), fmt.Sprint(kept); err != nil || got != want {
		t.Errorf("%v: metrics of the log: %s\nas it went: %s", err, got, want)
	}
}

// A run that was told to start nothing is resumed, and one that has ended is not.
func TestARunIsResumed(t *testing.T) {
	l := newLab(t, "null", "{name: n, cores: 4}", map[string]string{"f.dax": forked})
	set, with := l.set, l.with
	with.Name = "halted"
	s := session.New(&set, with)
	s.Drain()
	_, err := s.Begin(t.Context(), sqlite.Durable, &session.Inputs{Paths: []string{filepath.Join(l.dir, "f.dax")}})
	s.Close()
	l.says(err, exit.Interrupted, "continue with: gantry resume halted --dir "+with.Home)
	resume := func(with string) error {
		s := session.New(nil, l.with)
		defer s.Close()
		return s.Continue(t.Context(), "halted", with)
	}
	l.says(resume(filepath.Join(l.dir, "f.dax")), exit.Input, "which has no files")
	l.must(resume(""))
	if s := l.summary("halted"); s.Done != 3 || s.State != sqlite.Finished {
		t.Errorf("%+v", s.Overview)
	}
	l.says(resume(""), exit.Input, "has ended (finished): there is nothing to resume")
}

func needsContainers(t *testing.T) {
	t.Helper()
	if err := session.RuntimeNamed("oci").IsUsable(t.Context()); err != nil {
		t.Skip(err)
	}
	if _, err := session.TaskBinary(t.Context()); err != nil {
		t.Skip(err)
	}
}

// Programs of a run that failed go on with a corrected workflow, and their files can go.
func TestProgramsAreContinued(t *testing.T) {
	needsContainers(t)
	l := newLab(t, "oci", "{name: a, cores: 1, memory: 200MB}", map[string]string{"in": "text\n",
		"w.makeflow": "out: in\n\tcat in >out\nend: out\n\tfalse\n", "mended.makeflow": "out: in\n\tcat in >out\n" +
			"end: out\n\tcat out >end\n"})
	l.set.Image, l.set.Reuse, l.set.ResultsDir = executor.HostImage, true, filepath.Join(l.dir, "results")
	_, err := l.begin("first", "w.makeflow", nil)
	l.says(err, exit.TasksFailed, "gantry explain first TASK")
	s := session.New(nil, l.with)
	err = s.Continue(t.Context(), "first", filepath.Join(l.dir, "mended.makeflow"))
	s.Close()
	l.must(err)
	if text, err := os.ReadFile(filepath.Join(l.dir, "results", "end")); string(text) != "text\n" {
		t.Errorf("the results have %q, %v", text, err)
	}
	log := l.log()
	life, err := log.Task(t.Context(), "first", "#2") // its current state
	l.must(err)
	l.must(session.OpenShell(t.Context(), l.with.Home, log, life, "/bin/true", false))
	cleaned, err := session.Clean(t.Context(), l.with.Home, "first", session.CleanMore{Files: true})
	if err != nil || len(cleaned.Files) != 1 || cleaned.Freed <= 0 {
		t.Errorf("%+v, %v", cleaned, err)
	}
	if done, err := session.CleanRuns(t.Context(), l.with.Home, "first", []string{"oci"}, true); err != nil ||
		len(done.Containers) > 0 {
		t.Errorf("a run that ended left %v, %v", done, err)
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
