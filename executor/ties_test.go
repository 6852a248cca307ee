package executor_test

import (
	"slices"
	"strings"
	"testing"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/planner/unit"
	"gantry/trace"
)

// t00 and t02 have one rank, 56/3 s: ids decide between them, and the order in which CPWS lets them enter decides where
// t00 runs.
func TestEqualRanksOnSeveralClustersAreTies(t *testing.T) {
	p := clusters(true, 5, 6, 7)
	p.Bandwidth = [][]unit.BytesPerSecond{{0, 1e6, 4e6}, {1e6, 0, 4e6}, {4e6, 4e6, 0}}
	w := rigid("w", "t00 4 11,3,19 t01 1 9,2,18:t00 t02 1 9,19,6 t03 2 4,12,1:t02 t04 1 18,8,7:t03", 0)
	w.Workflow.Files = []trace.File{{Name: "f", Size: 8e6, Sized: true, Producer: 3}}
	w.Workflow.Tasks[3].Outputs, w.Workflow.Tasks[4].Inputs = []int32{0}, []int32{0}
	expectStays(t, p, "owm-mp", "t00 R2[0,3] t02 R3[0,6] t03 R3[6,7] t01 R2[7,9] t04 R3[7,14]", []float64{14}, w)
}

// After p there are three eligible tasks, one of which is new: it is picked a third of the time.
func TestRandomPicksAreFreshEachTime(t *testing.T) {
	newcomer, runs := 0, 0
	for seed := range uint64(600) {
		pol, err := policy.Parse("gbf")
		must(t, err)
		est := &predict.Declared{}
		p := single(1)
		run := func() (order []string) {
			e := streamEngine(t, p, "gbf", est, []executor.Submission{{Name: "w", Workflow: dag("w", "p=1 x1=1 x2=1 "+
				"y=1; p>y")}})
			e.Planner = planner.New(p, planner.DefaultRetryRules(), pol, est, seed)
			e.Watch = func(v planner.View, events []planner.Event, _ []*executor.Admission) {
				for _, ev := range events {
					if x, ok := ev.Body.(planner.AttemptStarted); ok {
						order = append(order, []string{"p", "x1", "x2", "y"}[v.Attempt(x.Attempt).Task])
					}
				}
			}
			enginetest.Run(t, e)
			return order
		}
		order := run()
		if order[0] != "p" {
			continue
		}
		runs++
		if order[1] == "y" {
			newcomer++
		}
		if seed < 20 {
			if pol, err = policy.Parse("gbf"); err != nil {
				t.Fatal(err)
			}
			if again := run(); !slices.Equal(order, again) {
				t.Fatalf("seed %d: %s, then %s", seed, strings.Join(order, " "), strings.Join(again, " "))
			}
		}
	}
	if runs < 160 || runs > 240 {
		t.Errorf("of three tasks the first is picked %d times of 600", runs)
	}
	if share := float64(newcomer) / float64(runs); share < 0.28 || share > 0.39 {
		t.Errorf("the newcomer is picked in %.0f %% of %d runs, want a third", 100*share, runs)
	}
}
