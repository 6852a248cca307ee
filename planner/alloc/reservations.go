package alloc

import (
	"slices"

	"gantry/planner"
	"gantry/planner/unit"
)

// reservation is the place that a task of the queue is estimated to get behind those before it.
type reservation struct {
	place
	task  planner.TaskID
	more  unit.Vector
	from  planner.Time // it is allocated if it can start then
	found planner.Time
}

// reservations are those of the queue, in its order, from round to round. The best place stays the best as long as all
// goes as estimated, since later tasks take places behind it. So it is found again only where the queue before it is
// another one, where its inputs come at other times, or where a task has begun that may be preempted for it.
type reservations struct {
	list []reservation
	next int // the first that was not looked at in this round
	kept int // how many of those before it stay; they are at the front of list
}

// stay keeps the next one.
func (q *reservations) stay(e reservation) {
	q.list[q.kept] = e
	q.kept++
	q.next++
}

// add puts a new one behind all others.
func (q *reservations) add(e reservation) {
	q.list = append(q.list[:q.kept], e)
	q.kept++
	q.next = q.kept
}

// close ends a round.
func (q *reservations) close() {
	q.list = slices.Delete(q.list, q.kept, q.next)
	q.kept, q.next = 0, 0
}

// recall begins a round with the kept reservations, and the sketch that has them, if nothing departed from the
// estimates.
func (r *Rigid) recall(c *planner.Cycle) {
	if r.shown != c.Draft.Changes() {
		r.queue.list = r.queue.list[:0]
		return
	}
	r.drawn = true
	r.count(c)
}

// forget drops the reservations from the next one on.
func (r *Rigid) forget(c *planner.Cycle) {
	r.queue.list = r.queue.list[:r.queue.kept]
	r.queue.next = r.queue.kept
	r.drawn = false
	r.draw(c)
	for i := range r.queue.list {
		if e := &r.queue.list[i]; e.node != planner.None {
			r.sketch[e.node].Add(e.start, e.end, e.more)
		}
	}
}

// again returns the reservation of t, the next task of the queue, if its place is still the estimated one.
func (r *Rigid) again(c *planner.Cycle, t planner.TaskID) (reservation, bool) {
	none := reservation{place: nowhere}
	if r.queue.next == len(r.queue.list) {
		return none, false
	}
	if e := r.queue.list[r.queue.next]; e.task == t && r.stands(c, &e) && (r.Choose == AllEarliestFinish ||
		!r.starts(&e)) {
		return e, true // with AA it is chosen where it starts once it can
	}
	r.forget(c)
	return none, false
}

func (r *Rigid) stands(c *planner.Cycle, e *reservation) bool {
	if e.start < r.now || r.fresh[e.task] == c.Round() {
		return false
	}
	if p := r.Preemption; p != nil && p.concerns(c, e.task) && (r.Choose == Adaptive || p.regains(c, e.task, e.found)) {
		return false
	}
	return r.unmoved(c, e.task)
}

// unmoved reports whether the ways to house t are unchanged.
func (r *Rigid) unmoved(c *planner.Cycle, t planner.TaskID) bool {
	switch {
	case r.known.slots[t] > 0:
		return true
	case r.known.slots[t] == 0:
		return false
	}
	sites, _ := r.known.of(t, len(r.sketch))
	r.before = append(r.before[:0], sites...)
	r.survey(c, t, sites)
	for n := range sites {
		was, is := &r.before[n], &sites[n]
		if was.fits != is.fits || was.more != is.more || was.hold != is.hold || was.dur != is.dur ||
			r.ready(was) != r.ready(is) {
			return false
		}
	}
	return true
}

// starts reports whether the task of e can be allocated.
func (r *Rigid) starts(e *reservation) bool {
	return e.node != planner.None && e.start == max(e.from, r.now) && e.more.Fits(r.free[e.node])
}

// reserveLater keeps the place of e, which the task looked at is estimated to get, in this round and those that follow.
func (r *Rigid) reserveLater(c *planner.Cycle, e reservation) {
	e.found = r.now
	if e.node != planner.None {
		e.more = r.sites[e.node].more
		r.mark(e.place)
	}
	explainLater(c, &e)
	r.queue.add(e)
}

func explainLater(c *planner.Cycle, e *reservation) {
	if e.node != planner.None {
		c.Explain(e.task, planner.Reason{Code: planner.PlannedLater, Node: e.node, At: e.start})
	}
}
