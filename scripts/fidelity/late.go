package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// late compares policies that plan ahead with and without estimates from the host model, on a load with deadlines.

const deadlines = "examples/fidelity/deadlines.yaml"

var planners = []string{"wheft", "rm-dcwf", "mows"}

// lateRun is the load under a policy, with estimates from the host model or with --startup's constant.
type lateRun struct {
	Policy     string  `json:"policy"`
	Calibrated bool    `json:"calibrated"`
	Workflows  int     `json:"workflows"`
	Late       int     `json:"late"`
	Makespan   float64 `json:"makespan_s"`
	// Lateness is the mean of how much workflows ended after their deadlines, those in time counted as 0.
	Lateness float64 `json:"lateness_s"`
}

func (r *lateRun) name() string { return fmt.Sprintf("late-%s-%v", r.Policy, r.Calibrated) }

func (x *harness) late() error {
	if len(x.only) > 0 {
		return nil
	}
	for _, p := range planners {
		for _, calibrated := range []bool{true, false} {
			r := lateRun{Policy: p, Calibrated: calibrated}
			err := x.once(r.name(), func() (any, error) {
				fmt.Fprintf(os.Stderr, "deadlines: %s, calibrated estimates: %v\n", p, calibrated)
				return x.lateRun(r)
			})
			if err != nil {
				return err
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
	if !r.Calibrated {
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
