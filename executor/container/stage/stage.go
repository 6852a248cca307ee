// Package stage keeps the files of a run on this host: it brings inputs to virtual nodes, copies files between nodes at
// the rate of their link, makes the work directory of an attempt, publishes outputs and carries checkpoints over. It
// knows no container engine: every runtime whose programs run in directories of this host can use it.
//
// Files of a workflow lie in nodes/<node>/<workflow>/ under their own names. A name there is a complete file, since
// files come to it by rename only, from partial/. Programs work in work/<workflow>/<task>-<try>/.
package stage

import (
	"cmp"
	"context"
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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"gantry/executor"
	"gantry/executor/emulate"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/shown"
)

// Owner is the user and the group that own a file.
type Owner struct{ UID, GID int }

// Takes gives a file to o. Only root can, and has to.
func (o Owner) Takes(path string) error {
	if os.Geteuid() != 0 || o == (Owner{}) {
		return nil
	}
	return os.Lchown(path, o.UID, o.GID)
}

// Caller is the user that runs gantry: with sudo the user that called it.
func Caller() Owner {
	if os.Geteuid() != 0 {
		return Owner{os.Geteuid(), os.Getegid()}
	}
	uid, err1 := strconv.Atoi(os.Getenv("SUDO_UID"))
	gid, err2 := strconv.Atoi(os.Getenv("SUDO_GID"))
	if err1 == nil && err2 == nil && uid > 0 {
		return Owner{uid, gid}
	}
	return Owner{}
}

// nobody runs the programs of root: a container's root is the host's.
var nobody = Owner{65534, 65534}

// ProgramUser is the user that runs programs in containers: the caller, but never root.
func ProgramUser() Owner {
	if o := Caller(); o.UID != 0 {
		return o
	}
	return nobody
}

// Rights are those of o on files, with the groups that the user database has.
func (o Owner) Rights() User { return User{UID: o.UID, GID: o.GID} }

// Area is the files of one run.
type Area struct {
	dir      string // the run directory
	platform *planner.Platform
	seed     uint64   // of made-up contents
	nodes    []string // directories of the nodes

	// User runs programs, Owner gets their outputs. They are the same unless root runs gantry.
	User, Owner Owner
	// Scratch deletes the files of attempts that did not succeed, once the next attempt has the files that it needs of
	// them.
	Scratch bool

	making  once
	partial atomic.Int64 // names in partial/

	mu  sync.Mutex
	own map[string]bool // workflows of users whose directories are made
	// Paths that the caller shows to containers lead to these, from their first use on: jobs may write beside them.
	leads map[string]string
}

// Open prepares the run directory, which is absolute. Files that a former gantry had not completed go.
func Open(dir string, p *planner.Platform, seed uint64) (*Area, error) {
	s := &Area{dir: dir, platform: p, seed: seed, Owner: Caller(), User: ProgramUser()}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "partial")); err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	for _, name := range []string{"work", "results", "partial"} {
		if err := s.mkdir(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("run directory: %w", err)
		}
	}
	for i := range p.Nodes {
		node := filepath.Join(dir, "nodes", executor.EscapeName(p.Nodes[i].Name))
		if err := s.mkdir(node); err != nil {
			return nil, fmt.Errorf("node %s: %w", p.Nodes[i].Name, err)
		}
		s.nodes = append(s.nodes, node)
	}
	return s, nil
}

// NodeDir is where the files of a workflow lie on a node.
func (s *Area) NodeDir(n planner.NodeID, w *executor.WorkflowSpec) string {
	return filepath.Join(s.nodes[n], executor.EscapeName(w.Name))
}

// WorkDir is where an attempt works.
func (s *Area) WorkDir(t *executor.TaskSpec, try int32) string {
	return filepath.Join(s.dir, "work", executor.EscapeName(t.Workflow.Name),
		executor.EscapeName(t.Name)+"-"+strconv.Itoa(int(try)))
}

