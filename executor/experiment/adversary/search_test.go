package adversary_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/experiment/adversary"
	"gantry/executor/experiment/metrics"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/predict"
	"gantry/trace"
	"gantry/trace/reader"
	"gantry/trace/scenario"
)

func search(metric adversary.Metric, a, b string, workflows int) *adversary.Search {
	return &adversary.Search{A: a, B: b, Metric: metric, Workflows: workflows, Tasks: 6, Nodes: 3, Cores: 2, Steps: 60,
		Seed: 5, Tenants: workflows, Startup: 50 * time.Millisecond, Longest: time.Minute}
}

// A chain gets worse than where it began, stays within the bounds, and is the same each time.
func TestChainsFindInstances(t *testing.T) {
	for _, s := range []*adversary.Search{search(adversary.Makespan, "cpp", "heft", 1),
		search(adversary.Slowdown, "fdws", "fwp", 3), search(adversary.Lateness, "fifo", "edf", 3)} {
		start := *s
		start.Steps = 0
		first, err := start.Chain(t.Context(), 2)
		must(t, err)
		f, err := s.Chain(t.Context(), 2)
		must(t, err)
		if f.Ratio() <= first.Ratio() {
			t.Errorf("%s of %s over %s: ratio %v from %v", s.Metric, s.A, s.B, f.Ratio(), first.Ratio())
		}
		again, _ := s.Chain(t.Context(), 2)
		one, _ := json.Marshal(f)
		two, _ := json.Marshal(again)
		if !bytes.Equal(one, two) {
			t.Errorf("%s of %s over %s differs:\n%s\n%s", s.Metric, s.A, s.B, one, two)
		}
		sum := 0.0
		for _, speed := range f.Instance.Speeds {
			sum += speed
		}
		if sum > s.Cores || slices.Max(f.Instance.Speeds) > 1 || len(f.Instance.Flows) != s.Workflows {
			t.Errorf("speeds %v, %d workflows", f.Instance.Speeds, len(f.Instance.Flows))
		}
	}
}

// With an error model, which estimates are wrong is searched, too.
func TestWrongEstimatesAreSearched(t *testing.T) {
	s := search(adversary.Makespan, "heft", "cpp", 1)
	s.Errors = "random1:1"
	drawn := 0
	for n := range 4 {
		f, err := s.Chain(t.Context(), n)
		must(t, err)
		if f.Instance.Seed != 0 {
			drawn++
		}
	}
	if drawn == 0 {
		t.Error("no chain of four has other estimates than it began with")
	}
}

// Ratios stay where containers start in half or twice the time, and tasks run up to 5 % longer.
func TestRatiosAreSteady(t *testing.T) {
	moved := 0
	for n := range 12 {
		s := search(adversary.Slowdown, "heft", "cpp", 3)
		f, err := s.Chain(t.Context(), n)
		must(t, err)
		if got := slowdown(t, s, f.Instance, s.A, 1, 0); math.Abs(got/f.A-1) > 1e-6 {
			t.Fatalf("the mean slowdown is %v, want %v", got, f.A)
		}
		for k := range 4 {
			factor, part := 0.5*float64(k+1), 0.618*float64(k+1)
			ratio := slowdown(t, s, f.Instance, s.A, factor, part) / slowdown(t, s, f.Instance, s.B, factor, part)
			if math.Abs(ratio/f.Ratio()-1) > 0.1 {
				moved++
			}
		}
	}
	if t.Logf("%d of 48 ratios move", moved); moved > 4 {
		t.Errorf("%d of 48 ratios move by more than 10 %%", moved)
	}
}

// slowdown is the mean one where starts take factor times as long and tasks run longer, by parts that follow from part.
func slowdown(t *testing.T, s *adversary.Search, x *adversary.Instance, policy string, factor, part float64) float64 {
	t.Helper()
	p, err := executor.PlatformOf(x.Cluster())
	must(t, err)
	subs := []executor.Submission{}
	for i, flow := range x.Flows {
		w := x.Workflow(i)
		subs = append(subs, executor.Submission{ID: int64(i + 1), Name: w.Name, Workflow: w, Tenant: flow.Tenant,
			At: planner.Time(flow.Arrive * 1e6)})
	}
	slices.SortStableFunc(subs, func(a, b executor.Submission) int { return int(a.At - b.At) })
	e := enginetest.With(t, p, enginetest.Policy(t, policy), &predict.Declared{Startup: s.Startup}, subs...)
	e.Runtime = sim.New(sim.Config{Platform: p, Startup: time.Duration(factor * float64(s.Startup)),
		Actual: func(t planner.TaskID, run time.Duration) time.Duration {
			_, x := math.Modf(part * float64(t+1))
			return run + time.Duration(0.05*x*float64(run))
		}})
	c, sum := metrics.NewCollector(p), 0.0
	e.Watch = c.Watch
	enginetest.Run(t, e)
	for i := range c.Workflows() {
		sum += c.Workflows()[i].Slowdown()
	}
	return sum / float64(len(subs))
}

