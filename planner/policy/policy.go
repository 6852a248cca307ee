// Package policy is the table of policies: one row each, built from phases.
package policy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
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

// FWP is a pipeline that learns, and tells its target.
type FWP struct {
	planner.Pipeline
	*order.Fair
}

// Param is a parameter of a policy. Values has what may be chosen, the default first: words, or a number and the range "min..max" that it
// is from.
type Param struct {
	Name   string
	Values []string
	About  string
}

// Check says whether v may be chosen.
func (p *Param) Check(v string) error {
	var ranges bool
	for _, known := range p.Values {
		low, high, isRange := strings.Cut(known, "..")
		if !isRange {
			if v == known {
				return nil
			}
			continue
		}
		ranges = true
		x, err := strconv.ParseFloat(v, 64)
		if err == nil && x >= number(low) && x <= number(high) && (x == math.Trunc(x) || strings.Contains(known, ".0")) {
			return nil
		}
	}
	if ranges {
		return fmt.Errorf("%s=%q: give a number of %s (%s is the default)", p.Name, v, p.Values[len(p.Values)-1], p.Values[0])
	}
	return fmt.Errorf("%s=%q: choose one of %s", p.Name, v, strings.Join(p.Values, ", "))
}

// Params has the chosen value of every parameter of a row.
type Params map[string]string

// Number returns the value of a parameter that is a number.
func (p Params) Number(name string) float64 { return number(p[name]) }

func number(s string) float64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(fmt.Sprintf("policy parameter %q is no number: %v", s, err)) // checked when it was chosen
	}
	return x
}

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
						return order.Key{Major: float64(c.Task(t).Workflow), Minor: -ranks.Unscaled(t)}
					}},
					Allocate: &alloc.List{},
				}
			},
		},
		{
			Name: "owm", Title: "online workflow management", Source: "Hsu, Huang and Wang 2011, as in Ilyushkin and Epema, CCGrid 2018, section 3",
			About:  "Of every workflow the eligible task with the highest upward rank; of these the one with the lowest rank. Where only nodes of one speed are idle, a task that is believed to end earlier on the busy node that becomes idle first waits, and its workflow with it.",
			Params: []Param{{"order", []string{"lowest", "highest"}, "which of the workflows' tasks comes first: the lowest rank, as in the original, or the highest, as the text of the 2018 paper says"}},
			New: func(p Params) planner.Policy {
				ranks, sign := &rank.Upward{}, 1.0
				if p["order"] == "highest" {
					sign = -1
				}
				return &planner.Pipeline{
					Retain: retain.Drop{},
					Queue: &order.Joint{Ranks: ranks, Key: func(c *planner.Cycle, _ planner.WorkflowID, t planner.TaskID) float64 {
						return sign * ranks.Of(c.Task(t))
					}},
					Allocate: &alloc.List{Waits: (&alloc.BusyFinishesFirst{}).Waits},
				}
			},
		},
		{
			Name: "fdws", Title: "fairness dynamic workflow scheduling", Source: "Arabnejad and Barbosa 2012, as in Ilyushkin and Epema, CCGrid 2018, section 3",
			About: "Of every workflow the eligible task with the highest upward rank; of these the one whose workflow has the smallest product of the fraction of its tasks not done and the length of its critical path.",
			New: func(Params) planner.Policy {
				ranks := &rank.Upward{}
				return &planner.Pipeline{
					Retain: retain.Drop{},
					Queue: &order.Joint{Ranks: ranks, Key: func(c *planner.Cycle, w planner.WorkflowID, _ planner.TaskID) float64 {
						left, _ := c.Progress(w)
						return order.Remaining(left, len(c.Workflow(w).Tasks), ranks.Length(w)) * ranks.Factor(w)
					}},
					Allocate: &alloc.List{},
				}
			},
		},
		{
			Name: "hr", Title: "hybrid rank", Source: "Yu and Shi 2008 (Rank_Hybd), as in Ilyushkin and Epema, CCGrid 2018, section 3",
			About: "Of all eligible tasks the one with the lowest upward rank if they belong to several workflows, the one with the highest if they belong to one.",
			New: func(Params) planner.Policy {
				ranks := &rank.Upward{}
				return &planner.Pipeline{
					Retain: retain.Drop{},
					Queue: &order.Joint{Ranks: ranks, Hybrid: true, Key: func(c *planner.Cycle, _ planner.WorkflowID, t planner.TaskID) float64 {
						return ranks.Of(c.Task(t))
					}},
					Allocate: &alloc.List{},
				}
			},
		},
		{
			Name: "fwp", Title: "fair workflow prioritization", Source: "Ilyushkin and Epema, CCGrid 2018, section 3",
			About: "Of every workflow the eligible task with the highest upward rank; of these the one whose workflow's present slowdown, by estimates corrected by what completed tasks took, is furthest above the mean slowdown of completed workflows.",
			Params: []Param{
				{"k", []string{"300", "1..1000000"}, "completed workflows whose mean slowdown is the target (the same for all, so that it changes no decision)"},
				{"m", []string{"1000", "1..1000000"}, "completed tasks that correct the estimates"},
			},
			New: func(p Params) planner.Policy {
				ranks := &rank.Upward{}
				fair := order.NewFair(ranks, int(p.Number("k")), int(p.Number("m")))
				return &FWP{Fair: fair, Pipeline: planner.Pipeline{
					Retain: retain.Drop{},
					Queue: &order.Joint{Ranks: ranks, Moving: true, Prepare: fair.Update, Key: func(c *planner.Cycle, w planner.WorkflowID, _ planner.TaskID) float64 {
						return -fair.Of(c, w)
					}},
					Allocate: &alloc.List{},
				}}
			},
		},
		{
			Name: "wheft", Title: "workload HEFT", Source: "Ilyushkin and Epema, CCGrid 2018, section 3",
			About: "Plans all tasks of all workflows ahead whenever a workflow arrives: groups of independent tasks by upward rank, in which the workflows take turns, each task where it finishes earliest, in gaps too; follows that plan in order until the next arrival.",
			New: func(Params) planner.Policy {
				queue := &order.Alternating{Ranks: &rank.Upward{}}
				return &planner.Pipeline{Retain: retain.Float{Requeue: queue}, Queue: queue, Allocate: &alloc.EarliestFinish{}}
			},
		},
		{
			Name: "heft", Title: "heterogeneous earliest finish time", Source: "Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002",
			About: "Plans all tasks ahead by upward rank, each where it finishes earliest, in gaps too; follows that plan in order, and plans anew when a workflow arrives, a node changes or a task has to be repeated.",
			New: func(Params) planner.Policy {
				ranks := &rank.Upward{}
				queue := &order.Keyed{Members: order.Unplaced, Prepare: ranks.Update, Key: func(c *planner.Cycle, t planner.TaskID) order.Key {
					return order.Key{Major: -ranks.Of(c.Task(t)), Minor: float64(ranks.Position(t))}
				}}
				return &planner.Pipeline{Retain: retain.Float{Requeue: queue}, Queue: queue, Allocate: &alloc.EarliestFinish{}}
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
		if err := row.Params[j].Check(v); err != nil {
			return nil, fmt.Errorf("policy %s: %w", name, err)
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
