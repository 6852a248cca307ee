package predict

import (
	"math/big"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/exact"
)

// Corrected estimates runtimes as declared, times a correction ξ: the sum of the measured runtimes of the tasks
// completed last over the sum of the declared ones (Ilyushkin and Epema, CCGrid 2018, section III-H). Ranks stay
// without it, since it is common to all.
type Corrected struct {
	Declared *Declared
	ratio    *Ratio
}

var (
	_ planner.Ranker   = (*Corrected)(nil)
	_ planner.Observer = (*Corrected)(nil)
)

// NewCorrected returns the correction by the last m completed tasks; 1000 is the paper's choice.
func NewCorrected(declared *Declared, m int) *Corrected {
	return &Corrected{Declared: declared, ratio: NewRatio(m)}
}

// Prior takes in a run of an earlier log, before this one begins: its measured and its declared runtime.
func (c *Corrected) Prior(ran, declared time.Duration) {
	c.ratio.Add(ran, exact.Int(uint64(max(0, declared))))
}

// Observe implements planner.Observer.
func (c *Corrected) Observe(v planner.View, e planner.Event) {
	if x, ok := e.Body.(*planner.AttemptExited); ok && x.Outcome == planner.OK {
		att := v.Attempt(x.Attempt)
		t := v.Task(att.Task)
		declared := c.Declared.Run(t, &v.Nodes()[att.Node]).Run - c.Declared.Start(t)
		c.ratio.AddAt(e.At, att.Task, planner.Whole(x.Ran, att.Done), exact.Int(uint64(max(0, declared))))
	}
}

// Run implements planner.Estimator.
func (c *Corrected) Run(t *planner.Task, n *planner.Node) planner.Estimate {
	e := c.Declared.Run(t, n)
	if c.ratio.Len() > 0 {
		start := c.Declared.Start(t)
		e.Run = c.ratio.Of(e.Run-start) + start
		e.Samples, e.Source = int32(c.ratio.Len()), planner.SourceCorrected
	}
	return e
}

// Remaining implements planner.Estimator.
func (c *Corrected) Remaining(t *planner.Task, n *planner.Node, ran time.Duration) time.Duration {
	return Overrun(c.Run(t, n).Run, ran)
}

// Unscaled implements planner.Ranker.
func (c *Corrected) Unscaled(t *planner.Task, n *planner.Node) (time.Duration, uint64) {
	return c.Declared.Unscaled(t, n)
}

// Work implements planner.Ranker.
func (c *Corrected) Work(t *planner.Task) (planner.Work, bool) { return c.Declared.Work(t) }

// BySpeed implements planner.Ranker.
func (c *Corrected) BySpeed(t *planner.Task) bool { return c.Declared.BySpeed(t) }

// Ratio is the sum of the measurements over the sum of the estimates, of a number of last pairs. Sums are exact.
type Ratio struct {
	pairs []pair // a ring once it is full
	size  int
	next  int

	measured, estimated exact.Number

	// Of the pairs that AddAt added last, those of one instant: their tasks, ascending.
	instant planner.Time
	tasks   []planner.TaskID
}

type pair struct{ measured, estimated exact.Number }

// NewRatio returns the ratio of the last m pairs.
func NewRatio(m int) *Ratio { return &Ratio{size: max(1, m)} }

// Add takes in a pair; the oldest leaves. The estimate is in any unit.
func (r *Ratio) Add(measured time.Duration, estimated exact.Number) {
	p := pair{exact.Int(uint64(max(0, measured))), estimated}
	if len(r.pairs) < r.size {
		r.pairs = append(r.pairs, p)
	} else {
		old := &r.pairs[r.next]
		r.measured, r.estimated = r.measured.Minus(old.measured), r.estimated.Minus(old.estimated)
		*old = p
	}
	r.next = (r.next + 1) % r.size
	r.measured, r.estimated = r.measured.Plus(p.measured), r.estimated.Plus(p.estimated)
}

// AddAt takes in the pair of a task that ended at an instant, no earlier than those before. Those that end together are
// in order of tasks, so that the order of their reports decides nothing.
func (r *Ratio) AddAt(at planner.Time, task planner.TaskID, measured time.Duration, estimated exact.Number) {
	if at != r.instant {
		r.instant, r.tasks = at, r.tasks[:0]
	}
	if len(r.tasks) == r.size { // nothing older is left
		if task < r.tasks[0] {
			return
		}
		r.tasks = slices.Delete(r.tasks, 0, 1)
	}
	r.Add(measured, estimated)
	k, found := slices.BinarySearch(r.tasks, task)
	if found {
		k++
	}
	r.tasks = slices.Insert(r.tasks, k, task)
	for newer, i := len(r.tasks)-1-k, r.next; newer > 0; newer-- { // those come after it
		i = (i + r.size - 1) % r.size
		older := (i + r.size - 1) % r.size
		r.pairs[i], r.pairs[older] = r.pairs[older], r.pairs[i]
	}
}

// Len returns how many pairs there are.
func (r *Ratio) Len() int { return len(r.pairs) }

// Sums returns both sums; 1 and 1 where the ratio is 1, as there is no pair or one of the sums is zero.
func (r *Ratio) Sums() (measured, estimated exact.Number) {
	if r.measured.Zero() || r.estimated.Zero() {
		return exact.Int(1), exact.Int(1)
	}
	return r.measured, r.estimated
}

// Value returns the ratio, rounded.
func (r *Ratio) Value() float64 {
	measured, estimated := r.Sums()
	return measured.Float() / estimated.Float()
}

// Of returns d times the ratio, to the nearest nanosecond.
func (r *Ratio) Of(d time.Duration) time.Duration {
	if d <= 0 || r.measured.Zero() || r.estimated.Zero() {
		return d
	}
	m, e := r.measured.Times(uint64(d)), r.estimated
	if high, low, whole := e.Words(); whole && high == 0 {
		return time.Duration(m.Plus(exact.Int(low / 2)).Floor(low))
	}
	x := m.Rat()
	x.Add(x.Quo(x, e.Rat()), big.NewRat(1, 2))
	return time.Duration(exact.Rat(x).Floor(1))
}
