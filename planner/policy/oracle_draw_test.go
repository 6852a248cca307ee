package policy_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gantry/planner"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
)

// Shape is the shape of drawn instances. Runtimes and instants are multiples of 3 s from a small range, so that ties,
// releases at completions and arrivals at completions are common.
type Shape struct {
	Tasks    int       // at most, of all workflows together; 0: 30
	Nodes    int       // at most; 0: 4
	Cores    int64     // of a node, at most; 0: 4
	Sizes    bool      // tasks need different numbers of cores
	Memory   bool      // tasks need different amounts of memory, of which nodes have little
	Speeds   []float64 // of nodes; nil: 1
	Groups   int       // of nodes; 0: 1
	Wrong    bool      // estimates are wrong in both directions
	Dummies  bool      // some tasks take no time
	Alone    bool      // all workflows arrive at once
	NoDue    bool      // no workflow has a deadline
	Released bool      // some workflows start later than they arrive
	// nodes are clusters of different sizes, with runs of their own, and copies between them take time
	Clusters bool
	Lost     bool // attempts of some tasks are lost
	Fails    bool // some tasks fail for good; with Lost, attempts of some fail that are tried again
	Held     bool // copies between nodes take time, within the stays that need them
	// copies between nodes take time, and overlap other work
	Overlapped bool
	Tenants    int // at most; with more than one, workflows are of all classes
	// tasks that leave their node for another task continue from a checkpoint, on any node
	Checkpoints bool
	From        uint64 // Compare draws instances from this one on
}

const step = 3 * time.Second

// sampled is a shape of instances, and how many of them a policy is compared with its oracle on.
type sampled struct {
	n int
	Shape
}

// faulty is a shape with attempts that are lost or fail, are made again, and with tasks that fail for good.
func faulty(s Shape) Shape {
	s.Lost, s.Fails = true, true
	return s
}

var speeds = []float64{0.5, 1, 1.5}

// Draw draws an instance. Every task fits some node.
func Draw(r *rand.Rand, s Shape) Instance {
	var in Instance
	cores := 1 + r.Int64N(cmp.Or(s.Cores, 4))
	for range 1 + r.IntN(cmp.Or(s.Nodes, 4)) {
		n := Node{Cores: 1000 * cores, Speed: 1}
		if s.Memory {
			n.Memory = 10e9
		}
		if len(s.Speeds) > 0 {
			n.Speed = s.Speeds[r.IntN(len(s.Speeds))]
		}
		if s.Groups > 1 {
			n.Group = planner.GroupID(r.IntN(s.Groups))
		}
		in.Nodes = append(in.Nodes, n)
	}
	if s.Clusters {
		in.clusters(r, cores)
	}
	in.Held, in.Overlapped = s.Held || s.Overlapped, s.Overlapped
	if s.Checkpoints {
		in.Checkpoint = step
	}
	left := 1 + r.IntN(cmp.Or(s.Tasks, 30))
	at := unit.Time(0)
	for left > 0 {
		n := min(left, 1+r.IntN(8))
		left -= n
		w := Workflow{Arrive: at, Class: planner.Deadline}
		if s.Tenants > 1 {
			w.Tenant, w.Class = r.IntN(s.Tenants), []planner.Class{planner.Deadline, planner.Regular,
				planner.Low}[r.IntN(3)]
		}
		for i := range n {
			t := Task{Run: step * time.Duration(1+r.IntN(5)), Cores: 1000, Stage: 1}
			if s.Sizes {
				t.Cores = 1000 * (1 + r.Int64N(cores))
			}
			if s.Memory { // without, it would be given a share of its node's
				if t.Memory = 1e9; r.IntN(2) == 0 {
					t.Memory *= 1 + r.Int64N(9)
				}
			}
			switch {
			case s.Dummies && r.IntN(5) == 0:
				t.Run = 0
			case s.Wrong && r.IntN(2) == 0:
				t.Est = step * time.Duration(1+r.IntN(6))
			}
			if s.Lost && t.Run > 0 && r.IntN(4) == 0 {
				t.Lost = 1 + r.IntN(2)
			}
			t.Fail = s.Fails && t.Run > 0 && r.IntN(10) == 0
			t.Exits = s.Fails && t.Lost > 0 && r.IntN(2) == 0
			for q := range i {
				if r.IntN(3) == 0 {
					t.Parents = append(t.Parents, q)
				}
			}
			for _, q := range t.Parents {
				t.Stage = max(t.Stage, w.Tasks[q].Stage+1)
			}
			w.Tasks = append(w.Tasks, t)
		}
		if s.Released && r.IntN(2) == 0 {
			w.Release = at + unit.Time(r.IntN(8))*unit.Time(step)
		}
		if !s.NoDue && w.Class == planner.Deadline && (s.Tenants > 1 || r.IntN(10) > 0) {
			w.Due = max(at, w.Release) + unit.Time(1+r.IntN(14))*unit.Time(step)
		}
		if s.Clusters || in.Held {
			in.spread(r, &w)
		}
		in.Workflows = append(in.Workflows, w)
		if !s.Alone && r.IntN(3) > 0 {
			at += unit.Time(r.IntN(5)) * unit.Time(step)
		}
	}
	return in
}

