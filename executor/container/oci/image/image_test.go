package image_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"gantry/executor/container/fetch"
	"gantry/executor/container/oci/image"
)

// entry is an entry of a layer.
type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg}, content}
}

func dir(name string) entry {
	return entry{tar.Header{Name: name, Mode: 0o755, Typeflag: tar.TypeDir}, ""}
}

func link(kind byte, name, to string) entry {
	return entry{tar.Header{Name: name, Linkname: to, Mode: 0o777, Typeflag: kind}, ""}
}

// pack makes a tar archive.
func pack(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if e.Typeflag == tar.TypeReg {
			e.Size = int64(len(e.content))
		}
		must(t, w.WriteHeader(&e.Header))
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	must(t, w.Close())
	return b.Bytes()
}

func sum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(b)
	w.Close()
	return z.Bytes()
}

func zstandard(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	must(t, err)
	return w.EncodeAll(b, nil)
}

// about is the configuration of an image of these layers, plain.
func about(arch string, layers ...[]byte) string {
	var ids []string
	for _, l := range layers {
		ids = append(ids, "sha256:"+sum(l))
	}
	list, _ := json.Marshal(ids)
	return fmt.Sprintf(`{"architecture": %q, "os": "linux",
		"config": {"Labels": {"tools": "x"}, "Env": ["A=b"], "WorkingDir": "/w", "User": "3:4"},
		"rootfs": {"type": "layers", "diff_ids": %s}}`, arch, list)
}

// saved is what docker save writes of an image.
func saved(t testing.TB, arch string, layers ...[]byte) []byte {
	t.Helper()
	config := about(arch, layers...)
	files := []entry{file(sum([]byte(config))+".json", config)}
	var names []string
	for i, l := range layers {
		names = append(names, fmt.Sprintf("%d/layer.tar", i))
		files = append(files, file(names[i], string(l)))
	}
	list, _ := json.Marshal([]map[string]any{{"Config": sum([]byte(config)) + ".json", "Layers": names}})
	return pack(t, append(files, file("manifest.json", string(list)))...)
}

// write writes a file and returns its name as an image.
func write(t testing.TB, b []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "image.tar")
	must(t, os.WriteFile(name, b, 0o644))
	return "docker-archive:" + name
}

func open(t testing.TB) *image.Store {
	t.Helper()
	s, err := image.Open(filepath.Join(t.TempDir(), "store"))
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

func fetched(t testing.TB, s *image.Store, ref string) (*image.Image, error) {
	t.Helper()
	got, err := s.Fetch(t.Context(), image.Fetch{Options: fetch.Options{Pull: "missing"}}, []fetch.Wanted{{Ref: ref}})
	if err != nil {
		return nil, err
	}
	i, err := s.Image(got[0].ID)
	if err == nil {
		i.Image = got[0]
	}
	return i, err
}

// unpacked is the path of a file of the image's lowest layer.
func unpacked(s *image.Store, i *image.Image, name string) string {
	return filepath.Join(s.Dir(), "layers", i.Layers[0].Encoded()[:20], "fs", name)
}

func root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to keep owners and to mount")
	}
}

// mount shows an image as a container would see it.
func mount(t testing.TB, i *image.Image) string {
	t.Helper()
	top, lower, err := i.Lower()
	must(t, err)
	at := t.TempDir()
	options := "lowerdir=" + lower
	if len(i.Layers) == 1 { // overlay takes one lower directory only with an upper one
		up := t.TempDir()
		for _, d := range []string{"u", "w"} {
			os.Mkdir(filepath.Join(up, d), 0o755)
		}
		options += ",upperdir=" + up + "/u,workdir=" + up + "/w"
	}
	mounted := make(chan error)
	go func() {
		runtime.LockOSThread() // for its own working directory
		mounted <- cmp.Or(unix.Unshare(unix.CLONE_FS), unix.Chdir(top),
			unix.Mount("overlay", at, "overlay", 0, options))
	}()
	must(t, <-mounted)
	t.Cleanup(func() { unix.Unmount(at, 0) })
	return at
}

