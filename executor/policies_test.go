package executor_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/scenario"
)

// randomWorkflow is a layered DAG with files on its edges.
func randomWorkflow(r *rand.Rand, n int) *trace.Workflow {
	w := &trace.Workflow{Name: "random", Label: "random"}
	for i := range n {
		t := trace.Task{ID: fmt.Sprint("t", i), Kind: fmt.Sprint("k", i%3), Cores: float64(1+r.IntN(4)) / 2,
			Retries: -1,
			Runtime: time.Duration(r.IntN(20)) * time.Second, MemoryBytes: int64(r.IntN(3)) << 30}
		w.Tasks = append(w.Tasks, t)
		w.Files = append(w.Files, trace.File{Name: fmt.Sprint("f", i), Size: int64(r.IntN(5)) * 1e6, Sized: true,
			Producer: int32(i)})
		w.Tasks[i].Outputs = []int32{int32(i)}
		for p := max(0, i-6); p < i; p++ {
			if r.IntN(4) == 0 {
				w.Tasks[p].Children = append(w.Tasks[p].Children, int32(i))
				w.Tasks[i].Parents = append(w.Tasks[i].Parents, int32(p))
				if r.IntN(3) > 0 {
					w.Tasks[i].Inputs = append(w.Tasks[i].Inputs, int32(p))
				}
			}
		}
	}
	for i := range 1 + r.IntN(4) { // from outside
		w.Files = append(w.Files, trace.File{Name: fmt.Sprint("in", i), Size: int64(r.IntN(12)) * 1e6, Sized: true,
			Producer: -1})
		for k := range 1 + r.IntN(3) {
			t := &w.Tasks[(i*7+k*5)%n]
			if f := int32(len(w.Files) - 1); !slices.Contains(t.Inputs, f) {
				t.Inputs = append(t.Inputs, f)
			}
		}
	}
	return w
}

func randomPlatform(r *rand.Rand) *planner.Platform {
	p := &planner.Platform{Groups: []string{"a", "b"}, Overlapped: r.IntN(2) == 0,
		Bandwidth: [][]unit.BytesPerSecond{{0, 2e6}, {2e6, 1e6}}, Latency: [][]int64{{0, 1e8}, {1e8, 0}}}
	for i := range 1 + r.IntN(4) {
		p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(i), Name: fmt.Sprint("n", i),
			Group: planner.GroupID(i % 2), Keeps: unit.Of(unit.Memory),
			Capacity: unit.Vector{2000 + 1000*int64(r.IntN(3)), 4 << 30, unit.Unlimited}, Speed: []float64{1, 0.5,
				2}[r.IntN(3)]})
	}
	return p
}

// record is what a run did, by its events.
type record struct {
	classes []planner.Class // by workflow
	events  []planner.Event
	tasks   []planner.Task
	files   []planner.File
	specs   []*executor.TaskSpec
	ended   planner.Time
}

// watch has a record note what an engine does, and the tasks of its workflows.
func (r *record) watch(e *executor.Engine) {
	e.Watch = func(_ planner.View, events []planner.Event, admitted []*executor.Admission) {
		r.note(events)
		for _, a := range admitted {
			r.tasks = append(r.tasks, a.Arrived.Tasks...)
		}
	}
}

// note adds events, without the wall time that plans took.
func (r *record) note(events []planner.Event) {
	for _, ev := range events {
		if pc, ok := ev.Body.(*planner.PlanCommitted); ok {
			c := *pc
			c.Took = 0
			ev.Body = &c
		}
		r.events = append(r.events, ev)
	}
}

func runRandom(t *testing.T, spec string, seed uint64) record {
	t.Helper()
	pol, err := policy.Parse(spec)
	must(t, err)
	return runRandomWith(t, spec, pol, seed)
}

func runRandomWith(t *testing.T, spec string, pol planner.Policy, seed uint64) record {
	t.Helper()
	return runRandomBelieving(t, spec, pol, seed, nil)
}

