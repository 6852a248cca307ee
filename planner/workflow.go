// Package planner is the core of gantry: the state of a run, the draft schedule that policies edit, and the derivation
// of orders from it. It is pure: no I/O, no goroutine, no wall clock, and it cannot reach the true runtimes of a trace.
// The same code plans for real containers and for simulation.
package planner

import (
	"math"
	"math/big"
	"math/bits"
	"time"

	"gantry/planner/unit"
)

// Time is an instant on the axis of the run.
type Time = unit.Time

// Identifiers are dense and given in order of admission, so that state is slices rather than maps and ties are broken
// by id.
type (
	WorkflowID int32
	TaskID     int32
	FileID     int32
	NodeID     int32
	GroupID    int32
	TenantID   int32
	KindID     int32
	AttemptID  int32
)

// None marks the absence of any of the identifiers.
const None = -1

// Class is how urgent a workflow is.
type Class uint8

const (
	Regular  Class = iota // high-priority regular work
	Low                   // regular work that may be preempted first
	Deadline              // has to end by a deadline
)

func (c Class) String() string { return [...]string{"regular", "low", "deadline"}[c] }

// Workflow is an admitted DAG. It has no runtimes.
type Workflow struct {
	ID      WorkflowID
	Tenant  TenantID
	Class   Class
	Arrived Time
	Release Time // earliest start
	Due     Time // deadline; unit.Never if there is none
	// RejectLate asks a Refuser to refuse it if it cannot meet its deadline, even if others are not refused.
	RejectLate bool     `json:",omitempty"`
	Tasks      []TaskID // topological order, those that become free first in front; then those that were added
}

// Task is a rigid task: it runs on one node and holds Need there.
type Task struct {
	ID       TaskID     `json:"-"` // the log has the first of a workflow
	Workflow WorkflowID `json:"-"`
	Kind     KindID     // transformation: estimates are learned per kind
	Stage    int32      // execution phase; the level where the trace gives none
	Need     unit.Vector
	// NextMemory is what a try after one that ran out of memory gets at least, if Need has less by a prediction.
	NextMemory unit.Bytes `json:",omitempty"`
	Tokens     Tokens     `json:",omitzero"`
	// Tail is how long the tasks after it take that nobody has submitted yet: it counts in upward ranks.
	Tail     time.Duration `json:",omitempty"`
	Parents  []TaskID      // distinct; see Formal
	Children []TaskID      `json:"-"`
	Inputs   []FileID
	Outputs  []FileID
	Reads    unit.Bytes `json:",omitempty"` // sizes of its inputs, for estimates alone
	Retries  int32      // further attempts after a failure of the program; None: by the run's rules
	// Formal tasks take neither time nor a place, as added entries and exits: they are done the instant they are ready,
	// on no node. No policy ever meets one: tasks that one joins are linked directly, in all that a View shows of them.
	Formal bool
	// Checkpointable says that a preempted attempt can leave its progress in a checkpoint and that another one
	// continues from there, on any node. CheckpointSize is the amount of data then brought to another node.
	Checkpointable bool `json:",omitempty"`
	// Restartable says that the user allows to preempt the task by ending it: its work is lost.
	Restartable    bool       `json:",omitempty"`
	CheckpointSize unit.Bytes `json:",omitempty"`
}

// File is a logical file of a workflow, or a block of one that is split. One that no task writes is on its homes from
// the start.
type File struct {
	ID       FileID
	Producer TaskID // None for a file from outside
	Size     unit.Bytes
	Homes    []NodeID // of a file from outside: the nodes with a replica, distinct; nil: all nodes
}

// Node is a virtual node: a parent cgroup in reality, a row in simulation.
type Node struct {
	ID       NodeID
	Name     string
	Group    GroupID // cluster or rack: bandwidth and latency are between groups
	Capacity unit.Vector
	Speed    float64   // 1 = reference
	Keeps    unit.Mask // resources that a suspended task still holds here
	Devices  []string  `json:",omitempty"` // names of its GPUs; nil: they have none, as in simulation
}

