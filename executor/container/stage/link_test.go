package stage_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gantry/executor"
	"gantry/executor/container/stage"
)

func output(name string) *executor.FileSpec {
	return &executor.FileSpec{Name: name, Produced: true, Final: true}
}

// flows are workflows of gantry's caller and, where root runs the test, of another user.
func flows() []*executor.WorkflowSpec {
	all := []*executor.WorkflowSpec{flow}
	if os.Geteuid() == 0 {
		all = append(all, &executor.WorkflowSpec{Name: "theirs", By: &executor.User{UID: 12345, GID: 12345}})
	}
	return all
}

// reads reads a file as programs of a workflow do.
func reads(s *stage.Area, w *executor.WorkflowSpec, path string) (text string, err error) {
	o := s.UserOf(w)
	stage.User{UID: o.UID, GID: o.GID, Groups: []int{}}.Do(func() {
		var b []byte
		b, err = os.ReadFile(path)
		text = string(b)
	})
	return text, err
}

// opened lets all users pass the directories above one.
func opened(t *testing.T, dir string) {
	for ; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
}

func readable(mode fs.FileMode) fs.FileMode {
	if mode&0o111 != 0 {
		return mode | 0o555
	}
	return mode | 0o444
}

// Patterns in arguments match files of the task, and none of the host, whatever leads there.
func TestOnlyDirectoriesOfATaskAreListed(t *testing.T) {
	dir := t.TempDir()
	work, node, host := filepath.Join(dir, "work"), filepath.Join(dir, "node"), filepath.Join(dir, "host")
	err := errors.Join(os.MkdirAll(filepath.Join(work, "own", "file"), 0o755), os.MkdirAll(node+"/in/file", 0o755),
		os.MkdirAll(host+"/file", 0o755), os.Symlink(node+"/in", work+"/in"), os.Symlink(host, work+"/out"),
		os.Symlink(host, node+"/out"), os.Symlink("../host", work+"/up"), syscall.Mkfifo(work+"/pipe", 0o600))
	must(t, err)
	for path, want := range map[string]int{work + "/own": 1, work + "/in": 1, node + "/in": 1, work: 5, host: 0,
		work + "/out": 0, node + "/out": 0, work + "/up": 0, work + "/../host": 0, "/": 0, "/etc": 0,
		work + "/own/../../host": 0} {
		if all, err := stage.List(path, work, node); err != nil || len(all) != want {
			t.Errorf("%s has %d entries (%v), want %d", path, len(all), err, want)
		}
	}
	for path, want := range map[string]error{work + "/pipe": syscall.ENOTDIR, work + "/none": fs.ErrNotExist} {
		if _, err := stage.List(path, work, node); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

// A program that only its owner may execute, or a file that only its owner may read, is such for all tasks as an input.
func TestInputsCanBeExecutedWhateverTheirModes(t *testing.T) {
	s, _ := area(t, 1<<40)
	outside := t.TempDir()
	in := &executor.FileSpec{ID: 9, Name: "in", External: outside}
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o700, 0o710, 0o500} {
		name := fmt.Sprintf("f%o", mode)
		put(t, outside, name)
		must(t, os.Chmod(filepath.Join(outside, name), mode))
	}
	l := &executor.Launch{Try: 1, Spec: &executor.TaskSpec{Workflow: flow, Name: "t", Command: []string{"x"},
		Inputs: []*executor.FileSpec{in}}}
	works(t, s, l, func(work string) {
		for _, mode := range []fs.FileMode{0o600, 0o640, 0o700, 0o710, 0o500} {
			st, err := os.Stat(filepath.Join(work, "in", fmt.Sprintf("f%o", mode)))
			if err != nil || st.Mode().Perm() != readable(mode)&0o555|0o200 {
				t.Errorf("mode %o: %v, %v", mode, st.Mode(), err)
			}
		}
	})
}

// The next task can read what a task wrote, whatever mode and umask have left of it: files, directories and what is in
// directories that nobody could enter.
func TestOutputsAreReadableWhateverTheirModes(t *testing.T) {
	for _, w := range flows() {
		t.Run(w.Name, func(t *testing.T) {
			s, dir := area(t, 1<<40)
			opened(t, dir)
			s.User = stage.ProgramUser()
			spec := &executor.TaskSpec{Workflow: w, Name: "t", Command: []string{"x"}}
			next := &executor.TaskSpec{Workflow: w, Name: "next", Command: []string{"x"}}
			var paths []string
			for mode := range 0o1000 {
				names := []string{fmt.Sprintf("f%o", mode)}
				if mode&0o7 == 0 { // the directory b is none of the outputs
					names = append(names, fmt.Sprintf("d%o/a/x", mode), fmt.Sprintf("b%o/x", mode))
					tree := fmt.Sprintf("d%o", mode)
					spec.Outputs = append(spec.Outputs, &executor.FileSpec{Name: tree, Produced: true},
						&executor.FileSpec{Name: names[2], Produced: true})
				}
				paths = append(paths, names...)
				spec.Outputs = append(spec.Outputs, &executor.FileSpec{Name: names[0], Produced: true})
			}
			next.Inputs = spec.Outputs
			l := &executor.Launch{Try: 1, Spec: spec}
			works(t, s, l, func(work string) {
				user := s.UserOf(w)
				stage.User{UID: user.UID, GID: user.GID}.Do(func() { put(t, work, paths...) })
				for mode := range 0o1000 {
					for _, name := range []string{"f%o", "d%o/a/x", "d%o/a", "d%o", "b%o/x", "b%o"} {
						err := os.Chmod(filepath.Join(work, fmt.Sprintf(name, mode)), fs.FileMode(mode))
						if err != nil && !errors.Is(err, fs.ErrNotExist) {
							t.Fatal(err)
						}
					}
				}
				must(t, os.Chmod(work, 0))
			})
			if missing, err := s.Publish(l, filepath.Join(dir, "note")); missing != "" || err != nil {
				t.Fatal(missing, err)
			}
			works(t, s, &executor.Launch{Try: 1, Spec: next}, func(work string) {
				user := s.UserOf(w)
				stage.User{UID: user.UID, GID: user.GID, Groups: []int{}}.Do(func() {
					for _, name := range paths {
						if text, err := os.ReadFile(filepath.Join(work, name)); err != nil || string(text) != name {
							t.Errorf("the next task reads %q: %v", text, err)
						}
					}
				})
			})
			node := s.NodeDir(0, w)
			for mode := range 0o1000 {
				if st, err := os.Stat(filepath.Join(node, fmt.Sprintf("f%o", mode))); err != nil ||
					st.Mode().Perm() != readable(fs.FileMode(mode)) {
					t.Errorf("mode %o became %v: %v", mode, st.Mode(), err)
				}
			}
		})
	}
}

// A published file is not one that has a name elsewhere on the host, whose mode stays.
func TestFilesWithOtherNamesKeepTheirModes(t *testing.T) {
	s, dir := area(t, 0)
	own := filepath.Join(dir, "own")
	put(t, dir, "own")
	must(t, os.Chmod(own, 0o600))
	l := &executor.Launch{Try: 1, Spec: &executor.TaskSpec{Workflow: flow, Name: "t", Command: []string{"x"},
		Outputs: []*executor.FileSpec{output("out"), output("d")}}}
	works(t, s, l, func(work string) {
		must(t, errors.Join(os.Link(own, work+"/out"), os.Mkdir(work+"/d", 0o700), os.Link(own, work+"/d/x")))
	})
	if missing, err := s.Publish(l, filepath.Join(dir, "note")); missing != "" || err != nil {
		t.Fatal(missing, err)
	}
	if st, err := os.Stat(own); err != nil || st.Mode().Perm() != 0o600 || st.Sys().(*syscall.Stat_t).Nlink != 1 {
		t.Errorf("the file of the host has mode %v: %v", st.Mode(), err)
	}
	for _, name := range []string{"out", "d/x"} {
		at := filepath.Join(s.NodeDir(0, flow), name)
		text, err := os.ReadFile(at)
		if st, e := os.Stat(at); e != nil || st.Mode().Perm() != 0o644 || string(text) != "own" {
			t.Errorf("%s has mode %v and text %q: %v, %v", name, st.Mode(), text, e, err)
		}
	}
}

func link(t *testing.T, work string, links ...string) {
	t.Helper()
	for i := 0; i < len(links); i += 2 {
		must(t, os.Symlink(links[i+1], filepath.Join(work, links[i])))
	}
}

// An output that is a link is what that leads to: another file or directory of the task, through other links, by an
// absolute path of the work directory, or one of its inputs.
func TestOutputsThatAreLinks(t *testing.T) {
	for _, w := range flows() {
		t.Run(w.Name, func(t *testing.T) {
			s, dir := area(t, 1<<40)
			opened(t, dir)
			s.User = stage.ProgramUser()
			in := &executor.FileSpec{ID: 9, Name: "in", External: filepath.Join(t.TempDir(), "in")}
			opened(t, filepath.Dir(in.External))
			put(t, filepath.Dir(in.External), "in")
			want := map[string]string{"file": "hid", "also": "hid", "chain": "hid", "absolute": "hid", "dir/a": "v1/a",
				"dir/b": "v1/a", "latest/a": "v1/a", "input": "in", "made/x": "made/y", "matched.txt": "hid",
				"hid": "hid", "back": "hid", "v1/deep": "v1/a"}
			spec := &executor.TaskSpec{Workflow: w, Name: "t", Command: []string{"x"},
				Inputs: []*executor.FileSpec{in}, Outputs: []*executor.FileSpec{glob("*.txt")}}
			for _, name := range []string{"file", "also", "chain", "absolute", "dir", "latest/a", "input", "made",
				"made/x", "hid", "back", "v1/deep"} {
				spec.Outputs = append(spec.Outputs, output(name))
			}
			l := &executor.Launch{Try: 1, Spec: spec}
			works(t, s, l, func(work string) {
				user := s.UserOf(w)
				stage.User{UID: user.UID, GID: user.GID}.Do(func() {
					put(t, work, "hid", "v1/a", "made/y")
					if err := os.RemoveAll(filepath.Join(work, "latest")); err != nil {
						t.Error(err)
					}
					link(t, work, "file", "hid", "also", "./v1/../hid", "chain", "file", "absolute",
						filepath.Join(work, "chain"), "dir", "v1", "v1/b", "a", "latest", "v1/.", "input", "in",
						"made/x", "y", "matched.txt", "hid", "back", "../t-1/hid", "v1/deep", "../../t-1/v1/a")
				})
			})
			for range 2 { // once more, as after a crash
				if missing, err := s.Publish(l, filepath.Join(dir, "note")); missing != "" || err != nil {
					t.Fatal(missing, err)
				}
			}
			for name, text := range want {
				for _, top := range []string{s.NodeDir(0, w), filepath.Join(dir, "results", w.Name)} {
					at := filepath.Join(top, name)
					if name == "matched.txt" && top == s.NodeDir(0, w) {
						continue
					}
					if got, err := reads(s, w, at); err != nil || got != text {
						t.Errorf("%s is %q, want %q: %v", at, got, text, err)
					}
					if st, err := os.Lstat(at); err == nil && st.Mode()&fs.ModeSymlink != 0 && name != "dir/b" {
						t.Errorf("%s is a link", at)
					}
				}
			}
			if text, err := os.Readlink(filepath.Join(s.NodeDir(0, w), "dir/b")); err != nil || text != "a" {
				t.Errorf("the link in a directory leads to %q: %v", text, err)
			}
		})
	}
}

// Links that stay in a directory, by any of its names or by a way out and back, go with it from task to task, also to
// other nodes and into a copy that a task changes; one that leads to nothing does, too.
func TestLinksInDirectories(t *testing.T) {
	s, dir := area(t, 1<<40)
	from := filepath.Join(t.TempDir(), "db")
	put(t, from, "v1/x")
	links := map[string]string{"latest": "v1", "x2": "v1/x", "v1/up": "../v1/./x", "v1/self": ".", "nothing": "v2/x",
		"through": "latest/x"}
	for name, to := range links {
		link(t, from, name, to)
	}
	named := filepath.Join(t.TempDir(), "named")
	link(t, filepath.Dir(named), "named", from)
	link(t, from, "v1/all", filepath.Join(from, "x2"), "v1/named", named+"/x2", "back", "../db/v1/x", "v1/back",
		"../../db/x2")
	again := map[string]string{"v1/all": "../x2", "v1/named": "../x2", "back": "v1/x", "v1/back": "../x2"}
	maps.Copy(links, again)
	in := &executor.FileSpec{ID: 1, Name: "in", External: named}
	out := &executor.FileSpec{ID: 2, Name: "out", Produced: true, Final: true}
	has := func(at string) {
		t.Helper()
		for name, to := range links {
			got, err := os.Readlink(filepath.Join(at, name))
			if err != nil || filepath.Clean(got) != filepath.Clean(to) {
				t.Errorf("%s/%s leads to %q, want %q: %v", at, name, got, to, err)
			}
			text, err := os.ReadFile(filepath.Join(at, "v1/all"))
			if err != nil || !strings.HasSuffix(string(text), "v1/x") {
				t.Errorf("%s: %q, %v", at, text, err)
			}
		}
	}
	l := &executor.Launch{Try: 1, Spec: &executor.TaskSpec{Workflow: flow, Name: "t", Command: []string{"x"},
		Inputs: []*executor.FileSpec{in}, Outputs: []*executor.FileSpec{out}}}
	works(t, s, l, func(work string) {
		has(filepath.Join(work, "in"))
		put(t, work, "out/v1/x")
		for name, to := range links {
			link(t, work+"/out", name, to)
		}
		for name := range again {
			must(t, os.Remove(filepath.Join(work, "out", name)))
		}
		link(t, work, "out/v1/all", work+"/out/x2", "out/v1/named", work+"/out/x2", "out/back", "../out/v1/x",
			"out/v1/back", "../../out/x2")
	})
	if missing, err := s.Publish(l, filepath.Join(dir, "note")); missing != "" || err != nil {
		t.Fatal(missing, err)
	}
	has(filepath.Join(s.NodeDir(0, flow), "out"))
	has(filepath.Join(dir, "results", "wf", "out"))
	changes := &executor.Launch{Try: 1, Node: 1, Spec: &executor.TaskSpec{Workflow: flow, Name: "u",
		Command: []string{"x"}, Inputs: []*executor.FileSpec{out}, Outputs: []*executor.FileSpec{out}},
		Fetch: []executor.Fetch{{File: out.ID, From: 0}}}
	works(t, s, changes, func(work string) { has(filepath.Join(work, "out")) })
	has(filepath.Join(s.NodeDir(1, flow), "out"))
}

// Links that leave, lead nowhere or in a circle are refused by name, with where they lead.
func TestLinksThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		output string
		links  []string
		says   []string
	}{
		"absolute":            {"out", []string{"out", "/etc/hostname"}, []string{`"out"`, `"/etc/hostname"`}},
		"relative":            {"out", []string{"out", "../../../../etc"}, []string{`"out"`, `"../../../../etc"`}},
		"through another":     {"out", []string{"out", "d/mid", "d/mid", "../../x"}, []string{`"d/mid"`, `"../../x"`}},
		"out and elsewhere":   {"out", []string{"out", "../t-2/file"}, []string{`"../t-2/file"`}},
		"back by a link":      {"out", []string{"out", "at/../../t-1/file", "at", "d"}, []string{"leads outside"}},
		"nothing":             {"out", []string{"out", "d/none"}, []string{`"d/none"`, "was not written"}},
		"circle":              {"out", []string{"out", "d/b", "d/b", "../out"}, []string{`"out"`, "leads to itself"}},
		"the directory":       {"out", []string{"out", "d/.."}, []string{"the work directory itself"}},
		"above an output":     {"at/out", []string{"at", "/etc"}, []string{`"at"`, `"/etc"`}},
		"out of an output":    {"d", []string{"d/x", "../file"}, []string{`"x"`, `"../file"`}},
		"circle in an output": {"d", []string{"d/x", "y", "d/y", "x"}, []string{`"x"`, "leads to itself"}},
		"nothing outside":     {"d", []string{"d/x", "none/../../y"}, []string{`"x"`, `"none/../../y"`}},
		"what a line ends":    {"out", []string{"out", "/a\nb"}, []string{`"/a^Jb"`}},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := area(t, 0)
			l := &executor.Launch{Try: 1, Spec: &executor.TaskSpec{Workflow: flow, Name: "t", Command: []string{"x"},
				Outputs: []*executor.FileSpec{output(c.output)}}}
			works(t, s, l, func(work string) {
				put(t, work, "file", "d/in")
				must(t, os.RemoveAll(filepath.Join(work, "at")))
				link(t, work, c.links...)
			})
			missing, err := s.Publish(l, filepath.Join(dir, "note"))
			must(t, err)
			for _, says := range c.says {
				if !strings.Contains(missing, says) {
					t.Errorf("%q does not say %s", missing, says)
				}
			}
			if _, err := os.Lstat(s.Path(0, flow, l.Spec.Outputs[0])); err == nil {
				t.Error("it was published")
			}
		})
	}
}