// Files say exactly the instance that was measured.
func TestFilesHaveTheInstance(t *testing.T) {
	f, err := search(adversary.Lateness, "fifo", "edf", 3).Chain(t.Context(), 0)
	must(t, err)
	x := f.Instance
	var text bytes.Buffer
	must(t, x.WriteCluster(&text))
	c, err := scenario.ReadCluster(&text, "c.yaml")
	must(t, err)
	executor.FillDisk(c)
	want, _ := json.Marshal(x.Cluster())
	if got, _ := json.Marshal(c); !bytes.Equal(got, want) {
		t.Errorf("cluster %s\nwant %s", got, want)
	}
	must(t, x.WriteWorkload(&text, func(int) string { return "w.json" }))
	w, err := scenario.ReadWorkload(&text, "w.yaml")
	must(t, err)
	for i := range x.Flows {
		a, flow := &w.Arrivals[i], &x.Flows[i]
		if a.Arrive.Milliseconds() != flow.Arrive || a.Tenant != flow.Tenant ||
			a.Deadline != time.Duration(flow.Arrive+flow.Allowed)*time.Millisecond {
			t.Errorf("workflow %d: %+v, want %+v", i, a, flow)
		}
		text.Reset()
		must(t, trace.WriteWfFormat(&text, x.Workflow(i)))
		read, faults, err := trace.Read(&text, "w.json", trace.ReadOptions{})
		if err != nil || reader.HasErrors(faults) {
			t.Fatalf("%v %v", err, faults)
		}
		for k := range flow.Tasks {
			if got := read.Tasks[k].Runtime.Milliseconds(); got != flow.Tasks[k].Runtime {
				t.Errorf("task %d runs %d ms, want %d", k, got, flow.Tasks[k].Runtime)
			}
		}
	}
}

// A search that was interrupted finds the same as one that was not.
func TestASearchContinues(t *testing.T) {
	s := search(adversary.Makespan, "cpp", "heft", 1)
	path := filepath.Join(t.TempDir(), "r.jsonl")
	open := func(s *adversary.Search) *adversary.Record {
		t.Helper()
		r, err := adversary.Open(path, s)
		must(t, err)
		t.Cleanup(func() { r.Close() })
		return r
	}
	r := open(s)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Run(ctx, 6, 2, r.Done(), func(f *adversary.Found) error {
		defer cancel()
		return r.Keep(f)
	})
	if !errors.Is(err, context.Canceled) || len(r.Found) == 0 || len(r.Found) == 6 {
		t.Fatalf("%v, %d chains", err, len(r.Found))
	}
	r.Close()
	text, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, append(text, `{"chain":5,"a":1`...), 0o644)) // as a killed gantry leaves it
	r = open(s)
	before := len(r.Found)
	must(t, s.Run(t.Context(), 6, 2, r.Done(), r.Keep))
	if before == 0 || len(r.Found) != 6 || len(r.Done()) != 6 {
		t.Errorf("%d chains before, %d after", before, len(r.Found))
	}
	whole := (*adversary.Found)(nil)
	for i := range 6 {
		f, err := s.Chain(t.Context(), i)
		must(t, err)
		if whole == nil || f.Ratio() > whole.Ratio() {
			whole = f
		}
	}
	if got := r.Worst(6); got.Ratio() != whole.Ratio() || got.Chain != whole.Chain {
		t.Errorf("chain %d with %v, want %d with %v", got.Chain, got.Ratio(), whole.Chain, whole.Ratio())
	}
	other := *s
	other.Steps++
	if _, err := adversary.Open(path, &other); err == nil {
		t.Error("a record of another search is taken")
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
