package predict

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gantry/planner/unit"
	"gantry/trace/spelling"
)

// Aim says how bad it is that a task runs out of memory: beside the memory that it held in vain, as bad as if so many
// tasks of the usual need had held theirs in vain.
type Aim float64

// Aims by name.
const (
	Lean     Aim = 0   // the least memory held and lost
	Balanced Aim = 10  // one task in a hundred fails, on what others published
	Safe     Aim = 100 // hardly a task fails
)

var aims = map[string]Aim{"lean": Lean, "balanced": Balanced, "safe": Safe}

// ParseAim reads the name of an aim.
func ParseAim(name string) (Aim, error) {
	if aim, ok := aims[name]; ok {
		return aim, nil
	}
	return 0, fmt.Errorf("%q is not known; %s", name, spelling.Hint(name, []string{"lean", "balanced", "safe"}))
}

// Peak is what one attempt needed: the memory that it could have done with over the prediction by the others.
type Peak struct {
	Input  float64 // bytes
	Ratio  float64
	Weight float64 // byte-hours: the prediction times the runtime
}

const (
	minPeaks = 3    // of a kind, to limit its memory
	margin   = 1.02 // of a limit above a peak
	nearby   = 100  // peaks of the nearest inputs, by which the limit is chosen
)

// peaksOf pairs the peaks of samples with what was predicted of them by the others, by input.
func peaksOf(samples []*Sample, unseen []float64) []Peak {
	out := make([]Peak, len(samples))
	for i, s := range samples {
		out[i] = Peak{float64(s.Features.Input), s.enough() / unseen[i], s.Ran.Hours() * unseen[i]}
	}
	slices.SortStableFunc(out, func(a, b Peak) int { return cmp.Compare(a.Input, b.Input) })
	return out
}

// around returns the peaks of the inputs nearest to x.
func around(peaks []Peak, x float64) []Peak {
	from, to := 0, len(peaks)
	for to-from > nearby {
		if x-peaks[from].Input > peaks[to-1].Input-x {
			from++
		} else {
			to--
		}
	}
	return peaks[from:to]
}

// cheapest returns the limit, over the prediction, that is expected to cost least, the limit after that, and the cost.
// One more peak is taken to lie above all that were seen, as far as the next of a normal distribution does in the mean:
// it is the next limit. A task that fails holds its limit in vain for its whole run, and costs failure besides.
func cheapest(peaks []Peak, failure float64) (limit, next, cost float64) {
	sorted := slices.SortedFunc(slices.Values(peaks), func(a, b Peak) int { return cmp.Compare(a.Ratio, b.Ratio) })
	n, mid := len(sorted), sorted[len(sorted)/2].Ratio
	logs := make([]float64, n)
	var fit, used float64 // weights of those that have room, and what they use
	for i, p := range sorted {
		logs[i] = math.Log(p.Ratio / mid)
		fit, used = fit+p.Weight, used+p.Weight*p.Ratio
	}
	next = sorted[n-1].Ratio * math.Exp(spreadOf(logs)/math.Sqrt(2*math.Log(float64(max(n, 2)))))
	sorted = append(sorted, Peak{Ratio: next, Weight: fit / float64(n)})
	fit, used = fit*(1+1/float64(n)), used+next*fit/float64(n)
	failing, cost := 0.0, math.Inf(1)
	for i, p := range slices.Backward(sorted) {
		if c := p.Ratio*(fit+failing) + next*failing - used + failure*float64(n-i); c < cost {
			limit, cost = p.Ratio, c
		}
		fit, failing = fit-p.Weight, failing+p.Weight
	}
	return limit, next, cost
}

// MemoryLimit returns the memory, in bytes, that a task of that kind is limited to: the prediction times the factor
// that costs least by the peaks of inputs of about that size. Next is the limit of a try after it failed. Both are at
// most what attempts of that kind held, all of which it was enough for. Outside of the range of the inputs of training
// they are larger the further outside, and at most the declared memory. It is false, and the declared memory holds, if
// fewer than 3 peaks of that kind were measured, and with Safe outside of that range.
func (m *Model) MemoryLimit(kind string, f *Features, aim Aim) (limit, next unit.Bytes, ok bool) {
	k := m.Kinds[kind]
	if k == nil || k.Memory == nil || len(k.Peaks) < minPeaks {
		return 0, 0, false
	}
	of, x := f.forMemory(), float64(f.Input)
	least, more, _ := cheapest(around(k.Peaks, x), float64(aim)*m.Usual)
	p, most := k.Memory.Predict(&of), float64(k.MemoryHeld)
	if e := beyond(x, float64(k.Memory.Input.Least), float64(k.Memory.Input.Most)); e > 0 {
		if p, most = p*math.Exp(e), float64(f.Memory); aim >= Safe {
			return 0, 0, false
		}
	}
	if most == 0 { // no limit
		most = math.MaxInt64 / 2
	}
	return unit.Bytes(math.Ceil(min(p*least, most))), unit.Bytes(math.Ceil(min(p*more, most))), true
}
