package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gantry/cgroup"
	"gantry/executor"
	"gantry/executor/container/control"
	"gantry/executor/container/evidence"
	"gantry/executor/container/fault"
	"gantry/executor/container/stage"
	"gantry/executor/lock"
	"gantry/planner"
)

// garbage names the remains of an attempt whose end is logged; "" stands for each that is absent.
type garbage struct {
	attempt          planner.AttemptID
	container, group string
	control          control.Dir
}

// garbage names the remains of an attempt that has ended. An engine whose answer did not come may have made its
// container.
func (a *attempt) garbage() garbage {
	return garbage{attempt: a.l.Attempt, container: cmp.Or(a.id, a.asked), group: a.parent, control: a.ctl}
}

// throwAway has something removed in the background. r.mu is held.
func (r *Runtime) throwAway(g garbage) {
	r.trash = append(r.trash, g)
	r.dump.Broadcast()
}

// remover removes the trash. Few removers run: removals compete with starts for the engine.
func (r *Runtime) remover() {
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
		r.reached(g.attempt, executor.Removed)
		r.mu.Lock()
		r.removing--
		r.dump.Broadcast()
	}
}

func (r *Runtime) remove(ctx context.Context, g garbage) {
	gone := true
	if g.container != "" {
		err := r.call(ctx, func(ctx context.Context) error {
			return fault.Do("remove", func() error { return r.engine.Remove(ctx, g.container) })
		})
		if err != nil && ctx.Err() == nil {
			r.warn("remove", fmt.Sprintf("container %.12s is left: %v (gantry clean removes it later)", g.container,
				err))
		}
		gone = err == nil
	}
	if g.group != "" {
		if err := fault.Do("remove-group", func() error { return r.removeAttemptGroup(g.group, gone) }); err != nil {
			r.warn("remove-group", err.Error())
		}
	}
	if g.control != "" && gone {
		err := fault.Do("forget", func() error { return stage.RemoveAll(string(g.control)) })
		if err != nil {
			r.warn("remove-control", err.Error())
		}
	}
}

// removeAttemptGroup deletes the control group of an attempt. If its container is gone, a process still in the group is
// an orphan that the engine forgot when it was stopped while it started the container: it is killed.
func (r *Runtime) removeAttemptGroup(group string, gone bool) error {
	err := r.tree.Remove(group)
	if err != nil && gone {
		if n := r.tree.Kill(group); n > 0 {
			r.warn("orphan", fmt.Sprintf("%s killed in the control group of a container that the %s has "+
				"removed", evidence.Plural(int64(n), "process was", "processes were"), r.host.Engine))
			err = r.tree.Remove(group)
		}
	}
	return err
}

// sweep removes containers of the run that no attempt knows: those whose creation was on its way when a former gantry
// ended.
func (r *Runtime) sweep(ctx context.Context) error {
	return r.call(ctx, func(ctx context.Context) error {
		all, err := r.engine.List(ctx, LabelHostName, r.name)
		if err != nil {
			return fmt.Errorf("close run %s: list its containers: %w", r.cfg.Run, err)
		}
		for _, c := range all {
			if err := r.engine.Remove(ctx, c.ID); err != nil {
				return r.left(c.ID, err)
			}
		}
		return nil
	})
}

// left says that the engine does not remove a container that is over.
func (r *Runtime) left(id string, err error) error {
	return fmt.Errorf("close run %s: container %.12s is over and the %s does not remove it: %w (restart that, and "+
		"gantry resume or gantry clean removes it)", r.cfg.Run, id, r.host.Engine, err)
}

// discardAll kills containers and removes them, and returns the attempts whose programs had succeeded by then.
func (r *Runtime) discardAll(ctx context.Context, attempts []*attempt) (left []*attempt, err error) {
	for _, a := range attempts {
		_ = a.ctl.Ask(uint8(planner.Preempted), "SIGKILL") // lost on a full disk: then a resumed run does not know
		_ = r.engine.Signal(ctx, a.id, "SIGKILL")          // it may have ended
		if c, err := r.engine.Inspect(ctx, a.id); err == nil && c.Status == evidence.Exited && c.ExitCode == 0 {
			left = append(left, a)
			continue
		}
		_ = a.ctl.Ask(uint8(planner.Preempted), control.Remove)
		if err := r.engine.Remove(ctx, a.id); err != nil {
			return left, fmt.Errorf("close run %s: remove container %.12s: %w (gantry clean does it later)", r.cfg.Run,
				a.id, err)
		}
	}
	return left, nil
}

// Cleaned lists the things that Clean removed or left alone.
type Cleaned struct {
	Containers []string // names
	Groups     []string // control groups
	Held       []string // runs that were left alone, as a gantry works on them
	Unknown    []string // control groups that were left alone, as their runs lie in another directory
}

