package plannertest

import (
	"cmp"
	"fmt"
	"slices"

	"gantry/planner"
	"gantry/planner/unit"
)

// Check reports how a planner breaks an invariant of a run: capacity, holdings, precedence, phases, the lists of ready
// tasks and of attempts under way, and the draft. Exact says that estimates are true, so that a draft never has more on
// a node than it holds.
func Check(p *planner.Planner, exact bool) error {
	if err := checkState(p.View()); err != nil {
		return err
	}
	return checkDraft(p, exact)
}

func checkState(v planner.View) error {
	underWay := 0
	current := map[planner.TaskID]planner.AttemptID{}
	for n := range v.NodeCount() {
		var held unit.Vector
		gpus := map[int]int64{}
		for _, a := range v.Active(n) {
			att := v.Attempt(a)
			if att.Over || att.Node != n || v.Current(att.Task) != a {
				return fmt.Errorf("attempt %d of task %d is listed as under way on node %d", a, att.Task, n)
			}
			if b, twice := current[att.Task]; twice {
				return fmt.Errorf("attempts %d and %d of task %d are both under way", a, b, att.Task)
			}
			current[att.Task] = a
			held = held.Add(v.Holds(a))
			sum := int64(0)
			for g := range att.GPUs.Each {
				part := min(att.Hold[unit.GPU], unit.WholeGPU)
				sum += part
				gpus[g] += part
				if gpus[g] > unit.WholeGPU || int64(g)*unit.WholeGPU >= v.Nodes()[n].Capacity[unit.GPU] {
					return fmt.Errorf("attempt %d holds GPU %d of node %d, which another holds or there is none", a, g,
						n)
				}
			}
			if sum != att.Hold[unit.GPU] {
				return fmt.Errorf("attempt %d holds %v and the GPUs %b", a, att.Hold, att.GPUs)
			}
			underWay++
		}
		if held != v.Held(n) {
			return fmt.Errorf("attempts hold %v on node %d, and the state has %v", held, n, v.Held(n))
		}
		if c := v.Capacity(n); c == v.Nodes()[n].Capacity && !held.Fits(c) {
			return fmt.Errorf("node %d has %v, and %v is held", n, c, held)
		}
	}
	if underWay != v.UnderWayCount() {
		return fmt.Errorf("%d attempts are under way, and the state counts %d", underWay, v.UnderWayCount())
	}
	return checkPhases(v, current)
}

func checkPhases(v planner.View, current map[planner.TaskID]planner.AttemptID) error {
	ready := map[planner.TaskID]bool{}
	for _, t := range v.Ready() {
		if v.Phase(t) != planner.Ready || ready[t] {
			return fmt.Errorf("task %d, which is %s, is listed as ready", t, v.Phase(t))
		}
		ready[t] = true
	}
	for _, w := range v.Present() {
		for _, t := range v.Workflow(w).Tasks {
			task, phase := v.Task(t), v.Phase(t)
			waits := slices.ContainsFunc(task.Parents,
				func(p planner.TaskID) bool { return v.Phase(p) != planner.Done })
			_, placed := current[t]
			switch {
			case phase == planner.Ready && !task.Formal && !ready[t]:
				return fmt.Errorf("task %d is ready and not listed", t)
			case placed != phase.Placed() && !task.Formal:
				return fmt.Errorf("task %d is %s, and has an attempt under way: %v", t, phase, placed)
			case waits && phase != planner.Waiting && phase != planner.Skipped:
				return fmt.Errorf("task %d is %s, and a parent is not done", t, phase)
			}
		}
	}
	return nil
}

func checkDraft(p *planner.Planner, exact bool) error {
	v, d := p.View(), p.Draft()
	for node := range v.NodeCount() {
		var stays []planner.Segment
		for seg := range d.On(node) {
			if seg.Node != node {
				return fmt.Errorf("the stay of task %d on node %d is listed on node %d", seg.Task, seg.Node, node)
			}
			if seg.Kind != planner.Planned {
				seg.End = max(d.ActiveEnd(seg.Task), v.Now())
			} else if err := checkPrecedence(v, d, seg); err != nil {
				return err
			} else if v.Phase(seg.Task) == planner.Suspended {
				stays = append(stays, planner.Segment{Hold: v.Holds(v.Current(seg.Task)), End: seg.Start})
			}
			stays = append(stays, seg)
		}
		if !exact || v.Capacity(node) != v.Nodes()[node].Capacity {
			continue
		}
		slices.SortStableFunc(stays, func(a, b planner.Segment) int { return cmp.Compare(a.Start, b.Start) })
		for i := range stays {
			at := max(stays[i].Start, v.Now())
			var used unit.Vector
			for j := range stays {
				if stays[j].Start <= at && stays[j].End > at {
					used = used.Add(stays[j].Hold)
				}
			}
			if !used.Fits(v.Capacity(node)) {
				return fmt.Errorf("node %d has %v, and %v is planned at %v", node, v.Capacity(node), used, at)
			}
		}
	}
	return nil
}

func checkPrecedence(v planner.View, d *planner.Draft, seg planner.Segment) error {
	for _, p := range v.Task(seg.Task).Parents {
		if v.Phase(p) == planner.Done {
			continue
		}
		if ps, ok := d.Of(p); !ok || ps.Kind == planner.Parked || ps.Kind == planner.Planned && ps.End > seg.Start {
			return fmt.Errorf("task %d is planned at %v, before its parent %d", seg.Task, seg.Start, p)
		}
	}
	return nil
}
