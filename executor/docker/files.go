package docker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
)

// Files of a workflow lie in nodes/<node>/<workflow>/ under their own names. A name there is a complete file, since files come to it by
// rename only. Containers see the directory of their node read-only.

// filesDir is where the files of a workflow lie on a node.
func (r *Runtime) filesDir(n planner.NodeID, w *executor.WorkflowSpec) string {
	return filepath.Join(r.nodes[n], executor.EscapeName(w.Name))
}

// localName checks a logical file name once more, whoever admitted it, and returns it as a relative path.
func localName(name string) (string, error) {
	if !trace.SafeName(name) || !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", fmt.Errorf("unsafe path: file %q is absolute or leaves its directory", name)
	}
	name = path.Clean(name)
	if top, _, _ := strings.Cut(name, "/"); strings.HasPrefix(top, ".command.") || top == ".exitcode" {
		return "", fmt.Errorf("unsafe path: file %q has a name that gantry uses itself", name)
	}
	return filepath.FromSlash(name), nil
}

// mkdir makes a directory that belongs to the caller, and those above it within the run directory.
func (r *Runtime) mkdir(dir string) error { return mkdirs(r.cfg.Dir, dir, r.owner) }

// mkdirs makes the directories from below base to dir.
func mkdirs(base, dir string, o owner) error {
	if dir == base {
		return nil
	}
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrNotExist) {
		if err = mkdirs(base, filepath.Dir(dir), o); err == nil {
			err = os.Mkdir(dir, 0o755)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return o.takes(dir)
}

// takes gives a file to o. Only root can, and has to.
func (o owner) takes(path string) error {
	if os.Geteuid() != 0 || o == (owner{}) {
		return nil
	}
	return os.Lchown(path, o.uid, o.gid)
}

// files keeps several attempts from making one file at the same time.
type files struct {
	mu     sync.Mutex
	making map[string]*making
}

type making struct {
	done chan struct{}
	err  error
}

// once has the file at path produced unless it is there. Whoever comes meanwhile waits for the first.
func (f *files) once(ctx context.Context, path string, produce func() error) error {
	for {
		f.mu.Lock()
		if m := f.making[path]; m != nil {
			f.mu.Unlock()
			select {
			case <-m.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			if m.err == nil {
				return nil
			}
			if !isAny(m.err, context.Canceled) { // the other was killed: it is our turn
				return m.err
			}
			continue
		}
		if st, err := os.Lstat(path); err == nil && st.Mode().IsRegular() {
			f.mu.Unlock()
			return nil
		}
		if f.making == nil {
			f.making = map[string]*making{}
		}
		m := &making{done: make(chan struct{})}
		f.making[path] = m
		f.mu.Unlock()

		m.err = produce()
		f.mu.Lock()
		delete(f.making, path)
		f.mu.Unlock()
		close(m.done)
		return m.err
	}
}

// stage makes the work directory and brings every input to the node.
func (a *attempt) stage(ctx context.Context) error {
	r, t := a.r, a.l.Spec
	switch {
	case a.emulated() && r.cfg.TaskImage == "":
		return errors.New("it has no command, and there is no image of the task emulator")
	case !a.emulated() && t.Image == "":
		return errors.New("it has a command but no image: name one with --image")
	case !a.emulated() && r.cfg.TaskBinary == "":
		return errors.New("the task emulator's binary, which starts commands, was not found (make build)")
	}
	nodeDir := a.nodeFiles()
	if err := r.mkdir(nodeDir); err != nil {
		return err
	}
	fetch := map[planner.FileID]planner.NodeID{}
	for _, f := range a.l.Fetch {
		fetch[f.File] = f.From
	}
	outputs := map[string]bool{}
	for _, f := range t.Outputs {
		outputs[f.Name] = true
	}
	if err := r.mkdir(filepath.Dir(a.dir)); err != nil {
		return err
	}
	err := os.Mkdir(a.dir, 0o755)
	if errors.Is(err, fs.ErrExist) { // left by a former life of this very attempt; nothing in it was published
		if err = os.RemoveAll(a.dir); err == nil {
			err = os.Mkdir(a.dir, 0o755)
		}
	}
	if err != nil {
		return err
	}
	if err := r.user.takes(a.dir); err != nil {
		return err
	}
	a.copied = a.l.Ahead
	var blocks []string // of the file at hand
	for _, f := range t.Inputs {
		name, err := localName(f.Name)
		if err != nil {
			return err
		}
		at := filepath.Join(nodeDir, name)
		part := filepath.Join(nodeDir, filepath.FromSlash(f.NodeName()))
		if !f.Produced {
			if err := r.bring(ctx, f, t.Workflow, a.l.Node); err != nil {
				return err
			}
		}
		if from, ok := fetch[f.ID]; ok {
			n, err := r.copyFile(ctx, f, t.Workflow, from, a.l.Node)
			if err != nil {
				return err
			}
			a.copied += unit.Bytes(n)
		}
		st, err := os.Lstat(part)
		if err != nil {
			return fmt.Errorf("input %q is not on node %s: %w", f.NodeName(), r.cfg.Platform.Nodes[a.l.Node].Name, err)
		}
		a.read += unit.Bytes(st.Size())
		if f.Blocks > 0 {
			if blocks = append(blocks, part); f.Block < f.Blocks-1 {
				continue
			}
			if err := r.join(ctx, at, blocks); err != nil {
				return fmt.Errorf("input %q: %w", f.Name, err)
			}
			blocks = blocks[:0]
		}
		to := filepath.Join(a.dir, name)
		if err := mkdirs(a.dir, filepath.Dir(to), r.user); err != nil {
			return err
		}
		if !outputs[f.Name] {
			if err := os.Symlink(at, to); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			continue
		}
		// It is to be changed: a copy of its own, so that what is published stays as it is.
		if err := copyWhole(ctx, to, 0, 0o644, extent{path: at}); err != nil {
			return fmt.Errorf("input %q: %w", f.Name, err)
		}
		if err := r.user.takes(to); err != nil {
			return err
		}
	}
	for _, f := range t.Outputs {
		name, err := localName(f.Name)
		if err != nil {
			return err
		}
		if err := mkdirs(a.dir, filepath.Dir(filepath.Join(a.dir, name)), r.user); err != nil {
			return err
		}
	}
	for _, name := range []string{t.Stdin, t.Stdout, t.Stderr} {
		if name != "" {
			if _, err := localName(name); err != nil {
				return err
			}
		}
	}
	if a.l.From != nil {
		if err := a.bringCheckpoint(ctx); err != nil {
			return err
		}
	}
	return a.writeCommand()
}

// writeCommand leaves what is to be done in the work directory.
func (a *attempt) writeCommand() error {
	if a.emulated() {
		s, err := a.emulation()
		if err != nil {
			return err
		}
		if err := s.Write(filepath.Join(a.dir, specFile)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(a.dir, ".command.sh"), []byte(a.script()), 0o755)
}

// bring puts a file from outside, or a block of one, on the nodes that have it from the start; one that is everywhere comes to node n when
// it is first read there. It is a copy of the user's own, made once per run, or made-up content where the trace has only a size. Nodes
// share it by hard links: it is there from the start, so nothing is to be waited for.
func (r *Runtime) bring(ctx context.Context, f *executor.FileSpec, w *executor.WorkflowSpec, n planner.NodeID) error {
	if _, err := localName(f.Name); err != nil {
		return err
	}
	name := filepath.FromSlash(path.Clean(f.NodeName()))
	homes := f.Homes
	if homes == nil {
		homes = []planner.NodeID{0, n}
	}
	first := filepath.Join(r.filesDir(homes[0], w), name)
	err := r.files.once(ctx, first, func() error {
		if err := r.mkdir(filepath.Dir(first)); err != nil {
			return err
		}
		if f.External == "" {
			return r.makeUp(ctx, first, f)
		}
		return r.arrive(ctx, first, 0, extent{f.External, int64(f.From), int64(f.To)})
	})
	if err != nil {
		return fmt.Errorf("input %q from outside: %w", f.Name, err)
	}
	for _, home := range homes[1:] {
		at := filepath.Join(r.filesDir(home, w), name)
		if at == first {
			continue
		}
		if err := r.files.once(ctx, at, func() error {
			if err := r.mkdir(filepath.Dir(at)); err != nil {
				return err
			}
			return os.Link(first, at)
		}); err != nil {
			return fmt.Errorf("input %q from outside: %w", f.Name, err)
		}
	}
	return nil
}

// join makes a file of its blocks on the node where they all lie.
func (r *Runtime) join(ctx context.Context, at string, blocks []string) error {
	return r.files.once(ctx, at, func() error {
		parts := make([]extent, len(blocks))
		for i, b := range blocks {
			parts[i].path = b
		}
		return r.arrive(ctx, at, 0, parts...)
	})
}

// arrive copies a file, or pieces that make one, to a name on a node, by way of a temporary name.
func (r *Runtime) arrive(ctx context.Context, to string, rate unit.BytesPerSecond, from ...extent) error {
	tmp := filepath.Join(filepath.Dir(to), partial+filepath.Base(to))
	defer os.Remove(tmp)
	if err := copyWhole(ctx, tmp, rate, 0o644, from...); err != nil {
		return err
	}
	if err := r.owner.takes(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, to)
}

// partial starts the names of files that are not complete yet.
const partial = ".gantry-partial-"

// extent is a part of a regular file: the bytes from one offset up to another, which is 0 for its end.
type extent struct {
	path     string
	from, to int64
}

// copyWhole makes a file of parts of others, durably, at most rate bytes per second if that is not 0.
func copyWhole(ctx context.Context, to string, rate unit.BytesPerSecond, mode fs.FileMode, from ...extent) error {
	_ = os.Remove(to)
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	for _, e := range from {
		if err = pourExtent(ctx, out, e, rate); err != nil {
			break
		}
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

func pourExtent(ctx context.Context, out *os.File, e extent, rate unit.BytesPerSecond) error {
	in, err := os.Open(e.path)
	if err != nil {
		return err
	}
	defer in.Close()
	if st, err := in.Stat(); err != nil {
		return err
	} else if !st.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", e.path)
	}
	if e.from == 0 && e.to == 0 {
		return pour(ctx, out, in, rate)
	}
	length := int64(math.MaxInt64) - e.from
	if e.to > 0 {
		length = e.to - e.from
	}
	return pour(ctx, out, io.NewSectionReader(in, e.from, length), rate)
}

// pour copies at a rate, in pieces small enough that the rate is smooth.
func pour(ctx context.Context, out *os.File, in io.Reader, rate unit.BytesPerSecond) error {
	begun := time.Now()
	piece := int64(8 << 20)
	if rate > 0 {
		piece = min(piece, max(64<<10, int64(rate)/20))
	}
	for done := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(out, in, piece)
		done += n
		if rate > 0 {
			if err := sleep(ctx, time.Until(begun.Add(time.Duration(float64(done)/float64(rate)*1e9)))); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// makeUp writes content of the size that the trace tells, which does not compress.
func (r *Runtime) makeUp(ctx context.Context, to string, f *executor.FileSpec) error {
	tmp := filepath.Join(filepath.Dir(to), partial+filepath.Base(to))
	out, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	x := r.cfg.Seed ^ 0x9e3779b97f4a7c15
	for _, c := range []byte(f.NodeName()) {
		x = (x ^ uint64(c)) * 0x100000001b3
	}
	x |= 1
	buf := make([]byte, min(1<<20, (int64(f.Size)+7)&^7))
	for left := int64(f.Size); left > 0 && err == nil; {
		for i := 0; i+8 <= len(buf); i += 8 { // xorshift64
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			binary.LittleEndian.PutUint64(buf[i:], x)
		}
		n := min(left, int64(len(buf)))
		_, err = out.Write(buf[:n])
		left -= n
		if err == nil {
			err = ctx.Err()
		}
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := r.owner.takes(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, to)
}

// copyFile copies a file between nodes, over the link between their groups. It returns how many bytes that were; none if the file was
// there.
func (r *Runtime) copyFile(ctx context.Context, f *executor.FileSpec, w *executor.WorkflowSpec, from, to planner.NodeID) (int64, error) {
	if _, err := localName(f.Name); err != nil {
		return 0, err
	}
	name := filepath.FromSlash(path.Clean(f.NodeName()))
	if !f.Produced { // it may be the first to ask
		if err := r.bring(ctx, f, w, from); err != nil {
			return 0, err
		}
	}
	p := r.cfg.Platform
	src, dst := filepath.Join(r.filesDir(from, w), name), filepath.Join(r.filesDir(to, w), name)
	copied := int64(0)
	err := r.files.once(ctx, dst, func() error {
		if err := r.mkdir(filepath.Dir(dst)); err != nil {
			return err
		}
		if err := sleep(ctx, r.latency(from, to)); err != nil {
			return err
		}
		if err := r.arrive(ctx, dst, r.bandwidth(from, to), extent{path: src}); err != nil {
			return err
		}
		if st, err := os.Lstat(dst); err == nil {
			copied = st.Size()
		}
		return syncDir(filepath.Dir(dst))
	})
	if err != nil {
		return 0, fmt.Errorf("copy %q from node %s to node %s: %w", f.Name, p.Nodes[from].Name, p.Nodes[to].Name, err)
	}
	return copied, nil
}

// bandwidth is that of the link between two nodes for one copy; 0 is unlimited.
func (r *Runtime) bandwidth(from, to planner.NodeID) unit.BytesPerSecond {
	p := r.cfg.Platform
	return p.Bandwidth[p.Nodes[from].Group][p.Nodes[to].Group]
}

func (r *Runtime) latency(from, to planner.NodeID) time.Duration {
	p := r.cfg.Platform
	return time.Duration(p.Latency[p.Nodes[from].Group][p.Nodes[to].Group])
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
	r.work.Add(1)
	go func() {
		defer r.work.Done()
		for {
			_, err := r.copyFile(r.ctx, c.Spec, c.Workflow, c.From, c.To)
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
			if sleep(r.ctx, time.Second) != nil {
				return
			}
		}
	}()
	return nil
}

// publishingNote is the path of the note that the outputs in a work directory were all checked, and moving them had begun.
func publishingNote(dir string) string { return dir + ".publishing" }

// publish makes the outputs of a task that succeeded files of its node. Nothing is published unless all of it is there; missing names
// what is not, and is no error. It may be repeated after a crash: a note beside the work directory, which the container cannot reach,
// tells that all was checked and moving had begun.
func (a *attempt) publish() (missing string, err error) {
	r, t := a.r, a.l.Spec
	if len(t.Outputs) == 0 {
		return "", nil
	}
	root, err := os.OpenRoot(a.dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	note := publishingNote(a.dir)
	_, err = os.Lstat(note)
	again := err == nil
	nodeDir := a.nodeFiles()
	dirs := map[string]bool{}
	var bad []string
	moved := make([]bool, len(t.Outputs))
	for i, f := range t.Outputs {
		name, err := localName(f.Name)
		if err != nil {
			return "", err
		}
		if again {
			if st, err := root.Lstat(name); err != nil || !st.Mode().IsRegular() {
				moved[i] = true
				continue
			}
		}
		if why := r.checkOutput(root, name); why != "" {
			bad = append(bad, fmt.Sprintf("output %q %s", f.Name, why))
		}
	}
	if len(bad) > 0 {
		return strings.Join(bad, "; "), nil
	}
	if !again {
		if err := os.WriteFile(note, nil, 0o644); err != nil {
			return "", err
		}
	}
	for i, f := range t.Outputs {
		name, _ := localName(f.Name)
		from, to := filepath.Join(a.dir, name), filepath.Join(nodeDir, name)
		if !moved[i] {
			if err := r.mkdir(filepath.Dir(to)); err != nil {
				return "", err
			}
			if err := os.Rename(from, to); err != nil {
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
		if f.Final {
			result := filepath.Join(r.cfg.Dir, "results", executor.EscapeName(t.Workflow.Name), name)
			if err := r.mkdir(filepath.Dir(result)); err != nil {
				return "", err
			}
			_ = os.Remove(result)
			if err := os.Link(to, result); err != nil {
				return "", err
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

// checkOutput says what is wrong with an output, and makes a right one durable and the caller's. The program was free to leave anything:
// only a regular file, not reached through links, will do. No process of the container lives any more, so nothing changes meanwhile.
func (r *Runtime) checkOutput(root *os.Root, name string) (why string) {
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
	if r.owner != r.user {
		if err := f.Chown(r.owner.uid, r.owner.gid); err != nil {
			return "cannot be given to the caller: " + err.Error()
		}
	}
	if st, err := f.Stat(); err != nil {
		return "cannot be looked at: " + err.Error()
	} else if mode := st.Mode().Perm() | 0o400; mode != st.Mode() { // no set-uid programs, nothing that its owner cannot read
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

// write writes a file of one name into the work directory, to which a container could write: whatever it left under the name goes.
func (a *attempt) write(name, text string) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL // which follows no link
	path, mode := filepath.Join(a.dir, name), fs.FileMode(0o644)
	if name == ".command.run" {
		mode = 0o755
	}
	f, err := os.OpenFile(path, flags, mode)
	if errors.Is(err, fs.ErrExist) {
		_ = os.RemoveAll(path)
		f, err = os.OpenFile(path, flags, mode)
	}
	if err == nil {
		io.WriteString(f, text)
		f.Close()
	}
}

// tail returns the last lines of a file in a work directory, made harmless for terminals; "" if there is none.
func tail(dir, name string, lines int) string {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	if st, err := root.Lstat(filepath.FromSlash(name)); err != nil || !st.Mode().IsRegular() {
		return ""
	}
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return ""
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return ""
	}
	buf := make([]byte, min(st.Size(), 4096))
	n, _ := f.ReadAt(buf, st.Size()-int64(len(buf)))
	text := strings.Map(func(c rune) rune {
		if c == '\n' || c >= ' ' && c != 0x7f && c != 0xfffd && (c < 0x80 || c > 0x9f) {
			return c
		}
		if c == '\t' {
			return ' '
		}
		return -1
	}, string(buf[:n]))
	all := strings.Split(strings.Trim(text, "\n"), "\n")
	all = all[max(0, len(all)-lines):]
	for i, l := range all {
		if len(l) > 300 {
			all[i] = strings.ToValidUTF8(l[:300], "") + "..."
		}
	}
	return strings.Join(all, " | ")
}
