package cp

import (
	"cmp"
	"slices"
	"time"

	"gantry/planner/budget"
	"gantry/planner/unit"
)

// Solve schedules a problem. It takes the best of some list schedules. If there are at most fewTasks tasks, it then
// searches for the fewest late jobs; steps, tasks placed on trial, bound the search.
func Solve(p *Problem, steps int) *Solution {
	s := newSolver(p)
	s.lists()
	if len(p.Tasks) <= fewTasks && s.best.Late > s.bound {
		if s.left = steps; s.fewestLate() {
			s.bound = s.best.Late
		}
	}
	s.best.Bound = s.bound
	return &s.best
}

// fewTasks is of how many tasks the fewest late jobs are searched for completely.
const fewTasks = 15

// solver has a schedule under edit: the placed jobs are in the profile.
type solver struct {
	p      *Problem
	nodes  []profile     // one, if it is the summed resource
	tasks  [][]int32     // by job, in the order in which they are placed
	shapes []shape       // by job
	start  []unit.Time   // by task; of placed ones
	on     []int32       // by task, likewise
	end    []unit.Time   // by job; of placed ones
	placed []bool        // by job
	late   int           // of placed jobs
	ends   time.Duration // of placed jobs, after now
	best   Solution
	sum    time.Duration // Ends of best
	bound  int
	least  time.Duration // no schedule has smaller Ends
	steps  int
	left   int // steps of the search
}

// shape has the bounds of a job before any schedule.
type shape struct {
	earliest unit.Time // no schedule ends it before
	length   time.Duration
}

func newSolver(p *Problem) *solver {
	n := len(p.Jobs)
	s := &solver{p: p, tasks: make([][]int32, n),
		shapes: make([]shape, n),
		start:  make([]unit.Time, len(p.Tasks)), on: make([]int32, len(p.Tasks)), nodes: make([]profile, max(1,
			len(p.Nodes))), end: make([]unit.Time, n), placed: make([]bool, n), best: Solution{Late: n + 1}}
	s.clear()
	s.order()
	s.bounds()
	return s
}

// clear takes all jobs out.
func (s *solver) clear() {
	s.reset()
	for _, f := range s.p.Fixed {
		node := f.Node
		if len(s.p.Nodes) == 0 {
			node = 0
		}
		s.nodes[node].add(s.p.Now, f.End, f.Hold, +1)
	}
	clear(s.placed)
	s.late, s.ends = 0, 0
}

// reset makes all nodes idle.
func (s *solver) reset() {
	if len(s.p.Nodes) == 0 {
		s.nodes[0].reset(s.p.Capacity)
	}
	for n, capacity := range s.p.Nodes {
		s.nodes[n].reset(capacity)
	}
}

// order sets the order in which the tasks of a job are placed: of those whose parents have been, the longest first,
// as RM-DCWF does.
func (s *solver) order() {
	children := make([][]int32, len(s.p.Tasks))
	waits := make([]int32, len(s.p.Tasks))
	ready := make([][]int32, len(s.p.Jobs))
	for i := range s.p.Tasks {
		t := &s.p.Tasks[i]
		for _, q := range t.Parents {
			children[q] = append(children[q], int32(i))
		}
		if waits[i] = int32(len(t.Parents)); waits[i] == 0 {
			ready[t.Job] = append(ready[t.Job], int32(i))
		}
	}
	longest := func(a, b int32) int {
		x, y := &s.p.Tasks[a], &s.p.Tasks[b]
		return cmp.Or(cmp.Compare(y.Run, x.Run), cmp.Compare(x.Number, y.Number), cmp.Compare(a, b))
	}
	for j := range ready {
		// Sweep after sweep: tasks that become ready in a sweep wait for the next, so that sorting costs n log n.
		for sweep := ready[j]; len(sweep) > 0; {
			slices.SortFunc(sweep, longest)
			s.tasks[j] = append(s.tasks[j], sweep...)
			var next []int32
			for _, t := range sweep {
				for _, c := range children[t] {
					if waits[c]--; waits[c] == 0 {
						next = append(next, c)
					}
				}
			}
			sweep = next
		}
	}
}

// from is when the parents of t have ended, as they are placed.
func (s *solver) from(i int32) unit.Time {
	t := &s.p.Tasks[i]
	at := max(s.p.Now, s.p.Jobs[t.Job].Release, t.After)
	for _, q := range t.Parents {
		at = max(at, s.over(q))
	}
	return at
}

// put places a task at the earliest instant.
func (s *solver) put(i int32) unit.Time {
	t := &s.p.Tasks[i]
	s.start[i], s.on[i] = s.spot(t, s.from(i))
	s.hold(i, +1)
	s.steps++
	return s.over(i)
}

