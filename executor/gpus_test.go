package executor_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
	"gantry/trace"
)

// GPUs are planned as memory is: tasks that need GPUs run as tasks do that need as many GB of nodes with as many.
func TestGPUsArePlannedAsMemoryIs(t *testing.T) {
	for seed := range seedtest.Seeds(t, 12) {
		for _, row := range policy.Table() {
			spec := row.Name
			if spec == "capacity" { // it counts memory, unless it is told otherwise
				spec = "capacity:by=dominant"
			}
			var gave [2][]string
			for i, d := range []unit.Dim{unit.Memory, unit.GPU} {
				r := rand.New(rand.NewPCG(seed, 6))
				p := randomPlatform(r)
				for n := range p.Nodes {
					node, count := &p.Nodes[n], int64(2+r.IntN(3))
					node.Keeps = unit.Of(unit.Memory, unit.GPU)
					node.Capacity = unit.Vector{unit.CPU: node.Capacity[unit.CPU], unit.Memory: unit.Unlimited,
						unit.Disk: unit.Unlimited}
					if node.Capacity[d] = count << 30; d == unit.GPU {
						node.Capacity[d] = count * unit.WholeGPU
					}
				}
				e := enginetest.New(t, p, enginetest.Policy(t, spec))
				for k := range 3 {
					w := randomWorkflow(r, 12)
					for i := range w.Tasks {
						give(&w.Tasks[i], d, int32(1+r.IntN(2)))
					}
					e.Arrivals = append(e.Arrivals, executor.Submission{At: planner.Time(k) * 7e9,
						Name: fmt.Sprint("w", k), Workflow: w, Tenant: fmt.Sprint(k % 2), Class: planner.Class(k % 2)})
				}
				gave[i] = orders(t, e)
			}
			alike(t, fmt.Sprintf("%s, seed %d, memory and GPUs", spec, seed), gave)
		}
	}
}

// give has a task need so many GPUs, or GB of memory.
func give(t *trace.Task, d unit.Dim, count int32) {
	if t.MemoryBytes = 0; d == unit.GPU {
		t.GPUs = count * unit.WholeGPU
	} else {
		t.MemoryBytes = int64(count)<<30 - executor.EmulatorMemory
	}
}

// A task that asks for more GPUs than any node has is refused before anything starts, with the reason, or cut.
func TestTooManyGPUsAreRefused(t *testing.T) {
	p := &planner.Platform{Groups: []string{""}, Nodes: []planner.Node{
		{Name: "large", Capacity: unit.Vector{8000, 64 << 30, unit.Unlimited}, Speed: 1},
		{ID: 1, Name: "gpus", Capacity: unit.Vector{2000, 4 << 30, unit.Unlimited, 2000}, Speed: 1}}}
	for _, c := range []struct {
		cores float64
		gpus  int32
		fit   bool
		says  string
		need  unit.Vector
	}{
		{1, 2000, false, "", unit.Vector{1000, 2 << 30, 0, 2000}}, // its share of memory is that of the node with GPUs
		{1, 3000, false, "task a needs GPUs: 3, and no node that has its cores has more than 2; ask for less",
			unit.Vector{}},
		{4, 500, false, "needs GPUs: 0.5, and no node that has its cores has more than 0 (no CDI); ask for less",
			unit.Vector{}},
		{1, 3000, true, "", unit.Vector{1000, 2 << 30, 0, 2000}},
		{4, 1000, true, "", unit.Vector{4000, 32 << 30, 0, 0}},
	} {
		a := &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Fit: c.fit,
			NoGPUs: func() string { return "no CDI" }}
		sub := &executor.Submission{Name: "w", Workflow: &trace.Workflow{Tasks: []trace.Task{{ID: "a", Runtime: 1e9,
			Cores: c.cores, GPUs: c.gpus}}}}
		err := a.Check(sub)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if err != nil {
			continue
		}
		adm, err := a.Admit(sub, 0)
		if err != nil || adm.Arrived.Tasks[0].Need != c.need {
			t.Errorf("%+v: needs %v, %v", c, adm.Arrived.Tasks[0].Need, err)
		}
	}
	for _, rule := range []string{"", "x", "-1", "65", "1.5", "0.0001", "a=", "[=1"} {
		if executor.CheckGPUs(rule) == nil {
			t.Errorf("rule %q is taken", rule)
		}
	}
	if !slices.Equal([]int64{executor.GPUs([]string{"1", "m*=2", "mDiff=0"}, &trace.Task{ID: "x", Kind: "mDiff"}),
		executor.GPUs([]string{"1", "m*=0.5"}, &trace.Task{ID: "x", Kind: "mAdd"}),
		executor.GPUs([]string{"1"}, &trace.Task{ID: "x", GPUs: 3000})}, []int64{0, 500, 3000}) {
		t.Error("the last rule that matches counts, and the trace above all")
	}
}
