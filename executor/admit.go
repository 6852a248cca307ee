package executor

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/reader"
	"gantry/trace/scenario"
	"gantry/trace/shown"
)

// Admitter turns submissions into tasks for the planner and specifications for a runtime. It gives ids in order of
// admission; the same submissions in the same order get the same ids, so that a resumed run is the same run.
type Admitter struct {
	Platform  *planner.Platform
	TimeScale float64  // of emulated tasks: 0.1 is ten times as fast
	SizeScale float64  // of emulated files and memory
	Image     string   // of commands whose trace names none; "" leaves those to the emulator
	Emulate   bool     // never run commands
	Env       []string // NAME=value, of all commands, over that of their trace
	Shell     []string // words of the shell of commands whose trace names none; nil: trace.Strict
	Mounts    []string // HOST:CONTAINER, read-only, of all commands
	Networks  []string // rules as Networked takes them
	Tokens    []Token  // that there are
	Needs     []string // rules of the tokens that tasks need
	GPUs      []string // rules of the GPUs of tasks, as CheckGPUs takes them
	// NoGPUs, if set, says why no node has a GPU.
	NoGPUs    func() string
	SafeNames bool // refuse file names that leave the run directory; simulation has no files
	Fit       bool // cut needs down to the largest node instead of refusing
	// Preempt says how tasks may be preempted whose submission does not: emulated ones leave a checkpoint, programs
	// never do.
	Preempt scenario.Preempt
	// Declare, if set, tells the estimator the declared runtimes of a task.
	Declare func(t planner.TaskID, run time.Duration, on []time.Duration, source planner.Source)
	Oracle  bool // it is told true runtimes where users gave estimates
	// Undeclared says that traces with estimates have measurements: policies knew only those estimates, and as much of
	// the sizes of inputs as the trace says.
	Undeclared bool
	// Forget tells it that the workflow of a task has ended; nil if nobody wants to know.
	Forget func(t planner.TaskID)
	// Lasts, if set, returns how long a task lasts on a node, alone there, if reading or writing holds it back:
	// emulated tasks are declared to run at least as long. It returns 0 for others.
	Lasts func(l *Launch) time.Duration
	// Actual, if set, says how long a task really runs that is declared to run for the given time. It is asked once the
	// task was declared, and concerns emulated or simulated tasks: programs run as long as they do.
	Actual func(t planner.TaskID, run time.Duration) time.Duration
	// Memory, if set, may limit a task of that kind, with that need and input, to another amount of memory than its
	// trace declares, and says what its next try gets at least if the task runs out of that.
	Memory func(kind string, need unit.Vector, input unit.Bytes) (limit, next unit.Bytes, ok bool)
	// Named receives the name of every kind when it first appears; nil if nobody wants to know.
	Named func(k planner.KindID, name string)

	workflows planner.WorkflowID
	tasks     planner.TaskID
	files     planner.FileID
	kinds     map[string]planner.KindID
	tenants   map[string]planner.TenantID
	called    []string                      // names of tenants, by id
	shares    map[unit.Vector]unit.Vector   // by need: the result of share
	slowest   float64                       // speed of a node
	narrowest float64                       // bytes per second of a link or a disk
	biggest   map[unit.Vector]*planner.Node // by cores and GPUs: the result of largest
	// of the workflow at hand: where each file of its trace begins; empty: at its own position
	blocks []int32
}

// checkpointSize returns the size of the checkpoint of a task with those inputs, size scale applied.
func (a *Admitter) checkpointSize(p *scenario.Preempt, w *trace.Workflow, inputs []int32) unit.Bytes {
	if !p.LargestInput {
		return a.scaledSize(p.Checkpoint)
	}
	var largest unit.Bytes
	for _, f := range inputs {
		largest = max(largest, a.scaledSize(w.Files[f].Size))
	}
	return largest
}

// EmulatorMemory is the memory that an emulated task may use beyond that of its trace: the emulator's own, and the page
// cache of its files.
const EmulatorMemory = 32 << 20

// MinMemory is the least memory limit of a container.
const MinMemory = scenario.LeastMemory

// Resume takes over from an earlier admission: ids continue after it. It is called for each, in order.
func (a *Admitter) Resume(adm *Admission) {
	a.prepare()
	a.workflows = max(a.workflows, adm.Arrived.Workflow.ID+1)
	a.tasks += planner.TaskID(len(adm.Arrived.Tasks))
	a.files += planner.FileID(len(adm.Arrived.Files))
	for _, k := range adm.Kinds {
		a.name(k)
	}
	if !adm.Grown() {
		a.tenantIs(adm.Submission.Tenant, adm.Arrived.Workflow.Tenant)
	}
	a.declare(adm)
}

func (a *Admitter) tenantIs(name string, m planner.TenantID) {
	a.tenants[name] = m
	a.called = planner.Extend(a.called, int(m)+1)
	a.called[m] = name
}

// TenantName is the name of a tenant that was admitted.
func (a *Admitter) TenantName(m planner.TenantID) string {
	if m < 0 || int(m) >= len(a.called) {
		return ""
	}
	return a.called[m]
}

func (a *Admitter) prepare() {
	if a.kinds == nil {
		a.kinds, a.tenants = map[string]planner.KindID{}, map[string]planner.TenantID{}
		a.shares, a.biggest = map[unit.Vector]unit.Vector{}, map[unit.Vector]*planner.Node{}
		a.slowness()
	}
}

