package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"

	"gantry/planner"
	"gantry/trace/shown"
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
	// Command and files are as its workflow has them. Readers fill them in from Spec.
	Command string   `json:"command"`
	Inputs  []string `json:"inputs"`
	Outputs []string `json:"outputs"`
	// Label is the type, with the place among tasks of this type where the name is a number, as on pages.
	Label string `json:"label"`
	// Spec fills these in.
	GPUs    float64  `json:"need_gpus"`
	Besides []string `json:"needs_besides"` // cores, memory, block I/O and time, for people

	policies []PolicyChange
}

// PolicyAt is the policy that planned the run at an instant.
func (l *Life) PolicyAt(at Span) string {
	name := l.Policy
	for i, c := range l.policies {
		if i == 0 || c.At <= planner.Time(at) {
			name = c.Policy
		}
	}
	return name
}

var plainNumber = regexp.MustCompile(`(?i)^(id|task|job|node|n|t)?[_-]?\d+$`)

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
	GPUs           string   `json:"gpus"` // names, comma separated
	GPU            *Span    `json:"gpu_s"`
	PeakGPUMemory  *int64   `json:"peak_gpu_memory_bytes"`
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

// findTask finds a task by name, by WORKFLOW/NAME, by #ID, or by its type and its place among those of that type.
func (db *DB) findTask(ctx context.Context, id int64, run, name string) (int64, error) {
	const query = "SELECT t.task, w.name || '/' || t.name FROM tasks t JOIN workflows w ON w.run = t.run AND " +
		"w.workflow = t.workflow WHERE t.run = ?1 AND t.state <> 'continued' AND "
	unknown := func(format string, about ...any) error {
		return unknownf("run %s has "+format, append([]any{run}, about...)...)
	}
	for i, by := range [...]string{
		"SELECT task, name FROM tasks WHERE run = ?1 AND task = CAST(substr(?2, 2) AS INTEGER) AND '#' || task = ?2",
		// Of all workflows only the names are read, and tasks only of those that fit.
		"SELECT t.task, t.name FROM workflows w INDEXED BY workflows_by_name CROSS JOIN tasks t ON t.run = ?1 AND " +
			OfWorkflow + " WHERE w.run = ?1 AND substr(?2, 1, length(w.name) + 1) = w.name || '/' AND " +
			"t.name = substr(?2, length(w.name) + 2) AND t.state <> 'continued'",
		query + "(t.name = ?2 OR w.name || '/' || t.name = ?2)",
		query + "(lower(t.kind) = lower(?2) OR lower(w.name || '/' || t.kind) = lower(?2)) ORDER BY t.task",
		byLabel,
		query + "instr(lower(t.name), lower(?2)) > 0 ORDER BY t.task"} {
		if i == 4 && !numbered.MatchString(name) {
			continue
		}
		var ids []int64
		var like []string
		if err := EachRow(ctx, db, func(t *struct {
			ID   int64
			Name string
		}) error {
			ids, like = append(ids, t.ID), append(like, t.Name)
			return nil
		}, by, id, name); err != nil {
			return 0, err
		}
		switch {
		case len(ids) == 1 && i < 5:
			return ids[0], nil
		case i < 2 || len(ids) == 0:
		case i == 2, i == 4:
			return 0, unknown("several tasks %q: say which of %s", name, list(like, 10))
		case i == 3:
			return 0, unknown("%d tasks of transformation %q: say which of %s", len(like), name, list(like, 10))
		default:
			return 0, unknown("no task %q; there are %s", name, list(like, 10))
		}
	}
	names, err := RowsOf[string](ctx, db, "SELECT name FROM tasks WHERE run = ?1 AND state <> 'continued' "+
		"UNION SELECT kind FROM tasks WHERE run = ?1 AND state <> 'continued'", id)
	if err != nil {
		return 0, err
	}
	if near := spelling.Nearest(name, names); near != "" {
		return 0, unknown("no task %q; did you mean %s?", name, shown.Line(near))
	}
	some, err := RowsOf[string](ctx, db, strings.Replace(query, "t.task, ", "", 1)+"TRUE ORDER BY t.task LIMIT 100", id)
	if err != nil {
		return 0, err
	}
	if len(some) == 0 {
		return 0, unknown("no task %q", name)
	}
	return 0, unknown("no task %q; there are %s", name, list(some, 10))
}

// byLabel finds tasks as pages call those whose names are numbers: by the type, and the place among those of that type.
const byLabel = `SELECT task, name FROM (SELECT t.task, w.name || '/' || t.name AS name, t.state, w.name AS flow,
		t.kind || ' ' || row_number() OVER (PARTITION BY t.workflow, t.kind ORDER BY t.task) AS label
		FROM tasks t JOIN workflows w ON w.run = t.run AND w.workflow = t.workflow WHERE t.run = ?1)
	WHERE state <> 'continued' AND lower(?2) IN (lower(label), lower(flow || '/' || label)) ORDER BY task`

var numbered = regexp.MustCompile(" [1-9][0-9]*$")

