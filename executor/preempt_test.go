package executor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/predict"
	"gantry/planner/retain"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/scenario"
)

// juggler preempts running tasks at random, each a few times and in every way, and starts what wants a place on random
// nodes.
type juggler struct{ most int }

func (juggler) Suspends() {}

func (j juggler) Plan(ctx context.Context, c *planner.Cycle) error {
	if err := (retain.Drop{}).Retain(c); err != nil {
		return err
	}
	for n := range c.Nodes() {
		for _, a := range c.Active(planner.NodeID(n)) {
			t := c.Attempt(a).Task
			if seg, ok := c.Draft.Of(t); !ok || seg.Kind != planner.Active || c.Phase(t) != planner.Running ||
				c.Preemptions(t) >= j.most || c.Rand.IntN(3) > 0 {
				continue
			}
			how := planner.Vacate(1 + c.Rand.IntN(3))
			mark := c.Draft.Mark()
			if err := c.Draft.Preempt(t, how); errors.Is(err, planner.ErrKept) {
				if task := c.Task(t); how == planner.Suspend || how == planner.Checkpoint && task.Checkpointable ||
					how == planner.Requeue && task.Restartable {
					return err
				}
			} else if err != nil {
				return err
			} else if c.Rand.IntN(4) == 0 {
				c.Draft.Rollback(mark)
			}
		}
	}
	for _, w := range c.Present() {
		for _, t := range c.Workflow(w).Tasks {
			if p := c.Phase(t); p != planner.Ready && p != planner.Suspended || !c.Unplaced(t) {
				continue
			}
			first := c.Rand.IntN(len(c.Nodes()))
			for i := range c.Nodes() {
				n := planner.NodeID((first + i) % len(c.Nodes()))
				site, ok := c.Site(t, n)
				if !ok {
					continue
				}
				start := max(c.Now(), site.From)
				if start > c.Now() {
					if start, ok = c.Draft.Earliest(n, site.More, site.Dur, start); !ok {
						continue
					}
				}
				err := c.Draft.Reserve(planner.Segment{Task: t, Node: n, Hold: site.Need, Start: start,
					End: start.Add(site.Dur)})
				if err == nil {
					break
				}
				if !errors.Is(err, planner.ErrFull) {
					return err
				}
			}
		}
	}
	if len(c.Present()) > 0 {
		c.WakeAt(c.Now().Add(1700 * time.Millisecond))
	}
	return nil
}

func TestPreemptionInEveryWayKeepsTheRules(t *testing.T) {
	suspended, kept, resumed := 0, 0, 0
	for seed := range seedtest.Seeds(t, 300) {
		for _, ev := range newTrial(t, "juggler", juggler{3}, seed, ends).run(t).events {
			switch b := ev.Body.(type) {
			case planner.AttemptSuspended:
				suspended++
			case planner.AttemptResumed:
				resumed++
			case *planner.AttemptExited:
				if b.Kept > 0 {
					kept++
				}
			}
		}
	}
	if enough := seedtest.Times(100); suspended < enough || resumed < enough || kept < enough {
		t.Fatalf("only %d suspensions, %d resumptions and %d checkpoints: the test shows too little", suspended,
			resumed, kept)
	}
}

func TestRestartInTheMiddleOfAnyPreemption(t *testing.T) {
	for seed := range seedtest.Seeds(t, 12, 1406599171) {
		juggles := func() planner.Policy { return juggler{3} }
		restartWith(t, "juggler", juggles, juggles, seed)
	}
}

// pauser starts a task, freezes it a second later, and has it continue 4 seconds later.
type pauser struct{}

func (pauser) Suspends() {}

