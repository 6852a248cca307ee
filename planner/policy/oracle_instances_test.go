// Tests compare policies with oracles: an oracle is a small, slow implementation of the same policy that is written
// like the pseudo-code of its paper and shares no code with the planner. This file has random instances and their
// simulation by the engine; Compare draws instances, and shrinks one on which the two disagree as far as it can. A new
// family of policies needs an oracle, a Shape, and a row of TestPoliciesAgreeWithTheirOracles.

package policy_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gantry/executor"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/scenario"
)

// Instance is a load and the nodes it runs on.
type Instance struct {
	Nodes     []Node
	Workflows []Workflow // by arrival
	Clusters  bool       `json:",omitempty"` // copies between nodes take time, and overlap other work
	// copies between nodes take time within the stays that need them, half of it within a group
	Held bool `json:",omitempty"`
	// copies between nodes overlap other work; they take no time if neither Held nor Clusters
	Overlapped bool `json:",omitempty"`
	// time to move the checkpoint of a preempted task; 0: they are frozen
	Checkpoint time.Duration `json:",omitempty"`
}

// Node is a virtual node.
type Node struct {
	Cores  int64           `json:",omitempty"` // millicores
	Memory int64           `json:",omitempty"` // bytes; 0: unlimited
	Speed  float64         // 1/2, 1 or 3/2: runtimes are multiples of 3, so that they stay whole
	Group  planner.GroupID `json:",omitempty"`
}

// Workflow is a DAG of tasks.
type Workflow struct {
	Arrive  unit.Time `json:",omitempty"`
	Release unit.Time `json:",omitempty"` // 0: at its arrival
	Due     unit.Time `json:",omitempty"` // 0: none
	Tenant  int       `json:",omitempty"`
	Class   planner.Class
	Tasks   []Task
}

// Task is a task on a node of speed 1.
type Task struct {
	Run     time.Duration   `json:",omitempty"` // 0: it takes no time
	Est     time.Duration   `json:",omitempty"` // the estimate that policies see; 0: Run
	Cores   int64           `json:",omitempty"` // millicores
	Memory  int64           `json:",omitempty"` // bytes
	Stage   int32           `json:",omitempty"` // execution phase
	Parents []int           `json:",omitempty"` // before it in Workflow.Tasks, ascending
	On      []time.Duration `json:",omitempty"` // run on each node, independent of its speed
	// time to copy its output to another node; 0: its children read nothing
	Copy time.Duration `json:",omitempty"`
	Lost int           `json:",omitempty"` // attempts that are lost when half of the run is over
	// attempts are not lost but fail, and the task has as many retries
	Exits bool `json:",omitempty"`
	Fail  bool `json:",omitempty"` // then the attempt after those fails, and with it the task and its descendants
}

// Bad reports whether the next attempt ends badly, after half of its run; before is how many did.
func (t *Task) Bad(before int) bool { return before < t.Lost || t.Fail }

// Estimate returns the estimate that policies see.
func (t *Task) Estimate() time.Duration { return cmp.Or(t.Est, t.Run) }

// EstimatesOn returns the estimates that policies see of a task whose runs are given by node: wrong by the same factor
// as Est.
func (t *Task) EstimatesOn() []time.Duration {
	on := slices.Clone(t.On)
	for n := range on {
		on[n] = on[n] * (t.Estimate() / time.Second) / (t.Run / time.Second)
	}
	return on
}

// byteTime is the time to copy a byte: a microsecond.
const byteTime = time.Microsecond

// Stay is an attempt of a task.
type Stay struct {
	Workflow, Task, Node int
	Start, End           unit.Time
}

// Course is the outcome of an instance.
type Course struct {
	Stays  []Stay // attempts of tasks that take time, by start, workflow, task
	Notes  []planner.Note
	Rounds int
	Late   int // workflows
}

// clone returns a copy that shares nothing.
func (in Instance) clone() Instance {
	in.Nodes, in.Workflows = slices.Clone(in.Nodes), slices.Clone(in.Workflows)
	for w := range in.Workflows {
		tasks := slices.Clone(in.Workflows[w].Tasks)
		for i := range tasks {
			tasks[i].Parents, tasks[i].On = slices.Clone(tasks[i].Parents), slices.Clone(tasks[i].On)
		}
		in.Workflows[w].Tasks = tasks
	}
	return in
}

// Timed returns how many tasks take time.
func (in *Instance) Timed() (n int) {
	for w := range in.Workflows {
		for i := range in.Workflows[w].Tasks {
			if in.Workflows[w].Tasks[i].Run > 0 {
				n++
			}
		}
	}
	return n
}

