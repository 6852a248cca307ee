package order

import (
	"math"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/exact"
	"gantry/planner/heap"
	"gantry/planner/rank"
	"gantry/planner/share"
	"gantry/planner/unit"
)

// Urgency is the order in which tasks of deadline jobs are served.
type Urgency uint8

const (
	NoUrgency Urgency = iota // like tasks of any other job
	// earliest maximal waiting time first: deadline less the time still to run (3DSF, section 7.1)
	EMWTF
	EDF // earliest deadline first
)

// Tenants is the queue of the jobs of several tenants: tasks of deadline jobs by urgency (3DSF, section 7), then
// suspended ones in the order of their suspension, then the rest, first come, first served by job, of the tenant with
// the least share where shares count (3DSF, section 5). Tasks are kept apart in lanes: one that does not fit holds back
// those behind it in its lane only.
//
// planner.State alone keeps the resources that attempts hold. View.Changes has the changes that an event made, so that
// a replay of a log brings the shares back.
type Tenants struct {
	Urgency Urgency
	// Late lets deadline jobs that cannot end in time any more keep their place; else they take turns with regular
	// jobs.
	Late bool
	// Split makes a lane for each dominant resource: the intensive sub-queues of PDSonQueue.
	Split bool
	// Rule makes tenants take turns by their shares; nil: first come, first served over all.
	Rule *share.Rule
	// OnMisfit says whether tasks behind a regular one that does not fit are looked at in this round.
	OnMisfit share.OnMisfit
	// Member says for which member a job counts; nil: its tenant.
	Member func(w *planner.Workflow) planner.TenantID
	// Weight divides the shares of a member; nil: 1.
	Weight func(m planner.TenantID) int64
	// Members is how many members count from the beginning; further ones count from their first job on.
	Members int
	// Capped keeps every member within its part of the total: its weight over those of all that count.
	Capped bool
	Ranks  *rank.Upward

	lanes   []lane // three of deadline tasks, then three of each member
	waits   []wait // by task
	ledger  *share.Ledger
	total   unit.Vector
	weights int64
	given   []gift // that no event shows yet
	parked  []planner.TaskID
	next    int // in parked
	back    []planner.TaskID
	round   int64
	stopped bool // nothing behind a misfit is looked at
	level   level
	at      int // lane of the task that Next returned last
}

type level uint8

const (
	urgent level = iota
	resuming
	regular
)

// wait is the state of a task that wants a place.
type wait struct {
	key    int64 // order within its lane
	latest int64 // start, for its job to end in time; of tasks without urgency math.MaxInt64
	lane   int32 // and one; 0: none
	parked bool
}

type gift struct {
	task   planner.TaskID
	member planner.TenantID
	amount unit.Vector
}

// lane is a heap by key, then task.
type lane struct {
	heap   heap.Heap[planner.TaskID]
	passed int64 // round in which a task of it did not fit
}

const kinds = int(unit.Dims) // lanes of a member

func (q *Tenants) member(c *planner.Workflow) planner.TenantID {
	switch {
	case q.Rule == nil:
		return 0
	case q.Member != nil:
		return q.Member(c)
	}
	return c.Tenant
}

// Update implements planner.Queue.
func (q *Tenants) Update(c *planner.Cycle) {
	q.round++
	q.stopped, q.next = false, 0
	if q.Ranks != nil {
		q.Ranks.Update(c)
	}
	if c.News.Changed || len(q.lanes) == 0 {
		q.know(c.View)
	}
	q.given = slices.DeleteFunc(q.given, func(g gift) bool {
		if c.Phase(g.task) == planner.Ready && !c.Unplaced(g.task) {
			return false // it waits for those that it preempted
		}
		q.ledger.Add(g.member, unit.Vector{}.Sub(g.amount))
		return true
	})
	q.waits = planner.Extend(q.waits, c.Tasks())
	q.parked = slices.DeleteFunc(q.parked, func(t planner.TaskID) bool {
		gone := !q.wantsBack(c, t)
		if gone {
			q.waits[t].parked = false
		}
		return gone
	})
	for _, t := range q.back {
		q.Add(c, t)
	}
	q.back = q.back[:0]
	if q.Ranks != nil {
		for _, t := range q.Ranks.Changed() {
			q.reenter(c, t)
		}
	}
	for _, t := range c.News.Ready {
		q.Add(c, t)
	}
	if !q.Late {
		q.demote(c)
	}
}

