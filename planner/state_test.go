package planner_test

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"gantry/planner"
	"gantry/planner/plannertest"
	"gantry/planner/unit"
)

const second = planner.Time(1e9)

// history leaves attempt 0 of task a running, attempt 1 of b suspended, attempt 2 of c starting, attempt 3 of d over,
// task e ready, f waiting, and attempt 4 of g ordered to leave.
func history(t *testing.T) *planner.State {
	t.Helper()
	sc, err := plannertest.Parse(`
		nodes 4 4
		A  a=9~ b=9 c=9 d=1 e=9 f=9 g=9^ a>f >a:5@0,1`)
	must(t, err)
	start := func(a planner.AttemptID, task planner.TaskID, n planner.NodeID) planner.Order {
		return planner.Order{Kind: planner.OrderStart, Attempt: a, Task: task, Node: n, Hold: unit.Cores(1), Try: 1,
			Until: 9 * second}
	}
	s := planner.NewState(sc.Platform, planner.DefaultRetryRules())
	for i, b := range []planner.Body{
		sc.Flows[0],
		&planner.PlanCommitted{Round: 1, Orders: []planner.Order{start(0, 0, 0), start(1, 1, 0), start(2, 2, 0),
			start(3, 3, 1), start(4, 6, 1)}},
		planner.AttemptStarted{Attempt: 0}, planner.AttemptStarted{Attempt: 1}, planner.AttemptStarted{Attempt: 3},
		planner.AttemptStarted{Attempt: 4},
		&planner.PlanCommitted{Round: 2, Orders: []planner.Order{{Kind: planner.OrderSuspend, Attempt: 1, Task: 1}}},
		planner.AttemptSuspended{Attempt: 1},
		&planner.AttemptExited{Attempt: 3, Outcome: planner.OK},
		&planner.PlanCommitted{Round: 3, Orders: []planner.Order{{Kind: planner.OrderCheckpoint, Attempt: 4, Task: 6}}},
	} {
		must(t, s.Apply(planner.Event{Seq: uint64(i + 1), At: second, Body: b}))
	}
	return s
}

const nextSeq = 11

// wrongFlows are workflows that do not continue the state, or are no DAG.
func wrongFlows(t *testing.T) map[string]planner.Body {
	t.Helper()
	type arrived = planner.WorkflowArrived
	out := map[string]planner.Body{}
	for name, spoil := range map[string]func(b *arrived){
		"an id that is taken":            func(b *arrived) { b.Workflow.ID = 0 },
		"an id too far":                  func(b *arrived) { b.Workflow.ID = 2 },
		"a task of another id":           func(b *arrived) { b.Tasks[1].ID++ },
		"a task of another workflow":     func(b *arrived) { b.Tasks[1].Workflow = 0 },
		"a file of another id":           func(b *arrived) { b.Files[0].ID = 0 },
		"a file beyond":                  func(b *arrived) { b.Files[0].ID++ },
		"a file of negative size":        func(b *arrived) { b.Files[0].Size = -1 },
		"a file of a foreign task":       func(b *arrived) { b.Files[0].Producer = 0 },
		"a file on no node":              func(b *arrived) { b.Files[0].Homes = []planner.NodeID{2} },
		"a foreign parent":               func(b *arrived) { b.Tasks[1].Parents[0] = 0 },
		"a parent twice":                 func(b *arrived) { b.Tasks[1].Parents = []planner.TaskID{7, 7} },
		"a child that does not know it":  func(b *arrived) { b.Tasks[1].Parents = nil },
		"a parent that does not know it": func(b *arrived) { b.Tasks[0].Children = nil },
		"a child twice":                  func(b *arrived) { b.Tasks[0].Children = []planner.TaskID{8, 8} },
		"a foreign file":                 func(b *arrived) { b.Tasks[0].Inputs = []planner.FileID{0} },
		"a negative need":                func(b *arrived) { b.Tasks[0].Need[unit.CPU] = -1 },
		"an order without a task":        func(b *arrived) { b.Workflow.Tasks = b.Workflow.Tasks[:1] },
		"an order that repeats":          func(b *arrived) { b.Workflow.Tasks = []planner.TaskID{7, 7} },
		"a child first":                  func(b *arrived) { b.Workflow.Tasks = []planner.TaskID{8, 7} },
		"a foreign task in order":        func(b *arrived) { b.Workflow.Tasks = []planner.TaskID{0, 8} },
	} {
		b := &planner.WorkflowArrived{Workflow: planner.Workflow{ID: 1, Tasks: []planner.TaskID{7, 8}},
			Tasks: []planner.Task{{ID: 7, Workflow: 1, Children: []planner.TaskID{8}, Outputs: []planner.FileID{1}},
				{ID: 8, Workflow: 1, Parents: []planner.TaskID{7}, Inputs: []planner.FileID{1}}},
			Files: []planner.File{{ID: 1, Producer: 7}}}
		spoil(b)
		out["workflow: "+name] = b
	}
	return out
}

