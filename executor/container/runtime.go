// Package container is the Runtime of real containers: each attempt is a container of an Engine of this host, below the
// control group of its virtual node, with limits of its own, its files in the directories of its node, and its counters
// read from the kernel.
//
// Control groups. With Docker each attempt has a control group of its own that outlives the container's,
// /gantry/<run>-<hash of its directory>/<node>/a<attempt>: CPU time and peak memory stay readable there after Docker
// has removed the container's. Block I/O and out-of-memory counters do not outlive the container on cgroup v1, so
// cgroup.Watcher reads them between the end of the last process and the removal; a sampler is the fallback. Counters
// that were missed are NULL in the log, never 0. Without a daemon gantry removes the group itself, and the container is
// in the attempt's: each group in each hierarchy of cgroup v1 costs CPU time.
//
// Rights. A container begins as root with the rights to become another user and to give up rights, and no others. Its
// first process is the launcher (package launch/first): it claims the attempt, gives up all rights, passes signals on
// to the program, reaps orphans and notes how the program ended. The program runs as a user without rights that cannot
// enter the control directory, trace the launcher, or open the launcher's files. Unless a task asks for it there is no
// network, which also halves the cost of a start. The root is read-only, the number of processes limited, and
// no-new-privileges set. Outputs belong to the user of the workflow: see
// stage.Area.OwnerOf.
//
// Files. A task sees its inputs through symbolic links from its work directory, read-only, at the same path as on the
// host. Outputs are written in the work directory, checked to be files or directories (a link counts as its target
// there or among the inputs), synced, and published by rename: no reader ever sees a half-written output. See package
// stage.
//
// Ends. Package evidence judges how an attempt ended. The pidfd of the launcher shows the end of a program that ended
// by itself; its code is in the launcher's account or, if that could not be written, the kernel has it. The engine
// notices some 30 ms later, clears up in the background, and is awaited at the end of the run. Signals, pauses, and
// failures in the emulator are still judged with the engine's answers. An engine that is stopped in mid-start may
// forget a process that it made: processes left in an attempt's control group when its container is gone are killed.
//
// Engines. No request to the engine waits for ever: a request without an answer for Config.Patience fails, and is not
// repeated, since it may still have its effect. The wait for the end of a container is broken off after a quarter of
// that time, and gantry looks at the launcher's account, the control group and the process. An engine that was killed
// may show a container as created whose program ran, or as running whose process is dead; settleTime later gantry
// judges the attempt by its own knowledge. Starts are a bounded resource of their own (executor.Starts): a host of few
// cores starts no more at once.
//
// Cost. Gantry computes little for each container: requests go to the engine on the goroutine that makes them, over
// connections of its own; if the watcher and the launcher saw a program end well, the engine is not asked about
// it; a start is reported up to startsWait later, so that the end of a short task comes in the same transaction.
package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gantry/cgroup"
	"gantry/executor"
	"gantry/executor/container/gpu"
	"gantry/executor/container/stage"
	"gantry/planner"
	"gantry/planner/unit"
)

// AttemptName is the name of the container of an attempt, for fmt with the run's HostName and the attempt.
const AttemptName = "gantry-%s-a%d"

// Labels of every container.
const (
	LabelRun      = "gantry.run"
	LabelHostName = "gantry.host-name" // of the run: executor.HostName
	LabelDir      = "gantry.dir"       // the run directory, whose lock shows whether a gantry works on the run
	LabelWorkflow = "gantry.workflow"
	LabelTask     = "gantry.task"
	LabelAttempt  = "gantry.attempt"
	LabelTry      = "gantry.try"
	LabelNode     = "gantry.node"
	LabelVersion  = "gantry.version"
	// LabelControl is the path of the control directory.
	LabelControl = "gantry.control"
)

// Defaults of Config.
const (
	DefaultPIDs  = 512
	DefaultGrace = 10 * time.Second
	// DefaultMaxOutput is how much is kept of standard output, and of standard error, of each attempt.
	DefaultMaxOutput = 64_000_000
)

