// Package serve is a run that takes work: it connects the server of requests (package server) with the run of a
// session. It checks submissions, fetches their images and files, predicts their ends, and knows users, tenants and
// their limits.
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	release "gantry"

	"gantry/cmd/api"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/server"
	"gantry/cmd/internal/session"
	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/planner"
	"gantry/sqlite"
)

// Server takes work for a session. docs/serve.md describes it for users.
type Server struct {
	*server.Server // nil until the run is in the log
	with           Options
	run            *session.Session
	listener       *server.Listener
	inbox          *executor.Inbox
	group          int                // whose members may hand in work; server.OwnerOnly: none
	mu             sync.Mutex         // guards check
	check          *executor.Admitter // to try whether a workflow can be admitted
	hashing        sync.Mutex         // held while inputs are read whole to know their content
	tenants        map[string]string  // that users count for whose tenant is another one; *: any
	foretell       *foreteller
}

// Options are those of a server.
type Options struct {
	Group   string   // whose members may hand in work; "": only the user that starts the server
	Tenants []string // USER=TENANT
	// Differing says which options a run under way does not follow.
	Differing func(run string, kept *session.Settings) ([]string, error)
	// Why says in one line why a task waits.
	Why func(*sqlite.Life) string
}

// Run takes work, and continues the run of the directory if that has not ended.
func Run(ctx context.Context, set *session.Settings, o session.Options, with Options) (err error) {
	v := &Server{with: with, inbox: executor.NewInbox(), group: server.OwnerOnly}
	o.Server, o.Predict = v, false
	s := session.New(set, o)
	defer s.Close()
	if with.Group != "" {
		if err := v.share(s, with.Group, with.Tenants); err != nil {
			return err
		}
	} else if len(with.Tenants) > 0 {
		return exit.Usagef("--tenant: without --group all work is that of one user: leave it out")
	}
	if err := session.Enter(set.Runtime); err != nil {
		return err
	}
	if err := s.OpenLog(sqlite.Durable); err != nil {
		return err
	}
	// Clients that connect from here on are answered once the run is under way.
	if v.listener, err = server.Listen(s.Home, v.group); err != nil {
		if _, held := errors.AsType[*server.HeldError](err); held {
			return exit.With(exit.Held, err)
		}
		return exit.With(exit.Host, err)
	}
	defer v.listener.Release()
	for _, path := range []string{api.SocketName, api.LockName} {
		session.GiveToCaller(filepath.Join(s.Home, path))
	}
	// The latest run of a server is to be continued that did not end, or for which something was accepted that has not
	// arrived.
	run, err := sqlite.RowOf[string](ctx, s.DB, `SELECT name FROM runs r WHERE json_extract(settings, '$.serve')
		AND (state IN ('running', 'interrupted') OR EXISTS (SELECT 1 FROM submitted s WHERE s.run = r.id
		AND s.state = 'accepted')) ORDER BY id DESC LIMIT 1`)
	if err != nil {
		return exit.With(exit.Host, err)
	}
	if run != "" && s.Name != "" && s.Name != run {
		return exit.Usagef("--name %s: the directory has run %s, which has not ended: leave --name out, or use "+
			"another --dir", s.Name, run)
	}
	return s.Open(ctx, run)
}

// continues says in which settings a run differs from the given ones.
func (v *Server) continues(s *session.Session) error {
	all, err := v.with.Differing(s.Name, s.Set)
	if err != nil {
		return exit.Internalf("settings of run %s: %w", s.Name, err)
	}
	for _, text := range all {
		s.View.Warn("%s", text)
	}
	if was := s.Log.Info().Version; was != release.Build() {
		s.View.Warn("run %s was begun by gantry %s, and continues with %s", s.Name, was, release.Build())
	}
	return nil
}

// open makes the server of requests, once the run is in the log.
func (v *Server) open(s *session.Session) {
	v.run, v.check = s, s.Admitter()
	v.foretell = &foreteller{run: s, inbox: v.inbox, by: &session.Prediction{Planning: &s.Planning}}
	platform, _ := json.Marshal(s.Platform) // as the log has it
	image := s.Set.Image
	if s.Set.Emulate {
		image = ""
	}
	cfg := server.Config{DB: s.DB, Run: s.Log, Inbox: v.inbox, Platform: s.Platform,
		About: api.Server{Run: s.Name, PID: os.Getpid(), Version: release.Build(), Policy: s.Set.Policy,
			Runtime: s.Set.Runtime, Started: s.Started, TimeScale: s.Set.TimeScale, Image: image,
			Platform: platform},
		Now:     func() planner.Time { return planner.Time(time.Since(s.Started)) },
		Check:   v.admissible,
		Stop:    s.Drain,
		Expect:  v.foretell.expect,
		Why:     v.why,
		Fault:   func(message string) { s.View.Say("fault: %s", message) },
		Owner:   stage.Caller().UID,
		Shared:  v.group != server.OwnerOnly,
		Tenant:  v.tenant,
		Secrets: secretsOf(s),
		Allow: func(by server.Peer) bool {
			return slices.Contains([]int{0, os.Geteuid(), stage.Caller().UID}, by.UID) ||
				v.group != server.OwnerOnly && (by.GID == v.group || slices.Contains(by.Groups, v.group))
		},
	}
	v.Server = server.New(cfg)
}