// between is how long a copy takes that takes so long between groups: half as long within one.
func (in *Instance) between(d time.Duration, from, to int) time.Duration {
	switch {
	case from == to || !in.Held:
		return 0
	case in.Nodes[from].Group == in.Nodes[to].Group:
		return d / 2
	}
	return d
}

// Platform returns the nodes as the planner knows them.
func (in *Instance) Platform() *planner.Platform {
	groups := 1
	for _, n := range in.Nodes {
		groups = max(groups, int(n.Group)+1)
	}
	p := &planner.Platform{Groups: make([]string, groups), Bandwidth: make([][]unit.BytesPerSecond, groups),
		Latency: make([][]int64, groups)}
	for g := range groups {
		p.Bandwidth[g], p.Latency[g] = make([]unit.BytesPerSecond, groups), make([]int64, groups)
	}
	p.Overlapped = in.Clusters || in.Overlapped
	for g := range groups {
		for h := range groups {
			switch {
			case g != h && (in.Clusters || in.Held):
				p.Bandwidth[g][h] = unit.BytesPerSecond(time.Second / byteTime)
			case in.Held:
				p.Bandwidth[g][h] = 2 * unit.BytesPerSecond(time.Second/byteTime)
			}
		}
	}
	for i, n := range in.Nodes {
		p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(i), Name: fmt.Sprint("n", i), Group: n.Group,
			Speed: n.Speed, Capacity: unit.Vector{n.Cores, cmp.Or(n.Memory, unit.Unlimited), unit.Unlimited}})
	}
	return p
}

// workflow returns a workflow as a trace.
func (w *Workflow) workflow(name string) *trace.Workflow {
	flow := &trace.Workflow{Name: name, Label: name}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		x := trace.Task{ID: fmt.Sprint("t", i), Kind: "k", Cores: float64(t.Cores) / 1000, Retries: t.retries(),
			Runtime: t.Run, Phase: t.Stage, MemoryBytes: max(0, t.Memory-executor.EmulatorMemory), Known: trace.Runtime}
		for _, q := range t.Parents {
			x.Parents = append(x.Parents, int32(q))
			flow.Tasks[q].Children = append(flow.Tasks[q].Children, int32(i))
			if t.Run > 0 { // a task without time reads nothing
				x.Inputs = append(x.Inputs, flow.Tasks[q].Outputs...)
			}
		}
		if t.Copy > 0 {
			x.Outputs = []int32{int32(len(flow.Files))}
			flow.Files = append(flow.Files, trace.File{Name: fmt.Sprint("f", i), Size: int64(t.Copy / byteTime),
				Sized: true, Producer: int32(i)})
		}
		flow.Tasks = append(flow.Tasks, x)
	}
	return flow
}

// retries is how often a task that fails is tried again; -1: as often as others.
func (t *Task) retries() int {
	if t.Exits {
		return t.Lost
	}
	return -1
}

// costs returns the runs of tasks by node where they are given so.
func (w *Workflow) costs() (costs [][]int64) {
	for i := range w.Tasks {
		if on := w.Tasks[i].On; on != nil {
			if costs == nil {
				costs = make([][]int64, len(w.Tasks))
			}
			for _, d := range on {
				costs[i] = append(costs[i], int64(d))
			}
		}
	}
	return costs
}

// Simulate runs an instance by the engine in simulation.
func Simulate(in Instance, spec string) (*Course, error) { return SimulateWatched(in, spec, nil) }

