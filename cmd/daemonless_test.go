package cmd

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"gantry/executor/container/oci"
	"gantry/executor/container/oci/image"
)

var askedOCI = sync.OnceValue(func() error {
	e, err := oci.Open(oci.Config{})
	if err == nil {
		_, err = e.Host(context.Background())
		e.Close()
	}
	return err
})

// needsOCI skips where containers cannot be made without a daemon.
func needsOCI(t *testing.T) {
	t.Helper()
	if err := askedOCI(); err != nil {
		t.Skipf("needs an OCI runtime: %v", err)
	}
}

// noDocker has no Docker Engine answer.
func noDocker(t *testing.T) {
	t.Helper()
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "none.sock"))
}

// archiveFor is an archive of an image for an architecture. Its only layer is empty.
func archiveFor(t *testing.T, arch string) string { return archiveOf(t, arch, "x:1") }

// archiveOf is such an archive of an image of that name.
func archiveOf(t *testing.T, arch, tag string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), arch+".tar")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	w := tar.NewWriter(f)
	layer := make([]byte, 1024)
	config := fmt.Sprintf(`{"architecture": %q, "os": "linux", "config": {}, "rootfs": {"type": "layers", `+
		`"diff_ids": ["sha256:%x"]}}`, arch, sha256.Sum256(layer))
	name := fmt.Sprintf("%x.json", sha256.Sum256([]byte(config)))
	for _, file := range []struct{ name, content string }{{"layer.tar", string(layer)}, {name, config},
		{"manifest.json", fmt.Sprintf(`[{"Config": %q, "RepoTags": [%q], "Layers": ["layer.tar"]}]`, name, tag)}} {
		must(t, w.WriteHeader(&tar.Header{Name: file.name, Mode: 0o644, Size: int64(len(file.content))}))
		if _, err := w.Write([]byte(file.content)); err != nil {
			t.Fatal(err)
		}
	}
	must(t, w.Close())
	return path
}

