package session

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"gantry/cmd/internal/exit"
	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/executor/reuse"
	"gantry/planner"
)

// upkeep looks after the files of a run: it counts what they take on disk, and with --scratch deletes what nobody needs
// any more.
type upkeep struct {
	s       *Session
	specs   map[planner.TaskID]*executor.TaskSpec
	readers map[planner.FileID]int // tasks that have not ended well
	// past are files that nobody needs; while the log is read back nothing is deleted, as a later part of the run may
	// have made them again.
	past  []pastFile
	ready bool

	work    sync.WaitGroup
	queue   chan pastFile
	mu      sync.Mutex
	counted map[planner.FileID]bool // files from outside
	used    int64                   // bytes
}

type pastFile struct {
	flow *executor.WorkflowSpec
	file *executor.FileSpec
	done chan<- struct{} // if not nil: there is no file, but somebody waits for all before it
}

func newUpkeep(s *Session) *upkeep {
	return &upkeep{s: s, specs: map[planner.TaskID]*executor.TaskSpec{}, readers: map[planner.FileID]int{},
		counted: map[planner.FileID]bool{}}
}

// begin comes when the runtime exists and the log was read back.
func (u *upkeep) begin() {
	area := u.s.area()
	if u.s.resumes {
		u.used, _ = stage.DiskUse(u.s.dir) // what cannot be read counts nothing
	}
	u.ready = true
	if !u.s.set.Scratch || area == nil {
		return
	}
	u.queue = make(chan pastFile, 1024)
	u.work.Go(func() {
		for x := range u.queue {
			if x.done != nil {
				close(x.done)
				continue
			}
			u.remove(area, x)
		}
	})
	for _, x := range u.past {
		u.queue <- x
	}
	u.past = nil
	u.settle() // before anything starts that takes more
}

// settle waits until all is deleted that is to be by now.
func (u *upkeep) settle() {
	if u.queue != nil {
		done := make(chan struct{})
		u.queue <- pastFile{done: done}
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

func (u *upkeep) remove(area *stage.Area, x pastFile) {
	freed, err := area.Remove(x.flow, x.file)
	if x.file.Blocks > 0 { // tasks saw the whole
		whole := *x.file
		whole.Blocks = 0
		more, e := area.Remove(x.flow, &whole)
		freed += more
		if err == nil {
			err = e
		}
	}
	if err != nil {
		u.s.view.Warn("--scratch: delete file %s of workflow %s: %v", x.file.Name, x.flow.Name, err)
		return
	}
	u.mu.Lock()
	u.used = max(0, u.used-freed)
	u.mu.Unlock()
	u.s.log.Contents(reuse.Content{File: x.file.ID, Removed: true})
}

// watch is the engine's: it sees every batch once that is in the log.
func (u *upkeep) watch(v planner.View, events []planner.Event, admitted []*executor.Admission) {
	if !u.s.set.Scratch {
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
				kept := u.past[:0]
				for _, x := range u.past {
					if x.flow.Name != spec.Workflow.Name {
						kept = append(kept, x)
					}
				}
				u.past = kept
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
	for _, list := range [][]*executor.FileSpec{spec.Inputs, spec.Outputs} {
		for _, f := range list {
			if u.readers[f.ID] > 0 || f.Final {
				continue
			}
			x := pastFile{flow: spec.Workflow, file: f}
			if u.ready {
				u.queue <- x
			} else {
				u.past = append(u.past, x)
			}
		}
	}
}

// published counts the files of an attempt that ended well, and notes them for those who want to know whether they are
// still as they were.
func (u *upkeep) published(l *executor.Launch) {
	k := u.s.keeper
	if err := k.Publish(context.Background(), l); err != nil {
		u.s.view.Warn("outputs of task %s cannot be reused: %v", l.Spec.Name, err)
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
	u.s.log.OnDisk(u.used)
}

// OnDisk is how much a file or a directory takes on disk; 0 if it is not there.
func OnDisk(path string) int64 {
	st, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	if st.IsDir() {
		bytes, _ := stage.DiskUse(path)
		return bytes
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Blocks * 512
	}
	return st.Size()
}

// care prepares what looks after the files of the run, before anything starts: content of inputs is hashed now, so that
// no task waits for it.
func (s *Session) care(ctx context.Context) error {
	if s.keeper == nil {
		if s.set.Reuse || s.set.Scratch {
			return exit.Usagef("--reuse, --scratch: they need the log")
		}
		return nil
	}
	s.keeper.Image, s.keeper.Hash = s.images.id, s.set.Reuse
	s.upkeep.begin()
	if !s.set.Reuse {
		return nil
	}
	s.engine.Reuse = s.keeper
	seen := map[string]bool{}
	var paths []string
	for i := range s.engine.Arrivals {
		for _, x := range s.engine.Arrivals[i].Sources {
			if x.Path != "" && !seen[x.Path] {
				seen[x.Path] = true
				paths = append(paths, filepath.Clean(x.Path))
			}
		}
	}
	if err := s.keeper.HashInputs(ctx, paths); err != nil {
		return exit.With(exit.Input, err)
	}
	return nil
}
