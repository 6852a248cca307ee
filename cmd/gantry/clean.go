package main

import (
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"gantry/executor/docker"
)

func cleanCommand() *cli.Command {
	return &cli.Command{
		Name:      "clean",
		Usage:     "remove what a crash left of containers and control groups, and old images",
		ArgsUsage: "[RUN]",
		Description: `Without RUN it cleans up after all runs, and removes the images of older builds of the task emulator. Runs that a
gantry works on are left alone, and so are the log and all files. What was under way in a crashed run is lost to
it: to keep that, go on with gantry resume instead, which leaves nothing either.

Exit codes: 0 cleaned, 2 wrong command line, 4 Docker not usable.`,
		Flags: []cli.Flag{dirFlag(), &cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return failf(exitUsage, "one run, or all of them")
			}
			dir, err := filepath.Abs(c.String("dir"))
			if err != nil {
				return fail(exitHost, err)
			}
			done, err := docker.Clean(c.Context, "", dir, c.Args().First())
			if err != nil {
				return fail(exitHost, err)
			}
			out := c.App.Writer
			if c.Bool("json") {
				printJSON(out, map[string][]string{"containers": orEmpty(done.Containers), "groups": orEmpty(done.Groups), "held": orEmpty(done.Held), "unknown": orEmpty(done.Unknown), "images": orEmpty(done.Images)})
				return nil
			}
			for _, name := range done.Containers {
				fmt.Fprintf(out, "removed container %s\n", name)
			}
			for _, group := range done.Groups {
				fmt.Fprintf(out, "removed control group %s\n", group)
			}
			for _, image := range done.Images {
				fmt.Fprintf(out, "removed image %s\n", image)
			}
			for _, run := range done.Held {
				fmt.Fprintf(out, "left run %s alone: a gantry works on it\n", run)
			}
			for _, group := range done.Unknown {
				fmt.Fprintf(out, "left control group %s alone: its run is not in %s\n", group, dir)
			}
			if len(done.Containers)+len(done.Groups)+len(done.Held)+len(done.Unknown)+len(done.Images) == 0 {
				fmt.Fprintln(out, "nothing to clean")
			}
			return nil
		},
	}
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
