// Package null is the runtime that finishes everything at once: the time of a run on it is gantry's own cost.
package null

import (
	"context"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
)

// Capabilities are those of this runtime.
var Capabilities = executor.Capabilities{Name: "null", Does: "tasks end at once, to measure the cost of gantry itself",
	Adopts: true}

// Runtime implements executor.Runtime on the real clock.
type Runtime struct {
	origin time.Time
	known  []bool // by attempt
	bodies []planner.Body
	out    []planner.Body
}

var _ executor.Recoverer = (*Runtime)(nil)

// New returns a runtime whose clock reads 0 at origin.
func New(origin time.Time) *Runtime { return &Runtime{origin: origin} }

// Now implements executor.Clock.
func (r *Runtime) Now() planner.Time { return planner.Time(time.Since(r.origin)) }

func (r *Runtime) Start(ctx context.Context, l executor.Launch) error {
	if r.know(l.Attempt) {
		return nil
	}
	r.end(&l)
	return nil
}

// Recover implements executor.Recoverer: attempts that were under way end at once, too.
func (r *Runtime) Recover(_ context.Context, live []executor.Launch) error {
	for i := range live {
		r.know(live[i].Attempt)
		r.end(&live[i])
	}
	return nil
}

// end lets an attempt end well.
func (r *Runtime) end(l *executor.Launch) {
	now := r.Now()
	var read, copied unit.Bytes
	for _, f := range l.Spec.Inputs {
		read += f.Size
	}
	for _, f := range l.Fetch {
		copied += f.Spec.Size
	}
	if !l.Started {
		r.bodies = append(r.bodies, planner.AttemptStarted{Attempt: l.Attempt})
	}
	r.bodies = append(r.bodies, &planner.AttemptExited{Attempt: l.Attempt, Outcome: planner.OK,
		Usage: planner.Usage{Queued: l.Queued, Staged: now, Created: now, Started: now, Ended: now, InputBytes: read,
			CopiedBytes: copied + l.Ahead, Missing: planner.CountersAll}})
}

// know notes an attempt, and reports whether it was known.
func (r *Runtime) know(a planner.AttemptID) bool {
	r.known = planner.Extend(r.known, int(a)+1)
	was := r.known[a]
	r.known[a] = true
	return was
}

func (r *Runtime) Copy(ctx context.Context, c executor.Copy) error {
	r.bodies = append(r.bodies, planner.FileAppeared{File: c.File, Node: c.To})
	return nil
}

// Suspend implements executor.Runtime: every attempt has ended already.
func (r *Runtime) Suspend(ctx context.Context, a planner.AttemptID) error { return nil }

func (r *Runtime) Resume(ctx context.Context, a planner.AttemptID) error { return nil }

func (r *Runtime) Kill(ctx context.Context, a planner.AttemptID, why planner.Outcome, grace time.Duration) error {
	return nil
}

func (r *Runtime) Checkpoint(ctx context.Context, a planner.AttemptID, grace time.Duration) error {
	return nil
}

func (r *Runtime) Forget(ctx context.Context, a planner.AttemptID) error { return nil }

func (r *Runtime) Close() error { return nil }

func (r *Runtime) Next(ctx context.Context, until planner.Time) ([]planner.Body, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(r.bodies) > 0 {
		r.bodies, r.out = r.out[:0], r.bodies
		return r.out, nil
	}
	var timer <-chan time.Time
	if until != unit.Never {
		timer = time.After(until.Sub(r.Now()))
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer:
		return nil, nil
	}
}
