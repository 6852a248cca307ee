package executor

import (
	"fmt"
	"slices"

	"gantry/planner"
)

// Join says that a submission of one task belongs to a workflow that grows: the open one with its key, or a new one.
// Policies see the precedence within that workflow. A dependency elsewhere holds the task outside, in the table
// submitted of the log, until the other submission has ended. The engine knows submissions by their numbers (see
// Engine.Refer). It settles those that can never start in the batch that makes them impossible.
type Join struct {
	// Key is that of the workflow: tasks with the same key are of one workflow as long as that has not ended.
	Key   string       `json:"key,omitempty"`
	After []Dependency `json:"after,omitempty"`
	// AtMost bounds how many of the submissions from First on with the same First are under way at once; 0: all may be.
	First  int64 `json:"-"`
	AtMost int   `json:"at_most,omitempty"`
}

// Dependency is a submission that has to end before another may start.
type Dependency struct {
	ID    int64 `json:"id"`
	Ended bool  `json:"ended,omitempty"` // in any way
	// Failed: any way but well. Without Ended and Failed it has to end well.
	Failed bool `json:"failed,omitempty"`
}

// Ref is the engine's record of a submission that was handed in while the run was under way.
type Ref struct {
	Workflow planner.WorkflowID // None: it has not arrived
	Task     planner.TaskID     // None: it is a whole workflow
	Settled  string             // how it was settled without arriving; "": it was not
}

// Refer records how a submission stands. Other packages call it before Run.
func (e *Engine) Refer(id int64, r Ref) {
	if e.refs == nil {
		e.refs, e.ids, e.joined = map[int64]Ref{}, map[planner.TaskID]int64{}, map[string]planner.WorkflowID{}
		e.arrays = map[int64][]planner.TaskID{}
	}
	e.refs[id] = r
	if r.Task != planner.None {
		e.ids[r.Task] = id
	}
}

// Joined says that the tasks with a key were of a workflow last. It is called before Run, after Refer.
func (e *Engine) Joined(key string, w planner.WorkflowID) {
	e.joined[key] = w
}

// Among says that a task is one of an array of which only some may be under way at once. It is called before Run.
func (e *Engine) Among(join *Join, t planner.TaskID) {
	if join.AtMost > 0 {
		e.arrays[join.First] = append(e.arrays[join.First], t)
	}
}

// throttled reports whether as many tasks of an array are under way as may be.
func (e *Engine) throttled(join *Join) bool {
	if join.AtMost == 0 {
		return false
	}
	e.arrays[join.First] = slices.DeleteFunc(e.arrays[join.First], func(t planner.TaskID) bool {
		return e.Planner.View().Phase(t).Ended()
	})
	return len(e.arrays[join.First]) >= join.AtMost
}

// standing is how a dependency stands.
type standing uint8

const (
	pending standing = iota
	wellEnded
	badlyEnded
)

func (e *Engine) standing(id int64) standing {
	r, ok := e.refs[id]
	v := e.Planner.View()
	switch {
	case !ok || r.Settled == "" && r.Workflow == planner.None:
		return pending
	case r.Settled != "":
		return badlyEnded
	case r.Task != planner.None:
		switch v.Phase(r.Task) {
		case planner.Done:
			return wellEnded
		case planner.Failed, planner.Skipped:
			return badlyEnded
		}
		return pending
	}
	left, failed := v.Progress(r.Workflow)
	switch {
	case failed > 0 || v.Cancelled(r.Workflow):
		return badlyEnded
	case left > 0:
		return pending
	}
	return wellEnded
}

// join admits a single task whose dependencies let it: to the workflow of its key, or to one that it opens. A task that
// comes after others of its workflow alone is admitted at once, since policies then see its dependencies; one that
// comes after something else is held until that has ended. Why is set if it can never start.
func (e *Engine) join(sub *Submission) (ready bool, why string) {
	v := e.Planner.View()
	w, open := e.joined[sub.Joins.Key]
	open = open && !e.over(w) && !v.Cancelled(w)
	var parents []planner.TaskID
	held := false
	for _, d := range sub.Joins.After {
		r := e.refs[d.ID]
		switch e.standing(d.ID) {
		case badlyEnded:
			if !d.Ended && !d.Failed {
				return false, fmt.Sprintf("it comes after submission %d, which did not end well", d.ID)
			}
		case wellEnded:
			if d.Failed {
				return false, fmt.Sprintf("it comes after the failure of submission %d, which ended well", d.ID)
			}
		case pending:
			if within := open && r.Workflow == w && r.Task != planner.None; within && !d.Ended && !d.Failed {
				parents = append(parents, r.Task)
			} else {
				held = true
			}
		}
	}
	if held || e.throttled(sub.Joins) {
		return false, ""
	}
	if sub.Grows = nil; open {
		sub.Grows = &Growth{Of: w, After: parents}
		for e.named(w, sub.Workflow.Tasks[0].ID) {
			flow := *sub.Workflow
			flow.Tasks = slices.Clone(flow.Tasks)
			flow.Tasks[0].ID += fmt.Sprint("-", sub.ID)
			sub.Workflow = &flow
		}
	}
	return true, ""
}

