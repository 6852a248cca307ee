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
		Description: `RESULTS is a file of gantry experiment, also while the experiment writes it. --out draws the
figures as SVG and PNG, as far as the experiment has their data: slowdown (box plots; its standard deviation against the
error factor; mean against utilisation and other parameters; against size in a panel for each policy), response,
workflows in the system over time, the time of batches; with deadlines, the proportion of late workflows, turnaround and
mapping time.

RUN is a run of the log. Of the workflows that count (without warm_up and cool_down of the workload) it prints wait,
makespan, response, slowdown (response over the critical path at speed 1) and schedule length ratio; of the system its
utilisation, the number of workflows in it, and its stability by Wieland's test and by the mean Lyapunov drift.
Critical paths use measured runtimes, scaled to speed 1. --out draws the timeline (of several runs one below the other;
the thin line below a bar ends where the plan had its end), the utilisation of cores and memory, slowdown, workflows in
the system over time and, with several tenants, their dominant shares over time.

Several runs: means with 95 % confidence intervals. Runs of one policy on one runtime count as repetitions.

   gantry report fig3.sqlite --out figures
   gantry report RUN --out figures
   gantry report RUN RUN RUN

Results with --markdown or --html FILE: tables and figures on one page, with intervals and the data of each figure.
Each --study FILE names the statements of a paper and how each is computed from results; the page then has the paper's
figure, ours with its interval, and a verdict that follows from the data. --save writes what the page needs to a short
file that --markdown and --html take in place of results.

   gantry report fig3.sqlite --html fig3.html
   gantry report fig*.sqlite --study study.yaml --markdown --out figures

Runs with --html FILE: one HTML file without a server or network. It shows why the run took as long as it did (the
critical path that was measured), the timeline of every attempt against its plan and the plan as each round of
planning left it, utilisation, why tasks waited, a table of all attempts, box plots by task type, the graph of
dependencies, estimates against measurements, deadlines and tenants, failures and settings. It simulates the run with
three other policies (--policies), for 10 s at most. Several runs appear side by side. Without RUN it is the latest run;
the number of a submission to a server makes the page of that alone.

   gantry report --html run.html
   gantry report RUN RUN --html runs.html

Exit codes: 0 printed, 2 wrong command line, 3 no such results or run, 4 the figures cannot be written.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.StringFlag{Name: "out", Usage: "draw the figures into `DIR`"},
			&cli.StringFlag{Name: "html", Usage: "write the page of runs, or of results, to `FILE`"},
			&cli.BoolFlag{Name: "markdown", Usage: "print the page of results as Markdown; --out draws its figures"},
			&cli.StringSliceFlag{Name: "study", Usage: "hold results against the paper of study `FILE`; repeatable"},
			&cli.StringFlag{Name: "save", Usage: "write results in short form, JSON Lines, to `FILE`; with --study " +
				"the metrics that it needs"},
			&cli.StringFlag{Name: "policies", Usage: "--html: simulate the run with `POLICIES`, comma separated, or " +
				"none (default: three that fit)"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: func(c *cli.Context) error {
			switch {
			case c.NArg() == 0 && c.IsSet("html") && !c.IsSet("study"):
				return writePage(c, []string{""}, c.String("html"))
			case c.NArg() == 0:
				return failf(exitUsage, "report: name one file of results, or runs")
			case c.IsSet("save"):
				return saveResults(c)
			case c.IsSet("markdown"), c.IsSet("study"), c.IsSet("html") && isResults(c.Args().First()):
				return writeStudy(c)
			case c.IsSet("html"):
				return writePage(c, c.Args().Slice(), c.String("html"))
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
			return listDrawn(c, files, err)
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
		printJSON(c.App.Writer, map[string]any{"experiment": about.Name, "title": about.Title, "source": about.Source,
			"version": about.Version,
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
	fmt.Fprint(c.App.Writer, "; times in seconds. WIELAND and DRIFT: runs that each test of stability finds "+
		"stable.\n\n")
	if err := tables.WriteText(c.App.Writer, rows); err != nil {
		return fail(exitHost, err)
	}
	if len(searches) > 0 {
		fmt.Fprintln(c.App.Writer)
		return tables.WriteSearches(c.App.Writer, searches)
	}
	return nil
}
