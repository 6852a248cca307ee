package allocation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// StepSpec is a job step to start: one process on one node.
type StepSpec struct {
	Node   string
	CPUs   int
	Memory int64  // bytes, rounded up to megabytes; 0: all that the allocation has on the node
	Name   string // by which Steps finds it
	Argv   []string
	Dir    string
}

// Running is a step that was asked for, through an srun that outlives this process.
type Running struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.ReadCloser
	said tail
}

// Stdin is the standard input of the step.
func (r *Running) Stdin() io.WriteCloser { return r.in }

// Stdout is the standard output of the step.
func (r *Running) Stdout() io.Reader { return r.out }

// Kill ends the srun here; the step continues.
func (r *Running) Kill() { _ = r.cmd.Process.Kill() }

// Wait waits for the end of srun. Its error has the last line of srun's standard error.
func (r *Running) Wait() error {
	err := r.cmd.Wait()
	if err == nil {
		return nil
	}
	said := r.said.String()
	if e := mungeError(said); e != nil {
		return e
	}
	return &Error{What: "the step did not end well", Err: errors.New(cmp.Or(lastLine(said), err.Error()))}
}

// StartStep starts a step. Its srun has a session of its own, so that neither Ctrl-C nor the end of gantry reaches it.
func (a *Allocation) StartStep(ctx context.Context, s StepSpec) (*Running, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if len(s.Argv) == 0 || s.CPUs < 1 || !hostlist.MatchString(s.Node) || strings.ContainsAny(s.Node, ",[") {
		return nil, fmt.Errorf("a step of %d words and %d CPUs on node %q cannot be started", len(s.Argv), s.CPUs,
			s.Node)
	}
	args := []string{"--jobid=" + a.id, "--overlap", "--exact", "--nodes=1", "--ntasks=1", "--nodelist=" + s.Node,
		"--cpus-per-task=" + strconv.Itoa(s.CPUs), "--mpi=none", "--quiet"}
	// 0 means all memory of the job on the node.
	args = append(args, "--mem="+strconv.FormatInt((s.Memory+1<<20-1)>>20, 10)+"M")
	if s.Name != "" {
		args = append(args, "--job-name="+s.Name)
	}
	if s.Dir != "" {
		args = append(args, "--chdir="+s.Dir)
	}
	r := &Running{cmd: exec.Command("srun", append(append(args, "--"), s.Argv...)...)}
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if r.out, err = r.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	r.cmd.Env = environment()
	r.cmd.Stderr = &r.said
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := r.cmd.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return nil, notInstalled("srun")
		}
		return nil, fmt.Errorf("start srun: %w", err)
	}
	return r, nil
}

// RunStep runs a step to its end, or to that of ctx. It has no input, and its output is left out.
func (a *Allocation) RunStep(ctx context.Context, s StepSpec) (said string, err error) {
	r, err := a.StartStep(ctx, s)
	if err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, func() {
		_ = r.cmd.Process.Signal(syscall.SIGTERM) // srun ends the step
		time.AfterFunc(stepEnd, r.Kill)
	})()
	r.in.Close()
	_, _ = io.Copy(io.Discard, r.out)
	err = r.Wait()
	return r.said.String(), err
}

// stepEnd is how long srun may take to end a step.
const stepEnd = 10 * time.Second

// Step is a job step that Slurm knows.
type Step struct {
	ID   string // such as 12.3
	Name string
	Node string // or a list of nodes
}

// Steps lists the steps of the allocation that run. Slurm may list one for a while whose node it has lost.
func (a *Allocation) Steps(ctx context.Context) ([]Step, error) {
	// The name is last, since it may have anything in it.
	out, err := ask(ctx, "squeue", "--noheader", "--steps", "--jobs="+a.id, "--format=%i|%N|%j")
	if err != nil {
		if strings.Contains(err.Error(), "Invalid job id") {
			return nil, nil
		}
		return nil, err
	}
	var steps []Step
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), "|", 3)
		if len(f) != 3 {
			return nil, fmt.Errorf("squeue printed %q, which has no three fields", clip(line, 100))
		}
		id := strings.TrimSpace(f[0])
		if job, _, _ := strings.Cut(id, "."); job == a.id {
			steps = append(steps, Step{id, strings.TrimSpace(f[2]), f[1]})
		}
	}
	return steps, nil
}

// CancelStep ends a step, or sends it a signal such as TERM; a step that has ended is no error.
func (a *Allocation) CancelStep(ctx context.Context, id, signal string) error {
	if job, step, ok := strings.Cut(id, "."); !ok || job != a.id || step == "" {
		return fmt.Errorf("%q is no step of allocation %s", clip(id, 40), a.id)
	}
	if signal != "" {
		return cancel(ctx, id, "--signal="+signal)
	}
	return cancel(ctx, id)
}

// tail keeps the end of the text written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-tailSize):]...)
	if extra := len(t.text) - tailSize; extra > 0 {
		t.text = bytes.Clone(t.text[extra:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
