package sqlite

import (
	"bytes"
	"cmp"
	"database/sql"
	"database/sql/driver"
	"reflect"
	"strconv"
	"strings"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
)

// tables writes the rows of a run. A nil *tables writes none.
type tables struct {
	conn     *sql.Conn
	run      int64
	made     map[string]*statement // by text: prepared when it is used first
	row      [64]driver.Value      // memory of one, which has no more columns
	body     bytes.Buffer          // of an event
	events   []driver.Value        // of events that wait to be written together
	identify bool                  // tasks get an identity
	commands bool                  // and their command: programs run
	nodes    []planner.Node
}

// counter is a column of table attempts that holds a member of planner.Usage.
type counter struct {
	column  string
	index   []int            // of the member
	instant bool             // NULL if unit.Never
	limit   bool             // NULL if zero
	missing planner.Counters // NULL if one of these is missing
}

var counters = countersOf(reflect.TypeFor[planner.Usage]())

func countersOf(usage reflect.Type) (all []counter) {
	for i := range usage.NumField() {
		f := usage.Field(i)
		c := counter{column: f.Tag.Get("json"), index: f.Index, instant: f.Type == reflect.TypeFor[planner.Time]()}
		for k, name := range planner.CounterNames {
			if name == f.Tag.Get("missing") {
				c.missing = 1 << k
			}
		}
		switch f.Type {
		case reflect.TypeFor[planner.Limits]():
			for j := range f.Type.NumField() {
				all = append(all, counter{column: "applied_" + f.Type.Field(j).Tag.Get("json"), index: []int{i, j},
					limit: true})
			}
		case reflect.TypeFor[planner.Counters]():
		default:
			all = append(all, c)
		}
	}
	return all
}

func columnsOf(counters []counter) (names string) {
	for _, c := range counters {
		names += ", " + c.column
	}
	return names
}

// appendCounters appends the counters of an attempt. One that is not known is NULL, never 0; of an attempt under way
// only instants are known.
func appendCounters(v []driver.Value, u *planner.Usage, ended bool) []driver.Value {
	usage := reflect.ValueOf(u).Elem()
	for i := range counters {
		c := &counters[i]
		member := usage.Field(c.index[0])
		if len(c.index) > 1 {
			member = member.Field(c.index[1])
		}
		if member.Kind() == reflect.Pointer {
			if member.IsNil() {
				v = append(v, nil)
				continue
			}
			member = member.Elem()
		}
		n := member.Int()
		if c.instant {
			v = append(v, reached(planner.Time(n)))
		} else {
			v = append(v, known(n, ended && u.Missing&c.missing == 0 && !(c.limit && n == 0)))
		}
	}
	return v
}

// Statements that change rows.
var (
	insertFlow = insertInto("INSERT", "workflows", "run, workflow, name, label, source, format, tenant, class, "+
		"arrived_ns, release_ns, due_ns, first_task, definition, state, started_ns, ended_ns, tasks")
	insertGrowth = insertInto("INSERT", "growths", "run, workflow, first_task, tasks, definition")
	insertTask   = insertInto("INSERT", "tasks", "run, task, workflow, name, kind, stage, parents, inputs, outputs, "+
		"need_millicores, need_memory_bytes, need_disk_bps, time_limit_ns, trace_runtime_ns, input_bytes, "+
		"declared_memory_bytes, imputed_bits, image, command, identity, state, node, attempts, attempt, ready_ns, "+
		"queued_ns, ended_ns")
	insertFile    = insertInto("INSERT", "files", "run, file, workflow, name, size_bytes, producer")
	insertContent = insertInto("INSERT OR REPLACE", "contents", "run, file, node, size_bytes, mtime_ns, ctime_ns, "+
		"inode, device, sha256")
	insertReplica = insertInto("INSERT", "replicas", "run, file, node, replica")
	insertAttempt = insertInto("INSERT OR REPLACE", "attempts", "run, attempt, task, try, node, hold_millicores, "+
		"hold_memory_bytes, hold_disk_bps, planned_end_ns, estimate_ns, estimate_spread_ns, estimate_samples, "+
		"estimate_source_code, gpus, outcome, exit_code, message, done, before_ns, kept, lost_ns, ran_ns"+
		columnsOf(counters))
	insertNote   = insertInto("INSERT", "notes", "run, seq, position, at_ns, topic, workflow, task, instant_ns, text")
	insertWait   = insertInto("INSERT OR REPLACE", "waits", "run, task, seq, since_ns, reason, dim, node, until_ns")
	insertPolicy = insertInto("INSERT", "policies", "run, seq, at_ns, policy")
	insertReuse  = insertInto("INSERT OR REPLACE", "reuses", "run, task, at_ns, from_run, from_attempt, ran_ns")
)

