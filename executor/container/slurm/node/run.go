package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"

	"gantry/cgroup"
	"gantry/executor/container"
	"gantry/executor/container/control"
	"gantry/executor/container/fetch"
)

// Config configures a step.
type Config struct {
	RunDir string
	Step   string // its name
	Engine container.Engine
	Tree   *cgroup.Tree
	Group  string // below which containers are to be; "": where the engine likes
	// In has a line "poke" when there are orders for the container. Out gets "started ID", "acked ID", "result ID JSON"
	// and "ended ID" lines. Only files count: gantry may be gone.
	In      io.Reader
	Out     io.Writer
	Stop    <-chan os.Signal // Slurm ends the step
	Task    string           // gantry-task on this node, which launches programs
	Secrets bool             // In has a line "secrets JSON" before all others
}

// step is a job step at work.
type step struct {
	Config
	watcher *cgroup.Watcher
	device  cgroup.Device
	out     sync.Mutex
	alone   chan struct{} // closed when In ends
	told    chan string   // secrets
	stop    chan struct{} // closed when Slurm ends the step

	mu      sync.Mutex
	id, own string // of the container that runs, here and with the engine; "" while none does
	done    int    // orders of it that were carried out
	pid     int
	killed  bool // gantry ordered a signal
	stopped bool
}

// stopTime is how long after a program that failed the signal may come with which Slurm ends the step. Slurm sends it
// to one process after the other, and the program may be before this one.
const stopTime = 250 * time.Millisecond

// Run runs the container.
func Run(ctx context.Context, cfg Config, id string) error {
	s := &step{Config: cfg, alone: make(chan struct{}), told: make(chan string, 1),
		stop: make(chan struct{})}
	var err error
	if s.device, _, err = cgroup.DeviceOf(cfg.RunDir); err != nil {
		return err
	}
	if cfg.Group != "" {
		if s.watcher, err = cfg.Tree.NewWatcher(s.device, nil); err != nil {
			return err
		}
		defer s.watcher.Close()
		defer Tidy(cfg.Tree, false)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go s.listen()
	go s.obey(ctx, cancel)
	if cfg.Secrets {
		remove, err := s.keepSecrets()
		if remove != nil {
			defer remove()
		}
		if err != nil {
			return err
		}
	}
	if ctx.Err() != nil { // Slurm ended the step
		return nil
	}
	return s.one(ctx, id)
}

// Clear ends the remains of a container whose job step was killed, and removes it.
func Clear(ctx context.Context, runDir string, e container.Engine, id string) error {
	l, err := DirOf(runDir, id).Launch()
	if err != nil {
		return err
	}
	left, err := e.List(ctx, container.LabelControl, l.Spec.Labels[container.LabelControl])
	if err != nil {
		return err
	}
	for _, c := range left {
		if err := e.Remove(ctx, c.ID); err != nil {
			return err
		}
	}
	return nil
}

// longestSecrets is how long the line of secrets may be.
const longestSecrets = 64 << 20

// listen reads the lines from the starter of the step.
func (s *step) listen() {
	defer close(s.alone)
	in := bufio.NewScanner(s.In)
	in.Buffer(nil, longestSecrets)
	for in.Scan() {
		switch verb, text, _ := strings.Cut(in.Text(), " "); verb {
		case "secrets":
			s.told <- text
		case "poke":
			s.look()
		}
	}
}

// obey hears of orders and of the end of the step in other ways.
func (s *step) obey(ctx context.Context, cancel func()) {
	tick := time.NewTicker(time.Second) // an order of another gantry than started the step pokes nobody
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.look()
		case <-s.Stop:
			s.mu.Lock()
			if !s.stopped {
				close(s.stop)
			}
			s.stopped = true
			id := s.own
			s.mu.Unlock()
			if id == "" {
				cancel()
				return
			}
			_ = s.Engine.Freeze(ctx, id, false)
			_ = s.Engine.Signal(ctx, id, "SIGKILL")
		}
	}
}

func (s *step) say(format string, args ...any) {
	s.out.Lock()
	defer s.out.Unlock()
	fmt.Fprintf(s.Out, format+"\n", args...)
}

// look carries out new orders.
func (s *step) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == "" {
		return
	}
	dir := DirOf(s.RunDir, s.id)
	orders, err := dir.Orders()
	if err != nil || len(orders) <= s.done {
		return
	}
	for _, o := range orders[s.done:] {
		s.done++
		err := s.act(dir, o.Text)
		if err := dir.ack(o.N, err); err != nil {
			fmt.Fprintln(os.Stderr, "gantry: node:", err)
		}
	}
	s.say("acked %s", s.id)
}

// act carries out an order. s.mu is held.
func (s *step) act(dir Dir, order string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	switch verb, name, _ := strings.Cut(order, " "); verb {
	case "signal":
		s.killed = true
		return s.Engine.Signal(ctx, s.own, name)
	case "freeze", "thaw":
		if err := s.Engine.Freeze(ctx, s.own, verb == "freeze"); err != nil {
			return err
		}
		return dir.Begin(Began{Pid: s.pid, Paused: verb == "freeze"})
	}
	return fmt.Errorf("order %q is not known", order)
}

