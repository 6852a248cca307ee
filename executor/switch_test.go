package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/plannertest"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/scenario"
)

// switching is a run whose policy is changed again and again: by a replay of its log, or by handing the run over to
// policies that can take it.
type switching struct {
	t        *testing.T
	seed     uint64
	replays  bool
	policies []string
	log      []executor.Batch
	after    []string // what happened since the first change
	switched int      // changes without a replay
}

// Append keeps the log.
func (s *switching) Append(_ context.Context, b executor.Batch) error {
	b.Events, b.Admissions = slices.Clone(b.Events), slices.Clone(b.Admissions)
	s.log = append(s.log, b)
	return nil
}

// planner makes a planner with an estimator of its own, which tells some estimates wrongly.
func (s *switching) planner(p *planner.Platform, name string) (*planner.Planner, *executor.Admitter) {
	declared := &predict.Declared{}
	est := []planner.Estimator{declared, predict.NewCorrected(declared, 5),
		&predict.History{Declared: declared}}[s.seed%3]
	adm := &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Preempt: scenario.Preempt{None: s.seed%2 == 0,
		Checkpoint: 1e6},
		Declare: func(t planner.TaskID, run time.Duration, on []time.Duration, source planner.Source) {
			declared.Declare(t, run*time.Duration(1+(uint64(t)*7+s.seed)%4)/2, on, source)
		}}
	pl := planner.New(p, planner.DefaultRetryRules(), enginetest.Policy(s.t, name), est, 1)
	if s.seed%4 == 0 {
		pl.LimitTenants(func(m planner.TenantID) int64 { return []int64{2000, 0}[m%2] })
	}
	return pl, adm
}

// run simulates the load that the seed makes.
func (s *switching) run() {
	s.t.Helper()
	r := rand.New(rand.NewPCG(s.seed, 81))
	p := randomPlatform(r)
	var subs []executor.Submission
	for i := range 3 + r.IntN(3) {
		sub := executor.Submission{ID: int64(i + 1), Workflow: randomWorkflow(r, 4+r.IntN(16)),
			Name: fmt.Sprint("w", i), At: planner.Time(i*r.IntN(9)) * 1e9, Tenant: fmt.Sprint("tenant-", i%2)}
		if r.IntN(2) == 0 {
			sub.Class, sub.Due = planner.Deadline, sub.At+planner.Time(10+r.IntN(90))*1e9+1
		}
		if r.IntN(3) == 0 {
			sub.Release = sub.At + planner.Time(r.IntN(20))*1e9
		}
		subs = append(subs, sub)
	}
	slices.SortStableFunc(subs, func(a, b executor.Submission) int { return int(a.At - b.At) })
	e := &executor.Engine{Store: s, Arrivals: subs, Inbox: executor.NewInbox(),
		Runtime: sim.New(sim.Config{Platform: p, Fault: func(l *executor.Launch) (planner.Outcome, float64) {
			if (uint64(l.Task)+s.seed)%11 == 0 && l.Try == 1 {
				return planner.Lost, 0.5
			}
			return planner.OK, 0
		}})}
	e.Planner, e.Admit = s.planner(p, s.policies[0])
	every, began, whole := 4+r.IntN(8), 0, p.Nodes[0].Capacity
	requests := []func(in *executor.Intake) error{
		func(in *executor.Intake) error { return in.ChangeNode(0, unit.Vector{}) },
		func(in *executor.Intake) error { return in.ChangeNode(0, whole) },
		func(in *executor.Intake) error {
			if len(in.View().Present()) == 0 {
				return nil
			}
			return in.CancelWorkflow(in.View().Present()[0])
		},
	}
	for i, name := range s.policies[1:] {
		requests = slices.Insert(requests, min(2*i, len(requests)), func(in *executor.Intake) error {
			return s.change(in, p, name)
		})
	}
	e.Watch = func(v planner.View, events []planner.Event, _ []*executor.Admission) {
		if err := plannertest.Check(e.Planner, false); err != nil {
			s.t.Fatalf("seed %d, %v: %v", s.seed, s.policies, err)
		}
		for i := range events {
			if _, ok := events[i].Body.(planner.AttemptStarted); !ok {
				continue
			}
			if began++; began%every == 0 && len(requests) > 0 {
				e.Inbox.Post(requests[0])
				requests = requests[1:]
			}
		}
		s.note(events)
		if v.UnderWayCount() == 0 && len(v.Present()) > 0 { // nothing else might happen
			for _, f := range requests {
				e.Inbox.Post(f)
			}
			requests = nil
		}
		if len(requests) == 0 || len(v.Present())+len(e.Arrivals) == 0 {
			e.Inbox.Close()
		}
	}
	enginetest.Run(s.t, e)
	for i := range e.Planner.View().Tasks() {
		if phase := e.Planner.View().Phase(planner.TaskID(i)); !phase.Ended() {
			s.t.Fatalf("seed %d, %v: task %d is %s", s.seed, s.policies, i, phase)
		}
	}
}

