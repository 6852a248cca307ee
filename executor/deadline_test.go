package executor_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
)

// Of workflows in layers over 8 processors at 75 % utilisation, with deadlines of one to five times their share of the
// machine, those that are admitted are on time with exact estimates, and the others are refused with a reason and
// withdrawn whole; FIFO refuses more.
func TestRefusedWorkflowsAreWithdrawnAndTheOthersAreOnTime(t *testing.T) {
	refused := map[string]int{}
	for _, spec := range []string{"rm-dcwf", "fifo", "mrcp-rm", "mrcp-rm:reserve=yes"} {
		r, at := rand.New(rand.NewPCG(3, 5)), 0.0
		const mean = 30 * time.Second
		pol := enginetest.Policy(t, spec)
		pol.(planner.Refuser).RejectLate()
		e := enginetest.New(t, processors(8), pol)
		for i := range 75 {
			w := layered(r, 10+r.IntN(20), mean)
			at += -math.Log(1-r.Float64()) * 20 * mean.Seconds() / (8 * 0.75)
			sub := executor.Submission{At: planner.Time(at * 1e9), Name: fmt.Sprint("w", i), Workflow: w,
				Class: planner.Deadline}
			if sub.Release = sub.At; r.IntN(2) == 0 {
				sub.Release += planner.Time(r.IntN(600)) * 1e9
			}
			sub.Due = sub.Release.Add(time.Duration((1 + 4*r.Float64()) * float64(4*mean)))
			e.Arrivals = append(e.Arrivals, sub)
		}
		told := 0
		e.Watch = func(v planner.View, events []planner.Event, _ []*executor.Admission) {
			for _, ev := range events {
				switch b := ev.Body.(type) {
				case *planner.PlanCommitted:
					for _, n := range b.Notes {
						if n.Topic == planner.TopicRefused && strings.TrimSpace(n.Text) != "" {
							told++
						}
						if n.Topic == planner.TopicPredicted && strings.Contains(n.Text, "missed") {
							t.Errorf("%s: a workflow is admitted that is expected to be late: %s", spec, n.Text)
						}
					}
				case planner.WorkflowCancelled:
					refused[spec]++
				}
			}
		}
		enginetest.Run(t, e)
		if refused[spec] == 0 || refused[spec] != told {
			t.Errorf("%s: %d workflows withdrawn, %d told", spec, refused[spec], told)
		}
		v := e.Planner.View()
		for w := range planner.WorkflowID(v.Workflows()) {
			if _, end := v.Times(w); end > v.Workflow(w).Due {
				t.Errorf("%s: workflow %d was admitted, and is late", spec, w)
			}
		}
	}
	if refused["fifo"] <= max(refused["rm-dcwf"], refused["mrcp-rm"]) {
		t.Errorf("workflows are refused: %v", refused)
	}
}

// Starts that take 200 ms longer than any estimate knows, as those of containers may: TSP2 plans up to the deadlines
// and is late with all that it plans there, unless it is given a margin.
func TestMarginOfTSP2IsForWhatNoEstimateKnows(t *testing.T) {
	late := map[string]int{}
	for _, spec := range []string{"rm-dcwf:ed-sl-tsp2", "rm-dcwf:ed-sl-tsp2,margin=300"} {
		p := processors(4)
		pol, err := policy.Parse(spec)
		must(t, err)
		var subs []executor.Submission
		for i := range 20 {
			at := planner.Time(i) * 40e9
			subs = append(subs, executor.Submission{At: at, Name: fmt.Sprint("w", i), Workflow: dag(fmt.Sprint("w", i),
				"a=4 b=5 c=6; a>c b>c"), Due: at + 30e9})
		}
		e := enginetest.New(t, p, pol, subs...)
		e.Runtime = sim.New(sim.Config{Platform: p, Startup: 200 * time.Millisecond})
		enginetest.Run(t, e)
		v := e.Planner.View()
		for w := range planner.WorkflowID(v.Workflows()) {
			if _, end := v.Times(w); end > v.Workflow(w).Due {
				late[spec]++
			}
		}
	}
	if late["rm-dcwf:ed-sl-tsp2"] != 20 || late["rm-dcwf:ed-sl-tsp2,margin=300"] != 0 {
		t.Errorf("late: %v, want all 20 without a margin and none with one", late)
	}
}
