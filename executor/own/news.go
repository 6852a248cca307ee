package own

import (
	"slices"
	"strconv"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// introduction makes the first message.
func (p *Policy) introduction(c *planner.Cycle) *introduction {
	m := &introduction{Type: "begin", Protocol: protocol, Params: p.params, Seed: c.Rand.Uint64() >> 11,
		Resources:  []string{"cpu_millicores", "memory_bytes", "disk_bytes_per_s", "gpu_thousandths"},
		Overlapped: c.Platform().Overlapped, Links: []linkInfo{}}
	groups := c.Platform().Groups
	for i := range c.Nodes() {
		n := &c.Nodes()[i]
		m.Nodes = append(m.Nodes, nodeInfo{n.ID, n.Name, groups[n.Group], n.Speed, amounts(n.Capacity)})
		p.capacity = append(p.capacity, n.Capacity)
		p.free = append(p.free, n.Capacity)
		first := slices.IndexFunc(c.Nodes()[:i], func(m planner.Node) bool {
			return m.Speed == n.Speed && m.Capacity == n.Capacity
		})
		if first < 0 {
			first = i
		}
		p.kinds = append(p.kinds, planner.NodeID(first))
	}
	for a, from := range groups {
		for b, to := range groups {
			if rate, latency := c.Platform().Link(planner.GroupID(a), planner.GroupID(b)); rate > 0 || latency > 0 {
				m.Links = append(m.Links, linkInfo{from, to, rate, int64(latency)})
			}
		}
	}
	return m
}

// news makes the message of a round: all that there is, or the changes since the last one.
func (p *Policy) news(c *planner.Cycle, whole bool) *news {
	p.ranks.Update(c)
	m := &news{Type: "round", Round: c.Round(), Now: c.Now(), Whole: whole, Suspended: c.News.Suspended,
		Failed: c.News.Ended, Appeared: c.News.Appeared}
	arrived, ready := c.News.Arrived, c.News.Ready
	if whole {
		arrived, ready = c.Present(), c.Ready()
		for a := range c.UnderWay() {
			m.Started = append(m.Started, started(c, a))
		}
	} else {
		for _, w := range c.News.Grown {
			m.Grown = append(m.Grown, p.workflow(c, w))
		}
		p.dueOnes(c, m)
		for _, t := range c.News.Finished {
			e := endedInfo{Task: t, Node: planner.None}
			if a := c.Last(t); a != planner.None && c.Reused(t) == nil {
				e.Node, e.Ran = c.Attempt(a).Node, int64(c.Ran(a))
			}
			m.Finished = append(m.Finished, e)
		}
	}
	for _, w := range arrived {
		m.Arrived = append(m.Arrived, p.workflow(c, w))
	}
	for _, t := range ready {
		if c.Phase(t) == planner.Ready {
			m.Ready = append(m.Ready, p.ready(c, t))
		}
	}
	for node := range c.NodeCount() {
		if now := c.Capacity(node); now != p.capacity[node] {
			p.capacity[node] = now
			m.Changed = append(m.Changed, changedInfo{node, amounts(now)})
		}
		if free := c.Draft.Free(node); whole || free != p.free[node] {
			p.free[node] = free
			m.Free = append(m.Free, freeInfo{node, amounts(free)})
		}
	}
	return m
}

// dueOnes tells of tasks that were to start: they were ordered to, or are as ready as before. Those that are promised a
// place wait for it.
func (p *Policy) dueOnes(c *planner.Cycle, m *news) {
	slices.Sort(p.due)
	left := p.due[:0]
	for _, t := range slices.Compact(p.due) {
		a := c.Last(t)
		switch {
		case a != planner.None && (c.Attempt(a).Ordered >= p.asked || !c.Attempt(a).Over):
			m.Started = append(m.Started, started(c, a)) // it may have ended, too
		case c.Phase(t) != planner.Ready: // it has ended
		case p.promised[t] && !c.Unplaced(t):
			left = append(left, t)
			continue
		case !slices.Contains(c.News.Ready, t):
			m.Ready = append(m.Ready, p.ready(c, t))
		}
		delete(p.promised, t)
	}
	p.due, p.asked = left, c.Now()
}

func started(c *planner.Cycle, a planner.AttemptID) startedInfo {
	att := c.Attempt(a)
	m := startedInfo{att.Task, att.Node, att.Ordered, att.Until}
	if !att.Over {
		m.Until = c.Draft.ActiveEnd(att.Task)
	}
	return m
}

// workflow tells of a workflow, or of what was added to it.
func (p *Policy) workflow(c *planner.Cycle, id planner.WorkflowID) workflowInfo {
	w := c.Workflow(id)
	m := workflowInfo{ID: id, Name: c.Names.OfWorkflow(id), Tenant: w.Tenant, Called: c.Names.OfTenant(w.Tenant),
		Class: w.Class.String(), Arrived: w.Arrived, Release: w.Release, Tasks: []taskInfo{}, Files: []fileInfo{}}
	if w.Due != unit.Never {
		m.Due = &w.Due
	}
	seen := map[planner.FileID]bool{}
	for _, id := range w.Tasks {
		t := c.Task(id)
		info := taskInfo{ID: id, Kind: t.Kind, Need: amounts(t.Need), Parents: list(t.Parents), Inputs: list(t.Inputs),
			Outputs: list(t.Outputs), Run: p.runs(c, t), Rank: p.rank(t)}
		info.Name, info.Type = c.Names.OfTask(id)
		if c.Phase(id).Ended() {
			info.State = c.Phase(id).String()
		}
		m.Tasks = append(m.Tasks, info)
		for _, files := range [...][]planner.FileID{t.Inputs, t.Outputs} {
			for _, f := range files {
				if seen[f] {
					continue
				}
				seen[f] = true
				file := c.File(f)
				about := fileInfo{ID: f, Bytes: file.Size, Nodes: file.Homes}
				if file.Producer != planner.None {
					about.Producer = &file.Producer
				}
				m.Files = append(m.Files, about)
			}
		}
	}
	return m
}

// list is never null.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

func (p *Policy) ready(c *planner.Cycle, id planner.TaskID) readyInfo {
	t := c.Task(id)
	m := readyInfo{Task: id, Try: c.Tries(id) + 1, Run: p.runs(c, t), Rank: p.rank(t)}
	if m.Stay = m.Run; c.Copies(t) || c.Done(id) > 0 {
		m.Stay = p.byNode(c, func(n planner.NodeID) (time.Duration, bool) {
			if site, ok := c.Site(id, n); ok {
				return site.From.Sub(c.Now()) + site.Dur, true
			}
			node := &c.Nodes()[n] // it may return
			return c.Est.Run(t, node).Run, t.Need.Fits(node.Capacity)
		})
	}
	return m
}

func (p *Policy) rank(t *planner.Task) int64 { return int64(p.ranks.Time(t)) }

func (p *Policy) runs(c *planner.Cycle, t *planner.Task) []byte {
	alike := c.BySpeed(t)
	runs := make([]time.Duration, len(p.kinds)) // of those that stand for others
	return p.byNode(c, func(n planner.NodeID) (time.Duration, bool) {
		node := &c.Nodes()[n]
		if first := p.kinds[n]; alike && first != n {
			return runs[first], t.Need.Fits(node.Capacity)
		}
		runs[n] = c.Est.Run(t, node).Run
		return runs[n], t.Need.Fits(node.Capacity)
	})
}

// byNode is a number for all nodes, or a list with one for each; null is for nodes that cannot have the task.
func (p *Policy) byNode(c *planner.Cycle, of func(planner.NodeID) (time.Duration, bool)) []byte {
	all, alike := make([]time.Duration, len(c.Nodes())), true
	for n := range all {
		d, ok := of(planner.NodeID(n))
		if all[n] = max(d, -1); !ok {
			all[n] = -1
		}
		alike = alike && all[n] == all[0]
	}
	if alike && all[0] >= 0 {
		return strconv.AppendInt(nil, int64(all[0]), 10)
	}
	return numbers(all, -1)
}
