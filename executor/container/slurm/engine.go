// Package slurm runs containers as job steps of a Slurm allocation: each step runs gantry's package node on the node
// that the policy chose, which has an engine of that node run the container. All that passes between the two lies in
// the run directory, which every node sees, so that either may end and begin again.
package slurm

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"

	"gantry/cgroup"
	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/evidence"
	"gantry/executor/container/fetch"
	"gantry/executor/container/slurm/allocation"
	"gantry/executor/container/slurm/node"
)

// Capabilities are the abilities of this runtime.
var Capabilities = executor.Capabilities{Name: "slurm", Does: "job steps of a Slurm allocation, in containers of its " +
	"nodes", Programs: true, Learns: true, Adopts: true, Suspends: true, Checkpoints: true,
	Attempts: container.AttemptName}

// ErrOver says that the allocation has ended.
var ErrOver = errors.New("the Slurm allocation has ended")

// Config configures an Engine.
type Config struct {
	RunDir     string
	Allocation *allocation.Allocation
	// Names are the nodes of the platform, Nodes those of the allocation that stand for them; "" of one that it lacks.
	Names, Nodes []string
	Program      string // gantry where the nodes see it
	// Runtimes are those of the nodes, by their place in the platform, as the node command takes them.
	Runtimes []string
	// Environment is that of the programs of an image.
	Environment func(image string) ([]string, error)
	Secrets     node.Secrets // of programs
	// Every is the time between looks at the allocation; 0: DefaultEvery.
	Every time.Duration
}

// DefaultEvery is the time between looks at the allocation and its nodes.
const DefaultEvery = 3 * time.Second

// Overhead is the memory that a step has beyond the limit of its container, for the program that runs it.
const Overhead = 128 << 20

// Engine is an allocation as a container.Engine.
type Engine struct {
	cfg  Config
	life string // of this gantry: no name of a step comes again
	ctx  context.Context
	end  context.CancelFunc
	work sync.WaitGroup
	over chan struct{} // closed when the allocation has ended
	why  string        // it has, before over is closed
	once sync.Once

	mu      sync.Mutex
	known   map[string]*job
	started int // steps
	down    []time.Time
	failed  []int // starts of steps in a row, by node
	alive   map[string]string
	looked  time.Time         // when alive was asked for
	losses  map[string]losses // by task
}

// losses are those in a row of job steps of a task, on nodes that were up.
type losses struct {
	number int
	since  time.Time
}

// mostLosses in a row are the end of a task, if Slurm had time enough meanwhile to know its nodes again.
const mostLosses = 5

// taskOf names the task of a container.
func taskOf(j *job) string {
	return j.launch.Spec.Labels[container.LabelWorkflow] + "/" + j.launch.Spec.Labels[container.LabelTask]
}

// countLocked counts a job step that was lost, or not, of a node that is up. e.mu is held.
func (e *Engine) countLocked(j *job, lost bool) {
	if j.counted {
		return
	}
	j.counted = true
	if !lost {
		delete(e.losses, taskOf(j))
		return
	}
	l := e.losses[taskOf(j)]
	if l.number++; l.number == 1 {
		l.since = time.Now()
	}
	e.losses[taskOf(j)] = l
}

// Hopeless implements container.Far: a task whose steps are lost again and again, though Slurm answers and their nodes
// are up, would be tried for ever.
func (e *Engine) Hopeless(id string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.known[id]
	if j == nil || j.launch == nil {
		return ""
	}
	if l := e.losses[taskOf(j)]; l.number >= mostLosses && time.Since(l.since) > restartTime {
		return fmt.Sprintf("the %d. job step of this task in a row that was lost, on nodes that are up: it is not "+
			"tried again", l.number)
	}
	return ""
}

// job is a container.
type job struct {
	id     string
	dir    node.Dir
	launch *node.Launch
	node   int   // in the platform; -1 if it is not of the allocation any more
	step   *step // nil if another gantry started it
	orders int

	begun chan struct{} // closed when its program was started
	ended chan struct{} // closed when there is a result, or it is lost
	acked chan struct{} // capacity 1

	// Under Engine.mu:
	over    bool
	counted bool         // among the losses of its task, or as none
	sought  bool         // search looks for its end
	lost    string       // why there will be no result
	told    *node.Result // the step's message, where the directory took no result
}

// result is how a container ended; nil while it has not.
func (e *Engine) result(j *job) (*node.Result, error) {
	e.mu.Lock()
	told := j.told
	e.mu.Unlock()
	if told != nil {
		return told, nil
	}
	return j.dir.Result()
}

