// Package rank has the priorities of tasks.
package rank

import (
	"math"
	"time"

	"gantry/planner"
)

// Upward is the upward rank of Topcuoglu, Hariri and Wu 2002, equation 8: the mean run time of the task over all nodes that can hold
// it, plus the largest sum of mean communication time and rank over its children. Ranks are computed once, when a workflow arrives,
// in O(tasks + edges), in nanoseconds.
type Upward struct {
	ranks     []float64 // by task; NaN before its workflow arrived
	positions []int32
}

// Update computes the ranks of the workflows that arrived.
func (u *Upward) Update(c *planner.Cycle) {
	if len(c.News.Arrived) == 0 {
		return
	}
	fixed, perByte := c.Platform().MeanMove()
	for _, w := range c.News.Arrived {
		u.workflow(c, c.Workflow(w), fixed, perByte)
	}
}

// Of returns the rank of t.
func (u *Upward) Of(t planner.TaskID) float64 { return u.ranks[t] }

// Position returns the place of t in the topological order of its workflow: it breaks ties of rank, so that parents come before
// children that take no time.
func (u *Upward) Position(t planner.TaskID) int32 { return u.positions[t] }

func (u *Upward) workflow(c *planner.Cycle, w *planner.Workflow, fixed, perByte float64) {
	for len(u.ranks) < c.View.Tasks() {
		u.ranks = append(u.ranks, math.NaN())
		u.positions = append(u.positions, 0)
	}
	communicates := fixed > 0 || perByte > 0
	for i := len(w.Tasks) - 1; i >= 0; i-- {
		t := c.Task(w.Tasks[i])
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
					comm = fixed + perByte*bytes
				}
				best = max(best, comm+u.ranks[child])
			}
		}
		u.positions[t.ID] = int32(i)
		u.ranks[t.ID] = MeanRun(c, t) + best
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

// MeanRun is the mean estimate of t over the nodes that can hold it, in nanoseconds. Nodes of one speed are alike to most estimators,
// but not to a cost matrix, so each is asked.
func MeanRun(c *planner.Cycle, t *planner.Task) float64 {
	var sum float64
	var n int
	for i := range c.Nodes() {
		node := &c.Nodes()[i]
		if t.Need.Fits(c.Capacity(node.ID)) {
			sum += float64(c.Est.Run(t, node).Run)
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// Duration returns a rank as a duration, for people.
func Duration(r float64) time.Duration { return time.Duration(math.Round(r)) }
