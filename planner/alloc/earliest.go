package alloc

import (
	"context"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// EarliestFinish places every task of the queue, in its order, where it finishes first, in the earliest gap that is
// long enough (insertion-based policy of HEFT, Topcuoglu et al. 2002, section 4.2; ties go to the lower node). A task
// whose parent has no place waits until that has ended.
//
// Known gaps rule out most nodes: where there is no room before an instant there is none later on, since reservations
// only fill gaps while a plan is made.
type EarliestFinish struct {
	lower []planner.Time // by node: no earlier finish is possible
	gaps  []gaps
}

// gaps has the first known gap of each node for one need.
type gaps struct {
	need  unit.Vector
	from  []planner.Time // by node: there is no room before; unit.Never: there never is any
	exact []bool         // by node: there is some at that instant
}

// maxNeeds limits how many needs gaps are kept for: loads in which every task needs something else do without.
const maxNeeds = 8

// Allocate implements planner.Allocator.
func (e *EarliestFinish) Allocate(ctx context.Context, c *planner.Cycle, q planner.Queue) error {
	e.gaps = e.gaps[:0]
	for i := 0; ; i++ {
		if i&1023 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		t, ok := q.Next(c)
		if !ok {
			return nil
		}
		best, fits := e.place(c, c.Task(t))
		switch {
		case best.Node != planner.None:
			if err := c.Draft.Keep(best); err != nil {
				return err
			}
			for i := range e.gaps {
				e.gaps[i].fill(&best)
			}
			q.Take(c, t)
		case fits: // a parent has no place: it comes back when it is eligible
			q.Take(c, t)
		default:
			q.Defer(c, t)
		}
	}
}

// place returns where t finishes first, on no node if it has to wait, and whether any node can ever hold it.
func (e *EarliestFinish) place(c *planner.Cycle, t *planner.Task) (best planner.Segment, fits bool) {
	best = planner.Segment{Node: planner.None, End: unit.Never}
	from, placed := c.From(t)
	if placed && !c.Copies(t) && c.BySpeed(t) {
		if g := e.known(c, t.Need); g != nil {
			fits = e.placeAlike(c, t, g, from, &best)
			return best, fits
		}
	}
	for node := range c.NodeCount() {
		if !t.Need.Fits(c.Capacity(node)) {
			continue
		}
		fits = true
		site, ok := c.Site(t.ID, node)
		if !ok || best.Node != planner.None && site.From.Add(site.Dur) >= best.End {
			continue
		}
		start, ok := c.Draft.Earliest(node, site.More, site.Dur, site.From)
		if seg := segment(t.ID, site, start); ok && (best.Node == planner.None || seg.End < best.End) {
			best = seg
		}
	}
	return best, fits
}

// placeAlike does that for a task that becomes eligible at the same instant on all nodes and whose run depends on their
// speed alone.
func (e *EarliestFinish) placeAlike(c *planner.Cycle, t *planner.Task, g *gaps, from planner.Time,
	best *planner.Segment) (fits bool) {
	first, least := planner.NodeID(planner.None), unit.Never
	speed, run := 0.0, time.Duration(0)
	for n := range e.lower {
		node := &c.Nodes()[n]
		if n == 0 || node.Speed != speed {
			speed, run = node.Speed, max(1, c.Est.Run(t, node).Run)
		}
		fits = fits || t.Need.Fits(c.Capacity(node.ID))
		e.lower[n] = max(from, g.from[n]).Add(run)
		if e.lower[n] < least {
			first, least = node.ID, e.lower[n]
		}
	}
	if first == planner.None {
		return fits
	}
	e.try(c, t, g, first, from, best)
	if best.Node == first && best.End == least {
		return fits // no node has an earlier one, nor a lower node the same
	}
	for n, lower := range e.lower {
		if node := planner.NodeID(n); node != first && lower < unit.Never && (lower < best.End ||
			lower == best.End && node < best.Node) {
			e.try(c, t, g, node, from, best)
		}
	}
	return fits
}

// try takes node n if t finishes there earlier than at best, or as early and n is lower.
func (e *EarliestFinish) try(c *planner.Cycle, t *planner.Task, g *gaps, n planner.NodeID, from planner.Time,
	best *planner.Segment) {
	run := max(1, c.Est.Run(t, &c.Nodes()[n]).Run)
	better := func(start planner.Time) bool {
		end := start.Add(run)
		return best.Node == planner.None || end < best.End || end == best.End && n < best.Node
	}
	if !g.exact[n] {
		g.from[n], g.exact[n] = earliest(c, n, t.Need, 1, g.from[n]), true
	}
	start := max(from, g.from[n])
	if !better(start) {
		return
	}
	if start = earliest(c, n, t.Need, run, start); start < unit.Never && better(start) {
		*best = planner.Segment{Task: t.ID, Node: n, Hold: t.Need, Start: start, End: start.Add(run)}
	}
}

// earliest returns when a node has room first; unit.Never if it never has.
func earliest(c *planner.Cycle, n planner.NodeID, need unit.Vector, run time.Duration,
	from planner.Time) planner.Time {
	if at, ok := c.Draft.Earliest(n, need, run, from); ok {
		return at
	}
	return unit.Never
}

// known returns the gaps for need; nil if they are not kept.
func (e *EarliestFinish) known(c *planner.Cycle, need unit.Vector) *gaps {
	for i := range e.gaps {
		if e.gaps[i].need == need {
			return &e.gaps[i]
		}
	}
	if len(e.gaps) == maxNeeds {
		return nil
	}
	n := len(c.Nodes())
	e.lower = planner.Extend(e.lower, n)
	g := gaps{need, make([]planner.Time, n), make([]bool, n)}
	for n := range c.NodeCount() {
		c.Draft.LookAhead(n) // on all, whichever is tried first
		if !need.Fits(c.Capacity(n)) {
			g.from[n], g.exact[n] = unit.Never, true
		}
	}
	e.gaps = append(e.gaps, g)
	return &e.gaps[len(e.gaps)-1]
}

// fill takes in a reservation.
func (g *gaps) fill(seg *planner.Segment) {
	if n := seg.Node; g.from[n] >= seg.Start && g.from[n] < seg.End {
		g.exact[n] = false
	}
}
