package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/scenario"
)

// archive writes columns, or reads them back: one list of the members of a struct serves both.
type archive struct {
	writing bool
	out     []byte
	in      []byte  // the rest to read
	col     []int64 // memory of a column
	err     error
}

// mostRows bounds the rows that a damaged count makes.
const mostRows = 1 << 20

var errTruncated = errors.New("it is cut short or damaged")

func (x *archive) fail(err error) {
	if x.err == nil {
		x.err = err
	}
	x.in = nil
}

func (x *archive) put(v int64) { x.out = binary.AppendVarint(x.out, v) }

func (x *archive) get() int64 {
	v, n := binary.Varint(x.in)
	if n <= 0 {
		x.fail(errTruncated)
		return 0
	}
	x.in = x.in[n:]
	return v
}

// begin makes a column of n numbers; one that is read has its numbers then.
func (x *archive) begin(n int) []int64 {
	if cap(x.col) < n {
		x.col = make([]int64, n)
	}
	x.col = x.col[:n]
	if x.writing {
		return x.col
	}
	last := int64(0)
	for i := 0; i < n; {
		head := x.get()
		k := int(head >> 1)
		if x.err != nil || k < 1 || k > n-i {
			x.fail(errTruncated)
			clear(x.col[i:])
			break
		}
		step := int64(0)
		for j := range k {
			if j == 0 || head&1 == 0 {
				step = x.get()
			}
			last += step
			x.col[i] = last
			i++
		}
	}
	return x.col
}

// end writes the column, as runs of steps from number to number: a run is of equal steps, or of steps that are written
// one by one.
func (x *archive) end() {
	if !x.writing {
		return
	}
	const worth = 3 // equal steps that are worth a run of their own
	col := x.col
	n, told, last := len(col), 0, int64(0) // values before told are written; last precedes i
	for i := 0; i < n; {
		step, k := col[i]-last, i+1
		for k < n && col[k]-col[k-1] == step {
			k++
		}
		if k-i >= worth {
			x.steps(col, told, i)
			x.put(int64(k-i)<<1 | 1)
			x.put(step)
			told = k
		}
		i, last = k, col[k-1]
	}
	x.steps(col, told, n)
}

// steps writes a run of steps that are written one by one, those from one number to another.
func (x *archive) steps(col []int64, from, to int) {
	if from == to {
		return
	}
	out, last := binary.AppendVarint(x.out, int64(to-from)<<1), int64(0)
	if from > 0 {
		last = col[from-1]
	}
	for _, v := range col[from:to] {
		out, last = binary.AppendVarint(out, v-last), v
	}
	x.out = out
}

// column is one of members that become numbers.
func column[T, M any](x *archive, rows []*T, member func(*T) *M, number func(M) int64, value func(int64) M) {
	col := x.begin(len(rows))
	for i, r := range rows {
		if x.writing {
			col[i] = number(*member(r))
		} else {
			*member(r) = value(col[i])
		}
	}
	x.end()
}

func integers[T any, N ~int | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint64](x *archive, rows []*T, member func(*T) *N) {
	column(x, rows, member, func(n N) int64 { return int64(n) }, func(n int64) N { return N(n) })
}

func floats[T any](x *archive, rows []*T, member func(*T) *float64) {
	column(x, rows, member, func(f float64) int64 { return int64(math.Float64bits(f)) },
		func(n int64) float64 { return math.Float64frombits(uint64(n)) })
}

func flags[T any](x *archive, rows []*T, member func(*T) *bool) {
	column(x, rows, member, func(b bool) int64 {
		if b {
			return 1
		}
		return 0
	}, func(n int64) bool { return n != 0 })
}

// texts is a column of lengths, -1 for a text like the one before, and then the texts.
func texts[T any, S ~string](x *archive, rows []*T, member func(*T) *S) {
	const same = -1
	col, last := x.begin(len(rows)), S("")
	if x.writing {
		for i, r := range rows {
			if s := *member(r); s == last {
				col[i] = same
			} else {
				col[i], last = int64(len(s)), s
			}
		}
		x.end()
		for i, r := range rows {
			if col[i] != same {
				x.out = append(x.out, *member(r)...)
			}
		}
		return
	}
	for i, r := range rows {
		if n := col[i]; n != same {
			if n < 0 || n > int64(len(x.in)) {
				x.fail(errTruncated)
				return
			}
			last, x.in = S(x.in[:n]), x.in[n:]
		}
		*member(r) = last
	}
}

