package report_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gantry/executor/experiment"
	"gantry/sqlite/report"
	"gantry/sqlite/report/results"
)

// vary has a cell of two repetitions for each value of a parameter, under two policies.
func vary(param string, values ...string) (s []*results.Cell) {
	for _, policy := range []string{"edf", "cpp"} {
		for i, v := range values {
			c := &results.Cell{Params: map[string]string{"policy": policy, param: v}}
			for n := range 2 {
				c.Runs = append(c.Runs, results.Run{Repetition: n, State: experiment.Done, Values: map[string]float64{
					"slowdown_mean": float64(i*len(policy) + n), "response_mean": 1}})
			}
			s = append(s, c)
		}
	}
	return s
}

func drawn(t *testing.T, s []*results.Cell, name string) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := report.Figures(&results.Set{Name: "x", Cells: s}, dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Numbers of a parameter stand at their places, from the left to the right, whatever their order in the experiment.
func TestNumbersStandAtTheirPlaces(t *testing.T) {
	var got []string
	for line := range strings.Lines(drawn(t, vary("workload.tasks", "100", "5", "40"), "x-mean-slowdown-tasks.csv")) {
		cells := strings.Split(line, ",")
		got = append(got, cells[1]+" "+cells[2]+" "+cells[4])
	}
	if want := []string{"series x mean", "edf 5 3.5", "edf 40 6.5", "edf 100 0.5", "cpp 5 3.5",
		"cpp 40 6.5", "cpp 100 0.5"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Each cell is compared with that of the policy on the same load; on a load that the policy did not meet there is none.
func TestDifferencesAreToThePolicyOnTheSameLoad(t *testing.T) {
	cells := vary("workload.tasks", "5", "40", "100")
	cells = slices.DeleteFunc(cells, func(c *results.Cell) bool {
		return c.Params["policy"] == "cpp" && c.Params["workload.tasks"] == "40"
	})
	cells[0].Runs[0].Values["slowdown_mean"], cells[0].Runs[1].Values["slowdown_mean"] = 8, 9
	dir := t.TempDir()
	files, err := report.Chosen("x", cells, report.Choice{Metrics: []string{"slowdown_mean"}, Against: "cpp"}, dir)
	if err != nil || len(files) != 4 {
		t.Fatalf("%v, %v", files, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "x-slowdown_mean-less-cpp-by-workload.tasks.csv"))
	of := "slowdown_mean less that of cpp,edf,"
	if want := of + "5,2,8,0\n" + of + "100,2,0,0\n"; err != nil || !strings.HasSuffix(string(text), "\n"+want) ||
		strings.Count(string(text), "\n") != 3 {
		t.Errorf("%v: %s", err, text)
	}
}
