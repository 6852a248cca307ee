package predict

import "math"

// Coverage is the probability of the intervals that are evaluated and shown.
const Coverage = 0.9

// Score is how well one way to predict did on samples that it was not trained on. Errors are mean absolute percentage
// errors; nil where there was nothing to predict.
type Score struct {
	By        Method   `json:"by"`                  // MeanOf is the plain mean
	Samples   int      `json:"tasks"`               // predicted
	Runtime   *float64 `json:"runtime_percent"`     // error
	Remaining *float64 `json:"remaining_percent"`   // error of the time left at half of each run
	Covered   *float64 `json:"in_interval_percent"` // of the runs, in their interval of 90 %
	Memory    *float64 `json:"memory_percent"`      // error
}

// MeanOf is the plain mean of the measurements of tasks of the same kind. It is no method of a model: models are
// compared with it.
const MeanOf Method = "mean"

// tally gathers the parts of scores.
type tally struct{ runtime, remaining, covered, memory average }

type average struct{ sum, n float64 }

func (a *average) add(x float64) { a.sum, a.n = a.sum+x, a.n+1 }
func (a *average) percent() *float64 {
	if a.n == 0 {
		return nil
	}
	return new(100 * a.sum / a.n)
}

func (t *tally) score(by Method) Score {
	return Score{by, int(t.runtime.n), t.runtime.percent(), t.remaining.percent(), t.covered.percent(),
		t.memory.percent()}
}

// Evaluate scores declared values, the plain mean and all methods on samples that nothing was trained on. Of kinds that
// are new only the declared runtime is known, and models use it, as in a run.
func (f *Fits) Evaluate(test []Sample) []Score {
	var out []Score
	for _, method := range []Method{ByDeclared, MeanOf, ByHistory, ByLine, ByRidge, Auto} {
		var t tally
		var m *Model
		if method != MeanOf && method != ByDeclared {
			m = f.Model(method)
		}
		for i := range test {
			s := &test[i]
			if work := s.work(); work > 0 {
				f.one(&t, s, work, method, m)
			}
		}
		out = append(out, t.score(method))
	}
	return out
}

func (f *Fits) one(t *tally, s *Sample, work float64, method Method, m *Model) {
	k, known := f.kinds[s.Kind]
	predicted := s.declaredWork()
	left, toEnd := predicted, (*Regression)(nil)
	var memory *Regression
	if known && m != nil {
		if runtime := m.Kinds[s.Kind].Runtime; runtime != nil {
			predicted = runtime.Predict(&s.Features)
			low, high := runtime.Interval(&s.Features, Coverage)
			in := 0.0
			if low <= work && work <= high {
				in = 1
			}
			t.covered.add(in)
		}
		if toEnd = m.Kinds[s.Kind].left(); toEnd != nil {
			left = toEnd.Predict(&s.Features)
		}
		memory = m.Kinds[s.Kind].Memory
	}
	if method == MeanOf && known {
		predicted, left = k.mean, k.mean
	}
	if predicted <= 0 {
		return // nothing is declared
	}
	t.runtime.add(math.Abs(predicted-work) / work)
	half := work / 2
	if left > 0 {
		t.remaining.add(math.Abs(toEnd.remaining(left, half)-half) / half)
	}
	if memory != nil && s.Peak > 0 {
		f := s.Features.forMemory()
		t.memory.add(math.Abs(memory.Predict(&f)-float64(s.Peak)) / float64(s.Peak))
	}
}
