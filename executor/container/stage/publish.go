package stage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gantry/executor"
	"gantry/executor/container/fault"
	"gantry/planner"
	"gantry/trace"
	"gantry/trace/shown"
)

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
		node: l.Node, from: make([]string, len(t.Outputs))}
	if missing, err = p.check(note); missing != "" || err != nil {
		return missing, err
	}
	dirs := map[string]bool{}
	for _, below := range []bool{false, true} { // an output inside another one comes with it
		for i, f := range t.Outputs {
			if p.below(f) != below {
				continue
			}
			if missing, err = p.move(i, f, dirs); missing != "" || err != nil {
				return missing, err
			}
		}
	}
	return "", settleEach(slices.Collect(maps.Keys(dirs)))
}

// publication is the outputs of one attempt on their way from the work directory to the node.
type publication struct {
	*Area
	t            *executor.TaskSpec
	node         planner.NodeID
	dir, nodeDir string
	from         []string // by output: where it is; "" if a former gantry moved it, or it is optional and not there
}

// below reports whether an output lies in another one of the task, which is a directory then.
func (p *publication) below(f *executor.FileSpec) bool {
	return slices.ContainsFunc(p.t.Outputs, func(o *executor.FileSpec) bool {
		return !o.Glob && strings.HasPrefix(path.Clean(f.Name), path.Clean(o.Name)+"/")
	})
}

// linksDir has the targets of outputs that are links, in a work directory.
const linksDir = ".command.links"

