package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gantry/executor"
	"gantry/executor/fault"
)

// OldNote is where the note of Publish lay up to log format 8: beside the work directory.
func OldNote(dir string) string { return dir + ".publishing" }

// Publish makes the outputs of an attempt that succeeded files of its node. Nothing is published unless all of it is
// there; missing names the outputs that are not, and is no error. It may be repeated after a crash: the file note,
// which the program must not be able to reach, says that all outputs were checked and that moving them had begun.
func (s *Area) Publish(l *executor.Launch, note string) (missing string, err error) {
	t := l.Spec
	if len(t.Outputs) == 0 {
		return "", nil
	}
	p := &publication{Area: s, dir: s.WorkDir(t, l.Try), nodeDir: s.NodeDir(l.Node, t.Workflow),
		moved: make([]bool, len(t.Outputs))}
	if missing, err = p.check(t, note); missing != "" || err != nil {
		return missing, err
	}
	dirs := map[string]bool{}
	for i, f := range t.Outputs {
		if missing, err = p.move(i, f, t.Workflow, dirs); missing != "" || err != nil {
			return missing, err
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
	dir, nodeDir string
	moved        []bool // by output: a former gantry moved it
}

// check says which outputs cannot be published, and leaves the note when all can.
func (p *publication) check(t *executor.TaskSpec, note string) (missing string, err error) {
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	_, err = os.Lstat(note)
	again := err == nil
	var bad []string
	for i, f := range t.Outputs {
		name, err := localName(f.Name)
		if err != nil {
			return "", err
		}
		if again {
			if st, err := root.Lstat(name); err != nil || !st.Mode().IsRegular() {
				p.moved[i] = true
				continue
			}
		}
		if why := p.checkOutput(root, name); why != "" {
			bad = append(bad, fmt.Sprintf("output %q %s", f.Name, why))
		}
	}
	if len(bad) > 0 || again {
		return strings.Join(bad, "; "), nil
	}
	return "", fault.Do("note", func() error { return os.WriteFile(note, nil, 0o644) })
}

// move makes one output a file of the node, leaves a link to it in the work directory, and links a final one among the
// results.
func (p *publication) move(i int, f *executor.FileSpec, w *executor.WorkflowSpec, dirs map[string]bool) (missing string,
	err error) {
	name, _ := localName(f.Name)
	from, to := filepath.Join(p.dir, name), filepath.Join(p.nodeDir, name)
	if !p.moved[i] {
		if err := p.mkdir(filepath.Dir(to)); err != nil {
			return "", err
		}
		if err := fault.Do("publish", func() error { return os.Rename(from, to) }); err != nil {
			return "", err
		}
		dirs[filepath.Dir(to)] = true
	} else if st, err := os.Lstat(to); err != nil || !st.Mode().IsRegular() {
		return fmt.Sprintf("output %q is neither in the work directory nor on the node", f.Name), nil
	}
	if _, err := os.Lstat(from); err != nil {
		if err := os.Symlink(to, from); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	if !f.Final {
		return "", nil
	}
	result := filepath.Join(p.Area.dir, "results", executor.EscapeName(w.Name), name)
	if err := p.mkdir(filepath.Dir(result)); err != nil {
		return "", err
	}
	_ = os.Remove(result)
	return "", fault.Do("result", func() error { return os.Link(to, result) })
}

// checkOutput says what is wrong with an output, and makes a right one durable and the caller's. The program was free
// to leave anything: only a regular file, not reached through links, will do. No process of the container lives any
// more, so nothing changes meanwhile.
func (s *Area) checkOutput(root *os.Root, name string) (why string) {
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
	if s.Owner != s.User {
		if err := f.Chown(s.Owner.UID, s.Owner.GID); err != nil {
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
