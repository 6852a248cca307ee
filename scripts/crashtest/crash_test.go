// Package crashtest kills gantry as a crash would, at random moments, and lets it resume. What must hold whatever the
// moment: the log opens, every task succeeds exactly once, no container is left, and the results are those of a run
// that nobody disturbed. The moments are drawn from the seed GANTRY_TEST_SEED. Tests run side by side: most of their
// time they wait.
package crashtest

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
)

const (
	image     = "gantry/busybox:latest"
	exitInput = 3               // of gantry: among others, no such run
	last      = "join"          // the task that all others lead to
	patience  = 3 * time.Minute // with a gantry that seems to hang
)

func number(t *testing.T, env string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		t.Fatalf("%s=%s is no number", env, text)
	}
	return n
}

// seed is where random moments are drawn from.
func seed(t *testing.T) uint64 {
	t.Helper()
	n := uint64(number(t, "GANTRY_TEST_SEED", time.Now().UnixNano()%1e6))
	t.Logf("seed %d", n)
	return n
}

// again is the command that repeats a test, or a part of it.
func again(test string, seed uint64, variables string) string {
	short := ""
	if testing.Short() {
		short = "-short "
	}
	return fmt.Sprintf("again: %sGANTRY_TEST_SEED=%d go test -count=1 %s-run '^%s$' ./scripts/crashtest", variables,
		seed, short, test)
}

// programs is the directory of the programs that all tests share.
var programs string