// declare tells the estimator the declared runtimes of the tasks.
func (a *Admitter) declare(adm *Admission) {
	if a.Declare == nil {
		return
	}
	for i, spec := range adm.Tasks {
		source := planner.SourceDeclared
		if adm.Submission.Workflow.Tasks[i].Imputed.Has(trace.Runtime) {
			source = planner.SourceDefault
		}
		// The specification may hold the actual runtime instead.
		scale := a.TimeScale
		if len(spec.Command) > 0 {
			scale = 1
		}
		run, on := declaredRuns(&adm.Submission, i, scale)
		switch {
		case a.Oracle:
		case spec.Declared > 0:
			run = spec.Declared
		case a.undeclared(adm.Submission.Workflow):
			run, on, source = trace.UnknownRuntime, nil, planner.SourceDefault
		}
		if a.Lasts != nil && spec.Emulated() {
			run, on = a.heldBack(&adm.Arrived.Tasks[i], spec, run, on)
		}
		a.Declare(adm.Arrived.Tasks[i].ID, run, on, source)
	}
}

func (a *Admitter) undeclared(w *trace.Workflow) bool { return a.Undeclared && w.Estimates != nil }

// heldBack makes declared runs as long as reading and writing take. That time does not follow the speed of nodes:
// unless all have speed 1 and the same run, each gets a run of its own then.
func (a *Admitter) heldBack(t *planner.Task, spec *TaskSpec, run time.Duration, on []time.Duration) (time.Duration,
	[]time.Duration) {
	nodes := a.Platform.Nodes
	each, longer, alike := make([]time.Duration, len(nodes)), false, on == nil
	for n := range nodes {
		if each[n] = unit.AtSpeed(run, nodes[n].Speed); on != nil {
			each[n] = on[n]
		}
		l := Launch{Attempt: planner.None, Task: t.ID, Try: 1, Node: planner.NodeID(n), Hold: t.Need, Spec: spec}
		if least := a.Lasts(&l); least > each[n] {
			each[n], longer = least, true
		}
		alike = alike && nodes[n].Speed == 1 && each[n] == each[0]
	}
	switch {
	case !longer:
		return run, on
	case alike:
		return each[0], nil
	}
	return run, each
}

// declaredRuns is how long task i of a submission is declared to run on a node of speed 1, and on each node where there
// is a cost matrix.
func declaredRuns(sub *Submission, i int, scale float64) (run time.Duration, on []time.Duration) {
	if sub.Costs != nil && sub.Costs[i] != nil {
		on = make([]time.Duration, len(sub.Costs[i]))
		for n, c := range sub.Costs[i] {
			on[n] = scaled(time.Duration(c), scale)
		}
	}
	return scaled(sub.Workflow.Tasks[i].Runtime, scale), on
}

// Truth returns how long a task really runs that is declared to run for the given times.
func (a *Admitter) Truth(t planner.TaskID, run time.Duration, on []time.Duration) (time.Duration, []time.Duration) {
	if a.Actual == nil {
		return run, on
	}
	on = slices.Clone(on)
	for n := range on {
		on[n] = a.Actual(t, on[n])
	}
	return a.Actual(t, run), on
}

// Admit numbers a workflow. An error means that it cannot run on this platform, or not safely; nothing was changed
// then.
func (a *Admitter) Admit(sub *Submission, at planner.Time) (*Admission, error) {
	return a.admit(sub, nil, at)
}

