package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gantry/cmd/api"
	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
)

// Watch takes in every batch of the engine, as executor.Engine.Watch.
func (s *Server) Watch(v planner.View, events []planner.Event, admitted []*executor.Admission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, adm := range admitted {
		e := s.entries[adm.Submission.ID]
		if e == nil {
			continue
		}
		e.arrived, e.State, e.Workflow = true, sqlite.Arrived, adm.Spec.ID
		if e.single {
			e.Task = adm.Arrived.Tasks[0].ID
		}
		s.places[e.place()] = e
	}
	skips := false // tasks of which no event tells
	for i := range events {
		task := planner.TaskID(planner.None)
		switch b := events[i].Body.(type) {
		case *planner.PlanCommitted:
			s.promises(b.Notes)
		case *planner.AttemptExited:
			task = v.Attempt(b.Attempt).Task
			skips = skips || v.Phase(task) != planner.Done && v.Phase(task).Ended()
		case *planner.TaskReused:
			task = b.Task
		case planner.WorkflowCancelled:
			s.cancelled(place{b.Workflow, planner.None})
			skips = true
		case planner.TaskCancelled:
			s.cancelled(place{v.Task(b.Task).Workflow, b.Task})
			skips = true
		}
		if task != planner.None {
			w := v.Task(task).Workflow
			s.settle(v, s.places[place{w, planner.None}])
			s.settle(v, s.places[place{w, task}])
		}
	}
	if skips {
		for _, e := range s.places {
			s.settle(v, e)
		}
	}
}

// cancelled notes that the running tasks of a submission are being ended.
func (s *Server) cancelled(at place) {
	if e := s.places[at]; e != nil {
		e.State = sqlite.Cancelled
	}
}

// settle takes a submission out that has arrived and is over.
func (s *Server) settle(v planner.View, e *entry) {
	if e != nil && e.over(v) {
		delete(s.places, e.place())
		s.overLocked(e)
		s.wakeLocked(e.ID)
	}
}

// Settled takes in submissions that will not arrive, or not end well, as executor.Engine.OnSettled.
func (s *Server) Settled(all []executor.Settled) {
	for _, x := range all {
		s.wake(x.ID)
	}
}

// promises notes the ends that the policy predicts for workflows.
func (s *Server) promises(notes []planner.Note) {
	for i := range notes {
		e := s.places[place{notes[i].Workflow, planner.None}]
		if e != nil && notes[i].Topic == planner.TopicPredicted {
			e.planned, e.promised, e.text = true, notes[i].At, notes[i].Text
		}
	}
}

// wakeLocked wakes the requests that wait for a submission, which may be over.
func (s *Server) wakeLocked(id int64) {
	if c := s.waiters[id]; c != nil {
		close(c)
		delete(s.waiters, id)
	}
}

// wake takes out a submission that has not arrived and will not, and wakes the requests that wait for it.
func (s *Server) wake(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[id]; e != nil && !e.arrived {
		s.overLocked(e)
	}
	s.wakeLocked(id)
}

// await returns a channel that is closed when a submission may be over.
func (s *Server) await(id int64) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiters[id] == nil {
		s.waiters[id] = make(chan struct{})
	}
	return s.waiters[id]
}

// lookEvery is how often a waiting request looks by itself, in case a submission ended without an event.
const lookEvery = 3 * time.Second

