package alloc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// Tenancy is the queue that Tenants serves.
type Tenancy interface {
	planner.Queue
	// Return takes back a task that was taken and found no place in this round.
	Return(c *planner.Cycle, t planner.TaskID)
	// Urgent reports whether the task that Next returned last comes before all others for its deadline.
	Urgent() bool
	// Slack returns how long t may still wait for its job to end in time; false where it has no urgency.
	Slack(c *planner.Cycle, t planner.TaskID) (time.Duration, bool)
	// Sibling returns a task alike to the one that Next returned last that holds returns true for, or that task.
	Sibling(c *planner.Cycle, t planner.TaskID, holds func(planner.TaskID) bool) planner.TaskID
	// Gave says that a task found a place without being taken.
	Gave(c *planner.Cycle, t planner.TaskID)
	// Untake puts a task back that was taken in this round, so that Next returns it again. Tasks go back in the reverse
	// order of Take.
	Untake(c *planner.Cycle, t planner.TaskID)
	// Resuming reports whether the task that Next returned last was preempted, and comes before all new regular tasks.
	Resuming() bool
}

// Room is how running tasks make room.
type Room uint8

const (
	Never   Room = iota
	Suspend      // frozen if that makes room, else as Leave
	Freeze       // where they are; their node keeps some of their resources
	// with a checkpoint, or else by a restart if that is allowed, so that all they hold is free; frozen if neither
	Leave
)

// Tenants starts the tasks of a Tenancy now, one after the other. It makes room for urgent ones by preemption, lets
// suspended ones continue where they are, and puts tasks that read much where their data is.
type Tenants struct {
	// Room is how regular tasks make room for those of deadline jobs.
	Room Room
	// Data puts tasks where their data is; nil: every task goes to the fastest node with room (the lowest id among
	// equals).
	Data *Locality
	// Turns lets nodes ask for work in turn, each for a task of the first job whose data it holds if there is one, as
	// the heartbeats of YARN's nodes do; without Data.
	Turns bool
	// Heartbeat is the time between reports of the free room of a node, staggered over the nodes; 0: always known.
	Heartbeat time.Duration
	// One keeps a node that has got a task whose data lies elsewhere from asking for more until its next heartbeat,
	// with Turns.
	One bool
	// Blind lets nodes take tasks without looking at where their data is, with Turns.
	Blind bool

	closed  []bool           // by node: its free room is kept for a task that waits for more
	rests   []bool           // by node: until its next heartbeat
	shut    int              // how many do either
	emptied []planner.NodeID // where tasks were preempted in this round
	turn    int
	asked   planner.Time // the heartbeat that this round was asked for; 0: none
	missed  bool         // a task waits, at least for a heartbeat
	batch   []candidate
	after   []func() // effects of the batch outside the draft, which wait until all of it has an answer
	room    room
}

// candidate is a task that was taken from the queue.
type candidate struct {
	task   planner.TaskID
	urgent bool
	placed bool // it has its answer: a place, or a reason to wait that holds nobody back
}

// Allocate implements planner.Allocator.
func (a *Tenants) Allocate(ctx context.Context, c *planner.Cycle, q Tenancy) error {
	if len(a.closed) == 0 {
		a.closed, a.rests = make([]bool, len(c.Nodes())), make([]bool, len(c.Nodes()))
	}
	a.emptied = a.emptied[:0]
	if a.shut > 0 {
		clear(a.closed)
		clear(a.rests)
		a.shut = 0
	}
	if a.Heartbeat == 0 {
		return a.serve(ctx, c, q)
	}
	a.missed = false
	for i := range a.rests {
		if n := planner.NodeID(i); a.asked == 0 || a.beat(c, n).Add(-a.Heartbeat) < a.asked {
			a.rest(n)
		}
	}
	err := a.serve(ctx, c, q)
	if a.asked = 0; a.missed {
		a.asked = unit.Never
		for n := range a.rests {
			a.asked = min(a.asked, a.beat(c, planner.NodeID(n)))
		}
		c.WakeAt(a.asked)
	}
	return err
}

// beat returns when the next heartbeat of node n comes, after now.
func (a *Tenants) beat(c *planner.Cycle, n planner.NodeID) planner.Time {
	phase := a.Heartbeat * time.Duration(n) / time.Duration(len(a.rests))
	since := (c.Now().Sub(0) - phase) % a.Heartbeat
	if since < 0 {
		since += a.Heartbeat
	}
	return c.Now().Add(a.Heartbeat - since)
}

