package planner

import (
	"errors"
	"fmt"
	"slices"
)

// A workflow grows as long as it has not ended: tasks are added to it, with parents among those that it has. Policies
// hear of it in News.Grown and plan the workflow as if it arrived again: they drop plans made ahead, and solve models
// and map jobs again. Ranks are computed for the new tasks and their ancestors alone; rank.Upward.Changed has the tasks
// whose keys in a queue are outdated. A growth in the round of the arrival is part of it (News.Arrived). Every policy
// has to live with growth: see TestEveryPolicyKeepsTheRules in package executor.

// part is a stretch of a workflow that one event brought: its arrival, or a growth. The next one may extend it.
type part struct {
	first     TaskID
	past      TaskID // after the last task
	files     FileID
	pastFiles FileID // after the last file
}

// add appends a part, or lengthens the last one.
func (w *workflowState) add(p part) {
	if n := len(w.parts); n > 0 && w.parts[n-1].past == p.first && w.parts[n-1].pastFiles == p.files {
		w.parts[n-1].past, w.parts[n-1].pastFiles = p.past, p.pastFiles
		return
	}
	w.parts = append(w.parts, p)
}

// addFiles takes in new files.
func (s *State) addFiles(files []File) {
	for _, f := range files {
		s.files.push(f)
	}
}

func (s *State) grow(b *WorkflowGrown) {
	w := s.workflows.at(b.Workflow)
	p := part{first: TaskID(s.tasks.len()), files: FileID(s.files.len())}
	p.past, p.pastFiles = p.first+TaskID(len(b.Tasks)), p.files+FileID(len(b.Files))
	w.add(p)
	w.left += int32(len(b.Tasks))
	s.addFiles(b.Files)
	if !w.grown { // the list is the event's until now
		w.Tasks, w.grown = slices.Clone(w.Tasks), true
	}
	for i := range b.Tasks {
		s.tasks.push(&b.Tasks[i])
		t := b.Tasks[i].ID
		l := life{readyPos: None, attempt: None, node: None}
		for _, parent := range b.Tasks[i].Parents {
			if s.lives.at(parent).phase != Done {
				l.missing++
			}
			if parent >= p.first {
				continue // it names its children itself
			}
			above := s.tasks.of(parent)
			above.Children = append(slices.Clip(above.Children), t)
			if below, ok := s.below[parent]; ok {
				s.below[parent] = append(slices.Clip(below), t)
			}
		}
		*s.lives.push() = l
		w.Tasks = append(w.Tasks, t)
	}
	if !slices.Contains(s.news.Arrived, b.Workflow) && !slices.Contains(s.news.Grown, b.Workflow) {
		s.news.Grown = append(s.news.Grown, b.Workflow)
	}
	if slices.Contains(s.embargoed, b.Workflow) {
		return
	}
	for t := p.first; t < p.past; t++ {
		if s.lives.at(t).missing == 0 {
			s.becomeReady(t)
		}
	}
}

// checkGrowth reports how tasks cannot be added to a workflow.
func (s *State) checkGrowth(b *WorkflowGrown) error {
	if b.Workflow < 0 || int(b.Workflow) >= s.workflows.len() {
		return errors.New("it is not known")
	}
	w := s.workflows.at(b.Workflow)
	switch {
	case w.left+w.formal == 0:
		return errors.New("it has ended")
	case w.cancelled:
		return errors.New("it was cancelled")
	case len(b.Tasks) == 0:
		return errors.New("no task is added")
	}
	own := &arrival{WorkflowArrived: &WorkflowArrived{Workflow: w.Workflow, Tasks: b.Tasks, Files: b.Files},
		first: TaskID(s.tasks.len()), file: FileID(s.files.len()), grows: s}
	up, down, err := s.checkParts(own)
	if err != nil {
		return err
	}
	for i := range b.Tasks {
		t := &b.Tasks[i]
		if t.Formal {
			return fmt.Errorf("task %d is a formal one", t.ID)
		}
		for _, p := range t.Parents {
			switch {
			case p >= t.ID:
				return fmt.Errorf("task %d comes before its parent %d", t.ID, p)
			case p >= own.first:
				continue
			}
			up--
			if phase := s.lives.at(p).phase; phase == Failed || phase == Skipped || s.tasks.of(p).Formal {
				return fmt.Errorf("task %d has parent %d, which is formal, or was %s", t.ID, p, phase)
			}
		}
	}
	if up != down {
		return fmt.Errorf("tasks name %d parents among them and %d children", up, down)
	}
	return nil
}

// hasTask reports whether t is a task of a workflow that is there.
func (s *State) hasTask(w WorkflowID, t TaskID) bool {
	return t >= 0 && int(t) < s.tasks.len() && s.tasks.of(t).Workflow == w
}

// hasFile reports whether f is a file of a workflow that is there.
func (s *State) hasFile(w WorkflowID, f FileID) bool {
	_, ok := slices.BinarySearchFunc(s.workflows.at(w).parts, f, func(p part, f FileID) int {
		switch {
		case p.pastFiles <= f:
			return -1
		case p.files > f:
			return 1
		}
		return 0
	})
	return ok
}
