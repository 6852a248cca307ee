package cp

import (
	"cmp"
	"slices"
	"time"

	"gantry/planner/budget"
	"gantry/planner/unit"
)

// fewEnough is for how many tasks greedy EDF is tried, which looks at all of them at every instant.
const fewEnough = 150

// greedy starts, whenever a task ends or may start, those that are ready in the order of their deadlines, as far as
// there is room: EDF as an online policy.
func (s *solver) greedy() {
	if len(s.p.Tasks) > fewEnough {
		return
	}
	s.clear()
	order := make([]int32, len(s.p.Tasks))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		x, y := &s.p.Tasks[a], &s.p.Tasks[b]
		return cmp.Or(cmp.Compare(s.p.Jobs[x.Job].Due, s.p.Jobs[y.Job].Due), cmp.Compare(x.Number, y.Number))
	})
	done := make([]bool, len(s.p.Tasks))
	ends := make([]unit.Time, len(s.p.Jobs))
	for j := range ends {
		ends[j] = max(s.p.Now, s.p.Jobs[j].Floor)
	}
	for now := s.p.Now; len(order) > 0; {
		next := unit.Never
		order = slices.DeleteFunc(order, func(i int32) bool {
			t := &s.p.Tasks[i]
			if slices.ContainsFunc(t.Parents, func(q int32) bool { return !done[q] }) {
				return false // comes with the end of its parents
			}
			at := s.from(i)
			if at <= now {
				var on int32
				if at, on = s.idle(i, now); at == now {
					s.start[i], s.on[i] = now, on
					s.hold(i, +1)
					s.steps++
					ends[t.Job] = max(ends[t.Job], s.over(i))
					done[i] = true
					next = min(next, s.over(i))
					return true
				}
			}
			next = min(next, at)
			return false
		})
		now = next
	}
	for j, end := range ends {
		s.count(int32(j), end)
	}
	s.keep()
}

// idle returns the node on which a task that starts now is over first, or else when it can start.
func (s *solver) idle(i int32, now unit.Time) (at unit.Time, on int32) {
	t := &s.p.Tasks[i]
	at = unit.Never
	for n := range s.nodes {
		if run := s.runOn(i, int32(n)); run >= 0 {
			start := s.nodes[n].earliest(t.Need, run, now)
			if start < at || start == now && run < s.runOn(i, on) {
				at, on = start, int32(n)
			}
		}
	}
	return at, on
}

// dcwf is the schedule of RM-DCWF (its default, PD-SL-TSP1) if all jobs came at once: one after the other by deadline,
// and where one would be late those in its way again with it, by deadline, then by normalized laxity. Its steps are
// limited: beyond the limit, jobs are placed late.
type dcwf struct {
	*solver
	orders   [][]int32 // by job: its tasks as they are placed
	sample   []time.Duration
	byLaxity bool
	attempts [][]int32
	limit    int // steps
}

const mostAttempts = 4 // for one job, as rm-dcwf makes by default

func (s *solver) dcwf() {
	n := len(s.p.Jobs)
	d := &dcwf{solver: s, orders: make([][]int32, n), sample: make([]time.Duration, n)}
	jobs := make([]int32, n)
	for j := range jobs {
		jobs[j] = int32(j)
		d.shape(int32(j))
	}
	s.clear()
	d.limit = s.steps + 2000 + 10*len(s.p.Tasks)
	slices.SortStableFunc(jobs, func(a, b int32) int { return cmp.Compare(s.p.Jobs[a].Due, s.p.Jobs[b].Due) })
	for _, j := range jobs {
		d.attempts, d.byLaxity = d.attempts[:0], false
		d.helper(j, true, true)
	}
	s.keep()
}

// shape finds the sample schedule of a job, alone, its laxity, its sub-deadlines, and by them the order of its tasks.
func (d *dcwf) shape(j int32) {
	p, tasks := d.p, slices.Clone(d.tasks[j])
	slices.Sort(tasks)
	if len(tasks) == 0 {
		return
	}
	at := make(map[int32]int32, len(tasks))
	start := max(p.Now, p.Jobs[j].Release)
	b := budget.Job{Start: start, Due: p.Jobs[j].Due, Tasks: make([]budget.Task, len(tasks))}
	order := make([]int32, len(tasks))
	for k, t := range tasks {
		at[t], order[k] = int32(k), int32(k)
		for _, q := range p.Tasks[t].Parents {
			b.Tasks[k].Parents = append(b.Tasks[k].Parents, at[q])
		}
	}
	d.orders[j] = d.sweep(tasks, b.Tasks, nil)
	d.reset()
	end := start
	for _, t := range d.orders[j] {
		e := d.put(t)
		b.Tasks[at[t]].End, end = e, max(end, e)
	}
	b.Sample = end.Sub(start)
	d.sample[j] = b.Sample
	d.orders[j] = d.sweep(tasks, b.Tasks, b.SubDeadlines(budget.Proportional, order))
}

