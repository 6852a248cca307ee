package executor_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"gantry/executor/oracletest"
	"gantry/planner/unit"
)

// canBeOnTime reports whether some workflows of a batch can be on time together, by trying the permutations of their
// tasks in which parents come before children, each task on every node, at its earliest instant there. Time is in
// steps of a second. A permutation is left when a workflow cannot be on time any more.
func canBeOnTime(in oracletest.Instance, set int) bool {
	type use struct{ cores, memory int64 }
	const horizon = 300
	var used [4][horizon]use
	type id struct{ f, i int }
	var tasks []id
	best := map[id]int{}
	run := func(x id, n int) int {
		return int(float64(in.Workflows[x.f].Tasks[x.i].Run) / in.Nodes[n].Speed / float64(time.Second))
	}
	fits := func(x id, n int) bool {
		t, node := &in.Workflows[x.f].Tasks[x.i], in.Nodes[n]
		return t.Cores <= node.Cores && t.Memory <= cmp.Or(node.Memory, unit.Unlimited)
	}
	for f := range in.Workflows {
		for i := range in.Workflows[f].Tasks {
			if x := (id{f, i}); set>>f&1 == 1 {
				tasks = append(tasks, x)
				best[x] = horizon
				for n := range in.Nodes {
					if fits(x, n) {
						best[x] = min(best[x], run(x, n))
					}
				}
			}
		}
	}
	due := func(f int) int { return int(cmp.Or(in.Workflows[f].Due, horizon*1e9) / 1e9) }
	end := map[id]int{}
	seen := map[string]bool{}
	node := map[id]int{}
	var try func(left int) bool
	try = func(left int) bool {
		if left == 0 {
			return true
		}
		key := make([]byte, 0, 2*len(tasks)) // one schedule comes about by many permutations
		soonest := map[id]int{}
		for _, x := range tasks {
			e, placed := end[x]
			if !placed {
				for _, q := range in.Workflows[x.f].Tasks[x.i].Parents {
					e = max(e, soonest[id{x.f, q}])
				}
				e += best[x]
			}
			if soonest[x] = e; e > due(x.f) {
				return false
			}
			if placed {
				key = append(key, byte(e), byte(node[x]))
			} else {
				key = append(key, 255, 255)
			}
		}
		if seen[string(key)] {
			return false
		}
		seen[string(key)] = true
	tasks:
		for _, x := range tasks {
			t := &in.Workflows[x.f].Tasks[x.i]
			if _, placed := end[x]; placed {
				continue
			}
			ready := 0
			for _, q := range t.Parents {
				e, placed := end[id{x.f, q}]
				if !placed {
					continue tasks
				}
				ready = max(ready, e)
			}
			for n, host := range in.Nodes {
				if !fits(x, n) {
					continue
				}
				from, lasts := ready, run(x, n)
				for at := from; at < from+lasts && from+lasts <= due(x.f); at++ {
					if u := used[n][at]; u.cores+t.Cores > host.Cores || host.Memory > 0 &&
						u.memory+t.Memory > host.Memory {
						from = at + 1
					}
				}
				if from+lasts > due(x.f) {
					continue
				}
				for at := from; at < from+lasts; at++ {
					used[n][at] = use{used[n][at].cores + t.Cores, used[n][at].memory + t.Memory}
				}
				end[x], node[x] = from+lasts, n
				if try(left - 1) {
					return true
				}
				delete(end, x)
				for at := from; at < from+lasts; at++ {
					used[n][at] = use{used[n][at].cores - t.Cores, used[n][at].memory - t.Memory}
				}
			}
		}
		return false
	}
	return try(len(tasks))
}

// fewestLate is the smallest number of late workflows of a batch, if that is less than most, else most.
func fewestLate(in oracletest.Instance, most int) int {
	n := len(in.Workflows)
	for set := range 1 << n {
		late := n
		for f := range n {
			late -= set >> f & 1
		}
		if late == most-1 && canBeOnTime(in, set) {
			return fewestLate(in, late)
		}
	}
	return most
}

// On a batch of few tasks mrcp-rm has as few workflows late as can be: an exhaustive search over permutations is the
// oracle.
func TestMRCPReachesTheOptimumOnBatches(t *testing.T) {
	for name, shape := range map[string]oracletest.Shape{
		"unit slots": {Alone: true, Tasks: 13, Nodes: 3, Cores: 2},
		"sizes":      {Alone: true, Tasks: 11, Nodes: 3, Sizes: true},
		"memory":     {Alone: true, Tasks: 11, Nodes: 3, Sizes: true, Memory: true},
		"speeds":     {Alone: true, Tasks: 10, Nodes: 3, Cores: 2, Speeds: []float64{0.5, 1, 1.5}},
	} {
		t.Run(name, func(t *testing.T) {
			oracletest.Compare(t, 100, shape, func(in oracletest.Instance) (string, error) {
				got, err := oracletest.Simulate(in, "mrcp-rm")
				if err != nil {
					return "", err
				}
				if least := fewestLate(in, got.Late); least < got.Late {
					return fmt.Sprintf("%d workflows are late, %d have to be", got.Late, least), nil
				}
				return "", nil
			})
		})
	}
}

// On a batch nobody has fewer workflows late than mrcp-rm.
func TestMRCPLosesToNobodyOnABatch(t *testing.T) {
	won := 0
	for name, shape := range map[string]oracletest.Shape{
		"unit slots":            {Alone: true, Tasks: 15, Dummies: true},
		"sizes":                 {Alone: true, Tasks: 15, Sizes: true, Memory: true},
		"speeds":                {Alone: true, Tasks: 15, Speeds: []float64{0.5, 1, 1.5}},
		"large":                 {Alone: true, Tasks: 60},
		"large, several speeds": {Alone: true, Tasks: 60, Speeds: []float64{0.5, 1, 1.5}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range oracletest.Seeds(100) {
				in := oracletest.Draw(rand.New(rand.NewPCG(seed, 44)), shape)
				n, least := lateOf(t, in, "mrcp-rm"), 1<<30
				for _, spec := range []string{"rm-dcwf", "edf", "fifo", "rm-dcwf:ed-sl-tsp2"} {
					least = min(least, lateOf(t, in, spec))
				}
				if n > least {
					t.Errorf("seed %d: %d late, another policy has %d", seed, n, least)
				}
				if n < least {
					won++
				}
			}
		})
	}
	if won < int(oracletest.Seeds(10)) {
		t.Errorf("mrcp-rm had fewer late than all others only %d times", won)
	}
}
