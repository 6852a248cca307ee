package executor_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
	"gantry/trace"
)

// The ten-task example of Topcuoglu, Hariri and Wu 2002, figure 2: costs by processor, and of communication by edge.
var (
	heftCosts = [][]int64{{14, 16, 9}, {13, 19, 18}, {11, 13, 19}, {13, 8, 17}, {12, 13, 10}, {13, 16, 9}, {7, 15, 11},
		{5, 11, 14}, {18, 12, 20}, {21, 7, 16}}
	heftEdges = [][3]int{{1, 2, 18}, {1, 3, 12}, {1, 4, 9}, {1, 5, 11}, {1, 6, 14}, {2, 8, 19}, {2, 9, 16}, {3, 7, 23},
		{4, 8, 27}, {4, 9, 23},
		{5, 9, 13}, {6, 8, 15}, {7, 10, 17}, {8, 10, 11}, {9, 10, 13}}
)

const second = int64(time.Second)

// The ten-task example of Arabnejad and Barbosa 2014, figure 1: costs by processor, and costs of communication by edge.
var (
	peftCosts = [][]int64{{22, 21, 36}, {22, 18, 18}, {32, 27, 43}, {7, 10, 4}, {29, 27, 35}, {26, 17, 24},
		{14, 25, 30}, {29, 23, 36}, {15, 21, 8}, {13, 16, 33}}
	peftEdges = [][3]int{{1, 2, 17}, {1, 3, 31}, {1, 4, 29}, {1, 5, 13}, {1, 6, 7}, {2, 8, 3}, {2, 9, 30}, {3, 7, 16},
		{4, 8, 11}, {4, 9, 7}, {5, 9, 57}, {6, 8, 5}, {7, 10, 9}, {8, 10, 42},
		{9, 10, 7}}
)

func example(costs [][]int64, edges [][3]int) *trace.Workflow {
	w := &trace.Workflow{Name: "example"}
	for i := range costs {
		w.Tasks = append(w.Tasks, trace.Task{ID: fmt.Sprint(i + 1), Kind: fmt.Sprint("t", i+1), Cores: 1, Retries: -1})
	}
	for _, e := range edges {
		p, c := int32(e[0]-1), int32(e[1]-1)
		w.Files = append(w.Files, trace.File{Name: fmt.Sprintf("f%d-%d", e[0], e[1]), Size: int64(e[2]) * 1000,
			Sized: true, Producer: p})
		f := int32(len(w.Files) - 1)
		w.Tasks[p].Outputs = append(w.Tasks[p].Outputs, f)
		w.Tasks[c].Inputs = append(w.Tasks[c].Inputs, f)
		w.Tasks[p].Children = append(w.Tasks[p].Children, c)
		w.Tasks[c].Parents = append(w.Tasks[c].Parents, p)
	}
	return w
}

func seconds(costs [][]int64) [][]int64 {
	out := make([][]int64, len(costs))
	for i := range costs {
		for _, c := range costs[i] {
			out[i] = append(out[i], c*second)
		}
	}
	return out
}

// stay is the course of a task in a simulation: its node, and times in seconds.
type stay struct {
	node       planner.NodeID
	start, end float64
}

func simulate(t *testing.T, p *planner.Platform, spec string, subs ...executor.Submission) (map[string]stay,
	executor.Result) {
	t.Helper()
	got := map[string]stay{}
	e := enginetest.New(t, p, enginetest.Policy(t, spec), subs...)
	tellExits(e, func(task string, a *planner.Attempt, x *planner.AttemptExited) {
		got[task] = stay{a.Node, x.Usage.Started.Seconds(), x.Usage.Ended.Seconds()}
	})
	return got, enginetest.Run(t, e)
}

func heftPlatform() *planner.Platform {
	p := &planner.Platform{Groups: []string{""}, Bandwidth: [][]unit.BytesPerSecond{{1000}}, Latency: [][]int64{{0}},
		Overlapped: true}
	for i := range 3 {
		p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(i), Name: fmt.Sprint("P", i+1),
			Capacity: unit.Vector{1000, unit.Unlimited, unit.Unlimited}, Speed: 1})
	}
	return p
}

// Makespans as published: HEFT's and CPOP's example by Topcuoglu et al. 2002, figures 2 and 3; PEFT's by Arabnejad and
// Barbosa 2014, figure 3, with HEFT and lookahead beside it.
func TestListSchedulersAsPublished(t *testing.T) {
	for _, c := range []struct {
		policy string
		costs  [][]int64
		edges  [][3]int
		want   float64
	}{
		{"heft", heftCosts, heftEdges, 80}, {"cpop", heftCosts, heftEdges, 86},
		{"heft", peftCosts, peftEdges, 133}, {"peft", peftCosts, peftEdges, 122},
		{"lookahead", peftCosts, peftEdges, 127},
	} {
		_, res := simulate(t, heftPlatform(), c.policy, executor.Submission{Name: "example",
			Workflow: example(c.costs, c.edges), Costs: seconds(c.costs)})
		if res.Ended.Seconds() != c.want {
			t.Errorf("%s: makespan %v, want %v", c.policy, res.Ended.Seconds(), c.want)
		}
	}
}

// listOracle is a schedule by the definitions of the papers, in whole seconds: nodes of one processor, costs by node,
// edges that take time between nodes. Edges go from lower to higher tasks.
type listOracle struct {
	costs [][]int64
	comm  map[[2]int]int64
	stays []stay
	done  []bool
	busy  [][][2]float64 // by node
}

func (o *listOracle) mean(t int) float64 {
	sum := 0.0
	for _, c := range o.costs[t] {
		sum += float64(c)
	}
	return sum / float64(len(o.costs[t]))
}

