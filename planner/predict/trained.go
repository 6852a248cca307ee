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
	tasks  [][]traits     // pages by task
	same   map[traits]int32
	load   int
	cache  map[question]answer
}

// traits are the features of a task that do not depend on where and when it runs.
type traits struct {
	input  unit.Bytes
	cpu    int64
	memory int64
	kind   planner.KindID
	id     int32 // of equal traits, from 1 on; 0: not known
}

// question is the key of an answer that can be used again.
type question struct {
	of     *Regression
	traits int32
	load   int32
	speed  float64
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
func (t *Trained) Observe(v planner.View, e planner.Event) {
	t.load = v.UnderWayCount()
	var tasks []planner.Task
	switch b := e.Body.(type) {
	case *planner.WorkflowArrived:
		tasks = b.Tasks
	case *planner.WorkflowGrown:
		tasks = b.Tasks
	}
	for i := range tasks {
		task := &tasks[i]
		for int(task.ID) >= len(t.tasks)*pageSize {
			t.tasks = append(t.tasks, make([]traits, pageSize))
		}
		x := traits{input: task.Reads, cpu: task.Need[unit.CPU], memory: task.Need[unit.Memory], kind: task.Kind}
		if t.same == nil {
			t.same = map[traits]int32{}
		}
		id, known := t.same[x]
		if !known {
			id = int32(len(t.same) + 1)
			t.same[x] = id
		}
		x.id = id
		t.tasks[task.ID/pageSize][task.ID%pageSize] = x
	}
}

// known returns the model and the traits of a task; nil if it is estimated as declared.
func (t *Trained) known(task *planner.Task) (*KindModel, *traits) {
	if int(task.ID) >= len(t.tasks)*pageSize || int(task.Kind) >= len(t.kinds) || t.kinds[task.Kind] == nil {
		return nil, nil
	}
	x := &t.tasks[task.ID/pageSize][task.ID%pageSize]
	if x.id == 0 || !t.Declared.BySpeed(task) {
		return nil, nil
	}
	return t.kinds[task.Kind], x
}

func (t *Trained) ask(r *Regression, x *traits, speed float64, load int) answer {
	q := question{r, x.id, int32(load), speed}
	a, ok := t.cache[q]
	if !ok {
		f := Features{Input: x.input, CPU: x.cpu, Memory: unit.Bytes(x.memory), Speed: speed, Load: load}
		seconds := r.Predict(&f) / normal(speed)
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
	k, x := t.known(task)
	if k == nil || k.Runtime == nil {
		return t.Declared.Run(task, n)
	}
	a := t.ask(k.Runtime, x, n.Speed, t.load)
	return planner.Estimate{Run: a.run + t.Declared.Start(task), Spread: a.spread, Samples: int32(k.Samples),
		Source: cmp.Or(t.source, planner.SourceTrained)}
}

// Remaining implements planner.Estimator: the median rest of the runs that last longer than this one has, by the
// residuals of the model.
func (t *Trained) Remaining(task *planner.Task, n *planner.Node, ran time.Duration) time.Duration {
	k, x := t.known(task)
	if k == nil || k.left() == nil {
		return t.Declared.Remaining(task, n, ran)
	}
	run := t.ask(k.left(), x, n.Speed, t.load).run
	return max(saturated(k.left().remaining(run.Seconds(), ran.Seconds())), time.Millisecond)
}

// Unscaled implements planner.Ranker.
func (t *Trained) Unscaled(task *planner.Task, n *planner.Node) (time.Duration, uint64) {
	k, x := t.known(task)
	if k == nil || k.Runtime == nil {
		return t.Declared.Run(task, n).Run, 1
	}
	return t.ask(k.Runtime, x, n.Speed, 0).run + t.Declared.Start(task), 1
}

// Work implements planner.Ranker: predictions of a model are not in proportion to the speed.
func (t *Trained) Work(task *planner.Task) (w planner.Work, ok bool) {
	if k, _ := t.known(task); k != nil && k.Runtime != nil {
		return w, false
	}
	w, ok = t.Declared.Work(task)
	w.Unscaled, w.Weight = w.Run, 1
	return w, ok
}

// BySpeed implements planner.Ranker.
func (t *Trained) BySpeed(task *planner.Task) bool { return t.Declared.BySpeed(task) }
