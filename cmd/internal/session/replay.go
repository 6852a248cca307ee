package session

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/forecast"
	"gantry/executor/own"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/sqlite"
)

// measuredKey names an attempt across runs.
type measuredKey struct {
	Workflow, Task string
	Try            int32
}

// Replay simulates a run of the log with its own measurements. The same settings get their turns at the same instants.
// Unless the policy was named for this, a program is not asked again: its decisions are repeated.
func (s *Session) Replay(ctx context.Context, log *sqlite.DB, info *sqlite.RunInfo, same, named bool) error {
	s.ideal, s.Platform = true, &info.Platform
	if !named {
		if err := s.repeatProgram(ctx, log, info.Name); err != nil {
			return err
		}
	}
	if s.decided != nil {
		s.View.Note("the policy is a program: its decisions are repeated (--policy asks it again)")
	}
	r, err := readRerun(ctx, log, info.Name)
	if err == nil {
		s.work, err = r.repeat(ctx, &s.Planning)
	}
	if err != nil {
		return err
	}
	if same {
		s.turns, err = sqlite.RowsOf[planner.Time](ctx, log, `SELECT e.at_ns FROM runs r JOIN events e ON e.run = r.id
			WHERE r.name = ? AND e.kind IN (?, ?) ORDER BY e.seq`, info.Name, planner.KindWorkflowArrived,
			planner.KindWoke)
		if err != nil {
			return exit.With(exit.Host, err)
		}
	}
	return s.start(ctx, sqlite.Bulk)
}

// repeatProgram has a simulation repeat the decisions of a run, if its policy is a program.
func (p *Planning) repeatProgram(ctx context.Context, log *sqlite.DB, run string) error {
	if !own.Is(p.Set.Policy) {
		return nil
	}
	p.decided = &own.Recorded{}
	return log.Events(ctx, run, func(e planner.Event, _ *executor.Admission) error {
		p.decided.Take(e)
		return nil
	})
}

// rerun is a run of the log that is simulated again, once or several times, with its own measurements.
type rerun struct {
	log      *sqlite.DB
	info     sqlite.RunInfo
	subs     []executor.Submission
	flows    []workflowFacts // of subs
	attempts map[measuredKey]measuredAttempt
	reused   repeated
}

// repeated has tasks take over the results that they took over in a run of the log.
type repeated map[measuredKey]planner.TaskReused

// Reuse implements executor.Reuser.
func (r repeated) Reuse(_ context.Context, _ planner.TaskID, spec *executor.TaskSpec, _ executor.Places) (
	*planner.TaskReused, error) {
	x, ok := r[measuredKey{Workflow: spec.Workflow.Name, Task: spec.Name}]
	if !ok {
		return nil, nil
	}
	return &x, nil
}

// readRerun reads the data that all simulations of a run need.
func readRerun(ctx context.Context, log *sqlite.DB, run string) (*rerun, error) {
	info, err := log.Info(ctx, run)
	if err != nil {
		return nil, err
	}
	r := &rerun{log: log, info: info}
	err = log.Admissions(ctx, info.Name, func(a *executor.Admission) error {
		sub := a.Submission
		sub.At = a.Arrived.Workflow.Arrived
		r.subs, r.flows = append(r.subs, sub), append(r.flows, factsOf(a))
		return nil
	})
	if err == nil {
		r.attempts, err = measuredAttempts(ctx, log, info.Name)
	}
	if err == nil {
		r.reused, err = sqlite.MapOf[measuredKey, planner.TaskReused](ctx, log, `SELECT w.name, t.name, 0, t.task,
			coalesce(t.node, -1), u.from_attempt, u.from_run, u.ran_ns
			FROM runs r JOIN reuses u ON u.run = r.id AND u.from_run <> ''
			JOIN tasks t ON t.run = r.id AND t.task = u.task
			JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow WHERE r.name = ?`, info.Name)
	}
	var continued bool
	if err == nil {
		continued, err = sqlite.RowOf[bool](ctx, log, `SELECT true FROM runs r JOIN workflows w ON w.run = r.id AND
			w.state = 'continued' WHERE r.name = ?`, info.Name)
	}
	switch {
	case err != nil:
		return nil, exit.With(exit.Host, err)
	case len(r.subs) == 0:
		return nil, exit.Inputf("run %s has no workflows: there is nothing to replay", info.Name)
	case continued:
		return nil, exit.Inputf("run %s was continued with a corrected workflow, which is not replayed: simulate "+
			"that with --measured %[1]s", info.Name)
	case len(r.attempts)+len(r.reused) == 0:
		return nil, exit.Inputf("run %s has no attempt that was measured from start to end: there is nothing to replay",
			info.Name)
	}
	return r, nil
}

