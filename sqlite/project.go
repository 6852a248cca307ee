package sqlite

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

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

	seq      uint64       // of the last event
	at       planner.Time // of the last event
	first    planner.Time // arrival; unit.Never: none
	last     planner.Time // end of an attempt; unit.Never: none
	flows    []*flow      // by workflow; nil once it is over and written
	flowOf   []planner.WorkflowID
	ordered  planner.AttemptID              // the number of the next attempt
	attempts map[planner.AttemptID]*attempt // until they are over and written
	refused  []planner.WorkflowID           // by the last round
	places   places

	changedFlows    []*flow    // since they were written
	changedAttempts []*attempt // also
}

// flow is a workflow that is not over, or not written.
type flow struct {
	id             planner.WorkflowID
	parts          []part  // where ids of tasks begin that do not follow the one before
	fresh          []fresh // until their tasks are rows
	rows           int     // tasks that are rows: those in front
	tasks          []task  // by position
	left           int     // tasks not done
	started, ended planner.Time
	state          flowState
	withdrawn      string // its state, if it was cancelled
	changed        bool
	dirty          []int32      // positions of tasks that are not as their rows say
	ready          planner.Time // before it no task is
}

// fresh is a task until it is a row: the part of its admission for the row. The whole would take much memory until the
// workflow has ended.
type fresh struct {
	spec    *executor.TaskSpec
	parents []planner.TaskID
	need    unit.Vector
	input   int64 // bytes
	id      planner.TaskID
	flow    planner.WorkflowID
	stage   int32
	imputed trace.Fields // fields that its trace did not give
	runtime bool         // the runtime is known or imputed
	formal  bool
}

