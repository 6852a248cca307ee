package crashtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gantry/executor"
	"gantry/planner/seed/seedtest"
)

// A round is one run of a small workflow of real commands and emulated tasks, whose gantry, Docker Engine or disk is
// disturbed up to maxLives times, and which is then resumed until it ends. Whatever happened, the log is sound, every
// task has succeeded once, neither the kernel nor the engine has told of a program that ended well twice, the results
// are those of a run that nobody disturbed, byte for byte, and nothing is left.
//
// Every other round, in the short test three of four, runs containers without a Docker Engine, with a store of images
// of its own, unless GANTRY_CRASH_RUNTIME says docker or oci.

const maxLives = 7 // disturbed lives of gantry in a round

// The first disturbances of a round are kills, in the first half of the time that a run takes.
const (
	kills  = 2
	deadly = 4 // the first so many kinds
)

type disturbing struct {
	name   string
	weight int
}

// kinds of disturbance, by how often they are drawn: kills, then others. GANTRY_CRASH_KIND leaves one of them.
var kinds = []disturbing{{"kill", 30}, {"kill early", 20}, {"pair", 12}, {"burst", 10}, {"stop and continue", 6},
	{"term", 6}, {"interrupt", 6}, {"full disk", 5}, {"engine killed", 5}, {"engine stopped", 2}}

// tally is what happened in all rounds.
type tally struct {
	mu                      sync.Mutex
	Rounds, Lives, Stalls   int
	Killed                  int       // rounds in which gantry was killed twice or more
	Restarts                int       // of engines that did not remove a container
	stalled                 time.Time // the latest
	Kinds                   map[string]int
	Lost, Twice, Left, Else int
}

// needImage skips on hosts without the image of the tasks.
func needImage(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("docker", "image", "inspect", image).CombinedOutput(); err != nil {
		t.Skipf("needs a Docker Engine with the image %s (make images): %v %s", image, err,
			bytes.TrimSpace(out))
	}
}

// saved is an archive of that image.
func saved(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	if out, err := exec.Command("docker", "save", "-o", path, image).CombinedOutput(); err != nil {
		t.Fatalf("save %s: %v %s", image, err, out)
	}
	return path
}

// numbers hands out the numbers of the rounds of a runtime: every step-th. GANTRY_CRASH_ROUND leaves one.
type numbers struct {
	mu                      sync.Mutex
	next, step, open, spare int64
}

func numbered(t *testing.T, rounds, first, step int64) *numbers {
	t.Helper()
	n := &numbers{next: first, step: step, open: (rounds - first + step) / step}
	n.spare = n.open
	if only := number(t, "GANTRY_CRASH_ROUND", 0); only > 0 {
		n.next, n.open, n.spare = only, 0, 0
		if (only-first)%step == 0 {
			n.open = 1
		}
	}
	return n
}

// take returns 0 if there is none left.
func (n *numbers) take() (number int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open > 0 {
		number, n.next, n.open = n.next, n.next+n.step, n.open-1
	}
	return number
}

// replace has one more round held, for one that has ended before gantry was killed as often as it was to be.
func (n *numbers) replace() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.spare > 0 {
		n.spare, n.open = n.spare-1, n.open+1
	}
}

