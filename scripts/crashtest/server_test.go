package crashtest

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A round of a server: clients hand in workflows, jobs of sbatch that come after each other and join a workflow that
// grows, and requests of several workflows; they cancel, wait, and some of them are killed. Meanwhile the server is
// killed again and again, and started again. In the end it is drained. Whatever happened, each submission that was
// acknowledged is in the log once, and ended as it was to; a request is there whole or not at all; no program ended
// well twice, neither by the log nor by the kernel; results are there, and nothing is left.
func TestServerRounds(t *testing.T) {
	t.Parallel()
	needImage(t)
	names := oneRuntime(t, 0)
	rounds := (number(t, "GANTRY_CRASH_ROUNDS", 3*int64(len(names))) + 2) / 3 // they last longer
	side := min(number(t, "GANTRY_CRASH_ENGINES", 2), rounds)
	f := &serverField{gantry: build(t), seed: seed(t), witness: newWitness(t), archive: saved(t)}
	t.Logf("%d rounds of a server on %v, %d side by side", rounds, names, side)
	began := time.Now()
	next := numbered(t, rounds, 1, 1)
	t.Run("side by side", func(t *testing.T) {
		for k := range side {
			t.Run(fmt.Sprint(k), func(t *testing.T) {
				t.Parallel()
				for i := next.take(); i > 0; i = next.take() {
					name := names[(i-1)%int64(len(names))]
					t.Run(fmt.Sprint("round ", i, " ", name), func(t *testing.T) { f.round(t, i, name) })
				}
			})
		}
	})
	t.Logf("%d rounds, %d kills of the server and %d of clients in %v: %d acknowledged, of which %d were cancelled; "+
		"%d lost, %d twice, %d left behind, %d other findings", f.rounds, f.kills, f.clients,
		time.Since(began).Round(time.Second), f.acknowledged, f.cancelled, f.lost, f.twice, f.left, f.other)
}

// serverField is what rounds of a server have in common, and what became of them.
type serverField struct {
	gantry  string
	seed    uint64
	witness *witness
	archive string // of the image, for rounds without a daemon

	mu                       sync.Mutex
	rounds, kills, clients   int
	acknowledged, cancelled  int
	lost, twice, left, other int
}

// handed is a submission of a round.
type handed struct {
	id       int64  // 0: the client did not hear of it
	name     string // that the log has it by, without the number
	cancels  bool
	programs []string // the kernel knows them by these names
}

// serverRound is a round under way.
type serverRound struct {
	*run
	f      *serverField
	t      *testing.T
	number int64
	mu     sync.Mutex
	all    []*handed
	failed []string
	marks  int
}

func (f *serverField) round(t *testing.T, number int64, runtimeName string) {
	random := rand.New(rand.NewPCG(f.seed, uint64(number)))
	r := &serverRound{run: &run{binary: f.gantry, name: fmt.Sprintf("s%d-%d", f.seed, number), home: t.TempDir()}, f: f,
		t: t, number: number}
	args := []string{"--name", r.name, "--quiet", "--oversubscribe", "--retry", "host-error=20", "--policy",
		[]string{"cpp", "fifo", "heft", "3dsf"}[random.IntN(4)]}
	if runtimeName == "oci" {
		args = append(args, "--runtime", "oci")
		r.host, r.images = "unix://"+filepath.Join(r.home, "none.sock"), filepath.Join(r.home, "images")
	}
	for dir, mode := range map[string]os.FileMode{filepath.Dir(r.home): 0o755, r.home: 0o755, r.jobs(): 0o777} {
		must(t, os.MkdirAll(dir, mode)) // programs of root's run as nobody
		must(t, os.Chmod(dir, mode))
	}
	t.Cleanup(r.removeContainers)
	server := r.gantry("serve", args...)
	server.start(t)
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) { // clients wait 2 s for a server that never was
		if _, err := os.Stat(filepath.Join(r.home, "runs", "gantry.sock")); err == nil || time.Since(began) > patience {
			break
		}
	}
	var working sync.WaitGroup
	for k, client := range []func(*rand.Rand){r.workflows, r.tasks, r.cancels, r.killed} {
		own := rand.New(rand.NewPCG(f.seed, uint64(number)<<8+uint64(k)+1))
		working.Go(func() { client(own) })
	}
	over := make(chan struct{})
	go func() {
		working.Wait()
		close(over)
	}()
	kills := 0
	for most := 2 + random.IntN(5); kills < most; kills++ {
		life := time.Duration(random.Int64N(int64(2500 * time.Millisecond)))
		if random.IntN(3) == 0 {
			life /= 20
		}
		time.Sleep(life) // the moment of the kill is what is drawn
		_ = server.cmd.Process.Kill()
		_ = server.cmd.Wait()
		if code := server.cmd.ProcessState.ExitCode(); code != -1 {
			r.fail("the server ended with %d:\n%s", code, server.out.String())
		}
		time.Sleep(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		server = r.gantry("serve", args...)
		server.start(t)
	}
	<-over
	r.cancelRest()
	if code, out := r.command("drain"); code != 0 {
		r.fail("drain ends with %d:\n%s", code, out)
	}
	if code, out := server.end(); code != 0 && code != 1 { // 1: of what was cancelled
		r.fail("the server ends with %d:\n%s", code, out)
	}
	var found findings
	r.examine(&found)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rounds++
	f.kills += kills
	f.lost, f.twice, f.left, f.other = f.lost+found.lost, f.twice+found.twice, f.left+found.left,
		f.other+found.other+len(r.failed)
	for _, text := range append(r.failed, found.texts...) {
		t.Errorf("round %d of seed %d: %s\n%s", number, f.seed, text, again("TestServerRounds", f.seed,
			fmt.Sprintf("GANTRY_CRASH_RUNTIME=%s GANTRY_CRASH_ROUND=%d ", runtimeName, number)))
	}
	if number%20 == 0 {
		fmt.Printf("server round %d: %d kills; %d acknowledged, %d lost, %d twice, %d left\n", number, f.kills,
			f.acknowledged, f.lost, f.twice, f.left)
	}
}

