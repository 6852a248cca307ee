package cmd

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gantry/cmd/internal/session"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

// shellTask is a task of a workflow of commands.
type shellTask struct{ id, in, out, command string }

// shellFlow writes a WfFormat workflow of commands in the image of the examples.
func shellFlow(t *testing.T, path string, steps ...shellTask) string {
	t.Helper()
	type m = map[string]any
	var tasks, execution []m
	files := map[string]bool{}
	for _, s := range steps {
		tasks = append(tasks, m{"name": strings.TrimRight(s.id, "0123456789"), "id": s.id,
			"inputFiles": strings.Fields(s.in), "outputFiles": strings.Fields(s.out)})
		execution = append(execution, m{"id": s.id, "command": s.command, "image": "gantry/busybox"})
		for _, f := range strings.Fields(s.in + " " + s.out) {
			files[f] = true
		}
	}
	var list []m
	for f := range files {
		list = append(list, m{"id": f})
	}
	text, err := json.Marshal(m{"name": "flow", "schemaVersion": "1.5", "workflow": m{
		"specification": m{"tasks": tasks, "files": list}, "execution": m{"tasks": execution}}})
	must(t, err)
	must(t, os.WriteFile(path, text, 0o644))
	return path
}

// cliTest is a directory of runs and gantry in it.
type cliTest struct {
	*testing.T
	dir string
}

func (c cliTest) gantry(want int, args ...string) (out, errs string) {
	c.Helper()
	if args[0] == "run" && !slices.Contains(args, "--runtime") {
		args = slices.Insert(args, 1, "--runtime", "oci") // whose containers cost least
	}
	code, out, errs := invoke(c.T, slices.Insert(args, 1, "--dir="+filepath.Join(c.dir, "runs"))...)
	if code != want {
		if code == exitTasksFailed {
			_, last, _ := invoke(c.T, "show", "--dir", filepath.Join(c.dir, "runs"))
			out += last // it says which tasks failed, and how
		}
		c.Fatalf("gantry %s: exit %d, want %d\n%s%s", strings.Join(args, " "), code, want, out, errs)
	}
	return out, errs
}

func (c cliTest) read(path ...string) string {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{c.dir, "runs"}, path...)...))
	must(c, err)
	return string(text)
}

