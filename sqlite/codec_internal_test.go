package sqlite

import (
	"math"
	"strconv"
	"testing"
)

func TestNumbersAreWrittenAsTheStandardLibraryDoes(t *testing.T) {
	check := func(n int64) {
		if got, want := string(appendInt([]byte("["), n)), "["+strconv.FormatInt(n, 10); got != want {
			t.Errorf("%d is written as %s", n, got)
		}
	}
	check(math.MinInt64)
	check(math.MaxInt64)
	for power := int64(1); ; power *= 10 {
		for _, n := range []int64{power - 1, power, power + 1, 7 * power, power * 12 / 10} {
			check(n)
			check(-n)
		}
		if power > math.MaxInt64/12 {
			break
		}
	}
	for n := range int64(1 << 16) {
		check(n)
	}
}

func BenchmarkAppendInt(b *testing.B) {
	buf := make([]byte, 0, 64)
	for i := 0; b.Loop(); i++ {
		buf = appendInt(buf[:0], int64(i)<<(i%48))
	}
}
