package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace/reader"
	"gantry/trace/shown"
)

// Control asks a running engine to end early. Each leaves the run resumable.
type Control uint8

const (
	Drain Control = iota + 1 // start nothing more, let attempts that run or are frozen end
	Stop                     // end running attempts, with grace; resume starts their tasks again
	Abort                    // kill running attempts at once
)

// Engine runs workflows: the loop between events and plans.
//
// Each turn waits for Runtime.Next, takes in all events of that instant, asks the policy once, and gives events and
// plan to the Store in one transaction. The orders are carried out after that, and only then may the runtime forget
// attempts that ended. So a crash at any point loses nothing that had an effect. State changes by events only, and a
// PlanCommitted is applied like any other event.
type Engine struct {
	Runtime  Runtime
	Store    Store // nil: nothing is kept
	Planner  *planner.Planner
	Admit    *Admitter
	Arrivals []Submission // to come, by arrival
	Control  <-chan Control
	Inbox    *Inbox        // nil: nothing is asked of a run under way
	FailFast bool          // the first task that fails for good ends everything
	Grace    time.Duration // between SIGTERM and SIGKILL
	Reuse    Reuser        // nil: every task runs
	// OnSettled receives the submissions that were settled without arriving, after that was kept; nil: nobody asks.
	OnSettled func([]Settled)
	// Watch receives every batch after it was kept: progress for people. It must be quick.
	Watch func(v planner.View, events []planner.Event, admitted []*Admission)
	// Wall reads a clock to time the policy; nil times nothing. It never influences a decision.
	Wall func() time.Duration
	// Charge, with Wall and a Runtime that is a Spender, lets each round take Charge times as long in virtual time as
	// it did by Wall: its orders begin only then, and events meanwhile are seen after it. The course of a simulation
	// then depends on the machine. 0: none.
	Charge float64
	Faults *Faults // nil: none

	specs    []*TaskSpec // by task
	files    []*FileSpec // by file
	filesOf  map[planner.WorkflowID][]planner.FileID
	control  Control
	batch    Batch
	ended    []planner.TaskID // of workflows that have ended: the next round may still ask for their estimates
	exited   []planner.AttemptID
	failing  bool
	rejected []error
	asked    map[planner.TaskID]bool                // of Reuse
	names    map[planner.WorkflowID]map[string]bool // of tasks; see named
	held     []Submission                           // single tasks that have not joined a workflow
	refs     map[int64]Ref                          // submissions by id
	ids      map[planner.TaskID]int64               // of single tasks
	joined   map[string]planner.WorkflowID          // by key: the last one
	arrays   map[int64][]planner.TaskID             // by Join.First: those under way
	answers  []*request                             // taken in by this turn
	kills    []planner.AttemptID                    // of cancelled workflows
	shrinks  map[planner.NodeID]unit.Vector         // capacities that nodes get once their attempts have ended

	recovered bool // from a log, and no turn was taken since
}

// Result is how a run ended.
type Result struct {
	Ended       planner.Time
	Interrupted bool    // by Control
	Refused     []error // submissions that could not be admitted
}

// ErrStuck means that tasks are left, nothing runs and nothing will happen any more.
var ErrStuck = errors.New("no task is running and none of the remaining tasks fits any node")

// ErrTooLong means that a simulation came to the end of time.
var ErrTooLong = errors.New("it goes beyond 292 years, where gantry's time ends: shorten runtimes, or scale them by " +
	"--time-scale")

// Run loops until every workflow has ended or control says so. It is called once. The error is that of the store, the
// runtime or the planner: tasks that fail are no error.
func (e *Engine) Run(ctx context.Context) (Result, error) {
	e.Grace = cmp.Or(e.Grace, 10*time.Second)
	defer func() { e.Planner.End() }()
	e.Planner.Call(called{e})
	err := e.killAgain(ctx)
	for err == nil && !e.finished() {
		err = e.turn(ctx)
	}
	if e.Inbox != nil {
		why := ErrClosed
		if err != nil {
			why = fmt.Errorf("%w: %w", ErrClosed, err)
		}
		e.answer(why)
		e.Inbox.end(why)
	}
	v := e.Planner.View()
	left := len(v.Present()) + len(e.Arrivals) + len(e.held)
	return Result{Ended: v.Now(), Interrupted: e.control != 0 && left > 0, Refused: e.rejected}, err
}

