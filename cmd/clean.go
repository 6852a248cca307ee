package cmd

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
)

func cleanCommand() *cli.Command {
	return &cli.Command{
		Name:      "clean",
		Usage:     "remove containers and control groups that a crash left behind",
		ArgsUsage: "[RUN]",
		Description: `Without RUN it cleans up after all runs, and after calibrations and tests by gantry doctor that
were killed. It leaves runs that a gantry works on, the log and all files alone. Tasks that a crashed run had started
are lost to it; gantry resume keeps them instead, and leaves nothing behind either. gantry rm also removes the log and
files of a run. Job steps of runs on Slurm are ended.

With --files it also deletes the files of runs that have ended, but for their results: work directories with the
output of tasks, and the copies of all inputs and outputs. With --keep-reuse it leaves the files that gantry run --reuse
and gantry resume --with need: inputs and outputs stay, work directories go.

With --images it also removes those unpacked images (gantry images) that no run needs: none that runs, or that can
continue.

Leftovers of other runtimes are removed where Docker, or an OCI runtime, cannot be used.

Exit codes: 0 cleaned, 2 wrong command line, 3 no such run, 4 a runtime that runs of the log need is not usable here.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.BoolFlag{Name: "images", Usage: "also remove unpacked images that no run needs"},
			&cli.BoolFlag{Name: "files", Usage: "also delete files of runs that have ended, but for their results"},
			&cli.BoolFlag{Name: "keep-reuse", Usage: "with --files: keep the inputs and outputs that --reuse needs"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: taking(1, "name one run, or none for all", clean),
	}
}

func clean(c *cli.Context) error {
	if c.Bool("keep-reuse") && !c.Bool("files") {
		return exit.Usagef("--keep-reuse works only with --files: add --files")
	}
	done, err := session.Clean(c.Context, homeOf(c), c.Args().First(), session.CleanMore{Images: c.Bool("images"),
		Files: c.Bool("files"), KeepReuse: c.Bool("keep-reuse")})
	if done != nil {
		printCleaning(c, done)
	}
	return err
}

func printCleaning(c *cli.Context, d *session.Cleaning) {
	out := c.App.Writer
	if asJSON(c, map[string]any{"files_of": orEmpty(d.Files), "freed_bytes": d.Freed,
		"containers": orEmpty(d.Containers), "groups": orEmpty(d.Groups), "held": orEmpty(d.Held),
		"unknown": orEmpty(d.Unknown), "images": orEmpty(d.Images)}) {
		return
	}
	list := func(names []string, format string, more ...any) {
		for _, name := range names {
			fmt.Fprintf(out, format+"\n", append([]any{name}, more...)...)
		}
	}
	list(d.Containers, "removed container %s")
	list(d.Groups, "removed control group %s")
	list(d.Files, "deleted files of run %s")
	list(d.Images, "removed image %s")
	if len(d.Files) > 0 || d.Freed > 0 {
		fmt.Fprintf(out, "%s freed\n", term.Size(&d.Freed))
	}
	list(d.Held, "left run %s alone: a gantry works on it")
	list(d.Unknown, "left control group %s alone: its run is not in %s", homeOf(c))
	if d.None() {
		fmt.Fprintln(out, "nothing to clean")
	}
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
