package stage_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"gantry/executor"
	"gantry/executor/stage"
	"gantry/planner"
	"gantry/planner/unit"
)

var flow = &executor.WorkflowSpec{Name: "wf"}

// area is two nodes with a link of the given rate between them.
func area(t *testing.T, rate unit.BytesPerSecond) (*stage.Area, string) {
	t.Helper()
	dir := t.TempDir()
	p := &planner.Platform{Nodes: []planner.Node{{Name: "n0"}, {ID: 1, Name: "n1", Group: 1}}, Groups: []string{"a", "b"},
		Bandwidth: [][]unit.BytesPerSecond{{0, rate}, {rate, 0}}, Latency: [][]int64{{0, 0}, {0, 0}}}
	s, err := stage.Open(dir, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// Two files whose names a careless scheme for temporary files would mix up cross the same link at once.
func TestCopiesDoNotCollideWhateverTheNames(t *testing.T) {
	s, _ := area(t, 1<<20)
	names := []string{"foo", ".gantry-partial-foo", "1", "foo.part", "partial/1"}
	for _, name := range names {
		at := filepath.Join(s.NodeDir(0, flow), name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(name+string(make([]byte, 100_000))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Add(1)
		go func() {
			defer wg.Done()
			f := &executor.FileSpec{ID: planner.FileID(i), Name: name, Produced: true}
			if _, err := s.Copy(t.Context(), f, flow, 0, 1); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	for _, name := range names {
		if b, err := os.ReadFile(filepath.Join(s.NodeDir(1, flow), name)); err != nil || len(b) != len(name)+100_000 || string(b[:len(name)]) != name {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
}

func TestWhatWasNotCompletedGoes(t *testing.T) {
	_, dir := area(t, 0)
	if err := os.WriteFile(filepath.Join(dir, "partial", "7"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p := &planner.Platform{Nodes: []planner.Node{{Name: "n0"}}, Groups: []string{""}, Bandwidth: [][]unit.BytesPerSecond{{0}}, Latency: [][]int64{{0}}}
	if _, err := stage.Open(dir, p, 1); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "partial")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// Publishing continues after a crash between any two of its moves, and is right when repeated.
func TestPublishingIsRepeatable(t *testing.T) {
	for moved := range 3 {
		s, dir := area(t, 0)
		l := &executor.Launch{Attempt: 1, Try: 1, Spec: &executor.TaskSpec{Workflow: flow, Name: "t", Outputs: []*executor.FileSpec{
			{ID: 0, Name: "a", Produced: true, Final: true}, {ID: 1, Name: "d/b", Produced: true}}}}
		if _, err := s.Stage(t.Context(), l, nil); err != nil {
			t.Fatal(err)
		}
		work := s.WorkDir(l.Spec, 1)
		for i, f := range l.Spec.Outputs {
			at := filepath.Join(work, f.Name)
			if i < moved { // by a gantry that was killed then
				at = filepath.Join(s.NodeDir(0, flow), f.Name)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(at, []byte(f.Name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if moved > 0 {
			if err := os.WriteFile(filepath.Join(dir, "note"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if missing, err := s.Publish(l, filepath.Join(dir, "note")); missing != "" || err != nil {
				t.Fatalf("%d moved: %q, %v", moved, missing, err)
			}
		}
		for _, at := range []string{filepath.Join(s.NodeDir(0, flow), "a"), filepath.Join(s.NodeDir(0, flow), "d/b"), filepath.Join(dir, "results/wf/a")} {
			if _, err := os.Stat(at); err != nil {
				t.Errorf("%d moved: %v", moved, err)
			}
		}
	}
}
