package alloc

import (
	"cmp"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// room knows when nodes are estimated to have room.
type room struct{ ends []release }

// at returns when t is estimated to have room on n, as tasks that run there and those that n is promised to end in the
// order of their estimates; Never if it has not.
func (r *room) at(c *planner.Cycle, n planner.NodeID, t *planner.Task) planner.Time {
	if !t.Need.Fits(c.Capacity(n)) {
		return unit.Never
	}
	free := beside(c, n)
	if t.Need.Fits(free) {
		return c.Now()
	}
	r.on(c, n)
	return r.freed(free, t.Need)
}

// freed returns when need fits into the free resources, as r.ends give back theirs; Never if it does not.
func (r *room) freed(free, need unit.Vector) planner.Time {
	for _, e := range r.ends {
		if free = free.Add(e.hold); need.Fits(free) {
			return e.at
		}
	}
	return unit.Never
}

// on returns the tasks that run on n, that begin there in this round and that n is promised to, by the time at which
// they are estimated to end.
func (r *room) on(c *planner.Cycle, n planner.NodeID) []release {
	r.ends = r.ends[:0]
	for _, a := range c.Active(n) {
		att := c.Attempt(a)
		if seg, ok := c.Draft.Of(att.Task); ok && seg.Kind == planner.Active {
			r.ends = append(r.ends, release{c.Draft.ActiveEnd(att.Task), att.Hold})
		}
	}
	for seg := range c.Draft.Due() {
		if seg.Node == n {
			r.ends = append(r.ends, release{seg.End, seg.Hold})
		}
	}
	if c.Platform().Overlapped {
		for seg := range c.Draft.Planned(n) {
			r.ends = append(r.ends, release{max(seg.Start, c.Now()).Add(seg.End.Sub(seg.Start)), seg.Hold})
		}
	}
	slices.SortStableFunc(r.ends, byEnd)
	return r.ends
}

// until returns when to look again whether n has been released, as it was estimated to be then. A task that n is
// promised to, and that is to be over at once, may have to wait itself: for one that still runs there, or for an event.
func until(c *planner.Cycle, n planner.NodeID, release planner.Time) planner.Time {
	if release.Sub(c.Now()) >= time.Millisecond {
		return release
	}
	first := unit.Never
	for _, a := range c.Active(n) {
		t := c.Attempt(a).Task
		if seg, ok := c.Draft.Of(t); ok && seg.Kind == planner.Active {
			first = min(first, c.Draft.ActiveEnd(t))
		}
	}
	return first
}

func byEnd(x, y release) int { return cmp.Compare(x.at, y.at) }
