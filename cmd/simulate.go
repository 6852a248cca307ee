package cmd

import (
	"os"
	"runtime/debug"
	"slices"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/executor/own"
	"gantry/sqlite"
)

// mostHeap is the memory from which on the collector of a simulation does run often, and takes up to half of the CPU
// time: four million jobs of an archive fit in it.
const mostHeap = 1850 << 20

func simulateCommand() *cli.Command {
	return &cli.Command{
		Name:      "simulate",
		Usage:     "plan and run workflows in virtual time, with the same planner as run",
		ArgsUsage: "TRACE|WORKLOAD|DIR|-...",
		Description: `Takes the same input as gantry run, and needs no Docker. A task lasts as long as its trace says,
divided by the speed of its node, or as long as the cost matrix of the workload says. Copies between nodes take as long
as the links of the cluster file allow.

   gantry simulate --policy heft --cluster nodes.yaml montage.dax
   gantry simulate --cluster nodes.yaml --count 500 --errors random1:2 stream.yaml

run and simulate draw the same workflows from a stream in a workload file. Its warm_up and cool_down are excluded
from the metrics of the run; gantry report RUN prints them.

Machines are ideal, as in papers: containers start at once, or after --startup. Once gantry calibrate has measured this
host, clusters that it can be (no more cores times speed, and no more memory, than it has) are simulated as it would
run them: containers are staged, started, ended and published as measured, and share its cores and its disk.
--host-model none keeps machines ideal; gantry experiment always does, but for its runtime predicted.

--replay RUN simulates a run with its own workflows, settings and measurements: workflows arrive when they did, and
each attempt takes as long to start and to run as it did. gantry compare RUN SIM shows the difference between the two.

   gantry simulate --replay RUN                the same policy
   gantry simulate --replay RUN --policy heft  the effect of another policy

--measured RUN simulates a workflow of real programs that last as long as in RUN, on other nodes, under other limits or
another policy. A program whose task was not in RUN lasts as the latest trained model predicts, else as the median of
its type in RUN.

   gantry simulate --measured RUN --cluster nodes.yaml --policy heft workflow.yml

Exit codes: 0 all tasks succeeded, 1 tasks failed, 2 wrong command line, 3 invalid input, 4 the log cannot be written,
6 internal error, 130 stopped.`,
		Flags: slices.Concat(planFlags(), readingFlags(), estimateFlags("declared; of an exported run its own"),
			shared("host-model"), []cli.Flag{
				&cli.BoolFlag{Name: "noise", Usage: "with a host model: let phases of containers vary as measured, " +
					"drawn by --seed (default: each takes its mean)"},
				&cli.IntFlag{Name: "starts", DefaultText: startsDefault,
					Usage: "with a host model: how many containers may be starting at the same time"},
				&cli.DurationFlag{Name: "startup", Usage: "time that starting a container takes, for every task; " +
					"with --host-model only estimates take it"},
				&cli.StringFlag{Name: "replay", Usage: "simulate `RUN` of the log with its measured durations"},
				&cli.StringFlag{Name: "measured", Usage: "programs last as long as measured in `RUN` of the log"},
				&cli.BoolFlag{Name: "no-log", Usage: "write no log, print only the makespan; not with --json"},
			}),
		Action: func(c *cli.Context) error {
			collectSeldom()
			if os.Getenv("GOMEMLIMIT") == "" {
				debug.SetMemoryLimit(mostHeap)
			}
			if c.Bool("no-log") && c.Bool("json") {
				return exit.Usagef("--json prints the summary of the log: it cannot go with --no-log")
			}
			if run := c.String("replay"); run != "" {
				return replay(c, run)
			}
			set, err := readSettings(c)
			if err != nil {
				return err
			}
			set.Runtime = session.Simulation.Name
			if err := readHostModel(c, set); err != nil {
				return err
			}
			if set.Noise = c.Bool("noise"); set.Noise && set.Host == nil {
				return exit.Usagef("--noise: there is no host model that says how much varies: add --host-model")
			}
			usual := "" // declared, unless the trace says that estimates learned
			if set.Measured = c.String("measured"); set.Measured != "" {
				usual = "learned"
			}
			if err := readEstimates(c, set, usual); err != nil {
				return err
			}
			return begin(c, set, sqlite.Bulk, c.String("name"), nil)
		},
	}
}

// replay simulates a run of the log with its measurements: when workflows arrived, and for every attempt how long its
// container took to start, how long it ran, and how it ended. Policy, seed and estimates are those of the run where no
// flag says otherwise.
func replay(c *cli.Context, name string) error {
	if c.NArg() > 0 {
		return exit.Usagef("--replay takes the workflows from the run: name no others")
	}
	if err := refuseBut(c, "--replay takes durations as they were measured, and all else as the run was", "replay",
		"policy", "seed", "estimator", "predict-memory", "errors", "name", "dir", "quiet", "json",
		"no-log"); err != nil {
		return err
	}
	return onLog(func(c *cli.Context, log *sqlite.DB) error { return replayRun(c, log, name) })(c)
}

func replayRun(c *cli.Context, log *sqlite.DB, name string) error {
	info, err := log.Info(c.Context, name)
	if err != nil {
		return err
	}
	set, err := session.SettingsOf(&info)
	if err != nil {
		return err
	}
	set.Runtime = session.Simulation.Name
	was := string(set.Encode())
	if c.IsSet("policy") {
		set.Policy = own.In(".", c.String("policy"))
	}
	take(c, "seed", &set.Seed)
	if c.IsSet("estimator") || c.IsSet("errors") || c.IsSet("predict-memory") {
		set.EstimateAsTrace = false
		if err := readEstimates(c, set, set.Estimator); err != nil {
			return err
		}
	}
	same := string(set.Encode()) == was
	s := session.New(set, sessionOptions(c, c.String("name")))
	defer s.Close()
	return s.Replay(c.Context, log, &info, same, c.IsSet("policy"))
}
