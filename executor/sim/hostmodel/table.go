package hostmodel

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Curve is a function of one argument: straight lines between its points, constant beyond the outermost. Without points
// it is 1.
type Curve struct {
	X []float64 `json:"x"` // ascends
	Y []float64 `json:"y"`
}

// At returns the value at x.
func (c *Curve) At(x float64) float64 {
	if len(c.X) == 0 {
		return 1
	}
	i, f := between(c.X, x)
	return along(c.Y, i, f)
}

// along is the value of a function so far behind its point i on the straight line to the next one.
func along(ys []float64, i int, f float64) float64 {
	if f == 0 {
		return ys[i]
	}
	return ys[i] + f*(ys[i+1]-ys[i])
}

// Surface is a function of two arguments: how many are under way together (from 1), and how many cores tasks keep busy
// (from 0). It is bilinear between its points and constant beyond the outermost. Without points it is 1.
type Surface struct {
	Together  []float64   `json:"together"`   // ascends from 1
	BusyCores []float64   `json:"busy_cores"` // ascends from 0
	Factor    [][]float64 `json:"factor"`     // [together][busy]; Factor[0][0] is 1, and it never falls along an axis
}

// At returns the value.
func (s *Surface) At(together, busy float64) float64 {
	if len(s.Together) == 0 {
		return 1
	}
	i, f := between(s.Together, together)
	j, g := between(s.BusyCores, busy)
	v := along(s.Factor[i], j, g)
	if f == 0 {
		return v
	}
	return v + f*(along(s.Factor[i+1], j, g)-v)
}

// Raise makes a measured surface one that a model may have: more load is never faster. Values that fell along an axis
// are raised to those before them, and all are divided by the first, so that that is 1.
func (s *Surface) Raise() {
	if len(s.Factor) == 0 || len(s.Factor[0]) == 0 || !(s.Factor[0][0] > 0) {
		return
	}
	first := s.Factor[0][0]
	for i, row := range s.Factor {
		for j := range row {
			row[j] /= first
			if i > 0 {
				row[j] = max(row[j], s.Factor[i-1][j])
			}
			if j > 0 {
				row[j] = max(row[j], row[j-1])
			}
		}
	}
}

// between returns the point at or before x and how far x is to the next one, [0, 1); 0 beyond the outermost.
func between(xs []float64, x float64) (int, float64) {
	last := len(xs) - 1
	if !(x > xs[0]) {
		return 0, 0
	}
	if x >= xs[last] {
		return last, 0
	}
	i, found := slices.BinarySearch(xs, x)
	if found {
		return i, 0
	}
	return i - 1, (x - xs[i-1]) / (xs[i] - xs[i-1])
}

// Spread is a distribution of a factor: its quantiles at evenly spaced probabilities, from the least at 0 to the
// greatest at 1. An empty one is always 1.
type Spread []float64

// At returns the quantile of probability p, [0, 1].
func (s Spread) At(p float64) float64 {
	if len(s) == 0 {
		return 1
	}
	x := min(1, max(0, p)) * float64(len(s)-1)
	i := int(x)
	return along(s, i, x-float64(i))
}

// Mean is the mean of the distribution that At draws from.
func (s Spread) Mean() float64 {
	if len(s) < 2 {
		return s.At(0)
	}
	sum := (s[0] + s[len(s)-1]) / 2
	for _, q := range s[1 : len(s)-1] {
		sum += q
	}
	return sum / float64(len(s)-1)
}

// SpreadQuantiles is how many quantiles SpreadOf takes: every 5 %.
const SpreadQuantiles = 21

// SpreadOf returns the spread of measured factors, which it sorts; nil for none. Of eight and more, those that lie more
// than three interquartile ranges beyond the quartiles are left out: something else happened then, and a single one
// would move the mean.
func SpreadOf(factors []float64) Spread {
	if len(factors) == 0 {
		return nil
	}
	slices.Sort(factors)
	s := make(Spread, SpreadQuantiles)
	all := Spread(factors)
	if len(all) >= 8 {
		low, high := all.At(0.25), all.At(0.75)
		reach := 3 * (high - low)
		from, _ := slices.BinarySearch(all, low-reach)
		to, found := slices.BinarySearch(all, high+reach)
		for found && to < len(all) && all[to] == high+reach {
			to++
		}
		all = all[from:to]
	}
	for i := range s {
		s[i] = all.At(float64(i) / float64(len(s)-1))
	}
	return s
}

