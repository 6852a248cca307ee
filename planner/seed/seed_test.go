package seed_test

import (
	"testing"

	"gantry/planner/seed"
)

// The first numbers of splitmix64 from 0, as the reference implementation (Vigna 2015) prints them.
func TestMixIsSplitmix64(t *testing.T) {
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		if got := seed.Mix(seed.Repetition(0, i)); got != want {
			t.Errorf("number %d is %#x, want %#x", i, got, want)
		}
	}
	if low, high := seed.Fraction(0), seed.Fraction(1<<64-1); low != 0 || high >= 1 || high < 0.999999 {
		t.Errorf("fractions are from %v to %v", low, high)
	}
}
