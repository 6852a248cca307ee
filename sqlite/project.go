package sqlite

import (
	"cmp"
	"database/sql/driver"
	"fmt"
	"maps"
	"slices"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
)

// projection folds the events of a run into the rows of its workflows, tasks and attempts. A real run writes rows as
// they change, a simulation once they have ended (late). While an event log is read back, out is nil: nothing is
// written, and afterwards the projection is where the gantry that wrote the log left it.
type projection struct {
	out  *tables
	late bool

	seq      uint64                               // of the last event
	at       planner.Time                         // of the last event
	first    planner.Time                         // arrival; unit.Never: none
	last     planner.Time                         // end of an attempt; unit.Never: none
	flows    []*flow                              // by number; nil once it is over and written
	tasks    []*task                              // by number; nil once its workflow is
	ordered  planner.AttemptID                    // the number of the next attempt
	attempts map[planner.AttemptID]*attempt       // until they are over and written
	chains   map[planner.TaskID]chain             // of tasks that have a checkpoint
	away     map[planner.TaskID]planner.AttemptID // tasks that left their place, and the attempt that did
	refused  []planner.WorkflowID                 // by the last round

	changedFlows    []*flow    // since they were written
	changedTasks    []*task    // also; those that are rows
	changedAttempts []*attempt // also
}

// flow is a workflow that is not over, or not written.
type flow struct {
	id             planner.WorkflowID
	tasks          []*task
	fresh          []fresh // of the last tasks, which are no rows yet
	left           int     // tasks not done
	state          string
	closed         bool // nothing of it changes any more
	changed        bool
	started, ended planner.Time
	last           planner.Time // end of an attempt of it; unit.Never: none
	ready          planner.Time // before it no task is
}

// fresh is a task until it is a row: the part of its admission for the row. The whole would take much memory until the
// workflow has ended.
type fresh struct {
	spec    *executor.TaskSpec
	inputs  []planner.FileID
	outputs []planner.FileID
	need    unit.Vector
	input   int64 // bytes
	stage   int32
	imputed trace.Fields // fields that its trace did not give
	runtime driver.Value // by the trace, or a rule in its place, on a node of speed 1
}

func freshOf(a *executor.Admission, i int) fresh {
	t, spec := &a.Arrived.Tasks[i], a.Tasks[i]
	traced := int64(cmp.Or(spec.Declared, spec.Run))
	x := fresh{spec: spec, inputs: t.Inputs, outputs: t.Outputs, need: t.Need, input: int64(t.Reads), stage: t.Stage,
		runtime: known(traced, traced != 0)}
	if from := a.Submission.Workflow; from != nil && i < len(from.Tasks) {
		t := &from.Tasks[i]
		x.runtime = known(traced, (t.Known | t.Imputed).Has(trace.Runtime))
		x.imputed = t.Imputed | trace.Command&^t.Known
		if x.need[unit.Memory] != 0 { // or there is none to be short of
			x.imputed |= trace.Memory &^ t.Known
		}
		if x.need[unit.Disk] != 0 && t.DiskBps == 0 {
			x.imputed |= diskShare
		}
	}
	return x
}

type task struct {
	flow    *flow
	parents []planner.TaskID
	id      planner.TaskID
	node    planner.NodeID
	last    planner.AttemptID // None: no attempt yet
	tries   int32
	state   planner.Phase // Ready is told from Waiting by views alone
	formal  bool
	again   bool // the last attempt failed, and no round has mentioned the task since
	row     bool // it is one
	dirty   bool
	queued  planner.Time
	ended   planner.Time
	wait    planner.Reason // Code 0: none known
}

type attempt struct {
	order   *planner.Order
	queued  planner.Time
	started planner.Time   // unit.Never: not yet
	leaving planner.Vacate // ordered to leave its place, or frozen; 0: neither
	exit    *planner.AttemptExited
	before  chain // of exit: what the checkpoint had
	lost    int64 // also: nanoseconds of work
	changed bool
}