// SimulateWatched lets watch see every round once the policy has planned, in the terms of the policy: of has the
// workflow and number of a task.
func SimulateWatched(in Instance, spec string, watch func(c *planner.Cycle, of []Stay)) (*Course, error) {
	pol, err := policy.Parse(spec)
	if err != nil {
		return nil, err
	}
	p := in.Platform()
	var subs []executor.Submission
	var of []Stay // by task id: its workflow and number
	if watch != nil {
		pol = &watched{pol, func(c *planner.Cycle) { watch(c, of) }}
	}
	for w := range in.Workflows {
		flow := &in.Workflows[w]
		subs = append(subs, executor.Submission{At: flow.Arrive, Name: fmt.Sprint("w", w),
			Workflow: flow.workflow(fmt.Sprint("w", w)),
			Tenant:   fmt.Sprint(flow.Tenant), Class: flow.Class, Release: flow.Release, Due: flow.Due,
			Costs: flow.costs()})
		for i := range flow.Tasks {
			of = append(of, Stay{Workflow: w, Task: i})
		}
	}
	declared := &predict.Declared{}
	out := &Course{}
	bad := map[planner.TaskID]int{} // attempts that ended so
	fault := func(l *executor.Launch) (planner.Outcome, float64) {
		t := &in.Workflows[of[l.Task].Workflow].Tasks[of[l.Task].Task]
		switch {
		case !t.Bad(bad[l.Task]):
			return planner.OK, 0
		case bad[l.Task] < t.Lost && !t.Exits:
			return planner.Lost, 0.5
		}
		return planner.ExitCode, 0.5
	}
	e := &executor.Engine{Runtime: sim.New(sim.Config{Platform: p, Fault: fault}), Planner: planner.New(p,
		planner.DefaultRetryRules(), pol,
		declared, 1),
		Arrivals: subs,
		Admit: &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1,
			Preempt: scenario.Preempt{None: in.Checkpoint == 0, Checkpoint: int64(in.Checkpoint / byteTime)},
			Forget:  declared.Forget,
			Declare: func(id planner.TaskID, run time.Duration, on []time.Duration, s planner.Source) {
				t := &in.Workflows[of[id].Workflow].Tasks[of[id].Task]
				if on != nil {
					on = t.EstimatesOn()
				}
				declared.Declare(id, t.Estimate(), on, s)
			}}}
	e.Watch = func(v planner.View, events []planner.Event, _ []*executor.Admission) {
		for _, ev := range events {
			switch b := ev.Body.(type) {
			case *planner.PlanCommitted:
				out.Rounds++
				out.Notes = append(out.Notes, b.Notes...)
			case *planner.AttemptExited:
				a := v.Attempt(b.Attempt)
				if b.Outcome == planner.Lost || b.Outcome == planner.ExitCode {
					bad[a.Task]++
				}
				if !v.Task(a.Task).Formal {
					s := of[a.Task]
					s.Node, s.Start, s.End = int(a.Node), b.Usage.Started, b.Usage.Ended
					out.Stays = append(out.Stays, s)
				}
			}
		}
	}
	res, err := e.Run(context.Background())
	if err == nil && len(res.Refused) > 0 {
		err = res.Refused[0]
	}
	if err != nil {
		return nil, err
	}
	v := e.Planner.View()
	for w := range in.Workflows {
		if _, end := v.Times(planner.WorkflowID(w)); in.Workflows[w].Due > 0 && end > in.Workflows[w].Due {
			out.Late++
		}
	}
	Sort(out.Stays)
	return out, nil
}

// watched is a policy with an observer. It has no expectations of its own of tasks that overrun.
type watched struct {
	planner.Policy
	watch func(c *planner.Cycle)
}

// Plan implements planner.Policy.
func (w *watched) Plan(ctx context.Context, c *planner.Cycle) error {
	err := w.Policy.Plan(ctx, c)
	if err == nil {
		w.watch(c)
	}
	return err
}

// Suspends implements planner.Suspender: nobody else is to let tasks continue.
func (w *watched) Suspends() {}

// Observe implements planner.Observer.
func (w *watched) Observe(v planner.View, e planner.Event) {
	if o, ok := w.Policy.(planner.Observer); ok {
		o.Observe(v, e)
	}
}

// Sort orders attempts by start, workflow and task.
func Sort(s []Stay) {
	slices.SortFunc(s, func(a, b Stay) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Task, b.Task))
	})
}

// Difference compares two courses attempt by attempt; "" if they agree. Without nodes only instants are compared.
func Difference(got, want []Stay, nodes bool) string {
	got, want = slices.Clone(got), slices.Clone(want)
	Sort(got)
	Sort(want)
	for i := range max(len(got), len(want)) {
		switch {
		case i == len(got):
			return fmt.Sprintf("missing: %v", want[i])
		case i == len(want):
			return fmt.Sprintf("not expected: %v", got[i])
		}
		a, b := got[i], want[i]
		if !nodes {
			a.Node, b.Node = 0, 0
		}
		if a != b {
			return fmt.Sprintf("got %v, the oracle has %v", got[i], want[i])
		}
	}
	return ""
}

func (s Stay) String() string {
	return fmt.Sprintf("task %d.%d on node %d in [%v, %v]", s.Workflow, s.Task, s.Node, s.Start, s.End)
}

// String is an instance as JSON.
func (in Instance) String() string {
	text, err := json.Marshal(in)
	if err != nil {
		panic(err) // numbers only
	}
	return string(text)
}
