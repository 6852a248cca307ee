package executor

import (
	"context"
	"fmt"

	"gantry/planner"
)

// Reuser finds results that need not be computed again. The engine asks it about each task once, when the task is
// ready, before any policy hears of that. It handles files, as runtimes do; a simulation has one that only foresees.
type Reuser interface {
	// Reuse puts the outputs of an earlier attempt in place, and returns where they are from; nil if the task has to
	// run. It may be repeated after a crash.
	Reuse(ctx context.Context, task planner.TaskID, spec *TaskSpec, at Places) (*planner.TaskReused, error)
}

// Places says on which node a file lies; None if it is nowhere.
type Places func(f planner.FileID) planner.NodeID

// reuse ends the tasks that became ready and need not run, and says whether there were any. TaskReused ends such a task
// without an attempt, and its children may become ready at the same instant. Every policy has to live with that: see
// TestEveryPolicyKeepsTheRules.
func (e *Engine) reuse(ctx context.Context, now planner.Time) (any bool, err error) {
	if e.Reuse == nil || e.control != 0 {
		return false, nil
	}
	v := e.Planner.View()
	fresh := append([]planner.TaskID(nil), v.BecameReady()...)
	for _, t := range fresh {
		if e.asked[t] || v.Phase(t) != planner.Ready || v.Last(t) != planner.None {
			continue
		}
		if e.asked == nil {
			e.asked = map[planner.TaskID]bool{}
		}
		e.asked[t] = true
		x, err := e.Reuse.Reuse(ctx, t, e.specs[t], func(f planner.FileID) planner.NodeID { return v.Nearest(f, 0) })
		if err != nil {
			return any, fmt.Errorf("reuse results for task %s of workflow %s: %w", e.specs[t].Name,
				e.specs[t].Workflow.Name, err)
		}
		if x == nil {
			continue
		}
		any = true
		x.Task = t
		if err := e.take(now, x); err != nil {
			return any, err
		}
		e.forget(v.Task(t).Workflow)
	}
	return any, nil
}
