package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/forecast"
	"gantry/executor/own"
	"gantry/executor/reuse"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/seed"
	"gantry/planner/unit"
	"gantry/sqlite"
)

// Bounds of the cost of a prediction.
const (
	mostForecast  = 100_000 // tasks; runs of more are not predicted
	mostForeseen  = 2000    // tasks; of more nobody asks beforehand which take over results
	mostFollowed  = 20_000  // tasks; the expected end of runs of more is not kept up to date
	forecastShare = 0.01    // of the makespan, and of the time while a run is under way
)

// Prediction simulates a run.
type Prediction struct {
	*Planning                    // of the run
	programs  *programTimes      // measurements of its programs; nil: none
	forecast  *forecast.Forecast // before it began; nil: none
	reuse     *reuse.Foresight   // which tasks take over results; nil: none
	past      *forecast.Past     // of a run that continues, until its rest is predicted
	asks      bool               // a program that is the policy, too
}

// Measure reads the measurements of programs in the log.
func (p *Prediction) Measure(ctx context.Context, log *sqlite.DB) (err error) {
	programs, err := programsOf(ctx, log, p.Set, "", nil)
	if err == nil {
		p.programs = programs
	}
	return err
}

// bounds are those of the prediction before a run. Where nothing varies there is nothing to repeat.
func (p *Prediction) bounds() forecast.Bounds {
	b := forecast.Bounds{Repetitions: 100, Least: 40, Time: time.Second, Whole: 10 * time.Second, Share: forecastShare,
		Vain: func(c *forecast.Course) bool { return p.Unpredicted(c) != "" }}
	if p.basis() == basisDeclared && p.programs.empty() || own.Is(p.Set.Policy) {
		b.Repetitions = 0
	}
	return b
}

// Bases of predictions.
const (
	basisCalibrated = "calibrated"
	basisDeclared   = "declared"
)

// basis is that of simulations of this host.
func (p *Prediction) basis() string {
	if p.Set.Host != nil {
		return basisCalibrated
	}
	return basisDeclared
}

// simulated is the configuration of a simulation of the run on this host; noise comes from the seed, 0 is none.
func (p *Prediction) simulated(seed uint64) sim.Config {
	cfg := p.simulation(0)
	cfg.Noise, cfg.Seed = seed != 0, seed
	cfg.Measured = func(l *executor.Launch) (sim.Measured, bool) {
		m, ok := p.programs.draw(l, p.Platform.Nodes[l.Node].Speed, seed)
		m.Startup = p.Set.Startup
		return m, ok
	}
	return cfg
}

// Parts makes the parts of a repetition: its planner knows as much as that of the run knew when it began.
func (p *Prediction) Parts(repetition int) (*forecast.Parts, error) {
	if err := asked(p.Set.Policy); err != nil && !p.asks {
		return nil, err
	}
	like := p.With(*p.Set)
	e, err := like.Assemble(context.Background())
	if err != nil {
		return nil, err
	}
	like.learn(p.learned)
	if p.reuse != nil {
		e.Reuse = p.reuse
	}
	cfg := p.simulated(seed.Repetition(0, repetition))
	cfg.Drift = evenly(repetition)
	return &forecast.Parts{Engine: e, Sim: cfg}, nil
}

// asked refuses a policy that is a program where its user has not named it for that.
func asked(policy string) error {
	if own.Is(policy) {
		return fmt.Errorf("policy %s is a program, which is not started for this", policy)
	}
	return nil
}

// Simulate simulates a run from its past on; repetition 0 is without noise.
func (p *Prediction) Simulate(ctx context.Context, past *forecast.Past, repetition int) (*forecast.Course, error) {
	return forecast.Simulate(ctx, p.Parts, past, repetition)
}

// evenly has the repetitions from 1 on cover the numbers between 0 and 1, however many they are: their median
// depends on the shared draw of a repetition, and few random draws would leave it to chance (additive recurrence of the
// golden ratio).
func evenly(repetition int) float64 {
	_, x := math.Modf(0.5 + float64(repetition)*(math.Phi-1))
	return x
}

