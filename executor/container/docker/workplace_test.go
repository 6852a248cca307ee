package docker_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/stage"
	"gantry/planner"
)

// meddled is an engine beside which somebody else does something.
type meddled struct {
	container.Engine
	before func()
}

func (m meddled) Create(ctx context.Context, s *container.Spec) (string, error) {
	m.before()
	return m.Engine.Create(ctx, s)
}

// A task may work in a directory of the host. It can write to nothing else there, and does not see the runs.
func TestATaskWorksInADirectoryOfTheHost(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, _ string) {
		r := newRig(t, nil)
		runs := filepath.Dir(r.config.Dir)
		place := filepath.Dir(runs) // the gantry directory is in it
		own := stage.ProgramUser()
		r.must(os.Chown(place, own.UID, own.GID))
		r.must(os.WriteFile(filepath.Join(runs, "gantry.sqlite"), []byte("the log"), 0o666))
		r.must(os.Chmod(runs, 0o777))
		s := r.sh("cd " + place + " && echo done >made && mkdir -p sub && echo two >sub/two && ls " + runs +
			" >seen; touch " + runs + "/x ../beside; true")
		s.Mounts = []string{executor.InPlace(place, true)}
		r.wants(r.exit(r.launch(s, nil)), planner.OK)
		if got := r.read(filepath.Join(place, "made")) + r.read(filepath.Join(place, "sub/two")); got != "done\ntwo\n" {
			t.Errorf("the directory has %q", got)
		}
		if got, want := r.read(filepath.Join(place, "seen")), filepath.Base(r.config.Dir)+"\n"; got != want {
			t.Errorf("the task sees %q in the gantry directory; want %q, where its own files are", got, want)
		}

		for _, path := range []string{filepath.Join(filepath.Dir(place), "beside"), filepath.Join(runs, "x")} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("the task wrote %s", path) // and not in the memory of its container
			}
		}

		r.must(os.Rename(filepath.Join(place, "sub"), filepath.Join(place, "moved")))
		r.must(os.Symlink("/etc", filepath.Join(place, "sub")))
		s = r.sh("true")
		s.Mounts = []string{executor.InPlace(filepath.Join(place, "sub"), true)}
		r.wants(r.exit(r.launch(s, nil)), planner.HostError, "link")
	})
}

// A directory that is exchanged between the check and the making of the container is not written to.
func TestADirectoryOfTheHostIsNotExchanged(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, _ string) {
		own := stage.ProgramUser()
		top := t.TempDir()
		place, other := filepath.Join(top, "place"), filepath.Join(top, "other")
		r := open(t, "", settings(t, nil), func(e container.Engine) container.Engine {
			return meddled{e, func() {
				if os.Rename(place, place+"-moved") == nil {
					_ = os.Symlink(other, place)
				}
			}}
		})
		r.must(os.Chmod(filepath.Dir(top), 0o755))
		for _, dir := range []string{place, other} {
			r.must(os.Mkdir(dir, 0o755))
			r.must(os.Chown(dir, own.UID, own.GID))
		}
		s := r.sh("touch " + place + "/written")
		s.Mounts = []string{executor.InPlace(place, true)}
		r.wants(r.exit(r.launch(s, nil)), planner.HostError, "never began")
		for _, dir := range []string{place + "-moved", other} {
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("%s: %v, %v", dir, entries, err)
			}
		}
	})
}

// No place for another mount is made in a directory of the host, which the container has in the place of its own.
func TestNothingIsMadeInADirectoryOfTheHost(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, engine string) {
		r := newRig(t, func(c *container.Config) { c.Secrets = map[string]string{"S": "value"} })
		for _, at := range []string{"/etc", "/run", filepath.Dir(r.config.Dir)} {
			dir := t.TempDir()
			s := r.sh("true")
			s.Mounts = []string{dir + ":" + at}
			x := r.exit(r.launch(s, nil))
			r.wants(x, planner.HostError)
			if why := "a mount (" + at + ") hides"; engine == "oci" && (!x.Final || !strings.Contains(x.Message, why)) {
				t.Errorf("%s: want %q, and no other try: %s", at, why, x.Message)
			}
			if made, err := os.ReadDir(dir); len(made) > 0 || err != nil {
				t.Errorf("%s: %v was made in the directory of the host: %v", at, made, err)
			}
		}
	})
}