func (c cliTest) write(path, text string) string {
	c.Helper()
	path = filepath.Join(c.dir, path)
	must(c, os.MkdirAll(filepath.Dir(path), 0o755))
	must(c, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// sql changes the log.
func (c cliTest) sql(statement string) {
	c.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(c.dir, "runs", sqlite.FileName))
	if err == nil {
		_, err = db.Exec(statement)
		db.Close()
	}
	must(c, err)
}

// reused runs a workflow with --reuse and returns the tasks that ran.
func (c cliTest) reused(name, flow, inputs string, more ...string) (ran []string) {
	c.Helper()
	return c.ran(append(more, "--reuse", "--inputs", inputs, "--name", name, flow)...)
}

// ran runs a workflow whose name follows --name, and returns the tasks that ran.
func (c cliTest) ran(args ...string) (ran []string) {
	c.Helper()
	name := args[slices.Index(args, "--name")+1]
	c.gantry(exitOK, append([]string{"run", "-q"}, args...)...)
	out, _ := c.gantry(exitOK, "export", name, "--format", "json")
	var all struct {
		Tasks []struct {
			Task   string  `json:"task"`
			State  string  `json:"state"`
			Reused *string `json:"reused_from"`
		}
	}
	must(c, json.Unmarshal([]byte(out), &all))
	for _, t := range all.Tasks {
		if t.State != "done" {
			c.Errorf("run %s: task %s is %s", name, t.Task, t.State)
		}
		if t.Reused == nil {
			ran = append(ran, t.Task)
		}
	}
	return ran
}

var askedBusybox = sync.OnceValue(func() error {
	return exec.Command("docker", "image", "inspect", "gantry/busybox").Run()
})

func needsBusybox(t *testing.T) {
	t.Helper()
	needsDocker(t)
	if askedBusybox() != nil {
		t.Skip("needs the image gantry/busybox (make images)")
	}
}

// needsCheap is needsBusybox for a test whose containers are without a daemon, as it is the same with one.
func needsCheap(t *testing.T) {
	t.Helper()
	needsBusybox(t)
	needsOCI(t)
}

// Nothing is computed twice: each change runs what it concerns and nothing else, and gantry says why.
func TestResultsAreReused(t *testing.T) {
	beside(t)
	needsCheap(t)
	c := cliTest{t, t.TempDir()}
	in := filepath.Dir(c.write("in/text.txt", "to be or not to be\n"))
	c.write("in/mode.txt", "fast\n")
	other := filepath.Dir(c.write("other/mode.txt", "slow\n"))
	c.write("other/text.txt", "to be or not to be\n")
	steps := []shellTask{{"stays", "text.txt", "stays.txt", "wc -w <text.txt >stays.txt"},
		{"input", "mode.txt", "input.txt", "cat mode.txt >input.txt"},
		{"removed", "text.txt", "removed.txt", "wc -w <text.txt >removed.txt"},
		{"truncated", "text.txt", "truncated.txt", "wc -w <text.txt >truncated.txt"},
		{"edited", "text.txt", "edited.txt", "wc -w <text.txt >edited.txt"},
		{"command", "text.txt", "command.txt", "tr a-z A-Z <text.txt >command.txt"},
		{"after", "command.txt removed.txt", "after.txt", "cat command.txt removed.txt >after.txt"}}
	flow := shellFlow(t, filepath.Join(c.dir, "flow.json"), steps...)
	why := func(name, task, want string) {
		t.Helper()
		if out, _ := c.gantry(exitOK, "explain", name, task); !strings.Contains(out, want) {
			t.Errorf("run %s: explain does not say %q:\n%s", name, want, out)
		}
	}
	c.reused("first", flow, in)
	there := filepath.Join(c.dir, "runs/first/nodes/host/flow")
	must(t, errors.Join(os.Remove(filepath.Join(there, "removed.txt")),
		os.Truncate(filepath.Join(there, "truncated.txt"), 0)))
	c.write("runs/first/nodes/host/flow/edited.txt", "7\n")
	steps[5].command = "cat text.txt | tr a-z A-Z >command.txt" // writes the same: nothing after it runs
	flow = shellFlow(t, flow, steps...)
	ran := c.reused("changed", flow, other)
	slices.Sort(ran)
	if got := strings.Join(ran, " "); got != "command edited input removed truncated" {
		t.Errorf("%s ran", got)
	}
	for task, want := range map[string]string{"input": "its input mode.txt changed", "command": "its command changed",
		"removed": "its output removed.txt was deleted there", "truncated": "it has 0 bytes in place of 2",
		"edited": "edited.txt was changed there since"} {
		why("changed", task, want)
	}
	if got := c.read("changed/results/flow/after.txt"); got != "TO BE OR NOT TO BE\n6\n" {
		t.Errorf("the result is %q", got)
	}
	c.gantry(exitOK, "simulate", "-q", "--replay", "changed", "--name", "replayed")
	runs := "--dir=" + filepath.Join(c.dir, "runs")
	if first, again := makespan(t, runs, "changed"), makespan(t, runs, "replayed"); first != again {
		t.Errorf("with reused results a run takes %v s, and %v s when it is replayed", first, again)
	}
	load := c.write("load.yaml", "reuse: true\nworkflows:\n  - {trace: flow.json, inputs: other}\n")
	if ran := c.ran("--name", "same", load); len(ran) > 0 {
		t.Errorf("nothing changed, and %v ran", ran)
	}
	if out, _ := c.gantry(exitOK, "show", "same"); !strings.Contains(out, "7 tasks reused") {
		t.Errorf("show says nothing of reused tasks:\n%s", out)
	}
	if out, _ := c.gantry(exitOK, "show", "--tasks", "same"); strings.Count(out, " reused ") != 7 {
		t.Errorf("show --tasks:\n%s", out)
	}
	for format, mark := range map[string]string{"trace": "CACHED", "wfformat": `"reusedFrom":"`} {
		if out, _ := c.gantry(exitOK, "export", "same", "--format", format); strings.Count(out, mark) != 7 {
			t.Errorf("%s has no 7 reused tasks:\n%s", format, out)
		}
	}
	one := shellFlow(t, flow, steps[0])
	if ran := c.reused("variable", one, other, "--env", "LEVEL=2"); len(ran) != 1 {
		t.Errorf("with another environment %v ran", ran)
	}
	why("variable", "stays", "its environment changed")
	c.sql("UPDATE images SET id = 'sha256:0'") // as if the tag had named another image then
	if ran := c.reused("image", one, other); len(ran) != 1 {
		t.Errorf("with another image %v ran", ran)
	}
	why("image", "stays", "its image gantry/busybox changed from")
}

// A failed run is continued with the corrected workflow, several times; what is unchanged stays.
func TestAFailedRunIsContinuedWithTheCorrectedWorkflow(t *testing.T) {
	beside(t)
	needsCheap(t)
	c := cliTest{t, t.TempDir()}
	in := filepath.Dir(c.write("in/text.txt", "to be or not to be\n"))
	steps := []shellTask{{"upper", "text.txt", "upper.txt", "tr a-z A-Z <text.txt >upper.txt"},
		{"words", "upper.txt", "words.txt", "wcc -w <upper.txt >words.txt"},
		{"all1", "words.txt", "all.txt", "cat words.txt words.txt >all.txt"}}
	flow := shellFlow(t, filepath.Join(c.dir, "flow.json"), steps...)
	c.gantry(exitTasksFailed, "run", "-q", "--inputs", in, "--name", "r", "--on-end",
		"echo $GANTRY_RUN $GANTRY_STATE $GANTRY_FAILED >>"+filepath.Join(c.dir, "ends")+"; exit 5", flow)
	before := c.read("r", "work", "flow/words-1/.command.err")
	_, errs := c.gantry(exitTasksFailed, "resume", "r")
	if !strings.Contains(errs, "words runs: it had failed") || !strings.Contains(errs, "1 task kept, 2 to run") ||
		strings.Contains(errs, "has changed") {
		t.Errorf("resume says:\n%s", errs)
	}
	shellFlow(t, flow, steps...)
	_, errs = c.gantry(exitTasksFailed, "resume", "r")
	if !strings.Contains(errs, flow+" has changed since flow failed") || !strings.Contains(errs, "r --with "+flow) {
		t.Errorf("resume of a run whose file was written since says\n%s", errs)
	}
	c.gantry(exitInput, "resume", "r", "--with", c.write("wrong.json", "{"))
	for _, option := range []string{"--site=s", "--catalog=c.yml", "--enforce-walltime", "--container-mounts",
		"--repair"} {
		_, errs := c.gantry(exitInput, "resume", "r", option, "--with", flow)
		if !strings.Contains(errs, "has no effect") {
			t.Errorf("%s: %s", option, errs)
		}
	}
	steps[1].command = "wc -w <upper.txt >words.txt"
	right := shellFlow(t, filepath.Join(c.dir, "right.json"), steps...)
	_, errs = c.gantry(exitOK, "resume", "r", "--with", right)
	if !strings.Contains(errs, `words runs: its command changed from "wcc`) {
		t.Errorf("resume --with says:\n%s", errs)
	}
	if got := c.read("r/results/flow/all.txt"); got != "6\n6\n" {
		t.Errorf("the result is %q", got)
	}
	if c.read("r", "work", "flow/words-1/.command.err") != before {
		t.Error("the first attempt's output is gone")
	}
	c.gantry(exitInput, "resume", "r")
	steps[2].command = "cat words.txt >all.txt"
	c.gantry(exitOK, "resume", "r", "--with", shellFlow(t, right, steps...))
	if got := c.read("r/results/flow/all.txt"); got != "6\n" {
		t.Errorf("the result of the second correction is %q", got)
	}
	c.write("in/text.txt", "to be\n")
	c.gantry(exitOK, "resume", "r", "--with", right)
	if got := c.read("r/results/flow/all.txt"); got != "2\n" {
		t.Errorf("the result of the corrected input is %q", got)
	}
	out, _ := c.gantry(exitOK, "show", "--tasks", "r")
	if strings.Count(out, "done") != 3 || strings.Contains(out, "continued") {
		t.Errorf("tasks are\n%s", out)
	}
	if err := logtest.Check(t.Context(), filepath.Join(c.dir, "runs", sqlite.FileName)); err != nil {
		t.Error(err)
	}
	out, _ = c.gantry(exitOK, "explain", "r", "words")
	for _, want := range []string{"attempt 1: exit code 127", "the run was continued: the task runs, as it had failed",
		"attempt 4: ok", "its results stay", "as task upper before it runs", "attempt 5: ok"} {
		if !strings.Contains(out, want) {
			t.Errorf("explain does not say %q:\n%s", want, out)
		}
	}
	c.gantry(exitOK, "logs", "r", "all") // by its transformation
	_, errs = c.gantry(exitInput, "logs", "r", "wrods")
	if !strings.Contains(errs, "did you mean words?") {
		t.Errorf("no near name: %s", errs)
	}
	ends, _ := os.ReadFile(filepath.Join(c.dir, "ends"))
	if want := "r failed 2\nr failed 2\nr failed 2\nr finished 0\nr finished 0\nr finished 0\n"; string(ends) != want {
		t.Errorf("--on-end wrote %q, want %q", ends, want)
	}
}

// A continued run keeps all that a later one needs to compare its tasks, however often it was continued.
func TestResultsOfAContinuedRunAreReused(t *testing.T) {
	beside(t)
	needsCheap(t)
	c := cliTest{t, t.TempDir()}
	in := filepath.Dir(c.write("in/numbers.txt", "3\n1\n2\n"))
	c.write("in/mode.txt", "wait\n")
	steps := []shellTask{{"sort", "numbers.txt", "sorted.txt", "sort -n numbers.txt >sorted.txt"},
		{"last", "sorted.txt mode.txt", "last.txt", "grep go mode.txt && tail -n1 sorted.txt >last.txt"},
		{"sum", "last.txt sorted.txt", "sum.txt", "catt last.txt sorted.txt >sum.txt"}}
	flow := shellFlow(t, filepath.Join(c.dir, "flow.json"), steps...)
	c.gantry(exitTasksFailed, "run", "-q", "--inputs", in, "--name", "r", flow)
	c.write("in/mode.txt", "go\n")
	c.gantry(exitTasksFailed, "resume", "-q", "r") // last succeeds now, and sum does not
	c.gantry(exitTasksFailed, "run", "-q", "--reuse", "--inputs", in, "--name", "failed", flow)
	if out, _ := c.gantry(exitOK, "show", "--tasks", "failed"); strings.Count(out, " reused ") != 2 {
		t.Errorf("after resume of a failed run not both tasks that succeeded are reused:\n%s", out)
	}
	steps[2].command = "cat last.txt sorted.txt >sum.txt"
	flow = shellFlow(t, flow, steps...)
	c.gantry(exitOK, "resume", "-q", "r", "--with", flow)
	if ran := c.reused("right", flow, in); len(ran) > 0 {
		t.Errorf("after resume --with %v ran", ran)
	}
	steps[2].command = "cat sorted.txt last.txt >sum.txt"
	flow = shellFlow(t, flow, steps...)
	c.gantry(exitOK, "resume", "-q", "right", "--with", flow)
	for _, run := range []string{"r", "failed"} {
		c.gantry(exitOK, "rm", run)
	}
	if ran := c.reused("again", flow, in); len(ran) > 0 {
		t.Errorf("after another resume --with, of a run that took over all, %v ran", ran)
	}
}

// Changed mounts and secrets have the tasks run that see them, and gantry says why.
func TestMountsAndSecretsDecideOnReuse(t *testing.T) {
	beside(t)
	needsCheap(t)
	c := cliTest{t, t.TempDir()}
	in := filepath.Dir(c.write("in/text.txt", "to be\n"))
	ref := filepath.Dir(c.write("ref 12:/30/genome", "ACGT\n"))
	flow := shellFlow(t, filepath.Join(c.dir, "flow.json"),
		shellTask{"both", "text.txt", "both.txt",
			"cat text.txt /ref/genome >both.txt; wc -c </run/secrets/KEY >>both.txt"})
	given := func(secret string) []string {
		return []string{"--mount", ref + ":/ref:ro", "--secret", "KEY=" + c.write("key", secret)}
	}
	time.Sleep(50 * time.Millisecond) // a mount that changed just before its task began counts as changed meanwhile
	c.gantry(exitOK, append([]string{"run", "-q", "--inputs", in, "--name", "first", flow}, given("a")...)...)
	for _, x := range []struct {
		name, secret, why string
		change            func()
	}{
		{name: "same", secret: "a"},
		{name: "content", secret: "a", why: "its mount " + ref + " changed at",
			change: func() { c.write("ref 12:/30/genome", "ACGA\n") }},
		{name: "touched", secret: "a",
			change: func() { os.Chtimes(filepath.Join(ref, "genome"), time.Now(), time.Now()) }},
		{name: "secret", secret: "b", why: "its mounts or secrets changed"},
	} {
		if x.change != nil {
			x.change()
		}
		ran := c.reused(x.name, flow, in, given(x.secret)...)
		if (len(ran) > 0) != (x.why != "") {
			t.Errorf("run %s: %v ran", x.name, ran)
		}
		if out, _ := c.gantry(exitOK, "explain", x.name, "both"); !strings.Contains(out, x.why) {
			t.Errorf("run %s: explain does not say %q:\n%s", x.name, x.why, out)
		}
	}
	c.gantry(exitTasksFailed, "run", "-q", "--reuse", "--inputs", in, "--mount", ref+":/ref:ro", "--name", "none", flow)
}

// What a directory or a pattern has is one output: it is reused as a whole, or not at all.
func TestDirectoriesAreReused(t *testing.T) {
	beside(t)
	needsCheap(t)
	c := cliTest{t, t.TempDir()}
	in := filepath.Dir(c.write("in/text.txt", "to be or not to be\n"))
	flow := shellFlow(t, filepath.Join(c.dir, "flow.json"),
		shellTask{"split", "text.txt", "parts/*.txt", "for w in $(cat text.txt); do echo $w >>parts/$w.txt; done"},
		shellTask{"tree", "text.txt", "tree", "mkdir -p tree/a/b; cp text.txt tree/a/b/t; echo 1 >tree/x"},
		shellTask{"join", "parts/*.txt tree", "all.txt", "cat parts/*.txt tree/x tree/a/b/t >all.txt"})
	c.reused("first", flow, in)
	for _, x := range [][2]string{{"same", "[]"}, {"again", "[tree]"}} {
		name, want := x[0], x[1]
		if name == "again" {
			for _, run := range []string{"first", "same"} {
				os.Remove(filepath.Join(c.dir, "runs", run, "nodes/host/flow/tree/a/b/t"))
			}
		}
		if ran := fmt.Sprint(c.reused(name, flow, in)); ran != want {
			t.Errorf("run %s: %s ran, want %s", name, ran, want)
		}
		if a, b := c.read("first/results/flow/all.txt"), c.read(name+"/results/flow/all.txt"); a != b {
			t.Errorf("run %s: results %q and %q", name, a, b)
		}
		if err := logtest.Check(t.Context(), filepath.Join(c.dir, "runs", sqlite.FileName)); err != nil {
			t.Error(err)
		}
	}
}

// Any file can be a result: it stays whatever is deleted, and comes to a directory of the user's.
func TestAnyFileCanBeAResult(t *testing.T) {
	beside(t)
	needsCheap(t)
	c := cliTest{t, t.TempDir()}
	flow := c.write("flow.makeflow", "raw.txt:\n\techo raw >raw.txt\ncalls/a.vcf d: raw.txt\n\tmkdir d; echo 1 >d/x; "+
		"echo call >calls/a.vcf\n"+
		"mid.txt: d\n\tcat d/x >mid.txt\nall.txt: calls/a.vcf mid.txt\n\tcat calls/a.vcf mid.txt >all.txt\n")
	for _, wrong := range [][]string{{"--results", "*.vcf"}, {"--results", "calls/*", "--results", "x"},
		{"--results", "["}} {
		_, errs := c.gantry(exitInput, append([]string{"run", "--image", "gantry/busybox", flow}, wrong...)...)
		if !strings.Contains(errs, "--results: "+strconv.Quote(wrong[len(wrong)-1])) {
			t.Errorf("%v: %s", wrong, errs)
		}
	}
	out, outside := filepath.Join(c.dir, "out"), t.TempDir()
	file := func(want string, path ...string) {
		t.Helper()
		if text, err := os.ReadFile(filepath.Join(path...)); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v, want %q", filepath.Join(path...), text, err, want)
		}
	}
	args := []string{"run", "-q", "--image", "gantry/busybox", "--results", "**/*.vcf", "--results", "d",
		"--results-dir", out, "--scratch"}
	c.gantry(exitOK, append(args, "--name", "one", flow)...)
	check := func() {
		t.Helper()
		for _, dir := range []string{filepath.Join(c.dir, "runs", session.LatestLink, "results/flow"), out} {
			file("call\n", dir, "calls/a.vcf")
			file("1\n", dir, "d/x")
			file("call\n1\n", dir, "all.txt")
			if _, err := os.Lstat(filepath.Join(dir, "mid.txt")); err == nil {
				t.Errorf("mid.txt, which a task reads, is in %s", dir)
			}
		}
	}
	check()
	c.gantry(exitOK, "clean", "--files", "one")
	c.gantry(exitInput, "clean", session.LatestLink)
	check()
	// A later run replaces files, and not those of others. No link leads out of the directory.
	c.write("out/all.txt", "old\n")
	c.write("out/mine.txt", "mine\n")
	c.gantry(exitOK, append(args, "--name", "two", flow)...)
	check()
	file("mine\n", out, "mine.txt")
	if to, err := os.Readlink(filepath.Join(c.dir, "runs", session.LatestLink)); err != nil || to != "two" {
		t.Errorf("the newest run is %q, %v", to, err)
	}
	calls := filepath.Join(out, "calls")
	must(t, errors.Join(os.RemoveAll(calls), os.Symlink(outside, calls)))
	_, errs := c.gantry(exitHost, append(args, "--name", "three", flow)...)
	if left, _ := os.ReadDir(outside); len(left) > 0 || !strings.Contains(errs, "escapes") {
		t.Errorf("a link led %v out of --results-dir: %s", left, errs)
	}
	// With more results, a run that is continued shows those of tasks that stay, and can still be reused.
	both := filepath.Join(c.dir, "both")
	other := c.write("other.makeflow", "a.txt:\n\techo a >a.txt\nb.txt: a.txt\n\tcat a.txt >b.txt\n")
	c.gantry(exitOK, "run", "-q", "--image", "gantry/busybox", "--name", "more", other)
	c.gantry(exitOK, "resume", "-q", "more", "--with", other, "--results", "a.txt", "--results-dir", both)
	file("a\n", both, "a.txt")
	if _, errs := c.gantry(exitInput, "simulate", "--replay", "more"); !strings.Contains(errs, "--measured more") {
		t.Errorf("a replay of a continued run: %s", errs)
	}
	c.gantry(exitOK, "run", "-q", "--image", "gantry/busybox", "--reuse", "--results-dir", both, "--name", "last",
		other, c.write("load.yaml", "results: [raw.txt]\nworkflows: [{trace: flow.makeflow, results: [\"mid*\"]}]\n"))
	if out, _ := c.gantry(exitOK, "show", "--tasks", "last"); strings.Count(out, " reused ") < 2 {
		t.Errorf("the tasks of the continued run are not reused:\n%s", out)
	}
	file("a\n", both, "other/b.txt")
	file("raw\n", both, "flow/raw.txt")
	file("1\n", both, "flow/mid.txt")
	c.gantry(exitOK, "rm", "last")
	if _, err := os.Lstat(filepath.Join(c.dir, "runs", session.LatestLink)); err == nil {
		t.Error("the link to the newest run leads nowhere")
	}
}

