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

// addGrowth adds tasks that were added to a workflow, but for their own rows, and the files that are new with them.
func (t *tables) addGrowth(a *executor.Admission, definition []byte) error {
	if t == nil {
		return nil
	}
	if err := t.exec(insertGrowth, int64(a.Spec.ID), int64(a.Arrived.Tasks[0].ID), int64(len(a.Arrived.Tasks)),
		definition); err != nil {
		return err
	}
	var files []*executor.FileSpec // without those that were there
	if len(a.Arrived.Files) > 0 {
		for _, f := range a.Files {
			if f.ID >= a.Arrived.Files[0].ID {
				files = append(files, f)
			}
		}
	}
	return t.addFiles(a, files)
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
// given tasks, in their order, and the numbers of their tasks. Files that other tasks wrote are from outside.
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
	empty.Files, empty.Tasks, empty.Containers = nil, nil, nil
	all = &executor.Admission{Submission: all.Submission, Spec: all.Spec}
	all.Submission.Workflow, all.Submission.Sources, all.Submission.Costs = &empty, nil, nil
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
	for i := range empty.Files {
		f := &empty.Files[i]
		f.Optional = f.Optional || f.Producer < 0
	}
	return &all.Submission, ids, nil
}

// merger appends admissions to that of their workflow.
type merger struct {
	to    *executor.Admission
	files map[planner.FileID]int // position in Files
	names map[string]int32       // position in the files of the trace
	tasks map[planner.TaskID]int32
}

func newMerger(a *executor.Admission) *merger {
	m := &merger{to: a, files: map[planner.FileID]int{}, names: map[string]int32{}, tasks: map[planner.TaskID]int32{}}
	for i, f := range a.Files {
		m.files[f.ID] = i
	}
	for i := range a.Submission.Workflow.Files {
		m.names[a.Submission.Workflow.Files[i].Name] = int32(i)
	}
	for i := range a.Arrived.Tasks {
		m.tasks[a.Arrived.Tasks[i].ID] = int32(i)
	}
	return m
}

func (m *merger) merge(more *executor.Admission) {
	a, base := m.to, int32(len(m.to.Tasks))
	a.Arrived.Files = append(a.Arrived.Files, more.Arrived.Files...)
	for _, f := range more.Files {
		if _, known := m.files[f.ID]; !known {
			m.files[f.ID] = len(a.Files)
			a.Files = append(a.Files, f)
		}
	}
	for i, t := range more.Tasks {
		t.Workflow = a.Spec
		for _, list := range [...][]*executor.FileSpec{t.Inputs, t.Outputs} {
			for k, f := range list {
				list[k] = a.Files[m.files[f.ID]]
			}
		}
		a.Tasks = append(a.Tasks, t)
		m.tasks[more.Arrived.Tasks[i].ID] = base + int32(i)
	}
	a.Arrived.Workflow.Tasks = append(slices.Clip(a.Arrived.Workflow.Tasks), more.Arrived.Workflow.Tasks...)
	a.Arrived.Tasks = append(a.Arrived.Tasks, more.Arrived.Tasks...)
	m.trace(more.Submission.Workflow, more, base)
	a.Kinds = append(a.Kinds, more.Kinds...)
}

// trace appends the tasks and files of a trace, the tasks from position base on.
func (m *merger) trace(w *trace.Workflow, more *executor.Admission, base int32) {
	sub := &m.to.Submission
	to := sub.Workflow
	if sub.Sources == nil && more.Submission.Sources != nil {
		sub.Sources = make([]executor.Source, len(to.Files))
	}
	at := make([]int32, len(w.Files))
	for i := range w.Files {
		f := w.Files[i]
		place, known := m.names[f.Name]
		if !known {
			place = int32(len(to.Files))
			if f.Producer >= 0 {
				f.Producer += base
			}
			to.Files = append(to.Files, f)
			m.names[f.Name] = place
			if sub.Sources != nil {
				var source executor.Source
				if more.Submission.Sources != nil {
					source = more.Submission.Sources[i]
				}
				sub.Sources = append(sub.Sources, source)
			}
		}
		at[i] = place
	}
	containers := int32(len(to.Containers))
	to.Containers = append(to.Containers, w.Containers...)
	for i := range w.Tasks {
		t := w.Tasks[i]
		if t.Container > 0 {
			t.Container += containers
		}
		t.Inputs, t.Outputs = moved(t.Inputs, at), moved(t.Outputs, at)
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

// moved gives positions by others.
func moved(positions, at []int32) []int32 {
	out := slices.Clone(positions)
	for i, p := range out {
		out[i] = at[p]
	}
	return out
}
