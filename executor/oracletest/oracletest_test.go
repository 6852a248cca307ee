package oracletest

import (
	"math/rand/v2"
	"testing"
	"time"

	"gantry/planner/seed/seedtest"
)

// A disagreement that needs two workflows, one of them with a task of 9 s or more before another, shrinks to just that.
func TestShrinkFindsTheSmallestInstance(t *testing.T) {
	fails := func(in Instance) bool {
		for _, w := range in.Workflows {
			for _, x := range w.Tasks {
				for _, q := range x.Parents {
					if w.Tasks[q].Run >= 9*time.Second && len(in.Workflows) > 1 {
						return true
					}
				}
			}
		}
		return false
	}
	shrunk := 0
	for seed := range seedtest.Seeds(t, 40) {
		in := Draw(rand.New(rand.NewPCG(seed, 1)), Shape{Dummies: true, Sizes: true, Memory: true, Wrong: true,
			Released: true})
		if !fails(in) {
			continue
		}
		shrunk++
		small := Shrink(in, fails)
		tasks, run := 0, time.Duration(0)
		for _, w := range small.Workflows {
			for _, x := range w.Tasks {
				tasks, run = tasks+1, run+x.Run
			}
		}
		if len(small.Nodes) != 1 || len(small.Workflows) != 2 || tasks != 3 || run > 15*time.Second {
			t.Errorf("seed %d: shrunk to %s", seed, small)
		}
		again, err := Parse(small.String()[len(small.String())-len(marshal(small)):])
		if err != nil || again.String() != small.String() {
			t.Errorf("%s is read back as %s, %v", small, again, err)
		}
	}
	if shrunk < seedtest.Times(40)/4 {
		t.Errorf("only %d instances fail", shrunk)
	}
}

// Every instance that is drawn can be simulated, and every task of it that takes time has one attempt.
func TestDrawnInstancesAreSimulated(t *testing.T) {
	for seed := range seedtest.Seeds(t, 50) {
		in := Draw(rand.New(rand.NewPCG(seed, 2)), Shape{Dummies: true, Sizes: true, Memory: true, Wrong: true,
			Released: true, Speeds: []float64{0.5, 1, 1.5}})
		course, err := Simulate(in, "edf")
		if err != nil {
			t.Fatalf("%v\n%s", err, in)
		}
		tasks := 0
		for _, w := range in.Workflows {
			for _, x := range w.Tasks {
				if x.Run > 0 {
					tasks++
				}
			}
		}
		if len(course.Stays) != tasks {
			t.Errorf("seed %d: %d attempts of %d tasks", seed, len(course.Stays), tasks)
		}
	}
}
