package docker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gantry/executor/emulate"
	"gantry/planner"
	"gantry/planner/unit"
)

// The checkpoint of an attempt, and the outputs that it wrote whole, stay in its work directory, which nobody removes. The next attempt gets
// them in its own: linked on the same node, and else copied over the link.

// resumeFile is where the checkpoint lies that an emulated task goes on from.
const resumeFile = ".command.resume"

// keep looks for what a preempted attempt left.
func (a *attempt) keep(x *planner.AttemptExited) {
	a.r.mu.Lock()
	lose, grace := a.lose, a.grace
	a.r.mu.Unlock()
	if lose {
		return
	}
	spec, err := a.emulation()
	if err == nil && x.ExitCode == emulate.ExitKept {
		var c *emulate.Checkpoint
		if c, err = readCheckpoint(a.dir, emulate.CheckpointFile, spec); err == nil {
			x.Kept = c.Done(spec)
			x.Message = fmt.Sprintf("left a checkpoint: %.1f %% of the task is done", 100*x.Kept)
			return
		}
	}
	if err == nil {
		err = fmt.Errorf("it left none within the grace time of %v, exit code %d", grace, x.ExitCode)
	}
	x.Message = join(fmt.Sprintf("its work of %v is lost: checkpoint: %v", x.Ran.Round(time.Millisecond), err), x.Message)
}

func readCheckpoint(dir, name string, spec *emulate.Spec) (*emulate.Checkpoint, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return emulate.ReadCheckpoint(f, spec)
}

// bringCheckpoint puts what an earlier attempt left into the work directory. If that is gone or damaged the task begins anew.
func (a *attempt) bringCheckpoint(ctx context.Context) error {
	r, from := a.r, a.l.From
	spec, err := a.emulation()
	if err != nil {
		return err
	}
	dir := r.workDir(a.l.Spec, from.Try)
	c, err := readCheckpoint(dir, emulate.CheckpointFile, spec)
	if err != nil {
		r.warn("checkpoint", fmt.Sprintf("%s begins anew: what try %d left: %v", a, from.Try, err))
		a.note("begins anew: what try %d left: %v", from.Try, err)
		return nil
	}
	moves := from.Node != a.l.Node
	if moves {
		if err := sleep(ctx, r.latency(from.Node, a.l.Node)); err != nil {
			return err
		}
	}
	bring := func(name, to string) error {
		src, dst := filepath.Join(dir, name), filepath.Join(a.dir, to)
		if !moves {
			_ = os.Remove(dst)
			return os.Link(src, dst)
		}
		if err := copyWhole(ctx, dst, r.bandwidth(from.Node, a.l.Node), 0o644, extent{path: src}); err != nil {
			return err
		}
		st, err := os.Lstat(dst)
		if err != nil {
			return err
		}
		a.usage.MovedBytes += unit.Bytes(st.Size())
		return r.user.takes(dst)
	}
	if err := bring(emulate.CheckpointFile, resumeFile); err != nil {
		return fmt.Errorf("checkpoint of try %d: %w", from.Try, err)
	}
	for _, f := range a.l.Spec.Outputs[:c.Outputs] {
		name, err := localName(f.Name)
		if err != nil {
			return err
		}
		if err := bring(name, name); err != nil {
			return fmt.Errorf("output %q of try %d: %w", f.Name, from.Try, err)
		}
	}
	a.resumed = true
	a.note("goes on from the checkpoint of try %d: %.1f %% of the task is done", from.Try, 100*c.Done(spec))
	return nil
}
