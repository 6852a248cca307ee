package policy

import "strings"

// Readings of what papers leave open, by policy. Families share theirs.
var readings = map[string][]string{
	"gbf": {online, "Every random pick is a fresh draw with equal chances, fixed by the seed of the run."},
	"cpp": {online},
	"owm": {online,
		"Between workflows, the lowest rank comes first, as in the original and in RANK_HYBD. The text of the 2018 " +
			"paper says the highest (order=highest). examples/experiments/owm-order.yaml compares the two.",
		"Of busy nodes that become idle together, the fastest counts, then the lowest id; the paper says the first. " +
			"A task that runs longer than estimated counts as ending now.",
		"A task that waits for a busy node keeps its whole workflow waiting until the next round.",
	},
	"fdws": {online, "Tasks that run count as not done. Tasks that take no time do not count at all."},
	"hr":   {online},
	"fwp": {online,
		"The target slowdown is the same for all workflows, and so k changes no decision.",
		"The estimate of a completed task is that on its node. Before any task has completed, the correction is 1.",
	},
	"heft": {plans,
		"A task that runs longer than estimated is expected to run for another eighth of the time it has run, at " +
			"least 1 ms. Other estimators than the declared times may know better.",
	},
	"wheft": {plans,
		"A task that runs longer than estimated counts as ending now: max(now, estimated end). Then a node that is " +
			"about to be free is as good as an idle one. With overrun=soon it ends 1 ms later, and idle nodes come " +
			"first. examples/experiments/wheft-overrun.yaml compares the two.",
		"In each group the workflows take turns, the earliest first, one task each.",
		"With start=planned no task starts before its planned start, which is a stricter reading of a policy that " +
			"is completely plan-driven between arrivals.",
	},
}

const (
	online = "Ties go to the earlier workflow, then the lower task id, then the lower node id. Ranks are exact, and " +
		"so a tie is a tie. Tasks that find no room are passed over until the next round."
	plans = "Between two plans, a task starts as soon as its node has room and every task planned there before it " +
		"has its own, also before its planned start. Ties of finish times go to the lower node id."
)

// mixedReadings are those of online workflow management.
var mixedReadings = []string{
	"A rank averages run times over the clusters that are wide enough for the task, and copies over all pairs of " +
		"clusters.",
	"With cpws, a task of equal rank and higher id waits until the one of lower id has entered the queue.",
	"The queue is looked at when a task enters it, ends or leaves its place, or a workflow arrives; not when a copy " +
		"arrives.",
	"Priority-based backfilling makes one pass over the queue each time. Once a task was passed over, the order of " +
		"the queue stays for that pass, also if the last task of another workflow has left it. A task whose " +
		"estimated start is now is allocated, also if its data is still on the way.",
	"Moving a checkpoint occupies the target cluster. A preempted task stands in the queue at once; what stands " +
		"behind it waits until it has left its place.",
	"Only a task that was ordered to start before the other was eligible can be preempted for it, and only if more " +
		"than the share floor of its stay is left.",
	"A task that was allocated ahead starts at its planned start. Once a task of its cluster has ended or left " +
		"otherwise than estimated, " +
		"it starts as soon as its data is there and that takes nothing from other allocated tasks.",
	"A task that was allocated ahead and is late keeps its planned stay in all estimates until it starts. A running " +
		"task past its estimate " +
		"is expected to run for another eighth of the time it has run, and again once that has passed.",
	"Remaining times (swf) are computed when a workflow arrives. A workflow has the system to itself then, beside " +
		"what runs or is allocated. Copies begin when the file is written.",
}

func readingsOf(name string) []string {
	if name == "pipeline" || name == "mows" || strings.HasPrefix(name, "owm-mp") {
		return mixedReadings
	}
	return readings[name]
}
