package policy

import (
	"gantry/planner"
	"gantry/planner/alloc"
	"gantry/planner/exact"
	"gantry/planner/order"
	"gantry/planner/rank"
	"gantry/planner/retain"
)

// fair is a pipeline that learns.
type fair[Q planner.Queue] struct {
	planner.Pipeline[Q]
	*order.Fair
}

// greedy is a pipeline that starts tasks now, in the order of a queue.
func greedy(q interface {
	alloc.Skipper
	retain.Requeuer
}) *planner.Pipeline[alloc.Skipper] {
	return &planner.Pipeline[alloc.Skipper]{Retain: retain.Drop{Requeue: q}, Queue: q, Allocate: &alloc.List{}}
}

// postponing is greedy, but lets tasks wait for a busy node by the rule of OWM.
func postponing(q *order.Joint, rule alloc.BusyFinishesFirst) *planner.Pipeline[alloc.Postponer] {
	return &planner.Pipeline[alloc.Postponer]{
		Retain: retain.Drop{Requeue: q}, Queue: q, Allocate: &alloc.Postponing{Rule: rule},
	}
}

// byRank is the rank of the task that represents a workflow.
func byRank(ranks *rank.Upward) func(*planner.Cycle, planner.WorkflowID, planner.TaskID) exact.Fraction {
	return func(c *planner.Cycle, _ planner.WorkflowID, t planner.TaskID) exact.Fraction {
		return exact.Fraction{Num: ranks.Of(c.Task(t)), Den: 1}
	}
}

// dynamic has the policies that fill this instant only: no plan outlives a round.
func dynamic() []Row {
	return []Row{
		{
			Name: "gbf", Title: "greedy backfilling", Source: "Ilyushkin and Epema, CCGrid 2018, section 3",
			About: "Workflows first come, first served; of the first one with an eligible task a random eligible " +
				"task starts on the fastest idle node; what does not fit is passed over. Uses no estimates.",
			Params: []Param{{"pick", []string{"random", "first"},
				"which eligible task of the workflow: a random one, or the lowest id"}},
			New: func(p Params) planner.Policy {
				return greedy(&order.Joint{Random: p["pick"] == "random"})
			},
		},
		{
			Name: "cpp", Title: "critical path priority", Source: "Ilyushkin and Epema, CCGrid 2018, section 3",
			About: "Like gbf, but of the first workflow the eligible task with the highest upward rank.",
			New: func(Params) planner.Policy {
				ranks := &rank.Upward{AverageSpeed: true}
				return greedy(&order.Keyed{Prepare: ranks.Update, Changed: ranks.Changed, Key: func(c *planner.Cycle,
					t planner.TaskID) order.Key {
					return order.Key{Major: int64(c.Task(t).Workflow), Rank: ranks.Unscaled(t)}
				}})
			},
		},
		{
			Name: "owm", Title: "online workflow management",
			Source: "Hsu, Huang and Wang 2011, as in Ilyushkin and Epema, CCGrid 2018, section 3",
			About: "Of every workflow the eligible task with the highest upward rank; of these the one with the " +
				"lowest rank. Where only nodes of one speed are idle, a task that is estimated to end earlier on the " +
				"busy node that becomes idle first waits, and its workflow with it.",
			Params: []Param{{"order", []string{"lowest", "highest"},
				"which of the workflows' tasks comes first: the lowest rank, as in the original, or the highest, as " +
					"the text of the 2018 paper says"},
				{"wait", []string{"any", "one", "1..1000000"}, "how many tasks may wait for a busy node in a round: " +
					"any number, as neither paper bounds them, or so many; others take the next busy node, or start"},
				{"overrun", []string{"now", "ignored"}, "a task that outlasts its estimate is expected to end now, " +
					"or its node is no busy node to wait for"}},
			New: func(p Params) planner.Policy {
				ranks := &rank.Upward{AverageSpeed: true}
				q := &order.Joint{Ranks: ranks, Key: byRank(ranks), Largest: p["order"] == "highest"}
				waiters := map[string]int{"any": 0, "one": 1}[p["wait"]]
				if p["wait"] != "any" && p["wait"] != "one" {
					waiters = int(p.Number("wait"))
				}
				return postponing(q, alloc.BusyFinishesFirst{Waiters: waiters, Ignore: p["overrun"] == "ignored"})
			},
		},
		{
			Name: "fdws", Title: "fairness dynamic workflow scheduling",
			Source: "Arabnejad and Barbosa 2012, as in Ilyushkin and Epema, CCGrid 2018, section 3",
			About: "Of every workflow the eligible task with the highest upward rank; of these the one whose " +
				"workflow has the smallest product of the fraction of its tasks not done and the length of its " +
				"critical path.",
			New: func(Params) planner.Policy {
				ranks := &rank.Upward{AverageSpeed: true}
				return greedy(&order.Joint{Ranks: ranks, Key: func(c *planner.Cycle, w planner.WorkflowID,
					_ planner.TaskID) exact.Fraction {
					return order.Remaining(c, ranks, w)
				}})
			},
		},
		{
			Name: "hr", Title: "hybrid rank", Source: "Yu and Shi 2008 (Rank_Hybd), as in Ilyushkin and Epema, " +
				"CCGrid 2018, section 3",
			About: "Of all eligible tasks the one with the lowest upward rank if they belong to several workflows, " +
				"the one with the highest if they belong to one.",
			New: func(Params) planner.Policy {
				ranks := &rank.Upward{AverageSpeed: true}
				return greedy(&order.Joint{Ranks: ranks, Hybrid: true, Key: byRank(ranks)})
			},
		},
		{
			Name: "fwp", Title: "fair workflow prioritization", Source: "Ilyushkin and Epema, CCGrid 2018, section 3",
			About: "Of every workflow the eligible task with the highest upward rank; of these the one whose " +
				"workflow's present slowdown, by estimates corrected by what completed tasks took, is furthest " +
				"above the mean slowdown of completed workflows.",
			Params: []Param{{"m", []string{"1000", "1..1000000"}, "completed tasks that correct the estimates"},
				{"postpone", []string{"never", "busy"}, "whether a task waits for a busy node as under owm, and its " +
					"workflow with it"},
				{"parallelism", []string{"ignored", "factor"}, "whether the slowdown is multiplied by the " +
					"approximated level of parallelism: the run times of the workflow's tasks together over the " +
					"length of its critical path"}},
			New: func(p Params) planner.Policy {
				ranks := &rank.Upward{AverageSpeed: true}
				f := order.NewFair(ranks, int(p.Number("m")))
				f.Parallel = p["parallelism"] == "factor"
				q := &order.Joint{Ranks: ranks, Moving: f, Prepare: f.Update}
				if p["postpone"] == "busy" {
					return &fair[alloc.Postponer]{*postponing(q, alloc.BusyFinishesFirst{}), f}
				}
				return &fair[alloc.Skipper]{*greedy(q), f}
			},
		},
	}
}
