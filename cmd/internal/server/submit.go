package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry/cmd/api"
	"gantry/executor"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/sqlite"
)

// DefaultWorkflow is that of single tasks which name none.
const DefaultWorkflow = "tasks"

// handed is one submission of a request: a workflow, or a single task, which a workflow grows by.
type handed struct {
	sub    *executor.Submission
	single bool
	more   options
}

// submit takes the submissions of a request, all or none.
func (s *Server) submit(ctx context.Context, r *http.Request, by Peer) (any, error) {
	take, done := s.taking(by)
	defer done()
	req, err := readWork(r, take)
	if err != nil {
		return nil, err
	}
	if a, err := s.repeated(ctx, &req, by); a != nil || err != nil {
		return a, err
	}
	items, err := s.itemsOf(&req, by, take)
	if err != nil {
		return nil, err
	}
	known := earlier{}
	for i := range items {
		if err := s.possible(ctx, &items[i], by, known); err != nil {
			return nil, err
		}
	}
	tails := s.tailsFor(ctx, items, by)
	s.entering.Lock()
	defer s.entering.Unlock()
	if a, err := s.repeated(ctx, &req, by); a != nil || err != nil { // meanwhile
		return a, err
	}
	secrets, forget, err := s.keepSecrets(&req, by, items)
	if err != nil {
		return nil, err
	}
	defer forget() // unless it is accepted
	now, wall, name := s.Now(), time.Now(), UserName(by.UID)
	rows := make([]sqlite.Submitted, len(items))
	for i := range items {
		sub, more := items[i].sub, &items[i].more
		more.Secrets = secrets
		rows[i] = sqlite.Submitted{Key: req.Key, UID: by.UID, GID: by.GID, PID: by.PID, User: name, Tenant: sub.Tenant,
			Name: sub.Name, Kind: sqlite.KindWorkflow, Wall: wall, At: now}
		date(sub, now)
		if items[i].single {
			more.Key = keyOf(sub, by)
			sub.Joins = &more.Join
			rows[i].Name, rows[i].Kind = sub.Workflow.Tasks[0].ID, sqlite.KindTask
			if t := &sub.Workflow.Tasks[0]; items[i].wantsTail() {
				t.Tail = tails[kind{more.Workflow, t.Kind}]
			}
		}
		rows[i].Arrival, rows[i].Options = sub.At, more.text()
		if rows[i].Definition, err = sqlite.EncodeSubmission(sub); err != nil {
			return nil, err
		}
	}
	return s.accept(rows, items)
}