func (r *serverRound) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}

// command runs a client. It ends by itself: a minute after the server does not answer any more, at the latest.
func (r *serverRound) command(name string, args ...string) (code int, out string) {
	return r.in(r.home, append([]string{name, "--dir", filepath.Join(r.home, "runs")}, args...)...)
}

// sbatch hands in a job, which works in a directory of all jobs and may be tried again.
func (r *serverRound) sbatch(name, script string, args ...string) (code int, out string) {
	return r.in(r.jobs(), append(append([]string{"sbatch", "--parsable", "--retries", "20", "-J", name, "-o",
		"/dev/null"}, args...), "--wrap", "set -e; "+script)...)
}

func (r *serverRound) jobs() string { return filepath.Join(r.home, "jobs") }

func (r *serverRound) in(dir string, args ...string) (code int, out string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	cmd.Env = append(os.Environ(), "GANTRY_DIR="+filepath.Join(r.home, "runs"), "GANTRY_IMAGE="+r.image())
	_ = cmd.Run()
	if code = cmd.ProcessState.ExitCode(); code != 0 {
		return code, stdout.String() + stderr.String()
	}
	return 0, stdout.String()
}

const (
	exitHost  = 4
	exitSlurm = 1
	noServer  = "no gantry serves" // on a busy host the next one may come after a client gave up, and said so
)

// patient is command for requests that can be made again.
func (r *serverRound) patient(name string, args ...string) (code int, out string) {
	for {
		code, out := r.command(name, args...)
		if code != exitHost || !strings.Contains(out, noServer) {
			return code, out
		}
	}
}

// mark returns the end of a script, by which the kernel tells that it ended well, and a name for it.
func (r *serverRound) mark() (name, script string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marks++
	name = fmt.Sprintf("%04d", r.marks)
	return name, r.f.witness.mark(r.number, name)
}

// image is what tasks run in.
func (r *serverRound) image() string {
	if r.images != "" {
		return "docker-archive:" + r.f.archive
	}
	return image
}

// makeflow writes a workflow of two tasks, of which the first reads the secret of its submission.
func (r *serverRound) makeflow(name string) (path string, h *handed) {
	first, end1 := r.mark()
	second, end2 := r.mark()
	path = filepath.Join(r.home, name+".makeflow")
	write(r.t, path, "one:\n\tcat /run/secrets/word >one; sleep 0.2"+end1+"\n\ntwo: one\n\tcat one one >two"+end2+"\n")
	return path, &handed{name: name, programs: []string{first, second}}
}

// acknowledge notes what a client was told.
func (r *serverRound) acknowledge(code int, out string, all ...*handed) bool {
	ids := strings.Fields(out)
	if (code == exitHost || code == exitSlurm) && strings.Contains(out, noServer) { // it may be there, or not
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, all...)
		return false
	}
	if code != 0 || len(ids) != len(all) {
		r.fail("a submission of %s ends with %d:\n%s", all[0].name, code, out)
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, h := range all {
		h.id, _ = strconv.ParseInt(ids[i], 10, 64)
		r.all = append(r.all, h)
	}
	return true
}

