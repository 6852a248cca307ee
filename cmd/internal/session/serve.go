package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	release "gantry"

	"gantry/cmd/api"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/server"
	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/trace"
)

// serving takes work for a session. docs/serve.md describes it for users.
type serving struct {
	*server.Server
	listener *server.Listener
	inbox    *executor.Inbox
	group    int                // whose members may hand in work; server.OwnerOnly: none
	mu       sync.Mutex         // guards check
	check    *executor.Admitter // to try whether a workflow can be admitted
	hashing  sync.Mutex         // held while inputs are read whole to know their content
	tenants  map[string]string  // that users count for whose tenant is another one; *: any
	foretell *foreteller
	limits   server.Limits                  // nil: none
	nodes    map[planner.NodeID]unit.Vector // their capacities by another cluster file
	control  chan<- executor.Control
}

// Serving are those of a server that a run has not.
type Serving struct {
	Group   string   // whose members may hand in work; "": only the user that starts the server
	Tenants []string // USER=TENANT
	Limits  server.Limits
	// Differing says which options a run under way does not follow.
	Differing func(run string, kept *Settings) ([]string, error)
}

// Serve takes work, and continues the run of the directory if that has not ended.
func (s *Session) Serve(ctx context.Context, o Serving) (err error) {
	s.predicts, s.images = false, &images{}
	s.serving = &serving{inbox: executor.NewInbox(), group: server.OwnerOnly, limits: o.Limits}
	if o.Group != "" {
		if err := s.share(o.Group, o.Tenants); err != nil {
			return err
		}
	} else if len(o.Tenants) > 0 {
		return exit.Usagef("--tenant: without --group all work is that of one user: leave it out")
	}
	if err := Enter(s.set.Runtime); err != nil {
		return err
	}
	if err := s.open(sqlite.Durable); err != nil {
		return err
	}
	// Clients that connect from here on are answered once the run is under way.
	if s.serving.listener, err = server.Listen(s.home, s.serving.group); err != nil {
		if _, held := errors.AsType[*server.HeldError](err); held {
			return exit.With(exit.Held, err)
		}
		return exit.With(exit.Host, err)
	}
	defer s.serving.listener.Release()
	for _, path := range []string{api.SocketName, api.LockName} {
		GiveToCaller(filepath.Join(s.home, path))
	}
	run, err := s.db.ToServe(ctx)
	if err != nil {
		return exit.With(exit.Host, err)
	}
	if run != "" {
		return s.serveOn(ctx, run, o)
	}
	if s.platform, err = executor.PlatformOf(s.set.Cluster); err != nil {
		return exit.With(exit.Input, err)
	}
	p := prepared{emulated: true}
	if p.planner, p.admitter, err = s.planner(ctx); err != nil {
		return err
	}
	return s.start(ctx, sqlite.Durable, p)
}

// serveOn continues the run of a server.
func (s *Session) serveOn(ctx context.Context, run string, o Serving) error {
	if s.name != "" && s.name != run {
		return exit.Usagef("--name %s: the directory has run %s, which has not ended: leave --name out, or use "+
			"another --dir", s.name, run)
	}
	given := s.set
	s.resumes = true
	if _, err := s.existing(ctx, run, ""); err != nil {
		return err
	}
	all, err := o.Differing(s.name, s.set)
	if err != nil {
		return exit.Internalf("settings of run %s: %w", s.name, err)
	}
	for _, text := range all {
		s.view.Warn("%s", text)
	}
	if was := s.log.Info().Version; was != release.Build() {
		s.view.Warn("run %s was begun by gantry %s, and continues with %s", s.name, was, release.Build())
	}
	if s.opts.Cluster {
		if err := s.follow(given); err != nil {
			return err
		}
	}
	if err := s.openPage(); err != nil {
		return err
	}
	return s.resume(ctx, nil)
}

