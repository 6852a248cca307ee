package order

import (
	"cmp"
	"math"
	"slices"

	"gantry/planner"
	"gantry/planner/exact"
	"gantry/planner/rank"
	"gantry/planner/unit"
)

// Joint is the joint eligible set of Ilyushkin and Epema, CCGrid 2018, section III: of every workflow the eligible task
// with the highest upward rank (the lowest id among equals) represents it, and the representative with the smallest key
// comes first (the earlier workflow among equals). A task that fits nowhere is passed over for the rest of the round,
// and the next task of its workflow takes its place.
type Joint struct {
	Ranks *rank.Upward // nil: tasks of a workflow are ordered by id
	// Key is asked again whenever tasks of the workflow entered, left or ended. Without it all keys are equal.
	Key func(c *planner.Cycle, w planner.WorkflowID, representative planner.TaskID) exact.Fraction
	// Largest has the largest key come first.
	Largest bool
	// Moving, if set, is asked at every choice instead of Key: the highest priority comes first.
	Moving *Fair
	// Random has any of the eligible tasks of the first workflow come first, each with the same chance at every choice.
	Random bool
	// Hybrid is the rule of Rank_Hybd (Yu and Shi 2008): with eligible tasks of several workflows the lowest rank of
	// all comes first, with those of one the highest.
	Hybrid bool
	// Prepare is called with each round's news, after the ranks are there; it may be nil.
	Prepare func(c *planner.Cycle)

	groups  []group
	unused  []int32          // indices of groups
	groupOf []int32          // by workflow: index of its group and one; 0 if it has no eligible task
	sorted  []int32          // groups with a representative, the first one last; by workflow if keys move
	next    int              // those from here on wait for the next round
	queued  []bool           // by task
	back    []planner.TaskID // lost their places
	needs   map[unit.Vector]int
	misfits []unit.Vector // needs that fit nowhere in this round
	skips   []int64       // by task: the update since which it is passed over alone
	updates int64
	skipped bool                 // some task is
	passed  []planner.WorkflowID // whose representative was passed over
	touched []int32              // groups to be settled
	front   int32                // group of the task that Next returned last
	current int                  // its position in the group
	// exhausted says that all tasks have the same need, and it fits nowhere.
	exhausted bool
}

// group has the eligible tasks of one workflow.
type group struct {
	workflow planner.WorkflowID
	tasks    []ranked // the best last
	best     int      // index of the representative; -1 if all are passed over
	key      exact.Fraction
	held     int64 // the update in which it waits for the next round
	mark     bool
}

type ranked struct {
	rank exact.Number
	task planner.TaskID
}

// Update implements planner.Queue.
func (q *Joint) Update(c *planner.Cycle) {
	if q.needs == nil {
		q.needs = map[unit.Vector]int{}
	}
	if q.Ranks != nil {
		q.Ranks.Update(c)
	}
	if q.Prepare != nil {
		q.Prepare(c)
	}
	q.queued = planner.Extend(q.queued, c.Tasks())
	q.groupOf = planner.Extend(q.groupOf, c.Workflows())
	q.misfits, q.exhausted = q.misfits[:0], false
	q.updates++
	q.skipped = false
	touched := q.touched[:0]
	touch := func(w planner.WorkflowID) {
		if g := q.groupOf[w] - 1; g >= 0 && !q.groups[g].mark {
			q.groups[g].mark = true
			touched = append(touched, g)
		}
	}
	for _, w := range q.passed {
		touch(w)
	}
	q.passed = q.passed[:0]
	if q.Moving != nil && c.Platform().Overlapped { // tasks that had waited for their copies may have begun
		for i := range q.groups {
			if g := &q.groups[i]; q.groupOf[g.workflow] == int32(i)+1 {
				touch(g.workflow)
			}
		}
	}
	for _, t := range c.News.Finished {
		touch(c.Task(t).Workflow)
	}
	for _, w := range c.News.Grown {
		touch(w)
	}
	q.rerank(c)
	for _, t := range c.News.Ended {
		touch(c.Task(t).Workflow)
	}
	fresh := c.News.Ready
	if len(q.back) > 0 {
		fresh = append(q.back, fresh...)
		q.back = nil
	}
	for len(fresh) > 0 {
		// Tasks of one workflow become ready in a row.
		w, k := c.Task(fresh[0]).Workflow, 1
		for k < len(fresh) && c.Task(fresh[k]).Workflow == w {
			k++
		}
		q.enter(c, w, fresh[:k])
		touch(w)
		fresh = fresh[k:]
	}
	if len(c.News.Ended) > 0 {
		for _, g := range touched {
			q.purge(c, &q.groups[g])
		}
	}
	for _, g := range touched {
		q.groups[g].mark = false
		q.settle(c, g)
	}
	q.touched, q.next = touched, len(q.sorted)
}

// Add lets an eligible task enter again that lost its place.
func (q *Joint) Add(_ *planner.Cycle, t planner.TaskID) { q.back = append(q.back, t) }

