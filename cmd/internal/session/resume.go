package session

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"gantry/cmd/internal/exit"
	"gantry/executor"
	"gantry/planner"
	"gantry/sqlite"
)

// Continue continues a run of the log, with a corrected workflow if a file is named.
func (s *Session) Continue(ctx context.Context, name, with string) (failed error) {
	s.resumes = true
	all, err := s.existing(ctx, name, with)
	if err != nil {
		return err
	}
	if err := s.openPage(); err != nil {
		return err
	}
	if OnNodes(s.set.Runtime) {
		if err := s.reallocate(ctx); err != nil {
			return err
		}
		defer func() { s.leave(failed) }()
	} else if s.opts.SlurmJob != "" {
		return exit.Usagef("--slurm-job: run %s is on the %s runtime", s.name, s.set.Runtime)
	}
	return s.resume(ctx, all)
}

// recallSettings takes over the settings of a run of the log.
func (s *Session) recallSettings(ctx context.Context) error {
	info, err := s.db.Info(ctx, s.name)
	if err != nil {
		return LogError(err)
	}
	s.set = &Settings{}
	if err := json.Unmarshal(info.Settings, s.set); err != nil {
		return exit.Internalf("settings of run %s: %w", s.name, err)
	}
	changes, err := s.db.Policies(ctx, s.name)
	if err != nil {
		return LogError(err)
	}
	if n := len(changes); n > 0 {
		s.set.Policy = changes[n-1].Policy
	}
	s.platform = &info.Platform
	if s.opts.Change != nil {
		return s.opts.Change(s.set)
	}
	return nil
}

func (s *Session) resume(ctx context.Context, corrected []correction) error {
	if err := s.makeResultsDir(); err != nil {
		return err
	}
	info := s.log.Info()
	pl, adm, err := s.planner(ctx)
	if err != nil {
		return err
	}
	if err := s.recall(ctx); err != nil {
		return err
	}
	s.engine, s.upkeep = &executor.Engine{Planner: pl, Admit: adm}, newUpkeep(s)
	s.follower = s.newFollower(nil)
	s.view.Silence(len(corrected) > 0) // earlier failures are known
	emulated := false
	var specs []*executor.TaskSpec
	err = s.log.Replay(ctx, func(e planner.Event, a *executor.Admission) error {
		b := executor.Batch{Events: []planner.Event{e}}
		if a != nil {
			b.Admissions = []*executor.Admission{a}
			if s.serving == nil {
				specs = append(specs, a.Tasks...)
			}
			for _, t := range a.Tasks {
				emulated = emulated || len(t.Command) == 0
			}
		}
		if err := s.engine.Replay(b); err != nil {
			return err
		}
		s.watch(pl.View(), b.Events, b.Admissions)
		return nil
	})
	if err != nil {
		return exit.With(exit.Internal, err)
	}
	if s.engine.Arrivals, err = s.log.Submissions(ctx,
		pl.View().Workflows()-pl.View().Continuations()); err != nil {
		return exit.With(exit.Internal, err)
	}
	left := len(pl.View().Present()) + len(s.engine.Arrivals) + pl.View().UnderWayCount()
	if s.serving == nil && len(corrected) == 0 && left == 0 {
		// it ended, and a gantry that was to continue it was killed
		if corrected, err = s.corrections(ctx, ""); err != nil {
			return err
		}
	}
	more, err := s.serving.restore(ctx, s)
	if err == nil && s.serving == nil {
		more, err = s.check(s.engine.Arrivals)
	}
	if err != nil {
		return err
	}
	for t, spec := range specs {
		if p := pl.View().Phase(planner.TaskID(t)); spec != nil && spec.Image != "" && p != planner.Done {
			s.want(spec.Image)
		}
	}
	for _, w := range pl.View().Present() { // a server forgets workflows that have ended
		for t := range pl.View().All(w) {
			if spec := s.engine.Spec(t); spec != nil && spec.Image != "" && pl.View().Phase(t) != planner.Done {
				s.want(spec.Image)
			}
		}
	}
	if s.follower != nil {
		s.follower.coming = slices.Clone(s.engine.Arrivals)
	}
	if err := s.fetchFirst(ctx); err != nil {
		code := exit.Host
		if e, ok := errors.AsType[*exit.Error](err); ok {
			code = e.Code
		}
		_ = s.log.Finish(ctx, sqlite.Interrupted, code)
		return err
	}
	// The axis of the run is the time since it began, the time in which no gantry was there included: containers ran on
	// in it.
	now := time.Now()
	s.started = info.Started
	at := max(pl.View().Now()+1, planner.Time(now.Sub(info.Started)))
	if s.engine.Runtime, err = s.openRuntime(ctx, opening{origin: now, offset: at,
		emulated: emulated || more}); err != nil {
		return err
	}
	err = s.engine.Recover(ctx)
	s.engine.Store, s.engine.Watch = interruptible{s.log}, s.watch
	if err == nil {
		err = s.care(ctx)
	}
	if err == nil && len(corrected) > 0 {
		err = s.continueWith(ctx, corrected)
	}
	if err == nil {
		err = s.dropStale()
	}
	if err == nil {
		err = s.predictRest(ctx, at)
	}
	if err != nil {
		s.engine.Runtime.Close()
		return exit.With(exit.Host, err)
	}
	return s.drive(ctx)
}
