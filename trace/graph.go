package trace

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Link gives each task the children whose parent it is, in order. The error is of a parent that is not there.
func (w *Workflow) Link() error {
	for i := range w.Tasks {
		w.Tasks[i].Children = nil
	}
	for i := range w.Tasks {
		for _, p := range w.Tasks[i].Parents {
			if p < 0 || int(p) >= len(w.Tasks) {
				return fmt.Errorf("task %s has parent %d of %d", w.Tasks[i].ID, p, len(w.Tasks))
			}
			w.Tasks[p].Children = append(w.Tasks[p].Children, int32(i))
		}
	}
	return nil
}

// levels returns the level of every task, the number of edges on the longest path to it from a task without parents,
// and whether the graph is cyclic. A task on or behind a cycle has the level that its parents outside give it, -1 if it
// has none.
func (w *Workflow) levels() (level []int32, cyclic bool) {
	level = make([]int32, len(w.Tasks))
	for i := range w.Tasks {
		if len(w.Tasks[i].Parents) > 0 {
			level[i] = -1
		}
	}
	order := w.Order()
	for _, t := range order {
		for _, c := range w.Tasks[t].Children {
			level[c] = max(level[c], level[t]+1)
		}
	}
	return level, len(order) < len(w.Tasks)
}

// Order returns the tasks in topological order, those that become free first in front. Tasks on or behind a cycle are
// left out.
func (w *Workflow) Order() []int32 {
	waits := make([]int32, len(w.Tasks))
	order := make([]int32, 0, len(w.Tasks))
	for i := range w.Tasks {
		if waits[i] = int32(len(w.Tasks[i].Parents)); waits[i] == 0 {
			order = append(order, int32(i))
		}
	}
	for at := 0; at < len(order); at++ {
		for _, c := range w.Tasks[order[at]].Children {
			if waits[c]--; waits[c] == 0 {
				order = append(order, c)
			}
		}
	}
	return order
}

// cycle returns the tasks of one cycle in the order of its edges, or nil.
func (w *Workflow) cycle() []int32 {
	order := w.Order()
	if len(order) == len(w.Tasks) {
		return nil
	}
	free := make([]bool, len(w.Tasks))
	for _, t := range order {
		free[t] = true
	}
	// A task left over has a parent left over: going back from any must come round.
	at := int32(0)
	for free[at] {
		at++
	}
	place := map[int32]int{}
	var back []int32
	for {
		if n, ok := place[at]; ok {
			back = back[n:]
			break
		}
		place[at] = len(back)
		back = append(back, at)
		for _, p := range w.Tasks[at].Parents {
			if !free[p] {
				at = p
				break
			}
		}
	}
	slices.Reverse(back) // forward, from the task that comes first in the file
	first := slices.Index(back, slices.Min(back))
	return slices.Concat(back[first:], back[:first])
}

// backEdges returns the edges that lead back to a task on the path of a depth-first walk, first from the tasks without
// parents, then from the rest, in file order. Without them the graph is acyclic.
func (w *Workflow) backEdges() []edge {
	const unseen, open, done = 0, 1, 2
	state := make([]uint8, len(w.Tasks))
	var back []edge
	type frame struct{ task, next int32 }
	var stack []frame
	walk := func(root int32) {
		stack = append(stack[:0], frame{task: root})
		state[root] = open
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			children := w.Tasks[f.task].Children
			if int(f.next) == len(children) {
				state[f.task] = done
				stack = stack[:len(stack)-1]
				continue
			}
			c := children[f.next]
			f.next++
			switch state[c] {
			case unseen:
				state[c] = open
				stack = append(stack, frame{task: c})
			case open:
				back = append(back, edge{parent: f.task, child: c})
			}
		}
	}
	for _, roots := range []bool{true, false} {
		for i := range w.Tasks {
			if state[i] == unseen && (!roots || len(w.Tasks[i].Parents) == 0) {
				walk(int32(i))
			}
		}
	}
	return back
}

