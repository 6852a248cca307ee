// Package rank has the priorities of tasks.
package rank

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/exact"
	"gantry/planner/unit"
)

// Upward is the upward rank of Topcuoglu, Hariri and Wu 2002, equation 8: the mean run time of the task over all nodes
// that can hold it, plus the largest sum of mean communication time and rank over its children. Ranks are computed
// once, when a workflow arrives, in O(tasks + edges), and those of the ancestors of tasks that are added to it again.
//
// Ranks are exact: whole numbers of 1/scale nanoseconds, where scale is a common multiple of the divisors of means over
// the nodes, their speeds and the bandwidths between them; ranks that such numbers cannot hold are kept as fractions.
type Upward struct {
	// AverageSpeed takes the run time at the average speed of those nodes instead (Ilyushkin and Epema, CCGrid 2018,
	// section III-B), which is their harmonic mean. Where nodes differ in speed it is shorter by a common factor: that
	// matters to policies that compare ranks with time.
	AverageSpeed bool
	// Bound takes the run time on the fastest node that can hold the task, and no communication: the rank is a lower
	// bound on the time from the start of the task to the end of its workflow, by the estimates.
	Bound bool

	round   int64 // of the last Update
	scale   uint64
	ranks   []ranked              // by task
	flows   []flow                // by workflow
	kinds   []kind                // of nodes
	means   map[unit.Vector]*mean // by need: over the nodes that can hold it
	fixed   exact.Number          // mean time of a copy, and of each of its bytes
	perByte exact.Number
	sent    map[planner.TaskID]uint64 // scratch
	changed []planner.TaskID          // whose ranks are others since the last Update
}

// ranked has the rank of a task.
type ranked struct {
	exact.Number       // its rank, without the weight of its workflow
	position     int32 // how many generations of ancestors have its rank
}

// flow has the ranks of a workflow.
type flow struct {
	known  bool
	ranked int              // tasks that have ranks: those in front in the workflow's list
	weight uint64           // the factor of ranks between workflows
	length exact.Number     // the highest rank, without the weight
	work   exact.Number     // the mean run times of all tasks together, without the weight
	sorted []planner.TaskID // by rank descending; made when it is first asked for
}

// kind is a set of nodes that are alike to tasks.
type kind struct {
	node     planner.NodeID // the lowest of them
	count    uint64
	speed    float64
	capacity unit.Vector
}

// mean is the mean of run times over some nodes.
type mean struct {
	nodes  uint64
	factor exact.Number // the mean of a run that takes a nanosecond at speed 1, in units of ranks
	unit   exact.Number // a nanosecond on all of them, over their number
}

// Update computes the ranks of the workflows that arrived, and of tasks that were added to others.
func (u *Upward) Update(c *planner.Cycle) {
	if u.round == c.Round() && u.kinds != nil {
		return // several phases of a policy may ask for it
	}
	u.round, u.changed = c.Round(), u.changed[:0]
	if c.News.Changed || u.kinds == nil {
		u.survey(c)
	}
	for _, w := range c.News.Arrived {
		u.workflow(c, c.Workflow(w))
	}
	for _, w := range c.News.Grown {
		u.workflow(c, c.Workflow(w))
	}
	for _, t := range c.News.Finished {
		if left, _ := c.Progress(c.Task(t).Workflow); left == 0 {
			u.flows[c.Task(t).Workflow].sorted = nil // nobody asks for it any more
		}
	}
}

// Changed returns the tasks to which the last Update gave other ranks, as tasks were added below them.
func (u *Upward) Changed() []planner.TaskID { return u.changed }