// admit numbers a workflow, or the task that is added to g.
func (a *Admitter) admit(sub *Submission, g *grown, at planner.Time) (*Admission, error) {
	w := sub.Workflow
	order, err := a.sound(sub)
	if err != nil {
		return nil, err
	}
	if err := a.located(sub); err != nil {
		return nil, err
	}
	adm := &Admission{Submission: *sub, Spec: &WorkflowSpec{ID: a.workflows, Name: sub.Name, Label: w.Label,
		By: sub.By, Results: w.Results}}
	arrived := &adm.Arrived
	arrived.Workflow = planner.Workflow{ID: a.workflows, Class: sub.Class, Arrived: at, Release: sub.Release,
		Due: sub.Due, RejectLate: sub.RejectLate}
	if sub.Due == 0 {
		arrived.Workflow.Due = unit.Never
	}
	stage := a.stages(sub, order)
	if g != nil {
		adm.Spec, arrived.Workflow = g.spec, g.flow
		if w.Tasks[0].Phase == 0 {
			stage[0] = g.stage
		}
	}
	if err := a.admitFiles(sub, adm); err != nil {
		return nil, err
	}
	reads := a.reads(w, adm, order)
	arrived.Tasks = make([]planner.Task, len(w.Tasks))
	adm.Tasks = make([]*TaskSpec, len(w.Tasks))
	specs := make([]TaskSpec, len(w.Tasks))
	preempt := cmp.Or(sub.Preempt, &a.Preempt)
	for i := range w.Tasks {
		need, err := a.task(sub, adm, i, &specs[i])
		if err != nil {
			return nil, err
		}
		adm.Tasks[i] = &specs[i]
		declared := need[unit.Memory]
		next := a.limitMemory(w.Tasks[i].Kind, &need, reads[i])
		if need[unit.Memory] != declared {
			specs[i].Declares = unit.Bytes(declared)
		}
		t := &arrived.Tasks[i]
		specs[i].Reads, t.Reads = reads[i], reads[i]
		t.ID, t.Workflow, t.Stage = a.tasks+planner.TaskID(i), adm.Spec.ID, stage[i]
		t.Need, t.NextMemory = need, next
		if t.Tokens, err = a.tokens(sub, &w.Tasks[i]); err != nil {
			return nil, err
		}
		t.Parents, t.Children = a.taskIDs(w.Tasks[i].Parents), a.taskIDs(w.Tasks[i].Children)
		if g != nil {
			t.Parents = g.parents
		}
		t.Inputs, t.Outputs = fileIDs(specs[i].Inputs), fileIDs(specs[i].Outputs)
		t.Retries, t.Tail = int32(w.Tasks[i].Retries), w.Tasks[i].Tail
		t.Restartable = preempt.Restart && !specs[i].Once(planner.Preempted)
		if g == nil && a.formal(sub, i) {
			t.Need, t.Tokens, t.Formal = unit.Vector{}, planner.Tokens{}, true
			continue
		}
		if len(specs[i].Command) == 0 && !preempt.None {
			t.Checkpointable, t.CheckpointSize = true, a.checkpointSize(preempt, w, w.Tasks[i].Inputs)
		}
	}
	// Nothing can go wrong from here on.
	for i := range w.Tasks {
		arrived.Tasks[i].Kind = a.kind(w.Tasks[i].Kind, adm)
	}
	markUnknown(adm)
	a.declare(adm)
	if a.Actual != nil {
		for i := range specs {
			specs[i].Declared = cmp.Or(specs[i].Declared, specs[i].Run)
			specs[i].Run, specs[i].RunOn = a.Truth(arrived.Tasks[i].ID, specs[i].Run, specs[i].RunOn)
		}
	}
	arrived.Workflow.Tasks = a.taskIDs(order)
	if g == nil {
		if _, ok := a.tenants[sub.Tenant]; !ok {
			a.tenantIs(sub.Tenant, planner.TenantID(len(a.tenants)))
		}
		arrived.Workflow.Tenant = a.tenants[sub.Tenant]
		a.workflows++
	}
	a.tasks += planner.TaskID(len(w.Tasks))
	a.files += planner.FileID(len(arrived.Files))
	return adm, nil
}

// Undeclared are the types of the tasks with commands of which no task has a runtime.
func Undeclared(w *trace.Workflow) map[string]bool {
	kinds := map[string]bool{}
	for i := range w.Tasks {
		if t := &w.Tasks[i]; len(t.Command) > 0 && !t.Known.Has(trace.Runtime) {
			kinds[t.Kind] = true
		}
	}
	for i := range w.Tasks {
		if t := &w.Tasks[i]; t.Known.Has(trace.Runtime) {
			delete(kinds, t.Kind)
		}
	}
	return kinds
}

// markUnknown marks programs of which nobody knows how long they run.
func markUnknown(adm *Admission) {
	if adm.Submission.Costs != nil {
		return
	}
	kinds := Undeclared(adm.Submission.Workflow)
	for _, spec := range adm.Tasks {
		spec.Unknown = !spec.Emulated() && kinds[spec.Kind]
	}
}

// formal reports whether task i is one that was added for form, as a single entry or exit: the trace says that it takes
// no time, it has neither files nor bytes to read and write, and no program runs.
func (a *Admitter) formal(sub *Submission, i int) bool {
	t := &sub.Workflow.Tasks[i]
	if _, runs := a.runs(t); runs {
		return false
	}
	if sub.Costs != nil && slices.ContainsFunc(sub.Costs[i], func(c int64) bool { return c != 0 }) {
		return false
	}
	return t.Runtime == 0 && t.Known.Has(trace.Runtime) && len(t.Inputs)+len(t.Outputs) == 0 &&
		t.ReadBytes+t.WrittenBytes == 0
}

func (a *Admitter) refuse(sub *Submission, t *trace.Task, format string, args ...any) error {
	where := ""
	if t.Line > 0 {
		where = fmt.Sprintf(" (%s, line %d)", sub.Workflow.Source, t.Line)
	}
	return fmt.Errorf("workflow %s: task %s%s %s", sub.Name, t.ID, where, fmt.Sprintf(format, args...))
}

