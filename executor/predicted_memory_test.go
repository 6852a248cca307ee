package executor_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/planner/unit"
	"gantry/trace"
)

// Of a thousand tasks of each kind that no model was trained on, few run out of the memory that they are limited to by
// prediction in their first try, and none fails for good, however the peaks of the kind are spread: the next try gets
// what the model has seen, the last one at least what is declared.
func TestPredictedMemoryIsSafe(t *testing.T) {
	const held, declared = 1000, 2e9 // tasks of a kind; bytes
	var r *rand.Rand
	for kind, peak := range map[string]func(gb float64) float64{
		"constant": func(float64) float64 { return 20e6 },
		"narrow":   func(float64) float64 { return 150e6 * math.Exp(0.05*r.NormFloat64()) },
		"wide":     func(float64) float64 { return min(declared, 150e6*math.Exp(0.5*r.NormFloat64())) },
		"line":     func(gb float64) float64 { return (80e6 + 200e6*gb) * math.Exp(0.1*r.NormFloat64()) },
		"rare":     func(float64) float64 { return []float64{60e6, 60e6, 60e6, 60e6, 60e6, 60e6, 180e6}[r.IntN(7)] },
	} {
		r = rand.New(rand.NewPCG(31, 31))
		var samples []predict.Sample
		largest := 0.0
		for range 60 {
			gb := 0.1 + 0.9*r.Float64()
			p := peak(gb)
			largest = max(largest, p)
			samples = append(samples, predict.Sample{Kind: kind, Ran: time.Second, Peak: unit.Bytes(p),
				Features: predict.Features{Input: unit.Bytes(gb * 1e9), CPU: 1000, Memory: declared, Speed: 1}})
		}
		model := predict.Fit(samples).Model(predict.Auto)

		flow := &trace.Workflow{Name: "w", Label: "w"}
		peaks := make([]int64, 0, held+10)
		for i := range held + 10 {
			gb := 0.1 + 0.9*r.Float64()
			p := peak(gb)
			if i >= held { // an input ten times as large, and what it takes
				gb, p = 10*gb+1, declared
			}
			peaks = append(peaks, int64(p))
			flow.Files = append(flow.Files, trace.File{Name: fmt.Sprint("f", i), Size: int64(gb * 1e9), Sized: true,
				Producer: -1})
			flow.Tasks = append(flow.Tasks, trace.Task{ID: fmt.Sprint("t", i), Kind: kind, Cores: 1, Retries: -1,
				Runtime: time.Second, Inputs: []int32{int32(i)}, MemoryBytes: declared - executor.EmulatorMemory,
				Known: trace.Runtime})
		}
		nodes := []planner.Node{{Name: "n", Speed: 1, Capacity: unit.Vector{8000, 8 * declared, unit.Unlimited}}}
		p := &planner.Platform{Nodes: nodes, Groups: []string{""}, Bandwidth: [][]unit.BytesPerSecond{{0}},
			Latency: [][]int64{{0}}}
		pol, err := policy.Parse("gbf")
		must(t, err)
		over, limited, again := 0, 0, 0
		fault := func(l *executor.Launch) (planner.Outcome, float64) {
			limit := l.Hold[unit.Memory]
			switch {
			case l.Try > 2 && limit < declared:
				t.Errorf("%s: try %d has %d", kind, l.Try, limit)
			case l.Try > 1:
				again++
			case limit < declared:
				limited++
			}
			if peaks[l.Task] <= limit {
				return planner.OK, 0
			}
			if l.Try == 1 {
				over++
			}
			return planner.OutOfMemory, 0.5
		}
		e := enginetest.New(t, p, pol, executor.Submission{Name: "w", Workflow: flow})
		e.Runtime = sim.New(sim.Config{Platform: p, Fault: fault})
		e.Admit.Memory = func(kind string, need unit.Vector, input unit.Bytes) (limit, next unit.Bytes, ok bool) {
			limit, next, ok = model.MemoryLimit(kind, &predict.Features{Input: input, CPU: need[unit.CPU],
				Memory: unit.Bytes(need[unit.Memory])}, predict.Balanced)
			return limit, max(next, declared/2), ok
		}
		if _, err := e.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		v, failed := e.Planner.View(), 0
		for i := range planner.TaskID(v.Tasks()) {
			if v.Phase(i) != planner.Done {
				failed++
			}
		}
		t.Logf("%s: of %d tasks %d had a predicted limit, %d ran out of memory in their first try", kind, v.Tasks(),
			limited, over)
		if most := map[string]int{"wide": 20, "rare": 15}; over*100 > held*max(most[kind], 4) || failed > 0 ||
			again < over || limited < held/2 {
			t.Errorf("%s: %d failed for good, %d in their first try, %d tries were further ones", kind, failed, over,
				again)
		}
	}
}
