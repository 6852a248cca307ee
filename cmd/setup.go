package cmd

import (
	"gantry/cmd/internal/exit"

	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/urfave/cli/v2"
)

// setupScript also runs in make setup, when there is no gantry yet.
//
//go:embed setup.sh
var setupScript string

func setupCommand() *cli.Command {
	return &cli.Command{
		Name:  "setup",
		Usage: "install and start a Docker Engine, and crun, on Debian or Ubuntu",
		Description: `Does nothing where a Docker Engine answers and crun is there. Otherwise it installs packages of
the distribution, and starts the engine, as root or through sudo. It announces each change before it makes it, and
configures nothing. The packages take about 500 MB of disk.

Environment: DOCKER_HOST (another engine, which is only asked), GANTRY_DOCKER_WAIT (seconds for the engine to come up,
60).

Exit codes: 0 all is there, 2 wrong command line, 4 something cannot be installed or started.`,
		Action: taking(0, "", func(c *cli.Context) error {
			cmd := exec.CommandContext(c.Context, "bash", "-c", setupScript, "gantry setup", "engine", "runtime")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
			err := cmd.Run()
			if errors.As(err, new(*exec.ExitError)) {
				return exit.With(exit.Host, nil) // it said why
			} else if err != nil {
				return exit.Hostf("setup: %w (install bash)", err)
			}
			fmt.Fprintln(c.App.Writer, "setup: a Docker Engine answers")
			return nil
		}),
	}
}
