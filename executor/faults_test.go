package executor_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/scenario"
)

// Under faults every task is done in the end, whatever the policy, and two runs are the same.
func TestEveryPolicySurvivesFaults(t *testing.T) {
	faults := &scenario.Faults{LossEvery: 20 * time.Second, LossFor: 5 * time.Second, TaskFailure: 0.2}
	for seed := range seedtest.Seeds(t, 12, 324) {
		for _, row := range policy.Table() {
			run := func() record {
				r := rand.New(rand.NewPCG(seed, 3))
				p := randomPlatform(r)
				e := enginetest.New(t, p, enginetest.Policy(t, row.Name))
				for i := range 3 {
					e.Arrivals = append(e.Arrivals, executor.Submission{At: planner.Time(i) * 7e9,
						Name: fmt.Sprint("w", i), Workflow: randomWorkflow(r, 12), Tenant: "t"})
				}
				e.Faults = executor.NewFaults(faults, 1, seed, p)
				var rec record
				rec.watch(e)
				if res, err := e.Run(t.Context()); err != nil || len(res.Refused) > 0 {
					t.Fatalf("%s, seed %d: %v %v", row.Name, seed, err, res.Refused)
				}
				verify(t, row.Name, seed, p, &rec)
				return rec
			}
			rec := run()
			if again := run(); !reflect.DeepEqual(rec.events, again.events) {
				t.Fatalf("%s, seed %d: two runs of the same input differ", row.Name, seed)
			}
			done, lost := map[planner.TaskID]bool{}, 0
			of := map[planner.AttemptID]planner.TaskID{}
			for _, ev := range rec.events {
				switch b := ev.Body.(type) {
				case *planner.PlanCommitted:
					for _, o := range b.Orders {
						of[o.Attempt] = o.Task
					}
				case *planner.AttemptExited:
					if b.Outcome == planner.Lost {
						lost++
					}
					done[of[b.Attempt]] = b.Outcome == planner.OK
				}
			}
			for _, task := range rec.tasks {
				if !done[task.ID] {
					t.Fatalf("%s, seed %d: task %d is not done", row.Name, seed, task.ID)
				}
			}
			if lost == 0 {
				t.Errorf("%s, seed %d: no attempt was lost", row.Name, seed)
			}
		}
	}
}

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