// Noted is a note of the policy about a task or its workflow.
type Noted struct {
	At    Span   `json:"at_s"`
	Topic string `json:"topic"`
	Task  bool   `json:"of_task"` // else of its workflow
	Text  string `json:"text"`
	// Instant is the time that the note is about; nil if there is none.
	Instant *Span `json:"instant_s"`
}

// forerunners selects task ?2 of run ?1 and those of its name in the workflows that its workflow continues.
const forerunners = `WITH RECURSIVE line(flow, name, own) AS (
	SELECT workflow, name, 1 FROM tasks WHERE run = ?1 AND task = ?2
	UNION SELECT w.continues, l.name, 0 FROM line l JOIN workflows w ON w.run = ?1 AND w.workflow = l.flow
	WHERE w.continues IS NOT NULL)
	SELECT ?2 AS task UNION SELECT t.task FROM line l CROSS JOIN workflows w ON w.run = ?1 AND w.workflow = l.flow
	CROSS JOIN tasks t ON t.run = ?1 AND ` + OfWorkflow + ` AND t.name = l.name
	WHERE NOT l.own`

// attemptsOf selects the attempts of those: the last of each, and all that did not end well. SQLite would look at all
// attempts of the run without the name of the index.
const attemptsOf = `SELECT attempt FROM tasks WHERE run = ?1 AND task IN (` + forerunners + `)
	UNION ALL SELECT attempt FROM attempts INDEXED BY attempts_not_ok WHERE run = ?1 AND task IN (` + forerunners + `)
	AND outcome <> 'ok'`

// Task returns the life of a task of a run. The run is given as in Find, the task by name, by WORKFLOW/NAME, or by
// #ID.
func (db *DB) Task(ctx context.Context, run, task string) (*Life, error) {
	id, name, err := db.Find(ctx, run)
	if err != nil {
		return nil, err
	}
	t, err := db.findTask(ctx, id, name, task)
	if err != nil {
		return nil, err
	}
	found, err := RowOf[Life](ctx, db, `SELECT r.name, r.runtime, r.policy, r.state,
		coalesce((SELECT k.at_ns FROM clocks k WHERE k.run = r.id), 0), w.name, t.name, t.task, t.kind, t.state,
		t.need_millicores, t.need_memory_bytes, t.need_disk_bps, t.time_limit_ns, t.imputed, coalesce(t.image, ''),
		coalesce(i.digest, i.id, ''), coalesce(i.id, ''), (SELECT min(f.arrived_ns) FROM tasks o JOIN workflows f ON
			f.run = ?1 AND f.workflow = o.workflow WHERE o.run = ?1 AND o.task IN (`+forerunners+`)), w.release_ns,
			w.state
		FROM runs r JOIN tasks t ON t.run = r.id JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
		LEFT JOIN images i ON i.run = r.id AND i.image = t.image WHERE r.id = ?1 AND t.task = ?2`, id, t)
	if err == nil && found.Run == "" {
		err = db.wrap("read", sql.ErrNoRows) // it was removed meanwhile
	}
	if err != nil {
		return nil, err
	}
	l := &found
	if err := db.label(ctx, id, l); err != nil {
		return nil, err
	}
	if l.policies, err = db.Policies(ctx, name); err != nil {
		return nil, err
	}
	q := Ask(ctx, db)
	Into(q, &l.Waits, waitsOf, id, t)
	for i := range l.Waits {
		w := &l.Waits[i]
		w.Holds, w.Held = len(w.Held), w.Held[:min(len(w.Held), 5)]
	}
	const relatives = `SELECT p.name, p.state, coalesce(n.name, ''), p.ended_ns, coalesce(a.outcome, '') FROM tasks p
		LEFT JOIN nodes n ON n.run = p.run AND n.node = p.node LEFT JOIN attempts a ON a.run = p.run
		AND a.attempt = p.attempt WHERE p.run = ?1 AND `
	Into(q, &l.Parents, relatives+"p.task IN (SELECT parent FROM edges WHERE run = ?1 AND child = ?2) "+
		"ORDER BY p.ended_ns, p.task", id, t)
	if l.State == "skipped" || l.State == "waiting" {
		Into(q, &l.Blame, "WITH RECURSIVE up(task) AS (SELECT ?2 UNION SELECT e.parent FROM up CROSS JOIN edges e ON "+
			"e.child = up.task WHERE e.run = ?1) "+relatives+"p.state = 'failed' AND p.task IN up", id, t)
	}
	Into(q, &l.Notes, `SELECT x.at_ns, x.topic, x.task IS NOT NULL, x.text, x.instant_ns FROM tasks t
		CROSS JOIN notes x INDEXED BY notes_by_workflow ON x.run = t.run AND x.workflow = t.workflow AND
			coalesce(x.task, t.task) = t.task
		WHERE t.run = ? AND t.task = ? ORDER BY x.seq, x.position`, id, t)
	Into(q, &l.Attempts, `SELECT v.attempt, v.try, coalesce(v.node, ''), coalesce(v.outcome, ''), v.exit_code,
			coalesce(v.message, ''), v.queued_ns, v.staged_ns, v.created_ns, v.started_ns, v.ended_ns, v.ran_ns,
			v.measured_ns,
			v.estimate_ns, v.estimate_spread_ns, v.estimate_samples, coalesce(v.estimate_source, ''), v.planned_end_ns,
			v.hold_millicores, v.hold_memory_bytes, v.cpu_user_ns, v.cpu_system_ns, v.cpu_throttled_ns,
			v.peak_memory_bytes, v.read_bytes, v.written_bytes, coalesce(v.gpus, ''), v.gpu_ns,
			v.peak_gpu_memory_bytes, v.copied_bytes, v.moved_bytes, v.done, v.before_ns, v.kept, v.lost_ns,
			v.oom_kills, v.dropped_bytes, v.applied_cpu_millicores, v.applied_memory_bytes, v.applied_read_bps,
			v.applied_write_bps
		FROM runs r CROSS JOIN attempts a ON a.run = r.id JOIN v_attempts v ON v.run = r.name AND v.attempt = a.attempt
		WHERE r.id = ?1 AND a.attempt IN (`+attemptsOf+`) ORDER BY a.attempt`, id, t)
	Into(q, &l.Reuses, `SELECT u.at_ns, w.continues IS NOT NULL, coalesce(u.from_run, ''), u.from_attempt,
			coalesce(ft.name, ''), fa.try, u.ran_ns, coalesce(u.reason, '')
		FROM reuses u JOIN tasks t ON t.run = u.run AND t.task = u.task
		JOIN workflows w ON w.run = u.run AND w.workflow = t.workflow LEFT JOIN runs fr ON fr.name = u.from_run
		LEFT JOIN attempts fa ON fa.run = fr.id AND fa.attempt = u.from_attempt
		LEFT JOIN tasks ft ON ft.run = fr.id AND ft.task = fa.task
		WHERE u.run = ?1 AND u.task IN (`+forerunners+`) ORDER BY u.task`, id, t)
	Into(q, &l.Suspensions, `SELECT a.try, coalesce(n.name, ''), s.how, s.ordered_ns, s.since_ns, s.until_ns, a.kept,
			s.lost_ns
		FROM attempts a JOIN suspensions s ON s.run = a.run AND s.attempt = a.attempt
		LEFT JOIN nodes n ON n.run = a.run AND n.node = a.node
		WHERE a.run = ?1 AND a.attempt IN (`+attemptsOf+`) ORDER BY s.seq`, id, t)
	return l, q.Err
}

