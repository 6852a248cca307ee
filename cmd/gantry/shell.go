package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"gantry/cgroup"
	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/oci"
	"gantry/executor/stage"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
)

func shellCommand() *cli.Command {
	return &cli.Command{
		Name:      "shell",
		Usage:     "open a shell in the image of a task, with its files and limits",
		ArgsUsage: "[RUN] TASK",
		Description: `Without RUN it is the latest run. TASK is the name of a task, WORKFLOW/NAME, #ID, or a
transformation that only one task has. The shell runs in a container like that of the task: its image, environment,
inputs, limits of CPU, memory, block I/O and processes, no network unless the task has it. It begins in a copy of the
task's directory, where .command.sh is the command; inputs are links that cannot be written to. The container and the
directory are removed when the shell ends, and nothing is published; gantry clean removes them if gantry was killed.

   gantry shell mBgModel
   echo 'sh .command.sh; ls -l' | gantry shell RUN TASK

A run with --runtime oci has no shell: its images may be none of Docker's.

Exit codes: that of the shell; 2 wrong command line, or a run with --runtime oci; 3 no such run or task, or one without
a program; 4 Docker not usable.`,
		Flags: []cli.Flag{dirFlag(), &cli.StringFlag{Name: "shell", Value: "/bin/sh",
			Usage: "`PROGRAM` of the image to run"}},
		Action: shell,
	}
}

func shell(c *cli.Context) error {
	db, life, err := findTask(c)
	if err != nil {
		return err
	}
	defer db.Close()
	home, err := filepath.Abs(c.String("dir"))
	if err != nil {
		return fail(exitHost, err)
	}
	spec, node, err := taskOf(c.Context, db, life)
	if err != nil {
		return err
	}
	if len(spec.Command) == 0 || spec.Image == "" {
		return failf(exitInput, "task %s of run %s has no program of its own: the emulator stood in for it, which has "+
			"no shell", life.Task, life.Run)
	}
	info, err := db.Info(c.Context, life.Run)
	if err != nil {
		return logError(err)
	}
	if info.Runtime == oci.Capabilities.Name { // its images may be none of the Docker Engine's
		return failf(exitUsage, "gantry shell opens containers of the Docker Engine, and run %s used --runtime oci: "+
			"run the workflow with --runtime docker for a shell, or read gantry logs %s %s",
			life.Run, life.Run, life.Task)
	}
	if _, err := exec.LookPath("docker"); err != nil {
		return failf(exitHost, "gantry shell needs the command docker on the PATH: %w", err)
	}
	box := &sandbox{dir: filepath.Join(home, life.Run), life: life, spec: spec, node: node}
	defer box.remove()
	if err := box.prepare(); err != nil {
		return fail(exitHost, err)
	}
	return box.enter(c.Context, c.String("shell"))
}

