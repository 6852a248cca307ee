package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/executor"
	"gantry/planner"
	"gantry/sqlite"
)

func resumeCommand() *cli.Command {
	return &cli.Command{
		Name:      "resume",
		Usage:     "continue a run that was stopped or crashed",
		ArgsUsage: "[RUN]",
		Description: `Without RUN it continues the latest run. Finished tasks are kept, running
containers are adopted, containers that ended meanwhile are logged, and lost tasks run again. All settings are those of
the run.

In a run that has failed, tasks that failed, were skipped or cancelled get fresh tries. A task that succeeded runs again
only if an input file from outside has changed, or a task before it runs.

   gantry resume RUN --with FILE   continues a run, whatever its state, with the corrected workflow

Tasks that succeeded and are the same in FILE stay. New and changed tasks run, and all tasks after them; gantry says
which and why. Running tasks of a run that was stopped are ended first. Catalogs are looked for beside FILE and in the
working directory, as by gantry run; --catalog, --site, --define and the like are as the run began unless given again.

Exit codes: 0 all tasks succeeded, 1 tasks failed, 2 wrong command line, 3 no such run, one that succeeded, or invalid
input, 4 host or Docker not usable, 6 internal error, 75 another gantry holds the run, 130 stopped and resumable.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print nothing but errors"},
			&cli.BoolFlag{Name: "json", Usage: "print the summary as JSON, and no progress"},
			watchFlag(), portFlag(), noPredictionFlag(),
			&cli.StringFlag{Name: "with", Usage: "continue with the corrected workflow or workload in `FILE`"},
			&cli.StringSliceFlag{Name: "inputs", Usage: "with --with: `DIR` with input files (may be repeated; " +
				"default: as the run began)"},
			catalogFlag(), siteFlag(), walltimeFlag(), containerMountsFlag(), defineFlag(new(definitions)),
			&cli.BoolFlag{Name: "repair", Usage: "with --with: repair the workflow as far as possible"},
			maxInputFlag(new(byteSize)), resultsFlag(), resultsDirFlag(), onEndFlag(),
			&cli.StringFlag{Name: "slurm-job", Usage: "continue a run on Slurm in the allocation of job `ID` " +
				"(default: its last one, else the one that gantry runs in, else one like that which it requested)"},
			&cli.BoolFlag{Name: "strict", Usage: "fail if this host cannot enforce a limit, or with --strict=false " +
				"only warn (default: as the run began)"},
		},
		Action: func(c *cli.Context) (failed error) {
			if c.NArg() > 1 {
				return exit.Usagef("resume: name one run")
			}
			for _, flag := range []string{"inputs", "catalog", "site", "define", "enforce-walltime",
				"container-mounts", "repair", "results"} {
				if c.IsSet(flag) && c.String("with") == "" {
					return exit.Usagef("--%s: it says how a corrected workflow is read: name that with --with FILE",
						flag)
				}
			}
			s, err := newSession(c, nil, "")
			if err != nil {
				return err
			}
			defer s.close()
			s.resumes, s.opts.change = true, changing(c)
			all, err := s.existing(c.Context, c.Args().First(), c.String("with"))
			if err != nil {
				return err
			}
			if err := s.openPage(); err != nil {
				return err
			}
			if onNodes(s.set.Runtime) {
				if err := s.reallocate(c.Context); err != nil {
					return err
				}
				defer func() { s.leave(failed) }()
			} else if c.IsSet("slurm-job") {
				return exit.Usagef("--slurm-job: run %s is on the %s runtime", s.name, s.set.Runtime)
			}
			return s.resume(c.Context, all)
		},
	}
}

// changing takes over the options that hold for the process that continues a run.
func changing(c *cli.Context) func(*settings) error {
	return func(set *settings) error {
		if c.IsSet("strict") {
			set.Strict = c.Bool("strict")
		}
		if c.IsSet("on-end") {
			set.OnEnd = c.String("on-end")
		}
		return readResultsDir(c, set)
	}
}

// recallSettings takes over the settings of a run of the log.
func (s *session) recallSettings(ctx context.Context) error {
	info, err := s.db.Info(ctx, s.name)
	if err != nil {
		return logError(err)
	}
	s.set = &settings{}
	if err := json.Unmarshal(info.Settings, s.set); err != nil {
		return exit.Internalf("settings of run %s: %w", s.name, err)
	}
	changes, err := s.db.Policies(ctx, s.name)
	if err != nil {
		return logError(err)
	}
	if n := len(changes); n > 0 {
		s.set.Policy = changes[n-1].Policy
	}
	s.platform = &info.Platform
	if s.opts.change != nil {
		return s.opts.change(s.set)
	}
	return nil
}

func (s *session) resume(ctx context.Context, corrected []correction) error {
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
	s.view.Silence(len(corrected) > 0) // what failed is not news
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
