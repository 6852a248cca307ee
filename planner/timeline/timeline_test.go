package timeline_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gantry/planner/seed/seedtest"
	"gantry/planner/timeline"
	"gantry/planner/unit"
)

func TestGaps(t *testing.T) {
	type v = unit.Vector
	p := timeline.New(v{4000, 1 << 30, unit.Unlimited})
	p.Add(10, 20, v{4000, 0, 0})
	p.Add(15, 25, v{0, 1 << 30, 0}) // CPU and memory take turns: blocked for both throughout [10, 25)
	p.Add(25, 27, v{3000, 0, 5})
	p.Add(40, unit.Never, v{1000, 0, unit.Unlimited})
	both := v{2000, 1, 0}
	for _, c := range []struct {
		name        string
		need        v
		dur         time.Duration
		from, until unit.Time
		first, last unit.Time
		ok          bool
	}{
		{"before everything", both, 10, 0, 10, 0, 0, true},
		{"one too long for the gap at the start", both, 11, 0, unit.Never, 27, unit.Never - 11, true},
		{"across turns of the dimensions", both, 5, 6, 32, 27, 27, true},
		{"what asks for no CPU does not mind that it is taken", v{0, 1, 0}, 15, 0, 15, 0, 0, true},
		{"memory alone", v{0, 1, 0}, 1, 15, 26, 25, 25, true},
		{"unlimited disk", v{0, 0, unit.Unlimited}, math.MaxInt64, 0, unit.Never, 0, 0, true},
		{"all of the CPU, before the part that never ends", v{4000, 0, 0}, 13, 20, unit.Never, 27, 27, true},
		{"all of the CPU, longer than ever", v{4000, 0, 0}, 14, 20, unit.Never, 0, 0, false},
		{"more than there is", v{4001, 0, 0}, 0, 0, unit.Never, 0, 0, false},
		{"unlimited of what is limited", v{unit.Unlimited, 0, 0}, 1, 0, unit.Never, 0, 0, false},
		{"no time, anywhere", v{4000, 0, 0}, 0, 12, 13, 12, 13, true},
		{"from never on", both, 1, unit.Never, unit.Never, 0, 0, false},
		{"nothing needed, while all is taken", v{}, 10, 12, 30, 12, 20, true},
		{"a negative need is none", v{-1, -1, -1}, 10, 12, 30, 12, 20, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if at, ok := p.Earliest(c.need, c.dur, c.from); at != c.first || ok != c.ok {
				t.Errorf("Earliest = %d, %v, want %d, %v", at, ok, c.first, c.ok)
			}
			if at, ok := p.Latest(c.need, c.dur, c.from, c.until); at != c.last || ok != c.ok {
				t.Errorf("Latest = %d, %v, want %d, %v", at, ok, c.last, c.ok)
			}
		})
	}
	if _, ok := p.Latest(both, 10, 1, 10); ok {
		t.Error("Latest found ten units of time between 1 and 10")
	}
}

