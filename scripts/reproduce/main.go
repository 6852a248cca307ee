// Command reproduce runs the experiments behind the tables and figures of the papers, and makes a page of their
// results. It shows the time left; interrupted, it continues with the same command.
//
//	reproduce [-suite DIR] [-quick] [-jobs N] [-dir DIR] [-write] [-paper NAME -figure N]
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"gantry/scripts/measure"
	"gantry/sqlite/report/study"
	"gantry/trace/scenario"
)

// first is how many repetitions all experiments get before any gets more, so that a run that is ended early has
// intervals for everything.
const first = 3

// suite is the file reproduce.yaml.
type suite struct {
	Runtime     string     `yaml:"runtime"` // of containers, for which the host is measured before; "": simulations
	Papers      []string   `yaml:"papers"`  // directories with a study file
	Experiments []runnable `yaml:"experiments"`
}

type runnable struct {
	File    string  `yaml:"file"`
	Reading string  `yaml:"reading"` // of the file; "": that of the text
	Seconds float64 `yaml:"seconds"` // of a repetition, on one core
	Quick   float64 `yaml:"quick"`   // of all of the quick variant; 0: it is left out of that
}

func main() {
	r := &runner{}
	flag.StringVar(&r.examples, "suite", "examples/experiments", "the directory of reproduce.yaml")
	flag.BoolVar(&r.quick, "quick", false, "short streams and few repetitions, at most 10 minutes on two cores")
	flag.IntVar(&r.jobs, "jobs", runtime.NumCPU(), "simulations at once")
	flag.StringVar(&r.dir, "dir", "", "keep results in this directory (reproduce, reproduce-quick)")
	write := flag.Bool("write", false, "run nothing: write the short forms of the results, and the pages of the papers")
	paper := flag.String("paper", "", "of -figure: ccgrid, rm-dcwf, mows or 3dsf")
	figure := flag.String("figure", "", "run what is behind this figure alone, such as 7 or 5-3; tN is table N")
	measure.Main("reproduce", func(ctx context.Context) error {
		if r.dir == "" && r.quick {
			r.dir = "reproduce-quick"
		}
		r.dir = cmp.Or(r.dir, "reproduce")
		if r.jobs < 1 || flag.NArg() > 0 {
			return fmt.Errorf("jobs %d, arguments %q: -jobs takes a number above 0, and nothing else follows; -h "+
				"lists the options", r.jobs, flag.Args())
		}
		if err := r.read(); err != nil {
			return err
		}
		if *paper != "" || *figure != "" {
			return r.figure(ctx, *paper, *figure)
		}
		if *write {
			return r.pages(ctx)
		}
		return r.run(ctx)
	})
}

type runner struct {
	examples string
	quick    bool
	jobs     int
	dir      string
	suite
}

func (r *runner) read() error {
	text, err := os.ReadFile(filepath.Join(r.examples, "reproduce.yaml"))
	if err != nil {
		return err
	}
	if err := study.Decode(text, &r.suite); err != nil {
		return fmt.Errorf("%s/reproduce.yaml: %w", r.examples, err)
	}
	for _, p := range r.Papers { // before hours of simulations
		if _, err := study.Read(filepath.Join(r.examples, p, "study.yaml")); err != nil {
			return err
		}
	}
	if r.quick {
		r.Experiments = slices.DeleteFunc(r.Experiments, func(x runnable) bool { return x.Quick == 0 })
	}
	return os.MkdirAll(r.dir, 0o755)
}

// out is the file of the results of an experiment.
func (r *runner) out(x *runnable) string {
	return filepath.Join(r.dir, strings.ReplaceAll(x.name(), "/", "-")+".sqlite")
}

// name is the file without its suffix, and the reading.
func (x *runnable) name() string {
	name := strings.TrimSuffix(x.File, ".yaml")
	if x.Reading != "" {
		name += "@" + x.Reading
	}
	return name
}

// wanted returns the repetitions of an experiment.
func (r *runner) wanted(x *runnable) (int, error) {
	path := filepath.Join(r.examples, x.File)
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	e, err := scenario.ReadExperiment(f, path, r.quick, x.Reading)
	if err != nil {
		return 0, err
	}
	return e.Repetitions, nil
}

// cost is the CPU time of n repetitions of all that an experiment has.
func (r *runner) cost(x *runnable, n, all int) float64 {
	if r.quick {
		return x.Quick * float64(n) / float64(all)
	}
	return x.Seconds * float64(n)
}

