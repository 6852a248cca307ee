package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"gantry/cmd/api"
	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
)

// DefaultWorkflow is that of single tasks which name none.
const DefaultWorkflow = "tasks"

// joinOf reads the options of a row of a single task.
func joinOf(row *sqlite.Submitted) (*executor.Join, *options, error) {
	var o options
	if err := json.Unmarshal([]byte(row.Options), &o); err != nil {
		return nil, nil, fmt.Errorf("submission %d: its options are damaged: %w", row.ID, err)
	}
	return &executor.Join{Key: o.Key, After: o.After, First: row.ID - int64(row.Position), AtMost: o.AtMost}, &o, nil
}

// joined makes the submission of a single task again that was accepted and has not arrived.
func joined(sub *executor.Submission, row *sqlite.Submitted) error {
	join, o, err := joinOf(row)
	if err == nil {
		sub.Joins, sub.Name = join, executor.EscapeName(o.Workflow)
		numbered(sub, row)
	}
	return err
}

// submitTasks takes single tasks, all of a request or none.
func (s *Server) submitTasks(ctx context.Context, req *api.Submit, by Peer) (any, error) {
	if len(req.Tasks) > api.MaxTogether || req.AtMost < 0 {
		return nil, invalidf("one request may hand in %d tasks, not %d; of %d at most may be under way at once",
			api.MaxTogether, len(req.Tasks), req.AtMost)
	}
	subs := make([]executor.Submission, len(req.Tasks))
	after := make([][]executor.Dependency, len(req.Tasks))
	rows := make([]sqlite.Submitted, len(req.Tasks))
	if a, err := s.repeated(ctx, req, by); a != nil || err != nil {
		return a, err
	}
	for i := range req.Tasks {
		t := &req.Tasks[i]
		sub, err := sqlite.DecodeSubmission(t.Definition)
		if err != nil {
			return nil, invalidf("task %d cannot be read: %v; is the server another version of gantry?", i, err)
		}
		if t.Workflow == "" {
			t.Workflow = DefaultWorkflow
		}
		sub.Name = executor.EscapeName(t.Workflow)
		if err := CheckSubmission(sub, len(s.Platform.Nodes)); err != nil {
			return nil, &api.Error{Code: api.Invalid, Message: err.Error()}
		}
		if len(sub.Workflow.Tasks) != 1 || sub.Release != 0 {
			return nil, invalidf("a single task is one task, and has no release")
		}
		if name := sub.Workflow.Tasks[0].ID; !plainText(name) {
			return nil, invalidf("the name of a single task has at most %d bytes, and this one has %d", longestText,
				len(name))
		}
		if err := checkLabels(t.Labels); err != nil {
			return nil, err
		}
		if err := s.attribute(sub, by); err != nil {
			return nil, err
		}
		if after[i], err = s.dependencies(ctx, t.After, sub, by); err != nil {
			return nil, err
		}
		if err := s.checkSingle(ctx, sub, by); err != nil {
			return nil, err
		}
		subs[i] = *sub
	}
	s.entering.Lock()
	defer s.entering.Unlock()
	if a, err := s.repeated(ctx, req, by); a != nil || err != nil { // meanwhile
		return a, err
	}
	now, wall := s.Now(), time.Now()
	for i := range subs {
		sub := &subs[i]
		sub.At += now
		if sub.Due > 0 { // to the second: tasks that are due at 18:00 are of one workflow
			due := s.About.Started.Add(time.Duration(sub.Due + now)).Round(time.Second)
			sub.Due = max(1, planner.Time(due.Sub(s.About.Started.Round(0)))) // 0 is none
		}
		join := &executor.Join{After: after[i], AtMost: req.AtMost}
		sub.Joins = join
		join.Key = fmt.Sprintf("%d/%d/%d/%s/%s", by.UID, sub.Class, int64(sub.Due), sub.Tenant, sub.Name)
		if sub.Due == 0 {
			join.Key = fmt.Sprintf("%d/%d/%s/%s", by.UID, sub.Class, sub.Tenant, sub.Name)
		}
		if sub.By != nil { // a user whose groups have changed has other rights
			join.Key = fmt.Sprintf("%s of %v", join.Key, *sub.By)
		}
	}
	secrets, forget, err := s.keepSecrets(req, by, subs)
	if err != nil {
		return nil, err
	}
	defer forget() // unless it is accepted
	for i := range subs {
		t, sub := &req.Tasks[i], &subs[i]
		options, err := json.Marshal(options{Workflow: t.Workflow, Key: sub.Joins.Key, After: sub.Joins.After,
			AtMost: req.AtMost, Labels: t.Labels, Secrets: secrets})
		if err != nil {
			return nil, err
		}
		rows[i] = sqlite.Submitted{Key: req.Key, UID: by.UID, GID: by.GID, PID: by.PID, User: userName(by.UID),
			Tenant: sub.Tenant, Name: sub.Workflow.Tasks[0].ID, Kind: sqlite.KindTask, Wall: wall, At: now,
			Arrival: sub.At, Options: string(options)}
		if rows[i].Definition, err = sqlite.EncodeSubmission(sub); err != nil {
			return nil, err
		}
	}
	tasks := map[string]int{}
	for i := range subs {
		tasks[subs[i].Tenant]++
	}
	if err := s.within(ctx, tasks); err != nil {
		return nil, err
	}
	return s.acceptAll(rows, subs, by, numbered)
}

