package soak

import (
	"context"
	"math/rand/v2"

	"gantry/executor"
	"gantry/executor/null"
	"gantry/planner"
)

// Chances, per attempt.
const (
	heldShare  = 0.02      // it runs on while others end, until its node leaves or nothing else is under way
	outageRate = 1.0 / 2e3 // a node leaves
	backRate   = 1.0 / 5e2 // the node that left returns
)

// faults are the chances of attempts to end badly.
var faults = []struct {
	outcome planner.Outcome
	share   float64
}{{planner.Lost, 0.01}, {planner.HostError, 0.01}, {planner.OutOfMemory, 0.005}, {planner.Killed, 0.005},
	{planner.ExitCode, 0.0005}}

// faulty is the null runtime with faults: attempts end badly, and nodes leave and return. An attempt that runs on a
// node that leaves is lost.
type faulty struct {
	*null.Runtime
	random  *rand.Rand
	nodes   []planner.Node
	node    map[planner.AttemptID]planner.NodeID // of attempts that have not ended yet
	held    []*planner.AttemptExited             // they run on
	out     []planner.Body
	gone    planner.NodeID // the node that left; None: all are present
	outages int
}

var _ executor.Runtime = (*faulty)(nil)

// Start implements executor.Runtime.
func (f *faulty) Start(ctx context.Context, l executor.Launch) error {
	f.node[l.Attempt] = l.Node
	return f.Runtime.Start(ctx, l)
}

// Next implements executor.Runtime.
func (f *faulty) Next(ctx context.Context, until planner.Time) ([]planner.Body, error) {
	f.out = f.out[:0]
	if len(f.node) == len(f.held) && len(f.held) > 0 { // the null runtime has nothing to say
		for _, x := range f.held {
			f.end(x, planner.OK)
		}
		f.held = f.held[:0]
		return f.out, ctx.Err()
	}
	if len(f.node) == 0 && f.gone != planner.None {
		f.back()
		return f.out, ctx.Err()
	}
	bodies, err := f.Runtime.Next(ctx, until)
	for _, b := range bodies {
		if x, ok := b.(*planner.AttemptExited); ok {
			f.exit(x)
		} else {
			f.out = append(f.out, b)
		}
	}
	return f.out, err
}

// exit decides how an attempt ends that the null runtime lets end well, and when.
func (f *faulty) exit(x *planner.AttemptExited) {
	if f.random.Float64() < heldShare && f.node[x.Attempt] != f.gone {
		f.held = append(f.held, x)
	} else {
		f.end(x, f.outcome())
	}
	switch {
	case f.gone == planner.None && f.random.Float64() < outageRate:
		f.leave(planner.NodeID(f.random.IntN(len(f.nodes))))
	case f.gone != planner.None && f.random.Float64() < backRate:
		f.back()
	}
}

func (f *faulty) outcome() planner.Outcome {
	r := f.random.Float64()
	for _, o := range faults {
		if r < o.share {
			return o.outcome
		}
		r -= o.share
	}
	return planner.OK
}

func (f *faulty) end(x *planner.AttemptExited, outcome planner.Outcome) {
	delete(f.node, x.Attempt)
	if x.Outcome = outcome; outcome != planner.OK {
		x.ExitCode, x.Message = -1, "made to fail"
	}
	if outcome == planner.ExitCode {
		x.ExitCode = 1
	}
	f.out = append(f.out, x)
}

// leave takes a node away with all that runs on it.
func (f *faulty) leave(n planner.NodeID) {
	f.gone = n
	f.outages++
	still := f.held[:0]
	for _, x := range f.held {
		if f.node[x.Attempt] == n {
			f.end(x, planner.Lost)
		} else {
			still = append(still, x)
		}
	}
	f.held = still
	f.out = append(f.out, planner.NodeChanged{Node: n})
}

func (f *faulty) back() {
	f.out = append(f.out, planner.NodeChanged{Node: f.gone, Capacity: f.nodes[f.gone].Capacity})
	f.gone = planner.None
}
