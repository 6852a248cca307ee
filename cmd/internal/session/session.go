// Package session works on one run: it opens the log, the runtime and the estimators, begins the run or continues it,
// predicts its end, looks after its files, and cleans up. It knows no command line: commands turn theirs into Settings,
// which the log keeps, and Options, which hold for this process. A Session is one run on its way:
//
//	New -> Begin     reads workflows, checks them, and runs or simulates them (start.go, session.go)
//	New -> Continue  reads the log back and continues (resume.go, continue.go)
//	New -> Serve     takes workflows while it runs (serve.go)
package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gantry/cmd/gantry/early"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container"

	crash "gantry/executor/container/fault"
	"gantry/executor/container/oci/image"
	"gantry/executor/container/slurm"
	"gantry/executor/container/stage"
	"gantry/executor/experiment/metrics"
	"gantry/executor/forecast"
	"gantry/executor/reuse"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/sqlite"
	"gantry/sqlite/report/live"
	"gantry/trace"
	"gantry/trace/scenario"
)

// Options say how this process works on a run. The log keeps none of them.
type Options struct {
	Home    string // the directory of runs, absolute
	Name    string // of a new run; "": it gets one
	View    *term.Progress
	Predict bool // the run is simulated before it begins and while it is under way
	NoLog   bool
	// Page opens a server of the page of the run before anything runs; nil: nobody watches.
	Page func(db *sqlite.DB, run string) (*live.Server, error)
	// Ended sees how the run ended; nil: nobody does.
	Ended func(ctx context.Context, o Outcome) error
	// Change changes settings of a run that continues; nil: they are as they were.
	Change func(set *Settings) error
	// ReadAs takes over how workflows are to be read.
	ReadAs func(set *Settings, in *Inputs) error
	// Refuse refuses options that have no effect on the workflows that were read; nil: none is looked at.
	Refuse func(set *Settings, f *Facts) error
	// Why says in one line why a task waits; servers ask.
	Why func(*sqlite.Life) string
	// Of runs on Slurm.
	SlurmJob string // "": none is named
	Dry      bool   // nothing is started
	Cluster  bool   // a cluster file is given
	Starts   bool   // the number of containers that start at once is given
}

// Session is one run on its way: what begins, resumes and simulates it have in common.
type Session struct {
	set       *Settings
	platform  *planner.Platform
	name      string
	home      string // --dir, absolute
	dir       string // of the run
	db        *sqlite.DB
	log       *sqlite.Run // nil: nothing is kept
	lock      *os.File
	dirLock   *os.File
	keeper    *reuse.Keeper // knows files by their content; nil without a log
	upkeep    *upkeep       // looks after the files of the run; nil without a log
	view      *term.Progress
	refining  *refining // compares the run with what is known of the host; nil: it does not
	opts      Options   // of this process
	engine    *executor.Engine
	measured  func(l *executor.Launch) (sim.Measured, bool) // of a replay
	turns     []planner.Time                                // of a replay, when the run arrived and woke
	ideal     bool                                          // a replay: what was measured has all that hosts do
	history   *predict.History                              // nil: estimates come from elsewhere
	corrected *predict.Corrected                            // nil: estimates come from elsewhere, or with errors
	recaller  policy.Recaller                               // nil: the policy learns nothing from earlier runs
	window    int                                           // of the history: measurements of each kind
	learned   learned                                       // of earlier runs
	// repetitions is how many streams the workload file stands for; this run is one of them.
	repetitions int
	resumes     bool                 // it continues a run
	trained     *sqlite.TrainedModel // nil: estimates come from elsewhere
	collector   *metrics.Collector   // nil: metrics are taken from the log
	started     time.Time            // origin of the axis of the run
	page        *live.Server         // nil: nobody watches
	tasks       int                  // of the workflows that were checked
	facts       Facts                // of the workflows that are to run
	wanted      map[string]bool      // images of programs that are still to run
	images      *images              // what their names stand for; nil: nothing is known
	store       *image.Store         // of images; nil: the runtime needs none
	predicts    bool                 // the run is simulated before it begins and while it is under way
	programs    *programTimes        // what was measured of its programs; nil: nothing
	serving     *serving             // takes work while the run is under way; nil: it does not
	forecast    *forecast.Forecast   // before it began; nil: none
	slurm       *onSlurm             // nil: the nodes are this host's
	looks       bool                 // images are only looked at
	follower    *follower            // expects the end while the run is under way; nil: nobody does
}