// model knows two of the three kinds of random workflows; their input, speed and load count.
var model = sync.OnceValue(func() *predict.Model {
	r := rand.New(rand.NewPCG(1, 8))
	var samples []predict.Sample
	for i := range 60 {
		f := predict.Features{Input: unit.Bytes(r.IntN(20) * 1e6), CPU: 1000, Memory: 1 << 30, Speed: []float64{1, 0.5,
			2}[r.IntN(3)], Load: r.IntN(5)}
		seconds := (1 + float64(f.Input)/4e6 + float64(f.Load)) / f.Speed * (0.8 + 0.4*r.Float64())
		samples = append(samples, predict.Sample{Kind: fmt.Sprint("k", i%2), Features: f,
			Ran: time.Duration(seconds * 1e9), Declared: 10 * time.Second})
	}
	return predict.Fit(samples).Model(predict.ByRidge)
})

// runRandomBelieving runs a random load; estimates come from a model if there is one, else from an estimator by
// the seed.
func runRandomBelieving(t *testing.T, spec string, pol planner.Policy, seed uint64, m *predict.Model) record {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	p := randomPlatform(r)
	declared := &predict.Declared{}
	est := []planner.Estimator{declared, predict.NewCorrected(declared, 2), predict.NewCorrected(declared,
		5)}[r.IntN(3)]
	var named func(planner.KindID, string)
	if m != nil {
		trained := &predict.Trained{Declared: declared, Model: m}
		est, named = trained, trained.Name
	}
	wrong := []float64{1, 0.5, 2, 0.1}[r.IntN(4)]
	faults := r.IntN(2) == 0
	e := &executor.Engine{
		Planner: planner.New(p, planner.DefaultRetryRules(), pol, est, seed),
		Admit: &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Named: named,
			Preempt: scenario.Preempt{Restart: seed%2 == 0, None: seed%5 == 0, Checkpoint: 1e6,
				LargestInput: seed%3 == 0},
			Declare: func(id planner.TaskID, run time.Duration, on []time.Duration, s planner.Source) {
				declared.Declare(id, time.Duration(float64(run)*wrong), on, s)
			}},
		Runtime: sim.New(sim.Config{Platform: p, Startup: time.Duration(r.IntN(2)) * 100 * time.Millisecond,
			Fault: func(l *executor.Launch) (planner.Outcome, float64) {
				if !faults || l.Try > 1 || l.Task%5 != 0 {
					return planner.OK, 0
				}
				return planner.Outcomes()[1+int(l.Task)%8], 0.5
			}}),
	}
	for i := range 1 + r.IntN(4) {
		var data *executor.Placement // half of the workflows have their input files on some nodes only
		if r.IntN(2) == 0 {
			data = &executor.Placement{Rule: []executor.PlacementRule{executor.HDFS, executor.Random}[r.IntN(2)],
				Block: 4e6, Replicas: 1 + r.IntN(3), Seed: seed}
		}
		e.Arrivals = append(e.Arrivals, executor.Submission{At: planner.Time(i) * 7e9, Name: fmt.Sprint("w", i),
			Workflow: randomWorkflow(r, 5+r.IntN(30)),
			Release:  planner.Time(r.IntN(2)) * 30e9, Data: data, Tenant: fmt.Sprint("tenant-", i%2)})
		sub := &e.Arrivals[i]
		switch sub.Class = planner.Class(r.IntN(3)); sub.Class {
		case planner.Deadline: // some cannot be met
			sub.Due = sub.At.Add(time.Duration(20+r.IntN(200)) * time.Second)
		}
	}
	var rec record
	e.Watch = func(v planner.View, events []planner.Event, admitted []*executor.Admission) {
		rec.note(events)
		for _, a := range admitted {
			rec.tasks = append(rec.tasks, a.Arrived.Tasks...)
			rec.files = append(rec.files, a.Arrived.Files...)
			rec.classes = append(rec.classes, a.Arrived.Workflow.Class)
			rec.specs = append(rec.specs, a.Tasks...)
		}
	}
	res, err := e.Run(t.Context())
	if err != nil {
		t.Fatalf("%s, seed %d: %v", spec, seed, err)
	}
	if len(res.Refused) > 0 {
		t.Fatalf("%s, seed %d: %v", spec, seed, res.Refused)
	}
	verify(t, spec, seed, p, &rec)
	rec.ended = res.Ended
	return rec
}

