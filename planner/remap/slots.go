package remap

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// pool is a set of nodes of one capacity, speed and group.
type pool struct {
	nodes []planner.NodeID
	*layout
	usage *usage // the plan
	idle  *usage // scratch of sample schedules
}

// makePools sorts the nodes into pools.
func (p *Policy) makePools() {
	c := p.c
	p.pools, p.poolOf, p.indexOf = nil, make([]int16, len(c.Nodes())), make([]int32, len(c.Nodes()))
	for n := range c.Nodes() {
		k := p.alike(planner.NodeID(n))
		p.poolOf[n], p.indexOf[n] = int16(k), int32(len(p.pools[k].nodes))
		p.pools[k].nodes = append(p.pools[k].nodes, planner.NodeID(n))
	}
	for k := range p.pools {
		pool := &p.pools[k]
		pool.layout = &layout{nodes: len(pool.nodes), capacity: c.Capacity(pool.nodes[0]), dims: []unit.Dim{unit.CPU}}
		pool.usage, pool.idle = newUsage(pool.layout), newUsage(pool.layout)
	}
}

// outdated reports whether the pools are not those of the nodes any more. Where the first workflow comes whose inputs
// are copied ahead of their consumers, it splits them.
func (p *Policy) outdated() bool {
	c, outdated := p.c, p.pools == nil || p.c.News.Changed
	if p.apart || len(c.Nodes()) == 1 {
		return outdated
	}
	arrived := slices.Concat(c.News.Arrived, c.News.Grown)
	if p.pools == nil {
		arrived = c.Present()
	}
	fetches := false
	for _, w := range arrived {
		for _, id := range c.Workflow(w).Tasks {
			if !c.BySpeed(c.Task(id)) {
				p.apart = true
				return true
			}
			fetches = fetches || p.fetches(c.Task(id))
		}
	}
	switch {
	case fetches && outdated:
		p.apart = true
	case fetches:
		p.split()
	}
	return outdated
}

// split makes each node a pool of its own. Planned tasks get a node, and keep their times.
func (p *Policy) split() {
	old, poolOf := p.pools, p.poolOf
	var all []start
	for _, j := range p.present {
		for i := range j.at {
			if at := &j.at[i]; at.pool != nowhere {
				all = append(all, start{j, int32(i)})
			}
		}
	}
	slices.SortFunc(all, inOrder)
	p.apart = true
	p.makePools()
	p.ready = newFollow(len(p.pools), false).ready
	for n := range p.pools {
		pool, from := &p.pools[n], old[poolOf[n]].layout
		pool.dims, pool.kinds, pool.packed = slices.Clone(from.dims), slices.Clone(from.kinds), from.packed
		pool.usage.rearrange(p.c.Now())
		pool.idle.rearrange(0)
	}
	for _, j := range p.present {
		runs := make([]time.Duration, 0, len(j.at)*len(p.pools))
		for i := range j.at {
			for n := range p.pools {
				runs = append(runs, j.runs[i*len(old)+int(poolOf[n])])
			}
		}
		j.runs = runs
	}
	for _, s := range all {
		at := &s.j.at[s.i]
		at.pool, at.slot = p.poolOf[p.nodeFor(&old[at.pool], s)], onNode(0)
		p.occupy(s.j, s.i)
		if at.stage == due && !s.j.dummy(s.i) && p.c.Phase(s.j.task(s.i)) == planner.Ready {
			p.claim(s.j, s.i)
		}
	}
}

// nodeFor returns the node that a task gets whose pool is split, those before it having got theirs.
func (p *Policy) nodeFor(from *pool, s start) planner.NodeID {
	at, need := &s.j.at[s.i], &s.j.needs[s.i]
	switch {
	case at.stage == active: // it may have ended since the last round
		return p.c.Attempt(p.c.Last(s.j.task(s.i))).Node
	case !s.j.occupies(s.i):
		return from.nodes[0]
	case from.packed:
		return from.nodes[from.usage.stays[at.slot].node]
	}
	best, soonest := from.nodes[0], unit.Never // of slots, one is free all the time, unless the plan has bent
	for _, n := range from.nodes {
		count := p.pools[p.poolOf[n]].usage.count(need)
		if count.Fits(at.start, at.end, slot) {
			return n
		}
		if begin, ok := count.Earliest(slot, 1, at.start); ok && begin < soonest {
			best, soonest = n, begin
		}
	}
	return best
}

