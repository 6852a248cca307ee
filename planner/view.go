package planner

import (
	"iter"
	"slices"
	"time"

	"gantry/planner/unit"
)

// View is the read-only face of State: all that a policy may know.
type View struct{ s *State }

// View returns the read-only face of s.
func (s *State) View() View { return View{s} }

// Now is the instant of the last event.
func (v View) Now() Time { return v.s.now }

// Platform is the virtual cluster. Its capacities are those at the start; Capacity has today's.
func (v View) Platform() *Platform { return v.s.platform }

// Nodes returns the virtual nodes, by id.
func (v View) Nodes() []Node { return v.s.platform.Nodes }

// NodeCount is the number of nodes, to loop over their ids.
func (v View) NodeCount() NodeID { return NodeID(len(v.s.platform.Nodes)) }

// Total returns the present capacity of all nodes together.
func (v View) Total() (total unit.Vector) {
	for _, c := range v.s.capacity {
		total = total.Add(c)
	}
	return total
}

// Capacity returns the present capacity of node n: zero once it was lost.
func (v View) Capacity(n NodeID) unit.Vector { return v.s.capacity[n] }

// Held returns the resources that attempts under way hold on node n.
func (v View) Held(n NodeID) unit.Vector { return v.s.held[n] }

// Task returns an admitted task. Its Need is that of the next attempt; once its workflow has ended its edges and files
// are forgotten. It must not be changed.
func (v View) Task(t TaskID) *Task { return v.s.tasks.of(t) }

// Tasks returns how many tasks were admitted: ids run from 0.
func (v View) Tasks() int { return v.s.tasks.len() }

// Workflow returns an admitted workflow, without its formal tasks. It must not be changed.
func (v View) Workflow(w WorkflowID) *Workflow { return &v.s.workflows.at(w).Workflow }

// Workflows returns how many workflows were admitted.
func (v View) Workflows() int { return v.s.workflows.len() }

// Present returns the workflows that have not ended, in order of arrival. It must not be changed.
func (v View) Present() []WorkflowID { return v.s.present }

