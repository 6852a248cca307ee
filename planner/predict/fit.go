package predict

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"gantry/planner/unit"
)

// Method is a way to predict.
type Method string

const (
	// of those below, for each kind of task the one with the smallest cross-validated error
	Auto         Method = "auto"
	ByDeclared   Method = "declared" // the runtime in the trace
	ByHistory    Method = "history"  // the median of the measurements
	ByRidge      Method = "ridge"    // ridge regression
	ByPerceptron Method = "mlp"      // a multilayer perceptron with two hidden layers
)

// Methods lists all methods, the simplest first after the default.
func Methods() []Method { return []Method{Auto, ByDeclared, ByHistory, ByRidge, ByPerceptron} }

// ParseMethod reads the name of a method.
func ParseMethod(name string) (Method, error) {
	if m := Method(name); slices.Contains(Methods(), m) {
		return m, nil
	}
	names := make([]string, len(Methods()))
	for i, m := range Methods() {
		names[i] = string(m)
	}
	return "", fmt.Errorf("method %q is not known: choose one of %s", name, strings.Join(names, ", "))
}

const (
	minRidge      = 8   // samples of a kind, from which on ridge regression is tried
	minPerceptron = 30  // and the perceptron
	folds         = 5   // of cross-validation
	maxRatios     = 250 // residuals kept of each regression
)

// Regression predicts a quantity above 0 of one kind of task.
type Regression struct {
	Method Method
	Median float64 `json:",omitempty"` // of history
	Ridge  *Ridge  `json:",omitempty"`
	MLP    *MLP    `json:",omitempty"` // of the logarithm, so that errors count relatively
	// Least and Most bound the measurements: ridge regression predicts no less than half of Least, the perceptron,
	// which cannot be trusted far from its training samples, not beyond half of Least and twice Most.
	Least, Most float64
	// Ratios are measured over predicted of samples that the prediction had not seen (cross-validation), ascending.
	Ratios []float64
}

// Predict returns the point prediction.
func (r *Regression) Predict(f *Features) float64 {
	x := f.vector()
	switch r.Method {
	case ByRidge:
		return max(r.Ridge.Predict(x[:]), r.Least/2)
	case ByPerceptron:
		return min(max(math.Exp(r.MLP.Predict(x[:])), r.Least/2), 2*r.Most)
	}
	return r.Median
}

// Interval returns the interval that a new measurement lies in with the given probability if it is exchangeable with
// the training samples, by the quantiles of the residuals of cross-validation (split conformal prediction; Papadopoulos
// et al. 2002). With fewer than 2 / (1 - probability) - 1 samples the residuals reach no further than their least and
// largest.
func (r *Regression) Interval(f *Features, probability float64) (low, high float64) {
	p, n := r.Predict(f), float64(len(r.Ratios))
	if n == 0 {
		return p, p
	}
	tail := (1 - probability) / 2
	lo := int(math.Floor((n+1)*tail)) - 1
	hi := int(math.Ceil((n+1)*(1-tail))) - 1
	return p * r.Ratios[max(0, lo)], p * r.Ratios[min(len(r.Ratios)-1, hi)]
}

// deviation is the standard deviation of residuals, relative to the prediction.
func (r *Regression) deviation() float64 {
	if len(r.Ratios) < 2 {
		return 0
	}
	return stat.StdDev(r.Ratios, nil)
}

// fit trains by one method. Rows are features, targets above 0.
func fit(method Method, x [][]float64, y []float64, seed uint64) *Regression {
	r := &Regression{Method: method, Least: slices.Min(y), Most: slices.Max(y)}
	switch method {
	case ByRidge:
		r.Ridge = FitRidge(x, y, ridgePenalty)
	case ByPerceptron:
		logs := make([]float64, len(y))
		for i := range y {
			logs[i] = math.Log(y[i])
		}
		r.MLP = FitMLP(x, logs, seed)
	default:
		r.Median = median(y)
	}
	return r
}

func median(y []float64) float64 { return middle(slices.Sorted(slices.Values(y))) }

