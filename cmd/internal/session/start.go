package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	release "gantry"
	"gantry/cmd/gantry/early"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/planner/predict"
	"gantry/sqlite"
)

// Begin begins a new run and drives it to its end; or it predicts a dry run.
func (s *Session) Begin(ctx context.Context, mode sqlite.Mode, in *Inputs) (d *DryRun, err error) {
	first, release := ctx, func() {} // until the run exists: a signal before leaves nothing
	if find := RuntimeNamed(s.Set.Runtime).Cluster; find != nil {
		var stop func()
		first, stop = context.WithCancel(ctx)
		defer stop()
		release = early.Cancel(stop)
		defer release()
		if err := find(first, s); first.Err() != nil {
			return nil, exit.Stoppedf("stopped; nothing was started")
		} else if err != nil {
			return nil, err
		}
	}
	if err := s.makePlatform(); err != nil {
		return nil, err
	}
	if s.work, err = s.read(ctx, in, &s.opts); err != nil {
		return nil, err
	}
	if s.opts.Dry {
		return s.dry(ctx)
	}
	if err := s.fetchFirst(first); err != nil {
		return nil, err
	}
	release()
	return nil, s.start(ctx, mode)
}

// read reads the workflows that are to run on the platform, and refuses those that cannot.
func (p *Planning) read(ctx context.Context, in *Inputs, o *Options) (w work, err error) {
	set := p.Set
	w.Engine, err = p.Assemble(ctx)
	if err == nil && set.Measured != "" {
		w.Engine, err = p.measuredIn(ctx)
	}
	if err != nil {
		return w, err
	}
	in.Lean = Capabilities(set.Runtime).Virtual
	if w.subs, err = p.load(in, o); err != nil {
		return w, err
	}
	if p.told = estimatesIn(w.subs, set.Estimator == ""); p.told != nil {
		if set.EstimateAsTrace = true; p.told.Learn {
			set.Estimator = predict.KindLearned
		}
		if w.Engine, err = p.Assemble(ctx); err != nil {
			return w, err
		}
	}
	set.Estimator = cmp.Or(set.Estimator, predict.KindDeclared)
	set.Reuse = set.Reuse || in.reuse && Capabilities(set.Runtime).Programs
	set.WarmUp, set.CoolDown, w.repetitions = in.warmUp, in.coolDown, max(1, in.repetitions)
	if err := w.check(p, w.subs, false); err != nil {
		return w, err
	}
	w.facts.Workloads, w.facts.More, w.facts.Repaired = in.workloads, in.More, in.Repaired
	if n := len(w.facts.unknown); n > 0 && Capabilities(set.Runtime).Virtual && set.Measured == "" {
		p.View.Note("nothing is known of %s: each of their tasks takes 1 s here; --measured RUN takes measured times",
			term.NamesOf(slices.Sorted(maps.Keys(w.facts.unknown)), 3))
	}
	if o.Refuse != nil {
		if err := o.Refuse(set, &w.facts); err != nil {
			return w, err
		}
	}
	if Capabilities(set.Runtime).Programs {
		if err := p.Locate(ctx, w.subs); err != nil {
			return w, err
		}
		return w, in.idle(w.subs)
	}
	return w, nil
}

// start gives the run its name, its log and its runtime, and drives it.
func (s *Session) start(ctx context.Context, mode sqlite.Mode) (err error) {
	if s.Name == "" {
		s.Name = NewName()
	} else if err := checkName(s.Name); err != nil {
		return err
	}
	if s.Name == LatestLink {
		return exit.Usagef("--name %s: this is the link to the newest run: choose another name", s.Name)
	}
	if err := MakeResultsDir(s.Home, s.Set.ResultsDir); err != nil {
		return err
	}
	if s.Dir, err = s.Set.place(filepath.Join(s.Home, s.Name)); err != nil {
		return exit.With(exit.Host, err)
	}
	s.Started = time.Now()
	if !s.opts.NoLog {
		if err := s.enter(ctx, mode); err != nil {
			return err
		}
	}
	s.Engine.Arrivals = s.subs
	s.Engine.Faults = executor.NewFaults(s.Set.Faults, s.Set.TimeScale, s.Set.draws(), s.Platform)
	return s.launch(ctx, opening{origin: s.Started}, s.care)
}

// launch opens the runtime of a run, lets it get ready, and drives it.
func (s *Session) launch(ctx context.Context, o opening, ready func(context.Context) error) (err error) {
	if s.Engine.Runtime, err = s.openRuntime(ctx, o); err != nil {
		return s.halted(ctx, err)
	}
	if err := ready(ctx); err != nil {
		s.Engine.Runtime.Close()
		return s.halted(ctx, err)
	}
	return s.drive(ctx)
}

// halted notes in the log that a run does not begin or continue now: it can later.
func (s *Session) halted(ctx context.Context, err error) error {
	err = exit.Or(exit.Host, err)
	if s.Log != nil {
		_ = s.Log.Finish(ctx, sqlite.Interrupted, exit.CodeOf(err))
	}
	return err
}

