package policy

import (
	"context"
	"time"

	"gantry/planner"
	"gantry/planner/alloc"
	"gantry/planner/order"
	"gantry/planner/rank"
	"gantry/planner/retain"
)

// planned has the policies that place whole workflows ahead.
func planned() []Row {
	return []Row{
		{
			Name: "wheft", Title: "workload HEFT", Source: "Ilyushkin and Epema, CCGrid 2018, section 3",
			About: "Plans all tasks of all workflows ahead whenever a workflow arrives: groups of independent " +
				"tasks by upward rank, in which the workflows take turns, each task where it finishes earliest, in " +
				"gaps too; follows that plan in order until the next arrival. Tasks that run longer than estimated " +
				"are expected to end at once.",
			Params: []Param{{"overrun", []string{"now", "soon"},
				"when tasks that run longer than estimated are expected to end: now, as specified, or a millisecond " +
					"later, so that idle nodes come first"},
				{"start", []string{"early", "planned"},
					"whether a task may start before its planned start, once those planned before it on its node " +
						"have their places"}},
			New: func(p Params) planner.Policy {
				queue := &order.Alternating{Ranks: &rank.Upward{AverageSpeed: true}}
				pipe := &planner.Pipeline[planner.Queue]{
					Retain: retain.Float{Requeue: queue, Strict: p["start"] == "planned"}, Queue: queue,
					Allocate: &alloc.EarliestFinish{}, Impatient: true}
				if p["overrun"] == "soon" {
					pipe.Overrun = time.Millisecond
				}
				if p["start"] == "planned" {
					return punctual{pipe}
				}
				return pipe
			},
		},
		{
			Name: "heft", Title: "heterogeneous earliest finish time",
			Source: "Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002",
			About: "Plans all tasks ahead by upward rank, each where it finishes earliest, in gaps too; follows that " +
				"plan in order, and plans again when a workflow arrives, a node changes or a task has to be repeated.",
			New: func(Params) planner.Policy {
				ranks := &rank.Upward{}
				queue := &order.Keyed{Members: order.Unplaced, Prepare: ranks.Update, Changed: ranks.Changed,
					Key: func(c *planner.Cycle, t planner.TaskID) order.Key {
						return order.Key{Rank: ranks.Of(c.Task(t)), Minor: int64(ranks.Position(t))}
					}}
				return &planner.Pipeline[planner.Queue]{Retain: retain.Float{Requeue: queue}, Queue: queue,
					Allocate: &alloc.EarliestFinish{}}
			},
		},
	}
}

// lists has list schedulers of other authors, for comparison.
func lists() (rows []Row) {
	for _, x := range []struct {
		rule                       alloc.Rule
		name, title, source, about string
	}{
		{alloc.PEFT, "peft", "predict earliest finish time", "Arabnejad and Barbosa, IEEE TPDS 25(3), 2014",
			"Plans all tasks ahead by the mean of the optimistic cost table, each on the node where its finish and " +
				"the optimistic rest of its workflow together are earliest"},
		{alloc.CPOP, "cpop", "critical path on a processor", "Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002",
			"Plans all tasks ahead by the sum of upward and downward rank; those of the critical path go to one " +
				"node, the others where they finish earliest"},
		{alloc.Lookahead, "lookahead", "HEFT with lookahead", "Bittencourt, Sakellariou and Madeira, PDP 2010",
			"Plans all tasks ahead by upward rank, each on the node where the last of its children could finish " +
				"earliest"},
		{alloc.MinMin, "min-min", "min-min", "Ibarra and Kim, Journal of the ACM 24(2), 1977",
			"Plans all tasks ahead: of those whose parents have places always the one that can finish first, where " +
				"it does"},
		{alloc.MaxMin, "max-min", "max-min", "Ibarra and Kim, Journal of the ACM 24(2), 1977",
			"Plans all tasks ahead: of those whose parents have places always the one whose earliest finish is the " +
				"latest"},
	} {
		rows = append(rows, Row{Name: x.name, Title: x.title, Source: x.source,
			About: x.about + ". Fills gaps, follows the plan in order, and plans again as heft does.",
			New: func(Params) planner.Policy {
				queue := &order.Keyed{Members: order.Unplaced, Key: func(*planner.Cycle, planner.TaskID) order.Key {
					return order.Key{}
				}}
				return &planner.Pipeline[alloc.Readmitting]{Retain: retain.Float{Requeue: queue}, Queue: queue,
					Allocate: &alloc.Static{Rule: x.rule}}
			}})
	}
	return rows
}

// punctual is a policy that starts tasks when their planned start has come, and not before.
type punctual struct {
	*planner.Pipeline[planner.Queue]
}

// Plan implements planner.Policy. It asks for a round at the next planned start.
func (p punctual) Plan(ctx context.Context, c *planner.Cycle) error {
	if err := p.Pipeline.Plan(ctx, c); err != nil {
		return err
	}
	c.WakeAt(c.Draft.NextStart())
	return nil
}
