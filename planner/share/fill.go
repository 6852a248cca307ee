package share

import (
	"gantry/planner"
	"gantry/planner/unit"
)

// OnMisfit says what happens when the demand of the tenant with the least share does not fit.
type OnMisfit uint8

const (
	Stop OnMisfit = iota // the cluster is full, as Algorithm 1 returns
	Skip                 // the tenant is passed over, the others continue
)

// Step is one decision of Fill.
type Step struct {
	Tenant   planner.TenantID
	Share    Fraction    // of the tenant after it
	Consumed unit.Vector // by all
}

// Fill runs Algorithm 1 of 3DSF on one pool until it is full: tenants, each with tasks of one demand and no end of
// them, are served by least share. Naive DRF looks at disk I/O on admission only.
func Fill(total unit.Vector, demands []unit.Vector, rule Rule, misfit OnMisfit) (tasks []int, steps []Step) {
	l := New(total, rule)
	for m, d := range demands {
		if d != (unit.Vector{}) { // what needs nothing fits without end
			l.Want(planner.TenantID(m), d)
		}
	}
	tasks = make([]int, len(demands))
	var consumed unit.Vector
	for {
		m, ok := l.Least()
		if !ok {
			return tasks, steps
		}
		next := consumed.Add(demands[m])
		if !next.Fits(total) {
			if misfit == Stop {
				return tasks, steps
			}
			l.Content(m)
			continue
		}
		consumed = next
		l.Add(m, demands[m])
		tasks[m]++
		steps = append(steps, Step{m, l.Share(m), consumed})
	}
}
