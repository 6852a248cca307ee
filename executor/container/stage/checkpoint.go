package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gantry/executor"
	"gantry/executor/emulate"
	"gantry/planner/unit"
	"gantry/trace/shown"
)

// The checkpoint of an attempt, and the outputs that it wrote whole, stay in its work directory, which nobody removes.
// The next attempt gets them in its own: linked on the same node, and else copied over the link.

// ResumeFile is where the checkpoint lies that an emulated task continues from.
const ResumeFile = ".command.resume"

// Checkpoint reads the checkpoint that an attempt left in its work directory.
func Checkpoint(dir string, spec *emulate.Spec) (*emulate.Checkpoint, error) {
	f, err := OpenIn(dir, emulate.CheckpointFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return emulate.ReadCheckpoint(f, spec)
}

// bringCheckpoint puts the checkpoint of an earlier attempt, and its outputs, into the work directory. If the
// checkpoint is gone or damaged the task starts from the beginning.
func (s *Area) bringCheckpoint(ctx context.Context, l *executor.Launch, to string, spec *emulate.Spec,
	did *Staged) error {
	from := l.From
	dir := s.WorkDir(l.Spec, from.Try)
	c, err := Checkpoint(dir, spec)
	if err != nil {
		did.Note = fmt.Sprintf("starts from the beginning: checkpoint of try %d: %v", from.Try, err)
		return nil
	}
	if from.Node != l.Node {
		_, latency := s.link(from.Node, l.Node)
		if err := Sleep(ctx, latency); err != nil {
			return err
		}
	}
	if err := s.carry(ctx, l, filepath.Join(dir, emulate.CheckpointFile), filepath.Join(to, ResumeFile),
		did); err != nil {
		return fmt.Errorf("checkpoint of try %d: %w", from.Try, err)
	}
	for _, f := range l.Spec.Outputs[:c.Outputs] {
		name, err := localName(f.Name)
		if err != nil {
			return err
		}
		if err := s.carry(ctx, l, filepath.Join(dir, name), filepath.Join(to, name), did); err != nil {
			return fmt.Errorf("output %s of try %d: %w", shown.Quote(f.Name), from.Try, err)
		}
	}
	did.Resumed = c
	return nil
}

// keepCheckpoints gives a further try the checkpoint files that the one before it left. The program could have left
// anything there: only a regular file is taken, not reached through links.
func (s *Area) keepCheckpoints(ctx context.Context, l *executor.Launch, dir string) error {
	for _, f := range l.Spec.Outputs {
		if !f.Checkpoint {
			continue
		}
		for try := l.Try - 1; try > 0; try-- {
			kept, err := s.keepCheckpoint(ctx, l, f, s.WorkDir(l.Spec, try), dir)
			if err != nil {
				return fmt.Errorf("checkpoint %s of try %d: %w", shown.Quote(f.Name), try, err)
			}
			if kept {
				break
			}
		}
	}
	return nil
}

func (s *Area) keepCheckpoint(ctx context.Context, l *executor.Launch, f *executor.FileSpec, from, to string) (
	kept bool, err error) {
	name, err := localName(f.Name)
	if err != nil {
		return false, err
	}
	root, err := s.openWork(l.Spec.Workflow, from)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer root.Close()
	if st, err := root.Lstat(name); err != nil || !st.Mode().IsRegular() {
		return false, nil
	}
	if err := s.plain(l.Spec.Workflow, root, name); err != nil {
		return false, err
	}
	path := filepath.Join(to, name)
	open := func(name string) (*os.File, fs.FileInfo, error) { return described(root.Open(name)) }
	if err := copyWhole(ctx, path, 0, 0o644, extent{path: name, open: open}); err != nil {
		return false, err
	}
	return true, s.UserOf(l.Spec.Workflow).Takes(path)
}

// carry links a file of an earlier attempt, or copies it if that ran on another node.
func (s *Area) carry(ctx context.Context, l *executor.Launch, src, dst string, did *Staged) error {
	_ = os.Remove(dst)
	if l.From.Node == l.Node {
		return os.Link(src, dst)
	}
	rate, _ := s.link(l.From.Node, l.Node)
	if err := copyWhole(ctx, dst, rate, 0o644, extent{path: src}); err != nil {
		return err
	}
	st, err := os.Lstat(dst)
	if err != nil {
		return err
	}
	did.Moved += unit.Bytes(st.Size())
	return s.UserOf(l.Spec.Workflow).Takes(dst)
}
