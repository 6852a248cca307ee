package session

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/forecast"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/seed"
	"gantry/planner/unit"
	"gantry/sqlite"
)

// What the prediction of a run may cost.
const (
	mostForecast  = 100_000 // tasks; runs of more are not predicted
	mostFollowed  = 20_000  // tasks; the expected end of runs of more is not kept up to date
	forecastShare = 0.01    // of the makespan, and of the time while a run is under way
)

// forecastBounds are those of the prediction before a run. Where nothing varies there is nothing to repeat.
func (s *Session) forecastBounds() forecast.Bounds {
	b := forecast.Bounds{Repetitions: 100, Least: 40, Time: time.Second, Whole: 10 * time.Second, Share: forecastShare}
	if s.basis() == basisDeclared && s.programs.empty() {
		b.Repetitions = 0
	}
	return b
}

// What a prediction rests on.
const (
	basisCalibrated = "calibrated"
	basisDeclared   = "declared"
)

// basis says what simulations of this host rest on.
func (s *Session) basis() string {
	if s.set.Host != nil {
		return basisCalibrated
	}
	return basisDeclared
}

// simulated is the configuration of a simulation of the run on this host; noise comes from the seed, 0 is none.
func (s *Session) simulated(seed uint64) sim.Config {
	cfg := s.simulation(0)
	cfg.Noise, cfg.Seed = seed != 0, seed
	cfg.Measured = func(l *executor.Launch) (sim.Measured, bool) {
		m, ok := s.programs.draw(l, s.platform.Nodes[l.Node].Speed, seed)
		m.Startup = s.set.Startup
		return m, ok
	}
	return cfg
}

// parts makes what a repetition of the simulation needs: a planner that knows what that of the run knew when it began.
func (s *Session) parts(repetition int) (*forecast.Parts, error) {
	set := *s.set
	view := term.New(true)
	c := &Session{set: &set, home: s.home, view: view, platform: s.platform, trained: s.trained, db: s.db}
	pl, adm, err := c.planner(context.Background())
	if err != nil {
		return nil, err
	}
	c.learn(s.learned)
	cfg := s.simulated(seed.Repetition(0, repetition))
	cfg.Drift = evenly(repetition)
	return &forecast.Parts{Planner: pl, Admit: adm, Sim: cfg}, nil
}

// evenly has the repetitions from 1 on cover the numbers between 0 and 1, however many they are: what all of a
// repetition shares moves their median, which few that were drawn would leave to chance (additive recurrence of the
// golden ratio).
func evenly(repetition int) float64 {
	_, x := math.Modf(0.5 + float64(repetition)*(math.Phi-1))
	return x
}

// rememberPrograms reads what was measured of the programs of the run.
func (s *Session) rememberPrograms(ctx context.Context, db *sqlite.DB, run string) (err error) {
	if len(s.wanted) == 0 && run == "" {
		return nil
	}
	if s.programs = new(programTimes); db == nil {
		return nil
	}
	if s.programs, err = programsOf(ctx, db, s.set, run, s.undisturbed(ctx, db)); err != nil {
		return exit.With(exit.Host, err)
	}
	return nil
}

// predict predicts the run before it is in the log, and prepares to keep the expected end up to date.
func (s *Session) predict(ctx context.Context, subs []executor.Submission) error {
	if !s.predicts || !Capabilities(s.set.Runtime).Programs {
		return nil
	}
	err := s.rememberPrograms(ctx, s.db, "")
	if err == nil {
		s.learned, err = s.recollect(ctx, s.db.Before(s.set.Runtime, s.set.TimeScale, s.set.SizeScale))
	}
	if err == nil {
		s.foresee(ctx, subs)
		if s.follower = s.newFollower(subs); s.follower != nil && s.forecast != nil {
			s.follower.end = s.forecast.Course.End
		}
	}
	return err
}

// predictRest predicts what is left of a run that is resumed.
func (s *Session) predictRest(ctx context.Context, now planner.Time) error {
	if s.follower == nil {
		return nil
	}
	if err := s.rememberPrograms(ctx, s.db, ""); err != nil {
		return err
	}
	f := s.follower
	past := &forecast.Past{Batches: f.batches, Now: now, Arrivals: f.coming}
	if s.forecast = s.tryForecast(ctx, past); s.forecast == nil {
		return nil
	}
	f.end = s.forecast.Course.End
	return s.log.Predict(s.predictions(s.forecast))
}

