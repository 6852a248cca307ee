package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"gantry/planner"
	"gantry/planner/unit"
)

// ErrClosed is the answer of an engine that takes no more requests: its run has ended or is about to.
var ErrClosed = errors.New("the run takes no more requests")

// Inbox receives requests to an engine while it runs. An engine with an inbox does not end before that is closed. Its
// methods may be called from any goroutine.
type Inbox struct {
	mu     sync.Mutex
	queue  []*request
	closed bool
	failed error
	bell   chan struct{} // there is something new; it cuts the engine's wait short
}

// request is a call of Ask.
type request struct {
	do   func(in *Intake) error
	done chan error
}

// NewInbox returns an open inbox.
func NewInbox() *Inbox { return &Inbox{bell: make(chan struct{}, 1)} }

// Ask has do called on the engine's goroutine, in the next turn and at its instant, and returns once the turn is kept:
// the changes of do are durable then. If do returns an error it must not have changed anything; Ask returns it. After
// the end of ctx nobody waits, but do may still be called.
func (b *Inbox) Ask(ctx context.Context, do func(in *Intake) error) error {
	r := b.post(do)
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Post is Ask that waits for nothing. Requests posted before Close are done before the engine ends by itself.
func (b *Inbox) Post(do func(in *Intake) error) { b.post(do) }

func (b *Inbox) post(do func(in *Intake) error) *request {
	r := &request{do, make(chan error, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed != nil {
		r.done <- b.failed
		return r
	}
	b.queue = append(b.queue, r)
	b.ring()
	return r
}

// Close lets the engine end when nothing is left to do. Requests are still answered until then.
func (b *Inbox) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.ring()
}

// ring wakes the engine: there is something new.
func (b *Inbox) ring() {
	select {
	case b.bell <- struct{}{}:
	default:
	}
}

// open reports whether more may be asked, or was and has no answer.
func (b *Inbox) open() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.closed || len(b.queue) > 0
}

func (b *Inbox) pending() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue) > 0
}

func (b *Inbox) take() []*request {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue
	b.queue = nil
	return q
}

// end answers all requests, those that wait and those to come, with err.
func (b *Inbox) end(err error) {
	b.mu.Lock()
	b.closed, b.failed = true, err
	b.mu.Unlock()
	for _, r := range b.take() {
		r.done <- err
	}
}

// Intake is the access of a request to the engine, within the call.
type Intake struct {
	e   *Engine
	now planner.Time
}

// Now is the instant of the turn.
func (in *Intake) Now() planner.Time { return in.now }

// View is the state of the run. It holds within the call only.
func (in *Intake) View() planner.View { return in.e.Planner.View() }

// Told is the last reason that was given why a task does not start; 0: there was none.
func (in *Intake) Told(t planner.TaskID) planner.ReasonCode { return in.e.Planner.Told(t) }

// Tenant is the name of a tenant.
func (in *Intake) Tenant(m planner.TenantID) string { return in.e.Admit.TenantName(m) }

// Spec is the true specification of a task of a workflow that has not ended.
func (in *Intake) Spec(t planner.TaskID) *TaskSpec { return in.e.specs[t] }

// Coming are the submissions that have not arrived, by arrival. They hold within the call only.
func (in *Intake) Coming() []Submission { return in.e.Arrivals }

// Held are the submissions that come after others which are not over. They hold within the call only.
func (in *Intake) Held() []Submission { return in.e.held }

// Throttled are the submissions that wait only since as many others of their array are under way as may be.
func (in *Intake) Throttled() map[int64]bool {
	all := map[int64]bool{}
	for i := range in.e.held {
		sub := &in.e.held[i]
		all[sub.ID] = in.e.throttled(sub.Joins) && !slices.ContainsFunc(sub.Joins.After, func(d Dependency) bool {
			return in.e.standing(d.ID) == pending
		})
	}
	return all
}

// Arrive adds a submission to those that are to arrive; its instant is At, or now if that is past. One that cannot be
// admitted then is settled as refused.
func (in *Intake) Arrive(sub Submission) {
	in.e.come(sub)
	in.e.Refer(sub.ID, Ref{Workflow: planner.None, Task: planner.None})
}