// IOLimits are a node's block I/O limits. Zero is no limit.
type IOLimits struct {
	ReadBps, WriteBps   int64 // bytes per second
	ReadIOPS, WriteIOPS int64 // operations per second
}

// Sample is a reading of the counters of an attempt that runs.
type Sample struct {
	Attempt planner.AttemptID
	At      planner.Time
	cgroup.Counters
}

// Config configures a Runtime.
type Config struct {
	Run      string // name of the run
	Dir      string // the run directory, absolute
	Platform *planner.Platform
	IO       []IOLimits // by node; nil: none
	Version  string     // of gantry, for a label

	// Image returns the ID of an image by the name that tasks have for it; a name for which it returns "" is left to
	// the engine. It may be called from any goroutine. nil: no name has one.
	Image func(name string) string

	TaskBinary string // the emulator's binary on the host: it starts the programs of real tasks, too
	Seed       uint64 // of made-up file contents

	Starts int           // containers that are created and started at once; 0: executor.Starts
	PIDs   int64         // limit of each container; 0: DefaultPIDs
	Grace  time.Duration // between SIGTERM and SIGKILL at a time limit; 0: DefaultGrace

	// bytes that are kept of standard output, and of standard error, where the trace names no file for them; 0:
	// DefaultMaxOutput
	MaxOutput int64
	// Secrets are values by name, which programs find below /run/secrets.
	Secrets map[string]string
	Shown   []string // files and directories of the host that programs see by mounts, as far as they are known
	Disk    int64    // bytes that the files of an attempt may take on disk; 0: no limit
	Tmp     int64    // bytes of its /tmp, which is in memory then; 0: it is on disk

	Origin time.Time    // wall clock at Offset
	Offset planner.Time // 0, or where the log of a resumed run ends

	// Patience is how long the engine may take to answer; 0: DefaultPatience. A quarter of it is the time between looks
	// at the running containers, and the time that each part of Close may take; removals may take half.
	Patience   time.Duration
	CgroupRoot string // "": the engine's, else cgroup.Root
	Strict     bool   // a limit that the host cannot enforce is an error
	Networks   bool   // a task may have a network
	// CDI has the directories of files that describe devices; nil: the usual ones.
	CDI  []string
	GPUs bool // a task holds a GPU: those that tasks could not have are an error
	// Warn receives, once per rule, the inabilities of the host; it may be called from any goroutine. Nil drops them.
	Warn func(rule, message string)
	// Milestone receives the milestones of attempts, from any goroutine. Nil drops them.
	Milestone func(planner.AttemptID, executor.Milestone)
	// Published receives attempts whose outputs were published, before their end is reported; from any goroutine. Nil
	// drops them.
	Published func(l *executor.Launch)
	// Sample receives counters of attempts that run longer; from one goroutine, and it must be quick. Nil drops them.
	Sample func(Sample)
}

// Runtime runs attempts in containers.
type Runtime struct {
	cfg     Config
	name    string // of the run on this host
	engine  Engine
	host    Host
	tree    *cgroup.Tree
	watcher *cgroup.Watcher // nil with far
	far     Far             // the engine, if its containers are on other hosts; else nil
	device  cgroup.Device   // of the run directory; zero if it has none
	group   string          // of the run; "" if gantry may not make control groups
	groups  []string        // of the nodes
	// ungrouped says why it may not
	ungrouped error
	files     *stage.Area
	gpus      *gpu.Host // nil if no node has a GPU
	meter     *gpu.Meter

	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	starts chan struct{}
	aways  atomic.Int64 // requests that met no engine
	origin atomic.Pointer[time.Time]

	mu       sync.Mutex
	attempts map[planner.AttemptID]*attempt
	// watchingDisk is set once an attempt with a limit of disk space runs.
	watchingDisk bool
	events       []planner.Body
	due          bool          // events hold more than starts, or starts that have waited long enough
	news         chan struct{} // capacity 1: events are due
	trash        []garbage
	over         error        // no node is left: Next returns it
	absent       map[int]bool // nodes that are lost, by their place in the platform
	dump         *sync.Cond   // trash was added, or the runtime closes
	removing     int
	closing      bool
	discard      bool // nothing is to be left for another gantry
	warned       map[string]bool
}