// verify checks what must hold whatever the policy: no node over its capacity, no task before its parents or, where
// copies overlap other work, before what they wrote is on its node, every task ends well at most once, all end, and
// what freezes and checkpoints kept is not done again: the runs of a task make up its whole work.
func verify(t *testing.T, spec string, seed uint64, p *planner.Platform, rec *record) {
	t.Helper()
	fatal := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s, seed %d: %s", spec, seed, fmt.Sprintf(format, args...))
	}
	type attempt struct {
		task planner.TaskID
		node planner.NodeID
		hold unit.Vector
		over bool
		done float64 // before it
	}
	var attempts []attempt
	used := make([]unit.Vector, len(p.Nodes))
	done := map[planner.TaskID]bool{}
	failed := map[planner.TaskID]bool{}
	running := map[planner.TaskID]bool{}
	kept := map[planner.TaskID]float64{}
	parked := func(a planner.AttemptID) unit.Vector {
		at := attempts[a]
		return at.hold.Sub(at.hold.Keep(p.Nodes[at.node].Keeps))
	}
	frozen := map[planner.AttemptID]bool{}
	type copied struct {
		file planner.FileID
		node planner.NodeID
	}
	lies := map[copied]bool{}
	for _, ev := range rec.events {
		switch b := ev.Body.(type) {
		case planner.FileAppeared:
			lies[copied{b.File, b.Node}] = true
		case *planner.PlanCommitted:
			for _, o := range b.Orders {
				if o.Kind == planner.OrderResume {
					delete(frozen, o.Attempt)
					used[o.Node] = used[o.Node].Add(parked(o.Attempt))
					if !used[o.Node].Fits(p.Nodes[o.Node].Capacity) {
						fatal("node %d holds %v of %v at %v, as attempt %d continues", o.Node, used[o.Node],
							p.Nodes[o.Node].Capacity, ev.At, o.Attempt)
					}
				}
				if o.Kind != planner.OrderStart {
					continue
				}
				if running[o.Task] || done[o.Task] {
					fatal("task %d is started twice", o.Task)
				}
				for _, parent := range rec.tasks[o.Task].Parents {
					if !done[parent] {
						fatal("task %d starts at %v, before its parent %d has ended", o.Task, ev.At, parent)
					}
				}
				if p.Overlapped && rec.files != nil {
					for _, f := range rec.tasks[o.Task].Inputs {
						if rec.files[f].Producer != planner.None && !lies[copied{f, o.Node}] {
							fatal("task %d starts on node %d at %v without file %d", o.Task, o.Node, ev.At, f)
						}
					}
				}
				running[o.Task] = true
				attempts = append(attempts, attempt{o.Task, o.Node, o.Hold, false, kept[o.Task]})
				used[o.Node] = used[o.Node].Add(o.Hold)
				if !used[o.Node].Fits(p.Nodes[o.Node].Capacity) {
					fatal("node %d holds %v of %v at %v", o.Node, used[o.Node], p.Nodes[o.Node].Capacity, ev.At)
				}
			}
		case planner.AttemptSuspended:
			frozen[b.Attempt] = true
			used[attempts[b.Attempt].node] = used[attempts[b.Attempt].node].Sub(parked(b.Attempt))
		case *planner.AttemptExited:
			a := &attempts[b.Attempt]
			if a.over {
				fatal("attempt %d ends twice", b.Attempt)
			}
			a.over, running[a.task] = true, false
			if frozen[b.Attempt] {
				used[a.node] = used[a.node].Add(parked(b.Attempt))
				delete(frozen, b.Attempt)
			}
			used[a.node] = used[a.node].Sub(a.hold)
			if rec.specs != nil {
				whole := rec.specs[a.task].TrueRun(a.node, p.Nodes[a.node].Speed)
				did := a.done + float64(b.Ran)/float64(max(1, whole))
				if at := max(1, whole); b.Kept > 0 && math.Abs(did-b.Kept)*float64(at) > 2 || b.Outcome == planner.OK &&
					whole > 0 && math.Abs(did-1)*float64(at) > 2 {
					fatal("attempt %d of task %d began with %v done and ran %v of %v, kept %v: %v", b.Attempt, a.task,
						a.done, b.Ran, whole, b.Kept, b.Outcome)
				}
			}
			switch {
			case b.Outcome.OfProgram():
				kept[a.task] = 0
			case b.Kept > 0:
				kept[a.task] = b.Kept
			}
			if b.Outcome == planner.OK {
				for _, f := range rec.tasks[a.task].Outputs {
					lies[copied{f, a.node}] = true
				}
			}
			done[a.task] = b.Outcome == planner.OK
			failed[a.task] = b.Outcome != planner.OK
		}
	}
	for _, task := range rec.tasks {
		if done[task.ID] || failed[task.ID] {
			continue
		}
		skipped := false
		for _, parent := range task.Parents {
			skipped = skipped || !done[parent]
		}
		if !skipped {
			fatal("task %d never ran though its parents are done", task.ID)
		}
	}
}

