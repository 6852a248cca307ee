package session

import (
	"context"
	"time"

	"gantry/executor"
	"gantry/executor/experiment/metrics"
	"gantry/planner"
	"gantry/sqlite"
)

// MeasureLog takes the metrics of a run from its log, of the window that its workload says.
func MeasureLog(ctx context.Context, log *sqlite.DB, info sqlite.RunInfo) (*metrics.Collector, metrics.Window, error) {
	set, err := SettingsOf(&info)
	if err != nil {
		return nil, metrics.Window{}, err
	}
	collector, err := measure(ctx, log, info, set)
	if err == nil {
		collector.Faulty = set.Faults != nil
	}
	return collector, metrics.Window{WarmUp: set.WarmUp, CoolDown: set.CoolDown}, err
}

// measure takes the metrics of a run from its events.
func measure(ctx context.Context, log *sqlite.DB, info sqlite.RunInfo, set *Settings) (*metrics.Collector, error) {
	rules, err := RetryRules(set.Retries)
	if err != nil {
		return nil, err
	}
	measured, err := measuredRuntimes(ctx, log, info.Name)
	if err != nil {
		return nil, err
	}
	collector := metrics.NewCollector(&info.Platform)
	state := planner.NewState(&info.Platform, rules)
	err = log.Events(ctx, info.Name, func(e planner.Event, a *executor.Admission) error {
		if err := state.Apply(e); err != nil {
			return err
		}
		var admitted []*executor.Admission
		if a != nil {
			for _, spec := range a.Tasks {
				// A cost matrix stays: one measurement on one node cannot replace it.
				if ran, ok := measured[measuredKey{Workflow: a.Spec.Name, Task: spec.Name}]; ok && spec.RunOn == nil {
					spec.Run = ran
				}
			}
			admitted = []*executor.Admission{a}
		}
		collector.Watch(state.View(), []planner.Event{e}, admitted)
		return nil
	})
	return collector, err
}

// measuredRuntimes returns for every task that ended well how long its program ran, brought to speed 1.
func measuredRuntimes(ctx context.Context, log *sqlite.DB, run string) (map[measuredKey]time.Duration, error) {
	return sqlite.MapOf[measuredKey, time.Duration](ctx, log, `SELECT w.name, t.name, 0,
		CAST(a.ran_ns * n.speed AS INTEGER) FROM runs r JOIN tasks t ON t.run = r.id
		JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
		JOIN attempts a ON a.run = r.id AND a.attempt = t.attempt
		JOIN nodes n ON n.run = r.id AND n.node = a.node
		WHERE r.name = ? AND a.outcome = 'ok' AND a.ran_ns IS NOT NULL`, run)
}
