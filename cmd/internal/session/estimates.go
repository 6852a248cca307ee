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
	"gantry/planner/predict"
	"gantry/planner/queueing"
	"gantry/planner/unit"
	"gantry/sqlite"
)

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
func (s *Session) estimator(ctx context.Context, adm *executor.Admitter) (planner.Estimator, error) {
	model, err := s.set.errorModel()
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	spec, err := predict.ParseSpec(s.set.Estimator)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	var trained *predict.Model
	if spec.Kind == predict.KindTrained {
		if s.trained, err = s.findModel(ctx, spec.Model); err != nil {
			return nil, err
		}
		trained = s.trained.Model
	}
	made := estimate.Make(spec, s.set.Startup, model, trained, adm)
	if s.set.Host != nil && !s.set.StartupGiven {
		made.Phases(s.set.Host)
		if cfg := s.simulation(0); cfg.Host != nil {
			adm.Lasts = sim.NewHosted(cfg).HeldBack
		}
	}
	if trained != nil {
		adm.Memory = s.memory()
	}
	s.history, s.corrected, s.window = made.History, made.Corrected, spec.Window
	return made.Estimator, nil
}

// findModel reads a model of the log, and notes its version in the settings: a resumed run continues with the same one.
func (s *Session) findModel(ctx context.Context, name string) (*sqlite.TrainedModel, error) {
	db := s.db
	if db == nil {
		var err error
		if db, err = s.readLog(); err != nil {
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
	s.set.Estimator = "trained:" + m.Reference()
	if m.TimeScale != s.set.TimeScale || m.SizeScale != s.set.SizeScale {
		s.view.Warn("model %s was trained at time scale %g and size scale %g: its predictions are of those",
			m.Reference(), m.TimeScale, m.SizeScale)
	}
	return m, nil
}

// memory limits tasks to what the model predicts; nil without --predict-memory.
func (s *Session) memory() func(string, unit.Vector, unit.Bytes) (unit.Bytes, bool) {
	if !s.set.PredictMemory || s.trained == nil {
		return nil
	}
	rules, _ := RetryRules(s.set.Retries) // they were read before
	return func(kind string, need unit.Vector, input unit.Bytes) (unit.Bytes, bool) {
		declared := unit.Bytes(need[unit.Memory])
		limit, ok := s.trained.Model.MemoryLimit(kind, &predict.Features{Input: input, CPU: need[unit.CPU],
			Memory: declared})
		if rules.Limit[planner.OutOfMemory] == 0 { // the first try is the last one
			limit = max(limit, declared)
		}
		return limit, ok
	}
}

// learned is what a planner knows of earlier runs when its run begins.
type learned struct {
	jobs        []queueing.Job
	corrections []sqlite.Correction
	history     []sqlite.Measurement
}

// recollect reads what the policy and the estimator want to know of the past.
func (s *Session) recollect(ctx context.Context, past *sqlite.Past) (l learned, err error) {
	if s.recaller != nil && s.recaller.Jobs() > 0 {
		l.jobs, err = past.Jobs(ctx, s.recaller.Jobs())
	}
	// a simulation begins with none, as in the paper
	if err == nil && s.corrected != nil && !Capabilities(s.set.Runtime).Virtual {
		l.corrections, err = past.Corrections(ctx, s.window)
	}
	if err == nil && s.history != nil {
		l.history, err = past.History(ctx, s.window)
	}
	if err != nil {
		return l, exit.With(exit.Host, err)
	}
	return l, nil
}

// learn gives the policy and the estimator what they want to know of the past, before the run begins or continues.
func (s *Session) learn(l learned) {
	if s.recaller != nil && s.recaller.Jobs() > 0 {
		s.recaller.Recall(l.jobs)
	}
	for _, m := range l.corrections {
		s.corrected.Prior(m.Ran, m.Declared)
	}
	for _, m := range l.history {
		s.history.Prior(m.Kind, m.Ran, m.Speed)
	}
}

// recall gives the policy and the history the measurements of earlier runs, before this one begins or continues.
func (s *Session) recall(ctx context.Context) error {
	if s.log == nil || s.set.Measured != "" { // it learned of the runs on containers
		return nil
	}
	var err error
	if s.learned, err = s.recollect(ctx, s.log.Past()); err == nil {
		s.learn(s.learned)
	}
	return err
}
