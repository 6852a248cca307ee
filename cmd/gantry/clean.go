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
		Usage:     "remove containers and control groups that a crash left behind",
		ArgsUsage: "[RUN]",
		Description: `Without RUN it cleans up after all runs. It leaves runs that a gantry works on, the log and all files alone. Tasks that a
crashed run had started are lost to it; gantry resume keeps them instead, and leaves nothing behind either. gantry rm also
removes the log and files of a run.

With --images it also removes the images of other builds of the task emulator. Use it while no other checkout of gantry runs
workflows: its runs may need them.

Exit codes: 0 cleaned, 2 wrong command line, 4 Docker not usable.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.BoolFlag{Name: "images", Usage: "also remove images of other builds of the task emulator that no " +
				"container uses"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return failf(exitUsage, "clean: name one run, or none for all")
			}
			dir, err := filepath.Abs(c.String("dir"))
			if err != nil {
				return fail(exitHost, err)
			}
			done, err := docker.Clean(c.Context, "", dir, c.Args().First())
			if err != nil {
				return fail(exitHost, err)
			}
			var images []string
			if c.Bool("images") {
				if images, err = docker.RemoveTaskImages(c.Context, ""); err != nil {
					return fail(exitHost, err)
				}
			}
			out := c.App.Writer
			if c.Bool("json") {
				printJSON(out, map[string][]string{"containers": orEmpty(done.Containers),
					"groups": orEmpty(done.Groups),
					"held":   orEmpty(done.Held), "unknown": orEmpty(done.Unknown), "images": orEmpty(images)})
				return nil
			}
			for _, name := range done.Containers {
				fmt.Fprintf(out, "removed container %s\n", name)
			}
			for _, group := range done.Groups {
				fmt.Fprintf(out, "removed control group %s\n", group)
			}
			for _, image := range images {
				fmt.Fprintf(out, "removed image %s\n", image)
			}
			for _, run := range done.Held {
				fmt.Fprintf(out, "left run %s alone: a gantry works on it\n", run)
			}
			for _, group := range done.Unknown {
				fmt.Fprintf(out, "left control group %s alone: its run is not in %s\n", group, dir)
			}
			if len(done.Containers)+len(done.Groups)+len(done.Held)+len(done.Unknown)+len(images) == 0 {
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
