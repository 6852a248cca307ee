// Package predict has the estimators: what policies believe of runtimes. True runtimes reach only the oracle and the simulation.
package predict

import (
	"time"

	"gantry/planner"
)

// Declared believes what the workload declares: a runtime on a node of speed 1, or one per node. In a simulation, where that is the
// truth, Model says how wrong the belief is.
type Declared struct {
	// Startup is added to every run: what starting a container takes.
	Startup time.Duration
	Model   ErrorModel
	pages   [][]declaration // of tasks: growing moves nothing
	len     int
	on      map[planner.TaskID][]time.Duration // by node, of tasks that have it so
}

const pageSize = 1024

type declaration struct {
	run    time.Duration
	source planner.Source
	each   bool // node has a run of its own
}

var (
	_ planner.Ranker = (*Declared)(nil)
	_ planner.Steady = (*Declared)(nil)
)

// Declare says how long t is believed to run on a node of speed 1 or, if on is not nil, on each node by id. Source tells declared
// values from defaults.
func (d *Declared) Declare(t planner.TaskID, run time.Duration, on []time.Duration, source planner.Source) {
	for int(t) >= len(d.pages)*pageSize {
		d.pages = append(d.pages, make([]declaration, pageSize))
	}
	d.pages[t/pageSize][t%pageSize] = declaration{run, source, on != nil}
	if on != nil {
		if d.on == nil {
			d.on = map[planner.TaskID][]time.Duration{}
		}
		d.on[t] = on
	}
	d.len = max(d.len, int(t)+1)
}

// of returns what is declared of t; nil if nothing is.
func (d *Declared) of(t planner.TaskID) *declaration {
	if int(t) >= d.len || d.pages[t/pageSize][t%pageSize].source == 0 {
		return nil
	}
	return &d.pages[t/pageSize][t%pageSize]
}

// Run implements planner.Estimator.
func (d *Declared) Run(t *planner.Task, n *planner.Node) planner.Estimate {
	run, factor, source := d.believed(t, n)
	return planner.Estimate{Run: times(run, factor) + d.Startup, Source: source}
}

// Remaining implements planner.Estimator.
func (d *Declared) Remaining(t *planner.Task, n *planner.Node, ran time.Duration) time.Duration {
	return Overrun(d.Run(t, n).Run, ran)
}

// Unscaled implements planner.Ranker. The start of a container is not subject to the error: where it takes time there is no common factor.
func (d *Declared) Unscaled(t *planner.Task, n *planner.Node) (time.Duration, float64) {
	run, factor, _ := d.believed(t, n)
	if d.Startup > 0 {
		return times(run, factor) + d.Startup, 1
	}
	return run, factor
}

// BySpeed implements planner.Ranker.
func (d *Declared) BySpeed(t *planner.Task) bool {
	dec := d.of(t.ID)
	return dec == nil || !dec.each
}

// Steady implements planner.Steady.
func (d *Declared) Steady() bool { return true }

// believed returns the run without the start of a container as a time and a factor.
func (d *Declared) believed(t *planner.Task, n *planner.Node) (time.Duration, float64, planner.Source) {
	dec := d.of(t.ID)
	if dec == nil {
		return 0, 1, planner.SourceDefault
	}
	run := dec.run
	if dec.each {
		run = d.on[t.ID][n.ID]
	}
	source, factor := dec.source, 1.0
	if k := d.Model.Kind; k != NoError && k != Uniform {
		mean := dec.run
		if dec.each {
			mean = meanOf(d.on[t.ID])
		}
		run, factor = d.Model.estimate(t, run, mean)
		source = planner.SourceErroneous
	}
	if !dec.each {
		run = atSpeed(run, n)
	}
	return run, factor, source
}

// atSpeed returns how long a run that takes the given time at speed 1 takes on n.
func atSpeed(run time.Duration, n *planner.Node) time.Duration {
	if n.Speed == 1 || n.Speed <= 0 {
		return run
	}
	return time.Duration(float64(run) / n.Speed)
}

func times(d time.Duration, factor float64) time.Duration {
	if factor == 1 {
		return d
	}
	return time.Duration(float64(d)*factor + 0.5)
}

func meanOf(on []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range on {
		sum += d
	}
	return sum / time.Duration(max(1, len(on)))
}

// Overrun returns what is left of a run believed to last mean after it has lasted ran: the difference, but never less than an eighth
// of what it has lasted, so that the end of a run that lasts too long moves away in growing steps instead of creeping.
func Overrun(mean, ran time.Duration) time.Duration { return max(mean-ran, ran/8, time.Millisecond) }
