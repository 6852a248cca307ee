package executor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/experiment/load"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/order"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/planner/rank"
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
	if err != nil {
		tb.Fatal(err)
	}
	choices := kind.Choices()
	for key, values := range map[string][]string{"shape": {"0.5", "1", "2"}, "out_degree": {"1", "2", "3", "4", "5"},
		"ccr": {"0.1", "0.5", "1", "1.5", "2"}, "brange": {"0.1", "0.25", "0.5", "0.75", "1"}, "wdag": {"100", "1000"},
		"processors": {"1", strconv.Itoa(processors)}} {
		if err := choices.Set(key, values...); err != nil {
			tb.Fatal(err)
		}
	}
	s := &scenario.Stream{Count: 100, Files: true, Total: scenario.TotalRuntime{Distribution: "as-generated"},
		Arrivals: scenario.ArrivalProcess{Process: "poisson", Interval: interval},
		Mix: []scenario.StreamSource{{Fraction: 1, Generator: "mixed",
			Choices: choices}}}
	for _, n := range []int{20, 40, 60, 80, 100} {
		s.Sizes = append(s.Sizes, generate.SizeClass{Fraction: 1, Min: n, Max: n})
	}
	subs, err := load.Submissions(&scenario.Workload{Seed: 1, Stream: s}, p, 0)
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
	e := &executor.Engine{Runtime: sim.New(sim.Config{Platform: p}), Planner: planner.New(p,
		planner.DefaultRetryRules(), pol, declared, 1),
		Admit: &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Declare: declared.Declare,
			Forget:  declared.Forget,
			Preempt: scenario.Preempt{LargestInput: true}},
		Arrivals: append([]executor.Submission(nil), subs...)}
	res, err := e.Run(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return res
}

// crowded is 100 workflows of ten tasks that are all eligible at once, on five clusters of 60 processors of which 55
// are busy: 1,000 tasks wait. All but the last one in any order need more than the five that are left, so that a round
// looks at all.
func crowded(tb testing.TB, spec string) *planner.Planner {
	tb.Helper()
	p := clusters(true, 60, 60, 60, 60, 60)
	pol, err := policy.Parse(spec)
	if err != nil {
		tb.Fatal(err)
	}
	declared := &predict.Declared{}
	admit := &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Declare: declared.Declare,
		Forget: declared.Forget}
	pl := planner.New(p, planner.DefaultRetryRules(), pol, declared, 1)
	apply := func(b planner.Body) {
		if err := pl.Apply(planner.Event{Seq: pl.Seq() + 1, Body: b}); err != nil {
			tb.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	arrive := func(name string, tasks, cores, more, run int) {
		text := ""
		for i := range tasks {
			text += fmt.Sprintf("t%d %d ", i, cores+r.IntN(more+1))
			for k := range 5 {
				text += fmt.Sprintf("%s%d", []string{"", ","}[min(k, 1)], run+r.IntN(run))
			}
			text += " "
		}
		sub := rigid(name, text, 0)
		adm, err := admit.Admit(&sub, 0)
		if err != nil {
			tb.Fatal(err)
		}
		apply(&adm.Arrived)
	}
	for i := range 55 { // what runs: five processors each
		arrive(fmt.Sprint("b", i), 1, 5, 0, 500)
	}
	pc, err := pl.Plan(tb.Context(), 0)
	if err != nil {
		tb.Fatal(err)
	}
	apply(pc)
	for i := range pc.Orders {
		apply(planner.AttemptStarted{Attempt: pc.Orders[i].Attempt})
	}
	for w := range 99 {
		arrive(fmt.Sprint("w", w), 10, 6, 10, 500)
	}
	arrive("last", 10, 1, 0, 100_000)
	return pl
}

// BenchmarkCrowdedRound is a planning round in which 1,000 tasks wait and are looked at.
func BenchmarkCrowdedRound(b *testing.B) {
	for _, spec := range []string{"owm-mp+backfilling", "pipeline:sws,easy", "pipeline:sws,conservative", "mows"} {
		b.Run(spec, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				pl := crowded(b, spec)
				if n := len(pl.View().Ready()); n != 1000 {
					b.Fatalf("%d tasks wait", n)
				}
				b.StartTimer()
				if _, err := pl.Plan(b.Context(), 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRemainingTimes computes the estimated remaining times of 100 workflows of 60 tasks, as a workflow arrives.
func BenchmarkRemainingTimes(b *testing.B) {
	p, subs := thesisLoad(b, 4, time.Second)
	declared := &predict.Declared{}
	admit := &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Declare: declared.Declare,
		Forget: declared.Forget}
	ranks, times := &rank.Upward{}, &order.RemainingTimes{}
	pl := planner.New(p, planner.DefaultRetryRules(), planFunc(func(c *planner.Cycle) {
		ranks.Update(c)
		times.Update(c, ranks)
	}), declared, 1)
	for i := range subs {
		adm, err := admit.Admit(&subs[i], 0)
		if err != nil {
			b.Fatal(err)
		}
		if err := pl.Apply(planner.Event{Seq: pl.Seq() + 1, Body: &adm.Arrived}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := pl.Plan(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
	}
}

type planFunc func(c *planner.Cycle)

func (f planFunc) Plan(_ context.Context, c *planner.Cycle) error { f(c); return nil }
