package serve

import (
	"fmt"
	"maps"
	"slices"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
)

// follow takes from another cluster file the changes that a run under way can follow: nodes that are not there any
// more, and those that are smaller. It reports all differences.
func (v *Server) follow(s *session.Session, given *session.Settings) error {
	was, err := executor.PlatformOf(s.Set.Cluster)
	if err != nil {
		return exit.With(exit.Internal, err)
	}
	now, err := executor.PlatformOf(given.Cluster)
	if err != nil {
		return exit.With(exit.Input, err)
	}
	var said []string
	v.nodes, said = nodeChanges(was, now)
	for _, text := range said {
		s.View.Warn("--cluster: %s", text)
	}
	return nil
}

// nodeChanges compares the nodes that a run began with to others, by name.
func nodeChanges(was, now *planner.Platform) (to map[planner.NodeID]unit.Vector, said []string) {
	to = map[planner.NodeID]unit.Vector{}
	const restart = "; to have it, end the run with gantry drain and start a new one"
	find := func(p *planner.Platform, name string) *planner.Node {
		if i := slices.IndexFunc(p.Nodes, func(n planner.Node) bool { return n.Name == name }); i >= 0 {
			return &p.Nodes[i]
		}
		return nil
	}
	for i := range was.Nodes {
		old := &was.Nodes[i]
		n := find(now, old.Name)
		if n == nil {
			to[old.ID] = unit.Vector{}
			said = append(said, fmt.Sprintf("node %s is not there any more: nothing more starts on it", old.Name))
			continue
		}
		less, larger := old.Capacity, false
		for d := range less {
			less[d] = min(less[d], n.Capacity[d])
			larger = larger || n.Capacity[d] > old.Capacity[d]
		}
		if less != old.Capacity {
			to[old.ID] = less
			said = append(said, fmt.Sprintf("node %s has %s from now on", old.Name, amounts(less)))
		}
		if larger || n.Speed != old.Speed {
			said = append(said, fmt.Sprintf("node %s is larger there or has another speed: it stays within %s and at "+
				"speed %g, as the run began%s", old.Name, amounts(old.Capacity), old.Speed, restart))
		}
	}
	for i := range now.Nodes {
		if n := &now.Nodes[i]; find(was, n.Name) == nil {
			said = append(said, fmt.Sprintf("node %s is new: a run under way gets no further nodes%s", n.Name, restart))
		}
	}
	return to, said
}

// changeNodes has the engine make the changes that follow found.
func (v *Server) changeNodes() {
	for _, n := range slices.Sorted(maps.Keys(v.nodes)) {
		to := v.nodes[n]
		v.inbox.Post(func(in *executor.Intake) error { return in.ChangeNode(n, to) })
	}
}

// amounts are those of a node for people, as far as they are bounded.
func amounts(v unit.Vector) string {
	text := term.Cores(v[unit.CPU])
	if v[unit.Memory] != unit.Unlimited {
		text += ", " + term.Size(&v[unit.Memory]) + " of memory"
	}
	if v[unit.Disk] != unit.Unlimited {
		text += ", " + term.Size(&v[unit.Disk]) + "/s of disk"
	}
	if v[unit.GPU] > 0 {
		text += ", " + term.Plural(int(v[unit.GPU]), "GPU")
	}
	return text
}
