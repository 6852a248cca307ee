package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container/fetch"
	"gantry/sqlite"
	"gantry/trace"
	"gantry/trace/scenario"
)

// dockerStartup is the time that policies expect for starting a container: about that of the Docker Engine on a
// workstation.
const dockerStartup = 150 * time.Millisecond

func runCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "run workflows in containers",
		ArgsUsage: "TRACE|WORKLOAD|DIR|-...|-- COMMAND",
		Description: `Reads the workflows, plans them with a policy as they arrive, and runs each task in a
container of its own under CPU, memory, pids and block I/O limits. Tasks with a command and an image run as they are.
Other tasks are emulated: a stand-in uses the CPU time and memory of the trace, and reads and writes files of the same
sizes.

   gantry run montage.dax                   one workflow on this host
   gantry run --time-scale 0.1 montage.dax  the same, ten times as fast
   gantry run --inputs data words.json      real programs on real files
   gantry run --cluster nodes.yaml --policy heft workload.yaml
   gantry run --time-scale 0.01 --count 3 stream.yaml  the first three workflows of a stream
   gantry run --dry-run montage.dax         its plan; nothing is started
   gantry run --image gantry/busybox -- wc -l words.txt  one command, in this directory
   gantry run --dry-run --reuse Makeflow    which tasks would run, which are reused, and why

Before the run, gantry simulates it and prints the expected makespan with an interval that has a probability of 80 %.
Predictions influence no decision. --dry-run prints order, nodes, times, needs, images and inputs as well.

A file gantry.yaml in the working directory sets defaults of options, such as image: gantry/busybox, reuse: true or
results: ['*.vcf']; options that show programs more of this host are not among them. GANTRY_REUSE=1 stands for --reuse.

After -- stands one command, which works in the current directory and may change it, with the limits of --cpus,
--memory and --time-limit. Its output is printed as it comes, and nothing else; the run is in the log as all are.

Estimates come from earlier runs of the same task types in the log, else from the trace; see --estimator.

Ctrl-C once lets running and frozen tasks end, twice stops them, three times kills them. gantry resume continues the
run after any of these, and after a crash.

Exit codes: 0 all tasks succeeded, 1 tasks failed, 2 wrong command line, 3 invalid input, 4 host or Docker not usable,
6 internal error, 75 another gantry holds the run, 130 stopped and resumable.`,
		Flags: append(runFlags(), singleFlags("with -- COMMAND: ")...),
		Action: func(c *cli.Context) error {
			set, err := enter(c)
			if err != nil {
				return err
			}
			if ofCommand(c) {
				return runSingle(c, set)
			}
			return begin(c, set, sqlite.Durable, c.String("name"), nil)
		},
	}
}

// runFlags are those of commands that run workflows in containers.
func runFlags() []cli.Flag {
	return slices.Concat(planFlags(), readingFlags(), givenFlags(""),
		estimateFlags(runEstimator), containerFlags(true),
		shared("network container-mounts results results-dir no-prediction"), nodeFlags(), []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "print the plan, with all commands, and start nothing"}})
}

// runEstimator is the default of the estimator of runs.
const runEstimator = "learned; declared with --runtime null or --errors"

