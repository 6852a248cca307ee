package cmd

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/cmd/internal/session"
)

// growing is a workflow whose tasks really take 1 s and 2 s for each MB that they read, on nodes of speed 1, by its
// costs; its trace says 10 s.
func growing(t *testing.T, seed uint64) (dir string) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	var jobs, costs strings.Builder
	for i := range 20 {
		kb := 100 + r.IntN(10_000)
		fmt.Fprintf(&jobs, `<job id="t%d" name="grow" runtime="10"><uses file="f%d" link="input" size="%d"/></job>`, i,
			i, kb*1000)
		fmt.Fprintf(&costs, "t%d,n,%v\n", i, 1+float64(kb)/500)
	}
	jobs.WriteString(`<job id="e" name="even" runtime="10"/>`)
	costs.WriteString("e,n,10\n")
	return writeFiles(t, map[string]string{"g.dax": `<adag version="2.1" name="g">` + jobs.String() + `</adag>`,
		"costs.csv": "task,node,seconds\n" + costs.String(),
		"c.yaml":    "nodes: [{name: n, cores: 4, memory: 1GB}]\n",
		"w.yaml":    "workflows: [{trace: g.dax, costs: costs.csv}]\n"})
}

type trained struct {
	Name    string
	Version int
	Runs    []string
	HeldOut []string `json:"held_out"`
	Samples int
	Scores  []struct {
		By      string
		Tasks   int
		Runtime *float64 `json:"runtime_percent"`
		Covered *float64 `json:"in_interval_percent"`
	}
	Model struct {
		Kinds map[string]struct{ Picked string }
	}
}

func (m *trained) errorOf(t *testing.T, by string) float64 {
	t.Helper()
	for _, s := range m.Scores {
		if s.By == by && s.Runtime != nil {
			return *s.Runtime
		}
	}
	t.Fatalf("no score of %s: %+v", by, m.Scores)
	return 0
}

func training(t *testing.T, home string, args ...string) (m trained) {
	t.Helper()
	text := expect(t, exitOK, nil, append([]string{"predict", "--json", "--dir", home}, args...)...)
	must(t, json.Unmarshal([]byte(text), &m))
	return m
}

