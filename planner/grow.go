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

// part is a stretch of tasks of a workflow: those of its arrival, or some that were added one after the other.
type part struct{ first, past TaskID }

func (s *State) grow(b *WorkflowGrown) {
	w, t := s.workflows.at(b.Workflow), b.Task.ID
	if last := &w.parts[len(w.parts)-1]; last.past == t {
		last.past++
	} else {
		w.parts = append(w.parts, part{t, t + 1})
	}
	if !w.grown { // the list is the event's until now
		w.Tasks, w.grown = slices.Clone(w.Tasks), true
	}
	w.Tasks = append(w.Tasks, t)
	w.left++
	s.tasks.push(&b.Task)
	l := life{readyPos: None, attempt: None, node: None}
	for _, parent := range b.Task.Parents {
		if s.lives.at(parent).phase != Done {
			l.missing++
		}
		above := s.tasks.of(parent)
		above.Children = append(slices.Clip(above.Children), t)
		if below, ok := s.below[parent]; ok {
			s.below[parent] = append(slices.Clip(below), t)
		}
	}
	*s.lives.push() = l
	if !slices.Contains(s.news.Arrived, b.Workflow) && !slices.Contains(s.news.Grown, b.Workflow) {
		s.news.Grown = append(s.news.Grown, b.Workflow)
	}
	if l.missing == 0 && !slices.Contains(s.embargoed, b.Workflow) {
		s.becomeReady(t)
	}
}

// checkGrowth reports how a task cannot be added to a workflow.
func (s *State) checkGrowth(b *WorkflowGrown) error {
	if b.Workflow < 0 || int(b.Workflow) >= s.workflows.len() {
		return errors.New("it is not known")
	}
	t := &b.Task
	switch w := s.workflows.at(b.Workflow); {
	case w.left+w.formal == 0:
		return errors.New("it has ended")
	case w.cancelled:
		return errors.New("it was cancelled")
	case int(t.ID) != s.tasks.len() || t.Workflow != b.Workflow:
		return fmt.Errorf("task %d is numbered %d, of workflow %d", s.tasks.len(), t.ID, t.Workflow)
	case t.Formal || len(t.Children)+len(t.Inputs)+len(t.Outputs) > 0:
		return fmt.Errorf("task %d is a formal one, or has children or files", t.ID)
	}
	for i, p := range t.Parents {
		if p < 0 || p >= t.ID || s.tasks.of(p).Workflow != b.Workflow || slices.Contains(t.Parents[:i], p) {
			return fmt.Errorf("task %d has the parents %v", t.ID, t.Parents)
		}
		if phase := s.lives.at(p).phase; phase == Failed || phase == Skipped || s.tasks.of(p).Formal {
			return fmt.Errorf("task %d has parent %d, which is formal, or was %s", t.ID, p, phase)
		}
	}
	return t.checkNumbers()
}
