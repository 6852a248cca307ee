package cp

import (
	"cmp"
	"slices"

	"gantry/planner/unit"
)

// allOrders places the tasks in every order that precedence allows, each at its earliest instant: some order gives a
// best schedule, as both objectives are regular (ends earlier are never worse). It reports whether it came to the end.
func (s *solver) allOrders() bool {
	s.clear()
	left := make([]int, len(s.p.Jobs)) // tasks to be placed
	for j := range s.p.Jobs {
		if left[j] = len(s.tasks[j]); left[j] == 0 {
			s.place(int32(j))
		}
	}
	done := make([]bool, len(s.p.Tasks))
	return s.branchTasks(done, left, len(s.p.Tasks))
}

func (s *solver) branchTasks(done []bool, left []int, open int) bool {
	if open == 0 {
		s.keep()
		return true
	}
	if !s.promising() {
		return true
	}
	complete := true
	for i := range s.p.Tasks {
		t := &s.p.Tasks[i]
		if done[i] || slices.ContainsFunc(t.Parents, func(q int32) bool { return !done[q] }) {
			continue
		}
		if s.left <= 0 {
			return false
		}
		s.put(int32(i))
		done[i] = true
		if left[t.Job]--; left[t.Job] == 0 {
			end := max(s.p.Now, s.p.Jobs[t.Job].Floor)
			for _, x := range s.tasks[t.Job] {
				end = max(end, s.over(x))
			}
			s.count(t.Job, end)
		}
		complete = s.branchTasks(done, left, open-1) && complete
		if left[t.Job] == 0 {
			s.uncount(t.Job)
		}
		left[t.Job]++
		done[i] = false
		s.take(int32(i))
	}
	return complete
}

// promising reports whether the placed jobs, with the others at their best, may still beat the best solution.
func (s *solver) promising() bool {
	late, ends := s.late, s.ends
	for j := range s.p.Jobs {
		if s.placed[j] {
			continue
		}
		if s.shapes[j].earliest > s.p.Jobs[j].Due {
			late++
		}
		ends += s.shapes[j].earliest.Sub(s.p.Now)
	}
	return s.better(late, ends)
}

// neighbourhoods searches the surroundings of the best solution: some jobs in conflict are taken out, and put in again
// in other orders. Late jobs are dealt with first, each with some that it is in conflict with; then sets are drawn.
// Once the bound on late jobs is met, only the ends are left to improve, which gets a quarter of the steps.
func (s *solver) neighbourhoods() {
	s.restore()
	polish := s.left / 4
	for _, j := range s.lateJobs() {
		if s.left <= 0 || s.best.Late <= s.bound {
			break
		}
		s.neighbourhood(s.conflict(j, widest))
	}
	polishing := false
	for tries := 0; s.left > 0 && !s.settled() && tries < maxTries; tries++ {
		some := s.lateJobs()
		if s.best.Late <= s.bound || len(some) == 0 {
			if !polishing {
				polishing, s.left = true, min(s.left, polish)
			}
			some = s.delayed()
		}
		if len(some) == 0 {
			return
		}
		s.neighbourhood(s.conflict(some[s.rand.IntN(len(some))], 2+s.rand.IntN(widest-1)))
	}
}

const (
	widest   = 5       // jobs of a neighbourhood
	maxTries = 100_000 // of neighbourhoods: some have no task to place, and cost no step
)

// lateJobs are those of the best solution that are late but would not be alone.
func (s *solver) lateJobs() (out []int32) {
	for j := range s.p.Jobs {
		if s.end[j] > s.p.Jobs[j].Due && s.shapes[j].earliest <= s.p.Jobs[j].Due {
			out = append(out, int32(j))
		}
	}
	return out
}

// delayed are the jobs that end later than they would alone.
func (s *solver) delayed() (out []int32) {
	for j := range s.p.Jobs {
		if s.end[j] > s.shapes[j].earliest {
			out = append(out, int32(j))
		}
	}
	return out
}

// conflict is j and up to n-1 others that run while it could: drawn, or all if there are no more.
func (s *solver) conflict(j int32, n int) []int32 {
	from, until := max(s.p.Now, s.p.Jobs[j].Release), s.end[j]
	var others []int32
	for k := range s.p.Jobs {
		if k := int32(k); k != j && len(s.tasks[k]) > 0 && s.end[k] > from && s.first(k) < until {
			others = append(others, k)
		}
	}
	s.rand.Shuffle(len(others), func(a, b int) { others[a], others[b] = others[b], others[a] })
	return append([]int32{j}, others[:min(n-1, len(others))]...)
}

// first is the first start of a job.
func (s *solver) first(j int32) unit.Time {
	at := unit.Never
	for _, t := range s.tasks[j] {
		at = min(at, s.start[t])
	}
	return at
}

// neighbourhood takes jobs out and puts them in again in all orders, by deadline first, with bounds; a better schedule
// stays.
func (s *solver) neighbourhood(jobs []int32) {
	type place struct {
		at unit.Time
		on int32
	}
	old := make([][]place, len(jobs))
	ends := make([]unit.Time, len(jobs))
	for k, j := range jobs {
		for _, t := range s.tasks[j] {
			old[k] = append(old[k], place{s.start[t], s.on[t]})
		}
		ends[k] = s.end[j]
		s.remove(j)
	}
	found := s.best.Late
	sum := s.sum
	order := slices.Clone(jobs)
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(s.p.Jobs[a].Due, s.p.Jobs[b].Due), cmp.Compare(a, b))
	})
	s.branchJobs(order, 0)
	improved := s.best.Late < found || s.sum < sum
	for k, j := range jobs {
		for i, t := range s.tasks[j] {
			s.start[t], s.on[t] = old[k][i].at, old[k][i].on
			if improved {
				s.start[t], s.on[t] = s.best.Start[t], s.best.On[t]
			}
			s.hold(t, +1)
		}
		end := ends[k]
		if improved {
			end = s.best.End[j]
		}
		s.count(j, end)
	}
}

// branchJobs places the jobs from position k on in all orders.
func (s *solver) branchJobs(jobs []int32, k int) {
	if k == len(jobs) {
		s.keep()
		return
	}
	for i := k; i < len(jobs) && s.left > 0; i++ {
		jobs[k], jobs[i] = jobs[i], jobs[k]
		s.place(jobs[k])
		if s.promising() {
			s.branchJobs(jobs, k+1)
		}
		s.remove(jobs[k])
		jobs[k], jobs[i] = jobs[i], jobs[k]
	}
}
