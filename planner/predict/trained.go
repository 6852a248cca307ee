package predict

import (
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

const (
	// minPeaks is how many measured peaks of a kind it takes to set limits. If a share p of the tasks needs far more
	// than the others, n samples miss it and the next task hits it with a probability of p(1-p)^n, which is below 1 %
	// for all p from 37 samples on.
	minPeaks = 40
	// allShown is from how many peaks on at most one model in 10,000 has more than 10 of 1,000 tasks beyond the largest
	// peak, at any distribution. With fewer peaks, the tasks that need the most may not have shown.
	allShown = 1000
	headroom = 1.2 // of a limit above the largest peak
	unshown  = 3.5 // the same with fewer peaks than allShown: the largest may need three times as much
	// tailEnds is of how many peaks the largest is exceeded by at most 0.35 % of the tasks in 999 of 1,000 models:
	// ln 1000 / 0.0035. Of 1,000 tasks that are exceeded with that probability more than 10 are in 1 of 1,000 cases.
	tailEnds = 2000
)

// headroom returns the factor by which a limit lies above the prediction times the largest residual. It takes the tail
// of the residuals for one of Pareto, which no lognormal or normal tail is heavier than. The tail index is the mean
// logarithm of the larger half of the residuals over their median (Hill 1975), and three standard errors. The factor
// moves the largest of n to where the largest of tailEnds is expected.
func (k *KindModel) headroom() float64 {
	ratios, n := k.Memory.Ratios, float64(k.MemorySamples)
	larger, mid, index := ratios[len(ratios)/2:], middle(ratios), 0.0
	for _, r := range larger {
		index += math.Log(r / mid)
	}
	index *= (1 + 3/math.Sqrt(n/2)) / float64(len(larger))
	least := headroom
	if k.MemorySamples < allShown {
		least = unshown
	}
	return max(least, math.Pow(tailEnds/n, index))
}

// MemoryLimit returns the memory, in bytes, that a task of that kind may be limited to so that of 1,000 tasks at most
// 10 need more. The limit is the prediction times the largest residual (the measured peak over the predicted one) times
// the headroom: 3.5, or 1.2 from 1,000 peaks on, and more the heavier the tail and the fewer the peaks. It lies at
// least 20 % above the largest peak; apart from that it is at most the declared memory. It is false, and the declared
// memory holds, if the model has fewer than 40 peaks of that kind or if the input or the declared memory is outside of
// the training samples. No limit is safe with fewer than 1,000 peaks if tasks that have not shown among them need more
// than three times as much as all others.
func (m *Model) MemoryLimit(kind string, f *Features) (unit.Bytes, bool) {
	k := m.Kinds[kind]
	if k == nil || k.Memory == nil || k.MemorySamples < minPeaks || !k.MemoryInput.has(f.Input) ||
		!k.MemoryDeclared.has(f.Memory) {
		return 0, false
	}
	of, least := f.forMemory(), headroom*k.Memory.Most
	limit := max(least, k.Memory.Predict(&of)*k.Memory.Ratios[len(k.Memory.Ratios)-1]*k.headroom())
	return unit.Bytes(math.Ceil(min(limit, max(least, float64(f.Memory))))), true
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

	kinds []*KindModel // by kind of the run
	tasks [][]traits   // pages by task
	same  map[traits]int32
	load  int
	cache map[question]answer
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
	for int(k) >= len(t.kinds) {
		t.kinds = append(t.kinds, nil)
	}
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
		x := traits{cpu: task.Need[unit.CPU], memory: task.Need[unit.Memory], kind: task.Kind}
		for _, f := range task.Inputs {
			x.input += v.File(f).Size
		}
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
		Source: planner.SourceTrained}
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
