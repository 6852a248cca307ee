package stage_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/planner"
	"gantry/trace"
)

// works stages an attempt of a task, and lets make do what its program does in the work directory.
func works(t *testing.T, s *stage.Area, l *executor.Launch, program func(dir string)) {
	t.Helper()
	if _, err := s.Stage(t.Context(), l, nil); err != nil {
		t.Fatal(err)
	}
	program(s.WorkDir(l.Spec, l.Try))
}

func put(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		at := filepath.Join(dir, name)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(at), 0o777), os.WriteFile(at, []byte(name), 0o666)))
	}
}

func glob(name string) *executor.FileSpec {
	return &executor.FileSpec{Name: name, Produced: true, Final: true, Glob: true}
}

// A directory and what a glob matched go from task to task, over a link too, and are among the results.
func TestOutputsUnknownBeforehand(t *testing.T) {
	s, dir := area(t, 1<<40)
	whole := &executor.FileSpec{ID: 1, Name: "whole", Produced: true, Final: true}
	part := &executor.FileSpec{ID: 2, Name: "whole/sub/b", Produced: true, Final: true}
	parts := glob("parts/*.txt")
	one := &executor.FileSpec{ID: 3, Name: "parts/1.txt", Produced: true, Final: true}
	l := &executor.Launch{Try: 1, Spec: &executor.TaskSpec{Workflow: flow, Name: "split", Command: []string{"x"},
		Outputs: []*executor.FileSpec{part, whole, one, parts}}}
	works(t, s, l, func(work string) {
		put(t, work, "whole/a", "whole/d\xe9p\xf4t/x", "whole/sub/b", "parts/1.txt", "parts/2.txt",
			"parts/caf\xe9.txt", "parts/.hidden.txt", "parts/other", "parts/deep.txt/3", "not.txt")
		must(t, os.Mkdir(filepath.Join(work, "whole/empty"), 0o700))
	})
	for range 2 { // once more, as after a crash
		if missing, err := s.Publish(l, filepath.Join(dir, "note")); missing != "" || err != nil {
			t.Fatal(missing, err)
		}
	}
	want := []string{"parts/1.txt", "parts/2.txt", "parts/caf\xe9.txt", "parts/deep.txt/3", "whole/a",
		"whole/d\xe9p\xf4t/x", "whole/sub/b"}
	if got, err := stage.Files(filepath.Join(dir, "results", "wf")); err != nil || !slices.Equal(got, want) {
		t.Errorf("results %v, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "results/wf/whole/empty")); err != nil {
		t.Error(err)
	}

	read := &executor.Launch{Try: 1, Node: 1, Spec: &executor.TaskSpec{Workflow: flow, Name: "join",
		Command: []string{"x"}, Inputs: []*executor.FileSpec{whole, parts},
		Renames: []trace.Rename{{File: "whole", As: "as/all"}}},
		Fetch: []executor.Fetch{{File: whole.ID, From: 0}, {File: parts.ID, From: 0}}}
	works(t, s, read, func(work string) {
		for name, text := range map[string]string{"as/all/a": "whole/a", "as/all/sub/b": "whole/sub/b",
			"parts/1.txt": "parts/1.txt", "parts/2.txt": "parts/2.txt", "parts/deep.txt/3": "parts/deep.txt/3"} {
			if got, err := os.ReadFile(filepath.Join(work, name)); err != nil || string(got) != text {
				t.Errorf("%s is %q: %v", name, got, err)
			}
		}
		if _, err := os.Lstat(filepath.Join(work, "parts/other")); err == nil {
			t.Error("a file that does not match came along")
		}
	})
}

// What cannot be published fails the task that should have written it, and publishes nothing.
func TestOutputsThatCannotBePublished(t *testing.T) {
	for name, c := range map[string]struct {
		output  *executor.FileSpec
		program func(work string) error
		says    string
	}{
		"nothing matches":  {glob("*.txt"), func(work string) error { return nil }, "matches no file"},
		"an input matches": {glob("*.in"), func(work string) error { return nil }, "matches no file"},
		"matched link": {glob("*.txt"), func(work string) error { return os.Symlink("/etc/passwd", work+"/a.txt") },
			`symbolic link "a.txt" leads outside, to "/etc/passwd"`},
		"link in a matched directory": {glob("*.d"), func(work string) error {
			return errors.Join(os.Mkdir(work+"/a.d", 0o755), os.Symlink("/etc", work+"/a.d/etc"))
		}, `symbolic link "a.d/etc" leads outside, to "/etc"`},
		"link in a directory": {&executor.FileSpec{Name: "d"}, func(work string) error {
			return errors.Join(os.Mkdir(work+"/d", 0o755), os.Symlink("../../../..", work+"/d/up"))
		}, `symbolic link "up" leads outside, to "../../../.."`},
		"below a link": {glob("up/*"), func(work string) error {
			return errors.Join(os.Remove(work+"/up"), os.Symlink("/etc", work+"/up"))
		}, "matches no file"},
		"too deep": {&executor.FileSpec{Name: "d"}, func(work string) error {
			return os.MkdirAll(work+"/d"+strings.Repeat("/d", 200), 0o755)
		}, "directories in each other"},
		"too deep to look for": {glob("**/x"), func(work string) error {
			return os.MkdirAll(work+strings.Repeat("/d", 200), 0o755)
		}, "directories in each other"},
		"pipe": {glob("*"), func(work string) error { return syscall.Mkfifo(work+"/pipe", 0o644) }, "a pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := area(t, 0)
			in := &executor.FileSpec{ID: 9, Name: "i.in", External: filepath.Join(t.TempDir(), "i.in")}
			put(t, filepath.Dir(in.External), "i.in")
			l := &executor.Launch{Try: 1, Spec: &executor.TaskSpec{Workflow: flow, Name: "t", Command: []string{"x"},
				Inputs: []*executor.FileSpec{in}, Outputs: []*executor.FileSpec{c.output, {Name: "fine", Final: true}}}}
			works(t, s, l, func(work string) {
				put(t, work, "fine")
				must(t, c.program(work))
			})
			missing, err := s.Publish(l, filepath.Join(dir, "note"))
			if err != nil || !strings.Contains(missing, c.says) || !strings.Contains(missing, c.output.Name) {
				t.Errorf("said %q, %v", missing, err)
			}
			if left, _ := os.ReadDir(filepath.Join(dir, "results")); len(left) > 0 {
				t.Errorf("results %v", left)
			}
		})
	}
}

