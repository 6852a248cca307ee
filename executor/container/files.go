package container

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/executor/emulate"
	"gantry/planner"
	"gantry/trace/shown"
)

// stage makes the work directory, with all inputs and the command of the task.
func (a *place) stage(ctx context.Context) error {
	r, t := a.r, a.l.Spec
	switch {
	case !t.Emulated() && t.Image == "":
		return errors.New("it has a command but no image: name one with --image")
	case r.cfg.TaskBinary == "":
		return errors.New("the task emulator's binary, which starts commands, was not found: install gantry " +
			"whole, or set GANTRY_TASK")
	}
	var spec *emulate.Spec
	var err error
	if t.Emulated() {
		if spec, err = a.emulation(); err != nil {
			return err
		}
	}
	did, err := r.files.Stage(ctx, &a.l, spec)
	if err != nil {
		return err
	}
	a.usage.InputBytes, a.usage.CopiedBytes, a.usage.MovedBytes = did.Read, did.Copied, did.Moved
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
func (a *place) writeCommand(spec *emulate.Spec, resumed bool) error {
	if spec != nil {
		if resumed {
			spec.From = stage.ResumeFile
		}
		if err := spec.Write(filepath.Join(a.dir, specFile)); err != nil {
			return err
		}
	}
	return stage.Write(a.dir, executor.ScriptFile, Script(a.l.Spec), 0o755)
}

// as calls f, which does something in the work directory, with the rights of the owner of that directory.
func (a *place) as(f func() error) error { return a.r.files.As(a.l.Spec.Workflow, f) }

// Copy brings a file to a node in the background.
func (r *Runtime) Copy(_ context.Context, c executor.Copy) error {
	if c.Workflow == nil {
		return fmt.Errorf("copy file %s: its workflow is not known", shown.Quote(c.Spec.Name))
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
