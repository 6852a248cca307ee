package sqlite

import (
	"context"
)

// Statistics are the numbers of a run that pegasus-statistics has. Nil is not known yet.
type Statistics struct {
	Run       string     `json:"run"`
	State     State      `json:"state"`
	Workflows WorkCounts `json:"workflows"`
	Tasks     WorkCounts `json:"tasks"`
	Jobs      WorkCounts `json:"jobs"` // tasks that took a place on a node, or are to
	// WallTime is from the arrival of the first workflow to the end of the last attempt, or so far.
	WallTime *Span `json:"workflow_wall_time_s"`
	// JobTime is how long the programs of all attempts ran; SubmitTime is from their orders to their ends. Badput is
	// the part of attempts that did not end well and left no checkpoint.
	JobTime         Span             `json:"job_wall_time_s"`
	SubmitTime      Span             `json:"job_wall_time_submit_side_s"`
	Badput          Span             `json:"badput_wall_time_s"`
	SubmitBadput    Span             `json:"badput_wall_time_submit_side_s"`
	Transformations []Transformation `json:"transformations"`
}

// WorkCounts counts workflows, tasks or jobs by outcome.
type WorkCounts struct {
	Succeeded  int `json:"succeeded"`
	Failed     int `json:"failed"`
	Incomplete int `json:"incomplete"` // not ended, or skipped
	Total      int `json:"total"`
	Retries    int `json:"retries"` // attempts after the first of each
}

// Transformation is the attempts of one task type that ran and ended: how many, and how long their programs ran.
type Transformation struct {
	Name      string `json:"transformation"`
	Count     int    `json:"count"`
	Succeeded int    `json:"succeeded"`
	Failed    int    `json:"failed"`
	Min       Span   `json:"min_s"`
	Max       Span   `json:"max_s"`
	Mean      Span   `json:"mean_s"`
	Total     Span   `json:"total_s"`
}

// Statistics counts a run. The run is given as in Summary.
func (db *DB) Statistics(ctx context.Context, run string) (*Statistics, error) {
	r, name := db.ask(ctx, run)
	s := &Statistics{Run: name}
	r.one(`SELECT r.state, coalesce(r.makespan_ns, k.at_ns - (SELECT min(arrived_ns) FROM workflows WHERE run = r.id))
		FROM runs r LEFT JOIN clocks k ON k.run = r.id WHERE r.id = ?`, &s.State, &s.WallTime)
	count := func(c *WorkCounts, attempts, from string) {
		r.one(`SELECT count(*), count(*) FILTER (WHERE state = 'done'),
			count(*) FILTER (WHERE state IN ('failed', 'cancelled', 'refused')),
			coalesce(sum(max(0, `+attempts+` - 1)), 0) FROM `+from+` WHERE run = ? AND state <> 'continued'`,
			&c.Total, &c.Succeeded, &c.Failed, &c.Retries)
		c.Incomplete = c.Total - c.Succeeded - c.Failed
	}
	count(&s.Workflows, "0", "workflows")
	count(&s.Tasks, "attempts", "tasks")
	// A task without time has an attempt on no node. One that was reused is done and has no attempt.
	count(&s.Jobs, "attempts",
		"(SELECT * FROM tasks WHERE coalesce(node, 0) >= 0 AND NOT (state = 'done' AND attempts = 0))")
	r.one(`SELECT CAST(total(ran_ns) AS INTEGER), CAST(total(ended_ns - queued_ns) AS INTEGER),
		CAST(total(ran_ns) FILTER (WHERE outcome <> 'ok' AND kept IS NULL) AS INTEGER),
		CAST(total(ended_ns - queued_ns) FILTER (WHERE outcome <> 'ok' AND kept IS NULL) AS INTEGER)
		FROM attempts WHERE run = ? AND outcome IS NOT NULL`, &s.JobTime, &s.SubmitTime, &s.Badput, &s.SubmitBadput)
	into(r, &s.Transformations, `SELECT t.kind, count(*), sum(a.outcome = 'ok'), sum(a.outcome <> 'ok'), min(a.ran_ns),
			max(a.ran_ns), sum(a.ran_ns) / count(*), sum(a.ran_ns)
		FROM attempts a CROSS JOIN tasks t ON t.run = a.run AND t.task = a.task
		WHERE a.run = ? AND a.outcome IS NOT NULL AND a.ran_ns IS NOT NULL AND a.node >= 0
		GROUP BY t.kind ORDER BY t.kind`)
	return s, r.err
}

// Blocked returns the tasks that depend on a task, directly or not, and are not done, as WORKFLOW/TASK in the order of
// their numbers. The run is given as in Summary.
func (db *DB) Blocked(ctx context.Context, run string, task int64) ([]string, error) {
	return rowsOfRun[string](ctx, db, run, `WITH RECURSIVE of(run, child, parent) AS MATERIALIZED (
			SELECT o.run, o.task, e.parent FROM tasks t JOIN tasks o ON o.run = t.run AND o.workflow = t.workflow
			JOIN edges e ON e.run = o.run AND e.child = o.task WHERE t.run = ?1 AND t.task = ?2),
		below(task) AS (SELECT child FROM of WHERE parent = ?2 UNION SELECT of.child FROM below b
			JOIN of ON of.parent = b.task)
		SELECT w.name || '/' || t.name FROM below b JOIN tasks t ON t.run = ?1 AND t.task = b.task
		JOIN workflows w ON w.run = t.run AND w.workflow = t.workflow WHERE t.state <> 'done' ORDER BY t.task`, task)
}
