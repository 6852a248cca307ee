package docker_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/docker"
	"gantry/executor/container/fetch"
	"gantry/executor/container/oci"
	"gantry/executor/container/oci/image"
	"gantry/planner"
	"gantry/planner/seed/seedtest"
)

func capabilities(t testing.TB) *executor.Capabilities {
	if daemonless(t) {
		return &oci.Capabilities
	}
	return &docker.Capabilities
}

// archiveEnv names an archive of the image busybox, for hosts without a Docker Engine. Tests then take what rights they
// can get without root.
const archiveEnv = "GANTRY_TEST_ARCHIVE"

// store has the image busybox, once fillStore has been called.
var store *image.Store

var fillStore = sync.OnceValues(func() (id string, err error) {
	dir, err := os.MkdirTemp("", "gantry-images")
	if err != nil {
		return "", err
	}
	if store, err = image.Open(dir); err != nil {
		return "", err
	}
	archive := os.Getenv(archiveEnv)
	if archive == "" {
		archive = filepath.Join(dir, "busybox.tar")
		if out, err := exec.Command("docker", "save", "-o", archive, busybox).CombinedOutput(); err != nil {
			return "", fmt.Errorf("docker save: %w: %s", err, out)
		}
	}
	ref := "file://" + archive
	got, err := store.Fetch(context.Background(), image.Fetch{Options: fetch.Options{Pull: "missing"}},
		[]fetch.Wanted{{Ref: ref}})
	if err != nil {
		return "", err
	}
	return got[0].ID, nil
})

func storedBusybox(t testing.TB) string {
	t.Helper()
	id, err := fillStore()
	must(t, err)
	return id
}

func removeStore() {
	if store != nil {
		store.Close()
		os.RemoveAll(store.Dir())
	}
}

// needOCI skips on hosts that cannot run containers without a daemon.
func needOCI(t *testing.T) {
	t.Helper()
	e, err := oci.Open(oci.Config{})
	if err == nil {
		_, err = e.Host(t.Context())
		e.Close()
	}
	if err != nil {
		t.Skipf("needs an OCI runtime: %v", err)
	}
}

// daemonless reports whether the containers of a test are made by an OCI runtime: "oci" is in its name.
func daemonless(t testing.TB) bool { return slices.Contains(strings.Split(t.Name(), "/"), "oci") }

var engines = []string{"docker", "oci"}

// onEach runs a test with the Docker Engine and without a daemon, side by side, and reports whether it is to end then.
func onEach(t *testing.T, test func(*testing.T)) bool { return on(t, test, engines) }

// onOne is onEach for what both engines have in common: the short test takes one of them, which the seed says.
func onOne(t *testing.T, test func(*testing.T)) bool {
	if !testing.Short() {
		return on(t, test, engines)
	}
	n := (seedtest.Part(2) + len(t.Name())) % 2 // half of the tests take each
	return on(t, test, engines[n:n+1])
}

func on(t *testing.T, test func(*testing.T), engines []string) bool {
	if strings.Contains(t.Name(), "/") {
		return false
	}
	t.Parallel()
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			if engine == "oci" {
				needOCI(t)
			}
			test(t)
		})
	}
	return true
}

// onBoth is onEach for tests that compare: one engine after the other.
func onBoth(t *testing.T, test func(t *testing.T, engine string)) {
	t.Helper()
	engine(t)
	needOCI(t)
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) { test(t, engine) })
	}
}

// A container has a way out if its task is to have a network, also without root, and mounts of the host stay.
func TestWaysOut(t *testing.T) {
	if on(t, TestWaysOut, engines[1:]) { // the Docker Engine has a bridge
		return
	}
	if why := oci.NoNetwork(); why != "" {
		t.Skip(why)
	}
	r := newRig(t, func(cfg *container.Config) { cfg.Networks = true })
	inner := filepath.Join(t.TempDir(), "outer", "inner")
	if os.Geteuid() == 0 { // as a host with systemd has them
		for _, at := range []string{filepath.Dir(inner), inner} {
			r.must(errors.Join(os.Mkdir(at, 0o755), unix.Mount("tmpfs", at, "tmpfs", 0, ""),
				unix.Mount("", at, "", unix.MS_SHARED, "")))
			t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		}
		r.must(os.WriteFile(filepath.Join(inner, "there"), nil, 0o644))
	}
	for _, network := range []bool{true, false} {
		task := r.sh("grep -q '^tap0.00000000' /proc/net/route && grep 10.0.2.3 /etc/resolv.conf")
		task.Network = network
		want := planner.ExitCode
		if network {
			want = planner.OK
		}
		r.wants(r.exit(r.launch(task, nil)), want)
	}
	if os.Geteuid() == 0 {
		if _, err := os.Stat(filepath.Join(inner, "there")); err != nil {
			t.Errorf("a mount of the host is gone: %v", err)
		}
	}
}

// A gantry that is killed while it makes a container leaves what is not one yet.
func TestWhatWasBegunIsRemoved(t *testing.T) {
	if on(t, TestWhatWasBegunIsRemoved, engines[1:]) { // the Docker Engine does that
		return
	}
	r := newRig(t, nil)
	begun := filepath.Join(r.config.Dir, "control", "oci", "4711.part")
	r.must(os.MkdirAll(filepath.Dir(begun), 0o700))
	r.must(os.WriteFile(begun, []byte(`{"name":`), 0o600))
	l := r.launched(r.sh("sleep 1"))
	s := r.successor(l)
	if _, err := os.Lstat(begun); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", begun, err)
	}
	s.wants(s.exit(l.Attempt), planner.OK)
}