func TestMain(m *testing.M) {
	// Programs inherit a signal that this process ignores, as under nohup, but not one that it takes.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	err := flag.Set("test.parallel", "8")
	if err == nil {
		programs, err = os.MkdirTemp("", "gantry-crash-")
	}
	if err == nil {
		err = os.Chmod(programs, 0o755)
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(programs)
	os.Exit(code)
}

// built builds gantry with fault points (package fault), and the task emulator, unless that is in $GANTRY_TEST_BIN.
var built = sync.OnceValue(func() error {
	for _, program := range []string{"gantry", "gantry-task"} {
		cmd := exec.Command("go", "build", "-ldflags",
			"-s -w -X gantry/executor/container/fault.points=on", "-o", filepath.Join(programs, program),
			"gantry/cmd/"+program)
		if bin := os.Getenv("GANTRY_TEST_BIN"); bin != "" && program == "gantry-task" {
			cmd = exec.Command("cp", filepath.Join(bin, program), programs)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", program, err, out)
		}
	}
	return nil
})

// build returns gantry's binary with the task emulator beside it.
func build(t *testing.T) string {
	t.Helper()
	must(t, built())
	return filepath.Join(programs, "gantry")
}

// run is a run of gantry, in a directory of its own, that is to succeed in the end.
type run struct {
	binary, name, home string
	args               []string
	tasks              int
	host               string // of the engine; "": as the environment says
	images             string // the store of images of a run without a daemon
}

// step is a task of a workflow of these tests.
type step struct {
	id, script     string // "": it is emulated
	after, in, out []string
	seconds        float64 // in the trace
}

// writeFlow writes a workflow, with the sizes of files where it is to say them.
func writeFlow(t *testing.T, path, image string, sizes map[string]int64, steps ...step) {
	t.Helper()
	type m = map[string]any
	list := func(names []string) []string { return append([]string{}, names...) }
	tasks, files, children := []m{}, []m{}, map[string][]string{}
	for _, s := range steps {
		for _, parent := range s.after {
			children[parent] = append(children[parent], s.id)
		}
	}
	for _, s := range steps {
		task := m{"id": s.id, "name": s.id, "parents": list(s.after), "children": list(children[s.id]),
			"inputFiles": list(s.in), "outputFiles": list(s.out), "runtimeInSeconds": s.seconds, "memoryInBytes": 16e6}
		if s.script != "" {
			task["image"] = image
			task["command"] = m{"program": "sh", "arguments": []string{"-ec", s.script}}
		}
		tasks = append(tasks, task)
	}
	for name, size := range sizes {
		files = append(files, m{"id": name, "sizeInBytes": size})
	}
	doc, err := json.Marshal(m{"name": strings.TrimSuffix(filepath.Base(path), ".json"), "schemaVersion": "1.5",
		"workflow": m{"specification": m{"tasks": tasks, "files": files},
			"execution": m{"makespanInSeconds": 1, "executedAt": "2026-01-01T00:00:00Z", "tasks": tasks}}})
	must(t, err)
	write(t, path, string(doc))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// label is what only containers of this run have: runs of one name may be in other directories.
func (r *run) label() string { return "label=gantry.dir=" + filepath.Join(r.home, "runs", r.name) }

// docker runs a command of Docker on the engine of the run.
func (r *run) docker(args ...string) (string, error) {
	cmd := exec.Command("docker", args...)
	if r.host != "" {
		cmd.Env = append(os.Environ(), "DOCKER_HOST="+r.host)
	}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// containers lists those of the run, and how they are.
func (r *run) containers() (string, error) {
	return r.docker("ps", "-a", "--filter", r.label(), "--format", "{{.ID}} {{.Names}} {{.Status}}")
}

// removeContainers removes what is left where the test failed.
func (r *run) removeContainers() {
	if out, _ := r.docker("ps", "-aq", "--filter", r.label()); out != "" {
		_, _ = r.docker(append([]string{"rm", "-f"}, strings.Fields(out)...)...)
	}
}

func (r *run) noContainers(t *testing.T) {
	t.Helper()
	if out, err := r.containers(); err != nil || out != "" {
		t.Errorf("containers are left: %s %v", out, err)
	}
}

// process is gantry at work.
type process struct {
	run *run
	cmd *exec.Cmd
	out bytes.Buffer
}

func (r *run) gantry(command string, args ...string) *process {
	p := &process{run: r, cmd: exec.Command(r.binary, append([]string{command, "--dir", filepath.Join(r.home, "runs")},
		args...)...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if r.host != "" {
		p.cmd.Env = append(os.Environ(), "DOCKER_HOST="+r.host)
	}
	if r.images != "" {
		p.cmd.Env = append(p.cmd.Environ(), "GANTRY_IMAGES="+r.images)
	}
	return p
}

// start sets it going, if it is not already.
func (p *process) start(t *testing.T) {
	t.Helper()
	if p.cmd.Process != nil {
		return
	}
	must(t, p.cmd.Start())
}

// wait runs it to its end and returns the exit code.
func (p *process) wait(t *testing.T) (code int, out string) {
	t.Helper()
	p.start(t)
	return p.end()
}

// end waits for the end of gantry. One that hangs is ended, and its output has the states of its containers and of
// its own goroutines.
func (p *process) end() (code int, out string) {
	over, hangs := make(chan struct{}), make(chan string, 1)
	go func() {
		defer close(hangs)
		if ownTime(patience, over) {
			containers, _ := p.run.containers()
			hangs <- containers
			_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		}
	}()
	_ = p.cmd.Wait()
	close(over)
	code, out = p.cmd.ProcessState.ExitCode(), p.out.String()
	if containers, hung := <-hangs; hung {
		out = fmt.Sprintf("it hangs; its containers:\n%s\n%s", containers, out)
	}
	return code, out
}

// ownTime waits for d, unless it is over before, and returns whether it was not. Time in which the host is stopped,
// with this process in it, does not count.
func ownTime(d time.Duration, over <-chan struct{}) bool {
	const step = 100 * time.Millisecond
	for ; d > 0; d -= step {
		select {
		case <-time.After(step):
		case <-over:
			return false
		}
	}
	return true
}

func (r *run) open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(r.home, "runs", "gantry.sqlite")+"?_busy_timeout=10000")
	must(t, err)
	return db
}

// state is the state of the run by the log, "" if the log does not know it.
func (r *run) state(t *testing.T) (state string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(r.home, "runs", "gantry.sqlite")); err != nil {
		return ""
	}
	// Reading takes room for the index of the log's WAL, and the engine may take what a full disk has just regained.
	for until := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		db := r.open(t)
		err := db.QueryRow("SELECT state FROM runs WHERE name = ?", r.name).Scan(&state)
		db.Close()
		if err == nil || err == sql.ErrNoRows || strings.Contains(err.Error(), "no such table") {
			return state
		}
		if time.Now().After(until) {
			t.Fatalf("state of run %s: %v", r.name, err)
		}
	}
}

// programs compares the log with the ends of programs in a round that the kernel told of: none has ended well twice,
// and those that mark their end have ended well once.
func (r *run) programs(t *testing.T, db *sql.DB, seen *witness, round int64, marks func(task string) bool,
	found *findings) (tasks map[string]int64) {
	t.Helper()
	seen.await(round)
	tasks = r.succeeded(t, db, found)
	for task := range tasks {
		n, sure := seen.successes(round, task)
		switch {
		case n > 1:
			found.add(&found.twice, "by the kernel task %s succeeded %d times:%s", task, n, attempts(db, r.name, task))
		case sure && n == 0 && marks(task):
			found.add(&found.other, "the kernel has not seen how task %s succeeded", task)
		}
	}
	return tasks
}

// sound finds whether a log is damaged.
func sound(db *sql.DB, found *findings) {
	var says string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&says); err != nil || says != "ok" {
		found.add(&found.other, "the log is damaged: %s %v", says, err)
	}
}

