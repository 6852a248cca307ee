package executor_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/experiment/load"
	"gantry/planner"
	"gantry/trace/generate"
	"gantry/trace/scenario"
)

// thesisLoad is that of Wang, MOWS, section 5-1-2, with at most that number of processors per task and that mean
// interval.
func thesisLoad(tb testing.TB, processors int, interval time.Duration) (*planner.Platform, []executor.Submission) {
	tb.Helper()
	p := clusters(true, 60, 55, 50, 65, 70)
	for _, row := range p.Bandwidth {
		for i := range row {
			row[i] = 1_000_000
		}
	}
	kind, err := generate.Find("mixed")
	must(tb, err)
	choices := kind.Choices()
	for key, values := range map[string][]string{"shape": {"0.5", "1", "2"}, "out_degree": {"1", "2", "3", "4", "5"},
		"ccr": {"0.1", "0.5", "1", "1.5", "2"}, "brange": {"0.1", "0.25", "0.5", "0.75", "1"}, "wdag": {"100", "1000"},
		"processors": {"1", strconv.Itoa(processors)}} {
		must(tb, choices.Set(key, values...))
	}
	s := &scenario.Stream{Count: 100, Files: true, Total: scenario.TotalRuntime{Distribution: "as-generated"},
		Arrivals: scenario.ArrivalProcess{Process: "poisson", Interval: interval},
		Mix: []scenario.StreamSource{{Fraction: 1, Generator: "mixed",
			Choices: choices}}}
	for _, n := range []int{20, 40, 60, 80, 100} {
		s.Sizes = append(s.Sizes, generate.SizeClass{Fraction: 1, Min: n, Max: n})
	}
	subs, err := load.Submissions(&scenario.Workload{Seed: 1, Stream: s}, p, 0)
	must(tb, err)
	return p, subs
}

type planFunc func(c *planner.Cycle)

func (f planFunc) Plan(_ context.Context, c *planner.Cycle) error { f(c); return nil }
