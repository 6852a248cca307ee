// Package adversary searches for the worst instance of each policy against each other, and repeats those in containers.
// examples/adversary has the instances and figures of such a search.
package adversary

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gantry/scripts/measure"
)

var (
	large      = flag.Bool("large", false, "search for all pairs")
	containers = flag.Bool("containers", false, "run the worst instance of each policy in containers, too")
)

// dir keeps the searches. One that was interrupted continues.
const dir = "gantry-runs/adversary"

// group are policies that are compared with one another.
type group struct {
	name, title, metric string
	policies            []string
	options             []string
}

var groups = []group{
	{"one", "One workflow: makespan", "makespan", []string{"gbf", "cpp", "owm", "hr", "heft", "wheft", "dla", "owm-mp",
		"mows"}, nil},
	{"many", "Three workflows: mean slowdown", "slowdown", []string{"gbf", "cpp", "owm", "fdws", "hr", "fwp", "wheft",
		"heft"}, []string{"--workflows=3", "--tasks=6"}},
	{"deadlines", "Four workflows with deadlines: lateness", "lateness", []string{"fifo", "edf", "rm-dcwf", "mrcp-rm"},
		[]string{"--workflows=4", "--tasks=5"}},
	{"tenants", "Four workflows of two tenants: mean slowdown", "slowdown", []string{"capacity", "drf", "dla", "pds",
		"3dsf"}, []string{"--workflows=4", "--tasks=5", "--tenants=2"}},
}

// TestEachPolicyHasAWorstCase expects that each policy does badly somewhere, and that containers agree.
func TestEachPolicyHasAWorstCase(t *testing.T) {
	if !*large {
		t.Skip("it takes up to 2 hours of processors: make adversary runs it")
	}
	t.Chdir("../..")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if *containers {
		if _, err := measure.Built.Run(t.Context(), "calibrate", "--dir", filepath.Join(dir, "runs"), "--runtime",
			"oci"); err != nil {
			t.Fatal(err)
		}
	}
	most, ran, held := map[string]float64{}, 0, 0
	for i := range groups {
		g := &groups[i]
		measure.Head(os.Stdout, "---", append([]string{g.title}, g.policies...)...)
		for _, a := range g.policies {
			row := []string{"**" + a + "**"}
			worst, against := 0.0, ""
			for _, b := range g.policies {
				if a == b {
					row = append(row, "")
					continue
				}
				ratio := search(t, g, a, b)
				row = append(row, fmt.Sprintf("%.3g", ratio))
				if ratio > worst {
					worst, against = ratio, b
				}
			}
			measure.Row(os.Stdout, row...)
			most[a] = max(most[a], worst)
			if *containers && worst >= 1.5 {
				ran++
				if confirmed(t, g, a, against) {
					held++
				}
			}
		}
	}
	for policy, ratio := range most {
		if ratio < 2 {
			t.Errorf("%s is at most %.3g times as bad as another", policy, ratio)
		}
	}
	if t.Logf("%d of %d ratios in containers are as predicted", held, ran); float64(held) < 0.9*float64(ran) {
		t.Error("less than 90 %")
	}
}

func stem(g *group, a, b string) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%s-%s", g.name, a, b))
}

// search searches for the worst instance of a pair, and returns its ratio.
func search(t *testing.T, g *group, a, b string) (ratio float64) {
	t.Helper()
	args := slices.Concat([]string{"adversary", "--metric", g.metric, "--chains", "4", "--steps", "1000", "--cores",
		"2", "-o", stem(g, a, b)}, g.options, []string{a, b})
	out, err := measure.Built.Run(t.Context(), args...)
	if err == nil {
		_, err = fmt.Sscanf(string(out), a+" has %g times", &ratio)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ratio
}

// confirmed reports whether the ratio of two runs in containers is within 10 % of that which the model of the host
// predicts.
func confirmed(t *testing.T, g *group, a, b string) bool {
	t.Helper()
	real, predicted := []string{"run", "--runtime", "oci", "--estimator", "declared"}, []string{"simulate",
		"--host-model", "this"}
	x := measured(t, g, a, b, a, real) / measured(t, g, a, b, b, real)
	y := measured(t, g, a, b, a, predicted) / measured(t, g, a, b, b, predicted)
	t.Logf("%s: %.3g predicted, %.3g in containers", stem(g, a, b), y, x)
	return x >= 0.9*y && x <= 1.1*y
}

// measured is the metric of a policy on the worst instance of a pair.
func measured(t *testing.T, g *group, a, b, policy string, way []string) (value float64) {
	t.Helper()
	var out struct {
		Makespan  float64            `json:"makespan_s"`
		Metrics   map[string]float64 `json:"metrics"`
		Deadlines []struct {
			Name  string
			Due   float64 `json:"due_s"`
			Ended float64 `json:"ended_s"`
		} `json:"deadlines"`
		Workflows []struct {
			Name     string
			Response float64 `json:"response_s"`
		} `json:"workflow_summaries"`
	}
	path, kind := stem(g, a, b), ".json"
	if g.options != nil {
		kind = ".yaml"
	}
	args := slices.Concat(way, []string{"--json", "--policy", policy, "--dir", filepath.Join(dir, "runs"), "--cluster",
		path + ".cluster.yaml", path + kind})
	if err := measure.Built.JSON(t.Context(), &out, args...); err != nil {
		t.Fatal(err)
	}
	switch g.metric {
	case "makespan":
		return out.Makespan
	case "slowdown":
		return out.Metrics["slowdown_mean"]
	}
	for _, d := range out.Deadlines {
		for _, w := range out.Workflows {
			if w.Name == d.Name { // arrived when it ended less its response
				value += (1 + max(0, d.Ended-d.Due)/(d.Due-d.Ended+w.Response)) / float64(len(out.Deadlines))
			}
		}
	}
	return value
}
