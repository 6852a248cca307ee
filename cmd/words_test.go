package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/cmd/internal/session"
	"gantry/planner"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
	"gantry/trace/shown"
)

// written writes a file into a directory of its own.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

const lettersFlow = "LIMIT=3\nu.txt:\n\ttr a-z A-Z </etc/hosts >u.txt\nc.txt: u.txt\n\thead -n $LIMIT u.txt >c.txt\n"

// A program of which nothing is declared or measured has no runtime, so nothing that depends on it is predicted.
func TestNothingIsPredictedFromADefault(t *testing.T) {
	flow := written(t, "letters.makeflow", lettersFlow)
	run := []string{"run", "--dry-run", "--runtime", "null", "--image", "any", "--dir=" + t.TempDir(), flow}
	out := expect(t, exitOK, []string{"nothing is known of head, tr yet: no prediction"}, run...)
	if strings.Contains(out, "makespan") {
		t.Errorf("a makespan is predicted:\n%s", out)
	}
	var d session.DryRun
	must(t, json.Unmarshal([]byte(expect(t, exitOK, nil, append(run, "--json")...)), &d))
	if d.Makespan != nil || len(d.Steps) != 2 || d.Steps[0].Start == nil || d.Steps[0].End != nil ||
		d.Steps[1].Start != nil {
		t.Errorf("%+v", d)
	}
	_, _, errs := invoke(t, "simulate", "--dir="+t.TempDir(), flow)
	if !strings.Contains(errs, "nothing is known of head, tr: each of their tasks takes 1 s here") {
		t.Errorf("a simulation says\n%s", errs)
	}
	// The arguments of WfBench say how much there is to do.
	bench := written(t, "bench.json", wfOf(`{"name": "a", "runtime": 0, "command": {"program": "wfbench",
		"arguments": ["--cpu-work 60"]}}`))
	if _, out, errs = invoke(t, "simulate", "--no-log", "--host-model=none", bench); strings.Contains(errs, "known") ||
		!strings.Contains(out, "makespan 1.5s") {
		t.Errorf("a simulation of a specification of WfBench says\n%s%s", out, errs)
	}
}

// A server shows no end of work of which nothing is known, nor of work that waits behind it.
func TestAServerExpectsNothingFromADefault(t *testing.T) {
	needsOCI(t)
	needsBusybox(t)
	dir := filepath.Join(t.TempDir(), "runs")
	s := serveIn(t, dir, "--runtime", "oci", "--grace=1s", "--image=gantry/busybox", "--cluster", written(t, "c.yaml",
		"nodes: [{name: n, cores: 1, memory: 200MB}]\n"))
	flow := written(t, "Makeflow", "a.txt:\n\tsleep 300; echo >a.txt\nb.txt: a.txt\n\tcp a.txt b.txt\n")
	expect(t, exitOK, []string{"1: nothing is known of cp, sleep yet: no prediction"}, "submit", "--dir", dir, flow)
	expect(t, exitOK, []string{"2: nothing is known of cp, sleep yet: no prediction"}, "submit", "--dir", dir, "--name",
		"behind", written(t, "one.dax", oneTask))
	// The start of the first task is expected until its container says that it started.
	eventually(t, func() (bool, any) {
		_, out, _ := invoke(t, "queue", "--dir", dir)
		return !strings.Contains(out, "~"), out
	})
	for _, options := range [][]string{{}, {"--json"}} {
		out := expect(t, exitOK, []string{"behind"}, append([]string{"queue", "--dir", dir}, options...)...)
		if strings.Contains(out, "~") || strings.Contains(out, "0001-01-01") {
			t.Errorf("queue %v expects an end:\n%s", options, out)
		}
	}
	t.Setenv("GANTRY_DIR", dir)
	expect(t, exitOK, []string{"1 N/A UNLIMITED\n", "2 N/A UNLIMITED\n"}, "squeue", "-h", "-o", "%i %e %L")
	expect(t, exitOK, []string{"2 N/A\n"}, "squeue", "-h", "-t", "PD", "-o", "%i %S")
	for _, id := range []string{"1", "2"} {
		expect(t, exitOK, nil, "cancel", "--dir", dir, id)
	}
	s.drain()
}