// run runs all experiments. The time that it shows is what they take together if nothing is kept from before.
func (r *runner) run(ctx context.Context) error {
	if err := r.calibrate(ctx); err != nil {
		return err
	}
	left, wanted := 0.0, make([]int, len(r.Experiments))
	for i := range r.Experiments {
		x := &r.Experiments[i]
		n, err := r.wanted(x)
		if err != nil {
			return err
		}
		wanted[i] = n
		left += r.cost(x, n, n)
	}
	fmt.Printf("%d experiments; results in %s\n", len(r.Experiments), r.dir)
	for _, from := range []int{0, first} {
		for i := range r.Experiments {
			x, to := &r.Experiments[i], wanted[i]
			if to <= from {
				continue
			}
			if from == 0 {
				to = min(first, to)
			}
			fmt.Printf("%s: %s, %d of %d repetitions; at most about %s left\n", time.Now().Format(time.TimeOnly),
				x.name(), to, wanted[i], round(left/float64(r.jobs)))
			if err := r.experiment(ctx, x, to); err != nil {
				return err
			}
			left -= r.cost(x, to-from, wanted[i])
		}
	}
	return r.summary(ctx)
}

// calibrate measures the host for predictions, once.
func (r *runner) calibrate(ctx context.Context) error {
	mark := filepath.Join(r.dir, "calibrated")
	if _, err := os.Stat(mark); r.Runtime == "" || err == nil {
		return nil
	}
	if err := gantry(ctx, "calibrate", "--dir", r.runs(), "--runtime", r.Runtime); err != nil {
		return err
	}
	return os.WriteFile(mark, nil, 0o644)
}

// runs is the directory of the log, of experiments in containers.
func (r *runner) runs() string { return filepath.Join(r.dir, "runs") }

func round(seconds float64) time.Duration { return time.Duration(seconds) * time.Second }

func (r *runner) experiment(ctx context.Context, x *runnable, repetitions int) error {
	args := []string{"experiment", "-o", r.out(x), "--jobs", fmt.Sprint(r.jobs), "--repetitions",
		fmt.Sprint(repetitions)}
	if r.quick {
		args = append(args, "--quick")
	}
	if r.Runtime != "" {
		args = append(args, "--dir", r.runs())
	}
	if x.Reading != "" {
		args = append(args, "--reading", x.Reading)
	}
	return gantry(ctx, append(args, filepath.Join(r.examples, x.File))...)
}

// gantry runs a command of gantry, and passes on its output.
func gantry(ctx context.Context, args ...string) error {
	c := measure.Built.Command(ctx, args...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("gantry %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// summary writes the page with each relation of the papers.
func (r *runner) summary(ctx context.Context) error {
	args := []string{"report"}
	for _, p := range r.Papers {
		args = append(args, "--study", filepath.Join(r.examples, p, "study.yaml"))
	}
	args = append(args, "--html", filepath.Join(r.dir, "page.html"))
	for i := range r.Experiments {
		args = append(args, r.out(&r.Experiments[i]))
	}
	return gantry(ctx, args...)
}

// pages writes the short forms of the results beside the experiments of each paper, and its page with figures.
func (r *runner) pages(ctx context.Context) error {
	for _, p := range r.Papers {
		dir := filepath.Join(r.examples, p)
		if err := os.MkdirAll(filepath.Join(dir, "results"), 0o755); err != nil {
			return err
		}
		for i := range r.Experiments {
			x := &r.Experiments[i]
			if filepath.Dir(x.File) != filepath.Clean(p) {
				continue
			}
			if _, err := os.Stat(r.out(x)); err != nil {
				continue // not run, or kept in short form from before
			}
			name := filepath.Base(x.name()) + ".jsonl"
			if err := gantry(ctx, "report", "--study", filepath.Join(dir, "study.yaml"), "--save",
				filepath.Join(dir, "results", name), r.out(x)); err != nil {
				return err
			}
		}
		if err := page(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// page writes README.md and the figures of a paper from the results beside it.
func page(ctx context.Context, dir string) error {
	c := measure.Built.Command(ctx, "report", "--study", "study.yaml", "--markdown", "--out", "figures", "results")
	c.Dir, c.Stderr = dir, os.Stderr
	text, err := c.Output()
	if err != nil {
		return fmt.Errorf("page of %s: %w", dir, err)
	}
	return os.WriteFile(filepath.Join(dir, "README.md"), text, 0o644)
}
