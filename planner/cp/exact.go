package cp

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gantry/planner/exact"
	"gantry/planner/heap"
	"gantry/planner/unit"
)

// fewestLate searches for schedules with fewer late jobs than the best so far, until there are none. It reports
// whether that is certain, or the steps are used up.
func (s *solver) fewestLate() bool {
	x := &complete{solver: s, tail: make([]time.Duration, len(s.p.Tasks)), children: make([][]int32, len(s.p.Tasks)),
		seen: map[uint32][]moment{}, taken: largest()}
	for i := len(s.p.Tasks) - 1; i >= 0; i-- {
		x.tail[i] += s.p.Tasks[i].Run
		for _, q := range s.p.Tasks[i].Parents {
			x.tail[q] = max(x.tail[q], x.tail[i])
			x.children[q] = append(x.children[q], int32(i))
		}
	}
	for j := range s.p.Jobs {
		x.byDue = append(x.byDue, int32(j))
	}
	slices.SortStableFunc(x.byDue, func(a, b int32) int { return cmp.Compare(s.p.Jobs[a].Due, s.p.Jobs[b].Due) })
	for s.best.Late > s.bound {
		x.most = s.best.Late - 1
		clear(x.seen)
		s.clear()
		if !x.branch(0, s.p.Now) {
			return s.left > 0
		}
	}
	return true
}

// complete places tasks in the order of their starts, those only of jobs that will be on time. Every set of jobs that
// can be on time together is found: if the tasks of any schedule of theirs are placed in the order of their starts,
// each at its earliest instant not before the one placed before it, none starts later than there.
type complete struct {
	*solver
	most     int             // late jobs
	tail     []time.Duration // by task: from its start until its job can end at the earliest
	children [][]int32
	seen     map[uint32][]moment // by tasks placed
	byDue    []int32
	taken    heap.Heap[exact.Number]
}

// moment is a partial schedule, from which no further was found.
type moment struct {
	last unit.Time   // nothing starts before
	ends []unit.Time // of the tasks placed, those that ended before left out
	on   []int32     // where they are
}

// branch continues a partial schedule of the tasks in done, in which nothing starts before last any more. It reports
// whether it has found one with few enough late jobs, which it keeps then.
func (x *complete) branch(done uint32, last unit.Time) bool {
	hopeful, missing := x.hopeful(done, last)
	switch {
	case hopeful == nil:
		return false
	case missing == 0:
		x.finish(done)
		return true
	case x.left <= 0 || x.known(done, last):
		return false
	}
	type choice struct {
		task, on int32
		at       unit.Time
	}
	var choices []choice
	// a task of a begun job can end by then: tasks that start later may as well come after it
	first := unit.Never
	for i := range x.p.Tasks {
		t := &x.p.Tasks[i]
		if done&(1<<i) != 0 || !hopeful[t.Job].is || slices.ContainsFunc(t.Parents,
			func(q int32) bool { return done&(1<<q) == 0 }) || x.twin(done, int32(i)) {
			continue
		}
		from, possible := max(last, x.from(int32(i))), false
		for n := range x.nodes {
			if n := int32(n); !x.sameNode(n, t) {
				run := x.runOn(int32(i), n)
				if run < 0 {
					continue
				}
				at := x.nodes[n].earliest(t.Need, run, from)
				if at.Add(run+x.tail[i]-t.Run) > x.p.Jobs[t.Job].Due {
					continue
				}
				possible = true
				choices = append(choices, choice{int32(i), n, at})
				if hopeful[t.Job].begun {
					first = min(first, at.Add(run))
				}
			}
		}
		if !possible && hopeful[t.Job].begun {
			return x.fail(done, last)
		}
	}
	slices.SortStableFunc(choices, func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(x.p.Jobs[x.p.Tasks[a.task].Job].Due,
			x.p.Jobs[x.p.Tasks[b.task].Job].Due))
	})
	for _, c := range choices {
		if c.at >= first {
			break
		}
		x.start[c.task], x.on[c.task] = c.at, c.on
		x.hold(c.task, +1)
		x.steps++
		x.left--
		if x.branch(done|1<<c.task, c.at) {
			return true
		}
		x.hold(c.task, -1)
	}
	return x.fail(done, last)
}

// hope is the state of a job in a partial schedule.
type hope struct {
	is    bool // it may be on time
	begun bool // tasks of it are placed: it has to be
}

// hopeful returns which jobs may be on time, and how many more of them have to be placed whole; nil if there is no
// use in going on.
func (x *complete) hopeful(done uint32, last unit.Time) (jobs []hope, missing int) {
	n := len(x.p.Jobs)
	jobs = make([]hope, n)
	ends := make([]unit.Time, len(x.p.Tasks)) // of those that are open: no earlier
	open := make([]bool, n)
	for j := range jobs {
		jobs[j].is = max(x.p.Now, x.p.Jobs[j].Floor) <= x.p.Jobs[j].Due
	}
	for i := range x.p.Tasks {
		t := &x.p.Tasks[i]
		if done&(1<<i) != 0 {
			ends[i] = x.over(int32(i))
			jobs[t.Job].begun = true
		} else {
			at := max(last, x.p.Jobs[t.Job].Release, t.After)
			for _, q := range t.Parents {
				at = max(at, ends[q])
			}
			ends[i] = at.Add(t.Run)
			open[t.Job] = true
		}
		if ends[i].Add(x.tail[i]-t.Run) > x.p.Jobs[t.Job].Due {
			jobs[t.Job].is = false
		}
	}
	hopes, whole := 0, 0
	for j := range jobs {
		switch {
		case jobs[j].is:
			if hopes++; !open[j] {
				whole++
			}
		case jobs[j].begun:
			return nil, 0
		}
	}
	for dim, c := range x.p.Capacity {
		if c > 0 && c != unit.Unlimited {
			hopes = min(hopes, whole+x.crowd(dim, jobs, open, done, last))
		}
	}
	if hopes < n-x.most {
		return nil, 0
	}
	return jobs, max(0, n-x.most-whole)
}

