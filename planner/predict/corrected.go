package predict

import (
	"math"
	"math/big"
	"math/bits"
	"time"

	"gantry/planner"
	"gantry/planner/exact"
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
func (c *Corrected) Prior(ran, declared time.Duration) {
	c.ratio.Add(ran, exact.Int(uint64(max(0, declared))))
}

// Observe implements planner.Observer.
func (c *Corrected) Observe(v planner.View, e planner.Event) {
	if x, ok := e.Body.(*planner.AttemptExited); ok && x.Outcome == planner.OK {
		att := v.Attempt(x.Attempt)
		if v.Task(att.Task).Formal {
			return // no time was estimated
		}
		declared := c.Declared.Run(v.Task(att.Task), &v.Nodes()[att.Node]).Run - c.Declared.Startup
		c.Prior(planner.Whole(x.Ran, att.Done), declared)
	}
}

// Correction returns ξ; 1 as long as nothing has completed.
func (c *Corrected) Correction() float64 { return c.ratio.Value() }

// Run implements planner.Estimator.
func (c *Corrected) Run(t *planner.Task, n *planner.Node) planner.Estimate {
	e := c.Declared.Run(t, n)
	if c.ratio.Len() > 0 {
		e.Run = c.ratio.Of(e.Run-c.Declared.Startup) + c.Declared.Startup
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

// Ratio is the sum of what was measured over the sum of what was estimated, of the last so many pairs. Sums are exact.
type Ratio struct {
	pairs []pair // a ring once it is full
	size  int
	next  int

	measured, estimated big.Int
	scratch             big.Int
}

type pair struct {
	measured  uint64
	estimated exact.Number
}

// NewRatio returns the ratio of the last m pairs.
func NewRatio(m int) *Ratio { return &Ratio{size: max(1, m)} }

// Add takes in a pair; the oldest leaves. What was estimated is in any unit, a whole number below 2^128.
func (r *Ratio) Add(measured time.Duration, estimated exact.Number) {
	p := pair{uint64(max(0, measured)), estimated}
	if len(r.pairs) < r.size {
		r.pairs = append(r.pairs, p)
	} else {
		old := &r.pairs[r.next]
		r.measured.Sub(&r.measured, r.scratch.SetUint64(old.measured))
		r.estimated.Sub(&r.estimated, old.estimated.AddTo(r.scratch.SetUint64(0)))
		*old = p
	}
	if r.next++; r.next == r.size {
		r.next = 0
	}
	r.measured.Add(&r.measured, r.scratch.SetUint64(p.measured))
	p.estimated.AddTo(&r.estimated)
}

// Len returns how many pairs there are.
func (r *Ratio) Len() int { return len(r.pairs) }

// Sums returns what was measured and what was estimated, which must not be changed; false if there is no pair or one of the sums is zero: then
// the ratio is 1.
func (r *Ratio) Sums() (measured, estimated *big.Int, ok bool) {
	return &r.measured, &r.estimated, r.measured.Sign() > 0 && r.estimated.Sign() > 0
}

// Value returns the ratio, rounded.
func (r *Ratio) Value() float64 {
	m, e, ok := r.Sums()
	if !ok {
		return 1
	}
	v, _ := new(big.Rat).SetFrac(m, e).Float64()
	return v
}

// Of returns d times the ratio, to the nearest nanosecond.
func (r *Ratio) Of(d time.Duration) time.Duration {
	m, e, ok := r.Sums()
	if !ok || d <= 0 {
		return d
	}
	if m.IsUint64() && e.IsUint64() {
		hi, lo := bits.Mul64(uint64(d), m.Uint64())
		lo, carry := bits.Add64(lo, e.Uint64()/2, 0)
		if hi += carry; hi < e.Uint64() {
			q, _ := bits.Div64(hi, lo, e.Uint64())
			return time.Duration(min(q, math.MaxInt64))
		}
		return math.MaxInt64
	}
	x := &r.scratch
	x.Mul(x.SetInt64(int64(d)), m)
	x.Add(x, new(big.Int).Rsh(e, 1))
	if x.Quo(x, e); !x.IsInt64() {
		return math.MaxInt64
	}
	return time.Duration(x.Int64())
}
