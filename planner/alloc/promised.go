package alloc

import (
	"time"

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

// crowd finds idle nodes quickly in a round that only takes room, as a list does. After each event most waiting tasks
// collide with promised ones on every node, and crowd sees that without a look at where their inputs are.
type crowd struct {
	needs   map[unit.Vector][]breather
	fast    planner.NodeID // the fastest node
	latency time.Duration  // the longest
	rate    unit.BytesPerSecond
}

// breather is until when a node has room for a need, and from when again.
type breather struct{ until, again planner.Time }

// fastest is fastest.
func (w *crowd) fastest(c *planner.Cycle, t *planner.Task) planner.NodeID {
	n := c.Draft.Fastest(t.Need)
	if n == planner.None || !c.Platform().Overlapped || c.Draft.Plans() == 0 {
		return n
	}
	if w.needs == nil {
		w.know(c)
	}
	ends, copied, ok := w.bounds(c, t)
	if !ok {
		return fastest(c, t)
	}
	nodes, ok := w.needs[t.Need]
	if !ok {
		nodes = breathers(c, t.Need)
		w.needs[t.Need] = nodes
	}
	return fastestOf(c, t, func(n planner.NodeID) bool {
		return (ends <= nodes[n].until || copied >= nodes[n].again) && idle(c, t, n)
	})
}

// know finds the fastest node, and the bounds of copies.
func (w *crowd) know(c *planner.Cycle) {
	w.needs = map[unit.Vector][]breather{}
	for i := range c.NodeCount() {
		if c.Nodes()[i].Speed > c.Nodes()[w.fast].Speed {
			w.fast = i
		}
	}
	p := c.Platform()
	for a := range p.Bandwidth {
		for b, rate := range p.Bandwidth[a] {
			w.latency = max(w.latency, time.Duration(p.Latency[a][b]))
			if rate > 0 && (w.rate == 0 || rate < w.rate) {
				w.rate = rate
			}
		}
	}
}

// bounds returns when t ends at the earliest, and when its inputs are on any node at the latest; false if that is not
// known quickly.
func (w *crowd) bounds(c *planner.Cycle, t *planner.Task) (ends, copied planner.Time, ok bool) {
	if !c.BySpeed(t) {
		return 0, 0, false
	}
	if _, ok := c.Est.(planner.Ranker).Work(t); !ok {
		return 0, 0, false // a faster node may take longer
	}
	longest := time.Duration(1)
	for _, f := range t.Inputs {
		d := w.latency
		if w.rate > 0 {
			moved := planner.TransferTime(c.File(f).Size, w.rate)
			if moved > never {
				return 0, 0, false
			}
			d += moved
		}
		longest = max(longest, d)
	}
	run := max(c.Est.Run(t, &c.Nodes()[w.fast]).Run, 1)
	return c.Now().Add(run), c.Now().Add(longest), true
}

// never is longer than anything takes.
const never = 1 << 60

// breathers returns by node when there is room for a need, which only becomes less in a round.
func breathers(c *planner.Cycle, need unit.Vector) []breather {
	out := make([]breather, len(c.Nodes()))
	for i := range out {
		n, x := planner.NodeID(i), &out[i]
		switch {
		case !need.Fits(c.Draft.Free(n)) || !need.Fits(c.Draft.Unclaimed(n)):
			*x = breather{c.Now(), unit.Never}
			continue
		case c.Draft.Promises(n) == 0:
			*x = breather{unit.Never, unit.Never}
			continue
		}
		x.until, x.again = unit.Never, unit.Never
		for at, used := range c.Draft.Usage(n) {
			fits := need.Fits(c.Capacity(n).Sub(used))
			if x.until == unit.Never && !fits {
				x.until = max(at, c.Now())
			} else if x.until < unit.Never && fits {
				x.again = at
				break
			}
		}
	}
	return out
}
