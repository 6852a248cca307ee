// Package calibrate measures a host through a runtime of containers: the time to start, run and end them, and whether
// the task emulator does its work as asked. It runs emulated tasks with the limits, the files and the code of real
// runs.
package calibrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"gantry/executor"
	"gantry/executor/emulate"
	"gantry/planner"
	"gantry/planner/unit"
)

// Lab runs emulated tasks on a runtime.
type Lab struct {
	Runtime executor.Runtime
	Dir     string // the run directory of Runtime
	// Commit, if set, makes a transaction of a log durable: a run writes one before it carries out orders.
	Commit func(context.Context) error

	wf     executor.WorkflowSpec
	trials []*state   // by attempt
	mu     sync.Mutex // of their marks
}

// state is how a trial goes.
type state struct {
	begun    bool
	end      *planner.AttemptExited // nil while it runs
	reported planner.Time           // when that was
	marks    map[executor.Milestone]Mark
}

// Mark is when a milestone was reached, and the CPU time that the host had used until then.
type Mark struct {
	At  planner.Time
	CPU time.Duration
}

// Trial is one emulated task.
type Trial struct {
	Node     planner.NodeID
	Run      time.Duration
	CPU      float64 // percent of a core, on average
	Limit    int64   // millicores; 0: as many as CPU needs
	Resident unit.Bytes
	Rate     int64 // limit of block I/O, bytes per second; 0: none
	Reads    []unit.Bytes
	Writes   []unit.Bytes
	Fetch    []unit.Bytes // inputs that come from node 1, where trial Wrote has written them
	Wrote    planner.AttemptID
	Shared   string // trials of the same name read the same inputs; "": each has its own
}

// Result is how a trial went. Times are on the axis of the runtime.
type Result struct {
	planner.Usage
	ID       planner.AttemptID
	Outcome  planner.Outcome
	Message  string
	Ran      time.Duration
	Reported planner.Time // when the end of it was
	Report   *emulate.Report
	Marks    map[executor.Milestone]Mark
}

// CPUTime is the CPU time that the kernel counted.
func (r *Result) CPUTime() time.Duration { return r.CPUUser + r.CPUSystem }

// Mark notes a milestone. A runtime gets it as its function for milestones.
func (l *Lab) Mark(a planner.AttemptID, m executor.Milestone) {
	mark := Mark{l.Runtime.Now(), HostCPU()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trials[a].marks[m] = mark
}

// left reports whether a container of some trials is not removed yet.
func (l *Lab) left(trials ...*state) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(trials, func(t *state) bool {
		_, removed := t.marks[executor.Removed]
		return len(t.marks) > 0 && !removed
	})
}

const room = 48 << 20 // memory of a task beyond the amount that it is to hold

// firstOutput is the position of the first output among the files of a trial.
const firstOutput = 50

func fileOf(id planner.AttemptID, i int) planner.FileID { return planner.FileID(int(id)*100 + i) }

func outputOf(id planner.AttemptID, i int) string { return fmt.Sprintf("out%d-%d", id, i) }

func (l *Lab) spec(t Trial, id planner.AttemptID) (*executor.TaskSpec, unit.Vector, []executor.Fetch) {
	threads := max(1, int64(t.CPU+99.999)/100) // as many as CPU needs
	limit, memory := cmp.Or(t.Limit, threads*1000), t.Resident+room
	s := &executor.TaskSpec{Workflow: &l.wf, Name: "t" + strconv.Itoa(int(id)), Kind: "lab", Cores: threads,
		AvgCPU: max(t.CPU, 1e-9), Memory: t.Resident, Run: t.Run}
	file := func(kind string, i int, size unit.Bytes) *executor.FileSpec {
		name := fmt.Sprintf("%s%d-%d", kind, id, i)
		if t.Shared != "" && kind == "in" {
			name = fmt.Sprintf("%s-%s-%d", kind, t.Shared, i)
		}
		return &executor.FileSpec{ID: fileOf(id, i), Name: name, Size: size, Sized: true}
	}
	var fetch []executor.Fetch
	for i, n := range t.Fetch {
		f := &executor.FileSpec{ID: fileOf(t.Wrote, firstOutput+i), Name: outputOf(t.Wrote, i), Size: n, Sized: true,
			Produced: true}
		s.Inputs = append(s.Inputs, f)
		fetch = append(fetch, executor.Fetch{File: f.ID, Spec: f, From: 1})
	}
	for _, n := range t.Reads {
		s.Inputs = append(s.Inputs, file("in", len(s.Inputs), n))
	}
	for i, n := range t.Writes {
		s.Outputs = append(s.Outputs, &executor.FileSpec{ID: fileOf(id, firstOutput+i), Name: outputOf(id, i), Size: n,
			Sized: true, Produced: true})
	}
	hold := unit.Vector{unit.CPU: limit, unit.Memory: int64(memory)}
	if t.Rate > 0 {
		hold[unit.Disk] = t.Rate
	}
	return s, hold, fetch
}

