package executor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
)

// someReused takes over results of about half of the tasks, on the first node.
type someReused struct {
	salt  uint64
	asked map[planner.TaskID]int
	taken map[planner.TaskID]bool
}

func (s *someReused) Reuse(_ context.Context, t planner.TaskID, spec *executor.TaskSpec,
	at executor.Places) (*planner.TaskReused, error) {
	s.asked[t]++
	for _, f := range spec.Inputs {
		if at(f.ID) == planner.None {
			return nil, fmt.Errorf("input %s is nowhere", f.Name)
		}
	}
	if rand.New(rand.NewPCG(s.salt, uint64(t))).IntN(2) == 0 {
		return nil, nil
	}
	s.taken[t] = true
	return &planner.TaskReused{Run: "earlier", Attempt: 3}, nil
}

// Whatever the policy, tasks whose results are taken over neither run nor keep others waiting, when the workflow
// arrives and in the middle of it.
func TestEveryPolicyLivesWithReusedTasks(t *testing.T) {
	for _, row := range policy.Table() {
		t.Run(row.Name, func(t *testing.T) {
			for seed := range seedtest.Seeds(t, 20) {
				r := rand.New(rand.NewPCG(seed, 77))
				p := randomPlatform(r)
				p.Overlapped = p.Overlapped && seed%2 == 0
				var subs []executor.Submission
				for i := range 1 + r.IntN(3) {
					sub := executor.Submission{Workflow: randomWorkflow(r, 4+r.IntN(14)), Name: fmt.Sprint("w", i),
						At: planner.Time(i) * 5e9}
					if r.IntN(2) == 0 {
						sub.Class, sub.Due = planner.Deadline, sub.At+planner.Time(r.IntN(200))*1e9+1
					}
					subs = append(subs, sub)
				}
				e := enginetest.New(t, p, enginetest.Policy(t, row.Name), subs...)
				reuser := &someReused{salt: seed, asked: map[planner.TaskID]int{}, taken: map[planner.TaskID]bool{}}
				e.Reuse = reuser
				enginetest.Run(t, e)
				v := e.Planner.View()
				for i := range v.Tasks() {
					task := planner.TaskID(i)
					if v.Task(task).Formal {
						continue
					}
					if v.Phase(task) != planner.Done || reuser.asked[task] != 1 {
						t.Fatalf("seed %d: task %d is %s and was asked about %d times", seed, i, v.Phase(task),
							reuser.asked[task])
					}
					if (v.Last(task) == planner.None) != reuser.taken[task] {
						t.Fatalf("seed %d: task %d: taken over %v, last attempt %d", seed, i, reuser.taken[task],
							v.Last(task))
					}
				}
				for n := range v.Nodes() {
					if held := v.Held(planner.NodeID(n)); held != (unit.Vector{}) {
						t.Fatalf("seed %d: node %d holds %v at the end", seed, n, held)
					}
				}
			}
		})
	}
}
