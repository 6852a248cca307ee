// Command fidelity predicts runs before they begin, runs them in containers, and writes a page on how well that went:
// examples/fidelity/README.md. It keeps its measurements; interrupted, it continues with the same command.
//
//	fidelity [-dir DIR] [-for DURATION] [-repetitions N] [-only NAMES] [-write]
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gantry/executor/sim/calibrate"
	"gantry/scripts/measure"
)

const (
	cluster = "examples/fidelity/nodes.yaml"
	page    = "examples/fidelity/README.md"
)

// policies of the page.
var policies = []string{"gbf", "cpp", "heft", "mows"}

// harness does the work.
type harness struct {
	ctx         context.Context
	dir         string
	parts       measure.Parts // its results
	repetitions int
	only        []string
}

// open gives the harness a directory.
func (x *harness) open(ctx context.Context, dir string) {
	x.ctx, x.dir, x.parts.Dir = ctx, dir, filepath.Join(dir, "results")
}

func main() {
	x := &harness{}
	dir := flag.String("dir", "fidelity-results", "keep what is measured in this directory")
	limit := flag.Duration("for", 0, "begin nothing after that time, and exit with 75 if something is left")
	flag.IntVar(&x.repetitions, "repetitions", 3, "real runs of each workflow under each policy")
	only := flag.String("only", "", "workflows to run, separated by commas (default: all)")
	write := flag.Bool("write", false, "run nothing: write the page of what was measured")
	measure.Main("fidelity", func(ctx context.Context) error {
		x.open(ctx, *dir)
		if *only != "" {
			x.only = strings.Split(*only, ",")
		}
		if *limit > 0 {
			x.parts.Until = time.Now().Add(*limit)
		}
		if !*write {
			if err := x.measure(); err != nil {
				return err
			}
		}
		return x.write()
	})
}

// gantry runs a command of gantry and returns its output.
func (x *harness) gantry(args ...string) ([]byte, error) { return measure.Built.Run(x.ctx, args...) }

// wants reports whether a workflow was asked for.
func (x *harness) wants(name string) bool { return len(x.only) == 0 || slices.Contains(x.only, name) }

