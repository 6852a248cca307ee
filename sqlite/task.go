package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gantry/planner"
	"gantry/trace/spelling"
)

// Life is the record of one task in the log, as explain shows it.
type Life struct {
	Run       string     `json:"run"`
	Runtime   string     `json:"runtime"`
	Policy    string     `json:"policy"`
	RunState  State      `json:"run_state"`
	Clock     Span       `json:"clock_s"` // of the last event of the run
	Workflow  string     `json:"workflow"`
	Task      string     `json:"task"`
	ID        int64      `json:"id"`
	Kind      string     `json:"kind"`
	State     string     `json:"state"`
	CPU       int64      `json:"need_millicores"`
	Memory    int64      `json:"need_memory_bytes"`
	Disk      int64      `json:"need_disk_bps"`
	TimeLimit *Span      `json:"time_limit_s"`
	Imputed   string     `json:"imputed"`
	Image     string     `json:"image"`        // "": it is emulated
	Digest    string     `json:"image_digest"` // in a registry, else the ID of the image
	ImageID   string     `json:"image_id"`
	Arrived   Span       `json:"workflow_arrived_s"`
	Release   Span       `json:"workflow_release_s"`
	Flow      string     `json:"workflow_state"`
	Parents   []Relative `json:"parents"`
	Blame     []Relative `json:"failed_ancestors"` // of a task that was skipped
	Waits     []Waiting  `json:"waits"`
	Notes     []Noted    `json:"notes"`
	Attempts  []Attempt  `json:"attempts"`
	// Reuses says which earlier attempt's outputs the task took over, or why it took over none; one for each part of a
	// run that was continued.
	Reuses []Reuse `json:"reuses"`
	// Suspensions are the preemptions of its attempts, in order.
	Suspensions []Suspension `json:"suspensions"`
}

// Last is the last attempt; nil if there was none.
func (l *Life) Last() *Attempt {
	if len(l.Attempts) == 0 {
		return nil
	}
	return &l.Attempts[len(l.Attempts)-1]
}

// Reuse is the attempt whose outputs a task took over, or the reason why it took over none.
type Reuse struct {
	At        Span   `json:"at_s"`
	Continued bool   `json:"continued"`    // that is since the workflow was continued
	Run       string `json:"from_run"`     // "" if the attempt is of the same run, or nothing was taken over
	Attempt   *int64 `json:"from_attempt"` // of that run's, by number
	Task      string `json:"from_task"`    // whose attempt it was, and which of its tries; "" if that run is gone
	Try       *int64 `json:"from_try"`
	Ran       *Span  `json:"ran_s"`
	Reason    string `json:"reason"`
}

// Relative is another task that this one depends on.
type Relative struct {
	Task    string `json:"task"`
	State   string `json:"state"`
	Node    string `json:"node"`
	Ended   *Span  `json:"ended_s"`
	Outcome string `json:"outcome"`
}

// Waiting is a stretch of time during which a task did not start for one reason, as PlanCommitted gave it.
type Waiting struct {
	Since  Span   `json:"since_s"`
	Reason string `json:"reason"`
	Dim    string `json:"dim"`
	Node   string `json:"node"`
	Until  *Span  `json:"until_s"`
	// Held are tasks that were under way when it began to wait for a free node, and how many there were; of a run of
	// very many attempts those of the latest ones.
	Held  []string `json:"held"`
	Holds int      `json:"holds"`
	Now   bool     `json:"-"` // or that are under way as this is asked
}

