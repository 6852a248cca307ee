package cmd

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
)

// onLinux are the commands that start containers, ask about those of this host, or talk to a server that starts them.
// All others only read and compute.
var onLinux = []string{"run", "map", "resume", "serve", "submit", "queue", "wait", "cancel", "drain", "node",
	"shell", "clean", "image", "setup", "doctor", "calibrate", "sbatch", "squeue", "scancel", "sacct", "slurm-node",
	"slurm-links"}

// onSystem has commands that need Linux say so on another system, before they do anything.
func onSystem(system string, commands []*cli.Command) {
	if system == "linux" {
		return
	}
	var rest []string
	for _, c := range commands {
		if !slices.Contains(onLinux, c.Name) {
			rest = append(rest, c.Name)
		}
	}
	for _, c := range commands {
		if slices.Contains(onLinux, c.Name) {
			c.Usage += " (needs Linux)"
			c.Before = func(*cli.Context) error {
				return exit.Hostf("gantry %s needs Linux: on this system gantry has %s", c.Name,
					strings.Join(rest, ", "))
			}
		}
	}
}