// localName checks a logical file name once more after admission, and returns it as a relative path.
func localName(name string) (string, error) {
	if !trace.SafeName(name) || !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", fmt.Errorf("unsafe path: file %s is absolute or leaves its directory", shown.Quote(name))
	}
	if trace.ReservedName(name) {
		return "", fmt.Errorf("unsafe path: file %s has a name that gantry uses itself", shown.Quote(name))
	}
	return filepath.FromSlash(path.Clean(name)), nil
}

// mkdir makes a directory that belongs to the caller, and those above it within the run directory.
func (s *Area) mkdir(dir string) error { return mkdirs(s.dir, dir, s.Owner) }

// mkdirOf makes a directory of a workflow.
func (s *Area) mkdirOf(w *executor.WorkflowSpec, dir string) error {
	return mkdirs(s.dir, dir, s.OwnerOf(w))
}

// mkdirs makes the directories from below base to dir.
func mkdirs(base, dir string, o Owner) error {
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
	return o.Takes(dir)
}

// Staged is the account of Stage.
type Staged struct {
	Read   unit.Bytes // sizes of the inputs
	Copied unit.Bytes // of those that came from other nodes
	Moved  unit.Bytes // of a checkpoint that came from another node
	// Resumed is the checkpoint that the program continues from, at ResumeFile; nil if it starts from the beginning.
	Resumed *emulate.Checkpoint
	Note    string // why it starts from the beginning although the launch has a checkpoint
}

// Stage makes the work directory of an attempt and brings every input to its node. Spec is the emulated work, needed if
// the attempt continues from a checkpoint.
func (s *Area) Stage(ctx context.Context, l *executor.Launch, spec *emulate.Spec) (did Staged, err error) {
	if err := CheckNames(l.Spec); err != nil {
		return did, err
	}
	if err := s.makeWork(l.Spec, l.Try); err != nil {
		return did, err
	}
	if err := s.mkdirOf(l.Spec.Workflow, s.NodeDir(l.Node, l.Spec.Workflow)); err != nil {
		return did, err
	}
	err = s.As(l.Spec.Workflow, func() (err error) {
		did, err = s.fill(ctx, l, spec)
		return err
	})
	return did, err
}

func (s *Area) fill(ctx context.Context, l *executor.Launch, spec *emulate.Spec) (Staged, error) {
	t, user := l.Spec, s.UserOf(l.Spec.Workflow)
	did := Staged{Copied: l.Ahead}
	dir := s.WorkDir(t, l.Try)
	if err := s.inputs(ctx, l, dir, &did); err != nil {
		return did, err
	}
	for _, f := range t.Outputs {
		name, _ := localName(f.Name)
		name = localAs(t, f, name)
		if f.Glob {
			name = name[:strings.IndexAny(name, trace.GlobMeta)+1] // the directories that the pattern names
		}
		if err := mkdirs(dir, filepath.Dir(filepath.Join(dir, name)), user); err != nil {
			return did, err
		}
	}
	if err := s.keepCheckpoints(ctx, l, dir); err != nil {
		return did, err
	}
	if l.From != nil {
		if err := s.bringCheckpoint(ctx, l, dir, spec, &did); err != nil {
			return did, err
		}
	}
	return did, s.dropTries(l)
}

// dropTries deletes the files of earlier tries in their work directories: their output and commands stay, and so do
// files that this attempt has to find again if it is staged a second time, after a crash.
func (s *Area) dropTries(l *executor.Launch) error {
	keep := map[string]bool{}
	for _, f := range l.Spec.Outputs {
		if f.Checkpoint {
			top, _, _ := strings.Cut(path.Clean(f.Name), "/")
			keep[top] = true
		}
	}
	for try := l.Try - 1; s.Scratch && try > 0; try-- {
		if l.From != nil && l.From.Try == try {
			continue
		}
		dir := s.WorkDir(l.Spec, try)
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete files of try %d: %w", try, err)
		}
		for _, e := range entries {
			link := e.Type()&fs.ModeSymlink != 0 // to an input: it takes no room
			if link || keep[e.Name()] || e.Type().IsRegular() && trace.ReservedName(e.Name()) {
				continue
			}
			if err := RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("delete files of try %d: %w", try, err)
			}
		}
	}
	return nil
}

