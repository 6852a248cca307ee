package container

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"gantry/executor"
	"gantry/executor/container/evidence"
	"gantry/executor/container/stage"
	"gantry/executor/emulate"
	"gantry/planner"
)

// stage makes the work directory, with all inputs and the command of the task.
func (a *attempt) stage(ctx context.Context) error {
	r, t := a.r, a.l.Spec
	switch {
	case !a.emulated() && t.Image == "":
		return errors.New("it has a command but no image: name one with --image")
	case r.cfg.TaskBinary == "":
		return errors.New("the task emulator's binary, which starts commands, was not found (make build)")
	}
	var spec *emulate.Spec
	var err error
	if a.emulated() {
		if spec, err = a.emulation(); err != nil {
			return err
		}
	}
	fill := r.files.Stage
	if a.ticket != "" {
		fill = r.files.Fill // the container has the directories
	}
	did, err := fill(ctx, &a.l, spec)
	if err != nil {
		return err
	}
	a.read, a.copied, a.usage.MovedBytes = did.Read, did.Copied, did.Moved
	if did.Note != "" {
		r.warn("checkpoint", fmt.Sprintf("%s %s", a, did.Note))
		a.say("%s", did.Note)
	}
	if did.Resumed != nil {
		a.say("continues from the checkpoint of try %d: %.1f %% of the task is done", a.l.From.Try,
			100*did.Resumed.Done(spec))
	}
	return a.as(func() error { return a.writeCommand(spec, did.Resumed != nil) })
}

// writeCommand writes the command of the task, and the specification of an emulated one, to the work directory.
func (a *attempt) writeCommand(spec *emulate.Spec, resumed bool) error {
	if spec != nil {
		if resumed {
			spec.From = stage.ResumeFile
		}
		if err := spec.Write(filepath.Join(a.dir, specFile)); err != nil {
			return err
		}
	}
	return stage.Write(a.dir, scriptFile, Script(a.l.Spec), 0o755)
}

// keep looks for the checkpoint of a preempted attempt.
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
		if err = a.as(func() (err error) {
			c, err = stage.Checkpoint(a.dir, spec)
			return err
		}); err == nil {
			x.Kept = c.Done(spec)
			x.Message = fmt.Sprintf("left a checkpoint: %.1f %% of the task is done", 100*x.Kept)
			return
		}
	}
	if err == nil {
		err = fmt.Errorf("it left none within the grace time of %v, exit code %d", grace, x.ExitCode)
	}
	x.Message = evidence.Join(fmt.Sprintf("its work of %v is lost: checkpoint: %v", x.Ran.Round(time.Millisecond), err),
		x.Message)
}

// Copy brings a file to a node in the background.
func (r *Runtime) Copy(_ context.Context, c executor.Copy) error {
	if c.Workflow == nil {
		return fmt.Errorf("copy file %q: its workflow is not known", c.Spec.Name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return errors.New("the runtime is closed")
	}
	r.work.Go(func() {
		for {
			_, err := r.files.Copy(r.ctx, c.Spec, c.Workflow, c.From, c.To)
			if err == nil {
				r.mu.Lock()
				r.emit(planner.FileAppeared{File: c.File, Node: c.To})
				r.mu.Unlock()
				return
			}
			if r.ctx.Err() != nil {
				return
			}
			r.warn("copy", explain(err)+": gantry tries again")
			if stage.Sleep(r.ctx, time.Second) != nil {
				return
			}
		}
	})
	return nil
}
