package cmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/sqlite"
	tables "gantry/sqlite/report"
	"gantry/sqlite/report/results"
	"gantry/sqlite/report/study"
	"gantry/trace"
)

func reportCommand() *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "print the tables of an experiment and draw its figures, or print the metrics of a run",
		ArgsUsage: "RESULTS|RUN...",
		Description: `RESULTS is a file of gantry experiment, also while the experiment writes it. --out draws the
figures that it has data for, as SVG, PNG and PDF, each with its data as CSV. --metrics, --x and --against choose the
figure: a metric, with 95 % intervals, against a parameter of the experiment, a line for each policy; or the differences
to a policy, repetition by repetition on the same load. --markdown and --html FILE make one page of tables and figures,
with --study against the statements of a paper. --save writes the data of the page to a short file, which report and
compare take in place of results (docs/experiments.md).

   gantry report fig3.sqlite --out figures --metrics wait_mean,slowdown_p95 --x utilisation
   gantry report fig3.sqlite --out figures --against heft --title "Less than HEFT"
   gantry report fig*.sqlite --study study.yaml --markdown --out figures

RUN is a run of the log. Of the workflows that count (without warm_up and cool_down of the workload) it prints wait,
makespan, response, slowdown (response over the critical path at speed 1) and schedule length ratio; of the system its
utilisation, the number of workflows in it, and its stability by Wieland's test and by the mean Lyapunov drift. --out
draws timeline, utilisation, slowdown, workflows in the system and shares of tenants over time. Several runs: the table
of an experiment. Runs of one policy on one runtime count as repetitions.

   gantry report RUN --out figures
   gantry report RUN RUN RUN

Runs with --html FILE: one HTML file without a server or network, which shows why the run took as long as it did
(docs/page.md). It simulates the run with three other policies (--policies), for 10 s at most. Without RUN it is the
latest run; the number of a submission to a server makes the page of that alone.

   gantry report --html run.html

Exit codes: 0 printed, 2 wrong command line, 3 no such results or run, 4 the figures cannot be written.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.StringFlag{Name: "out", Usage: "draw the figures into `DIR`"},
			&cli.StringFlag{Name: "metrics", Aliases: []string{"metric"}, Usage: "print and draw these `METRICS`, " +
				"separated by commas; of one run: draw them"},
			&cli.StringFlag{Name: "x", Usage: "draw metrics against `PARAMETER`, such as utilisation, " +
				"workload.arrivals.rate or policy (default: the first that takes several values)"},
			&cli.StringFlag{Name: "against", Usage: "results: print and draw the differences to `POLICY`"},
			&cli.StringFlag{Name: "title", Usage: "draw the metrics that are chosen below this `TITLE`"},
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
			case c.NArg() == 0 && (!c.IsSet("html") || c.IsSet("study")):
				return exit.Usagef("report: name one file of results, or runs")
			case c.IsSet("save"):
				return saveResults(c)
			case c.IsSet("markdown"), c.IsSet("study"), c.IsSet("html") && ofResults(c):
				return writeStudy(c)
			case c.IsSet("html"):
				return onLog(writePage)(c)
			case ofResults(c) && c.NArg() == 1:
				return reportResults(c, c.Args().First())
			case ofResults(c):
				return exit.Usagef("report: name one file of results; --html or --markdown take several")
			case c.NArg() == 1:
				return onLog(reportRun)(c)
			}
			return onLog(func(c *cli.Context, db *sqlite.DB) error { return reportRuns(c, db, c.Args().Slice()) })(c)
		},
	}
}

// choice has the figures that the flags choose, if they choose some.
func choice(c *cli.Context) (of tables.Choice, some bool) {
	of = tables.Choice{X: c.String("x"), Against: c.String("against"), Title: c.String("title")}
	if c.IsSet("metrics") {
		of.Metrics = strings.Split(c.String("metrics"), ",")
	}
	return of, slices.ContainsFunc([]string{"metrics", "x", "against", "title"}, c.IsSet)
}

// draw draws the figures that the flags choose into --out, or the usual ones, and lists their files.
func draw(c *cli.Context, name string, cells []*results.Cell, usual func(dir string) ([]string, error)) error {
	var files []string
	var err error
	dir := c.String("out")
	if dir == "" {
		return nil
	}
	of, chosen := choice(c)
	if !chosen {
		files, err = usual(dir)
	} else if _, err = tables.Tables(cells, of.Metrics, of.Against); err != nil {
		return exit.Usagef("report: %w", err)
	} else if files, err = tables.Chosen(name, cells, of, dir); err == nil && len(files) == 0 {
		return exit.Inputf("report: there is nothing to draw: no run has a value of these metrics, or none " +
			"beside the policy of --against")
	}
	if errors.As(err, new(*tables.UnknownParameterError)) {
		return exit.Usagef("report --x: %w", err)
	} else if err != nil {
		return exit.Or(exit.Host, fmt.Errorf("report: %w", err))
	}
	if !c.Bool("json") {
		fmt.Fprintf(c.App.Writer, "\n%s in %s:\n  %s\n", term.Plural(len(files), "file"), dir,
			strings.Join(files, "\n  "))
	}
	return nil
}

// reportResults prints the tables of an experiment, and draws its figures if they are asked for.
func reportResults(c *cli.Context, path string) error {
	set, err := results.Load(c.Context, path)
	if err != nil {
		return exit.With(exit.Input, err)
	}
	of, _ := choice(c)
	if err := printTables(c, set, of.Metrics, of.Against); err != nil {
		return err
	}
	return draw(c, set.Name, set.Cells, func(dir string) ([]string, error) { return tables.Figures(set, dir) })
}

// printTables prints the tables of an experiment, its searches included.
func printTables(c *cli.Context, set *results.Set, metrics []string, against string) error {
	rows, err := tables.Tables(set.Cells, metrics, against)
	if err != nil {
		return exit.Usagef("%s: %w", set.Name, err)
	}
	if asJSON(c, map[string]any{"experiment": set.Name, "title": set.Title, "source": set.Source,
		"version": set.Version, "against": against, "tables": rows, "searches": set.Searches}) {
		return nil
	}
	title := set.Name
	if set.Title != "" {
		title += ": " + set.Title
	}
	fmt.Fprintf(c.App.Writer, "%s\nMeans over repetitions with 95 %% confidence intervals", title)
	if against != "" {
		fmt.Fprintf(c.App.Writer, ", as differences to %s on the same load", against)
	}
	fmt.Fprint(c.App.Writer, "; times in seconds. WIELAND and DRIFT: runs that each test of stability finds "+
		"stable.\n\n")
	tables.WriteText(c.App.Writer, rows)
	isSlowdown := func(metric string) bool { return strings.HasPrefix(metric, "slowdown") }
	if len(rows) > 0 && slices.ContainsFunc(rows[0].Metrics, isSlowdown) {
		fmt.Fprint(c.App.Writer, tables.SlowdownNote, "\n\n")
	}
	if len(set.Searches) > 0 {
		return tables.WriteSearches(c.App.Writer, set.Searches)
	}
	return nil
}

// isResults reports whether an argument is a file of results, in either form, and no run. No run has a / in its name.
func isResults(arg string) bool {
	if strings.Contains(arg, "/") || strings.HasSuffix(arg, ".sqlite") || strings.HasSuffix(arg, ".jsonl") {
		return true
	}
	info, err := os.Stat(arg)
	return err == nil && info.Mode().IsRegular() && results.IsResults(arg)
}

func writeStudy(c *cli.Context) error {
	text, err := study.WritePage(c.Context, c.StringSlice("study"), c.Args().Slice(), c.String("out"),
		"gantry "+strings.Join(os.Args[1:], " "), c.IsSet("html"))
	var output *study.OutputError
	switch {
	case errors.As(err, &output):
		return exit.Hostf("report: %w", err)
	case err != nil:
		return exit.Inputf("report: %w", trace.Plain(err))
	}
	write := func(w io.Writer) error { _, err := w.Write(text); return err }
	if !c.IsSet("html") {
		return write(c.App.Writer)
	}
	if err := writeTo(c.App.Writer, c.String("html"), write); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "wrote %s: open it in a browser\n", c.String("html"))
	return nil
}

// dotsKept bounds the workflows of each combination in a short file.
const dotsKept = 250

func saveResults(c *cli.Context) error {
	if c.NArg() != 1 {
		return exit.Usagef("report --save: name one file of results")
	}
	set, err := results.Load(c.Context, c.Args().First())
	if err != nil {
		return exit.With(exit.Input, err)
	}
	var studies []*study.Study
	for _, path := range c.StringSlice("study") {
		s, err := study.Read(path)
		if err != nil {
			return exit.With(exit.Input, trace.Plain(err))
		}
		studies = append(studies, s)
	}
	keep := func(metric string) bool {
		return len(studies) == 0 || slices.ContainsFunc(studies, func(s *study.Study) bool { return s.Keeps(metric) })
	}
	return writeTo(c.App.Writer, c.String("save"), func(w io.Writer) error { return set.WriteShort(w, keep, dotsKept) })
}