// Attempt is one attempt of a task. Nil is not known, not measured, or not reached.
type Attempt struct {
	Attempt        int64    `json:"attempt"`
	Try            int      `json:"try"`
	Node           string   `json:"node"`
	Outcome        string   `json:"outcome"` // "" while under way
	ExitCode       *int     `json:"exit_code"`
	Message        string   `json:"message"`
	Queued         *Span    `json:"queued_s"`
	Staged         *Span    `json:"staged_s"`
	Created        *Span    `json:"created_s"`
	Started        *Span    `json:"started_s"`
	Ended          *Span    `json:"ended_s"`
	Ran            *Span    `json:"ran_s"`
	Measured       *Span    `json:"measured_s"` // as Estimate counts
	Estimate       *Span    `json:"estimate_s"`
	Spread         *Span    `json:"estimate_spread_s"`
	Samples        *int     `json:"estimate_samples"`
	Source         string   `json:"estimate_source"`
	PlannedEnd     *Span    `json:"planned_end_s"`
	HoldCPU        int64    `json:"hold_millicores"`
	HoldMemory     int64    `json:"hold_memory_bytes"`
	CPUUser        *Span    `json:"cpu_user_s"`
	CPUSystem      *Span    `json:"cpu_system_s"`
	CPUThrottled   *Span    `json:"cpu_throttled_s"`
	PeakMemory     *int64   `json:"peak_memory_bytes"`
	Read           *int64   `json:"read_bytes"`
	Written        *int64   `json:"written_bytes"`
	Copied         *int64   `json:"copied_bytes"`
	Moved          *int64   `json:"moved_bytes"`
	Done           *float64 `json:"done"`     // fraction of the task, before the attempt
	Before         *Span    `json:"before_s"` // how long that ran
	Kept           *float64 `json:"kept"`
	Lost           *Span    `json:"lost_s"`
	OOMKills       *int64   `json:"oom_kills"`
	Dropped        *int64   `json:"dropped_bytes"`
	AppliedCPU     *int64   `json:"applied_cpu_millicores"`
	AppliedMemory  *int64   `json:"applied_memory_bytes"`
	AppliedReadBps *int64   `json:"applied_read_bps"`
	AppliedWrite   *int64   `json:"applied_write_bps"`
}

// Suspension is one preemption of an attempt. Nil is not yet.
type Suspension struct {
	Try     int      `json:"try"`
	Node    string   `json:"node"`
	How     string   `json:"how"` // freeze, checkpoint, restart
	Ordered Span     `json:"ordered_s"`
	Since   *Span    `json:"since_s"`
	Until   *Span    `json:"until_s"`
	Kept    *float64 `json:"kept"` // fraction of the task that the checkpoint has
	Lost    *Span    `json:"lost_s"`
}

// UnknownTaskError is returned for a task that is not in a run, or not the only one of its name.
type UnknownTaskError struct {
	Run, Name string
	Like      []string // that were perhaps meant
	Several   bool     // Like are all of this name
	Kind      bool     // Like are all of the transformation of this name
	Near      bool     // Like are names of tasks and transformations that are spelled alike
}

func (e *UnknownTaskError) Error() string {
	switch {
	case e.Kind:
		return fmt.Sprintf("run %s has %d tasks of transformation %q: say which of %s", e.Run, len(e.Like), e.Name,
			list(e.Like, 10))
	case e.Several:
		return fmt.Sprintf("run %s has several tasks %q: say which of %s", e.Run, e.Name, list(e.Like, 10))
	case len(e.Like) == 0:
		return fmt.Sprintf("run %s has no task %q", e.Run, e.Name)
	}
	if e.Near {
		return fmt.Sprintf("run %s has no task %q; did you mean %s?", e.Run, e.Name, strings.Join(e.Like, " or "))
	}
	return fmt.Sprintf("run %s has no task %q; there are %s", e.Run, e.Name, list(e.Like, 10))
}

