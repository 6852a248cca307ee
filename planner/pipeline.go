package planner

import (
	"context"
	"time"
)

// Pipeline is the usual policy: its phases, in the order in which they run. Q is the part of the queue that the
// allocator needs: the compiler refuses phases that do not fit.
type Pipeline[Q Queue] struct {
	Retain   Retainer
	Queue    Q
	Allocate Allocator[Q]
	// Impatient expects a task that runs longer than estimated to end after Overrun, instead of after a share of its
	// time so far.
	Impatient bool
	Overrun   time.Duration
}

// ExpectsOverrunsToEnd reports whether the policy is impatient, and how.
func (p *Pipeline[Q]) ExpectsOverrunsToEnd() (time.Duration, bool) { return p.Overrun, p.Impatient }

// Retainer decides which part of the last plan stays in the draft.
type Retainer interface{ Retain(c *Cycle) error }

// Queue yields the tasks that want a place, best first. It keeps its knowledge from round to round: the cost of Update
// grows with the news, not with the queue.
type Queue interface {
	// Update takes in the news of the cycle and ends all deferments.
	Update(c *Cycle)
	// Next returns the best task that is neither taken nor deferred; false if there is none.
	Next(c *Cycle) (TaskID, bool)
	// Take removes the task that Next returned last: it has a place now.
	Take(c *Cycle, t TaskID)
	// Defer passes over the task that Next returned last for the rest of the round, and with it every task that needs
	// at least as much: it does not fit.
	Defer(c *Cycle, t TaskID)
}

// Allocator gives tasks of the queue their places.
type Allocator[Q Queue] interface {
	Allocate(ctx context.Context, c *Cycle, q Q) error
}

// Plan runs the phases.
func (p *Pipeline[Q]) Plan(ctx context.Context, c *Cycle) error {
	if err := p.Retain.Retain(c); err != nil {
		return err
	}
	p.Queue.Update(c)
	return p.Allocate.Allocate(ctx, c, p.Queue)
}