// enter lets tasks of one workflow in.
func (q *Joint) enter(c *planner.Cycle, w planner.WorkflowID, tasks []planner.TaskID) {
	g := q.groupOf[w] - 1
	if g < 0 {
		if n := len(q.unused); n > 0 {
			g = q.unused[n-1]
			q.unused = q.unused[:n-1]
		} else {
			g = int32(len(q.groups))
			q.groups = append(q.groups, group{})
		}
		q.groups[g] = group{workflow: w, tasks: q.groups[g].tasks[:0], best: -1}
		q.groupOf[w] = g + 1
	}
	grp := &q.groups[g]
	sort := len(tasks) > 8
	for _, t := range tasks {
		if q.queued[t] || !c.Unplaced(t) {
			continue
		}
		q.queued[t] = true
		q.needs[c.Task(t).Need]++
		e := ranked{task: t}
		if q.Ranks != nil {
			e.rank = q.Ranks.Unscaled(t)
		}
		if sort {
			grp.tasks = append(grp.tasks, e)
			continue
		}
		i, _ := slices.BinarySearchFunc(grp.tasks, e, q.compare)
		grp.tasks = slices.Insert(grp.tasks, i, e)
	}
	if sort {
		slices.SortFunc(grp.tasks, q.compare)
	}
}

// rerank takes in that tasks have other ranks since others were added below them.
func (q *Joint) rerank(c *planner.Cycle) {
	if q.Ranks == nil {
		return
	}
	for _, t := range q.Ranks.Changed() {
		g := q.groupOf[c.Task(t).Workflow] - 1
		if g < 0 || !q.queued[t] {
			continue
		}
		tasks := q.groups[g].tasks
		i := slices.IndexFunc(tasks, func(e ranked) bool { return e.task == t })
		e := ranked{q.Ranks.Unscaled(t), t}
		tasks = slices.Delete(tasks, i, i+1)
		at, _ := slices.BinarySearchFunc(tasks, e, q.compare)
		q.groups[g].tasks = slices.Insert(tasks, at, e)
	}
}

// compare puts the better task behind.
func (q *Joint) compare(a, b ranked) int {
	c := a.rank.Compare(b.rank)
	if q.Hybrid {
		c = -c
	}
	if c == 0 {
		c = cmp.Compare(b.task, a.task)
	}
	return c
}

// purge drops tasks that ended without having had a place.
func (q *Joint) purge(c *planner.Cycle, g *group) {
	g.tasks = slices.DeleteFunc(g.tasks, func(e ranked) bool {
		if c.Unplaced(e.task) {
			return false
		}
		q.left(c, e.task)
		return true
	})
}

func (q *Joint) left(c *planner.Cycle, t planner.TaskID) {
	q.queued[t] = false
	need := c.Task(t).Need
	if q.needs[need]--; q.needs[need] <= 0 {
		delete(q.needs, need)
	}
}

// settle finds the representative of a group again, and its place among the others. A group with no task is given up.
func (q *Joint) settle(c *planner.Cycle, g int32) { q.settleFrom(c, g, len(q.groups[g].tasks)-1) }

// settleFrom is settle where all tasks behind the one at best are passed over.
func (q *Joint) settleFrom(c *planner.Cycle, g int32, best int) {
	grp := &q.groups[g]
	if at, ok := slices.BinarySearchFunc(q.sorted, g, q.byKey); ok {
		q.sorted = slices.Delete(q.sorted, at, at+1)
	}
	grp.best = best
	for grp.best >= 0 && q.misfit(c, grp.tasks[grp.best].task) {
		grp.best--
	}
	if grp.best < len(grp.tasks)-1 { // it may have room in the next round
		q.passed = append(q.passed, grp.workflow)
	}
	switch {
	case len(grp.tasks) == 0:
		q.groupOf[grp.workflow] = 0
		q.unused = append(q.unused, g)
	case grp.best >= 0:
		if q.Moving != nil {
			q.Moving.Settle(c, grp.workflow)
		} else if q.Key != nil {
			grp.key = q.Key(c, grp.workflow, grp.tasks[grp.best].task)
		}
		at, _ := slices.BinarySearchFunc(q.sorted, g, q.byKey)
		q.sorted = slices.Insert(q.sorted, at, g)
	}
	q.next = len(q.sorted)
}

func (q *Joint) misfit(c *planner.Cycle, t planner.TaskID) bool {
	return len(q.misfits) > 0 && misfit(q.misfits, c.Task(t).Need) ||
		q.skipped && int(t) < len(q.skips) && q.skips[t] == q.updates
}

