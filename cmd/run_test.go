package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"gantry/executor/container/docker"
	"gantry/sqlite"
	"gantry/sqlite/report/summary"
)

const oneTask = `<adag version="2.1" name="one"><job id="a" name="x" runtime="2"/></adag>`

var askedDocker = sync.OnceValue(func() error {
	cli, err := docker.Connect(context.Background(), "")
	if err == nil {
		cli.Close()
	}
	return err
})

// needsDocker skips a test of containers where there are none.
func needsDocker(t *testing.T) {
	t.Helper()
	if err := askedDocker(); err != nil {
		t.Skipf("needs a Docker Engine: %v", err)
	}
	needsTask(t)
}

func needsTask(t *testing.T) {
	t.Helper()
	if _, err := docker.FindTaskBinary(); err != nil {
		t.Skipf("needs the emulator for containers (make build): %v", err)
	}
}

func TestEveryRefusalHasItsExitCode(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"good.dax":   oneTask,
		"cycle.dax":  `<adag version="2.1" name="c"><job id="a" name="x" runtime="1"/><job id="b" name="x" runtime="1"/><child ref="a"><parent ref="b"/></child><child ref="b"><parent ref="a"/></child></adag>`,
		"etc.dax":    `<adag version="2.1" name="e"><job id="a" name="x" runtime="1"><uses file="/etc/passwd" link="output" size="1"/></job></adag>`,
		"up.dax":     `<adag version="2.1" name="u"><job id="a" name="x" runtime="1"><uses file="../etc/passwd" link="input" size="1"/></job></adag>`,
		"wide.dax":   `<adag version="2.1" name="w"><job id="a" name="x" runtime="1" cores="4000"/></adag>`,
		"huge.yaml":  "name: huge\nnodes:\n  - {name: n, cores: 4000, memory: 1GB}\n",
		"typo.yaml":  "name: typo\nnodes:\n  - {name: n, coers: 1}\n",
		"nothing.md": "# no workflow\n",
		"two.dax": `<adag version="2.1" name="t"><job id="a" name="x" runtime="1"/><job id="b" name="x" runtime="1"/>
			</adag>`,
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	home := "--dir=" + filepath.Join(dir, "runs")
	for _, c := range []struct {
		want  int
		words []string
		args  []string
	}{
		{exitUsage, []string{"unknown command \"fly\"", "simulate"}, []string{"fly"}},
		{exitUsage, []string{"-nonsense", "gantry run --help"}, []string{"run", "--nonsense"}},
		{exitUsage, []string{"no workflow given"}, []string{"run", home}},
		{exitUsage, []string{"choose one of gbf, cpp", "heft"}, []string{"simulate", home, "--policy", "best",
			at("good.dax")}},
		{exitUsage, []string{"--reject-late", "edf", "rm-dcwf, mrcp-rm or fifo"}, []string{"simulate", home,
			"--reject-late", "--policy", "edf", at("good.dax")}},
		{exitUsage, []string{"--retry flood=1"}, []string{"simulate", home, "--retry", "flood=1", at("good.dax")}},
		{exitUsage, []string{"--name"}, []string{"simulate", home, "--name", "../x", at("good.dax")}},
		{exitInput, []string{"missing.dax"}, []string{"simulate", home, at("missing.dax")}},
		{exitInput, []string{"cycle"}, []string{"simulate", home, at("cycle.dax")}},
		{exitInput, []string{"nothing.md"}, []string{"simulate", home, at("nothing.md")}},
		{exitInput, []string{`"/etc/passwd"`}, []string{"run", home, at("etc.dax")}},
		{exitInput, []string{`"../etc/passwd"`}, []string{"run", home, at("up.dax")}},
		{exitInput, []string{"needs 4000 cores", "--fit"}, []string{"simulate", home, at("wide.dax")}},
		{exitInput, []string{"4000 cores", "--oversubscribe"}, []string{"run", home, "--cluster", at("huge.yaml"),
			at("good.dax")}},
		{exitInput, []string{"coers", "cores", "line 3"}, []string{"simulate", home, "--cluster", at("typo.yaml"),
			at("good.dax")}},
		{exitInput, []string{"2 tasks (workflows: 1), more than its bound of 1", "choose rm-dcwf"}, []string{"simulate",
			home, "--no-log", "--policy", "mrcp-rm:tasks=1", at("two.dax")}},
		{exitInput, []string{"there is no log"}, []string{"resume", home}},
	} {
		expect(t, c.want, c.words, c.args...)
	}
	if _, err := os.Stat(filepath.Join(dir, "runs")); err == nil {
		t.Error("a refused run left a directory")
	}
}

