package order

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/cp"
	"gantry/planner/retain"
	"gantry/planner/unit"
)

// Solved yields the tasks of all workflows whose earliest start has come, or of all, in the order of their starts in a
// solution of the model of package cp, as few workflows as possible being late. Where nodes and needs are alike, nodes
// are summed up for that; an allocator that places the tasks in this order where they finish first matches them with
// nodes, and starts none later than the solution does (tasks placed before only free slots from then on). Else the
// model has every node, and the solution a node for each task, as long as it is small; of a large one the sum is taken,
// and the mean runtime over the nodes. Where needs are alike, the nodes of one speed are summed up. Copies of files are
// left to the allocator: the ends of workflows follow from its places.
//
// The budget of the solver is counted in steps and never in time, so that a simulation and a resumed run decide
// alike. Between two models the plan bends like any other.
//
// The model is solved again when a workflow is to be planned, a node changes or a task wants a place that has none; and
// when a task is so late that a workflow which was to meet its deadline would miss it, once for each workflow between
// two of the former.
type Solved struct {
	Most int // tasks of one model; a larger load is refused

	// Reserve plans workflows when they arrive, from their earliest start on; else once that has come.
	Reserve bool
	// Reject refuses workflows, when they are planned, that would be late or make others late that were not.
	Reject bool

	since   unit.Time // first round
	asked   bool      // there was one
	wanted  bool
	err     error
	order   []planner.TaskID
	next    int
	on      []planner.NodeID // by task of the last solution: its node; None: any
	index   []int32          // by task: place in the model, from 1 on; 0: not there
	ends    []unit.Time      // by workflow: as the last plan has it; 0: none has it
	solved  bool             // in this round
	fits    []promise        // of workflows that are planned for the first time in this round
	retried []bool           // by workflow: solved again because it was endangered
	refused []bool           // by workflow: not to be planned
	speeds  []speedOfNodes   // of nodes that are there
	slots   [][]slot         // by pool of the model; none: it has nodes
}

// promise is a workflow with its laxity.
type promise struct {
	w      planner.WorkflowID
	laxity time.Duration
}

type speedOfNodes struct {
	node  planner.NodeID // one of them
	count int
}

var _ planner.Queue = (*Solved)(nil)

// Err returns why no model was made in the last round.
func (q *Solved) Err() error { return q.err }

// Add implements retain.Requeuer: a task that lost its place is in the next model.
func (q *Solved) Add(*planner.Cycle, planner.TaskID) {}

// Outdated reports whether the plan has to be made again.
func (q *Solved) Outdated(c *planner.Cycle) bool {
	if !q.asked {
		q.since, q.asked = c.Now(), true
	}
	arrived := func(w planner.WorkflowID) bool { // of tasks without time alone there is nothing to plan
		return q.from(c, w) <= c.Now() && len(c.Workflow(w).Tasks) > 0
	}
	q.wanted = slices.ContainsFunc(c.News.Arrived, arrived) || slices.ContainsFunc(c.News.Grown, arrived) ||
		retain.Broken(c)
	if q.wanted {
		clear(q.retried)
	} else {
		q.wanted = len(c.News.Finished)+len(c.News.Ended) > 0 && q.endangered(c)
	}
	return q.wanted
}

// from is the instant from which on a workflow is planned.
func (q *Solved) from(c *planner.Cycle, w planner.WorkflowID) unit.Time {
	flow := c.Workflow(w)
	if q.Reserve {
		return flow.Arrived
	}
	return max(flow.Arrived, flow.Release)
}

// endangered reports whether a planned task that should have started delays a workflow past its deadline, as far as is
// known by now.
func (q *Solved) endangered(c *planner.Cycle) (found bool) {
	for n := range c.NodeCount() {
		for seg := range c.Draft.Planned(n) {
			if seg.Start >= c.Now() {
				break
			}
			w := c.Task(seg.Task).Workflow
			if due, end := c.Workflow(w).Due, q.ends[w]; end <= due && !q.retried[w] &&
				end.Add(expected(c, &seg).Sub(seg.Start)) > due {
				q.retried[w], found = true, true
			}
		}
	}
	return found
}