// lengths is a column of the lengths of slices, -1 for nil; those that are read are made.
func lengths[T, E any](x *archive, rows []*T, member func(*T) *[]E) (sum int) {
	col := x.begin(len(rows))
	if x.writing {
		for i, r := range rows {
			s := *member(r)
			if col[i] = int64(len(s)); s == nil {
				col[i] = -1
			}
			sum += len(s)
		}
		x.end()
		return sum
	}
	for i := range rows {
		if col[i] < -1 || col[i] > mostRows || sum > mostRows-int(max(0, col[i])) {
			x.fail(errTruncated)
			return 0
		}
		sum += int(max(0, col[i]))
	}
	all := make([]E, sum)
	for i, r := range rows {
		if n := col[i]; n >= 0 {
			*member(r), all = all[:n:n], all[n:]
		}
	}
	return sum
}

// lists is a column of lists of numbers.
func lists[T any, N ~int | ~int32 | ~int64](x *archive, rows []*T, member func(*T) *[]N) {
	n := lengths(x, rows, member)
	col, i := x.begin(n), 0
	for _, r := range rows {
		list := *member(r)
		for k := range list {
			if x.writing {
				col[i] = int64(list[k])
			} else {
				list[k] = N(col[i])
			}
			i++
		}
	}
	x.end()
}

// words is a column of lists of texts.
func words[T any](x *archive, rows []*T, member func(*T) *[]string) {
	n := lengths(x, rows, member)
	all := make([]*string, 0, n)
	for _, r := range rows {
		all = append(all, pointers(*member(r))...)
	}
	texts(x, all, func(s *string) *string { return s })
}

// optional codes whether a pointer is nil, and returns a list of the pointer; an empty one for nil.
func optional[T any](x *archive, p **T) []*T {
	set := *p != nil
	flags(x, []*bool{&set}, func(b *bool) *bool { return b })
	if !set || x.err != nil {
		return nil
	}
	if *p == nil {
		*p = new(T)
	}
	return []*T{*p}
}

func pointers[T any](s []T) []*T {
	out := make([]*T, len(s))
	for i := range s {
		out[i] = &s[i]
	}
	return out
}

func (x *archive) admission(a *executor.Admission) {
	type submission = executor.Submission
	subs := []*submission{&a.Submission}
	integers(x, subs, func(s *submission) *planner.Time { return &s.At })
	texts(x, subs, func(s *submission) *string { return &s.Name })
	texts(x, subs, func(s *submission) *string { return &s.Tenant })
	integers(x, subs, func(s *submission) *planner.Class { return &s.Class })
	integers(x, subs, func(s *submission) *planner.Time { return &s.Release })
	integers(x, subs, func(s *submission) *planner.Time { return &s.Due })
	integers(x, subs, func(s *submission) *int { return &s.Population })
	texts(x, subs, func(s *submission) *string { return &s.Inputs })
	lengths(x, subs, func(s *submission) *[][]int64 { return &s.Costs })
	lists(x, pointers(a.Submission.Costs), func(c *[]int64) *[]int64 { return c })
	place := optional(x, &a.Submission.Data)
	texts(x, place, func(p *executor.Placement) *executor.PlacementRule { return &p.Rule })
	integers(x, place, func(p *executor.Placement) *unit.Bytes { return &p.Block })
	integers(x, place, func(p *executor.Placement) *int { return &p.Replicas })
	integers(x, place, func(p *executor.Placement) *uint64 { return &p.Seed })
	preempt := optional(x, &a.Submission.Preempt)
	integers(x, preempt, func(p *scenario.Preempt) *int64 { return &p.Checkpoint })
	flags(x, preempt, func(p *scenario.Preempt) *bool { return &p.LargestInput })
	flags(x, preempt, func(p *scenario.Preempt) *bool { return &p.None })
	flags(x, preempt, func(p *scenario.Preempt) *bool { return &p.Restart })
	words(x, subs, func(s *submission) *[]string { return &s.Dirs })
	lengths(x, subs, func(s *submission) *[]executor.Source { return &s.Sources })
	sources := pointers(a.Submission.Sources)
	type source = executor.Source
	texts(x, sources, func(s *source) *string { return &s.Path })
	texts(x, sources, func(s *source) *string { return &s.URL })
	integers(x, sources, func(s *source) *int64 { return &s.Size })
	integers(x, sources, func(s *source) *int64 { return &s.Modified })
	texts(x, sources, func(s *source) *string { return &s.SHA256 })
	flags(x, subs, func(s *submission) *bool { return &s.RejectLate })
	by := optional(x, &a.Submission.By)
	integers(x, by, func(u *executor.User) *int { return &u.UID })
	integers(x, by, func(u *executor.User) *int { return &u.GID })
	lists(x, by, func(u *executor.User) *[]int { return &u.Groups })
	x.traced(optional(x, &a.Submission.Workflow))
	x.planned(&a.Arrived)
	spec := optional(x, &a.Spec)
	integers(x, spec, func(s *executor.WorkflowSpec) *planner.WorkflowID { return &s.ID })
	texts(x, spec, func(s *executor.WorkflowSpec) *string { return &s.Name })
	texts(x, spec, func(s *executor.WorkflowSpec) *string { return &s.Label })
	if a.Spec != nil {
		a.Spec.By = a.Submission.By
	}
	x.files(a)
	x.tasks(a)
	words(x, []*executor.Admission{a}, func(a *executor.Admission) *[]string { return &a.Kinds })
}

