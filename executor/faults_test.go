package executor_test

import (
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/scenario"
)

// One node of speed 1, a task of 10 s, a loss of 5 s: the task runs again when the node is back, and files stay.
func TestALostNodeReturns(t *testing.T) {
	p := &planner.Platform{Groups: []string{"g"}, Bandwidth: [][]unit.BytesPerSecond{{0}}, Latency: [][]int64{{0}},
		Nodes: []planner.Node{{Name: "n", Capacity: unit.Vector{1000, 1 << 30, unit.Unlimited}, Speed: 1}}}
	w := &trace.Workflow{Name: "w", Label: "w", Tasks: []trace.Task{{ID: "a", Kind: "k", Cores: 1, Retries: -1,
		Runtime: 10 * time.Second}}}
	spec := &scenario.Faults{LossEvery: 12 * time.Second, LossFor: 5 * time.Second}
	for seed := uint64(1); ; seed++ {
		e := enginetest.New(t, p, enginetest.Policy(t, "cpp"), executor.Submission{Name: "w", Workflow: w})
		e.Faults = executor.NewFaults(spec, 1, seed, p)
		var changes []planner.Event
		ends := map[planner.Outcome][]planner.Time{}
		e.Watch = func(v planner.View, events []planner.Event, _ []*executor.Admission) {
			for _, ev := range events {
				switch b := ev.Body.(type) {
				case planner.NodeChanged:
					changes = append(changes, ev)
				case *planner.AttemptExited:
					ends[b.Outcome] = append(ends[b.Outcome], ev.At)
				}
			}
		}
		enginetest.Run(t, e)
		if len(ends[planner.Lost]) != 1 {
			continue
		}
		lost := ends[planner.Lost][0]
		if want := lost.Add(15 * time.Second); len(changes) != 3 || changes[0].At != lost || changes[1].At != lost ||
			changes[2].At != lost.Add(5*time.Second) || ends[planner.OK][0] != want {
			t.Errorf("seed %d: ends %v, changes %+v, want the end at %v", seed, ends, changes, want)
		}
		return
	}
}

func TestSlowNodesAreAShareOfAll(t *testing.T) {
	p := &planner.Platform{Nodes: make([]planner.Node, 8)}
	for i := range p.Nodes {
		p.Nodes[i].Speed = 2
	}
	seen := map[int]bool{}
	for seed := uint64(1); seed <= 50; seed++ {
		slow := 0
		for i, n := range executor.SlowNodes(&scenario.Faults{SlowShare: 0.25, SlowSpeed: 0.5}, seed, p).Nodes {
			if n.Speed == 1 {
				slow++
				seen[i] = true
			}
		}
		if slow != 2 {
			t.Errorf("seed %d: %d of 8 nodes are slow, want 2", seed, slow)
		}
	}
	if len(seen) != 8 || p.Nodes[0].Speed != 2 {
		t.Errorf("nodes %v are ever slow; the planner's platform has speed %v", seen, p.Nodes[0].Speed)
	}
}

// A task that cannot be done between losses ends the run, and does not go on for ever.
func TestLossesWithoutEndEndTheRun(t *testing.T) {
	p := &planner.Platform{Groups: []string{"g"}, Bandwidth: [][]unit.BytesPerSecond{{0}}, Latency: [][]int64{{0}},
		Nodes: []planner.Node{{Name: "n", Capacity: unit.Vector{1000, 1 << 30, unit.Unlimited}, Speed: 1}}}
	w := &trace.Workflow{Name: "w", Label: "w", Tasks: []trace.Task{{ID: "a", Kind: "k", Cores: 1, Retries: -1,
		Runtime: time.Hour}}}
	e := enginetest.New(t, p, enginetest.Policy(t, "cpp"), executor.Submission{Name: "w", Workflow: w})
	e.Store = nil
	e.Faults = executor.NewFaults(&scenario.Faults{LossEvery: time.Second, LossFor: time.Second}, 1, 1, p)
	if _, err := e.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "a task was lost 10000 times") {
		t.Errorf("it ends with %v", err)
	}
}
