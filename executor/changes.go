package executor

import (
	"fmt"
	"slices"

	"gantry/planner"
	"gantry/trace"
)

// Change is a task that runs again, or for the first time, when a workflow is continued, and why.
type Change struct {
	Task string
	Why  string
	Done bool // it had succeeded
}

// Results reports whether files are still as they were.
type Results interface {
	// Gone reports whether an output of a task that succeeded is no longer there as it was, and why.
	Gone(w *WorkflowSpec, f *FileSpec, n planner.NodeID) (why string)
	// Changed reports whether a file from outside is another than the run has read.
	Changed(w *WorkflowSpec, was, now *FileSpec) bool
}

// Keep decides which tasks of a workflow that was continued need not run: those that succeeded, are unchanged, have the
// same inputs, and follow none that runs. Of these, one runs whose outputs are gone and read by a task that runs, or
// are results. Keep is pure but for the questions that r answers.
func Keep(was, now *Admission, v planner.View, r Results) (kept []Kept, changes []Change) {
	k := keeper{was: was, now: now, v: v, files: r, at: map[string]int{}, why: make([]string, len(now.Tasks)),
		kept: make([]Kept, len(now.Tasks))}
	for i, t := range was.Tasks {
		k.at[t.Name] = i
	}
	if len(now.Tasks) > 0 {
		k.first = now.Arrived.Tasks[0].ID
	}
	order := now.Arrived.Workflow.Tasks
	for _, t := range order {
		k.decide(int(t - k.first))
	}
	for _, t := range slices.Backward(order) {
		k.need(int(t - k.first))
	}
	for _, t := range order {
		i := int(t - k.first)
		if k.why[i] != "" && !now.Arrived.Tasks[i].Formal {
			was := k.kept[i].Was
			changes = append(changes, Change{now.Tasks[i].Name, k.why[i],
				was != planner.None && v.Phase(was) == planner.Done})
		}
		k.kept[i].Stay = k.why[i] == ""
	}
	return k.kept, changes
}

type keeper struct {
	was, now *Admission
	v        planner.View
	files    Results
	at       map[string]int // by name: position in was
	first    planner.TaskID // of now
	kept     []Kept
	why      []string // by position: why it runs; "" if it does not
}

// decide says whether task i runs; all before it are decided.
func (k *keeper) decide(i int) {
	spec, task := k.now.Tasks[i], &k.now.Arrived.Tasks[i]
	k.kept[i].Was = planner.None
	for _, p := range task.Parents { // a formal task runs if one before it does
		if k.why[p-k.first] != "" {
			k.why[i] = fmt.Sprintf("task %s before it runs", k.now.Tasks[p-k.first].Name)
		}
	}
	at, ok := k.at[spec.Name]
	if !ok {
		k.why[i] = "it is new"
		return
	}
	was := k.was.Tasks[at]
	k.kept[i].Was = k.was.Arrived.Tasks[at].ID
	if task.Formal {
		return
	}
	if differs := spec.Differs(was); differs != "" {
		k.why[i] = differs
		return
	}
	switch p := k.v.Phase(k.kept[i].Was); p {
	case planner.Done:
	case planner.Failed:
		k.why[i] = "it had failed"
		return
	default:
		k.why[i] = "it had not run to its end"
		return
	}
	for j, f := range spec.Inputs {
		old := was.Inputs[min(j, len(was.Inputs)-1)]
		if !f.Produced && (old.Produced || k.files.Changed(k.was.Spec, old, f)) {
			k.why[i] = fmt.Sprintf("its input %s changed", f.Name)
			return
		}
		if f.Produced && !old.Produced {
			k.why[i] = fmt.Sprintf("its input %s is written by a task now", f.Name)
			return
		}
	}
}

// need has a task run that could stay if its outputs were there and somebody wants them; all after it are decided.
func (k *keeper) need(i int) {
	if k.why[i] != "" || k.now.Arrived.Tasks[i].Formal {
		return
	}
	node := planner.NodeID(planner.None)
	if a := k.v.Last(k.kept[i].Was); a != planner.None {
		node = k.v.Attempt(a).Node
	} else if x := k.v.Reused(k.kept[i].Was); x != nil {
		node = x.Node
	}
	for _, f := range k.now.Tasks[i].Outputs {
		reader := f.Final || slices.ContainsFunc(k.now.Spec.Results, func(pattern string) bool {
			return trace.MayHold(pattern, f.Name) && !slices.Contains(k.was.Spec.Results, pattern)
		})
		by := ""
		for _, c := range k.now.Arrived.Tasks[i].Children {
			if j := int(c - k.first); k.why[j] != "" && slices.Contains(k.now.Tasks[j].Inputs, f) {
				reader, by = true, ", which task "+k.now.Tasks[j].Name+" reads"
			}
		}
		if !reader {
			continue
		}
		if why := k.files.Gone(k.now.Spec, f, node); why != "" {
			k.why[i] = fmt.Sprintf("its output %s %s%s", f.Name, why, by)
			return
		}
	}
}
