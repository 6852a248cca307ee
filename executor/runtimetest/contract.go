// Package runtimetest is the contract of executor.Runtime: every runtime passes it.
package runtimetest

import (
	"context"
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
)

// Work is the work of a task of the suite.
type Work uint8

const (
	Short   Work = iota // ends well, soon
	Long                // would take minutes
	Failing             // ends with exit code 1
	Steady              // would take a minute; can leave a checkpoint at any time
	Held                // ends well, soon after Setup.Release
)

// Setup is a fresh runtime and its fixtures. The platform has at least one node.
type Setup struct {
	Runtime executor.Runtime
	// Capabilities are those that the runtime declares: the suite holds it to them.
	Capabilities *executor.Capabilities
	Nodes        int
	Hold         unit.Vector
	// Task makes a task of that kind; nil if the runtime has none, as one that finishes everything at once has no long
	// ones.
	Task func(t *testing.T, w Work) *executor.TaskSpec
	// Release lets a Held task end; nil if it ends by itself, in some seconds of the runtime's time.
	Release func(t *testing.T, held *executor.TaskSpec)
	// File makes a file that lies on node 0 and can be copied; nil if the platform has one node.
	File     func(t *testing.T) *executor.FileSpec
	Workflow *executor.WorkflowSpec // of the file
}

// Main is TestMain of packages whose tests mostly wait for containers: more of them at once than processors.
func Main(m *testing.M) { os.Exit(SideBySide(m)) }

// SideBySide runs the tests so.
func SideBySide(m *testing.M) int {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	return m.Run()
}

// Run tests the runtimes that setup makes, one each time it is called.
func Run(t *testing.T, setup func(t *testing.T) Setup) {
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.holds(open(t, setup))
		})
	}
	for _, how := range []string{"suspended", "elsewhere"} {
		t.Run("a checkpoint keeps what was done, "+how, func(t *testing.T) {
			t.Parallel()
			checkpointKeeps(t, setup, how == "suspended")
		})
	}
}