func (pauser) Plan(_ context.Context, c *planner.Cycle) error {
	site, _ := c.Site(0, 0)
	stay := planner.Segment{Hold: site.Need, Start: c.Now(), End: c.Now().Add(site.Dur)}
	if c.WakeAt(5e9); c.Now() < 1e9 {
		c.WakeAt(1e9)
	}
	switch phase := c.Phase(0); {
	case phase == planner.Running && c.Now() >= 1e9 && c.Preemptions(0) == 0:
		return c.Draft.Preempt(0, planner.Suspend)
	case phase == planner.Ready, phase == planner.Suspended && c.Now() >= 5e9:
		return c.Draft.Reserve(stay)
	}
	return nil
}

// No log has when a policy wants to be asked again, so a run plans once it is resumed: nothing else may ever happen, as
// where all that is under way is frozen.
func TestAResumedRunPlansAtOnce(t *testing.T) {
	p := &planner.Platform{Groups: []string{""}, Nodes: []planner.Node{{Name: "n", Speed: 1,
		Capacity: unit.Vector{1000, 1 << 30, unit.Unlimited}}}}
	var log []executor.Batch
	run := func(past []executor.Batch, subs ...executor.Submission) string {
		var from planner.Time
		if len(past) > 0 {
			events := past[len(past)-1].Events
			from = events[len(events)-1].At
		}
		declared := &predict.Declared{}
		e := &executor.Engine{Arrivals: subs,
			Planner: planner.New(p, planner.DefaultRetryRules(), pauser{}, declared, 1),
			Admit: &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Declare: declared.Declare,
				Forget: declared.Forget},
			Runtime: adopting{sim.New(sim.Config{Platform: p, Start: from})}}
		var what string
		see := func(events []planner.Event) {
			for _, ev := range events {
				switch ev.Body.(type) {
				case planner.AttemptSuspended, planner.AttemptResumed:
					what += fmt.Sprintf("%v %T, ", ev.At, ev.Body)
				}
			}
		}
		for _, b := range past {
			must(t, e.Replay(b))
			see(b.Events)
		}
		e.Watch = func(_ planner.View, events []planner.Event, admitted []*executor.Admission) {
			if past == nil {
				log = append(log, executor.Batch{Events: slices.Clone(events), Admissions: slices.Clone(admitted)})
			}
			see(events)
		}
		if past != nil {
			must(t, e.Recover(t.Context()))
		}
		if _, err := e.Run(t.Context()); err != nil {
			t.Errorf("after %d batches: %v", len(past), err)
		}
		return what
	}
	whole := run(nil, executor.Submission{Name: "w", Workflow: &trace.Workflow{Tasks: []trace.Task{
		{ID: "t", Kind: "k", Cores: 1, Runtime: 20 * time.Second, Retries: -1}}}})
	for cut := 1; cut < len(log); cut++ {
		if got := run(log[:cut]); got != whole {
			t.Errorf("cut after %d of %d batches: %sand whole: %s", cut, len(log), got, whole)
		}
	}
}

// A draft refuses to move what cannot move: a program without checkpoints, and without leave to start again.
func TestAProgramIsFrozenInPlaceUnlessTheUserLetsItRestart(t *testing.T) {
	for _, restart := range []bool{false, true} {
		p := slots(1)
		p.Nodes = p.Nodes[:1]
		w := &trace.Workflow{Name: "w", Tasks: []trace.Task{{ID: "long", Kind: "k", Cores: 1, Runtime: 10 * time.Second,
			Command: []string{"x"}, Image: "i", Retries: -1},
			{ID: "first", Kind: "k", Cores: 1, Runtime: 2 * time.Second, Retries: -1}, {ID: "urgent", Kind: "k",
				Cores: 1, Runtime: time.Second, Retries: -1, Parents: []int32{1}}}}
		w.Tasks[1].Children = []int32{2}
		p.Nodes[0].Capacity[unit.CPU] = 2000
		w.Tasks[2].Cores = 2
		pol := &wayPolicy{t: t, restart: restart}
		e := enginetest.New(t, p, pol, executor.Submission{Name: "w", Workflow: w})
		e.Admit.Preempt = scenario.Preempt{Restart: restart}
		res, err := e.Run(t.Context())
		must(t, err)
		want := 11.0 // frozen at 2, on at 3
		if restart {
			want = 13 // again at 3
		}
		if got := res.Ended.Seconds(); got != want {
			t.Errorf("restart %v: ended at %v, want %v", restart, got, want)
		}
	}
}

