package forecast

import (
	"cmp"
	"fmt"
	"slices"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
)

// Live makes the past of a run of which only the present state is known, so that the cost of a forecast of a long run
// does not depend on how long it has lasted: workflows that have ended are left out, tasks that are done are taken as
// reused, and attempts under way begin at their instants. Submission returns the submission of a workflow, and if it
// has grown the rest of it, with the number of each of its tasks in the run. The parts are used up.
func Live(parts *Parts, s *executor.Snapshot,
	submission func(*executor.FlowState) (*executor.Submission, []planner.TaskID, error)) (*Past, error) {
	past := &Past{Now: s.Now, Arrivals: s.Coming, Tasks: map[*executor.TaskSpec]planner.TaskID{},
		Refs: map[int64]executor.Ref{}}
	l := &live{pl: parts.Planner, at: s.Now}
	flows, tasks := map[planner.WorkflowID]planner.WorkflowID{}, map[planner.TaskID]planner.TaskID{}
	for i := range s.Flows {
		for _, t := range s.Flows[i].Tasks {
			if underWay(t.Phase) {
				l.at = min(l.at, t.Ordered)
			}
		}
	}
	var begun []begun
	for i := range s.Flows {
		f := &s.Flows[i]
		sub, ids, err := submission(f)
		if err != nil {
			return nil, err
		}
		if f.Grown {
			f = placed(f, ids)
		}
		more, err := l.flow(parts.Admit, f, *sub, s.Now)
		if err != nil {
			return nil, fmt.Errorf("forecast workflow %s: %w", f.Name, err)
		}
		begun = append(begun, more...)
		adm := l.batch.Admissions[len(l.batch.Admissions)-1]
		flows[f.Workflow] = adm.Spec.ID
		for k, t := range adm.Tasks {
			past.Tasks[t] = f.Tasks[k].Task
			tasks[f.Tasks[k].Task] = adm.Arrived.Tasks[k].ID
		}
	}
	for id, r := range s.Refs {
		if r.Workflow = flows[r.Workflow]; r.Task != planner.None {
			r.Task = tasks[r.Task]
		}
		past.Refs[id] = r
	}
	if err := l.run(begun); err != nil {
		return nil, err
	}
	l.at = max(l.at, s.Now)
	for n, c := range s.Capacity {
		if c != l.pl.View().Capacity(planner.NodeID(n)) {
			if err := l.take(planner.NodeChanged{Node: planner.NodeID(n), Capacity: c}); err != nil {
				return nil, err
			}
		}
	}
	if len(l.batch.Events) > 0 {
		past.Batches = []executor.Batch{l.batch}
	}
	return past, nil
}

// placed has the tasks of a workflow in this order. Those that the snapshot does not have are done.
func placed(f *executor.FlowState, ids []planner.TaskID) *executor.FlowState {
	at := map[planner.TaskID]executor.TaskState{}
	for _, t := range f.Tasks {
		at[t.Task] = t
	}
	whole := *f
	whole.Tasks = make([]executor.TaskState, len(ids))
	for k, id := range ids {
		t, ok := at[id]
		if !ok {
			t = executor.TaskState{Task: id, Phase: planner.Done, Started: unit.Never}
		}
		whole.Tasks[k] = t
	}
	return &whole
}

func underWay(p planner.Phase) bool { return p == planner.Starting || p == planner.Running }

// begun is an attempt that is under way.
type begun struct {
	task planner.TaskID
	executor.TaskState
}

type live struct {
	pl    *planner.Planner
	at    planner.Time
	batch executor.Batch
}

func (l *live) take(b planner.Body) error {
	ev := planner.Event{Seq: l.pl.Seq() + 1, At: l.at, Body: b}
	l.batch.Events = append(l.batch.Events, ev)
	return l.pl.Apply(ev)
}

// flow has a workflow arrive and brings it to its state, but for attempts under way.
func (l *live) flow(admit *executor.Admitter, f *executor.FlowState, sub executor.Submission,
	now planner.Time) (under []begun, err error) {
	if sub.At = l.at; f.Started != unit.Never || f.Release <= now {
		sub.Release = 0
	}
	adm, err := admit.Admit(&sub, l.at)
	if err != nil {
		return nil, err
	}
	if len(adm.Tasks) != len(f.Tasks) {
		return nil, fmt.Errorf("it had %d tasks, and has %d", len(adm.Tasks), len(f.Tasks))
	}
	l.batch.Admissions = append(l.batch.Admissions, adm)
	if err := l.take(&adm.Arrived); err != nil {
		return nil, err
	}
	v := l.pl.View()
	first := v.First(adm.Spec.ID)
	for more := true; more; {
		more = false
		for pc := l.pl.Formalities(l.at); pc != nil; pc = l.pl.Formalities(l.at) {
			more = true
			if err := l.starts(pc, planner.OK); err != nil {
				return nil, err
			}
		}
		for i := range f.Tasks {
			t := first + planner.TaskID(i)
			if v.Phase(t) != planner.Ready {
				continue
			}
			switch f.Tasks[i].Phase {
			case planner.Done:
				more = true
				err = l.take(&planner.TaskReused{Task: t, Node: max(0, f.Tasks[i].Node)})
			case planner.Failed:
				more = true
				err = l.starts(l.order(t, executor.TaskState{Node: max(0, f.Tasks[i].Node)}), planner.ExitCode)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	for i := range f.Tasks {
		if t := first + planner.TaskID(i); underWay(f.Tasks[i].Phase) && v.Phase(t) == planner.Ready {
			under = append(under, begun{t, f.Tasks[i]})
		}
	}
	return under, nil
}

// order starts a task.
func (l *live) order(t planner.TaskID, x executor.TaskState) *planner.PlanCommitted {
	return &planner.PlanCommitted{
		Orders: []planner.Order{{Kind: planner.OrderStart, Task: t, Node: x.Node, Hold: x.Hold, GPUs: x.GPUs,
			Attempt: planner.AttemptID(l.pl.View().Attempts()), Try: 1, Until: x.Until}},
	}
}

// starts begins and ends attempts in no time.
func (l *live) starts(pc *planner.PlanCommitted, end planner.Outcome) error {
	if err := l.take(pc); err != nil {
		return err
	}
	for i := range pc.Orders {
		a := pc.Orders[i].Attempt
		if err := l.take(planner.AttemptStarted{Attempt: a}); err != nil {
			return err
		}
		if err := l.take(&planner.AttemptExited{Attempt: a, Outcome: end, Final: end != planner.OK,
			Usage: planner.Usage{Queued: l.at, Staged: l.at, Created: l.at, Started: l.at, Ended: l.at,
				Missing: planner.CountersAll}}); err != nil {
			return err
		}
	}
	return nil
}

// run begins the attempts under way, at their instants.
func (l *live) run(all []begun) error {
	type step struct {
		at planner.Time
		do func() error
	}
	var steps []step
	for _, b := range all {
		attempt := planner.AttemptID(planner.None)
		steps = append(steps, step{b.Ordered, func() error {
			pc := l.order(b.task, b.TaskState)
			attempt = pc.Orders[0].Attempt
			return l.take(pc)
		}})
		if b.Started != unit.Never {
			steps = append(steps,
				step{b.Started, func() error { return l.take(planner.AttemptStarted{Attempt: attempt}) }})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	for _, s := range steps {
		l.at = max(l.at, s.at)
		if err := s.do(); err != nil {
			return err
		}
	}
	return nil
}
