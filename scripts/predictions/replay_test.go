package predictions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/predict"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/scenario"
)

// replayed is the memory of the node.
const replayed = 128 << 30

// Test tasks of Sizey's data are replayed in simulations, and some of them in containers.
func TestMakespansWithPredictedLimits(t *testing.T) {
	data, w := begin(t, true, "GANTRY_SIZEY"), &strings.Builder{}
	fmt.Fprintf(w, `
Test tasks of Sizey's data arrive at once, under greedy backfilling, on a node with 128 GiB and 128 threads, with
presets and with limits of `+"`balanced`"+`. Data have no dependencies. Simulated are all of them; one that runs out of
memory does so at its very end, and a long one that does can cost more than all limits gain (iwd). With 32 threads
cores are short, and three of six gain nothing.

In containers there are %d of each workflow, evenly drawn, on a node with as large a share of the memory, or as much as
the largest preset, and 16 places. All memory is a %dth. A shell holds what was measured, for as long, at a scale by
which presets take %g s or a little more. If it may not hold that, it fails after as long. Limits are those of
`+"`gantry predict --trace`"+` by the tasks to train on.

| | simulated: presets | `+"`balanced`"+` | | in containers: presets | `+"`balanced`"+` | | MAQ | out of memory |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
`, sampled, shrink, busy)
	shorter := 0.0
	for _, flow := range sizeyWorkflows {
		train, test := readSizey(t, data, flow)
		presets, limited := replay(t, test, nil), replay(t, test, predict.Fit(train).Model(predict.Auto))
		before, after := contain(t, train, test)
		fmt.Fprintf(w, "| %s | %.1f h | %.1f h | %+.0f %% | %.1f s | %.1f s | %+.0f %% | %.0f, %.0f %% | %d of %d |\n",
			flow, presets.Hours(), limited.Hours(), 100*(limited.Hours()/presets.Hours()-1), before.Makespan,
			after.Makespan, 100*(after.Makespan/before.Makespan-1), before.maq(), after.maq(), after.Memory.OutOfMemory,
			after.Attempts)
		shorter += 100 * (1 - after.Makespan/before.Makespan) / float64(len(sizeyWorkflows))
	}
	fmt.Fprintf(w, "\nIn containers makespans are %.0f %% shorter in the mean.\n", shorter)
	bar(t, "makespans in containers are shorter by, %", shorter, 20, 100)
	publish(t, page, "## Makespans with these limits", w.String())
}

// replay simulates test tasks that arrive at once, and returns the makespan under greedy backfilling. Limits are those
// of the model at balanced, or without one the presets. A task that needs more than its limit runs to its end in vain.
func replay(t *testing.T, test []predict.Sample, model *predict.Model) time.Duration {
	flow := &trace.Workflow{Name: "w", Label: "w"}
	for i := range test {
		s := &test[i]
		flow.Files = append(flow.Files, trace.File{Name: fmt.Sprint("f", i), Size: int64(s.Features.Input), Sized: true,
			Producer: -1})
		flow.Tasks = append(flow.Tasks, trace.Task{ID: fmt.Sprint("t", i), Kind: s.Kind, Retries: -1, Runtime: s.Ran,
			Cores: float64(s.Features.CPU) / 1000, MemoryBytes: int64(s.Features.Memory) - executor.EmulatorMemory,
			Inputs: []int32{int32(i)}, Known: trace.Runtime | trace.Memory})
	}
	e := alone(flow, 128, replayed, parsed(t, "gbf"), 1, func(l *executor.Launch) (planner.Outcome, float64) {
		if int64(test[l.Task].Peak) > l.Hold[unit.Memory] {
			return planner.OutOfMemory, 1
		}
		return planner.OK, 0
	})
	if model != nil {
		e.Admit.Memory = func(kind string, need unit.Vector, reads unit.Bytes) (limit, next unit.Bytes, ok bool) {
			declared := unit.Bytes(need[unit.Memory])
			limit, next, ok = model.MemoryLimit(kind, &predict.Features{Input: reads, CPU: need[unit.CPU],
				Memory: declared}, predict.Balanced)
			return limit, max(next, declared/2), ok
		}
	}
	_, err := e.Run(t.Context())
	must(t, err)
	v := e.Planner.View()
	for i := range test {
		if v.Phase(planner.TaskID(i)) != planner.Done {
			t.Fatalf("task %d of type %s never ended well", i, test[i].Kind)
		}
	}
	return time.Duration(v.Now())
}

// alone is a simulation of a workflow on a node of its own.
func alone(w *trace.Workflow, cores int, memory int64, pol planner.Policy, seed uint64,
	fault func(*executor.Launch) (planner.Outcome, float64)) *executor.Engine {
	p := &planner.Platform{Groups: []string{""}, Bandwidth: [][]unit.BytesPerSecond{{0}}, Latency: [][]int64{{0}}}
	p.Nodes = []planner.Node{{Name: "n", Speed: 1, Capacity: unit.Vector{int64(cores) * 1000, memory, unit.Unlimited}}}
	declared := &predict.Declared{}
	return &executor.Engine{Planner: planner.New(p, planner.DefaultRetryRules(), pol, declared, seed),
		Admit: &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Preempt: scenario.DefaultPreempt(),
			Declare: declared.Declare},
		Runtime:  sim.New(sim.Config{Platform: p, Fault: fault}),
		Arrivals: []executor.Submission{{Name: w.Name, Workflow: w}}}
}
