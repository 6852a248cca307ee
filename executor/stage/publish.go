package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gantry/executor"
	"gantry/executor/fault"
	"gantry/planner"
)

// OldNote is where the note of Publish lay up to log format 8: beside the work directory.
func OldNote(dir string) string { return dir + ".publishing" }

// Publish makes the outputs of an attempt that succeeded files of its node. Nothing is published unless all of it is
// there; missing names the outputs that are not, and is no error. It may be repeated after a crash: the file note,
// which the program must not be able to reach, says that all outputs were checked and that moving them had begun.
func (s *Area) Publish(l *executor.Launch, note string) (missing string, err error) {
	if len(l.Spec.Outputs) == 0 {
		return "", nil
	}
	err = s.As(l.Spec.Workflow, func() (err error) {
		missing, err = s.publish(l, note)
		return err
	})
	return missing, err
}

func (s *Area) publish(l *executor.Launch, note string) (missing string, err error) {
	t := l.Spec
	p := &publication{Area: s, t: t, dir: s.WorkDir(t, l.Try), nodeDir: s.NodeDir(l.Node, t.Workflow),
		node: l.Node, moved: make([]bool, len(t.Outputs))}
	if missing, err = p.check(note); missing != "" || err != nil {
		return missing, err
	}
	dirs := map[string]bool{}
	for _, below := range []bool{false, true} { // what lies in another output comes with it
		for i, f := range t.Outputs {
			if p.below(f) != below {
				continue
			}
			if missing, err = p.move(i, f, dirs); missing != "" || err != nil {
				return missing, err
			}
		}
	}
	for d := range dirs {
		if err := syncDir(d); err != nil {
			return "", err
		}
	}
	return "", nil
}

// publication is the outputs of one attempt on their way from the work directory to the node.
type publication struct {
	*Area
	t            *executor.TaskSpec
	node         planner.NodeID
	dir, nodeDir string
	moved        []bool // by output: a former gantry moved it
}

// below reports whether an output lies in another one of the task, which is a directory then.
func (p *publication) below(f *executor.FileSpec) bool {
	return slices.ContainsFunc(p.t.Outputs, func(o *executor.FileSpec) bool {
		return !o.Glob && strings.HasPrefix(path.Clean(f.Name), path.Clean(o.Name)+"/")
	})
}

// check says which outputs cannot be published, and leaves the note when all can.
func (p *publication) check(note string) (missing string, err error) {
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	again := asSelf(func() error {
		_, err := os.Lstat(note)
		return err
	}) == nil
	skip, err := p.prepareGlobs(again)
	if err != nil {
		return "", err
	}
	var bad []string
	for i, f := range p.t.Outputs {
		name, err := localName(f.Name)
		if err != nil {
			return "", err
		}
		name = localAs(p.t, f, name)
		if again {
			if f.Glob {
				name = filepath.FromSlash(f.NodePath())
			}
			st, err := root.Lstat(name)
			p.moved[i] = err != nil || !st.Mode().IsRegular() && !st.IsDir()
			if p.moved[i] || f.Glob {
				continue
			}
		}
		if _, err := root.Lstat(name); f.Optional && errors.Is(err, fs.ErrNotExist) {
			p.moved[i] = true
			continue
		}
		why := ""
		if f.Glob {
			if why, err = p.collect(root, f, skip); err != nil {
				return "", err
			}
		} else if st, err := root.Lstat(name); err == nil && st.IsDir() {
			if why = p.checkTree(p.t.Workflow, root, name); why == "" {
				err = syncTree(filepath.Join(p.dir, name))
			}
			if err != nil {
				return "", err
			}
		} else {
			why = p.checkOutput(p.t.Workflow, root, name)
		}
		if why != "" {
			bad = append(bad, fmt.Sprintf("output %q %s", f.Name, why))
		}
	}
	if len(bad) > 0 || again {
		return strings.Join(bad, "; "), nil
	}
	return "", fault.Do("note", func() error {
		return asSelf(func() error { return os.WriteFile(note, nil, 0o644) })
	})
}

// prepareGlobs removes what a program may have left where globs are collected, and lists the names in the work
// directory that are of inputs.
func (p *publication) prepareGlobs(again bool) (skip map[string]bool, err error) {
	if !slices.ContainsFunc(p.t.Outputs, func(f *executor.FileSpec) bool { return f.Glob }) {
		return nil, nil
	}
	if !again {
		if err := os.RemoveAll(filepath.Join(p.dir, executor.GlobDir)); err != nil {
			return nil, err
		}
	}
	skip = map[string]bool{}
	for _, f := range p.t.Inputs {
		skip[filepath.ToSlash(localAs(p.t, f, path.Clean(f.Name)))] = true
		if !f.Glob {
			continue
		}
		files, err := Files(p.Path(p.node, p.t.Workflow, f))
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			skip[filepath.ToSlash(name)] = !slices.Contains(p.t.Outputs, f)
		}
	}
	return skip, nil
}

