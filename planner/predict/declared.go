// Package predict has the estimators of runtimes for policies. True runtimes reach only the oracle and the
// simulation.
package predict

import (
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// Declared estimates runtimes as the workload declares them: a runtime on a node of speed 1, or one per node. In a
// simulation, where that is the truth, Model says how wrong the belief is.
type Declared struct {
	// Startup is added to every run: the time that starting a container takes. Overhead, if set, says instead the time
	// that the container of a task takes beside its program.
	Startup  time.Duration
	Overhead func(t *planner.Task) time.Duration
	Model    ErrorModel
	tasks    map[planner.TaskID]declaration
}

type declaration struct {
	run    time.Duration
	source planner.Source
	on     []time.Duration // by node; nil: run is at speed 1
}

var _ planner.Ranker = (*Declared)(nil)

// Declare says how long t is estimated to run on a node of speed 1 or, if on is not nil, on each node by id. Source
// distinguishes declared values from defaults.
func (d *Declared) Declare(t planner.TaskID, run time.Duration, on []time.Duration, source planner.Source) {
	if d.tasks == nil {
		d.tasks = map[planner.TaskID]declaration{}
	}
	d.tasks[t] = declaration{run, source, on}
}

// Forget gives back the declaration of a task of a workflow that has ended. It is called once for each task, after the
// round that heard of the end: policies may ask for estimates of tasks that ended last.
func (d *Declared) Forget(t planner.TaskID) { delete(d.tasks, t) }

// Start is the time added to the runs of t.
func (d *Declared) Start(t *planner.Task) time.Duration {
	if d.Overhead != nil {
		return d.Overhead(t)
	}
	return d.Startup
}

// Run implements planner.Estimator.
func (d *Declared) Run(t *planner.Task, n *planner.Node) planner.Estimate {
	b, source := d.estimate(t, n)
	if !b.each {
		b.run = unit.AtSpeed(b.run, n.Speed)
	}
	return planner.Estimate{Run: times(b.run, b.factor) + d.Start(t), Source: source}
}

// Remaining implements planner.Estimator.
func (d *Declared) Remaining(t *planner.Task, n *planner.Node, ran time.Duration) time.Duration {
	return Overrun(d.Run(t, n).Run, ran)
}

// Unscaled implements planner.Ranker. The start of a container is not subject to the error: where it takes time nothing
// is shared.
func (d *Declared) Unscaled(t *planner.Task, n *planner.Node) (time.Duration, uint64) {
	if d.Start(t) > 0 {
		return d.Run(t, n).Run, 1
	}
	b, _ := d.estimate(t, n)
	if !b.each {
		b.run = unit.AtSpeed(b.run, n.Speed)
	}
	return b.run, b.weight
}

// Work implements planner.Ranker.
func (d *Declared) Work(t *planner.Task) (planner.Work, bool) {
	if !d.BySpeed(t) {
		return planner.Work{}, false
	}
	b, _ := d.estimate(t, nil)
	w := planner.Work{Run: times(b.run, b.factor), Unscaled: b.run, Weight: b.weight, Start: d.Start(t)}
	if w.Start > 0 {
		w.Unscaled, w.Weight = w.Run, 1
	}
	return w, true
}

// BySpeed implements planner.Ranker.
func (d *Declared) BySpeed(t *planner.Task) bool {
	return d.tasks[t.ID].on == nil
}

// belief is an estimate, without the start of a container: factor times run, on one node if it is of each or else at
// speed 1.
type belief struct {
	run    time.Duration
	each   bool
	factor float64
	weight uint64 // factor, but for the part that all estimates share
}

// estimate returns the estimate of t on n.
func (d *Declared) estimate(t *planner.Task, n *planner.Node) (belief, planner.Source) {
	dec, ok := d.tasks[t.ID]
	if !ok {
		return belief{factor: 1, weight: 1}, planner.SourceDefault
	}
	b := belief{run: dec.run, each: dec.on != nil, factor: 1, weight: 1}
	if b.each {
		b.run = dec.on[n.ID]
	}
	if k := d.Model.Kind; k != NoError && k != Uniform {
		mean := dec.run
		if b.each {
			mean = meanOf(dec.on)
		}
		b.run, b.factor, b.weight = d.Model.estimate(t, b.run, mean)
		return b, planner.SourceErroneous
	}
	return b, dec.source
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

// Overrun returns the rest of a run estimated to last mean after it has lasted ran: the difference, but never less than
// an eighth of ran, so that the end of a run that lasts too long moves away in growing steps instead of creeping.
func Overrun(mean, ran time.Duration) time.Duration { return max(mean-ran, ran/8, time.Millisecond) }
