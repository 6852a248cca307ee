package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-sqlite3"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
)

// writer turns batches into rows. It runs in transactions of the writer connection and remembers, of what is in the log, only what saves
// it from reading: which task an attempt is of, why each task waits, and how many tasks each workflow still has to end.
type writer struct {
	conn  *sqlite3.SQLiteConn
	run   int64
	stale bool // the last batch was undone: memory may be ahead of the log

	seq       uint64 // of the last event
	taskOf    []planner.TaskID
	tries     []int32
	waits     []planner.Reason            // by task; Code 0: none known
	failed    map[planner.TaskID]struct{} // the last attempt failed, and no round has spoken of the task since
	inFlow    []planner.WorkflowID        // by task
	left      map[planner.WorkflowID]int  // tasks not done
	begun     map[planner.WorkflowID]bool // has a started task, formal ones not counted
	formal    map[planner.TaskID]bool
	refused   []planner.WorkflowID          // by the last round
	pending   map[planner.AttemptID]*opened // ordered in this batch: inserted at its end, in the state they then have
	order     []planner.AttemptID           // of pending
	states    map[planner.TaskID]taskState  // changed in this batch
	changed   []planner.TaskID              // of states, in order of first change
	opened    []opened                      // backs pending
	textBytes []byte
	values    []driver.Value // memory of a row
	preempted preempted

	events, tasks, files, replicas, workflows, attempts, begunAttempts, plans, notes, waitRows, sampleRows *inserter
	started, exited, taskState, workflowStarted, workflowEnded                                             *update
}

type opened struct {
	at    planner.Time
	order *planner.Order
	start planner.Time // unit.Never: not yet
	exit  *planner.AttemptExited
	tally tally // of exit
}

type taskState struct {
	state  string
	node   driver.Value // of a new attempt; else nil
	last   driver.Value // a new attempt; else nil
	tries  int64
	queued driver.Value // of a first attempt; else nil
	ended  driver.Value
}

// Columns of a table come in two parts: those whose values many rows share, and the others.
const (
	workflowColumns = "workflow, name, label, source, format, tenant, class, arrived_ns, release_ns, due_ns, tasks, first_task, definition"
	taskShared      = "run, need_millicores, need_memory_bytes, need_disk_bps, time_limit_ns, imputed"
	taskColumns     = "task, workflow, name, kind, stage, trace_runtime_ns, input_bytes, parents"
	fileColumns     = "file, workflow, name, size_bytes, producer"
	replicaColumns  = "file, node, replica"
	attemptShared   = "run, try, hold_millicores, hold_memory_bytes, hold_disk_bps, estimate_spread_ns, estimate_samples, estimate_source"
	attemptColumns  = "attempt, task, node, planned_end_ns, estimate_ns"
	noteColumns     = "seq, position, at_ns, topic, workflow, task, instant_ns, text"
	waitShared      = "run, reason, dim"
	waitColumns     = "task, seq, since_ns, node, until_ns"
)

// rowWidth is more than any row has columns.
const rowWidth = 64

var usageColumns = []string{"queued_ns", "staged_ns", "created_ns", "started_ns", "ended_ns", "ran_ns", "outcome", "exit_code", "message",
	"cpu_user_ns", "cpu_system_ns", "cpu_throttled_ns", "peak_memory_bytes", "read_bytes", "written_bytes", "read_ops", "write_ops",
	"input_bytes", "copied_bytes", "oom_kills", "applied_cpu_millicores", "applied_memory_bytes", "applied_memory_swap_bytes", "applied_pids",
	"applied_read_bps", "applied_write_bps", "applied_read_iops", "applied_write_iops"}

// table is an inserter to be made.
type table struct {
	in                          **inserter
	verb, name, shared, columns string
}

// prepare makes inserters.
func prepare(conn *sqlite3.SQLiteConn, tables []table) error {
	for _, t := range tables {
		var err error
		if *t.in, err = newInserter(conn, t.verb, t.name, t.shared, t.columns); err != nil {
			return err
		}
	}
	return nil
}

