package executor

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace/shown"
)

// Placement says how the files from outside of a workflow lie on the nodes: in blocks, each with replicas on some of
// them. It is drawn at admission, by Seed alone: equal platforms have equal replicas, even if all else differs.
type Placement struct {
	Rule     PlacementRule
	Block    unit.Bytes // before the size scale; a larger file is split into blocks of this size and a rest
	Replicas int        // of each block, at most one on a node
	Seed     uint64
}

// PlacementRule is a way to choose the nodes of replicas.
type PlacementRule string

const (
	// HDFS is the rule of the Hadoop file system for data that comes from outside the cluster
	// (BlockPlacementPolicyDefault): the first replica on any node, the second in another rack, the third in the rack
	// of the second, further ones on any nodes as long as no rack has more than (replicas-1)/racks + 2. Racks are the
	// groups of the cluster file. Where a rule cannot be kept, any other node will do.
	HDFS PlacementRule = "hdfs"
	// Random chooses different nodes, each as likely.
	Random PlacementRule = "random"
)

// placementStream keeps these draws apart from others by the same seed.
const placementStream = 104

func (p *Placement) blocks(size int64) int32 {
	if p.Block <= 0 || size <= int64(p.Block) {
		return 1
	}
	return int32(min((size-1)/int64(p.Block)+1, maxBlocks+1))
}

// draw returns the nodes of one block.
func (p *Placement) draw(r *rand.Rand, platform *planner.Platform) []planner.NodeID {
	nodes := platform.Nodes
	n := min(max(1, p.Replicas), len(nodes))
	out := make([]planner.NodeID, 0, n)
	inGroup := make([]int, len(platform.Groups))
	choose := func(ok func(planner.GroupID) bool) bool {
		var free []planner.NodeID
		for i := range nodes {
			if n := planner.NodeID(i); ok(nodes[i].Group) && !slices.Contains(out, n) {
				free = append(free, n)
			}
		}
		if len(free) == 0 {
			return false
		}
		n := free[r.IntN(len(free))]
		out = append(out, n)
		inGroup[nodes[n].Group]++
		return true
	}
	anywhere := func(planner.GroupID) bool { return true }
	group := func(i int) planner.GroupID { return nodes[out[i]].Group }
	most := (n-1)/max(1, len(platform.Groups)) + 2
	for len(out) < n {
		rule := anywhere
		if p.Rule == HDFS {
			switch k := len(out); {
			case k == 1, k == 2 && group(0) == group(1):
				rule = func(g planner.GroupID) bool { return g != group(0) }
			case k == 2:
				rule = func(g planner.GroupID) bool { return g == group(1) }
			case k > 2:
				rule = func(g planner.GroupID) bool { return inGroup[g] < most }
			}
		}
		if !choose(rule) {
			choose(anywhere)
		}
	}
	return out
}

// split makes the blocks of file i of a workflow, which comes from outside, and gives them their replicas.
func (a *Admitter) split(sub *Submission, spec FileSpec, size int64, r *rand.Rand) ([]FileSpec, error) {
	n := sub.Data.blocks(size)
	if n > maxBlocks {
		return nil, fmt.Errorf("workflow %s: file %s of %s has more than %d blocks of %s: give a larger block",
			sub.Name, spec.Name, shown.Size(size), maxBlocks, shown.Size(int64(sub.Data.Block)))
	}
	out := make([]FileSpec, n)
	for k := range out {
		b := &out[k]
		*b = spec
		b.ID += planner.FileID(k)
		b.Homes = sub.Data.draw(r, a.Platform)
		if n > 1 {
			b.Block, b.Blocks = int32(k), n
			b.From, b.To = unit.Bytes(k)*sub.Data.Block, unit.Bytes(k+1)*sub.Data.Block
			end := b.To
			if k == len(out)-1 {
				b.To, end = 0, unit.Bytes(size) // the real file may be longer than the trace says
			}
			b.Size = a.scaledSize(int64(end)) - a.scaledSize(int64(b.From))
		}
	}
	return out, nil
}

// Bounds of the blocks of a file, and of all files of a workflow.
const (
	maxBlocks      = 100_000
	maxBlocksOfAll = 1_000_000
)