// expected is when a task whose planned start has passed is estimated to start where it is planned, at the earliest.
func expected(c *planner.Cycle, seg *planner.Segment) unit.Time {
	start := c.Now()
	if !seg.Hold.Fits(c.Draft.Free(seg.Node)) {
		room := unit.Never
		for _, a := range c.Active(seg.Node) {
			room = min(room, c.Draft.ActiveEnd(c.Attempt(a).Task))
		}
		start = max(start, room)
	}
	for _, parent := range c.Task(seg.Task).Parents {
		if at, ok := c.Draft.Of(parent); ok && at.Kind == planner.Active {
			start = max(start, c.Draft.ActiveEnd(parent))
		}
	}
	return start
}

// Update implements planner.Queue.
func (q *Solved) Update(c *planner.Cycle) {
	q.err = nil
	if !q.wanted {
		return
	}
	q.wanted, q.next = false, 0
	q.ends = planner.Extend(q.ends, c.Workflows())
	q.retried, q.refused = planner.Extend(q.retried, c.Workflows()), planner.Extend(q.refused, c.Workflows())
	for len(q.index) < c.Tasks() {
		q.index, q.on = append(q.index, 0), append(q.on, planner.None)
	}
	q.solve(c)
}

// Next implements planner.Queue.
func (q *Solved) Next(*planner.Cycle) (planner.TaskID, bool) {
	if q.next == len(q.order) {
		return planner.None, false
	}
	return q.order[q.next], true
}

// On returns the node that the solution has for a task; planner.None if nodes are summed up.
func (q *Solved) On(t planner.TaskID) planner.NodeID { return q.on[t] }

// Take implements planner.Queue.
func (q *Solved) Take(*planner.Cycle, planner.TaskID) { q.next++ }

// Defer implements planner.Queue. The task comes back with the next model.
func (q *Solved) Defer(*planner.Cycle, planner.TaskID) { q.next++ }

// searchSteps are those of a model: of some 6,000 random problems the hardest took a third.
const searchSteps = 400_000

func (q *Solved) solve(c *planner.Cycle) {
	p, tasks, workflows := q.model(c)
	for _, t := range tasks {
		q.index[t] = 0
	}
	if len(tasks) > q.Most {
		q.order = q.order[:0]
		q.err = fmt.Errorf("%w: the constraint model would have %d tasks (workflows: %d), more than its bound of "+
			"%d: raise it by the parameter tasks, or "+
			"choose rm-dcwf, which has none", planner.ErrUnsupported, len(tasks), len(workflows), q.Most)
		return
	}
	s := cp.Solve(p, searchSteps)
	if w := q.toRefuse(c, s, workflows); w != planner.None {
		q.refuse(c, w)
		if slices.ContainsFunc(workflows, func(w planner.WorkflowID) bool { return q.fresh(c, w) }) {
			q.solve(c)
			return
		}
		q.order = slices.DeleteFunc(q.order, func(t planner.TaskID) bool {
			return c.Phase(t).Ended() ||
				c.Phase(t).Placed()
		})
		return
	}
	order := make([]int32, len(tasks))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(s.Start[a], s.Start[b]), cmp.Compare(a, b))
	})
	q.order = q.order[:0]
	for _, i := range order {
		q.order = append(q.order, tasks[i])
		if q.on[tasks[i]] = planner.None; len(p.Nodes) > 0 {
			q.on[tasks[i]] = q.house(s.On[i], s.Start[i], s.Start[i].Add(p.Tasks[i].RunOn[s.On[i]]))
		}
	}
	q.solved = true
	for j, w := range workflows {
		if q.fresh(c, w) {
			q.fits = append(q.fits, promise{w, laxity(p, int32(j))})
		}
	}
}

// Planned says that the tasks have their places by the last solution: it learns when workflows end by that.
func (q *Solved) Planned(c *planner.Cycle) {
	if !q.solved {
		return
	}
	for _, w := range c.Present() {
		if q.from(c, w) > c.Now() || q.refused[w] {
			continue
		}
		q.ends[w] = 1
		for _, t := range c.Workflow(w).Tasks {
			if _, ok := c.Draft.Of(t); ok {
				q.ends[w] = max(q.ends[w], c.Draft.ActiveEnd(t))
			}
		}
	}
	for _, f := range q.fits {
		c.Promise(f.w, q.ends[f.w], f.laxity)
	}
	q.solved, q.fits = false, q.fits[:0]
}