// Next implements planner.Queue.
func (q *Joint) Next(c *planner.Cycle) (planner.TaskID, bool) {
	for !q.exhausted {
		if q.front = q.first(c); q.front < 0 {
			break
		}
		grp := &q.groups[q.front]
		q.current = grp.best
		if q.Hybrid && len(q.sorted) == 1 {
			q.current = q.highest(c, grp)
		} else if q.Random {
			q.current = q.any(c, grp)
		}
		t := grp.tasks[q.current].task
		if c.Unplaced(t) {
			return t, true
		}
		q.drop(c, t)
	}
	return planner.None, false
}

// first returns the group with the highest priority of those that do not wait; -1 if there is none.
func (q *Joint) first(c *planner.Cycle) int32 {
	best, most := int32(-1), 0.0
	for q.next > 0 && q.groups[q.sorted[q.next-1]].held == q.updates {
		q.next--
	}
	if q.Moving == nil && q.next > 0 {
		return q.sorted[q.next-1]
	}
	for _, g := range q.sorted[:q.next] {
		if q.groups[g].held == q.updates {
			continue
		}
		w := q.groups[g].workflow
		near := q.Moving.Near(c, w)
		if best >= 0 {
			top := q.groups[best].workflow
			if math.Abs(near-most) > 1e-12*(near+most) {
				if near < most {
					continue
				}
			} else if x := q.Moving.Compare(c, w, top); x < 0 || x == 0 && w > top {
				continue
			}
		}
		best, most = g, near
	}
	return best
}

// any returns a task of the group that is not passed over.
func (q *Joint) any(c *planner.Cycle, grp *group) int {
	if len(q.misfits) == 0 && !q.skipped {
		return c.Rand.IntN(len(grp.tasks))
	}
	fit := 0
	for i := range grp.tasks {
		if !q.misfit(c, grp.tasks[i].task) {
			fit++
		}
	}
	k := c.Rand.IntN(fit)
	for i := range grp.tasks {
		if !q.misfit(c, grp.tasks[i].task) {
			if k == 0 {
				return i
			}
			k--
		}
	}
	return grp.best
}

// highest returns the task of highest rank that is not passed over, the lowest id among equals: in a hybrid group the
// best are the lowest, and stand last.
func (q *Joint) highest(c *planner.Cycle, grp *group) int {
	i := 0
	for q.misfit(c, grp.tasks[i].task) {
		i++
	}
	top := grp.tasks[i].rank
	n, _ := slices.BinarySearchFunc(grp.tasks[i:], top, func(e ranked, r exact.Number) int {
		if e.rank.Compare(r) >= 0 {
			return -1
		}
		return 1
	})
	for k := i + n - 1; k > i; k-- {
		if !q.misfit(c, grp.tasks[k].task) {
			return k
		}
	}
	return i
}

// drop takes the task that Next found out.
func (q *Joint) drop(c *planner.Cycle, t planner.TaskID) {
	g := q.front
	grp := &q.groups[g]
	q.left(c, t)
	grp.tasks = slices.Delete(grp.tasks, q.current, q.current+1)
	q.settle(c, g)
}

// Take implements planner.Queue.
func (q *Joint) Take(c *planner.Cycle, t planner.TaskID) { q.drop(c, t) }

// Defer implements planner.Queue.
func (q *Joint) Defer(c *planner.Cycle, t planner.TaskID) {
	if c.Draft.Limited(t) {
		q.Skip(c, t)
		return
	}
	if len(q.needs) == 1 {
		q.exhausted = true
		return
	}
	q.misfits = append(q.misfits, c.Task(t).Need)
	for _, g := range slices.Clone(q.sorted) {
		if grp := &q.groups[g]; grp.held != q.updates && q.misfit(c, grp.tasks[grp.best].task) {
			q.settle(c, g)
		}
	}
}

// Skip implements alloc.Skipper.
func (q *Joint) Skip(c *planner.Cycle, t planner.TaskID) {
	q.skips = planner.Extend(q.skips, c.Tasks())
	q.skips[t], q.skipped = q.updates, true
	q.settleFrom(c, q.front, q.groups[q.front].best) // all before it are passed over already
}

// Postpone lets the task that Next returned last, and with it its workflow, wait for the next round.
func (q *Joint) Postpone(*planner.Cycle, planner.TaskID) {
	q.groups[q.front].held = q.updates
}

// Alike implements alloc.Postponer.
func (q *Joint) Alike() bool { return len(q.needs) == 1 }

func (q *Joint) byKey(g, h int32) int {
	a, b := &q.groups[g], &q.groups[h]
	x := b.key.Compare(a.key)
	if q.Largest {
		x = -x
	}
	return cmp.Or(x, cmp.Compare(b.workflow, a.workflow))
}

// Remaining is the inverse of r_a of FDWS: the fraction of the tasks of w that are not done, times the length of its
// critical path.
func Remaining(c *planner.Cycle, ranks *rank.Upward, w planner.WorkflowID) exact.Fraction {
	left, _ := c.Progress(w)
	return exact.Fraction{Num: ranks.Length(w).Times(ranks.Weight(w)).Times(uint64(left)),
		Den: uint64(len(c.Workflow(w).Tasks))}
}
