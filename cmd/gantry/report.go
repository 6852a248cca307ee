package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	tables "gantry/sqlite/report"
	"gantry/sqlite/results"
)

func reportCommand() *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "print the tables of an experiment and draw its figures, or print the metrics of a run",
		ArgsUsage: "RESULTS|RUN...",
		Description: `RESULTS is the file that gantry experiment wrote; it may still be writing it. With --out the figures are drawn, each as SVG
and as PNG: box plots of slowdown, its standard deviation against the error factor, mean slowdown against utilisation, mean slowdown and response
against other parameters of the workload, slowdown against size in a panel per policy, the number of workflows in the system over time, of
batches the time they take, and of loads with deadlines the proportion of late workflows, turnaround and mapping time against arrival rate,
earliest starts, deadlines, cluster or errors - as far as the experiment has them.

   gantry report fig3.sqlite --out figures

RUN is a run of the log, on containers or simulated. Its metrics are printed: of the workflows that count (the workload's warm_up and cool_down
left out) wait, makespan, response, slowdown (response over the critical path at speed 1) and schedule length ratio; of the system its
utilisation, the number of workflows in it, and what Wieland's test and the mean Lyapunov drift say of its stability. Critical paths
are those of the runtimes that were measured, brought to speed 1. With --out slowdowns, slowdown against size, the number of workflows in the
system over time and, of several tenants, their dominant shares over time are drawn; --json has the shares, too.

   gantry report RUN --out figures
   gantry report RUN RUN RUN

Of several runs the means are printed, with 95 % confidence intervals; runs of one policy on one runtime count as repetitions, as those that
gantry simulate --repetition N or --seed N made. Figures show the runs side by side.

Exit codes: 0 printed, 2 wrong command line, 3 no such results or run, 4 the figures cannot be written.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.StringFlag{Name: "out", Usage: "draw the figures into `DIR`"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: func(c *cli.Context) error {
			switch {
			case c.NArg() == 0:
				return failf(exitUsage, "report: name one file of results, or runs")
			case c.NArg() > 1:
				return reportRuns(c, c.Args().Slice())
			}
			if name := c.Args().First(); !strings.ContainsAny(name, "./") {
				if file, err := os.Stat(name); err != nil || file.IsDir() { // of a run, which has its name
					return reportRun(c, name)
				}
			}
			if err := printTables(c, c.Args().First(), nil, ""); err != nil {
				return err
			}
			if c.String("out") == "" {
				return nil
			}
			db, err := results.Open(c.Args().First())
			if err != nil {
				return fail(exitInput, err)
			}
			defer db.Close()
			files, err := tables.Figures(c.Context, db, c.String("out"))
			if err != nil {
				return failf(exitHost, "report: %w", err)
			}
			if !c.Bool("json") {
				fmt.Fprintf(c.App.Writer, "\n%s in %s:\n  %s\n", plural(len(files), "file"), c.String("out"), strings.Join(files, "\n  "))
			}
			return nil
		},
	}
}

// printTables prints the tables of an experiment, its searches included.
func printTables(c *cli.Context, path string, names []string, against string) error {
	db, err := results.Open(path)
	if err != nil {
		return fail(exitInput, err)
	}
	defer db.Close()
	about, err := db.About(c.Context)
	if err != nil {
		return fail(exitInput, err)
	}
	cells, err := db.Cells(c.Context)
	if err != nil {
		return fail(exitInput, err)
	}
	searches, err := db.Searches(c.Context)
	if err != nil {
		return fail(exitInput, err)
	}
	rows, err := tables.Tables(cells, names, against)
	if err != nil {
		return failf(exitUsage, "%s: %w", path, err)
	}
	if c.Bool("json") {
		printJSON(c.App.Writer, map[string]any{"experiment": about.Name, "title": about.Title, "source": about.Source, "version": about.Version,
			"against": against, "tables": rows, "searches": searches})
		return nil
	}
	title := about.Name
	if about.Title != "" {
		title += ": " + about.Title
	}
	fmt.Fprintf(c.App.Writer, "%s\nMeans over repetitions with 95 %% confidence intervals", title)
	if against != "" {
		fmt.Fprintf(c.App.Writer, ", as differences to %s on the same load", against)
	}
	fmt.Fprint(c.App.Writer, "; times in seconds. WIELAND and DRIFT: runs that each test of stability finds stable.\n\n")
	if err := tables.WriteText(c.App.Writer, rows); err != nil {
		return fail(exitHost, err)
	}
	if len(searches) > 0 {
		fmt.Fprintln(c.App.Writer)
		return tables.WriteSearches(c.App.Writer, searches)
	}
	return nil
}