func TestRounds(t *testing.T) {
	t.Parallel()
	needImage(t)
	rounds, seed := number(t, "GANTRY_CRASH_ROUNDS", 10), seed(t)
	if kind := os.Getenv("GANTRY_CRASH_KIND"); kind != "" {
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(k disturbing) bool { return k.name != kind })
		if len(kinds) == 0 {
			t.Fatalf("GANTRY_CRASH_KIND=%s is no kind of disturbance", kind)
		}
	}
	names := runtimes(t)
	if testing.Short() && len(names) > 1 {
		names = append(names, "oci", "oci")
	}
	fields := number(t, "GANTRY_CRASH_ENGINES", 2)
	t.Logf("%d rounds on %v, %d side by side", rounds, names, max(fields, int64(len(names))))
	gantry := build(t)
	sum := &tally{Kinds: map[string]int{}}
	seen := newWitness(t)
	archive := saved(t)
	began := time.Now()
	go sum.watchClock(t.Context())
	t.Run("fields", func(t *testing.T) {
		for i, name := range names {
			next := numbered(t, rounds, int64(i)+1, int64(len(names)))
			for k := range max(1, fields/int64(len(names))) {
				t.Run(fmt.Sprint(name, " ", i, " ", k), func(t *testing.T) {
					t.Parallel()
					f := &field{gantry: gantry, witness: seen, sum: sum, disk: smallDisk(t), kinds: kinds}
					if name == "oci" {
						if seen == nil {
							t.Skip("nobody tells how often programs run")
						}
						f.archive = archive
						f.kinds = slices.DeleteFunc(slices.Clone(kinds),
							func(k disturbing) bool { return strings.HasPrefix(k.name, "engine") })
					} else {
						f.engine = newEngine(t)
					}
					f.undisturbed(t)
					for i := next.take(); i > 0; i = next.take() {
						if !f.whole(t, seed, i) {
							next.replace()
						}
					}
				})
			}
		}
	})
	t.Logf("%d rounds with %d lives of gantry, %d rounds with two kills or more, in %v: %d lost, %d twice, "+
		"%d left behind, %d other findings, %d restarts of engines that did not remove a container; the host stood "+
		"still %d times; %v", sum.Rounds, sum.Lives, sum.Killed, time.Since(began).Round(time.Second), sum.Lost,
		sum.Twice, sum.Left, sum.Else, sum.Restarts, sum.Stalls, sum.Kinds)
	if seen != nil && seen.missed > 0 {
		t.Logf("%d times the kernel had more to say of processes than was read", seen.missed)
	}
}

// watchClock notices when the host, or this process on it, stood still: an engine may miss deadlines of its own then.
func (s *tally) watchClock(ctx context.Context) {
	const long = 3 * time.Second
	for last := time.Now(); ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		now := time.Now()
		if now.Sub(last) > long {
			s.mu.Lock()
			s.Stalls++
			s.stalled = now
			s.mu.Unlock()
		}
		last = now
	}
}

// runtimes are both, or the one that GANTRY_CRASH_RUNTIME names.
func runtimes(t *testing.T) []string {
	t.Helper()
	all, name := []string{"docker", "oci"}, os.Getenv("GANTRY_CRASH_RUNTIME")
	switch {
	case name == "":
		return all
	case !slices.Contains(all, name):
		t.Fatalf("GANTRY_CRASH_RUNTIME=%s: docker and oci are known", name)
	}
	return []string{name}
}

// oneRuntime is one of them in a short test: which, the seed and a number say.
func oneRuntime(t *testing.T, number int) []string {
	t.Helper()
	names := runtimes(t)
	if testing.Short() {
		n := (seedtest.Part(2) + number) % len(names)
		names = names[n : n+1]
	}
	return names
}

// field is where rounds are held: an engine and a disk.
type field struct {
	gantry  string
	engine  *engine // nil without a daemon
	archive string  // of the image, without a daemon
	witness *witness
	disk    string
	kinds   []disturbing
	sum     *tally
	want    map[string]string // results of the undisturbed run
	length  time.Duration     // of it
}

