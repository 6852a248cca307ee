package executor

import (
	"cmp"
	"fmt"
	"math"

	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace/scenario"
)

// DefaultDisk is the block I/O that a node offers in each direction if its cluster file does not say: enough not to be
// felt, and a limit that is really set.
const DefaultDisk = 200_000_000 // bytes per second

// DefaultIOPS is the same for operations.
const DefaultIOPS = 4000 // per second

// FillDisk gives nodes without block I/O limits the defaults.
func FillDisk(c *scenario.Cluster) {
	for i := range c.Nodes {
		n := &c.Nodes[i]
		n.ReadBps, n.WriteBps = cmp.Or(n.ReadBps, DefaultDisk), cmp.Or(n.WriteBps, DefaultDisk)
		n.ReadIOPS, n.WriteIOPS = cmp.Or(n.ReadIOPS, DefaultIOPS), cmp.Or(n.WriteIOPS, DefaultIOPS)
	}
}

// PlatformOf makes the planner's view of a cluster. A suspended task keeps its memory and its GPUs, as a frozen
// container does.
func PlatformOf(c *scenario.Cluster) (*planner.Platform, error) {
	p := &planner.Platform{Overlapped: c.Overlapped}
	groups := map[string]planner.GroupID{}
	for i, n := range c.Nodes {
		g, ok := groups[n.Group]
		if !ok {
			g = planner.GroupID(len(p.Groups))
			groups[n.Group] = g
			p.Groups = append(p.Groups, n.Group)
		}
		capacity := unit.Vector{unit.CPU: int64(math.Round(n.Cores * 1000)),
			unit.Memory: cmp.Or(n.Memory, unit.Unlimited), unit.Disk: unit.Unlimited, unit.GPU: n.GPUs * unit.WholeGPU}
		// the rate that both directions offer; that of one if the other is not limited
		if d := cmp.Or(min(n.ReadBps, n.WriteBps), max(n.ReadBps, n.WriteBps)); d > 0 {
			capacity[unit.Disk] = d
		}
		p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(i), Name: n.Name, Group: g, Capacity: capacity,
			Speed: n.Speed, Keeps: unit.Of(unit.Memory, unit.GPU), Devices: n.Devices})
	}
	for _, l := range c.Links {
		from, ok := groups[l.From]
		to, ok2 := groups[l.To]
		if !ok || !ok2 {
			return nil, fmt.Errorf("cluster %s: link %s-%s: no node is in that group", c.Name, l.From, l.To)
		}
		p.Join(from, to, unit.BytesPerSecond(l.Bandwidth), l.Latency)
		if l.Shared && l.Bandwidth > 0 {
			p.Share(from, to)
		}
	}
	return p, nil
}
