package page

import (
	"fmt"
	"time"

	"gantry/executor/forecast/rounds"
	"gantry/planner"
	"gantry/planner/unit"
)

// Extra is the part of a page that the log does not have as such, and that is computed from it.
type Extra struct {
	Plans     []rounds.Plan
	Rounds    int    // of planning that there were
	PlanNote  string // why there are no plans, or not all
	Copies    []rounds.Copy
	Changes   []rounds.Change
	Others    []Other
	OtherNote string // why there are none
}

// copied is a file on its way to a node. Until is -1 if it did not arrive.
type copied struct {
	File  string         `json:"file"`
	Node  planner.NodeID `json:"node"`
	From  planner.NodeID `json:"from"`
	Since int64          `json:"since"`
	Until int64          `json:"until"`
}

// change is a new capacity of a node; all zero if it was lost.
type change struct {
	Node       planner.NodeID `json:"node"`
	At         int64          `json:"at"`
	Millicores int64          `json:"millicores"`
	Memory     int64          `json:"memory"` // kB
}

// Other is the run as another policy would have had it.
type Other struct {
	Policy      string        `json:"policy"`
	Title       string        `json:"title,omitempty"`
	Own         bool          `json:"own,omitempty"`   // the policy of the run itself, simulated alike
	Error       string        `json:"error,omitempty"` // why it is not known
	Makespan    time.Duration `json:"makespan"`
	Late        int           `json:"late"`
	Due         int           `json:"due"`         // workflows with a deadline
	Lateness    time.Duration `json:"lateness"`    // of the late ones, on average
	Utilisation float64       `json:"utilisation"` // cores held, of those there
	Lanes       int           `json:"lanes"`
	Bars        []Bar         `json:"-"`
	barColumns
}

// barColumns are the bars on a page: stays within one pixel are one bar.
type barColumns struct {
	Lane     column `json:"lane"`
	From     column `json:"from"`
	Length   column `json:"length"`
	Kind     column `json:"kind"`
	Workflow column `json:"workflow"`
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
			end := c.count(int64(min(s.End, s.Start+1e18))) // a place may be kept for ever
			p.Start, p.End = append(p.Start, start), append(p.End, end-start)
		}
	}
	o.Plans = p
	for _, m := range x.Copies {
		until := int64(-1)
		if m.Until != unit.Never {
			until = c.count(int64(m.Until))
		}
		o.Copies = append(o.Copies, copied{m.File, m.Node, m.From, c.count(int64(m.Since)), until})
	}
	for _, m := range x.Changes {
		o.Changes = append(o.Changes, change{m.Node, c.count(int64(m.At)), m.Capacity[unit.CPU],
			m.Capacity[unit.Memory] / kilo})
	}
	o.Others = &others{Note: x.OtherNote, Policies: append([]Other{}, x.Others...)} // null is no list
	for i := range o.Others.Policies {
		t := &o.Others.Policies[i]
		c.span(&t.Makespan)
		c.span(&t.Lateness)
		for _, bar := range t.Bars {
			from := c.count(int64(bar.From))
			t.Lane, t.From = append(t.Lane, int64(bar.Lane)), append(t.From, from)
			t.Length, t.Kind = append(t.Length, c.count(int64(bar.To))-from), append(t.Kind, kinds[bar.Kind])
			t.Workflow = append(t.Workflow, int64(bar.Workflow))
		}
	}
	if len(x.Plans) > 0 && len(x.Plans) < x.Rounds {
		p.Note = fmt.Sprintf("%d of %d rounds that had an outcome.", len(x.Plans), x.Rounds) + p.Note
	}
}
