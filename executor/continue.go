package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gantry/planner"
)

// Continuation is a workflow that stands for one of the run from now on: the same one again, or a corrected one.
type Continuation struct {
	Of         planner.WorkflowID
	Submission Submission
	// Keep says for each task of the admission which task of the former workflow it is, and whether that is to stay
	// done; it is called once.
	Keep func(adm *Admission) []Kept
}

// Kept says whether a task of a continuation stays done.
type Kept struct {
	Was  planner.TaskID // of the former workflow; None: the task is new
	Stay bool           // its outputs stay; it does not run
}

// Quiesce ends all that runs, as Stop does, and takes in how it ended. It comes between Recover and Continue.
func (e *Engine) Quiesce(ctx context.Context) error {
	if e.Planner.View().UnderWayCount() == 0 {
		return nil
	}
	if err := e.obey(ctx, Stop, true); err != nil {
		return err
	}
	for e.Planner.View().UnderWayCount() > 0 {
		if err := e.turn(ctx); err != nil {
			return err
		}
	}
	e.control = 0
	return nil
}

// Continue puts workflows in the place of former ones, all at one instant and in one transaction of the log: arrival,
// WorkflowContinued, and a TaskReused for each task that stays. So a crash leaves the run as it was or continued.
// Nothing is under way.
func (e *Engine) Continue(ctx context.Context, all []Continuation) error {
	v := e.Planner.View()
	if v.UnderWayCount() > 0 {
		return errors.New("continue workflows: attempts are under way")
	}
	now := max(e.Runtime.Now(), v.Now())
	for i := range all {
		c := &all[i]
		if left, _ := v.Progress(c.Of); left > 0 || slices.Contains(v.Present(), c.Of) {
			if err := e.take(now, planner.WorkflowCancelled{Workflow: c.Of}); err != nil {
				return err
			}
		}
		adm, err := e.Admit.Admit(&c.Submission, now)
		if err != nil {
			return err
		}
		kept := c.Keep(adm)
		tries := make([]int32, len(adm.Tasks))
		for i, k := range kept {
			if k.Was != planner.None {
				tries[i] = int32(v.Tries(k.Was))
			}
		}
		e.know(adm)
		e.batch.Admissions = append(e.batch.Admissions, adm)
		if err := e.take(now, &adm.Arrived); err != nil {
			return err
		}
		w := adm.Spec.ID
		if err := e.take(now, &planner.WorkflowContinued{Workflow: w, Of: c.Of, Tries: tries}); err != nil {
			return err
		}
		if err := e.stay(now, w, kept); err != nil {
			return fmt.Errorf("continue workflow %s: %w", c.Submission.Name, err)
		}
	}
	return e.keep(ctx)
}

// stay ends the tasks of w that need not run again.
func (e *Engine) stay(now planner.Time, w planner.WorkflowID, kept []Kept) error {
	v := e.Planner.View()
	first := v.First(w)
	for more := true; more; {
		var err error
		if more, err = e.formalities(now); err != nil {
			return err
		}
		for t := range v.All(w) {
			k := kept[t-first]
			if !k.Stay || v.Phase(t) != planner.Ready {
				continue
			}
			x := &planner.TaskReused{Task: t, Node: planner.None}
			if a := v.Last(k.Was); a != planner.None {
				x.Attempt, x.Node = a, v.Attempt(a).Node
			} else if was := v.Reused(k.Was); was != nil {
				*x = *was
				x.Task = t
			} else {
				continue // formal
			}
			more = true
			if err := e.take(now, x); err != nil {
				return err
			}
		}
	}
	e.forget(w)
	return nil
}
