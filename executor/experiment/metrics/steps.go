package metrics

import (
	"math"
	"sort"

	"gantry/planner"
)

// Step says that a number holds from an instant on.
type Step struct {
	At planner.Time
	N  int
}

// Steps is a number over time, ascending by time, one step per instant; it is 0 before the first.
type Steps []Step

func (s Steps) add(at planner.Time, n int) Steps {
	if last := len(s) - 1; last >= 0 && s[last].At == at {
		s[last].N = n
		return s
	}
	return append(s, Step{at, n})
}

// index returns that of the step in force at an instant; -1 before the first.
func (s Steps) index(at planner.Time) int {
	return sort.Search(len(s), func(i int) bool { return s[i].At > at }) - 1
}

// At returns the number at an instant.
func (s Steps) At(at planner.Time) int {
	if i := s.index(at); i >= 0 {
		return s[i].N
	}
	return 0
}

// Mean returns the average over [from, to) by time; NaN if that is empty.
func (s Steps) Mean(from, to planner.Time) float64 {
	if to <= from {
		return math.NaN()
	}
	sum, at := 0.0, from
	for i := s.index(from); at < to; i++ {
		n, until := 0, to
		if i >= 0 {
			n = s[i].N
		}
		if i+1 < len(s) {
			until = min(to, s[i+1].At)
		}
		sum += float64(n) * until.Sub(at).Seconds()
		at = until
	}
	return sum / to.Sub(from).Seconds()
}

// Max returns the largest number in [from, to).
func (s Steps) Max(from, to planner.Time) int {
	most := s.At(from)
	for i := s.index(from) + 1; i < len(s) && s[i].At < to; i++ {
		most = max(most, s[i].N)
	}
	return most
}

// Thin returns at most n steps: the number at equal distances of time, the first and the last step included.
func (s Steps) Thin(n int) Steps {
	if len(s) <= n || n < 2 {
		return s
	}
	first, last := s[0].At, s[len(s)-1].At
	out := make(Steps, n)
	for i := range out {
		now := first + planner.Time(float64(last-first)*float64(i)/float64(n-1))
		if i == n-1 {
			now = last
		}
		out[i] = s[s.index(now)]
		out[i].At = now
	}
	return out
}
