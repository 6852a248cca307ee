package cmd

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/planner/policy"
)

func policiesCommand() *cli.Command {
	return &cli.Command{
		Name:      "policies",
		Usage:     "list the scheduling policies and their parameters; of those named, also how their papers are read",
		ArgsUsage: "[NAME...]",
		Description: `NAME:KEY=VALUE sets a parameter, and NAME:KEY=VALUE,KEY=VALUE several. Values are divided by
"|" or commas; the first one is the default, and 0..9 is a range.

exec:PROGRAM is a program of your own (gantry policies exec).

   gantry policies rm-dcwf
   gantry simulate --policy rm-dcwf:config=pd-sl-tsp1 montage.dax

Exit codes: 0 listed, 2 no such policy.`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: func(c *cli.Context) error {
			rows := policy.Table()
			if names := c.Args().Slice(); len(names) > 0 {
				rows = nil
				for _, name := range names {
					r, err := policy.Named(name)
					if err != nil {
						return exit.Usagef("policies: %w", err)
					}
					rows = append(rows, r)
				}
			}
			for _, r := range rows {
				r.Params, r.Readings = append([]policy.Param{}, r.Params...), append([]string{}, r.Readings...)
				if asJSON(c, r) {
					continue
				}
				fmt.Fprintf(c.App.Writer, "%s: %s\n    %s\n    %s\n", r.Name, r.Title, r.About, r.Source)
				for _, p := range r.Params {
					values, about := strings.Join(p.Values, "|"), p.About
					if len(values) > 30 { // no terminal is to break it
						values, about = "VALUE", about+"; one of "+strings.Join(p.Values, ", ")
					}
					fmt.Fprintf(c.App.Writer, "    %s:%s=%s  %s\n", r.Name, p.Name, values, about)
				}
				for i, reading := range r.Readings {
					if c.NArg() == 0 {
						break
					}
					if i == 0 {
						fmt.Fprintln(c.App.Writer, "    How it is read:")
					}
					fmt.Fprintf(c.App.Writer, "    - %s\n", reading)
				}
			}
			return nil
		},
	}
}
