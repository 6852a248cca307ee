package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor/container"
	"gantry/executor/container/docker"
)

func cleanCommand() *cli.Command {
	return &cli.Command{
		Name:      "clean",
		Usage:     "remove containers and control groups that a crash left behind",
		ArgsUsage: "[RUN]",
		Description: `Without RUN it cleans up after all runs, and after calibrations that were killed. It leaves runs
that a gantry works on, the log and all files alone. Tasks that a crashed run had started are lost to it; gantry resume
keeps them instead, and leaves nothing behind either. gantry rm also removes the log and files of a run. Job steps of
runs on Slurm are ended.

With --files it also deletes the files of runs that have ended, but for their results: work directories with the
output of tasks, and the copies of all inputs and outputs. With --keep-reuse it leaves the files that gantry run --reuse
and gantry resume --with need: inputs and outputs stay, work directories go.

With --images it also removes the images of other builds of the task emulator, and those unpacked images (gantry
images) that no run needs: none that runs, or that can continue. Use it while no other checkout of gantry runs
workflows: its runs may need the emulator's.

Leftovers of other runtimes are removed where Docker, or an OCI runtime, cannot be used.

Exit codes: 0 cleaned, 2 wrong command line, 3 no such run, 4 a runtime that runs of the log need is not usable here.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.BoolFlag{Name: "images", Usage: "also remove images of other builds of the task emulator that no " +
				"container uses, and unpacked images that no run needs"},
			&cli.BoolFlag{Name: "files", Usage: "also delete files of runs that have ended, but for their results"},
			&cli.BoolFlag{Name: "keep-reuse", Usage: "with --files: keep the inputs and outputs that --reuse needs"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: clean,
	}
}

// cleaning is the result of gantry clean.
type cleaning struct {
	container.Cleaned
	images, files []string // removed images; runs whose files were deleted
	freed         int64    // bytes
	noEngine      error    // why no images of a Docker Engine were cleaned
}

func clean(c *cli.Context) error {
	if c.NArg() > 1 {
		return exit.Usagef("clean: name one run, or none for all")
	}
	if c.Bool("keep-reuse") && !c.Bool("files") {
		return exit.Usagef("--keep-reuse works only with --files: add --files")
	}
	dir := homeOf(c)
	ctx, run := c.Context, c.Args().First()
	for _, r := range session.Runtimes {
		if r.Enter != nil && (c.Bool("images") && session.HasStore() || session.RanOn(ctx, dir, run, r.Name)) {
			if err := session.Enter(r.Name); err != nil {
				return err
			}
		}
	}
	shells, err := session.CleanShells(ctx, dir, run)
	if err != nil {
		return exit.With(exit.Host, err)
	}
	var done cleaning
	if done.Cleaned, done.files, done.freed, err = session.CleanCalibrations(ctx, dir, run); err != nil {
		return exit.With(exit.Host, err)
	}
	cleaned, partly := session.CleanUsable(ctx, dir, run)
	if partly != nil && !errors.Is(partly, session.ErrPartly) {
		return exit.With(exit.Host, partly)
	}
	done.Add(cleaned)
	done.Containers = append(done.Containers, shells...)
	if c.Bool("images") {
		if err := done.cleanImages(ctx); err != nil {
			return exit.With(exit.Host, err)
		}
	}
	if c.Bool("files") {
		files, bytes, err := session.CleanFiles(ctx, dir, run, c.Bool("keep-reuse"))
		done.files, done.freed = append(done.files, files...), done.freed+bytes
		if err != nil {
			return err
		}
	}
	if run != "" && done.none() && !session.Known(ctx, dir, run) {
		return exit.Inputf("clean: there is no run %q in %s (gantry ls lists them)", run, dir)
	}
	done.print(c, dir)
	if partly != nil {
		return exit.With(exit.Host, partly)
	}
	return nil
}

// cleanImages removes images that nothing needs.
func (d *cleaning) cleanImages(ctx context.Context) (err error) {
	if d.images, err = docker.RemoveTaskImages(ctx, ""); err != nil {
		if !errors.Is(err, container.ErrUnusable) {
			return err
		}
		d.noEngine = err
	}
	stored, bytes, err := session.RemoveStored(ctx)
	d.images, d.freed = append(d.images, stored...), d.freed+bytes
	return err
}

func (d *cleaning) print(c *cli.Context, dir string) {
	if d.noEngine != nil { // most often there is none, and nothing to clean
		fmt.Fprintf(c.App.ErrWriter, "gantry clean: no images of a Docker Engine are cleaned: %v\n", d.noEngine)
	}
	out := c.App.Writer
	if c.Bool("json") {
		term.PrintJSON(out, map[string]any{"files_of": orEmpty(d.files), "freed_bytes": d.freed,
			"containers": orEmpty(d.Containers), "groups": orEmpty(d.Groups), "held": orEmpty(d.Held),
			"unknown": orEmpty(d.Unknown), "images": orEmpty(d.images)})
		return
	}
	list := func(names []string, format string, more ...any) {
		for _, name := range names {
			fmt.Fprintf(out, format+"\n", append([]any{name}, more...)...)
		}
	}
	list(d.Containers, "removed container %s")
	list(d.Groups, "removed control group %s")
	list(d.files, "deleted files of run %s")
	list(d.images, "removed image %s")
	if len(d.files) > 0 || d.freed > 0 {
		fmt.Fprintf(out, "%s freed\n", term.Size(&d.freed))
	}
	list(d.Held, "left run %s alone: a gantry works on it")
	list(d.Unknown, "left control group %s alone: its run is not in %s", dir)
	if d.none() {
		fmt.Fprintln(out, "nothing to clean")
	}
}

// none reports whether nothing was found.
func (d *cleaning) none() bool {
	return len(d.Containers)+len(d.Groups)+len(d.files)+len(d.images)+len(d.Held)+len(d.Unknown) == 0
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