// clusters makes the nodes clusters: all but the first may be narrower.
func (in *Instance) clusters(r *rand.Rand, cores int64) {
	in.Clusters = true
	if r.IntN(2) == 0 {
		in.Checkpoint = step * time.Duration(1+r.IntN(2))
	}
	for n := range in.Nodes {
		in.Nodes[n].Group = planner.GroupID(n)
		if n > 0 {
			in.Nodes[n].Cores = 1000 * (1 + r.Int64N(cores))
		}
	}
}

// spread gives half of the tasks runs by cluster, where there are any, and half output that their children read.
func (in *Instance) spread(r *rand.Rand, w *Workflow) {
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if t.Run == 0 {
			continue
		}
		if in.Clusters && r.IntN(2) == 0 {
			for range in.Nodes {
				t.On = append(t.On, step*time.Duration(1+r.IntN(8)))
			}
		}
		if r.IntN(2) == 0 {
			t.Copy = step * time.Duration(1+r.IntN(3))
		}
	}
}

// Compare draws n instances, see seedtest.Seeds, and compares a policy with its oracle on each: differ returns their
// disagreement, "" if there is none. The first disagreement is shrunk and reported.
func Compare(t *testing.T, n int, s Shape, differ func(Instance) (string, error)) {
	t.Helper()
	for seed := range seedtest.Seeds(t, n) {
		seed += s.From
		in := Draw(rand.New(rand.NewPCG(seed, 14)), s)
		what, err := differ(in)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, in)
		}
		if what == "" {
			continue
		}
		small := Shrink(in, func(in Instance) bool {
			what, err := differ(in)
			return err == nil && what != ""
		})
		what, _ = differ(small)
		t.Fatalf("seed %d, shrunk: %s\n%s", seed, what, small)
	}
}

// Shrink makes an instance smaller as long as fails holds of it: fewer workflows, tasks, nodes and edges, then simpler
// values. It tries at most a few thousand instances.
func Shrink(in Instance, fails func(Instance) bool) Instance {
	tries := 0
	for again := true; again; {
		again = false
		for _, smaller := range candidates(in) {
			if tries++; tries > 5000 {
				return in
			}
			if smaller.sound() && fails(smaller) {
				in, again = smaller, true
				break
			}
		}
	}
	return in
}

// sound reports whether every task fits some node and there is something to run.
func (in *Instance) sound() bool {
	for w := range in.Workflows {
		for _, t := range in.Workflows[w].Tasks {
			if !slices.ContainsFunc(in.Nodes, func(n Node) bool {
				return t.Cores <= n.Cores && (n.Memory == 0 || t.Memory <= n.Memory)
			}) {
				return false
			}
		}
		if len(in.Workflows[w].Tasks) == 0 {
			return false
		}
	}
	return len(in.Workflows) > 0
}