// move makes one output a file of the node, leaves a link to it in the work directory, and links a final one among the
// results.
func (p *publication) move(i int, f *executor.FileSpec, dirs map[string]bool) (missing string, err error) {
	name, _ := localName(f.Name)
	from, to := filepath.Join(p.dir, localAs(p.t, f, name)), p.Path(p.node, p.t.Workflow, f)
	if f.Glob {
		from = filepath.Join(p.dir, filepath.FromSlash(f.NodePath()))
	}
	st, there := os.Lstat(to)
	switch {
	case p.moved[i] && f.Optional && there != nil:
		return "", nil
	case p.moved[i] || p.below(f) && there == nil:
		if there != nil || !st.Mode().IsRegular() && !st.IsDir() {
			return fmt.Sprintf("output %q is neither in the work directory nor on the node", f.Name), nil
		}
	default:
		if err := p.mkdirOf(p.t.Workflow, filepath.Dir(to)); err != nil {
			return "", err
		}
		if there == nil && st.IsDir() { // of an attempt before this one
			if err := os.RemoveAll(to); err != nil {
				return "", err
			}
		}
		if err := fault.Do("publish", func() error { return os.Rename(from, to) }); err != nil {
			return "", err
		}
		dirs[filepath.Dir(to)] = true
	}
	if err := p.leaveLinks(f, from, to); err != nil {
		return "", err
	}
	return "", p.results(p.t.Workflow, f, to)
}

// results links an output that is a result among the results.
func (s *Area) results(w *executor.WorkflowSpec, f *executor.FileSpec, at string) error {
	if !f.Final {
		return nil
	}
	results := s.resultsDir(w)
	if !f.Glob {
		return s.result(w, at, filepath.Join(results, filepath.FromSlash(path.Clean(f.Name))))
	}
	files, err := Files(at)
	for _, name := range files {
		if err := s.result(w, filepath.Join(at, name), filepath.Join(results, name)); err != nil {
			return err
		}
	}
	return err
}

func (s *Area) resultsDir(w *executor.WorkflowSpec) string {
	return filepath.Join(s.dir, "results", executor.EscapeName(w.Name))
}

// leaveLinks leaves links to an output in the work directory, where it lay.
func (p *publication) leaveLinks(f *executor.FileSpec, from, to string) error {
	if !f.Glob {
		if _, err := os.Lstat(from); err == nil {
			return nil
		}
		if err := os.Symlink(to, from); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	}
	files, err := Files(to)
	for _, name := range files {
		at := filepath.Join(p.dir, name)
		if st, err := os.Lstat(at); err != nil || !st.Mode().IsRegular() {
			continue
		}
		if err := errors.Join(os.Remove(at), os.Symlink(filepath.Join(to, name), at)); err != nil {
			return err
		}
	}
	return err
}

// result links a file or a directory among the results.
func (s *Area) result(w *executor.WorkflowSpec, from, to string) error {
	if err := s.mkdirOf(w, filepath.Dir(to)); err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return fault.Do("result", func() error { return s.linkTree(w, from, to) })
}

// checkOutput says what is wrong with an output, and makes a right one durable and the caller's. The program was free
// to leave anything: only a regular file, not reached through links, will do. No process of the container lives any
// more, so nothing changes meanwhile.
func (s *Area) checkOutput(w *executor.WorkflowSpec, root *os.Root, name string) (why string) {
	parts := strings.Split(name, string(filepath.Separator))
	for i := range parts {
		st, err := root.Lstat(filepath.Join(parts[:i+1]...))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "was not written"
		case err != nil:
			return "cannot be looked at: " + err.Error()
		case i < len(parts)-1 && !st.IsDir():
			return fmt.Sprintf("lies below %s, which is %s", strings.Join(parts[:i+1], "/"), describe(st.Mode()))
		case i == len(parts)-1 && !st.Mode().IsRegular():
			return "is no regular file but " + describe(st.Mode())
		}
	}
	f, err := root.Open(name)
	if err != nil {
		return "cannot be opened: " + err.Error()
	}
	defer f.Close()
	if owner := s.OwnerOf(w); owner != s.UserOf(w) {
		if err := f.Chown(owner.UID, owner.GID); err != nil {
			return "cannot be given to the caller: " + err.Error()
		}
	}
	if st, err := f.Stat(); err != nil {
		return "cannot be looked at: " + err.Error()
	} else if mode := st.Mode().Perm() | 0o400; mode != st.Mode() { // no set-uid programs; its owner can read it
		if err := f.Chmod(mode); err != nil {
			return "cannot be made plain: " + err.Error()
		}
	}
	if err := f.Sync(); err != nil {
		return "cannot be made durable: " + err.Error()
	}
	return ""
}

func describe(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a file"
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