// one runs a container to its end. An error is one of this node alone: the container has no result.
func (s *step) one(ctx context.Context, id string) error {
	dir := DirOf(s.RunDir, id)
	l, err := dir.Launch()
	if err != nil {
		return err
	}
	if name, err := dir.Step(); err != nil || name != s.Step {
		return err // it was given to another step
	}
	if r, err := dir.Result(); err != nil || r != nil {
		return err
	}
	spec := &l.Spec
	if by, _, err := control.Dir(spec.Labels[container.LabelControl]).Claimed(); err == nil && by == control.Gantry {
		return s.end(dir, id, &Result{Failed: "gantry gave it up"})
	}
	s.place(spec)
	own, err := s.Engine.Create(ctx, spec)
	if err != nil {
		return s.failed(dir, id, err)
	}
	defer s.remove(own)
	const key = 1
	if s.watcher != nil {
		if err := s.watcher.Watch(key, spec.Group(own), cgroup.Everything); err != nil {
			fmt.Fprintln(os.Stderr, "gantry: node:", err)
		}
	}
	if err := s.Engine.Start(ctx, own); err != nil {
		return s.failed(dir, id, err)
	}
	state, err := s.Engine.Inspect(ctx, own)
	if err != nil {
		return s.failed(dir, id, err)
	}
	if err := dir.Begin(Began{Pid: state.Pid}); err != nil {
		fmt.Fprintln(os.Stderr, "gantry: node:", err)
	}
	s.mu.Lock()
	s.id, s.own, s.pid = id, own, state.Pid
	s.mu.Unlock()
	s.say("started %s", id)
	s.look()
	r := &Result{}
	if r.State, err = s.wait(ctx, own); err != nil {
		return err
	}
	s.mu.Lock()
	s.id, s.own = "", ""
	killed := s.killed
	s.mu.Unlock()
	if r.State.ExitCode != 0 && !killed {
		select {
		case <-s.stop:
		case <-time.After(stopTime):
		}
	}
	s.mu.Lock()
	r.Stopped = s.stopped
	s.mu.Unlock()
	if s.watcher != nil {
		r.Final = s.watcher.Final(key)
	}
	if r.State.ExitCode != 0 {
		r.Stdout, r.Stderr, _ = s.Engine.Output(ctx, own)
		r.Stdout, r.Stderr = tail(r.Stdout), tail(r.Stderr)
	}
	return s.end(dir, id, r)
}

const keptOutput = 64 << 10

func tail(b []byte) []byte { return b[max(0, len(b)-keptOutput):] }

// place says where on this node a container is to be.
func (s *step) place(spec *container.Spec) {
	l := &spec.Limits
	if l.Device = s.device; s.device.Path == "" {
		l.ReadBps, l.WriteBps, l.ReadIOPS, l.WriteIOPS = 0, 0, 0, 0
	}
	group := s.Group
	if group == "" {
		group = s.Tree.DockerParent()
	} else {
		spec.Parent = s.Tree.Parent(group)
	}
	spec.Group = func(id string) string { return s.Tree.Container(group, id) }
	s.showSecrets(spec)
	for i := range spec.Mounts { // gantry's own may lie where this node does not see it
		if m := &spec.Mounts[i]; m.Target == container.Launcher && s.Task != "" {
			m.Source = s.Task
		}
	}
}

// wait waits for the end of a container.
func (s *step) wait(ctx context.Context, id string) (container.State, error) {
	for {
		_, err := s.Engine.Wait(ctx, id)
		if ctx.Err() != nil {
			return container.State{}, ctx.Err()
		}
		state, err2 := s.Engine.Inspect(ctx, id)
		switch {
		case errdefs.IsNotFound(err2):
			return state, fmt.Errorf("container %.12s is gone: %w", id, err2)
		case err2 == nil && state.Over():
			return state, nil
		case err != nil || err2 != nil:
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// failed notes that a container was not started.
func (s *step) failed(dir Dir, id string, err error) error {
	return s.end(dir, id, &Result{Failed: err.Error(), NoImage: errors.Is(err, fetch.ErrNoImage),
		Invalid: errdefs.IsInvalidArgument(err)})
}

// LongestLine is how long a line of Out may be.
const LongestLine = 1 << 20

// end leaves the result. If the shared directory takes none, as when it is full, it sends the result to the starter of
// the step; once nobody hears, it tries again until it can be written.
func (s *step) end(dir Dir, id string, r *Result) error {
	var err error
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		if err = write(dir.path("result.json"), r, true); err == nil {
			break
		}
		if _, gone := os.Stat(string(dir)); errors.Is(gone, os.ErrNotExist) {
			return nil // nobody wants it any more
		}
		text, bad := json.Marshal(r)
		select {
		case <-s.alone:
		default:
			if bad == nil && len(text) < LongestLine/2 {
				s.say("result %s %s", id, text)
				s.say("ended %s", id)
				return nil
			}
		}
		s.mu.Lock()
		stopped := s.stopped
		s.mu.Unlock()
		if stopped {
			return err
		}
		fmt.Fprintln(os.Stderr, "gantry: node:", err)
		time.Sleep(wait)
	}
	s.say("ended %s", id)
	return nil
}

func (s *step) remove(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Engine.Remove(ctx, id); err != nil {
		fmt.Fprintln(os.Stderr, "gantry: node:", err)
	}
}