func TestAnImageIsAsItsLayersSay(t *testing.T) {
	root(t)
	capability := string([]byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	program := file("bin/ping", "program")
	program.Mode, program.Uid, program.Gid = 0o4755, 7, 8
	program.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": capability,
		"SCHILY.xattr.user.note": "n", "SCHILY.xattr.trusted.overlay.redirect": "/etc"}
	device := entry{tar.Header{Name: "dev/null", Typeflag: tar.TypeChar, Mode: 0o666, Devmajor: 1, Devminor: 3}, ""}
	pipe := entry{tar.Header{Name: "pipe", Typeflag: tar.TypeFifo, Mode: 0o600}, ""}
	closed := dir("closed")
	closed.Mode = 0o555
	low := pack(t, dir("bin"), program, link(tar.TypeLink, "bin/ping6", "bin/ping"),
		link(tar.TypeSymlink, "sh", "/bin/ping"), device, pipe, file("gone", "1"), file("dir/a", "a"),
		file("dir/b", "b"), file("all/old", "o"), file("hid/old", "o"), file("kind", "file"), closed,
		file("closed/in", "x"))
	high := pack(t, file(".wh.gone", ""), file("dir/.wh.a", ""), file("dir/c", "c"), dir("all"),
		file("all/new", "n"), file("all/.wh..wh..opq", ""), file(".wh.hid", ""), dir("hid"), dir("kind"),
		file("kind/x", "x"), file("/abs", "abs"))
	// Times are as with Docker: those before 1970, and those that nanoseconds cannot count, are 1970.
	times := map[string]int64{"before": -1, "first": 0, "now": 1_700_000_000, "2106": 1 << 32, "2300": 10_413_792_000}
	var timed []entry
	for name, seconds := range times {
		f := file(name, "x")
		f.ModTime, f.Format = time.Unix(seconds, 0), tar.FormatPAX
		timed = append(timed, f)
	}
	spring := dir("spring")
	spring.ModTime = time.Unix(1_600_000_000, 0)
	times["before"], times["2300"], times["spring"] = 0, 0, 1_600_000_000
	again := pack(t, append(timed, spring, file("spring/in", "x"))...)
	s := open(t)
	i, err := fetched(t, s, write(t, saved(t, runtime.GOARCH, low, again, high, again)))
	must(t, err)
	if i.Config.Env[0] != "A=b" || i.Config.WorkingDir != "/w" || i.Config.User != "3:4" || i.Source != "loaded" ||
		i.ID != "sha256:"+sum([]byte(about(runtime.GOARCH, low, again, high, again))) || len(i.Layers) != 3 {
		t.Errorf("%+v", i)
	}
	at := mount(t, i)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(at, name))
		if err != nil {
			return errors.Unwrap(err).Error()
		}
		return string(b)
	}
	for name, want := range map[string]string{"bin/ping": "program", "bin/ping6": "program", "dir/b": "b", "dir/c": "c",
		"all/new": "n", "kind/x": "x", "abs": "abs", "closed/in": "x", "now": "x",
		"gone":    "no such file or directory",
		"hid/old": "no such file or directory",
		"dir/a":   "no such file or directory", "all/old": "no such file or directory"} {
		if got := read(name); got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
	for name, want := range times {
		if st, err := os.Stat(filepath.Join(at, name)); err != nil || st.ModTime().Unix() != want {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	st, err := os.Lstat(filepath.Join(at, "bin/ping"))
	must(t, err)
	sys := st.Sys().(*syscall.Stat_t)
	if sys.Uid != 7 || sys.Gid != 8 || sys.Nlink != 2 || st.Mode() != 0o755|os.ModeSetuid || sys.Mtim.Sec != 0 {
		t.Errorf("%+v", sys)
	}
	value := make([]byte, 64)
	if n, err := unix.Getxattr(filepath.Join(at, "bin/ping"), "security.capability", value); err != nil ||
		string(value[:n]) != capability {
		t.Errorf("capability %x, %v", value[:max(0, n)], err)
	}
	if n, err := unix.Getxattr(unpacked(s, i, "bin/ping"), "trusted.overlay.redirect", value); err == nil {
		t.Errorf("an image may say how layers are stacked: %s", value[:n])
	}
	if st, err := os.Lstat(filepath.Join(at, "dev/null")); err != nil ||
		st.Sys().(*syscall.Stat_t).Rdev != unix.Mkdev(1, 3) {
		t.Errorf("dev/null: %v %v", st, err)
	}
	if st, err := os.Lstat(filepath.Join(at, "closed")); err != nil || st.Mode() != os.ModeDir|0o555 {
		t.Errorf("closed: %v %v", st, err)
	}
	if to, err := os.Readlink(filepath.Join(at, "sh")); to != "/bin/ping" {
		t.Errorf("sh: %s %v", to, err)
	}
}

// nothing fails the test if the store has anything.
func nothing(t testing.TB, s *image.Store) {
	t.Helper()
	filepath.WalkDir(s.Dir(), func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(s.Dir(), path)
		if strings.Contains(rel, "/") {
			t.Errorf("%s is left", rel)
		}
		return nil
	})
}

func TestDamagedImagesLeaveNothingBehind(t *testing.T) {
	root(t)
	good := pack(t, file("a", strings.Repeat("content", 1000)))
	fine := saved(t, runtime.GOARCH, good)
	change := func(b []byte, from, to string) []byte { return bytes.Replace(b, []byte(from), []byte(to), 1) }
	bad := func(entries ...entry) []byte { return saved(t, runtime.GOARCH, good, pack(t, entries...)) }
	for name, c := range map[string]struct {
		archive []byte
		words   string
	}{
		"empty":            {nil, "no archive of images"},
		"text":             {[]byte(strings.Repeat("hello", 400)), "no archive of images"},
		"no image":         {pack(t, file("x", "y")), "neither manifest.json nor index.json"},
		"cut off":          {fine[:len(fine)/2], "cut off"},
		"changed layer":    {change(fine, "contentcontent", "contentContent"), "unpacks to the digest"},
		"changed config":   {change(fine, "A=b", "A=c"), "its configuration has the digest"},
		"bad list":         {change(fine, `[{"Config"`, `[["Config"`), "manifest.json"},
		"not a layer":      {saved(t, runtime.GOARCH, []byte(strings.Repeat("no archive ", 99))), "damaged"},
		"cut off layer":    {saved(t, runtime.GOARCH, good[:2000]), "cut off"},
		"other host":       {saved(t, "riscv64", good), "this one is linux/"},
		"cut off gzip":     {gzipped(t, fine)[:300], "cut off"},
		"changed gzip":     {append(gzipped(t, fine)[:120], gzipped(t, fine)[125:]...), "cut off or changed"},
		"cut off zstd":     {zstandard(t, fine)[:90], "cut off"},
		"bzip2":            {append([]byte("BZh"), make([]byte, 600)...), "bzip2"},
		"path out":         {bad(file("../../out", "x")), "leads out of the image"},
		"link out":         {bad(link(tar.TypeLink, "l", "../../etc/passwd")), "leads out of the image"},
		"link to nothing":  {bad(link(tar.TypeLink, "l", "none")), `link to "none"`},
		"file as a parent": {bad(file("f", "x"), file("f/g", "x")), "is no directory"},
		"link in a circle": {bad(link(tar.TypeSymlink, "l", "l"), file("l/g", "x")), `"l"`},
		"parent nowhere":   {bad(link(tar.TypeSymlink, "l", "none"), file("l/g", "x")), "link to nowhere"},
		"odd type":         {bad(entry{tar.Header{Name: "x", Typeflag: 'Z'}, ""}), "type"},
		"hides all":        {bad(file(".wh...", "")), "hides nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			ref := write(t, c.archive)
			_, err := fetched(t, s, ref)
			if !errors.Is(err, fetch.ErrUnusable) || !strings.Contains(err.Error(), c.words) ||
				!strings.Contains(err.Error(), ref) {
				t.Errorf("%v\ndoes not say %q", err, c.words)
			}
			nothing(t, s)
		})
	}
}

