package executor_test

import (
	"math/rand/v2"
	"testing"

	"gantry/executor/oracletest"
)

// lateOf returns how many workflows a policy has late.
func lateOf(t *testing.T, in oracletest.Instance, spec string) int {
	t.Helper()
	course, err := oracletest.Simulate(in, spec)
	if err != nil {
		t.Fatalf("%s: %v\n%s", spec, err, in)
	}
	return course.Late
}

// Tasks of several sizes in one pool are planned as tightly as greedy placement runs them: over these loads rm-dcwf has
// fewer workflows late than edf, which plans nothing ahead, and a node more makes fewer late. Single instances go the
// other way, as of any list scheduling.
func TestTasksOfSeveralSizesArePlannedTightly(t *testing.T) {
	for name, shape := range map[string]oracletest.Shape{
		"cores":            {Sizes: true, Released: true, Dummies: true},
		"cores and memory": {Sizes: true, Memory: true, Released: true, Dummies: true},
		"speeds":           {Sizes: true, Memory: true, Released: true, Speeds: []float64{0.5, 1, 1.5}},
		"wrong estimates":  {Sizes: true, Memory: true, Released: true, Wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, spec := range []string{"rm-dcwf:pd-sl-tsp1", "rm-dcwf:ed-sl-tsp2"} {
				late, greedy, added := 0, 0, 0
				beaten, worse := 0, 0
				for seed := range oracletest.Seeds(200) {
					in := oracletest.Draw(rand.New(rand.NewPCG(seed, 22)), shape)
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
