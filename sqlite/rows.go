package sqlite

import (
	"cmp"
	"database/sql/driver"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
)

// sameTasks checks that what is planned and what is run of a workflow are the same tasks.
func sameTasks(a *executor.Admission) error {
	if len(a.Tasks) != len(a.Arrived.Tasks) {
		return fmt.Errorf("workflow %s: %d tasks planned, %d to be run", a.Submission.Name, len(a.Arrived.Tasks), len(a.Tasks))
	}
	return nil
}

// The functions below append values to v, whose memory the caller may use again: values are taken over by an inserter at once.

// workflowValues are the values of workflowColumns.
func workflowValues(v []driver.Value, a *executor.Admission, definition []byte) []driver.Value {
	flow, sub := &a.Arrived.Workflow, &a.Submission
	var from trace.Workflow
	if sub.Workflow != nil {
		from = *sub.Workflow
	}
	first := int64(0)
	if len(a.Arrived.Tasks) > 0 {
		first = int64(a.Arrived.Tasks[0].ID)
	}
	return append(v, int64(flow.ID), sub.Name, from.Label, from.Source, from.Format.String(), sub.Tenant, flow.Class.String(),
		int64(flow.Arrived), int64(flow.Release), reached(flow.Due), int64(len(a.Arrived.Tasks)), first, definition)
}

// traced is what its trace said of a task.
type traced struct {
	imputed trace.Fields // what it did not say
	runtime bool         // the runtime is known or imputed
}

// diskShare stands beside the fields of a trace, of which hardly any tells block I/O: it is the task's share of its node.
const diskShare trace.Fields = 1 << 8

func tracedOf(a *executor.Admission, i int) traced {
	if from := a.Submission.Workflow; from != nil && i < len(from.Tasks) {
		t, need := &from.Tasks[i], &a.Arrived.Tasks[i].Need
		imputed := t.Imputed | trace.Command&^t.Known
		if need[unit.Memory] != 0 { // or there is none to be short of
			imputed |= trace.Memory &^ t.Known
		}
		if need[unit.Disk] != 0 && t.DiskBps == 0 {
			imputed |= diskShare
		}
		return traced{imputed, (t.Known | t.Imputed).Has(trace.Runtime)}
	}
	return traced{runtime: a.Tasks[i].Declared != 0 || a.Tasks[i].Run != 0}
}

// taskSharedValues are the values of taskShared of task i of a workflow.
func taskSharedValues(v []driver.Value, run int64, a *executor.Admission, i int, said traced) []driver.Value {
	need, limit := &a.Arrived.Tasks[i].Need, a.Tasks[i].TimeLimit
	return append(v, run, need[unit.CPU], need[unit.Memory], need[unit.Disk], known(int64(limit), limit != 0), fieldNames(said.imputed))
}

// taskValues are the values of taskColumns of task i of a workflow.
func taskValues(v []driver.Value, a *executor.Admission, i int, said traced) []driver.Value {
	t, spec := &a.Arrived.Tasks[i], a.Tasks[i]
	run := int64(cmp.Or(spec.Declared, spec.Run))
	var parents driver.Value
	if len(t.Parents) > 0 {
		text := make([]byte, 0, 8*len(t.Parents)+2)
		for j, p := range t.Parents {
			text = append(text, "[,"[min(j, 1)])
			text = strconv.AppendInt(text, int64(p), 10)
		}
		parents = string(append(text, ']'))
	}
	return append(v, int64(t.ID), int64(t.Workflow), spec.Name, spec.Kind, int64(t.Stage), known(run, said.runtime), inputBytes(a, t), parents)
}

// inputBytes is what a task reads, as the planner knows it.
func inputBytes(a *executor.Admission, t *planner.Task) (sum int64) {
	for _, f := range t.Inputs {
		if k := int(f - a.Arrived.Files[0].ID); k < len(a.Arrived.Files) {
			sum += int64(a.Arrived.Files[k].Size)
		}
	}
	return sum
}