// server makes the server of the session, once its run is in the log.
func (v *serving) server(s *Session) {
	v.check = s.admitter()
	with := *s
	v.foretell = &foreteller{s: &with}
	platform, _ := json.Marshal(s.platform) // as the log has it
	cfg := server.Config{DB: s.db, Run: s.log, Inbox: v.inbox, Platform: s.platform,
		About: api.Server{
			Run:     s.name,
			PID:     os.Getpid(),
			Version: release.Build(),
			Policy:  s.set.Policy,
			Runtime: s.set.Runtime,
			Started: s.started, TimeScale: s.set.TimeScale, Platform: platform,
		},
		Now: func() planner.Time { return planner.Time(time.Since(s.started)) },
		Check: func(ctx context.Context, sub *executor.Submission, _ server.Peer) error {
			return v.admissible(ctx, s, sub)
		},
		Stop: func() {
			select {
			case v.control <- executor.Drain:
			default: // it was asked for more than once
			}
		},
		Results: func(run, workflow, file string) executor.Source {
			return resultOf(s.home, run, workflow, file)
		},
		SetPolicy: func(ctx context.Context, policy string) error { return v.setPolicy(ctx, s, policy) },
		Expect:    v.foretell.expect,
		Why: func(ctx context.Context, t planner.TaskID, others *server.UnderWay) string {
			life, err := s.db.LastWait(ctx, s.name, t)
			if err != nil || life.State != "waiting" { // it has started since
				return ""
			}
			if n := len(life.Waits); n > 0 && sqlite.WaitsForOthers(life.Waits[n-1].Reason) {
				w := &life.Waits[n-1]
				w.Held, w.Holds, w.Now = others.Names, others.Count, true
			}
			return life.Task + ": " + s.opts.Why(life)
		},
		Fault:     func(message string) { s.view.Say("fault: %s", message) },
		Deadlines: plansDeadlines,
		Owner:     stage.Caller().UID,
		Shared:    v.group != server.OwnerOnly,
		Tenant:    v.tenant,
		Secrets:   v.secrets(s),
		Allow: func(by server.Peer) bool {
			return slices.Contains([]int{0, os.Geteuid(), stage.Caller().UID}, by.UID) ||
				v.group != server.OwnerOnly && (by.GID == v.group || slices.Contains(by.Groups, v.group))
		},
	}
	if v.limits != nil {
		disk := &diskUse{db: s.db, run: s.name, dir: s.dir}
		cfg.Limits, cfg.DiskUse = v.limits, disk.of
	}
	v.Server = server.New(cfg)
}

// plansDeadlines reports whether a policy plans for deadlines.
func plansDeadlines(name string) bool {
	pol, err := policy.Parse(name)
	_, ok := pol.(planner.Refuser)
	return err == nil && ok
}

// setPolicy lets another policy plan, as if it had seen all that is in the log.
func (v *serving) setPolicy(ctx context.Context, s *Session, name string) error {
	with := *s
	set := *s.set
	set.Policy = name
	with.set = &set
	pol, err := with.policy()
	if err != nil {
		return &api.Error{Code: api.Invalid, Message: err.Error()}
	}
	switched := false
	if err := v.inbox.Ask(ctx, func(in *executor.Intake) (err error) {
		switched, err = in.SwitchPolicy(name, pol)
		return err
	}); err != nil {
		return err
	}
	if !switched {
		if err := v.learnedPolicy(ctx, &with); err != nil {
			return err
		}
	}
	v.foretell.plansBy(name)
	s.view.Note("policy %s plans from now on", name)
	return nil
}

