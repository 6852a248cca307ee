package order

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/exact"
	"gantry/planner/predict"
	"gantry/planner/rank"
	"gantry/planner/unit"
)

// Fair is the ordering of Fair Workflow Prioritization (Ilyushkin and Epema, CCGrid 2018, section III-H): workflows
// whose slowdown is furthest above the target come first. The target is the mean slowdown of the workflows that ended
// last, the same for all: no decision depends on it.
type Fair struct {
	Ranks *rank.Upward
	// Parallel multiplies the slowdown of a workflow by its level of parallelism, approximated as its total run time
	// over the length of its critical path. Section V-E has that as future work, without a formula.
	Parallel bool

	correction *predict.Ratio
	standings  []standing // by workflow
	endings    []ending

	xi                 float64      // the value of correction in this round
	measured, believed exact.Number // its numerator, and its denominator times the scale of ranks
	exact              bool         // they are those of this round
}

// standing has the terms of the slowdown of a workflow, but for the time and the correction, on the scale of ranks.
type standing struct {
	arrived           planner.Time
	remaining, length exact.Number
	weight            uint64
	rest, whole       float64 // remaining and length as times, rounded
	ahead             int32   // the first task by rank that has not started
}

// ending is a completed task.
type ending struct {
	at   planner.Time
	task planner.TaskID
	node planner.NodeID
	ran  time.Duration
}

// NewFair returns an ordering that corrects estimates by the last m tasks.
func NewFair(ranks *rank.Upward, m int) *Fair {
	return &Fair{Ranks: ranks, correction: predict.NewRatio(m)}
}

// Observe implements planner.Observer.
func (f *Fair) Observe(v planner.View, e planner.Event) {
	x, ok := e.Body.(*planner.AttemptExited)
	if !ok || x.Outcome != planner.OK {
		return
	}
	att := v.Attempt(x.Attempt)
	end := ending{at: e.At, task: att.Task, node: att.Node, ran: x.Ran}
	if u := &x.Usage; u.Staged > 0 && u.Started >= u.Staged && u.Started != unit.Never {
		end.ran += u.Started.Sub(u.Staged) // estimates include the start of a container
	}
	f.endings = append(f.endings, end)
}

// Update takes in the observations since the last round.
func (f *Fair) Update(c *planner.Cycle) {
	f.standings = planner.Extend(f.standings, c.Workflows())
	slices.SortFunc(f.endings, func(a, b ending) int { // as they were reported at one instant decides nothing
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.task, b.task))
	})
	for _, end := range f.endings {
		f.correction.Add(end.ran, f.Ranks.Estimated(c, c.Task(end.task), end.node))
	}
	if len(f.endings) > 0 || f.xi == 0 {
		f.endings, f.xi, f.exact = f.endings[:0], f.correction.Value(), false
	}
	for _, w := range c.News.Grown { // new tasks may come before started ones
		f.standings[w].ahead = 0
	}
	for _, t := range c.News.Ready {
		if c.Tries(t) > 0 {
			f.standings[c.Task(t).Workflow].ahead = 0 // a started task has to start again
		}
	}
}

// Settle takes in which tasks of w have started by now: one that waits for its copies has not.
func (f *Fair) Settle(c *planner.Cycle, w planner.WorkflowID) {
	flow, s := c.Workflow(w), &f.standings[w]
	tasks := f.Ranks.Sorted(flow)
	for int(s.ahead) < len(tasks) && !c.Unstarted(tasks[s.ahead]) {
		s.ahead++
	}
	s.arrived, s.length, s.weight, s.remaining = flow.Arrived, f.Ranks.Length(w), f.Ranks.Weight(w), exact.Number{}
	if work := f.Ranks.Work(w); f.Parallel && !work.Zero() { // a slowdown has the length below the line
		s.length = exact.Rat(new(big.Rat).Quo(s.length.Mul(s.length).Rat(), work.Rat()))
	}
	if int(s.ahead) < len(tasks) {
		s.remaining = f.Ranks.Unscaled(tasks[s.ahead])
	}
	scale := float64(s.weight) / float64(f.Ranks.Scale())
	s.rest, s.whole = s.remaining.Float()*scale, s.length.Float()*scale
}

// Near returns the present slowdown of w, as Settle left it: ŝ, the time since its arrival and the corrected length of
// its unstarted part, over the corrected length of the whole. It is rounded, within a part in 10^14.
func (f *Fair) Near(c *planner.Cycle, w planner.WorkflowID) float64 {
	s := &f.standings[w]
	resident := float64(c.Now().Sub(s.arrived))
	if s.whole == 0 {
		if resident == 0 {
			return 1
		}
		return math.Inf(1)
	}
	return (resident + s.rest*f.xi) / (s.whole * f.xi)
}

// Compare returns -1, 0 or 1 as the present slowdown of v is below, equal to or above that of w, exactly.
//
// With measured over estimated as correction, both sums, a slowdown is (resident estimated + measured weight remaining)
// / (measured weight length).
func (f *Fair) Compare(c *planner.Cycle, v, w planner.WorkflowID) int {
	a, b := &f.standings[v], &f.standings[w]
	if a.length.Zero() || b.length.Zero() {
		return cmp.Compare(f.Near(c, v), f.Near(c, w))
	}
	if a.arrived == b.arrived && a.weight == b.weight && a.length.Compare(b.length) == 0 {
		return a.remaining.Compare(b.remaining)
	}
	if a.arrived == c.Now() && a.arrived == b.arrived && a.remaining.Compare(a.length) == 0 &&
		b.remaining.Compare(b.length) == 0 {
		return 0 // both have just arrived
	}
	if !f.exact {
		f.measured, f.believed = f.correction.Sums()
		f.believed, f.exact = f.believed.Times(f.Ranks.Scale()), true
	}
	numerator := func(s *standing) exact.Number {
		return f.believed.Times(uint64(c.Now().Sub(s.arrived))).Plus(f.measured.Mul(s.remaining).Times(s.weight))
	}
	return numerator(a).Mul(b.length).Times(b.weight).Compare(numerator(b).Mul(a.length).Times(a.weight))
}
