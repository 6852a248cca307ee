package crashtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Gantry dies before or after each effect that it has outside of itself (package fault): at every moment of a run, and
// then at those of the resume that follows: at every one with GANTRY_CRASH_PAIRS=1, else at every 41st. The short test
// kills once, at one moment of each effect, on one runtime, as the seed says. GANTRY_CRASH_MOMENTS=7,9 takes these
// alone.
func TestEveryFaultPoint(t *testing.T) {
	t.Parallel()
	needImage(t)
	gantry, seed, every := build(t), seed(t), int(number(t, "GANTRY_CRASH_PAIRS", 41))
	only := os.Getenv("GANTRY_CRASH_MOMENTS")
	for _, name := range oneRuntime(t, 1) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			image := image
			if name == "oci" {
				image = "docker-archive:" + saved(t)
			}
			whole := newFaulty(t, gantry, name, image)
			moments := whole.moments(t, "run", whole.args...)
			if len(moments) < 20 {
				t.Fatalf("only %d moments: %v", len(moments), moments)
			}
			t.Logf("%d moments of a run: %s", len(moments), strings.Join(moments, ", "))
			whole.complete(t, "undisturbed")
			random := rand.New(rand.NewPCG(seed, 0))
			second := random.IntN(every)
			firsts := make(chan string, len(moments))
			for _, moment := range some(moments, random) {
				number, _, _ := strings.Cut(moment, " ")
				if only == "" || slices.Contains(strings.Split(only, ","), number) {
					firsts <- moment
				}
			}
			close(firsts)
			var pairs atomic.Int64
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for moment := range firsts {
						pairs.Add(whole.killAt(t, moment, second, every))
					}
				})
			}
			wg.Wait()
			t.Logf("single kills, and %d pairs", pairs.Load())
			if t.Failed() {
				t.Log(again("TestEveryFaultPoint", seed, fmt.Sprintf("GANTRY_CRASH_RUNTIME=%s GANTRY_CRASH_PAIRS=%d ",
					name, every)))
			}
		})
	}
}

// some are all moments; in the short test one of each effect.
func some(moments []string, random *rand.Rand) (chosen []string) {
	if !testing.Short() {
		return moments
	}
	of := map[string][]string{}
	for _, m := range moments {
		effect := strings.Fields(m)[1]
		of[effect] = append(of[effect], m)
	}
	for _, effect := range slices.Sorted(maps.Keys(of)) {
		chosen = append(chosen, of[effect][random.IntN(len(of[effect]))])
	}
	return chosen
}

// killAt kills a run like this one at a moment; and others at that moment, and their resumes at moments of a remainder.
// It returns the number of these.
func (f *faulty) killAt(t *testing.T, moment string, remainder, every int) (pairs int64) {
	t.Helper()
	var first int
	_, _ = fmt.Sscan(moment, &first)
	r := f.another(t)
	after := r.dies(t, first, "run", r.args...)
	r.finish(t, "killed at "+moment)
	for second := (first + remainder) % every; after && !testing.Short(); second += every {
		r := f.another(t)
		r.dies(t, first, "run", r.args...)
		if after = r.dies(t, second, "resume", "--quiet", r.name); after {
			pairs++
		}
		r.finish(t, fmt.Sprintf("killed at %s, and at moment %d of the resume", moment, second))
	}
	return pairs
}

// faulty is a run of a gantry with fault points: one real task with two outputs, and one that reads one of them.
type faulty struct {
	*run
	runtime, image string
}

// another is such a run.
func (f *faulty) another(t *testing.T) *faulty { return newFaulty(t, f.binary, f.runtime, f.image) }

var faultyRuns atomic.Int64

