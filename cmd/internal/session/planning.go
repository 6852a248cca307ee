package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container/oci"
	"gantry/executor/emulate"
	"gantry/executor/estimate"
	"gantry/executor/own"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/planner/queueing"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/trace"
	"gantry/trace/scenario"
)

// Planning makes the planner of a run, in containers or simulated, by its settings and for its nodes.
type Planning struct {
	estimates
	Set      *Settings
	Platform *planner.Platform
	Home     string     // the directory of runs, absolute
	DB       *sqlite.DB // has trained models; nil: the log below Home is opened for them
	View     *term.Progress

	decided *own.Recorded // plans in place of a program; nil: the policy does

	// Of a simulation.
	measured func(l *executor.Launch) (sim.Measured, bool) // nil: nothing was measured
	turns    []planner.Time                                // when the run arrived and woke that is replayed
	ideal    bool                                          // measurements include all effects of the host
}

// With plans by other settings, for the same nodes and with the same log. It prints nothing.
func (p *Planning) With(set Settings) *Planning {
	return &Planning{Set: &set, Platform: p.Platform, Home: p.Home, DB: p.DB, View: term.New(true)}
}

// Policy makes the policy of the settings.
func (p *Planning) Policy() (planner.Policy, error) {
	if p.decided != nil {
		return new(*p.decided), nil
	}
	pol, err := policy.Parse(p.Set.Policy)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	if p.Set.RejectLate {
		refuser, ok := pol.(planner.Refuser)
		if !ok {
			return nil, exit.Usagef("--reject-late: policy %s does not plan ahead for deadlines; use rm-dcwf, "+
				"mrcp-rm or fifo", p.Set.Policy)
		}
		refuser.RejectLate()
	}
	return pol, nil
}

// Assemble makes the engine of a run, without work and runtime, by the settings and for the nodes: policy, estimator,
// planner and admission. Runs that begin or continue, their predictions and their replays have their engine from here.
func (p *Planning) Assemble(ctx context.Context) (*executor.Engine, error) {
	pol, err := p.Policy()
	if err != nil {
		return nil, err
	}
	rules, err := RetryRules(p.Set.Retries)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	p.recaller, _ = pol.(policy.Recaller)
	adm := p.Admitter()
	est, err := p.estimator(ctx, adm)
	if err != nil {
		return nil, err
	}
	pl := planner.New(p.Platform, rules, pol, est, p.Set.draws())
	if len(p.Set.Tokens) > 0 {
		pl.LimitTokens(executor.TokensThere(p.Set.Tokens))
	}
	return &executor.Engine{Planner: pl, Admit: adm}, nil
}

// Admitter makes the admission of the run.
func (p *Planning) Admitter() *executor.Admitter {
	shell, _ := trace.ShellWords(p.Set.Shell) // was read before
	return &executor.Admitter{Platform: p.Platform, TimeScale: p.Set.TimeScale, SizeScale: p.Set.SizeScale,
		Image: p.Set.Image, Emulate: p.Set.Emulate, Env: p.Set.Env, Mounts: p.Set.Mounts, Networks: p.Set.Networks,
		Tokens: p.Set.Tokens, Needs: p.Set.Needs, GPUs: p.Set.GPUs, NoGPUs: p.Set.noGPUs,
		SafeNames: Capabilities(p.Set.Runtime).Programs, Fit: p.Set.Fit, Preempt: scenario.DefaultPreempt(),
		Memory: p.memory(), Shell: shell}
}

// memory limits tasks to the peaks that the model predicts; nil without --predict-memory.
func (p *Planning) memory() func(string, unit.Vector, unit.Bytes) (limit, next unit.Bytes, ok bool) {
	if p.Set.PredictMemory == "" || p.trained == nil {
		return nil
	}
	rules, _ := RetryRules(p.Set.Retries) // they were read before
	aim, _ := predict.ParseAim(p.Set.PredictMemory)
	return func(kind string, need unit.Vector, input unit.Bytes) (limit, next unit.Bytes, ok bool) {
		declared := unit.Bytes(need[unit.Memory])
		limit, next, ok = p.trained.Model.MemoryLimit(kind, &predict.Features{Input: input, CPU: need[unit.CPU],
			Memory: declared}, aim)
		switch rules.Limit[planner.OutOfMemory] {
		case 0:
			limit = max(limit, declared)
		case 1:
			next = max(next, declared)
		default: // the one after that has twice as much
			next = max(next, unit.Bytes(math.Ceil(float64(declared)/rules.MemoryGrowth)))
		}
		return limit, next, ok
	}
}

