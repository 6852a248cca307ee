package stage_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gantry/executor/container/stage"
)

// A program may put anything in the place of a file of its output: nothing outside its directory is read.
func TestTheLastLinesAreOfAFileInTheDirectory(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	for path, text := range map[string]string{secret: "secret\n", filepath.Join(dir, "out"): "a\nb\tb\x1b\nc\n\n"} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	err := errors.Join(os.Symlink(secret, filepath.Join(dir, "link")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	must(t, err)
	for name, want := range map[string]string{"out": "b\tb\x1b\nc", "link": "", "pipe": "", "none": ""} {
		text, err := stage.Last(dir, name, 2)
		if text != want || (err == nil) != (name == "out") {
			t.Errorf("the last lines of %s are %q (%v), want %q", name, text, err, want)
		}
	}
	if _, err := stage.Last(filepath.Join(dir, "gone"), "out", 2); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is gone: %v", err)
	}
	if text := stage.Tail(dir, "out", 2, strings.ToLower); text != "b b | c" {
		t.Errorf("in a line: %q", text)
	}
}

// Of a secret no part is left where lines are cut, where the end of a file begins, or where bytes are replaced.
func TestSecretsAreMaskedBeforeAnythingIsCut(t *testing.T) {
	const secret = "se\tcret"
	dir := t.TempDir()
	mask := func(text string) string { return strings.ReplaceAll(text, secret, "***") }
	long := strings.Repeat("x", 300-len("se"))
	for _, c := range []struct{ text, want string }{
		{long + secret, long + "**..."}, {"a " + secret, "a ***"},
		{strings.Repeat("x", 100) + secret + strings.Repeat("y", 64<<10-len("cret")) + "\nlast", "last"},
		{strings.Repeat("x", 100) + secret + strings.Repeat("y", 64<<10-len("cret")), ""},
	} {
		must(t, os.WriteFile(filepath.Join(dir, "out"), []byte(c.text), 0o600))
		if text := stage.Tail(dir, "out", 5, mask); text != c.want {
			t.Errorf("%.20q is %q, want %q", c.text, text, c.want)
		}
	}
}

// A thread that acts for a user has no capability of root's, by which files escape quotas. All others keep theirs.
func TestRightsOfAUserHaveNoCapabilities(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const none = "CapEff:\t0000000000000000"
	look := func() string {
		text, err := os.ReadFile("/proc/thread-self/status")
		must(t, err)
		return string(text)
	}
	u := stage.User{UID: 12345, GID: 12345, Groups: []int{}}
	u.Do(func() {
		if text := look(); !strings.Contains(text, none) {
			t.Errorf("the user has capabilities: %s", text)
		}
		u.Do(func() {
			if text := look(); !strings.Contains(text, none) {
				t.Errorf("within itself it has others: %s", text)
			}
		})
	})
	if text := look(); strings.Contains(text, none) {
		t.Error("root has no capabilities any more")
	}
}
