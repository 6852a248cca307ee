package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
	"golang.org/x/sys/unix"

	"gantry/cgroup"
	"gantry/executor"
	"gantry/executor/docker/launch"
	"gantry/executor/stage"
	"gantry/planner"
	"gantry/planner/unit"
)

// garbage is what is left of an attempt whose end is logged: its container, its control group, and the note of its publishing; "" for each
// that there is not.
type garbage struct{ container, group, note string }

// throwAway has something removed in the background. r.mu is held.
func (r *Runtime) throwAway(g garbage) {
	r.trash = append(r.trash, g)
	r.dump.Broadcast()
}

// remover removes what is thrown away. Few of it run: removals compete with starts for the engine.
func (r *Runtime) remover() {
	defer r.work.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		for len(r.trash) == 0 && r.ctx.Err() == nil {
			r.dump.Wait()
		}
		if len(r.trash) == 0 {
			return
		}
		g := r.trash[0]
		r.trash = r.trash[1:]
		r.removing++
		r.mu.Unlock()
		r.remove(r.ctx, g)
		r.mu.Lock()
		r.removing--
		r.dump.Broadcast()
	}
}

func (r *Runtime) remove(ctx context.Context, g garbage) {
	gone := true
	if g.container != "" {
		err := r.call(ctx, func(ctx context.Context) error { return removeContainer(ctx, r.cli, g.container) })
		if err != nil && ctx.Err() == nil {
			r.warn("remove", fmt.Sprintf("container %.12s is left: %v (gantry clean removes it later)", g.container, err))
		}
		gone = err == nil
	}
	if g.group != "" {
		if err := r.removeAttemptGroup(g.group, gone); err != nil {
			r.warn("remove-group", err.Error())
		}
	}
	if g.note != "" {
		_ = os.Remove(g.note) // one that stays does no harm: the attempt is over
	}
}

// removeAttemptGroup deletes the control group of an attempt. If its container is gone, what is still in it is an orphan that the engine
// forgot when it was stopped while it started the container: it is killed.
func (r *Runtime) removeAttemptGroup(group string, gone bool) error {
	err := r.tree.Remove(group)
	if err != nil && gone {
		if n := r.tree.Kill(group); n > 0 {
			r.warn("orphan", fmt.Sprintf("%s killed in the control group of a container that the Docker Engine has removed", plural(int64(n), "process was", "processes were")))
			err = r.tree.Remove(group)
		}
	}
	return err
}

