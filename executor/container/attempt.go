package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/containerd/errdefs"

	"gantry/cgroup"
	"gantry/executor"
	"gantry/executor/container/control"
	"gantry/executor/container/evidence"
	"gantry/executor/container/fault"
	"gantry/executor/container/fetch"
	"gantry/executor/container/gpu"
	"gantry/executor/container/stage"
	"gantry/planner"
	"gantry/planner/unit"
)

// phase is how far an attempt is. Runtime.mu guards it; run, running and end alone change it.
//
//	starting ──► running ──► ended
//	    └──────────────────────▲
type phase uint8

const (
	starting phase = iota // files, container
	running
	ended
)

// place is where an attempt works, and how its container is to be.
type place struct {
	r      *Runtime
	l      executor.Launch
	dir    string      // work directory
	ctl    control.Dir // control directory
	parent string      // control group above the container's; "" if there is none of its own
	group  string      // the container's control group
	spec   *Spec       // nil if it is adopted
	words  []string    // of arguments that had to be expanded
	gpus   []string    // names of the GPUs that it holds
	shared bool        // others may have them, too
	edits  *gpu.Edits  // by which its container gets them; nil if it has none
	usage  planner.Usage
	notes  []string
	disk   atomic.Int64 // the most bytes that its work directory was seen to take
}

// ending is an order to end, and its progress. Under Runtime.mu.
type ending struct {
	why       planner.Outcome // of a kill that was ordered; 0 if none was
	earlier   planner.Outcome // why a gantry before this one had begun to end it; 0 if none had
	grace     time.Duration
	lose      bool // its work is given up, even if it leaves a checkpoint
	signalled bool // a signal of ours was delivered

	signalling sync.Mutex // held while the engine delivers a signal
}

// attempt is one container with its files and state. Fields without a comment of their own are constant, or belong to
// its goroutine.
type attempt struct {
	place
	clock
	ending
	aways   int64 // of the runtime, when the attempt began
	adopted bool
	// doubtful: the engine was asked to start it and did not say that it had, but the program began
	doubtful bool
	asked    string        // name of the container that the engine was asked to create
	used     *gpu.Use      // of its GPUs; nil: nobody measures it
	final    *cgroup.Final // nil until the watcher was asked
	told     chan struct{} // closed when the engine, which had not, has noted the end; nil if it had

	staging context.Context // ends when the attempt is killed before its program runs
	abandon context.CancelFunc
	began   time.Time     // of the program; zero before, and if it never begins
	done    chan struct{} // closed when the container has ended

	id    string // of the container; "" before there is one. Under Runtime.mu, as the phase
	phase phase
}

func newAttempt(r *Runtime, l executor.Launch) *attempt {
	name := "a" + strconv.Itoa(int(l.Attempt)) // of its control directory and of its control group
	a := &attempt{place: place{r: r, l: l, dir: r.files.WorkDir(l.Spec, l.Try),
		ctl: control.Dir(filepath.Join(r.cfg.Dir, "control", name)),
		usage: planner.Usage{Queued: l.Queued, Staged: unit.Never, Created: unit.Never, Started: unit.Never,
			Ended: unit.Never}},
		aways: r.aways.Load(), done: make(chan struct{})}
	if r.group != "" { // it keeps the counters of the container's group when that is gone
		node := r.tree.Name(r.cfg.Platform.Nodes[l.Node].Name)
		a.parent = r.tree.Group("gantry", r.tree.Name(r.name), node, name)
	}
	a.staging, a.abandon = context.WithCancel(r.ctx)
	return a
}

func (a *place) String() string {
	return fmt.Sprintf("task %s of workflow %s (attempt %d)", a.l.Spec.Name, a.l.Spec.Workflow.Name, a.l.Attempt)
}

// run takes the attempt from its files to its end.
func (a *attempt) run() {
	defer a.abandon()
	if err := a.start(); err != nil && !a.beganAnyway() {
		a.notStarted(err)
		return
	}
	a.follow()
}

// start puts the files in place, and creates and starts the container.
func (a *attempt) start() error {
	r := a.r
	err := fault.Do("stage", func() error { return a.stage(a.staging) })
	if err == nil {
		err = fault.Do("control", a.makeControl)
	}
	if err != nil {
		return fmt.Errorf("prepare %s: %w", a, err)
	}
	a.usage.Staged = r.Now()
	if err := a.launch(); err != nil {
		return err
	}
	a.usage.Started = r.Now()
	a.running(time.Now(), true)
	return nil
}

