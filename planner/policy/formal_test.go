package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gantry/planner/plannertest"
	"gantry/planner/policy"
	"gantry/planner/seed/seedtest"
)

// scenarios draws one and the same load twice: with tasks without time in all places, and with what they join linked
// directly.
func scenarios(r *rand.Rand) (with, without string) {
	var a, b strings.Builder
	platform := []string{"nodes 1 1\n", "nodes 2\n", "nodes 1 1*1/2 2\n"}[r.IntN(3)]
	a.WriteString(platform)
	b.WriteString(platform)
	next := 'a'
	for w := range 1 + r.IntN(3) {
		head := fmt.Sprintf("W%d @%d due=%d", w, 2*w, 20+r.IntN(30))
		a.WriteString(head)
		b.WriteString(head)
		type node struct {
			name   string
			formal bool
			above  []string // the nearest tasks with time
		}
		var all []node
		var links, direct []string
		for range 3 + r.IntN(5) {
			n := node{name: string(next), formal: r.IntN(3) == 0}
			next++
			var parents []string
			for _, p := range all {
				if r.IntN(3) > 0 {
					continue
				}
				parents = append(parents, p.name)
				if p.formal {
					n.above = append(n.above, p.above...)
				} else {
					n.above = append(n.above, p.name)
				}
			}
			slices.Sort(n.above)
			n.above = slices.Compact(n.above)
			all = append(all, n)
			if len(parents) > 0 {
				links = append(links, strings.Join(parents, "")+">"+n.name)
			}
			if n.formal {
				fmt.Fprintf(&a, " %s=0", n.name)
				continue
			}
			run := 1 + r.IntN(4)
			fmt.Fprintf(&a, " %s=%d", n.name, run)
			fmt.Fprintf(&b, " %s=%d", n.name, run)
			if len(n.above) > 0 {
				direct = append(direct, strings.Join(n.above, "")+">"+n.name)
			}
		}
		a.WriteString(" " + strings.Join(links, " ") + "\n")
		b.WriteString(" " + strings.Join(direct, " ") + "\n")
	}
	return a.String(), b.String()
}

// No policy sees a task without time: the same runs, on the same nodes, at the same instants, as if it were not there.
func TestNoPolicySeesTasksWithoutTime(t *testing.T) {
	for _, row := range policy.Table() {
		t.Run(row.Name, func(t *testing.T) {
			for seed := range seedtest.Seeds(t, 60) {
				with, without := scenarios(rand.New(rand.NewPCG(seed, 1)))
				var ran [2]string
				for i, text := range []string{with, without} {
					spec := row.Name
					if spec == "gbf" { // what it draws goes by id
						spec = "gbf:first"
					}
					pol, err := policy.Parse(spec)
					must(t, err)
					b := plannertest.New(t, pol, "scale 0.5\n"+text).RunAll()
					ran[i] = b.Ran()
					for at, times := range b.Rounds {
						if times > 1 && !b.Preempted() {
							t.Errorf("seed %d: asked %d times at %v", seed, times, at)
						}
					}
				}
				if ran[0] != ran[1] {
					t.Fatalf("seed %d:\n%s\nruns as\n%s\nand without what takes no time as\n%s", seed, with, ran[0],
						ran[1])
				}
			}
		})
	}
}
