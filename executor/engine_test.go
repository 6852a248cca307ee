package executor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/predict"
	"gantry/planner/unit"
	"gantry/trace"
)

// bag is a workflow of independent tasks of a second each, the first of which has a child.
func bag(n int) *trace.Workflow {
	w := &trace.Workflow{Name: "bag"}
	for i := range n {
		w.Tasks = append(w.Tasks, trace.Task{ID: fmt.Sprint("t", i), Kind: "k", Cores: 1, Runtime: time.Second,
			Retries: -1})
	}
	w.Tasks = append(w.Tasks, trace.Task{ID: "child", Kind: "k", Cores: 1, Runtime: time.Second, Retries: -1,
		Parents: []int32{0}})
	w.Tasks[0].Children = []int32{int32(n)}
	return w
}

type bench struct {
	*executor.Engine
	outcomes map[string][]planner.Outcome
	memory   map[string][]int64 // what each attempt held
}

func newBench(t *testing.T, cores int64, fault func(l *executor.Launch) (planner.Outcome, float64),
	subs ...executor.Submission) *bench {
	t.Helper()
	p := &planner.Platform{Nodes: []planner.Node{{Name: "n", Speed: 1, Capacity: unit.Vector{cores * 1000, 1 << 30,
		unit.Unlimited}}}}
	b := &bench{outcomes: map[string][]planner.Outcome{}, memory: map[string][]int64{}}
	declared := &predict.Declared{}
	b.Engine = enginetest.With(t, p, enginetest.Policy(t, "gbf:pick=first"), declared, subs...)
	b.Admit.Forget, b.Runtime = declared.Forget, sim.New(sim.Config{Platform: p, Fault: fault})
	tellExits(b.Engine, func(task string, a *planner.Attempt, x *planner.AttemptExited) {
		b.outcomes[task] = append(b.outcomes[task], x.Outcome)
		b.memory[task] = append(b.memory[task], a.Hold[unit.Memory])
	})
	return b
}

// tellExits has an engine tell how attempts ended, with the names of their tasks.
func tellExits(e *executor.Engine, tell func(task string, a *planner.Attempt, x *planner.AttemptExited)) {
	var names []string
	e.Watch = func(v planner.View, events []planner.Event, admitted []*executor.Admission) {
		for _, a := range admitted {
			for _, s := range a.Tasks {
				names = append(names, s.Name)
			}
		}
		for _, ev := range events {
			if x, ok := ev.Body.(*planner.AttemptExited); ok {
				a := v.Attempt(x.Attempt)
				tell(names[a.Task], a, x)
			}
		}
	}
}

func failing(name string, o planner.Outcome, tries int32) func(l *executor.Launch) (planner.Outcome, float64) {
	return func(l *executor.Launch) (planner.Outcome, float64) {
		if l.Spec.Name == name && l.Try <= tries {
			return o, 0.5
		}
		return planner.OK, 0
	}
}

func TestAFailedTaskStopsItsDescendantsOnly(t *testing.T) {
	b := newBench(t, 1, failing("t0", planner.ExitCode, 9), executor.Submission{Name: "bag", Workflow: bag(4)})
	enginetest.Run(t, b.Engine)
	left, failed := b.Planner.View().Progress(0)
	if left != 0 || failed != 2 || len(b.outcomes["t3"]) != 1 || len(b.outcomes["child"]) != 0 {
		t.Fatalf("%d left, %d failed or skipped, outcomes %v", left, failed, b.outcomes)
	}
}

func TestFailFastStartsNothingMore(t *testing.T) {
	b := newBench(t, 1, failing("t0", planner.ExitCode, 9), executor.Submission{Name: "bag", Workflow: bag(4)},
		executor.Submission{Name: "later", At: 100e9, Workflow: bag(4)})
	b.FailFast = true
	enginetest.Run(t, b.Engine)
	if len(b.outcomes) != 1 {
		t.Fatalf("more than t0 ran: %v", b.outcomes)
	}
}