// CancelWorkflow withdraws the tasks of a workflow that have not started, and ends those that run.
func (in *Intake) CancelWorkflow(w planner.WorkflowID) error {
	if in.e.over(w) {
		return nil
	}
	if err := in.e.take(in.now, planner.WorkflowCancelled{Workflow: w}); err != nil {
		return err
	}
	v := in.View()
	for a := range v.UnderWay() {
		if v.Task(v.Attempt(a).Task).Workflow == w {
			in.e.kills = append(in.e.kills, a)
		}
	}
	return nil
}

// CancelComing withdraws for a user a submission that has not arrived. It reports whether there was one.
func (in *Intake) CancelComing(id int64, by int) bool {
	for _, list := range []*[]Submission{&in.e.Arrivals, &in.e.held} {
		if i := slices.IndexFunc(*list, func(s Submission) bool { return s.ID == id }); i >= 0 {
			*list = slices.Delete(*list, i, i+1)
			in.e.settle(Settled{id, in.now, SettledCancelled, OnRequest, &by})
			return true
		}
	}
	return false
}

// ChangeNode gives a node another capacity. Attempts that run there continue: as long as they hold more, the node keeps
// as much as they hold, so that no policy ever meets a node that is overfull.
func (in *Intake) ChangeNode(n planner.NodeID, to unit.Vector) error {
	return in.e.changeNode(in.now, n, to)
}

func (e *Engine) changeNode(now planner.Time, n planner.NodeID, to unit.Vector) error {
	v := e.Planner.View()
	var held unit.Vector // also by those that are frozen: they continue there
	for _, a := range v.Active(n) {
		held = held.Add(v.Attempt(a).Hold)
	}
	x := planner.NodeChanged{Node: n, Capacity: to}
	for dim, most := range v.Capacity(n) { // with those that are frozen, more may be held than the node has
		if keeps := min(held[dim], most); keeps > to[dim] {
			x.Capacity[dim], x.Shrinks, x.To = keeps, true, to
		}
	}
	target, shrinks := e.shrinks[n]
	if v.Capacity(n) == x.Capacity && shrinks == x.Shrinks && target == x.To {
		return nil
	}
	e.shrinking(x)
	return e.take(now, x)
}

// shrinking takes in the capacity that a node is to have in the end.
func (e *Engine) shrinking(x planner.NodeChanged) {
	if !x.Shrinks {
		delete(e.shrinks, x.Node)
		return
	}
	if e.shrinks == nil {
		e.shrinks = map[planner.NodeID]unit.Vector{}
	}
	e.shrinks[x.Node] = x.To
}

// shrink takes capacity from nodes that they are to lose and that no attempt holds any more.
func (e *Engine) shrink(now planner.Time) error {
	if len(e.shrinks) == 0 {
		return nil
	}
	for n := range e.Planner.View().Nodes() { // in order
		if to, ok := e.shrinks[planner.NodeID(n)]; ok {
			if err := e.changeNode(now, planner.NodeID(n), to); err != nil {
				return err
			}
		}
	}
	return nil
}

// Capacity is the capacity that a node is to have once attempts that hold more have ended.
func (in *Intake) Capacity(n planner.NodeID) unit.Vector {
	if to, ok := in.e.shrinks[n]; ok {
		return to
	}
	return in.View().Capacity(n)
}

// Snapshot is the state of a run as far as a forecast of its rest needs it.
type Snapshot struct {
	Now      planner.Time
	Flows    []FlowState
	Coming   []Submission  // also those that are held
	Refs     map[int64]Ref // of the submissions that those come after, as far as they are under way
	Capacity []unit.Vector // by node
}

// FlowState is how a workflow stands that has not ended.
type FlowState struct {
	Workflow planner.WorkflowID
	Name     string
	Release  planner.Time
	Started  planner.Time // unit.Never: not yet
	Tasks    []TaskState  // by position; of a workflow that has grown, those that have not ended
	Grown    bool
}

// TaskState is how a task stands.
type TaskState struct {
	Task    planner.TaskID
	Phase   planner.Phase
	Node    planner.NodeID // of the current or last attempt
	Ordered planner.Time   // of the attempt under way
	Started planner.Time   // unit.Never: not yet
	Until   planner.Time   // its planned end
	Hold    unit.Vector
	GPUs    planner.Devices
}