// Whatever a host or an image lacks, the run is refused with exit code 4, and leaves neither layers nor containers.
func TestRunsWithoutADaemonAreRefusedCleanly(t *testing.T) {
	needsOCI(t)
	noDocker(t)
	flow := written(t, "Makeflow", "out:\n\ttrue\n")
	damaged := written(t, "damaged.tar", strings.Repeat("no archive", 999))
	foreign := map[bool]string{true: "s390x", false: "amd64"}[runtime.GOARCH == "amd64"]
	good := archiveFor(t, runtime.GOARCH)
	cut, err := os.ReadFile(good)
	must(t, err)
	half := filepath.Join(t.TempDir(), "half.tar")
	must(t, os.WriteFile(half, cut[:len(cut)/3], 0o644))
	for _, c := range []struct {
		name, runtime, archive string
		words                  []string
	}{
		{"no OCI runtime", "no-such-crun", good, []string{"no no-such-crun on this host", "apt install crun"}},
		{"none at its path", "/no/such/crun", good, []string{oci.RuntimeEnv, "/no/such/crun"}},
		{"one that may not run", "/etc/passwd", good, []string{oci.RuntimeEnv, "/etc/passwd", "permission denied"}},
		{"one that fails", "/bin/false", good, []string{"/bin/false does not run"}},
		{"another architecture", "", archiveFor(t, foreign), []string{foreign, "linux/" + runtime.GOARCH}},
		{"no archive", "", damaged, []string{damaged, "no archive of images"}},
		{"half an archive", "", half, []string{half, "damaged"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			home, store := t.TempDir(), filepath.Join(t.TempDir(), "images")
			t.Setenv(image.DirEnv, store)
			t.Setenv(oci.RuntimeEnv, c.runtime)
			for _, dry := range []string{"--dry-run", "--dry-run=false"} {
				expect(t, exitHost, c.words, "run", dry, "--runtime", "oci", "--dir", home, "--image",
					"file://"+c.archive, flow)
			}
			for _, pattern := range []string{"layers/*", "images/*", "tmp/*"} {
				if left, _ := filepath.Glob(filepath.Join(store, pattern)); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(home, "*", "control", "oci", "*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A dry run looks for images where the run would, and leaves the store as it is.
func TestADryRunWithoutADaemonLooksIntoTheStore(t *testing.T) {
	needsOCI(t)
	noDocker(t)
	home, store := t.TempDir(), filepath.Join(t.TempDir(), "images")
	t.Setenv(image.DirEnv, store)
	flow := cliTest{t, home}.write("Makeflow", "out:\n\ttrue\n")
	dry := []string{"run", "--dry-run", "--runtime", "oci", "--dir", home, "--image"}
	expect(t, exitOK, []string{"unpack it", "nothing is known of true yet: no prediction"}, append(dry,
		"file://"+archiveFor(t, runtime.GOARCH), flow)...)
	expect(t, exitOK, []string{"pull it"}, append(dry, "registry.invalid/some:1", flow)...)
	expect(t, exitInput, []string{"--pull never", "nothing was started"}, append(dry, "registry.invalid/some:1",
		"--pull", "never", flow)...)
	expect(t, exitInput, []string{"gantry image build"}, append(dry, "gantry/no-such-image", flow)...)
	for _, pattern := range []string{"layers/*", "images/*", "names/*", "uses/*", "tmp/*"} {
		if left, _ := filepath.Glob(filepath.Join(store, pattern)); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

// Where a runtime is not usable, what others left is cleaned all the same.
func TestCleanDoesWhatItCan(t *testing.T) {
	needsOCI(t)
	noDocker(t)
	home := t.TempDir()
	t.Setenv(image.DirEnv, filepath.Join(home, "images"))
	expect(t, exitOK, nil, "clean", "--dir", home)
	expect(t, exitOK, nil, "clean", "--images", "--dir", home)
	t.Setenv(oci.RuntimeEnv, "/no/such/crun")
	expect(t, exitHost, []string{"no runtime is usable"}, "clean", "--dir", home)
}

// The images of a server come with what is handed in, also if it began with an empty store.
func TestAServerWithoutADaemonFetchesImages(t *testing.T) {
	needsOCI(t)
	needsBusybox(t)
	c := cliTest{t, t.TempDir()}
	saved := filepath.Join(c.dir, "image.tar")
	if out, err := exec.Command("docker", "save", "-o", saved, "gantry/busybox").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv(image.DirEnv, filepath.Join(c.dir, "images"))
	noDocker(t)
	dir := filepath.Join(c.dir, "runs")
	flow := c.write("Makeflow", "one.txt:\n\techo one >one.txt; echo loud >&2\n")
	s := serveIn(t, dir, "--runtime", "oci")
	id := s.submit("--image", "docker-archive:"+saved, flow)
	code, out, errs := invoke(t, "wait", "--dir", dir, id)
	if code != exitOK || !strings.Contains(out, "done, 1 of 1") ||
		!strings.Contains(errs, "1 task that succeeded wrote to standard error: Makeflow-1/one.txt: gantry logs "+id) {
		t.Errorf("wait: %d, %s%s", code, out, errs)
	}
	s.drain()
}

// Commands without an image run in that of the server, so that their inputs are looked for. Values of variables may
// have commas.
func TestASubmissionTakesTheImageOfItsServer(t *testing.T) {
	needsOCI(t)
	needsBusybox(t)
	c := cliTest{t, t.TempDir()}
	c.write("in.txt", "in\n")
	flow := c.write("Makeflow", "out.txt: in.txt\n\techo \\$LIST \\$FROM | cat in.txt - in.txt >out.txt\n")
	dir := filepath.Join(c.dir, "runs")
	s := serveIn(t, dir, "--runtime", "oci", "--image", "gantry/busybox")
	id := s.submit("--env", "LIST=a,b", "--env-file", c.write("vars", "FROM=c,d\n"), flow)
	place := filepath.Join(c.dir, "place")
	expect(t, exitOK, []string{"done"}, "wait", "--dir", dir, "--results-dir", place, id)
	if text := readAll(t, filepath.Join(place, "out.txt")); text != "in\na,b c,d\nin\n" {
		t.Errorf("the result has %q", text)
	}
	s.drain()
}
