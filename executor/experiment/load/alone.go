package load

import (
	"cmp"
	"fmt"
	"math"
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
	free := make([]unit.Vector, len(p.Nodes))
	for i := range p.Nodes {
		free[i] = p.Nodes[i].Capacity
	}
	classes, classOf := byNeed(w)
	waits := make([]int, len(w.Tasks))
	enter := func(t int32) { classes[classOf[t]].ready.Push(entry{w.Tasks[t].Runtime, t}) }
	for i := range w.Tasks {
		if waits[i] = len(w.Tasks[i].Parents); waits[i] == 0 {
			enter(int32(i))
		}
	}
	running := heap.Heap[end]{Before: (*end).before}
	now, left := time.Duration(0), len(w.Tasks)
	for left > 0 {
		for i := range classes {
			classes[i].full = false
		}
		for {
			c := longest(classes)
			if c == nil {
				break
			}
			n := fastest(p, free, c.need)
			if c.full = n < 0; c.full {
				continue
			}
			e := c.ready.Pop()
			free[n] = free[n].Sub(c.need)
			running.Push(end{now + unit.AtSpeed(e.run, p.Nodes[n].Speed), e.task, n})
		}
		if running.Len() == 0 {
			return 0, fmt.Errorf("workflow %s has tasks that no node of the cluster can hold, so there is no saying "+
				"how long it takes alone", w.Label)
		}
		now = running.Items[0].at
		for ; running.Len() > 0 && running.Items[0].at == now; left-- {
			e := running.Pop()
			free[e.node] = free[e.node].Add(classes[classOf[e.task]].need)
			for _, c := range w.Tasks[e.task].Children {
				if waits[c]--; waits[c] == 0 {
					enter(c)
				}
			}
		}
	}
	return now, nil
}

// needs has the ready tasks of one need: where one does not fit none does.
type needs struct {
	need  unit.Vector
	ready heap.Heap[entry]
	full  bool
}

func byNeed(w *trace.Workflow) (classes []needs, of []int32) {
	index := map[unit.Vector]int32{}
	of = make([]int32, len(w.Tasks))
	for i := range w.Tasks {
		t := &w.Tasks[i]
		need := unit.Vector{unit.CPU: int64(math.Ceil(cmp.Or(t.Cores, 1) * 1000)), unit.Memory: t.MemoryBytes}
		k, ok := index[need]
		if !ok {
			k = int32(len(classes))
			index[need] = k
			classes = append(classes, needs{need: need, ready: heap.Heap[entry]{Before: (*entry).before}})
		}
		of[i] = k
	}
	return classes, of
}

// longest is the class of the longest ready task for which there may be room; nil if there is none.
func longest(classes []needs) (best *needs) {
	for i := range classes {
		if c := &classes[i]; !c.full && c.ready.Len() > 0 && (best == nil ||
			c.ready.Items[0].before(&best.ready.Items[0])) {
			best = c
		}
	}
	return best
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

type entry struct {
	run  time.Duration
	task int32
}

func (e *entry) before(f *entry) bool { return e.run > f.run || e.run == f.run && e.task < f.task }

type end struct {
	at   time.Duration
	task int32
	node int
}

func (e *end) before(f *end) bool { return e.at < f.at || e.at == f.at && e.task < f.task }
