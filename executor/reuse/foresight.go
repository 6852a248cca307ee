package reuse

import (
	"context"
	"fmt"
	"sync"

	"gantry/executor"
	"gantry/planner"
)

// Decision is about the results of a task: which it takes over, or why it takes over none.
type Decision struct {
	Workflow, Task string
	From           *planner.TaskReused // nil: it runs
	Reason         string
	Spec           *executor.TaskSpec
}

// Foresight says before a run which tasks would take over results. It changes nothing. A file that a task would make
// counts as changed: if it becomes what it was, the run itself takes over more. Simulations of the run ask it.
type Foresight struct {
	mu  sync.Mutex
	k   *Keeper
	by  map[[2]string]*Decision
	all []*Decision
}

// Foresee makes a foresight of a keeper that keeps nothing, and needs neither Run nor Files.
func (k *Keeper) Foresee() *Foresight {
	k.Log, k.made = quiet{k.Log}, map[[2]string]Sum{}
	return &Foresight{k: k, by: map[[2]string]*Decision{}}
}

// Decisions are those so far, in the order in which tasks were ready.
func (f *Foresight) Decisions() []*Decision { return f.all }

// Reuse implements executor.Reuser.
func (f *Foresight) Reuse(ctx context.Context, t planner.TaskID, spec *executor.TaskSpec, _ executor.Places) (
	*planner.TaskReused, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := [2]string{spec.Workflow.Name, spec.Name}
	d := f.by[key]
	if d == nil {
		x, reason, err := f.k.find(ctx, t, spec, nil)
		if err != nil {
			return nil, err
		}
		d = &Decision{key[0], key[1], x, reason, spec}
		f.by[key], f.all = d, append(f.all, d)
	}
	if d.From == nil {
		return nil, nil
	}
	return new(*d.From), nil
}

// foresee notes which contents a task takes over.
func (e *earlier) foresee(spec *executor.TaskSpec) error {
	for _, f := range spec.Outputs {
		if c, ok := e.had[f.NodeName()]; ok && c.Sum != nil {
			e.made[[2]string{spec.Workflow.Name, f.Name}] = *c.Sum
		} else if !f.Optional {
			return fmt.Errorf("its output %s was not hashed", f.Name)
		}
	}
	return nil
}

// quiet is a log whose runs do not change.
type quiet struct{ Log }

func (quiet) Hashed(int64, planner.FileID, Sum) error { return nil }