// chain is the content of the checkpoint of a task: the fraction done, and how long that ran.
type chain struct {
	done float64
	ran  int64
}

func newProjection(out *tables, late bool) *projection {
	return &projection{out: out, late: late, first: unit.Never, last: unit.Never,
		attempts: map[planner.AttemptID]*attempt{}, chains: map[planner.TaskID]chain{},
		away: map[planner.TaskID]planner.AttemptID{}}
}

// apply takes in the next event; a is the admission of a workflow that arrived or grew, with its encoding, else nil.
func (p *projection) apply(ev *planner.Event, a *executor.Admission, definition []byte) error {
	if ev.Seq != p.seq+1 {
		return fmt.Errorf("event %d follows event %d", ev.Seq, p.seq)
	}
	p.seq, p.at = ev.Seq, ev.At
	if a == nil && admits(ev.Body) {
		return fmt.Errorf("event %d (%v): it comes without its admission", ev.Seq, ev.Body.Kind())
	}
	if err := p.fold(ev, a, definition); err != nil {
		return fmt.Errorf("event %d (%v): %w", ev.Seq, ev.Body.Kind(), err)
	}
	return nil
}

func (p *projection) fold(ev *planner.Event, a *executor.Admission, definition []byte) error {
	switch b := ev.Body.(type) {
	case *planner.WorkflowArrived:
		return p.arrived(a, definition)
	case *planner.WorkflowGrown:
		if err := p.add(p.flows[a.Spec.ID], a); err != nil {
			return err
		}
		return p.out.addGrowth(a, definition)
	case *planner.PlanCommitted:
		return p.planned(ev, b)
	case planner.AttemptStarted:
		return p.started(ev, b.Attempt)
	case planner.AttemptSuspended:
		if x, err := p.becomes(b.Attempt, planner.Suspended); x == nil {
			return err
		}
		return p.out.exec(leaves, int64(b.Attempt), int64(ev.At), int64(0))
	case planner.AttemptResumed:
		x, err := p.becomes(b.Attempt, planner.Running)
		if x == nil {
			return err
		}
		x.leaving = 0
		return p.out.exec(returns, int64(b.Attempt), int64(ev.At), int64(0))
	case *planner.AttemptExited:
		return p.exited(ev, b)
	case planner.WorkflowCancelled:
		p.cancelled(ev, b.Workflow)
	case planner.TaskCancelled:
		t, err := p.task(b.Task)
		if t != nil && t.state == planner.Waiting {
			p.touch(t).state = planner.Skipped
		}
		return err
	case *planner.WorkflowContinued:
		return p.continued(b)
	case *planner.TaskReused:
		return p.reused(ev, b)
	case planner.PolicyChanged:
		if err := p.out.exec(insertPolicy, int64(ev.Seq), int64(ev.At), b.Policy); err != nil {
			return err
		}
		return p.out.exec(changePolicy, b.Policy)
	}
	return nil
}

// task returns a task; nil if its workflow is over.
func (p *projection) task(t planner.TaskID) (*task, error) {
	if t < 0 || int(t) >= len(p.tasks) {
		return nil, fmt.Errorf("task %d was not admitted", t)
	}
	return p.tasks[t], nil
}

// attempt returns an attempt; nil if it is over.
func (p *projection) attempt(a planner.AttemptID) (*attempt, error) {
	if a < 0 || a >= p.ordered {
		return nil, fmt.Errorf("attempt %d was not ordered", a)
	}
	return p.attempts[a], nil
}

// touch returns a task that is about to change.
func (p *projection) touch(t *task) *task {
	if t.row && p.out != nil {
		enlist(&p.changedTasks, t, &t.dirty)
	}
	p.touchFlow(t.flow)
	return t
}

func (p *projection) touchFlow(f *flow) {
	if p.out != nil {
		enlist(&p.changedFlows, f, &f.changed)
	}
}