// makeControl makes the control directory, with the identities of the mounted directories: the launcher has to find the
// directories that the user may use now, even if their paths lead elsewhere when the container is made.
func (a *place) makeControl() error {
	if err := a.ctl.Make(os.Geteuid() != 0); err != nil {
		return err
	}
	if err := errors.Join(a.makeTmp(), a.hasSecrets()); err != nil {
		return err
	}
	for _, text := range a.l.Spec.Mounts {
		m := executor.ParseMount(text)
		if submittedSecret(m) { // gantry made it, and nobody can replace it
			continue
		}
		name := "mount"
		if m.InPlace {
			name = "the directory of its job"
		}
		id, err := a.r.files.Mounted(a.l.Spec.Workflow, m)
		if err == nil {
			err = a.ctl.Expect(m.To, id)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", name, m.From, err)
		}
	}
	return nil
}

// launch creates and starts the container.
func (a *attempt) launch() error {
	r := a.r
	if a.parent != "" {
		if err := r.tree.Make(a.parent); err != nil {
			return fmt.Errorf("prepare %s: %w", a, err)
		}
	}
	select {
	case r.starts <- struct{}{}:
		defer func() { <-r.starts }()
	case <-a.staging.Done():
		return a.staging.Err()
	}
	r.reached(a.l.Attempt, executor.Placed)
	var id string
	err := fault.Do("create", func() (err error) { id, err = a.create(); return err })
	r.mu.Lock()
	a.id = id // of a kill in the meantime, too: the container is there
	r.mu.Unlock()
	if err != nil {
		return fmt.Errorf("create a container for %s: %w", a, err)
	}
	a.usage.Created = r.Now()
	r.reached(a.l.Attempt, executor.Created)
	a.group = a.groupOf(id)
	if err := r.watcher.Watch(int64(a.l.Attempt), a.group, a.wanted()); err != nil {
		r.warn("watch", err.Error()+": counters of short tasks may be missed")
	}
	if err := fault.Do("start", a.startContainer); err != nil {
		return fmt.Errorf("start the container of %s: %w", a, err)
	}
	r.reached(a.l.Attempt, executor.Answered)
	return nil
}

// beganAnyway deals with a container whose start failed, or was cut short by a kill while the engine worked on it.
// Gantry gives it up, so that its program never begins, unless the program has begun. Then it runs like any other, and
// ends as ordered.
func (a *attempt) beganAnyway() bool {
	if a.id == "" || a.r.ctx.Err() != nil {
		return false
	}
	err := fault.Do("give-up", func() error { return a.ctl.Claim(control.Gantry, time.Now()) })
	if err == nil {
		return false
	}
	if by, _, e := a.ctl.Claimed(); e != nil || by != control.Launcher {
		a.r.warn("control", fmt.Sprintf("%s: give it up: %v", a, errors.Join(err, e)))
		return false
	}
	a.doubtful = true
	a.usage.Started = a.r.Now()
	a.running(time.Now(), true)
	return true
}

// wanted is the counters that the watcher has to read at the end: those that the parent, if any, does not keep.
func (a *place) wanted() cgroup.Set {
	if a.parent == "" {
		return cgroup.Everything
	}
	return cgroup.Everything &^ a.r.tree.Outlive()
}

// groupOf is the group of the container with that ID.
func (a *place) groupOf(id string) string {
	switch {
	case a.parent == "":
		return a.r.tree.Container(a.r.tree.DockerParent(), a.r.host.Prefix+id)
	case a.r.host.TakesGroup:
		return a.parent
	}
	return a.r.tree.Container(a.parent, a.r.host.Prefix+id)
}

// create makes the container. A kill in the meantime is seen before it starts.
func (a *attempt) create() (id string, err error) {
	if err := a.findGPUs(); err != nil {
		return "", err
	}
	a.configure()
	if err := a.makePlaces(); err != nil {
		return "", err
	}
	if err := errors.Join(a.r.call(a.staging, a.expand), a.keepFacts()); err != nil {
		return "", err
	}
	err = a.r.call(a.staging, func(ctx context.Context) (err error) {
		a.asked = a.spec.Name
		// Not the context of the kill: whether the engine made a container must be known.
		id, err = a.r.engine.Create(context.WithoutCancel(ctx), a.spec)
		return err
	})
	return id, err
}