// demote lets tasks whose jobs cannot end in time any more take turns with regular ones. By EMWTF they are in front; by
// EDF they may be anywhere.
func (q *Tenants) demote(c *planner.Cycle) {
	isLate := func(t planner.TaskID) bool { return q.waits[t].latest < int64(c.Now()) }
	for i := range kinds {
		h := &q.lanes[i].heap
		if h.Len() == 0 || q.Urgency == EMWTF && !isLate(h.Items[0]) {
			continue
		}
		var late []planner.TaskID
		h.Items = slices.DeleteFunc(h.Items, func(t planner.TaskID) bool {
			if isLate(t) {
				late = append(late, t)
			}
			return isLate(t)
		})
		if len(late) == 0 {
			continue
		}
		h.Init()
		for _, t := range late {
			q.waits[t].lane = 0
			q.Add(c, t)
		}
	}
}

// know keeps the total of the nodes and makes the ledger when it is first needed.
func (q *Tenants) know(v planner.View) {
	total := v.Total()
	switch {
	case q.Rule == nil:
	case q.ledger == nil:
		q.ledger = share.New(total, *q.Rule)
	default:
		q.ledger.Resize(total)
	}
	q.total = total
	if len(q.lanes) == 0 {
		q.lanes = make([]lane, kinds)
	}
	if q.Members > 0 {
		q.welcome(planner.TenantID(q.Members - 1))
	}
}

// welcome makes the lanes of members up to m.
func (q *Tenants) welcome(m planner.TenantID) {
	for len(q.lanes) < kinds*(int(m)+2) {
		k, weight := planner.TenantID(len(q.lanes)/kinds-1), int64(1)
		q.lanes = append(q.lanes, make([]lane, kinds)...)
		if q.Weight != nil {
			weight = q.Weight(k)
		}
		q.weights += weight
		if q.ledger != nil {
			q.ledger.Weigh(k, weight)
		}
	}
}

func (q *Tenants) wantsBack(c *planner.Cycle, t planner.TaskID) bool {
	return c.Phase(t) == planner.Suspended || c.Phase(t) == planner.Ready && q.waits[t].parked
}

// Add lets a task enter that wants a place; one that is there stays as it is.
func (q *Tenants) Add(c *planner.Cycle, t planner.TaskID) {
	w := &q.waits[t]
	if w.lane > 0 || w.parked || !c.Unplaced(t) || c.Phase(t) == planner.Suspended {
		return
	}
	task := c.Task(t)
	job := c.Workflow(task.Workflow)
	d := unit.Dim(0)
	if q.Split {
		d = share.Dominant(task.Need, q.total)
	}
	w.latest = math.MaxInt64
	if q.Urgency != NoUrgency && job.Class == planner.Deadline && job.Due != unit.Never {
		w.latest = int64(job.Due) - int64(q.Ranks.Time(task))
		if q.Late || w.latest >= int64(c.Now()) {
			w.key = w.latest
			if q.Urgency == EDF {
				w.key = int64(job.Due)
			}
			q.push(int(d), t)
			return
		}
	}
	m := q.member(job)
	q.welcome(m)
	w.key = int64(job.ID)
	q.push(kinds*(int(m)+1)+int(d), t)
}

// reenter lets a task that waits by its urgency enter again, as that is another since tasks were added below it.
func (q *Tenants) reenter(c *planner.Cycle, t planner.TaskID) {
	w := &q.waits[t]
	if w.lane == 0 || w.latest == math.MaxInt64 {
		return
	}
	h := &q.lanes[w.lane-1].heap
	h.Remove(slices.Index(h.Items, t))
	w.lane = 0
	q.Add(c, t)
}