// All yields the ids of all tasks of w in ascending order, formal ones included.
func (v View) All(w WorkflowID) iter.Seq[TaskID] {
	return func(yield func(TaskID) bool) {
		for _, p := range v.s.workflows.at(w).parts {
			for t := p.first; t < p.past; t++ {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// First returns the first task with which w arrived.
func (v View) First(w WorkflowID) TaskID { return v.s.workflows.at(w).parts[0].first }

// Cancelled reports whether the unstarted tasks of w were withdrawn.
func (v View) Cancelled(w WorkflowID) bool { return v.s.workflows.at(w).cancelled }

// Withdrawn reports whether t was withdrawn, alone or with its workflow: once it has ended it is not tried again.
func (v View) Withdrawn(t TaskID) bool {
	return v.s.lives.at(t).withdrawn || v.s.workflows.at(v.s.tasks.of(t).Workflow).cancelled
}

// Order returns the tasks of w in topological order, those that become free first in front: the same whether it grew or
// arrived whole.
func (v View) Order(w WorkflowID) []TaskID {
	if v.Grown(w) {
		return v.inOrder(slices.Sorted(slices.Values(v.Workflow(w).Tasks)))
	}
	return v.Workflow(w).Tasks
}

// inOrder returns tasks in that order, which are given by id.
func (v View) inOrder(tasks []TaskID) []TaskID {
	missing, order := make(map[TaskID]int, len(tasks)), make([]TaskID, 0, len(tasks))
	for _, t := range tasks {
		if missing[t] = len(v.Task(t).Parents); missing[t] == 0 {
			order = append(order, t)
		}
	}
	for at := 0; at < len(order); at++ {
		for _, c := range v.Task(order[at]).Children {
			if missing[c]--; missing[c] == 0 {
				order = append(order, c)
			}
		}
	}
	return order
}

// Grown reports whether tasks were added to w after it had arrived.
func (v View) Grown(w WorkflowID) bool { return v.s.workflows.at(w).grown }

// Progress returns how many tasks of w, formal ones aside, have not ended, and how many failed or were skipped.
func (v View) Progress(w WorkflowID) (left, failed int) {
	return int(v.s.workflows.at(w).left), int(v.s.workflows.at(w).failed)
}

// BecameReady returns the tasks that became ready since the last round, in that order. It must not be changed.
func (v View) BecameReady() []TaskID { return v.s.news.Ready }

// Last returns the last attempt of t, whether it is over or not; None if there is none.
func (v View) Last(t TaskID) AttemptID { return v.s.lives.at(t).attempt }

// Reused returns the event that ended t without an attempt; nil if it was not ended so.
func (v View) Reused(t TaskID) *TaskReused { return v.s.reuses[t] }

// Continues returns the workflow that w continues, None if it is the first, and whether another continues w.
func (v View) Continues(w WorkflowID) (of WorkflowID, continued bool) {
	return v.s.workflows.at(w).continues, v.s.workflows.at(w).continued
}

// Continuations returns how many workflows continue others.
func (v View) Continuations() int { return v.s.continuations }

// Times returns when the first task of w started and when its last one ended; unit.Never if it has not.
func (v View) Times(w WorkflowID) (started, ended Time) {
	return v.s.workflows.at(w).started, v.s.workflows.at(w).ended
}

// Phase returns where a task is in its life.
func (v View) Phase(t TaskID) Phase { return v.s.lives.at(t).phase }

// Tries returns how many attempts of t there were.
func (v View) Tries(t TaskID) int { return int(v.s.lives.at(t).tries) }

// Ready returns the tasks that want a first place or another try, in no particular but a deterministic order.
func (v View) Ready() []TaskID { return v.s.ready }

// Attempt returns an attempt. It must not be changed.
func (v View) Attempt(a AttemptID) *Attempt { return v.s.attempts.at(a) }

// Attempts returns how many attempts there were: ids run from 0.
func (v View) Attempts() int { return v.s.attempts.len() }

// Current returns the attempt of t that is under way, or None.
func (v View) Current(t TaskID) AttemptID {
	if l := v.s.lives.at(t); l.phase.Placed() {
		return l.attempt
	}
	return None
}

// Active returns the attempts under way on node n. It must not be changed.
func (v View) Active(n NodeID) []AttemptID { return v.s.active[n] }

// UnderWay yields all attempts under way, by node.
func (v View) UnderWay() iter.Seq[AttemptID] {
	return func(yield func(AttemptID) bool) {
		for _, list := range v.s.active {
			for _, a := range list {
				if !yield(a) {
					return
				}
			}
		}
	}
}

// UnderWayCount returns how many attempts are under way.
func (v View) UnderWayCount() int { return v.s.underWayCount }

// Holds returns the resources that an attempt under way holds now: a frozen one, those that its node keeps.
func (v View) Holds(a AttemptID) unit.Vector { return v.s.holds(a) }

// Changes yields by how much an event, which the state has taken in, changed the holds of attempts. The amounts must
// not be changed, nor kept.
func (v View) Changes(e *Event) iter.Seq2[AttemptID, *unit.Vector] {
	frozen := func(att *Attempt) unit.Vector { return att.Hold.Keep(v.Nodes()[att.Node].Keeps) }
	return func(yield func(AttemptID, *unit.Vector) bool) {
		var more unit.Vector
		switch b := e.Body.(type) {
		case *PlanCommitted:
			for i := range b.Orders {
				o := &b.Orders[i]
				change := &o.Hold
				switch o.Kind {
				case OrderStart:
				case OrderResume:
					att := v.Attempt(o.Attempt)
					more = att.Hold.Sub(frozen(att))
					change = &more
				default:
					continue
				}
				if !yield(o.Attempt, change) {
					return
				}
			}
		case AttemptSuspended:
			att := v.Attempt(b.Attempt)
			more = frozen(att).Sub(att.Hold)
			yield(b.Attempt, &more)
		case *AttemptExited:
			att := v.Attempt(b.Attempt)
			if att.Suspended != unit.Never && !att.Resuming {
				more = frozen(att)
			} else {
				more = att.Hold
			}
			more = unit.Vector{}.Sub(more)
			yield(b.Attempt, &more)
		}
	}
}

// Ran returns for how long an attempt has run, suspensions not counted; 0 before it started.
func (v View) Ran(a AttemptID) time.Duration {
	att := v.s.attempts.at(a)
	if att.Started == unit.Never {
		return 0
	}
	end := v.s.now
	if att.Suspended != unit.Never {
		end = att.Suspended
	}
	return max(0, end.Sub(att.Started)-att.Paused)
}

// Done returns the fraction of t, [0, 1), that a checkpoint has: the next attempt continues from there. The progress of
// a running attempt since it started is not in it.
func (v View) Done(t TaskID) float64 { return v.s.lives.at(t).done }

// Checkpoint returns where the checkpoint of t lies and in how long a run its work was done; None if there is none.
func (v View) Checkpoint(t TaskID) (NodeID, time.Duration) {
	l := v.s.lives.at(t)
	if l.done == 0 {
		return None, 0
	}
	return v.s.attempts.at(l.doneBy).Node, l.doneIn
}

// KeptBy returns the attempt that left the checkpoint of t; None if there is none.
func (v View) KeptBy(t TaskID) AttemptID {
	if l := v.s.lives.at(t); l.done > 0 {
		return l.doneBy
	}
	return None
}

// Preemptions returns how often a policy took the place of t away, in any way.
func (v View) Preemptions(t TaskID) int { return int(v.s.lives.at(t).preempted) }

// Vacates returns how t is best preempted if it has to leave its place altogether, and with it all resources there: by
// a checkpoint, or else by a restart if the user allows that; Suspend if it can only be frozen where it is.
func (v View) Vacates(t TaskID) Vacate {
	switch task := v.s.tasks.of(t); {
	case task.Checkpointable:
		return Checkpoint
	case task.Restartable:
		return Requeue
	}
	return Suspend
}

// File returns a file of an admitted workflow. It must not be changed.
func (v View) File(f FileID) *File { return &v.s.files.of(f).File }

// Has reports whether file f lies on node n.
func (v View) Has(n NodeID, f FileID) bool {
	p := v.s.files.of(f)
	return p.home == n || p.home == everywhere || p.home != None && (slices.Contains(p.Homes, n) ||
		len(v.s.files.more) > 0 && slices.Contains(v.s.files.more[f], n))
}

// HasAll reports whether all of some files lie on node n.
func (v View) HasAll(n NodeID, files []FileID) bool {
	return !slices.ContainsFunc(files, func(f FileID) bool { return !v.Has(n, f) })
}

// Nearest returns the node that file f is best copied from to node n (least time, then lowest id); None if it exists
// nowhere.
func (v View) Nearest(f FileID, n NodeID) NodeID {
	p := v.s.files.of(f)
	h := p.home
	if h == None {
		return None
	}
	if h == everywhere || h == n {
		return n
	}
	size, best := p.Size, h
	for _, list := range [2][]NodeID{p.Homes, v.s.files.more[f]} {
		for _, m := range list {
			if m == n {
				return n
			}
			if a, b := v.s.platform.MoveTime(size, m, n), v.s.platform.MoveTime(size, best, n); a < b ||
				a == b && m < best {
				best = m
			}
		}
	}
	return best
}
