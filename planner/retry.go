package planner

import "gantry/planner/unit"

// RetryRules say how often a task is tried again, by how its attempts ended.
type RetryRules struct {
	// Limit is the number of further attempts after ends of that class.
	Limit [lastOutcome + 1]int32
	// MemoryGrowth multiplies the memory need after an end out of memory; nothing else grows, and nothing grows after
	// other ends.
	MemoryGrowth float64
}

// DefaultRetryRules try again after ends that were not the program's fault, and give a program that ran out of memory
// twice as much, twice.
func DefaultRetryRules() RetryRules {
	r := RetryRules{MemoryGrowth: 2}
	r.Limit[OutOfMemory] = 2
	r.Limit[Killed] = 1
	r.Limit[Preempted], r.Limit[Lost] = unlimited, unlimited // gantry, the engine or the host ended those
	r.Limit[HostError] = 2
	return r
}

// unlimited is more than any task needs.
const unlimited = 1 << 30

// limitFor returns how many further attempts ends of class o allow t.
func (r *RetryRules) limitFor(t *Task, o Outcome) int32 {
	if (o == ExitCode || o == OutputMissing) && t.Retries != None {
		return t.Retries
	}
	return r.Limit[o]
}

// grown returns the need of a task that ran out of memory: more by MemoryGrowth, at least next, bounded by that of the
// largest node; false if it cannot grow.
func (r *RetryRules) grown(need unit.Vector, next unit.Bytes, nodes []Node) (unit.Vector, bool) {
	if need[unit.Memory] == unit.Unlimited || need[unit.Memory] <= 0 {
		return need, false
	}
	var largest int64
	for i := range nodes {
		without := need
		without[unit.Memory] = 0
		if without.Fits(nodes[i].Capacity) {
			largest = max(largest, nodes[i].Capacity[unit.Memory])
		}
	}
	want := int64(min(max(float64(need[unit.Memory])*r.MemoryGrowth, float64(next)), float64(largest)))
	if want <= need[unit.Memory] {
		return need, false
	}
	need[unit.Memory] = want
	return need, true
}