// Of an output that is a directory or a pattern, some files can be results.
func TestPartsOfOutputsCanBeResults(t *testing.T) {
	beside(t)
	needsCheap(t)
	c := cliTest{t, t.TempDir()}
	flow := c.write("flow.makeflow", "d/ parts/*.txt **/*.log:\n\techo >l.log; mkdir -p d/sub parts; echo 1 >d/x1; "+
		"echo 2 >d/y; echo 3 >d/sub/s.vcf; ln -s y d/xl; echo a >parts/ab.txt; echo b >parts/b.txt\n"+
		"all.txt: d parts/*.txt **/*.log\n\tcat d/xl parts/b.txt >all.txt\n")
	is := func(run string, want ...string) {
		t.Helper()
		var got []string
		top := filepath.Join(c.dir, "runs", run, "results", "flow")
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				text, _ := os.ReadFile(path)
				got = append(got, strings.TrimPrefix(path, top+"/")+"="+strings.TrimSpace(string(text)))
			}
			return err
		})
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("the results of run %s are %q, %v, want %q", run, got, err, want)
		}
	}
	args := []string{"run", "-q", "--image", "gantry/busybox", "--results", "**/*.vcf", "--results", "./d//x*",
		"--results", "parts/a*"}
	want := []string{"all.txt=2\nb", "d/sub/s.vcf=3", "d/x1=1", "d/xl=2", "parts/ab.txt=a"}
	c.gantry(exitOK, append(args, "--name", "scratch", "--scratch", flow)...)
	is("scratch", want...)
	c.gantry(exitOK, append(args, "--name", "kept", flow)...)
	c.gantry(exitOK, "resume", "-q", "kept", "--with", flow, "--results", "d/y", "--results", "d/x1")
	is("kept", append(want, "d/y=2")...)
	c.gantry(exitOK, append(args, "--name", "again", "--reuse", flow)...)
	is("again", want...)
	for _, run := range []string{"kept", "again"} {
		c.gantry(exitOK, "clean", "--files", run)
	}
	is("kept", append(want, "d/y=2")...)
	is("again", want...)
	_, errs := c.gantry(exitInput, "run", "--image", "gantry/busybox", "--results", "parts/a*.tex", flow)
	if !strings.Contains(errs, `"parts/a*.tex" matches no file`) {
		t.Error(errs)
	}
	out, errs := c.gantry(exitOK, "run", "--image", "gantry/busybox", "--results", "d/none", "--results", "d/y",
		"--results", "all.txt/x", "--results", "**/*.none", "--results", "**/x1", "--results", "s*/no.log", flow)
	for _, pattern := range []string{"**/*.none", "s*/no.log"} {
		if strings.Count(errs, "is a result by the pattern \""+pattern+"\"") != 1 {
			t.Errorf("nothing of %s: %s", pattern, errs)
		}
	}
	if strings.Count(errs, "is a result by the pattern") != 2 {
		t.Errorf("more are named: %s", errs)
	}
	for _, none := range []string{"d/none", "all.txt/x"} {
		if !strings.Contains(out, "left no file for the results \""+none+"\"\n") {
			t.Errorf("nothing of %s: %s", none, out)
		}
	}
}