// spot returns where a task is over first that can start at an instant.
func (s *solver) spot(t *Task, from unit.Time) (at unit.Time, on int32) {
	if len(s.p.Nodes) == 0 {
		return s.nodes[0].earliest(t.Need, t.Run, from), 0
	}
	best := unit.Never
	for n := range s.nodes {
		if t.RunOn[n] < 0 || best < unit.Never && from.Add(t.RunOn[n]) >= best {
			continue
		}
		if start := s.nodes[n].earliest(t.Need, t.RunOn[n], from); start.Add(t.RunOn[n]) < best || best == unit.Never {
			at, on, best = start, int32(n), start.Add(t.RunOn[n])
		}
	}
	return at, on
}

// runOn returns how long a task runs on a node.
func (s *solver) runOn(i, n int32) time.Duration {
	if t := &s.p.Tasks[i]; len(s.p.Nodes) > 0 {
		return t.RunOn[n]
	}
	return s.p.Tasks[i].Run
}

// over is when a placed task ends.
func (s *solver) over(i int32) unit.Time { return s.start[i].Add(s.runOn(i, s.on[i])) }

// hold takes the need of a task where it is placed, or with sign -1 gives it back.
func (s *solver) hold(i int32, sign int64) {
	s.nodes[s.on[i]].add(s.start[i], s.over(i), s.p.Tasks[i].Need, sign)
}

func (s *solver) take(i int32) { s.hold(i, -1) }

// place places the tasks of a job, one after the other, each at its earliest instant.
func (s *solver) place(j int32) {
	end := max(s.p.Now, s.p.Jobs[j].Floor)
	for _, t := range s.tasks[j] {
		end = max(end, s.put(t))
	}
	s.count(j, end)
}

func (s *solver) count(j int32, end unit.Time) {
	s.placed[j], s.end[j] = true, end
	s.ends += end.Sub(s.p.Now)
	if end > s.p.Jobs[j].Due {
		s.late++
	}
}

// remove takes a placed job out.
func (s *solver) remove(j int32) {
	for _, t := range s.tasks[j] {
		s.take(t)
	}
	s.placed[j] = false
	s.ends -= s.end[j].Sub(s.p.Now)
	if s.end[j] > s.p.Jobs[j].Due {
		s.late--
	}
}

// keep takes the present schedule, with all jobs placed, if it is the best so far.
func (s *solver) keep() bool {
	if s.late > s.best.Late || s.late == s.best.Late && s.ends >= s.sum {
		return false
	}
	s.best.Late, s.sum, s.best.Ends = s.late, s.ends, s.ends.Seconds()
	s.best.Start = append(s.best.Start[:0], s.start...)
	s.best.On = append(s.best.On[:0], s.on...)
	s.best.End = append(s.best.End[:0], s.end...)
	return true
}

// settled reports whether the bounds say that nothing is better than the best solution.
func (s *solver) settled() bool { return s.best.Late <= s.bound && s.sum <= s.least }

// lists makes the first solutions: that of RM-DCWF, that of greedy EDF if tasks are not many, and jobs in the order of
// their deadlines (EDF), of their laxity, of their normalized laxity (RM-DCWF's comparator), of their length; and each
// of these once more with the jobs that came out late behind all others. So the solution of a batch loses to neither
// greedy EDF, if tasks are not many, nor RM-DCWF. Of batches of more than fewTasks tasks of several sizes it may lose
// to package remap, which moves planned tasks between nodes; the lists here do not.
func (s *solver) lists() {
	if s.greedy(); s.settled() {
		return
	}
	if s.dcwf(); s.settled() {
		return
	}
	jobs := make([]int32, len(s.p.Jobs))
	laxity := func(j int32) time.Duration { return s.p.Jobs[j].Due.Sub(s.shapes[j].earliest) }
	due := func(a, b int32) int { return cmp.Compare(s.p.Jobs[a].Due, s.p.Jobs[b].Due) }
	for _, less := range []func(a, b int32) int{
		due,
		func(a, b int32) int { return cmp.Or(cmp.Compare(laxity(a), laxity(b)), due(a, b)) },
		func(a, b int32) int {
			return cmp.Or(budget.CompareNormalized(laxity(a), s.shapes[a].length, laxity(b), s.shapes[b].length),
				due(a, b))
		},
		func(a, b int32) int { return cmp.Or(cmp.Compare(s.shapes[a].length, s.shapes[b].length), due(a, b)) },
	} {
		for j := range jobs {
			jobs[j] = int32(j)
		}
		slices.SortStableFunc(jobs, less)
		for round := 0; ; round++ {
			s.clear()
			for _, j := range jobs {
				s.place(j)
			}
			if s.keep() && s.settled() || s.late == 0 || round == 2 {
				break
			}
			isLate := func(j int32) int {
				if s.end[j] > s.p.Jobs[j].Due {
					return 1
				}
				return 0
			}
			slices.SortStableFunc(jobs, func(a, b int32) int { return cmp.Compare(isLate(a), isLate(b)) })
		}
		if s.settled() {
			return
		}
	}
}
