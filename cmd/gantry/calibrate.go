package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/sim/calibrate"
	"gantry/executor/sim/hostmodel"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/trace/scenario"
)

func calibrateCommand() *cli.Command {
	return &cli.Command{
		Name:  "calibrate",
		Usage: "measure this host, so that simulations and predictions fit it",
		Description: `Runs containers of the task emulator for about a minute, with the limits and on the file
system that runs use, and measures: the time and CPU time to prepare, start and end a container, alone, together with
others, and on busy cores; what a CPU quota does to short and long bursts; rates of the disk with and without limits;
what programs lose to starts; what gantry and the container engine use themselves. Then small workflows of its own run
as users' do, and the model is corrected by what they took beyond what it says.

The result is kept in the log below --dir, for this host, kernel and engine. Simulations of this host and predictions
take it from there, and later runs refine it. gantry doctor shows it. Nothing else should run meanwhile: the model of a
busy host is refused. --force stores it, with wider intervals; gantry show, ls and compare then call it busy. Ctrl-C
leaves nothing behind and stores nothing.

With --runtime slurm a job step on each node of an allocation (--slurm, --slurm-job, or the one around gantry) measures
a core for half a second. The speeds, of which that of the median node is 1, are kept in slurm-speeds.json below --dir,
and runs on Slurm take them from there, unless a --cluster file names the node.

Exit codes: 0 measured and stored, 2 wrong command line, 4 containers are not usable, or the host was too busy, 130
stopped by a signal.`,
		Flags: append(nodeFlags(), dirFlag(),
			&cli.StringFlag{Name: "runtime", DefaultText: runtimeDefault, Usage: "measure containers of " +
				"`RUNTIME`; slurm: the cores of the nodes of an allocation"},
			&cli.BoolFlag{Name: "quick", Usage: "measure less, in about half of the time; intervals are wider"},
			&cli.BoolFlag{Name: "force", Usage: "store the model of a busy host, too"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print nothing but warnings and errors"},
			&cli.BoolFlag{Name: "json", Usage: "print the model as JSON, and no progress"},
		),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return exit.Usagef("calibrate takes no arguments")
			}
			if onNodes(c.String("runtime")) {
				return calibrateNodes(c)
			}
			if err := readSlurm(c, &settings{}, false); err != nil {
				return err
			}
			ctx, release := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer release()
			err := calibrateHost(ctx, c)
			if ctx.Err() != nil {
				return exit.Stoppedf("stopped: nothing is stored")
			}
			return err
		},
	}
}

// calibrateHost measures this host and stores the model.
func calibrateHost(ctx context.Context, c *cli.Context) (err error) {
	home, err := filepath.Abs(c.String("dir"))
	if err != nil {
		return exit.With(exit.Host, err)
	}
	runtime := chosenRuntime(c)
	if err := enter(runtime); err != nil {
		return err
	}
	host, err := here(ctx, runtime, home)
	if err != nil {
		return err
	}
	s := &session{set: &settings{Runtime: runtime, Seed: 1, Starts: executor.Starts(host.Cores)}, home: home,
		view: term.New(true)}
	defer s.close()
	if err := s.open(sqlite.Durable); err != nil { // also to find out now that it cannot be stored
		return err
	}
	var step func(what string, done float64)
	if !c.Bool("json") && !c.Bool("quiet") {
		step = printStep(c)
	}
	m, err := s.measureHost(ctx, host, c.Bool("quick"), step)
	if err == nil {
		err = s.correctModel(ctx, m, c.Bool("quick"), step)
	}
	if err != nil {
		return err
	}
	if all := m.Measured.Warnings; len(all) > 0 && !c.Bool("force") {
		return exit.Hostf("the model is not stored, as the host was busy: %s; end other programs and calibrate "+
			"again, or store it with --force", strings.Join(all, "; "))
	}
	for _, w := range m.Measured.Warnings {
		fmt.Fprintln(c.App.ErrWriter, "warning: "+w+": intervals are wider")
	}
	row, err := keepHostModel(ctx, s.db, m)
	if err != nil {
		return err
	}
	switch {
	case c.Bool("json"):
		term.PrintJSON(c.App.Writer, m)
	case !c.Bool("quiet"):
		w := tabwriter.NewWriter(c.App.Writer, 0, 8, 2, ' ', 0)
		for _, r := range calibrate.Table(m) {
			fmt.Fprintf(w, "%s\t%s\n", r[0], r[1])
		}
		w.Flush()
		fmt.Fprintf(c.App.Writer, "\nMeasured %s (%s) with %d containers in %v. It is kept in %s.\n",
			row.Host, row.Engine, m.Measured.Containers, time.Duration(m.Measured.TookNanos).Round(time.Second),
			s.db.Path())
	}
	return nil
}

