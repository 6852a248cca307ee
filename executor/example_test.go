package executor_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"gantry/executor"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/trace"
	"gantry/trace/scenario"
)

// A program can build nodes and a workflow, and simulate it under any policy, with its own events at hand.
func Example() {
	nodes := strings.NewReader("nodes: [{name: fast}, {name: slow, speed: 0.5}]")
	cluster, err := scenario.ReadCluster(nodes, "nodes.yaml")
	if err != nil {
		log.Fatal(err)
	}
	platform, err := executor.PlatformOf(cluster)
	if err != nil {
		log.Fatal(err)
	}
	workflow := &trace.Workflow{Name: "diamond", Tasks: []trace.Task{
		{ID: "split", Runtime: 2 * time.Second, Cores: 1, Children: []int32{1, 2}},
		{ID: "left", Runtime: 6 * time.Second, Cores: 1, Parents: []int32{0}, Children: []int32{3}},
		{ID: "right", Runtime: 2 * time.Second, Cores: 1, Parents: []int32{0}, Children: []int32{3}},
		{ID: "join", Runtime: time.Second, Cores: 1, Parents: []int32{1, 2}},
	}}
	heft, err := policy.Parse("heft") // or a planner.Policy of your own
	if err != nil {
		log.Fatal(err)
	}
	estimates := &predict.Declared{}
	engine := &executor.Engine{
		Planner:  planner.New(platform, planner.DefaultRetryRules(), heft, estimates, 1),
		Runtime:  sim.New(sim.Config{Platform: platform}),
		Admit:    &executor.Admitter{Platform: platform, TimeScale: 1, SizeScale: 1, Declare: estimates.Declare},
		Arrivals: []executor.Submission{{Name: workflow.Name, Workflow: workflow}},
		Watch: func(v planner.View, events []planner.Event, _ []*executor.Admission) {
			for _, e := range events {
				if x, ok := e.Body.(*planner.AttemptExited); ok {
					a := v.Attempt(x.Attempt)
					fmt.Println(e.At.Seconds(), workflow.Tasks[a.Task].ID, platform.Nodes[a.Node].Name)
				}
			}
		},
	}
	result, err := engine.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("makespan", result.Ended.Seconds())
	// Output:
	// 2 split fast
	// 6 right slow
	// 8 left fast
	// 9 join fast
	// makespan 9
}
