package study

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"gantry/executor/experiment"
	"gantry/executor/experiment/metrics"
	"gantry/sqlite/report"
	"gantry/sqlite/results"
)

// data are the results of a study, by the name of the experiment.
type data map[string]*results.Set

// matches reports whether a cell has the parameters of a selector.
func (s Selector) matches(c *results.Cell) bool {
	for k, want := range s {
		if v, has := c.Params[k]; !has || !slices.Contains(want, v) {
			return false
		}
	}
	return true
}

// sample is a metric by repetition, averaged over the cells that a selector chooses.
type sample struct {
	values map[int]float64
	cells  int
	cut    int // runs of them that were cut off
	runs   int // that ended or were cut off
	wanted int // repetitions that the experiment asks for
	// Of judged runs, those that both tests find stable, and each of them.
	stable, wieland, drift, judged int
}

// sample has no cells if one of the values that a selector lists has none: a mean over others is not comparable.
func (d data) sample(of string, sel Selector, metric string) sample {
	out := sample{values: map[int]float64{}}
	set := d[of]
	if set == nil {
		return out
	}
	out.wanted = set.Repetitions
	for param, values := range sel {
		for _, v := range values {
			if !slices.ContainsFunc(set.Cells, sel.with(Selector{param: {v}}).matches) {
				return out
			}
		}
	}
	sums, counts := map[int]float64{}, map[int]int{}
	for _, c := range set.Cells {
		if !sel.matches(c) {
			continue
		}
		out.cells++
		for i := range c.Runs {
			r := &c.Runs[i]
			if r.State == experiment.Failed {
				continue
			}
			out.runs++
			if w, ok := r.Values["wieland_stable"]; ok {
				drift := int(r.Values["drift_stable"])
				out.judged, out.wieland, out.drift = out.judged+1, out.wieland+int(w), out.drift+drift
				out.stable += int(w) * drift
			}
			if r.State == experiment.Diverged {
				if out.cut++; !strings.HasSuffix(metric, "_stable") {
					continue
				}
			}
			if v, ok := value(r, metric); ok {
				sums[r.Repetition] += v
				counts[r.Repetition]++
			}
		}
	}
	for rep, n := range counts {
		if n == out.cells { // of an interrupted experiment only the repetitions that all cells have
			out.values[rep] = sums[rep] / float64(n)
		}
	}
	return out
}

// value is a metric of a run, or one less another.
func value(r *results.Run, metric string) (float64, bool) {
	first, second, difference := strings.Cut(metric, "-")
	v, ok := r.Values[first]
	if difference {
		less, has := r.Values[second]
		v, ok = v-less, ok && has
	}
	return v, ok
}

func (s *sample) list() []float64 {
	var out []float64
	for _, rep := range slices.Sorted(maps.Keys(s.values)) {
		out = append(out, s.values[rep])
	}
	return out
}

func (s *sample) interval(scale float64) report.Interval {
	i := metrics.Confidence(s.list())
	return report.Interval{N: i.N, Mean: i.Mean * scale, Half: i.Half * scale}
}

// pair returns the values of the repetitions that both have, which met the same load.
func pair(a, b *sample) (x, y []float64) {
	for _, rep := range slices.Sorted(maps.Keys(a.values)) {
		if v, ok := b.values[rep]; ok {
			x, y = append(x, a.values[rep]), append(y, v)
		}
	}
	return x, y
}

// ratio is the interval of mean(x)/mean(y) over paired values, by the standard error of the ratio estimator: that of
// x - r·y over the mean of y.
func ratio(x, y []float64) report.Interval {
	n := len(x)
	if n == 0 {
		return report.Interval{Mean: math.NaN(), Half: math.NaN()}
	}
	mean := stat.Mean(y, nil)
	r := stat.Mean(x, nil) / mean
	out := report.Interval{N: n, Mean: r, Half: math.NaN()}
	if n < 2 {
		return out
	}
	rest := make([]float64, n)
	for i := range x {
		rest[i] = x[i] - r*y[i]
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975)
	out.Half = t * stat.StdDev(rest, nil) / math.Sqrt(float64(n)) / math.Abs(mean)
	return out
}

// share is Wilson's 95 % interval of a share of n.
func share(k, n int) (low, high float64) {
	const z = 1.959964
	p, m := float64(k)/float64(n), float64(n)
	middle := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return middle - half, middle + half
}

// words names parameters and values as pages do.
func (s *Study) words(param, value string) string {
	p := s.Params[param]
	if v, ok := p.Values[value]; ok {
		return v
	}
	if p.Label != "" {
		return p.Label + " " + value
	}
	return value
}

// describe names the parameters of a selector, the policy first.
func (s *Study) describe(sel Selector) string {
	keys := slices.SortedFunc(maps.Keys(sel), func(a, b string) int {
		return cmp.Or(order(a)-order(b), cmp.Compare(a, b))
	})
	var parts []string
	for _, k := range keys {
		var values []string
		for _, v := range sel[k] {
			if w := s.words(k, v); w != "" {
				values = append(values, w)
			}
		}
		if len(values) > 3 {
			values = []string{fmt.Sprintf("mean over %d", len(sel[k])), cmp.Or(s.Params[k].Label, k)}
			parts = append(parts, strings.Join(values, " "))
			continue
		}
		if len(values) > 0 {
			parts = append(parts, strings.Join(values, " and "))
		}
	}
	return strings.Join(parts, ", ")
}

func order(param string) int {
	switch {
	case param == "policy":
		return 0
	case param == "workload", param == "cluster":
		return 1
	}
	return 2
}