func TestAModelIsTrainedOnRunsKeptAndPlannedWith(t *testing.T) {
	home := t.TempDir()
	for seed := range uint64(6) {
		dir := growing(t, seed)
		expect(t, exitOK, nil, "simulate", "--name", fmt.Sprint("r", seed), "--cluster", filepath.Join(dir, "c.yaml"),
			filepath.Join(dir, "w.yaml"), "--quiet", "--dir", home)
	}
	m := training(t, home, "--held-out", "2")
	if m.Name != "default" || m.Version != 1 || len(m.Runs) != 6 || m.Samples != 126 ||
		strings.Join(m.HeldOut, " ") != "r4 r5" {
		t.Errorf("%+v", m)
	}
	auto, declared, mean := m.errorOf(t, "auto"), m.errorOf(t, "declared"), m.errorOf(t, "mean")
	if auto > 3 || declared < 20 || mean < 20 {
		t.Errorf("errors: auto %.1f %%, declared %.1f %%, mean %.1f %%", auto, declared, mean)
	}
	if k := m.Model.Kinds; k["grow"].Picked != "ridge" && k["grow"].Picked != "line" || k["even"].Picked != "declared" {
		t.Errorf("picked %+v", k)
	}
	if again := training(t, home); again.Version != 2 || len(again.HeldOut) != 1 {
		t.Errorf("again: %+v", again)
	}
	expect(t, exitOK, []string{"default@2", "default@1", "auto"}, "predict", "ls", "--dir", home)
	expect(t, exitOK, []string{"default@1", "r0, r1, r2, r3, r4", "grow", "declared", "1/speed"}, "predict", "show",
		"default@1", "--dir", home)

	// A run of the trace, which says 10 s of every task; estimates come from the model, and of a type that is
	// new from the trace.
	dir := growing(t, 9)
	other := writeFiles(t,
		map[string]string{"n.dax": `<adag version="2.1" name="n"><job id="x" name="new" runtime="7"/></adag>`})
	expect(t, exitOK, nil, "simulate", "--quiet", "--dir", home, "--estimator", "trained:default@1", "--cluster",
		filepath.Join(dir, "c.yaml"), filepath.Join(dir, "g.dax"), filepath.Join(other, "n.dax"))
	if got := one[string](t, home, `SELECT sum(source = 'trained') || ' ' || sum(source = 'declared') || ' ' ||
		max(estimated_s) FILTER (WHERE kind = 'new') FROM v_estimates
		WHERE run = (SELECT name FROM runs ORDER BY id DESC LIMIT 1)`); got != "20 2 7.0" {
		t.Errorf("trained and declared estimates, and that of a new type: %s, want 20 2 7.0", got)
	}
	if was := one[string](t, home,
		"SELECT settings ->> 'estimator' FROM runs ORDER BY id DESC LIMIT 1"); was != "trained:default@1" {
		t.Errorf("the run keeps estimator %q", was)
	}
	worst := one[float64](t, home, `SELECT max(abs(e.estimated_s - (1 + f.size_bytes / 5e5)) /
		(1 + f.size_bytes / 5e5)) FROM v_estimates e
		JOIN runs r ON r.name = e.run JOIN files f ON f.run = r.id AND f.name = 'f' || substr(e.task, 2)
		WHERE e.source = 'trained'`)
	if worst > 0.25 {
		t.Errorf("the worst estimate is %.0f %% off", 100*worst)
	}
	// Without a version it is the latest, and the log says which.
	expect(t, exitOK, nil, "simulate", "--quiet", "--dir", home, "--estimator", "trained", "--policy", "heft",
		"--cluster", filepath.Join(dir, "c.yaml"), filepath.Join(dir, "g.dax"))
	if was := one[string](t, home,
		"SELECT settings ->> 'estimator' FROM runs ORDER BY id DESC LIMIT 1"); was != "trained:default@2" {
		t.Errorf("the run keeps estimator %q", was)
	}
	// Its page has other policies, simulated with the model of that log.
	db := logIn(t, home)
	x, err := (&session.Rehearsal{Log: db, Only: []string{"cpp"}}).Others(t.Context(), "")
	if err != nil || x.Note != "" || len(x.Policies) != 2 {
		t.Errorf("the page of a run with a trained model: %+v, %v", x, err)
	}
}

// What ended in the runs of the log tells the next run, by the sizes of inputs, without a model of gantry predict.
func TestARunLearnsFromEarlierOnes(t *testing.T) {
	dir, home := growing(t, 1), t.TempDir()
	simulate := []string{"simulate", "--dir", home, "--quiet", "--cluster", filepath.Join(dir, "c.yaml")}
	expect(t, exitOK, nil, append(simulate, filepath.Join(dir, "w.yaml"))...)
	simulate[3] = "--name=next"
	expect(t, exitOK, nil, append(simulate, "--estimator=learned", filepath.Join(growing(t, 2), "g.dax"))...)
	if worst := one[float64](t, home, `SELECT max(abs(e.estimated_s - (1 + f.size_bytes / 5e5)) /
		(1 + f.size_bytes / 5e5)) FROM v_estimates e JOIN runs r ON r.name = e.run AND r.name = 'next'
		JOIN files f ON f.run = r.id AND f.name = 'f' || substr(e.task, 2)
		WHERE e.kind = 'grow' AND e.samples = 20`); worst > 0.1 { // later ones know that tasks take 10 s here
		t.Errorf("the worst estimate is %.0f %% off", 100*worst)
	}
}

