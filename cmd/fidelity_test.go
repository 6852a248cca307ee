package cmd

import (
	"encoding/json"
	"math"
	"testing"
)

// The same small load on Docker and in simulation, with the durations measured there: the same order of starts, the
// same makespan.
func TestSimulationAndContainersAgree(t *testing.T) {
	long(t)
	needsDocker(t)
	for _, policy := range []string{"gbf:pick=first", "heft", "fdws"} {
		t.Run(policy, func(t *testing.T) {
			dir := "--dir=" + t.TempDir()
			expect(t, exitOK, nil, "run", dir, "--name", "real", "--policy", policy, "--estimator", "declared",
				"--cluster", "../examples/fidelity/cluster.yaml",
				"--time-scale", "0.03", "--size-scale", "0.001", "../examples/fidelity/workload.yaml")
			expect(t, exitOK, nil, "simulate", dir, "--name", "sim", "--replay", "real")
			out := expect(t, exitOK, nil, "compare", dir, "--json", "real", "sim")
			var c struct {
				Pairs         int     `json:"pairs"`
				OrderTau      float64 `json:"order_tau"`
				MakespanError float64 `json:"makespan_error"`
				Runs          []struct {
					Makespan int64 `json:"makespan_ns"`
				}
				Causes []struct {
					Cause string
					Took  int64 `json:"ns"`
				}
			}
			must(t, json.Unmarshal([]byte(out), &c))
			// Tasks that end within milliseconds of each other may end in another order, and what follows them with
			// them.
			if c.Pairs != 40*39/2 || c.OrderTau < 0.9 || math.Abs(c.MakespanError) > 0.05 {
				t.Errorf("%d pairs, tau %.3f, makespan error %+.1f %%", c.Pairs, c.OrderTau, 100*c.MakespanError)
			}
			if len(c.Runs) != 2 || len(c.Causes) != 6 {
				t.Fatalf("%d runs, %d causes", len(c.Runs), len(c.Causes))
			}
			sum := int64(0)
			for _, x := range c.Causes {
				sum += x.Took
			}
			if want := c.Runs[0].Makespan - c.Runs[1].Makespan; sum != want {
				t.Errorf("causes are %d ns together, the makespans differ by %d: %+v", sum, want, c.Causes)
			}
		})
	}
}