// traced is the workflow as its trace describes it.
func (x *archive) traced(flows []*trace.Workflow) {
	type workflow = trace.Workflow
	texts(x, flows, func(w *workflow) *string { return &w.Name })
	texts(x, flows, func(w *workflow) *string { return &w.Label })
	texts(x, flows, func(w *workflow) *string { return &w.Source })
	integers(x, flows, func(w *workflow) *trace.Format { return &w.Format })
	texts(x, flows, func(w *workflow) *string { return &w.Version })
	flags(x, flows, func(w *workflow) *bool { return &w.OpaqueNames })
	integers(x, flows, func(w *workflow) *int { return &w.FileEdges })
	integers(x, flows, func(w *workflow) *time.Duration { return &w.Makespan })
	texts(x, flows, func(w *workflow) *string { return &w.ExecutedAt })
	lengths(x, flows, func(w *workflow) *[]trace.File { return &w.Files })
	lengths(x, flows, func(w *workflow) *[]trace.Task { return &w.Tasks })
	words(x, flows, func(w *workflow) *[]string { return &w.Catalogs })
	words(x, flows, func(w *workflow) *[]string { return &w.Obstacles })
	lengths(x, flows, func(w *workflow) *[]trace.Container { return &w.Containers })
	for _, w := range flows {
		x.containers(pointers(w.Containers))
		files := pointers(w.Files)
		texts(x, files, func(f *trace.File) *string { return &f.Name })
		integers(x, files, func(f *trace.File) *int64 { return &f.Size })
		flags(x, files, func(f *trace.File) *bool { return &f.Sized })
		flags(x, files, func(f *trace.File) *bool { return &f.Imputed })
		integers(x, files, func(f *trace.File) *int32 { return &f.Producer })
		x.origins(files)
		integers(x, files, func(f *trace.File) *trace.Keep { return &f.Keep })
		flags(x, files, func(f *trace.File) *bool { return &f.Checkpoint })
		flags(x, files, func(f *trace.File) *bool { return &f.Optional })
		x.tracedTasks(pointers(w.Tasks))
	}
}