// The whole is predicted from runs of samples, by policy and number of nodes.
func TestTheWholeIsPredictedByPolicyAndNodes(t *testing.T) {
	dir, home := growing(t, 1), t.TempDir()
	cluster := filepath.Join(dir, "c.yaml")
	expect(t, exitOK, nil, "simulate", "--name", "small", "--dir", home, "--quiet", "--cluster", cluster,
		filepath.Join(dir, "w.yaml"))
	learn := []string{"predict", "--dir", home, "--small", "small"}
	whole := append(learn, "--policies", "cpp,heft", "--nodes", "1", "--nodes", "3", "--", "--runtime", "null",
		"--cluster", cluster, filepath.Join(dir, "g.dax"))
	expect(t, exitOK, []string{"3  heft"}, whole...)
	var got struct {
		Version int
		Whole   []struct {
			Policy   string
			Nodes    int
			Makespan float64 `json:"makespan_s"`
		}
	}
	text := expect(t, exitOK, nil, append([]string{"predict", "--json"}, whole[1:]...)...)
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Whole) != 4 || got.Version != 2 {
		t.Fatalf("%v: %+v", err, got)
	}
	expect(t, exitOK, []string{"Kept as default@3"}, append([]string{"predict", "train"}, learn[1:]...)...)
	expect(t, exitOK, []string{" attempts of 1 run "}, append(learn, "--small", "small", "--log",
		filepath.Join(home, "gantry.sqlite"), "--log", home+"//gantry.sqlite")...)
	one, three := got.Whole[0], got.Whole[2] // 21 tasks of 10 s on four cores, and on twelve
	if one.Policy != "cpp" || one.Nodes != 1 || one.Makespan != 60 || three.Nodes != 3 || three.Makespan != 20 {
		t.Errorf("%+v", got.Whole)
	}
	if n := strings.Count(expect(t, exitOK, nil, "ls", "--dir", home), "finished"); n != 1 {
		t.Errorf("%d runs, want 1: nothing is started", n)
	}
	for said, args := range map[string][]string{
		"give numbers from 1":          {"--nodes", "0", filepath.Join(dir, "g.dax")},
		"under nope on 1 node":         {"--policies", "nope", "--", "--runtime", "null", filepath.Join(dir, "g.dax")},
		"are for the whole":            {"--policies", "cpp"},
		"gantry run has no option --x": {"--", "--x", filepath.Join(dir, "g.dax")},
	} {
		expect(t, exitUsage, []string{said}, append(learn, args...)...)
	}
}

func TestModelsLearnFromSeveralLogs(t *testing.T) {
	var homes []string
	for seed := range uint64(2) {
		dir, home := growing(t, seed), t.TempDir()
		expect(t, exitOK, nil, "simulate", "--name", fmt.Sprint("r", seed), "--cluster", filepath.Join(dir, "c.yaml"),
			filepath.Join(dir, "w.yaml"), "--quiet", "--dir", home)
		homes = append(homes, home)
	}
	// A run at another scale does not go with them.
	dir := growing(t, 7)
	expect(t, exitOK, nil, "simulate", "--name", "scaled", "--time-scale", "0.1", "--cluster",
		filepath.Join(dir, "c.yaml"), filepath.Join(dir, "w.yaml"), "--quiet", "--dir", homes[0])
	other := filepath.Join(homes[1], "gantry.sqlite")
	if m := training(t, homes[0], "--log", other); len(m.Runs) != 1 || m.Runs[0] != "scaled" {
		t.Errorf("with a latest run at another scale: %v", m.Runs)
	}
	m := training(t, homes[1], "--log", filepath.Join(homes[0], "gantry.sqlite"), "--held-out", "0")
	if len(m.Runs) != 1 {
		t.Errorf("the latest run is of the other log: %v", m.Runs)
	}
	expect(t, exitOK, nil, "simulate", "--name", "last", "--cluster", filepath.Join(dir, "c.yaml"),
		filepath.Join(dir, "w.yaml"), "--quiet", "--dir", homes[0])
	m = training(t, homes[0], "--log", other)
	if want := "r0 " + other + ":r1 last"; strings.Join(m.Runs, " ") != want || m.Samples != 63 {
		t.Errorf("%d samples of %v, want 63 of %s", m.Samples, m.Runs, want)
	}
	expect(t, exitInput, []string{"no log"}, "predict", "--log", filepath.Join(homes[0], "none.sqlite"), "--dir",
		homes[0])
}