func newWriter(conn *sqlite3.SQLiteConn, run int64) (*writer, error) {
	if conn == nil {
		return nil, errors.New("it was opened for reading only")
	}
	w := &writer{conn: conn, run: run, values: make([]driver.Value, 0, rowWidth), pending: map[planner.AttemptID]*opened{}, states: map[planner.TaskID]taskState{}}
	if err := prepare(conn, []table{
		{&w.events, "INSERT", "events", "run", "seq, at_ns, kind, body, v"},
		{&w.workflows, "INSERT", "workflows", "run", workflowColumns},
		{&w.tasks, "INSERT", "tasks", taskShared, taskColumns},
		{&w.files, "INSERT", "files", "run", fileColumns},
		{&w.replicas, "INSERT", "replicas", "run", replicaColumns},
		{&w.attempts, "INSERT", "attempts", attemptShared, attemptColumns + ", " + strings.Join(usageColumns, ", ") + ", " + tallyColumns},
		{&w.begunAttempts, "INSERT", "attempts", attemptShared, attemptColumns + ", queued_ns, started_ns"},
		{&w.notes, "INSERT", "notes", "run", noteColumns},
		{&w.plans, "INSERT", "plans", "run", "seq, at_ns, round, orders, starts, waits, took_ns"},
		{&w.waitRows, "INSERT OR REPLACE", "waits", waitShared, waitColumns},
		{&w.sampleRows, "INSERT OR REPLACE", "samples", "run", "attempt, at_ns, cpu_ns, memory_bytes, read_bytes, written_bytes"},
	}); err != nil {
		w.close()
		return nil, err
	}
	for _, in := range []*inserter{w.events, w.workflows, w.files, w.replicas, w.notes, w.plans, w.sampleRows} {
		if err := in.share(run); err != nil {
			w.close()
			return nil, err
		}
	}
	for _, q := range []struct {
		up    **update
		query string
	}{
		{&w.started, "UPDATE attempts SET started_ns = ? WHERE run = ? AND attempt = ?"},
		{&w.exited, "UPDATE attempts SET " + strings.Join(usageColumns, " = ?, ") + " = ?, " +
			strings.ReplaceAll(tallyColumns, ",", " = ?,") + " = ? WHERE run = ? AND attempt = ?"},
		{&w.taskState, "UPDATE tasks SET state = ?, node = coalesce(?, node), attempt = coalesce(?, attempt), attempts = ?, queued_ns = coalesce(queued_ns, ?), ended_ns = ? WHERE run = ? AND task = ?"},
		{&w.workflowStarted, "UPDATE workflows SET state = 'running', started_ns = coalesce(started_ns, ?) WHERE run = ? AND workflow = ?"},
		{&w.workflowEnded, "UPDATE workflows SET state = ?, ended_ns = ? WHERE run = ? AND workflow = ?"},
	} {
		var err error
		if *q.up, err = newUpdate(conn, q.query); err != nil {
			w.close()
			return nil, err
		}
	}
	if err := errors.Join(w.preempted.prepare(conn, run), w.load()); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// inserters are in the order in which tables are filled.
func (w *writer) inserters() []*inserter {
	return []*inserter{w.events, w.workflows, w.tasks, w.files, w.replicas, w.attempts, w.begunAttempts, w.plans, w.notes, w.waitRows, w.sampleRows}
}

func (w *writer) close() {
	for _, in := range w.inserters() {
		if in != nil {
			in.close()
		}
	}
	for _, u := range append(w.preempted.updates(), w.started, w.exited, w.taskState, w.workflowStarted, w.workflowEnded) {
		if u != nil {
			u.stmt.Close()
		}
	}
}

// load reads what the writer remembers from the log.
func (w *writer) load() error {
	w.seq, w.taskOf, w.tries, w.waits, w.inFlow = 0, nil, nil, nil, nil
	w.formal = map[planner.TaskID]bool{}
	w.failed, w.left, w.begun = map[planner.TaskID]struct{}{}, map[planner.WorkflowID]int{}, map[planner.WorkflowID]bool{}
	err := errors.Join(
		w.each("SELECT coalesce(max(seq), 0) FROM events WHERE run = ?", func(v []driver.Value) {
			w.seq = uint64(integer(v[0]))
		}),
		w.each("SELECT workflow, started_ns IS NOT NULL FROM workflows WHERE run = ?", func(v []driver.Value) {
			w.left[planner.WorkflowID(integer(v[0]))], w.begun[planner.WorkflowID(integer(v[0]))] = 0, integer(v[1]) != 0
		}),
		w.each("SELECT task, workflow, state, attempts FROM tasks WHERE run = ? ORDER BY task", func(v []driver.Value) {
			t, flow := planner.TaskID(integer(v[0])), planner.WorkflowID(integer(v[1]))
			w.inFlow, w.tries, w.waits = put(w.inFlow, t, flow), put(w.tries, t, int32(integer(v[3]))), put(w.waits, t, planner.Reason{})
			if v[2] != "done" {
				w.left[flow]++
			}
			if v[2] == "failed" {
				w.failed[t] = struct{}{}
			}
		}),
		w.each("SELECT task FROM tasks WHERE run = ? AND need_millicores = 0 AND need_memory_bytes = 0 AND need_disk_bps = 0", func(v []driver.Value) {
			w.formal[planner.TaskID(integer(v[0]))] = true
		}),
		w.each("SELECT attempt, task FROM attempts WHERE run = ? ORDER BY attempt", func(v []driver.Value) {
			w.taskOf = put(w.taskOf, planner.AttemptID(integer(v[0])), planner.TaskID(integer(v[1])))
		}),
	)
	return errors.Join(err, w.preempted.load(w.each, w.taskOf))
}

// put sets s[i], and makes it long enough.
func put[I ~int32, T any](s []T, i I, v T) []T {
	for int(i) >= len(s) {
		var none T
		s = append(s, none)
	}
	s[i] = v
	return s
}

func integer(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

func (w *writer) each(text string, row func([]driver.Value)) error {
	return query(w.conn, text, w.run, row)
}

// query reads what a query on the writer connection says of a run.
func query(conn *sqlite3.SQLiteConn, text string, run int64, row func([]driver.Value)) error {
	rows, err := conn.Query(text, []driver.Value{run})
	if err != nil {
		return err
	}
	defer rows.Close()
	dest := make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(dest); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		row(dest)
	}
}

// encoded is what can be prepared of a batch before the transaction begins.
type encoded struct {
	bodies      []string
	definitions [][]byte
}

func (w *writer) encode(b executor.Batch) (encoded, error) {
	var e encoded
	e.bodies = make([]string, len(b.Events))
	arrivals := 0
	for i, ev := range b.Events {
		text, err := encodeBody(w.textBytes[:0], ev.Body)
		if err != nil {
			return e, fmt.Errorf("event %d: %w", ev.Seq, err)
		}
		w.textBytes, e.bodies[i] = text, string(text)
		if _, ok := ev.Body.(*planner.WorkflowArrived); ok {
			arrivals++
		}
	}
	if arrivals != len(b.Admissions) {
		return e, fmt.Errorf("a batch has %d arrivals, but %d admissions", arrivals, len(b.Admissions))
	}
	for _, a := range b.Admissions {
		blob, err := encodeAdmission(a, true)
		if err != nil {
			return e, fmt.Errorf("keep workflow %s: %w", a.Submission.Name, err)
		}
		e.definitions = append(e.definitions, blob)
	}
	return e, nil
}

// append writes a batch within the transaction that the caller opened.
func (w *writer) append(b executor.Batch, e encoded) error {
	if w.stale {
		if err := w.load(); err != nil {
			return err
		}
		w.stale = false
	}
	arrival := 0
	for i := range b.Events {
		ev := &b.Events[i]
		if ev.Seq != w.seq+1 {
			return fmt.Errorf("event %d follows event %d", ev.Seq, w.seq)
		}
		w.seq = ev.Seq
		if err := w.events.add(int64(ev.Seq), int64(ev.At), int64(ev.Body.Kind()), e.bodies[i], bodyVersion(ev.Body)); err != nil {
			return err
		}
		if _, ok := ev.Body.(*planner.WorkflowArrived); ok {
			if err := w.arrived(b.Admissions[arrival], e.definitions[arrival]); err != nil {
				return err
			}
			arrival++
			continue
		}
		if err := w.apply(ev); err != nil {
			return fmt.Errorf("event %d (%v): %w", ev.Seq, ev.Body.Kind(), err)
		}
	}
	// Rows of tasks and attempts are written once a batch, in the state that the batch left them in.
	for _, id := range w.order {
		o := w.pending[id]
		var err error
		if o.exit != nil {
			err = errors.Join(w.attempts.share(attemptSharedValues(w.values[:0], w.run, o.order)...),
				w.attempts.add(o.tally.values(usageValues(attemptValues(w.values[:0], o.order), o.exit))...))
		} else {
			err = errors.Join(w.begunAttempts.share(attemptSharedValues(w.values[:0], w.run, o.order)...),
				w.begunAttempts.add(append(attemptValues(w.values[:0], o.order), int64(o.at), reached(o.start))...))
		}
		if err != nil {
			return err
		}
	}
	for _, in := range w.inserters() {
		if err := in.flush(); err != nil {
			return err
		}
	}
	for _, t := range w.changed {
		s := w.states[t]
		if err := w.taskState.exec(s.state, s.node, s.last, s.tries, s.queued, s.ended, w.run, int64(t)); err != nil {
			return err
		}
	}
	w.forget()
	return nil
}

// undone forgets a batch that is not in the log.
func (w *writer) undone() {
	w.stale = true
	for _, in := range w.inserters() {
		in.reset()
	}
	w.forget()
}

// forget lets go of what belonged to the batch.
func (w *writer) forget() {
	clear(w.pending)
	clear(w.states)
	clear(w.opened)
	w.order, w.changed, w.opened = w.order[:0], w.changed[:0], w.opened[:0]
}

func (w *writer) arrived(a *executor.Admission, definition []byte) error {
	flow := a.Arrived.Workflow.ID
	if err := sameTasks(a); err != nil {
		return err
	}
	w.left[flow] = len(a.Arrived.Tasks)
	if err := w.workflows.add(workflowValues(w.values[:0], a, definition)...); err != nil {
		return err
	}
	for i := range a.Arrived.Tasks {
		t := a.Arrived.Tasks[i].ID
		if a.Arrived.Tasks[i].Formal {
			w.formal[t] = true
		}
		w.inFlow, w.tries, w.waits = put(w.inFlow, t, flow), put(w.tries, t, 0), put(w.waits, t, planner.Reason{})
		if err := errors.Join(w.tasks.share(taskSharedValues(w.values[:0], w.run, a, i, tracedOf(a, i))...), w.tasks.add(taskValues(w.values[:0], a, i, tracedOf(a, i))...)); err != nil {
			return err
		}
	}
	return addFiles(w.files, w.replicas, a)
}

func (w *writer) apply(ev *planner.Event) error {
	switch b := ev.Body.(type) {
	case *planner.PlanCommitted:
		return w.planned(ev, b)
	case planner.AttemptStarted:
		t, err := w.task(b.Attempt)
		if err != nil {
			return err
		}
		w.state(t, "running", nil, nil)
		if err := w.preempted.started(ev, t); err != nil {
			return err
		}
		if o := w.pending[b.Attempt]; o != nil {
			o.start = ev.At
			return nil
		}
		return w.started.exec(int64(ev.At), w.run, int64(b.Attempt))
	case planner.AttemptSuspended:
		t, err := w.task(b.Attempt)
		if err == nil {
			w.state(t, "suspended", nil, nil)
			err = w.preempted.frozen(ev, b.Attempt)
		}
		return err
	case planner.AttemptResumed:
		t, err := w.task(b.Attempt)
		if err == nil {
			w.state(t, "running", nil, nil)
			err = w.preempted.thawed(ev, b.Attempt)
		}
		return err
	case *planner.AttemptExited:
		return w.exit(ev, b)
	case planner.WorkflowCancelled:
		if err := w.flushArrivals(); err != nil {
			return err
		}
		_, err := w.conn.Exec("UPDATE tasks SET state = 'skipped' WHERE run = ? AND workflow = ? AND state = 'waiting'", []driver.Value{w.run, int64(b.Workflow)})
		return errors.Join(err, w.workflowEnded.exec(withdrawn(w.refused, b.Workflow), int64(ev.At), w.run, int64(b.Workflow)))
	}
	return nil
}

// flushArrivals makes workflows that arrived in this batch rows, for statements that change them.
func (w *writer) flushArrivals() error {
	return errors.Join(w.workflows.flush(), w.tasks.flush())
}

func (w *writer) planned(ev *planner.Event, b *planner.PlanCommitted) error {
	if err := w.preempted.planned(ev, b.Orders); err != nil {
		return err
	}
	starts := 0
	if n := len(w.opened) + len(b.Orders); n > cap(w.opened) {
		// Pointers into the old array stay good: it is only left to be collected with the batch.
		w.opened = make([]opened, 0, 2*n)
	}
	for i := range b.Orders {
		x := &b.Orders[i]
		if x.Kind != planner.OrderStart {
			continue
		}
		if x.Task < 0 || int(x.Task) >= len(w.inFlow) || x.Attempt < 0 {
			return fmt.Errorf("attempt %d is of task %d, which was not admitted", x.Attempt, x.Task)
		}
		starts++
		w.taskOf = put(w.taskOf, x.Attempt, x.Task)
		w.tries[x.Task] = x.Try
		delete(w.failed, x.Task)
		w.waits[x.Task] = planner.Reason{}
		if flow := w.inFlow[x.Task]; !w.begun[flow] && !w.formal[x.Task] {
			w.begun[flow] = true
			if err := w.flushArrivals(); err != nil {
				return err
			}
			if err := w.workflowStarted.exec(int64(ev.At), w.run, int64(flow)); err != nil {
				return err
			}
		}
		w.opened = append(w.opened, opened{at: ev.At, order: x, start: unit.Never})
		w.pending[x.Attempt] = &w.opened[len(w.opened)-1]
		w.order = append(w.order, x.Attempt)
		w.state(x.Task, "starting", int64(ev.At), nil)
		s := w.states[x.Task]
		s.node, s.last = int64(x.Node), int64(x.Attempt)
		w.states[x.Task] = s
	}
	for _, wait := range b.Reasons {
		if wait.Task < 0 || int(wait.Task) >= len(w.waits) {
			return fmt.Errorf("task %d waits, but was not admitted", wait.Task)
		}
		if _, ok := w.failed[wait.Task]; ok { // it wants a place again
			delete(w.failed, wait.Task)
			w.state(wait.Task, "waiting", nil, nil)
		}
		last, now := &w.waits[wait.Task], wait.Reason
		if last.Code == now.Code && last.Dim == now.Dim && last.Node == now.Node {
			continue // a time alone that moves makes no row
		}
		*last = now
		if err := addWait(w.waitRows, w.run, ev, wait); err != nil {
			return err
		}
	}
	w.refused = refused(b.Notes)
	if err := addNotes(w.notes, ev, b.Notes); err != nil {
		return err
	}
	return w.plans.add(int64(ev.Seq), int64(ev.At), b.Round, int64(len(b.Orders)), int64(starts), int64(len(b.Reasons)), int64(b.Took))
}

func (w *writer) exit(ev *planner.Event, b *planner.AttemptExited) error {
	t, err := w.task(b.Attempt)
	if err != nil {
		return err
	}
	switch b.Outcome {
	case planner.OK:
		w.state(t, "done", nil, int64(ev.At))
		flow := w.inFlow[t]
		if w.left[flow]--; w.left[flow] == 0 {
			if err := w.flushArrivals(); err != nil {
				return err
			}
			if err := w.workflowEnded.exec("done", int64(ev.At), w.run, int64(flow)); err != nil {
				return err
			}
		}
	case planner.Preempted, planner.Lost:
		w.state(t, "waiting", nil, nil)
	default:
		w.state(t, "failed", nil, int64(ev.At))
		w.failed[t] = struct{}{}
	}
	did, err := w.preempted.exited(ev, t, b)
	if err != nil {
		return err
	}
	if o := w.pending[b.Attempt]; o != nil {
		o.exit, o.tally = b, did
		return nil
	}
	values := did.values(usageValues(make([]driver.Value, 0, rowWidth), b))
	return w.exited.exec(append(values, w.run, int64(b.Attempt))...)
}

// task returns the task of an attempt.
func (w *writer) task(a planner.AttemptID) (planner.TaskID, error) {
	if a < 0 || int(a) >= len(w.taskOf) {
		return 0, fmt.Errorf("attempt %d was not ordered", a)
	}
	return w.taskOf[a], nil
}

// state notes the state of a task; queued counts only for the first time.
func (w *writer) state(t planner.TaskID, state string, queued, ended driver.Value) {
	s, ok := w.states[t]
	if !ok {
		w.changed = append(w.changed, t)
	}
	s.state, s.ended, s.tries = state, ended, int64(w.tries[t])
	if s.queued == nil {
		s.queued = queued
	}
	w.states[t] = s
}

func (w *writer) insertSamples(rows []Sample) error {
	for _, s := range rows {
		if err := w.sampleRows.add(int64(s.Attempt), int64(s.At), known(int64(s.CPU), s.Missing&planner.CounterCPU == 0),
			known(int64(s.Memory), s.Missing&planner.CounterMemory == 0), known(int64(s.Read), s.Missing&planner.CounterIO == 0),
			known(int64(s.Written), s.Missing&planner.CounterIO == 0)); err != nil {
			return err
		}
	}
	return w.sampleRows.flush()
}
