package executor_test

import (
	"context"
	"slices"
	"testing"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
)

// greedyPolicies decide for this instant only.
var greedyPolicies = []string{"gbf:pick=first", "cpp", "owm", "fdws", "hr", "fwp", "edf", "drf", "3dsf", "pds", "dla"}

// overlappedPlatform has nodes of one core in the racks given. What is copied to another rack takes a second, and
// another one for each megabyte, and overlaps other work.
func overlappedPlatform(racks ...planner.GroupID) *planner.Platform {
	p := &planner.Platform{Groups: []string{"g0", "g1"}, Overlapped: true,
		Bandwidth: [][]unit.BytesPerSecond{{0, 1e6}, {1e6, 0}}, Latency: [][]int64{{0, second}, {second, 0}}}
	for i, g := range racks {
		p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(i), Name: "xyz"[i : i+1], Group: g, Speed: 1,
			Capacity: unit.Vector{1000, unit.Unlimited, unit.Unlimited}})
	}
	return p
}

// reading lets a child of the first task of a workflow read a file that the first task writes, of that many megabytes.
func reading(w *trace.Workflow, child int32, megabytes int64) {
	f := int32(len(w.Files))
	w.Files = append(w.Files, trace.File{Name: w.Tasks[child].ID, Size: megabytes * 1e6, Sized: true})
	w.Tasks[0].Outputs, w.Tasks[child].Inputs = append(w.Tasks[0].Outputs, f), []int32{f}
}

// What a report of an independent check found: nodes that idle beside one that is promised, a task that overtakes one
// that was chosen before it, and one bound behind another although a node that has its data is idle before.
func TestPromisedNodesAreIdleForNobodyElse(t *testing.T) {
	inOrder := []string{"gbf:pick=first", "edf", "drf", "3dsf", "pds"}
	for _, c := range []struct {
		name     string
		policies []string
		racks    []planner.GroupID
		a        string
		reads    []int64 // megabytes of a's output, by task
		b        string  // arrives at 3 s
		want     map[string]stay
	}{
		{"m would run into c on y, and z is idle", greedyPolicies, []planner.GroupID{0, 1, 0}, "a=2 b=60 c=30; a>b a>c",
			[]int64{0, 0, 10}, "m=70",
			map[string]stay{"a": {0, 0, 2}, "b": {0, 2, 62}, "c": {1, 13, 43}, "m": {2, 3, 73}}},
		{"copies of e would come before those of c, which was chosen first", greedyPolicies, []planner.GroupID{0, 1},
			"a=2 b=60 c=30 e=29; a>b a>c a>e", []int64{0, 0, 10, 9}, "",
			map[string]stay{"a": {0, 0, 2}, "b": {0, 2, 62}, "c": {1, 13, 43}, "e": {1, 53, 82}}},
		{"e is not bound to y behind c, and takes x, which has its data", inOrder, []planner.GroupID{0, 1},
			"a=2 b=10 c=30 e=9; a>b a>c a>e", []int64{0, 0, 10, 12}, "",
			map[string]stay{"a": {0, 0, 2}, "b": {0, 2, 12}, "c": {1, 13, 43}, "e": {0, 12, 21}}},
	} {
		for _, spec := range c.policies {
			flow := dag("A", c.a)
			for i, megabytes := range c.reads {
				if megabytes > 0 {
					reading(flow, int32(i), megabytes)
				}
			}
			subs := []executor.Submission{{Name: "A", Workflow: flow}}
			if c.b != "" {
				subs = append(subs, executor.Submission{Name: "B", Workflow: dag("B", c.b), At: 3 * unit.Time(second)})
			}
			got, _ := simulate(t, overlappedPlatform(c.racks...), spec, subs...)
			for task, w := range c.want {
				if got[task] != w {
					t.Errorf("%s: %s: task %s: %+v, want %+v", c.name, spec, task, got[task], w)
				}
			}
		}
	}
}

// away loses node 1 as soon as a copy has come.
type away struct {
	executor.Runtime
	lost bool
}

func (a *away) Next(ctx context.Context, until planner.Time) ([]planner.Body, error) {
	bodies, err := a.Runtime.Next(ctx, until)
	if copied := slices.ContainsFunc(bodies, func(b planner.Body) bool {
		_, ok := b.(planner.FileAppeared)
		return ok
	}); copied && !a.lost {
		a.lost = true
		bodies = append([]planner.Body{planner.NodeChanged{Node: 1}}, bodies...)
	}
	return bodies, err
}

// A task that waits for its copies on a node which is lost is given another.
func TestPromisesOfALostNodeAreGivenUp(t *testing.T) {
	for _, spec := range greedyPolicies {
		flow := dag("A", "a=2 b=60 c=30; a>b a>c")
		reading(flow, 2, 10)
		p := overlappedPlatform(0, 1, 0)
		e := enginetest.New(t, p, enginetest.Policy(t, spec), executor.Submission{Name: "A", Workflow: flow})
		r := &away{Runtime: sim.New(sim.Config{Platform: p})}
		e.Runtime = r
		if res := enginetest.Run(t, e); !r.lost || res.Ended.Seconds() != 62 {
			t.Errorf("%s: lost %v, ended at %v s, want 62 s", spec, r.lost, res.Ended.Seconds())
		}
	}
}