// findTask finds a task by name, by WORKFLOW/NAME, or by #ID.
func (db *DB) findTask(ctx context.Context, id int64, run, name string) (int64, error) {
	if digits, ok := strings.CutPrefix(name, "#"); ok {
		if n, err := strconv.ParseInt(digits, 10, 32); err == nil {
			var have int64
			if err := db.readers.QueryRowContext(ctx, "SELECT count(*) FROM tasks WHERE run = ? AND task = ?", id,
				n).Scan(&have); err != nil {
				return 0, db.wrap("read", err)
			} else if have > 0 {
				return n, nil
			}
		}
	}
	const query = "SELECT t.task, w.name || '/' || t.name FROM tasks t JOIN workflows w ON w.run = t.run AND " +
		"w.workflow = t.workflow WHERE t.run = ? AND t.state <> 'continued' AND "
	type match struct {
		id   int64
		name string
	}
	scan := func(scan Scan) (m match, err error) { return m, scan(&m.id, &m.name) }
	unknown := &UnknownTaskError{Run: run, Name: name}
	for i := range name { // a workflow and its tasks are found without a look at the others
		if name[i] != '/' {
			continue
		}
		matches, err := collect(ctx, db, scan, "SELECT t.task, ?2 FROM workflows w INDEXED BY workflows_by_name "+
			"CROSS JOIN tasks t ON t.run = ?1 AND "+ofWorkflow+" "+
			"WHERE w.run = ?1 AND w.name = ?2 AND t.name = ?3 AND t.state <> 'continued'", id, name[:i], name[i+1:])
		if err != nil {
			return 0, err
		}
		if len(matches) == 1 {
			return matches[0].id, nil
		}
	}
	for i, by := range []string{"(t.name = ?2 OR w.name || '/' || t.name = ?2)",
		"(lower(t.kind) = lower(?2) OR lower(w.name || '/' || t.kind) = lower(?2)) ORDER BY t.task",
		"instr(lower(t.name), lower(?2)) > 0 ORDER BY t.task"} {
		matches, err := collect(ctx, db, scan, strings.Replace(query, "?", "?1", 1)+by, id, name)
		if err != nil {
			return 0, err
		}
		if len(matches) == 1 && i < 2 {
			return matches[0].id, nil
		}
		for _, m := range matches {
			unknown.Like = append(unknown.Like, m.name)
		}
		if unknown.Several, unknown.Kind = i == 0, i == 1; len(matches) > 0 {
			return 0, unknown
		}
	}
	names, err := columnOf[string](ctx, db, "SELECT name FROM tasks WHERE run = ?1 AND state <> 'continued' "+
		"UNION SELECT kind FROM tasks WHERE run = ?1 AND state <> 'continued'", id)
	if err != nil {
		return 0, err
	}
	if near := spelling.Nearest(name, names); near != "" {
		unknown.Like, unknown.Near = []string{near}, true
		return 0, unknown
	}
	matches, err := collect(ctx, db, scan, query+"1 ORDER BY t.task LIMIT 100", id)
	for _, m := range matches {
		unknown.Like = append(unknown.Like, m.name)
	}
	if err != nil {
		return 0, err
	}
	return 0, unknown
}

// Noted is a note of the policy about a task or its workflow.
type Noted struct {
	At    Span   `json:"at_s"`
	Topic string `json:"topic"`
	Task  bool   `json:"of_task"` // else of its workflow
	Text  string `json:"text"`
	// Instant is the time that the note is about; nil if there is none.
	Instant *Span `json:"instant_s"`
}

// forerunners selects task ?3 of run ?2 and those of its name in the workflows that its workflow continues.
const forerunners = `WITH RECURSIVE line(flow, name, own) AS (
	SELECT workflow, name, 1 FROM tasks WHERE run = ?2 AND task = ?3
	UNION SELECT w.continues, l.name, 0 FROM line l JOIN workflows w ON w.run = ?2 AND w.workflow = l.flow
	WHERE w.continues IS NOT NULL)
	SELECT ?3 AS task UNION SELECT t.task FROM line l CROSS JOIN workflows w ON w.run = ?2 AND w.workflow = l.flow
	CROSS JOIN tasks t ON t.run = ?2 AND ` + ofWorkflow + ` AND t.name = l.name
	WHERE NOT l.own`

// attemptsOf selects the attempts of those: the last of each, and all that did not end well. SQLite would look at all
// attempts of the run without the name of the index.
const attemptsOf = `SELECT attempt FROM tasks WHERE run = ?2 AND task IN (` + forerunners + `)
	UNION ALL SELECT attempt FROM attempts INDEXED BY attempts_not_ok WHERE run = ?2 AND task IN (` + forerunners + `)
	AND outcome <> 'ok'`

