package remap

import "gantry/planner"

// Stay is a task in the plan: planned to run, running, or over.
type Stay struct {
	Task       planner.TaskID
	Start, End planner.Time
}

// Schedule returns the plan, task by task: all of the workflows that have not ended.
func (p *Policy) Schedule() []Stay {
	var out []Stay
	for _, j := range p.jobs {
		if j == nil {
			continue
		}
		for i := range j.at {
			out = append(out, Stay{j.task(int32(i)), j.at[i].start, j.at[i].end})
		}
	}
	return out
}
