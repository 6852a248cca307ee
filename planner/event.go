package planner

import (
	"fmt"
	"time"

	"gantry/planner/unit"
)

// Event is a numbered fact. Applying events in order is the only way State changes; the log of events is the run.
type Event struct {
	Seq  uint64
	At   Time
	Body Body
}

// Body is what happened: one of the types below, and no other. The large ones (workflow arrived, attempt exited, plan committed)
// travel as pointers and are never changed once numbered.
type Body interface{ Kind() EventKind }

// EventKind numbers the types of Body. The numbers are part of the log's format: append, never renumber.
type EventKind uint8

const (
	KindWorkflowArrived EventKind = iota + 1
	KindAttemptStarted
	KindAttemptSuspended
	KindAttemptResumed
	KindAttemptExited
	KindFileAppeared
	KindNodeChanged
	KindWoke
	KindPlanCommitted
	KindWorkflowCancelled
)

var eventKinds = [...]string{"", "workflow-arrived", "attempt-started", "attempt-suspended", "attempt-resumed", "attempt-exited",
	"file-appeared", "node-changed", "woke", "plan-committed", "workflow-cancelled"}

func (k EventKind) String() string { return eventKinds[k] }

type (
	// WorkflowArrived admits a workflow. Its ids continue those of the state.
	WorkflowArrived struct {
		Workflow Workflow
		Tasks    []Task
		Files    []File
	}
	// AttemptStarted says that the inputs are in place and the program runs.
	AttemptStarted struct{ Attempt AttemptID }
	// AttemptSuspended says that the attempt makes no progress and holds only what its node keeps.
	AttemptSuspended struct{ Attempt AttemptID }
	// AttemptResumed ends a suspension.
	AttemptResumed struct{ Attempt AttemptID }
	// AttemptExited ends an attempt, whatever way.
	AttemptExited struct {
		Attempt  AttemptID
		Outcome  Outcome
		ExitCode int           // of the program; -1 if it has none
		Ran      time.Duration // from AttemptStarted to the end, suspensions not counted
		// Kept is the fraction of the whole task, [0, 1], that the checkpoint taken at the end has: that of earlier attempts included.
		// 0 if none was taken.
		Kept float64
		// Final says that another attempt would end alike, so that there is none.
		Final   bool
		Usage   Usage
		Message string // evidence for a person; "" if all went well
	}
	// FileAppeared says that a copy of a file is complete on a node.
	FileAppeared struct {
		File FileID
		Node NodeID
	}
	// NodeChanged gives a node a new capacity; zero if it was lost.
	NodeChanged struct {
		Node     NodeID
		Capacity unit.Vector
	}
	// Woke is a timer that a policy asked for, or the start of a planned segment.
	Woke struct{}
	// PlanCommitted is the outcome of one round: what was ordered, why other tasks wait, and what else the policy has to say.
	PlanCommitted struct {
		Round   int64
		Orders  []Order
		Reasons []Wait
		Notes   []Note
		Took    time.Duration // of the policy, by the wall clock; outside the decisions
	}
	// WorkflowCancelled withdraws what has not started of a workflow.
	WorkflowCancelled struct{ Workflow WorkflowID }
)

func (*WorkflowArrived) Kind() EventKind  { return KindWorkflowArrived }
func (AttemptStarted) Kind() EventKind    { return KindAttemptStarted }
func (AttemptSuspended) Kind() EventKind  { return KindAttemptSuspended }
func (AttemptResumed) Kind() EventKind    { return KindAttemptResumed }
func (*AttemptExited) Kind() EventKind    { return KindAttemptExited }
func (FileAppeared) Kind() EventKind      { return KindFileAppeared }
func (NodeChanged) Kind() EventKind       { return KindNodeChanged }
func (Woke) Kind() EventKind              { return KindWoke }
func (*PlanCommitted) Kind() EventKind    { return KindPlanCommitted }
func (WorkflowCancelled) Kind() EventKind { return KindWorkflowCancelled }

// OrderKind is what an order asks of the runtime.
type OrderKind uint8

const (
	OrderStart OrderKind = iota + 1
	OrderSuspend
	OrderResume
	OrderKill       // the attempt's work is given up and the task wants a place again
	OrderCopy       // bring File to Node ahead of its consumer, where copies overlap other work
	OrderCheckpoint // the attempt leaves its progress in a checkpoint and ends; the task wants a place again
)

var orderKinds = [...]string{"", "start", "suspend", "resume", "kill", "copy", "checkpoint"}

func (k OrderKind) String() string {
	if int(k) >= len(orderKinds) {
		return fmt.Sprintf("order %d", uint8(k))
	}
	return orderKinds[k]
}

// Vacates returns the way in which an order of that kind takes a place away; 0 for other orders.
func (k OrderKind) Vacates() Vacate {
	switch k {
	case OrderSuspend:
		return Suspend
	case OrderKill:
		return Requeue
	case OrderCheckpoint:
		return Checkpoint
	}
	return 0
}

// Order is derived from the difference between the draft and what runs; no policy issues one.
type Order struct {
	Kind    OrderKind
	Attempt AttemptID // start: the new attempt; suspend, resume, kill, checkpoint: the attempt meant
	Task    TaskID
	Node    NodeID
	Hold    unit.Vector
	Try     int32    // start: 1 for the first attempt of the task
	Until   Time     // start: the planned end
	Est     Estimate // start: what the policy believed, kept to be compared with what is measured
	File    FileID   // copy
	From    NodeID   // copy
}