// Task returns the life of a task of a run. The run is given as in Summary, the task by name, by WORKFLOW/NAME, or by
// #ID.
func (db *DB) Task(ctx context.Context, run, task string) (*Life, error) {
	id, name, err := db.find(ctx, run)
	if err != nil {
		return nil, err
	}
	t, err := db.findTask(ctx, id, name, task)
	if err != nil {
		return nil, err
	}
	l := &Life{Run: name, ID: t}
	if err := db.readers.QueryRowContext(ctx, `SELECT r.runtime, r.policy, r.state,
		coalesce((SELECT k.at_ns FROM clocks k WHERE k.run = r.id), 0),
		w.name, t.name, t.kind, t.state, t.need_millicores, t.need_memory_bytes, t.need_disk_bps, t.time_limit_ns,
		t.imputed, coalesce(t.image, ''), coalesce(i.digest, i.id, ''), coalesce(i.id, ''),
		w.arrived_ns, w.release_ns, w.state
		FROM runs r JOIN tasks t ON t.run = r.id JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
		LEFT JOIN images i ON i.run = r.id AND i.image = t.image WHERE r.id = ? AND t.task = ?`, id, t).
		Scan(&l.Runtime, &l.Policy, &l.RunState, &l.Clock, &l.Workflow, &l.Task, &l.Kind, &l.State, &l.CPU, &l.Memory,
			&l.Disk, &l.TimeLimit,
			&l.Imputed, &l.Image, &l.Digest, &l.ImageID, &l.Arrived, &l.Release, &l.Flow); err != nil {
		return nil, db.wrap("read", err)
	}
	relative := func(scan Scan) (r Relative, err error) {
		return r, scan(&r.Task, &r.State, &r.Node, &r.Ended, &r.Outcome)
	}
	const relatives = `SELECT p.name, p.state, coalesce(n.name, ''), p.ended_ns, coalesce(a.outcome, '') FROM tasks p
		LEFT JOIN nodes n ON n.run = p.run AND n.node = p.node LEFT JOIN attempts a ON a.run = p.run
		AND a.attempt = p.attempt WHERE p.run = ?1 AND `
	if l.Parents, err = collect(ctx, db, relative, relatives+"p.task IN (SELECT parent FROM edges WHERE run = ?1 "+
		"AND child = ?2) ORDER BY p.ended_ns, p.task", id, t); err != nil {
		return nil, err
	}
	if l.State == "skipped" || l.State == "waiting" {
		if l.Blame, err = collect(ctx, db, relative, "WITH RECURSIVE up(task) AS (SELECT ?2 UNION SELECT e.parent "+
			"FROM up CROSS JOIN edges e ON e.child = up.task WHERE e.run = ?1) "+
			relatives+"p.state = 'failed' AND p.task IN up", id, t); err != nil {
			return nil, err
		}
	}
	if l.Waits, err = db.waitsOf(ctx, id, t); err != nil {
		return nil, err
	}
	if l.Notes, err = collect(ctx, db, func(scan Scan) (n Noted, err error) {
		return n, scan(&n.At, &n.Topic, &n.Task, &n.Text, &n.Instant)
	},
		`SELECT x.at_ns, x.topic, x.task IS NOT NULL, x.text, x.instant_ns FROM tasks t
			CROSS JOIN notes x INDEXED BY notes_by_workflow ON x.run = t.run AND x.workflow = t.workflow AND
			coalesce(x.task, t.task) = t.task
			WHERE t.run = ? AND t.task = ? ORDER BY x.seq, x.position`, id, t); err != nil {
		return nil, err
	}
	if l.Attempts, err = db.attemptsOfTask(ctx, name, id, t); err != nil {
		return nil, err
	}
	if l.Reuses, err = collect(ctx, db, func(scan Scan) (u Reuse, err error) {
		return u, scan(&u.At, &u.Continued, &u.Run, &u.Attempt, &u.Ran, &u.Reason, &u.Task, &u.Try)
	}, `SELECT u.at_ns, w.continues IS NOT NULL, coalesce(u.from_run, ''), u.from_attempt, u.ran_ns,
		coalesce(u.reason, ''), coalesce(ft.name, ''), fa.try
		FROM reuses u JOIN tasks t ON t.run = u.run AND t.task = u.task
		JOIN workflows w ON w.run = u.run AND w.workflow = t.workflow LEFT JOIN runs fr ON fr.name = u.from_run
		LEFT JOIN attempts fa ON fa.run = fr.id AND fa.attempt = u.from_attempt
		LEFT JOIN tasks ft ON ft.run = fr.id AND ft.task = fa.task
		WHERE u.run = ?2 AND u.task IN (`+forerunners+`) AND ?1 ORDER BY u.task`, 1, id, t); err != nil {
		return nil, err
	}
	if err := db.readers.QueryRowContext(ctx, `SELECT min(w.arrived_ns) FROM workflows w JOIN tasks t ON
		t.run = w.run AND t.workflow = w.workflow WHERE w.run = ?2 AND t.task IN (`+forerunners+`) AND ?1`, 1, id,
		t).Scan(&l.Arrived); err != nil {
		return nil, db.wrap("read", err)
	}
	l.Suspensions, err = collect(ctx, db, func(scan Scan) (s Suspension, err error) {
		return s, scan(&s.Try, &s.Node, &s.How, &s.Ordered, &s.Since, &s.Until, &s.Kept, &s.Lost)
	}, `SELECT a.try, coalesce(n.name, ''), s.how, s.ordered_ns, s.since_ns, s.until_ns, a.kept, s.lost_ns
		FROM attempts a JOIN suspensions s ON s.run = a.run AND s.attempt = a.attempt
		LEFT JOIN nodes n ON n.run = a.run AND n.node = a.node
		WHERE a.run = ?2 AND a.attempt IN (`+attemptsOf+`) AND ?1 ORDER BY s.seq`, 1, id, t)
	return l, err
}