// touchAttempt has an attempt written; a simulation writes those that ended.
func (p *projection) touchAttempt(x *attempt) {
	if p.out != nil && (!p.late || x.exit != nil) {
		enlist(&p.changedAttempts, x, &x.changed)
	}
}

// enlist adds x to the changed ones, unless it is one.
func enlist[T any](to *[]*T, x *T, changed *bool) {
	if !*changed {
		*changed, *to = true, append(*to, x)
	}
}

// becomes gives the task of an attempt another state; the attempt is nil if it is over.
func (p *projection) becomes(a planner.AttemptID, state planner.Phase) (*attempt, error) {
	x, err := p.attempt(a)
	if x == nil {
		return nil, err
	}
	p.touchAttempt(x)
	if t := p.tasks[x.order.Task]; t != nil {
		p.touch(t).state, t.ended = state, unit.Never
	}
	return x, nil
}

func (p *projection) arrived(a *executor.Admission, definition []byte) error {
	w := &a.Arrived.Workflow
	if len(a.Tasks) != len(a.Arrived.Tasks) || int(w.ID) != len(p.flows) {
		return fmt.Errorf("workflow %s: %d tasks planned, %d to be run; its number is %d after %d others",
			a.Submission.Name, len(a.Arrived.Tasks), len(a.Tasks), w.ID, len(p.flows))
	}
	f := &flow{id: w.ID, state: "waiting", started: unit.Never, ended: unit.Never, last: unit.Never,
		ready: max(w.Arrived, w.Release)}
	p.flows, p.first = append(p.flows, f), min(p.first, w.Arrived)
	if err := p.add(f, a); err != nil {
		return err
	}
	if len(a.Tasks) == 0 {
		f.started = w.Arrived
		p.close(f, "done", w.Arrived)
	}
	return p.out.addFlow(f, a, definition)
}

func (p *projection) add(f *flow, a *executor.Admission) error {
	p.touchFlow(f)
	f.left += len(a.Tasks)
	tasks := make([]task, len(a.Tasks))
	f.tasks = slices.Grow(f.tasks, len(tasks))
	if p.out != nil {
		f.fresh = slices.Grow(f.fresh, len(tasks))
	}
	for i := range tasks {
		t, of := &tasks[i], &a.Arrived.Tasks[i]
		if int(of.ID) != len(p.tasks) {
			return fmt.Errorf("task %d comes after %d others", of.ID, len(p.tasks))
		}
		*t = task{flow: f, parents: of.Parents, id: of.ID, last: planner.None, queued: unit.Never, ended: unit.Never,
			formal: of.Formal, row: p.out == nil}
		if f.tasks, p.tasks = append(f.tasks, t), append(p.tasks, t); !t.row {
			f.fresh = append(f.fresh, freshOf(a, i))
		}
	}
	return nil
}

func (p *projection) planned(ev *planner.Event, b *planner.PlanCommitted) error {
	for i := range b.Orders {
		o := &b.Orders[i]
		var err error
		if how := o.Kind.Vacates(); how != 0 {
			if x := p.attempts[o.Attempt]; x != nil {
				x.leaving = how
			}
			err = p.out.exec(ordered, int64(o.Attempt), int64(ev.Seq), int64(ev.At), how.String())
		} else if o.Kind == planner.OrderStart {
			err = p.starts(ev, o)
		}
		if err != nil {
			return err
		}
	}
	for _, wait := range b.Reasons {
		if err := p.waits(ev, wait); err != nil {
			return err
		}
	}
	p.refused = p.refused[:0]
	for _, n := range b.Notes {
		if n.Topic == planner.TopicRefused {
			p.refused = append(p.refused, n.Workflow)
		}
	}
	return p.out.addNotes(ev, b.Notes)
}

