package alloc

import (
	"gantry/planner"
	"gantry/planner/unit"
)

// Where copies overlap other work, nodes are promised to tasks that wait there for their copies. Such a node is idle
// for another task only where that takes nothing from them, as far as estimates know.

// idle reports whether t has room on n now and, once its copies can be there, beside the tasks that n is promised to. A
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
	return fastestOf(c, t, func(n planner.NodeID) bool { return idle(c, t, n) })
}

// fastestOf is fastest of the nodes that are open to t, all of which have room for it.
func fastestOf(c *planner.Cycle, t *planner.Task, open func(planner.NodeID) bool) planner.NodeID {
	n := c.Draft.Fastest(t.Need)
	if n == planner.None || open(n) {
		return n
	}
	best := planner.NodeID(planner.None)
	for n := range c.NodeCount() {
		if (best == planner.None || c.Nodes()[n].Speed > c.Nodes()[best].Speed) && open(n) {
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
	for i := range c.NodeCount() {
		if s := c.Nodes()[i].Speed; s < least && idle(c, t, i) {
			least = s
		}
	}
	return least
}

// beside returns the resources free on n now, less those of the tasks that n is promised to: a task that needs no more
// never keeps a promised one waiting.
func beside(c *planner.Cycle, n planner.NodeID) unit.Vector {
	free := c.Draft.Free(n)
	if c.Platform().Overlapped && c.Draft.Promises(n) > 0 {
		for seg := range c.Draft.Planned(n) {
			free = free.Sub(seg.Hold)
		}
	}
	return free
}