// submitted is the command line of workflows.
func (r *serverRound) submission(paths ...string) []string {
	word := filepath.Join(r.home, "word")
	_ = os.WriteFile(word, []byte("word\n"), 0o600)
	return append([]string{"--quiet", "--no-prediction", "--image", r.image(), "--secret", "word=" + word}, paths...)
}

// workflows hands in workflows and waits for some.
func (r *serverRound) workflows(random *rand.Rand) {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for i := range 3 {
		path, h := r.makeflow(fmt.Sprintf("flow%d", i))
		code, out := r.command("submit", append(r.submission(path), "--name", h.name)...)
		if !r.acknowledge(code, out, h) {
			return
		}
		waiting.Go(func() {
			if code, out := r.patient("wait", strconv.FormatInt(h.id, 10)); code != 0 {
				r.fail("wait for %s ends with %d:\n%s", h.name, code, out)
			}
		})
		time.Sleep(time.Duration(random.IntN(700)) * time.Millisecond)
	}
}

// tasks hands in jobs, each after the one before, of one workflow that grows or opens again.
func (r *serverRound) tasks(random *rand.Rand) {
	last := int64(0)
	for i := range 5 {
		program, end := r.mark()
		h := &handed{name: fmt.Sprintf("task%d", i), programs: []string{program}}
		args := []string{"--workflow", "grows"}
		if last > 0 && random.IntN(3) > 0 {
			args = append(args, "-d", "afterok:"+strconv.FormatInt(last, 10))
		}
		code, out := r.sbatch(h.name, "sleep 0.1; echo "+h.name+" >"+h.name+end, args...)
		if !r.acknowledge(code, out, h) {
			return
		}
		last = h.id
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
	}
}

// cancels hands in what would take long, and withdraws it.
func (r *serverRound) cancels(random *rand.Rand) {
	for i := range 3 {
		program, end := r.mark()
		h := &handed{name: fmt.Sprintf("stuck%d", i), cancels: true, programs: []string{program}}
		code, out := r.sbatch(h.name, "sleep 600"+end, "--workflow", h.name)
		if !r.acknowledge(code, out, h) {
			return
		}
		time.Sleep(time.Duration(random.IntN(900)) * time.Millisecond)
		if code, out := r.patient("cancel", strconv.FormatInt(h.id, 10)); code != 0 {
			r.fail("cancel %s ends with %d:\n%s", h.name, code, out)
			return
		}
		if code, out := r.patient("wait", strconv.FormatInt(h.id, 10)); code != 1 {
			r.fail("wait for %s, which was cancelled, ends with %d:\n%s", h.name, code, out)
		}
	}
}

// cancelRest withdraws what cancels could not, as it did not hear whether it was handed in.
func (r *serverRound) cancelRest() {
	db := r.open(r.t)
	defer db.Close()
	rows, err := db.Query("SELECT id FROM submitted WHERE name LIKE 'stuck%'")
	must(r.t, err)
	defer rows.Close()
	for rows.Next() {
		var id string
		must(r.t, rows.Scan(&id))
		if code, out := r.patient("cancel", id); code != 0 {
			r.fail("cancel %s ends with %d:\n%s", id, code, out)
		}
	}
}

// killed hands in two workflows at once and is killed meanwhile, or not.
func (r *serverRound) killed(random *rand.Rand) {
	for i := range 4 {
		a, ha := r.makeflow(fmt.Sprintf("pair%da", i))
		b, hb := r.makeflow(fmt.Sprintf("pair%db", i))
		cmd := exec.Command(r.binary, append([]string{"submit", "--dir", filepath.Join(r.home, "runs")},
			r.submission(a, b)...)...)
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			r.fail("%v", err)
			return
		}
		kill := time.AfterFunc(time.Duration(random.IntN(250))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
		if cmd.ProcessState.ExitCode() == 0 {
			r.acknowledge(0, out.String(), ha, hb)
			continue
		}
		r.mu.Lock()
		r.all = append(r.all, ha, hb)
		r.mu.Unlock()
		r.f.mu.Lock()
		r.f.clients++
		r.f.mu.Unlock()
	}
}