// measure makes all parts of the page that do not exist yet.
func (x *harness) measure() error {
	if err := x.setAside(); err != nil {
		return err
	}
	if err := x.calibrate(0); err != nil {
		return err
	}
	all := workflows()
	for i := range all {
		if w := &all[i]; x.wants(w.name) && w.file != "" {
			if err := x.parts.Once(x.ctx, "measured-"+w.name, func() (any, error) { return x.first(w) }); err != nil {
				return err
			}
		}
	}
	total, done := len(all)*len(policies)*x.repetitions, 0
	for repetition := 1; repetition <= x.repetitions; repetition++ {
		if err := x.calibrate(repetition); err != nil {
			return err
		}
		for i := range all {
			w := &all[i]
			path, err := w.write(x)
			if err != nil {
				return err
			}
			for _, p := range policies {
				done++
				if !x.wants(w.name) {
					continue
				}
				c := run{Workflow: w.name, Policy: p, Repetition: repetition}
				err := x.parts.Once(x.ctx, c.name(), func() (any, error) {
					fmt.Fprintf(os.Stderr, "%d of %d: %s under %s\n", done, total, w.name, p)
					return x.run(c, w, path)
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// setAside renames the directory if its measurements are of other workflows or another gantry: one page never mixes the
// two.
func (x *harness) setAside() error {
	var c calibration
	found, err := x.parts.Read("calibration", &c)
	if err != nil || !found {
		return err
	}
	version, err := x.version()
	if err != nil || c.Version == version && c.Workflows == fingerprint() {
		return err
	}
	to := x.dir + "-" + c.At.Format("20060102-150405")
	fmt.Fprintf(os.Stderr, "fidelity: %s was measured by %s, or of other workflows: it is %s now\n", x.dir, c.Version,
		to)
	return os.Rename(x.dir, to)
}

// version returns the output of gantry --version.
func (x *harness) version() (string, error) {
	out, err := x.gantry("--version")
	return string(bytes.TrimSpace(out)), err
}

// calibration has the known facts of the host. The host is measured at first, in short, and before each repetition: it
// is faster at some times than at others, and calibrations that differ say by how much.
type calibration struct {
	Workflows string    `json:"workflows"` // fingerprint of those that are measured with it
	Version   string    `json:"version"`
	Host      string    `json:"host"`
	At        time.Time `json:"at"`
	Took      float64   `json:"took_s"`
}

// base is the directory whose log has the calibration and nothing else.
func (x *harness) base() string { return filepath.Join(x.dir, "base") }

func (x *harness) calibrate(repetition int) error {
	name, args := "calibration", []string{"calibrate", "--force", "--json", "--dir", x.base()}
	if repetition == 0 {
		args = append(args, "--quick")
	} else {
		name = fmt.Sprintf("%s-%d", name, repetition)
	}
	return x.parts.Once(x.ctx, name, func() (any, error) {
		began := time.Now()
		fmt.Fprintln(os.Stderr, "calibrating")
		out, err := x.gantry(args...)
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(filepath.Dir(x.model(repetition)), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(x.model(repetition), out, 0o644); err != nil {
			return nil, err
		}
		version, err := x.version()
		return calibration{Workflows: fingerprint(), Version: version, Host: measure.Host(),
			At: began.UTC(), Took: time.Since(began).Seconds()}, err
	})
}

// model is the file with the host model of a repetition.
func (x *harness) model(repetition int) string {
	return filepath.Join(x.dir, "models", fmt.Sprintf("%d.json", repetition))
}

// baseOf is the directory whose log the predictions of a workflow rest on.
func (x *harness) baseOf(w *workflow) string {
	if w.file != "" {
		return x.base() + "-" + w.name
	}
	return x.base()
}

// copyLog gives a new directory the log of another one.
func copyLog(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(from, "gantry.sqlite"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "gantry.sqlite"), text, 0o644)
}

// first runs real programs once, so that something is known of them. Their predictions rest on its log. A run before
// it, whose measurements are dropped, has read the programs from the disk.
func (x *harness) first(w *workflow) (_ any, err error) {
	fmt.Fprintf(os.Stderr, "%s: one run to measure its programs\n", w.name)
	dir := filepath.Join(x.dir, "base-"+w.name)
	defer func() { err = errors.Join(err, tidy(dir)) }()
	for range 2 {
		if err := copyLog(x.base(), dir); err != nil {
			return nil, err
		}
		if _, err := x.gantry("run", "--dir", dir, "--name", "first", "--quiet", "--policy", "cpp",
			"--cluster", cluster, w.file); err != nil {
			return nil, err
		}
	}
	return map[string]string{"run": "first"}, nil
}

// tidy keeps only the log of a directory of runs, also of one that failed: its files may fill the disk.
func tidy(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// run is a workflow that was predicted, run, simulated and compared. Times are seconds.
type run struct {
	Workflow   string    `json:"workflow"`
	Policy     string    `json:"policy"`
	Repetition int       `json:"repetition"`
	Tasks      int       `json:"tasks"`
	Basis      string    `json:"basis"`
	Predicted  float64   `json:"predicted_s"`
	Low        float64   `json:"low_s"`
	High       float64   `json:"high_s"`
	Actual     float64   `json:"actual_s"`
	Simulated  float64   `json:"simulated_s"` // the repetition without noise
	Tau        float64   `json:"tau"`         // of the order of starts
	Causes     []cause   `json:"causes"`      // of Actual - Simulated
	Starting   float64   `json:"starting_percent"`
	Busy       float64   `json:"busy_cores"` // by others, before the run
	At         time.Time `json:"at"`
	Replay     *replay   `json:"replay,omitempty"`
}

// replay is a simulation of the run with the durations that were measured in it.
type replay struct {
	Error float64 `json:"makespan_error"`
	Tau   float64 `json:"order_tau"`
}

// cause is a part of the difference between a run and its simulation.
type cause struct {
	Cause   string  `json:"cause"`
	Seconds float64 `json:"seconds"`
}

func (r *run) name() string { return fmt.Sprintf("run-%s-%s-%d", r.Workflow, r.Policy, r.Repetition) }

func (x *harness) run(r run, w *workflow, path string) (_ any, err error) {
	dir := filepath.Join(x.dir, "logs", r.name())
	if err := copyLog(x.baseOf(w), dir); err != nil {
		return nil, err
	}
	meter := calibrate.Meter()
	time.Sleep(100 * time.Millisecond)
	r.At = time.Now().UTC()
	r.Busy, _ = meter.Read()
	defer func() { err = errors.Join(err, tidy(dir)) }()
	common := []string{"--dir", dir, "--json", "--policy", r.Policy, "--cluster", cluster, "--host-model",
		x.model(r.Repetition), "--size-scale", fmt.Sprint(cmp.Or(w.sizeScale, 1))}
	// before the run, of which it is to know nothing
	simulate := append([]string{"simulate", "--name", "sim", "--estimator", "history"}, common...)
	if w.file != "" {
		simulate = append(simulate, "--measured", "first")
	}
	var simulated struct {
		Makespan float64 `json:"makespan_s"`
	}
	if err := measure.Built.JSON(x.ctx, &simulated, append(simulate, path)...); err != nil {
		return nil, err
	}
	r.Simulated = simulated.Makespan
	var s struct {
		Tasks       int     `json:"tasks"`
		Makespan    float64 `json:"makespan_s"`
		Starting    float64 `json:"starting_percent"`
		Predictions []struct {
			Scope    string
			Basis    string
			Expected float64 `json:"predicted_s"`
			Low      float64 `json:"low_s"`
			High     float64 `json:"high_s"`
		} `json:"predictions"`
	}
	real := slices.Concat([]string{"run", "--name", "real"}, common, []string{path})
	if err := measure.Built.JSON(x.ctx, &s, real...); err != nil {
		return nil, err
	}
	if len(s.Predictions) == 0 || s.Predictions[0].Scope != "run" {
		return nil, fmt.Errorf("%s under %s was not predicted", r.Workflow, r.Policy)
	}
	p := s.Predictions[0]
	r.Tasks, r.Actual, r.Starting = s.Tasks, s.Makespan, s.Starting
	r.Basis, r.Predicted, r.Low, r.High = p.Basis, p.Expected, p.Low, p.High
	var c struct {
		Tau    float64 `json:"order_tau"`
		Causes []struct {
			Cause string
			Nanos float64 `json:"ns"`
		} `json:"causes"`
	}
	if err := measure.Built.JSON(x.ctx, &c, "compare", "--dir", dir, "--json", "real", "sim"); err != nil {
		return nil, err
	}
	r.Tau = c.Tau
	for _, k := range c.Causes {
		r.Causes = append(r.Causes, cause{k.Cause, k.Nanos / 1e9})
	}
	if _, err := x.gantry("simulate", "--dir", dir, "--name", "replay", "--quiet", "--replay", "real"); err != nil {
		return nil, err
	}
	r.Replay = &replay{}
	return r, measure.Built.JSON(x.ctx, r.Replay, "compare", "--dir", dir, "--json", "real", "replay")
}