// fresh reports whether a workflow is planned for the first time; those that were planned before a restart were
// promised something then.
func (q *Solved) fresh(c *planner.Cycle, w planner.WorkflowID) bool {
	return q.ends[w] == 0 && !q.refused[w] && q.from(c, w) >= q.since
}

// toRefuse returns a fresh workflow that the solution has late or, if it makes others late that were not, the last one.
func (q *Solved) toRefuse(c *planner.Cycle, s *cp.Solution, workflows []planner.WorkflowID) planner.WorkflowID {
	last, harm := planner.WorkflowID(planner.None), false
	asked := slices.ContainsFunc(workflows, func(w planner.WorkflowID) bool { return c.Workflow(w).RejectLate })
	for j, w := range workflows {
		due := c.Workflow(w).Due
		late := s.End[j] > due
		switch {
		case !q.Reject && !asked:
		case q.fresh(c, w):
			if !q.Reject && !c.Workflow(w).RejectLate {
				break
			}
			if last = w; late {
				return w
			}
		case late && q.ends[w] <= due:
			harm = true
		}
	}
	if !harm {
		return planner.None
	}
	return last
}

func (q *Solved) refuse(c *planner.Cycle, w planner.WorkflowID) {
	q.refused[w] = true
	c.Note(planner.Note{Topic: planner.TopicRefused, Workflow: w, Task: planner.None, At: c.Workflow(w).Due,
		Text: "the solver finds no plan in which it meets its deadline and makes no other miss one"})
}

// laxity is the time a job has to spare if it has the whole resource for itself from its earliest start on.
func laxity(p *cp.Problem, job int32) time.Duration {
	alone := cp.Problem{Now: p.Jobs[job].Release, Capacity: p.Capacity, Nodes: p.Nodes, Jobs: []cp.Job{p.Jobs[job]}}
	first := int32(slices.IndexFunc(p.Tasks, func(t cp.Task) bool { return t.Job == job }))
	for _, t := range p.Tasks {
		if t.Job != job {
			continue
		}
		t.Job, t.Parents = 0, slices.Clone(t.Parents)
		for i := range t.Parents {
			t.Parents[i] -= first
		}
		alone.Tasks = append(alone.Tasks, t)
	}
	return p.Jobs[job].Due.Sub(cp.Solve(&alone, 0).End[0])
}

// model makes the problem of the unstarted tasks of the workflows that are to be planned.
func (q *Solved) model(c *planner.Cycle) (p *cp.Problem, tasks []planner.TaskID, workflows []planner.WorkflowID) {
	p = &cp.Problem{Now: c.Now()}
	q.speeds = q.speeds[:0]
	for n := range c.NodeCount() {
		if c.Capacity(n) != (unit.Vector{}) {
			q.add(c, n)
		}
	}
	for _, w := range c.Present() {
		flow := c.Workflow(w)
		if q.from(c, w) > c.Now() || q.refused[w] {
			continue
		}
		job := cp.Job{Release: max(flow.Arrived, flow.Release), Due: flow.Due}
		for _, t := range flow.Tasks {
			if c.Phase(t).Ended() {
				continue
			}
			if seg, ok := c.Draft.Of(t); ok && seg.Kind == planner.Active {
				end := c.Draft.ActiveEnd(t)
				p.Fixed = append(p.Fixed, cp.Stay{Hold: seg.Hold, End: end, Node: int32(seg.Node)})
				job.Floor = max(job.Floor, end)
				continue
			}
			if x, ok := q.task(c, t); ok {
				x.Job = int32(len(p.Jobs))
				p.Tasks = append(p.Tasks, x)
				tasks = append(tasks, t)
				q.index[t] = int32(len(tasks))
			}
		}
		p.Jobs = append(p.Jobs, job)
		workflows = append(workflows, w)
	}
	if !q.byNode(c, p, tasks) {
		summed(c, p)
	}
	return p, tasks, workflows
}

