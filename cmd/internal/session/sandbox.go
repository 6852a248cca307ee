package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gantry/cgroup"
	"gantry/cmd/internal/exit"
	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/fetch"
	"gantry/executor/container/gpu"
	"gantry/executor/container/oci"
	"gantry/executor/container/stage"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
)

// OpenShell opens a shell in a container like that of a task.
func OpenShell(ctx context.Context, home string, db *sqlite.DB, life *sqlite.Life, program string, tty bool) error {
	spec, node, err := taskOf(ctx, db, life)
	if err != nil {
		return err
	}
	if len(spec.Command) == 0 || spec.Image == "" {
		return exit.Inputf("task %s of run %s has no program of its own: the emulator stood in for it, which has "+
			"no shell", life.Task, life.Run)
	}
	info, err := db.Info(ctx, life.Run)
	if err != nil {
		return LogError(err)
	}
	row := RuntimeNamed(info.Runtime)
	if row == nil || row.shell == nil {
		return exit.Usagef("runs on the %s runtime have no shell: read gantry logs %s %s", info.Runtime, life.Run,
			life.Task)
	}
	row = RuntimeNamed(HostRuntime(ctx, info.Runtime))
	if err := Enter(row.Name); err != nil {
		return err
	}
	box := &sandbox{dir: filepath.Join(home, life.Run), life: life, spec: spec, node: node, user: stage.ProgramUser(),
		rights: stage.Caller().Rights()}
	if by := spec.Workflow.By; by != nil {
		box.user, box.rights = stage.Owner{UID: by.UID, GID: by.GID}, stage.User(*by)
	}
	box.findGPUs(info.Settings)
	defer box.remove()
	if err := box.prepare(ctx); err != nil {
		return exit.With(exit.Host, err)
	}
	if tty {
		fmt.Fprintf(os.Stderr, "task %s of run %s in %s; its command is .command.sh; exit leaves nothing behind\n",
			life.Task, life.Run, spec.Image)
	}
	return row.shell.enter(ctx, box, program, tty)
}

// sheller is how a runtime opens shells.
type sheller struct {
	enter func(ctx context.Context, b *sandbox, program string, tty bool) error
	// remove removes the container of a shell of a run, whose directory is dir, if it exists.
	remove func(ctx context.Context, dir, name string) error
}

var (
	dockerShells = sheller{enterDocker, removeDockerShell}
	ociShells    = sheller{enterOCI, removeOCIShell}
)

// taskOf is a task as it was admitted, and the name of the node whose files it would see.
func taskOf(ctx context.Context, db *sqlite.DB, life *sqlite.Life) (*executor.TaskSpec, string, error) {
	flow, position, err := db.Position(ctx, life.Run, planner.TaskID(life.ID))
	if err != nil {
		return nil, "", LogError(err)
	}
	adm, err := db.Admission(ctx, life.Run, flow)
	if err != nil {
		return nil, "", LogError(err)
	}
	if position >= len(adm.Tasks) {
		return nil, "", exit.Internalf("task %s is not in the definition of its workflow", life.Task)
	}
	node := ""
	if n := len(life.Attempts); n > 0 {
		node = life.Attempts[n-1].Node
	}
	if node == "" {
		info, err := db.Info(ctx, life.Run)
		if err != nil {
			return nil, "", LogError(err)
		}
		node = info.Platform.Nodes[0].Name
	}
	return adm.Tasks[position], node, nil
}

// sandbox is the directory and the container of a shell.
type sandbox struct {
	dir  string // of the run
	life *sqlite.Life
	spec *executor.TaskSpec
	node string
	work string // "" until it was made
	name string // of the container
	lock *os.File

	user   stage.Owner // of the task's programs
	rights stage.User  // by which files are read, and written where that user can change names

	gpus  []string   // names of its GPUs
	edits *gpu.Edits // by which it gets them; nil if it has none
}

// findGPUs finds out how the shell gets the GPUs that the last attempt held, or says why it has none. Until the run is
// over, other tasks may hold them.
func (b *sandbox) findGPUs(settings []byte) {
	a := b.life.Last()
	if a == nil || a.GPUs == "" {
		return
	}
	set := new(Settings)
	err := json.Unmarshal(settings, set)
	if b.life.RunState == sqlite.Running {
		err = fmt.Errorf("until run %s is over, other tasks may hold %s", b.life.Run, a.GPUs)
	}
	if err == nil {
		host := gpu.Open(set.CDI)
		b.gpus = host.Distinct(strings.Split(a.GPUs, ","))
		b.edits, err = host.Edits(b.gpus)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "the shell has no GPU: %v\n", err)
	}
}