// removeContainer removes a container, whatever it does. One that is not there, or is being removed, is no error.
func removeContainer(ctx context.Context, cli *client.Client, id string) error {
	err := cli.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	for try := 0; err != nil && try < 5 && ctx.Err() == nil; try++ {
		if errdefs.IsNotFound(err) {
			return nil
		}
		if unreachable(err) {
			return err
		}
		time.Sleep(100 * time.Millisecond << try) // "removal in progress", "device busy"
		err = cli.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// saveLogs fetches what the emulator said into .command.out and .command.err.
func (a *attempt) saveLogs() {
	stream, err := a.r.cli.ContainerLogs(a.r.ctx, a.id, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		return
	}
	defer stream.Close()
	var stdout, stderr bytes.Buffer // the engine keeps 1 MB
	if _, err := stdcopy.StdCopy(&stdout, &stderr, stream); err != nil {
		return
	}
	_ = stage.Write(a.dir, ".command.out", stdout.String(), 0o644)
	_ = stage.Write(a.dir, ".command.err", stderr.String(), 0o644)
}

// Recover finds what became of attempts of a gantry that ended, see executor.Recoverer.
func (r *Runtime) Recover(ctx context.Context, live []executor.Launch) error {
	found := map[planner.AttemptID]container.Summary{}
	wanted := map[planner.AttemptID]executor.Launch{}
	for _, l := range live {
		wanted[l.Attempt] = l
	}
	var all []container.Summary
	err := r.call(ctx, func(ctx context.Context) (err error) {
		all, err = r.cli.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", LabelHostName+"="+r.name))})
		return err
	})
	if err != nil {
		return fmt.Errorf("recover run %s: list its containers: %w", r.cfg.Run, err)
	}
	for _, c := range all {
		id, err := strconv.Atoi(c.Labels[LabelAttempt])
		l, ok := wanted[planner.AttemptID(id)]
		if err == nil && ok && c.State != container.StateDead {
			began := c.State != container.StateCreated
			if !began {
				if began, err = r.giveUp(l); err != nil {
					return fmt.Errorf("recover run %s: container %.12s: %w", r.cfg.Run, c.ID, err)
				}
			}
			if began {
				found[planner.AttemptID(id)] = c
				continue
			}
		}
		if err := removeContainer(ctx, r.cli, c.ID); err != nil {
			return fmt.Errorf("recover run %s: remove container %.12s: %w", r.cfg.Run, c.ID, err)
		}
	}
	inUse := map[string]bool{} // the control group of an ended attempt still has its counters
	for _, l := range live {
		if _, ok := found[l.Attempt]; ok {
			inUse[r.attemptGroup(l)] = true
		}
	}
	for i := range r.groups {
		for _, name := range r.tree.Children(r.groups[i]) {
			if group := filepath.Join(r.groups[i], name); !inUse[group] {
				_ = r.removeAttemptGroup(group, true) // what does not go now goes with the run
			}
		}
	}
	for _, l := range live {
		a := newAttempt(r, l)
		c, ok := found[l.Attempt]
		r.mu.Lock()
		r.attempts[l.Attempt] = a
		if !ok {
			a.lost("gantry ended while it was under way, and its program had not begun or its container is gone")
			r.mu.Unlock()
			continue
		}
		a.id, a.adopted, a.wantPaused, a.lose = c.ID, true, l.Suspended, l.Leaving == planner.Requeue
		r.work.Add(1)
		r.mu.Unlock()
		go a.adopt()
	}
	return nil
}

// giveUp gives up a container that was listed as made and not begun: to start it would be another decision, and its attempt is lost. But the
// start that the former gantry asked for may still be on its way, so giveUp makes what the program would make before all else, and has the
// program never begin; unless it has begun meanwhile, which giveUp reports.
func (r *Runtime) giveUp(l executor.Launch) (began bool, err error) {
	err = launch.Claim(r.files.WorkDir(l.Spec, l.Try))
	switch {
	case errors.Is(err, fs.ErrExist):
		return true, nil
	case errors.Is(err, fs.ErrNotExist): // without its directory it cannot be started either
		return false, nil
	}
	return false, err
}

// sweep removes containers of the run that no attempt knows: those whose creation was on its way when a former gantry ended.
func (r *Runtime) sweep(ctx context.Context) error {
	all, err := r.cli.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", LabelHostName+"="+r.name))})
	if err != nil {
		return fmt.Errorf("close run %s: list its containers: %w", r.cfg.Run, err)
	}
	for _, c := range all {
		if err := removeContainer(ctx, r.cli, c.ID); err != nil {
			return fmt.Errorf("close run %s: remove container %.12s: %w (gantry clean does it later)", r.cfg.Run, c.ID, err)
		}
	}
	return nil
}

// errNeverBegan tells of a container that was given up by a gantry that ended before it had removed it.
var errNeverBegan = errors.New("the program was not begun")

// lost ends an attempt of which nothing is left. r.mu is held.
func (a *attempt) lost(message string) {
	a.usage.Ended = max(a.l.Queued, a.r.Now())
	a.usage.Missing = planner.CountersAll
	a.end(&planner.AttemptExited{Attempt: a.l.Attempt, Outcome: planner.Lost, ExitCode: -1, Usage: a.usage, Message: message})
}

// adopt goes on with a container that a former gantry started.
func (a *attempt) adopt() {
	r := a.r
	defer r.work.Done()
	defer a.abandon()
	a.group = r.tree.Container(a.parentGroup(), a.id)
	var c inspection
	err := r.call(r.ctx, func(ctx context.Context) (err error) {
		// A program that began is in a container that runs or did, unless the engine itself was killed in the middle.
		for range 50 {
			if c, err = r.inspect(ctx, a.id); err != nil || c.State.Status != container.StateCreated {
				return err
			}
			if err := stage.Sleep(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
		return errNeverBegan
	})
	if r.ctx.Err() != nil {
		return
	}
	if errors.Is(err, errNeverBegan) {
		r.mu.Lock()
		defer r.mu.Unlock()
		a.lost("gantry ended while it was under way, and its program had not begun")
		return
	}
	if err != nil {
		a.notStarted(fmt.Errorf("adopt %s: %w", a, err))
		return
	}
	a.note("adopted by another gantry, container %s", a.id)
	for label, to := range map[string]*unit.Bytes{labelRead: &a.usage.InputBytes, labelCopied: &a.usage.CopiedBytes, labelMoved: &a.usage.MovedBytes} {
		if n, err := strconv.ParseInt(c.Config.Labels[label], 10, 64); err == nil {
			*to = unit.Bytes(n)
		}
	}
	if n, err := strconv.ParseInt(c.Config.Labels[labelStaged], 10, 64); err == nil {
		a.usage.Staged = planner.Time(n)
	}
	if err := r.watcher.Watch(int64(a.l.Attempt), a.group, a.wanted()); err != nil && c.State.Running {
		r.warn("watch", err.Error())
	}
	begun, _ := c.times()
	frozen := c.State.Paused
	if c.State.Running && frozen != a.l.Suspended { // as the log has it, silently
		if a.freeze(a.l.Suspended) == nil {
			frozen = a.l.Suspended
		}
	}
	r.mu.Lock()
	a.paused, a.pausedAt, a.pausedFor = frozen, time.Now(), a.l.Paused
	if frozen && a.l.Suspended {
		a.pausedAt = a.pausedAt.Add(-r.Now().Sub(a.l.Since))
	}
	r.mu.Unlock()
	a.running(begun, c.State.Running)
	a.follow()
}

// Cleaned is what Clean removed.
type Cleaned struct {
	Containers []string // names
	Groups     []string // control groups
	Held       []string // runs that were left alone, as a gantry works on them
	Unknown    []string // control groups that were left alone, as their runs lie in another directory
	Images     []string // of older builds of the task emulator
}

// Clean removes containers and control groups that gantry left on this host, of one run or, if run is "", of all. A run whose lock is
// held is left alone. With all runs go the images of older builds of the task emulator. Control groups do not tell where their run lies: those of runs that are not in dir are left alone too. Log and
// files stay; a run is still resumable then, its unfinished attempts are lost.
func Clean(ctx context.Context, host, dir, run string) (Cleaned, error) {
	var out Cleaned
	cli, err := Connect(ctx, host)
	if err != nil {
		return out, err
	}
	defer cli.Close()
	info, err := cli.Info(ctx)
	if err != nil {
		return out, fmt.Errorf("clean: %w", err)
	}
	tree, err := cgroup.Open(cgroup.Root, info.CgroupDriver == "systemd")
	if err != nil {
		return out, err
	}
	label, only := LabelRun, ""
	if run != "" {
		only = executor.HostName(run, filepath.Join(dir, run))
		label = LabelHostName + "=" + only
	}
	all, err := cli.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", label))})
	if err != nil {
		return out, fmt.Errorf("clean: list containers: %w", err)
	}
	held := map[string]bool{} // by the control group of the run
	look := func(name, runDir string) bool {
		group := tree.Group("gantry", tree.Name(executor.HostName(name, runDir)))
		h, known := held[group]
		if !known {
			h = locked(filepath.Join(runDir, "lock"))
			held[group] = h
			if h && (run == "" || run == name) {
				out.Held = append(out.Held, name)
			}
		}
		return h
	}
	for _, c := range all {
		if look(c.Labels[LabelRun], c.Labels[LabelDir]) {
			continue
		}
		if err := removeContainer(ctx, cli, c.ID); err != nil {
			return out, fmt.Errorf("clean: remove container %.12s: %w", c.ID, err)
		}
		if len(c.Names) > 0 {
			out.Containers = append(out.Containers, strings.TrimPrefix(c.Names[0], "/"))
		}
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			look(e.Name(), filepath.Join(dir, e.Name()))
		}
	}
	top := tree.Group("gantry")
	for _, name := range tree.Children(top) {
		group := filepath.Join(top, name)
		h, known := held[group]
		switch {
		case h || run != "" && group != tree.Group("gantry", tree.Name(only)):
		case !known:
			out.Unknown = append(out.Unknown, group)
		case tree.Empty(group):
			if err := tree.Remove(group); err != nil {
				return out, fmt.Errorf("clean: %w", err)
			}
			out.Groups = append(out.Groups, group)
		}
	}
	removeIfEmpty(tree)
	if run == "" {
		binary, _ := FindTaskBinary() // without one every image is old
		if out.Images, err = removeOldTaskImages(ctx, cli, binary); err != nil {
			return out, fmt.Errorf("clean: %w", err)
		}
	}
	return out, nil
}

// locked reports whether somebody holds the lock file of a run.
func locked(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	return errors.Is(err, unix.EWOULDBLOCK)
}
