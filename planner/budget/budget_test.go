package budget_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gantry/planner/budget"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
)

const s = unit.Time(time.Second)

// The paper's example of why laxity is normalized.
func TestNormalizedLaxity(t *testing.T) {
	l1, l2 := budget.Laxity(0, 6000*s, 5000*time.Second), budget.Laxity(5500*s, 6000*s, 100*time.Second)
	if l1 != 1000*time.Second || l2 != 400*time.Second {
		t.Fatalf("laxities %v and %v, want 1000 s and 400 s", l1, l2)
	}
	const short, long = 100 * time.Second, 5000 * time.Second
	if budget.CompareNormalized(l1, long, l2, short) != -1 || budget.CompareNormalized(l2, short, l1, long) != 1 {
		t.Fatal("0.2 is not less than 4")
	}
	// Rounded to float64 these are one number.
	const third, more = 1 << 60, 1<<60 + 1
	if budget.CompareNormalized(third, 3, more, 3) != -1 || budget.CompareNormalized(-third, 3, -more, 3) != 1 ||
		budget.CompareNormalized(2, 6, 1, 3) != 0 {
		t.Error("the comparison is not exact")
	}
	if budget.CompareNormalized(math.MaxInt64, 5, third, 1) != 1 ||
		budget.CompareNormalized(math.MaxInt64, 5, math.MaxInt64, 7) != 0 ||
		budget.CompareNormalized(-1, 0, -third, 1) != -1 {
		t.Error("what is infinite is not beyond all others")
	}
}

// figure2 is the structure of the paper's figure 2: t1, t2 and t3 run for 4, 6 and 8 s, the dummy t0 joins them, t4 and
// t5 run for 10 and 5 s; due at 50 s. Ends are those of the sample schedule, of t0 to t5.
func figure2(sample int, ends ...unit.Time) (budget.Job, []int32) {
	j := budget.Job{Due: 50 * s, Sample: time.Duration(sample) * time.Second, Tasks: []budget.Task{
		{Parents: []int32{1, 2, 3}, Stage: 1, Dummy: true}, {}, {}, {}, {Parents: []int32{0}, Stage: 2},
		{Parents: []int32{0}, Stage: 2}}}
	for i := range ends {
		j.Tasks[i].End = ends[i] * s
	}
	return j, []int32{1, 2, 3, 0, 4, 5}
}

func TestBudgetsOfTheExampleJob(t *testing.T) {
	on4, order := figure2(18, 8, 4, 6, 8, 18, 13)
	on2, _ := figure2(20, 10, 10, 6, 8, 20, 15)
	if on4.Laxity() != 32*time.Second || on2.Laxity() != 30*time.Second {
		t.Fatalf("laxities %v and %v, want 32 s and 30 s", on4.Laxity(), on2.Laxity())
	}
	for _, c := range []struct {
		what string
		job  budget.Job
		dist budget.Distribution
		want []float64 // t0 to t5
	}{
		{"PD on 4 slots", on4, budget.Proportional, []float64{22.222222222, 22.222222222, 22.222222222, 22.222222222,
			50, 36.111111111}},
		{"ED on 4 slots", on4, budget.Even, []float64{24, 24, 24, 24, 50, 45}},
		{"PD on 2 slots", on2, budget.Proportional, []float64{25, 25, 25, 25, 50, 37.5}},
		{"ED on 2 slots", on2, budget.Even, []float64{25, 25, 25, 25, 50, 45}},
	} {
		for i, sub := range c.job.SubDeadlines(c.dist, order) {
			if sub.Seconds() != c.want[i] {
				t.Errorf("%s: sub-deadline of t%d %v, want %v", c.what, i, sub.Seconds(), c.want[i])
			}
		}
	}
}

// Before parents are made equal, tasks of one parent show their own values.
func TestOwnSubDeadlinesBeforeParentsAreMadeEqual(t *testing.T) {
	j, order := figure2(18, 8, 4, 6, 8, 18, 13)
	j.Tasks[0].Parents = []int32{3}
	for i, want := range map[int]float64{1: 11.111111111, 2: 16.666666666, 3: 22.222222222} {
		if got := j.SubDeadlines(budget.Proportional, order)[i].Seconds(); got != want {
			t.Errorf("PD: t%d %v, want %v", i, got, want)
		}
	}
	for i, want := range map[int]float64{1: 20, 2: 22, 3: 24} {
		if got := j.SubDeadlines(budget.Even, order)[i].Seconds(); got != want {
			t.Errorf("ED: t%d %v, want %v", i, got, want)
		}
	}
}

func TestJobWithoutDeadlineHasNoSubDeadlines(t *testing.T) {
	j, order := figure2(18, 8, 4, 6, 8, 18, 13)
	j.Due = unit.Never
	for _, sub := range j.SubDeadlines(budget.Even, order) {
		if sub != unit.Never {
			t.Errorf("sub-deadline %v of a job without a deadline", sub)
		}
	}
}

// Whatever the job: no sub-deadline is past the deadline unless the sample schedule is, the last task's is the deadline
// under PD, and with laxity to spare none is before the end in the sample schedule.
func TestSubDeadlinesLieBetweenSampleScheduleAndDeadline(t *testing.T) {
	seedtest.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "tasks")
		j := budget.Job{Start: unit.Time(rapid.Int64Range(0, 1e12).Draw(t, "start"))}
		var order []int32
		last := int32(0)
		for i := range n {
			task := budget.Task{End: j.Start, Stage: int32(rapid.IntRange(0, 3).Draw(t, "stage"))}
			for p := range i {
				if rapid.IntRange(0, 3).Draw(t, "edge") == 0 {
					task.Parents = append(task.Parents, int32(p))
					task.End = max(task.End, j.Tasks[p].End)
				}
			}
			run := rapid.Int64Range(0, 1e13).Draw(t, "run")
			task.Dummy = run == 0
			task.End += unit.Time(run)
			j.Tasks = append(j.Tasks, task)
			order = append(order, int32(i))
			if task.End >= j.Tasks[last].End {
				last = int32(i)
			}
		}
		j.Sample = j.Tasks[last].End.Sub(j.Start)
		j.Due = j.Start + unit.Time(rapid.Int64Range(0, 1e14).Draw(t, "window"))
		for _, d := range []budget.Distribution{budget.Proportional, budget.Even} {
			for i, sub := range j.SubDeadlines(d, order) {
				if sub > max(j.Due, j.Tasks[last].End) {
					t.Fatalf("sub-deadline %v of task %d is past the deadline %v", sub, i, j.Due)
				}
				if j.Laxity() >= 0 && sub < j.Tasks[i].End {
					t.Fatalf("sub-deadline %v of task %d is before its end %v in the sample schedule", sub, i,
						j.Tasks[i].End)
				}
				if d == budget.Proportional && j.Laxity() >= 0 && int32(i) == last && sub != j.Due {
					t.Fatalf("sub-deadline %v of the last task, want the deadline %v", sub, j.Due)
				}
			}
		}
	})
}