func (s *Server) status(ctx context.Context, id int64, r *http.Request, by Peer) (any, error) {
	until := time.Now()
	if text := r.URL.Query().Get("wait"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || d > time.Hour {
			return nil, invalidf("wait=%s: give a duration of at most an hour", text)
		}
		until = until.Add(d)
	}
	for {
		over := s.await(id)
		st, err := s.statusFor(ctx, id, by)
		left := time.Until(until)
		if err != nil || st.Over { // nothing else wakes the others that wait
			s.mu.Lock()
			s.wakeLocked(id)
			s.mu.Unlock()
			return st, err
		} else if left <= 0 {
			return st, nil
		}
		select {
		case <-over:
		case <-ctx.Done():
		case <-time.After(min(left, lookEvery)):
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// statusFor is statusOf for a peer: it is an error if the peer may not see the submission.
func (s *Server) statusFor(ctx context.Context, id int64, by Peer) (*api.Status, error) {
	st, err := s.statusOf(ctx, id)
	if err == nil && !s.maySee(by, st.UID) {
		return nil, &api.Error{Code: api.Denied, Message: fmt.Sprintf("submission %d is of another user", id)}
	}
	return st, err
}

// veiled is the part of a status that users see of submissions of others.
func veiled(st api.Status) api.Status {
	return api.Status{ID: st.ID, Run: st.Run, Name: st.Name, Kind: st.Kind, User: st.User, UID: st.UID, State: st.State,
		Over: st.Over, Veiled: true}
}

// statusOf is how a submission stands by the log.
func (s *Server) statusOf(ctx context.Context, id int64) (*api.Status, error) {
	o, err := s.DB.Outcome(ctx, id)
	if err != nil {
		return nil, err
	}
	return StatusOf(o, s.About.Started), nil
}

// StatusOf is how a submission stands by the log, in a run that began then.
func StatusOf(o *sqlite.Outcome, began time.Time) *api.Status {
	wall := func(t *planner.Time) *time.Time {
		if t == nil {
			return nil
		}
		return new(began.Add(time.Duration(*t)))
	}
	st := &api.Status{ID: o.ID, Run: o.Run, Name: o.Name, Kind: o.Kind, User: o.User, UID: o.UID, Tenant: o.Tenant,
		State: o.State, Message: o.Message, Over: o.Over(), Exit: o.Exit, Tasks: o.Tasks, Done: o.Done,
		Failed: o.Failed, Submitted: o.Wall, Started: wall(o.Started), Ended: wall(o.Ended), Outcome: o.Attempt.Outcome,
		Node: o.Attempt.Node, Peak: o.Attempt.Peak, CPU: o.Attempt.CPU, Signal: o.Attempt.Signal}
	if o.Flow != "" {
		st.Results = filepath.Join(o.Run, "results", executor.EscapeName(o.Flow))
	}
	more := readOptions(o.Options)
	st.Labels, st.Workflow, st.CancelledBy = more.Labels, more.Workflow, more.By
	switch {
	case o.State == sqlite.Arrived:
		st.State = "waiting"
	case st.Message != "":
	case o.State == sqlite.Cancelled: // nobody else withdraws a whole workflow from a server
		st.Message = executor.OnRequest
	case o.State == sqlite.Refused: // by the policy
		st.Message = "no plan of the policy meets its deadline"
	}
	if o.Arrival > o.At {
		st.Release = wall(&o.Arrival)
	}
	return st
}

// How old a prediction may be that is listed, and how long a list waits for another one.
const (
	stale         = 5 * time.Second
	queuePatience = 500 * time.Millisecond
)

// mostExplained bounds of how many that wait an answer says why, and explaining how long that may take: of the others
// the list says the reason in a word.
const (
	mostExplained = 100
	explaining    = 300 * time.Millisecond
)

// mostListed bounds how many submissions an answer has of those that are over, and of those that are not; mostChosen,
// how many of those that were asked for by number or by user.
const (
	mostListed = 1000
	mostChosen = 10_000
)

func (s *Server) queue(ctx context.Context, r *http.Request, by Peer) (any, error) {
	of, err := api.ReadQueueOf(r.URL.Query())
	if err != nil {
		return nil, invalidf("%v", err)
	}
	about, err := s.about(ctx, r, by)
	if err != nil {
		return nil, err
	}
	server, _ := about.(*api.Server)
	q := &api.Queue{Server: *server, Submissions: []api.Status{}}
	most, mostOver := mostListed, mostListed
	if of.IDs != nil || of.Users != nil {
		most = mostChosen
	}
	if of.IDs != nil {
		mostOver = mostChosen
	}
	rows, err := s.asked(ctx, of, mostOver)
	if err != nil {
		return nil, err
	}
	present, here := s.present(of, rows)
	if more := len(present) - most; more > 0 {
		present, q.More = present[:most], more
	}
	live, err := s.live(ctx, present, !of.Brief)
	if err != nil {
		return nil, err
	}
	if !of.Brief {
		// An old prediction is replaced only if a new one is made soon.
		soon, cancel := context.WithTimeout(ctx, queuePatience)
		all, note, err := s.expect(soon, time.Now().Add(-stale))
		cancel()
		if err != nil {
			return nil, err
		}
		for i := range live {
			s.foretold(&live[i], &present[i], &all, note)
		}
	}
	q.Submissions = append(q.Submissions, live...)
	if of.All {
		for i := range rows {
			if here[rows[i].ID] {
				continue
			}
			if i == mostOver {
				q.Older = true
				break
			}
			o, err := s.DB.OutcomeOf(ctx, &rows[i])
			if err != nil {
				return nil, err
			}
			q.Submissions = append(q.Submissions, *StatusOf(o, s.About.Started))
		}
	}
	for i := range q.Submissions {
		if !s.maySee(by, q.Submissions[i].UID) {
			q.Submissions[i] = veiled(q.Submissions[i])
		}
	}
	slices.SortFunc(q.Submissions, func(a, b api.Status) int { return cmp.Compare(a.ID, b.ID) })
	return q, nil
}

// asked reads the rows of the submissions that are asked for by number, or of the latest ones if the question includes
// ended ones: at most one more than the limit.
func (s *Server) asked(ctx context.Context, of api.QueueOf, most int) (rows []sqlite.Submitted, err error) {
	if of.IDs == nil && of.All {
		return s.DB.SubmittedTo(ctx, of.Users, most+1)
	}
	keys := map[string]bool{}
	for _, id := range of.IDs {
		row, err := s.DB.Submitted(ctx, id)
		if errors.As(err, new(*sqlite.Unknown)) || err == nil && keys[row.Key] {
			continue
		} else if err != nil {
			return nil, err
		}
		keys[row.Key] = true
		with, err := s.DB.SubmittedWith(ctx, row.Key)
		if err != nil {
			return nil, err
		}
		rows = append(rows, with...)
	}
	return slices.DeleteFunc(rows, func(row sqlite.Submitted) bool {
		return of.Users != nil && !slices.Contains(of.Users, row.UID)
	}), nil
}

// present are the submissions that are not over and asked for, in order; rows are those of a question for some.
func (s *Server) present(of api.QueueOf, rows []sqlite.Submitted) (present []entry, here map[int64]bool) {
	here = map[int64]bool{}
	s.mu.Lock()
	defer s.mu.Unlock()
	take := func(e *entry) {
		if e != nil && !here[e.ID] && (of.Users == nil || slices.Contains(of.Users, e.UID)) {
			present, here[e.ID] = append(present, *e), true
		}
	}
	if of.IDs != nil {
		for i := range rows {
			take(s.entries[rows[i].ID])
		}
	} else {
		for _, e := range s.entries {
			take(e)
		}
	}
	slices.SortFunc(present, func(a, b entry) int { return cmp.Compare(a.ID, b.ID) })
	return present, here
}

// patience bounds how long a client waits for a prediction.
const patience = 5 * time.Second

// expected is how a submission stands, with a prediction that knows it if that can be had in time.
func (s *Server) expected(ctx context.Context, id int64, _ *http.Request, by Peer) (any, error) {
	// The turn that has it arrive, and is planned, comes first.
	if err := s.Inbox.Ask(ctx, func(*executor.Intake) error { return nil }); err != nil {
		return nil, err
	}
	st, err := s.statusFor(ctx, id, by)
	if err != nil || st.Over {
		return st, err
	}
	s.mu.Lock()
	var e *entry
	if at := s.entries[id]; at != nil {
		e = new(*at)
	}
	s.mu.Unlock()
	if e == nil {
		return st, nil
	}
	st.Due, st.Release = s.wall(e.due, 0), s.wall(max(e.release, e.Arrival), e.At)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	since := time.Now().Add(-stale) // one prediction does for all of a request
	if e.Wall.After(since) {
		since = e.Wall
	}
	all, note, err := s.expect(ctx, since)
	if _, known := all.of(e); err == nil && !known {
		all, note, err = s.expect(ctx, time.Now()) // it was made before this one arrived
	}
	if err != nil {
		return nil, err
	}
	s.foretold(st, e, &all, note)
	return st, nil
}

func (s *Server) expect(ctx context.Context, since time.Time) (Expectations, string, error) {
	if s.Expect == nil {
		return Expectations{}, "nothing is predicted", nil
	}
	return s.Expect(ctx, since)
}

// foretold adds the prediction for a submission that is not over.
func (s *Server) foretold(st *api.Status, e *entry, all *Expectations, note string) {
	x := &api.Expected{Note: note}
	f, ok := all.of(e)
	if ok && f == (Expectation{}) {
		x.Note = "nothing is predicted: it cannot start on the nodes as they are"
	} else if ok {
		at := func(t planner.Time) time.Time { return s.About.Started.Add(time.Duration(t)) }
		if f.End == unit.Never {
			x.Note = all.Unknown
		} else {
			x.End, x.Low, x.High = at(f.End), at(f.Low), at(f.High)
		}
		if st.Started == nil && f.Start != unit.Never {
			x.Start, x.StartLow, x.StartHigh = new(at(f.Start)), new(at(f.StartLow)), new(at(f.StartHigh))
		}
	}
	if e.planned && e.due > 0 && f.End != unit.Never {
		if x.Late = new(e.promised > e.due); x.End.IsZero() {
			x.Note = e.text
		}
	}
	if !x.End.IsZero() || x.Late != nil || x.Note != "" {
		st.Expected = x
	}
}

// live is how submissions stand that are not over, by the engine. Why one waits is explained, or said in a word.
func (s *Server) live(ctx context.Context, of []entry, explain bool) ([]api.Status, error) {
	out := make([]api.Status, len(of))
	for i := range of {
		e := &of[i]
		more := readOptions(e.Options)
		out[i] = api.Status{ID: e.ID, Run: e.Run, Name: e.Name, Kind: e.Kind, User: e.User, UID: e.UID,
			Tenant: e.Tenant, Class: e.class.String(), State: sqlite.Accepted, Tasks: e.tasks, Submitted: e.Wall,
			Workflow: more.Workflow, Labels: more.Labels, Reason: more.waitsFor(),
			Release: s.wall(max(e.release, e.Arrival), e.At), Due: s.wall(e.due, 0)}
	}
	ready := map[*api.Status]planner.TaskID{} // of those of which nothing runs, a task that could
	brief := map[*api.Status]string{}
	var others UnderWay
	err := s.Inbox.Ask(ctx, func(in *executor.Intake) error {
		v := in.View()
		running := map[planner.WorkflowID][]planner.AttemptID{}
		for a := range v.UnderWay() {
			// Whose task it is that is named, not everybody may see.
			if spec := in.Spec(v.Attempt(a).Task); spec != nil && len(others.Names) < mostNamed && !s.Shared {
				others.Names = append(others.Names, spec.Name)
			}
			others.Count++
			w := v.Task(v.Attempt(a).Task).Workflow
			running[w] = append(running[w], a)
		}
		throttled := in.Throttled()
		for i := range out {
			st, e, next := &out[i], &of[i], planner.TaskID(planner.None)
			switch {
			case throttled[st.ID]:
				st.Reason = api.Throttled
			case !e.arrived:
			case e.single:
				next = s.liveTask(v, e, st)
			default:
				next = s.liveWorkflow(v, e, st, running[e.Workflow])
			}
			if next != planner.None && len(ready) < mostExplained {
				if ready[st] = next; in.Told(next) != 0 {
					brief[st] = in.Told(next).String()
				}
			}
		}
		return nil
	})
	now := time.Now()
	for i := range out {
		st := &out[i]
		switch t, waits := ready[st]; {
		case st.State == sqlite.Cancelled:
			st.Reason = "its attempts are being ended"
		case st.Release != nil && st.Release.After(now):
			st.Reason = "it is released at " + st.Release.Local().Format(time.DateTime)
		case waits && explain && s.Why != nil && time.Since(now) < explaining:
			st.Reason = s.Why(ctx, t, &others)
		case waits:
			st.Reason = brief[st]
		}
	}
	return out, err
}

// liveWorkflow is how a workflow stands. If nothing of it runs, it returns a task that could start.
func (s *Server) liveWorkflow(v planner.View, e *entry, st *api.Status, running []planner.AttemptID) planner.TaskID {
	st.Running = len(running)
	if len(running) > 0 && st.Tasks == 1 {
		st.Node = s.Platform.Nodes[v.Attempt(running[0]).Node].Name
	}
	left, failed := v.Progress(e.Workflow)
	st.Done, st.Failed, st.Over = st.Tasks-left-failed, failed, left == 0
	if first, _ := v.Times(e.Workflow); first != unit.Never {
		st.Started = s.wall(first, -1)
	}
	switch {
	case e.State == sqlite.Cancelled:
		st.State = sqlite.Cancelled
	case st.Started != nil || st.Running > 0:
		st.State = "running"
	default:
		st.State = "waiting"
	}
	if st.Running == 0 {
		for t := range v.All(e.Workflow) {
			if v.Phase(t) == planner.Ready {
				return t
			}
		}
	}
	return planner.None
}

// liveTask is how a single task stands. It returns the task if that could start.
func (s *Server) liveTask(v planner.View, e *entry, st *api.Status) planner.TaskID {
	t := e.Task
	phase := v.Phase(t)
	if st.State, st.Over = phase.String(), phase.Ended(); e.State == sqlite.Cancelled {
		st.State = sqlite.Cancelled
	}
	if a := v.Current(t); a != planner.None {
		st.Running = 1
		st.Started = s.wall(v.Attempt(a).Ordered, -1)
		if n := v.Attempt(a).Node; n != planner.None {
			st.Node = s.Platform.Nodes[n].Name
		}
	}
	switch {
	case phase != planner.Waiting:
		st.Reason = ""
	case st.Reason == "": // it reads a file that another task writes
		st.Reason = planner.WaitsForParents.String()
	}
	switch phase {
	case planner.Ready:
		return t
	case planner.Done:
		st.Done = 1
	case planner.Failed, planner.Skipped:
		st.Failed = 1
	}
	return planner.None
}

// wall is an instant of the run by the wall clock; nil if it is not after than.
func (s *Server) wall(t, than planner.Time) *time.Time {
	if t <= than {
		return nil
	}
	return new(s.About.Started.Add(time.Duration(t)))
}

func (s *Server) cancel(ctx context.Context, id int64, _ *http.Request, by Peer) (any, error) {
	row, err := s.DB.Submitted(ctx, id)
	if err != nil {
		return nil, err
	}
	if by.UID != row.UID && by.UID != 0 {
		return nil, &api.Error{Code: api.Denied, Message: "the submission is of another user: only root may cancel it"}
	}
	coming := false
	if err := s.Inbox.Ask(ctx, func(in *executor.Intake) error {
		if coming = in.CancelComing(id, by.UID); coming {
			return nil
		}
		s.mu.Lock()
		e := s.entries[id]
		s.mu.Unlock()
		if e == nil || !e.arrived {
			return nil // it is over
		}
		if e.single {
			return in.CancelTask(id, by.UID)
		}
		return in.CancelWorkflow(e.Workflow)
	}); err != nil {
		return nil, err
	}
	if coming {
		s.wake(id)
	}
	return s.statusOf(ctx, id)
}

// log sends the log of one submission, as a file of SQLite, for users that may not read the whole log.
func (s *Server) log(ctx context.Context, id int64, _ *http.Request, by Peer) (any, error) {
	if _, err := s.statusFor(ctx, id, by); err != nil {
		return nil, err
	}
	done := s.turn(ctx, by.UID)
	if done == nil {
		return nil, ctx.Err()
	}
	dir, err := os.MkdirTemp("", "gantry-submission-")
	end := func() {
		_ = os.RemoveAll(dir)
		done()
	}
	var one *sqlite.DB
	if err == nil {
		one, err = s.DB.Extract(ctx, id)
	}
	if err == nil {
		err = errors.Join(one.Save(filepath.Join(dir, sqlite.FileName)), one.Close())
	}
	if err != nil {
		end()
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer end()
		readWithin(w, logTime)
		http.ServeFile(w, r, filepath.Join(dir, sqlite.FileName))
	}), nil
}
