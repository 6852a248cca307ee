package predict

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"gantry/planner/unit"
)

// Method is a way to predict.
type Method string

const (
	// of those below, for each kind of task the one with the smallest cross-validated error
	Auto       Method = "auto"
	ByDeclared Method = "declared" // the runtime in the trace
	ByHistory  Method = "history"  // the median of the measurements
	ByLine     Method = "line"     // local linear regression on the size of the input
	ByRidge    Method = "ridge"    // ridge regression
)

// Methods lists all methods, the simplest first after the default.
func Methods() []Method { return []Method{Auto, ByDeclared, ByHistory, ByLine, ByRidge} }

const (
	minRidge   = 16  // samples of a kind, from which on ridge regression is tried, and all errors are cross-validated
	maxSamples = 400 // of a kind that a regression is trained on; of more it takes evenly spaced ones
)

// Regression predicts a quantity above 0 of one kind of task.
type Regression struct {
	Method Method
	Median float64 `json:",omitempty"` // of history
	Ridge  *Ridge  `json:",omitempty"`
	Line   *Line   `json:",omitempty"`
	// Least and Most bound the measurements: no prediction is less than half of Least.
	Least, Most float64
	Input       span      // of the samples
	Machines    []Machine `json:",omitempty"` // nodes of other speeds than most samples
	// Ratios are measured over predicted of samples that the prediction had not seen (leaving one out), ascending.
	Ratios []float64
}

// Machine has the factor by which runs on nodes of that speed last longer than by their speed.
type Machine struct {
	Speed, Factor float64
	Samples       int
}

const (
	// oneKind is how much the factors of kinds of tasks on one machine differ: the standard deviation of their
	// logarithms. Lotaru's data have 0.15 to 0.25 for five machines.
	oneKind = 0.25
	// trust is how many samples weigh as much as the speed of the node does.
	trust = noise * noise / (oneKind * oneKind)
)

// Predict returns the point prediction.
func (r *Regression) Predict(f *Features) float64 {
	p := r.Median
	switch r.Method {
	case ByRidge:
		x := f.vector()
		p = max(r.Ridge.Predict(x[:]), r.Least/2)
	case ByLine:
		p = max(r.Line.at(float64(f.Input), -1), r.Least/2)
	}
	return p * r.machine(f.Speed).Factor
}

// machine returns what is known of nodes of that speed.
func (r *Regression) machine(speed float64) Machine {
	for _, m := range r.Machines {
		if m.Speed == normal(speed) {
			return m
		}
	}
	return Machine{Speed: speed, Factor: 1}
}

// machinesOf compares the work on nodes of each speed with that on nodes of the most usual one, at the same inputs. It
// returns the samples to train on, each with its work as it would be on a usual node: those of usual nodes, or all if
// that is one alone or all are many. A factor is the geometric mean, drawn to 1: one kind of task may gain more by a
// node than its speed says.
func machinesOf(samples []*Sample) (machines []Machine, of []*Sample, same []float64) {
	counts, usual := map[float64]int{}, samples[0].speed()
	for _, s := range samples {
		if counts[s.speed()]++; counts[s.speed()] > counts[usual] {
			usual = s.speed()
		}
	}
	var features []Features
	for _, s := range samples {
		if s.speed() == usual {
			of, same, features = append(of, s), append(same, s.work()), append(features, s.Features)
		}
	}
	if len(counts) == 1 {
		return []Machine{{usual, 1, len(of)}}, of, same
	}
	f := fitAll(features, same, nil)
	logs := map[float64]float64{}
	for _, s := range samples {
		if s.speed() != usual {
			logs[s.speed()] += math.Log(s.work() / f.by[f.best].Predict(&s.Features))
		}
	}
	for _, v := range slices.Sorted(maps.Keys(counts)) {
		machines = append(machines, Machine{v, math.Exp(logs[v] / (float64(counts[v]) + trust)), counts[v]})
	}
	if len(of) < 2 || len(samples) >= minRidge {
		of, same = samples, make([]float64, len(samples))
		for i, s := range of {
			same[i] = s.work() / math.Exp(logs[s.speed()]/float64(counts[s.speed()]))
		}
	}
	return machines, of, same
}

// growth is how much wider an interval is outside of the range of training: that of the logarithm by so much for each
// factor of e that the input lies beyond the range.
const growth = 0.1