// Add adds the things that another Clean removed or left alone.
func (c *Cleaned) Add(other Cleaned) {
	for _, x := range []struct{ to, of *[]string }{{&c.Containers, &other.Containers}, {&c.Groups, &other.Groups},
		{&c.Held, &other.Held}, {&c.Unknown, &other.Unknown}} {
		*x.to = slices.Compact(slices.Sorted(slices.Values(append(*x.to, *x.of...))))
	}
}

// makes is how long an engine may take to make a container for a gantry that was killed meanwhile.
const makes = 10 * time.Second

// inTheMaking reports whether an engine may still make a container for an attempt of a run that nobody works on: the
// attempt has had a control directory for a short time only, no program was begun, and no container was removed.
func inTheMaking(runDir string) bool {
	dirs, _ := os.ReadDir(filepath.Join(runDir, "control"))
	return slices.ContainsFunc(dirs, func(e os.DirEntry) bool {
		info, err := e.Info()
		if err != nil || !e.IsDir() || time.Since(info.ModTime()) > makes {
			return false
		}
		dir := control.Dir(filepath.Join(runDir, "control", e.Name()))
		if by, _, err := dir.Claimed(); err != nil || by != control.Nobody {
			return false
		}
		_, removed, err := dir.Asked()
		return err == nil && !removed
	})
}

// Clean removes containers, control groups and files of secrets that gantry left on this host, of one run or, if run
// is "", of all. A run whose lock is held is left alone. Control groups do not show where their run lies: those of
// runs that are not in dir are left alone too, and so are their secrets. Log and files stay; a run is still resumable
// then, its unfinished attempts are lost. With waits it looks again as long as the engine may still make a container
// for a gantry that was killed: runs of another engine need no wait.
func Clean(ctx context.Context, engine Engine, dir, run string, waits bool) (Cleaned, error) {
	var out Cleaned
	defer engine.Close()
	host, err := engine.Host(ctx)
	if err != nil {
		return out, fmt.Errorf("clean: %w", err)
	}
	tree, err := cgroup.Open(cmp.Or(host.Groups, cgroup.Root), host.Systemd)
	if err != nil {
		return out, err
	}
	held := map[string]bool{} // by the control group of the run
	look := func(name, runDir string) bool {
		group := tree.Group("gantry", tree.Name(executor.HostName(name, runDir)))
		h, known := held[group]
		if !known {
			h = lock.OfRun(runDir)
			held[group] = h
			if h && (run == "" || run == name) {
				out.Held = append(out.Held, name)
			}
		}
		return h
	}
	entries, _ := os.ReadDir(dir)
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !e.IsDir() || run != "" && run != e.Name() })
	if _, alone := engine.(Tidier); alone { // it makes no container once gantry has ended
		waits = false
	}
	for {
		all, err := engine.List(ctx, LabelRun, run)
		if err != nil {
			return out, fmt.Errorf("clean: list containers: %w", err)
		}
		for _, c := range all {
			runDir := c.Labels[LabelDir]
			if look(c.Labels[LabelRun], runDir) || run != "" && runDir != filepath.Join(dir, run) {
				continue
			}
			if dir := control.Dir(c.Labels[LabelControl]); dir != "" {
				_ = dir.Ask(0, control.Remove) // it is gone if the attempt's end was logged
			}
			if err := engine.Remove(ctx, c.ID); err != nil {
				return out, fmt.Errorf("clean: remove container %.12s: %w", c.ID, err)
			}
			out.Containers = append(out.Containers, c.Name)
		}
		if !waits || !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
			runDir := filepath.Join(dir, e.Name())
			return !look(e.Name(), runDir) && inTheMaking(runDir)
		}) {
			break
		}
		if stage.Sleep(ctx, 100*time.Millisecond) != nil {
			return out, fmt.Errorf("clean: %w", context.Cause(ctx))
		}
	}
	for _, e := range entries {
		if look(e.Name(), filepath.Join(dir, e.Name())) {
			continue
		}
		host := executor.HostName(e.Name(), filepath.Join(dir, e.Name()))
		if err := errors.Join(os.RemoveAll(secretDirOf(host)), os.RemoveAll(submittedDirOf(host))); err != nil {
			return out, fmt.Errorf("clean: remove the secrets of run %s: %w", e.Name(), err)
		}
	}
	wanted := tree.Group("gantry", tree.Name(executor.HostName(run, filepath.Join(dir, run))))
	top := tree.Group("gantry")
	for _, name := range tree.Children(top) {
		group := filepath.Join(top, name)
		h, known := held[group]
		switch {
		case h || run != "" && group != wanted:
		case !known:
			out.Unknown = append(out.Unknown, group)
		case tree.Empty(group):
			if err := tree.Remove(group); err != nil {
				return out, fmt.Errorf("clean: %w", err)
			}
			out.Groups = append(out.Groups, group)
		}
	}
	tree.RemoveEmpty(top)
	return out, nil
}