func (a *Admitter) admitFiles(sub *Submission, adm *Admission) error {
	w := sub.Workflow
	adm.Files = make([]*FileSpec, 0, len(w.Files))
	adm.Arrived.Files = make([]planner.File, 0, len(w.Files))
	specs := make([]FileSpec, len(w.Files))
	a.blocks = a.blocks[:0]
	var r *rand.Rand
	if sub.Data != nil {
		r = rand.New(rand.NewPCG(sub.Data.Seed, placementStream))
	}
	read := make([]bool, len(w.Files))
	split := 0
	inPlace := make([]bool, len(w.Files)) // a task rewrites its input: the first version comes from outside
	for i := range w.Tasks {
		for _, f := range w.Tasks[i].Inputs {
			own := w.Files[f].Producer == int32(i)
			inPlace[f] = inPlace[f] || own
			read[f] = read[f] || !own
		}
	}
	for i := range w.Files {
		f := &w.Files[i]
		name, err := a.fileName(sub, f.Name)
		if err != nil {
			return err
		}
		if r != nil {
			a.blocks = append(a.blocks, int32(len(adm.Files)))
		}
		spec := &specs[i]
		produced := f.Producer >= 0 && !inPlace[i]
		*spec = FileSpec{ID: a.files + planner.FileID(len(adm.Arrived.Files)), Name: name, Sized: f.Sized,
			Produced: produced, Final: f.Producer >= 0 && !read[i], Size: a.scaledSize(f.Size),
			Glob: produced && a.glob(w, f)}
		spec.Program, spec.Checkpoint, spec.Optional = f.Program(), f.Checkpoint, f.Optional
		if f.Keep != trace.KeepUnread && f.Producer >= 0 {
			if _, runs := a.runs(&w.Tasks[f.Producer]); runs { // files that the emulator writes are no results
				spec.Final = f.Keep == trace.KeepAlways
			}
		}
		size := f.Size
		if !produced {
			if sub.Sources != nil {
				spec.External, spec.Modified = sub.Sources[i].Path, sub.Sources[i].Modified
			} else if sub.Inputs != "" {
				spec.External = path.Join(sub.Inputs, name)
			}
			if real, ok := realSize(sub, i, spec.External); ok {
				size, spec.Size, spec.Sized = real, unit.Bytes(real), true
			}
		}
		if r != nil && f.Producer < 0 {
			blocks, err := a.split(sub, *spec, size, r)
			if err != nil {
				return err
			}
			if split += len(blocks); split > maxBlocksOfAll {
				return fmt.Errorf("workflow %s: its files have more than %d blocks of %s: give a larger block",
					sub.Name, maxBlocksOfAll, shown.Size(int64(sub.Data.Block)))
			}
			for k := range blocks {
				adm.Files = append(adm.Files, &blocks[k])
				adm.Arrived.Files = append(adm.Arrived.Files, planner.File{ID: blocks[k].ID, Size: blocks[k].Size,
					Producer: planner.None, Homes: blocks[k].Homes})
			}
			continue
		}
		adm.Files = append(adm.Files, spec)
		pf := planner.File{ID: spec.ID, Size: spec.Size, Producer: planner.None}
		if produced {
			pf.Producer = a.tasks + planner.TaskID(f.Producer)
		}
		adm.Arrived.Files = append(adm.Arrived.Files, pf)
	}
	if r != nil {
		a.blocks = append(a.blocks, int32(len(adm.Files)))
	}
	return nil
}

// glob reports whether the name of a file is a pattern: that of an output of a program, in formats whose users write
// patterns. Emulated tasks write files of any name.
func (a *Admitter) glob(w *trace.Workflow, f *trace.File) bool {
	if !a.SafeNames || w.OpaqueNames || w.Format != trace.WfFormat && w.Format != trace.Makeflow {
		return false
	}
	_, runs := a.runs(&w.Tasks[f.Producer])
	return runs && strings.ContainsAny(f.Name, trace.GlobMeta)
}

func (a *Admitter) scaledSize(size int64) unit.Bytes {
	return unit.Bytes(math.Round(float64(size) * a.SizeScale))
}

// placed returns the positions that files of the trace have among those admitted: a file that was split has one for
// each block.
func (a *Admitter) placed(at []int32) []int32 {
	if len(a.blocks) == 0 {
		return at
	}
	var out []int32
	for _, f := range at {
		for k := a.blocks[f]; k < a.blocks[f+1]; k++ {
			out = append(out, k)
		}
	}
	return out
}

// MergeEnv returns the variables of an environment with others over them, sorted; of equal names the last counts.
func MergeEnv(env, over []string) []string {
	if len(over) == 0 {
		return env
	}
	of := map[string]string{}
	for _, e := range slices.Concat(env, over) {
		name, _, _ := strings.Cut(e, "=")
		of[name] = e
	}
	return slices.Sorted(maps.Values(of))
}

// HostImage is the image that is none: the programs that are installed on this host, shown read-only.
const HostImage = "host"

// runs reports whether a task has a program to run, and the image it runs in.
func (a *Admitter) runs(t *trace.Task) (image string, ok bool) {
	image = cmp.Or(t.Image, a.Image)
	return image, len(t.Command) > 0 && image != "" && !a.Emulate
}

// Program is the part of a task's specification that says how its program is started. It is the same in any workflow
// and on any platform.
func (a *Admitter) Program(t *trace.Task) TaskSpec {
	image, runs := a.runs(t)
	if !runs {
		return TaskSpec{Name: t.ID}
	}
	return TaskSpec{Name: t.ID, Command: a.command(t), Shell: t.Shell, Expand: t.Expand, Image: image,
		Env: MergeEnv(t.Env, a.Env), Stdin: t.Stdin, Stdout: t.Stdout, Stderr: t.Stderr, Renames: t.Renames}
}