// New makes a run that is to begin or to continue. To continue, it finds its settings in the log.
func New(set *Settings, o Options) *Session {
	return &Session{set: set, name: o.Name, home: o.Home, view: o.View, predicts: o.Predict, opts: o}
}

// Repetitions is how many streams the workload file stands for; the run is one of them.
func (s *Session) Repetitions() int { return s.repetitions }

// Close closes the log and lets the locks of the run go.
func (s *Session) Close() {
	if s.store != nil {
		s.store.Close()
	}
	if s.log != nil {
		s.log.Close()
	}
	if s.db != nil {
		s.db.Close()
	}
	if s.lock != nil {
		s.lock.Close() // the kernel drops the lock with it
	}
	if s.dirLock != nil {
		s.dirLock.Close()
	}
}

// open opens the log and takes the run's lock.
func (s *Session) open(mode sqlite.Mode) error {
	if s.db != nil {
		return nil
	}
	path := filepath.Join(s.home, sqlite.FileName)
	_, before := os.Lstat(s.home)
	if err := os.MkdirAll(s.home, 0o755); err != nil {
		return exit.Hostf("directory of runs: %w (choose another --dir)", err)
	}
	if before != nil {
		GiveToCaller(s.home)
	}
	_, before = os.Lstat(path)
	var err error
	if s.db, err = sqlite.Open(path, mode); err != nil {
		return exit.With(exit.Host, err)
	}
	if before != nil {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			GiveToCaller(path + suffix)
		}
	}
	return nil
}

// GiveToCaller changes the owner of a file created under sudo to the invoking user, who may run the next command
// without sudo.
func GiveToCaller(path string) {
	if o := stage.Caller(); o.UID != os.Geteuid() {
		_ = os.Lchown(path, o.UID, o.GID) // where that cannot be it stays root's
	}
}

// hold takes the lock of the run: of its directory, and of the file lock in it, which names the process.
// It ends with the process, so that no stale lock is ever left.
func (s *Session) hold() error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return exit.Hostf("run directory: %w (choose another --dir)", err)
	}
	GiveToCaller(s.dir)
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return exit.Hostf("lock run %s: %w", s.name, err)
	}
	GiveToCaller(f.Name())
	if s.dirLock, err = os.Open(s.dir); err == nil {
		if err = unix.Flock(int(s.dirLock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		}
	}
	if err != nil {
		holder, _ := os.ReadFile(f.Name())
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return exit.Heldf("run %s is held by another gantry (process %s): wait until it has ended, or stop it",
				s.name, holder)
		}
		return exit.Hostf("lock run %s: %w", s.name, err)
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintf(f, "%d", os.Getpid())
	}
	s.lock = f
	// Ignore SIGPIPE from here on: a run must survive its reader (gantry run | head).
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	early.Wait()
	return nil
}

// Policy makes the policy of the settings.
func (s *Session) policy() (planner.Policy, error) {
	pol, err := policy.Parse(s.set.Policy)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	if s.set.RejectLate {
		refuser, ok := pol.(planner.Refuser)
		if !ok {
			return nil, exit.Usagef("--reject-late: policy %s does not plan ahead for deadlines; use rm-dcwf, "+
				"mrcp-rm or fifo", s.set.Policy)
		}
		refuser.RejectLate()
	}
	return pol, nil
}

// planner makes the planner of the run and its admission.
func (s *Session) planner(ctx context.Context) (*planner.Planner, *executor.Admitter, error) {
	pol, err := s.policy()
	if err != nil {
		return nil, nil, err
	}
	rules, err := RetryRules(s.set.Retries)
	if err != nil {
		return nil, nil, exit.With(exit.Usage, err)
	}
	s.recaller, _ = pol.(policy.Recaller)
	adm := s.admitter()
	est, err := s.estimator(ctx, adm)
	if err != nil {
		return nil, nil, err
	}
	pl := planner.New(s.platform, rules, pol, est, s.set.draws())
	if s.serving != nil {
		limitCores(s.serving.limits, pl, adm)
	}
	return pl, adm, nil
}