// learnedPolicy lets a policy plan that learns from events: it reads the log.
func (v *serving) learnedPolicy(ctx context.Context, with *Session) error {
	pl, adm, err := with.planner(ctx)
	if err != nil {
		return &api.Error{Code: api.Invalid, Message: err.Error()}
	}
	with.learn(with.learned)
	fresh := &executor.Engine{Planner: pl, Admit: adm}
	read := func(ctx context.Context) error {
		return with.log.ReplayAfter(ctx, pl.Seq(), func(e planner.Event, a *executor.Admission) error {
			b := executor.Batch{Events: []planner.Event{e}}
			if a != nil {
				b.Admissions = []*executor.Admission{a}
			}
			return fresh.Replay(b)
		})
	}
	// A long log is read while the run continues, and events since then in a turn of the engine.
	if err := read(ctx); err != nil {
		return err
	}
	return v.inbox.Ask(ctx, func(in *executor.Intake) error {
		if err := read(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		return in.ChangePolicy(with.set.Policy, pl, adm)
	})
}

// admissible says why a submission cannot run here, and makes present the images and files that it needs. Others do not
// wait for that.
func (v *serving) admissible(ctx context.Context, s *Session, sub *executor.Submission) error {
	refused := func(err error) error { return &api.Error{Code: api.Invalid, Message: err.Error()} }
	wanted := map[string]bool{}
	if err := v.runnable(s, sub, wanted); err != nil {
		return refused(err)
	}
	if Capabilities(s.set.Runtime).Programs {
		if err := s.fetchSources(ctx, []executor.Submission{*sub}); err != nil {
			return refused(err)
		}
	}
	if err := v.fetch(ctx, s, wanted); err != nil {
		return refused(err)
	}
	if s.engine.Reuse == nil {
		return nil
	}
	v.hashing.Lock()
	defer v.hashing.Unlock()
	if err := s.keeper.HashInputs(ctx, sourcesOf(sub)); err != nil {
		return refused(err)
	}
	return nil
}

// fetch makes images present. A submission waits for the images that it needs, also for those that another one fetches,
// and for no others.
func (v *serving) fetch(ctx context.Context, s *Session, wanted map[string]bool) error {
	for len(wanted) > 0 {
		mine, others := s.images.claim(wanted)
		if len(mine) > 0 {
			err := s.fetchImages(ctx, mine)
			if err == nil {
				err = s.keepImages(ctx)
			}
			s.images.release(mine)
			if err != nil {
				return err
			}
		}
		maps.DeleteFunc(wanted, func(name string, _ bool) bool { return mine[name] || s.images.id(name) != "" })
		if others == nil {
			break
		}
		select {
		case <-others: // if it failed there, it is tried here
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// runnable returns an error if a submission cannot run here, and notes the images that it wants.
func (v *serving) runnable(s *Session, sub *executor.Submission, wanted map[string]bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	fetched := *sub // files at addresses are not there yet, which is no reason to refuse it
	w := *sub.Workflow
	w.Files = slices.Clone(w.Files)
	for i, x := range sub.Sources {
		w.Files[i].Optional = w.Files[i].Optional || remote(x)
	}
	fetched.Workflow = &w
	if err := v.check.Check(&fetched); err != nil {
		return err
	}
	adm, err := v.check.Admit(&fetched, 0)
	if err == nil {
		err = runnable(v.limits, adm)
	}
	if err != nil {
		return err
	}
	_, noImage := v.check.Emulated(sub)
	// A submission is new, also to a run that continues.
	if err := (&Session{set: s.set}).runnable(sub, noImage); err != nil {
		return err
	}
	if sub.By != nil {
		if err := v.ownImages(sub); err != nil {
			return err
		}
	}
	for _, c := range sub.Workflow.Containers {
		for _, m := range c.Mounts {
			if err := v.mountable(s, sub, m); err != nil {
				return fmt.Errorf("workflow %s: mount %s: %w", sub.Name, m, err)
			}
		}
	}
	v.check.Images(sub, func(image string) { wanted[image] = true })
	return nil
}

// mountable says why containers of a submission cannot have a mount.
func (v *serving) mountable(s *Session, sub *executor.Submission, text string) error {
	m := executor.ParseMount(text)
	top := filepath.Dir(s.dir)
	inside := m.From == top || strings.HasPrefix(m.From, top+"/")
	switch {
	case !m.InPlace && sub.By == nil:
		_, err := MountOf(text)
		return err
	case m.InPlace && m.From != m.To:
		return errors.New("a directory of a job is at its own path")
	case inside:
		return fmt.Errorf("it is in %s, gantry's own directory", top)
	case m.InPlace:
		_, err := rightsOf(sub, stage.ProgramUser()).Directory(m.From, m.Writable)
		return err
	}
	for _, path := range []string{m.From, m.To} {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsAny(path, ":,\n\x00") {
			return fmt.Errorf("%q is not an absolute path in its shortest form, without colon, comma or line end", path)
		}
	}
	if err := mountTarget(m.To); err != nil {
		return err
	}
	_, err := rightsOf(sub, stage.ProgramUser()).Visible(m.From)
	return err
}

// sourcesOf are the paths of the files from outside.
func sourcesOf(sub *executor.Submission) (paths []string) {
	for _, x := range sub.Sources {
		if x.Path != "" {
			paths = append(paths, filepath.Clean(x.Path))
		}
	}
	return paths
}

// resultOf finds a file among the results of a workflow.
func resultOf(home, run, workflow, file string) executor.Source {
	dir := filepath.Join(home, run, "results", executor.EscapeName(workflow))
	root, err := os.OpenRoot(dir) // which no link leads out of
	if err != nil || !trace.SafeName(file) {
		return executor.Source{}
	}
	defer root.Close()
	st, err := root.Lstat(filepath.FromSlash(file))
	if err != nil || !st.Mode().IsRegular() && !st.IsDir() {
		return executor.Source{}
	}
	return executor.Source{Path: filepath.Join(dir, filepath.FromSlash(file)), Size: st.Size(),
		Modified: st.ModTime().UnixNano()}
}

// restore takes in accepted submissions that are not over, once the log was read back.
func (v *serving) restore(ctx context.Context, s *Session) (emulated bool, err error) {
	if v == nil {
		return false, nil
	}
	s.started = s.log.Info().Started
	v.server(s)
	if s.engine.Arrivals, err = v.Restore(ctx, s.engine.Planner.View(), s.engine.Admit.TenantName); err != nil {
		return true, exit.With(exit.Host, err)
	}
	if err := v.Enter(ctx, s.engine); err != nil {
		return true, exit.With(exit.Host, err)
	}
	for i := range s.engine.Arrivals {
		v.check.Images(&s.engine.Arrivals[i], s.want)
	}
	return true, nil
}

// begin lets work be handed in. The returned function ends that.
func (v *serving) begin(s *Session) (end func()) {
	if v == nil {
		return func() {}
	}
	if v.Server == nil {
		v.server(s)
	}
	s.engine.Inbox, s.engine.OnSettled = v.inbox, v.Settled
	v.changeNodes()
	s.engine.Results = func(workflow, file string) executor.Source { return resultOf(s.home, s.name, workflow, file) }
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := v.Serve(v.listener); err != nil {
			s.view.Warn("no more work can be handed in: %v", err)
		}
	}()
	return func() {
		_ = v.listener.Unlink() // nobody else connects
		if err := v.Close(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			s.view.Warn("end the server: %v", err)
		}
		<-done
	}
}

// watch sees every batch that the log has.
func (v *serving) watch(view planner.View, events []planner.Event, admitted []*executor.Admission) {
	if v != nil && v.Server != nil {
		v.Watch(view, events, admitted)
	}
}
