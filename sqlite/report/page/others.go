package page

import (
	"context"
	"time"
)

// Others are simulations of a run with other policies.
type Others struct {
	Note     string  `json:"note,omitempty"` // why there are none, or not all
	Policies []Other `json:"policies"`
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

// others has the simulations of the run made, and writes their bars as columns.
func (r *reader) others(ctx context.Context, o *Options) (err error) {
	if o.Others == nil {
		return nil
	}
	if r.out.Others, err = o.Others(ctx, r.out.Name); err != nil {
		return err
	}
	c := counter(r.out.Unit)
	for i := range r.out.Others.Policies {
		t := &r.out.Others.Policies[i]
		for _, bar := range t.Bars {
			from := c.count(int64(bar.From))
			t.Lane, t.From = append(t.Lane, int64(bar.Lane)), append(t.From, from)
			t.Length = append(t.Length, c.count(int64(bar.To))-from)
			t.Kind, t.Workflow = append(t.Kind, r.Kinds.Number(bar.Kind)), append(t.Workflow, int64(bar.Workflow))
		}
	}
	return nil
}
