package main

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gantry/planner"
)

// build puts the task emulator where the runtime looks for it.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "gantry-task")
	cmd := exec.Command("go", "build", "-o", binary, "gantry/cmd/gantry-task")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

func TestTinySoakOnTheNullRuntime(t *testing.T) {
	o := options{attempts: 3000, stream: 800, run: 1, samples: 40, seed: 1, dir: t.TempDir(), out: t.TempDir()}
	if err := o.soak(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"null.csv": "log_bytes_per_attempt", "null.svg": "live heap"} {
		text, err := os.ReadFile(filepath.Join(o.out, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s says nothing of %q: %v", name, want, err)
		}
	}
}

func TestTinySoakInContainers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long beside other tests: make test-long runs it")
	}
	if out, err := exec.Command("docker", "image", "inspect", "gantry/busybox:latest").CombinedOutput(); err != nil {
		t.Skipf("needs a Docker Engine with the image gantry/busybox:latest (make images): %v %s", err, out)
	}
	t.Setenv("PATH", filepath.Dir(build(t))+":"+os.Getenv("PATH"))
	o := options{containers: 30, stream: 1, run: 15, samples: 10, seed: 1, dir: t.TempDir(), out: t.TempDir(),
		examples: "../../examples"}
	if err := o.soak(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestFaultsOfEveryKindHappen(t *testing.T) {
	o := options{attempts: 5_000, stream: 5_000, samples: 8, seed: 3, dir: t.TempDir(), out: t.TempDir()}
	m := &meter{home: t.TempDir(), every: math.MaxInt32}
	p := o.null()
	if err := p.run(t.Context(), m, o.seed); err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		if m.ends[f.outcome] == 0 {
			t.Errorf("no attempt ended with %s", f.outcome)
		}
	}
	if m.outages == 0 || m.ends[planner.OK] == 0 {
		t.Errorf("%d outages, %d attempts ended well", m.outages, m.ends[planner.OK])
	}
}

func TestJudgeFailsWhatGrows(t *testing.T) {
	flat := func() *meter {
		m := &meter{attempts: 1000}
		for i := range 100 {
			var s sample
			s.attempts = 10 * (i + 1)
			for q := range s.values {
				s.values[q] = 100 + float64(i%7)
			}
			m.samples = append(m.samples, s)
		}
		return m
	}
	if err := flat().judge(); err != nil {
		t.Errorf("flat: %v", err)
	}
	for q := range sampled {
		m := flat()
		for i := range m.samples {
			m.samples[i].values[q] += 5 * float64(i)
		}
		if err := m.judge(); err == nil || !strings.Contains(err.Error(), sampled[q].label) {
			t.Errorf("%s grows: %v", sampled[q].label, err)
		}
	}
}
