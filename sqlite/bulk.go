package sqlite

import (
	"cmp"
	"slices"

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
	// written is the end of the batch that is being written; nil: there is none. There is one at most: waiting batches
	// cost the collector work.
	written chan error
	events  []planner.Event // of that batch: memory that is used again
	err     error           // the first one: nothing is written after it
}

func newBulk(db *DB, run int64) (*bulk, error) {
	w, err := newWriter(db.conn, run, true)
	return &bulk{db: db, w: w}, err
}

// write encodes a batch and writes it.
func (b *bulk) write(batch executor.Batch) error {
	encoded, err := encode(batch)
	if err == nil {
		err = b.db.transact(func() error { return b.w.append(encoded) })
	}
	return err
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
	if len(b.gathered.Events) >= bulkEvents {
		b.pass()
	}
	return b.err
}

// pass has what was gathered written, once the batch before is.
func (b *bulk) pass() {
	b.wait()
	if len(b.gathered.Events) == 0 || b.err != nil {
		return
	}
	batch := b.gathered
	b.gathered, b.events = executor.Batch{Events: emptied(b.events)}, batch.Events
	b.written = make(chan error, 1)
	go func() { b.written <- b.write(batch) }()
}

// wait waits for the batch that is being written.
func (b *bulk) wait() {
	if b.written != nil {
		b.err = cmp.Or(b.err, <-b.written)
		b.written = nil
	}
}

// flush writes all events that were taken.
func (b *bulk) flush() error {
	b.pass()
	b.wait()
	return b.err
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
	b.wait()
	b.w.rows.close()
}
