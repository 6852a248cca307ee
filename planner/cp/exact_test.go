package cp_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"gantry/planner/cp"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
)

// batch draws jobs of up to 15 tasks in all, some of them in stages, on one to three slots, with deadlines that not
// all can meet.
func batch(seed uint64) *cp.Problem {
	r := rand.New(rand.NewPCG(seed, 15))
	p := &cp.Problem{Capacity: slots(1 + r.Int64N(3))}
	wide := r.IntN(3) == 0
	largest, apart := 1+r.IntN(5), 1+r.IntN(20)
	for left := 9 + r.IntN(7); left > 0; {
		n := min(left, 1+r.IntN(largest))
		left -= n
		first := len(p.Tasks)
		work := 0
		for i := range n {
			x := cp.Task{Job: int32(len(p.Jobs)), Need: slots(1), Run: time.Duration(1+r.IntN(9)) * time.Second}
			if wide {
				x.Need = slots(1 + r.Int64N(p.Capacity[0]))
			}
			for q := range i {
				if r.IntN(3) == 0 {
					x.Parents = append(x.Parents, int32(first+q))
				}
			}
			work += int(x.Run / time.Second)
			p.Tasks = append(p.Tasks, x)
		}
		release := unit.Time(0)
		if r.IntN(2) == 0 {
			release = unit.Time(r.IntN(apart)) * second
		}
		p.Jobs = append(p.Jobs, cp.Job{Release: release, Due: release + unit.Time(work+r.IntN(30))*second})
	}
	return p
}

// canBeOnTime reports whether all of some jobs can be on time together, by trying the permutations of their tasks in
// which parents come before children, each task at its earliest instant. A permutation is left when a job cannot be
// on time any more.
func canBeOnTime(p *cp.Problem, jobs []bool) bool {
	for _, last := range p.Jobs { // what is due by then has to be done from the first instant on: this only saves time
		work := int64(0)
		for _, t := range p.Tasks {
			if jobs[t.Job] && p.Jobs[t.Job].Due <= last.Due {
				work += t.Need[0] * int64(t.Run/time.Second)
			}
		}
		if work > p.Capacity[0]*int64(last.Due/second) {
			return false
		}
	}
	const horizon = 400
	var used [horizon]int64
	var tasks []int
	for i, t := range p.Tasks {
		if jobs[t.Job] {
			tasks = append(tasks, i)
		}
	}
	end := make([]int, len(p.Tasks)) // of placed tasks, in seconds; 0: not placed
	seconds := func(t unit.Time) int { return int(t / second) }
	seen := map[string]bool{}
	var try func(left int) bool
	try = func(left int) bool {
		if left == 0 {
			return true
		}
		soonest := make([]int, len(p.Tasks))
		key := make([]byte, 0, len(tasks)) // one schedule comes about by many permutations
		for _, i := range tasks {
			t := &p.Tasks[i]
			if soonest[i] = end[i]; end[i] == 0 {
				from := seconds(p.Jobs[t.Job].Release)
				for _, q := range t.Parents {
					from = max(from, soonest[q])
				}
				soonest[i] = from + int(t.Run/time.Second)
			}
			if soonest[i] > seconds(p.Jobs[t.Job].Due) {
				return false
			}
			key = append(key, byte(end[i]))
		}
		if seen[string(key)] {
			return false
		}
		seen[string(key)] = true
	tasks:
		for _, i := range tasks {
			t := &p.Tasks[i]
			if end[i] > 0 {
				continue
			}
			from, run := seconds(p.Jobs[t.Job].Release), int(t.Run/time.Second)
			for _, q := range t.Parents {
				if end[q] == 0 {
					continue tasks
				}
				from = max(from, end[q])
			}
			for at := from; at < from+run; at++ {
				if used[at]+t.Need[0] > p.Capacity[0] {
					from = at + 1
				}
			}
			if from+run > seconds(p.Jobs[t.Job].Due) {
				return false // it starts no earlier after others
			}
			for at := from; at < from+run; at++ {
				used[at] += t.Need[0]
			}
			end[i] = from + run
			if try(left - 1) {
				return true
			}
			end[i] = 0
			for at := from; at < from+run; at++ {
				used[at] -= t.Need[0]
			}
		}
		return false
	}
	return try(len(tasks))
}

// fewest is the smallest number of late jobs, if that is less than most, else most.
func fewest(p *cp.Problem, most int) int {
	n := len(p.Jobs)
	for set := range 1 << n {
		jobs, late := make([]bool, n), n
		for j := range n {
			if jobs[j] = set>>j&1 == 1; jobs[j] {
				late--
			}
		}
		if late == most-1 && canBeOnTime(p, jobs) {
			return fewest(p, late)
		}
	}
	return most
}

// TestBatchesOfFewTasksHaveTheFewestLateJobs: an exhaustive search over permutations is the oracle.
func TestBatchesOfFewTasksHaveTheFewestLateJobs(t *testing.T) {
	searched := 0
	for seed := range seedtest.Seeds(t, 300) {
		p := batch(seed)
		if len(p.Tasks) > 13 && (testing.Short() || seed%10 > 0) {
			continue // the oracle takes long
		}
		s := cp.Solve(p, cp.Options{Steps: 20_000, Seed: 1})
		verify(t, p, s)
		if cp.Solve(p, cp.Options{}).Late > s.Late {
			searched++
		}
		if late := fewest(p, s.Late); s.Late != late || s.Late != s.Bound {
			t.Errorf("seed %d: %d jobs late, at least %d; exhaustive search finds %d", seed, s.Late, s.Bound, late)
		}
	}
	if searched < seedtest.Times(300)/60 {
		t.Errorf("search was needed %d times only", searched)
	}
}
