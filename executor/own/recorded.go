package own

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"gantry/planner"
)

// Recorded is a policy that repeats the decisions of a run: each task is ordered when it was, or as soon afterwards as
// it can be, on the node where it was. It asks no program.
type Recorded struct {
	orders []decision // to come, in the order of the log
	due    []decision // that could not be repeated yet

	Shows   bool   // also the plans for later
	notes   []said // to come
	planned map[planner.TaskID]planner.Note
}

type said struct {
	at   planner.Time
	note planner.Note
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
		for _, n := range pc.Notes {
			if n.Topic == topicPlanned {
				r.notes = append(r.notes, said{e.At, n})
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
	if r.Shows {
		r.intend(c)
	}
	return nil
}

// intend plans tasks for later as the program did, as far as they have room. The next round drops it.
func (r *Recorded) intend(c *planner.Cycle) {
	if r.planned == nil {
		r.planned = map[planner.TaskID]planner.Note{}
	}
	for ; len(r.notes) > 0 && r.notes[0].at <= c.Now(); r.notes = r.notes[1:] {
		switch n := r.notes[0].note; {
		case n.Task == planner.None:
			clear(r.planned)
		case n.Text == "":
			delete(r.planned, n.Task)
		default:
			r.planned[n.Task] = n
		}
	}
	if c.Platform().Overlapped { // copies would begin for it
		return
	}
	for _, n := range slices.SortedFunc(maps.Values(r.planned), func(a, b planner.Note) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Task, b.Task))
	}) {
		node := slices.IndexFunc(c.Nodes(), func(m planner.Node) bool { return m.Name == n.Text })
		if node < 0 || !c.Unplaced(n.Task) {
			delete(r.planned, n.Task) // it has started
			continue
		}
		if site, ok := c.Site(n.Task, planner.NodeID(node)); ok {
			from := max(site.From, n.At, c.Now()+1)
			if at, ok := c.Draft.Earliest(site.Node, site.More, site.Dur, from); ok {
				_ = c.Draft.Reserve(planner.Segment{Task: n.Task, Node: site.Node, Hold: site.Need, Start: at,
					End: at.Add(site.Dur)})
			}
		}
	}
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
