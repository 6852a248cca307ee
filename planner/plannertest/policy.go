package plannertest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"gantry/planner"
)

// someOfEverything are loads that have tasks without time, copies, deadlines, and what may be preempted.
var someOfEverything = map[string]string{
	"exact": `
		nodes 2 1*1/2 2
		A      a=3 b=2 c=4 d=1 z=0 a>bc bc>d d>z
		B @1   due=30 e=2 f=2 g=2 e>f:5 e>g:1
		C @2   release=4 low h=6^~ i=1 h>i
		D @2   due=12 j=3`,
	"wrong": `
		nodes 2 1
		link  1 0.5
		A      a=3(5) b=2(1) c=4 a>bc:3
		B @5   due=40 e=2(6) f=2(2) e>f
		C @5   h=6(1) i=1(3) h>i`,
	"overlapped": `
		nodes 1 1*1/2
		link  1 0.5 overlapped
		A      a=3 b=2 c=4 a>bc:3 >b:2@0
		B @2   d=2 e=1 d>e:1`,
}

// TestPolicy tests what gantry relies on in a policy, of which fresh makes one for each run: it keeps the invariants
// after every step (see Check), brings every workflow to its end, decides the same again, and takes over in the middle
// of a run, as after gantry resume, where all that there is is news.
func TestPolicy(t *testing.T, fresh func() planner.Policy) {
	loads := maps.Clone(someOfEverything)
	for seed := range uint64(4) {
		loads[fmt.Sprint("drawn-", seed)] = Draw(rand.New(rand.NewPCG(seed, 0)), 3)
	}
	for name, text := range loads {
		t.Run(name, func(t *testing.T) {
			once := New(t, fresh(), text).RunAll()
			again := New(t, fresh(), text).RunAll()
			if once.Ran() != again.Ran() {
				t.Errorf("it decides otherwise in a second run: no map, clock or other state may count\n%s\nand\n%s",
					once.Ran(), again.Ran())
			}
			taken := New(t, fresh(), text).Until(Seconds(2)).Resume(fresh())
			for _, b := range []*Bench{once, again, taken.RunAll()} {
				b.Planner.End()
			}
		})
	}
}

// Draw draws a load of up to 26 tasks.
func Draw(r *rand.Rand, flows int) string {
	var b strings.Builder
	b.WriteString([]string{"nodes 1 1\n", "nodes 2 3\n", "nodes 1 1*1/2 2\n"}[r.IntN(3)])
	next := 'a'
	for w := range flows {
		fmt.Fprintf(&b, "W%d @%d due=%d", w, 2*w, 30+w)
		first := next
		for range 4 + r.IntN(4) {
			fmt.Fprintf(&b, " %c=%d", next, 1+r.IntN(4))
			for p := first; p < next; p++ {
				if r.IntN(3) == 0 {
					fmt.Fprintf(&b, " %c>%c", p, next)
				}
			}
			next++
		}
		b.WriteString("\n")
	}
	return b.String()
}
