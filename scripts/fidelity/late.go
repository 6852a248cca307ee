package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
				err := x.once(r.name(), func() (any, error) {
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
	args := []string{"run", "--dir", dir, "--name", "real", "--json", "--policy", r.Policy, "--estimator", "declared",
		"--cluster", "examples/fidelity/cluster.yaml"}
	if r.Calibrated {
		args = append(args, "--host-model", x.model(x.repetitions))
	} else {
		args = append(args, "--host-model", "none")
	}
	var s struct {
		Makespan  float64 `json:"makespan_s"`
		Deadlines []struct {
			Due   float64  `json:"due_s"`
			Ended *float64 `json:"ended_s"`
			Late  bool     `json:"late"`
		} `json:"deadlines"`
	}
	if err := x.gantryJSON(&s, append(args, deadlines)...); err != nil {
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

// lateRow is a policy with one kind of estimates.
type lateRow struct {
	policy     string
	calibrated bool
	runs       []lateRun
}

func (r *lateRow) each(of func(lateRun) float64) []float64 { return each(r.runs, of) }

func (r *lateRow) makespans() []float64 {
	return r.each(func(x lateRun) float64 { return x.Makespan })
}

func (r *lateRow) late() []float64 {
	return r.each(func(x lateRun) float64 { return float64(x.Late) })
}

func (x *harness) lateRows() (rows []lateRow, err error) {
	for _, p := range planners {
		for _, calibrated := range []bool{false, true} {
			row := lateRow{policy: p, calibrated: calibrated}
			for k := range lateRuns {
				r := lateRun{Policy: p, Calibrated: calibrated, Repetition: k + 1}
				ok, err := x.read(r.name(), &r)
				if err != nil {
					return nil, err
				}
				if ok {
					row.runs = append(row.runs, r)
				}
			}
			if len(row.runs) > 0 {
				rows = append(rows, row)
			}
		}
	}
	return rows, nil
}

func (x *harness) lateText(b *strings.Builder) error {
	rows, err := x.lateRows()
	if err != nil || len(rows) == 0 {
		return err
	}
	fmt.Fprintf(b, "## Estimates that know the host\n\nThe load of [deadlines.yaml](deadlines.yaml) in containers, on "+
		"[two nodes of a core](cluster.yaml), planned with estimates that count the phases of the host model, and "+
		"with the constant of `--startup`. %d runs each; lateness is the mean in seconds, those in time counted "+
		"as 0.\n\n"+
		"| policy | estimates with | late of %d | lateness | makespan |\n| --- | --- | --- | --- | --- |\n", lateRuns,
		rows[0].runs[0].Workflows)
	for i := range rows {
		r := &rows[i]
		with := "the constant 150 ms"
		if r.calibrated {
			with = "the host model"
		}
		list := func(format string, of func(lateRun) float64) string {
			var all []string
			for _, v := range r.each(of) {
				all = append(all, fmt.Sprintf(format, v))
			}
			return strings.Join(all, ", ")
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", r.policy, with,
			list("%.0f", func(x lateRun) float64 { return float64(x.Late) }),
			list("%.2f", func(x lateRun) float64 { return x.Lateness }),
			list("%.2f", func(x lateRun) float64 { return x.Makespan }))
	}
	b.WriteString("\n")
	for i := 0; i+1 < len(rows); i++ {
		if plain, model := &rows[i], &rows[i+1]; plain.policy == model.policy {
			fmt.Fprintf(b, "- %s with the host model: late workflows: %s; makespan: %s.\n", plain.policy,
				apart(plain.late(), model.late(), "fewer", "more"),
				apart(plain.makespans(), model.makespans(), "shorter", "longer"))
		}
	}
	b.WriteString("\n")
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