// mostPlaces bounds the tasks times the nodes of a model that has every node: beyond, nodes are summed up.
const mostPlaces = 4096

// byNode gives the model every node if summing them up were not exact, because they differ in speed or needs in size,
// and it does not become too large by that; else it returns false.
func (q *Solved) byNode(c *planner.Cycle, p *cp.Problem, tasks []planner.TaskID) bool {
	if len(c.Nodes()) == 1 || len(tasks)*len(c.Nodes()) > mostPlaces {
		return false
	}
	exact := len(q.speeds) == 1 && !slices.ContainsFunc(tasks,
		func(t planner.TaskID) bool { return !c.BySpeed(c.Task(t)) })
	if exact {
		if _, ok := slotsOf(c, needsOf(p)); ok {
			return false
		}
	}
	for n := range c.NodeCount() {
		p.Nodes = append(p.Nodes, c.Capacity(n))
		p.Capacity = p.Capacity.Add(p.Nodes[n])
	}
	for i, t := range tasks {
		x := &p.Tasks[i]
		x.RunOn, x.Run = make([]time.Duration, len(p.Nodes)), math.MaxInt64
		for n := range p.Nodes {
			if x.RunOn[n] = -1; x.Need.Fits(p.Nodes[n]) {
				x.RunOn[n] = max(1, c.Est.Run(c.Task(t), &c.Nodes()[n]).Run)
				x.Run = min(x.Run, x.RunOn[n])
			}
		}
	}
	q.pool(p)
	return true
}

// slot is room for one task on a node.
type slot struct {
	node  planner.NodeID
	until unit.Time // it is taken
}

// pool sums up the nodes of a model on which everything runs as long, if there is one need only: slots of alike nodes
// are alike. Running tasks keep their own.
func (q *Solved) pool(p *cp.Problem) {
	q.slots = q.slots[:0]
	needs := needsOf(p)
	if len(needs) != 1 {
		return
	}
	alike := func(m, n int) bool {
		return !slices.ContainsFunc(p.Tasks, func(t cp.Task) bool { return t.RunOn[m] != t.RunOn[n] })
	}
	var first []int // node of each pool
	in := make([]int32, len(p.Nodes))
	for n := range p.Nodes {
		k := slices.IndexFunc(first, func(m int) bool { return alike(m, n) })
		if k < 0 {
			k = len(first)
			first, q.slots = append(first, n), append(q.slots, nil)
		}
		in[n] = int32(k)
		for range min(needs[0].Into(p.Nodes[n]), int64(len(p.Tasks)+len(p.Fixed))) {
			q.slots[k] = append(q.slots[k], slot{node: planner.NodeID(n)})
		}
	}
	p.Nodes, p.Capacity = nil, unit.Vector{}
	for _, slots := range q.slots {
		capacity := unit.Vector{}
		for d, v := range needs[0] {
			capacity[d] = v * int64(len(slots))
		}
		p.Nodes, p.Capacity = append(p.Nodes, capacity), p.Capacity.Add(capacity)
	}
	for i := range p.Tasks {
		on := make([]time.Duration, len(first))
		for k, n := range first {
			on[k] = p.Tasks[i].RunOn[n]
		}
		p.Tasks[i].RunOn = on
	}
	for i := range p.Fixed {
		f := &p.Fixed[i]
		slots := q.slots[in[f.Node]]
		k := slices.IndexFunc(slots, func(s slot) bool { return s.node == planner.NodeID(f.Node) && s.until == 0 })
		if k >= 0 {
			slots[k].until = f.End
		}
		f.Node = in[f.Node]
	}
}

// house returns the node for a task that a solution has during [start, end), which asks for all in the order of their
// starts: on is a node or, with slots, a pool.
func (q *Solved) house(on int32, start, end unit.Time) planner.NodeID {
	if len(q.slots) == 0 {
		return planner.NodeID(on)
	}
	slots := q.slots[on]
	k := slices.IndexFunc(slots, func(s slot) bool { return s.until <= start }) // no more stays overlap than there are
	slots[k].until = end
	return slots[k].node
}

