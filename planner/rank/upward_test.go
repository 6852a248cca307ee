package rank_test

import (
	"testing"

	"gantry/planner"
	"gantry/planner/plannertest"
	"gantry/planner/policy"
	"gantry/planner/rank"
)

// Upward ranks are the longest path to the end, its own run and copies between tasks included (Topcuoglu et al. 2002,
// eq. 8): the run on the mean node, and the mean copy.
func TestUpwardRanks(t *testing.T) {
	for _, c := range []struct {
		scenario string
		want     map[string]float64 // seconds
	}{
		{`nodes 1
		  A a=3 b=2 c=4 d=1 a>bc bc>d`, map[string]float64{"a": 8, "b": 3, "c": 5, "d": 1}},
		{`nodes 1 1*1/2
		  A a=4 b=2 a>b`, map[string]float64{"a": 9, "b": 3}}, // a runs 4 or 8 s, b 2 or 4 s
		{`nodes 1 1
		  link 1
		  A a=3 b=2 c=4 a>b:5 a>c`, map[string]float64{"a": 10, "b": 2, "c": 4}}, // 5 MB at 1 MB/s
		{`nodes 1
		  A a=3 z=0 b=2 y=0 a>z z>b b>y`, map[string]float64{"a": 5, "b": 2}}, // what takes no time is not there
	} {
		ranks := &rank.Upward{}
		b := plannertest.New(t, plannertest.PolicyFunc(func(cy *planner.Cycle) error {
			ranks.Update(cy)
			return nil
		}), c.scenario)
		b.Step()
		for name, want := range c.want {
			if got := ranks.Time(b.View().Task(b.Task(name))).Seconds(); got != want {
				t.Errorf("%s\nrank of %s is %v, want %v", c.scenario, name, got, want)
			}
		}
	}
}

// Both chains have a rank of 16 s at the mean speed of 3/2: 12 + 4 and 8 + 8. As sums of float64 they differ, and the
// second starts first.
func TestEqualRanksOnNodesOfDifferentSpeedsAreTies(t *testing.T) {
	for _, spec := range []string{"cpp", "owm", "fdws", "hr", "fwp", "heft", "wheft"} {
		pol, err := policy.Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		plannertest.New(t, pol, "nodes 1*2 1\nA a=18 b=6 c=12 d=12 a>b c>d").RunAll().Want(`
			n0 aaaaaaaaabbbdddddd
			n1 cccccccccccc`)
	}
}
