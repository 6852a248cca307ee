package alloc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/timeline"
	"gantry/planner/unit"
)

// Rearrangement is how tasks may pass others of the waiting queue.
type Rearrangement uint8

const (
	// InOrder lets no task pass: where the first one has to wait, all do.
	InOrder Rearrangement = iota
	// EASY lets tasks pass that do not delay the first one that has to wait.
	EASY
	// PerCluster is the conservative backfilling of OWM: every task is tried on the profile of every cluster, which it
	// then occupies on all, and tasks are allocated by the earliest start found so (Wang, MOWS, section 3-2 and figure
	// 3-6).
	PerCluster
	// PriorityBased is conservative backfilling over one profile of the whole system: in the order of the queue every
	// task reserves one place, and those whose place is free now are allocated (section 3-2, figure 3-7). To which
	// cluster is a phase of its own: AA may find another one than the first that had enough processors.
	PriorityBased
)

// Allocation is the choice among clusters. An earlier finish is better, then an earlier start, then the lower id.
type Allocation uint8

const (
	// Adaptive Allocation (AA, OWM): if several clusters have room now, the best of them; if one has, the best of all.
	Adaptive Allocation = iota
	// AllEarliestFinish (All-EFT): always the best of all clusters (section 3-4, figure 3-13).
	AllEarliestFinish
)

// Rigid allocates tasks that need several processors of one cluster, a node, as Online Workflow Management and
// Mixed-Parallel Online Workflow Scheduling do (Wang, MOWS, section 3). A task that is allocated keeps its place, be it
// later on: see retain.Allocated.
//
// Rigid sketches the estimated needs of the queue on a copy of the usage, and reserves in the draft only the places
// that it allocates. It looks at the queue only after an event that can let a task be allocated.
type Rigid struct {
	Rearrange  Rearrangement
	Choose     Allocation
	Preemption *Preemption // nil: none
	// OnDemand lets copies begin when the consumer is allocated. Otherwise every output is copied to all clusters that
	// could need it as soon as it is written: the thesis's simulator with realtime = false (section 4-2-3). Both where
	// copies overlap other work.
	OnDemand bool

	now     planner.Time
	sketch  []timeline.Profile // by node: running and allocated tasks, and the reservations of the queue
	drawn   bool               // sketch and free have the state of this round
	free    []unit.Vector      // by node: now, regardless of later reservations
	sites   []site             // by node: of the task looked at
	known   known
	stale   bool  // spare is to be found out again
	spare   bool  // some node has processors for the least of the queue
	best0   place // the result of best on all nodes for the task looked at; nowhere before that
	late    bool  // a task waits for an input that was estimated to be there
	waiting []estimatedStart
	fresh   []int64 // by task: the round in which it entered the queue, as one that may preempt
	urgent  int     // tasks of this round that may preempt and were not looked at yet
	shown   uint64  // the changes of the draft that the sketch has
	queue   reservations
	before  []site // of unmoved
	waits   WaitingQueue
}

// site is a way to house a task on a node.
type site struct {
	fits bool
	room bool         // there is room right now, regardless of later reservations
	more unit.Vector  // resources that have to be free
	hold unit.Vector  // resources that it holds
	from planner.Time // its inputs are there
	dur  time.Duration
}

// known has the sites of waiting tasks, which stay as they are until an input appears: where copies begin before a task
// is allocated, and estimates do not change.
type known struct {
	slots  []int32 // by task: index in sites over nodes and one; 0: none, below 0: outdated
	sites  []site
	unused []int32
}

// place is a stay on a node.
type place struct {
	node       planner.NodeID
	start, end planner.Time
}

var nowhere = place{node: planner.None, start: unit.Never, end: unit.Never}

// earlier reports whether p finishes before o or, at the same time, starts before it.
func (p place) earlier(o place) bool {
	return o.node == planner.None && p.node != planner.None || p.end < o.end || p.end == o.end && p.start < o.start
}

// WaitingQueue is a queue that tells Rigid more than its order.
type WaitingQueue interface {
	planner.Queue
	Add(c *planner.Cycle, t planner.TaskID) // a task that lost its place
	Passed() int                            // tasks passed over in this round
	LeastCPU(c *planner.Cycle) int64        // the smallest need in the queue, in millicores
	// Expect has a task stand in the queue that leaves its place: the tasks behind it wait until it is reported to have
	// left.
	Expect(c *planner.Cycle, t planner.TaskID)
	Expecting() bool
	Fresh() []planner.TaskID                  // tasks that entered in this round
	Frozen(c *planner.Cycle) []planner.TaskID // tasks that continue where they are
}

