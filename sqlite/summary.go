package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strconv"
	"time"

	"gantry/planner"
)

// Span is a duration that JSON has as seconds.
type Span time.Duration

// Scan reads a whole number of nanoseconds, or a real one of seconds.
func (s *Span) Scan(v any) error {
	switch v := v.(type) {
	case int64:
		*s = Span(v)
	case float64:
		*s = Span(math.Round(v * 1e9))
	default:
		return fmt.Errorf("%T where a time was expected", v)
	}
	return nil
}

// MarshalJSON writes seconds.
func (s Span) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', -1, 64), nil
}

// Overview is a run in a list of runs. Makespan is nil unless the run ended; Clock is how far the run got on its own
// axis.
type Overview struct {
	Run       string   `json:"run"`
	Runtime   string   `json:"runtime"`
	Policy    string   `json:"policy"`
	State     State    `json:"state"`
	Started   string   `json:"started"` // RFC 3339, UTC
	Workflows int      `json:"workflows"`
	Tasks     int      `json:"tasks"`
	Done      int      `json:"done"`
	Running   int      `json:"running"` // starting, running or suspended
	Failed    int      `json:"failed"`
	Skipped   int      `json:"skipped"`
	ExitCode  *int     `json:"exit_code"`
	Makespan  *Span    `json:"makespan_s"`
	Clock     Span     `json:"clock_s"`
	Names     []string `json:"workflow_names"` // of the first three
	// HostModel is that of the settings: simulations and estimates on containers take it. Nil: none.
	HostModel *ModelUsed `json:"host_model"`
	// Disk is the space that the files of the run take on disk; nil if nobody asked. The log does not have it.
	Disk *int64 `json:"disk_bytes,omitempty"`
}

// ModelUsed names a host model, as runs.settings have it.
type ModelUsed struct {
	Host     string    `json:"host"`
	Cores    int       `json:"cores"`
	Measured time.Time `json:"measured"`
	Warnings []string  `json:"warnings"` // why the host was too busy to be measured well; nil: it was at rest
}

// String names a model on one line; nil is none.
func (m *ModelUsed) String() string {
	if m == nil {
		return "none"
	}
	name := m.Host + " " + m.Measured.UTC().Format("2006-01-02 15:04")
	if len(m.Warnings) > 0 {
		name += " (busy)"
	}
	return name
}

// Summary is the outcome of one run, or its state so far. Nil is not known, not measured, or not yet.
type Summary struct {
	Overview
	Log       string  `json:"log"`
	Seed      int64   `json:"seed"`
	TimeScale float64 `json:"time_scale"`
	SizeScale float64 `json:"size_scale"`
	Attempts  int     `json:"attempts"`
	// Reused are tasks that took over the outputs of earlier attempts, in other runs, and Saved the time that those had
	// taken.
	Reused int  `json:"reused"`
	Saved  Span `json:"saved_s"`
	// PeakDisk is the most that inputs and outputs took on disk.
	PeakDisk *int64 `json:"peak_disk_bytes"`
	// of the programs whose attempts did not end well, but for the work that checkpoints kept
	Lost        Span          `json:"lost_s"`
	Preemptions []Preemptions `json:"preemptions"`
	// of the bytes that attempts read of their inputs, those that lay on the node
	Locality    *float64          `json:"locality_percent"`
	Rounds      int               `json:"rounds"`
	Planning    Span              `json:"planning_s"` // of the policy, by the wall clock
	Outcomes    []Count           `json:"outcomes"`
	WorkflowRow []WorkflowSummary `json:"workflow_summaries"`
	Deadlines   []DeadlineSummary `json:"deadlines"`  // of the workflows that have one
	Remappings  []Count           `json:"remappings"` // by outcome
	Plan        *PlanSummary      `json:"plan"`
	Kinds       []KindSummary     `json:"kinds"`
	Memory      *MemorySummary    `json:"memory"` // nil: it was not measured
	Estimates   []EstimateSummary `json:"estimates"`
	Nodes       []NodeSummary     `json:"nodes"`
	Failures    []Failure         `json:"failures"`
	// tasks that ended ok although something went wrong within them, as the message says
	Doubts []Failure `json:"doubts"`
	// Predictions are the latest of the run, by a simulation.
	Predictions []Prediction `json:"predictions"`
	// Starting is the share of the time for which attempts held their nodes that containers took to start.
	Starting *float64  `json:"starting_percent"`
	Warnings []Warning `json:"warnings"`
	Images   []Image   `json:"images"` // that programs ran in, by name
	// Brief says that there are too many tasks: all but the overview, warnings and policies is left out.
	Brief bool `json:"brief,omitempty"`
	// Policies are those that planned, in turn, if there was more than one.
	Policies []PolicyChange `json:"policies,omitempty"`
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
	How   string `json:"how"`
	Count int    `json:"count"`
	Tasks int    `json:"tasks"`
	Away  Span   `json:"away_s"`
	Lost  Span   `json:"lost_s"`
}