// readRunSettings reads the flags of a run on a runtime that is not simulated.
func readRunSettings(c *cli.Context) (*session.Settings, error) {
	set, err := readSettings(c)
	if err != nil {
		return nil, err
	}
	set.Runtime, set.Strict, set.Grace = chosenRuntime(c), c.Bool("strict"), c.Duration("grace")
	set.OnEnd = c.String("on-end")
	if err := errors.Join(readGiven(c, set), readResultsDir(c, set)); err != nil {
		return nil, err
	}
	able := session.Capabilities(set.Runtime)
	if names := session.RuntimeNames(session.RealTime); !slices.Contains(names, set.Runtime) {
		return nil, exit.Usagef("--runtime %s: choose one of %s", set.Runtime,
			strings.Join(append([]string{autoRuntime}, names...), ", "))
	}
	for _, flag := range []string{"reuse", "scratch", "results", "results-dir"} {
		if (given{Context: c}).has(flag) && !able.Programs {
			return nil, exit.Usagef("--%s: there are no files on the %s runtime", flag, set.Runtime)
		}
	}
	set.Reuse, set.Scratch = c.Bool("reuse") && able.Programs, c.Bool("scratch") && able.Programs
	if (given{Context: c}).has("results") && set.Emulate {
		return nil, exit.Usagef("--results has no effect with --emulate: the emulator writes " +
			"made-up files; leave one of them out")
	}
	if !able.Programs {
		set.Startup = 0
	}
	elsewhere := session.OnNodes(set.Runtime)
	if err := readSlurm(c, set, elsewhere); err != nil {
		return nil, err
	}
	if able.Programs && !elsewhere {
		if err := session.CheckHost(set.Cluster, c.Bool("oversubscribe")); err != nil {
			return nil, err
		}
		if err := readHostModel(c, set); err != nil {
			return nil, err
		}
	}
	set.MaxOutput, set.Disk, set.Tmp = sizeOf(c, "max-output"), sizeOf(c, "disk"), sizeOf(c, "tmp")
	if set.Pull = c.String("pull"); !slices.Contains(fetch.Pulls(), set.Pull) {
		return nil, exit.Usagef("--pull %s: choose one of %s", set.Pull, strings.Join(fetch.Pulls(), ", "))
	}
	if cores, _, err := session.HostSize(); err == nil { // else 0: as many as container.Runtime takes
		set.Starts = cmp.Or(set.Starts, executor.Starts(cores))
	}
	usual := "declared"
	if able.Learns {
		usual = "learned"
	}
	return set, readEstimates(c, set, usual)
}

// enter reads the flags of a run, and readies this process for its runtime.
func enter(c *cli.Context) (*session.Settings, error) {
	set, err := readRunSettings(c)
	if err != nil {
		return nil, err
	}
	return set, session.Enter(set.Runtime)
}

// begin makes a new run and drives it: of a workflow that the command line makes up, if there is one.
func begin(c *cli.Context, set *session.Settings, mode sqlite.Mode, name string, single *trace.Workflow) error {
	set.Repetition = c.Int("repetition")
	s := session.New(set, sessionOptions(c, name))
	defer s.Close()
	d, err := s.Begin(c.Context, mode, &session.Inputs{Paths: c.Args().Slice(), Single: single})
	if d != nil {
		printDry(c, d)
	}
	return err
}

func sessionOptions(c *cli.Context, name string) session.Options {
	return session.Options{Home: homeOf(c), Name: name, View: term.New(c.Bool("quiet") || c.Bool("json")),
		Predict: !c.Bool("no-prediction"), NoLog: c.Bool("no-log"), Page: pageOf(c),
		Ended: func(ctx context.Context, o session.Outcome) error { return summarise(ctx, c, o) },
		ReadAs: func(set *session.Settings, in *session.Inputs) error {
			in.Preempt = func(subs []executor.Submission) error { return preemption(c, subs) }
			return readAs(c, set, in)
		}, SlurmJob: c.String("slurm-job"), Dry: c.Bool("dry-run"),
		Cluster: c.IsSet("cluster"), Starts: c.IsSet("starts"), Change: changing(c),
		Refuse: func(set *session.Settings, f *session.Facts) error { return refuseIdle(c, set, f) }}
}

// preemption lets --checkpoint and --preempt overrule workloads.
func preemption(c *cli.Context, subs []executor.Submission) error {
	checkpoint, programs := c.IsSet("checkpoint"), c.IsSet("preempt")
	if !checkpoint && !programs {
		return nil
	}
	for i := range subs {
		p := scenario.DefaultPreempt()
		if said := subs[i].Preempt; said != nil {
			p = *said
		}
		if checkpoint {
			if err := p.SetCheckpoint(c.String("checkpoint")); err != nil {
				return fmt.Errorf("--checkpoint: %w", err)
			}
		}
		if programs {
			if err := p.SetPrograms(c.String("preempt")); err != nil {
				return fmt.Errorf("--preempt: %w", err)
			}
		}
		subs[i].Preempt = &p
	}
	return nil
}
