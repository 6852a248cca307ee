package policy_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"gantry/planner/seed/seedtest"
)

// lateOf returns how many workflows a policy has late.
func lateOf(t *testing.T, in Instance, spec string) int {
	t.Helper()
	course, err := Simulate(in, spec)
	if err != nil {
		t.Fatalf("%s: %v\n%s", spec, err, in)
	}
	return course.Late
}

// Tasks of several sizes in one pool are planned as tightly as greedy placement runs them: over these loads rm-dcwf has
// fewer workflows late than edf, which plans nothing ahead, and a node more makes fewer late. Single instances go the
// other way, as of any list scheduling.
func TestTasksOfSeveralSizesArePlannedTightly(t *testing.T) {
	for name, shape := range map[string]Shape{
		"cores":            {Sizes: true, Released: true, Dummies: true},
		"cores and memory": {Sizes: true, Memory: true, Released: true, Dummies: true},
		"speeds":           {Sizes: true, Memory: true, Released: true, Speeds: []float64{0.5, 1, 1.5}},
		"wrong estimates":  {Sizes: true, Memory: true, Released: true, Wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, spec := range []string{"rm-dcwf:pd-sl-tsp1", "rm-dcwf:ed-sl-tsp2"} {
				late, greedy, added := 0, 0, 0
				beaten, worse := 0, 0
				for seed := range seedtest.Same(t, 200) {
					in := Draw(rand.New(rand.NewPCG(seed, 22)), shape)
					n, e := lateOf(t, in, spec), lateOf(t, in, "edf")
					more := in
					more.Nodes = append(in.Nodes[:len(in.Nodes):len(in.Nodes)], in.Nodes[0])
					m := lateOf(t, more, spec)
					late, greedy, added = late+n, greedy+e, added+m
					if n > e {
						beaten++
					}
					if m > n {
						worse++
					}
				}
				t.Logf("%s: %d late, edf %d; with a node added %d; beaten by edf on %d of 200 instances, worse with "+
					"the node on %d", spec, late, greedy, added, beaten, worse)
				if late > greedy || added > late {
					t.Errorf("%s: %d late, edf %d; with a node added %d", spec, late, greedy, added)
				}
			}
		})
	}
}

// A task that needs much memory, and is the first to do so, moves no planned task to another node: those of before are
// packed as tightly as they can run.
func TestPackedTasksKeepTheirNodesWhenMemoryBecomesScarce(t *testing.T) {
	task := func(seconds, cores, gigabytes int64) []Task {
		return []Task{{Run: time.Duration(seconds) * time.Second, Cores: 1000 * cores,
			Memory: gigabytes * 1e9, Stage: 1}}
	}
	node := Node{Cores: 4000, Memory: 10e9, Speed: 1}
	in := Instance{Nodes: []Node{node, node}, Workflows: []Workflow{
		{Due: 18e9, Tasks: task(3, 4, 1)},
		{Release: 6e9, Tasks: task(9, 3, 1)},
		{Due: 27e9, Tasks: append(task(15, 1, 1), task(6, 1, 1)...)},
		{Arrive: 3e9, Tasks: task(3, 1, 8)},
	}}
	if late := lateOf(t, in, "rm-dcwf:ed-sl-tsp2"); late > 0 {
		t.Errorf("%d workflows are late, none has to be", late)
	}
}