func (a *Admitter) task(sub *Submission, adm *Admission, i int, spec *TaskSpec) (unit.Vector, error) {
	t := &sub.Workflow.Tasks[i]
	*spec = a.Program(t)
	spec.Workflow, spec.Kind, spec.AvgCPU = adm.Spec, t.Kind, t.AvgCPU
	scale := 1.0
	if spec.Emulated() {
		scale = a.TimeScale
	} else if spec.Mounts = a.Mounts; t.Container > 0 {
		spec.Mounts = slices.Concat(sub.Workflow.Containers[t.Container-1].Mounts, a.Mounts)
	}
	spec.Network = !spec.Emulated() && Networked(a.Networks, t)
	spec.Repeats = t.Retries > 0
	spec.TimeLimit, spec.DiskLimit = scaled(t.TimeLimit, scale), t.DiskLimit
	spec.Run, spec.RunOn = declaredRuns(sub, i, scale)
	spec.Overhead = scaled(t.Overhead, scale)
	if spec.Emulated() || a.undeclared(sub.Workflow) { // a program that runs again lasts as it was measured
		spec.Declared = scaled(t.Estimate, scale)
	}
	spec.Inputs = pick(adm.Files, a.placed(t.Inputs))
	spec.Outputs = pick(adm.Files, a.placed(t.Outputs))
	need, memory, err := a.need(sub, t)
	spec.Memory = memory
	spec.Cores = max(1, (need[unit.CPU]+999)/1000)
	return need, err
}

// command is that of a task, with its shell if that is not a plain /bin/sh.
func (a *Admitter) command(t *trace.Task) []string {
	if !t.Shell {
		return t.Command
	}
	shell := t.Command[1:]
	if len(shell) == 0 {
		shell = a.Shell
	}
	if len(shell) == 0 {
		shell = []string{trace.Strict}
	}
	if len(shell) == 1 && (shell[0] == "sh" || shell[0] == "/bin/sh") { // as logs have it that name no shell
		shell = nil
	}
	return append(t.Command[:1:1], shell...)
}

// lessOrFit is the remedy for a need that no node has.
const lessOrFit = "ask for less, or let --fit of gantry run, simulate or serve cut it"

// need returns the need of a task, and the memory that the emulator touches of it; an error if no node can give it.
func (a *Admitter) need(sub *Submission, t *trace.Task) (need unit.Vector, touched unit.Bytes, err error) {
	cores := t.Cores
	if cores <= 0 {
		cores = 1
	}
	if d := a.longest(sub, t); d > float64(reader.MaxTime) {
		return need, 0, a.refuse(sub, t, "takes up to %.4g s, with its files, on the slowest node and link: %v", d/1e9,
			reader.Above(reader.MaxTime.Seconds()))
	}
	need = unit.Vector{unit.CPU: int64(math.Ceil(cores * 1000))}
	if a.largest(need) == nil {
		if !a.Fit {
			return need, 0, a.refuse(sub, t, "needs %g cores: the largest node has %g; "+lessOrFit,
				cores, float64(a.mostCores())/1000)
		}
		need[unit.CPU] = a.mostCores()
	}
	if err := a.gpus(sub, t, &need); err != nil {
		return need, 0, err
	}
	largest := a.largest(need)
	_, runs := a.runs(t)
	switch {
	case t.MemoryBytes > 0 && runs:
		need[unit.Memory] = max(t.MemoryBytes, MinMemory)
	case t.MemoryBytes > 0:
		touched = unit.Bytes(math.Round(float64(t.MemoryBytes) * a.SizeScale))
		need[unit.Memory] = int64(touched) + EmulatorMemory
	}
	if most := largest.Capacity[unit.Memory]; need[unit.Memory] > most {
		if !a.Fit {
			return need, 0, a.refuse(sub, t, "needs %s of memory: the largest node that has its cores has %s; "+
				lessOrFit+", or --size-scale scales it",
				shown.Size(need[unit.Memory]), shown.Size(most))
		}
		need[unit.Memory] = most
		touched = max(0, min(touched, unit.Bytes(most-EmulatorMemory)))
	}
	if t.DiskBps > 0 {
		need[unit.Disk] = t.DiskBps
		if most := a.most(unit.Disk, need); t.DiskBps > most {
			if !a.Fit {
				return need, 0, a.refuse(sub, t, "needs %s/s of block I/O: no node that has its cores and "+
					"memory gives more than %s/s; "+lessOrFit, shown.Size(t.DiskBps), shown.Size(most))
			}
			need[unit.Disk] = most
		}
	}
	return a.share(need), touched, nil
}

// limitMemory sets the memory of need as Memory has it, and returns that of the next try if the declared memory is
// more, else 0.
func (a *Admitter) limitMemory(kind string, need *unit.Vector, reads unit.Bytes) (next unit.Bytes) {
	if a.Memory == nil {
		return 0
	}
	m, next, ok := a.Memory(kind, *need, reads)
	if !ok {
		return 0
	}
	was := need[unit.Memory]
	need[unit.Memory] = min(max(int64(m), MinMemory), a.largest(*need).Capacity[unit.Memory])
	if 0 < was && was <= need[unit.Memory] {
		return 0
	}
	return next
}

