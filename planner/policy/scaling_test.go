package policy_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
)

// scaledBy has all times a common factor longer and the speeds of all nodes another higher: each run lasts
// times/speeds as long.
func scaledBy(in Instance, times, speeds int64) Instance {
	in.Nodes, in.Workflows = slices.Clone(in.Nodes), slices.Clone(in.Workflows)
	for n := range in.Nodes {
		in.Nodes[n].Speed *= float64(speeds)
	}
	for f := range in.Workflows {
		w := &in.Workflows[f]
		w.Arrive, w.Release, w.Due = w.Arrive*unit.Time(times), w.Release*unit.Time(times), w.Due*unit.Time(times)
		w.Tasks = slices.Clone(w.Tasks)
		for i := range w.Tasks {
			t := &w.Tasks[i]
			t.Run, t.Est = t.Run*time.Duration(times*speeds), t.Est*time.Duration(times*speeds)
		}
	}
	return in
}

// Scaling all times by a common factor, and speeds and runtimes by another, changes no decision: all happens as
// before, at the scaled instants. It does so only if nothing depends on how a float is rounded.
func TestCommonFactorsChangeNoDecisionWithDeadlines(t *testing.T) {
	specs := append([]string{"edf", "mrcp-rm:steps=2000"}, configurations...)
	for seed := range seedtest.Seeds(t, 40) {
		in := Draw(rand.New(rand.NewPCG(seed, 7)), Shape{Tasks: 20, Dummies: true,
			Released: true, Sizes: seed%2 == 0,
			Memory: seed%4 == 0, Speeds: []float64{0.5, 1, 1.5}})
		for _, spec := range specs {
			plain, err := Simulate(in, spec)
			must(t, err)
			for _, factors := range [][2]int64{{7, 1}, {1, 3}, {1_000_003, 5}} {
				if factors[0] > 1 && strings.HasSuffix(spec, "tsp2") {
					continue // starts at sub-deadlines, which are rounded to nanoseconds, the unit of time
				}
				got, err := Simulate(scaledBy(in, factors[0], factors[1]), spec)
				must(t, err)
				want := slices.Clone(plain.Stays)
				for k := range want {
					want[k].Start, want[k].End = want[k].Start*unit.Time(factors[0]), want[k].End*unit.Time(factors[0])
				}
				if what := Difference(got.Stays, want, true); what != "" {
					t.Fatalf("%s, times by %d, speeds by %d: %s\n%s", spec, factors[0], factors[1], what, in)
				}
			}
		}
	}
}
