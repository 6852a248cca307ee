package executor_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
	"gantry/trace"
)

// No policy starts more of a tenant than its limit, whatever it is and whatever others do, and all comes to its end.
func TestEveryPolicyHoldsTenantsToTheirLimits(t *testing.T) {
	for _, row := range policy.Table() {
		t.Run(row.Name, func(t *testing.T) {
			for seed := range seedtest.Seeds(t, 30, 803) {
				r := rand.New(rand.NewPCG(seed, 79))
				p := randomPlatform(r)
				limits := []int64{[]int64{1000, 2000, 500}[r.IntN(3)], 0}
				var subs []executor.Submission
				for i := range 2 + r.IntN(3) {
					sub := executor.Submission{ID: int64(i + 1), Workflow: randomWorkflow(r, 4+r.IntN(20)),
						Name: fmt.Sprint("w", i), At: planner.Time(i) * 5e9, Tenant: fmt.Sprint("tenant-", i%2)}
					if r.IntN(3) == 0 {
						sub.Class, sub.Due = planner.Deadline, sub.At+planner.Time(r.IntN(200))*1e9+1
					}
					subs = append(subs, sub)
				}
				e := enginetest.New(t, p, enginetest.Policy(t, row.Name), subs...)
				e.Planner.LimitTenants(func(m planner.TenantID) int64 { return limits[m] })
				waited := false
				e.Watch = func(v planner.View, events []planner.Event, _ []*executor.Admission) {
					held, tasks := map[planner.TenantID]int64{}, map[planner.TenantID]int{}
					for a := range v.UnderWay() {
						if v.Phase(v.Attempt(a).Task) == planner.Suspended || v.Attempt(a).Hold[unit.CPU] == 0 {
							continue // its node keeps memory, or it takes no time
						}
						m := v.Workflow(v.Task(v.Attempt(a).Task).Workflow).Tenant
						held[m] += v.Attempt(a).Hold[unit.CPU]
						tasks[m]++
					}
					for m, x := range held {
						if limit := limits[m]; limit > 0 && x > limit && tasks[m] > 1 {
							t.Fatalf("seed %d: %d tasks of tenant %d hold %d of %d millicores", seed, tasks[m], m, x,
								limit)
						}
					}
					for i := range events {
						if pc, ok := events[i].Body.(*planner.PlanCommitted); ok {
							waited = waited || slices.ContainsFunc(pc.Reasons, func(w planner.Wait) bool {
								return w.Reason.Code == planner.TenantLimit
							})
						}
					}
				}
				enginetest.Run(t, e)
				v := e.Planner.View()
				for i := range v.Tasks() {
					if task := planner.TaskID(i); v.Phase(task) != planner.Done {
						t.Fatalf("seed %d: task %d is %s", seed, i, v.Phase(task))
					}
				}
				if limits[0] == 500 && !waited {
					t.Fatalf("seed %d: no task is said to wait for the limit", seed)
				}
			}
		})
	}
}

// A log that was written under other limits replays: none of its events depends on them.
func TestALogReplaysUnderOtherLimitsOfTenants(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 80))
	p := randomPlatform(r)
	run := func(limit int64) (events []planner.Event, admitted []*executor.Admission) {
		e := enginetest.New(t, p, enginetest.Policy(t, "cpp"), executor.Submission{Name: "w", Tenant: "a",
			Workflow: randomWorkflow(rand.New(rand.NewPCG(3, 81)), 30)})
		e.Planner.LimitTenants(func(planner.TenantID) int64 { return limit })
		e.Watch = func(_ planner.View, all []planner.Event, adm []*executor.Admission) {
			events, admitted = append(events, all...), append(admitted, adm...)
		}
		enginetest.Run(t, e)
		return events, admitted
	}
	for _, limits := range [][2]int64{{0, 500}, {4000, 1000}, {500, 0}, {1000, 4000}} {
		events, admitted := run(limits[0])
		e := enginetest.New(t, p, enginetest.Policy(t, "cpp"))
		e.Planner.LimitTenants(func(planner.TenantID) int64 { return limits[1] })
		for i := range events {
			b := executor.Batch{Events: events[i : i+1]}
			if _, ok := events[i].Body.(*planner.WorkflowArrived); ok {
				b.Admissions = admitted
			}
			if err := e.Replay(b); err != nil {
				t.Fatalf("from %d to %d millicores: %v", limits[0], limits[1], err)
			}
		}
		if v := e.Planner.View(); v.Ended() != 1 {
			t.Errorf("from %d to %d millicores: the workflow has not ended", limits[0], limits[1])
		}
	}
}

// What the limit of one tenant leaves free is for others, also where their tasks need as much. Policies that plan
// ahead, or serve one queue in its order, keep room for tasks that the limit holds back.
func TestWhatALimitLeavesFreeIsForOthers(t *testing.T) {
	for _, row := range policy.Table() {
		switch row.Name {
		case "wheft", "heft", "peft", "cpop", "lookahead", "min-min", "max-min",
			"pds", "dla", "rm-dcwf", "fifo", "owm-mp", "owm-mp+preemptive", "owm-mp+all-eft",
			"pipeline", "mrcp-rm":
			continue
		}
		t.Run(row.Name, func(t *testing.T) {
			p := &planner.Platform{Groups: []string{"a"}, Nodes: []planner.Node{{Name: "n", Speed: 1,
				Capacity: unit.Vector{4000, 8 << 30, unit.Unlimited}, Keeps: unit.Of(unit.Memory)}}}
			flow := func(tenant string, tasks int) executor.Submission {
				w := &trace.Workflow{Name: tenant, Label: tenant}
				for i := range tasks {
					w.Tasks = append(w.Tasks, trace.Task{ID: fmt.Sprint("t", i), Kind: "k", Cores: 1, Retries: -1,
						Runtime: 10 * time.Second})
				}
				return executor.Submission{Name: tenant, Tenant: tenant, Workflow: w}
			}
			e := enginetest.New(t, p, enginetest.Policy(t, row.Name), flow("bound", 6), flow("free", 3))
			e.Planner.LimitTenants(func(m planner.TenantID) int64 { return []int64{1000, 0}[m] })
			began := map[planner.TenantID]int{}
			e.Watch = func(v planner.View, events []planner.Event, _ []*executor.Admission) {
				for i := range events {
					if x, ok := events[i].Body.(planner.AttemptStarted); ok && events[i].At < 5e9 {
						began[v.Workflow(v.Task(v.Attempt(x.Attempt).Task).Workflow).Tenant]++
					}
				}
			}
			res := enginetest.Run(t, e)
			if began[0] != 1 || began[1] != 3 || res.Ended > 61e9 {
				t.Errorf("at first %d tasks of the tenant with a limit began and %d of the other, and all ended at %v",
					began[0], began[1], res.Ended)
			}
		})
	}
}
