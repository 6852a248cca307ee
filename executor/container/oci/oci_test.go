package oci_test

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/fetch"
	"gantry/executor/container/oci"
	"gantry/executor/container/oci/image"
	"gantry/executor/runtimetest"
	"gantry/planner"
	"gantry/planner/unit"
)

func TestMain(m *testing.M) { runtimetest.Main(m) }

// build makes a static program of this module, or takes that of $GANTRY_TEST_PROGRAMS.
func build(t testing.TB, pkg, path string) string {
	t.Helper()
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if strings.HasSuffix(pkg, "/gantry-task") {
		cmd.Env = nil // its launcher is C
	}
	if built := os.Getenv("GANTRY_TEST_PROGRAMS"); built != "" {
		cmd = exec.Command("cp", filepath.Join(built, filepath.Base(pkg)), path)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return path
}

// tarred makes an archive of files.
func tarred(t testing.TB, path string, files ...[2]string) []byte {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	w := tar.NewWriter(f)
	for _, file := range files {
		h := &tar.Header{Name: file[0], Mode: 0o755, Size: int64(len(file[1]))}
		must(t, w.WriteHeader(h))
		if _, err := w.Write([]byte(file[1])); err != nil {
			t.Fatal(err)
		}
	}
	must(t, w.Close())
	text, err := os.ReadFile(path)
	must(t, err)
	return text
}

// act is a layer with one program, /act.
func act(t testing.TB, dir string) []byte {
	t.Helper()
	program, err := os.ReadFile(build(t, "./testdata/act", filepath.Join(dir, "act")))
	must(t, err)
	return tarred(t, filepath.Join(dir, "layer.tar"), [2]string{"act", string(program)})
}

// stored is a store with an image that has one program, /act, and the image's ID. No Docker Engine has a part in it.
func stored(t testing.TB, dir string) (*image.Store, string) {
	t.Helper()
	return storedAt(t, dir, filepath.Join(dir, "images"), act(t, dir))
}

// storedAt is a store at a path with an image of these layers, and the image's ID.
func storedAt(t testing.TB, dir, at string, layers ...[]byte) (*image.Store, string) {
	t.Helper()
	var ids, names []string
	var files [][2]string
	for i, l := range layers {
		ids = append(ids, fmt.Sprintf("%q", fmt.Sprintf("sha256:%x", sha256.Sum256(l))))
		files = append(files, [2]string{fmt.Sprintf("layer%d.tar", i), string(l)})
		names = append(names, fmt.Sprintf("%q", files[i][0]))
	}
	config := fmt.Sprintf(`{"architecture": %q, "os": "linux", "config": {}, "rootfs": {"type": "layers", `+
		`"diff_ids": [%s]}}`, runtime.GOARCH, strings.Join(ids, ", "))
	name := fmt.Sprintf("%x.json", sha256.Sum256([]byte(config)))
	path := filepath.Join(dir, "image.tar")
	tarred(t, path, append(files, [2]string{name, config}, [2]string{"manifest.json", fmt.Sprintf(`[{"Config": %q, `+
		`"RepoTags": ["act:1"], "Layers": [%s]}]`, name, strings.Join(names, ", "))})...)
	store, err := image.Open(at)
	must(t, err)
	t.Cleanup(func() { store.Close() })
	got, err := store.Fetch(t.Context(), image.Fetch{Options: fetch.Options{Pull: "missing"}},
		[]fetch.Wanted{{Ref: "file://" + path}})
	must(t, err)
	return store, got[0].ID
}

// skipUnusable skips on hosts that have no OCI runtime, or where this user may not make containers.
func skipUnusable(t testing.TB) {
	t.Helper()
	e, err := oci.Open(oci.Config{})
	if err == nil {
		_, err = e.Host(t.Context())
		e.Close()
	}
	if err != nil {
		t.Skipf("needs an OCI runtime, and root: %v", err)
	}
}

// networks is how many network namespaces this process holds on to.
func networks(t *testing.T) int {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	must(t, err)
	n := 0
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "net:") {
			n++
		}
	}
	return n
}