func TestEveryPolicyKeepsTheRulesOnRandomLoads(t *testing.T) {
	for _, row := range policy.Table() {
		t.Run(row.Name, func(t *testing.T) {
			for seed := range seedtest.Seeds(t, 150, 2222222288) {
				rec := runRandom(t, row.Name, seed)
				if seed%8 == 0 && !reflect.DeepEqual(rec.events, runRandom(t, row.Name, seed).events) {
					t.Fatalf("seed %d: two runs of the same input differ", seed)
				}
				for _, ev := range rec.events { // whatever the policy plans and drops again
					if x, ok := ev.Body.(*planner.AttemptExited); ok && (x.Usage.CopiedBytes < 0 ||
						x.Usage.CopiedBytes > x.Usage.InputBytes) {
						t.Fatalf("seed %d, attempt %d: %d of %d bytes copied", seed, x.Attempt, x.Usage.CopiedBytes,
							x.Usage.InputBytes)
					}
				}
			}
		})
	}
}

// Parameters that lead down other ways.
var variants = []string{"3dsf:large=0", "3dsf:leave,large=0,match=bytes,hops=1,batch=3",
	"3dsf:misfit=stop,level=2,edf,large=1,never",
	"pds:late=ahead,leave", "pds:never", "dla:large=0,batch=1", "dla:large=0,hops=2,match=bytes",
	"drf:dims=2,misfit=stop", "capacity:queues=class,shares=3/2/1",
	"capacity:by=dominant,elastic=no"}

func TestPoliciesWithOtherParametersKeepTheRules(t *testing.T) {
	for _, spec := range variants {
		t.Run(spec, func(t *testing.T) {
			for seed := range seedtest.Seeds(t, 60, 987654328) {
				runRandom(t, spec, seed)
			}
		})
	}
}

func TestEveryPolicyPlansWithATrainedModel(t *testing.T) {
	for _, row := range policy.Table() {
		t.Run(row.Name, func(t *testing.T) {
			trained := 0
			for seed := range seedtest.Seeds(t, 20) {
				pol, err := policy.Parse(row.Name)
				must(t, err)
				for _, ev := range runRandomBelieving(t, row.Name, pol, seed, model()).events {
					if pc, ok := ev.Body.(*planner.PlanCommitted); ok {
						for _, o := range pc.Orders {
							if o.Kind == planner.OrderStart && o.Est.Source == planner.SourceTrained {
								trained++
							}
						}
					}
				}
			}
			if trained == 0 {
				t.Error("no task was started by an estimate of the model")
			}
		})
	}
}

// A log cut at any batch and replayed leads to a run that ends as it must, with nothing done twice.
func TestRestartFromTheLogAtAnyPoint(t *testing.T) {
	specs := slices.Clone(variants)
	for _, row := range policy.Table() {
		specs = append(specs, row.Name)
	}
	for _, spec := range specs {
		t.Run(spec, func(t *testing.T) {
			for seed := range seedtest.Seeds(t, 6) {
				restart(t, spec, seed)
			}
		})
	}
}

