package results_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gantry/executor/experiment"
	"gantry/sqlite/results"
)

// Runs of another build are taken over from the short form if those of them that are repeated come out the same. The
// others are not simulated then, and keep the name of their build.
func TestRunsOfAnotherBuildAreTakenOverIfASampleIsTheSame(t *testing.T) {
	const asked = "name: small\nworkload: w.yaml\ncluster: c.yaml\nrepetitions: 2\nkeep: []\n" +
		"factors: {policy: [cpp, fdws], errors: [none, \"random2:2\"]}\n"
	dir := t.TempDir()
	first := read(t, asked)
	info := func(version string) results.Info {
		return results.Info{Name: "small", Settings: map[string]int{"limit": 1}, Version: version,
			Repetitions: first.Repetitions}
	}
	do := func(db *results.DB, repetitions int, only func(*experiment.Cell, int) bool) (last experiment.Progress) {
		t.Helper()
		r := experiment.Runner{File: first, Store: db, Repetitions: repetitions, Only: only,
			Report: func(p experiment.Progress) { last = p }}
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return last
	}
	open := func(name, version string) *results.DB {
		t.Helper()
		db, err := results.Create(filepath.Join(dir, name), info(version))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	short := func(name string) string {
		t.Helper()
		set, err := results.Load(t.Context(), filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := set.WriteShort(&b, func(string) bool { return true }, 0); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	earlier := func(text, version string) (*results.Earlier, error) {
		t.Helper()
		path := filepath.Join(dir, "short.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		set, err := results.Load(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return results.NewEarlier(set, info(version))
	}

	do(open("a.sqlite", "a"), 1, nil)
	a := short("a.sqlite")

	take := func(name, text, version string) (differs string, samples, kept, runs int) {
		t.Helper()
		e, err := earlier(text, version)
		if err != nil {
			t.Fatal(err)
		}
		db := open(name, version)
		if samples = e.Samples(); samples > 0 {
			if p := do(db, 0, e.Sample); p.Runs != samples || p.Kept != 0 {
				t.Errorf("%s: %d runs were repeated, %d kept; %d have to be", version, p.Runs, p.Kept, samples)
			}
		}
		if differs, err = db.TakeOver(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		p := do(db, 0, nil)
		return differs, samples, p.Kept, p.Runs
	}
	// Of four runs by a two are repeated and two taken over, four are new.
	differs, samples, kept, runs := take("b.sqlite", a, "b")
	if differs != "" || samples != 2 || kept != 4 || runs != 8 {
		t.Fatalf("%q differs, %d samples, %d of %d kept", differs, samples, kept, runs)
	}
	b := short("b.sqlite")
	set, err := results.Load(t.Context(), filepath.Join(dir, "b.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []results.Check{{Earlier: []string{"a"}, Build: "b", Runs: 2}}; !reflect.DeepEqual(set.Checks, want) ||
		len(set.Builds) != 2 {
		t.Errorf("builds %v, checks %v, want %v", set.Builds, set.Checks, want)
	}
	// What b has checked it need not check again, nor its own.
	if differs, samples, kept, runs := take("again.sqlite", b, "b"); differs != "" || samples != 0 || kept != runs {
		t.Errorf("again: %q differs, %d samples, %d of %d kept", differs, samples, kept, runs)
	}
	again := short("again.sqlite")
	if !strings.Contains(again, `"built":[`) || !strings.Contains(again, `"checks":[{`) {
		t.Errorf("the short form has not what builds simulated each run: %s", again)
	}
	// Builds of no commit may be different ones of one name: they check always.
	take("dirty.sqlite", b, "b-dirty")
	if _, samples, _, _ := take("dirtier.sqlite", short("dirty.sqlite"), "b-dirty"); samples == 0 {
		t.Error("a build of no commit takes over what another of its name has checked")
	}
	// Everything came out as if one build had run all of it.
	do(open("whole.sqlite", "w"), 0, nil)
	values := func(text string) string {
		lines := strings.SplitAfter(text, "\n")[1:]
		for i, l := range lines {
			if k := strings.Index(l, `"built"`); k >= 0 {
				lines[i] = l[:k] + l[strings.Index(l, `"metrics"`):]
			}
		}
		return strings.Join(lines, "")
	}
	if whole := short("whole.sqlite"); values(whole) != values(b) {
		t.Errorf("taken over\n%s\nat once\n%s", values(b), values(whole))
	}
	// A build that simulates otherwise takes nothing, and nothing is taken of other files or without known files.
	other := strings.ReplaceAll(a, `"slowdown_mean":[`, `"slowdown_mean":[1`)
	if differs, samples, kept, _ := take("c.sqlite", other, "c"); !strings.Contains(differs, "slowdown_mean") ||
		kept != samples {
		t.Errorf("other results: %q differs, %d samples, %d kept", differs, samples, kept)
	}
	unknown := strings.ReplaceAll(a, `"inputs":`, `"was":`)
	if _, err := earlier(unknown, "c"); err == nil {
		t.Error("results of unknown files are taken over")
	}
	if _, err := earlier(strings.Replace(a, `"limit":1`, `"limit":2`, 1), "c"); err == nil {
		t.Error("results with other limits are taken over")
	}
}

// Every build may have simulated a policy on a load otherwise than the others, so that each is sampled on each.
func TestASampleHasEachPolicyOnEachLoadByEachBuild(t *testing.T) {
	dir := t.TempDir()
	x := read(t, "name: small\nworkload: w.yaml\ncluster: c.yaml\nrepetitions: 2\nkeep: []\n"+
		"factors: {policy: [cpp, fdws], workload: [w.yaml, v.yaml], errors: [none, \"random2:2\"]}\n")
	var earlier *results.Earlier
	for i, version := range []string{"a", "b", "c"} {
		path := filepath.Join(dir, version+".sqlite")
		info := results.Info{Name: "small", Settings: map[string]int{"limit": 1}, Version: version,
			Repetitions: x.Repetitions}
		db, err := results.Create(path, info)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		run := func(repetitions int, only func(*experiment.Cell, int) bool) {
			t.Helper()
			r := experiment.Runner{File: x, Store: db, Repetitions: repetitions, Only: only}
			if err := r.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if i > 0 {
			set, err := results.Load(t.Context(), filepath.Join(dir, "short.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			if earlier, err = results.NewEarlier(set, info); err != nil {
				t.Fatal(err)
			}
			if n, want := earlier.Samples(), 4*i; n != want { // two policies, two loads
				t.Errorf("%d runs are sampled of %d builds, want %d", n, i, want)
			}
			run(0, earlier.Sample)
			if differs, err := db.TakeOver(t.Context(), earlier); differs != "" || err != nil {
				t.Fatalf("%q differs, %v", differs, err)
			}
		}
		run(i+1, nil)
		set, err := results.Load(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := set.WriteShort(&b, func(string) bool { return true }, 0); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "short.jsonl"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