func (s *Session) admitter() *executor.Admitter {
	return &executor.Admitter{Platform: s.platform, TimeScale: s.set.TimeScale, SizeScale: s.set.SizeScale,
		Image: s.set.Image, Emulate: s.set.Emulate, Env: s.set.Env, Mounts: s.set.Mounts,
		SafeNames: Capabilities(s.set.Runtime).Programs, Fit: s.set.Fit, Preempt: scenario.DefaultPreempt(),
		Memory: s.memory(), Shell: s.shell()}
}

// shell is that of commands whose workflow names none: of those that are handed in, the server's.
func (s *Session) shell() []string {
	words, _ := trace.ShellWords(s.set.Shell) // was read before
	return words
}

// keptTasks is how many tasks of streams to be simulated are kept in memory from when they were checked on.
const keptTasks = 100_000

// check says what cannot run here before anything runs, and whether any task is emulated. What a simulation draws
// beyond keptTasks it draws once more when it arrives: memory is what makes a long stream slow.
func (s *Session) check(subs []executor.Submission) (emulated bool, err error) {
	adm := s.admitter()
	for i := range subs {
		sub := subs[i]
		if err := sub.Make(); err != nil {
			return false, exit.With(exit.Input, err)
		}
		if err := adm.Check(&sub); err != nil {
			return false, exit.With(exit.Input, err)
		}
		tasks, noImage := adm.Emulated(&sub)
		emulated = emulated || tasks > 0
		if err := s.runnable(&sub, noImage); err != nil {
			return false, err
		}
		adm.Images(&sub, s.want)
		s.facts.Take(s.set, &sub)
		s.tasks += len(sub.Workflow.Tasks)
		if !Capabilities(s.set.Runtime).Virtual || s.tasks <= keptTasks {
			subs[i] = sub
		}
	}
	return emulated, nil
}

// want notes that a program of the run needs an image.
func (s *Session) want(image string) {
	if s.wanted == nil {
		s.wanted = map[string]bool{}
	}
	s.wanted[image] = true
}

// interruptible is a store that a test can have the process end before or after.
type interruptible struct{ executor.Store }

func (i interruptible) Append(ctx context.Context, b executor.Batch) error {
	return crash.Do("log", func() error { return i.Store.Append(ctx, b) })
}

// drive runs the engine to its end and says how it went.
func (s *Session) drive(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var left atomic.Bool // what runs is left to whoever resumes
	virtual := Capabilities(s.set.Runtime).Virtual
	if !virtual {
		control := make(chan executor.Control, 3)
		stop := s.listen(control, func() {
			left.Store(true)
			cancel()
		})
		defer stop()
		s.engine.Control = control
		if s.serving != nil {
			s.serving.control = control
		}
	} else {
		// A simulation has nothing to lose: the first signal ends it.
		var release context.CancelFunc
		ctx, release = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer release()
	}
	if s.log != nil { // who else would hear of it
		begun := time.Now()
		s.engine.Wall = func() time.Duration { return time.Since(begun) }
	}
	if s.set.Charge > 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		s.engine.Wall, s.engine.Charge = executor.ThreadTime, s.set.Charge
	}
	s.engine.FailFast = s.set.FailFast
	s.engine.Grace = s.set.Grace
	if s.log != nil {
		s.engine.Store = interruptible{s.log}
	}
	s.engine.Watch = s.watch
	if s.log != nil && !s.resumes && !virtual {
		s.refining = newRefining()
	}
	if s.live() {
		s.collector = metrics.NewCollector(s.platform)
		s.engine.Watch = func(v planner.View, events []planner.Event, admitted []*executor.Admission) {
			s.view.Watch(v, events, admitted)
			s.collector.Watch(v, events, admitted)
		}
	}
	defer s.serveLive(ctx)()
	if err := s.beginClock(); err != nil {
		return s.broken(ctx, errors.Join(err, s.engine.Runtime.Close()))
	}
	defer s.serving.begin(s)()
	b := term.Begun{Run: s.name, Policy: s.set.Policy, Platform: s.platform, Tasks: s.tasks,
		Repetition:  s.set.Repetition,
		Repetitions: s.repetitions, Virtual: virtual, Planner: s.engine.Planner, Started: s.started,
		Expected: s.follower.expected}
	if s.serving != nil {
		b.Home = s.home
	}
	s.view.Begin(b)
	s.announce()
	if virtual && s.set.Host != nil && !s.ideal {
		s.view.Note("simulated as this host runs containers, by what gantry calibrate measured (--host-model none: " +
			"ideal machines)")
	}
	if s.follower != nil {
		s.follower.run(ctx, func() planner.Time { return planner.Time(time.Since(s.started)) })
	}
	res, err := s.engine.Run(ctx)
	s.follower.close()
	s.view.End()
	if s.upkeep != nil {
		s.upkeep.end()
	}
	if r, ok := s.engine.Runtime.(executor.Remote); ok && err != nil && !left.Load() {
		r.Discard() // what ends now could not be logged
	}
	closing := s.engine.Runtime.Close()
	if errors.Is(err, context.Canceled) && (virtual || left.Load()) {
		err, res.Interrupted = nil, true
	}
	if left.Load() {
		ctx = context.WithoutCancel(ctx)
		if closing != nil {
			s.view.Warn("%v", closing)
			closing = nil
		}
	}
	if err != nil {
		return s.broken(ctx, err)
	}
	if closing != nil {
		return s.broken(ctx, closing)
	}
	return s.verdict(ctx, res)
}

