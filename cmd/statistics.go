package cmd

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/term"
	"gantry/sqlite"
	"gantry/sqlite/report/columns"
)

func statisticsCommand() *cli.Command {
	return &cli.Command{
		Name:      "statistics",
		Usage:     "print the numbers of pegasus-statistics: gantry show --statistics",
		ArgsUsage: "[RUN...]",
		Description: `gantry show --help explains them.

Exit codes: 0 printed, 2 wrong command line, 3 no such run, 4 the log cannot be read.`,
		Flags:  []cli.Flag{dirFlag(), &cli.BoolFlag{Name: "json", Usage: "print a JSON array"}},
		Action: onLog(statistics),
	}
}

func statistics(c *cli.Context, db *sqlite.DB) error {
	names := c.Args().Slice()
	if len(names) == 0 {
		names = []string{""}
	}
	var all []*sqlite.Statistics
	for _, name := range names {
		s, err := db.Statistics(c.Context, name)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	if asJSON(c, all) {
		return nil
	}
	for i, s := range all {
		if i > 0 {
			fmt.Fprintln(c.App.Writer)
		}
		if err := printStatistics(c.App.Writer, s); err != nil {
			return err
		}
	}
	return nil
}

func printStatistics(w io.Writer, s *sqlite.Statistics) error {
	fmt.Fprintf(w, "%s: %s\n\n", s.Run, s.State)
	t := columns.New(w, true)
	fmt.Fprintln(t, "TYPE\tSUCCEEDED\tFAILED\tINCOMPLETE\tTOTAL\tRETRIES\tTOTAL+RETRIES\t")
	for _, row := range []struct {
		name string
		of   sqlite.WorkCounts
	}{{"Tasks", s.Tasks}, {"Jobs", s.Jobs}, {"Workflows", s.Workflows}} {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", row.name, row.of.Succeeded, row.of.Failed, row.of.Incomplete,
			row.of.Total, row.of.Retries, row.of.Total+row.of.Retries)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = columns.New(w, false)
	for _, row := range []struct {
		name string
		of   *sqlite.Span
	}{{"Workflow wall time", s.WallTime}, {"Cumulative job wall time", &s.JobTime},
		{"Cumulative job wall time, submit side", &s.SubmitTime}, {"Cumulative job badput wall time", &s.Badput},
		{"Cumulative job badput wall time, submit side", &s.SubmitBadput}} {
		fmt.Fprintf(t, "%s\t%s\n", row.name, term.Span(row.of))
	}
	if err := t.Flush(); err != nil || len(s.Transformations) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nSeconds by transformation:")
	t = columns.New(w, true)
	fmt.Fprintln(t, "TRANSFORMATION\tCOUNT\tSUCCEEDED\tFAILED\tMIN\tMAX\tMEAN\tTOTAL\t")
	seconds := func(s sqlite.Span) string { return fmt.Sprintf("%.3f", time.Duration(s).Seconds()) }
	for _, x := range s.Transformations {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t\n", x.Name, x.Count, x.Succeeded, x.Failed, seconds(x.Min),
			seconds(x.Max), seconds(x.Mean), seconds(x.Total))
	}
	return t.Flush()
}
