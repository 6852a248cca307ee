package sqlite

import (
	"bytes"
	"time"
	"unsafe"

	"gantry/executor"
	"gantry/planner"
	"gantry/trace"
)

// plain reports whether the tasks of an admission differ only in what differences has. Its definition has one task
// without these members, and of all tasks what differs: drawn streams have thousands of such workflows.
func plain(a *executor.Admission) bool {
	w := a.Submission.Workflow
	if w == nil || !w.Plain || len(w.Tasks) == 0 || len(a.Tasks) != len(w.Tasks) || len(a.Files) > 0 ||
		a.Submission.Costs != nil || a.Grown() {
		return false
	}
	first := &a.Arrived.Tasks[0]
	for i := range a.Arrived.Tasks {
		t := &a.Arrived.Tasks[i]
		if t.Formal || t.Need != first.Need || t.DeclaredMemory != first.DeclaredMemory {
			return false
		}
	}
	return true
}

// template is a task without what differs from that of other plain tasks.
type template struct {
	traced  trace.Task
	planned planner.Task
	spec    executor.TaskSpec
	encoded []byte
}

// plainCount is how many plain tasks follow; 0: they are not plain.
func (x *archive) plainCount() int {
	n := x.get()
	if n < 0 || n > mostRows {
		x.fail(errTruncated)
		return 0
	}
	return int(n)
}

// plainTasks is the definition of an admission of n plain tasks.
func (x *archive) plainTasks(a *executor.Admission, n int) {
	if x.writing {
		x.head, x.flow = *a, *a.Submission.Workflow
		x.flow.Tasks, x.head.Tasks, x.head.Arrived.Tasks = nil, nil, nil
		x.head.Submission.Workflow = &x.flow
		x.admission(&x.head)
		x.putTemplate(a)
		x.differences(a)
		return
	}
	x.admission(a)
	w := a.Submission.Workflow
	if x.err == nil && (w == nil || len(w.Tasks)+len(a.Tasks)+len(a.Arrived.Tasks) > 0 ||
		len(a.Arrived.Workflow.Tasks) != n) {
		x.fail(errTruncated)
	}
	if x.err != nil {
		return
	}
	var t template
	x.template(a, &t)
	w.Plain, w.Tasks, a.Arrived.Tasks = true, copies(t.traced, n), copies(t.planned, n)
	a.Tasks = pointers(copies(t.spec, n))
	x.differences(a)
	if x.err == nil && !related(a) {
		x.fail(errTruncated)
	}
}

func (x *archive) template(a *executor.Admission, t *template) {
	x.tracedTasks([]*trace.Task{&t.traced})
	x.plannedTasks([]*planner.Task{&t.planned})
	x.specs(a, []*executor.TaskSpec{&t.spec})
}

// putTemplate writes that of the tasks of an admission, mostly the same as the last one.
func (x *archive) putTemplate(a *executor.Admission) {
	t, last := &x.next, &x.usual
	r, p, s := &t.traced, &t.planned, &t.spec
	*r, *p, *s = a.Submission.Workflow.Tasks[0], a.Arrived.Tasks[0], *a.Tasks[0]
	r.ID, r.Name, r.Kind, r.Parents, r.Children, r.Runtime, r.Phase = "", "", "", nil, nil, 0, 0
	p.ID, p.Workflow, p.Kind, p.Stage, p.Parents, p.Children = 0, 0, 0, 0, nil, nil
	s.Workflow, s.Name, s.Kind, s.Declared, s.Run = nil, "", "", 0, 0
	if len(last.encoded) > 0 && same(r, &last.traced) && same(p, &last.planned) && same(s, &last.spec) {
		x.out = append(x.out, last.encoded...)
		return
	}
	from := len(x.out)
	x.template(a, t)
	t.encoded = bytes.Clone(x.out[from:])
	x.usual = *t
}

// same reports whether two structs are the same in memory.
func same[T any](a, b *T) bool {
	size := unsafe.Sizeof(*a)
	return bytes.Equal(unsafe.Slice((*byte)(unsafe.Pointer(a)), size), unsafe.Slice((*byte)(unsafe.Pointer(b)), size))
}

// differences are the members of plain tasks that may differ, but for those that follow from them.
func (x *archive) differences(a *executor.Admission) {
	x.varied = true
	tasks, planned := pointersIn(x.traces, a.Submission.Workflow.Tasks), pointersIn(x.plans, a.Arrived.Tasks)
	x.traces, x.plans = tasks, planned
	texts(x, tasks, func(t *trace.Task) *string { return &t.Kind })
	lists(x, tasks, func(t *trace.Task) *[]int32 { return &t.Parents })
	integers(x, tasks, func(t *trace.Task) *time.Duration { return &t.Runtime })
	integers(x, tasks, func(t *trace.Task) *int32 { return &t.Phase })
	integers(x, planned, func(t *planner.Task) *planner.KindID { return &t.Kind })
	integers(x, planned, func(t *planner.Task) *int32 { return &t.Stage })
	integers(x, a.Tasks, func(t *executor.TaskSpec) *time.Duration { return &t.Declared })
	col := x.begin(len(tasks))
	for i, t := range a.Tasks {
		if x.writing {
			col[i] = int64(t.Run - tasks[i].Runtime)
		} else {
			t.Run = tasks[i].Runtime + time.Duration(col[i])
		}
	}
	x.end()
	x.varied = false
}

// related makes of plain tasks what follows from their differences; false if parents are no tasks of the workflow.
func related(a *executor.Admission) bool {
	tasks, planned := a.Submission.Workflow.Tasks, a.Arrived.Tasks
	first, kids := a.Arrived.Workflow.Tasks[0], make([]int, len(tasks)) // numbers of children
	for _, t := range a.Arrived.Workflow.Tasks {
		first = min(first, t)
	}
	for i := range tasks {
		for _, p := range tasks[i].Parents {
			if p < 0 || int(p) >= len(tasks) {
				return false
			}
			kids[p]++
		}
	}
	for i, n := range kids {
		if n > 0 {
			tasks[i].Children, planned[i].Children = make([]int32, 0, n), make([]planner.TaskID, 0, n)
		}
	}
	trace.Number(tasks)
	for i := range tasks {
		t, p, s := &tasks[i], &planned[i], a.Tasks[i]
		t.Name = t.Kind
		p.ID, p.Workflow = first+planner.TaskID(i), a.Arrived.Workflow.ID
		s.Workflow, s.Name, s.Kind = a.Spec, t.ID, t.Kind
		for _, parent := range t.Parents {
			p.Parents = append(p.Parents, first+planner.TaskID(parent))
			tasks[parent].Children = append(tasks[parent].Children, int32(i))
			planned[parent].Children = append(planned[parent].Children, p.ID)
		}
	}
	return true
}

// copies is a value n times.
func copies[T any](v T, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = v
	}
	return out
}