// Snapshot returns the state of all that has not ended; nil if that has more than most tasks.
func (in *Intake) Snapshot(most int) *Snapshot {
	v := in.View()
	s := &Snapshot{Now: in.now, Coming: slices.Concat(in.e.Arrivals, in.e.held), Refs: map[int64]Ref{}}
	for n := range v.NodeCount() {
		s.Capacity = append(s.Capacity, v.Capacity(n))
	}
	total := 0
	for i := range s.Coming {
		total += len(s.Coming[i].Workflow.Tasks)
		in.e.apart(&s.Coming[i], s.Refs)
	}
	for _, w := range v.Present() {
		f := FlowState{Workflow: w, Release: v.Workflow(w).Release, Grown: v.Grown(w)}
		f.Started, _ = v.Times(w)
		for t := range v.All(w) {
			if f.Grown && v.Phase(t).Ended() {
				continue
			}
			if total++; total > most {
				return nil
			}
			x := TaskState{Task: t}
			x.Phase, x.Node, x.Started = v.Phase(t), planner.None, unit.Never
			if a := v.Last(t); a != planner.None {
				att := v.Attempt(a)
				x.Node, x.Ordered, x.Started, x.Hold = att.Node, att.Ordered, att.Started, att.Hold
				x.Until, x.GPUs = att.Until, att.GPUs
			}
			if spec := in.e.specs[t]; spec != nil {
				f.Name = spec.Workflow.Name
			}
			f.Tasks = append(f.Tasks, x)
		}
		s.Flows = append(s.Flows, f)
	}
	if total > most {
		return nil
	}
	return s
}

// apart makes of a single task that has not arrived one of a workflow of its own, which comes only after submissions
// under way: a forecast knows nothing else. Refs gets those submissions.
func (e *Engine) apart(sub *Submission, refs map[int64]Ref) {
	if sub.Joins == nil {
		return
	}
	join := Join{Key: strconv.FormatInt(sub.ID, 10)}
	after := sub.Joins.After
	if d := sub.ID - int64(sub.Joins.AtMost); d != sub.ID && d >= sub.Joins.First { // about when one of its array ends
		after = append(slices.Clip(after), Dependency{ID: d, Ended: true})
	}
	for _, d := range after {
		if e.standing(d.ID) != pending {
			continue
		}
		join.After = append(join.After, d)
		if r := e.refs[d.ID]; r.Workflow != planner.None {
			refs[d.ID] = r
		}
	}
	sub.Joins = &join
}

func (e *Engine) requests(now planner.Time) {
	if e.Inbox == nil {
		return
	}
	for _, r := range e.Inbox.take() {
		if err := r.do(&Intake{e: e, now: now}); err != nil {
			r.done <- err
			continue
		}
		e.answers = append(e.answers, r)
	}
}

// answer says that all that was asked is kept.
func (e *Engine) answer(err error) {
	for _, r := range e.answers {
		r.done <- err
	}
	clear(e.answers)
	e.answers = e.answers[:0]
}

// killAgain ends attempts that were cancelled on request before: a gantry that was killed may have logged the request
// and not carried it out.
func (e *Engine) killAgain(ctx context.Context) error {
	if e.Inbox == nil {
		return nil
	}
	v := e.Planner.View()
	for a := range v.UnderWay() {
		if v.Withdrawn(v.Attempt(a).Task) {
			e.kills = append(e.kills, a)
		}
	}
	return e.killCancelled(ctx)
}

// killCancelled ends attempts that were cancelled on request.
func (e *Engine) killCancelled(ctx context.Context) error {
	v := e.Planner.View()
	for _, a := range e.kills {
		if v.Attempt(a).Over {
			continue
		}
		if err := e.Runtime.Kill(ctx, a, planner.Killed, e.Grace); err != nil {
			return fmt.Errorf("kill task %s of a cancelled workflow: %w", e.specs[v.Attempt(a).Task].Name, err)
		}
	}
	e.kills = e.kills[:0]
	return nil
}