// remember reads the measurements of programs, of one run if it is named. Without a log there are none.
func (p *Prediction) remember(ctx context.Context, db *sqlite.DB, run string) (err error) {
	if p.programs = (&programTimes{misses: map[string]bool{}}); db == nil {
		return nil
	}
	p.programs, err = programsOf(ctx, db, p.Set, run, p.undisturbed(ctx, db))
	return exit.Or(exit.Host, err)
}

// prepare reads from a log, if there is one, how long programs ran, and which tasks take over results.
func (p *Prediction) prepare(ctx context.Context, db *sqlite.DB, w *work, id func(string) string,
	afar bool) (err error) {
	if len(w.wanted) > 0 {
		err = p.remember(ctx, db, "")
	}
	if err == nil && (w.tasks <= mostForeseen || p.asks) {
		p.reuse, err = p.foresee(ctx, db, w.subs, id, afar)
	}
	return err
}

// predict predicts the run before it is in the log.
func (p *Prediction) predict(ctx context.Context, w *work, i *images) error {
	if p == nil {
		return nil
	}
	if err := p.prepare(ctx, p.DB, w, i.id, i.slurm != nil); err != nil {
		return err
	}
	if w.tasks > mostForecast {
		p.View.Note("the makespan is not predicted: the run has more than %d tasks", mostForecast)
		return nil
	}
	p.forecast = p.try(ctx, &forecast.Past{Arrivals: w.subs})
	return nil
}

// foresee prepares to know which tasks would take over results of the log; nil if none would. IDs of images are by
// name; afar says that files are on other hosts.
func (p *Planning) foresee(ctx context.Context, db *sqlite.DB, subs []executor.Submission, id func(string) string,
	afar bool) (*reuse.Foresight, error) {
	if !p.Set.Reuse || db == nil {
		return nil, nil
	}
	k := &reuse.Keeper{Log: db, Home: p.Home, Nodes: p.Platform.Nodes, Seed: p.Set.Seed, Image: id, Afar: afar,
		Warn: func(string, ...any) {}}
	secrets, err := p.Set.SecretValues()
	if err != nil {
		return nil, err
	}
	key := filepath.Join(p.Home, secretsKey)
	if _, err := os.Stat(key); len(secrets) > 0 && err == nil { // else there is nothing to compare them with
		if k.Secrets, err = reuse.SecretSums(key, GiveToCaller, secrets); err != nil {
			return nil, exit.With(exit.Host, err)
		}
	} else if len(secrets) > 0 {
		return nil, nil
	}
	f := k.Foresee()
	return f, exit.Or(exit.Input, k.HashInputs(ctx, inputPaths(subs)))
}

// prediction prepares to predict a run; nil if no prediction is wanted.
func (p *Planning) prediction(o *Options) *Prediction {
	if !o.Predict || !Capabilities(p.Set.Runtime).Programs {
		return nil
	}
	return &Prediction{Planning: p}
}

// predictRest predicts the rest of a run that is resumed.
func (p *Prediction) predictRest(ctx context.Context, w *work, log *sqlite.Run, now planner.Time) error {
	if p == nil {
		return nil
	}
	if len(w.wanted) > 0 {
		if err := p.remember(ctx, p.DB, ""); err != nil {
			return err
		}
	}
	p.past.Now, p.past.Arrivals = now, w.Engine.Arrivals
	p.forecast, p.past = p.try(ctx, p.past), nil
	return p.keep(log)
}

// keep writes the prediction to the log, if there is one.
func (p *Prediction) keep(log *sqlite.Run) error {
	if p == nil || p.forecast == nil {
		return nil
	}
	return log.Predict(p.rows())
}

