package cmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
)

// manyTasks is the size from which the summary of a simulation leaves out tables that take long to compute.
const manyTasks = 20_000

// printOutcome prints the summary of a run that has ended.
func printOutcome(c *cli.Context) func(context.Context, session.Outcome) error {
	return func(ctx context.Context, o session.Outcome) error {
		if c.Bool("quiet") && !c.Bool("json") {
			return nil
		}
		return summarise(context.WithoutCancel(ctx), c.App.Writer, o, c.Bool("json"))
	}
}

func summarise(ctx context.Context, w io.Writer, o session.Outcome, asJSON bool) error {
	v, ended := o.View, time.Duration(o.Result.Ended).Round(time.Millisecond)
	tasks, flows := term.Plural(v.Tasks(), "task"), term.Plural(v.Workflows(), "workflow")
	switch {
	case o.Server:
		o.Progress.Note("%s: %s, %s, %d failed or skipped", o.Run, flows, tasks, o.Failed)
		return nil
	case o.Log == nil:
		fmt.Fprintf(w, "makespan %s, %s of %s, %d failed or skipped (no log)\n", ended, tasks, flows, o.Failed)
		return nil
	case !o.Measured || v.Tasks() <= manyTasks || asJSON:
		summary, err := o.Log.Summary(ctx, o.Run)
		if err != nil {
			return err
		}
		if asJSON {
			term.PrintJSON(w, summary)
			return nil
		}
		// People who run programs look at files and failures first.
		tables := !session.Capabilities(summary.Runtime).Programs
		printSummary(w, summary, "", o.Progress.Told(), tables, false)
		return nil
	case o.Result.Interrupted: // its metrics were not taken
		fmt.Fprintf(w, "Run %s: interrupted, %s of %d done\n  policy %s on sim, %s so far\n", o.Run,
			term.Plural(o.Progress.Done(), "task"), v.Tasks(), o.Policy, ended)
	default:
		values, err := o.Log.Metrics(ctx, o.Run)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "Run %s: %s of %s, %d failed or skipped\n  policy %s on sim, makespan %s. Times in seconds:\n\n",
			o.Run, tasks, flows, o.Failed, o.Policy, ended)
		if err := printMetrics(w, values); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\ntypes of task, nodes, estimates: gantry show %s\nlog: %s\n", o.Run, term.ShortPath(o.Log.Path()))
	return nil
}