// Stats are the figures of a workflow.
type Stats struct {
	Tasks     int `json:"tasks"`
	Kinds     int `json:"types"`
	Edges     int `json:"edges"`
	FileEdges int `json:"file_edges"` // of the Edges: only implied by files
	// number of levels, and of tasks on the largest; of a cyclic graph, without tasks that only cycles lead to
	Levels              int            `json:"levels"`
	Width               int            `json:"width"`
	Components          int            `json:"components"`
	Cyclic              bool           `json:"-"`
	RuntimeSeconds      float64        `json:"runtime_s"` // sum over the tasks that have one
	CriticalPathSeconds float64        `json:"-"`         // longest path by runtime; NaN where the graph is cyclic
	Files               int            `json:"files"`
	Sized               int            `json:"sized_files"`
	Bytes               int64          `json:"bytes"` // sum over the files that have a size; saturating
	Known               map[string]int `json:"known"` // tasks, by field
}

// fieldNames are the names of fields, wherever gantry prints or logs them, from the lowest flag on.
var fieldNames = [...]string{"runtime", "cores", "memory", "avg-cpu", "read-bytes", "written-bytes", "command", "image"}

// Each lists the single fields in the order of their declaration.
func (Fields) Each() []Fields {
	all := make([]Fields, len(fieldNames))
	for i := range all {
		all[i] = 1 << i
	}
	return all
}

// String lists the names of a set of fields, comma separated.
func (f Fields) String() string {
	var names []string
	for i, name := range fieldNames {
		if f.Has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// Stats computes the figures in time proportional to tasks and edges.
func (w *Workflow) Stats() Stats {
	s := Stats{Tasks: len(w.Tasks), FileEdges: w.FileEdges, Files: len(w.Files), Known: map[string]int{}}
	for _, name := range fieldNames {
		s.Known[name] = 0
	}
	kinds := map[string]bool{}
	var total float64 // of nanoseconds: whole numbers, exact up to 104 days, then to 16 digits
	for i := range w.Tasks {
		t := &w.Tasks[i]
		kinds[t.Kind] = true
		s.Edges += len(t.Parents)
		total += float64(t.Runtime)
		for i, name := range fieldNames {
			if t.Known.Has(1 << i) {
				s.Known[name]++
			}
		}
	}
	s.Kinds, s.RuntimeSeconds = len(kinds), total/1e9
	for i := range w.Files {
		if w.Files[i].Program() != "" { // of a catalog
			s.Files--
		} else if f := &w.Files[i]; f.Sized {
			s.Sized++
			if s.Bytes += f.Size; s.Bytes < 0 {
				s.Bytes = math.MaxInt64
			}
		}
	}
	level, cyclic := w.levels()
	s.Cyclic = cyclic
	width := make([]int, len(w.Tasks)+1)
	for _, l := range level {
		if l >= 0 {
			width[l]++
		}
	}
	for l, n := range width {
		if n > 0 {
			s.Levels, s.Width = l+1, max(s.Width, n)
		}
	}
	s.Components = w.components()
	if cyclic {
		s.CriticalPathSeconds = math.NaN()
	} else {
		s.CriticalPathSeconds = w.criticalPath() / 1e9
	}
	return s
}

// criticalPath is the longest path by runtime, in nanoseconds.
func (w *Workflow) criticalPath() float64 {
	longest, end := 0.0, make([]float64, len(w.Tasks))
	for _, t := range w.Order() {
		end[t] += max(0, float64(w.Tasks[t].Runtime)) // check reports figures of files with negative runtimes too
		longest = max(longest, end[t])
		for _, c := range w.Tasks[t].Children {
			end[c] = max(end[c], end[t])
		}
	}
	return longest
}

// components counts the parts of the graph that no edge joins.
func (w *Workflow) components() int {
	root := make([]int32, len(w.Tasks))
	for i := range root {
		root[i] = int32(i)
	}
	find := func(t int32) int32 {
		for root[t] != t {
			root[t] = root[root[t]]
			t = root[t]
		}
		return t
	}
	n := len(w.Tasks)
	for i := range w.Tasks {
		for _, p := range w.Tasks[i].Parents {
			if a, b := find(int32(i)), find(p); a != b {
				root[max(a, b)] = min(a, b)
				n--
			}
		}
	}
	return n
}
