// Package fidelity predicts runs before they begin, from a calibration of the host that saw none of these workflows,
// runs them in containers, and holds the predictions to bars. examples/fidelity has the figures of a run.
package fidelity

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gantry/executor/experiment/metrics"
	"gantry/scripts/measure"
)

var large = flag.Bool("large", false, "do all runs")

const (
	cluster     = "examples/fidelity/nodes.yaml"
	repetitions = 3
)

var policies = []string{"gbf", "cpp", "heft", "mows"}

// row is a workflow under a policy: its repetitions.
type row struct {
	workflow, policy string
	runs             []run
}

// run was predicted, done, and compared with a simulation without noise. Times are seconds.
type run struct{ predicted, low, high, actual, tau float64 }

// each lists a value of each of some things.
func each[T any](all []T, of func(T) float64) (out []float64) {
	for _, x := range all {
		out = append(out, of(x))
	}
	return out
}

func (r *row) of(value func(run) float64) metrics.Summary {
	return metrics.Summarise(each(r.runs, value))
}

func (r *row) actual() float64    { return r.of(func(x run) float64 { return x.actual }).Median }
func (r *row) predicted() float64 { return r.of(func(x run) float64 { return x.predicted }).Median }
func (r *row) tau() float64       { return r.of(func(x run) float64 { return x.tau }).Median }
func (r *row) err() float64       { return r.predicted()/r.actual() - 1 }

// reach is the distance of the longest from the shortest repetition.
func (r *row) reach() float64 {
	s := r.of(func(x run) float64 { return x.actual })
	return s.Max - s.Min
}