func (a *Tenants) serve(ctx context.Context, c *planner.Cycle, q Tenancy) error {
	most := 1
	if a.Data != nil && !c.Draft.Limits() { // candidates of one batch do not know the needs of the others
		most = cmp.Or(a.Data.Most, 4*len(c.Nodes()))
	}
	for a.Room != Never || c.Draft.AnyFree() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := a.gather(c, q, most); err != nil || len(a.batch) == 0 {
			return err
		}
		if err := a.placeBatch(c, q); err != nil {
			return err
		}
	}
	return nil
}

// placeBatch gives each task of the batch its answer. Tasks of a batch compete for the same room, and a later one may
// take the room of an earlier one. Then the batch is cut before the first task without room and placed again, so that
// this task is the next to be served and holds back those behind it, as if tasks were served one by one.
func (a *Tenants) placeBatch(c *planner.Cycle, q Tenancy) error {
	for {
		mark := c.Draft.Mark()
		a.after = a.after[:0]
		if a.Data != nil {
			if err := a.Data.place(c, a, q); err != nil {
				return err
			}
		}
		for i := range a.batch {
			b := &a.batch[i]
			if b.placed {
				continue
			}
			if n := a.fastest(c, c.Task(b.task)); n != planner.None {
				if err := a.put(c, q, b, n); err != nil {
					return err
				}
			}
		}
		cut := slices.IndexFunc(a.batch, func(b candidate) bool { return !b.placed })
		if cut < 0 {
			for _, f := range a.after {
				f()
			}
			return nil
		}
		if len(a.batch) == 1 {
			return fmt.Errorf("task %d was given room on a node that has none", a.batch[0].task)
		}
		cut = max(cut, 1) // alone, the first has room
		c.Draft.Rollback(mark)
		for _, b := range slices.Backward(a.batch[cut:]) {
			q.Untake(c, b.task)
		}
		a.batch = a.batch[:cut]
		for i := range a.batch {
			a.batch[i].placed = false
		}
	}
}

// gather takes the next tasks that there is room for, most of them at most: urgent ones or others, and none from behind
// one without room.
func (a *Tenants) gather(c *planner.Cycle, q Tenancy, most int) error {
	a.batch = a.batch[:0]
	var free, needs unit.Vector // of all open nodes, and of the batch: a batch that needs more would be cut
	for len(a.batch) < most {
		t, ok := unlimited(c, q)
		if !ok {
			return nil
		}
		urgent := q.Urgent()
		if !urgent && len(a.batch) == 0 {
			for _, n := range a.emptied { // tasks that left there continue before others, once that is reported
				a.close(n)
			}
			a.emptied = a.emptied[:0]
		}
		fits := a.fastest(c, c.Task(t)) != planner.None
		if len(a.batch) > 0 && (q.Resuming() || urgent != a.batch[0].urgent || !fits ||
			!needs.Add(c.Task(t).Need).Fits(free)) {
			return nil
		}
		if c.Phase(t) == planner.Suspended {
			if err := a.resume(c, q, t); err != nil {
				return err
			}
			continue
		}
		switch {
		case fits:
			if a.Turns {
				if err := a.inTurn(c, q, t); err != nil {
					return err
				}
				continue
			}
			if len(a.batch) == 0 && most > 1 {
				free = a.free(c)
			}
			alone := q.Resuming()
			q.Take(c, t)
			needs = needs.Add(c.Task(t).Need)
			if a.batch = append(a.batch, candidate{task: t, urgent: urgent}); alone {
				return nil
			}
		case a.Room != Never && urgent && a.shut < len(a.closed):
			if err := a.makeRoom(c, q, t); err != nil {
				return err
			}
		default:
			a.misfit(c, t)
			if q.Resuming() {
				a.keep(c, c.Task(t))
			}
			q.Defer(c, t)
		}
	}
	return nil
}

// free returns the free resources of all open nodes together.
func (a *Tenants) free(c *planner.Cycle) (free unit.Vector) {
	for n := range a.closed {
		if !a.closed[n] && !a.rests[n] {
			free = free.Add(c.Draft.Free(planner.NodeID(n)))
		}
	}
	return free
}

