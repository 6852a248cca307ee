package executor

import (
	"errors"
	"fmt"
	"slices"

	"gantry/planner"
)

// Growth says that a submission adds its tasks, which have no files, to a workflow of the run that has not ended. They
// are listed parents first.
type Growth struct {
	Of planner.WorkflowID
	// After has, for each task by position, earlier tasks of the workflow that it comes after besides; nil: none.
	After [][]planner.TaskID
}

// Grown reports whether the admission added tasks to a workflow that had arrived before.
func (a *Admission) Grown() bool { return a.Submission.Grows != nil }

// Event informs the planner of the admission.
func (a *Admission) Event() planner.Body {
	if !a.Grown() {
		return &a.Arrived
	}
	return &planner.WorkflowGrown{Workflow: a.Spec.ID, Tasks: a.Arrived.Tasks, Files: a.Arrived.Files}
}

// admits reports whether an event comes with an admission.
func admits(b planner.Body) bool {
	k := b.Kind()
	return k == planner.KindWorkflowArrived || k == planner.KindWorkflowGrown
}

// grown is a workflow of the run to which tasks are added.
type grown struct {
	view  planner.View
	spec  *WorkflowSpec
	names map[string]bool // of tasks
}

// growing returns a workflow that has not ended, to add tasks to it.
func (e *Engine) growing(w planner.WorkflowID) (*grown, error) {
	v := e.Planner.View()
	if w < 0 || int(w) >= v.Workflows() {
		return nil, fmt.Errorf("workflow %d is not known", w)
	}
	if e.over(w) {
		return nil, fmt.Errorf("workflow %d has ended", w)
	}
	if g, ok := e.grown[w]; ok {
		return g, nil
	}
	g := &grown{view: v, names: map[string]bool{}}
	for t := range v.All(w) {
		g.know(e.specs[t])
	}
	if e.grown == nil {
		e.grown = map[planner.WorkflowID]*grown{}
	}
	e.grown[w] = g
	return g, nil
}

// know takes in a task of the workflow.
func (g *grown) know(t *TaskSpec) {
	g.spec, g.names[t.Name] = t.Workflow, true
}

// admit admits a submission, and has the planner and all else know it. Refused says why it cannot be admitted; nothing
// was changed then.
func (e *Engine) admit(sub *Submission, now planner.Time) (refused, err error) {
	var adm *Admission
	if refused = sub.Make(); refused != nil {
		return refused, nil
	}
	if sub.Grows == nil {
		adm, refused = e.Admit.Admit(sub, now)
	} else if g, err := e.growing(sub.Grows.Of); err != nil {
		refused = err
	} else {
		sub.Name = g.spec.Name
		adm, refused = e.Admit.admit(sub, g, now)
	}
	if refused != nil {
		return refused, nil
	}
	e.know(adm)
	e.batch.Admissions = append(e.batch.Admissions, adm)
	return nil, e.take(now, adm.Event())
}

// check reports why tasks cannot be added to a workflow, before anything is changed.
func (g *grown) check(sub *Submission) error {
	w := sub.Workflow
	refuse := func(i int, format string, args ...any) error {
		return fmt.Errorf("workflow %s: task %s %s", g.spec.Name, w.Tasks[i].ID, fmt.Sprintf(format, args...))
	}
	if len(w.Tasks) == 0 || len(w.Files) > 0 {
		return fmt.Errorf("workflow %s: %d tasks with %d files cannot be added", g.spec.Name, len(w.Tasks),
			len(w.Files))
	}
	if sub.Grows.After != nil && len(sub.Grows.After) != len(w.Tasks) {
		return errors.New("dependencies are not those of the tasks")
	}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if g.names[t.ID] {
			return refuse(i, "is there already: give it another name")
		}
		for _, p := range t.Parents {
			if p >= int32(i) {
				return refuse(i, "comes before its parent %s", w.Tasks[p].ID)
			}
		}
		for _, p := range g.parents(sub, i) {
			if int(p) >= g.view.Tasks() || p < 0 || g.view.Task(p).Workflow != sub.Grows.Of {
				return refuse(i, "comes after task %d, which is not of its workflow", p)
			}
			if phase := g.view.Phase(p); phase == planner.Failed || phase == planner.Skipped {
				return refuse(i, "comes after a task that was %s", phase)
			}
		}
	}
	return nil
}

// parents returns the earlier tasks of the workflow that task i of a submission comes after, ascending.
func (g *grown) parents(sub *Submission, i int) (all []planner.TaskID) {
	if sub.Grows.After == nil {
		return nil
	}
	all = slices.Sorted(slices.Values(sub.Grows.After[i]))
	return slices.Compact(all)
}

// stages returns the stages of the tasks of a submission.
func (g *grown) stages(sub *Submission, order []int32) []int32 {
	out := make([]int32, len(order))
	for _, i := range order {
		t := &sub.Workflow.Tasks[i]
		for _, p := range t.Parents {
			out[i] = max(out[i], out[p]+1)
		}
		for _, p := range g.parents(sub, int(i)) {
			out[i] = max(out[i], g.view.Task(p).Stage+1)
		}
		if t.Phase > 0 {
			out[i] = t.Phase - 1
		}
	}
	return out
}

// parentsOf numbers the parents of task i of a submission, ascending.
func (a *Admitter) parentsOf(sub *Submission, g *grown, i int) []planner.TaskID {
	own := a.taskIDs(sub.Workflow.Tasks[i].Parents)
	if g == nil {
		return own
	}
	all := append(g.parents(sub, i), own...)
	slices.Sort(all)
	return slices.Compact(all)
}
