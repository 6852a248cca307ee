package policy

import "strings"

// Readings of points that papers leave open, by policy. Families share theirs.
var readings = map[string][]string{
	"gbf": {online, promised, "Every random pick is a fresh draw with equal chances, fixed by the seed of the run."},
	"cpp": {online, promised},
	"owm": {online, promised,
		"Between workflows, the lowest rank comes first, as in the original and in RANK_HYBD. The text of the 2018 " +
			"paper says the highest (order=highest). examples/experiments/owm-order.yaml compares the two.",
		"Of busy nodes that become idle together, the fastest counts, then the lowest id; the paper says the first. " +
			"A task that runs longer than estimated counts as ending now; with overrun=ignored nobody waits for its " +
			"node.",
		"A task that waits for a busy node keeps its whole workflow waiting until the next round.",
		"On nodes with several cores, a node is busy that has no room for the task, until enough of its tasks are " +
			"estimated to have ended. Copies count on both sides. A node that is only promised is neither idle nor " +
			"busy.",
	},
	"fdws": {online, promised,
		"Tasks that run count as not done. Tasks that failed for good count as done, and so do those after them, " +
			"which never run. Tasks that take no time do not count at all."},
	"hr": {online, promised},
	"fwp": {online, promised,
		"The target slowdown is the same for all workflows. It changes no decision, and is left out.",
		"The estimate of a completed task is that on its node. Of tasks that complete at one instant the one of the " +
			"lower number comes first. Before any task has completed, the correction is 1.",
		"A task that waits for its copies, where they overlap other work, has not started. Tasks that never run, as " +
			"one before them failed for good, are no part of what has not started.",
		"postpone=busy and parallelism=factor are future work of the paper, which gives no rule for them. It would " +
			"postpone workflows until a timeout; here a task waits for a faster node. " +
			"examples/experiments/future.yaml has what they change.",
	},
	"heft": {plans,
		"A task that runs longer than estimated is expected to run for another eighth of the time it has run, at " +
			"least 1 ms. Other estimators than the declared times may know better.",
	},
	"peft": {plans, listed},
	"cpop": {plans, listed,
		"The critical path is that of one workflow: from a task without parents that has the highest priority, " +
			"always the lowest child of the same. A node that cannot hold all of it is not taken; if none can, its " +
			"tasks go where they finish first."},
	"lookahead": {plans, listed,
		"Each child is looked at alone, with those of its parents that have places: children do not hold back each " +
			"other."},
	"min-min": {plans, listed},
	"max-min": {plans, listed},
	"wheft": {plans,
		"A task that runs longer than estimated counts as ending now: max(now, estimated end). Then a node that is " +
			"about to be free is as good as an idle one. With overrun=soon it ends 1 ms later, and idle nodes come " +
			"first. examples/experiments/wheft-overrun.yaml compares the two.",
		"In each group the workflows take turns, the earliest first, one task each.",
		"With start=planned no task starts before its planned start, which is a stricter reading of a policy that " +
			"is completely plan-driven between arrivals.",
	},
	"3dsf": {inTime, makesRoom, comesBack, byShare, batches, byIdleness, judgment, promised, promisedRoom},
	"pds": {inTime, makesRoom, comesBack, promised, promisedRoom,
		"Regular tasks are served first come, first served: by job, then by task id."},
	"dla": {
		"Jobs are served first come, first served; within a job the lower task id comes first. A task without " +
			"room holds back those of the same dominant resource.",
		batches, byIdleness, judgment, promised, promisedRoom},
	"drf": {byShare, promised},
	"capacity": {
		"The queue that uses least of its capacity is served. Ties go to the queue whose next task asks for " +
			"less, then to the one whose first job came first; queues of classes are in the order deadline, " +
			"regular, low.",
		"Nodes ask in turn: the next with room after the one that was served last. Of the job that is served it " +
			"is given the first task whose data it has, among the first 32 tasks of the queue.",
		promised,
	},
}

