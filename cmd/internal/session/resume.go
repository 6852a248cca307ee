package session

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
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
	if s.Set, err = SettingsOf(&info); err != nil {
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
	s.Started = info.Started
	if s.opts.Server != nil {
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
	return images, exit.Or(exit.Internal, err)
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

// correction is a workflow of a run that is to be continued, and the submission that continues it.
type correction struct {
	of  sqlite.Flow
	sub executor.Submission
	// inputs says that its files come from other directories than the run began with.
	inputs bool
}

// corrections finds the workflows to be continued and checks their new versions, before anything is changed: those that
// have not succeeded, or with a corrected file those that are in it, and the images that these want.
func (s *Session) corrections(ctx context.Context, with string) (all []correction, wanted map[string]bool, err error) {
	flows, err := s.DB.Flows(ctx, s.Name)
	if err != nil {
		return nil, nil, LogError(err)
	}
	if with == "" {
		for _, f := range flows {
			if f.State != "done" {
				all = append(all, correction{of: f})
				if err := s.warnEdited(ctx, f); err != nil {
					return nil, nil, err
				}
			}
		}
	} else if all, err = s.corrected(with, flows); err != nil {
		return nil, nil, err
	}
	subs := make([]executor.Submission, len(all))
	for i := range all {
		x := &all[i]
		was, err := s.DB.Admission(ctx, s.Name, x.of.ID)
		if err != nil {
			return nil, nil, LogError(err)
		}
		old := was.Submission
		if with == "" {
			x.sub = old
		} else { // its arrival and its role in the run stay
			now := x.sub
			x.sub = old
			x.sub.Workflow, x.sub.Costs, x.sub.Draw = now.Workflow, now.Costs, nil
			if x.inputs {
				x.sub.Inputs, x.sub.Dirs = now.Inputs, now.Dirs
			}
		}
		x.sub.Name, x.sub.Population, x.sub.Sources = old.Name, 0, nil
		subs[i] = x.sub
	}
	var w work // tasks that are not to run must not count twice
	if err := w.check(&s.Planning, subs, false); err != nil {
		return nil, nil, err
	}
	if with != "" {
		wanted = w.wanted
	}
	if Capabilities(s.Set.Runtime).Programs {
		if err := s.Locate(ctx, subs); err != nil {
			return nil, nil, err
		}
		if err := s.FetchSources(ctx, s.Dir, subs); err != nil {
			return nil, nil, err
		}
	}
	for i := range all {
		all[i].sub = subs[i]
	}
	return all, wanted, nil
}

// warnEdited warns that the file of a workflow was written after the workflow failed: without --with, the workflow
// continues as it was read.
func (s *Session) warnEdited(ctx context.Context, f sqlite.Flow) error {
	info, err := s.DB.Info(ctx, s.Name)
	if err != nil {
		return LogError(err)
	}
	st, err := os.Stat(f.Source)
	if err == nil && st.Mode().IsRegular() && st.ModTime().After(info.Started.Add(time.Duration(f.Ended))) {
		s.View.Warn("%s has changed since %s failed, which continues as it was read: gantry resume %s --with %s "+
			"continues with the file as it is now", f.Source, f.Name, s.Name, f.Source)
	}
	return nil
}

// corrected reads a file with corrected workflows of the run.
func (s *Session) corrected(with string, flows []sqlite.Flow) (all []correction, err error) {
	in := &Inputs{Paths: []string{with}}
	subs, err := s.Load(in, &s.opts)
	if err != nil {
		return nil, err
	}
	if len(subs) == 1 && len(flows) == 1 {
		return []correction{{flows[0], subs[0], in.Inputs != ""}}, nil
	}
	taken := map[planner.WorkflowID]bool{}
	for _, sub := range subs {
		var fits []sqlite.Flow
		for _, f := range flows {
			if f.Name == sub.Name {
				fits = []sqlite.Flow{f}
				break
			}
			if f.Label == sub.Workflow.Label {
				fits = append(fits, f)
			}
		}
		if len(fits) != 1 || taken[fits[0].ID] {
			var names []string
			for _, f := range flows {
				names = append(names, f.Name)
			}
			return nil, exit.Inputf("--with %s: workflow %s is not one that has arrived in run %s, or not the "+
				"only one of its name: the run has %s", with, sub.Name, s.Name, strings.Join(names, ", "))
		}
		taken[fits[0].ID] = true
		all = append(all, correction{fits[0], sub, in.Inputs != ""})
	}
	return all, nil
}

// maxChangesShown is how many tasks that run again are named; gantry explain has the reason of each.
const maxChangesShown = 20

// replace lets corrected workflows take the place of those that the run has had, and says which tasks run again.
func (s *Session) replace(ctx context.Context, all []correction) error {
	list := make([]executor.Continuation, len(all))
	type outcome struct {
		was     *executor.Admission
		adm     *executor.Admission
		changes []executor.Change
		stay    int
	}
	outcomes := make([]outcome, len(all))
	var failed error
	for i, x := range all {
		was, err := s.DB.Admission(ctx, s.Name, x.of.ID)
		if err != nil {
			return err
		}
		keep := func(adm *executor.Admission) []executor.Kept {
			kept, changes := executor.Keep(was, adm, s.Engine.Planner.View(), s.upkeep.keeper)
			o := &outcomes[i]
			o.was, o.adm, o.changes = was, adm, changes
			for _, k := range kept {
				if k.Stay {
					o.stay++
				}
			}
			if err := s.dropInputs(was, adm); err != nil {
				failed = err
			}
			return kept
		}
		list[i] = executor.Continuation{Of: x.of.ID, Submission: x.sub, Keep: keep}
	}
	if err := s.Engine.Continue(ctx, list); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	for _, o := range outcomes {
		if err := s.linkResults(ctx, o.was, o.adm); err != nil {
			return err
		}
		s.View.Note("%s: %s kept, %d to run", o.adm.Spec.Name, term.Plural(o.stay, "task"), len(o.changes))
		at := map[string]planner.TaskID{}
		for i, t := range o.adm.Tasks {
			at[t.Name] = o.adm.Arrived.Tasks[i].ID
		}
		for i, ch := range o.changes {
			if i < maxChangesShown {
				again := ""
				if ch.Done {
					again = " again"
				}
				s.View.Note("  %s runs%s: %s", ch.Task, again, ch.Why)
			} else if i == maxChangesShown {
				s.View.Note("  ... %d more; gantry explain %s TASK has the reasons", len(o.changes)-i, s.Name)
			}
			if err := s.Log.NotReused(at[ch.Task], s.Engine.Runtime.Now(), ch.Why); err != nil {
				return err
			}
		}
	}
	return nil
}

// linkResults makes outputs of tasks that stay appear among the results: they may be results only now.
func (s *Session) linkResults(ctx context.Context, was, adm *executor.Admission) error {
	v, old := s.Engine.Planner.View(), map[string]planner.FileID{}
	for _, f := range was.Files {
		old[f.NodeName()] = f.ID
	}
	for i, t := range adm.Tasks {
		x := v.Reused(adm.Arrived.Tasks[i].ID)
		if x == nil || x.Node == planner.None || s.upkeep.area == nil {
			continue
		}
		for _, f := range t.Outputs {
			if err := s.upkeep.keeper.LinkResult(ctx, adm.Spec, f, x.Node, f.ID, old[f.NodeName()]); err != nil {
				return fmt.Errorf("result %s of workflow %s: %w", f.Name, adm.Spec.Name, err)
			}
		}
	}
	return nil
}

// dropInputs deletes the run's copies of files from outside that have changed, so that they are brought again. That
// comes before the log says so: without the copies the tasks that read them run again in any case.
func (s *Session) dropInputs(was, now *executor.Admission) error {
	if s.upkeep.area == nil {
		return nil
	}
	old := map[string]*executor.FileSpec{}
	for _, f := range was.Files {
		old[f.NodeName()] = f
	}
	for _, f := range now.Files {
		if f.Produced {
			continue
		}
		if o := old[f.NodeName()]; o != nil && !o.Produced && !s.upkeep.keeper.Changed(was.Spec, o, f) {
			continue
		}
		if _, err := s.upkeep.area.Remove(was.Spec, f, true); err != nil {
			return fmt.Errorf("input %s changed: delete its copy: %w", f.Name, err)
		}
	}
	return nil
}

// dropStale deletes outputs of tasks that are to run again in continued workflows and have not begun to: a former life
// of the run may have left them. It may be repeated.
func (s *Session) dropStale() error {
	if s.upkeep.area == nil {
		return nil
	}
	v := s.Engine.Planner.View()
	for _, w := range v.Present() {
		if of, _ := v.Continues(w); of == planner.None {
			continue
		}
		for t := range v.All(w) {
			if v.Last(t) != planner.None || v.Phase(t).Ended() {
				continue
			}
			spec := s.Engine.Spec(t)
			for _, f := range spec.Outputs {
				if _, err := s.upkeep.area.Remove(spec.Workflow, f, true); err != nil {
					return fmt.Errorf("task %s of workflow %s runs again: delete its output %s: %w", spec.Name,
						spec.Workflow.Name, f.Name, err)
				}
			}
		}
	}
	return nil
}