// taskOf is a task as it was admitted, and the name of the node whose files it would see.
func taskOf(ctx context.Context, db *sqlite.DB, life *sqlite.Life) (*executor.TaskSpec, string, error) {
	flow, position, err := db.Position(ctx, life.Run, planner.TaskID(life.ID))
	if err != nil {
		return nil, "", logError(err)
	}
	adm, err := db.Admission(ctx, life.Run, flow)
	if err != nil {
		return nil, "", logError(err)
	}
	if position >= len(adm.Tasks) {
		return nil, "", failf(exitInternal, "task %s is not in the definition of its workflow", life.Task)
	}
	node := ""
	if n := len(life.Attempts); n > 0 {
		node = life.Attempts[n-1].Node
	}
	if node == "" {
		info, err := db.Info(ctx, life.Run)
		if err != nil {
			return nil, "", logError(err)
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
}

// nodeDir is where the files of the task's workflow lie.
func (b *sandbox) nodeDir() string {
	return filepath.Join(b.dir, "nodes", executor.EscapeName(b.node), executor.EscapeName(b.spec.Workflow.Name))
}

// prepare makes a directory like that of an attempt.
func (b *sandbox) prepare() error {
	above := filepath.Join(b.dir, "work", executor.EscapeName(b.spec.Workflow.Name))
	for _, dir := range []string{above, b.nodeDir()} { // a task may not have begun
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("directory of the shell: %w", err)
		}
	}
	work, err := os.MkdirTemp(above, executor.EscapeName(b.spec.Name)+"-shell.")
	if err != nil {
		return fmt.Errorf("directory of the shell: %w", err)
	}
	b.work, b.name = work, "gantry-shell-"+strings.TrimPrefix(filepath.Ext(work), ".")
	if b.lock, err = lockFile(filepath.Join(work, shellMark), b.name); err != nil {
		return fmt.Errorf("directory of the shell: %w", err)
	}
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
		if f.Program != "" {
			name = f.Program
		}
		if err := b.show(at, name, f, outputs[f.Name]); err != nil {
			return fmt.Errorf("input %s: %w", f.Name, err)
		}
	}
	for _, f := range b.spec.Outputs {
		if err := os.MkdirAll(filepath.Join(b.work, filepath.Dir(filepath.FromSlash(f.Name))), 0o755); err != nil {
			return err
		}
	}
	script := "#!/bin/sh\nexec " + container.Quote(b.spec.Command) + "\n"
	if b.spec.Shell && len(b.spec.Command) == 1 {
		script = "#!/bin/sh\n" + b.spec.Command[0] + "\n"
	} else if b.spec.Expand && len(b.spec.Command) == 2 {
		script = "#!/bin/sh\nexec " + container.Quote(b.spec.Command[:1]) + " " + b.spec.Command[1] + "\n"
	}
	if err := os.WriteFile(filepath.Join(b.work, ".command.sh"), []byte(script), 0o755); err != nil {
		return err
	}
	user := b.user()
	return filepath.WalkDir(b.work, func(p string, _ fs.DirEntry, err error) error {
		if err == nil && os.Geteuid() == 0 {
			err = os.Lchown(p, user.UID, user.GID)
		}
		return err
	})
}