const (
	online = "Ties go to the earlier workflow, then the lower task id, then the lower node id. Ranks are exact, and " +
		"so a tie is a tie. They stay as they were where a task fails for good. Tasks that find no room are " +
		"passed over until the next round."
	promised = "Where copies overlap other work, a task that starts on a node without its inputs is promised the " +
		"node from when they are there. By estimates, such a node is idle only for tasks that take nothing " +
		"from those it is promised to; for others the next idle node counts, or they are passed over. On a " +
		"node, tasks that were promised it start in the order of their planned starts; one that is late has " +
		"the first claim. A task that runs longer than estimated is expected to run for another eighth of the " +
		"time it has run."
	plans = "Between two plans, a task starts as soon as its node has room and every task planned there before it " +
		"has its own, also before its planned start. It is expected to stay as long as it was planned to. Ties of " +
		"finish times go to the lower node id. A task that never runs, as one before it failed for good, gives its " +
		"place up; the plan is not made again for that."
)

// Readings of 3DSF.
const (
	inTime = "How long a deadline job may wait is its deadline less the run times along its longest path on the " +
		"fastest nodes, without copies. Ties go to the earlier job, then the lower task id. A task without room " +
		"holds back those of the same dominant resource; CPU counts before memory, and memory before disk I/O. " +
		"That a job cannot end in time any more is found when something ends or arrives, not in between; it is " +
		"asked of every task that waits, wherever it stands in its queue."
	makesRoom = "If what ends next on a node makes enough room in time, a deadline task waits for it, and what " +
		"is free on that node is kept. Else regular tasks make room, on the node where the fewest of high " +
		"priority have to, then the fewest at all. Tasks that still copy their inputs are left alone. A " +
		"deadline task that is too late suspends nobody and waits where it has room first."
	promisedRoom = "Where a task waits for a node to have room, or others make room for it there, all that the node " +
		"is promised to others for counts as taken, and ends like what runs."
	comesBack = "Suspended tasks continue in the order of their suspension, before new regular tasks. They " +
		"count for their tenant until they have made room. What is free on the node of one that has no room yet " +
		"is kept for it; of one that left its node, on the node that has room first. One that continued and then " +
		"fails or is lost is a new task again."
	byShare = "Ties of shares go to the tenant whose next task asks for the smaller share, then to the one " +
		"whose first job came first: the order of the paper's table 1."
	batches = "A batch has the next tasks of the queue that each have room, and that need no more together than " +
		"is free: at most as many as batch says. Where one loses its room to others of the batch, it and those " +
		"after it are served next. A task that waits for a node holds nobody back: the next batch is matched to " +
		"the nodes that are free then, in the same round."
	byIdleness = "A node serves one task of a matching. Tasks left over are matched again, by what is idle " +
		"then: the part of a node's cores that is free. A task may go to the nodes that hold most of its input. " +
		"Of the matchings of largest weight one is taken that serves the earliest tasks; in their order each gets " +
		"the idlest node, of equals the lowest id, that leaves one for all others. With match=bytes no rule is " +
		"kept for ties; the same run has the same."
	judgment = "A task that reads much and whose nodes are full waits for the first of them to have room, if " +
		"that is sooner than the copies to another node would take, and in time. Line 1 of Algorithm 4 has this " +
		"the other way round. It does not count that others wait for that node, too, and what is free there is " +
		"not kept for it. Else it goes to the idlest node with room, of a rack that has its data before others. " +
		"A task that runs longer than estimated is expected to run for another eighth of the time it has run."
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
		"behind it waits until it has left its place. The task for which it leaves takes that place, before others " +
		"that were allocated there and are late.",
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

const listed = "All workflows are planned as one list. Means are over the nodes that can hold the task, in whole " +
	"nanoseconds. Ties go to the task of higher upward rank, then the lower one; to the node of the earlier finish, " +
	"then the lower one."

func readingsOf(name string) []string {
	if name == "pipeline" || name == "mows" || strings.HasPrefix(name, "owm-mp") {
		return mixedReadings
	}
	return readings[name]
}