// step is a job step of this gantry.
type step struct {
	name string
	run  *allocation.Running
	job  *job          // that it runs; nil once that has ended
	gone chan struct{} // closed when it has ended
	err  error         // how, then
}

// Open makes the engine. It starts nothing.
func Open(cfg Config) (*Engine, error) {
	cfg.Every = cmp.Or(cfg.Every, DefaultEvery)
	var life [4]byte
	if _, err := rand.Read(life[:]); err != nil {
		return nil, err
	}
	e := &Engine{cfg: cfg, life: hex.EncodeToString(life[:]), over: make(chan struct{}), known: map[string]*job{},
		losses: map[string]losses{}, down: make([]time.Time, len(cfg.Nodes)), failed: make([]int, len(cfg.Nodes))}
	e.ctx, e.end = context.WithCancel(context.Background())
	for _, dir := range []string{node.Top(cfg.RunDir), node.Steps(cfg.RunDir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			e.end()
			return nil, err
		}
	}
	return e, nil
}

// Host implements container.Engine: the abilities of nodes were asked before.
func (e *Engine) Host(context.Context) (container.Host, error) {
	return container.Host{Teller: evidence.Teller{Engine: "Slurm controller", Ended: "its job step was lost"},
		LimitsTasks: true, LimitsSwap: true}, nil
}