// tracedTasks are those of the workflow as its trace describes them.
func (x *archive) tracedTasks(tasks []*trace.Task) {
	type task = trace.Task
	texts(x, tasks, func(t *task) *string { return &t.ID })
	texts(x, tasks, func(t *task) *string { return &t.Name })
	texts(x, tasks, func(t *task) *string { return &t.Kind })
	integers(x, tasks, func(t *task) *int { return &t.Line })
	lists(x, tasks, func(t *task) *[]int32 { return &t.Parents })
	lists(x, tasks, func(t *task) *[]int32 { return &t.Children })
	lists(x, tasks, func(t *task) *[]int32 { return &t.Inputs })
	lists(x, tasks, func(t *task) *[]int32 { return &t.Outputs })
	integers(x, tasks, func(t *task) *time.Duration { return &t.Runtime })
	integers(x, tasks, func(t *task) *time.Duration { return &t.Overhead })
	floats(x, tasks, func(t *task) *float64 { return &t.Cores })
	integers(x, tasks, func(t *task) *int64 { return &t.MemoryBytes })
	floats(x, tasks, func(t *task) *float64 { return &t.AvgCPU })
	integers(x, tasks, func(t *task) *int64 { return &t.ReadBytes })
	integers(x, tasks, func(t *task) *int64 { return &t.WrittenBytes })
	words(x, tasks, func(t *task) *[]string { return &t.Command })
	flags(x, tasks, func(t *task) *bool { return &t.Shell })
	texts(x, tasks, func(t *task) *string { return &t.Image })
	words(x, tasks, func(t *task) *[]string { return &t.Env })
	texts(x, tasks, func(t *task) *string { return &t.Stdin })
	texts(x, tasks, func(t *task) *string { return &t.Stdout })
	texts(x, tasks, func(t *task) *string { return &t.Stderr })
	integers(x, tasks, func(t *task) *time.Duration { return &t.TimeLimit })
	integers(x, tasks, func(t *task) *int { return &t.Retries })
	integers(x, tasks, func(t *task) *int64 { return &t.DiskBps })
	integers(x, tasks, func(t *task) *int32 { return &t.Phase })
	flags(x, tasks, func(t *task) *bool { return &t.SubWorkflow })
	integers(x, tasks, func(t *task) *trace.Fields { return &t.Known })
	integers(x, tasks, func(t *task) *trace.Fields { return &t.Imputed })
	flags(x, tasks, func(t *task) *bool { return &t.Expand })
	integers(x, tasks, func(t *task) *int32 { return &t.Container })
	renames(x, tasks, func(t *task) *[]trace.Rename { return &t.Renames })
	integers(x, tasks, func(t *task) *int64 { return &t.DiskLimit })
}

// origins codes the origins of the files that catalogs know.
func (x *archive) origins(files []*trace.File) {
	type origin = trace.Origin
	known := make([]bool, len(files))
	for i, f := range files {
		known[i] = f.Origin != nil
	}
	flags(x, pointers(known), func(b *bool) *bool { return b })
	var all []*origin
	for i, f := range files {
		if known[i] && f.Origin == nil {
			f.Origin = new(origin)
		}
		if known[i] {
			all = append(all, f.Origin)
		}
	}
	words(x, all, func(o *origin) *[]string { return &o.Locations })
	texts(x, all, func(o *origin) *string { return &o.SHA256 })
	texts(x, all, func(o *origin) *string { return &o.Program })
}

// containers are those that the catalogs of a workflow name.
func (x *archive) containers(all []*trace.Container) {
	type container = trace.Container
	texts(x, all, func(c *container) *string { return &c.Name })
	texts(x, all, func(c *container) *string { return &c.Image })
	texts(x, all, func(c *container) *string { return &c.SHA256 })
	words(x, all, func(c *container) *[]string { return &c.Mounts })
	texts(x, all, func(c *container) *string { return &c.Source })
	integers(x, all, func(c *container) *int { return &c.Line })
}