func TestOutOfMemoryGrowsMemoryOnlyThen(t *testing.T) {
	w := bag(1)
	w.Tasks[0].MemoryBytes = 100 << 20
	b := newBench(t, 1, failing("t0", planner.OutOfMemory, 1), executor.Submission{Name: "bag", Workflow: w})
	enginetest.Run(t, b.Engine)
	m := b.memory["t0"]
	if len(m) != 2 || m[1] != 2*m[0] {
		t.Fatalf("held %v", m)
	}
	b = newBench(t, 1, failing("t0", planner.Lost, 1), executor.Submission{Name: "bag", Workflow: w})
	enginetest.Run(t, b.Engine)
	if m := b.memory["t0"]; len(m) != 2 || m[1] != m[0] {
		t.Fatalf("held %v after a loss", m)
	}
	b = newBench(t, 1, failing("t0", planner.OutOfMemory, 1), executor.Submission{Name: "bag", Workflow: w})
	b.Admit.Memory = func(string, unit.Vector, unit.Bytes) (limit, next unit.Bytes, ok bool) {
		return 40 << 20, 90 << 20, true
	}
	enginetest.Run(t, b.Engine)
	if m := b.memory["t0"]; !slices.Equal(m, []int64{40 << 20, 90 << 20}) {
		t.Fatalf("held %v, where 40 MiB are predicted, and 90 if that is not enough", m)
	}
}

func TestRetriesEnd(t *testing.T) {
	for o, attempts := range map[planner.Outcome]int{planner.ExitCode: 1, planner.TimedOut: 1, planner.HostError: 3,
		planner.Killed: 2, planner.OutOfMemory: 3, planner.OutputMissing: 1} {
		b := newBench(t, 1, failing("t0", o, 99), executor.Submission{Name: "bag", Workflow: bag(1)})
		enginetest.Run(t, b.Engine)
		want := attempts
		if o == planner.OutOfMemory {
			want = 1 // its share is all the memory of the node: there is nothing to grow to
		}
		if len(b.outcomes["t0"]) != want {
			t.Errorf("%v: %d attempts, want %d", o, len(b.outcomes["t0"]), want)
		}
	}
}

// The first signal lets what runs end, the second ends it; both leave the rest for later.
func TestControlEndsARunEarly(t *testing.T) {
	for _, c := range []struct {
		controls []executor.Control
		want     planner.Outcome
	}{{[]executor.Control{executor.Drain}, planner.OK}, {[]executor.Control{executor.Drain, executor.Stop},
		planner.Preempted}, {[]executor.Control{executor.Abort}, planner.Preempted}} {
		b := newBench(t, 1, nil, executor.Submission{Name: "bag", Workflow: bag(4)})
		control := make(chan executor.Control, 3)
		b.Control = control
		watch := b.Watch
		b.Watch = func(v planner.View, events []planner.Event, admitted []*executor.Admission) {
			watch(v, events, admitted)
			if _, ok := events[0].Body.(planner.AttemptStarted); ok {
				for _, x := range c.controls {
					control <- x
				}
				c.controls = nil
			}
		}
		res, err := b.Run(t.Context())
		must(t, err)
		if !res.Interrupted || len(b.outcomes) != 1 || b.outcomes["t0"][0] != c.want {
			t.Errorf("interrupted %v, outcomes %v, want %v", res.Interrupted, b.outcomes, c.want)
		}
	}
}

func TestASubmissionThatDoesNotFitIsRefusedWithItsReason(t *testing.T) {
	w := bag(1)
	w.Tasks[0].Cores, w.Tasks[0].Line, w.Source = 3, 17, "big.dax"
	b := newBench(t, 2, nil, executor.Submission{Name: "big", Workflow: w}, executor.Submission{Name: "bag",
		Workflow: bag(2)})
	res, err := b.Run(t.Context())
	must(t, err)
	if len(res.Refused) != 1 || !strings.Contains(res.Refused[0].Error(), "big.dax, line 17") ||
		!strings.Contains(res.Refused[0].Error(), "largest node has 2") {
		t.Fatalf("refused %v", res.Refused)
	}
	if len(b.outcomes) != 3 {
		t.Fatalf("the other workflow did not run: %v", b.outcomes)
	}
}

// A node that is lost ends a run with an error that names a task, instead of waiting for ever.
func TestARunThatCanNotGoOnSaysSo(t *testing.T) {
	b := newBench(t, 1, nil, executor.Submission{Name: "bag", Workflow: bag(2)})
	b.Runtime = &lossy{Runtime: b.Runtime}
	_, err := b.Run(t.Context())
	if !errors.Is(err, executor.ErrStuck) || !strings.Contains(err.Error(), "task t") {
		t.Fatalf("error %v", err)
	}
}

// lossy loses the only node as soon as something has started.
type lossy struct {
	executor.Runtime
	lost bool
}

func (l *lossy) Next(ctx context.Context, until planner.Time) ([]planner.Body, error) {
	bodies, err := l.Runtime.Next(ctx, until)
	if !l.lost && len(bodies) > 0 {
		l.lost = true
		bodies = append([]planner.Body{planner.NodeChanged{Node: 0}}, bodies...)
	}
	return bodies, err
}

