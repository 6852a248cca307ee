package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-sqlite3"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
)

// bulkEvents is how many events of a simulation are written together, as one row.
const bulkEvents = 8192

// spareBodies is how much memory of bodies is kept to be used again.
const spareBodies = 4 << 20

// bulk is the log of a simulation on its way. A simulation can be repeated, so its log may be lost with the process, and it is written
// for little: events by the thousand, rows of tasks and attempts once, when they have ended. What is handed in is encoded
// beside the engine, and written beside both.
type bulk struct {
	db       *DB
	w        *bulkWriter
	gathered executor.Batch
	encoding chan executor.Batch
	writing  chan bulkBatch
	spare    chan []byte // memory of bodies
	stages   sync.WaitGroup
	underWay sync.WaitGroup // batches

	mu  sync.Mutex
	err error // the first one: nothing is written after it
}

// bulkBatch is a batch with what can be made of it without the database.
type bulkBatch struct {
	executor.Batch
	bodies      []byte // JSON: [[at_ns, kind, body], ...]
	definitions [][]byte
}

func newBulk(db *DB, run int64) (*bulk, error) {
	w, err := newBulkWriter(db.conn, run)
	if err != nil {
		return nil, err
	}
	b := &bulk{db: db, w: w, encoding: make(chan executor.Batch, 1), writing: make(chan bulkBatch, 1), spare: make(chan []byte, 2)}
	for range cap(b.spare) {
		b.spare <- nil
	}
	b.stages.Go(func() {
		defer close(b.writing)
		var enc bulkEncoder
		for batch := range b.encoding {
			encoded, err := enc.encode(batch, (<-b.spare)[:0])
			b.fail(err)
			b.writing <- encoded
		}
	})
	b.stages.Go(func() {
		for batch := range b.writing {
			if b.failure() == nil {
				b.fail(db.transact(func() error { return w.append(&batch) }))
			}
			if cap(batch.bodies) > spareBodies {
				batch.bodies = nil
			}
			b.spare <- batch.bodies
			b.underWay.Done()
		}
	})
	return b, nil
}

func (b *bulk) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
}

func (b *bulk) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// append takes a batch. An error may be that of an earlier one.
func (b *bulk) append(more executor.Batch) error {
	b.gathered.Events = append(b.gathered.Events, more.Events...)
	b.gathered.Admissions = append(b.gathered.Admissions, more.Admissions...)
	if len(b.gathered.Events) < bulkEvents {
		return nil
	}
	b.pass()
	return b.failure()
}

func (b *bulk) pass() {
	if len(b.gathered.Events) == 0 {
		return
	}
	b.underWay.Add(1)
	b.encoding <- b.gathered
	b.gathered = executor.Batch{Events: make([]planner.Event, 0, bulkEvents+64)}
}

// flush writes all events that were taken.
func (b *bulk) flush() error {
	b.pass()
	b.underWay.Wait()
	return b.failure()
}

// end writes all that is left. If the simulation is over, what never started is skipped.
func (b *bulk) end(over bool) error {
	if err := b.flush(); err != nil {
		return err
	}
	return b.db.transact(func() error { return b.w.end(over) })
}

func (b *bulk) close() {
	b.underWay.Wait()
	close(b.encoding)
	b.stages.Wait()
	b.w.close()
}

// bulkEncoder makes of a batch what can be made of it without the database.
type bulkEncoder struct {
	definer
	terse
}

func (enc *bulkEncoder) encode(batch executor.Batch, text []byte) (bulkBatch, error) {
	out := bulkBatch{Batch: batch}
	arrivals := 0
	for i := range batch.Events {
		ev := &batch.Events[i]
		text = append(text, "[,"[min(i, 1)], '[')
		text = append(strconv.AppendInt(text, int64(ev.At), 10), ',')
		text = append(strconv.AppendInt(text, int64(ev.Body.Kind()), 10), ',')
		var err error
		if text, err = enc.terse.encode(text, ev.At, ev.Body); err != nil {
			return out, fmt.Errorf("event %d: %w", ev.Seq, err)
		}
		text = append(text, ']')
		if _, ok := ev.Body.(*planner.WorkflowArrived); ok {
			arrivals++
		}
	}
	out.bodies = append(text, ']')
	if arrivals != len(batch.Admissions) {
		return out, fmt.Errorf("a batch has %d arrivals, but %d admissions", arrivals, len(batch.Admissions))
	}
	for _, a := range batch.Admissions {
		blob, err := enc.definer.encode(a, len(a.Tasks) > definitionLarge)
		if err != nil {
			return out, fmt.Errorf("keep workflow %s: %w", a.Submission.Name, err)
		}
		out.definitions = append(out.definitions, blob)
	}
	return out, nil
}

