package generate_test

import (
	"math"
	"testing"
	"time"

	"gantry/trace/generate"
)

// The means that the parameters name are those of many workflows.
func TestMixedWorkflowsHaveTheMeansTheirParametersSay(t *testing.T) {
	const n, runs = 60, 400
	for _, m := range []generate.Mixed{
		{Shape: 1, OutDegree: 3, CCR: 1, BRange: 0.5, WDAG: 550, Processors: [2]int{1, 9}},
		{Shape: 0.5, OutDegree: 1, CCR: 0.1, BRange: 0.1, WDAG: 100, Processors: [2]int{4, 4}},
		{Shape: 2, OutDegree: 5, CCR: 2, BRange: 1, WDAG: 1000, Processors: [2]int{1, 50}},
	} {
		var height, cost, ratio, cores, tasks float64
		for seed := range uint64(runs) {
			w, err := generate.New("mixed", n, seed+1, generate.Options{Parameters: &m})
			must(t, err)
			var size, runtime float64
			for i := range w.Tasks {
				x := &w.Tasks[i]
				runtime += x.Runtime.Seconds()
				cores += x.Cores
				tasks++
				if x.Cores < float64(m.Processors[0]) || x.Cores > float64(m.Processors[1]) {
					t.Fatalf("a task takes %v processors of %v", x.Cores, m.Processors)
				}
				if roots := len(x.Parents) == 0; roots != (i == 0) || (len(x.Children) == 0) != (i == n-1) {
					t.Fatalf("task %d of %d has %d parents and %d children: there is one entry and one exit", i, n,
						len(x.Parents), len(x.Children))
				}
			}
			edges := 0.0
			for i := range w.Files {
				size += float64(w.Files[i].Size)
				edges++
			}
			height += float64(levels(w)[n-1] + 1)
			cost += runtime / n
			ratio += size / edges / generate.MixedRate / (runtime / n)
		}
		near := func(what string, got, want, within float64) {
			t.Helper()
			if math.Abs(got/want-1) > within {
				t.Errorf("%+v: %s is %.3f on average, want %.3f", m, what, got, want)
			}
		}
		near("computation cost", cost/runs, m.WDAG, 0.03)
		near("CCR", ratio/runs, m.CCR, 0.03)
		near("processors", cores/tasks, float64(m.Processors[0]+m.Processors[1])/2, 0.02)
		near("height", height/runs, math.Sqrt(n)/m.Shape, 0.15) // levels are whole, and there are three at least
	}
}

func TestCostsOnClustersLieWithinTheirRange(t *testing.T) {
	m := generate.DefaultMixed
	m.BRange = 0.5
	w, err := generate.New("mixed", 500, 1, generate.Options{Parameters: &m})
	must(t, err)
	sum, lowest, highest := 0.0, 2.0, 0.0
	for i, row := range m.MixedCosts(w, 5, 7) {
		for _, c := range row {
			x := float64(c) / float64(w.Tasks[i].Runtime)
			sum, lowest, highest = sum+x, min(lowest, x), max(highest, x)
		}
	}
	if mean := sum / 2500; math.Abs(mean-1) > 0.01 || lowest < 0.75 || lowest > 0.76 || highest > 1.25 ||
		highest < 1.24 {
		t.Errorf("costs over the mean cost: %.3f on average, from %.3f to %.3f, want 1, from 0.75 to 1.25", mean,
			lowest, highest)
	}
	// Another range scales the deviations and changes nothing else.
	wide := m
	wide.BRange = 1
	a, b := m.MixedCosts(w, 5, 7), wide.MixedCosts(w, 5, 7)
	for i := range a {
		for k := range a[i] {
			r := float64(w.Tasks[i].Runtime)
			if d := 2*(float64(a[i][k])-r) - (float64(b[i][k]) - r); math.Abs(d) > 3 {
				t.Fatalf("task %d on cluster %d: %d and %d of %v", i, k, a[i][k], b[i][k], r)
			}
		}
	}
}

func TestIntervalsMayBePoissonDistributed(t *testing.T) {
	at, err := generate.PoissonIntervals(100*time.Second)(2000, 3, 0)
	must(t, err)
	var sum, squares float64
	last := time.Duration(0)
	for _, a := range at {
		d := (a - last).Seconds()
		if d != math.Trunc(d) {
			t.Fatalf("an interval of %v s is not whole", d)
		}
		last = a
		sum, squares = sum+d, squares+d*d
	}
	mean := sum / 2000
	if sd := math.Sqrt(squares/2000 - mean*mean); math.Abs(mean-100) > 1 || math.Abs(sd-10) > 1 {
		t.Errorf("mean %.2f, standard deviation %.2f, want 100 and 10", mean, sd)
	}
}
