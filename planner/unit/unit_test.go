package unit_test

import (
	"testing"
	"time"

	"gantry/planner/unit"
)

// Never stays never, and nothing wraps around.
func TestInstantsSaturate(t *testing.T) {
	for _, c := range []struct {
		at   unit.Time
		d    time.Duration
		want unit.Time
	}{{0, 5, 5}, {7, -5, 2}, {unit.Never, 5, unit.Never}, {unit.Never, -5, unit.Never},
		{unit.Never - 3, 5, unit.Never}} {
		if got := c.at.Add(c.d); got != c.want {
			t.Errorf("%d + %d = %d, want %d", c.at, c.d, got, c.want)
		}
	}
	if d := unit.Never.Sub(5); d < 1<<62 {
		t.Errorf("never is %v after 5", d)
	}
	if s := unit.Never.String(); s != "never" {
		t.Errorf("never is written %q", s)
	}
}

// Unlimited absorbs: nothing uses it up, and a sum beyond the largest number is unlimited.
func TestVectorsSaturate(t *testing.T) {
	const u = unit.Unlimited
	for _, c := range []struct{ v, w, sum, difference unit.Vector }{
		{unit.Vector{1, 2, 3}, unit.Vector{1, 1, 1}, unit.Vector{2, 3, 4}, unit.Vector{0, 1, 2}},
		{unit.Vector{u, 5, u}, unit.Vector{1, u, u}, unit.Vector{u, u, u}, unit.Vector{u, 5 - u, u}},
		{unit.Vector{u - 1, 0, 0}, unit.Vector{2, 0, 0}, unit.Vector{u, 0, 0}, unit.Vector{u - 3, 0, 0}},
	} {
		if got := c.v.Add(c.w); got != c.sum {
			t.Errorf("%v + %v = %v, want %v", c.v, c.w, got, c.sum)
		}
		if got := c.v.Sub(c.w); got != c.difference {
			t.Errorf("%v - %v = %v, want %v", c.v, c.w, got, c.difference)
		}
	}
}

// What needs nothing of a dimension fits even where that is overdrawn.
func TestFits(t *testing.T) {
	for _, c := range []struct {
		need, free unit.Vector
		short      unit.Dim
		fits       bool
	}{
		{unit.Vector{1, 1, 0}, unit.Vector{1, 1, 0}, 0, true},
		{unit.Vector{2, 1, 0}, unit.Vector{1, 0, 0}, unit.CPU, false},
		{unit.Vector{1, 1, 0}, unit.Vector{1, 0, -5}, unit.Memory, false},
		{unit.Vector{1, 0, 0}, unit.Vector{1, -3, -5}, 0, true},
		{unit.Vector{0, 0, 1}, unit.Vector{5, 5, 0}, unit.Disk, false},
	} {
		short, misfit := c.need.Misfit(c.free)
		if c.need.Fits(c.free) != c.fits || misfit == c.fits || misfit && short != c.short {
			t.Errorf("%v in %v: fits %v, short of %v (%v)", c.need, c.free, c.need.Fits(c.free), short, misfit)
		}
	}
	if got := (unit.Vector{1, 2, 3}).Keep(unit.Of(unit.Memory)); got != (unit.Vector{0, 2, 0}) {
		t.Errorf("of <1, 2, 3> a node that keeps memory keeps %v", got)
	}
	a, b := unit.Vector{1, 5, 3}, unit.Vector{4, 2, 3}
	if a.Max(b) != (unit.Vector{4, 5, 3}) {
		t.Errorf("most %v", a.Max(b))
	}
}