// A run that was drained has nothing under way: resumed, it plans what is left.
func TestADrainedRunGoesOnWhenResumed(t *testing.T) {
	var log []executor.Batch
	keep := func(b *bench) {
		watch := b.Watch
		b.Watch = func(v planner.View, events []planner.Event, admitted []*executor.Admission) {
			watch(v, events, admitted)
			log = append(log, executor.Batch{Events: append([]planner.Event(nil), events...),
				Admissions: append([]*executor.Admission(nil), admitted...)})
		}
	}
	first := newBench(t, 1, nil, executor.Submission{Name: "bag", Workflow: bag(4)})
	keep(first)
	control := make(chan executor.Control, 1)
	first.Control = control
	watch := first.Watch
	first.Watch = func(v planner.View, events []planner.Event, admitted []*executor.Admission) {
		watch(v, events, admitted)
		if _, ok := events[0].Body.(planner.AttemptStarted); ok && len(control) == 0 {
			control <- executor.Drain
		}
	}
	if res, err := first.Run(t.Context()); err != nil || !res.Interrupted {
		t.Fatal(res, err)
	}
	second := newBench(t, 1, nil)
	for _, b := range log {
		must(t, second.Replay(b))
	}
	must(t, second.Recover(t.Context()))
	second.Watch = nil
	enginetest.Run(t, second.Engine)
	if left, failed := second.Planner.View().Progress(0); left != 0 || failed != 0 {
		t.Fatalf("%d left, %d failed", left, failed)
	}
}

// A workflow that cannot be drawn when it arrives is refused like one that cannot run; the others continue.
func TestWorkflowsAreDrawnOnArrival(t *testing.T) {
	drawn := 0
	draw := func(s *executor.Submission) error {
		if drawn++; s.Name == "none" {
			return errors.New("w.yaml:3: it cannot be drawn")
		}
		s.Workflow = bag(2)
		return nil
	}
	b := newBench(t, 4, nil, executor.Submission{Name: "a", Draw: draw}, executor.Submission{Name: "none", At: 5e9,
		Draw: draw},
		executor.Submission{Name: "b", At: 10e9, Draw: draw})
	watch := b.Watch
	b.Watch = func(v planner.View, events []planner.Event, admitted []*executor.Admission) {
		watch(v, events, admitted)
		if want := map[bool]int{true: 1, false: 3}[v.Now() < 5e9]; drawn != want {
			t.Errorf("%d workflows were drawn by %v, want %d", drawn, v.Now(), want)
		}
	}
	res, err := b.Run(t.Context())
	if err != nil || res.Ended != 12e9 || len(res.Refused) != 1 ||
		res.Refused[0].Error() != "w.yaml:3: it cannot be drawn" {
		t.Errorf("%+v, %v", res, err)
	}
}

// batches keeps what the engine logged, but for what it does to them afterwards.
type batches []executor.Batch

func (s *batches) Append(_ context.Context, b executor.Batch) error {
	*s = append(*s, executor.Batch{Events: slices.Clone(b.Events), Admissions: slices.Clone(b.Admissions)})
	return nil
}

// A large workflow is logged before it is planned, so that its trace leaves memory. A run that ended between the two
// continues.
func TestALargeWorkflowIsLoggedBeforeItIsPlanned(t *testing.T) {
	const tasks = 2500
	var log batches
	first := newBench(t, 100, failing("", 0, 0), executor.Submission{Name: "bag", Workflow: bag(tasks)})
	first.Store = &log
	enginetest.Run(t, first.Engine)
	if n := len(log[0].Events); n != 1 || log[0].Events[0].Body.Kind() != planner.KindWorkflowArrived {
		t.Fatalf("the first batch has %d events, the first of kind %v", n, log[0].Events[0].Body.Kind())
	}
	if log[1].Events[0].Body.Kind() != planner.KindPlanCommitted || log[1].Events[0].At != log[0].Events[0].At {
		t.Fatalf("the second batch begins with %v", log[1].Events[0])
	}
	again := newBench(t, 100, failing("", 0, 0))
	again.Watch = nil // it was told of the arrival before
	must(t, again.Replay(log[0]))
	must(t, again.Recover(t.Context()))
	result, err := again.Run(t.Context())
	if left, failed := again.Planner.View().Progress(0); err != nil || left != 0 || failed != 0 {
		t.Fatalf("%d left, %d failed, %v", left, failed, err)
	}
	if want := first.Planner.View().Now(); result.Ended != want {
		t.Errorf("it ends at %v instead of %v", result.Ended, want)
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