// growth adds a child of f, which waits.
func growth() *planner.WorkflowGrown {
	return &planner.WorkflowGrown{Task: planner.Task{ID: 7, Parents: []planner.TaskID{5}}}
}

// Tasks that were added are in the topological order where they would be if they had arrived with the others: g follows
// those that nothing is before.
func TestOrderOfAGrownWorkflowIsThatOfAWholeOne(t *testing.T) {
	s := history(t)
	for i, task := range []planner.Task{{ID: 7}, {ID: 8, Parents: []planner.TaskID{0}}} {
		body := &planner.WorkflowGrown{Task: task}
		must(t, s.Apply(planner.Event{Seq: nextSeq + uint64(i), At: second, Body: body}))
	}
	if got, want := s.View().Order(0), []planner.TaskID{0, 1, 2, 3, 4, 6, 7, 5, 8}; !slices.Equal(got, want) {
		t.Errorf("order %v, not %v", got, want)
	}
}

// wrongGrowths are tasks that cannot be added to a workflow.
func wrongGrowths() map[string]planner.Body {
	type grown = planner.WorkflowGrown
	out := map[string]planner.Body{}
	for name, spoil := range map[string]func(b *grown){
		"of no workflow":                func(b *grown) { b.Workflow = 1 },
		"of workflow -1":                func(b *grown) { b.Workflow = -1 },
		"by a task that is there":       func(b *grown) { b.Task.ID = 6 },
		"by a task of another workflow": func(b *grown) { b.Task.Workflow = 1 },
		"by a formal task":              func(b *grown) { b.Task.Formal = true },
		"below itself":                  func(b *grown) { b.Task.Parents[0] = 7 },
		"below no task":                 func(b *grown) { b.Task.Parents[0] = -1 },
		"below a task twice":            func(b *grown) { b.Task.Parents = []planner.TaskID{5, 5} },
		"above a task that is there":    func(b *grown) { b.Task.Children = []planner.TaskID{5} },
		"a read of a file":              func(b *grown) { b.Task.Inputs = []planner.FileID{0} },
		"a write of a file":             func(b *grown) { b.Task.Outputs = []planner.FileID{0} },
		"a negative need":               func(b *grown) { b.Task.Need[unit.CPU] = -1 },
	} {
		b := growth()
		spoil(b)
		out["growth: "+name] = b
	}
	return out
}

// continuable are a workflow that has ended, and one that may take its place.
func continuable() []planner.Body {
	flow := func(w planner.WorkflowID, t planner.TaskID) *planner.WorkflowArrived {
		return &planner.WorkflowArrived{Workflow: planner.Workflow{ID: w, Tasks: []planner.TaskID{t}},
			Tasks: []planner.Task{{ID: t, Workflow: w}}}
	}
	return []planner.Body{flow(1, 7), planner.WorkflowCancelled{Workflow: 1}, flow(2, 8)}
}

