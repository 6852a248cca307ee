package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/term"
)

// manyTasks is the size from which the summary of a simulation leaves out tables that take long to compute.
const manyTasks = 20_000

// printOutcome prints the summary of a run that has ended.
func printOutcome(c *cli.Context) func(context.Context, outcome) error {
	return func(ctx context.Context, o outcome) error {
		if c.Bool("quiet") && !c.Bool("json") {
			return nil
		}
		return summarise(context.WithoutCancel(ctx), c.App.Writer, o, c.Bool("json"))
	}
}

func summarise(ctx context.Context, w io.Writer, o outcome, asJSON bool) error {
	v, ended := o.view, time.Duration(o.result.Ended).Round(time.Millisecond)
	tasks, flows := term.Plural(v.Tasks(), "task"), term.Plural(v.Workflows(), "workflow")
	switch {
	case o.server:
		o.progress.Note("%s: %s, %s, %d failed or skipped", o.run, flows, tasks, o.failed)
		return nil
	case o.log == nil:
		fmt.Fprintf(w, "makespan %s, %s of %s, %d failed or skipped (no log)\n", ended, tasks, flows, o.failed)
		return nil
	case !o.measured || v.Tasks() <= manyTasks || asJSON:
		summary, err := o.log.Summary(ctx, o.run)
		if err != nil {
			return err
		}
		if asJSON {
			term.PrintJSON(w, summary)
			return nil
		}
		printSummary(w, summary, "", o.progress.Told(), false)
		return nil
	case o.result.Interrupted: // its metrics were not taken
		fmt.Fprintf(w, "Run %s: interrupted, %s of %d done\n  policy %s on sim, %s so far\n", o.run,
			term.Plural(o.progress.Done(), "task"), v.Tasks(), o.policy, ended)
	default:
		values, err := o.log.Metrics(ctx, o.run)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "Run %s: %s of %s, %d failed or skipped\n  policy %s on sim, makespan %s. Times in seconds:\n\n",
			o.run, tasks, flows, o.failed, o.policy, ended)
		if err := printMetrics(w, values); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\ntypes of task, nodes, estimates: gantry show %s\nlog: %s\n", o.run, term.ShortPath(o.log.Path()))
	return nil
}
