package planner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"gantry/planner/unit"
)

// Policy plans: it edits the draft of a cycle, and nothing else. It never knows which world it plans for.
type Policy interface {
	Plan(ctx context.Context, c *Cycle) error
}

// ErrUnsupported is why a policy ends a run whose load it cannot plan.
var ErrUnsupported = errors.New("the policy cannot plan this load")

// Refuser is a policy that can refuse workflows which would miss their deadlines. It places nothing of them and leaves
// a note of TopicRefused, upon which they are cancelled.
type Refuser interface{ RejectLate() }

// SearchCounter is a policy that can count what searches of its plan look at, and leaves notes of TopicSearched then.
// Counting takes time that planning without it does not.
type SearchCounter interface{ CountSearches() }

// Suspender is a policy that suspends tasks and lets them continue: a round in which another one suspends a task is an
// error. Under policies that suspend none, tasks suspended before continue as soon as there is room.
type Suspender interface{ Suspends() }

// Ender is a policy with something outside the planner, such as a program, that ends when nobody asks the policy any
// more. It may be asked again: then it begins anew.
type Ender interface{ End() }

// Estimator gives policies the estimated durations.
type Estimator interface {
	// Run estimates a whole run of t on n, the start of a container included, copies of inputs not.
	Run(t *Task, n *Node) Estimate
	// Remaining estimates the rest of a run that has lasted ran already. Its floor grows with ran; otherwise an
	// overrunning task would be expected to end at the next instant for ever.
	Remaining(t *Task, n *Node, ran time.Duration) time.Duration
}

// Ranker is an Estimator for ranks: its estimates leave out the factor that all tasks share, so that a common factor
// changes no order, not even by rounding. The weight of a workflow is the further factor that its tasks share.
type Ranker interface {
	// Unscaled returns a run of t on n. The common factor and the weight depend on nothing learned.
	Unscaled(t *Task, n *Node) (run time.Duration, weight uint64)
	// BySpeed reports whether t runs alike on all nodes of one speed.
	BySpeed(t *Task) bool
	// Work returns the work of t, if a run takes that over the speed of the node; false if it does not.
	Work(t *Task) (Work, bool)
}

// Work is a task at speed 1.
type Work struct {
	Run      time.Duration // as it is estimated
	Unscaled time.Duration // the same without the factor of all estimates, and without the weight
	Weight   uint64        // of its workflow
	Start    time.Duration // added to a run at every speed; then Unscaled is Run
}

// Observer is an estimator or policy that learns from events. It gets every event, also while a log is replayed, after
// the state took it in.
type Observer interface {
	Observe(v View, e Event)
}

// Names has the names of workflows and tasks. Programs are told; no policy of gantry's decides by it.
type Names interface {
	OfTask(TaskID) (name, kind string)
	OfWorkflow(WorkflowID) string
	OfTenant(TenantID) string
}

// Cycle is one round: the state that a policy may read, and the draft that it may edit. There is one at each instant,
// after all that happens at it.
type Cycle struct {
	View
	News  News // since the last round
	Draft *Draft
	Est   Estimator
	Rand  *rand.Rand
	Names Names

	now     Time
	round   int64
	wake    Time
	learns  bool
	explain func(TaskID, Reason)
	notes   []Note
}

// Now is the instant of the round.
func (c *Cycle) Now() Time { return c.now }

// Round numbers the rounds of the run.
func (c *Cycle) Round() int64 { return c.round }

// Unplaced is the one predicate for "wants a place": the task has not ended and has no segment but perhaps a parked
// one.
func (c *Cycle) Unplaced(t TaskID) bool {
	if c.Phase(t).Ended() {
		return false
	}
	seg := c.Draft.stay(t)
	return seg == nil || seg.Kind == Parked
}

// Unstarted reports whether t has not ended and was not ordered to start, not in this round either: it wants a place,
// or has one that is planned.
func (c *Cycle) Unstarted(t TaskID) bool {
	if c.Phase(t).Ended() {
		return false
	}
	seg := c.Draft.stay(t)
	return seg == nil || seg.Kind == Parked || seg.Kind == Planned && !seg.due
}

// Explain says why t does not start now. It goes to the log.
func (c *Cycle) Explain(t TaskID, r Reason) { c.explain(t, r) }

// Note is a remark for people. It goes to the log with the outcome of the round.
func (c *Cycle) Note(n Note) { c.notes = append(c.notes, n) }

