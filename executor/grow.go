package executor

import (
	"slices"

	"gantry/planner"
)

// Growth says that a submission adds its one task, which has no files, to a workflow of the run that has not ended. The
// engine makes it of a Join.
type Growth struct {
	Of    planner.WorkflowID
	After []planner.TaskID // tasks of the workflow that it comes after, none of which failed or was skipped
}

// Grown reports whether the admission added a task to a workflow that had arrived before.
func (a *Admission) Grown() bool { return a.Submission.Grows != nil }

// Event informs the planner of the admission.
func (a *Admission) Event() planner.Body {
	if !a.Grown() {
		return &a.Arrived
	}
	return &planner.WorkflowGrown{Workflow: a.Spec.ID, Task: a.Arrived.Tasks[0]}
}

// admits reports whether an event comes with an admission.
func admits(b planner.Body) bool {
	k := b.Kind()
	return k == planner.KindWorkflowArrived || k == planner.KindWorkflowGrown
}

// grown is a workflow to which a task is added, and the place of the task in it.
type grown struct {
	spec    *WorkflowSpec
	flow    planner.Workflow
	parents []planner.TaskID // ascending
	stage   int32            // one after those of its parents
}

// place says where the task of a growth belongs.
func (e *Engine) place(g *Growth) *grown {
	v := e.Planner.View()
	at := &grown{spec: e.specs[v.First(g.Of)].Workflow, flow: *v.Workflow(g.Of),
		parents: slices.Compact(slices.Sorted(slices.Values(g.After)))}
	for _, p := range at.parents {
		at.stage = max(at.stage, v.Task(p).Stage+1)
	}
	return at
}

// admit admits a submission, and has the planner and all else know it. Refused says why it cannot be admitted; nothing
// was changed then.
func (e *Engine) admit(sub *Submission, now planner.Time) (refused, err error) {
	if refused = sub.Make(); refused != nil {
		return refused, nil
	}
	var at *grown
	if sub.Grows != nil {
		at = e.place(sub.Grows)
		sub.Name = at.spec.Name
	}
	adm, refused := e.Admit.admit(sub, at, now)
	if refused != nil {
		return refused, nil
	}
	e.know(adm)
	e.batch.Admissions = append(e.batch.Admissions, adm)
	return nil, e.take(now, adm.Event())
}
