package generate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"gantry/trace"
)

// Every random choice has a stream of its own, so that changing one leaves the others as they were (common random
// numbers).
const (
	structureStream = 1 + iota
	costStream
	kindStream
	classStream
	sizeStream
	totalStream
	arrivalStream
	clusterStream
)

func stream(seed, of uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, of)) }

// Distribution is one of total runtimes: of the sum over the tasks of a workflow.
type Distribution struct {
	Mean time.Duration // exact, as utilisation is computed from it
	draw func(r *rand.Rand) float64
}

// Draw returns n values; the first ones do not depend on n.
func (d *Distribution) Draw(n int, seed uint64) []time.Duration {
	r, out := stream(seed, totalStream), make([]time.Duration, n)
	for i := range out {
		out[i] = seconds(d.draw(r))
	}
	return out
}

// seconds rounds to nanoseconds, saturating below the end of int64.
func seconds(x float64) time.Duration { return time.Duration(math.Round(math.Min(x, 9e9) * 1e9)) }

// Gamma is one stage of a hyper-Gamma distribution; its mean is Shape × Scale.
type Gamma struct {
	Weight       float64 // relative to the other stages
	Shape, Scale float64 // scale in seconds
}

// HyperGamma draws from one of several Gamma distributions.
func HyperGamma(stages ...Gamma) *Distribution {
	mean, total := 0.0, 0.0
	for _, s := range stages {
		mean += s.Weight * s.Shape * s.Scale
		total += s.Weight
	}
	return &Distribution{Mean: seconds(mean / total), draw: func(r *rand.Rand) float64 {
		s, u := stages[len(stages)-1], r.Float64()*total
		for i := range stages {
			if u < stages[i].Weight {
				s = stages[i]
				break
			}
			u -= stages[i].Weight
		}
		return distuv.Gamma{Alpha: s.Shape, Beta: 1 / s.Scale, Src: r}.Rand()
	}}
}

// Lognormal has the given mean and coefficient of variation (standard deviation over mean).
func Lognormal(mean time.Duration, variation float64) *Distribution {
	variance := math.Log1p(variation * variation)
	mu, sigma := math.Log(mean.Seconds())-variance/2, math.Sqrt(variance)
	return &Distribution{Mean: mean, draw: func(r *rand.Rand) float64 {
		return distuv.LogNormal{Mu: mu, Sigma: sigma, Src: r}.Rand()
	}}
}

// Constant gives every workflow the same total.
func Constant(total time.Duration) *Distribution {
	return &Distribution{Mean: total, draw: func(*rand.Rand) float64 { return total.Seconds() }}
}

// Total is the sum of the runtimes of a workflow.
func Total(w *trace.Workflow) (sum time.Duration) {
	for i := range w.Tasks {
		sum += w.Tasks[i].Runtime
	}
	return sum
}

// Rescale multiplies all runtimes of w by one factor, so that they sum to total, to the nanosecond; no runtime is off
// by more than that.
func Rescale(w *trace.Workflow, total time.Duration) error {
	if total <= 0 {
		return fmt.Errorf("workflow %s: a total runtime of %v cannot be reached; it has to be above 0", w.Label, total)
	}
	sum := uint64(0)
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if t.Runtime < 0 || sum+uint64(t.Runtime) > math.MaxInt64 {
			return fmt.Errorf("workflow %s, task %s: runtime %v cannot be scaled: it is negative, or the sum so far "+
				"exceeds 292 years", w.Label, t.ID, t.Runtime)
		}
		sum += uint64(t.Runtime)
	}
	if sum == 0 {
		return fmt.Errorf("workflow %s: its tasks have no runtimes that could be scaled to a total of %v", w.Label,
			total)
	}
	before, scaled := uint64(0), uint64(0)
	for i := range w.Tasks {
		t := &w.Tasks[i]
		before += uint64(t.Runtime)
		hi, lo := bits.Mul64(before, uint64(total))
		to, _ := bits.Div64(hi, lo, sum) // at most total
		t.Runtime = time.Duration(to - scaled)
		scaled = to
	}
	return nil
}

