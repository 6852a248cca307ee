package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"gantry/cgroup"
	"gantry/cmd/internal/exit"
	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/fetch"
	"gantry/executor/container/gpu"
	"gantry/executor/container/stage"
	"gantry/executor/lock"
	"gantry/planner/unit"
	"gantry/sqlite"
)

// OpenShell opens a shell in a container like that of a task.
func OpenShell(ctx context.Context, home string, db *sqlite.DB, life *sqlite.Life, program string, tty bool) error {
	spec, err := db.Spec(ctx, life)
	if err != nil {
		return LogError(err)
	}
	if spec == nil {
		return exit.Internalf("task %s of run %s is not in the definition of its workflow", life.Task, life.Run)
	}
	if len(spec.Command) == 0 || spec.Image == "" {
		return exit.Inputf("task %s of run %s has no program of its own: the emulator stood in for it, which has "+
			"no shell", life.Task, life.Run)
	}
	info, err := db.Info(ctx, life.Run)
	if err != nil {
		return LogError(err)
	}
	if !Capabilities(info.Runtime).Programs {
		return exit.Usagef("runs on the %s runtime have no shell: read gantry logs %s %s", info.Runtime, life.Run,
			life.Task)
	}
	row := RuntimeNamed(HostRuntime(ctx, info.Runtime))
	if row.Engine == nil {
		return exit.Hostf("no runtime here makes containers: gantry doctor says why")
	}
	if err := Enter(row.Name); err != nil {
		return err
	}
	box := &sandbox{dir: filepath.Join(home, life.Run), life: life, spec: spec, node: info.Platform.Nodes[0].Name,
		user: stage.ProgramUser(), rights: stage.Caller().Rights(), runtime: row}
	if a := life.Last(); a != nil && a.Node != "" {
		box.node = a.Node
	}
	if by := spec.Workflow.By; by != nil {
		box.user, box.rights = stage.Owner{UID: by.UID, GID: by.GID}, stage.User(*by)
	}
	box.findGPUs(&info)
	defer box.remove()
	if err := box.prepare(ctx); err != nil {
		return exit.With(exit.Host, err)
	}
	if tty {
		fmt.Fprintf(os.Stderr, "task %s of run %s in %s; its command is .command.sh; exit leaves nothing behind\n",
			life.Task, life.Run, spec.Image)
	}
	return box.enter(ctx, program, tty)
}

// sheller is an engine that opens shells in containers.
type sheller interface {
	// Shell runs a container with the standard streams of this process as a user, and returns its exit code.
	Shell(ctx context.Context, s *container.Spec, uid, gid int, terminal bool, begun func(id string)) (int, error)
	RemoveNamed(ctx context.Context, name string) error
}

// sandbox is the directory and the container of a shell.
type sandbox struct {
	dir  string // of the run
	life *sqlite.Life
	spec *executor.TaskSpec
	node string // whose files the task would see
	work string // "" until it was made
	name string // of the container, which a runtime of this host makes

	runtime *Runtime
	lock    *os.File

	user   stage.Owner // of the task's programs
	rights stage.User  // by which files are read, and written where that user can change names

	gpus  []string   // names of its GPUs
	edits *gpu.Edits // by which it gets them; nil if it has none
}

// findGPUs finds out how the shell gets the GPUs that the last attempt held, or says why it has none. Until the run is
// over, other tasks may hold them.
func (b *sandbox) findGPUs(info *sqlite.RunInfo) {
	a := b.life.Last()
	if a == nil || a.GPUs == "" {
		return
	}
	set, err := SettingsOf(info)
	if b.life.RunState == sqlite.Running {
		err = fmt.Errorf("until run %s is over, other tasks may hold %s", b.life.Run, a.GPUs)
	}
	if err == nil {
		host := gpu.Open(set.CDI)
		b.gpus = strings.Split(a.GPUs, ",")
		b.edits, err = host.Edits(b.gpus)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "the shell has no GPU: %v\n", err)
	}
}

// nodeDir is where the files of the task's workflow lie.
func (b *sandbox) nodeDir() string {
	return filepath.Join(b.dir, "nodes", executor.EscapeName(b.node), executor.EscapeName(b.spec.Workflow.Name))
}