// CheckNames refuses a task with file names that are not safe to use.
func CheckNames(t *executor.TaskSpec) error {
	names := []string{t.Stdin, t.Stdout, t.Stderr}
	for _, r := range t.Renames {
		names = append(names, r.As)
	}
	for _, f := range slices.Concat(t.Inputs, t.Outputs) {
		names = append(names, f.Name, f.Program)
	}
	for _, name := range names {
		if _, err := localName(name); name != "" && err != nil {
			return err
		}
	}
	return nil
}

// makeWork makes an empty work directory for the user of programs.
func (s *Area) makeWork(t *executor.TaskSpec, try int32) error {
	dir, mode := s.WorkDir(t, try), fs.FileMode(0o755)
	if t.Workflow.By != nil {
		mode = 0o700
	}
	if err := s.makeOwn(t.Workflow); err != nil {
		return err
	}
	if err := s.mkdirOf(t.Workflow, filepath.Dir(dir)); err != nil {
		return err
	}
	err := os.Mkdir(dir, mode)
	if errors.Is(err, fs.ErrExist) { // left by a former life of this very attempt; nothing in it was published
		if err = RemoveAll(dir); err == nil {
			err = os.Mkdir(dir, mode)
		}
	}
	if err != nil {
		return err
	}
	return s.UserOf(t.Workflow).Takes(dir)
}

// inputs brings the inputs of an attempt to its node and shows them in its work directory.
func (s *Area) inputs(ctx context.Context, l *executor.Launch, dir string, did *Staged) error {
	t := l.Spec
	fetch := map[planner.FileID]planner.NodeID{}
	for _, f := range l.Fetch {
		fetch[f.File] = f.From
	}
	inputs := slices.DeleteFunc(slices.Clone(t.Inputs), func(f *executor.FileSpec) bool { // it is nowhere
		return f.Optional && !f.Produced && f.External == "" && len(t.Command) > 0
	})
	if err := s.bring(ctx, t.Workflow, l.Node, inputs...); err != nil {
		return err
	}
	copied, err := s.copyAll(ctx, t.Workflow, inputs, fetch, l.Node)
	if did.Copied += copied; err != nil {
		return err
	}
	var blocks []string // of the file at hand
	for _, f := range inputs {
		part := s.Path(l.Node, t.Workflow, f)
		size, err := sizeOf(part)
		if errors.Is(err, fs.ErrNotExist) && f.Optional {
			continue
		}
		if err != nil {
			return fmt.Errorf("input %s is not on node %s: %w", shown.Quote(f.NodeName()),
				s.platform.Nodes[l.Node].Name, err)
		}
		did.Read += size
		if f.Blocks > 0 {
			if blocks = append(blocks, part); f.Block < f.Blocks-1 {
				continue
			}
			part = filepath.Join(s.NodeDir(l.Node, t.Workflow), filepath.FromSlash(path.Clean(f.Name)))
			if err := s.join(ctx, t.Workflow, f, part, blocks); err != nil {
				return err
			}
			blocks = nil
		}
		if err := s.showInput(ctx, t, f, part, dir); err != nil {
			return err
		}
	}
	return nil
}

// changes reports whether a task writes an input, too.
func changes(t *executor.TaskSpec, f *executor.FileSpec) bool {
	return slices.ContainsFunc(t.Outputs, func(o *executor.FileSpec) bool { return o.Name == f.Name })
}

// localAs is the name that a file has in the work directory of a task.
func localAs(t *executor.TaskSpec, f *executor.FileSpec, name string) string {
	for _, r := range t.Renames {
		if r.File == f.Name {
			return filepath.FromSlash(path.Clean(r.As))
		}
	}
	return name
}

