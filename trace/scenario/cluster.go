package scenario

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"gantry/trace/reader"
	"gantry/trace/shown"
)

const (
	maxNodes = 100_000
	maxSpeed = 1e6
	maxGPUs  = 64 // planner.MostGPUs
	maxTypes = 8  // planner.MostTokens
	// leastCores is the unit in which cores are counted.
	leastCores = 0.001
	// LeastMemory is the least memory limit of a container.
	LeastMemory = 6 << 20
	// maxLinked bounds the groups that have links, times all groups: each of the former knows all of the others.
	maxLinked = 1_000_000
)

// Memory that a node and so on take, in bytes.
const (
	nodeKept    = 180
	linkKept    = 300
	arrivalKept = 300
	sourceKept  = 600
	factorKept  = 100
	costKept    = 300
	timeKept    = 24
)

// Cluster is a cluster file: virtual nodes and the links between their groups.
type Cluster struct {
	Name  string
	Nodes []ClusterNode
	Links []Link
	// Overlapped says that copies between nodes overlap other work: they begin as soon as the file exists and the place
	// of its consumer is planned, and hold no slot. Otherwise a task holds its place on the node while its inputs are
	// copied in.
	Overlapped bool
	Resources  []Token `json:",omitempty"`
}

// Token is a resource of which a user declares that a run has so many, such as licences.
type Token struct {
	Name  string `json:"name"`
	Count uint16 `json:"count"`
}

// TokenName reports whether a resource may have that name.
func TokenName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == ""
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
	GPUs      int64    `json:",omitempty"`
	Devices   []string `json:",omitempty"` // names in CDI of the GPUs; nil: gantry takes GPUs of the host
}

// Link joins two groups, in both directions; From == To is the link between the nodes of one group.
type Link struct {
	From, To  string
	Bandwidth int64 // bytes per second; 0: not limited
	Latency   time.Duration
	Shared    bool `json:",omitempty"` // copies share the bandwidth
}

// Draw returns the cluster with the cores of its nodes drawn where the file gives a range: uniform, as a function of
// the seed.
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

// ReadCluster reads a cluster file, YAML (or JSON, which is YAML); its schema is schema/cluster.schema.json.
//
//	name: lab
//	transfer: held              # or overlapped
//	nodes:
//	  - {name: fast, count: 2, cores: 1, speed: 1.0, memory: 2GB, read: 100MB/s, write: 100MB/s,
//	     read_iops: 1000, write_iops: 1000, gpus: 1, group: a}
//	links:
//	  - {from: a, to: b, bandwidth: 50MB/s, latency: 1ms, shared: true}   # copies share the bandwidth
//	resources: {licence: 3}    # as --resource declares them
//
// The cores of a node may be a range such as 50..70, drawn for each node, run and repetition of an experiment by the
// seed.
//
// A node has a name; with a count above 1 they are name-1, name-2, and so on. cores are 1 and speed 1 where they are
// not said, the memory and the I/O of a node are then not limited by the file. gpus are a number, or a list of
// their names in CDI; 0 where nothing is said. Amounts take decimal units (2GB is
// 2·10^9 bytes) and binary ones (2GiB is 2·2^30); rates are amounts with "/s"; latencies are Go durations. Two groups
// without a link, and the nodes of one group, are joined without limit or latency. Unknown keys are refused. The first
// fault is returned as an error with its line.
func ReadCluster(r io.Reader, source string) (*Cluster, error) {
	c := &Cluster{}
	if err := read(r, "cluster", source, func(y *doc, root *reader.Node) { y.cluster(c, root) }); err != nil {
		return nil, err
	}
	return c, nil
}