func TestSimulateTellsTheMakespan(t *testing.T) {
	dir := writeFiles(t, map[string]string{"one.dax": oneTask})
	out := expect(t, exitOK, nil, "simulate", "--json", "--dir", filepath.Join(dir, "runs"),
		filepath.Join(dir, "one.dax"))
	var s summary.Run
	if err := json.Unmarshal([]byte(out), &struct {
		Makespan *float64 `json:"makespan_s"`
		State    *sqlite.State
	}{new(float64), &s.State}); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if !strings.Contains(out, `"makespan_s":2,`) || s.State != sqlite.Finished {
		t.Fatalf("not a finished run of 2 s:\n%s", out)
	}
	expect(t, exitOK, []string{"(not in the workflow, imputed: cores, memory, avg-cpu, command, disk)"}, "explain",
		"--dir", filepath.Join(dir, "runs"), "a")
	expect(t, exitOK, []string{"makespan 2s", "1 task of 1 workflow"}, "simulate", "--no-log",
		filepath.Join(dir, "one.dax"))
	expect(t, exitOK, []string{"makespan 1s"}, "simulate", "--no-log", "--time-scale", "0.5",
		filepath.Join(dir, "one.dax"))
}

// locked makes a file and holds its lock, as another gantry does, until the file is closed.
func locked(t *testing.T, path string) *os.File {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.Create(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	return f
}

func TestARunHeldByAnotherGantryIsRefused(t *testing.T) {
	dir := writeFiles(t, map[string]string{"one.dax": oneTask})
	home := filepath.Join(dir, "runs")
	held := filepath.Join(home, "mine")
	f := locked(t, filepath.Join(held, "lock"))
	fmt.Fprint(f, "4711")
	expect(t, exitHeld, []string{"held by another gantry", "4711"}, "run", "--runtime", "null", "--dir", home, "--name",
		"mine", filepath.Join(dir, "one.dax"))
	// Whoever deletes the file lets nobody in.
	second, err := os.Open(held)
	must(t, err)
	defer second.Close()
	must(t, errors.Join(unix.Flock(int(second.Fd()), unix.LOCK_EX), os.Remove(f.Name())))
	expect(t, exitHeld, []string{"held by another gantry"}, "run", "--runtime", "null", "--dir", home, "--name", "mine",
		filepath.Join(dir, "one.dax"))
	second.Close()
	f.Close() // the lock ends with its holder: nothing has to be cleared by hand
	expect(t, exitOK, []string{"finished"}, "run", "--runtime", "null", "--dir", home, "--name", "mine",
		filepath.Join(dir, "one.dax"))
	expect(t, exitInput, []string{"there is a run \"mine\" already"}, "run", "--runtime", "null", "--dir", home,
		"--name", "mine", filepath.Join(dir, "one.dax"))
}

func TestFailedTasksMakeTheExitCode(t *testing.T) {
	beside(t)
	needsDocker(t)
	dir := writeFiles(t,
		map[string]string{"missing.json": wfOf(`{"name": "a", "runtime": 0.1, "command": {"program": "absent"},
		"image": "gantry/busybox"}, {"name": "b", "parents": ["a"], "runtime": 0.1}, {"name": "c", "runtime": 0.1}`)})
	home := filepath.Join(dir, "runs")
	code, out, errs := invoke(t, "run", "--dir", home, filepath.Join(dir, "missing.json"))
	if code != exitTasksFailed {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	if strings.Contains(errs, "emulated") {
		t.Errorf("tasks without a command are emulated without further ado:\n%s", errs)
	}
	// The independent task c ran all the same; b was skipped. Another try would not find the program either.
	for _, w := range []string{"attempt 1 of a ended: exit-code; it failed for good",
		"absent"} {
		if !strings.Contains(errs+out, w) {
			t.Errorf("%q is not said:\n%s%s", w, out, errs)
		}
	}
	if out := expect(t, exitOK, nil, "show", "--json", "--dir", home); !strings.Contains(out, `"done":1,`) ||
		!strings.Contains(out, `"skipped":1,`) {
		t.Errorf("not one done and one skipped:\n%s", out)
	}
}

// No block I/O limit can be had on a file system in memory.
func TestARunThatWasTooStrictGoesOnWithoutThat(t *testing.T) {
	beside(t)
	needsDocker(t)
	home, err := os.MkdirTemp("/dev/shm", "gantry-strict")
	if err != nil {
		t.Skipf("needs a file system in memory, a directory of the host's that Docker sees: %v", err)
	}
	defer os.RemoveAll(home)
	dir := writeFiles(t, map[string]string{"one.dax": oneTask})
	said := []string{"block I/O limits are not enforced", "--strict"}
	expect(t, exitHost, said, "run", "--strict", "--dir", home, "--name", "mine", "--time-scale", "0.01",
		filepath.Join(dir, "one.dax"))
	expect(t, exitHost, said, "resume", "--dir", home, "mine")
	if code, out, errs := invoke(t, "resume", "--strict=false", "--dir", home, "mine"); code != exitOK ||
		!strings.Contains(out, "finished") ||
		strings.Count(out+errs, said[0]) != 1 {
		t.Errorf("exit %d, not one warning:\n%s%s", code, out, errs)
	}
}

// A task that has a command runs it, or nothing runs: exit 3 before there is a run.
func TestACommandRunsOrTheRunIsRefused(t *testing.T) {
	workflow := func(task, execution string) string {
		return `{"name":"w","schemaVersion":"1.5","workflow":{"specification":{"tasks":[{"name":"b","id":"b"},
		` + task + `],"files":[]},"execution":{"tasks":[{"id":"b","runtimeInSeconds":0.1},
		` + execution + `]}}}`
	}
	dir := writeFiles(t, map[string]string{
		"image.json": workflow(`{"name":"upper","id":"upper"}`,
			`{"id":"upper","runtimeInSeconds":0.1,"command":"false"}`),
		"stray.json": workflow(`{"name":"upper","id":"upper"}`,
			`{"id":"uper","image":"gantry/busybox","command":"false"}`)})
	for file, said := range map[string][]string{
		"image.json": {"1 task with a command but no image", "upper (line 2)", "--image", "--emulate"},
		"stray.json": {"stray.json:3", `"uper"`, "did you mean upper?", "--emulate"},
	} {
		runs := filepath.Join(dir, "runs-"+file)
		expect(t, exitInput, said, "run", "--dir", runs, filepath.Join(dir, file))
		if _, err := os.Stat(runs); err == nil {
			t.Errorf("%s: refused, but %s is there", file, runs)
		}
		expect(t, exitOK, nil, "check", filepath.Join(dir, file))
		expect(t, exitOK, nil, "simulate", "--dir", runs, filepath.Join(dir, file))
	}
	needsOCI(t)
	needsTask(t)
	expect(t, exitOK, []string{"finished"}, "run", "--emulate", "--runtime", "oci", "--dir", filepath.Join(dir, "runs"),
		filepath.Join(dir, "stray.json"))
}

// Commands get variables, secrets and directories from the command line. A secret is in a file for the program, and
// nowhere else.
func TestVariablesSecretsAndMounts(t *testing.T) {
	needsDocker(t)
	const secret = "swordfish-7391"
	beside(t, "TOKEN="+secret, "FROM_HERE=here")
	dir := writeFiles(t, map[string]string{"vars": "# comment\nA=file\nB=file\n", "key": "second-secret-55\n",
		"Makeflow": `export C=flow
out:
	(env; cat /run/secrets/TOKEN /ref/key /ref/data.txt; id -u; ls -l /run/secrets) > out

bad:
	cat /run/secrets/TOKEN >&2; touch /ref/x; exit 3
`})
	runs := filepath.Join(dir, "runs")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "ref"), 0o755),
		os.WriteFile(filepath.Join(dir, "ref", "data.txt"), []byte("reference\n"), 0o644),
		os.Symlink("/run/secrets/key", filepath.Join(dir, "ref", "key"))); err != nil { // where the container has it
		t.Fatal(err)
	}
	expect(t, exitTasksFailed, nil, "run", "--dir", runs, "--name", "r", "--image", "gantry/busybox", "--env-file",
		filepath.Join(dir, "vars"), "--env", "B=flag", "--env", "FROM_HERE", "--env", "C=over", "--secret", "TOKEN",
		"--secret", "key="+filepath.Join(dir, "key"), "--mount", filepath.Join(dir, "ref")+":/ref:ro",
		filepath.Join(dir, "Makeflow"))
	out, err := os.ReadFile(filepath.Join(runs, "r", "results", "Makeflow", "out"))
	must(t, err)
	for _, want := range []string{"A=file\n", "B=flag\n", "C=over\n", "FROM_HERE=here\n", secret, "second-secret-55",
		"reference\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the command does not see %q:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "TOKEN=") {
		t.Error("the secret is in the environment")
	}
	said := expect(t, exitOK, []string{"/ref"}, "export", "--dir", runs, "--format", "json", "r") +
		expect(t, exitOK, []string{"***"}, "explain", "--dir", runs, "r", "bad")
	log, err := os.ReadFile(filepath.Join(runs, sqlite.FileName))
	must(t, err)
	if strings.Contains(said, secret) || bytes.Contains(log, []byte(secret)) {
		t.Error("the secret is in an export, a message or the log")
	}
	if left, _ := filepath.Glob("/dev/shm/gantry-r-*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for _, c := range []saying{
		{exitUsage, "not set in gantry's environment", []string{"--env", "NOT_SET_ANYWHERE"}},
		{exitInput, "vars2", []string{"--env-file", filepath.Join(dir, "vars2")}},
		{exitInput, "NOT_SET_ANYWHERE is not set", []string{"--secret", "NOT_SET_ANYWHERE"}},
		{exitUsage, "a name has letters", []string{"--secret", "../x"}},
		{exitInput, "read-only", []string{"--mount", dir + ":/x:rw"}},
		{exitInput, "no such file", []string{"--mount", dir + "/none:/x:ro"}},
		{exitInput, "absolute path", []string{"--mount", dir + ":/proc/x"}},
		{exitInput, "below /dev, where nothing is read", []string{"--mount", "/:/host"}},
	} {
		expect(t, c.code, []string{c.says}, append([]string{"run", "--dir", runs, "--name", "n", "--image",
			"gantry/busybox", filepath.Join(dir, "Makeflow")}, c.args...)...)
	}
}