// New prepares this host for a run: directories and control groups of its nodes. Limits that the host cannot enforce
// are reported to Warn, or are an error with Strict; errors of the host wrap ErrUnusable. It closes the engine at
// Close, and when it fails.
func New(ctx context.Context, engine Engine, cfg Config) (*Runtime, error) {
	r, err := newRuntime(ctx, engine, cfg)
	if err != nil {
		engine.Close()
	}
	return r, err
}

func newRuntime(ctx context.Context, engine Engine, cfg Config) (*Runtime, error) {
	if !filepath.IsAbs(cfg.Dir) || cfg.Run == "" || cfg.Platform == nil {
		return nil, fmt.Errorf("containers: run %q in %q: a name, an absolute directory and a platform are needed",
			cfg.Run, cfg.Dir)
	}
	if cfg.IO != nil && len(cfg.IO) != len(cfg.Platform.Nodes) {
		return nil, fmt.Errorf("containers: I/O limits of %d nodes for a platform of %d", len(cfg.IO),
			len(cfg.Platform.Nodes))
	}
	cfg.Starts = cmp.Or(cfg.Starts, executor.Starts(goruntime.NumCPU()))
	cfg.PIDs, cfg.Grace = cmp.Or(cfg.PIDs, DefaultPIDs), cmp.Or(cfg.Grace, DefaultGrace)
	cfg.MaxOutput, cfg.Patience = cmp.Or(cfg.MaxOutput, DefaultMaxOutput), cmp.Or(cfg.Patience, DefaultPatience)
	cfg.Origin = cmp.Or(cfg.Origin, time.Now())
	r := &Runtime{cfg: cfg, engine: engine, starts: make(chan struct{}, cfg.Starts),
		attempts: map[planner.AttemptID]*attempt{},
		news:     make(chan struct{}, 1), warned: map[string]bool{}, absent: map[int]bool{}}
	r.origin.Store(&cfg.Origin)
	r.far, _ = engine.(Far)
	r.dump = sync.NewCond(&r.mu)
	if err := r.prepare(ctx); err != nil {
		_ = r.removeSecrets()
		r.watcher.Close()
		return nil, err
	}
	// Not ctx: an attempt continues when the call that began it has ended.
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.meter = gpu.NewMeter(r.ctx)
	for range 2 {
		r.work.Go(r.remover)
	}
	if r.far != nil {
		r.work.Go(r.followNodes)
	}
	return r, nil
}

// minAddressSpace is the address space that gantry's threads may need. The C library reserves some 130 MB for each, and
// ends the process if it cannot.
const minAddressSpace = 4 << 30

// UsualUmask has this process make files that programs of users other than root can read, and directories that they can
// enter. The run directory, or one above, can keep other users out: they are made before.
func UsualUmask() { unix.Umask(0o022) }

