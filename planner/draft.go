package planner

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"gantry/planner/timeline"
	"gantry/planner/unit"
)

// Stay is the kind of a segment.
type Stay uint8

const (
	NoStay  Stay = iota
	Active       // runs, or was ordered to; only Preempt moves it
	Parked       // suspended: holds the resources that its node keeps for it
	Planned      // free to move
)

// Segment is the stay of one task on one node during [Start, End), copying its inputs in included unless copies overlap
// other work.
type Segment struct {
	Task       TaskID
	Node       NodeID
	Hold       unit.Vector
	Start, End Time
	Kind       Stay
	// order of reservation: breaks ties of Start, so that parents of no duration come before their children
	seq  uint32
	due  bool        // planned to start in this very round
	kept unit.Vector // the hold of a frozen task while it is planned to continue
}

// use counts the stay in a profile: until a frozen task continues, it holds what its node keeps for it.
func (s *Segment) use(count func(start, end Time, v unit.Vector)) {
	count(s.Start, s.End, s.Hold)
	if s.kept != (unit.Vector{}) {
		count(0, s.Start, s.kept)
	}
}

// Reasons to refuse an edit. A task that does not fit is a result, not a fault; the rest are mistakes of the policy.
var (
	ErrFull       = errors.New("the node has not enough free")
	ErrPast       = errors.New("the start is in the past")
	ErrPrecedence = errors.New("a parent ends later or has no place")
	ErrPlaced     = errors.New("the task has a place")
	ErrEnded      = errors.New("the task has ended")
	ErrMissing    = errors.New("an input is not on the node yet")
	ErrMoved      = errors.New("a frozen task continues where it is")
	ErrKept       = errors.New("the task cannot leave its place in that way") // see View.Vacates
)

// Vacate says how a preempted task leaves its place. View.Vacates has the way that a task has. The place can be planned
// with in the same round, but starts there wait until the runtime has reported that it is free. A checkpoint has a
// fraction of the whole task (AttemptExited.Kept) rather than a time, since the same work takes another time elsewhere.
// State keeps the fraction until the task ends well or its program fails by itself. The next attempt brings the
// checkpoint along within its stay: latency, and size over bandwidth of the link.
type Vacate uint8

const (
	Suspend Vacate = iota + 1 // frozen: keeps its progress, and the resources that the node keeps for it
	Requeue                   // ended: loses its progress and wants a place again
	// ended with a checkpoint: keeps its progress and wants a place again, on any node
	Checkpoint
)

func (v Vacate) String() string { return [...]string{"", "freeze", "restart", "checkpoint"}[v] }

// Draft is the schedule under edit. It refuses overbooking, broken precedence and the past, so that no policy can
// commit them. It lives as long as the run: parts that a round does not touch cost nothing.
type Draft struct {
	s       *State
	est     Estimator
	now     Time
	segs    table[TaskID, Segment] // by task; shorter than the tasks
	ahead   []*timeline.Profile    // by node; nil until somebody looks ahead on it
	pending []unit.Vector          // by node: due to start in this round, less the resources that preemption will free
	freeing map[TaskID]unit.Vector // resources that preemption will free once the runtime reports it
	queues  []planQueue            // by node: planned segments that are not due
	planned int                    // planned segments on all nodes
	starts  []planItem             // reserved to start in this round
	vacated []vacancy
	lookFor []TaskID // planned tasks whose inputs may have to be copied ahead
	copies  map[copyKey]Time
	asked   []Order // copies that the policy asked for in this round
	undo    []change
	seq     uint32
	looking []NodeID // nodes with a profile
	forgets int      // index in looking of the one that forgot the past last
	room    freeIndex
	changes uint64
	taken   []unit.Vector // by node: scratch of orders
	// impatient says that the policy expects a task that runs longer than estimated to end after overrun, which may be
	// at once.
	impatient bool
	overrun   time.Duration
}

type vacancy struct {
	task TaskID
	how  Vacate
}

type copyKey struct {
	file FileID
	to   NodeID
}

type change struct {
	old     Segment
	task    TaskID
	vacated bool
}

// Mark is a point of the draft to roll back to, within the round.
type Mark int