// prepare makes a directory like that of an attempt.
func (b *sandbox) prepare(ctx context.Context) error {
	if err := stage.CheckNames(b.spec); err != nil {
		return err
	}
	container.UsualUmask()
	above := filepath.Join(b.dir, "work", executor.EscapeName(b.spec.Workflow.Name))
	for _, dir := range []string{above, b.nodeDir()} { // a task may not have begun
		if b.spec.Workflow.By != nil { // the directories of other users are made when the first task begins
			break
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("directory of the shell: %w", err)
		}
	}
	work, err := os.MkdirTemp(above, executor.EscapeName(b.spec.Name)+"-shell.")
	if err != nil {
		return fmt.Errorf("directory of the shell: %w", err)
	}
	b.work, b.name = work, shellName(work)
	if b.lock, err = lockFile(filepath.Join(work, shellMark)); err != nil {
		return fmt.Errorf("directory of the shell: %w", err)
	}
	if b.rights.UID != 0 && os.Geteuid() == 0 {
		if err := os.Lchown(work, b.user.UID, b.user.GID); err != nil {
			return err
		}
	}
	if b.rights.Do(func() { err = b.fill(ctx) }); err != nil || b.rights.UID != 0 {
		return err
	}
	return filepath.WalkDir(work, func(p string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, b.user.UID, b.user.GID))
	})
}

