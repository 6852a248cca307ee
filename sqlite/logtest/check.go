package logtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"

	"gantry/executor"
	"gantry/planner"
	"gantry/sqlite"
)

// Check returns an error for each thing that is wrong with a log: SQLite's integrity_check, foreign keys, and, in every
// run, rows of workflows, tasks and attempts that are not as its events say. It reads the events with a model of its
// own, which shares nothing with the code that writes rows. The log may be one that a gantry is writing to, if that is
// a real run.
func Check(ctx context.Context, path string) error {
	db, err := sqlite.Open(path, sqlite.ReadOnly)
	if err != nil {
		return err
	}
	defer db.Close()
	c := &checker{ctx: ctx, db: db}
	for _, s := range c.texts("PRAGMA integrity_check") {
		if s != "ok" {
			c.wrong("integrity_check: %s", s)
		}
	}
	for _, s := range c.texts("SELECT \"table\" || ', row ' || coalesce(rowid, '?') || ', ' || parent FROM " +
		"pragma_foreign_key_check") {
		c.wrong("foreign key: %s", s)
	}
	for _, s := range c.texts("SELECT name || ': ' || counted || ' tasks done in run_counts, ' || there || ' in " +
		"rows' FROM (SELECT r.name, coalesce(n.counts ->> '$.done', 0) AS " +
		"counted, (SELECT count(*) FROM tasks t WHERE t.run = r.id AND t.state = 'done') AS there FROM runs r JOIN " +
		"run_counts n ON n.run = r.id) WHERE counted <> there") {
		c.wrong("%s", s)
	}
	for _, run := range c.texts("SELECT name FROM runs ORDER BY id") {
		if err := c.run(run); err != nil {
			c.wrong("run %s: %w", run, err)
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

func (c *checker) rows(query string, each func(sqlite.Scan) error, args ...any) {
	if err := c.db.Each(c.ctx, each, query, args...); err != nil {
		c.wrong("%w", err)
	}
}

func (c *checker) texts(query string) (out []string) {
	c.rows(query, func(scan sqlite.Scan) error {
		var s string
		err := scan(&s)
		out = append(out, s)
		return err
	})
	return out
}

// taskModel and attemptModel are the states of a task and of an attempt by the events.
type taskModel struct {
	workflow planner.WorkflowID
	state    string
	attempts int32
	last     planner.AttemptID
}

type attemptModel struct {
	task    planner.TaskID
	node    planner.NodeID
	try     int32
	started bool
	outcome string
	code    int
}

func (c *checker) run(run string) error {
	var state string
	c.rows("SELECT state FROM runs WHERE name = ?", func(scan sqlite.Scan) error { return scan(&state) }, run)
	tasks, attempts := map[planner.TaskID]*taskModel{}, map[planner.AttemptID]*attemptModel{}
	cancelled, failed := map[planner.WorkflowID]bool{}, map[planner.TaskID]bool{}
	workflows, events := map[planner.WorkflowID]int{}, 0
	reused, continued := map[planner.TaskID]string{}, map[planner.WorkflowID]bool{}
	set := func(a planner.AttemptID, state string) {
		if t := tasks[attempts[a].task]; t != nil {
			t.state = state
		}
	}
	if err := c.db.Events(c.ctx, run, func(e planner.Event, a *executor.Admission) error {
		events++
		switch b := e.Body.(type) {
		case *planner.WorkflowArrived:
			workflows[b.Workflow.ID] = len(b.Tasks)
			for _, t := range b.Tasks {
				tasks[t.ID] = &taskModel{workflow: b.Workflow.ID, state: "waiting", last: planner.None}
			}
		case *planner.WorkflowGrown:
			workflows[b.Workflow] += len(b.Tasks)
			for _, t := range b.Tasks {
				tasks[t.ID] = &taskModel{workflow: b.Workflow, state: "waiting", last: planner.None}
			}
		case *planner.PlanCommitted:
			for _, o := range b.Orders {
				if o.Kind == planner.OrderStart {
					attempts[o.Attempt] = &attemptModel{task: o.Task, node: o.Node, try: o.Try}
					t := tasks[o.Task]
					t.state, t.attempts, t.last = "starting", o.Try, o.Attempt
					delete(failed, o.Task)
				}
			}
			for _, w := range b.Reasons {
				if failed[w.Task] { // it is to be tried again
					tasks[w.Task].state = "waiting"
					delete(failed, w.Task)
				}
			}
		case planner.AttemptStarted:
			attempts[b.Attempt].started = true
			set(b.Attempt, "running")
		case planner.AttemptSuspended:
			set(b.Attempt, "suspended")
		case planner.AttemptResumed:
			set(b.Attempt, "running")
		case *planner.AttemptExited:
			x := attempts[b.Attempt]
			x.outcome, x.code = b.Outcome.String(), b.ExitCode
			switch b.Outcome {
			case planner.OK:
				set(b.Attempt, "done")
			case planner.Preempted, planner.Lost:
				set(b.Attempt, "waiting")
			default:
				set(b.Attempt, "failed")
				failed[x.task] = true
			}
		case *planner.TaskReused:
			t := tasks[b.Task]
			t.state = "done"
			if b.Run == "" {
				t.last = b.Attempt
			}
			reused[b.Task] = fmt.Sprint(b.Run, " ", b.Attempt)
		case *planner.WorkflowContinued:
			continued[b.Of] = true
			first := planner.TaskID(math.MaxInt32)
			for id, t := range tasks {
				switch t.workflow {
				case b.Of:
					t.state = "continued"
				case b.Workflow:
					first = min(first, id)
				}
			}
			for i, n := range b.Tries {
				tasks[first+planner.TaskID(i)].attempts = n
			}
		case planner.TaskCancelled:
			if t := tasks[b.Task]; t.state == "waiting" {
				t.state = "skipped"
			}
		case planner.WorkflowCancelled:
			cancelled[b.Workflow] = true
			for _, t := range tasks {
				if t.workflow == b.Workflow && t.state == "waiting" {
					t.state = "skipped"
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if state == string(sqlite.Finished) || state == string(sqlite.Failed) {
		for _, t := range tasks {
			if t.state == "waiting" && t.attempts > 0 {
				t.state = "failed"
			} else if t.state == "waiting" {
				t.state = "skipped"
			}
		}
	}
	var simulated bool
	c.rows("SELECT runtime = 'sim' FROM runs WHERE name = ?",
		func(scan sqlite.Scan) error { return scan(&simulated) }, run)
	if simulated && state == string(sqlite.Running) {
		return nil // its last rows are missing, as FORMAT.md says
	}
	n := 0
	c.rows(`SELECT t.task, t.workflow, t.state, t.attempts, coalesce(t.attempt, -1) FROM tasks t
		JOIN runs r ON r.id = t.run WHERE r.name = ?`, func(scan sqlite.Scan) error {
		n++
		var id planner.TaskID
		var have taskModel
		err := scan(&id, &have.workflow, &have.state, &have.attempts, &have.last)
		if want := tasks[id]; err == nil && want == nil {
			c.wrong("run %s: task %d is in no event", run, id)
		} else if err == nil && have != *want {
			c.wrong("run %s: task %d is %+v, by its events %+v", run, id, have, *want)
		}
		return err
	}, run)
	if n != len(tasks) {
		c.wrong("run %s: %d rows of tasks, %d by the events", run, n, len(tasks))
	}
	n = 0
	c.rows(`SELECT a.attempt, a.task, a.node, a.try, a.started_ns IS NOT NULL, coalesce(a.outcome, ''), a.exit_code
		FROM attempts a JOIN runs r ON r.id = a.run
		WHERE r.name = ?`, func(scan sqlite.Scan) error {
		n++
		var id planner.AttemptID
		var have attemptModel
		var code sql.NullInt64
		err := scan(&id, &have.task, &have.node, &have.try, &have.started, &have.outcome, &code)
		want := attempts[id]
		if err != nil || want == nil {
			c.wrong("run %s: attempt %d is in no event", run, id)
			return err
		}
		if have.code = int(code.Int64); want.outcome != "" && !code.Valid {
			have.code = -1
		}
		have.started = have.started || want.started // of one that ended by itself the instant is the runtime's
		if have != *want && (have.started == want.started || have.outcome == "") {
			c.wrong("run %s: attempt %d is %+v, by its events %+v", run, id, have, *want)
		}
		return nil
	}, run)
	if n != len(attempts) {
		c.wrong("run %s: %d rows of attempts, %d by the events", run, n, len(attempts))
	}
	n = 0
	c.rows(`SELECT u.task, u.from_run || ' ' || u.from_attempt FROM reuses u JOIN runs r ON r.id = u.run
		WHERE r.name = ? AND u.from_attempt IS NOT NULL`, func(scan sqlite.Scan) error {
		n++
		var id planner.TaskID
		var have string
		err := scan(&id, &have)
		if have != reused[id] {
			c.wrong("run %s: task %d takes over %q, by its events %q", run, id, have, reused[id])
		}
		return err
	}, run)
	if n != len(reused) {
		c.wrong("run %s: %d rows of reuses, %d by the events", run, n, len(reused))
	}
	n = 0
	c.rows("SELECT w.workflow, w.tasks, w.state FROM workflows w JOIN runs r ON r.id = w.run WHERE r.name = ?",
		func(scan sqlite.Scan) error {
			n++
			var id planner.WorkflowID
			var size int
			var have string
			err := scan(&id, &size, &have)
			if size != workflows[id] {
				c.wrong("run %s: workflow %d has %d tasks, by its events %d", run, id, size, workflows[id])
			}
			if withdrawn := strings.Contains("cancelled refused", have); withdrawn != cancelled[id] && !continued[id] ||
				(have == "continued") != continued[id] {
				c.wrong("run %s: workflow %d is %s, which its events do not say", run, id, have)
			}
			return err
		}, run)
	if n != len(workflows) {
		c.wrong("run %s: %d rows of workflows, %d by the events", run, n, len(workflows))
	}
	return nil
}