func newDraft(s *State, est Estimator) *Draft {
	n := len(s.platform.Nodes)
	return &Draft{s: s, est: est, ahead: make([]*timeline.Profile, n), pending: make([]unit.Vector, n),
		queues: make([]planQueue, n),
		copies: map[copyKey]Time{}, freeing: map[TaskID]unit.Vector{}, room: newFreeIndex(s.platform.Nodes),
		taken: make([]unit.Vector, n)}
}

// begin opens a round.
func (d *Draft) begin(now Time) {
	d.now = now
	d.undo = d.undo[:0]
	for _, n := range d.looking {
		d.refresh(n)
	}
	if len(d.looking) > 0 { // one that nobody asks for is not to grow for ever
		d.forgets = (d.forgets + 1) % len(d.looking)
		d.ahead[d.looking[d.forgets]].Prune(now)
	}
}

// refresh moves the ends of segments that run longer than estimated.
func (d *Draft) refresh(n NodeID) {
	for _, a := range d.s.active[n] {
		t := d.s.attempts.at(a).Task
		if seg := d.segs.at(t); seg.Kind == Active && seg.End <= d.now {
			end := d.ActiveEnd(t)
			d.ahead[n].Add(seg.End, end, seg.Hold)
			seg.End = end
			d.changes++
		}
	}
}

// Of returns the segment of t, and whether it has one.
func (d *Draft) Of(t TaskID) (Segment, bool) {
	if seg := d.stay(t); seg != nil {
		return *seg, true
	}
	return Segment{}, false
}

// stay returns the segment of t where it lies, which is not to be changed; nil if it has none.
func (d *Draft) stay(t TaskID) *Segment {
	if int(t) < d.segs.len() {
		if seg := d.segs.at(t); seg.Kind != NoStay {
			return seg
		}
	}
	return nil
}

// On yields the segments on node n: those under way, those due now, then the planned ones by start.
func (d *Draft) On(n NodeID) iter.Seq[Segment] {
	return func(yield func(Segment) bool) {
		for _, a := range d.s.active[n] {
			if seg, ok := d.Of(d.s.attempts.at(a).Task); ok && seg.Kind != Planned && !yield(seg) {
				return
			}
		}
		for _, it := range d.starts {
			if d.isCurrent(it) && d.segs.at(it.task).Node == n && !yield(*d.segs.at(it.task)) {
				return
			}
		}
		d.Planned(n)(yield)
	}
}

// Planned yields the planned segments on node n that are not due in this round, by start, then by order of reservation.
func (d *Draft) Planned(n NodeID) iter.Seq[Segment] {
	return func(yield func(Segment) bool) {
		q := &d.queues[n]
		q.sort(d)
		for _, it := range q.items {
			if d.current(n, it) && !yield(*d.segs.at(it.task)) {
				return
			}
		}
	}
}

// Free returns the resources of node n that tasks may hold that start now, if the future is left out of account.
func (d *Draft) Free(n NodeID) unit.Vector {
	return d.s.capacity[n].Sub(d.s.held[n]).Sub(d.pending[n])
}

// ActiveEnd returns when the attempt of t that is under way is estimated to end: in the future or, by an impatient
// policy, now. Of a task with another segment it is the end of that.
func (d *Draft) ActiveEnd(t TaskID) Time {
	seg := d.segs.at(t)
	if seg.Kind != Active || seg.End > d.now {
		return seg.End
	}
	if d.impatient {
		return d.now.Add(d.overrun)
	}
	left := d.est.Remaining(d.s.tasks.of(t), &d.s.platform.Nodes[seg.Node], d.s.View().Ran(d.s.lives.at(t).attempt))
	return d.now.Add(max(left, minRemaining))
}

// minRemaining keeps the estimated end of an overrun in the future, for any estimate.
const minRemaining = time.Millisecond

// Due yields the segments that are to start in this round, in the order in which they were reserved.
func (d *Draft) Due() iter.Seq[Segment] {
	return func(yield func(Segment) bool) {
		for _, it := range d.starts {
			if d.isCurrent(it) && d.segs.at(it.task).due && !yield(*d.segs.at(it.task)) {
				return
			}
		}
	}
}

// Dues returns how many reservations for this round were made; it grows with each.
func (d *Draft) Dues() int { return len(d.starts) }

// Earliest returns the first instant from which need is free on node n for dur, not before from; false if there is
// none.
func (d *Draft) Earliest(n NodeID, need unit.Vector, dur time.Duration, from Time) (Time, bool) {
	return d.profile(n).Earliest(need, dur, max(from, d.now))
}

