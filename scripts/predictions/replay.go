package main

import (
	"context"
	"fmt"
	"time"

	"gantry/executor"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/predict"
	"gantry/planner/unit"
	"gantry/scripts/measure"
	"gantry/sqlite"
	"gantry/trace"
)

// replay simulates test tasks that arrive at once on a node of 128 GiB, and returns the makespan under greedy
// backfilling. Limits are those of the model at balanced, or without one the presets. A task that needs more than its
// limit runs to its end in vain.
func replay(test []predict.Sample, model *predict.Model, threads int64) (time.Duration, error) {
	flow := &trace.Workflow{Name: "w", Label: "w"}
	for i := range test {
		s := &test[i]
		flow.Files = append(flow.Files, trace.File{Name: fmt.Sprint("f", i), Size: int64(s.Features.Input), Sized: true,
			Producer: -1})
		flow.Tasks = append(flow.Tasks, trace.Task{ID: fmt.Sprint("t", i), Kind: s.Kind, Retries: -1, Runtime: s.Ran,
			Cores: float64(s.Features.CPU) / 1000, MemoryBytes: int64(s.Features.Memory) - executor.EmulatorMemory,
			Inputs: []int32{int32(i)}, Known: trace.Runtime | trace.Memory})
	}
	p := &planner.Platform{Groups: []string{""}, Bandwidth: [][]unit.BytesPerSecond{{0}}, Latency: [][]int64{{0}}}
	p.Nodes = []planner.Node{{Name: "n", Speed: 1, Capacity: unit.Vector{threads * 1000, 128 << 30, unit.Unlimited}}}
	e, err := measure.Engine(&sqlite.RunInfo{Policy: "gbf", Seed: 1, Platform: *p, TimeScale: 1, SizeScale: 1})
	if err != nil {
		return 0, err
	}
	e.Arrivals = []executor.Submission{{Name: "w", Workflow: flow}}
	e.Runtime = sim.New(sim.Config{Platform: p, Fault: func(l *executor.Launch) (planner.Outcome, float64) {
		if int64(test[l.Task].Peak) > l.Hold[unit.Memory] {
			return planner.OutOfMemory, 1
		}
		return planner.OK, 0
	}})
	if model != nil {
		e.Admit.Memory = func(kind string, need unit.Vector, reads unit.Bytes) (limit, next unit.Bytes, ok bool) {
			declared := unit.Bytes(need[unit.Memory])
			limit, next, ok = model.MemoryLimit(kind, &predict.Features{Input: reads, CPU: need[unit.CPU],
				Memory: declared}, predict.Balanced)
			return limit, max(next, declared/2), ok
		}
	}
	if _, err = e.Run(context.Background()); err != nil {
		return 0, err
	}
	v := e.Planner.View()
	for i := range test {
		if v.Phase(planner.TaskID(i)) != planner.Done {
			return 0, fmt.Errorf("replay: task %d of type %s never ended well", i, test[i].Kind)
		}
	}
	return time.Duration(v.Now()), nil
}
