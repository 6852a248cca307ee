package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"gantry/cmd/api"
	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
)

// waiting counts the tasks of tenants that have not started, also of submissions that have not arrived.
func waiting(in *executor.Intake) map[string]int {
	v, n := in.View(), map[string]int{}
	for _, w := range v.Present() {
		left, _ := v.Progress(w)
		n[in.Tenant(v.Workflow(w).Tenant)] += left
	}
	for a := range v.UnderWay() {
		if t := v.Task(v.Attempt(a).Task); !t.Formal {
			n[in.Tenant(v.Workflow(t.Workflow).Tenant)]--
		}
	}
	for _, subs := range [][]executor.Submission{in.Coming(), in.Held()} {
		for i := range subs {
			n[subs[i].Tenant] += len(subs[i].Workflow.Tasks)
		}
	}
	return n
}

// tenants is how the tenants stand. A member of a group sees its own, and the sum of the others, as with
// PrivateData=usage of Slurm.
func (s *Server) tenants(ctx context.Context, _ *http.Request, by Peer) (any, error) {
	out := &api.Tenants{Tenants: []api.Tenant{}}
	if err := s.Inbox.Ask(ctx, func(in *executor.Intake) error {
		s.tenantsAt(in, out)
		return nil
	}); err != nil {
		return nil, err
	}
	if s.Tenant == nil || s.maySee(by, -1) {
		return out, nil
	}
	own := s.tenantsOf(by)
	others := api.Tenant{Others: true}
	out.Tenants = slices.DeleteFunc(out.Tenants, func(x api.Tenant) bool {
		if own[x.Name] {
			return false
		}
		others.Present += x.Present
		others.Waiting += x.Waiting
		others.Running += x.Running
		others.Cores += x.Cores
		others.Memory += x.Memory
		return true
	})
	out.Tenants = append(out.Tenants, others)
	return out, nil
}

// tenantsOf are the tenants that a user counts for: the one that s.Tenant returns, or else its name and the tenants of
// its submissions.
func (s *Server) tenantsOf(by Peer) map[string]bool {
	name := tenantOfUser(by)
	if of := s.Tenant(name); of != "" {
		return map[string]bool{of: true}
	}
	own := map[string]bool{name: true}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.UID == by.UID {
			own[e.Tenant] = true
		}
	}
	return own
}

func (s *Server) tenantsAt(in *executor.Intake, out *api.Tenants) {
	v := in.View()
	at := map[string]*api.Tenant{}
	used := map[string]unit.Vector{}
	of := func(name string) *api.Tenant {
		if at[name] == nil {
			at[name] = &api.Tenant{Name: name}
		}
		return at[name]
	}
	waited := map[string]int{}
	for w := range planner.WorkflowID(v.Workflows()) {
		flow := v.Workflow(w)
		x := of(in.Tenant(flow.Tenant))
		x.Workflows++
		began := max(flow.Arrived, flow.Release)
		if started, _ := v.Times(w); started != unit.Never {
			wait := started.Sub(began)
			x.MeanWait += wait
			x.MaxWait = max(x.MaxWait, wait)
			waited[x.Name]++
		}
	}
	for _, w := range v.Present() {
		flow := v.Workflow(w)
		x := of(in.Tenant(flow.Tenant))
		x.Present++
		if started, _ := v.Times(w); started == unit.Never && !v.Cancelled(w) {
			x.Oldest = max(x.Oldest, in.Now().Sub(max(flow.Arrived, flow.Release)))
		}
	}
	for a := range v.UnderWay() {
		att := v.Attempt(a)
		x := of(in.Tenant(v.Workflow(v.Task(att.Task).Workflow).Tenant))
		x.Running++
		used[x.Name] = used[x.Name].Add(v.Holds(a))
	}
	for name, n := range waiting(in) {
		of(name).Waiting = n
	}
	total := v.Total()
	sum, squares, active := 0.0, 0.0, 0
	for name, x := range at {
		for d, held := range used[name] {
			if total[d] <= 0 || total[d] == unit.Unlimited {
				continue
			}
			if share := float64(held) / float64(total[d]); share > x.Share {
				x.Share, x.Dominant = share, unit.Dim(d).String()
			}
		}
		x.Cores, x.Memory = float64(used[name][unit.CPU])/1000, used[name][unit.Memory]
		if n := waited[name]; n > 0 {
			x.MeanWait /= time.Duration(n)
		}
		if x.Present > 0 {
			active++
			sum, squares = sum+x.Share, squares+x.Share*x.Share
		}
		out.Tenants = append(out.Tenants, *x)
	}
	if squares > 0 {
		out.Jain = sum * sum / (float64(active) * squares)
	}
	slices.SortFunc(out.Tenants, func(a, b api.Tenant) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name))
	})
}
