package container

import (
	"cmp"
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
	"gantry/executor/container/stage"
	"gantry/executor/emulate"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace/shown"
)

// phase is how far an attempt is.
//
//	starting ──► running ──► ended
//	    └──────────────────────▲
type phase uint8

const (
	starting phase = iota // files, container
	running
	ended
)

// attempt is one container with its files and state. Fields without a comment of their own are constant, or belong to
// its goroutine.
type attempt struct {
	r       *Runtime
	l       executor.Launch
	dir     string          // work directory
	ctl     control.Dir     // control directory
	aways   int64           // of the runtime, when the attempt began
	earlier planner.Outcome // why an earlier gantry had begun to end it; 0 if none had
	parent  string          // control group above the container's; "" if there is none of its own
	group   string          // the container's control group
	read    unit.Bytes      // sizes of its inputs
	copied  unit.Bytes      // of those that came from other nodes
	usage   planner.Usage
	adopted bool
	// doubtful: the engine was asked to start it and did not say that it had, but the program began
	doubtful bool
	loss     string // why the engine has lost its container; "" if it does not say
	notes    []string
	spec     *Spec         // nil if it is adopted
	asked    string        // name of the container that the engine was asked to create
	expanded []string      // words of arguments
	final    *cgroup.Final // nil until the watcher was asked

	// Of a container that is started ahead: its name in place of the attempt's, "" of all others; where the attempt's
	// own control directory would be, once it is bound to one; the pipe that its launcher waits at.
	ticket  string
	link    control.Dir
	pipe    *os.File
	key     int64 // of the watcher
	ordered chan executor.Launch
	code    int           // exit code that was seen here
	told    chan struct{} // closed when the engine, which had not, has noted the end; nil if it had

	disk atomic.Int64 // the most bytes that its work directory was seen to take

	staging context.Context // ends when the attempt is killed before its program runs
	abandon context.CancelFunc
	runs    chan struct{} // closed when the program runs, or will not
	began   time.Time     // set before; zero if it will not
	done    chan struct{} // closed when the container has ended

	// Under r.mu:
	id         string // of the container; "" before there is one
	phase      phase
	why        planner.Outcome // of a kill that was ordered; 0 if none was
	grace      time.Duration   // of that
	lose       bool            // its work is given up, even if it leaves a checkpoint
	signalled  bool            // a signal of ours was delivered
	wantPaused bool
	paused     bool
	pausedAt   time.Time
	pausedFor  time.Duration
	held       time.Time // since when somebody else has paused it; zero if nobody has
	limit      *time.Timer
	limitLeft  time.Duration
	limitFrom  time.Time

	pausing    sync.Mutex // held while the engine pauses or unpauses it
	signalling sync.Mutex // held while the engine delivers a signal
}

func newAttempt(r *Runtime, l executor.Launch) *attempt {
	a := &attempt{r: r, l: l, aways: r.aways.Load(), done: make(chan struct{}),
		runs: make(chan struct{}), dir: r.files.WorkDir(l.Spec, l.Try),
		parent: r.attemptGroup(l.Node, attemptName(l.Attempt)), ctl: r.controlDir(l.Attempt), key: int64(l.Attempt)}
	a.staging, a.abandon = context.WithCancel(r.ctx)
	a.usage = planner.Usage{Queued: l.Queued, Staged: unit.Never, Created: unit.Never, Started: unit.Never,
		Ended: unit.Never}
	return a
}

// attemptGroup is the control group of an attempt: it keeps the counters of its container's group when that is gone.
func (r *Runtime) attemptGroup(n planner.NodeID, name string) string {
	if r.group == "" {
		return ""
	}
	return r.tree.Group("gantry", r.tree.Name(r.name), r.tree.Name(r.cfg.Platform.Nodes[n].Name), name)
}

// attemptName is the name of the control group and of the control directory of an attempt.
func attemptName(a planner.AttemptID) string { return "a" + strconv.Itoa(int(a)) }

func (a *attempt) String() string {
	if a.l.Attempt == planner.None {
		return fmt.Sprintf("task %s of workflow %s (started ahead)", a.l.Spec.Name, a.l.Spec.Workflow.Name)
	}
	return fmt.Sprintf("task %s of workflow %s (attempt %d)", a.l.Spec.Name, a.l.Spec.Workflow.Name, a.l.Attempt)
}

