package cp

import (
	"cmp"
	"slices"
	"time"

	"gantry/planner/exact"
	"gantry/planner/heap"
	"gantry/planner/unit"
)

// bounds computes the least number of late jobs, and the least sum of ends, of any schedule.
func (s *solver) bounds() {
	p := s.p
	end := make([]unit.Time, len(p.Tasks)) // of every task, if there were no others but its ancestors
	for j := range p.Jobs {
		s.shapes[j].earliest = max(p.Now, p.Jobs[j].Floor)
	}
	for i := range p.Tasks {
		t := &p.Tasks[i]
		at := max(p.Now, p.Jobs[t.Job].Release, t.After)
		for _, q := range t.Parents {
			at = max(at, end[q])
		}
		end[i] = at.Add(t.Run)
		s.shapes[t.Job].earliest = max(s.shapes[t.Job].earliest, end[i])
	}
	for j := range p.Jobs {
		sh := &s.shapes[j]
		sh.length = sh.earliest.Sub(max(p.Now, p.Jobs[j].Release))
		s.least += sh.earliest.Sub(p.Now)
		if sh.earliest > p.Jobs[j].Due {
			s.bound++
		}
	}
	alone := s.bound
	for dim := range p.Capacity {
		if c := p.Capacity[dim]; c > 0 && c != unit.Unlimited {
			s.bound = max(s.bound, alone+s.crowded(dim))
		}
	}
}

// crowded returns how many of the jobs that alone would be on time are late in every schedule, by the energy that they
// need of one dimension: for every release r and deadline d, jobs released from r on that end by d in time have to fit
// between them. Among jobs released from r on, those to give up are found as Moore and Hodgson find late jobs: in the
// order of deadlines, the largest so far whenever it does not fit.
func (s *solver) crowded(dim int) (most int) {
	p := s.p
	needed := make([]exact.Number, len(p.Jobs))
	for i := range p.Tasks {
		t := &p.Tasks[i]
		needed[t.Job] = needed[t.Job].Plus(energyOf(t.Need[dim], t.Run))
	}
	type demand struct {
		release, due unit.Time
		energy       exact.Number
	}
	var demands []demand
	var releases []unit.Time
	for j := range p.Jobs {
		if due := p.Jobs[j].Due; due != unit.Never && s.shapes[j].earliest <= due && !needed[j].Zero() {
			r := max(p.Now, p.Jobs[j].Release)
			demands = append(demands, demand{r, due, needed[j]})
			releases = append(releases, r)
		}
	}
	slices.SortFunc(demands, func(a, b demand) int { return cmp.Compare(a.due, b.due) })
	slices.Sort(releases)
	releases = slices.Compact(releases)
	if len(releases) > maxReleases {
		releases = releases[:maxReleases]
	}
	taken := largest()
	for _, r := range releases {
		room := s.room(dim, r)
		taken.Items = taken.Items[:0]
		sum, dropped := exact.Number{}, 0
		for _, d := range demands {
			if d.release < r {
				continue
			}
			taken.Push(d.energy)
			sum = sum.Plus(d.energy)
			for left := room(d.due); sum.Compare(left) > 0; dropped++ {
				sum = sum.Minus(taken.Pop())
			}
		}
		most = max(most, dropped)
	}
	return most
}

// energyOf is an amount for a time; neither is negative.
func energyOf(n int64, d time.Duration) exact.Number {
	return exact.Int(uint64(max(0, n))).Times(uint64(max(0, d)))
}

// largest returns an empty heap with the largest number in front.
func largest() heap.Heap[exact.Number] {
	return heap.Heap[exact.Number]{Before: func(a, b *exact.Number) bool { return a.Compare(*b) > 0 }}
}

// maxReleases bounds the work on bounds: of jobs that may all start now there is one release.
const maxReleases = 16

// room returns how much of a dimension started tasks leave between r and a later instant; asked for ascending instants.
func (s *solver) room(dim int, r unit.Time) func(unit.Time) exact.Number {
	fixed := slices.Clone(s.p.Fixed)
	fixed = slices.DeleteFunc(fixed, func(f Stay) bool { return f.End <= r || f.Hold[dim] == 0 })
	slices.SortFunc(fixed, func(a, b Stay) int { return cmp.Compare(a.End, b.End) })
	held := int64(0)
	for _, f := range fixed {
		held += f.Hold[dim]
	}
	c, at, total := s.p.Capacity[dim], r, exact.Number{}
	return func(until unit.Time) exact.Number {
		for len(fixed) > 0 && fixed[0].End <= until {
			total = total.Plus(energyOf(c-held, fixed[0].End.Sub(at)))
			at = fixed[0].End
			held -= fixed[0].Hold[dim]
			fixed = fixed[1:]
		}
		if until > at {
			total = total.Plus(energyOf(c-held, until.Sub(at)))
			at = until
		}
		return total
	}
}
