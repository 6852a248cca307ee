package timeline_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gantry/planner/seed/seedtest"
	"gantry/planner/timeline"
	"gantry/planner/unit"
)

// A count answers every question as a profile does of which one dimension is used.
func TestCountAnswersAsProfile(t *testing.T) {
	seedtest.Check(t, func(t *rapid.T) {
		capacity := rapid.Int64Range(1, 6).Draw(t, "capacity")
		span := rapid.Int64Range(5, 2000).Draw(t, "span")
		count, profile := timeline.NewCount(capacity), timeline.New(unit.Vector{capacity, unit.Unlimited,
			unit.Unlimited})
		type stay struct {
			start, end unit.Time
			n          int64
		}
		var stays []stay
		begin := unit.Time(0)
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			at := func(what string) unit.Time { return begin + unit.Time(rapid.Int64Range(0, span).Draw(t, what)) }
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 5 || len(stays) == 0:
				s := stay{start: at("start"), n: rapid.Int64Range(1, 2).Draw(t, "n")}
				s.end = s.start + unit.Time(rapid.Int64Range(0, span/4).Draw(t, "length"))
				if rapid.IntRange(0, 30).Draw(t, "endless") == 0 {
					s.end = unit.Never
				}
				stays = append(stays, s)
				count.Add(s.start, s.end, s.n)
				profile.Add(s.start, s.end, unit.Vector{s.n})
			case op < 8:
				i := rapid.IntRange(0, len(stays)-1).Draw(t, "which")
				s := stays[i]
				stays[i] = stays[len(stays)-1]
				stays = stays[:len(stays)-1]
				count.Remove(s.start, s.end, s.n)
				profile.Remove(s.start, s.end, unit.Vector{s.n})
			case op < 9:
				begin = at("begin")
				count.Prune(begin)
				profile.Prune(begin)
			case rapid.Bool().Draw(t, "save"):
				count.Save()
				for range rapid.IntRange(0, 50).Draw(t, "changes") {
					start := at("start")
					count.Add(start, start+unit.Time(rapid.Int64Range(0, span/4).Draw(t, "length")),
						rapid.Int64Range(-2, 2).Draw(t, "n"))
				}
				count.Restore()
			default:
				count.Save()
				// Remap takes much out and puts it back.
				for _, s := range stays {
					count.Remove(s.start, s.end, s.n)
				}
				for i := range stays {
					s := stays[len(stays)-1-i]
					count.Add(s.start, s.end, s.n)
				}
				count.Forget()
			}
			from, n, dur := at("from"), rapid.Int64Range(1, capacity+1).Draw(t, "need"),
				time.Duration(rapid.Int64Range(0, span/2).Draw(t, "dur"))
			if got, want := count.Used(from), profile.Used(from)[0]; got != want {
				t.Fatalf("used at %d: %d, want %d", from, got, want)
			}
			got, ok := count.Earliest(n, dur, from)
			want, fits := profile.Earliest(unit.Vector{n}, dur, from)
			if ok != fits || ok && got != want {
				t.Fatalf("earliest of %d for %d from %d: %d %v, want %d %v", n, dur, from, got, ok, want, fits)
			}
			until := from + unit.Time(rapid.Int64Range(0, span).Draw(t, "until"))
			got, ok = count.Latest(n, dur, from, until)
			want, fits = profile.Latest(unit.Vector{n}, dur, from, until)
			if ok != fits || ok && got != want {
				t.Fatalf("latest of %d for %d in %d..%d: %d %v, want %d %v", n, dur, from, until, got, ok, want, fits)
			}
			if got, want := count.Fits(from, until, n), profile.Fits(from, until, unit.Vector{n}); got != want {
				t.Fatalf("%d fit in %d..%d: %v, want %v", n, from, until, got, want)
			}
		}
		for _, s := range stays {
			count.Remove(s.start, s.end, s.n)
		}
		if at, ok := count.Earliest(capacity, time.Duration(span), begin); !ok || at != begin {
			t.Fatalf("after all was removed, all is free from %d %v, want %d", at, ok, begin)
		}
	})
}

// What was removed takes no room for ever.
func TestCountForgetsWhatWasRemoved(t *testing.T) {
	c, end := loaded(1000)
	r := rand.New(rand.NewPCG(5, 6))
	change := func() {
		start := unit.Time(r.Int64N(int64(end)))
		stop := start + unit.Time(r.Int64N(int64(end)))
		c.Add(start, stop, 1)
		c.Remove(start, stop, 1)
	}
	for range 10000 {
		change()
	}
	if n := testing.AllocsPerRun(10000, change); n != 0 {
		t.Errorf("%v allocations for each stay that is added and removed", n)
	}
}

// loaded has tasks of about 80 s on 100 slots, as densely as remapping meets them.
func loaded(n int) (*timeline.Count, unit.Time) {
	r := rand.New(rand.NewPCG(1, 2))
	c := timeline.NewCount(100)
	var end unit.Time
	for i := range n / 2 {
		start := unit.Time(i) * unit.Time(time.Second)
		end = start + unit.Time(60+r.Int64N(40))*unit.Time(time.Second) + unit.Time(r.Int64N(1e9))
		c.Add(start, end, 1)
	}
	return c, end
}

func BenchmarkCountAdd(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c, end := loaded(n)
			r := rand.New(rand.NewPCG(3, 4))
			starts := make([]unit.Time, 1<<16)
			for i := range starts {
				starts[i] = unit.Time(r.Int64N(int64(end)))
			}
			for i := 0; b.Loop(); i++ {
				start := starts[i>>1%len(starts)]
				if i&1 == 0 {
					c.Add(start, start+80*s, 1)
				} else {
					c.Remove(start, start+80*s, 1)
				}
			}
		})
	}
}

func BenchmarkCountEarliest(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c, end := loaded(n)
			r := rand.New(rand.NewPCG(3, 4))
			for b.Loop() {
				if _, ok := c.Earliest(1, 80*time.Second, unit.Time(r.Int64N(int64(end)))); !ok {
					b.Fatal("never")
				}
			}
		})
	}
}