// LookAhead keeps the usage of node n over time from now on, so that the expected ends of its tasks do not depend on
// when the usage is first asked for.
func (d *Draft) LookAhead(n NodeID) {
	if d.ahead[n] == nil {
		d.profile(n)
	}
}

// Promises returns how many segments are planned on node n that are not due in this round.
func (d *Draft) Promises(n NodeID) int { return d.queues[n].live }

// Sketch makes p the usage of node n from now on, to try things on.
func (d *Draft) Sketch(n NodeID, p *timeline.Profile) { p.Copy(d.profile(n)) }

// profile returns the usage of node n over time, made when it is first asked for and kept up to date by differences
// from then on: greedy policies, which never look ahead, never pay for it.
func (d *Draft) profile(n NodeID) *timeline.Profile {
	if p := d.ahead[n]; p != nil {
		p.Prune(d.now)
		return p
	}
	p := timeline.New(d.s.capacity[n])
	d.ahead[n] = p
	d.looking = append(d.looking, n)
	for seg := range d.On(n) {
		seg.use(p.Add)
	}
	d.refresh(n)
	p.Prune(d.now)
	return p
}

// Reserve plans a stay. Kind is ignored: it will be Planned.
func (d *Draft) Reserve(seg Segment) error { return d.plan(seg, false) }

// Keep is Reserve for a plan that is kept: a stay from now on that the limit of its tenant does not let start is
// planned, and can start later.
func (d *Draft) Keep(seg Segment) error {
	return d.plan(seg, d.Limited(seg.Task) || seg.Start == d.now && d.scattered(&seg))
}

func (d *Draft) plan(seg Segment, later bool) error {
	if err := d.reserve(seg, later); err != nil {
		return fmt.Errorf("task %d: reserve node %d at %v: %w", seg.Task, seg.Node, seg.Start, err)
	}
	return nil
}

func (d *Draft) reserve(seg Segment, later bool) error {
	phase, old := d.s.lives.at(seg.Task).phase, d.stay(seg.Task)
	switch {
	case phase.Ended():
		return ErrEnded
	case old != nil && old.Kind != Parked:
		return ErrPlaced
	case old != nil && old.Node != seg.Node:
		return ErrMoved
	case seg.Start < d.now:
		return ErrPast
	case seg.End < seg.Start:
		return fmt.Errorf("it ends at %v", seg.End)
	}
	t := d.s.tasks.open(seg.Task)
	for _, p := range t.Parents {
		if d.s.lives.open(p).phase == Done {
			continue
		}
		if ps := d.stay(p); ps == nil || ps.Kind == Parked || ps.End > seg.Start {
			return ErrPrecedence
		}
	}
	now := seg.Start == d.now && !later
	hold := seg.Hold
	if old != nil { // continues after a suspension: it already has the part that it kept
		hold, seg.kept = hold.Sub(old.Hold), old.Hold
	}
	if now && d.impatient && (phase == Waiting || !hold.Fits(d.Unclaimed(seg.Node))) {
		now = false // it follows a task that is estimated to end now, and has not
	}
	if now && d.s.platform.Overlapped && !d.s.View().HasAll(seg.Node, t.Inputs) {
		return ErrMissing
	}
	if now && !hold.Fits(d.Free(seg.Node)) {
		return ErrFull
	}
	if now && (d.Limited(seg.Task) || d.scattered(&seg)) {
		return ErrLimit
	}
	if d.ahead[seg.Node] != nil || !now || d.queues[seg.Node].live > 0 {
		if !d.profile(seg.Node).Fits(seg.Start, seg.End, hold) {
			return ErrFull
		}
	}
	seg.Kind, seg.due = Planned, now
	d.seq++
	seg.seq = d.seq
	d.set(seg.Task, seg)
	if !now && d.s.platform.Overlapped {
		d.lookFor = append(d.lookFor, seg.Task)
	}
	return nil
}

// Unclaimed is the room on node n now beside the claims of tasks that are planned there for now and cannot start yet.
func (d *Draft) Unclaimed(n NodeID) unit.Vector {
	free := d.Free(n)
	for seg := range d.Planned(n) {
		if seg.Start > d.now {
			break
		}
		if !d.Limited(seg.Task) {
			free = free.Sub(seg.Hold)
		}
	}
	return free
}