// Promise notes when a workflow that is planned for the first time is expected to end. Laxity is the time that it would
// have to spare on its own.
func (c *Cycle) Promise(w WorkflowID, end Time, laxity time.Duration) {
	text, short := "no deadline", func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	switch due := c.Workflow(w).Due; {
	case due == unit.Never:
	case end > due:
		text = fmt.Sprintf("laxity %v, the deadline is missed by %v", short(laxity), short(end.Sub(due)))
	default:
		text = fmt.Sprintf("laxity %v, the deadline is met with %v to spare", short(laxity), short(due.Sub(end)))
	}
	c.Note(Note{Topic: TopicPredicted, Workflow: w, Task: None, At: end, Text: text})
}

// WakeAt asks for a round at that instant, if none comes before.
func (c *Cycle) WakeAt(at Time) { c.wake = min(c.wake, at) }

// Site is a way to house a task.
type Site struct {
	Node NodeID
	Need unit.Vector   // the hold of the stay
	More unit.Vector   // resources that have to be free for it: Need, less the present hold of a frozen task
	From Time          // parents have ended by then and, where copies overlap other work, the inputs are there
	Dur  time.Duration // of the stay: copies (inputs do not count if they overlap other work) and the run
	Run  Estimate      // of the rest, where the task continues from a checkpoint or was frozen
}

// From returns when the parents of t are estimated to have ended, at the earliest now; false if one has no place.
func (c *Cycle) From(t *Task) (Time, bool) {
	from := max(c.now, c.Workflow(t.Workflow).Release)
	for _, p := range t.Parents {
		if c.Phase(p) == Done {
			continue
		}
		seg := c.Draft.stay(p)
		if seg == nil || seg.Kind == Parked {
			return 0, false
		}
		from = max(from, c.Draft.ActiveEnd(p))
	}
	return from, true
}

// Learns reports whether estimates change as tasks end, so that an estimate holds for this round only.
func (c *Cycle) Learns() bool { return c.learns }

// Copies reports whether inputs of t, or its checkpoint, may have to be copied between nodes, so that sites differ by
// more than the speed of nodes.
func (c *Cycle) Copies(t *Task) bool {
	return len(c.Nodes()) > 1 && (len(t.Inputs) > 0 || c.s.kept > 0 && c.Done(t.ID) > 0)
}

// BySpeed reports whether t is estimated to run alike on all nodes of one speed.
func (c *Cycle) BySpeed(t *Task) bool {
	if c.Phase(t.ID) == Suspended {
		return false // it continues where it is
	}
	r, ok := c.Est.(Ranker)
	return ok && r.BySpeed(t)
}

// Site returns how t could be housed on node n; false if the node can never hold it, or a parent has no place yet. A
// task with a checkpoint has it brought along, within its stay; a frozen one can only continue where it is.
func (c *Cycle) Site(t TaskID, n NodeID) (Site, bool) {
	task, node := c.Task(t), &c.Nodes()[n]
	if !task.Need.Fits(c.Capacity(n)) {
		return Site{}, false
	}
	from, ok := c.From(task)
	if !ok {
		return Site{}, false
	}
	run, life := c.Est.Run(task, node), c.s.lives.at(t)
	if life.phase == Suspended {
		a := c.Current(t)
		if att := c.Attempt(a); att.Node != n {
			return Site{}, false
		}
		run.Run = c.Est.Remaining(task, node, c.Ran(a))
		hold := c.Attempt(a).Hold
		return Site{Node: n, Need: hold, More: hold.Sub(c.Holds(a)), From: from, Dur: max(run.Run, 1), Run: run}, true
	}
	// A run estimated to take no time still holds its place for an instant.
	site := Site{Node: n, Need: task.Need, More: task.Need, From: from, Dur: max(run.Run, 1), Run: run}
	if life.done > 0 {
		at, _ := c.Checkpoint(t)
		site.Dur += c.MoveTime(task.CheckpointSize, at, n)
	}
	if !c.Copies(task) {
		return site, true
	}
	for _, f := range task.Inputs {
		arrival, copying := c.arrival(f, n)
		if c.Platform().Overlapped {
			site.From = max(site.From, arrival)
		} else {
			site.Dur += copying
		}
	}
	return site, true
}

// arrival returns when file f can be on node n if its copy begins as soon as it exists, and how long the copy takes.
func (c *Cycle) arrival(f FileID, n NodeID) (Time, time.Duration) {
	if from := c.Nearest(f, n); from != None {
		if from == n {
			return c.now, 0
		}
		d := c.MoveTime(c.File(f).Size, from, n)
		at, underWay := c.Draft.copies[copyKey{f, n}]
		if !underWay {
			at = c.now.Add(d)
		}
		return max(at, c.now+1), d // even a copy that takes no time has to be reported
	}
	if p := c.File(f).Producer; p != None {
		if seg := c.Draft.stay(p); seg != nil {
			d := c.MoveTime(c.File(f).Size, seg.Node, n)
			return c.Draft.ActiveEnd(p).Add(d), d
		}
	}
	return c.now, 0
}