// try predicts a run, or says why it does not; then it returns nil.
func (p *Prediction) try(ctx context.Context, past *forecast.Past) *forecast.Forecast {
	f, err := p.make(ctx, past)
	if err != nil {
		p.View.Note("the end of the run cannot be predicted: %v", err)
		return nil
	}
	if text := p.Unpredicted(f.Course); text != "" {
		p.View.Note("%s", text)
		return nil
	}
	return f
}

// Unpredicted says why nothing is predicted; "" if something is. A simulation takes a default where nobody knows how
// long a program runs. Plans have to begin with something, but no prediction may rest on it.
func (p *Prediction) Unpredicted(c *forecast.Course) string {
	kinds := map[string]bool{}
	for i := range c.Attempts {
		if t := c.Attempts[i].Task; p.unknown(t) {
			kinds[t.Kind] = true
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	return fmt.Sprintf("nothing is known of %s yet: no prediction", term.NamesOf(slices.Sorted(maps.Keys(kinds)), 3))
}

// unknown reports whether nobody knows how long a task runs: nothing is declared of its type, and none of it has run.
func (p *Prediction) unknown(t *executor.TaskSpec) bool {
	return t.Unknown && !p.programs.knows(t.Kind)
}

// Foreseen says of each attempt of a course whether its start and its end are known. An attempt that
// starts once a task of unknown runtime may have ended depends on its end.
func (p *Prediction) Foreseen(c *forecast.Course) (starts, ends []bool) {
	sure := unit.Never
	for i := range c.Attempts {
		if a := &c.Attempts[i]; p.unknown(a.Task) {
			sure = min(sure, a.Over)
		}
	}
	for i := range c.Attempts {
		a := &c.Attempts[i]
		starts = append(starts, a.Queued < sure)
		ends = append(ends, a.Queued < sure && !p.unknown(a.Task))
	}
	return starts, ends
}

// make predicts a run. Predictions that depend on programs without measurements get no interval: runtimes of a trace
// may be off by any factor.
func (p *Prediction) make(ctx context.Context, past *forecast.Past) (*forecast.Forecast, error) {
	f, err := forecast.Make(ctx, p.Parts, past, p.bounds())
	if err != nil || p.programs == nil || len(p.programs.misses) == 0 {
		return f, err
	}
	point := func(r *forecast.Range) { r.Low, r.High = r.Expected, r.Expected }
	point(&f.Makespan)
	for i := range f.Workflows {
		point(&f.Workflows[i].Range)
	}
	for i := range f.Kinds {
		if k := &f.Kinds[i]; p.programs.misses[k.Name] {
			point(&k.Range)
		}
	}
	return f, nil
}

// basisNote says how far a prediction can be trusted.
func (p *Prediction) basisNote() string {
	if able := Capabilities(p.Set.Runtime); !able.Programs {
		return fmt.Sprintf(" by the runtimes of the workflow; on the %s runtime %s", able.Name, able.Does)
	}
	text := ""
	if p.basis() != basisCalibrated {
		text = fmt.Sprintf(" (rough: it takes each container to start in %s; gantry calibrate measures this host)",
			p.Set.Startup)
	}
	if p.programs == nil {
		return text
	}
	if len(p.programs.misses) > 0 {
		text += fmt.Sprintf("; nothing was measured of %s yet: their runtimes are those of the workflow",
			term.NamesOf(slices.Sorted(maps.Keys(p.programs.misses)), 3))
	}
	if len(p.programs.others) > 0 {
		text += fmt.Sprintf("; %s ran on inputs of other sizes only: their runtimes are the medians of that (gantry "+
			"predict trains a model on sizes)", term.NamesOf(slices.Sorted(maps.Keys(p.programs.others)), 3))
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
func (p *Prediction) startsNote(f *forecast.Forecast) string {
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
	case emulated <= 0 || p.Set.TimeScale <= 0:
		return text + ": a time scale above 0 would avoid that"
	}
	// so that starting is startsSmall of the whole
	wanted := float64(f.Starting)*(1-startsSmall)/startsSmall - float64(rest-emulated)
	scale := p.Set.TimeScale * wanted / float64(emulated)
	return text + fmt.Sprintf(": with --time-scale %s it would take %.0f %%", roundUp(scale), 100*startsSmall)
}

// roundUp rounds a number above 0 to one digit, upwards.
func roundUp(x float64) string {
	digit := math.Pow(10, math.Floor(math.Log10(x)))
	return fmt.Sprintf("%.4g", math.Ceil(x/digit-1e-9)*digit)
}

func (p *Prediction) rows() (rows []sqlite.Prediction) {
	f := p.forecast
	add := func(scope string, of forecast.Of) {
		rows = append(rows, sqlite.Prediction{At: sqlite.Span(f.At), Scope: scope, Name: of.Name, Basis: p.basis(),
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

// errTooMany is of runs whose rest is not predicted.
var errTooMany = errors.New("the workflows that have not ended have too many tasks")

// Rest is the past of a run under way, of which only the present state is known: its rest can be simulated from there.
// With more tasks than most that have not ended it is an error.
func (p *Prediction) Rest(ctx context.Context, inbox *executor.Inbox, run string, most int) (*forecast.Past, error) {
	var snap *executor.Snapshot
	if err := inbox.Ask(ctx, func(in *executor.Intake) error {
		snap = in.Snapshot(most)
		return nil
	}); err != nil {
		return nil, err
	}
	if snap == nil {
		return nil, errTooMany
	}
	parts, err := p.Parts(0)
	if err != nil {
		return nil, err
	}
	past, err := forecast.Live(parts, snap, func(w *executor.FlowState) (*executor.Submission, []planner.TaskID,
		error) {
		if w.Grown {
			left := make([]planner.TaskID, len(w.Tasks))
			for i := range left {
				left[i] = w.Tasks[i].Task
			}
			return p.DB.Rest(ctx, run, w.Workflow, left)
		}
		adm, err := p.DB.Admission(ctx, run, w.Workflow)
		if err != nil {
			return nil, nil, err
		}
		return &adm.Submission, nil, nil
	})
	if err != nil {
		return nil, err
	}
	for i := range past.Arrivals {
		past.Arrivals[i].At = max(past.Arrivals[i].At, past.Now)
	}
	return past, nil
}

// Bounds of the work of following a run.
const (
	followLeast = 2 * time.Second
	followWhole = 5 * time.Second // for one simulation
)

// follow simulates the rest of the run from time to time, beside it, until the returned function is called.
func (s *Session) follow(ctx context.Context) (end func()) {
	if s.Prediction == nil || asked(s.Set.Policy) != nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for wait := followLeast; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			began := time.Now()
			if end, err := s.expect(ctx); err == nil {
				if s.ends.Swap(int64(end)) != int64(end) && end != unit.Never && s.Log != nil { // for pages of it
					at := sqlite.Span(end)
					_ = s.Log.Predict([]sqlite.Prediction{{Scope: sqlite.ScopeRest, Basis: s.Prediction.basis(),
						Expected: at, Low: at, High: at}})
				}
			}
			wait = max(followLeast, time.Duration(float64(time.Since(began))/forecastShare))
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// expect simulates the rest without noise. The end is unit.Never as long as it depends on programs of which nothing
// is known: their measurements are read again.
func (s *Session) expect(ctx context.Context) (end planner.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, followWhole)
	defer cancel()
	p, was := s.Prediction, s.expected()
	if was == unit.Never {
		if err := p.Measure(ctx, s.DB); err != nil {
			return was, err
		}
	}
	past, err := p.Rest(ctx, s.Engine.Inbox, s.Name, mostFollowed)
	if err != nil || len(past.Batches) == 0 {
		return was, err
	}
	c, err := p.Simulate(ctx, past, 0)
	if err != nil {
		return was, err
	}
	if p.Unpredicted(c) != "" {
		return unit.Never, nil
	}
	return c.End, nil
}

// expected is the end of the run as it was simulated last; unit.Never: not known.
func (s *Session) expected() planner.Time { return planner.Time(s.ends.Load()) }
