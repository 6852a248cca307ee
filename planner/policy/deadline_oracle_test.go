package policy_test

import (
	"cmp"
	"slices"
	"time"

	"gantry/planner/unit"
)

// world is what the oracles of this file know of a run: it moves from instant to instant at which something happens,
// and lets all of that happen before it asks what to start. Everything is found by looking at everything.
type world struct {
	Instance
	now   unit.Time
	stays []Stay // of tasks that started, from when their inputs were there
	ended map[[2]int]bool
	bad   map[[2]int]int  // attempts that ended so
	void  map[Stay]bool   // these
	never map[[2]int]bool // failed for good, or never runs
	// by workflow and task: the parents whose output it reads, which is copied to its node within its stay; nil: none
	reads [][][]int
}

func newWorld(in Instance) *world {
	return &world{Instance: in, ended: map[[2]int]bool{}, bad: map[[2]int]int{}, void: map[Stay]bool{},
		never: map[[2]int]bool{}}
}

// joined returns the instance without its tasks that take no time, which exist for the engine only: their children
// become those of their parents. Number has the numbers that the remaining tasks of each workflow had.
func joined(in Instance) (out Instance, number [][]int) {
	out = in
	out.Workflows = nil
	for _, w := range in.Workflows {
		var numbers []int
		var tasks []Task
		before := make([][]int, len(w.Tasks)) // by task: the tasks that take time whose end makes it ready
		for i, t := range w.Tasks {
			for _, q := range t.Parents {
				if k := slices.Index(numbers, q); k >= 0 {
					before[i] = append(before[i], k)
				} else {
					before[i] = append(before[i], before[q]...)
				}
			}
			slices.Sort(before[i])
			before[i] = slices.Compact(before[i])
			if t.Run > 0 {
				t.Parents = before[i]
				tasks, numbers = append(tasks, t), append(numbers, i)
			}
		}
		w.Tasks = tasks
		out.Workflows, number = append(out.Workflows, w), append(number, numbers)
	}
	return out, number
}

// renumbered gives tasks their former numbers.
func renumbered(stays []Stay, number [][]int) []Stay {
	for k := range stays {
		stays[k].Task = number[stays[k].Workflow][stays[k].Task]
	}
	return stays
}

// readers returns what tasks read of an instance whose tasks without time were taken out: number has what their numbers
// were. A task reads what its parents write, not what those of a parent without time do.
func readers(in Instance, number [][]int) [][][]int {
	reads := make([][][]int, len(number))
	for f, tasks := range number {
		reads[f] = make([][]int, len(tasks))
		for i, was := range tasks {
			for _, q := range in.Workflows[f].Tasks[was].Parents {
				if in.Workflows[f].Tasks[q].Copy > 0 {
					reads[f][i] = append(reads[f][i], slices.Index(tasks, q))
				}
			}
		}
	}
	return reads
}

// inputs are the parents of a task that it reads from.
func (w *world) inputs(f, i int) []int {
	if w.reads == nil || len(w.Nodes) == 1 {
		return nil
	}
	return w.reads[f][i]
}

// holds reports whether a node has the output of a task: it ran there, or another that reads it began to.
func (w *world) holds(f, q, n int) bool {
	return w.ended[[2]int{f, q}] && slices.ContainsFunc(w.stays, func(s Stay) bool {
		return s.Workflow == f && s.Node == n && s.Start <= w.now &&
			(s.Task == q && !w.void[s] || slices.Contains(w.inputs(f, s.Task), q))
	})
}

// nearest is the node that has the output of a task and from which it comes to another soonest, the first of equals.
func (w *world) nearest(f, q, to int) int {
	best := -1
	for n := range w.Nodes {
		if d := w.task(f, q).Copy; w.holds(f, q, n) && (best < 0 || w.between(d, n, to) < w.between(d, best, to)) {
			best = n
		}
	}
	return best
}

// copied is how long what a task reads is on its way to a node if it is to start there now, one file after the other.
func (w *world) copied(f, i, to int) (d time.Duration) {
	for _, q := range w.inputs(f, i) {
		d += w.between(w.task(f, q).Copy, w.nearest(f, q, to), to)
	}
	return d
}

func (w *world) task(f, i int) *Task { return &w.Workflows[f].Tasks[i] }

// release is the earliest start of a workflow.
func (w *world) release(f int) unit.Time { return max(w.Workflows[f].Arrive, w.Workflows[f].Release) }

