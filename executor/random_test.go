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
	"gantry/planner/plannertest"
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

// circumstances are those of a random load, beside files that lie on some nodes only, deadlines, classes, tenants,
// wrong estimates, and starts that take time.
type circumstances uint

const (
	ends     circumstances = 1 << iota // the first tries of some tasks end badly
	losses                             // nodes are lost for a while
	requests                           // nodes are drained, workflows cancelled and handed in while attempts run
	gpus
	tokens
	trained // a model estimates
	reuse   // results of half of the tasks are taken over
	growth  // tasks are handed in one by one, without files
	all     = growth<<1 - 1
	// A run can continue from its log with these features.
	logged = all &^ (losses | requests)
)

// trial is a random load under a policy, and a record of its run.
type trial struct {
	*executor.Engine
	record
	name      string
	platform  *planner.Platform
	has       circumstances
	reused    *someReused
	cancelled planner.WorkflowID
}

// newTrial draws a load with some of the circumstances that are allowed, a quarter of each on the average.
func newTrial(t *testing.T, spec string, pol planner.Policy, seed uint64, allowed circumstances) *trial {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	l := &trial{name: fmt.Sprintf("%s, seed %d", spec, seed), platform: randomPlatform(r), cancelled: planner.None}
	p := l.platform
	if l.has = circumstances(r.Uint64()&r.Uint64()) & allowed; l.has&requests != 0 {
		l.has &^= losses // a node has one reason to be away
	}
	if l.has&gpus != 0 {
		for n := range p.Nodes {
			p.Nodes[n].Capacity[unit.GPU], p.Nodes[n].Keeps = 1000*int64(r.IntN(4)), unit.Of(unit.Memory, unit.GPU)
		}
		p.Nodes[0].Capacity[unit.GPU] = 2000
	}
	declared := &predict.Declared{}
	est := []planner.Estimator{declared, predict.NewCorrected(declared, 2), predict.NewCorrected(declared,
		5)}[r.IntN(3)]
	wrong := []float64{1, 0.5, 2, 0.1}[r.IntN(4)]
	admit := &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Forget: declared.Forget,
		Preempt: scenario.Preempt{Restart: seed%2 == 0, None: seed%5 == 0, Checkpoint: 1e6, LargestInput: seed%3 == 0},
		Declare: func(id planner.TaskID, run time.Duration, on []time.Duration, s planner.Source) {
			declared.Declare(id, time.Duration(float64(run)*wrong), on, s)
		}}
	if l.has&trained != 0 {
		x := &predict.Trained{Declared: declared, Model: model()}
		est, admit.Named = x, x.Name
	}
	l.Engine = &executor.Engine{Planner: planner.New(p, planner.DefaultRetryRules(), pol, est, seed), Admit: admit}
	l.start(0, time.Duration(r.IntN(2))*100*time.Millisecond)
	l.Store = &checking{t, l}
	if l.has&losses != 0 {
		l.Faults = executor.NewFaults(&scenario.Faults{LossEvery: 20 * time.Second, LossFor: 5 * time.Second,
			TaskFailure: 0.2}, 1, seed, p)
	}
	if l.has&gpus != 0 {
		admit.GPUs = []string{"k0=0.4", "k1=2", "t7=0"}
	}
	if l.has&tokens != 0 {
		l.Planner.LimitTokens(limits)
		admit.Tokens = []executor.Token{{Name: "licence", Count: 2}, {Name: "writer", Count: 1}}
		admit.Needs = []string{"k0=licence", "k1=licence:2,writer", "t5=none"}
	}
	if l.has&reuse != 0 {
		l.reused = &someReused{seed, map[planner.TaskID]int{}, map[planner.TaskID]bool{}}
		l.Reuse = l.reused
	}
	var late []executor.Submission
	for i := range 1 + r.IntN(3) {
		var data *executor.Placement // half of the workflows have their input files on some nodes only
		if r.IntN(2) == 0 {
			data = &executor.Placement{Rule: []executor.PlacementRule{executor.HDFS, executor.Random}[r.IntN(2)],
				Block: 4e6, Replicas: 1 + r.IntN(3), Seed: seed}
		}
		sub := executor.Submission{ID: int64(i + 1), At: planner.Time(i) * 7e9, Name: fmt.Sprint("w", i),
			Workflow: randomWorkflow(r, 5+r.IntN(30)), Class: planner.Class(r.IntN(3)), Tenant: fmt.Sprint("m", i%2),
			Release: planner.Time(r.IntN(2)) * 30e9, Data: data}
		if sub.Class == planner.Deadline { // some cannot be met
			sub.Due = sub.At.Add(time.Duration(20+r.IntN(200)) * time.Second)
		}
		switch {
		case l.has&growth != 0:
			arrive(l.Engine, handedIn(sub, int64(1000*(i+1)), r)...)
		case l.has&requests != 0 && i > 0:
			late = append(late, sub)
		default:
			arrive(l.Engine, sub)
		}
	}
	if l.has&requests != 0 {
		l.request(late)
	}
	return l
}