// printStep prints what is done next, and how much is done.
func printStep(c *cli.Context) func(what string, done float64) {
	return func(what string, done float64) { fmt.Fprintf(c.App.ErrWriter, "%3.0f %%  %s\n", done*100, what) }
}

// correctModel corrects a model by sample runs, in a directory of their own, which is gone afterwards.
func (s *session) correctModel(ctx context.Context, m *hostmodel.Model, quick bool,
	step func(string, float64)) (err error) {
	if step != nil {
		step("sample runs", calibrate.MeasureShare)
	}
	home, err := os.MkdirTemp(s.home, "calibrate-")
	if err != nil {
		return exit.Hostf("directory for sample runs: %w (choose another --dir)", err)
	}
	giveToCaller(home)
	defer func() {
		if err != nil { // a run that was stopped may have left containers
			_, e := cleanRuns(context.WithoutCancel(ctx), home, "", []string{m.Host.Runtime})
			err = errors.Join(err, e)
		}
		if e := os.RemoveAll(home); e != nil {
			err = errors.Join(err, exit.With(exit.Host, e))
		}
	}()
	before, err := earlierHostModels(ctx, s.db, &m.Host)
	if err != nil {
		return err
	}
	begun := time.Now()
	err = correct(ctx, quick, m, before, home)
	m.Measured.TookNanos += int64(time.Since(begun))
	return err
}

// engineCPU is the CPU time that the Docker Engine has used since it began.
func engineCPU() time.Duration {
	return calibrate.ProgramsCPU("dockerd", "containerd", "containerd-shim")
}

// measureHost runs the measurements in a run directory of their own, which is gone afterwards.
func (s *session) measureHost(ctx context.Context, host hostmodel.Host, quick bool,
	step func(string, float64)) (m *hostmodel.Model, err error) {
	s.dir, err = os.MkdirTemp(s.home, "calibrate-")
	if err != nil {
		return nil, exit.Hostf("directory to measure in: %w (choose another --dir)", err)
	}
	defer func() {
		if e := os.RemoveAll(s.dir); err == nil && e != nil {
			err = exit.With(exit.Host, e)
		}
	}()
	giveToCaller(s.dir)
	s.name = filepath.Base(s.dir)
	node := planner.Node{Name: "host", Speed: 1, Capacity: unit.Vector{unit.CPU: int64(host.Cores) * 1000,
		unit.Memory: unit.Unlimited, unit.Disk: unit.Unlimited}}
	far := node
	far.Name = "far"
	s.platform = &planner.Platform{Nodes: []planner.Node{node, far}, Groups: []string{""},
		Bandwidth: [][]unit.BytesPerSecond{{0}}, Latency: [][]int64{{0}}}
	s.set.Cluster = &scenario.Cluster{}
	lab := &calibrate.Lab{Dir: s.dir}
	scratch, err := sqlite.Open(filepath.Join(s.dir, logName), sqlite.Durable)
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	defer scratch.Close()
	// A transaction of about the size of one that orders a start.
	lab.Commit = func(ctx context.Context) error {
		return scratch.KeepHostModel(ctx, &sqlite.HostModel{Created: time.Now(), Model: make([]byte, 2000)})
	}
	rt, err := s.openRuntime(ctx, opening{origin: time.Now(), emulated: true, milestone: lab.Mark})
	if err != nil {
		return nil, err
	}
	lab.Runtime = rt
	defer func() {
		if r, ok := rt.(executor.Remote); ok {
			r.Discard()
		}
		if e := rt.Close(); e != nil && !errors.Is(ctx.Err(), context.Canceled) {
			err = errors.Join(err, exit.With(exit.Host, e))
		}
		if err != nil { // Close keeps containers that have succeeded, for a resume that never comes
			_, e := cleanRuns(context.WithoutCancel(ctx), s.home, s.name, []string{host.Runtime})
			err = errors.Join(err, e)
		}
	}()
	before, err := earlierHostModels(ctx, s.db, &host)
	if err != nil {
		return nil, err
	}
	o := calibrate.Options{Host: host, Starts: s.set.Starts, Quick: quick, Before: before, Engine: engineCPU, Step: step}
	if m, err = calibrate.Measure(ctx, lab, o); err != nil {
		return nil, exit.With(exit.Host, err)
	}
	return m, nil
}
