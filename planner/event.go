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

// Body is the fact itself: one of the types below, and no other. The large ones (workflow arrived or grown, attempt
// exited, plan committed) travel as pointers and are never changed once numbered. The json tags name members in the
// log: add, never rename. The member without a name is the subject of the event, which has a column there.
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
	KindWorkflowContinued
	KindTaskReused
	KindWorkflowGrown
	KindPolicyChanged
	KindTaskCancelled
)

var eventKinds = [...]string{"", "workflow-arrived", "attempt-started", "attempt-suspended", "attempt-resumed",
	"attempt-exited",
	"file-appeared", "node-changed", "woke", "plan-committed", "workflow-cancelled",
	"workflow-continued", "task-reused", "workflow-grown", "policy-changed", "task-cancelled"}

func (k EventKind) String() string { return eventKinds[k] }

type (
	// WorkflowArrived admits a workflow. Its ids continue those of the state.
	WorkflowArrived struct {
		Workflow Workflow
		Tasks    []Task
		Files    []File
	}
	// WorkflowGrown adds a task to a workflow that has not ended. Its id continues those of the state. Parents are
	// earlier tasks of the workflow that have not failed, ended ones included. It is no formal task and has no files.
	WorkflowGrown struct {
		Workflow WorkflowID
		Task     Task
	}
	// AttemptStarted says that the inputs are in place and the program runs.
	AttemptStarted struct {
		Attempt AttemptID `json:"-"`
	}
	// AttemptSuspended says that the attempt makes no progress and holds only the resources that its node keeps for it.
	AttemptSuspended struct {
		Attempt AttemptID `json:"-"`
	}
	// AttemptResumed ends a suspension.
	AttemptResumed struct {
		Attempt AttemptID `json:"-"`
	}
	// AttemptExited ends an attempt, in any way.
	AttemptExited struct {
		Attempt  AttemptID     `json:"-"`
		Outcome  Outcome       `json:"outcome"`
		ExitCode int           `json:"exit_code"` // of the program; -1 if it has none
		Ran      time.Duration `json:"ran_ns"`    // from AttemptStarted to the end, suspensions not counted
		// Kept is the fraction of the whole task, [0, 1], that the checkpoint taken at the end has: that of earlier
		// attempts included. 0 if none was taken.
		Kept float64 `json:"kept"`
		// Final says that another attempt would end alike, or would repeat finished work, so that there is none.
		Final   bool   `json:"final"`
		Usage   Usage  `json:"usage"`
		Message string `json:"message"` // UTF-8: evidence for a person; "" if all went well
	}
	// FileAppeared says that a copy of a file is complete on a node.
	FileAppeared struct {
		File FileID `json:"-"`
		Node NodeID `json:"node"`
	}
	// NodeChanged gives a node a new capacity; zero if it was lost.
	NodeChanged struct {
		Node     NodeID      `json:"-"`
		Capacity unit.Vector `json:"capacity"`
		// Shrinks says that the node is to have To in the end: Capacity includes the holds until they end.
		Shrinks bool        `json:"shrinks"`
		To      unit.Vector `json:"to"`
	}
	// Woke is a timer that a policy asked for, or the start of a planned segment.
	Woke struct{}
	// PlanCommitted is the outcome of one round: the orders, why other tasks wait, and further notes of the policy.
	PlanCommitted struct {
		Round   int64         `json:"-"`
		Took    time.Duration `json:"took_ns"` // of the policy, by the wall clock; outside the decisions
		Orders  []Order       `json:"orders"`
		Reasons []Wait        `json:"waits"`
		Notes   []Note        `json:"notes"`
	}
	// WorkflowCancelled withdraws the tasks of a workflow that have not started.
	WorkflowCancelled struct {
		Workflow WorkflowID `json:"-"`
	}
	// TaskCancelled withdraws a task: it starts no more, and is not tried again.
	TaskCancelled struct {
		Task TaskID `json:"-"`
	}
	// WorkflowContinued says that a workflow that arrived at this instant, and of which nothing has happened, takes the
	// place of one that has ended: the same one again, or a corrected one.
	WorkflowContinued struct {
		Workflow WorkflowID `json:"-"`
		Of       WorkflowID `json:"of"`
		// Tries has for each task, by position, how many attempts at it there were: those to come are numbered from
		// there on, and count for no limit.
		Tries []int32 `json:"tries"`
	}
	// TaskReused ends a ready task without an attempt: it takes over the outputs of an earlier attempt, which lie on
	// Node.
	TaskReused struct {
		Task TaskID `json:"-"`
		Node NodeID `json:"node"` // None if it writes no file
		// Attempt is the earlier one, and Run the name of its run; "" for this run, whose workflow was continued.
		Attempt AttemptID     `json:"attempt"`
		Run     string        `json:"run"`
		Ran     time.Duration `json:"ran_ns"` // the runtime of the program then
	}
	// PolicyChanged says that another policy plans from now on. It has been told all that happened before.
	PolicyChanged struct {
		Policy string `json:"policy"` // its name, with parameters
	}
)

