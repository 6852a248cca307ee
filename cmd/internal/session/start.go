package session

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	release "gantry"

	"gantry/cmd/gantry/early"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/planner"
	"gantry/sqlite"
)

// Begin begins a new run and drives it to its end; or, of a dry run, it says what would happen.
func (s *Session) Begin(ctx context.Context, mode sqlite.Mode, in *Inputs) (d *DryRun, err error) {
	first, release := ctx, func() {} // until the run exists: who stops gantry before leaves nothing
	if find := RuntimeNamed(s.set.Runtime).Cluster; find != nil {
		if err := s.readUnplaced(ctx, &Inputs{Paths: in.Paths, Stdin: in.Stdin}); err != nil {
			return nil, err
		}
		var stop func()
		first, stop = context.WithCancel(ctx)
		defer stop()
		release = early.Cancel(stop)
		defer release()
		defer func() { s.leave(err) }()
		if err := find(first, s); first.Err() != nil {
			return nil, exit.Stoppedf("stopped; nothing was started")
		} else if err != nil {
			return nil, err
		}
	}
	if s.platform, err = executor.PlatformOf(s.set.Cluster); err != nil {
		return nil, exit.With(exit.Input, err)
	}
	p, err := s.read(ctx, in)
	if err != nil {
		return nil, err
	}
	if s.opts.Dry {
		return s.dry(ctx, p.subs)
	}
	if err := s.fetchFirst(first); err != nil {
		return nil, err
	}
	release()
	return nil, s.start(ctx, mode, p)
}

// prepared is what a run consists of.
type prepared struct {
	planner  *planner.Planner
	admitter *executor.Admitter
	subs     []executor.Submission
	emulated bool // a task is
}

// read reads what is to run on the platform, and refuses what cannot.
func (s *Session) read(ctx context.Context, in *Inputs) (p prepared, err error) {
	set := s.set
	in.Seed, in.repetition = set.Seed, set.Repetition-1
	in.Platform, in.Count, in.Warn = s.platform, set.Count, s.view.Warn
	in.TimeScale = max(set.TimeScale, math.SmallestNonzeroFloat64)
	if err := s.opts.ReadAs(set, in); err != nil {
		return p, err
	}
	p.planner, p.admitter, err = s.planner(ctx)
	if err == nil && set.Measured != "" {
		p.planner, p.admitter, err = s.measuredIn(ctx)
	}
	if err != nil {
		return p, err
	}
	if p.subs, err = in.Submissions(); err != nil {
		return p, err
	}
	if err := in.Preempt(p.subs); err != nil {
		return p, exit.With(exit.Usage, err)
	}
	if in.All && in.repetitions == 0 {
		return p, exit.Usagef("--repetition all: no workload file says how many there are (key repetitions)")
	}
	set.Reuse = set.Reuse || in.reuse && Capabilities(set.Runtime).Programs
	set.WarmUp, set.CoolDown, s.repetitions = in.warmUp, in.coolDown, max(1, in.repetitions)
	if p.emulated, err = s.check(p.subs); err != nil {
		return p, err
	}
	s.facts.Workloads, s.facts.More, s.facts.Repaired = in.workloads, in.More, in.Repaired
	if n := len(s.facts.unknown); n > 0 && Capabilities(set.Runtime).Virtual && set.Measured == "" {
		s.view.Note("nothing is known of %s: each of their tasks takes 1 s here; --measured RUN takes what was "+
			"measured", term.NamesOf(slices.Sorted(maps.Keys(s.facts.unknown)), 3))
	}
	if s.opts.Refuse != nil {
		if err := s.opts.Refuse(set, &s.facts); err != nil {
			return p, err
		}
	}
	if Capabilities(set.Runtime).Programs {
		if err := CheckMounts(p.subs, set.Emulate || set.ContainerMounts); err != nil {
			return p, err
		}
		if err := s.locate(ctx, p.subs); err != nil {
			return p, err
		}
	}
	return p, nil
}

