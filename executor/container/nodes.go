package container

import (
	"gantry/planner"
	"gantry/planner/unit"
)

// followNodes has policies plan with the nodes that are there, and Next fail once none is left.
func (r *Runtime) followNodes() {
	err := r.far.Follow(r.ctx, func(node int, up bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		var capacity unit.Vector
		if up {
			capacity = r.cfg.Platform.Nodes[node].Capacity
		}
		r.emit(planner.NodeChanged{Node: planner.NodeID(node), Capacity: capacity})
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
