package own

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gantry/planner"
	"gantry/planner/alloc"
	"gantry/planner/retain"
	"gantry/planner/unit"
)

// carryOut makes of an answer a draft. Errors name the field at fault.
func (p *Policy) carryOut(ctx context.Context, c *planner.Cycle, said *answer) error {
	if err := p.retain(c, said.Keep); err != nil {
		return err
	}
	for i, x := range said.Preempt {
		if err := p.preempt(c, x); err != nil {
			return fmt.Errorf("preempt[%d].%w", i, err)
		}
	}
	for i, x := range said.Start {
		if x.At != nil {
			return fmt.Errorf("start[%d].start_ns: a task of start starts now: name it in plan", i)
		}
		if err := p.place(c, x, true); err != nil {
			return fmt.Errorf("start[%d].%w", i, err)
		}
		p.promise(c, *x.Task)
	}
	for i, x := range said.Plan {
		if err := p.place(c, x, false); err != nil {
			return fmt.Errorf("plan[%d].%w", i, err)
		}
	}
	if err := p.follow(ctx, c, said); err != nil {
		return err
	}
	for seg := range c.Draft.Due() {
		p.due = append(p.due, seg.Task)
	}
	if !said.Keep || c.News.Changed || len(said.Plan)+len(said.Order) > 0 {
		p.note(c)
	}
	c.WakeAt(c.Draft.NextStart())
	if news := &c.News; said.Wake == nil || len(said.Start)+len(said.Plan)+len(said.Preempt)+len(said.Order) > 0 ||
		len(news.Arrived)+len(news.Ready)+len(news.Finished)+len(news.Ended) > 0 {
		p.idle = 0
	} else if p.idle++; p.idle > mostIdle {
		return fmt.Errorf("wake_ns: the program has asked for it %d times in a row, and nothing else", mostIdle)
	}
	if said.Wake != nil {
		if *said.Wake <= c.Now() {
			return fmt.Errorf("wake_ns: %d is not after now", *said.Wake)
		}
		c.WakeAt(*said.Wake)
	}
	return nil
}

// retain forgets the last plan, or keeps it. Places stay that tasks were given while their inputs are on the way.
func (p *Policy) retain(c *planner.Cycle, keep bool) error {
	if keep {
		changed := func(c *planner.Cycle) bool { return c.News.Changed }
		return retain.Float{Requeue: p, Outdated: changed}.Retain(c)
	}
	for n := range c.NodeCount() {
		for _, seg := range slices.Collect(c.Draft.Planned(n)) {
			if !p.promised[seg.Task] {
				c.Draft.Release(seg.Task)
			}
		}
	}
	return retain.Drop{Requeue: p}.Retain(c)
}

// topicPlanned is the topic of notes on tasks that a program plans for later. The text is the node; none: the task has
// lost its place. One without a task is about all tasks.
const topicPlanned = "planned"

func planned(t planner.TaskID, at planner.Time, node string) planner.Note {
	return planner.Note{Topic: topicPlanned, Workflow: planner.None, Task: t, At: at, Text: node}
}

// note leaves notes on tasks that are planned for later on another node than before, or not any more. A time alone that
// moves is no news.
func (p *Policy) note(c *planner.Cycle) {
	was := p.planned
	p.planned = make(map[planner.TaskID]planner.NodeID, c.Draft.Plans())
	for n := range c.Nodes() {
		node := &c.Nodes()[n]
		for seg := range c.Draft.Planned(node.ID) {
			p.planned[seg.Task] = node.ID
			if before, there := was[seg.Task]; !there || before != node.ID {
				c.Note(planned(seg.Task, seg.Start, node.Name))
			}
		}
	}
	for _, t := range slices.Sorted(maps.Keys(was)) {
		if _, still := p.planned[t]; !still && c.Unstarted(t) {
			c.Note(planned(t, unit.Never, ""))
		}
	}
}

// promise notes that a task is to start as soon as its place and its inputs are there.
func (p *Policy) promise(c *planner.Cycle, t planner.TaskID) {
	p.due = append(p.due, t)
	p.promised[t] = c.Platform().Overlapped
}

// Add implements retain.Requeuer: the program knows which tasks it planned.
func (*Policy) Add(*planner.Cycle, planner.TaskID) {}

// known checks the number of a task.
func known(c *planner.Cycle, t *planner.TaskID) (planner.TaskID, error) {
	switch {
	case t == nil:
		return 0, errors.New("task is missing")
	case *t < 0 || int(*t) >= c.Tasks() || c.Task(*t).Formal:
		return 0, fmt.Errorf("task: there is no task %d", *t)
	case c.Phase(*t).Ended():
		return 0, fmt.Errorf("task: task %d is %s", *t, c.Phase(*t))
	}
	return *t, nil
}

