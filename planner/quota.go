package planner

import (
	"fmt"

	"gantry/planner/unit"
)

// ErrLimit is an ErrFull: the tenant holds all that its limit lets it, or others hold the tokens, or parts of all GPUs.
var ErrLimit = fmt.Errorf("the limit of the tenant, of tokens, or parts of GPUs: %w", ErrFull)

// quotas bound the cores that tenants hold together. The draft refuses starts beyond them, as it refuses starts on full
// nodes; plans for later are not bound. Events do not depend on them: a log replays under any limits.
type quotas struct {
	limit   func(TenantID) int64 // millicores; 0: none
	held    []int64              // by tenant: of attempts under way; frozen ones hold none
	pending []int64              // by tenant: due to start in this round
}

// LimitTenants bounds the cores that tenants may hold, in millicores; 0 is no limit. A task that needs more than the
// limit runs alone. It is called before the first event.
func (p *Planner) LimitTenants(limit func(TenantID) int64) {
	p.state.quotas = &quotas{limit: limit}
}

// at returns the numbers of a tenant.
func (q *quotas) at(m TenantID) (held, pending *int64) {
	q.held, q.pending = Extend(q.held, int(m)+1), Extend(q.pending, int(m)+1)
	return &q.held[m], &q.pending[m]
}

func (s *State) tenantOf(t TaskID) TenantID { return s.workflows.at(s.tasks.of(t).Workflow).Tenant }

// charge adds millicores to the hold of attempts of t.
func (s *State) charge(t TaskID, more int64) {
	if s.quotas != nil {
		held, _ := s.quotas.at(s.tenantOf(t))
		*held += more
	}
}

// charge adds millicores that t is to hold from this round on.
func (d *Draft) charge(t TaskID, more int64) {
	if d.s.quotas != nil {
		_, pending := d.s.quotas.at(d.s.tenantOf(t))
		*pending += more
	}
}

// Limits reports whether tenants have limits, or tasks need tokens.
func (d *Draft) Limits() bool { return d.s.quotas != nil || d.s.tokens != nil }

// TenantLimit is how many millicores a tenant may hold; 0: there is no limit.
func (d *Draft) TenantLimit(m TenantID) int64 {
	if d.s.quotas == nil {
		return 0
	}
	return d.s.quotas.limit(m)
}

// Limited reports whether the limit of its tenant, or a lack of tokens, keeps t from starting, or from continuing, now.
func (d *Draft) Limited(t TaskID) bool {
	if d.ShortOfTokens(t) {
		return true
	}
	q := d.s.quotas
	if q == nil {
		return false
	}
	m := d.s.tenantOf(t)
	held, pending := q.at(m)
	limit, used := q.limit(m), *held+*pending
	return limit > 0 && used > 0 && used+d.s.tasks.of(t).Need[unit.CPU] > limit
}

// WhyLimited is the reason for a task that is Limited.
func (d *Draft) WhyLimited(t TaskID) Reason {
	if d.ShortOfTokens(t) {
		return Reason{Code: TokensHeld, Node: None}
	}
	return Reason{Code: TenantLimit, Node: None}
}

// MostTokens is how many resources users may declare for a run.
const MostTokens = 8

// Tokens are units of resources that a user declares for a whole run, such as licences: those that there are, or that a
// task holds from its start to its end, also while it is frozen.
type Tokens [MostTokens]uint16

// tokens bound starts as quotas do: plans for later are not bound.
type tokens struct {
	there Tokens
	held  [MostTokens]int64 // by attempts under way
}

// LimitTokens says which tokens there are. It is called before the first event.
func (p *Planner) LimitTokens(there Tokens) { p.state.tokens = &tokens{there: there} }

// spend adds the tokens of t to those that attempts hold, or with sign -1 takes them away.
func (s *State) spend(t TaskID, sign int64) {
	if s.tokens != nil {
		for i, n := range s.tasks.of(t).Tokens {
			s.tokens.held[i] += sign * int64(n)
		}
	}
}

// ShortOfTokens reports whether t needs more tokens than are free, those of tasks that start in this round left out.
func (d *Draft) ShortOfTokens(t TaskID) bool {
	x, need := d.s.tokens, &d.s.tasks.of(t).Tokens
	if x == nil || *need == (Tokens{}) || d.s.lives.at(t).phase == Suspended {
		return false
	}
	used := x.held
	for seg := range d.Due() {
		if seg.Task != t && d.s.lives.at(seg.Task).phase != Suspended {
			for i, n := range d.s.tasks.of(seg.Task).Tokens {
				used[i] += int64(n)
			}
		}
	}
	for i, n := range need {
		if n > 0 && used[i]+int64(n) > int64(x.there[i]) {
			return true
		}
	}
	return false
}
