// Package executor runs workflows: one engine over a Runtime (container, sim, null) and a Store. Everything a policy
// decides comes from package planner; everything that really happens comes back as events.
package executor

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
)

// Clock has the time of a run. Real clocks measure from the wall-clock start of the run, also after it was resumed:
// time without any gantry is part of the run, as containers ran on.
type Clock interface{ Now() planner.Time }

// Runtime runs attempts. All calls come from the engine's goroutine. Orders return at once and are idempotent; their
// outcome comes from Next.
type Runtime interface {
	Clock
	// Start begins an attempt: copies in, container, program. An error means that nothing was begun.
	Start(ctx context.Context, l Launch) error
	// Copy brings a file to a node ahead of its consumer; FileAppeared follows.
	Copy(ctx context.Context, c Copy) error
	// Suspend freezes a running attempt; AttemptSuspended (or AttemptExited, if it was quicker) follows.
	Suspend(ctx context.Context, a planner.AttemptID) error
	// Resume thaws a suspended attempt; AttemptResumed follows.
	Resume(ctx context.Context, a planner.AttemptID) error
	// Kill ends an attempt; AttemptExited with outcome why follows, unless it ended by itself first. With grace the
	// program gets SIGTERM first and SIGKILL after it.
	Kill(ctx context.Context, a planner.AttemptID, why planner.Outcome, grace time.Duration) error
	// Checkpoint ends an attempt with outcome preempted, its progress kept: AttemptExited says how much was, unless the
	// program ended by itself first. A program that leaves no checkpoint within the grace is killed, and its work since
	// its start is lost.
	Checkpoint(ctx context.Context, a planner.AttemptID, grace time.Duration) error
	// Forget says that the end of the attempt is durably logged: the runtime may remove all that is left of it.
	Forget(ctx context.Context, a planner.AttemptID) error
	// Next waits until something happened or the clock reads until, and returns the events, completions first. It is
	// the only call that lets time pass: the simulation jumps, docker sleeps. An empty result means that the time has
	// come. It returns ctx's error at once when ctx is cancelled.
	Next(ctx context.Context, until planner.Time) ([]planner.Body, error)
	// Close releases the runtime's own resources. It does not end attempts.
	Close() error
}

// Recoverer is a Runtime whose attempts outlive gantry. Recover is called once, before any order, with the attempts
// that the log shows as not ended: those still there are adopted, ended ones are harvested, and the rest ends as lost;
// all of it comes from Next. All else of this run on the host is removed.
type Recoverer interface {
	Recover(ctx context.Context, live []Launch) error
}

// Beginner is a Runtime whose clock can be set, before anything is started: at is the instant that Offset, or 0, was.
// The time to open a runtime and to create its log is then no part of a run.
type Beginner interface{ Begin(at time.Time) }

// Instant is a Runtime whose Next may never keep anybody waiting, as that of a simulation: nothing has to watch it.
type Instant interface{ Instant() bool }

// Spender is a Runtime in virtual time that can be told that planning took time, too. Its clock moves on by d; events
// meanwhile come from the next Next, and carry the times at which they happened.
type Spender interface{ Spend(d time.Duration) }

// Milestone is an instant in the life of an attempt. A runtime reports each for measurements.
type Milestone uint8

const (
	Placed   Milestone = iota // it holds one of the places for starts
	Created                   // its container is there
	Answered                  // the request to start was answered: its place is free
	Known                     // the runtime knows that the program ended
	Removed                   // nothing is left of container and control group
)

// Launch is an order to start, with all that a runtime needs to know.
type Launch struct {
	Attempt planner.AttemptID
	Task    planner.TaskID
	Try     int32 // 1 for the first attempt of the task
	Node    planner.NodeID
	Hold    unit.Vector // resources that it may use; the limits are derived from it
	GPUs    planner.Devices
	Queued  planner.Time // when it was ordered
	Fetch   []Fetch      // inputs not on Node yet: copied within the attempt, before the program starts
	From    *Checkpoint  // checkpoint that the program continues from; nil if it starts again
	Ahead   unit.Bytes   // inputs that were copied to Node for this attempt beforehand
	Keeps   *Keeping     // checkpoint that the program leaves on request; nil if it can leave none
	Spec    *TaskSpec

	// Of Recover only: the state in the log.
	Started   bool           // AttemptStarted
	Suspended bool           // AttemptSuspended, and no end of that
	Since     planner.Time   // when it was suspended
	Paused    time.Duration  // how long earlier suspensions lasted
	Leaving   planner.Vacate // how it was ordered to leave its place, and nothing was heard of that; 0 if it was not
}

// Keeping is a checkpoint that a program leaves on request.
type Keeping struct{ Size unit.Bytes }

// Checkpoint is a checkpoint that an earlier attempt of a task left.
type Checkpoint struct {
	Try  int32          // that left it
	Node planner.NodeID // where it lies
	Done float64        // fraction of the whole task that it has
	In   time.Duration  // how long the task has run until then; a time limit counts it
	Size unit.Bytes     // bytes to copy to another node
}

// Fetch is an input that has to come from another node.
type Fetch struct {
	File planner.FileID
	Spec *FileSpec
	From planner.NodeID
}

// Copy is an order to bring a file to a node.
type Copy struct {
	File     planner.FileID
	Spec     *FileSpec
	Workflow *WorkflowSpec
	From, To planner.NodeID
}

