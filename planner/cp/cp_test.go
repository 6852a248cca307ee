package cp_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gantry/planner/cp"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
)

const second = unit.Time(time.Second)

// slots is a need for, or a capacity of, n slots of one kind.
func slots(n int64) unit.Vector { return unit.Vector{n} }

// job adds a job whose tasks, in seconds, follow one another in stages: all of a stage need all of the one before.
func job(p *cp.Problem, release, due int, stages ...[]int) {
	j := int32(len(p.Jobs))
	p.Jobs = append(p.Jobs, cp.Job{Release: unit.Time(release) * second, Due: unit.Time(due) * second})
	var before []int32
	for _, stage := range stages {
		var these []int32
		for _, run := range stage {
			these = append(these, int32(len(p.Tasks)))
			p.Tasks = append(p.Tasks, cp.Task{Job: j, Need: slots(1), Run: time.Duration(run) * time.Second,
				Parents: before})
		}
		before = these
	}
}

// check returns an error of a problem: a parent that does not stand before its child, or a task that fits nowhere.
func check(p *cp.Problem) error {
	for i := range p.Tasks {
		t := &p.Tasks[i]
		if t.Job < 0 || int(t.Job) >= len(p.Jobs) {
			return fmt.Errorf("task %d is of job %d; there are %d jobs", i, t.Job, len(p.Jobs))
		}
		for _, q := range t.Parents {
			if q < 0 || int(q) >= i || p.Tasks[q].Job != t.Job {
				return fmt.Errorf("task %d: parent %d has to be a task of its job that stands before it", i, q)
			}
		}
		if len(t.RunOn) != len(p.Nodes) || len(p.Nodes) > 0 && !slices.Contains(t.RunOn, t.Run) {
			return fmt.Errorf("task %d: it runs %v on %d nodes", i, t.RunOn, len(p.Nodes))
		}
		if t.Run <= 0 || !t.Need.Fits(p.Capacity) {
			return fmt.Errorf("task %d runs %v and needs %v of %v: it has to take some time, and to fit", i, t.Run,
				t.Need, p.Capacity)
		}
	}
	return nil
}

func solve(t *testing.T, p *cp.Problem, steps int) *cp.Solution {
	t.Helper()
	if err := check(p); err != nil {
		t.Fatal(err)
	}
	s := cp.Solve(p, steps)
	verify(t, p, s)
	return s
}

// fataler is what a test and a rapid test have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// verify checks a schedule against the constraints, and the objectives it claims.
func verify(t fataler, p *cp.Problem, s *cp.Solution) {
	t.Helper()
	ends := make([]unit.Time, len(p.Jobs))
	for j := range ends {
		ends[j] = max(p.Now, p.Jobs[j].Floor)
	}
	for i, x := range p.Tasks {
		if s.Start[i] < max(p.Now, p.Jobs[x.Job].Release, x.After) {
			t.Fatalf("task %d starts at %v", i, s.Start[i])
		}
		for _, q := range x.Parents {
			if s.Start[i] < s.Start[q].Add(p.Tasks[q].Run) {
				t.Fatalf("task %d starts at %v, before its parent %d has ended", i, s.Start[i], q)
			}
		}
		ends[x.Job] = max(ends[x.Job], s.Start[i].Add(x.Run))
		used := unit.Vector{} // usage rises only where something starts
		for _, f := range p.Fixed {
			if f.End > s.Start[i] {
				used = used.Add(f.Hold)
			}
		}
		for k, y := range p.Tasks {
			if s.Start[k] <= s.Start[i] && s.Start[i] < s.Start[k].Add(y.Run) {
				used = used.Add(y.Need)
			}
		}
		if !used.Fits(p.Capacity) {
			t.Fatalf("%v of %v are used at %v", used, p.Capacity, s.Start[i])
		}
	}
	late, sum := 0, 0.0
	for j, e := range ends {
		if s.End[j] != e {
			t.Fatalf("job %d ends at %v, not at %v", j, e, s.End[j])
		}
		if e > p.Jobs[j].Due {
			late++
		}
		sum += e.Sub(p.Now).Seconds()
	}
	if late != s.Late || sum < s.Ends-1e-6 || sum > s.Ends+1e-6 || s.Bound > s.Late {
		t.Fatalf("%d late, ends sum to %v; it says %d, %v, at least %d late", late, sum, s.Late, s.Ends, s.Bound)
	}
}