// Allocate implements planner.Allocator.
func (r *Rigid) Allocate(ctx context.Context, c *planner.Cycle, q WaitingQueue) error {
	r.begin(c, q)
	if !r.OnDemand {
		push(c)
	}
	err := r.rearranged(ctx, c, q)
	if c.Draft.Plans() > 0 {
		c.WakeAt(c.Draft.NextStart()) // an awaited copy may come before its time
	}
	return err
}

func (r *Rigid) begin(c *planner.Cycle, q WaitingQueue) {
	r.now, r.drawn, r.urgent, r.stale, r.waits = c.Now(), false, 0, true, q
	if r.sketch == nil {
		r.sketch, r.free = make([]timeline.Profile, len(c.Nodes())), make([]unit.Vector, len(c.Nodes()))
		r.shown = math.MaxUint64
	}
	r.known.slots = planner.Extend(r.known.slots, c.Tasks())
	r.fresh = planner.Extend(r.fresh, c.Tasks())
	for _, f := range c.News.Appeared {
		if c.File(f).Producer == planner.None {
			continue
		}
		for _, t := range c.Task(c.File(f).Producer).Children {
			r.known.outdate(t)
		}
	}
	if c.News.Changed { // a task that did not fit may fit now
		for t := range r.known.slots {
			r.known.outdate(planner.TaskID(t))
		}
	}
	for _, t := range c.News.Ended {
		r.known.forget(t)
	}
	if r.Preemption != nil {
		for _, t := range q.Fresh() {
			r.known.outdate(t)
			if r.Preemption.concerns(c, t) {
				r.fresh[t] = c.Round()
				r.urgent++
			}
		}
	}
}

// outdate marks the sites of t as outdated.
func (k *known) outdate(t planner.TaskID) { k.slots[t] = -max(k.slots[t], -k.slots[t]) }

// forget gives back the memory for the sites of t.
func (k *known) forget(t planner.TaskID) {
	k.outdate(t)
	if k.slots[t] != 0 {
		k.unused = append(k.unused, -k.slots[t])
		k.slots[t] = 0
	}
}

// of returns the memory for the sites of t on n nodes, and whether it has them.
func (k *known) of(t planner.TaskID, n int) ([]site, bool) {
	had := k.slots[t] > 0
	switch free := len(k.unused); {
	case k.slots[t] < 0:
		k.slots[t] = -k.slots[t]
	case had:
	case free > 0:
		k.slots[t] = k.unused[free-1]
		k.unused = k.unused[:free-1]
	default:
		k.sites = append(k.sites, make([]site, n)...)
		k.slots[t] = int32(len(k.sites) / n)
	}
	i := (int(k.slots[t]) - 1) * n
	return k.sites[i : i+n], had
}

// rearranged allocates tasks of the queue if anything happened that may let a waiting one be allocated. A copy that
// arrives as estimated does not: a task that has room is allocated ahead.
func (r *Rigid) rearranged(ctx context.Context, c *planner.Cycle, q WaitingQueue) error {
	n := &c.News
	if !r.late && !n.Freed && !n.Changed && len(q.Fresh())+len(n.Ended)+len(n.Arrived)+len(n.Grown) == 0 {
		return nil
	}
	r.late = false
	switch r.Rearrange {
	case EASY:
		return r.easy(ctx, c, q)
	case PerCluster:
		return r.perCluster(ctx, c, q)
	case PriorityBased:
		return r.priorityBased(ctx, c, q)
	}
	return r.inOrder(ctx, c, q)
}

// push has the outputs of tasks that have ended copied to wherever they may be read.
func push(c *planner.Cycle) {
	if !c.Platform().Overlapped || len(c.Nodes()) < 2 {
		return
	}
	for _, t := range c.News.Finished {
		pushOutputs(c, t)
	}
	// After a restart some tasks are done, added tasks may read older files, and a node may be there again.
	lists := [][]planner.WorkflowID{c.News.Arrived, c.News.Grown}
	if c.News.Changed {
		lists = [][]planner.WorkflowID{c.Present()}
	}
	for _, list := range lists {
		for _, w := range list {
			for _, t := range c.Workflow(w).Tasks {
				if c.Phase(t) == planner.Done {
					pushOutputs(c, t)
				}
			}
		}
	}
}

