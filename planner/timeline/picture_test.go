package timeline_test

import (
	"testing"
	"time"

	"gantry/planner/timeline"
	"gantry/planner/unit"
)

// Stays on a node of four cores, time across: the figure in a column is what is in use, the star the place that is
// found.
func TestGapsAsPictures(t *testing.T) {
	for _, c := range []struct {
		used, found string // a column a second
		need        int64  // cores
		dur, from   int
		latest      int // 0: the earliest place, else the latest one that ends by then
	}{
		{used: "4422144", found: "..**", need: 2, dur: 2},
		{used: "4422144", found: "....*", need: 3, dur: 1},
		{used: "4422144", found: ".......***", need: 1, dur: 3, from: 3}, // the gap is one second too short from there
		{used: "4422144", found: "..***", need: 2, dur: 3},               // exactly as wide
		{used: "4422144", found: ".......****", need: 2, dur: 4},
		{used: "4422144", found: "...**", need: 2, dur: 2, latest: 7},
		{used: "0000", found: "**", need: 4, dur: 2},
		{used: "0000", found: "..**", need: 4, dur: 2, latest: 4},
	} {
		p := timeline.New(unit.Cores(4))
		for i, d := range c.used {
			if d > '0' {
				p.Add(unit.Time(i), unit.Time(i+1), unit.Cores(int64(d-'0')))
			}
		}
		at, ok := p.Earliest(unit.Cores(c.need), time.Duration(c.dur), unit.Time(c.from))
		if c.latest > 0 {
			at, ok = p.Latest(unit.Cores(c.need), time.Duration(c.dur), unit.Time(c.from), unit.Time(c.latest))
		}
		got := ""
		for i := range int(at) + c.dur {
			if unit.Time(i) < at {
				got += "."
			} else {
				got += "*"
			}
		}
		if !ok || got != c.found {
			t.Errorf("%d cores for %d s from %d on\nuse   %s\nfound %s (%v)\nwant  %s", c.need, c.dur, c.from, c.used,
				got, ok, c.found)
		}
	}
}