// gpuFlags are the flags of the docker command for GPUs. Docker itself has to know those with hooks.
func (b *sandbox) gpuFlags() (out []string) {
	if b.edits == nil {
		return nil
	}
	for _, e := range b.edits.Env {
		out = append(out, "--env", e)
	}
	if len(b.edits.Hooks) > 0 {
		for _, name := range b.gpus {
			out = append(out, "--device", name)
		}
		return out
	}
	for _, d := range b.edits.DeviceNodes {
		out = append(out, "--device", cmp.Or(d.HostPath, d.Path)+":"+d.Path+":"+cmp.Or(d.Permissions, "rwm"))
	}
	for _, m := range b.edits.Mounts {
		out = append(out, "--mount", "type=bind,source="+m.HostPath+",target="+m.ContainerPath+",readonly")
	}
	for _, id := range b.edits.AdditionalGIDs {
		out = append(out, "--group-add", strconv.Itoa(int(id)))
	}
	return out
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

// args are those of the docker command, up to the program.
func (b *sandbox) args(terminal bool, program string) []string {
	l := b.life
	out := []string{"run", "--rm", "--interactive", "--name", b.name, "--label", "gantry.shell=" + l.Run,
		"--user", fmt.Sprintf("%d:%d", b.user.UID, b.user.GID), "--workdir", b.work, "--read-only", "--cap-drop", "ALL",
		"--security-opt", "no-new-privileges", "--tmpfs", "/tmp:rw,exec,nosuid,nodev,mode=1777",
		"--env", "HOME=/tmp", "--mount", "type=bind,source=" + b.work + ",target=" + b.work,
		"--mount", "type=bind,source=" + b.nodeDir() + ",target=" + b.nodeDir() + ",readonly"}
	if terminal {
		out = append(out, "--tty", "--env", "TERM="+os.Getenv("TERM"))
	}
	if !b.spec.Network {
		out = append(out, "--network", "none")
	}
	out = append(out, limitFlags(b.limits())...)
	for _, m := range b.spec.Mounts {
		p := executor.ParseMount(m) // a task may have written to it: nothing that happens in a shell stays
		out = append(out, "--mount", "type=bind,source="+p.From+",target="+p.To+",readonly")
	}
	for _, e := range b.spec.Env {
		out = append(out, "--env", e)
	}
	out = append(out, b.gpuFlags()...)
	return append(out, "--entrypoint", program, b.image())
}

// image is the one that the task had, else the one that it would have.
func (b *sandbox) image() string { return cmp.Or(b.life.ImageID, b.spec.Image) }

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

// limitFlags are the flags of the docker command for limits.
func limitFlags(l cgroup.Limits) []string {
	out := []string{"--pids-limit", strconv.FormatInt(l.PIDs, 10)}
	if l.CPUQuota > 0 {
		out = append(out, "--cpu-period", strconv.FormatInt(l.CPUPeriod.Microseconds(), 10), "--cpu-quota",
			strconv.FormatInt(l.CPUQuota.Microseconds(), 10))
	}
	if l.Memory > 0 {
		text := strconv.FormatInt(l.Memory, 10)
		out = append(out, "--memory", text, "--memory-swap", text)
	}
	if l.ReadBps > 0 {
		out = append(out, "--device-read-bps", fmt.Sprintf("%s:%d", l.Device.Path, l.ReadBps))
	}
	if l.WriteBps > 0 {
		out = append(out, "--device-write-bps", fmt.Sprintf("%s:%d", l.Device.Path, l.WriteBps))
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
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// CleanShells removes containers and directories of shells whose gantry was killed, of one run or of all, and returns
// the names of the containers.
func CleanShells(ctx context.Context, home, run string) (removed []string, err error) {
	marks, err := fs.Glob(os.DirFS(home), path.Join(cmp.Or(run, "*"), "work", "*", "*-shell.*", shellMark))
	for _, mark := range marks {
		mark = filepath.Join(home, mark)
		name := shellName(filepath.Dir(mark))
		if !isShell.MatchString(name) || IsLocked(mark) {
			continue
		}
		if e := removeShell(ctx, filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(mark)))), name); e != nil {
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

// removeShell removes the container of a shell, by whichever runtime has it.
func removeShell(ctx context.Context, dir, name string) error {
	var failed error
	for _, s := range []sheller{dockerShells, ociShells} {
		failed = errors.Join(failed, s.remove(ctx, dir, name))
	}
	return failed
}

func removeDockerShell(ctx context.Context, _, name string) error {
	out, err := exec.CommandContext(ctx, "docker", "rm", "--force", name).CombinedOutput()
	said := strings.TrimSpace(string(out))
	if err == nil || errors.Is(err, exec.ErrNotFound) || strings.Contains(said, "No such container") ||
		strings.Contains(said, "is already in progress") {
		return nil
	}
	return fmt.Errorf("%w: %s", err, said)
}

// removeOCIShell looks at nothing but the run: without containers there nobody needs an OCI runtime.
func removeOCIShell(ctx context.Context, dir, name string) error {
	if !oci.Has(dir, name) {
		return nil
	}
	e, err := oci.Open(oci.Config{Dirs: []string{dir}})
	if err != nil {
		return err
	}
	defer e.Close()
	return e.RemoveNamed(ctx, name)
}

// onSignal calls end at SIGTERM and SIGHUP until stop is called. A terminal sends Ctrl-C to the shell, too, which
// decides.
func onSignal(end func()) (stop func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if s != os.Interrupt {
					end()
				}
			case <-ended:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
	}
}

// enterDocker runs the shell by the docker command until it ends.
func enterDocker(ctx context.Context, b *sandbox, program string, tty bool) error {
	c := exec.CommandContext(ctx, "docker", b.args(tty, program)...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	defer onSignal(func() { _ = exec.Command("docker", "kill", b.name).Run() })()
	defer func() { _ = removeDockerShell(context.WithoutCancel(ctx), b.dir, b.name) }() // mostly it is gone
	err := c.Run()
	ended := new(exec.ExitError)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return exit.Hostf("gantry shell needs the command docker on the PATH: %w", err)
	case errors.As(err, &ended):
		if ended.ExitCode() == 125 { // docker itself failed, and has said why
			return exit.Hostf("the container of the shell could not be started")
		}
		return exit.With(ended.ExitCode(), nil)
	case err != nil:
		return exit.Hostf("docker: %w", err)
	}
	return nil
}

// enterOCI runs the shell in a container without a daemon until it ends.
func enterOCI(ctx context.Context, b *sandbox, program string, tty bool) error {
	found, store, err := fetcher(fetchOCI).Fetch(ctx, string(fetch.PullMissing),
		[]fetch.Wanted{{Ref: b.spec.Image, ID: b.life.ImageID}})
	if err != nil {
		return exit.With(exit.Host, err)
	}
	defer store.Close()
	e, err := oci.Open(oci.Config{Dirs: []string{b.dir}, Images: store})
	if err != nil {
		return exit.With(exit.Host, err)
	}
	defer e.Close()
	s := &container.Spec{Name: b.name, Image: found[0].ID, Args: []string{program}, Dir: b.work,
		Network: b.spec.Network,
		Env:     append([]string{"HOME=/tmp"}, b.spec.Env...), Labels: map[string]string{"gantry.shell": b.life.Run},
		Tmpfs: map[string]string{"/tmp": "rw,exec,nosuid,nodev,mode=1777"},
		Mounts: []container.Mount{{Source: b.work, Target: b.work},
			{Source: b.nodeDir(), Target: b.nodeDir(), ReadOnly: true}},
		Limits: b.limits()}
	if s.GPUs, s.Edits = b.gpus, b.edits; b.edits != nil {
		s.Env = append(s.Env, b.edits.Env...)
	}
	if s.Image == executor.HostImage { // which may show the log
		s.Tmpfs[filepath.Dir(b.dir)] = "rw,nosuid,nodev,noexec,size=64k,mode=0755"
	}
	if tty {
		s.Env = append(s.Env, "TERM="+os.Getenv("TERM"))
	}
	for _, m := range b.spec.Mounts {
		p := executor.ParseMount(m) // a task may have written to it: nothing that happens in a shell stays
		s.Mounts = append(s.Mounts, container.Mount{Source: p.From, Target: p.To, ReadOnly: true,
			Given: true})
	}
	stop := func() {}
	code, err := e.Shell(ctx, s, b.user.UID, b.user.GID, tty, func(id string) {
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