// again continues it.
var again = &planner.WorkflowContinued{Workflow: 2, Of: 1, Tries: []int32{1}}

// wrongContinuations are those that cannot be after what is continuable.
func wrongContinuations() map[string]planner.Body {
	return map[string]planner.Body{
		"of what has not ended":   &planner.WorkflowContinued{Workflow: 2, Of: 0, Tries: []int32{1}},
		"of no workflow":          &planner.WorkflowContinued{Workflow: 2, Of: -1, Tries: []int32{1}},
		"of itself":               &planner.WorkflowContinued{Workflow: 1, Of: 1, Tries: []int32{1}},
		"of a later one":          &planner.WorkflowContinued{Workflow: 1, Of: 2, Tries: []int32{1}},
		"by no workflow":          &planner.WorkflowContinued{Workflow: 3, Of: 1, Tries: []int32{1}},
		"without tries":           &planner.WorkflowContinued{Workflow: 2, Of: 1},
		"with tries of more":      &planner.WorkflowContinued{Workflow: 2, Of: 1, Tries: []int32{1, 1}},
		"with less than no tries": &planner.WorkflowContinued{Workflow: 2, Of: 1, Tries: []int32{-1}},
	}
}

// wrongOrders are orders that cannot be.
func wrongOrders() map[string]planner.Order {
	const first, next = 0, 5
	hold := unit.Cores(1)
	return map[string]planner.Order{
		"of no kind":                     {Kind: 0, Task: 4},
		"of an unknown kind":             {Kind: 99, Task: 4},
		"start of no task":               {Kind: planner.OrderStart, Attempt: next, Task: 7, Hold: hold, Try: 1},
		"start of task -1":               {Kind: planner.OrderStart, Attempt: next, Task: -1, Hold: hold, Try: 1},
		"start of a running task":        {Kind: planner.OrderStart, Attempt: next, Task: 0, Hold: hold, Try: 2},
		"start of a waiting task":        {Kind: planner.OrderStart, Attempt: next, Task: 5, Hold: hold, Try: 1},
		"start of a task that has ended": {Kind: planner.OrderStart, Attempt: next, Task: 3, Hold: hold, Try: 2},
		"start as an old attempt":        {Kind: planner.OrderStart, Attempt: first, Task: 4, Hold: hold, Try: 1},
		"start as an attempt too far":    {Kind: planner.OrderStart, Attempt: next + 1, Task: 4, Hold: hold, Try: 1},
		"start as another try":           {Kind: planner.OrderStart, Attempt: next, Task: 4, Hold: hold, Try: 2},
		"start on no node": {Kind: planner.OrderStart, Attempt: next, Task: 4, Node: 2, Hold: hold,
			Try: 1},
		"start on node -1": {Kind: planner.OrderStart, Attempt: next, Task: 4, Node: -1, Hold: hold,
			Try: 1},
		"start that gives back": {Kind: planner.OrderStart, Attempt: next, Task: 4, Hold: unit.Vector{-1},
			Try: 1},
		"resume of a running task":       {Kind: planner.OrderResume, Attempt: 0, Task: 0},
		"resume of no attempt":           {Kind: planner.OrderResume, Attempt: 9, Task: 1},
		"resume of attempt -1":           {Kind: planner.OrderResume, Attempt: -1, Task: 1},
		"resume of another task":         {Kind: planner.OrderResume, Attempt: 1, Task: 0},
		"suspension of a starting task":  {Kind: planner.OrderSuspend, Attempt: 2, Task: 2},
		"suspension of a suspended task": {Kind: planner.OrderSuspend, Attempt: 1, Task: 1},
		"suspension of what has ended":   {Kind: planner.OrderSuspend, Attempt: 3, Task: 3},
		"suspension of another task":     {Kind: planner.OrderSuspend, Attempt: 0, Task: 1},
		"kill of what leaves already":    {Kind: planner.OrderKill, Attempt: 4, Task: 6},
		"checkpoint of no attempt":       {Kind: planner.OrderCheckpoint, Attempt: 9, Task: 0},
		"copy of no file":                {Kind: planner.OrderCopy, Task: 4, File: 1},
		"copy of file -1":                {Kind: planner.OrderCopy, Task: 4, File: -1},
		"copy to no node":                {Kind: planner.OrderCopy, Task: 4, Node: 2},
		"copy for a task that has ended": {Kind: planner.OrderCopy, Task: 3, Node: 1},
		"copy for no task":               {Kind: planner.OrderCopy, Task: 7, Node: 1},
		"start of another order's task":  {Kind: planner.OrderStart, Attempt: next + 1, Task: 4, Hold: hold, Try: 1},
	}
}

