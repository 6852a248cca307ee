package stage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gantry/cgroup/thread/threadtest"
	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/trace"
)

// abc is the SHA-256 of "abc" (FIPS 180-2, appendix B.1).
const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

func place(t *testing.T, path, text string) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// submission is a workflow of one task that reads one file.
func submission(dir string, f trace.File, inputs ...string) *executor.Submission {
	f.Producer = -1
	s := &executor.Submission{Name: "w", Workflow: &trace.Workflow{Source: filepath.Join(dir, "w.yml"),
		Tasks: []trace.Task{{ID: "t", Command: []string{"cat"}, Image: "i", Inputs: []int32{0}}},
		Files: []trace.File{f}}}
	if len(inputs) > 0 {
		s.Inputs, s.Dirs = inputs[0], inputs[1:]
	}
	return s
}

func locate(t *testing.T, s *executor.Submission, who stage.User) (executor.Source, []stage.Missing) {
	t.Helper()
	files, err := new(executor.Admitter).Outside(s)
	must(t, err)
	found, missing, err := (&stage.Search{User: who}).Locate(t.Context(), s, files)
	must(t, err)
	return found[0], missing
}

func me() stage.User { return stage.User{UID: os.Getuid(), GID: os.Getgid()} }

func TestLocateTriesPlacesInOrder(t *testing.T) {
	dir := t.TempDir()
	first, second := place(t, filepath.Join(dir, "1", "abc"), "abc"), place(t, filepath.Join(dir, "2", "abc"), "xyz")
	inputs := place(t, filepath.Join(dir, "in", "a", "b.txt"), "in")
	further := place(t, filepath.Join(dir, "further", "c.txt"), "further")
	beside := place(t, filepath.Join(dir, "d.txt"), "beside")
	dirs := []string{filepath.Join(dir, "in"), filepath.Join(dir, "further")}
	for _, c := range []struct {
		file trace.File
		want string
	}{
		{trace.File{Name: "f", Origin: &trace.Origin{Locations: []string{first, second}}}, first},
		{trace.File{Name: "f", Origin: &trace.Origin{Locations: []string{filepath.Join(dir, "none"), second, first}}},
			second},
		{trace.File{Name: "f", Origin: &trace.Origin{Locations: []string{second, first}, SHA256: abc}}, first},
		{trace.File{Name: "a/b.txt"}, inputs},
		{trace.File{Name: "c.txt"}, further},
		{trace.File{Name: "d.txt"}, beside},
		{trace.File{Name: "d.txt", Origin: &trace.Origin{Locations: []string{filepath.Join(dir, "none")}}}, beside},
	} {
		if got, missing := locate(t, submission(dir, c.file, dirs...), me()); got.Path != c.want || len(missing) > 0 {
			t.Errorf("%s %v: found %q, want %q (%v)", c.file.Name, c.file.Origin, got.Path, c.want, missing)
		}
	}
}

func TestLocateSaysWhereItLookedAndWhy(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	wrong := place(t, filepath.Join(dir, "wrong"), "abd")
	link := filepath.Join(dir, "link")
	must(t, os.Symlink("/proc/self/environ", link))
	file := trace.File{Name: "f", Origin: &trace.Origin{SHA256: abc, Locations: []string{filepath.Join(dir, "none"),
		dir, filepath.Join(dir, "pipe"), link, "/dev/null", "/sys/kernel/profiling", wrong}}}
	got, missing := locate(t, submission(dir, file), me())
	if got != (executor.Source{}) || len(missing) != 1 || missing[0].Task != "t" {
		t.Fatalf("found %+v, missing %v", got, missing)
	}
	for i, why := range []string{"no such file", "a directory", "not a regular file", "below /proc", "below /dev",
		"below /sys", "the catalog says " + abc, "no such file"} {
		if l := missing[0].Looked[i]; !strings.Contains(l.Why, why) {
			t.Errorf("%s: %q, want %q", l.Where, l.Why, why)
		}
	}
}

