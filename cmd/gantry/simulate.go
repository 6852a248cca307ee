package main

import (
	"math"

	"github.com/urfave/cli/v2"

	"gantry/sqlite"
)

func simulateCommand() *cli.Command {
	return &cli.Command{
		Name:      "simulate",
		Usage:     "plan and run workflows in virtual time, with the same planner as run",
		ArgsUsage: "TRACE|WORKLOAD|DIR|-...",
		Description: `Takes what gantry run takes, and needs no Docker. Tasks last as long as their trace says, divided by the speed
of their node, or what the cost matrix of the workload says; copies between nodes take what the links of the
cluster file allow.

   gantry simulate --policy heft --cluster nodes.yaml montage.dax
   gantry simulate --cluster nodes.yaml --count 500 --errors random1:2 stream.yaml

A workload file may describe a stream (mix, count, arrivals): it is drawn by its own seed, the same for run and
simulate. Its warm_up and cool_down are left out of the metrics that the log keeps of the run; gantry report RUN prints them.

With --replay RUN it takes the workflows, settings and measurements of a run instead: workflows arrive when they did, and each attempt takes
as long to start and to run as it did. gantry compare RUN SIM then shows how far planning on Docker and in simulation lie apart.

   gantry simulate --replay RUN                  the same policy
   gantry simulate --replay RUN --policy heft    what another one would have done

Exit codes: 0 all tasks succeeded, 1 tasks failed, 2 wrong command line, 3 invalid input, 4 the log cannot be written,
6 internal error, 130 stopped.`,
		Flags: append(append(planFlags(), estimateFlags("declared")...),
			&cli.DurationFlag{Name: "startup", Usage: "what starting a container takes, for every task"},
			&cli.Float64Flag{Name: "charge-planning", Usage: "let simulated time move on by `FACTOR` times the CPU time that planning takes; no two such simulations are the same"},
			&cli.StringFlag{Name: "replay", Usage: "simulate `RUN` of the log with what was measured in it"},
			&cli.BoolFlag{Name: "no-log", Usage: "keep no log: print the makespan only"},
		),
		Action: func(c *cli.Context) error {
			if run := c.String("replay"); run != "" {
				return replay(c, run)
			}
			set, err := readSettings(c)
			if err != nil {
				return err
			}
			if set.TimeScale == 0 {
				return failf(exitUsage, "--time-scale 0: no task would take any time; give a number above 0")
			}
			set.Runtime, set.Startup = "sim", c.Duration("startup")
			if set.Startup < 0 {
				return failf(exitUsage, "--startup %s: it cannot be negative", set.Startup)
			}
			set.Charge = c.Float64("charge-planning")
			if !(set.Charge >= 0) || math.IsInf(set.Charge, 0) {
				return failf(exitUsage, "--charge-planning %v: it has to be a number of at least 0", set.Charge)
			}
			if err := set.readEstimates(c, "declared"); err != nil {
				return err
			}
			return begin(c, set, sqlite.Bulk)
		},
	}
}