// smallDisk is a file system that can be filled.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=48m"); err != nil {
		t.Skipf("needs to mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// commands check what they wrote: on a full disk busybox's sort and md5sum write less and return 0.
var commands = map[string]string{
	"first": "i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done > first.txt; [ $(wc -l < first.txt) = " +
		"500 ]; sleep 0.1",
	"second": "sort -r first.txt > second.txt; [ $(wc -c < second.txt) = $(wc -c < first.txt) ]; sleep 0.05",
	"brief":  "md5sum < data.bin > brief.txt; [ $(wc -c < brief.txt) = 36 ]",
	"long":   "trap 'exit 9' TERM; for i in 1 2 3 4; do sleep 0.1; done; echo long > long.txt; [ -s long.txt ]",
	last:     "cat second.txt brief.txt long.txt > all.txt",
}

// workflow writes the workflow of a round.
func (f *field) workflow(t *testing.T, home string, round int64) string {
	t.Helper()
	image := image
	if f.engine == nil {
		image = "docker-archive:" + f.archive
	}
	task := func(id string, after, in, out []string) step {
		s := step{id: id, after: after, in: in, out: out, seconds: 0.05}
		if c := commands[id]; c != "" {
			s.script = c + f.witness.mark(round, id)
		}
		return s
	}
	path := filepath.Join(home, "round.json")
	writeFlow(t, path, image, map[string]int64{"data.bin": 40_000},
		task("first", nil, nil, []string{"first.txt"}),
		task("second", []string{"first"}, []string{"first.txt"}, []string{"second.txt"}),
		task("emulated", nil, nil, []string{"data.bin"}),
		task("brief", []string{"emulated"}, []string{"data.bin"}, []string{"brief.txt"}),
		task("long", nil, nil, []string{"long.txt"}),
		task(last, []string{"second", "brief", "long"}, []string{"second.txt", "brief.txt", "long.txt"},
			[]string{"all.txt"}))
	return path
}

// newRun makes a run on the field's disk.
func (f *field) newRun(t *testing.T, name string, round int64) *run {
	t.Helper()
	r := &run{binary: f.gantry, name: name, home: filepath.Join(f.disk, name), tasks: 6}
	must(t, os.Mkdir(r.home, 0o755))
	// A program that cannot write to a full disk fails by itself: such a task is tried again, as somebody with a small
	// disk would ask for.
	r.args = []string{"--name", name, "--quiet", "--retry", "exit-code=20", "--retry", "output-missing=20", "--retry",
		"host-error=20", "--oversubscribe"}
	if f.engine != nil {
		r.args, r.host = append(r.args, "--runtime", "docker"), f.engine.host
	} else {
		r.args = append(r.args, "--runtime", "oci")
		// No engine answers there, and each run unpacks its image.
		r.host, r.images = "unix://"+filepath.Join(r.home, "none.sock"), filepath.Join(r.home, "images")
	}
	r.args = append(r.args, f.workflow(t, r.home, round))
	return r
}

func (f *field) undisturbed(t *testing.T) {
	t.Helper()
	for range 2 { // the first makes the empty image
		r := f.newRun(t, "undisturbed", 0)
		began := time.Now()
		if code, out := r.gantry("run", r.args...).wait(t); code != 0 {
			t.Fatalf("the undisturbed run ends with %d:\n%s%s", code, out, r.failures(t))
		}
		f.length = time.Since(began)
		f.want = r.results(t)
		if len(f.want) == 0 {
			t.Fatal("the undisturbed run has no results")
		}
		must(t, os.RemoveAll(r.home))
	}
}

// whole holds a round, and reports whether gantry was killed as often as it was to be. A round that the test itself
// could not bring to its end is a finding, too, and the engine holds the next.
func (f *field) whole(t *testing.T, seed uint64, number int64) (killed bool) {
	t.Helper()
	whole := false
	t.Run(fmt.Sprint("round ", number), func(t *testing.T) {
		killed = f.round(t, seed, number)
		whole = true
	})
	if !whole {
		f.sum.mu.Lock()
		f.sum.Rounds++
		f.sum.Else++
		f.sum.mu.Unlock()
		_ = os.RemoveAll(filepath.Join(f.disk, roundName(seed, number)))
	}
	return killed || !whole
}

func roundName(seed uint64, number int64) string { return fmt.Sprintf("r%d-%d", seed, number) }

func (f *field) round(t *testing.T, seed uint64, number int64) (killed bool) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, uint64(number)))
	r := f.newRun(t, roundName(seed, number), number)
	var story []string
	began := time.Now()
	died, failed := f.disturb(t, r, random, &story)
	var found findings
	if failed != "" {
		found.add(&found.lost, "%s", failed)
	} else {
		f.sum.mu.Lock()
		stalled := f.sum.stalled.After(began)
		f.sum.mu.Unlock()
		full := slices.ContainsFunc(story, func(s string) bool { return strings.HasPrefix(s, "full disk:") })
		f.examine(t, r, number, stalled, full, &found)
	}
	f.sum.mu.Lock()
	defer f.sum.mu.Unlock()
	f.sum.Rounds++
	f.sum.Lives += len(story) + 1
	if killed = died >= kills || len(f.kinds) == 1; killed {
		f.sum.Killed++
	}
	f.sum.Lost += found.lost
	f.sum.Twice += found.twice
	f.sum.Left += found.left
	f.sum.Else += found.other
	for _, s := range story {
		kind, _, _ := strings.Cut(s, ":")
		f.sum.Kinds[kind]++
	}
	if len(found.texts) > 0 {
		name := "oci"
		if f.engine != nil {
			name = "docker"
			t.Log(f.engine.said())
		}
		t.Errorf("round %d of seed %d:\n\t%s\n\tbecame of %s\n%s", number, seed, strings.Join(found.texts, "\n\t"),
			strings.Join(story, "; "), again("TestRounds", seed,
				fmt.Sprintf("GANTRY_CRASH_RUNTIME=%s GANTRY_CRASH_ROUND=%d ", name, number)))
		_ = os.RemoveAll(r.home)
		return killed
	}
	if f.engine != nil {
		f.engine.endShims() // those of an engine that was killed stay, without containers
	}
	if number%20 == 0 {
		fmt.Printf("round %d: %s; %d lost, %d twice, %d left\n", number, strings.Join(story, "; "), f.sum.Lost,
			f.sum.Twice, f.sum.Left)
	}
	if err := os.RemoveAll(r.home); err != nil {
		t.Errorf("round %d: %v", number, err)
	}
	return killed
}