// called has the names of the tasks, workflows and tenants of an engine, as planner.Names.
type called struct{ e *Engine }

func (c called) OfTask(t planner.TaskID) (name, kind string) {
	if s := c.e.specs[t]; s != nil {
		return s.Name, s.Kind
	}
	return "", "" // its workflow has ended
}

func (c called) OfWorkflow(w planner.WorkflowID) string {
	if s := c.e.specs[c.e.Planner.View().First(w)]; s != nil {
		return s.Workflow.Name
	}
	return ""
}

func (c called) OfTenant(m planner.TenantID) string { return c.e.Admit.TenantName(m) }

// finished reports whether nothing is left to do, or to wait for once nothing more starts.
func (e *Engine) finished() bool {
	v := e.Planner.View()
	return len(e.Arrivals)+len(e.held) == 0 && len(v.Present()) == 0 && !e.Inbox.open() ||
		e.control != 0 && v.UnderWayCount() == 0
}

// turn takes the loop round once: all events of one instant, and their consequences.
func (e *Engine) turn(ctx context.Context) error {
	// 1. Wait until something happens. A run that was resumed plans at once: nothing else may happen before, and no
	// log has the wake that the policy asked for.
	v, until := e.Planner.View(), e.until()
	resumed := e.control == 0 && (e.recovered || v.UnderWayCount() == 0) && e.Planner.Due(v.Now())
	if e.recovered = false; resumed {
		until = e.Runtime.Now()
	}
	bodies, err := e.next(ctx, until, v.UnderWayCount())
	if err != nil {
		return err
	}
	// 2. Take all of it in: the policy is asked once, about the whole instant.
	now := max(e.Runtime.Now(), v.Now())
	if err := e.happen(ctx, now, bodies, resumed); err != nil {
		return err
	}
	if len(e.batch.Events)+len(e.batch.Settled) == 0 && e.control == 0 && !resumed {
		e.answer(nil)
		return e.endLost(ctx)
	}
	// 3. Plan.
	arrived := len(e.batch.Admissions) > 0
	if slices.ContainsFunc(e.batch.Admissions, (*Admission).large) {
		if err := e.keep(ctx); err != nil { // the trace need not stay in memory while the workflow is planned
			return err
		}
	}
	orders, err := e.plan(ctx, now, arrived)
	if err != nil {
		return err
	}
	// 4. Keep it, then carry it out.
	if err := e.keep(ctx); err != nil {
		return err
	}
	e.answer(nil)
	if err := e.carryOutAll(ctx, orders); err != nil {
		return err
	}
	if err := e.killCancelled(ctx); err != nil {
		return err
	}
	return e.endLost(ctx)
}

// happen takes in the events of an instant: those that the runtime reports, then releases or the wake that was asked
// for, then arrivals and the tasks without time that are ready, which may let each other come about.
func (e *Engine) happen(ctx context.Context, now planner.Time, bodies []planner.Body, resumed bool) error {
	woken := e.Planner.Released(now) || len(bodies) == 0 && !resumed && now >= e.Planner.Wake()
	for _, b := range bodies {
		if err := e.take(now, b); err != nil {
			return err
		}
	}
	if woken {
		if err := e.take(now, planner.Woke{}); err != nil {
			return err
		}
	}
	if e.FailFast && e.failing && e.control == 0 {
		if err := e.withdraw(now); err != nil {
			return err
		}
	}
	if err := e.disturb(now); err != nil {
		return err
	}
	if err := e.shrink(now); err != nil {
		return err
	}
	e.requests(now)
	for more := true; more; {
		if err := e.arrive(now); err != nil {
			return err
		}
		formal, err := e.formalities(now)
		if err != nil {
			return err
		}
		joined, err := e.joins(now)
		if err != nil {
			return err
		}
		reused, err := e.reuse(ctx, now)
		if err != nil {
			return err
		}
		more = formal || joined || reused
	}
	return nil
}