// startContainer starts the container, once: a request whose answer was lost is not repeated if it had an effect.
func (a *attempt) startContainer() error {
	first := true
	return a.r.call(a.staging, func(ctx context.Context) error {
		ctx = context.WithoutCancel(ctx)
		if !first {
			c, err := a.r.engine.Inspect(ctx, a.id)
			if err != nil || c.Status != evidence.Created {
				return err
			}
			if by, _, err := a.ctl.Claimed(); err == nil && by == control.Launcher { // the engine does not know of it
				a.doubtful = true
				return nil
			}
		}
		first = false
		if err := a.staging.Err(); err != nil {
			return err
		}
		return a.r.engine.Start(ctx, a.id)
	})
}

// running reports that the program runs, and carries out orders that came in the meantime. An adopted container may
// have ended long ago.
func (a *attempt) running(since time.Time, lives bool) {
	r := a.r
	r.mu.Lock()
	defer r.mu.Unlock()
	a.phase, a.began = running, since
	if !a.l.Started {
		r.emit(planner.AttemptStarted{Attempt: a.l.Attempt})
	}
	if !lives {
		return
	}
	a.limitTime(since)
	if a.gpus != nil && !a.shared {
		a.used = r.meter.Begin(a.gpus)
	}
	if a.diskLimit() > 0 && !r.watchingDisk && !r.closing {
		r.watchingDisk = true
		r.work.Go(r.watchDisk)
	}
	if a.why != 0 && !r.closing { // killed while it started
		r.work.Go(func() { a.stop(a.grace) })
	}
	if a.wantPaused != a.paused && !r.closing {
		a.wantPause(a.wantPaused)
	}
}

// notStarted ends an attempt whose program never ran.
func (a *attempt) notStarted(err error) {
	r := a.r
	if r.ctx.Err() != nil { // closed: a resumed run finds it lost
		return
	}
	x := &planner.AttemptExited{Attempt: a.l.Attempt, Outcome: planner.HostError, ExitCode: -1}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case a.why != 0:
		x.Outcome = a.why
	case errors.Is(err, ErrLost):
		x.Outcome, x.Message = planner.Lost, err.Error()
	case r.aways.Load() != a.aways:
		x.Outcome = planner.Lost
		x.Message = "the " + r.host.Engine + " was stopped, or did not answer, before the program began: " + err.Error()
	case errors.Is(err, errArguments): // as a shell says it
		x.Outcome, x.ExitCode, x.Final = planner.ExitCode, evidence.NotExecutable, true
		x.Message = fmt.Sprintf("exit code %d (the command cannot be executed: %v)", x.ExitCode, err)
	default:
		x.Message, x.Final = explain(err), errors.Is(err, fetch.ErrNoImage) || errdefs.IsInvalidArgument(err)
	}
	a.usage.Ended = r.Now()
	a.usage.Missing = planner.CountersAll
	x.Usage = a.usage
	if a.id != "" {
		r.watcher.Final(int64(a.l.Attempt))
	}
	a.end(x)
}

// end emits the end. r.mu is held.
func (a *attempt) end(x *planner.AttemptExited) {
	a.phase = ended
	if a.limit != nil {
		a.limit.Stop()
	}
	close(a.done)
	if x.Outcome == planner.Lost && a.r.far != nil {
		if why := a.r.far.Hopeless(a.id); why != "" {
			x.Final, x.Message = true, evidence.Join(x.Message, why)
		}
	}
	x.Final = x.Final || x.Outcome != planner.OK && a.l.Spec.Once(x.Outcome) && a.everBegan()
	x.Message = strings.ToValidUTF8(x.Message, "\uFFFD") // it may have words of the program
	a.r.emit(x)
}

// everBegan reports whether the program of the attempt may have begun, by the log, by its observed start, or by its
// launcher. A program that changed directories of its user is not run again.
func (a *attempt) everBegan() bool {
	by, _, err := a.ctl.Claimed()
	return a.l.Started || !a.began.IsZero() || err != nil || by == control.Launcher
}