// Arrivals says when n workflows arrive after the start, ascending. mean is the mean total runtime of a workflow.
type Arrivals func(n int, seed uint64, mean time.Duration) ([]time.Duration, error)

// AtOnce lets all arrive at the start.
func AtOnce() Arrivals { return Every(0) }

// Every lets one arrive at the start and one more after each interval.
func Every(interval time.Duration) Arrivals {
	return func(n int, _ uint64, _ time.Duration) ([]time.Duration, error) {
		if n > 0 && interval > math.MaxInt64/time.Duration(n) {
			return nil, fmt.Errorf("arrivals: %d intervals of %v do not fit in 292 years after the start", n, interval)
		}
		at := make([]time.Duration, n)
		for i := range at {
			at[i] = time.Duration(i) * interval
		}
		return at, nil
	}
}

// Poisson has a mean of perHour arrivals an hour. The same seed with another rate gives the same arrivals on a
// stretched axis of time.
// Exact ones are stretched so that n of them take n mean intervals.
func Poisson(perHour float64, exact bool) Arrivals {
	return func(n int, seed uint64, _ time.Duration) ([]time.Duration, error) {
		r, at, now := stream(seed, arrivalStream), make([]time.Duration, n), 0.0
		for i := range at {
			now += r.ExpFloat64() * 3600 / perHour
			at[i] = seconds(now)
		}
		for i := range at {
			if exact {
				at[i] = seconds(at[i].Seconds() * float64(n) * 3600 / perHour / now)
			}
		}
		return at, nil
	}
}

// PoissonIntervals lets workflows arrive at intervals that are Poisson-distributed numbers of seconds with the given
// mean, the first one after one of them: the wording of Wang, MOWS, section 5-1-2.
func PoissonIntervals(mean time.Duration) Arrivals {
	return func(n int, seed uint64, _ time.Duration) ([]time.Duration, error) {
		r, at, now := stream(seed, arrivalStream), make([]time.Duration, n), 0.0
		for i := range at {
			now += distuv.Poisson{Lambda: mean.Seconds(), Src: r}.Rand()
			at[i] = seconds(now)
		}
		return at, nil
	}
}

// Utilised is Poisson with the rate that imposes a utilisation (1 is full) on nodes whose speeds sum to speeds:
// utilisation × speeds / mean total runtime.
func Utilised(utilisation, speeds float64, exact bool) Arrivals {
	return func(n int, seed uint64, mean time.Duration) ([]time.Duration, error) {
		if mean <= 0 {
			return nil, errors.New("arrivals: workflows without runtimes impose no utilisation; give a rate")
		}
		return Poisson(utilisation*speeds/mean.Hours(), exact)(n, seed, mean)
	}
}

// Recorded lets workflows arrive at the first of given times, in any order; there have to be as many as workflows, or
// more.
func Recorded(times []time.Duration) Arrivals {
	return func(n int, _ uint64, _ time.Duration) ([]time.Duration, error) {
		return slices.Sorted(slices.Values(times))[:n:n], nil
	}
}

// SizeClass is a share of the workflows with sizes uniform on Min to Max tasks.
type SizeClass struct {
	Fraction float64 // relative to the other classes
	Min, Max int
	Even     bool // only even sizes
}

// Source is a share of the workflows that are of one kind, or copies of one workflow.
type Source struct {
	Fraction float64
	Kind     string
	Choices  *Choices        // of the parameters of the kind; nil: the usual ones
	Sizes    []SizeClass     // nil: those of the mix
	Workflow *trace.Workflow // instead of Kind; it has its own size
}

// Mix describes the workflows of a load. Fractions are kept to the nearest whole workflow, and the order is random.
type Mix struct {
	Sizes   []SizeClass
	Sources []Source
}