// What sudo made as root belongs to who called sudo, who continues without it.
func TestTheLogBelongsToWhoCalledSudo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	t.Setenv("SUDO_UID", "12345")
	t.Setenv("SUDO_GID", "12345")
	dir := writeFiles(t, map[string]string{"one.dax": oneTask})
	home := filepath.Join(dir, "runs")
	expect(t, exitOK, nil, "run", "--runtime=null", "--name=r", "--dir="+home, filepath.Join(dir, "one.dax"))
	for _, path := range []string{home, filepath.Join(home, sqlite.FileName), filepath.Join(home, "r"),
		filepath.Join(home, "r",
			"lock")} {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil || st.Uid != 12345 || st.Gid != 12345 {
			t.Errorf("%s belongs to %d:%d, %v", path, st.Uid, st.Gid, err)
		}
	}
}

// What a run prints does not grow with it: a thousand tasks, each of a type of its own, or with deadlines and tenants,
// in 50 lines.
func TestAThousandTasksFitFiftyLines(t *testing.T) {
	var jobs strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&jobs, `<job id="j%d" name="type%d" runtime="1"/>`, i, i)
	}
	dir := writeFiles(t, map[string]string{"c.yaml": "nodes: [{name: n, count: 100, cores: 4}]\n",
		"bag.dax": `<adag version="2.1" name="bag">` + jobs.String() + `</adag>`,
		"w.yaml": "count: 40\nmix: [{generator: montage}]\ntasks: 25\narrivals: {process: batch}\ntenants: [{name: " +
			"a}, {name: b}]\ndeadlines: {factor: 2..5}\n"})
	for _, args := range [][]string{{"run", "--runtime", "null", "--oversubscribe", "bag.dax"}, {"simulate", "w.yaml"},
		{"simulate", "--policy", "rm-dcwf", "w.yaml"}, {"simulate", "--policy", "3dsf", "w.yaml"}} {
		file := len(args) - 1
		args = append(args[:file:file], "--dir", filepath.Join(dir, "runs"), "--cluster", filepath.Join(dir, "c.yaml"),
			filepath.Join(dir, args[file]))
		code, out, errs := invoke(t, args...)
		if n := strings.Count(out+errs, "\n"); code != exitOK || n > 50 ||
			!strings.Contains(out, "1000 tasks of 1000 done") {
			t.Errorf("%v: exit %d, %d lines:\n%s%s", args, code, n, errs, out)
		}
	}
}