// Interval returns the interval that a new measurement lies in with the given probability. If it is exchangeable with
// the training samples, that follows from the quantiles of the residuals of samples left out (conformal prediction;
// Papadopoulos et al. 2002; Barber et al. 2021). With too few samples for that the logarithms of the residuals are
// taken for normal ones of unknown variance (Student's t: one fewer degrees of freedom than samples). Outside of the
// range of training the interval grows.
func (r *Regression) Interval(f *Features, probability float64) (low, high float64) {
	p, n := r.Predict(f), float64(len(r.Ratios))
	tail := (1 - probability) / 2
	var lo, hi float64
	if at := int(math.Floor((n+1)*tail)) - 1; at >= 0 {
		lo, hi = math.Log(r.Ratios[at]), math.Log(r.Ratios[len(r.Ratios)-1-at])
	} else {
		t := distuv.StudentsT{Sigma: 1, Nu: max(1, n-1)}.Quantile(1 - tail)
		hi = t * r.spread() * math.Sqrt(1+1/max(n, 1))
		lo = -hi
	}
	far := growth * beyond(float64(f.Input), float64(r.Input.Least), float64(r.Input.Most))
	if len(r.Machines) > 0 && r.machine(f.Speed).Speed != r.usual() {
		far = math.Hypot(far, oneKind*math.Sqrt(trust/(trust+float64(r.machine(f.Speed).Samples))))
	}
	if far > 0 {
		far *= distuv.UnitNormal.Quantile(1 - tail)
		lo, hi = -math.Hypot(lo, far), math.Hypot(hi, far)
	}
	return p * math.Exp(lo), p * math.Exp(hi)
}

// usual is the speed of the nodes of most samples.
func (r *Regression) usual() float64 {
	return slices.MaxFunc(r.Machines, func(a, b Machine) int { return a.Samples - b.Samples }).Speed
}

// spread is the standard deviation of the logarithms of residuals.
func (r *Regression) spread() float64 {
	logs := make([]float64, len(r.Ratios))
	for i, x := range r.Ratios {
		logs[i] = math.Log(x)
	}
	return spreadOf(logs)
}

// deviation is the standard deviation of residuals, relative to the prediction.
func (r *Regression) deviation() float64 {
	if len(r.Ratios) < 2 {
		return 0
	}
	return stat.StdDev(r.Ratios, nil)
}

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
	errors map[Method]float64 // mean absolute percentage errors of those
	best   Method
}

// fitAll trains by every method for which there are samples enough, each with its cross-validated error. Declared has
// the declared value of each sample; nil if there is none.
func fitAll(features []Features, y, declared []float64) *fits {
	n := len(y)
	f := &fits{samples: n, by: map[Method]*Regression{}, unseen: map[Method][]float64{}, errors: map[Method]float64{}}
	if declared != nil && n >= 2 {
		f.unseen[ByDeclared] = declared
	}
	for _, method := range []Method{ByHistory, ByLine, ByRidge} {
		if r, unseen := fit(method, features, y); r != nil {
			f.by[method] = r
			if n >= 2 {
				f.unseen[method] = unseen
			}
		}
	}
	for method, p := range f.unseen {
		sum := 0.0
		for i := range y {
			sum += math.Abs(p[i]-y[i]) / y[i]
		}
		f.errors[method] = 100 * sum / float64(n)
	}
	f.best = f.pick(features, y)
	return f
}

// pick chooses by the cross-validated errors. With few samples, of which many an input is small, those tell little of
// larger inputs: there the line is chosen before the median if it predicts the sample of the largest input better, by
// the others.
func (f *fits) pick(features []Features, y []float64) Method {
	if f.samples >= minRidge || f.by[ByLine] == nil {
		return least(f.errors)
	}
	largest := 0
	for i := range features {
		if features[i].Input >= features[largest].Input {
			largest = i
		}
	}
	others, of := slices.Delete(slices.Clone(features), largest, largest+1),
		slices.Delete(slices.Clone(y), largest, largest+1)
	wrong := func(method Method) float64 {
		r, _ := fit(method, others, of)
		if r == nil {
			return math.Inf(1)
		}
		return math.Abs(math.Log(r.Predict(&features[largest]) / y[largest]))
	}
	best := ByHistory
	if f.samples == 2 || wrong(ByLine) < wrong(ByHistory) {
		best = ByLine
	}
	if e, ok := f.errors[ByDeclared]; ok && e <= f.errors[best] {
		best = ByDeclared
	}
	return best
}