// Release takes the planned segments of t and of its descendants out, and says which tasks lost their place, t first.
func (d *Draft) Release(t TaskID) []TaskID {
	var out []TaskID
	if seg, ok := d.Of(t); ok && seg.Kind == Planned {
		d.set(t, d.without(t))
		out = append(out, t)
	}
	return d.releaseDescendants(t, out)
}

func (d *Draft) releaseDescendants(t TaskID, out []TaskID) []TaskID {
	if d.planned == 0 {
		return out
	}
	for _, c := range d.s.tasks.of(t).Children {
		if seg, ok := d.Of(c); ok && seg.Kind == Planned {
			out = append(out, d.Release(c)...)
		}
	}
	return out
}

// without returns the rest of the segment of t when its plan is dropped: the parked stay of a task that is suspended or
// about to be, or nothing.
func (d *Draft) without(t TaskID) Segment {
	l := d.s.lives.at(t)
	if l.phase != Suspended && l.phase != Running {
		return Segment{}
	}
	a, since := d.s.attempts.at(l.attempt), d.now
	if l.phase == Suspended {
		since = a.Suspended
	} else if a.Leaving != Suspend {
		return Segment{}
	}
	return d.parked(t, a.Node, a.Hold, since)
}

// parked is the stay of a frozen task, of whose hold its node keeps a part.
func (d *Draft) parked(t TaskID, n NodeID, hold unit.Vector, since Time) Segment {
	return Segment{Task: t, Node: n, Hold: hold.Keep(d.s.platform.Nodes[n].Keeps), Start: since, End: unit.Never,
		Kind: Parked}
}

// Move shifts a planned segment to another start on its node; its duration stays.
func (d *Draft) Move(t TaskID, start Time) error {
	seg, ok := d.Of(t)
	if !ok || seg.Kind != Planned {
		return fmt.Errorf("task %d: move to %v: it has no planned place", t, start)
	}
	dur := seg.End.Sub(seg.Start)
	if p := d.ahead[seg.Node]; p != nil && start < seg.Start &&
		!p.Fits(start, min(start.Add(dur), seg.Start), seg.Hold.Sub(d.without(t).Hold)) {
		return ErrFull // seen without an edit: most tasks that might start early cannot
	}
	mark := d.Mark()
	d.set(t, d.without(t))
	seg.Start, seg.End = start, start.Add(dur)
	if err := d.Reserve(seg); err != nil {
		d.Rollback(mark)
		return err
	}
	return nil
}

// StartNow moves a planned segment to now, in spite of later plans for its node: a plan that is followed in order
// bends, its later segments move when their turn comes. Only the room that is really free now is checked.
func (d *Draft) StartNow(t TaskID) error {
	seg, ok := d.Of(t)
	if !ok || seg.Kind != Planned {
		return fmt.Errorf("task %d: start now: it has no planned place", t)
	}
	if d.s.lives.at(t).phase != Ready && d.s.lives.at(t).phase != Suspended {
		return fmt.Errorf("task %d: start now: it is %s", t, d.s.lives.at(t).phase)
	}
	if d.s.platform.Overlapped && !d.s.View().HasAll(seg.Node, d.s.tasks.of(t).Inputs) {
		return ErrMissing
	}
	more := seg.Hold
	if d.s.lives.at(t).phase == Suspended {
		more = more.Sub(d.s.holds(d.s.lives.at(t).attempt))
	}
	if !more.Fits(d.Free(seg.Node)) {
		return ErrFull
	}
	if d.Limited(t) || d.scattered(&seg) {
		return ErrLimit
	}
	seg.Start, seg.End, seg.due = d.now, d.now.Add(seg.End.Sub(seg.Start)), true
	d.set(t, seg)
	return nil
}