// A variable that no makeflow uses is a slip of the keyboard.
func TestDefineNeedsAVariable(t *testing.T) {
	flow, dir := written(t, "letters.makeflow", lettersFlow), "--dir="+t.TempDir()
	jx := written(t, "letters.jx", `{"define": {"TOP": 3}, "rules": [{"command": "head -n " + TOP + " >c.txt", "outputs": ["c.txt"]}]}`)
	dax := written(t, "one.dax", oneTask)
	for _, command := range [][]string{{"check"}, {"convert", "--o", filepath.Join(t.TempDir(), "x")},
		{"simulate", "--quiet", dir}, {"run", "--quiet", "--runtime", "null", dir}} {
		with := func(args ...string) []string { return append(append([]string{}, command...), args...) }
		expect(t, exitInput, []string{"--define LIMT has no effect here", "did you mean LIMIT?"},
			with("--define", "LIMT=5", flow)...)
		expect(t, exitInput, []string{"did you mean TOP?"}, with("--define", "TOPP=5", jx)...)
		expect(t, exitInput, []string{"no makeflow with variables"}, with("--define", "LIMIT=5", dax)...)
		expect(t, exitOK, nil, with("--define", "LIMIT=5", flow)...)
		expect(t, exitOK, nil, with("--define", "TOP=5", jx)...)
	}
	expect(t, exitOK, nil, "check", "--define", "LIMIT=5", dax, flow) // one file uses it
	expect(t, exitInput, []string{"--define A has no effect here"}, "map", "--quiet", "--runtime", "null", dir,
		"--define=A=1", "--commands", flow)
	sites := written(t, "sites.yml", `{pegasus: "5.0", name: w, jobs: [{type: job, id: a, name: p}], transformationCatalog: {transformations: [
{name: p, sites: [{name: local, pfn: /bin/p, type: installed}, {name: hpc, pfn: /opt/p, type: installed}]}]}}`)
	for _, command := range [][]string{{"check"}, {"simulate", "--quiet", dir}} {
		expect(t, exitInput, []string{"--site hpcc has no effect here", "did you mean hpc?"},
			append(command, "--site=hpcc", sites)...)
		expect(t, exitOK, nil, append(command, "--site=hpc", sites)...)
		expect(t, exitInput, []string{"--site has no effect here: no program of these workflows comes from a catalog"},
			append(slices.Clone(command), "--site=hpc", dax)...)
		expect(t, exitInput, []string{"--site has no effect here"},
			append(slices.Clone(command), "--site=hpc", flow)...)
	}
}

