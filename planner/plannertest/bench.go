package plannertest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// Runs is an estimator that knows the run of each task at speed 1, and is never surprised by an overrun for long.
type Runs []time.Duration

var _ planner.Ranker = &Runs{}

// Run implements planner.Estimator.
func (r *Runs) Run(t *planner.Task, n *planner.Node) planner.Estimate {
	return planner.Estimate{Run: onSpeed((*r)[t.ID], n.Speed), Source: planner.SourceDeclared}
}

// Remaining implements planner.Estimator.
func (r *Runs) Remaining(t *planner.Task, n *planner.Node, ran time.Duration) time.Duration {
	return max(r.Run(t, n).Run-ran, ran/8, time.Millisecond)
}

// Unscaled implements planner.Ranker.
func (r *Runs) Unscaled(t *planner.Task, n *planner.Node) (time.Duration, uint64) {
	return r.Run(t, n).Run, 1
}

// Work implements planner.Ranker.
func (r *Runs) Work(*planner.Task) (w planner.Work, ok bool) { return w, false }

// BySpeed implements planner.Ranker.
func (r *Runs) BySpeed(*planner.Task) bool { return true }

func onSpeed(d time.Duration, speed float64) time.Duration { return time.Duration(float64(d) / speed) }

// PolicyFunc is a policy that is a function.
type PolicyFunc func(c *planner.Cycle) error

// Plan implements planner.Policy.
func (f PolicyFunc) Plan(_ context.Context, c *planner.Cycle) error { return f(c) }

// Bench drives a planner through a scenario, or by hand.
type Bench struct {
	*Scenario
	Planner *planner.Planner
	Est     *Runs
	Now     planner.Time
	Events  []planner.Event // all that were applied
	Rounds  map[planner.Time]int

	t      testing.TB
	next   int // index of the next workflow to arrive
	agenda []happening
	left   map[planner.AttemptID]running
	pieces []planner.Segment // parts of the runs of attempts
	exact  bool
}

// happening is an event that the world has in store.
type happening struct {
	at   planner.Time
	rank int // at one instant, ends come first
	body planner.Body
}

// running is an attempt that runs since an instant, with some time to go.
type running struct {
	since planner.Time
	left  time.Duration
}

// New makes a planner for a scenario: estimates are those of the scenario, and of draws there is one seed.
func New(t testing.TB, pol planner.Policy, scenario string) *Bench {
	t.Helper()
	s, err := Parse(scenario)
	if err != nil {
		t.Fatal(err)
	}
	return s.Bench(t, pol)
}

// Bench makes a planner for s.
func (s *Scenario) Bench(t testing.TB, pol planner.Policy) *Bench {
	est := Runs(slices.Clone(s.Est))
	b := &Bench{Scenario: s, Est: &est, Planner: planner.New(s.Platform, planner.DefaultRetryRules(), pol, &est, 1),
		t:      t,
		Rounds: map[planner.Time]int{}, left: map[planner.AttemptID]running{}, exact: slices.Equal(s.Est, s.Run)}
	b.Planner.Call(b)
	return b
}

// Resume has a policy plan from now on that was told all that happened, as after gantry resume.
func (b *Bench) Resume(pol planner.Policy) *Bench {
	b.t.Helper()
	b.Planner.End()
	b.Planner = planner.New(b.Platform, planner.DefaultRetryRules(), pol, b.Est, 1)
	b.Planner.Call(b)
	for _, e := range b.Events {
		if err := b.Planner.Apply(e); err != nil {
			b.t.Fatal(err)
		}
	}
	b.Planner.Restore()
	return b
}

// OfTask implements planner.Names: tasks are of types by name.
func (b *Bench) OfTask(t planner.TaskID) (name, kind string) { return b.Names[t], b.Names[t] }

// OfWorkflow implements planner.Names.
func (b *Bench) OfWorkflow(w planner.WorkflowID) string { return fmt.Sprint("w", w) }

// OfTenant implements planner.Names.
func (b *Bench) OfTenant(m planner.TenantID) string { return fmt.Sprint("m", m) }