func addFiles(files, replicas *inserter, a *executor.Admission) error {
	for i := range a.Arrived.Files {
		f := &a.Arrived.Files[i]
		fileName, sized := "", true
		if i < len(a.Files) {
			fileName, sized = a.Files[i].NodeName(), a.Files[i].Sized
		}
		if err := files.add(int64(f.ID), int64(a.Arrived.Workflow.ID), fileName, known(int64(f.Size), sized), known(int64(f.Producer), f.Producer != planner.None)); err != nil {
			return err
		}
		for k, n := range f.Homes {
			if err := replicas.add(int64(f.ID), int64(n), int64(k+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// attemptSharedValues are the values of attemptShared of the attempt that was ordered.
func attemptSharedValues(v []driver.Value, run int64, x *planner.Order) []driver.Value {
	return append(v, run, int64(x.Try), x.Hold[unit.CPU], x.Hold[unit.Memory], x.Hold[unit.Disk],
		known(int64(x.Est.Spread), x.Est.Spread != 0), known(int64(x.Est.Samples), x.Est.Source != 0), name(x.Est.Source))
}

// attemptValues are the values of attemptColumns of the attempt that was ordered.
func attemptValues(v []driver.Value, x *planner.Order) []driver.Value {
	return append(v, int64(x.Attempt), int64(x.Task), int64(x.Node), reached(x.Until),
		known(int64(x.Est.Run), x.Est.Source != 0))
}

// usageValues are the values of usageColumns. What was not measured is NULL, never 0.
func usageValues(v []driver.Value, b *planner.AttemptExited) []driver.Value {
	u, l := &b.Usage, &b.Usage.Applied
	has := func(c planner.Counters) bool { return u.Missing&c == 0 }
	return append(v, reached(u.Queued), reached(u.Staged), reached(u.Created), reached(u.Started), reached(u.Ended),
		known(int64(b.Ran), u.Started != unit.Never), b.Outcome.String(), known(int64(b.ExitCode), b.ExitCode != -1), message(b.Message),
		known(int64(u.CPUUser), has(planner.CounterCPU)), known(int64(u.CPUSystem), has(planner.CounterCPU)),
		known(int64(u.CPUThrottled), has(planner.CounterThrottled)), known(int64(u.PeakMemory), has(planner.CounterMemory)),
		known(int64(u.ReadBytes), has(planner.CounterIO)), known(int64(u.WrittenBytes), has(planner.CounterIO)),
		known(u.ReadOps, has(planner.CounterIO)), known(u.WriteOps, has(planner.CounterIO)),
		int64(u.InputBytes), int64(u.CopiedBytes), u.OOMKills,
		known(l.CPUMillicores, l.CPUMillicores != 0), known(int64(l.Memory), l.Memory != 0), known(int64(l.MemorySwap), l.MemorySwap != 0),
		known(l.PIDs, l.PIDs != 0), known(int64(l.ReadBps), l.ReadBps != 0), known(int64(l.WriteBps), l.WriteBps != 0),
		known(l.ReadIOPS, l.ReadIOPS != 0), known(l.WriteIOPS, l.WriteIOPS != 0))
}

// message is what an attempt said of its end; NULL if it said nothing.
func message(said string) driver.Value {
	if said == "" {
		return nil
	}
	return strings.ToValidUTF8(said, "\uFFFD")
}

func addWait(waits *inserter, run int64, ev *planner.Event, wait planner.Wait) error {
	why := wait.Reason
	var dim, node, until driver.Value
	switch why.Code {
	case planner.NoNodeFree:
		dim = why.Dim.String()
	case planner.PlannedLater:
		node, until = int64(why.Node), reached(why.At)
	case planner.NotYetReleased:
		until = reached(why.At)
	}
	if err := waits.share(run, why.Code.String(), dim); err != nil {
		return err
	}
	return waits.add(int64(wait.Task), int64(ev.Seq), int64(ev.At), node, until)
}

func addNotes(notes *inserter, ev *planner.Event, said []planner.Note) error {
	for i, n := range said {
		if err := notes.add(int64(ev.Seq), int64(i), int64(ev.At), n.Topic, known(int64(n.Workflow), n.Workflow != planner.None),
			known(int64(n.Task), n.Task != planner.None), reached(n.At), n.Text); err != nil {
			return err
		}
	}
	return nil
}

// refused returns the workflows that a round has refused. They are withdrawn by the events that follow it.
func refused(said []planner.Note) (out []planner.WorkflowID) {
	for _, n := range said {
		if n.Topic == planner.TopicRefused {
			out = append(out, n.Workflow)
		}
	}
	return out
}

// withdrawn is the state of a workflow that was withdrawn.
func withdrawn(refused []planner.WorkflowID, w planner.WorkflowID) string {
	if slices.Contains(refused, w) {
		return "refused"
	}
	return "cancelled"
}

// known is NULL for what is not known.
func known(v int64, ok bool) driver.Value {
	if !ok {
		return nil
	}
	return v
}

// reached is NULL for an instant that was not reached.
func reached(t planner.Time) driver.Value { return known(int64(t), t != unit.Never) }

func name(s planner.Source) driver.Value {
	if s == 0 {
		return nil
	}
	return s.String()
}

// fieldNames lists a set of fields, comma separated.
func fieldNames(f trace.Fields) string {
	if f == 0 {
		return ""
	}
	var names []string
	for i, n := range []string{"runtime", "cores", "memory", "avg-cpu", "read-bytes", "written-bytes", "command", "image", "disk"} {
		if f.Has(1 << i) {
			names = append(names, n)
		}
	}
	return strings.Join(names, ",")
}