// plan prepares a simulation of the run under a policy, or under its own if none is named.
func (r *rerun) plan(ctx context.Context, policy string) (p *Planning, w work, err error) {
	set, err := SettingsOf(&r.info)
	if err != nil {
		return nil, w, err
	}
	set.Runtime = Simulation.Name
	p = &Planning{Set: set, DB: r.log, ideal: true, View: term.New(true), Platform: &r.info.Platform}
	if policy != "" {
		set.Policy, set.RejectLate = policy, false
	} else if err := p.repeatProgram(ctx, r.log, r.info.Name); err != nil {
		return nil, w, err
	}
	w, err = r.repeat(ctx, p)
	return p, w, err
}

// repeat has p simulate the run: by an engine that knows as much as that of the run knew when it began, and by the
// measurements.
func (r *rerun) repeat(ctx context.Context, p *Planning) (w work, err error) {
	p.Set.Reuse, p.Set.Scratch = false, false // tasks repeat their outcomes of the run, and there are no files
	p.told = estimatesIn(r.subs, p.Set.EstimateAsTrace)
	if w.Engine, err = p.Assemble(ctx); err != nil {
		return w, err
	}
	if len(r.reused) > 0 {
		w.Engine.Reuse = r.reused
	}
	past, err := earlierThan(ctx, r.log, r.info.Name)
	if err != nil {
		return w, exit.With(exit.Host, err)
	}
	if p.Set.Measured != "" {
		past.Runtime = UsualRuntime.Name // a simulation learns from containers
	}
	with := p.estimates
	with.recaller = nil
	p.online = nil // it knows its measurements in the run
	if err := with.know(ctx, past, Capabilities(r.info.Runtime).Virtual); err != nil {
		return w, err
	}
	p.measured = func(l *executor.Launch) (sim.Measured, bool) {
		m, ok := r.attempts[measuredKey{l.Spec.Workflow.Name, l.Spec.Name, l.Try}]
		if m.node == p.Platform.Nodes[l.Node].Name { // the files came from where they did
			m.Measured.Staged, m.Measured.Staging = true, m.staging
		} else if !m.copied { // laying files out is part of the start, unless they were copied: that is simulated
			m.Measured.Startup += m.staging
		}
		return m.Measured, ok
	}
	w.subs = slices.Clone(r.subs)
	return w, w.check(p, w.subs, true)
}

// course simulates the work once, without noise.
func (w *work) course(ctx context.Context, cfg sim.Config) (*forecast.Course, error) {
	return forecast.Simulate(ctx, func(int) (*forecast.Parts, error) {
		return &forecast.Parts{Engine: w.Engine, Sim: cfg}, nil
	}, &forecast.Past{Arrivals: w.subs}, 0)
}

// measuredAttempt has the measurements of one.
type measuredAttempt struct {
	sim.Measured
	node    string
	speed   float64
	copied  bool // from other nodes; of simulated runs always
	staging time.Duration
}

// attemptTimes are the instants of an attempt that ran, as the runtime reported them. Began and Over are when gantry
// knew that it ran and that it had ended.
type attemptTimes struct {
	measuredKey
	Outcome, Node                                             string
	Speed                                                     float64
	Queued, Staged, Created, Started, Ended, Ran, Began, Over time.Duration
	Copied, Kept                                              bool
}

// eachAttempt calls f with the attempts of a run, the last first.
func eachAttempt(ctx context.Context, log *sqlite.DB, run string, f func(r *attemptTimes) error) error {
	return sqlite.EachRow(ctx, log, f, `WITH heard AS MATERIALIZED (
			SELECT e.subject AS attempt, max(e.at_ns) FILTER (WHERE e.kind = ?2) AS began,
				max(e.at_ns) FILTER (WHERE e.kind = ?3) AS over
			FROM runs r JOIN events e ON e.run = r.id WHERE r.name = ?1 AND e.kind IN (?2, ?3) GROUP BY 1)
		SELECT w.name, t.name, a.try, a.outcome, coalesce(n.name, ''), coalesce(n.speed, 1.0), a.queued_ns,
			coalesce(a.staged_ns, a.queued_ns), coalesce(a.created_ns, a.started_ns), a.started_ns, a.ended_ns,
			coalesce(a.ran_ns, a.ended_ns - a.started_ns), coalesce(h.began, a.started_ns),
			coalesce(h.over, a.ended_ns),
			r.runtime = 'sim' OR coalesce(a.copied_bytes, 0) + coalesce(a.moved_bytes, 0) > 0, a.kept IS NOT NULL
		FROM runs r JOIN attempts a ON a.run = r.id JOIN tasks t ON t.run = r.id AND t.task = a.task
		JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow LEFT JOIN heard h ON h.attempt = a.attempt
			LEFT JOIN nodes n ON n.run = r.id AND n.node = a.node
		WHERE r.name = ?1 AND a.outcome IS NOT NULL AND a.queued_ns IS NOT NULL AND a.started_ns IS NOT NULL
			AND a.ended_ns IS NOT NULL ORDER BY a.attempt DESC`, run, planner.KindAttemptStarted,
		planner.KindAttemptExited)
}

