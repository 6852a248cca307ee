package cmd

import (
	"os"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
)

func shellCommand() *cli.Command {
	return &cli.Command{
		Name:      "shell",
		Usage:     "open a shell in the image of a task, with its files and limits",
		ArgsUsage: "[RUN] TASK",
		Description: `Without RUN it is the latest run. TASK is the name of a task, WORKFLOW/NAME, #ID, or a
transformation that only one task has. The shell runs in a container like that of the task: its image, environment,
inputs, network if it had one, limits of CPU, memory, block I/O and processes. It begins in a copy of the
task's directory, where .command.sh is the command; inputs are links that cannot be written to. Once the run is over it
has the GPUs that the task held. The container and the directory are removed when the shell ends, and nothing is
published; gantry clean removes them if gantry was killed.

   gantry shell mBgModel
   echo 'sh .command.sh; ls -l' | gantry shell RUN TASK

The container is one of the runtime that the run has; if this host does not have that, of one that it has.

Exit codes: that of the shell; 2 wrong command line; 3 no such run or task, or one without a program; 4 the runtime is
not usable, or the image is gone.`,
		Flags: []cli.Flag{dirFlag(), &cli.StringFlag{Name: "shell", Value: "/bin/sh",
			Usage: "`PROGRAM` of the image to run"}},
		Action: shell,
	}
}

func shell(c *cli.Context) error {
	db, life, err := findTask(c)
	if err != nil {
		return err
	}
	defer db.Close()
	tty := term.Terminal(os.Stdin) && term.Terminal(os.Stdout)
	return session.OpenShell(c.Context, homeOf(c), db, life, c.String("shell"), tty)
}