// note keeps what happens from the first change on.
func (s *switching) note(events []planner.Event) {
	for _, ev := range events {
		switch b := ev.Body.(type) {
		case planner.PolicyChanged:
			s.after = append(s.after, "")
		case *planner.PlanCommitted:
			plan := *b
			plan.Round = 0 // rounds without an outcome are in no log
			ev.Body = &plan
		}
		if len(s.after) > 0 {
			body, err := json.Marshal(ev.Body)
			must(s.t, err)
			s.after = append(s.after, fmt.Sprintf("%v: %T %s", ev.At, ev.Body, body))
		}
	}
}

// difference says where two runs differ that are to be one; "" if they do not.
func (s *switching) difference(from *switching) string {
	for j := range max(len(s.after), len(from.after)) {
		if j >= len(s.after) || j >= len(from.after) || s.after[j] != from.after[j] {
			return fmt.Sprintf("%s\n%s", s.after[min(max(0, j-2), len(s.after)):min(j+3, len(s.after))],
				from.after[min(max(0, j-2), len(from.after)):min(j+3, len(from.after))])
		}
	}
	return ""
}

// change has another policy plan.
func (s *switching) change(in *executor.Intake, p *planner.Platform, name string) error {
	if !s.replays {
		switched, err := in.SwitchPolicy(name, enginetest.Policy(s.t, name))
		if switched {
			s.switched++
		}
		if switched || err != nil {
			return err
		}
	}
	pl, adm := s.planner(p, name)
	fresh := &executor.Engine{Planner: pl, Admit: adm}
	for _, b := range s.log {
		if err := fresh.Replay(b); err != nil {
			return err
		}
	}
	return in.ChangePolicy(name, pl, adm)
}

// A policy that takes a run over decides as one that was given the log of the run: whichever planned before, and
// whichever plans after it.
func TestAPolicyTakesOverAsIfItHadReadTheLog(t *testing.T) {
	var names []string
	for _, row := range policy.Table() {
		names = append(names, row.Name)
	}
	for i, to := range names {
		t.Run(to, func(t *testing.T) {
			if _, learns := enginetest.Policy(t, to).(planner.Observer); learns {
				t.Skip("it learns from what happens, and reads the log")
			}
			switched, events := 0, 0
			pairs := 0
			for k, from := range names {
				if !seedtest.Takes(i*len(names) + k) {
					continue
				}
				pairs++
				for n := range seedtest.Seeds(t, 2, 2478899200, 259391488) {
					seed := n*uint64(len(names)) + uint64(k)
					policies := []string{from, to, names[(i+k+int(n))%len(names)], to}
					runs := [2]switching{}
					for x := range runs {
						runs[x] = switching{t: t, seed: seed, replays: x == 1, policies: policies}
						runs[x].run()
					}
					if runs[1].switched > 0 {
						t.Fatal("the log was to be read")
					}
					switched, events = switched+runs[0].switched, events+len(runs[0].after)
					if diff := runs[0].difference(&runs[1]); diff != "" {
						t.Fatalf("seed %d, %v: what follows differs:\n%s", seed, policies, diff)
					}
				}
			}
			if switched < 2*pairs || events < 40*pairs {
				t.Errorf("%d changes without the log, %d events after them: that tests little", switched, events)
			}
		})
	}
}