// crowd returns how many of the jobs that are open and may be on time can be at most, by the energy that is left of
// one dimension from last on until each deadline: those to give up are found as Moore and Hodgson do, but jobs that
// were begun are not given up; -1 if they do not fit.
func (x *complete) crowd(dim int, jobs []hope, open []bool, done uint32, last unit.Time) int {
	needed := make([]exact.Number, len(jobs))
	for i := range x.p.Tasks {
		if t := &x.p.Tasks[i]; done&(1<<i) == 0 {
			needed[t.Job] = needed[t.Job].Plus(energyOf(t.Need[dim], t.Run))
		}
	}
	sum, fixed := exact.Number{}, exact.Number{} // fixed is the part of jobs that were begun
	x.taken.Items = x.taken.Items[:0]
	count := 0
	for _, j := range x.byDue {
		if !jobs[j].is || !open[j] {
			continue
		}
		sum = sum.Plus(needed[j])
		if count++; jobs[j].begun {
			fixed = fixed.Plus(needed[j])
		} else {
			x.taken.Push(needed[j])
		}
		room := x.free(dim, done, last, x.p.Jobs[j].Due)
		if fixed.Compare(room) > 0 {
			return -len(jobs)
		}
		for ; sum.Compare(room) > 0; count-- {
			sum = sum.Minus(x.taken.Pop())
		}
	}
	return count
}

// free returns how much of one dimension the placed and the fixed tasks leave between last and until.
func (x *complete) free(dim int, done uint32, last, until unit.Time) exact.Number {
	if until == unit.Never {
		return exact.Wide(math.MaxUint64, 0)
	}
	free := energyOf(x.p.Capacity[dim], until.Sub(last))
	for _, f := range x.p.Fixed {
		free = free.Minus(energyOf(f.Hold[dim], min(f.End, until).Sub(last)))
	}
	for i := range x.p.Tasks {
		if t := &x.p.Tasks[i]; done&(1<<i) != 0 {
			free = free.Minus(energyOf(t.Need[dim], min(x.over(int32(i)), until).Sub(last)))
		}
	}
	return free
}

// sameNode reports whether node n is in use as one before it is that is alike for a task: that one is as good.
func (x *complete) sameNode(n int32, t *Task) bool {
	for m := range n {
		if t.RunOn[m] == t.RunOn[n] && x.p.Nodes[m] == x.p.Nodes[n] && slices.Equal(x.nodes[m].steps,
			x.nodes[n].steps) {
			return true
		}
	}
	return false
}

// twin reports whether a task is like one of its job before it that is open, too: that one goes first.
func (x *complete) twin(done uint32, i int32) bool {
	t := &x.p.Tasks[i]
	for k := i - 1; k >= 0 && x.p.Tasks[k].Job == t.Job; k-- {
		q := &x.p.Tasks[k]
		if done&(1<<k) == 0 && q.Run == t.Run && q.Need == t.Need && slices.Equal(q.RunOn, t.RunOn) &&
			q.After == t.After && slices.Equal(q.Parents, t.Parents) &&
			slices.Equal(x.children[k], x.children[i]) {
			return true
		}
	}
	return false
}

// known reports whether a partial schedule from which nothing was found is as good: with the same tasks, none of
// which ends later, as far as that matters from last on.
func (x *complete) known(done uint32, last unit.Time) bool {
	ends := x.ends(done, last)
	return slices.ContainsFunc(x.seen[done], func(m moment) bool {
		if m.last > last {
			return false
		}
		for i, e := range m.ends {
			if e > max(ends[i], last) || e > last && m.on[i] != x.on[i] {
				return false
			}
		}
		return true
	})
}

// ends returns when the tasks that are placed end, by task; 0 if that is no later than last.
func (x *complete) ends(done uint32, last unit.Time) []unit.Time {
	ends := make([]unit.Time, len(x.p.Tasks))
	for i := range x.p.Tasks {
		if done&(1<<i) != 0 {
			if e := x.over(int32(i)); e > last {
				ends[i] = e
			}
		}
	}
	return ends
}

func (x *complete) fail(done uint32, last unit.Time) bool {
	if x.left > 0 {
		x.seen[done] = append(x.seen[done], moment{last, x.ends(done, last), slices.Clone(x.on)})
	}
	return false
}

// finish places the other jobs after those that are on time, the shortest first, and keeps the schedule.
func (x *complete) finish(done uint32) {
	var others []int32
	for j := range x.p.Jobs {
		end, whole := max(x.p.Now, x.p.Jobs[j].Floor), true
		for _, t := range x.tasks[j] {
			if done&(1<<t) == 0 {
				whole = false
			} else {
				end = max(end, x.over(t))
			}
		}
		if whole {
			x.count(int32(j), end)
			continue
		}
		others = append(others, int32(j))
		for _, t := range x.tasks[j] {
			if done&(1<<t) != 0 {
				x.take(t)
			}
		}
	}
	slices.SortStableFunc(others, func(a, b int32) int { return cmp.Compare(x.shapes[a].length, x.shapes[b].length) })
	for _, j := range others {
		x.place(j)
	}
	x.keep()
}