// inOrder is the order in which planned tasks are counted again: running ones first, then as an interval graph is
// coloured.
func inOrder(a, b start) int {
	x, y := &a.j.at[a.i], &b.j.at[b.i]
	return cmp.Or(cmp.Compare(y.stage, x.stage), cmp.Compare(x.start, y.start), cmp.Compare(a.j.id, b.j.id),
		cmp.Compare(a.i, b.i))
}

// learn takes in the need of a task in pool k. If that changes how the pool counts, its usage is counted again.
func (p *Policy) learn(k int, need unit.Vector) {
	pool := &p.pools[k]
	if !pool.learn(need) {
		return
	}
	packed := pool.usage.each != nil
	var all []start
	for _, j := range p.present {
		for i := range j.at {
			if at := &j.at[i]; int(at.pool) == k && j.occupies(int32(i)) {
				all = append(all, start{j, int32(i)})
				if packed { // it keeps its node: where CPU was enough for all before, so is the scarce resource now
					at.slot = onNode(pool.usage.stays[at.slot].node)
				} else {
					at.slot = anywhere
				}
			}
		}
	}
	pool.usage.rearrange(p.c.Now())
	pool.idle.rearrange(0)
	slices.SortFunc(all, inOrder)
	for _, s := range all {
		at := &s.j.at[s.i]
		if at.stage >= active {
			seg, _ := p.c.Draft.Of(s.j.task(s.i))
			at.slot = onNode(p.indexOf[seg.Node])
		}
		p.occupy(s.j, s.i)
	}
}

// alike returns the pool that node n belongs to.
func (p *Policy) alike(n planner.NodeID) int {
	node := &p.c.Nodes()[n]
	for k := range p.pools {
		m := p.pools[k].nodes[0]
		if other := &p.c.Nodes()[m]; !p.apart && other.Speed == node.Speed && other.Group == node.Group &&
			p.c.Capacity(m) == p.c.Capacity(n) {
			return k
		}
	}
	p.pools = append(p.pools, pool{})
	return len(p.pools) - 1
}

// estimate asks how long the tasks of a job are estimated to run.
func (p *Policy) estimate(j *job) {
	n := len(j.at)
	j.runs, j.needs, j.longer = make([]time.Duration, n*len(p.pools)), make([]unit.Vector, n), make([]time.Duration, n)
	for i := range int32(n) {
		p.estimateTask(j, i)
	}
}

func (p *Policy) estimateTask(j *job, i int32) {
	c, task := p.c, j.tasks[i]
	j.needs[i] = task.Need
	shortest := time.Duration(math.MaxInt64)
	for k := range p.pools {
		at, node := int(i)*len(p.pools)+k, p.pools[k].nodes[0]
		j.runs[at] = -1
		if task.Need.Fits(c.Capacity(node)) {
			j.runs[at] = c.Est.Run(task, &c.Nodes()[node]).Run
			shortest = min(shortest, j.runs[at])
			if j.runs[at] > 0 {
				p.learn(k, task.Need)
			}
		}
	}
	j.longer[i] = shortest
}

// move returns how long a file is on the way from a node of pool a to one of pool b; within a pool of several, to
// another node.
func (p *Policy) move(size unit.Bytes, a, b int) time.Duration {
	to := p.pools[b].nodes[0]
	if a == b {
		to = p.pools[b].nodes[len(p.pools[b].nodes)-1]
	}
	return p.c.Platform().MoveTime(size, p.pools[a].nodes[0], to)
}

// earliestStart is getEarliestStartTime: when the parents of a task will have ended, not before the start of its job,
// nor before now.
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