// survey takes in the nodes of the platform.
func (u *Upward) survey(c *planner.Cycle) {
	u.kinds = u.kinds[:0]
	for i := range c.NodeCount() {
		n, capacity := &c.Nodes()[i], c.Capacity(i)
		k := slices.IndexFunc(u.kinds, func(k kind) bool { return k.speed == n.Speed && k.capacity == capacity })
		if k < 0 {
			k = len(u.kinds)
			u.kinds = append(u.kinds, kind{node: n.ID, speed: n.Speed, capacity: capacity})
		}
		u.kinds[k].count++
	}
	fixed, perByte := c.Platform().MeanMove()
	if u.scale == 0 && u.Bound {
		u.scale = 1
	}
	if u.scale == 0 { // once, as ranks are not computed again
		u.scale = 1
		u.divide(fixed.Denom())
		u.divide(perByte.Denom())
		for i := range u.kinds {
			for d := range u.kinds[i].capacity { // sets of nodes that tasks are likely to fit
				var need unit.Vector
				need[d] = u.kinds[i].capacity[d]
				if nodes, factor := u.over(need); nodes > 0 {
					u.divide(new(big.Int).SetUint64(nodes))
					u.divide(factor.Denom())
				}
			}
		}
	}
	u.fixed, u.perByte = u.units(fixed), u.units(perByte)
	u.means = map[unit.Vector]*mean{}
}

// divide has the scale be a multiple of n, if that leaves ranks room in 128 bits.
func (u *Upward) divide(n *big.Int) {
	scale := new(big.Int).SetUint64(u.scale)
	gcd := new(big.Int).GCD(nil, nil, scale, n)
	if scale.Mul(scale, gcd.Quo(n, gcd)); scale.BitLen() <= 48 {
		u.scale = scale.Uint64()
	}
}

// units returns a time in nanoseconds in units of ranks.
func (u *Upward) units(ns *big.Rat) exact.Number {
	return exact.Rat(new(big.Rat).Mul(ns, new(big.Rat).SetUint64(u.scale)))
}

// over returns how many nodes can hold need, and the mean over them of a run that takes a nanosecond at speed 1.
func (u *Upward) over(need unit.Vector) (nodes uint64, factor *big.Rat) {
	sum := new(big.Rat)
	for i := range u.kinds {
		k := &u.kinds[i]
		if !need.Fits(k.capacity) {
			continue
		}
		nodes += k.count
		num, den := uint64(1), uint64(1)
		if k.speed > 0 {
			num, den = unit.Decimal(k.speed)
		}
		if !u.AverageSpeed {
			num, den = den, num
		}
		speed := new(big.Rat).SetFrac(new(big.Int).SetUint64(num), new(big.Int).SetUint64(den))
		sum.Add(sum, speed.Mul(speed, new(big.Rat).SetUint64(k.count)))
	}
	if nodes == 0 {
		return 0, sum
	}
	if sum.Quo(sum, new(big.Rat).SetUint64(nodes)); u.AverageSpeed {
		sum.Inv(sum)
	}
	return nodes, sum
}

// mean returns that over the nodes that can hold need.
func (u *Upward) mean(need unit.Vector) *mean {
	m := u.means[need]
	if m == nil {
		nodes, factor := u.over(need)
		m = &mean{nodes: nodes, factor: u.units(factor), unit: exact.Int(u.scale).Over(max(1, nodes))}
		u.means[need] = m
	}
	return m
}

// Of returns the rank of t, in units that all ranks share.
func (u *Upward) Of(t *planner.Task) exact.Number {
	return u.Unscaled(t.ID).Times(u.flows[t.Workflow].weight)
}

// Time returns the rank of t as a time, with Bound.
func (u *Upward) Time(t *planner.Task) time.Duration { return u.time(u.Of(t)) }

// LengthTime returns the length of w's critical path as a time, with Bound.
func (u *Upward) LengthTime(w planner.WorkflowID) time.Duration {
	return u.time(u.flows[w].length.Times(u.flows[w].weight))
}

func (u *Upward) time(n exact.Number) time.Duration {
	return time.Duration(n.Floor(u.scale))
}

// Unscaled returns the rank of t without the weight that all tasks of its workflow share: it compares tasks of one
// workflow.
func (u *Upward) Unscaled(t planner.TaskID) exact.Number { return u.ranks[t].Number }

// Weight returns the factor that makes ranks of w comparable with those of other workflows.
func (u *Upward) Weight(w planner.WorkflowID) uint64 { return u.flows[w].weight }

// Length returns the length of w's critical path, the highest rank of its tasks, without its weight.
func (u *Upward) Length(w planner.WorkflowID) exact.Number { return u.flows[w].length }

// Work returns the mean run times of w's tasks together, without its weight.
func (u *Upward) Work(w planner.WorkflowID) exact.Number { return u.flows[w].work }

