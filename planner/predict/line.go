package predict

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Line is local linear regression on the size of the input (Cleveland 1979): a line through the measurements, those of
// inputs near the one asked for counting most. With a large Width it is hardly more than a line.
type Line struct {
	Width  float64   // how far a measurement counts, as a share of the range of the inputs
	Square bool      `json:",omitempty"` // X has the squares of the inputs
	X, Y   []float64 // inputs, ascending, and measurements
}

const (
	wide   = 0.5  // the Width with few measurements, and of all predictions outside of the range
	narrow = 0.05 // for curves
)

// minSquare is how many different inputs tell a square from a line.
const minSquare = 5

// fitLine keeps the measurements, and takes the width that predicts each of them better without itself, and the square
// of the inputs where that does.
func fitLine(x, y []float64) *Line {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(x[a], x[b]), cmp.Compare(y[a], y[b])) })
	l := &Line{Width: wide}
	for _, i := range order {
		l.X, l.Y = append(l.X, x[i]), append(l.Y, y[i])
	}
	inputs, squares := l.X, make([]float64, len(x))
	for i, v := range l.X {
		squares[i] = v * v
	}
	best, least := *l, math.Inf(1)
	for _, c := range []struct {
		width  float64
		square bool
		from   int // measurements
	}{{wide, false, 0}, {narrow, false, minRidge}, {wide, true, minSquare}} {
		if l.Width, l.Square, l.X = c.width, c.square, inputs; c.square {
			l.X = squares
		}
		sum := 0.0
		for i := range l.X {
			sum += math.Abs(l.near(l.X[i], i)-l.Y[i]) / l.Y[i]
		}
		if c.square {
			sum *= 2 // noise looks like a curve, too
		}
		if len(x) >= c.from && sum < least {
			least, best = sum, *l
		}
	}
	return &best
}

// at predicts the value at x without the measurement that is skipped.
func (l *Line) at(x float64, skip int) float64 {
	if l.Square {
		x *= x
	}
	return l.near(x, skip)
}

// near is at, by a place among X.
func (l *Line) near(x float64, skip int) float64 {
	n := len(l.X)
	first, last := l.X[0], l.X[n-1]
	width := l.Width
	if x < first || x > last {
		width = wide
	}
	near := width*(last-first) + 1e-9
	var w, wx, wy, wxx, wxy float64
	for i, v := range l.X {
		if i == skip {
			continue
		}
		d := v - x
		k := 1 / (math.Abs(d) + near)
		k *= k
		w, wx, wy = w+k, wx+k*d, wy+k*l.Y[i]
		wxx, wxy = wxx+k*d*d, wxy+k*d*l.Y[i]
	}
	det := w*wxx - wx*wx
	falls := w*wxy < wx*wy // by noise: programs need no less for more
	if w == 0 || det <= 1e-9*w*wxx || falls && (x < first || x > last) {
		return wy / w
	}
	return (wxx*wy - wx*wxy) / det
}

// unseen predicts each of the measurements at x, in their order, without itself.
func (l *Line) unseen(x, y []float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		at := x[i]
		if l.Square {
			at *= at
		}
		k, _ := slices.BinarySearch(l.X, at)
		for l.Y[k] != y[i] {
			k++
		}
		out[i] = l.near(at, k)
	}
	return out
}

// beyond says how far x lies outside of the range of training: the logarithm of 1 and the distance over the range.
func beyond(x, least, most float64) float64 {
	d := max(x-most, least-x, 0)
	if d == 0 {
		return 0
	}
	return math.Log1p(d / max(most-least, most/2, 1))
}

// noise is how much runs of one task differ from each other: the usual standard deviation of their logarithms.
const noise = 0.14

// spreadOf is the standard deviation of logarithms, drawn to the usual one where there are few (a prior of two
// measurements).
func spreadOf(logs []float64) float64 {
	const weight = 2
	return math.Sqrt((weight*noise*noise + floats.Dot(logs, logs)) / (weight + float64(len(logs))))
}
