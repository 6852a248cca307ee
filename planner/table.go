package planner

import "gantry/planner/unit"

// table is a growing list in pages, by id: growing moves nothing, which for tables of all tasks of a long run is most
// of what growing costs. Ids of another kind do not index it.
type table[I ~int32, T any] struct {
	pages [][]T
	n     int
}

const (
	pageBits = 10
	pageSize = 1 << pageBits
)

func (t *table[I, T]) len() int { return t.n }

// grow appends n zero elements.
func (t *table[I, T]) grow(n int) {
	t.n += n
	for len(t.pages)*pageSize < t.n {
		t.pages = append(t.pages, make([]T, pageSize))
	}
}

func (t *table[I, T]) push(v T) {
	t.grow(1)
	t.pages[(t.n-1)>>pageBits][(t.n-1)&(pageSize-1)] = v
}

// at returns element i, which must exist. It stays where it is.
func (t *table[I, T]) at(i I) *T { return &t.pages[i>>pageBits][i&(pageSize-1)] }

// tasks is the table of all tasks. A page of tasks whose workflows have all ended is kept without links, which nobody
// asks for any more, and so without a pointer: a long stream is mostly such tasks, and the collector of garbage has
// none of them to look at.
type tasks struct {
	table[TaskID, Task]
	left []int32               // by page: tasks whose workflows have not ended
	past []*[pageSize]pastTask // by page, in place of that of the table
}

// pastTask is a Task without its links.
type pastTask struct {
	workflow                            WorkflowID
	kind                                KindID
	stage, retries                      int32
	need                                unit.Vector
	checkpointSize                      unit.Bytes
	formal, checkpointable, restartable bool
}

func (x *tasks) push(t Task) {
	x.table.push(t)
	for len(x.left) < len(x.pages) {
		x.left, x.past = append(x.left, 0), append(x.past, nil)
	}
	x.left[t.ID>>pageBits]++
}

// of returns a task, which must exist. That of a workflow that has not ended stays where it is.
func (x *tasks) of(t TaskID) *Task {
	if page := x.pages[t>>pageBits]; page != nil {
		return &page[t&(pageSize-1)]
	}
	return x.ended(t)
}

func (x *tasks) ended(t TaskID) *Task {
	p := &x.past[t>>pageBits][t&(pageSize-1)]
	return &Task{ID: t, Workflow: p.workflow, Kind: p.kind, Stage: p.stage, Need: p.need, Retries: p.retries,
		Formal:         p.formal,
		Checkpointable: p.checkpointable, CheckpointSize: p.checkpointSize, Restartable: p.restartable}
}

// end drops the links of a task whose workflow has ended.
func (x *tasks) end(t TaskID) {
	task := x.of(t)
	task.Parents, task.Children, task.Inputs, task.Outputs = nil, nil, nil, nil
	k := int(t >> pageBits)
	if x.left[k]--; x.left[k] > 0 || x.n < (k+1)*pageSize {
		return
	}
	x.past[k] = new([pageSize]pastTask)
	for i := range x.pages[k] {
		t := &x.pages[k][i]
		x.past[k][i] = pastTask{t.Workflow, t.Kind, t.Stage, t.Retries, t.Need, t.CheckpointSize, t.Formal,
			t.Checkpointable, t.Restartable}
	}
	x.pages[k] = nil
}