func (*WorkflowArrived) Kind() EventKind   { return KindWorkflowArrived }
func (*WorkflowGrown) Kind() EventKind     { return KindWorkflowGrown }
func (AttemptStarted) Kind() EventKind     { return KindAttemptStarted }
func (AttemptSuspended) Kind() EventKind   { return KindAttemptSuspended }
func (AttemptResumed) Kind() EventKind     { return KindAttemptResumed }
func (*AttemptExited) Kind() EventKind     { return KindAttemptExited }
func (FileAppeared) Kind() EventKind       { return KindFileAppeared }
func (NodeChanged) Kind() EventKind        { return KindNodeChanged }
func (Woke) Kind() EventKind               { return KindWoke }
func (*PlanCommitted) Kind() EventKind     { return KindPlanCommitted }
func (WorkflowCancelled) Kind() EventKind  { return KindWorkflowCancelled }
func (TaskCancelled) Kind() EventKind      { return KindTaskCancelled }
func (*WorkflowContinued) Kind() EventKind { return KindWorkflowContinued }
func (*TaskReused) Kind() EventKind        { return KindTaskReused }
func (PolicyChanged) Kind() EventKind      { return KindPolicyChanged }

// OrderKind is the action that an order asks of the runtime.
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

// Order is derived from the difference between the draft and the running tasks; no policy issues one. The log has an
// order and a wait as their numbers, in this order: append, never move.
type Order struct {
	Kind    OrderKind
	Attempt AttemptID // start: the new attempt; suspend, resume, kill, checkpoint: the attempt meant
	Task    TaskID
	Node    NodeID
	Try     int32 // start: 1 for the first attempt of the task
	Hold    unit.Vector
	Until   Time     // start: the planned end
	Est     Estimate // start: the policy's estimate, kept to be compared with the measurement
	File    FileID   // copy
	From    NodeID   // copy
	GPUs    Devices  // start: those of its node that it holds, or a part of one, until it ends
}

// Wait says why a task does not start now.
type Wait struct {
	Task   TaskID
	Reason Reason
}

// Topics of notes that mean the same under every policy.
const (
	// when a workflow that arrived is to be completed by the plan made then; the text says how that is to its deadline
	TopicPredicted = "predicted"
	TopicRefused   = "refused" // a workflow that arrived cannot meet its deadline and is withdrawn; see Refuser
	// how many reservations a search resource by resource looks at to map a workflow that arrived: the text; see
	// SearchCounter
	TopicSearched = "searched"
)

// Note is a remark of a policy for people beyond orders and reasons: a choice, a promise, an attempt that failed. It
// changes nothing.
type Note struct {
	Topic    string     `json:"topic"`    // a stable short name, documented with the policy
	Workflow WorkflowID `json:"workflow"` // None: it is about no one workflow
	Task     TaskID     `json:"task"`     // None: it is about no one task
	At       Time       `json:"at_ns"`    // the instant it is about; unit.Never: none
	Text     string     `json:"text"`
}

// Outcome is how an attempt ended: a class, not an exit code. The numbers are part of the log's format.
type Outcome uint8

const (
	OK            Outcome = iota + 1
	ExitCode              // the program returned another code than 0
	OutOfMemory           // the kernel's counters show an out-of-memory kill
	TimedOut              // the wall limit of the task
	Killed                // by a signal from outside gantry
	Preempted             // gantry took its place away; its work is lost except for a checkpoint
	Lost                  // its fate is unknown (host or gantry died)
	HostError             // the host or Docker could not run it
	OutputMissing         // it returned 0 but a declared output is not there
	OutOfDisk             // its work directory grew beyond the limit of the task
)

var outcomes = [...]string{"", "ok", "exit-code", "out-of-memory", "timed-out", "killed", "preempted", "lost",
	"host-error", "output-missing",
	"out-of-disk"}

func (o Outcome) String() string { return outcomes[o] }

const lastOutcome = OutOfDisk

// OfProgram reports whether the program itself is at fault: its next try starts again, in spite of any checkpoint.
func (o Outcome) OfProgram() bool {
	return o == ExitCode || o == OutOfMemory || o == TimedOut || o == OutputMissing || o == OutOfDisk
}

// Outcomes lists every class.
func Outcomes() []Outcome {
	return []Outcome{OK, ExitCode, OutOfMemory, TimedOut, Killed, Preempted, Lost, HostError, OutputMissing, OutOfDisk}
}