// Start begins trials at the same instant.
func (l *Lab) Start(ctx context.Context, trials ...Trial) (ids []planner.AttemptID, err error) {
	l.wf.Name = "lab"
	queued := l.Runtime.Now()
	if l.Commit != nil {
		if err := l.Commit(ctx); err != nil {
			return nil, err
		}
	}
	for _, t := range trials {
		id := planner.AttemptID(len(l.trials))
		l.mu.Lock()
		l.trials = append(l.trials, &state{marks: map[executor.Milestone]Mark{}})
		l.mu.Unlock()
		spec, hold, fetch := l.spec(t, id)
		if err := l.Runtime.Start(ctx, executor.Launch{Attempt: id, Task: planner.TaskID(id), Try: 1, Node: t.Node,
			Hold: hold, Queued: queued, Spec: spec, Fetch: fetch}); err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// patience is how long nothing may happen before measuring is given up.
const patience = 3 * time.Minute

// until lets time pass until something is known.
func (l *Lab) until(ctx context.Context, known func() bool) error {
	for !known() {
		bodies, err := l.Runtime.Next(ctx, l.Runtime.Now().Add(patience))
		if err != nil {
			return err
		}
		if len(bodies) == 0 {
			return fmt.Errorf("a container neither started nor ended within %v", patience)
		}
		for _, b := range bodies {
			switch b := b.(type) {
			case planner.AttemptStarted:
				l.trials[b.Attempt].begun = true
				if l.Commit != nil { // as a run does; after an end the next start follows
					if err := l.Commit(ctx); err != nil {
						return err
					}
				}
			case *planner.AttemptExited:
				t := l.trials[b.Attempt]
				t.end, t.reported = b, l.Runtime.Now()
				if err := l.Runtime.Forget(ctx, b.Attempt); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (l *Lab) runs(id planner.AttemptID) bool { return l.trials[id].end == nil }

// Wait waits for the end of trials.
func (l *Lab) Wait(ctx context.Context, ids []planner.AttemptID) (out []Result, err error) {
	if err := l.until(ctx, func() bool { return !slices.ContainsFunc(ids, l.runs) }); err != nil {
		return nil, err
	}
	for _, id := range ids {
		t := l.trials[id]
		x := t.end
		r := Result{ID: id, Usage: x.Usage, Outcome: x.Outcome, Message: x.Message, Ran: x.Ran, Reported: t.reported}
		r.Report, err = emulate.ReadReport(filepath.Join(l.Dir, "work", "lab", fmt.Sprintf("t%d-1", id)))
		if err != nil && x.Outcome == planner.OK {
			return nil, err
		}
		l.mu.Lock()
		r.Marks = maps.Clone(t.marks)
		l.mu.Unlock()
		out = append(out, r)
	}
	return out, nil
}

// Run runs trials at once, to their ends. One that did not end well is an error.
func (l *Lab) Run(ctx context.Context, trials ...Trial) ([]Result, error) {
	ids, err := l.Start(ctx, trials...)
	if err != nil {
		return nil, err
	}
	out, err := l.Wait(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range out {
		if out[i].Outcome != planner.OK {
			return nil, fmt.Errorf("a task of %v at %g %% CPU ended as %v: %s", trials[i].Run, trials[i].CPU,
				out[i].Outcome, out[i].Message)
		}
	}
	return out, nil
}

// Busy runs f while other tasks keep a number of cores busy, and returns how those fared.
func (l *Lab) Busy(ctx context.Context, cores int, f func() error) (programs []Result, err error) {
	trials := make([]Trial, cores)
	for i := range trials {
		trials[i] = Trial{Run: time.Hour, CPU: 100}
	}
	ids, err := l.Start(ctx, trials...)
	if err == nil {
		waits := func(id planner.AttemptID) bool { return !l.trials[id].begun && l.runs(id) }
		err = l.until(ctx, func() bool { return !slices.ContainsFunc(ids, waits) })
	}
	if err == nil {
		err = f()
	}
	ctx = context.WithoutCancel(ctx)
	errs := []error{err}
	for _, id := range ids {
		if l.runs(id) {
			errs = append(errs, l.Runtime.Kill(ctx, id, planner.Killed, 0))
		}
	}
	programs, err = l.Wait(ctx, ids)
	return programs, errors.Join(append(errs, err)...)
}
