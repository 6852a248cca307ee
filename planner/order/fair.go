package order

import (
	"math"
	"time"

	"gantry/planner"
	"gantry/planner/predict"
	"gantry/planner/rank"
	"gantry/planner/unit"
)

// Fair is the ordering of Fair Workflow Prioritization (Ilyushkin and Epema, CCGrid 2018, section III-H): workflows whose slowdown is
// furthest above the target come first.
type Fair struct {
	Ranks *rank.Upward

	slowdowns  *predict.Ratio // of the workflows that ended last; its denominators are 1
	correction *predict.Ratio
	xi         float64    // the value of correction in this round
	standings  []standing // by workflow
	ended      []ending
}

// standing is what the slowdown of a workflow follows from, but for the time and the correction.
type standing struct {
	arrived                   planner.Time
	remaining, length, factor float64 // of ranks
	ahead                     int32   // the first task by rank that has not started
}

// ending is a completed task, or a completed workflow.
type ending struct {
	task     planner.TaskID
	node     planner.NodeID
	ran      time.Duration
	workflow bool
	response time.Duration
}

// NewFair returns an ordering whose target slowdown is the mean of the last k workflows, and which corrects estimates by the last m tasks.
func NewFair(ranks *rank.Upward, k, m int) *Fair {
	return &Fair{Ranks: ranks, slowdowns: predict.NewRatio(k), correction: predict.NewRatio(m)}
}

// Observe implements planner.Observer.
func (f *Fair) Observe(v planner.View, e planner.Event) {
	x, ok := e.Body.(*planner.AttemptExited)
	if !ok || x.Outcome != planner.OK {
		return
	}
	att := v.Attempt(x.Attempt)
	end := ending{task: att.Task, node: att.Node, ran: x.Ran}
	if u := &x.Usage; u.Staged > 0 && u.Started >= u.Staged && u.Started != unit.Never {
		end.ran += u.Started.Sub(u.Staged) // estimates include the start of a container
	}
	w := v.Workflow(v.Task(att.Task).Workflow)
	if left, _ := v.Progress(w.ID); left == 0 {
		end.workflow, end.response = true, e.At.Sub(w.Arrived)
	}
	f.ended = append(f.ended, end)
}

// Update takes in what was observed since the last round.
func (f *Fair) Update(c *planner.Cycle) {
	if n := c.View.Workflows() - len(f.standings); n > 0 {
		f.standings = append(f.standings, make([]standing, n)...)
	}
	for i := range f.ended {
		end := &f.ended[i]
		task := c.Task(end.task)
		f.correction.Add(float64(end.ran), estimateOf(c, task, end.node))
		if end.workflow {
			if length := f.Ranks.Length(task.Workflow) * scale(f.Ranks.Factor(task.Workflow), f.correction.Value()); length > 0 {
				f.slowdowns.Add(float64(end.response)/length, 1)
			}
			f.Ranks.Forget(task.Workflow)
		}
	}
	f.ended, f.xi = f.ended[:0], f.correction.Value()
	for _, t := range c.News.Ready {
		if c.Tries(t) > 0 {
			f.standings[c.Task(t).Workflow].ahead = 0 // what had started has to start again
		}
	}
}

// estimateOf is what was believed of a run, in nanoseconds, on the terms of the ranks.
func estimateOf(c *planner.Cycle, t *planner.Task, n planner.NodeID) float64 {
	node := &c.Nodes()[n]
	if r, ok := c.Est.(planner.Ranker); ok {
		run, factor := r.Unscaled(t, node)
		return float64(run) * factor
	}
	return float64(c.Est.Run(t, node).Run)
}

// Target is s_t: the mean slowdown of the workflows that ended last, 1 if none has. It is the same for all workflows, so that no decision
// depends on it.
func (f *Fair) Target() float64 { return f.slowdowns.Value() }

// Correction is ξ: what was measured of the tasks that ended last over what was estimated of them, 1 if none has.
func (f *Fair) Correction() float64 { return f.correction.Value() }

// scale is what turns unscaled ranks of a workflow into time: its factor and the correction. The last bits are dropped, for they tell of
// rounding only, and a workflow that was never delayed has to come out at a slowdown of exactly 1, whatever the factor.
func scale(factor, correction float64) float64 {
	const drop = 1 << 12
	return math.Float64frombits((math.Float64bits(factor*correction) + drop/2) &^ (drop - 1))
}

// Slowdown is ŝ: the residence time so far and the corrected length of what has not started, over the corrected length of the workflow.
// Times are in nanoseconds.
func Slowdown(resident, remaining, length, scale float64) float64 {
	if length*scale == 0 {
		if resident == 0 {
			return 1
		}
		return math.Inf(1)
	}
	return (resident + remaining*scale) / (length * scale)
}

// Settle takes in which tasks of w have a place by now.
func (f *Fair) Settle(c *planner.Cycle, w planner.WorkflowID) {
	flow, s := c.Workflow(w), &f.standings[w]
	tasks := f.Ranks.Sorted(flow)
	for int(s.ahead) < len(tasks) && !c.Unplaced(tasks[s.ahead]) {
		s.ahead++
	}
	s.arrived, s.length, s.factor, s.remaining = flow.Arrived, f.Ranks.Length(w), f.Ranks.Factor(w), 0
	if int(s.ahead) < len(tasks) {
		s.remaining = f.Ranks.Unscaled(tasks[s.ahead])
	}
}

// Of returns the present slowdown of w, as Settle left it.
func (f *Fair) Of(c *planner.Cycle, w planner.WorkflowID) float64 {
	s := &f.standings[w]
	return Slowdown(float64(c.Now().Sub(s.arrived)), s.remaining, s.length, scale(s.factor, f.xi))
}

// Distance is r_b: how far w's slowdown is above the target.
func (f *Fair) Distance(c *planner.Cycle, w planner.WorkflowID) float64 {
	f.Settle(c, w)
	return f.Of(c, w) - f.Target()
}