// site returns from when on a task can be in pool k, if its parents have ended by est, and how long it stays. Inputs
// come from where they are, or will be; on which node of the pool it will start is not known yet, so they are taken to
// come from another.
func (p *Policy) site(j *job, i int32, k int, places []placement, est planner.Time) (from planner.Time,
	stay time.Duration) {
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
				if at, underWay := c.Draft.CopyEnd(f, p.pools[k].nodes[0]); underWay {
					copying, ready = 0, max(at, ready)
				}
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

// place finds the place of a task that can start at est: by TSP1 where it ends first; by TSP2 where it starts last of
// those where it meets its sub-deadline, and if there is none as soon as it can from the instant on at which it should
// start.
func (p *Policy) place(j *job, i int32, est planner.Time) placement {
	if p.latest && !j.dummy(i) && est < unit.Never {
		best := placement{pool: nowhere, start: -1}
		for k := range p.pools {
			from, stay, ok := p.room(j, i, k, j.at, est)
			if !ok {
				continue
			}
			start, slot, fits := p.pools[k].usage.latest(&j.needs[i], stay, from, p.target(j, i))
			if fits && start > best.start {
				best = placement{planned, int16(k), slot, start, start.Add(stay), start}
			}
		}
		if best.pool != nowhere {
			return best
		}
	}
	return p.first(j, i, j.at, est, false)
}

// first finds where a task ends first, beside the plan or on the idle nodes of a sample schedule.
func (p *Policy) first(j *job, i int32, places []placement, est planner.Time, idle bool) placement {
	if j.dummy(i) || est == unit.Never {
		return p.anchored(j, i, places, est)
	}
	best := placement{pool: nowhere, stage: planned, start: unit.Never, end: unit.Never, claim: unit.Never}
	for k := range p.pools {
		from, stay, ok := p.room(j, i, k, places, est)
		if !ok || from.Add(stay) >= best.end {
			continue
		}
		if p.latest {
			from = max(from, p.target(j, i)-planner.Time(stay))
		}
		start, slot, fits := p.usage(k, idle).earliest(&j.needs[i], stay, from)
		if end := start.Add(stay); fits && end < best.end {
			best = placement{planned, int16(k), slot, start, end, start}
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
		return p.pools[k].idle
	}
	return p.pools[k].usage
}

// room returns how a task could stay in pool k; false if it never can.
func (p *Policy) room(j *job, i int32, k int, places []placement, est planner.Time) (from planner.Time,
	stay time.Duration, ok bool) {
	if j.runs[int(i)*len(p.pools)+k] < 0 {
		return 0, 0, false
	}
	from, stay = p.site(j, i, k, places, est)
	return from, stay, true
}

// anchored is the place of a task that takes none: a dummy, or one whose parents fit nowhere.
func (p *Policy) anchored(j *job, i int32, places []placement, est planner.Time) placement {
	at := placement{stage: planned, start: est, end: est, claim: est, pool: nowhere}
	for k := range p.pools {
		switch {
		case est == unit.Never || j.runs[int(i)*len(p.pools)+k] < 0:
			continue
		case !j.fetches:
			at.pool = int16(k)
			return at
		}
		if from, _ := p.site(j, i, k, places, est); at.pool == nowhere || from < at.start {
			at = placement{stage: planned, start: from, end: from, claim: from, pool: int16(k)}
		}
	}
	return at
}

// sampleSchedule schedules a whole job on the empty system (SET_j^R) or, if loaded, beside all that is planned
// (SET_j^R_PL), the longest ready tasks first, each as early as possible. The result holds until the next call.
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
	for _, i := range p.work.order {
		places[i] = p.first(j, i, places, p.after(j, i, places, from), !loaded)
		if at := &places[i]; at.pool != nowhere && at.start < at.end && !j.dummy(i) {
			at.slot = p.usage(int(at.pool), !loaded).add(at.start, at.end, &j.needs[i], at.slot, false)
		}
	}
	if loaded {
		for _, i := range p.work.order {
			if at := &places[i]; at.pool != nowhere && at.start < at.end && !j.dummy(i) {
				p.pools[at.pool].usage.remove(at.slot, at.start, at.end, &j.needs[i])
			}
		}
	}
	return places
}
