package reuse

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/planner"
)

// book is a log in memory, with one workflow of one run.
type book struct {
	sums    map[uint64]version // by inode
	files   []string           // names on the node, by id
	had     map[string]Content // of the earlier run
	now     []Content          // of the run at hand
	all     map[Sum][]Candidate
	was     *executor.TaskSpec // of the earlier run
	reasons []string           // for which tasks run
}

type version struct {
	Stamp
	Sum
	at time.Time
}

func (b *book) Remembered(_ context.Context, s Stamp) (Stamp, Sum, time.Time, bool, error) {
	v, ok := b.sums[s.Inode]
	return v.Stamp, v.Sum, v.at, ok, nil
}

func (b *book) Remember(s Stamp, sum Sum, at time.Time) { b.sums[s.Inode] = version{s, sum, at} }

func (b *book) Candidates(_ context.Context, id []byte, _ int) ([]Candidate, error) {
	return b.all[Sum(id)], nil
}

func (b *book) ContentsOf(context.Context, int64, int64) (map[string]Content, error) {
	return b.had, nil
}

func (b *book) Hashed(_ int64, f planner.FileID, sum Sum) error {
	c := b.had[b.files[f]]
	c.Sum = &sum
	b.had[b.files[f]] = c
	return nil
}

func (b *book) Forerunner(context.Context, string, string) (string, time.Time, *executor.TaskSpec, error) {
	return "old", time.Time{}, b.was, nil
}

func (b *book) Known(_ context.Context, f planner.FileID) (Content, bool, error) {
	for _, c := range b.now {
		if c.File == f {
			return c, true, nil
		}
	}
	return Content{}, false, nil
}

func (b *book) Contents(rows ...Content)     { b.now = append(rows, b.now...) }
func (b *book) Identity(planner.TaskID, Sum) {}

func (b *book) NotReused(_ planner.TaskID, _ planner.Time, reason string) error {
	b.reasons = append(b.reasons, reason)
	return nil
}

// area has the files of a run; its results are links.
type area struct{ dir string }

func (a area) Path(_ planner.NodeID, w *executor.WorkflowSpec, f *executor.FileSpec) string {
	return filepath.Join(a.dir, "nodes", "n0", w.Name, f.NodePath())
}

func (a area) Adopt(_ context.Context, w *executor.WorkflowSpec, f *executor.FileSpec, n planner.NodeID,
	from string) error {
	path := a.Path(n, w, f)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return exec.Command("cp", "-al", from, path).Run()
}

func (a area) LinkResult(w *executor.WorkflowSpec, f *executor.FileSpec, n planner.NodeID) (bool, error) {
	return true, os.Link(a.Path(n, w, f), filepath.Join(a.dir, "result"))
}

// desk is a directory of runs. In run old a task has read in and written the file out and the directory tree.
type desk struct {
	*testing.T
	*book
	home string
	spec *executor.TaskSpec
	old  area
}

func newDesk(t *testing.T, hash bool) *desk {
	t.Helper()
	d := &desk{T: t, home: t.TempDir()}
	in := filepath.Join(d.home, "in")
	d.old.dir = filepath.Join(d.home, "old")
	flow := &executor.WorkflowSpec{Name: "w-1", Label: "w"}
	d.spec = &executor.TaskSpec{Name: "t", Workflow: flow, Command: []string{"sort"}, Image: "tools",
		Inputs: []*executor.FileSpec{{Name: "in", External: in, Size: 2}},
		Outputs: []*executor.FileSpec{{Name: "out", ID: 1, Produced: true}, {Name: "tree", ID: 2, Produced: true},
			{Name: "log", ID: 3, Produced: true, Optional: true}}}
	d.book = &book{sums: map[uint64]version{}, files: []string{"in", "out", "tree", "log"}, had: map[string]Content{},
		all: map[Sum][]Candidate{d.spec.Identity(): {{RunID: 1, Run: "old", Flow: "w-1", Attempt: 4, Ran: 9e9,
			Image: "sha256:1"}}}, was: d.spec}
	for path, text := range map[string]string{in: "b\n", d.at("in"): "b\n", d.at("out"): "a\n", d.at("tree/x"): "x"} {
		d.write(path, text)
	}
	must(t, os.Symlink("x", d.at("tree/link")))
	must(t, d.keeper("old", hash).Publish(t.Context(), &executor.Launch{Spec: d.spec}))
	for _, c := range d.now {
		c.Place = "n0"
		d.had[d.files[c.File]] = c
	}
	d.now = nil
	return d
}

// at is where a file of the earlier run lies.
func (d *desk) at(name string) string {
	return d.old.Path(0, d.spec.Workflow, &executor.FileSpec{Name: name})
}

// in is the input, outside of all runs.
func (d *desk) in() string { return d.spec.Inputs[0].External }

func (d *desk) write(path, text string) {
	d.Helper()
	must(d, os.MkdirAll(filepath.Dir(path), 0o755))
	must(d, os.WriteFile(path, []byte(text), 0o644))
}

func (d *desk) keeper(run string, hash bool) *Keeper {
	return &Keeper{Log: d.book, Run: d.book, Home: d.home, Nodes: []planner.Node{{Name: "n0"}},
		Files: area{filepath.Join(d.home, run)}, Image: func(string) string { return "sha256:1" },
		Now: func() planner.Time { return 0 }, Hash: hash, Warn: d.Logf}
}