// waitsOf returns why a task waited, and the tasks that held the resources then.
func (db *DB) waitsOf(ctx context.Context, id, t int64) ([]Waiting, error) {
	all, err := collect(ctx, db, func(scan Scan) (w Waiting, err error) {
		return w, scan(&w.Since, &w.Reason, &w.Dim, &w.Node, &w.Until)
	}, `SELECT w.since_ns, w.reason, coalesce(w.dim, ''), coalesce(n.name, ''), w.until_ns FROM waits w
		LEFT JOIN nodes n ON n.run = w.run AND n.node = w.node WHERE w.run = ?1 AND w.task = ?2 ORDER BY w.seq`, id, t)
	if err != nil {
		return nil, err
	}
	for i := range all {
		w := &all[i]
		if !WaitsForOthers(w.Reason) {
			continue
		}
		from, to, err := db.latestAt(ctx, id, w.Since)
		if err != nil {
			return nil, err
		}
		if w.Held, err = columnOf[string](ctx, db, `SELECT t.name FROM attempts a
			JOIN tasks t ON t.run = a.run AND t.task = a.task
			WHERE a.run = ?1 AND a.attempt BETWEEN ?3 AND ?4 AND a.queued_ns <= ?2
				AND (a.ended_ns IS NULL OR a.ended_ns > ?2)
			ORDER BY a.attempt`, id, int64(w.Since), from, to); err != nil {
			return nil, err
		}
		w.Holds = len(w.Held)
		w.Held = w.Held[:min(len(w.Held), 5)]
	}
	return all, nil
}

// attemptsOfTask returns the attempts of a task, those before its workflow was continued among them.
func (db *DB) attemptsOfTask(ctx context.Context, run string, id, t int64) ([]Attempt, error) {
	return collect(ctx, db, func(scan Scan) (a Attempt, err error) {
		return a, scan(&a.Attempt, &a.Try, &a.Node, &a.Outcome, &a.ExitCode, &a.Message, &a.Queued, &a.Staged,
			&a.Created, &a.Started, &a.Ended,
			&a.Ran, &a.Measured, &a.Estimate, &a.Spread, &a.Samples, &a.Source, &a.PlannedEnd, &a.HoldCPU,
			&a.HoldMemory, &a.CPUUser, &a.CPUSystem,
			&a.CPUThrottled, &a.PeakMemory, &a.Read, &a.Written, &a.Copied, &a.OOMKills, &a.AppliedCPU,
			&a.AppliedMemory, &a.AppliedReadBps, &a.AppliedWrite, &a.Moved, &a.Done, &a.Before, &a.Kept, &a.Lost,
			&a.Dropped)
	}, `SELECT v.attempt, v.try, coalesce(v.node, ''), coalesce(v.outcome, ''), v.exit_code, coalesce(v.message, ''),
		v.queued_ns, v.staged_ns, v.created_ns, v.started_ns, v.ended_ns, v.ran_ns, v.measured_ns, v.estimate_ns,
		v.estimate_spread_ns, v.estimate_samples, coalesce(v.estimate_source, ''), a.planned_end_ns,
		v.hold_millicores, v.hold_memory_bytes, v.cpu_user_ns, v.cpu_system_ns, v.cpu_throttled_ns,
		v.peak_memory_bytes, v.read_bytes, v.written_bytes, v.copied_bytes, v.oom_kills, v.applied_cpu_millicores,
		v.applied_memory_bytes, v.applied_read_bps, v.applied_write_bps, v.moved_bytes, v.done, v.before_ns, v.kept,
		v.lost_ns, v.dropped_bytes
		FROM attempts a JOIN v_attempts v ON v.run = ?1 AND v.attempt = a.attempt WHERE a.run = ?2 AND a.attempt IN (`+
		attemptsOf+`) ORDER BY a.attempt`, run, id, t)
}

// WaitsForOthers reports whether other tasks, by the resources that they hold or get first, are the reason to wait.
func WaitsForOthers(reason string) bool { return reason == "no-node-free" || reason == "outranked" }