// bulkWriter turns batches of a simulation into rows: those of tasks are written when all of their workflow are done, those of
// attempts in order of their numbers, so that SQLite only ever appends. It remembers what has not been written.
type bulkWriter struct {
	conn *sqlite3.SQLiteConn
	run  int64

	seq      uint64       // of the last event
	at       planner.Time // of the last event
	first    planner.Time // arrival
	last     planner.Time // end of an attempt; unit.Never: none
	flows    []*bulkFlow  // by workflow; nil once it is written
	flowOf   []planner.WorkflowID
	taskOf   []planner.TaskID
	attempts []bulkAttempt     // from next on
	next     planner.AttemptID // the first one that is not written
	like     bulkAlike         // the shared values of the attempts written last
	kin      bulkKin           // and of the tasks

	ended  []*bulkFlow    // in this batch
	values []driver.Value // memory of a row

	preempted preempted
	refused   []planner.WorkflowID // by the last round

	workflows, tasks, files, replicas, exited, measured, begun, notes, waits *inserter
	chunks, flowEnded, taskEnded                                             *update
}

type bulkFlow struct {
	id             planner.WorkflowID
	first          planner.TaskID
	admission      *executor.Admission // nil once its tasks are rows: a large one would be kept in memory for long
	state          string
	tasks          []bulkTask // by position
	left           int        // tasks not done
	started, ended planner.Time
	cancelled      string // its state, if it was withdrawn
}

type bulkTask struct {
	state  string
	node   planner.NodeID
	last   planner.AttemptID // None: no attempt yet
	tries  int32
	queued planner.Time
	ended  planner.Time
	wait   planner.Reason
	formal bool
	again  bool // the last attempt failed, and no round has spoken of the task since
}

type bulkAttempt struct {
	order   *planner.Order
	queued  planner.Time
	started planner.Time // unit.Never: not yet
	exit    *planner.AttemptExited
	tally   tally // of exit
}

// bulkAlike is what one statement's attempts have in common.
type bulkAlike struct {
	try      int32
	hold     unit.Vector
	estimate planner.Estimate // without its time
	outcome  planner.Outcome
	code     int
	message  string
	kills    int64
	tally    tally
}

// bulkKin is what one statement's tasks have in common.
type bulkKin struct {
	need    unit.Vector
	limit   time.Duration
	imputed trace.Fields
	state   string
	tries   int32
}