// TestPredictionsOfRunsInContainers predicts each run, runs it, and checks errors, orders of starts, intervals, and the
// order of policies.
func TestPredictionsOfRunsInContainers(t *testing.T) {
	if !*large {
		t.Skip("it takes 15 minutes of a quiet host: make fidelity runs it")
	}
	t.Chdir("../..")
	if err := os.MkdirAll("gantry-runs", 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("gantry-runs", "fidelity-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	x := &harness{t, dir}
	all := workflows()
	for i := range all {
		all[i].write(x)
	}
	rows := make([]row, len(all)*len(policies))
	for range repetitions { // a host is faster at some times than at others: each round has a calibration of its own
		x.calibrate()
		for i := range rows {
			w, r := &all[i/len(policies)], &rows[i]
			r.workflow, r.policy = w.name, policies[i%len(policies)]
			r.runs = append(r.runs, x.run(w, r.policy))
			t.Logf("%s under %s: %+v", r.workflow, r.policy, r.runs[len(r.runs)-1])
		}
	}
	check(t, rows)
}

// harness runs commands of gantry.
type harness struct {
	*testing.T
	dir string
}

func (x *harness) at(names ...string) string {
	return filepath.Join(append([]string{x.dir}, names...)...)
}

func (x *harness) gantry(args ...string) []byte {
	x.Helper()
	out, err := measure.Built.Run(x.Context(), args...)
	if err != nil {
		x.Fatal(err)
	}
	return out
}

func (x *harness) json(v any, args ...string) {
	x.Helper()
	if err := measure.Built.JSON(x.Context(), v, args...); err != nil {
		x.Fatal(err)
	}
}

func (x *harness) keep(path string, text []byte) {
	x.Helper()
	if err := os.WriteFile(path, text, 0o644); err != nil {
		x.Fatal(err)
	}
}

func (x *harness) calibrate() {
	x.keep(x.at("model.json"), x.gantry("calibrate", "--force", "--json", "--dir", x.at("calibrations")))
}

// run predicts a workflow, does it, and compares it. Predictions of real programs rest on one earlier run of theirs,
// whose log is copied.
func (x *harness) run(w *workflow, policy string) (r run) {
	dir := x.at("run")
	if err := os.RemoveAll(dir); err != nil {
		x.Fatal(err)
	}
	common := []string{"--dir", dir, "--json", "--policy", policy, "--cluster", cluster, "--host-model",
		x.at("model.json"), "--size-scale", fmt.Sprint(cmp.Or(w.sizeScale, 1))}
	simulate := append([]string{"simulate", "--name", "sim", "--estimator", "learned"}, common...)
	if w.real {
		log, err := os.ReadFile(x.at("first-"+w.name, "gantry.sqlite"))
		if err == nil {
			err = os.Mkdir(dir, 0o755)
		}
		if err != nil {
			x.Fatal(err)
		}
		x.keep(filepath.Join(dir, "gantry.sqlite"), log)
		simulate = append(simulate, "--measured", "first")
	}
	x.gantry(append(simulate, w.path)...) // before the run, of which it is to know nothing
	var real struct {
		Makespan    float64 `json:"makespan_s"`
		Predictions []struct {
			Scope    string
			Expected float64 `json:"predicted_s"`
			Low      float64 `json:"low_s"`
			High     float64 `json:"high_s"`
		} `json:"predictions"`
	}
	x.json(&real, slices.Concat([]string{"run", "--name", "real"}, common, []string{w.path})...)
	if len(real.Predictions) == 0 || real.Predictions[0].Scope != "run" {
		x.Fatalf("%s under %s was not predicted", w.name, policy)
	}
	var compared struct {
		Tau float64 `json:"order_tau"`
	}
	x.json(&compared, "compare", "--dir", dir, "--json", "real", "sim")
	p := real.Predictions[0]
	return run{p.Expected, p.Low, p.High, real.Makespan, compared.Tau}
}

// check prints all rows, and holds them to the bars.
func check(t *testing.T, rows []row) {
	bar := func(met bool, format string, args ...any) {
		t.Helper()
		if met {
			t.Logf(format, args...)
		} else {
			t.Errorf("missed: "+format, args...)
		}
	}
	inside := 0
	measure.Head(os.Stdout, "---", "workflow", "policy", "predicted", "actual", "error", "spread", "starts")
	for i := range rows {
		r := &rows[i]
		for _, x := range r.runs {
			if x.low <= x.actual && x.actual <= x.high {
				inside++
			}
		}
		spread := r.reach() / r.actual()
		fmt.Printf("| %s | %s | %.2f s | %.2f s | %+.1f %% | %.1f %% | %.3f |\n", r.workflow, r.policy, r.predicted(),
			r.actual(), 100*r.err(), 100*spread, r.tau())
		bar(math.Abs(r.err()) <= max(0.08, 2*spread), "error of %s under %s: %+.1f %%, at most 8 or twice the spread",
			r.workflow, r.policy, 100*r.err())
		bar(r.tau() >= 0.95, "order of starts of %s under %s: Kendall's tau %.3f, at least 0.95", r.workflow, r.policy,
			r.tau())
	}
	errs := metrics.Summarise(each(rows, func(r row) float64 { return math.Abs(r.err()) }))
	bar(errs.Median <= 0.02, "median error %.1f %%, at most 2", 100*errs.Median)
	coverage := float64(inside) / float64(len(rows)*repetitions)
	bar(coverage >= 0.7 && coverage <= 0.9, "intervals of 80 %% have %.1f %% of the runs, 70 to 90", 100*coverage)
	same, other := ranking(rows)
	bar(float64(same-other) >= 0.8*float64(same+other), "policies rank as in reality: %d pairs alike, %d not, tau at "+
		"least 0.8", same, other)
}

// ranking compares the order of policies as predicted with that of reality, over all pairs of policies of a workflow
// that differ in reality by more than their repetitions do.
func ranking(rows []row) (same, other int) {
	for i := range rows {
		for k := range rows[:i] {
			a, b := &rows[i], &rows[k]
			d := a.actual() - b.actual()
			if a.workflow != b.workflow ||
				math.Abs(d) <= max(a.reach(), b.reach(), 0.01*min(a.actual(), b.actual())) {
				continue
			}
			if (a.predicted()-b.predicted())*d > 0 {
				same++
			} else {
				other++
			}
		}
	}
	return same, other
}