// middle is the median of a sorted list.
func middle(s []float64) float64 {
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// fits are the regressions of one quantity of one kind.
type fits struct {
	samples int
	by      map[Method]*Regression
	// predictions by each of every sample that it was not trained on; of ByDeclared the declared values
	unseen map[Method][]float64
	errors map[Method]float64 // cross-validated mean absolute percentage errors
	best   Method
}

// fitAll trains by every method for which there are samples enough, each with its cross-validated error. Declared has
// the declared value of each sample; nil if there is none.
func fitAll(features []Features, y, declared []float64, seed uint64) *fits {
	n := len(y)
	f := &fits{samples: n, by: map[Method]*Regression{}, unseen: map[Method][]float64{}, errors: map[Method]float64{}}
	x := make([][]float64, n)
	for i := range features {
		v := features[i].vector()
		x[i] = v[:]
	}
	if declared != nil && n >= 2 {
		f.unseen[ByDeclared] = declared
	}
	for _, method := range []Method{ByHistory, ByRidge, ByPerceptron} {
		if method == ByRidge && n < minRidge || method == ByPerceptron && n < minPerceptron {
			continue
		}
		r := fit(method, x, y, seed)
		if n >= 2 {
			f.unseen[method] = r.validate(method, features, x, y, seed)
		}
		f.by[method] = r
	}
	for method, p := range f.unseen {
		sum := 0.0
		for i := range y {
			sum += math.Abs(p[i]-y[i]) / y[i]
		}
		f.errors[method] = 100 * sum / float64(n)
	}
	f.best = least(f.errors)
	return f
}

// remaining returns the errors of the time left at half of every sample, cross-validated, too.
func (f *fits) remaining(y []float64) map[Method]float64 {
	errors := map[Method]float64{}
	for method, p := range f.unseen {
		sum := 0.0
		for i := range y {
			half := y[i] / 2
			sum += math.Abs(f.by[method].remaining(p[i], half)-half) / half
		}
		errors[method] = 100 * sum / float64(len(y))
	}
	return errors
}

// least returns the method with the smallest error, the simpler of equals; history if nothing is known.
func least(errors map[Method]float64) Method {
	best, found := ByHistory, false
	for _, method := range Methods() {
		if e, ok := errors[method]; ok && (!found || e < errors[best]) {
			best, found = method, true
		}
	}
	return best
}

// validate predicts each sample by a regression that was trained without it and its fold, and keeps measured over
// predicted.
func (r *Regression) validate(method Method, features []Features, x [][]float64, y []float64, seed uint64) []float64 {
	n := len(y)
	unseen := make([]float64, n)
	for fold := range min(folds, n) {
		var tx [][]float64
		var ty []float64
		for i := range y {
			if i%folds != fold {
				tx, ty = append(tx, x[i]), append(ty, y[i])
			}
		}
		part := fit(method, tx, ty, seed)
		for i := fold; i < n; i += folds {
			unseen[i] = part.Predict(&features[i])
			r.Ratios = append(r.Ratios, y[i]/unseen[i])
		}
	}
	slices.Sort(r.Ratios)
	if len(r.Ratios) > maxRatios { // evenly spaced ones will do
		thin := make([]float64, maxRatios)
		for i := range thin {
			thin[i] = r.Ratios[(i*(len(r.Ratios)-1))/(maxRatios-1)]
		}
		r.Ratios = thin
	}
	return unseen
}

// Fits are models of all methods trained on the same samples.
type Fits struct {
	seed  uint64
	kinds map[string]kindFits
}

type kindFits struct {
	samples   int
	mean      float64 // of the runtime, as work: the plain mean to compare with
	runtime   *fits
	remaining map[Method]float64 // errors of the time left at half
	memory    *fits              // nil: peaks are not known
	input     span               // of the samples with peaks
	declared  span
}

// span is the range of a feature in the samples.
type span struct{ Least, Most unit.Bytes }

func (s span) has(x unit.Bytes) bool { return s.Least <= x && x <= s.Most }

// spanOf returns the span of a feature over samples, of which there is at least one.
func spanOf(samples []Features, feature func(Features) unit.Bytes) span {
	s := span{feature(samples[0]), feature(samples[0])}
	for _, f := range samples {
		s.Least, s.Most = min(s.Least, feature(f)), max(s.Most, feature(f))
	}
	return s
}

// Fit trains on samples, which are in the order of time. Its result is a function of them and the seed.
func Fit(samples []Sample, seed uint64) *Fits {
	byKind := map[string][]*Sample{}
	for i := range samples {
		if s := &samples[i]; s.work() > 0 {
			byKind[s.Kind] = append(byKind[s.Kind], s)
		}
	}
	f := &Fits{seed: seed, kinds: map[string]kindFits{}}
	for kind, of := range byKind {
		var features, withPeak []Features
		var work, declared, peaks []float64
		known := true
		for _, s := range of {
			features, work, declared = append(features, s.Features), append(work, s.work()),
				append(declared, s.declaredWork())
			known = known && s.Declared > 0
			if s.Peak > 0 {
				withPeak, peaks = append(withPeak, s.Features.forMemory()), append(peaks, s.peak())
			}
		}
		if !known {
			declared = nil
		}
		k := kindFits{samples: len(of), mean: stat.Mean(work, nil), runtime: fitAll(features, work, declared, seed)}
		k.remaining = k.runtime.remaining(work)
		if len(peaks) > 0 {
			k.memory = fitAll(withPeak, peaks, nil, seed)
			k.input = spanOf(withPeak, func(f Features) unit.Bytes { return f.Input })
			k.declared = spanOf(withPeak, func(f Features) unit.Bytes { return f.Memory })
		}
		f.kinds[kind] = k
	}
	return f
}

// Model takes for each kind the regression of one method, or with Auto the one with the smallest cross-validated error.
// Where a kind has too few samples for the method, history stands in.
func (f *Fits) Model(method Method) *Model {
	m := &Model{Method: method, Seed: f.seed, Features: FeatureNames(), Kinds: map[string]*KindModel{}}
	for name, k := range f.kinds {
		km := &KindModel{Samples: k.samples, Picked: choose(k.runtime, method), Errors: maps.Clone(k.runtime.errors),
			RemainingErrors: maps.Clone(k.remaining)}
		km.Runtime = k.runtime.by[km.Picked]
		if km.RemainingPicked = km.Picked; method == Auto {
			km.RemainingPicked = least(k.remaining)
		}
		if km.RemainingPicked != km.Picked {
			km.Remaining = k.runtime.by[km.RemainingPicked]
		}
		if k.memory != nil {
			km.MemorySamples, km.MemoryErrors, km.MemoryPicked = k.memory.samples, maps.Clone(k.memory.errors),
				choose(k.memory, method)
			if km.MemoryPicked == ByDeclared {
				km.MemoryPicked = ByHistory
			}
			km.Memory, km.MemoryInput, km.MemoryDeclared = k.memory.by[km.MemoryPicked], k.input, k.declared
		}
		m.Kinds[name] = km
	}
	return m
}

func choose(f *fits, method Method) Method {
	if method == Auto {
		return f.best
	}
	if f.by[method] == nil && method != ByDeclared {
		return ByHistory
	}
	return method
}

// Model predicts runtimes, peak memory and remaining times by kind of task.
type Model struct {
	Method   Method
	Seed     uint64
	Features []string
	Kinds    map[string]*KindModel
}

// KindModel is the part of a model for one kind.
type KindModel struct {
	Samples int
	Picked  Method             // the method that predicts runtimes
	Errors  map[Method]float64 // mean absolute percentage errors of runtimes by method, cross-validated
	Runtime *Regression        // of the work, in seconds at speed 1; nil: the declared runtime is used
	// RemainingPicked is the method that estimates the remaining time of running tasks, RemainingErrors are those of
	// the time left at half of each run.
	RemainingPicked Method
	RemainingErrors map[Method]float64
	// nil: Runtime, or the declared runtime if RemainingPicked says so
	Remaining     *Regression        `json:",omitempty"`
	MemorySamples int                `json:",omitempty"`
	MemoryPicked  Method             `json:",omitempty"`
	MemoryErrors  map[Method]float64 `json:",omitempty"`
	Memory        *Regression        `json:",omitempty"` // of the peak, in bytes; nil: not known
	// the inputs and the memory of the samples: beyond them nothing is known of the peak
	MemoryInput    span
	MemoryDeclared span
}

// left returns the regression of the remaining time; nil: the declared runtime is used.
func (k *KindModel) left() *Regression {
	if k.RemainingPicked == ByDeclared || k.Remaining != nil {
		return k.Remaining
	}
	return k.Runtime
}

// KindNames returns the kinds that the model knows, in order.
func (m *Model) KindNames() []string {
	return slices.SortedFunc(maps.Keys(m.Kinds), cmp.Compare[string])
}
