package predict

import (
	"time"

	"gantry/planner"
)

// Corrected believes what is declared times a correction ξ: the sum of what was measured of the tasks completed last over the sum of what
// was declared of them (Ilyushkin and Epema, CCGrid 2018, section III-H). Ranks stay without it, since it is common to all.
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

// Prior takes in a run of an earlier log, before this one begins: what was measured of it, and what was declared.
func (c *Corrected) Prior(ran, declared time.Duration) { c.ratio.Add(float64(ran), float64(declared)) }

// Observe implements planner.Observer.
func (c *Corrected) Observe(v planner.View, e planner.Event) {
	if x, ok := e.Body.(*planner.AttemptExited); ok && x.Outcome == planner.OK {
		att := v.Attempt(x.Attempt)
		run, factor, _ := c.Declared.believed(v.Task(att.Task), &v.Nodes()[att.Node])
		c.ratio.Add(float64(planner.Whole(x.Ran, att.Done)), float64(run)*factor)
	}
}

// Correction returns ξ; 1 as long as nothing has completed.
func (c *Corrected) Correction() float64 { return c.ratio.Value() }

// Run implements planner.Estimator.
func (c *Corrected) Run(t *planner.Task, n *planner.Node) planner.Estimate {
	e := c.Declared.Run(t, n)
	if c.ratio.Len() > 0 {
		e.Run = times(e.Run-c.Declared.Startup, c.ratio.Value()) + c.Declared.Startup
		e.Samples, e.Source = int32(c.ratio.Len()), planner.SourceCorrected
	}
	return e
}

// Remaining implements planner.Estimator.
func (c *Corrected) Remaining(t *planner.Task, n *planner.Node, ran time.Duration) time.Duration {
	return Overrun(c.Run(t, n).Run, ran)
}

// Unscaled implements planner.Ranker.
func (c *Corrected) Unscaled(t *planner.Task, n *planner.Node) (time.Duration, float64) {
	return c.Declared.Unscaled(t, n)
}

// BySpeed implements planner.Ranker.
func (c *Corrected) BySpeed(t *planner.Task) bool { return c.Declared.BySpeed(t) }

// Ratio is the sum of what was measured over the sum of what was estimated, of the last so many pairs. Sums are kept as trees: an
// addition costs the logarithm of the number of pairs, and no error builds up however many have passed through.
type Ratio struct {
	sums [][2]float64 // a binary tree over the pairs, its root at 1
	size int
	half int
	next int
	len  int
}

// NewRatio returns the ratio of the last m pairs.
func NewRatio(m int) *Ratio {
	r := &Ratio{size: max(1, m), half: 1}
	for r.half < r.size {
		r.half *= 2
	}
	r.sums = make([][2]float64, 2*r.half)
	return r
}

// Add takes in a pair; the oldest leaves.
func (r *Ratio) Add(measured, estimated float64) {
	i := r.half + r.next
	r.sums[i] = [2]float64{measured, estimated}
	for i > 1 {
		i /= 2
		a, b := &r.sums[2*i], &r.sums[2*i+1]
		r.sums[i] = [2]float64{a[0] + b[0], a[1] + b[1]}
	}
	if r.next++; r.next == r.size {
		r.next = 0
	}
	r.len = min(r.len+1, r.size)
}

// Len returns how many pairs there are.
func (r *Ratio) Len() int { return r.len }

// Value returns the ratio; 1 if there is no pair, or one of the sums is zero.
func (r *Ratio) Value() float64 {
	if m, e := r.sums[1][0], r.sums[1][1]; m > 0 && e > 0 {
		return m / e
	}
	return 1
}