// A directory from outside is copied once, with what can be executed, and links that stay in it.
func TestADirectoryFromOutside(t *testing.T) {
	s, _ := area(t, 0)
	from := filepath.Join(t.TempDir(), "db")
	put(t, from, "nt.idx", "sub/tool")
	must(t, errors.Join(os.Chmod(from+"/sub/tool", 0o755), os.Symlink("nt.idx", from+"/alias")))
	f := &executor.FileSpec{ID: planner.FileID(4), Name: "data/db", External: from}
	l := &executor.Launch{Try: 1, Node: 1, Spec: &executor.TaskSpec{Workflow: flow, Name: "t", Command: []string{"x"},
		Inputs: []*executor.FileSpec{f}}}
	works(t, s, l, func(work string) {
		if b, err := os.ReadFile(work + "/data/db/alias"); err != nil || string(b) != "nt.idx" {
			t.Errorf("%q, %v", b, err)
		}
		if st, err := os.Stat(work + "/data/db/sub/tool"); err != nil || st.Mode().Perm()&0o111 == 0 {
			t.Errorf("%v, %v", st, err)
		}
	})
	must(t, os.Symlink("/etc/passwd", from+"/leaves"))
	s, _ = area(t, 0)
	if _, err := s.Stage(t.Context(), l, nil); err == nil || !strings.Contains(err.Error(), "leaves") {
		t.Errorf("a link that leaves the directory: %v", err)
	}
}

