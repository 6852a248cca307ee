// Package policy is the table of policies: one row each, built from phases.
package policy

import (
	"fmt"
	"slices"
	"strings"

	"gantry/planner"
	"gantry/planner/alloc"
	"gantry/planner/order"
	"gantry/planner/rank"
	"gantry/planner/retain"
)

// Row is one policy.
type Row struct {
	Name   string
	Title  string
	Source string // the publication it follows
	About  string // what it does, in a sentence or two
	Params []Param
	New    func(Params) planner.Policy
}

// Param is a parameter of a policy: one of a list of words, the first being the default.
type Param struct {
	Name   string
	Values []string
	About  string
}

// Params has the chosen value of every parameter of a row.
type Params map[string]string

// Table lists all policies.
func Table() []Row {
	return []Row{
		{
			Name: "gbf", Title: "greedy backfilling", Source: "Ilyushkin and Epema, CCGrid 2018, section 3",
			About:  "Workflows first come, first served; of the first one with an eligible task a random eligible task starts on the fastest idle node; what does not fit is passed over. Uses no estimates.",
			Params: []Param{{"pick", []string{"random", "first"}, "which eligible task of the workflow: a random one, or the lowest id"}},
			New: func(p Params) planner.Policy {
				first := p["pick"] == "first"
				return &planner.Pipeline{
					Retain: retain.Drop{},
					Queue: &order.Keyed{Key: func(c *planner.Cycle, t planner.TaskID) order.Key {
						k := order.Key{Major: float64(c.Task(t).Workflow)}
						if !first {
							k.Minor = c.Rand.Float64()
						}
						return k
					}},
					Allocate: &alloc.List{},
				}
			},
		},
		{
			Name: "cpp", Title: "critical path priority", Source: "Ilyushkin and Epema, CCGrid 2018, section 3",
			About: "Like gbf, but of the first workflow the eligible task with the highest upward rank.",
			New: func(Params) planner.Policy {
				ranks := &rank.Upward{}
				return &planner.Pipeline{
					Retain: retain.Drop{},
					Queue: &order.Keyed{Prepare: ranks.Update, Key: func(c *planner.Cycle, t planner.TaskID) order.Key {
						return order.Key{Major: float64(c.Task(t).Workflow), Minor: -ranks.Of(t)}
					}},
					Allocate: &alloc.List{},
				}
			},
		},
		{
			Name: "heft", Title: "heterogeneous earliest finish time", Source: "Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002",
			About: "Plans all tasks ahead by upward rank, each where it finishes earliest, in gaps too; follows that plan in order, and plans anew when a workflow arrives, a node changes or a task has to be repeated.",
			New: func(Params) planner.Policy {
				ranks := &rank.Upward{}
				queue := &order.Keyed{Members: order.Unplaced, Prepare: ranks.Update, Key: func(c *planner.Cycle, t planner.TaskID) order.Key {
					return order.Key{Major: -ranks.Of(t), Minor: float64(ranks.Position(t))}
				}}
				return &planner.Pipeline{Retain: retain.Float{Requeue: queue}, Queue: queue, Allocate: alloc.EarliestFinish{}}
			},
		},
	}
}

// Parse makes the policy that spec names: "heft", or with parameters "gbf:pick=first". An unknown name or value is answered with the
// known ones.
func Parse(spec string) (planner.Policy, error) {
	name, rest, _ := strings.Cut(spec, ":")
	table := Table()
	i := slices.IndexFunc(table, func(r Row) bool { return r.Name == name })
	if i < 0 {
		names := make([]string, len(table))
		for i, r := range table {
			names[i] = r.Name
		}
		return nil, fmt.Errorf("policy %q is not known: choose one of %s", name, strings.Join(names, ", "))
	}
	row := table[i]
	params := Params{}
	for _, p := range row.Params {
		params[p.Name] = p.Values[0]
	}
	for _, kv := range strings.FieldsFunc(rest, func(r rune) bool { return r == ',' }) {
		k, v, _ := strings.Cut(kv, "=")
		j := slices.IndexFunc(row.Params, func(p Param) bool { return p.Name == k })
		if j < 0 {
			return nil, fmt.Errorf("policy %s has no parameter %q%s", name, k, knownParams(row))
		}
		if !slices.Contains(row.Params[j].Values, v) {
			return nil, fmt.Errorf("policy %s: %s=%q: choose one of %s", name, k, v, strings.Join(row.Params[j].Values, ", "))
		}
		params[k] = v
	}
	return row.New(params), nil
}

func knownParams(r Row) string {
	if len(r.Params) == 0 {
		return ": it has none"
	}
	names := make([]string, len(r.Params))
	for i, p := range r.Params {
		names[i] = p.Name
	}
	return ": it has " + strings.Join(names, ", ")
}