// waitsOf selects why task ?2 of run ?1 waited, and of a wait for others the tasks that were under way when it began.
// Attempts are numbered in the order of their orders: the last one of those is near, and few are looked at before it.
const waitsOf = `SELECT w.since_ns, w.reason, coalesce(w.dim, ''), coalesce(n.name, ''), w.until_ns,
		CASE WHEN w.reason IN ('no-node-free', 'outranked') THEN (SELECT json_group_array(x.name) FROM (
			SELECT t.name FROM (
				SELECT coalesce((SELECT coalesce(o.value ->> 1, 0)
					FROM events e CROSS JOIN json_each(e.body, '$.orders') o
					WHERE e.run = ?1 AND e.seq <= w.seq AND e.kind = 9 AND o.value ->> 0 = 1
					ORDER BY e.seq DESC, o.key DESC LIMIT 1),
					(SELECT max(attempt) FROM attempts WHERE run = ?1)) AS last)
			CROSS JOIN attempts a ON a.run = ?1 AND a.attempt BETWEEN last - 100000 AND last AND
				a.queued_ns <= w.since_ns AND (a.ended_ns IS NULL OR a.ended_ns > w.since_ns)
			JOIN tasks t ON t.run = ?1 AND t.task = a.task ORDER BY a.attempt) x) END
	FROM waits w LEFT JOIN nodes n ON n.run = w.run AND n.node = w.node WHERE w.run = ?1 AND w.task = ?2 ORDER BY w.seq`

// label fills in the label of a task.
func (db *DB) label(ctx context.Context, run int64, l *Life) error {
	if l.Label = l.Kind; l.Kind == "" || !plainNumber.MatchString(l.Task) {
		return nil
	}
	like, err := RowOf[struct{ Nth, Of int64 }](ctx, db, `SELECT count(*) FILTER (WHERE k.task <= t.task), count(*)
		FROM tasks t JOIN workflows w ON w.run = t.run AND w.workflow = t.workflow
		JOIN tasks k ON k.run = t.run AND k.task BETWEEN w.first_task AND max(t.task, w.first_task + w.tasks - 1) AND
			k.workflow = t.workflow AND k.kind = t.kind WHERE t.run = ? AND t.task = ?`, run, l.ID)
	if like.Of > 1 {
		l.Label = fmt.Sprintf("%s %d", l.Kind, like.Nth)
	}
	return err
}
