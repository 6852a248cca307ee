package planner

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"gantry/planner/unit"
)

// State is all that is known of a run. It changes by Apply only, so that replaying the log of events rebuilds it.
type State struct {
	platform *Platform
	rules    RetryRules
	now      Time
	applied  uint64 // sequence number of the last event

	workflows table[WorkflowID, workflowState]
	tasks     tasks
	lives     table[TaskID, life]
	attempts  attempts
	files     files
	ahead     map[TaskID][]stock      // copied for tasks that have not started since
	held      []unit.Vector           // by node: held by attempts under way
	gpus      []shares                // by node: held by attempts under way
	capacity  []unit.Vector           // by node, as NodeChanged left it
	active    [][]AttemptID           // by node: attempts under way, in no particular but a deterministic order
	formals   map[WorkflowID][]TaskID // of workflows present, where there are any
	below     map[TaskID][]TaskID     // true children of the parents of formal tasks; see linkThrough
	present   []WorkflowID            // workflows not ended, in order of arrival
	embargoed []WorkflowID            // workflows whose release is still to come, first by release

	ready         []TaskID // tasks in phase Ready
	formal        []TaskID // formal tasks in phase Ready
	kept          int      // tasks not ended that have a checkpoint
	underWayCount int      // attempts under way
	frozen        int      // of these
	continuations int      // workflows that continue others
	reuses        map[TaskID]*TaskReused
	tokens        *tokens // nil: nobody has declared any
	crowd         *crowd  // nil: no link is shared
	sealed        []int   // pages of tasks packed since the draft packed its own
	news          News
}

// News has the changes since the last round.
type News struct {
	Arrived  []WorkflowID
	Grown    []WorkflowID // got further tasks; none of Arrived
	Ready    []TaskID     // became ready, in the order in which they did
	Finished []TaskID     // ended well
	Ended    []TaskID     // failed or skipped
	Changed  bool         // a node changed
	Freed    bool         // an attempt ended or was suspended
	Appeared []FileID     // copies completed
	// Suspended has the tasks that were frozen: they want to continue where they are.
	Suspended []TaskID
}

type workflowState struct {
	Workflow             // as policies see it: without formal tasks
	parts     []part     // by id
	files     [2]FileID  // the first one, and the one after the last
	left      int32      // tasks not ended, formal ones aside
	formal    int32      // formal tasks not ended
	failed    int32      // tasks failed or skipped
	continues WorkflowID // the one that it continues; None if it is the first
	started   Time
	ended     Time
	grown     bool
	cancelled bool
	continued bool // by another
}

// life is the changing part of a task.
type life struct {
	phase     Phase
	missing   int32     // parents not done
	readyPos  int32     // index in State.ready
	attempt   AttemptID // the current or last one
	tries     int32
	node      NodeID                  // of the current or last attempt
	ends      [lastOutcome + 1]uint16 // no more are counted than any limit has
	withdrawn bool                    // cancelled alone

	done      float64       // the fraction of the whole task that the checkpoint has
	doneIn    time.Duration // in how long a run
	doneBy    AttemptID     // the attempt that left it
	preempted int32         // how often a policy took the place of the task away
}

// Attempt is one try at a task.
type Attempt struct {
	Task      TaskID
	Node      NodeID // None for a formal task
	Hold      unit.Vector
	GPUs      Devices
	Ordered   Time
	Started   Time // Never until it runs
	Until     Time // planned end
	Try       int32
	Suspended Time          // since when; Never if it is not suspended
	Resuming  bool          // ordered to continue, and holds all again
	Leaving   Vacate        // ordered to leave its place, and has not yet; 0 if it was not
	Done      float64       // fraction of the whole task that was done before: it continues from a checkpoint
	Paused    time.Duration // suspensions that are over
	Over      bool
	Ahead     unit.Bytes // inputs that were copied ahead for it, where copies overlap other work
	pos       int32      // index in State.active of its node
}