// Scale returns how many units of ranks are a nanosecond, where the estimates of all workflows are right.
func (u *Upward) Scale() uint64 { return u.scale }

// Position breaks ties of rank between tasks of a workflow, before their ids do: parents come before children that take
// no time.
func (u *Upward) Position(t planner.TaskID) int32 { return u.ranks[t].position }

// Sorted returns the tasks of w by rank descending, ties by id, but parents first. It must not be changed.
func (u *Upward) Sorted(w *planner.Workflow) []planner.TaskID {
	f := &u.flows[w.ID]
	if f.sorted == nil {
		f.sorted = slices.Clone(w.Tasks)
		slices.SortFunc(f.sorted, u.byRank)
	}
	return f.sorted
}

func (u *Upward) byRank(a, b planner.TaskID) int {
	return cmp.Or(u.Unscaled(b).Compare(u.Unscaled(a)), cmp.Compare(u.Position(a), u.Position(b)), cmp.Compare(a, b))
}

func (u *Upward) workflow(c *planner.Cycle, w *planner.Workflow) {
	u.ranks = planner.Extend(u.ranks, c.Tasks())
	u.flows = planner.Extend(u.flows, c.Workflows())
	f := &u.flows[w.ID]
	if f.known && f.ranked == len(w.Tasks) {
		return // a restart makes everything news; ranks computed at arrival stay
	}
	if !f.known {
		f.known, f.weight = true, 1
	}
	fresh := w.Tasks[f.ranked:]
	above := map[planner.TaskID]bool{} // earlier tasks below which some are added
	for _, t := range slices.Backward(fresh) {
		u.rank(c, f, c.Task(t))
	}
	if f.ranked > 0 {
		for _, t := range fresh {
			mark(c, t, fresh[0], above)
		}
	}
	before := len(u.changed)
	for i := f.ranked - 1; i >= 0 && len(above) > 0; i-- {
		t := w.Tasks[i]
		if !above[t] {
			continue
		}
		delete(above, t)
		was := u.Unscaled(t)
		if u.rank(c, f, c.Task(t)); u.Unscaled(t).Compare(was) != 0 {
			u.changed = append(u.changed, t)
			mark(c, t, fresh[0], above)
		}
	}
	if len(u.changed) > before {
		fresh = w.Tasks // ties may be others anywhere
	}
	for _, t := range fresh {
		at := &u.ranks[t]
		at.position = 0
		for _, p := range c.Task(t).Parents {
			if u.Unscaled(p).Compare(at.Number) == 0 {
				at.position = max(at.position, u.Position(p)+1)
			}
		}
	}
	f.ranked, f.sorted = len(w.Tasks), nil
}

// mark notes the parents of t that are older than the tasks from first on.
func mark(c *planner.Cycle, t, first planner.TaskID, above map[planner.TaskID]bool) {
	for _, p := range c.Task(t).Parents {
		if p < first {
			above[p] = true
		}
	}
}

// rank computes the rank of t; those of its children are known.
func (u *Upward) rank(c *planner.Cycle, f *flow, t *planner.Task) {
	run, weight := u.meanRun(c, t, u.whole())
	f.weight = weight
	best := nanoseconds(t.Tail).Times(u.scale)
	communicates := u.communicates()
	if communicates {
		u.sizes(c, t)
	}
	for _, child := range t.Children {
		r := u.Unscaled(child)
		if bytes, shares := u.sent[child]; communicates && shares {
			r = r.Plus(u.fixed).Plus(u.perByte.Times(bytes))
		}
		if best.Compare(r) < 0 {
			best = r
		}
	}
	if u.ranks[t.ID].Zero() { // it had no rank, or takes no time
		f.work = f.work.Plus(run)
	}
	r := run.Plus(best)
	u.ranks[t.ID].Number = r
	if f.length.Compare(r) < 0 {
		f.length = r
	}
}

// whole reports whether ranks rest on whole estimates, as they do where they have communication times: else the factor
// that all estimates share is left out, and the factor that those of a workflow share is its weight.
func (u *Upward) whole() bool { return u.Bound || u.communicates() }

