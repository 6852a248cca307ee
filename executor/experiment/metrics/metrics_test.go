package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/experiment/metrics"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
	"gantry/trace"
)

// workflow builds a DAG from "a=2 b=3 c=4:a,b" (seconds and parents).
func workflow(name, text string) *trace.Workflow {
	w := &trace.Workflow{Name: name, Label: name}
	at := map[string]int32{}
	for i, field := range strings.Fields(text) {
		def, parents, _ := strings.Cut(field, ":")
		id, sec, _ := strings.Cut(def, "=")
		run, err := time.ParseDuration(sec + "s")
		if err != nil {
			panic(err)
		}
		at[id] = int32(i)
		w.Tasks = append(w.Tasks, trace.Task{ID: id, Kind: id, Cores: 1, Runtime: run, Retries: -1})
		for _, p := range strings.FieldsFunc(parents, func(r rune) bool { return r == ',' }) {
			w.Tasks[at[p]].Children = append(w.Tasks[at[p]].Children, int32(i))
			w.Tasks[i].Parents = append(w.Tasks[i].Parents, at[p])
		}
	}
	return w
}

func platform(speeds ...float64) *planner.Platform {
	p := &planner.Platform{Groups: []string{""}}
	for i, s := range speeds {
		p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(i), Name: fmt.Sprint("n", i), Speed: s,
			Capacity: unit.Vector{1000, unit.Unlimited, unit.Unlimited}})
	}
	return p
}

func simulate(t *testing.T, spec string, p *planner.Platform, cfg sim.Config,
	subs ...executor.Submission) *metrics.Collector {
	t.Helper()
	pol, err := policy.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return simulateBy(t, pol, p, cfg, subs...)
}

func simulateBy(t *testing.T, pol planner.Policy, p *planner.Platform, cfg sim.Config,
	subs ...executor.Submission) *metrics.Collector {
	t.Helper()
	cfg.Platform = p
	c := metrics.NewCollector(p)
	e := enginetest.New(t, p, pol, subs...)
	e.Runtime, e.Watch = sim.New(cfg), c.Watch
	enginetest.Run(t, e)
	return c
}

