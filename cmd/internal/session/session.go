// Package session works on one run: it opens the log, the runtime and the estimators, begins the run or continues it,
// predicts its end, looks after its files, and cleans up. It knows no command line: commands turn theirs into Settings,
// which the log keeps, and Options, which hold for this process. A Session is one run on its way:
//
//	New -> Begin     reads workflows, checks them, and runs or simulates them (start.go, session.go)
//	New -> Continue  reads the log back and continues (resume.go)
//	New -> Open      begins or continues the run of a Server, which takes work (resume.go; package serve)
//
// Its parts work without it, too: Planning makes planners and simulations, Prediction simulates a run, images finds
// images, onSlurm has an allocation, and upkeep the files of a run.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"gantry/cmd/gantry/early"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container"
	crash "gantry/executor/container/fault"
	"gantry/executor/container/slurm"
	"gantry/executor/experiment/metrics"
	"gantry/executor/own"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/sqlite/report/live"
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
	Server Server // takes work while the run is under way; nil: nobody does
	// Of runs on Slurm.
	SlurmJob string // "": none is named
	Dry      bool   // nothing is started
	Cluster  bool   // a cluster file is given
	Placed   bool   // its nodes are placed on others of the allocation, as those of a run that continues
	Starts   bool   // the number of containers that start at once is given
}

// Server takes work while a run is under way.
type Server interface {
	// Restore takes in accepted submissions that have not ended, once the log was read back.
	Restore(ctx context.Context, s *Session) error
	// Begin lets work be handed in. The returned function ends that.
	Begin(s *Session) (end func())
	// Watch sees every batch that the log has.
	Watch(v planner.View, events []planner.Event, admitted []*executor.Admission)
	// Drained reports whether it takes no more work.
	Drained() bool
}

// Session is one run on its way.
type Session struct {
	Planning
	work
	images
	controls
	Prediction *Prediction // nil: the run is not simulated beside its course
	Name       string
	Dir        string      // of the run
	Log        *sqlite.Run // nil: nothing is kept
	Started    time.Time   // origin of the axis of the run

	opts      Options
	locks     []*os.File         // of the run
	upkeep    *upkeep            // looks after the files of the run; nil without a log
	results   promised           // patterns of them
	collector *metrics.Collector // nil: metrics are taken from the log
	page      *live.Server       // nil: nobody watches
	resumes   bool               // it continues a run
	planned   string             // the policy by which it was planned before
	ends      atomic.Int64       // when it is expected to end; see expected
}

// New makes a run that is to begin or to continue. To continue, it finds its settings in the log.
func New(set *Settings, o Options) *Session {
	s := &Session{Planning: Planning{Set: set, Home: o.Home, View: o.View}, Name: o.Name, opts: o,
		controls: make(controls, 3)}
	s.ends.Store(int64(unit.Never))
	return s
}

// Close closes the log and lets the locks of the run go.
func (s *Session) Close() {
	if s.store != nil {
		s.store.Close()
	}
	if s.Log != nil {
		s.Log.Close()
	}
	if s.DB != nil {
		s.DB.Close()
	}
	for _, f := range s.locks {
		f.Close() // the kernel drops the lock with it
	}
}

// OpenLog opens the log, once.
func (s *Session) OpenLog(mode sqlite.Mode) (err error) {
	if s.DB == nil {
		s.DB, err = openLog(s.Home, mode)
	}
	return err
}