// starts takes in the order of an attempt.
func (p *projection) starts(ev *planner.Event, o *planner.Order) error {
	t, err := p.task(o.Task)
	if err != nil {
		return err
	}
	if o.Attempt < p.ordered {
		return fmt.Errorf("attempt %d of task %d: expected number %d", o.Attempt, o.Task, p.ordered)
	}
	x := &attempt{order: o, queued: ev.At, started: unit.Never}
	p.ordered, p.attempts[o.Attempt] = o.Attempt+1, x
	p.touchAttempt(x)
	if t == nil {
		return nil
	}
	if !t.formal {
		t.flow.begins(ev.At)
	}
	p.touch(t).queued = min(t.queued, ev.At)
	t.state, t.node, t.last, t.tries, t.ended = planner.Starting, o.Node, o.Attempt, o.Try, unit.Never
	t.wait, t.again = planner.Reason{}, false
	return nil
}

// begins notes that a task of a workflow was ordered, or took over outputs.
func (f *flow) begins(at planner.Time) {
	f.started = min(f.started, at)
	if f.state == "waiting" {
		f.state = "running"
	}
}

// waits takes in the reason of a task to wait.
func (p *projection) waits(ev *planner.Event, wait planner.Wait) error {
	t, err := p.task(wait.Task)
	if t == nil {
		return err
	}
	if t.again { // it wants a place again
		p.touch(t).state, t.ended, t.again = planner.Waiting, unit.Never, false
	}
	why := wait.Reason
	if why.At = 0; why == t.wait { // a time alone that moves makes no row
		return nil
	}
	t.wait = why
	return p.out.addWait(ev, wait)
}

// started takes in that an attempt runs, perhaps the next one of a task that had left its place.
func (p *projection) started(ev *planner.Event, a planner.AttemptID) error {
	x, err := p.becomes(a, planner.Running)
	if x == nil {
		return err
	}
	x.started = ev.At
	left, ok := p.away[x.order.Task]
	if !ok {
		return nil
	}
	delete(p.away, x.order.Task)
	return p.out.exec(returns, int64(left), int64(ev.At), nil)
}

func (p *projection) exited(ev *planner.Event, b *planner.AttemptExited) error {
	x, err := p.attempt(b.Attempt)
	if x == nil {
		return err
	}
	end := b.Usage.Ended
	if end == unit.Never {
		end = ev.At
	}
	p.last = latest(p.last, end) // as workflows count it: a run lasts as long as the last of them
	x.exit = b
	p.tally(x)
	if err := p.vacated(ev, x); err != nil {
		return err
	}
	if p.touchAttempt(x); p.out == nil {
		delete(p.attempts, b.Attempt)
	}
	t := p.tasks[x.order.Task]
	if t == nil {
		return nil
	}
	t.flow.last = latest(t.flow.last, end)
	switch {
	case b.Outcome == planner.OK:
		p.done(t, end)
	case !b.Final && (b.Outcome == planner.Preempted || b.Outcome == planner.Lost):
		p.touch(t).state, t.ended = planner.Waiting, unit.Never
	default:
		p.touch(t).state, t.ended, t.again = planner.Failed, end, true
	}
	return nil
}

// tally folds the end of an attempt into the chain of its task, by the rules of planner.State.
func (p *projection) tally(x *attempt) {
	t, ran := x.order.Task, int64(x.exit.Ran)
	x.before = p.chains[t]
	switch kept := x.exit.Kept; {
	case x.exit.Outcome == planner.OK:
		delete(p.chains, t)
	case x.exit.Outcome.OfProgram():
		x.lost = x.before.ran + ran
		delete(p.chains, t)
	case kept > x.before.done:
		p.chains[t] = chain{kept, x.before.ran + ran}
	default:
		x.lost = ran
	}
}