// beginClock has a new run begin now: what it took until here is no part of it.
func (s *Session) beginClock() error {
	r, ok := s.engine.Runtime.(executor.Beginner)
	if !ok || s.resumes || s.log == nil {
		return nil
	}
	s.started = time.Now()
	if err := s.log.Began(s.started); err != nil {
		return err
	}
	r.Begin(s.started)
	return nil
}

// watch sees every batch that the log has.
func (s *Session) watch(v planner.View, events []planner.Event, admitted []*executor.Admission) {
	if s.upkeep != nil {
		s.upkeep.watch(v, events, admitted)
	}
	if s.follower != nil {
		s.follower.watch(v, events, admitted)
	}
	s.refining.watch(events)
	s.view.Watch(v, events, admitted)
	s.serving.watch(v, events, admitted)
}

// broken ends a run that cannot continue. What was logged stays, and the run can be resumed.
func (s *Session) broken(ctx context.Context, err error) error {
	code := exit.Internal
	if errors.Is(err, container.ErrUnusable) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, executor.ErrStuck) ||
		sqlite.IsDisk(err) {
		code = exit.Host
	}
	if errors.Is(err, slurm.ErrOver) { // as after a signal: another allocation continues it
		code = exit.Interrupted
	}
	unsupported := errors.Is(err, planner.ErrUnsupported)
	if unsupported || errors.Is(err, executor.ErrTooLong) {
		code = exit.Input
	}
	if s.log != nil {
		// that was said already
		if e := s.log.Finish(context.WithoutCancel(ctx), sqlite.Interrupted, code); e != nil && !sqlite.IsDisk(err) {
			err = errors.Join(err, e)
		}
	}
	s.atEnd(sqlite.Interrupted, code)
	if Capabilities(s.set.Runtime).Adopts && !unsupported {
		how := "resume " + s.name
		if s.serving != nil {
			how = "serve, in the same directory"
		}
		err = fmt.Errorf("%w\nfinished tasks are kept; continue with: gantry %s", err, how)
	}
	return exit.With(code, err)
}

