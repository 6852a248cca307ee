package adversary_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/experiment/adversary"
	"gantry/trace"
	"gantry/trace/scenario"
)

func search(metric adversary.Metric, a, b string, workflows int) *adversary.Search {
	return &adversary.Search{A: a, B: b, Metric: metric, Workflows: workflows, Tasks: 6, Nodes: 3, Cores: 2, Steps: 60,
		Seed: 5, Tenants: workflows}
}

// A chain gets worse than where it began, stays within the bounds, and is the same each time.
func TestChainsFindInstances(t *testing.T) {
	for _, s := range []*adversary.Search{search(adversary.Makespan, "cpp", "heft", 1),
		search(adversary.Slowdown, "fdws", "fwp", 3), search(adversary.Lateness, "fifo", "edf", 3)} {
		start := *s
		start.Steps = 0
		first, err := start.Chain(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		f, err := s.Chain(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
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
		if sum > s.Cores || len(f.Instance.Flows) != s.Workflows {
			t.Errorf("speeds %v, %d workflows", f.Instance.Speeds, len(f.Instance.Flows))
		}
	}
}

// Files say exactly the instance that was measured.
func TestFilesHaveTheInstance(t *testing.T) {
	f, err := search(adversary.Lateness, "fifo", "edf", 3).Chain(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	x := f.Instance
	var text bytes.Buffer
	if err := x.WriteCluster(&text); err != nil {
		t.Fatal(err)
	}
	c, err := scenario.ReadCluster(&text, "c.yaml")
	if err != nil {
		t.Fatal(err)
	}
	executor.FillDisk(c)
	want, _ := json.Marshal(x.Cluster())
	if got, _ := json.Marshal(c); !bytes.Equal(got, want) {
		t.Errorf("cluster %s\nwant %s", got, want)
	}
	if err := x.WriteWorkload(&text, func(int) string { return "w.json" }); err != nil {
		t.Fatal(err)
	}
	w, err := scenario.ReadWorkload(&text, "w.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.Flows {
		a, flow := &w.Arrivals[i], &x.Flows[i]
		if a.Arrive.Milliseconds() != flow.Arrive || a.Tenant != flow.Tenant ||
			a.Deadline != time.Duration(flow.Arrive+flow.Allowed)*time.Millisecond {
			t.Errorf("workflow %d: %+v, want %+v", i, a, flow)
		}
		text.Reset()
		if err := trace.WriteWfFormat(&text, x.Workflow(i)); err != nil {
			t.Fatal(err)
		}
		read, faults, err := trace.Read(&text, "w.json", trace.ReadOptions{})
		if err != nil || trace.HasErrors(faults) {
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
		if err != nil {
			t.Fatal(err)
		}
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
	if err == nil {
		err = os.WriteFile(path, append(text, `{"chain":5,"a":1`...), 0o644) // as a killed gantry leaves it
	}
	if err != nil {
		t.Fatal(err)
	}
	r = open(s)
	before := len(r.Found)
	if err := s.Run(t.Context(), 6, 2, r.Done(), r.Keep); err != nil {
		t.Fatal(err)
	}
	if before == 0 || len(r.Found) != 6 || len(r.Done()) != 6 {
		t.Errorf("%d chains before, %d after", before, len(r.Found))
	}
	whole := (*adversary.Found)(nil)
	for i := range 6 {
		f, err := s.Chain(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
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
