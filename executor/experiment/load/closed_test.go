package load_test

import (
	"math"
	"testing"

	"gantry/planner"
)

func TestNormalDeadlinesAreCutAtThreeStandardDeviations(t *testing.T) {
	w := parse(t, "count: 4000\nmix: [{generator: pi, tasks: 3, class: deadline}, {generator: plates, tasks: 3, "+
		"class: deadline}, {generator: pi, tasks: 3, class: low}]\n"+
		"arrivals: {process: closed, population: 7}\ndeadlines: {normal: 2}")
	// Mean critical paths: a map and a reduce task after each other, the longer of two map tasks.
	sum, squares, n, low := map[string]float64{}, map[string]float64{}, map[string]float64{}, 0
	mean := map[string]float64{"Pi_3": 0.32, "Plates_3": 3.6}
	subs := submissions(t, w, processors(2), 0)
	for i := range subs {
		s := &subs[i]
		if s.Population != 7 || s.At != 0 {
			t.Fatalf("submission %+v", s)
		}
		if s.Class == planner.Low {
			low++
			continue
		}
		x := s.Due.Seconds() / mean[s.Workflow.Label]
		if x < 0.97 || x > 3.25 {
			t.Fatalf("%s is due after %v critical paths", s.Name, x)
		}
		sum[s.Workflow.Label] += x
		squares[s.Workflow.Label] += x * x
		n[s.Workflow.Label]++
	}
	if math.Abs(float64(low)-4000./3) > 1 {
		t.Errorf("%d of class low", low)
	}
	for label := range mean {
		m := sum[label] / n[label]
		sd := math.Sqrt(squares[label]/n[label] - m*m)
		if m < 1.98 || m > 2.16 || sd < 0.3 || sd > 0.37 { // the critical path is a little above the sum of the means
			t.Errorf("%s: deadlines at %v critical paths on average, standard deviation %v", label, m, sd)
		}
	}
}