// measuredAttempts reads how the attempts of a run went. It starts and ends when gantry knew that it did, as its place
// was taken until then and policies decide then; copies to another node than that of the run, and suspensions, are
// simulated. A preempted attempt would have run on: its task still had the work of its next attempt to do, and all of
// that work if it began again.
func measuredAttempts(ctx context.Context, log *sqlite.DB, run string) (map[measuredKey]measuredAttempt, error) {
	outcomes := map[string]planner.Outcome{}
	for _, o := range planner.Outcomes() {
		outcomes[o.String()] = o
	}
	out := map[measuredKey]measuredAttempt{}
	err := eachAttempt(ctx, log, run, func(r *attemptTimes) error {
		after := max(0, r.Ended-r.Started-r.Ran) // the program had ended
		m := measuredAttempt{node: r.Node, speed: r.Speed, copied: r.Copied, staging: max(0, r.Staged-r.Queued),
			Measured: sim.Measured{Startup: max(0, r.Began-r.Staged), Run: max(0, r.Over-after-r.Began),
				Outcome: outcomes[r.Outcome],
				Reported: &sim.Reported{Created: r.Began - r.Created, Started: r.Began - r.Started,
					Ended: r.Over - r.Ended, Ran: r.Ran}}}
		if next, ok := out[measuredKey{r.Workflow, r.Task, r.Try + 1}]; ok && m.Outcome == planner.Preempted {
			rest := time.Duration(math.Round(float64(next.Run) * next.speed / r.Speed)) // here
			if r.Kept {
				rest += m.Run
			}
			m.Run, m.Outcome, m.Reported = rest, next.Outcome, nil
		}
		out[r.measuredKey] = m
		return nil
	})
	return out, err
}

// mostSplit is the size of runs from which causes are not computed: it takes six simulations.
const mostSplit = 20_000

// CausesOf splits the difference between the makespans of a run and of a simulation of it; nil, with the reason, where
// that cannot be done.
func CausesOf(ctx context.Context, log *sqlite.DB, runName, simName string) (causes []forecast.Cause, why string,
	err error) {
	run, err := log.Overview(ctx, runName)
	if err != nil {
		return nil, "", err
	}
	simulated, err := log.Overview(ctx, simName)
	if err != nil {
		return nil, "", err
	}
	switch {
	case Capabilities(run.Runtime).Virtual || !Capabilities(simulated.Runtime).Virtual:
		return nil, "", nil // there is nothing to split
	case run.Makespan == nil || simulated.Makespan == nil:
		return nil, "one of the runs is not over", nil
	case run.Policy != simulated.Policy:
		return nil, "the policies differ", nil
	case run.Tasks != simulated.Tasks || run.Workflows != simulated.Workflows:
		return nil, "they are of other workflows", nil
	case run.Tasks > mostSplit:
		return nil, fmt.Sprintf("they have more than %d tasks", mostSplit), nil
	}
	d := forecast.Difference{RunMakespan: time.Duration(*run.Makespan), SimMakespan: time.Duration(*simulated.Makespan)}
	if d.Run, err = happened(ctx, log, run.Run); err != nil {
		return nil, "", err
	}
	if d.Sim, err = happened(ctx, log, simulated.Run); err != nil {
		return nil, "", err
	}
	again := sync.OnceValues(func() (*rerun, error) { return readRerun(ctx, log, simulated.Run) })
	d.Simulate = func(phases func(forecast.Key, float64) (forecast.Phases, bool)) (time.Duration, error) {
		r, err := again()
		if err != nil {
			return 0, err
		}
		return r.substituted(ctx, phases)
	}
	if causes, err = forecast.Split(d); err != nil {
		return nil, "the simulation cannot be repeated: " + err.Error(), nil
	}
	return causes, "", nil
}

// happened reads how the attempts of a run went that ended well.
func happened(ctx context.Context, log *sqlite.DB, run string) (map[forecast.Key]forecast.Happened, error) {
	out := map[forecast.Key]forecast.Happened{}
	err := eachAttempt(ctx, log, run, func(r *attemptTimes) error {
		if r.Outcome == planner.OK.String() && r.Node != "" { // formal tasks have no phases
			out[forecast.Key{Workflow: r.Workflow, Task: r.Task}] = forecast.Happened{Node: r.Node, Speed: r.Speed,
				Queued: r.Queued, Phases: forecast.Phases{Staging: max(0, r.Staged-r.Queued),
					Start: max(0, r.Started-r.Staged), Run: min(r.Ran, max(0, r.Ended-r.Started)),
					End: max(0, r.Over-r.Ended)}}
		}
		return nil
	})
	return out, err
}