// Preempt takes a running task's place away, and the planned segments of its descendants with it. The freed room can be
// planned with at once, and is there once the runtime reports it. A task that cannot leave so is ErrKept.
func (d *Draft) Preempt(t TaskID, how Vacate) error {
	seg, ok := d.Of(t)
	if !ok || seg.Kind != Active {
		return fmt.Errorf("task %d: preempt: it does not run", t)
	}
	if d.s.lives.at(t).phase != Running {
		return fmt.Errorf("task %d: preempt: it is %s", t, d.s.lives.at(t).phase)
	}
	if task := d.s.tasks.of(t); how == Checkpoint && !task.Checkpointable || how == Requeue && !task.Restartable {
		return fmt.Errorf("task %d: preempt by %s: %w", t, how, ErrKept)
	}
	d.undo = append(d.undo, change{task: t, old: seg, vacated: true})
	d.vacated = append(d.vacated, vacancy{t, how})
	parked := Segment{}
	if how == Suspend {
		parked = d.parked(t, seg.Node, seg.Hold, d.now)
	}
	d.put(t, parked)
	d.free(t, seg.Node, seg.Hold.Sub(parked.Hold))
	d.releaseDescendants(t, nil)
	return nil
}

// free counts on the resources that preemption will free, until freed says that State knows of it.
func (d *Draft) free(t TaskID, n NodeID, v unit.Vector) {
	d.freeing[t] = v
	d.pending[n] = d.pending[n].Sub(v)
	d.room.touch(n)
}

func (d *Draft) freed(t TaskID, n NodeID) {
	if v, ok := d.freeing[t]; ok {
		d.pending[n] = d.pending[n].Add(v)
		d.room.touch(n)
		delete(d.freeing, t)
	}
}

// Mark returns the present point of the draft.
func (d *Draft) Mark() Mark { return Mark(len(d.undo)) }

// Rollback undoes every edit since m.
func (d *Draft) Rollback(m Mark) {
	for len(d.undo) > int(m) {
		c := d.undo[len(d.undo)-1]
		d.undo = d.undo[:len(d.undo)-1]
		d.put(c.task, c.old)
		if c.vacated {
			d.vacated = d.vacated[:len(d.vacated)-1]
			d.freed(c.task, c.old.Node)
		}
	}
}

// Drop takes every planned segment out.
func (d *Draft) Drop() {
	for n := range d.queues {
		if d.queues[n].live == 0 {
			continue
		}
		q := &d.queues[n]
		for _, it := range q.items {
			if d.current(NodeID(n), it) {
				d.set(it.task, d.without(it.task))
			}
		}
		q.items = q.items[:0]
	}
}

// Copy asks for a copy of file f on node n for task t, which has no place yet. A file that is there, on its way or
// nowhere is left alone, and so is every file where copies hold a slot. A rollback does not undo it.
func (d *Draft) Copy(f FileID, n NodeID, t TaskID) {
	key := copyKey{f, n}
	from := d.s.View().Nearest(f, n)
	if _, underWay := d.copies[key]; underWay || from == None || from == n || !d.s.platform.Overlapped {
		return
	}
	d.copies[key] = d.now.Add(d.s.View().MoveTime(d.s.files.of(f).Size, from, n))
	d.asked = append(d.asked, Order{Kind: OrderCopy, Attempt: None, Task: t, Node: n, File: f, From: from})
}

// CopyEnd returns when the copy of f to n that is under way is estimated to end; false if there is none.
func (d *Draft) CopyEnd(f FileID, n NodeID) (Time, bool) {
	at, underWay := d.copies[copyKey{f, n}]
	return at, underWay
}

// Copying returns how many copies ahead are under way.
func (d *Draft) Copying() int { return len(d.copies) }

// Plans returns how many segments are planned.
func (d *Draft) Plans() int { return d.planned }

// NextStart returns the first planned start after now; Never if there is none.
func (d *Draft) NextStart() Time {
	next := unit.Never
	for n := range d.queues {
		q := &d.queues[n]
		if q.live == 0 {
			continue
		}
		q.sort(d)
		later, _ := slices.BinarySearchFunc(q.items, d.now, func(it planItem, now Time) int {
			if it.start <= now {
				return -1
			}
			return 1
		})
		for _, it := range q.items[later:] {
			if it.start >= next {
				break
			}
			if d.current(NodeID(n), it) {
				next = it.start
			}
		}
	}
	return next
}

// set changes the segment of t and remembers the old one.
func (d *Draft) set(t TaskID, seg Segment) {
	old := d.put(t, seg)
	d.undo = append(d.undo, change{task: t, old: old})
}