func TestPredictSaysWhatItCannot(t *testing.T) {
	home := t.TempDir()
	expect(t, exitInput, []string{"no log"}, "predict", "--dir", home)
	dir := growing(t, 1)
	simulate := []string{"simulate", "--quiet", "--dir", home, "--cluster", filepath.Join(dir, "c.yaml"),
		filepath.Join(dir, "w.yaml")}
	expect(t, exitOK, nil, simulate...)
	expect(t, exitInput, []string{"no models"}, append(simulate, "--estimator", "trained")...)
	expect(t, exitInput, []string{"nothing to learn from"}, "predict", "--runtime", "docker", "--dir", home)
	expect(t, exitUsage, []string{"of 1 run to learn from one at least"}, "predict", "--held-out", "1", "--dir", home)
	expect(t, exitUsage, []string{"write gantry predict train, ls or show MODEL"}, "predict", "shwo", "--dir", home)
	expect(t, exitUsage, []string{"letters"}, "predict", "--model", "a b", "--dir", home)
	expect(t, exitOK, []string{"Trained on 21 attempts of 1 run", "there have to be some", "Kept as default@1"},
		"predict", "--dir", home)
	expect(t, exitInput, []string{`no model "x"`, "default@1"}, "predict", "show", "x", "--dir", home)
	expect(t, exitInput, []string{"default@1"}, append(simulate, "--estimator", "trained:default@7")...)
	expect(t, exitUsage, []string{"name a model"}, append(simulate, "--estimator", "trained:")...)
	expect(t, exitUsage, []string{"add --estimator trained"}, append(simulate, "--predict-memory", "lean")...)
	expect(t, exitUsage, []string{"did you mean lean"}, append(simulate, "--estimator", "trained", "--predict-memory",
		"laen")...)
}

// With --predict-memory the measured peaks limit tasks.
func TestMemoryIsPredicted(t *testing.T) {
	c := cliTest{t, t.TempDir()}
	dax := `<adag version="2.1" name="m">`
	for i := range 20 { // two runs of them are enough to set limits
		dax += fmt.Sprintf(`<job id="t%d" name="small" runtime="1"/>`, i) // each may use half of the node's memory
	}
	run := []string{"run", "--runtime", "null", "--quiet", "--cluster", c.write("c.yaml",
		"nodes: [{name: n, cores: 2, memory: 500MB}]\n"), c.write("m.dax", dax+"</adag>")}
	for range 2 {
		c.gantry(exitOK, run...)
	}
	const peak = 30e6
	c.sql(fmt.Sprintf("UPDATE attempts SET ran_ns = 1e9, peak_memory_bytes = %f - attempt", peak))
	c.sql("UPDATE attempts SET outcome = 'out-of-memory', peak_memory_bytes = hold_memory_bytes WHERE attempt = 3")
	home := filepath.Join(c.dir, "runs")
	expect(t, exitOK, []string{"38 attempts of 2 runs", "2 that did not end well"}, "predict", "--dir", home)
	names := strings.Fields(one[string](t, home, "SELECT group_concat(name, ' ') FROM runs"))
	expect(t, exitOK, []string{"19 attempts of 1 run ", "1 that did not end well"}, "predict", "--small", names[0],
		"--dir", home)
	expect(t, exitInput, []string{"--small other: the log has no such run"}, "predict", "--small", "other", "--dir",
		home)
	expect(t, exitOK, []string{"GB·h held", "of it (", "1 attempt ran out of it"}, "show", names[0], "--dir", home)
	if n := one[int](t, home, "SELECT count(*) FROM v_memory WHERE kind = 'small' AND attempts = 20 AND "+
		"out_of_memory = 1 AND abs(used_pct - 100 * used_gbh / held_gbh) < 1e-6 AND abs(held_gbh - used_gbh - "+
		"wasted_gbh) < 1e-9"); n != 2 {
		t.Errorf("v_memory has %d of 2 runs", n)
	}
	c.gantry(exitOK, append(run, "--name", "predicted", "--estimator", "trained", "--predict-memory", "safe")...)
	const held = "SELECT hold_memory_bytes FROM v_attempts WHERE run %s 'predicted' ORDER BY 1 DESC LIMIT 1"
	before, now := one[float64](t, home, fmt.Sprintf(held, "<>")), one[float64](t, home, fmt.Sprintf(held, "="))
	// What is saved is the difference to the declared half of the node, for as long as tasks held memory.
	c.sql("UPDATE attempts SET peak_memory_bytes = 29e6 WHERE run = (SELECT id FROM runs WHERE name = 'predicted')")
	if n := one[int](t, home, fmt.Sprintf("SELECT count(*) FROM v_memory WHERE run = 'predicted' AND abs(saved_pct - "+
		"100 * (1 - %f / %f)) < 1e-6 AND saved_gbh > 0", now, before)); n != 1 {
		t.Error("v_memory does not have what is saved")
	}
	expect(t, exitOK, []string{"saved against declared"}, "show", "predicted", "--dir", home)
	if n := one[int](t, home, "SELECT count(*) FROM v_memory WHERE run <> 'predicted' AND saved_gbh = 0"); n != 2 {
		t.Errorf("%d of 2 runs with declared memory save nothing", n)
	}
	if now >= before || now < peak || now > 1.5*peak {
		t.Errorf("tasks that peaked at %g bytes and held %g may hold %g as predicted", peak, before, now)
	}
}