// View is the planner's knowledge of the run.
func (b *Bench) View() planner.View { return b.Planner.View() }

// Task returns the task of that name.
func (b *Bench) Task(name string) planner.TaskID {
	b.t.Helper()
	i := slices.Index(b.Names, name)
	if i < 0 {
		b.t.Fatalf("there is no task %q", name)
	}
	return planner.TaskID(i)
}

// Apply numbers an event of now, applies it and checks the invariants.
func (b *Bench) Apply(body planner.Body) {
	b.t.Helper()
	e := planner.Event{Seq: b.Planner.Seq() + 1, At: b.Now, Body: body}
	if err := b.Planner.Apply(e); err != nil {
		b.t.Fatal(err)
	}
	b.Events = append(b.Events, e)
	b.check()
}

func (b *Bench) check() {
	b.t.Helper()
	if err := Check(b.Planner, b.exact); err != nil {
		b.t.Fatalf("at %v: %v", b.Now, err)
	}
}

// Arrive admits the next workflow of the scenario.
func (b *Bench) Arrive() {
	b.t.Helper()
	b.Apply(b.Flows[b.next])
	b.next++
}

// Round asks the policy once, carries its orders out, and returns them.
func (b *Bench) Round() []planner.Order {
	b.t.Helper()
	pc, err := b.Planner.Plan(b.t.Context(), b.Now)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Rounds[b.Now]++
	out := *pc
	b.Apply(&out)
	for i := range out.Orders {
		b.carryOut(&out.Orders[i])
	}
	return out.Orders
}

func (b *Bench) after(d time.Duration, rank int, body planner.Body) {
	h := happening{b.Now.Add(d), rank, body}
	i := len(b.agenda)
	for i > 0 && (b.agenda[i-1].at > h.at || b.agenda[i-1].at == h.at && b.agenda[i-1].rank > h.rank) {
		i--
	}
	b.agenda = slices.Insert(b.agenda, i, h)
}

func (b *Bench) carryOut(o *planner.Order) {
	v := b.View()
	switch o.Kind {
	case planner.OrderStart:
		var stage time.Duration
		for _, f := range v.Task(o.Task).Inputs {
			if from := v.Nearest(f, o.Node); from != planner.None {
				stage += b.Platform.MoveTime(v.File(f).Size, from, o.Node)
			}
		}
		if from, _ := v.Checkpoint(o.Task); from != planner.None {
			stage += b.Platform.MoveTime(v.Task(o.Task).CheckpointSize, from, o.Node)
		}
		b.after(stage, 3, planner.AttemptStarted{Attempt: o.Attempt})
	case planner.OrderSuspend:
		b.after(0, 2, planner.AttemptSuspended{Attempt: o.Attempt})
	case planner.OrderResume:
		b.after(0, 2, planner.AttemptResumed{Attempt: o.Attempt})
	case planner.OrderKill, planner.OrderCheckpoint:
		kept := 0.0
		if run := b.run(o.Attempt); o.Kind == planner.OrderCheckpoint && run > 0 {
			kept = 1 - float64(b.left[o.Attempt].left-b.Now.Sub(b.left[o.Attempt].since))/float64(run)
		}
		b.after(0, 0, &planner.AttemptExited{Attempt: o.Attempt, Outcome: planner.Preempted, Kept: kept})
	case planner.OrderCopy:
		b.after(b.Platform.MoveTime(v.File(o.File).Size, o.From, o.Node), 1, planner.FileAppeared{File: o.File,
			Node: o.Node})
	}
}

// run is the true run of the whole task of an attempt.
func (b *Bench) run(a planner.AttemptID) time.Duration {
	att := b.View().Attempt(a)
	return onSpeed(b.Run[att.Task], b.Platform.Nodes[att.Node].Speed)
}

