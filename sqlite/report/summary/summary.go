// Package summary sums up runs of the log: workflows, types of tasks, outcomes, nodes, failures.
package summary

import (
	"context"
	"fmt"
	"math"

	"gantry/planner"
	"gantry/sqlite"
)

// Run is the outcome of one run, or its state so far. Nil is not known, not measured, or not yet.
type Run struct {
	sqlite.Overview
	Log       string  `json:"log"`
	Seed      int64   `json:"seed"`
	TimeScale float64 `json:"time_scale"`
	SizeScale float64 `json:"size_scale"`
	Attempts  int     `json:"attempts"`
	// Reused are tasks that took over the outputs of earlier attempts, in other runs, and Saved the time that those had
	// taken.
	Reused int         `json:"reused"`
	Saved  sqlite.Span `json:"saved_s"`
	// PeakDisk is the most that inputs and outputs took on disk.
	PeakDisk *int64 `json:"peak_disk_bytes"`
	// of the programs whose attempts did not end well, but for the work that checkpoints kept
	Lost        sqlite.Span   `json:"lost_s"`
	Preemptions []Preemptions `json:"preemptions"`
	// of the bytes that attempts read of their inputs, those that lay on the node
	Locality    *float64    `json:"locality_percent"`
	Rounds      int         `json:"rounds"`
	Planning    sqlite.Span `json:"planning_s"` // of the policy, by the wall clock
	Outcomes    []Count     `json:"outcomes"`
	WorkflowRow []Workflow  `json:"workflow_summaries"`
	Deadlines   []Deadline  `json:"deadlines"`  // of the workflows that have one
	Remappings  []Count     `json:"remappings"` // by outcome
	Plan        *Plan       `json:"plan"`
	Kinds       []Kind      `json:"kinds"`
	Memory      *Memory     `json:"memory"` // nil: it was not measured
	Estimates   []Estimate  `json:"estimates"`
	Nodes       []Node      `json:"nodes"`
	Failures    []Failure   `json:"failures"`
	// tasks that ended ok although something went wrong within them, as the message says
	Doubts []Failure `json:"doubts"`
	// Predictions are the latest of the run, by a simulation.
	Predictions []sqlite.Prediction `json:"predictions"`
	// Starting is the share of the time for which attempts held their nodes that containers took to start.
	Starting *float64       `json:"starting_percent"`
	Warnings []Warning      `json:"warnings"`
	Images   []sqlite.Image `json:"images"` // that programs ran in, by name
	// Brief says that there are too many tasks: all but the overview, warnings and policies is left out.
	Brief bool `json:"brief,omitempty"`
	// Policies are those that planned, in turn, if there was more than one.
	Policies []sqlite.PolicyChange `json:"policies,omitempty"`
	// Metrics are those that Measure kept of a run that has ended.
	Metrics map[string]float64 `json:"metrics"`
}

// Count is how often something was.
type Count struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Preemptions is how often policies took the places of tasks away in one way (freeze, checkpoint, restart), how long
// the tasks then were away in all, and the work that they lost.
type Preemptions struct {
	How   string      `json:"how"`
	Count int         `json:"count"`
	Tasks int         `json:"tasks"`
	Away  sqlite.Span `json:"away_s"`
	Lost  sqlite.Span `json:"lost_s"`
}

// Workflow is one workflow: Wait is from its arrival or release to the first order to start one of its tasks,
// Makespan from there to its end, Response from its arrival to its end.
type Workflow struct {
	Name     string       `json:"name"`
	Label    string       `json:"label"`
	State    string       `json:"state"`
	Tasks    int          `json:"tasks"`
	Done     int          `json:"done"`
	Wait     *sqlite.Span `json:"wait_s"`
	Makespan *sqlite.Span `json:"makespan_s"`
	Response *sqlite.Span `json:"response_s"`
}

// Deadline compares the end of a workflow with its deadline: Predicted is its end by the plan that was made when it
// arrived. Instants are on the axis of the run; a workflow is late if it ended after its deadline, or will not end
// well, and neither late nor on time if it was refused.
type Deadline struct {
	Name      string       `json:"name"`
	State     string       `json:"state"`
	Due       sqlite.Span  `json:"due_s"`
	Predicted *sqlite.Span `json:"predicted_s"`
	Ended     *sqlite.Span `json:"ended_s"`
	Late      bool         `json:"late"`
}

// Plan compares the ends of tasks with the last plan of their workflow: Late is the mean delay against it, Off the mean
// distance, Most the largest.
type Plan struct {
	Tasks int          `json:"tasks"`
	Late  *sqlite.Span `json:"mean_later_s"`
	Off   *sqlite.Span `json:"mean_off_s"`
	Most  *sqlite.Span `json:"most_off_s"`
}

