package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"gantry/cgroup"
	"gantry/executor/container"
	"gantry/executor/container/control"
	"gantry/executor/container/evidence"
)

// Plain runs programs as they are, without a container, for nodes that have nothing that makes any: only limits of
// control groups hold them, Slurm's and, of root, gantry's.
type Plain struct {
	Task string // the task emulator, which launches programs, too
	Tree *cgroup.Tree

	mu    sync.Mutex
	known map[string]*program
}

// program is one that runs, or is about to.
type program struct {
	spec     *container.Spec
	group    string // control group; "" if it has none of its own
	cmd      *exec.Cmd
	out, err bytes.Buffer
	done     chan struct{}
	state    container.State
	used     cgroup.Final
}

// Host implements container.Engine.
func (p *Plain) Host(context.Context) (container.Host, error) {
	return container.Host{Name: "plain programs", LimitsTasks: true, LimitsSwap: true}, nil
}

// Create implements container.Engine.
func (p *Plain) Create(_ context.Context, s *container.Spec) (string, error) {
	if s.Network {
		return "", fmt.Errorf("%w: a plain program cannot be given a network, nor be kept from it",
			errdefs.ErrInvalidArgument)
	}
	sum := sha256.Sum256([]byte(s.Name))
	id := hex.EncodeToString(sum[:])
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = map[string]*program{}
	}
	x := &program{spec: s, done: make(chan struct{}), state: container.State{Status: evidence.Created,
		Labels: s.Labels}}
	if s.Parent != "" {
		x.group = s.Group(id)
	}
	p.known[id] = x
	return id, nil
}

// argv is the command on the host: paths in the container become the places of these files.
func (p *Plain) argv(s *container.Spec) []string {
	args := append([]string(nil), s.Args...)
	for i, a := range args {
		if i == 0 {
			args[i] = p.Task
		}
		for _, m := range s.Mounts {
			if i > 0 && a == m.Target && a != container.Tmp { // a program has that of the node
				args[i] = m.Source
			}
		}
	}
	return args
}

// Start implements container.Engine.
func (p *Plain) Start(_ context.Context, id string) error {
	x, err := p.find(id)
	if err != nil {
		return err
	}
	argv := p.argv(x.spec)
	x.cmd = exec.Command(argv[0], argv[1:]...)
	x.cmd.Dir, x.cmd.Env = x.spec.Dir, append(os.Environ(), x.spec.Env...)
	x.cmd.Stdout, x.cmd.Stderr = io.Writer(&x.out), io.Writer(&x.err)
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	x.cmd.WaitDelay = time.Second // remaining children may keep the pipes
	ctl := control.Dir(x.spec.Labels[container.LabelControl])
	if x.group != "" { // it waits until it is in its group
		if err := p.Tree.Create(x.group, x.spec.Limits); err != nil {
			return err
		}
		pipe, err := ctl.Await()
		if err != nil {
			return err
		}
		defer pipe.Close()
	}
	x.state.Started = time.Now()
	if err := x.cmd.Start(); err != nil {
		return err
	}
	if x.group != "" {
		err := procs(p.Tree, x.group, x.cmd.Process.Pid)
		if err == nil {
			err = ctl.Release(control.Release{})
		}
		if err != nil {
			_ = x.cmd.Process.Kill()
			_ = x.cmd.Wait()
			return err
		}
	}
	p.mu.Lock()
	x.state.Status, x.state.Pid = evidence.Running, x.cmd.Process.Pid
	p.mu.Unlock()
	go p.await(x)
	return nil
}

// await waits for the end of a program, and ends its remaining processes.
func (p *Plain) await(x *program) {
	_ = x.cmd.Wait()
	_ = unix.Kill(-x.cmd.Process.Pid, unix.SIGKILL)
	p.mu.Lock()
	defer p.mu.Unlock()
	end := x.cmd.ProcessState
	x.state.Status, x.state.Finished, x.state.ExitCode = evidence.Exited, time.Now(), end.ExitCode()
	if s, ok := end.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		x.state.ExitCode = 128 + int(s.Signal())
	}
	x.used = cgroup.Final{Ended: x.state.Finished}
	if u, ok := end.SysUsage().(*syscall.Rusage); ok {
		x.used.CPUUser, x.used.CPUSystem = end.UserTime(), end.SystemTime()
		x.used.CPU, x.used.PeakMemory = end.UserTime()+end.SystemTime(), u.Maxrss<<10
		x.used.Exact = cgroup.CPU | cgroup.Memory
	}
	close(x.done)
}

