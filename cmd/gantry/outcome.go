package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/term"
	"gantry/executor"
)

// manyTasks is the size from which the summary of a simulation leaves out tables that take long to compute.
const manyTasks = 20_000

// printOutcome prints the summary of a run that has ended.
func printOutcome(c *cli.Context) func(context.Context, *session, executor.Result, int) error {
	return func(ctx context.Context, s *session, res executor.Result, failed int) error {
		if c.Bool("quiet") && !c.Bool("json") {
			return nil
		}
		return summarise(ctx, c.App.Writer, s, res, failed, c.Bool("json"))
	}
}

func summarise(ctx context.Context, w io.Writer, s *session, res executor.Result, failed int, asJSON bool) error {
	v := s.engine.Planner.View()
	ended := time.Duration(res.Ended).Round(time.Millisecond)
	if s.serving != nil {
		s.view.Note("%s: %s, %s, %d failed or skipped", s.name, term.Plural(v.Workflows(), "workflow"),
			term.Plural(v.Tasks(), "task"), failed)
		return nil
	}
	if s.log == nil {
		fmt.Fprintf(w, "makespan %s, %s of %s, %d failed or skipped (no log)\n", ended, term.Plural(v.Tasks(), "task"),
			term.Plural(v.Workflows(), "workflow"), failed)
		return nil
	}
	if s.collector == nil || v.Tasks() <= manyTasks || asJSON {
		summary, err := s.db.Summary(context.WithoutCancel(ctx), s.name)
		if err != nil {
			return err
		}
		if asJSON {
			term.PrintJSON(w, summary)
			return nil
		}
		printSummary(w, summary, "", s.view.Told(), false)
		return nil
	}
	if res.Interrupted { // its metrics were not taken
		fmt.Fprintf(w, "Run %s: interrupted, %s of %d done\n  policy %s on sim, %s so far\n", s.name,
			term.Plural(s.view.Done(), "task"), v.Tasks(), s.set.Policy, ended)
	} else {
		values, err := s.db.Metrics(context.WithoutCancel(ctx), s.name)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "Run %s: %s of %s, %d failed or skipped\n  policy %s on sim, makespan %s. Times in seconds:\n\n",
			s.name, term.Plural(v.Tasks(), "task"), term.Plural(v.Workflows(), "workflow"), failed, s.set.Policy, ended)
		if err := printMetrics(w, values); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\ntypes of task, nodes, estimates: gantry show %s\nlog: %s\n", s.name, term.ShortPath(s.db.Path()))
	return nil
}
