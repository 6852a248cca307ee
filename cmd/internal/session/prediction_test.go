package session

import (
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/forecast"
)

// Of 10 s for which tasks hold their nodes, starts take 6: they would take a tenth if the programs took 54 s and not 4.
func TestStartsThatDominateAreAnnounced(t *testing.T) {
	s := &Prediction{Planning: &Planning{Set: &Settings{TimeScale: 0.01}}}
	spec := &executor.TaskSpec{}
	f := &forecast.Forecast{Starting: 6 * time.Second, Held: 10 * time.Second, Course: &forecast.Course{
		Attempts: []forecast.Attempt{{Task: spec, Started: 1e9, Ended: 2e9}, {Task: spec, Started: 5e9, Ended: 8e9}}}}
	text := s.startsNote(f)
	for _, want := range []string{"60 %", "--time-scale 0.2 ", "10 %"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
	spec.Command = []string{"true"}
	if text := s.startsNote(f); !strings.Contains(text, "60 %") || strings.Contains(text, "time-scale") {
		t.Errorf("of programs: %q", text)
	}
	if f.Starting = 4 * time.Second; s.startsNote(f) != "" {
		t.Error("starts that take 40 % are announced")
	}
	for x, want := range map[float64]string{0.0123: "0.02", 0.2: "0.2", 12: "20", 1: "1", 0.95: "1", 0.013: "0.02"} {
		if got := roundUp(x); got != want {
			t.Errorf("%v is rounded up to %s, not %s", x, got, want)
		}
	}
}

// Few repetitions, too, have as many slow hosts as fast ones.
func TestRepetitionsCoverTheDriftOfTheHost(t *testing.T) {
	for n := 4; n <= 100; n++ {
		slow := 0
		for k := 1; k <= n; k++ {
			x := evenly(k)
			if x <= 0 || x >= 1 {
				t.Fatalf("repetition %d has the quantile %v", k, x)
			}
			if x > 0.5 {
				slow++
			}
		}
		if slow < n/2-1 || slow > (n+1)/2+1 {
			t.Errorf("%d of %d repetitions are slow", slow, n)
		}
	}
}
