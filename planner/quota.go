package planner

import (
	"fmt"

	"gantry/planner/unit"
)

// ErrLimit is an ErrFull: the tenant holds all that its limit lets it.
var ErrLimit = fmt.Errorf("the limit of the tenant: %w", ErrFull)

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
	for int(m) >= len(q.held) {
		q.held, q.pending = append(q.held, 0), append(q.pending, 0)
	}
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

// Limits reports whether tenants have limits.
func (d *Draft) Limits() bool { return d.s.quotas != nil }

// Limited reports whether the limit of its tenant keeps t from starting, or from continuing, now.
func (d *Draft) Limited(t TaskID) bool {
	q := d.s.quotas
	if q == nil {
		return false
	}
	m := d.s.tenantOf(t)
	held, pending := q.at(m)
	limit, used := q.limit(m), *held+*pending
	return limit > 0 && used > 0 && used+d.s.tasks.of(t).Need[unit.CPU] > limit
}
