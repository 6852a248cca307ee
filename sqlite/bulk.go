package sqlite

import (
	"slices"
	"sync"

	"gantry/executor"
	"gantry/planner"
)

const (
	// bulkEvents is how many events of a simulation are written together.
	bulkEvents = 8192
	// definitionLarge is how many tasks a workflow has whose definition is written at once.
	definitionLarge = 2000
)

// bulk is the log of a simulation on its way. A simulation can be repeated, so its last rows may be lost with the
// process: thousands of events are encoded and written in one transaction, by a goroutine beside the engine. The tables
// are those of a real run; rows of attempts are written once they have ended, and those of tasks once their workflow
// has.
type bulk struct {
	db       *DB
	w        *writer
	gathered executor.Batch
	handed   chan executor.Batch
	used     chan []planner.Event // memory of batches
	writing  sync.WaitGroup
	underWay sync.WaitGroup // batches

	mu  sync.Mutex
	err error // the first one: nothing is written after it
}

func newBulk(db *DB, run int64) (*bulk, error) {
	w, err := newWriter(db.conn, run, true)
	if err != nil {
		return nil, err
	}
	// A batch is handed over once the one before is written: waiting batches cost the collector work.
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
	encoded, err := encode(*batch)
	if err == nil {
		err = b.db.transact(func() error { return b.w.append(encoded) })
	}
	b.fail(err)
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

// end writes all that is left. If the simulation is over, tasks that never started are skipped.
func (b *bulk) end(over bool) error {
	if err := b.flush(); err != nil {
		return err
	}
	return b.db.transact(func() error {
		if b.w.out = b.w.rows; over {
			b.w.over()
		}
		return b.w.writeAll()
	})
}

func (b *bulk) close() {
	b.underWay.Wait()
	close(b.handed)
	b.writing.Wait()
	b.w.rows.close()
}