// findings are what should not be.
type findings struct {
	lost, twice, left, other int
	texts                    []string
}

func (f *findings) add(kind *int, format string, args ...any) {
	*kind++
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

// disturb begins the run, disturbs it, and resumes until it ends; it returns how often gantry was killed, and what went
// wrong.
func (f *field) disturb(t *testing.T, r *run, random *rand.Rand, story *[]string) (died int, failed string) {
	t.Helper()
	command, args := "run", r.args
	lives := kills + 1
	if !testing.Short() {
		lives = kills + random.IntN(maxLives-kills+1)
	}
	early := 0 // kills to come in the first moments: of a pair or a burst
	quiet := 0 // lives that nobody disturbed
	restarts := 0
	for life := 0; ; life++ {
		d := &disturbance{kind: "none"}
		if life < lives {
			d = f.draw(random, life, &early)
		}
		code, out := f.live(t, r.gantry(command, args...), d)
		if d.kind != "none" {
			*story = append(*story, fmt.Sprintf("%s: %s (%s, exit code %d)", d.kind, d.text, command, code))
		} else {
			quiet++
		}
		if code == -1 {
			died++
		}
		state := r.state(t)
		switch {
		case code == 0:
			return died, ""
		case state == "finished":
			return died, "" // it was killed after the last thing that it had to do
		case code == 4 && restarts < 3 && strings.Contains(out, "does not remove"):
			// Docker Engines that are stopped while they clear up may need another restart, or may leave something
			// mounted that they never unmount. Gantry says so.
			if restarts == 0 {
				f.engine.restart(t, syscall.SIGTERM)
			} else {
				f.engine.restartHost(t)
			}
			restarts, quiet = restarts+1, 0
			f.sum.mu.Lock()
			f.sum.Restarts++
			f.sum.mu.Unlock()
			*story = append(*story, "engine restarted: as gantry says that it has to be")
			command, args = "resume", []string{"--quiet", r.name}
		case quiet > 3, code != -1 && code != 130 && code != exitInput && code != 4 && code != 75, code == exitInput &&
			state != "",
			quiet > 0 && (code == 130 || code == -1), state == "failed":
			return died, fmt.Sprintf("gantry %s ends with %d, the run is %q:\n%s%s", command, code, state, out,
				r.failures(t))
		case code == 143:
			return died, "SIGTERM ends it with 143"
		case state == "":
			command, args = "run", r.args
		default:
			command, args = "resume", []string{"--quiet", r.name}
		}
	}
}

// disturbance is what happens to one life of gantry.
type disturbance struct {
	kind, text string
	do         func(t *testing.T, p *process, over <-chan struct{})
	after      func()
}

// draw draws the disturbance of a life.
func (f *field) draw(random *rand.Rand, life int, early *int) *disturbance {
	moment := func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most))) }
	if *early > 0 {
		*early--
		at := moment(200 * time.Millisecond)
		return &disturbance{kind: "kill in a row", text: at.String(), do: signals(at, syscall.SIGKILL)}
	}
	drawn, length := f.kinds, f.length
	if life < kills && len(drawn) > 1 {
		drawn, length = kinds[:deadly], length/2
	}
	total := 0
	for _, k := range drawn {
		total += k.weight
	}
	pick, kind := random.IntN(total), ""
	for _, k := range drawn {
		if pick -= k.weight; pick < 0 {
			kind = k.name
			break
		}
	}
	at := moment(length)
	d := &disturbance{kind: kind}
	switch kind {
	case "kill", "pair", "burst":
		if kind == "pair" {
			*early = 1
		} else if kind == "burst" {
			*early = 2 + random.IntN(4)
		}
		d.do = signals(at, syscall.SIGKILL)
	case "kill early":
		at = moment(50 * time.Millisecond)
		d.do = signals(at, syscall.SIGKILL)
	case "stop and continue":
		hold, kill := moment(400*time.Millisecond), random.IntN(2) == 0
		d.do = func(t *testing.T, p *process, over <-chan struct{}) {
			signals(at, syscall.SIGSTOP)(t, p, over)
			signals(hold, syscall.SIGCONT)(t, p, over)
			if kill {
				signals(hold/2, syscall.SIGKILL)(t, p, over)
			}
		}
	case "term":
		d.do = signals(at, syscall.SIGTERM)
	case "interrupt":
		times := 1 + random.IntN(3)
		d.do = func(t *testing.T, p *process, over <-chan struct{}) {
			for range times {
				signals(at/time.Duration(times), syscall.SIGINT)(t, p, over)
			}
		}
	case "engine killed", "engine stopped":
		s, kill := syscall.SIGKILL, random.IntN(2) == 0
		if kind == "engine stopped" {
			s = syscall.SIGTERM
		}
		d.do = func(t *testing.T, p *process, over <-chan struct{}) {
			wait(at, over)
			if kill {
				_ = p.cmd.Process.Kill()
			}
			f.engine.restart(t, s)
		}
	case "full disk":
		filler := filepath.Join(f.disk, "filler")
		d.do = func(t *testing.T, p *process, over <-chan struct{}) {
			wait(at, over)
			fill(filler)
			wait(time.Second, over)
			_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may wait for room
		}
		d.after = func() { _ = os.Remove(filler) }
	}
	d.text = at.Round(time.Millisecond).String()
	return d
}

