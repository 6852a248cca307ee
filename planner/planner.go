package planner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"gantry/planner/unit"
)

// Planner joins the state, the draft and a policy. It is driven from one goroutine: Apply for everything that happens,
// Plan for a round, whose outcome comes back through Apply like any other event.
type Planner struct {
	state  *State
	draft  *Draft
	policy Policy
	est    Estimator
	rand   *rand.Rand
	round  int64
	wake   Time
	told   []ReasonCode // by task: the last reason that went to the log
	waits  []Wait
	pol    Observer // the policy, if it learns
	learn  Observer // the estimator, if it learns
	cycle  Cycle
	idle   PlanCommitted // of rounds without an outcome
}

// New returns a planner for a run that begins. Seed fixes every random choice of the policy.
func New(platform *Platform, rules RetryRules, policy Policy, est Estimator, seed uint64) *Planner {
	s := NewState(platform, rules)
	learn, _ := est.(Observer)
	est = whatIsLeft(s, est)
	p := &Planner{state: s, draft: newDraft(s, est), est: est, learn: learn, policy: policy, wake: unit.Never,
		rand: rand.New(rand.NewPCG(seed, 0x67616e747279))}
	p.pol, _ = policy.(Observer)
	p.cycle = Cycle{View: p.View(), Draft: p.draft, Est: p.est, Rand: p.rand, learns: p.learn != nil,
		explain: p.explain}
	if x, ok := policy.(interface {
		ExpectsOverrunsToEnd() (left time.Duration, ok bool)
	}); ok {
		p.draft.overrun, p.draft.impatient = x.ExpectsOverrunsToEnd()
	}
	return p
}

// Call has policies know names. It is called before the first round.
func (p *Planner) Call(n Names) { p.cycle.Names = n }

// End ends what the policy has outside the planner.
func (p *Planner) End() {
	if x, ok := p.policy.(Ender); ok {
		x.End()
	}
}

// View is the known state of the run.
func (p *Planner) View() View { return p.state.View() }

// Draft is the schedule as the last round left it. Only policies edit it.
func (p *Planner) Draft() *Draft { return p.draft }

// Seq is the number of the last event that was applied.
func (p *Planner) Seq() uint64 { return p.state.applied }

// Apply takes in an event. Policies and estimators hear of it, but for formal tasks.
func (p *Planner) Apply(e Event) error {
	if err := p.state.Apply(e); err != nil {
		return err
	}
	if pc, ok := e.Body.(*PlanCommitted); ok {
		p.round = max(p.round, pc.Round)
	}
	if p.state.ofFormal(&e) {
		return nil
	}
	p.draft.observe(e)
	p.draft.seal()
	if p.learn != nil {
		p.learn.Observe(p.View(), e)
	}
	if p.pol != nil {
		p.pol.Observe(p.View(), e)
	}
	return nil
}

// Wake returns when the next round is due if nothing happens before: a wake the policy asked for, or the release of a
// workflow.
func (p *Planner) Wake() Time {
	if e := p.state.embargoed; len(e) > 0 {
		return min(p.wake, p.state.workflows.at(e[0]).Release)
	}
	return p.wake
}

// Released reports whether a workflow may start by then that was not released at the last event.
func (p *Planner) Released(at Time) bool {
	e := p.state.embargoed
	return len(e) > 0 && p.state.workflows.at(e[0]).Release <= at
}

// Due reports whether a round at that instant could differ from the last one.
func (p *Planner) Due(at Time) bool {
	n := &p.state.news // a suspension frees something, too
	return len(n.Arrived)+len(n.Grown)+len(n.Ready)+len(n.Finished)+len(n.Ended)+len(n.Appeared) > 0 || n.Changed ||
		n.Freed || p.wake <= at
}

// Restore makes everything news again: after the replay of a log the policy meets the whole state as if it had just
// come about.
func (p *Planner) Restore() {
	s := p.state
	s.news = News{Arrived: slices.Clone(s.present), Ready: slices.Clone(s.ready), Freed: true, Changed: true}
	for a := range s.View().UnderWay() {
		if att := s.attempts.at(a); s.lives.at(att.Task).phase == Suspended && !att.Resuming {
			s.news.Suspended = append(s.news.Suspended, att.Task)
		}
	}
}

