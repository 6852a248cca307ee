package planner

import (
	"errors"
	"fmt"
	"slices"

	"gantry/planner/unit"
)

// check reports why an event cannot have happened in this state; nil if it can. It changes nothing, so that Apply
// changes all or nothing.
func (s *State) check(e *Event) error {
	if e.Seq != s.applied+1 {
		return fmt.Errorf("expected number %d", s.applied+1)
	}
	if e.At < s.now {
		return fmt.Errorf("the event before it was at %v", s.now)
	}
	switch b := e.Body.(type) {
	case *WorkflowArrived:
		if err := s.checkArrival(b); err != nil {
			return fmt.Errorf("workflow %d: %w", b.Workflow.ID, err)
		}
		return nil
	case *WorkflowGrown:
		if err := s.checkGrowth(b); err != nil {
			return fmt.Errorf("a task for workflow %d: %w", b.Workflow, err)
		}
		return nil
	case AttemptStarted:
		return s.checkAttempt(b.Attempt, Starting)
	case AttemptSuspended:
		if err := s.checkAttempt(b.Attempt, Running); err != nil {
			return err
		}
		if l := s.attempts.at(b.Attempt).Leaving; l != Suspend {
			return fmt.Errorf("attempt %d was suspended: nobody ordered that", b.Attempt)
		}
		return nil
	case AttemptResumed:
		if err := s.checkAttempt(b.Attempt, Suspended); err != nil {
			return err
		}
		if !s.attempts.at(b.Attempt).Resuming {
			return fmt.Errorf("attempt %d was resumed: nobody ordered that", b.Attempt)
		}
		return nil
	case *AttemptExited:
		return s.checkExit(b)
	case FileAppeared:
		if b.File < 0 || int(b.File) >= s.files.len() {
			return fmt.Errorf("file %d appeared: it is not known", b.File)
		}
		return s.checkNode(b.Node)
	case NodeChanged:
		if slices.Min(b.Capacity[:]) < 0 {
			return fmt.Errorf("node %d changed: its capacity is %v", b.Node, b.Capacity)
		}
		return s.checkNode(b.Node)
	case Woke, PolicyChanged:
		return nil
	case *PlanCommitted:
		return s.checkPlan(b)
	case WorkflowCancelled:
		if b.Workflow < 0 || int(b.Workflow) >= s.workflows.len() {
			return fmt.Errorf("workflow %d was cancelled: it is not known", b.Workflow)
		}
		return nil
	case TaskCancelled:
		if err := s.checkTask(b.Task); err != nil {
			return err
		}
		if s.tasks.of(b.Task).Formal {
			return fmt.Errorf("task %d was cancelled: it is a formal one", b.Task)
		}
		return nil
	case *WorkflowContinued:
		return s.checkContinued(b)
	case *TaskReused:
		return s.checkReused(b)
	}
	return fmt.Errorf("unknown event body %T", e.Body)
}

func (s *State) checkNode(n NodeID) error {
	if n < 0 || int(n) >= len(s.capacity) {
		return fmt.Errorf("node %d is not known", n)
	}
	return nil
}

func (s *State) checkTask(t TaskID) error {
	if t < 0 || int(t) >= s.tasks.len() {
		return fmt.Errorf("task %d is not known", t)
	}
	return nil
}

// checkAttempt reports why an attempt is not under way, its task in that phase.
func (s *State) checkAttempt(a AttemptID, want Phase) error {
	if !s.underWay(a) {
		return fmt.Errorf("attempt %d is not under way", a)
	}
	t := s.attempts.open(a).Task
	if p := s.lives.open(t).phase; p != want {
		return fmt.Errorf("attempt %d of task %d is %s, not %s", a, t, p, want)
	}
	return nil
}

func (s *State) underWay(a AttemptID) bool {
	return a >= 0 && int(a) < s.attempts.len() && !s.attempts.at(a).Over
}

func (s *State) checkContinued(b *WorkflowContinued) error {
	if b.Workflow < 0 || int(b.Workflow) >= s.workflows.len() || b.Of < 0 || b.Of >= b.Workflow {
		return fmt.Errorf("workflow %d continues workflow %d: one of them is not known, or the first one came first",
			b.Workflow, b.Of)
	}
	w, of := s.workflows.at(b.Workflow), s.workflows.at(b.Of)
	switch {
	case of.left+of.formal > 0 || of.continued:
		return fmt.Errorf("workflow %d continues workflow %d, which has not ended or is continued by another",
			b.Workflow, b.Of)
	case w.continues != None:
		return fmt.Errorf("workflow %d continues workflow %d: it continues workflow %d", b.Workflow, b.Of, w.continues)
	case w.grown || len(b.Tries) != int(w.parts[0].past-w.parts[0].first):
		return fmt.Errorf("workflow %d continues another: it grew, or tries of %d tasks are not those of its tasks",
			b.Workflow, len(b.Tries))
	}
	first := w.parts[0].first
	for t := first; t < w.parts[0].past; t++ {
		if s.lives.at(t).tries > 0 || b.Tries[t-first] < 0 {
			return fmt.Errorf("workflow %d continues another: task %d was tried already", b.Workflow, t)
		}
	}
	return nil
}

