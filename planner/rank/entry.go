package rank

import "gantry/planner"

// Entry decides which ready tasks enter the waiting queue.
type Entry struct {
	Ranks *Upward
	// InOrder is Critical Path Workflow Scheduling (Hsu, Huang and Wang; Wang, MOWS, section 3-3): the tasks of a
	// workflow enter by rank descending, each once all above it have. Without it a task enters as soon as it is ready
	// (Simple Workflow Scheduling).
	InOrder bool

	next    []int32 // by workflow: the first task by rank that has not entered
	entered []bool  // by task: it has entered before, and comes back when it is to be repeated
}

// Update calls enter for each task that enters.
func (e *Entry) Update(c *planner.Cycle, enter func(t planner.TaskID)) {
	if !e.InOrder {
		for _, t := range c.News.Ready {
			enter(t)
		}
		return
	}
	e.entered = planner.Extend(e.entered, c.Tasks())
	e.next = planner.Extend(e.next, c.Workflows())
	for _, w := range c.News.Arrived {
		e.advance(c, w, enter)
	}
	for _, w := range c.News.Grown { // new tasks may come before entered ones
		e.next[w] = 0
		e.advance(c, w, enter)
	}
	for _, t := range c.News.Ready {
		if e.entered[t] {
			enter(t)
		} else {
			e.advance(c, c.Task(t).Workflow, enter)
		}
	}
	for _, t := range c.News.Finished {
		if !e.entered[t] { // its results were taken over the instant it was ready
			e.advance(c, c.Task(t).Workflow, enter)
		}
	}
	for _, t := range c.News.Ended {
		e.advance(c, c.Task(t).Workflow, enter) // nobody waits for a task that was skipped
	}
}

// advance lets the tasks of w enter up to the first one that waits for its parents.
func (e *Entry) advance(c *planner.Cycle, w planner.WorkflowID, enter func(t planner.TaskID)) {
	tasks := e.Ranks.Sorted(c.Workflow(w))
	for ; int(e.next[w]) < len(tasks); e.next[w]++ {
		t := tasks[e.next[w]]
		if c.Phase(t) == planner.Waiting {
			return
		}
		e.entered[t] = true
		if c.Phase(t) == planner.Ready {
			enter(t)
		}
	}
}
