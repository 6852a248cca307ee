package docker_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	types "github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"

	"gantry/cgroup"
	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/control"
	"gantry/executor/container/docker"
	"gantry/executor/container/evidence"
	"gantry/planner"
)

// launched is an attempt as the log of a gantry that died would show it.
func (r *rig) launched(spec *executor.TaskSpec) executor.Launch {
	r.t.Helper()
	var l executor.Launch
	a := r.launch(spec, func(x *executor.Launch) { l = *x })
	r.started(a)
	l.Started = true
	return l
}

// allExited waits until all containers of the run have ended.
func (r *rig) allExited(n int) {
	r.t.Helper()
	e := r.engine()
	defer e.Close()
	waitFor(r.t, func() bool {
		all, err := e.List(r.ctx, container.LabelRun, r.config.Run)
		r.must(err)
		return len(all) == n && !slices.ContainsFunc(all, func(c container.Listed) bool {
			return c.Status != evidence.Exited
		})
	})
}

// successor is the gantry that resumes the run.
func (r *rig) successor(live ...executor.Launch) *rig {
	r.t.Helper()
	r.must(r.Close())
	cfg := r.config
	cfg.Offset, cfg.Origin = r.Now(), time.Now()
	s := open(r.t, r.host, cfg)
	s.next, s.files = r.next, r.files
	s.must(s.Recover(s.ctx, live))
	return s
}

func TestRunningContainerIsAdopted(t *testing.T) {
	if onEach(t, TestRunningContainerIsAdopted) {
		return
	}
	r := newRig(t, nil)
	out := r.file("out")
	spec := r.sh("i=0; while [ $i -lt 10 ]; do echo $i >> out; sleep 0.1; i=$((i+1)); done; dd if=/dev/zero of=x "+
		"bs=64k count=16 conv=fsync; echo end", out)
	l := r.launched(spec)
	s := r.successor(l)
	if got := r.containers(); len(got) != 1 {
		t.Fatalf("containers %v: not the one that ran", got)
	}
	x := s.exit(l.Attempt)
	s.wants(x, planner.OK)
	if slices.Contains(s.seen, planner.Body(planner.AttemptStarted{Attempt: l.Attempt})) {
		t.Error("told as started a second time")
	}
	if got := strings.Count(s.read(s.node(0, "out")), "\n"); got != 10 {
		t.Errorf("%d lines of output, not 10: begun again?", got)
	}
	if got := s.read(filepath.Join(s.work(spec), ".command.out")); got != "end\n" {
		t.Errorf("standard output %q", got)
	}
	if x.Ran < 900*time.Millisecond {
		t.Errorf("ran %v, though it sleeps for 1 s", x.Ran)
	}
	// On cgroup v1 a sync of another test may write the data first, in its own name.
	if x.Usage.Missing == 0 && (x.Usage.WrittenBytes == 0 && x.Usage.WriteOps == 0 ||
		x.Usage.CPUUser+x.Usage.CPUSystem == 0) {
		t.Errorf("counters of an adopted container: %+v", x.Usage)
	}
}

func TestContainerThatEndedMeanwhileIsHarvested(t *testing.T) {
	if onOne(t, TestContainerThatEndedMeanwhileIsHarvested) {
		return
	}
	r := newRig(t, nil)
	out := r.file("out")
	good := r.launched(r.sh("until [ -e released ]; do sleep 0.1; done; echo content > out", out))
	fails := r.sh("until [ -e released ]; do sleep 0.1; done; exit 9")
	bad := r.launched(fails)
	bad.Started = false // gantry died before it noted the start
	r.must(r.Close())
	r.release(good.Spec)
	r.release(fails)
	r.allExited(2)
	s := r.successor(good, bad)
	s.wants(s.exit(good.Attempt), planner.OK)
	x := s.exit(bad.Attempt)
	s.wants(x, planner.ExitCode, "exit code 9")
	if !slices.Contains(s.seen, planner.Body(planner.AttemptStarted{Attempt: bad.Attempt})) {
		t.Error("its start was never told")
	}
	if got := s.read(s.node(0, "out")); got != "content\n" {
		t.Errorf("output %q", got)
	}
	if os.Geteuid() == 0 && (x.Usage.Missing&planner.CounterCPU != 0 || x.Usage.CPUUser+x.Usage.CPUSystem == 0) {
		t.Errorf("its control group still had the CPU time: %+v", x.Usage)
	}
}