// A task that one policy froze continues under any other that takes the run over, and so does everything else.
func TestWhatIsFrozenContinuesUnderAnyPolicy(t *testing.T) {
	for _, row := range policy.Table() {
		t.Run(row.Name, func(t *testing.T) {
			for _, drained := range []bool{false, true} {
				runs := [2]switching{}
				for x := range runs {
					runs[x] = switching{t: t, replays: x == 1, seed: 1}
					runs[x].freeze(row.Name, drained)
				}
				if diff := runs[0].difference(&runs[1]); diff != "" {
					t.Errorf("drained: %v, what follows differs:\n%s", drained, diff)
				}
			}
		})
	}
}

// freeze has pds freeze a long task for an urgent one, while others wait, and then another policy plan. The node may be
// drained meanwhile.
func (s *switching) freeze(to string, drained bool) {
	s.t.Helper()
	p := &planner.Platform{Groups: []string{""}, Bandwidth: [][]unit.BytesPerSecond{{0}}, Latency: [][]int64{{0}},
		Nodes: []planner.Node{{Name: "n", Speed: 1, Capacity: unit.Vector{1000, 4 << 30, unit.Unlimited},
			Keeps: unit.Of(unit.Memory)}}}
	one := func(id int64, seconds int, at planner.Time) executor.Submission {
		name := fmt.Sprint("w", id)
		return executor.Submission{ID: id, Name: name, At: at, Workflow: &trace.Workflow{Name: name, Label: name,
			Tasks: []trace.Task{{ID: "t", Kind: "k", Cores: 1, Retries: -1, MemoryBytes: 1 << 30,
				Runtime: time.Duration(seconds) * time.Second}}}}
	}
	urgent := one(2, 10, 5e9)
	urgent.Class, urgent.Due = planner.Deadline, 16e9
	e := &executor.Engine{Store: s, Inbox: executor.NewInbox(), Runtime: sim.New(sim.Config{Platform: p}),
		Arrivals: []executor.Submission{one(1, 100, 0), urgent, one(3, 10, 8e9), one(4, 10, 30e9)}}
	e.Planner, e.Admit = s.planner(p, "pds")
	resumed, whole := false, p.Nodes[0].Capacity
	e.Watch = func(_ planner.View, events []planner.Event, _ []*executor.Admission) {
		for i := range events {
			switch events[i].Body.(type) {
			case planner.AttemptSuspended:
				if drained {
					e.Inbox.Post(func(in *executor.Intake) error { return in.ChangeNode(0, unit.Vector{}) })
				}
				e.Inbox.Post(func(in *executor.Intake) error { return s.change(in, p, to) })
				if !drained {
					e.Inbox.Close()
				}
			case *planner.WorkflowArrived:
				if drained && events[i].At == 30e9 { // after the urgent one
					e.Inbox.Post(func(in *executor.Intake) error { return in.ChangeNode(0, whole) })
					e.Inbox.Close()
				}
			case planner.AttemptResumed:
				resumed = true
			}
		}
		s.note(events)
	}
	enginetest.Run(s.t, e)
	for i := range e.Planner.View().Tasks() {
		if phase := e.Planner.View().Phase(planner.TaskID(i)); phase != planner.Done {
			s.t.Errorf("task %d is %s", i, phase)
		}
	}
	if len(s.after) == 0 || !resumed {
		s.t.Errorf("nothing was frozen, or did not continue: %s", s.after)
	}
}

// A task was estimated to take no time when it was ordered, so it holds nothing. Its node is drained, and has nothing
// of what the task is estimated to need by now. rm-dcwf panicked when it planned such a task again.
func TestATaskThatNeedsMoreThanItsDrainedNodeHas(t *testing.T) {
	s := switching{t: t, seed: 50, policies: []string{"owm", "rm-dcwf", "owm-mp+swf", "rm-dcwf"}}
	s.run()
}