// Kind is all tasks of one type. Estimated, Measured and Runtime are means over the attempts that succeeded:
// Estimated as the policy estimated at the start unless it took a default, Measured its equal (from inputs in place to
// the end, so the start of the container is in both), Runtime the program alone. CPU, GPU, Read and Written are sums
// over all attempts, PeakMemory and PeakGPUMemory are the largest.
type Kind struct {
	Kind       string       `json:"kind"`
	Tasks      int          `json:"tasks"`
	Done       int          `json:"done"`
	Failed     int          `json:"failed"`
	Attempts   int          `json:"attempts"`
	Estimated  *sqlite.Span `json:"estimated_s"`
	Measured   *sqlite.Span `json:"measured_s"`
	Shortest   *sqlite.Span `json:"measured_min_s"`
	Longest    *sqlite.Span `json:"measured_max_s"`
	Runtime    *sqlite.Span `json:"runtime_s"`
	CPU        *sqlite.Span `json:"cpu_s"`
	PeakMemory *int64       `json:"peak_memory_bytes"`
	Read       *int64       `json:"read_bytes"`
	Written    *int64       `json:"written_bytes"`

	GPU           *sqlite.Span `json:"gpu_s"`
	PeakGPUMemory *int64       `json:"peak_gpu_memory_bytes"`
}

// Memory is the memory-time of attempts that ended, in GB·h: Used is their peaks if they ended well, for as
// long as they held memory. The rest was held in vain.
type Memory struct {
	Held        float64 `json:"held_gbh"`
	Used        float64 `json:"used_gbh"`
	Wasted      float64 `json:"wasted_gbh"`
	Saved       float64 `json:"saved_gbh"`     // against the memory that is declared
	OutOfMemory int     `json:"out_of_memory"` // attempts
}

// Estimate is the error of the estimates of one source, over the attempts that succeeded: each estimate over
// the measured time (above 1 it was too high), and its distance from the measured time in percent of the latter. Nil
// where nothing took time.
type Estimate struct {
	Source   string   `json:"source"`
	Attempts int      `json:"attempts"`
	Ratio    *float64 `json:"mean_ratio"`
	Lowest   *float64 `json:"min_ratio"`
	Highest  *float64 `json:"max_ratio"`
	Error    *float64 `json:"mean_error_percent"`
}

// Node is the use of a node: Held is the share of its cores that tasks held over the makespan, Used the
// share that they really used.
type Node struct {
	Node     string   `json:"node"`
	Cores    *float64 `json:"cores"`
	Speed    float64  `json:"speed"`
	Attempts int      `json:"attempts"`
	Held     *float64 `json:"held_percent"`
	Used     *float64 `json:"used_percent"`
}

// Failure is a task whose last attempt failed, or a task whose success is doubtful.
type Failure struct {
	Workflow string `json:"workflow"`
	Task     string `json:"task"`
	Kind     string `json:"kind"`
	Node     string `json:"node"`
	Outcome  string `json:"outcome"`
	ExitCode *int   `json:"exit_code"`
	Message  string `json:"message"`
	Attempts int    `json:"attempts"`
}

// Warning is a warning of a run, and how often it was given.
type Warning struct {
	Rule    string `json:"rule"`
	Message string `json:"message"`
	Count   int    `json:"count"`
}

// Of sums up a run, given by name, by a prefix of it that is no other's, or "" for the latest.
func Of(ctx context.Context, db *sqlite.DB, run string) (*Run, error) {
	return Within(ctx, db, run, math.MaxInt)
}