// start gives the run its name, its log and its runtime, and drives it.
func (s *Session) start(ctx context.Context, mode sqlite.Mode, p prepared) (err error) {
	set, subs := s.set, p.subs
	if s.name == "" {
		s.name = NewName()
	} else if s.name != executor.EscapeName(s.name) {
		return badName(s.name)
	}
	if s.name == LatestLink {
		return exit.Usagef("--name %s: this is the link to the newest run: choose another name", s.name)
	}
	if err := s.makeResultsDir(); err != nil {
		return err
	}
	if s.dir, err = s.set.place(filepath.Join(s.home, s.name)); err != nil {
		return exit.With(exit.Host, err)
	}
	s.started = time.Now()
	if !s.opts.NoLog {
		if err := s.open(mode); err != nil {
			return err
		}
		if !Capabilities(set.Runtime).Virtual {
			_, before := os.Lstat(s.dir)
			if err := s.hold(); err != nil {
				return err
			}
			if err := s.fetchSources(ctx, subs); err != nil {
				if before != nil { // nothing of this run is in the log
					_ = os.RemoveAll(s.dir)
				}
				return err
			}
		}
		if err := s.openPage(); err != nil {
			return err
		}
		if err := s.predict(ctx, subs); err != nil {
			return err
		}
		s.started = time.Now()
		var resumable []executor.Submission
		if Capabilities(set.Runtime).Adopts {
			resumable = subs
		}
		s.log, err = s.db.CreateRun(ctx, sqlite.RunInfo{Name: s.name, Runtime: set.Runtime, Policy: set.Policy,
			Command: os.Args, Version: release.Build(),
			Started: s.started, Seed: int64(set.Seed), TimeScale: set.TimeScale, SizeScale: set.SizeScale,
			Cluster: set.Cluster, Platform: *s.platform,
			Host: HostFacts(), Settings: set.Encode(), Images: s.images.unlogged()}, resumable...)
		if sqlite.IsDisk(err) {
			return exit.With(exit.Host, err)
		} else if err != nil {
			return exit.With(exit.Input, err)
		}
		if !Capabilities(set.Runtime).Virtual {
			s.linkLatest()
		}
		if err := s.recall(ctx); err != nil {
			return err
		}
		if s.forecast != nil {
			if err := s.log.Predict(s.predictions(s.forecast)); err != nil {
				return exit.With(exit.Host, err)
			}
		}
	}
	rt, err := s.openRuntime(ctx, opening{origin: s.started, emulated: p.emulated})
	if err != nil {
		if s.log != nil {
			_ = s.log.Finish(ctx, sqlite.Interrupted, exit.Host)
		}
		return err
	}
	s.engine = &executor.Engine{Runtime: rt, Planner: p.planner, Admit: p.admitter, Arrivals: subs}
	if err := s.care(ctx); err != nil {
		rt.Close()
		if s.log != nil {
			_ = s.log.Finish(ctx, sqlite.Interrupted, exit.Input)
		}
		return err
	}
	return s.drive(ctx)
}

func badName(name string) error {
	return exit.Usagef("--name %s: letters, digits, _, - and . only", name)
}

// existing opens a run of the log to continue it, with a corrected workflow if a file is named.
func (s *Session) existing(ctx context.Context, name, with string) (all []correction, err error) {
	if _, err := os.Stat(filepath.Join(s.home, sqlite.FileName)); errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Inputf("there is no log at %s: nothing was run there, or --dir names another directory",
			filepath.Join(s.home, sqlite.FileName))
	}
	if err := s.open(sqlite.Durable); err != nil {
		return nil, err
	}
	info, err := s.db.Info(ctx, name)
	if err != nil {
		return nil, exit.With(exit.Input, err)
	}
	over, err := s.db.Overview(ctx, info.Name)
	if err != nil {
		return nil, exit.With(exit.Input, err)
	}
	s.name = over.Run
	s.dir = Placed(filepath.Join(s.home, s.name))
	if !Capabilities(over.Runtime).Adopts {
		return nil, exit.Inputf("run %s is on the %s runtime, which cannot be resumed: start it again", s.name,
			over.Runtime)
	}
	if with != "" && !Capabilities(over.Runtime).Programs {
		return nil, exit.Inputf("--with: run %s is on the %s runtime, which has no files: there is nothing that "+
			"a corrected workflow could keep; start it again", s.name, over.Runtime)
	}
	if over.State == sqlite.Finished && with == "" && s.serving == nil {
		return nil, exit.Inputf("run %s has ended (%s): there is nothing to resume; --with FILE continues it "+
			"with a corrected workflow", s.name, over.State)
	}
	if err := Enter(over.Runtime); err != nil {
		return nil, err
	}
	if err := s.hold(); err != nil {
		return nil, err
	}
	if err := s.recallSettings(ctx); err != nil {
		return nil, err
	}
	if s.serving == nil && (over.State == sqlite.Failed || with != "") {
		if all, err = s.corrections(ctx, with); err != nil {
			return nil, err
		}
	}
	s.log, err = s.db.OpenRun(ctx, s.name)
	return all, err
}

// readLog opens the log of the run, or that it would be kept in, for reading.
func (s *Session) readLog() (*sqlite.DB, error) {
	db, err := sqlite.Open(filepath.Join(s.home, sqlite.FileName), sqlite.ReadOnly)
	return db, LogError(err)
}

// LogError gives an error of reading the log its exit code.
func LogError(err error) error {
	run, task, none := new(sqlite.UnknownRunError), new(sqlite.UnknownTaskError), new(sqlite.NotArrivedError)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &run), errors.As(err, &task), errors.As(err, &none), errors.Is(err, sqlite.ErrNoLog):
		return exit.With(exit.Input, err)
	}
	return exit.With(exit.Host, err)
}

// OpenToWrite opens the log below home, which has to be there.
func OpenToWrite(home string) (*sqlite.DB, error) {
	path := filepath.Join(home, sqlite.FileName)
	if _, err := os.Stat(path); err != nil {
		return nil, exit.Inputf("there is no log at %s: nothing was run there, or --dir names another directory",
			path)
	}
	db, err := sqlite.Open(path, sqlite.Durable)
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	return db, nil
}
