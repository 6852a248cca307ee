package session

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/executor/reuse"
	"gantry/planner"
	"gantry/sqlite"
)

// upkeep looks after the files of a run: it counts their space on disk, and with --scratch deletes those that no task
// needs any more.
type upkeep struct {
	dir     string // of the run
	scratch bool
	log     *sqlite.Run
	view    *term.Progress
	keeper  *reuse.Keeper // knows files by their content; nil: the runtime has none, as the next one
	area    *stage.Area   // where they lie
	specs   map[planner.TaskID]*executor.TaskSpec
	readers map[planner.FileID]int // tasks that have not ended well
	// past are files that nobody needs; while the log is read back nothing is deleted, as a later part of the run may
	// have made them again.
	past  []pastFile
	ready bool

	work    sync.WaitGroup
	queue   chan func() // deletes a file, or says that all before it are deleted
	mu      sync.Mutex
	counted map[planner.FileID]bool // files from outside
	used    int64                   // bytes
}

type pastFile struct {
	flow *executor.WorkflowSpec
	file *executor.FileSpec
}

func newUpkeep(dir string, scratch bool, log *sqlite.Run, view *term.Progress) *upkeep {
	return &upkeep{dir: dir, scratch: scratch, log: log, view: view,
		specs: map[planner.TaskID]*executor.TaskSpec{}, readers: map[planner.FileID]int{},
		counted: map[planner.FileID]bool{}}
}

// begin comes when the runtime exists and the log was read back.
func (u *upkeep) begin(resumes bool) {
	if resumes {
		used, _ := stage.DiskUse(math.MaxInt32, u.dir) // unreadable files count nothing
		u.mu.Lock()                                    // attempts that were adopted may end meanwhile
		u.used = used
		u.mu.Unlock()
	}
	u.ready = true
	if !u.scratch {
		return
	}
	u.queue = make(chan func(), 1024)
	u.work.Go(func() {
		for do := range u.queue {
			do()
		}
	})
	for _, x := range u.past {
		u.queue <- func() { u.remove(x) }
	}
	u.past = nil
	u.settle() // before anything starts that takes more
}

// settle waits until all is deleted that is to be by now.
func (u *upkeep) settle() {
	if u.queue != nil {
		done := make(chan struct{})
		u.queue <- func() { close(done) }
		<-done
	}
}

// end waits until all is deleted that is to be.
func (u *upkeep) end() {
	if u.queue != nil {
		close(u.queue)
		u.work.Wait()
		u.queue = nil
	}
}

func (u *upkeep) remove(x pastFile) {
	freed, err := u.area.Remove(x.flow, x.file, false)
	if err != nil {
		u.view.Warn("--scratch: delete file %s of workflow %s: %v", x.file.Name, x.flow.Name, err)
		return
	}
	u.mu.Lock()
	u.used = max(0, u.used-freed)
	u.mu.Unlock()
	u.log.Contents(reuse.Content{File: x.file.ID, Removed: true})
}

// watch is the engine's: it sees every batch once that is in the log.
func (u *upkeep) watch(v planner.View, events []planner.Event, admitted []*executor.Admission) {
	if !u.scratch {
		return
	}
	for _, adm := range admitted {
		for i, t := range adm.Tasks {
			u.specs[adm.Arrived.Tasks[i].ID] = t
			for _, f := range t.Inputs {
				u.readers[f.ID]++
			}
		}
	}
	for i := range events {
		switch b := events[i].Body.(type) {
		case *planner.AttemptExited:
			if b.Outcome == planner.OK {
				u.done(v.Attempt(b.Attempt).Task)
			}
		case *planner.TaskReused:
			u.done(b.Task)
		case *planner.WorkflowContinued:
			if spec := u.specs[v.First(b.Of)]; spec != nil {
				u.past = slices.DeleteFunc(u.past, func(x pastFile) bool { return x.flow.Name == spec.Workflow.Name })
			}
		}
	}
}

// done takes in that a task ended well.
func (u *upkeep) done(t planner.TaskID) {
	spec := u.specs[t]
	if spec == nil {
		return
	}
	delete(u.specs, t)
	for _, f := range spec.Inputs {
		u.readers[f.ID]--
	}
	for _, f := range slices.Concat(spec.Inputs, spec.Outputs) {
		if u.readers[f.ID] > 0 || f.Final {
			continue
		}
		x := pastFile{flow: spec.Workflow, file: f}
		if u.ready {
			u.queue <- func() { u.remove(x) }
		} else {
			u.past = append(u.past, x)
		}
	}
}

// published counts the files of an attempt that ended well, and notes them for those who want to know whether they are
// still as they were.
func (u *upkeep) published(l *executor.Launch) {
	k := u.keeper
	if err := k.Publish(context.Background(), l); err != nil {
		u.view.Warn("outputs of task %s cannot be reused: %v", l.Spec.Name, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, f := range l.Spec.Outputs {
		u.used += OnDisk(k.Files.Path(l.Node, l.Spec.Workflow, f))
	}
	for _, f := range l.Spec.Inputs {
		if !f.Produced && !u.counted[f.ID] {
			u.counted[f.ID] = true
			u.used += OnDisk(k.Files.Path(l.Node, l.Spec.Workflow, f))
		}
	}
	u.log.OnDisk(u.used)
}

// OnDisk is how much a file or a directory takes on disk; 0 if it is not there.
func OnDisk(path string) int64 {
	st, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	if st.IsDir() {
		bytes, _ := stage.DiskUse(math.MaxInt32, path)
		return bytes
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Blocks * 512
	}
	return st.Size()
}

// care prepares upkeep before anything starts: content of inputs is hashed now, so that no task waits for it.
func (s *Session) care(ctx context.Context) error {
	if s.upkeep == nil || s.upkeep.keeper == nil {
		if s.Set.Reuse || s.Set.Scratch {
			return exit.Usagef("--reuse, --scratch: they need the log")
		}
		return nil
	}
	k := s.upkeep.keeper
	s.upkeep.begin(s.resumes)
	if !s.Set.Reuse {
		return nil
	}
	s.Engine.Reuse = k
	return s.HashInputs(ctx, s.Engine.Arrivals)
}

// HashInputs reads the input files of submissions to know their content.
func (s *Session) HashInputs(ctx context.Context, subs []executor.Submission) error {
	return exit.Or(exit.Input, s.upkeep.keeper.HashInputs(ctx, inputPaths(subs)))
}

func inputPaths(subs []executor.Submission) (paths []string) {
	for i := range subs {
		for _, x := range subs[i].Sources {
			if x.Path != "" {
				paths = append(paths, filepath.Clean(x.Path))
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