func TestJobsThatOnlyFitByDeadlineOrder(t *testing.T) {
	p := &cp.Problem{Capacity: slots(1)}
	job(p, 0, 30, []int{10})
	job(p, 0, 9, []int{8})
	s := solve(t, p, 1000)
	if s.Late != 0 || s.Start[1] != 0 || s.Start[0] != 8*second {
		t.Errorf("%+v", s)
	}
}

// Worked example of RM-DCWF's remapping by laxity: the deadlines' order makes one job late, the order of laxity none.
func TestJobsThatOnlyFitByLaxity(t *testing.T) {
	p := &cp.Problem{Capacity: slots(2)}
	job(p, 0, 10, []int{5})
	job(p, 0, 10, []int{5})
	job(p, 0, 11, []int{10})
	if s := solve(t, p, 1000); s.Late != 0 || s.Start[2] != 0 || s.Ends != 25 {
		t.Errorf("%+v", s)
	}
}

func TestOneLateJobIsGivenUpForTwo(t *testing.T) {
	p := &cp.Problem{Capacity: slots(1)}
	job(p, 0, 10, []int{10})
	job(p, 0, 11, []int{5})
	job(p, 0, 12, []int{6})
	s := solve(t, p, 0)
	if s.Late != 1 || s.End[0] != 21*second || s.Bound != 1 || s.Late != s.Bound {
		t.Errorf("%+v", s)
	}
}

func TestMapTasksAndReduceTasksHaveSlotsOfTheirOwn(t *testing.T) {
	p := &cp.Problem{Capacity: unit.Vector{1, 1}}
	job(p, 0, 20, []int{4, 4}, []int{6})
	job(p, 0, 20, []int{3}, []int{5})
	for i := range p.Tasks {
		if len(p.Tasks[i].Parents) > 0 {
			p.Tasks[i].Need = unit.Vector{0, 1}
		}
	}
	// Maps 3, 7, 11; the reduce task of the second job from 3 to 8, that of the first from 11 to 17.
	if s := solve(t, p, 1000); s.Late != 0 || s.End[0] != 17*second || s.End[1] != 8*second {
		t.Errorf("%+v", s)
	}
}

func TestStartedTasksStayAndHoldTheirSlots(t *testing.T) {
	p := &cp.Problem{Now: 100 * second, Capacity: slots(2), Fixed: []cp.Stay{{Hold: slots(1), End: 105 * second},
		{Hold: slots(1), End: 103 * second}}}
	job(p, 0, 110, []int{4})
	p.Jobs[0].Floor = 105 * second
	p.Tasks[0].After = 105 * second
	job(p, 0, 109, []int{6})
	job(p, 0, 104, []int{2})
	s := solve(t, p, 1000)
	if s.Start[1] != 103*second || s.Start[0] != 105*second || s.Late != 1 || s.Bound != 1 || s.Start[2] != 109*second {
		t.Errorf("%+v", s)
	}
}

func TestJobsWithoutTasksToPlaceStillCount(t *testing.T) {
	p := &cp.Problem{Now: 5 * second, Capacity: slots(1), Fixed: []cp.Stay{{Hold: slots(1), End: 8 * second}}}
	p.Jobs = []cp.Job{{Due: 7 * second, Floor: 8 * second}}
	if s := solve(t, p, 10); s.Late != 1 || s.End[0] != 8*second || s.Late != s.Bound {
		t.Errorf("%+v", s)
	}
}

// exhaustive tries every start of every task on a grid of seconds.
func exhaustive(p *cp.Problem, horizon int) (late int) {
	late = len(p.Jobs) + 1
	start := make([]unit.Time, len(p.Tasks))
	used := make([]unit.Vector, horizon+1)
	for _, f := range p.Fixed {
		for s := int(p.Now / second); s < int(f.End/second); s++ {
			used[s] = used[s].Add(f.Hold)
		}
	}
	var try func(i int)
	try = func(i int) {
		if i == len(p.Tasks) {
			n := 0
			for j := range p.Jobs {
				end := max(p.Now, p.Jobs[j].Floor)
				for k, t := range p.Tasks {
					if int(t.Job) == j {
						end = max(end, start[k].Add(t.Run))
					}
				}
				if end > p.Jobs[j].Due {
					n++
				}
			}
			late = min(late, n)
			return
		}
		t := &p.Tasks[i]
		from := max(p.Now, p.Jobs[t.Job].Release, t.After)
		for _, q := range t.Parents {
			from = max(from, start[q].Add(p.Tasks[q].Run))
		}
		run := int(t.Run / time.Second)
		for s := int(from / second); s+run <= horizon; s++ {
			fits := true
			for x := s; x < s+run; x++ {
				fits = fits && used[x].Add(t.Need).Fits(p.Capacity)
			}
			if !fits {
				continue
			}
			for x := s; x < s+run; x++ {
				used[x] = used[x].Add(t.Need)
			}
			start[i] = unit.Time(s) * second
			try(i + 1)
			for x := s; x < s+run; x++ {
				used[x] = used[x].Sub(t.Need)
			}
		}
	}
	try(0)
	return late
}