// due is a deadline.
func (w *world) due(f int) unit.Time { return cmp.Or(w.Workflows[f].Due, unit.Never) }

// run is how long a task takes on a node.
func (w *world) run(d time.Duration, node int) time.Duration {
	return time.Duration(float64(d) / w.Nodes[node].Speed)
}

func (w *world) start(f, i, node int) {
	begun, run := w.now.Add(w.copied(f, i, node)), w.run(w.task(f, i).Run, node)
	if w.task(f, i).Bad(w.bad[[2]int{f, i}]) {
		run /= 2
	}
	w.stays = append(w.stays, Stay{Workflow: f, Task: i, Node: node, Start: begun,
		End: begun.Add(run)})
}

// started reports whether a task has started, and is not to be made again.
func (w *world) started(f, i int) bool {
	return slices.ContainsFunc(w.stays, func(s Stay) bool {
		return s.Workflow == f && s.Task == i && !w.void[s]
	})
}

// fail ends a task, and all that comes after it.
func (w *world) fail(f, i int) {
	w.never[[2]int{f, i}] = true
	for k := range w.Workflows[f].Tasks {
		if slices.Contains(w.task(f, k).Parents, i) {
			w.fail(f, k)
		}
	}
}

// settle lets all happen that happens now: completions, then, as long as there are any, tasks that take no time.
func (w *world) settle() {
	for _, s := range w.stays {
		key := [2]int{s.Workflow, s.Task}
		switch t := w.task(s.Workflow, s.Task); {
		case s.End > w.now || w.void[s]:
		case !t.Bad(w.bad[key]):
			w.ended[key] = true
		default:
			if w.void[s] = true; w.bad[key] == t.Lost {
				w.fail(s.Workflow, s.Task)
			}
			w.bad[key]++
		}
	}
	for again := true; again; {
		again = false
		w.each(func(f, i int) {
			if w.task(f, i).Run == 0 && w.ready(f, i) {
				w.ended[[2]int{f, i}], again = true, true
			}
		})
	}
}

func (w *world) each(do func(f, i int)) {
	for f := range w.Workflows {
		for i := range w.Workflows[f].Tasks {
			do(f, i)
		}
	}
}

// ready reports whether a task may start now.
func (w *world) ready(f, i int) bool {
	if w.release(f) > w.now || w.ended[[2]int{f, i}] || w.never[[2]int{f, i}] || w.started(f, i) {
		return false
	}
	for _, q := range w.task(f, i).Parents {
		if !w.ended[[2]int{f, q}] {
			return false
		}
	}
	return true
}

// free reports whether a node has room for a task now.
func (w *world) free(f, i, node int) bool {
	cores, memory := w.Nodes[node].Cores, cmp.Or(w.Nodes[node].Memory, unit.Unlimited)
	for _, s := range w.stays {
		if s.Node == node && s.End > w.now {
			cores -= w.task(s.Workflow, s.Task).Cores
			memory -= w.task(s.Workflow, s.Task).Memory
		}
	}
	return w.task(f, i).Cores <= cores && w.task(f, i).Memory <= memory
}

// next moves to the next instant at which something happens, or one that is wanted earlier; false if there is none.
// The release of a workflow whose tasks all take no time is nothing that a policy hears of.
func (w *world) next(wanted unit.Time) bool {
	at := wanted
	for f := range w.Workflows {
		for _, t := range []unit.Time{w.Workflows[f].Arrive, w.release(f)} {
			if t > w.now && (t == w.Workflows[f].Arrive || len(w.Workflows[f].Tasks) > 0) {
				at = min(at, t)
			}
		}
	}
	for _, s := range w.stays {
		if s.End > w.now {
			at = min(at, s.End)
		}
	}
	w.now = at
	return at < unit.Never
}

// greedyDeadlines are the shapes of edf. Its oracle is greedy: it passes over a task that fits nowhere.
var greedyDeadlines = []sampled{
	{60, Shape{Dummies: true, Released: true}},
	{60, Shape{Dummies: true, Released: true, Wrong: true}},
	{60, Shape{Dummies: true, Released: true, Speeds: speeds}},
	{60, faulty(Shape{Dummies: true, Released: true, Sizes: true, Memory: true})},
	{60, Shape{Dummies: true, Released: true, Sizes: true, Held: true, Groups: 2}},
	{60, Shape{Dummies: true, Released: true, Sizes: true, Memory: true, Wrong: true, Speeds: speeds,
		Held: true, Groups: 2}},
}