// start has the load simulated from an instant on.
func (l *trial) start(from planner.Time, startup time.Duration) {
	l.Runtime = adopting{sim.New(sim.Config{Platform: l.platform, Startup: startup, Start: from,
		Fault: func(x *executor.Launch) (planner.Outcome, float64) {
			if l.has&ends == 0 || x.Try > 1 || x.Task%5 != 0 {
				return planner.OK, 0
			}
			return planner.Outcomes()[1+int(x.Task)%8], 0.5
		}})}
}

var limits = planner.Tokens{2, 1}

// handedIn hands the tasks of a workflow in one by one, at one instant and each after the success of those that it
// follows. With r some come later, some after any end or a failure, and of some workflows a few tasks only may be under
// way at once.
func handedIn(sub executor.Submission, first int64, r *rand.Rand) (subs []executor.Submission) {
	flow, join := sub.Workflow, executor.Join{Key: sub.Name, First: first}
	if sub.Data = nil; r != nil {
		join.AtMost = max(0, r.IntN(8)-4)
	}
	for i, task := range flow.Tasks {
		own := join
		for _, p := range task.Parents {
			d := executor.Dependency{ID: first + int64(p)}
			if r != nil {
				d.Ended, d.Failed = r.IntN(9) == 0, r.IntN(40) == 0
			}
			own.After = append(own.After, d)
		}
		task.Parents, task.Children, task.Inputs, task.Outputs = nil, nil, nil, nil
		sub.ID, sub.Joins = first+int64(i), &own
		sub.Workflow = &trace.Workflow{Name: flow.Name, Label: flow.Label, Tasks: []trace.Task{task}}
		subs = append(subs, sub)
		if r != nil {
			sub.At += planner.Time(max(0, r.IntN(12)-6)) * 1e9
		}
	}
	return subs
}

// arrive adds submissions to those to come.
func arrive(e *executor.Engine, subs ...executor.Submission) {
	for _, sub := range subs {
		e.Arrivals = append(e.Arrivals, sub)
		e.Refer(sub.ID, executor.Ref{Workflow: planner.None, Task: planner.None})
	}
	slices.SortStableFunc(e.Arrivals, func(a, b executor.Submission) int { return int(a.At - b.At) })
}