const (
	changePolicy = "UPDATE runs SET policy = ?2 WHERE id = ?1"
	changeFlow   = "UPDATE workflows SET state = ?2, started_ns = ?3, ended_ns = ?4, tasks = ?5 " +
		"WHERE run = ?1 AND workflow = ?6"
	changeTask = "UPDATE tasks SET state = ?2, node = ?3, attempts = ?4, attempt = ?5, ready_ns = ?6, " +
		"queued_ns = ?7, ended_ns = ?8 WHERE run = ?1 AND task = ?9"
	continueFlow = "UPDATE workflows SET continues = iif(workflow = ?2, ?3, continues), state = " +
		"iif(workflow = ?3, 'continued', state) WHERE run = ?1 AND workflow IN (?2, ?3)"
	supersedeTasks = "UPDATE tasks SET state = 'continued' WHERE run = ?1 AND workflow = ?2 AND " +
		"task >= (SELECT first_task FROM workflows WHERE run = ?1 AND workflow = ?2)"
)

func (t *tables) addFlow(f *flow, a *executor.Admission, definition []byte) error {
	if t == nil {
		return nil
	}
	flow, sub := &a.Arrived.Workflow, &a.Submission
	from := cmp.Or(sub.Workflow, new(trace.Workflow))
	first := planner.TaskID(0)
	if len(a.Arrived.Tasks) > 0 {
		first = a.Arrived.Tasks[0].ID
	}
	if err := t.exec(insertFlow, append([]driver.Value{int64(flow.ID), sub.Name, from.Label, from.Source,
		from.Format.String(), sub.Tenant, flow.Class.String(), int64(flow.Arrived), int64(flow.Release),
		reached(flow.Due), int64(first), definition}, f.values()...)...); err != nil {
		return err
	}
	for i := range a.Arrived.Files {
		f := &a.Arrived.Files[i]
		fileName, sized := "", true
		if i < len(a.Files) {
			fileName, sized = a.Files[i].NodeName(), a.Files[i].Sized
		}
		if err := t.exec(insertFile, int64(f.ID), int64(a.Arrived.Workflow.ID), fileName, known(int64(f.Size), sized),
			known(int64(f.Producer), f.Producer != planner.None)); err != nil {
			return err
		}
		for k, n := range f.Homes {
			if err := t.exec(insertReplica, int64(f.ID), int64(n), int64(k+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// values are the columns of the row of a workflow that change.
func (f *flow) values() []driver.Value {
	return []driver.Value{f.state, reached(f.started), reached(f.ended), int64(len(f.tasks))}
}

// addTask adds a task, as x has it by now, ready since an instant.
func (t *tables) addTask(p *fresh, x *task, ready planner.Time) error {
	spec := p.spec
	var identity, command driver.Value
	if t.commands {
		command = message(executor.Written(spec))
	}
	if t.identify && !x.formal {
		hash := spec.Identity()
		identity = hash[:]
	}
	v := append(t.row[:0], int64(x.id), int64(x.flow.id), spec.Name, spec.Kind, int64(p.stage), listOf(x.parents),
		listOf(p.inputs), listOf(p.outputs), p.need[unit.CPU], p.need[unit.Memory], p.need[unit.Disk],
		known(int64(spec.TimeLimit), spec.TimeLimit != 0), p.runtime, p.input,
		known(int64(spec.Declares), spec.Declares != 0), int64(p.imputed), message(spec.Image), command, identity)
	return t.exec(insertTask, x.appendTo(v, ready)...)
}

func (t *tables) changeTask(x *task, ready planner.Time) error {
	return t.exec(changeTask, append(x.appendTo(t.row[:0], ready), int64(x.id))...)
}

// appendTo appends the columns of the row of a task that change.
func (x *task) appendTo(v []driver.Value, ready planner.Time) []driver.Value {
	placed := (x.last != planner.None || x.state == planner.Done) && x.node != planner.None
	return append(v, x.state.String(), known(int64(x.node), placed), int64(x.tries),
		known(int64(x.last), x.last != planner.None), reached(ready), reached(x.queued), reached(x.ended))
}

// addAttempt adds an attempt, or replaces its row.
func (t *tables) addAttempt(a *attempt) error {
	x := a.order
	usage := &planner.Usage{Queued: a.queued, Staged: unit.Never, Created: unit.Never, Started: a.started,
		Ended: unit.Never, Missing: planner.CountersAll}
	v := append(t.row[:0], int64(x.Attempt), int64(x.Task), int64(x.Try), int64(x.Node), x.Hold[unit.CPU],
		x.Hold[unit.Memory], x.Hold[unit.Disk], reached(x.Until), known(int64(x.Est.Run), x.Est.Source != 0),
		known(int64(x.Est.Spread), x.Est.Spread != 0), known(int64(x.Est.Samples), x.Est.Source != 0),
		known(int64(x.Est.Source), x.Est.Source != 0), t.gpus(x))
	if b := a.exit; b != nil {
		u := b.Usage
		if u.Created == u.Started {
			u.Created = unit.Never // there was no container
		}
		usage = &u
		v = append(v, b.Outcome.String(), known(int64(b.ExitCode), b.ExitCode != -1), message(b.Message),
			fraction(a.before.done), known(a.before.ran, a.before.done > 0), fraction(b.Kept), a.lost,
			known(int64(b.Ran), usage.Started != unit.Never))
	} else {
		v = append(v, nil, nil, nil, nil, nil, nil, nil, nil)
	}
	return t.exec(insertAttempt, appendCounters(v, usage, a.exit != nil)...)
}

// gpus names the GPUs of an attempt: those of a real node as CDI does, others by their number.
func (t *tables) gpus(x *planner.Order) driver.Value {
	var names []string
	for g := range x.GPUs.Each {
		if int(x.Node) < len(t.nodes) && g < len(t.nodes[x.Node].Devices) {
			names = append(names, t.nodes[x.Node].Devices[g])
		} else {
			names = append(names, strconv.Itoa(g))
		}
	}
	return message(strings.Join(names, ","))
}

func (t *tables) addWait(ev *planner.Event, wait planner.Wait) error {
	why := wait.Reason
	var dim, node, until driver.Value // of the reasons that have them
	switch why.Code {
	case planner.NoNodeFree:
		dim = why.Dim.String()
	case planner.PlannedLater:
		node, until = int64(why.Node), reached(why.At)
	case planner.NotYetReleased:
		until = reached(why.At)
	}
	return t.exec(insertWait, int64(wait.Task), int64(ev.Seq), int64(ev.At), why.Code.String(), dim, node, until)
}

func (t *tables) addNotes(ev *planner.Event, notes []planner.Note) error {
	for i, n := range notes {
		if err := t.exec(insertNote, int64(ev.Seq), int64(i), int64(ev.At), n.Topic, known(int64(n.Workflow),
			n.Workflow != planner.None), known(int64(n.Task), n.Task != planner.None), reached(n.At),
			n.Text); err != nil {
			return err
		}
	}
	return nil
}

// diskShare stands beside the fields of a trace, of which hardly any has block I/O: it is the task's share of its
// node.
const diskShare trace.Fields = 1 << 8

// message is a text; NULL if there is none.
func message(said string) driver.Value {
	if said == "" {
		return nil
	}
	return strings.ToValidUTF8(said, "\uFFFD")
}

// listOf is a JSON array; NULL if there is none.
func listOf[I ~int32](ids []I) driver.Value {
	if len(ids) == 0 {
		return nil
	}
	return string(appendList(make([]byte, 0, 8*len(ids)+2), ids))
}

func appendList[I ~int32 | ~int64](to []byte, numbers []I) []byte {
	to = append(to, '[')
	for i, n := range numbers {
		if i > 0 {
			to = append(to, ',')
		}
		to = strconv.AppendInt(to, int64(n), 10)
	}
	return append(to, ']')
}

// known is NULL for an unknown number.
func known(v int64, ok bool) driver.Value {
	if !ok {
		return nil
	}
	return v
}

// reached is NULL for an instant that was not reached.
func reached(t planner.Time) driver.Value { return known(int64(t), t != unit.Never) }

// fraction is NULL for none.
func fraction(f float64) driver.Value {
	if f == 0 {
		return nil
	}
	return f
}
