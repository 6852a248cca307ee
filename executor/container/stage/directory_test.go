package stage_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/planner"
)

// Links and closed files are no reason not to show a directory; pipes and file systems of the kernel's are.
func TestShown(t *testing.T) {
	top := t.TempDir()
	for at := top; at != "/" && at != os.TempDir(); at = filepath.Dir(at) {
		must(t, os.Chmod(at, 0o755))
	}
	u := stage.User{UID: 4711, GID: 4711}
	if os.Getuid() != 0 {
		u = stage.User{UID: os.Getuid(), GID: os.Getgid()}
	}
	must(t, os.MkdirAll(filepath.Join(top, "sub", "closed"), 0o755))
	must(t, os.WriteFile(filepath.Join(top, "shadow"), nil, 0o000))
	must(t, os.Chmod(filepath.Join(top, "sub", "closed"), 0))
	for name, to := range map[string]string{"out": "/etc/passwd", "up": "../..", "round": "round", "none": "none/x",
		"proc": "/proc/self", "device": "/dev/null"} {
		must(t, os.Symlink(to, filepath.Join(top, "sub", name)))
	}
	if err := u.Shown(top); err != nil {
		t.Error(err)
	}
	must(t, os.MkdirAll(filepath.Join(top, "sub", "dark"), 0o111)) // there may be sockets
	if err := u.Shown(top); err == nil || !strings.Contains(err.Error(), "cannot be listed, and can be opened") {
		t.Errorf("a directory that can be entered alone: %v", err)
	}
	must(t, os.Remove(filepath.Join(top, "sub", "dark")))
	must(t, syscall.Mkfifo(filepath.Join(top, "sub", "pipe"), 0o666))
	for path, says := range map[string]string{
		top:                               "pipe\": not a regular file",
		"/":                               "/dev",
		"/proc/self":                      "/proc",
		filepath.Join(top, "shadow"):      "may not read",
		filepath.Join(top, "sub/closed"):  "may not read",
		filepath.Join(top, "sub/pipe"):    "not a regular file",
		filepath.Join(top, "sub/missing"): "no such file",
	} {
		if err := u.Shown(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want an error with %q", path, err, says)
		}
	}
}

func TestDirectory(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for at := top; at != "/" && at != os.TempDir(); at = filepath.Dir(at) {
		must(t, os.Chmod(at, 0o755))
	}
	make := func(name string, mode os.FileMode, uid int) string {
		path := filepath.Join(top, name)
		must(t, os.MkdirAll(path, 0o755))
		must(t, os.Chmod(path, mode))
		if os.Getuid() == 0 {
			must(t, os.Chown(path, uid, uid))
		}
		return path
	}
	own := make("own", 0o700, 4711)
	must(t, os.Symlink(own, filepath.Join(top, "link")))
	must(t, os.Symlink(top, filepath.Join(top, "up")))
	must(t, os.WriteFile(filepath.Join(top, "file"), nil, 0o644))
	u := stage.User{UID: 4711, GID: 4711}
	if os.Getuid() != 0 {
		u = stage.User{UID: os.Getuid(), GID: os.Getgid()}
	}
	if id, err := u.Directory(own, true); err != nil || id.Device == 0 || id.Inode == 0 {
		t.Errorf("%s: %+v, %v", own, id, err)
	}
	for path, says := range map[string]string{
		filepath.Join(top, "link"):      "link",
		filepath.Join(top, "up", "own"): "link",
		filepath.Join(top, "file"):      "not a directory",
		filepath.Join(top, "none"):      "no such",
		own + "/":                       "shortest",
		"own":                           "absolute",
		own + "/../own":                 "shortest",
		"/":                             "own",
		"/tmp":                          "own",
		"/proc/self/cwd":                "/proc",
		"/sys/fs":                       "/sys",
		"/dev/shm":                      "/dev",
		"/run/secrets/x":                "/run/secrets",
		"/.gantry":                      "/.gantry",
	} {
		if _, err := u.Directory(path, true); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want an error with %q", path, err, says)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("directories of others need root")
	}
	if _, err := u.Directory(make("readable", 0o755, 4712), false); err != nil {
		t.Errorf("a directory of another user that all may read: %v", err)
	}
	if _, err := u.Directory(make("private", 0o700, 4712), false); err == nil {
		t.Error("a directory that only its owner may read is readable")
	}
	for _, path := range []string{make("other", 0o755, 4712), make("readonly", 0o500, 4711),
		make("closed/in", 0o777, 4711)} {
		if filepath.Base(path) == "in" {
			must(t, os.Chmod(filepath.Dir(path), 0o700))
		}
		if _, err := u.Directory(path, true); err == nil {
			t.Errorf("%s may be written to", path)
		}
	}
}

// A job may put a link at a path that the run shows to all containers: the next one does not see where it leads.
func TestAMountLeadsWhereItLed(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	area, err := stage.Open(filepath.Join(top, "run"), &planner.Platform{}, 1)
	must(t, err)
	ref, w := filepath.Join(top, "ref"), &executor.WorkflowSpec{Name: "w"}
	m := executor.Mount{From: ref, To: "/ref"}
	for range 2 { // another directory at the same path is welcome
		must(t, errors.Join(os.RemoveAll(ref), os.Mkdir(ref, 0o755)))
		if _, err := area.Mounted(w, m); err != nil {
			t.Error(err)
		}
	}
	must(t, errors.Join(os.Remove(ref), os.Symlink("/etc", ref)))
	if _, err := area.Mounted(w, m); err == nil || !strings.Contains(err.Error(), "leads to") {
		t.Errorf("a link to /etc is shown: %v", err)
	}
}