// NewState returns the state before the first event.
func NewState(p *Platform, rules RetryRules) *State {
	s := &State{platform: p, rules: rules, files: files{more: map[FileID][]NodeID{}}, ahead: map[TaskID][]stock{},
		formals: map[WorkflowID][]TaskID{}, below: map[TaskID][]TaskID{}}
	s.crowd = newCrowd(p)
	s.held = make([]unit.Vector, len(p.Nodes))
	s.active = make([][]AttemptID, len(p.Nodes))
	s.gpus = make([]shares, len(p.Nodes))
	s.capacity = make([]unit.Vector, len(p.Nodes))
	for i := range p.Nodes {
		s.capacity[i] = p.Nodes[i].Capacity
		s.gpus[i] = make(shares, min(s.capacity[i][unit.GPU]/unit.WholeGPU, MostGPUs))
	}
	return s
}

// Apply changes the state by one event. An error means that the event cannot have happened: the log or a runtime is at
// fault. The state is then unchanged.
func (s *State) Apply(e Event) error {
	if err := s.check(&e); err != nil {
		return fmt.Errorf("event %d at %v: %w", e.Seq, e.At, err)
	}
	switch b := e.Body.(type) {
	case *WorkflowArrived:
		s.arrive(b, e.At)
	case *WorkflowGrown:
		s.grow(b)
	case AttemptStarted:
		s.attemptStarted(b.Attempt, e.At)
	case AttemptSuspended:
		s.attemptSuspended(b.Attempt, e.At)
	case AttemptResumed:
		s.attemptResumed(b.Attempt, e.At)
	case *AttemptExited:
		s.attemptExited(b, e.At)
		s.attempts.end(b.Attempt)
	case FileAppeared:
		s.copied(b.File, b.Node)
		s.place(b.File, b.Node)
		s.news.Appeared = append(s.news.Appeared, b.File)
	case NodeChanged:
		s.capacity[b.Node] = b.Capacity
		s.news.Changed = true
	case Woke:
		s.release(e.At)
	case *PlanCommitted:
		for i := range b.Orders {
			s.ordered(&b.Orders[i], e.At)
		}
	case WorkflowCancelled:
		s.cancel(b.Workflow, e.At)
	case TaskCancelled:
		s.cancelTask(b.Task, e.At)
	case *WorkflowContinued:
		s.continues(b)
	case *TaskReused:
		s.reused(b, e.At)
	case PolicyChanged:
		s.news.Changed = true
	}
	s.applied, s.now = e.Seq, e.At
	return nil
}

func (s *State) arrive(b *WorkflowArrived, at Time) {
	w := b.Workflow
	first, file := TaskID(s.tasks.len()), FileID(s.files.len())
	*s.workflows.push() = workflowState{Workflow: w, left: int32(len(b.Tasks)), started: unit.Never, ended: unit.Never,
		continues: None, parts: []part{{first, first + TaskID(len(b.Tasks))}},
		files: [2]FileID{file, file + FileID(len(b.Files))}}
	for _, f := range b.Files {
		s.files.push(f)
	}
	for i := range b.Tasks {
		s.tasks.push(&b.Tasks[i])
		l := s.lives.push()
		l.missing, l.readyPos, l.attempt, l.node = int32(len(b.Tasks[i].Parents)), None, None, None
	}
	s.linkThrough(b)
	s.present = append(s.present, w.ID)
	s.news.Arrived = append(s.news.Arrived, w.ID)
	if w.Release <= at {
		s.open(w.ID)
	} else {
		i, _ := slices.BinarySearchFunc(s.embargoed, w.Release+1,
			func(e WorkflowID, r Time) int { return cmp.Compare(s.workflows.at(e).Release, r) })
		s.embargoed = slices.Insert(s.embargoed, i, w.ID)
	}
	if len(b.Tasks) == 0 {
		s.endWorkflow(w.ID, at)
	}
}

// release opens the workflows whose earliest start has come.
func (s *State) release(at Time) {
	k := 0
	for ; k < len(s.embargoed) && s.workflows.at(s.embargoed[k]).Release <= at; k++ {
		s.open(s.embargoed[k])
	}
	s.embargoed = slices.Delete(s.embargoed, 0, k)
}

// open makes the first tasks of a workflow ready.
func (s *State) open(w WorkflowID) {
	for t := range s.all(w) {
		if l := s.lives.at(t); l.phase == Waiting && l.missing == 0 {
			s.becomeReady(t)
		}
	}
}

