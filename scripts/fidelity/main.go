// Command fidelity predicts runs before they begin, runs them in containers, and writes a page on how well that went:
// examples/fidelity/README.md. It keeps its measurements; interrupted, it continues with the same command.
//
//	fidelity [-dir DIR] [-for DURATION] [-repetitions N] [-only NAMES] [-write] [-again DIR [-model FILE]]
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	binary  = "bin/gantry"
	cluster = "examples/fidelity/nodes.yaml"
	page    = "examples/fidelity/README.md"
	// exitMore says that there is more to do: the same command continues.
	exitMore = 75
)

// policies of the page.
var policies = []string{"gbf", "cpp", "heft", "mows"}

// harness does the work.
type harness struct {
	ctx         context.Context
	dir         string
	repetitions int
	only        []string
	until       time.Time // no piece begins after it; zero: all do
}

// errMore says that time is up.
var errMore = errors.New("time is up; the same command continues")

func main() {
	x := &harness{}
	var limit time.Duration
	var only string
	flag.StringVar(&x.dir, "dir", "fidelity-results", "keep what is measured in this directory")
	flag.DurationVar(&limit, "for", 0, "begin nothing after that time, and exit with 75 if something is left")
	flag.IntVar(&x.repetitions, "repetitions", 3, "real runs of each workflow under each policy")
	flag.StringVar(&only, "only", "", "workflows to run, separated by commas (default: all)")
	write := flag.Bool("write", false, "run nothing: write the page of what was measured")
	again := flag.String("again", "", "run nothing: predict the runs that this directory keeps with today's gantry, "+
		"keep that in -dir, and print how well it would have predicted; of real programs, the order of starts and the "+
		"errors by cause are of simulations that know the run")
	model := flag.String("model", "", "with -again: a host model (gantry calibrate --json) in place of the kept one")
	flag.Parse()
	if only != "" {
		x.only = strings.Split(only, ",")
	}
	if limit > 0 {
		x.until = time.Now().Add(limit)
	}
	var stop context.CancelFunc
	x.ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := x.all(*write, *again, *model)
	switch {
	case x.ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "fidelity: stopped; the same command continues")
		os.Exit(130)
	case errors.Is(err, errMore):
		fmt.Fprintln(os.Stderr, "fidelity:", err)
		os.Exit(exitMore)
	case err != nil:
		fmt.Fprintln(os.Stderr, "fidelity:", err)
		os.Exit(1)
	}
}

func (x *harness) all(write bool, again, model string) error {
	if again != "" {
		if err := x.again(again, model); err != nil {
			return err
		}
		return x.print()
	}
	if !write {
		if err := x.measure(); err != nil {
			return err
		}
	}
	return x.write()
}