// Create writes the launch of a container for its step.
func (e *Engine) Create(_ context.Context, s *container.Spec) (string, error) {
	sum := sha256.Sum256([]byte(s.Name))
	id := hex.EncodeToString(sum[:])
	at := e.place(s.Labels[container.LabelNode])
	if at < 0 {
		return "", fmt.Errorf("%w: node %s is not of allocation %s", container.ErrLost, s.Labels[container.LabelNode],
			e.cfg.Allocation.ID())
	}
	j := newJob(e, id)
	j.launch, j.node = &node.Launch{Spec: *s, Node: e.cfg.Nodes[at]}, at
	if err := os.RemoveAll(string(j.dir)); err != nil {
		return "", err
	}
	if err := j.dir.Make(j.launch); err != nil {
		return "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known[id] = j
	return id, nil
}

func newJob(e *Engine, id string) *job {
	return &job{id: id, dir: node.DirOf(e.cfg.RunDir, id), begun: make(chan struct{}), ended: make(chan struct{}),
		acked: make(chan struct{}, 1)}
}

// place is the place in the platform of a node of the run; -1 if the allocation has none for it.
func (e *Engine) place(name string) int {
	if at := slices.Index(e.cfg.Names, name); at >= 0 && e.cfg.Nodes[at] != "" {
		return at
	}
	return -1
}

// find returns this process's knowledge of a container.
func (e *Engine) find(id string) (*job, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if j := e.known[id]; j != nil {
		return j, nil
	}
	j := newJob(e, id)
	l, err := j.dir.Launch()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("container %.12s: %w", id, errdefs.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	j.launch, j.node = l, slices.Index(e.cfg.Nodes, l.Node)
	if acks, err := j.dir.Orders(); err == nil {
		j.orders = len(acks)
	}
	e.known[id] = j
	return j, nil
}

// restartTime is how long Slurm may take to know its nodes again once its controller was restarted: until then it
// refuses steps, for want of memory.
const restartTime = 30 * time.Second

// Start has a step run the container, and returns when its program runs.
func (e *Engine) Start(ctx context.Context, id string) error {
	j, err := e.find(id)
	if err != nil {
		return err
	}
	begun := time.Now()
	for wait := 250 * time.Millisecond; ; wait = min(2*wait, 4*time.Second) {
		err := e.try(ctx, j)
		if err == nil || !strings.Contains(err.Error(), "Memory required by task is not available") ||
			time.Since(begun) > restartTime || e.ctx.Err() != nil {
			return err
		}
		time.Sleep(wait)
	}
}

// try has a step run the container once.
func (e *Engine) try(ctx context.Context, j *job) error {
	s, err := e.begin(j)
	if err != nil {
		return e.refused(j, err)
	}
	select {
	case <-j.begun:
	case <-j.ended:
	case <-s.gone:
	case <-ctx.Done():
		return ctx.Err()
	}
	r, err := e.result(j)
	if err != nil {
		return err
	}
	began, err := j.dir.Began()
	switch {
	case r != nil && r.Failed != "" && r.NoImage:
		return fmt.Errorf("node %s: %w: %s", j.launch.Node, fetch.ErrNoImage, r.Failed)
	case r != nil && r.Failed != "" && r.Invalid:
		return fmt.Errorf("node %s: %w: %s", j.launch.Node, errdefs.ErrInvalidArgument, r.Failed)
	case r != nil && r.Failed != "":
		return fmt.Errorf("node %s: %s", j.launch.Node, r.Failed)
	case r != nil || began != nil:
		e.mu.Lock()
		e.failed[j.node] = 0
		e.mu.Unlock()
		return err
	}
	<-s.gone
	return e.refused(j, s.err)
}

// refused says that a step was not started, or ended before its container began. The node is left alone for a while.
func (e *Engine) refused(j *job, err error) error {
	if err != nil && strings.Contains(err.Error(), "already completing or completed") {
		e.close("it takes no more job steps: it has reached its time limit") // Slurm ends it a little later
	}
	if e.ended() {
		return fmt.Errorf("%w: %w", container.ErrLost, ErrOver)
	}
	err = cmp.Or(err, errors.New("it ended before the program began"))
	e.mu.Lock()
	if !e.cfg.Allocation.Away() {
		e.countLocked(j, true)
	}
	e.failed[j.node]++
	wait := min(time.Minute, time.Second<<min(6, e.failed[j.node]))
	e.down[j.node] = time.Now().Add(wait)
	e.mu.Unlock()
	select { // where no other node is up, the next try is to come later, too
	case <-time.After(wait / 4):
	case <-e.ctx.Done():
	case <-e.over:
	}
	return fmt.Errorf("%w: job step on node %s: %w", container.ErrLost, j.launch.Node, err)
}

// ended asks Slurm whether the allocation has ended, and tells all followers of an end.
func (e *Engine) ended() bool {
	ctx, cancel := context.WithTimeout(e.ctx, 10*time.Second)
	defer cancel()
	if c, err := e.cfg.Allocation.Look(ctx); err == nil && c.Over {
		e.close(c.Why)
	}
	select {
	case <-e.over:
		time.Sleep(100 * time.Millisecond) // first of all everybody is to know
		return true
	default:
		return false
	}
}

func (e *Engine) close(why string) {
	e.once.Do(func() {
		e.why = why
		close(e.over)
	})
}

// begin starts the step of a container.
func (e *Engine) begin(j *job) (*step, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.started++
	s := &step{name: fmt.Sprintf("gantry-%s-%d", e.life, e.started), job: j, gone: make(chan struct{})}
	if err := os.Mkdir(filepath.Join(node.Steps(e.cfg.RunDir), s.name), 0o700); err != nil {
		return nil, err
	}
	if err := j.dir.Assign(s.name); err != nil {
		return nil, err
	}
	argv := []string{e.cfg.Program, "slurm-node", "--runtime", e.cfg.Runtimes[j.node], "--step", s.name}
	spec := allocation.StepSpec{Node: j.launch.Node, Name: s.name, Dir: e.cfg.RunDir}
	var secrets []byte
	if len(e.cfg.Secrets.Values) > 0 {
		var err error
		if secrets, err = json.Marshal(e.cfg.Secrets); err != nil {
			return nil, err
		}
		argv = append(argv, "--secrets")
	}
	spec.Argv = append(argv, e.cfg.RunDir, j.id)
	spec.CPUs, spec.Memory = e.size(j.launch.Node, j.launch.Spec.Limits.Memory)
	run, err := e.cfg.Allocation.StartStep(e.ctx, spec)
	if err != nil {
		return nil, err
	}
	s.run, j.step = run, s
	if secrets != nil {
		e.work.Go(func() { // a failure ends the step, which waits for them
			if _, err := fmt.Fprintf(run.Stdin(), "secrets %s\n", secrets); err != nil {
				run.Stdin().Close()
			}
		})
	}
	e.work.Go(func() { e.listen(s) })
	return s, nil
}

// step runs a step that does one thing on a node, such as --tidy, with so much memory for a container.
func (e *Engine) step(ctx context.Context, name string, memory int64, do string, args ...string) (string, error) {
	spec := allocation.StepSpec{Node: name, Name: "gantry-" + do, Dir: "/",
		Argv: append([]string{e.cfg.Program, "slurm-node", "--" + do}, args...)}
	spec.CPUs, spec.Memory = e.size(name, memory)
	return e.cfg.Allocation.RunStep(ctx, spec)
}

// size is the size of a step on its node: all CPUs of the allocation there, as Slurm binds steps that overlap to the
// same first ones if they ask for fewer, and the memory of its container and of the programs that run it.
func (e *Engine) size(name string, limit int64) (cpus int, memory int64) {
	cpus, memory = e.cfg.Allocation.Size(name)
	if limit > 0 && (memory == 0 || limit+Overhead < memory) {
		memory = limit + Overhead
	}
	return cpus, memory
}

// Remove ends a container and removes its remains.
func (e *Engine) Remove(ctx context.Context, id string) error {
	j, err := e.find(id)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if r, err := e.result(j); err == nil && r == nil && !e.lives(ctx, j) {
		if err := e.found(ctx, j); err != nil {
			return err
		}
	} else if err == nil && r == nil {
		if err := e.Signal(ctx, id, "SIGKILL"); err != nil && !errdefs.IsConflict(err) {
			e.cancelStep(ctx, j)
		}
		for begun := time.Now(); time.Since(begun) < killTime; time.Sleep(20 * time.Millisecond) {
			if r, err := e.result(j); err != nil || r != nil || ctx.Err() != nil {
				break
			}
		}
	}
	if err := os.RemoveAll(string(j.dir)); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.known, id)
	return nil
}

// killTime is how long a killed program may take to end.
const killTime = 10 * time.Second

// Inspect returns the state of a container.
func (e *Engine) Inspect(ctx context.Context, id string) (container.State, error) {
	j, err := e.find(id)
	if err != nil {
		return container.State{}, err
	}
	for again := false; ; again = true {
		s, known, err := e.look(j)
		if err != nil || known {
			return s, err
		}
		e.mu.Lock()
		lost := j.lost
		e.mu.Unlock()
		switch {
		case lost != "":
			return container.State{}, fmt.Errorf("container %.12s: %s: %w", id, lost, errdefs.ErrNotFound)
		case again || e.lives(ctx, j):
			return s, nil
		}
		if err := e.found(ctx, j); err != nil { // it ended just now, or is lost
			return s, err
		}
	}
}

// look reads the node's report of a container. Known is false if its state depends on the step.
func (e *Engine) look(j *job) (s container.State, known bool, err error) {
	s = container.State{Status: evidence.Created, Memory: j.launch.Spec.Limits.Memory}
	r, err := e.result(j)
	if err != nil {
		return s, false, err
	}
	if r != nil && r.Stopped {
		return s, true, fmt.Errorf("container %.12s: Slurm ended its step: %w", j.id, errdefs.ErrNotFound)
	}
	if r != nil && r.Failed != "" {
		return s, true, nil
	}
	if r != nil {
		return r.State, true, nil
	}
	b, err := j.dir.Began()
	if err != nil || b == nil {
		return s, err != nil, err
	}
	s.Status, s.Paused = evidence.Running, b.Paused // the process is another host's
	return s, false, nil
}

// Counted is the counters of a container, as its node read them.
func (e *Engine) Counted(id string) cgroup.Final {
	j, err := e.find(id)
	if err != nil {
		return cgroup.Final{}
	}
	r, err := e.result(j)
	if err != nil || r == nil {
		return cgroup.Final{}
	}
	return r.Final
}

// Wait waits for the end of a container.
func (e *Engine) Wait(ctx context.Context, id string) (int, error) {
	j, err := e.find(id)
	if err != nil {
		return -1, err
	}
	limit := time.NewTimer(container.DefaultPatience / 4)
	defer limit.Stop()
	poll := 20 * time.Millisecond
	for {
		var look <-chan time.Time
		if j.step == nil { // another gantry's: only files tell
			look = time.After(poll)
			poll = min(poll*3/2, 500*time.Millisecond)
		}
		select {
		case <-j.ended:
		case <-look:
			if r, err := e.result(j); err == nil && r == nil && e.lives(ctx, j) {
				continue
			}
		case <-limit.C:
			return -1, context.DeadlineExceeded
		case <-ctx.Done():
			return -1, ctx.Err()
		}
		break
	}
	s, err := e.Inspect(ctx, id)
	if errdefs.IsNotFound(err) {
		if e.ended() { // not the end of the attempt: the run continues in another allocation
			<-ctx.Done()
			return -1, ctx.Err()
		}
		return -1, fmt.Errorf("%w: %w", errStepLost, err)
	}
	return s.ExitCode, err
}

// List looks for containers in the run directory: those that run, or have ended.
func (e *Engine) List(ctx context.Context, label, value string) ([]container.Listed, error) {
	entries, err := os.ReadDir(node.Top(e.cfg.RunDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []container.Listed
	for _, entry := range entries {
		j, err := e.find(entry.Name())
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		labels := j.launch.Spec.Labels
		if has, ok := labels[label]; !ok || value != "" && has != value {
			continue
		}
		s, err := e.Inspect(ctx, j.id)
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, container.Listed{ID: j.id, Name: j.launch.Spec.Name, Status: s.Status, Labels: labels})
	}
	return out, nil
}

// Environment implements container.Engine.
func (e *Engine) Environment(_ context.Context, image string) ([]string, error) {
	if image == "" || e.cfg.Environment == nil {
		return nil, nil
	}
	return e.cfg.Environment(image)
}

// Output is the output of the first process, as far as the node kept it.
func (e *Engine) Output(_ context.Context, id string) (stdout, stderr []byte, err error) {
	j, err := e.find(id)
	if err != nil {
		return nil, nil, err
	}
	r, err := e.result(j)
	if err != nil || r == nil {
		return nil, nil, err
	}
	return r.Stdout, r.Stderr, nil
}

// Away reports whether Slurm's controller does not answer. Steps that run need none.
func (e *Engine) Away() bool { return e.cfg.Allocation.Away() }

// Unreachable reports whether an error says that a step was lost.
func (e *Engine) Unreachable(err error) bool { return errors.Is(err, errStepLost) }

var errStepLost = errors.New("its job step is lost")

// Since implements container.Engine.
func (e *Engine) Since() time.Time { return time.Time{} }

// Follow implements container.Far.
func (e *Engine) Follow(ctx context.Context, changed func(node int, up bool)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	up := make([]bool, len(e.cfg.Nodes))
	for i := range up {
		up[i] = true
	}
	var mu sync.Mutex
	hear := func(nodes []allocation.Node) {
		mu.Lock()
		defer mu.Unlock()
		now := make([]bool, len(up))
		left, reason := false, ""
		for i, name := range e.cfg.Nodes {
			is, why := e.state(nodes, i, name)
			if now[i] = is; why != "" {
				reason = why
				e.lose(i, why)
			} else {
				left = left || name != ""
			}
		}
		if !left {
			e.close("it has no node left: " + reason)
		}
		if !slices.Contains(now, true) {
			return // all of them soon are again
		}
		for i := range up {
			if now[i] != up[i] {
				up[i] = now[i]
				changed(i, now[i])
			}
		}
	}
	go e.cfg.Allocation.Watch(ctx, e.cfg.Every, func(c allocation.Change) {
		if c.Over {
			e.close(c.Why)
			return
		}
		hear(c.Nodes)
	})
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-e.over:
			return fmt.Errorf("%w: %s", ErrOver, e.why)
		case <-ctx.Done():
			return nil
		case <-tick.C: // starts that failed
			hear(e.cfg.Allocation.Nodes())
		}
	}
}