func (r *Runtime) prepare(ctx context.Context) (err error) {
	var space unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &space) == nil && space.Cur < minAddressSpace {
		return fmt.Errorf("%w: the address space is limited to %d MB, gantry needs %d MB (ulimit -v unlimited)",
			ErrUnusable, space.Cur>>20, minAddressSpace>>20)
	}
	if r.host, err = r.engine.Host(ctx); err != nil {
		return err
	}
	if r.cfg.Networks && r.host.NoNetwork != "" {
		return fmt.Errorf("%w: --network: %s", ErrUnusable, r.host.NoNetwork)
	}
	r.name = executor.HostName(r.cfg.Run, r.cfg.Dir)
	if s, ok := r.engine.(Seer); ok {
		shown := slices.Clone(r.cfg.Shown)
		if len(r.cfg.Secrets) > 0 {
			shown = append(shown, inMemory(secretMemory, r.cfg.Dir))
		}
		if err := s.Sees(ctx, r.labels(), shown...); err != nil {
			return err
		}
	}
	var onDisk bool
	if r.far == nil { // on other hosts programs may have the umask of this process
		UsualUmask()
	}
	if r.files, err = stage.Open(r.cfg.Dir, r.cfg.Platform, r.cfg.Seed); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(r.cfg.Dir, "control"), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("run directory: %w", err)
	}
	if r.far != nil {
		r.tree = &cgroup.Tree{}
		return nil
	}
	if r.tree, err = cgroup.Open(cmp.Or(r.cfg.CgroupRoot, r.host.Groups, cgroup.Root), r.host.Systemd); err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if err := r.openGPUs(); err != nil {
		return fmt.Errorf("%w: GPUs: %w", ErrUnusable, err)
	}
	if err := r.makeSecrets(); err != nil {
		return fmt.Errorf("%w: files of secrets: %w", ErrUnusable, err)
	}
	if r.device, onDisk, err = cgroup.DeviceOf(r.cfg.Dir); err != nil {
		return err
	}
	if err := r.makeGroups(); err != nil {
		return err
	}
	var missing []string
	for _, l := range r.lacks(onDisk) {
		r.warn(l.rule, l.message)
		missing = append(missing, l.message)
	}
	if r.cfg.Strict && len(missing) > 0 {
		if r.group != "" {
			_ = r.tree.Remove(r.group)
		}
		return fmt.Errorf("%w: strict: %s (change that on this host, or leave out --strict, or gantry resume "+
			"--strict=false: the run then continues, with a warning)", ErrUnusable, strings.Join(missing, "; "))
	}
	r.watcher, err = r.tree.NewWatcher(r.device, r.sampled())
	return err
}

// labels are those of all containers of the run.
func (r *Runtime) labels() map[string]string {
	return map[string]string{LabelRun: r.cfg.Run, LabelHostName: r.name, LabelDir: r.cfg.Dir,
		LabelVersion: r.cfg.Version}
}

type lack struct{ rule, message string }

// lacks lists the limits that are asked for and that this host cannot enforce.
func (r *Runtime) lacks(onDisk bool) []lack {
	var out []lack
	limited := slices.ContainsFunc(r.cfg.IO, func(l IOLimits) bool { return l != (IOLimits{}) })
	for i := range r.cfg.Platform.Nodes {
		d := r.cfg.Platform.Nodes[i].Capacity[unit.Disk]
		limited = limited || d > 0 && d != unit.Unlimited
	}
	switch {
	case !limited:
	case !r.tree.Has("blkio"):
		out = append(out, lack{"blkio", "block I/O limits are not enforced: the kernel has no blkio controller"})
	case !onDisk:
		out = append(out, lack{"blkio-device", fmt.Sprintf("block I/O limits are not enforced: %s does not lie on a "+
			"block device of its own "+
			"(overlay, tmpfs, network file system, or no node of it in /dev?): choose another --dir", r.cfg.Dir)})
	case r.tree.Mode() != cgroup.Unified:
		out = append(out, lack{"blkio-buffered", "on cgroup v1 writes are held to block I/O limits, and counted, " +
			"only if the program syncs them or uses O_DIRECT (gantry's emulator does); writes left to the page cache " +
			"go unlimited: cgroup v2 has no such gap (boot with systemd.unified_cgroup_hierarchy=1)"})
	}
	if swaps, _ := os.ReadFile("/proc/swaps"); strings.Count(string(swaps), "\n") > 1 && (!r.host.LimitsSwap ||
		!r.tree.SwapAccounted()) {
		out = append(out, lack{"swap", "memory limits do not include swap: the kernel does not account for it (boot " +
			"with swapaccount=1, or switch swap off)"})
	}
	if r.group == "" {
		out = append(out, lack{"cgroups", "limits of whole nodes are not enforced, and counters of tasks that end " +
			"at once may be missed: " + r.ungrouped.Error() + " (" + Remedy(r.ungrouped.Error()) + "); limits of " +
			"tasks are enforced"})
	}
	if !r.host.LimitsTasks {
		out = append(out, lack{"docker", "the " + r.host.Engine + " says that memory, CPU quota or pids limits are " +
			"not supported by this kernel"})
	}
	for i := range r.cfg.Platform.Nodes {
		if n := &r.cfg.Platform.Nodes[i]; n.Speed > 1 {
			out = append(out, lack{"speed", fmt.Sprintf("node %s: speed %g cannot be reached: a core of this host "+
				"is 1 (scale the speeds so that the fastest is 1, "+
				"and the time scale to match)", n.Name, n.Speed)})
			break
		}
	}
	return out
}