// happened is the history, and what followed at its end.
func happened(t *testing.T, more ...planner.Body) *planner.State {
	t.Helper()
	s := history(t)
	for i, b := range more {
		must(t, s.Apply(planner.Event{Seq: nextSeq + uint64(i), At: second, Body: b}))
	}
	return s
}

// Every kind of event, wrong in every way there is: Apply says so, and changes nothing.
func TestAWrongEventChangesNothing(t *testing.T) {
	wrong := wrongFlows(t)
	for name, b := range map[string]planner.Body{
		"nothing":                       nil,
		"start of no attempt":           planner.AttemptStarted{Attempt: 9},
		"start of attempt -1":           planner.AttemptStarted{Attempt: -1},
		"start of what runs":            planner.AttemptStarted{Attempt: 0},
		"start of what is over":         planner.AttemptStarted{Attempt: 3},
		"suspension of what starts":     planner.AttemptSuspended{Attempt: 2},
		"suspension nobody ordered":     planner.AttemptSuspended{Attempt: 0},
		"suspension for a checkpoint":   planner.AttemptSuspended{Attempt: 4},
		"suspension of what is over":    planner.AttemptSuspended{Attempt: 3},
		"suspension of no attempt":      planner.AttemptSuspended{Attempt: 5},
		"resumption of what runs":       planner.AttemptResumed{Attempt: 0},
		"resumption nobody ordered":     planner.AttemptResumed{Attempt: 1},
		"resumption of no attempt":      planner.AttemptResumed{Attempt: 5},
		"exit of no attempt":            &planner.AttemptExited{Attempt: 5, Outcome: planner.OK},
		"exit of attempt -1":            &planner.AttemptExited{Attempt: -1, Outcome: planner.OK},
		"exit twice":                    &planner.AttemptExited{Attempt: 3, Outcome: planner.OK},
		"exit without an outcome":       &planner.AttemptExited{Attempt: 0},
		"exit with an unknown outcome":  &planner.AttemptExited{Attempt: 0, Outcome: 99},
		"exit that kept too much":       &planner.AttemptExited{Attempt: 0, Outcome: planner.Preempted, Kept: 1.5},
		"exit that kept less than none": &planner.AttemptExited{Attempt: 0, Outcome: planner.Preempted, Kept: -1},
		"exit that kept no number": &planner.AttemptExited{Attempt: 0, Outcome: planner.Preempted,
			Kept: math.NaN()},
		"a copy of no file":      planner.FileAppeared{File: 1},
		"a copy of file -1":      planner.FileAppeared{File: -1},
		"a copy on no node":      planner.FileAppeared{Node: 2},
		"a copy on node -1":      planner.FileAppeared{Node: -1},
		"a change of no node":    planner.NodeChanged{Node: 2},
		"a change of node -1":    planner.NodeChanged{Node: -1},
		"a negative capacity":    planner.NodeChanged{Capacity: unit.Vector{-1}},
		"cancelling no workflow": planner.WorkflowCancelled{Workflow: 1},
		"cancelling workflow -1": planner.WorkflowCancelled{Workflow: -1},
		"cancelling no task":     planner.TaskCancelled{Task: 7},
		"cancelling task -1":     planner.TaskCancelled{Task: -1},
		"reuse of no task":       &planner.TaskReused{Task: 7},
		"reuse of task -1":       &planner.TaskReused{Task: -1},
		"reuse of what runs":     &planner.TaskReused{Task: 0},
		"reuse of what waits":    &planner.TaskReused{Task: 5},
		"reuse of what is over":  &planner.TaskReused{Task: 3},
		"reuse on no node":       &planner.TaskReused{Task: 4, Node: 2},
		"a reason of no task":    &planner.PlanCommitted{Reasons: []planner.Wait{{Task: 7}}},
		"a note on no task":      &planner.PlanCommitted{Notes: []planner.Note{{Task: 7}}},
		"a note on no workflow": &planner.PlanCommitted{Notes: []planner.Note{{Workflow: 1,
			Task: planner.None}}},
		"the same task suspended twice": &planner.PlanCommitted{
			Orders: slices.Repeat([]planner.Order{{Kind: planner.OrderSuspend}}, 2)},
		"killed and suspended": &planner.PlanCommitted{Orders: []planner.Order{{Kind: planner.OrderKill},
			{Kind: planner.OrderSuspend}}},
		"the same task resumed twice": &planner.PlanCommitted{
			Orders: slices.Repeat([]planner.Order{{Kind: planner.OrderResume, Attempt: 1, Task: 1}}, 2)},
	} {
		wrong[name] = b
	}
	good := planner.Order{Kind: planner.OrderStart, Attempt: 5, Task: 4, Hold: unit.Cores(1), Try: 1}
	for name, o := range wrongOrders() {
		wrong["order: "+name] = &planner.PlanCommitted{Round: 4, Orders: []planner.Order{o}}
		if o.Attempt == 5 && o.Kind == planner.OrderStart { // the attempt after that of the good order
			o.Attempt++
		}
		wrong["second order: "+name] = &planner.PlanCommitted{Round: 4, Orders: []planner.Order{good, o}}
	}
	maps.Copy(wrong, wrongGrowths())
	cases := map[string][]planner.Body{} // the last of each is wrong
	for name, b := range wrong {
		cases[name] = []planner.Body{b}
	}
	for name, b := range wrongContinuations() {
		cases["continuation "+name] = append(continuable(), b)
	}
	cases["continuation: twice"] = append(continuable(), again, again)
	cases["growth: of what has ended"] = append(continuable()[:2], &planner.WorkflowGrown{Workflow: 1,
		Task: planner.Task{ID: 8, Workflow: 1}})
	cases["growth: of what was cancelled"] = []planner.Body{planner.WorkflowCancelled{}, growth()}
	cases["growth: below a task that was skipped"] = []planner.Body{planner.TaskCancelled{Task: 5}, growth()}
	// the only kinds that say nothing which could be wrong
	met := map[planner.EventKind]bool{planner.KindWoke: true, planner.KindPolicyChanged: true}
	for name, bodies := range cases {
		last := len(bodies) - 1
		if b := bodies[last]; b != nil {
			met[b.Kind()] = true
		}
		t.Run(name, func(t *testing.T) {
			s := happened(t, bodies[:last]...)
			e := planner.Event{Seq: nextSeq + uint64(last), At: 2 * second, Body: bodies[last]}
			if err := s.Apply(e); err == nil {
				t.Error("it was taken for right")
			}
			if !reflect.DeepEqual(s, happened(t, bodies[:last]...)) {
				t.Error("it changed the state")
			}
		})
	}
	for k := planner.KindWorkflowArrived; k <= planner.KindTaskCancelled; k++ {
		if !met[k] {
			t.Errorf("there is no wrong %s", k)
		}
	}
	for name, e := range map[string]planner.Event{
		"a number that was":      {Seq: nextSeq - 1, At: 2 * second, Body: planner.Woke{}},
		"a number too far":       {Seq: nextSeq + 1, At: 2 * second, Body: planner.Woke{}},
		"before the last event":  {Seq: nextSeq, At: second - 1, Body: planner.Woke{}},
		"before the run's begin": {Seq: nextSeq, At: -1, Body: planner.Woke{}},
	} {
		s := history(t)
		if err := s.Apply(e); err == nil || !reflect.DeepEqual(s, history(t)) {
			t.Errorf("%s: %v, or it changed the state", name, err)
		}
	}
}

