// Package adversary searches for the worst instance of each policy against each other, and repeats those in containers.
// examples/adversary has the instances and figures of such a search.
package adversary

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"gantry/scripts/measure"
)

var (
	large      = flag.Bool("large", false, "search for all pairs")
	containers = flag.Bool("containers", false, "run the instances of examples/adversary in containers, too")
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
		"mows", "peft", "cpop", "lookahead", "min-min", "max-min"}, []string{"--steps=1000"}},
	{"many", "Three workflows: mean slowdown", "slowdown", []string{"gbf", "cpp", "owm", "fdws", "hr", "fwp", "wheft",
		"heft"}, []string{"--steps=400", "--workflows=3", "--tasks=6"}},
	{"deadlines", "Four workflows with deadlines: lateness", "lateness", []string{"fifo", "edf", "rm-dcwf", "mrcp-rm"},
		[]string{"--steps=400", "--workflows=4", "--tasks=5"}},
	{"tenants", "Four workflows of two tenants: mean slowdown", "slowdown", []string{"capacity", "drf", "dla", "pds",
		"3dsf"}, []string{"--steps=400", "--workflows=4", "--tasks=5", "--tenants=2"}},
}

// TestEachPolicyHasAWorstCase expects that each policy does badly somewhere.
func TestEachPolicyHasAWorstCase(t *testing.T) {
	if !*large {
		t.Skip("it takes up to 2 hours of processors: make adversary runs it")
	}
	t.Chdir("../..")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	most := map[string]float64{}
	for i := range groups {
		g := &groups[i]
		measure.Head(os.Stdout, "---", append([]string{g.title}, g.policies...)...)
		for _, a := range g.policies {
			row := []string{"**" + a + "**"}
			for _, b := range g.policies {
				if a == b {
					row = append(row, "")
					continue
				}
				ratio := search(t, g, a, b)
				row = append(row, fmt.Sprintf("%.3g", ratio))
				most[a] = max(most[a], ratio)
			}
			measure.Row(os.Stdout, row...)
		}
	}
	for policy, ratio := range most {
		if ratio < 2 {
			t.Errorf("%s is at most %.3g times as bad as another", policy, ratio)
		}
	}
	var use syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_CHILDREN, &use)
	if cpu := time.Duration(use.Utime.Nano() + use.Stime.Nano()); cpu > 2*time.Hour {
		t.Errorf("the searches took %s of CPU time", cpu)
	} else {
		t.Logf("the searches that were left took %s of CPU time", cpu)
	}
}

// search searches for the worst instance of a pair, and returns its ratio.
func search(t *testing.T, g *group, a, b string) (ratio float64) {
	t.Helper()
	args := slices.Concat([]string{"adversary", "--metric", g.metric, "--chains", "4", "--cores", "1.8", "-o",
		filepath.Join(dir, name(g, a, b))}, g.options, []string{a, b})
	out, err := measure.Built.Run(t.Context(), args...)
	if err == nil {
		_, err = fmt.Sscanf(string(out), a+" has %g times", &ratio)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ratio
}

func name(g *group, a, b string) string { return fmt.Sprintf("%s-%s-%s", g.name, a, b) }

// TestContainersHaveTheRatios expects that nine of ten instances of examples/adversary have their simulated ratio in
// containers, within 10 %. Runs that ended are kept.
func TestContainersHaveTheRatios(t *testing.T) {
	if !*containers {
		t.Skip("it takes 40 minutes of a quiet host: make adversary ARGS=-containers runs it")
	}
	t.Chdir("../..")
	ran, held := 0, 0
	for i := range groups {
		g := &groups[i]
		for _, a := range g.policies {
			for _, b := range g.policies {
				path := filepath.Join("examples/adversary", name(g, a, b))
				if _, err := os.Stat(path + ".cluster.yaml"); err != nil {
					continue
				}
				x, y := measured(t, g, path, a), measured(t, g, path, b)
				simulated, real := x.Simulated/y.Simulated, x.Containers/y.Containers
				ran++
				if real >= 0.9*simulated && real <= 1.1*simulated {
					held++
				}
				t.Logf("%s: %.3g simulated, %.3g in containers", name(g, a, b), simulated, real)
			}
		}
	}
	if t.Logf("%d of %d ratios hold in containers", held, ran); ran == 0 || float64(held) < 0.9*float64(ran) {
		t.Error("less than 90 %")
	}
}

// both is the metric of a policy on an instance.
type both struct{ Simulated, Containers float64 }

// measured simulates an instance, and runs it unless a run of the same simulated metric is kept.
func measured(t *testing.T, g *group, path, policy string) (m both) {
	t.Helper()
	kept := filepath.Join(dir, filepath.Base(path)+"."+policy+".json")
	if text, err := os.ReadFile(kept); err == nil {
		json.Unmarshal(text, &m)
	}
	if simulated := metric(t, g, path, policy, "simulate"); m.Simulated != simulated {
		m = both{simulated, metric(t, g, path, policy, "run", "--runtime", "oci", "--estimator", "declared")}
		text, err := json.Marshal(m)
		if err == nil {
			err = os.WriteFile(kept, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// metric is that of a policy on an instance, simulated or in containers.
func metric(t *testing.T, g *group, path, policy string, way ...string) (value float64) {
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
	kind := ".json"
	if g.metric != "makespan" {
		kind = ".yaml"
	}
	args := append(way, "--json", "--policy", policy, "--seed", "1", "--startup", "50ms", "--host-model", "none",
		"--dir", filepath.Join(dir, "runs"), "--cluster", path+".cluster.yaml", path+kind)
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
