package executor_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/plannertest"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/planner/rank"
	"gantry/planner/seed/seedtest"
	"gantry/trace"
	"gantry/trace/scenario"
)

// pieces hands a workflow in bit by bit, without its files: the first piece arrives, the others are added as long as it
// has not ended.
type pieces struct {
	whole *trace.Workflow
	name  string
	ids   []planner.TaskID // by position; of those that were handed in
	e     *executor.Engine
	id    planner.WorkflowID
	came  bool
}

// piece makes the submission of the tasks from lo on, before hi.
func (p *pieces) piece(lo, hi int, at planner.Time) executor.Submission {
	return executor.Submission{At: at, Name: p.name, Draw: func(s *executor.Submission) error {
		s.Workflow = &trace.Workflow{Name: p.whole.Name, Label: p.whole.Label}
		w := s.Workflow
		if p.came {
			if left, _ := p.e.Planner.View().Progress(p.id); left == 0 {
				return fmt.Errorf("workflow %s has ended", p.name)
			}
			s.Grows = &executor.Growth{Of: p.id, After: make([][]planner.TaskID, hi-lo)}
			for i, t := range p.ids { // unless a piece was refused
				there := int(t) < p.e.Planner.View().Tasks()
				spec := (*executor.TaskSpec)(nil) // of another workflow, which has ended
				if there {
					spec = p.e.Spec(t)
				}
				if spec == nil || spec.Workflow.Name != p.name || spec.Name != p.whole.Tasks[i].ID {
					return fmt.Errorf("a piece of workflow %s has failed", p.name)
				}
			}
		} else {
			p.came, p.id = true, planner.WorkflowID(p.e.Planner.View().Workflows())
		}
		for i := range hi - lo {
			p.ids = append(p.ids, planner.TaskID(p.e.Planner.View().Tasks()+i))
		}
		for i := lo; i < hi; i++ {
			t := p.whole.Tasks[i]
			parents := t.Parents
			t.Parents, t.Children, t.Inputs, t.Outputs = nil, nil, nil, nil
			for _, q := range parents {
				if q >= int32(lo) {
					t.Parents = append(t.Parents, q-int32(lo))
					w.Tasks[q-int32(lo)].Children = append(w.Tasks[q-int32(lo)].Children, int32(i-lo))
				} else {
					s.Grows.After[i-lo] = append(s.Grows.After[i-lo], p.ids[q])
				}
			}
			w.Tasks = append(w.Tasks, t)
		}
		return nil
	}}
}

// How workflows are handed in.
const (
	inTime   = iota // pieces come at random instants
	together        // pieces come at the instant of the arrival
	inOne           // there are no pieces
)

// growing splits random workflows into pieces.
func growing(r *rand.Rand, e *executor.Engine, how int) {
	cuts := rand.New(rand.NewPCG(r.Uint64(), 29))
	for i := range 1 + r.IntN(3) {
		p := &pieces{whole: randomWorkflow(r, 5+r.IntN(25)), name: fmt.Sprint("w", i), e: e}
		at, n := planner.Time(i)*7e9, len(p.whole.Tasks)
		release, class, due := planner.Time(r.IntN(2))*30e9, planner.Class(r.IntN(3)), planner.Time(0)
		if class == planner.Deadline {
			due = at.Add(time.Duration(20+r.IntN(200)) * time.Second)
		}
		for lo := 0; lo < n; {
			hi := lo + 1 + cuts.IntN(n-lo)
			if how == inOne {
				lo, hi = 0, n
			}
			sub := p.piece(lo, hi, at)
			sub.Release, sub.Class, sub.Due, sub.Tenant = release, class, due, fmt.Sprint("tenant-", i%2)
			e.Arrivals = append(e.Arrivals, sub)
			if lo = hi; how == inTime {
				at += planner.Time(cuts.IntN(15)) * 1e9
			}
		}
	}
	slices.SortStableFunc(e.Arrivals, func(a, b executor.Submission) int { return int(a.At - b.At) })
}

// checking is a store that checks the planner whose batches it gets.
type checking struct {
	t testing.TB
	e *executor.Engine
	// taken has every batch.
	taken []executor.Batch
}

func (c *checking) Append(_ context.Context, b executor.Batch) error {
	if err := plannertest.Check(c.e.Planner, false); err != nil {
		c.t.Errorf("at %v: %v", c.e.Planner.View().Now(), err)
	}
	c.taken = append(c.taken, executor.Batch{Events: slices.Clone(b.Events), Admissions: slices.Clone(b.Admissions)})
	return nil
}

