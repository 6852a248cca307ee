package timeline

import (
	"math"
	"slices"
	"time"

	"gantry/planner/unit"
)

// Steps is a small profile for plans that are made and thrown away: a sorted list of the instants at which the free
// amount changes. Against a Profile it is copied at the cost of its length, which Add costs too, and searched faster as
// long as it has some hundred of them. The zero Steps has no capacity.
type Steps struct {
	at   []unit.Time         // the first one is the beginning of time
	free [unit.Dims][]int64  // from at[i] on; only of the dimensions that are limited
	dims []unit.Dim          // those
	most unit.Vector         // capacity
	pick [unit.Dims]unit.Dim // memory of dims
}

// Reset makes s the steps of an idle node.
func (s *Steps) Reset(capacity unit.Vector) {
	s.most, s.at, s.dims = capacity, append(s.at[:0], math.MinInt64), s.pick[:0]
	for d := range capacity {
		s.free[d] = s.free[d][:0]
		if capacity[d] != unit.Unlimited {
			s.dims = append(s.dims, unit.Dim(d))
			s.free[d] = append(s.free[d], capacity[d])
		}
	}
}

// Append says that v is in use from an instant on, which must be after all that s has.
func (s *Steps) Append(at unit.Time, v unit.Vector) {
	s.at = append(s.at, at)
	for _, d := range s.dims {
		s.free[d] = append(s.free[d], s.most[d]-min(v[d], unlimited))
	}
}

// Copy makes s equal to o.
func (s *Steps) Copy(o *Steps) {
	s.most, s.at = o.most, append(s.at[:0], o.at...)
	s.dims = append(s.pick[:0], o.dims...)
	for _, d := range s.dims {
		s.free[d] = append(s.free[d][:0], o.free[d]...)
	}
}

// Len returns the number of instants.
func (s *Steps) Len() int { return len(s.at) }

// Add takes v more during [start, end), or gives it back if it is negative; end may be [unit.Never].
func (s *Steps) Add(start, end unit.Time, v unit.Vector) {
	if start >= end {
		return
	}
	i := s.split(start)
	j := len(s.at)
	if end < unit.Never {
		j = s.split(end)
	}
	for _, d := range s.dims {
		if v[d] != 0 {
			free, less := s.free[d][i:j], v[d]
			for k := range free {
				free[k] -= less
			}
		}
	}
}

// split returns the index of an instant, which it puts there if it is missing.
func (s *Steps) split(at unit.Time) int {
	i, found := slices.BinarySearch(s.at, at)
	if !found {
		s.at = slices.Insert(s.at, i, at)
		for _, d := range s.dims {
			s.free[d] = slices.Insert(s.free[d], i, s.free[d][i-1])
		}
	}
	return i
}

// Earliest returns the first instant from the given one on at which need fits for dur; false if there is none. A
// dimension of which need asks nothing never is in its way.
func (s *Steps) Earliest(need unit.Vector, dur time.Duration, from unit.Time) (unit.Time, bool) {
	if !need.Fits(s.most) {
		return 0, false
	}
	i, found := slices.BinarySearch(s.at, from)
	if !found {
		i--
	}
	if len(s.dims) == 1 {
		return s.earliest(s.free[s.dims[0]], need[s.dims[0]], dur, from, i)
	}
	start := from
	end := start.Add(dur)
	for j := i; j < len(s.at) && (j == i || s.at[j] < end); j++ {
		for _, d := range s.dims {
			if s.free[d][j] >= need[d] || need[d] <= 0 {
				continue
			}
			// The candidate starts again behind the stretch in which this is short.
			free := s.free[d]
			for j++; j < len(free) && free[j] < need[d]; j++ {
			}
			if j == len(s.at) {
				return 0, false
			}
			i, start = j, s.at[j]
			end = start.Add(dur)
			j--
			break
		}
	}
	return start, true
}

// earliest does that where one dimension is limited; i is the step that the given instant is in.
func (s *Steps) earliest(free []int64, need int64, dur time.Duration, from unit.Time, i int) (unit.Time, bool) {
	at := s.at[:len(free)]
	start, end := from, from.Add(dur)
	for j := i; j < len(free) && (j == i || at[j] < end); j++ {
		if free[j] >= need || need <= 0 {
			continue
		}
		for j++; j < len(free) && free[j] < need; j++ {
		}
		if j == len(free) {
			return 0, false
		}
		i, start = j, at[j]
		end = start.Add(dur)
	}
	return start, true
}
