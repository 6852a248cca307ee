package predict

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// Scaler standardises features: each has mean 0 and standard deviation 1 over the rows that the Scaler was made from. A
// feature that never differed is 0.
type Scaler struct{ Mean, Deviation []float64 }

func newScaler(x [][]float64) *Scaler {
	d := len(x[0])
	s := &Scaler{make([]float64, d), make([]float64, d)}
	column := make([]float64, len(x))
	for j := range d {
		for i := range x {
			column[i] = x[i][j]
		}
		s.Mean[j], s.Deviation[j] = stat.PopMeanStdDev(column, nil)
		if s.Deviation[j] < 1e-9*max(1, math.Abs(s.Mean[j])) {
			s.Deviation[j] = 0
		}
	}
	return s
}

func (s *Scaler) apply(to, x []float64) {
	for j := range x {
		to[j] = 0
		if s.Deviation[j] > 0 {
			to[j] = (x[j] - s.Mean[j]) / s.Deviation[j]
		}
	}
}

// Ridge is linear regression with the penalty Lambda, per sample, on the squares of the weights of standardised
// features.
type Ridge struct {
	*Scaler
	Weights   []float64
	Intercept float64
}

// ridgePenalty keeps features that go together from running away in opposite directions, and hardly bends a clear fit.
const ridgePenalty = 1e-3

// fitRidge solves (X'X + n lambda I) w = X'(y - mean y) for the rows x of features, and predicts each row by the
// others: the residual without a row is that with it over 1 less its leverage.
func fitRidge(x [][]float64, y []float64, lambda float64) (r *Ridge, unseen []float64) {
	n, d := len(x), len(x[0])
	r = &Ridge{Scaler: newScaler(x), Intercept: stat.Mean(y, nil), Weights: make([]float64, d)}
	design, centred := mat.NewDense(n, d, nil), mat.NewVecDense(n, nil)
	for i := range x {
		r.apply(design.RawRowView(i), x[i])
		centred.SetVec(i, y[i]-r.Intercept)
	}
	var gram mat.SymDense
	gram.SymOuterK(1, design.T())
	for j := range d {
		gram.SetSym(j, j, gram.At(j, j)+max(lambda, 1e-12)*float64(n))
	}
	var right, w mat.VecDense
	var rows mat.Dense
	right.MulVec(design.T(), centred)
	var c mat.Cholesky
	// The penalty makes the matrix positive definite; a bad condition number is only a warning.
	if c.Factorize(&gram) {
		_ = c.SolveVecTo(&w, &right)
		copy(r.Weights, w.RawVector().Data)
		_ = c.SolveTo(&rows, design.T())
	}
	unseen = make([]float64, n)
	for i := range x {
		leverage := 1 / float64(n)
		for j, v := range design.RawRowView(i) {
			leverage += v * rows.At(j, i)
		}
		unseen[i] = y[i] - (y[i]-r.Predict(x[i]))/max(1-leverage, 1e-6)
	}
	return r, unseen
}

// Predict returns the value of the linear model.
func (r *Ridge) Predict(x []float64) float64 {
	var scaled [featureCount]float64
	z := scaled[:min(len(x), featureCount)]
	if len(x) > featureCount {
		z = make([]float64, len(x))
	}
	r.apply(z, x)
	return r.Intercept + floats.Dot(r.Weights, z)
}