// show makes an input appear: as a link to what the container can only read, or as a copy that can be changed or run.
func (b *sandbox) show(at, name string, f *executor.FileSpec, changes bool) error {
	to := filepath.Join(b.work, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	inside := strings.HasPrefix(at, b.nodeDir()+string(filepath.Separator))
	if inside && !changes && f.Program == "" {
		return os.Symlink(at, to)
	}
	in, err := os.Open(at)
	if err != nil {
		return err
	}
	defer in.Close()
	if st, err := in.Stat(); err != nil || st.IsDir() {
		return errors.Join(err, os.CopyFS(to, os.DirFS(at)))
	}
	mode := fs.FileMode(0o644)
	if f.Program != "" {
		mode = 0o755
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// user runs the shell: as it runs programs.
func (b *sandbox) user() stage.Owner { return stage.ProgramUser() }

// remove deletes the container, if the docker command left it, and the directory.
func (b *sandbox) remove() {
	if b.name != "" {
		_ = exec.Command("docker", "rm", "--force", b.name).Run() // mostly it is gone
	}
	if b.work != "" {
		_ = os.RemoveAll(b.work)
	}
	if b.lock != nil {
		b.lock.Close()
	}
}

// args are those of the docker command, up to the program.
func (b *sandbox) args(terminal bool, program string) []string {
	l, user := b.life, b.user()
	out := []string{"run", "--rm", "--interactive", "--name", b.name, "--label", "gantry.shell=" + l.Run,
		"--user", fmt.Sprintf("%d:%d", user.UID, user.GID), "--workdir", b.work, "--read-only", "--cap-drop", "ALL",
		"--security-opt", "no-new-privileges", "--tmpfs", "/tmp:rw,nosuid,nodev,size=64m,mode=1777",
		"--pids-limit", strconv.Itoa(container.DefaultPIDs), "--env", "HOME=/tmp",
		"--mount", "type=bind,source=" + b.work + ",target=" + b.work,
		"--mount", "type=bind,source=" + b.nodeDir() + ",target=" + b.nodeDir() + ",readonly"}
	if terminal {
		out = append(out, "--tty", "--env", "TERM="+os.Getenv("TERM"))
	}
	if !b.spec.Network {
		out = append(out, "--network", "none")
	}
	out = append(out, b.limits()...)
	for _, m := range b.spec.Mounts {
		p := executor.ParseMount(m) // a task may have written to it: nothing that happens in a shell stays
		out = append(out, "--mount", "type=bind,source="+p.From+",target="+p.To+",readonly")
	}
	for _, e := range b.spec.Env {
		out = append(out, "--env", e)
	}
	image := b.spec.Image
	if l.ImageID != "" {
		image = l.ImageID
	}
	return append(out, "--entrypoint", program, image)
}

// limits are those that the last attempt had, else those of the task.
func (b *sandbox) limits() (out []string) {
	l := b.life
	cpu, memory, read, write := l.CPU, l.Memory, l.Disk, l.Disk
	if a := lastAttempt(l); a != nil {
		for to, applied := range map[*int64]*int64{&cpu: a.AppliedCPU, &memory: a.AppliedMemory,
			&read: a.AppliedReadBps, &write: a.AppliedWrite} {
			if applied != nil && *applied > 0 {
				*to = *applied
			}
		}
	}
	limited := func(x int64) bool { return x > 0 && x != unit.Unlimited }
	if limited(cpu) {
		out = append(out, "--cpus", strconv.FormatFloat(float64(cpu)/1000, 'f', -1, 64))
	}
	if limited(memory) {
		text := strconv.FormatInt(max(memory, executor.MinMemory), 10)
		out = append(out, "--memory", text, "--memory-swap", text)
	}
	device, ok, err := cgroup.DeviceOf(b.dir)
	if err != nil || !ok {
		return out
	}
	if limited(read) {
		out = append(out, "--device-read-bps", fmt.Sprintf("%s:%d", device.Path, read))
	}
	if limited(write) {
		out = append(out, "--device-write-bps", fmt.Sprintf("%s:%d", device.Path, write))
	}
	return out
}

// shellMark is a file in the directory of a shell: it has the name of the container, and whose shell it is locks it.
const shellMark = ".command.shell"

// lockFile makes a file that this process locks until it ends.
func lockFile(path, text string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		_, err = f.WriteString(text)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// cleanShells removes what shells left whose gantry was killed, of one run or of all, and returns the names of their
// containers.
func cleanShells(home, run string) (removed []string, err error) {
	marks, err := fs.Glob(os.DirFS(home), path.Join(cmp.Or(run, "*"), "work", "*", "*-shell.*", shellMark))
	for _, mark := range marks {
		mark = filepath.Join(home, mark)
		name, e := os.ReadFile(mark)
		if e != nil || isLocked(mark) || !shellName.Match(name) {
			continue
		}
		out, e := exec.Command("docker", "rm", "--force", string(name)).CombinedOutput()
		gone := strings.Contains(string(out), "No such container") ||
			strings.Contains(string(out), "is already in progress")
		if e != nil && !gone {
			err = errors.Join(err, fmt.Errorf("remove container %s: %w: %s", name, e, strings.TrimSpace(string(out))))
			continue
		}
		err = errors.Join(err, os.RemoveAll(filepath.Dir(mark)))
		removed = append(removed, string(name))
	}
	return removed, err
}

var shellName = regexp.MustCompile(`^gantry-shell-[0-9]+$`)

// enter runs the shell until it ends.
func (b *sandbox) enter(ctx context.Context, program string) error {
	tty := terminal(os.Stdin) && terminal(os.Stdout)
	if tty {
		fmt.Fprintf(os.Stderr, "task %s of run %s in %s; its command is .command.sh; exit leaves nothing behind\n",
			b.life.Task, b.life.Run, b.spec.Image)
	}
	c := exec.CommandContext(ctx, "docker", b.args(tty, program)...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := c.Start(); err != nil {
		return failf(exitHost, "docker: %w", err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case s := <-signals: // the terminal sends Ctrl-C to both: the shell decides
				if s != os.Interrupt {
					_ = exec.Command("docker", "kill", b.name).Run()
				}
			case <-ended:
				return
			}
		}
	}()
	err := c.Wait()
	exit := new(exec.ExitError)
	if errors.As(err, &exit) {
		if exit.ExitCode() == 125 { // docker itself failed, and has said why
			return failf(exitHost, "the container of the shell could not be started")
		}
		return &exitError{code: exit.ExitCode()}
	}
	return err
}
