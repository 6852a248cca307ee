package timeline_test

import (
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"gantry/planner/timeline"
	"gantry/planner/unit"
)

// twin is a profile in the plainest way: a list of what was added, looked through for every question.
type twin struct {
	capacity unit.Vector
	begin    unit.Time
	stays    []stay
}

type stay struct {
	start, end unit.Time
	v          unit.Vector
}

func newTwin(capacity unit.Vector) *twin { return &twin{capacity: capacity, begin: math.MinInt64} }

func (w *twin) add(start, end unit.Time, v unit.Vector) {
	if start = max(start, w.begin); start < end {
		w.stays = append(w.stays, stay{start, end, v})
	}
}

func (w *twin) remove(start, end unit.Time, v unit.Vector) {
	for i := range v {
		v[i] = -v[i]
	}
	w.add(start, end, v)
}

func (w *twin) prune(before unit.Time) {
	w.begin = max(w.begin, before)
	var kept []stay
	for _, s := range w.stays {
		if s.start = max(s.start, w.begin); s.start < s.end {
			kept = append(kept, s)
		}
	}
	w.stays = kept
}

func (w *twin) used(at unit.Time) (used unit.Vector) {
	for _, s := range w.stays {
		if s.start <= at && (at < s.end || s.end == unit.Never) {
			for i := range used {
				if w.capacity[i] != unit.Unlimited {
					used[i] += s.v[i]
				}
			}
		}
	}
	return used
}

// edges are the instants where something begins or ends, ascending.
func (w *twin) edges() []unit.Time {
	var at []unit.Time
	for _, s := range w.stays {
		at = append(at, s.start)
		if s.end != unit.Never {
			at = append(at, s.end)
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

func (w *twin) all() (points []point) {
	var last unit.Vector
	for _, at := range w.edges() {
		if u := w.used(at); u != last {
			points = append(points, point{at, u})
			last = u
		}
	}
	return points
}

// fitsAt reports whether used + need <= capacity at an instant, in exact arithmetic.
func (w *twin) fitsAt(at unit.Time, need unit.Vector) bool {
	used := w.used(at)
	for i := range need {
		if need[i] <= 0 || w.capacity[i] == unit.Unlimited {
			continue
		}
		sum := new(big.Int).Add(big.NewInt(used[i]), big.NewInt(need[i]))
		if sum.Cmp(big.NewInt(w.capacity[i])) > 0 {
			return false
		}
	}
	return true
}

func (w *twin) fits(start, end unit.Time, need unit.Vector) bool {
	if !need.Fits(w.capacity) {
		return false
	}
	if start >= end {
		return true
	}
	if !w.fitsAt(start, need) {
		return false
	}
	for _, at := range w.edges() {
		if start < at && at < end && !w.fitsAt(at, need) {
			return false
		}
	}
	return true
}

func (w *twin) earliest(need unit.Vector, dur time.Duration, from unit.Time) (unit.Time, bool) {
	from = max(from, w.begin)
	for _, at := range append([]unit.Time{from}, w.edges()...) {
		if at >= from && at != unit.Never && w.fits(at, at.Add(dur), need) {
			return at, true
		}
	}
	return 0, false
}

func (w *twin) latest(need unit.Vector, dur time.Duration, from, until unit.Time) (unit.Time, bool) {
	from = max(from, w.begin)
	ends := append(w.edges(), until)
	slices.Sort(ends)
	for _, end := range slices.Backward(ends) {
		start := new(big.Int).Sub(big.NewInt(int64(end)), big.NewInt(int64(dur)))
		if dur == 0 && end == unit.Never {
			start.Sub(start, big.NewInt(1))
		}
		if end > until || start.Cmp(big.NewInt(int64(from))) < 0 {
			continue
		}
		if at := unit.Time(start.Int64()); at < unit.Never && w.fits(at, at.Add(dur), need) {
			return at, true
		}
	}
	return 0, false
}

type point struct {
	At   unit.Time
	Used unit.Vector
}

func points(p *timeline.Profile) (points []point) {
	for at, used := range p.All() {
		points = append(points, point{at, used})
	}
	return points
}

// agree compares everything that can be asked without an argument, and the amount in use at and around all breakpoints.
func agree(t testing.TB, p *timeline.Profile, w *twin) {
	t.Helper()
	want := w.all()
	if got := points(p); !slices.Equal(got, want) {
		t.Fatalf("breakpoints %v, want %v", got, want)
	}
	if p.Capacity() != w.capacity {
		t.Fatalf("Capacity() = %v, want %v", p.Capacity(), w.capacity)
	}
	for _, at := range w.edges() {
		for _, at := range []unit.Time{at - 1, at, at.Add(1)} {
			if got, want := p.Used(at), w.used(at); got != want {
				t.Fatalf("Used(%d) = %v, want %v", at, got, want)
			}
		}
	}
}

// ask compares the answers to one question of each kind.
func ask(t testing.TB, p *timeline.Profile, w *twin, need unit.Vector, dur time.Duration, from, until unit.Time) {
	t.Helper()
	if got, want := p.Used(from), w.used(from); got != want {
		t.Fatalf("Used(%d) = %v, want %v", from, got, want)
	}
	if got, want := p.Fits(from, until, need), w.fits(from, until, need); got != want {
		t.Fatalf("Fits(%d, %d, %v) = %v, want %v", from, until, need, got, want)
	}
	at, ok := p.Earliest(need, dur, from)
	if wantAt, want := w.earliest(need, dur, from); at != wantAt || ok != want {
		t.Fatalf("Earliest(%v, %d, %d) = %d, %v, want %d, %v", need, dur, from, at, ok, wantAt, want)
	}
	at, ok = p.Latest(need, dur, from, until)
	if wantAt, want := w.latest(need, dur, from, until); at != wantAt || ok != want {
		t.Fatalf("Latest(%v, %d, %d, %d) = %d, %v, want %d, %v", need, dur, from, until, at, ok, wantAt, want)
	}
}