// state reports whether a node can be used, and, if Slurm has lost the node, why its containers are lost.
func (e *Engine) state(nodes []allocation.Node, at int, name string) (up bool, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := slices.IndexFunc(nodes, func(n allocation.Node) bool { return n.Name == name })
	switch {
	case name == "":
		return false, ""
	case k < 0:
		return false, "node " + name + " is no longer of the allocation"
	case strings.HasPrefix(strings.ToLower(nodes[k].State), "unknown"): // Slurm has just been restarted
		return false, ""
	case !nodes[k].Up:
		return false, "node " + name + " is " + nodes[k].State
	}
	return time.Now().After(e.down[at]), ""
}

// lose gives up the containers on a node.
func (e *Engine) lose(at int, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range e.known {
		if j.node == at && !j.over && j.lost == "" {
			e.finish(j, why)
			if j.step != nil && j.step.run != nil {
				j.step.run.Kill()
			}
		}
	}
}

// finish notes that a container has ended, or was lost. e.mu is held.
func (e *Engine) finish(j *job, lost string) {
	if !j.over {
		j.over, j.lost = true, lost
		close(j.ended)
	}
}

// Close ends the goroutines of this process. Steps continue.
func (e *Engine) Close() error {
	e.end()
	e.mu.Lock()
	live := false
	for _, j := range e.known {
		live = live || !j.over
	}
	e.mu.Unlock()
	if !live {
		ended := make(chan struct{})
		go func() {
			e.work.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(killTime):
		}
		if left, err := os.ReadDir(node.Top(e.cfg.RunDir)); err == nil && len(left) == 0 {
			e.tidy()
			return os.RemoveAll(filepath.Dir(node.Top(e.cfg.RunDir)))
		}
	}
	return nil
}

