// Package predict has the estimators: what policies believe of runtimes. True runtimes reach only the oracle and the simulation.
package predict

import (
	"time"

	"gantry/planner"
)

// Declared believes what the workload declares: a runtime on a node of speed 1, or one per node.
type Declared struct {
	// Startup is added to every run: what starting a container takes.
	Startup time.Duration
	tasks   []declaration
}

type declaration struct {
	run    time.Duration
	on     []time.Duration
	source planner.Source
}

// Declare says how long t is believed to run on a node of speed 1 or, if on is not nil, on each node by id. Source tells declared
// values from defaults.
func (d *Declared) Declare(t planner.TaskID, run time.Duration, on []time.Duration, source planner.Source) {
	for int(t) >= len(d.tasks) {
		d.tasks = append(d.tasks, declaration{source: planner.SourceDefault})
	}
	d.tasks[t] = declaration{run, on, source}
}

// Run implements planner.Estimator.
func (d *Declared) Run(t *planner.Task, n *planner.Node) planner.Estimate {
	if int(t.ID) >= len(d.tasks) {
		return planner.Estimate{Run: d.Startup, Source: planner.SourceDefault}
	}
	dec := &d.tasks[t.ID]
	run := dec.run
	switch {
	case dec.on != nil:
		run = dec.on[n.ID]
	case n.Speed != 1 && n.Speed > 0:
		run = time.Duration(float64(run) / n.Speed)
	}
	return planner.Estimate{Run: run + d.Startup, Source: dec.source}
}

// Remaining implements planner.Estimator.
func (d *Declared) Remaining(t *planner.Task, n *planner.Node, ran time.Duration) time.Duration {
	return Overrun(d.Run(t, n).Run, ran)
}

// Overrun returns what is left of a run believed to last mean after it has lasted ran: the difference, but never less than an eighth
// of what it has lasted, so that the end of a run that lasts too long moves away in growing steps instead of creeping.
func Overrun(mean, ran time.Duration) time.Duration { return max(mean-ran, ran/8, time.Millisecond) }