// wait waits a while, or until gantry has ended.
func wait(d time.Duration, over <-chan struct{}) {
	select {
	case <-time.After(d):
	case <-over:
	}
}

// signals sends a signal. One that gantry takes is sent once it can: before its first instruction nobody does.
func signals(after time.Duration, s syscall.Signal) func(*testing.T, *process, <-chan struct{}) {
	return func(_ *testing.T, p *process, over <-chan struct{}) {
		wait(after, over)
		for (s == syscall.SIGTERM || s == syscall.SIGINT) && !catches(p.cmd.Process.Pid, s) {
			select {
			case <-over:
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
		_ = p.cmd.Process.Signal(s)
	}
}

// catches reports whether a process has a handler for a signal.
func catches(pid int, s syscall.Signal) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "SigCgt:")
	var mask uint64
	_, _ = fmt.Sscanf(rest, "%x", &mask)
	return mask>>(s-1)&1 != 0
}

// fill writes until the disk is full.
func fill(path string) {
	f, err := os.Create(path)
	if err != nil {
		return
	}
	defer f.Close()
	for size := 1 << 20; size >= 1<<12; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

// live lives one life of gantry.
func (f *field) live(t *testing.T, p *process, d *disturbance) (int, string) {
	t.Helper()
	p.start(t)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if d.do != nil {
			d.do(t, p, over)
		}
	}()
	code, out := p.end()
	close(over)
	<-done
	if d.after != nil {
		d.after()
	}
	return code, out
}