// Within is Of that is brief about a run with more tasks than most, if these are rows of their own: parts that take
// longer with more tasks are left out.
func Within(ctx context.Context, db *sqlite.DB, run string, most int) (*Run, error) {
	id, name, err := db.Find(ctx, run)
	if err != nil {
		return nil, err
	}
	over, err := db.Overview(ctx, name)
	if err != nil {
		return nil, err
	}
	r := sqlite.Ask(ctx, db)
	s := &Run{Overview: *over, Log: db.Path(), Outcomes: []Count{}, Preemptions: []Preemptions{},
		WorkflowRow: []Workflow{}, Deadlines: []Deadline{}, Remappings: []Count{}, Kinds: []Kind{}, Nodes: []Node{},
		Estimates: []Estimate{}, Failures: []Failure{}, Doubts: []Failure{}, Warnings: []Warning{},
		Metrics: map[string]float64{}}
	r.Row(id, "SELECT seed, time_scale, size_scale FROM runs WHERE id = ?1", &s.Seed, &s.TimeScale, &s.SizeScale)
	sqlite.Into(r, &s.Warnings, "SELECT rule, message, count FROM warnings WHERE run = ?1 ORDER BY rowid", id)
	if r.Err == nil {
		s.Policies, r.Err = db.Policies(ctx, name)
	}
	if s.Brief = s.Tasks > most; s.Brief || r.Err != nil {
		return s, r.Err
	}
	r.Row(id, `SELECT count(*), coalesce(sum(body ->> 'took_ns'), 0) FROM events WHERE run = ? AND kind = 9`, &s.Rounds,
		&s.Planning)
	r.Row(id, `SELECT count(u.task), coalesce(sum(u.ran_ns), 0), r.peak_disk_bytes FROM runs r
		LEFT JOIN reuses u ON u.run = r.id AND u.from_run <> ''
			AND EXISTS (SELECT 1 FROM tasks t WHERE t.run = u.run AND t.task = u.task AND t.state = 'done')
		WHERE r.id = ? GROUP BY r.id`, &s.Reused, &s.Saved, &s.PeakDisk)
	sqlite.Into(r, &s.Preemptions, `SELECT s.how, count(*), count(DISTINCT a.task),
			coalesce(sum(s.until_ns - s.since_ns), 0), coalesce(sum(s.lost_ns), 0)
		FROM suspensions s JOIN attempts a ON a.run = s.run AND a.attempt = s.attempt
		WHERE s.run = ? AND s.since_ns IS NOT NULL GROUP BY 1 ORDER BY 1`, id)
	sqlite.Into(r, &s.WorkflowRow, `SELECT v.workflow, v.label, v.state, v.tasks, v.succeeded, v.wait_s, v.makespan_s,
			iif(v.state = 'refused', NULL, v.response_s)
		FROM v_workflows v WHERE v.run = ? ORDER BY v.arrived_s, v.workflow`, name)
	sqlite.Into(r, &s.Deadlines, `SELECT w.name, w.state, w.due_ns, (SELECT x.instant_ns FROM notes x
			WHERE x.run = w.run AND x.workflow = w.workflow AND x.topic = 'predicted' ORDER BY x.seq LIMIT 1),
			CASE WHEN w.state NOT IN ('cancelled', 'refused') THEN w.ended_ns END,
			w.state IN ('failed', 'cancelled') OR w.state != 'refused' AND coalesce(w.ended_ns > w.due_ns, 0)
		FROM workflows w WHERE w.run = ? AND w.due_ns IS NOT NULL AND w.state <> 'continued'
		ORDER BY w.due_ns, w.workflow`, id)
	sqlite.Into(r, &s.Remappings, `SELECT topic, count(*) FROM notes
		WHERE run = ? AND topic IN ('remapped', 'remap-failed', 'remap-limit') GROUP BY 1 ORDER BY 1 DESC`, id)
	p := new(Plan)
	r.Row(id, `SELECT count(*), avg(t.ended_ns - x.instant_ns) / 1e9, avg(abs(t.ended_ns - x.instant_ns)) / 1e9,
			max(abs(t.ended_ns - x.instant_ns))
		FROM notes x JOIN tasks t ON t.run = x.run AND t.task = x.task
		WHERE x.run = ? AND x.topic = 'planned' AND t.state = 'done'`, &p.Tasks, &p.Late, &p.Off, &p.Most)
	if p.Tasks > 0 {
		s.Plan = p
	}
	if s.sumUp(r, id, name); r.Err == nil {
		s.Images, r.Err = db.ImagesOf(ctx, id)
	}
	if r.Err != nil {
		return nil, r.Err
	}
	metrics, err := db.Metrics(ctx, name)
	for _, m := range metrics {
		if !math.IsNaN(m.Value) {
			s.Metrics[m.Name] = m.Value
		}
	}
	return s, err
}

