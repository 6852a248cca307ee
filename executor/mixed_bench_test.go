package executor_test

import (
	"fmt"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/load"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/trace"
)

// thesisLoad is that of Wang, MOWS, section 5-1-2, with so many processors of a task at most and that mean interval.
func thesisLoad(tb testing.TB, processors int, interval time.Duration) (*planner.Platform, []executor.Submission) {
	tb.Helper()
	p := clusters(true, 60, 55, 50, 65, 70)
	for _, row := range p.Bandwidth {
		for i := range row {
			row[i] = 1_000_000
		}
	}
	s := &trace.Stream{Count: 100, Files: true, Total: trace.TotalRuntime{Distribution: "as-generated"}, Arrivals: trace.ArrivalProcess{Process: "poisson", Interval: interval},
		Mix: []trace.StreamSource{{Fraction: 1, Generator: "mixed", Mixed: &trace.MixedChoices{Shape: []float64{0.5, 1, 2}, OutDegree: []int{1, 2, 3, 4, 5},
			CCR: []float64{0.1, 0.5, 1, 1.5, 2}, BRange: []float64{0.1, 0.25, 0.5, 0.75, 1}, WDAG: [2]float64{100, 1000}, Processors: [2]int{1, processors}}}}}
	for _, n := range []int{20, 40, 60, 80, 100} {
		s.Sizes = append(s.Sizes, trace.SizeClass{Fraction: 1, Min: n, Max: n})
	}
	subs, err := load.Submissions(&trace.Workload{Seed: 1, Stream: s}, p, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return p, subs
}

// BenchmarkMixed simulates 100 workflows. Figure 5-19 of the thesis is 200 such runs.
func BenchmarkMixed(b *testing.B) {
	for _, processors := range []int{1, 4, 16} {
		for _, interval := range []time.Duration{50 * time.Second, 200 * time.Second} {
			p, subs := thesisLoad(b, processors, interval)
			for _, spec := range []string{"owm-mp", "owm-mp+swf", "owm-mp+backfilling", "owm-mp+preemptive", "mows"} {
				b.Run(fmt.Sprintf("%s/processors=%d/interval=%v", spec, processors, interval), func(b *testing.B) {
					for b.Loop() {
						runThesis(b, p, subs, spec)
					}
				})
			}
		}
	}
}

func runThesis(tb testing.TB, p *planner.Platform, subs []executor.Submission, spec string) executor.Result {
	tb.Helper()
	pol, err := policy.Parse(spec)
	if err != nil {
		tb.Fatal(err)
	}
	declared := &predict.Declared{}
	e := &executor.Engine{Runtime: sim.New(sim.Config{Platform: p}), Planner: planner.New(p, planner.DefaultRetryRules(), pol, declared, 1),
		Admit:    &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Declare: declared.Declare, Preempt: trace.Preempt{LargestInput: true}},
		Arrivals: append([]executor.Submission(nil), subs...)}
	res, err := e.Run(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return res
}