var contract = []struct {
	name  string
	holds func(h *harness)
}{
	{"does what it declares", func(h *harness) {
		c := h.Capabilities
		if c == nil || c.Name == "" {
			h.t.Fatal("it declares no capabilities")
		}
		if _, ok := h.Runtime.(executor.Recoverer); ok != c.Adopts {
			h.t.Errorf("adopts attempts: it declares %v, and is %v", c.Adopts, ok)
		}
		if _, ok := h.Runtime.(executor.Instant); ok != c.Virtual {
			h.t.Errorf("virtual time: it declares %v, and is %v", c.Virtual, ok)
		}
		if c.Suspends != (h.Task(h.t, Long) != nil) || c.Checkpoints != (h.Task(h.t, Steady) != nil) {
			h.t.Error("tasks to suspend and to checkpoint have to be there if it can do that, and only then")
		}
	}},
	{"starts then ends, once, however often it is started", func(h *harness) {
		l := h.start(0, Short)
		h.must(h.Runtime.Start(h.ctx, l))
		x := h.untilExit(0)
		h.settle()
		if x.Outcome != planner.OK || x.ExitCode != 0 {
			h.t.Fatalf("outcome %v, exit code %d, %s", x.Outcome, x.ExitCode, x.Message)
		}
		if h.started[0] != 1 || h.exited[0] != 1 {
			h.t.Fatalf("started %d times, ended %d times", h.started[0], h.exited[0])
		}
		u := x.Usage
		if u.Staged < u.Queued || u.Created < u.Staged || u.Started < u.Created || u.Ended < u.Started {
			h.t.Fatalf("instants out of order: %+v", u)
		}
	}},
	{"several at once, of which one fails", func(h *harness) {
		for a := range planner.AttemptID(2) {
			h.start(a, Short)
		}
		if h.Task(h.t, Failing) != nil {
			h.start(2, Failing)
			if x := h.untilExit(2); x.Outcome != planner.ExitCode || x.ExitCode != 1 {
				h.t.Errorf("outcome %v, exit code %d, %s", x.Outcome, x.ExitCode, x.Message)
			}
		}
		for a := range planner.AttemptID(2) {
			if x := h.untilExit(a); x.Outcome != planner.OK {
				h.t.Errorf("attempt %d: outcome %v, %s", a, x.Outcome, x.Message)
			}
		}
	}},
	{"kill ends it as asked", func(h *harness) {
		for i, grace := range []time.Duration{0, time.Second} {
			a := planner.AttemptID(i)
			h.start(a, Long)
			h.untilStarted(a)
			h.must(h.Runtime.Kill(h.ctx, a, planner.Preempted, grace))
			h.must(h.Runtime.Kill(h.ctx, a, planner.Preempted, grace))
			if x := h.untilExit(a); x.Outcome != planner.Preempted {
				h.t.Fatalf("outcome %v, %s", x.Outcome, x.Message)
			}
			h.must(h.Runtime.Kill(h.ctx, a, planner.Preempted, grace))
			h.settle()
			if h.exited[a] != 1 {
				h.t.Fatalf("ended %d times", h.exited[a])
			}
		}
	}},
	{"kill before it runs", func(h *harness) {
		h.start(0, Long)
		h.must(h.Runtime.Kill(h.ctx, 0, planner.Preempted, 0))
		if x := h.untilExit(0); x.Outcome != planner.Preempted {
			h.t.Fatalf("outcome %v, %s", x.Outcome, x.Message)
		}
	}},
	{"suspend and resume", func(h *harness) {
		h.start(0, Long)
		h.untilStarted(0)
		for range 2 {
			h.must(h.Runtime.Suspend(h.ctx, 0))
			h.must(h.Runtime.Suspend(h.ctx, 0))
			h.until("suspended", func(b planner.Body) bool { return b == planner.AttemptSuspended{Attempt: 0} })
			h.must(h.Runtime.Resume(h.ctx, 0))
			h.must(h.Runtime.Resume(h.ctx, 0))
			h.until("resumed", func(b planner.Body) bool { return b == planner.AttemptResumed{Attempt: 0} })
		}
		h.must(h.Runtime.Kill(h.ctx, 0, planner.Preempted, 0))
		h.untilExit(0)
	}},
	{"kill while suspended", func(h *harness) {
		h.start(0, Long)
		h.untilStarted(0)
		h.must(h.Runtime.Suspend(h.ctx, 0))
		h.until("suspended", func(b planner.Body) bool { return b == planner.AttemptSuspended{Attempt: 0} })
		h.must(h.Runtime.Kill(h.ctx, 0, planner.Killed, 0))
		if x := h.untilExit(0); x.Outcome != planner.Killed {
			h.t.Fatalf("outcome %v", x.Outcome)
		}
	}},
	{"a suspension keeps what was done", func(h *harness) {
		held := h.start(0, Held).Spec
		h.untilStarted(0)
		h.pass()
		h.must(h.Runtime.Suspend(h.ctx, 0))
		h.until("suspended", func(b planner.Body) bool { return b == planner.AttemptSuspended{Attempt: 0} })
		frozen := h.Runtime.Now()
		if h.Release != nil {
			h.Release(h.t, held)
		}
		h.pass()
		h.pass()
		if h.exited[0] > 0 {
			h.t.Fatal("it ended while it was suspended")
		}
		suspended := h.Runtime.Now().Sub(frozen) // at least
		h.must(h.Runtime.Resume(h.ctx, 0))
		h.until("resumed", func(b planner.Body) bool { return b == planner.AttemptResumed{Attempt: 0} })
		x := h.untilExit(0)
		if x.Outcome != planner.OK {
			h.t.Fatalf("outcome %v, %s", x.Outcome, x.Message)
		}
		if whole := x.Usage.Ended.Sub(x.Usage.Started); x.Ran > whole-suspended || x.Ran <= 0 {
			h.t.Fatalf("ran %v of %v, of which it was suspended for %v", x.Ran, whole, suspended)
		}
	}},
	{"a kill keeps nothing", func(h *harness) {
		h.start(0, Steady)
		h.untilStarted(0)
		h.pass()
		h.must(h.Runtime.Kill(h.ctx, 0, planner.Preempted, 10*time.Second))
		if x := h.untilExit(0); x.Outcome != planner.Preempted || x.Kept != 0 {
			h.t.Fatalf("outcome %v, kept %v, %s", x.Outcome, x.Kept, x.Message)
		}
	}},
	{"what ends meanwhile ends once, and well or preempted", func(h *harness) {
		h.start(0, Short)
		h.start(1, Short)
		h.must(h.Runtime.Checkpoint(h.ctx, 0, 10*time.Second))
		h.untilExit(1)
		h.must(h.Runtime.Checkpoint(h.ctx, 1, 10*time.Second))
		h.must(h.Runtime.Suspend(h.ctx, 1))
		h.must(h.Runtime.Resume(h.ctx, 1))
		if x := h.untilExit(0); x.Outcome != planner.OK && x.Outcome != planner.Preempted {
			h.t.Fatalf("outcome %v, %s", x.Outcome, x.Message)
		}
		h.settle()
		if h.exited[0] != 1 || h.exited[1] != 1 {
			h.t.Fatalf("ended %d and %d times", h.exited[0], h.exited[1])
		}
	}},
	{"orders for what is not there are no errors", func(h *harness) {
		h.must(h.Runtime.Suspend(h.ctx, 7))
		h.must(h.Runtime.Resume(h.ctx, 7))
		h.must(h.Runtime.Checkpoint(h.ctx, 7, time.Second))
		h.must(h.Runtime.Kill(h.ctx, 7, planner.Preempted, 0))
		h.must(h.Runtime.Forget(h.ctx, 7))
	}},
	{"next returns when its time has come", func(h *harness) {
		until := h.Runtime.Now().Add(20 * time.Millisecond)
		bodies, err := h.Runtime.Next(h.ctx, until)
		h.must(err)
		if len(bodies) != 0 || h.Runtime.Now() < until {
			h.t.Fatalf("%d bodies at %v, wanted none at %v", len(bodies), h.Runtime.Now(), until)
		}
	}},
	{"next ends with its context", func(h *harness) {
		ctx, cancel := context.WithCancel(h.ctx)
		cancel()
		if _, err := h.Runtime.Next(ctx, h.Runtime.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
			h.t.Fatalf("error %v", err)
		}
	}},
	{"a copy appears", func(h *harness) {
		if h.File == nil {
			h.t.Skip("this platform has one node: nothing to copy between")
		}
		f := h.File(h.t)
		h.must(h.Runtime.Copy(h.ctx, executor.Copy{File: f.ID, Spec: f, Workflow: h.Workflow, From: 0, To: 1}))
		h.until("appeared", func(b planner.Body) bool { return b == planner.FileAppeared{File: f.ID, Node: 1} })
	}},
}