// request drains and resumes a node, hands workflows in and cancels one, each at a start of an attempt.
func (l *trial) request(late []executor.Submission) {
	l.Inbox = executor.NewInbox()
	whole, began := l.platform.Nodes[0].Capacity, 0
	asked := []func(in *executor.Intake) error{
		func(in *executor.Intake) error { return in.ChangeNode(0, unit.Vector{}) },
		func(in *executor.Intake) error { return in.ChangeNode(0, whole) },
		func(in *executor.Intake) error {
			if p := in.View().Present(); len(p) > 0 {
				l.cancelled = p[0]
				return in.CancelWorkflow(p[0])
			}
			return nil
		}}
	for i := range late {
		asked = slices.Insert(asked, 2*i+1, func(in *executor.Intake) error { in.Arrive(late[i]); return nil })
	}
	l.Watch = func(v planner.View, events []planner.Event, _ []*executor.Admission) {
		for i := range events {
			if _, ok := events[i].Body.(planner.AttemptStarted); !ok {
				continue
			}
			if began++; began%2 == 0 && len(asked) > 0 {
				l.Inbox.Post(asked[0])
				asked = asked[1:]
			}
		}
		if v.UnderWayCount() == 0 { // nothing else would happen
			for _, f := range asked {
				l.Inbox.Post(f)
			}
			asked = nil
		}
		if len(asked) == 0 {
			l.Inbox.Close()
		}
	}
}

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
	if s.taken[t] = rand.New(rand.NewPCG(s.salt, uint64(t))).IntN(2) > 0; !s.taken[t] {
		return nil, nil
	}
	return &planner.TaskReused{Run: "earlier", Attempt: 3}, nil
}

// checking is a store that keeps the course of a load, and checks its planner.
type checking struct {
	t testing.TB
	l *trial
}

func (c *checking) Append(_ context.Context, b executor.Batch) error {
	if err := plannertest.Check(c.l.Planner, false); err != nil {
		c.t.Errorf("%s, at %v: %v", c.l.name, c.l.Planner.View().Now(), err)
	}
	c.l.take(executor.Batch{Events: slices.Clone(b.Events), Admissions: slices.Clone(b.Admissions)})
	for _, a := range b.Admissions {
		for i := 0; a.Submission.Joins != nil && i < len(a.Submission.Joins.After); i++ {
			d := a.Submission.Joins.After[i]
			was := slices.IndexFunc(c.l.admitted, func(o *executor.Admission) bool { return o.Submission.ID == d.ID })
			if (d.Ended || d.Failed) && was >= 0 &&
				!c.l.Planner.View().Phase(c.l.admitted[was].Arrived.Tasks[0].ID).Ended() {
				c.t.Errorf("%s: submission %d arrived before %d had ended", c.l.name, a.Submission.ID, d.ID)
			}
		}
	}
	return nil
}

// run runs a load to its end, and checks the rules of all policies.
func (l *trial) run(t *testing.T) *trial {
	t.Helper()
	res, err := l.Run(t.Context())
	if err != nil || len(res.Refused) > 0 {
		t.Fatalf("%s: %v %v", l.name, err, res.Refused)
	}
	l.verify(t, l.name, l.platform)
	v := l.Planner.View()
	for task := range planner.TaskID(v.Tasks()) {
		phase := v.Phase(task)
		if !phase.Ended() || phase != planner.Done && l.has&ends == 0 && v.Task(task).Workflow != l.cancelled {
			t.Fatalf("%s: task %d is %s in the end", l.name, task, phase)
		}
		if x := l.reused; x != nil && phase == planner.Done && !v.Task(task).Formal && (x.asked[task] != 1 ||
			x.taken[task] != (v.Last(task) == planner.None)) {
			t.Fatalf("%s: task %d was asked about %d times; taken over %v, last attempt %d", l.name, task,
				x.asked[task], x.taken[task], v.Last(task))
		}
	}
	for n, node := range v.Nodes() {
		if id := planner.NodeID(n); v.Held(id) != (unit.Vector{}) || v.Capacity(id) != node.Capacity &&
			l.has&losses == 0 {
			t.Fatalf("%s: node %d holds %v of %v at the end", l.name, n, v.Held(id), v.Capacity(id))
		}
	}
	return l
}

// seen counts the features of loads.
type seen map[string]int

func (s seen) note(l *trial) {
	for _, ev := range l.events {
		switch b := ev.Body.(type) {
		case *planner.WorkflowGrown, *planner.TaskReused, planner.WorkflowCancelled, planner.NodeChanged,
			planner.FileAppeared:
			s[fmt.Sprintf("%T", b)]++
		case *planner.AttemptExited:
			s[b.Outcome.String()]++
		case *planner.PlanCommitted:
			for _, o := range b.Orders {
				if o.Kind == planner.OrderStart && o.Est.Source == planner.SourceTrained {
					s["trained"]++
				}
				if o.Hold[unit.GPU] > 0 {
					s["GPUs"]++
				}
			}
		}
	}
	if l.most == limits {
		s["tokens"]++
	}
}