// head returns the lane with the first task of lanes that are not passed over; -1 if there is none.
func (q *Tenants) head(c *planner.Cycle, first int) int {
	best := -1
	for i := first; i < first+kinds && i < len(q.lanes); i++ {
		l := &q.lanes[i]
		if l.passed == q.round {
			continue
		}
		for l.heap.Len() > 0 && !c.Unplaced(l.heap.Items[0]) { // it ended, or found a place by another way
			q.pop(i)
		}
		if l.heap.Len() > 0 && (best < 0 || q.less(l.heap.Items[0], q.lanes[best].heap.Items[0])) {
			best = i
		}
	}
	return best
}

// want returns the need of the next task of a member; false if it has none that may start now.
func (q *Tenants) want(c *planner.Cycle, m planner.TenantID) (need unit.Vector, ok bool) {
	i := q.head(c, kinds*(int(m)+1))
	if i < 0 || q.capped(c, m, i) {
		return need, false
	}
	return c.Task(q.lanes[i].heap.Items[0]).Need, true
}

// capped reports whether the next task of a member would bring it above its guaranteed part. A member that holds
// nothing gets one task.
func (q *Tenants) capped(c *planner.Cycle, m planner.TenantID, lane int) bool {
	if !q.Capped || q.ledger.Used(m) == (unit.Vector{}) {
		return false
	}
	weight := int64(1)
	if q.Weight != nil {
		weight = q.Weight(m)
	}
	f := q.Rule.Of(q.ledger.Used(m).Add(c.Task(q.lanes[lane].heap.Items[0]).Need), q.total)
	return f.Compare(exact.Fraction{Num: exact.Int(uint64(weight)), Den: uint64(q.weights)}) > 0
}

// Next implements planner.Queue.
func (q *Tenants) Next(c *planner.Cycle) (planner.TaskID, bool) {
	if i := q.head(c, 0); i >= 0 {
		q.level, q.at = urgent, i
		return q.lanes[i].heap.Items[0], true
	}
	for ; q.next < len(q.parked); q.next++ {
		if t := q.parked[q.next]; q.wantsBack(c, t) && c.Unplaced(t) {
			q.level = resuming
			return t, true
		}
	}
	q.level = regular
	if q.stopped {
		return planner.None, false
	}
	m := planner.TenantID(0)
	if q.ledger != nil {
		var ok bool
		if m, ok = q.ledger.Least(func(m planner.TenantID) (unit.Vector, bool) { return q.want(c, m) }); !ok {
			return planner.None, false
		}
	}
	i := q.head(c, kinds*(int(m)+1))
	if i < 0 {
		return planner.None, false
	}
	q.at = i
	return q.lanes[i].heap.Items[0], true
}

// Take implements planner.Queue.
func (q *Tenants) Take(c *planner.Cycle, t planner.TaskID) {
	q.give(c, t, +1)
	if q.level == resuming {
		q.next++
		return
	}
	q.pop(q.at)
}

// Return takes back a task that was taken and found no place in this round.
func (q *Tenants) Return(c *planner.Cycle, t planner.TaskID) {
	q.give(c, t, -1)
	q.back = append(q.back, t)
}

// Defer implements planner.Queue: the lane of the task is passed over, or all that is behind it.
func (q *Tenants) Defer(c *planner.Cycle, t planner.TaskID) {
	switch q.level {
	case resuming:
		q.next++
		return
	case regular:
		if q.OnMisfit == share.Stop && !c.Draft.Limited(t) {
			q.stopped = true
			return
		}
	}
	q.lanes[q.at].passed = q.round
}

// Untake puts a task back that was taken in this round, so that Next returns it again.
func (q *Tenants) Untake(c *planner.Cycle, t planner.TaskID) {
	q.give(c, t, -1)
	q.Add(c, t)
}

// Resuming reports whether the task that Next returned last was preempted.
func (q *Tenants) Resuming() bool { return q.level == resuming }

// Urgent reports whether the task that Next returned last comes before all others for its deadline.
func (q *Tenants) Urgent() bool { return q.level == urgent }