// checkpointKeeps checks that an attempt continues from what another did, which was suspended or was elsewhere.
func checkpointKeeps(t *testing.T, setup func(t *testing.T) Setup, suspended bool) {
	var h *harness
	var l executor.Launch
	var first *planner.AttemptExited
	// On a starved host a task may not have begun to compute when it is to leave a checkpoint: then with more
	// patience.
	for patience := 1; first == nil || first.Kept == 0 && patience <= 32; patience *= 2 {
		h = open(t, setup)
		l = h.start(0, Steady)
		h.untilStarted(0)
		for range patience {
			h.pass()
		}
		if suspended {
			h.must(h.Runtime.Suspend(h.ctx, 0))
			h.until("suspended", func(b planner.Body) bool { return b == planner.AttemptSuspended{Attempt: 0} })
		}
		h.must(h.Runtime.Checkpoint(h.ctx, 0, time.Minute))
		h.must(h.Runtime.Checkpoint(h.ctx, 0, time.Minute))
		if first = h.untilExit(0); first.Outcome != planner.Preempted {
			break
		}
	}
	if first.Outcome != planner.Preempted || first.Kept <= 0 || first.Kept >= 1 {
		t.Fatalf("outcome %v, kept %v, %s", first.Outcome, first.Kept, first.Message)
	}
	l.From = &executor.Checkpoint{Try: 1, Node: l.Node, Done: first.Kept, In: first.Ran, Size: l.Keeps.Size}
	if !suspended {
		l.Node = planner.NodeID(h.Nodes - 1)
	}
	var second *planner.AttemptExited
	for patience := 0; second == nil || second.Kept == 0 && patience < 32; patience = 2*patience + 1 {
		l.Attempt, l.Try, l.Queued = l.Attempt+1, l.Try+1, h.Runtime.Now()
		h.must(h.Runtime.Start(h.ctx, l))
		h.untilStarted(l.Attempt)
		for range patience {
			h.pass()
		}
		h.must(h.Runtime.Checkpoint(h.ctx, l.Attempt, time.Minute))
		if second = h.untilExit(l.Attempt); second.Outcome != planner.Preempted {
			break
		}
	}
	if second.Outcome != planner.Preempted || second.Kept < first.Kept {
		t.Fatalf("outcome %v, kept %v after %v, %s", second.Outcome, second.Kept, first.Kept,
			second.Message)
	}
	l.From = &executor.Checkpoint{Try: l.Try, Node: l.Node, Done: second.Kept, In: first.Ran + second.Ran,
		Size: l.Keeps.Size}
	l.Attempt, l.Try, l.Queued = l.Attempt+1, l.Try+1, h.Runtime.Now()
	rest := *l.Spec // the rest is a fraction: of less work it is soon done
	rest.Run /= 100
	l.Spec = &rest
	h.must(h.Runtime.Start(h.ctx, l))
	if x := h.untilExit(l.Attempt); x.Outcome != planner.OK || x.Kept != 0 {
		t.Fatalf("outcome %v, kept %v, %s", x.Outcome, x.Kept, x.Message)
	}
}