// The contract of runtimes, on a host where no Docker Engine is needed. Nothing of a container is left after it.
func TestContract(t *testing.T) {
	skipUnusable(t)
	made := t.TempDir()
	store, id := stored(t, made)
	emulator := build(t, "gantry/cmd/gantry-task", filepath.Join(made, "gantry-task"))
	var runs atomic.Int64
	t.Cleanup(func() { // when all of the contract is over
		if n := networks(t); n > 0 {
			t.Errorf("%d network namespaces of containers are kept", n)
		}
	})
	runtimetest.Run(t, func(t *testing.T) runtimetest.Setup {
		name := fmt.Sprintf("test-oci-%x-%d", time.Now().UnixNano()&0xffffff, runs.Add(1))
		dir := filepath.Join(t.TempDir(), name)
		must(t, os.Mkdir(dir, 0o755))
		platform := &planner.Platform{Groups: []string{"a", "b"},
			Bandwidth: [][]unit.BytesPerSecond{{0, 0}, {0, 0}}, Latency: [][]int64{{0, 0}, {0, 0}}}
		for i := range 2 {
			n := planner.Node{ID: planner.NodeID(i), Name: fmt.Sprint("n", i), Speed: 1,
				Capacity: unit.Vector{unit.CPU: 2000, unit.Memory: 1 << 30, unit.Disk: unit.Unlimited}}
			if i > 0 {
				n.Group = 1
			}
			platform.Nodes = append(platform.Nodes, n)
		}
		open := func() *oci.Engine {
			e, err := oci.Open(oci.Config{Dirs: []string{dir}, Images: store})
			must(t, err)
			return e
		}
		r, err := container.New(t.Context(), open(), container.Config{Run: name, Dir: dir, Platform: platform,
			TaskBinary: emulator, Version: "test",
			Warn:  func(rule, message string) { t.Logf("%s: %s", rule, message) },
			Image: func(name string) string { return map[string]string{"act": id}[name] }})
		must(t, err)
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if _, err := container.Clean(context.Background(), open(), filepath.Dir(dir), name, true); err != nil {
				t.Error(err)
			}
			left, err := os.ReadDir(filepath.Join(dir, "control", "oci"))
			if len(left) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("left of containers: %v, %v", left, err)
			}
			sum := sha256.Sum256([]byte(dir))
			for _, top := range []string{"/run", "/dev/shm"} {
				if _, err := os.Lstat(fmt.Sprintf("%s/gantry/%x", top, sum[:8])); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("bundles are left in %s: %v", top, err)
				}
			}
			mounts, _ := os.ReadFile("/proc/self/mountinfo")
			if strings.Contains(string(mounts), name) {
				t.Errorf("mounts are left:\n%s", mounts)
			}
		})
		wf := &executor.WorkflowSpec{Name: "wf"}
		n := 0
		return runtimetest.Setup{Runtime: r, Capabilities: &oci.Capabilities, Nodes: 2, Workflow: wf,
			Hold: unit.Vector{unit.CPU: 1000, unit.Memory: 64 << 20},
			Task: func(_ *testing.T, w runtimetest.Work) *executor.TaskSpec {
				n++
				s := &executor.TaskSpec{Workflow: wf, Name: fmt.Sprint(n), Kind: "e", Cores: 1}
				if w == runtimetest.Steady {
					s.Run = time.Minute
					return s
				}
				s.Image = "act"
				s.Command = []string{"/act", map[runtimetest.Work]string{runtimetest.Short: "nothing",
					runtimetest.Long: "sleep", runtimetest.Failing: "fail", runtimetest.Held: "hold"}[w]}
				return s
			},
			Release: func(_ *testing.T, held *executor.TaskSpec) {
				must(t, os.WriteFile(filepath.Join(r.Files().WorkDir(held, 1), "released"), nil, 0o644))
			},
			File: func(*testing.T) *executor.FileSpec {
				path := filepath.Join(dir, "nodes", "n0", "wf", "f")
				must(t, os.MkdirAll(filepath.Dir(path), 0o755))
				must(t, os.WriteFile(path, []byte("content"), 0o644))
				return &executor.FileSpec{ID: 1, Name: "f"}
			}}
	})
}

// says runs a container and returns what its program said.
func says(t *testing.T, s *container.Spec, store *image.Store) string {
	t.Helper()
	e, err := oci.Open(oci.Config{Dirs: []string{t.TempDir()}, Images: store})
	must(t, err)
	defer e.Close()
	group := fmt.Sprintf("gantry-test-oci-%x", time.Now().UnixNano()&0xffffff)
	s.Name, s.Dir, s.Group = "one", "/", func(string) string { return group }
	c, err := e.Create(t.Context(), s)
	must(t, err)
	defer func() {
		if err := e.Remove(context.Background(), c); err != nil {
			t.Error(err)
		}
	}()
	must(t, e.Start(t.Context(), c))
	_, _ = e.Wait(t.Context(), c)
	stdout, stderr, err := e.Output(t.Context(), c)
	must(t, err)
	return string(stdout) + string(stderr)
}

// Images run whatever the length and the path of the list of their layers.
func TestLayersAreMountedWhateverTheirPaths(t *testing.T) {
	skipUnusable(t)
	dir := t.TempDir()
	program := act(t, dir)
	var many [][]byte
	for i := range 126 {
		many = append(many, tarred(t, filepath.Join(dir, "small.tar"), [2]string{fmt.Sprint("f", i), ""}))
	}
	for _, c := range []struct {
		at     string
		layers [][]byte
	}{{"images", append(many, program)}, {"a:b,c", [][]byte{program}}, {`d\e f`, [][]byte{program}}} {
		store, id := storedAt(t, t.TempDir(), filepath.Join(dir, c.at), c.layers...)
		s := &container.Spec{Image: id, Args: []string{"/act", "show", "/proc/self/comm"}}
		if out := says(t, s, store); out != "act\n" {
			t.Errorf("%d layers in %s: %q", len(c.layers), c.at, out)
		}
	}
}

