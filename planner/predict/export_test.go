package predict

import "gantry/planner/unit"

// FitPeaks returns the model of peak memory that Fit and Model make of samples of one kind, all with peaks, by one
// method, without what takes long: the other methods, and runtimes.
func FitPeaks(samples []Sample, seed uint64, method Method) *Model {
	var features []Features
	var x [][]float64
	var peaks []float64
	for _, s := range samples {
		f := s.Features.forMemory()
		v := f.vector()
		features, x, peaks = append(features, f), append(x, v[:]), append(peaks, float64(s.Peak))
	}
	r := fit(method, x, peaks, seed)
	r.validate(method, features, x, peaks, seed)
	return &Model{Kinds: map[string]*KindModel{samples[0].Kind: {MemorySamples: len(peaks), Memory: r,
		MemoryInput:    spanOf(features, func(f Features) unit.Bytes { return f.Input }),
		MemoryDeclared: spanOf(features, func(f Features) unit.Bytes { return f.Memory })}}}
}