func (s *State) checkReused(b *TaskReused) error {
	if err := s.checkTask(b.Task); err != nil {
		return err
	}
	if p := s.lives.at(b.Task).phase; p != Ready || s.tasks.of(b.Task).Formal {
		return fmt.Errorf("task %d was reused: it is %s", b.Task, p)
	}
	if b.Node == None && len(s.tasks.of(b.Task).Outputs) == 0 {
		return nil
	}
	return s.checkNode(b.Node)
}

func (s *State) checkExit(b *AttemptExited) error {
	switch {
	case !s.underWay(b.Attempt):
		return fmt.Errorf("attempt %d exited: it is not under way", b.Attempt)
	case b.Outcome < OK || b.Outcome > lastOutcome:
		return fmt.Errorf("attempt %d exited: unknown outcome %d", b.Attempt, b.Outcome)
	case !(b.Kept >= 0 && b.Kept <= 1):
		return fmt.Errorf("attempt %d exited: it kept %v of its task, which is no fraction", b.Attempt, b.Kept)
	}
	return nil
}

// checkArrival reports how a workflow does not continue the ids of the state, or is no DAG of its own tasks and files.
func (s *State) checkArrival(b *WorkflowArrived) error {
	if int(b.Workflow.ID) != s.workflows.len() {
		return fmt.Errorf("expected id %d", s.workflows.len())
	}
	own := &arrival{WorkflowArrived: b, first: TaskID(s.tasks.len()), file: FileID(s.files.len())}
	up, down := 0, 0
	for i := range own.Files {
		f := &own.Files[i]
		if f.ID != own.file+FileID(i) {
			return fmt.Errorf("file %d is numbered %d", own.file+FileID(i), f.ID)
		}
		if f.Size < 0 || f.Producer != None && !own.task(f.Producer) {
			return fmt.Errorf("file %d: its size is %d and task %d writes it", f.ID, f.Size, f.Producer)
		}
		for _, n := range f.Homes {
			if err := s.checkNode(n); err != nil {
				return fmt.Errorf("file %d: %w", f.ID, err)
			}
		}
	}
	for i := range own.Tasks {
		t := &own.Tasks[i]
		if t.ID != own.first+TaskID(i) || t.Workflow != own.Workflow.ID {
			return fmt.Errorf("task %d is numbered %d, of workflow %d", own.first+TaskID(i), t.ID, t.Workflow)
		}
		if err := own.check(t); err != nil {
			return fmt.Errorf("task %d: %w", t.ID, err)
		}
		up, down = up+len(t.Parents), down+len(t.Children)
	}
	if up != down {
		return fmt.Errorf("tasks name %d parents and %d children", up, down)
	}
	return own.checkOrder()
}

// arrival is a workflow that asks to be admitted, with the first ids of its tasks and files.
type arrival struct {
	*WorkflowArrived
	first TaskID
	file  FileID
}

func (a *arrival) task(t TaskID) bool { return t >= a.first && int(t-a.first) < len(a.Tasks) }

// checkNumbers reports numbers of a task that cannot be.
func (t *Task) checkNumbers() error {
	if slices.Min(t.Need[:]) < 0 || t.Retries < None || t.CheckpointSize < 0 {
		return fmt.Errorf("it needs %v, has %d retries and a checkpoint of %d bytes", t.Need, t.Retries,
			t.CheckpointSize)
	}
	return nil
}

// check reports an error in a task. Links of most tasks are ascending, which makes them quick to check.
func (a *arrival) check(t *Task) error {
	if err := t.checkNumbers(); err != nil {
		return err
	}
	for i, p := range t.Parents {
		if !a.task(p) || i > 0 && p <= t.Parents[i-1] && slices.Contains(t.Parents[:i], p) {
			return fmt.Errorf("its parents are %v", t.Parents)
		}
	}
	for i, c := range t.Children {
		if !a.task(c) || i > 0 && c <= t.Children[i-1] && slices.Contains(t.Children[:i], c) {
			return fmt.Errorf("its children are %v", t.Children)
		}
		parents := a.Tasks[c-a.first].Parents
		if _, ok := slices.BinarySearch(parents, t.ID); !ok && !slices.Contains(parents, t.ID) {
			return fmt.Errorf("it is no parent of its child %d", c)
		}
	}
	for _, files := range [...][]FileID{t.Inputs, t.Outputs} {
		for _, f := range files {
			if f < a.file || int(f-a.file) >= len(a.Files) {
				return fmt.Errorf("file %d is not of its workflow", f)
			}
		}
	}
	return nil
}

