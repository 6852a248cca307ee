package own

import (
	"context"
	"errors"

	"gantry/planner"
)

// Recorded is a policy that repeats the decisions of a run: each task is ordered when it was, or as soon afterwards as
// it can be, on the node where it was. It asks no program.
type Recorded struct {
	orders []decision // to come, in the order of the log
	due    []decision // that could not be repeated yet
}

type decision struct {
	at    planner.Time
	order planner.Order
}

// Take takes a decision over from the log.
func (r *Recorded) Take(e planner.Event) {
	if pc, ok := e.Body.(*planner.PlanCommitted); ok {
		for _, o := range pc.Orders {
			if o.Node != planner.None {
				r.orders = append(r.orders, decision{e.At, o})
			}
		}
	}
}

// Suspends implements planner.Suspender.
func (*Recorded) Suspends() {}

// Plan implements planner.Policy.
func (r *Recorded) Plan(_ context.Context, c *planner.Cycle) error {
	c.Draft.Drop() // places that were not free yet
	for len(r.orders) > 0 && r.orders[0].at <= c.Now() {
		r.due, r.orders = append(r.due, r.orders[0]), r.orders[1:]
	}
	if len(r.orders) > 0 {
		c.WakeAt(r.orders[0].at)
	}
	left := r.due[:0]
	for _, d := range r.due {
		done, err := repeat(c, &d.order)
		if err != nil {
			return err
		}
		if !done {
			left = append(left, d)
		}
	}
	r.due = left
	return nil
}

// repeat carries an order out, and reports whether it need not come again.
func repeat(c *planner.Cycle, o *planner.Order) (done bool, err error) {
	if int(o.Task) >= c.Tasks() {
		return false, nil
	}
	phase := c.Phase(o.Task)
	switch o.Kind {
	case planner.OrderStart, planner.OrderResume:
		a := c.Current(o.Task)
		leaves := a != planner.None && c.Attempt(a).Leaving == planner.Suspend
		if phase.Ended() || o.Kind == planner.OrderStart && c.Tries(o.Task) >= int(o.Try) ||
			o.Kind == planner.OrderResume && phase != planner.Suspended && !leaves {
			return true, nil // it was ordered
		}
		site, ok := c.Site(o.Task, o.Node)
		if phase != planner.Ready && phase != planner.Suspended || !ok || !c.Unplaced(o.Task) {
			return false, nil
		}
		err = c.Draft.Reserve(planner.Segment{Task: o.Task, Node: o.Node, Hold: site.Need, Start: c.Now(),
			End: c.Now().Add(site.Dur)})
		if errors.Is(err, planner.ErrFull) || errors.Is(err, planner.ErrMissing) {
			return false, nil
		}
		return false, err
	case planner.OrderCopy:
		c.Draft.Copy(o.File, o.Node, o.Task)
		return phase.Ended() || c.Has(o.Node, o.File) || c.Nearest(o.File, o.Node) != planner.None, nil
	}
	if phase == planner.Running {
		return true, c.Draft.Preempt(o.Task, o.Kind.Vacates())
	}
	return phase.Ended(), nil
}