// examine looks for what should not be.
func (r *serverRound) examine(found *findings) {
	t, db := r.t, r.open(r.t)
	defer db.Close()
	sound(db, found)
	there := map[string]int64{} // ids by the names that the test gave
	rows, err := db.Query("SELECT id, name, state FROM submitted")
	must(t, err)
	for rows.Next() {
		var id int64
		var name, state string
		must(t, rows.Scan(&id, &name, &state))
		if suffix := fmt.Sprintf("-%d", id); strings.HasSuffix(name, suffix) {
			name = strings.TrimSuffix(strings.TrimSuffix(name, suffix), ".makeflow")
		}
		if there[name] != 0 {
			found.add(&found.twice, "%s was handed in once and is there as %d and %d", name, there[name], id)
		}
		there[name] = id
		if state != "arrived" && state != "cancelled" {
			found.add(&found.lost, "submission %d, %s, is %s", id, name, state)
		}
	}
	rows.Close()
	r.f.mu.Lock()
	for _, h := range r.all {
		if h.id != 0 {
			r.f.acknowledged++
		}
		if h.cancels {
			r.f.cancelled++
		}
	}
	r.f.mu.Unlock()
	for i, h := range r.all {
		switch id := there[h.name]; {
		case h.id != 0 && id != h.id:
			found.add(&found.lost, "%s was acknowledged as %d and is there as %d", h.name, h.id, id)
		case h.id == 0 && strings.HasSuffix(h.name, "a") && (id == 0) != (there[r.all[i+1].name] == 0):
			found.add(&found.lost, "of one request %s is there as %d, and the other as %d", h.name, id,
				there[r.all[i+1].name])
		}
	}
	r.programs(db, there, found)
	leftovers(r.run, found)
	for _, pattern := range []string{filepath.Join(r.home, "runs", "gantry.sock"),
		filepath.Join("/dev/shm", "gantry-"+r.name+"-*")} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			found.add(&found.left, "%s", strings.Join(left, " "))
		}
	}
}

// programs looks at how often they ran, and at what they left.
func (r *serverRound) programs(db *sql.DB, there map[string]int64, found *findings) {
	for _, h := range r.all {
		id := there[h.name]
		if id == 0 {
			continue // its client was killed before it was there
		}
		rows, err := db.Query(`SELECT t.name, t.state, sum(a.outcome = 'ok'), count(a.attempt) - count(a.outcome)
			FROM submitted s
			JOIN tasks t ON t.run = s.run AND t.workflow = s.workflow AND (s.task IS NULL OR t.task = s.task)
			LEFT JOIN attempts a ON a.run = t.run AND a.task = t.task WHERE s.id = ? GROUP BY t.task`, id)
		must(r.t, err)
		tasks := 0
		for rows.Next() {
			var name, state string
			var ok, open sql.NullInt64
			must(r.t, rows.Scan(&name, &state, &ok, &open))
			tasks++
			switch {
			case open.Int64 > 0:
				found.add(&found.lost, "%d attempts of %s of %s have no end", open.Int64, name, h.name)
			case ok.Int64 > 1:
				found.add(&found.twice, "%s of %s succeeded %d times by the log", name, h.name, ok.Int64)
			case h.cancels && (ok.Int64 > 0 || state == "done"):
				found.add(&found.other, "%s was cancelled and is %s", h.name, state)
			case !h.cancels && ok.Int64 != 1:
				found.add(&found.lost, "%s of %s is %s:%s", name, h.name, state, attempts(db, r.name, name))
			}
		}
		rows.Close()
		if tasks != len(h.programs) && !h.cancels { // what was cancelled need not have arrived
			found.add(&found.lost, "%s has %d tasks, not %d", h.name, tasks, len(h.programs))
		}
		for _, name := range h.programs {
			n, sure := r.settled(name, !h.cancels)
			switch {
			case n > 1, n > 0 && h.cancels:
				found.add(&found.twice, "by the kernel a program of %s succeeded %d times", h.name, n)
			case sure && n == 0 && !h.cancels:
				found.add(&found.other, "the kernel has not seen how a program of %s succeeded", h.name)
			}
		}
		if h.cancels {
			continue
		}
		file := filepath.Join(r.home, "runs", r.name, "results", "*", "two")
		if strings.HasPrefix(h.name, "task") {
			file = filepath.Join(r.jobs(), h.name)
		}
		if paths, _ := filepath.Glob(file); len(paths) == 0 {
			found.add(&found.lost, "%s has left no file %s", h.name, file)
		}
	}
}

// settled is how often a program ended well, by the kernel, whose news of it may be late.
func (r *serverRound) settled(name string, wanted bool) (n int, sure bool) {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		n, sure := r.f.witness.successes(r.number, name)
		if n > 0 || !wanted || !sure || time.Now().After(end) {
			return n, sure
		}
	}
}
