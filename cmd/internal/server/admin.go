package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"gantry/cmd/api"
	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
)

// maySee reports whether a peer may see the submissions of a user, with their results and messages. Of others it sees
// the number, name, user and state.
func (s *Server) maySee(by Peer, uid int) bool {
	return by.UID == 0 || by.UID == s.Owner || by.UID == uid
}

// attribute says in whose name a submission runs: that is never the client's to say.
func (s *Server) attribute(sub *executor.Submission, by Peer) error {
	sub.By = nil
	if s.Shared && by.UID != 0 {
		sub.By = &executor.User{UID: by.UID, GID: by.GID, Groups: append([]int{}, by.Groups...)}
	}
	if s.Tenant == nil || by.UID == 0 || by.UID == s.Owner {
		return nil
	}
	name := tenantOfUser(by)
	switch of := s.Tenant(name); {
	case of == "" && sub.Tenant == "" && s.Shared:
		sub.Tenant = name
	case of == "" || sub.Tenant == of:
	case sub.Tenant == "":
		sub.Tenant = of
	default:
		return &api.Error{Code: api.Denied, Message: fmt.Sprintf("workflow %s: you hand in as tenant %s here, and not "+
			"as %s", sub.Name, of, sub.Tenant)}
	}
	return nil
}

// tenantOfUser is the name that a user counts under unless root says otherwise.
func tenantOfUser(by Peer) string {
	return cmp.Or(UserName(by.UID), strconv.Itoa(by.UID))
}

// nodes describes the nodes. It is called on the engine's goroutine.
func (s *Server) nodes(in *executor.Intake) []api.Node {
	out := make([]api.Node, len(s.Platform.Nodes))
	for i := range out {
		n := &s.Platform.Nodes[i]
		now := in.Capacity(n.ID)
		out[i] = api.Node{Name: n.Name, Cores: float64(now[unit.CPU]) / 1000, Running: len(in.View().Active(n.ID)),
			Drained: now == unit.Vector{}}
		if now[unit.Memory] != unit.Unlimited { // else 0
			out[i].Memory = now[unit.Memory]
		}
	}
	return out
}

func (s *Server) listNodes(ctx context.Context, _ *http.Request, _ Peer) (any, error) {
	var out []api.Node
	err := s.Inbox.Ask(ctx, func(in *executor.Intake) error {
		out = s.nodes(in)
		return nil
	})
	return out, err
}

func (s *Server) changeNode(ctx context.Context, r *http.Request, req *api.ChangeNode) (any, error) {
	name := r.PathValue("name")
	i := slices.IndexFunc(s.Platform.Nodes, func(n planner.Node) bool { return n.Name == name })
	if i < 0 {
		return nil, &api.Error{Code: api.Unknown, Message: "there is no node " + name + ": gantry node lists them"}
	}
	whole := s.Platform.Nodes[i].Capacity
	to := whole
	switch req.To {
	case api.NodeDrained:
		to = unit.Vector{}
	case api.NodeWhole:
	case api.NodeSet:
		for _, x := range []struct {
			dim  unit.Dim
			want int64
			name string
		}{{unit.CPU, int64(req.Cores * 1000), "cores"}, {unit.Memory, req.Memory, "memory"}} {
			if x.want < 0 || x.want > whole[x.dim] {
				return nil, invalidf("node %s: it has at most what it had when the run began, also of %s", name,
					x.name)
			}
			if x.want > 0 {
				to[x.dim] = x.want
			}
		}
	default:
		return nil, invalidf("node %s: %q is not drained, whole or set", name, req.To)
	}
	var out []api.Node
	err := s.Inbox.Ask(ctx, func(in *executor.Intake) error {
		if err := in.ChangeNode(planner.NodeID(i), to); err != nil {
			return err
		}
		out = s.nodes(in)[i : i+1]
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &out[0], nil
}
