package page

import (
	"fmt"
	"time"
)

// Extra is the part of a page that the log does not have as such, and that is computed from it.
type Extra struct {
	Plans     []Plan
	Rounds    int    // of planning that there were
	PlanNote  string // why there are no plans, or not all
	Copies    []Copy
	Changes   []NodeChange
	Others    []Other
	OtherNote string // why there are none
}

// Plan is the plan as a round left it.
type Plan struct {
	Round    int64
	At       time.Duration // since the beginning of the run
	Segments []Segment     // by task
}

// Segment is a place of a plan.
type Segment struct {
	Task, Node int
	Start, End time.Duration
}

// Copy is a file on its way to a node. Until is -1 if it did not arrive.
type Copy struct {
	File         string
	Node, From   int
	Since, Until time.Duration
}

// NodeChange is a new capacity of a node; all zero if it was lost.
type NodeChange struct {
	Node       int
	At         time.Duration
	Millicores int64
	Memory     int64 // bytes
}

// Other is the run as another policy would have had it.
type Other struct {
	Policy, Title string
	Own           bool   // the policy of the run
	Error         string // why it is not known
	Makespan      time.Duration
	Late, Due     int           // workflows
	Lateness      time.Duration // of the late ones, on average
	Utilisation   float64       // cores held, of those there
	Lanes         int
	Bars          []Bar
}

// Bar is a stay of a task on a node.
type Bar struct {
	Lane     int
	Kind     string
	Workflow int
	From, To time.Duration
}

// add writes the computed part, by units.
func (r *reader) add(x *Extra) {
	if x == nil {
		return
	}
	o, c := r.out, counter(r.out.Unit)
	kinds := map[string]int64{}
	for i, k := range o.Kinds {
		kinds[k] = int64(i)
	}
	p := &plans{Rounds: []int64{}, Total: x.Rounds, Note: x.PlanNote}
	for i := range x.Plans {
		plan := &x.Plans[i]
		p.Rounds, p.At = append(p.Rounds, plan.Round), append(p.At, c.count(int64(plan.At)))
		p.Count = append(p.Count, int64(len(plan.Segments)))
		for _, s := range plan.Segments {
			start := c.count(int64(s.Start))
			p.Task, p.Node = append(p.Task, int64(s.Task)), append(p.Node, int64(s.Node))
			p.Start, p.End = append(p.Start, start), append(p.End, c.count(int64(s.End))-start)
		}
	}
	o.Plans = p
	for _, m := range x.Copies {
		until := int64(-1)
		if m.Until >= 0 {
			until = c.count(int64(m.Until))
		}
		o.Copies = append(o.Copies, move{m.File, m.Node, m.From, c.count(int64(m.Since)), until})
	}
	for _, n := range x.Changes {
		o.Changes = append(o.Changes, change{n.Node, c.count(int64(n.At)), n.Millicores, n.Memory / kilo})
	}
	o.Others = &others{Note: x.OtherNote, Policies: []other{}}
	for i := range x.Others {
		b := &x.Others[i]
		t := other{Policy: b.Policy, Title: b.Title, Own: b.Own, Error: b.Error, Makespan: c.count(int64(b.Makespan)),
			Late: b.Late, Due: b.Due, Lateness: c.count(int64(b.Lateness)), Utilisation: b.Utilisation, Lanes: b.Lanes}
		for _, bar := range b.Bars {
			from := c.count(int64(bar.From))
			t.Lane, t.From = append(t.Lane, int64(bar.Lane)), append(t.From, from)
			t.Length, t.Kind = append(t.Length, c.count(int64(bar.To))-from), append(t.Kind, kinds[bar.Kind])
			t.Workflow = append(t.Workflow, int64(bar.Workflow))
		}
		o.Others.Policies = append(o.Others.Policies, t)
	}
	if len(x.Plans) > 0 && len(x.Plans) < x.Rounds {
		p.Note = fmt.Sprintf("%d of %d rounds that had an outcome.", len(x.Plans), x.Rounds) + p.Note
	}
}