// examine looks for what should not be. In a round in which the host stood still, or its disk was full, attempts may
// fail for that.
func (f *field) examine(t *testing.T, r *run, round int64, stalled, full bool, found *findings) {
	t.Helper()
	db := r.open(t)
	defer db.Close()
	marks := func(task string) bool { return commands[task] != "" }
	for name := range r.programs(t, db, f.witness, round, marks, found) {
		if n := f.engine.successes(r.name, name); n > 1 {
			found.add(&found.twice, "by the engine task %s succeeded %d times:%s", name, n,
				attempts(db, r.name, name))
		}
	}
	if blamed := blame(db, r.name, stalled, full); blamed != "" {
		found.add(&found.other, "blamed on the task: %s", blamed)
	}
	if got := r.results(t); !maps.Equal(got, f.want) {
		found.add(&found.lost, "results %v, not %v", got, f.want)
	}
	leftovers(r, found)
}

// blame lists attempts whose end the log blames on the program or on somebody else, although it was the test's doing. A
// full disk does fail programs, which may not even be able to say so, and an engine fails starts if the host stands
// still.
func blame(db *sql.DB, run string, stalled, full bool) string {
	rows, err := db.Query(`SELECT t.name, a.outcome, coalesce(a.message, '') FROM attempts a
		JOIN tasks t ON t.run = a.run AND t.task = a.task JOIN runs r ON r.id = a.run
		WHERE r.name = ? AND a.outcome IN ('exit-code', 'killed', 'out-of-memory', 'output-missing', 'timed-out',
		'host-error')`, run)
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var task, outcome, message string
		if err := rows.Scan(&task, &outcome, &message); err != nil {
			return err.Error()
		}
		engine := stalled && outcome == "host-error" && strings.Contains(message, "Error response from daemon")
		program := full && (outcome == "exit-code" || outcome == "output-missing")
		if !engine && !program && !strings.Contains(strings.ToLower(message), "no space left") {
			all = append(all, fmt.Sprintf("%s: %s: %s", task, outcome, message))
		}
	}
	return strings.Join(all, "; ")
}

// leftovers looks for containers, control groups, control directories, temporary files and mounts.
func leftovers(r *run, found *findings) {
	dir := filepath.Join(r.home, "runs", r.name)
	group := executor.HostName(r.name, dir)
	patterns := []string{filepath.Join(dir, "partial", "*"),
		filepath.Join("/sys/fs/cgroup", "*", "gantry", group), filepath.Join("/sys/fs/cgroup", "gantry", group)}
	if r.images != "" { // control/oci stays, empty
		// What a gantry was unpacking that was killed after its run had ended, any other removes.
		cmd := exec.Command(r.binary, "images")
		cmd.Env = append(os.Environ(), "GANTRY_IMAGES="+r.images)
		if out, err := cmd.CombinedOutput(); err != nil {
			found.add(&found.other, "gantry images: %v %s", err, out)
		}
		patterns = append(patterns, filepath.Join(dir, "control", "[^o]*"),
			filepath.Join(dir, "control", "oci", "*"), filepath.Join(r.images, "tmp", "*"))
		sum := sha256.Sum256([]byte(dir))
		for _, top := range []string{"/run", "/dev/shm"} { // bundles of containers
			patterns = append(patterns, filepath.Join(top, "gantry", hex.EncodeToString(sum[:8])))
		}
	} else {
		patterns = append(patterns, filepath.Join(dir, "control", "*"))
		if out, err := r.containers(); err != nil || out != "" {
			found.add(&found.left, "containers: %s %v", out, err)
		}
	}
	for _, pattern := range patterns {
		if paths, _ := filepath.Glob(pattern); len(paths) > 0 {
			found.add(&found.left, "%s", strings.Join(paths, " "))
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	if strings.Contains(string(mounts), dir+"/") {
		found.add(&found.left, "mounts below %s", dir)
	}
}