func growingEngine(t *testing.T, spec string, seed uint64, p *planner.Platform, r *rand.Rand) *executor.Engine {
	t.Helper()
	pol, err := policy.Parse(spec)
	must(t, err)
	declared := &predict.Declared{}
	est := []planner.Estimator{declared, predict.NewCorrected(declared, 2), predict.NewCorrected(declared,
		5)}[r.IntN(3)]
	wrong := []float64{1, 1, 0.5, 2}[r.IntN(4)]
	return &executor.Engine{
		Planner: planner.New(p, planner.DefaultRetryRules(), pol, est, seed),
		Admit: &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1,
			Preempt: scenario.Preempt{Restart: seed%2 == 0, None: seed%5 == 0, Checkpoint: 1e6},
			Declare: func(id planner.TaskID, run time.Duration, on []time.Duration, s planner.Source) {
				declared.Declare(id, time.Duration(float64(run)*wrong), on, s)
			}},
		Runtime: sim.New(sim.Config{Platform: p, Startup: time.Duration(r.IntN(2)) * 100 * time.Millisecond,
			Fault: func(l *executor.Launch) (planner.Outcome, float64) {
				if seed%4 > 0 || l.Try > 1 || l.Task%7 != 0 {
					return planner.OK, 0
				}
				return planner.Outcomes()[1+int(l.Task)%8], 0.5
			}}),
	}
}

// grown is a run of workflows that grow.
type grownRun struct {
	record
	log      []executor.Batch
	growths  int
	platform *planner.Platform
}

func runGrowing(t *testing.T, spec string, seed uint64, how int) *grownRun {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 19))
	p := randomPlatform(r)
	e := growingEngine(t, spec, seed, p, r)
	x := &grownRun{platform: p}
	growing(r, e, how)
	store := &checking{t: t, e: e}
	e.Store = store
	res, err := e.Run(t.Context())
	if err != nil {
		t.Fatalf("%s, seed %d: %v", spec, seed, err)
	}
	for _, err := range res.Refused {
		if !strings.Contains(err.Error(), "ended") && !strings.Contains(err.Error(), "failed") &&
			!strings.Contains(err.Error(), "skipped") && !strings.Contains(err.Error(), "cancelled") {
			t.Fatalf("%s, seed %d: %v", spec, seed, err)
		}
	}
	x.log = store.taken
	x.take(store.taken)
	x.ended = res.Ended
	verify(t, spec, seed, p, &x.record)
	v := e.Planner.View()
	for id := range v.Tasks() {
		if !v.Phase(planner.TaskID(id)).Ended() {
			t.Fatalf("%s, seed %d: task %d is %s in the end", spec, seed, id, v.Phase(planner.TaskID(id)))
		}
	}
	return x
}

func (x *grownRun) take(log []executor.Batch) {
	for _, b := range log {
		for _, ev := range b.Events {
			if ev.Body.Kind() == planner.KindWorkflowGrown {
				x.growths++
			}
		}
		x.events = append(x.events, b.Events...)
		for _, a := range b.Admissions {
			x.tasks = append(x.tasks, a.Arrived.Tasks...)
			x.files = append(x.files, a.Arrived.Files...)
			x.specs = append(x.specs, a.Tasks...)
		}
	}
}

func TestEveryPolicyLivesWithGrowth(t *testing.T) {
	for _, row := range policy.Table() {
		t.Run(row.Name, func(t *testing.T) {
			growths := 0
			for seed := range seedtest.Seeds(t, 120, 3484090380) {
				x := runGrowing(t, row.Name, seed, inTime)
				growths += x.growths
				if seed%8 == 0 && !reflect.DeepEqual(x.events, runGrowing(t, row.Name, seed, inTime).events) {
					t.Fatalf("seed %d: two runs of the same input differ", seed)
				}
			}
			if growths < seedtest.Times(120) {
				t.Errorf("workflows grew %d times only", growths)
			}
		})
	}
}

func TestPoliciesWithOtherParametersLiveWithGrowth(t *testing.T) {
	for _, spec := range slices.Concat(variants, []string{"pipeline:cpws,fcfs", "pipeline:cpws,swf,priority",
		"pipeline:sws,rank-hybd,conservative,lower-rank", "rm-dcwf:ed-tl-tsp2"}) {
		t.Run(spec, func(t *testing.T) {
			for seed := range seedtest.Seeds(t, 40) {
				runGrowing(t, spec, seed, inTime)
			}
		})
	}
}

// comparing is a policy that compares ranks that follow growth with those that are computed of what is there.
type comparing struct {
	planner.Policy
	t     *testing.T
	ranks []*rank.Upward
}