// A file is found beside others as it is alone, whatever these are.
func TestLocateFindsManyFilesAsSingleOnes(t *testing.T) {
	dir := t.TempDir()
	place(t, filepath.Join(dir, "a", "x"), "1234")
	place(t, filepath.Join(dir, "b", "x"), "12")
	place(t, filepath.Join(dir, "b", "y"), "123")
	for link, to := range map[string]string{"a/in": "x", "a/out": "../b/y", "b/null": "/dev/null", "c": "b"} {
		must(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	must(t, unix.Mkfifo(filepath.Join(dir, "a", "pipe"), 0o644))
	names := strings.Fields("a/x a/in a/out a/pipe a/none b/x a/x b/null b/y c/y /dev/null c/x a/x none/x b/x")
	s := submission(dir, trace.File{}, dir)
	s.Workflow.Files = nil
	for i, name := range names {
		from := trace.File{Name: fmt.Sprint("f", i), Producer: -1,
			Origin: &trace.Origin{Locations: []string{filepath.Join(dir, name)}}}
		if filepath.IsAbs(name) {
			from.Origin.Locations[0] = name
		}
		s.Workflow.Files = append(s.Workflow.Files, from)
	}
	s.Workflow.Tasks[0].Inputs = make([]int32, len(names))
	for i := range names {
		s.Workflow.Tasks[0].Inputs[i] = int32(i)
	}
	files, err := new(executor.Admitter).Outside(s)
	if err != nil || len(files) != len(names) {
		t.Fatalf("%v, %v", files, err)
	}
	found, missing, err := (&stage.Search{User: me()}).Locate(t.Context(), s, files)
	must(t, err)
	var sizes []int64
	for _, f := range found {
		sizes = append(sizes, f.Size)
	}
	if want := []int64{4, 4, 3, 0, 0, 2, 4, 0, 3, 3, 0, 2, 4, 0, 2}; !slices.Equal(sizes, want) || len(missing) != 5 {
		t.Errorf("sizes are %v, want %v; missing are %v", sizes, want, missing)
	}
}

// Under sudo the rights of the user who called it count, and not those of root.
func TestOpenHasTheRightsOfTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} { // both are the test's own
		must(t, os.Chmod(d, 0o755))
	}
	nobody := stage.User{UID: 65534, GID: 65534}
	secret, open := place(t, filepath.Join(dir, "secret"), "s"), place(t, filepath.Join(dir, "open"), "o")
	hidden := place(t, filepath.Join(dir, "closed", "file"), "h")
	theirs := place(t, filepath.Join(dir, "theirs"), "t")
	link := filepath.Join(dir, "link")
	for _, err := range []error{os.Chmod(secret, 0o600), os.Chmod(filepath.Dir(hidden), 0o700), os.Chmod(theirs, 0o400),
		os.Chown(theirs, nobody.UID, nobody.GID), os.Symlink(secret, link)} {
		must(t, err)
	}
	for path, may := range map[string]bool{secret: false, open: true, hidden: false, theirs: true, link: false} {
		f, err := nobody.Open(path)
		if (err == nil) != may {
			t.Errorf("%s: %v, may read it: %v", path, err, may)
		}
		if err == nil {
			f.Close()
		}
		if f, err := (stage.User{}).Open(path); err != nil { // this thread is still root's
			t.Errorf("%s as root: %v", path, err)
		} else {
			f.Close()
		}
	}
}

func TestEmulatedTasksNeedNoFiles(t *testing.T) {
	s := submission(t.TempDir(), trace.File{Name: "f", Origin: &trace.Origin{Locations: []string{"/etc/hostname"}}})
	s.Workflow.Tasks[0].Command = nil
	if got, missing := locate(t, s, me()); got != (executor.Source{}) || len(missing) > 0 {
		t.Errorf("found %+v, missing %v", got, missing)
	}
}

func TestTheFirstThreadKeepsItsRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root alone takes the rights of others")
	}
	threadtest.Keeps(t, func() { stage.User{UID: 65534, GID: 65534}.Do(func() {}) })
}