// put changes the segment of t and all that is derived from it. It returns the old one.
func (d *Draft) put(t TaskID, seg Segment) Segment {
	if n := int(t) + 1 - d.segs.len(); n > 0 {
		d.segs.grow(n)
	}
	if k := int(t >> pageBits); d.segs.pages[k] == nil {
		d.segs.unpack(k) // a plan with tasks that were withdrawn is taken back
	}
	at := d.segs.open(t)
	old := *at
	if !sameUse(&old, &seg, max(d.now, d.s.now)) {
		d.changes++
	}
	d.account(&old, -1)
	*at = seg
	d.account(&seg, +1)
	return old
}

// seal packs the segments of tasks whose workflows have ended.
func (d *Draft) seal() {
	for _, k := range d.s.sealed {
		if k < len(d.segs.pages) && d.segs.pages[k] != nil {
			d.segs.pack(k)
		}
	}
	d.s.sealed = d.s.sealed[:0]
}

// sameUse reports whether two stays use the same from an instant on.
func sameUse(a, b *Segment, from Time) bool {
	usesA, usesB := a.Kind != NoStay && a.End > from, b.Kind != NoStay && b.End > from
	if !usesA || !usesB {
		return usesA == usesB
	}
	return a.Node == b.Node && a.End == b.End && a.Hold == b.Hold && a.kept == b.kept &&
		max(a.Start, from) == max(b.Start, from)
}

// Changes counts how often the usage from then on changed: the result of Sketch stays true as long as it is the same.
func (d *Draft) Changes() uint64 { return d.changes }

// account adds a segment to the sums, or takes it out.
func (d *Draft) account(seg *Segment, sign int) {
	if seg.Kind == NoStay {
		return
	}
	if p := d.ahead[seg.Node]; p != nil {
		if sign > 0 {
			seg.use(p.Add)
		} else {
			seg.use(p.Remove)
		}
	}
	if seg.Kind != Planned {
		// State counts the holds of attempts until an event changes them; the difference is kept in pending.
		return
	}
	d.planned += sign
	if seg.due {
		d.room.touch(seg.Node)
		pending := &d.pending[seg.Node]
		if sign > 0 {
			*pending = pending.Add(seg.Hold).Sub(seg.kept)
			d.starts = append(d.starts, planItem{seg.Start, seg.seq, seg.Task})
		} else {
			*pending = pending.Sub(seg.Hold).Add(seg.kept)
		}
		return
	}
	q := &d.queues[seg.Node]
	q.live += sign
	if sign > 0 {
		q.push(planItem{seg.Start, seg.seq, seg.Task})
	}
}

// planQueue has the planned segments of a node by start. Items whose segment was changed since are skipped when met.
type planQueue struct {
	items  []planItem
	sorted bool
	live   int
}

type planItem struct {
	start Time
	seq   uint32
	task  TaskID
}

func (a planItem) compare(b planItem) int {
	if c := cmp.Compare(a.start, b.start); c != 0 {
		return c
	}
	return cmp.Compare(a.seq, b.seq)
}

func (q *planQueue) push(it planItem) {
	if n := len(q.items); n == 0 {
		q.sorted = true
	} else if q.items[n-1] == it { // a rollback puts back an item that never left
		return
	} else if q.sorted && q.items[n-1].compare(it) > 0 {
		q.sorted = false
	}
	q.items = append(q.items, it)
}

// sort orders the items and drops outdated ones once they are the larger part, so that the edits that outdate items
// bear the cost.
func (q *planQueue) sort(d *Draft) {
	if !q.sorted {
		slices.SortFunc(q.items, planItem.compare)
		q.items = slices.Compact(q.items)
		q.sorted = true
	}
	// Outdated items gather at the front, where plans are followed.
	k := 0
	for k < len(q.items) && !d.isCurrent(q.items[k]) {
		k++
	}
	q.items = q.items[k:]
	if len(q.items) > 2*q.live+16 {
		q.items = slices.DeleteFunc(slices.Clone(q.items), func(it planItem) bool { return !d.isCurrent(it) })
	}
}

func (d *Draft) isCurrent(it planItem) bool { return it.stands(d.segs.at(it.task)) }

// stands reports whether the segment that its task has now is the one of the item.
func (a planItem) stands(seg *Segment) bool {
	return seg.Kind == Planned && seg.seq == a.seq && seg.Start == a.start
}

func (d *Draft) current(n NodeID, it planItem) bool {
	return d.isCurrent(it) && d.segs.at(it.task).Node == n && !d.segs.at(it.task).due
}
