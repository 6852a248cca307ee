package cmd

import (
	"errors"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/sqlite"

	tables "gantry/sqlite/report"
)

func compareCommand() *cli.Command {
	return &cli.Command{
		Name:      "compare",
		Usage:     "compare policies in an experiment, or two runs of the log",
		ArgsUsage: "RESULTS... | RUN RUN",
		Description: `Results of gantry experiment: the policies side by side, a table for every combination of the
other factors, with 95 % confidence intervals over repetitions. --against POLICY shows the differences to that policy,
repetition by repetition on the same load, and so detects much smaller differences.

Two runs of the log with the same workflows: the order of starts (Kendall's tau: 1 is the same, -1 reversed), the
relative difference of makespans, and where the time of each workflow and task went: waiting for a node, staging
inputs, starting the container, running.

   gantry run --name real montage.dax
   gantry simulate --replay real --name replayed
   gantry compare real replayed

Where the first is a run and the second a simulation of it, the difference of the makespans is split by cause:
measurements take the place of simulated times, first durations of programs, then staging, start, end (with publishing)
and contention between containers; decisions are the rest. The parts add up to the whole.

Exit codes: 0 compared, 2 wrong command line, 3 no such results or runs.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.StringFlag{Name: "metrics", Aliases: []string{"metric"},
				Usage: "results: the `METRICS` to show, separated by commas",
				DefaultText: strings.Join(tables.DefaultMetrics, ", ") +
					"; of loads with deadlines late_share, slowdown_mean, turnaround_mean and mapping times"},
			&cli.StringFlag{Name: "against", Usage: "results: show differences to `POLICY`"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON: an object for each file, or one for two runs, with all " +
				"tasks"},
		},
		Action: compareAction,
	}
}

func compareAction(c *cli.Context) error {
	if c.NArg() == 0 {
		return exit.Usagef("compare: name files of results, or two runs")
	}
	if ofResults(c) {
		for _, path := range c.Args().Slice() {
			if err := reportResults(c, path); err != nil {
				return err
			}
		}
		return nil
	}
	if c.NArg() != 2 {
		return exit.Usagef("compare: name two runs, or files of results; gantry report RUN... has the means of " +
			"several")
	}
	return onLog(compareRuns)(c)
}

func compareRuns(c *cli.Context, db *sqlite.DB) error {
	got, err := tables.CompareRuns(c.Context, db, c.Args().Get(0), c.Args().Get(1))
	if errors.As(err, new(*sqlite.Unknown)) {
		return err
	} else if err != nil {
		return exit.Inputf("compare: %w", err)
	}
	causes, why, err := session.CausesOf(c.Context, db, got.Runs[0].Run, got.Runs[1].Run)
	if err != nil {
		return exit.Inputf("compare: %w", err)
	}
	got.Unsplit = why
	for _, x := range causes {
		got.Causes = append(got.Causes, tables.Cause{Name: x.Name, Took: int64(x.Took)})
	}
	if asJSON(c, got) {
		return nil
	}
	got.WriteText(c.App.Writer)
	return nil
}