func newFaulty(t *testing.T, gantry, runtimeName, image string) *faulty {
	t.Helper()
	name := fmt.Sprintf("fault-%d", faultyRuns.Add(1))
	r := &faulty{&run{binary: gantry, name: name, home: filepath.Join(t.TempDir(), name), tasks: 2}, runtimeName, image}
	if err := os.Mkdir(r.home, 0o755); err != nil {
		t.Error(err)
	}
	source := filepath.Join(r.home, "fault.json")
	writeFlow(t, source, image, nil,
		step{id: "a", script: "echo a > a.txt; echo b > b.txt; echo > done", out: []string{"a.txt", "b.txt"}},
		step{id: "b", script: "cat a.txt a.txt > c.txt; echo > done", after: []string{"a"}, in: []string{"a.txt"},
			out: []string{"c.txt"}})
	r.args = []string{"--name", name, "--quiet", "--runtime", runtimeName, source}
	if runtimeName == "oci" {
		r.images = filepath.Join(r.home, "images")
	}
	return r
}

// moments runs to the end and returns the names of all moments on the way.
func (r *faulty) moments(t *testing.T, command string, args ...string) []string {
	t.Helper()
	path := filepath.Join(r.home, "moments")
	p := r.gantry(command, args...)
	p.cmd.Env = append(p.cmd.Environ(), "GANTRY_FAULT_TRACE="+path)
	if code, out := p.wait(t); code != 0 {
		t.Fatalf("gantry %s ends with %d:\n%s", command, code, out)
	}
	text, err := os.ReadFile(path)
	must(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// dies reports whether gantry died at the moment; else it came to its end before.
func (r *faulty) dies(t *testing.T, moment int, command string, args ...string) bool {
	t.Helper()
	p := r.gantry(command, args...)
	p.cmd.Env = append(p.cmd.Environ(), fmt.Sprintf("GANTRY_FAULT=%d", moment))
	code, out := p.wait(t)
	if code != 0 && code != -1 && !(code == exitInput && command == "resume") {
		t.Errorf("gantry %s, to die at moment %d, ends with %d:\n%s", command, moment, code, out)
	}
	return code == -1
}

// finish resumes the run until it ends, and looks whether all is well.
func (r *faulty) finish(t *testing.T, what string) {
	t.Helper()
	defer os.RemoveAll(r.home)
	for r.state(t) != "finished" {
		command, args := "resume", []string{"--quiet", r.name}
		if r.state(t) == "" {
			command, args = "run", r.args
		}
		if code, out := r.gantry(command, args...).wait(t); code != 0 {
			t.Errorf("%s: gantry %s ends with %d:\n%s%s", what, command, code, out, r.failures(t))
			r.removeContainers()
			return
		}
	}
	r.complete(t, what)
}

// complete looks at a run that has ended.
func (r *faulty) complete(t *testing.T, what string) {
	t.Helper()
	db := r.open(t)
	defer db.Close()
	var ok, other int
	if err := db.QueryRow(`SELECT sum(outcome = 'ok'), sum(outcome IS NULL OR outcome NOT IN ('ok', 'lost'))
		FROM attempts`).Scan(&ok, &other); err != nil ||
		ok != 2 || other != 0 {
		t.Errorf("%s: %d attempts ok, %d blamed or without an end: %v%s%s", what, ok, other, err,
			attempts(db, r.name, "a"), attempts(db, r.name, "b"))
	}
	dir := filepath.Join(r.home, "runs", r.name)
	for _, id := range []string{"a", "b"} {
		if done, _ := filepath.Glob(filepath.Join(dir, "work", "*", id+"-*", "done")); len(done) != 1 {
			t.Errorf("%s: the program of task %s ended %d times%s", what, id, len(done), attempts(db, r.name, id))
		}
	}
	for name, want := range map[string]string{"b.txt": "b\n", "c.txt": "a\na\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, "results", "fault", name)); string(got) != want {
			t.Errorf("%s: %s is %q: %v", what, name, got, err)
		}
	}
	var found findings
	leftovers(r.run, &found)
	if len(found.texts) > 0 {
		t.Errorf("%s: left behind: %s", what, strings.Join(found.texts, "; "))
	}
}
