package load_test

import (
	"os"
	"testing"

	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace/scenario"
)

// processors is a platform of n processors of speed 1.
func processors(n int) *planner.Platform {
	p := &planner.Platform{}
	for i := range n {
		p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(i), Speed: 1, Capacity: unit.Vector{unit.CPU: 1000,
			unit.Memory: unit.Unlimited, unit.Disk: unit.Unlimited}})
	}
	return p
}

func open(t testing.TB, path string) *scenario.Workload {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	w, err := scenario.ReadWorkload(f, path)
	must(t, err)
	return w
}
