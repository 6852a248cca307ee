package remap

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// plan has the places of all tasks.
type plan struct {
	c       *planner.Cycle
	pools   []pool
	poolOf  []int16 // by node
	indexOf []int32 // by node: its number in the pool
	// each node is a pool: tasks run at different speeds on nodes of one speed, or have inputs that are copied ahead
	apart   bool
	counts  bool   // what searches look at; see planner.SearchCounter
	jobs    []*job // by workflow; nil before and after its stay
	present []*job
	spans   []span // by position in present
	touched []*job // their tasks got other places

	// Of the attempt at remapping that is under way, or the last one.
	saving int // its number
	saved  []snapshot
	places []placement

	// What the keeper is to look at.
	sought    []start // tasks whose inputs may have to be copied ahead: another place, or new files
	mappedNow []*job  // of these all tasks
}

type span struct{ begin, end planner.Time }

// snapshot is a job as it was before an attempt at remapping.
type snapshot struct {
	j      *job
	places int // its places, from there on in plan.places
	begin  planner.Time
	end    planner.Time
	placed bool
	eager  bool
}

// of returns the job of a task and its number there; nil if the job is not planned here.
func (p *plan) of(t planner.TaskID) (*job, int32) {
	w := p.c.Task(t).Workflow
	if int(w) >= len(p.jobs) || p.jobs[w] == nil {
		return nil, 0
	}
	return p.jobs[w], p.jobs[w].index(t)
}

// put gives a task its place.
func (p *plan) put(j *job, i int32, at placement) {
	p.vacate(j, i)
	// a job that begins later or ends earlier than is known
	j.stale = j.stale || at.start > j.at[i].start || at.end < j.at[i].end
	j.at[i] = at
	p.occupy(j, i)
	p.touch(j)
}

func (p *plan) touch(j *job) {
	if !j.touched {
		j.touched = true
		p.touched = append(p.touched, j)
	}
}

// occupy adds the use of a task to its pool.
func (p *plan) occupy(j *job, i int32) {
	if at := &j.at[i]; j.occupies(i) {
		at.node = p.pools[at.pool].usage.add(at.start, at.end, &j.needs[i], at.node)
	}
}

// vacate takes it away again.
func (p *plan) vacate(j *job, i int32) {
	if at := &j.at[i]; j.occupies(i) {
		p.pools[at.pool].usage.remove(at.start, at.end, &j.needs[i], at.node)
	}
}

// settle brings up to date when a job begins and ends. Dummies begin nothing: they do not execute.
func (p *plan) settle(j *job) {
	if !j.stale {
		return
	}
	j.stale = false
	if !j.begun {
		j.begin = unit.Never
	}
	j.end = 0
	for i := range j.at {
		if at := &j.at[i]; at.stage != unplaced {
			j.end = max(j.end, at.end)
			if at.stage != over && !j.dummy(int32(i)) {
				j.begin = min(j.begin, at.start)
			}
		}
	}
	p.span(j)
}

func (p *plan) span(j *job) {
	p.spans[j.position] = span{j.begin, j.end}
	if !j.placed {
		p.spans[j.position] = span{unit.Never, 0}
	}
}

// unplace takes the open tasks of a job out of the plan.
func (p *plan) unplace(j *job) {
	for i := range j.at {
		if s := j.at[i].stage; s == planned || s == due {
			p.vacate(j, int32(i))
			j.at[i] = placement{}
		}
	}
	p.touch(j)
}

// eachUsage applies do to the usage of each pool.
func (p *plan) eachUsage(do func(*usage)) {
	for k := range p.pools {
		do(p.pools[k].usage)
	}
}

// save remembers the usage of all pools, for restore or forget: undoing thousands of edits one by one would take as
// long as they did.
func (p *plan) save() {
	p.eachUsage((*usage).save)
	p.saving++
	p.saved, p.places = p.saved[:0], p.places[:0]
}

// keep remembers a job that is removed for the first time since save.
func (p *plan) keep(j *job) {
	if j.kept == p.saving {
		return
	}
	j.kept = p.saving
	p.settle(j)
	p.saved = append(p.saved, snapshot{j, len(p.places), j.begin, j.end, j.placed, j.eager})
	p.places = append(p.places, j.at...)
}

func (p *plan) forget() {
	p.eachUsage((*usage).forget)
}

// restore undoes all edits since save.
func (p *plan) restore() {
	p.eachUsage((*usage).restore)
	for _, s := range p.saved {
		copy(s.j.at, p.places[s.places:])
		s.j.begin, s.j.end, s.j.placed, s.j.eager = s.begin, s.end, s.placed, s.eager
		p.span(s.j)
		p.touch(s.j)
	}
}

// makePools sorts the nodes into pools.
func (p *plan) makePools() {
	c := p.c
	p.pools, p.poolOf, p.indexOf = nil, make([]int16, len(c.Nodes())), make([]int32, len(c.Nodes()))
	for n := range c.NodeCount() {
		k := p.alike(n)
		p.poolOf[n], p.indexOf[n] = int16(k), int32(len(p.pools[k].nodes))
		p.pools[k].nodes = append(p.pools[k].nodes, n)
	}
	for k := range p.pools {
		pool := &p.pools[k]
		pool.layout = &layout{nodes: len(pool.nodes), capacity: c.Capacity(pool.nodes[0]), dims: []unit.Dim{unit.CPU}}
		pool.usage, pool.idle = &usage{layout: pool.layout}, &usage{layout: pool.layout}
		if p.counts {
			pool.usage.countStays()
		}
	}
}

// nodeFor returns the node that a task gets whose pool is split, those before it having got theirs.
func (p *plan) nodeFor(from *pool, s start) planner.NodeID {
	at, need := &s.j.at[s.i], &s.j.needs[s.i]
	switch {
	case at.stage == active: // it may have ended since the last round
		return p.c.Attempt(p.c.Last(s.j.task(s.i))).Node
	case !s.j.occupies(s.i):
		return from.nodes[0]
	case from.packed:
		return from.nodes[at.node]
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

// learn takes in the need of a task in pool k. If that changes how the pool counts, its usage is counted again.
func (p *plan) learn(k int, need unit.Vector) {
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
				if !packed { // else it keeps its node: where CPU was enough for all before, so is the scarce resource
					at.node = anywhere
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
			at.node = p.indexOf[seg.Node]
		}
		p.occupy(s.j, s.i)
	}
}

// alike returns the pool that node n belongs to.
func (p *plan) alike(n planner.NodeID) int {
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
func (p *plan) estimate(j *job) {
	n := len(j.at)
	j.runs, j.needs, j.longer = make([]time.Duration, n*len(p.pools)), make([]unit.Vector, n), make([]time.Duration, n)
	for i := range int32(n) {
		p.estimateTask(j, i)
	}
}

func (p *plan) estimateTask(j *job, i int32) {
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

// pool is a set of nodes of one capacity, speed and group.
type pool struct {
	nodes []planner.NodeID
	*layout
	usage *usage // the plan
	idle  *usage // scratch of sample schedules
}

// inOrder is the order in which planned tasks are counted again: running ones first, then as an interval graph is
// coloured.
func inOrder(a, b start) int {
	x, y := &a.j.at[a.i], &b.j.at[b.i]
	return cmp.Or(cmp.Compare(y.stage, x.stage), byStart(a, b))
}
