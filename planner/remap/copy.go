package remap

import (
	"slices"

	"gantry/planner"
)

// Where copies overlap other work, a task starts at its planned start only if its inputs are on its node by then. So
// each node is a pool of its own as soon as there are files to copy, and the plan says where each task will be. Inputs
// are copied there as soon as they exist and it is known. The task takes nothing of the node before it starts: the plan
// keeps its promises to others. Tasks that are planned when their pool is split get a node, and keep their times.

// fetches reports whether inputs of t may have to be copied to its node ahead of its start.
func (p *plan) fetches(t *planner.Task) bool {
	return p.c.Platform().Overlapped && len(p.c.Nodes()) > 1 && slices.ContainsFunc(t.Inputs,
		func(f planner.FileID) bool {
			file := p.c.File(f)
			return file.Producer != planner.None || len(file.Homes) > 0
		})
}

// seek says that a task has got another place, or that inputs of it have come into being.
func (p *plan) seek(j *job, i int32) {
	if j.fetches {
		p.sought = append(p.sought, start{j, i})
	}
}

// seekAll says that all tasks of a job that have not started may have got other places.
func (p *plan) seekAll(j *job) {
	if j.fetches && !j.sought {
		j.sought = true
		p.mappedNow = append(p.mappedNow, j)
	}
}

// copyAhead asks for copies of inputs that exist to where their consumers are planned by the end of the round.
func (p *plan) copyAhead() {
	for _, s := range p.sought {
		p.copyInputs(s.j, s.i)
	}
	for _, j := range p.mappedNow {
		j.sought = false
		for i := range j.at {
			p.copyInputs(j, int32(i))
		}
	}
	clear(p.sought)
	clear(p.mappedNow)
	p.sought, p.mappedNow = p.sought[:0], p.mappedNow[:0]
}

func (p *plan) copyInputs(j *job, i int32) {
	at := &j.at[i]
	if p.jobs[j.id] != j || at.stage != planned && at.stage != due || at.pool == nowhere {
		return
	}
	for _, f := range j.tasks[i].Inputs {
		p.c.Draft.Copy(f, p.pools[at.pool].nodes[0], j.task(i))
	}
}

// lacks reports whether inputs of a task that are copied ahead are not on its node.
func (p *plan) lacks(j *job, i int32) bool {
	return p.missing(j, i, func(planner.FileID, planner.NodeID) bool { return true })
}

// overdue reports whether copies of inputs of a task take longer than they were estimated to.
func (p *plan) overdue(j *job, i int32) bool {
	return p.missing(j, i, func(f planner.FileID, n planner.NodeID) bool {
		at, underWay := p.c.Draft.CopyEnd(f, n)
		return underWay && at <= p.c.Now()
	})
}

// missing reports whether something holds of an input of a task that is not on its node.
func (p *plan) missing(j *job, i int32, of func(f planner.FileID, n planner.NodeID) bool) bool {
	if !j.fetches || j.at[i].pool == nowhere {
		return false
	}
	n := p.pools[j.at[i].pool].nodes[0]
	return slices.ContainsFunc(j.tasks[i].Inputs, func(f planner.FileID) bool { return !p.c.Has(n, f) && of(f, n) })
}