func (y *doc) cluster(c *Cluster, root *reader.Node) {
	var names []copied
	groups := map[string]bool{}
	var links *reader.Node
	y.keyed(root, "the cluster", []yamlKey{
		{"name", y.string(&c.Name)},
		{"transfer", func(v *reader.Node) {
			way := ""
			y.word(&way, "transfer", "held", "overlapped")(v)
			c.Overlapped = way == "overlapped"
		}},
		{"nodes", func(v *reader.Node) {
			y.Sequence(v, "nodes", func(v *reader.Node) { y.node(c, v, &names, groups) })
		}},
		{"links", func(v *reader.Node) { links = v }},
		{"resources", func(v *reader.Node) {
			y.Mapping(v, "resources", func(name string, v *reader.Node) {
				if count := 0; !TokenName(name) || len(c.Resources) == maxTypes {
					y.Faults.Fail("bad-value", y.KeyLine, "", "resource %q: there are at most %d, with names of "+
						"letters, digits, -, _ and .", name, maxTypes)
				} else {
					y.count(&count, name, 1, math.MaxUint16)(v)
					c.Resources = append(c.Resources, Token{name, uint16(count)})
				}
			})
		}},
	})
	joined := map[[2]string]bool{}
	linked := map[string]bool{}
	y.Sequence(links, "links", func(v *reader.Node) { y.link(c, v, groups, linked, joined) })
	y.unique("node", names)
	if len(c.Nodes) == 0 && !y.Faults.HasErrors() {
		y.Faults.Fail("no-nodes", y.Line(root), "", "a cluster needs at least one node")
	}
}

func (y *doc) node(c *Cluster, v *reader.Node, names *[]copied, groups map[string]bool) {
	n, count := ClusterNode{Cores: 1, Speed: 1}, 1
	positive := func(x float64) bool { return x >= leastCores && x <= reader.MaxCores }
	if y.keyed(v, "a node", []yamlKey{
		{"name", y.string(&n.Name)},
		{"count", y.count(&count, "count", 1, maxNodes)},
		{"cores", func(v *reader.Node) {
			ends := y.ends(v)
			low, err := reader.Number(ends[0])
			high, err2 := reader.Number(ends[1])
			switch {
			case err != nil || err2 != nil || !positive(low) || !positive(high) || high < low:
				y.Faults.Fail("bad-number", y.Line(v), "", "cores is %q, but has to be a number from %g to %d, "+
					"or a range of whole numbers such as 50..70", y.Text(v), leastCores, reader.MaxCores)
			case high > low && (low != math.Trunc(low) || high != math.Trunc(high)):
				y.Faults.Fail("bad-number", y.Line(v), "", "cores is %q, but a range has to be of whole numbers, "+
					"such as 50..70",
					y.Text(v))
			case high > low:
				n.Cores, n.MostCores = low, high
			default:
				n.Cores = low
			}
		}},
		{"speed", y.within(&n.Speed, "speed", 1/maxSpeed, maxSpeed,
			fmt.Sprintf("from %g to %.0f", 1/maxSpeed, maxSpeed))},
		{"memory", y.amount(&n.Memory, "memory", "")},
		{"read", y.amount(&n.ReadBps, "read", "/s")},
		{"write", y.amount(&n.WriteBps, "write", "/s")},
		{"read_iops", y.whole(&n.ReadIOPS, "read_iops")},
		{"write_iops", y.whole(&n.WriteIOPS, "write_iops")},
		{"gpus", y.gpus(&n)},
		{"group", y.string(&n.Group)},
	}) == nil {
		return
	}
	if n.Name == "" {
		y.Faults.Fail("missing-name", y.Line(v), "", "a node without a name; give it one")
		return
	}
	if n.Memory > 0 && n.Memory < LeastMemory {
		y.Faults.Fail("bad-number", y.Line(v), "", "node %s has %s of memory, and a task takes at least %s: "+
			"add a unit, such as 2GB", n.Name, shown.Size(n.Memory), shown.Size(LeastMemory))
	}
	if count > 1 && n.Devices != nil {
		y.Faults.Fail("bad-value", y.Line(v), "", "nodes %s have the same GPUs: give each node its own, or a number",
			n.Name)
	}
	groups[n.Group] = true
	if len(c.Nodes)+count > maxNodes {
		y.Faults.Fail("too-many", y.Line(v), "", "more than %d nodes", maxNodes)
		y.Stop()
		return
	}
	all := copied{n.Name, count, y.Line(v)}
	*names = append(*names, all)
	y.keep(all.copies*(nodeKept+len(n.Name)), v)
	c.Nodes = slices.Grow(c.Nodes, all.copies)
	for i := range all.copies {
		n.Name = all.nth(i)
		c.Nodes = append(c.Nodes, n)
	}
}