func (u *Upward) communicates() bool { return !u.Bound && (!u.fixed.Zero() || !u.perByte.Zero()) }

// sizes finds the bytes that each child reads of the outputs of t.
func (u *Upward) sizes(c *planner.Cycle, t *planner.Task) {
	if u.sent == nil {
		u.sent = map[planner.TaskID]uint64{}
	}
	clear(u.sent)
	for _, child := range t.Children {
		for _, f := range c.Task(child).Inputs {
			if c.File(f).Producer == t.ID {
				u.sent[child] += uint64(c.File(f).Size)
			}
		}
	}
}

// Estimated returns the estimate of a run of t on n, in nanoseconds, on the scale of its rank: without the factor that
// all estimates share, unless ranks are true times.
func (u *Upward) Estimated(c *planner.Cycle, t *planner.Task, n planner.NodeID) exact.Number {
	node := &c.Nodes()[n]
	if r, ok := c.Est.(planner.Ranker); ok && !u.whole() {
		run, weight := r.Unscaled(t, node)
		return nanoseconds(run).Times(weight)
	}
	return nanoseconds(c.Est.Run(t, node).Run)
}

// leastRun is the least estimate of t over the nodes that can hold it.
func (u *Upward) leastRun(c *planner.Cycle, t *planner.Task) exact.Number {
	least := time.Duration(math.MaxInt64)
	if c.BySpeed(t) {
		for i := range u.kinds {
			if k := &u.kinds[i]; t.Need.Fits(k.capacity) {
				least = min(least, c.Est.Run(t, &c.Nodes()[k.node]).Run)
			}
		}
	} else {
		for n := range c.NodeCount() {
			if t.Need.Fits(c.Capacity(n)) {
				least = min(least, c.Est.Run(t, &c.Nodes()[n]).Run)
			}
		}
	}
	if least == math.MaxInt64 {
		return exact.Number{}
	}
	return nanoseconds(least)
}

// meanRun is the mean estimate of t over the nodes that can hold it (the least with Bound), without the weight of its
// workflow.
func (u *Upward) meanRun(c *planner.Cycle, t *planner.Task, whole bool) (run exact.Number, weight uint64) {
	if u.Bound {
		return u.leastRun(c, t), 1
	}
	m := u.mean(t.Need)
	ranker, _ := c.Est.(planner.Ranker)
	if ranker != nil {
		if work, ok := ranker.Work(t); ok {
			base, start := work.Unscaled, work.Start
			if weight = work.Weight; whole {
				base, weight = work.Run, 1
			}
			run = m.factor.Mul(nanoseconds(base))
			if start > 0 {
				run = run.Plus(nanoseconds(start).Times(u.scale))
			}
			return run, weight
		}
	}
	weight = 1
	on := func(n planner.NodeID) exact.Number {
		node := &c.Nodes()[n]
		if ranker == nil || whole {
			return nanoseconds(c.Est.Run(t, node).Run)
		}
		var d time.Duration
		d, weight = ranker.Unscaled(t, node)
		return nanoseconds(d)
	}
	var sum exact.Number
	if ranker == nil || !ranker.BySpeed(t) {
		for n := range c.NodeCount() {
			if t.Need.Fits(c.Capacity(n)) {
				sum = sum.Plus(on(n))
			}
		}
		return m.unit.Mul(sum), weight
	}
	// A prediction for each speed: their harmonic mean is the run at the average speed.
	rates := new(big.Rat)
	for i := range u.kinds {
		k := &u.kinds[i]
		if !t.Need.Fits(k.capacity) {
			continue
		}
		d := on(k.node)
		sum = sum.Plus(d.Times(k.count))
		if d.Zero() {
			rates = nil
		} else if u.AverageSpeed && rates != nil {
			rates.Add(rates, new(big.Rat).Quo(new(big.Rat).SetUint64(k.count), d.Rat()))
		}
	}
	if u.AverageSpeed && rates != nil && rates.Sign() > 0 {
		return u.units(new(big.Rat).Quo(new(big.Rat).SetUint64(m.nodes), rates)), weight
	}
	return m.unit.Mul(sum), weight
}

func nanoseconds(d time.Duration) exact.Number { return exact.Int(uint64(max(0, d))) }
