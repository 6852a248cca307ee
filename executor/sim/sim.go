// Package sim is the runtime of simulations: virtual time, true runtimes from the workload, copies at the bandwidth of
// the links. It has two runtimes. Runtime is that of the papers: an attempt has a start and an end, known when it
// begins. Hosted has a model of its host (package hostmodel), whose containers compete for cores and disk. Both write
// the same events as real containers.
//
// Noise is drawn from seed, task, try and phase, never from the order of events: two policies meet the same luck.
// Planning takes no virtual time unless it is charged (executor.Spender): then the clock moves on by the time of each
// round, orders begin after it, and events meanwhile are seen late, with the instants at which they happened.
package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gantry/executor"
	"gantry/executor/emulate"
	"gantry/executor/sim/hostmodel"
	"gantry/planner"
	"gantry/planner/heap"
	"gantry/planner/unit"
)

// Capabilities are those of this runtime.
var Capabilities = executor.Capabilities{Name: "sim", Does: "a simulation in virtual time", Virtual: true,
	Suspends: true, Checkpoints: true}

// Config is the configuration of a simulation.
type Config struct {
	Platform *planner.Platform
	Start    planner.Time  // the clock's first reading
	Startup  time.Duration // from the order to the running program, for every attempt
	// Actual, if set, says how long a task really runs whose workload says run: reality may be uncertain, too.
	Actual func(t planner.TaskID, run time.Duration) time.Duration
	// Fault, if set, may end an attempt badly: by that outcome, after that share of its runtime.
	Fault func(l *executor.Launch) (outcome planner.Outcome, after float64)
	// Measured, if set, may say how an attempt really went, in place of the known runtime of its task, Startup, Actual
	// and Fault.
	Measured func(l *executor.Launch) (m Measured, ok bool)
	// Turns, in order, are instants at which a run arrived or woke that is repeated: a real clock wakes late.
	Turns []planner.Time

	// Host, if set, is the host that containers run on: see Hosted. Nil: ideal machines.
	Host *hostmodel.Model
	// Of simulations with a Host: the containers that start at once (0: executor.Starts), the block I/O limits of each
	// node (nil: none), and whether the times of phases are drawn by Seed; without Noise they are means.
	Starts int
	IO     []emulate.Limits
	Noise  bool
	// Drift, with Noise, is the quantile of how slow the host is for all starts of the run; 0: Seed draws it.
	Drift float64
	Seed  uint64
}

// Measured is how an attempt went in a run that was measured.
type Measured struct {
	Startup time.Duration // from the inputs in place to the running program
	Staged  bool          // inputs take Staging, with or without copies
	Staging time.Duration
	Run     time.Duration // from there until the end was known
	Outcome planner.Outcome
	// Reported, if set, is the usage of an attempt that is neither stopped nor suspended: gantry learns of a start and
	// an end a while later, and estimators learn from usage.
	Reported *Reported
	// CPU is the CPU time of the program, of simulations with a Host, which take no Startup from here: Run is the time
	// of the program alone there, within its limits. 0: it computes all the time, on one core.
	CPU time.Duration
	// Drift is how much of the host's drift, the factor by which starts in this run are slower than usual, the program
	// has, as an exponent: work that is given is done as fast as the host is, a given time passes anyhow. 0: none.
	Drift float64
}

// Reported has the usage of an attempt. Created and Started are so long before the instant at which gantry knew that it
// ran, Ended before the one at which gantry knew of its end; Ran is its runtime.
type Reported struct{ Created, Started, Ended, Ran time.Duration }

// world is what both runtimes have.
type world struct {
	cfg    Config
	now    planner.Time
	seq    uint64
	bodies []planner.Body
}

// Now implements executor.Clock.
func (w *world) Now() planner.Time { return w.now }

// Instant implements executor.Instant.
func (w *world) Instant() bool { return true }

func (w *world) Forget(context.Context, planner.AttemptID) error { return nil }

func (w *world) Close() error { return nil }

// codeOf is the exit code of an attempt that ends so.
func codeOf(o planner.Outcome) int {
	switch o {
	case planner.OK:
		return 0
	case planner.ExitCode:
		return 1
	}
	return -1
}

