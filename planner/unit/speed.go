package unit

import (
	"math"
	"math/bits"
	"time"
)

// Decimal returns x, above 0, as a fraction: the decimal that people write for it, as they do in cluster files (0.1 is
// 1/10, although no float64 is), if that has up to 15 digits, and else its value to the last bit.
func Decimal(x float64) (num, den uint64) {
	scale := 1.0
	for den = 1; den <= 1e18; den, scale = den*10, scale*10 {
		if m := math.Round(x * scale); m >= 1<<53 {
			break
		} else if m/scale == x { // a quotient of exact numbers is the float64 nearest to the decimal
			return uint64(m), den
		}
	}
	fraction, exponent := math.Frexp(x)
	num, exponent = uint64(fraction*(1<<53)), exponent-53
	switch shift := min(bits.TrailingZeros64(num), max(0, -exponent)); {
	case exponent >= 0 && exponent <= 10:
		return num << exponent, 1
	case exponent+shift >= -63 && exponent < 0:
		return num >> shift, 1 << -(exponent + shift)
	case exponent > 0:
		return math.MaxUint64, 1
	}
	return max(1, uint64(math.Ldexp(x, 63))), 1 << 63 // so slow that its last bits count for nothing
}

// AtSpeed returns the time at another speed of a run that takes the given time at speed 1, rounded down: exact, if long
// decimals are left out of account. A speed of 0 or less counts as 1.
func AtSpeed(run time.Duration, speed float64) time.Duration {
	if speed == 1 || speed <= 0 || run <= 0 {
		return run
	}
	num, den := Decimal(speed)
	hi, lo := bits.Mul64(uint64(run), den)
	if hi >= num {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, num)
	return time.Duration(min(q, math.MaxInt64))
}
