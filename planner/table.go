package planner

import "gantry/planner/unit"

// Extend returns a list of at least n elements: s, and as many zero ones as it lacks.
func Extend[T any](s []T, n int) []T { return append(s, make([]T, max(0, n-len(s)))...) }

// table is a growing list in pages, by id: growing moves nothing, which for tables of all tasks of a long run is most
// of the cost. Ids of another kind do not index it. Pages of ended elements are packed.
type table[I ~int32, T any] struct {
	pages  []*[pageSize]T
	packed []packed // by page, in place of that of pages; shorter if no later page is packed
	n      int
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
		t.pages = append(t.pages, new([pageSize]T))
	}
}

// push appends a zero element, to be filled where it lies.
func (t *table[I, T]) push() *T {
	t.grow(1)
	return t.open(I(t.n - 1))
}

// at returns element i, which must exist. It stays where it is; of a packed page it is a copy.
func (t *table[I, T]) at(i I) *T {
	if page := t.pages[i>>pageBits]; page != nil {
		return &page[i&(pageSize-1)]
	}
	return t.unpacked(i)
}

// open is at where the page is not packed, as something of it can still change: it is compiled into its callers.
func (t *table[I, T]) open(i I) *T { return &t.pages[i>>pageBits][i&(pageSize-1)] }

func (t *table[I, T]) unpacked(i I) *T {
	out := make([]T, 1)
	t.packed[i>>pageBits].row(int(i&(pageSize-1)), words(out))
	return &out[0]
}

// pack keeps a full page in little memory. It is not written to any more.
func (t *table[I, T]) pack(k int) {
	t.packed = Extend(t.packed, k+1)
	t.packed[k] = pack(words(t.pages[k][:]), pageSize)
	t.pages[k] = nil
}

// unpack lets a page be written to again.
func (t *table[I, T]) unpack(k int) {
	page := new([pageSize]T)
	all := words(page[:])
	size := len(all) / pageSize
	for i := range page {
		t.packed[k].row(i, all[i*size:(i+1)*size])
	}
	t.pages[k], t.packed[k] = page, packed{}
}

// attempts is the table of all attempts. Pages of those that are over are packed.
type attempts struct {
	table[AttemptID, Attempt]
	over []int32 // by page
}

// end takes in that an attempt is over: nothing of it changes any more.
func (x *attempts) end(a AttemptID) {
	k := int(a >> pageBits)
	x.over = Extend(x.over, k+1)
	if x.over[k]++; x.over[k] == pageSize {
		x.pack(k)
	}
}

// tasks is the table of all tasks. A page of tasks whose workflows have all ended is kept without links, which nobody
// asks for any more, and packed: a long stream is mostly such tasks.
type tasks struct {
	table[TaskID, Task]
	left []int32 // by page: tasks whose workflows have not ended
	past table[TaskID, pastTask]
}

// pastTask is a Task without its links.
type pastTask struct {
	workflow                            WorkflowID
	kind                                KindID
	stage, retries                      int32
	need                                unit.Vector
	reads, checkpointSize               unit.Bytes
	formal, checkpointable, restartable bool
}

func (x *tasks) push(t *Task) {
	*x.table.push() = *t
	x.left, x.past.pages = Extend(x.left, len(x.pages)), Extend(x.past.pages, len(x.pages))
	x.left[t.ID>>pageBits]++
}

// of returns a task, which must exist. A task of a workflow that has not ended stays where it is.
func (x *tasks) of(t TaskID) *Task {
	if page := x.pages[t>>pageBits]; page != nil {
		return &page[t&(pageSize-1)]
	}
	return x.ended(t)
}

func (x *tasks) ended(t TaskID) *Task {
	p := x.past.at(t)
	return &Task{ID: t, Workflow: p.workflow, Kind: p.kind, Stage: p.stage, Need: p.need, Retries: p.retries,
		Reads: p.reads, Formal: p.formal, Checkpointable: p.checkpointable, CheckpointSize: p.checkpointSize,
		Restartable: p.restartable}
}

// end drops the links of a task whose workflow has ended. It reports whether that was the last one of its page, which
// then is packed.
func (x *tasks) end(t TaskID) bool {
	task := x.open(t)
	task.Parents, task.Children, task.Inputs, task.Outputs = nil, nil, nil, nil
	k := int(t >> pageBits)
	if x.left[k]--; x.left[k] > 0 || x.n < (k+1)*pageSize {
		return false
	}
	page := new([pageSize]pastTask)
	for i := range page {
		t := &x.pages[k][i]
		page[i] = pastTask{t.Workflow, t.Kind, t.Stage, t.Retries, t.Need, t.Reads, t.CheckpointSize, t.Formal,
			t.Checkpointable, t.Restartable}
	}
	x.past.pages[k], x.pages[k] = page, nil
	x.past.pack(k)
	return true
}