// All that root makes of a directory that is taken over belongs to the caller.
func TestAdoptedDirectoriesBelongToTheCaller(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	s, _ := area(t, 0)
	s.Owner = stage.Owner{UID: 12345, GID: 12345}
	f := &executor.FileSpec{Name: "d", Produced: true, Final: true}
	from := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(from, "a", "b"), 0o755))
	must(t, os.WriteFile(filepath.Join(from, "a", "b", "c"), nil, 0o644))
	must(t, s.Adopt(t.Context(), flow, f, 0, from))
	at := s.Path(0, flow, f)
	for _, dir := range []string{at, strings.Replace(filepath.Dir(at), "nodes/n0", "results", 1)} {
		if err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			st, err := d.Info()
			if err == nil && st.Sys().(*syscall.Stat_t).Uid != 12345 {
				t.Errorf("%s belongs to %d", p, st.Sys().(*syscall.Stat_t).Uid)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}

// A gantry that was killed while it published leaves some outputs moved and some results linked: publishing once more
// completes them. Files that have another name in the work directory are published under their own.
func TestPublishingContinuesAfterAKill(t *testing.T) {
	file := func(name string) *executor.FileSpec {
		return &executor.FileSpec{Name: name, Produced: true, Final: true}
	}
	first, second, own := file("one"), file("two"), file("deep/own")
	spec := &executor.TaskSpec{Workflow: flow, Name: "t", Command: []string{"x"},
		Outputs: []*executor.FileSpec{first, second, own}, Renames: []trace.Rename{{File: "deep/own", As: "as"}}}
	for killed, undo := range map[string]func(s *stage.Area, l *executor.Launch, results string) error{
		"before all was moved": func(s *stage.Area, l *executor.Launch, results string) error {
			work := s.WorkDir(spec, l.Try)
			return errors.Join(os.Remove(filepath.Join(work, "two")), os.Remove(filepath.Join(work, "as")),
				os.Rename(s.Path(0, flow, second), filepath.Join(work, "two")),
				os.Rename(s.Path(0, flow, own), filepath.Join(work, "as")), os.RemoveAll(results))
		},
		"before all was linked": func(_ *stage.Area, _ *executor.Launch, results string) error {
			return errors.Join(os.Remove(filepath.Join(results, "two", "a", "b")),
				os.RemoveAll(filepath.Join(results, "deep")))
		},
	} {
		t.Run(killed, func(t *testing.T) {
			s, dir := area(t, 0)
			l := &executor.Launch{Try: 1, Spec: spec}
			works(t, s, l, func(work string) { put(t, work, "one/x", "two/a/b", "two/c", "as") })
			results := filepath.Join(dir, "results", "wf")
			for range 2 {
				if missing, err := s.Publish(l, filepath.Join(dir, "note")); missing != "" || err != nil {
					t.Fatal(missing, err)
				}
				want := []string{"deep/own", "one/x", "two/a/b", "two/c"}
				if got, err := stage.Files(results); err != nil || !slices.Equal(got, want) {
					t.Errorf("results %v, %v", got, err)
				}
				if undo != nil {
					must(t, undo(s, l, results))
				}
				undo = nil
			}
		})
	}
}

// A task may read the files of a glob, and one of these by its name.
func TestAGlobAndOneOfItsFilesAreInputs(t *testing.T) {
	s, _ := area(t, 0)
	all := &executor.FileSpec{Name: "*.txt", Produced: true, Glob: true}
	one := &executor.FileSpec{ID: 1, Name: "a.txt", Produced: true}
	put(t, s.Path(0, flow, all), "a.txt", "b.txt")
	put(t, s.NodeDir(0, flow), "a.txt")
	l := &executor.Launch{Try: 1, Spec: &executor.TaskSpec{Workflow: flow, Name: "t", Command: []string{"x"},
		Inputs: []*executor.FileSpec{all, one}}}
	works(t, s, l, func(work string) {
		if names, err := os.ReadDir(work); err != nil || len(names) != 2 {
			t.Errorf("%v, %v", names, err)
		}
	})
}