// record is the course of a run, by its events.
type record struct {
	log      []executor.Batch
	admitted []*executor.Admission
	classes  []planner.Class // by workflow
	events   []planner.Event
	tasks    []planner.Task
	files    []planner.File
	specs    []*executor.TaskSpec
	adopted  bool           // some runs were, and are shorter than their tasks
	most     planner.Tokens // held at once
}

// take notes the events of a run, without the wall time of plans.
func (r *record) take(b executor.Batch) {
	for i, ev := range b.Events {
		if pc, ok := ev.Body.(*planner.PlanCommitted); ok {
			c := *pc
			c.Took = 0
			b.Events[i].Body = &c
		}
	}
	r.log, r.events = append(r.log, b), append(r.events, b.Events...)
	r.admitted = append(r.admitted, b.Admissions...)
	for _, a := range b.Admissions {
		r.tasks, r.files = append(r.tasks, a.Arrived.Tasks...), append(r.files, a.Arrived.Files...)
		r.specs = append(r.specs, a.Tasks...)
		if !a.Grown() {
			r.classes = append(r.classes, a.Arrived.Workflow.Class)
		}
	}
}

// watch has a record take the events of an engine.
func (r *record) watch(e *executor.Engine) {
	e.Watch = func(_ planner.View, events []planner.Event, admitted []*executor.Admission) {
		r.take(executor.Batch{Events: slices.Clone(events), Admissions: slices.Clone(admitted)})
	}
}