// makeGroups makes the control groups of the nodes, with their limits. Without the permission it only notes why: the
// warning comes later.
func (r *Runtime) makeGroups() error {
	run := r.tree.Group("gantry", r.tree.Name(r.name))
	for i := range r.cfg.Platform.Nodes {
		n := &r.cfg.Platform.Nodes[i]
		group := r.tree.Group("gantry", r.tree.Name(r.name), r.tree.Name(n.Name))
		l := cgroup.Limits{CPUPeriod: nodePeriod, CPUQuota: nodePeriod, Device: r.device}
		if cpu := n.Capacity[unit.CPU]; cpu > 0 && cpu != unit.Unlimited {
			// Rounded up, as the kernel refuses a child with a larger share than its parent.
			l.CPUQuota = time.Duration(float64(nodePeriod)*float64(cpu)/1000*n.Speed).Truncate(time.Microsecond) +
				time.Microsecond
		} else {
			l.CPUQuota = 0
		}
		if m := n.Capacity[unit.Memory]; m > 0 && m != unit.Unlimited {
			l.Memory, l.MemorySwap = m, m
		}
		if r.cfg.IO != nil {
			io := r.cfg.IO[i]
			l.ReadBps, l.WriteBps, l.ReadIOPS, l.WriteIOPS = io.ReadBps, io.WriteBps, io.ReadIOPS, io.WriteIOPS
		}
		if l.ReadBps == 0 && r.tree.Mode() != cgroup.Unified {
			l.ReadBps = counting
		}
		err := r.tree.Create(group, l)
		if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) {
			r.group, r.groups, r.ungrouped = "", nil, fmt.Errorf("control groups cannot be made: %w", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: node %s: %w", ErrUnusable, n.Name, err)
		}
		r.group = run
		r.groups = append(r.groups, group)
	}
	return nil
}

// counting is a limit that holds nothing back: recent kernels count block I/O for cgroup v1 only on disks where some
// limit was ever set.
const counting = 1 << 50

// nodePeriod is longer than that of tasks, so that a task's own quota holds it back before its node's does.
const nodePeriod = 100 * time.Millisecond

// reached reports a milestone of an attempt.
func (r *Runtime) reached(a planner.AttemptID, m executor.Milestone) {
	if r.cfg.Milestone != nil && a != planner.None {
		r.cfg.Milestone(a, m)
	}
}

func (r *Runtime) warn(rule, message string) {
	r.mu.Lock()
	said := r.warned[rule]
	r.warned[rule] = true
	r.mu.Unlock()
	if !said && r.cfg.Warn != nil {
		r.cfg.Warn(rule, message)
	}
}

func (r *Runtime) sampled() func(cgroup.Sample) {
	if r.cfg.Sample == nil {
		return nil
	}
	return func(s cgroup.Sample) {
		r.cfg.Sample(Sample{planner.AttemptID(s.Key), r.at(s.At), s.Counters})
	}
}

// Files are those of the run.
func (r *Runtime) Files() *stage.Area { return r.files }

// Now is the time of the run.
func (r *Runtime) Now() planner.Time { return r.at(time.Now()) }