// sweep orders tasks as Algorithm 5 of RM-DCWF places them: sweep after sweep over those by runtime, sub-deadline and
// number, those passed over of which a parent has no place.
func (d *dcwf) sweep(tasks []int32, of []budget.Task, sub []unit.Time) (out []int32) {
	byRun := make([]int32, len(tasks))
	for k := range byRun {
		byRun[k] = int32(k)
	}
	slices.SortStableFunc(byRun, func(a, b int32) int {
		x, y := &d.p.Tasks[tasks[a]], &d.p.Tasks[tasks[b]]
		c := cmp.Compare(y.Run, x.Run)
		if c == 0 && sub != nil {
			c = cmp.Compare(sub[a], sub[b])
		}
		return cmp.Or(c, cmp.Compare(x.Number, y.Number))
	})
	placed := make([]bool, len(tasks))
	for len(out) < len(tasks) {
		for _, k := range byRun {
			if !placed[k] && !slices.ContainsFunc(of[k].Parents, func(q int32) bool { return !placed[q] }) {
				placed[k] = true
				out = append(out, tasks[k])
			}
		}
	}
	return out
}

// helper is Algorithm 5 of RM-DCWF.
func (d *dcwf) helper(j int32, root, check bool) bool {
	end := max(d.p.Now, d.p.Jobs[j].Floor)
	for k, t := range d.orders[j] {
		e := d.put(t)
		if check && e > d.p.Jobs[j].Due {
			for _, t := range d.orders[j][:k+1] {
				d.take(t)
			}
			ok := d.remap(j, root)
			if !ok && root {
				d.helper(j, root, false)
			}
			return ok
		}
		end = max(end, e)
	}
	d.count(j, end)
	return true
}

// remap is Algorithm 6.
func (d *dcwf) remap(j int32, root bool) bool {
	ok := d.remapInOrder(j, root)
	if !ok && root {
		d.byLaxity = true
		ok = d.remapInOrder(j, root)
	}
	return ok
}

// remapInOrder is Algorithm 7.
func (d *dcwf) remapInOrder(j int32, root bool) bool {
	p := d.p
	all := []int32{j}
	for k := range p.Jobs {
		if k := int32(k); d.placed[k] && len(d.tasks[k]) > 0 && d.first(k) < p.Jobs[j].Due && d.end[k] > max(p.Now,
			p.Jobs[j].Release) {
			all = append(all, k)
		}
	}
	laxity := func(k int32) time.Duration {
		return budget.Laxity(max(p.Now, p.Jobs[k].Release), p.Jobs[k].Due, d.sample[k])
	}
	slices.SortFunc(all, func(a, b int32) int {
		due := cmp.Compare(p.Jobs[a].Due, p.Jobs[b].Due)
		if d.byLaxity {
			return cmp.Or(budget.CompareNormalized(laxity(a), d.sample[a], laxity(b), d.sample[b]), due,
				cmp.Compare(a, b))
		}
		return cmp.Or(due, cmp.Compare(laxity(a), laxity(b)), cmp.Compare(a, b))
	})
	if len(d.attempts) >= mostAttempts || d.steps > d.limit || slices.ContainsFunc(d.attempts,
		func(a []int32) bool { return slices.Equal(a, all) }) {
		return false
	}
	d.attempts = append(d.attempts, all)
	var start, end []unit.Time
	var on []int32
	var placed []bool
	if root {
		start, on, end, placed = slices.Clone(d.start), slices.Clone(d.on), slices.Clone(d.end), slices.Clone(d.placed)
	}
	var hopeful, late []int32
	for _, k := range all {
		if k != j && d.end[k] > p.Jobs[k].Due {
			late = append(late, k)
		} else {
			hopeful = append(hopeful, k)
		}
		if k != j {
			d.remove(k)
		}
	}
	for _, k := range hopeful {
		if !d.helper(k, false, true) {
			if root {
				d.comeBack(start, on, end, placed)
			}
			return false
		}
	}
	for _, k := range late {
		d.helper(k, false, false)
	}
	return true
}

// comeBack restores an earlier schedule.
func (d *dcwf) comeBack(start []unit.Time, on []int32, end []unit.Time, placed []bool) {
	d.clear()
	copy(d.start, start)
	copy(d.on, on)
	for j := range placed {
		if !placed[j] {
			continue
		}
		for _, t := range d.tasks[j] {
			d.hold(t, +1)
		}
		d.count(int32(j), end[j])
	}
}

// first is the first start of a job.
func (s *solver) first(j int32) unit.Time {
	at := unit.Never
	for _, t := range s.tasks[j] {
		at = min(at, s.start[t])
	}
	return at
}
