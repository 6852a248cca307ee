package executor_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/seed/seedtest"
)

// No more tokens are held than there are, whatever the policy, and every task is done in the end.
func TestEveryPolicyKeepsToTheTokens(t *testing.T) {
	for seed := range seedtest.Seeds(t, 12) {
		for _, row := range policy.Table() {
			r := rand.New(rand.NewPCG(seed, 5))
			p := randomPlatform(r)
			e := enginetest.New(t, p, enginetest.Policy(t, row.Name))
			there := planner.Tokens{2, 1}
			e.Planner.LimitTokens(there)
			e.Admit.Tokens = []executor.Token{{Name: "licence", Count: 2}, {Name: "writer", Count: 1}}
			e.Admit.Needs = []string{"k0=licence", "k1=licence:2,writer", "t5=none"}
			for i := range 3 {
				e.Arrivals = append(e.Arrivals, executor.Submission{At: planner.Time(i) * 7e9,
					Name: fmt.Sprint("w", i), Workflow: randomWorkflow(r, 12), Tenant: fmt.Sprint(i % 2)})
			}
			var rec record
			var held planner.Tokens
			most := held
			of := map[planner.AttemptID]planner.TaskID{}
			rec.watch(e)
			note := e.Watch
			e.Watch = func(v planner.View, events []planner.Event, admitted []*executor.Admission) {
				note(v, events, admitted)
				for _, ev := range events {
					switch b := ev.Body.(type) {
					case *planner.PlanCommitted:
						for _, o := range b.Orders {
							if o.Kind == planner.OrderStart {
								of[o.Attempt] = o.Task
								for i, n := range rec.tasks[o.Task].Tokens {
									held[i] += n
									most[i] = max(most[i], held[i])
								}
							}
						}
					case *planner.AttemptExited:
						for i, n := range rec.tasks[of[b.Attempt]].Tokens {
							held[i] -= n
						}
					}
				}
			}
			if res, err := e.Run(t.Context()); err != nil || len(res.Refused) > 0 {
				t.Fatalf("%s, seed %d: %v %v", row.Name, seed, err, res.Refused)
			}
			verify(t, row.Name, seed, p, &rec)
			if held != (planner.Tokens{}) || most != there {
				t.Errorf("%s, seed %d: at most %v of %v were held, and %v in the end", row.Name, seed, most, there,
					held)
			}
		}
	}
}