func TestWhatIsNotWantedIsRemovedAndWhatIsGoneIsLost(t *testing.T) {
	if onOne(t, TestWhatIsNotWantedIsRemovedAndWhatIsGoneIsLost) {
		return
	}
	r := newRig(t, nil)
	stray := r.launched(r.sh("sleep 300"))
	gone := executor.Launch{Attempt: 77, Try: 1, Spec: r.sh("true"), Hold: stray.Hold}
	s := r.successor(gone)
	if got := r.containers(); len(got) != 0 {
		t.Errorf("containers %v are left", got)
	}
	s.wants(s.exit(77), planner.Lost)
}

func TestSuspensionOutlivesGantry(t *testing.T) {
	if onOne(t, TestSuspensionOutlivesGantry) {
		return
	}
	r := newRig(t, nil)
	spec := r.sh("until [ -e go ]; do sleep 0.05; done; touch went; until [ -e released ]; do sleep 0.05; done")
	l := r.launched(spec)
	r.must(r.Suspend(r.ctx, l.Attempt))
	r.until(func(b planner.Body) bool { return b == planner.AttemptSuspended{Attempt: l.Attempt} })
	l.Suspended = true
	r.must(os.WriteFile(filepath.Join(r.work(spec), "go"), nil, 0o644))
	s := r.successor(l)
	if bodies, err := s.Next(s.ctx, s.Now().Add(time.Second)); err != nil || len(bodies) > 0 {
		t.Fatalf("%v, %v, though it is suspended", bodies, err)
	}
	if _, err := os.Lstat(filepath.Join(r.work(spec), "went")); err == nil {
		t.Error("it went on, though it is suspended")
	}
	s.must(s.Resume(s.ctx, l.Attempt))
	s.until(func(b planner.Body) bool { return b == planner.AttemptResumed{Attempt: l.Attempt} })
	s.made(spec, "went")
	s.release(spec)
	s.wants(s.exit(l.Attempt), planner.OK)
}

// What others do to a container with Docker's own commands is recognised, and nothing of it is taken for the program's
// doing.
func TestWhatOthersDoIsRecognised(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	cli, err := docker.Connect(r.ctx, "")
	r.must(err)
	defer cli.Close()
	name := func(a planner.AttemptID) string {
		return "gantry-" + executor.HostName(r.config.Run, r.config.Dir) + "-a" + strconv.Itoa(int(a))
	}
	soon, patient := 1, 60
	for _, c := range []struct {
		what, script string
		do           func(name string) error
		outcome      planner.Outcome
		says         string
	}{
		{"stop", "touch ready; sleep 300", func(n string) error {
			return cli.ContainerStop(r.ctx, n,
				types.StopOptions{Timeout: &soon})
		}, planner.Killed, "docker stop"},
		{"stop of one that cleans up", "trap 'exit 4' TERM; touch ready; sleep 300 & wait", func(n string) error {
			return cli.ContainerStop(r.ctx, n, types.StopOptions{Timeout: &patient})
		}, planner.Killed, "exit code 4, after SIGTERM from outside"},
		{"kill", "touch ready; sleep 300", func(n string) error {
			return cli.ContainerKill(r.ctx, n, "KILL")
		}, planner.Killed, "SIGKILL"},
		{"restart", "touch ready; sleep 300", func(n string) error {
			return cli.ContainerRestart(r.ctx, n,
				types.StopOptions{Timeout: &soon})
		}, planner.Killed, "from outside"},
		{"rm", "touch ready; sleep 300", func(n string) error {
			return cli.ContainerRemove(r.ctx, n,
				types.RemoveOptions{Force: true})
		}, planner.Killed, ""},
		{"pause", "touch ready; sleep 300", func(n string) error {
			return cli.ContainerPause(r.ctx, n)
		}, planner.Killed, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := r.sh(c.script)
			a := r.launch(s, nil)
			r.started(a)
			r.made(s, "ready")
			r.must(c.do(name(a)))
			if c.what == "pause" { // a paused task can be ended
				r.must(r.Kill(r.ctx, a, planner.Killed, 0))
			}
			r.wants(r.exit(a), c.outcome, c.says)
		})
	}
}