// Begin implements executor.Beginner.
func (r *Runtime) Begin(at time.Time) { r.origin.Store(&at) }

// at converts an instant of the wall clock.
func (r *Runtime) at(t time.Time) planner.Time {
	return r.cfg.Offset + planner.Time(t.Sub(*r.origin.Load()))
}

// Start begins an attempt.
func (r *Runtime) Start(_ context.Context, l executor.Launch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return errors.New("the runtime is closed")
	}
	if r.attempts[l.Attempt] != nil {
		return nil
	}
	a := newAttempt(r, l)
	r.attempts[l.Attempt] = a
	r.work.Go(a.run)
	return nil
}

// order calls f with an attempt, if there is one and the runtime is open. r.mu is held then.
func (r *Runtime) order(id planner.AttemptID, f func(a *attempt)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.attempts[id]; a != nil && !r.closing {
		f(a)
	}
	return nil
}

// Suspend freezes an attempt, as soon as its program runs.
func (r *Runtime) Suspend(_ context.Context, id planner.AttemptID) error {
	return r.order(id, func(a *attempt) { a.wantPause(true) })
}

// Resume thaws it.
func (r *Runtime) Resume(_ context.Context, id planner.AttemptID) error {
	return r.order(id, func(a *attempt) { a.wantPause(false) })
}

// Kill ends an attempt; one whose program has not started yet never starts it.
func (r *Runtime) Kill(_ context.Context, id planner.AttemptID, why planner.Outcome, grace time.Duration) error {
	return r.order(id, func(a *attempt) {
		a.lose = a.why == 0
		r.kill(a, why, grace)
	})
}

// Checkpoint has an attempt leave its progress and end.
func (r *Runtime) Checkpoint(_ context.Context, id planner.AttemptID, grace time.Duration) error {
	return r.order(id, func(a *attempt) { r.kill(a, planner.Preempted, grace) })
}

// Forget removes the container and the control group of an attempt that has ended, soon.
func (r *Runtime) Forget(_ context.Context, id planner.AttemptID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.attempts[id]
	if a == nil || a.phase != ended {
		return nil
	}
	delete(r.attempts, id)
	g := a.garbage()
	if a.told == nil {
		r.throwAway(g)
		return nil
	}
	// The engine is still clearing up.
	r.removing++
	r.work.Go(func() {
		select {
		case <-a.told:
		case <-r.ctx.Done():
		case <-time.After(min(2*time.Second, r.cfg.Patience/8)): // it may never
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.removing--
		r.throwAway(g)
	})
	return nil
}

// Next returns the events that happened, or nothing when the time has come.
func (r *Runtime) Next(ctx context.Context, until planner.Time) ([]planner.Body, error) {
	var timer <-chan time.Time
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		wait := until.Sub(r.Now())
		r.mu.Lock()
		over := r.over
		var events []planner.Body
		if r.due || until != unit.Never && wait <= 0 {
			events, r.events, r.due = r.events, nil, false
		}
		r.mu.Unlock()
		if over != nil && len(events) == 0 {
			return nil, over
		}
		if len(events) > 0 {
			return executor.EndsFirst(events), nil
		}
		if until != unit.Never {
			if wait <= 0 {
				return nil, nil
			}
			timer = time.After(wait)
		}
		select {
		case <-r.news:
		case <-timer:
		case <-ctx.Done():
		}
	}
}

// startsWait is how long a start waits for something else to happen: nothing is decided by it, and the end of a short
// task comes with its start, in one batch and one transaction of the log.
const startsWait = 200 * time.Millisecond

// emit adds an event. r.mu is held.
func (r *Runtime) emit(b planner.Body) {
	r.events = append(r.events, b)
	if _, ok := b.(planner.AttemptStarted); !ok {
		r.fallDue()
	} else if len(r.events) == 1 {
		time.AfterFunc(startsWait, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.fallDue()
		})
	}
}

