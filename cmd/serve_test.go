package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gantry/cmd/api"
	"gantry/executor"
	"gantry/planner"
	"gantry/sqlite"
	"gantry/trace"
)

// served is a directory with a server, which is a process of its own.
type served struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
	err bytes.Buffer
}

// serveIn starts a server and waits until it answers.
func serveIn(t *testing.T, dir string, args ...string) *served {
	t.Helper()
	s := &served{t: t, dir: dir}
	s.cmd = gantryProcess(t, append([]string{"serve", "--dir", dir}, args...)...)
	s.cmd.Stderr = &s.err
	must(t, s.cmd.Start())
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			s.kill()
		}
		if strings.Contains(s.err.String(), "DATA RACE") {
			t.Error(s.err.String())
		}
		if s.cmd.ProcessState.ExitCode() == exitOK || slices.Contains(args, "null") {
			return
		}
		_, out, _ := invoke(t, "ls", "--json", "--dir", dir)
		var runs []struct{ Run string }
		_ = json.Unmarshal([]byte(out), &runs) // there may be no log
		for _, r := range runs {
			invoke(t, "clean", "--dir", dir, r.Run)
		}
	})
	for until := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := api.NewClient(dir).About(t.Context()); err == nil {
			return s
		} else if time.Now().After(until) {
			s.kill()
			t.Fatalf("the server does not answer: %v\n%s", err, s.err.String())
		}
	}
}

// kill ends the server as kill -9 does.
func (s *served) kill() {
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	_ = s.cmd.Wait()
	locks, _ := filepath.Glob(filepath.Join(s.dir, "*", "lock"))
	for _, path := range append(locks, filepath.Join(s.dir, api.LockName)) {
		if f, err := os.Open(path); err == nil { // a child has the lock, too, until it executes its program
			for n := 0; n < 1000 && syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil; n++ {
				time.Sleep(10 * time.Millisecond)
			}
			f.Close()
		}
	}
}

// ends waits until the server has ended, and wants an exit code.
func (s *served) ends(code int) {
	s.t.Helper()
	_ = s.cmd.Wait()
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.t.Fatalf("the server ended with %d, want %d:\n%s", got, code, s.err.String())
	}
}

// drain lets what is there come to its end, and wants the server to end well.
func (s *served) drain() {
	s.t.Helper()
	expect(s.t, exitOK, nil, "drain", "--dir", s.dir)
	s.ends(exitOK)
}

// submit hands in a workflow and returns its number.
func (s *served) submit(args ...string) string {
	s.t.Helper()
	return strings.TrimSpace(expect(s.t, exitOK, nil, append([]string{"submit", "-q", "--dir", s.dir}, args...)...))
}

const montage = "../examples/montage/montage-25.dax"