// why says why a task waits; "" if it has started.
func (v *Server) why(ctx context.Context, t planner.TaskID, others *server.UnderWay) string {
	life, err := lastWait(ctx, v.run.DB, v.run.Name, t)
	if err != nil || life.State != "waiting" {
		return ""
	}
	for i := range life.Waits {
		// Others are the reason, by the resources that they hold or get first.
		if w := &life.Waits[i]; w.Reason == "no-node-free" || w.Reason == "outranked" {
			w.Held, w.Holds, w.Now = others.Names, others.Count, true
		}
	}
	return life.Task + ": " + v.with.Why(life)
}

// lastWait reads, of a task of a run, only the last wait, which takes a moment in any log.
func lastWait(ctx context.Context, db *sqlite.DB, run string, t planner.TaskID) (*sqlite.Life, error) {
	x, err := sqlite.RowOf[struct {
		Policy            string
		RunState          sqlite.State
		Task, State       string
		CPU, Memory, Disk int64
		Wait              sqlite.Waiting
	}](ctx, db, `SELECT r.policy, r.state, t.name, t.state, t.need_millicores, t.need_memory_bytes, t.need_disk_bps,
			coalesce(x.since_ns, -1), coalesce(x.reason, ''), coalesce(x.dim, ''), coalesce(n.name, ''), x.until_ns
		FROM runs r JOIN tasks t ON t.run = r.id AND t.task = ?2
		LEFT JOIN waits x ON x.run = r.id AND x.task = ?2 AND
			x.seq = (SELECT max(seq) FROM waits WHERE run = r.id AND task = ?2)
		LEFT JOIN nodes n ON n.run = r.id AND n.node = x.node WHERE r.name = ?1`, run, t)
	l := &sqlite.Life{Run: run, ID: int64(t), Policy: x.Policy, RunState: x.RunState, Task: x.Task, State: x.State,
		CPU: x.CPU, Memory: x.Memory, Disk: x.Disk}
	if x.Wait.Since >= 0 {
		l.Waits = []sqlite.Waiting{x.Wait}
	}
	return l, err
}

// admissible says why a submission cannot run here, and makes present its images and files. Others do not wait for
// that.
func (v *Server) admissible(ctx context.Context, sub *executor.Submission) error {
	wanted := map[string]bool{}
	err := v.runnable(sub, wanted)
	if err == nil && session.Capabilities(v.run.Set.Runtime).Programs {
		err = v.run.FetchSources(ctx, v.run.Dir, []executor.Submission{*sub})
	}
	if err == nil {
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			if err = v.run.FetchAlone(ctx, name); err != nil {
				break
			}
		}
		if err != nil && sub.By != nil { // the reason would tell about hosts that root alone reaches
			err = fmt.Errorf("workflow %s: an image of it is not on this host, and cannot be had: name another one, "+
				"or ask root to pull it", sub.Name)
		}
	}
	if err == nil && v.run.Engine.Reuse != nil {
		v.hashing.Lock()
		defer v.hashing.Unlock()
		err = v.run.HashInputs(ctx, []executor.Submission{*sub})
	}
	if err != nil {
		return &api.Error{Code: api.Invalid, Message: err.Error()}
	}
	return nil
}

// runnable returns an error if a submission cannot run here, and notes the images that it wants.
func (v *Server) runnable(sub *executor.Submission, wanted map[string]bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	// Files at addresses are not there yet, which is no reason to refuse it.
	fetched, w := *sub, *sub.Workflow
	w.Files = slices.Clone(w.Files)
	for i, x := range sub.Sources {
		w.Files[i].Optional = w.Files[i].Optional || session.Remote(x)
	}
	fetched.Workflow = &w
	if err := v.check.Check(&fetched); err != nil {
		return err
	}
	if _, err := v.check.Admit(&fetched, 0); err != nil {
		return err
	}
	_, noImage := v.check.Emulated(sub)
	if err := session.Runnable(v.run.Set, sub, noImage); err != nil {
		return err
	}
	if sub.By != nil {
		if err := ownImages(sub); err != nil {
			return err
		}
	}
	for _, c := range sub.Workflow.Containers {
		for _, m := range c.Mounts {
			if err := session.Mountable(filepath.Dir(v.run.Dir), sub, m); err != nil {
				return fmt.Errorf("workflow %s: mount %s: %w", sub.Name, m, err)
			}
		}
	}
	v.check.Images(sub, func(image string) { wanted[image] = true })
	return nil
}

// Restore takes in accepted submissions that have not ended, once the log was read back.
func (v *Server) Restore(ctx context.Context, s *session.Session) (err error) {
	if err := v.continues(s); err != nil {
		return err
	}
	v.open(s)
	if s.Engine.Arrivals, err = v.Server.Restore(ctx, s.Engine.Planner.View()); err != nil {
		return exit.With(exit.Host, err)
	}
	if err := v.Enter(ctx, s.Engine); err != nil {
		return exit.With(exit.Host, err)
	}
	for i := range s.Engine.Arrivals {
		v.check.Images(&s.Engine.Arrivals[i], s.Want)
	}
	return nil
}

// Begin lets work be handed in. The returned function ends that.
func (v *Server) Begin(s *session.Session) (end func()) {
	if v.Server == nil {
		v.open(s)
	}
	s.Engine.Inbox, s.Engine.OnSettled = v.inbox, v.Settled
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := v.Serve(v.listener); err != nil {
			s.View.Warn("no more work can be handed in: %v", err)
		}
	}()
	return func() {
		_ = v.listener.Unlink() // nobody else connects
		if err := v.Close(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			s.View.Warn("end the server: %v", err)
		}
		<-done
	}
}

// Watch sees every batch that the log has.
func (v *Server) Watch(view planner.View, events []planner.Event, admitted []*executor.Admission) {
	if v.Server != nil {
		v.Server.Watch(view, events, admitted)
	}
}
