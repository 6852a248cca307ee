package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	release "gantry"

	"github.com/urfave/cli/v2"

	"gantry/cmd/gantry/early"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/cmd/internal/trial"
	"gantry/executor/experiment"
	"gantry/sqlite"
	"gantry/sqlite/report/results"
	"gantry/trace/scenario"
)

func experimentCommand() *cli.Command {
	return &cli.Command{
		Name:      "experiment",
		Usage:     "simulate or run all combinations of policies, loads, errors and other factors",
		ArgsUsage: "FILE",
		Description: `FILE names workloads, clusters and policies, and the parameters to vary. Every combination is
simulated as often as FILE says, side by side on all cores. Repetitions differ in their seeds; combinations share them,
so all policies meet the same workflows and errors. Results depend on the files alone, not on the order of the runs or
on --jobs.

   gantry experiment slowdown.yaml                writes slowdown.sqlite
   gantry experiment --quick slowdown.yaml        the short variant, writes slowdown-quick.sqlite
   gantry compare slowdown.sqlite                 policies side by side, with confidence intervals
   gantry report slowdown.sqlite --out figures    tables and figures

The same command continues an interrupted experiment, and keeps the runs that have ended. FILE may get more values or
repetitions in the meantime. Runs whose system diverges are cut off at the limits of FILE, and counted.

--runtime runs the same in containers, one run after the other, and simulates each as this host runs containers (gantry
calibrate measures it before): the factor runtime of the results is RUNTIME or predicted. Runs are those of the log in
--dir: gantry compare says where a run and its prediction differ. A run beside which other programs used more cores than
the limit busy of FILE (0.5) is done again, at most twice (docs/experiments.md). With --runtime slurm runs are on the
nodes of the allocation around gantry, a node for each of the cluster, and beside simulations of ideal machines.

   gantry experiment --runtime oci slowdown.yaml   writes slowdown-oci.sqlite
   salloc -N 4 gantry experiment --runtime slurm slowdown.yaml

Factors: policy, policy.PARAMETER, errors, estimator, startup, cluster, workload, utilisation, runtime, time_scale,
size_scale, faults (lost nodes, failed attempts, slow nodes), and workload.KEY with any path of keys of the workload
file. The schema is trace/scenario/schema/experiment.schema.json.

Exit codes: 0 all runs done, 1 some could not be done, 2 wrong command line, 3 invalid input, 4 the results cannot be
written, 75 another gantry writes them, 130 interrupted and resumable.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.StringFlag{Name: "runtime", Usage: "run in containers by `RUNTIME` (docker, oci, slurm); sim only " +
				"simulates", DefaultText: "that of FILE, else sim"},
			&cli.BoolFlag{Name: "oversubscribe", Usage: "with --runtime: clusters may have more cores or memory than " +
				"this host"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the results to `FILE`",
				DefaultText: "NAME.sqlite"},
			&cli.IntFlag{Name: "jobs", Aliases: []string{"j"}, Usage: "run `N` simulations at once",
				DefaultText: "one per core"},
			&cli.IntFlag{Name: "repetitions", Usage: "run at most `N` repetitions now; the same command without it " +
				"runs the rest", DefaultText: "those of FILE"},
			&cli.BoolFlag{Name: "quick", Usage: "the short variant, with the values below quick in FILE"},
			&cli.StringFlag{Name: "reading", Usage: "the reading `NAME` of FILE: its values in the place of others; " +
				"writes EXPERIMENT@NAME.sqlite"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print nothing but errors"},
		},
		Action: exactly(1, "name one experiment file", runExperiment),
	}
}

// collectSeldom has the collector wait until twice the memory in use is garbage: many short runs side by side take a
// fifth less CPU time so, and one with its log a twentieth.
func collectSeldom() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
}

func runExperiment(c *cli.Context) error {
	collectSeldom()
	path := c.Args().First()
	x, err := readExperiment(path, c.Bool("quick"), c.String("reading"))
	if err != nil {
		return exit.With(exit.Input, err)
	}
	view := &experimentView{Progress: term.New(c.Bool("quiet")), begun: time.Now()}
	bench, err := benchOf(c, x, view)
	if err != nil {
		return err
	}
	out := c.String("o")
	if out == "" {
		out = filepath.Base(x.Name)
		if c.Bool("quick") {
			out += "-quick"
		}
		if x.Runtime != "" {
			out += "-" + x.Runtime
		}
		out += ".sqlite"
	}
	r := &experiment.Runner{File: x, Jobs: cmp.Or(c.Int("jobs"), runtime.NumCPU()),
		Repetitions: c.Int("repetitions"), Report: view.report, Perform: bench.Perform, Suits: bench.Suits}
	if err := r.Check(); err != nil {
		return exit.With(exit.Input, err)
	}
	info := results.Info{Name: x.Name, Title: x.Title, Source: path, Version: release.Build(), Settings: map[string]any{
		"seed": x.Seed, "quick": c.Bool("quick"), "in_system": x.InSystem, "events": x.Events},
		Repetitions: x.Repetitions}
	db, err := results.Create(out, info)
	switch {
	case errors.Is(err, results.ErrHeld):
		return exit.With(exit.Held, err)
	case errors.Is(err, results.ErrOther):
		return exit.With(exit.Input, err)
	case err != nil:
		return exit.With(exit.Host, err)
	}
	r.Store = db
	ctx, stop := context.WithCancel(c.Context)
	defer stop()
	defer early.Cancel(stop)()
	err = r.Run(ctx)
	view.End()
	err = errors.Join(err, db.Summarise(c.Context), db.Close())
	p := view.last
	switch {
	case errors.Is(err, context.Canceled):
		return exit.Stoppedf("stopped after %d of %s; continue with the same command", p.Done,
			term.Plural(p.Runs, "run"))
	case sqlite.IsDisk(err):
		return exit.With(exit.Host, err)
	case err != nil:
		return exit.With(exit.CodeOf(err), err)
	}
	view.Note("%s: %s (%d kept from before, %d diverged), in %s", out, term.Plural(p.Done, "run"), p.Kept, p.Diverged,
		time.Since(view.begun).Round(time.Millisecond))
	if p.Failed > 0 {
		return exit.With(exit.TasksFailed, fmt.Errorf("%s could not be done; the first: %s",
			term.Plural(p.Failed, "run"), view.failed))
	}
	view.Note("tables: gantry compare %s; figures: gantry report %s --out DIR", out, out)
	return nil
}

// readExperiment reads an experiment file, or its quick variant, under a reading that it names.
func readExperiment(path string, quick bool, reading string) (*scenario.Experiment, error) {
	f, err := openText(path)
	if err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	defer f.Close()
	return scenario.ReadExperiment(f, path, quick, reading)
}

// benchOf makes what runs the experiment in containers, if it is to.
func benchOf(c *cli.Context, x *scenario.Experiment, view *experimentView) (*trial.Bench, error) {
	take(c, "runtime", &x.Runtime)
	if x.Runtime == session.Simulation.Name {
		x.On()
		x.Runtime = ""
	}
	if c.IsSet("oversubscribe") && x.Runtime == "" && len(x.Runtimes()) == 0 {
		return nil, exit.Usagef("--oversubscribe has no effect on simulations of ideal machines: add --runtime")
	}
	home := homeOf(c)
	b := &trial.Bench{Home: home, File: x, Any: c.Bool("oversubscribe"), Say: view.Note}
	b.Remove = func(ctx context.Context, run string) error {
		db, err := session.OpenToWrite(home)
		if err != nil {
			return err
		}
		defer db.Close()
		return remove(ctx, db, home, run, true)
	}
	if name := x.Runtime; name != "" {
		x.On(session.Counterpart(name), name)
	}
	return b, b.Prepare(c.Context)
}

// experimentView shows the progress of an experiment.
type experimentView struct {
	*term.Progress
	begun  time.Time
	last   experiment.Progress
	failed string
}

func (v *experimentView) report(p experiment.Progress) {
	if p.Last != nil && p.Last.State == experiment.Failed && v.failed == "" {
		v.failed = p.Last.Cell.String() + ": " + p.Last.Message
	}
	if v.last.Runs == 0 {
		v.Note("%s to do", term.Plural(p.Runs, "run"))
	}
	if v.last = p; p.Done < p.Runs {
		v.Meter(fmt.Sprintf("%d of %s, %d diverged, about %s left", p.Done, term.Plural(p.Runs, "run"), p.Diverged,
			p.Left.Round(time.Second)), int64(p.Done), int64(p.Runs))
	}
}
