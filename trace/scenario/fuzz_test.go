package scenario_test

import (
	"bytes"
	"strings"
	"testing"

	"gantry/trace/reader/readertest"
	"gantry/trace/scenario"
)

// Whatever a file says, it is read without a panic, and what is taken describes something.
func FuzzScenario(f *testing.F) {
	for _, s := range []string{labCluster, morning, day, experimentText,
		"mix: [{generator: random, fat: [0.2, 1], tasks: 3..4}]\ncount: 2\narrivals: {process: poisson, rate: " +
			"1/22s}\ndeadlines: {after: 1h..2h}\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		readertest.Bounded(t, len(data), func() { consistent(t, data) })
	})
}

func consistent(t *testing.T, data []byte) {
	if c, err := scenario.ReadCluster(bytes.NewReader(data), "fuzz"); err == nil && len(c.Nodes) == 0 {
		t.Fatal("an empty cluster")
	}
	if x, err := scenario.ReadExperiment(bytes.NewReader(data), "fuzz", false, ""); err == nil && len(x.Blocks) == 0 {
		t.Fatal("an empty experiment")
	}
	if s := string(data); strings.Contains(s, "costs") || strings.Contains(s, "times") { // could name any file
		return
	}
	if w, err := scenario.ReadWorkload(bytes.NewReader(data), "fuzz"); err == nil && len(w.Arrivals) == 0 &&
		(w.Stream == nil || w.Stream.Count == 0) {
		t.Fatal("an empty workload")
	}
}