// fill makes the files of a task.
func (b *sandbox) fill(ctx context.Context) error {
	outputs := map[string]bool{}
	for _, f := range b.spec.Outputs {
		outputs[f.Name] = true
	}
	for _, f := range b.spec.Inputs {
		if f.Block > 0 {
			continue
		}
		name := filepath.FromSlash(path.Clean(f.Name))
		at := filepath.Join(b.nodeDir(), filepath.FromSlash(path.Clean(f.NodePath())))
		if f.Blocks > 0 {
			at = filepath.Join(b.nodeDir(), name)
		}
		if _, err := os.Lstat(at); err != nil {
			if f.External == "" || f.Blocks > 0 {
				fmt.Fprintf(os.Stderr, "input %s is not on node %s: the task that writes it has not run there, or it "+
					"was deleted\n", f.Name, b.node)
				continue
			}
			at = f.External
		}
		if err := b.show(ctx, at, cmp.Or(f.Program, name), f, outputs[f.Name]); err != nil {
			return fmt.Errorf("input %s: %w", f.Name, err)
		}
	}
	for _, f := range b.spec.Outputs {
		if err := os.MkdirAll(filepath.Join(b.work, filepath.Dir(filepath.FromSlash(f.Name))), 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(b.work, ".command.sh"), []byte(container.Script(b.spec)), 0o755)
}

// show makes an input appear: as a link if the container can only read it, or as a copy that can be changed or run.
func (b *sandbox) show(ctx context.Context, at, name string, f *executor.FileSpec, changes bool) error {
	to := filepath.Join(b.work, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	inside := strings.HasPrefix(at, b.nodeDir()+string(filepath.Separator))
	mode := fs.FileMode(0o644)
	if f.Program != "" {
		mode = 0o755
	} else if inside && !changes {
		return os.Symlink(at, to)
	}
	return b.rights.Copy(ctx, to, at, mode, stage.Owner{UID: b.rights.UID, GID: b.rights.GID})
}

// remove deletes the directory and lets its lock go.
func (b *sandbox) remove() {
	if b.work != "" {
		_ = os.RemoveAll(b.work)
	}
	if b.lock != nil {
		b.lock.Close()
	}
}

// limits are those that the last attempt had, else those of the task.
func (b *sandbox) limits() (out cgroup.Limits) {
	l := b.life
	cpu, memory, read, write := l.CPU, l.Memory, l.Disk, l.Disk
	if a := l.Last(); a != nil {
		for to, applied := range map[*int64]*int64{&cpu: a.AppliedCPU, &memory: a.AppliedMemory,
			&read: a.AppliedReadBps, &write: a.AppliedWrite} {
			if applied != nil && *applied > 0 {
				*to = *applied
			}
		}
	}
	out.PIDs = container.DefaultPIDs
	limited := func(x int64) bool { return x > 0 && x != unit.Unlimited }
	if limited(cpu) {
		out.CPUPeriod = 100 * time.Millisecond
		out.CPUQuota = max(out.CPUPeriod*time.Duration(cpu)/1000, time.Millisecond)
	}
	if limited(memory) {
		out.Memory = max(memory, executor.MinMemory)
		out.MemorySwap = out.Memory
	}
	device, ok, err := cgroup.DeviceOf(b.dir)
	if err != nil || !ok {
		return out
	}
	out.Device = device
	if limited(read) {
		out.ReadBps = read
	}
	if limited(write) {
		out.WriteBps = write
	}
	return out
}

// shellMark is a file in the directory of a shell: whose shell it is locks it.
const shellMark = ".command.shell"

// lockFile makes a file that this process locks until it ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err = lock.Take(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// cleanShells removes containers and directories of shells whose gantry was killed, of one run or of all, and returns
// the names of the containers.
func cleanShells(ctx context.Context, home, run string) (removed []string, err error) {
	marks, err := fs.Glob(os.DirFS(home), path.Join(cmp.Or(run, "*"), "work", "*", "*-shell.*", shellMark))
	for _, mark := range marks {
		mark = filepath.Join(home, mark)
		name := shellName(filepath.Dir(mark))
		if !isShell.MatchString(name) || lock.Taken(mark) {
			continue
		}
		if e := removeShell(ctx, filepath.Dir(mark), name); e != nil {
			err = errors.Join(err, fmt.Errorf("remove container %s: %w", name, e))
			continue
		}
		err = errors.Join(err, os.RemoveAll(filepath.Dir(mark)))
		removed = append(removed, name)
	}
	return removed, err
}

// shellName is the name of the container of a shell in a directory of that shell alone.
func shellName(dir string) string {
	return "gantry-shell-" + strings.TrimPrefix(filepath.Ext(dir), ".")
}

var isShell = regexp.MustCompile(`^gantry-shell-[0-9]+$`)

// removeShell removes the container of a shell in a directory, whichever runtime made it: its program could have
// changed a note of that.
func removeShell(ctx context.Context, work, name string) (err error) {
	for i := range Runtimes {
		row := &Runtimes[i]
		if row.Engine == nil || row.IsUsable(ctx) != nil {
			continue
		}
		e, failed := row.Engine(ctx, EngineWants{Dirs: []string{filepath.Dir(filepath.Dir(filepath.Dir(work)))}})
		if failed == nil {
			failed = errors.Join(e.(sheller).RemoveNamed(ctx, name), e.Close())
		}
		err = errors.Join(err, failed)
	}
	return err
}

// onSignal calls end at SIGTERM and SIGHUP until stop is called. A terminal sends Ctrl-C to the shell, too, which
// decides.
func onSignal(end func()) (stop func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for s := range signals {
			if s != os.Interrupt {
				end()
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals) // nothing is sent any more
	}
}

// enter runs the shell until it ends.
func (b *sandbox) enter(ctx context.Context, program string, tty bool) error {
	found, store, err := b.runtime.Images.Fetch(ctx, string(fetch.PullMissing),
		[]fetch.Wanted{{Ref: b.spec.Image, ID: b.life.ImageID}})
	if err != nil {
		return exit.With(exit.Host, err)
	}
	if store != nil {
		defer store.Close()
		if err := store.Keep(b.work); err != nil {
			return exit.With(exit.Host, err)
		}
		defer store.Forget(b.work)
	}
	e, err := b.runtime.Engine(ctx, EngineWants{Dirs: []string{b.dir}, Store: store})
	if err != nil {
		return exit.With(exit.Host, err)
	}
	defer e.Close()
	if _, err := e.Host(ctx); err != nil {
		return exit.With(exit.Host, err)
	}
	stop := func() {}
	code, err := e.(sheller).Shell(ctx, b.container(found[0].ID, program, tty), b.user.UID, b.user.GID, tty,
		func(id string) {
			stop = onSignal(func() { _ = e.Signal(context.WithoutCancel(ctx), id, "SIGKILL") })
		})
	stop()
	if err != nil {
		return exit.Hostf("the container of the shell: %w", err)
	}
	if code != 0 {
		return exit.With(code, nil)
	}
	return nil
}

// container says how the container is to be. A task may have written to its mounts: nothing that happens in a shell
// stays.
func (b *sandbox) container(image, program string, tty bool) *container.Spec {
	s := &container.Spec{Name: b.name, Image: image, Args: []string{program}, Dir: b.work, Network: b.spec.Network,
		Env: append([]string{executor.Home}, b.spec.Env...), Labels: map[string]string{"gantry.shell": b.life.Run},
		Tmpfs: map[string]string{"/tmp": "rw,exec,nosuid,nodev,mode=1777"},
		Mounts: []container.Mount{{Source: b.work, Target: b.work},
			{Source: b.nodeDir(), Target: b.nodeDir(), ReadOnly: true}},
		Limits: b.limits(), GPUs: b.gpus, Edits: b.edits}
	if b.edits != nil {
		s.Env = append(s.Env, b.edits.Env...)
	}
	if image == executor.HostImage { // which may show the log
		s.Tmpfs[filepath.Dir(b.dir)] = "rw,nosuid,nodev,noexec,size=64k,mode=0755"
	}
	if tty {
		s.Env = append(s.Env, "TERM="+os.Getenv("TERM"))
	}
	for _, m := range b.spec.Mounts {
		p := executor.ParseMount(m)
		s.Mounts = append(s.Mounts, container.Mount{Source: p.From, Target: p.To, ReadOnly: true, Given: true})
	}
	return s
}
