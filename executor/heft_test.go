package executor_test

import (
	"fmt"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
)

// The ten-task example of Topcuoglu, Hariri and Wu 2002, figure 2: costs by processor, and what each edge communicates.
var (
	heftCosts = [][]int64{{14, 16, 9}, {13, 19, 18}, {11, 13, 19}, {13, 8, 17}, {12, 13, 10}, {13, 16, 9}, {7, 15, 11},
		{5, 11, 14}, {18, 12, 20}, {21, 7, 16}}
	heftEdges = [][3]int{{1, 2, 18}, {1, 3, 12}, {1, 4, 9}, {1, 5, 11}, {1, 6, 14}, {2, 8, 19}, {2, 9, 16}, {3, 7, 23},
		{4, 8, 27}, {4, 9, 23},
		{5, 9, 13}, {6, 8, 15}, {7, 10, 17}, {8, 10, 11}, {9, 10, 13}}
)

const second = int64(time.Second)

func heftWorkflow() *trace.Workflow { return example(heftCosts, heftEdges) }

func seconds(costs [][]int64) [][]int64 {
	out := make([][]int64, len(costs))
	for i := range costs {
		for _, c := range costs[i] {
			out[i] = append(out[i], c*second)
		}
	}
	return out
}

// schedule is what a simulation did: task → node and times in seconds.
type stay struct {
	node       planner.NodeID
	start, end float64
}

func simulate(t *testing.T, p *planner.Platform, spec string, subs ...executor.Submission) (map[string]stay,
	executor.Result) {
	t.Helper()
	got := map[string]stay{}
	e := enginetest.New(t, p, enginetest.Policy(t, spec), subs...)
	tellExits(e, func(task string, a *planner.Attempt, x *planner.AttemptExited) {
		got[task] = stay{a.Node, x.Usage.Started.Seconds(), x.Usage.Ended.Seconds()}
	})
	return got, enginetest.Run(t, e)
}

func heftPlatform() *planner.Platform {
	p := &planner.Platform{Groups: []string{""}, Bandwidth: [][]unit.BytesPerSecond{{1000}}, Latency: [][]int64{{0}},
		Overlapped: true}
	for i := range 3 {
		p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(i), Name: fmt.Sprint("P", i+1),
			Capacity: unit.Vector{1000, unit.Unlimited, unit.Unlimited}, Speed: 1})
	}
	return p
}

func TestHEFTTenTaskExample(t *testing.T) {
	got, res := simulate(t, heftPlatform(), "heft", executor.Submission{Name: "heft", Workflow: heftWorkflow(),
		Costs: seconds(heftCosts)})
	want := map[string]stay{"1": {2, 0, 9}, "3": {2, 9, 28}, "4": {1, 18, 26}, "2": {0, 27, 40}, "5": {2, 28, 38},
		"6": {1, 26, 42},
		"9": {1, 56, 68}, "7": {2, 38, 49}, "8": {0, 57, 62}, "10": {1, 73, 80}}
	for task, w := range want {
		if got[task] != w {
			t.Errorf("task %s: %+v, want %+v", task, got[task], w)
		}
	}
	if res.Ended.Seconds() != 80 {
		t.Errorf("makespan %v, want 80", res.Ended.Seconds())
	}
}
