package alloc

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/exact"
	"gantry/planner/match"
	"gantry/planner/unit"
)

// Locality is DLAforBT (3DSF, section 6): tasks with large inputs are matched to idle nodes that hold them, and the
// remaining ones wait for such a node if it is released before their data could be moved.
type Locality struct {
	Large unit.Bytes // input from which on a task is put where its data is
	Hops  int        // how far from a node its data may lie: 0 on it, 1 in its rack, 2 anywhere
	Most  int        // most tasks that are looked at together; 0: four for each node
	// ByBytes weighs an edge by the part of a task's input that the node holds, too, and matches by the Kuhn-Munkres
	// algorithm; else a task has edges to the nodes that hold most of its input, and weights belong to nodes.
	ByBytes bool

	told    []verdict // by task
	edges   [][]int
	weights [][]int64
	idle    []int64
	pending []int // candidates that read much
	near    []bool
}

type verdict uint8

const (
	untold verdict = iota
	waits
	moves
)

// Input is how much t reads.
func Input(c *planner.Cycle, t *planner.Task) (sum unit.Bytes) {
	for _, f := range t.Inputs {
		sum += c.File(f).Size
	}
	return sum
}

// local returns how much of the input of t lies on n, or within the hops of it.
func (l *Locality) local(c *planner.Cycle, t *planner.Task, n planner.NodeID) (sum unit.Bytes) {
	for _, f := range t.Inputs {
		if l.within(c, n, f) {
			sum += c.File(f).Size
		}
	}
	return sum
}

// most is how much of its input t has on the node with the most of it, of those that can hold t; at least 1.
func (l *Locality) most(c *planner.Cycle, t *planner.Task) unit.Bytes {
	most := unit.Bytes(1)
	for n := range c.NodeCount() {
		if t.Need.Fits(c.Capacity(n)) {
			most = max(most, l.local(c, t, n))
		}
	}
	return most
}

func (l *Locality) within(c *planner.Cycle, n planner.NodeID, f planner.FileID) bool {
	if l.Hops == 0 || c.Has(n, f) {
		return c.Has(n, f)
	}
	if l.Hops > 1 {
		return true
	}
	for m := range c.NodeCount() {
		if c.Nodes()[m].Group == c.Nodes()[n].Group && c.Has(m, f) {
			return true
		}
	}
	return false
}

// place finds places for the tasks of the batch that read much (Algorithm 2, lines 6 to 23).
func (l *Locality) place(c *planner.Cycle, a *Tenants, q Tenancy) error {
	l.pending = l.pending[:0]
	for i := range a.batch {
		t := c.Task(a.batch[i].task)
		if len(c.Nodes()) > 1 && len(t.Inputs) > 0 && Input(c, t) >= l.Large { // else its place does not matter
			l.pending = append(l.pending, i)
		}
	}
	// One node serves one task of a matching; the rest is matched again, to the nodes that are idle then.
	for len(l.pending) > 0 {
		matched, err := l.match(c, a, q)
		if err != nil {
			return err
		}
		if !matched {
			break
		}
		l.pending = slices.DeleteFunc(l.pending, func(i int) bool { return a.batch[i].placed })
	}
	for _, i := range l.pending {
		if err := l.judge(c, a, q, &a.batch[i]); err != nil {
			return err
		}
	}
	return nil
}

// match matches pending tasks to open nodes, and starts them there.
func (l *Locality) match(c *planner.Cycle, a *Tenants, q Tenancy) (bool, error) {
	nodes := len(c.Nodes())
	l.idle = append(l.idle[:0], make([]int64, nodes)...)
	for n := range l.idle {
		l.idle[n] = idleness(c, planner.NodeID(n))
	}
	l.edges, l.weights = l.edges[:0], l.weights[:0]
	any := false
	for _, i := range l.pending {
		t := c.Task(a.batch[i].task)
		var row []int64
		if l.ByBytes {
			row = make([]int64, nodes)
		}
		var to []int
		if a.fastest(c, t) != planner.None {
			total, most := Input(c, t), l.most(c, t)
			for n := range nodes {
				held := l.local(c, t, planner.NodeID(n))
				if held == 0 || !l.ByBytes && held < most || !a.open(c, planner.NodeID(n), t) {
					continue
				}
				any = true
				to = append(to, n)
				if l.ByBytes {
					row[n] = max(1, exact.Int(uint64(l.idle[n])).Times(uint64(held)).Floor(uint64(total)))
				}
			}
		}
		l.edges, l.weights = append(l.edges, to), append(l.weights, row)
	}
	if !any {
		return false, nil
	}
	var found []int
	if l.ByBytes {
		found = match.Edges(l.weights)
	} else {
		found = match.Nodes(l.idle, l.edges)
	}
	done := false
	for k, n := range found {
		if n == match.None {
			continue
		}
		if err := a.put(c, q, &a.batch[l.pending[k]], planner.NodeID(n)); err != nil {
			return done, err
		}
		done = true
	}
	return done, nil
}