func (s *Session) verdict(ctx context.Context, res executor.Result) error {
	v := s.engine.Planner.View()
	state, code := sqlite.Finished, exit.OK
	if s.serving != nil && !s.serving.Drained() {
		res.Interrupted = true // more may be handed in
	}
	failed := 0
	for w := range v.Workflows() {
		if _, continued := v.Continues(planner.WorkflowID(w)); !continued {
			_, n := v.Progress(planner.WorkflowID(w))
			failed += n
		}
	}
	switch {
	case res.Interrupted:
		state, code = sqlite.Interrupted, exit.Interrupted
	case len(res.Refused) > 0:
		state, code = sqlite.Failed, exit.Input
	case failed > 0:
		state, code = sqlite.Failed, exit.TasksFailed
	}
	if s.log != nil {
		after := context.WithoutCancel(ctx)
		if err := crash.Do("finish", func() error { return s.log.Finish(after, state, code) }); err != nil {
			return exit.With(exit.Host, err)
		}
		if state == sqlite.Finished {
			s.refine(after)
		}
		if !res.Interrupted && (s.serving == nil || v.Tasks() <= mostForecast) {
			if err := s.measure(after); err != nil {
				return exit.With(exit.Host, err)
			}
		}
	}
	placing := s.placeResults()
	if placing != nil && code == exit.OK {
		code = exit.Host
	}
	var err error
	if s.opts.Ended != nil {
		err = s.opts.Ended(ctx, Outcome{Run: s.name, Policy: s.set.Policy, View: v, Result: res, Failed: failed,
			Server: s.serving != nil, Log: s.db, Progress: s.view, Measured: s.collector != nil})
	}
	s.atEnd(state, code)
	if err != nil {
		return exit.With(exit.Internal, err)
	}
	if placing != nil {
		return exit.With(code, placing)
	}
	if code == exit.OK || s.serving != nil && code == exit.TasksFailed { // those who handed them in hear of it
		return nil
	}
	return exit.With(code, s.epilogue(res, failed))
}

// Outcome is how a run ended.
type Outcome struct {
	Run, Policy string
	View        planner.View
	Result      executor.Result
	Failed      int        // tasks that failed or were skipped
	Server      bool       // it took work while it was under way
	Log         *sqlite.DB // nil: none was kept
	Progress    *term.Progress
	Measured    bool // its metrics were taken as it went
}

// live reports whether the metrics of the run can be taken as it goes: what tasks are known to take is what they do
// take, and nothing of the run happened before this process.
func (s *Session) live() bool {
	return Capabilities(s.set.Runtime).Virtual && s.measured == nil && s.log != nil
}

// measure keeps the metrics of a run that is over in its log.
func (s *Session) measure(ctx context.Context) error {
	collector, window := s.collector, metrics.Window{WarmUp: s.set.WarmUp, CoolDown: s.set.CoolDown}
	if collector == nil {
		var err error
		if collector, window, err = MeasureLog(ctx, s.db, s.log.Info()); err != nil {
			return err
		}
	}
	return s.log.Measure(RunMetrics(collector, window), WorkflowMetrics(collector, window))
}

// epilogue is the last line of a run that did not go through; nil if the summary has said it all.
func (s *Session) epilogue(res executor.Result, failed int) error {
	if len(res.Refused) > 0 {
		return errors.Join(res.Refused...)
	}
	if res.Interrupted && s.serving != nil {
		return fmt.Errorf("stopped; submissions are kept: gantry serve continues run %s", s.name)
	}
	if res.Interrupted && Capabilities(s.set.Runtime).Adopts {
		return fmt.Errorf("stopped; continue with: gantry resume %s", s.name)
	}
	if res.Interrupted {
		return errors.New("stopped")
	}
	return fmt.Errorf("%s failed or skipped; for the reason: gantry explain %s TASK", term.Plural(failed, "task"),
		s.name)
}

// listen turns signals into controls: the first drains, the second stops, the third kills. SIGTERM stops at once, and
// so does SIGHUP, when the terminal is gone; under nohup there is none. Where a Docker Engine that does not answer
// cannot kill, it leaves.
func (s *Session) listen(control chan<- executor.Control, leave func()) (stop func()) {
	signals := early.Loop()
	done := make(chan struct{})
	go func() {
		var level executor.Control
		for {
			select {
			case <-done:
				return
			case sig := <-signals:
				if level++; sig != os.Interrupt && level < executor.Stop {
					level = executor.Stop
				}
				if r, ok := s.engine.Runtime.(executor.Remote); ok && level >= executor.Abort && r.Away() {
					s.view.Note("%s", "the Docker Engine does not answer: running containers are left as they are")
					leave()
					continue
				}
				if level > executor.Abort {
					continue
				}
				s.view.Note("%s", [...]string{"",
					"stopping: running tasks may end, no task is started (Ctrl-C again stops them)",
					"stopping running tasks (Ctrl-C again kills them)", "killing running tasks"}[level])
				control <- level
			}
		}
	}()
	return func() { close(done) }
}
