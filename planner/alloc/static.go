package alloc

import (
	"context"
	"math"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// Static plans whole workflows by a list: of the tasks whose parents have places, the one with the highest priority
// goes to the node with the lowest score, into the earliest gap that is long enough. Among equals the task of higher
// upward rank is taken, then the lower one, and the node where the task finishes first, then the lower one. Its
// priorities need not fall along edges. Times are whole nanoseconds, means rounded down.
type Static struct {
	Rule Rule

	tasks  map[planner.TaskID]*weighed // of workflows that have not ended
	fixed  float64                     // mean time of a copy, nanoseconds
	each   float64                     // and of each of its bytes
	marked map[planner.TaskID]bool     // tasks that want a place in this round
}

// Rule is a list scheduler.
type Rule uint8

const (
	// PEFT: by the mean of the optimistic cost table, to the node of the earliest finish plus its entry in the table
	// (Arabnejad and Barbosa 2014, equations 3 to 6).
	PEFT Rule = iota
	// CPOP: by the sum of upward and downward rank; tasks of the critical path go to the one node on which that is
	// shortest, others where they finish first (Topcuoglu et al. 2002, section 4.3).
	CPOP
	// Lookahead: by upward rank, to the node on which the last of the children finishes first, each where it does so
	// earliest (Bittencourt, Sakellariou and Madeira 2010, section III); without children where it finishes first.
	Lookahead
	// MinMin: the task that can finish first of all, where it does so (Ibarra and Kim 1977).
	MinMin
	// MaxMin: the task whose earliest finish is the latest, where it is (the same).
	MaxMin
)

// weighed is what a rule knows of a task before it has a place.
type weighed struct {
	runs     []time.Duration // by node; below 0: it never fits
	mean     time.Duration   // over the nodes that fit
	onward   []time.Duration // by node: the optimistic cost table
	up, down time.Duration
	priority time.Duration
	pinned   planner.NodeID // of the critical path; None: not of it
}

// Readmitting is a queue that takes tasks back.
type Readmitting interface {
	planner.Queue
	Add(c *planner.Cycle, t planner.TaskID)
}

// Allocate implements planner.Allocator.
func (s *Static) Allocate(ctx context.Context, c *planner.Cycle, q Readmitting) error {
	s.weigh(c)
	var open []planner.TaskID
	for t, ok := q.Next(c); ok; t, ok = q.Next(c) {
		q.Take(c, t)
		open = append(open, t)
	}
	if len(open) == 0 {
		return nil
	}
	s.marked = map[planner.TaskID]bool{}
	var ready []reachable
	for _, t := range open {
		s.marked[t] = true
		if _, ok := c.From(c.Task(t)); ok {
			ready = append(ready, reachable{task: t})
		}
	}
	for len(ready) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := s.next(c, ready)
		x := ready[at]
		ready = slices.Delete(ready, at, at+1)
		seg := s.place(c, &x)
		if seg.Node == planner.None {
			continue
		}
		if err := c.Draft.Keep(seg); err != nil {
			return err
		}
		delete(s.marked, x.task)
		for i := range ready {
			if ready[i].seg.Node == seg.Node { // other nodes have what they had
				ready[i].known = false
			}
		}
		for _, child := range c.Task(x.task).Children {
			if _, ok := c.From(c.Task(child)); ok && s.marked[child] &&
				!slices.ContainsFunc(ready, func(r reachable) bool { return r.task == child }) {
				ready = append(ready, reachable{task: child})
			}
		}
	}
	for _, t := range open {
		if s.marked[t] {
			q.Add(c, t)
		}
	}
	return nil
}

// reachable is a task whose parents have places.
type reachable struct {
	task  planner.TaskID
	known bool
	seg   planner.Segment // where it finishes first, if known
}

// next chooses the task that is placed next.
func (s *Static) next(c *planner.Cycle, ready []reachable) int {
	value := func(x *reachable) int64 {
		if s.Rule < MinMin {
			return int64(s.tasks[x.task].priority)
		}
		if !x.known {
			x.seg, x.known = s.earliest(c, x.task), true
		}
		if s.Rule == MinMin {
			return -int64(x.seg.End)
		}
		return int64(x.seg.End)
	}
	best, most := 0, int64(math.MinInt64)
	for i := range ready {
		v := value(&ready[i])
		a, b := s.tasks[ready[i].task].up, s.tasks[ready[best].task].up
		if v > most || v == most && (a > b || a == b && ready[i].task < ready[best].task) {
			best, most = i, v
		}
	}
	return best
}