// Options that have no effect on what they are given with are refused, with the reason.
func TestOptionsWithoutAnEffectAreRefused(t *testing.T) {
	flow := written(t, "letters.makeflow", lettersFlow)
	dax := written(t, "one.dax", oneTask)
	nodes := written(t, "nodes.yaml", "nodes: [{name: n, cores: 1}]")
	load := written(t, "load.yaml", "workflows: [{trace: "+flow+"}]")
	stream := written(t, "stream.yaml", "{count: 3, mix: [{generator: montage, tasks: 20}], seed: 1, "+
		"arrivals: {process: poisson, interval: 10s}}")
	dir := "--dir=" + t.TempDir()
	simulated := []string{"simulate", "--quiet", dir}
	null := []string{"run", "--quiet", "--runtime", "null", dir}
	const input, usage = exitInput, exitUsage
	for _, c := range []struct {
		code    int
		command []string
		why     string
		options []string
	}{
		{input, append(null, flow), "starts no containers", []string{"--env=A=b", "--starts=2", "--disk=1GB",
			"--max-output=1MB", "--mount=/etc/hosts:/e:ro", "--startup=1s", "--pull=never"}},
		{input, append(null, flow), "no file is read", []string{"--inputs=."}},
		{input, append(null, dax), "no task runs its command by a shell", []string{"--shell=sh"}},
		{input, append(simulated, flow), "workflows of Pegasus", []string{"--catalog=c.yml"}},
		{input, append(simulated, flow), "WALL_TIME of makeflows", []string{"--enforce-walltime"}},
		{input, []string{"run", "--quiet", "--dry-run", dir, "--emulate", flow}, "workflows of Pegasus",
			[]string{"--container-mounts"}},
		{input, append(simulated, flow), "no workload file", []string{"--repetition=2"}},
		{input, append(simulated, dax), "maxwalltime", []string{"--enforce-walltime"}},
		{input, append(simulated, dax), "lacks an image", []string{"--image=some"}},
		{input, append(simulated, dax), "reads no input files", []string{"--inputs=."}},
		{input, append(simulated, "--policy=mrcp-rm", dax), "no workflow has a deadline", []string{"--reject-late"}},
		{input, append(simulated, "--image=some", flow), "no task is emulated",
			[]string{"--time-scale=0.5", "--size-scale=2", "--checkpoint=1MB"}},
		{input, []string{"check", flow}, "names a time limit", []string{"--enforce-walltime"}},
		{input, []string{"check", written(t, "limited.json", wfOf(`{"name": "a", "timeLimitInSeconds": 9}`))},
			"names a time limit", []string{"--enforce-walltime"}},
		{input, []string{"check", dax}, "nothing to repair", []string{"--repair"}},
		{input, []string{"check", nodes}, "no workflow is among these", []string{"--catalog=c.yml",
			"--enforce-walltime", "--repair", "--kilobytes"}},
		{input, []string{"check", load}, "workflows of Pegasus", []string{"--catalog=c.yml"}},
		{input, []string{"check", nodes, load}, "nothing to repair", []string{"--repair"}},
		{input, []string{"convert", flow}, "nothing to repair", []string{"--repair"}},
		{input, []string{"convert", flow}, "none is among these", []string{"--gflops=2", "--graph=dag.dot"}},
		{input, []string{"run", "--quiet", "--dry-run", dir, "--emulate", flow}, "is in ", []string{"--inputs=."}},
		{input, append(simulated, dax, flow), "nothing to repair", []string{"--repair"}},
		{input, append(simulated, dax, flow), "no more workflows", []string{"--count=2", "--count=30"}},
		{input, append(simulated, stream), "no more workflows", []string{"--count=3"}},
		{input, append(simulated, "--policy=pds:room=never", dax), "preempts no task", []string{"--checkpoint=1MB",
			"--preempt=restart"}},
		{input, append(null, "--policy=drf", dax), "preempts no task", []string{"--preempt=restart"}},
		{usage, append(null, "--dry-run", dax), "starts nothing", []string{"--watch"}},
		{usage, append(null, "--dry-run", dax), "that is predicted", []string{"--no-prediction"}},
		{usage, append(null, dax), "without --watch", []string{"--port=0"}},
		{input, []string{"map", "--quiet", "--runtime", "null", dir, "--commands", flow}, "catalog of Pegasus",
			[]string{"--site=s"}},
		{usage, []string{"map", "--dry-run", "--runtime", "null", dir, "--commands", flow}, "starts nothing",
			[]string{"--watch"}},
		{usage, []string{"predict", "ls", dir}, "nothing is learned", []string{"--held-out=2", "--model=m"}},
		{usage, []string{"predict", "show", dir, "m"}, "nothing is learned", []string{"--small=x"}},
		{usage, []string{"queue", dir, "--tenants"}, "lists no submissions", []string{"--all"}},
		{usage, []string{"node", dir}, "goes with set", []string{"--cores=1", "--memory=1GB"}},
		{usage, []string{"node", dir, "drain", "n"}, "goes with set", []string{"--cores=1"}},
		{usage, append(simulated, "--no-log", dax), "keeps no run", []string{"--name=n"}},
		{input, []string{"serve", "--runtime", "null", dir}, "starts no containers",
			[]string{"--env=A=b", "--tmp=1MB"}},
		{usage, []string{"show", dir, "--tasks"}, "lists all tasks", []string{"--all"}},
		{usage, []string{"image", "ls"}, "kept unpacked", []string{"--force", "--archive=a.tar", "--runtime=docker"}},
		{usage, []string{"image", "build", "a", "b"}, "no list", []string{"--json"}},
		{usage, []string{"image", "build", "a", "b", "--archive=a.tar"}, "always built", []string{"--force"}},
		{usage, []string{"generate", "--list"}, "generates nothing",
			[]string{"--tasks=3", "--seed=2", "--output=f", "--fat=0.5"}},
		{usage, []string{"export", dir}, "--format wfformat", []string{"--workflow=w"}},
		{usage, []string{"report", "--save=s", "r.sqlite"}, "short form alone",
			[]string{"--out=d", "--json", "--html=f"}},
		{usage, []string{"report", "--html=f", "run"}, "figures in its file", []string{"--out=d", "--markdown"}},
		{usage, []string{"report", "--markdown", "r.sqlite"}, "no JSON", []string{"--json"}},
		{usage, []string{"report", "run"}, "--html with runs", []string{"--policies=gbf"}},
		{usage, []string{"report", "r.sqlite"}, "no log", []string{dir}},
		{usage, []string{"compare", "r.sqlite"}, "no log", []string{dir}},
		{usage, []string{"compare", "a", "b"}, "files of results", []string{"--metrics=m", "--against=cpp"}},
		{usage, []string{"simulate", "--replay=r", dir}, "--replay takes durations as they were measured",
			[]string{"--retries=2", "--site=local", "--count=1"}},
	} {
		for _, option := range c.options {
			name, _, _ := strings.Cut(option, "=")
			expect(t, c.code, []string{name + " has no effect here: ", c.why},
				append(slices.Clone(c.command), option)...)
		}
	}
	var out strings.Builder
	if err := check([]string{nodes}, checkOptions{inputs: []string{"."}, shows: true}, &out, &out); err == nil ||
		!strings.Contains(out.String(), "--inputs has no effect on this cluster file") ||
		!strings.Contains(out.String(), "--commands has no effect on this cluster file") {
		t.Errorf("%v: %s", err, out.String())
	}
	expect(t, exitOK, nil, "check", "--repair", written(t, "mended.yaml",
		"workflows: [{trace: "+written(t, "loop.dax", `<adag name="odd">
<job id="a" name="x" runtime="-1"/></adag>`)+"}]"))
	for _, option := range []string{"--disk=", "--tmp=", "--max-output=", "--cluster=", "--name=", "--on-end="} {
		name, _, _ := strings.Cut(option, "=")
		expect(t, exitUsage, []string{name + ": its value is empty"}, "run", "--dry-run", dir, option, dax)
	}
	expect(t, exitUsage, []string{"--cpus NaN: not a number"}, "run", dir, "--image=i", "--cpus=nan", "--", "true")
	expect(t, exitOK, nil, append(simulated, "--time-scale=0.5", "--size-scale=2", "--fit", "--policy=pds",
		"--checkpoint=1MB", "--preempt=restart", dax)...)
	expect(t, exitOK, nil, append(simulated, "--count=2", stream)...)
	expect(t, exitOK, nil, "check", "--enforce-walltime", written(t, "w.makeflow", "WALL_TIME=9\no:\n\ttrue\n"))
	expect(t, exitOK, nil, append(simulated, "--repair", dax, written(t, "odd.dax", `<adag name="odd">
<job id="a" name="x" runtime="-1"/></adag>`))...)
	empty := written(t, "empty.dax", `<adag version="2.1" name="none"></adag>`)
	expect(t, exitOK, nil, append(null, "--image=some", empty)...)
	expect(t, exitOK, nil, append(simulated, "--name=n", "--no-log=false", "--repair=false", dax)...)
	for _, value := range []string{"", "x"} { // it is for whatever has a use for it
		t.Setenv("GANTRY_DIR", value)
		expect(t, exitInput, []string{"r.sqlite: "}, "compare", "r.sqlite")
		expect(t, exitUsage, []string{"--dir has no effect here: files of results"}, "compare", "--dir=y", "r.sqlite")
	}
}

