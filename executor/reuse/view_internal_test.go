package reuse

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gantry/executor"
)

// noMemory is a log that remembers nothing.
type noMemory struct{ Log }

func (noMemory) Remembered(context.Context, Stamp) (s Stamp, sum Sum, at time.Time, ok bool, err error) {
	return s, sum, at, false, nil
}
func (noMemory) Remember(Stamp, Sum, time.Time) {}

// Mounts and secrets are compared by content, whatever the inodes and times are, and mounts also by state.
func TestMountsAndSecretsAreCompared(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ref")
	write := func(name, text string) {
		must(t, errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755),
			os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)))
	}
	write("genome/chr1", "ACGT")
	write("genes", "g1")
	must(t, os.Symlink("genes", filepath.Join(dir, "link")))
	spec := &executor.TaskSpec{Command: []string{"true"}, Mounts: []string{dir + ":/ref"}}
	k := &Keeper{Log: noMemory{}, Secrets: map[string]Sum{"T": {1}}}
	look := func() seen {
		s, why := k.look(t.Context(), spec, true)
		if why != "" {
			t.Fatal(why)
		}
		return s
	}
	was := look()
	for name, x := range map[string]struct {
		change, undo func()
		same         bool // in content
	}{
		"a time": {func() { os.Chtimes(filepath.Join(dir, "genes"), time.Now(), time.Unix(1, 0)) }, func() {}, true},
		"a content of the same size": {func() { write("genome/chr1", "ACGA") }, func() { write("genome/chr1", "ACGT") },
			false},
		"a new file": {func() { write("genome/chr2", "") },
			func() { os.Remove(filepath.Join(dir, "genome/chr2")) }, false},
		"an empty directory": {func() { os.Mkdir(filepath.Join(dir, "d"), 0o755) },
			func() { os.Remove(filepath.Join(dir, "d")) }, false},
		"a name": {func() { os.Rename(filepath.Join(dir, "genes"), filepath.Join(dir, "Genes")) },
			func() { os.Rename(filepath.Join(dir, "Genes"), filepath.Join(dir, "genes")) }, false},
		"a mode": {func() { os.Chmod(filepath.Join(dir, "genes"), 0o755) },
			func() { os.Chmod(filepath.Join(dir, "genes"), 0o644) }, false},
		"a link": {func() {
			os.Remove(filepath.Join(dir, "link"))
			os.Symlink("genome", filepath.Join(dir, "link"))
		}, func() {
			os.Remove(filepath.Join(dir, "link"))
			os.Symlink("genes", filepath.Join(dir, "link"))
		}, false},
		"a secret":       {func() { k.Secrets["T"] = Sum{2} }, func() { k.Secrets["T"] = Sum{1} }, false},
		"another secret": {func() { k.Secrets["U"] = Sum{} }, func() { delete(k.Secrets, "U") }, false},
	} {
		x.change()
		if now := look(); (now.content == was.content) != x.same || now.state == was.state {
			t.Errorf("%s changed: the content is the same: %v, and the state: %v", name, now.content == was.content,
				now.state == was.state)
		}
		x.undo()
		if look().content != was.content {
			t.Fatalf("%s changed back: the content is another", name)
		}
	}
}

// A mount that cannot be compared is named, and nothing that is looked for finds the results of its task.
func TestAMountThatCannotBeComparedIsNamed(t *testing.T) {
	dir := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	many := t.TempDir()
	for i := range mostFiles/200 + 1 {
		sub := filepath.Join(many, string(rune('a'+i)))
		must(t, os.Mkdir(sub, 0o755))
		for j := range 200 {
			must(t, os.Symlink("nowhere", filepath.Join(sub, string(rune('A'+j)))))
		}
	}
	k := &Keeper{Log: noMemory{}, Hash: true}
	for mount, want := range map[string]string{
		dir + ":/ref":                   "pipe is neither a file nor a directory",
		many + ":/ref":                  "it has more than 20000 files",
		filepath.Join(dir, "x") + ":/x": "no such file",
		executor.InPlace(dir, true):     "it works in " + dir,
		executor.InPlace(dir, false):    "it works in " + dir,
		dir + ":/run/secrets/x":         "secrets of submissions",
	} {
		spec := &executor.TaskSpec{Command: []string{"true"}, Mounts: []string{mount}}
		if _, why := k.look(t.Context(), spec, true); !strings.Contains(why, want) {
			t.Errorf("mount %s: %q, want %q", mount, why, want)
		}
		if got := k.known(t.Context(), spec, time.Now()); got != unknown(spec) {
			t.Errorf("mount %s: the results are known by %x", mount, got)
		}
	}
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o644))
	spec := &executor.TaskSpec{Command: []string{"true"}, Mounts: []string{file + ":/file"}}
	if k.known(t.Context(), spec, time.Now().Add(-time.Minute)) != unknown(spec) {
		t.Error("a mount that changed while the task ran is known")
	}
	if k.known(t.Context(), spec, time.Now().Add(time.Minute)) == unknown(spec) {
		t.Error("a mount that did not change while the task ran is not known")
	}
	k.Afar = true
	if _, why := k.look(t.Context(), spec, true); !strings.Contains(why, "of other hosts") {
		t.Errorf("a mount of other hosts: %q", why)
	}
}

// Values of secrets cannot be tried out without the key, which the calling user alone can read.
func TestSecretsAreComparedByAKey(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	sums := func(name, value string) Sum {
		t.Helper()
		all, err := SecretSums(key, func(string) {}, map[string]string{name: value})
		must(t, err)
		return all[name]
	}
	a := sums("A", "1")
	if a != sums("A", "1") || a == sums("A", "2") || a == sums("B", "1") || sums("AB", "C") == sums("A", "BC") {
		t.Error("sums do not tell values apart")
	}
	if st, err := os.Stat(key); err != nil || st.Mode() != 0o600 {
		t.Errorf("the key has mode %v, %v", st.Mode(), err)
	}
	must(t, os.Remove(key))
	if a == sums("A", "1") {
		t.Error("another key gives the same sum")
	}
	for name, spoil := range map[string]func() error{
		"a file that others can read": func() error { return os.Chmod(key, 0o604) },
		"a link": func() error {
			return errors.Join(os.Rename(key, key+"2"), os.Symlink(key+"2", key))
		},
	} {
		must(t, spoil())
		if _, err := SecretSums(key, nil, nil); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is taken as a key: %v", name, err)
		}
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
