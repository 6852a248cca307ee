package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"

	"gantry/executor"
	"gantry/planner"
	"gantry/sqlite/sqlite3"
)

// writer is the log of a run on its way.
type writer struct {
	*projection
	rows           *tables
	events, sample *statement
}

// newWriter makes the writer of a run whose rows follow each batch or, late, are written once they have ended.
func newWriter(conn *sqlite3.SQLiteConn, run int64, late bool) (*writer, error) {
	w := &writer{projection: newProjection()}
	w.late = late
	var err error
	w.rows, err = newTables(conn, run,
		query{&w.events, insertInto("INSERT", "events", "run, seq, at_ns, kind, subject, body")},
		query{&w.sample, insertInto("INSERT OR REPLACE", "samples",
			"run, attempt, at_ns, cpu_ns, memory_bytes, read_bytes, written_bytes")})
	return w, err
}

// append writes a batch within the transaction that the caller opened.
func (w *writer) append(b *encodedBatch) error {
	w.out, w.rows.definitions = w.rows, b.definitions
	arrival := 0
	for i := range b.Events {
		ev := &b.Events[i]
		if err := w.events.add(int64(ev.Seq), int64(ev.At), int64(ev.Body.Kind()), b.subjects[i],
			b.bodies[i]); err != nil {
			return err
		}
		var admission *executor.Admission
		if admits(ev.Body) {
			admission = b.Admissions[arrival]
			arrival++
		}
		if err := w.apply(ev, admission); err != nil {
			return err
		}
	}
	for _, id := range b.Failed {
		if f := w.flows[id]; f != nil {
			w.leave(f)
		}
	}
	return w.write()
}

// end writes how a run was left that is over.
func (w *writer) end() error {
	w.out = w.rows
	w.over()
	return w.write()
}

// undone forgets a batch that is not in the log, and all else: the log is read back before the next one.
func (w *writer) undone() {
	w.rows.reset()
	late := w.late
	w.projection = newProjection()
	w.late = late
}

func (w *writer) insertSamples(rows []Sample) error {
	for _, s := range rows {
		if err := w.sample.add(int64(s.Attempt), int64(s.At), known(int64(s.CPU), s.Missing&planner.CounterCPU == 0),
			known(int64(s.Memory), s.Missing&planner.CounterMemory == 0),
			known(int64(s.Read), s.Missing&planner.CounterIO == 0),
			known(int64(s.Written), s.Missing&planner.CounterIO == 0)); err != nil {
			return err
		}
	}
	return w.sample.flush()
}

// encodedBatch is a batch with the texts that are encoded before its transaction begins.
type encodedBatch struct {
	executor.Batch
	subjects    []driver.Value // of events
	bodies      []driver.Value // also
	definitions [][]byte
}

func encode(b executor.Batch) (*encodedBatch, error) {
	out := &encodedBatch{Batch: b, subjects: make([]driver.Value, len(b.Events)),
		bodies: make([]driver.Value, len(b.Events))}
	var buf bytes.Buffer
	var err error
	for i, ev := range b.Events {
		buf.Reset()
		if out.subjects[i], err = encodeBody(&buf, ev.At, ev.Body); err != nil {
			return out, fmt.Errorf("event %d: %w", ev.Seq, err)
		}
		if buf.Len() > 0 {
			out.bodies[i] = buf.String()
		}
	}
	out.definitions, err = definitionsOf(b)
	return out, err
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

// chunk is how many rows are inserted together.
const chunk = 32

// statement inserts rows of a run, or changes them. Of the driver's two ways to run it, Exec takes a call from Go to C
// for each value, and Query one for all values: docs/decisions/0013-rows-go-to-sqlite-in-chunks.md has what that saves.
type statement struct {
	one, many driver.Stmt         // for a row; for a chunk of rows, nil unless it inserts
	args      []driver.NamedValue // of a chunk; each row begins with the run
	width     int                 // of a row
	rows      int                 // that wait for the others of their chunk
}

// query is a statement to be made, which returns no rows. Its first argument is the run.
type query struct {
	to   **statement
	text string
}

// insertInto is INSERT or, where the last row of a key counts, INSERT OR REPLACE.
func insertInto(verb, table, columns string) string {
	return verb + " INTO " + table + "(" + columns + ") VALUES (?" + strings.Repeat(",?", strings.Count(columns, ",")) +
		")"
}

// statements write in this order.
type statements []*statement

func prepare(c *sqlite3.SQLiteConn, run int64, queries ...query) (all statements, err error) {
	for _, q := range queries {
		s, err := newStatement(c, run, q.text)
		if err != nil {
			all.close()
			return nil, err
		}
		*q.to, all = s, append(all, s)
	}
	return all, nil
}

func newStatement(c *sqlite3.SQLiteConn, run int64, text string) (*statement, error) {
	one, err := c.Prepare(text)
	if err != nil {
		return nil, err
	}
	s := &statement{one: one, width: one.NumInput()}
	s.args = make([]driver.NamedValue, chunk*s.width)
	for i := range s.args {
		if s.args[i].Ordinal = i + 1; i%s.width == 0 {
			s.args[i].Value = run
		}
	}
	_, row, inserts := strings.Cut(text, " VALUES ")
	if !inserts {
		return s, nil
	}
	if s.many, err = c.Prepare(text + strings.Repeat(", "+row, chunk-1)); err != nil {
		s.one.Close()
		return nil, err
	}
	return s, nil
}

func (s *statement) close() {
	s.one.Close()
	if s.many != nil {
		s.many.Close()
	}
}

func (all statements) close() {
	for _, s := range all {
		s.close()
	}
}

func (all statements) flush() error {
	for _, s := range all {
		if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}

// reset forgets rows, after a failure too: the transaction they belong to is undone.
func (all statements) reset() {
	for _, s := range all {
		s.rows = 0
	}
}

// add takes a row; it is inserted at the latest by flush.
func (s *statement) add(values ...driver.Value) error {
	s.put(values)
	if s.rows++; s.rows < chunk {
		return nil
	}
	s.rows = 0
	return run(s.many, s.args)
}

// exec runs the statement for a row at once. No row waits.
func (s *statement) exec(values ...driver.Value) error {
	s.put(values)
	return run(s.one, s.args[:s.width])
}

func (s *statement) put(values []driver.Value) {
	row := s.args[s.rows*s.width:]
	for i, v := range values {
		row[i+1].Value = v
	}
}

// flush inserts the rows taken.
func (s *statement) flush() error {
	for i := range s.rows {
		for k := range s.width { // in the place of the first, which is inserted
			s.args[k].Value = s.args[i*s.width+k].Value
		}
		if err := run(s.one, s.args[:s.width]); err != nil {
			return err
		}
	}
	s.rows = 0
	return nil
}

func run(stmt driver.Stmt, args []driver.NamedValue) error {
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(context.Background(), args)
	if err != nil {
		return err
	}
	return rows.Close()
}
