package session

import (
	"context"
	"slices"
	"time"

	"gantry/cmd/internal/exit"
	"gantry/executor"
	"gantry/executor/forecast"
	"gantry/planner"
	"gantry/sqlite"
)

// Continue continues a run of the log, with a corrected workflow if a file is named.
func (s *Session) Continue(ctx context.Context, name, with string) error {
	s.resumes = true
	all, err := s.existing(ctx, name, with)
	if err == nil {
		s.page, err = s.opts.openPage(s.DB, s.Name)
	}
	if err != nil {
		return err
	}
	if OnNodes(s.Set.Runtime) {
		if err := reallocate(ctx, s); err != nil {
			return err
		}
	} else if s.opts.SlurmJob != "" {
		return exit.Usagef("--slurm-job: run %s is on the %s runtime", s.Name, s.Set.Runtime)
	}
	return s.resume(ctx, all)
}

// recallSettings takes over the settings of a run of the log.
func (s *Session) recallSettings(ctx context.Context) error {
	info, err := s.DB.Info(ctx, s.Name)
	if err != nil {
		return LogError(err)
	}
	if s.Set, err = settingsOf(&info); err != nil {
		return err
	}
	changes, err := s.DB.Policies(ctx, s.Name)
	if err != nil {
		return LogError(err)
	}
	if n := len(changes); n > 0 {
		s.Set.Policy = changes[n-1].Policy
	}
	s.Platform = &info.Platform
	if s.planned = s.Set.Policy; s.opts.Change != nil {
		return s.opts.Change(s.Set)
	}
	return nil
}

func (s *Session) resume(ctx context.Context, corrected []correction) error {
	if err := MakeResultsDir(s.Home, s.Set.ResultsDir); err != nil {
		return err
	}
	info := s.Log.Info()
	var err error
	if s.Engine, err = s.Assemble(ctx); err != nil {
		return err
	}
	past, err := earlierThan(ctx, s.DB, info.Name)
	if err == nil {
		err = s.recall(ctx, past)
	}
	if err != nil {
		return err
	}
	s.upkeep = newUpkeep(s.Dir, s.Set.Scratch, s.Log, s.View)
	if s.Prediction = s.prediction(&s.opts); s.Prediction != nil {
		s.Prediction.past = &forecast.Past{}
	}
	s.View.Silence(len(corrected) > 0) // earlier failures are known
	images, err := s.readBack(ctx)
	if err != nil {
		return err
	}
	v := s.Engine.Planner.View()
	if s.Engine.Arrivals, err = s.Log.Submissions(ctx, v.Workflows()-v.Continuations()); err != nil {
		return exit.With(exit.Internal, err)
	}
	left := len(v.Present()) + len(s.Engine.Arrivals) + v.UnderWayCount()
	if s.opts.Server == nil && len(corrected) == 0 && left == 0 {
		// it ended, and a gantry that was to continue it was killed
		if corrected, _, err = s.corrections(ctx, ""); err != nil {
			return err
		}
	}
	if s.opts.Server != nil {
		s.Started = info.Started
		err = s.opts.Server.Restore(ctx, s)
	} else {
		err = s.check(&s.Planning, s.Engine.Arrivals, true)
	}
	if err != nil {
		return err
	}
	s.wantRest(images)
	if err := s.fetchFirst(ctx); err != nil {
		return s.halted(ctx, err)
	}
	// The axis of the run is the time since it began, the time in which no gantry was there included: containers ran on
	// in it.
	now := time.Now()
	s.Started = info.Started
	at := max(v.Now()+1, planner.Time(now.Sub(info.Started)))
	return s.launch(ctx, opening{origin: now, offset: at}, func(ctx context.Context) error {
		return s.takeUp(ctx, corrected, at)
	})
}

// takeUp continues what the engine finds of a run, with corrected workflows if there are any.
func (s *Session) takeUp(ctx context.Context, corrected []correction, at planner.Time) error {
	err := s.Engine.Recover(ctx)
	s.Engine.Store, s.Engine.Watch = interruptible{s.Log}, s.watch
	if err == nil && s.Set.Policy != s.planned {
		err = s.Engine.PlansBy(s.Set.Policy)
	}
	if err == nil {
		err = s.care(ctx)
	}
	if err == nil && len(corrected) > 0 {
		s.View.Silence(false)
		if err = s.Engine.Quiesce(ctx); err == nil {
			s.upkeep.settle()
			err = s.replace(ctx, corrected)
		}
	}
	if err == nil {
		err = s.dropStale()
	}
	if err == nil {
		err = s.Prediction.predictRest(ctx, &s.work, s.Log, at)
	}
	return err
}

// readBack reads the events of the run from its log. It returns the tasks that they admit, by image; of a server, which
// forgets workflows that have ended, none.
func (s *Session) readBack(ctx context.Context) (images map[string][]planner.TaskID, err error) {
	images = map[string][]planner.TaskID{}
	err = s.Log.Replay(ctx, func(e planner.Event, a *executor.Admission) error {
		b := executor.Batch{Events: []planner.Event{e}}
		if a != nil {
			b.Admissions = []*executor.Admission{a}
			for i, t := range a.Tasks {
				if s.opts.Server == nil && t.Image != "" {
					images[t.Image] = append(images[t.Image], a.Arrived.Tasks[i].ID)
				}
			}
		}
		if err := s.Engine.Replay(b); err != nil {
			return err
		}
		s.watch(s.Engine.Planner.View(), b.Events, b.Admissions)
		return nil
	})
	if err != nil {
		return nil, exit.With(exit.Internal, err)
	}
	return images, nil
}

// wantRest notes the images of the tasks that are still to run.
func (w *work) wantRest(images map[string][]planner.TaskID) {
	v := w.Engine.Planner.View()
	open := func(t planner.TaskID) bool { return v.Phase(t) != planner.Done }
	for image, tasks := range images {
		if slices.ContainsFunc(tasks, open) {
			w.Want(image)
		}
	}
	for _, flow := range v.Present() { // of a server, too
		for t := range v.All(flow) {
			if spec := w.Engine.Spec(t); spec != nil && spec.Image != "" && open(t) {
				w.Want(spec.Image)
			}
		}
	}
}

// Open begins the run of a server, or continues the one that is named.
func (s *Session) Open(ctx context.Context, run string) (err error) {
	if run != "" {
		return s.Continue(ctx, run, "")
	}
	if err := s.makePlatform(); err != nil {
		return err
	}
	if s.Engine, err = s.Assemble(ctx); err != nil {
		return err
	}
	return s.start(ctx, sqlite.Durable)
}