// named reports whether a workflow that has not ended has a task of that name.
func (e *Engine) named(w planner.WorkflowID, name string) bool {
	if e.names == nil {
		e.names = map[planner.WorkflowID]map[string]bool{}
	}
	if e.names[w] == nil {
		e.names[w] = map[string]bool{}
		for t := range e.Planner.View().All(w) {
			e.names[w][e.specs[t].Name] = true
		}
	}
	return e.names[w][name]
}

// joins takes in single tasks whose dependencies have ended. It says whether any was admitted.
func (e *Engine) joins(now planner.Time) (any bool, err error) {
	if e.control != 0 || len(e.held) == 0 {
		return false, nil
	}
	for again := true; again; { // one that is refused lets others be refused
		again = false
		kept := e.held[:0]
		for i := range e.held {
			sub := e.held[i]
			ready, why := e.join(&sub)
			switch {
			case why != "":
				e.settle(Settled{ID: sub.ID, At: now, State: SettledCancelled, Message: why})
				again = true
			case !ready:
				kept = append(kept, sub)
			default:
				settled := len(e.batch.Settled)
				if err := e.enter(&sub, now); err != nil {
					return any, err
				}
				any, again = true, again || len(e.batch.Settled) > settled
			}
		}
		clear(e.held[len(kept):])
		e.held = kept
	}
	return any, nil
}

// enter admits a submission, or settles it as refused.
func (e *Engine) enter(sub *Submission, now planner.Time) error {
	refused, err := e.admit(sub, now)
	switch {
	case err != nil:
		return err
	case refused != nil && sub.ID != 0:
		e.settle(Settled{ID: sub.ID, At: now, State: SettledRefused, Message: refused.Error()})
	case refused != nil:
		e.rejected = append(e.rejected, refused)
	case sub.ID != 0:
		adm := e.batch.Admissions[len(e.batch.Admissions)-1]
		r := Ref{Workflow: adm.Spec.ID, Task: planner.None}
		if sub.Joins != nil {
			r.Task = adm.Arrived.Tasks[0].ID
		}
		e.Refer(sub.ID, r)
		if sub.Joins != nil {
			e.joined[sub.Joins.Key] = adm.Spec.ID
			e.Among(sub.Joins, r.Task)
		}
	}
	return nil
}

// settle says that a submission will not arrive, or will not end well.
func (e *Engine) settle(s Settled) {
	e.batch.Settled = append(e.batch.Settled, s)
	r, ok := e.refs[s.ID]
	if !ok {
		r = Ref{Workflow: planner.None, Task: planner.None}
	}
	if r.Settled = s.State; r.Workflow == planner.None {
		e.Refer(s.ID, r)
	}
}

// submittedBelow returns the tasks that come after a single task in its workflow and have not ended.
func (e *Engine) submittedBelow(t planner.TaskID) (all []planner.TaskID) {
	if t == planner.None || e.ids[t] == 0 {
		return nil
	}
	v := e.Planner.View()
	met := map[planner.TaskID]bool{}
	for queue := []planner.TaskID{t}; len(queue) > 0; {
		u := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, c := range v.Task(u).Children {
			if !met[c] && !v.Phase(c).Ended() {
				met[c] = true
				queue, all = append(queue, c), append(all, c)
			}
		}
	}
	return all
}

// cancelBelow settles those of the single tasks below t that are skipped since t did not end well.
func (e *Engine) cancelBelow(now planner.Time, t planner.TaskID, below []planner.TaskID) {
	for _, c := range below {
		if id := e.ids[c]; id != 0 && e.Planner.View().Phase(c) == planner.Skipped {
			e.settle(Settled{ID: id, At: now, State: SettledCancelled,
				Message: fmt.Sprintf("it comes after submission %d, which did not end well", e.ids[t])})
		}
	}
}

// CancelTask withdraws a single task for a user: it does not start any more, or is ended, and so are those that come
// after it.
func (in *Intake) CancelTask(id int64, by int) error {
	e, v := in.e, in.View()
	r, ok := e.refs[id]
	if !ok || r.Task == planner.None || v.Phase(r.Task).Ended() {
		return nil
	}
	if a := v.Current(r.Task); a != planner.None {
		e.kills = append(e.kills, a)
	}
	if err := e.take(in.now, planner.TaskCancelled{Task: r.Task}); err != nil {
		return err
	}
	e.settle(Settled{id, in.now, SettledCancelled, OnRequest, &by})
	return nil
}
