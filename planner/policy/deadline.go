package policy

import (
	"strings"
	"time"

	"gantry/planner"
	"gantry/planner/budget"
	"gantry/planner/order"
	"gantry/planner/remap"
)

// deadlines has the policies for workflows with deadlines.
func deadlines() []Row {
	return []Row{
		{
			Name: "rm-dcwf", Title: "resource management for deadline-constrained workflows",
			Source: "Lim, Majumdar and Ashwood-Smith, Journal of Cloud Computing 6(1), 2017",
			About: "Splits the deadline of a workflow into sub-deadlines of its tasks and plans it whole when it " +
				"arrives; if it would be late, the workflows in its way are planned again with it, in order of " +
				"deadlines, then of normalized laxities, and all stays as it was if that fails.",
			Params: []Param{
				{"config", []string{"pd-sl-tsp1", "pd-sl-tsp2", "pd-tl-tsp1", "pd-tl-tsp2", "ed-sl-tsp1", "ed-sl-tsp2",
					"ed-tl-tsp1", "ed-tl-tsp2"},
					"how laxity is distributed (PD: proportionally, ED: evenly over the phases), what it is taken " +
						"from (SL: execution on the empty system, TL: beside the present load), and when tasks are " +
						"planned (TSP1: early, TSP2: as late as their sub-deadlines allow)"},
				{"margin", []string{"0", "0..1000000000"}, "milliseconds that TSP2 leaves between the planned end of " +
					"a task and its sub-deadline, for what takes longer than estimated, such as starts of containers"},
				{"max_remap_attempts", []string{"4", "0..1000000"},
					"attempts at planning again for one workflow, nested ones included; 0: any number"},
				{"max_jobs_to_remap", []string{"0", "0..1000000"},
					"workflows that one attempt plans again, the least urgent of those in the way; 0: any number"},
				{"in_the_way", []string{"overlapping", "contained"},
					"which workflows are planned again: all that execute at some time between earliest start and " +
						"deadline, or only those that do so wholly"},
				{"late", []string{"by-plan", "past-deadline"},
					"which workflows are moved aside as late: those planned to miss their deadlines, or only those " +
						"whose deadlines have passed"},
				{"sweep", []string{"continue", "restart"}, "which task is placed after another: the next of the " +
					"sweep by runtime, or the longest that is ready"},
			},
			New: func(p Params) planner.Policy {
				config := strings.Split(p["config"], "-")
				c := remap.Config{TrueLaxity: config[1] == "tl", Latest: config[2] == "tsp2",
					Margin:      time.Duration(p.Number("margin")) * time.Millisecond,
					MaxAttempts: int(p.Number("max_remap_attempts")),
					MaxJobs:     int(p.Number("max_jobs_to_remap")), Contained: p["in_the_way"] == "contained",
					PastOnly: p["late"] == "past-deadline", Restart: p["sweep"] == "restart"}
				if config[0] == "ed" {
					c.Distribution = budget.Even
				}
				return remap.New(c)
			},
			Readings: []string{
				"A job executes within [s, d] if its interval, from the first start to the last end of tasks that " +
					"take time, overlaps it (in_the_way).",
				"A job is late if it is planned to end after its deadline; at the deadline it is on time.",
				"Ties: of sub-deadlines the lower task, of deadlines the smaller laxity, of normalized laxities the " +
					"earlier deadline, then in both the earlier arrival. Laxities are compared exactly.",
				"A task is planned where it ends first (TSP1) or can start last (TSP2); ties go to the pool of the " +
					"lowest node. A TSP2 task that cannot meet its sub-deadline starts as soon as it can from where " +
					"it should have started on, and its job is remapped only if it is late.",
				"Tasks without time are in the last phase of their parents, and make no sub-deadlines equal: only " +
					"tasks that take time count as common children. For a task that waits for one without time, the " +
					"parents of that one are its own. A job of which only tasks without time are left is not among " +
					"those to remap.",
				"Parents of a common child get the latest sub-deadline among them in topological order: tasks " +
					"without parents by number, then what becomes free, in that order.",
				"Once a job was remapped, TSP1 places what is left of it, also when remapping failed.",
				"A workflow without a deadline has infinite laxity and is planned by TSP1.",
				"A task that starts at the instant of an arrival may still be moved.",
				"Where tasks need different amounts, the plan has the node of each: the one where it is first (TSP1) " +
					"or last (TSP2), the first of equals. No planned task moves for another.",
				"The paper has no copies. They lengthen stays; tasks are ordered by their runs alone. On which of " +
					"several alike nodes a task will be is not planned: an input from these comes from another of " +
					"them, unless the first and the last have it. The task starts on the one where its inputs are " +
					"soonest.",
				"Where copies overlap other work, each node is planned by itself once a workflow has files to copy. " +
					"Inputs are copied to the node that the plan has for their task as soon as they exist; until it " +
					"starts, at its planned start, it takes nothing there from others.",
				"The paper has exact estimates only. Of what runs late, the plan bends, and a job that becomes late " +
					"is remapped; of what ends early, ready tasks of TSP1 move up, and late jobs are tried again. " +
					"What has not ended counts as late 1 ms after its estimated end.",
				triedAgain + " Where a task failed for good, what may still run of its workflow keeps the deadline.",
			},
		},
		{
			Name: "fifo", Title: "first in, first out", Source: "the comparison of Lim, Majumdar and Ashwood-Smith, " +
				"Journal of Cloud Computing 6(1), 2017",
			About: "Plans each workflow whole when it arrives, the longest ready task first, each where and when it " +
				"can run first; moves nothing for those that come later.",
			New: func(Params) planner.Policy { return remap.New(remap.Config{FIFO: true}) },
			Readings: []string{
				"Workflows that arrive at one instant are planned in the order of their numbers, whatever their " +
					"deadlines.",
				"A later workflow may fill gaps before an earlier one: it delays none that is planned.",
				triedAgain,
			},
		},
		{
			Name: "edf", Title: "earliest deadline first", Source: "Liu and Layland, Journal of the ACM 20(1), 1973",
			About: "Starts the ready tasks of the workflow with the earliest deadline first, on the fastest idle " +
				"node; what does not fit is passed over. Plans nothing ahead.",
			New: func(Params) planner.Policy {
				return greedy(&order.Keyed{Key: func(c *planner.Cycle, t planner.TaskID) order.Key {
					w := c.Workflow(c.Task(t).Workflow)
					return order.Key{Major: int64(w.Due), Minor: int64(w.ID)}
				}})
			},
			Readings: []string{
				"Ties go to the workflow that arrived first, then to the task of the lower number; of nodes of one " +
					"speed to the first.",
				"Nothing is held back for a task that does not fit, and nothing is preempted.",
				promised,
			},
		},
	}
}

const triedAgain = "A task that is to be tried again is planned anew, where it ends first. If there are several at " +
	"one instant, those of earlier workflows go first, then lower tasks."
