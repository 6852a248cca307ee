package metrics

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Summary describes a sample. Values that are no numbers are left out.
type Summary struct {
	N                    int
	Mean, SD             float64 // SD with divisor N-1; 0 for one value
	Min, P5, P25, Median float64
	P75, P95, P99, Max   float64
	// LowWhisker and HighWhisker are the least and the largest value within 1.5 interquartile ranges of the quartiles.
	LowWhisker, HighWhisker float64
}

// Summarise describes a sample; all fields but N are NaN if it is empty. Percentiles are interpolated linearly between
// order statistics.
func Summarise(values []float64) Summary {
	x := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	nan := math.NaN()
	if len(x) == 0 {
		return Summary{0, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan}
	}
	slices.Sort(x)
	s := Summary{N: len(x), Mean: stat.Mean(x, nil), Min: x[0], P5: Percentile(x, 5), P25: Percentile(x, 25),
		Median: Percentile(x, 50),
		P75:    Percentile(x, 75), P95: Percentile(x, 95), P99: Percentile(x, 99), Max: x[len(x)-1]}
	if len(x) > 1 {
		s.SD = stat.StdDev(x, nil)
	}
	reach := 1.5 * (s.P75 - s.P25)
	low, _ := slices.BinarySearch(x, s.P25-reach)
	s.LowWhisker, s.HighWhisker = x[low], x[low]
	for _, v := range x[low:] {
		if v > s.P75+reach {
			break
		}
		s.HighWhisker = v
	}
	return s
}

// Percentile returns the p-th percentile of an ascending, non-empty sample, interpolated linearly between order
// statistics.
func Percentile(sorted []float64, p float64) float64 {
	at := p / 100 * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	f := at - float64(i)
	return sorted[i]*(1-f) + sorted[i+1]*f
}

// parts is how many batches of consecutive values an interval of one run rests on, and leastPart how many values a
// batch has at least.
const parts, leastPart = 20, 10

// BatchConfidence returns the interval of the mean of consecutive values of one run, which depend on each other: that
// of the means of 20 equal batches, which hardly do if batches are long. Half is NaN if there are fewer than 200
// values.
func BatchConfidence(values []float64) Interval {
	i := Confidence(values)
	if len(values) < parts*leastPart {
		i.Half = math.NaN()
		return i
	}
	means := make([]float64, parts)
	for k := range means {
		means[k] = stat.Mean(values[k*len(values)/parts:(k+1)*len(values)/parts], nil)
	}
	i.Half = Confidence(means).Half
	return i
}

// Interval is the mean of a sample with its 95 % confidence interval: Mean ± Half.
type Interval struct {
	N    int
	Mean float64
	Half float64 // by Student's t; NaN for fewer than two values
}

// Confidence returns the interval of a sample of independent values. Values that are no numbers are left out.
func Confidence(values []float64) Interval {
	x := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(x) == 0 {
		return Interval{0, math.NaN(), math.NaN()}
	}
	i := Interval{N: len(x), Mean: stat.Mean(x, nil), Half: math.NaN()}
	if len(x) > 1 {
		t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(len(x) - 1)}.Quantile(0.975)
		i.Half = t * stat.StdDev(x, nil) / math.Sqrt(float64(len(x)))
	}
	return i
}