// candidates are instances that are a little simpler than one, the much simpler ones first.
func candidates(in Instance) (out []Instance) {
	edit := func(change func(*Instance)) {
		c := in.clone()
		change(&c)
		out = append(out, c)
	}
	for w := range in.Workflows {
		edit(func(c *Instance) { c.Workflows = slices.Delete(c.Workflows, w, w+1) })
	}
	for w := range in.Workflows {
		for i := range in.Workflows[w].Tasks {
			edit(func(c *Instance) { c.Workflows[w].drop(i) })
		}
	}
	for n := range in.Nodes {
		edit(func(c *Instance) { c.dropNode(n) })
	}
	for w := range in.Workflows {
		flow := &in.Workflows[w]
		for i := range flow.Tasks {
			for k := range flow.Tasks[i].Parents {
				edit(func(c *Instance) {
					t := &c.Workflows[w].Tasks[i]
					t.Parents = slices.Delete(t.Parents, k, k+1)
				})
			}
		}
	}
	for n := range in.Nodes {
		simpler(edit, in.Nodes[n].Speed, 1, func(c *Instance, v float64) { c.Nodes[n].Speed = v })
		simpler(edit, in.Nodes[n].Memory, 0, func(c *Instance, v int64) { c.Nodes[n].Memory = v })
		if !in.Clusters { // which are groups of their own
			simpler(edit, in.Nodes[n].Group, 0, func(c *Instance, v planner.GroupID) { c.Nodes[n].Group = v })
		}
		less(edit, in.Nodes[n].Cores, 1000, func(c *Instance, v int64) { c.Nodes[n].Cores = v })
	}
	for w := range in.Workflows {
		flow := &in.Workflows[w]
		if w == 0 || in.Workflows[w-1].Arrive < flow.Arrive {
			less(edit, flow.Arrive, unit.Time(step), func(c *Instance, v unit.Time) { c.Workflows[w].Arrive = v })
		}
		simpler(edit, flow.Release, 0, func(c *Instance, v unit.Time) { c.Workflows[w].Release = v })
		simpler(edit, flow.Due, 0, func(c *Instance, v unit.Time) { c.Workflows[w].Due = v })
		less(edit, flow.Release, unit.Time(step), func(c *Instance, v unit.Time) { c.Workflows[w].Release = v })
		for i := range flow.Tasks {
			t := &flow.Tasks[i]
			simpler(edit, t.Fail, false, func(c *Instance, v bool) { c.Workflows[w].Tasks[i].Fail = v })
			simpler(edit, t.Lost, 0, func(c *Instance, v int) { c.Workflows[w].Tasks[i].Lost = v })
			simpler(edit, t.Exits, false, func(c *Instance, v bool) { c.Workflows[w].Tasks[i].Exits = v })
			simpler(edit, t.Est, 0, func(c *Instance, v time.Duration) { c.Workflows[w].Tasks[i].Est = v })
			if t.Memory > 0 {
				simpler(edit, t.Memory, 1e9, func(c *Instance, v int64) { c.Workflows[w].Tasks[i].Memory = v })
			}
			simpler(edit, t.Cores, 1000, func(c *Instance, v int64) { c.Workflows[w].Tasks[i].Cores = v })
			simpler(edit, t.Stage, 1, func(c *Instance, v int32) { c.Workflows[w].Tasks[i].Stage = v })
			if t.On != nil {
				edit(func(c *Instance) { c.Workflows[w].Tasks[i].On = nil })
			}
			if t.Copy > 0 {
				simpler(edit, t.Copy, 0, func(c *Instance, v time.Duration) { c.Workflows[w].Tasks[i].Copy = v })
			}
			for n := range t.On {
				if t.On[n] > step {
					less(edit, t.On[n], step, func(c *Instance, v time.Duration) { c.Workflows[w].Tasks[i].On[n] = v })
				}
			}
			if t.Run > step {
				less(edit, t.Run, step, func(c *Instance, v time.Duration) { c.Workflows[w].Tasks[i].Run = v })
			}
		}
	}
	return out
}

// dropNode takes a node out.
func (in *Instance) dropNode(n int) {
	in.Nodes = slices.Delete(in.Nodes, n, n+1)
	for i := range in.Nodes {
		if in.Clusters {
			in.Nodes[i].Group = planner.GroupID(i)
		}
	}
	for w := range in.Workflows {
		for i := range in.Workflows[w].Tasks {
			if t := &in.Workflows[w].Tasks[i]; t.On != nil {
				t.On = slices.Delete(t.On, n, n+1)
			}
		}
	}
}

// simpler tries a value.
func simpler[V comparable](edit func(func(*Instance)), is, wanted V, set func(*Instance, V)) {
	if is != wanted {
		edit(func(c *Instance) { set(c, wanted) })
	}
}

// less tries a value by one step less.
func less[V ~int64](edit func(func(*Instance)), is, by V, set func(*Instance, V)) {
	if is > 0 && is >= by {
		edit(func(c *Instance) { set(c, is-by) })
	}
}

// drop takes a task out; its children become those of its parents.
func (w *Workflow) drop(i int) {
	gone := w.Tasks[i]
	w.Tasks = slices.Delete(w.Tasks, i, i+1)
	for k := i; k < len(w.Tasks); k++ {
		var parents []int
		for _, q := range w.Tasks[k].Parents {
			switch {
			case q == i:
				parents = append(parents, gone.Parents...)
			case q > i:
				parents = append(parents, q-1)
			default:
				parents = append(parents, q)
			}
		}
		slices.Sort(parents)
		w.Tasks[k].Parents = slices.Compact(parents)
	}
}