// A run that is to start nothing more lets a frozen task continue when what it made room for has ended: nothing else
// would, and its work is kept.
func TestAFrozenTaskEndsInARunThatIsDrained(t *testing.T) {
	p := slots(1)
	p.Nodes = p.Nodes[:1]
	p.Nodes[0].Capacity[unit.CPU] = 2000
	task := func(id string, cores float64, run time.Duration) trace.Task {
		return trace.Task{ID: id, Kind: "k", Cores: cores, Runtime: run, Retries: -1}
	}
	w := &trace.Workflow{Name: "w", Tasks: []trace.Task{task("long", 1, 10*time.Second),
		task("first", 1, 2*time.Second), task("urgent", 2, time.Second), task("later", 2, time.Second)}}
	w.Tasks[0].Command, w.Tasks[0].Image = []string{"x"}, "i"
	for i := range int32(2) {
		w.Tasks[i+1].Children, w.Tasks[i+2].Parents = []int32{i + 2}, []int32{i + 1}
	}
	control := make(chan executor.Control, 1)
	e := enginetest.New(t, p, &wayPolicy{t: t}, executor.Submission{Name: "w", Workflow: w})
	e.Control = control
	var got []string
	e.Watch = func(v planner.View, events []planner.Event, _ []*executor.Admission) {
		for _, ev := range events {
			switch x := ev.Body.(type) {
			case planner.AttemptSuspended:
				control <- executor.Drain
			case *planner.AttemptExited:
				got = append(got, fmt.Sprintf("%s %v %v", w.Tasks[v.Attempt(x.Attempt).Task].ID, ev.At.Seconds(),
					x.Outcome))
			}
		}
	}
	res, err := e.Run(t.Context())
	if err != nil || !res.Interrupted {
		t.Fatal(res, err)
	}
	if want := []string{"first 2 ok", "urgent 3 ok", "long 11 ok"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// wayPolicy preempts task 0 for task 2 as View.Vacates says.
type wayPolicy struct {
	t       *testing.T
	restart bool
}

func (w *wayPolicy) Suspends() {}

func (w *wayPolicy) Plan(ctx context.Context, c *planner.Cycle) error {
	if err := (retain.Drop{}).Retain(c); err != nil {
		return err
	}
	if c.Phase(2) == planner.Ready && c.Unplaced(2) && c.Phase(0) == planner.Running && c.Preemptions(0) == 0 {
		if err := c.Draft.Preempt(0, planner.Checkpoint); !errors.Is(err, planner.ErrKept) {
			w.t.Errorf("a program was asked for a checkpoint: %v", err)
		}
		if err := c.Draft.Preempt(0, planner.Requeue); !w.restart && !errors.Is(err, planner.ErrKept) {
			w.t.Errorf("a program was restarted without leave: %v", err)
		} else if w.restart && err != nil {
			return err
		}
		if !w.restart {
			if err := c.Draft.Preempt(0, c.Vacates(0)); err != nil {
				return err
			}
		}
	}
	for _, t := range []planner.TaskID{2, 1, 0} {
		if p := c.Phase(t); p != planner.Ready && p != planner.Suspended || !c.Unplaced(t) {
			continue
		}
		site, ok := c.Site(t, 0)
		if !ok {
			continue
		}
		err := c.Draft.Reserve(planner.Segment{Task: t, Hold: site.Need, Start: c.Now(), End: c.Now().Add(site.Dur)})
		if err != nil && !errors.Is(err, planner.ErrFull) {
			return err
		}
	}
	return nil
}
