package remap

import (
	"math"
	"time"

	"gantry/planner"
	"gantry/planner/timeline"
	"gantry/planner/unit"
)

// pool is a set of nodes of one capacity, speed and group. The plan counts what of them together is in use: any stays of which at most so
// many overlap can be put on so many slots.
type pool struct {
	nodes []planner.NodeID
	usage usage
	idle  usage // scratch of sample schedules
}

// usage is what a pool has in use over time, in those dimensions that can be short.
type usage struct {
	dims []unit.Dim
	of   [unit.Dims]*timeline.Count
}

func newUsage(dims []unit.Dim, capacity unit.Vector, nodes int) usage {
	u := usage{dims: dims}
	for _, d := range dims {
		u.of[d] = timeline.NewCount(capacity[d] * int64(nodes))
	}
	return u
}

func (u *usage) add(start, end planner.Time, need *unit.Vector, sign int64) {
	for _, d := range u.dims {
		u.of[d].Add(start, end, sign*need[d])
	}
}

func (u *usage) prune(before planner.Time) {
	for _, d := range u.dims {
		u.of[d].Prune(before)
	}
}

func (u *usage) reset() {
	for _, d := range u.dims {
		u.of[d].Reset(u.of[d].Capacity())
	}
}

func (u *usage) each(f func(*timeline.Count)) {
	for _, d := range u.dims {
		f(u.of[d])
	}
}

func (u *usage) fits(start, end planner.Time, need *unit.Vector) bool {
	for _, d := range u.dims {
		if need[d] > 0 && !u.of[d].Fits(start, end, need[d]) {
			return false
		}
	}
	return true
}

// overdrawn reports whether more is in use at an instant than there is, of what is needed.
func (u *usage) overdrawn(at planner.Time, need *unit.Vector) bool {
	for _, d := range u.dims {
		if need[d] > 0 && u.of[d].Used(at) > u.of[d].Capacity() {
			return true
		}
	}
	return false
}

// earliest returns the first instant, from the given one on, from which need is free for dur.
func (u *usage) earliest(need *unit.Vector, dur time.Duration, from planner.Time) (planner.Time, bool) {
	for agreed := 0; agreed < len(u.dims); {
		for _, d := range u.dims {
			at := from
			if need[d] > 0 {
				var ok bool
				if at, ok = u.of[d].Earliest(need[d], dur, from); !ok {
					return 0, false
				}
			}
			if agreed++; at != from {
				from, agreed = at, 1
			}
			if agreed == len(u.dims) {
				break
			}
		}
	}
	return from, true
}

// latest returns the last instant, from the given one on, from which need is free for dur and over by until.
func (u *usage) latest(need *unit.Vector, dur time.Duration, from, until planner.Time) (planner.Time, bool) {
	start := until - planner.Time(dur)
	if start < from {
		return 0, false
	}
	for agreed := 0; agreed < len(u.dims); {
		for _, d := range u.dims {
			at := start
			if need[d] > 0 {
				var ok bool
				if at, ok = u.of[d].Latest(need[d], dur, from, start.Add(dur)); !ok {
					return 0, false
				}
			}
			if agreed++; at != start {
				start, agreed = at, 1
			}
			if agreed == len(u.dims) {
				break
			}
		}
	}
	return start, true
}

// makePools sorts the nodes into pools.
func (p *Policy) makePools() {
	c := p.c
	p.pools, p.poolOf = nil, make([]int16, len(c.Nodes()))
	for n := range c.Nodes() {
		k := p.alike(planner.NodeID(n))
		p.poolOf[n] = int16(k)
		p.pools[k].nodes = append(p.pools[k].nodes, planner.NodeID(n))
	}
	for k := range p.pools {
		capacity := c.Capacity(p.pools[k].nodes[0])
		dims := []unit.Dim{unit.CPU}
		for d := unit.CPU + 1; d < unit.Dims; d++ {
			if p.short[d] && capacity[d] != unit.Unlimited {
				dims = append(dims, d)
			}
		}
		p.pools[k].usage, p.pools[k].idle = newUsage(dims, capacity, len(p.pools[k].nodes)), newUsage(dims, capacity, len(p.pools[k].nodes))
		p.pools[k].usage.prune(c.Now())
	}
}

// outdated reports whether the pools are not those of the nodes any more, or do not count what the tasks that arrived may be short of.
// Dimensions other than CPU are counted from the first task on that needs a larger part of a node there than it does of its CPU.
func (p *Policy) outdated() bool {
	c, outdated := p.c, p.pools == nil || p.c.News.Changed
	arrived := c.News.Arrived
	if p.pools == nil {
		arrived = c.Present()
	}
	for _, w := range arrived {
		for _, id := range c.Workflow(w).Tasks {
			t := c.Task(id)
			if !p.apart && len(c.Nodes()) > 1 && !c.BySpeed(t) {
				p.apart, outdated = true, true
			}
			if t.Need == p.seen {
				continue
			}
			p.seen = t.Need
			for d := unit.CPU + 1; d < unit.Dims; d++ {
				if !p.short[d] && t.Need[d] > 0 && p.scarce(t.Need, d) {
					p.short[d], outdated = true, true
				}
			}
		}
	}
	return outdated
}

