package sqlite

import (
	"cmp"
	"database/sql/driver"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry/sqlite/sqlite3"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
)

// tables writes the rows of a run. A nil *tables writes none.
type tables struct {
	run    int64
	values []driver.Value // memory of a row
	// definitions are those of the workflows that arrive or grow next.
	definitions [][]byte
	alike       alike
	kin         kin

	inserters                                                          // all of them
	workflows, growths, tasks, files, replicas, attempts, notes, waits *inserter
	flowChanged, taskChanged, suspended, overtaken                     *inserter
	flowContinued, flowSuperseded, taskReused, known                   *inserter

	identify   bool // tasks get an identity
	identities []identified
}

// alike are the values that attempts written together share.
type alike struct {
	try      int32
	hold     unit.Vector
	estimate planner.Estimate // without its time
	ended    bool
	outcome  planner.Outcome
	code     int
	message  string
	tally    tally
	usage    planner.Usage // without the counters of ownCounters
}

// kin are the values that tasks written together share.
type kin struct {
	need    unit.Vector
	limit   time.Duration
	imputed trace.Fields
	image   string
	state   taskState
	tries   int32
}

// counter is a column of table attempts that holds a member of planner.Usage.
type counter struct {
	column  string
	index   []int            // of the member
	instant bool             // NULL if unit.Never
	limit   bool             // NULL if zero
	missing planner.Counters // NULL if one of these is missing
}

// Counters that only a container has are the same for all attempts of a simulation: none is known.
var ownCounters, sharedCounters = counters()

func counters() (own, shared []counter) {
	usage := reflect.TypeFor[planner.Usage]()
	for i := range usage.NumField() {
		f := usage.Field(i)
		c := counter{column: f.Tag.Get("json"), index: f.Index, instant: f.Type == reflect.TypeFor[planner.Time]()}
		for k, name := range planner.CounterNames {
			if name == f.Tag.Get("missing") {
				c.missing = 1 << k
			}
		}
		switch {
		case f.Type == reflect.TypeFor[planner.Limits]():
			for j := range f.Type.NumField() {
				shared = append(shared, counter{column: "applied_" + f.Type.Field(j).Tag.Get("json"),
					index: []int{i, j}, limit: true})
			}
		case f.Type == reflect.TypeFor[planner.Counters]():
		case c.missing != 0:
			shared = append(shared, c)
		default:
			own = append(own, c)
		}
	}
	return own, shared
}

func columnsOf(counters []counter) (names string) {
	for _, c := range counters {
		names += ", " + c.column
	}
	return names
}

// countersOf appends the values of counters. One that is not known is NULL, never 0; of an attempt under way only
// instants are known.
func countersOf(v []driver.Value, counters []counter, u *planner.Usage, ended bool) []driver.Value {
	usage := reflect.ValueOf(u).Elem()
	for i := range counters {
		c := &counters[i]
		member := usage.Field(c.index[0])
		if len(c.index) > 1 {
			member = member.Field(c.index[1])
		}
		n := member.Int()
		switch {
		case c.instant:
			v = append(v, reached(planner.Time(n)))
		default:
			v = append(v, known(n, ended && u.Missing&c.missing == 0 && !(c.limit && n == 0)))
		}
	}
	return v
}

// Columns that rows written together mostly share come first.
const (
	workflowColumns = "run, workflow, name, label, source, format, tenant, class, arrived_ns, release_ns, due_ns, " +
		"first_task, definition, state, started_ns, ended_ns, tasks"
	workflowState = 12 // column of these from which on they change
	taskColumns   = "run, need_millicores, need_memory_bytes, need_disk_bps, time_limit_ns, imputed, image, " +
		"state, attempts, " +
		"task, workflow, name, kind, stage, trace_runtime_ns, input_bytes, parents, node, attempt, ready_ns, " +
		"queued_ns, " +
		"ended_ns"
	attemptShared = "run, try, hold_millicores, hold_memory_bytes, hold_disk_bps, estimate_spread_ns, " +
		"estimate_samples, estimate_source, outcome, exit_code, message, done, before_ns, kept, lost_ns"
	attemptColumns = ", attempt, task, node, planned_end_ns, estimate_ns, ran_ns"
)

