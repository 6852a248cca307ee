package cmd

import (
	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/session"
	"gantry/executor/own"
)

func resumeCommand() *cli.Command {
	return &cli.Command{
		Name:      "resume",
		Usage:     "continue a run that was stopped or crashed",
		ArgsUsage: "[RUN]",
		Description: `Without RUN it continues the latest run. Finished tasks are kept, running
containers are adopted, containers that ended meanwhile are logged, and lost tasks run again. All settings are those of
the run, but --policy lets another policy plan the rest.

In a run that has failed, tasks that failed, were skipped or cancelled get fresh tries. A task that succeeded runs again
only if an input file from outside has changed, or a task before it runs.

   gantry resume RUN --with FILE   continues a run, whatever its state, with the corrected workflow

Tasks that succeeded and are the same in FILE stay. New and changed tasks run, and all tasks after them; gantry says
which and why. Running tasks of a run that was stopped are ended first. Catalogs are looked for beside FILE and in the
working directory, as by gantry run; --catalog, --site, --define and the like are as the run began unless given again.

Exit codes: 0 all tasks succeeded, 1 tasks failed, 2 wrong command line, 3 no such run, one that succeeded, or invalid
input, 4 host or Docker not usable, 6 internal error, 75 another gantry holds the run, 130 stopped and resumable.`,
		Flags: append([]cli.Flag{dirFlag(),
			&cli.StringFlag{Name: "policy", Usage: "`POLICY` that plans the rest (default: the one that planned last)"},
			&cli.StringFlag{Name: "with", Usage: "continue with the corrected workflow or workload in `FILE`"},
			&cli.StringSliceFlag{Name: "inputs", Usage: "with --with: `DIR` with input files (may be repeated; " +
				"default: as the run began)"},
			&cli.BoolFlag{Name: "repair", Usage: "with --with: repair the workflow as far as possible"},
			&cli.StringFlag{Name: "slurm-job", Usage: "continue a run on Slurm in the allocation of job `ID` " +
				"(default: its last one, else the one that gantry runs in, else one like that which it requested)"},
			&cli.BoolFlag{Name: "strict", Usage: "fail if this host cannot enforce a limit, or with --strict=false " +
				"only warn (default: as the run began)"},
		}, shared("quiet json watch port no-prediction catalog site enforce-walltime container-mounts define "+
			"max-input results results-dir on-end")...),
		Action: taking(1, "name one run", func(c *cli.Context) error {
			s := session.New(nil, sessionOptions(c, ""))
			defer s.Close()
			return s.Continue(c.Context, c.Args().First(), c.String("with"))
		}),
	}
}

// changing takes over the options that hold for the process that continues a run.
func changing(c *cli.Context) func(*session.Settings) error {
	return func(set *session.Settings) error {
		if c.IsSet("policy") {
			set.Policy = own.In(".", c.String("policy"))
		}
		take(c, "strict", &set.Strict)
		take(c, "on-end", &set.OnEnd)
		return readResultsDir(c, set)
	}
}