// itemsOf reads the submissions of a request, and refuses one that is wrong whatever the state of the run is.
func (s *Server) itemsOf(req *api.Submit, by Peer, room func(amount) error) (items []handed, err error) {
	n := len(req.Tasks) + len(req.Workflows)
	switch {
	case req.Key == "" || len(req.Key) > 64:
		return nil, invalidf("a submission needs a key of at most 64 bytes")
	case len(req.Tasks) > 0 && len(req.Workflows) > 0:
		return nil, invalidf("one request hands in workflows or single tasks, not both")
	case n == 0:
		return nil, invalidf("nothing is handed in")
	case n > api.MaxTogether || req.AtMost < 0:
		return nil, invalidf("one request may hand in %d workflows or tasks, not %d; of %d at most may be under way "+
			"at once", api.MaxTogether, n, req.AtMost)
	}
	take := func(h handed, name string, definition []byte) error {
		if h.sub, err = submissionOf(definition, room); err != nil {
			if refused := new(api.Error); errors.As(err, &refused) {
				return err
			}
			return invalidf("workflow %q cannot be read: %v; is the server another version of gantry?", name, err)
		}
		h.sub.Name = executor.EscapeName(name)
		items = append(items, h)
		if err := s.checkItem(h, by); err != nil {
			return err
		}
		return room(amount{objects: int(blocksOf(h.sub))})
	}
	for _, w := range req.Workflows {
		if err := take(handed{more: options{Labels: w.Labels}}, w.Name, w.Definition); err != nil {
			return nil, err
		}
		sub := items[len(items)-1].sub
		sub.RejectLate = sub.RejectLate || w.RejectLate
	}
	for _, t := range req.Tasks {
		if err := errors.Join(checkPaths(t.Reads), checkPaths(t.Writes)); err != nil {
			return nil, err
		}
		more := options{Workflow: cmp.Or(t.Workflow, DefaultWorkflow), Join: executor.Join{AtMost: req.AtMost},
			Labels: t.Labels, Reads: t.Reads, Writes: t.Writes}
		for _, d := range t.After {
			more.After = append(more.After, executor.Dependency(d))
		}
		if err := take(handed{single: true, more: more}, more.Workflow, t.Definition); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// checkItem refuses what no client of this version sends, and says in whose name a submission runs.
func (s *Server) checkItem(h handed, by Peer) error {
	if err := CheckSubmission(h.sub, len(s.Platform.Nodes)); err != nil {
		return invalidf("%v", err)
	}
	if h.single {
		if s := h.sub; len(s.Workflow.Tasks) != 1 || len(s.Workflow.Files) > 0 || s.Release != 0 || s.Due != 0 {
			return invalidf("a single task is one task, and has neither files nor a release nor a deadline")
		}
		if name := h.sub.Workflow.Tasks[0].ID; !plainText(name) {
			return invalidf("the name of a single task has at most %d bytes, and this one has %d", longestText,
				len(name))
		}
	}
	if err := checkLabels(h.more.Labels); err != nil {
		return err
	}
	return s.attribute(h.sub, by)
}

// possible refuses a submission that cannot run here as things are.
func (s *Server) possible(ctx context.Context, h *handed, by Peer, known earlier) (err error) {
	if pol, _ := policy.Parse(s.About.Policy); h.sub.RejectLate {
		if _, plans := pol.(planner.Refuser); !plans {
			return invalidf("--reject-late: policy %s does not plan ahead for deadlines; use rm-dcwf, mrcp-rm or fifo",
				s.About.Policy)
		}
	}
	if h.single {
		h.more.After, err = s.dependencies(ctx, h.more.After, by, known)
	}
	if err != nil {
		return err
	}
	return s.Check(ctx, h.sub)
}

// date has the instants of a submission count from the beginning of the run.
func date(sub *executor.Submission, now planner.Time) {
	sub.At += now
	for _, t := range []*planner.Time{&sub.Release, &sub.Due} {
		if *t > 0 { // 0 is none
			*t += now
		}
	}
}

// keyOf is the key of the workflow that a single task is of.
func keyOf(sub *executor.Submission, by Peer) string {
	key := fmt.Sprintf("%d/%d/%s/%s", by.UID, sub.Class, sub.Tenant, sub.Name)
	if sub.By != nil { // a user whose groups have changed has other rights
		key += fmt.Sprintf(" of %v", *sub.By)
	}
	return key
}

// numbered gives a submission its number and its name in the run; the workflow that a single task opens is called after
// its number. Single tasks, and jobs, which work in directories of the host, find the number in their environment; of
// others no result may depend on it.
func numbered(sub *executor.Submission, row *sqlite.Submitted) {
	sub.ID = row.ID
	w := *sub.Workflow
	w.Tasks = slices.Clone(w.Tasks)
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if sub.Joins != nil && len(t.Command) > 0 || t.Container > 0 && slices.ContainsFunc(
			w.Containers[t.Container-1].Mounts, inPlace) {
			t.Env = executor.MergeEnv(t.Env, []string{api.ID + "=" + strconv.FormatInt(row.ID, 10)})
		}
	}
	if sub.Workflow = &w; sub.Joins == nil {
		sub.Name = row.Name
		return
	}
	sub.Joins.First = row.ID - int64(row.Position)
	w.Label, sub.Name = sub.Name, fmt.Sprintf("%s.%d", sub.Name, row.ID)
}

func inPlace(mount string) bool { return executor.ParseMount(mount).InPlace }

// joinOf reads the options of a row of a single task.
func joinOf(row *sqlite.Submitted) (*options, error) {
	var o options
	if err := json.Unmarshal([]byte(row.Options), &o); err != nil {
		return nil, fmt.Errorf("submission %d: its options are damaged: %w", row.ID, err)
	}
	o.First = row.ID - int64(row.Position)
	return &o, nil
}

// restored makes a submission again that was accepted and has not arrived.
func restored(row *sqlite.Submitted) (*executor.Submission, error) {
	sub, err := row.Submission()
	if err != nil {
		return nil, fmt.Errorf("submission %d: %w", row.ID, err)
	}
	if row.Kind == sqlite.KindTask {
		o, err := joinOf(row)
		if err != nil {
			return nil, err
		}
		sub.Joins, sub.Name = &o.Join, executor.EscapeName(o.Workflow)
	}
	numbered(sub, row)
	row.Definition = nil
	return sub, nil
}

// accept logs submissions, which get their numbers thereby, and gives them to the engine.
func (s *Server) accept(rows []sqlite.Submitted, items []handed) (any, error) {
	s.intake.RLock()
	defer s.intake.RUnlock()
	if s.drained {
		return nil, &api.Error{Code: api.Draining,
			Message: "the server takes no more work: it ends once what it has is done"}
	}
	err := s.Run.Accept(rows, func(row *sqlite.Submitted) {
		if row.Kind == sqlite.KindWorkflow {
			row.Name = fmt.Sprintf("%s-%d", row.Name, row.ID)
		}
	})
	if fault := sqlite.DiskFault(err); fault != "" {
		return nil, &api.Error{Code: api.Full, Message: fmt.Sprintf("the log cannot be written (%s): nothing of the "+
			"request is kept; free space in the gantry directory, then hand it in again", fault)}
	}
	if err != nil {
		return nil, err
	}
	for i := range rows {
		rows[i].Definition = nil
		numbered(items[i].sub, &rows[i])
		s.add(rows[i], items[i].sub)
	}
	s.Inbox.Post(func(in *executor.Intake) error {
		for _, h := range items {
			in.Arrive(*h.sub)
		}
		return nil
	})
	return acceptedAs(rows), nil
}

func acceptedAs(rows []sqlite.Submitted) *api.Accepted {
	a := &api.Accepted{Run: rows[0].Run}
	for _, row := range rows {
		a.IDs, a.Names = append(a.IDs, row.ID), append(a.Names, row.Name)
	}
	return a
}

// repeated is the answer to a request that was accepted before, whose client did not hear so: no limit, and no drain,
// takes that back. nil: it is a new one.
func (s *Server) repeated(ctx context.Context, req *api.Submit, by Peer) (*api.Accepted, error) {
	rows, err := s.DB.SubmittedWith(ctx, req.Key)
	switch {
	case err != nil || len(rows) == 0:
		return nil, err
	case rows[0].UID != by.UID:
		return nil, &api.Error{Code: api.Denied,
			Message: "the key of this request is that of another user's: choose another"}
	case len(rows) != len(req.Workflows)+len(req.Tasks):
		return nil, invalidf("request %s was one of %d submissions", req.Key, len(rows))
	}
	return acceptedAs(rows), nil
}

// UserName is the name of a user, "" if it has none.
func UserName(uid int) string {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return ""
	}
	return u.Username
}

