package timeline_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"gantry/planner/seed/seedtest"
	"gantry/planner/timeline"
	"gantry/planner/unit"
)

// Steps answer as a Profile does, whatever is added, given back and asked for.
func TestStepsAreASmallProfile(t *testing.T) {
	seedtest.Check(t, func(t *rapid.T) {
		capacity := unit.Vector{1000 * rapid.Int64Range(1, 8).Draw(t, "cores"),
			rapid.SampledFrom([]int64{4, unit.Unlimited}).Draw(t, "memory"), unit.Unlimited}
		p := timeline.New(capacity)
		var a, b timeline.Steps
		a.Reset(capacity)
		need := func() unit.Vector {
			return unit.Vector{1000 * rapid.Int64Range(0, 8).Draw(t, "need"), rapid.Int64Range(0, 4).Draw(t, "bytes"),
				0}
		}
		var added []struct {
			start, end unit.Time
			v          unit.Vector
		}
		for range rapid.IntRange(0, 12).Draw(t, "adds") {
			start, v := unit.Time(rapid.Int64Range(0, 30).Draw(t, "start")), need()
			end := start + unit.Time(rapid.Int64Range(0, 9).Draw(t, "length"))
			if rapid.IntRange(0, 9).Draw(t, "for ever") == 0 {
				end = unit.Never
			}
			p.Add(start, end, v)
			a.Add(start, end, v)
			added = append(added, struct {
				start, end unit.Time
				v          unit.Vector
			}{start, end, v})
		}
		if len(added) > 0 && rapid.Bool().Draw(t, "give back") {
			x := added[0]
			p.Remove(x.start, x.end, x.v)
			a.Add(x.start, x.end, unit.Vector{}.Sub(x.v))
		}
		b.Reset(unit.Vector{})
		b.Copy(&a)
		var c timeline.Steps
		c.Reset(capacity)
		for at, used := range p.All() {
			c.Append(at, used)
		}
		for range 5 {
			v, dur, from := need(), time.Duration(rapid.Int64Range(1, 9).Draw(t, "dur")),
				unit.Time(rapid.Int64Range(0, 40).Draw(t, "from"))
			at, ok := p.Earliest(v, dur, from)
			for name, s := range map[string]*timeline.Steps{"as added": &a, "copied": &b, "appended": &c} {
				if got, fits := s.Earliest(v, dur, from); got != at && ok || fits != ok {
					t.Fatalf("%s: %v for %v from %v: %v, %v, want %v, %v", name, v, dur, from, got, fits, at, ok)
				}
			}
		}
	})
}
