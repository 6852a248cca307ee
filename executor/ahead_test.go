package executor_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/order"
	"gantry/planner/retain"
	"gantry/planner/unit"
	"gantry/trace"
)

// prepared notes which tasks a simulation was asked to prepare.
type prepared struct {
	*sim.Runtime
	most  int
	tasks []planner.TaskID
}

func (p *prepared) Prepare(ctx context.Context, soon []executor.Preparation) error {
	p.most = max(p.most, len(soon))
	for _, s := range soon {
		if !slices.Contains(p.tasks, s.Task) {
			p.tasks = append(p.tasks, s.Task)
		}
	}
	return p.Runtime.Prepare(ctx, soon)
}

// ends simulates workflows whose containers take 1 s to start, with up to ahead of them started ahead, and returns when
// each workflow ends.
func ends(t *testing.T, p *planner.Platform, spec string, ahead int, workflows ...*trace.Workflow) ([]planner.Time,
	*prepared) {
	t.Helper()
	var subs []executor.Submission
	for _, w := range workflows {
		subs = append(subs, executor.Submission{Name: w.Name, Workflow: w})
	}
	e := enginetest.New(t, p, enginetest.Policy(t, spec), subs...)
	r := &prepared{Runtime: sim.New(sim.Config{Platform: p, Startup: time.Second, Ahead: ahead})}
	e.Runtime = r
	enginetest.Run(t, e)
	var out []planner.Time
	for w := range workflows {
		_, end := e.Planner.View().Times(planner.WorkflowID(w))
		out = append(out, end)
	}
	return out, r
}

// Three tasks of 10 s in a row: the first container takes its second, the others are ready when their turn comes.
func TestContainersOfAChainAreStartedAhead(t *testing.T) {
	for _, policy := range []string{"cpp", "fifo", "heft", "owm"} {
		if got, _ := ends(t, slots(1), policy, 3, chain("A", 10, 10, 10)); got[0] != 31e9 {
			t.Errorf("%s: ended at %v, want 31 s", policy, got[0])
		}
		if got, _ := ends(t, slots(1), policy, 0, chain("A", 10, 10, 10)); got[0] != 33e9 {
			t.Errorf("%s: ended at %v without, want 33 s", policy, got[0])
		}
	}
}

// fork is a task of 10 s, then n of 10 s side by side.
func fork(name string, n int) *trace.Workflow {
	w := chain(name, 10)
	for i := range n {
		w.Tasks = append(w.Tasks, trace.Task{ID: name + string(rune('a'+i)), Kind: "k", Cores: 1, Retries: -1,
			Runtime: 10 * time.Second, Known: trace.Runtime, Parents: []int32{0}})
		w.Tasks[0].Children = append(w.Tasks[0].Children, int32(i+1))
	}
	return w
}

// Two of four may be started ahead: the last of four ends with its container's second.
func TestAtMostSoManyContainersAreStartedAhead(t *testing.T) {
	for ahead, want := range map[int]planner.Time{2: 22e9, 4: 21e9} {
		got, r := ends(t, slots(4), "cpp", ahead, fork("F", 4))
		if got[0] != want || r.most != ahead || len(r.tasks) != ahead {
			t.Errorf("%d ahead: ended at %v, want %v; %d at once, %d in all", ahead, got[0], want, r.most, len(r.tasks))
		}
	}
}

// One core: while the other chain's ready task waits for it nothing is started ahead, so that all is as without.
func TestNothingIsStartedAheadWhileReadyWorkWaitsForACore(t *testing.T) {
	workflows := []*trace.Workflow{chain("A", 10, 10), chain("B", 10, 10)}
	got, r := ends(t, slots(1), "fifo", 3, workflows...)
	if last := slices.Max(got); last != 43e9 || len(r.tasks) != 1 {
		t.Errorf("ended at %v, want 43 s; tasks %v were prepared, want the last one", last, r.tasks)
	}
}

// A container that waits takes memory of its node. A task that says nothing of its memory gets its share by cores: on
// one core that is all there is.
func TestAContainerThatWaitsNeedsMemory(t *testing.T) {
	for cores, want := range map[int64]planner.Time{1: 22e9, 2: 21e9} {
		p := slots(cores)
		p.Nodes[0].Capacity[unit.Memory] = 1 << 30
		if got, _ := ends(t, p, "cpp", 3, chain("A", 10, 10)); got[0] != want {
			t.Errorf("%d cores: ended at %v, want %v", cores, got[0], want)
		}
	}
}

// A container is started ahead when its task is due about as soon as a container takes, and not before.
func TestAStartIsPreparedWhenItIsDue(t *testing.T) {
	p := slots(2)
	e := enginetest.New(t, p, enginetest.Policy(t, "cpp"), executor.Submission{Name: "A", Workflow: chain("A", 100, 1)})
	r := &instants{Runtime: sim.New(sim.Config{Platform: p, Startup: time.Second, Ahead: 1})}
	e.Runtime = r
	enginetest.Run(t, e)
	// it is estimated to end at 100 s, and a container is given twice its second
	if len(r.at) != 1 || r.at[0] != 98e9 {
		t.Errorf("prepared at %v, want 98 s", r.at)
	}
}

type instants struct {
	*sim.Runtime
	at   []planner.Time
	last int
}