// enter enters the run in the log, with its prediction.
func (s *Session) enter(ctx context.Context, mode sqlite.Mode) (err error) {
	set, able := s.Set, Capabilities(s.Set.Runtime)
	if err := s.OpenLog(mode); err != nil {
		return err
	}
	if !able.Virtual {
		_, before := os.Lstat(s.Dir)
		if err := s.hold(); err != nil {
			return err
		}
		if err := s.FetchSources(ctx, s.Dir, s.subs); err != nil {
			if before != nil { // nothing of this run is in the log
				_ = os.RemoveAll(s.Dir)
			}
			return err
		}
	}
	if s.page, err = s.opts.openPage(s.DB, s.Name); err != nil {
		return err
	}
	if err := s.recall(ctx, runsBefore(s.DB, set.Runtime, set)); err != nil {
		return err
	}
	s.Prediction = s.prediction(&s.opts)
	if err := s.Prediction.predict(ctx, &s.work, &s.images); err != nil {
		return err
	}
	s.Started = time.Now()
	var resumable []executor.Submission
	if able.Adopts {
		resumable = s.subs
	}
	s.Log, err = s.DB.CreateRun(ctx, sqlite.RunInfo{Name: s.Name, Runtime: set.Runtime, Policy: set.Policy,
		Command: os.Args, Version: release.Build(), Started: s.Started, Seed: int64(set.Seed), TimeScale: set.TimeScale,
		SizeScale: set.SizeScale, Cluster: set.Cluster, Platform: *s.Platform, Host: HostFacts(),
		Settings: set.Encode(), Images: s.found}, resumable...)
	if sqlite.IsDisk(err) {
		return exit.With(exit.Host, err)
	} else if err != nil {
		return exit.With(exit.Input, err)
	}
	if !able.Virtual {
		linkLatest(s.Home, s.Name, s.View)
	}
	return exit.Or(exit.Host, s.Prediction.keep(s.Log))
}

// recall gives the policy and the estimator the measurements of earlier runs, before this one begins or continues.
func (p *Planning) recall(ctx context.Context, past *earlierRuns) error {
	if p.Set.Measured != "" { // it learned of the runs on containers
		return nil
	}
	return p.know(ctx, past, Capabilities(p.Set.Runtime).Virtual)
}

func checkName(run string) error {
	if run != "" && run != executor.EscapeName(run) {
		return exit.Usagef("--name %s: letters, digits, _, - and . only", run)
	}
	return nil
}

// existing opens a run of the log to continue it, with a corrected workflow if a file is named.
func (s *Session) existing(ctx context.Context, name, with string) (all []correction, err error) {
	if s.DB == nil {
		if s.DB, err = OpenToWrite(s.Home); err != nil {
			return nil, err
		}
	}
	info, err := s.DB.Info(ctx, name)
	if err != nil {
		return nil, exit.With(exit.Input, err)
	}
	over, err := s.DB.Overview(ctx, info.Name)
	if err != nil {
		return nil, exit.With(exit.Input, err)
	}
	s.Name = over.Run
	s.Dir = Placed(filepath.Join(s.Home, s.Name))
	switch able := Capabilities(over.Runtime); {
	case !able.Adopts:
		return nil, exit.Inputf("run %s is on the %s runtime, which cannot be resumed: start it again", s.Name,
			over.Runtime)
	case with != "" && !able.Programs:
		return nil, exit.Inputf("--with: run %s is on the %s runtime, which has no files: there is nothing that "+
			"a corrected workflow could keep; start it again", s.Name, over.Runtime)
	case over.State == sqlite.Finished && with == "" && s.opts.Server == nil:
		return nil, exit.Inputf("run %s has ended (%s): there is nothing to resume; --with FILE continues it "+
			"with a corrected workflow", s.Name, over.State)
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
	if s.opts.Server == nil && (over.State == sqlite.Failed || with != "") {
		if all, s.wanted, err = s.corrections(ctx, with); err != nil {
			return nil, err
		}
	}
	s.Log, err = s.DB.OpenRun(ctx, s.Name)
	return all, err
}

var adjectives = strings.Fields("able bold brave brisk calm clear deft eager fair fleet gentle glad grand keen kind " +
	"lively lucid merry neat nimble patient plain proud quick quiet ready sharp sober sound steady stout sunny " +
	"swift tidy vivid warm wise witty")

var scientists = strings.Fields("banzhaf bell bohr boole borlaug carson cerf cori curie darwin dijkstra engelbart " +
	"erdos euler faraday feynman floyd franklin galois gauss goldberg hamilton hawking hoare hooke hopper johnson " +
	"keller kepler knuth lamport liskov lovelace mcclintock meitner mendel mirzakhani newton noether pascal pauling " +
	"planck ride shannon tesla turing wozniak wu yalow")

// NewName makes up a name that is easy to say and, by its digits, new.
func NewName() string {
	var b [4]byte
	// crypto/rand.Read never returns an error.
	_, _ = rand.Read(b[:])
	return adjectives[int(b[0])%len(adjectives)] + "-" + scientists[int(b[1])%len(scientists)] + "-" +
		hex.EncodeToString(b[2:])
}
