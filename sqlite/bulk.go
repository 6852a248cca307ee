package sqlite

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mattn/go-sqlite3"

	"gantry/executor"
	"gantry/planner"
)

// bulkEvents is how many events of a simulation are written together, as one row.
const bulkEvents = 8192

const (
	usualBodies = 256 << 10 // bytes of the bodies of bulkEvents events
	spareBodies = 4 << 20   // bytes of memory for them that are kept to be used again, at most
)

// bulk is the log of a simulation on its way. A simulation can be repeated, so its log may be lost with the process,
// and it is written for little: events by the thousand, rows of tasks and attempts once, when they have ended. What is
// handed in is encoded and written beside the engine.
type bulk struct {
	db       *DB
	w        *bulkWriter
	gathered executor.Batch
	handed   chan executor.Batch
	used     chan []planner.Event // memory of batches
	writing  sync.WaitGroup
	underWay sync.WaitGroup // batches

	mu  sync.Mutex
	err error // the first one: nothing is written after it
}

func newBulk(db *DB, run int64) (*bulk, error) {
	w, err := newBulkWriter(db.conn, run)
	if err != nil {
		return nil, err
	}
	// A batch is handed over once the one before is written: what waits is memory that the collector has to look at.
	b := &bulk{db: db, w: w, handed: make(chan executor.Batch), used: make(chan []planner.Event, 2)}
	b.writing.Go(func() {
		for batch := range b.handed {
			b.write(&batch)
			select {
			case b.used <- emptied(batch.Events):
			default:
			}
			b.underWay.Done()
		}
	})
	return b, nil
}

// write encodes a batch and writes it, unless an earlier one failed.
func (b *bulk) write(batch *executor.Batch) {
	if b.failure() != nil {
		return
	}
	b.fail(b.db.transact(func() error { return b.w.append(batch) }))
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
	if n := len(b.gathered.Events) + len(more.Events); n > 1024 && n > cap(b.gathered.Events) {
		b.gathered.Events = slices.Grow(b.gathered.Events, bulkEvents) // at once
	}
	b.gathered.Events = append(b.gathered.Events, more.Events...)
	b.gathered.Admissions = append(b.gathered.Admissions, more.Admissions...)
	large := slices.ContainsFunc(more.Admissions, func(a *executor.Admission) bool {
		return len(a.Tasks) > definitionLarge // its trace leaves memory before it is planned
	})
	if large {
		return b.flush()
	}
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
	b.handed <- b.gathered
	b.gathered = executor.Batch{}
	select {
	case b.gathered.Events = <-b.used:
	default:
	}
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
	close(b.handed)
	b.writing.Wait()
	b.w.close()
}

// bulkWriter turns batches of a simulation into rows, those of workflows and attempts when they are over.
type bulkWriter struct {
	*projection
	definer
	terse
	bodies []byte // of the batch, JSON: [[step, kind, body...], ...]
	chunks *update
}

func newBulkWriter(conn *sqlite3.SQLiteConn, run int64) (*bulkWriter, error) {
	w := &bulkWriter{projection: newProjection()}
	var err error
	if w.out, err = newTables(conn, run, "INSERT"); err != nil {
		return nil, err
	}
	w.out.workflows.most = bulkChunk
	if w.out.packer, err = newPacker(conn, run); err != nil {
		w.out.close()
		return nil, err
	}
	w.chunks, err = newUpdate(conn, "INSERT INTO event_chunks(run, seq, at_ns, kinds, rounds, took_ns, bodies, v) "+
		"VALUES (?, ?, ?, ?, ?, ?, CAST(? AS TEXT), ?)")
	if err != nil {
		w.out.close()
	}
	return w, err
}

func (w *bulkWriter) close() {
	w.out.close()
	w.chunks.stmt.Close()
}

// append writes a batch within the transaction that the caller opened. An event is encoded and taken in while it is in
// the caches of the processor.
func (w *bulkWriter) append(b *executor.Batch) error {
	kinds, rounds, took := 0, 0, int64(0)
	if cap(w.bodies) > spareBodies {
		w.bodies = nil
	}
	text, last, admissions := w.bodies[:0], planner.Time(0), b.Admissions
	if len(b.Events) >= bulkEvents {
		text = slices.Grow(text, usualBodies)
	}
	for i := range b.Events {
		ev := &b.Events[i]
		step := time.Duration(ev.At - last)
		last = ev.At
		kinds |= 1 << ev.Body.Kind()
		var err error
		if text, err = w.terse.encode(append(text, "[,"[min(i, 1)]), step, ev.At, ev.Body); err != nil {
			return fmt.Errorf("event %d: %w", ev.Seq, err)
		}
		var admission *executor.Admission
		switch body := ev.Body.(type) {
		case *planner.WorkflowArrived, *planner.WorkflowGrown:
			if len(admissions) == 0 {
				return fmt.Errorf("event %d: its admission is missing", ev.Seq)
			}
			admission, admissions = admissions[0], admissions[1:]
			blob, err := w.keep(admission)
			if err != nil {
				return err
			}
			w.out.definitions = append(w.out.definitions[:0], blob)
		case *planner.PlanCommitted:
			rounds++
			took += int64(body.Took)
		}
		w.out.packer.plain = w.terse.plain
		if err := w.apply(ev, admission); err != nil {
			return err
		}
	}
	w.bodies = append(text, ']')
	if err := w.writeEnded(); err != nil {
		return err
	}
	return w.chunks.exec(w.out.run, int64(b.Events[0].Seq), int64(w.at), int64(kinds), int64(rounds), took, w.bodies,
		int64(eventVersion))
}

// end writes what was not written yet, in the state it was left in.
func (w *bulkWriter) end(over bool) error {
	if over {
		w.over()
	}
	w.changedAttempts = w.changedAttempts[:0]
	for _, x := range w.attempts {
		if x != nil {
			w.changedAttempts = append(w.changedAttempts, x)
		}
	}
	for _, f := range w.flows {
		if f != nil {
			w.touch(f)
		}
	}
	err := w.write()
	w.attempts, w.flows = nil, nil // all is written
	return err
}