func (p *Policy) scarce(need unit.Vector, d unit.Dim) bool {
	for n := range p.c.Nodes() {
		capacity := p.c.Nodes()[n].Capacity
		if capacity[d] != unit.Unlimited && float64(need[d])*float64(capacity[unit.CPU]) > float64(need[unit.CPU])*float64(capacity[d])*1.001 {
			return true
		}
	}
	return false
}

// alike returns the pool that node n belongs to.
func (p *Policy) alike(n planner.NodeID) int {
	node := &p.c.Nodes()[n]
	for k := range p.pools {
		m := p.pools[k].nodes[0]
		if other := &p.c.Nodes()[m]; !p.apart && other.Speed == node.Speed && other.Group == node.Group && p.c.Capacity(m) == p.c.Capacity(n) {
			return k
		}
	}
	p.pools = append(p.pools, pool{})
	return len(p.pools) - 1
}

// takes returns what a need counts for in a pool: what it is or, where the nodes together would hold more of its kind than one by one, so
// much more that they do not.
func takes(need, capacity unit.Vector, nodes int) unit.Vector {
	for d := range need {
		if need[d] <= 0 || capacity[d] == unit.Unlimited || need[d] > capacity[d] {
			continue
		}
		if each := capacity[d] / need[d]; capacity[d]*int64(nodes)/need[d] > each*int64(nodes) {
			need[d] = capacity[d] / each
		}
	}
	return need
}

// estimate asks how long the tasks of a job are believed to run.
func (p *Policy) estimate(j *job) {
	n := len(j.at)
	j.runs, j.needs, j.longer = make([]time.Duration, n*len(p.pools)), make([]unit.Vector, n*len(p.pools)), make([]time.Duration, n)
	for i := range int32(n) {
		p.estimateTask(j, i)
	}
}

func (p *Policy) estimateTask(j *job, i int32) {
	c, task := p.c, j.tasks[i]
	shortest := time.Duration(math.MaxInt64)
	for k := range p.pools {
		at, node := int(i)*len(p.pools)+k, p.pools[k].nodes[0]
		j.runs[at] = -1
		if task.Need.Fits(c.Capacity(node)) {
			j.needs[at] = takes(task.Need, c.Capacity(node), len(p.pools[k].nodes))
			j.runs[at] = c.Est.Run(task, &c.Nodes()[node]).Run
			shortest = min(shortest, j.runs[at])
		}
	}
	j.longer[i] = shortest
	if c.Platform().Overlapped && c.Copies(task) {
		if j.leads == nil {
			j.leads = make([]time.Duration, len(j.at))
		}
		j.leads[i] = p.longestCopy(task)
	}
}

// longestCopy returns how long the inputs of t are on the way at most.
func (p *Policy) longestCopy(t *planner.Task) (longest time.Duration) {
	for _, f := range t.Inputs {
		size := p.c.File(f).Size
		for a := range p.pools {
			for b := range p.pools {
				longest = max(longest, p.move(size, a, b))
			}
		}
	}
	return longest
}

// move returns how long a file is on the way from a node of pool a to one of pool b; within a pool of several, to another node.
func (p *Policy) move(size unit.Bytes, a, b int) time.Duration {
	to := p.pools[b].nodes[0]
	if a == b {
		to = p.pools[b].nodes[len(p.pools[b].nodes)-1]
	}
	return p.c.Platform().MoveTime(size, p.pools[a].nodes[0], to)
}

// earliestStart is getEarliestStartTime: when the parents of a task will have ended, not before the start of its job, nor before now.
func (p *Policy) earliestStart(j *job, i int32) planner.Time {
	return p.after(j, i, j.at, max(j.start, p.c.Now()))
}

// after returns when the parents of a task will have ended, their places being as given.
func (p *Policy) after(j *job, i int32, at []placement, from planner.Time) planner.Time {
	for _, parent := range j.parents[i] {
		from = max(from, at[parent].end)
	}
	return from
}

// site returns from when on a task can be in pool k, if its parents have ended by est, and how long it stays. Inputs come from where they
// are, or will be; on which node of the pool it will start is not known yet, so they are taken to come from another.
func (p *Policy) site(j *job, i int32, k int, places []placement, est planner.Time) (from planner.Time, stay time.Duration) {
	c, run := p.c, j.runs[int(i)*len(p.pools)+k]
	if !j.copies {
		return est, run
	}
	from = est
	for _, f := range j.tasks[i].Inputs {
		copying, ready := time.Duration(0), est
		file := c.File(f)
		if near := c.Nearest(f, p.pools[k].nodes[0]); near != planner.None {
			if near != p.pools[k].nodes[0] || !p.everywhere(f, k) {
				copying, ready = p.move(file.Size, int(p.poolOf[near]), k), c.Now()
			}
		} else if file.Producer != planner.None {
			if q := places[j.index(file.Producer)]; q.pool != nowhere && q.stage != unplaced {
				copying, ready = p.move(file.Size, int(q.pool), k), q.end
			}
		}
		if c.Platform().Overlapped {
			from = max(from, ready.Add(copying))
		} else {
			run += copying
		}
	}
	return from, run
}

