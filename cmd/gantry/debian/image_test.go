package debian

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestNamesAreChecked(t *testing.T) {
	i, err := New("gantry/tools", []string{"mawk", "bwa", "mawk"})
	if err != nil || *i != (Image{"gantry/tools:latest", "bwa mawk"}) {
		t.Errorf("%+v, %v", i, err)
	}
	if i, err := New("localhost:5000/x:1", nil); err != nil || i.Name != "localhost:5000/x:1" {
		t.Errorf("%+v, %v", i, err)
	}
	for _, bad := range [][]string{{"Tools", "mawk"}, {"-x", "mawk"}, {"tools", "--force"}, {"tools", "a b"}} {
		if _, err := New(bad[0], bad[1:]); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// pack makes an archive of the data of a package.
func pack(t *testing.T, headers ...tar.Header) *tar.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		text := h.Uname // the content, as it is short
		h.Uname, h.Size = "", int64(len(text))
		must(t, w.WriteHeader(&h))
		io.WriteString(w, text)
	}
	w.Close()
	return tar.NewReader(&b)
}

func TestALayerHasFilesWhereProgramsLookForThem(t *testing.T) {
	var b bytes.Buffer
	l, dir := newLayer(&b), t.TempDir()
	file := func(name, text string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Uname: text}
	}
	err := errors.Join(l.addAll(pack(t, tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755},
		tar.Header{Typeflag: tar.TypeDir, Name: "./lib/", Mode: 0o755}, file("./lib/libx.so", "x"),
		tar.Header{Typeflag: tar.TypeLink, Name: "./usr/bin/y", Linkname: "./lib/libx.so"},
		file("./usr/share/doc/x/copyright", "c"), file("./sbin/reboot", "own"),
		file("./bin/busybox", "#!/bin/sh\necho sh reboot '['\n")), dir),
		l.addAll(pack(t, file("./usr/lib/libx.so", "second"), file("./etc/passwd", "second")), dir),
		l.end(t.Context(), dir))
	must(t, err)
	var got []string
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(r)
		if h.Typeflag != tar.TypeDir && !strings.HasPrefix(h.Name, "etc/") && h.Name != busybox {
			got = append(got, strings.TrimSpace(h.Name+" "+h.Linkname+string(text)))
		}
		if bytes.Contains(text, []byte("second")) || !h.ModTime.Equal(epoch) {
			t.Errorf("%s: %q of %v", h.Name, text, h.ModTime)
		}
	}
	want := []string{"bin usr/bin", "sbin usr/sbin", "lib usr/lib", "lib64 usr/lib64", "usr/lib/libx.so x",
		"usr/bin/y usr/lib/libx.so", "usr/sbin/reboot own", "usr/bin/sh busybox", "usr/bin/[ busybox"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

// machine has packages, and an apt-get that fetches them, or does what a script says.
func machine(t *testing.T, script string) (tries string) {
	t.Helper()
	dir := t.TempDir()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("needs dpkg-deb")
	}
	root := filepath.Join(dir, "root")
	for name, text := range map[string]string{"bin/busybox": "#!/bin/sh\necho sh\n", "DEBIAN/control": "Package: " +
		"busybox-static\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n"} {
		path := filepath.Join(root, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755))
		must(t, err)
	}
	if out, err := exec.Command("dpkg-deb", "-b", root, dir+"/busybox.deb").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text := "#!/bin/sh\necho \"$*\" >>" + dir + "/tries\n" + script +
		"\nfor a; do case $a in Dir::Cache::archives=*) cp " + dir + "/busybox.deb \"${a#*=}/\";; esac; done\n"
	must(t, os.WriteFile(dir+"/apt-get", []byte(text), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("TMPDIR", t.TempDir())
	return dir + "/tries"
}

// build builds an image, and returns its archive and what was said.
func build(t *testing.T) (archive []byte, said []string, err error) {
	t.Helper()
	i, err := New("tools", []string{"busybox-static"})
	must(t, err)
	f, err := os.Create(filepath.Join(t.TempDir(), "x.tar"))
	must(t, err)
	defer f.Close()
	err = i.Build(t.Context(), f, func(text string) { said = append(said, text) })
	archive, _ = os.ReadFile(f.Name())
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	return archive, said, err
}

func TestEqualPackagesGiveAnEqualImage(t *testing.T) {
	machine(t, "")
	first, said, err := build(t)
	if err != nil || len(said) > 0 {
		t.Fatal(said, err)
	}
	machine(t, "")
	if again, _, err := build(t); err != nil || !bytes.Equal(first, again) || len(first) < 4096 {
		t.Errorf("%d bytes and %d, %v", len(first), len(again), err)
	}
}

func TestPackagesThatCannotBeHad(t *testing.T) {
	// lists of the machine that are missing or old
	tries := machine(t, `case $* in *State::lists=*) ;; *) echo "E: Unable to locate package busybox-static"; exit 100;; esac`)
	if _, said, err := build(t); err != nil || len(said) != 1 || !strings.Contains(said[0], "Unable to locate") {
		t.Errorf("%q, %v", said, err)
	}
	if text, _ := os.ReadFile(tries); strings.Count(string(text), "\n") != 3 {
		t.Errorf("apt-get was called with\n%s", text)
	}
	// no network
	machine(t, `case $* in *update) echo "W: Failed to fetch http://x  Could not resolve 'x'"; exit 0;; esac
		echo "E: Unable to locate package busybox-static"; exit 100`)
	_, _, err := build(t)
	if !errors.Is(err, ErrPackages) || !strings.Contains(err.Error(), "Could not resolve") ||
		!strings.Contains(err.Error(), "package sources of this machine") {
		t.Error(err)
	}
	// neither
	t.Setenv("PATH", t.TempDir())
	if _, _, err := build(t); err == nil || !strings.Contains(err.Error(), "not Debian or Ubuntu") {
		t.Error(err)
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