// all yields the tasks of a workflow in topological order, then the formal ones.
func (s *State) all(w WorkflowID) iter.Seq[TaskID] {
	return func(yield func(TaskID) bool) {
		for _, list := range [...][]TaskID{s.workflows.at(w).Tasks, s.formals[w]} {
			for _, t := range list {
				if !yield(t) {
					return
				}
			}
		}
	}
}

func (s *State) attemptStarted(a AttemptID, at Time) {
	att := s.attempts.open(a)
	att.Started = at
	s.staged(a)
	s.lives.open(att.Task).phase = Running
	// The attempt brought its inputs with it.
	task := s.tasks.open(att.Task)
	for _, f := range task.Inputs {
		s.place(f, att.Node)
	}
	if w := s.workflows.at(task.Workflow); w.started == unit.Never && !task.Formal {
		w.started = at
	}
}

func (s *State) attemptSuspended(a AttemptID, at Time) {
	att := s.attempts.at(a)
	s.lives.at(att.Task).phase = Suspended
	s.frozen++
	att.Suspended, att.Leaving = at, 0
	s.news.Suspended = append(s.news.Suspended, att.Task)
	s.held[att.Node] = s.held[att.Node].Sub(att.Hold).Add(att.Hold.Keep(s.platform.Nodes[att.Node].Keeps))
	s.news.Freed = true
}

// attemptResumed ends a suspension; the hold of the attempt was taken when the order was committed.
func (s *State) attemptResumed(a AttemptID, at Time) {
	att := s.attempts.at(a)
	s.lives.at(att.Task).phase = Running
	s.frozen--
	att.Paused += at.Sub(att.Suspended)
	att.Suspended, att.Resuming = unit.Never, false
}

func (s *State) attemptExited(b *AttemptExited, at Time) {
	att := s.attempts.open(b.Attempt)
	s.staged(b.Attempt)
	t := att.Task
	l := s.lives.open(t)
	frozen := l.phase == Suspended
	if frozen {
		s.frozen--
	}
	if att.Node != None {
		if held := &att.Hold; frozen && !att.Resuming {
			keeps := held.Keep(s.platform.Nodes[att.Node].Keeps)
			s.held[att.Node] = s.held[att.Node].Sub(keeps)
		} else {
			s.held[att.Node] = s.held[att.Node].Sub(*held)
		}
		s.spend(t, -1)
		s.gpus[att.Node].hold(att.GPUs, att.Hold[unit.GPU], -1)
		s.deactivate(att)
		s.news.Freed = true
	}
	att.Over, att.Leaving = true, 0
	if b.Outcome == OK {
		s.keep(l, 0, 0, None)
		l.phase = Done
		if att.Node != None {
			s.news.Finished = append(s.news.Finished, t)
		}
		s.succeeded(t, att.Node, at)
		return
	}
	if l.ends[b.Outcome] < math.MaxUint16 {
		l.ends[b.Outcome]++
	}
	switch {
	case b.Outcome.OfProgram():
		s.keep(l, 0, 0, None)
	case b.Kept > l.done:
		s.keep(l, b.Kept, l.doneIn+b.Ran, b.Attempt)
	}
	if !b.Final && s.mayRetry(t, b.Outcome) {
		s.becomeReady(t)
		return
	}
	l.phase = Failed
	s.taskFailed(t, at)
	s.skipDescendants(t, at)
}

// succeeded takes in that task t is done and its outputs are on node n.
func (s *State) succeeded(t TaskID, n NodeID, at Time) {
	for _, f := range s.tasks.open(t).Outputs {
		s.place(f, n)
	}
	for _, c := range s.children(t) {
		l := s.lives.open(c)
		if l.missing--; l.missing == 0 && l.phase == Waiting {
			s.becomeReady(c)
		}
	}
	s.taskEnded(t, at)
}

// continues numbers the tries of a workflow from those of the one that it continues.
func (s *State) continues(b *WorkflowContinued) {
	w := s.workflows.at(b.Workflow)
	w.continues, s.workflows.at(b.Of).continued = b.Of, true
	s.continuations++
	for i, n := range b.Tries {
		s.lives.at(w.parts[0].first + TaskID(i)).tries = n
	}
}

