package planner

import "slices"

// Formal tasks exist for the engine only. It starts and ends them the instant they are ready, before it asks the
// policy, and policies meet neither them nor their events: workflows, links, news and the draft are as if their
// children hung on their parents.

// linkThrough shows the tasks of a workflow that arrived without the formal ones among them: the neighbours of a formal
// task are linked directly.
func (s *State) linkThrough(b *WorkflowArrived) {
	w := s.workflows.at(b.Workflow.ID)
	first := w.parts[0].first
	var formals []TaskID
	for i := range b.Tasks {
		if b.Tasks[i].Formal {
			formals = append(formals, first+TaskID(i))
		}
	}
	if len(formals) == 0 {
		return
	}
	s.formals[w.ID] = formals
	w.formal = int32(len(formals))
	w.left -= w.formal
	order := b.Workflow.Tasks
	parents := through{tasks: b.Tasks, first: first, near: func(t *Task) []TaskID { return t.Parents }}
	for _, t := range order {
		parents.pass(t)
	}
	children := through{tasks: b.Tasks, first: first, near: func(t *Task) []TaskID { return t.Children }}
	for _, t := range slices.Backward(order) {
		children.pass(t)
	}
	w.Tasks = make([]TaskID, 0, w.left)
	for i := range b.Tasks {
		t := first + TaskID(i)
		if b.Tasks[i].Formal {
			continue
		}
		task := s.tasks.of(t)
		if p, ok := parents.far[t]; ok {
			task.Parents = p
		}
		if c, ok := children.far[t]; ok {
			s.below[t], task.Children = task.Children, c
		}
		w.Tasks = append(w.Tasks, t)
	}
	w.Tasks = s.View().inOrder(w.Tasks) // it is that of these links, too
}

// through finds neighbours in one direction, beyond formal tasks.
type through struct {
	tasks []Task
	first TaskID
	near  func(*Task) []TaskID
	far   map[TaskID][]TaskID // of formal tasks, and of tasks next to them: ascending
}

// pass finds the neighbours of t; those of the tasks next to it are known.
func (x *through) pass(t TaskID) {
	near := x.near(&x.tasks[t-x.first])
	isFormal := func(n TaskID) bool { return x.tasks[n-x.first].Formal }
	if !isFormal(t) && !slices.ContainsFunc(near, isFormal) {
		return
	}
	if x.far == nil {
		x.far = map[TaskID][]TaskID{}
	}
	if len(near) == 1 && isFormal(near[0]) { // a barrier between many tasks is stored once
		x.far[t] = x.far[near[0]]
		return
	}
	var out []TaskID
	for _, n := range near {
		if isFormal(n) {
			out = append(out, x.far[n]...)
		} else {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	x.far[t] = slices.Compact(out)
}

// children returns the tasks that wait for t, formal ones included.
func (s *State) children(t TaskID) []TaskID {
	if len(s.below) > 0 {
		if c, ok := s.below[t]; ok {
			return c
		}
	}
	return s.tasks.of(t).Children
}

// ofFormal reports whether an event is about formal tasks, after the state has taken it in.
func (s *State) ofFormal(e *Event) bool {
	switch b := e.Body.(type) {
	case *PlanCommitted:
		return len(b.Orders) > 0 && b.Orders[0].Kind == OrderStart && s.attempts.open(b.Orders[0].Attempt).Node == None
	case AttemptStarted:
		return s.attempts.open(b.Attempt).Node == None
	case *AttemptExited:
		return s.attempts.at(b.Attempt).Node == None
	}
	return false
}

// Formalities orders the formal tasks that are ready; nil if there are none. The caller says at once that they started
// and ended well, before it plans: they may make other tasks ready.
func (p *Planner) Formalities(at Time) *PlanCommitted {
	s := p.state
	if len(s.formal) == 0 {
		return nil
	}
	p.round++
	pc := &PlanCommitted{Round: p.round}
	for i, t := range s.formal {
		pc.Orders = append(pc.Orders, Order{Kind: OrderStart, Attempt: AttemptID(s.attempts.len() + i), Task: t,
			Node: None, Try: s.lives.at(t).tries + 1, Until: at})
	}
	return pc
}
