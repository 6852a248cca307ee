package cmd

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/sqlite"
	"gantry/sqlite/report/columns"
	"gantry/sqlite/report/summary"
)

// mostSummed bounds the tasks that are summed up unless somebody asks for it: of more an answer takes longer than a
// second.
const mostSummed = 200_000

func showCommand() *cli.Command {
	return &cli.Command{
		Name:      "show",
		Aliases:   slices.Sorted(maps.Keys(sections)),
		Usage:     "sum up a run: workflows, task types, outcomes, utilisation, warnings, failures",
		ArgsUsage: "[RUN...]",
		Description: `Without RUN it is the latest run; the beginning of a name is enough if no other run has it.
It works during a run.

Task types: "estimated" is the mean estimate of the policy; "measured" is the mean time from inputs in place to the
end, with the start of the container (of tasks that succeeded). CPU time, bytes read and written are sums over all
attempts, as is the time in which kernels ran on GPUs; peaks of memory are the largest. "-" means not measured.

Estimates (--all), by source: estimated over measured, and the mean error in percent of measured.

Deadlines: "remapped" is how often plans were made anew so that all deadlines can be met; "remap-failed", how often
that could not be, and the plans stayed; "remap-limit", how often a bound of the policy was reached.

Nodes: "cores held" is the share of its cores that tasks held over the makespan, "cores used" the CPU time they used.

--failures, or gantry analyze, shows the first failure: the failed task whose last attempt ended first. It blocked the
tasks that depend on it, directly or not, and are not done. Then come the last lines that it printed, and the command
that repeats it. Other failures follow in one line each.

--statistics, or gantry statistics, prints the numbers of pegasus-statistics, also of several runs:

   Tasks       tasks of the workflows that arrived
   Jobs        tasks that took a place on a node or are to: not those without time or with reused results
   Incomplete  not ended, or skipped
   Retries     attempts after the first of each task

   Workflow wall time       from the first arrival to the end of the last attempt, or so far
   Cumulative job           how long the programs of all attempts ran, failed ones included
   Submit side              from the order to start an attempt to its end: with staging and the start of the container
   Badput                   the same of attempts that did not end well and left no checkpoint

A transformation is a task type; its times are of the programs of all attempts that ran.

Exit codes: 0 shown, 1 with --failures: tasks failed, 2 wrong command line, 3 no log or no such run, 4 the log cannot be
read.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.BoolFlag{Name: "statistics", Usage: "print the numbers of pegasus-statistics"},
			&cli.BoolFlag{Name: "failures", Usage: "show the first failure, the tasks that it blocked, and how to " +
				"repeat it"},
			&cli.IntFlag{Name: "lines", Value: 20, Usage: "of failures: print the last `N` lines of each stream"},
			&cli.BoolFlag{Name: "tasks", Usage: "list the tasks, with the names that gantry explain and gantry logs " +
				"take"},
			&cli.BoolFlag{Name: "all", Usage: fmt.Sprintf("show the errors of estimates, too, and sum up a run of "+
				"more than %d tasks, which takes long", mostSummed)},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object, or with --tasks one for each task; null is " +
				"unknown"},
		},
		Action: func(c *cli.Context) error {
			switch {
			case c.Bool("statistics"):
				return onLog(statistics)(c)
			case c.Bool("failures"):
				return taking(1, "name one run", onLog(analyze))(c)
			}
			return taking(1, "name one run at a time", onLog(show))(c)
		},
	}
}

func show(c *cli.Context, db *sqlite.DB) error {
	most := mostSummed
	if c.Bool("all") {
		most = math.MaxInt
	}
	s, err := summary.Within(c.Context, db, c.Args().First(), most)
	if err != nil {
		return err
	}
	s.State = stateNow(c.String("dir"), &s.Overview)
	if at, err := time.Parse(time.RFC3339Nano, s.Started); err == nil && s.State == sqlite.Running &&
		session.Capabilities(s.Runtime).Adopts {
		s.Clock = max(s.Clock, sqlite.Span(time.Since(at))) // the log's is that of the last event
	}
	if c.Bool("tasks") {
		return showTasks(c, db, s.Run)
	}
	if asJSON(c, s) {
		return nil
	}
	submission := ""
	if db.OfOne() {
		submission = c.Args().First()
		s.Log = filepath.Join(c.String("dir"), sqlite.FileName)
	}
	printSummary(c.App.Writer, s, submission, nil, true, c.Bool("all"))
	return nil
}

// taskRow is how a task of a run stands. Nil is not known, or not yet.
type taskRow struct {
	Workflow string   `json:"workflow"`
	Task     string   `json:"task"`
	Kind     string   `json:"kind"`
	State    string   `json:"state"`
	Outcome  *string  `json:"outcome"` // of the last attempt, or "reused"; nil before one has ended
	Node     *string  `json:"node"`
	Attempts int      `json:"attempts"`
	Wait     *float64 `json:"wait_s"`
	Runtime  *float64 `json:"runtime_s"`
}

func showTasks(c *cli.Context, db *sqlite.DB, run string) error {
	t := columns.New(c.App.Writer, "task|type|state|node|-attempts|-wait|-runtime")
	seconds := func(s *float64) string {
		if s == nil {
			return "-"
		}
		return term.Meant(*s)
	}
	err := sqlite.EachRow(c.Context, db, func(x *taskRow) error {
		if asJSON(c, x) {
			return nil
		}
		node := "-"
		if x.Node != nil {
			node = *x.Node
		}
		state := x.State
		if x.Outcome != nil && *x.Outcome == "reused" {
			state = *x.Outcome
		}
		t.Row(x.Workflow+"/"+x.Task, x.Kind, state, node, x.Attempts, seconds(x.Wait), seconds(x.Runtime))
		return nil
	}, "SELECT workflow, task, kind, state, outcome, node, attempts, wait_s, runtime_s FROM v_tasks WHERE run = ?", run)
	if err != nil {
		return session.LogError(err)
	}
	t.End()
	return nil
}