// place chooses the stay of a task; on no node if none can hold it now.
func (s *Static) place(c *planner.Cycle, x *reachable) planner.Segment {
	w := s.tasks[x.task]
	switch {
	case x.known:
		return x.seg
	case s.Rule == CPOP && w.pinned != planner.None:
		if seg := s.on(c, x.task, w.pinned); seg.Node != planner.None {
			return seg
		}
	case s.Rule == PEFT:
		return s.best(c, x.task, func(seg *planner.Segment) planner.Time { return seg.End.Add(w.onward[seg.Node]) })
	case s.Rule == Lookahead && len(c.Task(x.task).Children) > 0:
		others := make([][]planner.Time, len(c.Task(x.task).Children))
		for i, child := range c.Task(x.task).Children {
			others[i] = arrivals(c, x.task, child)
		}
		return s.best(c, x.task, func(seg *planner.Segment) planner.Time {
			mark := c.Draft.Mark()
			defer c.Draft.Rollback(mark)
			if c.Draft.Keep(*seg) != nil {
				return unit.Never
			}
			last := seg.End
			for i, child := range c.Task(x.task).Children {
				last = max(last, s.ahead(c, seg, child, others[i]))
			}
			return last
		})
	}
	return s.earliest(c, x.task)
}

func (s *Static) earliest(c *planner.Cycle, t planner.TaskID) planner.Segment {
	return s.best(c, t, func(seg *planner.Segment) planner.Time { return seg.End })
}

// best is the stay with the lowest score over the nodes.
func (s *Static) best(c *planner.Cycle, t planner.TaskID, score func(*planner.Segment) planner.Time) planner.Segment {
	best, least := planner.Segment{Node: planner.None, End: unit.Never}, unit.Never
	for n := range c.NodeCount() {
		seg := s.on(c, t, n)
		if seg.Node == planner.None {
			continue
		}
		if v := score(&seg); best.Node == planner.None || v < least || v == least && seg.End < best.End {
			best, least = seg, v
		}
	}
	return best
}

// on is the earliest stay of a task on a node.
func (s *Static) on(c *planner.Cycle, t planner.TaskID, n planner.NodeID) planner.Segment {
	if site, ok := c.Site(t, n); ok {
		if start, ok := c.Draft.Earliest(n, site.More, site.Dur, site.From); ok {
			return segment(t, site, start)
		}
	}
	return planner.Segment{Node: planner.None, End: unit.Never}
}

// arrivals are when, by node, a child has what its parents give that have places, but for one of them.
func arrivals(c *planner.Cycle, but, child planner.TaskID) []planner.Time {
	from := make([]planner.Time, len(c.Nodes()))
	least := c.Now()
	places := map[planner.TaskID]planner.Segment{}
	for _, p := range c.Task(child).Parents {
		if seg, ok := c.Draft.Of(p); ok && p != but {
			places[p] = seg
			least = max(least, seg.End)
		}
	}
	for n := range from {
		from[n] = least
	}
	for _, f := range c.Task(child).Inputs {
		seg, ok := places[c.File(f).Producer]
		for n := range from {
			if ok {
				from[n] = max(from[n], seg.End.Add(c.MoveTime(c.File(f).Size, seg.Node, planner.NodeID(n))))
			}
		}
	}
	return from
}

// ahead is when a child of a task with that stay could finish first; others are the arrivals from its other parents.
func (s *Static) ahead(c *planner.Cycle, seg *planner.Segment, child planner.TaskID,
	others []planner.Time) planner.Time {
	least, task, w := unit.Never, c.Task(child), s.tasks[child]
	if w == nil {
		return 0 // it has ended: its results were there
	}
	var sizes []unit.Bytes
	for _, f := range task.Inputs {
		if c.File(f).Producer == seg.Task {
			sizes = append(sizes, c.File(f).Size)
		}
	}
	for n, run := range w.runs {
		if run < 0 {
			continue
		}
		from := max(others[n], seg.End)
		for _, size := range sizes {
			from = max(from, seg.End.Add(c.MoveTime(size, seg.Node, planner.NodeID(n))))
		}
		if start, ok := c.Draft.Earliest(planner.NodeID(n), task.Need, max(1, run), from); ok {
			least = min(least, start.Add(run))
		}
	}
	return least
}

// weigh computes what the rule knows of workflows that arrived or grew, and forgets those that have ended.
func (s *Static) weigh(c *planner.Cycle) {
	if s.tasks == nil {
		s.tasks = map[planner.TaskID]*weighed{}
		fixed, each := c.Platform().MeanMove()
		s.fixed, _ = fixed.Float64()
		s.each, _ = each.Float64()
	}
	flows := slices.Concat(c.News.Arrived, c.News.Grown)
	if c.News.Changed {
		flows = c.Present()
	}
	for _, w := range flows {
		s.workflow(c, w)
	}
	for _, list := range [...][]planner.TaskID{c.News.Finished, c.News.Ended} {
		for _, t := range list {
			delete(s.tasks, t)
		}
	}
}