// Usage holds the measurements of one attempt. Instants are on the axis of the run; unit.Never marks one that was not
// reached.
//
// A member is a counter of the log: its json tag names it in event bodies and names its column in table attempts. The
// tag missing names the flag of Missing that makes the column NULL. A counter without this tag is always known, unless
// it is a pointer: nil makes the column NULL. To add a counter, add a member here.
type Usage struct {
	Queued  Time `json:"queued_ns"`  // ordered by the planner
	Staged  Time `json:"staged_ns"`  // inputs in place
	Created Time `json:"created_ns"` // container created
	Started Time `json:"started_ns"` // program running
	Ended   Time `json:"ended_ns"`

	CPUUser      time.Duration `json:"cpu_user_ns" missing:"cpu"`
	CPUSystem    time.Duration `json:"cpu_system_ns" missing:"cpu"`
	CPUThrottled time.Duration `json:"cpu_throttled_ns" missing:"throttled"`
	PeakMemory   unit.Bytes    `json:"peak_memory_bytes" missing:"memory"`
	ReadBytes    unit.Bytes    `json:"read_bytes" missing:"io"`
	WrittenBytes unit.Bytes    `json:"written_bytes" missing:"io"`
	ReadOps      int64         `json:"read_ops" missing:"io"`
	WriteOps     int64         `json:"write_ops" missing:"io"`
	InputBytes   unit.Bytes    `json:"input_bytes"` // of all inputs
	// of those that were copied from other nodes for this attempt, ahead of it or within it
	CopiedBytes unit.Bytes `json:"copied_bytes"`
	// its checkpoint, and the outputs written before that, copied from another node
	MovedBytes   unit.Bytes `json:"moved_bytes"`
	OOMKills     int64      `json:"oom_kills"`
	DroppedBytes unit.Bytes `json:"dropped_bytes"` // of standard output and error, beyond the kept part of each
	Signal       int64      `json:"signal"`        // that ended the program; 0: none did, or nobody knows
	// of all its GPUs together: the time in which kernels ran, and the most memory that was used
	GPUTime       *time.Duration `json:"gpu_ns"`
	PeakGPUMemory *unit.Bytes    `json:"peak_gpu_memory_bytes"`
	Missing       Counters       `json:"missing"` // counters that could not be read: unknown, not zero
	// read back from the kernel; a zero field was not applied or not readable
	Applied Limits `json:"applied"`
}

// Counters is a set of measured quantities.
type Counters uint8

const (
	CounterCPU Counters = 1 << iota
	CounterMemory
	CounterIO
	CounterThrottled

	// CountersAll is every group of counters.
	CountersAll Counters = 1<<iota - 1
)

// CounterNames are the groups as the tag missing of Usage names them, from the lowest flag on.
var CounterNames = []string{"cpu", "memory", "io", "throttled"}

// Limits are the bounds of an attempt, as the kernel applies them. Zero is no limit. Their columns in the log begin
// with applied_.
type Limits struct {
	CPUMillicores int64               `json:"cpu_millicores"` // quota, speed factor included
	Memory        unit.Bytes          `json:"memory_bytes"`
	MemorySwap    unit.Bytes          `json:"memory_swap_bytes"` // memory and swap together
	PIDs          int64               `json:"pids"`
	ReadBps       unit.BytesPerSecond `json:"read_bps"`
	WriteBps      unit.BytesPerSecond `json:"write_bps"`
	ReadIOPS      int64               `json:"read_iops"`
	WriteIOPS     int64               `json:"write_iops"`
}

// Estimate is the estimate of a run for a policy: the start of a container included.
type Estimate struct {
	Run     time.Duration // mean on the node in question
	Source  Source
	Spread  time.Duration // standard deviation; 0 if not known
	Samples int32         // number of samples it rests on; 0 for a declared value
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
	SourceLearned   // a model that learns during the run
)

func (s Source) String() string {
	return [...]string{"", "declared", "history", "trained", "oracle", "default", "erroneous", "corrected",
		"learned"}[s]
}

// ReasonCode is why a task does not start now. The numbers are part of the log's format.
type ReasonCode uint8

const (
	WaitsForParents ReasonCode = iota + 1
	WaitsForFiles
	NoNodeFree   // no node has enough of Dim free now
	PlannedLater // it has a place at a later time
	Outranked    // the free resources are kept for tasks before it
	Draining     // gantry starts nothing more
	NotYetReleased
	Unplaced   // the policy gave it no place in this round
	_          // of earlier builds
	NoNode     // no node can ever hold it as nodes are now: those that could are drained, cut down or gone
	TokensHeld // others hold the tokens that it needs
)

var reasonCodes = [...]string{"", "waits-for-parents", "waits-for-files", "no-node-free", "planned-later", "outranked",
	"draining", "not-yet-released", "unplaced", "", "no-node",
	"tokens-held"}

func (c ReasonCode) String() string { return reasonCodes[c] }

// Reason is a code and its details.
type Reason struct {
	Code ReasonCode
	Dim  unit.Dim // NoNodeFree: the dimension that is short
	Node NodeID   // PlannedLater: where
	At   Time     // PlannedLater, NotYetReleased: when
}