func TestServeTakesWorkUntilItIsDrained(t *testing.T) {
	dir := t.TempDir()
	s := serveIn(t, dir, "--runtime", "null", "--name", "lab")
	info, err := os.Stat(filepath.Join(dir, api.SocketName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the socket has mode %v (%v), want 0600", info.Mode(), err)
	}
	if got := s.submit("--name", "first", montage); got != "1" {
		t.Fatalf("the first number is %q", got)
	}
	expect(t, exitOK, []string{"2: second-2, 25 tasks"}, "submit", "--dir", dir, "--name", "second", montage)
	for id, name := range map[string]string{"1": "first-1", "2": "second-2"} {
		expect(t, exitOK, []string{id + ": " + name + " done, 25 of 25 tasks done"}, "wait", "--dir", dir, id)
	}
	expect(t, exitOK, []string{"policy cpp on null", "first-1", "second-2", "done"}, "queue", "--all", "--dir", dir)
	expect(t, exitOK, []string{"done"}, "cancel", "--dir", dir, "1") // over: it stays as it is
	var st api.Status
	must(t, json.Unmarshal([]byte(expect(t, exitOK, nil, "wait", "--json", "--dir", dir, "2")), &st))
	if st.UID != os.Geteuid() || st.Run != "lab" || !st.Over || st.Done != 25 {
		t.Errorf("the second is %+v", st)
	}

	expect(t, exitHeld, []string{"served by another gantry"}, "serve", "--dir", dir, "--runtime", "null")
	expect(t, exitInput, []string{"no submission 99"}, "wait", "--dir", dir, "99")
	expect(t, exitInput, []string{"no submission 99"}, "cancel", "--dir", dir, "99")
	broken := cliTest{t, dir}.write("broken.dax", "<adag><job id='a'/>")
	expect(t, exitInput, []string{"broken.dax"}, "submit", "--dir", dir, broken)
	for _, c := range [][]string{{"submit"}, {"run", "--runtime", "null"}} {
		expect(t, exitInput, []string{"gantry: none.dax: no such file or directory; check the path\n"},
			append(c, "--dir", dir, "none.dax")...)
	}
	if got := s.submit(montage); got != "3" {
		t.Errorf("after a workflow that was refused the next has number %s", got)
	}

	id := s.submit(cliTest{t, dir}.write("empty.makeflow", "# no rules\n"))
	expect(t, exitOK, []string{"empty-4 done"}, "wait", "--dir", dir, id)

	s.drain()
	if _, err := os.Lstat(filepath.Join(dir, api.SocketName)); err == nil {
		t.Error("the socket is still there")
	}
	expect(t, exitOK, []string{"3: montage-25-3 done"}, "wait", "--dir", dir, "3") // from the log
	expect(t, exitHost, []string{"no gantry serves this directory"}, "submit", "--dir", dir, montage)
	expect(t, exitOK, []string{"75/75", "finished"}, "ls", "--dir", dir)
}

// Commands that read a run take the number of a submission.
func TestASubmissionIsReadLikeARun(t *testing.T) {
	dir := t.TempDir()
	s := serveIn(t, dir, "--runtime", "null", "--name", "lab")
	s.submit("--name", "first", montage)
	s.submit("--name", "second", montage)
	expect(t, exitOK, nil, "wait", "--dir", dir, "1")
	expect(t, exitOK, nil, "wait", "--dir", dir, "2")
	s.submit(written(t, "numbers.dax", `<adag name="numbers"><job id="2" name="x" runtime="0"/></adag>`))
	out := expect(t, exitOK, []string{"25 tasks of 25 done", "second-2"}, "show", "--dir", dir, "2")
	if strings.Contains(out, "first-1") {
		t.Errorf("the other submission is there, too:\n%s", out)
	}
	expect(t, exitOK, []string{"second-2/ID00000", "done on"}, "explain", "--dir", dir, "2", "ID00000")
	rows := expect(t, exitOK, []string{"second-2"}, "export", "--dir", dir, "--format", "csv", "2")
	if n := strings.Count(rows, "\n"); n != 26 {
		t.Errorf("%d lines of CSV, want 26", n)
	}
	for _, runs := range [][]string{{"1", "2"}, {"lab", "2"}} {
		for _, command := range []string{"export", "statistics"} {
			expect(t, exitUsage, []string{"a submission is read alone"}, command, "--dir", dir, runs[0], runs[1])
		}
	}
	expect(t, exitOK, []string{"numbers-3/2"}, "explain", "--dir", dir, "lab", "2") // that is a task
	expect(t, exitOK, nil, "compare", "--dir", dir, "1", "2")
	expect(t, exitOK, nil, "report", "--dir", dir, "2", "--html", filepath.Join(dir, "2.html"))
	expect(t, exitUsage, []string{"report 2: these metrics are of a whole run"}, "report", "--dir", dir, "2")
	expect(t, exitInput, []string{`no run "77"`}, "show", "--dir", dir, "77")
}

// Nodes change while the run is under way, which the log and the next server keep to; that one has another policy.
func TestNodesAndThePolicyChangeWhileServing(t *testing.T) {
	beside(t)
	needsCheap(t)
	c := cliTest{t, t.TempDir()}
	dir := filepath.Join(c.dir, "runs")
	cluster := c.write("nodes.yaml", "nodes:\n  - {name: a, cores: 1, memory: 200MB}\n  - {name: b, cores: 1, memory: "+
		"200MB}\n")
	serve := func(policy string) *served {
		return serveIn(t, dir, "--runtime", "oci", "--cluster", cluster, "--policy", policy, "--oversubscribe")
	}
	s := serve("rm-dcwf")
	s.submit("--image", "gantry/busybox", c.write("Makeflow", "one.txt:\n\tsleep 3; echo one >one.txt\n\n"+
		"two.txt: one.txt\n\techo two >two.txt\n"))
	expect(t, exitOK, []string{"a", "drained"}, "node", "--dir", dir, "drain", "a")
	expect(t, exitOK, []string{"b", "0.5"}, "node", "--dir", dir, "--cores", "0.5", "set", "b")
	expect(t, exitOK, nil, "node", "--dir", dir, "resume", "b")
	expect(t, exitInput, []string{"no node c"}, "node", "--dir", dir, "drain", "c")
	expect(t, exitInput, []string{"at most what it had"}, "node", "--dir", dir, "--cores", "2", "set", "b")
	s.kill()
	s = serve("heft")
	expect(t, exitOK, []string{"policy heft"}, "queue", "--dir", dir)
	expect(t, exitOK, []string{"drained"}, "node", "--dir", dir)
	expect(t, exitOK, []string{"done, 2 of 2"}, "wait", "--dir", dir, "1")
	// A workflow that fails is over while the server runs.
	s.submit("--image", "gantry/busybox", c.write("fails.makeflow", "one.txt:\n\texit 3\n\ntwo.txt: one.txt\n\tcp "+
		"one.txt two.txt\n"))
	if _, out, _ := invoke(t, "wait", "--dir", dir, "2"); !strings.Contains(out, "0 of 2 tasks done, 2 failed") {
		t.Errorf("the workflow that fails ends as %q", out)
	}
	s.drain()
	expect(t, exitOK, []string{"policy heft on oci, rm-dcwf until "}, "show", "--dir", dir)
}

// A user that asks for a refusal learns of it.
func TestDeadlinesOfSubmissions(t *testing.T) {
	dir := t.TempDir()
	serveIn(t, dir, "--runtime", "null", "--policy", "rm-dcwf")
	expect(t, exitOK, []string{"which will be met"}, "submit", "--dir", dir, "--deadline", "2h", "--release", "1h",
		montage)
	expect(t, exitInput, []string{"is refused"}, "submit", "--dir", dir, "--deadline", "1ms", "--reject-late", montage)
	expect(t, exitInput, nil, "wait", "--dir", dir, "2")
	expect(t, exitOK, []string{"it is released at"}, "queue", "--dir", dir)
	expect(t, exitOK, []string{"1: montage-25-1 cancelled"}, "cancel", "--dir", dir, "1")
	if code, out, _ := invoke(t, "wait", "--dir", dir, "1"); code != exitTasksFailed ||
		!strings.Contains(out, "cancelled") || !strings.Contains(out, "withdrawn with gantry cancel") {
		t.Errorf("wait for what was cancelled: exit %d, %s", code, out)
	}
	expect(t, exitOK, []string{"withdrawn with gantry cancel", "no plan of the policy meets its deadline"}, "queue",
		"--all", "--dir", dir)
	expect(t, exitUsage, []string{"--deadline"}, "submit", "--dir", dir, "--deadline", "tomorrow", montage)
	expect(t, exitUsage, []string{"not after"}, "submit", "--dir", dir, "--deadline", "1h", "--release", "2h", montage)
	expect(t, exitUsage, []string{"has no deadline; give one with --deadline"}, "submit", "--dir", dir, "--class",
		"deadline", montage)
	dated := cliTest{t, dir}.write("dated.yaml", "workflows: [{trace: one.dax, deadline: 2h}]\n")
	cliTest{t, dir}.write("one.dax", oneTask)
	expect(t, exitOK, nil, "submit", "--dir", dir, "--class", "deadline", dated)

	// JSON has the refusal and the expected end, too.
	submit := func(code int, args ...string) (said struct {
		IDs         []int64
		Submissions []api.Status
	}) {
		t.Helper()
		out := expect(t, code, nil, append([]string{"submit", "--json", "--dir", dir, montage}, args...)...)
		if err := json.NewDecoder(strings.NewReader(out)).Decode(&said); err != nil {
			t.Fatal(err, out)
		}
		return said
	}
	got := submit(exitOK, "--deadline", "2d", "--release", "1d", montage)
	if len(got.IDs) != 2 || len(got.Submissions) != 2 || got.Submissions[1].Expected.End.IsZero() ||
		*got.Submissions[1].Expected.Late || time.Until(*got.Submissions[1].Due) < 47*time.Hour {
		t.Errorf("two with deadlines: %+v", got)
	}
	if got := submit(exitOK, "--release", "1h", "--no-prediction"); len(got.IDs) != 1 || got.Submissions != nil {
		t.Errorf("nobody asked for a prediction: %+v", got)
	}
	got = submit(exitInput, "--reject-late", "--deadline", "1ms")
	if len(got.IDs) != 1 || len(got.Submissions) != 1 || got.Submissions[0].State != "refused" {
		t.Errorf("one that is late: %+v", got)
	}
	expect(t, exitUsage, []string{"no workflow has a deadline"}, "submit", "--dir", dir, "--reject-late", montage)
}

// However many wait, each is found by its number; lists are bounded, and say so. A name with line breaks stays in its
// row.
func TestOneOfManyIsFound(t *testing.T) {
	dir := t.TempDir()
	s := serveIn(t, dir, "--runtime", "null", "--name", "lab")
	flow := func(name string, at planner.Time) []byte {
		definition, err := sqlite.EncodeSubmission(&executor.Submission{Name: "w", At: at, Workflow: &trace.Workflow{
			Name: "w", Label: "w", Tasks: []trace.Task{{ID: name, Kind: "k", Cores: 1, Retries: -1, Runtime: 1}}}})
		must(t, err)
		return definition
	}
	req := &api.Submit{}
	for i := range 1100 {
		name := "t" + strconv.Itoa(i)
		if i == 0 {
			name = "a\nb\tc"
		}
		req.Tasks = append(req.Tasks, api.Task{Workflow: "w", Definition: flow(name, 3600e9)})
	}
	if _, err := api.NewClient(dir).Submit(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GANTRY_DIR", dir)
	expect(t, exitOK, []string{"1  a^Jb^Ic ", "1000  t999 ", "and 100 more"}, "queue", "--dir", dir)
	if out := expect(t, exitOK, []string{"1100 PD\n"}, "squeue", "-h", "-o", "%i %t", "--me"); strings.Count(out,
		"\n") != 1100 {
		t.Errorf("squeue --me lists %d jobs", strings.Count(out, "\n"))
	}
	if out, said := expectBoth(t, exitOK, "squeue", "-h"); strings.Count(out, "\n") != 1000 ||
		!strings.Contains(said, "left out, though not over: 100 jobs") {
		t.Errorf("squeue lists %d jobs, and says %q", strings.Count(out, "\n"), said)
	}
	for _, job := range []string{"1", "1100"} {
		expect(t, exitOK, []string{job + " PD\n"}, "squeue", "-h", "-o", "%i %t", "-j", job)
		expect(t, exitOK, nil, "scancel", job)
		by := fmt.Sprintf("CANCELLED by %d\n", os.Geteuid())
		expect(t, exitOK, []string{by}, "sacct", "-nXPo", "State", "-j", job)
		expect(t, exitOK, []string{"CANCELLED+ \n"}, "sacct", "-nXo", "State", "-j", job)
		expect(t, exitOK, []string{"CANCELLED\n"}, "squeue", "-ho", "%T", "-t", "all", "-j", job)
	}
	for _, unknown := range [][]string{{"squeue", "-j", "1101"}, {"scancel", "1101"}, {"scancel", "7_1"}} {
		expectBoth(t, exitSlurm, unknown...)
	}
	expect(t, exitOK, nil, "scancel", "-Q", "1101")
	// What ended is found however long ago.
	for range 11 {
		flows := &api.Submit{}
		for i := range 100 {
			flows.Workflows = append(flows.Workflows, api.Workflow{Name: "late", Definition: flow(strconv.Itoa(i), 0)})
		}
		if _, err := api.NewClient(dir).Submit(t.Context(), flows); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, exitOK, nil, "wait", "--dir", dir, "2200")
	expect(t, exitOK, []string{"CANCELLED"}, "sacct", "-n", "-X", "-o", "State", "-j", "1")
	expect(t, exitOK, []string{"Older ones are not listed"}, "queue", "--dir", dir, "--all")
	s.kill()
}
