package planner

import (
	"math"
	"time"
)

// Contest is between an idle node and the busy one that becomes idle first, Lead from now.
type Contest struct {
	Idle, Busy NodeID
	Lead       time.Duration
}

// Gain returns by how much t is quicker on the busy node, the wait for it left out: it waits if that is more than Lead.
// A gain that lasts depends on the speeds of the two nodes alone, and may be kept.
func (x Contest) Gain(c *Cycle, t TaskID) (gain time.Duration, lasts bool) {
	task, nodes := c.Task(t), c.Nodes()
	if s, ok := c.Est.(Steady); ok && s.Steady() && c.BySpeed(task) && !c.Copies(task) {
		run := func(n NodeID) time.Duration { return max(c.Est.Run(task, &nodes[n]).Run, 1) }
		return run(x.Idle) - run(x.Busy), true
	}
	there, ok := c.Site(t, x.Busy)
	here, ok2 := c.Site(t, x.Idle)
	if !ok || !ok2 {
		return math.MinInt64, false
	}
	from := c.Now().Add(x.Lead)
	return x.Lead - max(there.From, from).Add(there.Dur).Sub(here.From.Add(here.Dur)), false
}