// place plans a task on a node, to start now or some time.
func (p *Policy) place(c *planner.Cycle, x placement, now bool) error {
	t, err := known(c, x.Task)
	if err != nil {
		return err
	}
	phase := c.Phase(t)
	switch {
	case x.Node == nil:
		return errors.New("node is missing")
	case *x.Node < 0 || int(*x.Node) >= len(c.Nodes()):
		return fmt.Errorf("node: there is no node %d", *x.Node)
	case !c.Unplaced(t):
		return fmt.Errorf("task: task %d has a place already", t)
	case now && phase != planner.Ready && phase != planner.Suspended:
		return fmt.Errorf("task: task %d is not ready, it is %s", t, phase)
	case now && c.Draft.Limited(t):
		c.Explain(t, planner.OthersHoldTokens)
		return nil
	case phase != planner.Suspended && !c.Task(t).Need.Fits(c.Capacity(*x.Node)):
		return fmt.Errorf("node: task %d needs %v, and node %d has %v", t, c.Task(t).Need, *x.Node,
			c.Capacity(*x.Node))
	}
	site, ok := c.Site(t, *x.Node)
	if !ok {
		if phase == planner.Suspended {
			return fmt.Errorf("node: task %d is suspended, and continues where it is", t)
		}
		return fmt.Errorf("task: a parent of task %d has no place: plan parents first", t)
	}
	at := max(site.From, c.Now())
	switch {
	case x.At != nil:
		at = *x.At
	case !now || site.From > c.Now(): // inputs come first
		if at, ok = c.Draft.Earliest(site.Node, site.More, site.Dur, site.From); !ok {
			return fmt.Errorf("node: task %d never fits node %d", t, site.Node)
		}
	}
	reserve := c.Draft.Reserve
	if !now {
		reserve = c.Draft.Keep
	}
	err = reserve(planner.Segment{Task: t, Node: site.Node, Hold: site.Need, Start: at, End: at.Add(site.Dur)})
	if errors.Is(err, planner.ErrFull) && now && c.Platform().Overlapped {
		return nil // tasks that wait for their inputs have claims that a program does not see
	}
	if errors.Is(err, planner.ErrFull) && at == c.Now() {
		return fmt.Errorf("node: task %d needs %v, and node %d has %v free", t, site.More, site.Node,
			c.Draft.Unclaimed(site.Node))
	}
	if err != nil {
		return fmt.Errorf("start_ns: %w", err)
	}
	return nil
}

func (p *Policy) preempt(c *planner.Cycle, x preemption) error {
	t, err := known(c, x.Task)
	if err != nil {
		return err
	}
	how := c.Vacates(t)
	if x.How != "" {
		for how = planner.Checkpoint; how > 0 && how.String() != x.How; how-- {
		}
	}
	switch {
	case how == 0:
		return fmt.Errorf("how: %q is not known: choose one of freeze, restart, checkpoint", x.How)
	case how == planner.Suspend && !p.freezes:
		return fmt.Errorf("how: task %d can only be frozen: name the program with freeze=yes, as in exec:%s,freeze=yes",
			t, p.path)
	}
	if err := c.Draft.Preempt(t, how); err != nil {
		return fmt.Errorf("task: %w", err)
	}
	return nil
}

// follow places the tasks of an order by an allocator of gantry's.
func (p *Policy) follow(ctx context.Context, c *planner.Cycle, said *answer) error {
	q := &inOrder{ahead: said.Place == "earliest-finish"}
	if !q.ahead && said.Place != "" && said.Place != "now" {
		return fmt.Errorf("place: %q is not known: choose now or earliest-finish", said.Place)
	}
	p.ordered = planner.Extend(p.ordered, c.Tasks())
	for i, t := range said.Order {
		if t < 0 || int(t) >= c.Tasks() || c.Task(t).Formal {
			return fmt.Errorf("order[%d]: there is no task %d", i, t)
		}
		if p.ordered[t] == c.Round() {
			return fmt.Errorf("order[%d]: task %d is there twice", i, t)
		}
		p.ordered[t] = c.Round()
	}
	q.tasks = said.Order
	if q.ahead {
		return new(alloc.EarliestFinish).Allocate(ctx, c, q)
	}
	if err := new(alloc.List).Allocate(ctx, c, q); err != nil {
		return err
	}
	for _, t := range said.Order {
		if c.Phase(t) == planner.Ready && !c.Unplaced(t) {
			p.promise(c, t)
		}
	}
	return nil
}

// inOrder is a planner.Queue of tasks in a given order. Those that want no place, or a later one, are passed over.
type inOrder struct {
	tasks   []planner.TaskID
	ahead   bool
	misfits []unit.Vector
}

func (*inOrder) Update(*planner.Cycle) {}

func (q *inOrder) Next(c *planner.Cycle) (planner.TaskID, bool) {
	for ; len(q.tasks) > 0; q.tasks = q.tasks[1:] {
		t := q.tasks[0]
		misfit := func(m unit.Vector) bool { return m.Fits(c.Task(t).Need) }
		if phase := c.Phase(t); (phase == planner.Ready || q.ahead && phase == planner.Waiting) && c.Unplaced(t) &&
			!slices.ContainsFunc(q.misfits, misfit) {
			return t, true
		}
	}
	return planner.None, false
}

func (q *inOrder) Take(*planner.Cycle, planner.TaskID) { q.tasks = q.tasks[1:] }

func (q *inOrder) Skip(*planner.Cycle, planner.TaskID) { q.tasks = q.tasks[1:] }

func (q *inOrder) Defer(c *planner.Cycle, t planner.TaskID) {
	if q.tasks = q.tasks[1:]; !c.Draft.Limited(t) {
		q.misfits = append(q.misfits, c.Task(t).Need)
	}
}