// hold takes the lock of the run, and keeps signals from here on until the run is driven.
func (s *Session) hold() (err error) {
	if s.locks, err = hold(s.Dir, s.Name); err != nil {
		return err
	}
	// Ignore SIGPIPE from here on: a run must survive its reader (gantry run | head).
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	early.Wait()
	return nil
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
	var left atomic.Bool // running tasks are left to a gantry that resumes the run
	virtual := Capabilities(s.Set.Runtime).Virtual
	if virtual { // it has nothing to lose: the first signal ends it
		var release context.CancelFunc
		ctx, release = exit.OnSignal(ctx)
		defer release()
	} else {
		defer s.listen(s.Engine.Runtime, s.View, func() {
			left.Store(true)
			cancel()
		})()
	}
	s.equip(virtual)
	defer serveLive(ctx, s.page, s.View)()
	if err := s.beginClock(); err != nil {
		return s.broken(ctx, errors.Join(err, s.Engine.Runtime.Close()))
	}
	if s.opts.Server != nil {
		defer s.opts.Server.Begin(s)()
	}
	s.announce(virtual)
	end := s.follow(ctx)
	res, err := s.Engine.Run(ctx)
	end()
	s.View.End()
	if s.upkeep != nil {
		s.upkeep.end()
	}
	if r, ok := s.Engine.Runtime.(executor.Remote); ok && err != nil && !left.Load() {
		r.Discard() // this end could not be logged
	}
	closing := s.Engine.Runtime.Close()
	if errors.Is(err, context.Canceled) && (virtual || left.Load()) {
		err, res.Interrupted = nil, true
	}
	if left.Load() {
		ctx = context.WithoutCancel(ctx)
		if closing != nil {
			s.View.Warn("%v", closing)
			closing = nil
		}
	}
	if err := cmp.Or(err, closing); err != nil {
		return s.broken(ctx, err)
	}
	return s.verdict(ctx, res)
}

// equip gives the engine the settings of the run, and all that watch it.
func (s *Session) equip(virtual bool) {
	e := s.Engine
	e.FailFast, e.Grace, e.Watch = s.Set.FailFast, s.Set.Grace, s.watch
	if !virtual {
		e.Control = s.controls
	}
	if s.Prediction != nil { // it asks, and nobody hands anything in
		e.Inbox = executor.NewInbox()
		e.Inbox.Close()
	}
	if s.Log != nil { // only the log keeps the time of planning
		begun := time.Now()
		e.Wall = func() time.Duration { return time.Since(begun) }
		e.Store = interruptible{s.Log}
	}
	// The metrics of a simulation can be taken as it goes: its tasks take the time that they are known to take, and
	// nothing of the run happened before this process.
	if virtual && s.measured == nil && s.Log != nil {
		s.collector = metrics.NewCollector(s.Platform)
	}
}

// beginClock has a new run begin now: the time until here is no part of it.
func (s *Session) beginClock() error {
	r, ok := s.Engine.Runtime.(executor.Beginner)
	if !ok || s.resumes || s.Log == nil {
		return nil
	}
	s.Started = time.Now()
	if err := s.Log.Began(s.Started); err != nil {
		return err
	}
	r.Begin(s.Started)
	return nil
}

// announce prints the beginning of the run, and its prediction.
func (s *Session) announce(virtual bool) {
	b := term.Begun{Run: s.Name, Policy: s.Set.Policy, Platform: s.Platform, Tasks: s.tasks,
		Repetition: s.Set.Repetition, Repetitions: s.repetitions,
		Started: s.Started, Expected: s.expected}
	if s.opts.Server != nil {
		b.Home = s.Home
	}
	s.View.Begin(b)
	if p := s.Prediction; p != nil && p.forecast != nil {
		f := p.forecast
		s.ends.Store(int64(f.Course.End))
		s.View.Note("expected makespan %s%s", rangeText(f.Makespan, f.Repetitions), p.basisNote())
		if text := p.startsNote(f); text != "" {
			s.View.Warn("%s", text)
		}
	}
	if virtual && s.Set.Host != nil && !s.ideal {
		s.View.Note("simulated as this host runs containers, by what gantry calibrate measured (--host-model none: " +
			"ideal machines)")
	}
}

// watch sees every batch that the log has.
func (s *Session) watch(v planner.View, events []planner.Event, admitted []*executor.Admission) {
	if s.upkeep != nil {
		s.upkeep.watch(v, events, admitted)
	}
	if s.opts.Server == nil {
		s.results.watch(events, admitted)
	}
	if p := s.Prediction; p != nil && p.past != nil {
		p.past.Batches = append(p.past.Batches,
			executor.Batch{Events: slices.Clone(events), Admissions: slices.Clone(admitted)})
	}
	s.View.Watch(v, events, admitted)
	if s.collector != nil {
		s.collector.Watch(v, events, admitted)
	}
	if s.opts.Server != nil {
		s.opts.Server.Watch(v, events, admitted)
	}
}