// Runtime implements executor.Runtime in virtual time.
type Runtime struct {
	world
	queue    heap.Heap[item]
	attempts []*attempt                   // by their numbers; nil: not known yet
	wires    map[[2]planner.GroupID]*wire // shared links
}

// New returns a runtime with nothing in it.
func New(cfg Config) *Runtime {
	return &Runtime{world: world{cfg: cfg, now: cfg.Start}, queue: heap.Heap[item]{Before: (*item).less},
		wires: map[[2]planner.GroupID]*wire{}}
}

type state uint8

const (
	staging state = iota
	running
	suspended
	ended
)

type attempt struct {
	state   state
	version uint32 // of the item in the queue that counts
	outcome planner.Outcome
	left    time.Duration // of the run, when it last started or continued
	whole   time.Duration // run of the whole task on this node
	before  time.Duration // part of whole that earlier attempts did
	kept    float64       // fraction that the checkpoint has which it leaves at its end
	since   planner.Time  // running since
	ran     time.Duration
	queued  planner.Time
	staged  planner.Time // inputs in place
	begins  planner.Time
	told    *Reported
	inputs  unit.Bytes
	copied  unit.Bytes // of these
	moved   unit.Bytes // of its checkpoint

	// On platforms with shared links: what is to be copied yet, then what comes between the last copy and the start.
	legs    []executor.Fetch
	on      *wire // that a copy is on; nil: none
	startup time.Duration
}

// over stands for all attempts that have ended.
var over = &attempt{state: ended}

type kind uint8

// Events of one instant happen in this order.
const (
	passed kind = iota // a copy has left a shared link
	joined             // one comes to it
	exited
	appeared
	resumed
	paused
	started
)

type item struct {
	at      planner.Time
	kind    kind
	seq     uint64
	attempt planner.AttemptID
	version uint32
	file    planner.FileID
	node    planner.NodeID
	flow    *flow // of passed and joined
}

func (a *item) less(b *item) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	if a.kind != b.kind {
		return a.kind < b.kind
	}
	return a.seq < b.seq
}

func (r *Runtime) Start(ctx context.Context, l executor.Launch) error {
	r.attempts = planner.Extend(r.attempts, int(l.Attempt)+1)
	if r.attempts[l.Attempt] != nil {
		return nil
	}
	a := &attempt{outcome: planner.OK}
	r.attempts[l.Attempt] = a
	a.left = l.Spec.TrueRun(l.Node, r.cfg.Platform.Nodes[l.Node].Speed)
	if r.cfg.Actual != nil {
		a.left = r.cfg.Actual(l.Task, a.left)
	}
	a.whole = a.left
	limit, done := l.Spec.TimeLimit, 0.0
	if l.From != nil {
		done = l.From.Done
		a.left = planner.Undone(a.whole, done)
		limit -= min(l.From.In, limit-1)
	}
	if l.Spec.TimeLimit > 0 && a.left > limit {
		a.left, a.outcome = limit, planner.TimedOut
	}
	if r.cfg.Fault != nil {
		launch := l // Fault's argument escapes, and most simulations have no faults
		if o, after := r.cfg.Fault(&launch); o != planner.OK && o != 0 {
			a.left, a.outcome = time.Duration(float64(a.left)*after), o
		}
	}
	startup, inPlace, staging := r.cfg.Startup+l.Spec.Overhead, false, time.Duration(0)
	if r.cfg.Measured != nil {
		launch := l
		if m, ok := r.cfg.Measured(&launch); ok {
			startup, a.left, a.outcome, inPlace, staging = m.Startup, m.Run, m.Outcome, m.Staged, m.Staging
			a.told = m.Reported
			a.whole = planner.Whole(m.Run, done)
		}
	}
	a.before = a.whole - planner.Undone(a.whole, done)
	for _, f := range l.Spec.Inputs {
		a.inputs += f.Size
	}
	a.queued, a.startup, a.copied = l.Queued, startup, l.Ahead
	a.legs = l.Fetch
	for _, f := range l.Fetch {
		a.copied += f.Spec.Size
	}
	if l.From != nil && l.From.Node != l.Node {
		a.moved = l.From.Size
		a.legs = append(slices.Clone(a.legs), executor.Fetch{Spec: &executor.FileSpec{Size: a.moved},
			From: l.From.Node})
	}
	if inPlace {
		r.begin(l.Attempt, a, r.now.Add(staging))
		return nil
	}
	r.stage(l.Attempt, a, l.Node, r.now)
	return nil
}