// showInput makes an input, which is on the node, appear in the work directory: of a glob all files, but the emulator
// reads the directory.
func (s *Area) showInput(ctx context.Context, t *executor.TaskSpec, f *executor.FileSpec, at, dir string) (
	err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("input %s: %w", shown.Quote(f.Name), err)
		}
	}()
	if !f.Glob {
		name, err := localName(cmp.Or(f.Program, f.Name))
		if err != nil {
			return err
		}
		return s.show(ctx, t, at, dir, localAs(t, f, name), changes(t, f), f.Program != "")
	}
	if len(t.Command) == 0 {
		return s.show(ctx, t, at, dir, filepath.FromSlash(f.NodePath()), false, false)
	}
	files, err := Files(at)
	for _, name := range files {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("%s is among the inputs twice", name)
		}
		if err := s.show(ctx, t, filepath.Join(at, name), dir, name, changes(t, f), false); err != nil {
			return err
		}
	}
	return err
}

// show makes an input appear in the work directory: as a link, or as a copy if the task changes it, so that the
// published file stays as it is. A program is a copy that can be executed.
func (s *Area) show(ctx context.Context, t *executor.TaskSpec, at, dir, name string, changes, program bool) error {
	to, user := filepath.Join(dir, name), s.UserOf(t.Workflow)
	if err := mkdirs(dir, filepath.Dir(to), user); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if program {
		mode = 0o755
	} else if !changes {
		if err := os.Symlink(at, to); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	}
	return copyTree(ctx, to, at, mode, 0, user)
}

// bring puts those of the files that come from outside, and blocks of such, on the nodes that have them from the start;
// one that is everywhere comes to node n when it is first read there. They are copies of the user's own, made once per
// run, or made-up content where the trace has only a size. Nodes share them by hard links: they exist from the start,
// so nothing is to be waited for.
func (s *Area) bring(ctx context.Context, w *executor.WorkflowSpec, n planner.NodeID,
	files ...*executor.FileSpec) error {
	var from []*executor.FileSpec
	var first []arrival // where each has to be at first
	for _, f := range files {
		if f.Produced {
			continue
		}
		if _, err := localName(f.Name); err != nil {
			return err
		}
		from, first = append(from, f), append(first, arrival{at: s.Path(homes(f, n)[0], w, f),
			what: "input " + shown.Quote(f.Name) + " from outside",
			make: func(tmp string, last *folder) (bool, error) { return s.outsideFile(ctx, w, f, tmp, last) }})
	}
	if err := s.arriveAll(ctx, w, copiers, first...); err != nil {
		return err
	}
	var links []arrival
	for i, f := range from {
		for _, home := range homes(f, n)[1:] {
			if at := s.Path(home, w, f); at != first[i].at {
				links = append(links, arrival{at: at, what: first[i].what,
					make: func(tmp string, _ *folder) (bool, error) { return false, s.linkTree(w, first[i].at, tmp) }})
			}
		}
	}
	return s.arriveAll(ctx, w, 1, links...)
}

// homes are the nodes that have a file from outside.
func homes(f *executor.FileSpec, n planner.NodeID) []planner.NodeID {
	if f.Homes == nil {
		return []planner.NodeID{0, n}
	}
	return f.Homes
}

// arrival is a file on its way to its place.
type arrival struct {
	at, what string // the kind of file and its place, for errors
	// make makes it under another name, and reports whether its bytes have to be durable before it gets its own. Last
	// is the directory of the file from outside that was made before.
	make   func(tmp string, last *folder) (isCopy bool, err error)
	logged bool // it has to be there after a crash of the host
}

// copiers is how many files from outside are copied at once: most are small, and two cores are quicker than one.
const copiers = 4