// Programs have the same limits, processors and chance to be ended whatever those of the shell that started gantry are.
func TestLimitsOfTheShellAreNotThoseOfPrograms(t *testing.T) {
	skipUnusable(t)
	const again = "GANTRY_TEST_LIMITS"
	dir := t.TempDir()
	store, id := stored(t, dir)
	out := says(t, &container.Spec{Image: id, Args: []string{"/act", "show", "/proc/self/limits",
		"/proc/self/oom_score_adj", "/proc/self/status"}}, store)
	var facts []string
	for line := range strings.Lines(out) {
		if _, name, ok := strings.Cut(line, "Max "); ok && name != "" || strings.HasPrefix(line, "Cpus_allowed") ||
			strings.Trim(line, "0123456789\n-") == "" {
			facts = append(facts, strings.Join(strings.Fields(line), " "))
		}
	}
	found := strings.Join(facts, "\n")
	if path := os.Getenv(again); path != "" {
		must(t, os.WriteFile(path, []byte(found), 0o644))
		return
	}
	seen := filepath.Join(dir, "seen")
	odd := exec.Command("bash", "-c", "ulimit -S -n 500 -c 0 -f 1000000 -s 4096 -l 64 -t 1000 -i 100; "+
		"echo 500 >/proc/self/oom_score_adj; exec taskset -c 0 \"$@\"", "bash", os.Args[0], "-test.run",
		"^"+t.Name()+"$")
	odd.Env = append(os.Environ(), again+"="+seen)
	if said, err := odd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if other, err := os.ReadFile(seen); err != nil || string(other) != found {
		t.Errorf("in a shell with odd limits:\n%s\nin this one:\n%s\n%v", other, found, err)
	}
	if os.Geteuid() == 0 && len(facts) != 19 || !strings.Contains(found, "\n0\n") {
		t.Errorf("%d facts, or not the score 0:\n%s", len(facts), found)
	}
}

// A container of an image without layers is made; there is only what every container has.
func TestAnImageMayHaveNoLayers(t *testing.T) {
	skipUnusable(t)
	dir := t.TempDir()
	program := build(t, "./testdata/act", filepath.Join(dir, "act"))
	store, id := storedAt(t, dir, filepath.Join(dir, "images"))
	out := says(t, &container.Spec{Image: id, Args: []string{"/act", "show", "/etc/hosts", "/proc/self/comm"},
		Mounts: []container.Mount{{Source: program, Target: "/act", ReadOnly: true}}}, store)
	if out != "act\n" {
		t.Errorf("%q", out)
	}
}

// A program that is no OCI runtime ends the start with an error: what there is not cannot be lost.
func TestARuntimeThatDoesNothingIsAnError(t *testing.T) {
	skipUnusable(t)
	t.Setenv(oci.RuntimeEnv, "/bin/true")
	e, err := oci.Open(oci.Config{Dirs: []string{t.TempDir()}})
	must(t, err)
	defer e.Close()
	id, err := e.Create(t.Context(), &container.Spec{Name: "none", Args: []string{container.Launcher}, Dir: "/",
		Group: func(string) string { return "gantry-test-oci-none" }})
	must(t, err)
	if err := e.Start(t.Context(), id); err == nil || !strings.Contains(err.Error(), "made no container") {
		t.Errorf("%v", err)
	}
	if err := e.Remove(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// Host says what root has to have, and needs no directory for temporary files.
func TestHostSaysWhatIsMissing(t *testing.T) {
	const again = "GANTRY_TEST_HOST"
	if os.Getenv(again) != "" {
		e, err := oci.Open(oci.Config{})
		must(t, err)
		defer e.Close()
		_, err = e.Host(t.Context())
		fmt.Println(err)
		return
	}
	skipUnusable(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, lacking := range []string{"", "net_admin", "mknod"} {
		c := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		if lacking != "" {
			c.Args = append([]string{"setpriv", "--bounding-set=-" + lacking, c.Path}, c.Args[1:]...)
			c.Path, c.Err = exec.LookPath("setpriv")
		}
		c.Env = append(os.Environ(), "TMPDIR=/nowhere", again+"=1")
		said, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		want := "root without CAP_" + strings.ToUpper(lacking) + " "
		if lacking == "" {
			want = "<nil>" // no error
		}
		if !strings.Contains(string(said), want) {
			t.Errorf("without %q: %s", lacking, said)
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