func newBulkWriter(conn *sqlite3.SQLiteConn, run int64) (*bulkWriter, error) {
	w := &bulkWriter{conn: conn, run: run, values: make([]driver.Value, 0, rowWidth), first: unit.Never, last: unit.Never}
	err := prepare(conn, []table{
		{&w.workflows, "INSERT", "workflows", "run", workflowColumns},
		{&w.tasks, "INSERT", "tasks", taskShared + ", state, attempts", taskColumns + ", node, attempt, queued_ns, ended_ns"},
		{&w.files, "INSERT", "files", "run", fileColumns},
		{&w.replicas, "INSERT", "replicas", "run", replicaColumns},
		{&w.exited, "INSERT", "attempts", attemptShared + ", outcome, exit_code, message, oom_kills, " + tallyColumns,
			attemptColumns + ", queued_ns, staged_ns, created_ns, started_ns, ended_ns, ran_ns, input_bytes, copied_bytes"},
		{&w.measured, "INSERT", "attempts", attemptShared, attemptColumns + ", " + strings.Join(usageColumns, ", ") + ", " + tallyColumns},
		{&w.begun, "INSERT", "attempts", attemptShared, attemptColumns + ", queued_ns, started_ns"},
		{&w.notes, "INSERT", "notes", "run", noteColumns},
		{&w.waits, "INSERT OR REPLACE", "waits", waitShared, waitColumns},
	})
	if err == nil {
		w.chunks, err = newUpdate(conn, "INSERT INTO event_chunks(run, seq, at_ns, kinds, rounds, took_ns, bodies, v) VALUES (?, ?, ?, ?, ?, ?, CAST(? AS TEXT), ?)")
	}
	if err == nil {
		w.flowEnded, err = newUpdate(conn, "UPDATE workflows SET state = ?, started_ns = ?, ended_ns = ? WHERE run = ? AND workflow = ?")
	}
	if err == nil {
		w.taskEnded, err = newUpdate(conn, "UPDATE tasks SET state = ?, attempts = ?, node = ?, attempt = ?, queued_ns = ?, ended_ns = ? WHERE run = ? AND task = ?")
	}
	if err == nil {
		err = errors.Join(w.preempted.prepare(conn, run), w.workflows.share(run), w.files.share(run), w.replicas.share(run), w.notes.share(run))
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *bulkWriter) inserters() []*inserter {
	return []*inserter{w.workflows, w.tasks, w.files, w.replicas, w.exited, w.measured, w.begun, w.notes, w.waits}
}

func (w *bulkWriter) close() {
	for _, in := range w.inserters() {
		if in != nil {
			in.close()
		}
	}
	for _, u := range append(w.preempted.updates(), w.chunks, w.flowEnded, w.taskEnded) {
		if u != nil {
			u.stmt.Close()
		}
	}
}

// append writes a batch within the transaction that the caller opened.
func (w *bulkWriter) append(b *bulkBatch) error {
	first, kinds, rounds, took := b.Events[0].Seq, 0, 0, int64(0)
	arrival := 0
	for i := range b.Events {
		ev := &b.Events[i]
		if ev.Seq != w.seq+1 {
			return fmt.Errorf("event %d follows event %d", ev.Seq, w.seq)
		}
		w.seq, w.at = ev.Seq, ev.At
		kinds |= 1 << ev.Body.Kind()
		var err error
		switch body := ev.Body.(type) {
		case *planner.WorkflowArrived:
			err = w.arrived(b.Admissions[arrival], b.definitions[arrival])
			arrival++
		case *planner.PlanCommitted:
			rounds++
			took += int64(body.Took)
			err = w.planned(ev, body)
		case *planner.AttemptExited:
			err = w.exit(ev, body)
		case planner.AttemptStarted:
			if err = w.changed(body.Attempt, "running"); err == nil {
				err = w.preempted.started(ev, w.taskOf[body.Attempt])
			}
			if k := int(body.Attempt - w.next); err == nil && k >= 0 {
				w.attempts[k].started = ev.At
			}
		case planner.AttemptSuspended:
			err = errors.Join(w.changed(body.Attempt, "suspended"), w.preempted.frozen(ev, body.Attempt))
		case planner.AttemptResumed:
			err = errors.Join(w.changed(body.Attempt, "running"), w.preempted.thawed(ev, body.Attempt))
		case planner.WorkflowCancelled:
			w.cancelled(ev, body.Workflow)
		}
		if err != nil {
			return fmt.Errorf("event %d (%v): %w", ev.Seq, ev.Body.Kind(), err)
		}
	}
	done := 0
	for ; done < len(w.attempts) && w.attempts[done].exit != nil; done++ {
		if err := w.writeAttempt(&w.attempts[done]); err != nil {
			return err
		}
	}
	w.attempts, w.next = w.attempts[done:], w.next+planner.AttemptID(done)
	if err := w.writeEnded(); err != nil {
		return err
	}
	return w.chunks.exec(w.run, int64(first), int64(w.at), int64(kinds), int64(rounds), took, b.bodies, int64(eventVersion))
}

func (w *bulkWriter) arrived(a *executor.Admission, definition []byte) error {
	if err := sameTasks(a); err != nil {
		return err
	}
	f := &bulkFlow{id: a.Arrived.Workflow.ID, admission: a, tasks: make([]bulkTask, len(a.Tasks)), left: len(a.Tasks), started: unit.Never, ended: unit.Never}
	if len(f.tasks) > 0 {
		f.first = a.Arrived.Tasks[0].ID
	}
	for i := range f.tasks {
		f.tasks[i] = bulkTask{state: "waiting", last: planner.None, queued: unit.Never, ended: unit.Never, formal: a.Arrived.Tasks[i].Formal}
		w.flowOf = put(w.flowOf, a.Arrived.Tasks[i].ID, f.id)
	}
	if len(f.tasks) > definitionLarge {
		for i := range f.tasks {
			if err := w.writeTask(f, i); err != nil {
				return err
			}
		}
		f.admission = nil
	}
	w.flows = put(w.flows, f.id, f)
	w.first = min(w.first, a.Arrived.Workflow.Arrived)
	return errors.Join(w.workflows.add(workflowValues(w.values[:0], a, definition)...), addFiles(w.files, w.replicas, a))
}

// task returns what is remembered of a task; what happens to one that is written already changes nothing.
func (w *bulkWriter) task(t planner.TaskID) (*bulkFlow, *bulkTask, error) {
	if t < 0 || int(t) >= len(w.flowOf) {
		return nil, nil, fmt.Errorf("task %d was not admitted", t)
	}
	f := w.flows[w.flowOf[t]]
	if f == nil {
		return &bulkFlow{}, &bulkTask{}, nil
	}
	return f, &f.tasks[t-f.first], nil
}

// of returns the task of an attempt.
func (w *bulkWriter) of(a planner.AttemptID) (*bulkFlow, *bulkTask, error) {
	if a < 0 || int(a) >= len(w.taskOf) {
		return nil, nil, fmt.Errorf("attempt %d was not ordered", a)
	}
	return w.task(w.taskOf[a])
}

func (w *bulkWriter) changed(a planner.AttemptID, state string) error {
	_, t, err := w.of(a)
	if err == nil {
		t.state, t.ended = state, unit.Never
	}
	return err
}

func (w *bulkWriter) planned(ev *planner.Event, b *planner.PlanCommitted) error {
	if err := w.preempted.planned(ev, b.Orders); err != nil {
		return err
	}
	for i := range b.Orders {
		x := &b.Orders[i]
		if x.Kind != planner.OrderStart {
			continue
		}
		f, t, err := w.task(x.Task)
		if err != nil {
			return err
		}
		if int(x.Attempt) != len(w.taskOf) {
			return fmt.Errorf("attempt %d: expected number %d", x.Attempt, len(w.taskOf))
		}
		w.taskOf = append(w.taskOf, x.Task)
		w.attempts = append(w.attempts, bulkAttempt{order: x, queued: ev.At, started: unit.Never})
		if !t.formal {
			f.started = min(f.started, ev.At)
		}
		t.state, t.node, t.last, t.tries, t.queued, t.ended = "starting", x.Node, x.Attempt, x.Try, min(t.queued, ev.At), unit.Never
		t.wait, t.again = planner.Reason{}, false
	}
	for _, wait := range b.Reasons {
		_, t, err := w.task(wait.Task)
		if err != nil {
			return err
		}
		if t.again { // it wants a place again
			t.state, t.ended, t.again = "waiting", unit.Never, false
		}
		last, now := &t.wait, wait.Reason
		if last.Code == now.Code && last.Dim == now.Dim && last.Node == now.Node {
			continue // a time alone that moves makes no row
		}
		*last = now
		if err := addWait(w.waits, w.run, ev, wait); err != nil {
			return err
		}
	}
	w.refused = refused(b.Notes)
	return addNotes(w.notes, ev, b.Notes)
}

func (w *bulkWriter) exit(ev *planner.Event, b *planner.AttemptExited) error {
	f, t, err := w.of(b.Attempt)
	if err != nil {
		return err
	}
	if end := b.Usage.Ended; end != unit.Never && (w.last == unit.Never || end > w.last) {
		w.last = end
	}
	did, err := w.preempted.exited(ev, w.taskOf[b.Attempt], b)
	if err != nil {
		return err
	}
	if k := int(b.Attempt - w.next); k >= 0 {
		w.attempts[k].exit, w.attempts[k].tally = b, did
	}
	switch b.Outcome {
	case planner.OK:
		t.state, t.ended = "done", ev.At
		if f.left--; f.left == 0 && f.cancelled == "" {
			f.ended = ev.At
			return w.writeFlow(f, "done")
		}
	case planner.Preempted, planner.Lost:
		t.state, t.ended = "waiting", unit.Never
	default:
		t.state, t.ended, t.again = "failed", ev.At, true
	}
	return nil
}

func (w *bulkWriter) cancelled(ev *planner.Event, id planner.WorkflowID) {
	if id < 0 || int(id) >= len(w.flows) || w.flows[id] == nil {
		return
	}
	f := w.flows[id]
	f.cancelled, f.ended = withdrawn(w.refused, id), ev.At
	for i := range f.tasks {
		if f.tasks[i].state == "waiting" {
			f.tasks[i].state = "skipped"
		}
	}
}

// writeFlow writes the tasks of a workflow, and forgets it.
func (w *bulkWriter) writeFlow(f *bulkFlow, state string) error {
	if f.admission == nil {
		if err := w.tasks.flush(); err != nil {
			return err
		}
	}
	for i := range f.tasks {
		if err := w.writeTask(f, i); err != nil {
			return err
		}
	}
	f.state, f.tasks = state, nil
	w.ended = append(w.ended, f)
	w.flows[f.id] = nil
	return nil
}

// writeTask writes a task, or says how one ended that is written.
func (w *bulkWriter) writeTask(f *bulkFlow, i int) error {
	t := &f.tasks[i]
	ran := t.last != planner.None
	node, last := known(int64(t.node), ran), known(int64(t.last), ran)
	if f.admission == nil {
		return w.taskEnded.exec(t.state, int64(t.tries), node, last, reached(t.queued), reached(t.ended), w.run, int64(f.first)+int64(i))
	}
	said := tracedOf(f.admission, i)
	kin := bulkKin{f.admission.Arrived.Tasks[i].Need, f.admission.Tasks[i].TimeLimit, said.imputed, t.state, t.tries}
	if kin != w.kin {
		w.kin = kin
		if err := w.tasks.share(append(taskSharedValues(w.values[:0], w.run, f.admission, i, said), t.state, int64(t.tries))...); err != nil {
			return err
		}
	}
	return w.tasks.add(append(taskValues(w.values[:0], f.admission, i, said), node, last, reached(t.queued), reached(t.ended))...)
}

// writeEnded says of workflows that were written how they ended.
func (w *bulkWriter) writeEnded() error {
	if err := w.workflows.flush(); err != nil {
		return err
	}
	for _, f := range w.ended {
		if err := w.flowEnded.exec(f.state, reached(f.started), reached(f.ended), w.run, int64(f.id)); err != nil {
			return err
		}
	}
	clear(w.ended)
	w.ended = w.ended[:0]
	return nil
}

func (w *bulkWriter) writeAttempt(a *bulkAttempt) error {
	x := a.order
	shared := func() []driver.Value { return attemptSharedValues(w.values[:0], w.run, x) }
	own := func() []driver.Value { return attemptValues(w.values[:0], x) }
	if a.exit == nil {
		return errors.Join(w.begun.share(shared()...), w.begun.add(append(own(), int64(a.queued), reached(a.started))...))
	}
	u := &a.exit.Usage
	counters := *u
	counters.Queued, counters.Staged, counters.Created, counters.Started, counters.Ended = 0, 0, 0, 0, 0
	counters.InputBytes, counters.CopiedBytes, counters.MovedBytes, counters.OOMKills = 0, 0, 0, 0
	if counters != (planner.Usage{Missing: planner.CountersAll}) {
		return errors.Join(w.measured.share(shared()...), w.measured.add(a.tally.values(usageValues(own(), a.exit))...))
	}
	like := bulkAlike{x.Try, x.Hold, x.Est, a.exit.Outcome, a.exit.ExitCode, a.exit.Message, u.OOMKills, a.tally}
	like.estimate.Run = 0
	if like != w.like {
		w.like = like
		if err := w.exited.share(like.tally.values(append(shared(), like.outcome.String(), known(int64(like.code), like.code != -1), message(like.message), like.kills))...); err != nil {
			return err
		}
	}
	return w.exited.add(append(own(), reached(u.Queued), reached(u.Staged), reached(u.Created), reached(u.Started), reached(u.Ended),
		known(int64(a.exit.Ran), u.Started != unit.Never), int64(u.InputBytes), int64(u.CopiedBytes))...)
}

// end writes what was not written yet, in the state it was left in.
func (w *bulkWriter) end(over bool) error {
	for i := range w.attempts {
		if err := w.writeAttempt(&w.attempts[i]); err != nil {
			return err
		}
	}
	w.next, w.attempts = w.next+planner.AttemptID(len(w.attempts)), nil
	for _, f := range w.flows {
		if f == nil {
			continue
		}
		state := "waiting"
		if f.started != unit.Never {
			state = "running"
		}
		done := true
		for i := range f.tasks {
			t := &f.tasks[i]
			if over && t.state == "waiting" {
				t.state = "skipped"
				if t.tries > 0 {
					t.state = "failed"
				}
			}
			done = done && t.state == "done"
			if over && f.cancelled == "" && t.ended != unit.Never && (f.ended == unit.Never || t.ended > f.ended) {
				f.ended = t.ended
			}
		}
		switch {
		case f.cancelled != "":
			state = f.cancelled
		case over && done:
			state = "done"
		case over:
			state = "failed"
		}
		if err := w.writeFlow(f, state); err != nil {
			return err
		}
	}
	if err := w.writeEnded(); err != nil {
		return err
	}
	for _, in := range w.inserters() {
		if err := in.flush(); err != nil {
			return err
		}
	}
	return nil
}

// makespan is from the first arrival to the end of the last attempt; NULL before that.
func (w *bulkWriter) makespan() driver.Value {
	return known(int64(w.last-w.first), w.last != unit.Never && w.first != unit.Never)
}