// stage goes on with the copies of an attempt, one after the other, from an instant on.
func (r *Runtime) stage(id planner.AttemptID, a *attempt, node planner.NodeID, from planner.Time) {
	for len(a.legs) > 0 {
		leg := a.legs[0]
		a.legs = a.legs[1:]
		if r.transfer(leg.Spec.Size, leg.From, node, from, flow{attempt: id, version: a.version, node: node}) {
			return
		}
		from = from.Add(r.cfg.Platform.MoveTime(leg.Spec.Size, leg.From, node))
	}
	r.begin(id, a, from)
}

// begin lets an attempt start that has its inputs from an instant on.
func (r *Runtime) begin(id planner.AttemptID, a *attempt, staged planner.Time) {
	a.staged, a.begins = staged, staged.Add(a.startup)
	r.push(item{at: a.begins, kind: started, attempt: id, version: a.version})
}

// Adopt begins an attempt that a log shows as under way: one that had started does not start again, and has its whole
// runtime to go; one that is suspended stays so.
func (r *Runtime) Adopt(ctx context.Context, l executor.Launch) error {
	if err := r.Start(ctx, l); err != nil || !l.Started {
		return err
	}
	a := r.at(l.Attempt)
	a.version++
	if l.Suspended {
		a.state = suspended
		return nil
	}
	a.state, a.since = running, r.now
	r.push(item{at: r.now.Add(a.left), kind: exited, attempt: l.Attempt, version: a.version})
	return nil
}

func (r *Runtime) Copy(ctx context.Context, c executor.Copy) error {
	if !r.transfer(c.Spec.Size, c.From, c.To, r.now, flow{attempt: planner.None, file: c.File, node: c.To}) {
		r.push(item{at: r.now.Add(r.cfg.Platform.MoveTime(c.Spec.Size, c.From, c.To)), kind: appeared,
			attempt: planner.None, file: c.File, node: c.To})
	}
	return nil
}

func (r *Runtime) Suspend(ctx context.Context, id planner.AttemptID) error {
	a := r.at(id)
	if a == nil || a.state != running {
		return nil
	}
	r.stand(a, r.now)
	a.state = suspended
	a.version++
	r.push(item{at: r.now, kind: paused, attempt: id, version: a.version})
	return nil
}

func (r *Runtime) Resume(ctx context.Context, id planner.AttemptID) error {
	a := r.at(id)
	if a == nil || a.state != suspended {
		return nil
	}
	a.state, a.since = running, r.now
	a.version++
	r.push(item{at: r.now, kind: resumed, attempt: id, version: a.version})
	r.push(item{at: r.now.Add(a.left), kind: exited, attempt: id, version: a.version})
	return nil
}

// Kill implements executor.Runtime. A simulated program heeds SIGTERM at once.
func (r *Runtime) Kill(ctx context.Context, id planner.AttemptID, why planner.Outcome, grace time.Duration) error {
	a := r.at(id)
	if a == nil {
		return nil
	}
	if a.state == running {
		r.stand(a, r.now)
	}
	r.leave(id, a)
	a.state, a.outcome = running, why
	a.since, a.left = r.now, 0
	a.version++
	r.push(item{at: r.now, kind: exited, attempt: id, version: a.version})
	return nil
}

// Checkpoint implements executor.Runtime. A simulated program leaves its checkpoint at once.
func (r *Runtime) Checkpoint(ctx context.Context, id planner.AttemptID, grace time.Duration) error {
	a := r.at(id)
	if a == nil || a.state == staging {
		return r.Kill(ctx, id, planner.Preempted, grace) // nothing was done since the last one
	}
	if r.stand(a, r.now); a.whole > 0 && a.ran > 0 { // a fraction of what was done before may be rounded up
		a.kept = min(1, float64(a.before+a.ran)/float64(a.whole))
	}
	return r.Kill(ctx, id, planner.Preempted, grace)
}