// rowWidth is more than any row has columns.
const rowWidth = 64

// newTables prepares to write the rows of a run.
func newTables(conn *sqlite3.SQLiteConn, run int64, more ...table) (*tables, error) {
	if conn == nil {
		return nil, errors.New("it was opened for reading only")
	}
	// like no row
	t := &tables{run: run, values: make([]driver.Value, 0, rowWidth), alike: alike{try: -1}, kin: kin{tries: -1}}
	var err error
	t.inserters, err = prepare(conn, run, append([]table{
		{&t.workflows, 1, insertInto("INSERT", "workflows", workflowColumns)},
		{&t.growths, 1, insertInto("INSERT", "growths", "run, workflow, first_task, tasks, definition")},
		{&t.tasks, 9, insertInto("INSERT", "tasks", taskColumns)},
		{&t.files, 1, insertInto("INSERT", "files", "run, file, workflow, name, size_bytes, producer")},
		{&t.replicas, 1, insertInto("INSERT", "replicas", "run, file, node, replica")},
		{&t.attempts, 15 + len(sharedCounters), insertInto("INSERT OR REPLACE", "attempts", attemptShared+
			columnsOf(sharedCounters)+attemptColumns+columnsOf(ownCounters))},
		{&t.notes, 1, insertInto("INSERT", "notes", "run, seq, position, at_ns, topic, workflow, task, instant_ns, "+
			"text")},
		{&t.waits, 3, insertInto("INSERT OR REPLACE", "waits", "run, reason, dim, task, seq, since_ns, node, "+
			"until_ns")},
		{&t.flowChanged, 1, "UPDATE workflows SET state = ?2, started_ns = ?3, ended_ns = ?4, tasks = ?5 " +
			"WHERE run = ?1 AND workflow = ?6"},
		{&t.taskChanged, 1, "UPDATE tasks SET state = ?2, attempts = ?3, node = ?4, attempt = ?5, ready_ns = " +
			"coalesce(ready_ns, iif(?6 IS NULL, NULL, (SELECT CASE WHEN total(p.state <> 'done') = 0 THEN " +
			"max(?9, coalesce(max(p.ended_ns), 0)) END FROM json_each(tasks.parents) d CROSS JOIN tasks p ON " +
			"p.run = ?1 AND p.task = d.value))), queued_ns = ?6, ended_ns = ?7 WHERE run = ?1 AND task = ?8"},
		{&t.suspended, 1, insertInto("INSERT OR REPLACE", "suspensions", "run, attempt, seq, ordered_ns, how, "+
			"since_ns, "+
			"until_ns, lost_ns")},
		{&t.overtaken, 1, "DELETE FROM suspensions WHERE run = ?1 AND attempt = ?2 AND seq = ?3"},
		{&t.flowContinued, 1, "UPDATE workflows SET continues = iif(workflow = ?2, ?3, continues), state = " +
			"iif(workflow " +
			"= ?3, 'continued', state) WHERE run = ?1 AND workflow IN (?2, ?3)"},
		{&t.flowSuperseded, 1, "UPDATE tasks SET state = 'continued' WHERE run = ?1 AND workflow = ?2 AND " +
			"task >= (SELECT first_task FROM workflows WHERE run = ?1 AND workflow = ?2)"},
		{&t.taskReused, 1, insertInto("INSERT OR REPLACE", "reuses", "run, task, at_ns, from_run, from_attempt, "+
			"ran_ns")},
		{&t.known, 1, "UPDATE tasks SET identity = ?2 WHERE run = ?1 AND task = ?3"},
	}, more...)...)
	return t, err
}

