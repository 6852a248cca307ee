package report_test

import (
	"math"
	"testing"

	"gantry/planner/seed/seedtest"
	"gantry/sqlite/report"
)

// slow counts pairs one by one.
func slow(v [][2]int64) (tau float64, swapped, ordered int64) {
	var c, d, a, b int64
	for i := range v {
		for j := range i {
			x, y := v[i][0]-v[j][0], v[i][1]-v[j][1]
			if x != 0 {
				a++
			}
			if y != 0 {
				b++
			}
			switch {
			case x == 0 || y == 0:
			case (x > 0) == (y > 0):
				c++
			default:
				d++
			}
		}
	}
	return float64(c-d) / math.Sqrt(float64(a)*float64(b)), d, c + d
}

func TestIntervalsHaveTheDigitsThatTheyBear(t *testing.T) {
	for _, x := range []struct {
		mean, half float64
		want       string
	}{{0.5, 1.9e-14, "0.5 ±0"}, {0, 0, "0 ±0"}, {2, 12.706, "2 ±13"}, {1.4634, 0.0912, "1.463 ±0.091"},
		{3, math.NaN(), "3"}, {0.99999963, 7.8e-8, "1 ±7.8e-08"}, {math.NaN(), 1, "-"}} {
		if got := (report.Interval{N: 3, Mean: x.mean, Half: x.half}).String(); got != x.want {
			t.Errorf("%v and %v are written %q, want %q", x.mean, x.half, got, x.want)
		}
	}
}

func TestKendallCountsPairs(t *testing.T) {
	r := seedtest.Rand(t)
	for n := range 60 {
		for _, values := range []int64{2, 10, 1 << 40} {
			v := make([][2]int64, n)
			for i := range v {
				v[i] = [2]int64{r.Int64N(values), r.Int64N(values)}
			}
			tau, swapped, ordered := report.Kendall(v)
			wantTau, wantSwapped, wantOrdered := slow(v)
			if swapped != wantSwapped || ordered != wantOrdered || math.Abs(tau-wantTau) > 1e-12 ||
				math.IsNaN(tau) != math.IsNaN(wantTau) {
				t.Fatalf("%v: %v, %d of %d; want %v, %d of %d", v, tau, swapped, ordered, wantTau, wantSwapped,
					wantOrdered)
			}
		}
	}
	if tau, _, _ := report.Kendall([][2]int64{{1, 30}, {2, 20}, {3, 10}}); tau != -1 {
		t.Errorf("reversed: %v", tau)
	}
	if tau, _, _ := report.Kendall([][2]int64{{1, 10}, {2, 20}, {3, 30}}); tau != 1 {
		t.Errorf("the same: %v", tau)
	}
}
