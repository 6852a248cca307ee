package unit_test

import (
	"math"
	"math/big"
	"strconv"
	"testing"
	"time"

	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
)

func TestDecimalIsWhatPeopleWrite(t *testing.T) {
	r := seedtest.Rand(t)
	texts := []string{"1", "0.1", "0.3", "1.5", "2", "0.97", "1.25", "3.3", "0.0001", "12345.678", "0.333333333333333",
		"1000000", "123456789012345"}
	for range 5000 {
		texts = append(texts, strconv.FormatInt(r.Int64N(100), 10)+"."+strconv.FormatInt(1+r.Int64N(999999), 10))
	}
	for _, text := range texts {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := new(big.Rat).SetString(text)
		num, den := unit.Decimal(x)
		got := new(big.Rat).SetFrac(new(big.Int).SetUint64(num), new(big.Int).SetUint64(den))
		if got.Cmp(want) != 0 {
			t.Fatalf("%s: %v", text, got)
		}
	}
	for _, x := range []float64{1.0 / 3, 2.0 / 3, math.Pi, 1 << 60, 0.1 + 0.2} { // no short decimals: the binary value
		num, den := unit.Decimal(x)
		if got := float64(num) / float64(den); got != x {
			t.Errorf("%v: %d/%d", x, num, den)
		}
	}
	for _, x := range []float64{math.MaxFloat64, math.SmallestNonzeroFloat64} {
		if num, den := unit.Decimal(x); num == 0 || den == 0 {
			t.Errorf("%v: %d/%d", x, num, den)
		}
	}
}

func TestAtSpeedIsExact(t *testing.T) {
	for _, c := range []struct {
		run   time.Duration
		speed float64
		want  time.Duration
	}{
		{3 * time.Second, 0.3, 10 * time.Second}, {time.Second, 1.5, 666666666}, {3 * time.Second, 1.5,
			2 * time.Second}, {7, 0, 7}, {0, 0.5, 0},
		{9_007_199_254_740_993, 0.5, 18_014_398_509_481_986}, // 2^53 + 1: no float64
		{4_611_686_018_427_387_904, 0.1, math.MaxInt64},
	} {
		if got := unit.AtSpeed(c.run, c.speed); got != c.want {
			t.Errorf("%d at speed %v: %d, want %d", c.run, c.speed, got, c.want)
		}
	}
}
