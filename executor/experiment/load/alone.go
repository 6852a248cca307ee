package load

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/heap"
	"gantry/planner/unit"
	"gantry/trace"
)

// Alone returns how long a workflow takes on an empty platform, without copies: whenever a task has ended, the longest
// of the ready tasks goes first, each to the fastest node with room for it, the lowest among equals (the sample
// execution time SET^R of Lim, Majumdar and Ashwood-Smith, J. Cloud Computing 6(1), 2017, section on deadline
// budgeting, by true runtimes).
func Alone(w *trace.Workflow, p *planner.Platform) (time.Duration, error) {
	free, needs := make([]unit.Vector, len(p.Nodes)), make([]unit.Vector, len(w.Tasks))
	for i := range p.Nodes {
		free[i] = p.Nodes[i].Capacity
	}
	var ready []int32 // the longest first
	enter := func(t int32) {
		at, _ := slices.BinarySearchFunc(ready, t, func(a, b int32) int {
			return cmp.Or(cmp.Compare(w.Tasks[b].Runtime, w.Tasks[a].Runtime), cmp.Compare(a, b))
		})
		ready = slices.Insert(ready, at, t)
	}
	waits, kinds := make([]int, len(w.Tasks)), map[unit.Vector]bool{}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		needs[i] = unit.Vector{unit.CPU: int64(math.Ceil(cmp.Or(t.Cores, 1) * 1000)), unit.Memory: t.MemoryBytes}
		kinds[needs[i]] = true
		if waits[i] = len(t.Parents); waits[i] == 0 {
			enter(int32(i))
		}
	}
	running := heap.Heap[end]{Before: (*end).before}
	now, full := time.Duration(0), map[unit.Vector]bool{}
	for left := len(w.Tasks); left > 0; {
		clear(full) // where one need does not fit none like it does
		for k := 0; k < len(ready) && len(full) < len(kinds); {
			t := ready[k]
			n := -1
			if !full[needs[t]] {
				n = fastest(p, free, needs[t])
			}
			if n < 0 {
				full[needs[t]] = true
				k++
				continue
			}
			ready = slices.Delete(ready, k, k+1)
			free[n] = free[n].Sub(needs[t])
			running.Push(end{now + unit.AtSpeed(w.Tasks[t].Runtime, p.Nodes[n].Speed), t, n})
		}
		if running.Len() == 0 {
			return 0, fmt.Errorf("workflow %s has tasks that no node of the cluster can hold, so there is no saying "+
				"how long it takes alone", w.Label)
		}
		now = running.Items[0].at
		for ; running.Len() > 0 && running.Items[0].at == now; left-- {
			e := running.Pop()
			free[e.node] = free[e.node].Add(needs[e.task])
			for _, c := range w.Tasks[e.task].Children {
				if waits[c]--; waits[c] == 0 {
					enter(c)
				}
			}
		}
	}
	return now, nil
}

// fastest is the fastest node that has room; -1 if there is none.
func fastest(p *planner.Platform, free []unit.Vector, need unit.Vector) int {
	best := -1
	for i := range free {
		if (best < 0 || p.Nodes[i].Speed > p.Nodes[best].Speed) && need.Fits(free[i]) {
			best = i
		}
	}
	return best
}

type end struct {
	at   time.Duration
	task int32
	node int
}

func (e *end) before(f *end) bool { return e.at < f.at || e.at == f.at && e.task < f.task }