// Counted is the usage of a program and of the children that it waited for.
func (p *Plain) Counted(id string) cgroup.Final {
	x, err := p.find(id)
	if err != nil {
		return cgroup.Final{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return x.used
}

func (p *Plain) find(id string) (*program, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.known[id]; x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("program %.12s: %w", id, errdefs.ErrNotFound)
}

// lives returns a program that runs.
func (p *Plain) lives(id string) (*program, error) {
	x, err := p.find(id)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if x.state.Status != evidence.Running {
		return nil, fmt.Errorf("program %.12s does not run: %w", id, errdefs.ErrConflict)
	}
	return x, nil
}

// Signal implements container.Engine. SIGKILL ends all processes of the program, as in a container.
func (p *Plain) Signal(_ context.Context, id, signal string) error {
	x, err := p.lives(id)
	if err != nil {
		return err
	}
	s, pid := unix.SignalNum(signal), x.cmd.Process.Pid
	if s == unix.SIGKILL {
		if x.group != "" {
			p.Tree.Kill(x.group)
		}
		pid = -pid
	}
	return unix.Kill(pid, s)
}

// Freeze implements container.Engine.
func (p *Plain) Freeze(_ context.Context, id string, frozen bool) error {
	x, err := p.lives(id)
	if err != nil {
		return err
	}
	s := unix.SIGCONT
	if frozen {
		s = unix.SIGSTOP
	}
	if err := unix.Kill(-x.cmd.Process.Pid, s); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	x.state.Paused = frozen
	return nil
}

// Remove implements container.Engine.
func (p *Plain) Remove(ctx context.Context, id string) error {
	x, err := p.find(id)
	if err != nil {
		return nil
	}
	if p.Signal(ctx, id, "SIGKILL") == nil {
		<-x.done
	}
	if x.group != "" {
		p.Tree.Kill(x.group)
		if err := p.Tree.Remove(x.group); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, id)
	return nil
}

// Inspect implements container.Engine.
func (p *Plain) Inspect(_ context.Context, id string) (container.State, error) {
	x, err := p.find(id)
	if err != nil {
		return container.State{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := x.state
	s.Memory, s.CountsIO = x.spec.Limits.Memory, x.spec.CountsIO()
	return s, nil
}

// Wait implements container.Engine.
func (p *Plain) Wait(ctx context.Context, id string) (int, error) {
	x, err := p.find(id)
	if err != nil {
		return -1, err
	}
	select {
	case <-x.done:
		return x.state.ExitCode, nil
	case <-ctx.Done():
		return -1, ctx.Err()
	}
}

// List is of no use here: the step knows its programs.
func (p *Plain) List(context.Context, string, string) ([]container.Listed, error) { return nil, nil }

// Environment is that of the node.
func (p *Plain) Environment(context.Context, string) ([]string, error) { return os.Environ(), nil }

// Output implements container.Engine.
func (p *Plain) Output(_ context.Context, id string) (stdout, stderr []byte, err error) {
	x, err := p.find(id)
	if err != nil {
		return nil, nil, err
	}
	return x.out.Bytes(), x.err.Bytes(), nil
}

// Pauses waits: nobody tells.
func (p *Plain) Pauses(ctx context.Context, _ string, heard func(string)) {
	heard("")
	<-ctx.Done()
}

// Away implements container.Engine.
func (p *Plain) Away() bool { return false }

// Unreachable implements container.Engine.
func (p *Plain) Unreachable(error) bool { return false }

// Since implements container.Engine.
func (p *Plain) Since() time.Time { return time.Time{} }

// Dead implements container.Engine.
func (p *Plain) Dead(string, int) bool { return false }

// Close implements container.Engine.
func (p *Plain) Close() error { return nil }

var _ container.Engine = (*Plain)(nil)