// broken ends a run that cannot continue. The log stays, and the run can be resumed.
func (s *Session) broken(ctx context.Context, err error) error {
	code := exit.Internal
	if errors.Is(err, container.ErrUnusable) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, executor.ErrStuck) ||
		sqlite.IsDisk(err) {
		code = exit.Host
	}
	if errors.Is(err, slurm.ErrOver) { // as after a signal: another allocation continues it
		code = exit.Interrupted
	}
	if errors.Is(err, executor.ErrStuck) && own.Is(s.Set.Policy) && s.decided == nil {
		err = fmt.Errorf("%w %s may not have started them: %w", own.ErrProgram, s.Set.Policy, err)
	}
	unsupported := errors.Is(err, planner.ErrUnsupported)
	if unsupported || errors.Is(err, executor.ErrTooLong) || errors.Is(err, own.ErrProgram) {
		code = exit.Input
	}
	if s.Log != nil {
		// err says that a disk is full
		if e := s.Log.Finish(context.WithoutCancel(ctx), sqlite.Interrupted, code); e != nil && !sqlite.IsDisk(err) {
			err = errors.Join(err, e)
		}
	}
	s.atEnd(sqlite.Interrupted, code)
	if Capabilities(s.Set.Runtime).Adopts && !unsupported {
		how := s.again()
		if s.opts.Server != nil {
			how = "gantry serve, in the same directory"
		}
		err = fmt.Errorf("%w\nfinished tasks are kept; continue with: %s", err, how)
	}
	return exit.With(code, err)
}

// DefaultHome is the directory of runs unless --dir names another.
func DefaultHome() string { return cmp.Or(os.Getenv("GANTRY_DIR"), "gantry-runs") }

// again is the command that continues the run.
func (s *Session) again() string {
	argv := []string{"gantry", "resume", s.Name}
	if home, err := filepath.Abs(DefaultHome()); err != nil || home != s.Home {
		argv = append(argv, "--dir", s.Home)
	}
	return executor.QuoteLine(argv)
}

// verdict ends the run in the log, and reports its outcome.
func (s *Session) verdict(ctx context.Context, res executor.Result) error {
	v, serves := s.Engine.Planner.View(), s.opts.Server != nil
	state, code := sqlite.Finished, exit.OK
	if serves && !s.opts.Server.Drained() {
		res.Interrupted = true // more may be handed in
	}
	_, failed := counted(v)
	switch {
	case res.Interrupted:
		state, code = sqlite.Interrupted, exit.Interrupted
	case len(res.Refused) > 0:
		state, code = sqlite.Failed, exit.Input
	case failed > 0:
		state, code = sqlite.Failed, exit.TasksFailed
	}
	if code == exit.OK && s.Log != nil && Capabilities(s.Set.Runtime).Programs {
		for _, text := range s.results.missing(s.Dir) {
			s.View.Warn("%s", text)
			_ = s.Log.Warn("results", text)
		}
	}
	if err := s.finish(context.WithoutCancel(ctx), state, code); err != nil {
		return exit.With(exit.Host, err)
	}
	several := v.Workflows()-v.Continuations()+len(s.Engine.Arrivals) > 1
	placing := placeResults(s.Dir, s.Set.ResultsDir, several, s.View)
	if placing != nil && code == exit.OK {
		code = exit.Host
	}
	o := Outcome{Session: s, Result: res, Failed: failed, Server: serves}
	var err error
	if s.opts.Ended != nil {
		err = s.opts.Ended(ctx, o)
	}
	s.atEnd(state, code)
	switch {
	case err != nil:
		return exit.With(exit.Internal, err)
	case placing != nil:
		return exit.With(code, placing)
	case code == exit.OK, serves && code == exit.TasksFailed: // users of a server hear of their own tasks
		return nil
	}
	return exit.With(code, o.epilogue(Capabilities(s.Set.Runtime).Adopts))
}