// arriveAll has files made that are not there yet, some at once. They get their names once all are complete and
// durable.
func (s *Area) arriveAll(ctx context.Context, w *executor.WorkflowSpec, atOnce int, all ...arrival) error {
	paths := make([]string, len(all))
	for i, a := range all {
		paths[i] = a.at
	}
	return s.making.all(ctx, paths, func(mine []int) error {
		tmps, copies := make([]string, len(mine)), make([]string, len(mine))
		defer func() {
			for _, tmp := range tmps {
				if tmp != "" {
					os.RemoveAll(tmp)
				}
			}
		}()
		err := s.sideBySide(w, min(atOnce, len(mine)), len(mine), func(i int, last *folder) error {
			tmps[i] = filepath.Join(s.partialOf(w), strconv.FormatInt(s.partial.Add(1), 10))
			isCopy, err := all[mine[i]].make(tmps[i], last)
			if err != nil {
				return fmt.Errorf("%s: %w", all[mine[i]].what, err)
			}
			if isCopy {
				copies[i] = tmps[i]
			}
			return nil
		})
		if err == nil {
			err = settle(slices.DeleteFunc(copies, func(tmp string) bool { return tmp == "" })...)
		}
		if err != nil {
			return err
		}
		dirs := map[string]bool{}
		for i, k := range mine {
			a, dir := all[k], filepath.Dir(all[k].at)
			err := s.OwnerOf(w).Takes(tmps[i])
			logged, made := dirs[dir]
			if dirs[dir] = logged || a.logged; !made && err == nil {
				err = s.mkdirOf(w, dir)
			}
			if err == nil {
				err = rename(tmps[i], a.at)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", a.what, err)
			}
			tmps[i] = ""
		}
		maps.DeleteFunc(dirs, func(_ string, logged bool) bool { return !logged })
		return settleEach(slices.Collect(maps.Keys(dirs)))
	})
}

