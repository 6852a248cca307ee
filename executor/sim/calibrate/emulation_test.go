package calibrate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/executor/emulate"
	"gantry/executor/sim/calibrate"
)

// Tasks that ask for more cores than there are last as long as those require, and have to say so.
func TestTasksLastAsLongAsTheCoresRequire(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		name string
		cpu  float64
		wall time.Duration
		by   string
		miss string // "": none
	}{
		{"as asked", 100, second, "", ""},
		{"longer than asked", 100, 2 * second, emulate.LimitedByCPU, "wall time"},
		{"twice the cores", 400, 2 * second, emulate.LimitedByCPU, ""},
		{"twice the cores, and longer", 400, 3 * second, emulate.LimitedByCPU, "wall time"},
		{"twice the cores, within 2 % of that", 400, 2*second + second/30, emulate.LimitedByCPU, ""},
		{"hardly longer, as a container is", 400, second + second/30, "", ""},
		{"sooner than asked", 400, second / 2, emulate.LimitedByCPU, "wall time"},
		{"twice the cores, and nothing said", 400, 2 * second, "", "limited by"},
		{"twice the cores, and something else said", 400, 2 * second, emulate.LimitedByWrite, "limited by"},
	} {
		cell := calibrate.Cell{Run: second, CPU: c.cpu, Cores: 2}
		v := cell.Judge([]calibrate.Achieved{{Wall: c.wall, CPU: time.Duration(c.cpu / 100 * float64(second)),
			LimitedBy: c.by}}, 0)
		if got := strings.Join(v.Misses, "; "); (got == "") != (c.miss == "") || !strings.Contains(got, c.miss) {
			t.Errorf("%s: missed %q, not %q", c.name, got, c.miss)
		}
	}
}

func TestTheTableHasTasksOfManyCores(t *testing.T) {
	if !slices.ContainsFunc(calibrate.Cells(2), func(c calibrate.Cell) bool {
		return c.CPU == 400 && c.Run == 10*time.Second && !c.Contended
	}) {
		t.Error("no task at 400 % CPU on a host of two cores")
	}
}
