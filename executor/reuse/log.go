package reuse

import (
	"context"
	"time"

	"gantry/executor"
	"gantry/planner"
)

// Content is a file of a run as it was when it came to a node.
type Content struct {
	File    planner.FileID
	Node    planner.NodeID
	Place   string // name of the node, where it is not of this run
	Stamp   Stamp
	Sum     *Sum // nil: it was not hashed
	Removed bool // by gantry
}

// Candidate is an earlier attempt that ended well, of a task that is alike but for its image and its inputs.
type Candidate struct {
	RunID, Workflow int64
	Run, Flow       string // names of its run and its workflow
	Task            planner.TaskID
	Attempt         planner.AttemptID
	Ran             int64  // nanoseconds
	From            string // the run in which the attempt was; "" if that is Run
	Image           string // ID of the image; "" if none was logged
}

// Log is the part of the log that the reuse of results needs.
type Log interface {
	Memory
	// Candidates returns the latest attempts with that identity.
	Candidates(ctx context.Context, identity []byte, most int) ([]Candidate, error)
	// ContentsOf returns the known files of a workflow, by name on the node.
	ContentsOf(ctx context.Context, run, workflow int64) (map[string]Content, error)
	// Hashed keeps the hash of a file of a run.
	Hashed(run int64, f planner.FileID, sum Sum) error
	// Forerunner returns the latest task of that name that succeeded, in a workflow of that label, and when its run
	// began; nil if none did.
	Forerunner(ctx context.Context, label, task string) (run string, began time.Time, spec *executor.TaskSpec,
		err error)
}

// Run is the log of the run at hand.
type Run interface {
	Known(ctx context.Context, f planner.FileID) (c Content, ok bool, err error)
	Contents(rows ...Content)
	// Identity keeps the identity of the results of a task that sees more of this host than its files.
	Identity(t planner.TaskID, identity Sum)
	NotReused(t planner.TaskID, at planner.Time, reason string) error
}
