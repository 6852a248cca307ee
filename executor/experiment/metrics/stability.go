package metrics

import (
	"math"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"gantry/planner"
)

// Batches is how many equal parts of a run Wieland's test looks at; the first one is left out of it.
const Batches = 10

// Wieland is Wieland's test of stability (as in Ilyushkin and Epema, CCGrid 2018, section IV-C) on the mean numbers in
// system of the batches after the first: it rejects stability if the growth from the first to the last of them is more
// than their spread explains. The statistic is growth / (√2 · standard deviation); stability is rejected above the 95 %
// quantile of Student's t with one degree of freedom less than there are means. It is a weak test: for a perfectly
// linear growth of any slope the statistic is 2.07, and saturated but noisy runs pass. Use it together with MeanDrift.
func Wieland(means []float64) (statistic float64, stable bool) {
	if len(means) < 2 {
		return math.NaN(), true
	}
	sd := stat.StdDev(means, nil)
	if sd == 0 {
		return 0, true
	}
	statistic = (means[len(means)-1] - means[0]) / (math.Sqrt2 * sd)
	limit := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(len(means) - 1)}.Quantile(0.95)
	return statistic, !(statistic > limit)
}

// BatchMeans returns the mean numbers of the equal batches of [from, to] that follow the first.
func (s Steps) BatchMeans(from, to planner.Time) []float64 {
	if to <= from {
		return nil
	}
	means := make([]float64, 0, Batches-1)
	bound := func(i int) planner.Time { return from + planner.Time(float64(to-from)*float64(i)/Batches) }
	for i := 1; i < Batches; i++ {
		end := bound(i + 1)
		if i == Batches-1 {
			end = to
		}
		means = append(means, s.Mean(bound(i), end))
	}
	return means
}

// DriftStep is the step of time of the mean Lyapunov drift.
const DriftStep = time.Second

// MeanDrift is the mean Lyapunov drift of the number in system over [from, to]: with l(t) = N(t)²/2, the mean of l(t) −
// l(t−1) over steps of DriftStep, a sum that telescopes. A system is unstable if it exceeds 1 (Ilyushkin and Epema,
// CCGrid 2018, section IV-C, which does not name the step). NaN if there is no whole step.
func (s Steps) MeanDrift(from, to planner.Time) (drift float64, stable bool) {
	steps := int64(to.Sub(from) / DriftStep)
	if steps < 1 {
		return math.NaN(), true
	}
	first, last := float64(s.At(from)), float64(s.At(from+planner.Time(steps*int64(DriftStep))))
	drift = (last*last - first*first) / (2 * float64(steps))
	return drift, !(drift > 1)
}

// Majority reports whether more than half of the verdicts are true; none are no majority.
func Majority(verdicts []bool) bool {
	n := 0
	for _, v := range verdicts {
		if v {
			n++
		}
	}
	return 2*n > len(verdicts)
}

// Bisect finds the largest i of 0, …, n-1 for which stable(i) holds, if it holds up to some i and for none beyond; -1
// if for none. It asks the logarithm of n times.
func Bisect(n int, stable func(i int) (bool, error)) (int, error) {
	low, high := -1, n // stable at low, unstable at high
	for high-low > 1 {
		mid := low + (high-low)/2
		ok, err := stable(mid)
		if err != nil {
			return low, err
		}
		if ok {
			low = mid
		} else {
			high = mid
		}
	}
	return low, nil
}