func pushOutputs(c *planner.Cycle, t planner.TaskID) {
	task := c.Task(t)
	for _, f := range task.Outputs {
		for _, child := range task.Children {
			if c.Phase(child) > planner.Ready || !slices.Contains(c.Task(child).Inputs, f) {
				continue
			}
			for node := range c.NodeCount() {
				if c.Task(child).Need.Fits(c.Capacity(node)) {
					c.Draft.Copy(f, node, child)
				}
			}
		}
	}
}

// draw makes the sketch of running and allocated tasks, once a round.
func (r *Rigid) draw(c *planner.Cycle) {
	if r.drawn {
		return
	}
	r.drawn, r.shown = true, c.Draft.Changes()
	r.count(c)
	for n := range r.sketch {
		c.Draft.Sketch(planner.NodeID(n), &r.sketch[n])
	}
}

// count finds the resources that are free now.
func (r *Rigid) count(c *planner.Cycle) {
	for n := range r.free {
		r.free[n] = c.Draft.Free(planner.NodeID(n))
	}
}

// look finds the ways to house t, and returns how many nodes have room for it now.
func (r *Rigid) look(c *planner.Cycle, t planner.TaskID) (rooms int) {
	if r.fresh[t] == c.Round() {
		r.fresh[t] = 0
		r.urgent--
	}
	return r.glance(c, t)
}

// glance does so for a trial: whether t may preempt is still to be seen.
func (r *Rigid) glance(c *planner.Cycle, t planner.TaskID) (rooms int) {
	r.best0 = nowhere
	had := false
	if r.sites, had = r.known.of(t, len(r.sketch)); !had {
		r.survey(c, t, r.sites)
	}
	for n := range r.sites {
		s := &r.sites[n]
		if s.room = s.fits && s.more.Fits(r.free[n]); s.room {
			rooms++
		}
	}
	return rooms
}

// survey finds the sites of t.
func (r *Rigid) survey(c *planner.Cycle, t planner.TaskID, sites []site) {
	for n := range sites {
		s := &sites[n]
		var w planner.Site
		w, s.fits = c.Site(t, planner.NodeID(n))
		s.more, s.hold, s.from, s.dur = w.More, w.Need, w.From, w.Dur
	}
	if r.OnDemand || !c.Platform().Overlapped || c.Learns() || c.Phase(t) == planner.Suspended || lacks(c, t, sites) {
		r.known.outdate(t)
	}
}

// lacks reports whether an input of t is on no way to a node that fits: a copy would begin later in a later round.
func lacks(c *planner.Cycle, t planner.TaskID, sites []site) bool {
	for n := range sites {
		for _, f := range c.Task(t).Inputs {
			_, underWay := c.Draft.CopyEnd(f, planner.NodeID(n))
			if sites[n].fits && !underWay && !c.Has(planner.NodeID(n), f) {
				return true
			}
		}
	}
	return false
}

// ready returns when the inputs of the task looked at are there, from now on.
func (r *Rigid) ready(s *site) planner.Time { return max(s.from, r.now) }

// on returns the earliest stay of the task looked at on node n.
func (r *Rigid) on(n int) place {
	s := &r.sites[n]
	if !s.fits {
		return nowhere
	}
	start, ok := r.sketch[n].Earliest(s.more, s.dur, r.ready(s))
	if !ok {
		return nowhere
	}
	return place{planner.NodeID(n), start, start.Add(s.dur)}
}

// best returns the best stay of the task looked at on all nodes, or on those with room.
func (r *Rigid) best(rooms bool) place {
	if r.best0.node != planner.None && !rooms {
		return r.best0
	}
	best := nowhere
	for n := range r.sites {
		s := &r.sites[n]
		if !s.fits || rooms && !s.room || best.node != planner.None && r.ready(s).Add(s.dur) > best.end {
			continue
		}
		if p := r.on(n); p.earlier(best) {
			best = p
		}
	}
	if !rooms {
		r.best0 = best
	}
	return best
}

// soonest returns the stay in which the task looked at has enough processors first, then the one that ends first. Its
// inputs may come later.
func (r *Rigid) soonest() place {
	best := nowhere
	for n := range r.sites {
		s := &r.sites[n]
		if !s.fits {
			continue
		}
		start, ok := r.sketch[n].Earliest(s.more, s.dur, r.now)
		if p := (place{planner.NodeID(n), start, start.Add(s.dur)}); ok && (start < best.start ||
			start == best.start && p.end < best.end) {
			best = p
		}
	}
	return best
}