// counted counts the tasks of a run, and those that failed or were skipped.
func counted(v planner.View) (tasks, failed int) {
	for w := range v.Workflows() {
		if _, continued := v.Continues(planner.WorkflowID(w)); continued {
			continue
		}
		for range v.All(planner.WorkflowID(w)) {
			tasks++
		}
		_, n := v.Progress(planner.WorkflowID(w))
		failed += n
	}
	return tasks, failed
}

// finish ends the run in the log, and keeps its metrics there.
func (s *Session) finish(ctx context.Context, state sqlite.State, code int) error {
	if s.Log == nil {
		return nil
	}
	if err := crash.Do("finish", func() error { return s.Log.Finish(ctx, state, code) }); err != nil {
		return err
	}
	if state == sqlite.Interrupted || s.opts.Server != nil && s.Engine.Planner.View().Tasks() > mostForecast {
		return nil
	}
	collector, window := s.collector, metrics.Window{WarmUp: s.Set.WarmUp, CoolDown: s.Set.CoolDown}
	if collector == nil {
		var err error
		if collector, window, err = MeasureLog(ctx, s.DB, s.Log.Info()); err != nil {
			return err
		}
	}
	return s.Log.Measure(collector.Run(window), collector.Workflows(), collector.Counted(window))
}

// Outcome is how a run ended.
type Outcome struct {
	*Session
	Result executor.Result
	Failed int  // tasks that failed or were skipped
	Server bool // it took work while it was under way
}

// epilogue is the last line of a run that did not succeed; nil if the summary suffices.
func (o *Outcome) epilogue(resumable bool) error {
	switch {
	case len(o.Result.Refused) > 0:
		return errors.Join(o.Result.Refused...)
	case o.Result.Interrupted && o.Server:
		return fmt.Errorf("stopped; submissions are kept: gantry serve continues run %s", o.Name)
	case o.Result.Interrupted && resumable:
		return fmt.Errorf("stopped; continue with: %s", o.again())
	case o.Result.Interrupted:
		return errors.New("stopped")
	}
	return fmt.Errorf("%s failed or skipped; for the reason: gantry explain %s TASK", term.Plural(o.Failed, "task"),
		o.Name)
}

// controls are requests to the engine.
type controls chan executor.Control

// listen turns signals into controls: the first drains, the second stops, the third kills. SIGTERM stops at once, and
// so does SIGHUP, when the terminal is gone; under nohup there is none. Where a Docker Engine that does not answer
// cannot kill, it leaves.
func (c controls) listen(rt executor.Runtime, view *term.Progress, leave func()) (stop func()) {
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
				if r, ok := rt.(executor.Remote); ok && level >= executor.Abort && r.Away() {
					view.Note("%s", "the Docker Engine does not answer: running containers are left as they are")
					leave()
					continue
				}
				if level > executor.Abort {
					continue
				}
				view.Note("%s", [...]string{"",
					"stopping: running tasks may end, no task is started (Ctrl-C again stops them)",
					"stopping running tasks (Ctrl-C again kills them)", "killing running tasks"}[level])
				c <- level
			}
		}
	}()
	return func() { close(done) }
}

// Drain has the engine start nothing more.
func (c controls) Drain() {
	select {
	case c <- executor.Drain:
	default: // it was asked for more than once
	}
}

// openPage opens the server of the page of a run; nil if nobody is to watch.
func (o *Options) openPage(db *sqlite.DB, run string) (*live.Server, error) {
	if o.Page == nil {
		return nil, nil
	}
	return o.Page(db, run)
}

// serveLive serves the page of the run that this process works on, until the returned function is called, which lets
// clients have the last data. Without a page it does nothing.
func serveLive(ctx context.Context, page *live.Server, view *term.Progress) (end func()) {
	if page == nil {
		return func() {}
	}
	view.Say("watch this run at %s", page.URL())
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := page.Serve(ctx); err != nil {
			view.Warn("the page of the run is not served any more: %v", err)
		}
	}()
	return func() {
		defer cancel()
		page.Hurry()
		select {
		case <-done:
		case <-time.After(6 * live.Farewell):
		}
	}
}