// explain adds a remedy to errors of the host.
func explain(err error) string {
	s := err.Error()
	switch {
	case errors.Is(err, syscall.ENOSPC) || strings.Contains(s, "no space left on device"):
		s += " (free space, then gantry resume)"
	case errors.Is(err, syscall.EDQUOT):
		s += " (the disk quota is used up)"
	}
	return s
}

// settleTime is how long the engine may take to note a start or an end that gantry knows already.
const settleTime = 5 * time.Second

// follow waits for the end of a container that runs, and reports it. The engine is asked to tell, and gantry looks for
// itself now and then: an engine that was killed may know nothing of a start or an end.
func (a *attempt) follow() {
	r := a.r
	broken := a.doubtful    // the engine went away meanwhile
	var unsettled time.Time // since when the engine contradicts gantry
	for {
		seen, code, err := a.wait(broken)
		switch {
		case r.ctx.Err() != nil:
			return
		case seen:
			pass(&a.pausing) // earlier pauses and resumes are reported before the end
			a.harvest(a.ownInspection(code), evidence.Evidence{})
			return
		case err == nil && code == 0 && !broken && a.sawAll():
			a.harvest(a.ownInspection(0), evidence.Evidence{})
			return
		}
		broken = broken || r.engine.Unreachable(err)
		var c State
		err = r.call(r.ctx, func(ctx context.Context) (err error) {
			c, err = r.engine.Inspect(ctx, a.id)
			broken = broken || r.engine.Unreachable(err)
			return err
		})
		switch {
		case r.ctx.Err() != nil:
			return
		case errdefs.IsNotFound(err):
			known := evidence.Evidence{Gone: true, EngineDown: broken}
			if r.far != nil { // the end of its container's step may have ended its program before
				known.Loss, known.EngineDown = err.Error(), true
			}
			a.harvest(State{}, known)
			return
		case err != nil: // no answer: ask again, there is nothing better to do
			r.warn("inspect", fmt.Sprintf("%s: %v", a, err))
		case c.Over():
			a.harvest(c, evidence.Evidence{EngineDown: broken})
			return
		}
		switch {
		case err == nil && c.Status != evidence.Created && !a.over() && !c.Dead:
			unsettled = time.Time{}
		case unsettled.IsZero():
			unsettled = time.Now()
		case time.Since(unsettled) > settleTime && (err == nil || a.over()):
			r.warn("missed", fmt.Sprintf("%s: the %s missed when its program began or ended", a, r.host.Engine))
			a.harvest(State{}, evidence.Evidence{Gone: true, EngineDown: true})
			return
		}
		_ = stage.Sleep(r.ctx, 100*time.Millisecond)
	}
}

// wait waits for the end of the container: seen, or else reported by the engine, some 30 ms later.
func (a *attempt) wait(broken bool) (seen bool, code int, err error) {
	r := a.r
	over := make(chan struct{})
	var told struct {
		code int
		err  error
	}
	r.work.Go(func() {
		defer close(over)
		told.code, told.err = r.engine.Wait(r.ctx, a.id)
	})
	ends := r.watcher.Ends(int64(a.l.Attempt))
	for {
		select {
		case <-over:
			return false, told.code, told.err
		case <-ends:
			if code, seen := a.sawEnd(); seen && !broken {
				r.mu.Lock()
				a.told = over
				r.mu.Unlock()
				return true, code, nil
			}
		}
	}
}

// sawEnd reports whether the program has ended by itself, and gantry saw all of it. Ends by signals, and reports of
// failed emulators, are left to the engine.
func (a *attempt) sawEnd() (code int, seen bool) {
	r := a.r
	if a.adopted || a.doubtful || !r.watcher.Over(int64(a.l.Attempt)) {
		return 0, false
	}
	end, err := a.ctl.End()
	if err != nil || end.Signal != 0 || end.Outside != 0 || end.Again {
		return 0, false
	}
	if code = end.Code; !end.Over { // as on a full disk
		by, _, err := a.ctl.Claimed()
		s, told := r.watcher.Status(int64(a.l.Attempt))
		if err != nil || by != control.Launcher || !told || !s.Exited() || s.ExitStatus() != 0 {
			return 0, false // other codes may be the launcher's own
		}
		code = 0
	}
	return code, (code == 0 || !a.l.Spec.Emulated()) && a.sawAll()
}

