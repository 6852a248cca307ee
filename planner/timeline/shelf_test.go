package timeline_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gantry/planner/seed/seedtest"
	"gantry/planner/timeline"
	"gantry/planner/unit"
)

// A shelf that fills up, and what it remembers of where it is full: it answers as a profile of each node does, and as
// one of all nodes together.
func TestAShelfThatFillsUpAnswersAsProfiles(t *testing.T) {
	seedtest.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 12).Draw(t, "nodes")
		capacity, dims := unit.Vector{4, 8, unit.Unlimited}, []unit.Dim{unit.CPU, unit.Memory}
		if rapid.Bool().Draw(t, "many sizes") {
			capacity[unit.CPU] = 40
		}
		if rapid.Bool().Draw(t, "cores alone") {
			capacity[unit.Memory], dims = unit.Unlimited, dims[:1]
		}
		shelves := []*timeline.Shelf{timeline.NewShelf(nodes, capacity, dims), timeline.NewShelf(1, capacity, dims)}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		longest := 1 + r.Int64N(60)
		var profiles []*timeline.Profile
		for range nodes + 1 {
			profiles = append(profiles, timeline.New(capacity))
		}
		all := capacity
		for _, d := range dims {
			all[d] *= int64(nodes + 1)
		}
		together := timeline.New(all)
		add := func(n int, start, end unit.Time, need *unit.Vector) {
			if n < nodes {
				shelves[0].Add(n, start, end, need)
			} else {
				shelves[1].Add(0, start, end, need)
			}
			profiles[n].Add(start, end, *need)
			together.Add(start, end, *need)
		}
		for range rapid.IntRange(1, 1500).Draw(t, "stays") {
			dur := time.Duration(1 + r.Int64N(longest))
			need := unit.Vector{1 + r.Int64N(capacity[unit.CPU]-1), r.Int64N(4) * int64(len(dims)-1)}
			if r.IntN(4) == 0 { // as something else on one node
				start := unit.Time(r.Int64N(2000))
				n := r.IntN(nodes + 1)
				if profiles[n].Fits(start, start.Add(dur), need) {
					add(n, start, start.Add(dur), &need)
				}
				continue
			}
			from := unit.Time(r.Int64N(1 + r.Int64N(500)))
			first, on := unit.Never, 0
			for n, p := range profiles[:nodes] {
				if start, ok := p.Earliest(need, dur, from); ok && start < first {
					first, on = start, n
				}
			}
			start, node, ok := shelves[0].Earliest(&need, dur, from, unit.Never)
			if !ok || start != first || node != on {
				t.Fatalf("earliest of %v for %d from %d: %d on %d %v, want %d on %d", need, dur, from, start, node, ok,
					first, on)
			}
			add(node, start, start.Add(dur), &need)
			want, _ := together.Earliest(need, dur, from)
			if start, ok = timeline.EarliestOfAll(shelves, &need, dur, from); !ok || start != want {
				t.Fatalf("earliest of %v for %d from %d on all: %d %v, want %d", need, dur, from, start, ok, want)
			}
			until := from.Add(time.Duration(r.Int64N(500)))
			want, fits := together.Latest(need, dur, from, until)
			if start, ok = timeline.LatestOfAll(shelves, &need, dur, from, until); ok != fits || ok && start != want {
				t.Fatalf("latest of %v for %d in %d..%d on all: %d %v, want %d %v", need, dur, from, until, start, ok,
					want, fits)
			}
			fits = together.Fits(from, until, need)
			if got := timeline.FitsAll(shelves, from, until, &need); got != fits {
				t.Fatalf("%v fits on all in %d..%d: %v, want %v", need, from, until, got, fits)
			}
		}
	})
}

