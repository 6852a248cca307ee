package executor

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/heap"
	"gantry/planner/seed"
	"gantry/planner/unit"
	"gantry/trace/scenario"
)

// Faults bring about the faults of an experiment in a run: nodes are lost and return, attempts end early. Each draw is
// a function of the seed and of node, task and try, so that all policies meet the same luck.
type Faults struct {
	spec  scenario.Faults
	seed  uint64
	nodes []nodeFault
	ends  heap.Heap[attemptEnd]
	lost  []planner.AttemptID // to be ended now
	err   error
}

// mostTries is how often a task may be lost: with losses far more often than it takes, it would never be done.
const mostTries = 10_000

// nodeFault is how a node stands.
type nodeFault struct {
	next  planner.Time // of its next loss, or of its return
	gone  bool
	draws uint64
	whole unit.Vector // its capacity before it was lost
}

// attemptEnd is an attempt that ends early.
type attemptEnd struct {
	at      planner.Time
	attempt planner.AttemptID
}

// NewFaults prepares the faults of a run whose times are scaled; spec nil, the result is nil: there are none.
func NewFaults(spec *scenario.Faults, scale float64, seed uint64, p *planner.Platform) *Faults {
	if spec == nil {
		return nil
	}
	f := &Faults{spec: *spec, seed: seed, ends: heap.Heap[attemptEnd]{Before: func(a, b *attemptEnd) bool {
		return a.at < b.at || a.at == b.at && a.attempt < b.attempt
	}}}
	f.spec.LossEvery = time.Duration(float64(spec.LossEvery) * scale)
	f.spec.LossFor = time.Duration(float64(spec.LossFor) * scale)
	f.nodes = make([]nodeFault, len(p.Nodes))
	for n := range f.nodes {
		if f.nodes[n].next = unit.Never; f.spec.LossEvery > 0 {
			f.nodes[n].next = f.loss(n, 0)
		}
	}
	return f
}

// SlowNodes is the platform as it really is, on which the slow nodes of spec have their true speed. The planner knows
// nothing of it.
func SlowNodes(spec *scenario.Faults, from uint64, p *planner.Platform) *planner.Platform {
	if spec == nil || spec.SlowShare == 0 {
		return p
	}
	slow := *p
	slow.Nodes = slices.Clone(p.Nodes)
	order := make([]int, len(slow.Nodes))
	for n := range order {
		order[n] = n
	}
	drawn := func(n int) uint64 { return seed.Mix(from ^ seed.Repetition(0, n+1)) }
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(drawn(a), drawn(b)) })
	for _, n := range order[:int(math.Round(spec.SlowShare*float64(len(order))))] {
		slow.Nodes[n].Speed *= spec.SlowSpeed
	}
	return &slow
}

// loss draws when a node that is there from an instant on is lost.
func (f *Faults) loss(n int, from planner.Time) planner.Time {
	x := &f.nodes[n]
	x.draws++
	u := seed.Fraction(seed.Mix(seed.Mix(f.seed+uint64(n)) + x.draws))
	return from.Add(max(1, time.Duration(min(-math.Log1p(-u)*float64(f.spec.LossEvery), math.MaxInt64/2))))
}

// started draws whether an attempt that starts now ends before its task is done, at any part of its runtime alike.
func (f *Faults) started(now planner.Time, id planner.AttemptID, att *planner.Attempt, run time.Duration) {
	if att.Try > mostTries {
		f.err = fmt.Errorf("a task was lost %d times: nodes are lost more often than it takes; raise every of "+
			"node_loss, or lower task_failure", mostTries)
	}
	x := seed.Mix(seed.Mix(f.seed^seed.Golden) + uint64(att.Task)<<16 + uint64(att.Try))
	if seed.Fraction(x) < f.spec.TaskFailure {
		part := seed.Fraction(seed.Mix(x))
		f.ends.Push(attemptEnd{now.Add(time.Duration(part * float64(planner.Undone(run, att.Done)))), id})
	}
}

// next is when the next fault is due. With nothing under way and nothing to come, only the return of a node is waited
// for: else a run whose tasks fit nowhere would never end.
func (f *Faults) next(idle bool) planner.Time {
	next := unit.Never
	if f == nil {
		return next
	}
	if f.ends.Len() > 0 && !idle {
		next = f.ends.Items[0].at
	}
	for i := range f.nodes {
		if f.nodes[i].gone || !idle {
			next = min(next, f.nodes[i].next)
		}
	}
	return next
}

// disturb brings about the faults that are due.
func (e *Engine) disturb(now planner.Time) error {
	f := e.Faults
	if f == nil {
		return nil
	}
	if f.err != nil {
		return f.err
	}
	v := e.Planner.View()
	for f.ends.Len() > 0 && f.ends.Items[0].at <= now {
		f.lost = append(f.lost, f.ends.Pop().attempt)
	}
	for n := range f.nodes {
		x, id := &f.nodes[n], planner.NodeID(n)
		for x.next <= now {
			to := x.whole
			if x.gone = !x.gone; x.gone {
				x.whole, to = v.Capacity(id), unit.Vector{}
				f.lost = append(f.lost, v.Active(id)...)
				x.next = x.next.Add(f.spec.LossFor)
			} else {
				x.next = f.loss(n, x.next)
			}
			if err := e.changeNode(now, id, to); err != nil {
				return fmt.Errorf("node %s is lost or returns: %w", v.Nodes()[n].Name, err)
			}
		}
	}
	return nil
}

// endLost ends the attempts that faults take.
func (e *Engine) endLost(ctx context.Context) error {
	if e.Faults == nil {
		return nil
	}
	v := e.Planner.View()
	for _, a := range e.Faults.lost {
		if v.Attempt(a).Over {
			continue
		}
		if err := e.Runtime.Kill(ctx, a, planner.Lost, 0); err != nil {
			return fmt.Errorf("end attempt %d as lost: %w", a, err)
		}
	}
	e.Faults.lost = e.Faults.lost[:0]
	return nil
}