// check says which outputs cannot be published, and leaves the note when all can.
func (p *publication) check(note string) (missing string, err error) {
	root, err := p.openWork(p.t.Workflow, p.dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	again := asSelf(func() error {
		_, err := os.Lstat(note)
		return err
	}) == nil
	if again {
		p.findAgain(root)
		return "", nil
	}
	skip, err := p.prepare()
	if err != nil {
		return "", err
	}
	var bad, found []string
	for i, f := range p.t.Outputs {
		why, err := p.output(root, i, f, skip)
		if err != nil {
			return "", err
		}
		if why != "" {
			bad = append(bad, "output "+shown.Quote(f.Name)+" "+why)
		} else if p.from[i] != "" {
			found = append(found, p.from[i])
		}
	}
	if len(bad) > 0 {
		return strings.Join(bad, "; "), nil
	}
	if err := settle(found...); err != nil {
		return "", err
	}
	return "", fault.Do("note", func() error {
		return asSelf(func() error { return os.WriteFile(note, nil, 0o644) })
	})
}

// places are where an output may be in the work directory: own, or below linksDir if that is a link.
func (p *publication) places(i int, f *executor.FileSpec) (own, link string) {
	name, _ := localName(f.Name)
	if own = localAs(p.t, f, name); f.Glob {
		own = filepath.FromSlash(f.NodePath())
	}
	return own, filepath.Join(linksDir, strconv.Itoa(i))
}

// findAgain finds the outputs that a former gantry has checked, and not moved.
func (p *publication) findAgain(root *os.Root) {
	for i, f := range p.t.Outputs {
		own, link := p.places(i, f)
		for _, name := range []string{own, link} {
			if st, err := root.Lstat(name); err == nil && (st.Mode().IsRegular() || st.IsDir()) {
				p.from[i] = filepath.Join(p.dir, name)
			}
		}
	}
}

// output checks an output and returns its path. The target of a link gets a name of its own, as it may be an output, or
// an input, too.
func (p *publication) output(root *os.Root, i int, f *executor.FileSpec, skip map[string]bool) (why string, err error) {
	if _, err := localName(f.Name); err != nil {
		return "", err
	}
	own, link := p.places(i, f)
	p.from[i] = filepath.Join(p.dir, own)
	if f.Glob {
		return p.collect(root, f, skip)
	}
	if _, err := root.Lstat(own); f.Optional && errors.Is(err, fs.ErrNotExist) {
		p.from[i] = ""
		return "", nil
	}
	at, why := p.find(root, own)
	if why != "" || at == p.from[i] {
		return why, nil
	}
	p.from[i] = filepath.Join(p.dir, link)
	if err := os.Mkdir(filepath.Dir(p.from[i]), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return "", p.linkTree(p.t.Workflow, at, p.from[i])
}

// prepare removes files that a program may have left where gantry puts outputs together, and lists the names in the
// work directory that are of inputs.
func (p *publication) prepare() (skip map[string]bool, err error) {
	for _, name := range []string{executor.GlobDir, linksDir} {
		if err := os.RemoveAll(filepath.Join(p.dir, name)); err != nil {
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
	own, link := p.places(i, f)
	from, to := p.from[i], p.Path(p.node, p.t.Workflow, f)
	st, there := os.Lstat(to)
	switch {
	case from == "" && f.Optional && there != nil:
		return "", nil
	case from == "" || p.below(f) && there == nil && from != filepath.Join(p.dir, link):
		if there != nil || !st.Mode().IsRegular() && !st.IsDir() {
			return "output " + shown.Quote(f.Name) + " is neither in the work directory nor on the node", nil
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
	if err := p.leaveLinks(f, filepath.Join(p.dir, own), to); err != nil {
		return "", err
	}
	_, err = p.results(p.t.Workflow, f, to, false)
	return "", err
}

// results links an output that is a result, or those of its parts that are, among the results. It returns how many.
func (s *Area) results(w *executor.WorkflowSpec, f *executor.FileSpec, at string, missing bool) (linked int,
	err error) {
	from, names, err := Results(w, f, at)
	for i, name := range names {
		to := filepath.Join(s.resultsDir(w), name)
		if _, err := os.Lstat(to); err == nil && missing {
			continue
		}
		if err := s.result(w, from[i], to); err != nil {
			return linked, err
		}
		linked++
	}
	return linked, err
}

// Results lists those parts of an output at its place that are results, and their names. A link among them stands
// for its target.
func Results(w *executor.WorkflowSpec, f *executor.FileSpec, at string) (from, names []string, err error) {
	top := ""
	if !f.Glob {
		top = filepath.FromSlash(path.Clean(f.Name))
	}
	if f.Final && !f.Glob {
		return []string{at}, []string{top}, nil
	}
	may := func(pattern string) bool { return trace.MayHold(pattern, f.Name) }
	if !f.Final && !slices.ContainsFunc(w.Results, may) {
		return nil, nil, nil
	}
	all, err := entriesOf(at)
	for _, e := range all {
		name, place := filepath.Join(top, e.Name), filepath.Join(at, e.Name)
		if e.Dir || !f.Final && !w.IsResult(filepath.ToSlash(name)) {
			continue
		}
		if real, err := filepath.EvalSymlinks(place); e.Link != "" && err == nil {
			place = real
		}
		from, names = append(from, place), append(names, name)
	}
	return from, names, err
}

// LinkResult makes an output that lies on a node appear among the results, as far as it is a result and was not there,
// and reports whether it did.
func (s *Area) LinkResult(w *executor.WorkflowSpec, f *executor.FileSpec, n planner.NodeID) (linked bool, err error) {
	err = s.As(w, func() error {
		at := s.Path(n, w, f)
		if _, err := os.Lstat(at); err != nil { // an optional one may not be there
			return nil
		}
		some, err := s.results(w, f, at, true)
		linked = some > 0
		return err
	})
	return linked, err
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

// find returns the path of an output, or its fault, and makes a right one plain. The program was free to leave
// anything: only a file or a directory will do. A link counts as its target in the work directory, or among the files
// that the attempt read. No process of the container lives any more, so nothing changes meanwhile.
func (p *publication) find(root *os.Root, name string) (at, why string) {
	real, err := Follow(root, p.dir, name)
	if leaves := (*Leaving)(nil); errors.As(err, &leaves) {
		if below, ok := strings.CutPrefix(leaves.At, p.nodeDir+"/"); ok {
			if at, err = p.findInput(below); err == nil {
				return at, ""
			}
		}
	}
	if errors.Is(err, fs.ErrNotExist) && real != name {
		return "", "is a symbolic link to " + shown.Quote(real) + ", which was not written"
	} else if errors.Is(err, fs.ErrNotExist) {
		return "", "was not written"
	} else if err != nil {
		return "", "cannot be published: " + err.Error()
	}
	if real == "." {
		return "", "is a symbolic link to the work directory itself"
	}
	return filepath.Join(p.dir, real), p.checkOutput(root, real)
}

// findInput finds a file or a directory of the node that an output is a link to. It was published before, or came from
// outside.
func (p *publication) findInput(name string) (at string, err error) {
	root, err := os.OpenRoot(p.nodeDir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	real, err := Follow(root, p.nodeDir, name)
	return filepath.Join(p.nodeDir, real), err
}

// checkOutput makes a file, or a directory with all in it, plain, on a path without links; or it returns the fault.
func (p *publication) checkOutput(root *os.Root, name string) (why string) {
	err := walk(root, filepath.ToSlash(name), MostFiles, func(at string, d fs.DirEntry, err error) error {
		at = filepath.FromSlash(at)
		switch {
		case err != nil:
			return err
		case d.IsDir() || d.Type().IsRegular():
			return p.plain(p.t.Workflow, root, at)
		case at == name:
			why = "is no regular file but " + describe(d.Type())
			return fs.SkipAll
		case d.Type()&fs.ModeSymlink != 0:
			return p.keepLink(root, name, at)
		}
		return fmt.Errorf("%s is %s", shown.Quote(strings.TrimPrefix(at, name+"/")), describe(d.Type()))
	})
	if err != nil {
		return "has what cannot be published: " + err.Error()
	}
	return why
}

// plain gives a file or a directory to its owner, with a mode by which every task can read it, whichever mode the
// program and its umask gave it. Set-user-id bits go. A file with other names, which may be anywhere, is replaced by a
// copy.
func (s *Area) plain(w *executor.WorkflowSpec, root *os.Root, name string) error {
	st, err := root.Lstat(name)
	if err != nil {
		return err
	}
	mode := Readable(st.Mode())
	if st.IsDir() {
		mode = fs.ModeDir | 0o755
	}
	if owner := s.OwnerOf(w); owner != s.UserOf(w) {
		if err := root.Lchown(name, owner.UID, owner.GID); err != nil {
			return err
		}
	}
	if mode == st.Mode() {
		return nil
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && !st.IsDir() && sys.Nlink > 1 {
		return s.part(w, root, name, mode)
	}
	return root.Chmod(name, mode.Perm())
}

// Readable is the mode by which all users may read a file, and execute it if anybody may.
func Readable(mode fs.FileMode) fs.FileMode {
	if mode&0o111 != 0 {
		mode |= 0o111
	}
	return mode.Perm() | 0o444
}

// part replaces a file by a copy with another mode.
func (s *Area) part(w *executor.WorkflowSpec, root *os.Root, name string, mode fs.FileMode) error {
	in, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := root.Remove(name); err != nil {
		return err
	}
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	owner := s.OwnerOf(w)
	return errors.Join(err, out.Chmod(mode), out.Chown(owner.UID, owner.GID), out.Close())
}

func (s *Area) openWork(w *executor.WorkflowSpec, dir string) (*os.Root, error) {
	if os.Geteuid() != 0 || w.By != nil {
		if err := openUp(dir); err != nil {
			return nil, err
		}
	}
	return os.OpenRoot(dir)
}

// openUp lets a user look at all that a program left in a directory, which may have taken the rights from that user.
func openUp(dir string) error {
	if st, err := os.Lstat(dir); err == nil && st.IsDir() && st.Mode()&0o700 != 0o700 {
		if err := os.Chmod(dir, st.Mode().Perm()|0o700); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return walk(root, ".", MostFiles, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, ErrTooMany) { // outputs in there are missing
			return nil
		}
		if err != nil || !d.IsDir() {
			return err
		}
		st, err := root.Lstat(p)
		if err != nil || st.Mode()&0o700 == 0o700 {
			return err
		}
		return root.Chmod(p, st.Mode().Perm()|0o700)
	})
}

// RemoveAll removes a directory to which programs could write.
func RemoveAll(dir string) error {
	err := os.RemoveAll(dir)
	if errors.Is(err, fs.ErrPermission) && openUp(dir) == nil {
		err = os.RemoveAll(dir)
	}
	return err
}

func describe(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}