// Any policy plans the rest of a run that another one began, as with gantry resume --policy, also where tasks are
// frozen.
func TestAnotherPolicyPlansTheRest(t *testing.T) {
	table := policy.Table()
	for i, row := range table {
		t.Run(row.Name, func(t *testing.T) {
			for seed := range seedtest.Seeds(t, 2) {
				for _, from := range []string{"pds", table[(i+1+int(seed))%len(table)].Name} {
					restartWith(t, from, made(t, from), made(t, row.Name), seed)
				}
			}
		})
	}
}

func made(t *testing.T, spec string) func() planner.Policy {
	return func() planner.Policy { return enginetest.Policy(t, spec) }
}

func restart(t *testing.T, spec string, seed uint64) {
	t.Helper()
	restartWith(t, spec, made(t, spec), made(t, spec), seed)
}

// restartWith has a policy plan a run, and another one the rest of it after each part of the log.
func restartWith(t *testing.T, spec string, begins, ends func() planner.Policy, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 11))
	p := randomPlatform(r)
	p.Overlapped = seed%2 == 1
	subs := []executor.Submission{{Name: "w", Workflow: randomWorkflow(r, 20), Class: planner.Low},
		{Name: "d", Workflow: randomWorkflow(r, 8), Tenant: "other", Class: planner.Deadline, Due: 90e9}}
	var log []executor.Batch
	build := func(pol planner.Policy, from planner.Time) *executor.Engine {
		declared := &predict.Declared{}
		return &executor.Engine{Planner: planner.New(p, planner.DefaultRetryRules(), pol, declared, seed),
			Admit: &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Declare: declared.Declare,
				Forget:  declared.Forget,
				Preempt: scenario.Preempt{Restart: true, Checkpoint: 1e6}},
			Runtime: adopting{sim.New(sim.Config{Platform: p, Start: from})}}
	}
	first := build(begins(), 0)
	first.Arrivals = append([]executor.Submission(nil), subs...)
	first.Watch = func(v planner.View, events []planner.Event, admitted []*executor.Admission) {
		log = append(log, executor.Batch{Events: append([]planner.Event(nil), events...),
			Admissions: append([]*executor.Admission(nil), admitted...)})
	}
	enginetest.Run(t, first)
	whole := log
	for cut := 1; cut < len(whole); cut++ {
		if !seedtest.Takes(cut) {
			continue
		}
		last := whole[cut-1].Events[len(whole[cut-1].Events)-1].At
		e := build(ends(), last)
		log = nil
		var rec record
		for _, b := range whole[:cut] {
			if err := e.Replay(b); err != nil {
				t.Fatalf("%s, seed %d, cut %d: %v", spec, seed, cut, err)
			}
			rec.events = append(rec.events, b.Events...)
			for _, a := range b.Admissions {
				rec.tasks = append(rec.tasks, a.Arrived.Tasks...)
			}
		}
		e.Watch = func(v planner.View, events []planner.Event, admitted []*executor.Admission) {
			rec.events = append(rec.events, events...)
		}
		must(t, e.Recover(t.Context()))
		if _, err := e.Run(t.Context()); err != nil {
			t.Fatalf("%s, seed %d, cut %d: %v", spec, seed, cut, err)
		}
		verify(t, spec, seed, p, &rec)
		if v := e.Planner.View(); len(v.Present()) != 0 {
			t.Fatalf("%s, seed %d, cut %d: %d workflows left", spec, seed, cut, len(v.Present()))
		}
	}
}

// adopting is a simulation whose attempts outlive the engine: what was under way continues.
type adopting struct{ *sim.Runtime }

func (a adopting) Recover(ctx context.Context, live []executor.Launch) error {
	for _, l := range live {
		if l.Started {
			l.Spec = &executor.TaskSpec{Name: l.Spec.Name, Workflow: l.Spec.Workflow, Run: l.Spec.Run / 2}
		}
		if err := a.Runtime.Adopt(ctx, l); err != nil {
			return err
		}
	}
	return nil
}
