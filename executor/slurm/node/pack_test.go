package node

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pack returns an archive of a tree with files, a link and a directory.
func pack(t *testing.T) (archive []byte, paths map[string]string) {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"a/b", "a/empty"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	paths = map[string]string{"a/one": "first", "a/b/two": strings.Repeat("second", 100000), "a/nothing": ""}
	for name, text := range paths {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../elsewhere", filepath.Join(root, "a/link")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p := NewPacker(&out, root)
	for _, name := range []string{"a", "not there"} {
		if err := p.Add(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), paths
}

func TestUnpackRestores(t *testing.T) {
	archive, want := pack(t)
	root := t.TempDir()
	// What lies there already is replaced, also by another kind of file.
	if err := os.MkdirAll(filepath.Join(root, "a/one/deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := Unpack(bytes.NewReader(archive), root, true)
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(got) != text {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if st, err := os.Stat(filepath.Join(root, name)); err != nil || st.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	if to, err := os.Readlink(filepath.Join(root, "a/link")); err != nil || to != "../elsewhere" {
		t.Errorf("link to %q, %v", to, err)
	}
	if st, err := os.Stat(filepath.Join(root, "a/empty")); err != nil || !st.IsDir() {
		t.Errorf("the empty directory: %v", err)
	}
}

// An archive that is cut off or damaged anywhere is an error, and no file of it is there in part.
func TestUnpackRefusesWhatIsNotWhole(t *testing.T) {
	archive, want := pack(t)
	whole := bytes.LastIndex(archive, []byte(endEntry))
	check := func(what string, text []byte) {
		root := t.TempDir()
		if _, err := Unpack(bytes.NewReader(text), root, false); err == nil {
			t.Errorf("%s: no error", what)
		}
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			name, _ := filepath.Rel(root, path)
			if got, _ := os.ReadFile(path); string(got) != want[name] {
				t.Errorf("%s: %s has %d bytes that are not those it had", what, name, len(got))
			}
			return nil
		})
	}
	for at := 0; at < whole; at += 4099 {
		check("cut off", archive[:at])
	}
	for _, text := range []string{"second", "first"} {
		damaged := bytes.Clone(archive)
		damaged[bytes.Index(damaged, []byte(text))]++
		check("damaged", damaged)
	}
}

// No entry leaves the directory, by its name or through a link.
func TestUnpackStaysInside(t *testing.T) {
	for _, name := range []string{"../out", "link/out"} {
		root, other := t.TempDir(), t.TempDir()
		if err := os.Symlink(other, filepath.Join(root, "link")); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		p := NewPacker(&out, root)
		if err := p.Put(filepath.Join(root, name), []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Unpack(&out, root, false); err == nil {
			t.Errorf("%s: no error", name)
		}
		if left, _ := os.ReadDir(other); len(left) > 0 {
			t.Errorf("%s: written to %s", name, other)
		}
	}
}