// TaskSpec is the truth of a task. The planner never sees it.
type TaskSpec struct {
	Workflow *WorkflowSpec
	Name     string // the trace's task id, unique within the workflow
	Kind     string
	// Command is argv; with Shell a script and the words of its shell, none: /bin/sh; empty: the task emulator runs.
	Command   []string
	Mounts    []string // as ParseMount reads them
	Image     string
	Env       []string
	Stdin     string // logical file names
	Stdout    string
	Stderr    string
	Inputs    []*FileSpec
	Outputs   []*FileSpec
	Renames   []trace.Rename  // files that have another name in the directory of the task
	TimeLimit time.Duration   // wall time; 0: none
	DiskLimit int64           // bytes that its work directory may take; 0: none but that of the run
	Cores     int64           // threads of the emulator
	AvgCPU    float64         // percent of one core; 0: not known, taken as 100 per core
	Memory    unit.Bytes      // memory that the emulator touches; 0: none
	Declares  unit.Bytes      // of memory, where the planner's task needs another amount by a prediction; 0: none
	Reads     unit.Bytes      // the sizes of its inputs, as of the planner's task
	Declared  time.Duration   // declared runtime on a node of speed 1, time scale applied; 0: as Run
	Run       time.Duration   // true runtime on a node of speed 1, time scale applied
	RunOn     []time.Duration // true runtime by node, where the workload gives a cost matrix; else nil
	Overhead  time.Duration   // before and after Run on an ideal machine of any speed, time scale applied
	Unknown   bool            // a program of whose runtime the trace has nothing, nor of that of others of its type
	Shell     bool
	Expand    bool // Command is a program and the text of its arguments, which are parsed as bash does
	Network   bool
	Repeats   bool // its user wants further tries, though it may change directories of the host
}

// FileSpec is the truth of a file. A large workflow has many: members stand in an order that takes little memory.
type FileSpec struct {
	Name     string // as the trace says; never a path to be trusted
	External string // path on the host of a file from outside; "" if it is to be made up or is produced
	Program  string // name under which tasks find a program; "" for data
	// Homes are the nodes that have a file from outside when its workflow arrives; nil: all.
	Homes    []planner.NodeID
	Size     unit.Bytes // size scale applied
	Modified int64      // of External when it was found, nanoseconds since 1970; 0: not known
	// A large file from outside that is not on all nodes is split: Block, from 0, of Blocks. Then Size is the block's,
	// and in the External file it reaches from From to To; To 0 is its end. Tasks see the whole under Name. Blocks 0:
	// it is not split.
	From, To      unit.Bytes
	Block, Blocks int32
	ID            planner.FileID
	Sized         bool
	Produced      bool // it is not there until a task wrote it
	Final         bool // a result: no task reads it, or the trace says so
	Checkpoint    bool // it survives a retry
	Optional      bool // it need not be written
	Glob          bool // Name is a pattern: the files that its program left and that match it are one output
}

// GlobDir is the directory of files that globs matched, on nodes and in work directories; tasks cannot use the name.
const GlobDir = ".command.globs"

// NodePath is where a file lies on a node, below the directory of its workflow.
func (f *FileSpec) NodePath() string {
	if f.Glob {
		return GlobDir + "/" + EscapeName(f.Name)
	}
	return f.NodeName()
}

// NodeName is the name of a file, or of the block that it is, on a node and in the log.
func (f *FileSpec) NodeName() string {
	if f.Blocks == 0 {
		return f.Name
	}
	return fmt.Sprintf("%s.block-%04d", f.Name, f.Block)
}

// WorkflowSpec is the part that the tasks of one workflow share.
type WorkflowSpec struct {
	ID    planner.WorkflowID
	Name  string // unique within the run and safe as a file name
	Label string
	By    *User // owner of its files, and user of its programs; nil: the user of gantry
	// Results are patterns: those parts of outputs that they match are results.
	Results []string `json:",omitzero"`
}

// IsResult reports whether a part of an output is a result, by itself or in a directory that is one.
func (w *WorkflowSpec) IsResult(name string) bool {
	for ; name != "." && name != "/"; name = path.Dir(name) {
		if slices.ContainsFunc(w.Results, func(pattern string) bool { return trace.Matches(pattern, name) }) {
			return true
		}
	}
	return false
}

// TrueRun returns the runtime of t on node n of the given speed.
func (t *TaskSpec) TrueRun(n planner.NodeID, speed float64) time.Duration {
	if t.RunOn != nil {
		return t.RunOn[n]
	}
	return unit.AtSpeed(t.Run, speed)
}

// EndsFirst orders the events of one instant: ends of attempts, each after the earlier events of its attempt, then
// copies, then all others.
func EndsFirst(events []planner.Body) []planner.Body {
	ended := map[planner.AttemptID]bool{}
	for _, e := range events {
		if x, ok := e.(*planner.AttemptExited); ok {
			ended[x.Attempt] = true
		}
	}
	rank := func(e planner.Body) int {
		var of planner.AttemptID
		switch x := e.(type) {
		case *planner.AttemptExited:
			return 0
		case planner.AttemptStarted:
			of = x.Attempt
		case planner.AttemptSuspended:
			of = x.Attempt
		case planner.AttemptResumed:
			of = x.Attempt
		default:
			return 1
		}
		if ended[of] {
			return 0
		}
		return 2
	}
	if len(ended) > 0 { // else they stay as they came
		slices.SortStableFunc(events, func(a, b planner.Body) int { return cmp.Compare(rank(a), rank(b)) })
	}
	return events
}