// tidy has the nodes remove remaining control groups of the job.
func (e *Engine) tidy() {
	select {
	case <-e.over:
		return
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), killTime)
	defer cancel()
	var work sync.WaitGroup
	for _, name := range e.cfg.Nodes {
		if name == "" {
			continue
		}
		work.Go(func() { _, _ = e.step(ctx, name, 0, "tidy", e.cfg.RunDir) })
	}
	work.Wait()
}

var _ container.Far = (*Engine)(nil)

// lives reports whether the step of a container exists.
func (e *Engine) lives(ctx context.Context, j *job) bool {
	e.mu.Lock()
	s, lost := j.step, j.lost
	e.mu.Unlock()
	if lost != "" {
		return false
	}
	if s != nil {
		select {
		case <-s.gone:
			// srun may have been killed alone: the step continues
		default:
			return true
		}
	}
	name, err := j.dir.Step()
	if err != nil || name == "" {
		return false
	}
	id, known := e.stepID(ctx, name)
	return id != "" || !known
}

// stepID is the number of a step by its name, "" if there is none; known is false if Slurm did not tell.
func (e *Engine) stepID(ctx context.Context, name string) (id string, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.looked) > time.Second {
		steps, err := e.cfg.Allocation.Steps(ctx)
		if err != nil {
			return "", false
		}
		e.alive, e.looked = map[string]string{}, time.Now()
		for _, s := range steps {
			e.alive[s.Name] = s.ID
		}
	}
	return e.alive[name], true
}

