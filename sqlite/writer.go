package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gantry/executor"
	"gantry/planner"
)

var (
	insertEvent  = insertInto("INSERT", "events", "run, seq, at_ns, kind, subject, body")
	insertSample = insertInto("INSERT OR REPLACE", "samples",
		"run, attempt, at_ns, cpu_ns, memory_bytes, read_bytes, written_bytes")
)

// append writes a batch within the transaction that the caller opened.
func (p *projection) append(events []encodedEvent, failed []planner.WorkflowID) error {
	for i := range events {
		ev := &events[i]
		if err := p.out.exec(insertEvent, int64(ev.Seq), int64(ev.At), int64(ev.Body.Kind()), ev.subject,
			ev.body); err != nil {
			return err
		}
		if err := p.apply(&ev.Event, ev.admission, ev.definition); err != nil {
			return err
		}
	}
	for _, id := range failed {
		if f := p.flows[id]; f != nil {
			p.leave(f)
		}
	}
	return p.write(false)
}

func (t *tables) addSample(s *Sample) error {
	return t.exec(insertSample, int64(s.Attempt), int64(s.At),
		known(int64(s.CPU), s.Missing&planner.CounterCPU == 0),
		known(int64(s.Memory), s.Missing&planner.CounterMemory == 0),
		known(int64(s.Read), s.Missing&planner.CounterIO == 0),
		known(int64(s.Written), s.Missing&planner.CounterIO == 0))
}

// encodedEvent is an event with the texts that are encoded before its transaction begins.
type encodedEvent struct {
	planner.Event
	subject, body driver.Value
	admission     *executor.Admission // of a workflow that arrives or grows
	definition    []byte              // also
}

func encode(b executor.Batch) ([]encodedEvent, error) {
	out, admissions := make([]encodedEvent, len(b.Events)), b.Admissions
	var buf bytes.Buffer
	for i, ev := range b.Events {
		x := &out[i]
		x.Event = ev
		buf.Reset()
		var err error
		x.subject, err = encodeBody(&buf, ev.At, ev.Body)
		if buf.Len() > 0 {
			x.body = buf.String()
		}
		if err == nil && admits(ev.Body) && len(admissions) > 0 {
			x.admission, admissions = admissions[0], admissions[1:]
			x.definition, err = encodeAdmission(x.admission)
		}
		if err == nil && (x.admission != nil) != admits(ev.Body) {
			err = errors.New("it comes without its admission")
		}
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", ev.Seq, err)
		}
	}
	return out, nil
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
	*projection
	db       *DB
	gathered executor.Batch
	// written is the end of the batch that is being written; nil: there is none. There is one at most: waiting batches
	// cost the collector work.
	written chan error
	err     error // the first one: nothing is written after it
}

// keep encodes a batch and writes it.
func (b *bulk) keep(batch executor.Batch) error {
	encoded, err := encode(batch)
	if err == nil {
		err = b.db.transact(func() error { return b.append(encoded, batch.Failed) })
	}
	return err
}

// gather takes a batch. An error may be that of an earlier one.
func (b *bulk) gather(more executor.Batch) error {
	b.gathered.Events = append(b.gathered.Events, more.Events...)
	b.gathered.Admissions = append(b.gathered.Admissions, more.Admissions...)
	b.gathered.Failed = append(b.gathered.Failed, more.Failed...)
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
	if len(b.gathered.Events)+len(b.gathered.Failed) == 0 || b.err != nil {
		return
	}
	batch := b.gathered
	b.gathered, b.written = executor.Batch{}, make(chan error, 1)
	go func() { b.written <- b.keep(batch) }()
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
		if over {
			b.over()
		}
		return b.write(true)
	})
}

// insertInto is INSERT or, where the last row of a key counts, INSERT OR REPLACE.
func insertInto(verb, table, columns string) string {
	return verb + " INTO " + table + "(" + columns + ") VALUES (?" + strings.Repeat(",?", strings.Count(columns, ",")) +
		")"
}

// statement is prepared, with places for its arguments: the first is the run.
type statement struct {
	driver.Stmt
	args []driver.NamedValue
}

// exec runs a statement that returns no rows. Of the driver's two ways, Exec takes a call from Go to C for each value,
// and Query one for all values.
func (t *tables) exec(text string, values ...driver.Value) error {
	if t == nil {
		return nil
	}
	s := t.made[text]
	if s == nil {
		var err error
		if s, err = t.prepare(text); err != nil {
			return err
		}
		t.made[text] = s
	}
	for i, v := range values {
		s.args[i+1].Value = v
	}
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(context.Background(), s.args)
	if err != nil {
		return err
	}
	return rows.Close()
}

func (t *tables) prepare(text string) (*statement, error) {
	s := new(statement)
	if err := t.conn.Raw(func(conn any) (err error) {
		s.Stmt, err = conn.(driver.Conn).Prepare(text)
		return err
	}); err != nil {
		return nil, err
	}
	s.args = make([]driver.NamedValue, s.NumInput())
	for i := range s.args {
		s.args[i].Ordinal = i + 1
	}
	s.args[0].Value = t.run
	return s, nil
}

func (t *tables) close() {
	for _, s := range t.made {
		s.Close()
	}
	clear(t.made)
}
