package alloc

import (
	"gantry/planner"
	"gantry/planner/unit"
)

// Where copies overlap other work, nodes are promised to tasks that wait there for their copies. Such a node is idle
// for another task only where that takes nothing from them, as far as estimates know.

// idle reports whether t has room on n now and, from when its copies can be there on, beside what n is promised to. A
// promised task that is late claims its room from now on.
func idle(c *planner.Cycle, t *planner.Task, n planner.NodeID) bool {
	if !t.Need.Fits(c.Draft.Free(n)) {
		return false
	}
	if !c.Platform().Overlapped || c.Draft.Promises(n) == 0 {
		return true
	}
	if !t.Need.Fits(c.Draft.Unclaimed(n)) {
		return false
	}
	site, ok := c.Site(t.ID, n)
	if !ok {
		return false
	}
	from := max(site.From, c.Now())
	at, ok := c.Draft.Earliest(n, site.Need, site.Dur, from)
	return ok && at == from
}

// fastest returns the fastest node that is idle for t, the lowest id among equals; None if there is none.
func fastest(c *planner.Cycle, t *planner.Task) planner.NodeID {
	n := c.Draft.Fastest(t.Need)
	if n == planner.None || idle(c, t, n) {
		return n
	}
	best := planner.NodeID(planner.None)
	for i := range c.Nodes() {
		n := planner.NodeID(i)
		if (best == planner.None || c.Nodes()[n].Speed > c.Nodes()[best].Speed) && idle(c, t, n) {
			best = n
		}
	}
	return best
}

// slowest returns the lowest speed of a node that is idle for t: there is one.
func slowest(c *planner.Cycle, t *planner.Task) float64 {
	if !c.Platform().Overlapped {
		return c.Nodes()[c.Draft.Slowest(t.Need)].Speed
	}
	least := c.Draft.TopSpeed()
	for i := range c.Nodes() {
		if s := c.Nodes()[i].Speed; s < least && idle(c, t, planner.NodeID(i)) {
			least = s
		}
	}
	return least
}

// beside returns what is free on n now beside all that it is promised to: with so much free, whatever runs later.
func beside(c *planner.Cycle, n planner.NodeID) unit.Vector {
	free := c.Draft.Free(n)
	if c.Platform().Overlapped && c.Draft.Promises(n) > 0 {
		for seg := range c.Draft.Planned(n) {
			free = free.Sub(seg.Hold)
		}
	}
	return free
}