// Help is that of the command wherever it is asked for, but for what follows --.
func TestHelpIsFoundBehindArguments(t *testing.T) {
	for _, args := range [][]string{{"show", "g1", "--help"}, {"explain", "r", "t", "-h"},
		{"run", "x.makeflow", "--dir", "d", "--help"}, {"submit", "x", "--help", "--", "y"}} {
		out := expect(t, exitOK, []string{"Usage: gantry " + args[0]}, args...)
		if strings.Contains(out, "topic") {
			t.Errorf("%q: %s", args, out)
		}
	}
	code, out, errs := invoke(t, "submit", "--dir="+t.TempDir(), "--", "sort", "--help")
	if code == exitOK || strings.Contains(out, "Usage:") {
		t.Errorf("--help of a command is taken: %d, %s%s", code, out, errs)
	}
}

// Names and messages of others neither act on a terminal nor look like lines of gantry's own.
func TestNamesCannotForgeALine(t *testing.T) {
	const forged = "gantry: all 9 tasks succeeded"
	evil := func(name string) string { return name + "\n" + forged + "\x1b[2J\r\u202e\xff" }
	dir := newLog(t, func(db *sqlite.DB) {
		l := logtest.New(t, db, logtest.Info("able-curie-2222"))
		first := l.Arrive(0, evil("flow"), []string{evil("split"), evil("work") + strings.Repeat("x", 300)},
			[][]int32{nil, {0}})
		a := l.Start(0, first, 1, 0, 2*time.Second)
		l.Exit(2*logtest.Second, a, planner.ExitCode, 3, evil("exit code 3\nits last lines:"))
		must(t, l.Warn("some", evil("a warning")))
		must(t, l.Finish(t.Context(), sqlite.Failed, 1))
	})
	trace := written(t, "evil.json", `{"name": "e\n`+forged+`", "schemaVersion": "1.5", "workflow": {"specification": {
		"tasks": [{"name": "n\n`+forged+`", "id": "a\n`+forged+`\u001b[2J", "children": ["none\n`+forged+`"], "parents": [],
			"inputFiles": ["f\n`+forged+`"]}], "files": [{"id": "f\n`+forged+`", "sizeInBytes": -3}]}}}`)
	known := written(t, "known.json", wfOf(`{"name": "n\n`+forged+`", "id": "a", "command": "true"}`))
	for _, args := range [][]string{{"show"}, {"show", "--tasks"}, {"show", "--all"}, {"show", "--json"}, {"ls"},
		{"check", "no\n" + forged}, {"run", "--runtime", "null", "--dry-run", "--image", "i", known},
		{"explain", "able-curie-2222", "#0"}, {"explain", "able-curie-2222", "#1"}, {"explain", "able-curie-2222",
			"no\n" + forged}, {"analyze"}, {"statistics"}, {"report", "able-curie-2222"},
		{"logs", "able-curie-2222", "#0"},
		{"show", "x\n" + forged}, {"check", trace}, {"check", "--json", trace}, {"simulate", trace},
		{"run", "--runtime", "null", "--dry-run", "--repair", trace}, {"cancel", "x\n" + forged}} {
		if args[0] != "check" {
			args = append(args, "--dir="+dir)
		}
		_, out, errs := invoke(t, args...)
		for _, line := range strings.Split(out+"\n"+errs, "\n") {
			if strings.HasPrefix(line, forged) || strings.ContainsFunc(line, shown.Hidden) {
				t.Errorf("gantry %q prints the line %q", args, line)
			}
			if args[0] == "show" && len(line) > 1500 && args[len(args)-2] != "--json" {
				t.Errorf("gantry %q prints a line of %d bytes", args, len(line))
			}
		}
	}
	for _, args := range [][]string{{"analyze"}, {"explain", "able-curie-2222", "#0"}} { // for a shell to paste
		if _, out, _ := invoke(t, append(args, "--dir="+dir)...); !strings.Contains(out, `split\n`+forged+`\x1b[2J\r`) {
			t.Errorf("gantry %q names the task otherwise:\n%s", args, out)
		}
	}
}