// Platform is the virtual cluster.
type Platform struct {
	Nodes  []Node
	Groups []string
	// Bandwidth and Latency are indexed by group, [from][to], and hold for the copy of one file, unless the link is
	// shared; the diagonal joins the nodes of one group. Bandwidth 0 is unlimited. A group without links has no rows.
	// Join and Link know that.
	Bandwidth [][]unit.BytesPerSecond
	Latency   [][]int64 // nanoseconds
	// Overlapped says that copies hold no slot: they begin when the file exists and its consumer has a planned place.
	Overlapped bool
	// Shared, indexed as Bandwidth, has the links whose copies share the bandwidth; nil: none.
	Shared [][]bool `json:",omitempty"`
}

// MoveTime returns how long the copy of size bytes from one node to another takes. Within a node it takes no time.
func (p *Platform) MoveTime(size unit.Bytes, from, to NodeID) time.Duration {
	if from == to {
		return 0
	}
	rate, latency := p.Link(p.Nodes[from].Group, p.Nodes[to].Group)
	if rate > 0 {
		return time.Duration(unit.Time(latency).Add(TransferTime(size, rate)))
	}
	return latency
}

// Join links two groups, or the nodes of one.
func (p *Platform) Join(a, b GroupID, rate unit.BytesPerSecond, latency time.Duration) {
	if len(p.Bandwidth) == 0 {
		p.Bandwidth, p.Latency = make([][]unit.BytesPerSecond, len(p.Groups)), make([][]int64, len(p.Groups))
	}
	for _, ends := range [...][2]GroupID{{a, b}, {b, a}} {
		from, to := ends[0], ends[1]
		if p.Bandwidth[from] == nil {
			n := len(p.Groups)
			p.Bandwidth[from], p.Latency[from] = make([]unit.BytesPerSecond, n), make([]int64, n)
		}
		p.Bandwidth[from][to], p.Latency[from][to] = rate, int64(latency)
	}
}

// Link is the bandwidth and the latency between the nodes of two groups, or of one.
func (p *Platform) Link(from, to GroupID) (unit.BytesPerSecond, time.Duration) {
	if len(p.Bandwidth) == 0 || p.Bandwidth[from] == nil {
		return 0, 0
	}
	return p.Bandwidth[from][to], time.Duration(p.Latency[from][to])
}

// MeanMove returns the mean of the time that a copy takes over all ordered pairs of distinct nodes as a fixed part and
// a part per byte, in nanoseconds: the mean communication cost of ranks (Topcuoglu et al. 2002, section 3).
func (p *Platform) MeanMove() (fixed, perByte *big.Rat) {
	fixed, perByte = new(big.Rat), new(big.Rat)
	n := int64(len(p.Nodes))
	if n < 2 || len(p.Bandwidth) == 0 {
		return fixed, perByte
	}
	// Pairs are counted by group: nodes of one group are alike.
	count := make([]int64, len(p.Groups))
	for _, node := range p.Nodes {
		count[node.Group]++
	}
	for g := range count {
		for h := range p.Bandwidth[g] {
			if p.Bandwidth[g][h] == 0 && p.Latency[g][h] == 0 {
				continue
			}
			k := count[g] * count[h]
			if g == h {
				k -= count[g]
			}
			share := big.NewRat(k, n*(n-1))
			fixed.Add(fixed, new(big.Rat).Mul(share, big.NewRat(p.Latency[g][h], 1)))
			if bw := p.Bandwidth[g][h]; bw > 0 {
				perByte.Add(perByte, share.Mul(share, big.NewRat(1e9, int64(bw))))
			}
		}
	}
	return fixed, perByte
}

// TransferTime is size at the given rate, exact to the nanosecond and rounded up.
func TransferTime(size unit.Bytes, rate unit.BytesPerSecond) time.Duration {
	hi, lo := bits.Mul64(uint64(size), 1e9)
	if hi >= uint64(rate) {
		return math.MaxInt64
	}
	q, r := bits.Div64(hi, lo, uint64(rate))
	if r > 0 {
		q++
	}
	if q > math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(q)
}
