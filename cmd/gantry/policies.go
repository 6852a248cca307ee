package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/planner/policy"
)

func policiesCommand() *cli.Command {
	return &cli.Command{
		Name:  "policies",
		Usage: "list the scheduling policies and their parameters",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
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
			}
			for _, r := range policy.Table() {
				if c.Bool("json") {
					out := row{r.Name, r.Title, r.About, r.Source, []param{}}
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
			}
			return nil
		},
	}
}
