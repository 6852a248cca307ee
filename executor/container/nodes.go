package container

import (
	"gantry/planner"
	"gantry/planner/unit"
)

// followNodes has policies plan with the nodes that are present, and Next fail once none is left.
func (r *Runtime) followNodes() {
	err := r.far.Follow(r.ctx, func(node int, up bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.absent[node] = !up
		r.emit(r.changed(node))
	})
	if err == nil || r.ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = err
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// changed is the event that tells the present capacity of a node. r.mu is held.
func (r *Runtime) changed(node int) planner.NodeChanged {
	var capacity unit.Vector
	if !r.absent[node] {
		capacity = r.cfg.Platform.Nodes[node].Capacity
	}
	return planner.NodeChanged{Node: planner.NodeID(node), Capacity: capacity}
}

// announceNodes reports the capacities of all nodes: the log may have lost some that are there again.
func (r *Runtime) announceNodes() {
	if r.far == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.cfg.Platform.Nodes {
		r.emit(r.changed(i))
	}
}