// WorkflowSummary is one workflow: Wait is from its arrival or release to the first order to start one of its tasks,
// Makespan from there to its end, Response from its arrival to its end.
type WorkflowSummary struct {
	Name     string `json:"name"`
	Label    string `json:"label"`
	State    string `json:"state"`
	Tasks    int    `json:"tasks"`
	Done     int    `json:"done"`
	Wait     *Span  `json:"wait_s"`
	Makespan *Span  `json:"makespan_s"`
	Response *Span  `json:"response_s"`
}

// DeadlineSummary is how a workflow fared that has a deadline: Predicted is its end by the plan that was made when it
// arrived. Instants are on the axis of the run; a workflow is late if it ended after its deadline, or will not end
// well, and neither late nor on time if it was refused.
type DeadlineSummary struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Due       Span   `json:"due_s"`
	Predicted *Span  `json:"predicted_s"`
	Ended     *Span  `json:"ended_s"`
	Late      bool   `json:"late"`
}

// PlanSummary is how far the ends of tasks lay from the plan that their workflow was mapped by last: Late is the mean
// of how much later than planned they ended, Off the mean distance, Most the largest.
type PlanSummary struct {
	Tasks int   `json:"tasks"`
	Late  *Span `json:"mean_later_s"`
	Off   *Span `json:"mean_off_s"`
	Most  *Span `json:"most_off_s"`
}

// KindSummary is all tasks of one type. Estimated, Measured and Runtime are means over the attempts that succeeded:
// Estimated as the policy estimated at the start unless it took a default, Measured its equal (from inputs in place to
// the end, so the start of the container is in both), Runtime the program alone. CPU, GPU, Read and Written are sums
// over all attempts, PeakMemory and PeakGPUMemory are the largest.
type KindSummary struct {
	Kind       string `json:"kind"`
	Tasks      int    `json:"tasks"`
	Done       int    `json:"done"`
	Failed     int    `json:"failed"`
	Attempts   int    `json:"attempts"`
	Estimated  *Span  `json:"estimated_s"`
	Measured   *Span  `json:"measured_s"`
	Shortest   *Span  `json:"measured_min_s"`
	Longest    *Span  `json:"measured_max_s"`
	Runtime    *Span  `json:"runtime_s"`
	CPU        *Span  `json:"cpu_s"`
	PeakMemory *int64 `json:"peak_memory_bytes"`
	Read       *int64 `json:"read_bytes"`
	Written    *int64 `json:"written_bytes"`

	GPU           *Span  `json:"gpu_s"`
	PeakGPUMemory *int64 `json:"peak_gpu_memory_bytes"`
}

// MemorySummary is the memory-time of attempts that ended, in GB·h: Used is their peaks if they ended well, for as
// long as they held memory. The rest was held in vain.
type MemorySummary struct {
	Held        float64 `json:"held_gbh"`
	Used        float64 `json:"used_gbh"`
	Wasted      float64 `json:"wasted_gbh"`
	Saved       float64 `json:"saved_gbh"`     // against the memory that is declared
	OutOfMemory int     `json:"out_of_memory"` // attempts
}

// EstimateSummary is how wrong the estimates of one source were, over the attempts that succeeded: each estimate over
// the measured time (above 1 it was too high), and its distance from the measured time in percent of the latter. Nil
// where nothing took time.
type EstimateSummary struct {
	Source   string   `json:"source"`
	Attempts int      `json:"attempts"`
	Ratio    *float64 `json:"mean_ratio"`
	Lowest   *float64 `json:"min_ratio"`
	Highest  *float64 `json:"max_ratio"`
	Error    *float64 `json:"mean_error_percent"`
}