// succeeded is how often each task has succeeded by the log, which is sound and has an end of each attempt.
func (r *run) succeeded(t *testing.T, db *sql.DB, found *findings) map[string]int64 {
	t.Helper()
	sound(db, found)
	rows, err := db.Query(`SELECT t.name, t.state, sum(a.outcome = 'ok'), sum(a.outcome IS NULL) FROM tasks t
		LEFT JOIN attempts a ON a.run = t.run AND a.task = t.task
		JOIN runs r ON r.id = t.run WHERE r.name = ? GROUP BY t.task`, r.name)
	must(t, err)
	defer rows.Close()
	times := map[string]int64{}
	for rows.Next() {
		var name, state string
		var ok, open sql.NullInt64
		must(t, rows.Scan(&name, &state, &ok, &open))
		times[name] = ok.Int64
		switch {
		case ok.Int64 == 0 || open.Int64 > 0:
			found.add(&found.lost, "task %s is %s, %d attempts succeeded, %d have no end", name, state, ok.Int64,
				open.Int64)
		case ok.Int64 > 1:
			found.add(&found.twice, "by the log task %s succeeded %d times:%s", name, ok.Int64,
				attempts(db, r.name, name))
		}
	}
	if err := rows.Err(); err != nil || len(times) != r.tasks {
		found.add(&found.lost, "%d tasks in the log, not %d: %v", len(times), r.tasks, err)
	}
	return times
}

// failures describes the attempts of tasks that failed.
func (r *run) failures(t *testing.T) string {
	t.Helper()
	db := r.open(t)
	defer db.Close()
	rows, err := db.Query("SELECT t.name FROM tasks t JOIN runs r ON r.id = t.run WHERE r.name = ? AND t.state = "+
		"'failed'", r.name)
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	text := ""
	for rows.Next() {
		var task string
		if err := rows.Scan(&task); err != nil {
			return err.Error()
		}
		text += "task " + task + ":" + attempts(db, r.name, task) + "\n"
	}
	return text
}

// attempts describes what the log knows of the attempts of a task.
func attempts(db *sql.DB, run, task string) string {
	rows, err := db.Query(`SELECT a.attempt, coalesce(a.outcome, '-'), coalesce(a.exit_code, -1),
		coalesce(a.message, ''), coalesce(a.started_ns, 0)/1000000, coalesce(a.ended_ns, 0)/1000000 FROM attempts a
		JOIN tasks t ON t.run = a.run AND
		t.task = a.task JOIN runs r ON r.id = a.run
		WHERE r.name = ? AND t.name = ?`, run, task)
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	var s strings.Builder
	for rows.Next() {
		var attempt, code, started, ended int64
		var outcome, message string
		if err := rows.Scan(&attempt, &outcome, &code, &message, &started, &ended); err != nil {
			return err.Error()
		}
		fmt.Fprintf(&s, "\n\tattempt %d: %s, exit code %d, started at %d ms, ended at %d ms: %s", attempt, outcome,
			code, started, ended, message)
	}
	return s.String()
}

// results are the hashes of the result files by name.
func (r *run) results(t *testing.T) map[string]string {
	t.Helper()
	sums := map[string]string{}
	root := filepath.Join(r.home, "runs", r.name, "results")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		sum := sha256.Sum256(b)
		name, _ := filepath.Rel(root, path)
		sums[name] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return sums
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
