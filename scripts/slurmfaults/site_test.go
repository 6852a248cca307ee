// Package slurmfaults disturbs gantry run --runtime slurm, the program that users have, on a true Slurm of four virtual
// nodes.
package slurmfaults

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gantry/executor/container/slurm/slurmtest"
)

// Exit codes of gantry.
const (
	ok          = 0
	tasksFailed = 1
	usage       = 2
	host        = 4
	interrupted = 130
)

func TestMain(m *testing.M) { slurmtest.Main(m) }

// site is a Slurm on which gantry runs.
type site struct {
	*slurmtest.Cluster
	gantry string
}

func newSite(t *testing.T) *site {
	t.Helper()
	slurmtest.Long(t)
	c := slurmtest.Up(t)
	built := slurmtest.Programs(t)
	return &site{c, filepath.Join(built, "gantry")}
}

// idle waits until nobody has a job, and sets nodes up again.
func (s *site) idle(t *testing.T) {
	t.Helper()
	_ = exec.Command("scancel", "--user=root").Run()
	slurmtest.Eventually(t, "no job is left", func() bool {
		out, err := exec.Command("squeue", "-h", "-o", "%A").Output()
		return err == nil && strings.TrimSpace(string(out)) == ""
	})
	for _, n := range s.Nodes {
		s.Resume(t, n)
	}
}

// work is a directory with a workflow and its runs.
type work struct {
	*site
	t   *testing.T
	dir string
}

// newWork writes a makeflow. Its rules note that they have begun; a held one waits until release is called.
func (s *site) newWork(t *testing.T, rules ...rule) *work {
	t.Helper()
	w := &work{s, t, t.TempDir()}
	// Programs are another user.
	for at := w.dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		w.must(os.Chmod(at, 0o755))
	}
	w.must(os.Mkdir(filepath.Join(w.dir, "notes"), 0o755))
	var text strings.Builder
	for _, r := range rules {
		script := "echo began >&2; "
		if r.held {
			script += "until [ -e /notes/go-" + r.name + " ]; do sleep 0.1; done; "
		}
		fmt.Fprintf(&text, "%s: %s\n\t%s\n\n", r.name, r.after, script+"echo "+r.name+" >"+r.name)
	}
	w.must(os.WriteFile(filepath.Join(w.dir, "Makeflow"), []byte(text.String()), 0o644))
	return w
}

// rule is a task that makes the file of its name.
type rule struct {
	name, after string
	held        bool
}

func (w *work) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *work) note(name string) string { return filepath.Join(w.dir, "notes", name) }

func (w *work) release(rules ...string) {
	w.t.Helper()
	for _, r := range rules {
		w.must(os.WriteFile(w.note("go-"+r), nil, 0o644))
	}
}

// begun is how often a rule has begun.
func (w *work) begun(rule string) (n int) {
	errs, _ := filepath.Glob(filepath.Join(w.runs(), "it", "work", "Makeflow", rule+"-*", ".command.err"))
	for _, path := range errs {
		text, _ := os.ReadFile(path)
		n += strings.Count(string(text), "began\n")
	}
	return n
}

func (w *work) untilBegun(times int, rules ...string) {
	w.t.Helper()
	for _, r := range rules {
		slurmtest.Eventually(w.t, fmt.Sprintf("begin %d of %s", times, r), func() bool { return w.begun(r) >= times })
	}
}

// once fails unless the rules have begun once each.
func (w *work) once(rules ...string) {
	w.t.Helper()
	for _, r := range rules {
		if n := w.begun(r); n != 1 {
			w.t.Errorf("%s began %d times", r, n)
		}
	}
}

// gantry is one that runs.
type gantry struct {
	*exec.Cmd
	w    *work
	said *said
}

// said is what gantry said so far.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// says reports whether gantry has said that.
func (g *gantry) says(text string) bool { return strings.Contains(g.said.String(), text) }

// start starts gantry with the directory of runs.
func (w *work) start(args ...string) *gantry {
	w.t.Helper()
	g := &gantry{exec.Command(w.gantry, append(args[:1:1], append([]string{"--dir", w.runs()}, args[1:]...)...)...), w,
		&said{}}
	g.Stdout, g.Stderr, g.Dir = g.said, g.said, w.dir
	g.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	w.must(g.Start())
	return g
}

// run starts gantry run.
func (w *work) run(args ...string) *gantry {
	w.t.Helper()
	return w.start(append([]string{"run", "--runtime", "slurm", "--node-runtime", "oci", "--image", "gantry/busybox",
		"--mount", filepath.Join(w.dir, "notes") + ":/notes:ro", "--name", "it"},
		append(args, filepath.Join(w.dir, "Makeflow"))...)...)
}

func (w *work) runs() string { return filepath.Join(w.dir, "runs") }

// ends waits for the end of gantry, and fails unless it has this exit code and says these words.
func (g *gantry) ends(code int, words ...string) {
	g.w.t.Helper()
	_ = g.Wait()
	if got := g.ProcessState.ExitCode(); got != code {
		g.w.t.Fatalf("gantry ended with %d, want %d\n%s", got, code, g.said)
	}
	for _, word := range words {
		if !strings.Contains(g.said.String(), word) {
			g.w.t.Errorf("gantry does not say %q\n%s", word, g.said)
		}
	}
}

func (g *gantry) kill() {
	g.w.t.Helper()
	g.w.must(g.Process.Kill())
	_ = g.Wait()
}

// outcomes are how the attempts of a task ended, in order.
func (w *work) outcomes(task string) (ends []string) {
	w.t.Helper()
	out, err := exec.Command(w.gantry, "export", "--dir", w.runs(), "--format", "csv", "it").Output()
	w.must(err)
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	w.must(err)
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	for _, row := range rows[1:] {
		if row[at["task"]] == task {
			ends = append(ends, row[at["outcome"]])
		}
	}
	return ends
}

// tried fails unless the attempts of a task ended like this.
func (w *work) tried(task string, ends ...string) {
	w.t.Helper()
	if got := w.outcomes(task); strings.Join(got, " ") != strings.Join(ends, " ") {
		w.t.Errorf("%s ended as %v, want %v", task, got, ends)
	}
}

// result fails unless the results have a file.
func (w *work) result(files ...string) {
	w.t.Helper()
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(w.runs(), "it", "results", "Makeflow", f))
		if err != nil || string(text) != f+"\n" {
			w.t.Errorf("result %s: %q, %v", f, text, err)
		}
	}
}

// on requests an allocation for ten minutes, and names it to gantry.
func (s *site) on(t *testing.T, nodes int) []string {
	t.Helper()
	return []string{"--slurm-job", s.Allocate(t, fmt.Sprintf("--nodes=%d", nodes), "--time=10")}
}

// jobs are the allocations that there are.
func (s *site) jobs(t *testing.T) []string {
	t.Helper()
	return strings.Fields(s.Command(t, "squeue", "-h", "-t", "running,pending", "-o", "%A"))
}

// job is the only one.
func (s *site) job(t *testing.T) string {
	t.Helper()
	all := s.jobs(t)
	if len(all) != 1 {
		t.Fatalf("jobs %v, want one", all)
	}
	return all[0]
}

// steps are the numbers of the job steps on a node, "" for all.
func (s *site) steps(t *testing.T, node string) (ids []string) {
	t.Helper()
	for line := range strings.Lines(s.Command(t, "squeue", "-h", "--steps", "-o", "%i %N %j")) {
		f := strings.Fields(line)
		if len(f) == 3 && (node == "" || f[1] == node) && strings.HasPrefix(f[2], "gantry-") {
			ids = append(ids, f[0])
		}
	}
	return ids
}
