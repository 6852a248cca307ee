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
)

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