// keep closes the node that is the first to have room for t, a preempted task that left its node: new regular
// tasks must not overtake it for ever (3DSF, section 7.3: suspended jobs before regular ones).
func (a *Tenants) keep(c *planner.Cycle, t *planner.Task) {
	first, from := planner.NodeID(planner.None), unit.Never
	for n := range c.NodeCount() {
		if at := a.release(c, n, t); !a.closed[n] && at < from {
			first, from = n, at
		}
	}
	if first != planner.None {
		a.close(first)
	}
}

func (a *Tenants) misfit(c *planner.Cycle, t planner.TaskID) {
	a.missed = true
	switch n := c.Draft.Fastest(c.Task(t).Need); {
	case n == planner.None:
		noNodeFree(c, t)
	case a.Heartbeat > 0:
		c.Explain(t, planner.Reason{Code: planner.PlannedLater, Node: n, At: a.beat(c, n)})
	default:
		c.Explain(t, planner.Reason{Code: planner.Outranked, Node: n})
	}
}

// fastest returns the fastest open node that is idle for t, the lowest id among equals; None if there is none.
func (a *Tenants) fastest(c *planner.Cycle, t *planner.Task) planner.NodeID {
	return fastestOf(c, t, func(n planner.NodeID) bool { return a.open(c, n, t) })
}

// open reports whether n is idle for t, and not kept for others.
func (a *Tenants) open(c *planner.Cycle, n planner.NodeID, t *planner.Task) bool {
	return !a.closed[n] && !a.rests[n] && idle(c, t, n)
}

// release returns when n is estimated to have room for t, and to tell of it.
func (a *Tenants) release(c *planner.Cycle, n planner.NodeID, t *planner.Task) planner.Time {
	at := a.room.at(c, n, t)
	if a.rests[n] {
		at = max(at, a.beat(c, n))
	}
	return at
}

// rest keeps n from being asked until its next heartbeat.
func (a *Tenants) rest(n planner.NodeID) {
	if !a.rests[n] {
		a.rests[n] = true
		a.shut++
	}
}

// close keeps the free room of n for a task that waits there for more.
func (a *Tenants) close(n planner.NodeID) {
	if !a.closed[n] {
		a.closed[n] = true
		a.shut++
	}
}

// put starts a task of the batch on n, which is idle for it. Where its room is kept for a task for which others leave
// it waits.
func (a *Tenants) put(c *planner.Cycle, q Tenancy, b *candidate, n planner.NodeID) error {
	ok, err := begin(c, b.task, n)
	if err != nil {
		return err
	}
	b.placed = true
	if task := b.task; !ok {
		a.after = append(a.after, func() { q.Return(c, task) })
	}
	return nil
}

// inTurn gives the task that Next returned last, or one like it whose data lies there, to the next node in turn.
func (a *Tenants) inTurn(c *planner.Cycle, q Tenancy, t planner.TaskID) error {
	for k := range c.Nodes() {
		n := planner.NodeID((a.turn + k) % len(c.Nodes()))
		if !a.open(c, n, c.Task(t)) {
			continue
		}
		a.turn = int(n) + 1
		s := t
		if !a.Blind {
			s = q.Sibling(c, t, func(s planner.TaskID) bool {
				return c.HasAll(n, c.Task(s).Inputs) && a.open(c, n, c.Task(s))
			})
		}
		ok, err := begin(c, s, n)
		if a.One && !c.HasAll(n, c.Task(s).Inputs) {
			a.rest(n)
		}
		switch {
		case err != nil:
			return err
		case s != t && ok:
			q.Gave(c, s)
		default:
			q.Take(c, t)
			if !ok {
				q.Return(c, t)
			}
		}
		return nil
	}
	return nil
}

// resume lets a suspended task continue. One that has no room yet keeps tasks after it off the resources that become
// free on its node.
func (a *Tenants) resume(c *planner.Cycle, q Tenancy, t planner.TaskID) error {
	n := c.Attempt(c.Current(t)).Node
	q.Take(c, t)
	if a.rests[n] {
		a.missed = true
		q.Return(c, t)
		return nil
	}
	if site, ok := c.Site(t, n); ok && !a.closed[n] {
		err := c.Draft.Reserve(segment(t, site, c.Now()))
		if err == nil {
			return nil
		}
		if !errors.Is(err, planner.ErrFull) {
			return err
		}
	}
	a.close(n)
	q.Return(c, t)
	return nil
}
