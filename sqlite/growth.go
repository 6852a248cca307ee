package sqlite

import (
	"context"
	"errors"
	"slices"

	"gantry/executor"
	"gantry/planner"
	"gantry/trace"
)

// grownBody is the body of a WorkflowGrown in the log; growths.definition has the rest.
type grownBody struct {
	First planner.TaskID `json:"first_task"`
}

// OfWorkflow is the condition on a row t of tasks that it is of workflow w. The tasks with which a workflow arrived are
// numbered one after the other, and those that it got later are behind them: no index is needed to find them.
const OfWorkflow = "t.workflow = w.workflow AND t.task >= w.first_task AND t.task < coalesce((SELECT g.first_task + " +
	"g.tasks FROM growths g WHERE g.run = w.run AND g.workflow = w.workflow ORDER BY g.first_task DESC LIMIT 1), " +
	"w.first_task + w.tasks)"

// addGrowth adds tasks that were added to a workflow, but for their own rows.
func (t *tables) addGrowth(a *executor.Admission, definition []byte) error {
	if t == nil {
		return nil
	}
	return t.exec(insertGrowth, int64(a.Spec.ID), int64(a.Arrived.Tasks[0].ID), int64(len(a.Arrived.Tasks)), definition)
}

// growth reads tasks that were added to a workflow, by the first of them, as they were admitted.
func (db *DB) growth(ctx context.Context, run int64, w planner.WorkflowID, first planner.TaskID) (*executor.Admission,
	error) {
	a, err := db.defined(ctx, "SELECT definition FROM growths WHERE run = ? AND workflow = ? AND first_task = ?", run,
		int64(w), int64(first))
	if err == nil && len(a.Arrived.Tasks) == 0 {
		err = errors.New("its definition has no task")
	}
	if err == nil {
		a.Submission.Grows = &executor.Growth{Of: w}
	}
	return a, err
}

// Rest returns the rest of a workflow of a run to which tasks were added, as a submission: the parts that came with the
// given tasks, in their order, and the numbers of their tasks. A workflow that grows has no files.
func (db *DB) Rest(ctx context.Context, run string, w planner.WorkflowID, tasks []planner.TaskID) (
	*executor.Submission, []planner.TaskID, error) {
	id, _, err := db.Find(ctx, run)
	if err != nil {
		return nil, nil, err
	}
	all, err := db.arrival(ctx, id, int64(w))
	if err != nil {
		return nil, nil, err
	}
	whole := *all
	empty := *all.Submission.Workflow
	empty.Tasks, empty.Containers = nil, nil
	all = &executor.Admission{Submission: all.Submission, Spec: all.Spec}
	all.Submission.Workflow, all.Submission.Costs = &empty, nil
	m := newMerger(all)
	for _, t := range tasks {
		if _, there := m.tasks[t]; there {
			continue
		}
		more := &whole
		if n := len(whole.Arrived.Tasks); n == 0 || t > whole.Arrived.Tasks[n-1].ID {
			if more, err = db.defined(ctx, "SELECT definition FROM growths WHERE run = ? AND workflow = ? AND "+
				"first_task <= ? ORDER BY first_task DESC LIMIT 1", id, int64(w), int64(t)); err != nil {
				return nil, nil, err
			}
		}
		m.merge(more)
	}
	if err := link(all); err != nil {
		return nil, nil, err
	}
	ids := make([]planner.TaskID, len(all.Arrived.Tasks))
	for i := range ids {
		ids[i] = all.Arrived.Tasks[i].ID
	}
	return &all.Submission, ids, nil
}

// merger appends admissions to that of their workflow.
type merger struct {
	to    *executor.Admission
	tasks map[planner.TaskID]int32 // position
}

func newMerger(a *executor.Admission) *merger {
	m := &merger{to: a, tasks: map[planner.TaskID]int32{}}
	for i := range a.Arrived.Tasks {
		m.tasks[a.Arrived.Tasks[i].ID] = int32(i)
	}
	return m
}

func (m *merger) merge(more *executor.Admission) {
	a, base := m.to, int32(len(m.to.Tasks))
	for i, t := range more.Tasks {
		t.Workflow = a.Spec
		a.Tasks = append(a.Tasks, t)
		m.tasks[more.Arrived.Tasks[i].ID] = base + int32(i)
	}
	a.Arrived.Workflow.Tasks = append(slices.Clip(a.Arrived.Workflow.Tasks), more.Arrived.Workflow.Tasks...)
	a.Arrived.Tasks = append(a.Arrived.Tasks, more.Arrived.Tasks...)
	m.trace(more.Submission.Workflow, more, base)
	a.Kinds = append(a.Kinds, more.Kinds...)
}

// trace appends the tasks of a trace, from position base on.
func (m *merger) trace(w *trace.Workflow, more *executor.Admission, base int32) {
	sub := &m.to.Submission
	to := sub.Workflow
	containers := int32(len(to.Containers))
	to.Containers = append(to.Containers, w.Containers...)
	for i := range w.Tasks {
		t := w.Tasks[i]
		if t.Container > 0 {
			t.Container += containers
		}
		t.Parents = nil
		for _, p := range more.Arrived.Tasks[i].Parents {
			if at, ok := m.tasks[p]; ok {
				t.Parents = append(t.Parents, at)
			}
		}
		to.Tasks = append(to.Tasks, t)
	}
	if sub.Costs != nil || more.Submission.Costs != nil {
		sub.Costs = append(sub.Costs, make([][]int64, int(base)-len(sub.Costs))...)
		sub.Costs = append(sub.Costs, more.Submission.Costs...)
		sub.Costs = append(sub.Costs, make([][]int64, len(to.Tasks)-len(sub.Costs))...)
	}
}