// LogNormal returns the spread of a factor of mean 1 whose logarithm has that standard deviation, as estimated from a
// number of values: the fewer they are, the wider it is.
func LogNormal(sd float64, values int) Spread {
	if values < 2 || !(sd > 0) {
		return nil
	}
	sd = min(1, sd*(1+0.66/float64(values-1))) // Student's t over the normal distribution, at nine tenths
	s := make(Spread, SpreadQuantiles)
	for i := range s {
		p := min(max(float64(i)/float64(len(s)-1), 0.5/float64(len(s))), 1-0.5/float64(len(s)))
		s[i] = math.Exp(sd * math.Sqrt2 * math.Erfinv(2*p-1))
	}
	mean := s.Mean()
	for i := range s {
		s[i] /= mean
	}
	return s
}

// Bounds of a quantile of a spread.
const leastFactor, mostFactor = 0.01, 1000

// Widen returns the spread with its distances from the median times factor; no quantile falls below a tenth of the
// median, or leaves its bounds.
func (s Spread) Widen(factor float64) Spread {
	out := slices.Clone(s)
	mid := s.At(0.5)
	for i, q := range out {
		out[i] = min(max(leastFactor, mid/10, mid+(q-mid)*factor), mostFactor)
	}
	return out
}

// within checks a number against bounds, both allowed.
func within(what string, x, least, most float64) error {
	if math.IsNaN(x) || x < least || x > most {
		return fmt.Errorf("%s is %v, outside %v to %v", what, x, least, most)
	}
	return nil
}

func ascends(what string, xs []float64, first float64) error {
	for i, x := range xs {
		if err := within(what, x, first, 1e18); err != nil {
			return err
		}
		if i > 0 && x <= xs[i-1] {
			return fmt.Errorf("%s does not ascend: %v after %v", what, x, xs[i-1])
		}
	}
	return nil
}

func (c *Curve) validate(what string, least, most float64) error {
	if len(c.X) != len(c.Y) || len(c.X) > 1000 {
		return fmt.Errorf("%s has %d arguments and %d values", what, len(c.X), len(c.Y))
	}
	if err := ascends(what+".x", c.X, 0); err != nil {
		return err
	}
	for _, y := range c.Y {
		if err := within(what+".y", y, least, most); err != nil {
			return err
		}
	}
	return nil
}

func (s *Surface) validate(what string) error {
	if len(s.Together) == 0 && len(s.BusyCores) == 0 && len(s.Factor) == 0 {
		return nil
	}
	if len(s.Factor) != len(s.Together) || len(s.Together) == 0 || len(s.BusyCores) == 0 || len(s.Together) > 1000 {
		return fmt.Errorf("%s has %d rows for %d values of together", what, len(s.Factor), len(s.Together))
	}
	if s.Together[0] != 1 || s.BusyCores[0] != 0 {
		return fmt.Errorf("%s begins at together %v and busy_cores %v, not at 1 and 0", what, s.Together[0],
			s.BusyCores[0])
	}
	if err := cmp.Or(ascends(what+".together", s.Together, 1),
		ascends(what+".busy_cores", s.BusyCores, 0)); err != nil {
		return err
	}
	for i, row := range s.Factor {
		if len(row) != len(s.BusyCores) {
			return fmt.Errorf("%s has a row of %d values for %d of busy_cores", what, len(row), len(s.BusyCores))
		}
		for j, f := range row {
			if err := within(what+".factor", f, 1, 1000); err != nil {
				return err
			}
			if i > 0 && f < s.Factor[i-1][j] || j > 0 && f < row[j-1] {
				return fmt.Errorf("%s falls at together %v, busy_cores %v: more load is never faster", what,
					s.Together[i], s.BusyCores[j])
			}
		}
	}
	return within(what+" of one alone", s.Factor[0][0], 1, 1)
}

func (s Spread) validate(what string) error {
	if len(s) > 1000 {
		return fmt.Errorf("%s has %d quantiles", what, len(s))
	}
	for i, q := range s {
		if err := within(what, q, leastFactor, mostFactor); err != nil {
			return err
		}
		if i > 0 && q < s[i-1] {
			return fmt.Errorf("%s falls: %v after %v", what, q, s[i-1])
		}
	}
	return nil
}