// happen applies an event that the world had in store, and its consequences.
func (b *Bench) happen(body planner.Body) {
	b.t.Helper()
	v := b.View()
	pause := func(a planner.AttemptID) {
		r, ok := b.left[a]
		if !ok {
			return
		}
		att := v.Attempt(a)
		b.pieces = append(b.pieces, planner.Segment{Task: att.Task, Node: att.Node, Hold: att.Hold,
			Start: r.since, End: b.Now})
		b.left[a] = running{b.Now, r.left - b.Now.Sub(r.since)}
	}
	resume := func(a planner.AttemptID) {
		b.left[a] = running{b.Now, b.left[a].left}
		b.after(b.left[a].left, 0, &planner.AttemptExited{Attempt: a, Outcome: planner.OK})
	}
	switch x := body.(type) {
	case planner.AttemptStarted:
		b.left[x.Attempt] = running{left: planner.Undone(b.run(x.Attempt), v.Attempt(x.Attempt).Done)}
		resume(x.Attempt)
	case planner.AttemptSuspended:
		pause(x.Attempt)
		b.forget(x.Attempt)
	case planner.AttemptResumed:
		resume(x.Attempt)
	case *planner.AttemptExited:
		if x.Outcome == planner.Preempted {
			b.forget(x.Attempt)
		}
		x.Ran = v.Ran(x.Attempt)
		if v.Phase(v.Attempt(x.Attempt).Task) == planner.Running {
			x.Ran = b.Now.Sub(v.Attempt(x.Attempt).Started) - v.Attempt(x.Attempt).Paused
			pause(x.Attempt)
		}
	}
	b.Apply(body)
}

// forget drops the end that an attempt had ahead.
func (b *Bench) forget(a planner.AttemptID) {
	b.agenda = slices.DeleteFunc(b.agenda, func(h happening) bool {
		x, ok := h.body.(*planner.AttemptExited)
		return ok && x.Attempt == a && x.Outcome == planner.OK
	})
}

// formal starts and ends the tasks without time that are ready.
func (b *Bench) formal() {
	b.t.Helper()
	for pc := b.Planner.Formalities(b.Now); pc != nil; pc = b.Planner.Formalities(b.Now) {
		b.Apply(pc)
		for i := range pc.Orders {
			b.Apply(planner.AttemptStarted{Attempt: pc.Orders[i].Attempt})
			b.Apply(&planner.AttemptExited{Attempt: pc.Orders[i].Attempt, Outcome: planner.OK})
		}
	}
}

// Step moves on to the next instant at which something happens, applies all of it, and asks the policy. It returns
// false once nothing will happen any more.
func (b *Bench) Step() bool {
	b.t.Helper()
	at := b.Planner.Wake()
	if len(b.agenda) > 0 {
		at = min(at, b.agenda[0].at)
	}
	if b.next < len(b.Flows) {
		at = min(at, b.Flows[b.next].Workflow.Arrived)
	}
	if at == unit.Never {
		return false
	}
	wake := b.Planner.Wake() <= at
	b.Now = max(b.Now, at)
	for len(b.agenda) > 0 && b.agenda[0].at <= b.Now {
		h := b.agenda[0]
		b.agenda = b.agenda[1:]
		b.happen(h.body)
	}
	if wake {
		b.Apply(planner.Woke{})
	}
	for b.next < len(b.Flows) && b.Flows[b.next].Workflow.Arrived <= b.Now {
		b.Arrive()
	}
	b.formal()
	if b.Planner.Due(b.Now) {
		b.Round()
	}
	return true
}

// Preempted reports whether any task was ordered to leave its place.
func (b *Bench) Preempted() bool {
	for t := range b.View().Tasks() {
		if b.View().Preemptions(planner.TaskID(t)) > 0 {
			return true
		}
	}
	return false
}

// RunAll steps until every workflow has ended, and returns the bench.
func (b *Bench) RunAll() *Bench {
	b.t.Helper()
	return b.Until(unit.Never)
}

// Until steps as long as events come before an instant.
func (b *Bench) Until(end planner.Time) *Bench {
	b.t.Helper()
	for b.next < len(b.Flows) || len(b.View().Present()) > 0 {
		if b.Now >= end {
			return b
		}
		if !b.Step() {
			b.t.Fatalf("at %v nothing will happen any more, and %d workflows are left", b.Now, len(b.View().Present()))
		}
	}
	return b
}

