package cmd

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
)

// calibrateNodes measures the cores of the nodes of an allocation by a job step on each.
func calibrateNodes(c *cli.Context) error {
	set := &session.Settings{}
	if err := readSlurm(c, set, true); err != nil {
		return err
	}
	home, err := homeOf(c)
	if err != nil {
		return err
	}
	view := term.New(c.Bool("quiet") || c.Bool("json"))
	reports, measured, err := session.MeasureNodes(c.Context, home, set, c.String("slurm-job"), view)
	if err != nil {
		return err
	}
	if asJSON(c, measured) {
		return nil
	}
	for _, r := range reports {
		fmt.Fprintf(c.App.Writer, "node %s: speed %v (%.0f MB/s of SHA-256 on a core)\n", r.Node, measured[r.Node],
			r.Rate/1e6)
	}
	return nil
}