// checkOrder reports whether Workflow.Tasks has every task once, parents first.
func (a *arrival) checkOrder() error {
	order := a.Workflow.Tasks
	if len(order) != len(a.Tasks) {
		return fmt.Errorf("its order has %d of %d tasks", len(order), len(a.Tasks))
	}
	var few [16]uint64 // enough for most workflows
	met := few[:]
	if len(order) > 64*len(few) {
		met = make([]uint64, (len(order)+63)/64)
	}
	for _, t := range order {
		if !a.task(t) {
			return fmt.Errorf("task %d in its order is not of it", t)
		}
		k := t - a.first
		for _, p := range a.Tasks[k].Parents {
			if q := p - a.first; met[q/64]&(1<<(q%64)) == 0 {
				return fmt.Errorf("task %d comes before its parent %d", t, p)
			}
		}
		if met[k/64]&(1<<(k%64)) != 0 {
			return fmt.Errorf("task %d is twice in its order", t)
		}
		met[k/64] |= 1 << (k % 64)
	}
	return nil
}

// checkPlan reports which order of a round cannot be: one by one, and no task or attempt twice.
func (s *State) checkPlan(b *PlanCommitted) error {
	var few [8]TaskID
	moved, next := few[:0], AttemptID(s.attempts.len())
	for i := range b.Orders {
		o := &b.Orders[i]
		err := s.checkTask(o.Task)
		if err == nil {
			err = s.checkOrder(o, next)
		}
		if err != nil {
			return fmt.Errorf("round %d: %s task %d: %w", b.Round, o.Kind, o.Task, err)
		}
		if o.Kind == OrderStart {
			next++
		}
		if o.Kind != OrderCopy {
			moved = append(moved, o.Task)
		}
	}
	if len(moved) > 1 {
		slices.Sort(moved)
	}
	for i := 1; i < len(moved); i++ {
		if moved[i] == moved[i-1] {
			return fmt.Errorf("round %d: task %d is ordered about twice", b.Round, moved[i])
		}
	}
	for i := range b.Reasons {
		if err := s.checkTask(b.Reasons[i].Task); err != nil {
			return fmt.Errorf("round %d: a reason to wait: %w", b.Round, err)
		}
	}
	for i := range b.Notes {
		if n := &b.Notes[i]; n.Workflow < None || int(n.Workflow) >= s.workflows.len() || n.Task < None ||
			int(n.Task) >= s.tasks.len() {
			return fmt.Errorf("round %d: a note is about workflow %d, task %d", b.Round, n.Workflow, n.Task)
		}
	}
	return nil
}

// checkOrder reports why an order about a known task cannot be carried out; next is the number of the next attempt.
func (s *State) checkOrder(o *Order, next AttemptID) error {
	switch o.Kind {
	case OrderStart:
		l := s.lives.at(o.Task)
		switch {
		case l.phase != Ready:
			return fmt.Errorf("it is %s", l.phase)
		case o.Attempt != next:
			return fmt.Errorf("attempt %d: expected number %d", o.Attempt, next)
		case o.Try != l.tries+1:
			return fmt.Errorf("try %d: expected number %d", o.Try, l.tries+1)
		case slices.Min(o.Hold[:]) < 0:
			return fmt.Errorf("it is to hold %v", o.Hold)
		case o.Node == None && s.tasks.of(o.Task).Formal:
			return nil
		}
		if err := s.checkNode(o.Node); err != nil || o.Hold[unit.GPU] == 0 && o.GPUs == 0 {
			return err
		}
		return s.checkGPUs(o)
	case OrderResume:
		if err := s.checkAttempt(o.Attempt, Suspended); err != nil {
			return err
		}
		if s.attempts.at(o.Attempt).Resuming {
			return errors.New("it is not suspended")
		}
		return s.checkOf(o)
	case OrderSuspend, OrderKill, OrderCheckpoint:
		if err := s.checkAttempt(o.Attempt, Running); err != nil {
			return err
		}
		if how := s.attempts.at(o.Attempt).Leaving; how != 0 {
			return fmt.Errorf("it was ordered to leave already (%s)", how)
		}
		return s.checkOf(o)
	case OrderCopy:
		if o.File < 0 || int(o.File) >= s.files.len() {
			return fmt.Errorf("file %d is not known", o.File)
		}
		if s.lives.at(o.Task).phase.Ended() {
			return errors.New("it has ended")
		}
		return s.checkNode(o.Node)
	}
	return fmt.Errorf("unknown kind of order %d", o.Kind)
}

// checkOf reports an order about an attempt of another task.
func (s *State) checkOf(o *Order) error {
	if t := s.attempts.at(o.Attempt).Task; t != o.Task {
		return fmt.Errorf("attempt %d is of task %d", o.Attempt, t)
	}
	return nil
}