func (y *doc) link(c *Cluster, v *reader.Node, groups, linked map[string]bool, joined map[[2]string]bool) {
	var l Link
	if y.keyed(v, "a link", []yamlKey{
		{"from", y.string(&l.From)},
		{"to", y.string(&l.To)},
		{"bandwidth", y.amount(&l.Bandwidth, "bandwidth", "/s")},
		{"latency", y.duration(&l.Latency, "latency")},
		{"shared", y.bool(&l.Shared, "shared")},
	}) == nil {
		return
	}
	for _, g := range []string{l.From, l.To} {
		if !groups[g] {
			y.Faults.Fail("unknown-group", y.Line(v), "", "a link joins group %q, which no node is in", g)
			return
		}
	}
	if ends := [2]string{min(l.From, l.To), max(l.From, l.To)}; joined[ends] {
		y.Faults.Fail("duplicate-link", y.Line(v), "", "groups %q and %q have two links", l.From, l.To)
	} else {
		joined[ends] = true
		if ends[0] != ends[1] {
			linked[ends[1]] = true
		}
		if linked[ends[0]] = true; len(linked)*len(groups) > maxLinked {
			y.Faults.Fail("too-many", y.Line(v), "", "%d groups with links among %d groups: their product is above "+
				"the bound of %d", len(linked), len(groups), maxLinked)
			y.Stop()
			return
		}
		y.keep(linkKept, v)
		c.Links = append(c.Links, l)
	}
}

// amount reads bytes, or with suffix "/s" bytes per second; it has to be positive.
func (y *doc) amount(to *int64, what, suffix string) func(*reader.Node) {
	return func(v *reader.Node) {
		text := strings.TrimSpace(y.Text(v))
		number := text
		if suffix != "" {
			number = strings.TrimSpace(strings.TrimSuffix(text, suffix))
		}
		n, err := reader.Bytes(number)
		if err == nil && n <= 0 {
			err = fmt.Errorf("not above 0")
		}
		if err != nil {
			y.Faults.Fail("bad-amount", y.Line(v), "", "%s %q is %v%s", what, text, err,
				map[bool]string{true: " per second"}[suffix != ""])
			return
		}
		*to = n
	}
}

// whole reads a positive whole number.
func (y *doc) whole(to *int64, what string) func(*reader.Node) {
	return numeric(y, to, what, func(text string) (int64, error) { return reader.Count(text, 1) },
		func(n int64) bool { return n > 0 }, fmt.Sprintf("a whole number above 0 and up to %d", reader.MaxBytes))
}

// gpus reads a number of GPUs, or a list of their names.
func (y *doc) gpus(n *ClusterNode) func(*reader.Node) {
	return func(v *reader.Node) {
		count := -1.0
		if list := y.Value(v); list != nil && len(list.Content) > 0 {
			y.Sequence(v, "gpus", func(v *reader.Node) { n.Devices = append(n.Devices, y.Text(v)) })
			count = float64(len(n.Devices))
			if len(slices.Compact(slices.Sorted(slices.Values(n.Devices)))) < len(n.Devices) {
				y.Faults.Fail("bad-value", y.Line(v), "", "gpus has a name twice: --gpus 0.5 gives tasks "+
					"parts of a GPU")
			}
		} else if x, err := reader.Number(y.Text(v)); err == nil && x == math.Trunc(x) {
			count = x
		}
		if count < 0 || count > maxGPUs {
			y.Faults.Fail("bad-number", y.Line(v), "", "gpus is %q, but has to be a whole number up to %d, or a list "+
				"of names such as nvidia.com/gpu=0", y.Text(v), maxGPUs)
			return
		}
		n.GPUs = int64(count)
	}
}

// duration reads a Go duration such as 1.5s, 20ms or 1h30m; a plain 0 will do. It may not be negative.
func (y *doc) duration(to *time.Duration, what string) func(*reader.Node) {
	return func(v *reader.Node) {
		text := y.Text(v)
		d, err := reader.Duration(cmp.Or(text, "0"))
		if err != nil {
			y.Faults.Fail("bad-duration", y.Line(v), "", "%s is %q, %v", what, text, err)
			return
		}
		*to = d
	}
}