type harness struct {
	Setup
	t       *testing.T
	ctx     context.Context
	started map[planner.AttemptID]int
	exited  map[planner.AttemptID]int
	exits   map[planner.AttemptID]*planner.AttemptExited
	pending []planner.Body
}

func open(t *testing.T, setup func(t *testing.T) Setup) *harness {
	h := &harness{Setup: setup(t), t: t, ctx: t.Context(), started: map[planner.AttemptID]int{},
		exited: map[planner.AttemptID]int{}, exits: map[planner.AttemptID]*planner.AttemptExited{}}
	t.Cleanup(func() {
		if err := h.Runtime.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h
}

func (h *harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) start(a planner.AttemptID, w Work) executor.Launch {
	h.t.Helper()
	spec := h.Task(h.t, w)
	if spec == nil {
		h.t.Skip("this runtime has no such task")
	}
	l := executor.Launch{Attempt: a, Task: planner.TaskID(a), Try: 1, Hold: h.Hold, Queued: h.Runtime.Now(), Spec: spec}
	if w == Steady {
		l.Keeps = &executor.Keeping{Size: 10_000}
	}
	h.must(h.Runtime.Start(h.ctx, l))
	return l
}

// until lets time pass until a body satisfies f, and forgets an attempt when it ends, as the engine does.
func (h *harness) until(what string, f func(planner.Body) bool) {
	h.t.Helper()
	for range 10_000 {
		for i, b := range h.pending {
			if f(b) {
				h.pending = h.pending[i+1:]
				return
			}
		}
		h.pending = nil
		if h.next(h.Runtime.Now().Add(3*time.Minute)) == 0 {
			h.t.Fatalf("%s: nothing happened for three minutes", what)
		}
	}
	h.t.Fatalf("%s: it never happened", what)
}

// next takes in events. The clock never goes back.
func (h *harness) next(until planner.Time) (bodies int) {
	h.t.Helper()
	before := h.Runtime.Now()
	all, err := h.Runtime.Next(h.ctx, until)
	h.must(err)
	if now := h.Runtime.Now(); now < before {
		h.t.Fatalf("%v after %v", now, before)
	}
	for _, b := range all {
		h.pending = append(h.pending, b)
		switch b := b.(type) {
		case planner.AttemptStarted:
			h.started[b.Attempt]++
		case *planner.AttemptExited:
			h.exited[b.Attempt]++
			h.exits[b.Attempt] = b
			h.must(h.Runtime.Forget(h.ctx, b.Attempt))
		}
	}
	return len(all)
}

func (h *harness) untilStarted(a planner.AttemptID) {
	h.t.Helper()
	h.until("started", func(b planner.Body) bool { return b == planner.AttemptStarted{Attempt: a} })
}

func (h *harness) untilExit(a planner.AttemptID) *planner.AttemptExited {
	h.t.Helper()
	if h.exits[a] == nil {
		h.until("ended", func(b planner.Body) bool { x, ok := b.(*planner.AttemptExited); return ok && x.Attempt == a })
	}
	return h.exits[a]
}

// pass lets a while pass.
func (h *harness) pass() {
	for end := h.Runtime.Now().Add(700 * time.Millisecond); h.Runtime.Now() < end; {
		h.next(end)
	}
}

// settle takes in the events that still come at once.
func (h *harness) settle() { h.next(h.Runtime.Now().Add(50 * time.Millisecond)) }
