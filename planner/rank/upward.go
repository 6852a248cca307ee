// Package rank has the priorities of tasks.
package rank

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// Upward is the upward rank of Topcuoglu, Hariri and Wu 2002, equation 8: the mean run time of the task over all nodes that can hold
// it, plus the largest sum of mean communication time and rank over its children. Ranks are computed once, when a workflow arrives,
// in O(tasks + edges), in nanoseconds.
type Upward struct {
	// AverageSpeed takes the run time at the average speed of those nodes instead (Ilyushkin and Epema, CCGrid 2018, section III-B), which is
	// their harmonic mean. Where nodes differ in speed it is shorter by a common factor: that matters to what compares ranks with time.
	AverageSpeed bool
	// Bound takes the run time on the fastest node that can hold the task, and no communication: the rank is a lower bound on the time from
	// the start of the task to the end of its workflow, by the estimates.
	Bound bool

	ranks     []float64 // by task, without the factor of its workflow
	positions []int32   // by task: how many generations of ancestors have its rank
	flows     []flow    // by workflow
	kinds     []kind    // of nodes
}

// flow is what is kept of a workflow.
type flow struct {
	known  bool
	factor float64
	length float64          // the highest rank, without the factor
	sorted []planner.TaskID // by rank descending; made when it is first asked for
}

// kind is a set of nodes that are alike to tasks.
type kind struct {
	node     planner.NodeID // the lowest of them
	count    float64
	speed    float64
	capacity unit.Vector
}

// Update computes the ranks of the workflows that arrived.
func (u *Upward) Update(c *planner.Cycle) {
	if c.News.Changed || u.kinds == nil {
		u.kinds = kindsOf(c)
	}
	if len(c.News.Arrived) == 0 {
		return
	}
	fixed, perByte := c.Platform().MeanMove()
	for _, w := range c.News.Arrived {
		u.workflow(c, c.Workflow(w), fixed, perByte)
	}
}

func kindsOf(c *planner.Cycle) []kind {
	var out []kind
	for i := range c.Nodes() {
		n, capacity := &c.Nodes()[i], c.Capacity(planner.NodeID(i))
		k := slices.IndexFunc(out, func(k kind) bool { return k.speed == n.Speed && k.capacity == capacity })
		if k < 0 {
			k = len(out)
			out = append(out, kind{node: n.ID, speed: n.Speed, capacity: capacity})
		}
		out[k].count++
	}
	return out
}

// Of returns the rank of t.
func (u *Upward) Of(t *planner.Task) float64 { return u.flows[t.Workflow].factor * u.ranks[t.ID] }

// Unscaled returns the rank of t without the factor that all tasks of its workflow share: what tasks of one workflow are compared by.
func (u *Upward) Unscaled(t planner.TaskID) float64 { return u.ranks[t] }

// Factor returns the factor of w.
func (u *Upward) Factor(w planner.WorkflowID) float64 { return u.flows[w].factor }

// Length returns the length of w's critical path, the highest rank of its tasks, without its factor.
func (u *Upward) Length(w planner.WorkflowID) float64 { return u.flows[w].length }

// Position breaks ties of rank between tasks of a workflow, before their ids do: parents come before children that take no time.
func (u *Upward) Position(t planner.TaskID) int32 { return u.positions[t] }

// Sorted returns the tasks of w by rank descending, ties by id, but parents first. It must not be changed.
func (u *Upward) Sorted(w *planner.Workflow) []planner.TaskID {
	f := &u.flows[w.ID]
	if f.sorted == nil {
		f.sorted = slices.Clone(w.Tasks)
		slices.SortFunc(f.sorted, func(a, b planner.TaskID) int {
			if c := cmp.Compare(u.ranks[b], u.ranks[a]); c != 0 {
				return c
			}
			return cmp.Or(cmp.Compare(u.positions[a], u.positions[b]), cmp.Compare(a, b))
		})
	}
	return f.sorted
}

// Forget gives back what is kept of a workflow that has ended.
func (u *Upward) Forget(w planner.WorkflowID) { u.flows[w].sorted = nil }

func (u *Upward) workflow(c *planner.Cycle, w *planner.Workflow, fixed, perByte float64) {
	if n := c.View.Tasks() - len(u.ranks); n > 0 {
		u.ranks = append(u.ranks, make([]float64, n)...)
		u.positions = append(u.positions, make([]int32, n)...)
	}
	if n := c.View.Workflows() - len(u.flows); n > 0 {
		u.flows = append(u.flows, make([]flow, n)...)
	}
	f := &u.flows[w.ID]
	if f.known {
		return // a restart makes everything news; what was computed at arrival stays
	}
	f.known, f.factor = true, 1
	communicates := !u.Bound && (fixed > 0 || perByte > 0)
	for i := len(w.Tasks) - 1; i >= 0; i-- {
		t := c.Task(w.Tasks[i])
		run, factor := u.meanRun(c, t)
		f.factor = factor
		var best float64
		if !communicates {
			for _, child := range t.Children {
				best = max(best, u.ranks[child])
			}
		} else {
			sent := sizes(c, t)
			for _, child := range t.Children {
				comm := 0.0
				if bytes, shares := sent[child]; shares {
					comm = (fixed + perByte*bytes) / factor
				}
				best = max(best, comm+u.ranks[child])
			}
		}
		u.ranks[t.ID] = run + best
		f.length = max(f.length, run+best)
	}
	for _, t := range w.Tasks {
		for _, p := range c.Task(t).Parents {
			if u.ranks[p] == u.ranks[t] {
				u.positions[t] = max(u.positions[t], u.positions[p]+1)
			}
		}
	}
}

// sizes returns the bytes that each child reads of what t writes.
func sizes(c *planner.Cycle, t *planner.Task) map[planner.TaskID]float64 {
	out := make(map[planner.TaskID]float64, len(t.Children))
	for _, child := range t.Children {
		for _, f := range c.Task(child).Inputs {
			if c.File(f).Producer == t.ID {
				out[child] += float64(c.File(f).Size)
			}
		}
	}
	return out
}

// meanRun is the mean estimate of t over the nodes that can hold it (the least with Bound), in nanoseconds, without the factor of its
// workflow.
func (u *Upward) meanRun(c *planner.Cycle, t *planner.Task) (mean, factor float64) {
	factor = 1
	ranker, _ := c.Est.(planner.Ranker)
	run := func(n planner.NodeID) float64 {
		node := &c.Nodes()[n]
		if ranker == nil {
			return float64(c.Est.Run(t, node).Run)
		}
		var d time.Duration
		d, factor = ranker.Unscaled(t, node)
		return float64(d)
	}
	var sum, count, rates, last float64
	least := math.Inf(1)
	if ranker != nil && ranker.BySpeed(t) {
		for i := range u.kinds {
			if k := &u.kinds[i]; t.Need.Fits(k.capacity) {
				last = run(k.node)
				least = min(least, last)
				sum += k.count * last
				count += k.count
				rates += k.count / last
			}
		}
	} else {
		for i := range c.Nodes() {
			if t.Need.Fits(c.Capacity(planner.NodeID(i))) {
				last = run(planner.NodeID(i))
				least = min(least, last)
				sum += last
				count++
			}
		}
	}
	if count == 0 {
		return 0, factor
	}
	if u.Bound {
		return least, factor
	}
	if u.AverageSpeed && sum != count*last && rates > 0 && !math.IsInf(rates, 1) {
		return count / rates, factor
	}
	return sum / count, factor
}
