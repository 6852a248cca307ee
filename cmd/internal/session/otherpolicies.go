package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gantry/executor"
	"gantry/executor/forecast"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/sqlite/report/page"
)

// Rehearsal simulates runs of a log under other policies, for their page.
type Rehearsal struct {
	Log   *sqlite.DB
	Only  []string // policies to simulate; nil: such as fit the run
	spent time.Duration
}

// Bounds of the computations for a page.
const (
	replayTime = 10 * time.Second // of all runs of a page together
	alternate  = 3                // other policies
	barPixels  = 900              // of a small timeline: shorter bars are joined
	mostBars   = 12_000           // of a small timeline: with more, pixels are larger
)

// OtherLater says when there are other policies.
const OtherLater = "Other policies are simulated by gantry report --html once the run is over."

// Others implements Options.Others of package page.
func (r *Rehearsal) Others(ctx context.Context, run string) (*page.Others, error) {
	_, name, err := r.Log.Find(ctx, run)
	if err != nil {
		return nil, err
	}
	over, err := r.Log.Overview(ctx, name)
	if err != nil {
		return nil, err
	}
	x := &page.Others{Policies: []page.Other{}}
	switch {
	case over.Tasks == 0:
	case r.Log.OfOne():
		x.Note = "This page is of one submission. The policy planned it together with all others: gantry report " +
			name + " --html FILE simulates the whole run with other policies."
	case over.State == sqlite.Running:
		x.Note = OtherLater
	default:
		r.others(ctx, name, x)
	}
	return x, nil
}

// candidates are policies to compare a run with, those that fit it best first.
func candidates(flows []workflowFacts, own string) []string {
	var due, tenants, wide bool
	for _, w := range flows {
		due, tenants, wide = due || w.due, tenants || w.tenant != flows[0].tenant, wide || w.wide
	}
	var names []string
	if tenants {
		names = append(names, "3dsf", "drf", "capacity")
	}
	if due {
		names = append(names, "edf", "rm-dcwf", "mrcp-rm")
	}
	if wide {
		names = append(names, "mows", "owm-mp")
	}
	names = append(names, "cpp", "heft", "gbf", "fdws", "wheft", "owm")
	name, _, _ := strings.Cut(own, ":")
	return slices.DeleteFunc(names, func(n string) bool { return n == name })
}

// workflowFacts say which policies fit.
type workflowFacts struct {
	tenant    string
	due, wide bool
}

// others simulates the run with its own policy and with three others, as long as there is time.
func (r *Rehearsal) others(ctx context.Context, of string, x *page.Others) {
	names := r.Only
	if names != nil && len(names) == 0 {
		return
	}
	began := time.Now()
	run, err := readRerun(ctx, r.Log, of)
	r.spent += time.Since(began)
	if err != nil {
		x.Note = "Other policies cannot be simulated: " + err.Error() + "."
		return
	}
	if names == nil {
		names = candidates(run.flows, run.info.Policy)
	}
	got := 0
	for i, name := range append([]string{""}, names...) {
		if got == alternate && r.Only == nil {
			break
		}
		if r.spent >= replayTime {
			x.Note = fmt.Sprintf("Simulating other policies takes longer than %v here: some are left out.",
				replayTime)
			break
		}
		began = time.Now()
		limited, cancel := context.WithTimeout(ctx, replayTime-r.spent)
		o, err := run.other(limited, name)
		cancel()
		r.spent += time.Since(began)
		switch {
		case err == nil:
		case errors.Is(err, context.DeadlineExceeded):
			continue
		case i == 0:
			x.Note = "Other policies cannot be simulated: " + err.Error() + "."
			return
		case r.Only == nil && errors.Is(err, planner.ErrUnsupported):
			continue // the next may fit
		default:
			o = &page.Other{Policy: name, Error: "It cannot be simulated: " + err.Error() + "."}
		}
		if i > 0 {
			got++
		}
		x.Policies = append(x.Policies, *o)
	}
}

func factsOf(a *executor.Admission) workflowFacts {
	f := workflowFacts{tenant: a.Submission.Tenant, due: a.Arrived.Workflow.Due != unit.Never}
	for i := range a.Arrived.Tasks {
		f.wide = f.wide || a.Arrived.Tasks[i].Need[unit.CPU] > 1000
	}
	return f
}

// other simulates the run under a policy; "" is its own.
func (r *rerun) other(ctx context.Context, name string) (*page.Other, error) {
	p, w, err := r.plan(ctx, name)
	if err != nil {
		return nil, err
	}
	c, err := w.course(ctx, p.simulation(0))
	if err != nil {
		return nil, err
	}
	o := &page.Other{Policy: cmp.Or(name, r.info.Policy), Own: name == "", Makespan: c.Makespan()}
	if row, err := policy.Named(strings.Split(o.Policy, ":")[0]); err == nil {
		o.Title = row.Title
	}
	for i := range c.Workflows {
		w := &c.Workflows[i]
		if w.Due == unit.Never {
			continue
		}
		if o.Due++; w.Ended > w.Due {
			o.Late++
			o.Lateness += w.Ended.Sub(w.Due)
		}
	}
	if o.Late > 0 {
		o.Lateness /= time.Duration(o.Late)
	}
	draw(o, c, p.Platform)
	return o, nil
}

// draw draws the small timeline of a course.
func draw(o *page.Other, c *forecast.Course, p *planner.Platform) {
	slots, stays := make(sqlite.Slots, len(p.Nodes)), make([]page.Bar, len(c.Attempts))
	var held, cores float64 // core seconds, cores
	for i := range c.Attempts {
		a := &c.Attempts[i]
		stays[i] = page.Bar{Lane: slots.Take(int(a.Node), int64(a.Queued), int64(a.Over)), Kind: a.Task.Kind,
			Workflow: int(a.Task.Workflow.ID), From: a.Queued.Sub(c.Begin), To: a.Over.Sub(c.Begin)}
		held += float64(a.Hold[unit.CPU]) * a.Over.Sub(a.Queued).Seconds()
	}
	first := make([]int, len(slots))
	for n := range slots {
		cores += float64(p.Nodes[n].Capacity[unit.CPU])
		first[n] = o.Lanes
		o.Lanes += max(1, len(slots[n]))
	}
	o.Utilisation = held / max(1e-9, cores*o.Makespan.Seconds())
	for i := range stays {
		stays[i].Lane += first[c.Attempts[i].Node]
	}
	for pixels := int64(barPixels); pixels > 0; pixels /= 2 {
		if o.Bars = joined(stays, time.Duration(int64(o.Makespan)/pixels), o.Lanes); len(o.Bars) <= mostBars {
			break
		}
	}
}

// joined are the bars of a timeline, with those within one pixel of a lane as one.
func joined(stays []page.Bar, pixel time.Duration, lanes int) (out []page.Bar) {
	last := make([]int, lanes) // 1 + the last bar of each lane
	for _, b := range stays {
		if k := last[b.Lane]; k > 0 && b.To-out[k-1].From < pixel {
			out[k-1].To = b.To
			continue
		}
		out = append(out, b)
		last[b.Lane] = len(out)
	}
	slices.SortStableFunc(out, func(a, b page.Bar) int { return a.Lane - b.Lane })
	return out
}