// reads returns the sum of the sizes of each task's inputs, as far as they are known beforehand. For a file
// without a size in the trace the inputs of the task that makes it stand in: its size grows with them.
func (a *Admitter) reads(w *trace.Workflow, adm *Admission, order []int32) []unit.Bytes {
	var all unit.Bytes
	for _, f := range adm.Files {
		all += f.Size
	}
	out, counted := make([]unit.Bytes, len(w.Tasks)), make([]int32, len(w.Tasks))
	for n, i := range order {
		if known := w.Tasks[i].Reads; known != nil && a.undeclared(w) {
			out[i] = unit.Bytes(*known)
			continue
		}
		for _, f := range pick(adm.Files, a.placed(w.Tasks[i].Inputs)) {
			out[i] += f.Size
		}
		for _, f := range w.Tasks[i].Inputs {
			if m := w.Files[f].Producer; m >= 0 && m != i && !w.Files[f].Sized && counted[m] != int32(n+1) {
				counted[m] = int32(n + 1)
				out[i] = min(out[i]+out[m], all) // ways that join again count twice
			}
		}
	}
	return out
}

// realSize returns the size of a file from outside whose trace does not have it, as it was found, or as it is here if
// no sources were looked for.
func realSize(sub *Submission, file int, external string) (size int64, ok bool) {
	if f := &sub.Workflow.Files[file]; f.Sized && !f.Imputed || external == "" {
		return 0, false
	}
	if sub.Sources != nil {
		return sub.Sources[file].Size, true
	}
	st, err := os.Stat(external)
	if err != nil || st.IsDir() {
		return 0, false
	}
	return st.Size(), true
}

// sound refuses a workflow that runs on no platform, and returns its tasks, parents first.
func (a *Admitter) sound(sub *Submission) (order []int32, err error) {
	a.prepare()
	for i := range sub.Workflow.Tasks {
		if err := a.startable(sub, &sub.Workflow.Tasks[i]); err != nil {
			return nil, err
		}
	}
	if order, err = topological(sub.Workflow); err != nil {
		return nil, fmt.Errorf("workflow %s: %w", sub.Name, err)
	}
	return order, cmp.Or(a.apart(sub), a.scalable(sub))
}

// Check reports whether a submission can be admitted, and changes nothing.
func (a *Admitter) Check(sub *Submission) error {
	w := sub.Workflow
	if len(w.Obstacles) > 0 && a.SafeNames && !a.Emulate {
		return fmt.Errorf("workflow %s cannot be run:\n  %s\n--emulate runs stand-ins for all tasks", sub.Name,
			strings.Join(w.Obstacles, "\n  "))
	}
	if _, err := a.sound(sub); err != nil {
		return err
	}
	for i := range w.Files {
		if _, err := a.fileName(sub, w.Files[i].Name); err != nil {
			return err
		}
	}
	for i := range w.Tasks {
		if _, _, err := a.need(sub, &w.Tasks[i]); err != nil {
			return err
		}
		if _, err := a.tokens(sub, &w.Tasks[i]); err != nil {
			return err
		}
	}
	return nil
}

// Images calls each with the name of the image of every task of a submission that runs a program.
func (a *Admitter) Images(sub *Submission, each func(image string)) {
	for i := range sub.Workflow.Tasks {
		if image, runs := a.runs(&sub.Workflow.Tasks[i]); runs {
			each(image)
		}
	}
}

// Emulated counts the tasks of a submission that are emulated, and lists those among them whose command would run if
// it had an image.
func (a *Admitter) Emulated(sub *Submission) (tasks int, noImage []*trace.Task) {
	for i := range sub.Workflow.Tasks {
		t := &sub.Workflow.Tasks[i]
		image, runs := a.runs(t)
		if runs {
			continue
		}
		tasks++
		if len(t.Command) > 0 && image == "" && !a.Emulate {
			noImage = append(noImage, t)
		}
	}
	return tasks, noImage
}

// Outside is a file that no task makes before it is read.
type Outside struct {
	File    int    // position in the trace
	Name    string // below the directories of its workflow
	Task    int    // position of the task that reads it, the first with a program to run if there is one
	Program bool   // a program reads it, and not only the emulator
}

// Outside lists the files from outside that tasks of a submission read, in the order of the trace.
func (a *Admitter) Outside(sub *Submission) ([]Outside, error) {
	w := sub.Workflow
	at := make([]int, len(w.Files)) // in all, from 1 on
	var all []Outside
	for i := range w.Tasks {
		_, runs := a.runs(&w.Tasks[i])
		for _, f := range w.Tasks[i].Inputs {
			if p := w.Files[f].Producer; p >= 0 && p != int32(i) {
				continue
			}
			if at[f] == 0 {
				name, err := a.fileName(sub, w.Files[f].Name)
				if err != nil {
					return nil, err
				}
				all = append(all, Outside{File: int(f), Name: name, Task: i})
				at[f] = len(all)
			}
			if o := &all[at[f]-1]; runs && !o.Program {
				o.Task, o.Program = i, true
			}
		}
	}
	return all, nil
}

// located refuses a workflow whose programs need a file that was looked for and is not there.
func (a *Admitter) located(sub *Submission) error {
	if !a.SafeNames || sub.Sources == nil {
		return nil
	}
	files, err := a.Outside(sub)
	for _, f := range files {
		if f.Program && sub.Sources[f.File].Path == "" && !sub.Workflow.Files[f.File].Optional {
			return a.refuse(sub, &sub.Workflow.Tasks[f.Task], "needs file %s, which was not found", shown.Quote(f.Name))
		}
	}
	return err
}