// vacated takes in the end of an attempt that may have been ordered to leave its place, or was frozen.
func (p *projection) vacated(ev *planner.Event, x *attempt) error {
	a := x.order.Attempt
	switch {
	case x.leaving == 0:
		return nil
	case x.leaving != planner.Suspend && x.exit.Outcome == planner.Preempted:
		p.away[x.order.Task] = a
		return p.out.exec(leaves, int64(a), int64(ev.At), x.lost)
	}
	if err := p.out.exec(overtaken, int64(a)); err != nil || x.leaving != planner.Suspend {
		return err
	}
	return p.out.exec(returns, int64(a), int64(ev.At), x.lost)
}

// done ends a task well, and its workflow if that was the last one.
func (p *projection) done(t *task, at planner.Time) {
	f := t.flow
	if t.state != planner.Done {
		f.left--
	}
	p.touch(t).state, t.ended = planner.Done, at
	if f.left == 0 && !f.withdrawn() {
		p.close(f, "done", f.last)
	}
}

// withdrawn reports whether a workflow was cancelled or refused.
func (f *flow) withdrawn() bool { return f.state == "cancelled" || f.state == "refused" }

func (p *projection) close(f *flow, state string, at planner.Time) {
	f.state, f.ended, f.closed = state, at, true
	if p.touchFlow(f); p.out == nil {
		p.drop(f)
	}
}

// drop forgets a workflow that is over and written.
func (p *projection) drop(f *flow) {
	p.flows[f.id] = nil
	for _, t := range f.tasks {
		p.tasks[t.id] = nil
	}
}

// latest is the later one of two instants; unit.Never is none.
func latest(a, b planner.Time) planner.Time {
	if a == unit.Never || b > a {
		return b
	}
	return a
}

func (p *projection) cancelled(ev *planner.Event, id planner.WorkflowID) {
	if id < 0 || int(id) >= len(p.flows) || p.flows[id] == nil || p.flows[id].closed {
		return
	}
	f := p.flows[id]
	p.touchFlow(f)
	f.state, f.ended = "cancelled", ev.At
	if slices.Contains(p.refused, id) { // a round refuses a workflow with a note, and the next event withdraws it
		f.state = "refused"
	}
	for _, t := range f.tasks {
		if t.state == planner.Waiting {
			p.touch(t).state = planner.Skipped
		}
	}
}

// continued puts a workflow in the place of one that ended.
func (p *projection) continued(b *planner.WorkflowContinued) error {
	var tasks []*task
	admitted := b.Of >= 0 && int(b.Of) < len(p.flows) && b.Workflow >= 0 && int(b.Workflow) < len(p.flows)
	if admitted && p.flows[b.Workflow] != nil { // an empty one is done
		tasks = p.flows[b.Workflow].tasks
	}
	if !admitted || len(b.Tries) != len(tasks) {
		return fmt.Errorf("workflow %d continues workflow %d: one of them was not admitted", b.Workflow, b.Of)
	}
	for i, t := range tasks {
		if n := b.Tries[i]; n > 0 {
			p.touch(t).tries = n
		}
	}
	if of := p.flows[b.Of]; of != nil {
		p.leave(of)
	}
	err := p.write() // its own rows first
	if err == nil {
		err = p.out.exec(continueFlow, int64(b.Workflow), int64(b.Of))
	}
	if err == nil {
		err = p.out.exec(supersedeTasks, int64(b.Of))
	}
	return err
}

// reused ends a task that takes over the outputs of an earlier attempt.
func (p *projection) reused(ev *planner.Event, b *planner.TaskReused) error {
	t, err := p.task(b.Task)
	if t == nil {
		return err
	}
	t.node, t.wait, t.again = b.Node, planner.Reason{}, false
	if b.Run == "" {
		t.last = b.Attempt
	}
	t.flow.begins(ev.At)
	p.last, t.flow.last = latest(p.last, ev.At), latest(t.flow.last, ev.At)
	p.done(t, ev.At)
	return p.out.exec(insertReuse, int64(b.Task), int64(ev.At), b.Run, int64(b.Attempt), int64(b.Ran))
}

// over ends a run that is not resumed: waiting tasks were not run, or not run again.
func (p *projection) over() {
	for _, f := range p.flows {
		if f != nil {
			p.leave(f)
		}
	}
}

