package session

import (
	"context"
	"errors"
	"fmt"

	"gantry/cmd/internal/exit"
	"gantry/executor"
	"gantry/executor/estimate"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/planner/queueing"
	"gantry/sqlite"
)

// estimates learn from earlier runs. Each member is nil where the policy and the estimator of the run do without.
type estimates struct {
	history   *predict.History
	online    *predict.Learned
	corrected *predict.Corrected
	recaller  policy.Recaller
	trained   *sqlite.TrainedModel
	window    int     // of the history: measurements of each kind
	learned   learned // of earlier runs
}

// errorModel is how estimates, or reality, go wrong in this run.
func (s *Settings) errorModel() (predict.ErrorModel, error) {
	if s.Errors == "" {
		return predict.ErrorModel{}, nil
	}
	m, err := predict.ParseErrorModel(s.Errors)
	m.Seed = s.draws()
	if m.Kind == predict.Random2 { // its estimates are seconds, whatever is declared
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
	made := estimate.Make(spec, p.Set.Startup, model, trained, adm)
	if p.Set.Host != nil && !p.Set.StartupGiven {
		made.Phases(p.Set.Host)
		if cfg := p.simulation(0); cfg.Host != nil {
			adm.Lasts = sim.NewHosted(cfg).HeldBack
		}
	}
	if trained != nil {
		adm.Memory = p.memory()
	}
	p.history, p.online, p.corrected, p.window = made.History, made.Learned, made.Corrected, spec.Window
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
	if unknown := new(sqlite.UnknownModelError); errors.As(err, &unknown) {
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
	corrections []sqlite.Correction
	history     []predict.Sample
}

// recollect reads the past for the policy and the estimator. Simulations correct nothing at first, as in the paper.
func (e *estimates) recollect(ctx context.Context, past *sqlite.Past, virtual bool) (l learned, err error) {
	if e.recaller != nil && e.recaller.Jobs() > 0 {
		l.jobs, err = past.Jobs(ctx, e.recaller.Jobs())
	}
	if err == nil && e.corrected != nil && !virtual {
		l.corrections, err = past.Corrections(ctx, e.window)
	}
	if err == nil && (e.history != nil || e.online != nil) {
		l.history, err = past.History(ctx, e.window)
	}
	if err != nil {
		return l, exit.With(exit.Host, err)
	}
	return l, nil
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
		if e.online != nil {
			e.online.Prior(m)
		} else {
			e.history.Prior(m.Kind, m.Ran, m.Features.Speed)
		}
	}
}
