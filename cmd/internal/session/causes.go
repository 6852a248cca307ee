package session

import (
	"context"
	"fmt"
	"time"

	"gantry/executor"
	"gantry/executor/forecast"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/sqlite"
)

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
	info, err := log.Info(ctx, simulated.Run)
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
	r := &rehearsal{log: log}
	d.Simulate = func(phases func(forecast.Key, float64) (forecast.Phases, bool)) (time.Duration, error) {
		return r.substituted(ctx, &info, phases)
	}
	if causes, err = forecast.Split(d); err != nil {
		return nil, "the simulation cannot be repeated: " + err.Error(), nil
	}
	return causes, "", nil
}

// happened reads how the attempts of a run went.
func happened(ctx context.Context, log *sqlite.DB, run string) (map[forecast.Key]forecast.Happened, error) {
	const exited = 5 // the kind of the event
	out := map[forecast.Key]forecast.Happened{}
	err := log.Each(ctx, func(scan sqlite.Scan) error {
		var k forecast.Key
		var h forecast.Happened
		var staged, started, ran, ended, over time.Duration
		if err := scan(&k.Workflow, &k.Task, &h.Node, &h.Speed, &h.Queued, &staged, &started, &ran, &ended,
			&over); err != nil {
			return err
		}
		h.Phases = forecast.Phases{Staging: max(0, staged-h.Queued), Start: max(0, started-staged),
			Run: min(ran, max(0, ended-started)), End: max(0, over-ended)}
		out[k] = h
		return nil
	}, `WITH heard AS MATERIALIZED (
			SELECT coalesce(body ->> 'attempt', 0) AS attempt, CAST(round(max(at_s) * 1e9) AS INTEGER) AS at_ns
			FROM v_events WHERE run = ?1 AND kind = ?2 GROUP BY 1)
		SELECT w.name, t.name, n.name, n.speed, a.queued_ns, coalesce(a.staged_ns, a.queued_ns),
			a.started_ns, a.ran_ns, a.ended_ns, max(a.ended_ns, coalesce(h.at_ns, 0))
		FROM runs r JOIN attempts a ON a.run = r.id JOIN tasks t ON t.run = r.id AND t.task = a.task
		JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow JOIN nodes n ON n.run = r.id AND n.node = a.node
		LEFT JOIN heard h ON h.attempt = a.attempt
		WHERE r.name = ?1 AND a.outcome = 'ok' AND a.queued_ns IS NOT NULL AND a.started_ns IS NOT NULL
			AND a.ended_ns IS NOT NULL`, run, exited)
	return out, err
}

// substituted simulates a run of the log with other phases, and returns its makespan.
func (r *rehearsal) substituted(ctx context.Context, info *sqlite.RunInfo,
	phases func(forecast.Key, float64) (forecast.Phases, bool)) (time.Duration, error) {
	p, w, err := r.again(ctx, info, "")
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