// everywhere reports whether file f is on every node of pool k, as far as its first and last tell.
func (p *Policy) everywhere(f planner.FileID, k int) bool {
	nodes := p.pools[k].nodes
	return p.c.Has(nodes[0], f) && p.c.Has(nodes[len(nodes)-1], f)
}

// place finds the place of a task that can start at est: by TSP1 where it ends first; by TSP2 where it starts last of those where it meets
// its sub-deadline, and if there is none as soon as it can from the instant on at which it should start.
func (p *Policy) place(j *job, i int32, est planner.Time) placement {
	if j.dummy(i) || est == unit.Never {
		return p.anchored(j, i, est)
	}
	if p.latest {
		best := placement{pool: nowhere, start: -1}
		for k := range p.pools {
			from, stay, ok := p.room(j, i, k, j.at, est)
			if !ok {
				continue
			}
			start, fits := p.pools[k].usage.latest(p.need(j, i, k), stay, from, p.target(j, i))
			if fits && start > best.start {
				best = placement{planned, int16(k), start, start.Add(stay), start}
			}
		}
		if best.pool != nowhere {
			return best
		}
	}
	return p.first(j, i, j.at, est, false)
}

// first finds where a task ends first, beside what is planned or on the idle nodes of a sample schedule.
func (p *Policy) first(j *job, i int32, places []placement, est planner.Time, idle bool) placement {
	best := placement{pool: nowhere, stage: planned, start: unit.Never, end: unit.Never, claim: unit.Never}
	for k := range p.pools {
		from, stay, ok := p.room(j, i, k, places, est)
		if !ok || from.Add(stay) >= best.end {
			continue
		}
		if p.latest {
			from = max(from, p.target(j, i)-planner.Time(stay))
		}
		start, fits := p.usage(k, idle).earliest(p.need(j, i, k), stay, from)
		if end := start.Add(stay); fits && end < best.end {
			best = placement{planned, int16(k), start, end, start}
		}
	}
	return best
}

// target is when TSP2 would have a task end.
func (p *Policy) target(j *job, i int32) planner.Time {
	return j.sub[i] - planner.Time(p.Margin) // finite: jobs without a deadline are mapped by TSP1
}

func (p *Policy) usage(k int, idle bool) *usage {
	if idle {
		return &p.pools[k].idle
	}
	return &p.pools[k].usage
}

// need is what a task counts for in pool k.
func (p *Policy) need(j *job, i int32, k int) *unit.Vector { return &j.needs[int(i)*len(p.pools)+k] }

// room returns how a task could stay in pool k; false if it never can.
func (p *Policy) room(j *job, i int32, k int, places []placement, est planner.Time) (from planner.Time, stay time.Duration, ok bool) {
	if j.runs[int(i)*len(p.pools)+k] < 0 {
		return 0, 0, false
	}
	from, stay = p.site(j, i, k, places, est)
	return from, stay, true
}

// anchored is the place of a task that takes none: a dummy, or one whose parents fit nowhere.
func (p *Policy) anchored(j *job, i int32, est planner.Time) placement {
	at := placement{stage: planned, start: est, end: est, claim: est, pool: nowhere}
	for k := range p.pools {
		if est < unit.Never && j.runs[int(i)*len(p.pools)+k] >= 0 {
			at.pool = int16(k)
			break
		}
	}
	return at
}

// sampleSchedule schedules a whole job on the empty system (SET_j^R) or, if loaded, beside all that is planned (SET_j^R_PL), the longest
// ready tasks first, each as early as possible. The result holds until the next call.
func (p *Policy) sampleSchedule(j *job, loaded bool) []placement {
	from := j.start
	if loaded {
		from = max(from, p.c.Now())
	}
	places := append(p.work.sample[:0], make([]placement, len(j.at))...)
	p.work.sample = places
	for k := range p.pools {
		p.pools[k].idle.reset()
	}
	p.work.order = p.sweep(j, p.work.order[:0], func(int32) bool { return true })
	occupy := func(at placement, i int32, sign int64) {
		if at.pool != nowhere {
			p.usage(int(at.pool), !loaded).add(at.start, at.end, p.need(j, i, int(at.pool)), sign)
		}
	}
	for _, i := range p.work.order {
		places[i] = p.first(j, i, places, p.after(j, i, places, from), !loaded)
		occupy(places[i], i, +1)
	}
	if loaded {
		for _, i := range p.work.order {
			occupy(places[i], i, -1)
		}
	}
	return places
}