func (p *comparing) Plan(ctx context.Context, c *planner.Cycle) error {
	for _, u := range p.ranks {
		u.Update(c)
		fresh := &rank.Upward{AverageSpeed: u.AverageSpeed, Bound: u.Bound}
		again := *c
		again.News = planner.News{Arrived: c.Present()}
		fresh.Update(&again)
		for _, w := range c.Present() {
			flow := c.Workflow(w)
			if got, want := u.Sorted(flow), fresh.Sorted(flow); !slices.Equal(got, want) {
				p.t.Fatalf("at %v, ranks sort workflow %d as %v, not %v", c.Now(), w, got, want)
			}
			for _, t := range flow.Tasks {
				if u.Unscaled(t).Compare(fresh.Unscaled(t)) != 0 || u.Position(t) != fresh.Position(t) {
					p.t.Fatalf("at %v, task %d has rank %v, position %d, not %v, %d", c.Now(), t, u.Unscaled(t),
						u.Position(t), fresh.Unscaled(t), fresh.Position(t))
				}
			}
			if u.Length(w).Compare(fresh.Length(w)) != 0 {
				p.t.Fatalf("at %v, workflow %d has length %v, not %v", c.Now(), w, u.Length(w), fresh.Length(w))
			}
		}
	}
	return p.Policy.Plan(ctx, c)
}

func TestRanksFollowGrowth(t *testing.T) {
	for seed := range seedtest.Seeds(t, 150, 2671312916) {
		r := rand.New(rand.NewPCG(seed, 23))
		p := randomPlatform(r)
		declared := &predict.Declared{}
		pol, err := policy.Parse("gbf")
		must(t, err)
		checked := &comparing{pol, t, []*rank.Upward{{}, {AverageSpeed: true}, {Bound: true}}}
		e := &executor.Engine{Planner: planner.New(p, planner.DefaultRetryRules(), checked, declared, seed),
			Admit: &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Declare: declared.Declare,
				Forget: declared.Forget},
			Runtime: sim.New(sim.Config{Platform: p})}
		growing(r, e, int(seed%2))
		enginetest.Run(t, e)
	}
}

// What comes within one instant is planned as what arrives at it: tasks start as if the workflow had arrived whole,
// and so it ends no later. The search of mrcp-rm prefers tasks that are listed first, and a list of pieces is another
// one.
func TestGrowthAtTheInstantOfArrivalIsArrival(t *testing.T) {
	for _, row := range policy.Table() {
		if row.Name == "mrcp-rm" {
			continue
		}
		t.Run(row.Name, func(t *testing.T) {
			for seed := range seedtest.Seeds(t, 30, 1829961733) {
				x := runGrowing(t, row.Name, seed, together)
				whole := runGrowing(t, row.Name, seed, inOne)
				if got, want := begins(x), begins(whole); !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d: tasks start as %v, and as %v of workflows that arrive whole", seed, got, want)
				}
			}
		})
	}
}

// begun is the start of an attempt of a task by its name.
type begun struct {
	task string
	node planner.NodeID
	at   planner.Time
}

func begins(x *grownRun) (all []begun) {
	for _, ev := range x.events {
		if pc, ok := ev.Body.(*planner.PlanCommitted); ok {
			for _, o := range pc.Orders {
				if o.Kind == planner.OrderStart {
					all = append(all, begun{x.specs[o.Task].Workflow.Name + "/" + x.specs[o.Task].Name, o.Node, ev.At})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b begun) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.task, b.task)) })
	return all
}

// A log cut at any batch and replayed leads to a run that ends as it must, with nothing done twice.
func TestGrowthIsResumed(t *testing.T) {
	for _, row := range policy.Table() {
		t.Run(row.Name, func(t *testing.T) {
			for seed := range seedtest.Seeds(t, 5) {
				resumeGrowing(t, row.Name, 4*seed+1) // without faults
			}
		})
	}
}

func resumeGrowing(t *testing.T, spec string, seed uint64) {
	t.Helper()
	whole := runGrowing(t, spec, seed, inTime)
	build := func() *executor.Engine {
		r := rand.New(rand.NewPCG(seed, 19))
		return growingEngine(t, spec, seed, randomPlatform(r), r)
	}
	for cut := 1; cut < len(whole.log); cut++ {
		if !seedtest.Takes(cut) {
			continue
		}
		e := build()
		e.Runtime = adopting{sim.New(sim.Config{Platform: whole.platform,
			Start: whole.log[cut-1].Events[len(whole.log[cut-1].Events)-1].At})}
		x := grownRun{}
		for _, b := range whole.log[:cut] {
			if err := e.Replay(b); err != nil {
				t.Fatalf("%s, seed %d, cut %d: %v", spec, seed, cut, err)
			}
		}
		store := &checking{t: t, e: e}
		e.Store = store
		must(t, e.Recover(t.Context()))
		if _, err := e.Run(t.Context()); err != nil {
			t.Fatalf("%s, seed %d, cut %d: %v", spec, seed, cut, err)
		}
		x.take(slices.Concat(whole.log[:cut], store.taken))
		x.specs = nil // runs that were adopted are shorter than their tasks
		verify(t, spec, seed, whole.platform, &x.record)
		if v := e.Planner.View(); len(v.Present()) != 0 {
			t.Fatalf("%s, seed %d, cut %d: %d workflows left", spec, seed, cut, len(v.Present()))
		}
	}
}
