package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// again predicts real runs that were kept, with the gantry of today: none of them runs again. The actual times are
// those of the other directory, which stays as it is. Predictions know the facts known before the run. The simulations
// that the order of starts and the causes are of are made in the log of the run, though: of real programs their
// policies know how long the run itself took.
func (x *harness) again(from, model string) error {
	old := &harness{dir: from}
	rows, err := old.rows()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(x.dir, "results"), 0o755); err != nil {
		return err
	}
	var c calibration
	if _, err := old.read("calibration", &c); err != nil {
		return err
	}
	k := 0
	c.Again, err = x.version()
	if err != nil {
		return err
	}
	for name := "calibration"; ; {
		if err := x.once(name, func() (any, error) { return c, nil }); err != nil {
			return err
		}
		k++
		name = fmt.Sprintf("calibration-%d", k)
		if ok, err := old.read(name, &c); err != nil {
			return err
		} else if !ok {
			break
		}
	}
	var wait sync.WaitGroup
	errs := make([]error, len(rows))
	slots := make(chan struct{}, max(1, cores()-1))
	for i := range rows {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = x.rowAgain(old, &rows[i], model)
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// rowAgain predicts the runs of a row: only their courses differ.
func (x *harness) rowAgain(old *harness, w *row, model string) error {
	dir := filepath.Join(x.dir, "again", w.name+"-"+w.policy)
	defer os.RemoveAll(dir)
	path := w.file
	if path == "" {
		path = filepath.Join(old.dir, "workflows", w.name+".json")
	}
	for _, r := range w.runs {
		common := []string{"--dir", dir, "--json", "--policy", w.policy, "--cluster", cluster, "--size-scale",
			fmt.Sprint(cmp.Or(w.sizeScale, 1))}
		of := cmp.Or(model, old.model(r.Repetition))
		if _, err := os.Stat(of); model != "" || err == nil { // else the log has it
			common = append(common, "--host-model", of)
		}
		if err := copyLog(old.baseOf(&w.workflow), dir); err != nil {
			return err
		}
		var dry struct {
			Basis    string  `json:"basis"`
			Makespan float64 `json:"makespan_s"`
			Low      float64 `json:"makespan_low_s"`
			High     float64 `json:"makespan_high_s"`
		}
		if err := x.gantryJSON(&dry, append(append([]string{"run", "--dry-run"}, common...), path)...); err != nil {
			return err
		}
		r.Basis, r.Predicted, r.Low, r.High = dry.Basis, dry.Makespan, dry.Low, dry.High
		if err := copyLog(filepath.Join(old.dir, "logs", r.name()), dir); err != nil {
			return err
		}
		const sim = "sim"
		if _, err := x.gantry("rm", "--dir", dir, sim, "replay"); err != nil { // or the new one would learn from them
			return err
		}
		if err := x.simulate(&r, &w.workflow, path, sim, common); err != nil {
			return err
		}
		if err := x.split(&r, dir, sim); err != nil {
			return err
		}
		if err := x.once(r.name(), func() (any, error) { return r, nil }); err != nil {
			return err
		}
	}
	return nil
}

// print prints the verdicts and the causes of the runs that were predicted again.
func (x *harness) print() error {
	rows, err := x.rows()
	if err != nil {
		return err
	}
	var b strings.Builder
	verdicts(&b, rows)
	table(&b, rows)
	causes(&b, rows)
	b.WriteString("The column starts and the errors by cause of real programs are of simulations that knew how long " +
		"the run took: they say less than those of the page.\n")
	_, err = os.Stdout.WriteString(b.String())
	return err
}
