package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/planner/policy"
)

func policiesCommand() *cli.Command {
	return &cli.Command{
		Name:      "policies",
		Usage:     "list the scheduling policies and their parameters; of one, also how its publication is read",
		ArgsUsage: "[NAME]",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: func(c *cli.Context) error {
			type param struct {
				Name   string   `json:"name"`
				Values []string `json:"values"`
				About  string   `json:"about"`
			}
			type row struct {
				Name   string  `json:"name"`
				Title  string  `json:"title"`
				About  string  `json:"about"`
				Source string  `json:"source"`
				Params []param `json:"params"`

				Readings []string `json:"readings,omitempty"`
			}
			table := policy.Table()
			name := c.Args().First()
			if name != "" {
				if _, err := policy.Parse(name); err != nil {
					return failf(exitUsage, "policies: %v", err)
				}
				name, _, _ = strings.Cut(name, ":")
				table = slices.DeleteFunc(table, func(r policy.Row) bool { return r.Name != name })
			}
			for _, r := range table {
				if c.Bool("json") {
					out := row{r.Name, r.Title, r.About, r.Source, []param{}, r.Readings}
					for _, p := range r.Params {
						out.Params = append(out.Params, param(p))
					}
					printJSON(c.App.Writer, out)
					continue
				}
				fmt.Fprintf(c.App.Writer, "%s: %s\n    %s\n    %s\n", r.Name, r.Title, r.About, r.Source)
				for _, p := range r.Params {
					fmt.Fprintf(c.App.Writer, "    %s:%s=%s  %s\n", r.Name, p.Name, strings.Join(p.Values, "|"),
						p.About)
				}
				if name == "" || len(r.Readings) == 0 {
					continue
				}
				fmt.Fprintln(c.App.Writer, "    How the publication is read:")
				for _, reading := range r.Readings {
					fmt.Fprintf(c.App.Writer, "    - %s\n", reading)
				}
			}
			return nil
		},
	}
}
