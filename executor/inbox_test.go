package executor_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/null"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
)

// Nodes are drained and resumed, workflows cancelled and handed in, while attempts run.
func TestEveryPolicyLivesWithRequests(t *testing.T) {
	for _, row := range policy.Table() {
		t.Run(row.Name, func(t *testing.T) {
			for seed := range seedtest.Seeds(t, 20) {
				r := rand.New(rand.NewPCG(seed, 78))
				p := randomPlatform(r)
				p.Overlapped = p.Overlapped && seed%2 == 0
				submission := func(i int, at planner.Time) executor.Submission {
					sub := executor.Submission{ID: int64(i + 1), Workflow: randomWorkflow(r, 4+r.IntN(14)),
						Name: fmt.Sprint("w", i), At: at}
					if r.IntN(2) == 0 {
						sub.Class, sub.Due = planner.Deadline, sub.At+planner.Time(r.IntN(200))*1e9+1
					}
					return sub
				}
				e := enginetest.New(t, p, enginetest.Policy(t, row.Name), submission(0, 0))
				e.Inbox = executor.NewInbox()
				late := []executor.Submission{submission(1, 0), submission(2, 0)}
				cancelled := planner.WorkflowID(planner.None)
				whole := p.Nodes[0].Capacity
				requests := []func(in *executor.Intake) error{
					func(in *executor.Intake) error { return in.ChangeNode(0, unit.Vector{}) },
					func(in *executor.Intake) error { in.Arrive(late[0]); return nil },
					func(in *executor.Intake) error { return in.ChangeNode(0, whole) },
					func(in *executor.Intake) error { in.Arrive(late[1]); return nil },
					func(in *executor.Intake) error {
						for _, w := range in.View().Present() {
							cancelled = w
							return in.CancelWorkflow(w)
						}
						return nil
					},
				}
				watch := e.Watch
				began := 0
				e.Watch = func(v planner.View, events []planner.Event, admitted []*executor.Admission) {
					if watch != nil {
						watch(v, events, admitted)
					}
					for i := range events {
						if _, ok := events[i].Body.(planner.AttemptStarted); !ok {
							continue
						}
						if began++; began%2 == 0 && len(requests) > 0 {
							e.Inbox.Post(requests[0])
							requests = requests[1:]
						}
					}
					if held := v.Held(0); !held.Fits(v.Capacity(0)) {
						t.Fatalf("seed %d: node 0 holds %v of %v", seed, held, v.Capacity(0))
					}
					if v.UnderWayCount() == 0 { // nothing else would happen
						for _, f := range requests {
							e.Inbox.Post(f)
						}
						requests = nil
					}
					if len(requests) == 0 {
						e.Inbox.Close()
					}
				}
				enginetest.Run(t, e)
				v := e.Planner.View()
				if v.Workflows() != 3 || v.Capacity(0) != whole {
					t.Fatalf("seed %d: %d workflows, node 0 has %v of %v", seed, v.Workflows(), v.Capacity(0), whole)
				}
				for i := range v.Tasks() {
					task := planner.TaskID(i)
					if w := v.Task(task).Workflow; !v.Phase(task).Ended() ||
						w != cancelled && v.Phase(task) != planner.Done {
						t.Fatalf("seed %d: task %d of workflow %d is %s", seed, i, w, v.Phase(task))
					}
				}
			}
		})
	}
}

// closing is a runtime that closes an inbox in the middle of a turn.
type closing struct {
	executor.Runtime
	inbox *executor.Inbox
}

func (c closing) Instant() bool {
	c.inbox.Close()
	return false
}

// An inbox that is closed after a turn began ends the run well if nothing is left.
func TestAnInboxClosesAtAnyTime(t *testing.T) {
	e := enginetest.New(t, randomPlatform(rand.New(rand.NewPCG(1, 1))), enginetest.Policy(t, "cpp"))
	e.Inbox = executor.NewInbox()
	e.Runtime = closing{null.New(time.Now()), e.Inbox}
	if _, err := e.Run(t.Context()); err != nil {
		t.Error(err)
	}
}
