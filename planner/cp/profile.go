package cp

import (
	"slices"
	"time"

	"gantry/planner/unit"
)

// profile is the usage of the summed resource, or of a node, over time. Package timeline has one for hundreds of
// thousands of breakpoints, which are pruned; here few intervals are put in and taken out again all the time. With
// timeline.Profile mrcp-rm takes 2.5 times the CPU time on nodes of several speeds.
type profile struct {
	capacity unit.Vector
	steps    []step // by time; the first is before everything
}

type step struct {
	at   unit.Time
	used unit.Vector // from here to the next
}

func (p *profile) reset(capacity unit.Vector) {
	p.capacity = capacity
	p.steps = append(p.steps[:0], step{at: -1 << 62})
}

// find returns the step that holds at an instant.
func (p *profile) find(at unit.Time) int {
	lo, hi := 0, len(p.steps)
	for hi-lo > 1 {
		if m := int(uint(lo+hi) >> 1); p.steps[m].at <= at {
			lo = m
		} else {
			hi = m
		}
	}
	return lo
}

// earliest returns the first instant from the given one on at which need, which fits the capacity, fits for run.
func (p *profile) earliest(need unit.Vector, run time.Duration, from unit.Time) unit.Time {
	var limit unit.Vector
	for i := range need {
		if limit[i] = unit.Unlimited; need[i] > 0 && p.capacity[i] != unit.Unlimited {
			limit[i] = p.capacity[i] - need[i]
		}
	}
	start, end := from, from.Add(run)
	for k := p.find(from); k < len(p.steps); k++ {
		s := &p.steps[k]
		if s.at >= end {
			break
		}
		if s.used[0] > limit[0] || s.used[1] > limit[1] || s.used[2] > limit[2] || s.used[3] > limit[3] {
			start = unit.Never
			if k+1 < len(p.steps) {
				start = p.steps[k+1].at
			}
			end = start.Add(run)
		}
	}
	return start
}

// add takes v more during [start, end), or with sign -1 gives it back.
func (p *profile) add(start, end unit.Time, v unit.Vector, sign int64) {
	i := p.cut(start)
	j := p.cut(end)
	for k := i; k < j; k++ {
		for d := range v {
			p.steps[k].used[d] += sign * v[d]
		}
	}
	p.join(j)
	p.join(i)
}

// cut makes an instant a step.
func (p *profile) cut(at unit.Time) int {
	k := p.find(at)
	if p.steps[k].at == at {
		return k
	}
	p.steps = slices.Insert(p.steps, k+1, step{at, p.steps[k].used})
	return k + 1
}

// join drops a step at which nothing changes.
func (p *profile) join(k int) {
	if k > 0 && p.steps[k].used == p.steps[k-1].used {
		p.steps = slices.Delete(p.steps, k, k+1)
	}
}