func (e *Engine) cancelStep(ctx context.Context, j *job) {
	if name, err := j.dir.Step(); err == nil && name != "" {
		if id, _ := e.stepID(ctx, name); id != "" {
			_ = e.cfg.Allocation.CancelStep(ctx, id, "")
		}
	}
}

// Signal has the node send a signal.
func (e *Engine) Signal(ctx context.Context, id, signal string) error {
	return e.order(ctx, id, "signal "+signal)
}

// Freeze has the node freeze the container, or let it continue.
func (e *Engine) Freeze(ctx context.Context, id string, frozen bool) error {
	if frozen {
		return e.order(ctx, id, "freeze")
	}
	return e.order(ctx, id, "thaw")
}

// order gives an order to the step of a container, and waits until it was carried out.
func (e *Engine) order(ctx context.Context, id, verb string) error {
	j, err := e.find(id)
	if err != nil {
		return err
	}
	conflict := func() error { return fmt.Errorf("container %.12s does not run: %w", id, errdefs.ErrConflict) }
	e.mu.Lock()
	j.orders++
	n := j.orders
	e.mu.Unlock()
	if err := j.dir.Order(n, verb); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return conflict()
		}
		return err
	}
	e.mu.Lock()
	s := j.step
	e.mu.Unlock()
	if s != nil { // else its node looks for orders each second
		_, _ = fmt.Fprintln(s.run.Stdin(), "poke")
	}
	begun := time.Now()
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		acks, err := j.dir.Acks()
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(acks, func(l node.Line) bool { return l.N == n }); i >= 0 {
			return outcome(id, acks[i].Text)
		}
		if r, err := e.result(j); err != nil || r != nil {
			return conflict()
		}
		if time.Since(begun) > time.Second && !e.lives(ctx, j) {
			return conflict()
		}
		if time.Since(begun) > orderTime {
			return fmt.Errorf("container %.12s: %s: %w", id, verb, container.ErrNoAnswer)
		}
		select {
		case <-j.acked:
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// orderTime is how long a node may take to carry out an order.
const orderTime = 30 * time.Second

// outcome is the error of an order, by its answer.
func outcome(id, text string) error {
	switch {
	case text == "":
		return nil
	case strings.Contains(text, container.ErrBusy.Error()):
		return fmt.Errorf("container %.12s: %w", id, container.ErrBusy)
	case strings.Contains(text, "does not run"):
		return fmt.Errorf("container %.12s: %s: %w", id, text, errdefs.ErrConflict)
	}
	return fmt.Errorf("container %.12s: %s", id, text)
}
