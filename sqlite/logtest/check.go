package logtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
)

// Check returns an error for each thing that is wrong with a log: SQLite's integrity_check, foreign keys, and, in every
// run, rows that are not as its events say. It reads the events with a model of its own, which shares nothing with the
// code that writes rows. The log may be one that a gantry is writing to, if that is a real run.
func Check(ctx context.Context, path string) error {
	db, err := sqlite.Open(path, sqlite.ReadOnly)
	if err != nil {
		return err
	}
	defer db.Close()
	c := &checker{ctx: ctx, db: db}
	for what, query := range map[string]string{
		"integrity_check": "SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
		"foreign_key_check": "SELECT \"table\" || ', row ' || coalesce(rowid, '?') || ', ' || parent " +
			"FROM pragma_foreign_key_check",
		"run_counts": "SELECT name || ': ' || counted || ' tasks done, ' || there || ' in rows' FROM (SELECT r.name, " +
			"coalesce(n.counts ->> '$.done', 0) AS counted, (SELECT count(*) FROM tasks t WHERE t.run = r.id AND " +
			"t.state = 'done') AS there FROM runs r JOIN run_counts n ON n.run = r.id) WHERE counted <> there",
	} {
		for _, s := range rows[string](c, query) {
			c.wrong("%s: %s", what, s)
		}
	}
	type run struct {
		ID          int64
		Name, State string
		Simulated   bool
	}
	for _, r := range rows[run](c, "SELECT id, name, state, runtime = 'sim' FROM runs ORDER BY id") {
		m := newModel()
		if err := db.Events(ctx, r.Name, m.event); err != nil {
			c.wrong("run %s: %w", r.Name, err)
		} else if !r.Simulated ||
			r.State != string(sqlite.Running) { // else its last rows are missing, as FORMAT.md says
			if r.State == string(sqlite.Finished) || r.State == string(sqlite.Failed) {
				m.over()
			}
			c.compare(r.ID, r.Name, m)
		}
	}
	return errors.Join(c.errs...)
}

type checker struct {
	ctx  context.Context
	db   *sqlite.DB
	errs []error
}

// mostWrong is how many differences are reported.
const mostWrong = 20

