package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gantry/scripts/measure"
)

// late compares policies that plan ahead with and without estimates from the host model, on a load with deadlines.

const deadlines = "examples/fidelity/deadlines.yaml"

var planners = []string{"wheft", "rm-dcwf", "mows"}

// lateRuns is how often the load runs with each policy and each kind of estimates.
const lateRuns = 2

// lateRun is the load under a policy, with estimates from the host model or with --startup's constant.
type lateRun struct {
	Policy     string  `json:"policy"`
	Calibrated bool    `json:"calibrated"`
	Repetition int     `json:"repetition"`
	Workflows  int     `json:"workflows"`
	Late       int     `json:"late"`
	Makespan   float64 `json:"makespan_s"`
	// Lateness is the mean of how much workflows ended after their deadlines, those in time counted as 0.
	Lateness float64 `json:"lateness_s"`
}

func (r *lateRun) name() string {
	return fmt.Sprintf("late-%s-%v-%d", r.Policy, r.Calibrated, r.Repetition)
}

func (x *harness) late() error {
	if len(x.only) > 0 {
		return nil
	}
	for k := range lateRuns {
		for _, p := range planners {
			for _, calibrated := range []bool{true, false} {
				r := lateRun{Policy: p, Calibrated: calibrated, Repetition: k + 1}
				err := x.parts.Once(x.ctx, r.name(), func() (any, error) {
					fmt.Fprintf(os.Stderr, "deadlines: %s, calibrated estimates: %v\n", p, calibrated)
					return x.lateRun(r)
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (x *harness) lateRun(r lateRun) (_ any, err error) {
	dir := filepath.Join(x.dir, "logs", r.name())
	if err := copyLog(x.base(), dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tidy(dir)) }()
	model := "none"
	if r.Calibrated {
		model = x.model(x.repetitions)
	}
	var s struct {
		Makespan  float64 `json:"makespan_s"`
		Deadlines []struct {
			Due   float64  `json:"due_s"`
			Ended *float64 `json:"ended_s"`
			Late  bool     `json:"late"`
		} `json:"deadlines"`
	}
	if err := measure.Built.JSON(x.ctx, &s, "run", "--dir", dir, "--name", "real", "--json", "--policy", r.Policy,
		"--estimator", "declared", "--cluster", "examples/fidelity/cluster.yaml", "--host-model", model,
		deadlines); err != nil {
		return nil, err
	}
	r.Workflows, r.Makespan = len(s.Deadlines), s.Makespan
	for _, d := range s.Deadlines {
		if d.Late {
			r.Late++
		}
		if d.Ended != nil {
			r.Lateness += max(0, *d.Ended-d.Due) / float64(len(s.Deadlines))
		}
	}
	return r, nil
}

// lateRuns reads the runs of a policy with one kind of estimates.
func (x *harness) lateRuns(policy string, calibrated bool) (all []lateRun, err error) {
	for k := range lateRuns {
		r := lateRun{Policy: policy, Calibrated: calibrated, Repetition: k + 1}
		ok, err := x.parts.Read(r.name(), &r)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, r)
		}
	}
	return all, nil
}

func (x *harness) lateText(b *strings.Builder) error {
	var table, notes strings.Builder
	workflows := 0
	lateOf := func(r lateRun) float64 { return float64(r.Late) }
	makespanOf := func(r lateRun) float64 { return r.Makespan }
	for _, p := range planners {
		plain, err1 := x.lateRuns(p, false)
		model, err2 := x.lateRuns(p, true)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		for _, row := range []struct {
			with string
			runs []lateRun
		}{{"the constant 150 ms", plain}, {"the host model", model}} {
			if len(row.runs) == 0 {
				continue
			}
			workflows = row.runs[0].Workflows
			list := func(format string, of func(lateRun) float64) string {
				text := func(r lateRun) string { return fmt.Sprintf(format, of(r)) }
				return strings.Join(measure.Each(row.runs, text), ", ")
			}
			measure.Row(&table, p, row.with, list("%.0f", lateOf),
				list("%.2f", func(r lateRun) float64 { return r.Lateness }), list("%.2f", makespanOf))
		}
		if len(plain) > 0 && len(model) > 0 {
			fmt.Fprintf(&notes, "- %s with the host model: late workflows: %s; makespan: %s.\n", p,
				apart(measure.Each(plain, lateOf), measure.Each(model, lateOf), "fewer", "more"),
				apart(measure.Each(plain, makespanOf), measure.Each(model, makespanOf), "shorter", "longer"))
		}
	}
	if table.Len() == 0 {
		return nil
	}
	fmt.Fprintf(b, "## Estimates that know the host\n\nThe load of [deadlines.yaml](deadlines.yaml) in containers, on "+
		"[two nodes of a core](cluster.yaml), planned with estimates that count the phases of the host model, and "+
		"with the constant of `--startup`. %d runs each; lateness is the mean in seconds, those in time counted "+
		"as 0.\n\n", lateRuns)
	measure.Head(b, "---", "policy", "estimates with", fmt.Sprintf("late of %d", workflows), "lateness", "makespan")
	b.WriteString(table.String() + "\n" + notes.String() + "\n")
	return nil
}

// apart says how the second values differ from the first, if all of them do.
func apart(plain, model []float64, less, more string) string {
	switch {
	case slices.Max(model) < slices.Min(plain):
		return less
	case slices.Min(model) > slices.Max(plain):
		return more
	}
	return "no further apart than runs that were planned alike"
}