// Wait says why a task does not start now.
type Wait struct {
	Task   TaskID
	Reason Reason
}

// Topics of notes that mean the same whatever the policy.
const (
	TopicPredicted = "predicted" // when a workflow that arrived is to be completed by the plan made then; the text says how that is to its deadline
	TopicRefused   = "refused"   // a workflow that arrived cannot meet its deadline and is withdrawn; see Refuser
)

// Note is what a policy wants people to know beyond orders and reasons: a choice, a promise, an attempt that failed. It changes nothing.
type Note struct {
	Topic    string     // a stable short name, documented with the policy
	Workflow WorkflowID // None: it is about no one workflow
	Task     TaskID     // None: it is about no one task
	At       Time       // the instant it tells; unit.Never: none
	Text     string
}

// Outcome is how an attempt ended: a class, not an exit code. The numbers are part of the log's format.
type Outcome uint8

const (
	OK            Outcome = iota + 1
	ExitCode              // the program returned another code than 0
	OutOfMemory           // the kernel's counters show an out-of-memory kill
	TimedOut              // the wall limit of the task
	Killed                // by a signal from outside gantry
	Preempted             // gantry took its place away; its work is lost but for what a checkpoint kept
	Lost                  // nobody knows what became of it (host or gantry died)
	HostError             // the host or Docker could not run it
	OutputMissing         // it returned 0 but a declared output is not there
)

var outcomes = [...]string{"", "ok", "exit-code", "out-of-memory", "timed-out", "killed", "preempted", "lost", "host-error", "output-missing"}

func (o Outcome) String() string { return outcomes[o] }

// OfProgram reports whether the program itself is at fault: its next try begins anew, whatever a checkpoint kept.
func (o Outcome) OfProgram() bool {
	return o == ExitCode || o == OutOfMemory || o == TimedOut || o == OutputMissing
}

// Outcomes lists every class.
func Outcomes() []Outcome {
	return []Outcome{OK, ExitCode, OutOfMemory, TimedOut, Killed, Preempted, Lost, HostError, OutputMissing}
}

// Usage is what was measured of one attempt. Instants are on the axis of the run; unit.Never marks one that was not reached.
type Usage struct {
	Queued  Time // ordered by the planner
	Staged  Time // inputs in place
	Created Time // container created
	Started Time // program running
	Ended   Time

	CPUUser      time.Duration
	CPUSystem    time.Duration
	CPUThrottled time.Duration
	PeakMemory   unit.Bytes
	ReadBytes    unit.Bytes
	WrittenBytes unit.Bytes
	ReadOps      int64
	WriteOps     int64
	InputBytes   unit.Bytes // of all inputs
	CopiedBytes  unit.Bytes // of those that were copied from other nodes for this attempt, ahead of it or within it
	MovedBytes   unit.Bytes // its checkpoint, and the outputs written before that, copied from another node
	OOMKills     int64
	Missing      Counters // counters that could not be read: unknown, not zero
	Applied      Limits   // read back from the kernel; a zero field was not applied or not readable
}

// Counters is a set of measured quantities.
type Counters uint8

const (
	CounterCPU Counters = 1 << iota
	CounterMemory
	CounterIO
	CounterThrottled
)

// Limits are what holds an attempt back, as the kernel applies them. Zero is no limit.
type Limits struct {
	CPUMillicores int64 // quota, speed factor included
	Memory        unit.Bytes
	MemorySwap    unit.Bytes // memory and swap together
	PIDs          int64
	ReadBps       unit.BytesPerSecond
	WriteBps      unit.BytesPerSecond
	ReadIOPS      int64
	WriteIOPS     int64
}

// Estimate is what a policy believes of a run: the start of a container included.
type Estimate struct {
	Run     time.Duration // mean on the node in question
	Spread  time.Duration // standard deviation; 0 if not known
	Samples int32         // what it rests on; 0 for a declared value
	Source  Source
}

// Source is where an estimate comes from. The numbers are part of the log's format.
type Source uint8

const (
	SourceDeclared Source = iota + 1
	SourceHistory
	SourceTrained
	SourceOracle
	SourceDefault   // nothing was known: the stated default
	SourceErroneous // declared, made wrong on purpose by an error model
	SourceCorrected // declared, times a correction learned from completed tasks
)

func (s Source) String() string {
	return [...]string{"", "declared", "history", "trained", "oracle", "default", "erroneous", "corrected"}[s]
}

// ReasonCode is why a task does not start now. The numbers are part of the log's format.
type ReasonCode uint8

const (
	WaitsForParents ReasonCode = iota + 1
	WaitsForFiles
	NoNodeFree   // no node has enough of Dim free now
	PlannedLater // it has a place at a later time
	Outranked    // what is free is kept for tasks before it
	Draining     // gantry starts nothing more
	NotYetReleased
	Unplaced // the policy gave it no place in this round
)

var reasonCodes = [...]string{"", "waits-for-parents", "waits-for-files", "no-node-free", "planned-later", "outranked", "draining", "not-yet-released", "unplaced"}

func (c ReasonCode) String() string { return reasonCodes[c] }

// Reason is a code and what it is about.
type Reason struct {
	Code ReasonCode
	Dim  unit.Dim // NoNodeFree: the dimension that is short
	Node NodeID   // PlannedLater: where
	At   Time     // PlannedLater, NotYetReleased: when
}