// A run takes over the outputs of an earlier one, whether that hashed them or not, and then a third takes them from it.
func TestResultsOfATaskAreTakenOver(t *testing.T) {
	for _, hash := range []bool{true, false} {
		d := newDesk(t, hash)
		k := d.keeper("new", true)
		must(t, k.HashInputs(t.Context(), []string{d.in()}))
		x, err := k.Reuse(t.Context(), 0, d.spec, nil)
		if err != nil || x == nil || x.Run != "old" || x.Attempt != 4 || x.Ran != 9*time.Second || x.Node != 0 {
			t.Fatalf("hashed %v: %+v (%v), as %q", hash, x, err, d.reasons)
		}
		for name, want := range map[string]string{"out": "a\n", "tree/x": "x", "tree/link": "x"} {
			path := k.Files.Path(0, d.spec.Workflow, &executor.FileSpec{Name: name})
			if text, err := os.ReadFile(path); err != nil || string(text) != want {
				t.Errorf("%s is %q (%v)", name, text, err)
			}
		}
		if len(d.now) != 3 || d.now[0].File != 1 || d.now[2].Stamp.Size != 2 {
			t.Errorf("the log has %+v", d.now)
		}
		out := d.spec.Outputs[0]
		must(t, k.LinkResult(t.Context(), d.spec.Workflow, out, 0, out.ID))
		now, err := StampOf(k.Files.Path(0, d.spec.Workflow, out))
		if c, ok, _ := d.Known(t.Context(), out.ID); err != nil || !ok || c.Stamp != now {
			t.Errorf("after a link the log has %+v, and the file is %+v (%v)", c.Stamp, now, err)
		}
	}
}

// The reason for which a task runs is the first difference to the one that is most alike.
func TestAChangeIsNamed(t *testing.T) {
	for want, change := range map[string]func(d *desk){
		"compared with run old: its input in changed":             func(d *desk) { d.write(d.in(), "c\n") },
		"its input in cannot be read":                             func(d *desk) { os.Remove(d.in()) },
		"compared with run old: its output out was deleted there": func(d *desk) { os.Remove(d.at("out")) },
		"it has 5 bytes in place of 2":                            func(d *desk) { d.write(d.at("out"), "other") },
		"its output out was changed there since":                  func(d *desk) { d.write(d.at("out"), "z\n") },
		"its output out was not noted":                            func(d *desk) { delete(d.had, "out") },
		"its input in was not noted then":                         func(d *desk) { delete(d.had, "in") },
		"its image tools changed from 2 to 1": func(d *desk) {
			d.all[d.spec.Identity()][0].Image = "sha256:2"
		},
		"no earlier run in the log has completed a task like it": func(d *desk) { d.all, d.was = nil, nil },
		"run old did not keep what is needed to compare it":      func(d *desk) { d.all = nil },
		"compared with run old: its command changed": func(d *desk) {
			spec := *d.spec
			spec.Command = []string{"sort", "-r"}
			d.spec = &spec
		},
		"it runs programs of this host": func(d *desk) {
			spec := *d.spec
			spec.Image = executor.HostImage
			d.spec = &spec
		},
	} {
		d := newDesk(t, true)
		change(d)
		x, err := d.keeper("new", true).Reuse(t.Context(), 0, d.spec, nil)
		if err != nil || x != nil || len(d.reasons) != 1 || !strings.Contains(d.reasons[0], want) {
			t.Errorf("%+v (%v), as %q, want %q", x, err, d.reasons, want)
		}
	}
}

// A foresight changes nothing, and knows what the task behind a task that takes over its results would read.
func TestResultsAreForeseen(t *testing.T) {
	d := newDesk(t, true)
	next := &executor.TaskSpec{Name: "next", Workflow: d.spec.Workflow, Command: []string{"cat"}, Image: "tools",
		Inputs: d.spec.Outputs[:1]}
	d.all[next.Identity()] = d.all[d.spec.Identity()]
	for _, x := range []struct {
		change func()
		reason string
	}{{func() {}, ""}, {func() { d.write(d.in(), "c\n") }, "its input out is made anew"}} {
		x.change()
		f := d.keeper("new", true).Foresee()
		for i, spec := range []*executor.TaskSpec{d.spec, next, next} {
			if _, err := f.Reuse(t.Context(), planner.TaskID(i), spec, nil); err != nil {
				t.Fatal(err)
			}
		}
		all := f.Decisions()
		if len(all) != 2 || all[1].Task != "next" || all[1].Reason != x.reason ||
			(all[1].From == nil) == (x.reason == "") {
			t.Errorf("%+v, want %q", all[len(all)-1], x.reason)
		}
	}
	if _, err := os.Stat(filepath.Join(d.home, "new")); err == nil || len(d.now) > 0 {
		t.Errorf("it left files (%v), or rows %v", err, d.now)
	}
}

// A run that continues finds its files there, gone, or changed outside.
func TestFilesOfARunThatContinues(t *testing.T) {
	d := newDesk(t, true)
	k, in, out := d.keeper("old", true), d.spec.Inputs[0], d.spec.Outputs[0]
	other := *in
	other.Modified = 7
	if why := k.Gone(d.spec.Workflow, out, 0); why != "" || k.Changed(d.spec.Workflow, in, &other) {
		t.Errorf("%q, or its input changed", why)
	}
	d.write(in.External, "c\n")
	if !k.Changed(d.spec.Workflow, in, &other) {
		t.Error("its input did not change")
	}
	os.Remove(d.at("out"))
	if why := k.Gone(d.spec.Workflow, out, 0); why != "was deleted" {
		t.Errorf("%q", why)
	}
	must(t, os.Symlink("tree", d.at("out")))
	if why := k.Gone(d.spec.Workflow, out, 0); why != "is no file any more" || k.Gone(d.spec.Workflow, out, -1) == "" {
		t.Errorf("%q", why)
	}
}