// reused ends a task that takes no attempt. Policies hear of it as of any task that is done.
func (s *State) reused(b *TaskReused, at Time) {
	s.dropReady(b.Task)
	s.news.Ready = slices.DeleteFunc(s.news.Ready, func(t TaskID) bool { return t == b.Task })
	l := s.lives.at(b.Task)
	s.keep(l, 0, 0, None)
	l.phase, l.node = Done, b.Node
	if s.reuses == nil {
		s.reuses = map[TaskID]*TaskReused{}
	}
	s.reuses[b.Task] = b
	s.news.Finished = append(s.news.Finished, b.Task)
	s.succeeded(b.Task, b.Node, at)
}

// keep notes the progress that the checkpoint of a task has.
func (s *State) keep(l *life, done float64, in time.Duration, by AttemptID) {
	if l.done > 0 {
		s.kept--
	}
	if done > 0 {
		s.kept++
	}
	l.done, l.doneIn, l.doneBy = done, in, by
}

// mayRetry decides on another attempt and grows the need of a task that ran out of memory.
func (s *State) mayRetry(t TaskID, o Outcome) bool {
	l, task := s.lives.at(t), s.tasks.of(t)
	if s.View().Withdrawn(t) || int32(l.ends[o]) > s.rules.limitFor(task, o) {
		return false
	}
	ok := true
	if o == OutOfMemory {
		task.Need, ok = s.rules.grown(task.Need, task.NextMemory, s.platform.Nodes)
	}
	return ok
}

func (s *State) skipDescendants(t TaskID, at Time) {
	queue := []TaskID{t}
	for len(queue) > 0 {
		u := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, c := range s.children(u) {
			if l := s.lives.at(c); l.phase == Waiting {
				l.phase = Skipped
				s.taskFailed(c, at)
				queue = append(queue, c)
			}
		}
	}
}

func (s *State) cancel(w WorkflowID, at Time) {
	s.workflows.at(w).cancelled = true
	for t := range s.all(w) {
		switch l := s.lives.at(t); l.phase {
		case Ready:
			s.dropReady(t)
			fallthrough
		case Waiting:
			l.phase = Skipped
			s.taskFailed(t, at)
		}
	}
}

// cancelTask withdraws one task, and so those below it. One under way is not tried again.
func (s *State) cancelTask(t TaskID, at Time) {
	l := s.lives.at(t)
	l.withdrawn = true
	switch l.phase {
	case Ready:
		s.dropReady(t)
		fallthrough
	case Waiting:
		l.phase = Skipped
		s.taskFailed(t, at)
		s.skipDescendants(t, at)
	}
}

func (s *State) ordered(o *Order, at Time) {
	switch o.Kind {
	case OrderStart:
		l := s.lives.open(o.Task)
		s.dropReady(o.Task)
		l.phase, l.attempt, l.node = Starting, o.Attempt, o.Node
		l.tries++
		a := s.attempts.push()
		a.Task, a.Node, a.Hold, a.GPUs, a.Try, a.Done = o.Task, o.Node, o.Hold, o.GPUs, o.Try, l.done
		a.Ordered, a.Started, a.Until, a.Suspended = at, unit.Never, o.Until, unit.Never
		if o.Node == None { // a formal task
			return
		}
		a.Ahead, a.pos = s.copiedAhead(o.Task, o.Node), int32(len(s.active[o.Node]))
		delete(s.ahead, o.Task)
		s.active[o.Node] = append(s.active[o.Node], o.Attempt)
		s.underWayCount++
		s.held[o.Node] = s.held[o.Node].Add(o.Hold)
		s.gpus[o.Node].hold(o.GPUs, o.Hold[unit.GPU], +1)
		s.spend(o.Task, +1)
		s.stages(o.Attempt)
	case OrderResume:
		att := s.attempts.at(o.Attempt)
		s.held[att.Node] = s.held[att.Node].Sub(att.Hold.Keep(s.platform.Nodes[att.Node].Keeps)).Add(att.Hold)
		att.Until, att.Resuming = o.Until, true
	case OrderSuspend, OrderKill, OrderCheckpoint:
		s.attempts.at(o.Attempt).Leaving = o.Kind.Vacates()
		s.lives.at(o.Task).preempted++
	case OrderCopy:
		s.copies(o.File, o.From, o.Node)
		s.ahead[o.Task] = append(s.ahead[o.Task], stock{o.Node, s.files.of(o.File).Size})
	}
}