// An archive is verified whether or not the store has its image, or gets it at once. That image stays usable.
func TestAChangedArchiveIsRefusedBesideItsImage(t *testing.T) {
	root(t)
	fine := saved(t, runtime.GOARCH, pack(t, file("b", "b")), pack(t, file("a", strings.Repeat("content", 1000))))
	good := write(t, fine)
	bad := write(t, bytes.Replace(fine, []byte("contentcontent"), []byte("contentContent"), 1))
	for range 10 {
		s := open(t)
		for _, refs := range [][]fetch.Wanted{{{Ref: good}, {Ref: bad}}, {{Ref: bad}}} {
			_, err := s.Fetch(t.Context(), image.Fetch{}, refs)
			if !errors.Is(err, fetch.ErrUnusable) || !strings.Contains(err.Error(), "unpacks to the digest") ||
				strings.Contains(err.Error(), good) {
				t.Errorf("a changed archive beside the image: %v", err)
			}
			entries, err := s.List()
			if err != nil || len(entries) != 1 || !entries[0].Whole {
				t.Fatalf("the store has %v, %v", entries, err)
			}
		}
	}
}

// Links of an archive lead to what its own root has, never to the host's.
// A hole of a sparse file is written without a read that would see that the run is over.
func TestASparseFileEndsWithItsRun(t *testing.T) {
	const size = "77777777777"
	sparse := pack(t, entry{tar.Header{Name: "hole", Mode: 0o644, Typeflag: tar.TypeReg, Format: tar.FormatGNU}, ""})
	sparse[156] = tar.TypeGNUSparse
	copy(sparse[386:], size+"\x0000000000000\x00") // no data but at its end
	copy(sparse[483:], size)
	copy(sparse[148:156], "        ")
	check := 0
	for _, b := range sparse[:512] {
		check += int(b)
	}
	copy(sparse[148:], fmt.Sprintf("%06o\x00 ", check))
	s, ref := open(t), write(t, saved(t, runtime.GOARCH, sparse))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	go func() {
		_, err := s.Fetch(ctx, image.Fetch{Options: fetch.Options{Pull: "missing"}}, []fetch.Wanted{{Ref: ref}})
		ended <- err
	}()
	most := int64(0)
	for {
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) || most == 0 || most > 4<<30 {
				t.Errorf("%d bytes of the file were written: %v", most, err)
			}
			return
		case <-time.After(time.Millisecond):
			holes, _ := filepath.Glob(filepath.Join(s.Dir(), "tmp", "*", "*", "fs", "hole"))
			for _, h := range holes {
				if st, err := os.Stat(h); err == nil && st.Size() > 0 {
					most = max(most, st.Size())
					cancel()
				}
			}
		}
	}
}