// small draws a problem that can be searched exhaustively.
func small(t *rapid.T) (p *cp.Problem, horizon int) {
	p = &cp.Problem{Now: 1 * second, Capacity: unit.Vector{rapid.Int64Range(1, 3).Draw(t, "slots"),
		rapid.Int64Range(1, 2).Draw(t, "other slots")}}
	horizon = 4
	if rapid.Bool().Draw(t, "started") {
		p.Fixed = []cp.Stay{{Hold: slots(1), End: unit.Time(rapid.IntRange(2, 4).Draw(t, "end")) * second}}
	}
	tasks := rapid.IntRange(1, 5).Draw(t, "tasks")
	for i := range tasks {
		if i == 0 || rapid.IntRange(0, 2).Draw(t, "new job") > 0 {
			p.Jobs = append(p.Jobs, cp.Job{Release: unit.Time(rapid.IntRange(0, 3).Draw(t, "release")) * second,
				Due: unit.Time(rapid.IntRange(2, 9).Draw(t, "due")) * second})
		}
		x := cp.Task{Job: int32(len(p.Jobs) - 1), Run: time.Duration(rapid.IntRange(1, 3).Draw(t, "run")) * time.Second,
			Need: slots(1)}
		if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
			x.Need = unit.Vector{0, 1}
		} else if p.Capacity[0] > 1 && rapid.IntRange(0, 3).Draw(t, "wide") == 0 {
			x.Need = slots(2)
		}
		for q := range p.Tasks {
			if p.Tasks[q].Job == x.Job && rapid.Bool().Draw(t, "edge") {
				x.Parents = append(x.Parents, int32(q))
			}
		}
		if len(p.Fixed) > 0 && rapid.IntRange(0, 3).Draw(t, "after") == 0 {
			x.After = p.Fixed[0].End
		}
		horizon += int(x.Run / time.Second)
		p.Tasks = append(p.Tasks, x)
	}
	return p, horizon
}

func TestSmallProblemsAreSolvedAsExhaustiveSearchSolvesThem(t *testing.T) {
	seedtest.Check(t, func(t *rapid.T) {
		p, horizon := small(t)
		if err := check(p); err != nil {
			t.Fatalf("%v", err)
		}
		late := exhaustive(p, horizon)
		s := cp.Solve(p, 1_000_000)
		verify(t, p, s)
		if s.Late != late || s.Bound != late {
			t.Fatalf("%d late, at least %d; exhaustive search finds %d", s.Late, s.Bound, late)
		}
		// Without search the bound has to hold all the same, and the solution to be one.
		quick := cp.Solve(p, 0)
		verify(t, p, quick)
		if quick.Bound > late || quick.Late < late {
			t.Fatalf("at least %d late, %d found; exhaustive search finds %d", quick.Bound, quick.Late, late)
		}
	})
}

// crowd draws jobs in two stages of which not all can be on time.
func crowd(seed uint64, jobs int) *cp.Problem {
	r := rand.New(rand.NewPCG(seed, 5))
	p := &cp.Problem{Capacity: unit.Vector{20, 20}}
	for range jobs {
		var maps, reduces []int
		for range 1 + r.IntN(20) {
			maps = append(maps, 1+r.IntN(50))
		}
		for range 1 + r.IntN(10) {
			reduces = append(reduces, 10+r.IntN(100))
		}
		release := r.IntN(100)
		job(p, release, release+60+r.IntN(int(25*jobs)), maps, reduces)
	}
	for i := range p.Tasks {
		if len(p.Tasks[i].Parents) > 0 {
			p.Tasks[i].Need = unit.Vector{0, 1}
		}
	}
	return p
}

func TestTheSameProblemHasTheSameSolution(t *testing.T) {
	p := crowd(3, 15)
	a, b := solve(t, p, 20_000), solve(t, p, 20_000)
	if !reflect.DeepEqual(a, b) {
		t.Error("two searches of one problem differ")
	}
}