func freshOf(a *executor.Admission, i int) fresh {
	t, spec := &a.Arrived.Tasks[i], a.Tasks[i]
	x := fresh{spec: spec, parents: t.Parents, need: t.Need, input: int64(t.Reads), id: t.ID, flow: t.Workflow,
		stage: t.Stage, runtime: runtimeKnown(a, i), formal: t.Formal}
	if from := a.Submission.Workflow; from != nil && i < len(from.Tasks) {
		t := &from.Tasks[i]
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

// runtimeKnown says whether a trace, or a rule in its place, has the runtime of a task.
func runtimeKnown(a *executor.Admission, i int) bool {
	if from := a.Submission.Workflow; from != nil && i < len(from.Tasks) {
		return (from.Tasks[i].Known | from.Tasks[i].Imputed).Has(trace.Runtime)
	}
	return traced(a.Tasks[i]) != 0
}

// traced is how long a task runs by its trace, on a node of speed 1.
func traced(t *executor.TaskSpec) time.Duration { return cmp.Or(t.Declared, t.Run) }

// part has the tasks of a workflow that came with one admission, and those that follow.
type part struct {
	first    planner.TaskID
	position int // of the first
}

// position returns where a task is in tasks.
func (f *flow) position(t planner.TaskID) int {
	k := len(f.parts) - 1
	for k > 0 && f.parts[k].first > t {
		k--
	}
	return f.parts[k].position + int(t-f.parts[k].first)
}

// task returns the id of the task at a position.
func (f *flow) task(position int) planner.TaskID {
	k := len(f.parts) - 1
	for k > 0 && f.parts[k].position > position {
		k--
	}
	return f.parts[k].first + planner.TaskID(position-f.parts[k].position)
}

type flowState uint8

const (
	flowOpen flowState = iota
	flowDone
	flowFailed
)

func (f *flow) name() string {
	switch {
	case f.withdrawn != "":
		return f.withdrawn
	case f.state == flowDone:
		return "done"
	case f.state == flowFailed:
		return "failed"
	case f.started != unit.Never:
		return "running"
	}
	return "waiting"
}

type task struct {
	state  taskState
	formal bool
	again  bool // the last attempt failed, and no round has mentioned the task since
	dirty  bool
	tries  int32
	node   planner.NodeID
	last   planner.AttemptID // None: no attempt yet
	queued planner.Time
	ended  planner.Time
	wait   planner.Reason // Code 0: none known
}

type taskState uint8

const (
	taskWaiting taskState = iota
	taskStarting
	taskRunning
	taskSuspended
	taskDone
	taskFailed
	taskSkipped
	taskContinued // its workflow was continued by another, whose task of that name stands for it
)

var taskStates = [...]string{"waiting", "starting", "running", "suspended", "done", "failed", "skipped", "continued"}

type attempt struct {
	order   *planner.Order
	queued  planner.Time
	started planner.Time // unit.Never: not yet
	exit    *planner.AttemptExited
	tally   tally // of exit
	changed bool
}

func newProjection() *projection {
	return &projection{first: unit.Never, last: unit.Never, attempts: map[planner.AttemptID]*attempt{},
		places: newPlaces()}
}

// apply takes in the next event; a is the admission of a workflow that arrived, else nil.
func (p *projection) apply(ev *planner.Event, a *executor.Admission) error {
	if ev.Seq != p.seq+1 {
		return fmt.Errorf("event %d follows event %d", ev.Seq, p.seq)
	}
	p.seq, p.at = ev.Seq, ev.At
	if err := p.fold(ev, a); err != nil {
		return fmt.Errorf("event %d (%v): %w", ev.Seq, ev.Body.Kind(), err)
	}
	return nil
}

func (p *projection) fold(ev *planner.Event, a *executor.Admission) error {
	switch b := ev.Body.(type) {
	case *planner.WorkflowArrived:
		return p.arrived(a)
	case *planner.WorkflowGrown:
		return p.grown(a)
	case *planner.PlanCommitted:
		return p.planned(ev, b)
	case planner.AttemptStarted:
		x, err := p.becomes(b.Attempt, taskRunning)
		if x == nil {
			return err
		}
		x.started = ev.At
		return p.places.started(p.out, ev, x.order.Task)
	case planner.AttemptSuspended:
		x, err := p.becomes(b.Attempt, taskSuspended)
		if x == nil {
			return err
		}
		return p.out.suspension(leaves, b.Attempt, int64(ev.At), int64(0))
	case planner.AttemptResumed:
		x, err := p.becomes(b.Attempt, taskRunning)
		if x == nil {
			return err
		}
		return p.places.resumed(p.out, ev, b.Attempt)
	case *planner.AttemptExited:
		return p.exited(ev, b)
	case planner.WorkflowCancelled:
		p.cancelled(ev, b.Workflow)
	case planner.TaskCancelled:
		f, i, err := p.flowOfTask(b.Task)
		if f != nil && f.tasks[i].state == taskWaiting {
			p.touchTask(f, i).state = taskSkipped
		}
		return err
	case *planner.WorkflowContinued:
		return p.continued(ev, b)
	case *planner.TaskReused:
		return p.reused(ev, b)
	}
	return nil
}

// flowOfTask returns the workflow of a task and the position of the task; nil if the workflow is over.
func (p *projection) flowOfTask(t planner.TaskID) (*flow, int, error) {
	if t < 0 || int(t) >= len(p.flowOf) {
		return nil, 0, fmt.Errorf("task %d was not admitted", t)
	}
	f := p.flows[p.flowOf[t]]
	if f == nil {
		return nil, 0, nil
	}
	return f, f.position(t), nil
}

// attempt returns an attempt; nil if it is over.
func (p *projection) attempt(a planner.AttemptID) (*attempt, error) {
	if a < 0 || a >= p.ordered {
		return nil, fmt.Errorf("attempt %d was not ordered", a)
	}
	return p.attempts[a], nil
}

// touchTask returns a task of f that is about to change.
func (p *projection) touchTask(f *flow, i int) *task {
	t := &f.tasks[i]
	if i < f.rows && !t.dirty && p.out != nil {
		t.dirty = true
		f.dirty = append(f.dirty, int32(i))
	}
	p.touch(f)
	return t
}

func (p *projection) touch(f *flow) {
	if !f.changed && p.out != nil {
		f.changed = true
		p.changedFlows = append(p.changedFlows, f)
	}
}

// touchAttempt has an attempt written; a simulation writes those that ended.
func (p *projection) touchAttempt(x *attempt) {
	if !x.changed && p.out != nil && (!p.late || x.exit != nil) {
		x.changed = true
		p.changedAttempts = append(p.changedAttempts, x)
	}
}

// becomes gives the task of an attempt another state; the attempt is nil if it is over.
func (p *projection) becomes(a planner.AttemptID, state taskState) (*attempt, error) {
	x, err := p.attempt(a)
	if x == nil {
		return nil, err
	}
	p.touchAttempt(x)
	if f, i, err := p.flowOfTask(x.order.Task); f == nil {
		return x, err
	} else {
		t := p.touchTask(f, i)
		t.state, t.ended = state, unit.Never
	}
	return x, nil
}

func (p *projection) arrived(a *executor.Admission) error {
	if len(a.Tasks) != len(a.Arrived.Tasks) {
		return fmt.Errorf("workflow %s: %d tasks planned, %d to be run", a.Submission.Name, len(a.Arrived.Tasks),
			len(a.Tasks))
	}
	f := &flow{id: a.Arrived.Workflow.ID, started: unit.Never, ended: unit.Never,
		ready: max(a.Arrived.Workflow.Arrived, a.Arrived.Workflow.Release)}
	if p.add(f, a); len(a.Tasks) == 0 {
		f.state, f.started, f.ended = flowDone, a.Arrived.Workflow.Arrived, a.Arrived.Workflow.Arrived
	}
	p.flows = put(p.flows, f.id, f)
	p.first = min(p.first, a.Arrived.Workflow.Arrived)
	p.touch(f)
	return p.out.addFlow(f, a)
}

// add takes in the tasks of an admission.
func (p *projection) add(f *flow, a *executor.Admission) {
	if n := len(a.Tasks); n > 0 {
		first := a.Arrived.Tasks[0].ID
		if k := len(f.parts) - 1; k < 0 || f.position(first) != len(f.tasks) {
			f.parts = append(f.parts, part{first, len(f.tasks)})
		}
		f.left += n
	}
	f.tasks = slices.Grow(f.tasks, len(a.Tasks))
	for i := range a.Tasks {
		f.tasks = append(f.tasks, task{last: planner.None, queued: unit.Never, ended: unit.Never,
			formal: a.Arrived.Tasks[i].Formal})
		p.flowOf = put(p.flowOf, a.Arrived.Tasks[i].ID, f.id)
	}
	if p.out == nil { // they are
		f.rows = len(f.tasks)
		return
	}
	f.fresh = slices.Grow(f.fresh, len(a.Tasks))
	for i := range a.Tasks {
		f.fresh = append(f.fresh, freshOf(a, i))
	}
}

func (p *projection) planned(ev *planner.Event, b *planner.PlanCommitted) error {
	if err := p.places.planned(p.out, ev, b.Orders); err != nil {
		return err
	}
	for i := range b.Orders {
		x := &b.Orders[i]
		if x.Kind != planner.OrderStart {
			continue
		}
		f, pos, err := p.flowOfTask(x.Task)
		if err != nil {
			return err
		}
		if x.Attempt < p.ordered {
			return fmt.Errorf("attempt %d of task %d: expected number %d", x.Attempt, x.Task, p.ordered)
		}
		a := &attempt{order: x, queued: ev.At, started: unit.Never}
		p.ordered, p.attempts[x.Attempt] = x.Attempt+1, a
		p.touchAttempt(a)
		if f == nil {
			continue
		}
		t := p.touchTask(f, pos)
		if !t.formal {
			f.started = min(f.started, ev.At)
		}
		t.state, t.node, t.last, t.tries, t.queued, t.ended = taskStarting, x.Node, x.Attempt, x.Try,
			min(t.queued, ev.At), unit.Never
		t.wait, t.again = planner.Reason{}, false
	}
	for _, wait := range b.Reasons {
		f, pos, err := p.flowOfTask(wait.Task)
		if f == nil {
			if err != nil {
				return err
			}
			continue
		}
		t := &f.tasks[pos]
		if t.again { // it wants a place again
			t = p.touchTask(f, pos)
			t.state, t.ended, t.again = taskWaiting, unit.Never, false
		}
		last, now := &t.wait, wait.Reason
		if last.Code == now.Code && last.Dim == now.Dim && last.Node == now.Node {
			continue // a time alone that moves makes no row
		}
		*last = now
		if err := p.out.addWait(ev, wait); err != nil {
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

func (p *projection) exited(ev *planner.Event, b *planner.AttemptExited) error {
	x, err := p.attempt(b.Attempt)
	if x == nil {
		return err
	}
	end := b.Usage.Ended
	if end == unit.Never {
		end = ev.At
	}
	if p.last == unit.Never || end > p.last { // as workflows count it: a run lasts as long as the last of them
		p.last = end
	}
	if x.tally, err = p.places.exited(p.out, ev, x.order.Task, b); err != nil {
		return err
	}
	x.exit = b
	f, i, err := p.flowOfTask(x.order.Task)
	if err != nil {
		return err
	}
	p.touchAttempt(x)
	if p.out == nil {
		delete(p.attempts, b.Attempt)
	}
	if f == nil {
		return nil
	}
	t := p.touchTask(f, i)
	switch {
	case b.Outcome == planner.OK:
		if t.state != taskDone {
			f.left--
		}
		t.state, t.ended = taskDone, end
		p.done(f)
	case !b.Final && (b.Outcome == planner.Preempted || b.Outcome == planner.Lost):
		t.state, t.ended = taskWaiting, unit.Never
	default:
		t.state, t.ended, t.again = taskFailed, end, true
	}
	return nil
}

// lastEnd is when the last task of a workflow ended; unit.Never if none did.
func lastEnd(f *flow) planner.Time {
	end := unit.Never
	for i := range f.tasks {
		if t := f.tasks[i].ended; t != unit.Never && (end == unit.Never || t > end) {
			end = t
		}
	}
	return end
}

func (p *projection) cancelled(ev *planner.Event, id planner.WorkflowID) {
	if id < 0 || int(id) >= len(p.flows) || p.flows[id] == nil {
		return
	}
	f := p.flows[id]
	p.touch(f)
	f.withdrawn, f.ended = "cancelled", ev.At
	for _, r := range p.refused { // a round refuses a workflow with a note, and the next event withdraws it
		if r == id {
			f.withdrawn = "refused"
		}
	}
	for i := range f.tasks {
		if f.tasks[i].state == taskWaiting {
			p.touchTask(f, i).state = taskSkipped
		}
	}
}

// continued puts a workflow in the place of one that ended.
func (p *projection) continued(ev *planner.Event, b *planner.WorkflowContinued) error {
	if b.Of < 0 || int(b.Of) >= len(p.flows) || b.Workflow < 0 || int(b.Workflow) >= len(p.flows) ||
		p.flows[b.Workflow] == nil || len(b.Tries) != len(p.flows[b.Workflow].tasks) {
		return fmt.Errorf("workflow %d continues workflow %d: one of them was not admitted", b.Workflow, b.Of)
	}
	f := p.flows[b.Workflow]
	p.touch(f)
	for i, n := range b.Tries {
		if n > 0 {
			p.touchTask(f, i).tries = n
		}
	}
	if of := p.flows[b.Of]; of != nil {
		p.touch(of)
		of.withdrawn = "continued"
		if of.ended == unit.Never {
			of.ended = ev.At
		}
		for i := range of.tasks {
			p.touchTask(of, i).state = taskContinued
		}
	}
	return p.out.addContinued(b)
}

// done ends a workflow if that was its last task.
func (p *projection) done(f *flow) {
	if f.left == 0 && f.withdrawn == "" {
		f.state, f.ended = flowDone, lastEnd(f)
		if p.out == nil {
			p.flows[f.id] = nil
		}
	}
}

// reused ends a task that takes over the outputs of an earlier attempt.
func (p *projection) reused(ev *planner.Event, b *planner.TaskReused) error {
	f, i, err := p.flowOfTask(b.Task)
	if f == nil {
		return err
	}
	t := p.touchTask(f, i)
	if t.state != taskDone {
		f.left--
	}
	t.state, t.node, t.ended, t.wait, t.again = taskDone, b.Node, ev.At, planner.Reason{}, false
	if b.Run == "" {
		t.last = b.Attempt
	}
	f.started = min(f.started, ev.At)
	if p.last == unit.Never || ev.At > p.last {
		p.last = ev.At
	}
	p.done(f)
	return p.out.addReused(ev, b)
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
	done := true
	for i := range f.tasks {
		if f.tasks[i].state == taskWaiting && f.withdrawn != "continued" {
			t := p.touchTask(f, i)
			t.state = taskSkipped
			if t.tries > 0 {
				t.state = taskFailed
			}
		}
		done = done && f.tasks[i].state == taskDone
	}
	p.touch(f)
	if f.withdrawn != "" {
		return
	}
	if f.state = flowFailed; done {
		f.state = flowDone
	}
	if f.ended == unit.Never {
		f.ended = lastEnd(f)
	}
}

// write makes the rows say all that is known; those of a simulation all that has ended.
func (p *projection) write() error {
	return p.writeIf(func(f *flow) bool { return !p.late || f.state != flowOpen })
}

// writeAll is write, also for the workflows that a simulation leaves open.
func (p *projection) writeAll() error {
	p.changedAttempts = p.changedAttempts[:0]
	for _, a := range slices.Sorted(maps.Keys(p.attempts)) {
		p.changedAttempts = append(p.changedAttempts, p.attempts[a])
	}
	for _, f := range p.flows {
		if f != nil {
			p.touch(f)
		}
	}
	return p.writeIf(func(*flow) bool { return true })
}

func (p *projection) writeIf(of func(*flow) bool) error {
	for _, x := range p.changedAttempts {
		if x.changed = false; x.exit != nil {
			delete(p.attempts, x.order.Attempt)
		}
		if err := p.out.addAttempt(x); err != nil {
			return err
		}
	}
	p.changedAttempts = emptied(p.changedAttempts)
	return p.writeFlows(of)
}

// emptied keeps the memory of s and lets go of everything in it.
func emptied[T any](s []T) []T {
	clear(s)
	return s[:0]
}

func (p *projection) writeFlows(of func(*flow) bool) error {
	for _, f := range p.changedFlows {
		if !of(f) {
			f.changed = false
			continue
		}
		if err := p.writeTasks(f); err != nil {
			return err
		}
	}
	for _, f := range p.changedFlows {
		if !f.changed {
			continue
		}
		f.changed = false
		if err := p.out.changeFlow(f); err != nil {
			return err
		}
		if f.state != flowOpen {
			p.flows[f.id] = nil
			f.tasks = nil
		}
	}
	p.changedFlows = emptied(p.changedFlows)
	return nil
}

// readyAt is when a task became ready that was queued, and the workflow of its parents: unit.Never if it was not.
func (f *flow) readyAt(x *fresh, t *task) planner.Time {
	if t.queued == unit.Never {
		return unit.Never
	}
	ready := f.ready
	for _, q := range x.parents {
		parent := &f.tasks[f.position(q)]
		if parent.state != taskDone {
			return unit.Never
		}
		ready = max(ready, parent.ended)
	}
	return ready
}

// writeTasks makes rows of the tasks of a workflow, or changes those that are.
func (p *projection) writeTasks(f *flow) error {
	if len(f.fresh) > 0 {
		for i := range f.fresh {
			x, t := &f.fresh[i], &f.tasks[f.rows]
			if err := p.out.addTask(x, t, f.readyAt(x, t)); err != nil {
				return err
			}
			f.rows++
		}
		f.fresh = nil
	}
	for _, i := range f.dirty {
		f.tasks[i].dirty = false
		if err := p.out.changeTask(f, int(i)); err != nil {
			return err
		}
	}
	f.dirty = f.dirty[:0]
	return nil
}
