// Package budget splits the end-to-end deadline of a workflow into sub-deadlines of its tasks: the Deadline Budgeting
// Algorithm for Workflows of Lim, Majumdar and Ashwood-Smith, Journal of Cloud Computing 6(1), 2017 (RM-DCWF),
// Algorithms 1 to 3.
package budget

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gantry/planner/exact"
	"gantry/planner/unit"
)

// Job is a workflow with a deadline. Times are on the axis of the run.
type Job struct {
	Start  unit.Time     // s_j, the earliest start
	Due    unit.Time     // d_j
	Sample time.Duration // SET_j, how long it takes by the sample schedule
	Tasks  []Task        // any order
}

// Task is a task of a job in its sample schedule.
type Task struct {
	Parents []int32 // indices into Tasks
	Stage   int32   // execution phase as it was given; any integers that ascend
	Dummy   bool    // it runs for no time and only orders others
	End     unit.Time
}

// Distribution says how the laxity of a job becomes that of its tasks.
type Distribution uint8

const (
	Proportional Distribution = iota // to where in the sample schedule a task ends (PD, Algorithm 2)
	Even                             // over the execution phases (ED, Algorithm 3)
)

// Laxity is the time a job has to spare if it begins at its earliest start: L_j = d_j - s_j - SET_j (equation 1). It
// may be negative. Without a deadline it is the longest duration.
func (j *Job) Laxity() time.Duration { return Laxity(j.Start, j.Due, j.Sample) }

// Laxity is d_j - s_j - SET_j (equation 1).
func Laxity(start, due unit.Time, sample time.Duration) time.Duration {
	if due == unit.Never {
		return math.MaxInt64
	}
	return due.Sub(start) - sample
}

// CompareNormalized orders jobs by NL_j = L_j / SET_j (equation 3), exactly: how stringent a deadline is, at any length
// of the job. Without a deadline it is infinite, and without a length as infinite as the laxity is positive.
func CompareNormalized(laxity, sample, laxity2, sample2 time.Duration) int {
	if a, b := infinite(laxity, sample), infinite(laxity2, sample2); a != 0 || b != 0 {
		return cmp.Compare(a, b)
	}
	if c := cmp.Compare(sign(laxity), sign(laxity2)); c != 0 {
		return c
	}
	// laxity/sample < laxity2/sample2, both lengths being positive
	a, b := magnitude(laxity).Times(uint64(sample2)), magnitude(laxity2).Times(uint64(sample))
	return sign(laxity) * a.Compare(b)
}

// infinite returns the sign of a normalized laxity that is infinite, else 0.
func infinite(laxity, sample time.Duration) int {
	switch {
	case laxity == math.MaxInt64:
		return 1
	case sample > 0:
		return 0
	}
	return sign(laxity)
}

func sign(d time.Duration) int { return cmp.Compare(d, 0) }

func magnitude(d time.Duration) exact.Number { return exact.Int(uint64(max(d, -d))) }

// SubDeadlines returns when each task should have ended at the latest: sd_t = SCT_t + CL_t (equation 2), where SCT_t is
// its end in the sample schedule and CL_t the share of the laxity that it and the tasks before it may use. Parents of a
// common child then all get the latest sub-deadline among them; order is the topological order in which that is done,
// so that raised values are seen. Tasks of a job without a deadline have none either.
func (j *Job) SubDeadlines(d Distribution, order []int32) []unit.Time {
	if j.Due == unit.Never {
		return slices.Repeat([]unit.Time{unit.Never}, len(j.Tasks))
	}
	sub := make([]unit.Time, len(j.Tasks))
	var phases []int32
	count := int32(1)
	if d == Even {
		phases, count = j.phases(order)
	}
	laxity := j.Laxity()
	for _, i := range order {
		t := &j.Tasks[i]
		var cumulative time.Duration
		switch {
		case d == Even:
			cumulative = scale(laxity, int64(phases[i]), int64(count))
		case j.Sample > 0:
			cumulative = scale(laxity, int64(t.End-j.Start), int64(j.Sample))
		default:
			cumulative = laxity
		}
		sub[i] = t.End.Add(cumulative)
		if len(t.Parents) > 1 {
			var latest unit.Time = math.MinInt64
			for _, p := range t.Parents {
				latest = max(latest, sub[p])
			}
			for _, p := range t.Parents {
				sub[p] = latest
			}
		}
	}
	return sub
}

// phases numbers the execution phases that tasks belong to from 1. A dummy task belongs to that of its parents.
func (j *Job) phases(order []int32) (of []int32, count int32) {
	var stages []int32
	for i := range j.Tasks {
		if !j.Tasks[i].Dummy {
			stages = append(stages, j.Tasks[i].Stage)
		}
	}
	slices.Sort(stages)
	stages = slices.Compact(stages)
	of = make([]int32, len(j.Tasks))
	for _, i := range order {
		t := &j.Tasks[i]
		if !t.Dummy {
			k, _ := slices.BinarySearch(stages, t.Stage)
			of[i] = int32(k) + 1
			continue
		}
		of[i] = 1
		for _, p := range t.Parents {
			of[i] = max(of[i], of[p])
		}
	}
	return of, int32(max(1, len(stages)))
}

// scale returns d*part/whole, exact and rounded towards zero, for 0 <= part <= whole.
func scale(d time.Duration, part, whole int64) time.Duration {
	part = min(max(part, 0), whole)
	return time.Duration(int64(sign(d)) * magnitude(d).Times(uint64(part)).Floor(uint64(whole)))
}
