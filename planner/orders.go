package planner

import (
	"slices"

	"gantry/planner/unit"
)

// orders derives the orders of a round from the difference between the draft and the running tasks. Starts that do not
// fit the room that is really free (a preempted task has not left yet, or what is left of several GPUs is not one) stay
// planned.
func (d *Draft) orders(est Estimator) []Order {
	var out []Order
	for _, v := range d.vacated {
		kind := [...]OrderKind{Suspend: OrderSuspend, Requeue: OrderKill, Checkpoint: OrderCheckpoint}[v.how]
		l := d.s.lives.at(v.task)
		out = append(out, Order{Kind: kind, Attempt: l.attempt, Task: v.task, Node: l.node})
	}
	d.vacated = d.vacated[:0]
	next := AttemptID(d.s.attempts.len())
	starts := d.starts
	d.starts = nil
	for _, it := range starts {
		seg := d.segs.open(it.task)
		if !it.stands(seg) || !seg.due {
			continue
		}
		l := d.s.lives.open(it.task)
		extra := seg.Hold
		if l.phase == Suspended {
			extra = extra.Sub(d.s.holds(l.attempt))
		}
		free := d.s.capacity[seg.Node]
		free = free.Sub(d.s.held[seg.Node]).Sub(d.taken[seg.Node])
		gpus, found := d.s.freeGPUs(seg.Node, seg.Hold[unit.GPU], out)
		if (l.phase != Ready || !found) && l.phase != Suspended || !extra.Fits(free) {
			later := *seg
			later.due = false
			d.put(it.task, later)
			continue
		}
		d.taken[seg.Node] = d.taken[seg.Node].Add(extra)
		seg.seq = 0 // ordered: a rollback may have left a second item of the same reservation
		if l.phase == Suspended {
			out = append(out, Order{Kind: OrderResume, Attempt: l.attempt, Task: it.task, Node: seg.Node,
				Hold: seg.Hold, Until: seg.End})
			continue
		}
		t := d.s.tasks.open(it.task)
		out = append(out, Order{Kind: OrderStart, Attempt: next, Task: it.task, Node: seg.Node, Hold: seg.Hold,
			Try: l.tries + 1, Until: seg.End, Est: est.Run(t, &d.s.platform.Nodes[seg.Node]),
			GPUs: gpus})
		next++
	}
	for _, it := range starts {
		d.taken[d.segs.open(it.task).Node] = unit.Vector{}
	}
	if d.s.platform.Overlapped {
		out = d.copyAhead(out)
	}
	return out
}

// copyAhead orders the copies that the policy asked for, and those of files that exist to where their consumers are
// planned. It is for platforms whose copies overlap other work; elsewhere copies are part of a segment. The consumer
// starts once FileAppeared came for all of its inputs.
func (d *Draft) copyAhead(out []Order) []Order {
	for _, t := range d.lookFor {
		if seg := d.stay(t); seg != nil && seg.Kind == Planned {
			for _, f := range d.s.tasks.of(t).Inputs {
				d.Copy(f, seg.Node, t)
			}
		}
	}
	out = append(out, d.asked...)
	d.asked, d.lookFor = d.asked[:0], d.lookFor[:0]
	return out
}

// observe keeps the draft in step with an event that the state has taken in.
func (d *Draft) observe(e Event) {
	switch b := e.Body.(type) {
	case *PlanCommitted:
		for i := range b.Orders {
			d.ordered(&b.Orders[i], e.At)
		}
	case AttemptSuspended:
		t := d.s.attempts.at(b.Attempt).Task
		d.room.touch(d.s.attempts.at(b.Attempt).Node)
		d.freed(t, d.s.attempts.at(b.Attempt).Node)
		if seg, ok := d.Of(t); !ok || seg.Kind == Active {
			d.put(t, d.without(t))
		}
	case *AttemptExited:
		att := d.s.attempts.at(b.Attempt)
		d.room.touch(att.Node)
		d.freed(att.Task, att.Node)
		if seg := d.stay(att.Task); seg != nil && seg.Kind != Planned {
			d.put(att.Task, Segment{})
		}
		if b.Outcome != OK {
			d.Release(att.Task)
			d.releaseEnded()
			d.undo = d.undo[:0]
		} else {
			d.outputsOf(att.Task)
		}
	case FileAppeared:
		delete(d.copies, copyKey{b.File, b.Node})
	case AttemptResumed:
		d.room.touch(d.s.attempts.at(b.Attempt).Node)
	case *TaskReused:
		if seg, ok := d.Of(b.Task); ok && seg.Kind == Planned {
			d.put(b.Task, Segment{})
			d.undo = d.undo[:0]
		}
		d.outputsOf(b.Task)
	case WorkflowCancelled:
		d.releaseEnded()
		d.undo = d.undo[:0]
	case NodeChanged:
		d.changes++
		d.room.touch(b.Node)
		if p := d.ahead[b.Node]; p != nil {
			d.ahead[b.Node] = nil // made again with the new capacity when it is next asked for
			d.looking = slices.DeleteFunc(d.looking, func(n NodeID) bool { return n == b.Node })
		}
	}
}

// outputsOf looks for copies that can begin now that task t is done, where copies overlap other work.
func (d *Draft) outputsOf(t TaskID) {
	if !d.s.platform.Overlapped || d.planned == 0 {
		return
	}
	for _, c := range d.s.tasks.of(t).Children {
		if seg, ok := d.Of(c); ok && seg.Kind == Planned {
			d.lookFor = append(d.lookFor, c)
		}
	}
}

// releaseEnded takes out the plans of tasks that will never run. Their edges may be forgotten by now.
func (d *Draft) releaseEnded() {
	for _, t := range d.s.news.Ended {
		if seg, ok := d.Of(t); ok && seg.Kind == Planned {
			d.put(t, Segment{})
		}
	}
}

func (d *Draft) ordered(o *Order, at Time) {
	d.room.touch(o.Node)
	switch o.Kind {
	case OrderStart, OrderResume:
		d.put(o.Task, Segment{Task: o.Task, Node: o.Node, Hold: o.Hold, Start: at, End: max(o.Until, at), Kind: Active})
	case OrderSuspend, OrderKill, OrderCheckpoint:
		// A live round has moved the segment already; a replayed one has not.
		if seg, ok := d.Of(o.Task); ok && seg.Kind == Active {
			parked := Segment{}
			if o.Kind == OrderSuspend {
				parked = d.parked(o.Task, seg.Node, seg.Hold, at)
			}
			d.put(o.Task, parked)
			d.free(o.Task, seg.Node, seg.Hold.Sub(parked.Hold))
		}
	}
}