// Slack returns how long a task may still wait for its job to end in time: the maximal waiting time of 3DSF, section
// 7.1; false where it has no urgency.
func (q *Tenants) Slack(c *planner.Cycle, t planner.TaskID) (time.Duration, bool) {
	if l := q.waits[t].latest; l != math.MaxInt64 {
		return planner.Time(l).Sub(c.Now()), true
	}
	return 0, false
}

// Sibling returns another task of the same job and need, among the first few of the lane of t, that holds returns true
// for; t itself where there is none.
func (q *Tenants) Sibling(c *planner.Cycle, t planner.TaskID, holds func(planner.TaskID) bool) planner.TaskID {
	const few = 32
	if q.level != regular || holds(t) {
		return t
	}
	task, seen := c.Task(t), 0
	for s := range q.lanes[q.at].heap.Ordered() {
		if seen++; seen > few {
			break
		}
		if other := c.Task(s); other.Workflow == task.Workflow && other.Need == task.Need && c.Unplaced(s) && holds(s) {
			return s
		}
	}
	return t
}

// Gave says that a task found a place without being taken.
func (q *Tenants) Gave(c *planner.Cycle, t planner.TaskID) { q.give(c, t, +1) }

// give counts the need of a task for its member, until events tell.
func (q *Tenants) give(c *planner.Cycle, t planner.TaskID, sign int) {
	if q.ledger == nil {
		return
	}
	need := c.Task(t).Need
	if a := c.Current(t); a != planner.None { // suspended: it has some of it
		need = need.Sub(c.Holds(a))
	}
	if sign < 0 {
		need = unit.Vector{}.Sub(need)
	}
	m := q.member(c.Workflow(c.Task(t).Workflow))
	q.ledger.Add(m, need)
	q.given = append(q.given, gift{t, m, need})
}

// Share returns the share of a member, as its rule has it.
func (q *Tenants) Share(m planner.TenantID) exact.Fraction { return q.ledger.Share(m) }

// Observe implements planner.Observer: holds are known from events, so that a replay brings them back.
func (q *Tenants) Observe(v planner.View, e planner.Event) {
	if q.Rule != nil {
		for a, change := range v.Changes(&e) {
			q.holds(v, a, *change)
		}
	}
	switch b := e.Body.(type) {
	case planner.AttemptSuspended:
		q.park(v, v.Attempt(b.Attempt).Task)
	case *planner.AttemptExited:
		t := v.Attempt(b.Attempt).Task
		if b.Outcome == planner.Preempted && v.Phase(t) == planner.Ready {
			q.park(v, t)
		} else if int(t) < len(q.waits) && q.waits[t].parked { // it had continued, or never will
			q.waits[t].parked = false
			q.parked = slices.DeleteFunc(q.parked, func(p planner.TaskID) bool { return p == t })
		}
	}
}

func (q *Tenants) park(v planner.View, t planner.TaskID) {
	q.waits = planner.Extend(q.waits, v.Tasks())
	if w := &q.waits[t]; !w.parked {
		w.parked = true
		q.parked = append(q.parked, t)
	}
}

// holds takes in a change of the hold of an attempt.
func (q *Tenants) holds(v planner.View, a planner.AttemptID, change unit.Vector) {
	if q.ledger == nil {
		q.know(v)
	}
	m := q.member(v.Workflow(v.Task(v.Attempt(a).Task).Workflow))
	q.welcome(m)
	q.ledger.Add(m, change)
}

func (q *Tenants) less(t, u planner.TaskID) bool {
	if a, b := q.waits[t].key, q.waits[u].key; a != b {
		return a < b
	}
	return t < u
}

func (q *Tenants) push(i int, t planner.TaskID) {
	q.waits[t].lane = int32(i) + 1
	if q.lanes[i].heap.Before == nil {
		q.lanes[i].heap.Before = func(t, u *planner.TaskID) bool { return q.less(*t, *u) }
	}
	q.lanes[i].heap.Push(t)
}

func (q *Tenants) pop(i int) { q.waits[q.lanes[i].heap.Pop()].lane = 0 }
