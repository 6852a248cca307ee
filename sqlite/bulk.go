package sqlite

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"gantry/sqlite/sqlite3"

	"gantry/executor"
	"gantry/planner"
)

const (
	bulkEvents  = 8192    // events of a simulation that are written together
	chunkEvents = 2048    // events in a row
	usualBodies = 30      // bytes of the body of an event
	spareBodies = 1 << 20 // bytes of memory for them that are kept to be used again, at most
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
	chunks *inserter
	bodies text // of the next row, JSON: [event, ...], see terse.encode
}

func newBulkWriter(conn *sqlite3.SQLiteConn, run int64) (*bulkWriter, error) {
	w := &bulkWriter{projection: newProjection()}
	var err error
	w.out, err = newTables(conn, run, "INSERT",
		table{&w.chunks, "INSERT", "event_chunks", "run", "seq, at_ns, kinds, rounds, took_ns, v, bodies"})
	if err != nil {
		return nil, err
	}
	w.out.workflows.most = bulkChunk
	if w.out.packer, err = newPacker(conn, run); err != nil {
		w.out.close()
	}
	return w, err
}

func (w *bulkWriter) close() { w.out.close() }

// append writes a batch within the transaction that the caller opened.
func (w *bulkWriter) append(b *executor.Batch) error {
	admissions := b.Admissions
	for events := range slices.Chunk(b.Events, chunkEvents) {
		var err error
		if admissions, err = w.chunk(events, admissions); err != nil {
			return err
		}
	}
	return w.writeEnded()
}

// chunk makes a row of events, and takes them in. Each is encoded and taken in while it is in the caches of the
// processor. It returns the admissions that are left.
func (w *bulkWriter) chunk(events []planner.Event, admissions []*executor.Admission) ([]*executor.Admission, error) {
	kinds, rounds, took, last := 0, 0, int64(0), planner.Time(0)
	if cap(w.bodies) > spareBodies {
		w.bodies = nil
	}
	w.bodies = slices.Grow(w.bodies[:0], usualBodies*len(events))
	for i := range events {
		ev := &events[i]
		kinds |= 1 << ev.Body.Kind()
		var err error
		w.bodies, err = w.terse.encode(append(w.bodies, "[,"[min(i, 1)]), time.Duration(ev.At-last), ev.At,
			ev.Body)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", ev.Seq, err)
		}
		last = ev.At
		var admission *executor.Admission
		switch body := ev.Body.(type) {
		case *planner.WorkflowArrived, *planner.WorkflowGrown:
			if len(admissions) == 0 {
				return nil, fmt.Errorf("event %d: its admission is missing", ev.Seq)
			}
			admission, admissions = admissions[0], admissions[1:]
			definition, err := w.keep(admission)
			if err != nil {
				return nil, err
			}
			w.out.definitions = append(w.out.definitions[:0], definition) // it is taken before the next one
			w.terse.arrived(admission)
		case *planner.PlanCommitted:
			rounds++
			took += int64(body.Took)
		}
		w.out.packer.plain = w.terse.plain
		if err := w.apply(ev, admission); err != nil {
			return nil, err
		}
	}
	w.bodies = append(w.bodies, ']')
	for _, n := range [...]int64{int64(events[0].Seq), int64(w.at), int64(kinds), int64(rounds), took, eventVersion} {
		w.chunks.takeInt(n)
	}
	w.chunks.takeBytes(w.bodies, true)
	return admissions, w.chunks.end()
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