// earlier are submissions that those of a request come after, by their numbers.
type earlier map[int64]*sqlite.Outcome

// outcome is how an earlier submission stands. Tasks of one request often come after the same ones.
func (k earlier) outcome(ctx context.Context, db *sqlite.DB, id int64) (*sqlite.Outcome, error) {
	if o := k[id]; o != nil {
		return o, nil
	}
	if len(k) >= api.MaxTogether {
		return nil, invalidf("the tasks of one request may come after %d others: hand in fewer at once",
			api.MaxTogether)
	}
	o, err := db.Outcome(ctx, id)
	if err == nil {
		k[id] = o
	}
	return o, err
}

// dependencies says which of the submissions that a task comes after are still to be waited for.
func (s *Server) dependencies(ctx context.Context, after []executor.Dependency, by Peer,
	known earlier) (left []executor.Dependency, err error) {
	if len(after) > api.MaxTogether {
		return nil, invalidf("a task may come after %d others, not %d", api.MaxTogether, len(after))
	}
	for _, d := range after {
		o, err := known.outcome(ctx, s.DB, d.ID)
		switch {
		case errors.As(err, new(*sqlite.Unknown)):
			return nil, &api.Error{Code: api.Unknown,
				Message: fmt.Sprintf("--dependency: there is no submission %d", d.ID)}
		case err != nil:
			return nil, err
		case !s.maySee(by, o.UID):
			return nil, &api.Error{Code: api.Denied,
				Message: fmt.Sprintf("--dependency: submission %d is of another user", d.ID)}
		case o.State == "done":
			if d.Failed {
				return nil, invalidf("--dependency: submission %d has ended well: it never fails", d.ID)
			}
		case o.Over() || o.Failed > 0:
			if !d.Ended && !d.Failed {
				return nil, invalidf("--dependency: submission %d has %s: it never ends well", d.ID, outcomeOf(o))
			}
		case o.Run != s.About.Run:
			return nil, invalidf("--dependency: submission %d is of run %s, which has not ended and is not served here",
				d.ID, o.Run)
		}
		if o.Run == s.About.Run {
			left = append(left, d)
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

// Enter gives the engine the outcomes of earlier submissions to the run. It is called before Run.
func (s *Server) Enter(ctx context.Context, e *executor.Engine) error {
	rows, err := s.Run.Entered(ctx)
	if err != nil {
		return err
	}
	for i := range rows {
		row := &rows[i]
		r := executor.Ref{Workflow: row.Workflow, Task: row.Task}
		if row.Workflow == planner.None {
			r.Settled = row.State
		}
		e.Refer(row.ID, r)
		if row.Kind == sqlite.KindTask && row.Workflow != planner.None {
			o, err := joinOf(row)
			if err != nil {
				return err
			}
			e.Joined(o.Key, row.Workflow)
			e.Among(&o.Join, row.Task)
		}
	}
	return nil
}

// options are the options of a submission in the log, beside its definition. sqlite/FORMAT.md describes them. All but
// labels and secrets are of single tasks.
type options struct {
	Workflow string `json:"workflow,omitempty"` // as its user calls it
	executor.Join
	Labels  api.Labels `json:"labels,omitempty"`
	Secrets string     `json:"secrets,omitempty"` // the key below which they are kept
	Reads   []string   `json:"reads,omitempty"`   // absolute paths, as far as they are known
	Writes  []string   `json:"writes,omitempty"`
	By      *int       `json:"cancelled_by,omitempty"` // as the log notes it
}

// text is "" where there is nothing to keep.
func (o *options) text() string {
	text, _ := json.Marshal(o) // texts can be written
	if string(text) == "{}" {
		return ""
	}
	return string(text)
}

// readOptions reads them again; the zero value if they are damaged.
func readOptions(text string) (o options) {
	if text == "" || json.Unmarshal([]byte(text), &o) != nil {
		return options{}
	}
	return o
}

// waitsFor says which submissions a single task comes after; "" if none.
func (o *options) waitsFor() string {
	var all []string
	for _, d := range o.After {
		text := strconv.FormatInt(d.ID, 10)
		switch {
		case d.Ended:
			text += " in whatever way it ends"
		case d.Failed:
			text += " if that fails"
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return ""
	}
	return "it comes after " + strings.Join(all, ", ")
}

func checkLabels(labels api.Labels) error {
	size := 0
	for name, text := range labels {
		size += len(name) + len(text)
	}
	if len(labels) > api.MaxLabels || size > api.MaxLabelBytes {
		return invalidf("a submission may have %d labels of %d bytes in all, not %d of %d", api.MaxLabels,
			api.MaxLabelBytes, len(labels), size)
	}
	return nil
}