// Recipe describes one workflow of a load, to be made or copied.
type Recipe struct {
	Source   int // of the mix
	Kind     string
	Tasks    int // asked for
	Seed     uint64
	Params   Parameters
	Workflow *trace.Workflow // instead of Kind, to be copied
}

// Label is that of the workflow.
func (r *Recipe) Label() string {
	if r.Workflow != nil {
		return r.Workflow.Label
	}
	k, _ := Find(r.Kind)
	return label(k.title, r.Tasks)
}

// Make makes the workflow, which is the caller's to change.
func (r *Recipe) Make(bare bool) (*trace.Workflow, error) {
	if r.Workflow == nil {
		return New(r.Kind, r.Tasks, r.Seed, Options{Bare: bare, Parameters: r.Params})
	}
	w := *r.Workflow
	w.Tasks = slices.Clone(w.Tasks)
	return &w, nil
}

// Draw returns the recipes of n workflows. Which kinds there are does not change the sizes, nor the other way round.
func (m *Mix) Draw(n int, seed uint64) ([]Recipe, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	fractions := make([]float64, len(m.Sources))
	for i := range m.Sources {
		fractions[i] = m.Sources[i].Fraction
	}
	sources := shuffled(n, fractions, stream(seed, kindStream))
	classes := make([][]int, len(m.Sources)) // by source, which all have the same stream
	for i := range m.Sources {
		var shares []float64
		for _, c := range m.sizes(i) {
			shares = append(shares, c.Fraction)
		}
		if len(shares) > 0 {
			classes[i] = shuffled(n, shares, stream(seed, classStream))
		}
	}
	sizes, out := stream(seed, sizeStream), make([]Recipe, n)
	for i, of := range sources {
		s, u, own := &m.Sources[of], sizes.Float64(), sizes.Uint64()
		if s.Workflow != nil {
			out[i] = Recipe{Source: of, Tasks: len(s.Workflow.Tasks), Workflow: s.Workflow}
			continue
		}
		c := &m.sizes(of)[classes[of][i]]
		lo, step := c.Min, 1
		if c.Even {
			lo, step = c.Min+c.Min%2, 2
		}
		out[i] = Recipe{Source: of, Kind: s.Kind, Tasks: lo + step*int(u*float64((c.Max-lo)/step+1)), Seed: own}
		if s.Choices != nil {
			out[i].Params = s.Choices.Parameters(rand.New(rand.NewPCG(own, kindStream)))
		}
	}
	return out, nil
}

func (m *Mix) sizes(of int) []SizeClass {
	if own := m.Sources[of].Sizes; len(own) > 0 {
		return own
	}
	return m.Sizes
}

// check refuses, before anything is drawn, workflows that cannot be made.
func (m *Mix) check() error {
	for i := range m.Sources {
		s := &m.Sources[i]
		if s.Workflow != nil {
			continue
		}
		k, err := Find(s.Kind)
		if err != nil {
			return err
		}
		for _, c := range m.sizes(i) {
			for _, n := range []int{c.Min, c.Max} {
				if err := k.Check(n); err != nil && c.Min == c.Max {
					return err
				} else if err != nil {
					return fmt.Errorf("tasks %d..%d: %w", c.Min, c.Max, err)
				}
			}
		}
	}
	return nil
}

// shuffled returns n indices of fractions, as many of each as its share says (largest remainders), in random order.
func shuffled(n int, fractions []float64, r *rand.Rand) []int {
	sum := 0.0
	for _, f := range fractions {
		sum += f
	}
	out := make([]int, 0, n)
	order, rest := make([]int, len(fractions)), make([]float64, len(fractions))
	for i, f := range fractions {
		share := float64(n) * f / sum
		whole := math.Floor(share + 1e-9)
		for range int(whole) {
			out = append(out, i)
		}
		order[i], rest[i] = i, share-whole
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for i := 0; len(out) < n; i++ {
		out = append(out, order[i%len(order)])
	}
	r.Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