// foresee predicts the run before it begins. What cannot be predicted is no fault of the run.
func (s *Session) foresee(ctx context.Context, subs []executor.Submission) {
	if !s.predicts || !Capabilities(s.set.Runtime).Programs {
		return
	}
	if s.tasks > mostForecast {
		s.view.Note("the makespan is not predicted: the run has more than %d tasks", mostForecast)
		return
	}
	s.forecast = s.tryForecast(ctx, &forecast.Past{Arrivals: subs})
}

// tryForecast predicts a run, or says why it does not; then it returns nil.
func (s *Session) tryForecast(ctx context.Context, past *forecast.Past) *forecast.Forecast {
	f, err := s.makeForecast(ctx, past)
	if err != nil {
		s.view.Note("the end of the run cannot be predicted: %v", err)
		return nil
	}
	if text := s.unpredicted(f.Course); text != "" {
		s.view.Note("%s", text)
		return nil
	}
	return f
}

// unpredicted says why nothing is predicted; "" if something is. A simulation takes a default where nobody knows how
// long a program runs. Plans have to begin with something, but no prediction may rest on it.
func (s *Session) unpredicted(c *forecast.Course) string {
	kinds := map[string]bool{}
	for i := range c.Attempts {
		if t := c.Attempts[i].Task; s.unknown(t) {
			kinds[t.Kind] = true
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	return fmt.Sprintf("nothing is known of %s yet: no prediction", term.NamesOf(slices.Sorted(maps.Keys(kinds)), 3))
}

// unknown reports whether nobody knows how long a task runs: nothing is declared of its type, and none of it has run.
func (s *Session) unknown(t *executor.TaskSpec) bool { return t.Unknown && !s.programs.knows(t.Kind) }

// foreseen says of each attempt of a course whether its start and its end rest on nothing that nobody knows. What
// starts once a task of unknown runtime may have ended depends on its end.
func (s *Session) foreseen(c *forecast.Course) (starts, ends []bool) {
	sure := unit.Never
	for i := range c.Attempts {
		if a := &c.Attempts[i]; s.unknown(a.Task) {
			sure = min(sure, a.Over)
		}
	}
	for i := range c.Attempts {
		a := &c.Attempts[i]
		starts = append(starts, a.Queued < sure)
		ends = append(ends, a.Queued < sure && !s.unknown(a.Task))
	}
	return starts, ends
}

// makeForecast predicts a run. What depends on programs that were never measured gets no interval: runtimes of a trace
// may be off by any factor.
func (s *Session) makeForecast(ctx context.Context, past *forecast.Past) (*forecast.Forecast, error) {
	f, err := forecast.Make(ctx, s.parts, past, s.forecastBounds())
	if err != nil || s.programs == nil || len(s.programs.misses) == 0 {
		return f, err
	}
	point := func(r *forecast.Range) { r.Low, r.High = r.Expected, r.Expected }
	point(&f.Makespan)
	for i := range f.Workflows {
		point(&f.Workflows[i].Range)
	}
	for i := range f.Kinds {
		if k := &f.Kinds[i]; s.programs.misses[k.Name] {
			point(&k.Range)
		}
	}
	return f, nil
}

// announce prints the prediction before the run.
func (s *Session) announce() {
	f := s.forecast
	if f == nil {
		return
	}
	s.view.Note("expected makespan %s%s", rangeText(f.Makespan, f.Repetitions), s.basisNote())
	if text := s.startsNote(f); text != "" {
		s.view.Warn("%s", text)
	}
}

// basisNote says how far a prediction can be trusted.
func (s *Session) basisNote() string {
	if able := Capabilities(s.set.Runtime); !able.Programs {
		return fmt.Sprintf(" by the runtimes of the workflow; on the %s runtime %s", able.Name, able.Does)
	}
	text := ""
	if s.basis() != basisCalibrated {
		text = fmt.Sprintf(" (rough: it takes each container to start in %s; gantry calibrate measures this host)",
			s.set.Startup)
	}
	if s.programs == nil {
		return text
	}
	if len(s.programs.misses) > 0 {
		text += fmt.Sprintf("; nothing was measured of %s yet: their runtimes are those of the workflow",
			term.NamesOf(slices.Sorted(maps.Keys(s.programs.misses)), 3))
	}
	if len(s.programs.others) > 0 {
		text += fmt.Sprintf("; %s ran on inputs of other sizes only: their runtimes are the medians of that (gantry "+
			"predict trains a model on sizes)", term.NamesOf(slices.Sorted(maps.Keys(s.programs.others)), 3))
	}
	return text
}

func rangeText(r forecast.Range, repetitions int) string {
	text := "about " + short(r.Expected)
	if repetitions > 1 && r.High > r.Low {
		text += fmt.Sprintf(", %s to %s with a probability of 80 %%", short(r.Low), short(r.High))
	}
	return text
}

func short(d time.Duration) string { return term.Span(new(sqlite.Span(d))) }

// Bounds of the share that starts of containers have in the time for which tasks hold their nodes.
const (
	startsDominate = 0.5
	startsSmall    = 0.1 // with the time scale that is suggested
)

// startsNote warns of runs in which starts of containers dominate.
func (s *Session) startsNote(f *forecast.Forecast) string {
	rest := f.Held - f.Starting
	if f.Held <= 0 || float64(f.Starting) < startsDominate*float64(f.Held) {
		return ""
	}
	text := fmt.Sprintf("starting containers is expected to take %.0f %% of the time for which tasks hold their nodes",
		100*float64(f.Starting)/float64(f.Held))
	emulated, n := time.Duration(0), 0
	for i := range f.Course.Attempts {
		if a := &f.Course.Attempts[i]; len(a.Task.Command) == 0 {
			emulated += max(0, a.Ended.Sub(a.Started))
			n++
		}
	}
	switch {
	case n == 0:
		return text + ": fewer tasks that do more each would avoid that"
	case emulated <= 0 || s.set.TimeScale <= 0:
		return text + ": a time scale above 0 would avoid that"
	}
	// so that starting is startsSmall of the whole
	wanted := float64(f.Starting)*(1-startsSmall)/startsSmall - float64(rest-emulated)
	scale := s.set.TimeScale * wanted / float64(emulated)
	return text + fmt.Sprintf(": with --time-scale %s it would take %.0f %%", roundUp(scale), 100*startsSmall)
}

// roundUp rounds to one digit, upwards.
func roundUp(x float64) string {
	unit := 1.0
	for x >= 10*unit {
		unit *= 10
	}
	for x < unit && unit > 1e-12 {
		unit /= 10
	}
	n := 1.0
	for n < 10 && n*unit < x {
		n++
	}
	return fmt.Sprintf("%.4g", n*unit)
}

// predictions are the rows of a forecast for the log.
func (s *Session) predictions(f *forecast.Forecast) (rows []sqlite.Prediction) {
	add := func(scope string, of forecast.Of) {
		rows = append(rows, sqlite.Prediction{At: sqlite.Span(f.At), Scope: scope, Name: of.Name, Basis: s.basis(),
			Tasks: of.Tasks, Repetitions: f.Repetitions, Expected: sqlite.Span(of.Expected), Low: sqlite.Span(of.Low),
			High: sqlite.Span(of.High)})
	}
	count := map[string]int{}
	for i := range f.Course.Attempts {
		count[f.Course.Attempts[i].Task.Workflow.Name]++
	}
	add(sqlite.ScopeRun, forecast.Of{Tasks: len(f.Course.Attempts), Range: f.Makespan})
	for _, w := range f.Workflows {
		w.Tasks = count[w.Name]
		add(sqlite.ScopeWorkflow, w)
	}
	for _, k := range f.Kinds {
		add(sqlite.ScopeKind, k)
	}
	return rows
}

// follower keeps the expected end of a run up to date: it simulates what is left, given what has happened. It works
// beside the run and takes a hundredth of its time.
type follower struct {
	s       *Session
	mu      sync.Mutex
	batches []executor.Batch
	coming  []executor.Submission
	specs   []*executor.TaskSpec // by task
	ran     []sqlite.ProgramRun  // since the last simulation
	end     planner.Time         // expected; unit.Never: not known
	stop    chan struct{}
	done    sync.WaitGroup
}

// follow makes the follower of a run; nil if there is none.
func (s *Session) newFollower(subs []executor.Submission) *follower {
	if !s.predicts || !Capabilities(s.set.Runtime).Programs || s.tasks > mostFollowed {
		return nil
	}
	return &follower{s: s, coming: slices.Clone(subs), end: unit.Never, stop: make(chan struct{})}
}

// watch takes in what happened.
func (f *follower) watch(v planner.View, events []planner.Event, admitted []*executor.Admission) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range admitted {
		f.specs = append(f.specs, a.Tasks...)
		if a.Grown() {
			continue
		}
		f.coming = slices.DeleteFunc(f.coming, func(s executor.Submission) bool { return s.Name == a.Submission.Name })
	}
	f.batches = append(f.batches, executor.Batch{Events: slices.Clone(events), Admissions: slices.Clone(admitted)})
	for i := range events {
		if x, ok := events[i].Body.(*planner.AttemptExited); ok && x.Outcome == planner.OK {
			a := v.Attempt(x.Attempt)
			if spec := f.specs[a.Task]; a.Node != planner.None && spec.Unknown {
				f.ran = append(f.ran, ranWell(f.s.name, spec, x, v.Nodes()[a.Node].Speed))
			}
		}
	}
}

// ranWell is a program that ended well in this run.
func ranWell(run string, spec *executor.TaskSpec, x *planner.AttemptExited, speed float64) sqlite.ProgramRun {
	id := spec.Identity()
	r := sqlite.ProgramRun{Run: run, Workflow: spec.Workflow.Name, Task: spec.Name, Kind: spec.Kind,
		Identity: string(id[:]), Ran: x.Ran, CPU: -1, Millicores: x.Usage.Applied.CPUMillicores, Speed: speed}
	if x.Usage.Missing&planner.CounterCPU == 0 {
		r.CPU = x.Usage.CPUUser + x.Usage.CPUSystem
	}
	for _, in := range spec.Inputs {
		r.Input += in.Size
	}
	return r
}

// Bounds of what the follower does.
const (
	followLeast = 2 * time.Second
	followWhole = 5 * time.Second // for one simulation
)

// run simulates from time to time until the run ends.
func (f *follower) run(ctx context.Context, clock func() planner.Time) {
	f.done.Go(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			<-f.stop
			cancel()
		}()
		wait := followLeast
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			began := time.Now()
			if end, ok := f.expect(ctx, clock()); ok {
				f.mu.Lock()
				f.end = end
				f.mu.Unlock()
			}
			wait = max(followLeast, time.Duration(float64(time.Since(began))/forecastShare))
		}
	})
}

// expect simulates what is left without noise. The end is unit.Never as long as it depends on programs of which nothing
// is known.
func (f *follower) expect(ctx context.Context, now planner.Time) (end planner.Time, ok bool) {
	f.mu.Lock()
	past := &forecast.Past{Batches: slices.Clip(f.batches), Now: now, Arrivals: slices.Clone(f.coming)}
	for i := range f.ran {
		f.s.programs.learn(&f.ran[i])
	}
	f.ran = nil
	f.mu.Unlock()
	if len(past.Batches) == 0 {
		return unit.Never, false
	}
	ctx, cancel := context.WithTimeout(ctx, followWhole)
	defer cancel()
	c, err := forecast.Simulate(ctx, f.s.parts, past, 0)
	if err != nil {
		return unit.Never, false
	}
	if f.s.unpredicted(c) != "" {
		return unit.Never, true
	}
	return c.End, true
}

// expected is the end of the run as simulated last.
func (f *follower) expected() planner.Time {
	if f == nil {
		return unit.Never
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end
}

func (f *follower) close() {
	if f != nil {
		close(f.stop)
		f.done.Wait()
	}
}