// verify checks the rules of all policies: no node is over its capacity, tokens are never more than there are, no task
// starts before its parents or, where copies overlap other work, before their outputs are on its node, every task ends
// well at most once, all end, and work that freezes and checkpoints kept is not done again: the runs of a task make up
// its whole work.
func (r *record) verify(t *testing.T, name string, p *planner.Platform) {
	t.Helper()
	fatal := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s: %s", name, fmt.Sprintf(format, args...))
	}
	type attempt struct {
		task planner.TaskID
		node planner.NodeID
		hold unit.Vector
		over bool
		done float64 // before it
	}
	var attempts []attempt
	var held planner.Tokens
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
	wrote := func(task planner.TaskID, n planner.NodeID) {
		for _, f := range r.tasks[task].Outputs {
			lies[copied{f, n}] = true
		}
	}
	take := func(n planner.NodeID, more unit.Vector, at planner.Time, a planner.AttemptID) {
		if used[n] = used[n].Add(more); !used[n].Fits(p.Nodes[n].Capacity) {
			fatal("node %d holds %v of %v at %v, with attempt %d", n, used[n], p.Nodes[n].Capacity, at, a)
		}
	}
	for _, ev := range r.events {
		switch b := ev.Body.(type) {
		case planner.FileAppeared:
			lies[copied{b.File, b.Node}] = true
		case *planner.TaskReused:
			done[b.Task] = true
			wrote(b.Task, b.Node)
		case planner.WorkflowCancelled:
			for _, task := range r.tasks {
				failed[task.ID] = failed[task.ID] || task.Workflow == b.Workflow && !done[task.ID]
			}
		case *planner.PlanCommitted:
			for _, o := range b.Orders {
				if o.Kind == planner.OrderResume {
					delete(frozen, o.Attempt)
					take(o.Node, parked(o.Attempt), ev.At, o.Attempt)
				}
				if o.Kind != planner.OrderStart {
					continue
				}
				task := &r.tasks[o.Task]
				if running[o.Task] || done[o.Task] {
					fatal("task %d is started twice", o.Task)
				}
				for _, parent := range task.Parents {
					if !done[parent] {
						fatal("task %d starts at %v, before its parent %d has ended", o.Task, ev.At, parent)
					}
				}
				for _, f := range task.Inputs {
					if p.Overlapped && r.files[f].Producer != planner.None && !lies[copied{f, o.Node}] {
						fatal("task %d starts on node %d at %v without file %d", o.Task, o.Node, ev.At, f)
					}
				}
				running[o.Task] = true
				attempts = append(attempts, attempt{o.Task, o.Node, o.Hold, false, kept[o.Task]})
				take(o.Node, o.Hold, ev.At, o.Attempt)
				for i, n := range task.Tokens {
					held[i] += n
					if r.most[i] = max(r.most[i], held[i]); held[i] > limits[i] {
						fatal("%d of %d tokens are held at %v", held[i], limits[i], ev.At)
					}
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
			for i, n := range r.tasks[a.task].Tokens {
				held[i] -= n
			}
			if !r.adopted {
				if n := b.Usage.CopiedBytes; n < 0 || n > b.Usage.InputBytes { // whatever was planned and dropped
					fatal("attempt %d copied %d of %d bytes", b.Attempt, n, b.Usage.InputBytes)
				}
				whole := r.specs[a.task].TrueRun(a.node, p.Nodes[a.node].Speed)
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
				wrote(a.task, a.node)
			}
			done[a.task], failed[a.task] = b.Outcome == planner.OK, b.Outcome != planner.OK
		}
	}
	for _, task := range r.tasks {
		skipped := slices.ContainsFunc(task.Parents, func(p planner.TaskID) bool { return !done[p] })
		if !done[task.ID] && !failed[task.ID] && !skipped {
			fatal("task %d never ran though its parents are done", task.ID)
		}
	}
}

func runRandom(t *testing.T, spec string, seed uint64, allowed circumstances) *trial {
	t.Helper()
	return newTrial(t, spec, enginetest.Policy(t, spec), seed, allowed).run(t)
}

func TestEveryPolicyKeepsTheRules(t *testing.T) {
	for _, row := range policy.Table() {
		t.Run(row.Name, func(t *testing.T) {
			met := seen{}
			for seed := range seedtest.Seeds(t, 240, 25) {
				l := runRandom(t, row.Name, seed, all)
				if met.note(l); seed%8 == 0 && !reflect.DeepEqual(l.events, runRandom(t, row.Name, seed, all).events) {
					t.Fatalf("seed %d: two runs of the same input differ", seed)
				}
			}
			for _, kind := range []string{"*planner.WorkflowGrown", "*planner.TaskReused", "planner.WorkflowCancelled",
				"planner.NodeChanged", "planner.FileAppeared", "lost", "trained", "GPUs", "tokens"} {
				if met[kind] == 0 && !testing.Short() {
					t.Errorf("of %s there was none: %v", kind, met)
				}
			}
		})
	}
}

// orders runs an engine and returns the stages of its tasks and the orders that its policy gave.
func orders(t *testing.T, e *executor.Engine) (all []string) {
	t.Helper()
	e.Watch = func(_ planner.View, events []planner.Event, admitted []*executor.Admission) {
		for _, a := range admitted {
			for _, task := range a.Arrived.Tasks {
				all = append(all, fmt.Sprintf("task %d is in stage %d", task.ID, task.Stage))
			}
		}
		for _, ev := range events {
			pc, ok := ev.Body.(*planner.PlanCommitted)
			for i := 0; ok && i < len(pc.Orders); i++ {
				o := &pc.Orders[i]
				all = append(all, fmt.Sprintf("%v: %s task %d on %d", ev.At, o.Kind, o.Task, o.Node))
			}
		}
	}
	if res := enginetest.Run(t, e); len(res.Refused) > 0 {
		t.Fatal(res.Refused)
	}
	return all
}

// alike checks that two runs gave the same orders.
func alike(t *testing.T, name string, gave [2][]string) {
	t.Helper()
	a, b := gave[0], gave[1]
	for k := range max(len(a), len(b)) {
		if k == min(len(a), len(b)) || a[k] != b[k] {
			t.Fatalf("%s: after %d like orders %q and %q", name, k, a[k:min(k+3, len(a))], b[k:min(k+3, len(b))])
		}
	}
}

// Parameters that lead down other ways.
var variants = []string{"3dsf:large=0", "3dsf:leave,large=0,match=bytes,hops=1,batch=3",
	"3dsf:misfit=stop,level=2,edf,large=1,never", "pds:leave,late=ahead",
	"pds:late=ahead,leave", "pds:never", "dla:large=0,batch=1", "dla:large=0,hops=2,match=bytes",
	"drf:dims=2,misfit=stop", "capacity:queues=class,shares=3/2/1",
	"capacity:by=dominant,elastic=no", "pipeline:cpws,fcfs,easy", "pipeline:cpws,swf,priority,allocated",
	"pipeline:sws,rank-hybd,conservative,lower-rank,allocated", "pipeline:sws,swf,none,all-eft", "rm-dcwf:ed-tl-tsp2"}

func TestPoliciesWithOtherParametersKeepTheRules(t *testing.T) {
	for _, spec := range variants {
		t.Run(spec, func(t *testing.T) {
			for seed := range seedtest.Seeds(t, 80) {
				runRandom(t, spec, seed, all)
			}
		})
	}
}

// On random loads regular tasks are suspended, more than a few, and continue where they were; tasks of deadline jobs
// never are.
func TestOnlyRegularTasksMakeRoomOnRandomLoads(t *testing.T) {
	for _, spec := range []string{"pds", "3dsf", "pds:leave,late=ahead"} {
		left := 0
		for seed := range seedtest.Seeds(t, 160) {
			l := runRandom(t, spec, seed, ends)
			for _, ev := range l.events {
				pc, ok := ev.Body.(*planner.PlanCommitted)
				for i := 0; ok && i < len(pc.Orders); i++ {
					if o := &pc.Orders[i]; o.Kind.Vacates() != 0 {
						left++
						if l.classes[l.tasks[o.Task].Workflow] == planner.Deadline {
							t.Fatalf("%s: %s of task %d, whose job has a deadline", l.name, o.Kind, o.Task)
						}
					}
				}
			}
		}
		if left < seedtest.Times(160)/32 {
			t.Errorf("%s: %d tasks made room on the loads: they do not test it", spec, left)
		}
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
			for seed := range seedtest.Seeds(t, 5) {
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
func restartWith(t *testing.T, spec string, begins, finishes func() planner.Policy, seed uint64) {
	t.Helper()
	whole := newTrial(t, spec, begins(), seed, logged).run(t).log
	for cut := 1; cut < len(whole); cut++ {
		if !seedtest.Takes(cut) || len(whole[0].Events) == 0 {
			continue
		}
		l := newTrial(t, spec, finishes(), seed, logged)
		l.name += fmt.Sprint(", cut ", cut)
		for _, b := range whole[:cut] {
			if err := l.Replay(b); err != nil {
				t.Fatalf("%s: %v", l.name, err)
			}
			l.take(executor.Batch{Events: slices.Clone(b.Events), Admissions: b.Admissions})
		}
		l.start(l.events[len(l.events)-1].At, 0)
		came := map[int64]bool{}
		for _, a := range l.admitted {
			ref := executor.Ref{Workflow: a.Spec.ID, Task: planner.None}
			if join := a.Submission.Joins; join != nil {
				ref.Task = a.Arrived.Tasks[0].ID
				l.Joined(join.Key, ref.Workflow)
				l.Among(join, ref.Task)
			}
			l.Refer(a.Submission.ID, ref)
			came[a.Submission.ID] = true
		}
		l.Arrivals = slices.DeleteFunc(l.Arrivals, func(s executor.Submission) bool { return came[s.ID] })
		l.adopted, l.reused = true, nil
		must(t, l.Recover(t.Context()))
		l.run(t)
	}
}

// adopting is a simulation whose attempts outlive the engine: they continue.
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