func TestNoPathEscapes(t *testing.T) {
	root(t)
	out := filepath.Join(t.TempDir(), "host")
	must(t, os.Mkdir(out, 0o755))
	up := strings.Repeat("../", 30)
	layer := pack(t, dir("tmp"), dir(strings.TrimPrefix(out, "/")), link(tar.TypeSymlink, "abs", out),
		file("abs/1", "x"), link(tar.TypeSymlink, "rel", up+out[1:]), file("rel/2", "x"),
		link(tar.TypeSymlink, "d", "tmp"), file("d/"+"3", "x"), dir("d"), file("d/4", "x"),
		link(tar.TypeSymlink, "proc", "/proc/self/root"), dir("proc"), file("proc/5", "x"))
	s := open(t)
	i, err := fetched(t, s, write(t, saved(t, runtime.GOARCH, layer)))
	must(t, err)
	if found, _ := os.ReadDir(out); len(found) > 0 {
		t.Errorf("written outside: %v", found)
	}
	for _, name := range []string{out + "/1", out + "/2", "tmp/3", "d/4", "proc/5"} {
		if _, err := os.Lstat(unpacked(s, i, name)); err != nil {
			t.Error(err)
		}
	}
}

// Programs that write archives as docker save does give the configuration various names. One that is a digest is
// verified.
func TestTheConfigurationOfAnArchiveMayHaveAnyName(t *testing.T) {
	root(t)
	layer := pack(t, file("a", "1"))
	config := about(runtime.GOARCH, layer)
	hex, other := sum([]byte(config)), sum([]byte("other"))
	for name, damaged := range map[string]bool{"sha256:" + hex: false, "config.json": false, hex: false,
		hex + ".json": false, "blobs/sha256/" + hex: false, "sha256:none": false, "sha256:" + other: true,
		other + ".json": true, "blobs/sha256/" + other: true} {
		list, _ := json.Marshal([]map[string]any{{"Config": name, "Layers": []string{"l.tar"}}})
		i, err := fetched(t, open(t), write(t, pack(t, file(name, config), file("l.tar", string(layer)),
			file("manifest.json", string(list)))))
		switch {
		case damaged && (err == nil || !strings.Contains(err.Error(), "has the digest sha256:"+hex)):
			t.Errorf("%s: %v", name, err)
		case !damaged && (err != nil || i.ID != "sha256:"+hex):
			t.Errorf("%s: %v, %v", name, i, err)
		}
	}
}