// fit trains by one method, and predicts each of the samples by the others. It is nil if the method has too few
// samples, or if there is nothing to tell inputs apart by. Targets are above 0.
func fit(method Method, features []Features, y []float64) (r *Regression, unseen []float64) {
	n := len(y)
	r = &Regression{Method: method, Least: slices.Min(y), Most: slices.Max(y), Input: inputsOf(features)}
	switch method {
	case ByLine:
		if r.Input.Least == r.Input.Most {
			return nil, nil
		}
		x := make([]float64, n)
		for i := range features {
			x[i] = float64(features[i].Input)
		}
		r.Line = fitLine(x, y)
		unseen = r.Line.unseen(x, y)
	case ByRidge:
		if n < minRidge {
			return nil, nil
		}
		x := make([][]float64, n)
		for i := range features {
			v := features[i].vector()
			x[i] = v[:]
		}
		r.Ridge, unseen = fitRidge(x, y, ridgePenalty)
	default:
		s := slices.Sorted(slices.Values(y))
		r.Median = middle(s)
		for _, v := range y {
			i, _ := slices.BinarySearch(s, v)
			unseen = append(unseen, middleWithout(s, i))
		}
	}
	for i := range unseen {
		unseen[i] = max(unseen[i], r.Least/2)
		r.Ratios = append(r.Ratios, y[i]/unseen[i])
	}
	slices.Sort(r.Ratios)
	return r, unseen
}

