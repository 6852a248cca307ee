package generate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gantry/trace"
)

type dag struct {
	*rand.Rand
	bare  bool
	tick  time.Duration // resolution of runtimes
	tasks []trace.Task
	files []trace.File
	edges [][2]int32 // from parent to child, which may be a task that is made later
	in    [][2]int32 // task and file
}

// normal is a normal value of the given mean and VARIANCE, drawn again until it is within half the mean of the mean;
// after 100 draws, the mean.
func (g *dag) normal(mean, variance float64) float64 {
	sd := math.Sqrt(variance)
	for range 100 {
		if d := sd * g.NormFloat64(); math.Abs(d) <= mean/2 {
			return mean + d
		}
	}
	return mean
}

// bytes is normal, cut to whole bytes.
func (g *dag) bytes(mean, variance float64) int64 { return int64(g.normal(mean, variance)) }

// between is a uniform integer in [lo, hi), lo if there is none.
func (g *dag) between(lo, hi int64) int64 {
	if hi <= lo {
		return lo
	}
	return lo + g.Int64N(hi-lo)
}

// about is a uniform integer within the share t of mean.
func (g *dag) about(mean, t float64) int64 {
	return g.between(int64(math.Ceil(mean*(1-t))), int64(math.Floor(mean*(1+t))))
}

// split cuts total into n positive parts, each near total/n: the n-1 cuts are moved by up to half the share tol of a
// part. total is at least n.
func (g *dag) split(n int, total int64, tol float64) []int64 {
	parts := make([]int64, n)
	width := total / int64(n)
	for range 100 {
		last, ok := int64(0), true
		for i := range n {
			cut := total
			if i < n-1 {
				cut = int64(i+1)*total/int64(n) + int64((g.Float64()-0.5)*tol*float64(width))
			}
			parts[i] = cut - last
			ok = ok && parts[i] > 0
			last = cut
		}
		if ok {
			return parts
		}
	}
	for i := range parts {
		parts[i] = width
	}
	parts[n-1] = total - int64(n-1)*width
	return parts
}

// windows returns n integers in 1..most that sum to total, every such choice equally likely: n-1 different cuts, drawn
// again where a part is too large; after 100 draws, equal parts.
func (g *dag) windows(n int, total, most int64) []int64 {
	parts := make([]int64, n)
	for range 100 {
		cuts := append(distinct(n-1, func() uint64 { return 1 + g.Uint64N(uint64(total)-1) }), uint64(total))
		last, ok := uint64(0), true
		for i, c := range cuts {
			parts[i] = int64(c - last)
			ok = ok && parts[i] <= most
			last = c
		}
		if ok {
			return parts
		}
	}
	for i := range parts {
		parts[i] = total*int64(i+1)/int64(n) - total*int64(i)/int64(n)
	}
	return parts
}

// distinct returns n different draws, ascending.
func distinct(n int, draw func() uint64) []uint64 {
	set := make([]uint64, 0, n+1)
	for len(set) < n {
		for range n - len(set) {
			set = append(set, draw())
		}
		slices.Sort(set)
		set = slices.Compact(set)
	}
	return set
}

// task adds a task of a type; a runtime in seconds.
func (g *dag) task(kind string, seconds float64) int32 {
	n := len(g.tasks)
	g.tasks = append(g.tasks, trace.Task{})
	t := &g.tasks[n]
	t.Name, t.Kind, t.Retries, t.Known, t.Runtime = kind, kind, -1, trace.Runtime, g.rounded(seconds)
	return int32(n)
}

func (g *dag) runs(task int32, seconds float64) { g.tasks[task].Runtime = g.rounded(seconds) }

func (g *dag) rounded(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds*float64(time.Second)/float64(g.tick))) * g.tick
}

// file adds a file; without files it is -1, which reads, writes and link pass over.
func (g *dag) file(size int64, name string, args ...any) int32 {
	if g.bare {
		return -1
	}
	g.files = append(g.files, trace.File{Name: fmt.Sprintf(name, args...), Size: size, Sized: true, Producer: -1})
	return int32(len(g.files) - 1)
}

func (g *dag) reads(task int32, files ...int32) {
	for _, f := range files {
		if f >= 0 {
			g.in = append(g.in, [2]int32{task, f})
		}
	}
}

func (g *dag) writes(task int32, files ...int32) {
	for _, f := range files {
		if f >= 0 && g.files[f].Producer < 0 {
			g.files[f].Producer = task
			g.tasks[task].Outputs = append(g.tasks[task].Outputs, f)
		}
	}
}

// link passes files from a task to one that depends on it.
func (g *dag) link(parent, child int32, files ...int32) {
	g.edges = append(g.edges, [2]int32{parent, child})
	g.writes(parent, files...)
	g.reads(child, files...)
}

func (g *dag) workflow(name string, tasks int, source string) *trace.Workflow {
	for _, e := range g.edges {
		parent, child := &g.tasks[e[0]], &g.tasks[e[1]]
		parent.Children, child.Parents = append(parent.Children, e[1]), append(child.Parents, e[0])
	}
	for _, in := range g.in {
		t := &g.tasks[in[0]]
		t.Inputs = append(t.Inputs, in[1])
	}
	for i := range g.tasks {
		t := &g.tasks[i]
		t.ID = fmt.Sprintf("ID%05d", i)
		slices.Sort(t.Parents)
		slices.Sort(t.Children)
	}
	return &trace.Workflow{Name: name, Label: label(name, tasks), Source: source, Format: trace.DAX, Version: "2.1",
		Tasks: g.tasks, Files: g.files}
}

func label(name string, tasks int) string { return fmt.Sprint(name, "_", tasks) }