// addFlow adds a workflow that arrived and its files.
func (t *tables) addFlow(f *flow, a *executor.Admission) error {
	if t == nil {
		return nil
	}
	flow, sub, from := &a.Arrived.Workflow, &a.Submission, a.Submission.Workflow
	if from == nil {
		from = new(trace.Workflow)
	}
	first := planner.TaskID(0)
	if len(a.Arrived.Tasks) > 0 {
		first = a.Arrived.Tasks[0].ID
	}
	f.row = t.workflows.place()
	if err := t.workflows.add(append([]driver.Value{int64(flow.ID), sub.Name, from.Label, from.Source,
		from.Format.String(), sub.Tenant, flow.Class.String(), int64(flow.Arrived), int64(flow.Release),
		reached(flow.Due), int64(first), t.definition()}, f.values()...)...); err != nil {
		return err
	}
	return t.addFiles(a, a.Files)
}

// addFiles adds the files that an admission brings; specs are the same, by position.
func (t *tables) addFiles(a *executor.Admission, specs []*executor.FileSpec) error {
	for i := range a.Arrived.Files {
		f := &a.Arrived.Files[i]
		fileName, sized := "", true
		if i < len(specs) {
			fileName, sized = specs[i].NodeName(), specs[i].Sized
		}
		if err := t.files.add(int64(f.ID), int64(a.Arrived.Workflow.ID), fileName, known(int64(f.Size), sized),
			known(int64(f.Producer), f.Producer != planner.None)); err != nil {
			return err
		}
		for k, n := range f.Homes {
			if err := t.replicas.add(int64(f.ID), int64(n), int64(k+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// changeFlow changes the row of a workflow, at the latest with the next flush.
func (t *tables) changeFlow(f *flow) error {
	v := f.values()
	if t.workflows.revise(f.row, workflowState, v...) {
		return nil
	}
	return t.flowChanged.add(append(v, int64(f.id))...)
}

// values are the columns of the row of a workflow that change.
func (f *flow) values() []driver.Value {
	return []driver.Value{f.name(), reached(f.started), reached(f.ended), int64(len(f.tasks))}
}

// addContinued says that a workflow stands for another.
func (t *tables) addContinued(b *planner.WorkflowContinued) error {
	if t == nil {
		return nil
	}
	if err := t.flush(); err != nil { // rows that are changed have to be there
		return err
	}
	return errors.Join(t.flowContinued.exec(int64(b.Workflow), int64(b.Of)), t.flowSuperseded.exec(int64(b.Of)))
}

// addReused says where the outputs of a task are from.
func (t *tables) addReused(ev *planner.Event, b *planner.TaskReused) error {
	if t == nil {
		return nil
	}
	return t.taskReused.exec(int64(b.Task), int64(ev.At), b.Run, int64(b.Attempt), int64(b.Ran))
}

// addTask adds a task, as x has it by now, ready since an instant.
func (t *tables) addTask(p *fresh, x *task, ready planner.Time) error {
	spec := p.spec
	if kin := (kin{p.need, spec.TimeLimit, p.imputed, spec.Image, x.state, x.tries}); kin != t.kin {
		t.kin = kin
		if err := t.tasks.share(append(t.values[:0], t.run, p.need[unit.CPU], p.need[unit.Memory], p.need[unit.Disk],
			known(int64(spec.TimeLimit), spec.TimeLimit != 0), imputedNames(p.imputed), message(spec.Image),
			taskStates[x.state], int64(x.tries))...); err != nil {
			return err
		}
	}
	var parents driver.Value
	if len(p.parents) > 0 {
		parents = listOf(p.parents)
	}
	if t.identify && !p.formal {
		identity := spec.Identity()
		t.identities = append(t.identities, identified{int64(p.id), identity[:]})
	}
	v := append(t.values[:0], int64(p.id), int64(p.flow), spec.Name, spec.Kind, int64(p.stage),
		known(int64(cmp.Or(spec.Declared, spec.Run)), p.runtime), p.input, parents)
	return t.tasks.add(append(v, x.where(), known(int64(x.last), x.last != planner.None), reached(ready),
		reached(x.queued), reached(x.ended))...)
}

// identified is a task whose identity is to be kept.
type identified struct {
	task     int64
	identity []byte
}

// putIdentities keeps the identities of new tasks, by which their results are known.
func (t *tables) putIdentities() error {
	if len(t.identities) == 0 {
		return nil
	}
	if err := t.tasks.flush(); err != nil {
		return err
	}
	for _, x := range t.identities {
		if err := t.known.exec(x.identity, x.task); err != nil {
			return err
		}
	}
	t.identities = t.identities[:0]
	return nil
}

// changeTask updates the task at position i of a workflow.
func (t *tables) changeTask(f *flow, i int) error {
	x := &f.tasks[i]
	return t.taskChanged.exec(taskStates[x.state], int64(x.tries), x.where(), known(int64(x.last),
		x.last != planner.None), reached(x.queued), reached(x.ended), int64(f.task(i)), int64(f.ready))
}

// where is the node of a task; NULL if it has none.
func (x *task) where() driver.Value {
	return known(int64(x.node), (x.last != planner.None || x.state == taskDone) && x.node != planner.None)
}

// addAttempt adds an attempt, or replaces its row.
func (t *tables) addAttempt(a *attempt) error {
	x := a.order
	usage := &planner.Usage{Queued: a.queued, Staged: unit.Never, Created: unit.Never, Started: a.started,
		Ended: unit.Never, Missing: planner.CountersAll}
	like := alike{try: x.Try, hold: x.Hold, estimate: x.Est, ended: a.exit != nil}
	like.estimate.Run = 0
	var ran driver.Value
	if b := a.exit; b != nil {
		usage = &b.Usage
		like.outcome, like.code, like.message, like.tally = b.Outcome, b.ExitCode, b.Message, a.tally
		ran = known(int64(b.Ran), usage.Started != unit.Never)
	}
	like.usage = *usage
	u := &like.usage
	u.Queued, u.Staged, u.Created, u.Started, u.Ended = 0, 0, 0, 0, 0
	u.InputBytes, u.CopiedBytes, u.MovedBytes, u.OOMKills = 0, 0, 0, 0
	if like != t.alike {
		t.alike = like
		l := &like.tally
		v := append(t.values[:0], t.run, int64(x.Try), x.Hold[unit.CPU], x.Hold[unit.Memory], x.Hold[unit.Disk],
			known(int64(x.Est.Spread), x.Est.Spread != 0), known(int64(x.Est.Samples), x.Est.Source != 0),
			name(x.Est.Source))
		if like.ended {
			v = append(v, like.outcome.String(), known(int64(like.code), like.code != -1), message(like.message),
				fraction(l.before.done),
				known(l.before.ran, l.before.done > 0), fraction(l.kept), l.lost)
		} else {
			v = append(v, nil, nil, nil, nil, nil, nil, nil)
		}
		if err := t.attempts.share(countersOf(v, sharedCounters, u, like.ended)...); err != nil {
			return err
		}
	}
	v := append(t.values[:0], int64(x.Attempt), int64(x.Task), int64(x.Node), reached(x.Until), known(int64(x.Est.Run),
		x.Est.Source != 0), ran)
	return t.attempts.add(countersOf(v, ownCounters, usage, like.ended)...)
}

func (t *tables) addWait(ev *planner.Event, wait planner.Wait) error {
	if t == nil {
		return nil
	}
	why, dim := wait.Reason, ""
	if why.Code == planner.NoNodeFree {
		dim = why.Dim.String()
	}
	if err := t.waits.share(t.run, why.Code.String(), message(dim)); err != nil {
		return err
	}
	node, until := whereAndWhen(why)
	return t.waits.add(int64(wait.Task), int64(ev.Seq), int64(ev.At), node, until)
}

// whereAndWhen are the node that a task waits for, and until when it does, of the reasons that have them.
func whereAndWhen(why planner.Reason) (node, until driver.Value) {
	switch why.Code {
	case planner.PlannedLater:
		return int64(why.Node), reached(why.At)
	case planner.NotYetReleased:
		return nil, reached(why.At)
	}
	return nil, nil
}

func (t *tables) addNotes(ev *planner.Event, notes []planner.Note) error {
	if t == nil {
		return nil
	}
	for i, n := range notes {
		if err := t.notes.add(int64(ev.Seq), int64(i), int64(ev.At), n.Topic, known(int64(n.Workflow),
			n.Workflow != planner.None),
			known(int64(n.Task), n.Task != planner.None), reached(n.At), n.Text); err != nil {
			return err
		}
	}
	return nil
}

func (t *tables) putSuspension(s *suspension) error {
	if t == nil {
		return nil
	}
	return t.suspended.exec(int64(s.attempt), int64(s.seq), int64(s.ordered), s.how.String(), reached(s.since),
		reached(s.until), known(s.lost, s.since != unit.Never))
}

func (t *tables) dropSuspension(s *suspension) error {
	if t == nil {
		return nil
	}
	return t.overtaken.exec(int64(s.attempt), int64(s.seq))
}

// diskShare stands beside the fields of a trace, of which hardly any has block I/O: it is the task's share of its
// node.
const diskShare trace.Fields = 1 << 8

// inputBytes is the sum of the sizes of a task's inputs, as the planner knows them.
func inputBytes(a *executor.Admission, t *planner.Task) (sum int64) {
	for _, f := range t.Inputs {
		if k := indexOf(a, f); k >= 0 {
			sum += int64(a.Arrived.Files[k].Size)
		} else if k := slices.IndexFunc(a.Files, func(s *executor.FileSpec) bool { return s.ID == f }); k >= 0 {
			sum += int64(a.Files[k].Size) // the workflow had it before this task was added
		}
	}
	return sum
}

// indexOf returns the position of a file among those that an admission brings; -1 if it was there.
func indexOf(a *executor.Admission, f planner.FileID) int {
	if len(a.Arrived.Files) == 0 || f < a.Arrived.Files[0].ID {
		return -1
	}
	if k := int(f - a.Arrived.Files[0].ID); k < len(a.Arrived.Files) {
		return k
	}
	return -1
}

// message is the message of an attempt at its end; NULL if there is none.
func message(said string) driver.Value {
	if said == "" {
		return nil
	}
	return strings.ToValidUTF8(said, "\uFFFD")
}

// listOf is a JSON array.
func listOf(tasks []planner.TaskID) text {
	buf := make([]byte, 0, 8*len(tasks)+2)
	for i, t := range tasks {
		buf = strconv.AppendInt(append(buf, "[,"[min(i, 1)]), int64(t), 10)
	}
	return append(buf, ']')
}

// text is JSON that is inserted as text.
type text []byte

// known is NULL for an unknown number.
func known(v int64, ok bool) driver.Value {
	if !ok {
		return nil
	}
	return v
}

// reached is NULL for an instant that was not reached.
func reached(t planner.Time) driver.Value { return known(int64(t), t != unit.Never) }

func name(s planner.Source) driver.Value {
	if s == 0 {
		return nil
	}
	return s.String()
}

// imputedNames lists imputed fields, comma separated.
func imputedNames(f trace.Fields) string {
	text := f.String()
	if f.Has(diskShare) {
		text = strings.TrimPrefix(text+",disk", ",")
	}
	return text
}

// fraction is NULL for none.
func fraction(f float64) driver.Value {
	if f == 0 {
		return nil
	}
	return f
}
