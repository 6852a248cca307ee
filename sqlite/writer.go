package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"

	"gantry/executor"
	"gantry/planner"
)

const (
	// together is how many events one statement inserts, if a batch has as many.
	together = 16
	// eventWidth is how many columns of an event have values of their own.
	eventWidth = 5
)

var (
	// FAIL, as an error undoes the transaction: for ABORT, SQLite would copy each page before it changes it.
	insertEvent  = insertInto("INSERT OR FAIL", "events", "run, seq, at_ns, kind, subject, body")
	insertEvents = insertEvent + strings.Repeat(",(?1,?,?,?,?,?)", together-1)
	insertSample = insertInto("INSERT OR REPLACE", "samples",
		"run, attempt, at_ns, cpu_ns, memory_bytes, read_bytes, written_bytes")
)

// append writes a batch, with the definitions of its admissions, within the transaction that the caller opened.
func (p *projection) append(b *executor.Batch, definitions [][]byte) error {
	p.out.events = p.out.events[:0]
	for i, n := 0, 0; i < len(b.Events); i++ {
		ev := &b.Events[i]
		if err := p.out.addEvent(ev); err != nil {
			return fmt.Errorf("event %d: %w", ev.Seq, err)
		}
		var admission *executor.Admission
		var definition []byte
		if admits(ev.Body) && n < len(definitions) {
			admission, definition = b.Admissions[n], definitions[n]
			n++
		}
		if err := p.apply(ev, admission, definition); err != nil {
			return err
		}
	}
	for _, id := range b.Failed {
		if f := p.flows[id]; f != nil {
			p.leave(f)
		}
	}
	for rest := p.out.events; len(rest) > 0; rest = rest[eventWidth:] {
		if err := p.out.exec(insertEvent, rest[:eventWidth]...); err != nil {
			return err
		}
	}
	return p.write()
}

// addEvent adds an event to those that wait, and writes them if there are enough.
func (t *tables) addEvent(ev *planner.Event) error {
	t.body.Reset()
	subject, err := encodeBody(&t.body, ev.At, ev.Body)
	if err != nil {
		return err
	}
	var body driver.Value
	if t.body.Len() > 0 {
		body = t.body.String()
	}
	t.events = append(t.events, int64(ev.Seq), int64(ev.At), int64(ev.Body.Kind()), subject, body)
	if len(t.events) == together*eventWidth {
		err = t.exec(insertEvents, t.events...)
		t.events = t.events[:0]
	}
	return err
}

func (t *tables) addSample(s *Sample) error {
	return t.exec(insertSample, int64(s.Attempt), int64(s.At),
		known(int64(s.CPU), s.Missing&planner.CounterCPU == 0),
		known(int64(s.Memory), s.Missing&planner.CounterMemory == 0),
		known(int64(s.Read), s.Missing&planner.CounterIO == 0),
		known(int64(s.Written), s.Missing&planner.CounterIO == 0))
}

// definitionsOf encodes the admissions of a batch before its transaction begins: one may take seconds.
func definitionsOf(b *executor.Batch) (all [][]byte, err error) {
	all = make([][]byte, len(b.Admissions))
	for i := 0; i < len(all) && err == nil; i++ {
		all[i], err = encodeAdmission(b.Admissions[i])
	}
	return all, err
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
func (b *bulk) keep(batch *executor.Batch) error {
	definitions, err := definitionsOf(batch)
	if err == nil {
		err = b.db.transact(func() error { return b.append(batch, definitions) })
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
	go func() { b.written <- b.keep(&batch) }()
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
		b.all()
		return b.write()
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
