package trace

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Cluster is a cluster file: virtual nodes and the links between their groups.
type Cluster struct {
	Name  string
	Nodes []ClusterNode
	Links []Link
	// Overlapped says that copies between nodes overlap other work: they begin as soon as the file exists and the place of its
	// consumer is planned, and hold no slot. Otherwise a task holds its place on the node while its inputs are copied in.
	Overlapped bool
}

// ClusterNode is one virtual node after counts were expanded.
type ClusterNode struct {
	Name      string
	Group     string  // cluster or rack; links are between groups. "" is the group of all that name none
	Cores     float64 // CPUs it offers
	MostCores float64 `json:",omitempty"` // above 0: whole CPUs are drawn from Cores to this, see Draw
	Speed     float64 // 1 = reference; a 0.5 node gives half a CPU second per second and core
	Memory    int64   // bytes
	ReadBps   int64   // block I/O, bytes per second; 0: not limited
	WriteBps  int64
	ReadIOPS  int64
	WriteIOPS int64
}

// Link joins two groups, in both directions; From == To is the link between the nodes of one group.
type Link struct {
	From, To  string
	Bandwidth int64 // bytes per second; 0: not limited
	Latency   time.Duration
}

// Draw returns the cluster with the cores of its nodes drawn where the file gives a range: uniform, as a function of the seed.
func (c *Cluster) Draw(seed uint64) *Cluster {
	out, r := *c, rand.New(rand.NewPCG(seed, 0x636f726573))
	out.Nodes = slices.Clone(c.Nodes)
	for i := range out.Nodes {
		if n := &out.Nodes[i]; n.MostCores > 0 {
			n.Cores, n.MostCores = n.Cores+float64(r.IntN(int(n.MostCores-n.Cores)+1)), 0
		}
	}
	return &out
}