func (o *listOracle) up(t int) float64 {
	best := 0.0
	for e, c := range o.comm {
		if e[0] == t {
			best = max(best, float64(c)+o.up(e[1]))
		}
	}
	return best + o.mean(t)
}

func (o *listOracle) down(t int) float64 {
	best := 0.0
	for e, c := range o.comm {
		if e[1] == t {
			best = max(best, float64(c)+o.mean(e[0])+o.down(e[0]))
		}
	}
	return best
}

func (o *listOracle) oct(t, n int) float64 {
	worst := 0.0
	for e, c := range o.comm {
		if e[0] != t {
			continue
		}
		best := math.Inf(1)
		for m, cost := range o.costs[e[1]] {
			v := o.oct(e[1], m) + float64(cost)
			if m != n {
				v += float64(c)
			}
			best = min(best, v)
		}
		worst = max(worst, best)
	}
	return worst
}

// on is the earliest stay of t on n, in the first gap, after those parents that have places.
func (o *listOracle) on(t, n int) (start, end float64) {
	run := float64(o.costs[t][n])
	for e, c := range o.comm {
		if e[1] == t && o.done[e[0]] {
			at := o.stays[e[0]].end
			if int(o.stays[e[0]].node) != n {
				at += float64(c)
			}
			start = max(start, at)
		}
	}
	for moved := true; moved; {
		moved = false
		for _, b := range o.busy[n] {
			if start < b[1] && start+run > b[0] {
				start, moved = b[1], true
			}
		}
	}
	return start, start + run
}

func (o *listOracle) earliest(t int) (node int, end float64) {
	end = math.Inf(1)
	for n := range o.busy {
		if _, e := o.on(t, n); e < end {
			node, end = n, e
		}
	}
	return node, end
}

func (o *listOracle) put(t, n int) {
	start, end := o.on(t, n)
	o.stays[t], o.done[t] = stay{planner.NodeID(n), start, end}, true
	o.busy[n] = append(o.busy[n], [2]float64{start, end})
}

func (o *listOracle) path() (path []int, node int) {
	long := 0.0
	for t := range o.costs {
		long = max(long, o.up(t)+o.down(t))
	}
	for t := range o.costs { // of costs without ties the longest path is one
		if o.up(t)+o.down(t) > long-1e-6 {
			path = append(path, t)
		}
	}
	least := math.Inf(1)
	for n := range o.busy {
		sum := 0.0
		for _, t := range path {
			sum += float64(o.costs[t][n])
		}
		if sum < least {
			node, least = n, sum
		}
	}
	return path, node
}

// run schedules all tasks.
func (o *listOracle) run(rule string) {
	path, fast := o.path()
	for range o.costs {
		next, most := -1, math.Inf(-1)
		for t := range o.costs {
			free := !o.done[t]
			for e := range o.comm {
				free = free && (e[1] != t || o.done[e[0]])
			}
			if !free {
				continue
			}
			v := o.up(t)
			_, end := o.earliest(t)
			switch rule {
			case "peft":
				v = 0
				for n := range o.busy {
					v += o.oct(t, n)
				}
				v += 1e-6 * o.up(t) // ties
			case "cpop":
				v += o.down(t)
			case "min-min":
				v = -end
			case "max-min":
				v = end
			}
			if v > most {
				next, most = t, v
			}
		}
		node, least := -1, math.Inf(1)
		for n := range o.busy {
			_, v := o.on(next, n)
			switch rule {
			case "peft":
				v += o.oct(next, n) + 1e-6*v
			case "lookahead":
				v = o.worstChild(next, n) + 1e-6*v
			}
			if v < least {
				node, least = n, v
			}
		}
		if rule == "cpop" && slices.Contains(path, next) {
			node = fast
		}
		o.put(next, node)
	}
}

func (o *listOracle) worstChild(t, n int) float64 {
	_, last := o.on(t, n)
	o.put(t, n)
	for e := range o.comm {
		if e[0] == t {
			_, end := o.earliest(e[1])
			last = max(last, end)
		}
	}
	o.done[t], o.busy[n] = false, o.busy[n][:len(o.busy[n])-1]
	return last
}

func TestListSchedulersAgainstTheirDefinitions(t *testing.T) {
	for seed := range seedtest.Seeds(t, 40) {
		r := rand.New(rand.NewPCG(seed, 11))
		n := 3 + r.IntN(8)
		o := listOracle{comm: map[[2]int]int64{}}
		var edges [][3]int
		for i := range n {
			o.costs = append(o.costs, nil)
			for range 3 {
				o.costs[i] = append(o.costs[i], 1000+r.Int64N(100_000))
			}
			for p := range i {
				if r.IntN(3) == 0 {
					o.comm[[2]int{p, i}] = 1 + r.Int64N(100_000)
					edges = append(edges, [3]int{p + 1, i + 1, int(o.comm[[2]int{p, i}])})
				}
			}
		}
		for _, rule := range []string{"heft", "peft", "cpop", "lookahead", "min-min", "max-min"} {
			o.stays, o.done, o.busy = make([]stay, n), make([]bool, n), make([][][2]float64, 3)
			o.run(rule)
			got, _ := simulate(t, heftPlatform(), rule, executor.Submission{Name: "w",
				Workflow: example(o.costs, edges), Costs: seconds(o.costs)})
			for i, want := range o.stays {
				if got[fmt.Sprint(i+1)] != want {
					t.Fatalf("%s, seed %d: task %d: %+v, by the definition %+v", rule, seed, i+1, got[fmt.Sprint(i+1)],
						want)
				}
			}
		}
	}
}