// Spend implements executor.Spender.
func (r *Runtime) Spend(d time.Duration) { r.now = r.now.Add(max(0, d)) }

// Next implements executor.Runtime: it jumps to the next thing that happens, or to until.
func (r *Runtime) Next(ctx context.Context, until planner.Time) ([]planner.Body, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.bodies = r.bodies[:0]
	next := r.next()
	for next != nil && !r.counts(next) {
		r.queue.Pop()
		next = r.next()
	}
	until = max(until, r.now)
	if i, _ := slices.BinarySearch(r.cfg.Turns, until); i < len(r.cfg.Turns) {
		until = r.cfg.Turns[i]
	}
	if next == nil || next.at > until {
		if until == unit.Never {
			return nil, fmt.Errorf("simulation at %v: nothing will happen any more", r.now)
		}
		r.now = until
		return nil, nil
	}
	if r.now = max(r.now, next.at); r.now == unit.Never {
		return nil, fmt.Errorf("simulation: %w", executor.ErrTooLong)
	}
	for next != nil && next.at <= r.now {
		if it := r.queue.Pop(); r.counts(&it) {
			r.happen(&it)
		}
		next = r.next()
	}
	return r.bodies, nil
}

// next is the next event; nil if there is none. It is valid until something is pushed or popped.
func (r *Runtime) next() *item {
	if r.queue.Len() == 0 {
		return nil
	}
	return &r.queue.Items[0]
}

// counts reports whether an item still stands: orders since may have overtaken it.
func (r *Runtime) counts(it *item) bool {
	if it.kind == passed {
		return it.flow.version == it.flow.wire.version
	}
	if it.attempt == planner.None {
		return true
	}
	a := r.at(it.attempt)
	return a != nil && it.version == a.version
}

func (r *Runtime) happen(it *item) {
	a := r.at(it.attempt) // nil of a copy for none
	switch it.kind {
	case passed:
		r.pass(it.flow.wire)
	case joined:
		r.join(it.flow)
	case appeared:
		r.bodies = append(r.bodies, planner.FileAppeared{File: it.file, Node: it.node})
	case started:
		a.state, a.since = running, it.at
		r.bodies = append(r.bodies, planner.AttemptStarted{Attempt: it.attempt})
		r.push(item{at: it.at.Add(a.left), kind: exited, attempt: it.attempt, version: a.version})
	case paused:
		r.bodies = append(r.bodies, planner.AttemptSuspended{Attempt: it.attempt})
	case resumed:
		r.bodies = append(r.bodies, planner.AttemptResumed{Attempt: it.attempt})
	case exited:
		r.stand(a, it.at)
		x := &planner.AttemptExited{}
		x.Attempt, x.Outcome, x.ExitCode, x.Ran, x.Kept = it.attempt, a.outcome, codeOf(a.outcome), a.ran, a.kept
		u := &x.Usage
		u.Queued, u.Staged, u.Created, u.Started, u.Ended = a.queued, a.staged, a.begins, a.begins, it.at
		if a.told != nil && it.version == 0 {
			u.Created, u.Started = u.Started.Add(-a.told.Created), u.Started.Add(-a.told.Started)
			u.Ended, x.Ran = it.at.Add(-a.told.Ended), a.told.Ran
		}
		u.InputBytes, u.CopiedBytes, u.MovedBytes, u.Missing = a.inputs, a.copied, a.moved, planner.CountersAll
		r.bodies = append(r.bodies, x)
		r.attempts[it.attempt] = over
	}
}

// stand takes stock of a running attempt.
func (r *Runtime) stand(a *attempt, at planner.Time) {
	if a.state != running {
		return
	}
	done := min(at.Sub(a.since), a.left)
	a.ran += done
	a.left -= done
	a.since = at
}

// at returns an attempt that is under way; nil for any other.
func (r *Runtime) at(id planner.AttemptID) *attempt {
	if id < 0 || int(id) >= len(r.attempts) || r.attempts[id] == nil || r.attempts[id].state == ended {
		return nil
	}
	return r.attempts[id]
}

func (r *Runtime) push(it item) {
	r.seq++
	it.seq = r.seq
	r.queue.Push(it)
}