// Ran is the picture of the run up to now: a row for each core of each node, a letter for each column (a second, see
// Parse) in which a task held it.
func (b *Bench) Ran() string {
	pieces := slices.Clone(b.pieces)
	for a := range b.View().UnderWay() {
		att := b.View().Attempt(a)
		if r, ok := b.left[a]; ok && b.View().Phase(att.Task) == planner.Running {
			pieces = append(pieces, planner.Segment{Task: att.Task, Node: att.Node, Hold: att.Hold,
				Start: r.since, End: b.Now})
		}
	}
	return b.draw(pieces)
}

// Plan is the picture of the draft from now on: running tasks are shown from their start.
func (b *Bench) Plan() string {
	var pieces []planner.Segment
	for n := range b.Platform.Nodes {
		for seg := range b.Planner.Draft().On(planner.NodeID(n)) {
			if seg.Kind != planner.Parked {
				pieces = append(pieces, seg)
			}
		}
	}
	return b.draw(pieces)
}

// Want compares the run with a picture.
func (b *Bench) Want(picture string) {
	b.t.Helper()
	compare(b.t, "ran", b.Ran(), picture)
}

// WantPlan compares the plan with a picture.
func (b *Bench) WantPlan(picture string) {
	b.t.Helper()
	compare(b.t, "is planned", b.Plan(), picture)
}

func compare(t testing.TB, what, got, want string) {
	t.Helper()
	if want = tidy(want); got != want {
		t.Errorf("this %s:\n%s\nwant:\n%s", what, got, want)
	}
}

// tidy drops the indentation of a picture, and the empty cells at the ends of its lines.
func tidy(picture string) string {
	var out []string
	for _, l := range strings.Split(picture, "\n") {
		words := strings.Fields(l)
		if len(words) == 0 {
			continue
		}
		node, cells := "", words[len(words)-1]
		if words[0][0] == 'n' && strings.Trim(words[0][1:], "0123456789") == "" && words[0] != "n" {
			node = words[0]
		}
		if node != "" && len(words) == 1 {
			cells = ""
		}
		out = append(out, row(node, cells))
	}
	return strings.Join(out, "\n")
}

// row is a line of a picture.
func row(node, cells string) string {
	return strings.TrimRight(fmt.Sprintf("%-3s %s", node, strings.TrimRight(cells, ".")), " ")
}

// draw gives every piece the first rows of its node that are free. A piece that begins or ends within a column is drawn
// as "!".
func (b *Bench) draw(pieces []planner.Segment) string {
	slices.SortStableFunc(pieces, func(x, y planner.Segment) int {
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.Task, y.Task))
	})
	var lines []string
	for n, node := range b.Platform.Nodes {
		rows := make([][]byte, max(1, (node.Capacity[unit.CPU]+999)/1000))
		for _, p := range pieces {
			if int(p.Node) != n || p.End <= p.Start {
				continue
			}
			from, to := int(time.Duration(p.Start)/b.Scale), int((time.Duration(p.End)+b.Scale-1)/b.Scale)
			name := b.Names[p.Task][0]
			if time.Duration(p.Start)%b.Scale != 0 || time.Duration(p.End)%b.Scale != 0 {
				name = '!'
			}
			rowsLeft := (p.Hold[unit.CPU] + 999) / 1000
			for r := range rows {
				if rowsLeft == 0 {
					break
				}
				for len(rows[r]) < to {
					rows[r] = append(rows[r], '.')
				}
				if strings.Trim(string(rows[r][from:to]), ".") != "" {
					continue
				}
				for c := from; c < to; c++ {
					rows[r][c] = name
				}
				rowsLeft--
			}
		}
		for r, cells := range rows {
			label := ""
			if r == 0 {
				label = node.Name
			}
			lines = append(lines, row(label, string(cells)))
		}
	}
	return strings.Join(lines, "\n")
}
