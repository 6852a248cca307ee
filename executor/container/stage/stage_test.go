package stage_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/planner"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
)

var flow = &executor.WorkflowSpec{Name: "wf"}

// area is two nodes with a link of the given rate between them.
func area(t *testing.T, rate unit.BytesPerSecond) (*stage.Area, string) {
	t.Helper()
	dir := t.TempDir()
	p := &planner.Platform{Nodes: []planner.Node{{Name: "n0"}, {ID: 1, Name: "n1", Group: 1}},
		Groups:    []string{"a", "b"},
		Bandwidth: [][]unit.BytesPerSecond{{0, rate}, {rate, 0}}, Latency: [][]int64{{0, 0}, {0, 0}}}
	s, err := stage.Open(dir, p, 1)
	must(t, err)
	return s, dir
}

// Two files whose names a careless scheme for temporary files would mix up cross the same link at once.
func TestCopiesDoNotCollideWhateverTheNames(t *testing.T) {
	s, _ := area(t, 1<<20)
	names := []string{"foo", ".gantry-partial-foo", "1", "foo.part", "partial/1"}
	for _, name := range names {
		at := filepath.Join(s.NodeDir(0, flow), name)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		must(t, os.WriteFile(at, []byte(name+string(make([]byte, 100_000))), 0o644))
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
		if b, err := os.ReadFile(filepath.Join(s.NodeDir(1, flow), name)); err != nil || len(b) != len(name)+100_000 ||
			string(b[:len(name)]) != name {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
}

func TestWhatWasNotCompletedGoes(t *testing.T) {
	_, dir := area(t, 0)
	must(t, os.WriteFile(filepath.Join(dir, "partial", "7"), nil, 0o644))
	p := &planner.Platform{Nodes: []planner.Node{{Name: "n0"}}, Groups: []string{""},
		Bandwidth: [][]unit.BytesPerSecond{{0}}, Latency: [][]int64{{0}}}
	if _, err := stage.Open(dir, p, 1); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "partial")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// Of several inputs that are missing the error names the first one, although they are looked for at once.
func TestTheFirstMissingInputIsNamed(t *testing.T) {
	s, dir := area(t, 0)
	l := &executor.Launch{Spec: &executor.TaskSpec{Workflow: flow, Name: "t", Command: []string{"x"}}}
	for i := range 8 {
		name := "f" + strconv.Itoa(i)
		l.Spec.Inputs = append(l.Spec.Inputs, &executor.FileSpec{ID: planner.FileID(i), Name: name,
			External: filepath.Join(dir, "nowhere", name)})
	}
	for l.Try = 1; l.Try < 100; l.Try++ {
		if _, err := s.Stage(t.Context(), l, nil); err == nil || !strings.HasPrefix(err.Error(), `input "f0" `) {
			t.Fatal(err)
		}
	}
}

// sparse writes a file of that size with data in the given places, and holes elsewhere.
func sparse(t *testing.T, path string, size int64, data map[int64]string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	for at, text := range data {
		if _, err := f.WriteAt([]byte(text), at); err != nil {
			t.Fatal(err)
		}
	}
	must(t, f.Truncate(size))
}

func onDisk(t *testing.T, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	must(t, err)
	return st.Sys().(*syscall.Stat_t).Blocks * 512
}

func TestSparseFilesStaySparse(t *testing.T) {
	const size = 3 << 30
	for name, data := range map[string]map[int64]string{
		"empty":           {},
		"begin":           {0: "first"},
		"middle":          {1<<30 + 12345: "in between"},
		"end":             {size - 4: "last"},
		"everywhere":      {0: "a", 1 << 20: "b", 1<<20 + 4096: "c", 2 << 30: "d", size - 1: "e"},
		"sub/beyond 2 GB": {1<<31 + 1: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := area(t, 0)
			from, to := filepath.Join(s.NodeDir(0, flow), name), filepath.Join(s.NodeDir(1, flow), name)
			sparse(t, from, size, data)
			if onDisk(t, from) > 1<<20 {
				t.Skip("this file system keeps no holes")
			}
			n, err := s.Copy(t.Context(), &executor.FileSpec{Name: name, Produced: true}, flow, 0, 1)
			if err != nil || n != size {
				t.Fatalf("copied %d bytes: %v", n, err)
			}
			if onDisk(t, to) > onDisk(t, from)+1<<16 {
				t.Errorf("the copy takes %d bytes on disk, the file %d", onDisk(t, to), onDisk(t, from))
			}
			f, err := os.Open(to)
			must(t, err)
			defer f.Close()
			for at, text := range data {
				got := make([]byte, len(text))
				if _, err := f.ReadAt(got, at); err != nil || string(got) != text {
					t.Errorf("at %d is %q, not %q: %v", at, got, text, err)
				}
			}
		})
	}
}

// The copy of any file has the same bytes, whatever its data and holes.
func TestCopiesHaveTheSameBytes(t *testing.T) {
	seedtest.Check(t, func(rt *rapid.T) {
		s, _ := area(t, unit.BytesPerSecond(rapid.SampledFrom([]int64{0, 1 << 40}).Draw(rt, "rate")))
		size := rapid.Int64Range(0, 1<<20).Draw(rt, "size")
		data := map[int64]string{}
		for range rapid.IntRange(0, 5).Draw(rt, "pieces") {
			text := rapid.StringN(1, 2000, -1).Draw(rt, "text")
			if at := rapid.Int64Range(0, 1<<20).Draw(rt, "at"); at+int64(len(text)) <= size {
				data[at] = text
			}
		}
		from, to := filepath.Join(s.NodeDir(0, flow), "f"), filepath.Join(s.NodeDir(1, flow), "f")
		sparse(t, from, size, data)
		if _, err := s.Copy(t.Context(), &executor.FileSpec{Name: "f", Produced: true}, flow, 0, 1); err != nil {
			rt.Fatal(err)
		}
		a, err1 := os.ReadFile(from)
		b, err2 := os.ReadFile(to)
		if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
			rt.Fatalf("they differ: %v %v", err1, err2)
		}
		os.Remove(to)
	})
}

// With scratch, a try deletes what those before it left: no room is held by attempts that came to nothing. Their output
// stays, and so do checkpoints.
func TestScratchDropsEarlierTries(t *testing.T) {
	s, _ := area(t, 0)
	s.Scratch = true
	spec := &executor.TaskSpec{Name: "t", Workflow: flow, Command: []string{"x"}, Outputs: []*executor.FileSpec{
		{ID: 0, Name: "out"}, {ID: 1, Name: "state/c", Checkpoint: true}}}
	for try := int32(1); try <= 3; try++ {
		if _, err := s.Stage(t.Context(), &executor.Launch{Spec: spec, Try: try}, nil); err != nil {
			t.Fatal(err)
		}
		dir := s.WorkDir(spec, try)
		for _, name := range []string{"out", "temporary/x", "state/c", ".command.out", ".command.globs/x/y"} {
			at := filepath.Join(dir, name)
			must(t, os.MkdirAll(filepath.Dir(at), 0o755))
			must(t, os.WriteFile(at, []byte("x"), 0o644))
		}
	}
	for try, want := range map[int32]int{1: 2, 2: 2, 3: 5} {
		if left, err := stage.Files(s.WorkDir(spec, try)); err != nil || len(left) != want {
			t.Errorf("try %d: left are %v, %v", try, left, err)
		}
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
