package policy

import (
	"strings"
	"time"

	"gantry/planner"
	"gantry/planner/alloc"
	"gantry/planner/budget"
	"gantry/planner/order"
	"gantry/planner/remap"
	"gantry/planner/retain"
)

// deadlines has the policies for workflows with deadlines.
func deadlines() []Row {
	return []Row{
		{
			Name: "rm-dcwf", Title: "resource management for deadline-constrained workflows",
			Source: "Lim, Majumdar and Ashwood-Smith, Journal of Cloud Computing 6(1), 2017",
			About: "Splits the deadline of a workflow into sub-deadlines of its tasks and plans it whole when it " +
				"arrives; if it would be late, the workflows in its way are planned anew with it, in order of " +
				"deadlines, then of normalized laxities, and all stays as it was if that fails.",
			Params: []Param{
				{"config", []string{"pd-sl-tsp1", "pd-sl-tsp2", "pd-tl-tsp1", "pd-tl-tsp2", "ed-sl-tsp1", "ed-sl-tsp2",
					"ed-tl-tsp1", "ed-tl-tsp2"},
					"how laxity is distributed (PD: proportionally, ED: evenly over the phases), what it is taken " +
						"from (SL: execution on the empty system, TL: beside the present load), and when tasks are " +
						"planned (TSP1: early, TSP2: as late as their sub-deadlines allow)"},
				{"margin", []string{"0", "0..1000000000"}, "milliseconds that TSP2 leaves between the planned end " +
					"of a task and its sub-deadline, for what takes longer than estimated, such as starts of " +
					"containers"},
				{"max_remap_attempts", []string{"4", "0..1000000"},
					"attempts at planning anew for one workflow, nested ones included; 0: any number"},
				{"max_jobs_to_remap", []string{"0", "0..1000000"},
					"workflows that one attempt plans anew, the least urgent of those in the way; 0: any number"},
				{"in_the_way", []string{"overlapping", "contained"},
					"which workflows are planned anew: all that execute at some time between earliest start and " +
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
					PastOnly: p["late"] == "past-deadline",
					Restart:  p["sweep"] == "restart"}
				if config[0] == "ed" {
					c.Distribution = budget.Even
				}
				return &remap.Policy{Config: c}
			},
		},
		{
			Name: "fifo", Title: "first in, first out", Source: "the comparison of Lim, Majumdar and Ashwood-Smith, " +
				"Journal of Cloud Computing 6(1), 2017",
			About: "Plans each workflow whole when it arrives, the longest ready task first, each where and when it " +
				"can run first; moves nothing for those that come later.",
			New: func(Params) planner.Policy { return &remap.Policy{Config: remap.Config{FIFO: true}} },
		},
		{
			Name: "edf", Title: "earliest deadline first", Source: "Liu and Layland, Journal of the ACM 20(1), 1973",
			About: "Starts the ready tasks of the workflow with the earliest deadline first, on the fastest idle " +
				"node; what does not fit is passed over. Plans nothing ahead.",
			New: func(Params) planner.Policy {
				return &planner.Pipeline[planner.Queue]{
					Retain: retain.Drop{},
					Queue: &order.Keyed{Key: func(c *planner.Cycle, t planner.TaskID) order.Key {
						w := c.Workflow(c.Task(t).Workflow)
						return order.Key{Major: int64(w.Due), Minor: int64(w.ID)}
					}},
					Allocate: &alloc.List{},
				}
			},
		},
	}
}