// sumUp reads the parts of a summary about tasks and attempts.
func (s *Run) sumUp(r *sqlite.Questions, id int64, name string) {
	sqlite.Into(r, &s.Outcomes, `SELECT coalesce(outcome, 'under-way'), count(*) FROM attempts WHERE run = ?
		GROUP BY 1 ORDER BY 2 DESC, 1`, id)
	r.Row(id, "SELECT count(*), coalesce(sum(lost_ns), 0) FROM attempts WHERE run = ?", &s.Attempts, &s.Lost)
	r.Row(id, `SELECT 100.0 * total(input_bytes - copied_bytes) / nullif(total(input_bytes), 0) FROM attempts
		WHERE run = ? AND started_ns IS NOT NULL AND input_bytes IS NOT NULL`, &s.Locality)
	// An attempt that gantry took over has no time of creation.
	r.Row(id, `SELECT 100.0 * nullif(total(started_ns - coalesce(staged_ns, queued_ns)), 0) /
			nullif(total(ended_ns - queued_ns
				- max(0, ended_ns - started_ns - coalesce(ran_ns, ended_ns - started_ns))), 0)
		FROM attempts WHERE run = ? AND ended_ns IS NOT NULL AND started_ns IS NOT NULL`, &s.Starting)
	sqlite.Into(r, &s.Kinds, `SELECT kind, tasks, succeeded, failed, coalesce(attempts, 0), estimated_s, measured_s,
			measured_min_s, measured_max_s, runtime_s, cpu_total_s, CAST(peak_mb * 1e6 + 0.5 AS INTEGER),
			CAST(read_mb * 1e6 + 0.5 AS INTEGER), CAST(written_mb * 1e6 + 0.5 AS INTEGER),
			gpu_total_s, CAST(peak_gpu_mb * 1e6 + 0.5 AS INTEGER)
		FROM v_kinds WHERE run = ? ORDER BY tasks DESC, kind`, name)
	var memory []Memory
	sqlite.Into(r, &memory, `SELECT total(held_gbh), total(used_gbh), total(wasted_gbh), total(saved_gbh),
			CAST(total(out_of_memory) AS INTEGER)
		FROM v_memory WHERE run = ?`, name)
	if len(memory) > 0 && memory[0].Held > 0 {
		s.Memory = &memory[0]
	}
	// v_estimates has names of tasks and nodes, too, which takes as long again.
	sqlite.Into(r, &s.Estimates, `SELECT source, count(*), avg(ratio), min(ratio), max(ratio), 100 * avg(abs(ratio - 1))
		FROM (SELECT estimate_source AS source, 1.0 * estimate_ns / nullif(max(0, ended_ns
				- coalesce(staged_ns, created_ns, started_ns, queued_ns)
				- max(0, coalesce(ended_ns - started_ns - ran_ns, 0))), 0) AS ratio
			FROM attempts WHERE run = ? AND outcome = 'ok' AND estimate_ns IS NOT NULL)
		GROUP BY source ORDER BY 2 DESC, 1`, id)
	sqlite.Into(r, &s.Predictions, `SELECT made_s, scope, name, basis, tasks, repetitions, predicted_s, low_s, high_s,
			actual_s, error_pct, within
		FROM v_predictions WHERE run = ?1 AND scope <> 'rest'
			AND made_s = (SELECT max(made_s) FROM v_predictions WHERE run = ?1)
		ORDER BY CASE scope WHEN 'run' THEN 0 WHEN 'workflow' THEN 1 ELSE 2 END, tasks DESC, name`, name)
	sqlite.Into(r, &s.Nodes, `SELECT node, cores, speed, attempts, held_pct, used_pct FROM v_utilisation
		WHERE run = ?`, name)
	sqlite.Into(r, &s.Failures, failures+"t.run = ?1 AND t.state = 'failed' ORDER BY a.ended_ns", id)
	sqlite.Into(r, &s.Doubts, failures+"t.run = ?1 AND "+doubted+" AND t.task IN "+
		"(SELECT task FROM attempts WHERE run = ?1 AND message IS NOT NULL UNION ALL "+
		"SELECT task FROM reuses WHERE run = ?1 AND from_attempt IS NOT NULL) ORDER BY a.ended_ns", id)
}

const (
	failures = `SELECT w.name, t.name, t.kind, coalesce(n.name, ''), coalesce(a.outcome, ''), a.exit_code,
			coalesce(a.message, ''), t.attempts
		FROM tasks t JOIN workflows w ON w.run = t.run AND w.workflow = t.workflow LEFT JOIN nodes n ON
			n.run = t.run AND n.node = t.node
		LEFT JOIN reuses u ON u.run = t.run AND u.task = t.task
		LEFT JOIN attempts a ON a.attempt = coalesce(t.attempt, u.from_attempt) AND a.run = iif(t.attempt IS NOT NULL
			OR u.from_run = '', t.run, (SELECT id FROM runs WHERE name = u.from_run)) WHERE `
	doubted = "t.state = 'done' AND a.message IS NOT NULL"
)

// Doubts returns the tasks of a submission that succeeded and may not have meant to.
func Doubts(ctx context.Context, db *sqlite.DB, id int64) (all []Failure, err error) {
	s, err := db.Submitted(ctx, id)
	if err != nil {
		return nil, err
	}
	of := sqlite.OfWorkflow
	if s.Task != planner.None {
		of = fmt.Sprintf("t.task = %d", s.Task)
	}
	return sqlite.RowsOf[Failure](ctx, db, failures+"w.run = (SELECT id FROM runs WHERE name = ?) AND w.workflow = ? "+
		"AND "+of+" AND "+doubted+" ORDER BY a.ended_ns", s.Run, s.Workflow)
}