func TestUnlimitedAmountsComeAndGo(t *testing.T) {
	all := unit.Vector{unit.Unlimited, unit.Unlimited, unit.Unlimited}
	p := timeline.New(unit.Vector{1000, unit.Unlimited, unit.Unlimited})
	p.Add(5, 9, unit.Cores(1))
	for i := range unit.Time(1000) {
		p.Add(i, unit.Never, all)
	}
	if got := p.Used(2000); got != (unit.Vector{unit.Unlimited, 0, 0}) {
		t.Errorf("used %v, want unlimited of the CPU, which alone is counted", got)
	}
	if p.Fits(2000, 2001, unit.Vector{1, 0, 0}) || !p.Fits(2000, 2001, unit.Vector{0, unit.Unlimited, 1}) {
		t.Error("an unlimited amount blocks just what is limited")
	}
	for i := range unit.Time(1000) {
		p.Remove(i, unit.Never, all)
	}
	if got, want := points(p), []point{{5, unit.Cores(1)}, {9, unit.Vector{}}}; !slices.Equal(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
}

func TestPruneForgetsThePastOnly(t *testing.T) {
	p := timeline.New(unit.Cores(4))
	p.Add(0, 10, unit.Cores(1))
	p.Add(5, 20, unit.Cores(2))
	p.Prune(7)
	want := []point{{7, unit.Cores(3)}, {10, unit.Cores(2)}, {20, unit.Vector{}}}
	if got := points(p); !slices.Equal(got, want) {
		t.Fatalf("after Prune(7): %v, want %v", got, want)
	}
	if got := p.Used(6); got != (unit.Vector{}) {
		t.Errorf("the forgotten past uses %v", got)
	}
	if at, ok := p.Earliest(unit.Cores(2), 1, 0); !ok || at != 10 {
		t.Errorf("earliest = %v, %v, want 10: nothing starts in the past", at, ok)
	}
	if _, ok := p.Latest(unit.Cores(2), 1, 0, 10); ok {
		t.Error("Latest found a place in the past")
	}
	p.Remove(0, 10, unit.Cores(1)) // begun before what is kept
	p.Remove(5, 20, unit.Cores(2))
	p.Add(0, 7, unit.Cores(1))
	if len(points(p)) != 0 {
		t.Errorf("left %v, want nothing", points(p))
	}
}

func TestResetStartsAnew(t *testing.T) {
	p := timeline.New(unit.Cores(4))
	p.Add(0, 10, unit.Cores(4))
	p.Prune(5)
	p.Reset(unit.Cores(2))
	if len(points(p)) != 0 || p.Capacity() != unit.Cores(2) || p.Used(7) != (unit.Vector{}) {
		t.Errorf("after Reset: %d breakpoints, capacity %v, used %v", len(points(p)), p.Capacity(), p.Used(7))
	}
	if at, ok := p.Earliest(unit.Cores(2), 1, 0); !ok || at != 0 {
		t.Errorf("earliest = %v, %v, want 0: pruning is over, too", at, ok)
	}
	allocs := testing.AllocsPerRun(10, func() {
		p.Reset(unit.Cores(2))
		p.Add(0, 10, unit.Cores(1))
	})
	if allocs != 0 {
		t.Errorf("a profile used again allocates %v times", allocs)
	}
}

// Every method against the twin, over sequences long enough for many blocks.
func TestProfileIsAsGoodAsItsTwin(t *testing.T) {
	for seed := range seedtest.Seeds(t, 6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			capacity := unit.Vector{8, 6, unit.Unlimited}
			if seed%2 == 1 {
				capacity = unit.Vector{40, 30, 50}
			}
			p, w := timeline.New(capacity), newTwin(capacity)
			var live []stay
			horizon := unit.Time(0)
			for i := range 700 {
				switch k := r.IntN(100); {
				case k < 45 && len(live) < 150:
					start := horizon + unit.Time(r.IntN(2000))
					x := stay{start, start + unit.Time(r.IntN(200)), unit.Vector{r.Int64N(4), r.Int64N(4), r.Int64N(3)}}
					p.Add(x.start, x.end, x.v)
					w.add(x.start, x.end, x.v)
					live = append(live, x)
				case k < 75 && len(live) > 0:
					j := r.IntN(len(live))
					x := live[j]
					live = slices.Delete(live, j, j+1)
					p.Remove(x.start, x.end, x.v)
					w.remove(x.start, x.end, x.v)
				case k < 77:
					horizon += unit.Time(r.IntN(50))
					p.Prune(horizon)
					w.prune(horizon)
				}
				need := unit.Vector{r.Int64N(capacity[0] + 2), r.Int64N(capacity[1] + 1), r.Int64N(3)}
				from := horizon + unit.Time(r.IntN(2200)-100)
				ask(t, p, w, need, time.Duration(r.IntN(300)), from, from+unit.Time(r.IntN(1000)))
				if i%100 == 0 {
					agree(t, p, w)
					w.stays = compacted(w)
				}
			}
			agree(t, p, w)
		})
	}
}

// Blocks empty one after the other beside full ones, from the front, from the back, and from within. A copy stays as it
// was.
func TestNeighboursOfFullBlocksGo(t *testing.T) {
	const n = 600
	for _, step := range []int{1, n - 1, 7, 211} {
		p, kept := timeline.New(unit.Cores(1)), &timeline.Profile{}
		for _, i := range rand.New(rand.NewPCG(uint64(step), 1)).Perm(n) { // so that some are full
			p.Add(unit.Time(4*i), unit.Time(4*i+2), unit.Cores(1))
		}
		kept.Copy(p)
		full := points(p)
		gone := map[unit.Time]bool{}
		for i := range n {
			x := unit.Time(i * step % n)
			gone[x] = true
			p.Remove(4*x, 4*x+2, unit.Cores(1))
			y := unit.Time((i + 1) * step % n)
			if got := p.Fits(4*y, 4*y+1, unit.Cores(1)); got != gone[y] {
				t.Fatalf("step %d: fits at %d: %v", step, 4*y, got)
			}
			if got := p.Fits(4*x, 4*x+4, unit.Cores(1)); !got {
				t.Fatalf("step %d: what was removed at %d is there", step, 4*x)
			}
			if at, ok := p.EarliestBefore(unit.Cores(1), 3, 4*y, 4*y+1); ok != gone[y] {
				t.Fatalf("step %d: a place at %d: %v", step, at, ok)
			}
		}
		if len(points(p)) != 0 || !slices.Equal(points(kept), full) {
			t.Fatalf("step %d: left %v", step, points(p))
		}
	}
}