// Plan runs a round at the given instant. The outcome is to be numbered, logged and applied before its orders are
// carried out; one without orders, reasons and notes holds until the next round only.
func (p *Planner) Plan(ctx context.Context, at Time) (*PlanCommitted, error) {
	p.round++
	p.draft.begin(at)
	p.waits = p.waits[:0]
	c := &p.cycle
	c.News, c.now, c.round, c.wake = p.state.news, at, p.round, unit.Never
	c.notes = c.notes[:0]
	if err := p.policy.Plan(ctx, c); err != nil {
		return nil, fmt.Errorf("round %d at %v: %w", p.round, at, err)
	}
	freezes := func(v vacancy) bool { return v.how == Suspend }
	if i := slices.IndexFunc(p.draft.vacated, freezes); i >= 0 && p.Thaws() {
		return nil, fmt.Errorf("round %d at %v: the policy froze task %d without saying that it suspends tasks: "+
			"give it the method Suspends (planner.Suspender)", p.round, at, p.draft.vacated[i].task)
	}
	p.explainRest(c)
	p.state.news = News{Arrived: p.state.news.Arrived[:0], Grown: p.state.news.Grown[:0], Ready: p.state.news.Ready[:0],
		Finished: p.state.news.Finished[:0],
		Ended:    p.state.news.Ended[:0], Appeared: p.state.news.Appeared[:0], Suspended: p.state.news.Suspended[:0]}
	p.wake = unit.Never
	if c.wake > at {
		p.wake = c.wake
	}
	orders := p.draft.orders(p.est)
	if len(orders)+len(p.waits)+len(c.notes) == 0 {
		p.idle.Round = p.round
		return &p.idle, nil // most rounds; nobody keeps it
	}
	pc := &PlanCommitted{Round: p.round, Orders: orders}
	if len(p.waits) > 0 {
		pc.Reasons = slices.Clone(p.waits)
	}
	if len(c.notes) > 0 {
		pc.Notes = slices.Clone(c.notes)
	}
	return pc, nil
}

// Thaws reports whether the policy leaves it to Thaw to let frozen tasks continue.
func (p *Planner) Thaws() bool {
	_, suspends := p.policy.(Suspender)
	return !suspends
}

// Thaw orders frozen tasks to continue as far as there is room for them, where nobody else would: before rounds of a
// policy that suspends none, and in place of rounds where nothing more is started. It returns nil if there are none.
func (p *Planner) Thaw(at Time) *PlanCommitted {
	s := p.state
	if s.frozen == 0 {
		return nil
	}
	var pc *PlanCommitted
	taken := map[NodeID]unit.Vector{}
	for a := range s.View().UnderWay() {
		att := s.attempts.at(a)
		if s.lives.at(att.Task).phase != Suspended || att.Resuming || p.draft.Limited(att.Task) {
			continue
		}
		more := att.Hold.Sub(s.holds(a))
		if !more.Fits(s.capacity[att.Node].Sub(s.held[att.Node]).Sub(taken[att.Node])) {
			continue
		}
		taken[att.Node] = taken[att.Node].Add(more)
		if pc == nil {
			p.round++
			pc = &PlanCommitted{Round: p.round}
			s.news.Changed = true // plans did not count on it
		}
		pc.Orders = append(pc.Orders, Order{Kind: OrderResume, Attempt: a, Task: att.Task, Node: att.Node,
			Hold: att.Hold, Until: at.Add(att.Until.Sub(att.Suspended))})
	}
	return pc
}

// Told is the last reason that the log has why a task does not start; 0: there is none.
func (p *Planner) Told(t TaskID) ReasonCode {
	if int(t) >= len(p.told) {
		return 0
	}
	return p.told[t]
}

// explain keeps a reason for the log if it is news.
func (p *Planner) explain(t TaskID, r Reason) {
	p.told = Extend(p.told, int(t)+1)
	if p.draft.Limited(t) {
		r = OthersHoldTokens
	} else if p.draft.onlyParts(t, &r) {
		r = Reason{Code: NoNodeFree, Dim: unit.GPU, Node: None}
	}
	if p.told[t] == r.Code {
		return
	}
	p.told[t] = r.Code
	p.waits = append(p.waits, Wait{t, r})
}

// explainRest finds reasons for tasks that became ready and neither start nor were explained by the policy.
func (p *Planner) explainRest(c *Cycle) {
	for _, t := range c.News.Ready {
		if c.Phase(t) != Ready {
			continue
		}
		if seg := p.draft.stay(t); seg != nil {
			if !seg.due {
				p.explain(t, Reason{Code: PlannedLater, Node: seg.Node, At: seg.Start})
			}
			continue
		}
		p.explain(t, p.whyNot(c, t))
	}
}

func (p *Planner) whyNot(c *Cycle, t TaskID) Reason {
	need := c.Task(t).Need
	if n := p.draft.Fastest(need); n != None {
		return Reason{Code: Unplaced, Node: n}
	}
	for n := range c.NodeCount() {
		if need.Fits(c.Capacity(n)) {
			return Reason{Code: NoNodeFree, Dim: p.draft.Short(need), Node: None}
		}
	}
	return Reason{Code: NoNode, Node: None}
}