// idleness is the part of a node's computing capacity that is free, in millionths, and one: the weight of section 6.1.
func idleness(c *planner.Cycle, n planner.NodeID) int64 {
	capacity := c.Capacity(n)[unit.CPU]
	if capacity <= 0 {
		return 1
	}
	return 1 + max(0, c.Draft.Free(n)[unit.CPU])*1_000_000/capacity
}

// judge is the judgment mechanism (Algorithm 4): a task whose nodes are full waits for the one that is released first,
// or its data is moved to another node, of the same rack before others, the idlest first.
func (l *Locality) judge(c *planner.Cycle, a *Tenants, q Tenancy, b *candidate) error {
	t := c.Task(b.task)
	if a.fastest(c, t) == planner.None {
		return nil // others of the batch took the room
	}
	home, release, most := planner.NodeID(planner.None), unit.Never, l.most(c, t)
	l.near = append(l.near[:0], make([]bool, len(c.Platform().Groups))...)
	for node := range c.NodeCount() {
		if !t.Need.Fits(c.Capacity(node)) || l.local(c, t, node) < most {
			continue
		}
		if g := c.Nodes()[node].Group; int(g) < len(l.near) {
			l.near[g] = true
		}
		if at := a.release(c, node, t); !a.closed[node] && at < release {
			home, release = node, at
		}
	}
	to := l.neighbour(c, a, t)
	transfer := l.transfer(c, t, to)
	wait := release.Sub(c.Now())
	if slack, urgent := q.Slack(c, b.task); home != planner.None && match.Waits(wait, transfer) &&
		!(urgent && b.urgent && wait > slack) {
		task := b.task
		a.after = append(a.after, func() {
			l.note(c, task, waits, func() string {
				return fmt.Sprintf("waits for %s, which holds its data and is released in %v: moving it to %s takes %v",
					c.Nodes()[home].Name, wait, c.Nodes()[to].Name, transfer)
			})
			c.Explain(task, planner.Reason{Code: planner.Outranked, Node: home})
			c.WakeAt(until(c, home, release))
			a.missed = true
			q.Return(c, task)
		})
		b.placed = true
		return nil
	}
	task := b.task
	a.after = append(a.after, func() {
		l.note(c, task, moves, func() string {
			if home == planner.None {
				return fmt.Sprintf("moves its data to %s in %v: no node that holds it will have room",
					c.Nodes()[to].Name, transfer)
			}
			return fmt.Sprintf("moves its data to %s in %v: %s, which holds it, is released in %v",
				c.Nodes()[to].Name, transfer, c.Nodes()[home].Name, wait)
		})
	})
	return a.put(c, q, b, to)
}

// neighbour returns the open node that data is moved to: there is one.
func (l *Locality) neighbour(c *planner.Cycle, a *Tenants, t *planner.Task) planner.NodeID {
	best := planner.NodeID(planner.None)
	better := func(n, m planner.NodeID) bool {
		near := func(n planner.NodeID) int {
			if g := c.Nodes()[n].Group; int(g) < len(l.near) && l.near[g] {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(near(n), near(m)), -cmp.Compare(idleness(c, n), idleness(c, m))) < 0
	}
	for n := range c.NodeCount() {
		if a.open(c, n, t) && (best == planner.None || better(n, best)) {
			best = n
		}
	}
	return best
}

// transfer is the time that the copies of the inputs of t to n take, one after the other.
func (l *Locality) transfer(c *planner.Cycle, t *planner.Task, n planner.NodeID) (sum time.Duration) {
	for _, f := range t.Inputs {
		if from := c.Nearest(f, n); from != n && from != planner.None {
			sum += c.MoveTime(c.File(f).Size, from, n)
		}
	}
	return sum
}

// note notes a verdict once.
func (l *Locality) note(c *planner.Cycle, t planner.TaskID, v verdict, text func() string) {
	l.told = planner.Extend(l.told, int(t)+1)
	if l.told[t] != v {
		l.told[t] = v
		c.Note(planner.Note{Topic: "data", Workflow: c.Task(t).Workflow, Task: t, At: c.Now(), Text: text()})
	}
}