// LastWait returns, of a task of a run of a server, only the last wait, which takes a moment in any log. The run is
// given by its whole name.
func (db *DB) LastWait(ctx context.Context, run string, t planner.TaskID) (*Life, error) {
	l := &Life{Run: run, ID: int64(t)}
	var since, until *Span
	var w Waiting
	err := db.readers.QueryRowContext(ctx, `SELECT r.policy, r.state, t.name, t.state, t.need_millicores,
		t.need_memory_bytes, t.need_disk_bps, x.since_ns, coalesce(x.reason, ''), coalesce(x.dim, ''),
		coalesce(n.name, ''), x.until_ns
		FROM runs r JOIN tasks t ON t.run = r.id AND t.task = ?2
		LEFT JOIN waits x ON x.run = r.id AND x.task = ?2 AND
			x.seq = (SELECT max(seq) FROM waits WHERE run = r.id AND task = ?2)
		LEFT JOIN nodes n ON n.run = r.id AND n.node = x.node WHERE r.name = ?1`, run, int64(t)).
		Scan(&l.Policy, &l.RunState, &l.Task, &l.State, &l.CPU, &l.Memory, &l.Disk, &since, &w.Reason, &w.Dim, &w.Node,
			&until)
	if err != nil {
		return nil, db.wrap("read", err)
	}
	if since != nil {
		w.Since, w.Until = *since, until
		l.Waits = []Waiting{w}
	}
	return l, nil
}

// mostLookedAt bounds the attempts among which those are looked for that were under way at an instant.
const mostLookedAt = 100_000

// latestAt returns the numbers of the latest attempts of a run at an instant: so many, or all of a shorter run.
// Attempts are numbered in the order of time.
func (db *DB) latestAt(ctx context.Context, run int64, at Span) (from, to int64, err error) {
	var last int64
	if err := db.readers.QueryRowContext(ctx, "SELECT coalesce(max(attempt), 0) FROM attempts WHERE run = ?", run).
		Scan(&last); err != nil {
		return 0, 0, db.wrap("read", err)
	}
	if last < mostLookedAt {
		return 0, last, nil
	}
	low, high := int64(0), last+1
	for low < high {
		middle := (low + high) / 2
		var later bool
		err := db.readers.QueryRowContext(ctx, "SELECT queued_ns > ? FROM attempts WHERE run = ? AND attempt >= ? AND "+
			"queued_ns IS NOT NULL ORDER BY attempt LIMIT 1", int64(at), run, middle).Scan(&later)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return 0, 0, db.wrap("read", err)
		}
		if later || err != nil {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return max(0, low-mostLookedAt), low, nil
}

// maxTaskNames bounds TaskNames.
const maxTaskNames = 1000

// TaskNames lists how tasks of a run may be named: by their names in the trace if the run has one workflow, else as
// WORKFLOW/NAME. Of many it has the first.
func (db *DB) TaskNames(ctx context.Context, run string) ([]string, error) {
	id, _, err := db.find(ctx, run)
	if err != nil {
		return nil, err
	}
	return columnOf[string](ctx, db, `SELECT iif((SELECT count(*) FROM workflows
			WHERE run = t.run AND state <> 'continued') = 1, t.name, w.name || '/' || t.name)
		FROM tasks t JOIN workflows w ON w.run = t.run AND w.workflow = t.workflow
		WHERE t.run = ? AND t.state <> 'continued' ORDER BY t.task LIMIT ?`, id, maxTaskNames)
}

// TaskRow is how a task of a run stands. Nil is not known, or not yet.
type TaskRow struct {
	Workflow string   `json:"workflow"`
	Task     string   `json:"task"`
	Kind     string   `json:"kind"`
	State    string   `json:"state"`
	Outcome  *string  `json:"outcome"` // of the last attempt, or "reused"; nil before one has ended
	Node     *string  `json:"node"`
	Attempts int      `json:"attempts"`
	Wait     *float64 `json:"wait_s"`
	Runtime  *float64 `json:"runtime_s"`
}

// Tasks calls each with all tasks of a run, in the order of their ids.
func (db *DB) Tasks(ctx context.Context, run string, each func(TaskRow) error) error {
	_, name, err := db.find(ctx, run)
	if err != nil {
		return err
	}
	return db.rows(ctx, func(scan Scan) error {
		var t TaskRow
		if err := scan(&t.Workflow, &t.Task, &t.Kind, &t.State, &t.Outcome, &t.Node, &t.Attempts, &t.Wait,
			&t.Runtime); err != nil {
			return err
		}
		return each(t)
	}, `SELECT workflow, task, kind, state, outcome, node, attempts, wait_s, runtime_s
		FROM v_tasks WHERE run = ?`, name)
}