// stock is an amount of data copied to a node.
type stock struct {
	node NodeID
	size unit.Bytes
}

// copiedAhead returns how much was copied to node n for task t; copies to other nodes, by a plan since dropped, do not
// count.
func (s *State) copiedAhead(t TaskID, n NodeID) (sum unit.Bytes) {
	for _, c := range s.ahead[t] {
		if c.node == n {
			sum += c.size
		}
	}
	return sum
}

// holds returns the resources that an attempt holds now.
func (s *State) holds(a AttemptID) unit.Vector {
	att := s.attempts.at(a)
	if s.lives.at(att.Task).phase == Suspended && !att.Resuming {
		return att.Hold.Keep(s.platform.Nodes[att.Node].Keeps)
	}
	return att.Hold
}

func (s *State) deactivate(att *Attempt) {
	list := s.active[att.Node]
	last := len(list) - 1
	list[att.pos] = list[last]
	s.attempts.open(list[last]).pos = att.pos
	s.active[att.Node] = list[:last]
	s.underWayCount--
}

func (s *State) becomeReady(t TaskID) {
	l := s.lives.open(t)
	l.phase = Ready
	if s.tasks.open(t).Formal {
		s.formal = append(s.formal, t)
		return
	}
	l.readyPos = int32(len(s.ready))
	s.ready = append(s.ready, t)
	s.news.Ready = append(s.news.Ready, t)
}

func (s *State) dropReady(t TaskID) {
	if s.tasks.open(t).Formal {
		i := slices.Index(s.formal, t)
		s.formal = slices.Delete(s.formal, i, i+1)
		return
	}
	l, last := s.lives.open(t), len(s.ready)-1
	s.ready[l.readyPos] = s.ready[last]
	s.lives.open(s.ready[last]).readyPos = l.readyPos
	s.ready = s.ready[:last]
	l.readyPos = None
}

// taskFailed takes note of a task that failed or was skipped.
func (s *State) taskFailed(t TaskID, at Time) {
	task := s.tasks.of(t)
	s.workflows.at(task.Workflow).failed++
	if !task.Formal {
		s.news.Ended = append(s.news.Ended, t)
	}
	s.taskEnded(t, at)
}

func (s *State) taskEnded(t TaskID, at Time) {
	task := s.tasks.open(t)
	w := s.workflows.at(task.Workflow)
	if task.Formal {
		w.formal--
	} else {
		w.left--
	}
	if w.left+w.formal == 0 {
		s.endWorkflow(w.ID, at)
	}
}

func (s *State) endWorkflow(w WorkflowID, at Time) {
	s.workflows.at(w).ended = at
	if s.workflows.at(w).started == unit.Never && s.workflows.at(w).failed == 0 { // nothing in it takes time
		s.workflows.at(w).started = at
	}
	for t := range s.all(w) {
		if s.tasks.end(t) {
			s.lives.pack(int(t >> pageBits))
			s.sealed = append(s.sealed, int(t>>pageBits))
		}
		if len(s.below) > 0 {
			delete(s.below, t)
		}
	}
	delete(s.formals, w)
	for f, past := s.workflows.at(w).files[0], s.workflows.at(w).files[1]; f < past; f++ {
		s.files.end(f)
	}
	if i, ok := slices.BinarySearch(s.present, w); ok {
		s.present = slices.Delete(s.present, i, i+1)
	}
}

func (s *State) place(f FileID, n NodeID) {
	switch p := s.files.of(f); {
	case p.home == None:
		p.home = n
	case s.View().Has(n, f) || s.files.pages[f>>pageBits] == nil: // or nobody asks any more
	default:
		s.files.more[f] = append(s.files.more[f], n)
	}
}
