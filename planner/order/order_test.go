package order_test

import (
	"math"
	"testing"

	"gantry/planner/order"
)

func TestFDWSRanksByWhatIsLeft(t *testing.T) {
	first, second := 1/order.Remaining(5, 10, 40), 1/order.Remaining(18, 20, 30)
	if math.Abs(first-0.05) > 1e-12 || math.Abs(second-1./27) > 1e-12 {
		t.Errorf("r_a are %v and %v, want 0.05 and 0.037037", first, second)
	}
}

func TestSlowdownIsCorrected(t *testing.T) {
	for _, c := range []struct{ resident, remaining, length, scale, want float64 }{
		{30, 20, 40, 1.5, 1},
		{50, 10, 20, 1.5, 65. / 30},
		{0, 8, 8, 3, 1},
		{0, 0, 0, 1, 1},
		{5, 0, 0, 1, math.Inf(1)},
	} {
		if got := order.Slowdown(c.resident, c.remaining, c.length, c.scale); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