// An archive that was replaced is another one, whatever its size and its time of modification: written anew, or another
// file that was moved to its place.
func TestAReplacedArchiveIsAnother(t *testing.T) {
	root(t)
	s := open(t)
	one, two := saved(t, runtime.GOARCH, pack(t, file("a", "1"))), saved(t, runtime.GOARCH, pack(t, file("a", "2")))
	ref := write(t, one)
	path := strings.TrimPrefix(ref, "docker-archive:")
	st, err := os.Stat(path)
	must(t, err)
	put := func(path string, content []byte) {
		must(t, os.WriteFile(path, content, 0o644))
		must(t, os.Chtimes(path, st.ModTime(), st.ModTime()))
	}
	moved := path + ".other"
	put(moved, one)
	var last *image.Image
	for k, next := range []func(){func() {}, func() { put(path, two) }, func() {
		must(t, os.Rename(moved, path))
	}} {
		next()
		i, err := fetched(t, s, ref)
		must(t, err)
		if last != nil && i.ID == last.ID {
			t.Errorf("change %d is not seen", k)
		}
		last = i
		if again, err := fetched(t, s, ref); err != nil || again.ID != i.ID {
			t.Errorf("%v, %v", again, err)
		}
	}
}

// An image that was built here is known by its name, as images of a Docker Engine are. Archives may be compressed.
func TestAnImageIsLoadedUnderAName(t *testing.T) {
	root(t)
	s := open(t)
	for k, compressed := range []func(testing.TB, []byte) []byte{gzipped, zstandard} {
		text := strconv.Itoa(k)
		b := saved(t, runtime.GOARCH, pack(t, file("a", text)))
		_, path, _ := strings.Cut(write(t, compressed(t, b)), ":")
		f, err := os.Open(path)
		must(t, err)
		defer f.Close()
		must(t, s.Load(t.Context(), fetch.Options{}, "gantry/tools", f))
		i, err := fetched(t, s, "gantry/tools:latest")
		must(t, err)
		if got, err := os.ReadFile(unpacked(s, i, "a")); string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if got := s.Label("gantry/tools", "tools") + s.Label("gantry/tools:2", "tools"); got != "x" {
		t.Errorf("label %q", got)
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
