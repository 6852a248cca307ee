package predict_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"gantry/planner"
	"gantry/planner/plannertest"
	"gantry/planner/predict"
	"gantry/planner/unit"
)

// Tasks a to d end at 1 s, e to h at 2 s, a after twice what was declared, b after three times, and so on. In whatever
// order those of an instant are reported, the last are those with the largest ids.
func TestTheOrderOfReportsAtAnInstantCorrectsNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		for m := 1; m <= 9; m++ {
			if first, second := r.Perm(4), r.Perm(4); !corrects(t, m, first, second) {
				t.Fatalf("the last %d, reported in the orders %v and %v", m, first, second)
			}
		}
	}
}

// corrects reports whether an estimate is corrected by the last m of eight tasks.
func corrects(t *testing.T, m int, first, second []int) bool {
	t.Helper()
	sc, err := plannertest.Parse(`
		nodes 8
		A  a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1`)
	must(t, err)
	s, declared := planner.NewState(sc.Platform, planner.DefaultRetryRules()), &predict.Declared{}
	corrected := predict.NewCorrected(declared, m)
	var seq uint64
	apply := func(at planner.Time, b planner.Body) {
		seq++
		e := planner.Event{Seq: seq, At: at, Body: b}
		must(t, s.Apply(e))
		corrected.Observe(s.View(), e)
	}
	apply(0, sc.Flows[0])
	plan := &planner.PlanCommitted{Round: 1}
	for i := range 8 {
		declared.Declare(planner.TaskID(i), time.Second, nil, planner.SourceDeclared)
		plan.Orders = append(plan.Orders, planner.Order{Kind: planner.OrderStart, Attempt: planner.AttemptID(i),
			Task: planner.TaskID(i), Hold: unit.Cores(1), Try: 1, Until: unit.Never})
	}
	apply(0, plan)
	for i := range 8 {
		apply(0, planner.AttemptStarted{Attempt: planner.AttemptID(i)})
	}
	right := true
	for half, order := range [][]int{first, second} {
		for _, i := range order {
			i += 4 * half
			apply(planner.Time(half+1)*planner.Time(time.Second), &planner.AttemptExited{
				Attempt: planner.AttemptID(i), Outcome: planner.OK, Ran: time.Duration(i+2) * time.Second})
		}
		ended, sum, n := 4*(half+1), 0, 0
		for i := max(0, ended-m); i < ended; i++ {
			sum, n = sum+i+2, n+1
		}
		want := (time.Duration(sum)*time.Second + time.Duration(n/2)) / time.Duration(n)
		if got := corrected.Run(s.View().Task(0), reference).Run; got != want {
			t.Errorf("at %d s: corrected to %v, want %v", half+1, got, want)
			right = false
		}
	}
	return right
}