func (s *Static) workflow(c *planner.Cycle, id planner.WorkflowID) {
	order := slices.DeleteFunc(slices.Clone(c.Order(id)), func(t planner.TaskID) bool { return c.Phase(t).Ended() })
	for _, t := range order {
		w := &weighed{runs: make([]time.Duration, len(c.Nodes())), pinned: planner.None}
		s.tasks[t] = w
		var over []time.Duration
		for n := range w.runs {
			if w.runs[n] = -1; c.Task(t).Need.Fits(c.Capacity(planner.NodeID(n))) {
				w.runs[n] = c.Est.Run(c.Task(t), &c.Nodes()[n]).Run
				over = append(over, w.runs[n])
			}
		}
		w.mean = mean(over)
	}
	for _, t := range slices.Backward(order) {
		s.upward(c, t)
	}
	if s.Rule == CPOP {
		s.criticalPath(c, order)
	}
}

// upward computes upward rank and optimistic costs of a task from those of its children.
func (s *Static) upward(c *planner.Cycle, t planner.TaskID) {
	w := s.tasks[t]
	w.up = w.mean
	if s.Rule == PEFT {
		w.onward = make([]time.Duration, len(w.runs))
	}
	for _, child := range c.Task(t).Children {
		x, moved := s.tasks[child], s.moves(c, t, child)
		if x == nil {
			continue // it has ended, as its results were there
		}
		w.up = max(w.up, w.mean+moved+x.up)
		if s.Rule != PEFT {
			continue
		}
		elsewhere := time.Duration(math.MaxInt64)
		for n, run := range x.runs {
			if run >= 0 {
				elsewhere = min(elsewhere, x.onward[n]+run+moved)
			}
		}
		for n, run := range x.runs {
			here := elsewhere
			if run >= 0 {
				here = min(here, x.onward[n]+run)
			}
			if here < math.MaxInt64 {
				w.onward[n] = max(w.onward[n], here)
			}
		}
	}
	if w.priority = w.up; s.Rule == PEFT {
		var over []time.Duration
		for n, cost := range w.onward {
			if w.runs[n] >= 0 {
				over = append(over, cost)
			}
		}
		w.priority = mean(over)
	}
}

// criticalPath computes priorities of CPOP, and the node of the critical path.
func (s *Static) criticalPath(c *planner.Cycle, order []planner.TaskID) {
	first := planner.TaskID(planner.None)
	for _, t := range order {
		w := s.tasks[t]
		for _, p := range c.Task(t).Parents {
			if x := s.tasks[p]; x != nil {
				w.down = max(w.down, x.down+x.mean+s.moves(c, p, t))
			}
		}
		if w.priority = w.up + w.down; w.down == 0 && (first == planner.None || w.priority > s.tasks[first].priority) {
			first = t
		}
	}
	if first == planner.None {
		return
	}
	path := []planner.TaskID{first}
	for at := 0; at < len(path); at++ {
		for _, child := range c.Task(path[at]).Children {
			if x := s.tasks[child]; x != nil && x.priority == s.tasks[first].priority {
				path = append(path, child)
				break
			}
		}
	}
	best, least := planner.NodeID(planner.None), time.Duration(math.MaxInt64)
	for n := range c.NodeCount() {
		var sum time.Duration
		for _, t := range path {
			if run := s.tasks[t].runs[n]; run < 0 {
				sum = math.MaxInt64
				break
			} else {
				sum += run
			}
		}
		if sum < least {
			best, least = n, sum
		}
	}
	for _, t := range path {
		s.tasks[t].pinned = best
	}
}

// moves is the mean time of the copies from a task to a child.
func (s *Static) moves(c *planner.Cycle, t, child planner.TaskID) time.Duration {
	var ns float64
	for _, f := range c.Task(child).Inputs {
		if c.File(f).Producer == t {
			ns += float64(s.fixed) + float64(s.each*float64(c.File(f).Size))
		}
	}
	return time.Duration(min(ns, math.MaxInt64/4))
}

// mean is that of durations whose sum may be too large.
func mean(all []time.Duration) time.Duration {
	var whole, rest time.Duration
	n := time.Duration(len(all))
	for _, d := range all {
		whole, rest = whole+d/n, rest+d%n
	}
	return whole + rest/max(1, n)
}
