package sqlite

import (
	"bytes"
	"fmt"

	"gantry/sqlite/sqlite3"

	"gantry/executor"
	"gantry/planner"
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
		query{&w.events, insertInto("INSERT", "events", "run, seq, at_ns, kind, body")},
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
		if err := w.events.add(int64(ev.Seq), int64(ev.At), int64(ev.Body.Kind()), b.bodies[i]); err != nil {
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
	bodies      []string // of events
	definitions [][]byte
}

func encode(b executor.Batch) (*encodedBatch, error) {
	out := &encodedBatch{Batch: b, bodies: make([]string, len(b.Events))}
	var buf bytes.Buffer
	for i, ev := range b.Events {
		buf.Reset()
		if err := encodeBody(&buf, ev.At, ev.Body); err != nil {
			return out, fmt.Errorf("event %d: %w", ev.Seq, err)
		}
		out.bodies[i] = buf.String()
	}
	var err error
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
