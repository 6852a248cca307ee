package share_test

import (
	"gantry/planner"
	"gantry/planner/exact"
	"gantry/planner/share"
	"gantry/planner/unit"
)

// step is one decision of fill.
type step struct {
	Tenant   planner.TenantID
	Share    exact.Fraction // of the tenant after it
	Consumed unit.Vector    // by all
}

// fill runs Algorithm 1 of 3DSF on one pool until it is full: tenants, each with tasks of one demand and no end of
// them, are served by least share. Naive DRF looks at disk I/O on admission only.
func fill(total unit.Vector, demands []unit.Vector, rule share.Rule, misfit share.OnMisfit) (
	tasks []int, steps []step) {
	l := share.New(total, rule)
	for m := range demands {
		l.Weigh(planner.TenantID(m), 1)
	}
	passed := make([]bool, len(demands))
	wants := func(m planner.TenantID) (unit.Vector, bool) { // tasks without needs fit without end
		return demands[m], demands[m] != (unit.Vector{}) && !passed[m]
	}
	tasks = make([]int, len(demands))
	var consumed unit.Vector
	for {
		m, ok := l.Least(wants)
		if !ok {
			return tasks, steps
		}
		next := consumed.Add(demands[m])
		if !next.Fits(total) {
			if misfit == share.Stop {
				return tasks, steps
			}
			passed[m] = true
			continue
		}
		consumed = next
		l.Add(m, demands[m])
		tasks[m]++
		steps = append(steps, step{m, l.Share(m), consumed})
	}
}
