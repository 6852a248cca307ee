package predict

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// remaining is the median rest of runs predicted to last so long after they have lasted ran: over the residuals that
// say that a run lasts longer than that; if there is none, or r is nil, see Overrun.
func (r *Regression) remaining(predicted, ran float64) float64 {
	left := predicted - ran
	if r != nil {
		i, _ := slices.BinarySearch(r.Ratios, math.Nextafter(ran/predicted, math.Inf(1)))
		if i < len(r.Ratios) {
			left = predicted*middle(r.Ratios[i:]) - ran
		}
	}
	return max(left, ran/8)
}

// Trained estimates runtimes with a model that was trained on earlier runs. Kinds that the model does not know, or for
// which it found the declared runtime the best prediction, and tasks whose workload gives a runtime per node, are
// estimated as declared.
//
// The load that a prediction rests on is that of the moment: the attempts under way on all nodes. Ranks rest on no
// load.
type Trained struct {
	Declared *Declared // also has the time that starting a container takes
	Model    *Model

	source planner.Source // of its estimates; 0: trained
	kinds  []*KindModel   // by kind of the run
	load   int
	cache  map[question]answer
}

// question is the key of an answer that can be used again.
type question struct {
	of *Regression
	Features
}

type answer struct{ run, spread time.Duration }

// maxAnswers bounds the memory of answers.
const maxAnswers = 1 << 16

var (
	_ planner.Ranker   = (*Trained)(nil)
	_ planner.Observer = (*Trained)(nil)
)

// Name says which kind has that name.
func (t *Trained) Name(k planner.KindID, name string) {
	t.kinds = planner.Extend(t.kinds, int(k)+1)
	t.kinds[k] = t.Model.Kinds[name]
}

// Observe implements planner.Observer.
func (t *Trained) Observe(v planner.View, _ planner.Event) { t.load = v.UnderWayCount() }

// features are those of a task on a node beside that load.
func features(t *planner.Task, n *planner.Node, load int) Features {
	return Features{Input: t.Reads, CPU: t.Need[unit.CPU], Memory: unit.Bytes(t.Need[unit.Memory]), Speed: n.Speed,
		Load: load}
}

// known returns the model of a task; nil if it is estimated as declared.
func (t *Trained) known(task *planner.Task) *KindModel {
	if int(task.Kind) >= len(t.kinds) || !t.Declared.BySpeed(task) {
		return nil
	}
	return t.kinds[task.Kind]
}

func (t *Trained) ask(r *Regression, f Features) answer {
	q := question{r, f}
	a, ok := t.cache[q]
	if !ok {
		seconds := r.Predict(&f) / normal(f.Speed)
		a = answer{saturated(seconds), saturated(seconds * r.deviation())}
		if t.cache == nil || len(t.cache) >= maxAnswers {
			t.cache = map[question]answer{}
		}
		t.cache[q] = a
	}
	return a
}

// saturated is a time in seconds as a duration.
func saturated(seconds float64) time.Duration {
	if ns := seconds * 1e9; ns < math.MaxInt64/4 {
		return time.Duration(math.Round(ns))
	}
	return math.MaxInt64 / 4
}

// Run implements planner.Estimator.
func (t *Trained) Run(task *planner.Task, n *planner.Node) planner.Estimate {
	k := t.known(task)
	if k == nil || k.Runtime == nil {
		return t.Declared.Run(task, n)
	}
	a := t.ask(k.Runtime, features(task, n, t.load))
	return planner.Estimate{Run: a.run + t.Declared.Start(task), Spread: a.spread, Samples: int32(k.Samples),
		Source: cmp.Or(t.source, planner.SourceTrained)}
}

// Remaining implements planner.Estimator: the median rest of the runs that last longer than this one has, by the
// residuals of the model.
func (t *Trained) Remaining(task *planner.Task, n *planner.Node, ran time.Duration) time.Duration {
	k := t.known(task)
	if k == nil || k.left() == nil {
		return t.Declared.Remaining(task, n, ran)
	}
	run := t.ask(k.left(), features(task, n, t.load)).run
	return max(saturated(k.left().remaining(run.Seconds(), ran.Seconds())), time.Millisecond)
}

// Unscaled implements planner.Ranker.
func (t *Trained) Unscaled(task *planner.Task, n *planner.Node) (time.Duration, uint64) {
	k := t.known(task)
	if k == nil || k.Runtime == nil {
		return t.Declared.Run(task, n).Run, 1
	}
	return t.ask(k.Runtime, features(task, n, 0)).run + t.Declared.Start(task), 1
}

// Work implements planner.Ranker: predictions of a model are not in proportion to the speed.
func (t *Trained) Work(task *planner.Task) (w planner.Work, ok bool) {
	if k := t.known(task); k != nil && k.Runtime != nil {
		return w, false
	}
	w, ok = t.Declared.Work(task)
	w.Unscaled, w.Weight = w.Run, 1
	return w, ok
}

// BySpeed implements planner.Ranker.
func (t *Trained) BySpeed(task *planner.Task) bool { return t.Declared.BySpeed(task) }