// compacted replaces the twin's history of additions and removals by the plain pieces that they amount to.
func compacted(w *twin) (stays []stay) {
	all := w.all()
	for i, x := range all {
		end := unit.Never
		if i+1 < len(all) {
			end = all[i+1].At
		}
		if x.Used != (unit.Vector{}) {
			stays = append(stays, stay{x.At, end, x.Used})
		}
	}
	return stays
}

// FuzzProfile reads bytes as operations, eight to one, and asks both the profile and its twin after each.
func FuzzProfile(f *testing.F) {
	f.Add([]byte{0, 0, 10, 6, 0, 0, 8, 10, 0, 10, 20, 8, 0, 0, 10, 5})
	f.Add([]byte{0, 3, 9, 1, 2, 3, 1, 1, 1, 3, 9, 1, 2, 3, 1, 1, 2, 5, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{8, 250, 255, 1, 1, 1, 3, 7, 0, 255, 255, 1, 1, 1, 3, 7, 16, 0, 251, 1, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0,
		0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		// Instants crowd around zero; the highest bytes reach the ends of the axis.
		instant := func(b byte) unit.Time {
			switch {
			case b == 255:
				return unit.Never
			case b >= 250:
				return unit.Never - unit.Time(255-b)
			case b >= 245:
				return math.MinInt64 + unit.Time(b-245)
			default:
				return unit.Time(b) - 20
			}
		}
		capacity := unit.Vector{9, 7, unit.Unlimited}
		p, w := timeline.New(capacity), newTwin(capacity)
		for range min(len(ops)/8, 60) {
			op := binary.LittleEndian.Uint64(ops)
			ops = ops[8:]
			b := func(i int) byte { return byte(op >> (8 * i)) }
			start, end := instant(b(1)), instant(b(2))
			v := unit.Vector{int64(b(3)%16) - 3, int64(b(4)%16) - 3, int64(b(5)%16) - 3}
			switch b(0) % 8 {
			case 0, 1, 4, 5:
				p.Add(start, end, v)
				w.add(start, end, v)
			case 2:
				p.Remove(start, end, v)
				w.remove(start, end, v)
			case 3:
				p.Prune(start)
				w.prune(start)
			case 6: // the newest goes again
				if n := len(w.stays); n > 0 {
					x := w.stays[n-1]
					p.Remove(x.start, x.end, x.v)
					w.remove(x.start, x.end, x.v)
				}
			case 7:
				if b(6) == 0 {
					capacity[unit.Memory] = int64(b(4))
					p.Reset(capacity)
					w = newTwin(capacity)
				}
			}
			agree(t, p, w)
			dur := time.Duration(b(6))
			if b(6) >= 250 {
				dur = math.MaxInt64 - time.Duration(255-b(6))
			}
			need := unit.Vector{int64(b(3) >> 4), int64(b(4) >> 4), int64(b(5) >> 4)}
			if b(5)>>4 == 15 {
				need[unit.Disk] = unit.Unlimited
			}
			ask(t, p, w, need, dur, instant(b(7)), end)
			ask(t, p, w, v, dur, instant(b(7)), instant(255-b(7)))
		}
	})
}

// A block that loses its only breakpoint takes in the short one behind it.
func TestAnEmptyBlockTakesInTheNext(t *testing.T) {
	one := unit.Vector{unit.CPU: 1}
	p := timeline.New(unit.Vector{unit.CPU: 1000, unit.Memory: unit.Unlimited, unit.Disk: unit.Unlimited})
	at := func(i int) unit.Time { return unit.Time(100 * i) }
	const start, end = 63, 90 // breakpoints of one stay alone
	for i := 1; i <= 96; i++ {
		switch i {
		case start:
			p.Add(at(start), at(end), one)
		case end:
		default:
			p.Add(at(i), unit.Never, one)
		}
	}
	for i := range 20 { // the first block is too long to take in another
		p.Add(at(i+1)+50, unit.Never, one)
	}
	for i := 32; i < start; i++ {
		p.Remove(at(i), unit.Never, one)
	}
	for i := 64; i < 81; i++ {
		p.Remove(at(i), unit.Never, one)
	}
	p.Remove(at(start), at(end), one)
	want := p.Used(at(start) - 1)[unit.CPU]
	for i := start; i < 81; i++ {
		if got := p.Used(at(i) + 50)[unit.CPU]; got != want {
			t.Errorf("%d in use at %d, want %d", got, at(i)+50, want)
		}
	}
	p.Add(at(start)+50, unit.Never, one)
	if got := p.Used(at(start) + 60)[unit.CPU]; got != want+1 {
		t.Errorf("%d in use after another stay, want %d", got, want+1)
	}
}
