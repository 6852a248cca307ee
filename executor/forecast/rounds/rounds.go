// Package rounds plans a logged run once more, round by round, to see the plans that its policy had: the log has the
// orders, and a policy that meets the same events makes the same plans.
package rounds

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
)

// Plan is the schedule as a round left it: of attempts that run, and of planned ones.
type Plan struct {
	Round    int64
	At       planner.Time
	Segments []planner.Segment // by task
}

// Copy is a file that was ordered to a node. Until is unit.Never if it did not arrive.
type Copy struct {
	File         string
	Node, From   planner.NodeID
	Since, Until planner.Time
}

// Change is a new capacity of a node.
type Change struct {
	Node     planner.NodeID
	At       planner.Time
	Capacity unit.Vector
}

// Bounds: with more plans or segments every second plan goes, and further copies are left out.
const (
	mostPlans    = 160
	mostSegments = 40_000
	mostCopies   = 5_000
)

// Player plays the events of a log through an engine that is new.
type Player struct {
	*executor.Engine
	// Changed makes a new one with the policy that a run changed to. nil: the plans from then on are not made.
	Changed func(policy string) (*executor.Engine, error)

	Plans    []Plan
	Copies   []Copy
	Changes  []Change
	Rounds   int    // that had an outcome
	Diverged string // since when the plans are not those of the run; "": they are

	at     planner.Time
	files  []string
	stride int
	kept   int // segments
	past   []executor.Batch
}

// Take plays one event. The plan of each round that the log has is made again and compared with the orders.
func (p *Player) Take(ctx context.Context, e planner.Event, admission *executor.Admission) error {
	if p.stride == 0 {
		p.at, p.stride = e.At, 1
	}
	if e.At > p.at {
		if err := p.idle(ctx); err != nil {
			return err
		}
		p.at = e.At
	}
	b := executor.Batch{Events: []planner.Event{e}}
	switch body := e.Body.(type) {
	case *planner.PlanCommitted:
		if err := p.round(ctx, body, e.At); err != nil {
			return err
		}
	case *planner.WorkflowArrived, *planner.WorkflowGrown:
		b.Admissions = []*executor.Admission{admission}
		for _, f := range admission.Files {
			if int(f.ID) >= len(p.files) {
				p.files = append(p.files, f.Name)
			}
		}
	case planner.FileAppeared:
		for i := range p.Copies {
			if c := &p.Copies[i]; c.Until == unit.Never && c.Node == body.Node && c.File == p.files[body.File] {
				c.Until = e.At
			}
		}
	case planner.NodeChanged:
		p.Changes = append(p.Changes, Change{body.Node, e.At, body.Capacity})
	}
	p.past = append(p.past, b)
	if err := p.Replay(b); err != nil {
		return err
	}
	if body, ok := e.Body.(planner.PolicyChanged); ok {
		return p.change(body.Policy, e.At)
	}
	return nil
}

// change has another policy plan from now on. It gets all that happened before.
func (p *Player) change(policy string, at planner.Time) error {
	if p.Changed == nil {
		p.Diverged = fmt.Sprintf("since the policy changed to %s, at %v", policy,
			time.Duration(at).Round(time.Millisecond))
		return nil
	}
	var err error
	if p.Engine, err = p.Changed(policy); err != nil {
		return err
	}
	for _, b := range p.past {
		if err := p.Replay(b); err != nil {
			return err
		}
	}
	p.Planner.Restore()
	return nil
}

// idle makes the round of an instant that had no outcome, which the log does not have.
func (p *Player) idle(ctx context.Context) error {
	if p.Diverged != "" || !p.Planner.Due(p.at) {
		return nil
	}
	pc, err := p.Planner.Plan(ctx, p.at)
	if err != nil {
		return err
	}
	if len(pc.Orders) > 0 {
		p.diverge(pc.Round, p.at)
	}
	return nil
}

func (p *Player) diverge(round int64, at planner.Time) {
	p.Diverged = fmt.Sprintf("from round %d on, at %v", round, time.Duration(at).Round(time.Millisecond))
}

// round makes a round again before its outcome is taken from the log.
func (p *Player) round(ctx context.Context, was *planner.PlanCommitted, at planner.Time) error {
	if p.ofEngine(was) {
		return nil
	}
	p.Rounds++
	for i := range was.Orders {
		if o := &was.Orders[i]; o.Kind == planner.OrderCopy && len(p.Copies) < mostCopies {
			p.Copies = append(p.Copies, Copy{p.files[o.File], o.Node, o.From, at, unit.Never})
		}
	}
	if p.Diverged != "" {
		return nil
	}
	pc, err := p.Planner.Plan(ctx, at)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(pc.Orders, was.Orders, func(a, b planner.Order) bool {
		return a.Kind == b.Kind && a.Task == b.Task && a.Node == b.Node && a.Attempt == b.Attempt
	}) {
		p.diverge(was.Round, at)
		return nil
	}
	if (p.Rounds-1)%p.stride == 0 {
		p.keep(was, at)
	}
	return nil
}

// ofEngine reports whether orders come from the engine and not from a policy: tasks without time, and, once the run
// drains, frozen ones.
func (p *Player) ofEngine(pc *planner.PlanCommitted) bool {
	if len(pc.Orders) == 0 {
		return false
	}
	v := p.Planner.View()
	formal := !slices.ContainsFunc(pc.Orders, func(o planner.Order) bool { return !v.Task(o.Task).Formal })
	thaw := !p.Planner.Due(p.at) &&
		!slices.ContainsFunc(pc.Orders, func(o planner.Order) bool { return o.Kind != planner.OrderResume })
	return formal || thaw
}

// keep keeps the plan as it is now.
func (p *Player) keep(was *planner.PlanCommitted, at planner.Time) {
	plan := Plan{Round: was.Round, At: at}
	for i := range was.Orders { // the draft has given them away
		if o := &was.Orders[i]; o.Kind == planner.OrderStart {
			plan.Segments = append(plan.Segments, planner.Segment{Task: o.Task, Node: o.Node, Start: at, End: o.Until})
		}
	}
	draft := p.Planner.Draft()
	for n := range p.Planner.View().Nodes() {
		for s := range draft.On(planner.NodeID(n)) {
			plan.Segments = append(plan.Segments, s)
		}
	}
	slices.SortFunc(plan.Segments, func(a, b planner.Segment) int { return int(a.Task) - int(b.Task) })
	p.Plans = append(p.Plans, plan)
	p.kept += len(plan.Segments)
	for len(p.Plans) > mostPlans || p.kept > mostSegments && len(p.Plans) > 1 {
		p.stride *= 2
		few := p.Plans[:0]
		p.kept = 0
		for i := range p.Plans {
			if i%2 == 0 {
				few = append(few, p.Plans[i])
				p.kept += len(p.Plans[i].Segments)
			}
		}
		clear(p.Plans[len(few):])
		p.Plans = few
	}
}
