package exact_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"gantry/planner/exact"
	"gantry/planner/seed/seedtest"
)

// number draws a number that often is near the bounds of what is fast, and the same as a fraction.
func number(r *rand.Rand) (exact.Number, *big.Rat) {
	word := func() uint64 {
		return []uint64{0, 1, 3, r.Uint64N(100), r.Uint64(), math.MaxUint64, math.MaxUint64 - r.Uint64N(3)}[r.IntN(7)]
	}
	hi, lo := word(), word()
	n := exact.Wide(hi, lo)
	if r.IntN(2) == 0 {
		n, hi = exact.Int(lo), 0
	}
	v := new(big.Int).Lsh(new(big.Int).SetUint64(hi), 64)
	rat := new(big.Rat).SetInt(v.Add(v, new(big.Int).SetUint64(lo)))
	if r.IntN(4) == 0 {
		d := 1 + r.Uint64N(12)
		n, rat = n.Over(d), rat.Quo(rat, new(big.Rat).SetUint64(d))
	}
	return n, rat
}

func TestNumbersComputeAsFractionsDo(t *testing.T) {
	for seed := range seedtest.Seeds(t, 20000) {
		r := rand.New(rand.NewPCG(seed, 2))
		a, x := number(r)
		b, y := number(r)
		m := r.Uint64() >> r.IntN(64)
		for what, c := range map[string]struct {
			got  exact.Number
			want *big.Rat
		}{
			"a":     {a, x},
			"a + b": {a.Plus(b), new(big.Rat).Add(x, y)},
			"a b":   {a.Mul(b), new(big.Rat).Mul(x, y)},
			"a m":   {a.Times(m), new(big.Rat).Mul(x, new(big.Rat).SetUint64(m))},
		} {
			if c.got.Rat().Cmp(c.want) != 0 {
				t.Fatalf("%s of %v, %v, %d: %v, want %v", what, x, y, m, c.got.Rat(), c.want)
			}
			if f, _ := c.want.Float64(); math.Abs(c.got.Float()-f) > 1e-15*f {
				t.Fatalf("%s of %v, %v, %d as a float: %v, want %v", what, x, y, m, c.got.Float(), f)
			}
		}
		if got, want := a.Compare(b), x.Cmp(y); got != want {
			t.Fatalf("%v compared with %v: %d, want %d", x, y, got, want)
		}
		d, e := 1+r.Uint64N(5), 1+r.Uint64N(5)
		want := new(big.Rat).Quo(x, new(big.Rat).SetUint64(d)).Cmp(new(big.Rat).Quo(y, new(big.Rat).SetUint64(e)))
		if got := (exact.Fraction{Num: a, Den: d}).Compare(exact.Fraction{Num: b, Den: e}); got != want {
			t.Fatalf("%v / %d compared with %v / %d: %d, want %d", x, d, y, e, got, want)
		}
		floor := new(big.Rat).Quo(x, new(big.Rat).SetUint64(d))
		if want := new(big.Int).Quo(floor.Num(), floor.Denom()); want.IsInt64() && a.Floor(d) != want.Int64() ||
			!want.IsInt64() && a.Floor(d) != math.MaxInt64 {
			t.Fatalf("%v / %d is %d, rounded down", x, d, a.Floor(d))
		}
		if a.Compare(a) != 0 || a.Zero() != (x.Sign() == 0) {
			t.Fatalf("%v is not itself", x)
		}
	}
}