// A shelf answers as a profile of each node does.
func TestShelfAnswersAsProfiles(t *testing.T) {
	seedtest.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 6).Draw(t, "nodes")
		if rapid.IntRange(0, 9).Draw(t, "full") == 0 {
			nodes = timeline.ShelfNodes
		}
		span := rapid.Int64Range(3, 2000).Draw(t, "span")
		capacity, dims := unit.Vector{6, 8, unit.Unlimited}, []unit.Dim{unit.CPU, unit.Memory}
		if rapid.Bool().Draw(t, "cores alone") {
			capacity[unit.Memory], dims = unit.Unlimited, dims[:1]
		}
		shelf := timeline.NewShelf(nodes, capacity, dims)
		var profiles []*timeline.Profile
		for range nodes {
			profiles = append(profiles, timeline.New(capacity))
		}
		type stay struct {
			node       int
			start, end unit.Time
			need       unit.Vector
		}
		var stays []stay
		begin := unit.Time(0)
		at := func(what string) unit.Time { return begin + unit.Time(rapid.Int64Range(0, span).Draw(t, what)) }
		drawNeed := func() unit.Vector {
			return unit.Vector{rapid.Int64Range(0, 4).Draw(t, "cores"), rapid.Int64Range(0, 5).Draw(t, "memory")}
		}
		draw := func() stay {
			s := stay{rapid.IntRange(0, nodes-1).Draw(t, "node"), at("start"), 0, drawNeed()}
			if s.end = s.start + unit.Time(rapid.Int64Range(0, span/4).Draw(t, "length")); rapid.IntRange(0, 30).Draw(t,
				"endless") == 0 {
				s.end = unit.Never
			}
			return s
		}
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 5 || len(stays) == 0:
				s := draw()
				stays = append(stays, s)
				shelf.Add(s.node, s.start, s.end, &s.need)
				profiles[s.node].Add(s.start, s.end, s.need)
			case op < 8:
				i := rapid.IntRange(0, len(stays)-1).Draw(t, "which")
				s := stays[i]
				stays[i] = stays[len(stays)-1]
				stays = stays[:len(stays)-1]
				shelf.Remove(s.node, s.start, s.end, &s.need)
				profiles[s.node].Remove(s.start, s.end, s.need)
			case op < 9:
				begin = at("begin")
				shelf.Prune(begin)
				for _, p := range profiles {
					p.Prune(begin)
				}
			case rapid.Bool().Draw(t, "save"):
				shelf.Save()
				for range rapid.IntRange(0, 50).Draw(t, "changes") {
					s := draw()
					shelf.Add(s.node, s.start, s.end, &s.need)
				}
				shelf.Restore()
			default:
				shelf.Save()
				n := rapid.IntRange(0, len(stays)).Draw(t, "lifted")
				for _, s := range stays[:n] {
					shelf.Lift(s.node, s.start, s.end, &s.need)
				}
				shelf.Land()
				if rapid.Bool().Draw(t, "restore") {
					shelf.Restore()
					break
				}
				for _, s := range slices.Backward(stays[:n]) {
					shelf.Add(s.node, s.start, s.end, &s.need)
				}
				shelf.Forget()
			}
			need, from := drawNeed(), at("from")
			dur := time.Duration(rapid.Int64Range(1, span).Draw(t, "dur"))
			until := from + unit.Time(rapid.Int64Range(0, span).Draw(t, "until"))
			n := rapid.IntRange(0, nodes-1).Draw(t, "node")
			used := profiles[n].Used(from)
			for d := range used {
				if capacity[d] == unit.Unlimited {
					used[d] = 0
				}
			}
			if got := shelf.Used(n, from); got != used {
				t.Fatalf("used on %d at %d: %v, want %v", n, from, got, used)
			}
			if got, want := shelf.Fits(n, from, until, &need), profiles[n].Fits(from, until, need); got != want {
				t.Fatalf("%v fits on %d in %d..%d: %v, want %v", need, n, from, until, got, want)
			}
			first, last, on, lastOn := unit.Never, unit.Time(-1), 0, 0
			for n, p := range profiles {
				if start, ok := p.Earliest(need, dur, from); ok && start < first {
					first, on = start, n
				}
				if start, ok := p.Latest(need, dur, from, until); ok && start > last {
					last, lastOn = start, n
				}
			}
			start, node, ok := shelf.Earliest(&need, dur, from, unit.Never)
			if ok != (first < unit.Never) || ok && (start != first || node != on) {
				t.Fatalf("earliest of %v for %d from %d: %d on %d %v, want %d on %d", need, dur, from, start, node, ok,
					first, on)
			}
			start, node, ok = shelf.Earliest(&need, dur, from, until)
			if ok != (first < until) || ok && (start != first || node != on) {
				t.Fatalf("earliest of %v for %d in %d..%d: %d on %d %v, want %d on %d", need, dur, from, until, start,
					node, ok, first, on)
			}
			start, node, ok = shelf.Latest(&need, dur, from, until)
			if ok != (last >= 0) || ok && (start != last || node != lastOn) {
				t.Fatalf("latest of %v for %d in %d..%d: %d on %d %v, want %d on %d", need, dur, from, until, start,
					node, ok, last, lastOn)
			}
		}
		for _, s := range stays {
			shelf.Remove(s.node, s.start, s.end, &s.need)
		}
		start, n, ok := shelf.Earliest(&capacity, time.Duration(span), begin, unit.Never)
		if !ok || start != begin || n != 0 {
			t.Fatalf("after all was removed, all is free from %d on %d, want %d", start, n, begin)
		}
	})
}