// pass returns once the present holder of the lock has released it.
func pass(l *sync.Mutex) {
	l.Lock()
	defer l.Unlock()
}

// over reports whether the program has ended, by the launcher or the kernel. False may be late news.
func (a *attempt) over() bool {
	if end, err := a.ctl.End(); err == nil && end.Over {
		return true
	}
	return a.final != nil && !a.final.Ended.IsZero() || a.r.watcher.Over(int64(a.l.Attempt))
}

// sawAll reports whether the beginning and the end of a program that has ended were seen here, and all that vanishes
// with its control group was read. Of most that end well that is so, and the engine has nothing to add.
func (a *attempt) sawAll() bool {
	f := a.watched()
	return !a.adopted && !f.Ended.IsZero() && f.Exact&a.wanted() == a.wanted() && !a.witness(f.Ended).IsZero()
}

// ownInspection is the state that the engine would report of a container that ended, if sawAll.
func (a *attempt) ownInspection(code int) State {
	over := a.watched().Ended
	return State{Status: evidence.Exited, ExitCode: code, Started: a.witness(over), Finished: over,
		Memory: a.spec.Limits.Memory, CountsIO: a.spec.CountsIO()}
}

// watched is the watcher's reading of the container, which has ended.
func (a *attempt) watched() cgroup.Final {
	if a.final == nil {
		f := a.r.watcher.Final(int64(a.l.Attempt))
		if a.r.far != nil {
			f = a.r.far.Counted(a.id)
		}
		a.final = &f
	}
	return *a.final
}

// kill ends an attempt in a goroutine. r.mu is held.
func (r *Runtime) kill(a *attempt, why planner.Outcome, grace time.Duration) {
	if a.phase == ended {
		return
	}
	if a.why == 0 {
		a.why, a.grace = why, grace
	}
	if a.phase == starting {
		a.abandon()
		return
	}
	r.work.Go(func() { a.stop(grace) })
}

// stop signals the program: SIGTERM, and SIGKILL after the grace time.
func (a *attempt) stop(grace time.Duration) {
	a.r.mu.Lock()
	a.wantPaused = false // a frozen program cannot take a signal
	a.r.mu.Unlock()
	a.applyPause(false)
	a.thaw()
	end := time.Now().Add(grace)
	wait := func(d time.Duration) (over bool) {
		select {
		case <-a.done:
		case <-a.r.ctx.Done():
		case <-time.After(d):
			return false
		}
		return true
	}
	if grace > 0 {
		// The kernel keeps a signal from the first process of a container until that has asked for it.
		for a.unclaimed() && time.Now().Before(end) {
			if wait(10 * time.Millisecond) {
				return
			}
		}
		a.signal("SIGTERM")
		if wait(time.Until(end)) {
			return
		}
	}
	a.signal("SIGKILL")
}

// unclaimed reports whether the launcher has not begun.
func (a *attempt) unclaimed() bool {
	by, _, err := a.ctl.Claimed()
	return err == nil && by == control.Nobody
}

// signal delivers a signal, once it is on record that it is gantry's.
func (a *attempt) signal(name string) {
	a.signalling.Lock()
	defer a.signalling.Unlock()
	r := a.r
	r.mu.Lock()
	why := a.why
	r.mu.Unlock()
	if err := fault.Do("ask", func() error { return a.ctl.Ask(uint8(why), name) }); err != nil {
		r.warn("ask", fmt.Sprintf("%s to %s: %v", name, a, err)) // a full disk, for one: it is ended all the same
	}
	err := r.call(r.ctx, func(ctx context.Context) error {
		return fault.Do("signal", func() error { return r.engine.Signal(ctx, a.id, name) })
	})
	silent := errors.Is(err, ErrNoAnswer) // it may be delivered all the same
	if err == nil || silent {
		r.mu.Lock()
		a.signalled = true
		r.mu.Unlock()
	}
	if silent && name == "SIGKILL" {
		r.tree.Kill(a.group) // where gantry may
	}
	if err != nil && !errdefs.IsConflict(err) && !errdefs.IsNotFound(err) &&
		r.ctx.Err() == nil { // those say that it had ended by itself
		r.warn("kill", fmt.Sprintf("%s to %s: %v", name, a, err))
	}
}