// carryOutAll gives the runtime its orders, and lets it forget the attempts whose end is kept now.
func (e *Engine) carryOutAll(ctx context.Context, orders []planner.Order) error {
	for i := range orders {
		if err := e.carryOut(ctx, &orders[i]); err != nil {
			return err
		}
	}
	for _, a := range e.exited {
		if err := e.Runtime.Forget(ctx, a); err != nil {
			return err
		}
	}
	e.exited = e.exited[:0]
	return nil
}

// until is the next instant at which something is due even without an event.
func (e *Engine) until() planner.Time {
	if e.control != 0 {
		return unit.Never
	}
	until := e.Planner.Wake()
	if len(e.Arrivals) > 0 && !e.full() {
		until = min(until, e.Arrivals[0].At)
	}
	idle := until == unit.Never && e.Planner.View().UnderWayCount()+e.Planner.Draft().Copying() == 0
	return min(until, e.Faults.next(idle))
}

// full reports whether the next workflow has to wait outside.
func (e *Engine) full() bool {
	most := e.Arrivals[0].Population
	return most > 0 && len(e.Planner.View().Present()) >= most
}

// next lets time pass. Control and requests cut the wait short.
func (e *Engine) next(ctx context.Context, until planner.Time, underWay int) ([]planner.Body, error) {
	if e.Control == nil && e.Inbox == nil {
		return e.waitFor(ctx, until, underWay)
	}
	var bell <-chan struct{}
	if e.Inbox != nil {
		bell = e.Inbox.bell
		if e.Inbox.pending() {
			until = min(until, e.Runtime.Now())
		}
	}
	select {
	case c, ok := <-e.Control:
		return nil, e.obey(ctx, c, ok)
	default:
	}
	if r, ok := e.Runtime.(Instant); ok && r.Instant() {
		return e.waitFor(ctx, until, underWay)
	}
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	heard := make(chan func() error, 1)
	finished := make(chan struct{})
	go func() {
		select {
		case c, ok := <-e.Control:
			heard <- func() error { return e.obey(ctx, c, ok) }
			cancel()
		case <-bell:
			heard <- func() error { return nil }
			cancel()
		case <-finished:
			heard <- nil
		}
	}()
	bodies, err := e.waitFor(wait, until, underWay)
	close(finished)
	if obey := <-heard; obey != nil {
		if err := obey(); err != nil {
			return nil, err
		}
		if errors.Is(err, context.Canceled) && ctx.Err() == nil {
			err = nil
		}
	}
	return bodies, err
}

func (e *Engine) waitFor(ctx context.Context, until planner.Time, underWay int) ([]planner.Body, error) {
	if underWay+e.Planner.Draft().Copying() == 0 && until == unit.Never && e.control == 0 && !e.Inbox.open() {
		bodies, err := e.Runtime.Next(ctx, e.Runtime.Now())  // a node may be there again
		if err == nil && len(bodies) == 0 && !e.finished() { // the inbox may just have been closed
			why := ErrStuck
			if e.Runtime.Now() > unit.Never-planner.Time(reader.MaxTime) { // no plan ends in time
				why = ErrTooLong
			}
			err = fmt.Errorf("%w: %s", why, e.leftOver())
		}
		return bodies, err
	}
	return e.Runtime.Next(ctx, until)
}