// numbered gives a single task its number. The workflow that it opens is called after it, if it opens one.
func numbered(sub *executor.Submission, row *sqlite.Submitted) {
	id := row.ID
	sub.ID, sub.Joins.First = id, id-int64(row.Position)
	w := *sub.Workflow
	w.Tasks = slices.Clone(w.Tasks)
	if t := &w.Tasks[0]; len(t.Command) > 0 {
		t.Env = executor.MergeEnv(t.Env, []string{api.ID + "=" + strconv.FormatInt(id, 10)})
	}
	w.Label = sub.Name
	sub.Workflow, sub.Name = &w, fmt.Sprintf("%s.%d", sub.Name, id)
}

// dependencies says which of the submissions that a task comes after are still to be waited for. Input files that the
// others left are found here.
func (s *Server) dependencies(ctx context.Context, after []api.Dependency, sub *executor.Submission, by Peer) (
	left []executor.Dependency, err error) {
	if len(after) > api.MaxTogether {
		return nil, invalidf("a task may come after %d others, not %d", api.MaxTogether, len(after))
	}
	for _, d := range after {
		o, err := s.DB.Outcome(ctx, d.ID)
		unknown := new(sqlite.UnknownSubmissionError)
		switch {
		case errors.As(err, &unknown):
			return nil, &api.Error{Code: api.Unknown,
				Message: fmt.Sprintf("--after %d: there is no submission %d", d.ID, d.ID)}
		case err != nil:
			return nil, err
		case !s.maySee(by, o.UID):
			return nil, &api.Error{Code: api.Denied,
				Message: fmt.Sprintf("--after %d: submission %d is of another user", d.ID, d.ID)}
		case o.State == "done":
			if d.Failed {
				return nil, invalidf("--after %d:failed: submission %d has ended well: it never fails", d.ID, d.ID)
			}
		case o.Over() || o.Failed > 0:
			if !d.Ended && !d.Failed {
				return nil, invalidf("--after %d: submission %d has %s: it never ends well", d.ID, d.ID, outcomeOf(o))
			}
		case o.Run != s.About.Run:
			return nil, invalidf("--after %d: submission %d is of run %s, which has not ended and is not served here",
				d.ID, d.ID, o.Run)
		}
		if o.Run == s.About.Run {
			left = append(left, executor.Dependency(d))
			continue
		}
		name, err := s.DB.WorkflowName(ctx, o.Run, o.Workflow)
		if err != nil {
			return nil, err
		}
		for i := range sub.Sources {
			if f := &sub.Workflow.Files[i]; sub.Sources[i].Path == "" && f.Producer < 0 {
				sub.Sources[i] = s.Results(o.Run, name, f.Name)
			}
		}
	}
	return left, nil
}

func outcomeOf(o *sqlite.Outcome) string {
	switch o.State {
	case sqlite.Cancelled, sqlite.Refused:
		return "been " + o.State
	}
	return "failed"
}