func TestPublishingGoesOnAfterACrash(t *testing.T) {
	if onOne(t, TestPublishingGoesOnAfterACrash) {
		return
	}
	r := newRig(t, nil)
	first, second := r.file("first"), r.file("second")
	spec := r.sh("echo 1 > first; echo 2 > second; until [ -e released ]; do sleep 0.1; done", first, second)
	l := r.launched(spec)
	r.must(r.Close())
	r.release(spec)
	r.allExited(1)
	// As a gantry leaves it that dies between two renames.
	r.must(os.WriteFile(filepath.Join(r.config.Dir, "control", "a0", "publishing"), nil, 0o644))
	r.must(os.Rename(filepath.Join(r.work(spec), "first"), r.node(0, "first")))
	s := r.successor(l)
	s.wants(s.exit(l.Attempt), planner.OK)
	if a, b := s.read(s.node(0, "first")), s.read(s.node(0, "second")); a != "1\n" || b != "2\n" {
		t.Errorf("outputs %q and %q", a, b)
	}
}

func TestCleanLeavesHeldRunsAlone(t *testing.T) {
	if onOne(t, TestCleanLeavesHeldRunsAlone) {
		return
	}
	r := newRig(t, nil)
	l := r.launched(r.sh("sleep 300"))
	lock, err := os.Create(filepath.Join(r.config.Dir, "lock"))
	r.must(err)
	defer lock.Close()
	r.must(unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	base := filepath.Dir(r.config.Dir)
	c, err := container.Clean(r.ctx, r.engine(), base, r.config.Run, true)
	r.must(err)
	if len(c.Containers) > 0 || !slices.Contains(c.Held, r.config.Run) {
		t.Errorf("cleaned %+v, though a gantry works on it", c)
	}
	r.must(unix.Flock(int(lock.Fd()), unix.LOCK_UN))
	c, err = container.Clean(r.ctx, r.engine(), base, r.config.Run, true)
	r.must(err)
	if len(c.Containers) != 1 || len(r.containers()) != 0 {
		t.Errorf("cleaned %+v", c)
	}
	// Whether the runtime sees its end before it is gone is a matter of luck.
	if x := r.exit(l.Attempt); x.Outcome != planner.Killed && x.Outcome != planner.Lost {
		t.Errorf("%v: %s", x.Outcome, x.Message)
	}
}

// A run of the same name in another directory keeps its container and control group.
func TestCleanLeavesARunOfTheSameNameAlone(t *testing.T) {
	t.Parallel()
	engine(t)
	cli, err := docker.Connect(t.Context(), "")
	must(t, err)
	defer cli.Close()
	info, err := cli.Info(t.Context())
	must(t, err)
	tree, err := cgroup.Open(cgroup.Root, info.CgroupDriver == "systemd")
	must(t, err)
	base, run := t.TempDir(), fmt.Sprintf("kept-%x", time.Now().UnixNano()&0xffffff)
	leave := func(base string) (name, group string) {
		dir := filepath.Join(base, run)
		onHost, files := executor.HostName(run, dir), filepath.Join(dir, "control", "a3")
		labels := map[string]string{container.LabelRun: run, container.LabelDir: dir, container.LabelAttempt: "3",
			container.LabelHostName: onHost, container.LabelControl: files}
		must(t, os.MkdirAll(files, 0o755))
		group = tree.Group("gantry", tree.Name(onHost))
		if err := tree.Create(tree.Group("gantry", tree.Name(onHost), "n0"), cgroup.Limits{}); err != nil {
			t.Skipf("needs to make control groups, as root: %v", err)
		}
		parent := tree.Group("gantry", tree.Name(onHost), "n0", "a3")
		must(t, tree.Make(parent))
		name = fmt.Sprintf("gantry-%s-a3", onHost)
		made, err := cli.ContainerCreate(t.Context(), &types.Config{Image: busybox, Labels: labels,
			Cmd: []string{"sleep", "300"}, NetworkDisabled: true},
			&types.HostConfig{Resources: types.Resources{CgroupParent: tree.Parent(parent)}},
			nil, nil, name)
		must(t, err)
		must(t, cli.ContainerStart(t.Context(), made.ID, types.StartOptions{}))
		return name, group
	}
	name, group := leave(base)
	other, otherGroup := leave(t.TempDir())
	got, err := container.Clean(t.Context(), (&rig{t: t}).engine(), base, run, true)
	must(t, err)
	if !slices.Equal(got.Containers, []string{name}) || !slices.Equal(got.Groups, []string{group}) {
		t.Errorf("removed containers %v and control groups %v", got.Containers, got.Groups)
	}
	left := (&rig{t: t, config: container.Config{Run: run}}).containers()
	if !slices.Equal(left, []string{other}) {
		t.Errorf("containers %v are left", left)
	}
	if err := cli.ContainerRemove(t.Context(), other, types.RemoveOptions{Force: true}); err != nil {
		t.Error(err)
	}
	if err := tree.Remove(otherGroup); err != nil {
		t.Error(err)
	}
}

// lister is an engine that does something once its containers were listed.
type lister struct {
	container.Engine
	then func()
}

func (l *lister) List(ctx context.Context, label, value string) ([]container.Listed, error) {
	all, err := l.Engine.List(ctx, label, value)
	if l.then != nil {
		l.then()
		l.then = nil
	}
	return all, err
}

// The Docker Engine still makes a container for a gantry that was killed: clean removes it, too.
func TestCleanWaitsForAContainerInTheMaking(t *testing.T) {
	t.Parallel()
	engine(t)
	cli, err := docker.Connect(t.Context(), "")
	must(t, err)
	defer cli.Close()
	base, run := t.TempDir(), fmt.Sprintf("late-%x", time.Now().UnixNano()&0xffffff)
	ctl := control.Dir(filepath.Join(base, run, "control", "a3"))
	must(t, os.MkdirAll(filepath.Dir(string(ctl)), 0o755))
	must(t, ctl.Make(false))
	name := "gantry-" + run + "-a3"
	e := &lister{Engine: (&rig{t: t}).engine(), then: func() {
		labels := map[string]string{container.LabelRun: run, container.LabelDir: filepath.Join(base, run),
			container.LabelControl: string(ctl)}
		if _, err := cli.ContainerCreate(t.Context(), &types.Config{Image: busybox, Labels: labels},
			&types.HostConfig{}, nil, nil, name); err != nil {
			t.Error(err)
		}
	}}
	got, err := container.Clean(t.Context(), e, base, run, true)
	if err != nil || !slices.Equal(got.Containers, []string{name}) {
		t.Errorf("removed containers %v, %v", got.Containers, err)
	}
	if left := (&rig{t: t, config: container.Config{Run: run}}).containers(); len(left) > 0 {
		t.Errorf("containers %v are left", left)
	}
}

func TestEngineGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	r := newRigAt(t, g.host, nil)
	endures, dies := r.launched(r.sh("until [ -e released ]; do sleep 0.1; done")), r.launched(r.sh("sleep 300"))
	g.server.Close()
	waits := r.launch(r.sh("true"), nil)
	r.must(r.Suspend(r.ctx, 999))
	// The engine takes a container along.
	if out, err := exec.Command("docker", "kill", "gantry-"+executor.HostName(r.config.Run,
		r.config.Dir)+"-a1").CombinedOutput(); err != nil {
		t.Skipf("needs the docker command: %v %s", err, out)
	}
	waitFor(t, func() bool { return slices.ContainsFunc(r.warnings(), func(string) bool { return true }) })
	r.release(endures.Spec)
	g.up(t)
	r.wants(r.exit(dies.Attempt), planner.Lost, "Docker Engine was stopped")
	r.wants(r.exit(waits), planner.OK)
	r.wants(r.exit(endures.Attempt), planner.OK)
	if r.warned["docker-away"] == "" {
		t.Error("nobody was told that the engine is away")
	}
	r.must(r.Close())
}