// obey carries out a control; each level includes those below it.
func (e *Engine) obey(ctx context.Context, c Control, ok bool) error {
	if !ok {
		e.Control = nil
		return nil
	}
	if c <= e.control {
		return nil
	}
	e.control = c
	grace := e.Grace
	if c == Abort {
		grace = 0
	}
	if c == Drain {
		return nil
	}
	v := e.Planner.View()
	for a := range v.UnderWay() {
		var err error
		if c < Abort && v.Task(v.Attempt(a).Task).Checkpointable {
			err = e.Runtime.Checkpoint(ctx, a, grace)
		} else {
			err = e.Runtime.Kill(ctx, a, planner.Preempted, grace)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// withdraw cancels all workflows, present and to come, and ends running attempts.
func (e *Engine) withdraw(now planner.Time) error {
	e.Arrivals = nil
	e.failing = false
	for _, w := range slices.Clone(e.Planner.View().Present()) {
		if err := e.take(now, planner.WorkflowCancelled{Workflow: w}); err != nil {
			return err
		}
	}
	e.kills = slices.AppendSeq(e.kills, e.Planner.View().UnderWay())
	return nil
}

// take numbers an event and applies it.
func (e *Engine) take(now planner.Time, b planner.Body) error {
	v, t := e.Planner.View(), planner.TaskID(planner.None) // that ends
	unwell := false                                        // it may not end well
	switch x := b.(type) {
	case planner.TaskCancelled:
		t, unwell = x.Task, true
	case *planner.AttemptExited:
		if int(x.Attempt) >= v.Attempts() {
			break // which is an error
		}
		att := v.Attempt(x.Attempt)
		if att.Over {
			return nil // said twice, as after an adoption
		}
		if att.Node != planner.None { // no runtime has heard of formal tasks
			e.exited = append(e.exited, x.Attempt)
		}
		t, unwell = att.Task, x.Outcome != planner.OK
	case planner.AttemptStarted:
		if e.Faults == nil || int(x.Attempt) >= v.Attempts() || v.Attempt(x.Attempt).Node == planner.None {
			break
		}
		att := v.Attempt(x.Attempt)
		e.Faults.started(now, x.Attempt, att, e.specs[att.Task].TrueRun(att.Node, v.Nodes()[att.Node].Speed))
	}
	var below []planner.TaskID
	if unwell {
		below = e.submittedBelow(t) // with the end of its workflow it loses its links
	}
	ev := planner.Event{Seq: e.Planner.Seq() + 1, At: now, Body: b}
	if err := e.Planner.Apply(ev); err != nil {
		return err
	}
	e.batch.Events = append(e.batch.Events, ev)
	if unwell && v.Phase(t).Ended() {
		e.failing = e.failing || v.Phase(t) == planner.Failed
		e.cancelBelow(now, t, below)
	}
	if t != planner.None {
		e.forget(v.Task(t).Workflow)
	}
	return nil
}

// forget lets go of a workflow that has ended: a long stream is mostly such.
func (e *Engine) forget(w planner.WorkflowID) {
	if left, failed := e.Planner.View().Progress(w); left == 0 {
		if failed > 0 {
			e.batch.Failed = append(e.batch.Failed, w)
		}
		for t := range e.Planner.View().All(w) {
			if e.specs[t] != nil && e.Admit.Forget != nil {
				e.ended = append(e.ended, t)
			}
			e.specs[t] = nil
		}
		for _, f := range e.filesOf[w] {
			e.files[f] = nil
		}
		delete(e.filesOf, w)
		delete(e.names, w)
	}
}

// over reports whether all tasks of a workflow have ended.
func (e *Engine) over(w planner.WorkflowID) bool {
	left, _ := e.Planner.View().Progress(w)
	return left == 0
}

// arrive admits the submissions whose time has come. A submission that cannot run here is refused with its reason; the
// others go on.
func (e *Engine) arrive(now planner.Time) error {
	for len(e.Arrivals) > 0 && e.Arrivals[0].At <= now && !e.full() && e.control == 0 {
		sub := e.Arrivals[0]
		sub.delay(now)
		e.Arrivals[0] = Submission{} // a large trace need not stay in memory once it was logged
		e.Arrivals = e.Arrivals[1:]
		if sub.Next != nil {
			if next := sub.Next(); next != nil {
				e.come(*next)
			}
			sub.Next = nil
		}
		if sub.Joins != nil {
			e.held = append(e.held, sub)
			continue
		}
		if err := e.enter(&sub, now); err != nil {
			return err
		}
	}
	return nil
}

// come lets a submission arrive later, after those of the same instant.
func (e *Engine) come(sub Submission) {
	i, _ := slices.BinarySearchFunc(e.Arrivals, sub.At, func(s Submission, at planner.Time) int {
		return cmp.Or(cmp.Compare(s.At, at), -1)
	})
	e.Arrivals = slices.Insert(e.Arrivals, i, sub)
}

// know keeps the specifications of the tasks and files of a workflow, for the runtime.
func (e *Engine) know(adm *Admission) {
	if e.filesOf == nil {
		e.filesOf = map[planner.WorkflowID][]planner.FileID{}
	}
	for _, f := range adm.Files {
		e.files = append(e.files, f)
		e.filesOf[adm.Spec.ID] = append(e.filesOf[adm.Spec.ID], f.ID)
	}
	if adm.Grown() { // a task from the log has a copy of the specification that the engine has
		adm.Tasks[0].Workflow = e.specs[e.Planner.View().First(adm.Spec.ID)].Workflow
	}
	e.specs = append(e.specs, adm.Tasks...)
	if names := e.names[adm.Spec.ID]; names != nil {
		names[adm.Tasks[0].Name] = true
	}
}

// formalities starts and ends the formal tasks that are ready, and says whether there were any: they take no time, and
// no runtime hears of them.
func (e *Engine) formalities(now planner.Time) (any bool, err error) {
	for e.control == 0 {
		pc := e.Planner.Formalities(now)
		if pc == nil {
			break
		}
		any = true
		if err := e.take(now, pc); err != nil {
			return any, err
		}
		for i := range pc.Orders {
			a := pc.Orders[i].Attempt
			if err := e.take(now, planner.AttemptStarted{Attempt: a}); err != nil {
				return any, err
			}
			usage := planner.Usage{Queued: now, Staged: now, Created: now, Started: now, Ended: now,
				Missing: planner.CountersAll}
			if err := e.take(now, &planner.AttemptExited{Attempt: a, Outcome: planner.OK, Usage: usage}); err != nil {
				return any, err
			}
		}
	}
	return any, nil
}

// refuse withdraws the workflows that the policy has refused; see planner.Refuser.
func (e *Engine) refuse(now planner.Time, notes []planner.Note) error {
	for i := range notes {
		if notes[i].Topic != planner.TopicRefused {
			continue
		}
		if err := e.take(now, planner.WorkflowCancelled{Workflow: notes[i].Workflow}); err != nil {
			return err
		}
	}
	return nil
}

// plan asks the policy once, if a round could differ from the last one; arrived says that workflows have. Before that
// it lets frozen tasks continue if the policy does not; once nothing more is to start, it does nothing else.
func (e *Engine) plan(ctx context.Context, now planner.Time, arrived bool) (orders []planner.Order, err error) {
	if e.control == Drain || e.control == 0 && e.Planner.Thaws() {
		if pc := e.Planner.Thaw(now); pc != nil {
			orders = pc.Orders
			if err := e.take(now, pc); err != nil {
				return nil, err
			}
		}
	}
	if e.control != 0 || !e.Planner.Due(now) {
		return orders, nil
	}
	var begun time.Duration
	if e.Wall != nil {
		begun = e.Wall()
	}
	pc, err := e.Planner.Plan(ctx, now)
	if err != nil {
		return nil, err
	}
	var took time.Duration
	if e.Wall != nil {
		took = e.Wall() - begun
		if r, ok := e.Runtime.(Spender); ok && e.Charge > 0 {
			r.Spend(time.Duration(e.Charge * float64(took)))
		}
	}
	for _, t := range e.ended {
		e.Admit.Forget(t)
	}
	e.ended = e.ended[:0]
	if len(pc.Orders)+len(pc.Reasons)+len(pc.Notes) == 0 {
		if e.Wall == nil || !arrived {
			return orders, nil
		}
		// the time to map a workflow is kept even if nothing is to be done yet
		pc = &planner.PlanCommitted{Round: pc.Round}
	}
	pc.Took = took
	if err := e.take(now, pc); err != nil {
		return nil, err
	}
	return append(orders, pc.Orders...), e.refuse(now, pc.Notes)
}

// keep makes the batch durable, before anything of it has an effect.
func (e *Engine) keep(ctx context.Context) error {
	if len(e.batch.Events)+len(e.batch.Settled) == 0 {
		return nil
	}
	if e.Store != nil {
		if err := e.Store.Append(ctx, e.batch); err != nil {
			return err
		}
	}
	if e.Watch != nil {
		e.Watch(e.Planner.View(), e.batch.Events, e.batch.Admissions)
	}
	if e.OnSettled != nil && len(e.batch.Settled) > 0 {
		e.OnSettled(e.batch.Settled)
	}
	clear(e.batch.Events)
	clear(e.batch.Admissions)
	clear(e.batch.Settled)
	e.batch.Events, e.batch.Admissions = e.batch.Events[:0], e.batch.Admissions[:0]
	e.batch.Settled, e.batch.Failed = e.batch.Settled[:0], e.batch.Failed[:0]
	return nil
}

func (e *Engine) carryOut(ctx context.Context, o *planner.Order) error {
	var err error
	switch o.Kind {
	case planner.OrderStart:
		err = e.Runtime.Start(ctx, e.launch(o.Attempt))
	case planner.OrderSuspend:
		err = e.Runtime.Suspend(ctx, o.Attempt)
	case planner.OrderResume:
		err = e.Runtime.Resume(ctx, o.Attempt)
	case planner.OrderKill:
		err = e.Runtime.Kill(ctx, o.Attempt, planner.Preempted, e.Grace)
	case planner.OrderCheckpoint:
		err = e.Runtime.Checkpoint(ctx, o.Attempt, e.Grace)
	case planner.OrderCopy:
		err = e.Runtime.Copy(ctx, Copy{File: o.File, Spec: e.files[o.File], Workflow: e.specs[o.Task].Workflow,
			From: o.From, To: o.Node})
	}
	if err != nil {
		return fmt.Errorf("%s task %s of workflow %s: %w", o.Kind, e.specs[o.Task].Name, e.specs[o.Task].Workflow.Name,
			err)
	}
	return nil
}

// launch is all that a runtime needs to know of an attempt.
func (e *Engine) launch(a planner.AttemptID) Launch {
	v := e.Planner.View()
	att := v.Attempt(a)
	l := Launch{Attempt: a, Task: att.Task, Try: att.Try, Node: att.Node, Hold: att.Hold, GPUs: att.GPUs,
		Queued: att.Ordered, Spec: e.specs[att.Task], Ahead: att.Ahead,
		Started: att.Started != unit.Never, Suspended: v.Phase(att.Task) == planner.Suspended, Since: att.Suspended,
		Paused: att.Paused, Leaving: att.Leaving}
	task := v.Task(att.Task)
	if by := v.KeptBy(att.Task); by != planner.None {
		on, in := v.Checkpoint(att.Task)
		l.From = &Checkpoint{Try: v.Attempt(by).Try, Node: on, Done: v.Done(att.Task), In: in,
			Size: task.CheckpointSize}
	}
	if task.Checkpointable {
		l.Keeps = &Keeping{task.CheckpointSize}
	}
	if len(v.Nodes()) > 1 {
		for _, f := range task.Inputs {
			if from := v.Nearest(f, att.Node); from != att.Node && from != planner.None {
				l.Fetch = append(l.Fetch, Fetch{File: f, Spec: e.files[f], From: from})
			}
		}
	}
	return l
}

// Replay takes one batch of a log back in, before Run.
func (e *Engine) Replay(b Batch) error {
	admitted := b.Admissions
	for _, ev := range b.Events {
		if admits(ev.Body) && len(admitted) > 0 {
			e.Admit.Resume(admitted[0])
			e.know(admitted[0])
			admitted = admitted[1:]
		}
		if err := e.Planner.Apply(ev); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		switch x := ev.Body.(type) {
		case planner.NodeChanged:
			e.shrinking(x)
		case *planner.AttemptExited:
			e.forget(e.Planner.View().Task(e.Planner.View().Attempt(x.Attempt).Task).Workflow)
		}
	}
	e.batch.Failed = e.batch.Failed[:0] // the log has them
	return nil
}

// Recover ends a replay: the policy meets everything again, and the runtime gets the attempts that were under way.
func (e *Engine) Recover(ctx context.Context) error {
	e.Planner.Restore()
	e.recovered = true
	v := e.Planner.View()
	var live []Launch
	for a := range v.UnderWay() {
		live = append(live, e.launch(a))
	}
	r, ok := e.Runtime.(Recoverer)
	if !ok {
		if len(live) > 0 {
			return fmt.Errorf("%d attempts were under way, and this runtime keeps none", len(live))
		}
		return nil
	}
	if err := r.Recover(ctx, live); err != nil {
		return err
	}
	return e.repeatOrders(ctx, live)
}

// PlansBy notes for the log that another policy plans from now on a run that continues, of which it was told all.
func (e *Engine) PlansBy(policy string) error {
	return e.take(e.Planner.View().Now(), planner.PolicyChanged{Policy: policy})
}

// repeatOrders gives the orders once more that were logged and of which nothing was heard: gantry may have ended before
// it carried them out. Order, checkpoint and end of a preempted attempt are three separate facts: the log has the order
// (Attempt.Leaving), and the runtime judges its findings by the exit code and the file. So a crash between any two of
// them is recovered from.
func (e *Engine) repeatOrders(ctx context.Context, live []Launch) error {
	v := e.Planner.View()
	for i := range live {
		att := v.Attempt(live[i].Attempt)
		o := planner.Order{Attempt: live[i].Attempt, Task: att.Task}
		switch {
		case att.Resuming:
			o.Kind = planner.OrderResume
		case att.Leaving == planner.Suspend:
			o.Kind = planner.OrderSuspend
		case att.Leaving == planner.Requeue:
			o.Kind = planner.OrderKill
		case att.Leaving == planner.Checkpoint:
			o.Kind = planner.OrderCheckpoint
		default:
			continue
		}
		if err := e.carryOut(ctx, &o); err != nil {
			return err
		}
	}
	return nil
}

// leftOver describes some of the tasks that can start nowhere.
func (e *Engine) leftOver() string {
	v := e.Planner.View()
	left := 0
	for _, w := range v.Present() {
		n, _ := v.Progress(w)
		left += n
	}
	s := fmt.Sprintf("tasks left: %d (workflows: %d)", left, len(v.Present()))
	for _, t := range v.Ready() {
		need := v.Task(t).Need
		s += fmt.Sprintf(", among them task %s of workflow %s, which needs CPU %g, memory %s, disk %s/s "+
			"and %g GPUs", e.specs[t].Name, e.specs[t].Workflow.Name, float64(need[unit.CPU])/1000,
			shown.Size(need[unit.Memory]), shown.Size(need[unit.Disk]), float64(need[unit.GPU])/unit.WholeGPU)
		break
	}
	for n := range v.NodeCount() {
		if v.Capacity(n) == (unit.Vector{}) {
			s += fmt.Sprintf("; node %s takes no tasks (drained: gantry node resume %s of a server)", v.Nodes()[n].Name,
				v.Nodes()[n].Name)
		}
	}
	return s
}

// Spec is the true specification of a task of a workflow that has not ended.
func (e *Engine) Spec(t planner.TaskID) *TaskSpec { return e.specs[t] }