// run takes the attempt from its files to its end.
func (a *attempt) run() {
	defer a.r.work.Done()
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
	pass(&r.clearing) // an abandoned container that was prepared for the same task is out of its directory
	if err := fault.Do("stage", func() error { return a.stage(a.staging) }); err != nil {
		return fmt.Errorf("prepare %s: %w", a, err)
	}
	if err := fault.Do("control", a.makeControl); err != nil {
		return fmt.Errorf("prepare %s: %w", a, err)
	}
	if err := a.limitDisk(); err != nil {
		return fmt.Errorf("prepare %s: %w", a, err)
	}
	a.usage.Staged, a.usage.InputBytes, a.usage.CopiedBytes = r.Now(), a.read, a.copied
	if err := a.launch(); err != nil {
		return err
	}
	a.usage.Started = r.Now()
	a.running(time.Now(), true)
	return nil
}

// makeControl makes the control directory, with the identities of the mounted directories: the launcher has to find the
// directories that the user may use now, even if their paths lead elsewhere when the container is made.
func (a *attempt) makeControl() error {
	if err := a.ctl.Make(os.Geteuid() != 0); err != nil {
		return err
	}
	if err := errors.Join(a.makeTmp(), a.hasSecrets()); err != nil {
		return err
	}
	for _, text := range a.l.Spec.Mounts {
		m, w := executor.ParseMount(text), a.l.Spec.Workflow
		if !m.InPlace && w.By == nil || submittedSecret(m) { // which the server made, and nobody can replace
			continue
		}
		name := "mount"
		if m.InPlace {
			name = "the directory of its job"
		}
		id, err := a.r.files.Mounted(w, m)
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
	if err := r.watcher.Watch(a.key, a.group, a.wanted()); err != nil {
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
func (a *attempt) wanted() cgroup.Set {
	if a.parent == "" {
		return cgroup.Everything
	}
	return cgroup.Everything &^ a.r.tree.Outlive()
}

// groupOf is the group of the container with that ID.
func (a *attempt) groupOf(id string) string {
	switch {
	case a.parent == "":
		return a.r.tree.Container(a.r.tree.DockerParent(), id)
	case a.r.host.TakesGroup:
		return a.parent
	}
	return a.r.tree.Container(a.parent, id)
}

// create makes the container. A kill in the meantime is seen before it starts.
func (a *attempt) create() (id string, err error) {
	a.configure()
	if err := a.makePlaces(); err != nil {
		return "", err
	}
	if a.ticket == "" { // else its inputs are not there yet
		if err := a.words(); err != nil {
			return "", err
		}
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
	close(a.runs)
	if !a.l.Started {
		r.emit(planner.AttemptStarted{Attempt: a.l.Attempt})
	}
	if !lives {
		return
	}
	if d := a.l.Spec.TimeLimit; d > 0 {
		a.limitLeft = d - time.Since(since) + a.pausedFor
		if a.l.From != nil {
			a.limitLeft -= a.l.From.In
		}
		if a.paused {
			a.limitLeft += time.Since(a.pausedAt)
		} else {
			a.armLimit()
		}
	}
	if a.diskLimit() > 0 && !r.watchingDisk && !r.closing {
		r.watchingDisk = true
		r.work.Add(1)
		go r.watchDisk()
	}
	if a.why != 0 && !r.closing { // killed while it started
		r.work.Add(1)
		go a.stop(a.grace)
	}
	if a.wantPaused != a.paused && !r.closing {
		r.work.Add(1)
		go a.pause()
	}
}

// armLimit starts the clock of the time limit. r.mu is held.
func (a *attempt) armLimit() {
	a.limitFrom = time.Now()
	a.limit = time.AfterFunc(max(a.limitLeft, 0), func() {
		a.r.mu.Lock()
		defer a.r.mu.Unlock()
		if a.phase == running && !a.r.closing {
			a.r.kill(a, planner.TimedOut, a.r.cfg.Grace)
		}
	})
}

// notStarted ends an attempt whose program never ran.
func (a *attempt) notStarted(err error) {
	r := a.r
	if r.ctx.Err() != nil { // closed: a resumed run finds it lost
		return
	}
	x := &planner.AttemptExited{Attempt: a.l.Attempt, Outcome: planner.HostError, ExitCode: -1}
	a.freeDisk()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case a.why != 0:
		x.Outcome = a.why
	case errors.Is(err, ErrLost):
		x.Outcome, x.Message = planner.Lost, err.Error()
	case r.aways.Load() != a.aways:
		x.Outcome = planner.Lost
		x.Message = "the " + r.host.Name + " was stopped, or did not answer, before the program began: " + err.Error()
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
		r.watcher.Final(a.key)
	}
	a.end(x)
}

// end emits the end. r.mu is held.
func (a *attempt) end(x *planner.AttemptExited) {
	if a.phase == starting {
		close(a.runs)
	}
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
	x.Final = x.Final || x.Outcome != planner.OK && a.l.Spec.WritesInPlace() && a.everBegan()
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
			a.harvest(a.ownInspection(), false, false)
			return
		case err == nil && code == 0 && !broken && a.sawAll():
			a.harvest(a.ownInspection(), false, false)
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
			if r.far != nil { // the end of its container's step may have ended its program before
				a.loss, broken = err.Error(), true
			}
			a.harvest(State{}, true, broken)
			return
		case err != nil: // no answer: ask again, there is nothing better to do
			r.warn("inspect", fmt.Sprintf("%s: %v", a, err))
		case c.Over():
			a.harvest(c, false, broken)
			return
		}
		switch {
		case err == nil && c.Status != evidence.Created && !a.over() && !r.engine.Dead(a.id, c.Pid):
			unsettled = time.Time{}
		case unsettled.IsZero():
			unsettled = time.Now()
		case time.Since(unsettled) > settleTime && (err == nil || a.over()):
			r.warn("missed", fmt.Sprintf("%s: the %s missed when its program began or ended", a, r.host.Name))
			a.harvest(State{}, true, true)
			return
		}
		_ = stage.Sleep(r.ctx, 100*time.Millisecond)
	}
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
	return a.final != nil && !a.final.Ended.IsZero() || a.r.watcher.Over(a.key)
}

// sawAll reports whether the beginning and the end of a program that has ended were seen here, and all that vanishes
// with its control group was read. Of most that end well that is so, and the engine has nothing to add.
func (a *attempt) sawAll() bool {
	f := a.watched()
	return !a.adopted && !f.Ended.IsZero() && f.Exact&a.wanted() == a.wanted() && !a.witness(f.Ended).IsZero()
}

// ownInspection is the state that the engine would report of a container that ended well, if sawAll.
func (a *attempt) ownInspection() State {
	over := a.watched().Ended
	return State{Status: evidence.Exited, ExitCode: a.code, Started: a.witness(over), Finished: over,
		Memory: a.spec.Limits.Memory, CountsIO: a.spec.CountsIO()}
}

// watched is the watcher's reading of the container, which has ended.
func (a *attempt) watched() cgroup.Final {
	if a.final == nil {
		f := a.r.watcher.Final(a.key)
		if a.r.far != nil {
			f = a.r.far.Counted(a.id)
		}
		a.final = &f
	}
	return *a.final
}

// harvest judges the end of a container, or of one that is gone, reads its counters and publishes the outputs.
func (a *attempt) harvest(c State, gone, broken bool) {
	r := a.r
	r.reached(a.l.Attempt, executor.Known)
	x := &planner.AttemptExited{Attempt: a.l.Attempt}
	e := a.evidence(c, gone, broken)
	a.measure(x, c, &e)
	if a.overDisk() {
		e.DiskUsed = a.disk.Load()
	}
	e.DiskFull = a.freeDisk()
	v := e.Judge()
	x.Outcome, x.ExitCode, x.Message = v.Outcome, v.Code, evidence.Join(v.Message, x.Message)
	x.Usage.Signal = int64(v.Signal)
	if x.Outcome == planner.OK {
		if missing, err := r.files.Publish(&a.l, a.ctl.Note()); err != nil {
			x.Outcome, x.Message = planner.HostError, explain(fmt.Errorf("publish outputs of %s: %w", a, err))
		} else if missing != "" {
			v = e.Missing(missing)
			x.Outcome, x.Message = v.Outcome, v.Message
		} else if r.cfg.Published != nil {
			r.cfg.Published(&a.l)
		}
	}
	if x.Outcome == planner.Preempted && a.l.Keeps != nil {
		a.keep(x)
	}
	x.Message = evidence.Join(x.Message, a.truncated(&e, x))
	if x.Outcome != planner.OK {
		words := a.lastWords(x.Outcome)
		if x.Outcome == planner.ExitCode || x.Outcome == planner.OutputMissing {
			x.Message = evidence.Join(x.Message, a.full(&e, words))
		}
		x.Message = evidence.Join(x.Message, words)
	} else if a.emulated() {
		x.Message = evidence.Join(x.Message, a.late(x.Ran))
	} else {
		x.Message = evidence.Join(x.Message, a.doubts())
	}
	a.leave(x)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() == nil {
		a.end(x)
	}
}

// truncated reports and counts standard output and error that were not kept.
func (a *attempt) truncated(e *evidence.Evidence, x *planner.AttemptExited) string {
	if !e.End.Truncated {
		return ""
	}
	x.Usage.DroppedBytes = unit.Bytes(e.End.Dropped)
	said := shown.Size(e.End.Dropped) + " of its standard output and error are not kept"
	if e.End.Dropped == 0 {
		said = "not all of its standard output and error is kept"
	}
	var kept int64
	for _, name := range []string{".command.out", ".command.err"} {
		if st, err := os.Stat(filepath.Join(a.dir, name)); err == nil {
			kept += st.Size()
		}
	}
	if kept < a.r.cfg.MaxOutput {
		said += " (they could not be written: the file system of the run may be full)"
	} else {
		said += fmt.Sprintf(" (--max-output %d)", a.r.cfg.MaxOutput)
	}
	a.say("%s", said)
	return said
}

// evidence gathers all evidence of the end but the counters.
func (a *attempt) evidence(c State, gone, broken bool) evidence.Evidence {
	r := a.r
	e := evidence.Evidence{Teller: r.host.Teller(), Emulated: a.emulated(), TimeLimit: a.l.Spec.TimeLimit,
		Strict:    a.l.Spec.Shell && len(a.l.Spec.Command) > 1,
		DiskLimit: a.diskLimit(), Gone: gone, Leaving: a.l.Leaving, Loss: a.loss}
	a.signalling.Lock() // a signal under way was delivered, or came too late
	r.mu.Lock()
	e.Asked, e.Acted = a.why, a.signalled
	r.mu.Unlock()
	a.signalling.Unlock()
	if a.earlier != 0 { // a gantry before this one may have delivered one
		e.Asked, e.Acted = cmp.Or(e.Asked, a.earlier), true
	}
	a.seal()
	var err error
	if e.Claim, _, err = a.ctl.Claimed(); err == nil {
		if e.End, err = a.ctl.End(); err == nil {
			_, e.Removed, err = a.ctl.Asked()
		}
	}
	if err != nil {
		r.warn("control", fmt.Sprintf("%s: %v", a, err))
	}
	e.Code = c.ExitCode
	if c.Error != "" {
		e.StartError = fmt.Sprintf("container of %s: %s", a, c.Error)
	}
	f := a.watched()
	e.Told, e.Exited = f.Told && (!f.Status.Exited() || f.Status.ExitStatus() == e.Code), f.Status.Exited()
	e.EngineDown = broken || a.diedWithEngine(c) || r.Away()
	if c.ExitCode != 0 && !c.Started.IsZero() {
		e.EngineNew = c.Started.Sub(r.engine.Since()) < engineIsNew
	}
	return e
}

// engineIsNew is how long an engine may take to clear up once it was started.
const engineIsNew = 10 * time.Second

// diedWithEngine reports whether the container ended before the Docker Engine was started that is there now, although
// it had begun under another one: then nobody else need have ended it.
func (a *attempt) diedWithEngine(c State) bool {
	begun, over := c.Started, c.Finished
	if !a.adopted || begun.IsZero() || over.IsZero() {
		return false
	}
	since := a.r.engine.Since()
	// a new engine notes the end of dead containers that it finds
	return begun.Before(since) && over.Before(since.Add(10*time.Second))
}

// measure fills in the times, the counters and the limits.
func (a *attempt) measure(x *planner.AttemptExited, c State, e *evidence.Evidence) {
	r, u := a.r, &a.usage
	now := r.Now()
	u.Ended = now
	r.mu.Lock()
	suspended := a.pausedFor
	if a.paused {
		suspended += time.Since(a.pausedAt)
	}
	r.mu.Unlock()
	begun, over := c.Started, c.Finished
	if _, at, err := a.ctl.Claimed(); begun.IsZero() && e.End.Over && err == nil { // only the launcher tells of it
		begun, over = at, e.End.At
	}
	if !begun.IsZero() {
		if !over.IsZero() {
			u.Ended = min(max(r.at(over), u.Queued), now)
			begun = a.begun(begun, over)
		}
		u.Started = min(max(r.at(begun), u.Queued), u.Ended)
		if u.Created != unit.Never {
			u.Started = max(u.Started, u.Created)
			u.Ended = max(u.Ended, u.Started)
		}
		x.Ran = u.Ended.Sub(u.Started)
		if a.adopted && !over.IsZero() { // the run's clock stood still while there was no gantry
			x.Ran = over.Sub(begun)
		}
		x.Ran = max(0, x.Ran-suspended)
	} else if u.Started != unit.Never {
		x.Ran = max(0, u.Ended.Sub(u.Started)-suspended)
	}

	final := a.watched()
	k, exact := final.Counters, final.Exact
	if a.parent != "" {
		up := r.tree.Read(a.parent, r.tree.Outlive())
		exact |= up.Got & r.tree.Outlive()
		k = k.Max(up)
	}
	u.CPUUser, u.CPUSystem, u.CPUThrottled = k.CPUUser, k.CPUSystem, k.Throttled
	u.PeakMemory = unit.Bytes(k.PeakMemory)
	u.ReadBytes, u.WrittenBytes, u.ReadOps, u.WriteOps = unit.Bytes(k.ReadBytes), unit.Bytes(k.WrittenBytes), k.ReadOps,
		k.WriteOps
	u.OOMKills = k.OOMKills
	for _, m := range []struct {
		set     cgroup.Set
		counter planner.Counters
	}{{cgroup.CPU, planner.CounterCPU}, {cgroup.Memory, planner.CounterMemory}, {cgroup.IO, planner.CounterIO},
		{cgroup.Throttled, planner.CounterThrottled}} {
		if exact&m.set == 0 {
			u.Missing |= m.counter
		}
	}
	if r.group == "" && r.far == nil && r.tree.Mode() != cgroup.Unified && c.Status != evidence.Absent && !c.CountsIO &&
		k.ReadBytes+k.WrittenBytes == 0 { // perhaps nobody counted: see counting
		u.Missing |= planner.CounterIO
	}
	u.Applied = limitsOf(final.Limits)
	x.Usage = *u
	// Without the kernel's own count, Docker's flag needs a second witness: the peak has reached the limit.
	if exact&cgroup.OOM == 0 && k.OOMKills == 0 && c.OOMKilled {
		if limit := c.Memory; limit > 0 && k.PeakMemory >= limit-limit/64 {
			x.Usage.OOMKills, e.EngineOOM = 1, true
		}
	}
	e.OOMKills, e.PeakMemory, e.MemoryLimit = k.OOMKills, k.PeakMemory, c.Memory
	if k.ForksRefused > 0 {
		x.Message = fmt.Sprintf("%s refused by the limit of %d processes", evidence.Plural(k.ForksRefused, "fork was",
			"forks were"), r.cfg.PIDs)
	}
}

// begun is when the program began. The engine's word comes some milliseconds late, which matters in short tasks:
// programs end before they begin. The program's witness knows better, and counts only as far as the engine's times
// allow.
func (a *attempt) begun(told, over time.Time) time.Time {
	t := a.witness(over)
	if t.Before(told) && t.After(told.Add(-time.Second)) || a.ticket != "" && !t.IsZero() {
		return t
	}
	return told
}

// witness is when the program began, as the launcher or the emulator noted; the zero Time if neither did, or that
// cannot be.
func (a *attempt) witness(over time.Time) time.Time {
	by, t, err := a.ctl.Claimed()
	if err != nil || by != control.Launcher {
		return time.Time{}
	}
	if t.After(over) || a.usage.Created != unit.Never && a.r.at(t) < a.usage.Created {
		return time.Time{}
	}
	return t
}

func limitsOf(l cgroup.Limits) planner.Limits {
	out := planner.Limits{Memory: unit.Bytes(l.Memory), MemorySwap: unit.Bytes(l.MemorySwap), PIDs: l.PIDs,
		ReadBps: unit.BytesPerSecond(l.ReadBps), WriteBps: unit.BytesPerSecond(l.WriteBps), ReadIOPS: l.ReadIOPS,
		WriteIOPS: l.WriteIOPS}
	if l.CPUPeriod > 0 {
		out.CPUMillicores = int64((float64(l.CPUQuota)*1000)/float64(l.CPUPeriod) + 0.5)
	}
	return out
}

// lastWords is the end of the program's standard error, or the engine's message if the program did not begin; for an
// emulated task, its misses.
func (a *attempt) lastWords(o planner.Outcome) string {
	if a.emulated() {
		if o == planner.ExitCode {
			if rep, err := a.report(); err == nil && len(rep.Misses) > 0 {
				return "missed: " + strings.Join(rep.Misses, "; ")
			}
		}
	}
	name := ".command.err"
	by, _, err := a.ctl.Claimed()
	silent := err == nil && by != control.Launcher
	if a.id != "" && (silent || a.emulated()) {
		a.saveLogs()
	} else if a.l.Spec.Stderr != "" {
		name = a.l.Spec.Stderr
	}
	last := ""
	_ = a.as(func() error {
		last = stage.Tail(a.dir, name, 5)
		return nil
	})
	return a.masked(last)
}

// doubts names possible failures of a program that ended well: output on standard error, and empty outputs.
func (a *attempt) doubts() string {
	const most = 5
	var said, empty []string
	if st, err := os.Lstat(filepath.Join(a.dir, undeclaredErr)); err == nil && st.Mode().IsRegular() && st.Size() > 0 {
		said = append(said, evidence.WroteStderr)
	}
	for _, f := range a.l.Spec.Outputs {
		st, err := os.Lstat(a.r.files.Path(a.l.Node, a.l.Spec.Workflow, f))
		if err == nil && st.Mode().IsRegular() && st.Size() == 0 && f.Name != a.l.Spec.Stderr {
			empty = append(empty, strconv.Quote(f.Name))
		}
	}
	if n := len(empty); n > most {
		empty = append(empty[:most], fmt.Sprintf("%d more", n-most))
	}
	if len(empty) > 0 {
		said = append(said, "left an empty output: "+strings.Join(empty, ", "))
	}
	return strings.Join(said, ", and ")
}

// as calls f, which does something in the work directory, with the rights of the owner of that directory.
func (a *attempt) as(f func() error) error { return a.r.files.As(a.l.Spec.Workflow, f) }

// report is the emulator's report of its work.
func (a *attempt) report() (rep *emulate.Report, err error) {
	err = a.as(func() (err error) {
		rep, err = emulate.ReadReport(a.dir)
		return err
	})
	return rep, err
}

// late says which part of its work kept an emulated task from lasting as long as its trace says.
func (a *attempt) late(ran time.Duration) string {
	run := a.l.Spec.TrueRun(a.l.Node, a.r.cfg.Platform.Nodes[a.l.Node].Speed)
	if a.l.From != nil || ran <= run+run/50 {
		return ""
	}
	rep, err := a.report()
	if err != nil || rep.LimitedBy == "" {
		return ""
	}
	part := map[string]string{"cpu": "computing", "read": "reading its inputs", "write": "writing its outputs",
		"start": "starting"}[rep.LimitedBy]
	return fmt.Sprintf("lasted %.2f s longer than its trace says, as %s takes that long here",
		time.Duration(rep.LateNanos).Seconds(), part)
}

// leave writes the files for people into the work directory after the end.
func (a *attempt) leave(x *planner.AttemptExited) {
	if a.spec == nil && x.Outcome != planner.OK && a.r.cfg.TaskBinary != "" { // an earlier process made it
		a.configure()
		if a.expand(a.staging) != nil {
			a.spec = nil
		}
	}
	_ = a.as(func() error {
		a.leaveNotes(x)
		return nil
	})
}

func (a *attempt) leaveNotes(x *planner.AttemptExited) {
	if x.ExitCode >= 0 {
		_ = stage.Write(a.dir, ".exitcode", strconv.Itoa(x.ExitCode), 0o644) // as Nextflow does, without a line end
	}
	if x.Outcome != planner.OK { // most end well: some files less
		if a.spec != nil {
			_ = stage.Write(a.dir, ".command.run", a.runScript(), 0o755)
		}
		a.say("%s, exit code %d, ran %v: %s", x.Outcome, x.ExitCode, x.Ran, x.Message)
	}
	if len(a.notes) > 0 {
		_ = stage.Write(a.dir, ".command.log", strings.Join(a.notes, "\n")+"\n", 0o644)
	}
}

// say keeps a line for .command.log, gantry's own account of the attempt.
func (a *attempt) say(format string, args ...any) {
	a.notes = append(a.notes, time.Now().UTC().Format(time.RFC3339Nano)+" "+fmt.Sprintf(format, args...))
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
	r.work.Add(1)
	go a.stop(grace)
}

// stop signals the program: SIGTERM, and SIGKILL after the grace time.
func (a *attempt) stop(grace time.Duration) {
	defer a.r.work.Done()
	a.r.mu.Lock()
	a.wantPaused = false // a frozen program cannot take a signal
	a.r.mu.Unlock()
	a.applyPause(false)
	a.letGo()
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

// pause makes the container as frozen as is wanted.
func (a *attempt) pause() {
	defer a.r.work.Done()
	a.applyPause(true)
}

// applyPause freezes or thaws the container until it is as wanted; announce informs the engine's loop.
func (a *attempt) applyPause(announce bool) {
	r := a.r
	a.pausing.Lock()
	defer a.pausing.Unlock()
	for {
		r.mu.Lock()
		want, is, over := a.wantPaused, a.paused, a.phase != running
		r.mu.Unlock()
		if want == is || over || r.ctx.Err() != nil {
			return
		}
		if err := a.freeze(want); err != nil {
			if !errdefs.IsConflict(err) && !errdefs.IsNotFound(err) && r.ctx.Err() == nil {
				r.warn("pause", fmt.Sprintf("suspend or resume %s: %v", a, err))
			}
			return // it has ended, and that is reported, or the host does not freeze it, and it runs on
		}
		now := time.Now()
		r.mu.Lock()
		if a.phase != running {
			r.mu.Unlock()
			return
		}
		a.hold(false) // even if somebody else paused it: from here on it is gantry's
		a.paused = want
		if want {
			a.pausedAt = now
			if a.limit != nil && a.limit.Stop() {
				a.limitLeft -= now.Sub(a.limitFrom)
			}
			if announce {
				r.emit(planner.AttemptSuspended{Attempt: a.l.Attempt})
			}
		} else {
			a.pausedFor += now.Sub(a.pausedAt)
			if a.l.Spec.TimeLimit > 0 {
				a.armLimit()
			}
			if announce {
				r.emit(planner.AttemptResumed{Attempt: a.l.Attempt})
			}
		}
		r.mu.Unlock()
	}
}

// freeze pauses or unpauses the container; one that is so already is no error. The freezer of cgroup v1 gives up on
// processes that have used up their CPU quota and cannot come to be frozen: they can a little later.
func (a *attempt) freeze(want bool) error {
	const tries = 40
	for try := 1; ; try++ {
		err := a.r.call(a.r.ctx, func(ctx context.Context) error { return a.r.engine.Freeze(ctx, a.id, want) })
		if try == tries || !errors.Is(err, ErrBusy) {
			return err
		}
		select {
		case <-a.done:
			return err
		case <-a.r.ctx.Done():
			return err
		// at another moment of the quota's period each time
		case <-time.After(time.Duration(23+7*(try%12)) * time.Millisecond):
		}
	}
}

// emulated reports whether the task emulator does the work.
func (a *attempt) emulated() bool { return a.l.Spec.Emulated() }