// gantry runs a command of gantry and returns its output.
func (x *harness) gantry(args ...string) ([]byte, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(x.ctx, binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("gantry %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return out.Bytes(), nil
}

func (x *harness) gantryJSON(v any, args ...string) error {
	out, err := x.gantry(args...)
	if err == nil {
		err = json.Unmarshal(out, v)
	}
	if err != nil {
		return fmt.Errorf("gantry %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// wants reports whether a workflow was asked for.
func (x *harness) wants(name string) bool { return len(x.only) == 0 || slices.Contains(x.only, name) }

// measure makes all parts of the page that do not exist yet.
func (x *harness) measure() error {
	if err := x.setAside(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(x.dir, "results"), 0o755); err != nil {
		return err
	}
	if err := x.calibrate(0); err != nil {
		return err
	}
	all := workflows()
	for i := range all {
		if w := &all[i]; x.wants(w.name) && w.file != "" {
			if err := x.once("measured-"+w.name, func() (any, error) { return x.first(w) }); err != nil {
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
				err := x.once(c.name(), func() (any, error) {
					fmt.Fprintf(os.Stderr, "%d of %d: %s under %s\n", done, total, w.name, p)
					return x.run(c, w, path)
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return x.late()
}

// once does a piece of work unless its result exists, and keeps the result.
func (x *harness) once(name string, do func() (any, error)) error {
	path := filepath.Join(x.dir, "results", name+".json")
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := x.ctx.Err(); err != nil {
		return err
	}
	if !x.until.IsZero() && time.Now().After(x.until) {
		return errMore
	}
	v, err := do()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// read reads the result of a piece; false if there is none.
func (x *harness) read(name string, v any) (bool, error) {
	text, err := os.ReadFile(filepath.Join(x.dir, "results", name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	return err == nil, err
}

// setAside renames the directory if its measurements are of other workflows or another gantry: one page never mixes the
// two.
func (x *harness) setAside() error {
	var c calibration
	found, err := x.read("calibration", &c)
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
	if err := os.Rename(x.dir, to); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Join(x.dir, "results"), 0o755)
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
	Cores     int       `json:"cores"`
	At        time.Time `json:"at"`
	Took      float64   `json:"took_s"`
	Again     string    `json:"again,omitempty"` // gantry that predicted the runs when they were over; "": before them
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
	return x.once(name, func() (any, error) {
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
		return calibration{Workflows: fingerprint(), Version: version, Host: hostText(), Cores: cores(),
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
	r.At, r.Busy = time.Now().UTC(), busyCores(100*time.Millisecond)
	defer func() { err = errors.Join(err, tidy(dir)) }()
	common := []string{"--dir", dir, "--json", "--policy", r.Policy, "--cluster", cluster, "--host-model",
		x.model(r.Repetition), "--size-scale", fmt.Sprint(cmp.Or(w.sizeScale, 1))}
	// before the run, of which it is to know nothing
	if err := x.simulate(&r, w, path, "sim", common); err != nil {
		return nil, err
	}
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
	if err := x.gantryJSON(&s, append(append([]string{"run", "--name", "real"}, common...), path)...); err != nil {
		return nil, err
	}
	if len(s.Predictions) == 0 || s.Predictions[0].Scope != "run" {
		return nil, fmt.Errorf("%s under %s was not predicted", r.Workflow, r.Policy)
	}
	p := s.Predictions[0]
	r.Tasks, r.Actual, r.Starting = s.Tasks, s.Makespan, s.Starting
	r.Basis, r.Predicted, r.Low, r.High = p.Basis, p.Expected, p.Low, p.High
	if err := x.split(&r, dir, "sim"); err != nil {
		return nil, err
	}
	if _, err := x.gantry("simulate", "--dir", dir, "--name", "replay", "--quiet", "--replay", "real"); err != nil {
		return nil, err
	}
	r.Replay = &replay{}
	return r, x.gantryJSON(r.Replay, "compare", "--dir", dir, "--json", "real", "replay")
}

// simulate simulates the coming run, without noise.
func (x *harness) simulate(r *run, w *workflow, path, name string, common []string) error {
	args := append([]string{"simulate", "--name", name, "--estimator", "history"}, common...)
	if w.file != "" {
		args = append(args, "--measured", "first")
	}
	var simulated struct {
		Makespan float64 `json:"makespan_s"`
	}
	err := x.gantryJSON(&simulated, append(args, path)...)
	r.Simulated = simulated.Makespan
	return err
}

// split compares the run with its simulation.
func (x *harness) split(r *run, dir, sim string) error {
	var c struct {
		Tau    float64 `json:"order_tau"`
		Causes []struct {
			Cause string
			Nanos float64 `json:"ns"`
		} `json:"causes"`
	}
	if err := x.gantryJSON(&c, "compare", "--dir", dir, "--json", "real", sim); err != nil {
		return err
	}
	r.Tau, r.Causes = c.Tau, nil
	for _, k := range c.Causes {
		r.Causes = append(r.Causes, cause{k.Cause, k.Nanos / 1e9})
	}
	return nil
}