// checkSingle decides about a task as about a workflow, but for input files that others write.
func (s *Server) checkSingle(ctx context.Context, sub *executor.Submission, by Peer) error {
	trial := *sub
	w := *sub.Workflow
	w.Files = slices.Clone(w.Files)
	for i := range w.Files {
		if sub.Sources != nil && sub.Sources[i].Path == "" {
			w.Files[i].Optional = true
		}
	}
	trial.Workflow = &w
	return s.Check(ctx, &trial, by)
}

// Enter gives the engine the outcomes of earlier submissions to the run. It is called before Run.
func (s *Server) Enter(ctx context.Context, e *executor.Engine) error {
	rows, err := s.Run.Entered(ctx)
	if err != nil {
		return err
	}
	names := map[planner.WorkflowID]string{}
	for i := range rows {
		row := &rows[i]
		r := executor.Ref{Workflow: row.Workflow, Task: row.Task}
		if row.Workflow == planner.None {
			r.Settled = row.State
		} else if r.Name = names[row.Workflow]; r.Name == "" {
			if r.Name, err = s.DB.WorkflowName(ctx, row.Run, row.Workflow); err != nil {
				return err
			}
			names[row.Workflow] = r.Name
		}
		e.Refer(row.ID, r)
		if row.Kind == sqlite.KindTask && row.Workflow != planner.None {
			join, _, err := joinOf(row)
			if err != nil {
				return err
			}
			e.Joined(join.Key, row.Workflow)
			e.Among(join, row.Task)
		}
	}
	return nil
}

// restoreSingles takes in the single tasks that arrived and are not over.
func (s *Server) restoreSingles(ctx context.Context, v planner.View) error {
	rows, err := s.Run.Entered(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.Kind == sqlite.KindTask && row.State == sqlite.Arrived && !v.Phase(row.Task).Ended() {
			e := &entry{Submitted: row, class: v.Workflow(row.Workflow).Class, tasks: 1, arrived: true, single: true}
			if due := v.Workflow(row.Workflow).Due; due != unit.Never {
				e.due = due
			}
			s.entries[row.ID], s.singles[row.Task] = e, e
			s.holdLocked(&row)
		}
	}
	return nil
}

// watchSingles takes in which single tasks have ended.
func (s *Server) watchSingles(v planner.View, events []planner.Event) {
	if len(s.singles) == 0 {
		return
	}
	ends := false
	for i := range events {
		switch b := events[i].Body.(type) {
		case *planner.AttemptExited:
			t := v.Attempt(b.Attempt).Task
			ends = ends || v.Phase(t) != planner.Done && v.Phase(t).Ended()
			s.endedSingle(v, t)
		case *planner.TaskReused:
			s.endedSingle(v, b.Task)
		case planner.TaskCancelled, planner.WorkflowCancelled:
			ends = true
		}
	}
	if ends { // those below it were skipped
		for t := range s.singles {
			s.endedSingle(v, t)
		}
	}
}

func (s *Server) endedSingle(v planner.View, t planner.TaskID) {
	if e := s.singles[t]; e != nil && v.Phase(t).Ended() {
		delete(s.singles, t)
		s.overLocked(e)
		s.wakeLocked(e.ID)
	}
}

// Settled takes in submissions that will not arrive, or not end well, as executor.Engine.OnSettled.
func (s *Server) Settled(all []executor.Settled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range all {
		if e := s.entries[x.ID]; e != nil && !e.arrived {
			s.overLocked(e)
		}
		s.wakeLocked(x.ID)
	}
}

// liveSingles is how single tasks stand that are not over. Those that could start are noted in ready.
func (s *Server) liveSingles(v planner.View, of map[planner.TaskID]*api.Status, ready map[*api.Status]planner.TaskID) {
	for t, st := range of {
		phase := v.Phase(t)
		st.State, st.Over = phase.String(), phase.Ended()
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
			if len(ready) < mostExplained {
				ready[st] = t
			}
		case planner.Done:
			st.Done = 1
		case planner.Failed, planner.Skipped:
			st.Failed = 1
		}
	}
}