func (p *instants) Prepare(ctx context.Context, soon []executor.Preparation) error {
	if len(soon) > p.last {
		p.at = append(p.at, p.Now())
	}
	p.last = len(soon)
	return p.Runtime.Prepare(ctx, soon)
}

// A lead is twice what containers took lately and 50 ms, but not less than for what is usual: estimates err by more
// than the 20 ms that a container without a daemon takes.
func TestTheLeadFollowsSlowContainersOnly(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		20 * time.Millisecond:  350 * time.Millisecond,
		150 * time.Millisecond: 350 * time.Millisecond,
		750 * time.Millisecond: 650 * time.Millisecond, // the mean is 3/4 of 150 ms and 1/4 of 750 ms
	} {
		var l executor.Lead
		l.Took(took)
		if got := l.Before(); got != want {
			t.Errorf("after a container of %v the lead is %v, want %v", took, got, want)
		}
	}
}

// losing loses node 1 as soon as a container waits there, and notes on which nodes starts are prepared after that.
type losing struct {
	*sim.Runtime
	waits, lost bool
	after       []planner.NodeID
}

func (l *losing) Prepare(ctx context.Context, soon []executor.Preparation) error {
	for _, s := range soon {
		l.waits = l.waits || s.Node == 1
		if l.lost {
			l.after = append(l.after, s.Node)
		}
	}
	return l.Runtime.Prepare(ctx, soon)
}

func (l *losing) Next(ctx context.Context, until planner.Time) ([]planner.Body, error) {
	if l.waits && !l.lost {
		l.lost = true
		return []planner.Body{planner.NodeChanged{Node: 1}}, nil
	}
	return l.Runtime.Next(ctx, until)
}

// A container that waits on a node which is lost is given up: its task is prepared where it goes instead.
func TestWhatWaitsOnALostNodeIsGivenUp(t *testing.T) {
	p := slots(1)
	p.Nodes = append(p.Nodes, p.Nodes[0])
	p.Nodes[1].Name = "other"
	e := enginetest.New(t, p, enginetest.Policy(t, "heft"), executor.Submission{Name: "F", Workflow: fork("F", 2)})
	r := &losing{Runtime: sim.New(sim.Config{Platform: p, Startup: time.Second, Ahead: 2})}
	e.Runtime = r
	enginetest.Run(t, e)
	// The first takes its second and 10 s, and the next is ready then. The last one takes a second again: it waits for
	// the only core that is left, and nothing is started ahead meanwhile.
	if _, end := e.Planner.View().Times(0); !r.lost || end != 32e9 {
		t.Errorf("lost: %v; ended at %v, want 32 s", r.lost, end)
	}
	if len(r.after) == 0 || slices.Contains(r.after, 1) {
		t.Errorf("after the loss starts were prepared on %v, want node 0 alone", r.after)
	}
}

// elsewhere is an allocator that starts each task on the last node, or on the first if that suits its number.
type elsewhere struct{ first func(planner.TaskID) bool }

func (a elsewhere) Allocate(_ context.Context, c *planner.Cycle, q planner.Queue) error {
	for {
		t, ok := q.Next(c)
		if !ok {
			return nil
		}
		n := planner.NodeID(1)
		if a.first(t) {
			n = 0
		}
		site, ok := c.Site(t, n)
		if !ok {
			q.Defer(c, t)
			continue
		}
		if err := c.Draft.Reserve(planner.Segment{Task: t, Node: n, Hold: site.Need, Start: c.Now(),
			End: c.Now().Add(site.Dur)}); err != nil {
			return err
		}
		q.Take(c, t)
	}
}

// guesses is the tasks of a chain of n that are prepared on two nodes of one speed, where the policy plans no places:
// the guess is the first node.
func guesses(t *testing.T, n int, right func(planner.TaskID) bool) []planner.TaskID {
	t.Helper()
	p := slots(1)
	p.Nodes = append(p.Nodes, p.Nodes[0])
	p.Nodes[1].ID, p.Nodes[1].Name = 1, "other"
	runs := make([]int, n)
	for i := range runs {
		runs[i] = 10
	}
	pol := &planner.Pipeline[planner.Queue]{Retain: retain.Drop{}, Queue: &order.Joint{},
		Allocate: elsewhere{right}}
	e := enginetest.New(t, p, pol, executor.Submission{Name: "A", Workflow: chain("A", runs...)})
	r := &prepared{Runtime: sim.New(sim.Config{Platform: p, Startup: time.Second, Ahead: 2})}
	e.Runtime = r
	enginetest.Run(t, e)
	return r.tasks
}

// Guesses of places end once eight were wrong and fewer were right; as long as half of them are right they go on.
func TestGuessingStopsWhereItIsWrong(t *testing.T) {
	if got := guesses(t, 40, func(planner.TaskID) bool { return false }); len(got) != 8 || got[7] != 8 {
		t.Errorf("all wrong: tasks %v were prepared, want 1 to 8", got)
	}
	if got := guesses(t, 40, func(t planner.TaskID) bool { return t%2 == 1 }); len(got) != 39 {
		t.Errorf("every other one wrong: %d tasks were prepared, want 39", len(got))
	}
	// the first thirty are right: it takes more wrong ones than these
	if got := guesses(t, 80, func(t planner.TaskID) bool { return t <= 30 }); len(got) != 30+31 {
		t.Errorf("wrong later: %d tasks were prepared, want 61", len(got))
	}
}