// fallDue has Next return the events. r.mu is held.
func (r *Runtime) fallDue() {
	if r.due = len(r.events) > 0; !r.due {
		return
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// Discard has Close remove containers that run, too: the ends of their programs could not be logged. Containers whose
// programs have succeeded stay, for a resumed run to harvest.
func (r *Runtime) Discard() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.discard = true
}

// Close waits until the containers of forgotten attempts are removed. Containers that run continue; attempts that had
// not started never do.
func (r *Runtime) Close() error {
	r.mu.Lock()
	if r.closing {
		r.mu.Unlock()
		return nil
	}
	r.closing = true
	r.mu.Unlock()

	// The remaining removals first, while the engine can be waited for, but not for ever.
	patience := r.cfg.Patience / 2
	if r.Away() {
		patience = min(patience, 2*time.Second)
	}
	var err error
	if !within(patience, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for len(r.trash) > 0 || r.removing > 0 {
			r.dump.Wait()
		}
	}) {
		err = fmt.Errorf("%w: containers of run %s are over and left, since the %s does not remove them: restart "+
			"that, or the host if its log says that something is busy, and gantry resume or gantry clean removes them",
			ErrUnusable, r.cfg.Run, r.host.Engine)
	}
	if e := r.removeSecrets(); e != nil {
		r.warn("secrets", e.Error())
	}
	r.cancel()
	r.mu.Lock()
	if err != nil {
		r.trash = nil
	}
	r.dump.Broadcast()
	r.mu.Unlock()
	if !within(r.cfg.Patience/4, r.work.Wait) {
		// The watcher and the client stay open: goroutines that wait for the engine still use them.
		return errors.Join(err, fmt.Errorf("%w: run %s: a request to start a container is left without an answer: "+
			"gantry resume continues the run, gantry clean removes its containers", ErrUnusable, r.cfg.Run))
	}
	var left []*attempt // of containers, those included that were under way as the context ended
	r.mu.Lock()
	for _, a := range r.attempts {
		if a.id != "" {
			left = append(left, a)
		}
	}
	r.mu.Unlock()
	r.watcher.Close()
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Patience/4)
	defer cancel()
	if r.discard && err == nil {
		left, err = r.discardAll(ctx, left)
	}
	live := len(left)
	if live == 0 && err == nil {
		if err = r.sweep(ctx); err != nil {
			err = fmt.Errorf("%w: %w", ErrUnusable, err)
		}
	}
	if live == 0 && err == nil && r.group != "" {
		if err = r.tree.Remove(r.group); err == nil {
			r.tree.RemoveEmpty(r.tree.Group("gantry")) // when no other run has one
		}
	}
	r.engine.Close()
	return err
}

// within reports whether f returned in time. If not, f continues to run.
func within(limit time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// call makes a request to the engine, and repeats it at growing intervals while there is no engine: it may have been
// restarted. An engine that is there and does not answer is not asked again: the caller decides.
func (r *Runtime) call(ctx context.Context, request func(context.Context) error) error {
	for delay := 50 * time.Millisecond; ; delay = min(2*delay, 2*time.Second) {
		err := request(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrNoAnswer) {
			r.aways.Add(1)
			hint := ""
			if r.host.Command != "" {
				hint = " (" + r.host.Command + " ps, and the log of the engine, show whether it is stuck)"
			}
			r.warn("docker-silent", fmt.Sprintf("the %s took longer than %v over a request, which gantry gives up%s",
				r.host.Engine, r.cfg.Patience, hint))
			return err
		}
		if !r.engine.Unreachable(err) && !r.Away() {
			return err
		}
		r.aways.Add(1)
		hint := ""
		if r.far == nil {
			hint = " (gantry setup starts it)"
		}
		r.warn("docker-away", "the "+r.host.Engine+" does not answer; gantry waits for it"+hint)
		if err := stage.Sleep(ctx, delay); err != nil {
			return err
		}
	}
}

// Away reports whether the engine takes no new requests.
func (r *Runtime) Away() bool { return r.engine.Away() }