func (p *Planning) simulation(start planner.Time) sim.Config {
	cfg := sim.Config{Platform: executor.SlowNodes(p.Set.Faults, p.Set.draws(), p.Platform), Start: start,
		Startup: p.Set.Startup, Measured: p.measured, Turns: p.turns}
	if p.Set.Host == nil || p.ideal {
		return cfg
	}
	cfg.Host, cfg.Starts, cfg.Noise, cfg.Seed = p.Set.Host, p.Set.starts(), p.Set.Noise, p.Set.draws()
	for i := range p.Set.Cluster.Nodes {
		l := ioLimits(&p.Set.Cluster.Nodes[i])
		cfg.IO = append(cfg.IO, emulate.Limits{ReadBps: l.ReadBps, WriteBps: l.WriteBps, ReadIOPS: l.ReadIOPS,
			WriteIOPS: l.WriteIOPS})
	}
	return cfg
}

// work is the workflows of a run, with their engine.
type work struct {
	Engine      *executor.Engine
	subs        []executor.Submission
	tasks       int
	facts       Facts
	wanted      map[string]bool // images of programs that are still to run
	repetitions int             // streams of the workload file; this run is one of them
}

// Want notes that a program of the run needs an image.
func (w *work) Want(image string) {
	if w.wanted == nil {
		w.wanted = map[string]bool{}
	}
	w.wanted[image] = true
}

// keptTasks is how many tasks of streams to be simulated are kept in memory from when they were checked on.
const keptTasks = 100_000