// substituted simulates the run with other phases, and returns its makespan.
func (r *rerun) substituted(ctx context.Context,
	phases func(forecast.Key, float64) (forecast.Phases, bool)) (time.Duration, error) {
	p, w, err := r.plan(ctx, "")
	if err != nil {
		return 0, err
	}
	cfg := sim.Config{Platform: p.Platform, Startup: p.Set.Startup}
	cfg.Measured = func(l *executor.Launch) (sim.Measured, bool) {
		x, ok := phases(forecast.Key{Workflow: l.Spec.Workflow.Name, Task: l.Spec.Name}, p.Platform.Nodes[l.Node].Speed)
		return sim.Measured{Startup: x.Staging + x.Start, Staged: true, Run: x.Run + x.End, Outcome: planner.OK}, ok
	}
	course, err := w.course(ctx, cfg)
	if err != nil {
		return 0, err
	}
	return course.Makespan(), nil
}

// Bounds of the simulation of earlier runs before a prediction.
const (
	undisturbedRuns  = 5                      // the latest
	undisturbedTasks = 2000                   // of a run
	undisturbedTime  = 500 * time.Millisecond // of all
	mostDisturbed    = 2                      // times that a program was slower than alone
)

// undisturbed returns a function that takes from measured times of programs, the latest run first, the cost of
// containers started beside them: a prediction simulates that cost anyhow. Each run is simulated with its own
// measurements. If a program is slower there than measured, it was slower in the run than alone, by the same factor. It
// returns nil where no model of the host has the cost of starts.
func (p *Planning) undisturbed(ctx context.Context, db *sqlite.DB) func(all []programRun) {
	if p.Set.Host == nil {
		return nil
	}
	return func(all []programRun) {
		ctx, cancel := context.WithTimeout(ctx, undisturbedTime)
		defer cancel()
		for range undisturbedRuns {
			if len(all) == 0 || ctx.Err() != nil {
				return
			}
			n := slices.IndexFunc(all, func(r programRun) bool { return r.Run != all[0].Run })
			if n < 0 {
				n = len(all)
			}
			slower, err := p.disturbed(ctx, db, all[0].Run)
			for i := range all[:n] {
				// One that cannot be simulated any more stays as it was measured.
				if f := slower[forecast.Key{Workflow: all[i].Workflow, Task: all[i].Task}]; err == nil && f > 1 {
					all[i].Ran = time.Duration(float64(all[i].Ran) / min(f, mostDisturbed))
				}
			}
			all = all[n:]
		}
	}
}

// disturbed simulates a run of the log on this host, its programs as they were measured, and returns how many times as
// long as that they take there.
func (p *Planning) disturbed(ctx context.Context, db *sqlite.DB, run string) (map[forecast.Key]float64, error) {
	over, err := db.Overview(ctx, run)
	if err != nil {
		return nil, err
	}
	if row := RuntimeNamed(over.Runtime); row == nil || row.Engine == nil || over.State == sqlite.Running ||
		over.Tasks > undisturbedTasks {
		return nil, fmt.Errorf("run %s is not simulated", run)
	}
	again, err := readRerun(ctx, db, run)
	if err != nil {
		return nil, err
	}
	r, w, err := again.plan(ctx, "")
	if err != nil {
		return nil, err
	}
	r.ideal, r.Set.Host = false, p.Set.Host
	here := Prediction{Planning: r}
	if here.programs, err = programsOf(ctx, db, r.Set, run, nil); err != nil {
		return nil, err
	}
	alone := map[forecast.Key]time.Duration{}
	cfg := here.simulated(0)
	measured := cfg.Measured
	cfg.Measured = func(l *executor.Launch) (sim.Measured, bool) {
		m, ok := measured(l)
		if ok {
			alone[forecast.Key{Workflow: l.Spec.Workflow.Name, Task: l.Spec.Name}] = m.Run
		}
		return m, ok
	}
	course, err := w.course(ctx, cfg)
	if err != nil {
		return nil, err
	}
	out := map[forecast.Key]float64{}
	for i := range course.Attempts {
		a := &course.Attempts[i]
		name := forecast.Key{Workflow: a.Task.Workflow.Name, Task: a.Task.Name}
		if d := alone[name]; d > 0 && a.Outcome == planner.OK {
			out[name] = float64(a.Ended.Sub(a.Started)) / float64(d)
		}
	}
	return out, nil
}
