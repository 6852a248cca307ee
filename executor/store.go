package executor

import (
	"context"

	"gantry/planner"
	"gantry/trace"
	"gantry/trace/scenario"
)

// Store keeps the log of a run.
type Store interface {
	// Append makes a batch durable: when it returns, a crash of gantry or of the host loses none of it. Batches of one
	// run come from one goroutine, with dense sequence numbers.
	Append(ctx context.Context, b Batch) error
}

// Batch is the record of one turn of the engine's loop, kept in one transaction.
type Batch struct {
	Events     []planner.Event
	Admissions []*Admission // of the WorkflowArrived and WorkflowGrown events in Events, in the same order
	Settled    []Settled    // submissions that will not arrive
	// Failed are workflows that have ended by it, and not well: their remaining tasks never start.
	Failed []planner.WorkflowID
}

// How a submission was settled that never arrives.
const (
	SettledRefused   = "refused"
	SettledCancelled = "cancelled"

	OnRequest = "withdrawn with gantry cancel or scancel" // why something was cancelled that nothing was wrong with
)

// Settled is a submission, by the id that it was acknowledged with, that will not arrive.
type Settled struct {
	ID             int64
	At             planner.Time
	State, Message string // SettledRefused and why, or SettledCancelled
	By             *int   // the user that cancelled it; nil: nobody did
}

// Admission is a workflow as it was admitted: the trace it came from, and its tasks and files. Of tasks that are added
// to a workflow (see Grown) it has only the new ones.
type Admission struct {
	Submission Submission
	Arrived    planner.WorkflowArrived
	Spec       *WorkflowSpec
	Tasks      []*TaskSpec // by position in the trace; Arrived.Tasks has the same order
	Files      []*FileSpec
	Kinds      []string // names of kinds this admission introduced, ids continuing
}

// large reports whether its trace takes much memory.
func (a *Admission) large() bool { return len(a.Tasks) > 2000 }

// delay lets a workflow of a closed system arrive at now.
func (s *Submission) delay(now planner.Time) {
	late := now.Sub(s.At)
	if s.Population == 0 || late <= 0 {
		return
	}
	s.At = now
	for _, t := range []*planner.Time{&s.Release, &s.Due} {
		if *t > 0 { // 0 is none
			*t = t.Add(late)
		}
	}
}

// Submission is a workflow and how it was handed in.
type Submission struct {
	// ID is the number by which it was acknowledged to its submitter while the run was under way; 0: it was there when
	// the run began.
	ID       int64        `json:"-"`
	At       planner.Time // arrival
	Workflow *trace.Workflow
	// Draw, if set, makes Workflow and Costs, which are not there before; each time the same. A long stream is mostly
	// workflows that are still to come, or have been.
	Draw func(*Submission) error `json:"-"`
	// Next, if set, makes the submission that comes after it, no earlier, each time the same: those of an archive
	// follow one after the other.
	Next    func() *Submission `json:"-"`
	Name    string             // unique within the run, safe as a file name
	Tenant  string
	Class   planner.Class
	Release planner.Time
	Due     planner.Time
	// RejectLate has a policy that plans deadlines refuse it if its own cannot be met.
	RejectLate bool `json:",omitzero"`
	// Population, if above 0, lets the workflow arrive only while fewer are in the system; its times are then counted
	// from that instant as they were from At: arrivals of a closed system.
	Population int      `json:",omitzero"`
	Inputs     string   // directory of the files from outside, "" if they are made up
	Dirs       []string // further such directories, tried after it
	// Sources is where the files from outside were found, by position in the trace; nil: they were not looked for.
	Sources []Source
	// Data says which nodes have the files from outside; nil: all nodes have all.
	Data *Placement
	// Preempt says how its tasks may be preempted; nil: as the Admitter says.
	Preempt *scenario.Preempt
	// Grows, if set, says that the tasks are added to a workflow that is there; nil: they are one of their own.
	Grows *Growth `json:"-"`
	// Joins, if set, says that the submission is a single task of a workflow that grows.
	Joins *Join `json:"-"`
	// By is the user whose rights count; nil: the user of gantry. Only a server of several users sets it.
	By *User `json:",omitzero"`
	// Costs gives the runtime of each task (outer, by position in the trace) on each node (inner, by node); nil where
	// there is none.
	Costs [][]int64 // nanoseconds
}

// Source is where a file from outside was found before the run.
type Source struct {
	Path     string // absolute, on this host; "" if the file is to be made up
	URL      string // where it was fetched from; "" if it was here
	Size     int64  // bytes
	Modified int64  // nanoseconds since 1970
	SHA256   string // in hex, if a catalog gives the expected one
}

// Make draws Workflow and Costs if they are left to be drawn.
func (s *Submission) Make() error {
	if s.Draw == nil {
		return nil
	}
	draw := s.Draw
	s.Draw = nil
	return draw(s)
}