// startable refuses a task that is no program, and one that the kernel would not start.
func (a *Admitter) startable(sub *Submission, t *trace.Task) error {
	if t.SubWorkflow {
		return a.refuse(sub, t, "is a sub-workflow: gantry runs its file as a workflow of its own")
	}
	if _, runs := a.runs(t); runs {
		if err := t.Bounded(MergeEnv(t.Env, a.Env)); err != nil {
			return a.refuse(sub, t, "cannot be started: %v", err)
		}
	}
	return nil
}

// apart refuses a workflow of programs in which a file lies in a directory that is a file of the workflow, too, unless
// one task writes both: they come and go as they are, each in one piece.
func (a *Admitter) apart(sub *Submission) error {
	w := sub.Workflow
	if !a.SafeNames || w.OpaqueNames || !slices.ContainsFunc(w.Files, func(f trace.File) bool {
		return strings.Contains(f.Name, "/")
	}) || !slices.ContainsFunc(w.Tasks, func(t trace.Task) bool { _, runs := a.runs(&t); return runs }) {
		return nil
	}
	at := make(map[string]int, len(w.Files))
	for i := range w.Files {
		at[path.Clean(w.Files[i].Name)] = i
	}
	who := func(f *trace.File) string {
		if f.Producer < 0 {
			return "comes from outside"
		}
		return "is written by task " + w.Tasks[f.Producer].ID
	}
	for i := range w.Files {
		f := &w.Files[i]
		for dir := path.Dir(path.Clean(f.Name)); dir != "." && dir != "/"; dir = path.Dir(dir) {
			k, ok := at[dir]
			if !ok || w.Files[k].Producer == f.Producer && f.Producer >= 0 {
				continue
			}
			return fmt.Errorf("workflow %s: %s, which %s, lies in %s, which %s: name the directory alone, or "+
				"only files in it", sub.Name, shown.Quote(f.Name), who(f), shown.Quote(w.Files[k].Name),
				who(&w.Files[k]))
		}
	}
	return nil
}

// longest is how many nanoseconds a task takes at most with its files, on the slowest node, link and disk.
func (a *Admitter) longest(sub *Submission, t *trace.Task) float64 {
	size := float64(t.ReadBytes) + float64(t.WrittenBytes)
	for _, list := range [...][]int32{t.Inputs, t.Outputs} {
		for _, f := range list {
			size += float64(sub.Workflow.Files[f].Size)
		}
	}
	return float64(t.Runtime)*max(1, a.TimeScale)/a.slowest + 1e9*size*max(1, a.SizeScale)/a.narrowest
}

// slowness finds the slowest node, and the narrowest link or disk.
func (a *Admitter) slowness() {
	a.slowest, a.narrowest = 1, math.Inf(1)
	for i := range a.Platform.Nodes {
		n := &a.Platform.Nodes[i]
		if n.Speed > 0 {
			a.slowest = min(a.slowest, n.Speed)
		}
		if disk := n.Capacity[unit.Disk]; disk > 0 && disk != unit.Unlimited {
			a.narrowest = min(a.narrowest, float64(disk))
		}
	}
	for _, row := range a.Platform.Bandwidth {
		for _, rate := range row {
			if rate > 0 {
				a.narrowest = min(a.narrowest, float64(rate))
			}
		}
	}
}

// scalable refuses a workflow whose sizes are out of bounds once they are scaled.
func (a *Admitter) scalable(sub *Submission) error {
	if a.SizeScale <= 1 {
		return nil
	}
	sum := 0.0
	for i := range sub.Workflow.Files {
		sum += float64(sub.Workflow.Files[i].Size)
	}
	for i := range sub.Workflow.Tasks {
		sum += float64(sub.Workflow.Tasks[i].MemoryBytes)
	}
	if sum *= a.SizeScale; sum > 1<<62 {
		return fmt.Errorf("workflow %s: its files and memory have %.4g bytes with --size-scale %v: %w", sub.Name, sum,
			a.SizeScale, reader.Above(1<<62))
	}
	return nil
}

// fileName returns the name that a file has below the directories of its workflow.
func (a *Admitter) fileName(sub *Submission, name string) (string, error) {
	switch {
	case !a.SafeNames || trace.SafeName(name) && !trace.ReservedName(name):
		return name, nil
	case sub.Workflow.OpaqueNames:
		return EscapeName(name), nil
	case trace.ReservedName(name):
		return "", fmt.Errorf("workflow %s: file %s has a name that gantry uses itself: rename it", sub.Name,
			shown.Quote(name))
	}
	return "", fmt.Errorf("workflow %s: file name %s leaves the run directory: %s", sub.Name, shown.Quote(name),
		trace.Inside)
}

// share gives a task the resources that its trace does not name: memory and block I/O in proportion to its cores, by
// the node that has least of them per core among those that can hold it.
func (a *Admitter) share(need unit.Vector) unit.Vector {
	full, ok := a.shares[need]
	if !ok {
		full = a.shareOf(need)
		a.shares[need] = full
	}
	return full
}