// check refuses workflows that cannot run here before anything runs, and counts their tasks. A simulation draws
// workflows beyond keptTasks once more when they arrive: memory makes a long stream slow. Workflows of a run that
// continues may be of an older gantry: their images are not checked.
func (w *work) check(p *Planning, subs []executor.Submission, continues bool) error {
	adm := p.Admitter()
	for i := range subs {
		if err := w.checkOne(p, adm, &subs[i], continues); err != nil {
			return err
		}
		for next := subs[i].Next; next != nil; {
			sub := next()
			if sub == nil {
				break
			}
			next = sub.Next
			if err := w.checkOne(p, adm, sub, continues); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkOne checks one submission, and keeps what it draws while that is little.
func (w *work) checkOne(p *Planning, adm *executor.Admitter, kept *executor.Submission, continues bool) error {
	sub := *kept
	if err := sub.Make(); err != nil {
		return exit.With(exit.Input, err)
	}
	if err := adm.Check(&sub); err != nil {
		return exit.With(exit.Input, err)
	}
	_, noImage := adm.Emulated(&sub)
	if !continues {
		if err := Runnable(p.Set, &sub, noImage); err != nil {
			return err
		}
	}
	adm.Images(&sub, w.Want)
	w.facts.Take(p.Set, &sub)
	w.tasks += len(sub.Workflow.Tasks)
	if !Capabilities(p.Set.Runtime).Virtual || w.tasks <= keptTasks {
		*kept = sub
	}
	return nil
}

// Runnable refuses a workflow of which a command would not run: gantry never passes a task off as run. With --emulate
// no command is to run.
func Runnable(set *Settings, sub *executor.Submission, noImage []*trace.Task) error {
	if set.Emulate || !Capabilities(set.Runtime).Programs {
		return nil
	}
	if err := allowed(set, sub); err != nil || len(noImage) == 0 {
		return err
	}
	const most = 5
	var names []string
	for _, t := range noImage[:min(most, len(noImage))] {
		name := t.ID
		if t.Line > 0 {
			name += fmt.Sprintf(" (line %d)", t.Line)
		}
		names = append(names, name)
	}
	return exit.Inputf("workflow %s: %s: %s with a command but no image to run it in: %s; name an image with "+
		"--image, or emulate all tasks with --emulate", sub.Name, sub.Workflow.Source,
		term.Plural(len(noImage), "task"), term.Named(len(noImage), names))
}

// allowed refuses a workflow that takes a network, or programs of this host, where the runtime does not show them, or
// the command line does not say so.
func allowed(set *Settings, sub *executor.Submission) error {
	for i := range sub.Workflow.Tasks {
		t := &sub.Workflow.Tasks[i]
		if len(t.Command) > 0 && t.Network && len(set.Networks) == 0 {
			return exit.Inputf("workflow %s: %s: task %s asks for a network: --network asked, of gantry run or of the "+
				"server, gives one to all tasks that ask, --network none to no task", sub.Name, sub.Workflow.Source,
				t.ID)
		}
		if len(t.Command) == 0 || cmp.Or(t.Image, set.Image) != executor.HostImage {
			continue
		}
		if set.Image != executor.HostImage {
			return exit.Inputf("workflow %s: %s: task %s asks for the programs of this host (image host), which only "+
				"--image host allows, of gantry run or of the server", sub.Name, sub.Workflow.Source, t.ID)
		}
		if row := RuntimeNamed(set.Runtime); !row.Store {
			why := ""
			if err := RuntimeNamed(oci.Capabilities.Name).IsUsable(context.Background()); err != nil {
				why = ", which cannot be used here: " + err.Error()
			}
			return exit.Hostf("--image host: containers of runtime %s show no programs of this host: take --runtime "+
				"%s%s", set.Runtime, oci.Capabilities.Name, why)
		}
	}
	return nil
}

// estimates learn from earlier runs. Each member is nil where the policy and the estimator of the run do without.
type estimates struct {
	online    *predict.Learned
	corrected *predict.Corrected
	recaller  policy.Recaller
	trained   *sqlite.TrainedModel
	window    int              // of the history: measurements of each kind
	told      *trace.Estimates // those of the trace, in place of earlier runs; nil: they do not count
	learned   learned          // of earlier runs
}

// errorModel is how estimates, or reality, go wrong in this run.
func (s *Settings) errorModel() (predict.ErrorModel, error) {
	if s.Errors == "" {
		return predict.ErrorModel{}, nil
	}
	m, err := predict.ParseErrorModel(s.Errors)
	m.Seed = s.draws()
	if m.Kind == predict.Random2 || m.Kind == predict.Short { // their factors are seconds
		m.Factor *= s.TimeScale
	}
	return m, err
}

// estimator makes the estimator that policies use, and connects it with admission.
func (p *Planning) estimator(ctx context.Context, adm *executor.Admitter) (planner.Estimator, error) {
	model, err := p.Set.errorModel()
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	spec, err := predict.ParseSpec(p.Set.Estimator)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	var trained *predict.Model
	if spec.Kind == predict.KindTrained {
		if p.trained, err = p.findModel(ctx, spec.Model); err != nil {
			return nil, err
		}
		trained = p.trained.Model
	}
	startup := p.Set.Startup
	if p.told != nil {
		startup, adm.Undeclared = startup+p.told.Start, true
	}
	made := estimate.Make(spec, startup, model, trained, adm)
	if p.Set.Host != nil && !p.Set.StartupGiven {
		made.Phases(p.Set.Host)
		if cfg := p.simulation(0); cfg.Host != nil {
			adm.Lasts = sim.NewHosted(cfg).HeldBack
		}
	}
	if trained != nil {
		adm.Memory = p.memory()
	}
	p.online, p.corrected, p.window = made.Learned, made.Corrected, spec.Window
	if p.online != nil && p.told != nil {
		for _, m := range p.told.From {
			p.online.Prior(predict.Sample{Kind: m.Kind, Features: predict.Features{Input: unit.Bytes(m.InputBytes),
				CPU: m.Millicores, Memory: unit.Bytes(m.MemoryBytes), Speed: m.Speed}, Declared: m.Declared,
				Ran: m.Runtime})
		}
	}
	return made.Estimator, nil
}

// findModel reads a model of the log, and notes its version in the settings: a resumed run continues with the same one.
func (p *Planning) findModel(ctx context.Context, name string) (*sqlite.TrainedModel, error) {
	db := p.DB
	if db == nil {
		var err error
		if db, err = readLog(p.Home); err != nil {
			return nil, fmt.Errorf("--estimator trained: %w", err)
		}
		defer db.Close()
	}
	m, err := db.FindModel(ctx, name)
	if errors.As(err, new(*sqlite.Unknown)) {
		return nil, exit.Inputf("--estimator trained: %w", err)
	} else if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	p.Set.Estimator = "trained:" + m.Reference()
	if m.TimeScale != p.Set.TimeScale || m.SizeScale != p.Set.SizeScale {
		p.View.Warn("model %s was trained at time scale %g and size scale %g: its predictions are of those",
			m.Reference(), m.TimeScale, m.SizeScale)
	}
	return m, nil
}

// learned is the knowledge of a planner about earlier runs when its run begins.
type learned struct {
	jobs        []queueing.Job
	corrections []declaredRun
	history     []predict.Sample
}

// estimatesIn returns those that the trace of one of these workflows tells of; nil if none does. Unless they count the
// workflows lose them, so that no export tells of them.
func estimatesIn(subs []executor.Submission, count bool) (told *trace.Estimates) {
	for i := range subs {
		if w := subs[i].Workflow; w != nil && count {
			told = cmp.Or(told, w.Estimates)
		} else if w != nil {
			w.Estimates = nil
		}
	}
	return told
}

// know reads the past, and teaches it. Simulations correct nothing at first, as in the paper.
func (e *estimates) know(ctx context.Context, past *earlierRuns, virtual bool) (err error) {
	l := &e.learned
	if *l = (learned{}); e.recaller != nil && e.recaller.Jobs() > 0 {
		l.jobs, err = past.jobs(ctx, e.recaller.Jobs())
	}
	if err == nil && e.corrected != nil && !virtual {
		l.corrections, err = past.corrections(ctx, e.window)
	}
	if err == nil && e.online != nil && e.told == nil {
		l.history, err = past.measured(ctx, e.window)
	}
	if err == nil {
		e.learn(*l)
	}
	return exit.Or(exit.Host, err)
}

// learn gives the policy and the estimator the past, before the run begins or continues.
func (e *estimates) learn(l learned) {
	if e.recaller != nil && e.recaller.Jobs() > 0 {
		e.recaller.Recall(l.jobs)
	}
	for _, m := range l.corrections {
		e.corrected.Prior(m.Ran, m.Declared)
	}
	for _, m := range l.history {
		e.online.Prior(m)
	}
}