// mostNeeds bounds the needs that slots are counted for, in a vector of counts.
const mostNeeds = 3

// needsOf lists the needs of a model, as many as slots can be counted for and one more.
func needsOf(p *cp.Problem) (needs []unit.Vector) {
	add := func(v unit.Vector) {
		if len(needs) <= mostNeeds && !slices.Contains(needs, v) {
			needs = append(needs, v)
		}
	}
	for i := range p.Tasks {
		add(p.Tasks[i].Need)
	}
	for i := range p.Fixed {
		add(p.Fixed[i].Hold)
	}
	return needs
}

// add counts a node by its speed.
func (q *Solved) add(c *planner.Cycle, n planner.NodeID) {
	for i := range q.speeds {
		if c.Nodes()[q.speeds[i].node].Speed == c.Nodes()[n].Speed {
			q.speeds[i].count++
			return
		}
	}
	q.speeds = append(q.speeds, speedOfNodes{n, 1})
}

// task models a task; false if no node can hold it, or a parent of it is not modelled for that reason.
func (q *Solved) task(c *planner.Cycle, t planner.TaskID) (x cp.Task, ok bool) {
	task := c.Task(t)
	if !slices.ContainsFunc(c.Nodes(), func(n planner.Node) bool { return task.Need.Fits(c.Capacity(n.ID)) }) {
		return x, false
	}
	x = cp.Task{Need: task.Need, Run: q.run(c, task), Number: int64(t)}
	for _, parent := range task.Parents {
		if c.Phase(parent) == planner.Done {
			continue
		}
		if seg, placed := c.Draft.Of(parent); placed && seg.Kind == planner.Active {
			x.After = max(x.After, c.Draft.ActiveEnd(parent))
		} else if i := q.index[parent]; i > 0 {
			x.Parents = append(x.Parents, i-1)
		} else {
			return x, false
		}
	}
	return x, true
}

// run is the mean runtime over the nodes.
func (q *Solved) run(c *planner.Cycle, t *planner.Task) time.Duration {
	if !c.BySpeed(t) {
		sum := time.Duration(0)
		for n := range c.Nodes() {
			sum += c.Est.Run(t, &c.Nodes()[n]).Run
		}
		return max(1, sum/time.Duration(len(c.Nodes())))
	}
	sum, nodes := time.Duration(0), 0
	for _, s := range q.speeds {
		run := c.Est.Run(t, &c.Nodes()[s.node]).Run
		if len(q.speeds) == 1 {
			return max(1, run)
		}
		sum += run * time.Duration(s.count)
		nodes += s.count
	}
	return max(1, sum/time.Duration(max(1, nodes)))
}

// summed gives the model one resource for all nodes. Where tasks have one need, or needs that fit side by side on every
// node as often as each fits alone (such as those of map and of reduce tasks with slots of their own), capacity is
// counted in slots, which no task straddles; else amounts are added up.
func summed(c *planner.Cycle, p *cp.Problem) {
	needs := needsOf(p)
	slots, ok := slotsOf(c, needs)
	if p.Capacity = slots; !ok {
		p.Capacity = c.Total()
		return
	}
	one := func(v *unit.Vector) {
		k := slices.Index(needs, *v)
		*v = unit.Vector{}
		v[k] = 1
	}
	for i := range p.Tasks {
		one(&p.Tasks[i].Need)
	}
	for i := range p.Fixed {
		one(&p.Fixed[i].Hold)
	}
}

// slotsOf returns how many tasks of each need all nodes hold at once; false if the needs are in each other's way.
func slotsOf(c *planner.Cycle, needs []unit.Vector) (slots unit.Vector, ok bool) {
	if len(needs) > mostNeeds {
		return slots, false
	}
	for n := range c.NodeCount() {
		capacity := c.Capacity(n)
		all := unit.Vector{}
		for k, need := range needs {
			count := need.Into(capacity)
			for d := range need {
				if capacity[d] != unit.Unlimited {
					all[d] += count * need[d]
				}
			}
			slots[k] += count
		}
		if len(needs) > 1 && !all.Fits(capacity) {
			return slots, false
		}
	}
	return slots, true
}