// leave ends a workflow of which nothing runs any more and nothing else starts.
func (p *projection) leave(f *flow) {
	state, ended := "done", f.ended
	for _, t := range f.tasks {
		if t.state == planner.Waiting {
			p.touch(t).state = planner.Skipped
			if t.tries > 0 {
				t.state = planner.Failed
			}
		}
		if t.state != planner.Done {
			state = "failed"
		}
	}
	if f.withdrawn() {
		state = f.state
	} else if ended == unit.Never {
		ended = f.last
	}
	p.close(f, state, ended)
}

// all has the next write make rows of all that a simulation leaves, ended or not.
func (p *projection) all() {
	p.late = false
	for _, a := range slices.Sorted(maps.Keys(p.attempts)) {
		p.touchAttempt(p.attempts[a])
	}
	for _, f := range p.flows {
		if f != nil {
			p.touchFlow(f)
		}
	}
}

// write makes the rows say all that is known; those of a simulation all that has ended.
func (p *projection) write() error {
	if p.out == nil {
		return nil
	}
	for _, x := range p.changedAttempts {
		if x.changed = false; x.exit != nil {
			delete(p.attempts, x.order.Attempt)
		}
		if err := p.out.addAttempt(x); err != nil {
			return err
		}
	}
	for _, t := range p.changedTasks {
		t.dirty = false
		if err := p.out.changeTask(t, p.readyAt(t)); err != nil {
			return err
		}
	}
	for _, f := range p.changedFlows {
		if f.changed = false; p.late && !f.closed {
			continue
		}
		if err := p.writeFlow(f); err != nil {
			return err
		}
	}
	p.changedAttempts, p.changedFlows = emptied(p.changedAttempts), emptied(p.changedFlows)
	p.changedTasks = emptied(p.changedTasks)
	return nil
}

// emptied keeps the memory of s and lets go of everything in it.
func emptied[T any](s []T) []T {
	clear(s)
	return s[:0]
}

// writeFlow changes the row of a workflow, and makes rows of its tasks that are none.
func (p *projection) writeFlow(f *flow) error {
	news := f.tasks[len(f.tasks)-len(f.fresh):]
	for i, t := range news {
		if err := p.out.addTask(&f.fresh[i], t, p.readyAt(t)); err != nil {
			return err
		}
		t.row = true
	}
	f.fresh = nil
	if f.closed {
		p.drop(f)
	}
	return p.out.exec(changeFlow, append(f.values(), int64(f.id))...)
}

// readyAt is when a task became ready that was queued: unit.Never if it was not.
func (p *projection) readyAt(t *task) planner.Time {
	if t.queued == unit.Never {
		return unit.Never
	}
	ready := t.flow.ready
	for _, q := range t.parents {
		parent, err := p.task(q)
		if err != nil || parent == nil || parent.state != planner.Done {
			return unit.Never
		}
		ready = max(ready, parent.ended)
	}
	return ready
}

// Changes of the rows of suspensions of an attempt.
const (
	ordered = "INSERT OR REPLACE INTO suspensions(run, attempt, seq, ordered_ns, how) VALUES (?,?,?,?,?)"
	// one takes effect: with the instant and the work that was lost
	leaves = "UPDATE suspensions SET since_ns = ?3, lost_ns = ?4 WHERE run = ?1 AND attempt = ?2 AND since_ns IS NULL"
	// one ends: with the instant and the work that was lost, NULL if that stays
	returns = "UPDATE suspensions SET until_ns = ?3, lost_ns = coalesce(?4, lost_ns) " +
		"WHERE run = ?1 AND attempt = ?2 AND since_ns IS NOT NULL AND until_ns IS NULL"
	// one does not take effect
	overtaken = "DELETE FROM suspensions WHERE run = ?1 AND attempt = ?2 AND since_ns IS NULL"
)