// middleWithout is the median of a sorted list without one of its values; itself if that is the only one.
func middleWithout(s []float64, i int) float64 {
	if len(s) == 1 {
		return s[0]
	}
	return middle(slices.Delete(slices.Clone(s), i, i+1))
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

// Fits are models of all methods trained on the same samples.
type Fits struct {
	kinds map[string]kindFits
	usual float64 // memory-time of a task in the mean, in byte-hours
}

type kindFits struct {
	samples   int
	mean      float64 // of the runtime, as work: the plain mean to compare with
	runtime   *fits
	remaining map[Method]float64 // errors of the time left at half
	memory    *fits              // nil: peaks are not known
	peaks     []*Sample          // that memory was trained on
}

// span is the range of inputs in the samples.
type span struct{ Least, Most unit.Bytes }

// inputsOf returns the span of the inputs of samples, of which there is at least one.
func inputsOf(samples []Features) span {
	s := span{samples[0].Input, samples[0].Input}
	for _, f := range samples {
		s.Least, s.Most = min(s.Least, f.Input), max(s.Most, f.Input)
	}
	return s
}

// Fit trains on samples, which are in the order of time. Its result is a function of them.
func Fit(samples []Sample) *Fits {
	byKind := map[string][]*Sample{}
	for i := range samples {
		if s := &samples[i]; s.work() > 0 {
			byKind[s.Kind] = append(byKind[s.Kind], s)
		}
	}
	f := &Fits{kinds: map[string]kindFits{}}
	for kind, of := range byKind {
		f.kinds[kind] = fitKind(of)
	}
	f.usual = usual(samples)
	return f
}

// usual is the memory-time of a sample in the mean.
func usual(samples []Sample) float64 {
	var m average
	for i := range samples {
		if s := &samples[i]; s.Peak > 0 {
			m.add(float64(s.Peak) * s.Ran.Hours())
		}
	}
	return m.sum / max(m.n, 1)
}

func fitKind(all []*Sample) kindFits {
	k := kindFits{samples: len(all)}
	all = thinned(sized(all))
	machines, of, work := machinesOf(all)
	var features []Features
	var declared []float64
	known := true
	for _, s := range of {
		features, declared = append(features, s.Features), append(declared, s.declaredWork())
		known = known && s.Declared > 0
	}
	if !known {
		declared = nil
	}
	k.mean, k.runtime = stat.Mean(work, nil), fitAll(features, work, declared)
	for _, r := range k.runtime.by {
		r.Machines = machines
	}
	k.remaining = k.runtime.remaining(work)
	var withPeak []Features
	var peaks []float64
	for _, s := range all {
		if s.Peak > 0 {
			withPeak, peaks = append(withPeak, s.Features.forMemory()), append(peaks, float64(s.Peak))
			k.peaks = append(k.peaks, s)
		}
	}
	if len(peaks) > 0 {
		k.memory = fitAll(withPeak, peaks, nil)
	}
	return k
}

// sized leaves out the samples whose inputs have no size where most have one.
func sized(all []*Sample) []*Sample {
	with := slices.DeleteFunc(slices.Clone(all), func(s *Sample) bool { return s.Features.Input <= 0 })
	if 2*len(with) <= len(all) {
		return all
	}
	return with
}

// Doubts counts samples that tell less than they might, by the reason.
func Doubts(samples []Sample) map[string]int {
	by, out := map[string][]*Sample{}, map[string]int{}
	for i := range samples {
		by[samples[i].Kind] = append(by[samples[i].Kind], &samples[i])
	}
	for _, of := range by {
		with := sized(of)
		if without := len(of) - len(with); without > 0 {
			out["read nothing, unlike most of their type"] += without
		}
		size := func(a, b *Sample) int { return cmp.Compare(a.Features.Input, b.Features.Input) }
		least, most := slices.MinFunc(with, size), slices.MaxFunc(with, size)
		if size(least, most) == 0 && least.Features.Input > 0 {
			out["are of types with one size of input alone, which tells nothing of others"] += len(with)
		}
	}
	return out
}

// thinned takes evenly spaced samples where there are too many of them.
func thinned(samples []*Sample) []*Sample {
	if len(samples) <= maxSamples {
		return samples
	}
	out := make([]*Sample, maxSamples)
	for i := range out {
		out[i] = samples[(i*(len(samples)-1))/(maxSamples-1)]
	}
	return out
}

// Model takes for each kind the regression of one method, or with Auto the one with the smallest cross-validated error.
// Where a kind has too few samples for the method, history stands in.
func (f *Fits) Model(method Method) *Model {
	m := &Model{Format: format, Method: method, Features: FeatureNames(), Usual: f.usual,
		Kinds: map[string]*KindModel{}}
	for name, k := range f.kinds {
		m.Kinds[name] = k.model(method, f.usual)
	}
	return m
}

// model takes the regressions of one method. Usual is the memory-time of a task.
func (k *kindFits) model(method Method, usual float64) *KindModel {
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
		km.MemorySamples, km.MemoryErrors = k.memory.samples, maps.Clone(k.memory.errors)
		if km.MemoryPicked = choose(k.memory, method); method == Auto && k.memory.samples >= minPeaks {
			km.MemoryPicked = k.thrifty(float64(Balanced) * usual)
		}
		if km.MemoryPicked == ByDeclared {
			km.MemoryPicked = ByHistory
		}
		km.Memory = k.memory.by[km.MemoryPicked]
		if k.memory.samples >= minPeaks {
			km.Peaks = peaksOf(k.peaks, k.memory.unseen[km.MemoryPicked])
		}
		for _, s := range k.peaks {
			if s.Features.Memory == 0 { // without a limit
				km.MemoryHeld = 0
				break
			}
			km.MemoryHeld = max(km.MemoryHeld, s.Features.Memory)
		}
	}
	return km
}

// thrifty returns the method whose limits cost least, over all inputs.
func (k *kindFits) thrifty(failure float64) Method {
	costs := map[Method]float64{}
	for method, unseen := range k.memory.unseen {
		for near := range slices.Chunk(peaksOf(k.peaks, unseen), nearby) {
			_, _, cost := cheapest(near, failure)
			costs[method] += cost
		}
	}
	return least(costs)
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

// format counts the versions of a Model that cannot read each other.
const format = 2

// Current reports whether the model is of this version.
func (m *Model) Current() bool { return m != nil && m.Format == format }

// Model predicts runtimes, peak memory and remaining times by kind of task.
type Model struct {
	Format   int
	Method   Method
	Features []string
	Usual    float64 // memory-time of a task in the mean, in byte-hours
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
	Peaks         []Peak             `json:",omitempty"` // by input
	MemoryHeld    unit.Bytes         `json:",omitempty"` // the most that an attempt was limited to
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