// planned is the workflow as the planner knows it.
func (x *archive) planned(a *planner.WorkflowArrived) {
	type workflow = planner.Workflow
	flows := []*workflow{&a.Workflow}
	integers(x, flows, func(w *workflow) *planner.WorkflowID { return &w.ID })
	integers(x, flows, func(w *workflow) *planner.TenantID { return &w.Tenant })
	integers(x, flows, func(w *workflow) *planner.Class { return &w.Class })
	integers(x, flows, func(w *workflow) *planner.Time { return &w.Arrived })
	integers(x, flows, func(w *workflow) *planner.Time { return &w.Release })
	integers(x, flows, func(w *workflow) *planner.Time { return &w.Due })
	lists(x, flows, func(w *workflow) *[]planner.TaskID { return &w.Tasks })
	flags(x, flows, func(w *workflow) *bool { return &w.RejectLate })

	self := []*planner.WorkflowArrived{a}
	lengths(x, self, func(a *planner.WorkflowArrived) *[]planner.File { return &a.Files })
	lengths(x, self, func(a *planner.WorkflowArrived) *[]planner.Task { return &a.Tasks })
	files := pointers(a.Files)
	integers(x, files, func(f *planner.File) *planner.FileID { return &f.ID })
	integers(x, files, func(f *planner.File) *unit.Bytes { return &f.Size })
	integers(x, files, func(f *planner.File) *planner.TaskID { return &f.Producer })
	lists(x, files, func(f *planner.File) *[]planner.NodeID { return &f.Homes })
	x.plannedTasks(pointers(a.Tasks))
}

// plannedTasks are those of the workflow as the planner knows them.
func (x *archive) plannedTasks(tasks []*planner.Task) {
	type task = planner.Task
	integers(x, tasks, func(t *task) *planner.TaskID { return &t.ID })
	integers(x, tasks, func(t *task) *planner.WorkflowID { return &t.Workflow })
	integers(x, tasks, func(t *task) *planner.KindID { return &t.Kind })
	integers(x, tasks, func(t *task) *int32 { return &t.Stage })
	for dim := range len(unit.Vector{}) {
		integers(x, tasks, func(t *task) *int64 { return &t.Need[dim] })
	}
	lists(x, tasks, func(t *task) *[]planner.TaskID { return &t.Parents })
	lists(x, tasks, func(t *task) *[]planner.TaskID { return &t.Children })
	lists(x, tasks, func(t *task) *[]planner.FileID { return &t.Inputs })
	lists(x, tasks, func(t *task) *[]planner.FileID { return &t.Outputs })
	integers(x, tasks, func(t *task) *int32 { return &t.Retries })
	flags(x, tasks, func(t *task) *bool { return &t.Formal })
	flags(x, tasks, func(t *task) *bool { return &t.Checkpointable })
	integers(x, tasks, func(t *task) *unit.Bytes { return &t.CheckpointSize })
	flags(x, tasks, func(t *task) *bool { return &t.Restartable })
	integers(x, tasks, func(t *task) *unit.Bytes { return &t.DeclaredMemory })
}

// files are those of the workflow as the executor knows them.
func (x *archive) files(a *executor.Admission) {
	type file = executor.FileSpec
	made(x, &a.Files)
	integers(x, a.Files, func(f *file) *planner.FileID { return &f.ID })
	texts(x, a.Files, func(f *file) *string { return &f.Name })
	integers(x, a.Files, func(f *file) *unit.Bytes { return &f.Size })
	flags(x, a.Files, func(f *file) *bool { return &f.Sized })
	texts(x, a.Files, func(f *file) *string { return &f.External })
	flags(x, a.Files, func(f *file) *bool { return &f.Produced })
	flags(x, a.Files, func(f *file) *bool { return &f.Final })
	lists(x, a.Files, func(f *file) *[]planner.NodeID { return &f.Homes })
	integers(x, a.Files, func(f *file) *int32 { return &f.Block })
	integers(x, a.Files, func(f *file) *int32 { return &f.Blocks })
	integers(x, a.Files, func(f *file) *unit.Bytes { return &f.From })
	integers(x, a.Files, func(f *file) *unit.Bytes { return &f.To })
	integers(x, a.Files, func(f *file) *int64 { return &f.Modified })
	texts(x, a.Files, func(f *file) *string { return &f.Program })
	flags(x, a.Files, func(f *file) *bool { return &f.Checkpoint })
	flags(x, a.Files, func(f *file) *bool { return &f.Optional })
	flags(x, a.Files, func(f *file) *bool { return &f.Glob })
}

