package executor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/alloc"
	"gantry/planner/order"
	"gantry/planner/predict"
	"gantry/planner/rank"
	"gantry/planner/retain"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
)

// everywhere looks for the earliest finish on every node, from the beginning of time: the slow twin of
// alloc.EarliestFinish.
type everywhere struct{}

func (everywhere) Allocate(_ context.Context, c *planner.Cycle, q planner.Queue) error {
	for {
		t, ok := q.Next(c)
		if !ok {
			return nil
		}
		best := planner.Segment{Node: planner.None}
		for n := range c.NodeCount() {
			s, ok := c.Site(t, n)
			if !ok {
				continue
			}
			start, ok := c.Draft.Earliest(n, s.Need, s.Dur, s.From)
			if end := start.Add(s.Dur); ok && (best.Node == planner.None || end < best.End) {
				best = planner.Segment{Task: t, Node: s.Node, Hold: s.Need, Start: start, End: end}
			}
		}
		if best.Node == planner.None {
			q.Defer(c, t)
			continue
		}
		if err := c.Draft.Reserve(best); err != nil {
			return err
		}
		q.Take(c, t)
	}
}

func TestEarliestFinishIsThatOfItsSlowTwin(t *testing.T) {
	for seed := range seedtest.Seeds(t, 40) {
		var logs [2][]planner.Event
		for i, a := range []planner.Allocator[planner.Queue]{&alloc.EarliestFinish{}, everywhere{}} {
			r := rand.New(rand.NewPCG(seed, 5))
			p := &planner.Platform{Groups: []string{""}}
			for n := range 1 + r.IntN(12) {
				p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(n), Name: fmt.Sprint(n),
					Speed:    []float64{1, 1, 0.5, 1.5}[r.IntN(4)],
					Capacity: unit.Vector{1000 * int64(1+seed%3), 4 << 30, unit.Unlimited}})
			}
			queue := &order.Alternating{Ranks: &rank.Upward{}}
			est := &predict.Declared{Model: predict.ErrorModel{Kind: predict.Random1, Factor: 1, Seed: seed}}
			e := &executor.Engine{Runtime: sim.New(sim.Config{Platform: p}),
				Planner: planner.New(p, planner.DefaultRetryRules(),
					&planner.Pipeline[planner.Queue]{Retain: retain.Float{Requeue: queue}, Queue: queue, Allocate: a},
					est, seed),
				Admit: &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Declare: est.Declare,
					Forget: est.Forget}}
			for w := range 8 {
				flow := layered(r, 5+r.IntN(60), 20*time.Second)
				for k := range flow.Tasks {
					flow.Tasks[k].Cores = float64(1+r.IntN(1+int(seed%2))) / 2
					flow.Tasks[k].MemoryBytes = int64(r.IntN(1+int(seed%4))) << 30
				}
				e.Arrivals = append(e.Arrivals, executor.Submission{At: planner.Time(w) * 20e9,
					Name: fmt.Sprint("w", w), Workflow: flow})
			}
			e.Watch = func(_ planner.View, events []planner.Event, _ []*executor.Admission) {
				logs[i] = append(logs[i], events...)
			}
			if _, err := e.Run(t.Context()); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if !reflect.DeepEqual(logs[0], logs[1]) {
			t.Fatalf("seed %d: the plans differ", seed)
		}
	}
}
