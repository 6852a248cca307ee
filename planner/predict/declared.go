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
	pages    [][]declaration // of tasks: growing moves nothing
	gone     []int32         // by page: tasks that were forgotten
	len      int
	on       map[planner.TaskID][]time.Duration // by node, of tasks that have it so
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

// Declare says how long t is estimated to run on a node of speed 1 or, if on is not nil, on each node by id. Source
// distinguishes declared values from defaults.
func (d *Declared) Declare(t planner.TaskID, run time.Duration, on []time.Duration, source planner.Source) {
	for int(t) >= len(d.pages)*pageSize {
		d.pages, d.gone = append(d.pages, make([]declaration, pageSize)), append(d.gone, 0)
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

// Forget gives back the declaration of a task of a workflow that has ended. It is called once for each task, after the
// round that heard of the end: policies may ask for estimates of tasks that ended last.
func (d *Declared) Forget(t planner.TaskID) {
	if int(t) >= len(d.pages)*pageSize {
		return
	}
	delete(d.on, t)
	d.pages[t/pageSize][t%pageSize] = declaration{}
	if d.gone[t/pageSize]++; d.gone[t/pageSize] == pageSize {
		d.pages[t/pageSize] = nil
	}
}

// Start is the time added to the runs of t.
func (d *Declared) Start(t *planner.Task) time.Duration {
	if d.Overhead != nil {
		return d.Overhead(t)
	}
	return d.Startup
}

// of returns the declaration of t; nil if there is none.
func (d *Declared) of(t planner.TaskID) *declaration {
	if int(t) >= d.len || d.pages[t/pageSize] == nil || d.pages[t/pageSize][t%pageSize].source == 0 {
		return nil
	}
	return &d.pages[t/pageSize][t%pageSize]
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
	dec := d.of(t.ID)
	return dec == nil || !dec.each
}

// Steady implements planner.Steady.
func (d *Declared) Steady() bool { return true }

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
	dec := d.of(t.ID)
	if dec == nil {
		return belief{factor: 1, weight: 1}, planner.SourceDefault
	}
	b := belief{run: dec.run, each: dec.each, factor: 1, weight: 1}
	if dec.each {
		b.run = d.on[t.ID][n.ID]
	}
	if k := d.Model.Kind; k != NoError && k != Uniform {
		mean := dec.run
		if dec.each {
			mean = meanOf(d.on[t.ID])
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