// tasks are those of the workflow as the executor knows them.
func (x *archive) tasks(a *executor.Admission) {
	made(x, &a.Tasks)
	x.of(a)
	type task = executor.TaskSpec
	tasks := a.Tasks
	texts(x, tasks, func(t *task) *string { return &t.Name })
	texts(x, tasks, func(t *task) *string { return &t.Kind })
	words(x, tasks, func(t *task) *[]string { return &t.Command })
	flags(x, tasks, func(t *task) *bool { return &t.Shell })
	texts(x, tasks, func(t *task) *string { return &t.Image })
	words(x, tasks, func(t *task) *[]string { return &t.Env })
	texts(x, tasks, func(t *task) *string { return &t.Stdin })
	texts(x, tasks, func(t *task) *string { return &t.Stdout })
	texts(x, tasks, func(t *task) *string { return &t.Stderr })
	flags(x, tasks, func(t *task) *bool { return &t.Network })
	place := map[*executor.FileSpec]int64{}
	if x.writing {
		for i, f := range a.Files {
			place[f] = int64(i)
		}
	}
	x.references(a, tasks, place, func(t *task) *[]*executor.FileSpec { return &t.Inputs })
	x.references(a, tasks, place, func(t *task) *[]*executor.FileSpec { return &t.Outputs })
	integers(x, tasks, func(t *task) *time.Duration { return &t.TimeLimit })
	integers(x, tasks, func(t *task) *int64 { return &t.Cores })
	floats(x, tasks, func(t *task) *float64 { return &t.AvgCPU })
	integers(x, tasks, func(t *task) *unit.Bytes { return &t.Memory })
	integers(x, tasks, func(t *task) *time.Duration { return &t.Declared })
	integers(x, tasks, func(t *task) *time.Duration { return &t.Run })
	integers(x, tasks, func(t *task) *time.Duration { return &t.Overhead })
	lists(x, tasks, func(t *task) *[]time.Duration { return &t.RunOn })
	flags(x, tasks, func(t *task) *bool { return &t.Unknown })
	flags(x, tasks, func(t *task) *bool { return &t.Expand })
	words(x, tasks, func(t *task) *[]string { return &t.Mounts })
	renames(x, tasks, func(t *task) *[]trace.Rename { return &t.Renames })
	integers(x, tasks, func(t *task) *int64 { return &t.DiskLimit })
}

// renames is a column of lists of renames.
func renames[T any](x *archive, rows []*T, member func(*T) *[]trace.Rename) {
	all := make([]*trace.Rename, 0, lengths(x, rows, member))
	for _, r := range rows {
		all = append(all, pointers(*member(r))...)
	}
	texts(x, all, func(r *trace.Rename) *string { return &r.File })
	texts(x, all, func(r *trace.Rename) *string { return &r.As })
}

// made is the length of a list of pointers; those that are read are made.
func made[T any](x *archive, s *[]*T) {
	lengths(x, []*[]*T{s}, func(s *[]*T) *[]*T { return s })
	if !x.writing {
		copy(*s, pointers(make([]T, len(*s))))
	}
}

// of says which tasks have the workflow of the admission.
func (x *archive) of(a *executor.Admission) {
	col := x.begin(len(a.Tasks))
	for i, t := range a.Tasks {
		switch {
		case !x.writing && col[i] != 0:
			t.Workflow = a.Spec
		case x.writing && t.Workflow == nil:
			col[i] = 0
		case x.writing && t.Workflow == a.Spec:
			col[i] = 1
		case x.writing:
			x.fail(fmt.Errorf("task %s is not the workflow's", t.Name))
		}
	}
	x.end()
}

// references gives files by their position in the workflow.
func (x *archive) references(a *executor.Admission, tasks []*executor.TaskSpec, place map[*executor.FileSpec]int64,
	member func(*executor.TaskSpec) *[]*executor.FileSpec) {
	col, i := x.begin(lengths(x, tasks, member)), 0
	for _, t := range tasks {
		files := *member(t)
		for k := range files {
			if x.writing {
				at, ok := place[files[k]]
				if !ok {
					x.fail(fmt.Errorf("task %s refers to a file that is not the workflow's", t.Name))
				}
				col[i] = at
			} else if col[i] < 0 || int(col[i]) >= len(a.Files) {
				x.fail(fmt.Errorf("task %s refers to file %d of %d", t.Name, col[i], len(a.Files)))
				return
			} else {
				files[k] = a.Files[col[i]]
			}
			i++
		}
	}
	x.end()
}