// Files that nobody reads any more go, and the log has the most that was there.
func TestScratchFilesGoEarly(t *testing.T) {
	beside(t)
	needsCheap(t)
	c := cliTest{t, t.TempDir()}
	var steps []shellTask
	for i := range 5 {
		s := shellTask{id: fmt.Sprint("s", i), out: fmt.Sprint("f", i), command: "head -c 4000000 /dev/zero >f0"}
		if i > 0 {
			s.in, s.command = fmt.Sprint("f", i-1), fmt.Sprintf("cat f%d >f%d", i-1, i)
		}
		steps = append(steps, s)
	}
	flow := shellFlow(t, filepath.Join(c.dir, "flow.json"), steps...)
	c.gantry(exitOK, "run", "-q", "--scratch", "--name", "lean", flow)
	left, err := os.ReadDir(filepath.Join(c.dir, "runs/lean/nodes/host/flow"))
	if err != nil || len(left) != 1 || left[0].Name() != "f4" {
		t.Errorf("left are %v, %v", left, err)
	}
	if peak := one[int](t, filepath.Join(c.dir, "runs"), "SELECT peak_disk_bytes FROM runs"); peak < 8_000_000 ||
		peak > 9_000_000 {
		t.Errorf("the peak is %d bytes", peak)
	}
	out, _ := c.gantry(exitOK, "ls", "--size")
	if !strings.Contains(out, "MB") {
		t.Errorf("ls --size:\n%s", out)
	}
}