// choose allocates the task looked at while some node has room for it; it returns nowhere if none has.
func (r *Rigid) choose(rooms int) place {
	if rooms == 0 {
		return nowhere
	}
	return r.best(r.Choose == Adaptive && rooms > 1)
}

// estimate is where the task looked at is estimated to start, EST, and to finish, EFT: at the first point at which
// enough processors are free on some cluster (figure 3-7) or, with All-EFT, where it finishes first. If that is so from
// the given instant on, it is allocated.
func (r *Rigid) estimate() (p place, from planner.Time) {
	if r.Choose == Adaptive {
		return r.soonest(), r.now
	}
	if p = r.best(false); p.node != planner.None {
		from = r.ready(&r.sites[p.node])
	}
	return p, from
}

// startable reports whether nothing but its inputs keeps the task looked at from starting at p.
func (r *Rigid) startable(p place) bool {
	return p.node != planner.None && r.sites[p.node].room && p.start == r.ready(&r.sites[p.node])
}

// reserve allocates t, the current task; passed is the number of queued tasks it overtakes. It is false if t has to
// wait for an input that was estimated to be there.
func (r *Rigid) reserve(c *planner.Cycle, q WaitingQueue, t planner.TaskID, p place, passed int) (bool, error) {
	s := &r.sites[p.node]
	before := c.Draft.Changes()
	err := c.Draft.Reserve(planner.Segment{Task: t, Node: p.node, Hold: s.hold, Start: p.start, End: p.end})
	// Where frozen tasks keep more than the sketch shows, the task is looked at again in the next round.
	if errors.Is(err, planner.ErrMissing) || errors.Is(err, planner.ErrFull) {
		r.known.outdate(t)
		r.late = true
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.mark(p)
	r.stale = true
	// A frozen task that continues gives back, at its end, the memory that the sketch has it keep for ever: the next
	// round draws anew.
	if r.shown == before && c.Phase(t) != planner.Suspended {
		r.shown = c.Draft.Changes()
	}
	if p.start == r.now {
		r.free[p.node] = r.free[p.node].Sub(s.more)
	}
	r.known.forget(t)
	if passed > 0 {
		c.Note(planner.Note{Topic: "backfilled", Workflow: c.Task(t).Workflow, Task: t, At: p.start,
			Text: fmt.Sprintf("allocated on %s ahead of %d tasks before it in the queue", c.Nodes()[p.node].Name,
				passed)})
	}
	q.Take(c, t)
	return true, nil
}

// mark takes the place of the task looked at in the sketch.
func (r *Rigid) mark(p place) { r.sketch[p.node].Add(p.start, p.end, r.sites[p.node].more) }

// idle reports whether the whole queue would be looked at in vain: no node has processors for the least of its tasks.
func (r *Rigid) idle(c *planner.Cycle, q WaitingQueue) bool {
	if r.urgent > 0 {
		return false
	}
	if r.stale {
		least := q.LeastCPU(c)
		r.stale = false
		r.spare = least < math.MaxInt64 && c.Draft.Fastest(unit.Vector{unit.CPU: least}) != planner.None
	}
	return !r.spare
}

// inOrder allocates from the front of the queue as long as there is room.
func (r *Rigid) inOrder(ctx context.Context, c *planner.Cycle, q WaitingQueue) error {
	for !r.idle(c, q) && ctx.Err() == nil {
		t, ok := q.Next(c)
		if !ok {
			break
		}
		r.draw(c)
		done, err := r.first(c, q, t, 0)
		if err != nil {
			return err
		}
		if !done {
			noNodeFree(c, t)
			return r.thaw(c, q, q.Frozen(c))
		}
	}
	return ctx.Err()
}

// first allocates t, which is next; false if it has to wait.
func (r *Rigid) first(c *planner.Cycle, q WaitingQueue, t planner.TaskID, passed int) (bool, error) {
	rooms := r.look(c, t)
	p := nowhere
	if r.Preemption != nil {
		p = r.Preemption.place(c, r, t)
	}
	if p.node == planner.None {
		p = r.choose(rooms)
	}
	if p.node == planner.None {
		return false, nil
	}
	return r.reserve(c, q, t, p, passed)
}

// thaw lets frozen tasks continue that stand behind one that has to wait: it may wait for the memory they hold.
func (r *Rigid) thaw(c *planner.Cycle, q WaitingQueue, behind []planner.TaskID) error {
	for _, t := range behind {
		if c.Phase(t) != planner.Suspended {
			continue
		}
		r.look(c, t)
		if p := r.best(false); r.startable(p) {
			if _, err := r.reserve(c, q, t, p, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// easy allocates from the front of the queue, reserves a place for the first task that has to wait, and then allocates
// the tasks that can start beside it.
func (r *Rigid) easy(ctx context.Context, c *planner.Cycle, q WaitingQueue) error {
	blocked := false
	for i := 0; !r.idle(c, q); i++ {
		if i&255 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		t, ok := q.Next(c)
		if !ok {
			break
		}
		r.draw(c)
		if !blocked {
			done, err := r.first(c, q, t, 0)
			if err != nil {
				return err
			}
			if !done {
				if p := r.soonest(); p.node != planner.None {
					r.mark(p)
				}
				noNodeFree(c, t)
				q.Defer(c, t)
				blocked = true
			}
			continue
		}
		if rooms := r.look(c, t); rooms > 0 {
			if p := r.choose(rooms); r.startable(p) {
				done, err := r.reserve(c, q, t, p, q.Passed())
				if err != nil {
					return err
				}
				if done {
					continue
				}
			}
		}
		q.Defer(c, t)
	}
	return nil
}

// estimatedStart is a task of the queue and when its trial allocations say it could start first.
type estimatedStart struct {
	at       planner.Time
	position int // in the queue
	task     planner.TaskID
}

// perCluster arranges the queue by the earliest start that each task has on any of the clusters, each of which has all
// tasks before it, and allocates in that order as long as there is room.
func (r *Rigid) perCluster(ctx context.Context, c *planner.Cycle, q WaitingQueue) error {
	if r.idle(c, q) {
		return nil
	}
	r.draw(c)
	r.waiting = r.waiting[:0]
	for {
		if len(r.waiting)&255 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		t, ok := q.Next(c)
		if !ok {
			break
		}
		q.Defer(c, t)
		r.glance(c, t)
		first := unit.Never
		for n := range r.sites {
			if p := r.on(n); p.node != planner.None {
				r.mark(p)
				first = min(first, p.start)
			}
		}
		r.waiting = append(r.waiting, estimatedStart{first, len(r.waiting), t})
	}
	slices.SortFunc(r.waiting, func(a, b estimatedStart) int {
		return cmp.Or(cmp.Compare(a.at, b.at), a.position-b.position)
	})
	r.drawn = false
	r.draw(c) // the trial allocations are not kept
	for i, e := range r.waiting {
		if r.idle(c, q) {
			return nil
		}
		passed := 0
		for _, later := range r.waiting[i+1:] {
			if later.position < e.position {
				passed++
			}
		}
		done, err := r.first(c, q, e.task, passed)
		if err != nil {
			return err
		}
		if !done {
			noNodeFree(c, e.task)
			return r.thaw(c, q, q.Frozen(c))
		}
		if q.Expecting() {
			return nil // the queue is arranged again once it has the task that was preempted
		}
	}
	return nil
}

// priorityBased reserves for every task of the queue the place it is estimated to get, and allocates those that can
// start there now.
func (r *Rigid) priorityBased(ctx context.Context, c *planner.Cycle, q WaitingQueue) error {
	r.recall(c)
	defer r.queue.close()
	for i := 0; !r.idle(c, q); i++ {
		if i&255 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		t, ok := q.Next(c)
		if !ok {
			break
		}
		e, again := r.again(c, t)
		switch {
		case again && !r.starts(&e):
			r.queue.stay(e)
			explainLater(c, &e)
			q.Defer(c, t)
			continue
		case again:
			r.look(c, t)
			r.sketch[e.node].Add(e.start, e.end, unit.Vector{}.Sub(e.more)) // it is allocated there now
			r.queue.next++
		default:
			r.draw(c)
			rooms := r.look(c, t)
			if r.Preemption != nil {
				e.place = r.Preemption.place(c, r, t)
			}
			if e.node == planner.None {
				if e.place, e.from = r.estimate(); e.node == planner.None || e.start > e.from || !r.sites[e.node].room {
					e.task = t
					r.reserveLater(c, e)
					q.Defer(c, t)
					continue
				}
				e.place = r.choose(rooms)
			}
		}
		done, err := r.reserve(c, q, t, e.place, q.Passed())
		if err != nil {
			return err
		}
		if !done {
			if again {
				r.forget(c)
			}
			q.Defer(c, t)
		}
	}
	return nil
}