// rename is os.Rename, but for a look at the new name before.
func rename(from, to string) error {
	err := unix.Rename(from, to)
	for err == unix.EINTR { // by file systems of the network and of programs
		err = unix.Rename(from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// sideBySide does n things of a workflow, some at once, until one fails. Its error is that of the first in order.
func (s *Area) sideBySide(w *executor.WorkflowSpec, atOnce, n int, do func(i int, last *folder) error) error {
	var work errgroup.Group
	var next atomic.Int64
	errs := make([]error, n)
	for range atOnce {
		work.Go(func() error {
			return s.As(w, func() error {
				var last folder
				defer last.close()
				for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
					if errs[i] = do(int(i), &last); errs[i] != nil {
						next.Store(int64(n))
					}
				}
				return nil
			})
		})
	}
	err := work.Wait()
	return cmp.Or(cmp.Or(errs...), err)
}

// outsideFile makes a file from outside, and reports whether it is a copy. Last is the directory of the one before.
func (s *Area) outsideFile(ctx context.Context, w *executor.WorkflowSpec, f *executor.FileSpec, to string,
	last *folder) (bool, error) {
	if f.External == "" {
		return false, makeUp(ctx, to, f, s.seed)
	}
	// it is the run's own
	if filepath.Dir(f.External) == filepath.Join(s.dir, FetchedDir) && f.Blocks == 0 && w.By == nil {
		return false, os.Link(f.External, to)
	}
	u := s.rights(w, s.Owner)
	open := func(path string) (*os.File, fs.FileInfo, error) {
		in, st, err := u.opener(last)(path)
		if err == nil && f.Modified != 0 && st.ModTime().UnixNano() != f.Modified {
			err = fmt.Errorf("%s was changed at %s, after the run had begun: start a new run", path,
				st.ModTime().Format(time.DateTime))
		}
		return in, st, err
	}
	return true, u.copyFrom(ctx, to, extent{f.External, int64(f.From), int64(f.To), open}, 0o644, s.OwnerOf(w), last)
}

// FetchedDir is where files from http addresses lie in a run directory.
const FetchedDir = "fetched"

// join makes a file of its blocks on the node where they all lie.
func (s *Area) join(ctx context.Context, w *executor.WorkflowSpec, f *executor.FileSpec, at string,
	blocks []string) error {
	parts := make([]extent, len(blocks))
	for i, b := range blocks {
		parts[i].path = b
	}
	return s.arriveAll(ctx, w, 1, arrival{at: at, what: "input " + shown.Quote(f.Name),
		make: func(tmp string, _ *folder) (bool, error) { return true, copyWhole(ctx, tmp, 0, 0o644, parts...) }})
}

// once keeps several attempts from making one file at the same time.
type once struct {
	mu     sync.Mutex
	making map[string]chan struct{} // by path, closed when it was made or could not be
}

// all has those of the files produced, by their numbers, that do not exist. Callers that come meanwhile wait for the
// first, and produce those that are still missing then.
func (o *once) all(ctx context.Context, paths []string, produce func(mine []int) error) error {
	for {
		done, mine, others := o.claim(paths)
		if len(mine) > 0 {
			err := produce(mine)
			o.mu.Lock()
			for _, i := range mine {
				delete(o.making, paths[i])
			}
			o.mu.Unlock()
			close(done)
			if err != nil {
				return err
			}
		}
		if len(others) == 0 {
			return nil
		}
		for other := range others {
			select {
			case <-other:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// claim returns the files that the caller has to make, and channels that others close when they have made the rest.
func (o *once) claim(paths []string) (done chan struct{}, mine []int, others map[chan struct{}]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.making == nil {
		o.making = map[string]chan struct{}{}
	}
	done, others = make(chan struct{}), map[chan struct{}]bool{}
	for i, path := range paths {
		if other := o.making[path]; other == done {
			continue
		} else if other != nil {
			others[other] = true
		} else if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() && !st.IsDir() {
			o.making[path] = done
			mine = append(mine, i)
		}
	}
	return done, mine, others
}

// mostTail bounds the bytes that Last reads.
const mostTail = 64 << 10

// OpenIn opens a regular file below a directory. A program may have put anything in its place: a link that leads out of
// the directory is not followed, and a pipe or a device is not opened.
func OpenIn(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is no regular file: a program replaced it", f.Name()), f.Close())
	}
	return f, nil
}

// Last returns the last lines of a regular file in a work directory.
func Last(dir, name string, lines int) (string, error) {
	text, _, err := end(dir, name)
	return lastOf(text, lines), err
}

func lastOf(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// end returns the end of a regular file in a work directory; whole is false if it has more.
func end(dir, name string) (text string, whole bool, err error) {
	f, err := OpenIn(dir, name)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", false, err
	}
	b := make([]byte, min(st.Size(), mostTail))
	n, err := f.ReadAt(b, st.Size()-int64(len(b)))
	if err != nil && !errors.Is(err, io.EOF) {
		return "", false, err
	}
	return string(b[:n]), st.Size() <= mostTail, nil
}

// Tail is Last in one line, made harmless for terminals; "" if there is nothing to be read. Mask takes secrets
// out: it sees whole lines, as the program wrote them, before anything is cut.
func Tail(dir, name string, lines int, mask func(string) string) string {
	text, whole, _ := end(dir, name)
	if !whole { // the first line may begin within a secret
		_, text, _ = strings.Cut(text, "\n")
	}
	text = lastOf(mask(text), lines)
	all := strings.Split(strings.Trim(strings.Map(func(c rune) rune {
		if c == '\n' || c >= ' ' && c != 0x7f && c != 0xfffd && (c < 0x80 || c > 0x9f) {
			return c
		}
		if c == '\t' {
			return ' '
		}
		return -1
	}, text), "\n"), "\n")
	for i, l := range all {
		if len(l) > 300 {
			all[i] = strings.ToValidUTF8(l[:300], "") + "..."
		}
	}
	return strings.Join(all, " | ")
}

// Write writes a file of one name into a work directory, to which a program could write: its file of that name goes.
func Write(dir, name, text string, mode fs.FileMode) error {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL // which follows no link
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, flags, mode)
	if errors.Is(err, fs.ErrExist) {
		_ = os.RemoveAll(path)
		f, err = os.OpenFile(path, flags, mode)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Secrets writes files that only o can read into a new directory that only the user of this process can enter.
func Secrets[T string | []byte](dir string, o Owner, values map[string]T) error {
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return err
	}
	for name, value := range values {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(value), 0o400), o.Takes(path)); err != nil {
			return err
		}
	}
	return nil
}
