package trace

import (
	"slices"
	"strings"

	"gantry/trace/reader"
)

// batchStates are those of tasks in batch_task of Alibaba's cluster trace of 2018.
var batchStates = []string{"Terminated", "Failed", "Running", "Waiting", "Ready", "Cancelled", "Interrupted"}

func batchState(field []byte) bool { return slices.Contains(batchStates, string(field)) }

// readAlibaba reads batch_task of Alibaba's cluster trace of 2018: tasks of jobs, whose names say which tasks of the
// job come before: M1, R2_1, J4_2_3. A job arrives as its first task starts. Memory has no unit there, and is not read.
func (x *archiver) readAlibaba() {
	x.prefix, x.task = "j_", ""
	t := reader.NewTable(x.in, ',', &x.faults)
	const columns = 9
	seen := map[[2]int64]bool{} // job and task
	for t.Next() {
		if !t.Whole(columns, x.opt.Repair) || t.Line == 1 && string(t.Fields[0]) == "task_name" {
			continue
		}
		name, jobName := t.Fields[0], t.Fields[2]
		if len(name) == 0 || len(jobName) == 0 {
			x.faults.Fail("missing-id", t.Line, "", "a task without its name or that of its job")
			continue
		}
		r := &archiveRow{x: x, t: t, is: "task"}
		instances := r.number("number of instances", t.Fields[1], maxInstances)
		start, end := r.number("start time", t.Fields[5], 9e9), r.number("end time", t.Fields[6], 9e9)
		cores := r.number("plan_cpu", t.Fields[7], 100*reader.MaxCores) / 100 // in hundredths
		switch {
		case r.bad:
			continue
		case len(t.Fields[5]) == 0 || end <= 0 || end < start:
			x.leave("tasks that have not run to their end")
			continue
		}
		job, task := x.key(jobName, "j_"), -int64(x.text(name))
		if seen[[2]int64{job, task}] {
			x.faults.Judge(x.opt.Repair, "duplicate-id", t.Line, "", "the later one is left out",
				"job %s has task %s twice", jobName, name)
			continue
		}
		x.keep(archivedKept, t.Line)
		seen[[2]int64{job, task}] = true
		k, _ := x.job(job, seconds(start), 0, t.Line)
		kind := append([]byte("type"), t.Fields[3]...)
		x.row(archivedTask{id: task, run: seconds(end - start), cores: float32(cores), kind: x.text(kind), job: k,
			instances: int32(instances)}, t.Line)
	}
	x.eachJob(x.dependencies)
	x.Imputed = append(x.Imputed, Imputation{"arrival", "start of the first task", len(x.jobs)})
	if !x.split {
		x.Imputed = append(x.Imputed, Imputation{"instances", "one task with the cores of one of them (--instances)",
			len(x.rows)})
	}
}

// dependencies reads those of a job from the names of its tasks.
func (x *archiver) dependencies(from, to int) {
	at := map[int64]int32{} // tasks by their number
	for k := from; k < to; k++ {
		if n, _, ok := batchName(x.texts.text(int32(-x.rows[k].id))); ok {
			if _, twice := at[n]; !twice {
				at[n] = int32(k - from)
			}
		}
	}
	back := false
	for k := from; k < to; k++ {
		_, parents, _ := batchName(x.texts.text(int32(-x.rows[k].id)))
		begin := len(x.edges)
		for _, p := range parents {
			i, ok := at[p]
			switch {
			case !ok:
				x.leave("dependencies on tasks that the archive does not have")
			case i == int32(k-from) || slices.Contains(x.edges[begin:], i):
			default:
				x.keep(edgeKept, 0)
				x.edges = append(x.edges, i)
				back = back || i > int32(k-from)
			}
		}
		x.rows[k].edges = int32(len(x.edges))
	}
	if back {
		x.acyclic(from, to)
	}
}

// acyclic refuses a job whose tasks wait for each other; with repair none of them waits.
func (x *archiver) acyclic(from, to int) {
	begin := int32(0)
	if from > 0 {
		begin = x.rows[from-1].edges
	}
	w, places := &Workflow{Tasks: make([]Task, to-from)}, make([]int32, to-from+1)
	for k := range w.Tasks {
		w.Tasks[k].ID, places[k+1] = x.taskName(&x.rows[from+k]), int32(k+1)
	}
	x.link(w, from, places)
	cycle := w.cycle()
	if cycle == nil {
		return
	}
	x.faults.Judge(x.opt.Repair, "cycle", 0, "", "the dependencies of the job are dropped",
		"tasks of job %s wait for each other: %s", x.textOf(x.jobs[x.rows[from].job].id, x.prefix), w.path(cycle))
	x.edges = x.edges[:begin]
	for k := from; k < to; k++ {
		x.rows[k].edges = begin
	}
}

// batchName splits the name of a task into its number and those of the tasks before it: R2_1 is 2, after 1. Other names
// stand for themselves.
func batchName(name string) (number int64, parents []int64, ok bool) {
	head, rest, _ := strings.Cut(name, "_")
	digits := strings.TrimLeft(head, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
	number, ok = reader.Digits(digits)
	if !ok || head == digits {
		return 0, nil, false
	}
	for part := range strings.SplitSeq(rest, "_") {
		if p, ok := reader.Digits(part); ok {
			parents = append(parents, p)
		}
	}
	return number, parents, true
}
