package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"gantry/planner"
)

// Span is a duration that JSON has as seconds.
type Span time.Duration

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
// the end, so the start of the container is in both), Runtime the program alone. CPU, Read and Written are sums over
// all attempts, PeakMemory is the largest.
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
}

// MemorySummary is the memory-time of attempts that ended, in GB·h: Used is their peaks if they ended well, for as
// long as they held memory. The rest was held in vain.
type MemorySummary struct {
	Held        float64 `json:"held_gbh"`
	Used        float64 `json:"used_gbh"`
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

func scanOverview(scan Scan) (o Overview, err error) {
	var names, counts, model []byte
	err = scan(&o.Run, &o.Runtime, &o.Policy, &o.State, &o.Started, &o.ExitCode, &o.Makespan, &o.Clock,
		&names, &counts, &model)
	if err == nil {
		err = json.Unmarshal(names, &o.Names)
	}
	if err == nil {
		err = json.Unmarshal(model, &o.HostModel)
	}
	var n map[string]int
	if err == nil {
		err = json.Unmarshal(counts, &n)
	}
	for state, tasks := range n {
		if state != "workflows" && state != taskStates[taskContinued] {
			o.Tasks += tasks
		}
	}
	o.Workflows = n["workflows"]
	o.Done, o.Failed, o.Skipped = n[taskStates[taskDone]], n[taskStates[taskFailed]], n[taskStates[taskSkipped]]
	o.Running = n[taskStates[taskStarting]] + n[taskStates[taskRunning]] + n[taskStates[taskSuspended]]
	return o, err
}

// Runs lists all runs, the newest first.
func (db *DB) Runs(ctx context.Context) ([]Overview, error) {
	return collect(ctx, db, scanOverview, overviewQuery+"ORDER BY r.id DESC")
}

// State is how a run stands; it costs little.
func (db *DB) State(ctx context.Context, run string) (State, error) {
	states, err := columnOf[State](ctx, db, "SELECT state FROM runs WHERE name = ?", run)
	if err != nil {
		return "", err
	}
	if len(states) == 0 {
		return "", &UnknownRunError{Name: run}
	}
	return states[0], nil
}

// Overview is one run, given by its whole name.
func (db *DB) Overview(ctx context.Context, run string) (*Overview, error) {
	id, err := db.whole(ctx, run)
	if err != nil {
		return nil, err
	}
	all, err := collect(ctx, db, scanOverview, overviewQuery+"WHERE r.id = ?", id)
	if err != nil {
		return nil, err
	}
	return &all[0], nil
}

// Summary sums up a run, given by name, by a prefix of it that is no other's, or "" for the latest.
func (db *DB) Summary(ctx context.Context, run string) (*Summary, error) {
	return db.SummaryWithin(ctx, run, math.MaxInt)
}

// SummaryWithin is Summary that is brief about a run with more tasks than most, if these are rows of their own: parts
// that take longer with more tasks are left out.
func (db *DB) SummaryWithin(ctx context.Context, run string, most int) (*Summary, error) {
	id, name, err := db.find(ctx, run)
	if err != nil {
		return nil, err
	}
	s := &Summary{Log: db.path, Outcomes: []Count{}, Preemptions: []Preemptions{}, WorkflowRow: []WorkflowSummary{},
		Deadlines: []DeadlineSummary{}, Remappings: []Count{}, Kinds: []KindSummary{}, Nodes: []NodeSummary{},
		Estimates: []EstimateSummary{},
		Failures:  []Failure{}, Doubts: []Failure{}, Warnings: []Warning{}, Metrics: map[string]float64{}}
	var read reading = func(scan func(Scan) error, query string, args ...any) {
		if err == nil {
			err = db.rows(ctx, scan, query, args...)
		}
	}
	read(func(scan Scan) (err error) {
		s.Overview, err = scanOverview(scan)
		return err
	}, overviewQuery+"WHERE r.id = ?", id)
	if s.Brief = s.Tasks > most; s.Brief {
		read(func(scan Scan) error { return scan(&s.Seed, &s.TimeScale, &s.SizeScale) },
			"SELECT seed, time_scale, size_scale FROM runs WHERE id = ?", id)
		s.changes(read, id)
		return s, err
	}
	read(func(scan Scan) error {
		return scan(&s.Seed, &s.TimeScale, &s.SizeScale, &s.Rounds, &s.Planning)
	}, `SELECT seed, time_scale, size_scale, (SELECT count(*) FROM plans WHERE run = id),
		(SELECT coalesce(sum(took_ns), 0) FROM plans WHERE run = id) FROM runs WHERE id = ?`, id)
	read(func(scan Scan) error { return scan(&s.Reused, &s.Saved, &s.PeakDisk) },
		`SELECT count(u.task), coalesce(sum(u.ran_ns), 0), r.peak_disk_bytes FROM runs r
		LEFT JOIN reuses u ON u.run = r.id AND u.from_run <> ''
			AND EXISTS (SELECT 1 FROM tasks t WHERE t.run = u.run AND t.task = u.task AND t.state = 'done')
		WHERE r.id = ? GROUP BY r.id`, id)
	read(func(scan Scan) error {
		var p Preemptions
		err := scan(&p.How, &p.Count, &p.Tasks, &p.Away, &p.Lost)
		s.Preemptions = append(s.Preemptions, p)
		return err
	}, `SELECT s.how, count(*), count(DISTINCT a.task), coalesce(sum(s.until_ns - s.since_ns), 0),
		coalesce(sum(s.lost_ns), 0)
		FROM suspensions s JOIN attempts a ON a.run = s.run AND a.attempt = s.attempt WHERE s.run = ?
			AND s.since_ns IS NOT NULL GROUP BY 1 ORDER BY 1`, id)
	read(func(scan Scan) error {
		var w WorkflowSummary
		err := scan(&w.Name, &w.Label, &w.State, &w.Tasks, &w.Done, seconds(&w.Wait), seconds(&w.Makespan),
			seconds(&w.Response))
		s.WorkflowRow = append(s.WorkflowRow, w)
		return err
	}, "SELECT workflow, label, state, tasks, succeeded, wait_s, makespan_s, iif(state = 'refused', NULL, "+
		"response_s) FROM v_workflows WHERE run = ? ORDER BY arrived_s, workflow", name)
	read(func(scan Scan) error {
		var d DeadlineSummary
		err := scan(&d.Name, &d.State, &d.Due, &d.Predicted, &d.Ended, &d.Late)
		s.Deadlines = append(s.Deadlines, d)
		return err
	}, `SELECT w.name, w.state, w.due_ns, (SELECT x.instant_ns FROM notes x WHERE x.run = w.run AND
			x.workflow = w.workflow AND x.topic = 'predicted'
		ORDER BY x.seq LIMIT 1), CASE WHEN w.state NOT IN ('cancelled', 'refused') THEN w.ended_ns END,
			w.state IN ('failed', 'cancelled') OR w.state != 'refused' AND coalesce(w.ended_ns > w.due_ns, 0)
		FROM workflows w WHERE w.run = ? AND w.due_ns IS NOT NULL AND w.state <> 'continued'
		ORDER BY w.due_ns, w.workflow`, id)
	read(func(scan Scan) error {
		var c Count
		err := scan(&c.Name, &c.Count)
		s.Remappings = append(s.Remappings, c)
		return err
	}, `SELECT topic, count(*) FROM notes WHERE run = ? AND topic IN ('remapped', 'remap-failed', 'remap-limit')
		GROUP BY 1 ORDER BY 1 DESC`, id)
	read(func(scan Scan) error {
		p := new(PlanSummary)
		err := scan(&p.Tasks, seconds(&p.Late), seconds(&p.Off), seconds(&p.Most))
		if p.Tasks > 0 {
			s.Plan = p
		}
		return err
	}, `SELECT count(*), avg(t.ended_ns - x.instant_ns) / 1e9, avg(abs(t.ended_ns - x.instant_ns)) / 1e9,
		max(abs(t.ended_ns - x.instant_ns)) / 1e9
		FROM notes x JOIN tasks t ON t.run = x.run AND t.task = x.task WHERE x.run = ? AND x.topic = 'planned' AND
			t.state = 'done'`, id)
	sumUp(s, read, id, name)
	s.changes(read, id)
	if err != nil {
		return nil, err
	}
	if s.Images, err = db.images(ctx, id); err != nil {
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

// reading asks a query, unless one before has failed.
type reading func(scan func(Scan) error, query string, args ...any)

func scanFailure(to *[]Failure) func(Scan) error {
	return func(scan Scan) error {
		var f Failure
		err := scan(&f.Workflow, &f.Task, &f.Kind, &f.Node, &f.Outcome, &f.ExitCode, &f.Message, &f.Attempts)
		*to = append(*to, f)
		return err
	}
}

// sumUp reads the parts of a summary about tasks and attempts.
func sumUp(s *Summary, read reading, id int64, name string) {
	read(func(scan Scan) error {
		var c Count
		var ran Span
		if err := scan(&c.Name, &c.Count, &ran); err != nil {
			return err
		}
		s.Attempts += c.Count
		s.Lost += ran
		s.Outcomes = append(s.Outcomes, c)
		return nil
	}, "SELECT coalesce(outcome, 'under-way'), count(*), coalesce(sum(lost_ns), 0) FROM attempts WHERE run = ? "+
		"GROUP BY 1 ORDER BY 2 DESC, 1", id)
	read(func(scan Scan) error { return scan(&s.Locality) },
		`SELECT 100.0 * total(input_bytes - copied_bytes) / nullif(total(input_bytes), 0) FROM attempts
		WHERE run = ? AND started_ns IS NOT NULL AND input_bytes IS NOT NULL`, id)
	read(func(scan Scan) error { return scan(&s.Starting) },
		`SELECT 100.0 * total(a.started_ns - coalesce(a.staged_ns, a.queued_ns)) / nullif(total(a.ended_ns - a.queued_ns
			- max(0, a.ended_ns - a.started_ns - a.ran_ns)), 0)
		FROM attempts a JOIN tasks t ON t.run = a.run AND t.task = a.task WHERE a.run = ? AND a.ended_ns IS NOT NULL
			AND a.started_ns IS NOT NULL AND a.created_ns IS NOT NULL AND a.created_ns < a.started_ns`, id)
	read(func(scan Scan) error {
		var k KindSummary
		var peak, in, out *float64
		err := scan(&k.Kind, &k.Tasks, &k.Done, &k.Failed, &k.Attempts, seconds(&k.Estimated),
			seconds(&k.Measured), seconds(&k.Shortest),
			seconds(&k.Longest), seconds(&k.Runtime), seconds(&k.CPU), &peak, &in, &out)
		k.PeakMemory, k.Read, k.Written = bytesOf(peak), bytesOf(in), bytesOf(out)
		s.Kinds = append(s.Kinds, k)
		return err
	}, `SELECT kind, tasks, succeeded, failed, coalesce(attempts, 0), estimated_s, measured_s, measured_min_s,
		measured_max_s, runtime_s, cpu_total_s,
		peak_mb, read_mb, written_mb FROM v_kinds WHERE run = ? ORDER BY tasks DESC, kind`, name)
	read(func(scan Scan) error {
		var m MemorySummary
		err := scan(&m.Held, &m.Used, &m.OutOfMemory)
		if m.Held > 0 {
			s.Memory = &m
		}
		return err
	}, `SELECT total(hold_memory_bytes / 1e9 * hours),
			total(iif(outcome = 'ok', min(peak_memory_bytes, hold_memory_bytes), 0) / 1e9 * hours),
			coalesce(sum(outcome = 'out-of-memory'), 0)
		FROM (SELECT *, (ended_ns - queued_ns) / 3.6e12 AS hours FROM attempts
			WHERE run = ? AND ended_ns IS NOT NULL AND peak_memory_bytes IS NOT NULL)`, id)
	read(func(scan Scan) error {
		var e EstimateSummary
		err := scan(&e.Source, &e.Attempts, &e.Ratio, &e.Lowest, &e.Highest, &e.Error)
		s.Estimates = append(s.Estimates, e)
		return err
	}, `SELECT source, count(*), avg(ratio), min(ratio), max(ratio), 100 * avg(abs(ratio - 1)) FROM (
			SELECT a.estimate_source AS source, 1.0 * a.estimate_ns / nullif(max(0, a.ended_ns
				- coalesce(a.staged_ns, a.created_ns, a.started_ns, a.queued_ns)
				- max(0, coalesce(a.ended_ns - a.started_ns - a.ran_ns, 0))), 0) AS ratio
			FROM attempts a WHERE a.run = ? AND a.outcome = 'ok' AND a.estimate_ns IS NOT NULL)
		GROUP BY source ORDER BY 2 DESC, 1`, id)
	if slices.ContainsFunc(s.Estimates, func(e EstimateSummary) bool { return e.Source == "default" }) {
		read(func(scan Scan) error {
			var kind string
			var estimated *Span
			err := scan(&kind, seconds(&estimated))
			for i := range s.Kinds {
				if s.Kinds[i].Kind == kind {
					s.Kinds[i].Estimated = estimated
				}
			}
			return err
		}, `SELECT t.kind, avg(CASE WHEN a.estimate_source <> 'default' THEN a.estimate_ns END) / 1e9
			FROM attempts a JOIN tasks t ON t.run = a.run AND t.task = a.task
			WHERE a.run = ? AND a.outcome = 'ok' GROUP BY t.kind`, id)
	}
	read(func(scan Scan) error {
		var n NodeSummary
		err := scan(&n.Node, &n.Cores, &n.Speed, &n.Attempts, &n.Held, &n.Used)
		s.Nodes = append(s.Nodes, n)
		return err
	}, "SELECT node, cores, speed, attempts, held_pct, used_pct FROM v_utilisation WHERE run = ?", name)
	for _, of := range []struct {
		to    *[]Failure
		which string
	}{{&s.Failures, "t.state = 'failed'"}, {&s.Doubts, doubted + " AND t.task IN " +
		"(SELECT task FROM attempts WHERE run = ?1 AND message IS NOT NULL)"}} {
		read(scanFailure(of.to), failures+"t.run = ?1 AND "+of.which+" ORDER BY a.ended_ns", id)
	}
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
	err = db.rows(ctx, scanFailure(&all), failures+"w.run = (SELECT id FROM runs WHERE name = ?) AND w.workflow = ? "+
		"AND "+of+" AND "+doubted+" ORDER BY a.ended_ns", s.Run, s.Workflow)
	return all, err
}

// changes reads warnings, and which policies planned.
func (s *Summary) changes(read reading, id int64) {
	read(func(scan Scan) error {
		var w Warning
		err := scan(&w.Rule, &w.Message, &w.Count)
		s.Warnings = append(s.Warnings, w)
		return err
	}, "SELECT rule, message, count FROM warnings WHERE run = ? ORDER BY rowid", id)
	read(func(scan Scan) error {
		var c PolicyChange
		err := scan(&c.Seq, &c.At, &c.Policy)
		s.Policies = append(s.Policies, c)
		return err
	}, "SELECT 0 AS seq, 0, settings ->> '$.policy' FROM runs WHERE id = ?1 AND EXISTS (SELECT 1 FROM policies "+
		"WHERE run = ?1) UNION ALL SELECT seq, at_ns, policy FROM policies WHERE run = ?1 ORDER BY seq", id)
}

// seconds scans a column of seconds, NULL to nil.
func seconds(to **Span) sql.Scanner { return secondsScanner{to} }

type secondsScanner struct{ to **Span }

func (s secondsScanner) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*s.to = nil
	case float64:
		span := Span(v*1e9 + 0.5)
		*s.to = &span
	case int64:
		span := Span(v * 1e9)
		*s.to = &span
	default:
		return fmt.Errorf("%T where seconds were expected", v)
	}
	return nil
}

// bytesOf takes MB back to bytes.
func bytesOf(mb *float64) *int64 {
	if mb == nil {
		return nil
	}
	b := int64(*mb*1e6 + 0.5)
	return &b
}
