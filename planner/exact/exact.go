// Package exact has the numbers that decisions compare: sums and products of whole numbers that never round. Whole
// numbers of up to 128 bits are fast, and all others are fractions of any size.
package exact

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
)

// Number is a rational number, zero or above. The zero Number is 0. Numbers are compared with Compare, never with ==.
type Number struct {
	hi, lo uint64
	rat    *big.Rat // its value if it is no whole number below 2^128; never changed
}

// Int returns n.
func Int(n uint64) Number { return Number{lo: n} }

// Wide returns hi 2^64 + lo.
func Wide(hi, lo uint64) Number { return Number{hi: hi, lo: lo} }

// Rat returns r, which must not be below zero, and not be changed later.
func Rat(r *big.Rat) Number {
	if r.IsInt() && r.Num().BitLen() <= 128 {
		var hi, lo big.Int
		hi.Rsh(r.Num(), 64)
		lo.And(r.Num(), new(big.Int).SetUint64(math.MaxUint64))
		return Number{hi: hi.Uint64(), lo: lo.Uint64()}
	}
	return Number{rat: r}
}

// Words returns n as hi 2^64 + lo; false if it is no whole number below 2^128.
func (n Number) Words() (hi, lo uint64, ok bool) { return n.hi, n.lo, n.rat == nil }

// Rat returns n as a fraction of its own.
func (n Number) Rat() *big.Rat {
	if n.rat != nil {
		return new(big.Rat).Set(n.rat)
	}
	x := new(big.Int).Lsh(new(big.Int).SetUint64(n.hi), 64)
	return new(big.Rat).SetInt(x.Or(x, new(big.Int).SetUint64(n.lo)))
}

// Float returns n rounded, for people and as a first guess.
func (n Number) Float() float64 {
	if n.rat != nil {
		f, _ := n.rat.Float64()
		return f
	}
	return float64(n.hi)*(1<<64) + float64(n.lo)
}

// Zero reports whether n is 0.
func (n Number) Zero() bool { return n.rat == nil && n.hi|n.lo == 0 }

// Compare returns -1, 0 or 1 as n is below, equal to or above m.
func (n Number) Compare(m Number) int {
	switch {
	case n.rat != nil || m.rat != nil:
		return n.Rat().Cmp(m.Rat())
	case n.hi != m.hi:
		return cmp.Compare(n.hi, m.hi)
	}
	return cmp.Compare(n.lo, m.lo)
}

// Plus returns n + m.
func (n Number) Plus(m Number) Number {
	if n.rat == nil && m.rat == nil {
		lo, carry := bits.Add64(n.lo, m.lo, 0)
		hi, over := bits.Add64(n.hi, m.hi, carry)
		if over == 0 {
			return Number{hi: hi, lo: lo}
		}
	}
	return Rat(new(big.Rat).Add(n.Rat(), m.Rat()))
}

// Minus returns n - m, or 0 if m is above n.
func (n Number) Minus(m Number) Number {
	if n.Compare(m) <= 0 {
		return Number{}
	}
	if n.rat == nil && m.rat == nil {
		lo, borrow := bits.Sub64(n.lo, m.lo, 0)
		return Number{hi: n.hi - m.hi - borrow, lo: lo}
	}
	return Rat(n.Rat().Sub(n.Rat(), m.Rat()))
}

// Times returns n m.
func (n Number) Times(m uint64) Number {
	if n.rat == nil {
		carry, lo := bits.Mul64(n.lo, m)
		over, hi := bits.Mul64(n.hi, m)
		hi, more := bits.Add64(hi, carry, 0)
		if over == 0 && more == 0 {
			return Number{hi: hi, lo: lo}
		}
	}
	return Rat(new(big.Rat).Mul(n.Rat(), new(big.Rat).SetUint64(m)))
}

// Mul returns n m.
func (n Number) Mul(m Number) Number {
	switch {
	case m.rat == nil && m.hi == 0:
		return n.Times(m.lo)
	case n.rat == nil && n.hi == 0:
		return m.Times(n.lo)
	}
	return Rat(new(big.Rat).Mul(n.Rat(), m.Rat()))
}

// Over returns n / m; m is above 0.
func (n Number) Over(m uint64) Number {
	if n.rat == nil && n.hi == 0 && n.lo%m == 0 {
		return Number{lo: n.lo / m}
	}
	return Rat(new(big.Rat).Quo(n.Rat(), new(big.Rat).SetUint64(m)))
}

// Floor returns n / m rounded down, at most the largest int64; m is above 0.
func (n Number) Floor(m uint64) int64 {
	if n.rat == nil {
		if n.hi >= m {
			return math.MaxInt64
		}
		q, _ := bits.Div64(n.hi, n.lo, m)
		return int64(min(q, math.MaxInt64))
	}
	q := n.Rat()
	q.Quo(q, new(big.Rat).SetUint64(m))
	if x := new(big.Int).Quo(q.Num(), q.Denom()); x.IsInt64() {
		return x.Int64()
	}
	return math.MaxInt64
}

// Fraction is Num / Den; Den is above 0. It is for numbers that are compared more often than computed with.
type Fraction struct {
	Num Number
	Den uint64
}

// Float returns f rounded.
func (f Fraction) Float() float64 { return f.Num.Float() / float64(f.Den) }

// Compare returns -1, 0 or 1 as f is below, equal to or above g.
func (f Fraction) Compare(g Fraction) int {
	if f.Den == g.Den {
		return f.Num.Compare(g.Num)
	}
	return f.Num.Times(g.Den).Compare(g.Num.Times(f.Den))
}