func TestUnusableEngineSaysWhatToDo(t *testing.T) {
	t.Parallel()
	_, err := docker.Connect(context.Background(), "unix://"+filepath.Join(t.TempDir(), "none.sock"))
	if err == nil || !strings.Contains(err.Error(), "gantry setup") {
		t.Errorf("error %v", err)
	}
}

func TestFullDiskEndsTheAttempt(t *testing.T) {
	t.Parallel()
	engine(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("needs to mount a small file system: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	must(t, os.Mkdir(filepath.Join(dir, "run"), 0o755))
	r := newRig(t, func(c *container.Config) { c.Dir = filepath.Join(dir, "run") })
	f := r.file("big")
	f.Produced, f.Size, f.Sized = false, 4<<20, true
	s := r.sh("true")
	s.Inputs = []*executor.FileSpec{f}
	r.wants(r.exit(r.launch(s, nil)), planner.HostError, "no space left", "free space")
	// A node's file system without a disk of its own: told, not hidden.
	strict := r.config
	strict.Strict, strict.IO = true, []container.IOLimits{{ReadBps: 1 << 20}}
	if _, err := docker.New(r.ctx, r.host, strict); err == nil || !strings.Contains(err.Error(), "block device") {
		t.Errorf("strict: %v", err)
	}
}

// Nobody keeps people from giving one name to runs in two directories: neither takes the other's containers away.
func TestRunsOfOneNameInTwoDirectories(t *testing.T) {
	if onOne(t, TestRunsOfOneNameInTwoDirectories) {
		return
	}
	first := newRig(t, nil)
	long := first.launched(first.sh("until [ -e released ]; do sleep 0.1; done"))
	second := newRig(t, func(c *container.Config) { c.Run = first.config.Run })
	short := second.launched(second.sh("true"))
	second.wants(second.exit(short.Attempt), planner.OK)
	second.must(second.Forget(second.ctx, short.Attempt))
	second.must(second.Close())
	first.release(long.Spec)
	first.wants(first.exit(long.Attempt), planner.OK)
}

// An engine that is stopped while it starts a container can forget what it had begun: that is not left in the control
// group.
func TestOrphanOfTheEngineIsKilled(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make control groups")
	}
	r := newRig(t, nil)
	a := r.launch(r.sh("true"), nil)
	r.until(func(b planner.Body) bool { x, ok := b.(*planner.AttemptExited); return ok && x.Attempt == a })
	cli, err := docker.Connect(r.ctx, "")
	r.must(err)
	defer cli.Close()
	info, err := cli.Info(r.ctx)
	r.must(err)
	tree, err := cgroup.Open(cgroup.Root, info.CgroupDriver == "systemd")
	r.must(err)
	group := tree.Dir("cpu",
		filepath.Join(tree.Group("gantry", tree.Name(executor.HostName(r.config.Run, r.config.Dir)), tree.Name("n0"),
			"a0"), "orphan"))
	r.must(os.MkdirAll(group, 0o755))
	orphan := exec.Command("sleep", "300")
	r.must(orphan.Start())
	r.must(os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(orphan.Process.Pid)), 0o644))
	r.must(r.Forget(r.ctx, a))
	if _ = orphan.Wait(); orphan.ProcessState.ExitCode() != -1 {
		t.Errorf("it was not killed: %v", orphan.ProcessState)
	}
	r.must(r.Close())
	if r.warned["orphan"] == "" {
		t.Errorf("warnings %q", r.warned)
	}
	if _, err := os.Stat(group); err == nil {
		t.Errorf("%s is left", group)
	}
}