func values(c *metrics.Collector, win metrics.Window) map[string]float64 {
	out := map[string]float64{}
	for _, v := range c.Run(win) {
		out[v.Name] = v.Value
	}
	return out
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-5*max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// example is the worked example of three workflows on two processors.
func example() []executor.Submission {
	return []executor.Submission{
		{Name: "x", Workflow: workflow("x", "a=2 b=3:a c=4:a d=2:b,c")},
		{Name: "y", At: 1e9, Workflow: workflow("y", "e=3 f=1:e")},
		{Name: "z", At: 2e9, Workflow: workflow("z", "g=1 h=1:g i=1:g k=1:g l=1:h,i,k")},
	}
}

func TestThreeWorkflowsOnTwoProcessors(t *testing.T) {
	c := simulate(t, "cpp", platform(1, 1), sim.Config{}, example()...)
	want := []struct{ wait, makespan, response, slowdown, work, critical float64 }{
		{0, 9, 9, 1.125, 11, 8}, {0, 6, 6, 1.5, 4, 4}, {5, 4, 9, 3, 5, 3}}
	for i, w := range c.Workflows() {
		near(t, w.Name+" wait", w.Wait().Seconds(), want[i].wait)
		near(t, w.Name+" makespan", w.Makespan().Seconds(), want[i].makespan)
		near(t, w.Name+" response", w.Response().Seconds(), want[i].response)
		near(t, w.Name+" slowdown", w.Slowdown(), want[i].slowdown)
		near(t, w.Name+" ratio", w.ScheduleLengthRatio(), want[i].slowdown)
		near(t, w.Name+" work", w.Work.Seconds(), want[i].work)
		near(t, w.Name+" critical path", w.CriticalPath.Seconds(), want[i].critical)
		near(t, w.Name+" parallelism", w.Parallelism(), want[i].work/want[i].critical)
	}
	v := values(c, metrics.Window{})
	near(t, "mean slowdown", v["slowdown_mean"], 5.625/3)
	near(t, "sd of slowdown", v["slowdown_sd"], 0.9921567) // of 1.125, 1.5, 3
	near(t, "utilisation", v["utilisation"], 20.0/22)
	near(t, "mean number in system", v["in_system_mean"], 24.0/11) // the sum of the responses over the time
	near(t, "largest number in system", v["in_system_max"], 3)
	near(t, "span", v["span"], 11)
	if _, ok := v["wieland"]; ok {
		t.Error("stability is judged on three workflows")
	}
}

// The first three workflows, the warm-up, and the last, the cool-down, are in the system together. Only what is there
// while others count is counted: d and e until the first of the cool-down arrives.
func TestNumbersInSystemLeaveOutWarmUpAndCoolDown(t *testing.T) {
	subs := []executor.Submission{
		{Name: "a", Workflow: workflow("a", "a=1")}, {Name: "b", Workflow: workflow("b", "b=1")},
		{Name: "c", Workflow: workflow("c", "c=1")},
		{Name: "d", At: 10e9, Workflow: workflow("d", "d=2")}, {Name: "e", At: 11e9, Workflow: workflow("e", "e=2")},
		{Name: "f", At: 20e9, Workflow: workflow("f", "f=2")}, {Name: "g", At: 20e9, Workflow: workflow("g", "g=2")},
		{Name: "h", At: 20e9, Workflow: workflow("h", "h=2")}}
	c := simulate(t, "cpp", platform(1, 1), sim.Config{}, subs...)
	v := values(c, metrics.Window{WarmUp: 3, CoolDown: 2})
	near(t, "largest number in system", v["in_system_max"], 2)
	v = values(c, metrics.Window{WarmUp: 3, CoolDown: 4})
	near(t, "largest number in system", v["in_system_max"], 1)
}

// measuring is a runtime that tells when programs began only with their ends: half a second before it could say so, as
// Docker's events come late.
type measuring struct{ executor.Runtime }

func (m measuring) Next(ctx context.Context, until planner.Time) ([]planner.Body, error) {
	bodies, err := m.Runtime.Next(ctx, until)
	for _, b := range bodies {
		if x, ok := b.(*planner.AttemptExited); ok {
			x.Usage.Started -= 5e8
		}
	}
	return bodies, err
}

func TestWorkflowsBeginWhenTheirFirstProgramDid(t *testing.T) {
	p := platform(1, 1)
	c := metrics.NewCollector(p)
	e := enginetest.New(t, p, enginetest.Policy(t, "cpp"), example()[:1]...)
	e.Runtime, e.Watch = measuring{sim.New(sim.Config{Platform: p, Startup: 1e9})}, c.Watch
	enginetest.Run(t, e)
	w := c.Workflows()[0] // three starts of containers, of 1 s each, on a path of 8 s
	near(t, "wait", w.Wait().Seconds(), 0.5)
	near(t, "makespan", w.Makespan().Seconds(), 10.5)
	near(t, "response", w.Response().Seconds(), 11)
}

func TestWarmUpAndCoolDownDoNotCount(t *testing.T) {
	c := simulate(t, "cpp", platform(1, 1), sim.Config{}, example()...)
	v := values(c, metrics.Window{WarmUp: 1, CoolDown: 1})
	near(t, "workflows", v["workflows"], 1)
	near(t, "mean slowdown", v["slowdown_mean"], 1.5)
	near(t, "horizon", v["horizon"], 1) // from the arrival of y to that of z
	near(t, "utilisation", v["utilisation"], 1)
	near(t, "mean number in system", v["in_system_mean"], 2)
	if v := values(c, metrics.Window{WarmUp: 7}); v["workflows"] != 0 || !math.IsNaN(v["slowdown_mean"]) {
		t.Errorf("nothing counts, yet: %v", v)
	}
}

func TestSpeedsAndCostsSetTheLowestLength(t *testing.T) {
	c := simulate(t, "cpp", platform(1.5, 0.5), sim.Config{}, executor.Submission{Name: "w", Workflow: workflow("w",
		"a=3 b=6:a")},
		executor.Submission{Name: "m", Workflow: workflow("m", "a=3 b=6:a"), Costs: [][]int64{{2e9, 4e9}, {8e9, 2e9}}})
	w := c.Workflows()
	near(t, "critical path at speed 1", w[0].CriticalPath.Seconds(), 9)
	near(t, "lowest length", w[0].Lowest.Seconds(), 6)
	near(t, "critical path by mean costs", w[1].CriticalPath.Seconds(), 8)
	near(t, "lowest length by costs", w[1].Lowest.Seconds(), 4)
}

func TestWorkflowsThatFailAreCountedApart(t *testing.T) {
	fault := func(l *executor.Launch) (planner.Outcome, float64) {
		if l.Spec.Name == "e" {
			return planner.ExitCode, 1
		}
		return planner.OK, 0
	}
	v := values(simulate(t, "cpp", platform(1, 1), sim.Config{Fault: fault}, example()...), metrics.Window{})
	near(t, "failed", v["failed"], 1)
	near(t, "workflows", v["workflows"], 2)
	near(t, "unfinished", v["unfinished"], 0)
}

func TestDeadlinesThatWereMissed(t *testing.T) {
	subs := example()
	subs[0].Due, subs[1].Due = 9e9, 6e9 // y ends at 7
	near(t, "late", values(simulate(t, "cpp", platform(1, 1), sim.Config{}, subs...), metrics.Window{})["late_share"],
		0.5)
}

func TestWielandsTest(t *testing.T) {
	for _, x := range []struct {
		name      string
		means     []float64
		statistic float64
		stable    bool
	}{
		{"check A", []float64{36, 38, 35, 40, 37, 39, 36, 38, 37}, 0.44721, true},
		{"check B", []float64{20, 30, 40, 50, 60, 70, 80, 90, 100}, 2.0656, false},
		{"slow linear growth", []float64{2, 2.001, 2.002, 2.003, 2.004, 2.005, 2.006, 2.007, 2.008}, 2.0656, false},
		{"a shrinking number", []float64{100, 90, 80, 70, 60, 50, 40, 30, 20}, -2.0656, true},
		{"a constant", []float64{5, 5, 5, 5, 5, 5, 5, 5, 5}, 0, true},
	} {
		statistic, stable := metrics.Wieland(x.means)
		near(t, x.name, statistic, x.statistic)
		if stable != x.stable {
			t.Errorf("%s: stable is %v", x.name, stable)
		}
	}
}

// 3000 workflows at 98 an hour last 110,204 s: the limit of the drift is a final number of 469.
func TestMeanLyapunovDriftAtItsLimit(t *testing.T) {
	const last = 110_204 * planner.Time(time.Second)
	for n, stable := range map[int]bool{469: true, 470: false, 40: true} {
		s := metrics.Steps{{At: 0, N: 1}, {At: 1e9, N: 1000}, {At: last - 5e8, N: n}}
		drift, got := s.MeanDrift(0, last)
		near(t, "drift", drift, (float64(n*n)-1)/2/110_204)
		if got != stable {
			t.Errorf("N = %d: stable is %v with a drift of %v", n, got, drift)
		}
	}
	if _, stable := (metrics.Steps{}).MeanDrift(0, 5e8); !stable {
		t.Error("less than a step was found unstable")
	}
}

// The telescoped sum equals the mean of the differences, step by step.
func TestMeanDriftIsTheMeanOfItsSteps(t *testing.T) {
	r := seedtest.Rand(t)
	var s metrics.Steps
	for at := planner.Time(0); at < 300e9; at += planner.Time(1 + r.IntN(3e9)) {
		s = append(s, metrics.Step{At: at, N: r.IntN(50)})
	}
	l := func(sec int) float64 { n := float64(s.At(planner.Time(sec) * 1e9)); return n * n / 2 }
	sum := 0.0
	for sec := 1; sec <= 250; sec++ {
		sum += l(sec) - l(sec-1)
	}
	drift, _ := s.MeanDrift(0, 250e9)
	near(t, "drift", drift, sum/250)
}

func TestNumberInSystemOverTime(t *testing.T) {
	s := metrics.Steps{{At: 10, N: 2}, {At: 20, N: 4}, {At: 40, N: 0}}
	for at, want := range map[planner.Time]int{0: 0, 9: 0, 10: 2, 19: 2, 20: 4, 39: 4, 40: 0, 99: 0} {
		if got := s.At(at); got != want {
			t.Errorf("at %d: %d, want %d", at, got, want)
		}
	}
	near(t, "mean", s.Mean(0, 50), (10*2+20*4)/50.0)
	near(t, "mean within a step", s.Mean(12, 18), 2)
	near(t, "mean across", s.Mean(15, 30), (5*2+10*4)/15.0)
	if !math.IsNaN(s.Mean(5, 5)) {
		t.Error("a mean of no time is a number")
	}
	if n := len(s.BatchMeans(0, 1000)); n != 9 {
		t.Errorf("%d batches", n)
	}
	thin := s.Thin(2)
	if len(thin) != 2 || thin[0] != s[0] || thin[1] != s[2] {
		t.Errorf("thinned: %v", thin)
	}
}

func TestConfidenceByStudentsT(t *testing.T) {
	i := metrics.Confidence([]float64{1, 2, 3, 4, 5, math.NaN()})
	near(t, "mean", i.Mean, 3)
	near(t, "half", i.Half, 2.776445*math.Sqrt(2.5)/math.Sqrt(5))
	if one := metrics.Confidence([]float64{7}); one.Mean != 7 || !math.IsNaN(one.Half) {
		t.Errorf("of one value: %v", one)
	}
	s := metrics.Summarise([]float64{4, 1, 3, 2})
	near(t, "median", s.Median, 2.5)
	near(t, "quartile", s.P25, 1.75)
	near(t, "largest", s.Max, 4)
	near(t, "deviation", s.SD, 1.2909944)
}

func TestMajorityOfRuns(t *testing.T) {
	for _, x := range []struct {
		verdicts []bool
		want     bool
	}{{[]bool{true, true, false}, true}, {[]bool{true, false, false}, false}, {[]bool{true, false}, false},
		{nil, false}, {[]bool{true}, true}} {
		if metrics.Majority(x.verdicts) != x.want {
			t.Errorf("majority of %v", x.verdicts)
		}
	}
}

func TestBisectionFindsTheBorder(t *testing.T) {
	for n := range 40 {
		for border := -1; border < n; border++ {
			asked := 0
			got, err := metrics.Bisect(n, func(i int) (bool, error) { asked++; return i <= border, nil })
			if err != nil || got != border || asked > 6 {
				t.Fatalf("%d of %d: %d, %v, asked %d times", border, n, got, err, asked)
			}
		}
	}
	broken := errors.New("broken")
	if _, err := metrics.Bisect(9, func(int) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("the error is lost: %v", err)
	}
}

// Two tenants, two nodes: the metrics of 3DSF, computed by hand.
func TestMetricsOfTenants(t *testing.T) {
	p := platform(1, 1)
	for i := range p.Nodes {
		p.Nodes[i].Capacity = unit.Vector{2000, 10e9, 100e6}
	}
	p.Join(0, 0, 1e6, 0)
	job := func(name string, at, due planner.Time, memory, disk int64) executor.Submission {
		w := workflow(name, "t=10")
		t := &w.Tasks[0]
		t.Cores, t.MemoryBytes, t.DiskBps = 2, memory-executor.EmulatorMemory, disk
		s := executor.Submission{Name: name, Workflow: w, Tenant: name[:1], At: at * 1e9, Due: due * 1e9}
		if due > 0 {
			s.Class = planner.Deadline
		}
		return s
	}
	// Its block of 5 MB lies on one of the nodes only, so that it is copied in 5 s or not.
	last := job("b2", 21, 0, 1e9, 20e6)
	last.Workflow.Files = []trace.File{{Name: "in", Size: 5e6, Sized: true, Producer: -1}}
	last.Workflow.Tasks[0].Inputs = []int32{0}
	last.Data = &executor.Placement{Rule: executor.Random, Block: 1 << 30, Replicas: 1, Seed: 1}
	collector := simulate(t, "drf", p, sim.Config{}, job("a1", 0, 11, 5e9, 50e6), job("a2", 0, 11, 5e9, 50e6),
		job("b1", 5, 16, 10e9, 20e6), last)
	got := values(collector, metrics.Window{})
	// a1 and a2 run 0 to 10, b1 10 to 20, b2 21 to 31 on its node or 26 to 36 on the other.
	end, local := 31.0, 1.0
	if got["completion_time"] > 31 {
		end, local = 36, 0
	}
	held := end - 21
	for name, want := range map[string]float64{
		"qos_rate": 2. / 3, "completion_time": end, "throughput": 400 / end, "throughput_sojourn": (10 + 10 + 15 +
			held) * 10 / end, "locality_rate": local,
		"utilisation_memory": (2*5*10 + 10*10 + 1*held) / (20 * end), "utilisation_disk": (2*50*10 + 20*10 +
			20*held) / (200 * end),
		"utilisation": (4*10 + 2*10 + 2*held) / (4 * end),
		// Both have jobs from 5 to 10, when a has all and b nothing.
		"jain": 0.5, "share_a": 10 / end, "share_b": (10*0.5 + 0.5*held) / end,
	} {
		near(t, name, got[name], want)
	}
	shares := collector.Shares()
	if len(shares) != 2 || shares[0].Tenant != "a" ||
		!slices.Equal(shares[0].Points, []metrics.SharePoint{{At: 0, Share: 1}, {At: 10e9, Share: 0}}) {
		t.Errorf("shares over time: %+v", shares)
	}
}