func (c *checker) wrong(format string, args ...any) {
	if len(c.errs) < mostWrong {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

func rows[T any](c *checker, query string, args ...any) []T {
	all, err := sqlite.RowsOf[T](c.ctx, c.db, query, args...)
	if err != nil {
		c.wrong("%w", err)
	}
	return all
}

// model is a run by its events.
type model struct {
	workflows map[planner.WorkflowID]*workflowModel
	tasks     map[planner.TaskID]*taskModel
	attempts  map[planner.AttemptID]*attemptModel
	reused    map[planner.TaskID]*string
	failed    map[planner.TaskID]bool // perhaps to be tried again
	counts    map[string]int          // of rows, by table
}

// withdrawn is the state of a workflow that was cancelled, refused or continued.
type workflowModel struct {
	Tasks     int
	Withdrawn string
}

type taskModel struct {
	Workflow planner.WorkflowID
	State    string
	Attempts int32
	Last     planner.AttemptID
}

type attemptModel struct {
	Task             planner.TaskID
	Node             planner.NodeID
	Try              int32
	Started, Ended   planner.Time // -1: it did not
	Outcome, Message string
	Code             int
}

func newModel() *model {
	return &model{map[planner.WorkflowID]*workflowModel{}, map[planner.TaskID]*taskModel{},
		map[planner.AttemptID]*attemptModel{}, map[planner.TaskID]*string{}, map[planner.TaskID]bool{},
		map[string]int{}}
}

// admit takes in tasks and files of a workflow.
func (m *model) admit(w planner.WorkflowID, tasks []planner.Task, files []planner.File) {
	m.workflows[w].Tasks += len(tasks)
	m.counts["files"] += len(files)
	for i := range tasks {
		m.tasks[tasks[i].ID] = &taskModel{Workflow: w, State: "waiting", Last: planner.None}
	}
}

// become gives the tasks of a workflow another state, if they have one now; "" is any.
func (m *model) become(w planner.WorkflowID, from, to string) {
	for _, t := range m.tasks {
		if t.Workflow == w && (from == "" || t.State == from) {
			t.State = to
		}
	}
}

func (m *model) event(e planner.Event, _ *executor.Admission) error {
	switch b := e.Body.(type) {
	case *planner.WorkflowArrived:
		m.workflows[b.Workflow.ID] = &workflowModel{}
		m.admit(b.Workflow.ID, b.Tasks, b.Files)
	case *planner.WorkflowGrown:
		m.admit(b.Workflow, b.Tasks, b.Files)
	case *planner.PlanCommitted:
		m.planned(b)
	case planner.AttemptStarted:
		x := m.attempts[b.Attempt]
		x.Started, m.tasks[x.Task].State = e.At, "running"
	case planner.AttemptSuspended:
		m.tasks[m.attempts[b.Attempt].Task].State = "suspended"
	case planner.AttemptResumed:
		m.tasks[m.attempts[b.Attempt].Task].State = "running"
	case *planner.AttemptExited:
		m.exited(b)
	case *planner.TaskReused:
		t := m.tasks[b.Task]
		t.State = "done"
		if b.Run == "" {
			t.Last = b.Attempt
		}
		from := fmt.Sprint(b.Run, " ", b.Attempt)
		m.reused[b.Task] = &from
	case *planner.WorkflowContinued:
		m.workflows[b.Of].Withdrawn = "continued"
		m.become(b.Of, "", "continued")
		first := planner.TaskID(-1)
		for id, t := range m.tasks {
			if t.Workflow == b.Workflow && (first < 0 || id < first) {
				first = id
			}
		}
		for i, n := range b.Tries {
			m.tasks[first+planner.TaskID(i)].Attempts = n
		}
	case planner.TaskCancelled:
		if t := m.tasks[b.Task]; t.State == "waiting" {
			t.State = "skipped"
		}
	case planner.WorkflowCancelled:
		m.workflows[b.Workflow].Withdrawn = "cancelled"
		m.become(b.Workflow, "waiting", "skipped")
	}
	return nil
}

func (m *model) planned(b *planner.PlanCommitted) {
	m.counts["notes"] += len(b.Notes)
	for _, o := range b.Orders {
		if o.Kind == planner.OrderStart {
			m.attempts[o.Attempt] = &attemptModel{Task: o.Task, Node: o.Node, Try: o.Try, Started: -1, Ended: -1,
				Code: -1}
			t := m.tasks[o.Task]
			t.State, t.Attempts, t.Last = "starting", o.Try, o.Attempt
			delete(m.failed, o.Task)
		}
	}
	for _, w := range b.Reasons {
		if m.failed[w.Task] { // it is to be tried again
			m.tasks[w.Task].State = "waiting"
			delete(m.failed, w.Task)
		}
	}
}

func (m *model) exited(b *planner.AttemptExited) {
	instant := func(t planner.Time) planner.Time {
		if t == unit.Never {
			return -1
		}
		return t
	}
	x := m.attempts[b.Attempt]
	x.Started, x.Ended, x.Outcome, x.Code = instant(b.Usage.Started), instant(b.Usage.Ended), b.Outcome.String(),
		b.ExitCode
	x.Message = strings.ToValidUTF8(b.Message, "\uFFFD")
	t := m.tasks[x.Task]
	switch b.Outcome {
	case planner.OK:
		t.State = "done"
	case planner.Preempted, planner.Lost:
		t.State = "waiting"
	default:
		t.State, m.failed[x.Task] = "failed", true
	}
}

// over ends tasks of a run that is over.
func (m *model) over() {
	for _, t := range m.tasks {
		if t.State == "waiting" && t.Attempts > 0 {
			t.State = "failed"
		} else if t.State == "waiting" {
			t.State = "skipped"
		}
	}
}

// compare holds the rows of a run against its model.
func (c *checker) compare(id int64, run string, m *model) {
	same(c, run, "task", m.tasks, rows[row[planner.TaskID, taskModel]](c, "SELECT task, workflow, state, attempts, "+
		"coalesce(attempt, -1) FROM tasks WHERE run = ?", id))
	same(c, run, "attempt", m.attempts, rows[row[planner.AttemptID, attemptModel]](c, "SELECT attempt, task, node, "+
		"try, coalesce(started_ns, -1), coalesce(ended_ns, -1), coalesce(outcome, ''), coalesce(message, ''), "+
		"coalesce(exit_code, -1) FROM attempts WHERE run = ?", id))
	same(c, run, "reuse", m.reused, rows[row[planner.TaskID, string]](c, "SELECT task, from_run || ' ' || "+
		"from_attempt FROM reuses WHERE run = ? AND from_attempt IS NOT NULL", id))
	same(c, run, "workflow", m.workflows, rows[row[planner.WorkflowID, workflowModel]](c, "SELECT workflow, tasks, "+
		"CASE WHEN state IN ('cancelled', 'refused') THEN 'cancelled' WHEN state = 'continued' THEN state ELSE '' END "+
		"FROM workflows WHERE run = ?", id))
	for _, table := range []string{"files", "notes"} {
		for _, n := range rows[int](c, "SELECT count(*) FROM "+table+" WHERE run = ?", id) {
			if n != m.counts[table] {
				c.wrong("run %s: %d rows in %s, the events say %d", run, n, table, m.counts[table])
			}
		}
	}
}

// row is a row of a table by its number.
type row[K comparable, T any] struct {
	ID  K
	Row T
}

func same[K comparable, T comparable](c *checker, run, what string, want map[K]*T, have []row[K, T]) {
	if len(have) != len(want) {
		c.wrong("run %s: %d rows of %ss, the events say %d", run, len(have), what, len(want))
	}
	for _, r := range have {
		if w := want[r.ID]; w == nil {
			c.wrong("run %s: %s %v is in no event", run, what, r.ID)
		} else if r.Row != *w {
			c.wrong("run %s: %s %v is %+v, by its events %+v", run, what, r.ID, r.Row, *w)
		}
	}
}