// Two programs of one type are no reason to be silent.
func TestProgramsThatShareATypeAreCounted(t *testing.T) {
	c := cliTest{t, t.TempDir()}
	c.gantry(exitOK, "run", "--runtime", "null", "--quiet", "--image", "gantry/busybox", c.write("w.makeflow",
		"CATEGORY=same\na:\n\tbwa index x >a\nb:\n\tbwa mem y >b\n"+
			"CATEGORY=other\nc:\n\t/usr/bin/tr a b >c\nd:\n\ttr c d >d\n"))
	c.sql("UPDATE attempts SET ran_ns = 1e9")
	expect(t, exitOK, []string{"Trained on 4 attempts", "2 that are of types that several programs share"}, "predict",
		"--dir", filepath.Join(c.dir, "runs"))
}

func TestAResumedRunKeepsItsModel(t *testing.T) {
	needsOCI(t)
	needsTask(t)
	beside(t)
	c := cliTest{t, t.TempDir()}
	home := filepath.Join(c.dir, "runs")
	dax := `<adag version="2.1" name="q"><job id="a" name="work" runtime="1.5"/><job id="b" name="work" runtime="0.2"/>
		<child ref="b"><parent ref="a"/></child></adag>`
	dir := writeFiles(t, map[string]string{"q.dax": dax, "c.yaml": "nodes: [{name: n, cores: 1, memory: 500MB}]\n"})
	run := []string{"run", "--runtime", "oci", "--quiet", "--dir", home, "--cluster", filepath.Join(dir, "c.yaml"),
		filepath.Join(dir, "q.dax")}
	expect(t, exitOK, nil, run...)
	c.sql("UPDATE attempts SET ran_ns = 5e9") // unlike what is declared
	training(t, home)
	// Ctrl-C before a has ended: b is left.
	cmd := gantryProcess(t, append(run, "--name", "again", "--estimator", "trained")...)
	must(t, cmd.Start())
	for one[int](t, home, "SELECT count(*) FROM v_tasks WHERE run = 'again'") == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	_ = cmd.Process.Signal(os.Interrupt)
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != exitInterrupted {
		t.Fatal(cmd.ProcessState)
	}
	training(t, home) // a newer one of more samples, which the resumed run must not take
	expect(t, exitOK, nil, "resume", "again", "--quiet", "--dir", home)
	if n := one[int](t, home, "SELECT count(*) FROM v_estimates WHERE run = 'again' AND source = 'trained' AND "+
		"samples = 2"); n != 2 {
		t.Errorf("%d of 2 estimates are of the model that the run began with", n)
	}
}