func (a *Admitter) shareOf(need unit.Vector) unit.Vector {
	memory, disk := int64(unit.Unlimited), int64(unit.Unlimited)
	for i := range a.Platform.Nodes {
		c := a.Platform.Nodes[i].Capacity
		if !need.Fits(c) {
			continue
		}
		fraction := float64(need[unit.CPU]) / float64(c[unit.CPU])
		if c[unit.Memory] != unit.Unlimited {
			memory = min(memory, int64(fraction*float64(c[unit.Memory])))
		}
		if c[unit.Disk] != unit.Unlimited {
			disk = min(disk, int64(fraction*float64(c[unit.Disk])))
		}
	}
	if need[unit.Memory] == 0 && memory != unit.Unlimited {
		need[unit.Memory] = max(memory, MinMemory)
	}
	if need[unit.Disk] == 0 && disk != unit.Unlimited {
		need[unit.Disk] = max(disk, 1)
	}
	return need
}

// largest returns the node with most memory among those with the cores and GPUs of need; nil if there is none.
func (a *Admitter) largest(need unit.Vector) (best *planner.Node) {
	need = need.Keep(unit.Of(unit.CPU, unit.GPU))
	if known, ok := a.biggest[need]; ok {
		return known
	}
	defer func() { a.biggest[need] = best }()
	for i := range a.Platform.Nodes {
		n := &a.Platform.Nodes[i]
		if need.Fits(n.Capacity) && (best == nil || n.Capacity[unit.Memory] > best.Capacity[unit.Memory]) {
			best = n
		}
	}
	return best
}

// most returns the most of a resource that a node gives among those that have all else of need.
func (a *Admitter) most(d unit.Dim, need unit.Vector) (most int64) {
	need[d] = 0
	for i := range a.Platform.Nodes {
		if c := a.Platform.Nodes[i].Capacity; need.Fits(c) {
			most = max(most, c[d])
		}
	}
	return most
}

func (a *Admitter) mostCores() int64 { return a.most(unit.CPU, unit.Vector{}) }

func (a *Admitter) kind(name string, adm *Admission) planner.KindID {
	id, ok := a.kinds[name]
	if !ok {
		id = a.name(name)
		adm.Kinds = append(adm.Kinds, name)
	}
	return id
}

func (a *Admitter) name(kind string) planner.KindID {
	id := planner.KindID(len(a.kinds))
	a.kinds[kind] = id
	if a.Named != nil {
		a.Named(id, kind)
	}
	return id
}

func (a *Admitter) taskIDs(at []int32) []planner.TaskID {
	return convert(at, func(p int32) planner.TaskID { return a.tasks + planner.TaskID(p) })
}

func fileIDs(files []*FileSpec) []planner.FileID {
	return convert(files, func(f *FileSpec) planner.FileID { return f.ID })
}

func pick(files []*FileSpec, at []int32) []*FileSpec {
	return convert(at, func(p int32) *FileSpec { return files[p] })
}

// convert returns a list with a value for each item of another; nil if that has none.
func convert[A, B any](list []A, value func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	out := make([]B, len(list))
	for i, x := range list {
		out[i] = value(x)
	}
	return out
}

func scaled(d time.Duration, by float64) time.Duration {
	if by == 1 {
		return d
	}
	return time.Duration(math.Round(float64(d) * by))
}

// topological returns the tasks of w, parents first, those that become free first in front.
func topological(w *trace.Workflow) ([]int32, error) {
	order := w.Order()
	if len(order) == len(w.Tasks) {
		return order, nil
	}
	met := make([]bool, len(w.Tasks))
	for _, t := range order {
		met[t] = true
	}
	return nil, fmt.Errorf("task %s is on or behind a cycle: gantry check names it, --repair breaks it",
		w.Tasks[slices.Index(met, false)].ID)
}

// stages returns the execution phase of each task, from 0 on: as the trace says or, where it says nothing of any task,
// the level. A dummy task, and a task without a phase among others that have one, is in the last phase of its parents.
func (a *Admitter) stages(sub *Submission, order []int32) []int32 {
	w := sub.Workflow
	phased := slices.ContainsFunc(w.Tasks, func(t trace.Task) bool { return t.Phase > 0 })
	out := make([]int32, len(w.Tasks))
	next := make([]int32, len(w.Tasks)) // by task: the level that its children have at least
	for _, t := range order {
		task := &w.Tasks[t]
		level := int32(0)
		for _, p := range task.Parents {
			out[t], level = max(out[t], out[p]), max(level, next[p])
		}
		next[t] = level
		switch {
		case task.Phase > 0:
			out[t] = task.Phase - 1
		case !phased && !a.formal(sub, int(t)):
			out[t], next[t] = level, level+1
		}
	}
	return out
}

// EscapeName makes one path element of any name: letters, digits and "._-" stay, everything else becomes %XX, and a
// long name is cut and made unique by a hash.
func EscapeName(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	s := b.String()
	if s == "" {
		return "%"
	}
	if len(s) > 120 {
		sum := sha256.Sum256([]byte(name)) // a made-up name must not hit the directory of another
		return fmt.Sprintf("%s%%%x", s[:100], sum[:16])
	}
	return s
}

// HostName is the name by which all of the host knows a run: runs in different directories may have the same name.
func HostName(run, dir string) string {
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole
	}
	if whole, err := filepath.EvalSymlinks(dir); err == nil {
		dir = whole
	}
	hash := fnv.New64a()
	hash.Write([]byte(dir))
	return fmt.Sprintf("%s-%06x", run, hash.Sum64()&0xffffff)
}
