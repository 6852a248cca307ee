package executor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/rank"
	"gantry/planner/seed/seedtest"
)

// comparing is a policy that compares ranks that follow growth with those that are computed of what is there.
type comparing struct {
	planner.Policy
	t     *testing.T
	ranks []*rank.Upward
}

func (p *comparing) Plan(ctx context.Context, c *planner.Cycle) error {
	for _, u := range p.ranks {
		u.Update(c)
		fresh := &rank.Upward{AverageSpeed: u.AverageSpeed, Bound: u.Bound}
		again := *c
		again.News = planner.News{Arrived: c.Present()}
		fresh.Update(&again)
		for _, w := range c.Present() {
			flow := c.Workflow(w)
			if got, want := u.Sorted(flow), fresh.Sorted(flow); !slices.Equal(got, want) {
				p.t.Fatalf("at %v, ranks sort workflow %d as %v, not %v", c.Now(), w, got, want)
			}
			for _, t := range flow.Tasks {
				if u.Unscaled(t).Compare(fresh.Unscaled(t)) != 0 || u.Position(t) != fresh.Position(t) {
					p.t.Fatalf("at %v, task %d has rank %v, position %d, not %v, %d", c.Now(), t, u.Unscaled(t),
						u.Position(t), fresh.Unscaled(t), fresh.Position(t))
				}
			}
			if u.Length(w).Compare(fresh.Length(w)) != 0 {
				p.t.Fatalf("at %v, workflow %d has length %v, not %v", c.Now(), w, u.Length(w), fresh.Length(w))
			}
		}
	}
	return p.Policy.Plan(ctx, c)
}

// growing has random workflows arrive task by task, at one instant each or, with at, later; whole ones if so asked.
func growing(e *executor.Engine, r, at *rand.Rand, whole bool) {
	for k := range 1 + r.IntN(3) {
		sub := executor.Submission{At: planner.Time(k) * 7e9, Name: fmt.Sprint("w", k), Tenant: fmt.Sprint(k % 2),
			Workflow: randomWorkflow(r, 5+r.IntN(25)), Class: planner.Class(r.IntN(2))}
		if !whole {
			arrive(e, handedIn(sub, int64(1000*(k+1)), at)...)
			continue
		}
		for n := range sub.Workflow.Tasks {
			sub.Workflow.Tasks[n].Inputs, sub.Workflow.Tasks[n].Outputs = nil, nil
		}
		sub.Workflow.Files = nil
		arrive(e, sub)
	}
}

func TestRanksFollowGrowth(t *testing.T) {
	for seed := range seedtest.Seeds(t, 150, 2671312916) {
		r := rand.New(rand.NewPCG(seed, 23))
		checked := &comparing{enginetest.Policy(t, "gbf"), t, []*rank.Upward{{}, {AverageSpeed: true}, {Bound: true}}}
		e := enginetest.New(t, randomPlatform(r), checked)
		growing(e, r, r, false)
		enginetest.Run(t, e)
	}
}

// What comes within one instant is planned as what arrives at it: tasks start as if the workflow had arrived whole,
// and so it ends no later. The search of mrcp-rm prefers tasks that are listed first, and a list of pieces is another
// one.
func TestGrowthAtTheInstantOfArrivalIsArrival(t *testing.T) {
	for _, row := range policy.Table() {
		if row.Name == "mrcp-rm" {
			continue
		}
		t.Run(row.Name, func(t *testing.T) {
			for seed := range seedtest.Seeds(t, 30, 1829961733) {
				var gave [2][]string
				for i := range gave {
					r := rand.New(rand.NewPCG(seed, 19))
					e := enginetest.New(t, randomPlatform(r), enginetest.Policy(t, row.Name))
					growing(e, r, nil, i == 0)
					gave[i] = orders(t, e)
				}
				alike(t, fmt.Sprintf("seed %d, whole and growing", seed), gave)
			}
		})
	}
}
