package policy

import (
	"context"
	"fmt"

	"gantry/planner"
	"gantry/planner/alloc"
	"gantry/planner/order"
	"gantry/planner/retain"
)

// solved has the policies that solve a model.
func solved() []Row {
	return []Row{{
		Name: "mrcp-rm", Title: "constraint programming for jobs with deadlines",
		Source: "Lim, Majumdar and Ashwood-Smith, IEEE TPDS 28(5), 2017, as recalled of it",
		About: "Plans all that has not started of the workflows whose earliest start has come by a constraint model " +
			"in which as few as possible are late, whenever one may start: for MapReduce jobs, and for other " +
			"workflows as long as the model stays within its bound. Workflows that start later are kept aside " +
			"(reserve).",
		Params: []Param{
			{"tasks", []string{"20000", "1..1000000"}, "tasks of the largest model; a run that needs a larger one " +
				"is refused"},
			{"reserve", []string{"no", "yes"}, "whether workflows are planned when they arrive, and so keep room " +
				"from their earliest start on; else they are once that has come"},
		},
		New: func(p Params) planner.Policy {
			queue := &order.Solved{Most: int(p.Number("tasks")), Reserve: p["reserve"] == "yes"}
			return &modelled{queue, planner.Pipeline[planner.Queue]{
				Retain: retain.Float{Requeue: queue, Outdated: queue.Outdated}, Queue: queue,
				Allocate: &alloc.Pinned{On: queue.On}}}
		},
		Readings: []string{
			"The model was not at hand: any precedences, one resource that sums up alike nodes, as few jobs late as " +
				"can be, then the smallest sum of turnarounds.",
			"Where nodes differ in speed or needs in size the model has every node, up to 4096 tasks times nodes; " +
				"beyond, amounts are added up and runtimes averaged over the nodes. With alike needs, nodes of one " +
				"speed are summed up.",
			"The solution is the best of list schedules: greedy EDF (up to 150 tasks), RM-DCWF with its " +
				"remappings (pd-sl-tsp1), and jobs by deadline, laxity, normalized laxity and length. A search of " +
				"their surroundings shortens turnarounds by 2 to 5 % on the loads of figure 18, and has as many late.",
			"Up to 15 tasks the number of late jobs is the smallest there is. Batches of more tasks of several " +
				"sizes may have more late than rm-dcwf has, which moves planned tasks between nodes.",
			"Copies are in the plan, not in the model: tasks are placed in the order of their starts in the " +
				"solution, with the copies of their inputs, each on its node there or, where nodes are summed up, " +
				"where it ends first. Whether a workflow is refused is decided by the model.",
			"Workflows are planned for what is known now: one whose earliest start is to come keeps no room " +
				"(reserve).",
			"When a late task endangers a deadline that was to be met, the model is solved again, once for each " +
				"workflow between two arrivals. It is solved again, too, when a task is to be tried again. Where a " +
				"task failed for good, what may still run of its workflow keeps the deadline.",
		},
	}}
}

// modelled is a pipeline whose model may have become too large.
type modelled struct {
	queue *order.Solved
	planner.Pipeline[planner.Queue]
}

// RejectLate implements planner.Refuser.
func (m *modelled) RejectLate() { m.queue.Reject = true }

// Plan implements planner.Policy.
func (m *modelled) Plan(ctx context.Context, c *planner.Cycle) error {
	if err := m.Pipeline.Plan(ctx, c); err != nil {
		return err
	}
	if err := m.queue.Err(); err != nil {
		return fmt.Errorf("mrcp-rm: %w", err)
	}
	m.queue.Planned(c)
	return nil
}