// What the wrong events of the test above are alike but for one thing is right.
func TestRightEventsAreTaken(t *testing.T) {
	for name, bodies := range map[string][]planner.Body{
		"a growth":                      {growth()},
		"a continuation":                append(continuable(), again),
		"cancelling a task":             {planner.TaskCancelled{Task: 4}},
		"a reused task":                 {&planner.TaskReused{Task: 4, Node: 1}},
		"a reused task without outputs": {&planner.TaskReused{Task: 4, Node: planner.None}},
		"another policy":                {planner.PolicyChanged{Policy: "cpp"}},
	} {
		if reflect.DeepEqual(happened(t, bodies...), happened(t, bodies[:len(bodies)-1]...)) {
			t.Errorf("%s changed nothing", name)
		}
	}
	for name, b := range map[string]planner.Body{
		"a start":       planner.AttemptStarted{Attempt: 2},
		"an exit":       &planner.AttemptExited{Attempt: 4, Outcome: planner.Preempted, Kept: 0.5},
		"a copy":        planner.FileAppeared{File: 0, Node: 1},
		"a lost node":   planner.NodeChanged{Node: 1},
		"a wake":        planner.Woke{},
		"cancelling":    planner.WorkflowCancelled{Workflow: 0},
		"a plain round": &planner.PlanCommitted{Round: 4},
		"orders": &planner.PlanCommitted{Round: 4, Orders: []planner.Order{{Kind: planner.OrderStart, Attempt: 5,
			Task: 4, Hold: unit.Cores(1), Try: 1},
			{Kind: planner.OrderResume, Attempt: 1, Task: 1}, {Kind: planner.OrderKill, Attempt: 0, Task: 0},
			{Kind: planner.OrderCopy, Task: 5, Node: 1}}},
	} {
		s := history(t)
		if err := s.Apply(planner.Event{Seq: nextSeq, At: 2 * second, Body: b}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if reflect.DeepEqual(s, history(t)) {
			t.Errorf("%s changed nothing", name)
		}
	}
}

// A copy is estimated to take as many times as long as there are copies on its link with it, until they are over.
func TestEstimatesCountTheCopiesOnALink(t *testing.T) {
	sc, err := plannertest.Parse(`
		nodes 4 4
		link  1
		A  a=9 b=9 >a:5@0 >b:5@0`)
	must(t, err)
	sc.Platform.Share(0, 0)
	s, seq := planner.NewState(sc.Platform, planner.DefaultRetryRules()), uint64(0)
	apply := func(b planner.Body) {
		t.Helper()
		seq++
		must(t, s.Apply(planner.Event{Seq: seq, At: second, Body: b}))
	}
	want := func(seconds float64) {
		t.Helper()
		if got := s.View().MoveTime(5e6, 0, 1).Seconds(); got != seconds {
			t.Errorf("the copy takes %v s, want %v", got, seconds)
		}
	}
	apply(sc.Flows[0])
	want(5)
	start := func(a planner.AttemptID) planner.Order {
		return planner.Order{Kind: planner.OrderStart, Attempt: a, Task: planner.TaskID(a), Node: 1,
			Hold: unit.Cores(1), Try: 1, Until: 9 * second}
	}
	apply(&planner.PlanCommitted{Round: 1, Orders: []planner.Order{start(0), start(1)}})
	want(15)
	apply(planner.AttemptStarted{Attempt: 0})
	want(10)
	apply(&planner.AttemptExited{Attempt: 1, Outcome: planner.Killed})
	want(5)
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