// NodeSummary is how well a node was used: Held is the share of its cores that tasks held over the makespan, Used the
// share that they really used.
type NodeSummary struct {
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

const overviewQuery = `SELECT r.name, r.runtime, r.policy, r.state, r.started_wall, r.exit_code, r.makespan_ns,
	coalesce(r.ended_ns, (SELECT k.at_ns FROM clocks k WHERE k.run = r.id), 0),
	(SELECT json_group_array(name) FROM (SELECT w.name FROM workflows w WHERE w.run = r.id AND w.state <> 'continued'
		ORDER BY w.workflow LIMIT 3)),
	(SELECT n.counts FROM run_counts n WHERE n.run = r.id),
	iif(r.settings -> '$.host_model' IS NULL, 'null', json_object(
		'host', r.settings -> '$.host_model.host.name', 'cores', r.settings -> '$.host_model.host.cores',
		'measured', r.settings -> '$.host_model.measured.at',
		'warnings', r.settings -> '$.host_model.measured.warnings'))
	FROM runs r `

func (db *DB) overviews(ctx context.Context, which string, args ...any) (all []Overview, err error) {
	all = []Overview{}
	err = db.Each(ctx, func(scan Scan) error {
		var o Overview
		var n map[string]int
		err := scan(&o.Run, &o.Runtime, &o.Policy, &o.State, &o.Started, &o.ExitCode, &o.Makespan, &o.Clock,
			asJSON{&o.Names}, asJSON{&n}, asJSON{&o.HostModel})
		o.Workflows, o.Done, o.Failed, o.Skipped = n["workflows"], n["done"], n["failed"], n["skipped"]
		o.Running = n["starting"] + n["running"] + n["suspended"]
		o.Tasks = o.Done + o.Failed + o.Skipped + o.Running + n["waiting"]
		all = append(all, o)
		return err
	}, overviewQuery+which, args...)
	return all, err
}

// Runs lists all runs, the newest first.
func (db *DB) Runs(ctx context.Context) ([]Overview, error) {
	return db.overviews(ctx, "ORDER BY r.id DESC")
}

// State is how a run stands; it costs little.
func (db *DB) State(ctx context.Context, run string) (State, error) {
	states, err := RowsOf[State](ctx, db, "SELECT state FROM runs WHERE name = ?", run)
	if err != nil {
		return "", err
	}
	if len(states) == 0 {
		return "", db.unknownRun(ctx, run)
	}
	return states[0], nil
}

// Overview is one run, given by its whole name.
func (db *DB) Overview(ctx context.Context, run string) (*Overview, error) {
	id, err := db.whole(ctx, run)
	if err != nil {
		return nil, err
	}
	o, err := db.overview(ctx, id)
	return &o, err
}

func (db *DB) overview(ctx context.Context, id int64) (Overview, error) {
	all, err := db.overviews(ctx, "WHERE r.id = ?", id)
	if err == nil && len(all) == 0 {
		err = db.wrap("read", sql.ErrNoRows) // it was removed meanwhile
	}
	return append(all, Overview{})[0], err
}

// Summary sums up a run, given by name, by a prefix of it that is no other's, or "" for the latest.
func (db *DB) Summary(ctx context.Context, run string) (*Summary, error) {
	return db.SummaryWithin(ctx, run, math.MaxInt)
}

// SummaryWithin is Summary that is brief about a run with more tasks than most, if these are rows of their own: parts
// that take longer with more tasks are left out.
func (db *DB) SummaryWithin(ctx context.Context, run string, most int) (*Summary, error) {
	r, name := db.ask(ctx, run)
	s := &Summary{Log: db.path, Outcomes: []Count{}, Preemptions: []Preemptions{}, WorkflowRow: []WorkflowSummary{},
		Deadlines: []DeadlineSummary{}, Remappings: []Count{}, Kinds: []KindSummary{}, Nodes: []NodeSummary{},
		Estimates: []EstimateSummary{},
		Failures:  []Failure{}, Doubts: []Failure{}, Warnings: []Warning{}, Metrics: map[string]float64{}}
	if r.err == nil {
		s.Overview, r.err = db.overview(ctx, r.run)
	}
	r.one("SELECT seed, time_scale, size_scale FROM runs WHERE id = ?1", &s.Seed, &s.TimeScale, &s.SizeScale)
	into(r, &s.Warnings, "SELECT rule, message, count FROM warnings WHERE run = ?1 ORDER BY rowid")
	into(r, &s.Policies, "SELECT 0 AS seq, 0, settings ->> '$.policy' FROM runs WHERE id = ?1 AND EXISTS (SELECT 1 "+
		"FROM policies WHERE run = ?1) UNION ALL SELECT seq, at_ns, policy FROM policies WHERE run = ?1 ORDER BY seq")
	if s.Brief = s.Tasks > most; s.Brief || r.err != nil {
		return s, r.err
	}
	r.one(`SELECT count(*), coalesce(sum(body ->> 'took_ns'), 0) FROM events WHERE run = ? AND kind = 9`, &s.Rounds,
		&s.Planning)
	r.one(`SELECT count(u.task), coalesce(sum(u.ran_ns), 0), r.peak_disk_bytes FROM runs r
		LEFT JOIN reuses u ON u.run = r.id AND u.from_run <> ''
			AND EXISTS (SELECT 1 FROM tasks t WHERE t.run = u.run AND t.task = u.task AND t.state = 'done')
		WHERE r.id = ? GROUP BY r.id`, &s.Reused, &s.Saved, &s.PeakDisk)
	into(r, &s.Preemptions, `SELECT s.how, count(*), count(DISTINCT a.task), coalesce(sum(s.until_ns - s.since_ns), 0),
			coalesce(sum(s.lost_ns), 0)
		FROM suspensions s JOIN attempts a ON a.run = s.run AND a.attempt = s.attempt
		WHERE s.run = ? AND s.since_ns IS NOT NULL GROUP BY 1 ORDER BY 1`)
	into(r, &s.WorkflowRow, `SELECT v.workflow, v.label, v.state, v.tasks, v.succeeded, v.wait_s, v.makespan_s,
			iif(v.state = 'refused', NULL, v.response_s)
		FROM v_workflows v WHERE v.run = ?2 ORDER BY v.arrived_s, v.workflow`, s.Run)
	into(r, &s.Deadlines, `SELECT w.name, w.state, w.due_ns, (SELECT x.instant_ns FROM notes x
			WHERE x.run = w.run AND x.workflow = w.workflow AND x.topic = 'predicted' ORDER BY x.seq LIMIT 1),
			CASE WHEN w.state NOT IN ('cancelled', 'refused') THEN w.ended_ns END,
			w.state IN ('failed', 'cancelled') OR w.state != 'refused' AND coalesce(w.ended_ns > w.due_ns, 0)
		FROM workflows w WHERE w.run = ? AND w.due_ns IS NOT NULL AND w.state <> 'continued'
		ORDER BY w.due_ns, w.workflow`)
	into(r, &s.Remappings, `SELECT topic, count(*) FROM notes
		WHERE run = ? AND topic IN ('remapped', 'remap-failed', 'remap-limit') GROUP BY 1 ORDER BY 1 DESC`)
	p := new(PlanSummary)
	r.one(`SELECT count(*), avg(t.ended_ns - x.instant_ns) / 1e9, avg(abs(t.ended_ns - x.instant_ns)) / 1e9,
			max(abs(t.ended_ns - x.instant_ns))
		FROM notes x JOIN tasks t ON t.run = x.run AND t.task = x.task
		WHERE x.run = ? AND x.topic = 'planned' AND t.state = 'done'`, &p.Tasks, &p.Late, &p.Off, &p.Most)
	if p.Tasks > 0 {
		s.Plan = p
	}
	s.sumUp(r)
	if r.err != nil {
		return nil, r.err
	}
	var err error
	if s.Images, err = db.images(ctx, r.run); err != nil {
		return nil, err
	}
	if s.Predictions, err = db.Predictions(ctx, name); err != nil {
		return nil, err
	}
	metrics, err := db.Metrics(ctx, name)
	for _, m := range metrics {
		if !math.IsNaN(m.Value) {
			s.Metrics[m.Name] = m.Value
		}
	}
	return s, err
}

// reading asks queries about a run, whose number is their argument, until one has failed.
type reading struct {
	ctx context.Context
	db  *DB
	run int64
	err error
}

// ask begins to ask about a run, given as in Summary.
func (db *DB) ask(ctx context.Context, run string) (r *reading, name string) {
	r = &reading{ctx: ctx, db: db}
	r.run, name, r.err = db.Find(ctx, run)
	return r, name
}

// one reads a query that has one row.
func (r *reading) one(query string, columns ...any) {
	if r.err == nil {
		r.err = r.db.one(r.ctx, query, []any{r.run}, columns...)
	}
}

// into reads the rows of a query as RowsOf does; the number of the run is the argument before others.
func into[T any](r *reading, to *[]T, query string, args ...any) {
	if r.err == nil {
		*to, r.err = RowsOf[T](r.ctx, r.db, query, append([]any{r.run}, args...)...)
	}
}

// rowsOfRun reads the rows of one query about a run, given as in Summary.
func rowsOfRun[T any](ctx context.Context, db *DB, run, query string, args ...any) (all []T, err error) {
	r, _ := db.ask(ctx, run)
	into(r, &all, query, args...)
	return all, r.err
}

// sumUp reads the parts of a summary about tasks and attempts. Views are asked by the name of the run itself: SQLite
// would sum up all runs to find that of a number.
func (s *Summary) sumUp(r *reading) {
	into(r, &s.Outcomes, `SELECT coalesce(outcome, 'under-way'), count(*) FROM attempts WHERE run = ?
		GROUP BY 1 ORDER BY 2 DESC, 1`)
	r.one("SELECT count(*), coalesce(sum(lost_ns), 0) FROM attempts WHERE run = ?", &s.Attempts, &s.Lost)
	r.one(`SELECT 100.0 * total(input_bytes - copied_bytes) / nullif(total(input_bytes), 0) FROM attempts
		WHERE run = ? AND started_ns IS NOT NULL AND input_bytes IS NOT NULL`, &s.Locality)
	// An attempt that gantry took over has no time of creation.
	r.one(`SELECT 100.0 * nullif(total(started_ns - coalesce(staged_ns, queued_ns)), 0) /
			nullif(total(ended_ns - queued_ns
				- max(0, ended_ns - started_ns - coalesce(ran_ns, ended_ns - started_ns))), 0)
		FROM attempts WHERE run = ? AND ended_ns IS NOT NULL AND started_ns IS NOT NULL`, &s.Starting)
	into(r, &s.Kinds, `SELECT kind, tasks, succeeded, failed, coalesce(attempts, 0), estimated_s, measured_s,
			measured_min_s, measured_max_s, runtime_s, cpu_total_s, CAST(peak_mb * 1e6 + 0.5 AS INTEGER),
			CAST(read_mb * 1e6 + 0.5 AS INTEGER), CAST(written_mb * 1e6 + 0.5 AS INTEGER),
			gpu_total_s, CAST(peak_gpu_mb * 1e6 + 0.5 AS INTEGER)
		FROM v_kinds WHERE run = ?2 ORDER BY tasks DESC, kind`, s.Run)
	var memory []MemorySummary
	into(r, &memory, `SELECT total(held_gbh), total(used_gbh), total(wasted_gbh), total(saved_gbh),
			CAST(total(out_of_memory) AS INTEGER)
		FROM v_memory WHERE run = ?2`, s.Run)
	if len(memory) > 0 && memory[0].Held > 0 {
		s.Memory = &memory[0]
	}
	into(r, &s.Estimates, `SELECT source, count(*), avg(ratio), min(ratio), max(ratio), 100 * avg(abs(ratio - 1))
		FROM v_estimates WHERE run = ?2 GROUP BY source ORDER BY 2 DESC, 1`, s.Run)
	into(r, &s.Nodes, `SELECT node, cores, speed, attempts, held_pct, used_pct FROM v_utilisation WHERE run = ?2`,
		s.Run)
	into(r, &s.Failures, failures+"t.run = ?1 AND t.state = 'failed' ORDER BY a.ended_ns")
	into(r, &s.Doubts, failures+"t.run = ?1 AND "+doubted+" AND t.task IN "+
		"(SELECT task FROM attempts WHERE run = ?1 AND message IS NOT NULL) ORDER BY a.ended_ns")
}

const (
	failures = `SELECT w.name, t.name, t.kind, coalesce(n.name, ''), coalesce(a.outcome, ''), a.exit_code,
			coalesce(a.message, ''), t.attempts
		FROM tasks t JOIN workflows w ON w.run = t.run AND w.workflow = t.workflow LEFT JOIN nodes n ON
			n.run = t.run AND n.node = t.node
		LEFT JOIN attempts a ON a.run = t.run AND a.attempt = t.attempt WHERE `
	doubted = "t.state = 'done' AND a.message IS NOT NULL"
)

// Doubts returns the tasks of a submission that succeeded and may not have meant to.
func (db *DB) Doubts(ctx context.Context, id int64) (all []Failure, err error) {
	s, err := db.Submitted(ctx, id)
	if err != nil {
		return nil, err
	}
	of := ofWorkflow
	if s.Task != planner.None {
		of = fmt.Sprintf("t.task = %d", s.Task)
	}
	return RowsOf[Failure](ctx, db, failures+"w.run = (SELECT id FROM runs WHERE name = ?) AND w.workflow = ? "+
		"AND "+of+" AND "+doubted+" ORDER BY a.ended_ns", s.Run, s.Workflow)
}

// PolicyChange says which policy planned from an instant on.
type PolicyChange struct {
	Seq    uint64       `json:"seq"` // of the event
	At     planner.Time `json:"at_ns"`
	Policy string       `json:"policy"`
}

// Policies returns the changes of the policy of a run, in order. The run is given as in Summary.
func (db *DB) Policies(ctx context.Context, run string) ([]PolicyChange, error) {
	return rowsOfRun[PolicyChange](ctx, db, run, "SELECT seq, at_ns, policy FROM policies WHERE run = ? ORDER BY seq")
}
